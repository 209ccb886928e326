"""The pages are true: their commands and what they print, their programs, tables and links."""
import configparser
import functools
import http.server
import inspect
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import threading
import typing

import pytest

from certificates import Authority
from postgres import Postgres
from stubs import REPOSITORY
from support import BIN, DSRV, SOON, eventually, free_port, result
from test_metrics import promtool

PAGES = {page: (REPOSITORY / page).read_text() for page in [
    "README.md", "dcli/README.md", "dsrv/README.md", "dsrv/access/README.md",
    "dsrv/cluster/README.md", "dsrv/console/README.md", "dsrv/engine/README.md", "dsrv/http/README.md",
    "fsm/plan/README.md", "fsm/when/README.md", "machines/README.md",
    "machines/schedules.md", "machines/limits.md", "machines/agents.md", "machines/packages.md",
    "machines/cloudify.md", "machines/cloacina.md", "proto/README.md", "proto/go/README.md",
    "proto/python/README.md", "proto/typescript/README.md",
    "storage/README.md",
    "tests/README.md", "tests/bench/README.md", "tests/sim/README.md"]}


class Block(typing.NamedTuple):
    page: str
    section: str
    language: str
    text: str


def blocks():
    found = []
    for page, text in PAGES.items():
        section, fence = "", None
        for line in text.splitlines():
            if fence is not None:
                if line == "```":
                    found.append(Block(page, section, fence[0], "".join(fence[1:])))
                    fence = None
                else:
                    fence.append(line + "\n")
            elif line.startswith("```"):
                fence = [line[3:]]
            elif line.startswith("#"):
                section = line.lstrip("# ")
    return found


def texts(page, section, language):
    found = [block.text for block in blocks() if block[:3] == (page, section, language)]
    assert found, f"{page} has no {language} under '{section}'"
    return found


def section(page, title):
    """What stands under a heading, up to the next one of its level or above."""
    level, rest = re.search(rf"(?m)^(#+) {re.escape(title)}\n([\s\S]*)", PAGES[page]).groups()
    return re.split(rf"(?m)^#{{1,{len(level)}}} (?=[A-Z])", rest)[0]


def table(page, head):
    """The first cells of the table whose head begins with `head`."""
    [rows] = re.findall(rf"(?m)^\| {re.escape(head)} \|.*\n\| --- .*\n((?:\|.*\n)+)", PAGES[page])
    return [row.split("|")[1].strip() for row in rows.splitlines()]


def words_in(cells):
    return [word for cell in cells for word in re.findall(r"`([^`]+)`", cell)]


@pytest.fixture
def shell(server, tmp_path):
    """Runs commands as in the repository, with the programs on PATH and the server's address."""
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


# Machines and plans ---------------------------------------------------------------------------


@pytest.mark.parametrize("section, name, flags", [
    ("A machine in ten lines", "crawler  ok  3 nodes", []),
    ("A plan in ten lines", "plan release  ok  5 steps", ["--flow"]),
])
def test_ten_lines_and_their_picture_are_what_graph_prints(shell, tmp_path, section, name, flags):
    [source] = texts("README.md", section, "yaml")
    [picture] = texts("README.md", section, "mermaid")
    assert len(source.splitlines()) == 10
    file = tmp_path / "ten.yaml"
    file.write_text(source)
    check = shell(["dcli", "check", file], stderr=subprocess.DEVNULL)
    assert (finish(check), check.returncode) == (f"{name}  {file}\n", 0)
    assert finish(shell(["dcli", "graph", file, *flags])) == picture


@pytest.mark.parametrize("page, section", [
    ("machines/README.md", "Machines"), ("machines/README.md", "Failing and trying again"),
    ("machines/README.md", "Actions"), ("machines/README.md", "Plans"),
    ("machines/README.md", "Sections"),
    ("machines/schedules.md", "Schedules"), ("machines/schedules.md", "Triggers"),
    ("machines/limits.md", "Limits"), ("machines/limits.md", "Conditions"),
])
def test_the_documents_are_valid(shell, tmp_path, page, section):
    [source] = texts(page, section, "yaml")
    (tmp_path / "it.yaml").write_text(source)
    check = shell(["dcli", "check", tmp_path / "it.yaml"])
    printed = finish(check)
    assert check.returncode == 0, printed


@pytest.mark.parametrize("section", ["Machines, plans and actions", "Actions"])
def test_files_are_checked_as_it_says(shell, section):
    take(shell, "machines/README.md", section)


def test_many_instances_are_changed_as_it_says(shell, new_server):
    server = new_server().start()
    environment = {**shell.keywords["env"], "DFSMR_SERVER": server.address}
    take(functools.partial(shell, env=environment), "dcli/README.md", "Many instances")
    [filter] = texts("dcli/README.md", "Many instances", "text")
    space = server.space("default")
    assert list(space.instances(filter=filter.strip()).instances) == []


def test_dry_runs_are_walked_as_it_says(shell, new_server):
    server = new_server().start()  # on which the numbers of changes are those of the page
    environment = {**shell.keywords["env"], "DFSMR_SERVER": server.address}
    take(functools.partial(shell, env=environment), "machines/README.md", "Dry runs")


WRONG_BESIDE = """\
schedule: s
unheard_of: 1
---
trigger: t
unheard_of: 1
gather: {unheard_of: 1}
---
limit: l
unheard_of: 1
---
id: n
limit: {key: k, unheard_of: 1}
"""


def test_the_keys_are_those_that_schedules_triggers_and_limits_have(shell, tmp_path):
    (tmp_path / "wrong.yaml").write_text(WRONG_BESIDE)
    printed = finish(shell(["dcli", "check", tmp_path / "wrong.yaml"]))
    kinds = re.findall(r"unknown key 'unheard_of'; (?:an? )?(\w+) has (.*)", printed)
    kinds = {("limit document" if "on," in keys and kind == "limit" else kind): keys
             for kind, keys in kinds}
    assert len(kinds) == 5
    for kind, keys in kinds.items():
        page = "machines/limits.md" if "limit" in kind else "machines/schedules.md"
        wanted = set(re.findall(r"[a-z_]+", keys)) - {"and", "or"} - {"trigger", "schedule"}
        head = f"key of a {kind}" + (" | default" if kind in ("schedule", "trigger") else "")
        assert {cell.split(":")[0] for cell in words_in(table(page, head))} == wanted, kind


