"""Secrets: kept sealed, told to holders of claims only, hidden by agents, and nowhere else."""
import base64
import hashlib
import json
import os
import pty
import signal
import socket
import subprocess
import termios
import time

import grpc
import pytest

from stubs import package, package_grpc
from support import (CALL, DCLI, DSRV, JOB, Cli, eventually, free_port, from_json, open_channel,
                     refused, state, token_state)
from test_packages import Registry, machine
from test_security import ADMIN_SECRET, Bearer, Holder, audited

PLANTED = "pl4nted-and-never-seen"
FLOW = """\
plan: flow
params: {type: object}
flow:
  - {step: load, action: load, input: {password: {$secret: db}, n: "${params.n}"}}
"""


def key_id(line):
    return hashlib.sha256(bytes.fromhex(line)).hexdigest()[:8]


class Vault:
    """A server with a key file, an admin and an audit log; calls of a namespace."""

    def __init__(self, new_server, folder, *flags, keys=1, name="default", everywhere=False, **more):
        self.folder = folder
        self.keys = [os.urandom(32).hex() for _ in range(keys)]
        self.key_file = folder / "secret.key"
        self.write_keys(*self.keys)
        (folder / "admin.token").write_text(ADMIN_SECRET + "\n")
        self.audit = folder / "audit.log"
        self.server = new_server("--secret-key-file", str(self.key_file), "--admin-token-file",
                                 str(folder / "admin.token"), "--audit-log", str(self.audit),
                                 *flags, **more)
        if everywhere:
            self.server.address = f"0.0.0.0:{self.server.port}"
        self.server.start()
        self.name = name
        self.space = self.server.space(name)

    def write_keys(self, *keys):
        fresh = self.key_file.with_suffix(".new")
        fresh.touch(0o600)
        fresh.write_text("".join(key + "\n" for key in keys))
        fresh.rename(self.key_file)

    def stub(self, token=None, channel=None):
        channel = channel or self.server.channel
        return package_grpc.SecretServiceStub(
            grpc.intercept_channel(channel, Bearer(token)) if token else channel)

    def put(self, name, value, **more):
        value = value if isinstance(value, bytes) else value.encode()
        return self.stub().PutSecret(package.PutSecretRequest(
            **{"namespace": self.name, "name": name, "value": value, **more}), timeout=CALL)

    def list(self):
        return self.stub().ListSecrets(package.ListSecretsRequest(namespace=self.name),
                                       timeout=CALL)

    def delete(self, name, version=0):
        return self.stub().DeleteSecret(package.DeleteSecretRequest(
            namespace=self.name, name=name, version=version), timeout=CALL)

    def token(self, *secrets, role="worker", namespace=None, **more):
        root = Holder(self.server, ADMIN_SECRET)
        return root.create(role, namespace or self.name, secrets=secrets, **more).secret

    def resolve(self, token, task, *names, channel=None, claim=None):
        items = [package.ResolveSecretsRequest.Item(name=name.partition("@")[0],
                                                    version=int(name.partition("@")[2] or 0))
                 for name in names]
        reply = self.stub(token, channel).ResolveSecrets(package.ResolveSecretsRequest(
            namespace=self.name, instance=task.instance, claim=claim or task.claim,
            secrets=items), timeout=CALL)
        return [(one.name, one.version, one.value.decode()) for one in reply.secrets]

    def task(self, machine="job", **more):
        self.space.define(JOB)
        self.space.start(machine, **more)
        return self.space.take(machine)

    def cli(self, *words, token=None, **more):
        cli = Cli(self.server.address, self.name)
        if token:
            file = self.folder / "given.token"
            file.write_text(token)
            words = (*words, "--token-file", str(file))
        return cli(*words, **more)


@pytest.fixture
def vault(new_server, tmp_path):
    return Vault(new_server, tmp_path)


# What is kept ---------------------------------------------------------------------------------


