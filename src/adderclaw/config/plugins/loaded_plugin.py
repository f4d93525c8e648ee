"""A plugin that is active in a session: its folders, and whether it changed since it was trusted."""

import os
import re
from typing import TYPE_CHECKING

from adderclaw.config.paths import followed
from adderclaw.config.plugins import installed
from adderclaw.config.plugins.installed import Plugin
from adderclaw.config.plugins.tree import survey
from adderclaw.core.errors import ConfigError

if TYPE_CHECKING:
    from adderclaw.config.plugins.manifest import Manifest

_PLACE = re.compile(r"\$\{(?:CLAUDE|ADDERCLAW)_PLUGIN_(ROOT|DATA)\}")
CHANGED = (
    "the plugin {name} has changed since you trusted it: look at it (`adderclaw plugin verify {name}`), then"
    " `adderclaw plugin enable {name}`"
)

type _Stamp = tuple[tuple[str, int, int, int, int], ...]


class LoadedPlugin:
    """A plugin of a session. Each of its parts checks `changed` before it is used."""

    def __init__(self, plugin: Plugin, home: str, *, named: bool = False) -> None:
        """`named`: the plugin was named by `--plugin-dir`, for this session only."""
        self.plugin, self.named = plugin, named
        self.root = followed(plugin.folder)
        self.data = installed.data_folder(followed(home), plugin.name)
        self._stamp: _Stamp | None = None

    @property
    def name(self) -> str:
        return self.plugin.name

    @property
    def manifest(self) -> "Manifest":
        return self.plugin.manifest

    @property
    def scope(self) -> str:
        """The scope of the approvals of its MCP servers: the folder for `--plugin-dir`, otherwise the plugin's name."""
        return f"plugin:{self.root if self.named else self.name}"

    def changed(self) -> str:
        """Why the plugin may not run now; empty if its content is unchanged since it was trusted.

        The files are hashed again only if their times or sizes differ from the last check.
        """
        try:
            now = _stamped(self.root)
        except OSError:
            now = None
        if now is not None and now == self._stamp:
            return ""
        try:
            same = now is not None and survey(self.root).sha256 == self.plugin.sha256
        except ConfigError:
            same = False
        self._stamp = now if same else None
        return "" if same else CHANGED.format(name=self.name)

    def filled(self, text: str) -> str:
        """The text with `${CLAUDE_PLUGIN_ROOT}` and `${CLAUDE_PLUGIN_DATA}`, or the ADDERCLAW_ names, expanded."""
        return _PLACE.sub(lambda match: self.root if match[1] == "ROOT" else self.data, text)

    def variables(self) -> dict[str, str]:
        """Name of a plugin variable, without its prefix → its value."""
        return {"PLUGIN_ROOT": self.root, "PLUGIN_DATA": self.data}

    def environment(self) -> dict[str, str]:
        """The environment variables for a process of the plugin. Creates the data folder, which it may write.

        Python must not write `__pycache__` next to the scripts, because that would change the plugin.
        """
        os.makedirs(self.data, mode=0o700, exist_ok=True)
        named = {f"{who}_{name}": path for name, path in self.variables().items() for who in ("CLAUDE", "ADDERCLAW")}
        return {**named, "PYTHONDONTWRITEBYTECODE": "1"}


def _stamped(root: str) -> _Stamp:
    """The path, times, size and inode of every file; raises OSError."""
    stamps: list[tuple[str, int, int, int, int]] = []
    folders = [root]
    while folders:
        with os.scandir(folders.pop()) as listed:
            for entry in listed:
                at = entry.stat(follow_symlinks=False)
                stamps.append((entry.path, at.st_mtime_ns, at.st_ctime_ns, at.st_size, at.st_ino))
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
    return tuple(sorted(stamps))
