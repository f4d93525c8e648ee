"""Checks hooks and converts them from named lists, nested groups and flat entries to one flat list."""

from collections.abc import Iterator
from typing import Any, cast

from adderclaw.core.decode import short_json, unknown_key_hint
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json

EVENTS = (
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PermissionDenied",
    "Notification",
    "UserPromptSubmit",
    "SessionStart",
    "SessionEnd",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "PermissionRequest",
    "Setup",
    "TeammateIdle",
    "TaskCreated",
    "TaskCompleted",
    "Elicitation",
    "ElicitationResult",
    "ConfigChange",
    "InstructionsLoaded",
    "WorktreeCreate",
    "WorktreeRemove",
    "CwdChanged",
    "FileChanged",
)
"""The closed set of events, in their normative order."""
NEWER = (
    "PostToolBatch",
    "UserPromptExpansion",
    "PreModelSwitch",
    "PostModelSwitch",
    "DirectoryAdded",
    "MessageDisplay",
)
"""Events that another program added later. Settings files may use them too."""
KINDS = {"command": "command", "http": "url", "prompt": "prompt", "agent": "prompt", "mcp_tool": "tool"}
"""Kind of hook → its required field."""
SHELLS = ("bash", "sh", "powershell")
LONGEST = 86_400
"""Maximum timeout of a hook, in seconds."""

_TEXTS = (
    "matcher",
    "command",
    "if",
    "if_condition",
    "name",
    "url",
    "prompt",
    "model",
    "server",
    "tool",
    "statusMessage",
)
_FLAGS = ("async", "asyncRewake", "once", "continueOnBlock")
_KNOWN = (
    *("hook_event_name", "type", "shell", "timeout", "args", "headers", "allowedEnvVars", "onFailure", "input"),
    *_TEXTS,
    *_FLAGS,
)
_DIFFERENT = {
    "async": "a hook with async runs beside the turn; what it prints is recorded and has no effect",
    "asyncRewake": "asyncRewake has no effect: a background hook cannot start a new turn",
}


class Normal(NamedTuple):
    """Hooks as a flat list, with their problems and with warnings about keys that are ignored or behave differently."""

    entries: Any
    problems: list[tuple[str, str]]
    warnings: list[str]


def normal(value: Any) -> Normal:
    """All hooks as one flat list, in order. Any other type is returned unchanged, so that the schema rejects it."""
    result = Normal([], [], [])
    if isinstance(value, dict):
        for event, groups in cast(Json, value).items():
            if not isinstance(groups, list):
                result.problems.append((f"hooks.{event}", f"expected a list, not {short_json(groups)}"))
                continue
            for index, group in enumerate(cast(list[Any], groups)):
                for key, entry in _group(event, group, f"hooks.{event}[{index}]", result):
                    _add(result, key, entry)
    elif isinstance(value, list):
        for index, entry in enumerate(cast(list[Json | None], value)):
            key = f"hooks[{index}]"
            table = entry if isinstance(entry, dict) else {}
            if not isinstance(table.get("hook_event_name"), str):
                result.problems.append((key, f"expected a table with hook_event_name, not {short_json(entry)}"))
                continue
            for hook_key, flat in _flat(table, key, result):
                _add(result, hook_key, flat)
    else:
        return result._replace(entries=[] if value is None else value)
    return result


def _flat(entry: Json, key: str, normal: Normal) -> Iterator[tuple[str, Json]]:
    """The hooks of a list entry: the entry itself, or, if it has `hooks`, the members of that group."""
    if "hooks" in entry:
        group = {name: item for name, item in entry.items() if name != "hook_event_name"}
        yield from _group(entry["hook_event_name"], group, key, normal)
    else:
        yield key, entry


