"""The program inside a sandbox: it starts a session's commands, waits for them, and ends all that they leave behind.

Its text is the input of `python -I -S -`, and it imports only what is there at once: no `os`, `socket` or `signal`,
which would double the time that it takes to start. In bubblewrap it is process 1: when it ends, all else inside does.

It is given on its control socket, once per command, a payload (a long one as a file in memory), a channel, three
streams and further descriptors. The channel then says `exit CODE ALONE` or `error ERRNO WHERE`, and takes `signal N`
and `end`; it is closed when nothing of the command runs any more.
"""

import ctypes
import fcntl
import posix
import resource
import select
import sys
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

libc = ctypes.CDLL(None, use_errno=True)


class Call:
    """One command, from its request until its channel is closed."""

    def __init__(self, channel: socket, mark: bytes, pid: int) -> None:
        self.channel, self.mark, self.pid = channel, mark, pid
        self.pidfd = -1
        self.running = True


class Holder:
    def __init__(self, control: socket) -> None:
        self.control = control
        self.first = posix.getpid() == 1
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
        request = message.split(b"\0")
        pid, failure = -1, b""
        try:
            pid = spawn(request, streams)  # first of all: the rest is done while it runs
        except OSError as error:
            failure = b"error %d %s" % (error.errno, error.filename or b"")
        call = self.calls[channel] = Call(socket(AF_UNIX, SOCK_SEQPACKET, 0, channel), request[-1], pid)
        if failure:
            call.running = False
            self.say(call, failure)
        else:
            self.watch(call)
        self.poller.register(channel, select.POLLIN)
        for fd in streams:
            posix.close(fd)
        return True

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
            signal(-call.pid, int(number))
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


def processes() -> dict[int, tuple[int, int, int]]:
    """Number → parent, process group, session."""
    table: dict[int, tuple[int, int, int]] = {}
    for name in posix.listdir("/proc"):
        if not name.isdigit() or int(name) == posix.getpid():
            continue
        fields = read(f"/proc/{name}/stat").rpartition(b")")[2].split()
        if fields and fields[0] not in (b"Z", b"X"):
            table[int(name)] = (int(fields[1]), int(fields[2]), int(fields[3]))
    return table


def descends(pid: int, ancestors: set[int], parents: dict[int, int]) -> bool:
    for _ in range(len(parents) + 1):
        if pid in ancestors:
            return True
        if pid not in parents:
            return False
        pid = parents[pid]
    return False


def environ(pid: int) -> list[bytes]:
    return read(f"/proc/{pid}/environ").split(b"\0")


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


def drop_capabilities() -> None:
    """All but what lets root work in a workspace that belongs to somebody else: CHOWN, DAC_OVERRIDE, FOWNER."""
    kept = 0b1011
    for number in range(64):
        if not kept >> number & 1:
            libc.prctl(24, ctypes.c_ulong(number), 0, 0, 0)  # PR_CAPBSET_DROP: refused to whoever has none
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    if libc.capget(header, sets) == 0:
        left = [sets[0] & kept, sets[1] & kept, 0, 0, 0, 0]
        libc.capset(header, (ctypes.c_uint32 * 6)(*left))


def restrict(ruleset: int, code: int) -> None:
    """Landlock and seccomp, where no bubblewrap has done the like before us."""
    control_process(36, 1)  # PR_SET_CHILD_SUBREAPER
    drop_capabilities()
    control_process(38, 1)  # PR_SET_NO_NEW_PRIVS
    if libc.syscall(ctypes.c_long(446), ctypes.c_int(ruleset), ctypes.c_uint(0)):  # landlock_restrict_self
        raise OSError(ctypes.get_errno(), "landlock_restrict_self")
    rules = posix.read(code, 1 << 16)
    program = Program(len(rules) // 8, rules)
    control_process(22, 2, ctypes.addressof(program))  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
    posix.close(ruleset)
    posix.close(code)


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
    if "ruleset" in given:
        restrict(int(given["ruleset"]), int(given["seccomp"]))
    control.sendmsg([b"ready"], listener)
    if server is not None:
        server.close()
    holder = Holder(control)
    holder.serve()
    while not holder.first and not holder.alone():
        holder.kill_everything()


if __name__ == "__main__":
    main(sys.argv[1:])
