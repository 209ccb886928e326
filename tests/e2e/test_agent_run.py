"""dcli agent with real processes, against a server of which each answer is scripted."""
import base64
import contextlib
import json
import os
import pathlib
import queue
import re
import secrets
import signal
import subprocess
import threading
import time
from concurrent import futures

import grpc
import pytest

from stubs import agent, agent_grpc, v1, v1_grpc
from support import DCLI, SOON, eventually, free_port


class Stream:
    """One Attach stream, as the server sees it."""

    def __init__(self, context):
        self.context = context
        self.out = queue.Queue()

    def send(self, **fields):
        self.out.put(agent.AgentOrder(**fields))

    def break_off(self):
        self.out.put(None)


class FakeServer(agent_grpc.AgentServiceServicer, v1_grpc.RunnerServiceServicer):
    """Hands out what it is told to, and writes down what it hears."""

    def __init__(self, port=None):
        self.lock = threading.RLock()
        self.registrations, self.opens = [], []
        self.begun, self.extends, self.reports, self.given_back, self.stops = [], [], [], [], []
        self.left = False
        self.streams = []
        self.refusal = None           # (code, reason) of the next Attach
        self.farewell = None          # (code, reason) with which a stream is ended
        self.stale = set()            # claims that are not its any more
        self.answers = True           # to reports
        self.life = secrets.token_hex(8)  # the marks of two runs of the tests differ
        self.legal = ["ok", "error", "later"]
        self.bad = []  # transitions that are refused for themselves
        self.deadline = 60
        self.logs = {}                # by claim: (number, stream, text)
        self.left_out = 0
        self.held_logs = None         # an event: logs are not read before it
        self.in_hands = 2             # of the agent that people ask for
        self.drained = False
        self.polled = []              # tasks for dcli work
        self.operations = 0           # so many times one is listed
        self.serial = 0
        self.port = port or free_port()
        self.start()

    def start(self):
        self.server = grpc.server(futures.ThreadPoolExecutor(32))
        agent_grpc.add_AgentServiceServicer_to_server(self, self.server)
        v1_grpc.add_RunnerServiceServicer_to_server(self, self.server)
        assert self.server.add_insecure_port(f"127.0.0.1:{self.port}")
        self.server.start()

    def stop(self):
        for stream in self.streams:
            stream.break_off()
        self.server.stop(0.2).wait()

    # Of the service -------------------------------------------------------------------------

    def Attach(self, requests, context):
        first = next(requests)
        with self.lock:
            if self.refusal:
                self.abort(context, *self.refusal)
            self.registrations.append(first.register)
            self.opens.append(first.work.open)
        context.send_initial_metadata((("dfsmr-life", self.life),))
        stream = Stream(context)
        welcome = agent.Welcome(logs=True)
        welcome.time.GetCurrentTime()
        stream.send(welcome=welcome)
        with self.lock:
            self.streams.append(stream)  # from here on tests hand out, after the welcome

        def read():
            with contextlib.suppress(grpc.RpcError, StopIteration):
                self.hear(stream, first)
                for message in requests:
                    self.hear(stream, message)
            stream.break_off()

        threading.Thread(target=read, daemon=True).start()
        while True:
            try:
                order = stream.out.get(timeout=2)
            except queue.Empty:
                order = agent.AgentOrder()
            if order is None:
                if self.farewell:
                    self.abort(context, *self.farewell)
                return
            yield order

    @staticmethod
    def abort(context, code, reason):
        context.set_trailing_metadata((("dfsmr-reason", reason),))
        context.abort(code, f"no: {reason}")

    def hear(self, stream, message):
        with self.lock:
            self.stops += message.stops
            if message.leave:
                self.left = True
            work = v1.WorkResponse()
            for item in message.work.extends:
                answer = work.extended.add()
                if item.claim in self.stale:
                    answer.error.code, answer.error.reason = 9, "STALE_CLAIM"
                    continue
                (self.begun if item.begin else self.extends).append(item)
                if self.deadline:
                    answer.deadline.FromNanoseconds(int((time.time() + self.deadline) * 1e9))
            for report in message.work.transitions:
                if not self.answers:
                    continue
                result = work.results.add()
                if report.transition in self.bad:
                    result.error.code, result.error.reason = 3, "BAD_REQUEST"
                    result.error.message = "bad"
                elif report.transition not in self.legal:
                    result.error.code, result.error.reason = 9, "ILLEGAL_TRANSITION"
                elif report.claim in self.stale:
                    result.error.code, result.error.reason = 9, "STALE_CLAIM"
                else:
                    self.reports.append(report)
                    result.accepted.instance = report.instance
            self.given_back += message.work.relinquishes
            if work.ByteSize():
                stream.send(work=work)
            if self.left and not self.in_hand():
                stream.break_off()

    def in_hand(self):
        done = {one.claim for one in [*self.reports, *self.given_back]}
        done |= {one.claim for one in self.stops if one.stage == agent.StopReport.ENDED}
        return {item.claim for item in self.begun} - done

    def AppendLogs(self, requests, context):
        count = 0
        for request in requests:
            if self.held_logs:
                self.held_logs.wait(30)
            with self.lock:
                for batch in request.batches:
                    lines = self.logs.setdefault(batch.claim, [])
                    number = batch.first
                    for i, line in enumerate(batch.lines):
                        number += line.left_out if i else 0
                        self.left_out += line.left_out
                        lines.append((number, line.stream, line.text))
                        number += 1
            count += 1
            yield agent.AppendLogsResponse(requests=count)

    def GetInstance(self, request, context):
        node = v1.Node(id="work", transitions=[v1.Edge(transition=name) for name in self.legal])
        return v1.Instance(id=request.id, nodes=[node])

    def Ready(self, request, context):
        with self.lock:
            self.opens.append(request)
            return v1.ReadyResponse(tasks=[self.polled.pop(0)] if self.polled else [])

    def Transition(self, request, context):
        with self.lock:
            self.reports.append(request)
        return v1.TransitionResponse(instance=request.instance)

    # What people ask.

    def listed(self, name="h1"):
        self.asked = getattr(self, "asked", 0) + 1
        listed = agent.Agent(name=name, state=agent.Agent.ACTIVE, slots=8, in_hand=self.in_hands,
                             capabilities=["amd64", "linux"], packages=["*"], version="1.0.0",
                             drain_requested=self.drained)
        listed.last_seen.GetCurrentTime()
        self.in_hands = max(self.in_hands - 1, 0)
        return listed

    def ListAgents(self, request, context):
        self.listing = request
        return agent.ListAgentsResponse(agents=[self.listed()])

    def GetAgent(self, request, context):
        if request.name != "h1":
            context.set_trailing_metadata((("dfsmr-reason", "NO_SUCH_AGENT"),))
            context.abort(grpc.StatusCode.NOT_FOUND, f"there is no agent {request.name}")
        one = self.listed()
        one.refuses.add(machine="m", version=2, node="n", reason="no disk")
        return one

    def DrainAgent(self, request, context):
        self.drained = not request.undo
        return self.listed()

    def EvictAgent(self, request, context):
        return agent.EvictAgentResponse(given_back=2, kept=1)

    def ListOperations(self, request, context):
        if self.operations > 0:
            self.operations -= 1
            one = agent.Operation(agent="h1", instance="site-7", machine="site", version=1,
                                  node="build", attempt=1, progress=0.4, note="3 of 7 done",
                                  order=v1.CancelRequest.KILL, leftover=True)
            one.begin_time.FromSeconds(int(time.time()) - 12)
            return agent.ListOperationsResponse(operations=[one])
        return agent.ListOperationsResponse()

    def Cancel(self, request, context):
        return v1.Instance(id=request.instance, state=v1.Instance.STOPPED,
                           result=v1.Instance.CANCELLED)

    # Of tests -------------------------------------------------------------------------------

    @property
    def stream(self):
        return self.streams[-1]

    def task(self, action="do", **more):
        self.serial += 1
        task = v1.Task(namespace="default", instance=f"i-{self.serial}", machine="m", version=1,
                       node="work", visit=3, attempt=1, claim=f"c{self.serial}", action=action,
                       **more)
        task.begin_by.FromNanoseconds(int((time.time() + 30) * 1e9))
        return task

    def hand_out(self, action="do", **more):
        task = self.task(action, **more)
        eventually(lambda: self.streams)
        self.stream.send(work=v1.WorkResponse(tasks=[task]))
        return task.claim

    def order(self, **claims):
        self.stream.send(work=v1.WorkResponse(**claims))

    def report(self, claim, within=SOON):
        def find():
            with self.lock:
                return next((one for one in self.reports if one.claim == claim), None)
        return eventually(find, within)

    def back(self, claim, within=SOON):
        return eventually(lambda: next((one for one in self.given_back if one.claim == claim),
                                       None), within)

    def stages(self, claim):
        with self.lock:
            return [one.stage for one in self.stops if one.claim == claim]

    def ended(self, claim, within=SOON):
        return eventually(lambda: agent.StopReport.ENDED in self.stages(claim), within)

    def lines(self, claim, stream=agent.LogLine.OUT):
        with self.lock:
            return [text for _, kind, text in self.logs.get(claim, []) if kind == stream]


