"""A finished run as one file that can be committed: its rows and its tape, as lines of JSON, and back into a store.

Such a file may be somebody else's: it is read in bounds, decoded line by line, and only ever fills a store of its own.
"""

import hashlib
import json
import re
import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from adderclaw import __version__, workspace
from adderclaw.credentials.redaction import without_shapes
from adderclaw.decode import Invalid, decode
from adderclaw.errors import Refused, UsageError
from adderclaw.record import record
from adderclaw.replay import playing
from adderclaw.store import Store, runs, tape, transcript
from adderclaw.store.queries import recordings
from adderclaw.store.runs import Run
from adderclaw.store.tape import Damaged
from adderclaw.store.text import compact
from adderclaw.types import Json
from adderclaw.workspace import Place

FOLDER = ".adderclaw/cases"
ENDING = ".jsonl"
FORMAT = 1
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MOST_BYTES = 32 * 1024 * 1024
MOST_ROWS = 100_000
BIGGEST = 2**63 - 1


@record
class Title:
    """The first line: what the file is, and the run that it was made of."""

    adderclaw_case: int
    version: str
    run_id: str
    kind: str
    conversation_id: str
    session_id: str
    outcome: str
    answer: str
    reason: str


@record
class TapeRow:
    session_id: str
    seq: int
    items_json: str
    seal: str


@record
class TextRow:
    digest: str
    text: str


@record
class EntryRow:
    session_id: str
    sequence: int
    entry_type: str
    payload_json: str
    tool_use_id: str | None
    blocks_json: str | None


@record
class CallRow:
    id: int
    session_id: str
    run_id: str
    step: int
    provider: str
    model: str
    request_hash: str
    response_json: str | None
    usage_json: str
    attempts: int
    latency_ms: float
    status: str
    error: str | None
    cost: float | None


@record
class EventRow:
    id: int
    session_id: str
    event_type: str
    detail: str


KINDS: dict[str, type[Any]] = {
    "tape": TapeRow,
    "text": TextRow,
    "entry": EntryRow,
    "call": CallRow,
    "event": EventRow,
}
"""What a line after the first may be, by its only key."""
IN_JSON = frozenset({"items_json", "payload_json", "blocks_json", "response_json", "usage_json", "detail", "text"})
"""Columns whose text is JSON."""


class Case(NamedTuple):
    """A case as its file has it."""

    title: Title
    rows: list[Any]


def place_of(root: str, name: str) -> Place:
    if not NAME.fullmatch(name) or name.endswith(ENDING):
        raise UsageError(f"{name[:80]!r} is no name of a case: letters, digits, dots, dashes, at most 64")
    return Place(root, f"{FOLDER}/{name}{ENDING}")


def names(root: str) -> list[str]:
    """The cases of a project, by name."""
    try:
        found = [entry.place.name for entry in workspace.entries(Place(root, FOLDER))]
    except FileNotFoundError:
        return []
    made = (name.removesuffix(ENDING) for name in found if name.endswith(ENDING))
    return sorted(name for name in made if NAME.fullmatch(name))


# ------------------------------------------------------------------ making


def made_of(store: Store, run: Run) -> bytes:
    """The file of a run; refuses one that has not ended, or has no tape."""
    if run.outcome is None:
        raise UsageError(f"run {run.run_id} has not ended ({run.status}): a case is made of a run that has")
    if not tape.sessions(store, run.run_id):
        raise UsageError(f"run {run.run_id} has no tape: there is nothing to play again")
    title = Title(
        FORMAT,
        __version__,
        run.run_id,
        run.kind,
        run.conversation_id,
        run.session_id,
        run.outcome,
        _shapeless(run.answer or ""),
        _shapeless(run.reason or ""),
    )
    try:
        rows = list(_rows(store, run))
    except (Damaged, *playing.MALFORMED) as error:
        raise UsageError(f"run {run.run_id} cannot be saved: {error}; see `adderclaw replay --verify`") from error
    lines = [compact(title.__dict__), *(compact(row) for row in rows)]
    text = "\n".join(lines) + "\n"
    data = f"{text}{compact({'sha256': _sha256(text)})}\n".encode()
    if len(data) > MOST_BYTES or len(lines) > MOST_ROWS:
        most = f"{MOST_BYTES >> 20} MiB and {MOST_ROWS:,} rows"
        raise UsageError(f"run {run.run_id} is too large for a case ({len(data):,} bytes; at most {most})")
    return data


