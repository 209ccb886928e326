"""Packages: the registry, activation, what names mean, candidates, and who may do what."""
import hashlib
import io
import os
import stat
import tarfile
import threading

import grpc
import pytest

from stubs import package, package_grpc, schedule, v1
from support import (CALL, SOON, Cli, Server, eventually, kind, only, refused, result, state,
                     together)
from test_security import audited, guarded, root  # noqa: F401, fixtures

UNSIGNED = package.PackageVersion.UNSIGNED
What = package.DocumentChange.What


def machine(id="m", node="a", strategy="continue"):
    return (f"id: {id}\nupgrade_strategy: {strategy}\nnodes:\n"
            f"  {node}: {{start: true, transitions: {{ok: end, error: bad}}}}\n"
            "  end: {final: true}\n  bad: {final: true, result: error}\n")


def archive(version="1.0.0", name="p", documents=None, files=None, more=""):
    """A plain tar, as anybody could make it: documents by file name, and other files."""
    manifest = f"package: {name}\nversion: {version}\n{more}"
    if "workers:" not in more:
        manifest += "workers:\n  all: {serves: ['*'], run: ./bin/run}\n"
    all = {"package.yaml": manifest, "bin/run": "#!/bin/sh\nexit 0\n"}
    for file, text in (documents or {"m.yaml": machine()}).items():
        all[f"documents/{file}"] = text
    all.update(files or {})
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path, text in all.items():
            data = text if isinstance(text, bytes) else text.encode()
            info = tarfile.TarInfo(f"{name}-{version}/{path}")
            info.size = len(data)
            info.mode = 0o755 if path.startswith("bin/") else 0o644
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def digest_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Registry:
    """The calls about packages, in a namespace."""

    def __init__(self, space, channel=None):
        self.space = space
        self.stub = package_grpc.PackageServiceStub(channel or space.server.channel)

    def parts(self, data, digest=None, size=None, **header):
        yield package.PutPackageRequest(header=package.PutPackageRequest.Header(
            namespace=self.space.name, digest=digest or digest_of(data),
            size=len(data) if size is None else size, **header))
        for at in range(0, len(data), 1 << 18):
            yield package.PutPackageRequest(data=data[at:at + (1 << 18)])

    def put(self, data, timeout=60, **header):
        return self.stub.PutPackage(self.parts(data, **header), timeout=timeout)

    def push(self, version="1.0.0", **more):
        return self.put(archive(version, **more)).package

    def activate(self, version="", name="p", **more):
        return self.stub.ActivatePackage(package.ActivatePackageRequest(
            namespace=self.space.name, package=name, version=version, **more), timeout=30)

    def both(self, version, **more):
        self.push(version, **more)
        return self.activate(version)

    def deactivate(self, name="p", **more):
        return self.stub.DeactivatePackage(package.DeactivatePackageRequest(
            namespace=self.space.name, package=name, **more), timeout=CALL)

    def get(self, version="", name="p", **more):
        return self.stub.GetPackage(package.GetPackageRequest(
            namespace=self.space.name, package=name, version=version, **more), timeout=CALL)

    def list(self, name="", **more):
        return self.stub.ListPackages(package.ListPackagesRequest(
            namespace=self.space.name, package=name, **more), timeout=CALL)

    def remove(self, version="", name="p", **more):
        return self.stub.RemovePackage(package.RemovePackageRequest(
            namespace=self.space.name, package=name, version=version, **more), timeout=CALL)

    def fetch(self, version="", name="p", **more):
        replies = list(self.stub.FetchPackage(package.FetchPackageRequest(
            namespace=self.space.name, package=name, version=version, **more), timeout=30))
        assert all(not reply.HasField("package") for reply in replies[1:])
        return replies[0].package, b"".join(reply.data for reply in replies)


@pytest.fixture
def registry(space):
    return Registry(space)


# The registry ---------------------------------------------------------------------------------


