"""One sandbox per session: a small program inside it, started with the first command, that starts all of them.

Starting a namespace takes milliseconds; asking somebody who is in one already takes a fraction of one. What the
program inside says is believed no more than what a command says: it is as confined, and could be one.
"""

import contextlib
import errno
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from adderclaw.config.paths import followed, settled
from adderclaw.errors import AdderClawError
from adderclaw.sandbox import caches, known, later, limits, seen
from adderclaw.sandbox.bubblewrap import Room, hidden, options
from adderclaw.sandbox.clearing import clear
from adderclaw.sandbox.confinement import NO_WORD
from adderclaw.sandbox.later import NO_MOUNTS, Mounts, Recorder
from adderclaw.sandbox.memory import memory_file
from adderclaw.sandbox.process import KILL_WAIT, Order
from adderclaw.sandbox.programs import inside, resolve
from adderclaw.sandbox.watchdog import MARK, watchdog
from adderclaw.workspace.survey import Survey, Surveyor

if TYPE_CHECKING:
    from adderclaw.sandbox.proxy import Proxy

type Kind = Literal["bubblewrap", "landlock"]

START_WAIT = 10.0
"""Seconds that the program inside has for its start and for each answer: past them, all that is in there ends."""
MESSAGE_BYTES, IN_A_FILE = 32_768, b"in a file"
"""How long a payload a message holds, and what stands for a longer one: `inside` says the same."""
REFUSING = b"ready refusing"
"""What the program inside says where no supervisor can be asked: `inside` says the same."""
PROXY_PORT = 3128
INSIDE = ("inside_mounts", "inside_rights", "inside_processes", "inside_rooms", "inside")
"""The modules of the program inside: each imports only from those before it."""
LOAD = """
import marshal, posix, sys
for name, code in marshal.loads(posix.read(0, 1 << 24)):
    module = type(sys)(name)
    sys.modules.setdefault(name, module)
    exec(code, module.__dict__)
"""
KEPT = 0b1011
"""`bubblewrap.KEPT_CAPABILITIES` as the kernel numbers them."""
UNHIDDEN = (
    "{secret} lies in the workspace, where Landlock cannot hide it: install bubblewrap, or work in another directory"
)
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
NOTE = "\nadderclaw: {report}\n"
RENEWED = "the sandbox was started again ({why}): its /tmp and home are empty"


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
    ) -> None:
        self.kind: Kind = kind
        self.wanted = room
        """As it was given; `room` has links followed."""
        self.room = _normal(room)
        self._proxy = proxy if kind == "bubblewrap" and not room.network else None
        self._tell = tell
        self._inside: _Inside | None = None
        self._calls = 0
        self._running = 0
        """Commands whose end was not taken in yet, those of a sandbox that has ended as well."""
        self._late: Room | None = None
        self._holds = False
        """Whether all others are stopped meanwhile."""
        self._told: set[str] = set()
        self._surveyor, self._recorder = Surveyor(), recorder or later.Unrecorded()
        self._gits = ""
        """Every git directory of the workspace, one in a line, as `printf %b` reads it."""
        self._seen: Survey | None = None
        """The look before the command that is started now."""
        self._is_large = False
        """Whether the workspace is too large to be looked at for what only looks."""
        self._items: Mapping[str, str] | None = None
        """What other programs run later, as it was at the last look."""

    def furnish(self, room: Room) -> None:
        """What commands see from now on. Where the sandbox is open and idle, it is started again with the next one."""
        self.wanted, self.room = room, _normal(room)

    def start(self, order: Order) -> "Held":
        """Start a command inside; where nothing is inside yet, or no longer, that first."""
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
        held.inside.gits += order.view == "git"
        return held

    def _begun(self, order: Order, mark: str) -> "Held":
        inside = self._ready()
        watched = order.view != "look" and not self.room.read_only
        try:
            if watched and not inside.gits:
                if order.view == "git":
                    self._holds = True
                    inside.tell("hold")
                self._look_before(inside)
            if order.view == "git":
                order = order._replace(env={**order.env, "ADDERCLAW_GIT_DIRS": self._gits})
            if known.ASKED in order.env:
                # While another git runs, which may change settings, nothing is known of them.
                survey = None if inside.gits else self._seen if watched else self._glance()
                order = order._replace(env={**order.env, **known.told(survey, order.cwd, self.room.roots)})
            return Held(self, inside, order, mark, watched=watched)
        except BaseException:
            self._go_on(inside) if not inside.gits else None
            raise

    def _glance(self) -> Survey | None:
        """For git that only looks: nothing is held or reported for it, and where it costs more than it saves, None."""
        if self._is_large:
            return None
        survey = self._surveyor.look(self.room.roots, (), known.MOST_FOLDERS)
        self._is_large = not survey.is_whole
        return survey

    def _look_before(self, inside: "_Inside") -> None:
        """Where nothing else runs, what has changed since the last look is the operator's or a tool's own work."""
        survey = self._seen = self._survey()
        if self._items is None:
            self._recorder.first(survey.items)
        elif self._running:
            self._report(survey)
        self._items = survey.items
        self._gits = "\n".join(path.replace("\\", "\\\\").replace("\n", "\\n") for path in survey.gits)
        self._mount(inside, survey)

    def _survey(self) -> Survey:
        survey = self._surveyor.look(self.room.roots, tuple(map(settled, self.room.kept)))
        if not survey.is_whole:
            self._once(MANY.format(folders=survey.folders))
        return later.without(survey, self.room.own)

    def _report(self, survey: Survey) -> str:
        """Hand on what has changed since the last look; the line that says so."""
        found = later.changes(self._items or {}, survey.items)
        if self._items != survey.items:
            self._items = survey.items
            self._recorder.changed(found, survey.items)
        return later.REPORT.format(names=later.named(found, self.room.roots)) if found else ""

    def _mount(self, inside: "_Inside", survey: Survey) -> None:
        roots = self.room.roots
        mounts = later.for_all(survey, roots, self.room.fixed)
        inside.keep(mounts, later.for_git(survey, tuple(map(settled, self.room.kept))))
        if mounts.left:
            self._once(UNMOUNTED.format(count=mounts.left))

    def _once(self, message: str) -> None:
        if message not in self._told:
            self._told.add(message)
            self._tell(message)

    def open(self) -> None:
        """Start the program inside now."""
        self._ready()

    def close(self) -> None:
        """End everything inside."""
        if self._inside is not None:
            self._inside.close()
            self._inside = None

    def ended(self, inside: "_Inside", *, git: bool, watched: bool) -> str:
        """A command is over; the line that says what of what other programs run later was changed meanwhile."""
        self._running -= 1
        inside.running -= 1
        inside.gits -= git
        note = ""
        try:
            if watched:
                survey = self._survey()
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

    def _go_on(self, inside: "_Inside") -> None:
        if self._holds:
            self._holds = False
            with contextlib.suppress(AdderClawError, OSError):
                inside.tell("go")

    def _ready(self) -> "_Inside":
        inside = self._inside
        if inside is not None and inside.is_alive():
            if inside.running or _same(inside.room, self.room):
                self._say_late(inside)
                return inside
            self._tell(RENEWED.format(why=_difference(inside.room, self.room)))
        elif inside is not None:
            self._tell(RENEWED.format(why="the program inside had ended"))
        self.close()
        self._inside = _Inside(self.kind, self.room, self._proxy)
        self._holds = False
        if self._inside.refuses:
            self._once(NO_SUPERVISOR)
        return self._inside

    def _say_late(self, inside: "_Inside") -> None:
        """What runs in there would end with it: so what has changed counts when it has ended. Said once."""
        if _same(inside.room, self.room) or self._late == self.room:
            return
        self._late = self.room
        self._tell(LATE.format(why=_difference(inside.room, self.room)))