def _rows(store: Store, run: Run) -> Iterator[Json]:
    """The rows that a replay of the run reads, without what looks like a secret."""
    renamed: dict[str, str] = {}
    for known in dict.fromkeys(_texts(store, run.run_id)):
        text = _clean(tape.text_of(store, known))
        renamed[known] = _sha256(text)
        yield {"text": {"digest": renamed[known], "text": text}}
    for session_id in tape.sessions(store, run.run_id):
        yield from _tape(store, run.run_id, session_id, renamed)
        segments = playing.segments(store, run.run_id, session_id)
        first, until = segments[0].head["from"], segments[-1].until or {}
        yield from _entries(store, session_id, until.get("entries", BIGGEST))
        calls, until_call = first["calls"], until.get("calls", BIGGEST)
        columns = tuple(CallRow.__annotations__)
        rows = recordings.model_calls(store, columns, run.run_id, session_id, calls, until_call)
        yield from ({"call": _cleaned(dict(row))} for row in rows)
        rows = recordings.events_of_run(store, run.run_id, session_id, first["events"], until.get("events", BIGGEST))
        yield from ({"event": _cleaned(dict(row))} for row in rows)


def _entries(store: Store, session_id: str, until: int) -> Iterator[Json]:
    """What was said before the run, too: it is what the model knew."""
    rows = recordings.entries(store, session_id, 0, until)
    return ({"entry": _cleaned(dict(row))} for row in rows)


def _texts(store: Store, run_id: str) -> Iterator[str]:
    """What the long texts are known by that the tapes of a run name."""
    for session_id in tape.sessions(store, run_id):
        for kind, body in tape.read(store, run_id, session_id):
            named = ("config", "judged_by", "prompt") if kind == "head" else ("kept",) if kind == "fact" else ()
            yield from (str(body[name]) for name in named if name in body)


def _tape(store: Store, run_id: str, session_id: str, renamed: dict[str, str]) -> Iterator[Json]:
    """Its rows, sealed anew where something was left out."""
    seal = tape.FIRST
    for seq, items in recordings.tape_rows(store, run_id, session_id):
        text = _clean(items)
        for before, now in renamed.items():
            text = text.replace(before, now) if before != now else text
        seal = tape.link(seal, text)
        yield {"tape": {"session_id": session_id, "seq": seq, "items_json": text, "seal": seal}}


def _cleaned(row: Json) -> Json:
    return {
        name: (_clean(value) if name in IN_JSON else _shapeless(value)) if isinstance(value, str) else value
        for name, value in row.items()
    }


def _clean(text: str) -> str:
    """JSON without what looks like a secret; the very same text where nothing does."""
    value = json.loads(text)
    return text if (made := _leaves(value)) == value else compact(made)


def _leaves(value: Any) -> Any:
    if isinstance(value, str):
        return _shapeless(value)
    if isinstance(value, dict):
        return {key: _leaves(item) for key, item in cast(Json, value).items()}
    return [_leaves(item) for item in cast(list[Any], value)] if isinstance(value, list) else value


def _shapeless(text: str) -> str:
    return without_shapes(text)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# ------------------------------------------------------------------ reading


def read(place: Place) -> Case:
    """A case of a file; raises UsageError that says what is wrong with it."""
    try:
        data = workspace.read(place, MOST_BYTES)
    except FileNotFoundError as error:
        name = place.name.removesuffix(ENDING)
        raise UsageError(f"there is no case {name!r} in {FOLDER}: `adderclaw run save {name}` makes one") from error
    except (OSError, Refused) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{place.text} cannot be read: {why}") from error
    try:
        return parsed(data)
    except (Invalid, ValueError, RecursionError) as error:
        raise UsageError(f"{place.text} is no case, or was damaged: {error}") from error


