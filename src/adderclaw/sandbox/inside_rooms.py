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
    check_result,
    contents,
    libc,
    mount_points,
    protect,
    set_mount,
    split_lists,
)
from adderclaw.sandbox.inside_processes import leave_at_once, signal, spawn
from adderclaw.sandbox.inside_rights import drop_capabilities, filter_calls

KILL = 9
GIT_VIEW, ALL_VIEW, SERVER_VIEW, READ_ONLY_VIEW, OFFLINE_VIEW = b"git", b"all", b"server", b"read_only", b"offline"
"""The views: `holder` says the same."""
PRIVATE_VIEWS = SERVER_VIEW, OFFLINE_VIEW
"""Those in which a command has a room to itself, which ends with it."""
NEW_CWD, NEW_MOUNTS, NEW_NUMBERS = 0x200, 0x20000, 0x20000000
FRESH_BYTES = 1 << 28
NEW_NETWORK, NEW_IPC = 0x40000000, 0x08000000
PLAIN = 2 | 4
"""No setuid, no devices."""


class ProcessNamespace:
    """Process numbers that begin anew: made by the thread that starts commands in there, in its view of the files."""

    def __init__(self, *, mounts: bool = True) -> None:
        self.control, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)
        check_result(libc.unshare(NEW_NUMBERS), "unshare")
        self.first = posix.fork()
        if not self.first:
            try:
                run_first_process(theirs, mounts=mounts)
            finally:
                leave_at_once()
        theirs.close()
        self._expect_done()
        flags = posix.O_RDONLY | posix.O_CLOEXEC
        self.numbers = posix.open("thread-self/ns/pid_for_children", flags, dir_fd=PROC)
        self.listing = posix.open("/proc", flags | posix.O_DIRECTORY)

    def join(self) -> None:
        """What this thread starts from now on is in there, too."""
        check_result(libc.setns(self.numbers, NEW_NUMBERS), "setns")

    def send_order(self, order: bytes, about: bytes = b"") -> None:
        """Have something done in there, and wait for it."""
        file = posix.memfd_create("", posix.MFD_CLOEXEC)
        try:
            posix.write(file, about)
            self.control.sendmsg([order], [(SOL_SOCKET, SCM_RIGHTS, file.to_bytes(4, sys.byteorder))])
        finally:
            posix.close(file)
        self._expect_done()

    def _expect_done(self) -> None:
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


def run_first_process(control: socket, *, mounts: bool) -> None:
    """Take in the orphans of a room, and do what only its first process can, until the other side has gone."""
    posix.closerange(0, control.fileno())
    posix.closerange(control.fileno() + 1, 1 << 16)
    libc.signal(17, ctypes.c_void_p(1))  # SIGCHLD: ignored, so that the dead are gone at once
    fresh, answer = FreshTmp(), b"done"
    try:
        # Read-only: settings of the kernel ask for the user, not for capabilities.
        check_result(libc.mount(b"proc", b"/proc", b"proc", ctypes.c_ulong(PLAIN | 8 | 1), None), "mount /proc")
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
            elif order == b"protect":
                posix.lseek(file, 0, 0)
                protect(*split_lists(contents(file)))
        except OSError as error:
            answer = b"%s %d %s" % (order, error.errno, str(error.filename).encode())
        posix.close(file)


class FreshTmp:
    """An empty /tmp over the one before it. What else is mounted in there stays where it is."""

    def __init__(self) -> None:
        self.is_over = False

    def __call__(self) -> None:
        if self.is_over:
            check_result(libc.umount2(b"/tmp", 2), "umount /tmp")
        below = sorted(path for path in mount_points() if path.startswith(b"/tmp/"))
        outer = [path for path in below if not any(path.startswith(above + b"/") for above in below)]
        inner_mounts = [(path, posix.open(path, posix.O_PATH | posix.O_CLOEXEC)) for path in outer]
        options = b"mode=1777,size=%d" % FRESH_BYTES
        check_result(libc.mount(b"tmpfs", b"/tmp", b"tmpfs", ctypes.c_ulong(PLAIN), options), "mount /tmp")
        self.is_over = True
        for path, fd in inner_mounts:
            is_folder = posix.fstat(fd).st_mode & 0o170000 == 0o040000
            make_mount_point(path, is_folder=is_folder)
            check_result(libc.mount(b"/proc/self/fd/%d" % fd, path, None, ctypes.c_ulong(BIND_ALL), None), path)
            posix.close(fd)


def mount_parents(top: bytes) -> list[bytes]:
    """Those that only lead to what is mounted in there."""
    below = [path for path in mount_points() if path.startswith(top + b"/")]
    parents = {b"/".join(path.split(b"/")[:count]) for path in below for count in range(3, len(path.split(b"/")))}
    return sorted(
        path for path in parents if not any(path == mount or path.startswith(mount + b"/") for mount in below)
    )


def scratch_state(folders: list[bytes]) -> object:
    """What changes with whatever is made, removed, renamed or given other attributes in there: how many files and
    bytes the first of the folders holds with all that lies in it, and how each of them looks."""
    try:
        space = posix.statvfs(folders[0])
        return space.f_bfree, space.f_ffree, [(folder_state(folder), posix.listdir(folder)) for folder in folders]
    except OSError:
        return object()  # like nothing else


