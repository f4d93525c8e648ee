"""The lifecycle of one tool call: found, decoded, judged, asked about, run, recorded."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from adderclaw.agent.legacy import later_report
from adderclaw.agent.legacy.later_report import with_changes
from adderclaw.agent.session.event_wait import attended
from adderclaw.agent.session.session import Session
from adderclaw.agent.tool_call import hooks
from adderclaw.agent.tool_call.hooks import CallRecord, Keep
from adderclaw.agent.tool_call.permission_check import PreparedCall, considered_in, unfit
from adderclaw.agent.tool_call.result import Done, intent, record_result
from adderclaw.core.errors import AdderClawError, LimitError
from adderclaw.core.json_text import canonical, digest
from adderclaw.core.overseer import NO_SUPERVISOR, StartedCall
from adderclaw.core.questions import Answer, ApprovalRequest
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import DENIAL_KINDS, Json, ToolCall, ToolResult, Touch, internal_failure, refused, rejected
from adderclaw.policy.case import Decision
from adderclaw.storage.ledger.chain import Status
from adderclaw.tools import unwrapped

if TYPE_CHECKING:
    from adderclaw.sandbox.legacy.checkpoints.tracker import Watch


ASKED = "Not run: interrupted while the operator or a hook was asked"

SHOWN = 400
"""Characters of a call's input that are shown of one whose outcome nobody knows."""


# ------------------------------------------------------------------ the lifecycle


async def run_call(
    session: Session,
    call: ToolCall,
    *,
    refusal: str | None = None,
    keep: Keep | None = None,
    seconds: float | None = None,
) -> Done:
    """Run one tool call from its request to its record. With `refusal` it is denied for that reason.

    What became of it is for `keep`, unless it was interrupted: that is for whoever resumes to say. With `seconds` it
    may run no longer than that.
    """
    life = CallRecord(keep, seconds=seconds)
    return await execute(session, await rule(session, await judge(session, call, life, refusal)))


class GatedCall(NamedTuple):
    """A call after PreToolUse hooks and the gate; what hooks said of it goes on with it."""

    considered: PreparedCall
    life: CallRecord


class ApprovedCall(NamedTuple):
    """What is to become of a call, after everybody was asked: it runs, unless `message` says why not."""

    considered: PreparedCall
    life: CallRecord
    how: Json
    """Who or what decided, and why: the receipt's `decision`."""
    message: str = ""
    told: bool = False
    """Hooks are told of the denial."""


async def judge(session: Session, call: ToolCall, life: CallRecord, refusal: str | None = None) -> GatedCall:
    """Find, decode and judge a call, with what hooks say of it."""
    call = unwrapped(call)
    session.bus.publish_soon(
        {
            "event_type": "tool_requested",
            "tool": call.name,
            "called_as": call.name,
            "tool_use_id": call.id,
            "summary": canonical(call.arguments)[:200] if call.arguments is not None else call.raw[:200],
        }
    )
    considered = considered_in(session, call)
    try:
        if considered.tool is None and session.scene.arrive is not None:
            why_not = await session.scene.arrive(call.name)
            session.tape.arrived(why_not)
            considered = unfit(call, None, why_not) if why_not else considered_in(session, call)
        if refusal is not None:
            considered = _denied(considered, refusal)
        elif considered.error is None:
            considered = await hooks.before(session, considered, life)
    except asyncio.CancelledError:
        not_run(session, considered, life)
        raise
    return GatedCall(considered, life)


async def rule(session: Session, judged: GatedCall) -> ApprovedCall:
    """Ask whoever is to be asked, and see whether the limits still allow it. Nothing has begun yet."""
    considered, life = judged
    if considered.error is None and considered.fails:
        considered = _failed(considered)
    if considered.error is not None:
        return ApprovedCall(considered, life, decision_record(session, considered, None), considered.error)
    try:
        considered, answer = await _answer(session, considered, life)
    except asyncio.CancelledError:
        not_run(session, considered, life)
        raise
    if answer is not None and answer.approved:
        considered = hooks.as_answered(session, considered, answer)
        if considered.error is not None:
            return ApprovedCall(considered, life, decision_record(session, considered, None), considered.error)
        considered = _again(session, considered)
    how = decision_record(session, considered, answer if considered.decision.verdict == "ask" else None)
    if answer is not None and answer.approved and answer.remember and considered.decision.verdict == "ask":
        how |= _remember(session, considered, answer)
    if considered.decision.verdict == "deny" or (answer is not None and not answer.approved):
        asked = answer if considered.decision.verdict == "ask" else None
        return ApprovedCall(considered, life, how, _denial(considered, asked), told=True)
    if (spent := limit_of(session)) is not None:  # others of the run may have used it up meanwhile
        considered = _denied(considered, str(spent))
        return ApprovedCall(considered, life, decision_record(session, considered, None), _denial(considered, None))
    return ApprovedCall(considered, life, how)


