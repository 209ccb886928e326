"""The examples of machines/ that agents run: a site of three tiers on three hosts, and a pool with
graphics cards. Each host is an agent on this machine, and some of them die."""
import json
import os
import signal
import subprocess

import pytest

from support import CONSUMER, DCLI, MACHINES, SOON, Cli, eventually, kind, outputs, result

PATIENCE = 8 * SOON
HOSTS = {"db": "h1", "app": "h2", "web": "h3"}
# Stands in front of a command. Where a pipe has the name of its step, and of its agent, it says that
# it is there, and waits for a word.
WRAP = """\
#!/bin/sh
gate={gates}/$DFSMR_AGENT.$DFSMR_NODE
if [ -p "$gate" ]; then
  echo $$ >"$gate.here"
  read word <"$gate"
fi
exec "$@"
"""


class Gates:
    """Places in which commands wait until they are opened."""

    def __init__(self, folder):
        self.folder = folder / "gates"
        self.folder.mkdir()
        self.wrap = folder / "wrap.sh"
        self.wrap.write_text(WRAP.format(gates=self.folder))
        self.wrap.chmod(0o755)

    def close(self, agent, step):
        os.mkfifo(self.folder / f"{agent}.{step}")

    def waiting(self, agent, step):
        """The process that waits there, once there is one."""
        here = self.folder / f"{agent}.{step}.here"
        return int(eventually(lambda: here.exists() and here.read_text().strip(), PATIENCE))

    def away(self, agent, step):
        (self.folder / f"{agent}.{step}").unlink()


class Agent:
    def __init__(self, cli, file, name, *flags):
        self.cli, self.name = cli, name
        self.command = [str(DCLI), "agent", "--workers", str(MACHINES / file), "--name", name,
                        "--jobs", "2", "--keep-for", "1s", *map(str, flags)]
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env={**self.cli.environment, **CONSUMER})
        eventually(lambda: self.state() == "ACTIVE")

    def state(self):
        return {one["name"]: one.get("state") for one in self.cli.json("agents").get("agents", [])
                }.get(self.name)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def gates(tmp_path):
    return Gates(tmp_path)


@pytest.fixture
def agents():
    made = []

    def make(space, file, name, *flags):
        made.append(Agent(Cli(space.server.address, space.name), file, name, *flags))
        return made[-1]

    yield make
    for agent in made:
        agent.process.kill()
        agent.process.wait()


def lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def define(space, plan):
    Cli(space.server.address, space.name).ok("define", MACHINES / f"{plan}.plan.yaml")


def done(space, id):
    """Its steps, in the order in which they were done, and who did them."""
    return {change.prev_node: change.client for change in space.history(id)
            if kind(change) == "TRANSITIONED" and change.transition == "ok"}


def comes_in_order(steps, *wanted):
    places = [list(steps).index(step) for step in wanted]
    return places == sorted(places)


# A site of three tiers ------------------------------------------------------------------------


class Site:
    def __init__(self, space, root):
        self.space, self.root = space, root
        define(space, "tiers")

    def start(self, plan):
        return self.space.start(plan, params={"root": str(self.root), "hosts": HOSTS})

    def there(self):
        """What there is of it: tiers with a configuration, those that run, those that are connected."""
        return {name: sorted(path.parent.name if name != "running" else path.name
                             for path in self.root.glob(pattern))
                for name, pattern in [("configured", "*/*/config"), ("running", "*/running/*"),
                                      ("connected", "*/*/peer")]}


ALL = {"configured": ["app", "db", "web"], "running": ["app", "db", "web"],
       "connected": ["app", "web"]}
NOTHING = {"configured": [], "running": [], "connected": []}


@pytest.fixture
def site(space, agents, gates, tmp_path):
    for host in HOSTS.values():
        agents(space, "tiers/workers.yaml", host)
    return Site(space, tmp_path / "site")


def test_a_site_is_installed_on_its_hosts_and_removed_in_reverse(site):
    id = site.start("install")
    site.space.ends(id, "SUCCESS", PATIENCE)
    assert site.there() == ALL
    steps = done(site.space, id)
    for tier, host in HOSTS.items():
        assert {worker for step, worker in steps.items() if step.startswith(f"{tier}.")} == {host}
        assert comes_in_order(steps, f"{tier}.create", f"{tier}.configure", f"{tier}.start")
    assert comes_in_order(steps, "db.start", "app.configure", "app.start", "web.configure",
                          "web.start", "web_app")
    assert comes_in_order(steps, "app.start", "app_db", "web_app")
    assert (steps["app_db"], steps["web_app"]) == ("h2", "h3")
    assert json.loads((site.root / "h2/app/config").read_text()) == {
        "uses": outputs(site.space.get(id))["db.start"]["address"]}
    id = site.start("remove")
    site.space.ends(id, "SUCCESS", PATIENCE)
    assert site.there() == NOTHING
    assert comes_in_order(done(site.space, id), "web.disconnect", "web.stop", "web.delete",
                          "app.disconnect", "app.stop", "app.delete", "db.stop", "db.delete")


def test_what_fails_is_tried_again_and_then_taken_back(site):
    (site.root / "h3").mkdir(parents=True)
    (site.root / "h3/web").write_text("in the way")
    id = site.start("install")
    instance = site.space.ends(id, "ERROR", PATIENCE)
    assert "web.create" in instance.error and "File exists" in instance.error
    tries = [change for change in site.space.history(id)
             if change.prev_node == "web.create" and change.transition == "error"]
    assert len(tries) == 3
    assert site.there() == NOTHING
    steps = done(site.space, id)
    assert "app.start" in steps  # what does not concern it went on
    assert comes_in_order(steps, "app.start", "undo.web.delete", "undo.app.stop", "undo.app.delete",
                          "undo.db.stop", "undo.db.delete")
    (site.root / "h3/web").unlink()
    site.space.ends(site.start("install"), "SUCCESS", PATIENCE)
    assert site.there() == ALL


