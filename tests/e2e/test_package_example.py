"""The example of machines/etl, from its folder to production and back: checked, built, signed,
pushed, activated, run by an agent, changed under running instances, rolled back. And the inner loop
on a copy of it."""
import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

from support import DCLI, MACHINES, SOON, Cli, eventually, outputs, result
from test_agent_packages import Agent, ends, start_agent, wait_for  # noqa: F401, fixtures
from test_secrets import vault  # noqa: F401, fixture


@pytest.fixture
def cli(space):
    return Cli(space.server.address, space.name)


@pytest.fixture
def etl(tmp_path):
    shutil.copytree(MACHINES / "etl", tmp_path / "etl")
    return tmp_path / "etl"


def change(folder, file, *instead):
    path = folder / file
    text = path.read_text()
    for old, new in instead:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)


def loaded(cli, id):
    """The orders that a run has loaded, and on which version of the package."""
    children = cli.json("instances", "--machine", "etl.order", "-o", "json")["instances"]
    return [child["package"]["version"] for child in children if child["parent"] == id]


@pytest.fixture
def agent_with_token(vault, tmp_path):  # noqa: F811
    """Starts an agent that may read the warehouse's password."""
    made = []

    def begin(*flags):
        token = tmp_path / "agent.token"
        token.write_text(vault.token("warehouse"))
        made.append(Agent(Cli(vault.server.address, vault.name), tmp_path, *flags,
                          "--token-file", token))
        return made[-1].ready()

    yield begin
    for agent in made:
        agent.dispose()


def test_from_a_folder_to_production_and_back(vault, etl, tmp_path, agent_with_token):  # noqa: F811
    cli, space = Cli(vault.server.address, vault.name), vault.space
    cli.ok("secret", "put", "warehouse", input="pl4nted-password\n")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"],
                   check=True)
    (tmp_path / "allowed_signers").write_text(
        "ann@example.org " + (tmp_path / "key.pub").read_text())
    gate = tmp_path / "gate"
    change(etl, "bin/fetch", ("  *orders.list)", f"  *orders.fetch) {wait_for(gate)}\n"
                                                 "    echo '{\"output\": {\"lines\": 3}}' ;;\n"
                                                 "  *orders.list)"))
    assert "package etl@1.4.0  ok" in cli.ok("package", "check", etl)
    built = cli.json("package", "build", etl, "--out", tmp_path)
    file = tmp_path / "etl-1.4.0.dfsmr"
    cli.ok("package", "sign", file, "--key", tmp_path / "key")
    cli.ok("package", "verify", file, "--allowed-signers", tmp_path / "allowed_signers")
    assert built["digest"] in cli.ok("package", "push", file)
    assert "none -> etl@1.4.0" in cli.ok("package", "activate", "etl@1.4.0")

    agent_with_token("--package", "etl", "--trusted-keys", tmp_path / "allowed_signers")
    first = space.start("etl.orders", params={"day": "2026-11-22"})
    eventually(lambda: len(cli.json("ps").get("operations", [])) >= 3, 4 * SOON)

    # Changed while it runs: those who run go on with the programs of their version.
    change(etl, "package.yaml", ("1.4.0", "1.5.0"))
    change(etl, "bin/fetch", ('"a-1", "a-2", "a-3"', '"b-1"'), (wait_for(gate), "true"))
    change(etl, "workers/load.py", ('{"day":', '{"by": "1.5.0", "day":'))
    assert "etl@1.4.0 -> etl@1.5.0" in cli.ok("package", "push", etl, "--activate", "--sign-with",
                                              tmp_path / "key")
    second = space.start("etl.orders", params={"day": "2026-11-23"})
    ends(space, second)
    assert loaded(cli, second) == ["1.5.0"]
    assert outputs(space.get(second))["report"] == {"by": "1.5.0", "day": "2026-11-23"}
    assert result(space.get(first)) == "PENDING"
    gate.touch()
    ends(space, first)
    assert loaded(cli, first) == ["1.4.0"] * 3
    assert outputs(space.get(first))["report"] == {"day": "2026-11-22"}

    assert "etl@1.5.0 -> etl@1.4.0" in cli.ok("package", "rollback", "etl")
    third = space.start("etl.orders", params={"day": "2026-11-24"})
    ends(space, third)
    assert loaded(cli, third) == ["1.4.0"] * 3
    said = cli.ok("logs", third)
    assert "begins: " in said  # by its middleware
    assert "etl.nightly" in cli.ok("schedules")


