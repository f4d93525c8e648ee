"""A call before it runs: found, decoded, and judged."""

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
CUT = (
    " (the reply reached its limit of output tokens and was cut in this call: write less in one call, in several parts)"
)


@record
class PreparedCall:
    """A call after everything that can be said of it without running it."""

    call: ToolCall
    tool: Tool[Any] | None
    arguments: Any
    prepared: Prepared | None
    """What runs if it is allowed; None where it could not be prepared."""
    decision: Decision
    error: str | None = None
    """Why it cannot even be judged: unknown tool, arguments that do not fit."""
    misfit: str = ""
    """What is wrong with the arguments, in the words of the decoder alone."""
    case: Case | None = None
    """What the gate was shown, if it came to that."""
    rewritten: bool = False
    """A hook, and not the model, wrote its input as it is."""
    fails: str = ""
    """Where the operator would be asked: why it can only fail."""

    @property
    def touch(self) -> Touch:
        return self.prepared.touch if self.prepared is not None else UNKNOWN


def prepare_and_judge(
    scene: ToolEnvironment,
    call: ToolCall,
    opinion: Opinion | None = None,
    *,
    rewritten: bool = False,
    approved: bool = False,
) -> PreparedCall:
    """Find, decode and judge a call; nothing runs, nothing is written. `opinion` is what hooks said of it."""
    call = unwrap_call(call)
    found = find_tool(scene.tools, call.name)
    if found is None:
        return unfit(call, None, _unknown(scene, call.name))
    tool, alias = found
    if call.arguments is None:
        cut = CUT if call.cut else ""
        return unfit(call, tool, f"the arguments of {call.name} are not a JSON object: {call.raw[:200]!r}{cut}")
    from adderclaw.core.decode import Invalid

    try:
        given = resolve_arguments(alias, call.arguments)
        arguments = decode_arguments(tool, given)
    except Invalid as error:
        schema = f"; its schema: {canonical(tool.parameters)}" if tool.deferred else ""
        cut = CUT if call.cut else ""
        why = f"the arguments of {call.name} do not fit: {error}{schema}{cut}"
        return replace(unfit(call, tool, why), misfit=str(error))
    context = replace(scene.context, called_as=call.name, tool_use_id=call.id, rewritten=rewritten, approved=approved)
    try:
        prepared = tool.prepare(arguments, context)
    except (ValueError, OSError) as error:
        by = error.by if isinstance(error, Disabled) else "paths"
        refusal = Decision("deny", "high", str(error), by, (), tool.name, "no sandbox" if tool.name == BASH else None)
        return PreparedCall(call, tool, arguments, None, refusal, rewritten=rewritten)
    planning, touch = scene.planning(), prepared.touch
    case = Case(
        tool=tool.name,
        called_as=call.name,
        arguments=call.arguments,
        touch=touch,
        policy=scene.policy,
        estop=scene.stopped(),
        phase=planning.phase,
        plan_approved=planning.plan_approved,
        at_terminal=scene.at_terminal,
        unmasked=touch.looks and scene.unmasked(touch),
        free_reads=scene.context.free_reads,
        protected_ids=scene.protected_ids() if touch.reads or touch.writes else frozenset(),
        hook_opinion=opinion,
        recent=scene.pace.recent(tool.traits.section_of or tool.name) if scene.pace and scene.policy.files else 0,
    )
    decision, fails = policy.judge(case), ""
    if decision.verdict == "ask" and not approved:
        try:  # only now: what is denied tells nobody whether it would work
            fails = prepared.fails()
        except (ValueError, OSError) as error:
            decision = Decision("deny", "high", str(error), "paths", (), tool.name)
    return PreparedCall(call, tool, arguments, prepared, decision, case=case, rewritten=rewritten, fails=fails)


def considered_in(
    session: Session, call: ToolCall, opinion: Opinion | None = None, *, rewritten: bool = False, approved: bool = False
) -> PreparedCall:
    """The same for a call that is really made: what it was judged on is noted."""
    found = prepare_and_judge(session.scene, call, opinion, rewritten=rewritten, approved=approved)
    return session.tape.considered(session, found)


def unfit(call: ToolCall, tool: Tool[Any] | None, error: str) -> PreparedCall:
    return PreparedCall(call, tool, None, None, Decision("deny", "high", error, "input", ()), error)


def _unknown(scene: ToolEnvironment, name: str) -> str:
    near = nearest_name(scene.offered, name)
    hint = f"; did you mean {near}?" if near else ""
    # those that are found late may be thousands: ToolSearch lists them
    available = ", ".join(known for known, tool in scene.offered.items() if not tool.deferred)
    return f"there is no tool named {name[:100]!r}{hint} (available: {available})"
