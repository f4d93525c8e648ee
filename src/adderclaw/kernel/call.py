"""The life of one tool call: found, decoded, judged, asked about, run, recorded.

Whatever becomes of a call, it leaves by one door: one result for the model, one receipt.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from sqlite3 import Cursor
from typing import TYPE_CHECKING, NamedTuple

from adderclaw.errors import AdderClawError, LimitError
from adderclaw.framing import Frame
from adderclaw.gate.case import FAMILY, Decision
from adderclaw.history import media_json
from adderclaw.json_text import canonical, digest
from adderclaw.kernel import call_hooks, later
from adderclaw.kernel.attending import attended
from adderclaw.kernel.call_hooks import Keep, Life
from adderclaw.kernel.considering import Considered, considered_in, unfit
from adderclaw.kernel.later import with_changes
from adderclaw.kernel.session import Session
from adderclaw.store import permissions, transcript
from adderclaw.store.chain import ReceiptDraft, Status
from adderclaw.tools import unwrapped
from adderclaw.types import (
    Answer,
    ApprovalRequest,
    ErrorClass,
    Json,
    Risk,
    ToolCall,
    ToolResult,
    internal_failure,
    rejected,
)

if TYPE_CHECKING:
    from adderclaw.checkpoints.tracker import Watch


class Done(NamedTuple):
    result: ToolResult
    denied: bool
    stop: str | None = None
    """A hook ends the turn, for this reason."""


# ------------------------------------------------------------------ the life


async def run_call(session: Session, call: ToolCall, *, refusal: str | None = None, keep: Keep | None = None) -> Done:
    """Live a call's whole life. With `refusal` it is refused for that reason, by the same door.

    What became of it is for `keep`, unless it was interrupted: that is for whoever resumes to say.
    """
    call = unwrapped(call)
    session.bus.mention(
        {
            "event_type": "tool_requested",
            "tool": call.name,
            "called_as": call.name,
            "tool_use_id": call.id,
            "summary": canonical(call.arguments)[:200] if call.arguments is not None else call.raw[:200],
        }
    )
    considered, life = considered_in(session, call), Life(keep)
    if considered.tool is None and session.scene.arrive is not None:
        why_not = await session.scene.arrive(call.name)
        if session.tape is not None:
            session.tape.arrived(why_not)
        considered = unfit(call, None, why_not) if why_not else considered_in(session, call)
    if refusal is not None:
        considered = replace(considered, decision=Decision("deny", considered.decision.risk, refusal, "limit", ()))
    try:
        if considered.error is None and refusal is None:
            considered = await call_hooks.before(session, considered, life)
        if considered.error is not None:
            how = _how(session, considered, None)
            return _leave(session, considered, rejected(considered.error), "failed", how, life)
        considered, answer = await _answer(session, considered, life)
    except asyncio.CancelledError:
        how = {**_how(session, considered, None), "verdict": "deny", "by": "interrupted"}
        note = "Not run: interrupted while the operator or a hook was asked"
        life.keep = None
        _leave(session, considered, rejected(note), "denied", how, life)
        raise
    if answer is not None and answer.approved:
        considered = _again(session, considered)
    how = _how(session, considered, answer if considered.decision.verdict == "ask" else None)
    if answer is not None and answer.remember and considered.decision.verdict == "ask":
        how |= _remember(session, considered, answer)
    if considered.decision.verdict == "deny" or (answer is not None and not answer.approved):
        return await _deny(session, considered, _denial(considered, answer), how, life)
    if (spent := limit_of(session)) is not None:  # others of the run may have used it up meanwhile
        considered = replace(considered, decision=Decision("deny", considered.decision.risk, spent, "limit", ()))
        how = _how(session, considered, None)
        return _leave(session, considered, rejected(_denial(considered, None)), "denied", how, life)
    return await _act(session, considered, how, life)


async def _act(session: Session, considered: Considered, how: Json, life: Life) -> Done:
    """Run a call that nothing stands against any more, and record it however it ends."""
    session.budget.tool_calls += 1
    _approve(session, considered, how)
    began = session.clock.monotonic()
    watch = None
    try:
        watch = await _watched(session, considered)
        if watch is None and session.checkpoints is not None and considered.touch.removes and not considered.touch.lost:
            result = rejected("Nothing was deleted: no checkpoint could be kept, so it could not be undone. Try again.")
        else:
            result = await with_changes(session, await _run(session, considered))
    except asyncio.CancelledError:
        if session.tape is not None:
            session.tape.cut_off("run", session)
        if watch is not None and session.checkpoints is not None:
            session.checkpoints.end_now(watch)
        unknown = rejected("interrupted before it ended; the outcome is unknown")
        life.keep = None
        _leave(session, considered, unknown, "failed", how, life)
        raise
    if session.tape is not None:
        session.tape.ran(session, result)
    if watch is not None and session.checkpoints is not None:
        await session.checkpoints.end(watch)
    took_ms = (session.clock.monotonic() - began) * 1000
    if changed := result.metadata.get("changed_later"):
        how = {**how, "changed_later": session.secrets.clean(changed)}
        later.tell(session, how["changed_later"], considered.call.id)
    status: Status = "denied" if result.denied else "failed" if result.is_error else "allowed"
    if result.denied:
        how = {**how, "verdict": "deny", "by": "open", "reason": result.denied}
    try:
        result = await call_hooks.after(session, considered, result, life)
    except asyncio.CancelledError:  # the tool has run: what it did is not lost
        _leave(session, considered, result, status, how, life, took_ms)
        raise
    return _leave(session, considered, result, status, how, life, took_ms)


async def _deny(session: Session, considered: Considered, message: str, how: Json, life: Life) -> Done:
    try:
        message += await call_hooks.denied(session, considered, how, life)
    except asyncio.CancelledError:
        _leave(session, considered, rejected(message), "denied", how, life)
        raise
    return _leave(session, considered, rejected(message), "denied", how, life)


async def _answer(session: Session, considered: Considered, life: Life) -> tuple[Considered, Answer | None]:
    """The word of a hook or of the operator where the gate asks for it, else none; a hook may rewrite the call."""
    if considered.decision.verdict != "ask":
        return considered, None
    considered, answer = await call_hooks.requested(session, considered, life)
    if answer is not None or considered.decision.verdict != "ask":
        return considered, answer
    return considered, await _operators_word(session, considered)


async def _operators_word(session: Session, considered: Considered) -> Answer:
    from adderclaw.gate import grants

    decision = considered.decision
    session.store.flush()
    session.bus.catch_up()
    command = considered.touch.command
    shown = command.shown if command is not None else canonical(considered.call.arguments)
    request = ApprovalRequest(
        considered.call.name,
        decision.risk,
        decision.reason,
        shown,
        considered.call.id,
        plan_hash=_plan_hash(session, considered),
        grants=grants.exact(considered.case) if considered.case is not None else (),
    )
    if session.tape is None:
        return await session.operator.approve(request)
    return await session.tape.answered(session, session.operator.approve(request))


def _plan_hash(session: Session, considered: Considered) -> str:
    """Of exactly what is asked about: the tool, its input, where it would run and all that it would touch."""
    name = considered.tool.name if considered.tool is not None else considered.call.name
    return digest([name, considered.call.input, session.scene.context.workspace.cwd, repr(considered.touch)])


def _remember(session: Session, considered: Considered, answer: Answer) -> Json:
    """Grant what the operator was told that "always" grants, and no more; what the receipt says of it."""
    from adderclaw.config.permissions import grant
    from adderclaw.gate import grants
    from adderclaw.kernel import updates

    rules = grants.exact(considered.case) if considered.case is not None else ()
    destination = "userSettings" if answer.remember == "user" else "session"
    try:
        place = updates.apply(session, grant(rules, destination)) if rules else "nowhere"
    except AdderClawError as error:
        session.bus.tell({"event_type": "warning", "message": f"'always' could not be kept: {error}"})
        return {}
    return session.secrets.clean({"granted": list(rules), "granted_in": place})


def _again(session: Session, asked: Considered) -> Considered:
    """What was approved is what is judged once more: the stop, a link or a file may have changed meanwhile."""
    opinion = asked.case.hook_opinion if asked.case is not None else None
    now = considered_in(session, asked.call, opinion, rewritten=asked.rewritten, approved=True)
    if now.decision.verdict == "deny" or _plan_hash(session, now) == _plan_hash(session, asked):
        return now
    reason = "what the call touches changed while the operator was asked"
    return replace(now, decision=Decision("deny", now.decision.risk, reason, "changed", ()))


def _how(session: Session, considered: Considered, answer: Answer | None) -> Json:
    """Who or what decided, and why: the receipt's `decision`."""
    decision = considered.decision
    how: Json = {
        "verdict": decision.verdict,
        "by": decision.by,
        "reason": decision.reason,
        "sandbox": session.scene.confinement,
    }
    if answer is not None:
        how |= {"verdict": "allow" if answer.approved else "deny", "asked_by": decision.by, "by": answer.by}
        if answer.comment:
            how["comment"] = answer.comment
    return session.secrets.clean(how)


