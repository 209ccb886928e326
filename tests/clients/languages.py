"""The three libraries: how each is built, and how a program that uses it is run."""
import functools
import os
import pathlib
import shutil
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
BUILT = REPOSITORY / "build" / "clients"
DSRV = pathlib.Path(os.environ.get("DFSMR_BIN") or REPOSITORY / "build/bin").resolve() / "dsrv"


class Missing(Exception):
    """A tool that this machine does not have."""


def need(*tools):
    for tool in tools:
        if shutil.which(tool) is None:
            raise Missing(f"{tool} is missing")


def run(*command, cwd=REPOSITORY, **environment):
    done = subprocess.run([str(word) for word in command], cwd=cwd, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, **environment})
    assert done.returncode == 0, f"{command}:\n{done.stdout}"
    return done.stdout


class Python:
    name = "python"
    readme = REPOSITORY / "proto/python/README.md"
    fence = "python"
    programs = HERE

    def build(self):
        shutil.rmtree(BUILT / "python", ignore_errors=True)
        run(sys.executable, REPOSITORY / "proto/python/generate.py", BUILT / "python")
        return self

    @property
    def environment(self):
        return {"PYTHONPATH": str(BUILT / "python")}

    def command(self, program):
        """Of one of the programs of this folder: worker or bench."""
        return [sys.executable, str(HERE / f"{program}.py")]

    def save(self, text, folder):
        """The command of a program from the README."""
        (folder / "program.py").write_text(text)
        return [sys.executable, str(folder / "program.py")]

    def test(self):
        return run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                   REPOSITORY / "proto/python/tests", **self.environment,
                   DFSMR_DSRV=str(DSRV))

    def reasons(self):
        return run(sys.executable, "-c", "import dfsmr; print(*dfsmr.Error._by_reason)",
                   **self.environment).split()

    def install(self, folder):
        """As pip does it, with the machine's own tools instead of those that it would fetch."""
        run(sys.executable, "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--quiet",
            "--no-index", "--target", folder / "site", "./proto/python")
        run(sys.executable, "-c", "import dfsmr, dfsmr._calls; dfsmr.v1.runner_pb2_grpc",
            cwd=folder, PYTHONPATH=str(folder / "site"))


LANGUAGES = [Python()]


@functools.cache
def built(language):
    return language.build()
