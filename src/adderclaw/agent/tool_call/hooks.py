"""Runs the hooks of one tool call: before it is judged, when approval is needed, and after it ran."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from adderclaw.agent.session.session import Session
from adderclaw.agent.tool_call.permission_check import PreparedCall, judge_in_session
from adderclaw.agent.tool_call.result import CallRecord, clip_result
from adderclaw.core.errors import AdderClawError
from adderclaw.core.json_text import canonical
from adderclaw.core.questions import Answer
from adderclaw.core.tool_traits import EDIT
from adderclaw.core.types import Json, ToolResult
from adderclaw.policy.case import Decision, Opinion
from adderclaw.tools import find_tool, resolve_arguments

BY_HOOK = "hook"
AFTER_EDIT = "AfterEdit"
"""The event of the checks after an edit. It is in the table of hooks, but cannot be configured."""


def _hook_fields(session: Session, prepared_call: PreparedCall) -> Json:
    """The fields of a call for hooks, with the canonical names of the tool and its arguments."""
    call = prepared_call.call
    tool_and_alias = find_tool(session.environment.tools, call.name)
    arguments = resolve_arguments(tool_and_alias[1], call.input) if tool_and_alias is not None else call.input
    name = prepared_call.tool.name if prepared_call.tool is not None else call.name
    return {"tool_name": name, "tool_input": arguments, "tool_use_id": call.id}


async def run_before_hooks(session: Session, prepared_call: PreparedCall, record: CallRecord) -> PreparedCall:
    """Run the PreToolUse hooks, which may deny the call or rewrite its input; then judge it again."""
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
    """Apply the permission changes and the changed input of an approval; a changed call is judged again."""
    if answer.updates:
        _apply_permission_updates(session, answer.updates, "the operator")
    if answer.input is None or answer.input == prepared_call.call.arguments:
        return prepared_call
    opinion = prepared_call.case.hook_opinion if prepared_call.case is not None else None
    return _rewrite_call(session, prepared_call, answer.input, opinion, "the operator")


async def run_permission_request_hooks(
    session: Session, prepared_call: PreparedCall, record: CallRecord
) -> tuple[PreparedCall, Answer | None]:
    """Run the PermissionRequest hooks, which may answer for the operator; if none does, run the Notification hooks."""
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

    rules = grants.exact_rules(prepared_call.case) if prepared_call.case is not None else ()
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
    """Apply changes of permissions; reports and skips those that are impossible."""
    from adderclaw.agent.tool_call import permission_updates
    from adderclaw.config.permissions import PermissionUpdate
    from adderclaw.core.decode import decode

    for update in updates:
        try:
            stored_in = permission_updates.apply_update(session, permission_update := decode(PermissionUpdate, update))
            if permission_update.destination in permission_updates.PROJECT_DESTINATIONS:
                message = f"{who}'s permission update counts in {stored_in}"
                session.bus.publish({"event_type": "warning", "message": message})
        except AdderClawError as error:
            message = f"{who}'s permission update is not made: {error}"
            session.bus.publish({"event_type": "warning", "message": message})


def _apply_hook_approval(
    session: Session, prepared_call: PreparedCall, decision: Json
) -> tuple[PreparedCall, Answer | None]:
    _apply_permission_updates(session, decision.get("updatedPermissions", []), "a hook")
    opinion = prepared_call.case.hook_opinion if prepared_call.case is not None else None
    now = _rewrite_call(session, prepared_call, decision.get("updatedInput"), opinion)
    return now, None if is_raw_bash(now) else Answer(approved=True, by=BY_HOOK)


def is_raw_bash(prepared_call: PreparedCall) -> bool:
    """Whether the call is raw bash. No hook can approve it, not even by rewriting another call."""
    from adderclaw.policy.legacy.shell.planner import Raw

    return isinstance(prepared_call.touch.command, Raw)


async def run_denied_hooks(session: Session, prepared_call: PreparedCall, how: Json, record: CallRecord) -> str:
    """Run the PermissionDenied hooks, unless a hook denied the call. Returns text to append to the denial."""
    if "PermissionDenied" not in session.hooks or how["by"] == BY_HOOK:
        return ""
    fields = {**_hook_fields(session, prepared_call), "reason": str(how["reason"])}
    merged = await session.fire("PermissionDenied", fields, record.rows)
    record.add_hook_output("PermissionDenied", merged)
    return " (a hook says: it may be tried again)" if merged.specific.get("retry") else ""


async def run_after_hooks(
    session: Session, prepared_call: PreparedCall, result: ToolResult, record: CallRecord
) -> ToolResult:
    """Run the hooks after a call ran, then the checks of an edit, which see the file as the hooks left it."""
    result = await _run_result_hooks(session, prepared_call, result, record)
    edits = prepared_call.tool is not None and prepared_call.tool.traits.family == EDIT and not result.is_error
    if edits and AFTER_EDIT in session.hooks and not session.environment.stopped():
        files = [fact.real for fact in prepared_call.touch.writes]
        record.add_hook_output(AFTER_EDIT, await session.fire(AFTER_EDIT, {"files": files}, record.rows))
    return result


async def _run_result_hooks(
    session: Session, prepared_call: PreparedCall, result: ToolResult, record: CallRecord
) -> ToolResult:
    """Run the hooks for how the call ended; returns the result, which a hook may replace."""
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
        text = replaced if isinstance(replaced, str) else canonical(replaced)
        return clip_result(replace(result, content=session.secrets.scrub(text), page=False))
    return result
