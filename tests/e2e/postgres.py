"""A PostgreSQL of the distribution for tests, in a folder of its own, on a socket in it."""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

WORDS = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]


class Postgres:
    def __init__(self, settings=""):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dfsmr-pg-"))
        self.folder.chmod(0o755)
        # It refuses to run as root.
        self.words = WORDS if os.getuid() == 0 else []
        if self.words:
            shutil.chown(self.folder, "postgres", "postgres")
        self.data = self.folder / "data"
        self._run("initdb", "-D", str(self.data), "-A", "trust", "-U", "tester", "--no-sync")
        with (self.data / "postgresql.auto.conf").open("a") as file:
            file.write(f"listen_addresses = ''\nunix_socket_directories = '{self.folder}'\n"
                       f"max_connections = 100\nshared_buffers = 32MB\n{settings}\n")
        self.process = None
        self.start()

    @staticmethod
    def _program(name):
        found = sorted(pathlib.Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
        assert found, "install the package postgresql"
        return str(found[-1])

    def _run(self, name, *words):
        subprocess.run([*self.words, self._program(name), *words], check=True, cwd="/",
                       stdout=subprocess.DEVNULL)

    def start(self):
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self.words, self._program("postgres"), "-D", str(self.data)], cwd="/",
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        ready = [self._program("pg_isready"), "-q", "-h", str(self.folder)]
        until = time.monotonic() + 30
        while subprocess.run(ready).returncode != 0:
            assert time.monotonic() < until and self.process.poll() is None, self.log()
            time.sleep(0.02)

    def log(self):
        return (self.folder / "log").read_text(errors="replace")

    def url(self):
        return f"postgresql://tester@/postgres?host={self.folder}"

    def kill(self):
        """As if its machine had lost power, but for the disk."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(30)

    def dispose(self):
        if self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
