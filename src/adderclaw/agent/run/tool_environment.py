"""Builds the environment that tool calls are judged in: tools, policy, sandbox."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adderclaw import policy as gate
from adderclaw import tools
from adderclaw.agent.session.limits import Pace
from adderclaw.agent.session.session import ActivePolicy, Planning, ToolEnvironment, policy_of
from adderclaw.config.paths import followed
from adderclaw.config.schema import Config
from adderclaw.core import home_names
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.host import ToolContext
from adderclaw.core.tool_traits import NAMES
from adderclaw.core.types import Json, Tool, Touch, Workspace
from adderclaw.storage import Store, locks, transcript

if TYPE_CHECKING:
    from adderclaw.sandbox.box import Box
    from adderclaw.sandbox.bubblewrap import SandboxSpec
    from adderclaw.sandbox.process import ProcessRequest, RunningProcess
    from adderclaw.storage.sdlc.baselines import TreeSnapshot
from adderclaw.agent.run import configured_hooks
from adderclaw.agent.run.sandbox_setup import SessionNetwork, WorkspaceContents, settings_files, skill_folders
from adderclaw.agent.run.start import Runtime, warn
from adderclaw.sandbox.workspace import is_directory, stat_target
from adderclaw.tools.background import Tasks
from adderclaw.tools.long_outputs import LongOutputs

NO_SANDBOX = (
    "the server opens no session without a sandbox, because commands could read your key, create a token and answer "
    "their own questions. Use a profile other than `permissive`; `adderclaw doctor` shows which sandbox works here"
)


def workspace_of(runtime: Runtime) -> Workspace:
    """The folders that the session may write to, with links resolved."""
    settings = runtime.config
    extra = (*settings.security.additional_directories, *settings.permissions.additionalDirectories)
    return Workspace(followed(runtime.loaded.workspace), tuple(map(followed, extra)))


def tool_environment(
    runtime: Runtime,
    store: Store | None,
    conversation_id: str = "",
    session_id: str = "",
    *,
    policies: tuple[Json, ...] | None = None,
) -> ToolEnvironment:
    """Build the environment that calls are judged in. Without a store, calls can be explained but not run.

    `policies` replace the policy.toml files that were found.
    """
    settings_now = runtime.config
    confinement = _confinement(runtime)
    workspace = workspace_of(runtime)
    keep = LongOutputs(outputs_folder(runtime, session_id), runtime.secrets.scrub)
    policy_inputs = _policy_inputs(runtime, workspace, confinement, keep.folder, policies)
    active_policy = ActivePolicy(policy_of(settings_now, policy_inputs))
    contents = WorkspaceContents(runtime, confinement, workspace, active_policy) if confinement != "none" else None
    network = SessionNetwork(runtime, active_policy, confinement)
    start = None if contents is None else Starter(runtime, confinement, contents, network)
    tasks = None
    if store is not None:
        tasks = Tasks(runtime.clock, runtime.ids, keep, store, runtime.stopped, runtime.bus.publish_soon)
    kit = tools.Kit(
        _with_policy_scope(settings_now, active_policy.policy),
        store,
        runtime.clock,
        start=start,
        has_look_room=confinement == "bubblewrap",
        begin=start.begin if start is not None else lambda: None,
        env=settings_now.env,
        reach=network.judge if network.is_any else None,
        refused=lambda: network.refused,
        tasks=tasks,
        home=runtime.home,
        project=workspace.root,
        agents=runtime.options.agents,
        skills=_skills(runtime, workspace.root),
        plugins=runtime.plugins.loaded if runtime.plugins is not None else (),
        baseline=None if store is None else lambda root: _baseline(runtime, store, root),
        tmpdir={"none": os.environ.get("TMPDIR", ""), "bubblewrap": "/tmp"}.get(confinement),
    )
    offered = _allowed(
        {**tools.builtin_tools(kit), **_plugin_tools(runtime, kit)}, settings_now.channels.cli.tools_allow
    )
    environment = ToolEnvironment(
        tools=offered,
        kit=kit,
        active_policy=active_policy,
        context=ToolContext(
            conversation_id,
            session_id,
            workspace,
            free_reads=runtime.options.free_reads,
            outputs_folder=keep.folder,
            readable_folders=tuple(policy_inputs["shown"]),
            store_output=keep,
        ),
        stopped=runtime.stopped,
        planning=lambda: _planning(store, conversation_id),
        protected_ids=lambda: _identities(runtime),
        confinement=confinement,
        pace=Pace(runtime.clock),
        background=tasks,
        policy_inputs=policy_inputs,
        shorten=keep.shorten_result,
        network=network,
        later_changes=runtime.later,
        unmasked=lambda touch: is_unmasked(touch, active_policy.policy, contents),
    )
    environment.update_hidden()
    if _has_servers(runtime):
        from adderclaw.agent.run import servers

        beside: ServerStarter | None = None
        if network.is_sealed and start is not None:
            own = WorkspaceContents(runtime, confinement, workspace, active_policy, for_servers=True)
            beside = ServerStarter(runtime, own, network)
        runtime.servers = servers.join(runtime, store, environment, offered, beside)
    return environment


def _has_servers(runtime: Runtime) -> bool:
    brought = runtime.plugins is not None and bool(runtime.plugins.servers)
    return bool(runtime.config.mcp_servers or runtime.options.own_servers) or brought


def _with_policy_scope(now: Config, policy: gate.Policy) -> Config:
    """The configuration with the policy's `workspace_only`, so that tools open exactly what the policy allows."""
    if now.security.workspace_only == policy.workspace_only:
        return now
    return replace(now, security=replace(now.security, workspace_only=policy.workspace_only))


