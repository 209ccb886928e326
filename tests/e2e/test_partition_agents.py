"""Agents of a store of several partitions, attached through any of its servers."""
import time

import grpc
import pytest

from cluster_servers import persist
from stubs import agent as ag
from stubs import v1
from support import Refusal, duration, eventually
from test_agents import SOURCE, Agent, Calls
from test_partitions import PARTITIONS, parted  # noqa: F401: a fixture

MANY = 4 * PARTITIONS


@pytest.fixture
def spaces(parted):  # noqa: F811
    """The same namespace through two servers, with instances in all partitions."""
    made = [one.space("default") for one in parted(2)]
    made[0].define(SOURCE)
    for number in range(MANY):
        made[0].start("job", f"job-{number}")
    return made


def tasks_of(agent, count):
    return [agent.task() for _ in range(count)]


def changes_of(space, kind):
    request = v1.ChangesRequest(after="0", kinds=[v1.Change.Kind.Value(kind)])
    return [change for message in space.runner.Changes(request, timeout=10.0)
            for change in message.changes]


def test_an_agent_has_the_work_of_all_partitions_and_is_listed_once(spaces):
    agent = Agent(spaces[1], "h1", slots=MANY)
    assert agent.welcome().agent.name == "h1"
    tasks = tasks_of(agent, MANY)
    assert {task.instance for task in tasks} == {f"job-{number}" for number in range(MANY)}
    calls = Calls(spaces[0])
    assert calls.list() == ["h1"]
    seen = calls.get("h1")
    assert (seen.in_hand, len(seen.operations)) == (MANY, MANY)
    assert seen.state == ag.Agent.ACTIVE
    for task in tasks:
        agent.begin(task)
        assert agent.report(task).HasField("accepted")
    eventually(lambda: calls.get("h1").done == MANY)
    assert [change.client for change in changes_of(spaces[0], "AGENT_CONNECTED")] == ["h1"]
    agent.cancel()
    eventually(lambda: calls.state("h1") == "LOST")


def test_orders_reach_the_agent_whatever_its_server(spaces):
    agent = Agent(spaces[1], "h1", slots=MANY)
    tasks = tasks_of(agent, MANY)
    for task in tasks:
        agent.begin(task)
    for task in tasks:
        spaces[0].cancel(task.instance, "KILL")
    for task in tasks:
        agent.await_order("killed_claims", task)
        agent.stopped(task, ag.StopReport.SIGNALLED)
        agent.stopped(task, ag.StopReport.ENDED)
    calls = Calls(spaces[0])
    eventually(lambda: not calls.operations())
    agent.cancel()


def test_one_of_a_name_is_attached_at_a_time(spaces):
    agent = Agent(spaces[0], "h1", slots=1)
    agent.welcome()
    other = Agent(spaces[1], "h1", session="s2")
    assert other.await_end() == "ALREADY_EXISTS"
    assert Refusal(other.error).reason == "AGENT_EXISTS"
    # The same process may come anew, through another server.
    again = Agent(spaces[1], "h1", slots=1)
    again.welcome()
    assert agent.await_end() == "ALREADY_EXISTS"
    again.cancel()


def test_an_agent_that_is_drained_gets_nothing_of_any_partition(spaces):
    agent = Agent(spaces[1], "h1", slots=6)
    tasks = tasks_of(agent, 6)
    calls = Calls(spaces[0])
    told = calls.drain("h1", reason="repair")
    assert (told.in_hand, told.state, told.drain_requested) == (6, ag.Agent.DRAINING, True)
    assert agent.wait(lambda: agent.orders[-1].drained)
    for task in tasks:
        agent.report(task)
    eventually(lambda: calls.state("h1") == "DRAINED")
    assert len(agent.all("tasks")) == 6
    assert not calls.drain("h1", undo=True).drain_requested
    agent.task()
    agent.cancel()