def test_the_sources_have_the_keys_that_sources_have(shell, tmp_path):
    rows = re.findall(r"(?m)^\| `(change|poll|webhook)` \| ([^|]*) \|",
                      section("machines/schedules.md", "Triggers"))
    assert len(rows) == 3
    for source, keys in rows:
        (tmp_path / "wrong.yaml").write_text(f"trigger: t\non: {{{source}: {{wrong: 1}}}}\n")
        printed = finish(shell(["dcli", "check", tmp_path / "wrong.yaml"]))
        [wanted] = re.findall(r"unknown key 'wrong'; a \w+ has (.*)", printed)
        wanted = set(re.findall(r"[a-z_]+", wanted)) - {"and", "one", "of"}
        written = words_in([re.sub(r"\([^)]*\)", "", keys)])
        assert {word.split(":")[0] for word in written} == wanted, source


WRONG = """\
id: m
wrong: 1
nodes:
  a: {start: true, transitions: {ok: b}}
  b: {delay: {initial: 1s, wrong: 1}, transitions: {ok: c}}
  c: {final: true}
---
action: x
wrong: 1
retry: {limit: 2, wrong: 1}
poll: {wrong: 1}
use: [{name: a, wrong: 1}]
weight: {wrong: 1}
---
plan: p
wrong: 1
hooks: [{on: paused, action: x, wrong: 1}]
flow:
  - {step: a, action: x, wrong: 1}
  - {sequence: [], wrong: 1}
  - {concurrence: [], wrong: 1}
  - {for_each: "${params.a}", do: {step: b, action: x}, wrong: 1}
  - {step: c, spawn: {plan: q, wrong: 1}}
"""
TIMEOUT = {"timeout_strategy", "timeout", "timeout_initial", "timeout_min", "timeout_max"}


def test_the_keys_are_those_that_documents_have(shell, tmp_path):
    (tmp_path / "wrong.yaml").write_text(WRONG)
    printed = finish(shell(["dcli", "check", tmp_path / "wrong.yaml"]))
    kinds = dict(re.findall(r"unknown key 'wrong'; an? ([a-z_]+) has (.*)", printed))
    assert len(kinds) == 14
    for kind, keys in kinds.items():
        wanted = set(re.findall(r"[a-z_]+", re.sub(r"\b(and with|and|or|one of)\b", "", keys)))
        if "the keys of a timeout" in keys:
            wanted = wanted - {"the", "keys", "of", "a", "timeout"} | TIMEOUT
        article = "an" if kind == "action" else "a"
        listed = words_in(table("machines/README.md", f"key of {article} {kind}"))
        assert sorted(listed) == sorted(wanted), kind


def test_the_keys_of_nodes_are_those_that_nodes_have(shell, tmp_path):
    keys = words_in(table("machines/README.md", "key of a node"))
    assert TIMEOUT <= set(keys) and len(set(keys)) == len(keys)
    source = (REPOSITORY / "fsm/yaml/node.cc").read_text()
    assert set(keys) == set(re.findall(r'(?m)^    \{"(\w+)", k\w+', source))


# The tour -------------------------------------------------------------------------------------

