"""`config`, `trust`, `init` and `onboard`, as the installed program."""

import json
import sqlite3
import stat
from pathlib import Path

import pytest

from tests.program import Cli

KEY = "sk-ant-api03-abcdefghijklmnopqrstuvwx"


def test_an_invalid_autonomy_is_refused_with_the_allowed_values(cli: Cli) -> None:
    cli.configure('[security]\nautonomy = "godmode"\n[limits]\ntokens = -1\n')
    done = cli("config", "validate")
    assert done.code == 2
    assert done.out == ""
    for word in ("config.toml", "security.autonomy", "godmode", "readonly", "supervised", "full", "limits.tokens"):
        assert word in done.err
    assert "Traceback" not in done.err
    problems = json.loads(cli("config", "validate", "--output-format", "json").out)["problems"]
    assert {problem["key"] for problem in problems} == {"security.autonomy", "limits.tokens"}


@pytest.mark.parametrize(
    ("name", "text"), [("a.toml", "a = = 1"), ("a.yaml", "a: [1"), ("a.json", '{"a" 1}'), ("a.ini", "")]
)
def test_malformed_files(cli: Cli, name: str, text: str) -> None:
    (cli.cwd / name).write_text(text)
    done = cli("config", "validate", "--file", name)
    assert done.code == 2
    assert name in done.err
    assert "line 1, column" in done.err or "suffix" in done.err
    assert "Traceback" not in done.err


def test_a_missing_workspace_is_an_error_of_validate(cli: Cli) -> None:
    done = cli("config", "validate")
    assert done.code == 2
    assert "adderclaw init" in done.err


def test_init_makes_everything_and_loses_nothing(cli: Cli) -> None:
    done = cli("init")
    assert done.code == 0, done.err
    files = ["config.toml", "memory.sqlite", "tool_receipts.log", "receipt.key"]
    assert all(stat.S_IMODE((cli.data / name).stat().st_mode) == 0o600 for name in files)
    assert stat.S_IMODE(cli.data.stat().st_mode) == 0o700
    assert (cli.home / "adderclaw-workspace").is_dir()
    assert done.out.count("created ") == 6
    (cli.data / "config.toml").write_text('workspace_dir = "~/mine"\n# my comment\n')
    before = {name: (cli.data / name).read_bytes() for name in files}
    again = cli("init", "--output-format", "json")
    assert again.code == 0
    assert json.loads(again.out)["created"] == [str(cli.home / "mine")]
    assert {name: (cli.data / name).read_bytes() for name in files if name != "memory.sqlite"} == {
        name: data for name, data in before.items() if name != "memory.sqlite"
    }
    assert cli("config", "validate").code == 0


def test_init_where_the_home_cannot_be_made(cli: Cli) -> None:
    cli.data.write_text("a file where the folder would be")
    done = cli("init")
    assert done.code == 1
    assert str(cli.data) in done.err
    assert "ADDERCLAW_HOME" in done.err
    assert "Traceback" not in done.err


def test_init_with_a_broken_config_touches_nothing(cli: Cli) -> None:
    cli.configure("a = = 1")
    done = cli("init")
    assert done.code == 2
    assert (cli.data / "config.toml").read_text() == "a = = 1"
    assert not (cli.data / "memory.sqlite").exists()


def verdict_of_write(cli: Cli) -> str:
    given = '{"file_path": "a.txt", "content": "x"}'
    return json.loads(cli("tool", "explain", "Write", "--json", given, "--output-format", "json").out)["verdict"]


@pytest.mark.parametrize("words", [("init",), ("onboard", "--provider", "mock", "--model", "mock", "--yes")])
def test_a_trusted_projects_mode_counts_over_the_file_that_init_writes(cli: Cli, words: tuple[str, ...]) -> None:
    assert cli(*words).code == 0
    file = cli.data / "config.toml"
    written = file.read_text()
    assert '# autonomy = "supervised"' in written
    assert '# forbidden_commands = ["rm", "shutdown", "reboot", "mkfs", "dd"]' in written
    (cli.cwd / ".git").mkdir()
    (cli.cwd / ".claude").mkdir()
    (cli.cwd / ".claude" / "settings.json").write_text('{"permissions": {"defaultMode": "acceptEdits"}}')
    assert verdict_of_write(cli) == "ask"
    cli("trust")
    assert verdict_of_write(cli) == "allow"
    file.write_text(written.replace('# autonomy = "supervised"', 'autonomy = "supervised"  #'))
    assert verdict_of_write(cli) == "ask", "what the operator sets applies as written"


