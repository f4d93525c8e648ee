"""`config set` and `config unset`: typed by the schema, checked before they are written, comments kept."""

import json
import os
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest

from adderclaw.config import setting_edits
from adderclaw.core.errors import ConfigError, UsageError
from tests.config.conftest import World
from tests.program import Cli

TEXT = """\
# mine
default_provider = "local"  # the provider

[security]
# careful
autonomy = "supervised"  # asks
[providers.models."my.model"]
kind = "mock"
"""
KEY = "sk-ant-api03-abcdefghijklmnopqrstuvwx"


def put(world: World, key: str, *words: str) -> dict[str, Any]:
    of = setting_edits.setting(key)
    text = setting_edits.put(str(world.own), str(world.own / "config.toml"), of, setting_edits.parsed(of, words))
    assert text == (world.own / "config.toml").read_text()
    return tomllib.loads(text)


@pytest.mark.parametrize(
    ("key", "words", "value"),
    [
        ("security.autonomy", ["full"], "full"),
        ("default_model", ["a b"], "a b"),
        ("default_model", ["5"], "5"),
        ("limits.tokens", ["2000000"], 2_000_000),
        ("limits.cost_usd", ["5"], 5),
        ("limits.cost_usd", ["0.5"], 0.5),
        ("receipts.enabled", ["false"], False),
        ("security.forbidden_commands", ["rm", "dd"], ["rm", "dd"]),
        ("security.forbidden_commands", ['["rm"]'], ["rm"]),
        ("security.forbidden_commands", ["[]"], []),
        ("permissions.deny", ["Bash(rm *)"], ["Bash(rm *)"]),
        ('providers.models."my.model".model', ["x"], "x"),
        ("providers.models.other.kind", ["mock"], "mock"),
        ("providers.models.other.api_key_env", ["OTHER_KEY"], "OTHER_KEY"),
        ("env.GREETING", ["hi"], "hi"),
        ("hooks", ['[{hook_event_name = "Stop", command = "true"}]'], [{"hook_event_name": "Stop", "command": "true"}]),
    ],
)
def test_a_value_is_typed_by_the_schema(world: World, key: str, words: list[str], value: object) -> None:
    path = world.user(TEXT if "other.api" not in key else f'{TEXT}[providers.models.other]\nkind = "mock"\n')
    written: Any = put(world, key, *words)
    for part in setting_edits.setting(key).path:
        written = written[part]
    assert written == value
    comments = [line for line in TEXT.splitlines() if line.startswith("#")]
    assert [line for line in path.read_text().splitlines() if line.startswith("#")] == comments
    assert "# the provider" in path.read_text()
    assert "# asks" in path.read_text()


@pytest.mark.parametrize(
    ("key", "words", "said"),
    [
        ("securty.autonomy", ["full"], "there is no setting 'securty'; did you mean \"security\"?"),
        ("security.autonmy", ["full"], "security has no key 'autonmy'; did you mean \"autonomy\"?"),
        ("security", ["full"], "security is a table; set its keys: "),
        ("providers.models", ["x"], "providers.models is a table; set one of its entries"),
        ("security.autonomy.x", ["full"], "security.autonomy is a single value without keys"),
        ("security.autonomy", ["godmode"], "security.autonomy: "),
        ("security.autonomy", ["full", "x"], "takes one value, not 2"),
        ("limits.tokens", ["many"], "limits.tokens: "),
        ("limits.tokens", ["-1"], "limits.tokens: "),
        ("receipts.enabled", ["yes"], "receipts.enabled: "),
        ("security.forbidden_commands", ["[1]"], "security.forbidden_commands: "),
        ("permissions.deny", ["Read("], "permissions.deny: 'Read(' is not a permission rule"),
        ("managed.plugins", ["x"], "managed.plugins: "),
        ("", ["x"], "is not a key such as"),
        ("a b", ["x"], "is not a key such as"),
        ("limits.tokens = 1\ndefault_model", ["x"], "is not a key such as"),
        ("default_model", [KEY], "keys and secrets do not belong in a file"),
        ("env.TOKEN", ["abc"], "keys and secrets do not belong in a file"),
        ("web.search_key_env", [KEY], "keys and secrets do not belong in a file"),
        (KEY, ["x"], "looks like a secret"),
    ],
)
def test_what_is_refused(world: World, key: str, words: list[str], said: str) -> None:
    path = world.user(TEXT)
    with pytest.raises(UsageError) as refused:
        put(world, key, *words)
    assert said in str(refused.value)
    assert KEY not in str(refused.value)
    assert path.read_text() == TEXT


