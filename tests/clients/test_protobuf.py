"""The library for Python with the newest protobuf; the other tests have Debian's."""
import subprocess
import sys

import pytest
from languages import DSRV, LANGUAGES, REPOSITORY, built, run

PYTHON = LANGUAGES[0]


@pytest.fixture(scope="module")
def newest(tmp_path_factory):
    """A folder with it; skips the tests where pip cannot get it."""
    folder = tmp_path_factory.mktemp("newest")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
         "--target", str(folder), "protobuf"], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"pip cannot get protobuf: {done.stderr.strip().splitlines()[-1:]}")
    return folder


def test_requests_are_made_with_the_newest_protobuf_too(newest, server, space):
    path = f"{newest}:{built(PYTHON).environment['PYTHONPATH']}"
    run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
        REPOSITORY / "proto/python/tests", PYTHONPATH=path, DFSMR_DSRV=str(DSRV))
    program = """
import google.protobuf, sys, dfsmr
client = dfsmr.Client(sys.argv[1], namespace=sys.argv[2])
client.define("id: m\\nnodes: {a: {start: true, final: true}}")
instance = client.start("m", id="i", labels={"k": "v"}).instance
assert dict(instance.labels) == {"k": "v"}
assert [one.id for one in client.list(labels={"k": "v"})] == ["i"]
print(google.protobuf.__version__)
"""
    version = run(sys.executable, "-c", program, server.address, space.name, PYTHONPATH=path)
    assert int(version.split(".")[0]) >= 6