def test_onboard_writes_the_autonomy_that_somebody_chose(cli: Cli) -> None:
    words = ("onboard", "--provider", "mock", "--model", "mock", "--yes")
    for level in ("supervised", "full"):
        cli(*words, "--autonomy", level)
        assert f'\nautonomy = "{level}"' in (cli.data / "config.toml").read_text()
    cli(*words)
    assert '\nautonomy = "supervised"' in (cli.data / "config.toml").read_text(), "the suggestion replaces what is set"


def test_init_with_the_database_of_the_environment(cli: Cli) -> None:
    path = cli.home / "elsewhere" / "db.sqlite"
    assert cli("init", env={"AGENT_SDLC_DB": str(path)}).code == 0
    assert path.exists()
    assert not (cli.data / "memory.sqlite").exists()


def test_show_has_origins_and_no_secrets(cli: Cli) -> None:
    cli.configure(
        '[providers.models.x]\nkind = "openai"\nmodel = "m"\nbase_url = "https://example.org/v1"\n'
        'api_key_env = "MY_KEY"\nheaders = {X-Team = "very-private"}\nfixture = "/srv/the-value-of-my-key"\n'
        '[mcp_servers.s]\ncommand = "x"\nenv = {A = "hidden-value"}\n'
    )
    for arguments in (("--origin",), ("--origin", "--output-format", "json"), ()):
        done = cli("config", "show", *arguments, env={"MY_KEY": "the-value-of-my-key"})
        assert done.code == 0, done.err
        for secret in ("pa55word", "very-private", "the-value-of-my-key", "hidden-value"):
            assert secret not in done.out
        assert "MY_KEY" in done.out
    shown = json.loads(cli("config", "show", "--origin", "--output-format", "json").out)
    assert shown["config"]["security"]["autonomy"] == "supervised"
    assert shown["origins"]["providers.models.x.kind"] == str(cli.data / "config.toml")
    assert shown["origins"]["security.autonomy"] == "default"
    text = cli("config", "show", "--origin").out
    assert f'providers.models.x.model = "m"  # {cli.data}/config.toml' in text
    assert 'security.autonomy = "supervised"  # default' in text


def test_a_directory_cannot_steer_the_terminal(cli: Cli) -> None:
    place = cli.cwd / "a\x1b[31m\u202e"
    (place / ".git").mkdir(parents=True)
    (place / "agent.yaml").write_text("agent_id: x")
    for arguments in (("config", "show"), ("config", "validate"), ("trust",), ("trust", "--list")):
        done = cli(*arguments, cwd=place)
        assert "\\u{1b}[31m" in done.out
        assert "\x1b" not in done.out + done.err


def test_config_init(cli: Cli) -> None:
    assert cli("config", "init").code == 0
    assert cli("config", "validate", "--file", "agent.yaml").code == 0
    (cli.cwd / "agent.yaml").write_text("limits: {}")
    again = cli("config", "init")
    assert again.code == 2
    assert "already exists" in again.err
    assert (cli.cwd / "agent.yaml").read_text() == "limits: {}"
    assert cli("config", "init", "other.toml").code == 0
    assert cli("config", "init", "other.ini").code == 2
    assert cli("config", "init", "nowhere/agent.yaml").code == 2


def test_reference(cli: Cli) -> None:
    assert cli("config", "reference").out.startswith("# Configuration\n")


def test_reload_drops_the_operators_row(cli: Cli) -> None:
    assert "adderclaw init" in cli("config", "reload").err
    cli("init")
    database = sqlite3.connect(cli.data / "memory.sqlite")
    row = '{"hooks":[{"hook_event_name":"PreToolUse","matcher":"Bash","command":"exit 2"}]}'
    with database:
        database.execute("INSERT OR REPLACE INTO settings_snapshot VALUES ('effective', ?, datetime('now'))", (row,))
    assert cli("config", "reload").code == 0
    (text,) = database.execute("SELECT json FROM settings_snapshot WHERE scope = 'effective'").fetchone()
    database.close()
    assert json.loads(text)["hooks"] == []


