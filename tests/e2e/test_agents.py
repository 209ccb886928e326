"""AgentService, and what RunnerService has for agents: two stages, sessions, checkpoints, orders."""
import queue

import pytest

from stubs import agent as ag
from stubs import agent_grpc, v1
from support import (Refusal, Stream, check_refusal, duration, eventually, extend_item, kind, only,
                     refused, state)

SOURCE = """
id: job
nodes:
  work: {start: true, transitions: {ok: end, error: end}}
  end: {final: true}
---
id: once
nodes:
  work: {start: true, timeout: 0.0, transitions: {ok: end, error: end}}
  end: {final: true}
---
plan: steps
flow: [{step: a, action: act.a}]
"""


class Agent(Stream):
    """An agent's side of Attach."""

    def __init__(self, space, name, session="s1", slots=2, register=None, **open):
        self.space = space
        self.messages = queue.Queue()
        self.orders = []
        self.given = 0
        request = v1.ReadyRequest(namespace=space.name, max_tasks=slots, **open)
        self.send(register=ag.Register(name=name, session=session, version="1",
                                       **(register or {})),
                  work=v1.WorkRequest(open=request))
        stub = agent_grpc.AgentServiceStub(space.server.channel)
        super().__init__(stub.Attach(iter(self.messages.get, None)))

    def take_in(self, reply):
        self.orders.append(reply)

    def __repr__(self):
        return f"{len(self.orders)} orders, {self.error}"

    def send(self, **fields):
        self.messages.put(ag.AgentMessage(**fields))

    def all(self, field):
        """What all orders so far have in this field of their work."""
        return [one for order in self.orders for one in getattr(order.work, field)]

    def welcome(self):
        assert self.wait(lambda: self.orders or self.ended) and self.orders, repr(self)
        assert self.orders[0].HasField("welcome")
        return self.orders[0].welcome

    def task(self):
        """The next task."""
        self.wait(lambda: len(self.all("tasks")) > self.given or self.ended)
        self.given += 1
        return self.all("tasks")[self.given - 1]

    def extend(self, task, **fields):
        before = len(self.all("extended"))
        item = v1.ExtendRequest.Item(instance=task.instance, claim=task.claim, **fields)
        self.send(work=v1.WorkRequest(extends=[item]))
        assert self.wait(lambda: len(self.all("extended")) > before), repr(self)
        return self.all("extended")[before]

    def begin(self, task, **fields):
        answer = self.extend(task, begin=True, **fields)
        assert not answer.HasField("error"), answer
        return answer

    def report(self, task, transition="ok", **more):
        before = len(self.all("results"))
        self.send(work=v1.WorkRequest(
            transitions=[self.space.report_request(task, transition, **more)]))
        assert self.wait(lambda: len(self.all("results")) > before), repr(self)
        return self.all("results")[before]

    def give_back(self, task, **more):
        self.send(work=v1.WorkRequest(relinquishes=[v1.RelinquishRequest(
            instance=task.instance, claim=task.claim, **more)]))

    def stopped(self, task, stage):
        self.send(stops=[ag.StopReport(instance=task.instance, claim=task.claim, stage=stage)])

    def await_order(self, field, task):
        assert self.wait(lambda: task.claim in self.all(field)), repr(self)


@pytest.fixture
def attach(space):
    space.define(SOURCE)
    made = []

    def begin(name, session="s1", **more):
        made.append(Agent(space, name, session, **more))
        return made[-1]

    yield begin
    for agent in made:
        agent.cancel()


@pytest.fixture
def calls(space):
    return Calls(space)


class Calls:
    def __init__(self, space):
        self.stub = agent_grpc.AgentServiceStub(space.server.channel)
        self.ns = space.name

    def get(self, name):
        return self.stub.GetAgent(ag.GetAgentRequest(namespace=self.ns, name=name))

    def state(self, name):
        return ag.Agent.State.Name(self.get(name).state)

    def list(self, **filters):
        return [agent.name for agent in self.stub.ListAgents(
            ag.ListAgentsRequest(namespace=self.ns, **filters)).agents]

    def operations(self, **filters):
        return list(self.stub.ListOperations(
            ag.ListOperationsRequest(namespace=self.ns, **filters)).operations)

    def drain(self, name, **more):
        return self.stub.DrainAgent(ag.DrainAgentRequest(namespace=self.ns, name=name, **more))

    def evict(self, name):
        return self.stub.EvictAgent(ag.EvictAgentRequest(namespace=self.ns, name=name))