def test_what_was_put_can_be_listed_looked_at_and_fetched(registry):
    data = archive(files={"big.bin": bytes(range(256)) * 12_000},
                   more="description: Loads\nlabels: {team: data}\n"
                        "workers:\n  load: {serves: [m.a], run: ./bin/run, requires: [gpu]}\n")
    reply = registry.put(data)
    assert reply.created
    one = reply.package
    assert (one.package, one.version, one.digest, one.size) == (
        "p", "1.0.0", digest_of(data), len(data))
    assert (one.description, dict(one.labels)) == ("Loads", {"team": "data"})
    assert one.verdict == UNSIGNED and one.state == package.PackageVersion.IDLE
    document = only(one.documents)
    assert (document.kind, document.id, document.version, document.path, document.line) == (
        "machine", "p.m", 0, "documents/m.yaml", 1)
    worker = only(one.workers)
    assert (worker.name, list(worker.serves), list(worker.capabilities)) == (
        "load", ["m.a"], ["gpu"])
    assert not registry.put(data).created
    shown = registry.get("1.0.0", with_files=True)
    assert [file.path for file in shown.files] == [
        "big.bin", "bin/run", "documents/m.yaml", "package.yaml"]
    assert shown.manifest.startswith("package: p\n")
    assert registry.get(digest_of(data), name="").version == "1.0.0"
    assert registry.fetch("1.0.0")[1] == data
    assert registry.fetch("1.0.0", offset=1_500_000)[1] == data[1_500_000:]
    assert registry.fetch("1.0.0", path="documents/m.yaml")[1] == machine().encode()
    assert registry.fetch("1.0.0", path="big.bin", offset=3)[1] == (bytes(range(256)) * 12_000)[3:]
    assert [one.version for one in registry.list().packages] == ["1.0.0"]
    for refusal in (lambda: registry.get("2.0.0"), lambda: registry.get("", name="q"),
                    lambda: registry.fetch("2.0.0")):
        with refused("NOT_FOUND", "NO_SUCH_PACKAGE"):
            refusal()
    with refused("NOT_FOUND", "NO_SUCH_FILE", "nothing.txt"):
        registry.fetch("1.0.0", path="nothing.txt")


def test_other_bytes_are_refused_and_of_ten_callers_one_creates(registry):
    data = archive()
    outcomes = together(*[lambda: registry.put(data) for _ in range(10)])
    assert sorted(reply.created for reply in outcomes) == [False] * 9 + [True]
    with refused("ALREADY_EXISTS", "VERSION_EXISTS", "1.0.0"):
        registry.put(archive(documents={"m.yaml": machine(node="b")}))
    registry.remove("1.0.0")
    with refused("ALREADY_EXISTS", "VERSION_EXISTS"):
        registry.put(archive(documents={"m.yaml": machine(node="b")}))
    assert registry.put(data).created


def test_what_is_known_is_answered_as_soon_as_the_header_tells_it(registry):
    data = archive()
    registry.put(data)

    def parts():
        yield next(registry.parts(data))
        threading.Event().wait(SOON)  # the rest never comes

    reply = registry.stub.PutPackage(parts(), timeout=SOON)
    assert not reply.created and reply.package.version == "1.0.0"


def test_a_put_that_is_wrong_is_refused_and_leaves_nothing(registry):
    data = archive()
    with refused("INVALID_ARGUMENT", "DIGEST_MISMATCH"):
        registry.put(data, digest=digest_of(b"other"))
    with refused("INVALID_ARGUMENT", "DIGEST_MISMATCH"):
        registry.put(data, size=len(data) + 512)
    with refused("INVALID_ARGUMENT", "BAD_ARCHIVE"):
        registry.put(data[:700])
    with refused("INVALID_ARGUMENT", "BAD_PACKAGE", "m.yaml") as box:
        registry.put(archive(documents={"m.yaml": machine().replace("ok: end", "ok: no")}))
    assert "documents/m.yaml" in [one.source_name for one in box[0].diagnostics]
    assert registry.put(data, validate_only=True).created
    assert not registry.list().packages


