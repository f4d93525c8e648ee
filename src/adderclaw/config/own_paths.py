"""AdderClaw's own files, wherever they are. Tools do not write them, and checkpoints neither store nor restore them."""

import os
from typing import TYPE_CHECKING

from adderclaw.config.paths import OWN_ENDINGS, beneath, followed, is_run_name
from adderclaw.core.record import NamedTuple

if TYPE_CHECKING:
    from adderclaw.config.schema import Config

SPEC_STATUS_FILE = ".adderclaw/status.json"
"""In a project: its scenarios and which of them pass."""
SPEC_MARKS_FILE = ".adderclaw/spec.json"
"""In a project: further facts about its scenarios."""


class OwnPaths(NamedTuple):
    """AdderClaw's own paths, absolute and without links."""

    home: str
    files: frozenset[str]
    """The database and the receipt log with their companion files, and the telemetry file."""
    runs: str
    """The folder for run folders. Other files in it belong to the project."""

    def is_one(self, folder: str, name: str) -> bool:
        """Whether an entry of a folder, with everything in it, is AdderClaw's own."""
        path = f"{folder.rstrip('/')}/{name}"
        return path == self.home or path in self.files or (folder == self.runs and is_run_name(name))

    def holds(self, root: str, way: str) -> bool:
        """Whether a path below a root is AdderClaw's own or inside something that is."""
        folder = root
        for name in way.split("/"):
            if self.is_one(folder, name):
                return True
            folder = f"{folder.rstrip('/')}/{name}"
        return False


def own_paths(config: "Config", home: str, workspace: str, *more: str) -> OwnPaths:
    """`more` are further own files that the caller knows."""
    named = (config.memory.path, config.receipts.path)
    files = (f"{path}{ending}" for path in map(followed, named) for ending in ("", *OWN_ENDINGS))
    telemetry = config.telemetry
    if telemetry.enabled and telemetry.protocol == "file":
        more = (*more, os.path.join(workspace, telemetry.path or "telemetry.jsonl"))
    return OwnPaths(followed(home), frozenset((*files, *map(followed, more))), run_folder(config, followed(workspace)))


def run_folder(config: "Config", workspace: str) -> str:
    """The folder for run folders; if it is in the workspace, its path may not contain links."""
    folder = os.path.normpath(os.path.join(workspace, config.logging.jsonl_dir))
    return folder if beneath(folder, workspace) else followed(folder)
