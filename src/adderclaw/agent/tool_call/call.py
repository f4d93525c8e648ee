"""Runs one tool call through its steps: find the tool, decode, judge, ask for approval, run, record."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from adderclaw.agent.legacy import later_report
from adderclaw.agent.legacy.later_report import with_changes
from adderclaw.agent.session.clock import wait_unless
from adderclaw.agent.session.session import Session
from adderclaw.agent.tool_call import hooks
from adderclaw.agent.tool_call.permission_check import PreparedCall, judge_in_session, unfit_call
from adderclaw.agent.tool_call.result import CallRecord, FinishedCall, SaveOutcome, record_result, write_intent
from adderclaw.core.errors import AdderClawError, LimitError
from adderclaw.core.json_text import canonical, digest
from adderclaw.core.overseer import NO_SUPERVISOR, PendingToolCall
from adderclaw.core.questions import Answer, ApprovalRequest
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import DENIAL_KINDS, Json, ToolCall, ToolResult, Touch, internal_failure, refused, rejected
from adderclaw.policy.case import Decision
from adderclaw.storage.ledger.chain import Status
from adderclaw.tools import unwrap_call

if TYPE_CHECKING:
    from adderclaw.sandbox.legacy.checkpoints.tracker import Watch


NOT_RUN_WHILE_ASKED = "Not run: interrupted while the operator or a hook was asked"

SHOWN = 400
"""Number of characters of a call's input that are shown to a person if its outcome is unknown."""


# ------------------------------------------------------------------ the lifecycle


async def run_call(
    session: Session,
    call: ToolCall,
    *,
    refusal: str | None = None,
    keep: SaveOutcome | None = None,
    seconds: float | None = None,
) -> FinishedCall:
    """Run one tool call from its request to its record. With `refusal` it is denied for that reason.

    `keep` stores the outcome in the same transaction, unless the call was interrupted. `seconds` limits its time.
    """
    record = CallRecord(keep, seconds=seconds)
    return await execute(session, await request_approval(session, await judge(session, call, record, refusal)))


class GatedCall(NamedTuple):
    """A call after the PreToolUse hooks and the policy, with the output of the hooks."""

    prepared_call: PreparedCall
    record: CallRecord


class ApprovedCall(NamedTuple):
    """The decision on a call after all questions were asked: it runs, unless `message` says why not."""

    prepared_call: PreparedCall
    record: CallRecord
    how: Json
    """Who or what decided, and why: the receipt's `decision`."""
    message: str = ""
    tell_hooks: bool = False
    """Whether the PermissionDenied hooks run."""


async def judge(session: Session, call: ToolCall, record: CallRecord, refusal: str | None = None) -> GatedCall:
    """Find the tool of a call, decode its input, run the PreToolUse hooks and judge it."""
    call = unwrap_call(call)
    session.bus.publish_soon(
        {
            "event_type": "tool_requested",
            "tool": call.name,
            "called_as": call.name,
            "tool_use_id": call.id,
            "summary": canonical(call.arguments)[:200] if call.arguments is not None else call.raw[:200],
        }
    )
    prepared_call = judge_in_session(session, call)
    try:
        if prepared_call.tool is None and session.environment.wait_for_tool is not None:
            why_not = await session.environment.wait_for_tool(call.name)
            session.tape.record_tool_arrival(why_not)
            prepared_call = unfit_call(call, None, why_not) if why_not else judge_in_session(session, call)
        if refusal is not None:
            prepared_call = _deny(prepared_call, refusal)
        elif prepared_call.error is None:
            prepared_call = await hooks.run_before_hooks(session, prepared_call, record)
    except asyncio.CancelledError:
        record_not_run(session, prepared_call, record)
        raise
    return GatedCall(prepared_call, record)


