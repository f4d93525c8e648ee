"""Creates and runs child sessions, for the Agent tool, personas and hooks of type agent."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adderclaw import policy as gate
from adderclaw import tools
from adderclaw.agent.loop import resume
from adderclaw.agent.loop.loop import run_turn
from adderclaw.agent.run.start import Runtime, chosen_model, open_provider
from adderclaw.agent.session import prompt
from adderclaw.agent.session.instructions import scrubbed_text
from adderclaw.agent.session.limits import LoopDetector
from adderclaw.agent.session.session import ActivePolicy, Session, State, ToolEnvironment, TurnResult
from adderclaw.agent.session.tape import NO_TAPE
from adderclaw.agent.tool_lists import tools_by_name
from adderclaw.core.errors import AdderClawError, LimitError
from adderclaw.core.host import NO_HOOKS, ChildReport, ChildRequest, HookOutcome, Host, ToolContext
from adderclaw.core.questions import Answer, ApprovalRequest, Operator, QuestionRequest, answer_with
from adderclaw.core.tool_traits import TOOLS
from adderclaw.core.types import Json, Provider, Tool, Workspace
from adderclaw.models import providers
from adderclaw.storage import subagents, transcript

if TYPE_CHECKING:
    from adderclaw.agent.subagents.isolated_child import IsolatedChild

type MakeHost = Callable[[Runtime, Session], Host]
"""Creates the host through which a child's tools use its session."""

STOP_HOOK_CAP = 8
"""How often a SubagentStop hook may make a child continue."""


class Unattended:
    """The operator of a background child: denies every request."""

    async def approve(self, request: ApprovalRequest) -> Answer:  # noqa: ARG002
        return Answer(approved=False, by="no_operator", comment="a background subagent can ask nobody")

    async def ask(self, request: QuestionRequest) -> Answer:  # noqa: ARG002
        return answer_with(None)


async def run_child(runtime: Runtime, parent: Session, order: ChildRequest, make_host: MakeHost) -> ChildReport:
    """Create a child, run its turn and store how it ended, before the result is reported."""
    # A child must not wait for a slot held by its own ancestors (deadlock).
    await _require_slot(runtime, parent, waits=order.waits_for_slot and not parent.depth)
    runtime.children += 1
    parent.budget.children += 1
    try:
        return await _run_counted_child(runtime, parent, order, make_host)
    finally:
        runtime.children -= 1
        if runtime.child_ended is not None:
            runtime.child_ended.set()


async def _run_counted_child(
    runtime: Runtime, parent: Session, order: ChildRequest, make_host: MakeHost
) -> ChildReport:
    # Start the MCP servers whose tools the order names and which have not been started yet.
    arrive = parent.environment.wait_for_tool if order.isolation is None else None  # an isolated child starts its own
    for name in order.tools or ():
        if arrive is not None and name.startswith("mcp__") and not tools_by_name(parent.environment.tools, (name,)):
            await arrive(name if "__" in name[5:] else f"{name}__*")
    child, own_provider, apart = make_child(runtime, parent, order, make_host)
    begin_child(child, parent, order)
    try:
        result = await _turns(parent, child, order)
    except asyncio.CancelledError:
        finish_child(child, TurnResult("stopped", "", subagents.INTERRUPTED))
        raise
    except AdderClawError as error:
        result = TurnResult("error", "", str(error))
    finally:
        if child.environment.kit.tasks is not None:
            await child.environment.kit.tasks.close()
            child.environment.kit.tasks.release()
        if apart is not None:
            await apart.close()
        if own_provider is not None:
            await own_provider.close()
    finish_child(child, result)
    tokens, calls = subagents.token_and_call_counts(child.store, child.session_id)
    return ChildReport(
        child.session_id, result.outcome, result.answer, result.reason, child.model, tokens, calls, result.ended_by
    )


async def _require_slot(runtime: Runtime, parent: Session, *, waits: bool) -> None:
    """Wait for a free slot or raise. The caller counts the child without an await in between."""
    allowed = runtime.config.subagents
    if parent.depth >= allowed.max_depth:
        raise LimitError(
            f"no subagent may begin here: the depth of {allowed.max_depth} is reached (subagents.max_depth)"
        )
    while waits and 0 < allowed.max_concurrent <= runtime.children:
        runtime.child_ended = runtime.child_ended or asyncio.Event()
        runtime.child_ended.clear()
        await runtime.child_ended.wait()
    if parent.environment.stopped():
        raise AdderClawError("the emergency stop is set; `adderclaw estop --clear` removes it")
    if runtime.children >= allowed.max_concurrent:
        most = allowed.max_concurrent
        raise LimitError(f"{most} subagents run already: wait for one of them (subagents.max_concurrent)")
    if parent.budget.children >= allowed.max_total:
        raise LimitError(f"this run has begun {allowed.max_total} subagents already (subagents.max_total)")