def _denial(considered: Considered, answer: Answer | None) -> str:
    decision = considered.decision
    if answer is None:
        return f"Denied by {decision.by}: {decision.reason}"
    comment = f": {answer.comment}" if answer.comment else ""
    return f"Denied by {answer.by}{comment} (asked because: {decision.reason})"


def _approve(session: Session, considered: Considered, how: Json) -> None:
    """Commit the intent: from here on, a crash leaves a call whose outcome is unknown."""
    if session.ledger is not None:
        session.ledger.ready()
    if session.scene.pace is not None and considered.tool is not None:
        session.scene.pace.ran(FAMILY.get(considered.tool.name, considered.tool.name))
    with session.store.write() as cursor:
        _intent(session, cursor, considered, how)
        session.keep_spent(cursor)
    session.bus.mention(
        {
            "event_type": "tool_approved",
            "tool": considered.call.name,
            "tool_use_id": considered.call.id,
            "risk": considered.decision.risk,
            "by": how["by"],
            "reason": how["reason"],
        }
    )


def _intent(session: Session, cursor: Cursor, considered: Considered, how: Json) -> None:
    call = considered.call
    transcript.append(
        cursor,
        session.session_id,
        "tool_use",
        {"id": call.id, "name": call.name, "input": call.input},
        call.id,
    )
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


