"""Export and import of namespaces: what goes, what comes, what is refused, and dcli's part."""
import io
import json
import subprocess
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from stubs import package, package_grpc, schedule, v1
from support import (CALL, DCLI, SOON, Cli, Server, eventually, kind, only, refused,
                     state)
from test_groups import Groups
from test_packages import Registry, archive, machine
from test_security import audited, guarded, root  # noqa: F401, fixtures

JOB = """
id: job
nodes:
  work: {start: true, transitions: {ok: pay}}
  pay: {timeout: 0.0, transitions: {ok: done}}
  done: {final: true}
"""
PLAN = """
plan: nightly
flow:
  - {step: a, action: act}
  - {step: b, action: act}
"""
SCHEDULE = """
schedule: every
every: 1h
start: {machine: job}
"""
LIMIT = """
limit: env
max: 3
"""


class Ports:
    """A namespace on a server, and the calls that carry it."""

    def __init__(self, server, name="acme"):
        self.server = server
        self.space = server.space(name)
        self.name = name
        self.stub = package_grpc.NamespaceServiceStub(server.channel)
        self.registry = Registry(self.space)
        self.cli = Cli(server.address, name)

    def export(self, **more):
        items = list(self.stub.ExportNamespace(
            package.ExportNamespaceRequest(name=self.name, **more), timeout=60))
        assert items[-1].end and not any(item.end for item in items[:-1])
        files = {}
        for item in items[:-1]:
            files[item.path] = files.get(item.path, b"") + item.data
        return files

    def items(self, files, end=True):
        for path, data in files.items():
            for at in range(0, max(len(data), 1), 1 << 19):
                yield package.ExportItem(path=path, data=data[at:at + (1 << 19)])
        if end:
            yield package.ExportItem(end=True)

    def bring(self, files, validate_only=False, items=None, name=None):
        def requests():
            yield package.ImportNamespaceRequest(header=package.ImportNamespaceRequest.Header(
                name=name or self.name, validate_only=validate_only))
            for item in items or self.items(files):
                yield package.ImportNamespaceRequest(item=item)
        return self.stub.ImportNamespace(requests(), timeout=60)

    def set(self, fields, **settings):
        request = package.UpdateNamespaceRequest(name=self.name)
        for key, value in settings.items():
            setattr(request.settings, key, value)
        request.fields.paths.extend(fields)
        return self.stub.UpdateNamespace(request, timeout=CALL)

    def freeze(self, thaw=False):
        return self.stub.FreezeNamespace(
            package.FreezeNamespaceRequest(name=self.name, thaw=thaw), timeout=CALL)

    def get(self):
        return self.stub.GetNamespace(package.GetNamespaceRequest(name=self.name), timeout=CALL)

    def there(self):
        try:
            return bool(self.get().name)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.NOT_FOUND
            return False

    def definitions(self):
        return sorted(one.id for one in self.space.machines().machines)


@pytest.fixture
def two(tmp_path):
    servers = [Server(tmp_path / name).start() for name in ("here", "there")]
    yield [Ports(server) for server in servers]
    for server in servers:
        server.dispose()


@pytest.fixture
def here(two):
    return two[0]


@pytest.fixture
def there(two):
    return two[1]


def filled(ports):
    ports.space.define(JOB + "---" + PLAN + "---" + SCHEDULE + "---" + LIMIT)
    ports.registry.both("1.0.0")
    ports.registry.push("1.1.0")
    ports.registry.activate("1.1.0", percent=5)
    ports.registry.push("2.0.0")  # nothing uses it
    ports.set(["description", "quotas.live_instances"], description="the shop")
    return ports


# What goes, and what comes ----------------------------------------------------------------------


def test_the_files_of_an_export(here):
    files = filled(here).export()
    assert list(files) == [
        "namespace.yaml", "definitions/limit/env.yaml", "definitions/machine/job.yaml",
        "definitions/plan/nightly.yaml", "definitions/schedule/every.yaml",
        "packages/p-1.0.0.dfsmr", "packages/p-1.1.0.dfsmr", "packages/active.yaml"]
    assert files["packages/p-1.0.0.dfsmr"] == archive("1.0.0")
    assert files["definitions/machine/job.yaml"].strip() == JOB.strip().encode()
    assert b"the shop" in files["namespace.yaml"]
    assert "packages/p-2.0.0.dfsmr" in here.export(all_package_versions=True)


