"""Signatures of packages: verdicts, what is refused and blocked by them, and ssh-keygen both ways."""
import json
import subprocess

import pytest

from stubs import package, v1
from support import CALL, SOON, Server, duration, eventually, only, refused, result
from test_packages import Registry, archive, machine, names
from test_security import audited, guarded, root  # noqa: F401, fixtures

Verdict = package.PackageVersion.Verdict
TRUSTED, UNSIGNED, REVOKED = (package.PackageVersion.TRUSTED, package.PackageVersion.UNSIGNED,
                              package.PackageVersion.REVOKED)


class Key:
    """A key of ssh-keygen."""

    def __init__(self, folder, name, kind="ed25519"):
        self.path = folder / name
        subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", name, "-f", self.path],
                       check=True)
        self.line = (folder / (name + ".pub")).read_text()
        self.fingerprint = subprocess.run(["ssh-keygen", "-lf", str(self.path) + ".pub"], text=True,
                                          check=True, capture_output=True).stdout.split()[1]

    def sign(self, data, namespace="dfsmr-package", *options):
        file = self.path.parent / "signed"
        file.write_bytes(data)
        return subprocess.run(["ssh-keygen", "-q", "-Y", "sign", *options, "-f", self.path, "-n",
                               namespace], stdin=open(file, "rb"), text=True, check=True,
                              capture_output=True).stdout


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    return {name: Key(folder, name) for name in ("ann", "bob", "eve")}


class Trust(Registry):
    def trust(self, key, name=None):
        return self.stub.AddTrustedKey(package.AddTrustedKeyRequest(
            namespace=self.space.name, name=key.path.name if name is None else name, public_key=key.line),
            timeout=CALL)

    def revoke(self, key):
        return self.stub.RevokeTrustedKey(package.RevokeTrustedKeyRequest(
            namespace=self.space.name, key=key), timeout=CALL)

    def keys(self):
        return list(self.stub.ListTrustedKeys(package.ListTrustedKeysRequest(
            namespace=self.space.name), timeout=CALL).keys)

    def sign(self, signature, version="1.0.0", name="p"):
        return self.stub.SignPackage(package.SignPackageRequest(
            namespace=self.space.name, package=name, version=version, signature=signature),
            timeout=CALL)

    def require(self, on=True, **more):
        request = package.UpdateNamespaceRequest(name=self.space.name, **more)
        request.settings.require_signatures = on
        request.fields.paths.append("require_signatures")
        return names(self.space).UpdateNamespace(request, timeout=CALL)

    def why(self, id):
        return only(self.space.get(id).tokens).why


@pytest.fixture
def trust(space):
    return Trust(space)


# Keys -----------------------------------------------------------------------------------------


def test_keys_are_trusted_listed_and_revoked_for_good(trust, keys):
    ann = trust.trust(keys["ann"])
    assert (ann.name, ann.fingerprint) == ("ann", keys["ann"].fingerprint)
    assert ann.public_key == keys["ann"].line.strip() and not ann.HasField("revoke_time")
    with refused("ALREADY_EXISTS", "KEY_EXISTS", "ann"):
        trust.trust(keys["ann"], "other")
    with refused("ALREADY_EXISTS", "KEY_EXISTS", "ann"):
        trust.trust(keys["bob"], "ann")
    trust.trust(keys["bob"])
    revoked = trust.revoke("ann").key
    assert revoked.fingerprint == ann.fingerprint and revoked.HasField("revoke_time")
    assert trust.revoke(ann.fingerprint).key == revoked
    with refused("FAILED_PRECONDITION", "KEY_REVOKED", "ann"):
        trust.trust(keys["ann"], "again")
    assert [(key.name, key.HasField("revoke_time")) for key in trust.keys()] == [
        ("ann", True), ("bob", False)]
    with refused("NOT_FOUND", "NO_SUCH_KEY", "eve"):
        trust.revoke("eve")
    assert trust.trust(keys["eve"], "eve@example.org").name == "eve@example.org"
    for name in ("", "a b", "SHA256:x"):
        with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
            trust.trust(keys["eve"], name)
    for line in ("", "ssh-ed25519 AAAA", keys["ann"].path.read_text()):
        with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
            trust.stub.AddTrustedKey(package.AddTrustedKeyRequest(
                namespace=trust.space.name, name="x", public_key=line), timeout=CALL)


