"""The program inside a sandbox: it starts a session's commands, waits for them, and ends all that they leave behind.

Its text is the input of `python -I -S -`, and it imports only what is there at once: no `os`, `socket` or `signal`,
which would double the time that it takes to start. In bubblewrap it is process 1: when it ends, all else inside does.

It is given on its control socket, once per command, a payload (a long one as a file in memory), a channel, three
streams and further descriptors. The channel then says `exit CODE ALONE` or `error ERRNO WHERE`, and takes `signal N`
and `end`; it is closed when nothing of the command runs any more.

In bubblewrap there are two views of the workspace, each with a thread that starts commands in it and has no rights
but theirs: git's own, in which no file of the workspace is a program, and that of all others, in which what other
programs run later is read-only. The first thread keeps the right to mount, for `keep`, which adds to that while
commands run (`keep git` to git's view, by a thread that stays there); `hold` stops those others until `go`.
"""

import _thread
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
)

KILL = 9
RESET = (13, 25)
"""SIGPIPE and SIGXFSZ, which Python ignores: what it starts must not."""
MESSAGE_BYTES, IN_A_FILE = 32_768, b"in a file"
"""How long a payload a message holds, and what stands for a longer one: `holder` says the same."""
NOW = 5
"""Milliseconds between looks where the kernel tells nobody that a child has ended."""
GIT, ALL = b"git", b"all"
"""The two views: `holder` says the same."""
ORDERS = (b"keep", b"keep git", b"hold", b"go")
STOP, CONTINUE = 19, 18
PATIENCE = 3
"""Seconds that all others have to stop in: less than `holder` waits for an answer."""
NEW_CWD, NEW_MOUNTS = 0x200, 0x20000
BIND_ALL = 0x1000 | 0x4000
OPEN_TREE, MOVE_MOUNT, SET_MOUNT = 428, 429, 442
AT_ITSELF, AT_ALL = 0x1000, 0x8000
"""AT_EMPTY_PATH, AT_RECURSIVE: what a descriptor is, with all that is mounted in it."""
PLACE = posix.O_PATH | posix.O_NOFOLLOW | posix.O_CLOEXEC
REMOUNT = 0x1000 | 0x20
READ_ONLY, NO_PROGRAMS = 1, 8
"""Attributes of a mount, as mount and mount_setattr both number them."""

libc = ctypes.CDLL(None, use_errno=True)


class Call:
    """One command, from its request until its channel is closed."""

    def __init__(self, channel: socket, mark: bytes, view: bytes) -> None:
        self.channel, self.mark, self.view = channel, mark, view
        self.pid = self.pidfd = -1
        self.running = True


class View:
    """A thread with a view of the files: what it starts sees what it sees, and may what it may."""

    def __init__(self, capabilities: int, rules: bytes) -> None:
        self.capabilities, self.rules = capabilities, rules
        self.asked, self.answered = _thread.allocate_lock(), _thread.allocate_lock()
        self.asked.acquire()
        self.answered.acquire()
        self.job: tuple[list[bytes], list[int]] = ([], [])
        self.result: int | OSError = -1
        _thread.start_new_thread(self.work, ())
        self.answered.acquire()
        if isinstance(self.result, OSError):
            raise self.result

    def work(self) -> None:
        try:
            check(libc.unshare(NEW_CWD), "unshare")
            self.restrict()
        except OSError as error:
            self.result = error
        while True:
            self.answered.release()
            self.asked.acquire()
            try:
                self.result = self.do()
            except OSError as error:
                self.result = error

    def restrict(self) -> None:
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


class Mounter(View):
    """A thread that makes git's view, and stays in it with the right to mount; it starts nothing."""

    git: View
    """The thread that starts commands in it: whoever starts a thread hands on its view."""
    wanted: tuple[list[bytes], list[bytes]] = ([], [])

    def __init__(self, capabilities: int, rules: bytes, roots: list[bytes]) -> None:
        self.roots = roots
        super().__init__(capabilities, rules)

    def restrict(self) -> None:
        check(libc.unshare(NEW_MOUNTS), "unshare")
        start_nothing(self.roots)
        self.git = View(self.capabilities, self.rules)

    def do(self) -> int:
        keep(*self.wanted)
        return 0

    def keep(self, pinned: list[bytes], kept: list[bytes]) -> None:
        self.wanted = pinned, kept
        self.turn()


