"""The scene that a call is judged in: tools, policy, sandbox."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adderclaw import policy as gate
from adderclaw import tools
from adderclaw.agent.session.limits import Pace
from adderclaw.agent.session.policy_inputs import policy_of
from adderclaw.agent.session.session import InForce, Planning, ToolEnvironment
from adderclaw.config.paths import followed
from adderclaw.config.schema.settings import Config
from adderclaw.core import home_names
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.tool_traits import NAMES
from adderclaw.core.types import Json, Tool, ToolContext, Touch, Workspace
from adderclaw.storage import Store, locks, transcript

if TYPE_CHECKING:
    from adderclaw.sandbox.box import Box
    from adderclaw.sandbox.bubblewrap import Room
    from adderclaw.sandbox.process import Order, Started
    from adderclaw.storage.sdlc.baselines import Taken
from adderclaw.agent.run import configured_hooks
from adderclaw.agent.run.sandbox_setup import SessionNetwork, WorkspaceContents, settings_files, skill_folders
from adderclaw.agent.run.start import Runtime, warn
from adderclaw.sandbox.workspace import is_directory, reached
from adderclaw.tools.background import Tasks
from adderclaw.tools.long_outputs import LongOutputs

UNWALLED = (
    "a server opens no session without a sandbox: its commands could read your key, make themselves a token and answer "
    "their own questions. Choose another profile than `permissive`; `adderclaw doctor` says which sandbox starts here"
)


def workspace_of(runtime: Runtime) -> Workspace:
    """Where the session may write, with links followed."""
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
    """All that a call is judged in. Without a store nothing can run, but everything can be explained.

    `policies` stand in place of the policy.toml files that were found.
    """
    settings_now = runtime.config
    confinement = _confinement(runtime)
    workspace = workspace_of(runtime)
    keep = LongOutputs(outputs(runtime, session_id), runtime.secrets.scrub)
    made_of = _made_of(runtime, workspace, confinement, keep.folder, policies)
    in_force = InForce(policy_of(settings_now, made_of))
    furniture = WorkspaceContents(runtime, confinement, workspace, in_force) if confinement != "none" else None
    ways = SessionNetwork(runtime, in_force, confinement)
    start = None if furniture is None else Starter(runtime, confinement, furniture, ways)
    tasks = None
    if store is not None:
        tasks = Tasks(runtime.clock, runtime.ids, keep, store, runtime.stopped, runtime.bus.publish_soon)
    kit = tools.Kit(
        _as_judged(settings_now, in_force.policy),
        store,
        runtime.clock,
        start=start,
        has_look_room=confinement == "bubblewrap",
        begin=start.begin if start is not None else lambda: None,
        env=settings_now.env,
        reach=ways.judge if ways.is_any else None,
        refused=lambda: ways.refused,
        tasks=tasks,
        home=runtime.home,
        project=workspace.root,
        agents=runtime.options.agents,
        skills=_skills(runtime, workspace.root),
        plugins=runtime.plugins.loaded if runtime.plugins is not None else (),
        baseline=None if store is None else lambda root: _baseline(runtime, store, root),
        tmpdir={"none": os.environ.get("TMPDIR", ""), "bubblewrap": "/tmp"}.get(confinement),
    )
    offered = _allowed({**tools.builtin(kit), **_brought(runtime, kit)}, settings_now.channels.cli.tools_allow)
    here = ToolEnvironment(
        tools=offered,
        kit=kit,
        in_force=in_force,
        context=ToolContext(
            conversation_id,
            session_id,
            workspace,
            free_reads=runtime.options.free_reads,
            outputs_folder=keep.folder,
            readable_folders=tuple(made_of["shown"]),
            store_output=keep,
        ),
        stopped=runtime.stopped,
        planning=lambda: _planning(store, conversation_id),
        protected_ids=lambda: _identities(runtime),
        confinement=confinement,
        pace=Pace(runtime.clock),
        background=tasks,
        policy_inputs=made_of,
        shortened=keep.shortened,
        ways_out=ways,
        later=runtime.later,
        unmasked=lambda touch: is_unmasked(touch, in_force.policy, furniture),
    )
    here.hide()
    if _has_servers(runtime):
        from adderclaw.agent.run import servers

        beside: ServerStarter | None = None
        if ways.is_sealed and start is not None:
            own = WorkspaceContents(runtime, confinement, workspace, in_force, for_servers=True)
            beside = ServerStarter(runtime, own, ways)
        runtime.servers = servers.join(runtime, store, here, offered, beside)
    return here


def _has_servers(runtime: Runtime) -> bool:
    brought = runtime.plugins is not None and bool(runtime.plugins.servers)
    return bool(runtime.config.mcp_servers or runtime.options.own_servers) or brought


def _as_judged(now: Config, policy: gate.Policy) -> Config:
    """The configuration with the policy's word on the workspace: what the gate lets be read is what a tool opens."""
    if now.security.workspace_only == policy.workspace_only:
        return now
    return replace(now, security=replace(now.security, workspace_only=policy.workspace_only))