async def request_approval(session: Session, gated_call: GatedCall) -> ApprovedCall:
    """Ask hooks and the operator if the policy requires it, and check the limits again. Nothing runs yet."""
    prepared_call, record = gated_call
    if prepared_call.error is None and prepared_call.fails:
        prepared_call = _deny_failing(prepared_call)
    if prepared_call.error is not None:
        return ApprovedCall(prepared_call, record, decision_record(session, prepared_call, None), prepared_call.error)
    try:
        prepared_call, answer = await _get_answer(session, prepared_call, record)
    except asyncio.CancelledError:
        record_not_run(session, prepared_call, record)
        raise
    if answer is not None and answer.approved:
        prepared_call = hooks.apply_answer(session, prepared_call, answer)
        if prepared_call.error is not None:
            return ApprovedCall(
                prepared_call, record, decision_record(session, prepared_call, None), prepared_call.error
            )
        prepared_call = _rejudge_approved(session, prepared_call)
    how = decision_record(session, prepared_call, answer if prepared_call.decision.verdict == "ask" else None)
    if answer is not None and answer.approved and answer.remember and prepared_call.decision.verdict == "ask":
        how |= _grant_always(session, prepared_call, answer)
    if prepared_call.decision.verdict == "deny" or (answer is not None and not answer.approved):
        asked = answer if prepared_call.decision.verdict == "ask" else None
        return ApprovedCall(prepared_call, record, how, _denial_text(prepared_call, asked), tell_hooks=True)
    if (spent := reached_limit(session)) is not None:  # other calls of the run may have used it up meanwhile
        prepared_call = _deny(prepared_call, str(spent))
        return ApprovedCall(
            prepared_call, record, decision_record(session, prepared_call, None), _denial_text(prepared_call, None)
        )
    return ApprovedCall(prepared_call, record, how)


async def execute(session: Session, approved_call: ApprovedCall) -> FinishedCall:
    """Run an approved call, or record why it does not run."""
    if not approved_call.message:
        count_call(session, approved_call)
        commit_intent(session, (approved_call,))
        return await finish_call(session, approved_call, lambda: run_prepared(session, approved_call))
    prepared_call, record, how, message, tell_hooks = approved_call
    if prepared_call.error is not None:
        return record_result(session, prepared_call, rejected(message, "invalid"), "failed", how, record)
    kind = DENIAL_KINDS.get(how["by"], "policy")
    try:
        if tell_hooks:
            message += await hooks.run_denied_hooks(session, prepared_call, how, record)
    except asyncio.CancelledError:
        record_result(session, prepared_call, refused(message, kind, how["reason"]), "denied", how, record)
        raise
    return record_result(session, prepared_call, refused(message, kind, how["reason"]), "denied", how, record)


def rejudge(session: Session, gated_call: GatedCall) -> GatedCall:
    """Judge a call again after a wait: the emergency stop, a link or a file may have changed."""
    was = gated_call.prepared_call
    if was.error is not None or was.decision.verdict == "deny":
        return gated_call
    opinion = was.case.hook_opinion if was.case is not None else None
    return gated_call._replace(prepared_call=judge_in_session(session, was.call, opinion, rewritten=was.rewritten))


def recheck_approval(session: Session, approved_call: ApprovedCall) -> ApprovedCall:
    """Judge an approved call again after a wait."""
    if approved_call.message:
        return approved_call
    now = _rejudge_approved(session, approved_call.prepared_call)
    if now.decision.verdict != "deny":
        return approved_call._replace(prepared_call=now)
    return ApprovedCall(
        now, approved_call.record, decision_record(session, now, None), _denial_text(now, None), tell_hooks=True
    )


def _deny(prepared_call: PreparedCall, why: str, by: str = "limit") -> PreparedCall:
    return replace(prepared_call, decision=Decision("deny", prepared_call.decision.risk, why, by, ()))


def _deny_failing(prepared_call: PreparedCall) -> PreparedCall:
    """Deny a call that would fail even if approved, with the reason, so that nobody is asked about it."""
    why = prepared_call.fails
    return replace(prepared_call, decision=Decision("deny", prepared_call.decision.risk, why, "input", ()), error=why)