@pytest.fixture
def fake():
    server = FakeServer()
    yield server
    server.stop()


class Agent:
    def __init__(self, fake, folder, workers, *flags, name="h1", environment=None):
        self.folder = folder
        file = folder / "workers.yaml"
        file.write_text(workers)
        self.log = (folder / "agent.log").open("ab")
        (folder / "tmp").mkdir(exist_ok=True)
        self.process = subprocess.Popen(
            [str(DCLI), "--server", f"127.0.0.1:{fake.port}", "agent", "--workers", str(file),
             "--name", name, *flags],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            env={**os.environ, "TMPDIR": str(folder / "tmp"), "no_proxy": "127.0.0.1",
                 **(environment or {})})

    @property
    def pid(self):
        return self.process.pid

    @property
    def text(self):
        return (self.folder / "agent.log").read_text(errors="replace")

    def wait(self, within=SOON):
        return self.process.wait(within)

    def keeper(self):
        return next(pid for pid in children(self.pid) if name_of(pid) == "dcli-keeper")

    def dispose(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@pytest.fixture
def run(fake, tmp_path):
    agents = []

    def begin(workers, *flags, **more):
        agents.append(Agent(fake, tmp_path, workers, *flags, **more))
        seen = len(fake.streams)
        if more.get("name", "h1") and not fake.refusal:
            eventually(lambda: len(fake.streams) > seen or agents[-1].process.poll() is not None)
        return agents[-1]

    yield begin
    for one in agents:
        one.dispose()


def children(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            found += [int(child) for child in (task / "children").read_text().split()]
    return found


def name_of(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()


def lives(pid):
    try:
        status = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rsplit(")", 1)[1].split()[0] not in "ZX"


def script(tmp_path, text, name="run.sh"):
    file = tmp_path / name
    file.write_text("#!/bin/sh\n" + text)
    file.chmod(0o755)
    return f"workers: {{do: ./{name}}}\n"


# Leaves group and session by forking twice, writes down who is away, and stays.
AWAY = "(setsid sh -c 'setsid sh -c \"echo \\$\\$ >> {0}; exec sleep 1000\" & exec sleep 1000' &)\n"


def away(tmp_path):
    return AWAY.format(tmp_path / "away")


def those_away(tmp_path, count=1):
    def read():
        file = tmp_path / "away"
        pids = [int(word) for word in file.read_text().split()] if file.exists() else []
        return pids if len(pids) >= count else None
    return eventually(read)


# One operation --------------------------------------------------------------------------------


def test_a_task_is_begun_run_and_reported(fake, run, tmp_path):
    run(script(tmp_path, "cat > $DFSMR_DIR/task; cp $DFSMR_DIR/task " + str(tmp_path / "task") + """
env | sort > """ + str(tmp_path / "env") + """
pwd > """ + str(tmp_path / "pwd") + """
stat -c %a $DFSMR_DIR > """ + str(tmp_path / "mode") + """
ls -A $DFSMR_DIR/work > """ + str(tmp_path / "ls") + """
echo to out; echo to err >&2; echo '{"output": {"n": 1}}'
"""), environment={"NOT_FOR_COMMANDS": "x"})
    claim = fake.hand_out(checkpoint='{"k": 7}', tries=2, tries_limit=5,
                          node_params='{"p": 12345678901234567890}')
    report = fake.report(claim)
    assert (report.transition, report.output) == ("ok", '{"n": 1}')
    task = json.loads((tmp_path / "task").read_text())
    assert task["checkpoint"] == {"k": 7}
    assert (task["tries"], task["triesLimit"], task["dryRun"]) == (2, 5, False)
    assert '"p": 12345678901234567890' in (tmp_path / "task").read_text()
    env = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines())
    for name in ("PWD", "SHLVL", "_", "OLDPWD"):
        env.pop(name, None)
    assert env["PATH"] == "/usr/local/bin:/usr/bin:/bin"
    assert env["DFSMR_VISIT"] == "3"
    assert env["DFSMR_AGENT"] == "h1"
    assert re.fullmatch("[0-9a-f]{16}", env["DFSMR_AGENT_ID"])
    assert "NOT_FOR_COMMANDS" not in env and "DFSMR_DRY_RUN" not in env
    assert (tmp_path / "mode").read_text().strip() == "700"
    assert (tmp_path / "pwd").read_text().strip() == str(tmp_path)
    eventually(lambda: not pathlib.Path(env["DFSMR_DIR"]).exists())
    eventually(lambda: any(line.startswith("exit status 0, ")
                           for line in fake.lines(claim, agent.LogLine.AGENT)))
    assert fake.lines(claim)[0] == "to out"
    assert fake.lines(claim, agent.LogLine.ERR) == ["to err"]
    assert re.match(r"begun, pid \d+", fake.lines(claim, agent.LogLine.AGENT)[0])
    assert re.match(r"exit status 0, \d+\.\ds, CPU \d+\.\ds, at most \d+ MiB",
                    fake.lines(claim, agent.LogLine.AGENT)[-1])
    numbers = [number for number, _, _ in fake.logs[claim]]
    assert numbers == list(range(1, len(numbers) + 1))


def test_the_begin_is_the_first_line(fake, run, tmp_path):
    run(script(tmp_path, "echo first; echo second >&2; echo third"), "--jobs", "4")
    claims = [fake.hand_out() for _ in range(40)]
    for claim in claims:
        fake.report(claim, 20)
        eventually(lambda: len(fake.logs.get(claim, [])) == 5)
        with fake.lock:
            lines = [text for _, _, text in sorted(fake.logs[claim])]
        assert lines[0].startswith("begun, pid "), lines
        assert lines[-1].startswith("exit status 0, "), lines


@pytest.mark.parametrize("body, transition, kind, text", [
    ("exit 3", "later", "", ""),
    ("echo sorry >&2; exit 4", "error", "exit", "exit status 4: sorry"),
    ("kill -9 $$", "error", "signal", "killed by signal 9"),
    ("echo '{\"transition\": \"later\"}' > $DFSMR_OUTPUT; echo '{\"transition\": \"error\"}'",
     "later", "", ""),
    ("echo nonsense > $DFSMR_OUTPUT", "error", "output", "no JSON object"),
    ("echo '{\"transition\": \"nowhere\"}'", "error", "output", "ok, error, later"),
    ("echo '{\"transition\": \"error\", \"error\": \"e\", \"error_kind\": \"k\"}'",
     "error", "k", "e"),
])
def test_how_a_command_ends_is_its_report(fake, run, tmp_path, body, transition, kind, text):
    run(script(tmp_path, body).replace("./run.sh", "{run: ./run.sh, exit: {3: later}}"))
    report = fake.report(fake.hand_out())
    assert (report.transition, report.error_kind) == (transition, kind)
    assert text in report.error


@pytest.mark.parametrize("body, text", [
    ("mkfifo $DFSMR_OUTPUT", "a FIFO"),
    ("mkdir $DFSMR_OUTPUT", "a directory"),
    ("ln -s /dev/zero $DFSMR_OUTPUT", "a symbolic link"),
    ("ln -s $DFSMR_DIR/home/report $DFSMR_OUTPUT; echo '{}' > $DFSMR_OUTPUT", "a symbolic link"),
    ("python3 -c 'import os; os.mknod(os.environ[\"DFSMR_OUTPUT\"], 0o140600)'", "a socket"),
])
def test_what_stands_in_the_place_of_the_report_is_an_error(fake, run, tmp_path, body, text):
    run(script(tmp_path, f"rm $DFSMR_OUTPUT; {body}; echo '{{\"transition\": \"later\"}}'"))
    report = fake.report(fake.hand_out())
    assert (report.transition, report.error_kind) == ("error", "output")
    assert "DFSMR_OUTPUT" in report.error and text in report.error


def test_a_folder_is_deleted_whatever_a_command_has_made_of_it(fake, run, tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    run(script(tmp_path, f"""
echo $DFSMR_DIR > {tmp_path}/dir
cd $DFSMR_DIR
ln -s {tmp_path}/kept home/link
python3 -c 'import os
for i in range(60):  # more than a path can have
    os.mkdir("d" * 200); os.chdir("d" * 200)
open("f", "w")'
mkdir -p tmp/a/b/c; touch tmp/a/b/c/f; chmod 0 tmp/a/b; chmod 0 tmp/a; chmod 500 .
"""))
    assert fake.report(fake.hand_out(), 15).transition == "ok"
    folder = pathlib.Path((tmp_path / "dir").read_text().strip())
    eventually(lambda: not folder.exists())
    assert (tmp_path / "kept" / "file").exists()
    (tmp_path / "run.sh").write_text(f"#!/bin/sh\nrm -r $DFSMR_DIR; ln -s {tmp_path}/kept $DFSMR_DIR\n"
                                     f"echo $DFSMR_DIR > {tmp_path}/dir\n")
    assert fake.report(fake.hand_out(), 15).transition == "ok"
    folder = pathlib.Path((tmp_path / "dir").read_text().strip())
    eventually(lambda: not folder.is_symlink())
    assert (tmp_path / "kept" / "file").exists()


def test_progress_and_checkpoints_are_sent_and_what_is_hidden_is_not(fake, run, tmp_path):
    secret = "hunter2 hunter2"
    run(script(tmp_path, f"""
echo '{{"mask": "{secret}"}}' >> $DFSMR_PROGRESS
echo "it is {secret}"
printf 'hunter2'; sleep 0.3; echo ' hunter2 in pieces'
echo {base64.b64encode(secret.encode()).decode()}
echo '{{"progress": 0.5, "note": "at {secret}", "checkpoint": {{"s": "{secret}"}}}}' >> $DFSMR_PROGRESS
read line < {tmp_path / 'fifo'}
echo '{{"output": {{"s": "{secret}"}}, "error": "{secret}"}}'
"""))
    os.mkfifo(tmp_path / "fifo")
    claim = fake.hand_out()
    told = eventually(lambda: next((one for one in fake.extends if one.progress == 0.5), None))
    assert told.note == "at ***"
    assert json.loads(told.checkpoint) == {"s": "***"}
    (tmp_path / "fifo").write_text("go\n")
    report = fake.report(claim)
    assert json.loads(report.output) == {"s": "***"}
    assert json.loads(report.checkpoint) == {"s": "***"}
    assert report.error == "***"
    eventually(lambda: "*** in pieces" in fake.lines(claim))
    assert fake.lines(claim)[:3] == ["it is ***", "*** in pieces", "***"]


def test_a_command_that_cannot_be_started_is_refused(fake, run, tmp_path):
    (tmp_path / "run.sh").write_text("#!/no/such/shell\n")
    (tmp_path / "run.sh").chmod(0o755)
    run("workers: {do: [./run.sh]}\n")
    back = fake.back(fake.hand_out())
    assert back.refused
    assert "its program cannot be run" in back.reason


def test_what_no_worker_serves_is_refused(fake, run, tmp_path):
    run(script(tmp_path, ""))
    back = fake.back(fake.hand_out("other"))
    assert back.refused and "other" in back.reason


# Processes ------------------------------------------------------------------------------------


def test_after_an_operation_nothing_of_it_lives(fake, run, tmp_path):
    run(script(tmp_path, away(tmp_path) + f"while [ ! -s {tmp_path}/away ]; do sleep 0.01; done\n"))
    fake.report(fake.hand_out())
    [pid] = those_away(tmp_path)
    assert not lives(pid)


def test_kill_9_of_the_agent_leaves_nothing(fake, run, tmp_path):
    one = run(script(tmp_path, away(tmp_path) + away(tmp_path) + "sleep 1000"), "--jobs", "2")
    fake.hand_out(), fake.hand_out()
    pids = those_away(tmp_path, 4)
    os.kill(one.pid, signal.SIGKILL)
    eventually(lambda: not any(lives(pid) for pid in pids), within=1)


def test_kill_9_of_the_agent_leaves_no_folder(fake, run, tmp_path):
    one = run(script(tmp_path, f"mkdir $DFSMR_DIR/a; touch $DFSMR_DIR/a/b; "
                               f"echo $DFSMR_DIR > {tmp_path}/dir; exec sleep 1000"))
    fake.hand_out()
    folder = pathlib.Path(eventually(lambda: (tmp_path / "dir").exists()
                                     and (tmp_path / "dir").read_text().strip()))
    assert (folder / "a" / "b").exists()
    os.kill(one.pid, signal.SIGKILL)
    eventually(lambda: not folder.exists())


def test_kill_9_of_agent_and_keeper_leaves_nothing(fake, run, tmp_path):
    one = run(script(tmp_path, away(tmp_path) + "sleep 1000"))
    fake.hand_out()
    [pid] = those_away(tmp_path)
    keeper = one.keeper()
    os.kill(one.pid, signal.SIGSTOP)
    os.kill(keeper, signal.SIGKILL)
    os.kill(one.pid, signal.SIGKILL)
    eventually(lambda: not lives(pid), within=1)


def test_leftovers_of_an_agent_that_was_killed_with_all_its_keepers(fake, run, tmp_path):
    one = run(script(tmp_path, away(tmp_path) + "sleep 1000"))
    fake.hand_out()
    [pid] = those_away(tmp_path)
    keepers = [one.keeper(), *children(one.keeper())]
    os.kill(one.pid, signal.SIGSTOP)
    for keeper in keepers:
        os.kill(keeper, signal.SIGSTOP)
    for keeper in [*keepers[1:], keepers[0], one.pid]:
        os.kill(keeper, signal.SIGKILL)
    one.process.wait()
    assert lives(pid)
    other = run(script(tmp_path, ""), name="h2")
    assert lives(pid), other.text
    run(script(tmp_path, ""))
    eventually(lambda: not lives(pid))


def test_a_keeper_that_is_killed_fails_its_operations_and_is_replaced(fake, run, tmp_path):
    one = run(script(tmp_path, f"[ -e {tmp_path}/again ] && exit 0\n" + away(tmp_path) +
                     "sleep 1000"))
    claim = fake.hand_out()
    [pid] = those_away(tmp_path)
    (tmp_path / "again").touch()
    os.kill(one.keeper(), signal.SIGKILL)
    report = fake.report(claim)
    assert report.transition == "error"
    assert report.error_kind in ("crashed", "signal")  # whichever the agent learns first
    assert not lives(pid)
    assert fake.report(fake.hand_out()).transition == "ok"


# Orders ---------------------------------------------------------------------------------------

STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.01; done\n"


def ready(fake, claim):
    eventually(lambda: "ready" in fake.lines(claim))


def test_a_cancel_stops_and_gives_back(fake, run, tmp_path):
    run(script(tmp_path, "echo ready; exec sleep 1000"))
    claim = fake.hand_out()
    ready(fake, claim)
    fake.order(cancelled_claims=[claim], finishable_claims=[claim])
    back = fake.back(claim)
    assert back.reason.startswith("cancelled: killed by signal 15")
    assert not back.refused
    assert fake.stages(claim) == [agent.StopReport.SIGNALLED]


def test_a_cancelled_command_that_ends_well_is_reported(fake, run, tmp_path):
    run(script(tmp_path, "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done\n"))
    claim = fake.hand_out()
    ready(fake, claim)
    fake.order(cancelled_claims=[claim], finishable_claims=[claim])
    assert fake.report(claim).transition == "ok"


def test_at_most_once_is_not_given_back(fake, run, tmp_path):
    fake.deadline = 0
    run(script(tmp_path, "echo ready; exec sleep 1000"))
    claim = fake.hand_out()
    ready(fake, claim)
    fake.order(cancelled_claims=[claim], finishable_claims=[claim])
    fake.ended(claim)
    assert not fake.given_back and not fake.reports


def test_on_cancel_finish_ends_in_peace_but_not_by_force(fake, run, tmp_path):
    workers = script(tmp_path, f"echo ready; read x < {tmp_path}/fifo; echo done")
    os.mkfifo(tmp_path / "fifo")
    run(workers.replace("./run.sh", "{run: ./run.sh, on_cancel: finish}"), "--jobs", "2")
    claim = fake.hand_out()
    ready(fake, claim)
    fake.order(cancelled_claims=[claim], finishable_claims=[claim])
    eventually(lambda: agent.StopReport.SIGNALLED in fake.stages(claim))
    (tmp_path / "fifo").write_text("x\n")
    assert fake.report(claim).transition == "ok"
    forced = fake.hand_out()
    ready(fake, forced)
    fake.order(cancelled_claims=[forced])
    fake.ended(forced)
    assert not [one for one in fake.reports if one.claim == forced]


@pytest.mark.parametrize("said, words", [
    ("suspend", 'no transition "suspend"; it has ok, error, later'),
    ("later", "its report was refused: bad"),
])
def test_what_is_refused_for_another_reason_names_what_the_node_has(fake, run, tmp_path, said,
                                                                    words):
    fake.bad = [said]
    run(script(tmp_path, f"""echo '{{"transition": "{said}"}}'"""))
    report = fake.report(fake.hand_out())
    assert (report.transition, report.error_kind) == ("error", "output")
    assert words in report.error


@pytest.mark.parametrize("order", ["cancelled_claims", "killed_claims"])
def test_what_ends_well_under_force_is_reported(fake, run, tmp_path, order):
    run(script(tmp_path, "trap 'echo {\\\"output\\\": {\\\"n\\\": 1}}; exit 0' TERM; echo ready\n"
                         "while :; do sleep 0.1; done"))
    claim = fake.hand_out()
    ready(fake, claim)
    fake.order(**{order: [claim]})
    report = fake.report(claim)
    assert (report.transition, json.loads(report.output)) == ("ok", {"n": 1})


def test_kill_after_comes_before_five_seconds_of_a_kill(fake, run, tmp_path):
    workers = script(tmp_path, away(tmp_path) + STUBBORN)
    run(workers.replace("./run.sh", "{run: ./run.sh, kill_after: 300ms}"))
    claim = fake.hand_out()
    ready(fake, claim)
    [pid] = those_away(tmp_path)
    fake.order(killed_claims=[claim])
    fake.ended(claim, within=2)
    assert not lives(pid)
    assert fake.stages(claim) == [agent.StopReport.SIGNALLED, agent.StopReport.ENDED]


@pytest.mark.timed
def test_a_kill_takes_five_seconds_at_most(fake, run, tmp_path):
    run(script(tmp_path, STUBBORN))
    claim = fake.hand_out()
    ready(fake, claim)
    began = time.monotonic()
    fake.order(cancelled_claims=[claim], finishable_claims=[claim])
    fake.order(killed_claims=[claim])
    fake.ended(claim, within=7)
    assert 4.5 < time.monotonic() - began < 6.5


def test_a_timeout_is_an_error_of_that_kind(fake, run, tmp_path):
    workers = script(tmp_path, "exec sleep 1000")
    run(workers.replace("./run.sh", "{run: ./run.sh, timeout: 300ms}"))
    report = fake.report(fake.hand_out())
    assert (report.transition, report.error_kind) == ("error", "timeout")


def test_an_order_for_what_it_does_not_have_is_done(fake, run, tmp_path):
    run(script(tmp_path, ""))
    eventually(lambda: fake.streams)
    fake.order(killed_claims=["unknown"])
    fake.ended("unknown")


# The stream -----------------------------------------------------------------------------------


def test_a_broken_stream_stops_nothing(fake, run, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    run(script(tmp_path, f"echo ready; read x < {tmp_path}/fifo"))
    claim = fake.hand_out()
    ready(fake, claim)
    fake.answers = False
    streams = len(fake.streams)
    fake.stream.break_off()
    eventually(lambda: len(fake.streams) > streams)
    eventually(lambda: any(one.claim == claim for one in fake.extends))
    assert len({one.session for one in fake.registrations}) == 1
    (tmp_path / "fifo").write_text("x\n")  # its report is not answered on this stream
    eventually(lambda: "exit status 0" in " ".join(fake.lines(claim, agent.LogLine.AGENT)))
    fake.answers = True
    fake.stream.break_off()
    assert fake.report(claim).transition == "ok"


def test_what_is_asked_while_there_is_no_stream_takes_no_answer_of_another(fake, run, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    script(tmp_path, "echo ready; exec sleep 1000", "other.sh")
    script(tmp_path, f"echo ready; read x < {tmp_path}/fifo")
    run("workers: {do: {run: ./run.sh, jobs: 1}, other: ./other.sh}\n", "--jobs", "4")
    first = fake.hand_out()
    ready(fake, first)
    second, other = fake.hand_out(), fake.hand_out("other")
    ready(fake, other)
    fake.stale.add(second)
    fake.refusal = (grpc.StatusCode.UNAVAILABLE, "")
    streams = len(fake.streams)
    fake.stream.break_off()
    (tmp_path / "fifo").write_text("x\n")  # now there is room for the second
    eventually(lambda: "exit status 0" in " ".join(fake.lines(first, agent.LogLine.AGENT)))
    fake.refusal = None
    eventually(lambda: len(fake.streams) > streams)
    assert fake.report(first).transition == "ok"
    third = fake.hand_out()  # what comes later has its own answers, too
    ready(fake, third)
    assert fake.lines(second) == []
    assert not fake.stages(other)
    (tmp_path / "fifo").write_text("x\n")
    assert fake.report(third).transition == "ok"


def test_what_is_refused_after_a_break_is_stopped(fake, run, tmp_path):
    run(script(tmp_path, away(tmp_path) + "echo ready; exec sleep 1000"))
    claim = fake.hand_out()
    ready(fake, claim)
    [pid] = those_away(tmp_path)
    fake.stale.add(claim)
    fake.stream.break_off()
    eventually(lambda: not lives(pid))
    fake.ended(claim)


def test_claims_are_extended_at_a_third(fake, run, tmp_path):
    fake.deadline = 0.6
    run(script(tmp_path, "echo ready; exec sleep 1000"))
    claim = fake.hand_out()
    eventually(lambda: len([one for one in fake.extends if one.claim == claim]) > 5)


def test_the_name_is_taken(fake, run, tmp_path):
    fake.refusal = (grpc.StatusCode.ALREADY_EXISTS, "AGENT_EXISTS")
    one = run(script(tmp_path, ""))
    eventually(lambda: "AGENT_EXISTS" in one.text or "another agent" in one.text)
    fake.refusal = None
    eventually(lambda: fake.streams)


def test_an_evicted_agent_ends(fake, run, tmp_path):
    one = run(script(tmp_path, away(tmp_path) + "sleep 1000"))
    fake.hand_out()
    [pid] = those_away(tmp_path)
    fake.refusal = (grpc.StatusCode.FAILED_PRECONDITION, "AGENT_EVICTED")
    fake.stream.break_off()
    assert one.wait() == 1
    assert not lives(pid)


def test_an_agent_says_why_its_stream_was_ended(fake, run, tmp_path):
    one = run(script(tmp_path, ""))
    eventually(lambda: fake.streams)
    fake.farewell = (grpc.StatusCode.UNAVAILABLE, "PEER_UNREACHABLE")
    fake.stream.break_off()
    eventually(lambda: "the server has ended the stream: no: PEER_UNREACHABLE" in one.text)
    eventually(lambda: len(fake.streams) == 2)
    fake.farewell = (grpc.StatusCode.ALREADY_EXISTS, "AGENT_EXISTS")
    fake.stream.break_off()
    assert one.wait() == 1
    assert "a copy of this process has taken its place" in one.text


def test_sigterm_finishes_what_is_in_hand(fake, run, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    one = run(script(tmp_path, f"echo ready; read x < {tmp_path}/fifo"))
    claim = fake.hand_out()
    ready(fake, claim)
    one.process.terminate()
    eventually(lambda: fake.left)
    (tmp_path / "fifo").write_text("x\n")
    assert fake.report(claim).transition == "ok"
    assert one.wait() == 0


def test_after_the_grace_and_at_a_second_signal_it_gives_back(fake, run, tmp_path):
    one = run(script(tmp_path, "echo ready; exec sleep 1000"), "--grace", "100ms")
    claim = fake.hand_out()
    ready(fake, claim)
    one.process.terminate()
    assert fake.back(claim).reason.startswith("the agent ends")
    assert one.wait() == 0
    fake.left = False
    two = run(script(tmp_path, "echo ready; exec sleep 1000"))
    claim = fake.hand_out()
    ready(fake, claim)
    two.process.send_signal(signal.SIGINT)
    eventually(lambda: fake.left)
    two.process.send_signal(signal.SIGINT)
    fake.back(claim)
    assert two.wait() == 130


def test_once_and_idle_exit(fake, run, tmp_path):
    one = run(script(tmp_path, ""), "--once")
    assert fake.opens[-1].max_tasks == 1
    fake.report(fake.hand_out())
    assert one.wait() == 0
    fake.left = False
    assert run(script(tmp_path, ""), "--idle-exit", "200ms").wait() == 0


def test_it_waits_for_a_server(fake, run, tmp_path):
    fake.stop()
    fake.refusal = ("", "")  # nobody is waited for
    one = run(script(tmp_path, ""))
    eventually(lambda: "no server" in one.text)
    fake.refusal = None
    fake.start()
    eventually(lambda: fake.streams, 10)
    assert fake.report(fake.hand_out()).transition == "ok"


def test_what_it_registers(fake, run, tmp_path):
    run(script(tmp_path, ""), "--jobs", "3", "--capability", "gpu", "--label", "rack=a",
        "--queue", "q", "--begin-within", "5s", "--keep-for", "20s")
    eventually(lambda: fake.opens)
    opened, registered = fake.opens[0], fake.registrations[0]
    assert opened.max_tasks == 3
    assert list(opened.actions) == ["do"] and not opened.packages
    assert {"gpu", "linux"} <= set(opened.capabilities)
    assert list(opened.queues) == ["q"]
    assert (opened.begin_within.seconds, opened.keep_for.seconds) == (5, 20)
    assert registered.name == "h1" and registered.labels["rack"] == "a"
    assert registered.host.cpus > 0 and registered.host.memory > 0 and registered.host.boot_id


def test_it_works_in_its_namespace(fake, run, tmp_path):
    run(script(tmp_path, ""), environment={"DFSMR_NAMESPACE": "acme"})
    eventually(lambda: fake.opens)
    assert fake.opens[0].namespace == "acme"


def test_limits_that_cannot_be_enforced_are_said(fake, run, tmp_path):
    workers = script(tmp_path, "").replace("./run.sh", "{run: ./run.sh, memory: 64MiB}")
    run(workers)
    if "cgroup" in fake.opens[0].capabilities:
        pytest.skip("here they are enforced")
    claim = fake.hand_out()
    assert fake.report(claim).transition == "ok"
    eventually(lambda: any("not limited here" in line
                           for line in fake.lines(claim, agent.LogLine.AGENT)))


def test_check_and_refusals(tmp_path):
    def check(text, *flags):
        (tmp_path / "w.yaml").write_text(text)
        done = subprocess.run([str(DCLI), "agent", "--workers", str(tmp_path / "w.yaml"), "--check",
                               *flags], capture_output=True, text=True, timeout=10)
        return done.returncode, done.stderr
    assert check("workers: {a: 'true'}\n")[0] == 0
    status, text = check("workers: {a: {rnu: x}}\n")
    assert status == 1 and "w.yaml:1:15: workers.a.rnu: unknown key 'rnu'" in text
    assert check("workers: {a: {run: 'true', requires: gpu}}\n")[0] == 2
    assert check("workers: {a: {run: 'true', requires: gpu}}\n", "--capability", "gpu")[0] == 0
    status, text = check("workers: {a: {run: 'true', requires: cgroup}}\n")
    assert status == 2 and "Delegate=yes" in text and "--capability" not in text
    assert check("workers: {a: 'true'}\n", "--jobs", "0x")[0] == 2
    assert check("workers: {a: 'true'}\n", "--action", "b")[0] == 2
    assert check("workers: {a: 'true'}\n", "--wrap", "no-such-program")[0] == 2
    for flags in (["--jobs", "0"], ["--jobs", "-1"], ["--jobs", "1001"], ["--queue", "a b"],
                  ["--queue", ""], ["--action", "a b"], ["--action", "a*"], ["--name", ""],
                  ["--name", "a b"]):
        status, text = check("workers: {'a': 'true'}\n", *flags)
        assert status == 2 and flags[0][2:] in text, (flags, text)
    assert check("workers: {a.b: 'true'}\n", "--action", "a.*", "--queue", "fast")[0] == 0
    # 0 is no number of slots without a file either
    done = subprocess.run([str(DCLI), "agent", "--jobs", "0", "--check"], capture_output=True)
    assert done.returncode == 2


# jobs, wrap, logs -----------------------------------------------------------------------------


def test_of_a_worker_its_jobs_at_once(fake, run, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    workers = script(tmp_path, f"echo ready; read x < {tmp_path}/fifo")
    run(workers.replace("./run.sh", "{run: ./run.sh, jobs: 1}"), "--jobs", "2")
    first, second = fake.hand_out(), fake.hand_out()
    ready(fake, first)
    assert [one.claim for one in fake.begun] == [first]
    (tmp_path / "fifo").write_text("x\n")
    fake.report(first)
    ready(fake, second)
    (tmp_path / "fifo").write_text("x\n")
    fake.report(second)


def test_what_a_worker_has_no_room_for_goes_back(fake, run, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    workers = script(tmp_path, f"echo ready; read x < {tmp_path}/fifo")
    run(workers.replace("./run.sh", "{run: ./run.sh, jobs: 1}"), "--jobs", "3")
    first, second, third = fake.hand_out(), fake.hand_out(), fake.hand_out()
    ready(fake, first)
    for claim in (second, third):
        back = fake.back(claim, 10)
        assert not back.refused  # else its session would not be offered the node for a minute
        assert "has its jobs (1) in hand" in back.reason
    again = fake.hand_out()  # it comes again: it is kept for longer, and begins as soon as it can
    (tmp_path / "fifo").write_text("x\n")
    fake.report(first)
    ready(fake, again)
    (tmp_path / "fifo").write_text("x\n")
    fake.report(again)
    assert [one.claim for one in fake.begun] == [first, again]


def test_wrap_middleware_and_pass_env(fake, run, tmp_path):
    script(tmp_path, 'echo "wrap $1 $2"; exec "$@"', "wrap.sh")
    script(tmp_path, 'echo "audit $1"; exec "$@"', "audit.sh")
    run(script(tmp_path, 'echo "mine $MINE"'), "--wrap", str(tmp_path / "wrap.sh"),
        "--middleware", f"audit={tmp_path / 'audit.sh'}", "--pass-env", "MINE",
        environment={"MINE": "yes"})
    claim = fake.hand_out(middleware=["audit"])
    fake.report(claim)
    eventually(lambda: "mine yes" in fake.lines(claim))
    assert fake.lines(claim) == [f"wrap {tmp_path}/audit.sh /bin/sh", "audit /bin/sh", "mine yes"]
    missing = fake.report(fake.hand_out(middleware=["other"]))
    assert missing.transition == "error" and '"other"' in missing.error


def test_a_flood_of_output_does_not_hold_up_its_command(fake, run, tmp_path):
    fake.held_logs = threading.Event()
    run(script(tmp_path, f"""
echo first; touch {tmp_path}/begun
head -c 40000000 /dev/zero | tr '\\0' x | fold -w 100
echo; echo last"""))
    claim = fake.hand_out()
    eventually(lambda: (tmp_path / "begun").exists())
    began = time.monotonic()
    assert fake.report(claim, within=20).transition == "ok"  # nobody has read a line yet
    assert time.monotonic() - began < 15
    fake.held_logs.set()
    eventually(lambda: "last" in fake.lines(claim)[-3:], 10)
    assert fake.lines(claim)[0] == "first"
    assert fake.left_out > 100_000


# mode: serve ----------------------------------------------------------------------------------

SERVER = """\
import json, sys, os, time
print("starting", os.getpid(), flush=True)
for line in sys.stdin:
    word = json.loads(line)
    if word["type"] == "cancel":
        if os.path.exists("deaf"): continue
        print(json.dumps({"type": "result", "id": word["id"], "transition": "error", "error": "told"}), flush=True)
        continue
    params = word["task"]["nodeParams"]
    if params.get("crash"): os._exit(7)
    if params.get("odd"):
        print(json.dumps({"type": "result", "id": "nine"}), flush=True)
        print(json.dumps({"type": "progress", "id": word["id"], "progress": 7}), flush=True)
    if params.get("hold"):
        print("held", flush=True)
        continue
    print(json.dumps({"type": "progress", "id": word["id"], "progress": 0.5}), flush=True)
    print(json.dumps({"type": "result", "id": word["id"], "output": {"pid": os.getpid()}}), flush=True)
"""


def serving(tmp_path, keys=""):
    (tmp_path / "serve.py").write_text(SERVER)
    return f"workers: {{do: {{run: [python3, serve.py], mode: serve{keys}}}}}\n"


def pid_of(report):
    return json.loads(report.output)["pid"]


def test_one_process_serves_many_tasks(fake, run, tmp_path):
    one = run(serving(tmp_path, ", tasks: 3"), "--jobs", "1")
    pids = [pid_of(fake.report(fake.hand_out())) for _ in range(4)]
    assert pids[0] == pids[1] == pids[2] != pids[3]
    eventually(lambda: not lives(pids[0]))
    one.process.terminate()
    assert one.wait() == 0
    assert not lives(pids[3])


def test_the_log_of_a_served_task_has_its_begin_and_its_end(fake, run, tmp_path):
    run(serving(tmp_path), "--jobs", "1")
    for number in (1, 2):
        claim = fake.hand_out()
        pid = pid_of(fake.report(claim))
        lines = eventually(lambda: (fake.lines(claim, agent.LogLine.AGENT)
                                    if len(fake.lines(claim, agent.LogLine.AGENT)) == 2 else None))
        assert lines[0] == f"begun by the process that serves it, pid {pid}, as its task {number}"
        assert re.fullmatch(r"ended with the transition ok, \d+\.\ds", lines[1])
        assert fake.logs[claim][0][2] == lines[0]
    crash = fake.hand_out(node_params='{"crash": true}')
    fake.report(crash)
    eventually(lambda: fake.lines(crash, agent.LogLine.AGENT)[1:])
    assert "exit status 7" in fake.lines(crash, agent.LogLine.AGENT)[1]


def test_what_a_serving_process_says_that_is_odd_is_in_the_log(fake, run, tmp_path):
    run(serving(tmp_path))
    claim = fake.hand_out(node_params='{"odd": true}')
    assert fake.report(claim).transition == "ok"
    lines = eventually(lambda: (fake.lines(claim, agent.LogLine.AGENT)
                                if len(fake.lines(claim, agent.LogLine.AGENT)) == 4 else None))
    assert lines[1] == 'a result of no task in the hands of this process, id "nine"'
    assert lines[2].startswith("a progress line of the process that serves it is not understood")
    assert not any("DFSMR_PROGRESS" in line for line in lines)


def test_a_serving_process_ends_when_idle(fake, run, tmp_path):
    run(serving(tmp_path, ", idle: 200ms"))
    pid = pid_of(fake.report(fake.hand_out()))
    eventually(lambda: not lives(pid))


def test_tasks_in_hand_of_a_serving_process_that_exits_have_crashed(fake, run, tmp_path):
    run(serving(tmp_path, ", concurrency: 2"), "--jobs", "2")
    held = fake.hand_out(node_params='{"hold": true}')
    eventually(lambda: "held" in fake.lines(held))
    crash = fake.hand_out(node_params='{"crash": true}')
    for claim in (held, crash):
        report = fake.report(claim)
        assert (report.transition, report.error_kind) == ("error", "crashed")
        assert "exit status 7" in report.error


def test_a_served_task_is_cancelled_by_a_word_or_with_its_process(fake, run, tmp_path):
    run(serving(tmp_path, ", concurrency: 2, kill_after: 300ms"), "--jobs", "2")
    first = fake.hand_out(node_params='{"hold": true}')
    eventually(lambda: "held" in fake.lines(first))
    fake.order(cancelled_claims=[first], finishable_claims=[first])
    assert fake.report(first).error == "told"
    (tmp_path / "deaf").touch()
    second = fake.hand_out(node_params='{"hold": true}')
    other = fake.hand_out(node_params='{"hold": true}')
    eventually(lambda: fake.lines(second).count("held") == 2)
    fake.order(cancelled_claims=[second], finishable_claims=[second])
    assert fake.back(second).reason.startswith("cancelled: ")
    back = fake.back(other)
    assert "another task" in back.reason and not back.refused


def test_served_tasks_that_time_out_together_are_errors_of_that_kind(fake, run, tmp_path):
    (tmp_path / "deaf").touch()
    run(serving(tmp_path, ", concurrency: 3, timeout: 500ms, kill_after: 300ms"))
    claims = [fake.hand_out(node_params='{"hold": true}') for _ in range(2)]
    for claim in claims:
        report = fake.report(claim)
        assert (report.transition, report.error_kind) == ("error", "timeout")
    assert not fake.given_back


def test_a_served_task_takes_no_middleware(fake, run, tmp_path):
    run(serving(tmp_path))
    report = fake.report(fake.hand_out(middleware=["audit"]))
    assert report.transition == "error" and '"audit"' in report.error


def test_an_empty_handler_is_fast(fake, run, tmp_path):
    run(serving(tmp_path), "--jobs", "8")
    eventually(lambda: fake.streams)
    fake.report(fake.hand_out())
    count = 2_000
    tasks = [fake.task() for _ in range(count)]
    began = time.monotonic()
    fake.stream.send(work=v1.WorkResponse(tasks=tasks))
    eventually(lambda: len(fake.reports) > count, 30)
    print(f"{count / (time.monotonic() - began):.0f} tasks a second")


# What people ask ------------------------------------------------------------------------------


def dcli(fake, *words):
    done = subprocess.run([str(DCLI), "--server", f"127.0.0.1:{fake.port}", *words],
                          capture_output=True, text=True, timeout=40,
                          env={**os.environ, "no_proxy": "127.0.0.1"})
    return done.returncode, done.stdout, done.stderr


def test_agents_are_listed_shown_drained_and_evicted(fake):
    status, out, _ = dcli(fake, "agents", "--state", "active", "--capability", "linux",
                          "--label", "rack=a")
    assert status == 0
    assert out.splitlines()[0].split() == ["AGENT", "STATE", "SLOTS", "CAPABILITIES", "PACKAGES",
                                           "VERSION", "SEEN"]
    assert out.splitlines()[1].split()[:6] == ["h1", "ACTIVE", "2/8", "amd64,linux", "*", "1.0.0"]
    assert fake.listing.state == agent.Agent.ACTIVE
    assert list(fake.listing.capabilities) == ["linux"] and fake.listing.labels["rack"] == "a"
    assert dcli(fake, "agents", "list", "-o", "name")[1] == "h1\n"
    assert json.loads(dcli(fake, "agents", "-o", "json")[1])["agents"][0]["name"] == "h1"
    status, out, _ = dcli(fake, "agents", "show", "h1")
    assert status == 0 and "no disk" in out and "m v2/n" in out
    status, _, err = dcli(fake, "agents", "show", "h9")
    assert status == 1 and "NO_SUCH_AGENT" in err and "dcli agents lists" in err
    fake.in_hands = 3
    assert dcli(fake, "agents", "drain", "h1", "--reason", "disk", "--wait")[0] == 0
    assert fake.in_hands == 0 and fake.drained
    assert dcli(fake, "agents", "undrain", "h1")[0] == 0 and not fake.drained
    assert "given back 2  kept 1" in dcli(fake, "agents", "evict", "h1")[1]
    assert dcli(fake, "agents", "drain")[0] == 2
    assert dcli(fake, "agents", "evict", "h1", "--wait")[0] == 2


def test_ps_tells_what_runs_where(fake):
    fake.operations = 1
    status, out, _ = dcli(fake, "ps", "site-7")
    header, row = out.splitlines()
    assert header.split() == ["INSTANCE", "STEP", "ATTEMPT", "AGENT", "SINCE", "PROGRESS", "NOTE",
                              "ORDER"]
    assert row.split()[:4] == ["site-7", "build", "1", "h1"]
    assert "40 %" in row and "3 of 7 done" in row and "leftover" in row
    status, out, err = dcli(fake, "ps")
    assert (status, out) == (0, "") and err


def test_cancel_kill_waits_until_nothing_is_left(fake):
    fake.operations = 3
    status, _, err = dcli(fake, "cancel", "site-7", "--kill")
    assert status == 0 and fake.operations == 0
    assert "build on h1 (attempt 1): no process of it is left" in err
    fake.operations = 3
    assert dcli(fake, "cancel", "site-7", "--kill", "--no-wait")[0] == 0
    assert fake.operations == 3


def test_work_has_capabilities_and_sends_logs(fake):
    fake.polled = [fake.task()]
    status, out, _ = dcli(fake, "work", "--once", "--capability", "gpu", "--logs", "--", "sh", "-c",
                          "echo to out; echo to err >&2; "
                          "echo '{\"transition\": \"error\", \"error_kind\": \"k\", \"fatal\": true, "
                          "\"retry_after\": \"30s\", \"checkpoint\": {\"n\": 1}}'")
    assert status == 0
    assert list(fake.opens[0].capabilities) == ["gpu"]
    assert fake.lines("c1")[0] == "to out" and "to out" in out
    assert fake.lines("c1", agent.LogLine.ERR) == ["to err"]
    [report] = fake.reports
    assert (report.error_kind, report.fatal, report.retry_after.seconds) == ("k", True, 30)
    assert report.checkpoint == '{"n": 1}'
