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


def offer(home: str, plugin: Plugin, origin: Json, before: Plugin | None = None) -> Offer:
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
        *(f"tools: {why}" for why in plugin_tools.clashes(plugin.manifest, others)),
        *plugin_tools.unusable(plugin.manifest),
    ]


def _warnings(plugin: Plugin) -> list[str]:
    from adderclaw.config import servers
    from adderclaw.config.foreign import hooks

    manifest = plugin.manifest
    found = [f"{key}: {message}" for key, message in hooks.normal(manifest.hooks).problems]
    return [*found, *(f"{key}: {message}" for key, message in servers.problems(manifest.mcp_servers))]


# ------------------------------------------------------------------ install


@contextmanager
def source(home: str, text: str) -> Generator[Source]:
    """What a path or an address stands for, fetched where it has to be; raises UsageError or AdderClawError."""
    where = sources.address(text)
    if where is None:
        yield sources.folder(text)
        return
    store = os.path.join(installed.folder(home), f"{folders.NEW}{secrets.token_hex(6)}")
    os.mkdir(store, 0o700)
    try:
        found = sources.Repository(where, store)
        found.fetch()
        yield found
    finally:
        folders.cleared(store)


def install(home: str, text: str, agree: Agree, *, wanted: str | None = None, upgrade: bool = False) -> Plugin | None:
    """Copy a plugin, show it, and let it count if the operator agrees; else nothing is left of it, and None."""
    with folders.held(home), source(home, text) as found:
        which = sources.chosen(found, wanted)
        with folders.copied(home, found, which.inside) as copy:
            _add_manifest(copy, which.manifest)
            inside = {} if which.inside == "." else {"folder": which.inside}
            origin = {**found.origin, **inside, **({"marketplace": which.marketplace} if which.marketplace else {})}
            fresh = installed.at(copy, _default_name(text, which.inside))
            before = installed.one(home, fresh.name)
            _refuse_second(home, fresh, before, upgrade=upgrade)
            said = offer(home, fresh, origin, before)
            if not agree(said):
                return None
            entry = _entry(fresh, origin)
            folders.put(home, fresh.name, copy, lambda: installed.record(home, fresh.name, entry))
    return installed.one(home, fresh.name)


def _add_manifest(copy: str, said: Json) -> None:
    """A plugin whose folder says nothing of itself gets what its marketplace says of it."""
    if said and not any(os.path.lexists(os.path.join(copy, name)) for name in (FOREIGN, OWN)):
        text = json.dumps(said, indent=2) + "\n"
        folders.add(copy, FOREIGN, text.encode("utf-8", "surrogatepass"))


def _default_name(text: str, inside: str) -> str:
    """A plugin that names itself nowhere is called as the folder that it comes from."""
    address, _, folder = text.partition("#")
    place = inside if inside != "." else folder or os.path.abspath(address)
    return os.path.basename(place.rstrip("/")).removesuffix(".git")


def _refuse_second(home: str, fresh: Plugin, before: Plugin | None, *, upgrade: bool) -> None:
    if before is not None and not upgrade:
        raise UsageError(f"the plugin {fresh.name!r} is there already; give --upgrade to put this one in its place")
    if before is None:
        folded = {plugin.name.lower(): plugin.name for plugin in installed.known(home)}
        if other := folded.get(fresh.name.lower()):
            raise UsageError(f"the plugin {fresh.name!r} differs from {other!r} by case alone: remove that one first")


def _entry(plugin: Plugin, origin: Json, before: Json | None = None) -> Json:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    kept: Json = {"installed_at": now} if before is None or "installed_at" not in before else before
    known: Json = {"version": plugin.version, "sha256": plugin.sha256, "files": plugin.files}
    return {**kept, **known, "enabled": True, "trusted_at": now, "source": origin}


# ------------------------------------------------------------------ what is installed


def found(home: str, name: str) -> Plugin:
    """A plugin by its name; raises UsageError where there is none."""
    plugin = installed.one(home, name)
    if plugin is None:
        names = [known.name for known in installed.known(home)]
        hint = did_you_mean(name, names) or (f"; there is: {', '.join(names)}" if names else "; none is installed")
        raise UsageError(f"there is no plugin {name!r}{hint}")
    return plugin


def enable(home: str, name: str, agree: Agree) -> bool:
    """Let a plugin count. One that is not as it was trusted, or never was, is shown first; whether it counts now."""
    with folders.held(home):
        plugin = found(home, name)
        origin: Json = plugin.entry.get("source") or {"kind": "by hand", "path": plugin.folder}
        if plugin.state in ("enabled", "disabled"):
            offer(home, plugin, origin)  # the names of its tools may be taken since
            installed.record(home, name, {**plugin.entry, "enabled": True})
            return True
        said = offer(home, plugin, origin)
        if not agree(said):
            return False
        installed.record(home, name, _entry(plugin, origin, plugin.entry))
    return True


def disable(home: str, name: str) -> None:
    with folders.held(home):
        plugin = found(home, name)
        if plugin.entry:
            installed.record(home, name, {**plugin.entry, "enabled": False})


def remove(home: str, name: str, forget: Callable[[Plugin], None]) -> None:
    """Remove a plugin: its folder, and what the registry holds of it. `forget` is called for what else it left."""
    with folders.held(home):
        plugin = found(home, name)
        gone = os.path.join(installed.folder(home), f"{folders.NEW}{secrets.token_hex(6)}")
        if os.path.lexists(plugin.folder):
            os.rename(plugin.folder, gone)
        installed.record(home, name, None)
        folders.cleared(gone)
        forget(plugin)


def has_data(home: str, name: str) -> bool:
    try:
        return bool(os.listdir(installed.data_folder(home, name)))
    except OSError:
        return False
