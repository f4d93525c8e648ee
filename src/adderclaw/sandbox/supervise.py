"""Changes modes, owners, times and extended attributes for commands that only Landlock confines, and only inside the
workspace.

Landlock cannot restrict these changes, so the kernel stops each such call and asks this supervisor. It reads the path
from the caller's memory once, follows it once, and holds the target by a descriptor. Only then does it check where the
target is, and it makes the change through the descriptor. Swapping files meanwhile has no effect, because Landlock does
not let commands move anything into or out of the workspace. The caller's own call never continues.

Like `inside`, this code is the input of `python -I -S` and imports only built-in modules. It starts `inside` as its
child, because on many systems only ancestors may read a process's memory. When it ends, the kernel answers every such
call with ENOSYS, and `inside` is killed.
"""

import ctypes
import fcntl
import marshal
import posix
import select
import struct
import sys
from _collections_abc import Callable
from _socket import AF_UNIX, MSG_CMSG_CLOEXEC, SOCK_SEQPACKET, SOL_SOCKET, socket, socketpair

RECEIVE, SEND, IS_VALID, SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082102, 0x40082104
EPERM, ENOENT, EBADF, EFAULT, EINVAL, E2BIG, ERANGE, ENAMETOOLONG = 1, 2, 9, 14, 22, 7, 34, 36
HERE, NO_FOLLOW, EMPTY_PATH = -100, 0x100, 0x1000
"""AT_FDCWD, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH."""
NO_MAGIC_LINKS = 2
"""RESOLVE_NO_MAGICLINKS: /proc/self would be the supervisor's, not the caller's."""
O_PATH, O_NOFOLLOW, O_CLOEXEC = posix.O_PATH, posix.O_NOFOLLOW, posix.O_CLOEXEC
PAGE, PATH_BYTES, NAME_BYTES, VALUE_BYTES = 4096, 4096, 256, 65_536
SET_IDS = 0o6000
ATTRIBUTES = (b"user.", b"system.posix_acl_access", b"system.posix_acl_default")
"""Extended attributes that need no further right; all others (such as file capabilities) are refused."""
OF_THE_CALLER = (b"/proc/self/fd/", b"/proc/thread-self/fd/", b"/dev/fd/")
"""Paths with which the C library names a descriptor if the kernel has no better call."""
KEPT_CAPABILITIES_MASK = 0b1011
"""CHOWN, DAC_OVERRIDE, FOWNER, the same as in `inside`."""

libc = ctypes.CDLL(None, use_errno=True)


