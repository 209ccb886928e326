"""Dry runs: what the server reports in them, who does not see them, and dcli."""
import json
import subprocess

import pytest

from stubs import agent as ag
from stubs import agent_grpc
from support import DCLI, JOB, SOON, Cli, eventually, only, refused, state
from test_agents import Agent

SHIP = """\
id: ship
nodes:
  build: {start: true, transitions: {bad: broken, ok: rest}}
  rest: {delay: 2h, transitions: {ok: check}}
  check: {dry_run: {transition: fine, output: {n: 7}}, transitions: {bad: build, fine: done}}
  broken: {final: true, result: error}
  done: {final: true}
"""
ASK = """\
id: ask
nodes:
  wait: {start: true, manual: true, transitions: {no: broken, yes: work}}
  work: {dry_run: worker, transitions: {ok: done}}
  broken: {final: true, result: error}
  done: {final: true}
"""
PLAN = """\
action: make
output: {type: object, required: [ip], properties: {ip: {type: string}}}
---
action: use
input: {type: object, properties: {ip: {type: string}}}
retry: {limit: 3, delay: 1h}
---
plan: roll
params: {type: object, required: [host]}
flow:
  - {step: a, action: make}
  - {step: b, action: use, input: {ip: "${a.output.ip}"}}
"""
LONG = """\
id: long
nodes:
  a: {start: true, transitions: {again: a, ok: done}}
  done: {final: true}
"""


def test_the_server_walks_it(space):
    space.define(SHIP)
    id = space.start("ship", dry_run=True)
    space.ends(id, "SUCCESS")
    instance = space.get(id)
    assert instance.dry_run and json.loads(instance.outputs["check"]) == {"n": 7}
    assert space.machine("ship").stats.stopped == 0
    assert all(change.dry_run for change in space.history(id))


def test_lists_and_changes_leave_it_out_unless_asked(space):
    space.define(JOB)
    dry = space.start("job", dry_run=True)
    real = space.start("job")
    space.ends(dry, "SUCCESS")
    assert [one.id for one in space.instances().instances] == [real]
    assert {one.id for one in space.instances(dry_run=True).instances} == {real, dry}
    assert {change.instance for change in space.changes()[0]} - {""} == {real}
    seen = [change for change in space.changes(dry_run=True)[0] if change.instance == dry]
    assert seen and all(change.dry_run for change in seen)


def test_work_goes_only_to_workers_that_take_dry_runs(space):
    space.define(ASK)
    id = space.start("ask", dry_run=True, dry_answers={"wait": "yes"})
    eventually(lambda: space.token(id).node == "work")
    assert space.ready() == []
    task = only(space.ready(dry_run=True))
    assert task.dry_run and task.instance == id
    space.report(task)
    space.ends(id, "SUCCESS")


def test_answers_that_cannot_be(space):
    space.define(SHIP)
    with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
        space.start("ship", dry_answers={"build": "ok"})
    with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
        space.start("ship", dry_run=True, dry_answers={"build": "fine"})
    with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
        space.start("ship", dry_run=True, dry_answers={"build": '{"times": 0}'})
    with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
        space.start("ship", dry_run=True, dry_answers={"biuld": "ok"})
    space.define(PLAN)
    with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
        space.start("roll", params={"host": "x"}, dry_run=True, dry_answers={"c": "ok"})
    with refused("INVALID_ARGUMENT", "BAD_REQUEST", "error_kind"):
        space.start("ship", dry_run=True,
                    dry_answers={"build": '{"transition": "error", "error_kind": "a b"}'})
    space.define("plan: fleet\nflow: [{step: a, spawn: {plan: roll, for_each: [1], as: n}}]\n")
    with refused("INVALID_ARGUMENT", "BAD_REQUEST", "'a'", "starts instances"):
        space.start("fleet", dry_run=True, dry_answers={"a": "error"})


def test_planned_is_for_what_a_worker_plans(space):
    text = "action: x\ndry_run: {transition: planned}\n"
    with refused("INVALID_ARGUMENT", "BAD_MACHINE", "dry_run", "plan: worker"):
        space.define(text)
    space.define(text + "plan: worker\n")


def test_a_plan_is_walked(space):
    space.define(PLAN)
    good = space.start("roll", params={"host": "x"}, dry_run=True,
                       dry_answers={"b": '{"transition": "error", "times": 2}'})
    space.ends(good, "SUCCESS")
    bad = space.start("roll", params={"host": "x"}, dry_run=True, dry_answers={"b": "error"})
    eventually(lambda: state(space.get(bad)) == "PAUSED")
    with refused("INVALID_ARGUMENT", "BAD_PARAMS"):
        space.start("roll", dry_run=True)


def test_it_goes_on_after_a_crash(new_server):
    server = new_server().start()
    space = server.space("crash")
    space.define(LONG)
    id = space.start("long", dry_run=True,
                     dry_answers={"a": '{"transition": "again", "times": 9000}'})
    server.kill()
    server.start()
    space.ends(id, "SUCCESS", within=6 * SOON)
    visits = [change.visit for change in space.history(id) if change.transition == "again"]
    assert len(visits) == 9000 and len(set(visits)) == 9000