def record_not_run(
    session: Session, prepared_call: PreparedCall, record: CallRecord, note: str = NOT_RUN_WHILE_ASKED
) -> FinishedCall:
    """Record a call that was interrupted before it began."""
    how = {**decision_record(session, prepared_call, None), "verdict": "deny", "by": "interrupted"}
    record.save_outcome = None
    return record_result(session, prepared_call, rejected(note, "not_run"), "denied", how, record)


def deny_stopped(session: Session, approved_call: ApprovedCall) -> ApprovedCall:
    """Deny a call because the emergency stop was set after it was judged."""
    prepared_call = _deny(
        approved_call.prepared_call, "the emergency stop is set; `adderclaw estop --clear` removes it", "estop"
    )
    return ApprovedCall(
        prepared_call,
        approved_call.record,
        decision_record(session, prepared_call, None),
        _denial_text(prepared_call, None),
        tell_hooks=True,
    )


# ------------------------------------------------------------------ the run


def count_call(session: Session, approved_call: ApprovedCall) -> None:
    """Count a call before it runs, so that it counts against the limits of the next one."""
    session.budget.tool_calls += 1
    tool = approved_call.prepared_call.tool
    if session.environment.pace is not None and tool is not None:
        session.environment.pace.add(tool.traits.section_of or tool.name)


def commit_intent(session: Session, approved_calls: Sequence[ApprovedCall]) -> None:
    """Commit the intent to run these calls. After this, a crash leaves them with an unknown outcome."""
    if session.ledger is not None:
        session.ledger.require_ready(len(approved_calls))
    if session.supervisor is not NO_SUPERVISOR:
        session.supervisor.calls_started(
            [_begun_call(session, approved_call.prepared_call.call) for approved_call in approved_calls]
        )
    with session.store.write() as cursor:
        for approved_call in approved_calls:
            write_intent(session, cursor, approved_call.prepared_call, approved_call.how)
        session.store_spent(cursor)
    for prepared_call, record, how, *_ in approved_calls:
        record.begun = True
        session.bus.publish_soon(
            {
                "event_type": "tool_approved",
                "tool": prepared_call.call.name,
                "tool_use_id": prepared_call.call.id,
                "risk": prepared_call.decision.risk,
                "by": how["by"],
                "reason": how["reason"],
            }
        )


def _begun_call(session: Session, call: ToolCall) -> PendingToolCall:
    text = canonical(call.arguments) if call.arguments is not None else call.raw
    return PendingToolCall(call.id, call.name, session.secrets.redact(text)[:SHOWN])


class TimedResult(NamedTuple):
    result: ToolResult
    took_ms: float


async def finish_call(
    session: Session, approved_call: ApprovedCall, run: Callable[[], Awaitable[TimedResult]]
) -> FinishedCall:
    """Wait for a call that has begun, and record its result, also if it is interrupted."""
    prepared_call, record, how = approved_call.prepared_call, approved_call.record, approved_call.how
    watch, took_ms = None, 0.0
    try:
        watch = await _begin_checkpoint(session, prepared_call)
        if (
            watch is None
            and session.checkpoints is not None
            and prepared_call.touch.removes
            and not prepared_call.touch.lost
        ):
            result = rejected("Nothing was deleted: no checkpoint could be kept, so it could not be undone. Try again.")
        else:
            result, took_ms = await run()
            touch, asked = prepared_call.touch, how.get("asked_by") and how["by"] == "operator"
            edited = (
                [*dict.fromkeys(path for fact in touch.writes for path in (fact.path, fact.real))]
                if touch.command is None
                else []
            )
            result = await with_changes(session, result, edited, approved=bool(asked))
    except asyncio.CancelledError:
        if watch is not None and session.checkpoints is not None:
            session.checkpoints.end_now(watch)
        record_unknown(session, approved_call)
        raise
    session.tape.record_tool_result(session, result)
    if watch is not None and session.checkpoints is not None:
        wrote = {} if prepared_call.touch.command is not None else session.environment.context.files_read
        await session.checkpoints.end(watch, wrote)
    if changed := result.metadata.get("changed_later"):
        how = {**how, "changed_later": session.secrets.clean(changed)}
        later_report.tell(session, how["changed_later"], prepared_call.call.id)
    status, how = _status_of(result, how)
    if answered := result.metadata.get("answered"):
        how = {**how, **session.secrets.clean(answered)}
    try:
        result = await hooks.run_after_hooks(session, prepared_call, result, record)
    except asyncio.CancelledError:  # the tool has run, so its result is recorded
        record_result(session, prepared_call, result, status, how, record, took_ms)
        raise
    done = record_result(session, prepared_call, result, status, how, record, took_ms)
    await session.call_recorded(prepared_call.call)
    return done


