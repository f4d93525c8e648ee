"""Conversations for lists and status lines: names, the latest step, usage, and search in their messages."""

from collections.abc import Sequence
from typing import TypedDict

from adderclaw.agent.queries import clean, reading
from adderclaw.agent.view.items import Call
from adderclaw.agent.view.rows import Rows
from adderclaw.config.legacy.options import Options
from adderclaw.core.record import NamedTuple
from adderclaw.storage import Store, transcript
from adderclaw.storage.queries import conversations


class Used(NamedTuple):
    calls: int
    tokens: int
    cost: float
    model: str


class Step(NamedTuple):
    """What a session is doing now."""

    words: str
    call: Call | None = None
    is_asking: bool = False
    """Whether it is waiting for the operator's answer."""


def title(store: Store, id: str) -> str:
    """A conversation's name, or the beginning of its first message."""
    if name := transcript.title(store, id):
        return name
    first = conversations.first_message(store, id)
    return transcript.beginning(first) if first else ""


def step(store: Store, session_id: str, folder: str) -> Step | None:
    """What a session is doing, according to its latest entry; None if it waits for the next message."""
    entry = conversations.latest_entry_type(store, session_id)
    if entry is None:
        return None
    kind, tool_use_id = entry
    if kind == "tool_use":
        return Step("runs a tool", Rows(store, clean, folder).call(session_id, str(tool_use_id)))
    return Step("waits for the model") if kind in ("user", "tool_result") else None


def used(store: Store, id: str) -> Used:
    count, tokens_in, tokens_out, model, cost = conversations.usage(store, id)
    return Used(count, int(tokens_in or 0) + int(tokens_out or 0), float(cost or 0), clean(str(model or "")))


class HitRow(TypedDict):
    conversation_id: str
    session_id: str
    entry_id: int
    role: str
    snippet: str
    score: float
    created_at: str
    """In UTC."""


def search(options: Options, query: str, limit: int = 10, projects: Sequence[str] | None = None) -> list[HitRow]:
    """Search the messages of earlier conversations, best and most recent first. `projects`: only these folders."""
    with reading(options) as store:
        return [clean(hit._asdict()) for hit in transcript.search(store, query, limit, projects)]
