"""What hooks say of one tool call: before it is judged, when the operator would be asked, and after it ran."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from sqlite3 import Cursor
from typing import TYPE_CHECKING, Any

from adderclaw.agent.session.session import Rows, Session, told
from adderclaw.agent.tool_call.permission_check import PreparedCall, considered_in
from adderclaw.core.errors import AdderClawError
from adderclaw.core.hook_outcome import HookOutcome
from adderclaw.core.json_text import canonical
from adderclaw.core.questions import Answer
from adderclaw.core.tool_traits import EDIT
from adderclaw.core.types import Json, ToolResult
from adderclaw.policy.case import Decision, Opinion
from adderclaw.tools import arguments_of, find

if TYPE_CHECKING:
    from adderclaw.agent.tool_call.result import Done

BY_HOOK = "hook"
AFTER_EDIT = "AfterEdit"
"""What follows an edit by itself: in the table of hooks, but none that anybody configures."""


type Keep = Callable[[Cursor, ToolResult, bool], None]
"""Keeps what became of a call and whether it was denied, in the transaction of its result."""


class CallRecord:
    """What hooks left of a call: their rows, what they tell the model, and whether the turn ends; and who else keeps
    what became of it. `earlier` records the calls before it that wait, so that all are recorded in their order."""

    __slots__ = ("begun", "done", "earlier", "keep", "rows", "said", "seconds", "stop")

    def __init__(
        self, keep: Keep | None = None, earlier: Callable[[], None] = lambda: None, seconds: float | None = None
    ) -> None:
        self.keep, self.earlier = keep, earlier
        self.seconds = seconds
        """How long it may run, where whoever wants it gives it less time than its tool does."""
        self.rows: Rows = []
        self.said: list[str] = []
        self.stop: str | None = None
        self.begun = False
        """Its intent is committed: without a result, nobody knows what it did."""
        self.done: Done | None = None
        """As it was recorded."""

    def add_hook_output(self, event: str, merged: HookOutcome, *reasons: str) -> None:
        texts = [text for text in (*merged.context, *reasons) if text]
        if texts:
            self.said.append(told(event, texts))
        if merged.stop is not None and self.stop is None:
            self.stop = merged.stop

    def with_hook_output(self, result: ToolResult) -> ToolResult:
        """The result with what hooks have to say of the call."""
        return replace(result, content="\n\n".join((result.content, *self.said))) if self.said else result


def _fields(session: Session, considered: PreparedCall) -> Json:
    """A call as hooks know it: by its canonical name, with canonical names of its arguments."""
    call = considered.call
    found = find(session.scene.tools, call.name)
    given = arguments_of(found[1], call.input) if found is not None else call.input
    name = considered.tool.name if considered.tool is not None else call.name
    return {"tool_name": name, "tool_input": given, "tool_use_id": call.id}


async def before(session: Session, considered: PreparedCall, life: CallRecord) -> PreparedCall:
    """PreToolUse: may refuse, may rewrite the input. Then the call is decoded and judged again, as it now is."""
    if "PreToolUse" not in session.hooks or session.scene.stopped():
        return considered
    merged = await session.fire("PreToolUse", _fields(session, considered), life.rows)
    life.add_hook_output("PreToolUse", merged)
    if merged.blocked or merged.verdict == "deny":
        reason = merged.reason if merged.blocked else merged.verdict_reason
        return replace(considered, decision=Decision("deny", considered.decision.risk, reason, BY_HOOK, ()))
    if not merged.ran:
        return considered
    opinion = Opinion(BY_HOOK, merged.verdict, merged.verdict_reason) if merged.verdict is not None else None
    return _rewritten(session, considered, merged.updated_input, opinion)


def _rewritten(
    session: Session, considered: PreparedCall, given: Json | None, opinion: Opinion | None, who: str = "a hook"
) -> PreparedCall:
    call = considered.call
    if given is not None:
        call = replace(call, arguments=session.secrets.scrub_all(given))
    now = considered_in(session, call, opinion, rewritten=considered.rewritten or given is not None)
    if now.error is not None and given is not None:
        return replace(now, error=f"{who} rewrote the input: {now.error}")
    return now


def as_answered(session: Session, considered: PreparedCall, answer: Answer) -> PreparedCall:
    """The call as whoever approved it wants it: with other input it is decoded and judged again, as it now is."""
    if answer.updates:
        _update(session, answer.updates, "the operator")
    if answer.input is None or answer.input == considered.call.arguments:
        return considered
    opinion = considered.case.hook_opinion if considered.case is not None else None
    return _rewritten(session, considered, answer.input, opinion, "the operator")


async def requested(session: Session, considered: PreparedCall, life: CallRecord) -> tuple[PreparedCall, Answer | None]:
    """PermissionRequest: may answer in the operator's place; if not, a Notification says that they are asked."""
    if "PermissionRequest" in session.hooks:
        fields = _fields(session, considered) | _suggestions(considered)
        del fields["tool_use_id"]
        merged = await session.fire("PermissionRequest", fields, life.rows)
        life.add_hook_output("PermissionRequest", merged)
        decision: Json | None = merged.specific.get("decision")
        if decision is not None and decision["behavior"] == "deny":
            if decision.get("interrupt"):
                life.stop = str(decision.get("message", ""))
            return considered, Answer(approved=False, by=BY_HOOK, comment=str(decision.get("message", "")))
        if decision is not None and not is_raw(considered):
            return _allowed(session, considered, decision)
    if "Notification" in session.hooks:
        message = f"{considered.call.name} needs your approval: {considered.decision.reason}"
        kind = {"title": "Approval needed", "notification_type": "permission_prompt"}
        life.add_hook_output(
            "Notification", await session.fire("Notification", {"message": message, **kind}, life.rows)
        )
    return considered, None


