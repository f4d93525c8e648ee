"""Opens the events file of a run: <folder>/<run_id>/events.jsonl, in the workspace or in AdderClaw's home."""

from adderclaw.core.errors import AdderClawError
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import WorkspacePath
from adderclaw.storage.telemetry.jsonl import NAME, OpenFile


def open_events_file(folder: WorkspacePath, run_id: str) -> OpenFile:
    """Open the file to append to it; a folder in a workspace becomes AdderClaw's own, which git ignores."""
    if run_id in ("", ".", "..") or "/" in run_id or "\0" in run_id:
        raise AdderClawError(f"{run_id!r} cannot name a run folder")
    path = folder / run_id / NAME
    descriptor = workspace.open_append(path)
    if folder.root != "/" and not folder.is_root:  # in a workspace
        from adderclaw.sandbox.workspace.traces import ignore_in_git

        ignore_in_git(folder, folder / run_id)
    return OpenFile(descriptor, path.root, path.relative)
