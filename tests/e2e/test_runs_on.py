"""Where work runs: capabilities, agents, patterns of actions and queues; why nobody takes it."""
import time

import pytest

from stubs import v1
from support import SOON, eventually, only, refused, result, state, token_state
from test_security import guarded, root  # noqa: F401, fixtures

QUICK = 2.0  # the longest that a worker who waits may be kept from what is ready


def job(runs_on, id="job", more=""):
    return (f"id: {id}\nnodes:\n  n: {{start: true, runs_on: {runs_on}, {more}"
            "transitions: {ok: done}}\n  done: {final: true}\n")


RELAY = """\
id: relay
nodes:
  build: {start: true, transitions: {ok: test, error: test}}
  test: {runs_on: {agent: "${build.worker}"}, transitions: {ok: ship, again: build}}
  ship: {runs_on: {agent: "${test.output.host}", capability: [ship]}, transitions: {ok: done}}
  done: {final: true}
"""
PLAN = """\
action: prepare
---
action: deploy
runs_on: {capability: [linux]}
---
action: deploy.big
extends: deploy
---
plan: roll
flow:
  sequence:
    - {step: a, action: prepare}
    - {step: b, action: deploy, runs_on: {capability: [linux], agent: "${a.worker}"}}
    - {step: c, action: deploy.big}
    - for_each: "${params.hosts}"
      as: host
      do: {step: d, action: prepare, runs_on: {agent: "${host}"}}
"""


def names(tasks):
    return sorted(task.node for task in tasks)


# Capabilities -------------------------------------------------------------------------------------


def test_work_goes_to_workers_that_have_all_words(space):
    space.define(job("{capability: [gpu, arm64]}"))
    id = space.start("job")
    assert space.ready() == []
    assert space.ready(capabilities=["gpu", "linux"]) == []
    assert list(space.token(id).runs_on.capabilities) == ["gpu", "arm64"]
    task = only(space.ready(capabilities=["linux", "gpu", "arm64", "gpu"]))
    space.report(task)
    assert result(space.get(id)) == "SUCCESS"


def test_one_word_may_stand_alone(space):
    space.define(job("{capability: gpu}"))
    space.start("job")
    assert space.ready() == []
    assert only(space.ready(capabilities=["gpu"])).node == "n"


def test_a_worker_with_capabilities_takes_other_work_too(space):
    space.define(job("{capability: gpu}"))
    space.define(job("{capability: []}", id="plain"))
    space.start("job")
    space.start("plain")
    tasks = space.ready(max_tasks=10, capabilities=["gpu"])
    assert sorted(task.machine for task in tasks) == ["job", "plain"]


@pytest.mark.timed
def test_a_poll_and_a_stream_that_wait_are_given_it_at_once(space):
    space.define(job("{capability: gpu}"))
    without = space.later("Ready", space.ready_request(wait=30.0), timeout=40)
    waits = space.later("Ready", space.ready_request(wait=30.0, capabilities=["gpu"]), timeout=40)
    time.sleep(0.2)  # both wait by then, or will find it
    began = time.monotonic()
    space.start("job", "i1")
    assert only(waits.result().tasks).instance == "i1"
    assert time.monotonic() - began < QUICK
    with space.work(max_tasks=5, capabilities=["gpu"]) as stream:
        space.start("job", "i2")
        assert only(stream.await_tasks(1, within=QUICK)).instance == "i2"
    assert not without.done()
    without.cancel()


def test_report_asks_for_the_next_with_what_the_worker_has(space):
    space.define(job("{capability: gpu}"))
    space.start("job", "i1")
    space.start("job", "i2")
    task = only(space.ready(capabilities=["gpu"]))
    assert list(space.report_all([], max_tasks=1).tasks) == []
    reply = space.report_all([space.report_request(task)], max_tasks=1, capabilities=["gpu"])
    assert only(reply.tasks).instance != task.instance


# Agents -------------------------------------------------------------------------------------------


def test_work_for_one_agent_goes_to_no_other(space):
    space.define(job('{agent: "${params.host}"}'))
    id = space.start("job", params={"host": "h1"})
    assert space.token(id).runs_on.agent == "h1"
    assert space.ready(worker="h2") == [] == space.ready()
    assert only(space.ready(worker="h1")).instance == id


