"""The program inside a sandbox: it starts a session's commands, waits for them, and ends all that they leave behind.

Its code, compiled, is the input of `python -I -S`, and it imports only what is there at once: no `os`, `socket` or
`signal`, which would double the time that it takes to start. In bubblewrap it is process 1: when it ends, all else
inside does.

It is given on its control socket, once per command, a payload (a long one as a file in memory), a channel, three
streams and further descriptors. The channel then says `exit CODE ALONE` or `error ERRNO WHERE`, and takes `signal N`
and `end`; it is closed when nothing of the command runs any more.

In bubblewrap a command runs in a view, by a thread that starts it and has no rights but the command's: git's own; that
of all others, in which what other programs run later is read-only; `own`, the same for a server that stays, which sees
no process but its own, nor is seen; and `look`, in which nothing can be written and nobody reached. Each but git, which
is among the others, has its own room: process numbers that begin with a process of ours. The first thread keeps the
right to mount, for `keep`, which adds to what is read-only while commands run (`keep git` to git's view, by a thread
that stays there); `hold` stops those others until `go`.
"""

import _thread
import _warnings
import ctypes
import fcntl
import posix
import resource
import select
import sys
import time
from _socket import (
    AF_INET,
    AF_UNIX,
    MSG_CMSG_CLOEXEC,
    MSG_DONTWAIT,
    SCM_RIGHTS,
    SO_REUSEADDR,
    SOCK_SEQPACKET,
    SOCK_STREAM,
    SOL_SOCKET,
    socket,
    socketpair,
)

KILL = 9
RESET = (13, 25)
"""SIGPIPE and SIGXFSZ, which Python ignores: what it starts must not."""
MESSAGE_BYTES, IN_A_FILE = 32_768, b"in a file"
"""How long a payload a message holds, and what stands for a longer one: `holder` says the same."""
NOW = 5
"""Milliseconds between looks where the kernel tells nobody that a child has ended."""
GIT, ALL, OWN, LOOK = b"git", b"all", b"own", b"look"
"""The views: `holder` says the same."""
ORDERS = (b"keep", b"keep git", b"hold", b"go")
STOP, CONTINUE = 19, 18
DYING = 1.5
"""Seconds that what is killed has to die in: less than `holder` waits for the end of a command."""
PATIENCE = 3
"""Seconds that all others have to stop in: less than `holder` waits for an answer."""
NEW_CWD, NEW_MOUNTS, NEW_NUMBERS = 0x200, 0x20000, 0x20000000
FRESH_BYTES = 1 << 28
NEW_NETWORK, NEW_IPC = 0x40000000, 0x08000000
PLAIN = 2 | 4
"""No setuid, no devices."""
BIND_ALL = 0x1000 | 0x4000
OPEN_TREE, MOVE_MOUNT, SET_MOUNT = 428, 429, 442
AT_ITSELF, AT_ALL = 0x1000, 0x8000
"""AT_EMPTY_PATH, AT_RECURSIVE: what a descriptor is, with all that is mounted in it."""
PLACE = posix.O_PATH | posix.O_NOFOLLOW | posix.O_CLOEXEC
REMOUNT = 0x1000 | 0x20
READ_ONLY, NO_PROGRAMS = 1, 8
"""Attributes of a mount, as mount and mount_setattr both number them."""

libc = ctypes.CDLL(None, use_errno=True)
PROC = posix.open("/proc", posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC) if __name__ == "__main__" else -1
"""In which all processes are seen, those of every room."""


class Call:
    """One command, from its request until its channel is closed."""

    def __init__(self, channel: socket, mark: bytes, view: bytes) -> None:
        self.channel, self.mark, self.view = channel, mark, view
        self.pid = self.pidfd = -1
        self.seen: View | None = None
        self.running = True

    @property
    def room(self) -> "Room | None":
        return self.seen.room if self.seen is not None else None


