"""What a session's commands can see of the machine and the workspace, and which hosts they can reach."""

import os
import re
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from adderclaw import policy as gate
from adderclaw.agent.run import configured_hooks
from adderclaw.agent.run.start import Runtime, operators_own, warn, workspace_folders
from adderclaw.agent.session.session import ActivePolicy
from adderclaw.config import places
from adderclaw.config.paths import beneath, followed
from adderclaw.core import home_names
from adderclaw.core.host import Isolation
from adderclaw.core.types import CommandFact, Workspace
from adderclaw.models.http import own_network
from adderclaw.sandbox.workspace import is_directory, is_regular, stat_target
from adderclaw.storage import locks

if TYPE_CHECKING:
    from adderclaw.agent.run.denied_paths import Held, Shutter
    from adderclaw.config.denied_names import DeniedNames
    from adderclaw.sandbox.bubblewrap import SandboxSpec
    from adderclaw.sandbox.legacy.survey import Survey


NO_NETWORK = "its commands have no network"
ONLY = "it reaches nothing but {hosts}"
MOST_NAMED = 4


class WorkspaceContents:
    """Specifies the contents of a session's sandbox. Nothing is read before it is needed."""

    def __init__(
        self,
        runtime: Runtime,
        kind: str,
        workspace: Workspace,
        active_policy: ActivePolicy,
        *,
        for_servers: bool = False,
        apart: Isolation | None = None,
    ) -> None:
        """`for_servers`: for fetched servers, whose cache commands cannot write. `apart`: for an isolated child."""
        self.active_policy, self._for_servers, self._apart = active_policy, for_servers, apart
        self._runtime, self._kind, self._workspace = runtime, kind, workspace
        self._home = followed(runtime.home)
        self._shutter_cache: Shutter | None = None
        self._servers: tuple[str, ...] | None = None
        self._held: Held | None = None
        self._warned: set[str] = set()

    @property
    def roots(self) -> tuple[str, ...]:
        return (self._workspace.root, *self._workspace.extra)

    @property
    def _shutter(self) -> "Shutter":
        if self._shutter_cache is None:
            from adderclaw.agent.run.denied_paths import Shutter

            self._shutter_cache = Shutter(inside_too=self._kind in ("bubblewrap", "seatbelt"))
        return self._shutter_cache

    def outline(self) -> "SandboxSpec":
        from adderclaw.sandbox import caches, seen
        from adderclaw.sandbox.bubblewrap import SandboxSpec

        runtime, roots = self._runtime, self.roots
        now, around = runtime.config, runtime.surroundings
        if self._servers is None:
            self._servers = _server_files(runtime) if now.mcp_servers or runtime.plugins is not None else ()
        status_line_files: tuple[str, ...] = ()
        if now.statusLine.command:
            from adderclaw.agent.run import status_line

            status_line_files = status_line.files(runtime)
        room = SandboxSpec(
            roots=roots,
            hidden=_own_files(now.memory.path, now.receipts.path, runtime.key_path),
            kept=(
                *configured_hooks.files(runtime),
                *filter(is_regular, settings_files(roots[0])),
                *seen.own_program_paths(roots),
            ),
            traces=runtime.traces(*roots),
            own=self._home,
            read_only=self.active_policy.policy.autonomy_now == "readonly",
            network=now.security.network == "allow",
            shown=(
                *self._servers,
                *skill_folders(runtime, roots[0]),
                *now.sandbox.read_paths,
                *around.shown,
                *status_line_files,
            ),
            cache=caches.folder_of(runtime.home, roots[0], servers=self._for_servers),
            variables=around.variables,
        )
        return room if self._apart is None else self._set_apart(room, self._apart)

    def _set_apart(self, room: "SandboxSpec", apart: Isolation) -> "SandboxSpec":
        """The sandbox of an isolated child: read-only, without a shared cache, and with the named paths hidden."""
        away = hidden_apart(self._workspace, room.traces, apart)
        room = replace(room, read_only=True, cache="", hidden=(*room.hidden, *away))
        if apart.workspace == "read":
            return room
        shown = (*(self._servers or ()), *self._runtime.surroundings.shown)
        return replace(room, roots=(), unsearched=room.roots, kept=(), traces=(), shown=shown)

    def shut(self) -> "DeniedNames":
        return self._shutter.shut(self.active_policy.policy, self.roots)

    def spec(self, outline: "SandboxSpec", survey: "Survey") -> "SandboxSpec":
        held = self._held = self._shutter.held(survey, self.active_policy.policy, self.roots)
        for limit in held.limits:
            if limit not in self._warned:
                self._warned.add(limit)
                warn(self._runtime, limit)
        return replace(
            outline,
            hidden=(*outline.hidden, *held.unseen),
            kept=(*outline.kept, *held.unchanged),
            fixed=held.fixed,
            masked=tuple((at.st_dev, at.st_ino) for at in map(stat_target, held.unseen) if at is not None),
        )

    def is_unmasked(self) -> bool:
        """Whether a command that starts now could see a file that should be hidden from it."""
        if "/" in self.roots:  # no command runs there, so do not scan the whole disk
            return True
        late = self._runtime.box is not None and self._runtime.box.would_hide_more(self)
        return late or bool(self.limits())

    def limits(self) -> tuple[str, ...]:
        """What the sandbox cannot protect, according to the last survey; each command ends with one."""
        if self._held is None or self._shutter.has_changed(self.active_policy.policy, self.roots):
            survey = self._runtime.surveyor.survey(self.roots, shut=self.shut())
            self._held = self._shutter.held(survey, self.active_policy.policy, self.roots)
        return self._held.limits


