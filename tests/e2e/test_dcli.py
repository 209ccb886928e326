"""dcli: every command, its output for people and programs, its exit status, and `work`."""
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import threading

import pytest
import yaml
from google.protobuf import json_format

from stubs import v1
from support import (CALL, DCLI, HASTY, JOB, ONCE, PAIR, SOON, Cli, eventually, free_port,
                     from_json, kind, now, only, result, seconds, state, timestamp, token_state)

BROKEN = JOB.replace("ok: done", "ok: nowhere")
ESCAPE = "\x1b"
COMMANDS = ["define", "check", "machines", "graph", "start", "instances", "show", "history",
            "ready", "transition", "relinquish", "extend", "changes", "work", "pause", "resume",
            "skip", "cancel", "completion"]


def message(text, kind_of):
    """Text in proto3 JSON mapping; fails on a field that the message does not have."""
    return json_format.Parse(text, kind_of())


def lines(text):
    return text.splitlines()


def strings(value):
    """JSON with its scalars as text, to be compared with YAML read the same way."""
    if isinstance(value, dict):
        return {key: strings(item) for key, item in value.items()}
    if isinstance(value, list):
        return [strings(item) for item in value]
    return json.dumps(value) if isinstance(value, bool) else str(value)


def check_failure(done, status, *mentions):
    assert done.returncode == status, f"{done.returncode}: {done.stderr}{done.stdout}"
    assert done.stderr.startswith("dcli: "), done.stderr
    for mention in mentions:
        assert mention in done.stderr, f"{mention!r} is not named: {done.stderr}"


@pytest.fixture
def job(space):
    """An instance of a defined machine."""
    space.define(JOB)
    return space.start("job", id="the-job", params={"url": "x"})


class Output:
    """Reads what a process prints while it runs."""

    def __init__(self, process):
        self.process = process
        self.lines = []
        self.condition = threading.Condition()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            with self.condition:
                self.lines.append(line.rstrip("\n"))
                self.condition.notify_all()

    def until(self, predicate, within=SOON):
        with self.condition:
            assert self.condition.wait_for(lambda: any(map(predicate, self.lines)), within), \
                self.lines
            return [line for line in self.lines if predicate(line)][0]


@pytest.fixture
def background(dcli):
    """Starts dcli and leaves it running; ends it when the test does."""
    processes = []

    def run(*arguments, **more):
        processes.append(dcli.background(*arguments, **more))
        return processes[-1]

    yield run
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait(SOON)
        process.stdout.close()
        process.stderr.close()


def interrupt(process):
    process.send_signal(signal.SIGINT)


def exit_status(process, within=CALL):
    return process.wait(within)


# define ---------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "machines" / "deep").mkdir(parents=True)
    (tmp_path / "machines" / "job.yaml").write_text(JOB)
    (tmp_path / "machines" / "deep" / "pair.yml").write_text(PAIR)
    (tmp_path / "machines" / "notes.txt").write_text("no machine: [")
    (tmp_path / "machines" / "workers.yaml").write_text("workers: {job.work: ./run.sh}\n")
    return tmp_path


def test_define_prints_each_id_version_and_whether_it_changed(dcli, folder):
    first = dcli.ok("define", "machines/job.yaml", cwd=folder)
    assert re.search(r"\bjob\b.*\bv1\b", first)
    again = dcli.ok("define", "machines/job.yaml", cwd=folder)
    assert re.search(r"\bjob\b.*\bv1\b", again) and again != first
    (folder / "machines" / "job.yaml").write_text(JOB + "description: new\n")
    assert re.search(r"\bjob\b.*\bv2\b", dcli.ok("define", "machines/job.yaml", cwd=folder))


def test_define_says_new_changed_or_unchanged(dcli, tmp_path):
    def define(text, *flags):
        (tmp_path / "it.yaml").write_text(text)
        return dcli.ok("define", "it.yaml", *flags, cwd=tmp_path)

    action, plan = "action: vm\nqueue: fast\n", "plan: site\nflow: [{step: a, action: vm}]\n"
    assert define(JOB, "--dry-run") == "machine job  v1  new\n"
    assert define(JOB) == "machine job  v1  new\n"
    assert define(JOB) == "machine job  v1  unchanged\n"
    assert define(f"{action}---\n{plan}") == "action vm  v1  new\nplan site  v1  new\n"
    action = action.replace("fast", "slow")
    assert define(action) == "action vm  v2  changed  (continue: old instances go on)\n"


def test_define_for_programs(dcli, folder):
    defined = only(message(dcli.ok("-o", "json", "define", "machines/job.yaml", cwd=folder),
                           v1.DefineResponse).defined)
    assert (defined.id, defined.version, defined.changed) == ("job", 1, True)
    assert dcli.ok("-o", "name", "define", "machines/job.yaml", cwd=folder) == "job\n"


def test_define_takes_folders_recursively_and_only_their_yaml(dcli, space, folder):
    dcli.ok("define", "machines", cwd=folder)
    assert {m.id for m in space.machines().machines} == {"job", "pair"}


def test_define_takes_several_files_and_standard_input(dcli, space, folder):
    dcli.ok("define", "machines/job.yaml", "machines/deep/pair.yml", cwd=folder)
    dcli.ok("define", "-", input=ONCE)
    assert {m.id for m in space.machines().machines} == {"job", "pair", "once"}


def test_define_takes_files_in_any_order(dcli, space, tmp_path):
    (tmp_path / "0.yaml").write_text("action: child\nextends: parent\n")
    (tmp_path / "1.yaml").write_text("plan: p\nflow: [{step: a, plan: q}]\n")
    (tmp_path / "2.yaml").write_text("action: parent\nqueue: slow\n")
    (tmp_path / "3.yaml").write_text("plan: q\nflow: [{step: b, action: child}]\n")
    (tmp_path / "4.yaml").write_text("action: orphan\nextends: nobody\n")
    done = dcli("define", tmp_path)
    check_failure(done, 1, "1 file of 5", "nobody")
    assert done.stderr.count("4.yaml") == 1 and "0.yaml" not in done.stderr
    assert {m.id for m in space.machines().machines} == {"child", "p", "parent", "q"}


def test_define_dry_run_changes_nothing(dcli, space, folder):
    assert "job" in dcli.ok("define", "machines/job.yaml", "--dry-run", cwd=folder)
    assert not space.machines().machines


def test_a_dry_run_takes_what_define_takes(dcli, space, tmp_path):
    (tmp_path / "a.yaml").write_text("plan: outer\nflow: [{step: s, plan: inner}]\n")
    (tmp_path / "b.yaml").write_text("plan: inner\nflow: [{step: t, action: x}]\n")
    (tmp_path / "c.yaml").write_text("plan: other\nflow: [{step: s, plan: nowhere}]\n")
    dry = dcli("define", tmp_path, "--dry-run")
    assert dry.returncode == 1
    assert "1 file of 3 refused" in dry.stderr and "c.yaml:2:24: " in dry.stderr, dry.stderr
    assert sorted(lines(dry.stdout)) == ["plan inner  v1  new", "plan outer  v1  new"]
    assert "a.yaml:2:24" not in dry.stderr
    assert not space.machines().machines
    (tmp_path / "c.yaml").unlink()
    assert dcli.ok("define", tmp_path, "--dry-run").count("new") == 2
    assert dcli.ok("define", tmp_path).count("new") == 2