class Room:
    """Process numbers that begin anew: made by the thread that starts commands in there, in its view of the files."""

    def __init__(self, *, mounts: bool = True) -> None:
        self.control, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)
        check(libc.unshare(NEW_NUMBERS), "unshare")
        self.first = posix.fork()
        if not self.first:
            try:
                be_first(theirs, mounts=mounts)
            finally:
                leave_at_once()
        theirs.close()
        self.heard()
        flags = posix.O_RDONLY | posix.O_CLOEXEC
        self.numbers = posix.open("thread-self/ns/pid_for_children", flags, dir_fd=PROC)
        self.listing = posix.open("/proc", flags | posix.O_DIRECTORY)

    def join(self) -> None:
        """What this thread starts from now on is in there, too."""
        check(libc.setns(self.numbers, NEW_NUMBERS), "setns")

    def tell(self, order: bytes, about: bytes = b"") -> None:
        """Have something done in there, and wait for it."""
        file = posix.memfd_create("", posix.MFD_CLOEXEC)
        try:
            posix.write(file, about)
            self.control.sendmsg([order], [(SOL_SOCKET, SCM_RIGHTS, file.to_bytes(4, sys.byteorder))])
        finally:
            posix.close(file)
        self.heard()

    def heard(self) -> None:
        answer = self.control.recv(4096)
        if answer != b"done":
            raise OSError(5, "the first process of a room does not do as it is told", answer)

    def is_empty(self) -> bool:
        """Whether nobody is in there but the first."""
        return [name for name in posix.listdir(self.listing) if name.isdigit()] == ["1"]

    def close(self) -> None:
        """Whoever is in there ends with the first."""
        signal(self.first, KILL)
        for fd in (self.numbers, self.listing):
            posix.close(fd)
        self.control.close()


def be_first(control: socket, *, mounts: bool) -> None:
    """Take in the orphans of a room, and do what only its first process can, until the other side has gone."""
    posix.closerange(0, control.fileno())
    posix.closerange(control.fileno() + 1, 1 << 16)
    libc.signal(17, ctypes.c_void_p(1))  # SIGCHLD: ignored, so that the dead are gone at once
    fresh, answer = Fresh(), b"done"
    try:
        # Read-only: settings of the kernel ask for the user, not for capabilities.
        check(libc.mount(b"proc", b"/proc", b"proc", ctypes.c_ulong(PLAIN | 8 | 1), None), "mount /proc")
        posix.dup2(posix.open("/proc", posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC), PROC)
        if not mounts:
            drop_capabilities(0)
    except OSError as error:
        answer = b"%d %s" % (error.errno, str(error.filename).encode())
    while True:
        control.send(answer)
        order, ancillary, _, _ = control.recvmsg(64, 64, MSG_CMSG_CLOEXEC)
        if not order:
            return
        file = int.from_bytes(ancillary[0][2][:4], sys.byteorder)
        try:
            answer = b"done"
            if order == b"kill":
                signal(-1, KILL)
            elif order == b"fresh":
                fresh()
            elif order == b"keep":
                posix.lseek(file, 0, 0)
                keep(*listed(contents(file)))
        except OSError as error:
            answer = b"%s %d %s" % (order, error.errno, str(error.filename).encode())
        posix.close(file)


class Fresh:
    """An empty /tmp over the one before it. What else is mounted in there stays where it is."""

    def __init__(self) -> None:
        self.is_over = False

    def __call__(self) -> None:
        if self.is_over:
            check(libc.umount2(b"/tmp", 2), "umount /tmp")
        below = sorted(path for path in mount_points() if path.startswith(b"/tmp/"))
        outer = [path for path in below if not any(path.startswith(above + b"/") for above in below)]
        kept = [(path, posix.open(path, posix.O_PATH | posix.O_CLOEXEC)) for path in outer]
        options = b"mode=1777,size=%d" % FRESH_BYTES
        check(libc.mount(b"tmpfs", b"/tmp", b"tmpfs", ctypes.c_ulong(PLAIN), options), "mount /tmp")
        self.is_over = True
        for path, fd in kept:
            is_folder = posix.fstat(fd).st_mode & 0o170000 == 0o040000
            make_place(path, is_folder=is_folder)
            check(libc.mount(b"/proc/self/fd/%d" % fd, path, None, ctypes.c_ulong(BIND_ALL), None), path)
            posix.close(fd)


def make_place(path: bytes, *, is_folder: bool) -> None:
    """Somewhere to mount what was there before."""
    parts = path.split(b"/")
    for count in range(2, len(parts) + is_folder):
        try:
            posix.mkdir(b"/".join(parts[:count]), 0o755)
        except FileExistsError:
            pass
    if not is_folder:
        posix.close(posix.open(path, posix.O_WRONLY | posix.O_CREAT | posix.O_CLOEXEC, 0o600))


