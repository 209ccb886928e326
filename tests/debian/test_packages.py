"""The packages of `make deb`, in a bare Debian 12 that boots its own systemd: installed, used,
upgraded with work in it, removed, purged. BUILD names the folder of the build."""
import gzip
import os
import pathlib
import re

import pytest

from machine import Machine, bare_system, eventually, run

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build-release"))
ORDER = """id: order
nodes:
  pay: {start: true, transitions: {ok: ship}}
  ship: {transitions: {ok: done}}
  done: {final: true}
"""


def package(name):
    found = sorted(BUILD.glob(f"{name}_*.deb"))
    assert len(found) == 1, f"{found}: `make deb` leaves one of each"
    return found[0]


@pytest.fixture(scope="module")
def packages():
    return package("dfsmr-cli"), package("dfsmr")


@pytest.fixture(scope="module")
def machine(packages, tmp_path_factory):
    made = Machine(BUILD / "debian" / "root")
    bare_system(BUILD / "debian" / "bookworm.tar", made.root)
    for file in packages:
        made.install_what_these_depend_on(file)
    made.copy_in(*packages)
    made.boot()
    yield made
    made.halt()


def main_pid(machine):
    return machine.sh("systemctl show -P MainPID dsrv").stdout.strip()


def active(machine):
    return machine.sh("systemctl is-active dsrv", check=False).stdout.strip()


def test_lintian_finds_no_errors(packages):
    run("lintian", "--fail-on", "error", "--no-tag-display-limit", "--allow-root", *packages)


def test_the_unit_is_hardened():
    unit = ROOT / "dsrv" / "debian" / "dsrv.service"
    run("systemd-analyze", "security", "--offline=true", "--threshold=25", unit)


def test_man_pages_say_what_help_says(packages, tmp_path):
    for file in packages:
        run("dpkg-deb", "-x", file, tmp_path)

    def page(name):
        text = gzip.decompress((tmp_path / "usr/share/man" / name).read_bytes()).decode()
        return text.replace("\\-", "-")

    dcli = page("man1/dcli.1.gz")
    commands = re.findall(r"(?m)^  ([a-z]+)  +", run(tmp_path / "usr/bin/dcli", "help").stdout)
    assert len(commands) > 40
    for command in commands:
        assert re.search(rf"(?m)^\.SS {command}\b", dcli), command
    server, settings = page("man8/dsrv.8.gz"), page("man5/dsrv.yaml.5.gz")
    flags = re.findall(r"(?m)^ +(?:-h,)?--([a-z-]+)", run(tmp_path / "usr/bin/dsrv", "--help").stdout)
    assert len(flags) > 20
    assert ".B dsrv verify DIR|FILE" in server
    for flag in set(flags) - {"help", "version", "config"}:
        assert f"--{flag}" in server, flag
        assert f".B {flag}: " in settings, flag
    assert ".SH" in page("man5/dfsmr-machines.5.gz")


# From here on in the order of a machine's life.


def test_installing_starts_the_server_on_loopback(machine):
    machine.sh("DEBIAN_FRONTEND=noninteractive apt-get install -y -qq"
               " ~/dfsmr-cli_*.deb ~/dfsmr_*.deb")
    eventually(lambda: active(machine) == "active")
    assert machine.sh("stat -c '%U %G %a' /var/lib/dfsmr").stdout.split() == ["dfsmr", "dfsmr", "750"]
    assert machine.sh(f"stat -c %U /proc/{main_pid(machine)}").stdout.strip() == "dfsmr"
    listening = machine.sh("cat /proc/net/tcp /proc/net/tcp6").stdout
    port = f"{3004:04X}"
    assert re.search(rf": (?:0100007F|0{{24}}01000000):{port} 0+:0000 0A", listening)
    assert not re.search(rf": 0+:{port} 0+:0000 0A", listening), "it can be reached from elsewhere"


def test_the_first_example_runs(machine):
    (machine.root / "root/order.fsm.yaml").write_text(ORDER)
    machine.sh("dcli define ~/order.fsm.yaml")
    machine.sh("dcli start order --id first")
    for _ in ("pay", "ship"):
        machine.sh("timeout 30 dcli work order --once -- true")
    shown = machine.sh("dcli show first").stdout
    assert "SUCCESS" in shown, shown


def test_a_reload_reads_the_settings_again(machine):
    machine.sh("sed -i 's/^log-level: info/log-level: debug/' /etc/dfsmr/dsrv.yaml")
    before = main_pid(machine)
    machine.sh("systemctl reload dsrv")
    eventually(lambda: "the log level is debug" in machine.sh("journalctl -u dsrv --no-pager").stdout)
    assert main_pid(machine) == before


def test_an_upgrade_restarts_it_and_loses_no_work(machine, packages, tmp_path):
    machine.sh("dcli start order --id kept")
    machine.sh("dcli ready order --worker w > ~/claimed")  # a claim that is open during the upgrade
    before = main_pid(machine)
    for file in packages:
        folder = tmp_path / file.stem
        run("dpkg-deb", "-R", file, folder)
        control = folder / "DEBIAN" / "control"
        control.write_text(control.read_text().replace("1.0.0", "1.0.1"))
        run("dpkg-deb", "--root-owner-group", "-b", folder, tmp_path / f"next-{file.name}")
        machine.copy_in(tmp_path / f"next-{file.name}")
    machine.sh("DEBIAN_FRONTEND=noninteractive apt-get install -y -qq ~/next-*.deb")
    eventually(lambda: active(machine) == "active" and main_pid(machine) != before)
    assert "log-level: debug" in machine.sh("cat /etc/dfsmr/dsrv.yaml").stdout, "own settings stay"
    shown = machine.sh("dcli show kept").stdout
    assert "pay" in shown and "claimed" in shown.lower(), shown
    assert "SUCCESS" in machine.sh("dcli show first").stdout


def test_the_watchdog_restarts_a_stuck_server(machine):
    folder = machine.root / "run/systemd/system/dsrv.service.d"
    machine.sh("mkdir -p /run/systemd/system/dsrv.service.d && printf '[Service]\\nWatchdogSec=3s\\n'"
               " > /run/systemd/system/dsrv.service.d/soon.conf && systemctl daemon-reload"
               " && systemctl restart dsrv")
    assert folder is not None
    stuck = main_pid(machine)
    machine.sh(f"kill -STOP {stuck}")
    eventually(lambda: active(machine) == "active" and main_pid(machine) not in (stuck, "0"))
    assert "SUCCESS" in machine.sh("dcli show first").stdout


def test_removing_keeps_the_data(machine):
    machine.sh("DEBIAN_FRONTEND=noninteractive apt-get remove -y -qq dfsmr")
    assert active(machine) != "active"
    machine.sh("test -e /var/lib/dfsmr/CURRENT && test -e /etc/dfsmr/dsrv.yaml && test ! -e /usr/bin/dsrv")
    machine.sh("DEBIAN_FRONTEND=noninteractive apt-get install -y -qq ~/next-dfsmr_*.deb")
    eventually(lambda: active(machine) == "active")
    assert "SUCCESS" in machine.sh("dcli show first").stdout


def test_purging_asks_nothing_and_removes_all(machine):
    machine.sh("apt-get purge -y -qq dfsmr dfsmr-cli < /dev/null")
    machine.sh("test ! -e /var/lib/dfsmr && test ! -e /etc/dfsmr && test ! -e /usr/bin/dcli")
    assert machine.sh("systemctl list-unit-files dsrv.service --no-legend", check=False).stdout == ""