# ------------------------------------------------------------------ trust


@pytest.fixture
def project(cli: Cli) -> Path:
    (cli.cwd / "agent.yaml").write_text("security: {autonomy: full}\n")
    return cli.cwd


def autonomy(cli: Cli) -> str:
    return json.loads(cli("config", "show", "--output-format", "json").out)["config"]["security"]["autonomy"]


def test_trust_shows_records_lists_and_revokes(cli: Cli, project: Path) -> None:
    assert autonomy(cli) == "supervised"
    done = cli("trust")
    assert done.code == 0, done.err
    assert "agent.yaml" in done.out
    assert "security.autonomy" in done.out
    assert stat.S_IMODE((cli.data / "trust.json").stat().st_mode) == 0o600
    assert autonomy(cli) == "full"
    assert str(project) in cli("trust", "--list").out
    (project / "agent.yaml").write_text("security: {autonomy: full}\n# more\n")
    assert autonomy(cli) == "supervised"
    assert "no longer trusted" in cli("trust", "--list").out
    assert json.loads(cli("trust", str(project), "--output-format", "json").out)["trusted"] is True
    assert json.loads(cli("trust", "--list", "--output-format", "json").out)[0]["current"] is True
    assert cli("trust", "--revoke").code == 0
    assert autonomy(cli) == "supervised"
    assert cli("trust", "--list").out == "no project is trusted\n"


def test_trust_of_nothing(cli: Cli) -> None:
    assert "nothing to trust" in cli("trust").out
    assert cli("trust", "nowhere").code == 2
    assert not (cli.data / "trust.json").exists()


# ------------------------------------------------------------------ onboard


def test_onboard_without_a_terminal_needs_answers(cli: Cli) -> None:
    done = cli("onboard")
    assert done.code == 5
    assert "--provider" in done.err
    assert "anthropic" in done.err
    assert not cli.data.exists()


@pytest.mark.parametrize(
    "flags",
    [
        ("--provider", "nobody"),
        ("--autonomy", "godmode"),
        ("--provider", "openai-compatible", "--base-url", "ftp://x"),
        ("--provider", "openai", "--api-key-env", KEY),
    ],
)
def test_onboard_refuses(cli: Cli, flags: tuple[str, ...]) -> None:
    cli("init")
    before = (cli.data / "config.toml").read_text()
    done = cli("onboard", "--yes", *flags)
    assert done.code == 2
    assert KEY not in done.out + done.err
    assert (cli.data / "config.toml").read_text() == before


def test_onboard_finds_a_key_by_its_name(cli: Cli) -> None:
    done = cli("onboard", "--yes", env={"ANTHROPIC_API_KEY": KEY})
    assert done.code == 0, done.err
    assert "ANTHROPIC_API_KEY" in done.out
    text = (cli.data / "config.toml").read_text()
    assert KEY not in done.out + done.err + text
    assert 'default_provider = "anthropic"' in text
    assert "# readonly, supervised, full" in text
    assert stat.S_IMODE((cli.data / "config.toml").stat().st_mode) == 0o600


def test_onboard_by_flags(cli: Cli) -> None:
    cli.configure(
        '# mine\n[providers.models.openai_compatible]  # old\nkind = "openai-compatible"\nbase_url = "http://a"\n'
    )
    done = cli(
        "onboard", "--provider", "openai-compatible", "--model", "m", "--base-url", "http://localhost:8080/v1",
        "--api-key-env", "K", "--autonomy", "readonly",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "K is not set" in done.out
    assert (cli.data / "config.toml").read_text().startswith("# mine\n")
    shown = json.loads(cli("config", "show", "--output-format", "json").out)["config"]
    entry = shown["providers"]["models"][shown["default_provider"]]
    assert (entry["model"], entry["base_url"], entry["api_key_env"]) == ("m", "http://localhost:8080/v1", "K")
    assert shown["security"]["autonomy"] == "readonly"
