"""One sandbox per session, started with its first command; what lies in the workspace is looked at around each one."""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Protocol

from adderclaw.config.denied_names import NOTHING, Shut
from adderclaw.config.paths import followed, settled
from adderclaw.core.errors import AdderClawError
from adderclaw.sandbox import known, protected_paths, seen
from adderclaw.sandbox.bubblewrap import SandboxSpec
from adderclaw.sandbox.legacy.survey import Survey, Surveyor
from adderclaw.sandbox.process import ProcessRequest, RunningProcess
from adderclaw.sandbox.protected_paths import Mounts, Recorder
from adderclaw.sandbox.started_inside import NOTE
from adderclaw.sandbox.watchdog import watchdog

if TYPE_CHECKING:
    from adderclaw.sandbox.proxy import Proxy

DEFERRED_CHANGE = (
    "the sandbox stays as it is while a server or a task runs in it: {why}, which counts for commands when that "
    "has ended"
)
TOO_LARGE = (
    "the workspace is too large or too deep to be looked at whole: of what other programs run later, changes are "
    "reported only for its first {folders:,} folders"
)
NO_SUPERVISOR = (
    "this kernel cannot ask a supervisor about system calls: no command can change modes, owners, times or extended "
    "attributes of files, not even in the workspace; install bubblewrap"
)
UNMOUNTED = "{count} places that other programs run later are not read-only to commands: changes of them are reported"
UNREACHABLE = "{root} is not there, or cannot be reached: no command sees it, and nothing in it is looked at"
RESTARTED = "the sandbox was started again ({why}): its /tmp and home are empty"


type Kind = Literal["bubblewrap", "landlock", "seatbelt"]


class SandboxBackend(Protocol):
    """Where a session's commands are started: `holder.Inside`, on macOS `seatbelt.Profiles`."""

    spec: SandboxSpec
    running: int
    gits: int
    """Commands that run in it, and those of them that are git's own."""
    is_used: bool
    """Whether a command ever did."""
    refuses_file_changes: bool
    """Whether changes of modes, owners, times and attributes are refused everywhere."""
    env: dict[str, str]
    defaults: dict[str, str]
    """What counts unless a command is given something else."""

    def wait_until_ready(self) -> None:
        """Wait until it is ready, once. Raises AdderClawError where it does not start."""
        ...

    def is_alive(self) -> bool: ...

    def start(self, order: ProcessRequest, mark: str, roots: Sequence[str]) -> RunningProcess: ...

    def protect(self, everywhere: Mounts, for_git: Mounts) -> None:
        """What of the workspace is read-only from now on: to every command, and to git."""
        ...

    def forget_mounts(self) -> None: ...

    def send_order(self, *words: str) -> None:
        """`hold`: pause what runs in it; `go`: continue it; `rest`: raises AdderClawError if it is in use."""
        ...

    def close(self) -> None:
        """End everything inside."""
        ...


class SandboxContents(Protocol):
    """Who says what a session's commands see, by what lies in the workspace now."""

    def outline(self) -> SandboxSpec:
        """All that needs no look."""
        ...

    def shut(self) -> Shut:
        """What rules have the look note."""
        ...

    def spec(self, outline: SandboxSpec, survey: Survey) -> SandboxSpec: ...


class FixedContents:
    """Nobody does: the room stays as it was given."""

    def __init__(self, room: SandboxSpec) -> None:
        self._spec = room

    def outline(self) -> SandboxSpec:
        return self._spec

    def shut(self) -> Shut:
        return NOTHING

    def spec(self, outline: SandboxSpec, survey: Survey) -> SandboxSpec:  # noqa: ARG002
        return outline