async def _watched(session: Session, considered: Considered) -> "Watch | None":
    """Keep what the call may change; one that cannot write pays nothing."""
    if session.checkpoints is None:
        return None
    from adderclaw.checkpoints.tracker import Who
    from adderclaw.gate.reach import reach

    far = reach(considered.touch)
    if far == "nothing":
        return None
    place = session.scene.context.workspace
    call = considered.call
    who = Who(session.conversation_id, session.session_id, call.name, call.id)
    paths = [fact.real for fact in considered.touch.writes]
    trees = [fact.real for fact in considered.touch.removes]
    roots = (place.root, *place.extra)
    return await session.checkpoints.begin(who, paths, roots, anything=far == "anything", trees=trees)


async def _run(session: Session, considered: Considered) -> ToolResult:
    """Run the tool under its time limit, looking out for the emergency stop."""
    tool, prepared = considered.tool, considered.prepared
    assert tool is not None
    assert prepared is not None
    seconds = min(tool.timeout(considered.arguments), session.budget.seconds_left)
    ends = session.clock.monotonic() + seconds

    def look() -> ToolResult | None:
        if session.scene.stopped():
            stopped = rejected("stopped by the emergency stop while it ran; the outcome is unknown")
            return replace(stopped, metadata={"unknown": True})
        if session.clock.monotonic() >= ends:
            return internal_failure(f"{tool.name} timed out after {seconds:g} s")
        return None

    try:
        return await attended(_inside(session, prepared.run()), look)
    except Exception as error:  # noqa: BLE001 - a tool that fails is a result for the model, never the end of the turn
        kind = "" if isinstance(error, AdderClawError) else f"{type(error).__name__}: "  # ours are for people already
        return internal_failure(f"{tool.name} failed: {kind}{error}", own=False)


