"""What a list of conversations and a status line say: names, the latest entry, what a conversation used."""

from adderclaw.agent.queries import clean
from adderclaw.agent.view.items import Call
from adderclaw.agent.view.rows import Rows
from adderclaw.core.record import NamedTuple
from adderclaw.storage import Store, transcript
from adderclaw.storage.queries import conversations


class Used(NamedTuple):
    calls: int
    tokens: int
    cost: float
    model: str


class Step(NamedTuple):
    """What a session does now."""

    words: str
    call: Call | None = None
    is_asking: bool = False
    """Whether it waits for the operator's answer."""


def title(store: Store, id: str) -> str:
    """Its name, or the beginning of its first message."""
    if name := transcript.title(store, id):
        return name
    first = conversations.first_message(store, id)
    return transcript.beginning(first) if first else ""


def step(store: Store, session_id: str, folder: str) -> Step | None:
    """What a session does, by its latest entry; None if it waits for the next message."""
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
