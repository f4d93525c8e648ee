"""The message log of a conversation: one line per message, with its turn, its calls and its model."""

from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json
from adderclaw.storage import Store
from adderclaw.storage.text import parse_row


class Line(NamedTuple):
    """A message of the user or the model, or a result of a tool."""

    conversation_id: str
    turn_id: str | None
    timestamp: str
    role: str
    content: str
    tool_calls: list[Json]
    tool_results: list[Json]
    provider: str | None
    model: str | None
    metadata: Json


def of_conversation(store: Store, conversation_id: str) -> dict[int, Line]:
    """The lines of a conversation in order, by the ids of their transcript entries."""
    rows = store.read(
        f"SELECT json_extract(metadata, '$.entry_id'), {', '.join(Line._fields)} FROM memory_log"  # noqa: S608
        " WHERE conversation_id = ? ORDER BY 1",
        (conversation_id,),
    )
    return {row[0]: _line(*tuple(row)) for row in rows}


def _line(entry_id: int, *fields: object) -> Line:
    line = Line(*fields)  # pyright: ignore[reportArgumentType]
    calls, done, about = (
        parse_row(str(text), f"memory_log of entry {entry_id}")
        for text in (line.tool_calls, line.tool_results, line.metadata)
    )
    return line._replace(tool_calls=calls, tool_results=done, metadata=about)


def last_turn(store: Store, session_id: str) -> str:
    """The current turn of a session; empty if it has none."""
    rows = store.read(
        "SELECT turn_id FROM turns WHERE session_id = ? ORDER BY first_sequence DESC LIMIT 1", (session_id,)
    )
    return str(rows[0][0]) if rows else ""