def test_the_same_state_gives_the_same_bytes(here, there):
    files = filled(here).export()
    assert files == here.export()
    reply = there.bring(files)
    assert (reply.definitions, reply.packages, reply.instances, reply.already_there) == (4, 2, 0, 0)
    assert there.export() == files
    here.server.restart()
    here = Ports(here.server)
    there.server.restart()
    assert Ports(there.server).export() == files == here.export()


def test_what_was_imported_works(here, there):
    reply = there.bring(filled(here).export())
    assert any("paused" in note for note in reply.notes)
    assert there.definitions() == ["job", "nightly", "p.m"]
    assert there.get().settings.description == "the shop"
    shown = there.registry.get("1.1.0")
    assert shown.state == package.PackageVersion.CANDIDATE and shown.percent == 5
    assert there.registry.get().version == "1.0.0"
    there.space.start("p.m", id="one")
    there.space.start("nightly", id="two")
    assert there.space.ready("p.m")[0].package.version in ("1.0.0", "1.1.0")
    assert there.space.ready("nightly")
    paused = there.cli.json("schedules", "every")
    assert paused["state"] == "PAUSED"
    there.registry.activate("1.1.0")
    there.registry.activate(rollback=True)


def test_a_namespace_keeps_its_own_settings(here, there):
    there.set(["description"], description="mine")
    reply = there.bring(filled(here).export())
    assert there.get().settings.description == "mine"
    assert any("settings" in note for note in reply.notes)


def test_what_is_there_is_skipped_and_other_content_is_refused(here, there):
    files = filled(here).export()
    there.bring(files)
    again = there.bring(files)
    assert (again.definitions, again.packages, again.already_there) == (0, 0, 6)
    other = dict(files)
    other["definitions/machine/job.yaml"] = JOB.replace("work", "toil").encode()
    before = there.export()
    with refused("FAILED_PRECONDITION", "ID_TAKEN", "'job'", "other content"):
        there.bring(other)
    other = dict(files)
    other["packages/p-1.0.0.dfsmr"] = archive("1.0.0", documents={"m.yaml": machine(node="z")})
    with refused("ALREADY_EXISTS", "VERSION_EXISTS", "1.0.0"):
        there.bring(other)
    assert there.export() == before


def test_all_or_none(here, there):
    files = filled(here).export()
    there.space.define(machine("taken"))
    before = there.export()
    files["definitions/plan/nightly.yaml"] = PLAN.replace("act}", "act, with: {a: '${no.output}'}}")\
        .encode()
    with refused("INVALID_ARGUMENT", "BAD_MACHINE", "definitions/plan/nightly.yaml"):
        there.bring(files)
    assert there.export() == before
    assert not there.registry.list().packages


def test_a_dry_run_changes_nothing(here, there):
    files = filled(here).export()
    reply = there.bring(files, validate_only=True)
    assert (reply.definitions, reply.packages) == (4, 2)
    assert not there.there()
    assert there.bring(files, name="elsewhere").definitions == 4


