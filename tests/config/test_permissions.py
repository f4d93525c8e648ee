"""PermissionUpdate: every type on the lists, and the operator's own file with all else in it as it was."""

import json
from pathlib import Path
from typing import Any

import pytest

from adderclaw.config import load
from adderclaw.config.permissions import PermissionUpdate, changed, grant, save
from adderclaw.config.schema import Permissions
from adderclaw.core.decode import Invalid, decode
from adderclaw.core.errors import ConfigError
from tests.rows import rows

BASE = Permissions(allow=["Read"], deny=["Bash(rm *)"], ask=["Write"], additionalDirectories=["/a"])


def update(**given: Any) -> PermissionUpdate:
    return decode(PermissionUpdate, {"destination": "session", **given})


RULES = [{"toolName": "Bash", "ruleContent": "make"}, {"toolName": "Read"}]
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"type": "addRules", "rules": RULES}, "behavior: is required"),
    ({"type": "setMode"}, "mode: is required"),
    ({"type": "setMode", "mode": "auto"}, "not allowed"),
    ({"type": "addDirectories", "directories": ["x"]}, "not an absolute path"),
    ({"type": "addRules", "behavior": "allow", "rules": [{"toolName": "Bash ("}]}, "not a rule"),
    ({"type": "forget"}, "not allowed"),
    ({"type": "addRules", "behavior": "grant", "rules": RULES}, "not allowed"),
    ({"type": "addRules", "behavior": "allow", "rules": RULES, "more": 1}, "unknown key"),
]


@rows(("given", "said"), REFUSED, ids=[row[1] + str(index) for index, row in enumerate(REFUSED)])
def test_an_update_that_makes_no_sense(given: dict[str, Any], said: str) -> None:
    with pytest.raises(Invalid, match=said):
        changed(BASE, update(**given))


def test_bypass_that_was_taken_away_stays_away() -> None:
    with pytest.raises(Invalid, match="disabled by"):
        changed(Permissions(disableBypassPermissionsMode="disable"), update(type="setMode", mode="bypassPermissions"))


@pytest.mark.parametrize(
    ("given", "key", "value"),
    [
        ({"type": "addRules", "behavior": "allow", "rules": RULES}, "allow", ["Read", "Bash(make)"]),
        ({"type": "replaceRules", "behavior": "ask", "rules": RULES}, "ask", ["Bash(make)", "Read"]),
        (
            {"type": "removeRules", "behavior": "deny", "rules": [{"toolName": "Bash", "ruleContent": "rm *"}]},
            "deny",
            [],
        ),
        ({"type": "setMode", "mode": "plan"}, "defaultMode", "plan"),
        ({"type": "addDirectories", "directories": ["/b", "/a"]}, "additionalDirectories", ["/a", "/b"]),
        ({"type": "removeDirectories", "directories": ["/a"]}, "additionalDirectories", []),
    ],
)
def test_each_type(given: dict[str, Any], key: str, value: Any) -> None:
    after = changed(BASE, update(**given))
    assert getattr(after, key) == value
    others = ("allow", "deny", "ask", "defaultMode", "additionalDirectories")
    assert all(getattr(after, name) == getattr(BASE, name) for name in others if name != key)


def test_the_operators_file_keeps_its_comments(home: Path) -> None:
    file = home / ".adderclaw" / "config.toml"
    file.parent.mkdir()
    file.write_text('# mine\ndefault_model = "mock"  # this one\n[permissions]\nallow = ["Read(/x)"] # why\n[limits]\n')
    file.chmod(0o640)
    path = save(str(file.parent), grant(("Bash(make 'a b')",), "userSettings"))
    text = file.read_text()
    assert path == str(file)
    assert "# mine" in text
    assert "# this one" in text
    assert load(cwd=str(home)).config.permissions.allow == ["Read(/x)", "Bash(make 'a b')"]
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_file_is_made_where_there_is_none(home: Path) -> None:
    save(str(home / ".adderclaw"), grant(("Bash(make)",), "userSettings"))
    assert load(cwd=str(home)).config.permissions.allow == ["Bash(make)"]


def test_a_users_yaml_is_not_put_out_of_use(home: Path) -> None:
    yaml = home / ".config" / "adderclaw" / "agent.yaml"
    yaml.parent.mkdir(parents=True)
    yaml.write_text("agent_id: mine\n")
    path = save(str(home / ".adderclaw"), grant(("Bash(make)",), "userSettings"))
    assert path.endswith("settings.json")
    assert json.loads(Path(path).read_text())["permissions"]["allow"] == ["Bash(make)"]
    loaded = load(cwd=str(home)).config
    assert (loaded.agent_id, loaded.permissions.allow) == ("mine", ["Bash(make)"])


def test_a_broken_file_is_not_touched(home: Path) -> None:
    file = home / ".adderclaw" / "config.toml"
    file.parent.mkdir()
    file.write_text("[permissions\n")
    with pytest.raises(ConfigError, match="cannot be changed"):
        save(str(file.parent), grant(("Bash(make)",), "userSettings"))
    assert file.read_text() == "[permissions\n"