def test_define_names_files_that_cannot_be_sent_and_goes_on(dcli, space, tmp_path):
    (tmp_path / "a.yaml").write_text(JOB)
    (tmp_path / "b.yaml").write_bytes("id: b\ndescription: Prüfung\n".encode("latin-1"))
    (tmp_path / "c.yaml").write_text("# " + "x" * 5_000_000)
    (tmp_path / "d.yaml").write_text(PAIR)
    check_failure(dcli("define", tmp_path), 1, "2 files of 4 refused",
                  "b.yaml:2:16: .: not UTF-8", "c.yaml:1:1: .: the source has 5000002 bytes")
    assert {m.id for m in space.machines().machines} == {"job", "pair"}
    check_failure(dcli("start", "--flow", tmp_path / "b.yaml"), 2, "b.yaml:2:16: .: not UTF-8")


def test_a_file_may_have_any_name(dcli, space, tmp_path):
    path = os.fsencode(tmp_path) + b"/gr\xfc\xdfe.yaml"
    with open(path, "w", encoding="utf-8") as file:
        file.write(JOB)
    dcli.ok("check", os.fsdecode(path))
    dcli.ok("define", os.fsdecode(path))
    assert {m.id for m in space.machines().machines} == {"job"}
    with open(path, "w", encoding="utf-8") as file:
        file.write(BROKEN)
    check_failure(dcli("define", tmp_path), 1, "gr\\xfc\\xdfe.yaml:3:", "nowhere")


def test_what_folders_hold_besides_is_left_out_and_said(offline, folder):
    machines = folder / "machines"
    done = offline("check", "machines", cwd=folder)
    assert (done.returncode, len(lines(done.stdout))) == (0, 2)
    assert done.stderr == ("dcli: left out machines/workers.yaml: what workers run, for dcli "
                           "agent\n")
    (machines / "workers.yaml").write_text(ONCE)
    (machines / "deep" / "package.yaml").write_text("package: p\nversion: 1.0.0\n")
    done = offline("check", "machines", cwd=folder)
    assert {line.split()[0] for line in lines(done.stdout)} == {"job", "once"}
    assert done.stderr == ("dcli: left out machines/deep: a package, which dcli package check "
                           "reads\n")
    (machines / "deep" / "package.yaml").write_text(HASTY)
    assert len(lines(offline.ok("check", "machines", cwd=folder))) == 4
    check_failure(offline("check", "none", cwd=folder), 2, "none")


def test_define_shows_the_errors_of_a_file_by_line(dcli, space, tmp_path):
    (tmp_path / "broken.yaml").write_text(BROKEN)
    check_failure(dcli("define", "broken.yaml", cwd=tmp_path), 1, "broken.yaml:3:", "nowhere")
    assert not space.machines().machines


def test_a_folder_defines_each_id_once(dcli, offline, space, tmp_path):
    (tmp_path / "a.yaml").write_text(JOB)
    (tmp_path / "b.yaml").write_text(PAIR)
    (tmp_path / "copy.yaml").write_text("# As it was.\n" + JOB)
    twice = ("./a.yaml:1:5: id: machine 'job' is defined in ./copy.yaml:2, too; keep one, or "
             "rename the other",
             "./copy.yaml:2:5: id: machine 'job' is defined in ./a.yaml:1, too; keep one, or "
             "rename the other")
    check_failure(dcli("define", ".", cwd=tmp_path), 1, "2 files of 3 refused", *twice)
    check_failure(dcli("define", "--dry-run", ".", cwd=tmp_path), 1, "2 files of 3", *twice)
    check_failure(offline("check", ".", cwd=tmp_path), 1, "2 files of 3 have errors", *twice)
    assert {m.id for m in space.machines().machines} == {"pair"}
    # Files that are named are sources of their own.
    dcli.ok("define", "a.yaml", "copy.yaml", cwd=tmp_path)


def test_define_of_a_file_that_cannot_be_read_is_bad_usage(dcli, tmp_path):
    check_failure(dcli("define", "missing.yaml", cwd=tmp_path), 2, "missing.yaml")


# check ----------------------------------------------------------------------------------------


@pytest.fixture
def offline():
    return Cli(f"127.0.0.1:{free_port()}", "default")


def test_check_needs_no_server(offline, folder):
    offline.ok("check", "machines", cwd=folder)
    offline.ok("check", "machines/job.yaml", "machines/deep/pair.yml", cwd=folder)


def test_check_finds_the_same_errors_as_define(dcli, offline, folder):
    (folder / "machines" / "broken.yaml").write_text(BROKEN + "nodez: 1\n")
    checked = offline("check", "machines/broken.yaml", cwd=folder)
    defined = dcli("define", "machines/broken.yaml", cwd=folder)
    assert checked.returncode == 1

    def errors(done):
        return sorted(set(re.findall(r"machines/broken\.yaml:\d+:\d+: .*",
                                     done.stdout + done.stderr)))

    assert len(errors(checked)) >= 2
    assert errors(checked) == errors(defined)
    assert offline("check", "machines", cwd=folder).returncode == 1


def test_check_lets_warnings_pass(offline, tmp_path):
    (tmp_path / "forever.yaml").write_text(
        "id: forever\nnodes:\n  on: {start: true, transitions: {tick: on}}\n")
    done = offline("check", "forever.yaml", cwd=tmp_path)
    assert done.returncode == 0
    assert "forever.yaml:" in done.stdout + done.stderr


def test_check_and_define_warn_of_actions_without_a_document(dcli, offline, tmp_path):
    (tmp_path / "a.yaml").write_text("plan: p\nflow:\n  - {step: a, action: vm.craete}\n"
                                     "  - {step: b, action: vm.create}\n")
    (tmp_path / "b.yaml").write_text("action: vm.create\n")
    warning = (f"{tmp_path}/a.yaml:3:5: flow[0]: warning: action 'vm.craete' is not defined "
               "(did you mean 'vm.create'?); the step has the defaults\n")
    done = offline("check", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, warning)
    dcli.ok("define", f"{tmp_path}/b.yaml")
    done = dcli("define", "--dry-run", f"{tmp_path}/a.yaml")
    assert done.returncode == 0
    assert warning in done.stderr


def test_check_of_a_file_that_cannot_be_read_is_bad_usage(offline, tmp_path):
    check_failure(offline("check", "missing.yaml", cwd=tmp_path), 2, "missing.yaml")


# machines, graph ------------------------------------------------------------------------------


def test_machines_lists_them(dcli, space):
    space.define(JOB + "---\n" + PAIR)
    out = dcli.ok("machines")
    assert re.search(r"^job\b", out, re.M) and re.search(r"^pair\b", out, re.M)
    listed = message(dcli.ok("-o", "json", "machines"), v1.ListMachinesResponse)
    assert {m.id for m in listed.machines} == {"job", "pair"}
    assert sorted(lines(dcli.ok("-o", "name", "machines"))) == ["job", "pair"]