def test_names_of_secrets_go_and_values_do_not(here, there, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("ab" * 32 + "\n")
    keys.chmod(0o600)
    with_keys = Server(tmp_path / "sealed", "--secret-key-file", str(keys)).start()
    try:
        sealed = Ports(with_keys)
        stub = package_grpc.SecretServiceStub(with_keys.channel)
        stub.PutSecret(package.PutSecretRequest(namespace="acme", name="db", value=b"hunter2"),
                       timeout=CALL)
        files = sealed.export()
        assert b"db" in files["namespace.yaml"]
        assert not any(b"hunter2" in data for data in files.values())
        assert list(there.bring(files).secrets_to_set) == ["db"]
    finally:
        with_keys.dispose()


# Instances --------------------------------------------------------------------------------------


def kinds(space, id):
    return [kind(change) for change in space.history(id)]


def test_instances_go_on_where_they_stood(here, there):
    space = here.space
    space.define(JOB + "---" + PLAN)
    space.start("job", id="paid")
    space.report(only(space.ready("job", "work")))
    claimed = only(space.ready("job", "pay"))  # at most once
    space.start("job", id="fresh", params={"n": 1}, labels={"team": "a"})
    space.start("job", id="later", start_at=time.time() + 3600)
    space.start("job", id="paused")
    space.pause("paused")
    space.plan("nightly", id="plan")
    space.report(only(space.ready("nightly")))
    space.start("job", id="gone")
    space.cancel("gone", "FORCE")
    with refused("FAILED_PRECONDITION", "NOT_FROZEN", "frozen"):
        here.export(instances=True)
    here.freeze()
    files = here.export(instances=True)
    assert files == here.export(instances=True)

    reply = there.bring(files)
    assert (reply.definitions, reply.instances, reply.already_there) == (2, 5, 0)
    space = there.space
    assert {one.id: state(one) for one in space.instances().instances} == {
        "paid": "RUNNING", "fresh": "RUNNING", "later": "SCHEDULED", "paused": "PAUSED",
        "plan": "RUNNING"}
    assert json.loads(space.get("fresh").params) == {"n": 1}
    assert kinds(space, "fresh") == kinds(space, "plan") == ["IMPORTED"]
    found = space.call("ListInstances", v1.ListInstancesRequest(
        namespace=space.name, labels={"team": "a"})).instances
    assert [one.id for one in found] == ["fresh"]
    assert there.get().usage.live_instances == 5
    # Claims are void. At least once: ready; at most once: until somebody resumes it with force.
    assert sorted(task.instance for task in space.ready(max_tasks=10)) == ["fresh", "plan"]
    with refused("FAILED_PRECONDITION", "STALE_CLAIM"):
        space.transition("paid", "ok", claim=claimed.claim)
    with refused("FAILED_PRECONDITION", "NOT_HELD"):
        space.resume("paid", node="pay")
    space.resume("paid", force=True)
    space.report(only(space.ready("job", "pay", max_tasks=10)))
    space.ends("paid", "SUCCESS")
    space.resume("paused")
    assert only(space.ready("job", "work", max_tasks=10)).instance == "paused"
    there.server.kill()
    there.server.start()
    again = Ports(there.server)
    assert {task.instance for task in again.space.ready(max_tasks=10)} <= {
        "fresh", "plan", "paused"}
    assert kinds(again.space, "paid")[0] == "IMPORTED"


def test_numbers_of_limits_go_along_and_hold_back_what_waits(here, there):
    def states(ports):
        return {one.id: state(one) for one in ports.space.instances().instances}

    here.space.define(JOB)
    here.space.start("job", id="g-0", group="g")
    Groups(here.space).set(max_running=1)
    for number in (1, 2):
        here.space.start("job", id=f"g-{number}", group="g")
    here.server.schedules.SetLimit(schedule.SetLimitRequest(
        namespace=here.name, key="queue:default", max=0, note="the queue rests"), timeout=CALL)
    assert not here.space.ready()
    before = states(here)
    assert before == {"g-0": "RUNNING", "g-1": "SCHEDULED", "g-2": "SCHEDULED"}
    here.freeze()
    files = here.export(instances=True)
    assert there.bring(files).instances == 3
    for again in (False, True):
        if again:
            there.server.restart()
            there = Ports(there.server)
        assert states(there) == before and not there.space.ready()
        assert Groups(there.space).get().max_running == 1
        limit = there.server.schedules.GetLimit(schedule.GetLimitRequest(
            namespace=there.name, key="queue:default"), timeout=CALL)
        assert (limit.max, limit.note) == (0, "the queue rests")
    there.server.schedules.SetLimit(schedule.SetLimitRequest(
        namespace=there.name, key="queue:default", reset=True), timeout=CALL)
    for _ in range(2):
        there.space.report(there.space.take())
    there.space.ends("g-0", "SUCCESS")
    eventually(lambda: state(there.space.get("g-1")) == "RUNNING")


def test_work_that_may_be_repeated_must_be_given_back_first(here, there):
    here.space.define(JOB)
    here.space.start("job", id="one")
    task = only(here.space.ready("job"))
    here.freeze()
    with refused("FAILED_PRECONDITION", "NOT_FROZEN", "'one'", "claimed"):
        here.export(instances=True)
    here.space.report(task)
    assert there.bring(here.export(instances=True)).instances == 1
    assert only(there.space.ready("job")).node == "pay"


def test_versions_that_instances_run_on_come_along(here, there):
    here.space.define(JOB)
    here.space.start("job", id="old")
    here.space.define(JOB.replace("work", "labour"))
    here.space.start("job", id="new")
    here.registry.both("1.0.0")
    here.space.start("p.m", id="first")
    here.registry.both("1.1.0", documents={"m.yaml": machine(node="b")})
    here.space.start("p.m", id="second")
    here.freeze()
    files = here.export(instances=True)
    assert there.bring(files).instances == 4
    for space in (here.space, there.space):
        assert {one.id: (one.version, one.package.version)
                for one in space.instances().instances} == {
            "old": (1, ""), "new": (2, ""), "first": (1, "1.0.0"), "second": (2, "1.1.0")}
    tasks = {task.instance: task for task in there.space.ready(max_tasks=10)}
    assert tasks["old"].node == "work" and tasks["new"].node == "labour"
    assert tasks["first"].package.version == "1.0.0"
    assert tasks["second"].package.version == "1.1.0"
    there.server.restart()
    assert Ports(there.server).space.get("first").package.version == "1.0.0"


def test_plans_with_children_go_on(here, there):
    here.space.define("""
plan: parent
flow:
  - {step: kids, spawn: {machine: job, for_each: [1, 2]}}
  - {step: last, action: act}
---
""" + JOB.replace("timeout: 0.0, ", ""))
    here.space.plan("parent", id="top")
    eventually(lambda: len(here.space.children("top")) == 2)
    first = here.space.ready("job", max_tasks=1)[0]
    here.space.report(first)
    here.freeze()
    assert there.bring(here.export(instances=True)).instances == 3
    space = there.space
    assert len(space.children("top")) == 2
    for node in ("work", "pay", "pay"):
        space.report(space.ready("job", node, wait=SOON, max_tasks=1)[0])
    space.report(space.ready("parent", wait=SOON)[0])
    space.ends("top", "SUCCESS")


def test_many_instances_survive_a_kill_in_the_middle(here, there):
    here.space.define(JOB)
    here.space.start_many("job", 5_000)
    here.freeze()
    files = here.export(instances=True)
    assert len([path for path in files if path.startswith("instances/")]) == 6

    def some_came():
        return there.there() and 0 < there.get().usage.live_instances
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(there.bring, files)
        eventually(lambda: some_came() or call.done())
        there.server.kill()
        try:
            call.result()
        except grpc.RpcError:
            pass
    there.server.start()
    there = Ports(there.server)
    came = there.get().usage.live_instances
    reply = there.bring(files)
    assert reply.instances + came == 5_000
    assert there.get().usage.live_instances == 5_000
    assert there.bring(files).already_there == 5_001
    there.freeze()
    taken = set()
    there.freeze(thaw=True)
    while len(taken) < 5_000:
        tasks = there.space.ready("job", max_tasks=1_000, wait=SOON)
        assert tasks
        taken.update(task.instance for task in tasks)


def test_another_instance_of_the_same_id_is_refused(here, there):
    here.space.define(JOB)
    here.space.start("job", id="one", params={"n": 1})
    here.freeze()
    files = here.export(instances=True)
    there.space.define(JOB)
    there.space.start("job", id="one", params={"n": 2})
    with refused("FAILED_PRECONDITION", "ID_TAKEN", "'one'"):
        there.bring(files)


# What is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [
    "/etc/passwd", "../definitions/machine/a.yaml", "definitions/machine/../a.yaml",
    "definitions/robot/a.yaml", "definitions/machine/a/b.yaml", "definitions/machine/a b.yaml",
    "packages/a/b.dfsmr", "instances/x.rows", "readme.md", "definitions/machine/\n.yaml"])
