"""The occasions of a session at which hooks may speak, beside its tool calls."""

import os
from collections.abc import Sequence

from adderclaw.kernel import watching
from adderclaw.kernel.session import Session, told
from adderclaw.types import Block, Merged, ToolCall, ToolResultBlock

STOP_BLOCKS = 8
"""How often in a row a Stop hook may send the model back to work."""


def _hear(session: Session, event: str, merged: Merged) -> None:
    if merged.context:
        session.due.append(told(event, merged.context))


async def begin(session: Session) -> None:
    """SessionStart, once: what its hooks say goes to the model with the user's first message."""
    source, session.began = session.began, ""
    if not source or session.depth:
        return
    merged = await session.fire("SessionStart", {"source": source, "model": session.model})
    _hear(session, "SessionStart", merged)
    watching.heard(session, merged)
    if first := merged.specific.get("initialUserMessage"):
        session.due.insert(0, str(first))


async def submitted(session: Session, message: str) -> str | None:
    """UserPromptSubmit: why the message is refused, if it is; then it leaves no trace in the conversation."""
    if session.depth or not session.hooks:
        return None
    await begin(session)
    await _look_at_settings(session)
    merged = await session.fire("UserPromptSubmit", {"prompt": message})
    if merged.blocked:
        return merged.reason
    if merged.stop is not None:
        return merged.stop or "a UserPromptSubmit hook ended the turn"
    _hear(session, "UserPromptSubmit", merged)
    return None


async def stopping(session: Session, text: str, blocks: int) -> str | None:
    """Stop: what sends the model back to work, if anything does."""
    if session.depth or "Stop" not in session.hooks or session.scene.stopped():
        return None
    fields = {"stop_hook_active": blocks > 0, "last_assistant_message": text}
    merged = await session.fire("Stop", fields)
    if not merged.blocked or merged.stop is not None:
        return None
    if blocks >= STOP_BLOCKS:
        message = f"a Stop hook blocked {STOP_BLOCKS} times in a row: the turn ends all the same"
        session.bus.tell({"event_type": "warning", "message": message})
        return None
    return told("Stop", [merged.reason])


async def batch(
    session: Session, calls: tuple[ToolCall, ...], results: Sequence[Block], halted: str | None
) -> str | None:
    """PostToolBatch: all calls of one reply have ended. Says why the turn ends, if it does."""
    ended = {block.tool_use_id: block.content for block in results if isinstance(block, ToolResultBlock)}
    listed = [
        {"tool_name": call.name, "tool_input": call.input, "tool_use_id": call.id, "tool_response": ended[call.id]}
        for call in calls
    ]
    merged = await session.fire("PostToolBatch", {"tool_calls": listed})
    _hear(session, "PostToolBatch", merged)
    stop = merged.reason if merged.blocked else merged.stop
    return stop if halted is None else halted


async def failed(session: Session, error: str, details: str, text: str) -> None:
    """StopFailure: a model call failed, and with it the turn."""
    if session.depth or "StopFailure" not in session.hooks:
        return
    fields = {"error": error, "error_details": details}
    await session.fire("StopFailure", fields | ({"last_assistant_message": text} if text else {}))


# ------------------------------------------------------------------ settings that change while a session runs


async def _look_at_settings(session: Session) -> None:
    """ConfigChange: the session keeps the settings that it began with; a changed file counts from the next one on."""
    if "ConfigChange" not in session.hooks:
        return
    for path, (source, before) in session.settings_files.items():
        now = stamp(path)
        if now == before:
            continue
        session.settings_files[path] = (source, now)
        merged = await session.fire("ConfigChange", {"source": source, "file_path": path})
        blocked = f"; a hook objects: {merged.reason}" if merged.blocked else ""
        message = f"{path} has changed; that counts from the next session on{blocked}"
        session.bus.tell({"event_type": "warning", "message": message})


def stamp(path: str) -> tuple[int, int] | None:
    """What a file looks like from outside; None where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