def _same(old: Room, new: Room) -> bool:
    """What is to stay as it is may grow while a sandbox is open: it is mounted then."""
    return old == replace(new, kept=old.kept) and {*old.kept} <= {*new.kept}


def _normal(room: Room) -> Room:
    """With links followed, and without what is not there. Raises AdderClawError where it would protect nothing."""
    roots = tuple(dict.fromkeys(filter(os.path.isdir, map(followed, room.roots))))
    if "/" in roots:
        raise AdderClawError("the workspace is /: a sandbox would protect nothing; choose a directory below it")
    shown = tuple(path for path in map(followed, room.shown) if path not in ("/", *seen.homes()))
    return replace(room, roots=roots, shown=shown, named=(*room.roots, *room.shown))


def _difference(old: Room, new: Room) -> str:
    more = [path for path in new.roots if path not in old.roots]
    if more or old.roots != new.roots:
        return f"{', '.join(more)} is added to it" if more else "a directory is taken from it"
    return "what rules keep from commands has changed, or files that they name have come or gone"


class Held:
    """One command inside."""

    def __init__(self, box: Box, inside: "_Inside", order: Order, mark: str, *, watched: bool) -> None:
        self.note = ""
        self._box, self.inside, self._mark = box, inside, mark
        self._git, self._watched = order.view == "git", watched
        self._code = -int(signal.SIGKILL)
        self._over = self._ending = False
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            payload = _payload(order, {**inside.defaults, **order.env, **inside.env}, mark)
            inside.send(payload, [theirs.fileno(), *order.streams, *order.pass_fds])
        except BaseException:
            self._channel.close()
            raise
        finally:
            theirs.close()
        self.fd = self._channel.fileno()

    def has_ended(self) -> bool:
        message = self._heard(socket.MSG_DONTWAIT)
        if message is None:
            return False
        word, *rest = message.split(b" ", 2)
        numbers = [int(part) for part in rest if part.removeprefix(b"-").isdigit()]
        if word == b"exit" and len(numbers) == 2:
            self._code, self._over = numbers[0], bool(numbers[1])
        elif word == b"error" and numbers:
            self._over = True
            raise OSError(numbers[0], os.strerror(numbers[0]), os.fsdecode(rest[-1]) if len(rest) > 1 else None)
        else:
            self._over = True  # the channel is closed: nothing of it runs any more, or nothing at all does
        return True

    def _heard(self, flags: int = 0) -> bytes | None:
        try:
            return self._channel.recv(4096, flags)
        except BlockingIOError:
            return None
        except TimeoutError:
            raise
        except OSError:
            return b""

    def signal(self, number: int) -> None:
        self._say(b"signal %d" % number)

    def kill(self) -> None:
        if not self._ending:
            self._ending = True
            self._say(b"end")

    def _say(self, text: bytes) -> None:
        with contextlib.suppress(OSError):
            self._channel.send(text, socket.MSG_DONTWAIT)

    def close(self) -> int:
        if not self._over:
            self.kill()
            self._channel.settimeout(START_WAIT)
            try:
                while self._heard():
                    pass
            except TimeoutError:
                self.inside.close()  # it does not answer: then everything in it ends
        self._channel.close()
        if self._box.kind == "landlock":
            dog = watchdog()
            dog.forget(self._mark) if self.inside.is_alive() else dog.kill_marked(self._mark)
        self.note = self._box.ended(self.inside, git=self._git, watched=self._watched)
        return self._code


