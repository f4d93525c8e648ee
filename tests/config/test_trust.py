"""Trust is given to bytes: any change takes it back, and a broken trust file trusts nothing."""

import os
import stat

import pytest

from adderclaw.config import trust
from tests.config.conftest import World


@pytest.fixture
def trusted(world: World) -> World:
    world.project("agent_id: x")
    world.settings(permissions={"allow": ["Read"]})
    world.trust()
    assert world.load().trusted
    assert world.load().config.agent_id == "x"
    return world


def test_one_changed_byte(trusted: World) -> None:
    trusted.project("agent_id: y")
    assert not trusted.load().trusted
    assert trusted.load().config.agent_id == "adderclaw"
    trusted.project("agent_id: x")
    assert trusted.load().trusted


@pytest.mark.parametrize("name", ["agent.toml", "agent.json", ".adderclaw/settings.json", "policy.toml"])
def test_one_more_file(trusted: World, name: str) -> None:
    (trusted.root / name).write_text("")
    assert not trusted.load().trusted


def test_one_file_less(trusted: World) -> None:
    (trusted.root / ".adderclaw" / "agent.json").unlink()
    assert not trusted.load().trusted


def test_another_directory_with_the_same_files(trusted: World) -> None:
    os.rename(trusted.root, trusted.root.with_name("moved"))
    assert not trusted.load(cwd=str(trusted.root.with_name("moved"))).trusted


def test_revoked(trusted: World) -> None:
    assert trust.revoke(str(trusted.own), str(trusted.root))
    assert not trusted.load().trusted
    assert not trust.revoke(str(trusted.own), str(trusted.root))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"x": 1}', '{"%s": "%s"}', "\xff"])
def test_a_broken_trust_file_trusts_nothing(trusted: World, text: str) -> None:
    found = trust.fingerprint(trust.contents(str(trusted.root)))
    text = text.replace("%s", str(trusted.root), 1).replace("%s", found.sha256)
    (trusted.own / "trust.json").write_text(text, encoding="latin-1")
    assert not trusted.load().trusted


def test_the_file_is_private_and_keeps_the_others(trusted: World) -> None:
    path = trusted.own / "trust.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    trust.record(str(trusted.own), "/elsewhere", trust.Fingerprint("0", {}), "now")
    assert set(trust.known(str(trusted.own))) == {str(trusted.root), "/elsewhere"}


def test_nothing_to_trust(world: World) -> None:
    assert world.load().trusted
