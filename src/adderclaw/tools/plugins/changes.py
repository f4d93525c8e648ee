"""What the operator does with plugins: install, trust, enable, disable, remove. Nothing of a plugin runs by it."""

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
    """What the operator is shown before they trust a plugin."""

    plugin: Plugin
    rows: list[Json]
    """What it brings: `{what, name, value}`."""
    changed: list[str]
    """What is different from what was trusted before: `+` new, `-` gone, `~` changed."""
    warnings: list[str]
    """What of it could not be used here."""
    origin: Json
    """Where it comes from."""


type Agree = Callable[[Offer], bool]
"""Asks whoever may say so; raises NeedsInput where nobody can be asked."""


def build_offer(home: str, plugin: Plugin, origin: Json, before: Plugin | None = None) -> Offer:
    """What there is to be shown; raises ConfigError with everything that keeps the plugin from being trusted."""
    problems = list(plugin.problems) if plugin.state == "broken" else []
    if plugin.sha256:
        problems += _more_problems(home, plugin)
    if problems:
        raise ConfigError([Problem(plugin.name, "", problem) for problem in problems])
    files: dict[str, str] = (before or plugin).entry.get("files") or {}
    marks = changes(files, plugin.files) if files else []
    return Offer(plugin, preview.rows(plugin), marks, _warnings(plugin), origin)


def _more_problems(home: str, plugin: Plugin) -> list[str]:
    """What is looked for only when a plugin is to be trusted: names that are taken, schemas that are none."""
    if not plugin.manifest.tools:
        return []
    from adderclaw.tools.plugins import plugin_tools as plugin_tools

    others = [other.manifest for other in installed.enabled(home) if other.name != plugin.name]
    return [
        *(f"tools: {why}" for why in plugin_tools.name_clashes(plugin.manifest, others)),
        *plugin_tools.unusable_schemas(plugin.manifest),
    ]


def _warnings(plugin: Plugin) -> list[str]:
    from adderclaw.config import servers
    from adderclaw.config.foreign import hooks

    manifest = plugin.manifest
    messages = [f"{key}: {message}" for key, message in hooks.normal(manifest.hooks).problems]
    return [*messages, *(f"{key}: {message}" for key, message in servers.problems(manifest.mcp_servers))]


# ------------------------------------------------------------------ install


@contextmanager
def open_source(home: str, text: str) -> Generator[Source]:
    """What a path or an address stands for, fetched where it has to be; raises UsageError or AdderClawError."""
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
    """Copy a plugin, show it, and let it count if the operator agrees; else nothing is left of it, and None."""
    with folders.plugins_locked(home), open_source(home, text) as fetched:
        which = sources.choose_plugin(fetched, wanted)
        with folders.temporary_copy(home, fetched, which.inside) as copy:
            _add_manifest(copy, which.manifest)
            inside = {} if which.inside == "." else {"folder": which.inside}
            origin = {**fetched.origin, **inside, **({"marketplace": which.marketplace} if which.marketplace else {})}
            fresh = installed.at(copy, _default_name(text, which.inside))
            before = installed.one(home, fresh.name)
            _require_new_name(home, fresh, before, upgrade=upgrade)
            shown_offer = build_offer(home, fresh, origin, before)
            if not agree(shown_offer):
                return None
            entry = _registry_entry(fresh, origin)
            folders.replace_plugin(home, fresh.name, copy, lambda: installed.record(home, fresh.name, entry))
    return installed.one(home, fresh.name)


def _add_manifest(copy: str, description: Json) -> None:
    """A plugin whose folder says nothing of itself gets what its marketplace says of it."""
    if description and not any(os.path.lexists(os.path.join(copy, name)) for name in (FOREIGN, OWN)):
        text = json.dumps(description, indent=2) + "\n"
        folders.add_file(copy, FOREIGN, text.encode("utf-8", "surrogatepass"))


def _default_name(text: str, inside: str) -> str:
    """A plugin that names itself nowhere is called as the folder that it comes from."""
    address, _, folder = text.partition("#")
    path = inside if inside != "." else folder or os.path.abspath(address)
    return os.path.basename(path.rstrip("/")).removesuffix(".git")


def _require_new_name(home: str, fresh: Plugin, before: Plugin | None, *, upgrade: bool) -> None:
    if before is not None and not upgrade:
        raise UsageError(f"the plugin {fresh.name!r} is there already; give --upgrade to put this one in its place")
    if before is None:
        folded = {plugin.name.lower(): plugin.name for plugin in installed.known(home)}
        if other := folded.get(fresh.name.lower()):
            raise UsageError(f"the plugin {fresh.name!r} differs from {other!r} by case alone: remove that one first")


def _registry_entry(plugin: Plugin, origin: Json, before: Json | None = None) -> Json:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    earlier: Json = {"installed_at": now} if before is None or "installed_at" not in before else before
    known: Json = {"version": plugin.version, "sha256": plugin.sha256, "files": plugin.files}
    return {**earlier, **known, "enabled": True, "trusted_at": now, "source": origin}


# ------------------------------------------------------------------ what is installed


def find_plugin(home: str, name: str) -> Plugin:
    """A plugin by its name; raises UsageError where there is none."""
    plugin = installed.one(home, name)
    if plugin is None:
        names = [known.name for known in installed.known(home)]
        hint = did_you_mean(name, names) or (f"; there is: {', '.join(names)}" if names else "; none is installed")
        raise UsageError(f"there is no plugin {name!r}{hint}")
    return plugin


def enable_plugin(home: str, name: str, agree: Agree) -> bool:
    """Let a plugin count. One that is not as it was trusted, or never was, is shown first; whether it counts now."""
    with folders.plugins_locked(home):
        plugin = find_plugin(home, name)
        origin: Json = plugin.entry.get("source") or {"kind": "by hand", "path": plugin.folder}
        if plugin.state in ("enabled", "disabled"):
            build_offer(home, plugin, origin)  # the names of its tools may be taken since
            installed.record(home, name, {**plugin.entry, "enabled": True})
            return True
        shown_offer = build_offer(home, plugin, origin)
        if not agree(shown_offer):
            return False
        installed.record(home, name, _registry_entry(plugin, origin, plugin.entry))
    return True


def disable_plugin(home: str, name: str) -> None:
    with folders.plugins_locked(home):
        plugin = find_plugin(home, name)
        if plugin.entry:
            installed.record(home, name, {**plugin.entry, "enabled": False})


def remove_plugin(home: str, name: str, forget: Callable[[Plugin], None]) -> None:
    """Remove a plugin: its folder, and what the registry holds of it. `forget` is called for what else it left."""
    with folders.plugins_locked(home):
        plugin = find_plugin(home, name)
        gone = os.path.join(installed.folder(home), f"{folders.NEW_PREFIX}{secrets.token_hex(6)}")
        if os.path.lexists(plugin.folder):
            os.rename(plugin.folder, gone)
        installed.record(home, name, None)
        folders.remove_folder(gone)
        forget(plugin)


def has_data(home: str, name: str) -> bool:
    try:
        return bool(os.listdir(installed.data_folder(home, name)))
    except OSError:
        return False
