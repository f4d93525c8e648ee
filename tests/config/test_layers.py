"""Layers: what is wrong is said at once and by name; what is right counts in order, with its origin."""

import os
from pathlib import Path
from typing import Any

import pytest

from adderclaw.config import checks, expand, home
from adderclaw.config.schema import Config
from adderclaw.core.errors import ConfigError
from tests.config.conftest import World

REFUSED = [
    ('[security]\nautonomy = "godmode"', 'security.autonomy: "godmode" is not allowed; allowed: "readonly", "sup'),
    ('[securty]\nautonomy = "full"', 'securty: unknown key; did you mean "security"?'),
    ("[security]\nworkspace_onyl = true", 'security.workspace_onyl: unknown key; did you mean "workspace_only"?'),
    ("[limits]\ncost_usd = -1", "limits.cost_usd: -1 is not allowed; it must be at least 0"),
    ('[limits]\ntokens = "many"', 'limits.tokens: expected a whole number, not "many"'),
    ('security = "full"', 'security: expected a table of keys and values, not "full"'),
    ('default_provider = "lokal"', 'default_provider: "lokal" is not in providers.models; did you mean "local"?'),
    ('[providers.models.x]\nmodel = "m"', "providers.models.x.kind: is required"),
    ('[providers.models.x]\nkind = "openai"\nbase_url = "ftp://x"', "must begin with http:// or https://"),
    ('[providers.models.x]\nkind = "openai-compatible"', "providers.models.x.base_url: is required"),
    ('[providers.models.x]\nkind = "reliable"', "providers.models.x.providers: is required"),
    ('[providers.models.x]\nkind = "reliable"\nproviders = ["y"]', '"y" is not in providers.models'),
    ('[providers.models.x]\nkind = "reliable"\nproviders = ["x"]', "leads back to itself"),
    ('default_provider = "x"\n[providers.models.x]\nkind = "ollama"', "providers.models.x.model: is required"),
    ('[security]\nallowed_domains = ["https://x.org/"]', "is not a host name"),
    ('[security]\nallowed_commands = ["git status"]', "is not the name of a program"),
    ('[memory]\npath = "$NOWHERE/x"', "memory.path: the environment variable 'NOWHERE' is not set"),
    ('[memory]\npath = "${NOWHERE}/x"', "memory.path: the environment variable 'NOWHERE' is not set"),
    ('[memory]\npath = "~nobody-at-all/x"', "is not the home of any user"),
    ('[memory]\nbackend = "postgres"', 'allowed: "sqlite"'),
    (
        '[permissions]\ndefaultMode = "auto"',
        'allowed: "default", "acceptEdits", "bypassPermissions", "plan", "dontAsk"',
    ),
    ('[permissions]\nalow = ["Read"]', 'permissions.alow: unknown key; did you mean "allow"?'),
    ('[telemetry]\nenabled = true\nprotocol = "otlp"', "telemetry.endpoint: is required"),
    ('[providers.models.x]\nkind = "openai"\napi_key_env = "$KEY"', "must be the name of an environment variable"),
    ("[[hooks]]\ncommand = 'x'", "hooks[0]: expected a table with hook_event_name"),
    ("[[hooks]]\nhook_event_name = 'Stop'\ntype = 'mcp_tool'\nserver = 's'\nname = 'n'", "tool: is required for a"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_refuses(world: World, text: str, message: str) -> None:
    path = world.user(text)
    found = world.problems()
    assert any(problem.startswith(f"{path}: ") and message in problem for problem in found), found


def test_every_problem_of_every_file_in_one_pass(world: World) -> None:
    world.user('default_provider = "nowhere"\n[security]\nautonomy = "godmode"\n[limits]\ntokens = 1.5')
    world.project("runtime: {max_turns: -1}\nbogus: 1")
    world.settings(permissions={"defaultMode": "auto"}, extra=1)
    text = "\n".join(world.problems())
    for key in (
        "security.autonomy",
        "limits.tokens",
        "default_provider",
        "runtime.max_turns",
        "bogus",
        "permissions.defaultMode",
        "extra",
    ):
        assert f": {key}: " in text, key


def test_a_problem_is_not_told_twice(world: World) -> None:
    world.user('[providers.models.x]\nkind = "antropic"')
    assert len(world.problems()) == 1


SECRETS = [
    'api_key = "abc"',
    '[providers.models.x]\nkind = "openai"\napi_key = "abcdefgh"',
    '[providers.models.x]\nkind = "openai"\nheaders = {Authorization = "Bearer abcdefgh"}',
    '[providers.models.x]\nkind = "openai"\nmodel = "sk-ant-api03-abcdefghijklmnopqrst"',
    '[providers.models.x]\nkind = "openai"\napi_key_env = "sk-ant-api03-abcdefghijklmnopqrst"',
    '[mcp_servers.x.env]\nGITHUB_TOKEN = "abcdefgh"',
    '[web]\ngateway_token = "abcdefgh"',
]


@pytest.mark.parametrize("text", SECRETS)
def test_a_secret_in_a_file_is_refused_and_not_shown(world: World, text: str) -> None:
    world.user(text)
    found = "\n".join(world.problems())
    assert "secrets do not belong in a file" in found
    assert "api_key_env" in found
    assert "abc" not in found


def test_a_reference_to_a_variable_is_no_secret(world: World) -> None:
    world.user('[mcp_servers.x]\ncommand = "x"\n[mcp_servers.x.env]\nGITHUB_TOKEN = "$GITHUB_TOKEN"')
    assert world.load().config.mcp_servers["x"]["env"] == {"GITHUB_TOKEN": "$GITHUB_TOKEN"}


def test_a_secret_variable_is_not_put_into_a_url(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "abcdefgh")
    world.user('[providers.models.x]\nkind = "openai"\nbase_url = "https://x.org/?k=$MY_API_KEY"')
    (problem,) = world.problems()
    assert "looks like a secret" in problem
    assert "abcdefgh" not in problem


def test_control_characters_of_a_file_do_not_reach_the_terminal(world: World) -> None:
    world.user('[security]\nautonomy = "\\u001b[31m\\u202e"')
    (problem,) = world.problems()
    assert problem.isprintable()


def test_unusual_files(world: World) -> None:
    path = world.own / "config.toml"
    os.mkfifo(path)
    assert world.problems() == [f"{path}: is not a regular file"]
    path.unlink()
    path.write_bytes(b"#" * 1_048_577)
    assert world.problems() == [f"{path}: is larger than 1048576 bytes"]
    path.unlink()
    path.mkdir()
    assert world.problems() == [f"{path}: is not a regular file"]


def test_defaults_of_the_seeds(world: World) -> None:
    loaded = world.load()
    config = loaded.config
    assert loaded.files == ()
    assert set(loaded.origins.values()) == {"default"}
    assert config.workspace_dir == str(world.home / "adderclaw-workspace")
    assert (config.default_provider, config.default_model) == ("local", "mock")
    assert config.security.forbidden_paths == ["/etc", "/sys", "/boot", str(world.home / ".ssh")]
    assert config.security.forbidden_commands == ["rm", "shutdown", "reboot", "mkfs", "dd"]
    assert config.channels.cli.tools_allow == ["*"]
    assert config.memory.path == str(world.own / "memory.sqlite")
    assert config.receipts.path == str(world.own / "tool_receipts.log")
    assert config.limits == Config().limits
    assert config.logging.jsonl_dir == str(world.root / "runs")


def test_order_of_the_layers(world: World) -> None:
    user = world.user('default_model = "a"\nagent_id = "a"\n[limits]\ntokens = 10\n[runtime]\nmax_turns = 7')
    project = world.project("agent_id: b\nlimits: {tokens: 9}\nruntime: {max_turns: 6}")
    world.trust()
    loaded = world.load(overrides={"limits": {"tokens": 8}})
    assert (loaded.config.default_model, loaded.origins["default_model"]) == ("a", str(user))
    assert (loaded.config.agent_id, loaded.origins["agent_id"]) == ("b", str(project))
    assert (loaded.config.runtime.max_turns, loaded.origins["runtime.max_turns"]) == (6, str(project))
    assert (loaded.config.limits.tokens, loaded.origins["limits.tokens"]) == (8, "command line")
    assert loaded.files == (str(user), str(project))


def test_first_project_file_counts(world: World) -> None:
    world.project('{"limits": {"tokens": 3}}', "agent.json")
    assert world.load().config.limits.tokens == 3
    world.project("[limits]\ntokens = 2", "agent.toml")
    assert world.load().config.limits.tokens == 2
    world.project("limits: {tokens: 1}")
    assert world.load().config.limits.tokens == 1


def test_yaml_of_the_user_where_there_is_no_toml(world: World) -> None:
    path = world.home / ".config" / "adderclaw" / "agent.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("limits: {tokens: 5}")
    assert world.load().config.limits.tokens == 5
    world.user("")
    assert world.load().config.limits.tokens == 2_000_000


def test_config_file_alone(world: World, tmp_path: Path) -> None:
    world.user("[limits]\ntokens = 5")
    world.project("limits: {tokens: 4}")
    file = tmp_path / "own.json"
    file.write_text('{"limits": {"seconds": 1}, "memory": {"path": "m.sqlite"}}')
    loaded = world.load(config_file=str(file))
    assert loaded.files == (str(file),)
    assert (loaded.config.limits.tokens, loaded.config.limits.seconds) == (2_000_000, 1)
    assert loaded.config.memory.path == str(tmp_path / "m.sqlite")
    assert world.problems(config_file="nowhere.toml") == [f"{world.root}/nowhere.toml: there is no such file"]


def test_flags_are_checked_like_a_file(world: World) -> None:
    assert world.problems(overrides={"security": {"autonomy": "god"}})[0].startswith("command line: security.autonomy:")


def test_entries_are_merged_key_by_key_unless_their_kind_changes(world: World) -> None:
    world.user(
        'default_provider = "openai_compatible"\n[providers.models.openai_compatible]\nmodel = "m"\n'
        '[providers.models.local]\nkind = "ollama"'
    )
    models = world.load().config.providers.models
    assert models["openai_compatible"].base_url == "http://localhost:1234/v1"
    assert models["openai_compatible"].model == "m"
    assert models["local"].model is None


def test_key_variables_of_the_vendors(world: World) -> None:
    world.user('[providers.models.a]\nkind = "anthropic"\n[providers.models.b]\nkind = "openai"\napi_key_env = "MINE"')
    models = world.load().config.providers.models
    assert (models["a"].api_key_env, models["b"].api_key_env) == ("ANTHROPIC_API_KEY", "MINE")


def test_permission_rules_of_all_layers_count_and_bad_ones_are_dropped(world: World) -> None:
    user = world.user('[permissions]\ndeny = ["Write", "((("]\nallow = ["Read(./docs/**)"]')
    settings = world.settings(permissions={"deny": ["Bash(git push:*)", "Write"], "ask": [""]})
    loaded = world.load()
    assert loaded.config.permissions.deny == ["Write", "Bash(git push:*)"]
    assert loaded.origins["permissions.deny"] == f"{user}, {settings}"
    assert loaded.warnings[0] == f"{user}: permissions.deny: '(((' is not a valid rule and is ignored"
    assert loaded.warnings[1] == f"{settings}: permissions.ask: '' is not a valid rule and is ignored"


def test_paths_and_variables(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE", "/srv/data")
    world.user(
        'workspace_dir = "${PLACE}/w"\ndefault_model = "$PLACE"\n'
        '[security]\nforbidden_paths = ["~/a", "b", "$PLACE/../c"]'
    )
    config = world.load().config
    assert config.workspace_dir == "/srv/data/w"
    assert config.default_model == "$PLACE"
    assert config.security.forbidden_paths == [str(world.home / "a"), str(world.own / "b"), "/srv/c"]


def test_database_of_the_environment(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.user('[memory]\npath = "~/m.sqlite"')
    monkeypatch.setenv("AGENT_SDLC_DB", "/srv/db.sqlite")
    loaded = world.load()
    assert loaded.config.memory.path == "/srv/db.sqlite"
    assert loaded.origins["memory.path"] == "environment AGENT_SDLC_DB"
    monkeypatch.setenv("AGENT_SDLC_DB", "db.sqlite")
    assert world.problems() == ["environment: AGENT_SDLC_DB: 'db.sqlite' is not an absolute path"]


def test_expand_and_home(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert expand("~/x") == str(world.home / "x")
    assert expand("x") == os.path.join(os.getcwd(), "x")
    with pytest.raises(ConfigError, match="NOWHERE"):
        expand("$NOWHERE/x")
    monkeypatch.delenv("ADDERCLAW_HOME")
    assert home() == str(world.home / ".adderclaw")


# ------------------------------------------------------------------ the workspace


def test_workspace_by_flag(world: World, tmp_path: Path) -> None:
    loaded = world.load(workspace=str(tmp_path))
    assert (loaded.workspace, loaded.workspace_reason) == (str(tmp_path), "--workspace")
    assert "is not a directory" in world.problems(workspace="nowhere")[0]


@pytest.mark.parametrize("marker", ["SPEC.md", "Agentfile", "agent.yaml", ".adderclaw", ".git"])
def test_workspace_is_the_nearest_directory_with_a_marker(world: World, marker: str) -> None:
    inner = world.root / "a"
    (inner / "b").mkdir(parents=True)
    (inner / marker).mkdir() if marker.startswith(".") else (inner / marker).write_text("")
    loaded = world.load(cwd=str(inner / "b"))
    assert loaded.workspace == str(inner)
    assert marker in loaded.workspace_reason


@pytest.mark.parametrize(
    "manifest", ["AGENTS.md", "CLAUDE.md", "pyproject.toml", "package.json", "Cargo.toml", "go.mod"]
)
def test_x82_a_manifest_makes_a_project_where_no_repository_lies_above(
    world: World, tmp_path: Path, manifest: str
) -> None:
    inner = tmp_path / "a" / "package"
    (inner / "src").mkdir(parents=True)
    (inner / manifest).write_text("")
    loaded = world.load(cwd=str(inner / "src"))
    assert (loaded.workspace, manifest in loaded.workspace_reason) == (str(inner), True)
    (tmp_path / "a" / ".git").mkdir()
    assert world.load(cwd=str(inner / "src")).workspace == str(tmp_path / "a")


def test_x82_a_marker_in_a_folder_that_is_everybodys_makes_no_project(world: World, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    (shared / "mine").mkdir(parents=True)
    (shared / "package.json").write_text("")
    (shared / ".git").mkdir()
    shared.chmod(0o1777)
    assert world.load(cwd=str(shared / "mine"), here=True).workspace == str(shared / "mine")


def test_x82_without_a_project_it_is_the_current_directory_or_the_one_of_agent(world: World, tmp_path: Path) -> None:
    place = tmp_path / "plain"
    place.mkdir()
    assert world.load(cwd=str(place)).workspace == str(world.home / "adderclaw-workspace")
    loaded = world.load(cwd=str(place), here=True)
    assert loaded.workspace == str(place)
    assert loaded.workspace_reason == "the current directory, which belongs to no project"
    world.user('workspace_dir = "~/adderclaw-workspace"')  # as `init` writes it
    assert world.load(cwd=str(place), here=True).workspace == str(place)
    world.user('workspace_dir = "~/elsewhere"')
    assert world.load(cwd=str(place), here=True).workspace == str(place)
    assert world.load(cwd=str(place)).workspace == str(world.home / "elsewhere")


@pytest.mark.parametrize("place", ["home", "root"])
def test_x82_neither_the_home_nor_the_root_is_fallen_back_to(world: World, place: str) -> None:
    found = world.problems(cwd=str(world.home) if place == "home" else "/", here=True)
    assert "start in a project's folder, or name it: `--workspace DIR`" in found[0]


def test_an_empty_workspace_is_no_workspace(world: World) -> None:
    assert "--workspace: it is empty; name a directory" in world.problems(workspace=" ")[0]


def test_home_and_root_are_no_projects(world: World) -> None:
    (world.home / ".git").mkdir()
    (world.home / "deep").mkdir()
    for cwd in (world.home, world.home / "deep", Path("/")):
        loaded = world.load(cwd=str(cwd))
        assert loaded.workspace == str(world.home / "adderclaw-workspace")
        assert loaded.workspace_reason == "the default workspace_dir"


def test_own_home_is_no_marker(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "elsewhere"
    (place / ".adderclaw").mkdir(parents=True)
    monkeypatch.setenv("ADDERCLAW_HOME", str(place / ".adderclaw"))
    assert world.load(cwd=str(place)).workspace == str(world.home / "adderclaw-workspace")


def test_workspace_of_the_project_file(world: World) -> None:
    (world.root / "inner").mkdir()
    project = world.project("agent: {workspace: ./inner}")
    loaded = world.load()
    assert (loaded.workspace, loaded.workspace_reason) == (str(world.root / "inner"), f"workspace_dir in {project}")
    (outside := world.home / "elsewhere").mkdir()
    world.project(f"workspace_dir: {outside}")
    loaded = world.load()
    assert loaded.workspace == str(world.root)
    assert "workspace_dir" in loaded.warnings[0]
    world.trust()
    assert world.load().workspace == str(outside)
    world.project(f"workspace_dir: {world.home}")
    world.trust()
    assert "your home directory" in " ".join(world.problems())


def test_workspace_of_a_given_file_goes_before_the_current_directory(world: World, tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('workspace_dir = "."')
    assert world.load(config_file=str(file)).workspace == str(tmp_path)


def test_a_workspace_that_is_missing_is_said(world: World) -> None:
    world.user('workspace_dir = "~/nowhere"')
    loaded = world.load(cwd="/")
    assert "does not exist" in loaded.warnings[0]
    (world.home / "nowhere").mkdir()
    assert world.load(cwd="/").warnings == ()


def test_a_current_directory_that_is_gone(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    options: dict[str, Any] = {"cwd": None}
    assert "does not exist any more" in world.problems(**options)[0]


@pytest.mark.parametrize("rule", ["*", "mcp__*", "mcp__*__write", "mcp__files__*_all", "B*", "Bash(*)", "?ead"])
def test_a_rule_for_tools_by_a_pattern_is_kept(rule: str) -> None:
    assert checks.is_rule(rule)