def test_trusting_a_key_is_the_first_use_of_a_namespace(server, keys):
    space = server.space("only-a-key")
    with refused("NOT_FOUND", "NO_SUCH_NAMESPACE"):
        names(space).GetNamespace(package.GetNamespaceRequest(name=space.name), timeout=CALL)
    assert Trust(space).keys() == []
    Trust(space).trust(keys["ann"])
    assert names(space).GetNamespace(package.GetNamespaceRequest(name=space.name),
                                     timeout=CALL).name == space.name
    assert Trust(server.space("another-one")).keys() == []


# Verdicts -------------------------------------------------------------------------------------


def test_a_put_says_what_its_signatures_are_worth(trust, keys):
    trust.trust(keys["ann"])
    one, two, three = archive("1.0.0"), archive("2.0.0"), archive("3.0.0")
    assert trust.put(one, signatures=[keys["ann"].sign(one)]).package.verdict == TRUSTED
    assert trust.put(two, signatures=[keys["eve"].sign(two)]).package.verdict == UNSIGNED
    assert trust.put(three).package.verdict == UNSIGNED
    shown = trust.get("1.0.0")
    signature = only(shown.signatures)
    assert (signature.fingerprint, signature.key_name) == (keys["ann"].fingerprint, "ann")
    assert signature.text == keys["ann"].sign(one) and not signature.revoked
    unknown = only(trust.get("2.0.0").signatures)
    assert (unknown.fingerprint, unknown.key_name) == (keys["eve"].fingerprint, "")
    assert {one.version: one.verdict for one in trust.list("p").packages} == {
        "1.0.0": TRUSTED, "2.0.0": UNSIGNED, "3.0.0": UNSIGNED}
    fetched, data = trust.fetch("1.0.0")
    assert data == one and fetched.verdict == TRUSTED and fetched.signatures == shown.signatures
    assert trust.activate("1.0.0").package.verdict == TRUSTED
    trust.trust(keys["eve"])
    assert trust.get("2.0.0").verdict == TRUSTED
    trust.revoke("ann")
    assert trust.get("1.0.0").verdict == REVOKED
    assert only(trust.get("1.0.0").signatures).revoked
    four = archive("4.0.0")
    with refused("FAILED_PRECONDITION", "KEY_REVOKED", "ann"):
        trust.put(four, signatures=[keys["ann"].sign(four)])
    both = [keys["ann"].sign(four), keys["eve"].sign(four)]
    assert trust.put(four, validate_only=True, signatures=both).package.verdict == TRUSTED
    assert trust.put(four, signatures=both).package.verdict == TRUSTED


def test_what_was_put_without_a_signature_is_signed_later(trust, keys):
    data = archive()
    trust.trust(keys["ann"])
    trust.put(data)
    signed = trust.sign(keys["ann"].sign(data))
    assert signed.verdict == TRUSTED and len(signed.signatures) == 1
    assert trust.sign(keys["ann"].sign(data)) == signed
    digest = signed.digest
    assert trust.sign(keys["bob"].sign(data), digest, name="").signatures[1].key_name == ""
    again = trust.put(data, signatures=[keys["eve"].sign(data)])
    assert not again.created and len(again.package.signatures) == 3
    with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
        trust.sign(keys["ann"].sign(data), "")
    with refused("NOT_FOUND", "NO_SUCH_PACKAGE"):
        trust.sign(keys["ann"].sign(data), "9.0.0")