def test_versions_limits_and_what_is_listed(vault):
    first = vault.put("db", "one")
    assert (first.namespace, first.name) == ("default", "db")
    assert [one.version for one in first.versions] == [1]
    for i in range(2, 13):
        last = vault.put("db", f"value {i}")
    assert [one.version for one in last.versions] == list(range(12, 2, -1))
    assert {one.key for one in last.versions} == {key_id(vault.keys[0])}
    vault.put("tls", b"x" * (64 << 10))
    with refused("INVALID_ARGUMENT", "TOO_LARGE"):
        vault.put("tls", b"x" * ((64 << 10) + 1))
    for bad in ("", "a b", "-a", "a" * 129):
        with refused("INVALID_ARGUMENT", ("BAD_REQUEST", "TOO_LARGE")):
            vault.put(bad, "x")
    listed = vault.list()
    assert [one.name for one in listed.secrets] == ["db", "tls"]
    assert dict(listed.keys) == {key_id(vault.keys[0]): 11}
    assert [one.version for one in vault.delete("db", 12).versions] == list(range(11, 2, -1))
    with refused("NOT_FOUND", "NO_SUCH_SECRET", "12", "db"):
        vault.delete("db", 12)
    assert not vault.delete("db").versions
    with refused("NOT_FOUND", "NO_SUCH_SECRET", "db"):
        vault.delete("db")
    vault.server.restart()
    assert vault.put("db", "again").versions[0].version == 13  # never reused


def test_dcli_puts_lists_and_deletes(vault, tmp_path):
    done = vault.cli("secret", "put", "db", input="s3cret\n")
    assert done.returncode == 0 and done.stdout == "db@1\n"
    (tmp_path / "value").write_text("fr0m a file\n\n")
    assert vault.cli("secret", "put", "db", "--file", str(tmp_path / "value")).stdout == "db@2\n"
    assert vault.cli("secret", "put", "raw", "--raw", input="s3cret\n").returncode == 0
    assert vault.cli("secret", "put", "empty", input="\n").returncode == 2
    assert vault.cli("secret", "put", "db", "never-in-a-command-line", input="x").returncode == 2
    token = vault.token("*")
    task = vault.task()
    assert vault.resolve(token, task, "db@1", "db", "raw") == [
        ("db", 1, "s3cret"), ("db", 2, "fr0m a file\n"), ("raw", 1, "s3cret\n")]
    listed = vault.cli("secret", "list").stdout
    assert "db" in listed and "2 1" in listed and key_id(vault.keys[0]) in listed
    assert vault.cli("secret", "list", "-o", "name").stdout == "db\nraw\n"
    keys = vault.cli("secret", "list", "--keys").stdout.split()
    assert keys == ["KEY", "VERSIONS", key_id(vault.keys[0]), "3"]
    assert vault.cli("secret", "delete", "db@1").returncode == 0
    assert vault.cli("secret", "delete", "db@1").returncode == 1
    assert vault.cli("secret", "delete", "db").returncode == 0
    assert vault.cli("secret", "list", "-o", "name").stdout == "raw\n"
    created = vault.cli("token", "create", "--role", "worker", "--secret", "db", "--secret",
                        "customer-*", "-o", "json", token=ADMIN_SECRET)
    assert json.loads(created.stdout)["token"]["secrets"] == ["db", "customer-*"]
    assert "customer-*" in vault.cli("token", "list", token=ADMIN_SECRET).stdout


def test_secrets_make_a_namespace_and_go_with_it(vault):
    vault.put("db", PLANTED, namespace="acme")
    acme = package_grpc.NamespaceServiceStub(vault.server.channel)
    get = package.GetNamespaceRequest(name="acme")
    assert acme.GetNamespace(get, timeout=CALL).usage.secrets == 1
    acme.DeleteNamespace(package.DeleteNamespaceRequest(name="acme"), timeout=CALL)
    gone = package.ListSecretsRequest(namespace="acme")
    eventually(lambda: not vault.stub().ListSecrets(gone, timeout=CALL).secrets, within=20)

    def again():
        try:
            return vault.put("db", "new", namespace="acme").versions[0].version == 1
        except grpc.RpcError:
            return False
    eventually(again, within=20)


# Who is told ----------------------------------------------------------------------------------