def claim_of(space, id):
    return only(only(space.get(id).tokens).claims)


def token_state(space, id):
    return v1.Token.State.Name(only(space.get(id).tokens).state)


# Two stages -------------------------------------------------------------------------------------


def test_begin(space, attach):
    agent = attach("h1")
    space.start("job", "i")
    task = agent.task()
    assert task.HasField("begin_by") and not task.HasField("deadline")
    claim = claim_of(space, "i")
    assert claim.worker == "h1"
    assert claim.HasField("begin_by") and not claim.HasField("begin_time")
    first = agent.begin(task)
    assert first.HasField("deadline")
    assert agent.begin(task).deadline == first.deadline  # repeated, it is answered as before
    claim = claim_of(space, "i")
    assert claim.HasField("begin_time") and claim.HasField("deadline")
    later = agent.extend(task, by=duration(3600))
    assert later.deadline.seconds > first.deadline.seconds + 1000
    assert agent.report(task).HasField("accepted")
    [moved] = [change for change in space.history("i") if change.transition == "ok"]
    assert moved.begin_time == claim.begin_time
    space.stopped("i")


def test_begin_by_is_anew_after_a_restart(new_server):
    server = new_server().start()
    space = server.space("default")
    space.define(SOURCE)
    agent = Agent(space, "h1", begin_within=duration(100))
    space.start("job", "i")
    space.plan("steps", "p")
    for _ in range(2):
        agent.task()
    before = {id: claim_of(space, id).begin_by.ToMicroseconds() for id in ("i", "p")}
    server.kill()
    server.start()
    listed = {one.id: only(only(one.tokens).claims) for one in space.instances().instances}
    for id, old in before.items():
        shown = claim_of(space, id).begin_by.ToMicroseconds()
        assert shown > old and listed[id].begin_by.ToMicroseconds() == shown


def test_what_has_not_begun_in_time_is_void(space):
    space.define(SOURCE)
    space.start("job", "i")
    with space.work(worker="w", max_tasks=1, begin_within=duration(1)) as work:
        [first] = work.await_tasks(1)
        second = work.await_tasks(2)[1]
        assert (first.attempt, second.attempt) == (1, 1)
        assert first.claim in work.cancelled_claims
        assert space.extend_all(extend_item(first))[0].error.reason == "STALE_CLAIM"
        begun = only(space.extend_all(v1.ExtendRequest.Item(
            instance="i", claim=second.claim, begin=True)))
        assert begun.HasField("deadline")
    notes = [change.note for change in space.history("i") if kind(change) == "RELINQUISHED"]
    assert "not begun" in notes


def test_extend_without_begin_moves_begin_by(space):
    space.define(SOURCE)
    space.start("job", "i")
    [task] = space.ready("job", wait=5, begin_within=duration(30))
    before = claim_of(space, "i").begin_by.ToMicroseconds()
    space.extend(task)
    assert claim_of(space, "i").begin_by.ToMicroseconds() > before


def test_begin_within_and_keep_for_have_bounds(space):
    for bad in (0.5, 601):
        with refused("INVALID_ARGUMENT", "BAD_REQUEST", "begin_within"):
            space.ready("job", begin_within=duration(bad))
    with refused("INVALID_ARGUMENT", "BAD_REQUEST", "keep_for"):
        space.ready("job", session="s", keep_for=duration(301))
    with refused("INVALID_ARGUMENT", "BAD_REQUEST", "session"):
        space.ready("job", keep_for=duration(10))


def test_an_unbegun_claim_may_report(space, attach):
    agent = attach("h1")
    space.start("job", "i")
    assert agent.report(agent.task()).HasField("accepted")
    ended = only([one for one in space.history("i") if kind(one) == "TRANSITIONED"][-1:])
    assert ended.begin_time == ended.time  # the report begins and ends it


