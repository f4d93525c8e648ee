"""The folder in the workspace with the traces of runs: ours alone once one has written there, and ignored by git."""

import re
from collections.abc import Sequence

from adderclaw.core.errors import PathRefused
from adderclaw.sandbox.workspace.place import WorkspacePath
from adderclaw.sandbox.workspace.reading import Entry, entries, read_head
from adderclaw.sandbox.workspace.writing import write

IGNORE = ".gitignore"
SIGNATURE = (
    b"# AdderClaw's traces of runs. They belong to this machine: git ignores them, and no command may change them.\n"
)
IGNORED = SIGNATURE + b"/.gitignore\n/*/events.jsonl\n/*/step-*.json\n"


def traces(name: str, root: str, *, headless: bool = False) -> tuple[str, ...]:
    """Many projects have a `runs` of their own: this is ours where the run writes there (`headless`), or one did."""
    folder = WorkspacePath(root, name)
    if folder.is_root:
        return ()
    return (folder.text,) if headless or is_ours(folder) else ()


def is_ours(folder: WorkspacePath) -> bool:
    try:
        return read_head(folder / IGNORE, len(SIGNATURE))[0] == SIGNATURE
    except (OSError, PathRefused):
        return False


def ignore_in_git(folder: WorkspacePath, run: WorkspacePath) -> None:
    """Have git ignore the traces in a folder, or in this run's alone where the folder has a `.gitignore` already."""
    if is_ours(folder):
        return
    try:
        read_head(folder / IGNORE, 0)
        write(run / IGNORE, b"*\n")
    except FileNotFoundError:
        write(folder / IGNORE, IGNORED)


EVENTS = "events.jsonl"
EVIDENCE = "evidence"
RUN_FILE = re.compile(
    rf"{re.escape(EVENTS)}|step-\d{{4,}}-(request|response)\.json|\.gitignore|{EVIDENCE}/[0-9a-f]{{64}}\.[a-z]{{3,4}}"
)
"""The files of a run."""
HEAD_BYTES = 4096
"""Bytes of a run's events that name the run."""
MAX_ENTRIES = 5_000
"""Entries of a folder that are read to learn whether it holds nothing but traces."""


class Traces:
    """Which files of the workspace are traces of runs, so that a search from above leaves them out.

    A folder of traces may hold files of the user's, and a user's folder may have the same name: only the files of a run
    whose events name that run count.
    """

    def __init__(self, folders: Sequence[WorkspacePath]) -> None:
        self._folders = folders
        self._runs: dict[str, bool] = {}

    def for_search(self, path: str) -> "Traces":
        """Those that a search of this folder meets: not where the folder of traces, or one in it, is searched."""
        return Traces([folder for folder in self._folders if not f"{path}/".startswith(f"{folder.text}/")])

    def is_trace(self, path: str) -> bool:
        return any(self._is_trace(folder, path.removeprefix(f"{folder.text}/")) for folder in self._folders_above(path))

    def is_trace_folder(self, path: str) -> bool:
        """Whether this is a folder of traces that holds nothing else."""
        return any(folder.text == path and self._has_only_traces(folder) for folder in self._folders)

    def _folders_above(self, path: str) -> list[WorkspacePath]:
        return [folder for folder in self._folders if path.startswith(f"{folder.text}/")]

    def _is_trace(self, folder: WorkspacePath, relative: str) -> bool:
        run, slash, name = relative.partition("/")
        if not slash:
            return run == IGNORE and is_ours(folder)
        return RUN_FILE.fullmatch(name) is not None and self._is_run(folder / run)

    def _is_run(self, run: WorkspacePath) -> bool:
        known = self._runs.get(run.text)
        if known is None:
            try:
                head = read_head(run / EVENTS, HEAD_BYTES)[0]
            except (OSError, PathRefused):
                head = b""
            known = self._runs[run.text] = b'"run_id":"%s"' % run.name.encode("utf-8", "replace") in head
        return known

    def _has_only_traces(self, folder: WorkspacePath) -> bool:
        try:
            listed = entries(folder)
            return 0 < len(listed) <= MAX_ENTRIES and all(self._is_trace_entry(folder, entry) for entry in listed)
        except (OSError, PathRefused):
            return False

    def _is_trace_entry(self, folder: WorkspacePath, entry: Entry) -> bool:
        name = entry.path.name
        if not entry.is_folder:
            return self._is_trace(folder, name)
        inside = [f"{name}/{inner.path.name}" for inner in entries(entry.path) if inner.path.name != EVIDENCE]
        if len(inside) < len(entries(entry.path)):
            inside += [f"{name}/{EVIDENCE}/{inner.path.name}" for inner in entries(entry.path / EVIDENCE)]
        return bool(inside) and all(self._is_trace(folder, relative) for relative in inside)
