"""dcli package without a server: folders, archives and signatures, as their users meet them."""
import hashlib
import io
import json
import os
import pathlib
import shutil
import stat
import subprocess
import tarfile

import pytest

from support import DCLI

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "machines" / "etl"
MANIFEST = b"package: etl\nversion: 1.4.0\n"


def dcli(*words, cwd, status=0):
    done = subprocess.run([str(DCLI), "package", *map(str, words)], cwd=cwd, text=True,
                          capture_output=True, timeout=60)
    assert done.returncode == status, done.stdout + done.stderr
    return done


@pytest.fixture
def etl(tmp_path):
    shutil.copytree(EXAMPLE, tmp_path / "etl")
    return tmp_path


def test_the_example_is_sound(etl):
    done = dcli("check", "etl", cwd=etl)
    assert done.stderr == ""
    assert "package etl@1.4.0  ok  6 documents  2 workers  etl" in done.stdout
    reply = json.loads(dcli("check", "etl", "-o", "json", cwd=etl).stdout)
    workers = {one["name"]: one for one in reply["package"]["workers"]}
    assert workers["fetch"]["actions"] == ["etl.orders.fetch", "etl.orders.list"]
    assert workers["load"]["actions"] == ["etl.orders.load", "report.day"] or \
        workers["load"]["actions"] == ["etl.orders.load", "etl.report.day"]
    assert workers["load"]["secrets"] == ["warehouse"]
    assert {one["id"] for one in reply["package"]["documents"]} >= {"etl.orders", "etl.nightly"}


def reference_archive(folder, top):
    """The same archive by Python's tarfile."""
    files = sorted((p.relative_to(folder).as_posix().encode() for p in folder.rglob("*")
                    if p.is_file() or p.is_symlink()))
    files.sort(key=lambda path: (path != b"package.yaml", path))
    out = io.BytesIO()
    for path in files:
        real = folder / path.decode()
        entry = tarfile.TarInfo(f"{top}/{path.decode()}")
        entry.mtime = 946684800
        data = b""
        if real.is_symlink():
            entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, os.readlink(real), 0o777
        else:
            data = real.read_bytes()
            entry.mode = 0o755 if real.stat().st_mode & 0o111 else 0o644
        entry.size = len(data)
        out.write(entry.tobuf(tarfile.USTAR_FORMAT))
        out.write(data + b"\0" * (-len(data) % 512))
    return out.getvalue() + b"\0" * 1024


def test_build_writes_the_bytes_that_the_page_promises(etl):
    (etl / "etl" / "link").symlink_to("bin/fetch")
    (etl / "etl" / "bin" / "fetch").chmod(0o700)
    for left_out in ("x.log", ".git/config", "a~", "old.dfsmr", "__pycache__/x.pyc"):
        (etl / "etl" / left_out).parent.mkdir(exist_ok=True)
        (etl / "etl" / left_out).write_text("no")
    reply = json.loads(dcli("build", "etl", "-o", "json", cwd=etl).stdout)
    data = (etl / "etl-1.4.0.dfsmr").read_bytes()
    assert reply["file"] == "etl-1.4.0.dfsmr"
    assert reply["bytes"] == len(data)
    assert reply["digest"] == "sha256:" + hashlib.sha256(data).hexdigest()
    for left_out in ("x.log", "a~", "old.dfsmr"):
        (etl / "etl" / left_out).unlink()
    shutil.rmtree(etl / "etl" / ".git")
    shutil.rmtree(etl / "etl" / "__pycache__")
    assert data == reference_archive(etl / "etl", "etl-1.4.0")
    os.utime(etl / "etl" / "package.yaml", (1, 1))
    dcli("build", "etl", "--out", "again", cwd=etl)
    assert (etl / "again").read_bytes() == data
    assert dcli("check", "etl-1.4.0.dfsmr", cwd=etl).stderr == ""


def test_a_version_is_written_into_its_line(etl):
    dcli("build", "etl", "--version", "2.0.0-rc.1", cwd=etl)
    with tarfile.open(etl / "etl-2.0.0-rc.1.dfsmr") as archive:
        text = archive.extractfile("etl-2.0.0-rc.1/package.yaml").read().decode()
    before = (etl / "etl" / "package.yaml").read_text()
    assert text == before.replace("version: 1.4.0", "version: 2.0.0-rc.1")
    dcli("build", "etl", "--version", "two", cwd=etl, status=2)


