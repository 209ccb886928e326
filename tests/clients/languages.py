"""The three libraries: how each is built, and how a program that uses it is run.

    languages.py      builds all, with their stubs, into build/clients (the target client_stubs)
"""
import functools
import os
import pathlib
import re
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


class Go:
    name = "go"
    readme = REPOSITORY / "proto/go/README.md"
    fence = "go"
    environment = {"GOFLAGS": "-mod=mod"}

    def build(self):
        need("go", "protoc")
        (BUILT / "go").mkdir(parents=True, exist_ok=True)
        run("go", "build", "-o", str(BUILT / "go") + "/", "./...", cwd=HERE / "go")
        return self

    def command(self, program):
        return [str(BUILT / "go" / program)]

    def module(self, folder):
        """As a user has it: a module that requires the library, which is in a folder."""
        run("go", "mod", "init", "example", cwd=folder)
        run("go", "mod", "edit", f"-replace=dfsmr={REPOSITORY / 'proto/go'}", "-go=1.19", cwd=folder)
        run("go", "mod", "tidy", cwd=folder)

    def save(self, text, folder):
        (folder / "main.go").write_text(text)
        self.module(folder)
        run("go", "build", "-o", "program", ".", cwd=folder)
        return [str(folder / "program")]

    def test(self):
        run("go", "vet", "./...", cwd=REPOSITORY / "proto/go")
        run("go", "test", "-count=1", "./...", cwd=REPOSITORY / "proto/go", DFSMR_DSRV=str(DSRV))

    def reasons(self):
        return re.findall(r'Reason = "([A-Z_]+)"', (REPOSITORY / "proto/go/errors.go").read_text())

    def install(self, folder):
        """What is committed are the stubs of the protos: `go get` generates nothing."""
        run(REPOSITORY / "proto/go/generate", folder)
        for made in (folder / "v1").iterdir():
            kept = REPOSITORY / "proto/go/v1" / made.name
            assert self._code(made) == self._code(kept), f"run proto/go/generate: {made.name}"

    @staticmethod
    def _code(path):
        """Without comments, which also name the version of protoc."""
        return re.sub(r"(?m)\s*//.*$", "", path.read_text())


class TypeScript:
    name = "typescript"
    readme = REPOSITORY / "proto/typescript/README.md"
    fence = "ts"
    package = REPOSITORY / "proto/typescript"
    environment = {}

    def build(self):
        need("node", "npm")
        run("node", self.package / "build.js")
        self.compile(BUILT / "typescript", HERE / "typescript/worker.ts", HERE / "typescript/bench.ts")
        return self

    def compile(self, folder, *sources):
        """Strictly, against the types that users have."""
        modules = folder / "node_modules"
        modules.mkdir(parents=True, exist_ok=True)
        for name, place in {"dfsmr": self.package, "@grpc": self.package / "node_modules/@grpc",
                            "@types": self.package / "node_modules/@types"}.items():
            (modules / name).unlink(missing_ok=True)
            (modules / name).symlink_to(place)
        for source in sources:
            shutil.copy(source, folder)
        run("node", self.package / "node_modules/typescript/bin/tsc", "--strict", "--target", "es2022",
            "--module", "commonjs", "--moduleResolution", "node", "--types", "node",
            "--esModuleInterop", "--skipLibCheck", *[source.name for source in sources], cwd=folder)

    def command(self, program):
        return ["node", str(BUILT / "typescript" / f"{program}.js")]

    def save(self, text, folder):
        source = folder / "source" / "program.ts"
        source.parent.mkdir()
        source.write_text(text)
        self.compile(folder, source)
        return ["node", str(folder / "program.js")]

    def test(self):
        run("node", "--test", "dist/test/dfsmr.test.js", cwd=self.package, DFSMR_DSRV=str(DSRV))
        types = "\n".join(path.read_text() for path in (self.package / "dist").glob("*.d.ts"))
        assert not re.search(r"[:<|(] ?any\b", types), "the public surface has any"

    def reasons(self):
        return re.findall(r'reason = "([A-Z_]+)"', (self.package / "src/errors.ts").read_text())

    def install(self, folder):
        """From a copy without what is built, as a clone has it."""
        clone = folder / "clone"
        shutil.copytree(REPOSITORY / "proto", clone / "proto", ignore=shutil.ignore_patterns(
            "node_modules", "dist", "protos", "messages.ts", "calls.ts", "python", "go"))
        user = folder / "user"
        user.mkdir()
        run("npm", "init", "-y", cwd=user)
        run("npm", "install", "--no-audit", "--no-fund", clone / "proto/typescript", cwd=user)
        run("node", "-e", "if (!require('dfsmr').Worker) process.exit(1)", cwd=user)


LANGUAGES = [Python(), Go(), TypeScript()]


@functools.cache
def built(language):
    return language.build()


if __name__ == "__main__":
    for each in LANGUAGES:
        try:
            each.build()
        except Missing as missing:
            print(f"no library for {each.name}: {missing}")