class Caller:
    """One waiting call and the process that made it."""

    def __init__(self, listener: int, request: bytes) -> None:
        self.listener = listener
        self.id, self.pid, _, self.number, _, _, *self.args = struct.unpack("=QIIiIQ6Q", request)
        self.bytes = -1

    def check(self) -> None:
        """Raises OSError unless the call still waits. Called before any change, because a pid may be reused."""
        fcntl.ioctl(self.listener, IS_VALID, struct.pack("=Q", self.id))

    def signed(self, index: int) -> int:
        """A signed 32-bit argument."""
        return ctypes.c_int(self.args[index] & 0xFFFFFFFF).value

    def memory(self, address: int, size: int) -> bytes:
        """The caller's memory at an address, as far as it can be read."""
        if not 0 < address < 1 << 62:
            raise OSError(EFAULT, "no address")
        if self.bytes < 0:
            self.bytes = posix.open(f"/proc/{self.pid}/mem", posix.O_RDONLY | O_CLOEXEC)
        return posix.pread(self.bytes, size, address)

    def close(self) -> None:
        posix.close(self.bytes) if self.bytes >= 0 else None

    def exactly(self, address: int, size: int) -> bytes:
        content = self.memory(address, size)
        if len(content) != size:
            raise OSError(EFAULT, "too little is there")
        return content

    def text(self, address: int, most: int, error: int) -> bytes:
        """A zero-terminated text, read page by page because the memory after it may not be readable."""
        content = b""
        while len(content) < most:
            part = self.memory(address + len(content), min(PAGE - (address + len(content)) % PAGE, most - len(content)))
            if not part:
                raise OSError(EFAULT, "no end")
            content += part
            if b"\0" in part:
                return content.partition(b"\0")[0]
        raise OSError(error, "too long")

    def descriptor(self, number: int) -> int:
        """A new descriptor of what the process has open as `number`, or of its current directory."""
        entry = "cwd" if number == HERE else f"fd/{number}"
        if number < 0 and number != HERE:
            raise OSError(EBADF, "no descriptor")
        try:
            return posix.open(f"/proc/{self.pid}/{entry}", O_PATH | O_CLOEXEC)
        except FileNotFoundError:
            raise OSError(EBADF, "no descriptor") from None

    def target(self, at: int, address: int, flags: int) -> int:
        """Opens the file that the call names."""
        if flags & ~(NO_FOLLOW | EMPTY_PATH):
            raise OSError(EINVAL, "unknown flags")
        path = self.text(address, PATH_BYTES, ENAMETOOLONG)
        if not path and flags & EMPTY_PATH:
            return self.descriptor(at)
        if not path:
            raise OSError(ENOENT, "no path")
        for prefix in OF_THE_CALLER:
            number = path.removeprefix(prefix)
            if number != path and number.isdigit() and len(number) < 8 and not flags & NO_FOLLOW:
                return self.descriptor(int(number))
        if path.startswith(b"/"):
            return open_path(HERE, path, flags)
        base = self.descriptor(at)
        try:
            return open_path(base, path, flags)
        finally:
            posix.close(base)


def open_path(base: int, path: bytes, flags: int) -> int:
    """Follows a path to its end and returns a descriptor of the target without opening its content."""
    how = struct.pack("=QQQ", O_PATH | O_CLOEXEC | (O_NOFOLLOW if flags & NO_FOLLOW else 0), 0, NO_MAGIC_LINKS)
    fd = libc.syscall(ctypes.c_long(437), ctypes.c_int(base), path, how, ctypes.c_size_t(len(how)))
    if fd < 0:
        raise OSError(ctypes.get_errno(), "openat2")
    return fd


def is_inside(fd: int, roots: list[bytes]) -> bool:
    """Whether the target of a descriptor is in one of the folders now. Nothing can move in or out of them."""
    path = posix.readlink(b"/proc/self/fd/%d" % fd)
    return any(path == root or path.startswith(root + b"/") for root in roots)


# ------------------------------------------------------------------ the changes


type Change = Callable[[bytes], object]
"""Applies the change to a path after the caller was checked. Everything it needs was read before."""


def mode_change(mode: int) -> Change:
    if mode & SET_IDS:
        raise OSError(EPERM, "setuid or setgid")
    return lambda path: posix.chmod(path, mode & 0o1777)


def owner_change(user: int, group: int) -> Change:
    return lambda path: posix.chown(path, user, group)


def time_change(times: "bytes | None") -> Change:
    return lambda path: check(libc.utimensat(HERE, path, times, 0))


def attribute_change(caller: Caller) -> Change:
    _, name_at, value_at, size, flags, _ = caller.args
    name = attribute_name(caller, name_at)
    if size > VALUE_BYTES:
        raise OSError(E2BIG, "value")
    value = caller.exactly(value_at, size) if size else b""
    how = ctypes.c_int(flags & 0xFFFFFFFF)
    return lambda path: check(libc.setxattr(path, name, value, ctypes.c_size_t(size), how))


def attribute_removal(caller: Caller) -> Change:
    name = attribute_name(caller, caller.args[1])
    return lambda path: check(libc.removexattr(path, name))


def attribute_name(caller: Caller, address: int) -> bytes:
    name = caller.text(address, NAME_BYTES, ERANGE)
    if not name.startswith(ATTRIBUTES):
        raise OSError(EPERM, "an attribute that needs further rights")
    return name


