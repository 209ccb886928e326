"""What the loop of a worker promises, library by library."""
import json

import grpc
import pytest
from machines import OURS
from stubs import admin, admin_grpc, v1, v1_grpc
from support import SOON, eventually, kind, result, state
from workers import Worker


@pytest.fixture
def worker(language, server, space, tmp_path):
    for source in OURS:
        space.define(source)
    it = Worker(language, server.address, space.name, tmp_path).start()
    yield it
    if it.process.poll() is None:
        assert it.stop() == 0, it.said


def run(space, machine="job", within=3 * SOON, **params):
    id = space.start(machine, params=params)
    assert eventually(lambda: state(space.get(id)) in ("STOPPED", "PAUSED"), within)
    return space.get(id)


def output(instance, node="work"):
    return json.loads(instance.outputs[node] or "{}")


def refused(space, id):
    return [change for change in space.history(id) if kind(change) == "REFUSED"]


def check_goes_back_once(space, machine, do):
    """The worker gives it back, and is not offered it again; another one is. Returns why."""
    id = space.start(machine, params={"do": do})
    assert eventually(lambda: refused(space, id), SOON)
    assert result(run(space, "async")) == "SUCCESS"  # the worker goes on with other work
    assert [kind(c) for c in space.history(id)].count("CLAIMED") == 1
    task = space.take(machine)
    assert task.instance == id and space.report(task, "ok")
    [change] = refused(space, id)
    return change.note


def test_a_result_is_a_transition_an_output_or_an_object(worker, space):
    assert result(run(space)) == "SUCCESS"
    other = run(space, do="name")
    assert ("work", "other", "done") in space.walk(other.id)
    exact = run(space, do="output", got=12345678901234567890)
    assert exact.outputs["work"].replace(" ", "") == \
        '{"big":9007199254740993,"got":12345678901234567890}'
    whole = run(space, do="object")
    assert output(whole) == {"done": True}
    more = space.get(whole.id + "-more")
    assert (more.machine, dict(more.labels)) == ("job", {"by": "object"})
    [entered] = [c for c in space.history(whole.id) if kind(c) == "TRANSITIONED"]
    assert json.loads(entered.params) == {"from": whole.id}


def test_a_task_tells_all_of_itself(worker, space):
    got = output(run(space, do="echo"))
    assert got["params"] == {"do": "echo"} and got["input"] == {} and got["deadline"]
    assert (got["machine"], got["node"], got["action"]) == ("job", "work", "job.work")
    assert (got["visit"], got["attempt"], got["phase"]) == (1, 1, "")
    assert (got["event"], got["dry_run"], got["checkpoint"]) == ("", False, None)
    step = output(run(space, "trying", do="echo"), "it")
    assert (step["input"], step["phase"], step["action"]) == ({"n": 7}, "run", "try.it")


def test_a_failure_is_error_with_its_text(worker, space):
    for machine in ("job", "async"):
        failed = run(space, machine, do="raise")
        assert result(failed) == "ERROR"
        [entered] = [c for c in space.history(failed.id) if kind(c) == "TRANSITIONED"]
        assert entered.transition == "error" and entered.note == "boom"


def test_retry_and_fail_say_whether_to_try_again(worker, space):
    tried = run(space, "trying", do="retry")
    assert [c.note for c in space.history(tried.id) if c.transition == "error"][:1] == ["later"]
    times = [c.time.ToNanoseconds() / 1e9 for c in space.history(tried.id) if kind(c) == "CLAIMED"]
    assert len(times) == 3 and all(b - a > 0.19 for a, b in zip(times, times[1:]))
    failed = run(space, "trying", do="fail")
    assert len([c for c in space.history(failed.id) if kind(c) == "CLAIMED"]) == 1


def test_without_error_the_task_goes_back(worker, space):
    assert "boom" in check_goes_back_once(space, "strict", "raise")


@pytest.mark.parametrize("do", ["nosuch", "nojson"])
def test_what_is_no_result_goes_back_and_the_log_has_the_transitions(worker, space, do):
    check_goes_back_once(space, "job", do)
    assert all(name in worker.said for name in ("error", "ok", "other"))


def test_a_claim_is_extended_while_its_handler_runs(worker, space):
    slow = run(space, "hasty", do="sleep", seconds=2)
    assert result(slow) == "SUCCESS"
    assert [kind(c) for c in space.history(slow.id)].count("CLAIMED") == 1
    assert "TIMED_OUT" not in space.story(slow.id)


@pytest.mark.parametrize("machine", ["job", "async"])
def test_cancel_aborts_the_handler_and_drops_its_result(worker, space, machine):
    id = space.start(machine, params={"do": "sleep", "seconds": 60})
    worker.saw("begin", id)
    space.cancel(id)
    worker.saw("aborted", id)
    assert eventually(lambda: state(space.get(id)) == "STOPPED", SOON)
    assert result(space.get(id)) == "CANCELLED" and not space.get(id).outputs.get("work")