class View:
    """A thread with a view of the files: what it starts sees what it sees, and may what it may."""

    room: Room

    def __init__(self, capabilities: int, rules: bytes) -> None:
        self.capabilities, self.rules = capabilities, rules
        self.asked, self.answered = _thread.allocate_lock(), _thread.allocate_lock()
        self.asked.acquire()
        self.answered.acquire()
        self.job: tuple[list[bytes], list[int]] = ([], [])
        self.is_over = False
        self.result: int | OSError = -1
        _thread.start_new_thread(self.work, ())
        self.answered.acquire()
        if isinstance(self.result, OSError):
            raise self.result

    def enter(self) -> Room:
        """The view of all others is that of our first thread, too."""
        return Room(mounts=False)

    def work(self) -> None:
        try:
            check(libc.unshare(NEW_CWD), "unshare")
            self.restrict()
        except OSError as error:
            self.result = error
            self.answered.release()
            return
        while True:
            self.answered.release()
            self.asked.acquire()
            if self.is_over:
                return
            try:
                self.result = self.do()
            except OSError as error:
                self.result = error

    def restrict(self) -> None:
        self.room = self.enter()
        drop_capabilities(self.capabilities)
        filter_calls(self.rules)

    def do(self) -> int:
        return spawn(*self.job)

    def spawn(self, request: list[bytes], fds: list[int]) -> int:
        self.job = request, fds
        return self.turn()

    def turn(self) -> int:
        self.asked.release()
        self.answered.acquire()
        if isinstance(self.result, OSError):
            raise self.result
        return self.result

    def close(self) -> None:
        """End the thread, and whoever is in its room."""
        self.is_over = True
        self.asked.release()
        self.room.close()


class GitView(View):
    """Git's own, beside all others."""

    def __init__(self, capabilities: int, rules: bytes, others: Room) -> None:
        self.others = others
        super().__init__(capabilities, rules)

    def enter(self) -> Room:
        self.others.join()
        return self.others


class OwnView(View):
    """For one server, which is alone in its room."""

    def enter(self) -> Room:
        check(libc.unshare(NEW_MOUNTS), "unshare")
        return Room()


class LookView(View):
    """In which nothing that is mounted can be written but an empty /tmp, and nobody is on the network."""

    def enter(self) -> Room:
        check(libc.unshare(NEW_MOUNTS | NEW_NETWORK | NEW_IPC), "unshare")
        set_mount(b"/", READ_ONLY)
        for path in mount_points():
            try:
                if not posix.statvfs(path).f_flag & READ_ONLY:
                    set_mount(path, READ_ONLY, whole=False)
            except OSError as error:
                if error.errno not in (2, 22):  # another mount lies over it: nobody comes there by its name
                    raise
        room = Room()
        room.tell(b"fresh")
        return room


class Mounter(View):
    """A thread that makes git's view, and stays in it with the right to mount; it starts nothing."""

    git: View
    """The thread that starts commands in it: whoever starts a thread hands on its view."""
    wanted: tuple[list[bytes], list[bytes]] = ([], [])

    def __init__(self, capabilities: int, rules: bytes, others: Room, roots: list[bytes]) -> None:
        self.others, self.roots = others, roots
        super().__init__(capabilities, rules)

    def restrict(self) -> None:
        check(libc.unshare(NEW_MOUNTS), "unshare")
        start_nothing(self.roots)
        self.git = GitView(self.capabilities, self.rules, self.others)

    def do(self) -> int:
        keep(*self.wanted)
        return 0

    def keep(self, pinned: list[bytes], kept: list[bytes]) -> None:
        self.wanted = pinned, kept
        self.turn()