def check(answer: int) -> None:
    if answer < 0:
        raise OSError(ctypes.get_errno(), "it failed")


def timespec_of_microseconds(pairs: bytes) -> bytes:
    """Converts two `timeval` to `timespec`."""
    first, some, second, others = struct.unpack("=qqqq", pairs)
    if not (0 <= some < 1_000_000 and 0 <= others < 1_000_000):
        raise OSError(EINVAL, "microseconds")
    return struct.pack("=qqqq", first, some * 1000, second, others * 1000)


class Supervisor:
    def __init__(self, listener: int, roots: list[bytes], names: dict[int, str]) -> None:
        self.listener, self.roots, self.names = listener, roots, names

    def answer(self) -> None:
        """Receives one call, makes the change and sends the result."""
        request = bytearray(80)
        try:
            fcntl.ioctl(self.listener, RECEIVE, request, True)
        except OSError:
            return  # the caller was killed before its call could be received
        caller, error = Caller(self.listener, bytes(request)), 0
        try:
            self.make_change(caller)
        except OSError as failure:
            error = failure.errno or EPERM
        except (OverflowError, ValueError, struct.error):
            error = EINVAL
        finally:
            caller.close()
        try:
            fcntl.ioctl(self.listener, SEND, request[:8] + struct.pack("=qiI", 0, -error, 0))
        except OSError:
            pass  # the caller was killed meanwhile

    def make_change(self, caller: Caller) -> None:
        if caller.pid == 0:
            raise OSError(EPERM, "a process in another pid namespace")
        name = self.names[caller.number]
        fd = self.target_of(name, caller)
        try:
            if not is_inside(fd, self.roots):
                raise OSError(EPERM, "outside the workspace")
            change = self.change(name, caller)
            caller.check()
            change(b"/proc/self/fd/%d" % fd)
        finally:
            posix.close(fd)

    def target_of(self, name: str, caller: Caller) -> int:
        """Opens the call's target: a descriptor, or a path relative to a folder, whose last link is followed or not."""
        args = caller.args
        match name:
            case "fchmod" | "fchown" | "fsetxattr" | "fremovexattr":
                return caller.descriptor(caller.signed(0))
            case "utimensat" | "futimesat" if args[1] == 0:
                return caller.descriptor(caller.signed(0))
            case "fchmodat" | "futimesat":
                return caller.target(caller.signed(0), args[1], 0)
            case "fchmodat2" | "utimensat":
                return caller.target(caller.signed(0), args[1], args[3])
            case "fchownat":
                return caller.target(caller.signed(0), args[1], args[4])
            case "lchown" | "lsetxattr" | "lremovexattr":
                return caller.target(HERE, args[0], NO_FOLLOW)
            case _:
                return caller.target(HERE, args[0], 0)

    def change(self, name: str, caller: Caller) -> Change:
        args = caller.args
        match name:
            case "chmod" | "fchmod":
                return mode_change(args[1])
            case "fchmodat" | "fchmodat2":
                return mode_change(args[2])
            case "chown" | "fchown" | "lchown":
                return owner_change(caller.signed(1), caller.signed(2))
            case "fchownat":
                return owner_change(caller.signed(2), caller.signed(3))
            case "utime" | "utimes" | "futimesat" | "utimensat":
                return time_change(self.times(name, caller))
            case "setxattr" | "lsetxattr" | "fsetxattr":
                return attribute_change(caller)
            case "removexattr" | "lremovexattr" | "fremovexattr":
                return attribute_removal(caller)
            case _:
                raise OSError(EPERM, name)

    def times(self, name: str, caller: Caller) -> "bytes | None":
        """Two `timespec`; None means now."""
        address = caller.args[2 if name.endswith("at") else 1]
        if address == 0:
            return None
        if name == "utimensat":
            return caller.exactly(address, 32)
        if name == "utime":
            first, second = struct.unpack("=qq", caller.exactly(address, 16))
            return struct.pack("=qqqq", first, 0, second, 0)
        return timespec_of_microseconds(caller.exactly(address, 32))