async def _inside(session: Session, running: Awaitable[ToolResult]) -> ToolResult:
    """What a tool does comes back as its result: the tape notes that, and not its steps."""
    if session.tape is None:
        return await running
    with session.tape.inside():
        return await running


def _scrubbed(session: Session, result: ToolResult) -> ToolResult:
    content = session.secrets.scrub(result.content)
    return result if content == result.content else replace(result, content=content)


# ------------------------------------------------------------------ the one door out


def _leave(
    session: Session,
    considered: Considered,
    result: ToolResult,
    status: Status,
    how: Json,
    life: Life,
    took_ms: float | None = None,
) -> Done:
    """Record the call and its result, with its receipt and its hooks' rows, in one transaction; then tell."""
    call = considered.call
    result = _warned(session, call, _scrubbed(session, life.told(framed_in(session, _scrubbed(session, result)))))
    ran = took_ms is not None or (status == "failed" and considered.error is None)

    def rows(cursor: Cursor) -> None:
        if not ran:
            _intent(session, cursor, considered, how)
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
    return Done(replace(result, receipt_id=receipt_id), status == "denied", life.stop)


def framed_in(session: Session, result: ToolResult) -> ToolResult:
    """What came from outside gets its mark; ids come out the same in a replay, and nobody outside knows the next."""
    if result.own or not result.content:
        return result
    mark = session.ids("frame").rpartition("-")[2]
    return replace(result, frame=Frame(mark, len(result.content)))


def entry_of(call: ToolCall, result: ToolResult) -> Json:
    """A result as the transcript keeps it: bare, and how it is framed for the model."""
    payload: Json = {"tool_use_id": call.id, "content": result.content, "is_error": result.is_error}
    return payload if result.frame is None else {**payload, "frame": list(result.frame)}


def _warned(session: Session, call: ToolCall, result: ToolResult) -> ToolResult:
    """A model that goes in circles is told so, in the result that it sees and that is recorded."""
    session.state.loops.saw(call, result)
    if not session.state.loops.warns:
        return result
    repeats = session.state.loops.repeats
    session.bus.tell({"event_type": "loop_warning", "tool": call.name, "repeats": repeats})
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
    draft = ReceiptDraft(
        conversation_id=session.conversation_id,
        session_id=session.session_id,
        tool_use_id=call.id,
        tool=call.name,
        args_hash=digest(call.arguments if call.arguments is not None else call.raw),
        result_hash=digest([result.content, *media_json(result.media)] if result.media else result.content),
        status=status,
        risk=risk,
        decision=how,
        run_id=session.bus.run_id,
    )
    written = session.ledger.adopt(draft, rows) if after_crash else None
    written = written or session.ledger.append(draft, rows)
    session.bus.mention(
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
    session: Session, considered: Considered, result: ToolResult, status: Status, how: Json, took_ms: float
) -> None:
    name, use = considered.call.name, considered.call.id
    if status == "denied":
        risk = considered.decision.risk
        session.bus.tell(
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
        session.bus.tell(
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
        session.bus.mention(
            {
                "event_type": "tool_completed",
                "tool": name,
                "tool_use_id": use,
                "duration_ms": round(took_ms, 2),
                "bytes": len(result.content),
            }
        )


def limit_of(session: Session) -> str | None:
    """Why no further tool call may run, if so."""
    try:
        session.budget.before_tool_call()
    except LimitError as error:
        return str(error)
    return None