class Holder:
    def __init__(self, control: socket, views: "Views | None") -> None:
        self.control, self.views = control, views
        self.first = posix.getpid() == 1
        self.is_held = False
        self.waiting: list[tuple[Call, list[bytes], list[int]]] = []
        """Commands that were asked for while all but git is held."""
        self.calls: dict[int, Call] = {}
        self.poller = select.poll()
        self.poller.register(control, select.POLLIN)

    def serve(self) -> None:
        while True:
            for fd, _ in self.poller.poll(self.patience()):
                if fd == self.control.fileno():
                    if not self.take():
                        return
                elif fd in self.calls:
                    self.listen(self.calls[fd])
            self.reap()

    def patience(self) -> int | None:
        """Orphans are ours, and their end wakes nobody: while something runs, they are looked for now and then."""
        if not self.calls:
            return None
        return NOW if any(call.running and call.pidfd < 0 for call in self.calls.values()) else 1000

    def take(self) -> bool:
        message, ancillary, _, _ = self.control.recvmsg(MESSAGE_BYTES, 4096, MSG_CMSG_CLOEXEC)
        if not message:
            return False
        fds = [
            int.from_bytes(data[at : at + 4], sys.byteorder) for *_, data in ancillary for at in range(0, len(data), 4)
        ]
        if message == IN_A_FILE:
            message = read_whole(fds.pop(0))
        channel, *streams = fds
        head, _, rest = message.partition(b"\0")
        if head in ORDERS:
            self.obey(head, rest, socket(AF_UNIX, SOCK_SEQPACKET, 0, channel))
            return True
        view, _, head = head.partition(b" ")
        request = [head, *rest.split(b"\0")]
        if self.is_held and view != GIT:
            self.waiting.append((self.enrol(channel, request, view), request, streams))
            return True
        begun = self.spawn(view, request, streams)  # first of all: the rest is done while it runs
        self.begun(self.enrol(channel, request, view), *begun)
        for fd in streams:
            posix.close(fd)
        return True

    def enrol(self, channel: int, request: list[bytes], view: bytes) -> Call:
        call = self.calls[channel] = Call(socket(AF_UNIX, SOCK_SEQPACKET, 0, channel), request[-1], view)
        self.poller.register(channel, select.POLLIN)
        return call

    def spawn(self, view: bytes, request: list[bytes], streams: list[int]) -> "tuple[View | None, int, bytes]":
        """Where it was started and its number, or what is to be said instead."""
        seen = None
        try:
            if self.views is None:
                return None, spawn(request, streams), b""
            seen = self.views.of(view, is_first=not any(call.view == view for call in self.calls.values()))
            return seen, seen.spawn(request, streams), b""
        except OSError as error:
            if view == OWN and seen is not None:
                self.leave(seen)
            return None, -1, b"error %d %s" % (error.errno, error.filename or b"")

    def begun(self, call: Call, seen: View | None, pid: int, failure: bytes) -> None:
        call.pid, call.seen = pid, seen
        if failure:
            call.running = False
            self.say(call, failure)
        else:
            self.watch(call)

    def obey(self, order: bytes, rest: bytes, channel: socket) -> None:
        """Do it, and only then answer: the answer is empty, or what went wrong."""
        said = b""
        try:
            if order == b"keep" and self.views is not None:
                keep(*listed(rest))
                for seen in self.views.own:
                    seen.room.tell(b"keep", rest)
            elif order == b"keep git" and self.views is not None:
                self.views.mounter.keep(*listed(rest))
            elif order == b"hold":
                self.hold()
            elif order == b"go":
                self.go()
        except OSError as error:
            said = b"%d %s" % (error.errno, str(error.filename or error.strerror).encode())
        channel.send(b"done " + said)
        channel.close()

    def hold(self) -> None:
        """Stop everything but git's own commands; nothing that is stopped starts anything or wakes anybody."""
        self.is_held = True
        end, rounds = time.monotonic() + PATIENCE, 0
        while time.monotonic() < end:
            moving = [pid for pid in self.others() if not is_still(pid)]
            if not moving:
                return
            rounds += 1
            if rounds % 10:
                for pid in moving:
                    signal(pid, STOP)
            else:
                let_start({*moving})
            select.select((), (), (), 0.001 if rounds % 10 else 0.005)
        self.go()
        raise OSError(16, "what runs in the sandbox does not stop")

    def go(self) -> None:
        self.is_held = False
        for pid in self.others():
            signal(pid, CONTINUE)
        waiting, self.waiting = self.waiting, []
        for call, request, streams in waiting:
            if call.running:
                self.begun(call, *self.spawn(call.view, request, streams))
            for fd in streams:
                posix.close(fd)

    def others(self) -> list[int]:
        """All that runs and is not a command of git's, nor started by one."""
        table = processes()
        parents = {pid: parent for pid, (parent, _, _) in table.items()}
        gits = {call.pid for call in self.calls.values() if call.view == GIT and call.running}
        mine = {posix.getpid()}
        firsts = {room.first for room in self.rooms()}
        return [
            pid
            for pid, (_, _, session) in table.items()
            if pid not in firsts
            and session not in gits
            and not descends(pid, gits, parents)
            and (self.first or descends(pid, mine, parents))
        ]

    def watch(self, call: Call) -> None:
        try:
            call.pidfd = posix.pidfd_open(call.pid)
            self.poller.register(call.pidfd, select.POLLIN)
        except (AttributeError, OSError):
            pass

    def say(self, call: Call, text: bytes) -> None:
        try:
            call.channel.send(text, MSG_DONTWAIT)
        except OSError:
            pass

    def listen(self, call: Call) -> None:
        try:
            word, _, number = call.channel.recv(64, MSG_DONTWAIT).partition(b" ")
        except BlockingIOError:
            return
        except OSError:
            word, number = b"", b""
        if word == b"signal":
            signal(-call.pid, int(number)) if call.pid > 0 else None
        else:
            self.end(call)

    def rooms(self) -> list[Room]:
        return [] if self.views is None else [seen.room for seen in self.views.every()]

    def reap(self) -> None:
        """Take in whoever has ended. Where nobody else is left in its room, nothing of a command is."""
        ended: dict[int, int] = {}
        alone = False
        while not alone:
            try:
                pid, status = posix.waitpid(-1, posix.WNOHANG)
            except ChildProcessError:
                alone = True
                break
            if pid == 0:
                break
            ended[pid] = status
        for call in tuple(self.calls.values()):
            if call.running and call.pid in ended:
                call.running = False
                is_over = call.room.is_empty() if call.room is not None else alone
                self.say(call, b"exit %d %d" % (posix_code(ended[call.pid]), is_over))
                self.unwatch(call)
                if is_over:
                    self.forget(call)
        if self.views is not None and ended.keys() & self.views.needed():
            leave_at_once()  # without the first of a room, nothing can be started in there any more

    def forget(self, call: Call) -> None:
        if call.view == OWN and call.seen is not None:
            self.leave(call.seen)
        fd = call.channel.fileno()
        del self.calls[fd]
        self.poller.unregister(fd)
        self.unwatch(call)
        call.channel.close()

    def unwatch(self, call: Call) -> None:
        if call.pidfd >= 0:
            self.poller.unregister(call.pidfd)
            posix.close(call.pidfd)
            call.pidfd = -1

    def end(self, call: Call) -> None:
        """Kill all that a call has started; then close its channel, which says that it is done."""
        call.running = False
        room = call.room
        if call.pid < 0:
            pass  # it was never started
        elif any(other is not call and other.room is room for other in self.calls.values()):
            self.end_among_others(call)
        elif room is not None:
            while call.view != OWN and not room.is_empty():
                room.tell(b"kill")
                self.reap()
                select.select((), (), (), 0.0005)
        else:
            while not self.alone():
                self.kill_everything()
                select.select((), (), (), 0.0005)
        self.forget(call)

    def leave(self, seen: View) -> None:
        """A room of its own ends as a whole. Its first process can end only when all others were taken in."""
        assert self.views is not None
        self.views.own.remove(seen)
        seen.close()
        while stat(str(seen.room.first)):
            self.reap()
            select.select((), (), (), 0.0005)

    def alone(self) -> bool:
        try:
            while posix.waitpid(-1, posix.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True
        return False

    def kill_everything(self) -> None:
        if self.first:
            signal(-1, KILL)  # process 1 itself is spared
            return
        mine = {posix.getpid()}
        parents = {pid: parent for pid, (parent, _, _) in processes().items()}
        for pid in parents:
            if descends(pid, mine, parents):
                signal(pid, KILL)

    def end_among_others(self, call: Call) -> None:
        """While other commands run, what is this one's is told by its session, its ancestors and its mark."""
        until, dying = time.monotonic() + DYING, set[int]()
        while time.monotonic() < until:
            table = processes()
            parents = {pid: parent for pid, (parent, _, _) in table.items()}
            found = [
                pid
                for pid, (_, group, session) in table.items()
                if call.pid in (group, session) or descends(pid, {call.pid}, parents) or call.mark in environ(pid)
            ]
            for pid in found:
                signal(pid, KILL)
            self.reap()
            dying = {pid for pid in dying.union(found) if stat(str(pid))}
            if not dying:
                return
            select.select((), (), (), 0.0005)


def read_whole(fd: int) -> bytes:
    found = contents(fd)
    posix.close(fd)
    return found


def leave_at_once() -> None:
    libc._exit(1)


def contents(fd: int) -> bytes:
    parts: list[bytes] = []
    while part := posix.read(fd, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def spawn(request: list[bytes], fds: list[int]) -> int:
    """The request is the payload: counts and targets, directory, arguments, environment, of which the mark is last."""
    count, *targets = map(int, request[0].split())
    argv, env = request[2 : 2 + count], dict(pair.split(b"=", 1) for pair in request[2 + count :])
    numbers = [0, 1, 2, *targets]
    # Far from every number that is to be used, so that no descriptor is overwritten before it is copied.
    most, above = max(numbers), list[int]()
    if min(fds) <= most:
        fds = above = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, most + 1) for fd in fds]
    actions = [(posix.POSIX_SPAWN_DUP2, fd, number) for fd, number in zip(fds, numbers, strict=True)]
    try:
        posix.chdir(request[1])
        return posix.posix_spawn(argv[0], argv, env, file_actions=actions, setsid=True, setsigmask=(), setsigdef=RESET)
    finally:
        posix.chdir("/")
        for fd in above:
            posix.close(fd)


