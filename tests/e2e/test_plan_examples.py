"""Every plan in machines/ is loaded, and run by real `dcli work` as its comments say."""
import os
import pathlib
import shutil
import subprocess

import pytest
import yaml

from support import (BIN, CONSUMER, MACHINES, SOON, eventually, from_json, kind, outputs, result,
                     state, step_state)

# deploy: by test_deploy_example.py; those of tiers and render: by test_agent_examples.py.
RUN_BY_A_TEST = {"build", "checksum", "checksums", "approval", "rescue", "deploy", "install",
                 "remove", "tier.up", "tier.down", "render"}
PATIENCE = 6 * SOON


def script(*arguments):
    """What a script under machines/ prints."""
    return subprocess.run([MACHINES / arguments[0], *map(str, arguments[1:])], check=True,
                          capture_output=True, text=True, timeout=20).stdout


def paused(space, id, within=PATIENCE):
    eventually(lambda: state(space.get(id)) == "PAUSED", within)
    return space.get(id)


def runs(space, id):
    """How often each step of it was handed out and came to something."""
    return [change.prev_node for change in space.history(id) if kind(change) == "TRANSITIONED"
            and change.transition in ("ok", "error") and "/" not in change.prev_node]


def test_every_plan_is_sound_and_every_one_is_run(space, dcli):
    files = sorted(MACHINES.glob("*.plan.yaml"))
    assert len(files) == 7
    for file in files:
        dcli.ok("check", file)
        dcli.ok("define", file)
        plans = [document["plan"] for document in yaml.safe_load_all(file.read_text())
                 if "plan" in document and "action" not in document]
        for plan in plans:
            assert dcli.ok("graph", plan).startswith("flowchart")
        for document in yaml.safe_load_all(file.read_text()):
            assert document["description"]
    assert {one.id for one in space.machines().machines if one.kind == "plan"} == RUN_BY_A_TEST


# build ------------------------------------------------------------------------------------------

CC = MACHINES / "build/cc"


@pytest.fixture
def source(tmp_path):
    if not shutil.which(os.environ.get("CC", "cc")):
        pytest.skip("there is no C compiler")
    return shutil.copytree(MACHINES / "build", tmp_path / "source")


def calc(out, expression):
    return subprocess.run([out / "calc", expression], capture_output=True, text=True,
                          timeout=20).stdout.strip()


def test_a_program_is_compiled_linked_and_tested(space, dcli, define, work, source, tmp_path):
    define("build")
    work("build", "--jobs", 3, "--", CC)
    out = tmp_path / "out"
    dcli.ok("start", "build", f"source={source}", f"out={out}", "--id", "calc")
    instance = space.ends("calc", "SUCCESS", PATIENCE)
    assert calc(out, "2 * (3 + 4)") == "14" and calc(out, "1/3") == "0.3333333333"
    put_out = outputs(instance)
    assert put_out["test"] == {"cases": 8}
    assert put_out["link"]["bytes"] == (out / "calc").stat().st_size
    assert put_out["scan"]["object"] == str(out / "scan.o")
    assert sorted(path.name for path in out.iterdir()) == [
        "calc", "evaluate.o", "main.o", "scan.o"]
    assert instance.label == f"build of {source}" and instance.progress == 1


def test_each_action_may_have_a_worker_of_its_own(space, dcli, define, work, source, tmp_path):
    define("build")
    for action in ("cc.compile", "cc.link", "cc.test"):
        work("--action", action, "--jobs", 2, "--worker", action, "--", CC)
    id = space.plan("build", params={"source": str(source), "out": str(tmp_path / "out")})
    space.ends(id, "SUCCESS", PATIENCE)
    eventually(lambda: {change.client for change in space.history(id)
                        if kind(change) == "CLAIMED"} == {"cc.compile", "cc.link", "cc.test"})


