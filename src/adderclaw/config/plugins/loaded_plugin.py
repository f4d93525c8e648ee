"""A plugin that counts in a session: where it lies, where its data is, and whether it is still as it was trusted."""

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
    """One plugin of a session; every part that it brings asks here before it is used."""

    def __init__(self, plugin: Plugin, home: str, *, named: bool = False) -> None:
        """`named`: by `--plugin-dir`, for this session alone."""
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
        """Whose the approvals of its MCP servers are: those of a folder that was named once are its own."""
        return f"plugin:{self.root if self.named else self.name}"

    def changed(self) -> str:
        """Why nothing of it may run now; empty while its content is what was trusted.

        Most of the time one look at the times and sizes of its files is enough; else all of it is hashed again.
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
        """A text with `${CLAUDE_PLUGIN_ROOT}` and `${CLAUDE_PLUGIN_DATA}`, or our spelling of them, filled in."""
        return _PLACE.sub(lambda match: self.root if match[1] == "ROOT" else self.data, text)

    def variables(self) -> dict[str, str]:
        """What stands for the two in texts."""
        return {"PLUGIN_ROOT": self.root, "PLUGIN_DATA": self.data}

    def environment(self) -> dict[str, str]:
        """The same for a process of its own, which may write its data: the folder is made now.

        Python writes nothing beside its scripts: a `__pycache__` would be a change of the plugin.
        """
        os.makedirs(self.data, mode=0o700, exist_ok=True)
        named = {f"{who}_{name}": path for name, path in self.variables().items() for who in ("CLAUDE", "ADDERCLAW")}
        return {**named, "PYTHONDONTWRITEBYTECODE": "1"}


def _stamped(root: str) -> _Stamp:
    """Every file's path, time of change, size and number; raises OSError."""
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
