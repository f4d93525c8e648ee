"""The manifest of a plugin: `manifest.toml`, or `.claude-plugin/plugin.json` and the standard folders."""

import posixpath
import re
from collections.abc import Iterator
from dataclasses import field
from typing import Annotated, Any, Literal, cast

from adderclaw.config import syntax
from adderclaw.config.plugins.tree import Tree
from adderclaw.core.decode import Between, Invalid, decode, short_json, unknown_key_hint
from adderclaw.core.errors import ConfigError
from adderclaw.core.json_text import canonical
from adderclaw.core.record import NamedTuple, record
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json

OWN = "manifest.toml"
FOREIGN = ".claude-plugin/plugin.json"
HOOKS = "hooks/hooks.json"
SERVERS = ".mcp.json"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
TOOL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]{0,63}")
MOST_TOOLS = 64
MOST_PARTS = 500
SCHEMA_BYTES = 65_536
DESCRIPTION_CHARS = 2_048
UNUSED = ("lspServers", "outputStyles", "monitors", "themes", "channels", "settings", "userConfig", "dependencies")
"""Keys of plugin.json that have no effect here."""
UNUSED_FILES = (".lsp.json", "settings.json")

type Capability = Literal["tool", "command", "agent", "skill", "hook", "mcp_server"]
CAPABILITIES: tuple[Capability, ...] = ("tool", "command", "agent", "skill", "hook", "mcp_server")


@record
class PluginTool:
    """A `[[tools]]` entry of a manifest: a program that reads JSON from stdin and writes JSON to stdout."""

    name: str
    description: str
    command: str
    """The path of the program inside the plugin's folder."""
    args: list[str] = field(default_factory=list[str])
    """Its command line arguments."""
    schema: dict[str, Any] = field(default_factory=lambda: {"type": "object"})
    """JSON Schema of the arguments."""
    timeout: Annotated[float, Between(0.1, 3_600)] = 60.0
    """Time limit of a call, in seconds."""
    deferred: bool = False
    """Not listed in the prompt; the model finds it with ToolSearch."""


@record
class _Own:
    """The content of manifest.toml."""

    name: str
    version: str
    capabilities: list[Capability]
    description: str = ""
    tools: list[PluginTool] = field(default_factory=list[PluginTool])
    author: str = ""
    homepage: str = ""
    license: str = ""


class Manifest(NamedTuple):
    name: str
    version: str = ""
    description: str = ""
    capabilities: tuple[Capability, ...] = ()
    """The kinds of parts that the plugin contains, limited to those that a manifest.toml declares."""
    tools: tuple[PluginTool, ...] = ()
    commands: tuple[str, ...] = ()
    """Paths of Markdown files inside the folder."""
    agents: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    """Paths of folders with a SKILL.md inside the folder; `.` is the folder itself."""
    hooks: Json = {}  # noqa: RUF012 - never changed
    """Event → groups, as in settings files. `${CLAUDE_PLUGIN_ROOT}` is not expanded yet."""
    mcp_servers: Json = {}  # noqa: RUF012 - never changed
    """Name → entry, with variables not expanded yet."""
    unused: tuple[str, ...] = ()
    """Parts that have no effect here or are not declared in `capabilities`."""


class Read(NamedTuple):
    manifest: Manifest
    problems: tuple[str, ...]


