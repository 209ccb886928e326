"""Agents that run what packages bring: dcli agent --package against a real server."""
import json
import os
import pathlib
import re
import signal
import stat
import subprocess
import threading
import time

import pytest

import grpc
from concurrent import futures

from stubs import agent_grpc, package as pk, package_grpc, v1, v1_grpc
from support import DCLI, SOON, Cli, eventually, only, result
from test_agent_run import FakeServer, lives
from test_packages import Registry, archive, digest_of
from test_security import guarded, root  # noqa: F401, fixtures

MACHINE = """\
id: {id}
nodes:
  {node}: {{start: true, {more}transitions: {{ok: end, error: bad}}}}
  end: {{final: true}}
  bad: {{final: true, result: error}}
"""


def machine(id="m", node="a", more=""):
    return MACHINE.format(id=id, node=node, more=more)


class Agent:
    def __init__(self, cli, folder, *flags, name="h1", environment=None):
        self.log = folder / f"{name}.log"
        self.out = self.log.open("ab")
        (folder / "tmp").mkdir(exist_ok=True)
        self.process = subprocess.Popen(
            [str(DCLI), "agent", "--name", name, "--cache", str(folder / "cache"), "--jobs", "4",
             *map(str, flags)],
            stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.out,
            env={**cli.environment, "TMPDIR": str(folder / "tmp"), "no_proxy": "127.0.0.1",
                 **(environment or {})})

    @property
    def text(self):
        return self.log.read_text(errors="replace")

    def ready(self):
        eventually(lambda: "takes work" in self.text or self.process.poll() is not None)
        assert self.process.poll() is None, self.text
        return self

    def stop(self, sign=signal.SIGTERM):
        self.process.send_signal(sign)
        return self.process.wait(SOON)

    def dispose(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.out.close()


@pytest.fixture
def registry(space):
    return Registry(space)


@pytest.fixture
def start_agent(space, tmp_path):
    made = []

    def begin(*flags, folder=tmp_path, ready=True, **more):
        made.append(Agent(Cli(space.server.address, space.name), folder, *flags, **more))
        return made[-1].ready() if ready else made[-1]

    yield begin
    for agent in made:
        agent.dispose()


def put(registry, version="1.0.0", manifest="", documents=None, activate=True, **files):
    """A package of scripts: bin/NAME from name=text."""
    more = manifest or "workers:\n  all: {serves: ['*'], run: ./bin/run}\n"
    one = registry.push(version, documents=documents or {"m.yaml": machine()}, more=more,
                        files={f"bin/{name}": "#!/bin/sh\n" + text
                               for name, text in files.items()})
    if activate:
        registry.activate(version)
    return one


def wait_for(path):
    return f"while ! test -e {path}; do sleep 0.05; done"


def ends(space, id, wanted="SUCCESS"):
    eventually(lambda: result(space.get(id)) != "PENDING", 4 * SOON)
    assert result(space.get(id)) == wanted, space.get(id)


# One task -------------------------------------------------------------------------------------


def test_a_task_runs_in_its_package(space, registry, start_agent, tmp_path):
    seen = tmp_path / "seen"
    one = put(registry, run=f"""
env > {seen}; pwd >> {seen}; cat "$DFSMR_PACKAGE/documents/m.yaml" > {seen}.yaml
echo said; echo '{{"output": {{"n": 1}}}}'
""")
    agent = start_agent("--package", "p")
    id = space.start("p.m")
    ends(space, id)
    lines = seen.read_text().splitlines()
    env = dict(line.split("=", 1) for line in lines[:-1] if "=" in line)
    folder = pathlib.Path(env["DFSMR_PACKAGE"])
    assert folder == tmp_path / "cache" / "packages" / one.digest[7:] / "p-1.0.0"
    assert lines[-1] == str(folder)
    assert (tmp_path / "seen.yaml").read_text() == machine()
    for path in [folder, *folder.rglob("*")]:
        assert not path.stat().st_mode & 0o222, path
    assert (folder / "bin" / "run").stat().st_mode & stat.S_IXUSR
    cli = Cli(space.server.address, space.name)
    said = cli.ok("logs", id)
    assert "fetching p@1.0.0, sha256:" in said and "fetched p@1.0.0" in said and "said" in said
    [listed] = cli.json("agents")["agents"]
    assert listed["packages"] == ["p"]
    assert "begun" in agent.text


def test_each_worker_has_its_directory_middleware_and_mode(space, registry, start_agent, tmp_path):
    where = tmp_path / "where"
    put(registry, documents={
        "m.yaml": "plan: m\nuse: [loud]\nflow:\n"
                  "  - {step: one, action: one}\n  - {step: two, action: two, after: [one]}\n"
                  "---\nid: many\nnodes:\n"
                  "  go: {start: true, transitions: {ok: end, error: bad}}\n"
                  "  end: {final: true}\n  bad: {final: true, result: error}\n"},
        manifest="workers:\n"
                 "  one: {run: ./bin/here, directory: task}\n"
                 "  two: {run: [./bin/here]}\n"
                 "  many: {serves: [many.go], run: ./bin/serve, mode: serve}\n"
                 "middleware: {loud: ./bin/loud}\n",
        here=f"echo $DFSMR_NODE $PWD >> {where}\n",
        loud=f'echo loud >> {where}; exec "$@"\n',
        serve=f"""echo begun $$ >> {where}
while read line; do
  id=$(echo "$line" | sed 's/.*"id":"\\([0-9]*\\)","task".*/\\1/')
  echo '{{"type":"result","id":"'$id'"}}'
done
""")
    agent = start_agent("--package", "p")
    id = space.start("p.m")
    ends(space, id)
    loud, one, loud_too, two = where.read_text().splitlines()
    assert (loud, loud_too) == ("loud", "loud")
    assert re.fullmatch(r"one /.*/op-\w+/work", one)
    assert re.fullmatch(r"two /.*/cache/packages/[0-9a-f]{64}/p-1.0.0", two)
    where.unlink()
    for _ in range(3):
        ends(space, space.start("p.many"))
    assert len(where.read_text().splitlines()) == 1
    assert agent.stop() == 0


def test_versions_run_side_by_side(space, registry, start_agent, tmp_path):
    where = tmp_path / "where"
    gate = tmp_path / "gate"
    put(registry, "1.0.0", run=f"echo one >> {where}; {wait_for(gate)}")
    start_agent("--package", "p")
    first = [space.start("p.m") for _ in range(2)]
    eventually(lambda: where.exists() and where.read_text().split() == ["one", "one"])
    put(registry, "2.0.0", documents={"m.yaml": machine(node="b")}, run=f"echo two >> {where}")
    ends(space, space.start("p.m"))
    assert where.read_text().split() == ["one", "one", "two"]
    gate.touch()
    for id in first:
        ends(space, id)
        assert space.get(id).package.version == "1.0.0"


def test_setup_runs_once_before_the_first_task(space, registry, start_agent, tmp_path):
    where, begun, gate = (tmp_path / name for name in ("where", "begun", "gate"))
    put(registry, manifest="setup: ./bin/setup\n"
                           "workers:\n  all: {serves: ['*'], run: ./bin/run}\n",
        setup=f"touch {begun}; echo tools; {wait_for(gate)}; sleep 1; echo setup $PWD >> {where}",
        run=f"echo run >> {where}")
    start_agent("--package", "p", "--begin-within", "1s")
    ids = [space.start("p.m")]
    eventually(begun.exists)
    ids += [space.start("p.m") for _ in range(3)]  # handed out while the setup runs
    eventually(lambda: all(only(space.get(id).tokens).attempt for id in ids))
    gate.touch()
    for id in ids:
        ends(space, id)
    lines = where.read_text().splitlines()
    assert lines[0].startswith("setup /") and lines[1:] == ["run"] * 4
    said = Cli(space.server.address, space.name).ok("logs", ids[0])
    assert "setting up p@1.0.0" in said and "tools" in said
    start_agent("--package", "p", name="h2")
    Cli(space.server.address, space.name).ok("agents", "drain", "h1")
    ends(space, space.start("p.m"))
    assert [line.split()[0] for line in where.read_text().splitlines()][-2:] == ["setup", "run"]


# What cannot be run here -----------------------------------------------------------------------


def refusals(space, name):
    shown = Cli(space.server.address, space.name).json("agents", "show", name)
    return [one["reason"] for one in shown.get("refuses", [])]


def test_a_setup_that_fails_is_told_and_another_agent_runs_it(space, registry, start_agent,
                                                              tmp_path):
    flag = tmp_path / "flag"
    put(registry, manifest="setup: ./bin/setup\nsetup_timeout: 2s\n"
                           "workers:\n  all: {serves: ['*'], run: ./bin/run}\n",
        setup='test "$DFSMR_AGENT" != bad || { echo no disk here >&2; exit 7; }\n'
              'test "$DFSMR_AGENT" != slow || sleep 100\n',
        run=f"echo $DFSMR_AGENT > {flag}")
    start_agent("--package", "p", name="bad")
    id = space.start("p.m")
    [why] = eventually(lambda: refusals(space, "bad"))
    assert why == "the setup of p@1.0.0: exit status 7: no disk here"
    start_agent("--package", "p", name="slow")
    [why] = eventually(lambda: refusals(space, "slow"), 4 * SOON)
    assert why == "the setup of p@1.0.0: it ran for longer than 2.00s (setup_timeout)"
    assert only(space.get(id).tokens).attempt <= 1
    start_agent("--package", "p", name="good")
    ends(space, id)
    assert flag.read_text() == "good\n"


def test_what_its_worker_requires_it_must_have(space, registry, start_agent, tmp_path):
    put(registry, manifest="workers:\n"
                           "  all: {serves: ['*'], run: ./bin/run, requires: [gpu]}\n", run="true")
    start_agent("--package", "p")
    id = space.start("p.m")
    why = eventually(lambda: only(space.get(id).tokens).why)
    assert why == "no agent has gpu"
    start_agent("--package", "p", "--capability", "gpu", name="h2")
    ends(space, id)


def test_a_program_that_is_not_on_the_path_is_missed_by_its_worker_alone(space, registry,
                                                                        start_agent):
    put(registry, documents={"m.yaml": machine(), "n.yaml": machine("n")},
        manifest="workers:\n  one: {serves: [m.a], run: [no-such-program-here]}\n"
                 "  two: {serves: [n.a], run: [sh, -c, 'true']}\n")
    start_agent("--package", "p")
    ends(space, space.start("p.n"))
    space.start("p.m")
    [why] = eventually(lambda: refusals(space, "h1"))
    assert why == ("the worker one of p@1.0.0 runs 'no-such-program-here', which is not on this "
                   "agent's PATH")


def test_an_agent_serves_its_file_first_and_packages_only_if_named(space, registry, start_agent,
                                                                   tmp_path):
    file = tmp_path / "workers.yaml"
    file.write_text(f"workers: {{p.m.a: 'echo file >> {tmp_path}/who'}}\n")
    put(registry, documents={"m.yaml": machine(), "n.yaml": machine("n")},
        run=f"echo package >> {tmp_path}/who")
    one = start_agent("--workers", file)
    ends(space, space.start("p.m"))
    waits = space.start("p.n")
    assert (tmp_path / "who").read_text() == "file\n"
    one.stop()
    assert result(space.get(waits)) == "PENDING"
    start_agent("--workers", file, "--package", "p", name="h2")
    ends(space, waits)
    ends(space, space.start("p.m"))
    assert (tmp_path / "who").read_text() == "file\npackage\nfile\n"


def test_without_flags_it_serves_all_packages_and_nothing_else(space, registry, start_agent):
    put(registry, run="true")
    space.define(machine("hand") + "---\nplan: undotted\nflow: [{step: s, action: alone}]\n")
    mine = [space.start("hand"), space.start("undotted")]
    start_agent()
    ends(space, space.start("p.m"))
    assert refusals(space, "h1") == []
    for id in mine:
        assert only(space.get(id).tokens).attempt == 0
    [agent] = Cli(space.server.address, space.name).json("agents")["agents"]
    assert agent["packages"] == ["*"]


def test_an_action_is_taken_of_packages_alone(space, registry, start_agent):
    put(registry, documents={"m.yaml": machine(), "n.yaml": machine("n")}, run="true")
    other = space.start("p.m")
    start_agent("--action", "p.n.*")
    ends(space, space.start("p.n"))
    assert only(space.get(other).tokens).attempt == 0
    assert refusals(space, "h1") == []


def test_flags_are_checked(dcli, tmp_path):
    done = dcli("agent", "--package", "no.name", "--check")
    assert done.returncode == 2 and "--package" in done.stderr
    done = dcli("agent", "--trusted-keys", tmp_path / "none", "--check")
    assert done.returncode == 2 and "--trusted-keys" in done.stderr
    (tmp_path / "file").write_text("")
    done = dcli("agent", "--cache", tmp_path / "file" / "in")
    assert done.returncode == 2 and "--cache gives another folder" in done.stderr


def test_a_workers_token_is_enough(root, tmp_path):
    space = root.space("default")
    registry = Registry(space, root.channel)
    put(registry, run="true")
    cli = Cli(space.server.address, "default")
    cli.environment["DFSMR_TOKEN"] = root.create("worker", machines=["p.m"]).secret
    agent = Agent(cli, tmp_path, "--package", "p").ready()
    try:
        ends(space, space.start("p.m"))
    finally:
        agent.dispose()


def test_workers_that_heed_dry_runs_get_them(space, registry, start_agent, tmp_path):
    seen = tmp_path / "seen"
    put(registry, documents={"m.yaml": machine() + "---\nplan: steps\nflow:\n"
                             "  - {step: one, action: heeds}\n"
                             "  - {step: two, action: never, after: [one]}\n"},
        manifest="workers:\n  one: {serves: [heeds, m.a], run: ./bin/run, dry_run: true}\n"
                 "  two: {serves: [never], run: ./bin/run}\n",
        run=f"echo $DFSMR_NODE $DFSMR_DRY_RUN >> {seen}")
    start_agent("--package", "p")
    for id in (space.start("p.m", dry_run=True), space.start("p.steps", dry_run=True)):
        ends(space, id)
    assert sorted(seen.read_text().splitlines()) == ["a 1", "one 1"]
    ends(space, space.start("p.steps"))
    assert seen.read_text().splitlines()[2:] == ["one", "two"]


# The cache ------------------------------------------------------------------------------------


def entries(folder):
    return sorted(path.name for path in (folder / "cache" / "packages").iterdir())


def test_the_least_recently_used_goes_first_and_what_is_in_use_stays(space, registry, start_agent,
                                                                     tmp_path):
    digests = []
    gate = tmp_path / "gate"
    for number in range(4):
        run = "#!/bin/sh\n" + (wait_for(gate) if number == 0 else "")
        data = archive("1.0.0", name=f"p{number}", documents={"m.yaml": machine()},
                       files={"bin/run": run, "big": bytes(400_000)})
        digests.append(registry.put(data).package.digest[7:])
        registry.activate("1.0.0", name=f"p{number}")
    start_agent("--cache-mb", "1", *[f"--package=p{number}" for number in range(4)])
    held = space.start("p0.m")
    eventually(lambda: "begun" in (tmp_path / "h1.log").read_text())
    for number in (1, 2, 3):
        ends(space, space.start(f"p{number}.m"))
    assert entries(tmp_path) == sorted([digests[0], digests[3]])
    gate.touch()
    ends(space, held)
    assert list((tmp_path / "cache" / "partial").iterdir()) == []
    ends(space, space.start("p1.m"))
    assert entries(tmp_path) == sorted([digests[1], digests[0]])


def test_an_agent_that_is_killed_in_the_setup_leaves_what_the_next_one_can_use(
        space, registry, start_agent, tmp_path):
    where = tmp_path / "where"
    put(registry, manifest="setup: ./bin/setup\n"
                           "workers:\n  all: {serves: ['*'], run: ./bin/run}\n",
        setup=f"echo $$ >> {where}; test -e {where}.go || exec sleep 1000", run="true")
    agent = start_agent("--package", "p", "--keep-for", "0s")
    id = space.start("p.m")
    pid = int(eventually(lambda: where.exists() and where.read_text().strip()))
    agent.process.kill()
    agent.process.wait()
    eventually(lambda: not lives(pid), 3)
    (tmp_path / "where.go").touch()
    start_agent("--package", "p")
    ends(space, id)
    assert len(where.read_text().split()) == 2


# Fetching, from a server of which each answer is scripted ----------------------------------------


class Depot(FakeServer, package_grpc.PackageServiceServicer):
    """Has archives, and gives their bytes as it is told to."""

    def __init__(self):
        self.archives = {}        # by digest: (name, version, bytes)
        self.signatures = []
        self.fetches = []         # (digest, offset)
        self.hold = None          # an event: after the first piece it waits for it
        self.cuts = 0             # so many streams break after their first piece
        self.refuses = None       # (code, reason, words)
        super().__init__()

    def start(self):
        self.server = grpc.server(futures.ThreadPoolExecutor(32))
        agent_grpc.add_AgentServiceServicer_to_server(self, self.server)
        v1_grpc.add_RunnerServiceServicer_to_server(self, self.server)
        package_grpc.add_PackageServiceServicer_to_server(self, self.server)
        assert self.server.add_insecure_port(f"127.0.0.1:{self.port}")
        self.server.start()

    def version(self, digest):
        name, version, data = self.archives[digest]
        return pk.PackageVersion(package=name, version=version, digest=digest, size=len(data),
                                 signatures=[pk.Signature(text=text) for text in self.signatures])

    def GetPackage(self, request, context):
        return self.version(request.version)

    def FetchPackage(self, request, context):
        with self.lock:
            self.fetches.append((request.version, request.offset))
            cut = self.cuts > 0
            self.cuts -= cut
        if self.refuses:
            code, reason, words = self.refuses
            context.set_trailing_metadata((("dfsmr-reason", reason),))
            context.abort(code, words)
        data = self.archives[request.version][2]
        for at in range(request.offset, len(data), 4096):
            reply = pk.FetchPackageResponse(data=data[at:at + 4096])
            if at == request.offset:
                reply.package.CopyFrom(self.version(request.version))
            yield reply
            if cut:
                context.abort(grpc.StatusCode.UNAVAILABLE, "gone")
            if self.hold:
                self.hold.wait(20)

    def keep(self, run="true", version="1.0.0", data=None, lie=None):
        """The reference of a package with this command."""
        made = data or archive(version, files={"bin/run": "#!/bin/sh\n" + run,
                                               "big": bytes(20_000)})
        digest = lie or digest_of(made)
        self.archives[digest] = ("p", version, made)
        return v1.PackageRef(name="p", version=version, digest=digest, worker="all")


@pytest.fixture
def depot():
    made = Depot()
    yield made
    made.stop()


@pytest.fixture
def run_for(depot, tmp_path):
    made = []

    class Here:
        environment = {**os.environ, "DFSMR_SERVER": f"127.0.0.1:{depot.port}"}
        environment.pop("DFSMR_NAMESPACE", None)

    def begin(*flags, name="h1"):
        seen = len(depot.streams)
        made.append(Agent(Here, tmp_path, "--package", "p", *flags, name=name))
        eventually(lambda: len(depot.streams) > seen or made[-1].process.poll() is not None)
        return made[-1]

    yield begin
    for agent in made:
        agent.dispose()


def hand_out(depot, ref, stream=None):
    task = depot.task("p.m.a", package=ref)
    (stream or depot.stream).send(work=v1.WorkResponse(tasks=[task]))
    return task.claim


def test_a_fetch_goes_on_where_its_stream_broke(depot, run_for):
    depot.cuts = 2
    ref = depot.keep("echo '{\"output\": {\"n\": 1}}'")
    run_for()
    assert depot.report(hand_out(depot, ref)).output == '{"n": 1}'
    assert [offset for _, offset in depot.fetches] == [0, 4096, 8192]
    assert depot.report(hand_out(depot, ref)).transition == "ok"
    assert len(depot.fetches) == 3


def test_agents_on_one_cache_fetch_once(depot, run_for):
    depot.hold = threading.Event()
    ref = depot.keep()
    run_for()
    one = depot.stream
    run_for(name="h2")
    claims = [hand_out(depot, ref, stream) for stream in (one, one, depot.stream, depot.stream)]
    eventually(lambda: depot.fetches)
    depot.hold.set()
    for claim in claims:
        assert depot.report(claim).transition == "ok"
    assert len(depot.fetches) == 1
    run_for(name="h3")
    assert depot.registrations[-1].cached == [ref.digest]


def test_what_waits_for_its_package_is_extended_and_may_be_taken_back(depot, run_for):
    depot.hold = threading.Event()
    depot.deadline = 0.5
    ref = depot.keep()
    run_for()
    first, second = hand_out(depot, ref), hand_out(depot, ref)
    depot.order(cancelled_claims=[second])
    assert depot.ended(second)
    time.sleep(0)
    depot.hold.set()
    assert depot.report(first).transition == "ok"
    assert all(item.claim != second for item in depot.begun)


def test_kill_during_a_fetch_leaves_nothing_that_is_used(depot, run_for, tmp_path):
    depot.hold = threading.Event()
    ref = depot.keep()
    agent = run_for()
    hand_out(depot, ref)
    partial = tmp_path / "cache" / "partial"
    eventually(lambda: depot.fetches and list(partial.iterdir()))
    agent.process.kill()
    agent.process.wait()
    assert list(partial.iterdir()) and entries(tmp_path) == []
    depot.hold.set()
    depot.hold = None
    run_for()
    assert list(partial.iterdir()) == []
    assert depot.report(hand_out(depot, ref)).transition == "ok"
    assert entries(tmp_path) == [ref.digest[7:]]


@pytest.mark.parametrize("spoil, why", [
    (lambda depot: depot.keep(lie="sha256:" + "0" * 64), "cannot be fetched: what came has the "
     "digest sha256:"),
    (lambda depot: depot.keep(data=archive("2.0.0")), "it says that it is p@2.0.0"),
    (lambda depot: depot.keep(data=archive()[:1500]), "p@1.0.0 cannot be fetched: "),
])
def test_bytes_that_are_wrong_are_refused(depot, run_for, spoil, why, tmp_path):
    ref = spoil(depot)
    run_for()
    back = depot.back(hand_out(depot, ref))
    assert back.refused and why in back.reason
    assert list((tmp_path / "cache" / "partial").iterdir()) == []


def test_what_the_server_does_not_give_is_refused_with_its_words(depot, run_for):
    ref = depot.keep()
    depot.refuses = (grpc.StatusCode.NOT_FOUND, "NO_SUCH_PACKAGE", "it was removed")
    run_for()
    back = depot.back(hand_out(depot, ref))
    assert back.refused and back.reason == "p@1.0.0 cannot be fetched: it was removed"


def key(tmp_path, name):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name],
                   check=True)
    return (tmp_path / f"{name}.pub").read_text()


