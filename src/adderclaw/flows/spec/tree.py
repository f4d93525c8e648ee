"""The digest of a project. A verified pass of a scenario counts for one digest only."""

from adderclaw.config import home
from adderclaw.config.own_paths import own_paths
from adderclaw.config.schema import Config
from adderclaw.core.json_text import digest
from adderclaw.flows.spec import features, status
from adderclaw.sandbox.legacy.checkpoints.git_ignored import ignored
from adderclaw.sandbox.legacy.checkpoints.tracker import limits_of
from adderclaw.sandbox.legacy.checkpoints.tree import Forgets, TooBig, scan
from adderclaw.storage import locks

LEFT_OUT = (f"{features.FOLDER}/", f"{status.FOLDER}/")
"""Feature files are compared by their steps, scenario by scenario; the other folder is AdderClaw's own."""


def digest_of(project: str, config: Config) -> str:
    """Returns a digest that is the same for the same files in every clone; empty if there are too many files.

    Feature files, AdderClaw's own files and what git ignores are left out.
    """
    own = own_paths(config, home(), project, locks.locks_folder(config.memory.path))
    try:
        scanned = scan(project, {}, limits_of(config.checkpoints), Forgets(), own)
    except TooBig:
        return ""
    entries = {path: seen.state for path, seen in scanned.now.items()}
    skipped = ignored(project, entries)
    rows = [
        (path, state.kind, bool(state.mode & 0o111), state.size, state.digest)
        for path, state in sorted(entries.items())
        if state.kind != "folder" and path not in skipped and not path.startswith(LEFT_OUT)
    ]
    return digest(rows)[:32]