def test_a_file_that_does_not_compile_is_mended_and_only_it_is_compiled_again(
        space, dcli, define, work, source, tmp_path):
    define("build")
    broken = source / "evaluate.c"
    text = broken.read_text()
    broken.write_text(text.replace("double other;", "double other", 1))
    work("build", "--jobs", 3, "--", CC)
    id = space.plan("build", params={"source": str(source), "out": str(tmp_path / "out")})
    instance = paused(space, id)
    assert "evaluate.c" in instance.error, instance.error
    assert space.step_states(id) == {"scan": "DONE", "evaluate": "HELD", "main": "DONE",
                                     "link": "PENDING", "test": "PENDING"}
    broken.write_text(text)
    dcli.ok("resume", id)
    space.ends(id, "SUCCESS", PATIENCE)
    assert sorted(runs(space, id)) == ["evaluate", "evaluate", "link", "main", "scan", "test"]
    assert calc(tmp_path / "out", "7") == "7"


def test_a_program_that_calculates_wrongly_fails_its_test(
        space, define, work, source, tmp_path):
    define("build")
    file = source / "evaluate.c"
    file.write_text(file.read_text().replace("*value += other", "*value -= other"))
    work("build", "--jobs", 3, "--", CC)
    id = space.plan("build", params={"source": str(source), "out": str(tmp_path / "out")})
    assert "1 + 2 * 3 = 7, not -5" in paused(space, id).error
    assert step_state(space.step(id, "test")) == "HELD"


# checksums --------------------------------------------------------------------------------------

SUM = MACHINES / "checksums/sum"


@pytest.fixture
def folder(tmp_path):
    """Thirty files in several folders, with names that need care."""
    top = tmp_path / "folder"
    for number in range(30):
        path = top / f"{number % 3}" / f"file {number} ü.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes([number]) * number * 1000)
    return top


def start_sums(space, dcli, folder, sums):
    params = script("checksums/sum", "list", folder, sums)
    return dcli.ok("start", "checksums", "--params", params, "-o", "name").strip()


def check_sums(folder, sums, count):
    assert len(sums.read_text().splitlines()) == count
    subprocess.run(["sha256sum", "--quiet", "--strict", "-c", sums], check=True, cwd=folder,
                   timeout=20)


def test_every_file_of_a_folder_is_hashed_by_a_plan_of_its_own_four_at_a_time(
        space, dcli, define, work, folder, tmp_path):
    define("checksums")
    id = start_sums(space, dcli, folder, tmp_path / "SHA256SUMS")
    eventually(lambda: len(space.children(id)) == 4)  # no more exist before there is room
    work("--action", "sum.hash", "--jobs", 8, "--", SUM)
    work("--action", "sum.summarise", "--", SUM)
    instance = space.ends(id, "SUCCESS", PATIENCE)
    check_sums(folder, tmp_path / "SHA256SUMS", 30)
    assert outputs(instance)["files"] == {"total": 30, "success": 30, "failed": 0, "cancelled": 0}
    assert outputs(instance)["summary"]["files"] == 30
    children = space.children(id)
    assert len(children) == 30 and {result(one) for one in children} == {"SUCCESS"}
    assert {one.label for one in children} == {
        f"{n % 3}/file {n} ü.bin" for n in range(30)}
    live, most = set(), 0
    for change in space.changes("0", ["STARTED", "FINISHED"], machine="checksum")[0]:
        live ^= {change.instance}
        most = max(most, len(live))
    assert most == 4
    assert not (tmp_path / "SHA256SUMS.parts").exists()


def test_an_empty_folder_has_an_empty_summary(space, dcli, define, work, tmp_path):
    define("checksums")
    (tmp_path / "empty").mkdir()
    id = start_sums(space, dcli, tmp_path / "empty", tmp_path / "SHA256SUMS")
    work("--action", "sum.summarise", "--", SUM)
    space.ends(id, "SUCCESS", PATIENCE)
    assert (tmp_path / "SHA256SUMS").read_text() == ""


def test_a_file_that_is_gone_holds_the_summary_until_it_is_back(
        space, dcli, define, work, folder, tmp_path):
    define("checksums")
    id = start_sums(space, dcli, folder, tmp_path / "SHA256SUMS")
    lost = folder / "1" / "file 7 ü.bin"
    content = lost.read_bytes()
    lost.unlink()
    work("checksum", "--jobs", 4, "--", SUM)
    work("checksums", "--", SUM)
    paused(space, id)
    counters = space.step(id, "files").children
    assert (counters.total, counters.success, counters.failed) == (30, 29, 1)
    assert not (tmp_path / "SHA256SUMS").exists()
    stuck = dcli.ok("instances", "--machine", "checksum", "--state", "paused", "-o", "name").split()
    assert [from_json(space.get(one).params)["file"] for one in stuck] == ["1/file 7 ü.bin"]
    lost.write_bytes(content)
    dcli.ok("resume", stuck[0])
    space.ends(stuck[0], "SUCCESS", PATIENCE)
    dcli.ok("resume", id)
    space.ends(id, "SUCCESS", PATIENCE)
    check_sums(folder, tmp_path / "SHA256SUMS", 30)