def _status_of(result: ToolResult, how: Json) -> tuple[Status, Json]:
    if result.denial is not None:
        return "denied", {**how, "verdict": "deny", "by": "open", "reason": result.denial.reason}
    if result.metadata.get("ran"):  # a command that exits with an error is still a tool call that succeeded
        return "allowed", {**how, "exit_code": result.metadata["exit_code"]}
    return "failed" if result.is_error else "allowed", how


async def record_interrupted(
    session: Session, approved_call: ApprovedCall, running: Awaitable[TimedResult]
) -> FinishedCall:
    """Record a call that ran in parallel with an interrupted one, with its result if it has ended. No hooks run.

    It does not wait, so that a second interruption cannot prevent the record.
    """
    try:
        if isinstance(running, asyncio.Future) and not running.done():
            raise asyncio.CancelledError
        result, took_ms = await running
    except asyncio.CancelledError:
        return record_unknown(session, approved_call)
    session.tape.record_tool_result(session, result)
    status, how = _status_of(result, approved_call.how)
    return record_result(session, approved_call.prepared_call, result, status, how, approved_call.record, took_ms)


def record_unknown(session: Session, approved_call: ApprovedCall) -> FinishedCall:
    """Record a call that was interrupted while it ran."""
    session.tape.record_interruption("run", session)
    approved_call.record.save_outcome = None
    result = rejected("interrupted before it ended; the outcome is unknown", "unknown")
    return record_result(
        session, approved_call.prepared_call, result, "failed", approved_call.how, approved_call.record
    )


# ------------------------------------------------------------------ approval


async def _get_answer(
    session: Session, prepared_call: PreparedCall, record: CallRecord
) -> tuple[PreparedCall, Answer | None]:
    """The answer of a hook or of the operator, if the policy requires one. A hook may rewrite the call."""
    if prepared_call.decision.verdict != "ask":
        return prepared_call, None
    prepared_call, answer = await hooks.run_permission_request_hooks(session, prepared_call, record)
    if answer is not None or prepared_call.decision.verdict != "ask":
        return prepared_call, answer
    return prepared_call, await _ask_operator(session, prepared_call)


async def _ask_operator(session: Session, prepared_call: PreparedCall) -> Answer:
    from adderclaw.policy import grants
    from adderclaw.policy.verdict import sandbox_note, terminal_only

    decision, case = prepared_call.decision, prepared_call.case
    session.store.flush()
    session.bus.deliver()
    command, ways = prepared_call.touch.command, session.environment.network
    shown = command.shown if command is not None else canonical(prepared_call.call.arguments)
    request = ApprovalRequest(
        prepared_call.call.name,
        decision.risk,
        decision.reason,
        shown,
        prepared_call.call.id,
        plan_hash=_plan_hash(session, prepared_call),
        grants=grants.exact_rules(case) if case is not None else (),
        at_terminal=case is not None and terminal_only(case),
        raw=hooks.is_raw_bash(prepared_call),
        room="; ".join(
            filter(None, (sandbox_note(case) if case is not None else "", ways.describe(command) if ways else ""))
        ),
        registries=ways.offered_registries(command) if ways else (),
        preview=_preview(prepared_call),
        touches=_describe_touches(prepared_call.touch, session.environment.context.workspace.root),
        input=prepared_call.call.input,
        stays=session.state.stays,
    )
    return await session.tape.ask_operator(session, session.operator.approve(request))