CLAIM = re.compile(r"\b\d+-\d+-\d+-[0-9a-f]+\b")
# What is another at each run, and what stands for it.
VOLATILE = [
    (r"\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)", "TIME"), (CLAIM.pattern, "CLAIM"),
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


def tour(page, section):
    steps = []
    for block in texts(page, section, "console"):
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


def take(shell, page, section):
    """Runs the commands of a section, which must print what it says."""
    background, claims = [], {}
    for step in tour(page, section):
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
    take(shell, "dcli/README.md", "The tour")


def test_the_server_of_the_tour_starts_as_it_says(shell, tmp_path):
    [serve] = texts("dcli/README.md", "The tour", "sh")
    address = f"localhost:{free_port()}"
    serve = serve.replace("/tmp/dfsmr-tour", f"{tmp_path}/tour --addr {address}")
    server = shell(["bash", "-ec", serve.replace("\ndsrv", "\nexec dsrv")], cwd=REPOSITORY)
    try:
        command = ["dcli", "machines", "--server", address]
        eventually(lambda: finished_well(shell(command)) is not None, 4 * SOON)
    finally:
        server.terminate()
        assert server.wait(4 * SOON) == 0, finish(server)


def test_the_plan_is_run_as_it_says(shell):
    [plan] = texts("dcli/README.md", "A plan", "yaml")
    (shell.keywords["cwd"] / "site.yaml").write_text(plan)
    take(shell, "dcli/README.md", "A plan")


# What the triggers of the page speak of.
MENTIONED = """\
id: NAME
nodes: {work: {start: true, transitions: {ok: done}}, done: {final: true}}
---
"""


def test_the_triggers_do_what_it_says(shell, tmp_path):
    page = "machines/schedules.md"
    names = ("build", "deploy", "order", "orders.sum", "stock.sum", "close")
    (tmp_path / "it.yaml").write_text(
        "".join(MENTIONED.replace("NAME", name) for name in names) +
        "action: shop.new_orders\n---\n" + "".join(texts(page, "Triggers", "yaml")))

    def run(line):
        return finish(shell(["bash", "-ec", line]))

    assert "trigger month  v1  new" in run(f"dcli define {tmp_path}/it.yaml")
    for branch in ("main", "topic"):
        run(f"dcli start build --id {branch} branch={branch} commit=4f2a")
        run(f"dcli transition {branch} ok")
    eventually(lambda: "deploy-after-build-1" in run("dcli instances --machine deploy"))
    eventually(lambda: re.search(r"Filtered +1\n", run("dcli triggers deploy-after-build")))
    for what in ("orders", "stock"):
        run(f"dcli start {what}.sum --id {what}-may month=2026-05")
        run(f"dcli transition {what}-may ok")
    eventually(lambda: "close-2026-05" in run("dcli instances --machine close"))
    found = """'{"output": {"items": [{"number": 7}]}}'"""
    run(f"dcli work --action shop.new_orders --once -- echo {found}")
    eventually(lambda: "order-7" in run("dcli instances --machine order"))
    take(shell, page, "Triggers")


def test_limits_groups_and_conditions_do_what_it_says(shell, tmp_path):
    page = "machines/limits.md"
    (tmp_path / "it.yaml").write_text("---\n".join(
        text for title in ("Limits", "Conditions") for text in texts(page, title, "yaml")))
    assert "limit env  v1  new" in finish(shell(["dcli", "define", tmp_path / "it.yaml"]))
    for title in ("Limits", "Groups", "Conditions"):
        take(shell, page, title)


def test_a_script_is_a_worker_as_it_says(shell, tmp_path):
    page, title = "machines/agents.md", "A worker as a script"
    machine, workers = texts(page, title, "yaml")
    [script] = texts(page, title, "sh")
    folder = shell.keywords["cwd"]
    (folder / "workers.yaml").write_text(workers)
    (folder / "build.sh").write_text(script)
    (folder / "build.sh").chmod(0o755)
    (tmp_path / "docs.yaml").write_text(machine)
    assert "docs  v1  new" in finish(shell(["dcli", "define", tmp_path / "docs.yaml"]))
    take(shell, page, title)


def test_the_commands_and_flags_are_those_of_dcli(shell):
    commands, flags = finish(shell(["dcli", "--help"])).split("Global flags")
    assert words_in(table("dcli/README.md", "command")) == re.findall(r"(?m)^  ([a-z]+) ", commands)
    listed = [flag.split()[0] for flag in words_in(table("dcli/README.md", "flag"))]
    known = re.findall(r"(?m)^  (--?[a-z-]+)", flags)
    assert listed == [flag for flag in known if flag not in ("-h", "--version")]


# Security -------------------------------------------------------------------------------------


def test_the_server_is_secured_as_it_says(shell, tmp_path):
    folder = shell.keywords["cwd"]
    authority = Authority(folder, "ca")
    for file, name in zip(authority.sign("server"), ("server.pem", "server.key")):
        assert file == folder / name
    serve, use = (text.replace("3004", str(port)).replace("/var/lib/dfsmr", str(tmp_path / "data"))
                  for port in [free_port()]
                  for text in texts("dsrv/access/README.md", "Security", "sh"))
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


def test_secrets_are_kept_and_given_as_it_says(shell, tmp_path):
    folder = shell.keywords["cwd"]
    [file] = texts("dsrv/access/README.md", "Secrets", "yaml")
    (folder / "workers.yaml").write_text(file)
    (folder / "db.password").write_text("s3cret-of-the-page\n")
    (folder / "load.sh").write_text("#!/bin/sh\ncat > /dev/null\necho it is $DB_PASSWORD\n"
                                    "test -s $TLS_KEY && test ${#DB_PASSWORD} = 18\n")
    (folder / "load.sh").chmod(0o755)
    (folder / "m.yaml").write_text("id: m\nnodes:\n  a: {start: true, action: load, "
                                   "transitions: {ok: b, error: c}}\n  b: {final: true}\n"
                                   "  c: {final: true, result: error}\n")
    serve, use = texts("dsrv/access/README.md", "Secrets", "sh")
    port = free_port()
    environment = {**shell.keywords["env"], "DFSMR_SERVER": f"localhost:{port}"}
    serve = serve.replace("\ndsrv", f"\nexec dsrv --addr localhost:{port}")
    server = shell(["bash", "-ec", serve], env=environment)
    try:
        eventually(lambda: (folder / "audit.log").exists())
        wait = "until dcli machines 2>/dev/null; do sleep 0.1; done; "
        use = use.replace("dcli agent", "dcli secret put customer-tls < db.password; dcli define "
                          "m.yaml; dcli start m --id i; dcli agent --once")
        printed = finish(shell(["bash", "-ec", wait + use + "dcli show i; dcli logs i"],
                               env=environment))
        assert "db@1" in printed and "SUCCESS" in printed and "it is ***" in printed, printed
        assert "s3cret" not in printed
        assert "ResolveSecrets" in (folder / "audit.log").read_text()
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

    make_stubs, run = map(here, texts("proto/README.md", "A consumer in Python", "sh"))
    make_stubs = re.sub(r"(?m)^apt-get .*\n", "", make_stubs)
    process = shell(["bash", "-ec", make_stubs])
    printed = finish(process)
    assert process.returncode == 0, printed
    [source] = texts("proto/README.md", "A consumer in Python", "python")
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


# Agents ---------------------------------------------------------------------------------------


@pytest.fixture
def own(shell, new_server):
    """The shell, with a server of its own."""
    server = new_server().start()
    return functools.partial(shell, env={**shell.keywords["env"], "DFSMR_SERVER": server.address})


def write(folder, **files):
    for name, text in files.items():
        path = folder / name.replace("__", ".")
        path.write_text(text)
        path.chmod(0o755)


@pytest.fixture
def serving(own):
    """Starts an agent in the folder of the shell, with these workers."""
    running = []

    def start(workers, *flags, name="h1"):
        write(own.keywords["cwd"], workers__yaml=workers)
        running.append(own(["dcli", "agent", "--workers", "workers.yaml", "--name", name, *flags]))
        eventually(lambda: name in finish(own(["dcli", "agents", "--state", "active"])))
        return running[-1]

    yield start
    for process in running:
        process.terminate()
        finish(process)


REVERSE = """\
id: reverse
nodes: {text: {start: true, transitions: {ok: done, error: done}}, done: {final: true}}
"""


def test_one_process_does_many_tasks_as_it_says(own, serving):
    [program] = texts("machines/agents.md", "A worker as a script", "python")
    write(own.keywords["cwd"], reverse__py=program, reverse__yaml=REVERSE)
    assert "new" in finish(own(["dcli", "define", "reverse.yaml"]))
    serving("workers:\n  reverse.text: {run: [python3, reverse.py], mode: serve}\n")
    for text in ("abc", "xyz"):
        finish(own(["dcli", "start", "reverse", f"text={text}", "--id", text, "--wait"]))
        assert f'"{text[::-1]}"' in finish(own(["dcli", "show", text]))


def test_the_variables_are_those_that_commands_find(own, serving, tmp_path):
    told = set(words_in(table("machines/agents.md", "variable"))) | {
        "PATH", "LANG", "USER", "HOME", "TMPDIR", "LEVEL"}
    work = "`" + section("dcli/README.md", "Work").split("**In.**")[1].split("**Out.**")[0]
    told |= set(re.findall(r"DFSMR_[A-Z]+", work))
    write(own.keywords["cwd"], reverse__yaml=REVERSE, env__sh=f"#!/bin/sh\nenv >{tmp_path}/env\n")
    finish(own(["dcli", "define", "reverse.yaml"]))
    serving("workers:\n  reverse.text: {run: [./env.sh], env: {LEVEL: info}}\n")
    finish(own(["dcli", "start", "reverse", "--wait"]))
    found = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines())
    assert set(found) - {"PWD", "_", "SHLVL", "OLDPWD"} == told - {"DFSMR_DRY_RUN"}
    assert found["TRACEPARENT"] == ""
    assert found["LEVEL"] == "info" and found["PATH"] == "/usr/local/bin:/usr/bin:/bin"
    assert found["HOME"].startswith(found["DFSMR_DIR"]) and found["DFSMR_AGENT"] == "h1"


