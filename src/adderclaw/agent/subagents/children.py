"""Child sessions: the one way to make and run one, whoever wants it (Agent, personas, hooks of the kind agent)."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adderclaw import policy as gate
from adderclaw import tools
from adderclaw.agent.loop import resume
from adderclaw.agent.loop.loop import run_turn
from adderclaw.agent.run.session_setup import NoModelProvider, SessionHost, chosen_by, open_provider, scrubbed
from adderclaw.agent.run.start import Runtime
from adderclaw.agent.session import prompt
from adderclaw.agent.session.limits import LoopDetector
from adderclaw.agent.session.session import InForce, Session, State, ToolEnvironment, TurnResult
from adderclaw.agent.session.tape import UNTAPED
from adderclaw.core.child import ChildReport, ChildRequest
from adderclaw.core.errors import AdderClawError, LimitError
from adderclaw.core.hook_outcome import NO_HOOKS, HookOutcome
from adderclaw.core.questions import Answer, ApprovalRequest, Operator, QuestionRequest, answer_with
from adderclaw.core.tool_traits import TOOLS
from adderclaw.core.types import Json, Provider, Tool, ToolContext, Workspace
from adderclaw.models import providers
from adderclaw.storage import subagents, transcript

if TYPE_CHECKING:
    from adderclaw.agent.subagents.isolated_child import IsolatedChild

STOP_HOOK_CAP = 8
"""How often a SubagentStop hook may send a child back to work."""


class Unattended:
    """Stands behind a child that nobody waits for: what it would ask is denied."""

    async def approve(self, request: ApprovalRequest) -> Answer:  # noqa: ARG002
        return Answer(approved=False, by="no_operator", comment="a background subagent can ask nobody")

    async def ask(self, request: QuestionRequest) -> Answer:  # noqa: ARG002
        return answer_with(None)


async def run(runtime: Runtime, parent: Session, order: ChildRequest) -> ChildReport:
    """Make a child, run its turn and record how it ended; its rows are there before it is told to anybody."""
    # a child that waited for room among those that wait for it would wait for ever
    await _room(runtime, parent, waits=order.waits_for_slot and not parent.depth)
    runtime.children += 1
    parent.budget.children += 1
    try:
        return await _lived(runtime, parent, order)
    finally:
        runtime.children -= 1
        if runtime.child_ended is not None:
            runtime.child_ended.set()


async def _lived(runtime: Runtime, parent: Session, order: ChildRequest) -> ChildReport:
    await _arrived(parent, order)
    child, own_provider, apart = make(runtime, parent, order)
    begin(child, parent, order)
    try:
        result = await _turns(parent, child, order)
    except asyncio.CancelledError:
        finish(child, TurnResult("stopped", "", subagents.INTERRUPTED))
        raise
    except AdderClawError as error:
        result = TurnResult("error", "", str(error))
    finally:
        if child.scene.kit.tasks is not None:
            await child.scene.kit.tasks.close()
            child.scene.kit.tasks.release()
        if apart is not None:
            await apart.close()
        if own_provider is not None:
            await own_provider.close()
    finish(child, result)
    tokens, calls = subagents.used(child.store, child.session_id)
    return ChildReport(
        child.session_id, result.outcome, result.answer, result.reason, child.model, tokens, calls, result.ended_by
    )


async def _room(runtime: Runtime, parent: Session, *, waits: bool) -> None:
    """There is room for one more now; nothing is awaited between this and its being counted."""
    allowed = runtime.config.subagents
    if parent.depth >= allowed.max_depth:
        raise LimitError(
            f"no subagent may begin here: the depth of {allowed.max_depth} is reached (subagents.max_depth)"
        )
    while waits and 0 < allowed.max_concurrent <= runtime.children:
        runtime.child_ended = runtime.child_ended or asyncio.Event()
        runtime.child_ended.clear()
        await runtime.child_ended.wait()
    if parent.scene.stopped():
        raise AdderClawError("the emergency stop is set; `adderclaw estop --clear` removes it")
    if runtime.children >= allowed.max_concurrent:
        most = allowed.max_concurrent
        raise LimitError(f"{most} subagents run already: wait for one of them (subagents.max_concurrent)")
    if parent.budget.children >= allowed.max_total:
        raise LimitError(f"this run has begun {allowed.max_total} subagents already (subagents.max_total)")


async def _arrived(parent: Session, order: ChildRequest) -> None:
    """Tools of MCP servers that the order names and nobody has asked for yet: their servers are started now."""
    arrive = parent.scene.arrive if order.isolation is None else None  # which starts those of its own
    for name in order.tools or ():
        if arrive is not None and name.startswith("mcp__") and not named(parent.scene.tools, (name,)):
            await arrive(name if "__" in name[5:] else f"{name}__*")


def make(
    runtime: Runtime, parent: Session, order: ChildRequest
) -> "tuple[Session, Provider | None, IsolatedChild | None]":
    """A child that runs beside its parent: own id, context, prompt and history; the same store, ledger, budget, box.

    It never may more than its parent. The provider and the sandbox come with it where they are not the parent's, to be
    closed.
    """
    session_id = order.resumed_session_id or runtime.ids("session")
    chosen = _model(runtime, parent, order)
    own = None if chosen.provider == parent.provider.name else open_provider(runtime, chosen.provider)
    here, apart = _scene(runtime, parent, order, session_id)
    allowed = parent.config.subagents.max_tool_rounds
    rounds = allowed if order.max_rounds is None else min(order.max_rounds, allowed)
    config = replace(
        parent.config,
        runtime=replace(parent.config.runtime, max_tool_rounds=rounds),
        permissions=replace(parent.config.permissions, defaultMode=here.policy.mode, deny=_denied(parent, apart)),
    )
    files = parent.instructions.of_child() if parent.instructions is not None and apart is None else None
    child = replace(
        parent,
        config=config,
        scene=here,
        bus=parent.bus.for_session(session_id),
        provider=own or parent.provider,
        model=chosen.model,
        thinking=order.thinking.with_fallback(parent.thinking),
        prompt=prompt.compose(
            here.context.workspace.root,
            "",
            here.offered.values(),
            system=order.system,
            persona=order.persona,
            instructions=scrubbed(runtime, files if order.system is None else None),
        ),
        instructions=files,
        operator=operator_of(parent, order, session_id),
        state=State(LoopDetector(config.runtime.loop_warn_at, config.runtime.loop_stop_at)),
        checkpoints=parent.checkpoints if apart is None else None,  # there is nothing that it could change
        agent_id=session_id,
        agent_type=order.agent_type,
        depth=parent.depth + 1,
        tape=UNTAPED,
    )
    child.hosted(SessionHost(runtime, child))
    if parent.tape.records and runtime.recording is not None:
        runtime.recording.attach(child, "child")
    return child, own, apart


def _denied(parent: Session, apart: "IsolatedChild | None") -> list[str]:
    return [*parent.config.permissions.deny, *(apart.denied if apart is not None else ())]


def _model(runtime: Runtime, parent: Session, order: ChildRequest) -> providers.Choice:
    own = providers.Choice(parent.provider.name, parent.model)
    if isinstance(parent.provider, NoModelProvider):
        own = chosen_by(runtime.options, runtime.config)
    return providers.wanted(order.model or "", parent.config, own)


def _scene(
    runtime: Runtime, parent: Session, order: ChildRequest, session_id: str
) -> "tuple[ToolEnvironment, IsolatedChild | None]":
    if order.isolation is not None:
        from adderclaw.agent.subagents import isolated_child as apart

        return apart.isolated_environment(runtime, parent, order, order.isolation, session_id)
    above = parent.scene
    policy = gate.tightened(above.in_force.own, order.mode)
    place = above.context.workspace
    context = ToolContext(
        parent.conversation_id,
        session_id,
        Workspace(place.root, place.extra, order.cwd),
        outputs_folder=above.context.outputs_folder,
        readable_folders=above.context.readable_folders,
        store_output=above.context.store_output,
    )
    tasks = above.kit.tasks and above.kit.tasks.of_child()
    kit = replace(above.kit, tasks=tasks)
    own = tools.builtin(kit)
    given = _tools({name: own.get(name, tool) for name, tool in above.tools.items()}, parent, order)
    here = replace(above, tools=given, kit=kit, in_force=InForce(policy), context=context, background=tasks)
    here.hide()
    _let_arrive(above, here, given, parent, order)
    return here, None


def _let_arrive(
    above: ToolEnvironment, here: ToolEnvironment, given: dict[str, Tool[Any]], parent: Session, order: ChildRequest
) -> None:
    """What comes late to the parent (tools of MCP servers) comes to the child as well, if it may have it."""
    known = set(above.tools)
    arrive, connecting = above.arrive, above.connecting
    if arrive is None or connecting is None:
        return

    def take() -> None:
        late = {name: tool for name, tool in above.tools.items() if name not in known}
        known.update(late)
        given.update(_chosen(late, parent, order))

    async def arrived(name: str) -> str:
        why_not = await arrive(name)
        take()
        return why_not

    async def connected() -> str:
        said = await connecting()
        take()
        return said

    here.arrive, here.connecting = arrived, connected


def _tools(above: Mapping[str, Tool[Any]], parent: Session, order: ChildRequest) -> dict[str, Tool[Any]]:
    """Those of the parent's tools that the child has."""
    kept = _chosen(above, parent, order)
    if order.tools and not kept:
        raise AdderClawError(f"none of the tools of {order.agent_type!r} is there: {', '.join(order.tools)}")
    return kept | {tool.name: tool for tool in order.extra_tools}


