"""One sandbox per session, started with its first command; the workspace is surveyed before and after each command."""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Protocol

from adderclaw.config.denied_names import NOTHING, DeniedNames
from adderclaw.config.paths import followed, settled
from adderclaw.core.errors import AdderClawError
from adderclaw.sandbox import git_facts, protected_paths, seen
from adderclaw.sandbox.bubblewrap import SandboxSpec
from adderclaw.sandbox.legacy.survey import Survey, Surveyor
from adderclaw.sandbox.process import ProcessRequest, RunningProcess
from adderclaw.sandbox.protected_paths import Mounts, Recorder
from adderclaw.sandbox.started_inside import NOTE
from adderclaw.sandbox.watchdog import watchdog

if TYPE_CHECKING:
    from adderclaw.sandbox.proxy import Proxy

DEFERRED_CHANGE = (
    "the sandbox cannot change while a server or a task runs in it: {why}. The change takes effect when that has ended"
)
TOO_LARGE = (
    "the workspace is too large or too deep to be surveyed completely: changes of files that other programs run later "
    "are reported only for its first {folders:,} folders"
)
NO_SUPERVISOR = (
    "this kernel does not support a supervisor for system calls, so commands cannot change modes, owners, times or "
    "extended attributes of files, not even in the workspace. Install bubblewrap to allow it"
)
UNMOUNTED = "{count} paths that other programs run later are not read-only for commands; changes of them are reported"
UNREACHABLE = "{root} does not exist or cannot be reached: commands do not see it, and it is not surveyed"
RESTARTED = "the sandbox was restarted ({why}): its /tmp and home are empty"


type Kind = Literal["bubblewrap", "landlock", "seatbelt"]


class SandboxBackend(Protocol):
    """Starts a session's commands: `holder.LinuxBackend`, or `seatbelt.SeatbeltBackend` on macOS."""

    spec: SandboxSpec
    running: int
    gits: int
    """How many commands run in it, and how many of them are git's own."""
    is_used: bool
    """Whether a command ever ran in it."""
    refuses_file_changes: bool
    """Whether changes of modes, owners, times and attributes are refused everywhere."""
    env: dict[str, str]
    defaults: dict[str, str]
    """Variables that a command has unless its request sets them."""

    def wait_until_ready(self) -> None:
        """Wait until the backend is ready. Raises AdderClawError if it does not start."""
        ...

    def is_alive(self) -> bool: ...

    def start(self, order: ProcessRequest, mark: str, roots: Sequence[str]) -> RunningProcess: ...

    def protect(self, everywhere: Mounts, for_git: Mounts) -> None:
        """Make these paths of the workspace read-only: for every command, and for git."""
        ...

    def forget_mounts(self) -> None: ...

    def send_order(self, *words: str) -> None:
        """`pause` and `resume` what runs in it; `is idle` raises AdderClawError if it is in use."""
        ...

    def close(self) -> None:
        """End everything inside."""
        ...


class SandboxContents(Protocol):
    """Decides what a session's commands see, from the current content of the workspace."""

    def outline(self) -> SandboxSpec:
        """The part that does not depend on a survey."""
        ...

    def shut(self) -> DeniedNames:
        """The names of denied files that the survey has to report."""
        ...

    def spec(self, outline: SandboxSpec, survey: Survey) -> SandboxSpec: ...


class FixedContents:
    """Contents that never change."""

    def __init__(self, spec: SandboxSpec) -> None:
        self._spec = spec

    def outline(self) -> SandboxSpec:
        return self._spec

    def shut(self) -> DeniedNames:
        return NOTHING

    def spec(self, outline: SandboxSpec, survey: Survey) -> SandboxSpec:  # noqa: ARG002
        return outline