def test_an_upload_that_breaks_off_is_not_seen_and_may_be_repeated(tmp_path):
    server = Server(tmp_path / "data").start()
    registry = Registry(server.space("default"))
    data = archive(files={"big.bin": bytes(3 << 20)})
    sent = threading.Event()

    def parts():
        for number, part in enumerate(registry.parts(data)):
            yield part
            if number == 9:
                sent.set()
                threading.Event().wait(30)

    call = registry.stub.PutPackage.future(parts(), timeout=30)
    assert sent.wait(SOON)
    server.kill()
    server.start()
    registry = Registry(server.space("default"))
    assert not registry.list().packages
    assert registry.put(data).created
    assert registry.fetch("1.0.0")[1] == data
    assert call.exception() is not None
    server.stop()
    server.dispose()


@pytest.mark.parametrize("how", ["broken off", "killed"])
def test_the_room_of_an_upload_that_broke_is_free_soon(tmp_path, how):
    server = Server(tmp_path / "data", "--memtable-mb", "4").start()
    registry = Registry(server.space("default"))
    data = archive(files={"big.bin": os.urandom(40 << 20)})
    most, sent = len(data) // (1 << 18), threading.Event()

    def taken():
        return sum(file.stat().st_size for file in server.data.iterdir() if file.is_file())

    def parts():
        for number, part in enumerate(registry.parts(data)):
            yield part
            if number == most - 8:
                sent.set()
                threading.Event().wait(30)

    call = registry.stub.PutPackage.future(parts(), timeout=60)
    assert sent.wait(30)
    assert eventually(lambda: taken() > 30 << 20, 30)
    if how == "killed":
        server.kill()
        server.start()
    else:
        call.cancel()
    assert eventually(lambda: taken() < 16 << 20, 60)
    server.stop()
    server.dispose()


# Activation -----------------------------------------------------------------------------------


def test_activation_defines_all_and_tasks_name_what_serves_them(space, registry):
    one = registry.push(documents={
        "m.yaml": machine(), "p.yaml": "plan: all\nflow: [{step: s, action: m.a}]\n"})
    assert one.state == package.PackageVersion.IDLE
    done = registry.activate("1.0.0", validate_only=True)
    assert done.changed and {document.what for document in done.documents} == {What.Value("ADDED")}
    with refused("NOT_FOUND", "NO_SUCH_MACHINE"):
        space.machine("p.m")
    done = registry.activate("1.0.0", note="first")
    assert done.changed and done.previous == "" and done.package.version == "1.0.0"
    assert not registry.activate("1.0.0").changed
    shown = space.machine("p.m")
    assert (shown.package.name, shown.package.version) == ("p", "1.0.0")
    id = space.start("p.m")
    assert space.get(id).package.version == "1.0.0"
    task = space.take("p.m")
    assert task.action == "p.m.a"
    assert (task.package.name, task.package.version, task.package.worker) == ("p", "1.0.0", "all")
    assert task.package.digest == one.digest
    space.report(task)
    assert [i.id for i in space.instances(package="p").instances] == [id]
    assert [i.id for i in space.instances(package="p@1.0.0").instances] == [id]
    assert not space.instances(package="p@2.0.0").instances
    assert registry.get().stats.success == 1
    activation = only(registry.get(with_activations=True).activations)
    assert (activation.version, activation.note) == ("1.0.0", "first")