def test_it_goes_on_when_an_agent_and_the_server_are_killed_in_the_middle(
        new_server, agents, gates, tmp_path):
    server = new_server().start()
    space = server.space("tiers")
    site = Site(space, tmp_path / "site")
    hosts = {host: agents(space, "tiers/workers.yaml", host, "--wrap", gates.wrap)
             for host in HOSTS.values()}
    gates.close("h2", "app.configure")
    id = site.start("install")
    pid = gates.waiting("h2", "app.configure")
    hosts["h2"].kill()
    server.kill()
    eventually(lambda: not lives(pid), 1)
    gates.away("h2", "app.configure")
    server.start()
    hosts["h2"].start()
    space.ends(id, "SUCCESS", PATIENCE)
    assert site.there() == ALL
    attempts = [change.attempt for change in space.history(id)
                if change.prev_node == "app.configure" and change.transition == "ok"]
    assert attempts == [2]
    assert done(space, id)["app.configure"] == "h2"
    # Nothing else was begun twice.
    assert {change.attempt for change in space.history(id) if change.transition == "ok"
            and change.prev_node != "app.configure"} <= {0, 1}


def test_a_kill_in_the_middle_leaves_no_process_and_can_be_resumed(space, agents, gates, tmp_path):
    site = Site(space, tmp_path / "site")
    for host in HOSTS.values():
        agents(space, "tiers/workers.yaml", host, "--wrap", gates.wrap)
    gates.close("h2", "app.configure")
    id = site.start("install")
    pid = gates.waiting("h2", "app.configure")
    cli = Cli(space.server.address, space.name)
    killed = cli("cancel", id, "--kill")
    assert killed.returncode == 0 and not lives(pid)
    assert result(space.get(id)) == "CANCELLED" and cli.json("ps").get("operations", []) == []
    assert site.there() != ALL
    gates.away("h2", "app.configure")
    cli.ok("resume", id)
    space.ends(id, "SUCCESS", PATIENCE)
    assert site.there() == ALL


# A pool with graphics cards ---------------------------------------------------------------------


def test_frames_of_an_agent_that_dies_are_rendered_by_another(space, agents, gates, tmp_path):
    define(space, "render")
    folder = tmp_path / "film"
    first = agents(space, "render/workers.yaml", "g1", "--capability", "gpu", "--wrap", gates.wrap)
    agents(space, "render/workers.yaml", "c1")
    for step in ("frame.0", "frame.1"):
        gates.close("g1", step)
    id = space.start("render", params={"folder": str(folder), "frames": [0, 1, 2, 3, 4],
                                        "rows": 48})
    held = [gates.waiting("g1", step) for step in ("frame.0", "frame.1")]
    agents(space, "render/workers.yaml", "g2", "--capability", "gpu")
    first.kill()
    eventually(lambda: not any(lives(pid) for pid in held), 1)
    space.ends(id, "SUCCESS", PATIENCE)
    steps = done(space, id)
    frames = {step: worker for step, worker in steps.items() if step.startswith("frame.")}
    assert set(frames) == {f"frame.{number}" for number in range(5)}
    assert set(frames.values()) == {"g2"}
    assert {change.node for change in space.history(id) if kind(change) == "ABANDONED"} == {
        "frame.0", "frame.1"}
    film = outputs(space.get(id))["film"]
    assert film["frames"] == 5
    with open(film["file"], "rb") as file:
        assert file.read().count(b"P5 64 48 255\n") == 5
    assert result(space.get(id)) == "SUCCESS"


def test_frames_wait_for_an_agent_with_a_graphics_card(space, agents, tmp_path):
    define(space, "render")
    agents(space, "render/workers.yaml", "c1")
    id = space.start("render", params={"folder": str(tmp_path), "frames": [0],
                                        "rows": 48})
    cli = Cli(space.server.address, space.name)
    assert "no agent has gpu" in eventually(
        lambda: "no agent has" in cli.ok("show", id) and cli.ok("show", id))
    agents(space, "render/workers.yaml", "g1", "--capability", "gpu")
    space.ends(id, "SUCCESS", PATIENCE)


def test_a_frame_goes_on_at_its_checkpoint(space, agents, tmp_path):
    define(space, "render")
    cli = Cli(space.server.address, space.name)
    first = agents(space, "render/workers.yaml", "g1", "--capability", "gpu")
    rows = 20_000  # some seconds, so that it dies in the midst of them
    id = space.start("render", params={"folder": str(tmp_path), "frames": [0], "rows": rows})
    eventually(lambda: any(one.get("progress", 0) > 0.02
                           for one in cli.json("ps").get("operations", [])), PATIENCE)
    first.kill()
    agents(space, "render/workers.yaml", "g2", "--capability", "gpu")
    space.ends(id, "SUCCESS", PATIENCE)
    [line] = [json.loads(line)["text"] for line in cli.ok("logs", id, "-o", "json").splitlines()
              if "goes on at row" in line]
    assert 0 < int(line.split()[-1]) < rows
    frame = (tmp_path / "0000.pgm").read_bytes()
    assert len(frame) == len(f"P5 64 {rows} 255\n") + 64 * rows
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".log") == [
        "0000.pgm", "film.pgm"]