class Box:
    """The sandbox of one session. Nothing runs before the first command."""

    def __init__(
        self,
        kind: Kind,
        room: SandboxSpec,
        *,
        proxy: "Proxy | None" = None,
        tell: Callable[[str], None] = lambda _: None,
        recorder: Recorder | None = None,
        surveyor: Surveyor | None = None,
    ) -> None:
        self.kind: Kind = kind
        self.requested: SandboxSpec = room
        """As it was given; `room` has links followed."""
        self._tell, self._told_messages = tell, set[str]()
        self.spec = self._resolve_spec(room)
        self._outline = room, self.spec
        """What the next look is made by, as it was given and with links followed."""
        self._contents: SandboxContents = FixedContents(room)
        self._proxy = proxy if kind == "bubblewrap" and not room.network else None
        self._backend: SandboxBackend | None = None
        self._calls = 0
        self._running = 0
        """Commands whose end was not taken in yet, those of a sandbox that has ended as well."""
        self._deferred_spec: SandboxSpec | None = None
        self._others_paused = False
        """Whether all others are stopped meanwhile."""
        self._surveyor, self._recorder = surveyor or Surveyor(), recorder or protected_paths.Unrecorded()
        self._gits = ""
        """Every git directory of the workspace, one in a line, as `printf %b` reads it."""
        self._is_large = False
        """Whether the workspace is too large to be looked at for what only looks."""
        self._items: Mapping[str, str] | None = None
        """What other programs run later, as it was at the last look."""
        self._surveyed_roots: tuple[str, ...] = ()
        """The directories of that look."""
        self._imported: frozenset[str] = frozenset()
        """What instruction files imported at that look."""

    def set_spec(self, room: SandboxSpec) -> None:
        """What commands see from now on. Where the sandbox is open and idle, it is started again with the next one."""
        self._contents = FixedContents(room)
        self._update_spec(room)

    def _update_spec(self, room: SandboxSpec) -> None:
        if room != self.requested:
            self.requested, self.spec = room, self._resolve_spec(room)

    def start(self, order: ProcessRequest, furniture: SandboxContents | None = None) -> "SandboxedCommand":
        """Start a command inside; where nothing is inside yet, or no longer, that first."""
        self._contents = furniture or self._contents
        self._calls += 1
        # Where no namespace ends what a killed sandbox leaves behind, the watchdog finds it by its mark.
        mark = watchdog().new_mark() if self.kind == "landlock" else f"{os.getpid()}.{id(self):x}.{self._calls}"
        try:
            held = self._start_command(order, mark)
        except (BrokenPipeError, ConnectionResetError):
            self._backend.close() if self._backend is not None else None  # it ended in this very moment
            held = self._start_command(order, mark)
        self._running += 1
        held.backend.running += 1
        held.backend.is_used = True
        held.backend.gits += order.view == "git"
        return held

    def _start_command(self, order: ProcessRequest, mark: str) -> "SandboxedCommand":
        """One look, of which all that follows is made: what is hidden, what is read-only, what git is told."""
        inside = self._backend if self._backend is not None and self._backend.is_alive() else None
        outline = self._refresh_outline()
        watched = order.view != "read_only" and not outline.read_only
        alone = watched and (inside is None or not inside.gits)
        try:
            if inside is not None and alone and order.view == "git":
                self._pause_others(inside)
            survey = self._survey() if alone or self._contents.shut().is_any else None
            self._update_spec(self._contents.spec(outline, survey or Survey()))
            inside = self._ready_backend()
            if alone and survey is not None:
                if order.view == "git":
                    self._pause_others(inside)
                self._check_before(inside, survey)
            if order.view == "git":
                order = order._replace(env={**order.env, "ADDERCLAW_GIT_DIRS": self._gits})
            if known.PLAIN_VARIABLE in order.env:
                # While another git runs, which may change settings, nothing is known of them.
                git_settings = None if inside.gits else survey or self._survey_for_git()
                order = order._replace(
                    env={**order.env, **known.git_environment(git_settings, order.cwd, self.spec.roots)}
                )
            return SandboxedCommand(self, inside, order, mark, watched=watched)
        except BaseException:
            self._resume_others(inside) if inside is not None and not inside.gits else None
            raise

    def _refresh_outline(self) -> SandboxSpec:
        if (outline := self._contents.outline()) != self._outline[0]:
            self._outline = outline, self._resolve_spec(outline)
        return outline

    def would_hide_more(self, furniture: SandboxContents) -> bool:
        """Whether the next command would see what is to be hidden by now: what runs keeps the sandbox as it is."""
        inside = self._backend
        if inside is None or not inside.running or not inside.is_alive():
            return False
        self._contents = furniture
        next_room = furniture.spec(self._refresh_outline(), self._survey())
        return not ({*next_room.hidden} <= {*inside.spec.hidden} and {*next_room.masked} <= {*inside.spec.masked})

    def _pause_others(self, inside: SandboxBackend) -> None:
        """Stop all others, once."""
        if not self._others_paused:
            self._others_paused = True
            inside.send_order("pause")

    def _survey_for_git(self) -> Survey | None:
        """For git that only looks: nothing is held or reported for it, and where it costs more than it saves, None."""
        if self._is_large:
            return None
        survey = self._surveyor.survey(self._outline[1].roots, (), known.MAX_FOLDERS, self._contents.shut())
        self._is_large = not survey.is_whole
        return survey

    def _check_before(self, inside: SandboxBackend, survey: Survey) -> None:
        """Where nothing else runs, what has changed since the last look is the operator's or a tool's own work."""
        self._add_directories(survey)
        if self._items is None:
            self._recorder.record_first(survey.items, self._surveyed_roots)
        elif self._running:
            self._report(survey)
        self._items = survey.items
        self._gits = "\n".join(path.replace("\\", "\\\\").replace("\n", "\\n") for path in survey.gits)
        self._mount(inside, survey)

    def _survey(self) -> Survey:
        room = self._outline[1]
        survey = self._surveyor.survey(room.roots, tuple(map(settled, room.kept)), shut=self._contents.shut())
        if not survey.is_whole:
            self._tell_once(TOO_LARGE.format(folders=survey.folders))
        return protected_paths.without_own_folder(survey, room.own)

    def _add_directories(self, survey: Survey) -> None:
        """What lies in a directory that was added since the last look was there before: no command could go there."""
        imported = frozenset(self._surveyor.imported)
        if self._items is not None and (new := imported - self._imported):
            there = {path: survey.items[path] for path in map(settled, new) if path in survey.items}
            self._items = {**there, **self._items}
        self._imported = imported
        roots, before = self._outline[1].roots, self._surveyed_roots
        if roots == before:
            return
        self._surveyed_roots = roots
        if self._items is not None:
            added = tuple(f"{root}/" for root in roots if root not in before)
            self._items = {
                **self._items,
                **{path: survey.items[path] for path in survey.items if path.startswith(added)},
            }
            self._recorder.record_widened(self._items, roots)

    def _report(self, survey: Survey) -> str:
        """Hand on what has changed since the last look; the line that says so."""
        self._add_directories(survey)
        changes = protected_paths.changes(self._items or {}, survey.items)
        if self._items != survey.items:
            self._items = survey.items
            self._recorder.record_changes(changes, survey.items)
        return (
            protected_paths.REPORT.format(names=protected_paths.describe_changes(changes, self.spec.roots))
            if changes
            else ""
        )

    def _mount(self, inside: SandboxBackend, survey: Survey) -> None:
        roots, survey = self.spec.roots, protected_paths.with_traces(survey, self.spec.traces)
        mounts = protected_paths.mounts_for_commands(survey, roots, self.spec.fixed)
        inside.protect(mounts, protected_paths.mounts_for_git(survey, tuple(map(settled, self.spec.kept))))
        if mounts.left:
            self._tell_once(UNMOUNTED.format(count=mounts.left))

    def _tell_once(self, message: str) -> None:
        if message not in self._told_messages:
            self._told_messages.add(message)
            self._tell(message)

    def open(self) -> None:
        """Start the program inside now."""
        self._ready_backend()

    def prestart(self, furniture: SandboxContents) -> None:
        """Have the program inside start before its first command, and wait for nothing. Where rules have the workspace
        looked at first, nothing is started. What has changed until the first command counts for that."""
        if self.kind != "bubblewrap" or self._backend is not None or furniture.shut().is_any:
            return
        self._contents = furniture
        self._update_spec(furniture.spec(self._refresh_outline(), Survey()))
        self._backend = self._create_backend()

    def close(self) -> None:
        """End everything inside."""
        if self._backend is not None:
            self._backend.close()
            self._backend = None

    def stop_if_idle(self) -> None:
        """End everything inside if no command runs and /tmp is empty, so that the next command sees no difference."""
        inside = self._backend
        if self.kind != "bubblewrap" or inside is None or inside.running:
            return
        with contextlib.suppress(AdderClawError, OSError):  # it is in use, or does not answer
            inside.send_order("is idle")
            self.close()

    def finish_command(self, inside: SandboxBackend, *, git: bool, watched: bool) -> str:
        """A command is over; the line that says what of what other programs run later was changed meanwhile."""
        self._running -= 1
        inside.running -= 1
        inside.gits -= git
        note = ""
        try:
            if watched:
                survey = self._survey()
                self._contents.spec(self._outline[0], survey)  # so that the next verdict knows what cannot be hidden
                note = self._report(survey)
                if git:
                    inside.forget_mounts()  # a file that git made anew has none
                    self._mount(inside, survey) if inside.is_alive() else None
        except (AdderClawError, OSError) as error:
            self._tell(f"the sandbox was ended, since it could not be kept as it has to be: {error}")
            self.close()
        finally:
            self._resume_others(inside) if not inside.gits else None
        return NOTE.format(report=note) if note else ""

    def _resume_others(self, inside: SandboxBackend) -> None:
        if self._others_paused:
            self._others_paused = False
            with contextlib.suppress(AdderClawError, OSError):
                inside.send_order("resume")

    def _create_backend(self) -> SandboxBackend:
        if self.kind == "seatbelt":
            from adderclaw.sandbox.seatbelt import SeatbeltBackend

            return SeatbeltBackend(self.spec)
        from adderclaw.sandbox.holder import LinuxBackend

        return LinuxBackend(self.kind, self.spec, self._proxy)

    def _ready_backend(self) -> SandboxBackend:
        inside = self._backend
        if inside is not None and self._is_usable(inside):
            self._tell_deferred_change(inside)
            return inside
        if inside is not None and inside.is_used:
            alive = inside.is_alive()
            why = _difference(inside.spec, self.spec) if alive else "the program inside had ended"
            self._tell(RESTARTED.format(why=why))
        self.close()
        started = self._create_backend()
        started.wait_until_ready()
        self._backend, self._others_paused = started, False
        if started.refuses_file_changes:
            self._tell_once(NO_SUPERVISOR)
        return started

    def _is_usable(self, inside: SandboxBackend) -> bool:
        if not inside.is_alive() or not (inside.running or _is_unchanged(inside.spec, self.spec)):
            return False
        try:
            inside.wait_until_ready()
        except AdderClawError:
            if inside.is_used:
                raise
            return False  # it was begun ahead: another may start
        return True

    def _resolve_spec(self, room: SandboxSpec) -> SandboxSpec:
        """With links followed, and without what is not there. Raises AdderClawError where it would protect nothing."""
        resolved = {root: followed(root) for root in room.roots}
        roots = tuple(dict.fromkeys(real for real in resolved.values() if os.path.isdir(real)))
        if "/" in roots:
            raise AdderClawError("the workspace is /: a sandbox would protect nothing; choose a directory below it")
        for root in (root for root, real in resolved.items() if real not in roots):
            self._tell_once(UNREACHABLE.format(root=root))
        shown = tuple(path for path in map(followed, room.shown) if path not in ("/", *seen.home_folders()))
        return replace(room, roots=roots, shown=shown, named=(*room.roots, *room.shown))

    def _tell_deferred_change(self, inside: SandboxBackend) -> None:
        """What runs in there would end with it: so what has changed counts when it has ended. Said once."""
        if _is_unchanged(inside.spec, self.spec) or self._deferred_spec == self.spec:
            return
        self._deferred_spec = self.spec
        self._tell(DEFERRED_CHANGE.format(why=_difference(inside.spec, self.spec)))