# The inner loop -------------------------------------------------------------------------------


class Dev:
    def __init__(self, cli, tmp_path, *words):
        self.out, self.err = tmp_path / "dev.out", tmp_path / "dev.err"
        self.process = subprocess.Popen(
            [str(DCLI), "package", "dev", *map(str, words)], stdin=subprocess.DEVNULL,
            stdout=self.out.open("wb"), stderr=self.err.open("wb"), cwd=tmp_path,
            env={**cli.environment, "XDG_CACHE_HOME": str(tmp_path / "caches")})

    def active(self, count=1, within=4 * SOON):
        """The version of the count-th line that says that one is active."""
        def find():
            lines = re.findall(r"(?m)^(\S+) is active: ", self.out.read_text())
            assert self.process.poll() is None, self.err.read_text()
            return lines[count - 1] if len(lines) >= count else None
        return eventually(find, within)

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(SOON) == 0, self.err.read_text()
        return self.out.read_text().splitlines()[-1]


@pytest.fixture
def dev(cli, tmp_path):
    made = []

    def begin(*words):
        made.append(Dev(cli, tmp_path, *words))
        return made[-1]

    yield begin
    for one in made:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait()


SMALL = "id: m\nnodes:\n  a: {start: true, transitions: {ok: end}}\n  end: {final: true}\n"


@pytest.fixture
def small(tmp_path):
    folder = tmp_path / "small"
    (folder / "documents").mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "package.yaml").write_text(
        "package: small\nversion: 1.0.0\nworkers: {all: {serves: [m.a], run: ./bin/run}}\n")
    (folder / "documents" / "m.yaml").write_text(SMALL)
    (folder / "bin" / "run").write_text("#!/bin/sh\necho one\n")
    (folder / "bin" / "run").chmod(0o755)
    for number in range(100):
        (folder / f"file{number}").write_text(str(number))
    return folder


def versions(cli, name="small"):
    return {one["version"]: one["state"]
            for one in cli.json("package", "list", name).get("packages", [])}


def output(cli, id):
    return [line.split("  ")[-1] for line in cli.ok("logs", id).splitlines()]


@pytest.mark.parametrize("flags", [[], ["--poll"]])
def test_what_is_saved_runs(cli, space, small, dev, flags):
    run = dev(small, *flags)
    first = run.active()
    assert re.fullmatch(r"small@1\.0\.0-dev\.h[0-9a-f]{12}", first)
    one = space.start("small.m")
    ends(space, one)
    assert "one" in output(cli, one)
    before = time.monotonic()
    (small / "bin" / "run").write_text("#!/bin/sh\necho two\n")
    second = run.active(2)
    two = space.start("small.m")
    ends(space, two)
    took = time.monotonic() - before
    print(f"{flags}: a task of what was saved had ended after {took:.2f} s")
    assert "two" in output(cli, two) and second != first
    eventually(lambda: "two" in run.out.read_text().splitlines())
    eventually(lambda: versions(cli) == {second.split("@")[1]: "ACTIVE"})

    (small / "documents" / "m.yaml").write_text(SMALL.replace("ok: end", "ok: nowhere"))
    eventually(lambda: f"{second} stays active" in run.err.read_text())
    assert re.search(r"(?m)^\S*small/documents/m.yaml:3:\d+: ", run.err.read_text())
    (small / "documents" / "m.yaml").write_text(SMALL)
    (small / "bin" / "run").write_text("#!/bin/sh\necho one\n")
    assert run.active(3) == first  # the same folder, the same version
    assert run.stop() == f"{first} stays active; rollback: dcli package deactivate small" + (
        f" --namespace {space.name}")
    assert versions(cli)[first.split("@")[1]] == "ACTIVE"