def folder_state(path: bytes) -> tuple[int, ...]:
    status = posix.stat(path)
    return status.st_mode, status.st_uid, status.st_gid, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def make_mount_point(path: bytes, *, is_folder: bool) -> None:
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

    processes: ProcessNamespace

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

    def enter(self) -> ProcessNamespace:
        """The view of all others is that of our first thread, too."""
        return ProcessNamespace(mounts=False)

    def work(self) -> None:
        try:
            check_result(libc.unshare(NEW_CWD), "unshare")
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
                self.result = self.perform()
            except OSError as error:
                self.result = error

    def restrict(self) -> None:
        self.processes = self.enter()
        drop_capabilities(self.capabilities)
        filter_calls(self.rules)

    def perform(self) -> int:
        return spawn(*self.job)

    def spawn(self, request: list[bytes], fds: list[int]) -> int:
        self.job = request, fds
        return self.run_job()

    def run_job(self) -> int:
        self.asked.release()
        self.answered.acquire()
        if isinstance(self.result, OSError):
            raise self.result
        return self.result

    def close(self) -> None:
        """End the thread, and whoever is in its room."""
        self.is_over = True
        self.asked.release()
        self.processes.close()


class GitView(View):
    """Git's own, beside all others."""

    def __init__(self, capabilities: int, rules: bytes, others: ProcessNamespace) -> None:
        self.others = others
        super().__init__(capabilities, rules)

    def enter(self) -> ProcessNamespace:
        self.others.join()
        return self.others


class ServerView(View):
    """For one server, which is alone in its room."""

    def enter(self) -> ProcessNamespace:
        check_result(libc.unshare(NEW_MOUNTS), "unshare")
        return ProcessNamespace()


class OfflineView(View):
    """For one command, which is alone in its room and reaches nobody, not even by a socket that is a file."""

    def enter(self) -> ProcessNamespace:
        check_result(libc.unshare(NEW_MOUNTS | NEW_NETWORK | NEW_IPC), "unshare")
        return ProcessNamespace()


class ReadOnlyView(View):
    """In which nothing that is mounted can be written but an empty /tmp, and nobody is on the network.

    Few programs that only look leave anything in there: it is made anew for the next only where it was touched.
    """

    is_first = True
    """Whether nobody else is in the room."""

    def enter(self) -> ProcessNamespace:
        check_result(libc.unshare(NEW_MOUNTS | NEW_NETWORK | NEW_IPC), "unshare")
        set_mount(b"/", READ_ONLY)
        for path in mount_points():
            try:
                if not posix.statvfs(path).f_flag & READ_ONLY:
                    set_mount(path, READ_ONLY, whole=False)
            except OSError as error:
                if error.errno not in (2, 22):  # another mount lies over it: nobody comes there by its name
                    raise
        room = ProcessNamespace()
        room.send_order(b"fresh")
        self.scratch = [b"/tmp", *mount_parents(b"/tmp")]
        self.scratch_before = scratch_state(self.scratch)
        return room

    def perform(self) -> int:
        if self.is_first and scratch_state(self.scratch) != self.scratch_before:
            self.processes.send_order(b"fresh")
            self.scratch_before = scratch_state(self.scratch)
        return super().perform()


class Mounter(View):
    """A thread that makes git's view, and stays in it with the right to mount; it starts nothing."""

    git: View
    """The thread that starts commands in it: whoever starts a thread hands on its view."""
    paths: tuple[list[bytes], list[bytes]] = ([], [])

    def __init__(self, capabilities: int, rules: bytes, others: ProcessNamespace, roots: list[bytes]) -> None:
        self.others, self.roots = others, roots
        super().__init__(capabilities, rules)

    def restrict(self) -> None:
        check_result(libc.unshare(NEW_MOUNTS), "unshare")
        forbid_workspace_programs(self.roots)
        self.git = GitView(self.capabilities, self.rules, self.others)

    def perform(self) -> int:
        protect(*self.paths)
        return 0

    def protect(self, pinned: list[bytes], read_only: list[bytes]) -> None:
        self.paths = pinned, read_only
        self.run_job()


class Views:
    """Those that are there from the beginning, those of who is alone, and that of whoever only looks."""

    def __init__(self, capabilities: int, rules: bytes, looking: bytes, roots: list[bytes]) -> None:
        self.capabilities, self.rules, self.read_only_rules = capabilities, rules, looking
        # Only in a namespace of our own may we mount as a user. It is that of all others but git.
        check_result(libc.unshare(NEW_MOUNTS), "unshare")
        self.all = View(capabilities, rules)
        self.mounter = Mounter(capabilities, rules, self.all.processes, roots)
        self.read_only: ReadOnlyView | None = None
        self.private: list[View] = []

    def view_for(self, view: bytes, *, is_first: bool) -> View:
        """The one that is asked for; whoever looks first, when nobody else does, finds an empty /tmp."""
        if view in PRIVATE_VIEWS:
            view_class = ServerView if view == SERVER_VIEW else OfflineView
            self.private.append(
                view_class(self.capabilities, self.rules if view == SERVER_VIEW else self.read_only_rules)
            )
            return self.private[-1]
        if view == READ_ONLY_VIEW:
            if self.read_only is None:
                self.read_only = ReadOnlyView(self.capabilities, self.read_only_rules)
            self.read_only.is_first = is_first
            return self.read_only
        return self.mounter.git if view == GIT_VIEW else self.all

    def current_views(self) -> list[View]:
        return [self.all, *self.private, *([self.read_only] if self.read_only is not None else [])]

    def required_processes(self) -> set[int]:
        """The first processes of the rooms that stay."""
        return {self.all.processes.first, *([self.read_only.processes.first] if self.read_only is not None else [])}


def forbid_workspace_programs(roots: list[bytes]) -> None:
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