def _preview(prepared_call: PreparedCall) -> str:
    """How a changed file would look; empty if that is unknown, and the operator sees the input instead."""
    try:
        return prepared_call.prepared.preview() if prepared_call.prepared is not None else ""
    except (ValueError, OSError):
        return ""


def _describe_touches(touch: Touch, root: str) -> tuple[str, ...]:
    """What a call reads, writes, removes and reaches, for the operator."""
    top = f"{root.rstrip('/')}/"
    touched = {
        "reads": [fact.path.removeprefix(top) for fact in touch.reads],
        "writes": [fact.path.removeprefix(top) for fact in touch.writes],
        "removes": [fact.path.removeprefix(top) for fact in touch.removes],
        "reaches": [f"{fact.host}:{fact.port}" for fact in touch.hosts] + [remote.address for remote in touch.remotes],
    }
    return tuple(f"{what}: {', '.join(dict.fromkeys(names))}" for what, names in touched.items() if names)


def _plan_hash(session: Session, prepared_call: PreparedCall) -> str:
    """The hash of what the operator is asked about: tool, input, directory, and everything that it would touch."""
    name = prepared_call.tool.name if prepared_call.tool is not None else prepared_call.call.name
    workspace = session.environment.context.workspace
    if session.supervisor is not NO_SUPERVISOR:  # the answer may come when the run is on another machine
        from adderclaw.policy import facts

        return digest(
            [
                name,
                prepared_call.call.input,
                _without_location([workspace.cwd, facts.touch_to_json(prepared_call.touch)], workspace.root),
            ]
        )
    # only fields that differ from their default, so that a field added later does not change existing hashes
    blank = vars(Touch())
    touched = {key: repr(value) for key, value in vars(prepared_call.touch).items() if value != blank[key]}
    return digest([name, prepared_call.call.input, workspace.cwd, touched])


def _without_location(value: Any, root: str) -> Any:
    """The value without the workspace's location and its files' inodes, which differ between machines."""
    if isinstance(value, str):
        return value.replace(root, "<workspace>")
    if isinstance(value, list):
        return [_without_location(entry, root) for entry in cast(list[Any], value)]
    if isinstance(value, dict):
        named = cast(Json, value).items()
        return {name: _without_location(entry, root) for name, entry in named if name != "identity"}
    return value


def _grant_always(session: Session, prepared_call: PreparedCall, answer: Answer) -> Json:
    """Grant what the operator was shown for "always", and return what the receipt says about it."""
    if answer.remember == "registries":  # the answer's comment names them
        if session.environment.network is not None:
            session.environment.network.allow_registries(prepared_call.touch.command)
        return {}
    from adderclaw.agent.tool_call import permission_updates
    from adderclaw.config import project_grants
    from adderclaw.config.permissions import grant
    from adderclaw.policy import grants

    rules = grants.exact_rules(prepared_call.case) if prepared_call.case is not None else ()
    destination = "userSettings" if answer.remember == "user" else "session"
    try:
        stored_in = permission_updates.apply_update(session, grant(rules, destination)) if rules else "nowhere"
        if rules and answer.remember == "project":
            root = session.environment.context.workspace.root
            stored_in = f"{project_grants.add(session.home, root, rules)} for {root}"
    except AdderClawError as error:
        session.bus.publish({"event_type": "warning", "message": f"'always' could not be kept: {error}"})
        return {}
    return session.secrets.clean({"granted": list(rules), "granted_in": stored_in})