# approval ---------------------------------------------------------------------------------------

PUBLISH = MACHINES / "approval/publish"


@pytest.fixture
def news(space, dcli, tmp_path):
    """Starts the approval of a page, and waits until it waits."""
    (tmp_path / "news.md").write_text("# It <works>\n\nAll of it.\nReally.\n\nCome and see.\n")

    def start():
        dcli.ok("start", "approval", f"draft={tmp_path}/news.md",
                f"target={tmp_path}/www/news.html", "--id", "news")
        eventually(lambda: step_state(space.step("news", "ask")) == "SUSPENDED", PATIENCE)
        return tmp_path / "www/news.html"
    return start


def test_a_page_is_published_when_it_is_approved(space, dcli, define, work, news):
    define("approval")
    work("approval", "--", PUBLISH)
    page = news()
    preview = outputs(space.get("news"))["ask"]["preview"]
    assert "It &lt;works&gt;" in pathlib.Path(preview).read_text()
    assert not page.exists() and state(space.get("news")) == "RUNNING"
    dcli.ok("transition", "news", "approve", "--node", "ask", "by=ann")
    instance = space.ends("news", "SUCCESS", PATIENCE)
    text = page.read_text()
    assert "<h1>It &lt;works&gt;</h1>" in text and "<p>Come and see.</p>" in text
    assert "Approved by ann" in text
    assert outputs(instance)["publish"] == {"page": str(page), "bytes": page.stat().st_size}
    assert not pathlib.Path(preview).exists()


def test_other_events_leave_it_waiting(space, dcli, define, work, news):
    define("approval")
    work("approval", "--", PUBLISH)
    page = news()
    dcli.ok("transition", "news", "remind", "--node", "ask")
    with space.watch(kinds=["SUSPENDED"], instance="news") as watch:
        watch.until_count(2, PATIENCE)
    assert not page.exists()
    dcli.ok("transition", "news", "approve", "--node", "ask")
    space.ends("news", "SUCCESS", PATIENCE)
    assert "Approved by somebody" in page.read_text()


def test_a_page_that_is_rejected_is_not_published(space, dcli, define, work, news):
    define("approval")
    work("approval", "--", PUBLISH)
    page = news()
    dcli.ok("transition", "news", "reject", "--node", "ask", "by=ann", "reason=not on a Friday")
    assert "rejected by ann: not on a Friday" in space.ends("news", "ERROR", PATIENCE).error
    assert not page.exists() and list(page.parent.iterdir()) == []


def test_a_page_that_nobody_looks_at_is_not_published(space, define, work, news):
    define("approval", instead={"timeout: 86400": "timeout: 2"})
    work("approval", "--", PUBLISH)
    page = news()
    assert "nobody answered in time" in space.ends("news", "ERROR", PATIENCE).error
    assert not page.exists()


def test_a_page_that_waits_may_be_cancelled(space, dcli, define, work, news):
    define("approval")
    work("approval", "--", PUBLISH)
    page = news()
    dcli.ok("cancel", "news")
    space.ends("news", "CANCELLED", PATIENCE)
    assert list(page.parent.iterdir()) == []


def test_a_page_waits_through_a_crash_of_the_server(new_server, tmp_path):
    server = new_server().start()
    space = server.space("")
    space.define((MACHINES / "approval.plan.yaml").read_text())
    (tmp_path / "news.md").write_text("# Title\n")
    task = {"PATH": CONSUMER["PATH"], "DFSMR_SERVER": server.address}
    command = [BIN / "dcli", "work", "approval", "--once", "--", PUBLISH]
    id = space.plan("approval", params={"draft": str(tmp_path / "news.md"),
                                        "target": str(tmp_path / "news.html")})
    subprocess.run(command, check=True, env={**os.environ, **task}, timeout=20)
    server.kill()
    server.start()
    space.event(id, "approve", "ask", {"by": "ann"})
    for _ in ("ask", "publish"):
        subprocess.run(command, check=True, env={**os.environ, **task}, timeout=20)
    space.ends(id, "SUCCESS")
    assert "Approved by ann" in (tmp_path / "news.html").read_text()