def test_a_file_that_would_be_wrong_stays_as_it_was(world: World) -> None:
    path = world.user(TEXT)
    with pytest.raises(ConfigError) as refused:
        put(world, "default_provider", "nobody")
    assert str(path) in str(refused.value)
    assert ".trial" not in str(refused.value)
    assert path.read_text() == TEXT
    assert sorted(file.name for file in world.own.iterdir()) == ["config.lock", "config.toml"]


def test_a_wrong_file_can_be_corrected(world: World) -> None:
    world.user('[security]\nautonomy = "godmode"\n')
    assert put(world, "security.autonomy", "full") == {"security": {"autonomy": "full"}}


def test_the_file_keeps_its_mode_and_its_link(world: World, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text(TEXT)
    real.chmod(0o640)
    (world.own / "config.toml").symlink_to(real)
    put(world, "limits.tokens", "5")
    assert os.readlink(world.own / "config.toml") == str(real)
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert "tokens = 5" in real.read_text()


def test_unset(world: World) -> None:
    path = world.user(TEXT)
    for key in ("security.autonomy", 'providers.models."my.model"'):
        setting_edits.remove(str(world.own), str(path), setting_edits.setting(key))
    assert path.read_text() == '# mine\ndefault_provider = "local"  # the provider\n\n[security]\n# careful\n'
    with pytest.raises(UsageError, match=r"security\.autonomy is not set in .*config\.toml"):
        setting_edits.remove(str(world.own), str(path), setting_edits.setting("security.autonomy"))


def test_the_commands(cli: Cli) -> None:
    cli.configure(TEXT)
    path = cli.data / "config.toml"
    done = cli("config", "set", "limits.tokens", "2000000")
    assert (done.code, done.out) == (0, f"limits.tokens = 2000000 in {path}\n"), done.err
    said = json.loads(cli("config", "set", "security.autonomy", "full", "--output-format", "json").out)
    expected = {"key": "security.autonomy", "value": "full", "file": str(path), "changed": True}
    assert said == {**expected, "applies": True, "note": ""}
    assert '# careful\nautonomy = "full"  # asks' in path.read_text()
    unknown = cli("config", "set", "channels.cli.tools_allow", "file_raed")
    assert (unknown.code, "did you mean file_read?" in unknown.err) == (2, True)
    assert cli("config", "unset", "limits.tokens").out == f"limits.tokens is no longer set in {path}\n"
    hidden = cli("config", "set", "env.GREETING", "good morning")
    assert "good morning" not in hidden.out
    for words, found in (("limits.to", ["limits.tokens", "limits.tool_calls"]), ("security.autonomy fu", ["full"])):
        whole = f"adderclaw config set {words}"
        asked = {"COMP_WORDS": whole, "COMP_CWORD": str(whole.count(" "))}
        assert cli(env={"_ADDERCLAW_COMPLETE": "complete_bash", **asked}).out.split() == found


def test_a_projects_file(cli: Cli) -> None:
    (cli.cwd / ".git").mkdir()
    path = cli.cwd / "agent.toml"
    done = cli("config", "set", "--project", "limits.tokens", "5000")
    assert (done.code, done.out) == (0, f"limits.tokens = 5000 in {path}\n"), done.err
    assert cli("config", "set", "--project", "security.autonomy", "full").code == 0
    assert 'security.autonomy = "full"' in cli("config", "show").out, "the project stays trusted"
    mode = cli("config", "set", "--project", "runtime.profile", "permissive")
    assert "note: " in mode.out
    (cli.cwd / "agent.toml").unlink()
    (cli.cwd / "agent.yaml").write_text("limits: {tokens: 5}\n")
    refused = cli("config", "set", "--project", "limits.tokens", "6")
    assert (refused.code, "only TOML can be edited" in refused.err) == (2, True)
