"""Restores a session's history from the store and closes the calls that an interruption left open."""

from typing import Any

from adderclaw.agent.session.session import Session
from adderclaw.agent.tool_call.result import frame_result, result_entry, write_receipt
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
from adderclaw.tools import find_tool, unwrap_call

UNKNOWN = "Interrupted before it ended: the outcome is unknown. It was not run again. Look before you repeat it."
TASK_LOST = (
    "[Background task {id} ({title}) ended before this session was resumed: {status}."
    " What it printed is in {kept}/{id}.txt. Start it again if it is still needed.]"
)
TASK_ENDED = "[Background task {id} ({title}) ended before this session was resumed: {status}.]"
ATTACHMENTS_FOR_MODEL = ("background_task", "cut_off", "instructions", "hook")
"""Types of attachments that are sent to the model together with the results before them."""
NOT_RUN = "Not run: the turn was interrupted before this call began."


class StoredSession(NamedTuple):
    """A session as it is stored. `begun` calls have an intent but no result; `unbegun` calls have neither."""

    messages: list[Message]
    answered: list[Block]
    begun: tuple[ToolCall, ...]
    unbegun: tuple[ToolCall, ...]


def rewind_to(session: Session, to: int) -> None:
    """Continue as if the conversation ended before this entry. The later entries stay in the store."""
    session.tape.begin_operation("rewind", {"to": to})
    with session.store.write() as cursor:
        transcript.append(cursor, session.session_id, "system", {"subtype": "rewind", "to": to, "content": ""})
    session.state.history = History(read_session(session.store, session.session_id).messages)
    session.state.goal = goal_of(session.store, session.session_id)
    session.state.unfinished, session.state.answered_blocks = (), ()
    if session.instructions is not None:
        session.instructions.forget(
            session.instructions.told_later - known_instruction_files(session.store, session.session_id)
        )
    session.state.cached_tokens = 0
    session.environment.context.files_read.clear()


def last_boundary(entries: list[Entry]) -> Json | None:
    """The boundary entry of the last compaction; None if the history was never compacted."""
    payloads = (entry.payload for entry in reversed(entries) if entry.entry_type == "system")
    return next((payload for payload in payloads if payload.get("subtype") == "compact_boundary"), None)


def boundary(entries: list[Entry]) -> int:
    """The sequence of the first entry that is still sent to the model unchanged."""
    last = last_boundary(entries)
    return int(last["kept_from"]) if last is not None else 0


def goal_of(store: Store, session_id: str) -> str:
    """The current goal of a session, from its last goal entry; empty if there is none."""
    entries = transcript.without_rewound(transcript.entries(store, session_id))
    payloads = (entry.payload for entry in reversed(entries) if entry.entry_type == "system")
    return next((str(payload["content"]) for payload in payloads if payload.get("subtype") == "goal"), "")


def known_instruction_files(store: Store, session_id: str) -> set[str]:
    """The nested instruction files that are still in the history that the model sees."""
    entries = transcript.without_rewound(transcript.entries(store, session_id))
    start = boundary(entries)
    return instruction_files_in([entry for entry in entries if entry.sequence >= start])


def instruction_files_in(entries: list[Entry]) -> set[str]:
    attached = [entry.payload["attachment"] for entry in entries if entry.entry_type == "attachment"]
    return {path for attachment in attached if attachment.get("type") == "instructions" for path in attachment["files"]}


def read_session(store: Store, session_id: str) -> StoredSession:
    entries = transcript.without_rewound(transcript.entries(store, session_id))
    opaque = transcript.opaque_blocks(store, session_id)
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
                # calls of an abandoned reply get a result here: providers reject a call without one
                results += [ToolResultBlock(call_id, NOT_RUN, is_error=True) for call_id in open_calls]
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
                shown = media_blocks(opaque.get(entry.sequence, [])), _frame(payload)
                results.append(ToolResultBlock(payload["tool_use_id"], payload["content"], payload["is_error"], *shown))
                open_calls.pop(payload["tool_use_id"], None)
            case "attachment" if entry.payload["attachment"].get("type") in ATTACHMENTS_FOR_MODEL:
                results.append(TextBlock(entry.payload["attachment"]["content"]))
            case _:
                pass
    if results and not open_calls:
        messages.append(Message("user", tuple(results)))
        results = []
    unfinished = tuple(open_calls.values())
    started = tuple(call for call in unfinished if call.id in begun)
    return StoredSession(
        _join_user_messages(messages), results, started, tuple(call for call in unfinished if call.id not in begun)
    )


def never_ran(store: Store, session_id: str, tool_use_id: str) -> bool:
    """Whether a call was interrupted before it began, so that it can still be run."""
    outcomes = transcript.outcomes_of(store, session_id, tool_use_id)
    return not outcomes or outcomes[0][0] == "not_run" or outcomes[0][1] == "limit"


def _join_user_messages(messages: list[Message]) -> list[Message]:
    """Join the compaction summary with the user's next message, since roles must alternate."""
    if len(messages) > 1 and messages[0].role == messages[1].role == "user":
        return [Message("user", messages[0].blocks + messages[1].blocks), *messages[2:]]
    return messages


def media_blocks(stored: list[Json]) -> tuple[MediaBlock, ...]:
    blocks = (block for block in stored if block["type"] == "media")
    return tuple(MediaBlock(block["media_type"], block["data"], block["name"]) for block in blocks)


def _frame(payload: Json) -> Frame | None:
    """The frame of a stored result; None for AdderClaw's own messages and for entries without a frame."""
    return Frame(*payload["frame"]) if "frame" in payload else None


