"""Reads settings files of other programs. An invalid deny or ask rule is an error; any other invalid key is skipped."""

import os
import re
from typing import TYPE_CHECKING, Any, cast

from adderclaw.config import baseline, checks
from adderclaw.config import servers as mcp
from adderclaw.config.foreign import dialects, settings_keys
from adderclaw.config.leaves import drop
from adderclaw.core.errors import ConfigError, Problem
from adderclaw.core.types import Json

if TYPE_CHECKING:
    from adderclaw.config.layers import Composition

OPERATORS = "settings.json"
"""The settings file in the operator's own folder of the other program."""
KEYS = frozenset({"permissions", "hooks", "env", "sandbox", "apiKeyHelper", "disableAllHooks", "statusLine"})
PERMISSIONS = frozenset(
    ("allow", "deny", "ask", "defaultMode", "additionalDirectories", "disableBypassPermissionsMode")
) | frozenset(settings_keys.OUTSIDE)
DISABLED = "disabledMcpjsonServers"
TIGHTENS = re.compile(
    r"permissions(\.(deny|ask)\b.*)?|sandbox(\.(filesystem\.deny|credentials\.files|network\.denied).*)?|" + DISABLED
)
"""Keys that restrict. A mistake in one is an error, because skipping it would allow what the file denies."""
PATH_RULE = re.compile(r"(Read|Edit|Write|MultiEdit|NotebookEdit|NotebookRead|Glob|Grep|LS|Delete)\((/(?!/).*)\)")


def lay(composition: "Composition", path: str, scope: dialects.Scope) -> None:
    """Merge a settings file of the operator or the project over the current settings."""
    data = composition.look(path)
    if data is None:
        return
    from adderclaw.config import syntax

    composition.files.append(path)
    try:
        raw = syntax.parse(path, data)
    except ConfigError as error:
        unknown = "its deny rules cannot be read, so nothing runs until you fix or remove the file"
        composition.problems += [
            Problem(path, problem.key, f"{problem.message}; {unknown}") for problem in error.problems
        ]
        return
    base = composition.project if scope == "project" else os.path.dirname(path)
    table = _without_ineffective(composition, path, raw)
    before, composition.problems = composition.problems, []
    mapped = dialects.map_file(path, table, settings_only=True)
    if scope == "user":
        _anchor(mapped.data, base)
    layer = composition.checked(mapped, table, scope, base)
    faults, composition.problems = composition.problems, before
    for fault in faults:
        if TIGHTENS.fullmatch(fault.key):
            composition.problems.append(fault)
            continue
        composition.warnings.append(f"{path}: {fault.key} is left out: {fault.message}")
        if fault.key.startswith("permissions.additionalDirectories"):
            drop(layer.data, "permissions.additionalDirectories")
    composition.lay(layer)


def _without_ineffective(composition: "Composition", path: str, raw: Json) -> Json:
    """The table without keys that have no effect here; reports them."""
    table = {key: value for key, value in raw.items() if key in KEYS}
    idle = [key for key in raw if key not in KEYS and key not in ("$schema", DISABLED)]
    listed: Any = table.get("permissions")
    if isinstance(listed, dict):
        permissions = dict(cast(Json, listed))
        idle += [f"permissions.{key}" for key in permissions if key not in PERMISSIONS]
        if permissions.get("defaultMode") == "auto":
            idle.append("permissions.defaultMode = auto")
            del permissions["defaultMode"]
        if permissions.get("defaultMode") == "bypassPermissions":
            composition.warnings.append(f"{path}: permissions.defaultMode is left out: {baseline.NO_BYPASS}")
            del permissions["defaultMode"]
        table["permissions"] = {key: value for key, value in permissions.items() if key in PERMISSIONS}
    _disable_servers(composition, path, raw.get(DISABLED, []))
    if idle:
        named = ", ".join(key[:60] for key in idle)
        composition.note([f"{path}: these settings of another program have no effect here: {named}"])
    hidden: list[str] = []
    cleaned = cast(Json, _without_secrets(table, "", "", hidden))
    if hidden:
        composition.note([f"{path}: left out, since keys and secrets do not belong in a file: {', '.join(hidden)}"])
    return cleaned


