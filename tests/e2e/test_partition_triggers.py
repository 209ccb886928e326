"""Triggers of a store of several partitions: changes and polls of any of them, once."""
import collections
import json
import threading

import grpc
from cluster_servers import persist
from stubs import v1
from support import eventually, state
from test_partitions import PARTITIONS, parted  # noqa: F401: a fixture
from test_triggers import MACHINES, Triggers, outcome

LOST = 20.0  # seconds within which one that is killed has been replaced
AFTER = """\
trigger: after
on: {change: {kind: finished, machine: build}}
start: {machine: deploy, id: "d-${item.instance.id}"}
"""


def build(space, id):
    def end():  # of one that was lost with its answer nobody knows whether it was done
        if state(space.get(id)) != "STOPPED":
            space.transition(id, "ok")

    persist(lambda: space.start("build", id), LOST)
    persist(end, LOST)


def deployed(space):
    return sorted(one.id for one in space.instances(machine="deploy", page_size=1_000).instances)


def are_deployed(space, wanted):
    """Not as long as a server that is lost has not been replaced: it cannot be asked."""
    try:
        return deployed(space) == wanted
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.UNAVAILABLE, error
        return False


def test_a_change_of_any_partition_brings_a_trigger_its_item(parted):  # noqa: F811
    servers = parted(2)
    spaces = [one.space("default") for one in servers]
    spaces[0].define(MACHINES)
    spaces[0].define(AFTER)
    for number in range(40):
        build(spaces[number % 2], f"b-{number}")
    wanted = sorted(f"d-b-{number}" for number in range(40))
    eventually(lambda: deployed(spaces[1]) == wanted)
    places = {spaces[0].get(f"b-{number}").partition for number in range(40)}
    assert places == set(range(PARTITIONS))
    listed = Triggers(spaces[1]).history("after")
    assert sorted(one.instance for one in listed) == wanted
    assert {outcome(one) for one in listed} == {"STARTED"}
    assert {v1.Instance.State.Name(one.state) for one in listed} == {"RUNNING"}
    for name in wanted:
        spaces[1].transition(name, "bad" if name == "d-b-7" else "ok")
    ended = {one.instance: v1.Instance.Result.Name(one.result)
             for one in Triggers(spaces[1]).history("after")}
    assert ended == {name: "ERROR" if name == "d-b-7" else "SUCCESS" for name in wanted}


def test_what_changes_while_a_trigger_is_paused_comes_when_it_goes_on(parted):  # noqa: F811
    servers = parted(2)
    spaces = [one.space("default") for one in servers]
    triggers = Triggers(spaces[1])
    spaces[0].define(MACHINES)
    spaces[0].define(AFTER)
    triggers.pause("after", note="lunch")
    for number in range(20):
        build(spaces[number % 2], f"b-{number}")
    assert deployed(spaces[0]) == []
    # How far it has read in all partitions, as a place in the feed.
    paused = triggers.get("after")
    behind, _ = spaces[0].changes(after=paused.cursor)
    assert {one.instance for one in behind} == {f"b-{number}" for number in range(20)}
    assert paused.lag == len(behind)
    resumed = triggers.pause("after", False)
    assert (resumed.cursor, resumed.lag) == (paused.cursor, paused.lag)
    wanted = sorted(f"d-b-{number}" for number in range(20))
    eventually(lambda: deployed(spaces[0]) == wanted)
    # What comes while it is paused by a skip is passed over.
    triggers.pause("after", note="tea")
    for number in range(20):
        build(spaces[number % 2], f"c-{number}")
    triggers.pause("after", False, skip_missed=True)
    for number in range(20):
        build(spaces[number % 2], f"e-{number}")
    wanted = sorted(wanted + [f"d-e-{number}" for number in range(20)])
    eventually(lambda: deployed(spaces[0]) == wanted)
    triggers.delete("after")
    build(spaces[0], "late")
    assert deployed(spaces[0]) == wanted


def test_each_change_brings_one_item_while_servers_are_lost(parted):  # noqa: F811
    servers = parted(3)
    space = servers[0].space("default")
    space.define(MACHINES)
    space.define(AFTER)
    killer = threading.Timer(0.3, servers[2].kill)
    killer.start()
    for number in range(60):
        build(space, f"b-{number}")
    killer.join()
    wanted = sorted(f"d-b-{number}" for number in range(60))
    eventually(lambda: are_deployed(space, wanted), LOST)
    listed = collections.Counter(one.instance for one in Triggers(space).history("after"))
    assert set(listed.values()) == {1} and sorted(listed) == wanted
    for one in wanted:
        kinds = [change.kind for change in space.history(one)]
        assert kinds.count(v1.Change.STARTED) == 1


def test_polls_bring_items_wherever_their_instances_live(parted):  # noqa: F811
    servers = parted(2)
    spaces = [one.space("default") for one in servers]
    spaces[0].define(MACHINES)
    names = [f"orders{number}" for number in range(8)]
    for name in names:
        spaces[0].define(f"trigger: {name}\non: {{poll: {{action: look.{name}, every: 1s}}}}\n"
                         f'start: {{machine: deploy, id: "{name}-${{item.number}}"}}\n')
    for round_ in range(2):
        for name in names:
            task = eventually(lambda: spaces[round_].take(f"look.{name}"), 10.0)
            asked = json.loads(task.node_params)
            assert asked["cursor"] == (None if round_ == 0 else 1)
            spaces[round_].report(task, output={"items": [{"number": round_}],
                                                "cursor": round_ + 1})
    wanted = sorted(f"{name}-{number}" for name in names for number in range(2))
    eventually(lambda: deployed(spaces[0]) == wanted)
    assert len({spaces[0].get(f"{name}/poll/1").partition for name in names}) > 1
