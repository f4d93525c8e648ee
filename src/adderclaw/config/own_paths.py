"""Which files are AdderClaw's own, wherever they lie: no tool writes them, no checkpoint keeps or puts them back."""

import os
from typing import TYPE_CHECKING

from adderclaw.config.paths import OWN_ENDINGS, beneath, followed, is_run_name
from adderclaw.core.record import NamedTuple

if TYPE_CHECKING:
    from adderclaw.config.schema.settings import Config

SPEC_STATUS_FILE = ".adderclaw/status.json"
"""In a project: its scenarios, and which of them have passed."""
SPEC_MARKS_FILE = ".adderclaw/spec.json"
"""In a project: what else is known of its scenarios."""


class Own(NamedTuple):
    """All of them as absolute paths that no link is part of."""

    home: str
    files: frozenset[str]
    """The database and the log of receipts, with what is kept beside them, and the file of telemetry."""
    runs: str
    """The folder that `run` writes its events into; what else lies there is the project's."""

    def is_one(self, folder: str, name: str) -> bool:
        """Whether an entry of a folder is ours, with all that lies in it."""
        path = f"{folder.rstrip('/')}/{name}"
        return path == self.home or path in self.files or (folder == self.runs and is_run_name(name))

    def holds(self, root: str, way: str) -> bool:
        """Whether what lies in a root is ours, or in what is."""
        folder = root
        for name in way.split("/"):
            if self.is_one(folder, name):
                return True
            folder = f"{folder.rstrip('/')}/{name}"
        return False


def own_paths(config: "Config", home: str, workspace: str, *more: str) -> Own:
    """`more` are further files of ours that the caller knows of."""
    named = (config.memory.path, config.receipts.path)
    files = (f"{path}{ending}" for path in map(followed, named) for ending in ("", *OWN_ENDINGS))
    telemetry = config.telemetry
    if telemetry.enabled and telemetry.protocol == "file":
        more = (*more, os.path.join(workspace, telemetry.path or "telemetry.jsonl"))
    return Own(followed(home), frozenset((*files, *map(followed, more))), run_folder(config, followed(workspace)))


def run_folder(config: "Config", workspace: str) -> str:
    """Where `run` writes its events; in the workspace it is reached through no link."""
    folder = os.path.normpath(os.path.join(workspace, config.logging.jsonl_dir))
    return folder if beneath(folder, workspace) else followed(folder)
