"""The deploys of machines/: one at a time in an environment, the newest of those that wait, and a
clean-up in any case, also when the server is killed on the way. The server's clock is virtual."""
import itertools
import json
import os
import re
import subprocess

import pytest

from support import CONSUMER, MACHINES, SOON, Cli, eventually, together

PATIENCE = 6 * SOON
BEGIN = "2026-05-04T09:00:00Z"
FILE = MACHINES / "deploy.plan.yaml"
RELEASE = MACHINES / "deploy/release"
# Says that it is there, and waits until a word comes.
PROBE = "#!/bin/sh\necho here >>{seen}\nread word <{gate}\n{then}\n"


class Gate:
    """A place in which probes wait until it is opened."""

    def __init__(self, folder):
        self.path = folder / "gate"
        self.seen = folder / "seen"
        os.mkfifo(self.path)
        self.end = None

    def probe(self, then=""):
        return PROBE.format(seen=self.seen, gate=self.path, then=then)

    def waiting(self):
        return len(self.seen.read_text().splitlines()) if self.seen.exists() else 0

    def open(self):
        """For all probes: those that wait, and those that come."""
        self.end = os.open(self.path, os.O_RDWR)
        os.write(self.end, 100 * b"word\n")

    def close(self):
        if self.end is not None:
            os.close(self.end)


@pytest.fixture
def gate(tmp_path):
    made = Gate(tmp_path)
    yield made
    made.close()


@pytest.fixture
def standing(new_server):
    return new_server(virtual_clock=BEGIN).start()


@pytest.fixture
def dcli(standing):
    made = Cli(standing.address, "releases")
    made.ok("define", FILE)
    return made


@pytest.fixture
def worker(dcli):
    """Works off all steps of deploys, while a server is there."""
    process = dcli.background("work", "deploy", "--jobs", "4", "--", RELEASE, environment=CONSUMER)
    yield process
    process.terminate()
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0, err + out


class Site:
    """Releases, and environments to which they are deployed."""

    def __init__(self, dcli, folder):
        self.dcli = dcli
        self.folder = folder
        self.root = folder / "site"

    def release(self, name, probe=""):
        made = self.folder / name
        made.mkdir()
        (made / "page").write_text(name)
        if probe:
            (made / "probe").write_text(probe)
            (made / "probe").chmod(0o755)
        return made

    def deploy(self, release, env, id):
        return self.dcli.ok("start", "deploy", f"release={release}", f"env={env}",
                            f"root={self.root}", "--id", id)

    def live(self, env):
        page = self.root / env / "current/page"
        return page.read_text() if page.exists() else None

    def copies(self, env):
        return sorted(path.name for path in (self.root / env / "releases").iterdir())

    def log(self, env):
        """Which steps were done in an environment, by instance, as they followed each other."""
        lines = (self.root / env / "log").read_text().splitlines()
        runs = itertools.groupby(map(str.split, lines), lambda line: line[0])
        return [(id, [step for _, step in steps]) for id, steps in runs]

    def instances(self):
        return self.dcli.json("instances", "--machine", "deploy").get("instances", [])

    def results(self):
        return {one["id"]: one["result"] for one in self.instances()}

    def ends(self, **results):
        """Those that are given must end so; results that nobody waits for may follow."""
        wanted = results.items()
        eventually(lambda: wanted <= self.results().items(), PATIENCE)

    def probing(self, id):
        """Its probe was handed out, and that is on disk."""
        claimed = re.compile(r" CLAIMED .* probe ")
        return eventually(lambda: claimed.search(self.dcli.ok("history", id)), PATIENCE)

    def feed(self):
        lines = self.dcli.ok("-o", "json", "changes", "--after", "0", "--no-follow").splitlines()
        return [change for change in map(json.loads, lines) if "instance" in change]


@pytest.fixture
def site(dcli, tmp_path):
    return Site(dcli, tmp_path)


def most_at_once(feed, env_of):
    """The largest number of deploys that had begun, and not ended, in any environment."""
    running, most = {}, 0
    for change in feed:
        id = change["instance"]
        inside = running.setdefault(env_of[id], set())
        if change["kind"] == "STARTED":
            inside.add(id)
        elif change["kind"] == "FINISHED":
            inside.discard(id)
        most = max(most, len(inside))
    return most


def commands():
    """Those in the head of the file, by their first words."""
    head = re.match(r"(#.*\n)+", FILE.read_text())[0]
    lines = [re.sub(r"\b {3,}[a-z].*", "", line) for line in re.findall(r"(?m)^#   (.*)", head)]
    text = re.sub(r"do\n\s+(.*)\ndone", r"do \1; done", "\n".join(lines))
    return {" ".join(line.split()[:3]): line for line in text.splitlines()}