def posix_code(status: int) -> int:
    return -posix.WTERMSIG(status) if posix.WIFSIGNALED(status) else posix.WEXITSTATUS(status)


def signal(pid: int, number: int) -> None:
    try:
        posix.kill(pid, number)
    except OSError:
        pass


def let_start(parents: set[int]) -> None:
    """Who starts a program waits, and cannot stop, until its child has become that: a child stopped before goes on."""
    for pid, (parent, _, _) in processes().items():
        if parent in parents:
            signal(pid, CONTINUE)


def processes() -> dict[int, tuple[int, int, int]]:
    """Number → parent, process group, session."""
    table: dict[int, tuple[int, int, int]] = {}
    for name in posix.listdir(PROC):
        if not name.isdigit() or int(name) == posix.getpid():
            continue
        fields = stat(name)
        # One whose first thread has ended looks dead, and may have others.
        if fields and (fields[0] not in (b"Z", b"X") or len(tasks(name)) > 1):
            table[int(name)] = (int(fields[1]), int(fields[2]), int(fields[3]))
    return table


def stat(place: str) -> list[bytes]:
    return read(f"{place}/stat").rpartition(b")")[2].split()


def tasks(name: str) -> list[str]:
    try:
        fd = posix.open(f"{name}/task", posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC, dir_fd=PROC)
    except OSError:
        return []
    try:
        return posix.listdir(fd)
    except OSError:
        return []
    finally:
        posix.close(fd)