def test_the_keys_of_workers_are_those_that_they_have():
    source = (REPOSITORY / "fsm/package/worker.cc").read_text()
    [keys] = re.findall(r"kWorkerKeys = \{([^}]*)\}", source)
    listed = words_in(table("machines/agents.md", "key of a worker | default"))
    assert sorted(listed) == sorted(re.findall(r'"(\w+)"', keys))


def make_key(home):
    (home / ".ssh").mkdir(mode=0o700)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", home / ".ssh/id_ed25519"],
                   check=True)


def test_a_package_goes_to_production_as_it_says(own, tmp_path):
    make_key(tmp_path)
    environment = {**own.keywords["env"], "HOME": str(tmp_path),
                   "XDG_CACHE_HOME": str(tmp_path / "caches")}
    shell = functools.partial(own, env=environment)
    built = shell(["dcli", "package", "build", "machines/etl", "--version", "1.5.0"])
    assert "etl-1.5.0.dfsmr" in finish(built)
    (tmp_path / "shell" / "warehouse.env").write_text("warehouse=open-sesame\n")
    title = "From a folder to production in ten commands"
    assert len(tour("machines/packages.md", title)) == 10
    take(shell, "machines/packages.md", title)


def test_a_package_is_made_as_it_says(tmp_path):
    [script] = texts("machines/packages.md", "While it is written", "sh")
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    make_key(tmp_path)
    (tmp_path / "allowed_signers").write_text(
        "ann " + (tmp_path / ".ssh/id_ed25519.pub").read_text())
    subprocess.run(["bash", "-euc", script], cwd=tmp_path, env=environment, check=True)


