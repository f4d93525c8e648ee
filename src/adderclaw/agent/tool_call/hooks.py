"""What hooks say of one tool call: before it is judged, when the operator would be asked, and after it ran."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from sqlite3 import Cursor
from typing import TYPE_CHECKING, Any

from adderclaw.agent.session.session import Rows, Session, hook_text
from adderclaw.agent.tool_call.permission_check import PreparedCall, judge_in_session
from adderclaw.core.errors import AdderClawError
from adderclaw.core.hook_outcome import Merged
from adderclaw.core.json_text import canonical
from adderclaw.core.questions import Answer
from adderclaw.core.tool_traits import EDIT
from adderclaw.core.types import Json, ToolResult
from adderclaw.policy.case import Decision, Opinion
from adderclaw.tools import arguments_of, find

if TYPE_CHECKING:
    from adderclaw.agent.tool_call.result import FinishedCall

BY_HOOK = "hook"
AFTER_EDIT = "AfterEdit"
"""What follows an edit by itself: in the table of hooks, but none that anybody configures."""


type SaveOutcome = Callable[[Cursor, ToolResult, bool], None]
"""Keeps what became of a call and whether it was denied, in the transaction of its result."""


class CallRecord:
    """What hooks left of a call: their rows, what they tell the model, and whether the turn ends; and who else keeps
    what became of it. `earlier` records the calls before it that wait, so that all are recorded in their order."""

    __slots__ = ("begun", "done", "record_earlier", "rows", "said", "save_outcome", "seconds", "stop")

    def __init__(
        self, keep: SaveOutcome | None = None, earlier: Callable[[], None] = lambda: None, seconds: float | None = None
    ) -> None:
        self.save_outcome, self.record_earlier = keep, earlier
        self.seconds = seconds
        """How long it may run, where whoever wants it gives it less time than its tool does."""
        self.rows: Rows = []
        self.hook_texts: list[str] = []
        self.stop: str | None = None
        self.begun = False
        """Its intent is committed: without a result, nobody knows what it did."""
        self.finished: FinishedCall | None = None
        """As it was recorded."""

    def add_hook_output(self, event: str, merged: Merged, *reasons: str) -> None:
        texts = [text for text in (*merged.context, *reasons) if text]
        if texts:
            self.hook_texts.append(hook_text(event, texts))
        if merged.stop is not None and self.stop is None:
            self.stop = merged.stop

    def with_hook_output(self, result: ToolResult) -> ToolResult:
        """The result with what hooks have to say of the call."""
        return replace(result, content="\n\n".join((result.content, *self.hook_texts))) if self.hook_texts else result


def _hook_fields(session: Session, prepared_call: PreparedCall) -> Json:
    """A call as hooks know it: by its canonical name, with canonical names of its arguments."""
    call = prepared_call.call
    tool_and_alias = find(session.environment.tools, call.name)
    arguments = arguments_of(tool_and_alias[1], call.input) if tool_and_alias is not None else call.input
    name = prepared_call.tool.name if prepared_call.tool is not None else call.name
    return {"tool_name": name, "tool_input": arguments, "tool_use_id": call.id}


async def run_before_hooks(session: Session, prepared_call: PreparedCall, record: CallRecord) -> PreparedCall:
    """PreToolUse: may refuse, may rewrite the input. Then the call is decoded and judged again, as it now is."""
    if "PreToolUse" not in session.hooks or session.environment.stopped():
        return prepared_call
    merged = await session.fire("PreToolUse", _hook_fields(session, prepared_call), record.rows)
    record.add_hook_output("PreToolUse", merged)
    if merged.blocked or merged.verdict == "deny":
        reason = merged.reason if merged.blocked else merged.verdict_reason
        return replace(prepared_call, decision=Decision("deny", prepared_call.decision.risk, reason, BY_HOOK, ()))
    if not merged.ran:
        return prepared_call
    opinion = Opinion(BY_HOOK, merged.verdict, merged.verdict_reason) if merged.verdict is not None else None
    return _rewrite_call(session, prepared_call, merged.updated_input, opinion)


def _rewrite_call(
    session: Session, prepared_call: PreparedCall, new_input: Json | None, opinion: Opinion | None, who: str = "a hook"
) -> PreparedCall:
    call = prepared_call.call
    if new_input is not None:
        call = replace(call, arguments=session.secrets.scrub_all(new_input))
    now = judge_in_session(session, call, opinion, rewritten=prepared_call.rewritten or new_input is not None)
    if now.error is not None and new_input is not None:
        return replace(now, error=f"{who} rewrote the input: {now.error}")
    return now


def apply_answer(session: Session, prepared_call: PreparedCall, answer: Answer) -> PreparedCall:
    """The call as whoever approved it wants it: with other input it is decoded and judged again, as it now is."""
    if answer.updates:
        _apply_permission_updates(session, answer.updates, "the operator")
    if answer.input is None or answer.input == prepared_call.call.arguments:
        return prepared_call
    opinion = prepared_call.case.hook_opinion if prepared_call.case is not None else None
    return _rewrite_call(session, prepared_call, answer.input, opinion, "the operator")


async def run_permission_request_hooks(
    session: Session, prepared_call: PreparedCall, record: CallRecord
) -> tuple[PreparedCall, Answer | None]:
    """PermissionRequest: may answer in the operator's place; if not, a Notification says that they are asked."""
    if "PermissionRequest" in session.hooks:
        fields = _hook_fields(session, prepared_call) | _suggestions(prepared_call)
        del fields["tool_use_id"]
        merged = await session.fire("PermissionRequest", fields, record.rows)
        record.add_hook_output("PermissionRequest", merged)
        decision: Json | None = merged.specific.get("decision")
        if decision is not None and decision["behavior"] == "deny":
            if decision.get("interrupt"):
                record.stop = str(decision.get("message", ""))
            return prepared_call, Answer(approved=False, by=BY_HOOK, comment=str(decision.get("message", "")))
        if decision is not None and not is_raw_bash(prepared_call):
            return _apply_hook_approval(session, prepared_call, decision)
    if "Notification" in session.hooks:
        message = f"{prepared_call.call.name} needs your approval: {prepared_call.decision.reason}"
        kind = {"title": "Approval needed", "notification_type": "permission_prompt"}
        record.add_hook_output(
            "Notification", await session.fire("Notification", {"message": message, **kind}, record.rows)
        )
    return prepared_call, None