def test_documents_that_stay_the_same_go_on_with_the_new_programs(space, registry):
    registry.both("1.0.0", documents={"m.yaml": machine(strategy="upgrade")})
    claimed = space.start("p.m")
    task = space.take("p.m")
    ready = space.start("p.m")
    registry.push("1.1.0", documents={"m.yaml": machine(strategy="upgrade")})
    done = registry.activate("1.1.0")
    document = only(done.documents)
    assert document.what == What.Value("SAME") and document.affected_instances == 2
    assert space.get(claimed).version == document.version == 2
    assert space.get(claimed).package.version == "1.1.0"
    assert space.take("p.m").package.version == "1.1.0"
    space.report(task)
    assert space.get(claimed).version == 2
    assert registry.remove("1.0.0").removed == ["1.0.0"]
    assert state(space.get(ready)) == "RUNNING"


def test_a_document_that_is_gone_is_retired(space, registry):
    registry.both("1.0.0", documents={"m.yaml": machine(), "old.yaml": machine("old")})
    id = space.start("p.old")
    registry.push("2.0.0")
    space.define("plan: outside\nflow: [{step: s, spawn: {machine: p.old}}]\n")
    with refused("FAILED_PRECONDITION", "PACKAGE_IN_USE", "outside", "p.old"):
        registry.activate("2.0.0")
    registry.activate("2.0.0", force=True)
    assert space.machine("p.old").retired
    with refused("FAILED_PRECONDITION", "RETIRED", "p.old"):
        space.start("p.old")
    space.report(space.take("p.old"))
    assert result(space.get(id)) == "SUCCESS"
    space.define(machine("p.old"))
    with refused("FAILED_PRECONDITION", "OWNED_BY_PACKAGE", "p.m"):
        space.define(machine("p.m"))
    with refused("FAILED_PRECONDITION", "ID_TAKEN", "p.old"):
        registry.activate("1.0.0")
    assert What.Value("ADOPTED") in [
        document.what for document in registry.activate("1.0.0", adopt=True).documents]


def test_schedules_and_triggers_that_are_retired_have_ended(space, registry):
    ended = schedule.Schedule.ENDED
    calls = space.server.schedules
    registry.both("1.0.0", documents={
        "m.yaml": machine(),
        "s.yaml": "schedule: s\nevery: 1h\nstart: {machine: m}\n",
        "t.yaml": "trigger: t\non: {webhook: {path: p, open: true}}\nstart: {machine: m}\n"})
    registry.both("2.0.0")
    named = {"namespace": space.name, "name": "p.s"}
    one = calls.GetSchedule(schedule.GetScheduleRequest(**named), timeout=CALL)
    assert (one.state, one.version, len(one.upcoming)) == (ended, 1, 0)
    assert not one.HasField("next_time")
    assert calls.GetTrigger(schedule.GetTriggerRequest(
        namespace=space.name, name="p.t"), timeout=CALL).state == ended
    for wanted, names in (ended, ["p.s"]), (schedule.Schedule.ACTIVE, []):
        listed = calls.ListSchedules(schedule.ListSchedulesRequest(
            namespace=space.name, state=wanted), timeout=CALL)
        assert [one.name for one in listed.schedules] == names
    for wanted, names in (ended, ["p.t"]), (schedule.Schedule.ACTIVE, []):
        listed = calls.ListTriggers(schedule.ListTriggersRequest(
            namespace=space.name, state=wanted), timeout=CALL)
        assert [one.name for one in listed.triggers] == names
    with refused("FAILED_PRECONDITION", "RETIRED", "schedule 'p.s'"):
        calls.RunSchedule(schedule.RunScheduleRequest(**named), timeout=CALL)
    with refused("FAILED_PRECONDITION", "RETIRED", "trigger 'p.t'"):
        calls.FireTrigger(schedule.FireTriggerRequest(namespace=space.name, name="p.t"),
                          timeout=CALL)
    registry.activate("1.0.0")
    one = calls.GetSchedule(schedule.GetScheduleRequest(**named), timeout=CALL)
    assert one.state == schedule.Schedule.ACTIVE