def test_who_holds_a_claim_and_the_right_token_is_told(vault):
    vault.put("db", "old")
    vault.put("db", "new")
    vault.put("customer-7", "seven")
    vault.put("tls", "key")
    task = vault.task(id="parent/step/1")
    token = vault.token("db", "customer-*")
    assert vault.resolve(token, task, "customer-7", "db", "db@1") == [
        ("customer-7", 1, "seven"), ("db", 2, "new"), ("db", 1, "old")]
    with refused("PERMISSION_DENIED", "NOT_ALLOWED", "tls"):
        vault.resolve(token, task, "db", "tls")
    with refused("PERMISSION_DENIED", "NOT_ALLOWED"):
        vault.resolve(token, task, "nothing-of-that-name")
    with refused("NOT_FOUND", "NO_SUCH_SECRET", "customer-8"):
        vault.resolve(token, task, "db", "customer-8")
    with refused("NOT_FOUND", "NO_SUCH_SECRET", "3"):
        vault.resolve(token, task, "db@3")
    with refused("UNAUTHENTICATED", "BAD_TOKEN"):  # also with --auth off
        vault.resolve(None, task, "db")
    for role in ("viewer", "operator", "admin"):
        with refused("PERMISSION_DENIED", "NOT_ALLOWED"):
            vault.resolve(vault.token(role=role), task, "db")
    with refused("PERMISSION_DENIED", "NOT_ALLOWED"):
        vault.resolve(vault.token("*", namespace="other"), task, "db")
    with refused("PERMISSION_DENIED", "NOT_ALLOWED"):
        vault.resolve(vault.token("*", machines=["another"]), task, "db")
    with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
        vault.token("db", role="operator")
    with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
        vault.token("d*b")
    vault.space.report(task)
    with refused("FAILED_PRECONDITION", "STALE_CLAIM"):
        vault.resolve(token, task, "db")
    with refused("FAILED_PRECONDITION", "STALE_CLAIM"):  # before names
        vault.resolve(token, task, "tls")


def test_each_reading_and_refusal_is_in_the_audit_log(vault):
    vault.put("db", PLANTED)
    task = vault.task()
    token = vault.token("db")
    vault.resolve(token, task, "db")
    with refused("PERMISSION_DENIED"):
        vault.resolve(token, task, "tls")
    with refused("UNAUTHENTICATED"):
        vault.resolve(None, task, "db")
    lines = audited(vault, method="dfsmr.v1.SecretService/ResolveSecrets")
    assert [line["result"] for line in lines] == ["OK", "NOT_ALLOWED", "BAD_TOKEN"]
    assert [line["event"] for line in lines] == ["read", "refused", "refused"]
    assert lines[0]["on"] == task.instance and lines[0]["detail"] == "db@1"
    assert lines[0]["role"] == "worker" and lines[0]["token"]
    assert audited(vault, method="dfsmr.v1.SecretService/PutSecret", on="db", result="OK")
    vault.delete("db")
    assert audited(vault, method="dfsmr.v1.SecretService/DeleteSecret", on="db", result="OK")
    assert PLANTED not in vault.audit.read_text()


def test_reading_is_told_in_the_log_where_there_is_no_audit_log(new_server, tmp_path):
    key = tmp_path / "k"
    key.touch(0o600)
    key.write_text(os.urandom(32).hex())
    (tmp_path / "admin.token").write_text(ADMIN_SECRET)
    server = new_server("--secret-key-file", str(key), "--admin-token-file",
                        str(tmp_path / "admin.token")).start()
    stub = package_grpc.SecretServiceStub(server.channel)
    stub.PutSecret(package.PutSecretRequest(name="db", value=b"x"), timeout=CALL)
    assert "PutSecret" not in server.log
    with refused("UNAUTHENTICATED", "BAD_TOKEN"):
        stub.ResolveSecrets(package.ResolveSecretsRequest(instance="i", claim="1-1-1-1"),
                            timeout=CALL)
    eventually(lambda: "ResolveSecrets" in server.log)