def is_still(pid: int) -> bool:
    """Whether each of its threads is stopped or dead."""
    states = (stat(f"{pid}/task/{task}")[:1] for task in tasks(str(pid)))
    return all(state in ([], [b"T"], [b"t"], [b"Z"], [b"X"]) for state in states)


def descends(pid: int, ancestors: set[int], parents: dict[int, int]) -> bool:
    for _ in range(len(parents) + 1):
        if pid in ancestors:
            return True
        if pid not in parents:
            return False
        pid = parents[pid]
    return False


def environ(pid: int) -> list[bytes]:
    found = read(f"{pid}/environ")
    others = (read(f"{pid}/task/{task}/environ") for task in tasks(str(pid)))
    return (found or next(filter(None, others), b"")).split(b"\0")


def read(path: str) -> bytes:
    try:
        fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC, dir_fd=PROC)
    except OSError:
        return b""
    try:
        return posix.read(fd, 1 << 20)
    except OSError:
        return b""
    finally:
        posix.close(fd)


# ------------------------------------------------------------------ before the first command


def limit(name: str, value: int) -> None:
    number = getattr(resource, name)
    hard = resource.getrlimit(number)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(number, (value, value))


def control_process(*arguments: int) -> None:
    if libc.prctl(*(ctypes.c_ulong(argument) for argument in (*arguments, *(0,) * (5 - len(arguments))))):
        raise OSError(ctypes.get_errno(), f"prctl {arguments[0]}")


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def drop_capabilities(kept: int = 0b1011) -> None:
    """All but what lets root work in a workspace that belongs to somebody else: CHOWN, DAC_OVERRIDE, FOWNER."""
    for number in range(64):
        if not kept >> number & 1:
            libc.prctl(24, ctypes.c_ulong(number), 0, 0, 0)  # PR_CAPBSET_DROP: refused to whoever has none
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    if libc.capget(header, sets) == 0:
        left = [sets[0] & kept, sets[1] & kept, 0, 0, 0, 0]
        check(libc.capset(header, (ctypes.c_uint32 * 6)(*left)), "capset")


def check(answer: int, what: str | bytes) -> None:
    if answer < 0:
        raise OSError(ctypes.get_errno(), "it failed", what)