@pytest.mark.parametrize("how", ["pause", "cancel"])
def test_pause_and_cancel_take_back_what_has_not_begun(space, attach, how):
    agent = attach("h1")
    space.start("job", "i")
    task = agent.task()
    getattr(space, how)("i")
    agent.await_order("cancelled_claims", task)
    assert agent.extend(task, begin=True).error.reason == "STALE_CLAIM"
    if how == "cancel":
        space.stopped("i")
    else:
        space.resume("i")
        assert agent.task().attempt == 1


def test_cancel_waits_for_what_has_begun(space, attach):
    agent = attach("h1")
    space.start("job", "i")
    task = agent.task()
    agent.begin(task)
    space.cancel("i")
    agent.await_order("cancelled_claims", task)
    assert task.claim in agent.all("finishable_claims")
    assert state(space.get("i")) == "RUNNING"
    assert agent.report(task).HasField("accepted")
    space.stopped("i")


def test_at_most_once_binds_from_the_begin(space, attach, calls):
    agent = attach("h1")
    space.start("once", "i")
    task = agent.task()
    agent.cancel()  # not begun: it may go to others
    eventually(lambda: calls.state("h1") == "LOST")
    agent = attach("h1", "s2")
    task = agent.task()
    agent.begin(task)
    agent.cancel()
    eventually(lambda: calls.state("h1") == "LOST")
    agent = attach("h1", "s3")
    assert task.claim in agent.welcome().lost_claims
    eventually(lambda: claim_of(space, "i").lost)
    assert token_state(space, "i") == "CLAIMED"
    assert space.report(task).node == "end"  # its report still counts


# Checkpoints and refusals -----------------------------------------------------------------------


def test_checkpoint_survives_a_crash(new_server):
    server = new_server().start()
    space = server.space("default")
    space.define(SOURCE)
    space.start("job", "i")
    [task] = space.ready("job", wait=5)
    only(space.extend_all(v1.ExtendRequest.Item(instance="i", claim=task.claim,
                                                checkpoint='{"at": 7}', note="seven")))
    server.kill()
    server.start()
    assert only(space.get("i").tokens).checkpoint == '{"at": 7}'
    space.relinquish("i", task.claim)
    [again] = space.ready("job", wait=5)
    assert again.checkpoint == '{"at": 7}'


def test_checkpoint_of_a_step_goes_with_it(space):
    space.define(SOURCE)
    id = space.plan("steps")
    task = space.take("steps")
    space.report(task, "suspend", checkpoint='{"n": 1}')
    assert only(space.get(id).tokens).checkpoint == '{"n": 1}'
    space.transition(id, "wake", node="a")
    assert space.take("steps").checkpoint == '{"n": 1}'


@pytest.mark.parametrize("bad", ["[1]", "{", '{"a": "' + "x" * 65536 + '"}'])
def test_checkpoints_are_checked(space, bad):
    space.define(SOURCE)
    space.start("job", "i")
    [task] = space.ready("job", wait=5)
    item = v1.ExtendRequest.Item(instance="i", claim=task.claim, checkpoint=bad)
    assert "checkpoint" in only(space.extend_all(item)).error.message


def test_a_refusal_is_no_attempt(space):
    space.define(SOURCE)
    space.start("job", "i")
    [task] = space.ready("job", wait=5, worker="w1")
    space.call("Relinquish", v1.RelinquishRequest(
        namespace=space.name, instance="i", claim=task.claim, refused=True,
        reason="the disk is full"))
    token = only(space.get("i").tokens)
    assert token.attempt == 0
    refusal = only(token.refusals)
    assert (refusal.worker, refusal.reason) == ("w1", "the disk is full")
    [change] = [change for change in space.history("i") if kind(change) == "REFUSED"]
    assert change.note == "the disk is full"
    [again] = space.ready("job", wait=5, worker="w2")
    assert again.attempt == 1


