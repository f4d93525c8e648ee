"""What goes with a file or folder that is deleted: what of it a checkpoint keeps, and what it cannot keep."""

import os
import stat
from collections.abc import Callable, Iterator
from typing import NamedTuple

from adderclaw.config.run_later_names import names
from adderclaw.core.errors import PathRefused
from adderclaw.sandbox import workspace
from adderclaw.sandbox.legacy.checkpoints.tree import MARKS, Limits
from adderclaw.sandbox.legacy.survey import INSTALLED_TREES
from adderclaw.sandbox.workspace import WorkspacePath
from adderclaw.sandbox.workspace.gitdirs import is_layout

MOST = 200_000
"""Files and folders of one call: of more nobody could say what goes."""
NAMED = 3
"""So many of what is lost are named; of the rest it is said how many there are."""


MOST_NAMED = 1000
"""Places that the gate is told of one by one: who has more of them in one folder deletes parts of it."""


class Look(NamedTuple):
    """What lies at a place and beneath it, seen through no link."""

    kept: tuple[WorkspacePath, ...]
    """What a checkpoint keeps, folders before what lies in them."""
    lost: tuple[str, ...]
    """What it does not keep, and why."""
    gits: tuple[WorkspacePath, ...]
    """Git directories by their layout, whatever they are called: within it, or around it."""
    named: tuple[WorkspacePath, ...]
    """Names by which other programs run code later, and what the caller wanted to know of."""
    total: int
    size: int

    @property
    def reason(self) -> str:
        """Why it cannot be undone; empty where it can."""
        more = f" and {len(self.lost) - NAMED} more" if len(self.lost) > NAMED else ""
        return f"no checkpoint keeps {', '.join(self.lost[:NAMED])}{more}" if self.lost else ""


def look(place: WorkspacePath, limits: Limits | None, wanted: Callable[[str], bool] = lambda _path: False) -> Look:
    """Without limits nothing is kept. Raises OSError where nothing is there, Refused where it cannot be looked at."""
    top = workspace.status(place)
    walk = _Walk(place, top, limits, wanted)
    walk.see(place, top, gone=walk.look_around())
    walk.beneath()
    return walk.found()


class _Walk:
    def __init__(
        self, place: WorkspacePath, top: os.stat_result, limits: Limits | None, wanted: Callable[[str], bool]
    ) -> None:
        self._place, self._device, self._limits, self._wanted = place, top.st_dev, limits, wanted
        self._kept: list[WorkspacePath] = []
        self._lost: list[str] = []
        self._gits: list[WorkspacePath] = []
        self._named: list[WorkspacePath] = []
        self._waiting: list[tuple[WorkspacePath, bool]] = []
        self._count = self._size = self._bytes = 0

    def found(self) -> Look:
        limits = self._limits
        if limits is not None and self._bytes > limits.max_total_bytes:
            self._lost.append(f"{self._bytes >> 20:,} MB (checkpoints.max_total_mb)")
        if limits is not None and len(self._kept) > limits.max_files:
            self._lost.append(f"{len(self._kept):,} files (checkpoints.max_files)")
        if len(self._named) == MOST_NAMED:
            raise PathRefused(
                f"{workspace.printable(self._place.text)} holds too much that is protected: delete parts of it"
            )
        return Look(
            tuple(self._kept), tuple(self._lost), tuple(self._gits), tuple(self._named), self._count, self._size
        )

    def look_around(self) -> bool:
        """Note a git directory that it lies in; says whether it lies in what no checkpoint keeps."""
        limits, gone = self._limits, False
        if limits is None:
            self._lost.append("anything: checkpoints are off")
            return True
        for folder in _above(self._place):
            inner = {entry.path.name for entry in workspace.entries(folder)}
            if is_layout({name.casefold() for name in inner}):
                self._gits.append(folder)
            if folder.name in limits.ignored or (not folder.is_root and not MARKS.isdisjoint(inner)):
                gone = True
        if gone:
            self._lost.append(f"what lies in {workspace.printable(self._place.parent.relative)}")
        return gone

    def beneath(self) -> None:
        while self._waiting:
            folder, gone = self._waiting.pop()
            entries = workspace.entries(folder)
            inner = {entry.path.name for entry in entries}
            if is_layout({name.casefold() for name in inner}):
                self._gits.append(folder)
            if not gone and not MARKS.isdisjoint(inner):
                self._lost.append(f"what is in {workspace.printable(folder.relative)} (a cache or an environment)")
                gone = True
            for entry in entries:
                self.see(entry.path, entry.status, gone=gone)

    def see(self, one: WorkspacePath, status: os.stat_result, *, gone: bool) -> None:
        self._count += 1
        if self._count > MOST:
            raise PathRefused(
                f"{workspace.printable(self._place.text)} holds more than {MOST:,} files: delete parts of it"
            )
        if status.st_dev != self._device:
            raise PathRefused(
                f"{workspace.printable(one.text)} is another file system, mounted there: it is not deleted"
            )
        size = 0 if stat.S_ISDIR(status.st_mode) else status.st_size
        self._size += size
        if not gone and (why := _why(one, status, self._limits)):
            self._lost.append(f"{workspace.printable(one.relative)} ({why})")
            gone = True
        elif not gone:
            self._kept.append(one)
            self._bytes += size
        if len(self._named) < MOST_NAMED and (_runs_code(one) or self._wanted(one.text)):
            self._named.append(one)
        if stat.S_ISDIR(status.st_mode):
            self._waiting.append((one, gone))


def _above(place: WorkspacePath) -> Iterator[WorkspacePath]:
    while not place.is_root:
        place = place.parent
        yield place


def _why(one: WorkspacePath, status: os.stat_result, limits: Limits | None) -> str:
    """Why a checkpoint leaves it out, if so."""
    if limits is not None and one.name in limits.ignored:
        return "left out by its name"
    if stat.S_ISDIR(status.st_mode) or stat.S_ISLNK(status.st_mode):
        return ""
    if not stat.S_ISREG(status.st_mode):
        return "no file, link or folder"
    if limits is not None and status.st_size > limits.max_file_bytes:
        return f"{status.st_size >> 20:,} MB"
    return "" if _readable(one) else "unreadable"


def _readable(one: WorkspacePath) -> bool:
    try:
        os.close(workspace.open_file(one))
    except (OSError, PathRefused):
        return False
    return True


def _runs_code(one: WorkspacePath) -> bool:
    """By its own name, or by its folder's with it; what packages bring in their own folders nobody runs."""
    known, parts = names(), one.relative.casefold().split("/")
    last, pair = parts[-1], tuple(parts[-2:])
    if last in known.denied or pair in known.denied_pairs:
        return True
    found = (
        last in known.single - known.reported
        or last.endswith(known.suffixes)
        or (last in known.pairs.get(pair[0], ()) and "/".join(pair) not in known.reported)
    )
    return found and INSTALLED_TREES.isdisjoint(parts)