def test_a_release_is_deployed_as_the_page_says(standing, site, worker, tmp_path):
    said = commands()
    site.release("build-42")

    def run(words):
        line = said.pop(words).replace("/srv/app", str(site.root))
        environment = {**site.dcli.environment, **CONSUMER}
        return subprocess.run(["bash", "-ec", line], cwd=tmp_path, env=environment, text=True,
                              check=True, capture_output=True, timeout=60).stdout

    assert FILE.name in said.pop("dcli define machines/deploy.plan.yaml")
    assert said.pop("dcli work deploy").endswith("-- machines/deploy/release")
    run("for env in")
    assert "SUCCESS" in run("dcli groups wait")
    assert {env: site.live(env) for env in ("test", "stage", "prod")} == dict.fromkeys(
        ("test", "stage", "prod"), "build-42")

    site.deploy(tmp_path / "build-42", "test", "again")
    site.ends(again="SUCCESS")
    assert site.log("test")[-1] == ("again", ["compare", "probe", "tidy"])  # it was there already

    run("dcli limits set")
    standing.advance(by=24 * 3600)
    site.deploy(site.release("build-43"), "prod", "frozen")
    assert re.search(r"(?m)^frozen ", run("dcli limits env/prod").split("WAITS")[1])
    run("dcli limits reset")
    site.ends(frozen="SUCCESS")
    # The next one has to wait for a quarter of an hour.
    site.deploy(site.release("build-44"), "prod", "soon")
    assert site.results()["soon"] == "PENDING" and site.live("prod") == "build-43"
    standing.advance(by=15 * 60)
    site.ends(soon="SUCCESS")
    assert site.live("prod") == "build-44"
    assert not said


def test_a_newer_one_replaces_the_one_that_waits_also_after_a_crash(standing, site, worker, gate):
    first, second, third, other = (site.release(name, gate.probe())
                                   for name in ("first", "second", "third", "other"))
    together(lambda: site.deploy(first, "test", "a"), lambda: site.deploy(second, "test", "b"))
    begun, waits = [id for one in ("RUNNING", "SCHEDULED")
                    for id in [each["id"] for each in site.instances() if each["state"] == one]]
    site.deploy(other, "stage", "other")  # nobody is there
    site.probing(begun), site.probing("other")
    standing.kill()
    standing.start()
    site.deploy(third, "test", "c")
    site.ends(**{waits: "CANCELLED"})
    told = site.dcli.json("show", waits)["error"]
    assert "'env/test'" in told and "'c'" in told
    limit = site.dcli.json("limits", "env/test")
    assert [one["instance"] for one in limit["holders"]] == [begun]
    assert [one["instance"] for one in limit["waiters"]] == ["c"]
    gate.open()
    site.ends(**{begun: "SUCCESS", "c": "SUCCESS", "other": "SUCCESS"})
    assert (site.live("test"), site.copies("test")) == ("third", ["c"])
    assert (site.live("stage"), site.copies("stage")) == ("other", ["other"])
    assert [id for id, _ in site.log("test")] == [begun, "c"]


def test_a_release_that_fails_its_probe_is_taken_back(standing, site, worker, gate):
    site.deploy(site.release("good"), "test", "good")
    site.deploy(site.release("none", "#!/bin/sh\nexit 1\n"), "stage", "none")
    site.ends(good="SUCCESS", none="ERROR")
    assert site.live("stage") is None and site.copies("stage") == []
    bad = site.release("bad", gate.probe("echo the page is blank >&2; exit 3"))
    site.deploy(bad, "test", "bad")
    site.probing("bad")
    eventually(gate.waiting)
    assert site.live("test") == "bad"
    standing.kill()
    gate.open()
    standing.start()
    site.ends(bad="ERROR")
    assert "the page is blank" in site.dcli.json("show", "bad")["error"]
    assert (site.live("test"), site.copies("test")) == ("good", ["good"])
    id, steps = site.log("test")[-1]
    assert id == "bad" and steps[-2:] == ["rollback", "tidy"]


def test_a_deploy_that_fails_half_way_leaves_the_live_one_alone(site, worker, tmp_path):
    site.deploy(site.release("good"), "test", "good")
    site.ends(good="SUCCESS")
    (site.root / "test/releases/.draft.1").mkdir()  # of a worker that was killed
    site.deploy(tmp_path / "gone", "test", "bad")
    site.ends(bad="ERROR")
    assert "gone" in site.dcli.json("show", "bad")["error"]
    assert (site.live("test"), site.copies("test")) == ("good", ["good"])
    assert site.log("test")[-1] == ("bad", ["compare", "tidy"])


def test_many_at_once_go_one_at_a_time_and_the_latest_is_what_stays(standing, site, worker, gate):
    envs = ("test", "stage")
    env_of = {f"{env}-{n}": env for env in envs for n in range(6)}
    for id in env_of:
        site.release(id, gate.probe())
    assert all(together(*(lambda id=id, env=env: site.deploy(site.folder / id, env, id)
                          for id, env in env_of.items())))
    eventually(lambda: gate.waiting() == len(envs), PATIENCE)
    standing.kill()
    gate.open()
    standing.start()
    eventually(lambda: "PENDING" not in site.results().values(), PATIENCE)
    feed, results = site.feed(), site.results()
    asked = [change["instance"] for change in feed if change["kind"] in ("SCHEDULED", "STARTED")]
    for env in envs:
        here = list(dict.fromkeys(id for id in asked if env_of[id] == env))
        assert [results[id] for id in here] == ["SUCCESS", *4 * ["CANCELLED"], "SUCCESS"]
        assert (site.live(env), site.copies(env)) == (here[-1], [here[-1]])
        assert [id for id, _ in site.log(env)] == [here[0], here[-1]]
    assert most_at_once(feed, env_of) == 1
