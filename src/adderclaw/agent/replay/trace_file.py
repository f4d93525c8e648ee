"""The trace of a run, the file of its events, held against the store before anybody reads it.

The file lies in the workspace, for people and other programs; the store says what we wrote there, byte for byte.
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
from adderclaw.sandbox.workspace import Place
from adderclaw.storage import Store, runs
from adderclaw.storage.runs import Event, Run, Traced

LONGEST = 4 * 1024 * 1024
"""Bytes of one line; a longer one is no event."""
NAME = "events.jsonl"
MOST_NAMED = 5
PART = 1 << 16
AHEAD = 64
"""Lines and rows that are searched for what belongs together."""

type State = Literal["as written", "missing", "differs", "unknown"]


class Trace(NamedTuple):
    """What a run's file is worth."""

    place: Place | None
    state: State
    differences: tuple[str, ...] = ()
    """What is not as the store has it."""
    notes: tuple[str, ...] = ()
    left_out: frozenset[int] = frozenset()
    """Lines, counted from 1, for which the store does not vouch."""

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
        return tuple(f"{where} is not what the run wrote: {one}" for one in self.differences)


class Line(NamedTuple):
    """One line of the file: an event, or why it is none."""

    number: int
    event: Json
    wrong: str = ""


def checked(store: Store, run: Run, places: Sequence[Place] = ()) -> Trace:
    """The trace of a run. `places` are folders of runs to look in, for one of which the store has no place."""
    wrote = runs.traces(store, run.run_id)
    place = _place(run.run_id, wrote, places)
    if place is None:
        return Trace(None, "unknown")
    try:
        descriptor = workspace.open_file(place)
    except FileNotFoundError:
        gone = ("it is not there, though the run wrote it",) if wrote else ()
        return Trace(place, "missing", (), gone)
    except (OSError, PathRefused) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        return Trace(place, "differs", (f"it cannot be read: {why}",))
    with os.fdopen(descriptor, "rb") as file:
        own = [one for one in wrote if (one.root, one.way) == (place.root, place.way)]
        if own and all(_digest(file, one.start, one.until) == one.digest for one in own):
            return _whole(place, file, run, own)
        return _compared(place, store, run, known=bool(own))


def _place(run_id: str, wrote: Sequence[Traced], places: Sequence[Place]) -> Place | None:
    """Where the store says that it is; if that has gone, or it says nothing, in one of the folders."""
    for one in reversed(wrote):
        if workspace.is_named((place := Place(one.root, one.way)).text):
            return place
    for folder in places:
        if workspace.is_named((place := folder / run_id / NAME).text):
            return place
    return Place(wrote[-1].root, wrote[-1].way) if wrote else None


def _digest(file: BinaryIO, start: int, until: int) -> str:
    file.seek(start)
    found, left = hashlib.blake2b(digest_size=16), until - start
    while left > 0 and (part := file.read(min(left, PART))):
        found.update(part)
        left -= len(part)
    return found.hexdigest() if not left else ""


def _whole(place: Place, file: BinaryIO, run: Run, wrote: Sequence[Traced]) -> Trace:
    """What the store vouches for is there; what lies between and behind was written by a process that was killed
    before its rows were, or by somebody else."""
    size = os.fstat(file.fileno()).st_size
    ends = [0, *(one.until for one in wrote)]
    gaps = [(end, start) for end, start in zip(ends, [*(one.start for one in wrote), size], strict=True) if end < start]
    if not gaps:
        return Trace(place, "as written")
    numbers = _numbers(file, gaps)
    text = f"the store does not know {_lines(sorted(numbers))}"
    if run.outcome is not None and gaps[-1][1] == size and gaps[-1][0] == ends[-1]:
        return Trace(place, "differs", (f"{text}, which somebody added after the run",), (), numbers)
    why = "a process that was killed had not kept them yet" if run.status != "running" else "the run goes on"
    return Trace(place, "as written", (), (f"{text}: {why}",), numbers)


def _numbers(file: BinaryIO, gaps: Sequence[tuple[int, int]]) -> frozenset[int]:
    file.seek(0)
    at, found = 0, set[int]()
    for number, line in enumerate(file, 1):
        if any(start < at + len(line) and at < end for start, end in gaps):
            found.add(number)
        at += len(line)
    return frozenset(found)