def _payload(order: Order, env: dict[str, str], mark: str) -> bytes:
    program = order.argv[0]
    if not os.path.isabs(program):
        found = resolve(program)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
        program = found
    if (wrong := next((name for name in env if not name or "=" in name), None)) is not None:
        raise ValueError(f"no name for an environment variable: {wrong!r}")
    words = [" ".join(map(str, (order.view, len(order.argv), *order.pass_fds))), order.cwd, program, *order.argv[1:]]
    words += [f"{name}={value}" for name, value in env.items()]
    text = "\0".join((*words, f"{MARK}={mark}"))
    if text.count("\0") != len(words):
        raise ValueError("embedded null byte")
    return os.fsencode(text)


class _Inside:
    """The program inside and the socket to it."""

    def __init__(self, kind: Kind, room: Room, proxy: "Proxy | None") -> None:
        from subprocess import Popen

        self.room = room
        self.running = self.gits = 0
        """Commands that run in it, and those of them that are git's own."""
        self._mounted = NO_MOUNTS, NO_MOUNTS
        self.env: dict[str, str] = {"TMPDIR": "/tmp"}
        self.defaults: dict[str, str] = {}
        """What counts unless a command is given something else."""
        self._cache = -1
        self._folder = ""
        self._proxy = proxy
        self.refuses = False
        """Whether changes of modes, owners, times and attributes are refused everywhere."""
        self._group: limits.Group | None = None
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        # Where no namespace is, a supervisor starts the program inside.
        first = _compiled(*INSIDE) if kind == "bubblewrap" else _compiled("supervise")
        complaints, text = memory_file(b""), memory_file(first)
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, complaints)
            stack.callback(os.close, text)
            stack.callback(theirs.close)
            fds = [theirs.fileno()]
            caching = bool(room.cache) and not room.read_only
            if caching:
                os.makedirs(room.cache, mode=0o700, exist_ok=True)
                self.defaults = caches.environment(caches.PLACE if kind == "bubblewrap" else room.cache)
            prepare = self._bubblewrap if kind == "bubblewrap" else self._landlock
            argv = prepare(room, fds, stack)
            self._process: Popen[bytes] = Popen(
                argv,
                stdin=text,
                stdout=complaints,
                stderr=complaints,
                env={},
                cwd="/",
                pass_fds=fds,
                start_new_session=True,
            )
            theirs.close()
            self._pidfd = -1
            self._greet(complaints)
            if caching:
                self._cache = caches.hold(room.cache, room.roots[0])
            stack.pop_all().close()

    def _bubblewrap(self, room: Room, fds: list[int], stack: contextlib.ExitStack) -> list[str]:
        from adderclaw.sandbox.seccomp import program

        bwrap = resolve("bwrap", room.roots)
        if bwrap is None:
            raise AdderClawError("no `bwrap` on the PATH")
        code = memory_file(program("namespace"))
        stack.callback(os.close, code)
        looking = memory_file(program("none"))
        stack.callback(os.close, looking)
        numbers = {"seccomp": code, "looking": looking, "capabilities": 0 if os.geteuid() else KEPT}
        if self._proxy is not None:
            self.env |= self._proxy.environment(PROXY_PORT)
            numbers["port"] = PROXY_PORT
        fds += [code, looking]
        files = {name: fd for name in seen.FILES if (fd := _opened(f"/etc/{name}", stack)) is not None}
        fds += files.values()
        started = [*_interpreter(), *_given(fds[0], **numbers), *_rooted(room)]
        return [bwrap, *options(room, files), "--", *started]

    def _landlock(self, room: Room, fds: list[int], stack: contextlib.ExitStack) -> list[str]:
        import tempfile

        from adderclaw.sandbox import landlock
        from adderclaw.sandbox.seccomp import INSTALL, calls, program

        if secret := next((path for path in hidden(room) if inside(path, room.roots)), None):
            raise AdderClawError(UNHIDDEN.format(secret=secret))
        _sweep(tempfile.gettempdir())
        self._folder = followed(tempfile.mkdtemp(prefix=f"adderclaw-{os.getpid()}-"))
        self.env = {"TMPDIR": self._folder, "HOME": self._folder}
        away = hidden(room)
        tops = (*seen.readable(room.roots, room.shown), "/proc", *(room.roots if room.read_only else ()))
        readable = [path for top in tops for path in landlock.visible(away, (), top)]
        writable = (self._folder, *(() if room.read_only else (*room.roots, *filter(None, [room.cache]))))
        rules = landlock.ruleset(readable, writable, network=room.network)
        stack.callback(os.close, rules)
        network = "namespace" if room.network else "none"
        # Before its third version, Landlock has no right for `truncate`.
        without = () if landlock.version() >= 3 else ("truncate",)
        numbers = {"ruleset": rules}
        texts = {
            "seccomp": program(network, outside="asked", refused=without),
            "refused": program(network, outside="refused", refused=without),
            "program": _compiled(*INSIDE),
            "roots": os.fsencode("\0".join(writable)),
        }
        for name, text in texts.items():
            numbers[name] = memory_file(text)
            stack.callback(os.close, numbers[name])
        fds += numbers.values()
        asked = ",".join(f"{name}:{number}" for name, number in calls().items())
        numbers["install"] = INSTALL[os.uname().machine]
        return [*_interpreter(), *_given(fds[0], **numbers), f"calls={asked}"]

    def _greet(self, complaints: int) -> None:
        """Wait until it is ready; learn its number, and take over the door that its proxy is reached by."""
        self._control.settimeout(START_WAIT)
        try:
            message, ancillary, _, _ = self._control.recvmsg(64, 256, socket.MSG_CMSG_CLOEXEC)
        except TimeoutError:
            message, ancillary = b"", []
        self.refuses = message == REFUSING
        if message not in (b"ready", REFUSING):
            self._process.kill()
            self._process.wait()
            self.close()
            said = os.pread(complaints, 4096, 0).decode("utf-8", "replace").strip()
            raise AdderClawError(f"the sandbox did not start: {said[-300:] or NO_WORD}")
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
                self._known(struct.unpack("=iii", data[:12])[0])
            elif self._proxy is not None:
                self._proxy.serve(socket.socket(fileno=struct.unpack("=i", data[:4])[0]))
        self._control.settimeout(KILL_WAIT)

    def _known(self, pid: int) -> None:
        with contextlib.suppress(AttributeError, OSError):
            self._pidfd = os.pidfd_open(pid)
        if os.geteuid() == 0:
            self._group = limits.Group(pid)

    def is_alive(self) -> bool:
        """Not once it was closed, though it may need a moment to end all that it started."""
        return self._control.fileno() >= 0 and self._process.poll() is None

    def keep(self, everywhere: Mounts, for_git: Mounts) -> None:
        """Let mounts keep this, if they do not yet; Landlock has none."""
        if self._folder or (everywhere, for_git) == self._mounted:
            return
        self.tell("keep git", "\0".join(for_git.pinned), "", "\0".join(for_git.kept))
        self.tell("keep", "\0".join(everywhere.pinned), "", "\0".join(everywhere.kept))
        self._mounted = everywhere, for_git

    def forget_mounts(self) -> None:
        """A file that git made anew has none, even if all that can be seen of it is the same."""
        self._mounted = NO_MOUNTS, NO_MOUNTS

    def tell(self, *words: str) -> None:
        """Give an order that is no command, and wait until it was obeyed."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            with theirs:
                self.send(os.fsencode("\0".join(words)), [theirs.fileno()])
            ours.settimeout(START_WAIT)
            answer = ours.recv(4096)
        if answer != b"done ":
            said = answer.removeprefix(b"done ").decode("utf-8", "replace") or "the program inside does not answer"
            raise AdderClawError(f"the sandbox cannot keep protected places as they are: {words[0]}: {said}")

    def send(self, payload: bytes, fds: list[int]) -> None:
        """Hand over a command. Raises OSError where nobody takes it."""
        if len(payload) <= MESSAGE_BYTES:
            socket.send_fds(self._control, [payload], fds)
            return
        file = memory_file(payload)
        try:
            socket.send_fds(self._control, [IN_A_FILE], [file, *fds])
        finally:
            os.close(file)

    def close(self) -> None:
        """End it, and with it everything inside."""
        from subprocess import TimeoutExpired

        self._control.close()
        if self._pidfd >= 0:
            with contextlib.suppress(OSError):
                self._finish()
            os.close(self._pidfd)
            self._pidfd = -1
        try:
            self._process.wait(KILL_WAIT)
        except TimeoutExpired:
            if self._group is not None:
                self._group.kill()
            self._process.kill()
        if self._proxy is not None:
            self._proxy.close()
        if self._group is not None:
            self._group.close()
        if self._folder:
            clear(self._folder)
        if self._cache >= 0:
            os.close(self._cache)
            self._cache = -1

    def _finish(self) -> None:
        # In a namespace of its own, the rest dies with it. Elsewhere it must end the rest before it ends itself.
        if self._folder == "":
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)


def _opened(path: str, stack: contextlib.ExitStack) -> int | None:
    """A setting of the system, to be copied; None where there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    stack.callback(os.close, fd)
    return fd