def test_agent_may_be_put_together(space):
    space.define(job('{agent: "${instance.id}.${params.n}"}'))
    space.start("job", "i", params={"n": 7})
    assert space.ready(worker="i") == []
    assert only(space.ready(worker="i.7")).instance == "i"


def test_many_agents_wait_and_each_gets_its_own(space):
    space.define(job('{agent: "${params.host}"}'))
    polls = {f"h{n}": space.later("Ready", space.ready_request(worker=f"h{n}", wait=30.0),
                                  timeout=40) for n in range(40)}
    for n in range(0, 40, 2):
        space.start("job", f"for-h{n}", params={"host": f"h{n}"})
    for n in range(0, 40, 2):
        assert only(polls[f"h{n}"].result(timeout=10).tasks).instance == f"for-h{n}"
    assert not any(polls[f"h{n}"].done() for n in range(1, 40, 2))
    for poll in polls.values():
        poll.cancel()


def test_the_same_machine_again(space):
    space.define(RELAY)
    id = space.start("relay")
    space.report(only(space.ready(worker="h1")))
    assert space.ready(worker="h2") == []
    space.report(only(space.ready(worker="h1")), "again")
    space.report(only(space.ready(worker="h2")))
    assert space.ready(worker="h1") == []  # the last that reported ok counts
    space.report(only(space.ready(worker="h2")), output={"host": "h3"})
    assert space.ready(worker="h2", capabilities=["ship"]) == [] == space.ready(worker="h3")
    space.report(only(space.ready(worker="h3", capabilities=["ship"])))
    instance = space.get(id)
    assert result(instance) == "SUCCESS"
    assert list(instance.outputs) == ["test"]


def test_what_is_missing_fails_it_by_name(space):
    space.define(job('{agent: "${params.host}"}'))
    id = space.start("job")
    eventually(lambda: state(space.get(id)) == "STOPPED")
    instance = space.get(id)
    assert result(instance) == "ERROR"
    assert "params.host" in instance.error and "runs_on" in instance.error
    space.define(RELAY)
    id = space.start("relay")
    space.report(only(space.ready(worker="h1")), "error")
    eventually(lambda: state(space.get(id)) == "STOPPED")
    assert "build.worker" in space.get(id).error


# Plans --------------------------------------------------------------------------------------------


def test_steps_say_so_themselves_or_by_their_action(space):
    space.define(PLAN)
    id = space.plan("roll", params={"hosts": ["x1", "x2"]})
    space.report(only(space.ready(worker="h1")))
    assert space.ready(worker="h1") == [] == space.ready(worker="h2", capabilities=["linux"])
    task = only(space.ready(worker="h1", capabilities=["linux"]))
    assert task.node == "b"
    space.report(task)
    assert space.ready(worker="h1") == []  # inherited by extends
    task = only(space.ready(worker="h2", capabilities=["linux"]))
    assert task.node == "c"
    space.report(task)
    assert space.ready(max_tasks=10) == []
    for host, step in (("x2", "d.1"), ("x1", "d.0")):
        task = only(space.ready(worker=host, max_tasks=10))
        assert task.node == step
        space.report(task)
    assert result(space.get(id)) == "SUCCESS"


def test_a_step_whose_agent_is_not_known_is_held(space):
    space.define("action: x\n---\nplan: p\nflow:\n  sequence:\n  - {step: a, action: x}\n"
                 '  - {step: b, action: x, runs_on: {agent: "${a.output.host}"}}\n')
    id = space.plan("p")
    space.do("a")
    eventually(lambda: token_state(space.token(id)) == "HELD")
    assert "host" in space.token(id).error
    assert state(space.get(id)) == "PAUSED"


# What is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize("runs_on, mentions", [
    ('{agent: "${later.worker}"}', ["later", "does not come before"]),
    ('{agent: "${later.output.x}"}', ["later", "does not come before"]),
    ('{agent: "${nowhere.worker}"}', ["nowhere"]),
    ("{capability: [a b]}", ["a b"]),
    ("{capability: [dfsmr.x]}", ["dfsmr.x"]),
    ("{host: x}", ["host"]),
    ("gpu", ["capability"]),
])
def test_a_runs_on_that_makes_no_sense_is_refused(space, runs_on, mentions):
    source = (f"id: m\nnodes:\n  n: {{start: true, runs_on: {runs_on}, transitions: "
              "{ok: later}}\n  later: {transitions: {ok: done}}\n  done: {final: true}\n")
    with refused("INVALID_ARGUMENT", "BAD_MACHINE", "nodes.n.runs_on", *mentions):
        space.define(source)


