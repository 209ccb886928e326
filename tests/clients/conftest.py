"""A server for each module, a namespace for each test, a library for each run of it."""
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import languages  # noqa: E402
import support  # noqa: E402
from support import DSRV, Server  # noqa: E402
from tidy import tmp_path  # noqa: E402, F401


def pytest_sessionstart(session):
    if not session.config.option.collectonly and not DSRV.exists():
        pytest.exit(f"{DSRV} is missing: build it, or set DFSMR_BIN", 2)


@pytest.fixture(scope="session", params=languages.LANGUAGES, ids=lambda language: language.name)
def language(request):
    """A library, built. Without its tools it is skipped; where DFSMR_ALL_CLIENTS is set it fails."""
    try:
        return languages.built(request.param)
    except languages.Missing as missing:
        if os.environ.get("DFSMR_ALL_CLIENTS"):
            raise
        pytest.skip(f"no {request.param.name}: {missing}")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    shared = Server(tmp_path_factory.mktemp("server") / "data").start()
    try:
        yield shared
        assert shared.stop() == 0, shared.log
    finally:
        shared.dispose()


@pytest.fixture
def new_server(tmp_path):
    servers = []

    def make(*flags):
        servers.append(Server(tmp_path / f"data{len(servers)}", *flags))
        return servers[-1].start()

    yield make
    for made in servers:
        made.dispose()


@pytest.fixture
def space(server, request):
    return server.space(support.fresh_name(request.node.originalname))
