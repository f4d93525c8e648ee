"""The installed plugins: what each contains, where it came from, and whether it is active."""

from typing import Any, TypedDict

from adderclaw.agent.queries import clean
from adderclaw.config import home
from adderclaw.config.plugins import installed, preview
from adderclaw.config.plugins.installed import Plugin
from adderclaw.core.types import Json


class Part(TypedDict):
    what: str
    """Its kind: command, agent, skill, hook, MCP server, tool."""
    name: str
    value: Any
    """What a person needs to know about it before trusting the plugin."""


class PluginRow(TypedDict):
    name: str
    version: str
    description: str
    state: str
    """enabled, disabled, changed, untrusted or broken."""
    sha256: str
    """The hash of all its files as they are now."""
    trusted_sha256: str
    """The hash of all its files when it was trusted; empty if it never was."""
    folder: str
    source: dict[str, Any]
    """Where it was installed from."""
    installed_at: str
    trusted_at: str
    brings: list[Part]
    unused: list[str]
    """Its contents that AdderClaw does not use."""
    problems: list[str]


def listed() -> list[PluginRow]:
    """The installed plugins, sorted by name."""
    return [row(plugin) for plugin in installed.known(home())]


def row(plugin: Plugin) -> PluginRow:
    entry = plugin.entry
    source: Any = entry.get("source")
    report: Json = {
        "name": plugin.name,
        "version": plugin.version,
        "description": plugin.description,
        "state": plugin.state,
        "sha256": plugin.sha256,
        "trusted_sha256": str(entry.get("sha256", "")),
        "folder": plugin.folder,
        "source": source if isinstance(source, dict) else {},
        "installed_at": str(entry.get("installed_at", "")),
        "trusted_at": str(entry.get("trusted_at", "")),
        "unused": list(plugin.manifest.unused),
        "problems": list(plugin.problems),
    }
    shown: Any = clean(report)
    shown["brings"] = [] if plugin.state == "broken" else preview.seen(preview.rows(plugin))
    return shown
