"""What is always allowed in one project: by the operator's own file, in exactly that folder, and by no repository."""

import json
import os
import stat

import pytest

from adderclaw.config import project_grants
from tests.config.conftest import World

RULE = "Bash(make test)"


@pytest.fixture
def granted(world: World) -> World:
    project_grants.add(str(world.own), str(world.root), [RULE, RULE])
    assert world.load().config.permissions.allow == [RULE]
    assert world.load().origins["permissions.allow"] == project_grants.place(str(world.own))
    return world


def test_it_counts_in_exactly_this_folder(granted: World) -> None:
    inner, beside, link = granted.root / "inner", granted.root.with_name("beside"), granted.root.with_name("link")
    inner.mkdir()
    beside.mkdir()
    link.symlink_to(granted.root)
    for folder in (inner, beside, granted.root.parent):
        assert granted.load(workspace=str(folder)).config.permissions.allow == [], folder
    assert granted.load(workspace=str(link)).config.permissions.allow == [RULE], "another name of the same folder"
    link.unlink()
    link.symlink_to(beside)
    assert granted.load(workspace=str(link)).config.permissions.allow == [], "a name that leads elsewhere by now"


def test_a_repository_grants_itself_nothing(world: World) -> None:
    said = json.dumps({str(world.root): ["Bash(make *)"], ".": ["Bash(make *)"]})
    for folder in ("", ".adderclaw", ".claude"):
        (world.root / folder).mkdir(exist_ok=True)
        (world.root / folder / "grants.json").write_text(said, encoding="utf-8")
    assert world.load().config.permissions.allow == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"%s": "Bash"}', '{"%s": [1, {}, "no rule at all)"]}', "\xff"])
def test_a_broken_file_grants_nothing(granted: World, text: str) -> None:
    path = granted.own / "grants.json"
    path.write_text(text.replace("%s", str(granted.root)), encoding="latin-1")
    assert granted.load().config.permissions.allow == []


def test_it_can_be_removed_and_nobody_else_reads_the_file(granted: World) -> None:
    home, root = str(granted.own), str(granted.root)
    assert stat.S_IMODE(os.stat(project_grants.place(home)).st_mode) == 0o600
    assert not project_grants.remove(home, root, "Bash(make)")
    assert project_grants.remove(home, root, RULE)
    assert granted.load().config.permissions.allow == []
    assert json.loads((granted.own / "grants.json").read_text(encoding="utf-8")) == {}