def make_child(
    runtime: Runtime, parent: Session, order: ChildRequest, make_host: MakeHost
) -> "tuple[Session, Provider | None, IsolatedChild | None]":
    """Create a child with its own id, context, prompt and history, and its parent's store, ledger, budget and sandbox.

    It is never allowed more than its parent. A provider or sandbox of its own is returned too, to be closed.
    """
    session_id = order.resumed_session_id or runtime.ids("session")
    chosen = _model(runtime, parent, order)
    own = None if chosen.provider == parent.provider.name else open_provider(runtime, chosen.provider)
    environment, apart = _child_environment(runtime, parent, order, session_id)
    allowed = parent.config.subagents.max_tool_rounds
    rounds = allowed if order.max_rounds is None else min(order.max_rounds, allowed)
    config = replace(
        parent.config,
        runtime=replace(parent.config.runtime, max_tool_rounds=rounds),
        permissions=replace(
            parent.config.permissions, defaultMode=environment.policy.mode, deny=_denied(parent, apart)
        ),
    )
    files = parent.instructions.for_child() if parent.instructions is not None and apart is None else None
    child = replace(
        parent,
        config=config,
        environment=environment,
        bus=parent.bus.for_session(session_id),
        provider=own or parent.provider,
        model=chosen.model,
        thinking=order.thinking.with_fallback(parent.thinking),
        prompt=prompt.compose_prompt(
            environment.context.workspace.root,
            "",
            environment.offered_tools.values(),
            system=order.system,
            persona=order.persona,
            instructions=scrubbed_text(files if order.system is None else None, runtime.secrets),
        ),
        instructions=files,
        operator=operator_of(parent, order, session_id),
        state=State(LoopDetector(config.runtime.loop_warn_at, config.runtime.loop_stop_at)),
        checkpoints=parent.checkpoints if apart is None else None,  # an isolated child cannot change files
        agent_id=session_id,
        agent_type=order.agent_type,
        depth=parent.depth + 1,
        tape=NO_TAPE,
    )
    child.set_host(make_host(runtime, child))
    if parent.tape.records and runtime.recording is not None:
        runtime.recording.attach(child, "child")
    return child, own, apart


def _denied(parent: Session, apart: "IsolatedChild | None") -> list[str]:
    return [*parent.config.permissions.deny, *(apart.denied if apart is not None else ())]


def _model(runtime: Runtime, parent: Session, order: ChildRequest) -> providers.Choice:
    own = providers.Choice(parent.provider.name, parent.model)
    if not parent.host.has_model:
        own = chosen_model(runtime.options, runtime.config)
    return providers.wanted(order.model or "", parent.config, own)


def _child_environment(
    runtime: Runtime, parent: Session, order: ChildRequest, session_id: str
) -> "tuple[ToolEnvironment, IsolatedChild | None]":
    if order.isolation is not None:
        from adderclaw.agent.subagents import isolated_child as apart

        return apart.isolated_environment(runtime, parent, order, order.isolation, session_id)
    above = parent.environment
    policy = gate.with_stricter_mode(above.active_policy.own, order.mode)
    workspace = above.context.workspace
    context = ToolContext(
        parent.conversation_id,
        session_id,
        Workspace(workspace.root, workspace.extra, order.cwd),
        outputs_folder=above.context.outputs_folder,
        readable_folders=above.context.readable_folders,
        store_output=above.context.store_output,
    )
    tasks = above.kit.tasks and above.kit.tasks.for_child()
    kit = replace(above.kit, tasks=tasks)
    own = tools.builtin_tools(kit)
    child_tools = _tools({name: own.get(name, tool) for name, tool in above.tools.items()}, parent, order)
    environment = replace(
        above, tools=child_tools, kit=kit, active_policy=ActivePolicy(policy), context=context, background=tasks
    )
    environment.update_hidden()
    _share_late_tools(above, environment, child_tools, parent, order)
    return environment, None


def _share_late_tools(
    above: ToolEnvironment,
    environment: ToolEnvironment,
    child_tools: dict[str, Tool[Any]],
    parent: Session,
    order: ChildRequest,
) -> None:
    """Give the child the tools of MCP servers that the parent gets later, if it may have them."""
    known = set(above.tools)
    arrive, connecting = above.wait_for_tool, above.wait_for_servers
    if arrive is None or connecting is None:
        return

    def take() -> None:
        late = {name: tool for name, tool in above.tools.items() if name not in known}
        known.update(late)
        child_tools.update(_child_tools(late, parent, order))

    async def arrived(name: str) -> str:
        why_not = await arrive(name)
        take()
        return why_not

    async def connected() -> str:
        message = await connecting()
        take()
        return message

    environment.wait_for_tool, environment.wait_for_servers = arrived, connected


