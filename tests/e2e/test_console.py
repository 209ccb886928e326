"""The console in a browser: tests/e2e/console/*.test.mjs, each against real servers of its own."""
import os
import pathlib
import shutil
import subprocess

import pytest

from stubs import REPOSITORY

CONSOLE = REPOSITORY / "dsrv" / "console"
TESTS = REPOSITORY / "tests" / "e2e" / "console"
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
LIMIT = 1800.0  # seconds for one file


def missing():
    if not shutil.which("npm"):
        return "npm is not installed"
    return None if pathlib.Path(CHROMIUM).exists() else f"there is no {CHROMIUM}"


@pytest.fixture(scope="module")
def tools():
    """The packages that drive the browser, as dsrv/console/package-lock.json pins them."""
    lacking = missing()
    if lacking:
        assert os.environ.get("DFSMR_CONSOLE") != "1", f"the console is not tested: {lacking}"
        pytest.skip(f"the console is not tested: {lacking}")
    subprocess.run([CONSOLE / "check", "install"], check=True, timeout=LIMIT)


@pytest.mark.parametrize("name", sorted(file.name for file in TESTS.glob("*.test.mjs")))
def test_console(tools, name):
    run = subprocess.run(["node", "--test", TESTS / name], capture_output=True, text=True,
                         timeout=LIMIT)
    assert run.returncode == 0, run.stdout[-20000:] + run.stderr