def own_address():
    """Of this machine, but not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return probe.getsockname()[0]
        except OSError:
            return ""


def test_a_secret_is_told_over_tls_or_on_this_machine_only(new_server, tmp_path):
    address = own_address()
    if not address or address.startswith("127."):
        pytest.skip("this machine has loopback addresses only")
    vault = Vault(new_server, tmp_path, "--insecure", everywhere=True)
    vault.put("db", "x")
    task = vault.task()
    token = vault.token("db")
    assert vault.resolve(token, task, "db")
    with open_channel(f"{address}:{vault.server.port}") as channel:
        with refused("FAILED_PRECONDITION", "INSECURE_CHANNEL", "TLS"):
            vault.resolve(token, task, "db", channel=channel)
    assert audited(vault, method="dfsmr.v1.SecretService/ResolveSecrets",
                   result="INSECURE_CHANNEL")


def test_a_secret_is_typed_without_echo(vault):
    master, slave = pty.openpty()
    cli = Cli(vault.server.address, vault.name)
    typed = subprocess.Popen([str(DCLI), "secret", "put", "db"], stdin=slave,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env=cli.environment)

    def echoes():
        return bool(termios.tcgetattr(master)[3] & termios.ECHO)
    try:
        assert echoes()
        eventually(lambda: not echoes())
        os.write(master, PLANTED.encode() + b"\n")
        said, asked = typed.communicate(timeout=20)
        assert typed.returncode == 0, asked
        assert "not shown" in asked and PLANTED not in asked + said
        assert echoes()
        os.set_blocking(master, False)
        try:
            shown = os.read(master, 1 << 16)
        except BlockingIOError:
            shown = b""
        assert PLANTED.encode() not in shown
    finally:
        typed.kill()
        os.close(slave)
        os.close(master)
    task = vault.task()
    assert vault.resolve(vault.token("db"), task, "db") == [("db", 1, PLANTED)]


def test_of_a_package_the_worker_lists_what_it_reads(vault):
    registry = Registry(vault.space)
    more = ("workers:\n  one: {serves: [m.a], run: ./bin/run, secrets: ['customer-*'],"
            " env: {DB: {secret: db}}}\n")
    registry.both("1.0.0", more=more, documents={"m.yaml": machine()})
    listed = registry.get("1.0.0").workers[0].secrets
    assert sorted(listed) == ["customer-*", "db"]
    for name in ("db", "customer-7", "tls"):
        vault.put(name, name)
    vault.space.start("p.m")
    task = vault.space.take("p.m")
    token = vault.token("*")
    assert vault.resolve(token, task, "db", "customer-7") == [("db", 1, "db"),
                                                              ("customer-7", 1, "customer-7")]
    with refused("PERMISSION_DENIED", "NOT_ALLOWED", "tls", "one"):
        vault.resolve(token, task, "tls")
    # Instances of before go on with the manifest that they are pinned to.
    registry.both("2.0.0", more=more.replace("db", "tls"), documents={"m.yaml": machine()})
    assert vault.resolve(token, task, "db")
    with refused("PERMISSION_DENIED", "NOT_ALLOWED", "tls"):
        vault.resolve(token, task, "tls")


# Keys -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode, text, told", [
    (0o644, "a" * 64, "chmod 600"), (0o640, "a" * 64, "chmod 600"), (0o600, "", "no key"),
    (0o600, "a" * 63, ":1: "), (0o600, "ab" * 32 + "\n" + "deadbeef" * 7 + "deadbeeg", ":2: ")])
def test_dsrv_does_not_start_with_a_key_file_that_is_wrong(tmp_path, mode, text, told):
    file = tmp_path / "secret.key"
    file.write_text(text)
    file.chmod(mode)
    done = subprocess.run([str(DSRV), "--data", str(tmp_path / "data"), "--addr",
                           f"localhost:{free_port()}", "--secret-key-file", str(file)],
                          capture_output=True, text=True, timeout=20)
    assert done.returncode == 2 and told in done.stderr, done.stderr
    assert "deadbeef" not in done.stderr


def test_without_a_key_the_rest_works(new_server, tmp_path):
    server = new_server().start()
    stub = package_grpc.SecretServiceStub(server.channel)
    with refused("FAILED_PRECONDITION", "SECRETS_LOCKED", "--secret-key-file"):
        stub.PutSecret(package.PutSecretRequest(name="db", value=b"x"), timeout=CALL)
    assert not stub.ListSecrets(package.ListSecretsRequest(), timeout=CALL).secrets


@pytest.mark.timed
def test_keys_are_rotated_while_it_serves(vault):
    for i in range(40):
        vault.put(f"s{i}", f"value {i}")
    task = vault.task()
    token = vault.token("*")
    old = vault.keys[0]
    new = os.urandom(32).hex()
    began = time.monotonic()
    vault.write_keys(new, old)
    eventually(lambda: key_id(new) in vault.server.log, within=3)
    assert time.monotonic() - began < 3
    eventually(lambda: dict(vault.list().keys) == {key_id(new): 40})
    vault.write_keys(new)
    eventually(lambda: vault.server.log.count("key file has changed") == 2)
    assert vault.resolve(token, task, "s7") == [("s7", 1, "value 7")]
    # What is wrong is told, and changes nothing.
    vault.key_file.write_text("nonsense\n")
    eventually(lambda: "until then the keys from before are used" in vault.server.log)
    assert vault.resolve(token, task, "s7")
    # Another key alone: what the old one sealed is locked, and said to be so.
    other = os.urandom(32).hex()
    vault.write_keys(other)
    eventually(lambda: key_id(other) in vault.server.log)

    def locked():
        with refused("FAILED_PRECONDITION", "SECRETS_LOCKED", key_id(new)):
            vault.resolve(token, task, "s7")
        return True
    eventually(locked)
    assert vault.put("s7", "another").versions[0].key == key_id(other)
    assert vault.resolve(token, task, "s7") == [("s7", 2, "another")]
    assert dict(vault.list().keys) == {key_id(new): 40, key_id(other): 1}


def test_a_rotation_survives_kills(vault):
    for i in range(300):
        vault.put(f"s{i}", f"value {i}")
    keys = [os.urandom(32).hex(), *vault.keys]
    vault.write_keys(*keys)
    for _ in range(4):
        eventually(lambda: vault.list().keys[key_id(keys[0])] > 0)
        vault.server.kill()
        vault.server.start()
        vault.space = vault.server.space(vault.name)
    eventually(lambda: dict(vault.list().keys) == {key_id(keys[0]): 300}, within=20)
    vault.write_keys(keys[0])
    task = vault.task()
    token = vault.token("*")
    for at in range(0, 300, 100):
        names = [f"s{i}" for i in range(at, at + 100)]
        assert vault.resolve(token, task, *names) == [
            (name, 1, f"value {name[1:]}") for name in names]


# Agents ---------------------------------------------------------------------------------------

WORKERS = """\
workers:
  load:
    serves: [load, job.work]
    run: ./load.sh
    secrets: [db, "customer-*"]
    env: {DB_PASSWORD: {secret: db}, OLD: {secret: db, version: 1},
          TLS_KEY: {secret: tls, file: true}}