class Holder:
    def __init__(self, control: socket, views: dict[bytes, View], mounter: Mounter | None) -> None:
        self.control, self.views, self.mounter = control, views, mounter
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
            file = fds.pop(0)
            message = contents(file)
            posix.close(file)
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
        pid, failure = self.spawn(view, request, streams)  # first of all: the rest is done while it runs
        self.begun(self.enrol(channel, request, view), pid, failure)
        for fd in streams:
            posix.close(fd)
        return True

    def enrol(self, channel: int, request: list[bytes], view: bytes) -> Call:
        call = self.calls[channel] = Call(socket(AF_UNIX, SOCK_SEQPACKET, 0, channel), request[-1], view)
        self.poller.register(channel, select.POLLIN)
        return call

    def spawn(self, view: bytes, request: list[bytes], streams: list[int]) -> tuple[int, bytes]:
        """Its number, or what is to be said instead."""
        seen = self.views.get(view)
        try:
            return spawn(request, streams) if seen is None else seen.spawn(request, streams), b""
        except OSError as error:
            return -1, b"error %d %s" % (error.errno, error.filename or b"")

    def begun(self, call: Call, pid: int, failure: bytes) -> None:
        call.pid = pid
        if failure:
            call.running = False
            self.say(call, failure)
        else:
            self.watch(call)

    def obey(self, order: bytes, rest: bytes, channel: socket) -> None:
        """Do it, and only then answer: the answer is empty, or what went wrong."""
        said = b""
        try:
            if order.startswith(b"keep"):
                pinned, kept = (part.split(b"\0") if part else [] for part in rest.split(b"\0\0"))
                if order == b"keep" and self.views:
                    keep(pinned, kept)
                elif self.mounter is not None:
                    self.mounter.keep(pinned, kept)
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
        return [
            pid
            for pid, (_, _, session) in table.items()
            if session not in gits and not descends(pid, gits, parents) and (self.first or descends(pid, mine, parents))
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

    def reap(self) -> None:
        """Take in whoever has ended. Where no child is left at all, nothing is: orphans would be ours."""
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
                self.say(call, b"exit %d %d" % (posix_code(ended[call.pid]), alone))
                self.unwatch(call)
                if alone:
                    self.forget(call)

    def forget(self, call: Call) -> None:
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
        if len(self.calls) > 1:
            self.end_among_others(call)
        else:
            while not self.alone():
                self.kill_everything()
                select.select((), (), (), 0.0005)
        self.forget(call)

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
        for _ in range(20):
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
            if not found:
                return
            select.select((), (), (), 0.0005)


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
    for name in posix.listdir("/proc"):
        if not name.isdigit() or int(name) == posix.getpid():
            continue
        fields = stat(f"/proc/{name}")
        # One whose first thread has ended looks dead, and may have others.
        if fields and (fields[0] not in (b"Z", b"X") or len(tasks(name)) > 1):
            table[int(name)] = (int(fields[1]), int(fields[2]), int(fields[3]))
    return table


def stat(place: str) -> list[bytes]:
    return read(f"{place}/stat").rpartition(b")")[2].split()


def tasks(name: str) -> list[str]:
    try:
        return posix.listdir(f"/proc/{name}/task")
    except OSError:
        return []


def is_still(pid: int) -> bool:
    """Whether each of its threads is stopped or dead."""
    states = (stat(f"/proc/{pid}/task/{task}")[:1] for task in tasks(str(pid)))
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
    found = read(f"/proc/{pid}/environ")
    others = (read(f"/proc/{pid}/task/{task}/environ") for task in tasks(str(pid)))
    return (found or next(filter(None, others), b"")).split(b"\0")


def read(path: str) -> bytes:
    try:
        fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
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


def views(code: int, capabilities: int, roots: list[bytes]) -> tuple[dict[bytes, View], Mounter]:
    """Git's view is made from that of the others, which is ours: only in one of our own may we mount as a user."""
    rules = posix.read(code, 1 << 16)
    posix.close(code)
    check(libc.unshare(NEW_MOUNTS), "unshare")
    mounter = Mounter(capabilities, rules, roots)
    return {GIT: mounter.git, ALL: View(capabilities, rules)}, mounter


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


def keep(pinned: list[bytes], kept: list[bytes]) -> None:
    """Let no command of this view move the pinned, nor change the kept. What has gone needs nothing.

    Each is opened name by name, and what was opened is what is mounted: no link that comes in its way meanwhile counts.
    """
    for path in sorted(kept):
        place = opened(path)
        if place >= 0:
            try:
                if not is_read_only(place):
                    bind(place, path, read_only=True)
            finally:
                posix.close(place)
    mounted = mount_points()
    # The inner ones first, each with all that is mounted in it: whoever stands in such a folder already sees that, too.
    for path in sorted(pinned, reverse=True):
        place = -1 if path in mounted else opened(path)
        if place >= 0:
            try:
                bind(place, path, read_only=False)
            finally:
                posix.close(place)


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
    fd = posix.open("/proc/thread-self/mountinfo", posix.O_RDONLY | posix.O_CLOEXEC)
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
    name = b"/proc/self/fd/%d" % place
    check(libc.mount(name, name, None, ctypes.c_ulong(BIND_ALL), None), path)
    top = opened(path) if read_only else -1
    if top >= 0:
        set_mount(b"/proc/self/fd/%d" % top, READ_ONLY)
        posix.close(top)


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
    seen: dict[bytes, View] = {}
    more = b""
    mounter = None
    if "ruleset" in given:
        more = restrict(*(int(given[name]) for name in ("ruleset", "seccomp", "refused", "install", "supervisor")))
    else:
        roots = [path.encode("utf-8", "surrogateescape") for name, path in given.items() if name.startswith("root ")]
        seen, mounter = views(int(given["seccomp"]), int(given["capabilities"]), roots)
    control.sendmsg([b"ready" + more], listener)
    if server is not None:
        server.close()
    holder = Holder(control, seen, mounter)
    holder.serve()
    while not holder.first and not holder.alone():
        holder.kill_everything()


if __name__ == "__main__":
    main(sys.argv[1:])
