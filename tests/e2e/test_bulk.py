"""Bulks: one thing done to many instances, exactly once, over crashes too."""
from stubs import v1, view
from support import JOB, PAIR, eventually, kind, only, refused, result, state

BULK = view.Bulk


def test_a_bulk_changes_what_matches_and_nothing_else(space):
    space.define(PAIR)
    space.define(JOB)
    for i in range(5):
        space.start("pair", f"p-{i}")
    space.start("job", "other")
    space.pause("p-0")
    bulk = space.bulk("PAUSE", "machine:pair", reason="maintenance")
    assert bulk.state == BULK.DONE
    assert (bulk.matched, bulk.changed, bulk.unchanged, bulk.refused) == (5, 4, 1, 0)
    assert [state(space.get(f"p-{i}")) for i in range(5)] == ["PAUSED"] * 5
    assert state(space.get("other")) == "RUNNING"
    paused = only([c for c in space.history("p-3") if kind(c) == "PAUSED"])
    assert (paused.client, paused.note) == (f"bulk/{bulk.request.id}", "maintenance")
    assert space.bulk("RESUME", "state:paused").changed == 5
    assert space.bulk("CANCEL", "machine:pair").changed == 5
    assert {result(one) for one in space.instances(filter="machine:pair").instances} == {"CANCELLED"}


def test_a_preview_counts_and_changes_nothing(space):
    space.define(PAIR)
    for i in range(30):
        space.start("pair", f"p-{i:02}")
    space.transition("p-00", "error")
    space.pause("p-01")
    preview = space.start_bulk("PAUSE", "machine:pair", validate_only=True)
    assert preview.state == BULK.PREVIEW and not preview.at_least
    assert (preview.matched, preview.changed, preview.unchanged, preview.refused) == (30, 28, 1, 1)
    assert dict(preview.reasons) == {"INSTANCE_STOPPED": 1}
    assert list(preview.sample) == [f"p-{i:02}" for i in range(2, 22)]
    assert state(space.get("p-02")) == "RUNNING"
    real = space.bulk("PAUSE", "machine:pair")
    assert (real.changed, real.unchanged, real.refused) == (28, 1, 1)
    assert dict(real.reasons) == {"INSTANCE_STOPPED": 1} and list(real.sample) == ["p-00"]


def test_a_bulk_moves_instances_by_hand(space):
    space.define(PAIR)
    for i in range(3):
        space.start("pair", f"p-{i}")
    space.transition("p-1", "ok")
    bulk = space.bulk("TRANSITION", "machine:pair", transition="back", node="second",
                      node_params='{"n": 1}')
    assert (bulk.changed, bulk.refused) == (1, 2)
    assert dict(bulk.reasons) == {"ILLEGAL_TRANSITION": 2}
    assert space.token("p-1").node == "first"


def test_listed_instances_are_changed_in_order(space):
    space.define(JOB)
    for id in ("c", "a", "b"):
        space.start("job", id)
    bulk = space.bulk("PAUSE", instances=["c", "a", "none", "a"])
    assert (bulk.matched, bulk.changed) == (2, 2)
    assert state(space.get("b")) == "RUNNING"


def test_at_most_so_many_are_changed(space):
    space.define(JOB)
    space.start_many("job", 20)
    bulk = space.bulk("PAUSE", "machine:job", at_most=7)
    assert (bulk.state, bulk.changed) == (BULK.LIMITED, 7)
    assert space.count("state:paused").total == 7


def test_a_preview_foresees_where_at_most_so_many_ends_it(space):
    space.define(JOB)
    space.start_many("job", 20)
    preview = space.start_bulk("PAUSE", "machine:job", validate_only=True, at_most=7)
    assert (preview.changed, len(preview.sample)) == (7, 7)


def test_the_same_id_again_is_the_bulk_that_exists(space):
    space.define(JOB)
    space.start("job")
    first = space.bulk("PAUSE", "machine:job", id="mine")
    assert space.start_bulk("PAUSE", "machine:job", id="mine").start_time == first.start_time
    again = space.start_bulk("CANCEL", "machine:job", id="mine")
    assert again.request.action == view.StartBulkRequest.PAUSE
    with refused("NOT_FOUND", "NO_SUCH_BULK"):
        space.get_bulk("none")
    second = space.bulk("RESUME", "machine:job")
    listed = space.server.bulks.ListBulks(view.ListBulksRequest(namespace=space.name), timeout=5)
    assert [one.request.id for one in listed.bulks] == [second.request.id, "mine"]
    page = space.server.bulks.ListBulks(
        view.ListBulksRequest(namespace=space.name, page_size=1), timeout=5)
    rest = space.server.bulks.ListBulks(view.ListBulksRequest(
        namespace=space.name, page_size=1, page_token=page.next_page_token), timeout=5)
    assert only(rest.bulks).request.id == "mine" and not rest.next_page_token


def test_what_is_asked_for_wrongly_is_refused(space):
    for more in (dict(action="PAUSE"), dict(action="PAUSE", filter="a", instances=["a"]),
                 dict(action="ACTION_UNSPECIFIED", filter="a"),
                 dict(action="TRANSITION", filter="a"),
                 dict(action="PAUSE", filter="a", force=True),
                 dict(action="PAUSE", filter="a", transition="ok"),
                 dict(action="RESUME", filter="a", mode=v1.CancelRequest.FORCE)):
        with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
            space.start_bulk(**more)
    with refused("INVALID_ARGUMENT", "TOO_LARGE"):
        space.start_bulk("PAUSE", instances=["a"] * 1001)


def test_a_bulk_goes_on_after_kill_9_and_does_nothing_twice(new_server):
    server = new_server().start()
    space = server.space("bulk")
    space.define(PAIR)
    space.start_many("pair", 5000)
    id = space.start_bulk("TRANSITION", "machine:pair", transition="ok").request.id
    eventually(lambda: space.get_bulk(id).changed > 300, 20)
    server.kill()
    server.start()
    assert 0 < space.get_bulk(id).changed
    eventually(lambda: space.get_bulk(id).state == BULK.DONE, 60)
    bulk = space.get_bulk(id)
    assert (bulk.matched, bulk.changed, bulk.refused) == (5000, 5000, 0)
    assert space.count("node:second is:ready").total == 5000


def test_a_bulk_can_be_stopped_and_leaves_alone_what_comes_later(new_server):
    server = new_server().start()
    space = server.space("bulk")
    space.define(JOB)
    space.start_many("job", 5000)
    id = space.start_bulk("PAUSE", "machine:job").request.id
    late = [space.start("job", f"zzz-{i}") for i in range(3)]
    stopped = server.bulks.StopBulk(view.StopBulkRequest(namespace="bulk", id=id), timeout=10)
    assert stopped.state in (BULK.STOPPED, BULK.DONE)
    assert space.count("state:paused").total == space.get_bulk(id).changed
    assert space.bulk("PAUSE", "machine:job -zzz").state == BULK.DONE
    assert {state(space.get(one)) for one in late} == {"RUNNING"}