def test_signatures_count_as_it_says(server, tmp_path):
    [script] = texts("machines/packages.md", "Signatures", "sh")
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(tmp_path),
                   "DFSMR_SERVER": server.address, "DFSMR_NAMESPACE": "acme"}
    (tmp_path / ".ssh").mkdir(mode=0o700)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / ".ssh/id_ed25519"],
                   check=True)
    before = "".join(f"dcli package build {REPOSITORY}/machines/etl --version {version}\n"
                     for version in ("1.3.0", "1.4.0")) + "dcli package push etl-1.3.0.dfsmr\n"
    done = subprocess.run(["bash", "-euc", before + script], cwd=tmp_path, env=environment,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "etl@1.3.0" in done.stdout and "revoked" in done.stdout.splitlines()[-1]
    assert 'ann namespaces="dfsmr-package" ssh-ed25519' in (tmp_path / "allowed_signers").read_text()


def test_the_keys_of_manifests_are_those_that_they_have():
    source = (REPOSITORY / "fsm/package/manifest.cc").read_text()
    [keys] = re.findall(r"kKeys = \{([^}]*)\}", source)
    text = section("machines/packages.md", "The manifest")
    listed = [key for row in re.findall(r"(?m)^\| (`.*?) \|", text)
              for key in re.findall(r"`(\w+)`", row)]
    assert sorted(listed) == sorted(re.findall(r'"(\w+)"', keys))


def test_the_unit_of_agents_is_sound(own, tmp_path):
    [text] = texts("machines/agents.md", "Operating agents", "ini")
    unit = configparser.ConfigParser(strict=True, interpolation=None)
    unit.optionxform = str
    unit.read_string(text)
    service = unit["Service"]
    assert service["KillMode"] == "mixed" and service["Delegate"] == "yes"
    program, *flags = shlex.split(service["ExecStart"])
    assert pathlib.PurePath(program).name == "dcli"
    write(own.keywords["cwd"], workers__yaml="workers: {a: {run: [\"true\"]}}\n")
    flags[flags.index("--workers") + 1] = "workers.yaml"
    check = own([BIN / "dcli", *flags, "--check"])
    printed = finish(check)
    assert check.returncode == 0, printed
    help = finish(own(["dcli", "agent", "--help"]))
    [grace] = map(int, re.findall(r"--grace .*\(default (\d+)m\)", help))
    assert int(service["TimeoutStopSec"].removesuffix("min")) > grace
    known = finish(own(["dcli", "--help"]))
    for setting in shlex.split(service["Environment"]):
        assert setting.split("=")[0] in known


def test_agents_are_operated_as_it_says(own, serving):
    serving("workers: {a: {run: [\"true\"]}}\n", "--jobs", "2", "--capability", "gpu")
    take(own, "machines/agents.md", "Operating agents")


# Operations -----------------------------------------------------------------------------------


def test_the_flags_are_those_of_dsrv_with_their_defaults():
    help = subprocess.run([DSRV, "--help"], capture_output=True, text=True, timeout=SOON).stdout
    lines = re.findall(r"(?m)^  (?:-\w,)?(--.*)$", help)
    flags = {flag for line in lines for flag in re.findall(r"--[a-z-]+", line.split("  ")[0])}
    defaults = dict(re.findall(r"(?m)^  (--[a-z-]+) \S.*?=([^\s=]+)(?:\s|$)", help))
    rows = re.findall(r"(?m)^\| (`--.*?) \| (.*?) ?\| ", section("dsrv/README.md", "Flags"))
    told = {flag: default.strip("`") for names, default in rows
            for flag in re.findall(r"--[a-z-]+", names)}
    assert set(told) == flags - {"--help", "--version"}
    assert {flag: told[flag] for flag in defaults} == defaults


def test_three_servers_share_a_store_as_it_says(shell):
    [text] = texts("dsrv/cluster/README.md", "Three servers", "sh")
    database = Postgres()
    try:
        text = re.sub(r"(?m)^STORE=.*", f"STORE={shlex.quote(database.url())}", text)
        for port in ("3104", "3204", "3304"):
            text = text.replace(port, str(free_port()))
        *servers, show = text.strip().splitlines()
        running = shell(["bash", "-ec", "\n".join(servers) + "\nwait"])
        try:
            def all_up():
                shown = finish(shell(["bash", "-c", f"{show} --check -o name"])).split()
                return len(shown) == 3
            eventually(all_up, 6 * SOON)
        finally:
            os.killpg(running.pid, signal.SIGTERM)
            running.wait(6 * SOON)
    finally:
        database.dispose()


def test_the_config_file_is_accepted(new_server, tmp_path):
    [config] = texts("dsrv/README.md", "Flags", "yaml")
    file = tmp_path / "dfsmr.yaml"
    file.write_text(config)
    server = new_server("--config", file).start()
    assert server.stop() == 0
    assert '"level":"info"' in server.log


def test_a_backup_is_made_and_restored_as_it_says(shell, new_server, tmp_path):
    backups, restored = tmp_path / "backups", tmp_path / "restored"
    backups.mkdir()
    by_hand, by_itself = texts("dsrv/README.md", "Backup", "sh")
    [restore] = texts("dsrv/README.md", "Restore", "sh")
    [verify] = texts("dsrv/README.md", "Verify", "sh")
    assert by_itself.startswith("dsrv --data /var/lib/dfsmr ")
    flags = by_itself.replace("/backup ", f"{backups}/own ").split()[3:]
    server = new_server(*flags).start()
    space = server.space("default")
    space.define((REPOSITORY / "machines/crawler.fsm.yaml").read_text())
    page = space.start("crawler", params={"url": "https://example.org/"})
    environment = {**shell.keywords["env"], "DFSMR_SERVER": server.address}

    def run(text):
        made = next(iter(sorted(backups.glob("*.tar.zst"))), backups / "none")
        for there, here in [("/backup/dfsmr-20260131T080000Z.tar.zst", made),
                            ("/backup ", f"{backups} "), ("ssh vault", "sh -c"),
                            ("/var/lib/dfsmr", restored)]:
            text = text.replace(there, str(here))
        process = shell(["bash", "-ec", text], env=environment)
        printed = finish(process)
        assert process.returncode == 0, printed

    run(by_hand)
    assert (shell.keywords["cwd"] / "dfsmr.tar.zst").stat().st_size > 0
    eventually(lambda: list((backups / "own").glob("dfsmr-*")))
    run(restore)
    run(verify)
    again = new_server(data=restored).start()
    assert again.space("default").get(page).id == page


def test_prometheus_takes_the_configuration(tmp_path):
    [config] = texts("dsrv/http/README.md", "Metrics", "yaml")
    (tmp_path / "prometheus.yml").write_text(config)
    promtool("check", "config", "--syntax-only", tmp_path / "prometheus.yml")


def test_a_namespace_is_exported_and_imported_as_it_says(shell, server):
    [text] = texts("dsrv/README.md", "Export and import", "sh")
    space = server.space("acme")
    space.define((REPOSITORY / "machines/crawler.fsm.yaml").read_text())
    process = shell(["bash", "-ec", text])
    printed = finish(process)
    assert process.returncode == 0, printed
    assert "acme: 0 definitions, 0 packages, 0 instances; there already: 1\n" in printed


def test_a_script_is_a_worker_as_it_says(shell, tmp_path):
    page, title = "machines/agents.md", "A worker as a script"
    machine, workers = texts(page, title, "yaml")
    [script] = texts(page, title, "sh")
    folder = shell.keywords["cwd"]
    (folder / "workers.yaml").write_text(workers)
    (folder / "build.sh").write_text(script)
    (folder / "build.sh").chmod(0o755)
    (tmp_path / "docs.yaml").write_text(machine)
    assert "docs  v1  new" in finish(shell(["dcli", "define", tmp_path / "docs.yaml"]))
    take(shell, page, title)


def test_the_commands_and_flags_are_those_of_dcli(shell):
    commands, flags = finish(shell(["dcli", "--help"])).split("Global flags")
    assert words_in(table("dcli/README.md", "command")) == re.findall(r"(?m)^  ([a-z]+) ", commands)
    listed = [flag.split()[0] for flag in words_in(table("dcli/README.md", "flag"))]
    known = re.findall(r"(?m)^  (--?[a-z-]+)", flags)
    assert listed == [flag for flag in known if flag not in ("-h", "--version")]


# Security -------------------------------------------------------------------------------------


def test_the_server_is_secured_as_it_says(shell, tmp_path):
    folder = shell.keywords["cwd"]
    authority = Authority(folder, "ca")
    for file, name in zip(authority.sign("server"), ("server.pem", "server.key")):
        assert file == folder / name
    serve, use = (text.replace("3004", str(port)).replace("/var/lib/dfsmr", str(tmp_path / "data"))
                  for port in [free_port()]
                  for text in texts("dsrv/access/README.md", "Security", "sh"))
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


def test_secrets_are_kept_and_given_as_it_says(shell, tmp_path):
    folder = shell.keywords["cwd"]
    [file] = texts("dsrv/access/README.md", "Secrets", "yaml")
    (folder / "workers.yaml").write_text(file)
    (folder / "db.password").write_text("s3cret-of-the-page\n")
    (folder / "load.sh").write_text("#!/bin/sh\ncat > /dev/null\necho it is $DB_PASSWORD\n"
                                    "test -s $TLS_KEY && test ${#DB_PASSWORD} = 18\n")
    (folder / "load.sh").chmod(0o755)
    (folder / "m.yaml").write_text("id: m\nnodes:\n  a: {start: true, action: load, "
                                   "transitions: {ok: b, error: c}}\n  b: {final: true}\n"
                                   "  c: {final: true, result: error}\n")
    serve, use = texts("dsrv/access/README.md", "Secrets", "sh")
    port = free_port()
    environment = {**shell.keywords["env"], "DFSMR_SERVER": f"localhost:{port}"}
    serve = serve.replace("\ndsrv", f"\nexec dsrv --addr localhost:{port}")
    server = shell(["bash", "-ec", serve], env=environment)
    try:
        eventually(lambda: (folder / "audit.log").exists())
        wait = "until dcli machines 2>/dev/null; do sleep 0.1; done; "
        use = use.replace("dcli agent", "dcli secret put customer-tls < db.password; dcli define "
                          "m.yaml; dcli start m --id i; dcli agent --once")
        printed = finish(shell(["bash", "-ec", wait + use + "dcli show i; dcli logs i"],
                               env=environment))
        assert "db@1" in printed and "SUCCESS" in printed and "it is ***" in printed, printed
        assert "s3cret" not in printed
        assert "ResolveSecrets" in (folder / "audit.log").read_text()
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

    make_stubs, run = map(here, texts("proto/README.md", "A consumer in Python", "sh"))
    make_stubs = re.sub(r"(?m)^apt-get .*\n", "", make_stubs)
    process = shell(["bash", "-ec", make_stubs])
    printed = finish(process)
    assert process.returncode == 0, printed
    [source] = texts("proto/README.md", "A consumer in Python", "python")
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


# Agents ---------------------------------------------------------------------------------------


@pytest.fixture
def own(shell, new_server):
    """The shell, with a server of its own."""
    server = new_server().start()
    return functools.partial(shell, env={**shell.keywords["env"], "DFSMR_SERVER": server.address})


def write(folder, **files):
    for name, text in files.items():
        path = folder / name.replace("__", ".")
        path.write_text(text)
        path.chmod(0o755)


@pytest.fixture
def serving(own):
    """Starts an agent in the folder of the shell, with these workers."""
    running = []

    def start(workers, *flags, name="h1"):
        write(own.keywords["cwd"], workers__yaml=workers)
        running.append(own(["dcli", "agent", "--workers", "workers.yaml", "--name", name, *flags]))
        eventually(lambda: name in finish(own(["dcli", "agents", "--state", "active"])))
        return running[-1]

    yield start
    for process in running:
        process.terminate()
        finish(process)


REVERSE = """\
id: reverse
nodes: {text: {start: true, transitions: {ok: done, error: done}}, done: {final: true}}
"""


def test_one_process_does_many_tasks_as_it_says(own, serving):
    [program] = texts("machines/agents.md", "A worker as a script", "python")
    write(own.keywords["cwd"], reverse__py=program, reverse__yaml=REVERSE)
    assert "new" in finish(own(["dcli", "define", "reverse.yaml"]))
    serving("workers:\n  reverse.text: {run: [python3, reverse.py], mode: serve}\n")
    for text in ("abc", "xyz"):
        finish(own(["dcli", "start", "reverse", f"text={text}", "--id", text, "--wait"]))
        assert f'"{text[::-1]}"' in finish(own(["dcli", "show", text]))


def test_the_variables_are_those_that_commands_find(own, serving, tmp_path):
    told = set(words_in(table("machines/agents.md", "variable"))) | {
        "PATH", "LANG", "USER", "HOME", "TMPDIR", "LEVEL"}
    work = "`" + section("dcli/README.md", "Work").split("**In.**")[1].split("**Out.**")[0]
    told |= set(re.findall(r"DFSMR_[A-Z]+", work))
    write(own.keywords["cwd"], reverse__yaml=REVERSE, env__sh=f"#!/bin/sh\nenv >{tmp_path}/env\n")
    finish(own(["dcli", "define", "reverse.yaml"]))
    serving("workers:\n  reverse.text: {run: [./env.sh], env: {LEVEL: info}}\n")
    finish(own(["dcli", "start", "reverse", "--wait"]))
    found = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines())
    assert set(found) - {"PWD", "_", "SHLVL", "OLDPWD"} == told - {"DFSMR_DRY_RUN"}
    assert found["TRACEPARENT"] == ""
    assert found["LEVEL"] == "info" and found["PATH"] == "/usr/local/bin:/usr/bin:/bin"
    assert found["HOME"].startswith(found["DFSMR_DIR"]) and found["DFSMR_AGENT"] == "h1"


