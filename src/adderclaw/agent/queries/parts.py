"""What is configured: MCP servers with their approved tools, skills, hooks, and every setting with its origin."""

from typing import Any, Literal, TypedDict

from adderclaw.agent.queries import clean, loaded, read_only
from adderclaw.agent.run import configured_hooks, start, start_reading
from adderclaw.agent.run.configured_servers import configured
from adderclaw.agent.run.skills import located
from adderclaw.agent.run.start import with_operators_own
from adderclaw.config.legacy.options import Options
from adderclaw.config.servers import Entry
from adderclaw.core.json_text import to_json
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json
from adderclaw.storage import Store
from adderclaw.tools.hooks import matching
from adderclaw.tools.hooks.settings import Hook
from adderclaw.tools.mcp import pins
from adderclaw.tools.mcp.pins import Pin
from adderclaw.tools.skills import catalogue
from adderclaw.tools.skills.catalogue import Catalogue, Skill

# ------------------------------------------------------------------ MCP servers


class PinRow(TypedDict):
    name: str
    state: str
    sha256: str
    description: str


class PinRowNow(PinRow, total=False):
    now: dict[str, Any]
    """The server's current definition of the tool, if it changed after it was approved."""


class ServerRow(TypedDict):
    name: str
    configured_as: str
    transport: Literal["stdio", "http"]
    target: str | None
    scope: str
    tools: list[PinRowNow]


def mcp_servers(options: Options) -> list[ServerRow]:
    """The configured servers, with their tools as they were last seen. No server is started."""
    runtime = start(read_only(options))
    known, path = configured(runtime), runtime.config.memory.path
    if not known or not Store.exists(path):
        return [clean(server(entry, {})) for entry in known]
    store = Store.open(path, read_only=True)
    try:
        return [clean(server(entry, pins.read_pins(store, entry.scope, entry.name))) for entry in known]
    finally:
        store.close()


def server(entry: Entry, tools: dict[str, Pin]) -> ServerRow:
    return {
        "name": entry.name,
        "configured_as": entry.given,
        "transport": "stdio" if entry.server.command is not None else "http",
        "target": entry.server.command or entry.server.url,
        "scope": entry.scope,
        "tools": [_pin(tool, pin) for tool, pin in tools.items()],
    }


def _pin(tool: str, pin: Pin) -> PinRowNow:
    row: PinRowNow = {
        "name": tool,
        "state": pin.state,
        "sha256": pin.shown.sha256,
        "description": pin.shown.description,
    }
    if pin.offered is not None:
        row["now"] = pin.offered._asdict()
    return row


# ------------------------------------------------------------------ skills


class SkillRow(TypedDict):
    name: str
    description: str
    scope: str
    folder: str
    tags: list[str]
    keywords: list[str]
    version: str
    license: str
    compatibility: str
    allowed_tools: list[str]
    metadata: dict[str, Any]
    usable: bool
    diagnosis: list[str]
    repairs: list[str]


class DuplicateRow(TypedDict):
    name: str
    used: str
    ignored: str


class Skills(TypedDict):
    skills: list[SkillRow]
    invalid: list[SkillRow]
    duplicates: list[DuplicateRow]
    directories: list[str]
    notes: list[str]


def skills(options: Options) -> Skills:
    return clean(of_catalogue(catalogue.load_skills(located(start(read_only(options))))))


def of_catalogue(skills: Catalogue) -> Skills:
    return {
        "skills": [skill(entry) for entry in skills.skills],
        "invalid": [skill(entry) for entry in skills.invalid],
        "duplicates": to_json(skills.duplicates),
        "directories": list(skills.directories),
        "notes": list(skills.notes),
    }


def skill(entry: Skill) -> SkillRow:
    row: Any = {name: to_json(getattr(entry, name)) for name in SkillRow.__annotations__}
    return row | {"folder": visible(entry.folder, keep_newlines=False)}


# ------------------------------------------------------------------ hooks

STATES = {"": "active", "untrusted_workspace": "not trusted", "disabled": "disabled", "unsupported_type": "not run"}

HookRow = TypedDict(
    "HookRow",
    {
        "ordinal": int,
        "event": str,
        "matcher": str,
        "type": str,
        "command": str,
        "shell": str,
        "if": str,
        "timeout": float,
        "source": str,
        "plugin": str,
        "state": str,
    },
)


def hooks(options: Options, event: str | None = None) -> list[HookRow]:
    """The configured hooks in the order in which they run, each with its source and state."""
    return [clean(hook(configured)) for configured in found_hooks(options, event)]


def found_hooks(options: Options, event: str | None = None) -> list[Hook]:
    return [hook for hook in configured_hooks.read(start_reading(read_only(options))) if event in (None, hook.event)]


def hook(configured: Hook) -> HookRow:
    return {
        "ordinal": configured.ordinal,
        "event": configured.event,
        "matcher": configured.matcher,
        "type": configured.kind,
        "command": configured.command,
        "shell": configured.shell,
        "if": configured.condition,
        "timeout": configured.seconds,
        "source": configured.source,
        "plugin": configured.plugin.name if configured.plugin is not None else "",
        "state": state_of(configured),
    }


def state_of(hook: Hook) -> str:
    never = not hook.skipped and matching.never_matches_reason(hook.event, hook.matcher)
    return "never runs" if never else STATES[hook.skipped]


# ------------------------------------------------------------------ settings


class SettingRow(TypedDict):
    key: str
    value: Any
    """null: not set."""
    origin: str
    """The file, option or variable that set it, or `default`."""


class Settings(TypedDict):
    workspace: str
    workspace_reason: str
    files: list[str]
    """The files that were read, lowest layer first."""
    trusted: bool
    warnings: list[str]
    settings: list[SettingRow]


def settings(options: Options) -> Settings:
    """Every effective setting, without secrets."""
    from adderclaw.config.leaves import leaves
    from adderclaw.config.redacted import public

    effective = with_operators_own(loaded(read_only(options)))
    shown = [
        (leaf.key, leaf.value, effective.origins.get(leaf.key, "default")) for leaf in leaves(public(effective.config))
    ]
    report: Json = {
        "workspace": effective.workspace,
        "workspace_reason": effective.workspace_reason,
        "files": list(effective.files),
        "trusted": effective.trusted,
        "warnings": list(effective.warnings),
        "settings": [{"key": key, "value": value, "origin": origin} for key, value, origin in shown],
    }
    return clean(report)
