"""How a tool call leaves, whatever became of it: one result for the model, one receipt, in one transaction."""

from collections.abc import Callable
from dataclasses import replace
from sqlite3 import Cursor
from typing import Literal

from adderclaw.agent.session.session import Session
from adderclaw.agent.tool_call.hooks import CallRecord
from adderclaw.agent.tool_call.permission_check import PreparedCall
from adderclaw.core.framing import Frame, shorten
from adderclaw.core.history import media_json
from adderclaw.core.json_text import digest
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import ErrorClass, Json, Risk, ToolCall, ToolResult
from adderclaw.storage import permissions, transcript
from adderclaw.storage.ledger.chain import ReceiptDraft, Status
from adderclaw.storage.text import plain


class Done(NamedTuple):
    result: ToolResult
    denied: bool
    stop: str | None = None
    """A hook ends the turn, for this reason."""


def intent(session: Session, cursor: Cursor, considered: PreparedCall, how: Json) -> None:
    call = considered.call
    if call.id in session.state.asks_again:
        session.state.asks_again.discard(call.id)
    else:
        use = {"id": call.id, "name": call.name, "input": call.input}
        transcript.append(cursor, session.session_id, "tool_use", use, call.id)
    if not session.config.security.audit_log and how["verdict"] == "allow":
        return
    name = considered.tool.name if considered.tool else call.name
    permissions.log(
        cursor,
        session_id=session.session_id,
        tool_use_id=call.id,
        tool_name=name,
        decision=how["verdict"],
        reason=how,
    )


def record_result(
    session: Session,
    considered: PreparedCall,
    result: ToolResult,
    status: Status,
    how: Json,
    life: CallRecord,
    took_ms: float | None = None,
) -> Done:
    """Record the call and its result, with its receipt and its hooks' rows, in one transaction; then tell."""
    life.earlier()
    call = considered.call
    result = _scrubbed(session, result)
    if took_ms is None:  # what ran is cut already, and its whole kept
        result = clipped(result)
    result = _warned(session, call, _scrubbed(session, life.with_hook_output(framed_in(session, result))))
    ran = took_ms is not None or (status == "failed" and considered.error is None)

    def rows(cursor: Cursor) -> None:
        if not ran:
            intent(session, cursor, considered, how)
        sequence = transcript.append(cursor, session.session_id, "tool_result", entry_of(call, result), call.id)
        if result.media:
            transcript.keep_opaque(cursor, session.session_id, sequence, media_json(result.media))
        session.keep_place(cursor)
        session.keep_spent(cursor)
        for write in life.rows:
            write(cursor)
        if life.keep is not None:
            life.keep(cursor, result, status == "denied")

    receipt_id = receipt(session, call, considered.decision.risk, result, status, how, rows)
    _tell(session, considered, result, status, how, took_ms or 0.0)
    life.done = Done(replace(result, receipt_id=receipt_id), status == "denied", life.stop)
    return life.done


def clipped(result: ToolResult) -> ToolResult:
    """What was not run has its limit, too; no file keeps such words, so that a replay comes to the same."""
    content = shorten(result.content)
    return result if content == result.content else replace(result, content=content)


def framed_in(session: Session, result: ToolResult) -> ToolResult:
    """What came from outside gets its mark; ids come out the same in a replay, and nobody outside knows the next."""
    if result.own or not result.content:
        return result
    mark = session.ids("frame").rpartition("-")[2]
    return replace(result, frame=Frame(mark, len(result.content)))


def entry_of(call: ToolCall, result: ToolResult) -> Json:
    """A result as the transcript keeps it: bare, and how it is framed for the model."""
    payload: Json = {"tool_use_id": call.id, "content": result.content, "is_error": result.is_error}
    payload["outcome"] = result.outcome
    if result.denial is not None:
        payload["denied_by"] = result.denial.kind
    if result.diff:
        payload["diff"] = result.diff
    return payload if result.frame is None else {**payload, "frame": list(result.frame)}


def _warned(session: Session, call: ToolCall, result: ToolResult) -> ToolResult:
    """A model that goes in circles is told so, in the result that it sees and that is recorded."""
    session.state.loops.saw(call, result)
    if not session.state.loops.warns:
        return result
    repeats = session.state.loops.repeats
    session.bus.publish({"event_type": "loop_warning", "tool": call.name, "repeats": repeats})
    note = f"[The same call gave this same result {repeats} times. Do something else.]"
    return replace(result, content=f"{result.content}\n{note}")


def receipt(
    session: Session,
    call: ToolCall,
    risk: Risk,
    result: ToolResult,
    status: Status,
    how: Json,
    rows: Callable[[Cursor], None],
    *,
    after_crash: bool = False,
) -> str | None:
    """Append the call's one receipt with the rows of its result; None where receipts are off."""
    if session.ledger is None:
        with session.store.write() as cursor:
            rows(cursor)
        return None
    content = plain(result.content)  # as the transcript keeps it, so that the two can be compared
    draft = ReceiptDraft(
        conversation_id=session.conversation_id,
        session_id=session.session_id,
        tool_use_id=call.id,
        tool=call.name,
        args_hash=digest(call.arguments if call.arguments is not None else call.raw),
        result_hash=digest([content, *media_json(result.media)] if result.media else content),
        status=status,
        risk=risk,
        decision=how,
        run_id=session.bus.run_id,
    )
    written = session.ledger.adopt(draft, rows) if after_crash else None
    written = written or session.ledger.append(draft, rows)
    session.bus.publish_soon(
        {
            "event_type": "receipt_written",
            "receipt_id": written.id,
            "seq": written.seq,
            "status": written.status,
            "tool": call.name,
        }
    )
    return written.id


def _tell(
    session: Session, considered: PreparedCall, result: ToolResult, status: Status, how: Json, took_ms: float
) -> None:
    name, use = considered.call.name, considered.call.id
    if status == "denied":
        risk = considered.decision.risk
        session.bus.publish(
            {
                "event_type": "tool_denied",
                "tool": name,
                "tool_use_id": use,
                "risk": risk,
                "by": how["by"],
                "reason": how["reason"],
            }
        )
    elif status == "failed":
        kind: ErrorClass = result.error_class
        session.bus.publish(
            {
                "event_type": "tool_failed",
                "tool": name,
                "tool_use_id": use,
                "duration_ms": round(took_ms, 2),
                "error_class": kind,
                "error": result.content[:200],
            }
        )
    else:
        returned: dict[Literal["exit_code"], int] = {"exit_code": how["exit_code"]} if "exit_code" in how else {}
        session.bus.publish_soon(
            {
                "event_type": "tool_completed",
                "tool": name,
                "tool_use_id": use,
                "duration_ms": round(took_ms, 2),
                "bytes": len(result.content),
                **returned,
            }
        )


def _scrubbed(session: Session, result: ToolResult) -> ToolResult:
    content, diff = session.secrets.scrub(result.content), session.secrets.scrub(result.diff)
    unchanged = content == result.content and diff == result.diff
    return result if unchanged else replace(result, content=content, diff=diff)