def filter_calls(rules: bytes) -> None:
    """For this thread, and what it starts."""
    program = Program(len(rules) // 8, rules)
    control_process(22, 2, ctypes.addressof(program))  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER


def restrict(ruleset: int, code: int, refused: int, install: int, supervisor: int) -> bytes:
    """Landlock and seccomp, where no bubblewrap has done the like before us; what the answer says beside "ready"."""
    control_process(36, 1)  # PR_SET_CHILD_SUBREAPER
    drop_capabilities()
    control_process(38, 1)  # PR_SET_NO_NEW_PRIVS
    if libc.syscall(ctypes.c_long(446), ctypes.c_int(ruleset), ctypes.c_uint(0)):  # landlock_restrict_self
        raise OSError(ctypes.get_errno(), "landlock_restrict_self")
    listener = supervised_calls(install, posix.read(code, 1 << 16))
    if listener < 0:
        filter_calls(posix.read(refused, 1 << 16))
    else:
        door = socket(fileno=supervisor)
        door.sendmsg([b"calls"], [(SOL_SOCKET, SCM_RIGHTS, listener.to_bytes(4, sys.byteorder))])
        door.detach()
    for fd in (ruleset, code, refused, supervisor, listener):
        posix.close(fd) if fd >= 0 else None
    return b"" if listener >= 0 else b" refusing"


def supervised_calls(install: int, rules: bytes) -> int:
    """Filter calls, those apart that a supervisor is asked about: the descriptor to ask on; -1 if there is none."""
    program = Program(len(rules) // 8, rules)
    for flags in (8 | 32, 8):  # SECCOMP_FILTER_FLAG_NEW_LISTENER, WAIT_KILLABLE_RECV
        arguments = (ctypes.c_uint(1), ctypes.c_uint(flags), ctypes.byref(program))  # SECCOMP_SET_MODE_FILTER
        if (listener := libc.syscall(ctypes.c_long(install), *arguments)) >= 0:
            return listener
    return -1


class Views:
    """Those that are there from the beginning, those of single servers, and that of whoever only looks."""

    def __init__(self, capabilities: int, rules: bytes, looking: bytes, roots: list[bytes]) -> None:
        self.capabilities, self.rules, self.looking = capabilities, rules, looking
        # Only in a namespace of our own may we mount as a user. It is that of all others but git.
        check(libc.unshare(NEW_MOUNTS), "unshare")
        self.all = View(capabilities, rules)
        self.mounter = Mounter(capabilities, rules, self.all.room, roots)
        self.look: View | None = None
        self.own: list[View] = []

    def of(self, view: bytes, *, is_first: bool) -> View:
        """The one that is asked for; whoever looks first, when nobody else does, finds an empty /tmp."""
        if view == OWN:
            self.own.append(OwnView(self.capabilities, self.rules))
            return self.own[-1]
        if view == LOOK:
            if self.look is None:
                self.look = LookView(self.capabilities, self.looking)
            elif is_first:
                self.look.room.tell(b"fresh")
            return self.look
        return self.mounter.git if view == GIT else self.all

    def every(self) -> list[View]:
        return [self.all, *self.own, *([self.look] if self.look is not None else [])]

    def needed(self) -> set[int]:
        """The first processes of the rooms that stay."""
        return {self.all.room.first, *([self.look.room.first] if self.look is not None else [])}


def start_nothing(roots: list[bytes]) -> None:
    """In git's view no file of the workspace is a program, nor one that could be written: no hook starts there.

    A setting would not do: `git bisect` and others run hooks without having read `core.hooksPath`.
    """
    for root in roots:
        set_mount(root, NO_PROGRAMS)
    for path in mount_points():
        beneath = any(path.startswith(root.rstrip(b"/") + b"/") for root in roots)
        try:
            if beneath or not posix.statvfs(path).f_flag & READ_ONLY:
                set_mount(path, NO_PROGRAMS, whole=False)
        except OSError as error:
            if error.errno not in (2, 22):  # another mount lies over it: nobody comes there by its name
                raise


class Attributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "namespace")]


def listed(text: bytes) -> list[list[bytes]]:
    return [part.split(b"\0") if part else [] for part in text.split(b"\0\0")]


def keep(pinned: list[bytes], kept: list[bytes]) -> None:
    """Let no command of this view move the pinned, nor change the kept. What has gone needs nothing.

    Each is opened name by name, and what was opened is what is mounted: no link that comes in its way meanwhile counts.
    """
    found = [path for path in sorted(kept) if bound(path, read_only=True)]
    if kept and not found:  # a folder above the workspace was moved: nothing would be kept, and nobody would know
        raise OSError(2, "nothing of this is there", kept[0])
    mounted = mount_points()
    # The inner ones first, each with all that is mounted in it: whoever stands in such a folder already sees that, too.
    for path in sorted({*pinned} - mounted, reverse=True):
        bound(path, read_only=False)


def bound(path: bytes, *, read_only: bool) -> bool:
    """Whether a place is there, which then is a mount; what is removed in this moment is not."""
    place = opened(path)
    if place < 0:
        return False
    try:
        if not (read_only and is_read_only(place)):
            bind(place, path, read_only=read_only)
    except OSError as error:
        if error.errno != 2:
            raise
        return False
    finally:
        posix.close(place)
    return True


def opened(path: bytes) -> int:
    """What lies at a path that has no link in it; -1 where nothing does. A link cannot be gone through by `PLACE`."""
    place = posix.open(b"/", PLACE)
    for name in filter(None, path.split(b"/")):
        try:
            inner = posix.open(name, PLACE, dir_fd=place)
        except OSError as error:
            if error.errno in (2, 20, 40):  # gone meanwhile, or a link by now
                return -1
            raise
        finally:
            posix.close(place)
        place = inner
    if posix.fstat(place).st_mode & 0o170000 != 0o120000:
        return place
    posix.close(place)
    return -1