def _suggestions(considered: PreparedCall) -> Json:
    from adderclaw.policy import grants

    rules = grants.exact(considered.case) if considered.case is not None else ()
    if not rules:
        return {}
    parts = (rule.partition("(") for rule in rules)
    listed = [{"toolName": tool, "ruleContent": rest.removesuffix(")")} for tool, _, rest in parts]
    return {
        "permission_suggestions": [
            {"type": "addRules", "rules": listed, "behavior": "allow", "destination": "session"},
        ]
    }


def _update(session: Session, updates: Sequence[Json], who: str) -> None:
    """Apply changes of permissions; one that cannot be made is said, and left out."""
    from adderclaw.agent.tool_call import permission_updates
    from adderclaw.config.permissions import PermissionUpdate
    from adderclaw.core.decode import decode

    for update in updates:
        try:
            place = permission_updates.apply(session, wanted := decode(PermissionUpdate, update))
            if wanted.destination in permission_updates.NOT_OURS:
                message = f"{who}'s permission update counts in {place}"
                session.bus.publish({"event_type": "warning", "message": message})
        except AdderClawError as error:
            message = f"{who}'s permission update is not made: {error}"
            session.bus.publish({"event_type": "warning", "message": message})


def _allowed(session: Session, considered: PreparedCall, decision: Json) -> tuple[PreparedCall, Answer | None]:
    _update(session, decision.get("updatedPermissions", []), "a hook")
    opinion = considered.case.hook_opinion if considered.case is not None else None
    now = _rewritten(session, considered, decision.get("updatedInput"), opinion)
    return now, None if is_raw(now) else Answer(approved=True, by=BY_HOOK)


def is_raw(considered: PreparedCall) -> bool:
    """Raw bash is asked for each time: no hook grants it, nor by what it makes of another call."""
    from adderclaw.policy.legacy.shell.planner import Raw

    return isinstance(considered.touch.command, Raw)


async def denied(session: Session, considered: PreparedCall, how: Json, life: CallRecord) -> str:
    """PermissionDenied: a refusal that a hook did not make itself. Says what the model hears beside it."""
    if "PermissionDenied" not in session.hooks or how["by"] == BY_HOOK:
        return ""
    fields = {**_fields(session, considered), "reason": str(how["reason"])}
    merged = await session.fire("PermissionDenied", fields, life.rows)
    life.add_hook_output("PermissionDenied", merged)
    return " (a hook says: it may be tried again)" if merged.specific.get("retry") else ""


async def after(session: Session, considered: PreparedCall, result: ToolResult, life: CallRecord) -> ToolResult:
    """What hooks make of a call that ran; an edit is looked at after them, as they left the file."""
    heard = await _heard(session, considered, result, life)
    edits = considered.tool is not None and considered.tool.traits.family == EDIT and not result.is_error
    if edits and AFTER_EDIT in session.hooks and not session.scene.stopped():
        files = [fact.real for fact in considered.touch.writes]
        life.add_hook_output(AFTER_EDIT, await session.fire(AFTER_EDIT, {"files": files}, life.rows))
    return heard


async def _heard(session: Session, considered: PreparedCall, result: ToolResult, life: CallRecord) -> ToolResult:
    """PostToolUse, PostToolUseFailure or PermissionDenied, as it ended; the result, which a hook may replace."""
    if result.denial is not None:
        how = {"by": "open", "reason": result.denial.reason}
        note = await denied(session, considered, how, life)
        return replace(result, content=result.content + note) if note else result
    event = "PostToolUseFailure" if result.is_error else "PostToolUse"
    if event not in session.hooks:
        return result
    fields = _fields(session, considered)
    if result.is_error:
        fields |= {"error": result.content, "is_interrupt": session.scene.stopped()}
    else:
        fields |= {"tool_response": {**result.metadata, "content": result.content}}
    merged = await session.fire(event, fields, life.rows)
    life.add_hook_output(event, merged, merged.reason)
    replaced: Any = merged.specific.get("updatedMCPToolOutput")
    if replaced is not None and str(fields["tool_name"]).startswith("mcp__"):
        from adderclaw.agent.tool_call.result import clipped

        text = replaced if isinstance(replaced, str) else canonical(replaced)
        return clipped(replace(result, content=session.secrets.scrub(text), page=False))
    return result
