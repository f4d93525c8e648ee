"""Part of the program inside a sandbox: views of the file system, and process namespaces."""

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
    contents,
    libc,
    mount_points,
    protect,
    raise_on_errno,
    set_mount,
    split_lists,
)
from adderclaw.sandbox.inside_processes import leave_at_once, signal, spawn
from adderclaw.sandbox.inside_rights import drop_capabilities, filter_calls

KILL = 9
GIT_VIEW, ALL_VIEW, SERVER_VIEW, READ_ONLY_VIEW, OFFLINE_VIEW = b"git", b"all", b"server", b"read_only", b"offline"
"""The views; `process.View` has the same names."""
PRIVATE_VIEWS = SERVER_VIEW, OFFLINE_VIEW
"""Views in which a command has its own process namespace, which ends with it."""
NEW_CWD, NEW_MOUNTS, NEW_NUMBERS = 0x200, 0x20000, 0x20000000
FRESH_BYTES = 1 << 28
NEW_NETWORK, NEW_IPC = 0x40000000, 0x08000000
PLAIN = 2 | 4
"""Mount flags: no setuid, no devices."""


class ProcessNamespace:
    """A process namespace, created by the thread that starts commands in it, in its view of the files."""

    def __init__(self, *, mounts: bool = True) -> None:
        self.control, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)
        raise_on_errno(libc.unshare(NEW_NUMBERS), "unshare")
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
        """Start later children of this thread in this namespace."""
        raise_on_errno(libc.setns(self.numbers, NEW_NUMBERS), "setns")

    def send_order(self, order: bytes, about: bytes = b"") -> None:
        """Send an order to the first process, and wait until it is carried out."""
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
            raise OSError(5, "the first process of a namespace could not carry out an order", answer)

    def is_empty(self) -> bool:
        """Whether only the first process is left."""
        return [name for name in posix.listdir(self.listing) if name.isdigit()] == ["1"]

    def close(self) -> None:
        """Kill the first process; all others end with it."""
        signal(self.first, KILL)
        for fd in (self.numbers, self.listing):
            posix.close(fd)
        self.control.close()


def run_first_process(control: socket, *, mounts: bool) -> None:
    """Reap the orphans of a namespace and carry out orders, until the other side closes the socket."""
    posix.closerange(0, control.fileno())
    posix.closerange(control.fileno() + 1, 1 << 16)
    libc.signal(17, ctypes.c_void_p(1))  # SIGCHLD ignored: ended children are reaped at once
    fresh, answer = FreshTmp(), b"done"
    try:
        # Read-only: kernel settings check the user, not capabilities.
        raise_on_errno(libc.mount(b"proc", b"/proc", b"proc", ctypes.c_ulong(PLAIN | 8 | 1), None), "mount /proc")
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
    """Mounts an empty /tmp over the previous one; other mounts in it stay in place."""

    def __init__(self) -> None:
        self.is_over = False

    def __call__(self) -> None:
        if self.is_over:
            raise_on_errno(libc.umount2(b"/tmp", 2), "umount /tmp")
        below = sorted(path for path in mount_points() if path.startswith(b"/tmp/"))
        outer = [path for path in below if not any(path.startswith(above + b"/") for above in below)]
        inner_mounts = [(path, posix.open(path, posix.O_PATH | posix.O_CLOEXEC)) for path in outer]
        options = b"mode=1777,size=%d" % FRESH_BYTES
        raise_on_errno(libc.mount(b"tmpfs", b"/tmp", b"tmpfs", ctypes.c_ulong(PLAIN), options), "mount /tmp")
        self.is_over = True
        for path, fd in inner_mounts:
            is_folder = posix.fstat(fd).st_mode & 0o170000 == 0o040000
            make_mount_point(path, is_folder=is_folder)
            raise_on_errno(libc.mount(b"/proc/self/fd/%d" % fd, path, None, ctypes.c_ulong(BIND_ALL), None), path)
            posix.close(fd)


def mount_parents(top: bytes) -> list[bytes]:
    """The folders that only lead to mounts beneath this folder."""
    below = [path for path in mount_points() if path.startswith(top + b"/")]
    parents = {b"/".join(path.split(b"/")[:count]) for path in below for count in range(3, len(path.split(b"/")))}
    return sorted(
        path for path in parents if not any(path == mount or path.startswith(mount + b"/") for mount in below)
    )


def scratch_state(folders: list[bytes]) -> object:
    """A value that changes with any change in these folders: the free space of the first, and the state of each."""
    try:
        space = posix.statvfs(folders[0])
        return space.f_bfree, space.f_ffree, [(folder_state(folder), posix.listdir(folder)) for folder in folders]
    except OSError:
        return object()  # equal to nothing else


def folder_state(path: bytes) -> tuple[int, ...]:
    status = posix.stat(path)
    return status.st_mode, status.st_uid, status.st_gid, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def make_mount_point(path: bytes, *, is_folder: bool) -> None:
    """Create the mount point for an earlier mount."""
    parts = path.split(b"/")
    for count in range(2, len(parts) + is_folder):
        try:
            posix.mkdir(b"/".join(parts[:count]), 0o755)
        except FileExistsError:
            pass
    if not is_folder:
        posix.close(posix.open(path, posix.O_WRONLY | posix.O_CREAT | posix.O_CLOEXEC, 0o600))