def read(tree: Tree, folder_name: str) -> Read:
    """Read the manifest of a folder, with all its problems. A plugin without a name gets `folder_name`."""
    wrong: list[str] = []
    own, foreign = _own(tree, wrong), _foreign(tree, wrong)
    if own is None and foreign is None and not wrong and not _has_parts(tree):
        wrong.append(f"there is neither {OWN} nor {FOREIGN}, nor any folder that a plugin has")
    table = foreign or {}
    name = own.name if own else table.get("name", folder_name)
    if own and foreign is not None and table.get("name", own.name) != own.name:
        wrong.append(f"{OWN} calls it {own.name!r}, {FOREIGN} {short_json(table.get('name'))}: they must agree")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        wrong.append(f"name: {_shown_json(name)} is not allowed; letters, digits, `.`, `_` and `-`, at most 64")
        name = folder_name
    version = own.version if own else table.get("version", "")
    if version and (not isinstance(version, str) or not VERSION.fullmatch(version)):
        wrong.append(f"version: {_shown_json(version)} is not allowed; write it as 1.2.3")
        version = ""
    description = own.description if own else table.get("description", "")
    parts = _parts(tree, table, wrong)
    manifest = Manifest(
        name,
        str(version),
        visible(str(description), keep_newlines=False)[:DESCRIPTION_CHARS],
        tools=tuple(own.tools) if own else (),
        unused=_unused(tree, table),
        **parts,
    )
    if own:
        wrong.extend(_tool_problems(own, tree))
        manifest = _declared(manifest, tuple(own.capabilities))
    return Read(manifest._replace(capabilities=_brought(manifest)), tuple(wrong))


def _shown_json(value: object) -> str:
    return visible(short_json(value), keep_newlines=False)


# ------------------------------------------------------------------ the two files


def _own(tree: Tree, wrong: list[str]) -> _Own | None:
    table = _table(tree, OWN, wrong)
    if table is None:
        return None
    try:
        return decode(_Own, table)
    except Invalid as error:
        wrong.extend(f"{OWN}: {key}: {message}" if key else f"{OWN}: {message}" for key, message in error.problems)
        return None


def _foreign(tree: Tree, wrong: list[str]) -> Json | None:
    table = _table(tree, FOREIGN, wrong)
    if table is not None and "name" not in table:
        wrong.append(f"{FOREIGN}: name: is required")
    return table


def _table(tree: Tree, path: str, wrong: list[str]) -> Json | None:
    """The parsed content of a file; None if it does not exist or is invalid."""
    if path not in tree.files:
        return None
    data = tree.texts.get(path)
    if data is None:
        wrong.append(f"{path}: is a link, or too large")
        return None
    try:
        return syntax.parse(path, data)
    except ConfigError as error:
        wrong.extend(visible(str(problem), keep_newlines=False) for problem in error.problems)
        return None


def _has_parts(tree: Tree) -> bool:
    folders = ("commands/", "agents/", "skills/")
    return any(path.startswith(folders) or path in (HOOKS, SERVERS, "SKILL.md") for path in tree.files)


# ------------------------------------------------------------------ the parts


def _parts(tree: Tree, table: Json, wrong: list[str]) -> dict[str, Any]:
    """The parts in the standard folders, and those that plugin.json names in addition."""
    files = [path for path in tree.files if tree.regular(path)]
    commands = [*_below("commands", files), *_named("commands", table, tree, wrong)]
    agents = [*_below("agents", files), *_named("agents", table, tree, wrong)]
    skills = [*_skills("skills", files), *_named_skills(table, files, wrong)]
    if not skills and "SKILL.md" in files and not any(path.startswith("skills/") for path in files):
        skills = ["."]
    paths_by_kind = {"commands": commands, "agents": agents, "skills": skills}
    for kind, paths in paths_by_kind.items():
        if len(paths) > MOST_PARTS:
            wrong.append(f"it brings more than {MOST_PARTS} {kind}")
    return {
        **{kind: tuple(sorted(set(paths)))[:MOST_PARTS] for kind, paths in paths_by_kind.items()},
        "hooks": _merged_hooks(tree, table, wrong),
        "mcp_servers": _merged_servers(tree, table, wrong),
    }


def _below(folder: str, files: list[str]) -> list[str]:
    start = "" if folder == "." else f"{folder}/"
    return [path for path in files if path.startswith(start) and path.endswith(".md")]