def test_rollback_and_deactivate(space, registry):
    registry.both("1.0.0")
    with refused("FAILED_PRECONDITION", "NO_PREVIOUS"):
        registry.activate(rollback=True)
    registry.both("2.0.0", documents={"m.yaml": machine(node="b")})
    assert registry.activate(rollback=True).package.version == "1.0.0"
    assert registry.activate(rollback=True).package.version == "2.0.0"
    with refused("FAILED_PRECONDITION", "ACTIVE_CHANGED", "2.0.0"):
        registry.activate("1.0.0", if_active="1.0.0")
    assert registry.deactivate().previous == "2.0.0"
    with refused("FAILED_PRECONDITION", "RETIRED"):
        space.start("p.m")
    registry.activate("1.0.0", if_active="none")
    with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
        registry.activate("")


def test_a_candidate_takes_its_share(space, registry):
    registry.both("1.0.0")
    registry.push("2.0.0", documents={"m.yaml": machine(node="b"), "n.yaml": machine("fresh")})
    registry.activate("2.0.0", percent=30)
    assert registry.get("2.0.0").state == package.PackageVersion.CANDIDATE
    assert registry.get("2.0.0").percent == 30
    space.start_many("p.m", 300)
    share = registry.get("2.0.0").stats.live
    assert 50 < share < 130
    assert space.begin("p.m@1.0.0").instance.package.version == "1.0.0"
    assert space.begin("p.fresh@2.0.0").instance.package.version == "2.0.0"
    with refused("NOT_FOUND", "NO_SUCH_MACHINE"):
        space.start("p.fresh")
    registry.activate(rollback=True)
    assert registry.get("2.0.0").state == package.PackageVersion.PINNED
    with refused("FAILED_PRECONDITION", "PACKAGE_IN_USE", "p.m"):
        registry.remove("2.0.0")


def test_the_commands_tell_candidates_rollbacks_and_differences(space, registry, tmp_path):
    dcli = Cli(space.server.address, space.name)
    registry.both("1.0.0")
    registry.push("2.0.0", files={"bin/run": "#!/bin/sh\nexit 1\n"})
    dcli.ok("package", "activate", "p@2.0.0", "--percent", "30", "--note", "a try")
    ended = dcli.ok("package", "activate", "p@1.0.0")
    assert ended == "the candidate is ended; p@1.0.0 is active\n"
    dcli.ok("package", "activate", "p@2.0.0")
    dcli.ok("package", "rollback", "p")
    history = dcli.ok("package", "show", "p", "--history").splitlines()
    assert any(line.endswith("2.0.0  30 %  a try") for line in history), history
    assert any(line.endswith("1.0.0  rollback") for line in history), history

    same = dcli("package", "diff", "p@1.0.0", "p@1.0.0")
    assert (same.returncode, same.stdout) == (0, "")
    other = dcli("package", "diff", "p@1.0.0", registry.get("2.0.0").digest)
    assert other.returncode == 1
    assert "--- p@1.0.0/bin/run\n+++ p@2.0.0/bin/run\n" in other.stdout
    (tmp_path / "p.dfsmr").write_bytes(registry.fetch("1.0.0")[1])
    assert dcli("package", "diff", "p.dfsmr", "p@1.0.0", cwd=tmp_path).returncode == 0
    none = dcli("package", "diff", "p@1.0.0", "p@9.9.9")
    assert none.returncode == 1 and "NO_SUCH_PACKAGE" in none.stderr


def test_pull_says_why_it_cannot_write(space, registry, tmp_path):
    dcli = Cli(space.server.address, space.name)
    registry.push("1.0.0")
    done = dcli("package", "pull", "p@1.0.0", "--out", tmp_path / "none" / "x")
    assert done.returncode == 1 and "No such file or directory" in done.stderr
    done = dcli("package", "pull", "p@1.0.0", "--out", "/dev/full")
    assert done.returncode == 1 and "No space left on device" in done.stderr
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode) and not os.path.exists("/dev/full.part")
    (tmp_path / "link").symlink_to("real")
    dcli.ok("package", "pull", "p@1.0.0", "--out", "link", cwd=tmp_path)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == registry.fetch("1.0.0")[1]