def test_a_session_is_not_offered_again_what_it_refused(space, attach):
    first = attach("h1")
    space.start("job", "i")
    task = first.task()
    first.give_back(task, refused=True, reason="no compiler")
    second = attach("h2", "other")
    assert second.task().instance == "i"
    assert first.given == len(first.all("tasks"))
    [refused_work] = Calls(space).get("h1").refuses
    assert (refused_work.machine, refused_work.node) == ("job", "work")
    assert refused_work.reason == "no compiler"


# Sessions ---------------------------------------------------------------------------------------


def test_a_broken_stream_keeps_what_has_begun(space, attach, calls):
    agent = attach("h1")
    space.start("job", "i")
    task = agent.task()
    agent.begin(task)
    agent.cancel()
    eventually(lambda: calls.state("h1") == "LOST")
    eventually(lambda: claim_of(space, "i").lost)
    agent = attach("h1")
    assert not agent.extend(task).HasField("error")
    assert not claim_of(space, "i").lost
    assert agent.report(task).HasField("accepted")
    assert "ABANDONED" not in space.story("i")


def test_what_is_not_taken_up_again_is_abandoned(space, attach, calls):
    agent = attach("h1", keep_for=duration(1))
    space.start("job", "i")
    task = agent.task()
    agent.begin(task)
    agent.cancel()
    eventually(lambda: token_state(space, "i") == "READY")
    assert "ABANDONED" in space.story("i")
    assert only(space.get("i").tokens).abandoned == 1
    assert calls.get("h1").abandoned == 1
    other = attach("h2", "x")
    assert other.task().attempt == 2
    assert space.report(task).node == "end"  # the abandoned one may still win


def test_a_half_closed_stream_gives_back_what_its_session_would_keep(space, attach, calls):
    agent = attach("h1", keep_for=duration(60))
    space.start("job", "i")
    space.start("once", "o")
    for task in (agent.task(), agent.task()):
        agent.begin(task)
    agent.messages.put(None)
    assert agent.await_end() == "OK"
    eventually(lambda: token_state(space, "i") == "READY")
    assert space.story("i")[-1] == "RELINQUISHED"
    assert token_state(space, "o") == "CLAIMED"
    assert calls.state("h1") == "OFFLINE"


def test_an_agent_that_breaks_off_with_work_in_hand_is_lost(space, attach, calls):
    agent = attach("h1", keep_for=duration(60))
    space.start("job", "i")
    agent.begin(agent.task())
    agent.send(leave=True)
    eventually(lambda: calls.state("h1") == "DRAINING")
    agent.cancel()
    eventually(lambda: calls.state("h1") == "LOST")


def test_another_session_of_the_name_abandons_at_once(space, attach, calls):
    agent = attach("h1", keep_for=duration(60))
    space.start("job", "i")
    task = agent.task()
    agent.begin(task)
    agent.cancel()
    eventually(lambda: calls.state("h1") == "LOST")
    agent = attach("h1", "s2")
    assert list(agent.welcome().lost_claims) == [task.claim]
    assert agent.task().attempt == 2


@pytest.mark.parametrize("most, ends", [(2, True), (0, False)])
def test_work_that_loses_its_agents_too_often_fails_for_good(space, attach, calls, most, ends):
    space.define("id: m\nnodes:\n"
                 f"  a: {{start: true, retry: 9, abandon_after: {most}, "
                 "transitions: {ok: z, error: f}}\n"
                 "  z: {final: true}\n  f: {final: true, result: error}\n")
    space.start("m", "i")
    for attempt in range(1, 4):
        agent = attach("h1", f"s{attempt}", keep_for=duration(60))
        if ends and attempt == 3:
            break
        task = agent.task()
        assert (task.attempt, task.tries) == (attempt, 0)
        agent.begin(task)
        agent.cancel()
        eventually(lambda: calls.state("h1") == "LOST")
    if not ends:
        assert state(space.get("i")) == "RUNNING"
        return
    instance = space.ends("i", "ERROR")
    assert instance.error == "2 attempts were lost with the agent h1"
    [failed] = [change for change in space.history("i") if change.transition == "error"]
    assert failed.error_kind == "abandoned"


def test_unbegun_claims_go_back_when_the_stream_breaks(space, attach):
    agent = attach("h1")
    space.start("job", "i")
    agent.task()
    agent.cancel()
    other = attach("h2", "x")
    assert other.task().attempt == 1