def _policy_inputs(
    runtime: Runtime, workspace: Workspace, confinement: str, outputs_path: str, policies: tuple[Json, ...] | None
) -> Json:
    """The inputs of the policy other than the configuration, from which a replay builds the same policy."""
    root = workspace.root
    return {
        "workspace": root,
        "home": runtime.home,
        "profile": runtime.options.profile,
        "sandboxed": confinement != "none",
        "bubblewrap": confinement == "bubblewrap",
        "scratch": "/tmp" if confinement == "bubblewrap" else "",
        "autonomy_set": not runtime.loaded.origins.get("security.autonomy", "default").startswith(DEFAULT_ORIGINS),
        "own_files": [
            *(runtime.key_path, locks.locks_folder(runtime.config.memory.path)),
            *(file["file"] for file in runtime.loaded.policies),
        ],
        "outputs_folder": outputs_path,
        "shown": list(skill_folders(runtime, root)),
        "started": list(configured_hooks.files(runtime)),
        "hooked": list(configured_hooks.own_files(runtime)),
        "settings": list(settings_files(root)),
        "policies": list(runtime.loaded.policies if policies is None else policies),
        "real": {},
        "traces": list(runtime.traces(root, *workspace.extra)),
    }


DEFAULT_ORIGINS = ("default", "permissions.defaultMode in ")
"""Prefixes of the origin of an autonomy that was not set explicitly."""

OWN_PACKAGE = (
    "adderclaw itself is installed in the workspace, where the sandbox prevents commands from changing it: {places}. "
    "Install it outside of your projects (`uv tool install adderclaw`)"
)


SKILLS = (".adderclaw/skills", ".agents/skills", ".claude/skills", ".adderclaw/commands", ".claude/commands")


def _skills(runtime: Runtime, root: str) -> "tools.Skills | None":
    """The session's skills; None, without an import, if there is no folder of skills."""
    own = os.path.join(root, os.path.expanduser(runtime.config.skills.dir))
    homes = (runtime.home, *runtime.foreign_homes)
    of_user = (os.path.join(home, name) for home in homes for name in (home_names.SKILLS, home_names.COMMANDS))
    folders = (own, *(os.path.join(root, name) for name in SKILLS), *of_user)
    brought = runtime.plugins is not None and any(runtime.plugins.places())
    if not brought and (runtime.options.bare or not any(map(is_directory, folders))):
        return None
    from adderclaw.agent.run.skills import Skills

    return Skills(runtime)


def outputs_folder(runtime: Runtime, session_id: str) -> str:
    """The folder of a session's long outputs; created with the first of them."""
    return os.path.join(followed(runtime.home), home_names.OUTPUTS, session_id) if session_id else ""


def _confinement(runtime: Runtime) -> str:
    """The sandbox for commands. Only the operator can turn it off, by a flag or a file in the home."""
    from adderclaw.sandbox import confinement

    needed = runtime.config.security.sandbox_required
    off = runtime.config.runtime.profile == "permissive" and not needed
    profile = runtime.options.profile or ("permissive" if off else None)
    accept = runtime.config.sandbox.accept
    roots = configured_hooks.roots(runtime)
    if runtime.options.walled and (profile == "permissive" or confinement.probe(roots) == "none"):
        raise UsageError(NO_SANDBOX)
    return confinement.choose_confinement(
        profile, lambda message: warn(runtime, message), roots, needed=needed, accept=accept
    )


def is_unmasked(touch: Touch, policy: gate.Policy, contents: WorkspaceContents | None) -> bool:
    """Whether a command could read a denied file: git has a copy, there are too many files to hide, or one appeared
    while something runs in the sandbox."""
    if not policy.bubblewrap or contents is None or not gate.denies_reads(policy):
        return False
    from adderclaw.policy.legacy.looking import prints_kept
    from adderclaw.policy.legacy.shell.planner import Plan

    return (isinstance(touch.command, Plan) and prints_kept(touch.command)) or contents.is_unmasked()