class View:
    """A thread with a view of the files: its children have the same view and rights."""

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
        """Enter the view of ordinary commands, which the first thread has as well."""
        return ProcessNamespace(mounts=False)

    def work(self) -> None:
        try:
            raise_on_errno(libc.unshare(NEW_CWD), "unshare")
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
        """End the thread and all processes of its namespace."""
        self.is_over = True
        self.asked.release()
        self.processes.close()


class GitView(View):
    """The view of git, in the process namespace of ordinary commands."""

    def __init__(self, capabilities: int, rules: bytes, others: ProcessNamespace) -> None:
        self.others = others
        super().__init__(capabilities, rules)

    def enter(self) -> ProcessNamespace:
        self.others.join()
        return self.others


class ServerView(View):
    """The view of one server, with its own process namespace."""

    def enter(self) -> ProcessNamespace:
        raise_on_errno(libc.unshare(NEW_MOUNTS), "unshare")
        return ProcessNamespace()


class OfflineView(View):
    """The view of one command with its own process namespace and without a network, Unix sockets included."""

    def enter(self) -> ProcessNamespace:
        raise_on_errno(libc.unshare(NEW_MOUNTS | NEW_NETWORK | NEW_IPC), "unshare")
        return ProcessNamespace()


class ReadOnlyView(View):
    """A view without a network, in which only an empty /tmp can be written.

    Few read-only programs write to /tmp, so a new one is mounted for the next command only after a change.
    """

    is_first = True
    """Whether no other command runs in this view."""

    def enter(self) -> ProcessNamespace:
        raise_on_errno(libc.unshare(NEW_MOUNTS | NEW_NETWORK | NEW_IPC), "unshare")
        set_mount(b"/", READ_ONLY)
        for path in mount_points():
            try:
                if not posix.statvfs(path).f_flag & READ_ONLY:
                    set_mount(path, READ_ONLY, whole=False)
            except OSError as error:
                if error.errno not in (2, 22):  # covered by another mount, so not reachable by name
                    raise
        namespace = ProcessNamespace()
        namespace.send_order(b"fresh")
        self.scratch = [b"/tmp", *mount_parents(b"/tmp")]
        self.scratch_before = scratch_state(self.scratch)
        return namespace

    def perform(self) -> int:
        if self.is_first and scratch_state(self.scratch) != self.scratch_before:
            self.processes.send_order(b"fresh")
            self.scratch_before = scratch_state(self.scratch)
        return super().perform()


class Mounter(View):
    """A thread that creates git's view and stays in it with the right to mount; it starts no command."""

    git: View
    """The thread that starts git in this view: a thread inherits the view of its creator."""
    paths: tuple[list[bytes], list[bytes]] = ([], [])

    def __init__(self, capabilities: int, rules: bytes, others: ProcessNamespace, roots: list[bytes]) -> None:
        self.others, self.roots = others, roots
        super().__init__(capabilities, rules)

    def restrict(self) -> None:
        raise_on_errno(libc.unshare(NEW_MOUNTS), "unshare")
        forbid_workspace_programs(self.roots)
        self.git = GitView(self.capabilities, self.rules, self.others)

    def perform(self) -> int:
        protect(*self.paths)
        return 0

    def protect(self, pinned: list[bytes], read_only: list[bytes]) -> None:
        self.paths = pinned, read_only
        self.run_job()


class Views:
    """The permanent views, the private ones, and the read-only view, which is created when it is first needed."""

    def __init__(self, capabilities: int, rules: bytes, looking: bytes, roots: list[bytes]) -> None:
        self.capabilities, self.rules, self.read_only_rules = capabilities, rules, looking
        # A user may mount only in their own namespace. All commands but git use this one.
        raise_on_errno(libc.unshare(NEW_MOUNTS), "unshare")
        self.all = View(capabilities, rules)
        self.mounter = Mounter(capabilities, rules, self.all.processes, roots)
        self.read_only: ReadOnlyView | None = None
        self.private: list[View] = []

    def view_for(self, view: bytes, *, is_first: bool) -> View:
        """The view for a command; the first command in the read-only view finds an empty /tmp."""
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
        """The first processes of the permanent namespaces."""
        return {self.all.processes.first, *([self.read_only.processes.first] if self.read_only is not None else [])}


def forbid_workspace_programs(roots: list[bytes]) -> None:
    """Forbid git's view to execute files of the workspace or any writable file, so that no hook starts.

    The setting `core.hooksPath` is not enough: `git bisect` and others run hooks without reading it.
    """
    for root in roots:
        set_mount(root, NO_PROGRAMS)
    for path in mount_points():
        beneath = any(path.startswith(root.rstrip(b"/") + b"/") for root in roots)
        try:
            if beneath or not posix.statvfs(path).f_flag & READ_ONLY:
                set_mount(path, NO_PROGRAMS, whole=False)
        except OSError as error:
            if error.errno not in (2, 22):  # covered by another mount, so not reachable by name
                raise
