"""The mirror of the receipts of the chain in use: by what they are about, the newest first."""

import json

from adderclaw.record import NamedTuple
from adderclaw.store import Store
from adderclaw.store.chain import Broken, check
from adderclaw.types import Json


class Wanted(NamedTuple):
    """What receipts are looked for by; None: any."""

    tool: str | None = None
    status: str | None = None
    risk: str | None = None
    conversation: str | None = None
    session: str | None = None
    run: str | None = None
    before: int | None = None
    """Only with a lower number."""


class Mirrored(NamedTuple):
    seq: int
    line: str
    session_id: str | None
    tool_use_id: str | None
    run_id: str | None


_IN_LINE = {"tool": "tool", "status": "status", "risk": "risk", "conversation": "conversation_id"}


def listing(store: Store, wanted: Wanted, limit: int) -> list[Mirrored]:
    where, given = ["archive = ''"], list[object]()
    for name, field in _IN_LINE.items():
        if (value := getattr(wanted, name)) is not None:
            # A row that somebody changed may be no JSON: it is then none that was looked for, and no error.
            where.append(f"CASE WHEN json_valid(line) THEN json_extract(line, '$.{field}') END = ?")
            given.append(value)
    for column, value in (("session_id = ?", wanted.session), ("run_id = ?", wanted.run), ("seq < ?", wanted.before)):
        if value is not None:
            where.append(column)
            given.append(value)
    sql = "SELECT seq, line, session_id, tool_use_id, run_id FROM receipts WHERE "
    rows = store.read(f"{sql}{' AND '.join(where)} ORDER BY seq DESC LIMIT ?", (*given, limit))
    return [Mirrored(*row) for row in rows]


def read(one: Mirrored, key: bytes | None) -> tuple[Json, str]:
    """What a receipt says, and what is wrong with it, or nothing."""
    try:
        if key is None:
            raise Broken("the key is gone, so that no receipt can be told from a forged one")
        return check(one.line.encode("utf-8", "replace"), seq=one.seq, previous_hash=None, key=key)._asdict(), ""
    except Broken as broken:
        try:
            said: object = json.loads(one.line)
        except (ValueError, RecursionError):
            said = None
        return (said if isinstance(said, dict) else {}), str(broken)  # pyright: ignore[reportUnknownVariableType]