def test_a_file_that_cannot_be_read_is_not_pushed(space, tmp_path):
    done = Cli(space.server.address, space.name)("package", "push", "none.dfsmr", cwd=tmp_path)
    assert done.returncode == 2
    assert "cannot read none.dfsmr: No such file or directory" in done.stderr


def test_what_happened_is_in_the_feed(space, registry):
    registry.both("1.0.0")
    id = space.start("p.m")
    registry.deactivate()
    registry.push("0.9.0")
    registry.remove("0.9.0")
    changes = list(space.changes(kinds=["PACKAGE_PUSHED", "PACKAGE_ACTIVATED", "RETIRED",
                                        "PACKAGE_DEACTIVATED", "PACKAGE_REMOVED", "STARTED",
                                        "DEFINED"])[0])
    assert [kind(change) for change in changes] == [
        "PACKAGE_PUSHED", "DEFINED", "PACKAGE_ACTIVATED", "STARTED", "RETIRED",
        "PACKAGE_DEACTIVATED", "PACKAGE_PUSHED", "PACKAGE_REMOVED"]
    assert {change.package.name for change in changes} == {"p"}
    assert changes[3].instance == id and changes[4].machine == "p.m"


def test_a_storm_of_starts_during_activations_is_neither_refused_nor_mixed(space, registry):
    text = {version: machine(node=f"n{version[0]}") for version in ("1.0.0", "2.0.0")}
    for version in text:
        registry.push(version, documents={"m.yaml": text[version]})
    registry.activate("1.0.0")
    over, wrong = threading.Event(), []

    def storm():
        while not over.is_set():
            instance = space.begin("p.m").instance
            if only(instance.tokens).node != f"n{instance.package.version[0]}":
                wrong.append(instance)

    def activations():
        for turn in range(12):
            version = ("2.0.0", "1.0.0")[turn % 2]
            registry.activate(version)
            if space.begin("p.m").instance.package.version != version:
                wrong.append(version)
        over.set()

    outcomes = together(activations, storm, storm, storm)
    assert outcomes == [None] * 4 and not wrong


def test_kill_during_activation_leaves_one_or_the_other(tmp_path):
    server = Server(tmp_path / "data").start()
    registry = Registry(server.space("default"))
    for version in ("1.0.0", "2.0.0"):
        registry.push(version, documents={
            f"m{number}.yaml": machine(f"m{number}", node=f"n{version[0]}")
            for number in range(40)})
    registry.activate("1.0.0")
    for turn in range(3):
        version = ("2.0.0", "1.0.0")[turn % 2]
        call = registry.stub.ActivatePackage.future(package.ActivatePackageRequest(
            package="p", version=version), timeout=CALL)
        threading.Event().wait(0.02 * turn)
        server.kill()
        call.exception()
        server.start()
        registry = Registry(server.space("default"))
        active = registry.get().version
        versions = {server.space("default").machine(f"p.m{number}").package.version
                    for number in range(40)}
        assert versions == {active}
        registry.activate(version)
    server.stop()
    server.dispose()


def test_who_may_do_what_and_what_the_audit_says(guarded, root):
    space = root.space("default")
    data = archive()
    admin = Registry(space, root.channel)
    for role in ("viewer", "worker"):
        with refused("PERMISSION_DENIED", "NOT_ALLOWED"):
            Registry(space, root.create(role).channel).put(data)
    Registry(space, root.create("operator").channel).put(data)
    admin.activate("1.0.0")
    viewer = Registry(space, root.create("viewer").channel)
    assert viewer.get().version == "1.0.0" and viewer.fetch()[1] == data
    with refused("PERMISSION_DENIED", "NOT_ALLOWED"):
        viewer.deactivate()
    noted = [line["method"].split("/")[1] for line in audited(guarded, result="OK")
             if "PackageService" in line["method"]]
    assert noted == ["PutPackage", "ActivatePackage"]
    assert only(audited(guarded, on="p@1.0.0"))["method"].endswith("/ActivatePackage")
    limited = Registry(space, root.create("worker", machines=["p.m"]).channel)
    assert limited.fetch()[1] == data
    other = Registry(space, root.create("worker", machines=["q.m"]).channel)
    with refused("PERMISSION_DENIED", "NOT_ALLOWED"):
        other.fetch()