def test_a_path_that_no_export_has_is_refused_by_name(there, path):
    with refused("INVALID_ARGUMENT", "BAD_ARCHIVE", path.strip("/").split("/")[0]):
        there.bring({"namespace.yaml": b"namespace: acme\n", path: b"x"})
    assert not there.there()


def test_what_is_torn_doubled_or_out_of_order_is_refused(here, there):
    files = filled(here).export()
    with refused("INVALID_ARGUMENT", "BAD_ARCHIVE", "torn"):
        there.bring(files, items=there.items(files, end=False))
    with refused("INVALID_ARGUMENT", "BAD_ARCHIVE", "twice"):
        there.bring(files, items=[*there.items(files, end=False), *there.items(files)])
    with refused("INVALID_ARGUMENT", "BAD_ARCHIVE", "namespace.yaml"):
        there.bring({path: files[path] for path in reversed(files)})
    with refused("INVALID_ARGUMENT", "BAD_ARCHIVE", "behind the end"):
        there.bring(files, items=[*there.items(files), *there.items(files)])
    lacking = {path: data for path, data in files.items() if path != "packages/p-1.0.0.dfsmr"}
    with refused("INVALID_ARGUMENT", "BAD_ARCHIVE", "packages/p-1.0.0.dfsmr"):
        there.bring(lacking)
    assert not there.there()