def test_a_loop_ends_with_warning(space):
    space.define(LONG)
    id = space.start("long", dry_run=True, dry_answers={"a": "again"})
    space.ends(id, "WARNING", within=6 * SOON)


def test_dcli_walks_it(dcli, space):
    space.define(SHIP)
    space.define(ASK)
    done = dcli("start", "ship", "--dry-run", "--id", "good")
    assert done.returncode == 0 and "SUCCESS" in done.stdout
    assert "build" in done.stderr and "dry run" in done.stderr
    assert "Dry run" in dcli.ok("show", "good")
    assert dcli("start", "ship", "--dry-run", "--answer", "build=bad").returncode == 1
    waits = dcli("start", "ask", "--dry-run")
    assert waits.returncode == 1 and "wait" in waits.stderr
    assert dcli("start", "ask", "--dry-run", "--answer", "wait=no").returncode == 1
    alone = dcli("start", "ask", "--dry-run", "--answer", "wait=yes")
    assert alone.returncode == 1 and "no agent takes dry runs" in alone.stderr
    assert dcli("start", "ship", "--answer", "build=bad").returncode == 2
    held = dcli("start", "ship", "--dry-run", "--hold")
    assert held.returncode == 1 and "--hold" in held.stderr and "--answer" not in held.stderr
    assert "good" not in dcli.ok("instances")
    assert "good" in dcli.ok("instances", "--dry-run")
    assert "good" not in dcli.ok("changes", "--after", "0", "--no-follow")
    assert "good" in dcli.ok("changes", "--after", "0", "--no-follow", "--dry-run")


def test_no_trigger_sees_it(space):
    space.define(JOB)
    space.define(JOB.replace("job", "after"))
    space.define("trigger: t\non: {change: {kind: finished, machine: job}}\n"
                 "start: {machine: after}\n")
    dry = space.start("job", dry_run=True)
    space.ends(dry, "SUCCESS")
    real = space.start("job")
    space.report(only(space.ready()))
    space.ends(real, "SUCCESS")
    eventually(lambda: [one for one in space.instances(dry_run=True).instances
                        if one.machine == "after"])
    assert len([one for one in space.instances(dry_run=True).instances
                if one.machine == "after"]) == 1


WORKERS = "workers:\n  deploy.run: {run: ./job.sh, dry_run: true}\n"
SCRIPT = """\
#!/bin/sh
echo "told ${DFSMR_DRY_RUN-nothing}"
grep -q '"dryRun": *true' && echo "by the task, too"
until [ -e go ]; do sleep 0.02; done
"""
DEPLOY = """\
action: deploy.run
dry_run: worker
---
plan: deploy
flow: [{step: a, action: deploy.run}]
"""


@pytest.fixture
def agent(space, tmp_path):
    script = tmp_path / "job.sh"
    script.write_text(SCRIPT.replace("-e go", f"-e {tmp_path}/go"))
    script.chmod(0o755)
    (tmp_path / "workers.yaml").write_text(WORKERS)
    cli = Cli(space.server.address, space.name)
    with (tmp_path / "agent.log").open("wb") as log:
        process = subprocess.Popen(
            [str(DCLI), "agent", "--workers", str(tmp_path / "workers.yaml"), "--name", "h1"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env={**cli.environment, "no_proxy": "127.0.0.1"})
    yield cli
    process.kill()
    process.wait()


def test_what_a_stopped_dry_run_leaves_is_marked(new_server):
    server = new_server().start()
    space = server.space("default")
    space.define(ASK)
    agent = Agent(space, "h1", dry_run=True)
    agent.welcome()
    id = space.start("ask", dry_run=True, dry_answers={"wait": "yes"})
    agent.begin(agent.task())
    assert only(operations(space)).dry_run
    space.cancel(id, mode="KILL")
    eventually(lambda: only(operations(space)).leftover)
    agent.cancel()
    server.kill()
    server.start()
    assert only(operations(space)).leftover and only(operations(space)).dry_run


def operations(space):
    stub = agent_grpc.AgentServiceStub(space.server.channel)
    return stub.ListOperations(ag.ListOperationsRequest(namespace=space.name)).operations


def lines_of(cli, instance):
    return [json.loads(line) for line in cli.ok("logs", instance, "-o", "json").splitlines()]


def test_an_agent_tells_its_commands(space, agent, tmp_path):
    space.define(DEPLOY)
    dry = space.start("deploy", dry_run=True)
    eventually(lambda: any(line["text"] == "by the task, too" for line in lines_of(agent, dry)))
    lines = lines_of(agent, dry)
    assert any(line["text"] == "told 1" for line in lines)
    assert all(line.get("dryRun") for line in lines)
    [operation] = agent.json("ps", dry)["operations"]
    assert operation["dryRun"]
    (tmp_path / "go").touch()
    space.ends(dry, "SUCCESS")
    real = space.start("deploy")
    space.ends(real, "SUCCESS")
    lines = eventually(lambda: [line for line in lines_of(agent, real)
                                if line["text"] == "told nothing"])
    assert not any(line.get("dryRun") for line in lines)
