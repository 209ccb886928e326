"""The commands of dcli about packages: which version is meant, and what is no way to say it."""
import re

import pytest

from support import Cli
from test_packages import Registry, archive, machine


@pytest.fixture
def registry(space):
    return Registry(space)


@pytest.fixture
def package_cli(space):
    cli = Cli(space.server.address, space.name)
    return lambda *words: cli("package", *words)


def test_a_few_digits_of_a_digest_find_it_among_many(registry, package_cli):
    digests = [registry.push(f"1.{number}.0").digest for number in range(120)]
    for number in (0, 60, 119):
        done = package_cli("show", f"p@{digests[number][:20]}", "-o", "name")
        assert (done.returncode, done.stdout) == (0, f"p@1.{number}.0\n"), done
    done = package_cli("show", "p@sha256:00000000")
    assert done.returncode == 1 and "no version has the digest" in done.stderr


@pytest.mark.parametrize("words, says", [
    (("push", "FILE", "--percent", "5"), "--activate"),
    (("push", "FILE", "--note", "why"), "--activate"),
    (("push", "FILE", "--activate", "--percent", "0.005"), "from 0.01 to 100"),
    (("push", "FILE", "--activate", "--percent", "101"), "from 0.01 to 100"),
    (("remove", "p"), "p@VERSION"),
    (("remove", "p@1.0.0", "--keep", "1"), "--keep is for a package"),
    (("remove", "p", "--keep", "-1"), "a number from 0"),
    (("remove", "p", "--keep", "1x"), "a number from 0"),
    (("remove", "p", "--keep", "4294967296"), "a number from 0"),
])
def test_what_cannot_be_meant_is_bad_usage(registry, package_cli, tmp_path, words, says):
    registry.push("1.0.0")
    file = tmp_path / "p-2.0.0.dfsmr"
    file.write_bytes(archive("2.0.0"))
    done = package_cli(*[str(file) if word == "FILE" else word for word in words])
    assert done.returncode == 2 and says in done.stderr, done
    assert [one.version for one in registry.list("p").packages] == ["1.0.0"]


def test_a_start_goes_where_it_says(space, registry):
    registry.both("1.0.0")
    registry.push("2.0.0", documents={"m.yaml": machine(node="b"), "n.yaml": machine("n")})
    registry.activate("2.0.0", percent=0.01)
    cli = Cli(space.server.address, space.name)
    for number, (name, version) in enumerate([("m", "1.0.0"), ("m", "2.0.0"), ("n", "2.0.0")]):
        id = f"i{number}"
        assert cli.ok("start", f"p.{name}@{version}", "--id", id, "-o", "name") == f"{id}\n"
        assert space.get(id).package.version == version
        assert re.search(rf"^Package +p@{version}$", cli.ok("show", id), re.MULTILINE)
    done = cli("start", "p.n@1.0.0")
    assert done.returncode == 1 and "NO_SUCH_MACHINE" in done.stderr
    assert cli("start", "p.n@x").returncode == 2
    registry.deactivate()
    told = cli.ok("machines", "p.m")
    assert "p@1.0.0" in told and "its package no longer has it" in told


def test_the_feed_names_packages(space, registry):
    registry.both("1.0.0")
    told = Cli(space.server.address, space.name).ok("changes", "--after", "0", "--no-follow")
    for kind in ("PACKAGE_PUSHED", "PACKAGE_ACTIVATED"):
        assert re.search(rf"{kind} +p@1.0.0", told), told