def parsed(data: bytes) -> Case:
    """Raises ValueError or Invalid."""
    text = data.decode()
    first, _, end = text.removesuffix("\n").rpartition("\n")
    if _object(end, "the last line") != {"sha256": _sha256(f"{first}\n")}:
        raise ValueError("its last line does not fit what stands before it")
    head, *lines = first.split("\n")
    if len(lines) > MOST_ROWS:
        raise ValueError(f"it has more than {MOST_ROWS:,} rows")
    given = _object(head, "line 1")
    if (made := given.get("adderclaw_case")) != FORMAT:
        raise ValueError(f"it has format {made!r}, not {FORMAT}")
    title = decode(Title, given)
    return Case(title, [_row(line, number) for number, line in enumerate(lines, 2)])


def _row(line: str, number: int) -> Any:
    found = _object(line, f"line {number}")
    if len(found) != 1 or (kind := next(iter(found))) not in KINDS:
        raise ValueError(f"line {number} is not one of {', '.join(KINDS)}")
    try:
        row = decode(KINDS[kind], found[kind])
    except Invalid as error:
        raise ValueError(f"line {number} is no {kind}: {error}") from error
    numbers = (value for value in row.__dict__.values() if isinstance(value, int))
    if any(not 0 <= value <= BIGGEST for value in numbers):
        raise ValueError(f"line {number} has a number out of range")
    return row


def _object(text: str, where: str) -> Json:
    value: object = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(f"{where} is not a JSON object")
    return cast(Json, value)


def fill(store: Store, case: Case) -> Run:
    """Put a case into an empty store; returns its run. Raises UsageError where its rows do not fit together."""
    title = case.title
    try:
        with store.write() as cursor:
            for session_id in dict.fromkeys(row.session_id for row in case.rows if isinstance(row, TapeRow)):
                ids: Json = {"conversation_id": title.conversation_id, "session_id": session_id}
                transcript.begin(cursor, **ids, project_dir="case")
            begun: Json = {"run_id": title.run_id, "kind": title.kind, "conversation_id": title.conversation_id}
            runs.begin(cursor, **begun, session_id=title.session_id, pid=0)
            for row in case.rows:
                _insert(cursor, title.run_id, row)
            ended: Json = {"outcome": title.outcome, "answer": title.answer, "reason": title.reason}
            runs.finish(cursor, run_id=title.run_id, exit_code=0, usage={}, **ended)
    except (sqlite3.Error, UnicodeError) as error:
        raise UsageError(f"the rows of the case do not fit together: {error}") from error
    found = runs.get(store, title.run_id)
    if found is None or not tape.sessions(store, title.run_id):
        raise UsageError("the case has no tape: there is nothing to play")
    return found


def _insert(cursor: sqlite3.Cursor, run_id: str, row: Any) -> None:
    match row:
        case TapeRow():
            tape.append(cursor, run_id, row.session_id, row.seq, row.items_json, row.seal)
        case TextRow():
            cursor.execute("INSERT INTO tape_texts(digest, text) VALUES (?, ?)", (row.digest, row.text))
        case EntryRow():
            _insert_entry(cursor, row)
        case CallRow():
            names, marks = ", ".join(row.__dict__), ", ".join("?" * len(row.__dict__))
            cursor.execute(f"INSERT INTO model_calls({names}) VALUES ({marks})", tuple(row.__dict__.values()))  # noqa: S608
        case _:
            cursor.execute(
                "INSERT INTO events(id, conversation_id, session_id, event_type, detail) VALUES (?, '', ?, ?, ?)",
                (row.id, row.session_id, row.event_type, row.detail),
            )


def _insert_entry(cursor: sqlite3.Cursor, row: EntryRow) -> None:
    cursor.execute(
        "INSERT INTO transcript_entries(session_id, sequence, entry_type, payload_json, tool_use_id)"
        " VALUES (?, ?, ?, ?, ?)",
        (row.session_id, row.sequence, row.entry_type, row.payload_json, row.tool_use_id),
    )
    if row.blocks_json is not None:
        cursor.execute(
            "INSERT INTO opaque_blocks(entry_id, blocks_json) VALUES (?, ?)", (cursor.lastrowid, row.blocks_json)
        )
