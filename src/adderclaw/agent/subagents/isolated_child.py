"""An isolated child session, with a sandbox, MCP servers, tools and a policy of its own."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adderclaw import policy, tools
from adderclaw.agent.run.configured_servers import configured
from adderclaw.agent.run.sandbox_setup import SessionNetwork, WorkspaceContents, hidden_apart
from adderclaw.agent.run.start import Runtime
from adderclaw.agent.run.tool_environment import is_unmasked, make_box, outputs_folder
from adderclaw.agent.session.session import ActivePolicy, Session, ToolEnvironment, policy_of
from adderclaw.agent.tool_lists import tools_by_name
from adderclaw.core.errors import AdderClawError
from adderclaw.core.host import ChildRequest, Isolation, ToolContext
from adderclaw.core.tool_traits import EDIT, READ
from adderclaw.core.types import Json, Tool, Touch, Workspace
from adderclaw.tools.background import Tasks
from adderclaw.tools.long_outputs import LongOutputs
from adderclaw.tools.mcp.servers import Servers
from adderclaw.tools.mcp.setup import ConnectionSetup

if TYPE_CHECKING:
    from adderclaw.sandbox.box import Box
    from adderclaw.sandbox.process import ProcessRequest, RunningProcess

NEEDS_BUBBLEWRAP = "an isolated session needs bubblewrap, but commands run in {kind!r} here: see `adderclaw doctor`"
NEEDS_CLOSED_TOOLS = "a session apart needs a closed list of tools and a system prompt of its own"
SCRATCH = "/tmp"


class IsolatedChild:
    """The sandbox and servers of an isolated child, which end with it."""

    def __init__(
        self, runtime: Runtime, contents: WorkspaceContents, network: SessionNetwork | None, denied: tuple[str, ...]
    ) -> None:
        self._runtime, self._contents, self._network = runtime, contents, network
        self.denied = denied
        """Rules that deny its tools what its sandbox hides."""
        self.servers: Servers | None = None
        self._box: Box | None = None

    def start(self, order: "ProcessRequest") -> "RunningProcess":
        if self._box is None:
            self._box = make_box(self._runtime, "bubblewrap", self._contents.outline(), self._network, beside=True)
        return self._box.start(order, self._contents)

    async def close(self) -> None:
        """Stop its servers and everything that runs in its sandbox."""
        try:
            if self.servers is not None:
                await self.servers.close()
        finally:
            if self._box is not None:
                self._box.close()


def isolated_environment(
    runtime: Runtime, parent: Session, order: ChildRequest, apart: Isolation, session_id: str
) -> tuple[ToolEnvironment, IsolatedChild]:
    """Build the child's environment. Raises AdderClawError if it cannot be isolated; there is no weaker fallback."""
    above = parent.environment
    if above.confinement != "bubblewrap":
        raise AdderClawError(NEEDS_BUBBLEWRAP.format(kind=above.confinement))
    if order.tools is None or "*" in order.tools or order.system is None:
        raise AdderClawError(NEEDS_CLOSED_TOOLS)
    workspace = above.context.workspace
    keep = LongOutputs(outputs_folder(runtime, session_id), runtime.secrets.scrub)
    denied = _deny_rules(hidden_apart(workspace, runtime.traces(workspace.root, *workspace.extra), apart))
    policy_inputs = {**above.policy_inputs, "outputs_folder": keep.folder, "real": dict(above.policy_inputs["real"])}
    active_policy = ActivePolicy(policy.with_stricter_mode(_policy(parent, policy_inputs, denied), order.mode))
    network = above.network if apart.network and isinstance(above.network, SessionNetwork) else None
    contents = WorkspaceContents(runtime, above.confinement, workspace, active_policy, apart=apart)
    isolated = IsolatedChild(runtime, contents, network, denied)
    tasks = Tasks(runtime.clock, runtime.ids, keep, parent.store, runtime.stopped, runtime.bus.publish_soon)
    kit = replace(
        above.kit,
        start=isolated.start,
        begin=lambda: None,
        reach=network.judge if network is not None and network.is_any else None,
        refused=(lambda: network.refused) if network is not None else lambda: 0,
        tasks=tasks,
        skills=None,
    )
    child_tools = _tools(tools.builtin_tools(kit), order)
    context = ToolContext(
        parent.conversation_id,
        session_id,
        Workspace(workspace.root, workspace.extra, order.cwd if apart.workspace == "read" else SCRATCH),
        outputs_folder=keep.folder,
        store_output=keep,
    )

    def unmasked(touch: Touch) -> bool:
        return is_unmasked(touch, active_policy.policy, contents)

    environment = replace(
        above,
        tools=child_tools,
        kit=kit,
        active_policy=active_policy,
        context=context,
        background=tasks,
        policy_inputs=policy_inputs,
        shorten=keep.shorten_result,
        network=network,
        later_changes=None,
        unmasked=unmasked,
        wait_for_tool=None,
        wait_for_servers=None,
    )
    environment.update_hidden()
    if apart.servers:
        _start_servers(runtime, parent, order, environment, child_tools, isolated)
    return environment, isolated


def _deny_rules(paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{tool}(/{path}{end})" for path in paths for tool in (READ, EDIT) for end in ("", "/**"))


def _policy(parent: Session, policy_inputs: Json, denied: tuple[str, ...]) -> policy.Policy:
    """The parent's policy with more denied, built from the same inputs that a replay uses."""
    permissions = replace(parent.config.permissions, deny=[*parent.config.permissions.deny, *denied])
    tightened = policy_of(replace(parent.config, permissions=permissions), policy_inputs)
    own = parent.environment.active_policy.own
    return replace(tightened, autonomy=own.autonomy, autonomy_set=own.autonomy_set, mode=own.mode)


def _tools(built_in: dict[str, Tool[Any]], order: ChildRequest) -> dict[str, Tool[Any]]:
    names = tools_by_name(built_in, order.tools or ())
    chosen = {name: replace(tool, deferred=False) for name, tool in built_in.items() if name in names}
    return {name: _wrap_tool(tool, order) for name, tool in chosen.items()} | {
        tool.name: tool for tool in order.extra_tools
    }


def _wrap_tool(tool: Tool[Any], order: ChildRequest) -> Tool[Any]:
    return tool if order.wrap_tool is None else order.wrap_tool(tool)


def _start_servers(
    runtime: Runtime,
    parent: Session,
    order: ChildRequest,
    environment: ToolEnvironment,
    child_tools: dict[str, Tool[Any]],
    isolated: IsolatedChild,
) -> None:
    """Start MCP servers in the child's sandbox, without the pages, cookies or files of another session."""
    names = order.isolation.servers if order.isolation is not None else ()
    entries = [entry for entry in configured(runtime) if entry.name in names and not entry.server.disabled]
    if not entries:
        return

    def offer(tool: Tool[Any]) -> None:
        child_tools[tool.name] = _wrap_tool(tool, order)

    workspace = environment.context.workspace
    wires = ConnectionSetup(
        clock=runtime.clock,
        secrets=runtime.secrets,
        tell=runtime.bus.publish,
        roots=(workspace.root, *workspace.extra),
        start=isolated.start,
        env=environment.kit.env,
    )
    servers_started = isolated.servers = Servers(entries, wires, parent.store, offer)
    environment.wait_for_tool = servers_started.start_server_of

    async def connecting() -> str:
        return "\n".join(await servers_started.wait_for_starting())

    environment.wait_for_servers = connecting