async def execute(session: Session, ruling: ApprovedCall) -> Done:
    """Run a call that nothing stands against any more, or say why not."""
    if not ruling.message:
        admit(session, ruling)
        begin(session, (ruling,))
        return await finish(session, ruling, lambda: run(session, ruling))
    considered, life, how, message, told = ruling
    if considered.error is not None:
        return record_result(session, considered, rejected(message, "invalid"), "failed", how, life)
    kind = DENIAL_KINDS.get(how["by"], "policy")
    try:
        if told:
            message += await hooks.denied(session, considered, how, life)
    except asyncio.CancelledError:
        record_result(session, considered, refused(message, kind, how["reason"]), "denied", how, life)
        raise
    return record_result(session, considered, refused(message, kind, how["reason"]), "denied", how, life)


def judged_again(session: Session, judged: GatedCall) -> GatedCall:
    """Time has passed since a call was judged: the stop, a link or a file may have changed meanwhile."""
    was = judged.considered
    if was.error is not None or was.decision.verdict == "deny":
        return judged
    opinion = was.case.hook_opinion if was.case is not None else None
    return judged._replace(considered=considered_in(session, was.call, opinion, rewritten=was.rewritten))


def ruled_again(session: Session, ruling: ApprovedCall) -> ApprovedCall:
    """The same for a call that everybody was asked about."""
    if ruling.message:
        return ruling
    now = _again(session, ruling.considered)
    if now.decision.verdict != "deny":
        return ruling._replace(considered=now)
    return ApprovedCall(now, ruling.life, decision_record(session, now, None), _denial(now, None), told=True)


def _denied(considered: PreparedCall, why: str, by: str = "limit") -> PreparedCall:
    return replace(considered, decision=Decision("deny", considered.decision.risk, why, by, ()))


def _failed(considered: PreparedCall) -> PreparedCall:
    """What can only fail is asked about by nobody: the model hears why, as it would after a yes."""
    why = considered.fails
    return replace(considered, decision=Decision("deny", considered.decision.risk, why, "input", ()), error=why)


def not_run(session: Session, considered: PreparedCall, life: CallRecord, note: str = ASKED) -> Done:
    """An interruption came before the call began."""
    how = {**decision_record(session, considered, None), "verdict": "deny", "by": "interrupted"}
    life.keep = None
    return record_result(session, considered, rejected(note, "not_run"), "denied", how, life)


def stopped(session: Session, ruling: ApprovedCall) -> ApprovedCall:
    """The emergency stop was set after the call was judged."""
    considered = _denied(ruling.considered, "the emergency stop is set; `adderclaw estop --clear` removes it", "estop")
    return ApprovedCall(
        considered, ruling.life, decision_record(session, considered, None), _denial(considered, None), told=True
    )


# ------------------------------------------------------------------ the run


def admit(session: Session, ruling: ApprovedCall) -> None:
    """Count a call before it runs: what is judged next finds its limits used up by it."""
    session.budget.tool_calls += 1
    tool = ruling.considered.tool
    if session.scene.pace is not None and tool is not None:
        session.scene.pace.ran(tool.traits.section_of or tool.name)