def test_machines_with_an_id_describes_it(dcli, job):
    out = dcli.ok("machines", "job")
    for word in ("work", "done", "failed", "p50", "p95"):
        assert word.lower() in out.lower()
    machine = message(dcli.ok("-o", "json", "machines", "job"), v1.Machine)
    assert machine.id == "job" and {"work", "done", "failed"} <= {n.id for n in machine.nodes}
    check_failure(dcli("machines", "nowhere"), 1, "nowhere")


@pytest.mark.parametrize("format, start", [
    ("mermaid", r"(stateDiagram|graph|flowchart)"), ("dot", r"digraph"), ("svg", r"(<\?xml|<svg)")])
def test_graph_draws_a_machine_a_file_and_an_instance(dcli, offline, job, tmp_path, format, start):
    (tmp_path / "job.yaml").write_text(JOB)
    for drawn in (dcli.ok("graph", "job", "--format", format),
                  dcli.ok("graph", job, "--format", format),
                  offline.ok("graph", "job.yaml", "--format", format, cwd=tmp_path)):
        assert re.search(start, drawn)
        for word in ("work", "done", "failed", "ok", "error"):
            assert word in drawn
    if format == "svg":
        assert drawn.rstrip().endswith("</svg>")


def test_graph_of_what_is_not_there_is_refused(dcli):
    check_failure(dcli("graph", "nowhere"), 1, "nowhere")


# start ----------------------------------------------------------------------------------------


def test_start_starts_an_instance(dcli, space):
    space.define(JOB)
    out = dcli.ok("start", "job", "--id", "mine")
    assert "mine" in out
    assert state(space.get("mine")) == "RUNNING"
    reply = message(dcli.ok("-o", "json", "start", "job"), v1.StartResponse)
    assert reply.created and reply.instance.machine == "job"
    id = dcli.ok("-o", "name", "start", "job").strip()
    assert space.get(id).id == id


@pytest.mark.parametrize("arguments, params", [
    (["url=http://x?a=b"], {"url": "http://x?a=b"}),
    (["n=5"], {"n": "5"}),
    (["n:=1e400"], {"n": float("inf")}),  # as Python reads it
    (["n:=5", "l:=[1, 2]", "o:={\"x\":null}", "b:=true"],
     {"n": 5, "l": [1, 2], "o": {"x": None}, "b": True}),
    (["--params", '{"a": 1, "b": 2}'], {"a": 1, "b": 2}),
    (["--params", '{"a": 1, "b": 2}', "b=three", "c:=4"], {"a": 1, "b": "three", "c": 4}),
    (["empty="], {"empty": ""}),
    ([], {}),
])
def test_start_takes_params(dcli, space, arguments, params):
    space.define(JOB)
    id = dcli.ok("-o", "name", "start", "job", *arguments).strip()
    assert from_json(space.get(id).params) == params


def test_start_keeps_numbers_as_they_are_written(dcli, space):
    space.define(JOB)
    id = dcli.ok("-o", "name", "start", "job", "--params",
                 '{"a": 12345678901234567890, "b": 1.10}').strip()
    assert "12345678901234567890" in space.get(id).params and "1.10" in space.get(id).params


def test_start_takes_priority_labels_and_times(dcli, space):
    space.define(JOB)
    began = now()
    id = dcli.ok("-o", "name", "start", "job", "--priority", "7", "--label", "team=a",
                 "--label", "zone=b", "--at", "+1h", "--before", "2099-01-01T03:04:05Z").strip()
    instance = space.get(id)
    assert (instance.priority, dict(instance.labels)) == (7, {"team": "a", "zone": "b"})
    assert state(instance) == "SCHEDULED"
    assert abs(seconds(instance.start_at) - began - 3600) < SOON
    assert instance.start_before == timestamp(4070919845)


def test_start_count_starts_as_many(dcli, space):
    space.define(JOB)
    ids = lines(dcli.ok("-o", "name", "start", "job", "--count", "5"))
    assert len(set(ids)) == 5
    replies = lines(dcli.ok("-o", "json", "start", "job", "--count", "3"))
    assert len({message(line, v1.StartResponse).instance.id for line in replies}) == 3
    assert len(space.instances().instances) == 8


@pytest.mark.parametrize("transition, status", [("ok", 0), ("error", 1)])
def test_start_wait_follows_it_to_its_end(space, background, transition, status):
    space.define(JOB)
    process = background("start", "job", "--id", "mine", "--wait")
    space.report(space.take("job"), transition)
    assert exit_status(process) == status


@pytest.mark.parametrize("transition, status", [("ok", 0), ("error", 1)])
def test_start_wait_of_what_has_ended_already_ends_at_once(dcli, space, transition, status):
    space.define(JOB)
    space.start("job", id="mine")
    space.report(space.take("job"), transition)
    assert dcli("start", "job", "--id", "mine", "--wait").returncode == status


def test_start_wait_of_a_cancelled_instance_fails(space, background):
    space.define(JOB)
    process = background("start", "job", "--id", "mine", "--wait")
    eventually(lambda: space.instances().instances)
    space.cancel("mine")
    assert exit_status(process) == 1


def test_start_wait_ends_with_130_on_ctrl_c(space, background):
    space.define(JOB)
    process = background("start", "job", "--id", "mine", "--wait")
    eventually(lambda: space.instances().instances)
    interrupt(process)
    assert exit_status(process) == 130
    assert state(space.get("mine")) == "RUNNING"


def test_start_of_what_is_not_there_is_refused(dcli):
    check_failure(dcli("start", "nowhere"), 1, "nowhere")


@pytest.mark.parametrize("arguments", [
    [], ["job", "n:=[1"], ["job", "--params", "{"], ["job", "--params", "[1]"],
    ["job", "--at", "tomorrow"], ["job", "--priority", "high"], ["job", "novalue"],
    ["job", "--label", "novalue"], ["job", "--count", "many"]])
def test_start_with_bad_usage(dcli, space, arguments):
    space.define(JOB)
    assert dcli("start", *arguments).returncode == 2
    assert not space.instances().instances


# instances, show, history ---------------------------------------------------------------------


@pytest.mark.parametrize("arguments, expected", [
    ([], {"a", "b", "c"}),
    (["--machine", "pair"], {"a", "b"}),
    (["--node", "second"], {"b"}),
    (["--state", "stopped"], {"c"}),
    (["--state", "STOPPED"], {"c"}),
    (["--result", "Error"], {"c"}),
    (["--result", "success"], set()),
    (["--label", "k=1"], {"a"}),
    (["--machine", "pair", "--state", "running", "--node", "first"], {"a"}),
])
def test_instances_lists_what_the_filters_let_through(dcli, space, arguments, expected):
    space.define(PAIR + "---\n" + JOB)
    space.start("pair", id="a", labels={"k": "1"})
    space.transition(space.start("pair", id="b", labels={"k": "2"}), "ok")
    space.transition(space.start("job", id="c"), "error")
    listed = message(dcli.ok("-o", "json", "instances", *arguments), v1.ListInstancesResponse)
    assert {i.id for i in listed.instances} == expected
    assert set(lines(dcli.ok("-o", "name", "instances", *arguments))) == expected
    table = dcli.ok("instances", *arguments)
    assert all(re.search(rf"^{id}\b", table, re.M) for id in expected)
    wide = dcli.ok("-o", "wide", "instances", *arguments)
    assert all(re.search(rf"^{id}\b", wide, re.M) for id in expected)


