"""A child session that sees nothing of the others' work: a sandbox, servers, tools and a policy of its own."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adderclaw import policy, tools
from adderclaw.agent.run import servers
from adderclaw.agent.run.sandbox_setup import SessionNetwork, WorkspaceContents, hidden_apart
from adderclaw.agent.run.start import Runtime
from adderclaw.agent.run.tool_environment import box_of, is_unmasked, outputs
from adderclaw.agent.session.policy_inputs import policy_of
from adderclaw.agent.session.session import InForce, Session, ToolEnvironment
from adderclaw.core.child import ChildRequest, Isolation
from adderclaw.core.errors import AdderClawError
from adderclaw.core.tool_traits import EDIT, READ
from adderclaw.core.types import Json, Tool, ToolContext, Touch, Workspace
from adderclaw.tools.background import Tasks
from adderclaw.tools.long_outputs import LongOutputs
from adderclaw.tools.mcp.connection import Wires
from adderclaw.tools.mcp.servers import Servers

if TYPE_CHECKING:
    from adderclaw.sandbox.box import Box
    from adderclaw.sandbox.process import Order, Started

NEEDS = "a session apart needs bubblewrap, and commands run in {kind!r} here: `adderclaw doctor` says why"
CLOSED = "a session apart needs a closed list of tools and a system prompt of its own"
SCRATCH = "/tmp"


class IsolatedChild:
    """Where a child apart lives; nothing of it outlasts the child."""

    def __init__(
        self, runtime: Runtime, furniture: WorkspaceContents, ways: SessionNetwork | None, denied: tuple[str, ...]
    ) -> None:
        self._runtime, self._furniture, self._ways = runtime, furniture, ways
        self.denied = denied
        """Rules that keep from its tools what its sandbox hides."""
        self.servers: Servers | None = None
        self._box: Box | None = None

    def start(self, order: "Order") -> "Started":
        if self._box is None:
            self._box = box_of(self._runtime, "bubblewrap", self._furniture.outline(), self._ways, beside=True)
        return self._box.start(order, self._furniture)

    async def close(self) -> None:
        """End its servers, and all that runs in its sandbox."""
        try:
            if self.servers is not None:
                await self.servers.close()
        finally:
            if self._box is not None:
                self._box.close()


def isolated_environment(
    runtime: Runtime, parent: Session, order: ChildRequest, apart: Isolation, session_id: str
) -> tuple[ToolEnvironment, IsolatedChild]:
    """What it sees and may do. Raises AdderClawError where this cannot be held: nothing weaker takes its place."""
    above = parent.scene
    if above.confinement != "bubblewrap":
        raise AdderClawError(NEEDS.format(kind=above.confinement))
    if order.tools is None or "*" in order.tools or order.system is None:
        raise AdderClawError(CLOSED)
    place = above.context.workspace
    keep = LongOutputs(outputs(runtime, session_id), runtime.secrets.scrub)
    denied = _rules(hidden_apart(place, runtime.traces(place.root, *place.extra), apart))
    made_of = {**above.policy_inputs, "kept": keep.folder, "real": dict(above.policy_inputs["real"])}
    in_force = InForce(policy.tightened(_policy(parent, made_of, denied), order.mode))
    ways = above.ways_out if apart.network and isinstance(above.ways_out, SessionNetwork) else None
    furniture = WorkspaceContents(runtime, above.confinement, place, in_force, apart=apart)
    quarters = IsolatedChild(runtime, furniture, ways, denied)
    tasks = Tasks(runtime.clock, runtime.ids, keep, parent.store, runtime.stopped, runtime.bus.publish_soon)
    kit = replace(
        above.kit,
        start=quarters.start,
        begin=lambda: None,
        reach=ways.judge if ways is not None and ways.is_any else None,
        refused=(lambda: ways.refused) if ways is not None else lambda: 0,
        tasks=tasks,
        skills=None,
    )
    given = _tools(tools.builtin(kit), order)
    context = ToolContext(
        parent.conversation_id,
        session_id,
        Workspace(place.root, place.extra, order.cwd if apart.workspace == "read" else SCRATCH),
        outputs_folder=keep.folder,
        store_output=keep,
    )

    def unmasked(touch: Touch) -> bool:
        return is_unmasked(touch, in_force.policy, furniture)

    here = replace(
        above,
        tools=given,
        kit=kit,
        in_force=in_force,
        context=context,
        background=tasks,
        made_of=made_of,
        shortened=keep.shortened,
        ways_out=ways,
        later=None,
        unmasked=unmasked,
        arrive=None,
        connecting=None,
    )
    here.hide()
    if apart.servers:
        _join(runtime, parent, order, here, given, quarters)
    return here, quarters


def _rules(paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{tool}(/{path}{end})" for path in paths for tool in (READ, EDIT) for end in ("", "/**"))


def _policy(parent: Session, made_of: Json, denied: tuple[str, ...]) -> policy.Policy:
    """Its parent's with more denied: made as a replay makes it, of its configuration and of what was found."""
    permissions = replace(parent.config.permissions, deny=[*parent.config.permissions.deny, *denied])
    made = policy_of(replace(parent.config, permissions=permissions), made_of)
    own = parent.scene.in_force.own
    return replace(made, autonomy=own.autonomy, autonomy_set=own.autonomy_set, mode=own.mode)


def _tools(built_in: dict[str, Tool[Any]], order: ChildRequest) -> dict[str, Tool[Any]]:
    from adderclaw.agent.subagents.children import named

    wanted = named(built_in, order.tools or ())
    found = {name: replace(tool, deferred=False) for name, tool in built_in.items() if name in wanted}
    return {name: _wrapped(tool, order) for name, tool in found.items()} | {
        tool.name: tool for tool in order.extra_tools
    }


def _wrapped(tool: Tool[Any], order: ChildRequest) -> Tool[Any]:
    return tool if order.wrap_tool is None else order.wrap_tool(tool)


def _join(
    runtime: Runtime,
    parent: Session,
    order: ChildRequest,
    here: ToolEnvironment,
    given: dict[str, Tool[Any]],
    quarters: IsolatedChild,
) -> None:
    """Start servers anew in its sandbox: no page, cookie or file of another session's browser is in there."""
    wanted = order.isolation.servers if order.isolation is not None else ()
    entries = [entry for entry in servers.configured(runtime) if entry.name in wanted and not entry.server.disabled]
    if not entries:
        return

    def offer(tool: Tool[Any]) -> None:
        given[tool.name] = _wrapped(tool, order)

    place = here.context.workspace
    wires = Wires(
        clock=runtime.clock,
        secrets=runtime.secrets,
        tell=runtime.bus.publish,
        roots=(place.root, *place.extra),
        start=quarters.start,
        env=here.kit.env,
    )
    made = quarters.servers = Servers(entries, wires, parent.store, offer)
    here.arrive = made.arrive

    async def connecting() -> str:
        return "\n".join(await made.settled())

    here.connecting = connecting