def signature(tmp_path, name, data):
    return subprocess.run(["ssh-keygen", "-Y", "sign", "-q", "-f", tmp_path / name,
                           "-n", "dfsmr-package"], input=data, capture_output=True,
                          check=True).stdout.decode()


def test_only_what_a_trusted_key_has_signed_is_run(depot, run_for, tmp_path):
    ann, bob = key(tmp_path, "ann"), key(tmp_path, "bob")
    trusted = tmp_path / "allowed_signers"
    trusted.write_text("ann@example.org " + ann)
    ref = depot.keep()
    data = depot.archives[ref.digest][2]
    agent = run_for("--trusted-keys", trusted)

    def refused(again=None):
        nonlocal agent
        if again:  # a refusal is remembered for a while
            agent.dispose()
            agent = run_for("--trusted-keys", trusted)
        back = depot.back(hand_out(depot, ref))
        assert back.refused
        return back.reason

    assert "nobody has signed it (UNSIGNED)" in refused()
    depot.signatures = [signature(tmp_path, "bob", data)]
    assert "(UNTRUSTED_KEY)" in refused(again=True)
    depot.signatures = [signature(tmp_path, "ann", data + b"x")]
    assert "p@1.0.0 cannot be verified" in refused(again=True)
    depot.signatures = [signature(tmp_path, "bob", data), signature(tmp_path, "ann", data)]
    agent.dispose()
    agent = run_for("--trusted-keys", trusted)
    assert depot.report(hand_out(depot, ref)).transition == "ok"
    trusted.write_text("someone@example.org " + key(tmp_path, "carl"))
    assert "(UNTRUSTED_KEY)" in refused()
    trusted.write_text("bob@example.org " + bob)
    agent.dispose()
    agent = run_for("--trusted-keys", trusted)
    assert depot.report(hand_out(depot, ref)).transition == "ok"