def test_instances_may_be_limited_and_go_beyond_a_page(dcli, space):
    space.define(JOB)
    space.start_many("job", 1200)
    assert len(lines(dcli.ok("-o", "name", "instances", "--limit", "3"))) == 3
    assert len(set(lines(dcli.ok("-o", "name", "instances", "--limit", "1150")))) == 1150


def test_an_unknown_state_is_bad_usage(dcli):
    check_failure(dcli("instances", "--state", "sleeping"), 2, "sleeping")


def test_show_shows_one_instance(dcli, space, job):
    assert "the-job" in dcli.ok("show", job) and "work" in dcli.ok("show", job)
    assert message(dcli.ok("-o", "json", "show", job), v1.Instance) == space.get(job)
    check_failure(dcli("show", "ghost"), 1, "ghost")


def test_history_shows_all_that_happened(dcli, space, job):
    space.transition(job, "ok", client="me")
    told = message(dcli.ok("-o", "json", "history", job), v1.GetHistoryResponse)
    assert list(told.changes) == space.history(job)
    out = dcli.ok("history", job)
    assert "work" in out and "done" in out and "ok" in out
    check_failure(dcli("history", "ghost"), 1, "ghost")


# ready, transition, relinquish, extend --------------------------------------------------------


def test_ready_prints_nothing_when_there_is_no_work(dcli, space):
    space.define(JOB)
    assert dcli.ok("ready") == ""
    assert dcli.ok("ready", "job", "work", "--wait", "200ms") == ""
    assert dcli.json("ready", "job") == {}


def test_ready_claims_work(dcli, space, job):
    task = only(message(dcli.ok("-o", "json", "ready", "job", "work", "--worker", "me"),
                        v1.ReadyResponse).tasks)
    assert (task.instance, task.node, task.attempt) == (job, "work", 1)
    assert only(space.token(job).claims).worker == "me"
    space.report(task)


def test_ready_names_what_a_person_needs(dcli, job):
    out = dcli.ok("ready", "job")
    assert job in out and "work" in out


def test_ready_json_is_the_proto3_mapping(dcli, job):
    task = only(dcli.json("ready")["tasks"])
    assert task["instance"] == job and task["instanceParams"] == '{"url": "x"}'
    assert task["visit"] == "1" and task["attempt"] == 1
    assert "event" not in task and "phase" not in task


def test_ready_filters_counts_and_waits(dcli, space, background):
    space.define("""\
id: m
nodes:
  a: {start: true, action: render, queue: gpu, transitions: {ok: z}}
  z: {final: true}
""")
    space.start_many("m", 5)
    assert dcli.ok("ready", "--action", "other") == "" == dcli.ok("ready", "--queue", "default")
    assert len(lines(dcli.ok("-o", "name", "ready", "--action", "render", "--max", "2"))) == 2
    assert len(lines(dcli.ok("-o", "name", "ready", "--queue", "gpu", "--max", "9"))) == 3
    waiting = background("-o", "name", "ready", "m", "--wait", "30s")
    id = space.start("m")
    assert exit_status(waiting) == 0
    assert waiting.stdout.read().strip() == id


def test_waiting_for_work_ends_with_130_on_ctrl_c(space, background):
    space.define(JOB)
    process = background("ready", "job", "--wait", "1m", "--worker", "waiting")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    interrupt(process)
    assert exit_status(process) == 130
    id = space.start("job")
    assert space.take("job").instance == id


def test_transition_reports(dcli, space):
    space.define(PAIR)
    id = space.start("pair")
    out = dcli.ok("transition", id, "ok", "a=text", "n:=5")
    assert "second" in out
    task = space.take("pair", "second")
    assert from_json(task.node_params) == {"a": "text", "n": 5}
    reply = message(dcli.ok("-o", "json", "transition", id, "back", "--claim", task.claim,
                            "--output", '{"o": 1}', "--error", "not yet"), v1.TransitionResponse)
    assert (reply.prev_node, reply.node) == ("second", "first")
    assert from_json(space.get(id).outputs["second"]) == {"o": 1}
    assert dcli.ok("-o", "name", "transition", id, "ok", "--node", "first") == "second\n"


def test_transition_that_is_refused(dcli, space, job):
    check_failure(dcli("transition", job, "sideways"), 1, "sideways", "ok", "error")
    check_failure(dcli("transition", "ghost", "ok"), 1, "ghost")
    check_failure(dcli("transition", job, "ok", "--output", "{"), 2)
    assert space.token(job).visit == 1


def test_relinquish_gives_back(dcli, space, job):
    task = space.take("job")
    dcli.ok("relinquish", job, "--claim", task.claim)
    again = only(space.ready("job"))
    assert again.attempt == 2
    reply = message(dcli.ok("-o", "json", "relinquish", job), v1.RelinquishResponse)
    assert (reply.instance, reply.node) == (job, "work")
    check_failure(dcli("relinquish", job, "--claim", task.claim), 1, job)


def test_extend_moves_the_deadline_out(dcli, space, job):
    task = space.take("job")
    began = now()
    dcli.ok("extend", job, "--claim", task.claim, "--by", "1h")
    assert abs(seconds(only(space.token(job).claims).deadline) - began - 3600) < SOON
    item = only(message(dcli.ok("-o", "json", "extend", job, "--claim", task.claim),
                        v1.ExtendResponse).items)
    assert seconds(item.deadline) >= began + 3599
    space.report(task)
    check_failure(dcli("extend", job, "--claim", task.claim), 1)
    check_failure(dcli("extend", job), 2, "--claim")


# changes --------------------------------------------------------------------------------------


def test_changes_prints_one_change_a_line(dcli, space, job):
    space.transition(job, "ok")
    told = [message(line, v1.Change)
            for line in lines(dcli.ok("-o", "json", "changes", "--after", "0", "--no-follow"))]
    assert told == space.changes("0")[0]
    table = dcli.ok("changes", "--after", "0", "--no-follow")
    assert job in table and "work" in table and "done" in table
    assert dcli.ok("changes", "--no-follow") == ""


@pytest.mark.parametrize("arguments, kinds", [
    (["--kind", "started"], ["STARTED", "STARTED"]),
    (["--kind", "Transitioned"], ["TRANSITIONED"]),
    (["--kind", "STARTED", "--kind", "defined"], ["DEFINED", "DEFINED", "STARTED", "STARTED"]),
    (["--machine", "pair"], ["DEFINED", "STARTED", "TRANSITIONED"]),
    (["--instance", "p"], ["STARTED", "TRANSITIONED"]),
])
def test_changes_may_be_filtered(dcli, space, arguments, kinds):
    space.define(JOB + "---\n" + PAIR)
    space.start("job", id="j")
    space.start("pair", id="p")
    space.transition("p", "ok")
    out = dcli.ok("-o", "json", "changes", "--after", "0", "--no-follow", *arguments)
    assert [kind(message(line, v1.Change)) for line in lines(out)] == kinds