def _skills(folder: str, files: list[str]) -> list[str]:
    """The folders with a SKILL.md: the folder itself, or else its direct subfolders."""
    if posixpath.join(folder, "SKILL.md") in files:
        return [folder]
    pattern = re.compile(rf"{'' if folder == '.' else re.escape(folder) + '/'}[^/]+/SKILL\.md")
    return [posixpath.dirname(path) for path in files if pattern.fullmatch(path)]


def _paths(key: str, table: Json, wrong: list[str]) -> Iterator[str]:
    """The paths that plugin.json lists under a key; paths outside the folder are reported."""
    value: Any = table.get(key, [])
    for text in cast(list[Any], value if isinstance(value, list) else [value]):
        if isinstance(text, str) and (path := inner(text)) is not None:
            yield path
        else:
            wrong.append(f"{FOREIGN}: {key}: {_shown_json(text)} is not a path inside the plugin")


def _named(key: str, table: Json, tree: Tree, wrong: list[str]) -> Iterator[str]:
    files = [path for path in tree.files if tree.regular(path)]
    for path in _paths(key, table, wrong):
        paths = [path] if path in files and path.endswith(".md") else _below(path, files)
        if not paths:
            wrong.append(
                f"{FOREIGN}: {key}: {_shown_json(path)} is neither a Markdown file of the plugin nor a folder with one"
            )
        yield from paths


def _named_skills(table: Json, files: list[str], wrong: list[str]) -> Iterator[str]:
    for path in _paths("skills", table, wrong):
        folders = _skills(posixpath.dirname(path) or "." if path.endswith("SKILL.md") else path, files)
        if not folders:
            wrong.append(f"{FOREIGN}: skills: {_shown_json(path)} contains no skill (a folder with a SKILL.md)")
        yield from folders


def inner(path: str) -> str | None:
    """A path from a manifest, normalized; None if it leads out of the folder."""
    if not path or path.startswith("/") or "\\" in path or "\0" in path or ".." in path.split("/"):
        return None
    return posixpath.normpath(path)


def _merged_hooks(tree: Tree, table: Json, wrong: list[str]) -> Json:
    groups_by_event: Json = {}
    for file, value in _settings(HOOKS, "hooks", tree, table, wrong):
        groups: object = value.get("hooks", value) if file else value
        if not isinstance(groups, dict):
            wrong.append(f"{file or FOREIGN}: hooks: expected a table of events, not {_shown_json(groups)}")
            continue
        for event, listed in cast(Json, groups).items():
            if not isinstance(listed, list):
                wrong.append(
                    f"{file or FOREIGN}: hooks.{_shown_json(event)}: expected a list, not {_shown_json(listed)}"
                )
                continue
            groups_by_event[event] = [*groups_by_event.get(event, []), *cast(list[Any], listed)]
    return groups_by_event


def _merged_servers(tree: Tree, table: Json, wrong: list[str]) -> Json:
    entries: Json = {}
    for file, value in _settings(SERVERS, "mcpServers", tree, table, wrong):
        servers: object = value.get("mcpServers", value)
        if not isinstance(servers, dict):
            wrong.append(f"{file or FOREIGN}: mcpServers: expected a table of servers, not {_shown_json(servers)}")
            continue
        for name, entry in cast(Json, servers).items():
            if not isinstance(entry, dict):
                wrong.append(
                    f"{file or FOREIGN}: mcpServers.{_shown_json(name)}: expected a table, not {_shown_json(entry)}"
                )
            elif name in entries and entries[name] != entry:
                wrong.append(f"{file or FOREIGN}: mcpServers.{_shown_json(name)}: is given twice")
            else:
                entries[name] = entry
    return entries


