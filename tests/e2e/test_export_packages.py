"""Export and import of what packages brought: pinned instances take their own documents there."""
import pytest

from stubs import v1
from support import JOB, eventually, refused, state
from test_export import here, there, two  # noqa: F401, fixtures
from test_packages import machine


def documents(number):
    """A plan that is planned, spawns and runs a hook with other documents of its package."""
    return {
        "top.yaml": "plan: top\nhooks: [{on: [success], action: note}]\nflow:\n"
                    "- {step: one, plan: sub}\n"
                    "- {step: kids, spawn: {machine: kid, for_each: [1], as: n}, after: [one]}\n",
        "sub.yaml": f"plan: sub\nflow:\n- {{step: x{number}, action: act}}\n",
        "kid.yaml": machine("kid", f"k{number}"),
        "act.yaml": f"action: act\n---\naction: note\ndescription: of {number}\n"}


def walked(space):
    """Does all that is ready: which tasks of which package version that were, by instance."""
    found = []
    while tasks := space.ready(max_tasks=100, wait=0.5):
        for task in tasks:
            hook = task.machine == "p.note"
            found.append(("hook" if hook else task.instance, task.node, task.package.version))
            space.report(task)
    return sorted(found)


def test_pinned_plans_take_their_own_documents_there(here, there):  # noqa: F811
    here.registry.both("1.0.0", documents=documents(1))
    here.space.start("p.top", id="waits", hold=True)
    here.space.plan("p.top", id="goes")
    here.registry.both("2.0.0", documents=documents(2))
    here.space.start("p.top", id="later", hold=True)
    here.freeze()
    files = here.export(instances=True)
    assert there.bring(files).instances == 3
    here.freeze(thaw=True)
    for space in (here.space, there.space):
        space.resume("waits")
        space.resume("later")
        for id in ("waits", "later"):
            eventually(lambda: state(space.get(id)) == "RUNNING")
        assert walked(space) == [
            ("goes", "one.x1", "1.0.0"), ("goes/kids/0", "k1", "1.0.0"),
            ("hook", "p.note", "1.0.0"), ("hook", "p.note", "1.0.0"), ("hook", "p.note", "2.0.0"),
            ("later", "one.x2", "2.0.0"), ("later/kids/0", "k2", "2.0.0"),
            ("waits", "one.x1", "1.0.0"), ("waits/kids/0", "k1", "1.0.0")]
        for id in ("goes", "waits", "later"):
            space.ends(id, "SUCCESS")
    assert there.bring(files).already_there > 0


@pytest.mark.parametrize("removed", [False, True])
def test_instances_that_go_on_with_new_programs_come_along(here, there, removed):  # noqa: F811
    for version in ("1.0.0", "2.0.0"):
        here.registry.both(version, documents={"m.yaml": machine(strategy="upgrade")})
        here.space.start("p.m", id=f"of-{version}")
    if removed:
        here.registry.remove("1.0.0")
    here.freeze()
    files = here.export(instances=True)
    assert "packages/p-1.0.0.dfsmr" not in files  # nothing has its programs any more
    assert there.bring(files).instances == 2
    # What is there already is skipped, also where it is told of as it was defined.
    assert here.bring(files).instances == 0
    for _ in range(2):
        space = there.server.space(there.name)
        for one in space.instances().instances:
            assert (one.version, one.package.version) == (2, "2.0.0")
        there.server.kill()
        there.server.start()
    space = there.server.space(there.name)
    tasks = space.ready(max_tasks=10)
    assert {(task.instance, task.package.version) for task in tasks} == {
        ("of-1.0.0", "2.0.0"), ("of-2.0.0", "2.0.0")}
    for task in tasks:
        assert space.report(task).state == v1.Instance.STOPPED


def test_an_import_takes_nothing_that_only_one_can_have(here, there):  # noqa: F811
    hook = "on: {webhook: {path: orders, open: true}}\nstart: {machine: job}\n"
    here.space.define(f"{JOB}---\ntrigger: ours\n{hook}")
    there.space.define(f"{JOB}---\ntrigger: theirs\n{hook}")
    with refused("FAILED_PRECONDITION", "ID_TAKEN", "trigger 'ours'", "'orders'", "'theirs'"):
        there.bring(here.export(), validate_only=True)
    with refused("FAILED_PRECONDITION", "ID_TAKEN"):
        there.bring(here.export())
    limit = "on: {queue: slow}\nmax: 1\n"
    there.space.define(f"limit: narrow\n{limit}")
    here.registry.both("1.0.0", documents={"m.yaml": machine(), "l.yaml": f"limit: wide\n{limit}"})
    files = here.export()
    del files["definitions/trigger/ours.yaml"]
    with refused("FAILED_PRECONDITION", "ID_TAKEN", "limit 'p.wide'", "'narrow'"):
        there.bring(files)
    assert there.definitions() == ["job"]
    assert there.bring(files, name="elsewhere").packages == 1