def test_changes_follows_until_ctrl_c(space, background):
    space.define(JOB)
    process = background("-o", "json", "changes", "--after", "0")
    output = Output(process)
    output.until(lambda line: "DEFINED" in line)
    for _ in range(3):
        id = space.start("job")
        output.until(lambda line: id in line and "STARTED" in line)
    interrupt(process)
    assert exit_status(process) == 130


# pause, resume, skip, cancel ------------------------------------------------------------------


def test_control(dcli, space, job):
    dcli.ok("pause", job)
    assert state(space.get(job)) == "PAUSED"
    dcli.ok("resume", job)
    assert state(space.get(job)) == "RUNNING"
    check_failure(dcli("skip", job), 1)
    instance = message(dcli.ok("-o", "json", "pause", job), v1.Instance)
    assert state(instance) == "PAUSED"
    claimed = space.start("job", id="claimed")
    space.take("job")
    dcli.ok("cancel", job)
    assert result(space.get(job)) == "CANCELLED"
    dcli.ok("cancel", claimed)
    assert state(space.get(claimed)) != "STOPPED"
    dcli.ok("cancel", claimed, "--force")
    assert result(space.get(claimed)) == "CANCELLED"


def test_kill(dcli, space, job):
    with space.work(machine="job") as work:
        task = only(work.await_tasks(1))
        dcli.ok("cancel", job, "--kill")
        assert work.wait(lambda: task.claim in work.killed_claims)


@pytest.mark.parametrize("command", ["pause", "resume", "skip", "cancel"])
def test_control_of_what_is_not_there_is_refused(dcli, command):
    check_failure(dcli(command, "ghost"), 1, "ghost")


# Flags, formats, exit status ------------------------------------------------------------------


def test_help_lists_all_commands(dcli):
    out = dcli.ok("--help")
    for command in COMMANDS:
        assert re.search(rf"\b{command}\b", out), command


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_an_example_in_its_help(dcli, command):
    assert f"dcli {command}" in dcli.ok(command, "--help")


@pytest.mark.parametrize("arguments", [
    ["no-such-command"], ["machines", "--no-such-flag"], ["-o", "xml", "machines"],
    ["show"], ["history"], ["transition", "x"], ["pause"], ["graph"], ["define"], ["check"],
    ["--timeout", "soon", "machines"], ["changes", "--kind", "exploded"],
    ["graph", "x", "--format", "png"], ["work", "job"], ["completion", "tcsh"],
    ["ready", "--max", "many"]])
def test_bad_usage_ends_with_2(dcli, arguments):
    check_failure(dcli(*arguments), 2)


def test_a_server_that_is_not_reached_ends_with_3(offline):
    check_failure(offline("machines"), 3, offline.environment["DFSMR_SERVER"])
    check_failure(offline("start", "job"), 3)
    check_failure(offline("--timeout", "2s", "changes", "--no-follow"), 3)


def test_the_server_and_namespace_may_be_flags(server, space, offline):
    space.define(JOB)
    out = offline.ok("--server", server.address, "--namespace", space.name, "-o", "name",
                     "machines")
    assert out == "job\n"


def test_yaml_says_the_same_as_json(dcli, job):
    for command in (["machines"], ["machines", "job"], ["show", job], ["instances"],
                    ["history", job]):
        in_yaml = yaml.load(dcli.ok("-o", "yaml", *command), Loader=yaml.BaseLoader)
        assert in_yaml == strings(dcli.json(*command))


def test_output_that_is_not_for_a_terminal_has_no_colours(dcli, space, job):
    space.transition(job, "error", error="it broke")
    for command in (["machines"], ["machines", "job"], ["instances"], ["show", job],
                    ["history", job], ["changes", "--after", "0", "--no-follow"]):
        assert ESCAPE not in dcli.ok(*command)
        assert ESCAPE not in dcli.ok("--no-color", *command)
        assert ESCAPE not in dcli.ok(*command, environment={"NO_COLOR": "1"})


def test_control_characters_in_what_instances_hold_are_shown_escaped(dcli, space, job):
    space.transition(job, "error", error=f"bad {ESCAPE}[31mred{ESCAPE}]0;title\x07\nend")
    for command in (["show", job], ["instances"], ["history", job], ["-o", "wide", "instances"],
                    ["changes", "--after", "0", "--no-follow"]):
        out = dcli.ok(*command)
        assert ESCAPE not in out and "\x07" not in out
    assert "bad" in dcli.ok("show", job)


def test_yaml_of_control_characters_can_be_read_again(dcli, space, job):
    text = "del \x7f csi \x9b nbsp \xa0 é"
    space.transition(job, "error", error=text)
    out = dcli.ok("-o", "yaml", "show", job)
    assert "\x7f" not in out and "\x9b" not in out
    assert yaml.safe_load(out)["error"] == text


@pytest.mark.parametrize("command", [["machines"], ["ready", "-o", "json"], ["--help"]])
def test_what_cannot_be_printed_is_a_failure(dcli, job, command):
    with open("/dev/full", "w") as full:
        done = subprocess.run([str(DCLI), *command], stdout=full, stderr=subprocess.PIPE, text=True,
                              env=dcli.environment, timeout=CALL)
    check_failure(done, 1, "cannot write to standard output")


def test_an_error_of_several_lines_is_shown_in_several_lines(dcli, tmp_path):
    (tmp_path / "flow.yaml").write_text("- {stap: a, action: x}\n- {step: b, acton: y}\n")
    done = dcli("start", "--flow", tmp_path / "flow.yaml")
    check_failure(done, 1, "flow:1:", "\nflow:2:")
    (tmp_path / "flow.yaml").write_text("")
    check_failure(dcli("start", "--flow", tmp_path / "flow.yaml"), 2, "is empty")


def test_data_goes_to_standard_output_and_talk_to_standard_error(dcli, job):
    failed = dcli("show", "ghost")
    assert failed.stdout == "" and failed.stderr
    assert dcli("show", job).stderr == ""


def test_the_timeout_bounds_calls_but_not_waits_and_streams(dcli, space, background):
    space.define(JOB)
    began = now()
    assert dcli.ok("--timeout", "300ms", "ready", "job", "--wait", "800ms") == ""
    assert now() - began > 0.7
    process = background("--timeout", "300ms", "-o", "json", "changes", "--after", "0")
    output = Output(process)
    output.until(lambda line: "DEFINED" in line)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.6)
    id = space.start("job")
    output.until(lambda line: id in line)
    ends_well(process)


def on_a_terminal(dcli, *arguments, **environment):
    """What dcli writes to a terminal."""
    reader, writer = pty.openpty()
    process = subprocess.Popen([str(DCLI), *arguments], stdin=writer, stdout=writer, stderr=writer,
                               env={**dcli.environment, "TERM": "xterm", **environment})
    os.close(writer)
    written = b""
    try:
        while chunk := os.read(reader, 65536):
            written += chunk
    except OSError:  # the other end was closed
        pass
    os.close(reader)
    assert process.wait(CALL) == 0
    return written.decode()


