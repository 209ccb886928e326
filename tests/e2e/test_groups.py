"""Groups: what their members add up to, what a paused one holds back, and orders to all members."""
import threading

import pytest

from stubs import schedule, schedule_grpc, v1
from support import JOB, eventually, kind, refused, result, state

Order = schedule.ControlGroupRequest

PLAN = """\
plan: steps
flow: [{step: one, action: one}]
"""


class Groups:
    """The calls about groups, in a namespace."""

    def __init__(self, space):
        self.space = space

    def call(self, method, request):
        stub = schedule_grpc.ScheduleServiceStub(self.space.server.channel)
        return getattr(stub, method)(request, timeout=10)

    def get(self, name="g"):
        return self.call("GetGroup", schedule.GetGroupRequest(
            namespace=self.space.name, name=name))

    def list(self, **more):
        return self.call("ListGroups", schedule.ListGroupsRequest(
            namespace=self.space.name, **more))

    def set(self, name="g", **more):
        return self.call("SetGroup", schedule.SetGroupRequest(
            namespace=self.space.name, name=name, **more))

    def order(self, action, name="g", **more):
        return self.call("ControlGroup", schedule.ControlGroupRequest(
            namespace=self.space.name, name=name, action=action, **more))


@pytest.fixture
def groups(space):
    space.define(JOB)
    return Groups(space)


def numbers(group):
    return [group.total, group.scheduled, group.running, group.paused_members, group.success,
            group.warning, group.error, group.cancelled, group.aborted, group.failed]


def finished(space, name="g"):
    """The GROUP_FINISHED of a group, as (seq, note)."""
    changes, _ = space.changes("0")
    return [(c.seq, c.note) for c in changes
            if kind(c) == "GROUP_FINISHED" and c.cause == f"group:{name}"]


# Members -----------------------------------------------------------------------------------------


def test_names_of_groups_that_are_reserved_are_refused(space, groups):
    for group in ("dfsmr.", "dfsmr.g"):
        with refused("INVALID_ARGUMENT", "BAD_REQUEST", "reserved"):
            space.start("job", group=group)
    assert space.begin("job", "a", group="dfsmr/g").instance.group == "dfsmr/g"


def test_the_first_member_makes_the_group(space, groups):
    with refused("NOT_FOUND", "NO_SUCH_GROUP"):
        groups.get()
    assert space.begin("job", "a", group="g").instance.group == "g"
    space.start("job", "b", group="g", hold=True)
    space.start("job", "stranger")
    group = groups.get()
    assert (group.namespace, group.name) == (space.name, "g")
    assert numbers(group) == [2, 1, 1, 0, 0, 0, 0, 0, 0, 0]
    assert group.state == v1.Instance.RUNNING and group.result == v1.Instance.PENDING
    assert group.HasField("create_time") and not group.HasField("end_time")
    assert not group.HasField("max_running") and not group.paused
    assert space.get("a").group == "g" and space.get("stranger").group == ""
    assert [i.id for i in space.instances(group="g").instances] == ["a", "b"]
    assert [i.id for i in space.instances(group="g", state=v1.Instance.RUNNING).instances] == ["a"]
    assert not space.instances(group="h").instances


def test_lists_of_members_come_in_pages(space, groups):
    ids = [space.start("job", f"i{n}", group="g") for n in range(7)]
    space.start("job", "i3x", group="other")
    page = space.instances(group="g", page_size=3)
    seen = [i.id for i in page.instances]
    while page.next_page_token:
        page = space.instances(group="g", page_size=3, page_token=page.next_page_token)
        seen += [i.id for i in page.instances]
    assert seen == ids


@pytest.mark.parametrize("name", ["", "two words", "x" * 257, "ä"])
def test_a_group_is_named_as_an_instance_is(space, groups, name):
    if name:
        with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
            space.start("job", group=name)
    for call in (groups.get, groups.set, lambda n: groups.order(Order.PAUSE, n)):
        with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
            call(name)


def test_a_group_ends_with_its_last_member_and_says_so_each_time(space, groups):
    space.start("job", "a", group="g")
    space.start("job", "b", group="g")
    space.transition("a", "ok")
    assert finished(space) == []
    space.transition("b", "ok")
    group = groups.get()
    assert numbers(group) == [2, 0, 0, 0, 2, 0, 0, 0, 0, 0]
    assert group.state == v1.Instance.STOPPED and group.result == v1.Instance.SUCCESS
    assert group.progress == 1 and group.end_time == space.get("b").end_time
    assert [note for _, note in finished(space)] == ["SUCCESS"]
    changes, _ = space.changes("0")
    last = changes[-1]
    assert kind(last) == "GROUP_FINISHED" and not last.instance and last.group == "g"
    assert kind(changes[-2]) == "FINISHED" and changes[-2].group == "g"

    space.start("job", "c", group="g")
    assert groups.get().state == v1.Instance.RUNNING
    space.transition("c", "error")
    assert groups.get().result == v1.Instance.ERROR
    assert [note for _, note in finished(space)] == ["SUCCESS", "ERROR"]