class Starter:
    """Starts commands in the session's sandbox, which is created once and follows changes of rules and directories."""

    def __init__(self, runtime: Runtime, kind: str, contents: WorkspaceContents, network: SessionNetwork) -> None:
        self._runtime, self._kind, self._contents, self._network = runtime, kind, contents, network
        self._is_first = True

    def __call__(self, order: "ProcessRequest") -> "RunningProcess":
        if self._is_first:
            from adderclaw.sandbox import seen

            self._is_first = False
            if places := seen.own_program_paths(self._contents.roots):
                warn(self._runtime, OWN_PACKAGE.format(places=", ".join(places)))
        return self._box().start(order, self._contents)

    def begin(self) -> None:
        """Start the sandbox in advance. Errors are reported by the first command."""
        with suppress(AdderClawError, OSError):
            self._box().prestart(self._contents)

    def _box(self) -> "Box":
        runtime = self._runtime
        if runtime.box is None:
            runtime.box = make_box(runtime, self._kind, self._contents.outline(), self._network)
        return runtime.box


class ServerStarter:
    """Starts fetched MCP servers in a sandbox of their own, so that commands cannot change what was fetched."""

    def __init__(self, runtime: Runtime, contents: WorkspaceContents, network: SessionNetwork) -> None:
        self._runtime, self._contents, self._network = runtime, contents, network

    def __call__(self, order: "ProcessRequest") -> "RunningProcess":
        runtime = self._runtime
        if runtime.server_box is None:
            runtime.server_box = make_box(runtime, "bubblewrap", self._contents.outline(), self._network, beside=True)
        return runtime.server_box.start(order, self._contents)


def make_box(
    runtime: Runtime, kind: str, room: "SandboxSpec", network: SessionNetwork | None, *, beside: bool = False
) -> "Box":
    """Create a sandbox. `beside`: not the one for commands, so it does not report changes of the workspace."""
    from adderclaw.sandbox import confinement
    from adderclaw.sandbox.proxy import Proxy

    def tell(message: str) -> None:
        warn(runtime, message)

    def kept_from(host: str, why: str) -> None:
        warn(runtime, f"a command in the sandbox was denied access to {host}: {why}")

    proxy = (
        Proxy(network.judge, tell=kept_from, named=network.is_named) if network is not None and network.is_any else None
    )
    if beside:
        return confinement.create_box(kind, room, proxy=proxy, tell=tell)
    return confinement.create_box(kind, room, proxy=proxy, tell=tell, recorder=runtime.later, surveyor=runtime.surveyor)


def _allowed(everything: Mapping[str, Tool[Any]], names: list[str]) -> dict[str, Tool[Any]]:
    if "*" in names:
        return dict(everything)
    allowed = {match[0].name for name in names if (match := tools.find_tool(everything, name)) is not None}
    return {name: tool for name, tool in everything.items() if name in allowed}


def _plugin_tools(runtime: Runtime, kit: tools.Kit) -> dict[str, Tool[Any]]:
    """The tools of plugins. Nothing is imported if there are none."""
    if not any(plugin.manifest.tools for plugin in kit.plugins):
        return {}
    from adderclaw.tools.plugins import plugin_tools

    taken = (*NAMES, *tools.aliases())
    return plugin_tools.plugin_tools(kit.plugins, kit.start, taken, lambda message: warn(runtime, message))


def _baseline(runtime: Runtime, store: Store, root: str) -> "TreeSnapshot":
    from adderclaw.agent.legacy.plan_baseline import record_baseline

    return record_baseline(store, runtime.config, runtime.home, root, headless=runtime.options.headless)


def _planning(store: Store | None, conversation_id: str) -> Planning:
    if store is None or not conversation_id:
        return Planning("idle", plan_approved=False)
    phase, approved = transcript.phase_and_approval(store, conversation_id)
    return Planning(phase, approved)


def _identities(runtime: Runtime) -> frozenset[tuple[int, int]]:
    """The inodes of AdderClaw's own files, so that they are protected under every name."""
    now = runtime.config
    ours = [now.memory.path, now.receipts.path, *(os.path.join(runtime.home, name) for name in home_names.PROTECTED)]
    ours += [file["file"] for file in runtime.loaded.policies]
    identities: set[tuple[int, int]] = set()
    for path in ours:
        if (status := stat_target(path)) is not None:
            identities.add((status.st_dev, status.st_ino))
    return frozenset(identities)
