"""A session's history read back from the store, and what an interruption left open made whole."""

from typing import Any, NamedTuple

from adderclaw.kernel.call import receipt
from adderclaw.kernel.session import Session
from adderclaw.store import Store, transcript
from adderclaw.types import (
    Block,
    Json,
    Message,
    OpaqueBlock,
    TextBlock,
    ToolCall,
    ToolResultBlock,
    ToolUseBlock,
    rejected,
)

UNKNOWN = "Interrupted before it ended: the outcome is unknown. It was not run again. Look before you repeat it."
NOT_RUN = "Not run: the turn was interrupted before this call began."


class Kept(NamedTuple):
    """A session as the store has it. `begun` calls have an intent but no result; `unbegun` have neither."""

    messages: list[Message]
    answered: list[Block]
    begun: tuple[ToolCall, ...]
    unbegun: tuple[ToolCall, ...]


def read(store: Store, session_id: str) -> Kept:
    messages: list[Message] = []
    open_calls: dict[str, ToolCall] = {}
    begun: set[str] = set()
    results: list[Block] = []
    opaque = transcript.opaque(store, session_id)
    for entry in transcript.entries(store, session_id):
        match entry.entry_type:
            case "user" | "assistant":
                if results:
                    messages.append(Message("user", tuple(results)))
                    results = []
                message = _message(entry.entry_type, entry.payload, opaque.get(entry.sequence, []))
                messages.append(message)
                open_calls = {block.call.id: block.call for block in message.blocks if isinstance(block, ToolUseBlock)}
            case "tool_use":
                begun.add(entry.payload["id"])
            case "tool_result":
                payload = entry.payload
                results.append(ToolResultBlock(payload["tool_use_id"], payload["content"], payload["is_error"]))
                open_calls.pop(payload["tool_use_id"], None)
            case _:
                pass
    if results and not open_calls:
        messages.append(Message("user", tuple(results)))
        results = []
    left = tuple(open_calls.values())
    started = tuple(call for call in left if call.id in begun)
    return Kept(messages, results, started, tuple(call for call in left if call.id not in begun))


def _message(role: Any, payload: Json, opaque: list[Json]) -> Message:
    blocks: list[Block] = [OpaqueBlock(block["wire"], block["payload"]) for block in opaque]
    for block in payload["content"]:
        match block["type"]:
            case "text":
                blocks.append(TextBlock(block["text"]))
            case "tool_use":
                blocks.append(ToolUseBlock(ToolCall(block["id"], block["name"], block["input"])))
            case _:
                pass
    return Message(role, tuple(blocks))


def restore(session: Session, *, go_on: bool) -> None:
    """Fill a session's history. A begun call is reported as unknown, never run again.

    Calls that had not begun wait in `unfinished` when the turn goes on, and are closed when a new message comes.
    """
    kept = read(session.store, session.session_id)
    answered = [*kept.answered, *(_close(session, call, UNKNOWN, begun=True) for call in kept.begun)]
    if not go_on:
        answered += [_close(session, call, NOT_RUN, begun=False) for call in kept.unbegun]
    for message in kept.messages:
        session.history.append(message)
    if go_on:
        session.unfinished = kept.unbegun
    session.answered = tuple(answered)
    if answered and not session.unfinished:
        session.history.append(Message("user", session.answered))
        session.answered = ()


def _close(session: Session, call: ToolCall, text: str, *, begun: bool) -> ToolResultBlock:
    """Give an interrupted call its one result and its one receipt."""
    result = rejected(text)

    def rows(cursor: Any) -> None:
        payload: Json = {"tool_use_id": call.id, "content": text, "is_error": True}
        if not begun:
            use: Json = {"id": call.id, "name": call.name, "input": call.input}
            transcript.append(cursor, session.session_id, "tool_use", use, call.id)
        transcript.append(cursor, session.session_id, "tool_result", payload, call.id)

    how: Json = {"verdict": "allow" if begun else "deny", "by": "resume", "reason": "interrupted"}
    receipt(session, call, "medium", result, "failed" if begun else "denied", how, rows, after_crash=begun)
    return ToolResultBlock(call.id, text, is_error=True)