def test_the_keys_of_workers_are_those_that_they_have():
    source = (REPOSITORY / "fsm/package/worker.cc").read_text()
    [keys] = re.findall(r"kWorkerKeys = \{([^}]*)\}", source)
    listed = words_in(table("machines/agents.md", "key of a worker | default"))
    assert sorted(listed) == sorted(re.findall(r'"(\w+)"', keys))


def make_key(home):
    (home / ".ssh").mkdir(mode=0o700)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", home / ".ssh/id_ed25519"],
                   check=True)


def test_a_package_goes_to_production_as_it_says(own, tmp_path):
    make_key(tmp_path)
    environment = {**own.keywords["env"], "HOME": str(tmp_path),
                   "XDG_CACHE_HOME": str(tmp_path / "caches")}
    shell = functools.partial(own, env=environment)
    built = shell(["dcli", "package", "build", "machines/etl", "--version", "1.5.0"])
    assert "etl-1.5.0.dfsmr" in finish(built)
    (tmp_path / "shell" / "warehouse.env").write_text("warehouse=open-sesame\n")
    title = "From a folder to production in ten commands"
    assert len(tour("machines/packages.md", title)) == 10
    take(shell, "machines/packages.md", title)


def test_a_package_is_made_as_it_says(tmp_path):
    [script] = texts("machines/packages.md", "While it is written", "sh")
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    make_key(tmp_path)
    (tmp_path / "allowed_signers").write_text(
        "ann " + (tmp_path / ".ssh/id_ed25519.pub").read_text())
    subprocess.run(["bash", "-euc", script], cwd=tmp_path, env=environment, check=True)


