"""Installs, enables, disables and removes plugins for the operator. None of this runs a plugin's code."""

import json
import os
import secrets
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from adderclaw.config.plugins import installed, preview
from adderclaw.config.plugins.installed import Plugin
from adderclaw.config.plugins.manifest import FOREIGN, OWN
from adderclaw.config.plugins.tree import changes
from adderclaw.core.errors import ConfigError, Problem, UsageError
from adderclaw.core.record import NamedTuple
from adderclaw.core.suggestions import did_you_mean
from adderclaw.core.types import Json
from adderclaw.tools.plugins import folders, sources
from adderclaw.tools.plugins.folders import Source


class Offer(NamedTuple):
    """A plugin as shown to the operator before they trust it."""

    plugin: Plugin
    rows: list[Json]
    """Its parts: `{what, name, value}`."""
    changed: list[str]
    """Differences from the version trusted before: `+` new, `-` removed, `~` changed."""
    warnings: list[str]
    """Parts of it that cannot be used here."""
    origin: Json
    """Where it comes from."""


type Agree = Callable[[Offer], bool]
"""Asks the operator; raises NeedsInput if nobody can be asked."""


def build_offer(home: str, plugin: Plugin, origin: Json, before: Plugin | None = None) -> Offer:
    """Checks a plugin and describes it; raises ConfigError with every reason why it cannot be trusted."""
    problems = list(plugin.problems) if plugin.state == "broken" else []
    if plugin.sha256 and plugin.manifest.tools:
        from adderclaw.tools.plugins import plugin_tools

        others = [other.manifest for other in installed.enabled(home) if other.name != plugin.name]
        problems += [f"tools: {why}" for why in plugin_tools.name_clashes(plugin.manifest, others)]
        problems += plugin_tools.unusable_schemas(plugin.manifest)
    if problems:
        raise ConfigError([Problem(plugin.name, "", problem) for problem in problems])
    files: dict[str, str] = (before or plugin).entry.get("files") or {}
    marks = changes(files, plugin.files) if files else []
    return Offer(plugin, preview.rows(plugin), marks, _warnings(plugin), origin)


def _warnings(plugin: Plugin) -> list[str]:
    from adderclaw.config import servers
    from adderclaw.config.foreign import hooks

    manifest = plugin.manifest
    messages = [f"{key}: {message}" for key, message in hooks.normal(manifest.hooks).problems]
    return [*messages, *(f"{key}: {message}" for key, message in servers.problems(manifest.mcp_servers))]


# ------------------------------------------------------------------ install


@contextmanager
def open_source(home: str, text: str) -> Generator[Source]:
    """Opens a folder, or fetches a repository; raises UsageError or AdderClawError."""
    where = sources.parse_address(text)
    if where is None:
        yield sources.folder_source(text)
        return
    store = os.path.join(installed.folder(home), f"{folders.NEW_PREFIX}{secrets.token_hex(6)}")
    os.mkdir(store, 0o700)
    try:
        repository = sources.Repository(where, store)
        repository.fetch()
        yield repository
    finally:
        folders.remove_folder(store)


def install_plugin(
    home: str, text: str, agree: Agree, *, wanted: str | None = None, upgrade: bool = False
) -> Plugin | None:
    """Copies a plugin, shows it, and installs it if the operator agrees; otherwise removes the copy, returns None."""
    with folders.plugins_locked(home), open_source(home, text) as fetched:
        which = sources.choose_plugin(fetched, wanted)
        with folders.temporary_copy(home, fetched, which.inside) as copy:
            _add_manifest(copy, which.manifest)
            inside = {} if which.inside == "." else {"folder": which.inside}
            origin = {**fetched.origin, **inside, **({"marketplace": which.marketplace} if which.marketplace else {})}
            fresh = installed.at(copy, _default_name(text, which.inside))
            before = installed.one(home, fresh.name)
            if before is not None and not upgrade:
                raise UsageError(f"the plugin {fresh.name!r} is already installed; use --upgrade to replace it")
            if before is None:
                folded = {plugin.name.lower(): plugin.name for plugin in installed.known(home)}
                if other := folded.get(fresh.name.lower()):
                    raise UsageError(f"the plugin {fresh.name!r} differs from {other!r} only in case; remove it first")
            if not agree(build_offer(home, fresh, origin, before)):
                return None
            entry = _registry_entry(fresh, origin)
            folders.replace_plugin(home, fresh.name, copy, lambda: installed.record(home, fresh.name, entry))
    return installed.one(home, fresh.name)


def _add_manifest(copy: str, description: Json) -> None:
    """Writes the marketplace's description as the manifest of a plugin that has none."""
    if description and not any(os.path.lexists(os.path.join(copy, name)) for name in (FOREIGN, OWN)):
        text = json.dumps(description, indent=2) + "\n"
        folders.add_file(copy, FOREIGN, text.encode("utf-8", "surrogatepass"))


def _default_name(text: str, inside: str) -> str:
    """The name of a plugin whose manifest names none: that of its folder."""
    address, _, folder = text.partition("#")
    path = inside if inside != "." else folder or os.path.abspath(address)
    return os.path.basename(path.rstrip("/")).removesuffix(".git")


def _registry_entry(plugin: Plugin, origin: Json, before: Json | None = None) -> Json:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    earlier: Json = {"installed_at": now} if before is None or "installed_at" not in before else before
    known: Json = {"version": plugin.version, "sha256": plugin.sha256, "files": plugin.files}
    return {**earlier, **known, "enabled": True, "trusted_at": now, "source": origin}


# ------------------------------------------------------------------ installed plugins


def find_plugin(home: str, name: str) -> Plugin:
    """The installed plugin called `name`; raises UsageError if there is none."""
    plugin = installed.one(home, name)
    if plugin is None:
        names = [known.name for known in installed.known(home)]
        hint = did_you_mean(name, names) or (f"; installed: {', '.join(names)}" if names else "; none is installed")
        raise UsageError(f"there is no plugin {name!r}{hint}")
    return plugin


def enable_plugin(home: str, name: str, agree: Agree) -> bool:
    """Enables a plugin and returns True. If it changed or was never trusted, asks the operator first."""
    with folders.plugins_locked(home):
        plugin = find_plugin(home, name)
        origin: Json = plugin.entry.get("source") or {"kind": "by hand", "path": plugin.folder}
        if plugin.state in ("enabled", "disabled"):
            build_offer(home, plugin, origin)  # another plugin may have taken the names of its tools
            installed.record(home, name, {**plugin.entry, "enabled": True})
            return True
        if not agree(build_offer(home, plugin, origin)):
            return False
        installed.record(home, name, _registry_entry(plugin, origin, plugin.entry))
    return True


def disable_plugin(home: str, name: str) -> None:
    with folders.plugins_locked(home):
        plugin = find_plugin(home, name)
        if plugin.entry:
            installed.record(home, name, {**plugin.entry, "enabled": False})


def remove_plugin(home: str, name: str, forget: Callable[[Plugin], None]) -> None:
    """Removes a plugin's folder and its registry entry, then calls `forget` to remove what else it left behind."""
    with folders.plugins_locked(home):
        plugin = find_plugin(home, name)
        removed = os.path.join(installed.folder(home), f"{folders.NEW_PREFIX}{secrets.token_hex(6)}")
        if os.path.lexists(plugin.folder):
            os.rename(plugin.folder, removed)
        installed.record(home, name, None)
        folders.remove_folder(removed)
        forget(plugin)


def has_data(home: str, name: str) -> bool:
    try:
        return bool(os.listdir(installed.data_folder(home, name)))
    except OSError:
        return False
