"""The workspace folder with the traces of runs. Once a run has written there, it is ours and git ignores it."""

import re
from collections.abc import Sequence

from adderclaw.core.errors import PathRefused
from adderclaw.sandbox.workspace.path import WorkspacePath
from adderclaw.sandbox.workspace.reading import Entry, entries, read_head
from adderclaw.sandbox.workspace.writing import write

IGNORE = ".gitignore"
SIGNATURE = (
    b"# AdderClaw's traces of runs. They belong to this machine: git ignores them, and no command may change them.\n"
)
IGNORED = SIGNATURE + b"/.gitignore\n/*/events.jsonl\n/*/step-*.json\n"


def traces(name: str, root: str, *, headless: bool = False) -> tuple[str, ...]:
    """The folder of traces, if this run writes there (`headless`) or an earlier one did.

    Many projects have a `runs` folder of their own.
    """
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
    """Makes git ignore all traces in a folder, or only this run's if the folder already has a `.gitignore`."""
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
"""The names of a run's files."""
HEAD_BYTES = 4096
"""The beginning of a run's events, which contains its id."""
MAX_ENTRIES = 5_000
"""A folder with more entries is not checked for containing only traces."""


class Traces:
    """Identifies the traces of runs in the workspace, so that searches of folders above can leave them out.

    A folder of traces may contain files of the user, and a user's folder may have the same name. So only the files of a
    run whose events contain that run's id count.
    """

    def __init__(self, folders: Sequence[WorkspacePath]) -> None:
        self._folders = folders
        self._runs: dict[str, bool] = {}

    def for_search(self, path: str) -> "Traces":
        """The traces to leave out of a search of this folder; none if the search starts in a folder of traces."""
        return Traces([folder for folder in self._folders if not f"{path}/".startswith(f"{folder.text}/")])

    def is_trace(self, path: str) -> bool:
        folders_above = (folder for folder in self._folders if path.startswith(f"{folder.text}/"))
        return any(self._is_trace(folder, path.removeprefix(f"{folder.text}/")) for folder in folders_above)

    def is_trace_folder(self, path: str) -> bool:
        """Whether this is a folder that contains only traces."""
        return any(folder.text == path and self._has_only_traces(folder) for folder in self._folders)

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
        names = [inner.path.name for inner in entries(entry.path)]
        inside = [f"{name}/{inner}" for inner in names if inner != EVIDENCE]
        if EVIDENCE in names:
            inside += [f"{name}/{EVIDENCE}/{inner.path.name}" for inner in entries(entry.path / EVIDENCE)]
        return bool(inside) and all(self._is_trace(folder, relative) for relative in inside)