def _made_of(
    runtime: Runtime, workspace: Workspace, confinement: str, kept: str, policies: tuple[Json, ...] | None
) -> Json:
    """What the policy is made of, beside the configuration: a replay makes the same one of it."""
    root = workspace.root
    return {
        "workspace": root,
        "home": runtime.home,
        "profile": runtime.options.profile,
        "sandboxed": confinement != "none",
        "bubblewrap": confinement == "bubblewrap",
        "scratch": "/tmp" if confinement == "bubblewrap" else "",
        "autonomy_set": not runtime.loaded.origins.get("security.autonomy", "default").startswith(UNCHOSEN),
        "own_files": [
            *(runtime.key_path, locks.folder(runtime.config.memory.path)),
            *(file["file"] for file in runtime.loaded.policies),
        ],
        "kept": kept,
        "shown": list(skill_folders(runtime, root)),
        "started": list(configured_hooks.files(runtime)),
        "hooked": list(configured_hooks.own_files(runtime)),
        "settings": list(settings_files(root)),
        "policies": list(runtime.loaded.policies if policies is None else policies),
        "real": {},
        "traces": list(runtime.traces(root, *workspace.extra)),
    }


UNCHOSEN = ("default", "permissions.defaultMode in ")
"""How the origin of an autonomy begins that nobody chose beside the mode."""

OWN_PACKAGE = (
    "adderclaw itself lies in the workspace, where the sandbox lets no command change it: {places}. "
    "Install it outside of your projects (`uv tool install adderclaw`)"
)


SKILLS = (".adderclaw/skills", ".agents/skills", ".claude/skills", ".adderclaw/commands", ".claude/commands")


def _skills(runtime: Runtime, root: str) -> "tools.Skills | None":
    """The session's skills; where there is no folder of them nothing is imported and nothing is looked for."""
    own = os.path.join(root, os.path.expanduser(runtime.config.skills.dir))
    homes = (runtime.home, *runtime.foreign_homes)
    of_user = (os.path.join(home, name) for home in homes for name in (home_names.SKILLS, home_names.COMMANDS))
    folders = (own, *(os.path.join(root, name) for name in SKILLS), *of_user)
    brought = runtime.plugins is not None and any(runtime.plugins.places())
    if not brought and (runtime.options.bare or not any(map(is_directory, folders))):
        return None
    from adderclaw.agent.run.skills import Skills

    return Skills(runtime)


def outputs(runtime: Runtime, session_id: str) -> str:
    """Where a session's long outputs are kept; made with the first of them."""
    return os.path.join(followed(runtime.home), home_names.OUTPUTS, session_id) if session_id else ""


def _confinement(runtime: Runtime) -> str:
    """What commands run in. Only the operator's own word turns it off: the flag, or the file at home."""
    from adderclaw.sandbox import confinement

    needed = runtime.config.security.sandbox_required
    off = runtime.config.runtime.profile == "permissive" and not needed
    profile = runtime.options.profile or ("permissive" if off else None)
    accept = runtime.config.sandbox.accept
    roots = configured_hooks.roots(runtime)
    if runtime.options.walled and (profile == "permissive" or confinement.probe(roots) == "none"):
        raise UsageError(UNWALLED)
    return confinement.chosen(profile, lambda message: warn(runtime, message), roots, needed=needed, accept=accept)


def is_unmasked(touch: Touch, policy: gate.Policy, furniture: WorkspaceContents | None) -> bool:
    """Whether a denied read cannot be masked: git keeps its own copy, there are more files than can be hidden, or one
    came while something runs in the sandbox."""
    if not policy.bubblewrap or furniture is None or not gate.denies_reads(policy):
        return False
    from adderclaw.policy.legacy.looking import prints_kept
    from adderclaw.policy.legacy.shell.planner import Plan

    return (isinstance(touch.command, Plan) and prints_kept(touch.command)) or furniture.is_unmasked()