def test_members_that_failed_are_counted_and_pause_their_group(space, groups):
    space.define(PLAN)
    group = groups.set(stop_on_fail=2)
    assert group.stop_on_fail == 2 and group.state == v1.Instance.STATE_UNSPECIFIED
    space.start("job", "bad", group="g")
    space.start("steps", "stuck", group="g")
    space.start("job", "runs", group="g")
    space.transition("bad", "error")
    assert not groups.get().paused
    space.report(space.take("", action="one"), "error")
    group = groups.get()
    assert group.failed == 2 and group.error == 1 and group.paused_members == 1
    assert group.paused and "2 members failed" in group.note and "stuck" in group.note
    waits = space.begin("job", "waits", group="g").instance
    assert state(waits) == "SCHEDULED"
    for instance in (waits, space.get("waits"), space.instances(group="g").instances[-1]):
        assert [(w.kind, w.key) for w in instance.waits_for] == [(v1.Wait.GROUP_PAUSED, "g")]
    assert state(space.get("runs")) == "RUNNING"

    group = groups.order(Order.RESUME)
    assert not group.paused and not group.note
    assert state(space.get("waits")) == "RUNNING" and not space.get("waits").waits_for
    space.transition("runs", "error")
    assert not groups.get().paused  # counts anew
    space.transition("waits", "error")
    assert groups.get().paused


def test_lists_of_groups(space, groups):
    for name in ("c", "a", "b"):
        space.start("job", f"of-{name}", group=name)
    space.transition("of-b", "ok")
    assert [g.name for g in groups.list().groups] == ["a", "b", "c"]
    assert [g.name for g in groups.list(state=v1.Instance.STOPPED).groups] == ["b"]
    assert not groups.list(schedule="nightly").groups
    page = groups.list(page_size=2)
    assert [g.name for g in page.groups] == ["a", "b"]
    page = groups.list(page_size=2, page_token=page.next_page_token)
    assert [g.name for g in page.groups] == ["c"] and not page.next_page_token
    with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
        groups.list(page_size=-1)
    with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
        groups.list(page_token="00")


# Orders ------------------------------------------------------------------------------------------


def test_a_paused_group_lets_none_begin_and_the_rest_go_on(space, groups):
    space.start("job", "runs", group="g")
    space.start("job", "held", group="g", hold=True)
    group = groups.order(Order.PAUSE, note="no room")
    assert group.paused and group.note == "no room"
    kinds = {w.kind for w in space.get("held").waits_for}
    assert v1.Wait.GROUP_PAUSED in kinds
    space.resume("held")
    assert state(space.get("held")) == "SCHEDULED"
    assert [t.instance for t in space.ready("job")] == ["runs"]
    groups.order(Order.RESUME)
    assert state(space.get("held")) == "RUNNING"


def test_orders_to_members(space, groups):
    ids = [space.start("job", group="g") for _ in range(10)]
    space.start("job", "other", group="h")
    groups.order(Order.PAUSE, members=True)
    eventually(lambda: groups.get().paused_members == 10)
    assert groups.get().state == v1.Instance.PAUSED
    groups.order(Order.RESUME, members=True)
    eventually(lambda: groups.get().running == 10)
    task = space.take("job", node="work")
    while task.instance == "other":
        task = space.take("job", node="work")
    groups.order(Order.CANCEL)
    eventually(lambda: groups.get().cancelled == 9)
    assert space.get(task.instance).state == v1.Instance.RUNNING  # its worker may finish
    groups.order(Order.FORCE)
    eventually(lambda: groups.get().state == v1.Instance.STOPPED)
    assert groups.get().result == v1.Instance.CANCELLED
    assert all(result(space.get(id)) == "CANCELLED" for id in ids)
    assert state(space.get("other")) == "RUNNING"
    assert len(finished(space)) == 1


@pytest.mark.parametrize("runs", [True, False])
def test_members_that_were_cancelled_are_resumed(space, groups, runs):
    for id in ("a", "b", "done"):
        space.start("job", id, group="g")
    space.transition("done", "ok")
    if runs:
        space.start("job", "runs", group="g")
    space.cancel("a")
    space.cancel("b")
    assert space.get("a").resumable
    groups.order(Order.RESUME, members=True)
    eventually(lambda: groups.get().running == 2 + runs)
    assert numbers(groups.get()) == [3 + runs, 0, 2 + runs, 0, 1, 0, 0, 0, 0, 0]
    assert [state(space.get(id)) for id in ("a", "b")] == ["RUNNING", "RUNNING"]