# rescue -----------------------------------------------------------------------------------------

MIRROR = MACHINES / "rescue/mirror"


@pytest.fixture
def copy(space, dcli, define, work, tmp_path):
    """Starts a copy to mirrors of these names, of which those are there; returns its id."""
    define("rescue")
    work("rescue", "--jobs", 2, "--", MIRROR)
    (tmp_path / "news.txt").write_text("news\n" * 1000)

    def start(*mirrors, there=()):
        for name in there:
            (tmp_path / name).mkdir()
        words = [f"{kind_}={tmp_path / name}" for kind_, name in mirrors]
        params = script("rescue/mirror", "params", tmp_path / "news.txt", *words)
        return dcli.ok("start", "rescue", "--params", params, "-o", "name").strip()
    return start


def mirrored(tmp_path):
    """The names of the mirrors in the index; each of them must have the file."""
    lines = (tmp_path / "news.txt.gz.mirrors").read_text().splitlines()
    archive = (tmp_path / "news.txt.gz").read_bytes()
    assert all(pathlib.Path(line).read_bytes() == archive for line in lines)
    return [pathlib.Path(line).parent.name for line in lines]


def test_a_file_is_copied_to_mirrors_that_are_there(space, copy, tmp_path):
    id = copy(("optional", "a"), ("attended", "b"), ("required", "c"), there="abc")
    assert outputs(space.ends(id, "SUCCESS", PATIENCE))["index"] == {"mirrors": 3, "missing": 0}
    assert mirrored(tmp_path) == ["a", "b", "c"]


def test_an_optional_mirror_that_is_away_is_skipped(space, copy, tmp_path):
    id = copy(("optional", "a"), ("optional", "b"), ("required", "c"), there="bc")
    assert outputs(space.ends(id, "WARNING", PATIENCE))["index"] == {"mirrors": 2, "missing": 1}
    assert space.step_states(id)["optional.0"] == "SKIPPED"
    assert mirrored(tmp_path) == ["b", "c"]
    assert "PAUSED" not in space.story(id)
    assert runs(space, id).count("optional.0") == 2, "a retry was made"


def test_an_attended_mirror_that_is_away_is_waited_for(space, dcli, copy, tmp_path):
    id = copy(("attended", "a"), ("attended", "b"), there="b")
    assert f"the mirror {tmp_path / 'a'} is away" in paused(space, id).error
    assert space.step_states(id)["attended.1"] == "DONE"
    (tmp_path / "a").mkdir()
    dcli.ok("resume", id)
    space.ends(id, "SUCCESS", PATIENCE)
    assert mirrored(tmp_path) == ["a", "b"]


def test_an_operator_may_do_without_an_attended_mirror(space, dcli, copy, tmp_path):
    id = copy(("attended", "a"), ("attended", "b"), there="b")
    paused(space, id)
    dcli.ok("skip", id, "--node", "attended.0")
    space.ends(id, "WARNING", PATIENCE)
    assert mirrored(tmp_path) == ["b"]


def test_a_required_mirror_that_is_away_is_the_end(space, copy, tmp_path):
    id = copy(("optional", "a"), ("required", "c"), there="a")
    assert "is away" in space.ends(id, "ERROR", PATIENCE).error
    assert not (tmp_path / "news.txt.gz.mirrors").exists()
    assert (tmp_path / "a" / "news.txt.gz").exists()


def test_an_operator_is_asked_when_a_required_and_an_attended_mirror_are_away(
        space, dcli, copy, tmp_path):
    id = copy(("attended", "b"), ("required", "c"))
    paused(space, id)
    for name in "bc":
        (tmp_path / name).mkdir()
    dcli.ok("resume", id)
    space.ends(id, "SUCCESS", PATIENCE)
    assert mirrored(tmp_path) == ["b", "c"]