def _sweep(top: str) -> None:
    """Remove the folders of programs that were killed before they could."""
    for entry in os.scandir(top):
        owner = entry.name.removeprefix("adderclaw-").partition("-")[0]
        if not entry.name.startswith("adderclaw-") or not owner.isdigit() or os.path.exists(f"/proc/{owner}"):
            continue
        if entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_uid == os.geteuid():
            clear(entry.path)


def _interpreter() -> tuple[str, ...]:
    """It reads its program from its input, so that nothing of ours has to be visible inside."""
    return (getattr(sys, "_base_executable", "") or sys.executable, "-I", "-S", "-c", LOAD)


def _compiled(*names: str) -> bytes:
    """Modules of this folder, the program last, as Python keeps them beside their text: to compile them takes as long
    as to start Python."""
    import marshal
    from importlib.machinery import SourceFileLoader

    folder = os.path.dirname(__file__)
    full = [f"{__package__}.{name}" for name in names]
    loaders = [SourceFileLoader(name, os.path.join(folder, f"{name.rpartition('.')[2]}.py")) for name in full]
    codes = [loader.get_code(name) for name, loader in zip(full, loaders, strict=True)]
    return marshal.dumps((*zip([*full[:-1], "__main__"], codes, strict=True),))


def _rooted(room: Room) -> list[str]:
    """Where git finds no program: see `inside_rooms.start_nothing`."""
    return [f"root {number}={path}" for number, path in enumerate(room.roots)]


def _given(control: int, **numbers: int) -> list[str]:
    own_users = os.geteuid() != 0 and "ruleset" not in numbers
    given: dict[str, Any] = {"control": control, **limits.of_process(own_users=own_users), **numbers}
    return [f"{name}={value}" for name, value in given.items()]