def hidden_apart(workspace: Workspace, traces: tuple[str, ...], apart: Isolation) -> tuple[str, ...]:
    """The workspace paths that an isolated child must not see, for the policy and the sandbox."""
    roots = (workspace.root, *workspace.extra)
    if apart.workspace == "none":
        return roots
    return tuple(dict.fromkeys((*apart.hidden, *traces, *(os.path.join(root, ".git") for root in roots))))


@lru_cache(maxsize=4)
def settings_files(root: str) -> tuple[str, ...]:
    """The possible paths of the project's settings."""
    return tuple(os.path.join(root, name) for name in places.SETTINGS)


def skill_folders(runtime: Runtime, root: str) -> tuple[str, ...]:
    """Folders of skills outside of the workspace that the operator configured; a project's settings add none.

    For a trusted plugin it is the whole folder, because its skills use scripts and references in it.
    """
    homes = (runtime.home, *runtime.foreign_homes)
    folders = [os.path.join(home, name) for home in homes for name in (home_names.SKILLS, home_names.COMMANDS)]
    if operators_own(runtime.options, runtime.loaded, "skills.dir"):
        folders.append(os.path.join(root, runtime.config.skills.dir))
    folders += runtime.plugins.roots() if runtime.plugins is not None else ()
    real = [followed(path) for path in folders if is_directory(path)]
    return tuple(path for path in real if not beneath(path, root) and not beneath(root, path))


def _server_files(runtime: Runtime) -> tuple[str, ...]:
    """The programs of the configured MCP servers, which are started in the same sandbox."""
    from adderclaw.agent.run.configured_servers import configured
    from adderclaw.config.servers import files

    paths: list[str] = []
    for entry in configured(runtime):
        # a plugin's arguments cannot show files outside of its folder
        of_plugin = entry.scope.startswith("plugin:")
        paths += files(replace(entry.server, args=[]) if of_plugin else entry.server)
        if (fetch := runtime.fetches.of(entry) if runtime.fetches is not None else None) is not None and fetch.is_apart:
            os.makedirs(fetch.folder, mode=0o700, exist_ok=True)  # so that packages fetched later are visible, too
            paths.append(fetch.folder)
    return tuple(dict.fromkeys(paths))


@lru_cache(maxsize=4)
def _own_files(store: str, receipts: str, key: str) -> tuple[str, ...]:
    """AdderClaw's store, receipts and key, which no command may see."""
    files = (f"{path}{end}" for path in (store, receipts, key) for end in ("", "-wal", "-shm", ".lock", ".head"))
    return (*files, locks.locks_folder(store))


# ------------------------------------------------------------------ hosts


def _registries(runtime: Runtime) -> tuple[str, ...]:
    """The registries in the settings, and those of the operator's own package managers unless a project or an
    administrator restricted the list."""
    listed = tuple(runtime.config.security.registries)
    if not listed or not operators_own(runtime.options, runtime.loaded, "security.registries"):
        return listed
    own = own_network.indexes(workspace_folders(runtime.loaded.workspace, runtime.config)).hosts
    if not own:
        return listed
    from adderclaw.policy.legacy import registries

    return (*listed, *(address for address in own if address.rpartition(":")[0] not in registries.known()))