def test_what_is_never_taken(trust, keys, tmp_path):
    data = archive()
    other = keys["ann"].sign(archive("2.0.0"))
    rsa = Key(tmp_path, "rsa", "rsa")
    bad = [(other, "SIGNATURE_MISMATCH", keys["ann"].fingerprint),
           (keys["ann"].sign(data, "file"), "BAD_SIGNATURE", "-n 'file'"),
           (rsa.sign(data), "BAD_SIGNATURE", "ssh-rsa"),
           ("nonsense", "BAD_SIGNATURE", "ssh-keygen")]
    for signature, reason, says in bad:
        with refused("INVALID_ARGUMENT", reason, says):
            trust.put(data, signatures=[signature])
    with refused("NOT_FOUND", "NO_SUCH_PACKAGE"):
        trust.get("1.0.0")
    trust.put(data)
    for signature, reason, says in bad:
        with refused("INVALID_ARGUMENT", reason, says):
            trust.put(data, signatures=[signature])
        with refused("INVALID_ARGUMENT", reason, says):
            trust.sign(signature)
    assert not trust.get("1.0.0").signatures
    with refused("INVALID_ARGUMENT", "TOO_LARGE"):
        trust.put(data, signatures=[other] * 9)
    assert trust.sign(keys["ann"].sign(data, "dfsmr-package", "-O", "hashalg=sha256")).signatures


# Required, and blocked ------------------------------------------------------------------------


def test_required_signatures_count_at_activation(trust, keys):
    trust.trust(keys["ann"])
    trust.require()
    one, two, three = archive("1.0.0"), archive("2.0.0"), archive("3.0.0")
    trust.put(one)
    trust.put(two, signatures=[keys["eve"].sign(two)])
    trust.put(three, signatures=[keys["ann"].sign(three)])
    assert "not signed" in trust.get("1.0.0").blocked
    for validate_only in (True, False):
        with refused("FAILED_PRECONDITION", "UNSIGNED", "1.0.0"):
            trust.activate("1.0.0", validate_only=validate_only)
        with refused("FAILED_PRECONDITION", "UNTRUSTED_KEY", keys["eve"].fingerprint):
            trust.activate("2.0.0", validate_only=validate_only)
    assert trust.activate("3.0.0").changed
    trust.sign(keys["ann"].sign(one))
    assert trust.activate("1.0.0").changed
    trust.revoke("ann")
    with refused("FAILED_PRECONDITION", "KEY_REVOKED", "ann"):
        trust.activate(rollback=True)


def test_a_revocation_blocks_until_another_trusted_key_signs(trust, space, keys):
    data = archive()
    for name in ("ann", "bob"):
        trust.trust(keys[name])
    trust.put(data, signatures=[keys["ann"].sign(data)])
    trust.activate("1.0.0")
    space.define(machine("own"))
    claimed, waits, own = space.start("p.m"), space.start("p.m"), space.start("own")
    task = space.take("p.m")
    blocked = only(trust.revoke("ann").blocked)
    assert (blocked.version, blocked.verdict, blocked.stats.live) == ("1.0.0", REVOKED, 2)
    assert "ann" in blocked.blocked
    assert space.take("own").instance == own
    assert not space.ready("p.m") and not space.ready()
    ready = waits if task.instance == claimed else claimed
    assert "p@1.0.0" in trust.why(ready) and "revoked" in trust.why(ready)
    space.report(task)
    assert result(space.get(task.instance)) == "SUCCESS"
    id = space.start("p.m")
    assert "blocked" in trust.why(id)
    assert trust.sign(keys["bob"].sign(data)).blocked == ""
    assert {space.take("p.m").instance for _ in range(2)} == {ready, id}
    assert trust.why(id) == ""


def test_what_is_blocked_before_its_begin_is_not_begun(trust, space, keys):
    data = archive()
    trust.trust(keys["ann"])
    trust.put(data, signatures=[keys["ann"].sign(data)])
    trust.activate("1.0.0")
    id = space.start("p.m")
    [task] = space.ready("p.m", begin_within=duration(30))
    begun = space.start("p.m")
    [other] = space.ready("p.m", begin_within=duration(30))
    item = v1.ExtendRequest.Item(instance=begun, claim=other.claim, begin=True)
    assert not only(space.extend_all(item)).error.reason
    trust.revoke("ann")
    answer = only(space.extend_all(v1.ExtendRequest.Item(instance=id, claim=task.claim, begin=True)))
    assert answer.error.reason == "STALE_CLAIM"
    assert "p@1.0.0" in trust.why(id)
    assert not only(space.extend_all(item)).error.reason
    space.report(other)
    assert result(space.get(begun)) == "SUCCESS"