"""
# It writes what it must not.
LOAD = """\
#!/bin/sh
task=$(cat)
[ "$(stat -c %a "$TLS_KEY")" = 600 ] || exit 9
[ "$DB_PASSWORD" = "SEEN" ] || { echo "password is $DB_PASSWORD"; }
echo "in base64: $(printf %s "$DB_PASSWORD" | base64)"
echo "the key: $(cat "$TLS_KEY")" >&2
echo '{"note": "with '"$DB_PASSWORD"'", "checkpoint": {"p": "'"$DB_PASSWORD"'"}}' >> $DFSMR_PROGRESS
printf '{"output": {"password": "%s", "old": "%s", "length": %d, "task": %s}}' \\
  "$DB_PASSWORD" "$OLD" "${#DB_PASSWORD}" "$task" > $DFSMR_OUTPUT
"""


@pytest.fixture
def agents():
    running = []

    def begin(vault, *flags, token=None, workers=WORKERS, **scripts):
        folder = vault.folder / f"agent{len(running)}"
        folder.mkdir()
        (folder / "workers.yaml").write_text(workers)
        for name, text in {"load": LOAD, **scripts}.items():
            (folder / f"{name}.sh").write_text(text)
            (folder / f"{name}.sh").chmod(0o755)
        if token:
            (folder / "token").write_text(token)
            flags += ("--token-file", str(folder / "token"))
        process = subprocess.Popen(
            [str(DCLI), "agent", "--workers", str(folder / "workers.yaml"), "--name",
             f"h{len(running)}", *flags], stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**Cli(vault.server.address, vault.name).environment, "no_proxy": "127.0.0.1"})
        running.append(process)
        return process

    yield begin
    for process in running:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)


def files_with(folder, text):
    return [file for file in folder.rglob("*")
            if file.is_file() and text.encode() in file.read_bytes()]


def feed(vault, last):
    """All of it, up to a line with this word."""
    text = ""
    process = Cli(vault.server.address, vault.name).background("changes", "--after", "0")
    for line in process.stdout:
        text += line
        if last in line:
            break
    process.kill()
    process.communicate()
    return text


def test_an_agent_gives_secrets_to_commands_and_hides_them(vault, agents):
    vault.put("db", "first-password")
    vault.put("db", PLANTED)
    vault.put("tls", PLANTED + "-tls\nline two of it\n")
    vault.space.define(FLOW)
    agent = agents(vault, token=vault.token("db", "tls"))
    id = vault.space.start("flow", params={"n": 7, "also": {"$secret": "db", "version": 1}})
    eventually(lambda: state(vault.space.get(id)) == "STOPPED", within=20)
    output = from_json(vault.space.get(id).outputs["load"])
    assert output["length"] == len(PLANTED)
    assert output["password"] == "***" and output["old"] == "***"
    assert output["task"]["nodeParams"] == {"password": "***", "n": "7"} or \
        output["task"]["nodeParams"] == {"password": "***", "n": 7}
    assert output["task"]["instanceParams"]["also"] == "***"
    eventually(lambda: "exit status 0" in vault.cli("logs", id).stdout)
    logs = vault.cli("logs", id)
    assert "password is ***" in logs.stdout and "the key: ***" in logs.stdout
    # Params keep the name; nothing that was sent or kept shows a value.
    params = from_json(vault.space.get(id).params)
    assert params["also"] == {"$secret": "db", "version": 1}
    everything = [str(vault.space.get(id, with_nodes=True)), str(vault.space.history(id)),
                  logs.stdout, logs.stderr, vault.server.log, vault.audit.read_text(),
                  feed(vault, "FINISHED"),
                  vault.cli("ps").stdout]
    agent.send_signal(signal.SIGTERM)
    everything.append(agent.communicate(timeout=20)[0])
    for text in everything:
        for value in (PLANTED, "first-password", base64.b64encode(PLANTED.encode()).decode(),
                      "line two of it"):
            assert value not in text, text
    assert vault.server.stop() == 0
    for value in (PLANTED, "first-password"):
        assert files_with(vault.server.data, value) == []


# A command that writes them where no report is to have them.
WRONG = {
    "transition": '{"transition": "%s"}',
    "kind": '{"transition": "error", "error_kind": "%s"}',
    "start": '{"start": [{"machine": "sink", "id": "c", "labels": {"l": "%s"}}]}',
    "id": '{"start": [{"machine": "sink", "id": "%s"}]}',
}


def test_a_report_shows_no_secret_wherever_it_stands(vault, agents):
    vault.put("db", PLANTED)
    vault.space.define(JOB.replace("id: job", "id: sink"))
    for name in WRONG:
        vault.space.define(JOB.replace("id: job", f"id: {name}"))
    workers = "workers:\n" + "".join(
        f"  {name}.work: {{run: ./{name}.sh, env: {{DB: {{secret: db}}}}}}\n" for name in WRONG)
    agents(vault, token=vault.token("db"), workers=workers, **{
        name: "#!/bin/sh\nprintf '" + report + "' \"$DB\" > $DFSMR_OUTPUT\n"
        for name, report in WRONG.items()})
    ids = [vault.space.start(name) for name in WRONG]
    eventually(lambda: all(state(vault.space.get(id)) == "STOPPED" for id in ids), within=30)
    for id in ids:
        everything = str(vault.space.get(id)) + str(vault.space.history(id))
        assert PLANTED not in everything, everything
    assert vault.space.get("c").labels["l"] == "***"
    assert PLANTED not in str(vault.space.changes("0")) + vault.audit.read_text()


def refusals(vault, id):
    return vault.cli("show", id).stdout


def test_an_agent_refuses_what_it_cannot_read_and_says_why(vault, agents):
    vault.space.define(JOB)
    vault.put("db", "one-password")
    vault.put("db", "two-password")
    agents(vault, token=vault.token("db"))
    id = vault.space.start("job")
    eventually(lambda: "tls" in refusals(vault, id), within=20)
    token = vault.space.token(id)
    assert token_state(token) == "READY" and token.attempt == 0
    # Another agent, which may, does it.
    vault.put("tls", "key-of-tls")
    agents(vault, token=vault.token("db", "tls"))
    eventually(lambda: state(vault.space.get(id)) == "STOPPED", within=20)
    # One whose worker does not list what its task asks for.
    id = vault.space.start("job", params={"a": {"$secret": "other"}})
    eventually(lambda: "does not list it" in refusals(vault, id), within=20)


def test_an_agent_without_a_token_says_how_to_get_one(vault, agents):
    vault.space.define(JOB)
    agents(vault)
    id = vault.space.start("job")
    eventually(lambda: "dcli token create --role worker --secret" in refusals(vault, id), within=20)


def test_values_of_the_agents_own_are_not_asked_for(vault, agents, tmp_path):
    vault.space.define(JOB)
    (tmp_path / "own.env").write_text("# mine\ndb=0wn-password\ntls=0wn-key\n")
    agents(vault, "--env-file", str(tmp_path / "own.env"))
    id = vault.space.start("job", params={"a": {"$secret": "db"}})
    eventually(lambda: state(vault.space.get(id)) == "STOPPED", within=20)
    output = from_json(vault.space.get(id).outputs["work"])
    assert output["length"] == len("0wn-password") and output["password"] == "***"
    assert output["task"]["instanceParams"]["a"] == "***"
    assert audited(vault, method="dfsmr.v1.SecretService/ResolveSecrets") == []
    (tmp_path / "bad.env").write_text("fine=1\nhunter2\n")
    done = vault.cli("agent", "--env-file", str(tmp_path / "bad.env"), "--check")
    assert done.returncode == 2 and "bad.env:2" in done.stderr and "hunter2" not in done.stderr


SERVE = """\
workers:
  job.work: {run: [python3, serve.py], mode: serve, env: {DB: {secret: db}}, secrets: [db, other]}