@pytest.mark.parametrize("reference, mention", [
    ("${a.worker}", "a.worker"), ("${b.worker}", "cycle"), ("${z.worker}", "'z'")])
def test_a_step_may_refer_to_what_comes_before_it_only(space, reference, mention):
    with refused("INVALID_ARGUMENT", None, mention):
        space.define("action: x\n---\nplan: p\nflow:\n"
                     f'- {{step: a, action: x, runs_on: {{agent: "{reference}"}}}}\n'
                     "- {step: b, action: x, after: a}\n")


@pytest.mark.parametrize("asked, reason, mention", [
    (dict(capabilities=["a b"]), "BAD_REQUEST", "a b"),
    (dict(capabilities=[""]), "BAD_REQUEST", "capability"),
    (dict(capabilities=[f"c{n}" for n in range(65)]), "TOO_LARGE", "64"),
    (dict(actions=["a*"]), "BAD_REQUEST", "a*"),
    (dict(actions=["a b"]), "BAD_REQUEST", "a b"),
    (dict(actions=[".*"]), "BAD_REQUEST", "action"),
    (dict(queues=["a/b"]), "BAD_REQUEST", "a/b"),
    (dict(packages=["a b"]), "BAD_REQUEST", "a b"),
    (dict(session="a\nb"), "BAD_REQUEST", "session"),
    (dict(session="s" * 65), "TOO_LARGE", "64"),
])
def test_what_a_worker_says_of_itself_is_checked(space, asked, reason, mention):
    with refused("INVALID_ARGUMENT", reason, mention):
        space.ready(**asked)


def test_the_longest_of_what_a_worker_may_say(space):
    assert space.ready(capabilities=[f"c{n}" for n in range(64)], session="s" * 64,
                       actions=["*"]) == []


def test_the_definition_shows_where_it_runs(space):
    space.define(job('{capability: [gpu, arm64], agent: "${params.host}"}'))
    node = space.node("job", "n")
    assert list(node.runs_on.capabilities) == ["gpu", "arm64"]
    assert node.runs_on.agent == "${params.host}"
    assert not space.node("job", "done").HasField("runs_on")
    space.define(PLAN)
    assert space.node("roll", "b").runs_on.agent == "${a.worker}"
    assert list(space.node("roll", "c").runs_on.capabilities) == ["linux"]


# Actions and queues -------------------------------------------------------------------------------


def test_actions_are_names_or_patterns(space):
    for action in ("site.build", "site.build.x", "sites", "site"):
        space.define(f"id: m-{action}\nnodes:\n  n: {{start: true, action: {action}, "
                     "transitions: {ok: done}}\n  done: {final: true}\n")
        space.start(f"m-{action}")

    def taken(*actions, **more):
        tasks = space.ready(max_tasks=10, actions=actions, **more)
        for task in tasks:
            space.relinquish(task.instance, task.claim)
        return sorted(task.action for task in tasks)

    assert taken("site.build") == ["site.build"]
    assert taken("site.*") == ["site.build", "site.build.x"]
    assert taken("sites", "site.build.*") == ["site.build.x", "sites"]
    assert taken("*") == ["site", "site.build", "site.build.x", "sites"]
    assert taken("*", action="site") == ["site"]
    assert taken("nothing.*") == []
    assert taken("site", packages=["acme"]) == ["site"]
    assert taken(packages=["acme"]) == []


def test_any_of_several_queues(space):
    for queue in ("a", "b", "c"):
        space.define(job("{capability: []}", id=queue, more=f"queue: {queue}, "))
        space.start(queue)
    assert sorted(t.queue for t in space.ready(max_tasks=5, queues=["a", "c", "d"])) == ["a", "c"]
    assert space.ready(queues=["a", "b"], queue="c") == []
    assert only(space.ready(queues=["a", "b"], queue="b")).queue == "b"


def test_a_token_for_one_queue_lets_no_other_be_listed(root):  # noqa: F811
    space = root.space("queues")
    space.define(job("{capability: []}", id="here", more="queue: here, "))
    here = root.create("worker", "queues", queues=["here"]).space("queues")
    space.start("here", "a")
    with refused("PERMISSION_DENIED", "NOT_ALLOWED"):
        here.ready(queues=["here", "there"])
    assert only(here.ready(queues=["here"])).instance == "a"


