"""The program inside a sandbox: starts a session's commands, waits for them, and ends the processes that they leave.

Its compiled code is the input of `python -I -S`, and it imports only built-in modules: `os`, `socket` and `signal`
would double its start time. In bubblewrap it is process 1: when it ends, everything in the sandbox ends.

Its control socket delivers, for each command, a payload (a long one as a file in memory), a channel, three streams and
further descriptors. On the channel it sends `exit CODE ALONE` or `error ERRNO WHERE`, and receives `signal N` and
`end`. It closes the channel when no process of the command runs any more, or after `left COUNT`: this many processes
were killed and are not dead yet.

In bubblewrap each command runs in a view. A thread with no more rights than the command starts it there. `git` is for
git alone. `all` is for all other commands: files that other programs run later are read-only. `server` is the same for
a server that stays: it sees only its own processes, and others do not see it. `offline` is the same without a network.
In `read_only` nothing can be written and there is no network. Each view except `git`, which shares that of `all`, has
its own process namespace, whose first process runs this program. The first thread keeps the right to mount, for the
order `protect`, which makes more paths read-only while commands run (`protect git` does it in git's view, by a thread
that stays there). `pause` stops all commands but git's until `resume`. `is idle` asks whether the sandbox may be ended:
nothing runs, and the session's folders in memory are as empty as at the start.
"""

import _warnings
import posix
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

from adderclaw.sandbox.inside_mounts import libc, protect, read_whole, split_lists
from adderclaw.sandbox.inside_processes import (
    CONTINUE,
    STOP,
    descends,
    environment_of,
    exit_code,
    is_stopped,
    leave_at_once,
    let_children_start,
    processes,
    signal,
    spawn,
    stat_fields,
)
from adderclaw.sandbox.inside_rights import apply_landlock, control_process, restrict, set_limit
from adderclaw.sandbox.inside_views import GIT_VIEW, KILL, PRIVATE_VIEWS, ProcessNamespace, View, Views

MESSAGE_BYTES, IN_A_FILE = 32_768, b"in a file"
"""The longest payload of a message, and the message that announces a longer one; `holder` has the same values."""
POLL_MILLISECONDS = 5
"""Milliseconds between checks for ended children on a kernel without pidfds."""
ORDERS = (b"protect", b"protect git", b"pause", b"resume", b"is idle")
KILL_SECONDS = 8
"""Seconds to wait for killed processes to die: less than `holder` waits for the end of a command."""
PAUSE_SECONDS = 3
"""Seconds to wait for paused processes to stop: less than `holder` waits for an answer."""


class Call:
    """One command, from its request until its channel is closed."""

    def __init__(self, channel: socket, mark: bytes, view: bytes) -> None:
        self.channel, self.mark, self.view = channel, mark, view
        self.pid = self.pidfd = -1
        self.view_entered: View | None = None
        self.running = True

    @property
    def processes(self) -> "ProcessNamespace | None":
        return self.view_entered.processes if self.view_entered is not None else None


