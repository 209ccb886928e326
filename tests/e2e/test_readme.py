"""README.md is true: its machine, its commands and what they print, its consumer, its tables."""
import functools
import http.server
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import typing

import pytest

from certificates import Authority
from stubs import REPOSITORY
from support import BIN, DSRV, SOON, eventually, free_port, result

README = (REPOSITORY / "README.md").read_text()


class Block(typing.NamedTuple):
    section: str
    language: str
    text: str


def blocks():
    found, section, fence = [], "", None
    for line in README.splitlines():
        if fence is not None:
            if line == "```":
                found.append(Block(section, fence[0], "".join(fence[1:])))
                fence = None
            else:
                fence.append(line + "\n")
        elif line.startswith("```"):
            fence = [line[3:]]
        elif line.startswith("#"):
            section = line.lstrip("# ")
    return found


def texts(section, language):
    found = [block.text for block in blocks() if block[:2] == (section, language)]
    assert found, f"README.md has no {language} under '{section}'"
    return found


def section(title):
    return README.split(f"\n## {title}\n")[1].split("\n## ")[0]


@pytest.fixture
def shell(server, tmp_path):
    """Runs commands as in the repository, with the programs in the path and the server's address."""
    folder = tmp_path / "shell"
    folder.mkdir()
    for name in ("machines", "proto"):
        (folder / name).symlink_to(REPOSITORY / name)
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "NO_COLOR": "1",
                   "DFSMR_SERVER": server.address, "no_proxy": "127.0.0.1"}
    environment.pop("DFSMR_NAMESPACE", None)
    return functools.partial(subprocess.Popen, text=True, cwd=folder, env=environment,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, start_new_session=True)


def finish(process, within=60):
    try:
        return process.communicate(timeout=within)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        pytest.fail(f"{process.args} did not end:\n{process.communicate()[0]}")


# The machine ----------------------------------------------------------------------------------


def test_the_machine_has_ten_lines_and_its_picture_is_what_graph_prints(shell, tmp_path):
    [machine] = texts("A machine in ten lines", "yaml")
    [picture] = texts("A machine in ten lines", "mermaid")
    assert len(machine.splitlines()) == 10
    file = tmp_path / "crawler.fsm.yaml"
    file.write_text(machine)
    check = shell(["dcli", "check", file])
    assert (finish(check), check.returncode) == (f"crawler  ok  3 nodes  {file}\n", 0)
    assert finish(shell(["dcli", "graph", file])) == picture


# The tour -------------------------------------------------------------------------------------

CLAIM = re.compile(r"\b\d+-\d+-\d+-[0-9a-f]+\b")
# What is another at each run, and what stands for it.
VOLATILE = [
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"), (CLAIM.pattern, "CLAIM"),
    (r"\b(\d+\.\d+)\.[0-9a-f]+$", r"\1.LIFE"),
    (r"ipv[46]:\S+", "PEER"), (r"\b[\w.-]+@[\w.-]+", "USER"),
    (r"\b(\d+h|\d+m|[\d.]+s|[\d.]+ms|[\d.]+µs|[\d.]+us)+(?!\w)", "DURATION"),
]


def masked(line):
    for pattern, name in VOLATILE:
        line = re.sub(pattern, name, line)
    return re.sub(r"[ \t]+", " ", line).strip()


class Step(typing.NamedTuple):
    command: str
    lines: list


def tour(section):
    steps = []
    for block in texts(section, "console"):
        for line in block.splitlines():
            if line.startswith("$ "):
                steps.append(Step(line[2:], []))
            else:
                steps[-1].lines.append(line)
    return steps


def matches(wanted, printed):
    """Line by line; a line that is `…` stands for any number of lines."""
    if not wanted:
        return not printed
    if wanted[0] == "…":
        return any(matches(wanted[1:], printed[i:]) for i in range(len(printed) + 1))
    return bool(printed) and wanted[0] == printed[0] and matches(wanted[1:], printed[1:])


def check_step(shell, step, command):
    """What the command printed, once it is what README.md says."""
    process = shell(["bash", "-c", command])
    printed = finish(process)
    wanted = [masked(line) for line in step.lines]
    assert matches(wanted, [masked(line) for line in printed.splitlines()]), \
        f"$ {command}\n{printed}"
    refused = any(line.startswith("hint: ") for line in step.lines)
    assert process.returncode == (1 if refused else 0), f"$ {command}\n{printed}"
    return printed or "\n"


def take(shell, section):
    """Runs the commands of a section, which must print what it says."""
    background, claims = [], {}
    for step in tour(section):
        command = CLAIM.sub(lambda claim: claims[claim[0]], step.command)
        if command.endswith("&"):
            background.append(shell(shlex.split(command.removesuffix("&"))))
            continue
        # Counts may lag behind a little.
        patience = SOON if command.startswith("dcli machines") else 0
        printed = eventually(functools.partial(check_step, shell, step, command), patience)
        claims |= zip(CLAIM.findall("\n".join(step.lines)), CLAIM.findall(printed))
    for process in background:
        process.send_signal(signal.SIGINT)
        finish(process)
        assert process.returncode == 0