def test_what_does_not_check_is_not_built(etl):
    (etl / "etl" / "bin" / "fetch").chmod(0o644)
    done = dcli("build", "etl", cwd=etl, status=1)
    assert "etl/package.yaml:9:10: workers.fetch.run: './bin/fetch' is not executable" in done.stderr
    assert not (etl / "etl-1.4.0.dfsmr").exists()
    plan = etl / "etl" / "documents" / "orders.plan.yaml"
    plan.write_text(plan.read_text().replace("use: [audit]", "use: [adit]"))
    done = dcli("check", "etl", cwd=etl, status=1)
    assert "etl/documents/orders.plan.yaml:7:1: use: " in done.stderr
    assert "did you mean 'audit'?" in done.stderr


def archive(entries, form=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for name, kind, value in entries:
            entry = tarfile.TarInfo(name)
            entry.type = kind
            if kind == tarfile.REGTYPE:
                entry.size = len(value)
                tar.addfile(entry, io.BytesIO(value))
            else:
                entry.linkname = value
                tar.addfile(entry)
    return out.getvalue()


FIRST = ("etl-1.4.0/package.yaml", tarfile.REGTYPE, MANIFEST)


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_archives_of_others_are_read(tmp_path, form):
    data = archive([("etl-1.4.0", tarfile.DIRTYPE, ""), FIRST,
                    ("etl-1.4.0/" + "n" * 150, tarfile.REGTYPE, b"x"),
                    ("etl-1.4.0/a/l", tarfile.SYMTYPE, "../" + "n" * 150)], form)
    (tmp_path / "x").write_bytes(data)
    dcli("check", "x", cwd=tmp_path)


@pytest.mark.parametrize("entry, says", [
    (("etl-1.4.0/../x", tarfile.REGTYPE, b""), "etl-1.4.0/../x"),
    (("/etc/x", tarfile.REGTYPE, b""), "/etc/x"),
    (("other/x", tarfile.REGTYPE, b""), "another top folder"),
    (("etl-1.4.0/l", tarfile.SYMTYPE, "../../x"), "leads out"),
    (("etl-1.4.0/l", tarfile.SYMTYPE, "/etc/passwd"), "absolute"),
    (("etl-1.4.0/l", tarfile.LNKTYPE, "etl-1.4.0/package.yaml"), "hard link"),
    (("etl-1.4.0/f", tarfile.FIFOTYPE, ""), "FIFO"),
    (FIRST, "twice"),
])
def test_what_an_archive_may_not_hold(tmp_path, entry, says):
    (tmp_path / "x").write_bytes(archive([FIRST, entry]))
    done = dcli("check", "x", cwd=tmp_path, status=1)
    assert "BAD_ARCHIVE" in done.stderr and says in done.stderr


def test_a_compressed_archive_names_the_command(tmp_path):
    (tmp_path / "x").write_bytes(archive([FIRST]))
    subprocess.run(["gzip", "x"], cwd=tmp_path, check=True)
    done = dcli("check", "x.gz", cwd=tmp_path, status=1)
    assert "BAD_ARCHIVE" in done.stderr and "gunzip" in done.stderr


def test_build_writes_into_devices_and_through_links(etl):
    done = dcli("build", "etl", "--out", "/dev/full", cwd=etl, status=2)
    assert "cannot write /dev/full: No space left on device" in done.stderr
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    dcli("build", "etl", "--out", "/dev/null", cwd=etl)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    (etl / "there").mkdir()
    (etl / "link").symlink_to("there/real.dfsmr")
    dcli("build", "etl", "--out", "link", cwd=etl)
    assert (etl / "link").is_symlink() and not list(etl.rglob("*.new"))
    dcli("build", "etl", cwd=etl)
    assert (etl / "there/real.dfsmr").read_bytes() == (etl / "etl-1.4.0.dfsmr").read_bytes()


def test_an_empty_manifest_is_told_what_it_needs(etl):
    (etl / "etl" / "package.yaml").write_text("")
    done = dcli("check", "etl", cwd=etl, status=1)
    assert "it is empty; it needs at least 'package: NAME' and 'version: 1.0.0'" in done.stderr


def test_diff_tells_what_differs(etl):
    dcli("build", "etl", cwd=etl)
    assert dcli("diff", "etl", "etl-1.4.0.dfsmr", cwd=etl).stdout == ""
    load = etl / "etl" / "workers" / "load.py"
    load.write_text(load.read_text().replace("loading", "taking"))
    (etl / "etl" / "new.bin").write_bytes(b"\0\1")
    done = dcli("diff", "etl-1.4.0.dfsmr", "etl", cwd=etl, status=1)
    assert "--- etl-1.4.0.dfsmr/workers/load.py\n+++ etl/workers/load.py\n" in done.stdout
    assert "only in etl/new.bin (binary)" in done.stdout
    reply = json.loads(dcli("diff", "etl-1.4.0.dfsmr", "etl", "-o", "json", cwd=etl,
                            status=1).stdout)
    assert reply == {"added": ["new.bin"], "changed": ["workers/load.py"]}


def make_key(folder, name, kind="ed25519"):
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", name], cwd=folder, check=True)


def test_signatures_are_those_of_ssh_keygen(etl):
    dcli("build", "etl", cwd=etl)
    make_key(etl, "ann")
    make_key(etl, "bob")
    file = "etl-1.4.0.dfsmr"
    (etl / "signers").write_text("ann@x " + (etl / "ann.pub").read_text())
    done = dcli("verify", file, "--allowed-signers", "signers", cwd=etl, status=1)
    assert "not signed" in done.stderr
    # Ours, checked by theirs.
    dcli("sign", file, "--key", "ann", cwd=etl)
    with open(etl / file, "rb") as data:
        subprocess.run(["ssh-keygen", "-Y", "verify", "-f", "signers", "-I", "ann@x", "-n",
                        "dfsmr-package", "-s", file + ".sig"], cwd=etl, stdin=data, check=True)
    assert "TRUSTED" in dcli("verify", file, "--allowed-signers", "signers", cwd=etl).stdout
    # Theirs, checked by ours.
    (etl / (file + ".sig")).unlink()
    subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-f", "bob", "-n", "dfsmr-package", file],
                   cwd=etl, check=True)
    done = dcli("verify", file, "--allowed-signers", "signers", cwd=etl, status=1)
    fingerprint = subprocess.run(["ssh-keygen", "-lf", "bob.pub"], cwd=etl, check=True, text=True,
                                 capture_output=True).stdout.split()[1]
    assert fingerprint in done.stderr
    with open(etl / "signers", "a") as signers:
        signers.write("bob@x " + (etl / "bob.pub").read_text())
    reply = json.loads(dcli("verify", file, "--allowed-signers", "signers", "-o", "json",
                            cwd=etl).stdout)
    assert reply == {"file": file, "fingerprint": fingerprint, "signer": "bob@x",
                     "verdict": "TRUSTED"}
    # Changed.
    data = bytearray((etl / file).read_bytes())
    data[600] ^= 1
    (etl / file).write_bytes(data)
    done = dcli("verify", file, "--allowed-signers", "signers", cwd=etl, status=1)
    assert "SIGNATURE_MISMATCH" in done.stderr


@pytest.mark.parametrize("kind, name, says", [("rsa", "dfsmr-package", "ssh-rsa"),
                                              ("ed25519", "file", "-n 'file'")])
def test_other_signatures_are_never_taken(tmp_path, kind, name, says):
    (tmp_path / "x").write_bytes(archive([FIRST]))
    make_key(tmp_path, "key", kind)
    (tmp_path / "signers").write_text("ann " + (tmp_path / "key.pub").read_text())
    subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-f", "key", "-n", name, "x"], cwd=tmp_path,
                   check=True)
    done = dcli("verify", "x", "--allowed-signers", "signers", cwd=tmp_path, status=1)
    assert "BAD_SIGNATURE" in done.stderr and says in done.stderr


def test_new_does_not_write_over_anything(tmp_path):
    dcli("new", "shop", "--plan", cwd=tmp_path)
    dcli("new", "shop", cwd=tmp_path, status=1)
    dcli("new", "dfsmr", cwd=tmp_path, status=2)
    assert dcli("check", "shop", "-o", "name", cwd=tmp_path).stdout == "shop@0.1.0\n"
