"""The schedules and triggers of machines/, with their workers, on a server whose clock is virtual."""
import datetime
import json

import pytest

from support import CONSUMER, MACHINES, SOON, Cli, eventually

PATIENCE = 6 * SOON
BEGIN = "2026-03-27T12:00:00Z"


@pytest.fixture
def standing(new_server):
    return new_server(virtual_clock=BEGIN).start()


def example(name, **instead):
    text = (MACHINES / name).read_text()
    for old, new in instead.items():
        assert old.replace("_", "/") in text
        text = text.replace(old.replace("_", "/"), str(new))
    return text


@pytest.fixture
def worker():
    """Runs dcli work in the background; it must end well when it is told to."""
    running = []

    def begin(dcli, *arguments, **environment):
        running.append(dcli.background("work", *arguments,
                                       environment={**environment, **CONSUMER}))

    yield begin
    for process in running:
        process.terminate()
        out, err = process.communicate(timeout=20)
        assert process.returncode == 0, err + out


def log_of(days):
    return "".join(f'host - - [{day:%d/%b/%Y}:10:00:00 +0000] "GET /{n} HTTP/1.1" 200 {100 * n}\n'
                   for day in days for n in range(1, 4))


def results(dcli, machine):
    listed = dcli.json("instances", "--machine", machine).get("instances", [])
    return {one["id"]: one.get("result") for one in listed}


def test_reports_are_made_each_night_also_those_that_were_missed(standing, new_server, worker,
                                                                  tmp_path):
    dcli = Cli(standing.address, "nights")
    days = [datetime.date(2026, 3, 26) + datetime.timedelta(n) for n in range(7)]
    (tmp_path / "access.log").write_text(log_of(days))
    text = example("nightly.schedule.yaml", _var_log_nginx=tmp_path, _srv_reports=tmp_path)
    dcli.ok("define", MACHINES / "report.fsm.yaml")
    dcli.ok("define", "-", input=text)
    # In the night of the 29th the clocks leave 02:30 out.
    times = dcli.ok("schedules", "next", "nightly", "-n", "3")
    assert [line.split()[0] for line in times.splitlines()[1:]] == [
        "2026-03-28T01:30:00.000Z", "2026-03-29T01:00:00.000Z", "2026-03-30T00:30:00.000Z"]
    dcli.ok("clock", "advance", "48h")
    standing.kill()
    later = new_server(virtual_clock="2026-04-02T12:00:00Z", data=standing.data).start()
    dcli = Cli(later.address, "nights")
    worker(dcli, "report", "--", MACHINES / "report/build", WORK=str(tmp_path))
    wanted = {f"report-2026-{day}": "SUCCESS"
              for day in ("03-27", "03-28", "03-29", "03-30", "03-31", "04-01")}
    eventually(lambda: results(dcli, "report") == wanted, PATIENCE)
    for day in (day for day in days[1:]):
        page = (tmp_path / f"{day}.html").read_text()
        assert f"3 requests on {day}" in page
    assert dcli.ok("schedules", "history", "nightly").count("STARTED") == 6


def test_files_are_taken_in_once_and_summed_up_by_batch(standing, worker, tmp_path):
    dcli = Cli(standing.address, "inbox")
    inbox = tmp_path / "inbox"
    for name, lines in {"mon/a": 2, "mon/b": 3, "tue/c": 4}.items():
        (inbox / name).parent.mkdir(parents=True, exist_ok=True)
        (inbox / name).write_text("line\n" * lines)
    dcli.ok("define", "-", input=example("intake.trigger.yaml", _srv_inbox=inbox))
    for what in (["--action", "inbox.list"], ["intake"], ["intake.batch"]):
        worker(dcli, *what, "--", MACHINES / "intake/take")
    eventually(lambda: list(results(dcli, "intake").values()) == ["SUCCESS"] * 3, PATIENCE)
    (inbox / "tue/d").write_text("line\n")
    dcli.ok("clock", "advance", "6s")
    eventually(lambda: list(results(dcli, "intake").values()) == ["SUCCESS"] * 4, PATIENCE)
    assert results(dcli, "intake.batch") == {}
    dcli.ok("clock", "advance", "40s")
    eventually(lambda: list(results(dcli, "intake.batch").values()) == ["SUCCESS"] * 2, PATIENCE)
    sums = {name: json.loads((inbox / f"{name}.summary.json").read_text()) for name in
            ("mon", "tue")}
    assert sums["mon"]["total"] == {"lines": 5, "bytes": 25}
    assert sorted(sums["tue"]["files"]) == ["tue/c", "tue/d"]
    assert sums["tue"]["total"]["lines"] == 5