def test_its_secrets_are_in_a_file(cli, space, small, dev, tmp_path):
    change(small, "package.yaml", ("run: ./bin/run", "run: ./bin/run, env: {KEY: {secret: key}}"))
    change(small, "bin/run", ("echo one", "test \"$KEY\" = sesame-open"))
    (tmp_path / "env").write_text("key=sesame-open\n")
    run = dev(small, "--env-file", tmp_path / "env")
    run.active()
    ends(space, space.start("small.m"))


def test_it_says_how_to_go_back(cli, space, small, dev):
    cli.ok("package", "push", small, "--activate")
    run = dev(small)
    first = run.active()
    last = run.stop()
    assert last.endswith(f"rollback: dcli package rollback small --namespace {space.name}")
    cli.ok(*last.partition("rollback: dcli ")[2].split())
    assert versions(cli)["1.0.0"] == "ACTIVE" and first
    run = dev(small)
    run.active()
    (small / "file1").write_text("changed")
    run.active(2)
    cli.ok(*run.stop().partition("rollback: dcli ")[2].split())
    assert versions(cli)["1.0.0"] == "ACTIVE"


def test_a_folder_of_archives_is_a_registry(cli, space, small, dev, tmp_path):
    folder = tmp_path / "registry"
    folder.mkdir()
    cli.ok("package", "build", small, "--out", folder)
    run = dev(folder, "--no-agent")
    assert run.active() == "small@1.0.0"
    cli.ok("package", "build", small, "--version", "1.10.0", "--out", tmp_path)
    os.rename(tmp_path / "small-1.10.0.dfsmr", folder / "small-1.10.0.dfsmr")
    assert run.active(2) == "small@1.10.0"
    cli.ok("package", "build", small, "--version", "1.9.0", "--out", folder)
    eventually(lambda: versions(cli) == {"1.0.0": "IDLE", "1.9.0": "IDLE", "1.10.0": "ACTIVE"})
    (folder / "broken.dfsmr").write_text("this is none")
    eventually(lambda: "broken.dfsmr" in run.err.read_text())
    run.stop()
    assert cli.json("agents").get("agents", []) == []


def test_packages_that_appear_later_are_served_too(cli, space, small, dev, tmp_path):
    folder = tmp_path / "packages"
    folder.mkdir()
    run = dev(folder)
    eventually(lambda: "there is no package in" in run.err.read_text())
    shutil.copytree(small, folder / "one")
    assert run.active().startswith("small@")
    gate = tmp_path / "gate"
    change(folder / "one", "bin/run", ("echo one", f"echo one; {wait_for(gate)}"))
    run.active(2)
    held = space.start("small.m")
    eventually(lambda: cli.json("ps").get("operations"))
    shutil.copytree(small, tmp_path / "two")
    change(tmp_path / "two", "package.yaml", ("package: small", "package: other"))
    os.rename(tmp_path / "two", folder / "two")
    assert run.active(3).startswith("other@")
    ends(space, space.start("other.m"))
    gate.touch()
    ends(space, held)  # by the attempt that had begun before the agent asked for more
    assert [change.attempt for change in space.history(held) if change.transition == "ok"] == [1]
    [agent] = cli.json("agents")["agents"]
    assert agent["packages"] == ["other", "small"]


def test_it_waits_for_a_server_and_refuses_what_is_no_folder(cli, new_server, small, dev,
                                                            tmp_path):
    done = cli("package", "dev", tmp_path / "none")
    assert done.returncode == 2 and "is no folder" in done.stderr
    server = new_server()
    away = Cli(f"127.0.0.1:{server.port}", "default")
    run = Dev(away, tmp_path, small)
    eventually(lambda: "no server at" in run.err.read_text())
    server.start()
    assert run.active().startswith("small@1.0.0-dev.")
    assert run.stop()