def test_a_terminal_gets_no_colours_where_none_are_wanted(dcli, job):
    for command in (["machines"], ["instances"], ["show", job], ["history", job]):
        assert ESCAPE in on_a_terminal(dcli, *command)
        assert ESCAPE not in on_a_terminal(dcli, *command, NO_COLOR="1")
        assert ESCAPE not in on_a_terminal(dcli, "--no-color", *command)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_that_its_shell_takes(dcli, shell, tmp_path):
    out = dcli.ok("completion", shell)
    assert "dcli" in out and "instances" in out
    (tmp_path / "script").write_text(out)
    if shutil.which(shell):
        subprocess.run([shell, "-n", str(tmp_path / "script")], check=True, timeout=CALL)


# work -----------------------------------------------------------------------------------------

# Runs until the file `go` is there, ten seconds at most.
UNTIL_GO = "i=0; while [ ! -e go ] && [ $i -lt 500 ]; do i=$((i+1)); sleep 0.02; done\n"


@pytest.fixture
def worker(tmp_path):
    """Makes a script for `dcli work -- ./NAME`, to be run in tmp_path."""
    def make(text, name="worker"):
        path = tmp_path / name
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        return path

    return make


def ends_well(process):
    interrupt(process)
    assert exit_status(process) in (0, 130)


def test_work_runs_a_command_for_each_task(space, background, worker, tmp_path):
    space.define(JOB)
    script = worker('cat > "$DFSMR_INSTANCE.json"\nenv > "$DFSMR_INSTANCE.env"\n')
    process = background("work", "job", "--", script, cwd=tmp_path)
    ids = [space.start("job", params={"n": n}) for n in range(3)]
    for n, id in enumerate(ids):
        space.await_change("FINISHED", instance=id)
        assert result(space.get(id)) == "SUCCESS"
        task = json.loads((tmp_path / f"{id}.json").read_text())
        assert task["instanceParams"] == {"n": n}
        assert (task["instance"], task["machine"], task["node"]) == (id, "job", "work")
        told = dict(line.split("=", 1) for line in lines((tmp_path / f"{id}.env").read_text())
                    if "=" in line)
        assert (told["DFSMR_INSTANCE"], told["DFSMR_MACHINE"], told["DFSMR_NODE"],
                told["DFSMR_ATTEMPT"]) == (id, "job", "work", "1")
        assert told["DFSMR_CLAIM"]
        assert (told["DFSMR_SERVER"], told["DFSMR_NAMESPACE"]) == (
            space.server.address, space.name)
    ends_well(process)


def test_work_gives_node_params_as_an_object(dcli, space, worker, tmp_path):
    space.define(PAIR)
    id = space.start("pair", params={"a": 1})
    space.transition(id, "ok", node_params={"b": [2, "x"]})
    script = worker("cat > task.json\n")
    dcli("work", "pair", "second", "--once", "--", script, cwd=tmp_path)
    task = json.loads((tmp_path / "task.json").read_text())
    assert task["instanceParams"] == {"a": 1} and task["nodeParams"] == {"b": [2, "x"]}


@pytest.mark.parametrize("text, node", [("exit 0", "done"), ("exit 1", "failed"),
                                        ("exit 77", "failed"), ("kill -9 $$", "failed")])
def test_work_reports_ok_or_error_by_the_exit_status(dcli, space, job, worker, tmp_path, text,
                                                     node):
    dcli("work", "job", "--once", "--", worker(text + "\n"), cwd=tmp_path)
    assert space.token(job).node == node


def test_work_once_ends_with_0_when_its_task_is_done(dcli, space, worker, tmp_path):
    space.define(JOB)
    space.start_many("job", 2)
    done = dcli("work", "job", "--once", "--", worker("exit 0\n"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(space.ready("job", max_tasks=5)) == 1


def test_work_once_waits_for_a_task(space, background, worker, tmp_path):
    space.define(JOB)
    process = background("work", "--once", "--", worker("exit 0\n"), cwd=tmp_path)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)
    id = space.start("job")
    assert exit_status(process) == 0
    assert result(space.get(id)) == "SUCCESS"


def test_the_last_line_of_the_output_may_say_otherwise(dcli, space, worker, tmp_path):
    space.define(PAIR)
    id = space.start("pair")
    script = worker("""\
echo '{"transition": "error"}'
echo just talk
echo '{"transition": "ok", "params": {"n": 5}, "output": {"o": [1]}, "error": "a warning"}'
exit 3
""")
    dcli.ok("work", "pair", "first", "--once", "--", script, cwd=tmp_path)
    task = space.take("pair", "second")
    assert from_json(task.node_params) == {"n": 5}
    instance = space.get(id)
    assert from_json(instance.outputs["first"]) == {"o": [1]}


def test_a_last_line_without_a_transition_adds_to_the_exit_status(dcli, space, job, worker,
                                                                 tmp_path):
    script = worker("""echo '{"error": "it broke", "output": {"o": 1}}'\nexit 1\n""")
    dcli("work", "job", "--once", "--", script, cwd=tmp_path)
    instance = space.get(job)
    assert result(instance) == "ERROR" and "it broke" in instance.error
    assert from_json(instance.outputs["work"]) == {"o": 1}


def test_a_last_line_that_is_no_object_is_just_output(dcli, space, job, worker, tmp_path):
    dcli("work", "job", "--once", "--", worker("echo '[1, 2]'\n"), cwd=tmp_path)
    assert result(space.get(job)) == "SUCCESS"


def test_a_node_with_one_transition_takes_it_on_success(dcli, space, worker, tmp_path):
    space.define("id: m\nnodes: {a: {start: true, transitions: {onward: z}}, z: {final: true}}\n")
    id = space.start("m")
    dcli.ok("work", "m", "--once", "--", worker("exit 0\n"), cwd=tmp_path)
    assert space.token(id).node == "z"


@pytest.mark.parametrize("text", ["exit 0\n", "exit 1\n",
                                  "echo '{\"transition\": \"sideways\"}'\n"])
def test_work_ends_when_the_command_says_what_the_node_does_not_know(dcli, space, worker, tmp_path,
                                                                    text):
    space.define("id: m\nnodes: {a: {start: true, transitions: {left: y, right: z}},"
                 " y: {final: true}, z: {final: true}}\n")
    id = space.start("m")
    done = dcli("work", "m", "--", worker(text), cwd=tmp_path)
    assert done.returncode != 0
    assert "left" in done.stderr and "right" in done.stderr
    assert space.token(id).node == "a"
    assert only(space.ready("m")).attempt == 2


def test_work_ends_when_the_command_cannot_be_run(dcli, space, job, tmp_path):
    done = dcli("work", "job", "--once", "--", "./no-such-program", cwd=tmp_path)
    assert done.returncode != 0 and "no-such-program" in done.stderr
    assert space.token(job).node in ("work", "failed")


def test_work_extends_the_claim_while_the_command_runs(space, background, worker, tmp_path):
    space.define(HASTY.replace("timeout: 0.3", "timeout: 1.0"))
    id = space.start("hasty")
    process = background("work", "hasty", "--once", "--", worker(UNTIL_GO), cwd=tmp_path)

    def deadline():
        claims = space.token(id).claims
        return seconds(claims[0].deadline) if claims else 0

    first = eventually(deadline)
    eventually(lambda: deadline() > first + 1)
    (tmp_path / "go").touch()
    assert exit_status(process) == 0
    assert space.story(id) == ["STARTED", "TRANSITIONED", "FINISHED"]


def test_whoever_does_not_read_the_output_holds_up_the_command_and_no_claim(space, dcli, worker,
                                                                           tmp_path):
    space.define(HASTY.replace("timeout: 0.3", "timeout: 1.0"))
    ids = [space.start("hasty", id=id) for id in ("noisy", "quiet")]
    script = worker('[ $DFSMR_INSTANCE = noisy ] && exec yes\n' + UNTIL_GO)
    process = dcli.background("work", "hasty", "--jobs", "2", "--", script, cwd=tmp_path)

    def deadlines():
        claims = [claim for id in ids for claim in space.token(id).claims]
        return [seconds(claim.deadline) for claim in claims] if len(claims) == 2 else []

    first = eventually(deadlines)
    eventually(lambda: min(deadlines()) > max(first) + 2)  # nobody reads process.stdout
    (tmp_path / "go").touch()
    space.await_change("FINISHED", instance="quiet")
    interrupt(process)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)  # two at once would be one
    interrupt(process)
    assert exit_status(process) == 130
    assert space.story("quiet") == ["STARTED", "TRANSITIONED", "FINISHED"]
    assert "TIMED_OUT" not in space.story("noisy")
    assert token_state(space.token("noisy")) == "READY"
    process.stdout.close()
    process.stderr.close()


