"""Records a tool call while it runs, and its end: one result for the model and one receipt, in one transaction."""

from collections.abc import Callable
from dataclasses import replace
from sqlite3 import Cursor
from typing import Literal

from adderclaw.agent.session.session import Rows, Session, hook_text
from adderclaw.agent.tool_call.permission_check import PreparedCall
from adderclaw.core.framing import Frame, shorten
from adderclaw.core.history import media_json
from adderclaw.core.host import HookOutcome
from adderclaw.core.json_text import digest
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import ErrorClass, Json, Risk, ToolCall, ToolResult
from adderclaw.storage import transcript
from adderclaw.storage.ledger.chain import ReceiptDraft, Status
from adderclaw.storage.text import plain


class FinishedCall(NamedTuple):
    result: ToolResult
    denied: bool
    stop: str | None = None
    """The reason if a hook ends the turn."""


type SaveOutcome = Callable[[Cursor, ToolResult, bool], None]
"""Stores the result of a call, and whether it was denied, in the transaction of the result."""


class CallRecord:
    """The state of a call while it runs: its hooks' rows and texts, and whether they end the turn.

    `save_outcome` stores the outcome elsewhere; `record_earlier` first records queued calls, so that all are in order.
    """

    __slots__ = ("begun", "finished", "hook_texts", "record_earlier", "rows", "save_outcome", "seconds", "stop")

    def __init__(
        self,
        save_outcome: SaveOutcome | None = None,
        record_earlier: Callable[[], None] = lambda: None,
        seconds: float | None = None,
    ) -> None:
        self.save_outcome, self.record_earlier = save_outcome, record_earlier
        self.seconds = seconds
        """The time limit of the caller, if that is shorter than the tool's."""
        self.rows: Rows = []
        self.hook_texts: list[str] = []
        self.stop: str | None = None
        self.begun = False
        """Whether its intent is committed. Without a result, its outcome is then unknown."""
        self.finished: FinishedCall | None = None
        """The recorded outcome."""

    def add_hook_output(self, event: str, merged: HookOutcome, *reasons: str) -> None:
        texts = [text for text in (*merged.context, *reasons) if text]
        if texts:
            self.hook_texts.append(hook_text(event, texts))
        if merged.stop is not None and self.stop is None:
            self.stop = merged.stop

    def with_hook_output(self, result: ToolResult) -> ToolResult:
        """The result with the texts of the hooks appended."""
        return replace(result, content="\n\n".join((result.content, *self.hook_texts))) if self.hook_texts else result


def write_intent(session: Session, cursor: Cursor, prepared_call: PreparedCall, how: Json) -> None:
    call = prepared_call.call
    if call.id in session.state.asks_again:
        session.state.asks_again.discard(call.id)
    else:
        use = {"id": call.id, "name": call.name, "input": call.input}
        transcript.append(cursor, session.session_id, "tool_use", use, call.id)
    if not session.config.security.audit_log and how["verdict"] == "allow":
        return
    name = prepared_call.tool.name if prepared_call.tool else call.name
    transcript.log(
        cursor,
        session_id=session.session_id,
        tool_use_id=call.id,
        tool_name=name,
        decision=how["verdict"],
        reason=how,
    )


def record_result(
    session: Session,
    prepared_call: PreparedCall,
    result: ToolResult,
    status: Status,
    how: Json,
    record: CallRecord,
    took_ms: float | None = None,
) -> FinishedCall:
    """Store the call's result, receipt and hook rows in one transaction, then publish the event."""
    record.record_earlier()
    call = prepared_call.call
    result = _scrub_result(session, result)
    if took_ms is None:  # the result of a call that ran is already shortened
        result = clip_result(result)
    result = _warn_of_loop(
        session, call, _scrub_result(session, record.with_hook_output(frame_result(session, result)))
    )
    ran = took_ms is not None or (status == "failed" and prepared_call.error is None)

    def rows(cursor: Cursor) -> None:
        if not ran:
            write_intent(session, cursor, prepared_call, how)
        sequence = transcript.append(cursor, session.session_id, "tool_result", result_entry(call, result), call.id)
        if result.media:
            transcript.store_opaque(cursor, session.session_id, sequence, media_json(result.media))
        session.store_directory(cursor)
        session.store_spent(cursor)
        for write in record.rows:
            write(cursor)
        if record.save_outcome is not None:
            record.save_outcome(cursor, result, status == "denied")

    receipt_id = write_receipt(session, call, prepared_call.decision.risk, result, status, how, rows)
    _publish_outcome(session, prepared_call, result, status, how, took_ms or 0.0)
    record.finished = FinishedCall(replace(result, receipt_id=receipt_id), status == "denied", record.stop)
    return record.finished


def clip_result(result: ToolResult) -> ToolResult:
    """Cut a long result without storing the whole in a file, so that a replay gives the same result."""
    content = shorten(result.content)
    return result if content == result.content else replace(result, content=content)


def frame_result(session: Session, result: ToolResult) -> ToolResult:
    """Frame a result from outside with a random mark, which is reproducible in a replay but cannot be guessed."""
    if result.own or not result.content:
        return result
    mark = session.ids("frame").rpartition("-")[2]
    return replace(result, frame=Frame(mark, len(result.content)))


def result_entry(call: ToolCall, result: ToolResult) -> Json:
    """The transcript entry of a result: the bare content, and how it is framed for the model."""
    payload: Json = {"tool_use_id": call.id, "content": result.content, "is_error": result.is_error}
    payload["outcome"] = result.outcome
    if result.denial is not None:
        payload["denied_by"] = result.denial.kind
    if result.diff:
        payload["diff"] = result.diff
    return payload if result.frame is None else {**payload, "frame": list(result.frame)}


def _warn_of_loop(session: Session, call: ToolCall, result: ToolResult) -> ToolResult:
    """Add a warning to the result if the model keeps repeating the same call with the same result."""
    session.state.loops.add(call, result)
    if not session.state.loops.warns:
        return result
    repeats = session.state.loops.repeats
    session.bus.publish({"event_type": "loop_warning", "tool": call.name, "repeats": repeats})
    note = f"[The same call gave this same result {repeats} times. Do something else.]"
    return replace(result, content=f"{result.content}\n{note}")


def write_receipt(
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
    """Append the call's receipt with the rows of its result. Returns its id; None if receipts are off."""
    if session.ledger is None:
        with session.store.write() as cursor:
            rows(cursor)
        return None
    content = plain(result.content)  # as in the transcript, so that the two can be compared
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
    written = session.ledger.adopt_receipt(draft, rows) if after_crash else None
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


def _publish_outcome(
    session: Session, prepared_call: PreparedCall, result: ToolResult, status: Status, how: Json, took_ms: float
) -> None:
    name, use = prepared_call.call.name, prepared_call.call.id
    if status == "denied":
        risk = prepared_call.decision.risk
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


def _scrub_result(session: Session, result: ToolResult) -> ToolResult:
    content, diff = session.secrets.scrub(result.content), session.secrets.scrub(result.diff)
    unchanged = content == result.content and diff == result.diff
    return result if unchanged else replace(result, content=content, diff=diff)
