"""The plugins of a session, and their skills, agents, hooks and MCP servers; forgets the traces of a removed plugin."""

import asyncio
import hashlib
import os
import shutil
from collections.abc import Iterator
from functools import cached_property
from typing import Any, cast

from adderclaw.config import servers
from adderclaw.config.foreign import hooks
from adderclaw.config.paths import followed
from adderclaw.config.plugins import installed
from adderclaw.config.plugins import installed as plugins
from adderclaw.config.plugins.installed import Plugin
from adderclaw.config.plugins.loaded_plugin import CHANGED, LoadedPlugin
from adderclaw.config.plugins.manifest import Manifest
from adderclaw.config.servers import Entry, slug
from adderclaw.core.decode import Invalid
from adderclaw.core.errors import ConfigError, UsageError
from adderclaw.core.events import Bus
from adderclaw.core.types import Json
from adderclaw.models.credentials.sources import Sources
from adderclaw.storage import Store
from adderclaw.tools.skills.catalogue import SkillFolder

LONGEST = 40
"""Maximum characters in the name of a server."""
COMMANDS = "commands/"
NOT_ALLOWED = "the administrator of this machine has not allowed its content"


class SessionPlugins:
    """The active plugins, checked when the session begins, and those that are held back."""

    def __init__(
        self,
        home: str,
        named: tuple[str, ...] = (),
        *,
        without_servers: tuple[str, ...] = (),
        installed: bool = True,
        allowed: list[str] | None = None,
    ) -> None:
        """`named`: the folders of `--plugin-dir`, which override installed plugins of the same name.

        `allowed`: the hashes of the plugins that an administrator allows; None: all.
        """
        by_name = {plugin.name: plugin for plugin in map(_at, named)}
        self._without_servers = {followed(os.path.abspath(os.path.expanduser(folder))) for folder in without_servers}
        known = plugins.enabled(home) if installed else ()
        others = [plugin for plugin in known if plugin.name not in by_name]
        self.held = tuple(plugin for plugin in others if plugin.state != "enabled")
        """Plugins that are enabled, but broken or changed since they were trusted."""
        counting = [LoadedPlugin(plugin, home) for plugin in others if plugin.state == "enabled"]
        counting += [LoadedPlugin(plugin, home, named=True) for plugin in by_name.values()]
        self._notes: list[str] = []
        others = [plugin for plugin in counting if allowed is not None and plugin.plugin.sha256 not in allowed]
        counting = [plugin for plugin in counting if plugin not in others]
        self.refused = [
            f"plugin {excluded.name} is not used: {NOT_ALLOWED} ({excluded.plugin.sha256})" for excluded in others
        ]
        self.loaded = tuple(sorted(counting, key=lambda plugin: plugin.name))
        self.by_name = {plugin.name: plugin for plugin in self.loaded}

    @property
    def notes(self) -> tuple[str, ...]:
        """Parts of the plugins that have no effect, and why."""
        for plugin in self.loaded:
            if plugin.manifest.unused:
                self._note(plugin, f"these have no effect here: {', '.join(plugin.manifest.unused)[:300]}")
        _ = self.hooks, self.servers
        return tuple(dict.fromkeys(self._notes))

    def _note(self, plugin: LoadedPlugin, text: str) -> None:
        self._notes.append(f"plugin {plugin.name}: {text}")

    # ------------------------------------------------------------------ their parts

    def places(self) -> Iterator[SkillFolder]:
        """The folders of their skills and commands, for the catalogue."""
        for plugin in self.loaded:
            for way in plugin.manifest.skills:
                folder = os.path.normpath(os.path.join(plugin.root, way))
                yield SkillFolder(folder, "plugin", plugin.root, prefix=plugin.name)
            for way in plugin.manifest.commands:
                above = os.path.dirname(way.removeprefix(COMMANDS)) if way.startswith(COMMANDS) else ""
                prefix = ":".join((plugin.name, *filter(None, above.split("/"))))
                yield SkillFolder(os.path.join(plugin.root, way), "plugin", plugin.root, commands=True, prefix=prefix)

    @cached_property
    def hooks(self) -> tuple[tuple[LoadedPlugin, tuple[Json, ...]], ...]:
        """Each plugin with its hooks, as flat entries that name their source file."""
        by_plugin = [(plugin, tuple(self._hooks_of(plugin))) for plugin in self.loaded]
        return tuple((plugin, entries) for plugin, entries in by_plugin if entries)

    def _hooks_of(self, plugin: LoadedPlugin) -> Iterator[Json]:
        if not plugin.manifest.hooks:
            return
        normal = hooks.normal(plugin.manifest.hooks)
        for key, message in normal.problems:
            self._note(plugin, f"{key}: {message}")
        for warning in normal.warnings:
            self._note(plugin, warning)
        for entry in cast("list[Json]", normal.entries):
            if "name" in entry and not entry.get("command"):
                self._note(
                    plugin, f"hooks: {entry['name']!r} names one of your programs; a plugin must contain its own"
                )
                continue
            own = {"source": os.path.join(plugin.root, "hooks", "hooks.json")}
            if entry.get("type") == "mcp_tool" and entry.get("server") in plugin.manifest.mcp_servers:
                own["server"] = server_name(plugin.name, str(entry["server"]))
            yield {**entry, **own}

    @cached_property
    def servers(self) -> tuple[Entry, ...]:
        by_name: dict[str, Entry] = {}
        for plugin in self.loaded:
            if plugin.named and plugin.root in self._without_servers:
                continue
            for server_key, table in plugin.manifest.mcp_servers.items():
                try:
                    server = servers.parse_server(_filled(plugin, table))
                except Invalid as error:
                    self._note(plugin, f"mcpServers.{server_key}: {error}")
                    continue
                name = server_name(plugin.name, server_key)
                if not slug(server_key) or name in by_name:
                    self._note(plugin, f"mcpServers.{server_key}: not a valid name, or another server has it")
                elif not server.disabled:
                    by_name[name] = Entry(
                        name, f"{plugin.name}:{server_key}", server, plugin.scope, changed=plugin.changed
                    )
        return tuple(by_name.values())

    def roots(self) -> tuple[str, ...]:
        """Their folders, which commands in the sandbox may read."""
        return tuple(plugin.root for plugin in self.loaded)

    def as_json(self) -> list[Json]:
        """The plugins as recorded in a run's rows."""
        return [
            {"name": plugin.name, "version": plugin.plugin.version, "sha256": plugin.plugin.sha256, "path": plugin.root}
            for plugin in self.loaded
        ]

    def tell(self, bus: Bus) -> None:
        """Publish events about them when a session begins."""
        for plugin in self.loaded:
            brings = {kind: count for kind, count in counted(plugin.manifest).items() if count}
            known = {"plugin": plugin.name, "version": plugin.plugin.version, "sha256": plugin.plugin.sha256}
            bus.publish({"event_type": "plugin_loaded", "brings": brings, **known})  # pyright: ignore[reportArgumentType]
        for plugin in self.held:
            state = "changed" if plugin.state == "changed" else "broken"
            bus.publish(
                {"event_type": "plugin_held", "plugin": plugin.name, "state": state, "reason": why_held(plugin)}
            )
        for note in self.notes:
            bus.publish({"event_type": "warning", "message": note})

    def errors(self) -> list[Json]:
        return [{"plugin": plugin.name, "type": plugin.state, "message": why_held(plugin)} for plugin in self.held]