@pytest.mark.parametrize("machine", ["timed", "timed_async"])
def test_an_attempt_takes_no_longer_than_its_run_timeout(worker, space, machine):
    assert result(run(space, machine, do="sleep", seconds=0.01)) == "SUCCESS"
    late = run(space, machine, do="sleep", seconds=60)
    assert worker.saw("aborted", late.id) and result(late) == "ERROR"
    [entered] = [c for c in space.history(late.id) if kind(c) == "TRANSITIONED"]
    assert entered.transition == "error" and entered.note.startswith("it ran for longer than ")
    assert [kind(c) for c in space.history(late.id)].count("CLAIMED") == 1


def test_a_claim_lost_to_another_report_aborts_the_handler(worker, space):
    id = space.start("job", params={"do": "sleep", "seconds": 60})
    worker.saw("begin", id)
    space.transition(id, "other")
    worker.saw("aborted", id)
    assert result(space.get(id)) == "SUCCESS"


def test_a_checkpoint_is_on_disk_when_it_was_told(worker, space):
    id = space.start("hasty", params={"do": "checkpoint"})
    assert worker.process.wait(3 * SOON) == 9
    worker.start()
    assert eventually(lambda: result(space.get(id)) == "SUCCESS", 3 * SOON)
    assert output(space.get(id)) == {"checkpoint": {"offset": 10}}


def test_middleware_is_run_or_named(worker, space):
    done = run(space, "audited")
    assert result(done) == "SUCCESS" and worker.saw("audit", done.id)
    id = space.start("unknown")
    assert eventually(lambda: state(space.get(id)) == "PAUSED", SOON)
    assert 'no middleware "nobody"' in space.get(id).error


def test_the_stop_waits_for_handlers_and_gives_the_rest_back(worker, space):
    brief = space.start("job", params={"do": "sleep", "seconds": 0.5})
    long = space.start("job", params={"do": "sleep", "seconds": 60})
    once = space.start("once", params={"do": "sleep", "seconds": 60})
    for id in (brief, long, once):
        worker.saw("begin", id)
    assert worker.stop() == 0, worker.said
    assert result(space.get(brief)) == "SUCCESS"
    assert [t.state for t in space.get(long).tokens] == [1]  # READY
    assert [t.state for t in space.get(once).tokens] == [2]  # CLAIMED: at most once
    for id in (long, once):
        space.cancel(id, "FORCE")


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_server_that_was_away_costs_nothing_that_was_done(language, new_server, tmp_path, how):
    server = new_server()
    space = server.space("away")
    for source in OURS:
        space.define(source)
    worker = Worker(language, server.address, space.name, tmp_path).start()
    done = space.start("job", params={"do": "sleep", "seconds": 1})
    on = space.start("async", params={"do": "sleep", "seconds": 4})
    worker.saw("begin", done)
    worker.saw("begin", on)
    server.kill() if how == "kill" else server.terminate()
    server.process.wait()
    if how == "kill":
        assert eventually(lambda: "reconnects" in worker.said, SOON)
    server.start()
    for id in (done, on):
        assert eventually(lambda: result(space.get(id)) == "SUCCESS", 4 * SOON)
        # What was claimed just before a crash may be handed out again: it is no work at most once.
        assert len(worker.saw("begin", id)) == 1 or how == "kill"
    assert worker.stop() == 0, worker.said


def test_a_worker_goes_on_to_the_next_address(language, server, space, tmp_path):
    for source in OURS:
        space.define(source)
    it = Worker(language, f"127.0.0.1:1,{server.address}", space.name, tmp_path).start()
    try:
        assert result(run(space)) == "SUCCESS"
    finally:
        assert it.stop() == 0, it.said


def test_a_token_of_a_worker_is_enough(language, new_server, tmp_path):
    """It may see neither machines nor the clock."""
    secret = "a" * 64
    (tmp_path / "admin").write_text(secret + "\n")
    server = new_server("--auth", "tokens", "--admin-token-file", str(tmp_path / "admin"))
    with grpc.insecure_channel(server.address) as channel:
        bearer = [("authorization", f"Bearer {secret}")]
        made = admin_grpc.TokenServiceStub(channel).CreateToken(
            admin.CreateTokenRequest(role=admin.AccessToken.WORKER), metadata=bearer, timeout=10)
        (tmp_path / "token").write_text(made.secret + "\n")
        runner = v1_grpc.RunnerServiceStub(channel)
        runner.Define(v1.DefineRequest(source=OURS[0]), metadata=bearer, timeout=10)
        runner.Start(v1.StartRequest(machine="job", id="it"), metadata=bearer, timeout=10)
        it = Worker(language, server.address, "", tmp_path,
                    TOKEN_FILE=str(tmp_path / "token")).start()
        get = v1.GetInstanceRequest(id="it")
        assert eventually(lambda: result(runner.GetInstance(get, metadata=bearer)) == "SUCCESS",
                          3 * SOON), it.said
        assert it.stop() == 0, it.said


def test_a_worker_that_is_refused_ends_with_the_reason(language, new_server, tmp_path):
    token = tmp_path / "token"
    token.write_text("0" * 64 + "\n")
    server = new_server("--auth", "tokens", "--admin-token-file", str(token))
    it = Worker(language, server.address, "", tmp_path).start()
    assert it.process.wait(2 * SOON) != 0
    assert "BAD_TOKEN" in it.said
