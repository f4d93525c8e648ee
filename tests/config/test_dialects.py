"""The seeds' spellings mean the same as the schema's; what contradicts itself is refused."""

from typing import Any

import pytest

from adderclaw.config import snapshot, with_snapshot
from adderclaw.core.errors import ConfigError
from tests.config.conftest import World

REFUSED = [
    ("model: {provider: anthropic, nmae: x}", 'model.nmae: unknown key; did you mean "name"?'),
    ("model: 3", "model: expected a table"),
    ("model: {provider: 3}", "model.provider: expected text, not 3"),
    ("model: {provider: antropic, name: x}", 'because "antropic" is not the name of a kind; did you mean "anthropic"?'),
    ("model: {providers: 5}", "model.providers: expected a table"),
    ("model: {providers: {gemini: {api_key_evn: X}}}", 'did you mean "api_key_env"?'),
    ("model: {max_tokens: -1}", "model.max_tokens: -1 is not allowed"),
    ("model: {max_context_tokens: x}", "model.max_context_tokens: expected a whole number"),
    ("llm: {model: x}", "llm.provider: is required"),
    ("llm: {provider: openai, model: x, key: y}", "llm.key: unknown key"),
    ("agent: {id: a, name: b}", "agent.name: unknown key; known: id, workspace"),
    ("agent: {id: a}\nagent_id: b", 'agent.id: "a", but \'agent_id\' says "b"'),
    ("session: {store: redis}", 'session.store: "redis" is not allowed; allowed: "sqlite"'),
    ("session: {path: a}\nmemory: {path: b}", "session.path"),
    ("model: {provider: gemini, name: x}\nllm: {provider: openai, model: y}", "llm.provider"),
    ("model: {provider: gemini, name: x}\nproviders: {models: {gemini: {kind: gemini, model: y}}}", "model.name"),
    ("mcpServers: {a: {command: x}}\nmcp_servers: {a: {command: y}}", "mcpServers"),
    ("model_config: {provider: openai}", "allowed: claude_code_subscription, openai_compatible, lm_studio_local"),
    (
        "model_config: {provider: openai_compatible, model_id: gpt_9}",
        '"gpt_9" is not allowed for openai_compatible; allowed: gpt_4o, gpt_4o_mini, o3, o3_mini',
    ),
    ("model_config: {provider: openai_compatible, model_id: o3, token: abcdefg}", "secrets do not belong"),
    ("hooks: {PreToolUse: x}", "hooks.PreToolUse: expected a list"),
    ("hooks: {PreToolUse: [{hooks: [3]}]}", "hooks.PreToolUse[0].hooks[0]: expected a table"),
    ("hooks: 3", "hooks: expected a list, not 3"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_refuses(world: World, text: str, message: str) -> None:
    world.project(text)
    world.trust()
    found = world.problems()
    assert any(message in problem for problem in found), found


def test_seed_002(world: World) -> None:
    world.project(
        "model: {provider: gemini, name: gemini-x, max_tokens: 4096, max_context_tokens: 32000,"
        " response_headroom_tokens: 2000, structured_output_mode: native_with_json_fallback,"
        " providers: {anthropic: {api_key_env: MY_KEY}, gemini: {api_key_env: OTHER}}}\n"
        "runtime: {profile: sandboxed, max_turns: 4}\nskills: {dir: ./s, prefilter_min_score: 60}\n"
        "logging: {level: debug, jsonl_dir: ./r}"
    )
    world.trust()
    config = world.load().config
    assert config.default_provider == "gemini"
    entry = config.providers.models["gemini"]
    assert (entry.kind, entry.model, entry.max_tokens, entry.api_key_env) == ("gemini", "gemini-x", 4096, "OTHER")
    assert config.providers.models["anthropic"].api_key_env == "MY_KEY"
    assert config.skills.dir == str(world.root / "s")
    assert config.logging.jsonl_dir == str(world.root / "r")


def test_a_model_without_provider_is_anthropics(world: World) -> None:
    world.project("model: {name: claude-x}")
    world.trust()
    config = world.load().config
    assert (config.default_provider, config.providers.models["anthropic"].model) == ("anthropic", "claude-x")


def test_seed_004(world: World) -> None:
    world.project(
        '{"agent": {"id": "a7", "workspace": "."}, "llm": {"provider": "openai", "model": "m", "api_key_env": "K",'
        ' "max_tokens": 9}, "web": {"gateway_url": "https://gw.example.org", "gateway_token_env": "GT"},'
        ' "telemetry": {"enabled": true, "endpoint": "https://t.example.org", "protocol": "http"}}',
        "agent.json",
    )
    world.trust()
    config = world.load().config
    entry = config.providers.models["openai"]
    assert (entry.kind, entry.model, entry.api_key_env, entry.max_tokens) == ("openai", "m", "K", 9)
    assert (config.agent_id, config.workspace_dir) == ("a7", str(world.root))
    assert config.web.gateway_token_env == "GT"
    assert config.telemetry.protocol == "http"


def test_session_store(world: World) -> None:
    world.user('[session]\nstore = "file"\npath = "s.sqlite"')
    loaded = world.load()
    assert loaded.config.memory.path == str(world.own / "s.sqlite")
    assert loaded.config.memory.backend == "file"


def test_an_entry_by_its_own_name(world: World) -> None:
    world.user('[llm]\nprovider = "mine"\nmodel = "m"\n[providers.models.mine]\nkind = "ollama"')
    config = world.load().config
    assert (config.default_provider, config.providers.models["mine"].model) == ("mine", "m")


def test_the_same_value_twice_is_no_contradiction(world: World) -> None:
    world.user('agent_id = "a"\n[agent]\nid = "a"')
    assert world.load().config.agent_id == "a"


def test_empty_sections_count_as_absent(world: World) -> None:
    world.project("security:\nmodel:\nchannels:\n  cli:\nlimits:\n  tokens: 5")
    assert world.load().config.limits.tokens == 5


def test_three_shapes_of_hooks(world: World) -> None:
    expected: list[list[dict[str, Any]]] = [
        [{"hook_event_name": "PreToolUse", "name": "custom-validator"}],
        [{"hook_event_name": "PreToolUse", "matcher": "Bash", "type": "command", "command": "x"}],
        [{"hook_event_name": "PreToolUse", "matcher": "Bash", "command": "exit 2"}],
    ]
    shapes: list[Any] = [
        {"PreToolUse": ["custom-validator"]},
        {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "x"}]}]},
        [{"hook_event_name": "PreToolUse", "matcher": "Bash", "command": "exit 2"}],
    ]
    for shape, entries in zip(shapes, expected, strict=True):
        world.settings(hooks=shape)
        world.trust()
        assert world.load().config.hooks == entries