def _is_unchanged(old: SandboxSpec, new: SandboxSpec) -> bool:
    """What is to stay as it is may grow while a sandbox is open: it is mounted then."""
    return old == replace(new, kept=old.kept, traces=old.traces) and {*old.kept} <= {*new.kept}


def _difference(old: SandboxSpec, new: SandboxSpec) -> str:
    more = [path for path in new.roots if path not in old.roots]
    if more or old.roots != new.roots:
        return f"{', '.join(more)} is added to it" if more else "a directory is taken from it"
    return "what rules keep from commands has changed, or files that they name have come or gone"


class SandboxedCommand:
    """One command inside, and the look at the workspace when it has ended."""

    def __init__(self, box: Box, inside: SandboxBackend, order: ProcessRequest, mark: str, *, watched: bool) -> None:
        self.note = ""
        self._box, self.backend, self._mark = box, inside, mark
        self._git, self._watched = order.view == "git", watched
        env = {**inside.defaults, **order.env, **inside.env}
        self._command = inside.start(order._replace(env=env), mark, box.spec.roots)
        self.fd = self._command.fd

    def has_ended(self) -> bool:
        return self._command.has_ended()

    def signal(self, number: int) -> None:
        self._command.signal(number)

    def kill(self) -> None:
        self._command.kill()

    def close(self) -> int:
        code = self._command.close()
        if self._box.kind == "landlock":
            dog = watchdog()
            dog.forget_call(self._mark) if self.backend.is_alive() else dog.kill_marked(self._mark)
        self.note = self._command.note
        self.note += self._box.finish_command(self.backend, git=self._git, watched=self._watched)
        return code