@pytest.mark.parametrize("bytes", [5_000_000, 20_000_000])
def test_a_last_line_that_no_report_can_hold_is_an_error(dcli, space, job, worker, tmp_path, bytes):
    script = worker(f"printf '{{\"transition\":\"ok\",\"output\":{{\"x\":\"'\n"
                    f"head -c {bytes} /dev/zero | tr '\\0' x\n"
                    "echo '\"}}'\n")
    dcli("work", "job", "--once", "--", script, cwd=tmp_path)
    assert space.token(job).node == "failed"
    assert "large" in space.get(job).error or "larger" in space.get(job).error


def test_an_error_of_any_length_is_reported(dcli, space, job, worker, tmp_path):
    script = worker("printf '{\"error\":\"'; head -c 70000 /dev/zero | tr '\\0' e; echo '\"}'\n"
                    "exit 1\n")
    done = dcli("work", "job", "--once", "--", script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert space.get(job).error.startswith("eee")
    assert space.token(job).node == "failed"


def test_work_runs_as_many_jobs_at_a_time(space, background, worker, tmp_path):
    space.define(JOB)
    ids = [space.start("job") for _ in range(6)]
    process = background("work", "job", "--jobs", "3", "--",
                         worker('touch "started-$DFSMR_INSTANCE"\n' + UNTIL_GO), cwd=tmp_path)
    eventually(lambda: len(list(tmp_path.glob("started-*"))) == 3)
    assert [token_state(space.token(id)) for id in ids[3:]] == ["READY"] * 3
    (tmp_path / "go").touch()
    for id in ids:
        space.await_change("FINISHED", instance=id)
    ends_well(process)


def test_work_takes_what_its_action_and_queue_let_through(dcli, space, worker, tmp_path):
    space.define("id: m\nnodes: {a: {start: true, queue: gpu, action: render,"
                 " transitions: {ok: z}}, z: {final: true}}\n---\n" + JOB)
    space.start("job")
    id = space.start("m")
    dcli.ok("work", "--action", "render", "--queue", "gpu", "--once", "--", worker("exit 0\n"),
            cwd=tmp_path)
    assert state(space.get(id)) == "STOPPED"
    assert only(space.ready(max_tasks=5)).machine == "job"


def test_a_first_ctrl_c_finishes_what_is_in_hand(space, background, worker, tmp_path):
    space.define(JOB)
    id, other = space.start("job"), space.start("job")
    process = background("work", "job", "--", worker("touch started\n" + UNTIL_GO), cwd=tmp_path)
    eventually(lambda: (tmp_path / "started").exists())
    interrupt(process)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)
    assert token_state(space.token(id)) == "CLAIMED"
    (tmp_path / "go").touch()
    assert exit_status(process) == 0
    assert result(space.get(id)) == "SUCCESS"
    assert only(space.ready("job", max_tasks=5)).instance == other


def interrupted_twice(background, script, machine, tmp_path):
    process = background("work", machine, "--", script, cwd=tmp_path)
    eventually(lambda: (tmp_path / "started").exists())
    interrupt(process)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)
    interrupt(process)
    assert exit_status(process) == 130
    (tmp_path / "go").touch()


def test_a_second_ctrl_c_relinquishes_it(space, background, worker, tmp_path):
    space.define(JOB)
    id = space.start("job")
    interrupted_twice(background, worker("touch started\n" + UNTIL_GO), "job", tmp_path)
    again = space.take("job")
    assert (again.instance, again.visit, again.attempt) == (id, 1, 2)


def test_a_second_ctrl_c_does_not_relinquish_what_runs_at_most_once(space, background, worker,
                                                                   tmp_path):
    space.define(ONCE)
    id = space.start("once")
    interrupted_twice(background, worker("touch started\n" + UNTIL_GO), "once", tmp_path)
    assert space.ready("once", wait=0.3) == []
    assert token_state(space.token(id)) == "CLAIMED"


def test_ctrl_c_ends_a_worker_that_waits(space, background, worker, tmp_path):
    space.define(JOB)
    process = background("work", "job", "--", worker("exit 0\n"), cwd=tmp_path)
    id = space.start("job")
    space.await_change("FINISHED", instance=id)
    ends_well(process)


def test_work_survives_a_restart_of_the_server(new_server, worker, tmp_path):
    server = new_server().start()
    space = server.space("default")
    space.define(JOB)
    cli = Cli(server.address, "default")
    process = cli.background("work", "job", "--", worker("exit 0\n"), cwd=tmp_path)
    try:
        space.await_change("FINISHED", instance=space.start("job"))
        server.restart()
        id = space.start("job")
        with space.watch(kinds=["FINISHED"], instance=id) as watch:
            watch.until(lambda change: True, within=20)
        ends_well(process)
    finally:
        process.kill()
        process.communicate()


# Plans ----------------------------------------------------------------------------------------