def begin(session: Session, rulings: Sequence[ApprovedCall]) -> None:
    """Commit the intent: from here on, a crash leaves calls whose outcome is unknown."""
    if session.ledger is not None:
        session.ledger.ready(len(rulings))
    if session.overseer is not NO_SUPERVISOR:
        session.overseer.calls_started([_shown(session, ruling.considered.call) for ruling in rulings])
    with session.store.write() as cursor:
        for ruling in rulings:
            intent(session, cursor, ruling.considered, ruling.how)
        session.keep_spent(cursor)
    for considered, life, how, *_ in rulings:
        life.begun = True
        session.bus.publish_soon(
            {
                "event_type": "tool_approved",
                "tool": considered.call.name,
                "tool_use_id": considered.call.id,
                "risk": considered.decision.risk,
                "by": how["by"],
                "reason": how["reason"],
            }
        )


def _shown(session: Session, call: ToolCall) -> StartedCall:
    said = canonical(call.arguments) if call.arguments is not None else call.raw
    return StartedCall(call.id, call.name, session.secrets.redact(said)[:SHOWN])


class Ran(NamedTuple):
    result: ToolResult
    took_ms: float


async def finish(session: Session, ruling: ApprovedCall, run: Callable[[], Awaitable[Ran]]) -> Done:
    """Wait for a call that has begun, and record it however it ends."""
    considered, life, how = ruling.considered, ruling.life, ruling.how
    watch, took_ms = None, 0.0
    try:
        watch = await _watched(session, considered)
        if watch is None and session.checkpoints is not None and considered.touch.removes and not considered.touch.lost:
            result = rejected("Nothing was deleted: no checkpoint could be kept, so it could not be undone. Try again.")
        else:
            result, took_ms = await run()
            touch, asked = considered.touch, how.get("asked_by") and how["by"] == "operator"
            edited = (
                [*dict.fromkeys(path for fact in touch.writes for path in (fact.path, fact.real))]
                if touch.command is None
                else []
            )
            result = await with_changes(session, result, edited, approved=bool(asked))
    except asyncio.CancelledError:
        if watch is not None and session.checkpoints is not None:
            session.checkpoints.end_now(watch)
        unknown(session, ruling)
        raise
    session.tape.ran(session, result)
    if watch is not None and session.checkpoints is not None:
        wrote = {} if considered.touch.command is not None else session.scene.context.files_read
        await session.checkpoints.end(watch, wrote)
    if changed := result.metadata.get("changed_later"):
        how = {**how, "changed_later": session.secrets.clean(changed)}
        later_report.tell(session, how["changed_later"], considered.call.id)
    status, how = _ended_as(result, how)
    if answered := result.metadata.get("answered"):
        how = {**how, **session.secrets.clean(answered)}
    try:
        result = await hooks.after(session, considered, result, life)
    except asyncio.CancelledError:  # the tool has run: what it did is not lost
        record_result(session, considered, result, status, how, life, took_ms)
        raise
    done = record_result(session, considered, result, status, how, life, took_ms)
    await session.called(considered.call)
    return done


def _ended_as(result: ToolResult, how: Json) -> tuple[Status, Json]:
    if result.denial is not None:
        return "denied", {**how, "verdict": "deny", "by": "open", "reason": result.denial.reason}
    if result.metadata.get("ran"):  # a test that fails is a command that ran: the tool has done its work
        return "allowed", {**how, "exit_code": result.metadata["exit_code"]}
    return "failed" if result.is_error else "allowed", how


async def record_interrupted(session: Session, ruling: ApprovedCall, running: Awaitable[Ran]) -> Done:
    """Record a call that ran beside one that was interrupted: with its result if it had ended, without asking hooks.

    It waits for nothing, so that a second interruption finds everything recorded.
    """
    try:
        if isinstance(running, asyncio.Future) and not running.done():
            raise asyncio.CancelledError
        result, took_ms = await running
    except asyncio.CancelledError:
        return unknown(session, ruling)
    session.tape.ran(session, result)
    status, how = _ended_as(result, ruling.how)
    return record_result(session, ruling.considered, result, status, how, ruling.life, took_ms)


def unknown(session: Session, ruling: ApprovedCall) -> Done:
    """A call that had begun was interrupted."""
    session.tape.cut_off("run", session)
    ruling.life.keep = None
    result = rejected("interrupted before it ended; the outcome is unknown", "unknown")
    return record_result(session, ruling.considered, result, "failed", ruling.how, ruling.life)


# ------------------------------------------------------------------ who is asked