def test_a_waiting_worker_gets_what_is_unblocked(trust, space, keys):
    data = archive()
    trust.trust(keys["ann"])
    trust.both("1.0.0")
    trust.require(force=True)
    id = space.start("p.m")
    poll = space.later("Ready", space.ready_request("p.m", wait=SOON))
    assert not space.ready("p.m")
    trust.sign(keys["ann"].sign(data))
    assert only(poll.result(timeout=SOON).tasks).instance == id


def test_to_require_signatures_what_is_in_use_needs_one(trust, space, keys):
    trust.trust(keys["ann"])
    trust.both("1.0.0")
    with refused("FAILED_PRECONDITION", "UNSIGNED", "p@1.0.0"):
        trust.require()
    assert not names(space).GetNamespace(package.GetNamespaceRequest(
        name=space.name), timeout=CALL).settings.require_signatures
    id = space.start("p.m")
    trust.require(force=True)
    assert not space.ready("p.m") and "requires signatures" in trust.why(id)
    trust.require(False)
    task = space.take("p.m")
    space.relinquish(task.instance, task.claim)
    trust.sign(keys["ann"].sign(archive()))
    trust.require()
    assert space.take("p.m").instance == id


def test_another_package_that_calls_a_blocked_one_waits(trust, space, keys):
    trust.trust(keys["ann"])
    data = archive()
    trust.put(data, signatures=[keys["ann"].sign(data)])
    trust.activate("1.0.0")
    space.define("id: outside\nnodes:\n  a: {start: true, action: p.m.a, transitions: {ok: end}}\n"
                 "  end: {final: true}\n")
    id = space.start("outside")
    trust.revoke("ann")
    assert not space.ready("outside") and "p@1.0.0" in trust.why(id)


def test_it_is_blocked_still_after_a_crash(tmp_path, keys):
    server = Server(tmp_path / "data").start()
    trust = Trust(server.space("default"))
    data = archive()
    for name in ("ann", "bob"):
        trust.trust(keys[name])
    trust.put(data, signatures=[keys["ann"].sign(data)])
    trust.activate("1.0.0")
    id = trust.space.start("p.m")
    trust.revoke("ann")
    server.kill()
    server.restart()
    trust = Trust(server.space("default"))
    assert trust.get().verdict == REVOKED and not trust.space.ready("p.m")
    assert "p@1.0.0" in trust.why(id)
    trust.sign(keys["bob"].sign(data))
    assert trust.space.take("p.m").instance == id
    server.dispose()


def test_who_may_trust_sign_and_fetch(guarded, root, keys):
    space = root.space("default")
    admin = Trust(space, root.channel)
    operator = Trust(space, root.create("operator").channel)
    viewer = Trust(space, root.create("viewer").channel)
    worker = Trust(space, root.create("worker").channel)
    for caller in (operator, viewer, worker):
        with refused("PERMISSION_DENIED", "NOT_ALLOWED"):
            caller.trust(keys["ann"])
    admin.trust(keys["ann"])
    admin.trust(keys["bob"])
    assert len(viewer.keys()) == 2
    with refused("PERMISSION_DENIED", "NOT_ALLOWED"):
        worker.keys()
    data = archive()
    operator.put(data, signatures=[keys["ann"].sign(data)])
    for caller in (viewer, worker):
        with refused("PERMISSION_DENIED", "NOT_ALLOWED"):
            caller.sign(keys["ann"].sign(data))
    assert worker.fetch("1.0.0")[1] == data
    with refused("PERMISSION_DENIED", "NOT_ALLOWED"):
        operator.revoke("ann")
    admin.revoke("ann")
    with refused("FAILED_PRECONDITION", "KEY_REVOKED"):
        worker.fetch("1.0.0")
    fetched, got = operator.fetch("1.0.0")
    assert got == data and fetched.verdict == REVOKED
    assert worker.get("1.0.0").verdict == REVOKED
    operator.sign(keys["bob"].sign(data))
    assert worker.fetch("1.0.0")[1] == data
    noted = [line["method"].split("/")[1] for line in audited(guarded, result="OK")
             if "PackageService" in line["method"]]
    assert noted == ["AddTrustedKey", "AddTrustedKey", "PutPackage", "RevokeTrustedKey",
                     "SignPackage"]


