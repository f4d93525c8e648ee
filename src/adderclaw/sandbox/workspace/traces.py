"""The folder in the workspace with the traces of runs: ours alone once one has written there, and ignored by git."""

import re
from collections.abc import Sequence

from adderclaw.core.errors import PathRefused
from adderclaw.sandbox.workspace.place import Place
from adderclaw.sandbox.workspace.reading import Entry, entries, start
from adderclaw.sandbox.workspace.writing import write

IGNORE = ".gitignore"
OURS = b"# AdderClaw's traces of runs. They belong to this machine: git ignores them, and no command may change them.\n"
IGNORED = OURS + b"/.gitignore\n/*/events.jsonl\n/*/step-*.json\n"


def traces(name: str, root: str, *, headless: bool = False) -> tuple[str, ...]:
    """Many projects have a `runs` of their own: this is ours where the run writes there (`headless`), or one did."""
    folder = Place(root, name)
    if folder.is_root:
        return ()
    return (folder.text,) if headless or is_ours(folder) else ()


def is_ours(folder: Place) -> bool:
    try:
        return start(folder / IGNORE, len(OURS))[0] == OURS
    except (OSError, PathRefused):
        return False


def claim(folder: Place, run: Place) -> None:
    """Have git ignore the traces in a folder, or in this run's alone where the folder has a `.gitignore` already."""
    if is_ours(folder):
        return
    try:
        start(folder / IGNORE, 0)
        write(run / IGNORE, b"*\n")
    except FileNotFoundError:
        write(folder / IGNORE, IGNORED)


EVENTS = "events.jsonl"
EVIDENCE = "evidence"
WRITTEN = re.compile(
    rf"{re.escape(EVENTS)}|step-\d{{4,}}-(request|response)\.json|\.gitignore|{EVIDENCE}/[0-9a-f]{{64}}\.[a-z]{{3,4}}"
)
"""The files of a run."""
HEAD = 4096
"""Bytes of a run's events that name the run."""
MOST_ENTRIES = 5_000
"""Entries of a folder that are read to learn whether it holds nothing but traces."""


class Traces:
    """Which files of the workspace are traces of runs, so that a search from above leaves them out.

    A folder of traces may hold files of the user's, and a user's folder may have the same name: only the files of a run
    whose events name that run count.
    """

    def __init__(self, folders: Sequence[Place]) -> None:
        self._folders = folders
        self._runs: dict[str, bool] = {}

    def above(self, path: str) -> "Traces":
        """Those that a search of this folder meets: not where the folder of traces, or one in it, is searched."""
        return Traces([one for one in self._folders if not f"{path}/".startswith(f"{one.text}/")])

    def has(self, path: str) -> bool:
        return any(self._is_trace(one, path.removeprefix(f"{one.text}/")) for one in self._holding(path))

    def fill(self, path: str) -> bool:
        """Whether this is a folder of traces that holds nothing else."""
        return any(one.text == path and self._is_filled(one) for one in self._folders)

    def _holding(self, path: str) -> list[Place]:
        return [one for one in self._folders if path.startswith(f"{one.text}/")]

    def _is_trace(self, folder: Place, way: str) -> bool:
        run, slash, name = way.partition("/")
        if not slash:
            return run == IGNORE and is_ours(folder)
        return WRITTEN.fullmatch(name) is not None and self._is_run(folder / run)

    def _is_run(self, run: Place) -> bool:
        known = self._runs.get(run.text)
        if known is None:
            try:
                head = start(run / EVENTS, HEAD)[0]
            except (OSError, PathRefused):
                head = b""
            known = self._runs[run.text] = b'"run_id":"%s"' % run.name.encode("utf-8", "replace") in head
        return known

    def _is_filled(self, folder: Place) -> bool:
        try:
            found = entries(folder)
            return 0 < len(found) <= MOST_ENTRIES and all(self._is_ours_whole(folder, one) for one in found)
        except (OSError, PathRefused):
            return False

    def _is_ours_whole(self, folder: Place, entry: Entry) -> bool:
        name = entry.place.name
        if not entry.is_folder:
            return self._is_trace(folder, name)
        inside = [f"{name}/{one.place.name}" for one in entries(entry.place) if one.place.name != EVIDENCE]
        if len(inside) < len(entries(entry.place)):
            inside += [f"{name}/{EVIDENCE}/{one.place.name}" for one in entries(entry.place / EVIDENCE)]
        return bool(inside) and all(self._is_trace(folder, way) for way in inside)