class Holder:
    def __init__(self, control: socket, views: "Views | None", own: list[str]) -> None:
        """`own`: the session's folders in memory, which are lost when this program ends."""
        self.control, self.views = control, views
        try:
            self.scratch, self.scratch_usage = own, memory_usage(own)
        except OSError:
            self.scratch, self.scratch_usage = list[str](), list[tuple[int, int]]()  # then it is never idle
        self.is_first_process = posix.getpid() == 1
        self.is_paused = False
        self.waiting: list[tuple[Call, list[bytes], list[int]]] = []
        """Commands that were requested while all but git's are paused."""
        self.calls: dict[int, Call] = {}
        self.poller = select.poll()
        self.poller.register(control, select.POLLIN)

    def serve(self) -> None:
        while True:
            for fd, _ in self.poller.poll(self.patience()):
                if fd == self.control.fileno():
                    if not self.receive_request():
                        return
                elif fd in self.calls:
                    self.receive(self.calls[fd])
            self.reap()

    def patience(self) -> int | None:
        """Poll timeout: orphans become children of this program, and nothing signals their end, so it checks them."""
        if not self.calls:
            return None
        return POLL_MILLISECONDS if any(call.running and call.pidfd < 0 for call in self.calls.values()) else 1000

    def receive_request(self) -> bool:
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
            self.carry_out(head, rest, socket(AF_UNIX, SOCK_SEQPACKET, 0, channel))
            return True
        view, _, head = head.partition(b" ")
        request = [head, *rest.split(b"\0")]
        if self.is_paused and view != GIT_VIEW:
            self.waiting.append((self.register(channel, request, view), request, streams))
            return True
        begun = self.spawn(view, request, streams)  # start it first: the rest is done while it runs
        self.record_start(self.register(channel, request, view), *begun)
        for fd in streams:
            posix.close(fd)
        return True

    def register(self, channel: int, request: list[bytes], view: bytes) -> Call:
        call = self.calls[channel] = Call(socket(AF_UNIX, SOCK_SEQPACKET, 0, channel), request[-1], view)
        self.poller.register(channel, select.POLLIN)
        return call

    def spawn(self, view: bytes, request: list[bytes], streams: list[int]) -> "tuple[View | None, int, bytes]":
        """Start a command; returns its view and process id, or the error message to send."""
        seen = None
        try:
            if self.views is None:
                return None, spawn(request, streams), b""
            seen = self.views.view_for(view, is_first=not any(call.view == view for call in self.calls.values()))
            return seen, seen.spawn(request, streams), b""
        except OSError as error:
            if view in PRIVATE_VIEWS and seen is not None:
                self.close_view(seen)
            return None, -1, b"error %d %s" % (error.errno, error.filename or b"")

    def record_start(self, call: Call, seen: View | None, pid: int, failure: bytes) -> None:
        call.pid, call.view_entered = pid, seen
        if failure:
            call.running = False
            self.send(call, failure)
        else:
            self.watch(call)

    def carry_out(self, order: bytes, rest: bytes, channel: socket) -> None:
        """Carry out an order, then answer: nothing, or what failed."""
        failure = b""
        try:
            if order == b"protect" and self.views is not None:
                protect(*split_lists(rest))
                for seen in self.views.private:
                    seen.processes.send_order(b"protect", rest)
            elif order == b"protect git" and self.views is not None:
                self.views.mounter.protect(*split_lists(rest))
            elif order == b"pause":
                self.pause()
            elif order == b"resume":
                self.resume()
            elif order == b"is idle" and (
                self.calls or not self.scratch or memory_usage(self.scratch) != self.scratch_usage
            ):
                failure = b"it is in use"
        except OSError as error:
            failure = b"%d %s" % (error.errno, str(error.filename or error.strerror).encode())
        channel.send(b"done " + failure)
        channel.close()

    def pause(self) -> None:
        """Stop all processes but those of git's commands, so that none of them changes the workspace meanwhile."""
        self.is_paused = True
        end, rounds = time.monotonic() + PAUSE_SECONDS, 0
        while time.monotonic() < end:
            moving = [pid for pid in self.other_processes() if not is_stopped(pid)]
            if not moving:
                return
            rounds += 1
            if rounds % 10:
                for pid in moving:
                    signal(pid, STOP)
            else:
                let_children_start({*moving})
            select.select((), (), (), 0.001 if rounds % 10 else 0.005)
        self.resume()
        raise OSError(16, "the processes in the sandbox do not stop")

    def resume(self) -> None:
        self.is_paused = False
        for pid in self.other_processes():
            signal(pid, CONTINUE)
        waiting, self.waiting = self.waiting, []
        for call, request, streams in waiting:
            if call.running:
                self.record_start(call, *self.spawn(call.view, request, streams))
            for fd in streams:
                posix.close(fd)

    def other_processes(self) -> list[int]:
        """All processes except git's commands and what they started."""
        table = processes()
        parents = {pid: parent for pid, (parent, _, _) in table.items()}
        gits = {call.pid for call in self.calls.values() if call.view == GIT_VIEW and call.running}
        mine = {posix.getpid()}
        firsts = {namespace.first for namespace in self.namespaces()}
        return [
            pid
            for pid, (_, _, session) in table.items()
            if pid not in firsts
            and session not in gits
            and not descends(pid, gits, parents)
            and (self.is_first_process or descends(pid, mine, parents))
        ]

    def watch(self, call: Call) -> None:
        try:
            call.pidfd = posix.pidfd_open(call.pid)
            self.poller.register(call.pidfd, select.POLLIN)
        except (AttributeError, OSError):
            pass

    def send(self, call: Call, text: bytes) -> None:
        try:
            call.channel.send(text, MSG_DONTWAIT)
        except OSError:
            pass

    def receive(self, call: Call) -> None:
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

    def namespaces(self) -> list[ProcessNamespace]:
        return [] if self.views is None else [seen.processes for seen in self.views.current_views()]

    def reap(self) -> None:
        """Reap ended processes and report the ends of commands."""
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
                is_over = call.processes.is_empty() if call.processes is not None else alone
                self.send(call, b"exit %d %d" % (exit_code(ended[call.pid]), is_over))
                self.unwatch(call)
                if is_over:
                    self.forget(call)
        if self.views is not None and ended.keys() & self.views.required_processes():
            leave_at_once()  # without its first process, nothing can be started in a namespace

    def forget(self, call: Call) -> None:
        if call.view in PRIVATE_VIEWS and call.view_entered is not None:
            self.close_view(call.view_entered)
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
        """Kill all processes of a call, then close its channel to report that they are gone."""
        call.running = False
        namespace = call.processes
        if call.pid < 0:
            pass  # it was never started
        elif any(other is not call and other.processes is namespace for other in self.calls.values()):
            if left := self.end_among_others(call):
                self.send(call, b"left %d" % left)
        elif namespace is not None:
            while call.view not in PRIVATE_VIEWS and not namespace.is_empty():
                namespace.send_order(b"kill")
                self.reap()
                select.select((), (), (), 0.0005)
        else:
            while not self.has_no_children():
                self.kill_everything()
                select.select((), (), (), 0.0005)
        self.forget(call)

    def close_view(self, seen: View) -> None:
        """End a private view with its namespace. Its first process ends only after all others were reaped."""
        assert self.views is not None
        self.views.private.remove(seen)
        seen.close()
        while stat_fields(str(seen.processes.first)):
            self.reap()
            select.select((), (), (), 0.0005)

    def has_no_children(self) -> bool:
        try:
            while posix.waitpid(-1, posix.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True
        return False

    def kill_everything(self) -> None:
        if self.is_first_process:
            signal(-1, KILL)  # process 1 itself is spared
            return
        mine = {posix.getpid()}
        parents = {pid: parent for pid, (parent, _, _) in processes().items()}
        for pid in parents:
            if descends(pid, mine, parents):
                signal(pid, KILL)

    def end_among_others(self, call: Call) -> int:
        """Kill this command's processes while others run: they are known by session, ancestors and mark.

        Returns how many are left: the signal waits for a process in an uninterruptible sleep or under a debugger.
        """
        until, dying = time.monotonic() + KILL_SECONDS, set[int]()
        while time.monotonic() < until:
            table = processes()
            parents = {pid: parent for pid, (parent, _, _) in table.items()}
            members = [
                pid
                for pid, (_, group, session) in table.items()
                if call.pid in (group, session)
                or descends(pid, {call.pid}, parents)
                or call.mark in environment_of(pid)
            ]
            for pid in members:
                signal(pid, KILL)
            self.reap()
            dying = {pid for pid in dying.union(members) if stat_fields(str(pid))}
            if not dying and not members:  # a killed process may have started another before it died
                return 0
            select.select((), (), (), 0.0005)
        return len(dying)


def memory_usage(folders: list[str]) -> list[tuple[int, int]]:
    """How many files and blocks each folder uses."""
    statuses = map(posix.statvfs, folders)
    return [(status.f_files - status.f_ffree, status.f_blocks - status.f_bfree) for status in statuses]


def main(arguments: list[str]) -> None:
    parameters = dict(argument.split("=", 1) for argument in arguments)
    _warnings.filters.insert(
        0, ("ignore", None, DeprecationWarning, None, 0)
    )  # about forks in threads: each child closes all descriptors
    libc.signal(2, None)  # Python's handler would end this program with KeyboardInterrupt
    control_process(4, 0)  # PR_SET_DUMPABLE: no command reads or writes this program's memory
    control = socket(fileno=int(parameters["control"]))
    posix.set_inheritable(control.fileno(), False)
    for name, value in parameters.items():
        if name.startswith("RLIMIT_"):
            set_limit(name, int(value))
    listener: list[tuple[int, int, bytes]] = []
    server = None
    if "port" in parameters:
        server = socket(AF_INET, SOCK_STREAM)
        server.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", int(parameters["port"])))
        server.listen(128)
        listener = [(SOL_SOCKET, SCM_RIGHTS, server.fileno().to_bytes(4, sys.byteorder))]
    views, more = None, b""
    if "ruleset" in parameters:
        more = restrict(*(int(parameters[name]) for name in ("ruleset", "seccomp", "refused", "install", "supervisor")))
    else:
        if "scope" in parameters:
            apply_landlock(int(parameters["scope"]))
        roots = [
            path.encode("utf-8", "surrogateescape") for name, path in parameters.items() if name.startswith("root ")
        ]
        rules, looking = (read_whole(int(parameters[name])) for name in ("seccomp", "looking"))
        views = Views(int(parameters["capabilities"]), rules, looking, roots)
    control.sendmsg([b"ready" + more], listener)
    if server is not None:
        server.close()
    holder = Holder(control, views, [path for name, path in parameters.items() if name.startswith("scratch ")])
    holder.serve()
    while not holder.is_first_process and not holder.has_no_children():
        holder.kill_everything()


if __name__ == "__main__":
    main(sys.argv[1:])