class Starter:
    """Starts commands in the session's sandbox, which is made once and follows rules and directories."""

    def __init__(self, runtime: Runtime, kind: str, furniture: WorkspaceContents, ways: SessionNetwork) -> None:
        self._runtime, self._kind, self._furniture, self._ways = runtime, kind, furniture, ways
        self._is_first = True

    def __call__(self, order: "Order") -> "Started":
        if self._is_first:
            self._is_first = False
            _tell_of_own_package(self._runtime, self._furniture.roots)
        return self._box().start(order, self._furniture)

    def begin(self) -> None:
        """Let the sandbox start while nobody waits for it. Whatever is wrong with it, the first command says."""
        with suppress(AdderClawError, OSError):
            self._box().begin(self._furniture)

    def _box(self) -> "Box":
        runtime = self._runtime
        if runtime.box is None:
            runtime.box = box_of(runtime, self._kind, self._furniture.outline(), self._ways)
        return runtime.box


class ServerStarter:
    """Starts servers that are fetched, in a sandbox beside the commands': what one has fetched no command changes."""

    def __init__(self, runtime: Runtime, furniture: WorkspaceContents, ways: SessionNetwork) -> None:
        self._runtime, self._furniture, self._ways = runtime, furniture, ways

    def __call__(self, order: "Order") -> "Started":
        runtime = self._runtime
        if runtime.server_box is None:
            runtime.server_box = box_of(runtime, "bubblewrap", self._furniture.outline(), self._ways, beside=True)
        return runtime.server_box.start(order, self._furniture)


def _tell_of_own_package(runtime: Runtime, roots: tuple[str, ...]) -> None:
    from adderclaw.sandbox import seen

    if places := seen.own(roots):
        warn(runtime, OWN_PACKAGE.format(places=", ".join(places)))


def box_of(runtime: Runtime, kind: str, room: "Room", ways: SessionNetwork | None, *, beside: bool = False) -> "Box":
    """`beside` that of the commands, which looks at the workspace and tells what changed."""
    from adderclaw.sandbox import confinement
    from adderclaw.sandbox.proxy import Proxy

    def tell(message: str) -> None:
        warn(runtime, message)

    def kept_from(place: str, why: str) -> None:
        warn(runtime, f"a command in the sandbox was kept from {place}: {why}")

    proxy = Proxy(ways.judge, tell=kept_from, named=ways.is_named) if ways is not None and ways.is_any else None
    if beside:
        return confinement.box(kind, room, proxy=proxy, tell=tell)
    return confinement.box(kind, room, proxy=proxy, tell=tell, recorder=runtime.later, surveyor=runtime.surveyor)


def _allowed(everything: Mapping[str, Tool[Any]], names: list[str]) -> dict[str, Tool[Any]]:
    if "*" in names:
        return dict(everything)
    wanted = {found[0].name for name in names if (found := tools.find(everything, name)) is not None}
    return {name: tool for name, tool in everything.items() if name in wanted}


def _brought(runtime: Runtime, kit: tools.Kit) -> dict[str, Tool[Any]]:
    """The tools of plugins; nothing is imported for them where no plugin brings any."""
    if not any(plugin.manifest.tools for plugin in kit.plugins):
        return {}
    from adderclaw.tools.plugins import plugin_tools

    taken = (*NAMES, *tools.aliases())
    return plugin_tools.tools(kit.plugins, kit.start, taken, lambda message: warn(runtime, message))


def _baseline(runtime: Runtime, store: Store, root: str) -> "Taken":
    from adderclaw.agent.legacy.plan_baseline import record_baseline

    return record_baseline(store, runtime.config, runtime.home, root, headless=runtime.options.headless)


def _planning(store: Store | None, conversation_id: str) -> Planning:
    if store is None or not conversation_id:
        return Planning("idle", plan_approved=False)
    phase, approved = transcript.phase_and_approval(store, conversation_id)
    return Planning(phase, approved)


def _identities(runtime: Runtime) -> frozenset[tuple[int, int]]:
    """What our own files are on disk, so that another name of one of them is still refused."""
    now = runtime.config
    ours = [now.memory.path, now.receipts.path, *(os.path.join(runtime.home, name) for name in home_names.PROTECTED)]
    ours += [file["file"] for file in runtime.loaded.policies]
    found: set[tuple[int, int]] = set()
    for path in ours:
        if (status := reached(path)) is not None:
            found.add((status.st_dev, status.st_ino))
    return frozenset(found)