class SessionNetwork:
    """Which hosts commands can reach through the proxy. All come from the configuration, none from the model."""

    def __init__(self, runtime: Runtime, active_policy: ActivePolicy, confinement: str) -> None:
        self._security, self._active_policy = runtime.config.security, active_policy
        self._registries = _registries(runtime) if confinement == "bubblewrap" else tuple(self._security.registries)
        self._always = (*self._security.allowed_domains, *(self._registries if runtime.options.headless else ()))
        self._allowed_registries: tuple[str, ...] = ()
        self.refused = 0
        """How often access to a host was denied."""
        self._opened: list[str] = []
        """Hosts that are allowed while a server is fetched."""
        self.is_sealed = confinement == "bubblewrap" and self._security.network != "allow"
        self._kind = confinement

    @property
    def policy(self) -> gate.Policy:
        return self._active_policy.policy

    @property
    def domains(self) -> tuple[str, ...]:
        return (*self._always, *self._allowed_registries, *self._opened)

    @property
    def is_any(self) -> bool:
        """Whether any host is or can become reachable; otherwise there is no proxy."""
        return bool(self._always or self._registries)

    def judge(self, host: str, port: int, addresses: list[str] | None) -> str | None:
        from adderclaw.policy import hosts

        policy = self._active_policy.policy
        why = gate.denied_host_reason(policy, host, port) or hosts.tunnel_refusal(host, port, addresses, self.domains)
        if why is not None:
            self.refused += 1
        return why

    def is_named(self, host: str, port: int) -> bool:
        """Whether the operator listed exactly this host, not by a pattern."""
        from adderclaw.models.http.addresses import is_named

        return is_named(host, port, self.domains)

    def offered_registries(self, command: CommandFact | None) -> tuple[str, ...]:
        """The registries of a command's package managers that the operator lists and can allow."""
        if not self.is_sealed or command is None:
            return ()
        from adderclaw.policy.legacy import registries

        listed = self._registries
        hosts = [host for host in registries.needed(command) if host in listed]
        if registries.needed(command):  # the operator's own registries may serve any package manager
            hosts += [host for host in listed if host not in registries.known()]
        return tuple(registry for registry in hosts if registry not in self.domains and self._may_be_reached(registry))

    def allow_registries(self, command: CommandFact | None) -> tuple[str, ...]:
        """Allow the offered registries until the session ends, after the operator approved it."""
        hosts = self.offered_registries(command)
        self._allowed_registries = tuple(dict.fromkeys((*self._allowed_registries, *hosts)))
        return hosts

    def of_program(self, program: str) -> tuple[str, ...]:
        """The registries that a package manager uses and the operator lists."""
        from adderclaw.policy.legacy import registries

        own, _ = registries.managers().get(program, ((), frozenset[str]()))
        hosts = (host for host in self._registries if host in own or host not in registries.known())
        return tuple(host for host in hosts if own and self._may_be_reached(host))

    def _may_be_reached(self, address: str) -> bool:
        host, _, port = address.rpartition(":") if re.search(r"[^:]:\d+$", address) else (address, "", "443")
        return not gate.denied_host_reason(self._active_policy.policy, host, int(port))

    def open(self, hosts: tuple[str, ...]) -> None:
        self._opened += hosts

    def shut(self, hosts: tuple[str, ...]) -> None:
        for host in hosts:
            self._opened.remove(host)

    def describe(self, command: CommandFact | None) -> str:
        """The network access of a command, for the approval question; empty if it uses none."""
        from adderclaw.sandbox.confinement import REACHES_ABSTRACT_SOCKETS, reaches_abstract_sockets

        if command is None:
            return ""
        if not self.is_sealed:
            return REACHES_ABSTRACT_SOCKETS if reaches_abstract_sockets(self._kind, self._security.network) else ""
        from adderclaw.policy.legacy import registries

        if not registries.is_networked(command):
            return ""
        if not self.domains:
            return NO_NETWORK
        named = ", ".join(self.domains[:MOST_NAMED])
        more = f" and {len(self.domains) - MOST_NAMED} more hosts" if len(self.domains) > MOST_NAMED else ""
        return ONLY.format(hosts=named + more)