def test_an_agent_that_is_evicted_loses_what_it_has_of_all_partitions(spaces):
    agent = Agent(spaces[1], "h1", slots=MANY)
    tasks = tasks_of(agent, MANY)
    for task in tasks[:MANY // 2]:
        agent.begin(task)
    evicted = Calls(spaces[0]).evict("h1")
    # What a partition gives back because the stream has ended by then is not counted.
    assert 0 < evicted.given_back <= MANY
    assert agent.await_end() == "FAILED_PRECONDITION"
    assert Refusal(agent.error).reason == "AGENT_EVICTED"
    other = Agent(spaces[0], "h2", slots=MANY)
    assert {task.instance for task in tasks_of(other, MANY)} == {task.instance for task in tasks}
    assert Agent(spaces[1], "h1").await_end() == "FAILED_PRECONDITION"
    other.cancel()


def test_an_agent_that_leaves_is_offline(spaces):
    agent = Agent(spaces[1], "h1", slots=4)
    tasks = tasks_of(agent, 4)
    agent.send(leave=True)
    for task in tasks:
        agent.report(task)
    assert agent.await_end() == "OK"
    assert len(agent.all("tasks")) == 4
    calls = Calls(spaces[0])
    eventually(lambda: calls.state("h1") == "OFFLINE")


def test_what_a_lost_session_had_is_told_to_the_next(spaces):
    agent = Agent(spaces[1], "h1", slots=MANY)
    tasks = tasks_of(agent, MANY)
    for task in tasks:
        agent.begin(task)
    agent.cancel()
    calls = Calls(spaces[0])
    eventually(lambda: calls.state("h1") == "LOST")
    later = Agent(spaces[0], "h1", session="s2", slots=1)
    assert set(later.welcome().lost_claims) == {task.claim for task in tasks}
    later.cancel()


def test_an_agent_goes_on_when_an_owner_is_killed(parted):  # noqa: F811
    servers = parted(3)
    spaces = [one.space("default") for one in servers]
    spaces[0].define(SOURCE)
    for number in range(MANY):
        spaces[0].start("job", f"job-{number}")
    agent = Agent(spaces[1], "h1", slots=MANY)
    tasks = tasks_of(agent, MANY)
    for task in tasks:
        agent.begin(task)
    servers[2].kill()
    for task in tasks:
        try:
            spaces[0].report(task)
        except grpc.RpcError:
            persist(lambda: spaces[0].report(task))
    persist(lambda: spaces[0].start("job", "late"))
    assert agent.wait(lambda: any(task.instance == "late" for task in agent.all("tasks")), 20.0)
    agent.cancel()


def test_what_an_agent_has_refused_no_partition_offers_it_again(spaces):
    agent = Agent(spaces[1], "h1", slots=1)
    agent.give_back(agent.task(), refused=True, reason="no compiler")
    others = Agent(spaces[0], "h2", session="other", slots=MANY)

    def others_have_all():
        while len(agent.all("tasks")) > agent.given:
            agent.give_back(agent.task(), refused=True, reason="no compiler")
        return len({task.instance for task in others.all("tasks")}) == MANY
    eventually(others_have_all)
    given = agent.given
    assert given <= 2, "one more may have been on its way"
    [refused_work] = Calls(spaces[0]).get("h1").refuses
    assert (refused_work.machine, refused_work.node) == ("job", "work")
    spaces[0].start("job", "late")
    assert others.wait(lambda: Calls(spaces[0]).get("h2").in_hand == MANY)
    for task in others.all("tasks"):
        others.give_back(task)
    assert len(agent.all("tasks")) == given
    agent.cancel()
    others.cancel()


def test_a_session_outlives_the_server_that_it_was_attached_through(parted):  # noqa: F811
    servers = parted(3)
    spaces = [one.space("default") for one in servers]
    spaces[0].define(SOURCE)
    for number in range(MANY):
        spaces[0].start("job", f"job-{number}")
    short = {"keep_for": duration(1.0), "begin_within": duration(5.0)}
    agent = Agent(spaces[2], "h1", slots=MANY, **short)
    tasks = tasks_of(agent, MANY)
    for task in tasks:
        agent.begin(task)
    servers[2].kill()
    assert agent.await_end() != "OK"
    # Nobody else gets any of it for longer than the session asked to be waited for.
    began = time.monotonic()
    while time.monotonic() < began + 3.0:
        assert not spaces[0].ready("job", max_tasks=MANY, wait=0.5)
    again = Agent(spaces[0], "h1", slots=MANY, **short)
    assert not again.welcome().lost_claims
    for task in tasks:
        persist(lambda: spaces[0].report(task))
    again.cancel()
