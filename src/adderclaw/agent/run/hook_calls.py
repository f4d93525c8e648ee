"""A call beside the conversation, by a hook, a line of a skill or a person's hand, in a session of its own."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from adderclaw.agent.run.start import Runtime
from adderclaw.agent.session.limits import LoopDetector
from adderclaw.agent.session.session import InForce, Session, State, TurnResult
from adderclaw.agent.session.tape import UNTAPED
from adderclaw.agent.subagents import children
from adderclaw.agent.tool_call.call import run_call
from adderclaw.agent.tool_call.permission_check import prepare_and_judge
from adderclaw.agent.tool_call.result import Done
from adderclaw.agent.tool_call.session_hooks import AGENT
from adderclaw.core.child import ChildRequest
from adderclaw.core.questions import Answer, ApprovalRequest, Operator, QuestionRequest, answer_with
from adderclaw.core.record import NamedTuple
from adderclaw.core.tool_traits import BASH
from adderclaw.core.types import Tool, ToolCall, ToolContext, ToolResult, Workspace, rejected

HAND = "hand"
"""What a session is called in which a person calls a tool."""


class Configured:
    """Stands behind a hook's call: whoever wrote the hook has said yes to it. What the gate denies stays denied."""

    async def approve(self, request: ApprovalRequest) -> Answer:
        if request.raw:
            return Answer(approved=False, by="no_operator", comment="raw bash is run by no hook and no skill")
        return Answer(approved=True, by="operator", comment=f"{request.tool} is called by the operator's own hook")

    async def ask(self, request: QuestionRequest) -> Answer:  # noqa: ARG002
        return answer_with(None)


class NoOperator(Configured):
    """Stands behind a call that nobody wrote down: what would be asked about is not done."""

    async def approve(self, request: ApprovalRequest) -> Answer:  # noqa: ARG002
        return Answer(approved=False, by="no_operator", comment="nobody is asked about this call")


async def call(
    runtime: Runtime,
    parent: Session,
    tools: Mapping[str, Tool[Any]],
    name: str,
    given: dict[str, object],
    why: str,
    *,
    asked: bool = False,
) -> ToolResult:
    """What the tool answers; a refusal and a failure are results like any other.

    `tools` are all that the session has: what its model may call just now can be less. No hook hears of it, and nobody
    is asked, unless with `asked`: then words of the model are in it.
    """
    arrive = parent.scene.arrive
    if name not in tools and arrive is not None and (why_not := await arrive(name)):
        return rejected(why_not)
    if name not in tools:
        return rejected(f"there is no tool {name!r}")
    order = ChildRequest("", agent_type=AGENT, description=why, background=not asked)
    child = _session(runtime, parent, tools[name], order)
    return (await _run(child, parent, ToolCall(child.ids("toolu"), name, given), order)).result


async def unasked(runtime: Runtime, parent: Session, name: str, given: dict[str, object], why: str) -> ToolResult | str:
    """The same for what the gate allows without a question; else nothing happens, and this says why."""
    order = ChildRequest("", agent_type=AGENT, description=why, background=True)
    child = _session(runtime, parent, parent.scene.tools[name], order)
    child.operator = NoOperator()
    call = ToolCall(child.ids("toolu"), name, given)
    considered = prepare_and_judge(child.scene, call)
    if considered.error is not None or considered.decision.verdict != "allow":
        verdict = "it would be asked about" if considered.decision.verdict == "ask" else "it is denied"
        return f"{verdict} ({considered.error or considered.decision.reason})"
    return (await _run(child, parent, call, order)).result


async def looking(runtime: Runtime, parent: Session, given: dict[str, object], why: str) -> ToolResult | str:
    """A command that the operator's own settings name, in the room in which nothing can be written.

    Where the gate asks, those settings are the answer; what it denies stays denied. Without such a room nobody has
    agreed to anything.
    """
    from adderclaw.tools import late

    if not parent.scene.kit.has_look_room:
        return await unasked(runtime, parent, BASH, given, why)
    order = ChildRequest("", agent_type=AGENT, description=why, background=True)
    child = _session(runtime, parent, late.looking(parent.scene.kit), order)
    call = ToolCall(child.ids("toolu"), BASH, given)
    considered = prepare_and_judge(child.scene, call)
    if considered.error is not None or considered.decision.verdict == "deny":
        return f"it is denied ({considered.error or considered.decision.reason})"
    return (await _run(child, parent, call, order)).result


class ByHand(NamedTuple):
    """A call that a person made, and where its rows are."""

    session_id: str
    tool_use_id: str
    done: Done


async def by_hand(
    runtime: Runtime, parent: Session, name: str, given: dict[str, object], operator: Operator, why: str
) -> ByHand:
    """The same for what a person types: hooks hear of it, and a file that is read so was read in the conversation."""
    order = ChildRequest("", agent_type=HAND, description=why)
    child = _session(runtime, parent, parent.scene.tools[name], order)
    child.operator, child.scene.context.files_read = operator, parent.scene.context.files_read
    call = ToolCall(child.ids("toolu"), name, given)
    return ByHand(child.session_id, call.id, await _run(child, parent, call, order))


async def _run(child: Session, parent: Session, call: ToolCall, order: ChildRequest) -> Done:
    children.begin(child, parent, order)
    try:
        done = await run_call(child, call)
    except asyncio.CancelledError:
        children.finish(child, TurnResult("stopped", "", "interrupted"))
        raise
    children.finish(child, TurnResult("denied" if done.denied else "completed", ""))
    return done


def _session(runtime: Runtime, parent: Session, tool: Tool[Any], order: ChildRequest) -> Session:
    above, session_id = parent.scene, runtime.ids("session")
    place = above.context.workspace
    context = ToolContext(
        parent.conversation_id,
        session_id,
        Workspace(place.root, place.extra),
        is_hidden=above.context.is_hidden,
        is_write_protected=above.context.is_write_protected,
        outputs_folder=above.context.outputs_folder,
        readable_folders=above.context.readable_folders,
        store_output=above.context.store_output,
        host=above.context.host,
    )
    tools = {tool.name: tool}
    here = replace(above, tools=tools, in_force=InForce(above.in_force.own), context=context, arrive=None)
    running = parent.config.runtime
    return replace(
        parent,
        scene=here,
        bus=parent.bus.for_session(session_id),
        hooks={} if order.background else parent.hooks,
        operator=Configured() if order.background else children.operator_of(parent, order, session_id),
        state=State(LoopDetector(running.loop_warn_at, running.loop_stop_at)),
        agent_id=session_id,
        agent_type=order.agent_type,
        depth=parent.depth + 1,
        ids=runtime.ids,
        tape=UNTAPED,
    )