@pytest.mark.parametrize("path, data, words", [
    ("namespace.yaml", b"namespace: acme\nquotas: {cows: 3}\n", "namespace.yaml:2"),
    ("namespace.yaml", b"- a\n- b\n", "namespace.yaml"),
    ("namespace.yaml", b"trusted_keys: [{name: a, key: nonsense}]\n", "namespace.yaml"),
    ("definitions/machine/job.yaml", b"id: other\nnodes: {a: {start: true, final: true}}\n",
     "definitions/machine/job.yaml"),
    ("definitions/machine/job.yaml", b"id: job\nnodes: 7\n", "definitions/machine/job.yaml:2"),
    ("definitions/plan/nightly.yaml", JOB.encode(), "definitions/plan/nightly.yaml"),
    ("packages/p-1.0.0.dfsmr", archive("1.0.0")[:-2000], "packages/p-1.0.0.dfsmr"),
    ("packages/p-1.0.0.dfsmr", archive("1.2.0"), "packages/p-1.0.0.dfsmr"),
    ("packages/active.yaml", b"p: {active: 9.9.9}\n", "packages/p-9.9.9.dfsmr"),
    ("packages/active.yaml", b"p: {active: 1.0.0, candidate: 1.1.0}\n", "active.yaml"),
    ("instances/00000001.rows", b"dfsmr rows 99\n", "format"),
    ("instances/00000001.rows", b"what?", "instances/00000001.rows"),
    ("instances/00000001.rows", b"dfsmr rows 1\n\x05\x02\x02a\0!", "instances/00000001.rows"),
    ("instances/00000001.rows", b"dfsmr rows 1\n\x7f", "instances/00000001.rows"),
])
def test_a_broken_file_is_refused_by_name(here, there, path, data, words):
    files = filled(here).export()
    files[path] = data
    with refused("INVALID_ARGUMENT", None, words):
        there.bring(files)
    assert not there.there()


def test_damaged_rows_of_instances_are_refused_and_kill_nobody(here, there):
    here.space.define(JOB + "---" + PLAN)
    here.space.start("job", id="one", params={"n": 1})
    here.space.plan("nightly", id="plan")
    here.freeze()
    files = here.export(instances=True)
    path = "instances/00000002.rows"
    rows = files[path]
    for at in range(14, len(rows)):
        broken = dict(files)
        broken[path] = rows[:at] + bytes([rows[at] ^ 0x15]) + rows[at + 1:]
        try:
            there.bring(broken, name=f"try{at}", validate_only=at % 7 != 0)
        except grpc.RpcError as error:
            assert error.code() in (grpc.StatusCode.INVALID_ARGUMENT,
                                    grpc.StatusCode.FAILED_PRECONDITION), error
    there.server.restart()
    assert Ports(there.server).bring(files).instances == 2


def test_it_takes_an_admin_and_is_audited(guarded, root):  # noqa: F811
    admin = root.create("admin", "acme")
    operator = root.create("operator", "acme")
    files = {"namespace.yaml": b"namespace: acme\nquotas: {live_instances: 5}\n",
             "definitions/machine/job.yaml": JOB.encode()}
    ports = Ports(admin.server, "acme")
    for holder, allowed in ((operator, False), (admin, True)):
        ports.stub = package_grpc.NamespaceServiceStub(holder.channel)
        if not allowed:
            with refused("PERMISSION_DENIED", "NOT_ALLOWED"):
                ports.bring(files)
            with refused("PERMISSION_DENIED", "NOT_ALLOWED"):
                ports.export()
    reply = ports.bring(files)
    assert any("quotas" in note for note in reply.notes)
    assert not ports.get().settings.quotas.HasField("live_instances")
    with refused("PERMISSION_DENIED", "NOT_ALLOWED"):
        ports.bring(files, name="other")
    ports.export()
    assert audited(guarded, method="dfsmr.v1.NamespaceService/ImportNamespace", on="acme")


