"""One sandbox per session, started with its first command; what lies in the workspace is looked at around each one."""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Protocol

from adderclaw.config.denied_names import NOTHING, DeniedNames
from adderclaw.config.paths import followed, settled
from adderclaw.core.errors import AdderClawError
from adderclaw.sandbox import known, protected_paths, seen
from adderclaw.sandbox.bubblewrap import Room
from adderclaw.sandbox.legacy.survey import Survey, Surveyor
from adderclaw.sandbox.process import Order, Started
from adderclaw.sandbox.protected_paths import Mounts, Recorder
from adderclaw.sandbox.started_inside import NOTE
from adderclaw.sandbox.watchdog import watchdog

if TYPE_CHECKING:
    from adderclaw.sandbox.proxy import Proxy

LATE = (
    "the sandbox stays as it is while a server or a task runs in it: {why}, which counts for commands when that "
    "has ended"
)
MANY = (
    "the workspace is too large or too deep to be looked at whole: of what other programs run later, changes are "
    "reported only for its first {folders:,} folders"
)
NO_SUPERVISOR = (
    "this kernel cannot ask a supervisor about system calls: no command can change modes, owners, times or extended "
    "attributes of files, not even in the workspace; install bubblewrap"
)
UNMOUNTED = "{count} places that other programs run later are not read-only to commands: changes of them are reported"
UNREACHED = "{root} is not there, or cannot be reached: no command sees it, and nothing in it is looked at"
RENEWED = "the sandbox was started again ({why}): its /tmp and home are empty"


type Kind = Literal["bubblewrap", "landlock", "seatbelt"]


class Place(Protocol):
    """Where a session's commands are started: `holder.Inside`, on macOS `seatbelt.Profiles`."""

    room: Room
    running: int
    gits: int
    """Commands that run in it, and those of them that are git's own."""
    is_used: bool
    """Whether a command ever did."""
    refuses: bool
    """Whether changes of modes, owners, times and attributes are refused everywhere."""
    env: dict[str, str]
    defaults: dict[str, str]
    """What counts unless a command is given something else."""

    def greet(self) -> None:
        """Wait until it is ready, once. Raises AdderClawError where it does not start."""
        ...

    def is_alive(self) -> bool: ...

    def begin(self, order: Order, mark: str, roots: Sequence[str]) -> Started: ...

    def keep(self, everywhere: Mounts, for_git: Mounts) -> None:
        """What of the workspace is read-only from now on: to every command, and to git."""
        ...

    def forget_mounts(self) -> None: ...

    def tell(self, *words: str) -> None:
        """`hold`: pause what runs in it; `go`: continue it; `rest`: raises AdderClawError if it is in use."""
        ...

    def close(self) -> None:
        """End everything inside."""
        ...


class SandboxContents(Protocol):
    """Who says what a session's commands see, by what lies in the workspace now."""

    def outline(self) -> Room:
        """All that needs no look."""
        ...

    def shut(self) -> DeniedNames:
        """What rules have the look note."""
        ...

    def room(self, outline: Room, survey: Survey) -> Room: ...


class _Fixed:
    """Nobody does: the room stays as it was given."""

    def __init__(self, room: Room) -> None:
        self._room = room

    def outline(self) -> Room:
        return self._room

    def shut(self) -> DeniedNames:
        return NOTHING

    def room(self, outline: Room, survey: Survey) -> Room:  # noqa: ARG002
        return outline