async def _answer(session: Session, considered: PreparedCall, life: CallRecord) -> tuple[PreparedCall, Answer | None]:
    """The word of a hook or of the operator where the gate asks for it, else none; a hook may rewrite the call."""
    if considered.decision.verdict != "ask":
        return considered, None
    considered, answer = await hooks.requested(session, considered, life)
    if answer is not None or considered.decision.verdict != "ask":
        return considered, answer
    return considered, await _operators_word(session, considered)


async def _operators_word(session: Session, considered: PreparedCall) -> Answer:
    from adderclaw.policy import grants
    from adderclaw.policy.verdict import room, terminal_only

    decision, case = considered.decision, considered.case
    session.store.flush()
    session.bus.deliver()
    command, ways = considered.touch.command, session.scene.ways_out
    shown = command.shown if command is not None else canonical(considered.call.arguments)
    request = ApprovalRequest(
        considered.call.name,
        decision.risk,
        decision.reason,
        shown,
        considered.call.id,
        plan_hash=_plan_hash(session, considered),
        grants=grants.exact(case) if case is not None else (),
        at_terminal=case is not None and terminal_only(case),
        raw=hooks.is_raw(considered),
        room="; ".join(filter(None, (room(case) if case is not None else "", ways.words(command) if ways else ""))),
        registries=ways.offered(command) if ways else (),
        preview=_preview(considered),
        touches=_touches(considered.touch, session.scene.context.workspace.root),
        input=considered.call.input,
        stays=session.state.stays,
    )
    return await session.tape.answered(session, session.operator.approve(request))


def _preview(considered: PreparedCall) -> str:
    """What a file would look like; who is asked sees the input where nobody can say."""
    try:
        return considered.prepared.preview() if considered.prepared is not None else ""
    except (ValueError, OSError):
        return ""


def _touches(touch: Touch, root: str) -> tuple[str, ...]:
    """In words, for who is asked."""
    top = f"{root.rstrip('/')}/"
    found = {
        "reads": [fact.path.removeprefix(top) for fact in touch.reads],
        "writes": [fact.path.removeprefix(top) for fact in touch.writes],
        "removes": [fact.path.removeprefix(top) for fact in touch.removes],
        "reaches": [f"{fact.host}:{fact.port}" for fact in touch.hosts] + [one.address for one in touch.remotes],
    }
    return tuple(f"{what}: {', '.join(dict.fromkeys(names))}" for what, names in found.items() if names)


def _plan_hash(session: Session, considered: PreparedCall) -> str:
    """Of exactly what is asked about: the tool, its input, where it would run and all that it would touch."""
    name = considered.tool.name if considered.tool is not None else considered.call.name
    place = session.scene.context.workspace
    if session.overseer is not NO_SUPERVISOR:  # it may be answered when the run is on another machine
        from adderclaw.policy import facts

        return digest([name, considered.call.input, _unplaced([place.cwd, facts.told(considered.touch)], place.root)])
    # by name, without what is as it always is: a field that a later version adds changes no hash of an earlier one
    blank = vars(Touch())
    touched = {key: repr(value) for key, value in vars(considered.touch).items() if value != blank[key]}
    return digest([name, considered.call.input, place.cwd, touched])


def _unplaced(value: Any, root: str) -> Any:
    """Without where the workspace is, and which inodes its files have there."""
    if isinstance(value, str):
        return value.replace(root, "<workspace>")
    if isinstance(value, list):
        return [_unplaced(one, root) for one in cast(list[Any], value)]
    if isinstance(value, dict):
        named = cast(Json, value).items()
        return {name: _unplaced(one, root) for name, one in named if name != "identity"}
    return value