def mount_points() -> set[bytes]:
    """Those of this thread: another may see others."""
    fd = posix.open("thread-self/mountinfo", posix.O_RDONLY | posix.O_CLOEXEC, dir_fd=PROC)
    found = {line.split(b" ", 5)[4] for line in contents(fd).splitlines()}
    posix.close(fd)
    for code, character in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
        found = {path.replace(code, character) for path in found}
    return found


def is_read_only(place: int) -> bool:
    return bool(posix.fstatvfs(place).f_flag & READ_ONLY)


def bind(place: int, path: bytes, *, read_only: bool) -> None:
    """Mount what a descriptor is onto itself; it is read-only before it is to be seen."""
    tree = libc.syscall(ctypes.c_long(OPEN_TREE), place, b"", AT_ITSELF | AT_ALL | 1 | posix.O_CLOEXEC)
    if tree < 0:
        bind_by_name(place, path, read_only=read_only)
        return
    try:
        wanted = Attributes(READ_ONLY, 0, 0, 0)
        if read_only:
            size = ctypes.c_size_t(32)
            check(
                libc.syscall(ctypes.c_long(SET_MOUNT), tree, b"", AT_ITSELF | AT_ALL, ctypes.byref(wanted), size), path
            )
        check(libc.syscall(ctypes.c_long(MOVE_MOUNT), tree, b"", place, b"", 0x04 | 0x40), path)
    finally:
        posix.close(tree)


def bind_by_name(place: int, path: bytes, *, read_only: bool) -> None:
    """The same on a kernel before 5.12."""
    posix.fchdir(PROC)  # /proc is that of a room, in which we are nobody
    try:
        name = b"thread-self/fd/%d" % place
        check(libc.mount(name, name, None, ctypes.c_ulong(BIND_ALL), None), path)
        top = opened(path) if read_only else -1
        if top >= 0:
            set_mount(b"thread-self/fd/%d" % top, READ_ONLY)
            posix.close(top)
    finally:
        posix.chdir("/")


def set_mount(path: bytes, attribute: int, *, whole: bool = True) -> None:
    """Give a mount an attribute, as a rule with all that is mounted in it."""
    wanted, recursive = Attributes(attribute, 0, 0, 0), 0x8000 if whole else 0
    if libc.syscall(ctypes.c_long(442), -100, path, recursive, ctypes.byref(wanted), ctypes.c_size_t(32)) == 0:
        return  # mount_setattr
    flags = posix.statvfs(path).f_flag
    same = flags & (1 | 2 | 4 | 8 | 1024 | 2048) | (1 << 21 if flags & 4096 else 0)
    check(libc.mount(None, path, None, ctypes.c_ulong(REMOUNT | same | attribute), None), path)


def main(arguments: list[str]) -> None:
    given = dict(argument.split("=", 1) for argument in arguments)
    _warnings.filters.insert(0, ("ignore", None, DeprecationWarning, None, 0))  # of forks by threads: each closes all
    libc.signal(2, None)  # Python's own handler would end us with KeyboardInterrupt
    control_process(4, 0)  # PR_SET_DUMPABLE: no command reads or writes our memory
    control = socket(fileno=int(given["control"]))
    posix.set_inheritable(control.fileno(), False)
    for name, value in given.items():
        if name.startswith("RLIMIT_"):
            limit(name, int(value))
    listener: list[tuple[int, int, bytes]] = []
    server = None
    if "port" in given:
        server = socket(AF_INET, SOCK_STREAM)
        server.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", int(given["port"])))
        server.listen(128)
        listener = [(SOL_SOCKET, SCM_RIGHTS, server.fileno().to_bytes(4, sys.byteorder))]
    views, more = None, b""
    if "ruleset" in given:
        more = restrict(*(int(given[name]) for name in ("ruleset", "seccomp", "refused", "install", "supervisor")))
    else:
        roots = [path.encode("utf-8", "surrogateescape") for name, path in given.items() if name.startswith("root ")]
        rules, looking = (read_whole(int(given[name])) for name in ("seccomp", "looking"))
        views = Views(int(given["capabilities"]), rules, looking, roots)
    control.sendmsg([b"ready" + more], listener)
    if server is not None:
        server.close()
    holder = Holder(control, views)
    holder.serve()
    while not holder.first and not holder.alone():
        holder.kill_everything()


if __name__ == "__main__":
    main(sys.argv[1:])
