"""What would take effect if the operator trusted a plugin: each tool, hook, server, skill, command and agent."""

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from adderclaw.config.foreign import frontmatter, hooks
from adderclaw.config.paths import followed
from adderclaw.config.plugins.installed import Plugin
from adderclaw.config.plugins.tree import EXECUTABLE
from adderclaw.config.safe_open import ANCHOR, READ, open_real, opener
from adderclaw.core.json_text import canonical
from adderclaw.core.redaction import Secrets, visible
from adderclaw.core.types import Json

if TYPE_CHECKING:
    from adderclaw.config.plugins.manifest import Manifest

WORD = re.compile(r"[A-Za-z0-9_+/=~.-]{16,}")
"""Only text of this form is masked. It is a single shell word, so that masking cannot hide a command."""
NOT_INSTALLED = "nothing was installed"
"""The end of the report of a dry run."""


def rows(plugin: Plugin) -> list[Json]:
    """Complete rows of `{what, name, value}`. Values are raw; use `seen` to escape them for display."""
    manifest = plugin.manifest
    rows = [*_tools(plugin), *_hooks(manifest), *_servers(manifest.mcp_servers)]
    root = open_real(followed(plugin.folder), ANCHOR)
    try:
        for what, paths in (("command", manifest.commands), ("agent", manifest.agents)):
            rows += [_text(root, what, path, path) for path in paths]
        for path in manifest.skills:
            rows.append(_text(root, "skill", path, os.path.normpath(os.path.join(path, "SKILL.md"))))
    finally:
        os.close(root)
    programs = [path for path, value in plugin.files.items() if value.startswith(EXECUTABLE)]
    if programs:
        rows.append(_row("programs", f"{len(programs)} of {len(plugin.files)} files", programs))
    if manifest.unused:
        rows.append(_row("not used", "has no meaning here", list(manifest.unused)))
    return rows


def question(name: str, brought: list[Json]) -> str:
    """The question whether to trust the plugin, after the operator has seen its parts."""
    hooks = sum(row["what"] == "hook" for row in brought)
    what = "hook runs" if hooks == 1 else f"{hooks} hooks run"
    warning = f" Its {what} as you, outside of the sandbox." if hooks else ""
    return f"What {name} brings is used in every session from then on.{warning} Trust it? [y/N] "


def seen(value: Any) -> Any:
    """A value for display. Only secrets of one word are masked, so that a mask cannot hide a command."""
    match value:
        case str():
            return visible(WORD.sub(lambda word: Secrets().redact(word[0]), value), directions=False)
        case dict():
            return {seen(str(key)): seen(item) for key, item in cast(Json, value).items()}
        case list():
            return [seen(item) for item in cast(list[Any], value)]
        case _:
            return value


def lines(value: Any) -> list[str]:
    """A complete value for a person, with one line per key."""
    shown = seen(value)
    if isinstance(shown, dict):
        table = cast(Json, shown)
        return [f"{key}: {_words(item)}" for key, item in table.items() if item not in ("", [], {})]
    return [_words(shown)]


def _words(value: object) -> str:
    return value if isinstance(value, str) else canonical(value)


def _row(what: str, name: str, value: Any) -> Json:
    return {"what": what, "name": name, "value": value}


def _tools(plugin: Plugin) -> Iterator[Json]:
    for tool in plugin.manifest.tools:
        fields: Json = {"description": tool.description, "command": [tool.command, *tool.args], "schema": tool.schema}
        yield _row("tool", tool.name, {**fields, "timeout": tool.timeout})


def _hooks(manifest: "Manifest") -> Iterator[Json]:
    """The hooks as they will run, with the settings of their groups."""
    for entry in cast("list[Json]", hooks.normal(manifest.hooks).entries):
        named = " ".join(str(entry[key]) for key in ("hook_event_name", "matcher") if entry.get(key))
        yield _row(
            "hook", named, {key: item for key, item in entry.items() if key not in ("hook_event_name", "matcher")}
        )


def _servers(servers: Json) -> Iterator[Json]:
    for name, entry in servers.items():
        yield _row("MCP server", name, entry)


def _text(root: int, what: str, name: str, path: str) -> Json:
    """A Markdown file: its complete frontmatter, and whether it runs commands."""
    try:
        with open(opener()(root, path, READ), "rb") as file:
            data = file.read()
    except OSError as error:
        return _row(what, name, {"problem": f"cannot be read: {error.strerror}"})
    shown: Json = {}
    try:
        shown = dict(frontmatter.parse(data).fields)
    except frontmatter.Malformed as error:
        if what != "command":  # commands need no frontmatter
            shown["problem"] = str(error)
    if b"!`" in data or b"```!" in data:
        shown["runs"] = "lines marked by ! run when it is called"
    return _row(what, name, shown)