# In namespaces --------------------------------------------------------------------------------


def quotas(space, **numbers):
    request = package.UpdateNamespaceRequest(name=space.name)
    for key, value in numbers.items():
        setattr(request.settings.quotas, key, value)
        request.fields.paths.append("quotas." + key)
    return names(space).UpdateNamespace(request, timeout=CALL)


def names(space):
    return package_grpc.NamespaceServiceStub(space.server.channel)


def usage(space):
    return names(space).GetNamespace(package.GetNamespaceRequest(name=space.name),
                                     timeout=CALL).usage


def test_a_package_counts_in_its_namespace(space, registry):
    data = archive()
    with refused("NOT_FOUND", "NO_SUCH_NAMESPACE"):
        usage(space)
    registry.put(data, validate_only=True)
    with refused("NOT_FOUND", "NO_SUCH_NAMESPACE"):
        usage(space)
    registry.put(data)
    assert (usage(space).package_bytes, usage(space).definitions) == (len(data), 0)
    registry.activate("1.0.0")
    assert usage(space).definitions == 1
    quotas(space, package_bytes=len(data), definitions=1)
    with refused("RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED", "package-bytes", str(len(data))):
        registry.push("2.0.0")
    assert not registry.put(data).created
    quotas(space, package_bytes=0)
    registry.push("2.0.0", documents={"m.yaml": machine(), "n.yaml": machine("n")})
    with refused("RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED", "definitions"):
        registry.activate("2.0.0")
    registry.push("3.0.0", documents={"n.yaml": machine("n")})
    registry.activate("3.0.0")
    assert usage(space).definitions == 1
    registry.remove("1.0.0")
    assert registry.get().version == "3.0.0"


def test_a_frozen_namespace_is_activated_in_and_a_deleted_one_is_not(space, registry):
    registry.push("1.0.0")
    names(space).FreezeNamespace(package.FreezeNamespaceRequest(name=space.name), timeout=CALL)
    registry.activate("1.0.0")
    with refused("FAILED_PRECONDITION", "NAMESPACE_FROZEN"):
        space.start("p.m")
    names(space).FreezeNamespace(
        package.FreezeNamespaceRequest(name=space.name, thaw=True), timeout=CALL)
    space.start("p.m")
    space.take("p.m")
    request = package.DeleteNamespaceRequest(name=space.name)
    request.drain.seconds = 5
    names(space).DeleteNamespace(request, timeout=CALL)
    for refusal in (lambda: registry.push("2.0.0"), lambda: registry.activate("1.0.0", percent=5),
                    lambda: registry.remove("1.0.0"), registry.deactivate):
        with refused("FAILED_PRECONDITION", "NAMESPACE_DELETING"):
            refusal()

    def gone():
        return names(space).DeleteNamespace(request, timeout=CALL).state == (
            package.Namespace.DELETED)

    assert eventually(gone, 60)
    assert not registry.list().packages
    registry.both("1.0.0", documents={"m.yaml": machine(node="other")})
    assert space.machine("p.m").version == 1


def test_closed_namespaces_take_no_packages(tmp_path):
    server = Server(tmp_path / "data", "--namespaces", "closed").start()
    registry = Registry(server.space("fresh"))
    with refused("NOT_FOUND", "NO_SUCH_NAMESPACE"):
        registry.push()
    names(registry.space).CreateNamespace(
        package.CreateNamespaceRequest(name="fresh"), timeout=CALL)
    assert registry.push().version == "1.0.0"
    server.stop()
    server.dispose()