class Box:
    """The sandbox of one session. Nothing runs before the first command."""

    def __init__(
        self,
        kind: Kind,
        room: Room,
        *,
        proxy: "Proxy | None" = None,
        tell: Callable[[str], None] = lambda _: None,
        recorder: Recorder | None = None,
        surveyor: Surveyor | None = None,
    ) -> None:
        self.kind: Kind = kind
        self.wanted: Room = room
        """As it was given; `room` has links followed."""
        self._tell, self._told = tell, set[str]()
        self.room = self._normal(room)
        self._outline = room, self.room
        """What the next look is made by, as it was given and with links followed."""
        self._furniture: SandboxContents = _Fixed(room)
        self._proxy = proxy if kind == "bubblewrap" and not room.network else None
        self._inside: Place | None = None
        self._calls = 0
        self._running = 0
        """Commands whose end was not taken in yet, those of a sandbox that has ended as well."""
        self._late: Room | None = None
        self._holds = False
        """Whether all others are stopped meanwhile."""
        self._surveyor, self._recorder = surveyor or Surveyor(), recorder or protected_paths.Unrecorded()
        self._gits = ""
        """Every git directory of the workspace, one in a line, as `printf %b` reads it."""
        self._is_large = False
        """Whether the workspace is too large to be looked at for what only looks."""
        self._items: Mapping[str, str] | None = None
        """What other programs run later, as it was at the last look."""
        self._looked_at: tuple[str, ...] = ()
        """The directories of that look."""
        self._imported: frozenset[str] = frozenset()
        """What instruction files imported at that look."""

    def furnish(self, room: Room) -> None:
        """What commands see from now on. Where the sandbox is open and idle, it is started again with the next one."""
        self._furniture = _Fixed(room)
        self._refurnish(room)

    def _refurnish(self, room: Room) -> None:
        if room != self.wanted:
            self.wanted, self.room = room, self._normal(room)

    def start(self, order: Order, furniture: SandboxContents | None = None) -> "Held":
        """Start a command inside; where nothing is inside yet, or no longer, that first."""
        self._furniture = furniture or self._furniture
        self._calls += 1
        # Where no namespace ends what a killed sandbox leaves behind, the watchdog finds it by its mark.
        mark = watchdog().mark() if self.kind == "landlock" else f"{os.getpid()}.{id(self):x}.{self._calls}"
        try:
            held = self._begun(order, mark)
        except (BrokenPipeError, ConnectionResetError):
            self._inside.close() if self._inside is not None else None  # it ended in this very moment
            held = self._begun(order, mark)
        self._running += 1
        held.inside.running += 1
        held.inside.is_used = True
        held.inside.gits += order.view == "git"
        return held

    def _begun(self, order: Order, mark: str) -> "Held":
        """One look, of which all that follows is made: what is hidden, what is read-only, what git is told."""
        inside = self._inside if self._inside is not None and self._inside.is_alive() else None
        outline = self._outlined()
        watched = order.view != "look" and not outline.read_only
        alone = watched and (inside is None or not inside.gits)
        try:
            if inside is not None and alone and order.view == "git":
                self._hold(inside)
            survey = self._survey() if alone or self._furniture.shut().is_any else None
            self._refurnish(self._furniture.room(outline, survey or Survey()))
            inside = self._ready()
            if alone and survey is not None:
                if order.view == "git":
                    self._hold(inside)
                self._look_before(inside, survey)
            if order.view == "git":
                order = order._replace(env={**order.env, "ADDERCLAW_GIT_DIRS": self._gits})
            if known.ASKED in order.env:
                # While another git runs, which may change settings, nothing is known of them.
                told = None if inside.gits else survey or self._glance()
                order = order._replace(env={**order.env, **known.told(told, order.cwd, self.room.roots)})
            return Held(self, inside, order, mark, watched=watched)
        except BaseException:
            self._go_on(inside) if inside is not None and not inside.gits else None
            raise

    def _outlined(self) -> Room:
        if (outline := self._furniture.outline()) != self._outline[0]:
            self._outline = outline, self._normal(outline)
        return outline

    def shows_more(self, furniture: SandboxContents) -> bool:
        """Whether the next command would see what is to be hidden by now: what runs keeps the sandbox as it is."""
        inside = self._inside
        if inside is None or not inside.running or not inside.is_alive():
            return False
        self._furniture = furniture
        wanted = furniture.room(self._outlined(), self._survey())
        return not ({*wanted.hidden} <= {*inside.room.hidden} and {*wanted.masked} <= {*inside.room.masked})

    def _hold(self, inside: Place) -> None:
        """Stop all others, once."""
        if not self._holds:
            self._holds = True
            inside.tell("hold")

    def _glance(self) -> Survey | None:
        """For git that only looks: nothing is held or reported for it, and where it costs more than it saves, None."""
        if self._is_large:
            return None
        survey = self._surveyor.survey(self._outline[1].roots, (), known.MOST_FOLDERS, self._furniture.shut())
        self._is_large = not survey.is_whole
        return survey

    def _look_before(self, inside: Place, survey: Survey) -> None:
        """Where nothing else runs, what has changed since the last look is the operator's or a tool's own work."""
        self._widen(survey)
        if self._items is None:
            self._recorder.first(survey.items, self._looked_at)
        elif self._running:
            self._report(survey)
        self._items = survey.items
        self._gits = "\n".join(path.replace("\\", "\\\\").replace("\n", "\\n") for path in survey.gits)
        self._mount(inside, survey)

    def _survey(self) -> Survey:
        room = self._outline[1]
        survey = self._surveyor.survey(room.roots, tuple(map(settled, room.kept)), shut=self._furniture.shut())
        if not survey.is_whole:
            self._once(MANY.format(folders=survey.folders))
        return protected_paths.without(survey, room.own)

    def _widen(self, survey: Survey) -> None:
        """What lies in a directory that was added since the last look was there before: no command could go there."""
        imported = frozenset(self._surveyor.imported)
        if self._items is not None and (new := imported - self._imported):
            there = {path: survey.items[path] for path in map(settled, new) if path in survey.items}
            self._items = {**there, **self._items}
        self._imported = imported
        roots, before = self._outline[1].roots, self._looked_at
        if roots == before:
            return
        self._looked_at = roots
        if self._items is not None:
            added = tuple(f"{root}/" for root in roots if root not in before)
            self._items = {
                **self._items,
                **{path: survey.items[path] for path in survey.items if path.startswith(added)},
            }
            self._recorder.widened(self._items, roots)

    def _report(self, survey: Survey) -> str:
        """Hand on what has changed since the last look; the line that says so."""
        self._widen(survey)
        found = protected_paths.changes(self._items or {}, survey.items)
        if self._items != survey.items:
            self._items = survey.items
            self._recorder.changed(found, survey.items)
        return protected_paths.REPORT.format(names=protected_paths.named(found, self.room.roots)) if found else ""

    def _mount(self, inside: Place, survey: Survey) -> None:
        roots, survey = self.room.roots, protected_paths.with_traces(survey, self.room.traces)
        mounts = protected_paths.for_all(survey, roots, self.room.fixed)
        inside.keep(mounts, protected_paths.for_git(survey, tuple(map(settled, self.room.kept))))
        if mounts.left:
            self._once(UNMOUNTED.format(count=mounts.left))

    def _once(self, message: str) -> None:
        if message not in self._told:
            self._told.add(message)
            self._tell(message)

    def open(self) -> None:
        """Start the program inside now."""
        self._ready()

    def begin(self, furniture: SandboxContents) -> None:
        """Have the program inside start before its first command, and wait for nothing. Where rules have the workspace
        looked at first, nothing is started. What has changed until the first command counts for that."""
        if self.kind != "bubblewrap" or self._inside is not None or furniture.shut().is_any:
            return
        self._furniture = furniture
        self._refurnish(furniture.room(self._outlined(), Survey()))
        self._inside = self._made()

    def close(self) -> None:
        """End everything inside."""
        if self._inside is not None:
            self._inside.close()
            self._inside = None

    def rest(self) -> None:
        """End everything inside if no command runs and /tmp is empty, so that the next command sees no difference."""
        inside = self._inside
        if self.kind != "bubblewrap" or inside is None or inside.running:
            return
        with contextlib.suppress(AdderClawError, OSError):  # it is in use, or does not answer
            inside.tell("rest")
            self.close()

    def ended(self, inside: Place, *, git: bool, watched: bool) -> str:
        """A command is over; the line that says what of what other programs run later was changed meanwhile."""
        self._running -= 1
        inside.running -= 1
        inside.gits -= git
        note = ""
        try:
            if watched:
                survey = self._survey()
                self._furniture.room(self._outline[0], survey)  # so that the next verdict knows what cannot be hidden
                note = self._report(survey)
                if git:
                    inside.forget_mounts()  # a file that git made anew has none
                    self._mount(inside, survey) if inside.is_alive() else None
        except (AdderClawError, OSError) as error:
            self._tell(f"the sandbox was ended, since it could not be kept as it has to be: {error}")
            self.close()
        finally:
            self._go_on(inside) if not inside.gits else None
        return NOTE.format(report=note) if note else ""

    def _go_on(self, inside: Place) -> None:
        if self._holds:
            self._holds = False
            with contextlib.suppress(AdderClawError, OSError):
                inside.tell("go")

    def _made(self) -> Place:
        if self.kind == "seatbelt":
            from adderclaw.sandbox.seatbelt import Profiles

            return Profiles(self.room)
        from adderclaw.sandbox.holder import Inside

        return Inside(self.kind, self.room, self._proxy)

    def _ready(self) -> Place:
        inside = self._inside
        if inside is not None and self._is_usable(inside):
            self._say_late(inside)
            return inside
        if inside is not None and inside.is_used:
            alive = inside.is_alive()
            why = _difference(inside.room, self.room) if alive else "the program inside had ended"
            self._tell(RENEWED.format(why=why))
        self.close()
        made = self._made()
        made.greet()
        self._inside, self._holds = made, False
        if made.refuses:
            self._once(NO_SUPERVISOR)
        return made

    def _is_usable(self, inside: Place) -> bool:
        if not inside.is_alive() or not (inside.running or _same(inside.room, self.room)):
            return False
        try:
            inside.greet()
        except AdderClawError:
            if inside.is_used:
                raise
            return False  # it was begun ahead: another may start
        return True

    def _normal(self, room: Room) -> Room:
        """With links followed, and without what is not there. Raises AdderClawError where it would protect nothing."""
        found = {root: followed(root) for root in room.roots}
        roots = tuple(dict.fromkeys(real for real in found.values() if os.path.isdir(real)))
        if "/" in roots:
            raise AdderClawError("the workspace is /: a sandbox would protect nothing; choose a directory below it")
        for root in (root for root, real in found.items() if real not in roots):
            self._once(UNREACHED.format(root=root))
        shown = tuple(path for path in map(followed, room.shown) if path not in ("/", *seen.homes()))
        return replace(room, roots=roots, shown=shown, named=(*room.roots, *room.shown))

    def _say_late(self, inside: Place) -> None:
        """What runs in there would end with it: so what has changed counts when it has ended. Said once."""
        if _same(inside.room, self.room) or self._late == self.room:
            return
        self._late = self.room
        self._tell(LATE.format(why=_difference(inside.room, self.room)))


def _same(old: Room, new: Room) -> bool:
    """What is to stay as it is may grow while a sandbox is open: it is mounted then."""
    return old == replace(new, kept=old.kept, traces=old.traces) and {*old.kept} <= {*new.kept}


def _difference(old: Room, new: Room) -> str:
    more = [path for path in new.roots if path not in old.roots]
    if more or old.roots != new.roots:
        return f"{', '.join(more)} is added to it" if more else "a directory is taken from it"
    return "what rules keep from commands has changed, or files that they name have come or gone"


class Held:
    """One command inside, and the look at the workspace when it has ended."""

    def __init__(self, box: Box, inside: Place, order: Order, mark: str, *, watched: bool) -> None:
        self.note = ""
        self._box, self.inside, self._mark = box, inside, mark
        self._git, self._watched = order.view == "git", watched
        env = {**inside.defaults, **order.env, **inside.env}
        self._command = inside.begin(order._replace(env=env), mark, box.room.roots)
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
            dog.forget(self._mark) if self.inside.is_alive() else dog.kill_marked(self._mark)
        self.note = self._command.note
        self.note += self._box.ended(self.inside, git=self._git, watched=self._watched)
        return code