def _suggestions(prepared_call: PreparedCall) -> Json:
    from adderclaw.policy import grants

    rules = grants.exact(prepared_call.case) if prepared_call.case is not None else ()
    if not rules:
        return {}
    parts = (rule.partition("(") for rule in rules)
    listed = [{"toolName": tool, "ruleContent": rest.removesuffix(")")} for tool, _, rest in parts]
    return {
        "permission_suggestions": [
            {"type": "addRules", "rules": listed, "behavior": "allow", "destination": "session"},
        ]
    }


def _apply_permission_updates(session: Session, updates: Sequence[Json], who: str) -> None:
    """Apply changes of permissions; one that cannot be made is said, and left out."""
    from adderclaw.agent.tool_call import permission_updates
    from adderclaw.config.permissions import PermissionUpdate
    from adderclaw.core.decode import decode

    for update in updates:
        try:
            stored_in = permission_updates.apply_update(session, permission_update := decode(PermissionUpdate, update))
            if permission_update.destination in permission_updates.PROJECT_DESTINATIONS:
                message = f"{who}'s permission update counts in {stored_in}"
                session.bus.tell({"event_type": "warning", "message": message})
        except AdderClawError as error:
            message = f"{who}'s permission update is not made: {error}"
            session.bus.tell({"event_type": "warning", "message": message})


def _apply_hook_approval(
    session: Session, prepared_call: PreparedCall, decision: Json
) -> tuple[PreparedCall, Answer | None]:
    _apply_permission_updates(session, decision.get("updatedPermissions", []), "a hook")
    opinion = prepared_call.case.hook_opinion if prepared_call.case is not None else None
    now = _rewrite_call(session, prepared_call, decision.get("updatedInput"), opinion)
    return now, None if is_raw_bash(now) else Answer(approved=True, by=BY_HOOK)


def is_raw_bash(prepared_call: PreparedCall) -> bool:
    """Raw bash is asked for each time: no hook grants it, nor by what it makes of another call."""
    from adderclaw.policy.legacy.shell.planner import Raw

    return isinstance(prepared_call.touch.command, Raw)


async def run_denied_hooks(session: Session, prepared_call: PreparedCall, how: Json, record: CallRecord) -> str:
    """PermissionDenied: a refusal that a hook did not make itself. Says what the model hears beside it."""
    if "PermissionDenied" not in session.hooks or how["by"] == BY_HOOK:
        return ""
    fields = {**_hook_fields(session, prepared_call), "reason": str(how["reason"])}
    merged = await session.fire("PermissionDenied", fields, record.rows)
    record.add_hook_output("PermissionDenied", merged)
    return " (a hook says: it may be tried again)" if merged.specific.get("retry") else ""


async def run_after_hooks(
    session: Session, prepared_call: PreparedCall, result: ToolResult, record: CallRecord
) -> ToolResult:
    """What hooks make of a call that ran; an edit is looked at after them, as they left the file."""
    heard = await _run_result_hooks(session, prepared_call, result, record)
    edits = prepared_call.tool is not None and prepared_call.tool.traits.family == EDIT and not result.is_error
    if edits and AFTER_EDIT in session.hooks and not session.environment.stopped():
        files = [fact.real for fact in prepared_call.touch.writes]
        record.add_hook_output(AFTER_EDIT, await session.fire(AFTER_EDIT, {"files": files}, record.rows))
    return heard


async def _run_result_hooks(
    session: Session, prepared_call: PreparedCall, result: ToolResult, record: CallRecord
) -> ToolResult:
    """PostToolUse, PostToolUseFailure or PermissionDenied, as it ended; the result, which a hook may replace."""
    if result.denial is not None:
        how = {"by": "open", "reason": result.denial.reason}
        note = await run_denied_hooks(session, prepared_call, how, record)
        return replace(result, content=result.content + note) if note else result
    event = "PostToolUseFailure" if result.is_error else "PostToolUse"
    if event not in session.hooks:
        return result
    fields = _hook_fields(session, prepared_call)
    if result.is_error:
        fields |= {"error": result.content, "is_interrupt": session.environment.stopped()}
    else:
        fields |= {"tool_response": {**result.metadata, "content": result.content}}
    merged = await session.fire(event, fields, record.rows)
    record.add_hook_output(event, merged, merged.reason)
    replaced: Any = merged.specific.get("updatedMCPToolOutput")
    if replaced is not None and str(fields["tool_name"]).startswith("mcp__"):
        from adderclaw.agent.tool_call.result import clip_result

        text = replaced if isinstance(replaced, str) else canonical(replaced)
        return clip_result(replace(result, content=session.secrets.scrub(text), page=False))
    return result
