"""Documents of packages beside others: what only one can have, quotas, and how schedules are shown."""
import pytest

from stubs import package, package_grpc, schedule, v1
from support import CALL, JOB, SOON, only, refused
from test_packages import Registry, What, machine


@pytest.fixture
def registry(space):
    return Registry(space)


def hook(name, path="orders"):
    return (f"trigger: {name}\non: {{webhook: {{path: {path}, open: true}}}}\n"
            "start: {machine: m}\n")


def limit(name, queue="slow"):
    return f"limit: {name}\non: {{queue: {queue}}}\nmax: 1\n"


def of_documents(**more):
    return {"m.yaml": machine(), **{f"{name}.yaml": text for name, text in more.items()}}


def whats(reply):
    return {one.id: What.Name(one.what) for one in reply.documents}


def test_a_document_may_have_another_name_in_the_next_version(space, registry):
    registry.both("1.0.0", documents=of_documents(t=hook("a"), l=limit("wide")))
    reply = registry.both("2.0.0", documents=of_documents(t=hook("b"), l=limit("narrow")))
    assert whats(reply) == {"p.m": "SAME", "p.b": "ADDED", "p.narrow": "ADDED",
                            "p.a": "RETIRED", "p.wide": "RETIRED"}
    assert {one.id: one.version for one in reply.documents if one.what == What.Value("RETIRED")} == {
        "p.a": 1, "p.wide": 1}
    triggers = space.server.schedules.ListTriggers(
        schedule.ListTriggersRequest(namespace=space.name), timeout=CALL).triggers
    active = [one for one in triggers if one.state == schedule.Schedule.ACTIVE]
    assert [(one.name, one.webhook_path) for one in active] == [
        ("p.b", f"/hooks/{space.name}/orders")]
    assert whats(registry.activate(rollback=True))["p.b"] == "RETIRED"


def test_what_others_have_is_told_with_all_places(space, registry):
    space.define(JOB + "---\n" + hook("theirs").replace("machine: m", "machine: job") + "---\n" +
                 limit("narrow"))
    registry.push("1.0.0", documents=of_documents(t="# of a shop\n" + hook("ours"), l=limit("wide")))
    for more in ({"validate_only": True}, {}):
        with refused("INVALID_ARGUMENT", "BAD_PACKAGE", "documents/l.yaml:2:", "'narrow'",
                     "documents/t.yaml:3:22: on.webhook.path:", "'theirs'") as box:
            registry.activate("1.0.0", **more)
        assert [(one.source_name, one.line) for one in box[0].diagnostics] == [
            ("documents/l.yaml", 2), ("documents/t.yaml", 3)]
    assert [one.id for one in space.machines().machines] == ["job"]


def test_a_candidate_becomes_active_where_the_quota_is_used_up(space, registry):
    registry.both("1.0.0")
    registry.push("2.0.0", documents=of_documents(n=machine("n")))
    request = package.UpdateNamespaceRequest(name=space.name)
    request.settings.quotas.definitions = 2
    request.fields.paths.append("quotas.definitions")
    spaces = package_grpc.NamespaceServiceStub(space.server.channel)
    spaces.UpdateNamespace(request, timeout=CALL)
    registry.activate("2.0.0", percent=10)
    with refused("RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED", "definitions"):
        space.define(JOB)
    assert whats(registry.activate("2.0.0")) == {"p.m": "SAME", "p.n": "ADDED"}
    with refused("RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED", "definitions"):
        registry.both("3.0.0", documents=of_documents(n=machine("n"), o=machine("o")))


def test_what_a_candidate_of_another_package_names_is_in_use(space, registry):
    registry.both("1.0.0", documents=of_documents(act="action: act\n"))
    plan = "plan: pl\nflow:\n- {{step: a, action: {}}}\n"
    for version, action in (("1.0.0", "other"), ("2.0.0", "p.act")):
        registry.push(version, name="o", documents={"pl.yaml": plan.format(action)},
                      more="workers: {w: {serves: [none], run: ./bin/run}}\n")
    registry.activate("1.0.0", name="o")
    registry.activate("2.0.0", name="o", percent=50)
    with refused("FAILED_PRECONDITION", "PACKAGE_IN_USE", "plan 'o.pl@2.0.0' names 'p.act'"):
        registry.deactivate()
    registry.activate(name="o", rollback=True)  # ends the candidate
    assert registry.deactivate().changed


def test_a_schedule_of_a_package_is_shown_with_names_in_full(space, registry):
    registry.both("1.0.0", documents=of_documents(
        s="schedule: s\nevery: 1h\njitter: 30m\nstart: {machine: m}\n"))
    schedules = space.server.schedules
    shown = schedules.GetSchedule(
        schedule.GetScheduleRequest(namespace=space.name, name="p.s"), timeout=CALL)
    assert shown.machine == "p.m"
    listed = schedules.ListSchedules(
        schedule.ListSchedulesRequest(namespace=space.name), timeout=CALL)
    assert only(listed.schedules).machine == "p.m"
    preview = schedules.PreviewSchedule(
        schedule.PreviewScheduleRequest(namespace=space.name, name="p.s"), timeout=CALL)
    assert preview.start.machine == "p.m" and preview.start.id.startswith("p.s-")
    # With the jitter that it has when its time comes.
    assert [one.begin for one in preview.times[:5]] == [one.begin for one in shown.upcoming]


def test_children_go_to_the_version_that_they_name(space, registry):
    registry.both("1.0.0")
    registry.push("2.0.0", documents=of_documents(n=machine("n")))
    registry.activate("2.0.0", percent=0.01)
    space.define("plan: parent\nflow:\n- {step: a, action: act}\n")
    space.plan("parent", id="top")
    task = space.take("parent")
    with refused("NOT_FOUND", "NO_SUCH_MACHINE", "'children'", "'p.n'", "1.0.0"):
        space.suspend(task, children=[v1.StartRequest(machine="p.n@1.0.0")])
    with refused("NOT_FOUND", "NO_SUCH_PACKAGE", "'children'", "'3.0.0'"):
        space.suspend(task, children=[v1.StartRequest(machine="p.m@3.0.0")])
    named = ["p.m@1.0.0", "p.m@2.0.0", "p.n@2.0.0"]
    space.suspend(task, children=[v1.StartRequest(machine=name) for name in named],
                  children_concurrency=1)
    for name in named:  # one after the other, the last ones from what is kept
        space.server.restart()
        task = only(space.ready(wait=SOON, packages=["p"]))
        assert f"{task.machine}@{task.package.version}" == name
        space.report(task)
    assert [f"{one.machine}@{one.package.version}" for one in space.children("top")] == named
