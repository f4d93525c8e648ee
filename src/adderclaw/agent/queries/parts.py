"""What is configured: MCP servers with what is approved of them, skills, hooks, and every setting with its origin."""

from typing import Any, Literal, TypedDict

from adderclaw.agent.queries import clean, loaded, looking
from adderclaw.agent.run import configured_hooks, start, start_reading
from adderclaw.agent.run.servers import configured
from adderclaw.agent.run.skills import located
from adderclaw.agent.run.start import with_operators_own
from adderclaw.config.legacy.options import Options
from adderclaw.config.servers import Entry
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
    """What the server says of it by now; it was changed since it was approved."""


class ServerRow(TypedDict):
    name: str
    configured_as: str
    transport: Literal["stdio", "http"]
    target: str | None
    scope: str
    tools: list[PinRowNow]


def mcp_servers(options: Options) -> list[ServerRow]:
    """Nothing is started: what is known of their tools is what was seen last."""
    runtime = start(looking(options))
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
        row["now"] = pin.offered.as_json()
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
    return clean(of_catalogue(catalogue.load_skills(located(start(looking(options))))))


def of_catalogue(found: Catalogue) -> Skills:
    return {
        "skills": [skill(one) for one in found.skills],
        "invalid": [skill(one) for one in found.invalid],
        "duplicates": [{"name": one.name, "used": one.used, "ignored": one.ignored} for one in found.duplicates],
        "directories": list(found.directories),
        "notes": list(found.notes),
    }


def skill(one: Skill) -> SkillRow:
    return {
        "name": one.name,
        "description": one.description,
        "scope": one.scope,
        "folder": visible(one.folder, keep_newlines=False),
        "tags": list(one.tags),
        "keywords": list(one.keywords),
        "version": one.version,
        "license": one.license,
        "compatibility": one.compatibility,
        "allowed_tools": list(one.allowed_tools),
        "metadata": dict(one.metadata),
        "usable": one.usable,
        "diagnosis": list(one.diagnosis),
        "repairs": list(one.repairs),
    }


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
    """In the order in which they run, with where each comes from and whether it runs."""
    return [clean(hook(one)) for one in found_hooks(options, event)]


def found_hooks(options: Options, event: str | None = None) -> list[Hook]:
    return [one for one in configured_hooks.read(start_reading(looking(options))) if event in (None, one.event)]


def hook(one: Hook) -> HookRow:
    return {
        "ordinal": one.ordinal,
        "event": one.event,
        "matcher": one.matcher,
        "type": one.kind,
        "command": one.command,
        "shell": one.shell,
        "if": one.condition,
        "timeout": one.seconds,
        "source": one.source,
        "plugin": one.plugin.name if one.plugin is not None else "",
        "state": state_of(one),
    }


def state_of(one: Hook) -> str:
    never = not one.skipped and matching.never_matches_reason(one.event, one.matcher)
    return "never runs" if never else STATES[one.skipped]


# ------------------------------------------------------------------ settings


class SettingRow(TypedDict):
    key: str
    value: Any
    """null: not set."""
    origin: str
    """The file, flag or variable that it is from, or `default`."""


class Settings(TypedDict):
    workspace: str
    workspace_reason: str
    files: list[str]
    """Those that were read, lowest layer first."""
    trusted: bool
    warnings: list[str]
    settings: list[SettingRow]


def settings(options: Options) -> Settings:
    """Every setting that counts there; secrets are never shown."""
    from adderclaw.config.leaves import leaves
    from adderclaw.config.redacted import public

    found = with_operators_own(loaded(looking(options)))
    shown = [(leaf.key, leaf.value, found.origins.get(leaf.key, "default")) for leaf in leaves(public(found.config))]
    made: Json = {
        "workspace": found.workspace,
        "workspace_reason": found.workspace_reason,
        "files": list(found.files),
        "trusted": found.trusted,
        "warnings": list(found.warnings),
        "settings": [{"key": key, "value": value, "origin": origin} for key, value, origin in shown],
    }
    return clean(made)
