"""The trace of a run: its events file, compared with the store before it is used.

The file is in the workspace, for people and other programs. The store has digests of what the run wrote there.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO, Literal, NamedTuple, cast

from adderclaw.config import Loaded
from adderclaw.config.paths import followed
from adderclaw.core import home_names
from adderclaw.core.errors import PathRefused, UsageError
from adderclaw.core.types import Json
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import WorkspacePath
from adderclaw.storage import Store, runs
from adderclaw.storage.runs import Event, Run, TraceRange

LONGEST = 4 * 1024 * 1024
"""The maximum number of bytes of an event's line."""
NAME = "events.jsonl"
MOST_NAMED = 5
PART = 1 << 16
AHEAD = 64
"""How many lines and rows ahead a matching one is searched for."""

type State = Literal["as written", "missing", "differs", "unknown"]


class Trace(NamedTuple):
    """A run's events file, and whether it is what the run wrote."""

    place: WorkspacePath | None
    state: State
    differences: tuple[str, ...] = ()
    """How the file differs from the store."""
    notes: tuple[str, ...] = ()
    left_out: frozenset[int] = frozenset()
    """Numbers, from 1, of the lines that the store does not confirm."""

    def as_json(self) -> Json:
        path = self.place.text if self.place is not None else None
        return {
            "path": path,
            "state": self.state,
            "differences": list(self.differences),
            "notes": list(self.notes),
        }

    @property
    def warnings(self) -> tuple[str, ...]:
        where = self.place.text if self.place is not None else NAME
        return tuple(f"{where} is not what the run wrote: {difference}" for difference in self.differences)


class Line(NamedTuple):
    """One line of the file: an event, or why it is not one."""

    number: int
    event: Json
    wrong: str = ""


def checked(store: Store, run: Run, places: Sequence[WorkspacePath] = ()) -> Trace:
    """The trace of a run. `places`: run folders to search if the store has no path for it."""
    wrote = runs.traces(store, run.run_id)
    path = _place(run.run_id, wrote, places)
    if path is None:
        return Trace(None, "unknown")
    try:
        descriptor = workspace.open_file(path)
    except FileNotFoundError:
        gone = ("the file is missing, although the run wrote it",) if wrote else ()
        return Trace(path, "missing", (), gone)
    except (OSError, PathRefused) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        return Trace(path, "differs", (f"the file cannot be read: {why}",))
    with os.fdopen(descriptor, "rb") as file:
        own = [written for written in wrote if (written.root, written.way) == (path.root, path.relative)]
        if own and all(_digest(file, written.start, written.until) == written.digest for written in own):
            return _whole(path, file, run, own)
        return _compared(path, store, run, known=bool(own))


def _place(run_id: str, wrote: Sequence[TraceRange], places: Sequence[WorkspacePath]) -> WorkspacePath | None:
    """The path of the file: from the store, else in one of the folders, else where it was last."""
    for written in reversed(wrote):
        if workspace.is_named((path := WorkspacePath(written.root, written.way)).text):
            return path
    for folder in places:
        if workspace.is_named((path := folder / run_id / NAME).text):
            return path
    return WorkspacePath(wrote[-1].root, wrote[-1].way) if wrote else None


def _digest(file: BinaryIO, start: int, until: int) -> str:
    file.seek(start)
    digest, left = hashlib.blake2b(digest_size=16), until - start
    while left > 0 and (part := file.read(min(left, PART))):
        digest.update(part)
        left -= len(part)
    return digest.hexdigest() if not left else ""


def _whole(path: WorkspacePath, file: BinaryIO, run: Run, wrote: Sequence[TraceRange]) -> Trace:
    """The trace of a file that has everything the store confirms. Further lines are by a process that was killed before
    it stored its rows, or by something else."""
    size = os.fstat(file.fileno()).st_size
    ends = [0, *(written.until for written in wrote)]
    gaps = [
        (end, start)
        for end, start in zip(ends, [*(written.start for written in wrote), size], strict=True)
        if end < start
    ]
    if not gaps:
        return Trace(path, "as written")
    numbers = _numbers(file, gaps)
    text = f"the store does not know {_lines(sorted(numbers))}"
    if run.outcome is not None and gaps[-1][1] == size and gaps[-1][0] == ends[-1]:
        return Trace(path, "differs", (f"{text}, which were added after the run",), (), numbers)
    why = "a process was killed before it stored them" if run.status != "running" else "the run is still running"
    return Trace(path, "as written", (), (f"{text}: {why}",), numbers)