class Box:
    """The sandbox of one session. Nothing runs before the first command."""

    def __init__(
        self,
        kind: Kind,
        spec: SandboxSpec,
        *,
        proxy: "Proxy | None" = None,
        tell: Callable[[str], None] = lambda _: None,
        recorder: Recorder | None = None,
        surveyor: Surveyor | None = None,
    ) -> None:
        self.kind: Kind = kind
        self.requested: SandboxSpec = spec
        """As the caller set it; `spec` has links followed."""
        self._tell, self._told_messages = tell, set[str]()
        self.spec = self._resolve_spec(spec)
        self._outline = spec, self.spec
        """The roots of the next survey, as configured and with links followed."""
        self._contents: SandboxContents = FixedContents(spec)
        self._proxy = proxy if kind == "bubblewrap" and not spec.network else None
        self._backend: SandboxBackend | None = None
        self._calls = 0
        self._running = 0
        """Commands whose end was not processed yet, including those of a sandbox that has ended."""
        self._deferred_spec: SandboxSpec | None = None
        self._others_paused = False
        """Whether all commands but git's are paused."""
        self._surveyor, self._recorder = surveyor or Surveyor(), recorder or protected_paths.Unrecorded()
        self._gits = ""
        """Every git directory of the workspace, one per line, as `printf %b` reads it."""
        self._is_large = False
        """Whether the workspace is too large to survey it for a git command that only reads."""
        self._items: Mapping[str, str] | None = None
        """Files that other programs run later, with their fingerprints at the last survey."""
        self._surveyed_roots: tuple[str, ...] = ()
        """The directories of that survey."""
        self._imported: frozenset[str] = frozenset()
        """The files that instruction files imported at that survey."""

    def set_spec(self, spec: SandboxSpec) -> None:
        """Set what commands see from now on. An idle sandbox is restarted with the next command."""
        self._contents = FixedContents(spec)
        self._update_spec(spec)

    def _update_spec(self, spec: SandboxSpec) -> None:
        if spec != self.requested:
            self.requested, self.spec = spec, self._resolve_spec(spec)

    def start(self, order: ProcessRequest, contents: SandboxContents | None = None) -> "SandboxedCommand":
        """Start a command in the sandbox, and the sandbox first if it does not run."""
        self._contents = contents or self._contents
        self._calls += 1
        # No namespace ends what a killed Landlock sandbox leaves behind: the watchdog finds it by its mark.
        mark = watchdog().new_mark() if self.kind == "landlock" else f"{os.getpid()}.{id(self):x}.{self._calls}"
        try:
            held = self._start_command(order, mark)
        except (BrokenPipeError, ConnectionResetError):
            self._backend.close() if self._backend is not None else None  # it ended at this moment
            held = self._start_command(order, mark)
        self._running += 1
        held.backend.running += 1
        held.backend.is_used = True
        held.backend.gits += order.view == "git"
        return held

    def _start_command(self, order: ProcessRequest, mark: str) -> "SandboxedCommand":
        """Survey the workspace once, and derive from it what is hidden, what is read-only, and git's environment."""
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
            if git_facts.PLAIN_VARIABLE in order.env:
                # Another running git may change settings, so they are unknown.
                git_settings = None if inside.gits else survey or self._survey_for_git()
                order = order._replace(
                    env={**order.env, **git_facts.git_environment(git_settings, order.cwd, self.spec.roots)}
                )
            return SandboxedCommand(self, inside, order, mark, watched=watched)
        except BaseException:
            self._resume_others(inside) if inside is not None and not inside.gits else None
            raise

    def _refresh_outline(self) -> SandboxSpec:
        if (outline := self._contents.outline()) != self._outline[0]:
            self._outline = outline, self._resolve_spec(outline)
        return outline

    def would_hide_more(self, contents: SandboxContents) -> bool:
        """Whether the next command would still see files that must be hidden now, because the sandbox is in use."""
        inside = self._backend
        if inside is None or not inside.running or not inside.is_alive():
            return False
        self._contents = contents
        next_spec = contents.spec(self._refresh_outline(), self._survey())
        return not ({*next_spec.hidden} <= {*inside.spec.hidden} and {*next_spec.masked} <= {*inside.spec.masked})

    def _pause_others(self, inside: SandboxBackend) -> None:
        """Pause all commands but git's, once."""
        if not self._others_paused:
            self._others_paused = True
            inside.send_order("pause")

    def _survey_for_git(self) -> Survey | None:
        """Survey for a git command that only reads: nothing is paused or reported. None if it costs more than it
        saves."""
        if self._is_large:
            return None
        survey = self._surveyor.survey(self._outline[1].roots, (), git_facts.MAX_FOLDERS, self._contents.shut())
        self._is_large = not survey.is_whole
        return survey

    def _check_before(self, inside: SandboxBackend, survey: Survey) -> None:
        """Report and protect what the survey shows. If nothing else runs, changes are the operator's or a tool's."""
        self._add_directories(survey)
        if self._items is None:
            self._recorder.record_first(survey.items, self._surveyed_roots)
        elif self._running:
            self._report(survey)
        self._items = survey.items
        self._gits = "\n".join(path.replace("\\", "\\\\").replace("\n", "\\n") for path in survey.gits)
        self._mount(inside, survey)

    def _survey(self) -> Survey:
        spec = self._outline[1]
        survey = self._surveyor.survey(spec.roots, tuple(map(settled, spec.kept)), shut=self._contents.shut())
        if not survey.is_whole:
            self._tell_once(TOO_LARGE.format(folders=survey.folders))
        return protected_paths.without_own_folder(survey, spec.own)

    def _add_directories(self, survey: Survey) -> None:
        """Accept the files of newly added directories as known: no command could have changed them."""
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
        """Record what has changed since the last survey; returns the line that reports it."""
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
        """Start the sandbox now."""
        self._ready_backend()

    def prestart(self, contents: SandboxContents) -> None:
        """Start the sandbox ahead of its first command without waiting for it, unless rules need a survey first.

        Changes until the first command take effect with that command.
        """
        if self.kind != "bubblewrap" or self._backend is not None or contents.shut().is_any:
            return
        self._contents = contents
        self._update_spec(contents.spec(self._refresh_outline(), Survey()))
        self._backend = self._create_backend()

    def close(self) -> None:
        """End everything inside."""
        if self._backend is not None:
            self._backend.close()
            self._backend = None

    def stop_if_idle(self) -> None:
        """End the sandbox if no command runs and its /tmp is empty, so that the next command sees no difference."""
        inside = self._backend
        if self.kind != "bubblewrap" or inside is None or inside.running:
            return
        with contextlib.suppress(AdderClawError, OSError):  # it is in use, or does not answer
            inside.send_order("is idle")
            self.close()

    def finish_command(self, inside: SandboxBackend, *, git: bool, watched: bool) -> str:
        """Process the end of a command; returns a line about changed files that other programs run later."""
        self._running -= 1
        inside.running -= 1
        inside.gits -= git
        note = ""
        try:
            if watched:
                survey = self._survey()
                self._contents.spec(self._outline[0], survey)  # the next decision has to know what cannot be hidden
                note = self._report(survey)
                if git:
                    inside.forget_mounts()  # a file that git has recreated has no mount
                    self._mount(inside, survey) if inside.is_alive() else None
        except (AdderClawError, OSError) as error:
            self._tell(f"the sandbox was ended, because its protected paths could not be kept read-only: {error}")
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
            why = _difference(inside.spec, self.spec) if alive else "it had ended"
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
            return False  # it was started ahead and failed: start another
        return True

    def _resolve_spec(self, spec: SandboxSpec) -> SandboxSpec:
        """The spec with links followed and without missing roots. Raises AdderClawError if it would protect nothing."""
        resolved = {root: followed(root) for root in spec.roots}
        roots = tuple(dict.fromkeys(real for real in resolved.values() if os.path.isdir(real)))
        if "/" in roots:
            raise AdderClawError("the workspace is /: a sandbox would protect nothing; choose a directory below it")
        for root in (root for root, real in resolved.items() if real not in roots):
            self._tell_once(UNREACHABLE.format(root=root))
        shown = tuple(path for path in map(followed, spec.shown) if path not in ("/", *seen.home_folders()))
        return replace(spec, roots=roots, shown=shown, named=(*spec.roots, *spec.shown))

    def _tell_deferred_change(self, inside: SandboxBackend) -> None:
        """Tell once that a change waits until what runs in the sandbox has ended."""
        if _is_unchanged(inside.spec, self.spec) or self._deferred_spec == self.spec:
            return
        self._deferred_spec = self.spec
        self._tell(DEFERRED_CHANGE.format(why=_difference(inside.spec, self.spec)))


def _is_unchanged(old: SandboxSpec, new: SandboxSpec) -> bool:
    """Whether a running sandbox can stay: more protected paths can be mounted while it runs."""
    return old == replace(new, kept=old.kept, traces=old.traces) and {*old.kept} <= {*new.kept}


def _difference(old: SandboxSpec, new: SandboxSpec) -> str:
    more = [path for path in new.roots if path not in old.roots]
    if more or old.roots != new.roots:
        return f"{', '.join(more)} is added to it" if more else "a directory is removed from it"
    return "the files that rules hide or protect have changed"


class SandboxedCommand:
    """One command in the sandbox, and the survey of the workspace when it has ended."""

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
