"""A warm start reads no parser and no validator, and notices every change."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from adderclaw.config.cache import KEPT
from tests.config.conftest import World

HEAVY = ("pydantic", "pydantic_core", "tomllib", "yaml", "tomlkit", "difflib", "adderclaw.config.layers")
FRESH = f"""
import json, sys
from adderclaw.config import load
loaded = load()
print(json.dumps([[name for name in {HEAVY!r} if name in sys.modules], loaded.config.limits.tokens]))
"""


def fresh(world: World) -> tuple[list[str], int]:
    done = subprocess.run([sys.executable, "-c", FRESH], cwd=world.root, capture_output=True, text=True, check=True)
    heavy, tokens = json.loads(done.stdout)
    return heavy, tokens


def test_a_second_start_needs_nothing_heavy(world: World) -> None:
    world.user("[limits]\ntokens = 7")
    world.project("limits: {tokens: 6}")
    heavy, tokens = fresh(world)
    assert {"tomllib", "yaml", "adderclaw.config.layers"} <= set(heavy)
    assert tokens == 6
    runs = [fresh(world) for _ in range(2)]
    assert all(heavy == [] and tokens == 6 for heavy, tokens in runs)


def kept(world: World) -> list[Path]:
    folder = world.own / "cache"
    return sorted(folder.iterdir()) if folder.is_dir() else []


def test_the_same_result_warm_and_cold(world: World) -> None:
    world.user('[permissions]\ndeny = ["Write", "((("]\n[providers.models.x]\nkind = "reliable"\nproviders = ["local"]')
    cold = world.load()
    assert len(kept(world)) == 1
    assert world.load() == cold


def changes(world: World, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    return {
        "user file": lambda: world.user("agent_id = 'b'\n[memory]\npath = '$PLACE/m'"),
        "project file": lambda: world.project("limits: {tokens: 5}"),
        "settings": lambda: world.settings(permissions={"deny": ["Write"]}),
        "user settings": lambda: world.user('{"permissions": {"deny": ["Write"]}}', "settings.json"),
        "variable": lambda: monkeypatch.setenv("PLACE", "/b"),
        "database": lambda: monkeypatch.setenv("AGENT_SDLC_DB", "/b"),
    }


@pytest.mark.parametrize("change", ["user file", "project file", "settings", "user settings", "variable", "database"])
def test_every_change_is_noticed(world: World, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    monkeypatch.setenv("PLACE", "/a")
    world.user("agent_id = 'a'\n[memory]\npath = '$PLACE/m'")
    before = world.load()
    assert world.load() == before
    changes(world, monkeypatch)[change]()
    assert world.load() != before


def test_an_error_is_never_kept(world: World) -> None:
    world.user("agent_id = 1")
    world.problems()
    assert kept(world) == []
    world.problems()


def test_other_flags_are_another_result(world: World) -> None:
    world.load()
    assert world.load(overrides={"limits": {"tokens": 1}}).config.limits.tokens == 1
    assert world.load().config.limits.tokens == 2_000_000


EMPTY = '{"files": {}, "variables": {}, "directories": {}, "loaded": %s}'


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "\0", EMPTY % "{}", EMPTY % '{"config": 3}', EMPTY % "3"])
def test_a_broken_entry_is_made_anew(world: World, text: str) -> None:
    before = world.load()
    (path,) = kept(world)
    path.write_text(text)
    assert world.load() == before
    assert json.loads(path.read_text())["loaded"]


def test_entries_are_private_and_not_too_many(world: World) -> None:
    for tokens in range(KEPT + 10):
        world.load(overrides={"limits": {"tokens": tokens}})
    assert len(kept(world)) == KEPT
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in kept(world))


def test_a_home_that_cannot_be_written_is_no_error(world: World) -> None:
    (world.own / "cache").write_text("a file where the folder would be")
    assert world.load() == world.load()


def test_no_home_is_made(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    place = world.home / "absent"
    monkeypatch.setenv("ADDERCLAW_HOME", str(place))
    world.load()
    assert not os.path.exists(place)
