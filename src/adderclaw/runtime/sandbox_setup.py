"""What a session's commands see of the machine and of the workspace, by configuration, rules and one look at it."""

import os
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from adderclaw.config import places
from adderclaw.config.paths import beneath, followed
from adderclaw.kernel.session import InForce
from adderclaw.runtime import configured_hooks
from adderclaw.runtime.start import Runtime, operators_own, warn
from adderclaw.store import locks
from adderclaw.types import Workspace
from adderclaw.workspace import is_directory, is_regular, reached

if TYPE_CHECKING:
    from adderclaw.runtime.denied_paths import Held, Shutter
    from adderclaw.sandbox.bubblewrap import Room
    from adderclaw.workspace.shut import Shut
    from adderclaw.workspace.survey import Survey


class Furniture:
    """Furnishes the sandbox of one session (`sandbox.box.Furniture`); nothing is looked at before it is needed."""

    def __init__(self, runtime: Runtime, kind: str, workspace: Workspace, in_force: InForce) -> None:
        self.in_force = in_force
        self._runtime, self._kind, self._workspace = runtime, kind, workspace
        self._home = followed(runtime.home)
        self._made: Shutter | None = None
        self._servers: tuple[str, ...] | None = None
        self._held: Held | None = None
        self._told: set[str] = set()

    @property
    def roots(self) -> tuple[str, ...]:
        return (self._workspace.root, *self._workspace.extra)

    @property
    def _shutter(self) -> "Shutter":
        if self._made is None:
            from adderclaw.runtime.denied_paths import Shutter

            self._made = Shutter(inside_too=self._kind == "bubblewrap")
        return self._made

    def outline(self) -> "Room":
        from adderclaw.sandbox import caches, seen
        from adderclaw.sandbox.bubblewrap import Room

        runtime, roots = self._runtime, self.roots
        now = runtime.config
        if self._servers is None:
            self._servers = _server_files(runtime) if now.mcp_servers else ()
        return Room(
            roots=roots,
            hidden=_own_files(now.memory.path, now.receipts.path, runtime.key_path),
            kept=(
                *configured_hooks.files(runtime),
                *filter(is_regular, settings_files(roots[0])),
                *seen.own(roots),
            ),
            traces=runtime.traces(roots[0]),
            own=self._home,
            read_only=self.in_force.policy.autonomy_now == "readonly",
            network=now.security.network == "allow",
            shown=(*self._servers, *skill_folders(runtime, roots[0]), *now.sandbox.read_paths),
            cache=caches.folder_of(runtime.home, roots[0]),
        )

    def shut(self) -> "Shut":
        return self._shutter.shut(self.in_force.policy, self.roots)

    def room(self, outline: "Room", survey: "Survey") -> "Room":
        held = self._held = self._shutter.held(survey, self.in_force.policy, self.roots)
        for limit in held.limits:
            if limit not in self._told:
                self._told.add(limit)
                warn(self._runtime, limit)
        return replace(
            outline,
            hidden=(*outline.hidden, *held.unseen),
            kept=(*outline.kept, *held.unchanged),
            fixed=held.fixed,
            masked=tuple((at.st_dev, at.st_ino) for at in map(reached, held.unseen) if at is not None),
        )

    def is_unmasked(self) -> bool:
        """Whether a command that starts now could see a file that is to be hidden from it."""
        if "/" in self.roots:  # where no command runs: the whole disk is not looked at for that
            return True
        late = self._runtime.box is not None and self._runtime.box.shows_more(self)
        return late or bool(self.limits())

    def limits(self) -> tuple[str, ...]:
        """What is not held, by the last look: each command ends with one."""
        if self._held is None or self._shutter.has_changed(self.in_force.policy, self.roots):
            survey = self._runtime.surveyor.look(self.roots, shut=self.shut())
            self._held = self._shutter.held(survey, self.in_force.policy, self.roots)
        return self._held.limits


@lru_cache(maxsize=4)
def settings_files(root: str) -> tuple[str, ...]:
    """Where the settings of the project can stand."""
    return tuple(os.path.join(root, name) for name in places.SETTINGS)


def skill_folders(runtime: Runtime, root: str) -> tuple[str, ...]:
    """Folders of skills outside of the workspace that the operator keeps or named; a project's own word opens none."""
    homes = (runtime.home, *runtime.foreign_homes)
    found = [os.path.join(home, name) for home in homes for name in ("skills", "commands")]
    if operators_own(runtime.options, runtime.loaded, "skills.dir"):
        found.append(os.path.join(root, runtime.config.skills.dir))
    real = [followed(path) for path in found if is_directory(path)]
    return tuple(path for path in real if not beneath(path, root) and not beneath(root, path))


def _server_files(runtime: Runtime) -> tuple[str, ...]:
    """The programs of the configured MCP servers, which are started in the same sandbox."""
    from adderclaw.config.servers import files
    from adderclaw.runtime.servers import configured

    return tuple(dict.fromkeys(path for entry in configured(runtime) for path in files(entry.server)))


@lru_cache(maxsize=4)
def _own_files(store: str, receipts: str, key: str) -> tuple[str, ...]:
    """What we keep our word with: no command sees it."""
    files = (f"{path}{end}" for path in (store, receipts, key) for end in ("", "-wal", "-shm", ".lock", ".head"))
    return (*files, locks.folder(store))
