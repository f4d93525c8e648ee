"""A session's history read back from the store, and what an interruption left open made whole."""

from typing import Any

from adderclaw.agent.session.session import Session
from adderclaw.agent.tool_call.result import entry_of, framed_in, receipt
from adderclaw.config.paths import followed
from adderclaw.core.framing import Frame
from adderclaw.core.history import History
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import (
    Block,
    Json,
    MediaBlock,
    Message,
    OpaqueBlock,
    TaskEnd,
    TextBlock,
    ToolCall,
    ToolResult,
    ToolResultBlock,
    ToolUseBlock,
    rejected,
)
from adderclaw.sandbox.workspace import is_directory
from adderclaw.storage import Store, approvals, subagents, tasks, transcript
from adderclaw.storage.transcript import Entry
from adderclaw.tools import find, unwrapped

UNKNOWN = "Interrupted before it ended: the outcome is unknown. It was not run again. Look before you repeat it."
LOST = (
    "[Background task {id} ({title}) ended before this session was resumed: {status}."
    " What it printed is in {kept}/{id}.txt. Start it again if it is still needed.]"
)
ENDED = "[Background task {id} ({title}) ended before this session was resumed: {status}.]"
TOLD = ("background_task", "cut_off", "instructions", "hook")
"""Attachments that the model was told together with the results before them."""
NOT_RUN = "Not run: the turn was interrupted before this call began."


class StoredSession(NamedTuple):
    """A session as the store has it. `begun` calls have an intent but no result; `unbegun` have neither."""

    messages: list[Message]
    answered: list[Block]
    begun: tuple[ToolCall, ...]
    unbegun: tuple[ToolCall, ...]


def rewind(session: Session, to: int) -> None:
    """Go on as if nothing had been said from this entry on; the store keeps all of it."""
    session.tape.began("rewind", {"to": to})
    with session.store.write() as cursor:
        transcript.append(cursor, session.session_id, "system", {"subtype": "rewind", "to": to, "content": ""})
    session.state.history = History(read(session.store, session.session_id).messages)
    session.state.goal = goal_of(session.store, session.session_id)
    session.state.unfinished, session.state.answered = (), ()
    if session.instructions is not None:
        session.instructions.compacted(session.instructions.told_later - instructed(session.store, session.session_id))
    session.state.cached_tokens = 0
    session.scene.context.files_read.clear()


def last_boundary(entries: list[Entry]) -> Json | None:
    """Where the history was last compacted, if ever."""
    payloads = (entry.payload for entry in reversed(entries) if entry.entry_type == "system")
    return next((payload for payload in payloads if payload.get("subtype") == "compact_boundary"), None)


def boundary(entries: list[Entry]) -> int:
    """The sequence from which on entries are still told to the model as they are."""
    last = last_boundary(entries)
    return int(last["kept_from"]) if last is not None else 0


def goal_of(store: Store, session_id: str) -> str:
    """The goal that a session has by its entries: the last that still counts."""
    entries = transcript.live(transcript.entries(store, session_id))
    payloads = (entry.payload for entry in reversed(entries) if entry.entry_type == "system")
    return next((str(payload["content"]) for payload in payloads if payload.get("subtype") == "goal"), "")


def instructed(store: Store, session_id: str) -> set[str]:
    """The nested instruction files that the model has been told of, and still knows."""
    entries = transcript.live(transcript.entries(store, session_id))
    start = boundary(entries)
    return instructions_in([entry for entry in entries if entry.sequence >= start])


def instructions_in(entries: list[Entry]) -> set[str]:
    attached = [entry.payload["attachment"] for entry in entries if entry.entry_type == "attachment"]
    return {path for one in attached if one.get("type") == "instructions" for path in one["files"]}