# dcli -------------------------------------------------------------------------------------------


def test_dcli_carries_a_namespace_as_a_tar(here, there, tmp_path):
    filled(here)
    long = "x" * 120
    here.space.define(f"id: {long}\nnodes: {{a: {{start: true, final: true}}}}\n")
    tar = tmp_path / "acme.tar"
    here.cli.ok("export", "acme", "--out", str(tar))
    piped = subprocess.run([DCLI, "--server", here.server.address, "export", "acme"],
                           capture_output=True, check=True, timeout=60).stdout
    assert piped == tar.read_bytes()
    with tarfile.open(tar) as opened:
        names = opened.getnames()
        assert all(one.mtime == 946684800 and one.isfile() for one in opened.getmembers())
    assert names[0] == "namespace.yaml" and f"definitions/machine/{long}.yaml" in names
    folder = tmp_path / "folder"
    subprocess.run(["tar", "xf", tar, "-C", folder], check=True) if folder.mkdir() is None else None

    dry = there.cli.ok("import", str(tar), "--dry-run")
    assert "5 definitions, 2 packages" in dry and not there.there()
    assert "5 definitions" in there.cli.ok("import", str(tar))
    other = Ports(there.server, "other")
    assert "5 definitions" in other.cli.ok("import", str(folder))
    third = Ports(there.server, "third")
    sorted_by_git = tmp_path / "git.tar"
    subprocess.run(f"cd {folder} && tar cf {sorted_by_git} *", shell=True, check=True)
    assert "5 definitions" in third.cli.ok("import", str(sorted_by_git))
    assert there.export() == {**other.export(), "namespace.yaml": there.export()["namespace.yaml"]}
    without = subprocess.run([DCLI, "--server", there.server.address, "import", "-"],
                             input=piped, capture_output=True, timeout=60)
    assert without.returncode == 0 and b"acme: 0 definitions" in without.stdout


def test_dcli_refuses_hostile_tars_by_name(there, tmp_path):
    def tar_of(*members):
        out = tmp_path / "bad.tar"
        with tarfile.open(out, "w", format=tarfile.USTAR_FORMAT) as tar:
            for name, kind_of, data in members:
                info = tarfile.TarInfo(name)
                info.type, info.size, info.linkname = kind_of, len(data), "/etc/passwd"
                tar.addfile(info, io.BytesIO(data))
        return str(out)

    good = ("namespace.yaml", tarfile.REGTYPE, b"namespace: acme\n")
    for name, kind_of in [("../evil", tarfile.REGTYPE), ("/evil", tarfile.REGTYPE),
                          ("definitions/machine/evil.yaml", tarfile.SYMTYPE),
                          ("definitions/machine/evil.yaml", tarfile.LNKTYPE),
                          ("evil", tarfile.FIFOTYPE), ("evil", tarfile.CHRTYPE)]:
        result = there.cli("import", tar_of(good, (name, kind_of, b"")))
        assert result.returncode == 1 and "evil" in result.stderr, (name, result.stderr)
    result = there.cli("import", tar_of(good, good))
    assert "twice" in result.stderr
    result = there.cli("import", tar_of(("definitions/machine/a.yaml", tarfile.REGTYPE, b"x")))
    assert "namespace.yaml" in result.stderr
    whole = tmp_path / "cut.tar"
    whole.write_bytes(open(tar_of(good), "rb").read()[:700])
    assert "cut off" in there.cli("import", str(whole)).stderr
    subprocess.run(["gzip", "-k", tar_of(good)], check=True)
    assert "gunzip" in there.cli("import", str(tmp_path / "bad.tar.gz")).stderr
    assert there.cli("import", str(tmp_path / "nowhere.tar")).returncode == 2
    assert not there.there()