def test_a_restart_of_the_server_leaves_work_with_its_agent(new_server):
    server = new_server().start()
    space = server.space("default")
    space.define(SOURCE)
    agent = Agent(space, "h1", keep_for=duration(1))
    space.start("job", "i")
    task = agent.task()
    agent.begin(task)
    server.kill()
    server.start()
    agent = Agent(space, "h1")
    assert not agent.extend(task).HasField("error")
    assert agent.report(task).HasField("accepted")
    assert "ABANDONED" not in space.story("i")
    agent.cancel()


# Agents -----------------------------------------------------------------------------------------


def test_one_agent_of_a_name(space, attach):
    attach("h1").welcome()
    second = attach("h1", "s2")
    assert second.await_end() == "ALREADY_EXISTS"
    check_refusal(Refusal(second.error), "ALREADY_EXISTS", "AGENT_EXISTS", "h1")


def test_first_message_must_register(space):
    stub = agent_grpc.AgentServiceStub(space.server.channel)
    with refused("INVALID_ARGUMENT", "BAD_REQUEST", "register"):
        list(stub.Attach(iter([ag.AgentMessage()])))


def test_agents_are_listed(space, attach, calls):
    attach("h1", register={"labels": {"zone": "a"}, "host": ag.Host(hostname="x", cpus=4)}).welcome()
    attach("h2", "s", capabilities=["gpu"]).welcome()
    assert calls.list() == ["h1", "h2"]
    assert calls.list(labels={"zone": "a"}) == ["h1"]
    assert calls.list(capabilities=["gpu"]) == ["h2"]
    assert calls.list(state="LOST") == []
    agent = calls.get("h1")
    assert agent.host.cpus == 4 and agent.labels["zone"] == "a"
    with refused("NOT_FOUND", "NO_SUCH_AGENT", "h9"):
        calls.get("h9")


def test_agents_are_listed_page_by_page(space, attach, calls):
    for name in ("a", "b", "c"):
        attach(name, name).welcome()
    page = calls.stub.ListAgents(ag.ListAgentsRequest(namespace=space.name, page_size=2))
    assert [agent.name for agent in page.agents] == ["a", "b"]
    rest = calls.stub.ListAgents(ag.ListAgentsRequest(
        namespace=space.name, page_size=2, page_token=page.next_page_token))
    assert [agent.name for agent in rest.agents] == ["c"]
    assert not rest.next_page_token


def test_two_agents_may_have_the_same_word_for_their_sessions(space, attach, calls):
    one, other = attach("h1", slots=1), attach("h2", slots=1)
    one.welcome()
    other.welcome()
    space.start("job", "i")
    space.start("job", "j")
    tasks = {agent: agent.task() for agent in (one, other)}
    for agent, task in tasks.items():
        agent.begin(task)
    calls.evict("h1")
    assert one.await_end() == "FAILED_PRECONDITION"
    assert other.report(tasks[other]).HasField("accepted")
    assert calls.state("h2") == "ACTIVE"
    again = other.task()  # what h1 had
    third = attach("h3", slots=1)
    space.start("job", "k")
    third.give_back(third.task(), refused=True, reason="no disk")
    eventually(lambda: calls.get("h3").refuses)
    assert not calls.get("h2").refuses
    other.report(again)
    assert other.task().instance == "k"


def test_the_former_stream_of_a_session_is_told_why_it_ends(space, attach):
    former = attach("h1")
    former.welcome()
    attach("h1").welcome()
    assert former.await_end() == "ALREADY_EXISTS"
    check_refusal(Refusal(former.error), "ALREADY_EXISTS", "AGENT_EXISTS", "s1")
    worker = dict(worker="w", max_tasks=1, queue="none", session="s1", keep_for=duration(10))
    with space.work(**worker) as one, space.work(**worker) as other:  # whichever comes first
        former = eventually(lambda: next((each for each in (one, other) if each.ended), None))
        assert former.await_end() == "FAILED_PRECONDITION"
        check_refusal(Refusal(former.error), "FAILED_PRECONDITION", "STALE_CLAIM", "s1")