def _lines(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"line {numbers[0]}"
    if numbers[-1] - numbers[0] + 1 == len(numbers):
        return f"lines {numbers[0]} to {numbers[-1]}"
    return f"{len(numbers)} lines from line {numbers[0]} on"


# ------------------------------------------------------------------ which lines


def _compared(place: Place, store: Store, run: Run, *, known: bool) -> Trace:
    """Line by line with the rows of the store, which have no part of a second."""
    rows, at = runs.events(store, run.run_id), 0
    differences: list[str] = []
    left_out: set[int] = set()
    lines = list(islice(read(place), len(rows) + AHEAD))
    for line in lines:
        kept = next((n for n in range(at, min(len(rows), at + AHEAD)) if _is_row(line.event, rows[n])), None)
        if kept is not None:
            differences += [f"line {line.number}: {rows[n].event_type} is missing before it" for n in range(at, kept)]
            at = kept + 1
            continue
        left_out.add(line.number)
        what = line.wrong or f"{line.event.get('event_type')}"
        here = at < len(rows) and not any(
            _is_row(one.event, rows[at]) for one in lines[line.number : line.number + AHEAD]
        )
        has = rows[at].event_type if here else "nothing"
        at += here
        differences.append(f"line {line.number}: {what}, where the store has {has}")
    differences += [f"the last {len(rows) - at} events are missing"] if at < len(rows) else []
    if not known:
        return _older(place, run, differences, left_out, len(lines))
    if not differences:
        differences.append("its bytes are not those that were written (spaces, parts of seconds, or the trace's id)")
    more = len(differences) - MOST_NAMED
    said = (*differences[:MOST_NAMED], *([f"{more} more"] if more > 0 else []))
    return Trace(place, "differs", said, (), frozenset(left_out))


def _older(place: Place, run: Run, differences: list[str], left_out: set[int], count: int) -> Trace:
    """Of a run before digests were kept: the rows alone say what it wrote. A killed process may have told more."""
    tail = run.outcome is None and left_out == set(range(count - len(left_out) + 1, count + 1))
    if differences and not tail:
        return Trace(place, "differs", tuple(differences[:MOST_NAMED]), (), frozenset(left_out))
    note = "it was recorded by a version that kept no digest of it: its events were compared, their exact times not"
    return Trace(place, "as written", (), (note,), frozenset(left_out))


def _is_row(event: Json, row: Event) -> bool:
    stamp, payload = str(event.get("timestamp")), event.get("payload")
    own = {key: event.get(key) for key in ("run_id", "span_id")}
    at = row.timestamp if stamp.endswith(".000Z") else stamp[:19].replace("T", " ")  # which may be rounded up
    same = (event.get("event_type"), event.get("session_id") or "", at) == row[:3]
    return same and isinstance(payload, dict) and {**own, **cast(Json, payload)} == row.payload


# ------------------------------------------------------------------ lines


def read(place: Place) -> Iterator[Line]:
    """Line by line, never more of one than an event may have."""
    try:
        descriptor = workspace.open_file(place)
    except (OSError, PathRefused) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{place.text} cannot be read: {why}") from error
    with os.fdopen(descriptor, "rb") as file:
        number = 0
        while text := file.readline(LONGEST + 1):
            number += 1
            if len(text) > LONGEST:
                while not text.endswith(b"\n") and (text := file.readline(LONGEST)):
                    pass
                yield Line(number, {}, f"it is longer than {LONGEST:,} bytes")
            elif not text.endswith(b"\n"):
                yield Line(number, {}, "it is torn: the file ends within it")
            else:
                yield _parsed(number, text)


def _parsed(number: int, text: bytes) -> Line:
    try:
        event: Any = json.loads(text.decode())
    except (ValueError, RecursionError):
        return Line(number, {}, "it is not JSON")
    if not isinstance(event, dict) or not isinstance(cast(Json, event).get("event_type"), str):
        return Line(number, {}, "it is not an event")
    return Line(number, cast(Json, event))


def places_of(loaded: Loaded, home: str) -> list[Place]:
    """What lies in the workspace is reached through no link: a repository may bring one."""
    here = workspace.configured(loaded.config.logging.jsonl_dir, followed(loaded.workspace))
    return [here, workspace.anywhere(followed(os.path.join(home, home_names.RUNS)))]