def test_signatures_count_as_it_says(server, tmp_path):
    [script] = texts("machines/packages.md", "Signatures", "sh")
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(tmp_path),
                   "DFSMR_SERVER": server.address, "DFSMR_NAMESPACE": "acme"}
    (tmp_path / ".ssh").mkdir(mode=0o700)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / ".ssh/id_ed25519"],
                   check=True)
    before = "".join(f"dcli package build {REPOSITORY}/machines/etl --version {version}\n"
                     for version in ("1.3.0", "1.4.0")) + "dcli package push etl-1.3.0.dfsmr\n"
    done = subprocess.run(["bash", "-euc", before + script], cwd=tmp_path, env=environment,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "etl@1.3.0" in done.stdout and "revoked" in done.stdout.splitlines()[-1]
    assert 'ann namespaces="dfsmr-package" ssh-ed25519' in (tmp_path / "allowed_signers").read_text()


def test_the_keys_of_manifests_are_those_that_they_have():
    source = (REPOSITORY / "fsm/package/manifest.cc").read_text()
    [keys] = re.findall(r"kKeys = \{([^}]*)\}", source)
    text = section("machines/packages.md", "The manifest")
    listed = [key for row in re.findall(r"(?m)^\| (`.*?) \|", text)
              for key in re.findall(r"`(\w+)`", row)]
    assert sorted(listed) == sorted(re.findall(r'"(\w+)"', keys))


def test_the_unit_of_agents_is_sound(own, tmp_path):
    [text] = texts("machines/agents.md", "Operating agents", "ini")
    unit = configparser.ConfigParser(strict=True, interpolation=None)
    unit.optionxform = str
    unit.read_string(text)
    service = unit["Service"]
    assert service["KillMode"] == "mixed" and service["Delegate"] == "yes"
    program, *flags = shlex.split(service["ExecStart"])
    assert pathlib.PurePath(program).name == "dcli"
    write(own.keywords["cwd"], workers__yaml="workers: {a: {run: [\"true\"]}}\n")
    flags[flags.index("--workers") + 1] = "workers.yaml"
    check = own([BIN / "dcli", *flags, "--check"])
    printed = finish(check)
    assert check.returncode == 0, printed
    help = finish(own(["dcli", "agent", "--help"]))
    [grace] = map(int, re.findall(r"--grace .*\(default (\d+)m\)", help))
    assert int(service["TimeoutStopSec"].removesuffix("min")) > grace
    known = finish(own(["dcli", "--help"]))
    for setting in shlex.split(service["Environment"]):
        assert setting.split("=")[0] in known


def test_agents_are_operated_as_it_says(own, serving):
    serving("workers: {a: {run: [\"true\"]}}\n", "--jobs", "2", "--capability", "gpu")
    take(own, "machines/agents.md", "Operating agents")


# Operations -----------------------------------------------------------------------------------


def test_the_flags_are_those_of_dsrv_with_their_defaults():
    help = subprocess.run([DSRV, "--help"], capture_output=True, text=True, timeout=SOON).stdout
    lines = re.findall(r"(?m)^  (?:-\w,)?(--.*)$", help)
    flags = {flag for line in lines for flag in re.findall(r"--[a-z-]+", line.split("  ")[0])}
    defaults = dict(re.findall(r"(?m)^  (--[a-z-]+) \S.*?=([^\s=]+)(?:\s|$)", help))
    rows = re.findall(r"(?m)^\| (`--.*?) \| (.*?) ?\| ", section("dsrv/README.md", "Flags"))
    told = {flag: default.strip("`") for names, default in rows
            for flag in re.findall(r"--[a-z-]+", names)}
    assert set(told) == flags - {"--help", "--version"}
    assert {flag: told[flag] for flag in defaults} == defaults


def test_the_config_file_is_accepted(new_server, tmp_path):
    [config] = texts("dsrv/README.md", "Flags", "yaml")
    file = tmp_path / "dfsmr.yaml"
    file.write_text(config)
    server = new_server("--config", file).start()
    assert server.stop() == 0
    assert '"level":"info"' in server.log


# The tables -----------------------------------------------------------------------------------


def test_the_methods_are_those_of_the_services():
    protos = [(REPOSITORY / f"proto/dfsmr/v1/{name}.proto").read_text()
              for name in ("runner", "schedule", "admin", "agent", "package", "view", "cluster")]
    served = (REPOSITORY / "dsrv/calls/methods.h").read_text()
    methods = [name for name in re.findall(r"(?m)^  rpc (\w+)", "".join(protos))
               if re.search(rf"dfsmr\.v1\.\w+/{name}\"", served)]
    assert words_in(table("proto/README.md", "method")) == methods


def test_the_reasons_are_those_that_the_server_gives():
    rows = re.findall(r"(?m)^\|(?: `([A-Z_]+)`)? \| `([A-Z_]+)` \|",
                      section("proto/README.md", "Reasons"))
    listed, code = {}, ""
    for at, reason in rows:
        code = at or code
        listed.setdefault(code, set()).add(reason)
    source = "".join(file.read_text() for file in (REPOSITORY / "fsm/base").glob("reason.*"))
    assert set.union(*listed.values()) == set(re.findall(r'"([A-Z_]{4,})"', source))
    proto = (REPOSITORY / "proto/dfsmr/v1/runner.proto").read_text().split("// Reasons (")[1]
    wanted = re.sub(r",\n// +", ", ", proto)
    for code, reasons in re.findall(r"(?m)^//   ([A-Z_]+) +([A-Z_, ]+)$", wanted):
        assert set(reasons.split(", ")) <= listed[code]


def test_the_kinds_of_rows_are_those_of_the_store():
    kinds = {cell.split()[0].strip("`") for cell in table("storage/README.md", "kind")}
    headers = "".join(file.read_text() for file in (REPOSITORY / "storage/rows").glob("*.h"))
    assert kinds - {"0x00"} == set(re.findall(r"k\w+ = (0x[0-9A-F]{2}),", headers))


# All pages ------------------------------------------------------------------------------------


# Which test runs the blocks of a section.
RUN = {
    ("README.md", "dfsmr", "sh"): "test_the_words_after_make_are_targets",
    ("README.md", "A machine in ten lines", "yaml"):
        "test_ten_lines_and_their_picture_are_what_graph_prints",
    ("README.md", "A machine in ten lines", "mermaid"):
        "test_ten_lines_and_their_picture_are_what_graph_prints",
    ("README.md", "A plan in ten lines", "yaml"):
        "test_ten_lines_and_their_picture_are_what_graph_prints",
    ("README.md", "A plan in ten lines", "mermaid"):
        "test_ten_lines_and_their_picture_are_what_graph_prints",
    ("dcli/README.md", "The tour", "sh"): "test_the_server_of_the_tour_starts_as_it_says",
    ("dcli/README.md", "The tour", "console"): "test_the_tour_prints_what_it_says",
    ("dcli/README.md", "Many instances", "console"): "test_many_instances_are_changed_as_it_says",
    ("dcli/README.md", "A plan", "yaml"): "test_the_plan_is_run_as_it_says",
    ("dcli/README.md", "A plan", "console"): "test_the_plan_is_run_as_it_says",
    ("dsrv/cluster/README.md", "Three servers", "sh"):
        "test_three_servers_share_a_store_as_it_says",
    ("dsrv/README.md", "Flags", "yaml"): "test_the_config_file_is_accepted",
    ("dsrv/README.md", "Backup", "sh"): "test_a_backup_is_made_and_restored_as_it_says",
    ("dsrv/README.md", "Restore", "sh"): "test_a_backup_is_made_and_restored_as_it_says",
    ("dsrv/README.md", "Verify", "sh"): "test_a_backup_is_made_and_restored_as_it_says",
    ("dsrv/README.md", "Export and import", "sh"):
        "test_a_namespace_is_exported_and_imported_as_it_says",
    ("dsrv/README.md", "As a service of Debian", "sh"):
        "debian: test_installing_starts_the_server_on_loopback",
    ("dsrv/http/README.md", "Metrics", "yaml"): "test_prometheus_takes_the_configuration",
    ("dsrv/access/README.md", "Security", "sh"): "test_the_server_is_secured_as_it_says",
    ("dsrv/access/README.md", "Secrets", "sh"): "test_secrets_are_kept_and_given_as_it_says",
    ("dsrv/access/README.md", "Secrets", "yaml"): "test_secrets_are_kept_and_given_as_it_says",
    ("machines/README.md", "Machines, plans and actions", "console"):
        "test_files_are_checked_as_it_says",
    ("machines/README.md", "Actions", "console"): "test_files_are_checked_as_it_says",
    ("machines/README.md", "Dry runs", "console"): "test_dry_runs_are_walked_as_it_says",
    ("machines/README.md", "Machines", "yaml"): "test_the_documents_are_valid",
    ("machines/README.md", "Failing and trying again", "yaml"): "test_the_documents_are_valid",
    ("machines/README.md", "Actions", "yaml"): "test_the_documents_are_valid",
    ("machines/README.md", "Plans", "yaml"): "test_the_documents_are_valid",
    ("machines/README.md", "Sections", "yaml"): "test_the_documents_are_valid",
    ("machines/schedules.md", "Schedules", "yaml"): "test_the_documents_are_valid",
    ("machines/schedules.md", "Triggers", "yaml"): "test_the_triggers_do_what_it_says",
    ("machines/schedules.md", "Triggers", "console"): "test_the_triggers_do_what_it_says",
    ("machines/limits.md", "Limits", "yaml"): "test_limits_groups_and_conditions_do_what_it_says",
    ("machines/limits.md", "Limits", "console"):
        "test_limits_groups_and_conditions_do_what_it_says",
    ("machines/limits.md", "Groups", "console"):
        "test_limits_groups_and_conditions_do_what_it_says",
    ("machines/limits.md", "Conditions", "yaml"):
        "test_limits_groups_and_conditions_do_what_it_says",
    ("machines/limits.md", "Conditions", "console"):
        "test_limits_groups_and_conditions_do_what_it_says",
    ("machines/packages.md", "Signatures", "sh"): "test_signatures_count_as_it_says",
    ("machines/packages.md", "From a folder to production in ten commands", "console"):
        "test_a_package_goes_to_production_as_it_says",
    ("machines/packages.md", "While it is written", "sh"): "test_a_package_is_made_as_it_says",
    ("machines/agents.md", "A worker as a script", "python"):
        "test_one_process_does_many_tasks_as_it_says",
    ("machines/agents.md", "Operating agents", "ini"): "test_the_unit_of_agents_is_sound",
    ("machines/agents.md", "Operating agents", "console"): "test_agents_are_operated_as_it_says",
    ("machines/agents.md", "A worker as a script", "yaml"): "test_a_script_is_a_worker_as_it_says",
    ("machines/agents.md", "A worker as a script", "sh"): "test_a_script_is_a_worker_as_it_says",
    ("machines/agents.md", "A worker as a script", "console"):
        "test_a_script_is_a_worker_as_it_says",
    ("proto/README.md", "A consumer in Python", "sh"):
        "test_the_consumer_works_on_stubs_made_as_it_says",
    ("proto/README.md", "A consumer in Python", "python"):
        "test_the_consumer_works_on_stubs_made_as_it_says",
}
# By tests/clients/test_readmes.py, for each of the libraries.
for name, language in [("python", "python"), ("go", "go"), ("typescript", "ts")]:
    for title in ("A worker", "A client"):
        RUN[f"proto/{name}/README.md", title, language] = \
            "clients: test_the_worker_and_the_client_of_the_page"
    RUN[f"proto/{name}/README.md", f"dfsmr in {PAGES[f'proto/{name}/README.md'].split()[3]}", "sh"] = \
        "clients: test_it_installs_from_its_folder"


def test_every_block_is_run():
    assert {block[:3] for block in blocks() if block.language != "text"} == set(RUN)
    clients = (REPOSITORY / "tests/clients/test_readmes.py").read_text()
    debian = (REPOSITORY / "tests/debian/test_packages.py").read_text()
    for test in RUN.values():
        if test.startswith("clients: "):
            assert f"def {test[9:]}(" in clients
        elif test.startswith("debian: "):
            assert f"def {test[8:]}(" in debian
        else:
            assert inspect.isfunction(globals()[test])


def test_every_page_is_known_and_the_first_is_short():
    built = re.compile(r"^(build|\.)|(^|/)node_modules/")
    found = [path.relative_to(REPOSITORY) for path in REPOSITORY.rglob("*.md")]
    assert {str(path) for path in found if not built.search(str(path))} == set(PAGES)
    assert len(PAGES["README.md"].splitlines()) <= 250


def anchors(page):
    titles = re.findall(r"(?m)^#+ (.*)", re.sub(r"(?ms)^```.*?^```", "", page))
    return {re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES)
def test_what_it_links_to_exists(page):
    folder = (REPOSITORY / page).parent
    for link in re.findall(r"\]\(([^)]+)\)", re.sub(r"(?ms)^```.*?^```", "", PAGES[page])):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (folder / path).resolve() if path else REPOSITORY / page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target.read_text()), link


def test_every_page_is_reached_from_the_first():
    links = re.findall(r"\]\(([^)#:]+\.md)", PAGES["README.md"])
    assert set(links) == set(PAGES) - {"README.md"}


def test_the_words_after_make_are_targets():
    makefile = (REPOSITORY / "Makefile").read_text()
    [phony] = re.findall(r"(?m)^\.PHONY: (.*)", makefile)
    targets = set(phony.split()) - {"programs", "chaos_program", "test_deps", "cluster-demo"}
    listed = [word.removeprefix("make ") for word in words_in(table("tests/README.md", "word"))]
    assert set(listed) == targets | {"make"}
    for text in PAGES.values():
        assert set(re.findall(r"(?m)(?:^|`)make (\w+)", text)) <= targets