def _message(role: Any, payload: Json, opaque_json: list[Json], news: list[Block]) -> Message:
    """A stored message. `news`: blocks sent with the user's message, such as the ends of background tasks."""
    opaque = (block for block in opaque_json if block["type"] == "opaque")
    blocks: list[Block] = [*news, *(OpaqueBlock(block["wire"], block["payload"]) for block in opaque)]
    blocks += media_blocks(opaque_json)
    for block in payload["content"]:
        match block["type"]:
            case "text":
                blocks.append(TextBlock(block["text"]))
            case "tool_use":
                blocks.append(ToolUseBlock(ToolCall(block["id"], block["name"], block["input"])))
            case _:
                pass
    return Message(role, tuple(blocks))


def restore_session(session: Session, *, go_on: bool) -> None:
    """Fill a session's history. A begun call is reported as unknown and never run again, unless it only asks a person.

    Calls that had not begun wait in `unfinished` if the turn continues, and are closed if a new message comes.
    """
    if not session.agent_id:
        # Continue in the shell's last directory if it is still in the workspace.
        workspace = session.environment.context.workspace
        cwd = transcript.state(session.store, session.conversation_id, "cwd")
        directory = followed(cwd) if cwd else ""
        roots = (workspace.root, *workspace.extra)
        if (
            directory
            and is_directory(directory)
            and any(directory == root or directory.startswith(f"{root}/") for root in roots)
        ):
            workspace.cwd = session.state.stored_cwd = directory
    session.state.goal = goal_of(session.store, session.session_id)
    session.state.lost_tasks = _end_lost_tasks(session)
    if session.instructions is not None:
        session.instructions.mark_told(known_instruction_files(session.store, session.session_id))
    stored = read_session(session.store, session.session_id)
    asks = tuple(call for call in stored.begun if go_on and _only_asks(session, call))
    answered = [*stored.answered, *(_close_begun_call(session, call) for call in stored.begun if call not in asks)]
    if not go_on:
        answered += [close_unbegun_call(session, call) for call in stored.unbegun]
    for message in stored.messages:
        session.state.history.append(message)
    if go_on:
        session.state.unfinished = (*asks, *stored.unbegun)
        session.state.asks_again.update(call.id for call in asks)
    session.state.answered_blocks = tuple(answered)
    if answered and not session.state.unfinished:
        session.state.history.append(Message("user", session.state.answered_blocks))
        session.state.answered_blocks = ()


def _only_asks(session: Session, call: ToolCall) -> bool:
    """Whether a call only asks a person. Asking again has no side effect, and its row may have the answer."""
    tool_and_alias = find_tool(session.environment.tools, unwrap_call(call).name)
    return tool_and_alias is not None and tool_and_alias[0].traits.asks


def _end_lost_tasks(session: Session) -> tuple[TaskEnd, ...]:
    """Mark background tasks of the ended process as lost, and return those that the model does not know about."""
    rows = tasks.unreported(session.store, session.session_id)
    if not rows:
        return ()
    with session.store.write() as cursor:
        for row in rows:
            if row.status == "running":
                tasks.end(cursor, row.id, "lost", "ended with the process that ran it")
    folder = session.environment.context.outputs_folder
    ended = [row if row.status != "running" else row._replace(status="lost") for row in rows]
    return tuple(TaskEnd(row.id, row.status, _task_end_text(row, folder), row.result) for row in ended)


def _task_end_text(row: tasks.Row, folder: str) -> str:
    return TASK_ENDED.format(**row._asdict()) if row.result else TASK_LOST.format(**row._asdict(), kept=folder)


def _close_begun_call(session: Session, call: ToolCall) -> ToolResultBlock:
    """Close a call with an unknown outcome, or with its subagent's result if that had ended before."""
    child = subagents.of_call(session.store, session.session_id, call.id)
    if child is None:
        return _record_interrupted_call(session, call, rejected(UNKNOWN, "unknown"), begun=True)
    if child.outcome is None:
        with session.store.write() as cursor:
            subagents.finish(cursor, child.session_id, "stopped", "", subagents.INTERRUPTED)
        message = f"{UNKNOWN} (The subagent's session: {child.session_id})"
        return _record_interrupted_call(session, call, rejected(message, "unknown"), begun=True)
    if child.outcome == "completed":
        return _record_interrupted_call(session, call, ToolResult(child.answer), begun=True)
    ended = f"The subagent ended: {child.outcome}: {child.reason}\n{child.answer}"
    return _record_interrupted_call(session, call, rejected(ended, own=False), begun=True)


def close_unbegun_call(session: Session, call: ToolCall) -> ToolResultBlock:
    """Record that an interruption came before a call began."""
    return _record_interrupted_call(session, call, rejected(NOT_RUN, "not_run"), begun=False)


def _record_interrupted_call(session: Session, call: ToolCall, result: ToolResult, *, begun: bool) -> ToolResultBlock:
    """Record the one result and the one receipt of an interrupted call."""
    call = unwrap_call(call)
    result = frame_result(session, session.environment.shorten(result))

    def rows(cursor: Any) -> None:
        if not begun:
            use: Json = {"id": call.id, "name": call.name, "input": call.input}
            transcript.append(cursor, session.session_id, "tool_use", use, call.id)
        entry = {**result_entry(call, result), "resumed": True}
        transcript.append(cursor, session.session_id, "tool_result", entry, call.id)

    how: Json = {"verdict": "allow" if begun else "deny", "by": "resume", "reason": "interrupted"}
    if begun and (used := approvals.used_by_call(session.store, session.session_id, call.id)):
        how["approval_id"] = used
    status = "denied" if not begun else "failed" if result.is_error else "allowed"
    write_receipt(session, call, "medium", result, status, how, rows, after_crash=begun)
    return ToolResultBlock(call.id, result.content, result.is_error, frame=result.frame)