def _without_secrets(value: Any, key: str, name: str, hidden: list[str]) -> Any:
    """A copy without secrets. A secret in a restricting key is not removed, so that it becomes an error."""
    if isinstance(value, dict):
        cleaned: Json = {}
        for inner, item in cast(Json, value).items():
            inner_key = f"{key}.{inner}" if key else inner
            if key != "env" and _is_hidden(item, inner_key, inner):
                hidden.append(inner_key)
            else:
                cleaned[inner] = _without_secrets(item, inner_key, inner, hidden)
        return cleaned
    if isinstance(value, list):
        listed: list[Any] = []
        for index, item in enumerate(cast(list[Any], value)):
            inner_key = f"{key}[{index}]"
            if _is_hidden(item, inner_key, name):
                hidden.append(inner_key)
            else:
                listed.append(_without_secrets(item, inner_key, name, hidden))
        return listed
    return value


def _is_hidden(item: Any, key: str, name: str) -> bool:
    return isinstance(item, str) and checks.is_secret(name, item) and not TIGHTENS.fullmatch(key)


def _disable_servers(composition: "Composition", path: str, names: Any) -> None:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in cast(list[Any], names)):
        composition.problems.append(Problem(path, DISABLED, "expected a list of names of servers"))
        return
    composition.disabled_servers |= set(cast(list[str], names))


def _anchor(data: Json, folder: str) -> None:
    """Make `/path` in a rule relative to the folder of its file. Elsewhere it is relative to the workspace."""
    permissions: Any = data.get("permissions")
    if not isinstance(permissions, dict):
        return
    escaped = re.sub(r"[\\*?\[\]!]", r"\\\g<0>", folder)
    for name in ("allow", "deny", "ask"):
        rules: Any = cast(Json, permissions).get(name)
        if isinstance(rules, list):
            texts = cast(list[Any], rules)
            cast(Json, permissions)[name] = [_anchored(rule, escaped) for rule in texts]


def _anchored(rule: Any, folder: str) -> Any:
    match = PATH_RULE.fullmatch(rule.strip()) if isinstance(rule, str) else None
    return rule if match is None else f"{match[1]}(/{folder}{match[2]})"


# ------------------------------------------------------------------ .mcp.json


def servers(composition: "Composition") -> None:
    """Merge the servers of `.mcp.json`, except for invalid ones and those that a settings file disables."""
    path = os.path.join(composition.project, mcp.FILE)
    composition.files.append(path)
    usable: Json = {}
    for name, entry in _table(composition, path, composition.present[mcp.FILE]).items():
        if name in composition.disabled_servers:
            composition.note([f"{path}: the server {name!r} is left out: {DISABLED} names it"])
        elif wrong := _wrong(name, entry):
            composition.warnings.append(f"{path}: the server {name!r} is left out: {wrong}")
        else:
            usable[name] = entry
    if usable:
        written = {f"mcp_servers.{name}": f"mcpServers.{name}" for name in usable}
        composition.lay(dialects.Layer(path, "project", {"mcp_servers": usable}, written))


def _table(composition: "Composition", path: str, data: bytes) -> Json:
    from adderclaw.config import syntax

    try:
        raw: Any = syntax.parse(path, data)
    except ConfigError as error:
        composition.warnings += [f"{path} is left out: {problem.message}" for problem in error.problems]
        return {}
    table: Any = cast(Json, raw).get("mcpServers", {})
    if not isinstance(table, dict):
        composition.warnings.append(f"{path} is left out: mcpServers must be a table of servers")
        return {}
    return cast(Json, table)


def _wrong(name: str, entry: Any) -> str:
    """Why a server cannot be used; empty if it can."""
    secret = checks.secrets({name: entry})
    if secret:
        return "; ".join(f"{key}: {message}" for key, message in secret.items())
    return "; ".join(f"{key}: {message}" for key, message in mcp.problems({name: entry}))