def test_model_config(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.settings(model_config={"provider": "lm_studio_local", "model_id": "lm_studio_server_routed"})
    world.trust()
    monkeypatch.setenv("LM_STUDIO_MODEL", "qwen")
    config = world.load().config
    entry = config.providers.models["lm_studio_local"]
    assert config.default_provider == "lm_studio_local"
    assert (entry.kind, entry.model, entry.base_url) == ("lm-studio", "qwen", "http://127.0.0.1:1234/v1")
    monkeypatch.setenv("LM_STUDIO_MODEL", "gemma")
    assert world.load().config.providers.models["lm_studio_local"].model == "gemma"


# ------------------------------------------------------------------ the row in the database


def test_the_operators_row_replaces_permissions_hooks_and_model(world: World) -> None:
    world.user('[permissions]\ndeny = ["Write"]\n[security]\nautonomy = "full"')
    loaded = world.load()
    row = {"hooks": [{"hook_event_name": "PreToolUse", "matcher": "Bash", "command": "exit 2"}]}
    changed = with_snapshot(loaded, row).config
    assert changed.hooks == row["hooks"]
    assert changed.permissions.deny == []
    assert changed.security.autonomy == "full"
    assert changed.default_provider == "local"


def test_our_own_snapshot_changes_nothing(world: World) -> None:
    world.user(
        'default_provider = "openai_compatible"\n[permissions]\ndeny = ["Write"]\n'
        '[[hooks]]\nhook_event_name = "Stop"\ncommand = "true"'
    )
    loaded = world.load()
    assert snapshot(loaded)["model_config"] == {"provider": "openai_compatible", "model_id": "local-model"}
    assert with_snapshot(loaded, snapshot(loaded)).config == loaded.config


def test_a_row_with_a_model_of_the_closed_set(world: World) -> None:
    row = {"model_config": {"provider": "claude_code_subscription", "model_id": "claude_sonnet_4"}}
    config = with_snapshot(world.load(), row).config
    assert config.providers.models[config.default_provider].model == "claude-sonnet-4-20250514"


@pytest.mark.parametrize(
    "row",
    [
        {"permissions": {"defaultMode": "auto"}},
        {"hoks": []},
        {"model_config": {"provider": "nowhere", "model_id": "x"}},
        {"model_config": {"provider": "openai_compatible", "model_id": "x"}},
        {"hooks": "x"},
    ],
)
def test_a_bad_row_is_refused(world: World, row: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="settings_snapshot 'effective'"):
        with_snapshot(world.load(), row)