# dcli -----------------------------------------------------------------------------------------


def test_dcli_signs_pushes_and_verifies_and_ssh_keygen_agrees(space, dcli, keys, tmp_path):
    cli = dcli
    ann, bob = str(keys["ann"].path), str(keys["bob"].path)
    file = tmp_path / "p-1.0.0.dfsmr"
    file.write_bytes(archive())

    def dcli(*words, status=0):
        done = cli(*words, cwd=tmp_path)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout if status == 0 else done.stderr

    assert keys["ann"].fingerprint in dcli("trust", "add", "ann", ann + ".pub")
    assert "TRUSTED" in dcli("package", "push", file.name, "--sign-with", ann)
    assert not (tmp_path / "p-1.0.0.dfsmr.sig").exists()
    assert "TRUSTED" in dcli("package", "verify", "p@1.0.0")
    shown = dcli("package", "show", "p@1.0.0")
    assert "TRUSTED" in shown and keys["ann"].fingerprint in shown and "ann" in shown
    # Theirs, checked by ours, and pushed along.
    subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-f", bob, "-n", "dfsmr-package", file],
                   check=True)
    assert "there already" in dcli("package", "push", file.name)
    # Ours, checked by theirs.
    (tmp_path / "signers").write_text(dcli("trust", "list", "--allowed-signers"))
    signature = json.loads(dcli("package", "show", "p@1.0.0", "-o", "json"))["signatures"]
    assert [one["fingerprint"] for one in signature] == [keys["ann"].fingerprint,
                                                         keys["bob"].fingerprint]
    (tmp_path / "ann.sig").write_text(signature[0]["text"])
    subprocess.run(["ssh-keygen", "-Y", "verify", "-f", "signers", "-I", "ann", "-n",
                    "dfsmr-package", "-s", "ann.sig"], cwd=tmp_path, stdin=open(file, "rb"),
                   check=True)
    assert "p@1.0.0" in dcli("package", "push", file.name, "--activate")
    revoked = dcli("trust", "revoke", "ann")
    assert "p@1.0.0" in revoked and "active" in revoked
    assert "REVOKED" in dcli("package", "show", "p") and "(blocked)" in dcli("package", "list")
    assert "KEY_REVOKED" in dcli("package", "verify", "p@1.0.0", status=1)
    assert keys["bob"].fingerprint in dcli("package", "verify", file.name, status=1)
    dcli("trust", "add", "bob", bob + ".pub")
    assert "TRUSTED" in dcli("package", "verify", file.name)
    assert "bob" in dcli("package", "verify", "p@1.0.0")
    assert "ann" not in dcli("trust", "list", "--allowed-signers")
    assert dcli("trust", "list", "-o", "name").split() == ["ann", "bob"]
    (tmp_path / "q.dfsmr").write_bytes(archive(name="q"))
    dcli("package", "push", "q.dfsmr")
    assert "UNSIGNED" in dcli("package", "verify", "q@1.0.0", status=1)
    assert "TRUSTED" in dcli("package", "sign", "q@1.0.0", "--key", bob)
    assert "TRUSTED" in dcli("package", "verify", "q@1.0.0")
    dcli("trust", "add", "x", status=2)
    dcli("trust", "grow", status=2)
    dcli("namespace", "set", space.name, "require-signatures=true")
    eventually(lambda: "require" in dcli("namespace", "show", space.name, "-o", "json").lower())