def _chosen(above: Mapping[str, Tool[Any]], parent: Session, order: ChildRequest) -> dict[str, Tool[Any]]:
    """Tools that it is given by name stand in its prompt; of all others the rare ones wait behind ToolSearch."""
    deepest = parent.depth + 1 >= parent.config.subagents.max_depth
    left_out = {
        tool.name
        for tool in TOOLS
        if not tool.for_children or (tool.asks and order.background) or (tool.starts_child and deepest)
    }
    left_out |= named(above, order.excluded_tools)
    if order.tools is None or "*" in order.tools:
        return {name: tool for name, tool in above.items() if name not in left_out}
    kept = named(above, order.tools) - left_out
    return {name: replace(tool, deferred=False) for name, tool in above.items() if name in kept}


def named(above: Mapping[str, Tool[Any]], names: tuple[str, ...]) -> set[str]:
    """By name or alias; `mcp__SERVER` and `mcp__SERVER__*` are all tools of a server."""
    if "*" in names:
        return set(above)
    servers = tuple(f"{name.removesuffix('__*')}__" for name in names if name.startswith("mcp__"))
    found = {found[0].name for name in names if (found := tools.find(above, name)) is not None}
    return found | ({name for name in above if name.startswith(servers)} if servers else set())


def operator_of(parent: Session, order: ChildRequest, session_id: str) -> Operator:
    from adderclaw.agent.tool_call.approvals import PersistentApprovals

    if order.background:
        return Unattended()
    return (
        parent.operator.of_session(session_id, order.agent_type)
        if isinstance(parent.operator, PersistentApprovals)
        else parent.operator
    )