def test_good_bye(space, attach, calls):
    agent = attach("h1")
    space.start("job", "i")
    task = agent.task()
    agent.send(leave=True)
    agent.begin(task)
    agent.report(task)
    assert agent.await_end() == "OK"
    eventually(lambda: calls.state("h1") == "OFFLINE")


def test_drain(new_server):
    server = new_server().start()
    space = server.space("default")
    space.define(SOURCE)
    calls = Calls(space)
    agent = Agent(space, "h1")
    space.start("job", "i")
    task = agent.task()
    agent.begin(task)
    drained = calls.drain("h1", reason="new kernel")
    assert ag.Agent.State.Name(drained.state) == "DRAINING"
    assert drained.drain_requested and drained.drain_reason == "new kernel"
    assert agent.wait(lambda: any(order.drained for order in agent.orders))
    agent.report(task)
    eventually(lambda: calls.state("h1") == "DRAINED")
    server.kill()
    server.start()
    calls = Calls(space)
    agent = Agent(space, "h1", "s2")
    agent.welcome()
    space.start("job", "j")
    assert calls.state("h1") == "DRAINED"
    assert not agent.all("tasks")
    calls.drain("h1", undo=True)
    assert agent.task().instance == "j"
    agent.cancel()


def test_evict(space, attach, calls):
    agent = attach("h1")
    space.start("job", "i")
    space.start("once", "o")
    tasks = {task.instance: task for task in (agent.task(), agent.task())}
    for task in tasks.values():
        agent.begin(task)
    answer = calls.evict("h1")
    assert (answer.given_back, answer.kept) == (1, 1)
    assert agent.await_end() == "FAILED_PRECONDITION"
    check_refusal(Refusal(agent.error), "FAILED_PRECONDITION", "AGENT_EVICTED", "h1")
    assert set(agent.all("killed_claims")) == {task.claim for task in tasks.values()}
    assert token_state(space, "i") == "READY"
    assert token_state(space, "o") == "CLAIMED"
    with refused("NOT_FOUND", "NO_SUCH_AGENT"):
        calls.get("h1")
    assert [one.client for one in space.history("i") if kind(one) == "CLAIMED"] == ["h1"]
    assert attach("h1").await_end() == "FAILED_PRECONDITION"
    assert attach("h1", "s2").welcome()


def test_a_session_is_any_printable_text(space, attach):
    assert attach("h1", "a b/c:d").welcome().agent.session == "a b/c:d"
    agent = attach("h2", "")
    assert agent.await_end() == "INVALID_ARGUMENT"
    check_refusal(Refusal(agent.error), "INVALID_ARGUMENT", "BAD_REQUEST", "register.session")


def test_a_claim_shows_the_order_that_its_agent_has(space, attach):
    agent = attach("h1")
    space.start("job", "i")
    agent.begin(agent.task())
    assert not claim_of(space, "i").HasField("order_time")
    space.cancel("i")
    claim = claim_of(space, "i")
    assert claim.order == v1.CancelRequest.CANCEL
    assert claim.order_time == space.get("i").cancel_time


def test_a_stop_report_names_its_stage(space, attach):
    agent = attach("h1")
    space.start("job", "i")
    agent.stopped(agent.task(), 0)
    assert agent.await_end() == "INVALID_ARGUMENT"


def test_the_feed_tells_of_agents(space, attach):
    with space.watch() as watch:
        watch.opened()
        agent = attach("h1")
        watch.until(lambda change: kind(change) == "AGENT_CONNECTED" and change.client == "h1")
        agent.cancel()
        watch.until(lambda change: kind(change) == "AGENT_LOST")
        agent = attach("h1")
        agent.welcome()
        agent.send(leave=True)
        watch.until(lambda change: kind(change) == "AGENT_LEFT")


# Operations and orders --------------------------------------------------------------------------


