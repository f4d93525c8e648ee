"""The plugins of a session, and what each brings to the parts that exist: skills, agents, hooks, MCP servers."""

import asyncio
import hashlib
import os
import shutil
from collections.abc import Iterator
from functools import cached_property
from typing import Any, cast

from adderclaw.agent.run.start import Runtime
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
from adderclaw.storage import Store
from adderclaw.tools.skills.catalogue import SkillFolder

LONGEST = 40
"""Characters in the name of a server."""
COMMANDS = "commands/"
NOT_ALLOWED = "the administrator of this machine has not allowed its content"


class SessionPlugins:
    """Those that count, looked at when the session begins, and those of which nothing counts."""

    def __init__(
        self,
        home: str,
        named: tuple[str, ...] = (),
        *,
        without_servers: tuple[str, ...] = (),
        installed: bool = True,
        allowed: list[str] | None = None,
    ) -> None:
        """`named`: the folders of `--plugin-dir`, which go before what is installed by the same name.

        `allowed`: the hashes that an administrator lets count, if not all do.
        """
        by_name = {plugin.name: plugin for plugin in map(_at, named)}
        self._without_servers = {followed(os.path.abspath(os.path.expanduser(folder))) for folder in without_servers}
        known = plugins.enabled(home) if installed else ()
        others = [plugin for plugin in known if plugin.name not in by_name]
        self.held = tuple(plugin for plugin in others if plugin.state != "enabled")
        """Enabled, and not as they were trusted, or broken by now."""
        counting = [LoadedPlugin(plugin, home) for plugin in others if plugin.state == "enabled"]
        counting += [LoadedPlugin(plugin, home, named=True) for plugin in by_name.values()]
        self._notes: list[str] = []
        others = [plugin for plugin in counting if allowed is not None and plugin.plugin.sha256 not in allowed]
        counting = [plugin for plugin in counting if plugin not in others]
        self.refused = [
            f"plugin {excluded.name}: nothing of it is used: {NOT_ALLOWED} ({excluded.plugin.sha256})"
            for excluded in others
        ]
        self.loaded = tuple(sorted(counting, key=lambda plugin: plugin.name))
        self.by_name = {plugin.name: plugin for plugin in self.loaded}

    @property
    def notes(self) -> tuple[str, ...]:
        """What of them has no effect, and why."""
        for plugin in self.loaded:
            if plugin.manifest.unused:
                self._note(plugin, f"these have no effect here: {', '.join(plugin.manifest.unused)[:300]}")
        _ = self.hooks, self.servers
        return tuple(dict.fromkeys(self._notes))

    def _note(self, plugin: LoadedPlugin, text: str) -> None:
        self._notes.append(f"plugin {plugin.name}: {text}")

    # ------------------------------------------------------------------ what they bring

    def places(self) -> Iterator[SkillFolder]:
        """Their skills and commands, for the one catalogue."""
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
        """Each with its hooks, as flat entries that name the file they are from."""
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
                self._note(plugin, f"hooks: {entry['name']!r} names a program of yours; a plugin brings its own")
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
                    self._note(plugin, f"mcpServers.{server_key}: it is no name, or that of another server")
                elif not server.disabled:
                    by_name[name] = Entry(
                        name, f"{plugin.name}:{server_key}", server, plugin.scope, changed=plugin.changed
                    )
        return tuple(by_name.values())

    def roots(self) -> tuple[str, ...]:
        """Their folders: commands in the sandbox may read them."""
        return tuple(plugin.root for plugin in self.loaded)

    def as_json(self) -> list[Json]:
        """What a run's rows say of them."""
        return [
            {"name": plugin.name, "version": plugin.plugin.version, "sha256": plugin.plugin.sha256, "path": plugin.root}
            for plugin in self.loaded
        ]

    def tell(self, bus: Bus) -> None:
        """A session begins with them."""
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
    """How many parts of each kind a plugin brings."""
    kinds = ("commands", "agents", "skills", "hooks", "mcp_servers", "tools")
    return {kind: len(getattr(manifest, kind)) for kind in kinds} | {"hooks": len(hooks.normal(manifest.hooks).entries)}


def why_held(plugin: Plugin) -> str:
    if plugin.state == "changed":
        return CHANGED.format(name=plugin.name)
    return f"the plugin {plugin.name} cannot be used: {'; '.join(plugin.problems)[:500] or plugin.state}"


def _at(folder: str) -> Plugin:
    """A plugin by its folder: the operator's own word for one session."""
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
    """`plugin_PLUGIN_SERVER`, as it stands in the names of its tools; a long one ends with a part of its hash."""
    whole = f"plugin_{plugin}_{server}"
    name = slug(whole)
    if len(name) < LONGEST:
        return name
    return f"{name[: LONGEST - 7].rstrip('_')}-{hashlib.sha256(whole.encode()).hexdigest()[:6]}"


def _filled(plugin: LoadedPlugin, table: Json) -> Json:
    """An entry with the plugin's places filled in, which then sees the plugin's folder."""

    def fill(value: Any) -> Any:
        if isinstance(value, str):
            return plugin.filled(value)
        if isinstance(value, list):
            return [fill(item) for item in cast(list[Any], value)]
        if isinstance(value, dict):
            return {key: fill(item) for key, item in cast(Json, value).items()}
        return value

    entry: Json = fill(table)
    entry.pop("reads", None)  # it sees its own folder, and what is shown to all
    if "command" in entry:
        variables = {
            f"{who}_{name}": path for name, path in plugin.variables().items() for who in ("CLAUDE", "ADDERCLAW")
        }
        entry["env"] = {**variables, **cast(Json, entry.get("env") or {})}
        entry["reads"] = [plugin.root]
    return entry


def forget(runtime: Runtime, name: str, servers: Json, *, keep_data: bool = False) -> list[str]:
    """Forget a plugin that is removed, and say what was forgotten; `servers` are the entries that it brought."""
    scope = f"plugin:{name}"
    remote = [server_name(name, server) for server, entry in servers.items() if "url" in entry]
    done: list[str] = []
    if Store.exists(runtime.config.memory.path):
        store = Store.open(runtime.config.memory.path)
        try:
            with store.write() as cursor:
                cursor.execute("DELETE FROM mcp_pins WHERE scope = ?", (scope,))
                if cursor.rowcount:
                    done.append("what was approved of its MCP servers")
        finally:
            store.close()
    if remote and asyncio.run(_logged_out(runtime, scope, remote)):
        done.append("its logins")
    data = installed.data_folder(runtime.home, name)
    if os.path.isdir(data) and not os.path.islink(data) and not keep_data:
        shutil.rmtree(data)
        done.append("its data")
    if os.path.isdir(above := os.path.dirname(data)) and not os.listdir(above):
        os.rmdir(above)
    return done


async def _logged_out(runtime: Runtime, scope: str, servers: list[str]) -> bool:
    logins = runtime.credentials.logins()
    removed = [await logins.forget(f"mcp:{scope}:{server}") for server in servers]
    return any(removed)