PLAN = """
action: vm.create
retry: {limit: 2, delay: 30s}
---
plan: machine
flow:
  - {step: disk, action: disk.prepare, input: {name: "${params.name}"}}
  - {step: vm, action: vm.create, input: {disk: "${disk.output.path}"}}
---
plan: site
flow:
  - {step: web, plan: machine, input: {name: web}}
  - {step: ask, action: ask.somebody, after: [web]}
"""
STEPS = '- {step: a, action: x.a}\n- {step: b, action: x.b, input: {n: "${a.output.n}"}}\n'
FLOW_OF_SITE = "  web_disk --> web_vm\n  web_vm --> ask\n"


@pytest.fixture
def do(dcli, worker, tmp_path):
    """Does one task of an action by a script."""
    def once(action, text, *flags):
        return dcli("work", "--action", action, "--once", *flags, "--", worker(text + "\n"),
                    cwd=tmp_path)

    return once


def says(**last):
    return f"echo '{json.dumps(last)}'"


def test_check_counts_the_steps_of_plans_and_names_what_is_missing(offline, tmp_path):
    (tmp_path / "site.yaml").write_text(PLAN)
    done = offline("check", tmp_path)
    assert done.returncode == 0, done.stderr
    file = tmp_path / "site.yaml"
    assert done.stdout == (f"action vm.create  ok  {file}\nplan machine  ok  2 steps  {file}\n"
                           f"plan site  ok  3 steps  {file}\n")
    file.write_text(PLAN.replace("after: [web]", "after: [wbe]"))
    check_failure(offline("check", file), 1, f"{file}:13:", "wbe")


def test_a_plan_is_drawn_by_its_steps_from_a_file_a_server_and_an_instance(dcli, space, offline,
                                                                          tmp_path):
    file = tmp_path / "site.yaml"
    file.write_text(PLAN)
    dcli.ok("define", file)
    id = space.start("site")
    drawn = offline("graph", file, "--machine", "site", "--flow")
    for picture in (drawn.stdout, dcli.ok("graph", "site", "--flow"),
                    dcli.ok("graph", id, "--flow")):
        assert picture.startswith("flowchart") and FLOW_OF_SITE in picture
        assert "/error" not in picture
    assert dcli.ok("graph", id, "--flow", "--format", "dot").startswith("digraph")
    for picture in (dcli.ok("graph", "site"), dcli.ok("graph", id)):
        assert "web_vm -->|error| web_vm_error" in picture


def test_show_tells_where_the_steps_of_a_plan_stand(dcli, space, do):
    space.define(PLAN)
    id = space.start("site")
    assert re.search(r"├─ disk +○ READY +disk\.prepare", dcli.ok("show", id))
    do("disk.prepare", says(output={"path": "/d"}))
    do("vm.create", "echo no room >&2; exit 1")
    shown = dcli.ok("show", id)
    assert re.search(r"(?m)^├─ disk +✓ DONE", shown)
    assert re.search(r"(?m)^└─ vm +◷ WAITING .* again \d{4}-", shown)
    assert re.search(r"(?m)^ask +· PENDING", shown)
    space.transition(id, "error", node="web.vm", error="no room")
    shown = dcli.ok("show", id)
    assert re.search(r"(?m)^└─ vm +✗ HELD .*no room$", shown)
    assert f"  dcli skip {id} web.vm\n" in shown
    steps = dcli.json("show", id, "--steps")["steps"]
    assert [step["path"] for step in steps] == ["web.disk", "web.vm", "ask"]


@pytest.mark.parametrize("second, outcome, status", [
    ("exit 0", "SUCCESS", 0), ("exit 1", "WARNING", 1)])
def test_start_wait_follows_a_flow_to_its_end(space, dcli, background, do, tmp_path, second,
                                              outcome, status):
    file = tmp_path / "steps.yaml"
    file.write_text(STEPS)
    process = background("start", "--flow", file, "--id", "f", "--wait")
    do("x.a", says(output={"n": 1}))
    do("x.b", second)
    if outcome == "WARNING":
        complaint = Output(process).process.stderr.readline
        assert complaint() == "dcli: f is paused: 1 step is held\n"
        dcli.ok("skip", "f", "b")
    assert exit_status(process) == status
    assert result(space.get("f")) == outcome


def test_a_flow_may_come_from_standard_input(dcli, space):
    dcli.ok("start", "--flow", "-", "--id", "f", "who=ann", input=STEPS)
    assert from_json(space.get("f").params) == {"who": "ann"}
    check_failure(dcli("start", "--flow", "-", input="plan: p\n"), 1, "flow")


def test_a_suspended_step_wakes_by_itself_and_the_worker_hears_why(dcli, space, do, tmp_path):
    dcli.ok("start", "--flow", "-", "--id", "f", input="- {step: w, action: x.w}\n")
    do("x.w", says(transition="suspend", wakeAfter="0.2s"))
    do("x.w", "cat > task.json")
    task = json.loads((tmp_path / "task.json").read_text())
    assert (task["event"], task["phase"]) == ("wake", "run")
    assert result(space.get("f")) == "SUCCESS"


def test_work_plans_when_the_task_is_to_plan(dcli, space, do, tmp_path):
    dcli.ok("define", "-", input="action: p.lan\nplan: worker\n---\n"
            "plan: p\nflow: [{step: g, action: p.lan}]\n")
    assert space.start("p", id="i") == "i"
    assert state(space.get("i")) == "PLANNING"
    do("p.lan", "echo $DFSMR_PHASE > phase\n" +
       says(output={"flow": [{"step": "x", "action": "x.x"}]}))
    assert (tmp_path / "phase").read_text() == "plan\n"
    assert [step["path"] for step in dcli.json("show", "i", "--steps")["steps"]] == ["g", "g.x"]


def test_define_calls_a_planner_an_action(dcli):
    assert dcli.ok("define", "-", input="action: p.lan\nplan: worker\n").startswith(
        "action p.lan ")


def test_middleware_goes_around_the_command_in_the_order_of_the_task(dcli, space, do, worker,
                                                                     tmp_path):
    space.define("action: m.do\nuse: [audit, {name: trace, before: audit}]\n")
    dcli.ok("start", "m.do", "--id", "i")
    for name in ("audit", "trace"):
        worker(f'echo {name} >> trail\n"$@"\n', name)
    done = do("m.do", "echo work >> trail", "--middleware", "audit=./audit", "--middleware",
              "trace=./trace")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "trail").read_text() == "trace\naudit\nwork\n"
    assert result(space.get("i")) == "SUCCESS"


def test_a_report_after_which_others_are_waited_for_says_so(dcli):
    dcli.ok("start", "--flow", "-", "--id", "f", input="- {step: a, action: x.a}\n"
            "- {step: b, action: x.b}\n- {step: c, action: x.c, after: [a, b]}\n")
    assert dcli.ok("transition", "f", "ok", "--node", "a") == "f  a is over  RUNNING  PENDING\n"
    assert "b -> c" in dcli.ok("transition", "f", "ok", "--node", "b")


def test_cancel_says_when_it_waits(dcli, do):
    dcli.ok("start", "--flow", "-", "--id", "f", input="- {step: w, action: x.w}\n")
    do("x.w", says(transition="suspend"))
    assert "--force does not wait" in dcli.ok("cancel", "f")
    assert dcli.ok("cancel", "f", "--force").startswith("f  STOPPED  CANCELLED")