def counted(manifest: Manifest) -> dict[str, int]:
    """The number of parts of each kind in a plugin."""
    kinds = ("commands", "agents", "skills", "hooks", "mcp_servers", "tools")
    return {kind: len(getattr(manifest, kind)) for kind in kinds} | {"hooks": len(hooks.normal(manifest.hooks).entries)}


def why_held(plugin: Plugin) -> str:
    if plugin.state == "changed":
        return CHANGED.format(name=plugin.name)
    return f"the plugin {plugin.name} cannot be used: {'; '.join(plugin.problems)[:500] or plugin.state}"


def _at(folder: str) -> Plugin:
    """The plugin in a folder that the operator named for this session."""
    from adderclaw.config.plugins import manifest as plugin_manifest
    from adderclaw.config.plugins import tree as plugin_tree

    path = os.path.abspath(os.path.expanduser(folder))
    try:
        tree = plugin_tree.survey(path)
    except ConfigError as error:
        raise UsageError(f"--plugin-dir: {'; '.join(map(str, error.problems))}") from None
    manifest, problems = plugin_manifest.read(tree, os.path.basename(path))
    if problems:
        raise UsageError(f"--plugin-dir {folder}: {'; '.join(problems)}")
    return Plugin(
        manifest.name, manifest.version, manifest.description, path, tree.sha256, "enabled", manifest, files=tree.files
    )


def server_name(plugin: str, server: str) -> str:
    """`plugin_PLUGIN_SERVER`, as in the names of its tools; a long name is cut and ends with a part of its hash."""
    whole = f"plugin_{plugin}_{server}"
    name = slug(whole)
    if len(name) < LONGEST:
        return name
    return f"{name[: LONGEST - 7].rstrip('_')}-{hashlib.sha256(whole.encode()).hexdigest()[:6]}"


def _filled(plugin: LoadedPlugin, table: Json) -> Json:
    """A server entry with the plugin's variables filled in and read access to the plugin's folder."""

    def fill(value: Any) -> Any:
        if isinstance(value, str):
            return plugin.filled(value)
        if isinstance(value, list):
            return [fill(item) for item in cast(list[Any], value)]
        if isinstance(value, dict):
            return {key: fill(item) for key, item in cast(Json, value).items()}
        return value

    entry: Json = fill(table)
    entry.pop("reads", None)  # it can read only its own folder, and what all commands can
    if "command" in entry:
        variables = {
            f"{who}_{name}": path for name, path in plugin.variables().items() for who in ("CLAUDE", "ADDERCLAW")
        }
        entry["env"] = {**variables, **cast(Json, entry.get("env") or {})}
        entry["reads"] = [plugin.root]
    return entry


def forget(
    home: str, store_path: str, credentials: Sources, name: str, servers: Json, *, keep_data: bool = False
) -> list[str]:
    """Remove the traces of a removed plugin, and return their names. `servers`: its MCP servers."""
    scope = f"plugin:{name}"
    remote = [server_name(name, server) for server, entry in servers.items() if "url" in entry]
    done: list[str] = []
    if Store.exists(store_path):
        store = Store.open(store_path)
        try:
            with store.write() as cursor:
                cursor.execute("DELETE FROM mcp_pins WHERE scope = ?", (scope,))
                if cursor.rowcount:
                    done.append("the approvals of its MCP servers")
        finally:
            store.close()
    if remote and asyncio.run(_logged_out(credentials, scope, remote)):
        done.append("its logins")
    data = installed.data_folder(home, name)
    if os.path.isdir(data) and not os.path.islink(data) and not keep_data:
        shutil.rmtree(data)
        done.append("its data")
    if os.path.isdir(above := os.path.dirname(data)) and not os.listdir(above):
        os.rmdir(above)
    return done


async def _logged_out(credentials: Sources, scope: str, servers: list[str]) -> bool:
    logins = credentials.logins()
    removed = [await logins.forget(f"mcp:{scope}:{server}") for server in servers]
    return any(removed)