def _tools(above: Mapping[str, Tool[Any]], parent: Session, order: ChildRequest) -> dict[str, Tool[Any]]:
    """The parent's tools that the child gets, and the order's own."""
    chosen = _child_tools(above, parent, order)
    if order.tools and not chosen:
        raise AdderClawError(f"none of the tools of {order.agent_type!r} is there: {', '.join(order.tools)}")
    return chosen | {tool.name: tool for tool in order.extra_tools}


def _child_tools(above: Mapping[str, Tool[Any]], parent: Session, order: ChildRequest) -> dict[str, Tool[Any]]:
    """Select the child's tools. Tools that the order names are in its prompt; others may be deferred."""
    deepest = parent.depth + 1 >= parent.config.subagents.max_depth
    left_out = {
        tool.name
        for tool in TOOLS
        if not tool.for_children or (tool.asks and order.background) or (tool.starts_child and deepest)
    }
    left_out |= tools_by_name(above, order.excluded_tools)
    if order.tools is None or "*" in order.tools:
        return {name: tool for name, tool in above.items() if name not in left_out}
    names = tools_by_name(above, order.tools) - left_out
    return {name: replace(tool, deferred=False) for name, tool in above.items() if name in names}


def operator_of(parent: Session, order: ChildRequest, session_id: str) -> Operator:
    from adderclaw.agent.tool_call.approvals import PersistentApprovals

    if order.background:
        return Unattended()
    return (
        parent.operator.of_session(session_id, order.agent_type)
        if isinstance(parent.operator, PersistentApprovals)
        else parent.operator
    )


# ------------------------------------------------------------------ the child's turns


def begin_child(child: Session, parent: Session, order: ChildRequest) -> None:
    with child.store.write() as cursor:
        transcript.begin(
            cursor,
            conversation_id=child.conversation_id,
            session_id=child.session_id,
            project_dir=child.environment.context.workspace.root,
        )
        if order.resumed_session_id:
            subagents.resume(cursor, order.resumed_session_id)
        else:
            subagents.begin(
                cursor,
                session_id=child.session_id,
                parent_id=parent.session_id,
                tool_use_id=order.tool_use_id,
                agent_type=order.agent_type,
                description=order.description,
                background=order.background,
            )
    child.bus.publish(
        {
            "event_type": "subagent_started",
            "parent_session_id": parent.session_id,
            "agent_type": order.agent_type,
            "description": order.description,
            "depth": child.depth,
            "background": order.background,
        }
    )


async def _turns(parent: Session, child: Session, order: ChildRequest) -> TurnResult:
    """Run the child's turn, and further ones while the order or a SubagentStop hook requires it."""
    who = {"agent_id": child.agent_id, "agent_type": child.agent_type}
    fire = _fire_no_hooks if order.without_hooks else parent.fire
    begun = await fire("SubagentStart", who)
    message: str | None = "\n\n".join((order.prompt, *begun.context))
    if order.resumed_session_id:
        resume.restore_session(child, go_on=True)
        child.state.rounds = order.rounds_used
        message = None if child.state.history.messages else message
    for again in range(STOP_HOOK_CAP + 1):
        result = await _turn(child, order, message)
        last = {"stop_hook_active": again > 0, "last_assistant_message": result.answer}
        merged = await fire("SubagentStop", {**who, **last})
        if result.outcome != "completed":  # a failed child never continues
            return result
        if order.background and not merged.blocked:  # the parent does not wait for it
            merged = await fire("TeammateIdle", {"teammate_name": order.description, "team_name": ""})
        if not merged.blocked or merged.stop is not None or again == STOP_HOOK_CAP:
            return result
        message = merged.reason or "Go on."
    raise AssertionError("unreachable")


async def _turn(child: Session, order: ChildRequest, message: str | None) -> TurnResult:
    try:
        result = await run_turn(child, message)
        if (
            result.outcome == "completed"
            and order.before_end is not None
            and (missed := order.before_end()) is not None
        ):
            result = await run_turn(child, missed)
    except AdderClawError as error:
        return TurnResult("error", "", str(error))
    return result


async def _fire_no_hooks(_event: str, _fields: Json) -> HookOutcome:
    """Fire no hooks, because an agent hook that fires hooks would call itself endlessly."""
    return NO_HOOKS


def finish_child(child: Session, result: TurnResult) -> None:
    with child.store.write() as cursor:
        subagents.finish(cursor, child.session_id, result.outcome, result.answer, result.reason)
    child.bus.publish(
        {
            "event_type": "subagent_finished",
            "agent_type": child.agent_type,
            "outcome": result.outcome,
            "reason": result.reason,
        }
    )