# ------------------------------------------------------------------ before the first call


def control_process(*arguments: int) -> None:
    if libc.prctl(*(ctypes.c_ulong(argument) for argument in (*arguments, *(0,) * (5 - len(arguments))))):
        raise OSError(ctypes.get_errno(), f"prctl {arguments[0]}")


def drop_capabilities() -> None:
    """Drops every capability except those that commands have."""
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    if libc.capget(header, sets) == 0:
        left = (ctypes.c_uint32 * 6)(sets[0] & KEPT_CAPABILITIES_MASK, sets[1] & KEPT_CAPABILITIES_MASK, 0, 0, 0, 0)
        check(libc.capset(header, left))


def contents(fd: int) -> bytes:
    parts: list[bytes] = []
    while part := posix.read(fd, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def run_program_inside(program: int, parent: int, channel: socket, arguments: list[str]) -> None:
    """Runs the program inside in this process, which ends when its supervisor does."""
    control_process(1, 9)  # PR_SET_PDEATHSIG
    if posix.getppid() != parent:
        raise SystemExit(1)
    sys.argv[1:] = [*arguments, f"supervisor={channel.detach()}"]
    modules = marshal.loads(contents(program))  # noqa: S302 - from our own parent
    posix.close(program)
    # Our own code, passed in like this file: starting another interpreter would double the start-up time.
    for name, code in modules:
        module = type(sys)(name)
        sys.modules.setdefault(name, module)
        exec(code, module.__dict__)  # noqa: S102


def receive_listener(channel: socket) -> int:
    """Receives the descriptor on which the kernel reports calls; -1 if the kernel has none."""
    _, ancillary, _, _ = channel.recvmsg(16, 64, MSG_CMSG_CLOEXEC)
    descriptors = [data for level, _, data in ancillary if level == SOL_SOCKET]
    channel.close()
    return int.from_bytes(descriptors[0][:4], sys.byteorder) if descriptors else -1


def serve(supervisor: Supervisor, child: int) -> None:
    """Answers calls until the program inside has ended."""
    poller = select.poll()
    poller.register(supervisor.listener, select.POLLIN)
    try:
        poller.register(posix.pidfd_open(child), select.POLLIN)
    except OSError:
        pass  # then the listener reports the end of the last command
    while True:
        for fd, event in poller.poll():
            if fd != supervisor.listener or not event & select.POLLIN:
                return
            supervisor.answer()


def supervise(parameters: dict[str, str], roots: list[bytes], channel: socket, child: int) -> None:
    control_process(4, 0)  # PR_SET_DUMPABLE: no command reads or writes our memory
    control_process(38, 1)  # PR_SET_NO_NEW_PRIVS
    drop_capabilities()
    listener = receive_listener(channel)
    if listener >= 0:
        names = {int(number): name for name, number in (pair.split(":") for pair in parameters["calls"].split(","))}
        try:
            fcntl.ioctl(listener, SET_FLAGS, struct.pack("=Q", 1))  # the caller is woken on the same processor
        except OSError:
            pass  # before Linux 6.6
        serve(Supervisor(listener, roots, names), child)
        posix.close(listener)
    posix.waitpid(child, 0)


def main(arguments: list[str]) -> None:
    parameters = dict(argument.split("=", 1) for argument in arguments)
    roots, program, me = contents(int(parameters["roots"])).split(b"\0"), int(parameters["program"]), posix.getpid()
    posix.close(int(parameters["roots"]))
    ours, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)
    child = posix.fork()
    if child == 0:
        ours.close()
        run_program_inside(program, me, theirs, arguments)
    else:
        libc.signal(2, None)  # Python's own handler would end this process with KeyboardInterrupt
        theirs.close()
        for name in ("control", "ruleset", "seccomp", "refused", "program"):
            posix.close(int(parameters[name]))
        supervise(parameters, roots, ours, child)


if __name__ == "__main__":
    main(sys.argv[1:])