# ------------------------------------------------------------------ its life


def begin(child: Session, parent: Session, order: ChildRequest) -> None:
    with child.store.write() as cursor:
        transcript.begin(
            cursor,
            conversation_id=child.conversation_id,
            session_id=child.session_id,
            project_dir=child.scene.context.workspace.root,
        )
        if order.resumed_session_id:
            subagents.begin_again(cursor, order.resumed_session_id)
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
    """Its turn, one more if whoever wanted it misses something, and more while a hook sends it back to work."""
    who = {"agent_id": child.agent_id, "agent_type": child.agent_type}
    fire = _unheard if order.without_hooks else parent.fire
    begun = await fire("SubagentStart", who)
    message: str | None = "\n\n".join((order.prompt, *begun.context))
    if order.resumed_session_id:
        resume.restore(child, go_on=True)
        child.state.rounds = order.rounds_used
        message = None if child.state.history.messages else message
    for again in range(STOP_HOOK_CAP + 1):
        result = await _turn(child, order, message)
        last = {"stop_hook_active": again > 0, "last_assistant_message": result.answer}
        said = await fire("SubagentStop", {**who, **last})
        if result.outcome != "completed":  # it has ended all the same, but nothing sends it on
            return result
        if order.background and not said.blocked:  # its work is done, and nobody has taken it yet
            said = await fire("TeammateIdle", {"teammate_name": order.description, "team_name": ""})
        if not said.blocked or said.stop is not None or again == STOP_HOOK_CAP:
            return result
        message = said.reason or "Go on."
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


async def _unheard(_event: str, _fields: Json) -> HookOutcome:
    """Of a hook's own agent no hook hears: it would call for itself without end."""
    return NO_HOOKS


def finish(child: Session, result: TurnResult) -> None:
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