def _rejudge_approved(session: Session, asked: PreparedCall) -> PreparedCall:
    """Judge an approved call again: the stop, a link or a file may have changed while the operator was asked."""
    opinion = asked.case.hook_opinion if asked.case is not None else None
    now = judge_in_session(session, asked.call, opinion, rewritten=asked.rewritten, approved=True)
    if now.decision.verdict == "deny" or _plan_hash(session, now) == _plan_hash(session, asked):
        return now
    reason = "what the call touches changed while the operator was asked"
    return replace(now, decision=Decision("deny", now.decision.risk, reason, "changed", ()))


def decision_record(session: Session, prepared_call: PreparedCall, answer: Answer | None) -> Json:
    """Who or what decided, and why: the receipt's `decision`."""
    decision = prepared_call.decision
    how: Json = {
        "verdict": decision.verdict,
        "by": decision.by,
        "reason": decision.reason,
        "sandbox": session.environment.confinement,
    }
    if answer is not None:
        how |= {"verdict": "allow" if answer.approved else "deny", "asked_by": decision.by, "by": answer.by}
        how |= {"answered_by": answer.who} if answer.who else {}
        how |= {"approval_id": answer.approval_id} if answer.approval_id else {}
        if answer.comment:
            how["comment"] = answer.comment
    return session.secrets.clean(how)


def _denial_text(prepared_call: PreparedCall, answer: Answer | None) -> str:
    decision = prepared_call.decision
    if answer is None:
        return f"Denied by {decision.by}: {decision.reason}"
    comment = f": {answer.comment}" if answer.comment else ""
    return f"Denied by {answer.by}{comment} (asked because: {decision.reason})"


async def _begin_checkpoint(session: Session, prepared_call: PreparedCall) -> "Watch | None":
    """Begin a checkpoint of what the call may change; None if it cannot write."""
    if session.checkpoints is None:
        return None
    from adderclaw.policy.legacy.looking import reach
    from adderclaw.sandbox.legacy.checkpoints.tracker import Who

    far = reach(prepared_call.touch)
    if far == "nothing":
        return None
    workspace = session.environment.context.workspace
    call = prepared_call.call
    who = Who(session.conversation_id, session.session_id, call.name, call.id)
    # both names, since a call may write through a link or replace the link itself
    paths = dict.fromkeys(path for fact in prepared_call.touch.writes for path in (fact.real, fact.path))
    trees = [fact.real for fact in prepared_call.touch.removes]
    roots = (workspace.root, *workspace.extra)
    return await session.checkpoints.begin(who, paths, roots, anything=far == "anything", trees=trees)


async def run_prepared(session: Session, approved_call: ApprovedCall) -> TimedResult:
    """Run the prepared call until it ends, its time is up, or the emergency stop is set."""
    tool, prepared, began = (
        approved_call.prepared_call.tool,
        approved_call.prepared_call.prepared,
        session.clock.monotonic(),
    )
    assert tool is not None
    assert prepared is not None
    seconds = min(tool.timeout(approved_call.prepared_call.arguments), session.budget.seconds_left)
    if approved_call.record.seconds is not None:
        seconds = min(seconds, approved_call.record.seconds)

    def look() -> ToolResult | None:
        if session.environment.stopped():
            return rejected("stopped by the emergency stop while it ran; the outcome is unknown", "unknown")
        if session.clock.monotonic() >= began + seconds:
            return internal_failure(f"{tool.name} timed out after {seconds:g} s", "timed_out")
        return None

    # the tape records the result of a tool, not its steps
    with session.tape.inside_tool():
        try:
            result = await wait_unless(prepared.run(), look)
        except Exception as error:  # noqa: BLE001 - a failing tool gives the model a result and never ends the turn
            kind = (
                "" if isinstance(error, AdderClawError) else f"{type(error).__name__}: "
            )  # AdderClaw's own errors are readable as they are
            result = internal_failure(f"{tool.name} failed: {kind}{error}", own=False)
    return TimedResult(session.environment.shorten(result), (session.clock.monotonic() - began) * 1000)


def reached_limit(session: Session) -> LimitError | None:
    """The limit that prevents further tool calls; None if there is none."""
    try:
        session.budget.before_tool_call()
    except LimitError as error:
        return error
    return None
