"""Which plugins are installed, which of them the operator trusts, and whether they changed since.

A plugin is a folder in `~/.adderclaw/plugins/`; the operator's decision about it is in `~/.adderclaw/plugins.json`.
If any of its files changes by a byte, the plugin is inactive until the operator has reviewed it.
"""

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, cast

from adderclaw.core import home_names
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json

if TYPE_CHECKING:
    from adderclaw.config.plugins.manifest import Manifest, PluginTool

    __all__ = ["Manifest", "Plugin", "PluginTool"]

type State = Literal["enabled", "disabled", "changed", "untrusted", "broken"]
TEMPORARY = "."
"""Prefix of the folder of an unfinished installation."""


class Plugin(NamedTuple):
    name: str
    version: str
    description: str
    folder: str
    sha256: str
    """Hash of all its current files; empty if it cannot be computed."""
    state: State
    manifest: "Manifest"
    problems: tuple[str, ...] = ()
    """What is wrong with the plugin, and what changed since it was trusted."""
    files: dict[str, str] = {}  # noqa: RUF012 - never changed
    """Path inside the folder → current hash."""
    entry: Json = {}  # noqa: RUF012 - never changed
    """The plugin's entry in the registry."""


def place(home: str) -> str:
    """The path of the registry, a file of the operator."""
    return os.path.join(home, home_names.PLUGINS_FILE)


def folder(home: str, name: str = "") -> str:
    return os.path.join(home, home_names.PLUGINS, name) if name else os.path.join(home, home_names.PLUGINS)


def data_folder(home: str, name: str) -> str:
    """The folder for a plugin's persistent data."""
    return os.path.join(home, home_names.PLUGIN_DATA, name)


def active(home: str) -> tuple[Plugin, ...]:
    """The active plugins: enabled and unchanged since they were trusted, sorted by name."""
    return tuple(plugin for plugin in enabled(home) if plugin.state == "enabled")


def enabled(home: str) -> tuple[Plugin, ...]:
    """The enabled plugins, including those that changed and are inactive, sorted by name."""
    entries = registry(home)
    names = sorted(name for name, entry in entries.items() if entry.get("enabled") is True)
    return tuple(_load_plugin(home, name, entries[name]) for name in names)


def known(home: str) -> tuple[Plugin, ...]:
    """Every plugin that is in the registry or in the folder of plugins, sorted by name."""
    entries = registry(home)
    return tuple(_load_plugin(home, name, entries.get(name)) for name in sorted({*entries, *_present(home)}))


def one(home: str, name: str) -> Plugin | None:
    entry = registry(home).get(name)
    if entry is None and name not in _present(home):
        return None
    return _load_plugin(home, name, entry)


def _present(home: str) -> list[str]:
    try:
        with os.scandir(folder(home)) as entries:
            return [
                entry.name
                for entry in entries
                if not entry.name.startswith(TEMPORARY) and (entry.is_dir() or entry.is_symlink())
            ]
    except OSError:
        return []


def _load_plugin(home: str, name: str, entry: Json | None) -> Plugin:
    """Load a plugin in its current state."""
    from adderclaw.config.plugins import manifest as plugin_manifest

    path, entry = folder(home, name), entry or {}
    wrong = ""
    if not plugin_manifest.NAME.fullmatch(name):
        wrong = "the name of its folder is not allowed; letters, digits, `.`, `_` and `-`"
    elif os.path.islink(path):
        wrong = "its folder is a link; install what it leads to: plugin install PATH"
    if wrong:
        return Plugin(name, "", "", path, "", "broken", plugin_manifest.Manifest(name), (wrong,), entry=entry)
    plugin = at(path)._replace(name=name, entry=entry)
    if plugin.sha256 and plugin.manifest.name != name:
        wrong = f"it calls itself {plugin.manifest.name!r}; its folder must have that name"
        return plugin._replace(state="broken", problems=(*plugin.problems, wrong))
    return plugin if plugin.problems else _with_state(plugin)


def at(path: str, name: str = "", leave_out: frozenset[str] = frozenset()) -> Plugin:
    """Load the plugin in any folder, as untrusted or broken, without the registry.

    A plugin that does not name itself gets `name` or the name of its folder.
    """
    from adderclaw.config.plugins import manifest as plugin_manifest
    from adderclaw.config.plugins import tree as plugin_tree
    from adderclaw.core.errors import ConfigError

    name = name or os.path.basename(os.path.normpath(path))
    try:
        tree = plugin_tree.survey(path, leave_out)
    except ConfigError as error:
        wrong = tuple(map(str, error.problems))
        return Plugin(name, "", "", path, "", "broken", plugin_manifest.Manifest(name), wrong)
    manifest, problems = plugin_manifest.read(tree, name)
    plugin = Plugin(manifest.name, manifest.version, manifest.description, path, tree.sha256, "untrusted", manifest)
    return plugin._replace(files=tree.files, problems=problems, state="broken" if problems else "untrusted")


def _with_state(plugin: Plugin) -> Plugin:
    from adderclaw.config.plugins.tree import changes

    trusted = plugin.entry.get("sha256")
    if not trusted:
        return plugin._replace(state="untrusted")
    if trusted != plugin.sha256:
        before = plugin.entry.get("files")
        marks = changes(cast(dict[str, str], before) if isinstance(before, dict) else {}, plugin.files)
        return plugin._replace(state="changed", problems=tuple(f"since it was trusted: {mark}" for mark in marks))
    return plugin._replace(state="enabled" if plugin.entry.get("enabled") is True else "disabled")


# ------------------------------------------------------------------ the registry


def registry(home: str) -> dict[str, Json]:
    """Plugin → the operator's decision. An invalid file enables nothing."""
    return _read(home) or {}


def _read(home: str) -> dict[str, Json] | None:
    """The content of the file; None if it is invalid."""
    try:
        fd = os.open(place(home), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return {}
    except OSError:
        return None
    import json

    try:
        with open(fd, "rb") as file:
            value: Any = json.loads(file.read(16 << 20) or b"{}")
    except (OSError, ValueError, RecursionError):
        return None
    table: Any = cast(Json, value).get("plugins", {}) if isinstance(value, dict) else None
    if not isinstance(table, dict) or not all(isinstance(entry, dict) for entry in cast(Json, table).values()):
        return None
    return cast(dict[str, Json], table)


def record(home: str, name: str, entry: Json | None) -> None:
    """Store the operator's decision about a plugin; None removes it."""
    import json

    from adderclaw.config.places import replace
    from adderclaw.core.errors import ConfigError, Problem

    table = _read(home)
    if table is None:
        raise ConfigError(
            [Problem(place(home), "", "is invalid; correct it, or remove it and enable the plugins again")]
        )
    table.pop(name, None)
    if entry is not None:
        table[name] = entry
    if not table:  # an empty registry needs no file
        with suppress(FileNotFoundError):
            os.unlink(place(home))
        return
    os.makedirs(home, mode=0o700, exist_ok=True)
    replace(place(home), json.dumps({"version": 1, "plugins": table}, indent=2, sort_keys=True) + "\n")