# Why nobody takes it ------------------------------------------------------------------------------


def test_why_says_what_no_worker_has(space):
    space.define(job("{capability: [gpu]}"))
    space.define(job("{agent: h1}", id="named"))
    gpu, named = space.start("job"), space.start("named")
    assert space.token(gpu).why == "no agent has gpu"
    assert space.token(named).why == "h1 is not connected"
    with space.work(max_tasks=1, capabilities=["gpu"], queue="other", worker="h2"):
        eventually(lambda: space.token(gpu).why not in ("", "no agent has gpu"))
    eventually(lambda: space.token(gpu).why == "no agent has gpu")
    task = only(space.ready(capabilities=["gpu"]))
    assert space.token(gpu).why == ""
    other = space.start("job")
    assert space.token(other).why == ""  # who has gpu is at work
    space.report(task)
    assert space.token(other).why == "no agent has gpu"


def test_why_says_that_nobody_asks_for_what_any_worker_may_take(space):
    space.define(job("{capability: gpu}").replace("runs_on: {capability: gpu}", "queue: night"))
    id = space.start("job")
    nobody = "no worker waits for action job.n in queue night"
    assert space.token(id).why == nobody
    with space.work(max_tasks=1, queue="other") as work:
        assert space.token(id).why == nobody
    with space.work(max_tasks=1, queue="night", session="s") as work:
        [task] = work.await_tasks(1)
        second = space.start("job")
        eventually(lambda: space.token(second).why == "who could take it is busy")
        space.call("Relinquish", v1.RelinquishRequest(
            namespace=space.name, instance=task.instance, claim=task.claim, refused=True,
            reason="no disk"))
        eventually(lambda: space.token(second).why == "who could take it has refused it")
    eventually(lambda: space.token(second).why == nobody)


def test_why_says_that_a_queue_is_closed(space):
    space.define(job("{capability: gpu}", more="queue: night, "))
    space.define("limit: night\non: {queue: night}\nmax: 0\n")
    id = space.start("job")
    assert "night is closed" in space.token(id).why


# dcli ---------------------------------------------------------------------------------------------


def test_dcli_works_with_capabilities_and_shows_why(space, dcli, work):
    space.define(job("{capability: [gpu], agent: h1}"))
    id = space.start("job")
    shown = dcli.ok("show", id)
    assert "h1 with gpu" in shown and "h1 is not connected" in shown
    assert dcli("ready", "--worker", "h1").stdout == ""
    work("job", "--worker", "h1", "--capability", "gpu", "--capability", "x", "--", "true")
    eventually(lambda: result(space.get(id)) == "SUCCESS")


# Crashes ------------------------------------------------------------------------------------------


def test_kill_9_changes_nothing_of_where_work_runs(new_server):
    server = new_server().start()
    space = server.space("")
    for source in (job("{capability: [gpu]}"), job('{agent: "${params.host}"}', id="named"),
                   RELAY, PLAN):
        space.define(source)
    gpu = [space.start("job") for _ in range(20)]
    named = [space.start("named", params={"host": f"h{n}"}) for n in range(20)]
    relay, roll = space.start("relay"), space.plan("roll", params={"hosts": ["x"]})
    space.report(only(space.ready("relay", worker="r1")))
    space.report(only(space.ready("roll", worker="r2")))
    for _ in range(2):
        server.kill()
        server.start()
        assert space.ready(max_tasks=100) == []
        assert space.token(gpu[0]).why == "no agent has gpu"
        assert space.token(named[3]).why == "h3 is not connected"
        assert space.token(named[3]).runs_on.agent == "h3"
        assert space.token(relay).runs_on.agent == "r1"
    for n, id in enumerate(named):
        assert only(space.ready(worker=f"h{n}", max_tasks=100)).instance == id
    tasks = space.ready(worker="r1", capabilities=["gpu", "linux"], max_tasks=100)
    assert sorted(task.instance for task in tasks) == sorted([*gpu, relay])
    task = only(space.ready(worker="r2", capabilities=["linux"], max_tasks=100))
    assert (task.instance, task.node) == (roll, "b")
    space.report(only([task for task in tasks if task.instance == relay]), output={"host": "x"})
    server.kill()
    server.start()
    assert space.token(relay).runs_on.agent == "x"
    assert only(space.ready("relay", worker="x", capabilities=["ship"], wait=SOON)).node == "ship"