def test_the_tour_prints_what_it_says(shell):
    take(shell, "The command line")


def test_the_plan_is_run_as_it_says(shell):
    [plan] = texts("Plans", "yaml")
    (shell.keywords["cwd"] / "site.yaml").write_text(plan)
    take(shell, "Plans")


# Security -------------------------------------------------------------------------------------


def test_the_server_is_secured_as_it_says(shell, tmp_path):
    folder = shell.keywords["cwd"]
    authority = Authority(folder, "ca")
    for file, name in zip(authority.sign("server"), ("server.pem", "server.key")):
        assert file == folder / name
    serve, use = (text.replace("3004", str(port)).replace("/var/lib/dfsmr", str(tmp_path / "data"))
                  for port in [free_port()] for text in texts("Security", "sh"))
    server = shell(["bash", "-ec", serve.replace("\ndsrv", "\nexec dsrv")])
    try:
        eventually(lambda: (folder / "admin.token").exists() and (folder / "audit.log").exists())
        work = "dcli define machines/crawler.fsm.yaml; dcli start crawler url=https://example.org/"
        use = use.replace("dcli token list", f"dcli token list; {work}")
        process = eventually(lambda: finished_well(shell(["bash", "-ec", use])), 4 * SOON)
        assert re.search(r"(?m)^[0-9a-f]{12} +worker +default +crawler ", process)
        assert "https://example.org/" in process.splitlines()[-1]
    finally:
        server.terminate()
        assert server.wait(4 * SOON) == 0, finish(server)


def finished_well(process):
    """What it printed, or None: the server may not listen yet."""
    printed = finish(process)
    return printed if process.returncode == 0 else None


# The consumer ---------------------------------------------------------------------------------


@pytest.fixture
def site(tmp_path):
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "page.html").write_text("0123456789")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    handler.log_message = None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{site.server_port}"
        site.shutdown()


def test_the_consumer_works_on_stubs_made_as_it_says(server, shell, site, tmp_path):
    def here(text):
        return text.replace("/tmp/consumer", str(tmp_path / "consumer"))

    make_stubs, run = map(here, texts("A consumer in Python", "sh"))
    make_stubs = re.sub(r"(?m)^apt-get .*\n", "", make_stubs)
    process = shell(["bash", "-ec", make_stubs])
    printed = finish(process)
    assert process.returncode == 0, printed
    [source] = texts("A consumer in Python", "python")
    (tmp_path / "consumer" / "consumer.py").write_text(source)

    space = server.space("default")
    space.define((REPOSITORY / "machines/crawler.fsm.yaml").read_text())
    found = space.start("crawler", params={"url": f"{site}/page.html"})
    missing = space.start("crawler", params={"url": f"{site}/missing.html"})
    assert run.startswith("python3 ")
    process = shell(["bash", "-c", f"exec {shlex.quote(sys.executable)} {run[8:]}"])
    try:
        assert eventually(lambda: result(space.get(found)) == "SUCCESS", 6 * SOON)
        assert space.get(found).outputs["crawl"] == '{"status": 200, "bytes": 10}'
        assert eventually(lambda: "404" in space.get(missing).outputs["crawl"], 6 * SOON)
        assert process.poll() is None
    finally:
        process.kill()
        printed = finish(process)
    assert printed == ""


# Operations, and the rest ---------------------------------------------------------------------


def test_the_flags_are_those_of_dsrv_with_their_defaults():
    help = subprocess.run([DSRV, "--help"], capture_output=True, text=True, timeout=SOON).stdout
    lines = re.findall(r"(?m)^  (?:-\w,)?(--.*)$", help)
    flags = {flag for line in lines for flag in re.findall(r"--[a-z-]+", line.split("  ")[0])}
    defaults = dict(re.findall(r"(?m)^  (--[a-z-]+) \S.*?=([^\s=]+)(?:\s|$)", help))
    rows = re.findall(r"(?m)^\| (`--.*?) \| (.*?) ?\| ", section("Operations"))
    told = {flag: default.strip("`") for names, default in rows
            for flag in re.findall(r"--[a-z-]+", names)}
    assert set(told) == flags - {"--help", "--version"}
    assert {flag: told[flag] for flag in defaults} == defaults


def test_the_config_file_is_accepted(new_server, tmp_path):
    [config] = texts("Operations", "yaml")
    file = tmp_path / "dfsmr.yaml"
    file.write_text(config)
    server = new_server("--config", file).start()
    assert server.stop() == 0
    assert '"level":"info"' in server.log


def test_what_it_links_to_exists():
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert [link for link in links
            if "://" not in link and not (REPOSITORY / link).exists()] == []


def test_the_words_after_make_are_targets():
    makefile = (REPOSITORY / "Makefile").read_text()
    words = set(re.findall(r"(?m)(?:^|`)make (\w+)", README))
    assert {"demo", "test", "bench"} <= words
    assert [word for word in words if not re.search(rf"(?m)^{word}:", makefile)] == []
