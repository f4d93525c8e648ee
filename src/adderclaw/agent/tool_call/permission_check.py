"""Checks a tool call before it runs: finds its tool, decodes its input, and judges it."""

from dataclasses import replace
from typing import Any

from adderclaw import policy
from adderclaw.agent.session.session import Session, ToolEnvironment
from adderclaw.core.json_text import canonical
from adderclaw.core.record import record
from adderclaw.core.tool_traits import BASH
from adderclaw.core.types import Disabled, Prepared, Tool, ToolCall, Touch
from adderclaw.policy.case import Case, Decision, Opinion
from adderclaw.tools import decode_arguments, find_tool, nearest_name, resolve_arguments, unwrap_call

UNKNOWN = Touch(opaque=True)
CUT_NOTE = (
    " (the reply reached its limit of output tokens and was cut in this call: write less in one call, in several parts)"
)


@record
class PreparedCall:
    """A call with everything that is known about it before it runs."""

    call: ToolCall
    tool: Tool[Any] | None
    arguments: Any
    prepared: Prepared | None
    """What runs if it is allowed; None if it could not be prepared."""
    decision: Decision
    error: str | None = None
    """Why it cannot be judged: the tool is unknown, or the arguments do not fit."""
    argument_error: str = ""
    """The decoder's message about the arguments."""
    case: Case | None = None
    """What the policy judged; None if the call did not get that far."""
    rewritten: bool = False
    """Whether a hook replaced the model's input."""
    fails: str = ""
    """If the operator would be asked: why the call would fail anyway."""

    @property
    def touch(self) -> Touch:
        return self.prepared.touch if self.prepared is not None else UNKNOWN


def prepare_and_judge(
    environment: ToolEnvironment,
    call: ToolCall,
    opinion: Opinion | None = None,
    *,
    rewritten: bool = False,
    approved: bool = False,
) -> PreparedCall:
    """Find the tool of a call, decode its input and judge it, without side effects. `opinion`: the hooks' decision."""
    call = unwrap_call(call)
    tool_and_alias = find_tool(environment.tools, call.name)
    if tool_and_alias is None:
        return unfit_call(call, None, _unknown_tool(environment, call.name))
    tool, alias = tool_and_alias
    if call.arguments is None:
        cut = CUT_NOTE if call.cut else ""
        return unfit_call(call, tool, f"the arguments of {call.name} are not a JSON object: {call.raw[:200]!r}{cut}")
    from adderclaw.core.decode import Invalid

    try:
        canonical_arguments = resolve_arguments(alias, call.arguments)
        arguments = decode_arguments(tool, canonical_arguments)
    except Invalid as error:
        schema = f"; its schema: {canonical(tool.parameters)}" if tool.deferred else ""
        cut = CUT_NOTE if call.cut else ""
        why = f"the arguments of {call.name} do not fit: {error}{schema}{cut}"
        return replace(unfit_call(call, tool, why), argument_error=str(error))
    context = replace(
        environment.context, called_as=call.name, tool_use_id=call.id, rewritten=rewritten, approved=approved
    )
    try:
        prepared = tool.prepare(arguments, context)
    except (ValueError, OSError) as error:
        by = error.by if isinstance(error, Disabled) else "paths"
        refusal = Decision("deny", "high", str(error), by, (), tool.name, "no sandbox" if tool.name == BASH else None)
        return PreparedCall(call, tool, arguments, None, refusal, rewritten=rewritten)
    planning, touch = environment.planning(), prepared.touch
    case = Case(
        tool=tool.name,
        called_as=call.name,
        arguments=call.arguments,
        touch=touch,
        policy=environment.policy,
        estop=environment.stopped(),
        phase=planning.phase,
        plan_approved=planning.plan_approved,
        at_terminal=environment.at_terminal,
        unmasked=touch.looks and environment.unmasked(touch),
        free_reads=environment.context.free_reads,
        protected_ids=environment.protected_ids() if touch.reads or touch.writes else frozenset(),
        hook_opinion=opinion,
        recent=environment.pace.recent_count(tool.traits.section_of or tool.name)
        if environment.pace and environment.policy.files
        else 0,
    )
    decision, fails = policy.judge(case), ""
    if decision.verdict == "ask" and not approved:
        try:  # after the verdict, so that a denied call does not reveal whether it would work
            fails = prepared.fails()
        except (ValueError, OSError) as error:
            decision = Decision("deny", "high", str(error), "paths", (), tool.name)
    return PreparedCall(call, tool, arguments, prepared, decision, case=case, rewritten=rewritten, fails=fails)


def judge_in_session(
    session: Session, call: ToolCall, opinion: Opinion | None = None, *, rewritten: bool = False, approved: bool = False
) -> PreparedCall:
    """Judge a call of the session and record the facts and the verdict on its tape."""
    prepared_call = prepare_and_judge(session.environment, call, opinion, rewritten=rewritten, approved=approved)
    return session.tape.record_judgement(session, prepared_call)


def unfit_call(call: ToolCall, tool: Tool[Any] | None, error: str) -> PreparedCall:
    return PreparedCall(call, tool, None, None, Decision("deny", "high", error, "input", ()), error)


def _unknown_tool(environment: ToolEnvironment, name: str) -> str:
    near = nearest_name(environment.offered_tools, name)
    hint = f"; did you mean {near}?" if near else ""
    # deferred tools may be thousands; ToolSearch lists them
    available = ", ".join(known for known, tool in environment.offered_tools.items() if not tool.deferred)
    return f"there is no tool named {name[:100]!r}{hint} (available: {available})"
