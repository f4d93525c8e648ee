"""The agents that are measured: how each is started headless, with everything off that would reach the network."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from bench.measuring import CONFIG

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PEERS = Path(os.environ.get("ADDERCLAW_PEERS", ROOT / ".cache" / "peers"))
TASK = "Run the shell commands you decide on, one at a time, then say that you are done."


class Place(NamedTuple):
    """Where one agent runs."""

    home: Path
    work: Path
    url: str

    @property
    def env(self) -> dict[str, str]:
        home = self.home
        return {
            "PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home / "tmp"), "LANG": "C.UTF-8",
            "TERM": "dumb", "USER": "bench", "SHELL": "/bin/bash", "NO_COLOR": "1", "CI": "1", "DO_NOT_TRACK": "1",
            "XDG_CONFIG_HOME": str(home / ".config"), "XDG_DATA_HOME": str(home / ".local/share"),
            "XDG_CACHE_HOME": str(home / ".cache"), "XDG_STATE_HOME": str(home / ".local/state"),
            "NO_PROXY": "127.0.0.1,localhost",
        }  # fmt: skip


def nothing(_: Place) -> None:
    pass


def no_env(_: Place) -> Mapping[str, str]:
    return {}


class Agent(NamedTuple):
    name: str
    program: str | None
    """What `--version` is asked of; None: the floor, which is a script of ours."""
    command: Callable[[Place], list[str]]
    env: Callable[[Place], Mapping[str, str]] = no_env
    prepare: Callable[[Place], None] = nothing


def put(path: Path, content: str | dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def _npm(folder: str, path: str) -> str:
    return str(PEERS / folder / "node_modules" / path)


ADDERCLAW = os.environ.get("ADDERCLAW") or str(Path(sys.executable).with_name("adderclaw"))
CLAUDE = _npm("claude-code", ".bin/claude")
CODEX = _npm("codex", ".bin/codex")
OPENCODE = _npm("opencode", ".bin/opencode")
GEMINI = _npm("gemini-cli", ".bin/gemini")
GOOSE = _npm("goose", "@aaif/goose-binary-linux-x64/bin/goose")


def _key(_: Place) -> Mapping[str, str]:
    return {"OPENAI_API_KEY": "none"}


def _floor(place: Place) -> list[str]:
    return [sys.executable, str(HERE.parent / "floor.py"), place.url.rpartition(":")[2], TASK]


def _adderclaw(place: Place) -> None:
    put(place.home / ".adderclaw/config.toml", CONFIG.format(work=place.work, url=place.url, key="OPENAI_API_KEY"))


def _codex(place: Place) -> None:
    put(place.home / ".codex/config.toml", f'''
model = "gpt-5.5"
model_provider = "bench"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[analytics]
enabled = false
[features]
plugins = false
apps = false
[model_providers.bench]
name = "bench"
base_url = "{place.url}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
''')  # fmt: skip


def _opencode(place: Place) -> None:
    model: dict[str, Any] = {"name": "scripted", "tool_call": True, "limit": {"context": 1_000_000, "output": 8_000}}
    provider: dict[str, Any] = {"npm": "@ai-sdk/openai-compatible", "name": "bench", "models": {"scripted": model}}
    provider["options"] = {"baseURL": f"{place.url}/v1", "apiKey": "none"}
    made: dict[str, Any] = {"autoupdate": False, "share": "disabled", "permission": "allow"}
    made |= {"model": "bench/scripted", "small_model": "bench/scripted", "provider": {"bench": provider}}
    put(place.home / ".config/opencode/opencode.json", made)


def _gemini(place: Place) -> None:
    general = {"enableAutoUpdate": False, "disableAutoUpdate": True, "disableUpdateNag": True}
    security = {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}}
    made: dict[str, Any] = {"general": general, "security": security, "telemetry": {"enabled": False}}
    put(place.home / ".gemini/settings.json", {**made, "privacy": {"usageStatisticsEnabled": False}})


def _claude_env(place: Place) -> Mapping[str, str]:
    quiet = ("DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER", "DISABLE_ERROR_REPORTING", "IS_SANDBOX")
    more = dict.fromkeys((*quiet, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"), "1")
    return {"ANTHROPIC_BASE_URL": place.url, "ANTHROPIC_API_KEY": "none", **more}


def _opencode_env(_: Place) -> Mapping[str, str]:
    return {
        f"OPENCODE_DISABLE_{name}": "1" for name in ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
    }


def _gemini_env(place: Place) -> Mapping[str, str]:
    return {"GOOGLE_GEMINI_BASE_URL": place.url, "GEMINI_API_KEY": "none", "GEMINI_CLI_TRUST_WORKSPACE": "true"}


def _goose_env(place: Place) -> Mapping[str, str]:
    quiet = {"GOOSE_TELEMETRY_ENABLED": "false", "GOOSE_TELEMETRY_OFF": "1", "GOOSE_DISABLE_KEYRING": "1"}
    model = {"GOOSE_PROVIDER": "openai", "OPENAI_HOST": place.url, "OPENAI_API_KEY": "none", "GOOSE_MODEL": "gpt-4o"}
    return {**quiet, **model, "GOOSE_MODE": "auto", "GOOSE_MAX_TURNS": "100000"}


def _fixed(*words: str) -> Callable[[Place], list[str]]:
    return lambda _: list(words)


AGENTS = [
    Agent("floor", None, _floor),
    Agent("adderclaw", ADDERCLAW, _fixed(ADDERCLAW, "agent", "-m", TASK), _key, _adderclaw),
    Agent(
        "adderclaw (no sandbox)",
        ADDERCLAW,
        _fixed(ADDERCLAW, "agent", "--profile", "permissive", "-m", TASK),
        _key,
        _adderclaw,
    ),
    Agent("goose", GOOSE, _fixed(GOOSE, "run", "--with-builtin", "developer", "-t", TASK), _goose_env),
    Agent(
        "codex",
        CODEX,
        _fixed(CODEX, "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", TASK),
        _key,
        _codex,
    ),
    Agent("claude-code", CLAUDE, _fixed(CLAUDE, "-p", TASK, "--dangerously-skip-permissions"), _claude_env),
    Agent("gemini-cli", GEMINI, _fixed(GEMINI, "-p", TASK, "--yolo", "-m", "gemini-2.5-pro"), _gemini_env, _gemini),
    Agent("opencode", OPENCODE, _fixed(OPENCODE, "run", "--model", "bench/scripted", TASK), _opencode_env, _opencode),
]