def _numbers(file: BinaryIO, gaps: Sequence[tuple[int, int]]) -> frozenset[int]:
    file.seek(0)
    at, numbers = 0, set[int]()
    for number, line in enumerate(file, 1):
        if any(start < at + len(line) and at < end for start, end in gaps):
            numbers.add(number)
        at += len(line)
    return frozenset(numbers)


def _lines(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"line {numbers[0]}"
    if numbers[-1] - numbers[0] + 1 == len(numbers):
        return f"lines {numbers[0]} to {numbers[-1]}"
    return f"{len(numbers)} lines from line {numbers[0]} on"


# ------------------------------------------------------------------ which lines


def _compared(path: WorkspacePath, store: Store, run: Run, *, known: bool) -> Trace:
    """Compare the file line by line with the rows of the store, whose times are whole seconds."""
    rows, at = runs.events(store, run.run_id), 0
    differences: list[str] = []
    left_out: set[int] = set()
    lines = list(islice(read(path), len(rows) + AHEAD))
    for line in lines:
        match = next((n for n in range(at, min(len(rows), at + AHEAD)) if _is_row(line.event, rows[n])), None)
        if match is not None:
            differences += [f"line {line.number}: {rows[n].event_type} is missing before it" for n in range(at, match)]
            at = match + 1
            continue
        left_out.add(line.number)
        what = line.wrong or f"{line.event.get('event_type')}"
        here = at < len(rows) and not any(
            _is_row(line_after.event, rows[at]) for line_after in lines[line.number : line.number + AHEAD]
        )
        has = rows[at].event_type if here else "nothing"
        at += here
        differences.append(f"line {line.number}: {what}, where the store has {has}")
    differences += [f"the last {len(rows) - at} events are missing"] if at < len(rows) else []
    if not known:
        return _older(path, run, differences, left_out, len(lines))
    if not differences:
        differences.append("its bytes were changed (spaces, fractions of seconds, or the trace's id)")
    more = len(differences) - MOST_NAMED
    shown = (*differences[:MOST_NAMED], *([f"{more} more"] if more > 0 else []))
    return Trace(path, "differs", shown, (), frozenset(left_out))


def _older(path: WorkspacePath, run: Run, differences: list[str], left_out: set[int], count: int) -> Trace:
    """The trace of a run by a version that stored no digests. A killed process may have written more than its rows."""
    tail = run.outcome is None and left_out == set(range(count - len(left_out) + 1, count + 1))
    if differences and not tail:
        return Trace(path, "differs", tuple(differences[:MOST_NAMED]), (), frozenset(left_out))
    note = "recorded by a version that stored no digest: its events were compared, but not their exact times"
    return Trace(path, "as written", (), (note,), frozenset(left_out))


def _is_row(event: Json, row: Event) -> bool:
    stamp, payload = str(event.get("timestamp")), event.get("payload")
    own = {key: event.get(key) for key in ("run_id", "span_id")}
    at = row.timestamp if stamp.endswith(".000Z") else stamp[:19].replace("T", " ")  # may be rounded up
    same = (event.get("event_type"), event.get("session_id") or "", at) == row[:3]
    return same and isinstance(payload, dict) and {**own, **cast(Json, payload)} == row.payload


# ------------------------------------------------------------------ lines


def read(path: WorkspacePath) -> Iterator[Line]:
    """Read the lines of the file, each up to the maximum length."""
    try:
        descriptor = workspace.open_file(path)
    except (OSError, PathRefused) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{path.text} cannot be read: {why}") from error
    with os.fdopen(descriptor, "rb") as file:
        number = 0
        while text := file.readline(LONGEST + 1):
            number += 1
            if len(text) > LONGEST:
                while not text.endswith(b"\n") and (text := file.readline(LONGEST)):
                    pass
                yield Line(number, {}, f"longer than {LONGEST:,} bytes")
            elif not text.endswith(b"\n"):
                yield Line(number, {}, "incomplete: the file ends within it")
            else:
                yield _parsed(number, text)


def _parsed(number: int, text: bytes) -> Line:
    try:
        event: Any = json.loads(text.decode())
    except (ValueError, RecursionError):
        return Line(number, {}, "not JSON")
    if not isinstance(event, dict) or not isinstance(cast(Json, event).get("event_type"), str):
        return Line(number, {}, "not an event")
    return Line(number, cast(Json, event))


def places_of(loaded: Loaded, home: str) -> list[WorkspacePath]:
    """The folders of runs; the one in the workspace is opened without following links."""
    here = workspace.configured_path(loaded.config.logging.jsonl_dir, followed(loaded.workspace))
    return [here, workspace.resolved_path(followed(os.path.join(home, home_names.RUNS)))]
