"""Runs tool calls outside of the conversation, for a hook, a skill or a person, each in a session of its own."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from adderclaw.agent.run.start import Runtime
from adderclaw.agent.session.limits import LoopDetector
from adderclaw.agent.session.session import ActivePolicy, Session, State, TurnResult
from adderclaw.agent.session.tape import NO_TAPE
from adderclaw.agent.subagents import children
from adderclaw.agent.tool_call.call import run_call
from adderclaw.agent.tool_call.permission_check import prepare_and_judge
from adderclaw.agent.tool_call.result import FinishedCall
from adderclaw.agent.tool_call.session_hooks import AGENT
from adderclaw.core.host import ChildRequest, ToolContext
from adderclaw.core.questions import Answer, ApprovalRequest, Operator, QuestionRequest, answer_with
from adderclaw.core.record import NamedTuple
from adderclaw.core.tool_traits import BASH
from adderclaw.core.types import Tool, ToolCall, ToolResult, Workspace, rejected

HAND = "hand"
"""The agent type of a session in which a person calls a tool."""


class HookOperator:
    """The operator of a hook's call: approves, since the operator configured the hook. Denied calls stay denied."""

    async def approve(self, request: ApprovalRequest) -> Answer:
        if request.raw:
            return Answer(approved=False, by="no_operator", comment="raw bash is run by no hook and no skill")
        return Answer(approved=True, by="operator", comment=f"{request.tool} is called by the operator's own hook")

    async def ask(self, request: QuestionRequest) -> Answer:  # noqa: ARG002
        return answer_with(None)


class NoOperator(HookOperator):
    """The operator of a call that must not ask: denies every request."""

    async def approve(self, request: ApprovalRequest) -> Answer:  # noqa: ARG002
        return Answer(approved=False, by="no_operator", comment="nobody is asked about this call")


async def call_for_hook(
    runtime: Runtime,
    parent: Session,
    tools: Mapping[str, Tool[Any]],
    name: str,
    arguments: dict[str, object],
    why: str,
    *,
    asked: bool = False,
) -> ToolResult:
    """Call a tool for a hook or a skill; denials and failures are returned as results.

    `tools`: all tools of the session, also those that its model cannot call now. No hooks run and nobody is asked,
    unless with `asked`, because then the input contains text of the model.
    """
    arrive = parent.environment.wait_for_tool
    if name not in tools and arrive is not None and (why_not := await arrive(name)):
        return rejected(why_not)
    if name not in tools:
        return rejected(f"there is no tool {name!r}")
    order = ChildRequest("", agent_type=AGENT, description=why, background=not asked)
    child = _session(runtime, parent, tools[name], order)
    return (await _run(child, parent, ToolCall(child.ids("toolu"), name, arguments), order)).result


async def call_without_question(
    runtime: Runtime, parent: Session, name: str, arguments: dict[str, object], why: str
) -> ToolResult | str:
    """Call a tool only if the policy allows it without a question; else return why not."""
    order = ChildRequest("", agent_type=AGENT, description=why, background=True)
    child = _session(runtime, parent, parent.environment.tools[name], order)
    child.operator = NoOperator()
    call = ToolCall(child.ids("toolu"), name, arguments)
    prepared_call = prepare_and_judge(child.environment, call)
    if prepared_call.error is not None or prepared_call.decision.verdict != "allow":
        verdict = "it would be asked about" if prepared_call.decision.verdict == "ask" else "it is denied"
        return f"{verdict} ({prepared_call.error or prepared_call.decision.reason})"
    return (await _run(child, parent, call, order)).result


async def call_read_only(runtime: Runtime, parent: Session, arguments: dict[str, object], why: str) -> ToolResult | str:
    """Run a command that the operator's settings name, in a read-only sandbox.

    The settings count as approval if the policy asks; denied calls stay denied. Without a read-only sandbox, the
    command runs only if the policy allows it without a question.
    """
    from adderclaw.tools import registry

    if not parent.environment.kit.has_look_room:
        return await call_without_question(runtime, parent, BASH, arguments, why)
    order = ChildRequest("", agent_type=AGENT, description=why, background=True)
    child = _session(runtime, parent, registry.read_only_bash(parent.environment.kit), order)
    call = ToolCall(child.ids("toolu"), BASH, arguments)
    prepared_call = prepare_and_judge(child.environment, call)
    if prepared_call.error is not None or prepared_call.decision.verdict == "deny":
        return f"it is denied ({prepared_call.error or prepared_call.decision.reason})"
    return (await _run(child, parent, call, order)).result


class ManualCall(NamedTuple):
    """A call that a person made, and the ids of its rows."""

    session_id: str
    tool_use_id: str
    finished: FinishedCall


async def call_by_hand(
    runtime: Runtime, parent: Session, name: str, arguments: dict[str, object], operator: Operator, why: str
) -> ManualCall:
    """Call a tool for a person. Hooks run, and files that it reads count as read in the conversation."""
    order = ChildRequest("", agent_type=HAND, description=why)
    child = _session(runtime, parent, parent.environment.tools[name], order)
    child.operator, child.environment.context.files_read = operator, parent.environment.context.files_read
    call = ToolCall(child.ids("toolu"), name, arguments)
    return ManualCall(child.session_id, call.id, await _run(child, parent, call, order))


async def _run(child: Session, parent: Session, call: ToolCall, order: ChildRequest) -> FinishedCall:
    children.begin_child(child, parent, order)
    try:
        done = await run_call(child, call)
    except asyncio.CancelledError:
        children.finish_child(child, TurnResult("stopped", "", "interrupted"))
        raise
    children.finish_child(child, TurnResult("denied" if done.denied else "completed", ""))
    return done


def _session(runtime: Runtime, parent: Session, tool: Tool[Any], order: ChildRequest) -> Session:
    above, session_id = parent.environment, runtime.ids("session")
    workspace = above.context.workspace
    context = ToolContext(
        parent.conversation_id,
        session_id,
        Workspace(workspace.root, workspace.extra),
        is_hidden=above.context.is_hidden,
        is_write_protected=above.context.is_write_protected,
        outputs_folder=above.context.outputs_folder,
        readable_folders=above.context.readable_folders,
        store_output=above.context.store_output,
        host=above.context.host,
    )
    tools = {tool.name: tool}
    environment = replace(
        above, tools=tools, active_policy=ActivePolicy(above.active_policy.own), context=context, wait_for_tool=None
    )
    running = parent.config.runtime
    return replace(
        parent,
        environment=environment,
        bus=parent.bus.for_session(session_id),
        hooks={} if order.background else parent.hooks,
        operator=HookOperator() if order.background else children.operator_of(parent, order, session_id),
        state=State(LoopDetector(running.loop_warn_at, running.loop_stop_at)),
        agent_id=session_id,
        agent_type=order.agent_type,
        depth=parent.depth + 1,
        ids=runtime.ids,
        tape=NO_TAPE,
    )