def _settings(usual: str, key: str, tree: Tree, table: Json, wrong: list[str]) -> Iterator[tuple[str, Json]]:
    """(file, table) for the standard file and the files that plugin.json names; the file of inline tables is empty."""
    value: Any = table.get(key, [])
    named = cast(list[Any], value if isinstance(value, list) else [value])
    seen = {usual}
    if (first := _table(tree, usual, wrong)) is not None:
        yield usual, first
    for entry in named:
        if isinstance(entry, dict):
            yield "", cast(Json, entry)
            continue
        path = inner(entry) if isinstance(entry, str) else None
        if path is None or path not in tree.files or not path.endswith(".json"):
            wrong.append(f"{FOREIGN}: {key}: {_shown_json(entry)} is not a JSON file of the plugin")
        elif path not in seen:
            seen.add(path)
            if (table_of_file := _table(tree, path, wrong)) is not None:
                yield path, table_of_file


def _unused(tree: Tree, table: Json) -> tuple[str, ...]:
    return (*(key for key in UNUSED if key in table), *(name for name in UNUSED_FILES if name in tree.files))


# ------------------------------------------------------------------ tools and capabilities

_PARTS: dict[Capability, str] = {
    "tool": "tools",
    "command": "commands",
    "agent": "agents",
    "skill": "skills",
    "hook": "hooks",
    "mcp_server": "mcp_servers",
}


def _brought(manifest: Manifest) -> tuple[Capability, ...]:
    return tuple(kind for kind in CAPABILITIES if getattr(manifest, _PARTS[kind]))


def _declared(manifest: Manifest, capabilities: tuple[Capability, ...]) -> Manifest:
    """The manifest without the parts that manifest.toml does not declare."""
    left_out: list[Capability] = [kind for kind in _brought(manifest) if kind not in capabilities and kind != "tool"]
    empty: dict[str, Any] = {_PARTS[kind]: {} if kind in ("hook", "mcp_server") else () for kind in left_out}
    words = tuple(f"{_PARTS[kind]} (capabilities does not name {kind!r})" for kind in left_out)
    return manifest._replace(**empty, unused=(*manifest.unused, *words))


def _tool_problems(own: _Own, tree: Tree) -> Iterator[str]:
    if own.tools and "tool" not in own.capabilities:
        yield f'{OWN}: capabilities: there are tools, so it must name "tool"'
    if "tool" in own.capabilities and not own.tools:
        yield f'{OWN}: tools: capabilities names "tool", so there must be one'
    if len(own.tools) > MOST_TOOLS:
        yield f"{OWN}: tools: there are more than {MOST_TOOLS}"
    seen: set[str] = set()
    for index, tool in enumerate(own.tools[:MOST_TOOLS]):
        key = f"{OWN}: tools[{index}]"
        if not TOOL_NAME.fullmatch(tool.name) or tool.name.startswith("mcp__"):
            yield f"{key}.name: {_shown_json(tool.name)} is not allowed; letters, digits, `_` and `-`, at most 64"
        if tool.name.lower() in seen:
            yield f"{key}.name: {_shown_json(tool.name)} is given twice"
        seen.add(tool.name.lower())
        yield from (f"{key}.{problem}" for problem in _one_tool(tool, tree))


def _one_tool(tool: PluginTool, tree: Tree) -> Iterator[str]:
    if not tool.description.strip():
        yield "description: is empty, and is all that a model knows of the tool"
    path = inner(tool.command)
    if path is None:
        yield f"command: {_shown_json(tool.command)} is not allowed; name a file of the plugin, as ./run"
    elif path not in tree.files:
        near = unknown_key_hint(path, [name for name in tree.files if tree.may_run(name)])
        yield f"command: {_shown_json(tool.command)} is not in the plugin{near}"
    elif not tree.regular(path):
        yield f"command: {_shown_json(tool.command)} is a link; name the file itself"
    elif not tree.may_run(path):
        yield f"command: {_shown_json(tool.command)} is not executable; run: chmod +x {_shown_json(path)}"
    if tool.schema.get("type") != "object":
        yield f'schema.type: must be "object", not {_shown_json(tool.schema.get("type"))}'
    if (size := len(canonical(tool.schema))) > SCHEMA_BYTES:
        yield f"schema: has {size} bytes, more than {SCHEMA_BYTES}"