def _remember(session: Session, considered: PreparedCall, answer: Answer) -> Json:
    """Grant what the operator was told that "always" grants, and no more; what the receipt says of it."""
    if answer.remember == "registries":  # the comment says which
        if session.scene.ways_out is not None:
            session.scene.ways_out.let_in(considered.touch.command)
        return {}
    from adderclaw.agent.tool_call import permission_updates
    from adderclaw.config import project_grants
    from adderclaw.config.permissions import grant
    from adderclaw.policy import grants

    rules = grants.exact(considered.case) if considered.case is not None else ()
    destination = "userSettings" if answer.remember == "user" else "session"
    try:
        place = permission_updates.apply(session, grant(rules, destination)) if rules else "nowhere"
        if rules and answer.remember == "project":
            root = session.scene.context.workspace.root
            place = f"{project_grants.add(session.home, root, rules)} for {root}"
    except AdderClawError as error:
        session.bus.publish({"event_type": "warning", "message": f"'always' could not be kept: {error}"})
        return {}
    return session.secrets.clean({"granted": list(rules), "granted_in": place})


def _again(session: Session, asked: PreparedCall) -> PreparedCall:
    """What was approved is what is judged once more: the stop, a link or a file may have changed meanwhile."""
    opinion = asked.case.hook_opinion if asked.case is not None else None
    now = considered_in(session, asked.call, opinion, rewritten=asked.rewritten, approved=True)
    if now.decision.verdict == "deny" or _plan_hash(session, now) == _plan_hash(session, asked):
        return now
    reason = "what the call touches changed while the operator was asked"
    return replace(now, decision=Decision("deny", now.decision.risk, reason, "changed", ()))


def decision_record(session: Session, considered: PreparedCall, answer: Answer | None) -> Json:
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
        how |= {"answered_by": answer.who} if answer.who else {}
        how |= {"approval_id": answer.approval_id} if answer.approval_id else {}
        if answer.comment:
            how["comment"] = answer.comment
    return session.secrets.clean(how)


def _denial(considered: PreparedCall, answer: Answer | None) -> str:
    decision = considered.decision
    if answer is None:
        return f"Denied by {decision.by}: {decision.reason}"
    comment = f": {answer.comment}" if answer.comment else ""
    return f"Denied by {answer.by}{comment} (asked because: {decision.reason})"


async def _watched(session: Session, considered: PreparedCall) -> "Watch | None":
    """Keep what the call may change; one that cannot write pays nothing."""
    if session.checkpoints is None:
        return None
    from adderclaw.policy.legacy.looking import reach
    from adderclaw.sandbox.legacy.checkpoints.tracker import Who

    far = reach(considered.touch)
    if far == "nothing":
        return None
    place = session.scene.context.workspace
    call = considered.call
    who = Who(session.conversation_id, session.session_id, call.name, call.id)
    # by both names: what a link leads to is written, or the link itself is exchanged
    paths = dict.fromkeys(path for fact in considered.touch.writes for path in (fact.real, fact.path))
    trees = [fact.real for fact in considered.touch.removes]
    roots = (place.root, *place.extra)
    return await session.checkpoints.begin(who, paths, roots, anything=far == "anything", trees=trees)


async def run(session: Session, ruling: ApprovedCall) -> Ran:
    """Run what was prepared under its time limit, looking out for the emergency stop."""
    tool, prepared, began = ruling.considered.tool, ruling.considered.prepared, session.clock.monotonic()
    assert tool is not None
    assert prepared is not None
    seconds = min(tool.timeout(ruling.considered.arguments), session.budget.seconds_left)
    if ruling.life.seconds is not None:
        seconds = min(seconds, ruling.life.seconds)

    def look() -> ToolResult | None:
        if session.scene.stopped():
            return rejected("stopped by the emergency stop while it ran; the outcome is unknown", "unknown")
        if session.clock.monotonic() >= began + seconds:
            return internal_failure(f"{tool.name} timed out after {seconds:g} s", "timed_out")
        return None

    # what a tool does comes back as its result: the tape notes that, and not its steps
    with session.tape.inside():
        try:
            result = await attended(prepared.run(), look)
        except Exception as error:  # noqa: BLE001 - a tool that fails is a result for the model, never the end of the turn
            kind = (
                "" if isinstance(error, AdderClawError) else f"{type(error).__name__}: "
            )  # ours are for people already
            result = internal_failure(f"{tool.name} failed: {kind}{error}", own=False)
    return Ran(session.scene.shortened(result), (session.clock.monotonic() - began) * 1000)


def limit_of(session: Session) -> LimitError | None:
    """Why no further tool call may run, if so."""
    try:
        session.budget.before_tool_call()
    except LimitError as error:
        return error
    return None