def test_what_cannot_be_ordered(space, groups):
    for bad in (Order.ACTION_UNSPECIFIED, 77):
        with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
            groups.order(bad)
    with refused("NOT_FOUND", "NO_SUCH_GROUP"):
        groups.order(Order.PAUSE)
    groups.set()
    with refused("INVALID_ARGUMENT", "TOO_LARGE"):
        groups.order(Order.PAUSE, note="x" * 1025)
    with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
        groups.set(max_running=1, no_max_running=True)
    with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
        groups.set(max_running=1_000_001)


@pytest.mark.parametrize("action", ["CANCEL", "PAUSE"])
def test_5000_members_follow_an_order_over_kill_9(new_server, action):
    server = new_server().start()
    space = server.space("")
    space.define(JOB)
    groups = Groups(space)
    ids = space.start_many("job", 5_000, group="g")
    for id in ids[:10]:
        space.transition(id, "ok")
    before = groups.order(Order.Action.Value(action), members=action == "PAUSE")
    assert before.success == 10
    followed = [g.cancelled + g.paused_members for g in (groups.get(),)]
    server.kill()
    server.start()
    eventually(lambda: groups.get().running == 0, 30)
    group = groups.get()
    assert group.total == 5_000 and group.success == 10
    assert followed[0] <= 4_990
    if action == "CANCEL":
        assert group.cancelled == 4_990 and group.state == v1.Instance.STOPPED
        assert [note for _, note in finished(space)] == ["CANCELLED"]
        return
    assert group.paused and group.paused_members == 4_990
    server.kill()
    server.start()
    assert numbers(groups.get()) == numbers(group)
    groups.order(Order.RESUME, members=True)
    server.kill()
    server.start()
    eventually(lambda: groups.get().running == 4_990, 30)


def test_counters_are_the_same_after_kill_9(new_server):
    server = new_server().start()
    space = server.space("")
    space.define(JOB)
    groups = Groups(space)
    ids = space.start_many("job", 300, group="g")
    groups.set(stop_on_fail=200)
    for n, id in enumerate(ids[:90]):
        space.transition(id, "ok" if n % 3 else "error")
    for id in ids[100:110]:
        space.pause(id)
    group = groups.get()
    for _ in range(2):
        server.kill()
        server.start()
        assert groups.get() == group


# dcli --------------------------------------------------------------------------------------------


def test_dcli_lists_sets_and_orders_groups(space, groups, dcli):
    assert "no group" in dcli("groups").stderr
    dcli.ok("start", "job", "--id", "a", "--group", "nightly")
    dcli.ok("start", "job", "--id", "b", "--group", "nightly", "--hold")
    header, line = dcli.ok("groups").splitlines()
    assert header.split() == ["GROUP", "STATE", "RESULT", "TOTAL", "WAITING", "RUNNING", "DONE",
                              "FAILED", "MAX", "PROGRESS"]
    assert line.split()[:9] == ["nightly", "RUNNING", "PENDING", "2", "1", "1", "0", "0", "none"]
    assert dcli.ok("groups", "nightly").splitlines()[1] == line
    assert dcli.ok("groups", "show", "nightly").splitlines()[1] == line
    assert dcli.ok("-o", "name", "groups") == "nightly\n"
    assert dcli.json("groups", "nightly")["running"] == "1"
    assert dcli.ok("-o", "name", "instances", "--group", "nightly") == "a\nb\n"
    dcli.ok("groups", "set", "nightly", "--stop-on-fail", "3")
    assert groups.get("nightly").stop_on_fail == 3
    assert "is paused: why not" in dcli("groups", "pause", "nightly", "--note", "why not").stderr
    dcli.ok("groups", "resume", "nightly", "--members")
    dcli.ok("groups", "cancel", "nightly", "--force")
    eventually(lambda: groups.get("nightly").cancelled == 2)
    assert "--force" in dcli("groups", "--help").stdout


def test_what_dcli_refuses(groups, dcli):
    for words in (["set"], ["frob", "g"], ["set", "g", "--stop-on-fail", "x"],
                  ["set", "g", "--max-running", "-1"], ["pause", "g", "--force"],
                  ["g", "--members"]):
        assert dcli("groups", *words).returncode == 2, words
    gone = dcli("groups", "g")
    assert gone.returncode == 1 and "g" in gone.stderr


@pytest.mark.parametrize("word, status", [("ok", 0), ("error", 1)])
def test_dcli_waits_for_a_group(space, groups, dcli, word, status):
    space.start("job", "a", group="g")
    space.start("job", "b", group="g")
    waits = dcli.background("groups", "wait", "g")
    space.transition("a", "ok")
    threading.Timer(0.5, lambda: space.transition("b", word)).start()
    out, err = waits.communicate(timeout=20)
    assert waits.returncode == status, err
    assert "STOPPED" in out
    assert dcli("groups", "wait", "g").returncode == status