"""
SERVE_PY = """\
import json, os, sys
for line in sys.stdin:
    word = json.loads(line)
    if word["type"] == "task":
        seen = word["task"]["instanceParams"].get("a", "")
        print("seen", os.environ["DB"], seen, flush=True)
        output = {"db": len(os.environ["DB"]), "a": len(seen), "shown": os.environ["DB"]}
        print(json.dumps({"type": "result", "id": word["id"], "output": output}), flush=True)
"""


def test_a_process_that_serves_asks_for_its_variables_once(vault, agents):
    vault.space.define(JOB)
    vault.put("db", "one-password")
    vault.put("other", "other-value")
    folder = vault.folder / "agent0"
    process = None
    workers = SERVE.replace("serve.py", str(vault.folder / "serve.py"))
    (vault.folder / "serve.py").write_text(SERVE_PY)
    process = agents(vault, "--jobs", "1", token=vault.token("*"), workers=workers)
    ids = [vault.space.start("job") for _ in range(3)]
    ids.append(vault.space.start("job", params={"a": {"$secret": "other"}}))
    eventually(lambda: all(state(vault.space.get(id)) == "STOPPED" for id in ids), within=20)
    outputs = [from_json(vault.space.get(id).outputs["work"]) for id in ids]
    assert [one["db"] for one in outputs] == [len("one-password")] * 4
    assert [one["shown"] for one in outputs] == ["***"] * 4
    assert outputs[3]["a"] == len("other-value")
    asked = audited(vault, method="dfsmr.v1.SecretService/ResolveSecrets")
    assert [line["detail"] for line in asked] == ["db@1", "other@1"]
    assert process.poll() is None and folder.exists()