def _group(event: str, group: object, key: str, normal: Normal) -> Iterator[tuple[str, Json]]:
    match group:
        case str():
            yield key, {"hook_event_name": event, "name": group}
        case {"hooks": list()}:
            table = cast(Json, group)
            shared = {name: item for name, item in table.items() if name != "hooks"}
            for index, hook in enumerate(table["hooks"]):
                hook_key = f"{key}.hooks[{index}]"
                if isinstance(hook, dict):
                    yield hook_key, {"hook_event_name": event, **shared, **cast(Json, hook)}
                else:
                    normal.problems.append((hook_key, f"expected a table, not {short_json(hook)}"))
        case dict():
            yield key, {"hook_event_name": event, **cast(Json, group)}
        case _:
            normal.problems.append((key, f"expected a name or a table, not {short_json(group)}"))


def _add(normal: Normal, key: str, entry: Json) -> None:
    wrong = list(_wrong(entry))
    normal.problems.extend((f"{key}.{name}" if name else key, message) for name, message in wrong)
    if wrong:
        return
    normal.entries.append(entry)
    unknown = [name for name in entry if name not in _KNOWN]
    if unknown:
        normal.warnings.append(f"{key}: {', '.join(map(str, unknown))} is not a key of hooks and is ignored")
    used = [name for name in ("async", "asyncRewake") if entry.get(name)]
    normal.warnings.extend(_DIFFERENT[name] for name in used if _DIFFERENT[name] not in normal.warnings)


def _wrong(entry: Json) -> Iterator[tuple[str, str]]:
    """(key, message) for each problem of an entry."""
    event = entry["hook_event_name"]
    if event not in EVENTS and event not in NEWER:
        yield "", f"there is no hook event {event!r}{unknown_key_hint(str(event), [*EVENTS, *NEWER])}"
    for name in _TEXTS:
        if not isinstance(entry.get(name, ""), str):
            yield name, f"expected text, not {short_json(entry[name])}"
    for name in _FLAGS:
        if not isinstance(entry.get(name, False), bool):
            yield name, f"expected true or false, not {short_json(entry[name])}"
    kind = entry.get("type", "command")
    if kind not in KINDS:
        yield "type", f"{short_json(kind)} is not allowed; allowed: {', '.join(KINDS)}"
    elif not entry.get(KINDS[kind]) and (kind != "command" or "name" not in entry):
        yield KINDS[kind], f"is required for a hook of type {kind}"
    if kind == "mcp_tool" and not entry.get("server"):
        yield "server", "is required for a hook of type mcp_tool"
    if "name" in entry and not _is_name(entry["name"]):
        yield "name", "a validator's name has letters, digits, '.', '_', '-' and spaces alone"
    if entry.get("shell", "bash") not in SHELLS:
        yield "shell", f"{short_json(entry['shell'])} is not allowed; allowed: {', '.join(SHELLS)}"
    if entry.get("onFailure", "continue") not in ("continue", "block"):
        yield "onFailure", f"{short_json(entry['onFailure'])} is not allowed; allowed: continue, block"
    yield from _wrong_values(entry)


def _wrong_values(entry: Json) -> Iterator[tuple[str, str]]:
    timeout = entry.get("timeout", 1)
    if not isinstance(timeout, int | float) or isinstance(timeout, bool) or not 0 < timeout <= LONGEST:
        yield "timeout", f"expected seconds, more than 0 and at most {LONGEST}, not {short_json(timeout)}"
    for name in ("args", "allowedEnvVars"):
        if not _texts(entry.get(name, [])):
            yield name, f"expected a list of texts, not {short_json(entry[name])}"
    if not isinstance(entry.get("input", {}), dict):
        yield "input", f"expected a table, not {short_json(entry['input'])}"
    headers: object = entry.get("headers", {})
    if not isinstance(headers, dict) or not _texts(list(cast(Json, headers).values())):
        yield "headers", f"expected a table of texts, not {short_json(entry['headers'])}"


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in cast(list[Any], value))


def _is_name(value: Any) -> bool:
    if not isinstance(value, str) or not value.strip() or value.startswith("-"):
        return False
    return all(char.isalnum() or char in "._- " for char in value) and value not in (".", "..")