def test_operations_are_listed(space, attach, calls):
    agent = attach("h1")
    space.start("job", "i")
    task = agent.task()
    [operation] = calls.operations()
    assert (operation.agent, operation.instance, operation.node) == ("h1", "i", "work")
    assert not operation.HasField("begin_time") and operation.HasField("deadline")
    agent.begin(task)
    agent.extend(task, progress=0.5, note="half")
    [operation] = calls.operations(agent="h1")
    assert operation.HasField("begin_time")
    assert (operation.progress, operation.note) == (0.5, "half")
    assert len(calls.get("h1").operations) == 1
    assert calls.get("h1").in_hand == 1
    assert calls.operations(instance="other") == []
    agent.report(task)
    assert calls.operations() == []
    assert calls.get("h1").done == 1


def test_leftovers_are_listed_until_their_end_is_told(space, attach, calls):
    agent = attach("h1")
    space.start("job", "i")
    task = agent.task()
    agent.begin(task)
    space.cancel("i", mode="KILL")
    agent.await_order("killed_claims", task)
    assert state(space.get("i")) == "STOPPED"
    assert space.get("i").leftovers == 1
    space.start("job", "other")
    space.cancel("other")
    listed = {one.id: one.leftovers for one in space.instances().instances}
    assert listed == {"i": 1, "other": 0}
    assert space.call("Start", space.start_request("job", id="i")).instance.leftovers == 1
    [operation] = calls.operations()
    assert operation.leftover and operation.HasField("order_time")
    assert operation.order == v1.CancelRequest.KILL
    assert not operation.HasField("signal_time")
    agent.stopped(task, ag.StopReport.SIGNALLED)
    eventually(lambda: only(calls.operations()).HasField("signal_time"))
    agent.stopped(task, ag.StopReport.ENDED)
    eventually(lambda: not calls.operations())
    assert space.get("i").leftovers == 0
    assert [one.leftovers for one in space.instances().instances] == [0, 0]


def test_a_forced_cancel_may_be_followed_by_a_kill(space, attach, calls):
    agent = attach("h1")
    space.start("job", "i")
    task = agent.task()
    agent.begin(task)
    space.cancel("i", mode="FORCE")
    agent.await_order("cancelled_claims", task)
    assert only(calls.operations()).order == v1.CancelRequest.CANCEL
    space.cancel("i", mode="KILL")
    agent.await_order("killed_claims", task)
    assert only(calls.operations()).order == v1.CancelRequest.KILL


def test_orders_wait_for_an_agent_that_is_away(new_server):
    server = new_server().start()
    space = server.space("default")
    space.define(SOURCE)
    agent = Agent(space, "h1")
    space.start("job", "i")
    task = agent.task()
    agent.begin(task)
    agent.cancel()
    space.cancel("i", mode="KILL")
    server.kill()
    server.start()
    agent = Agent(space, "h1")
    agent.await_order("killed_claims", task)
    assert space.get("i").leftovers == 1
    agent.cancel()
    eventually(lambda: Calls(space).state("h1") == "LOST")
    other = Agent(space, "h1", "s2")  # its processes are new
    other.welcome()
    eventually(lambda: space.get("i").leftovers == 0)
    other.cancel()


def test_a_late_report_ends_a_leftover(space, attach, calls):
    agent = attach("h1")
    space.start("job", "i")
    task = agent.task()
    agent.begin(task)
    space.cancel("i", mode="FORCE")
    eventually(calls.operations)
    assert agent.report(task).error.reason == "STALE_CLAIM"
    assert calls.operations() == []


def test_the_end_of_what_runs_at_most_once_ends_a_cancel(space, attach):
    agent = attach("h1")
    space.start("once", "i")
    task = agent.task()
    agent.begin(task)
    space.cancel("i")
    agent.await_order("cancelled_claims", task)
    assert state(space.get("i")) == "RUNNING"
    agent.stopped(task, ag.StopReport.ENDED)
    space.stopped("i")


def test_a_silent_agent_is_lost(space, attach, calls):
    agent = attach("h1")
    agent.welcome()
    assert agent.await_end(30) == "UNAVAILABLE"
    check_refusal(Refusal(agent.error), "UNAVAILABLE", "PEER_UNREACHABLE", "h1")
    eventually(lambda: calls.state("h1") == "LOST")
    assert len(agent.orders) >= 3  # the server gave signs of life meanwhile