def read(store: Store, session_id: str) -> StoredSession:
    entries = transcript.live(transcript.entries(store, session_id))
    opaque = transcript.opaque(store, session_id)
    compacted, start = last_boundary(entries), boundary(entries)
    messages: list[Message] = []
    open_calls: dict[str, ToolCall] = {}
    begun: set[str] = set()
    results: list[Block] = []
    if compacted is not None:
        messages.append(Message("user", (TextBlock(compacted["content"]),)))
    for entry in entries:
        if entry.sequence < start:
            continue
        match entry.entry_type:
            case "user" | "assistant":
                # a reply that was left behind: what nobody answered is answered here, since no provider takes less
                results += [ToolResultBlock(left, NOT_RUN, is_error=True) for left in open_calls]
                news: list[Block] = []
                if entry.entry_type == "user" and all(isinstance(block, TextBlock) for block in results):
                    news, results = results, []
                if results:
                    messages.append(Message("user", tuple(results)))
                    results = []
                begun = set()
                message = _message(entry.entry_type, entry.payload, opaque.get(entry.sequence, []), news)
                messages.append(message)
                open_calls = {block.call.id: block.call for block in message.blocks if isinstance(block, ToolUseBlock)}
            case "tool_use":
                begun.add(entry.payload["id"])
            case "tool_result":
                payload = entry.payload
                shown = media(opaque.get(entry.sequence, [])), _frame(payload)
                results.append(ToolResultBlock(payload["tool_use_id"], payload["content"], payload["is_error"], *shown))
                open_calls.pop(payload["tool_use_id"], None)
            case "attachment" if entry.payload["attachment"].get("type") in TOLD:
                results.append(TextBlock(entry.payload["attachment"]["content"]))
            case _:
                pass
    if results and not open_calls:
        messages.append(Message("user", tuple(results)))
        results = []
    left = tuple(open_calls.values())
    started = tuple(call for call in left if call.id in begun)
    return StoredSession(_joined(messages), results, started, tuple(call for call in left if call.id not in begun))


def never_ran(store: Store, session_id: str, tool_use_id: str) -> bool:
    """Whether an interruption came before a call began: then it can be made after all."""
    outcomes = transcript.outcomes_of(store, session_id, tool_use_id)
    return not outcomes or outcomes[0][0] == "not_run" or outcomes[0][1] == "limit"


def _joined(messages: list[Message]) -> list[Message]:
    """What a compaction carried over and the user's next message are one message: roles take turns."""
    if len(messages) > 1 and messages[0].role == messages[1].role == "user":
        return [Message("user", messages[0].blocks + messages[1].blocks), *messages[2:]]
    return messages


def media(kept: list[Json]) -> tuple[MediaBlock, ...]:
    found = (block for block in kept if block["type"] == "media")
    return tuple(MediaBlock(block["media_type"], block["data"], block["name"]) for block in found)


def _frame(payload: Json) -> Frame | None:
    """As the model was shown the result; none where it was words of our own, or is from before there were frames."""
    return Frame(*payload["frame"]) if "frame" in payload else None


def _message(role: Any, payload: Json, kept: list[Json], news: list[Block]) -> Message:
    """`news` is what the model was told together with the user's words."""
    opaque = (block for block in kept if block["type"] == "opaque")
    blocks: list[Block] = [*news, *(OpaqueBlock(block["wire"], block["payload"]) for block in opaque)]
    blocks += media(kept)
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
    """Fill a session's history. A begun call is reported as unknown, never run again; one that only asks, asks again.

    Calls that had not begun wait in `unfinished` when the turn goes on, and are closed when a new message comes.
    """
    if not session.agent_id:
        _return_to_place(session)
    session.state.goal = goal_of(session.store, session.session_id)
    session.state.lost = _lost(session)
    if session.instructions is not None:
        session.instructions.heard(instructed(session.store, session.session_id))
    kept = read(session.store, session.session_id)
    asks = tuple(call for call in kept.begun if go_on and _asks(session, call))
    answered = [*kept.answered, *(_close_begun(session, call) for call in kept.begun if call not in asks)]
    if not go_on:
        answered += [close_unbegun(session, call) for call in kept.unbegun]
    for message in kept.messages:
        session.state.history.append(message)
    if go_on:
        session.state.unfinished = (*asks, *kept.unbegun)
        session.state.asks_again.update(call.id for call in asks)
    session.state.answered = tuple(answered)
    if answered and not session.state.unfinished:
        session.state.history.append(Message("user", session.state.answered))
        session.state.answered = ()


