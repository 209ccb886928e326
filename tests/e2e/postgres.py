"""A PostgreSQL of the distribution for tests, in a folder of its own, on a socket in it."""
import atexit
import contextlib
import functools
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

WORDS = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]


def words():
    """It refuses to run as root."""
    return WORDS if os.getuid() == 0 else []


def folder():
    made = pathlib.Path(tempfile.mkdtemp(prefix="dfsmr-pg-"))
    made.chmod(0o755)
    if words():
        shutil.chown(made, "postgres", "postgres")
    return made


def program(name):
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    assert found, "install the package postgresql"
    return str(found[-1])


def run(name, *flags):
    subprocess.run([*words(), program(name), *flags], check=True, cwd="/", stdout=subprocess.DEVNULL)


@functools.cache
def empty():
    """The data of an empty database, which takes longer to make than to copy."""
    made = folder()
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    run("initdb", "-D", str(made / "data"), "-A", "trust", "-U", "tester", "--no-sync")
    return made / "data"


class Postgres:
    def __init__(self, settings=""):
        template = empty()
        self.folder = folder()
        self.data = self.folder / "data"
        subprocess.run([*words(), "cp", "-r", template, self.data], check=True, cwd="/")
        with (self.data / "postgresql.auto.conf").open("a") as file:
            file.write(f"listen_addresses = ''\nunix_socket_directories = '{self.folder}'\n"
                       f"max_connections = 100\nshared_buffers = 32MB\n{settings}\n")
        self.process = None
        self.start()

    def start(self):
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*words(), program("postgres"), "-D", str(self.data)], cwd="/",
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        ready = [program("pg_isready"), "-q", "-h", str(self.folder)]
        until = time.monotonic() + 30
        while subprocess.run(ready).returncode != 0:
            assert time.monotonic() < until and self.process.poll() is None, self.log()
            time.sleep(0.02)

    def log(self):
        return (self.folder / "log").read_text(errors="replace")

    def url(self):
        return f"postgresql://tester@/postgres?host={self.folder}"

    def sql(self, text):
        """The first column of the first row, as text."""
        done = subprocess.run([*self._psql(), "-c", text], check=True, capture_output=True, text=True)
        return done.stdout.split("\n", 1)[0]

    @contextlib.contextmanager
    def holding(self, text):
        """Meanwhile a transaction that has run this statement does not end."""
        process = subprocess.Popen(self._psql(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        process.stdin.write(f"begin;\n{text};\nselect 'held';\n")
        process.stdin.flush()
        while process.stdout.readline() != "held\n":
            assert process.poll() is None
        try:
            yield
        finally:
            process.communicate("rollback;\n", timeout=30)

    def _psql(self):
        return [program("psql"), "-qAtX", "-v", "ON_ERROR_STOP=1", "-h", str(self.folder), "-U",
                "tester", "postgres"]

    def kill(self):
        """As if its machine had lost power, but for the disk."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(30)

    def dispose(self):
        if self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
