"""Fixtures: a server for each module, a namespace for each test."""
import signal

import pytest

import postgres
import support
from cluster_servers import Sharers
from support import CONSUMER, MACHINES, Cli, Server, fresh_name
from tidy import tmp_path  # noqa: F401


def pytest_sessionstart(session):
    if not session.config.option.collectonly and not support.DSRV.exists():
        pytest.exit(f"{support.DSRV} is missing: build it, or set DFSMR_BIN", 2)


def pytest_collection_modifyitems(items):
    """With several processes (pytest -n 3 --dist loadgroup) a file runs in one of them, since its tests
    share a server; but the console's, which have servers of their own and take longest: those begin,
    and each may run in another process."""
    console = [item for item in items if item.path.name == "test_console.py"]
    others = [item for item in items if item.path.name != "test_console.py"]
    for item in others:
        item.add_marker(pytest.mark.xdist_group(item.path.name))
    items[:] = console + others


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failed test shows what the servers of its time wrote."""
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for server in Server.all:
            lines = server.log.splitlines()[-60:]
            report.sections.append((f"dsrv on {server.address}", "\n".join(lines)))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One server for all tests of a module. It must outlive them, and end well."""
    shared = Server(tmp_path_factory.mktemp("server") / "data").start()
    try:
        yield shared
        assert shared.process.poll() is None, f"dsrv died:\n{shared.log}"
        assert shared.stop() == 0, shared.log
    finally:
        shared.dispose()


@pytest.fixture(scope="module")
def web_server(tmp_path_factory):
    """The same with a door for HTTP."""
    shared = Server(tmp_path_factory.mktemp("web") / "data", "--http", "localhost:0").start()
    try:
        yield shared
        assert shared.process.poll() is None, f"dsrv died:\n{shared.log}"
        assert shared.stop() == 0, shared.log
    finally:
        shared.dispose()


@pytest.fixture
def new_server(tmp_path):
    """Makes servers of a test's own."""
    servers = []

    def make(*flags, data=None, **more):
        folder = data or tmp_path / f"data{len(servers)}"
        servers.append(Server(folder, *flags, **more))
        return servers[-1]

    yield make
    for made in servers:
        made.dispose()


@pytest.fixture(scope="module")
def database():
    """A PostgreSQL for the servers of a module."""
    made = postgres.Postgres()
    yield made
    made.dispose()


@pytest.fixture
def sharers(database):
    """Makes servers that share a store, which is the test's own."""
    made = Sharers(database.url())
    yield made
    made.dispose()


@pytest.fixture
def space(server, request):
    """A namespace that no other test uses."""
    return server.space(fresh_name(request.node.originalname or request.node.name))


@pytest.fixture
def dcli(space):
    return Cli(space.server.address, space.name)


@pytest.fixture
def define(dcli):
    """Loads a file of machines/, with pieces of its text replaced."""
    def load(name, instead={}):
        [file] = MACHINES.glob(f"{name}.*.yaml")
        text = file.read_text()
        for old, new in instead.items():
            assert old in text
            text = text.replace(old, new)
        return dcli.ok("define", "-", input=text)
    return load


@pytest.fixture
def work(dcli):
    """Runs dcli work in the background; it must end well when it is told to."""
    running = []

    def begin(*arguments, **environment):
        process = dcli.background("work", *arguments, environment={**environment, **CONSUMER})
        running.append(process)
        return process

    yield begin
    for process in running:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        assert process.returncode == 0, err + out
