"""The program inside a sandbox: views of the files, and rooms with process numbers of their own."""

import _thread
import ctypes
import posix
import sys
from _socket import AF_UNIX, MSG_CMSG_CLOEXEC, SCM_RIGHTS, SOCK_SEQPACKET, SOL_SOCKET, socket, socketpair

from adderclaw.sandbox.inside_mounts import (
    BIND_ALL,
    NO_PROGRAMS,
    PROC,
    READ_ONLY,
    check,
    contents,
    keep,
    libc,
    listed,
    mount_points,
    set_mount,
)
from adderclaw.sandbox.inside_processes import leave_at_once, signal, spawn
from adderclaw.sandbox.inside_rights import drop_capabilities, filter_calls

KILL = 9
GIT, ALL, OWN, LOOK, OFFLINE = b"git", b"all", b"own", b"look", b"offline"
"""The views: `holder` says the same."""
ALONE = OWN, OFFLINE
"""Those in which a command has a room to itself, which ends with it."""
NEW_CWD, NEW_MOUNTS, NEW_NUMBERS = 0x200, 0x20000, 0x20000000
FRESH_BYTES = 1 << 28
NEW_NETWORK, NEW_IPC = 0x40000000, 0x08000000
PLAIN = 2 | 4
"""No setuid, no devices."""


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
        inner_mounts = [(path, posix.open(path, posix.O_PATH | posix.O_CLOEXEC)) for path in outer]
        options = b"mode=1777,size=%d" % FRESH_BYTES
        check(libc.mount(b"tmpfs", b"/tmp", b"tmpfs", ctypes.c_ulong(PLAIN), options), "mount /tmp")
        self.is_over = True
        for path, fd in inner_mounts:
            is_folder = posix.fstat(fd).st_mode & 0o170000 == 0o040000
            make_place(path, is_folder=is_folder)
            check(libc.mount(b"/proc/self/fd/%d" % fd, path, None, ctypes.c_ulong(BIND_ALL), None), path)
            posix.close(fd)


def folders_below(top: bytes) -> list[bytes]:
    """Those that only lead to what is mounted in there."""
    below = [path for path in mount_points() if path.startswith(top + b"/")]
    parents = {b"/".join(path.split(b"/")[:count]) for path in below for count in range(3, len(path.split(b"/")))}
    return sorted(
        path for path in parents if not any(path == mount or path.startswith(mount + b"/") for mount in below)
    )


def scratch_looks(folders: list[bytes]) -> object:
    """What changes with whatever is made, removed, renamed or given other attributes in there: how many files and
    bytes the first of the folders holds with all that lies in it, and how each of them looks."""
    try:
        space = posix.statvfs(folders[0])
        return space.f_bfree, space.f_ffree, [(folder_looks(folder), posix.listdir(folder)) for folder in folders]
    except OSError:
        return object()  # like nothing else


def folder_looks(path: bytes) -> tuple[int, ...]:
    status = posix.stat(path)
    return status.st_mode, status.st_uid, status.st_gid, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


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


class OfflineView(View):
    """For one command, which is alone in its room and reaches nobody, not even by a socket that is a file."""

    def enter(self) -> Room:
        check(libc.unshare(NEW_MOUNTS | NEW_NETWORK | NEW_IPC), "unshare")
        return Room()


class LookView(View):
    """In which nothing that is mounted can be written but an empty /tmp, and nobody is on the network.

    Few programs that only look leave anything in there: it is made anew for the next only where it was touched.
    """

    is_first = True
    """Whether nobody else is in the room."""

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
        self.places = [b"/tmp", *folders_below(b"/tmp")]
        self.as_made = scratch_looks(self.places)
        return room

    def do(self) -> int:
        if self.is_first and scratch_looks(self.places) != self.as_made:
            self.room.tell(b"fresh")
            self.as_made = scratch_looks(self.places)
        return super().do()


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

    def keep(self, pinned: list[bytes], read_only: list[bytes]) -> None:
        self.wanted = pinned, read_only
        self.turn()


class Views:
    """Those that are there from the beginning, those of who is alone, and that of whoever only looks."""

    def __init__(self, capabilities: int, rules: bytes, looking: bytes, roots: list[bytes]) -> None:
        self.capabilities, self.rules, self.looking = capabilities, rules, looking
        # Only in a namespace of our own may we mount as a user. It is that of all others but git.
        check(libc.unshare(NEW_MOUNTS), "unshare")
        self.all = View(capabilities, rules)
        self.mounter = Mounter(capabilities, rules, self.all.room, roots)
        self.look: LookView | None = None
        self.own: list[View] = []

    def of(self, view: bytes, *, is_first: bool) -> View:
        """The one that is asked for; whoever looks first, when nobody else does, finds an empty /tmp."""
        if view in ALONE:
            view_class = OwnView if view == OWN else OfflineView
            self.own.append(view_class(self.capabilities, self.rules if view == OWN else self.looking))
            return self.own[-1]
        if view == LOOK:
            if self.look is None:
                self.look = LookView(self.capabilities, self.looking)
            self.look.is_first = is_first
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