def _asks(session: Session, call: ToolCall) -> bool:
    """Whether a call does nothing but ask a person: to ask again repeats nothing, and its row has the answer."""
    found = find(session.scene.tools, unwrapped(call).name)
    return found is not None and found[0].traits.asks


def _lost(session: Session) -> tuple[TaskEnd, ...]:
    """Background tasks end with the process that ran them: what the model has not heard yet, it hears now."""
    rows = tasks.untold(session.store, session.session_id)
    if not rows:
        return ()
    with session.store.write() as cursor:
        for row in rows:
            if row.status == "running":
                tasks.end(cursor, row.id, "lost", "ended with the process that ran it")
    kept = session.scene.context.outputs_folder
    ended = [row if row.status != "running" else row._replace(status="lost") for row in rows]
    return tuple(TaskEnd(row.id, row.status, _of_end(row, kept), row.result) for row in ended)


def _of_end(row: tasks.Row, kept: str) -> str:
    return ENDED.format(**row._asdict()) if row.result else LOST.format(**row._asdict(), kept=kept)


def _return_to_place(session: Session) -> None:
    """The shell goes on in the directory that it was in, if that is still one of the workspace."""
    workspace = session.scene.context.workspace
    cwd = transcript.state(session.store, session.conversation_id, "cwd")
    kept = followed(cwd) if cwd else ""
    roots = (workspace.root, *workspace.extra)
    if kept and is_directory(kept) and any(kept == root or kept.startswith(f"{root}/") for root in roots):
        workspace.cwd = session.state.kept_cwd = kept


def _close_begun(session: Session, call: ToolCall) -> ToolResultBlock:
    """A call whose outcome is unknown; unless it began a subagent that had ended before the interruption."""
    child = subagents.of_call(session.store, session.session_id, call.id)
    if child is None:
        return _close(session, call, rejected(UNKNOWN, "unknown"), begun=True)
    if child.outcome is None:
        with session.store.write() as cursor:
            subagents.finish(cursor, child.session_id, "stopped", "", subagents.INTERRUPTED)
        told = f"{UNKNOWN} (The subagent's session: {child.session_id})"
        return _close(session, call, rejected(told, "unknown"), begun=True)
    if child.outcome == "completed":
        return _close(session, call, ToolResult(child.answer), begun=True)
    ended = f"The subagent ended: {child.outcome}: {child.reason}\n{child.answer}"
    return _close(session, call, rejected(ended, own=False), begun=True)


def close_unbegun(session: Session, call: ToolCall) -> ToolResultBlock:
    """Record that an interruption came before a call began."""
    return _close(session, call, rejected(NOT_RUN, "not_run"), begun=False)


def _close(session: Session, call: ToolCall, result: ToolResult, *, begun: bool) -> ToolResultBlock:
    """Give an interrupted call its one result and its one receipt."""
    call = unwrapped(call)
    result = framed_in(session, session.scene.shortened(result))

    def rows(cursor: Any) -> None:
        if not begun:
            use: Json = {"id": call.id, "name": call.name, "input": call.input}
            transcript.append(cursor, session.session_id, "tool_use", use, call.id)
        entry = {**entry_of(call, result), "resumed": True}
        transcript.append(cursor, session.session_id, "tool_result", entry, call.id)

    how: Json = {"verdict": "allow" if begun else "deny", "by": "resume", "reason": "interrupted"}
    if begun and (used := approvals.used_by_call(session.store, session.session_id, call.id)):
        how["approval_id"] = used
    status = "denied" if not begun else "failed" if result.is_error else "allowed"
    receipt(session, call, "medium", result, status, how, rows, after_crash=begun)
    return ToolResultBlock(call.id, result.content, result.is_error, frame=result.frame)
