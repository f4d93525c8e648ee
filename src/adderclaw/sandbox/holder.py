"""Starts the program inside a sandbox (`inside.py`) and talks to it; it starts every command of a session.

Creating a namespace takes milliseconds; asking a process that is already in one takes a fraction of that. Messages from
the program inside are trusted no more than those of a command: it is equally confined, and a command could replace it.
"""

import contextlib
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from adderclaw.config.paths import followed
from adderclaw.core.errors import AdderClawError
from adderclaw.sandbox import caches, limits, seen
from adderclaw.sandbox.bubblewrap import SandboxSpec, hidden_paths, options, scratch_folders
from adderclaw.sandbox.clearing import clear, sweep
from adderclaw.sandbox.memory import memory_file
from adderclaw.sandbox.process import KILL_WAIT, ProcessRequest
from adderclaw.sandbox.programs import NO_OUTPUT, NO_PROGRAM, bubblewrap, is_inside
from adderclaw.sandbox.protected_paths import NO_MOUNTS, Mounts
from adderclaw.sandbox.started_inside import StartedInside

if TYPE_CHECKING:
    from subprocess import Popen

    from adderclaw.sandbox.proxy import Proxy

type Kind = Literal["bubblewrap", "landlock"]

START_WAIT = 10.0
"""Seconds that the program inside has to start and to answer; after that the sandbox is ended."""
MESSAGE_BYTES, IN_A_FILE = 32_768, b"in a file"
"""The longest payload of a message, and the message that announces a longer one; `inside` has the same values."""
REFUSING = b"ready refusing"
"""The greeting of the program inside if the kernel supports no supervisor; `inside` sends the same."""
PROXY_PORT = 3128
INSIDE = ("inside_mounts", "inside_rights", "inside_processes", "inside_views", "inside")
"""The modules of the program inside: each imports only from those before it."""
LOAD = """
import marshal, posix, sys
for name, code in marshal.loads(posix.read(0, 1 << 24)):
    module = type(sys)(name)
    sys.modules.setdefault(name, module)
    exec(code, module.__dict__)
"""
KEPT_CAPABILITIES_MASK = 0b1011
"""`bubblewrap.KEPT_CAPABILITIES` as the kernel numbers them."""
UNHIDDEN = (
    "{secret} is in the workspace, where Landlock cannot hide it. Install bubblewrap, or work in another directory"
)


class LinuxBackend:
    """The backend for bubblewrap and Landlock. The program inside starts at once; wait until it is ready."""

    def __init__(self, kind: Kind, spec: SandboxSpec, proxy: "Proxy | None") -> None:
        self.spec = spec
        self.running = self.gits = 0
        """How many commands run in it, and how many of them are git's own."""
        self.is_used = False
        """Whether a command ever ran in it."""
        self._mounted = NO_MOUNTS, NO_MOUNTS
        self.env: dict[str, str] = {"TMPDIR": "/tmp"}
        self.defaults = dict(spec.variables)
        """Variables that a command has unless its request sets them."""
        self._cache = -1
        self._folder = ""
        self._proxy = proxy
        self.refuses_file_changes = False
        """Whether changes of modes, owners, times and attributes are refused everywhere."""
        self._group: limits.Group | None = None
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        # Without a namespace, a supervisor starts the program inside.
        first = _compile_modules(*INSIDE) if kind == "bubblewrap" else _compile_modules("supervise")
        self._complaints = memory_file(b"")
        self._pidfd = -1
        self._caching = bool(spec.cache) and not spec.read_only
        try:
            self._process = self._launch(kind, theirs, first)
        except BaseException:
            self._control.close()
            os.close(self._complaints)
            raise

    def _launch(self, kind: Kind, theirs: socket.socket, first: bytes) -> "Popen[bytes]":
        from subprocess import Popen

        spec, text = self.spec, memory_file(first)
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, text)
            stack.callback(theirs.close)
            fds = [theirs.fileno()]
            if self._caching:
                os.makedirs(spec.cache, mode=0o700, exist_ok=True)
                self.defaults |= caches.environment(
                    (spec.cache_at or caches.MOUNT_POINT) if kind == "bubblewrap" else spec.cache
                )
            prepare = self._bubblewrap_command if kind == "bubblewrap" else self._landlock_command
            argv = prepare(spec, fds, stack)

            def begin() -> "Popen[bytes]":
                return Popen(
                    argv,
                    stdin=text,
                    stdout=self._complaints,
                    stderr=self._complaints,
                    env={},
                    cwd="/",
                    pass_fds=fds,
                    start_new_session=True,
                )

            # A sandbox that shares the network of the machine must not reach AdderClaw's own server.
            return _start_without_server(begin) if spec.network else begin()

    def _bubblewrap_command(self, spec: SandboxSpec, fds: list[int], stack: contextlib.ExitStack) -> list[str]:
        from adderclaw.sandbox import landlock
        from adderclaw.sandbox.seccomp import PERSISTENT_MEMORY, filter_program

        bwrap = spec.bwrap or bubblewrap((*spec.roots, *spec.unsearched))
        if bwrap is None:
            raise AdderClawError(NO_PROGRAM)
        code = memory_file(filter_program("namespace"))
        stack.callback(os.close, code)
        looking = memory_file(filter_program("none", refused=PERSISTENT_MEMORY))
        stack.callback(os.close, looking)
        numbers = {"seccomp": code, "looking": looking, "capabilities": 0 if os.geteuid() else KEPT_CAPABILITIES_MASK}
        fds += [code, looking]
        if (scope := landlock.scope()) is not None:
            stack.callback(os.close, scope)
            numbers["scope"] = scope
            fds.append(scope)
        if self._proxy is not None:
            self.env |= self._proxy.environment(PROXY_PORT)
            numbers["port"] = PROXY_PORT
        files = {name: fd for name in seen.FILES if (fd := _open_setting(f"/etc/{name}", stack)) is not None}
        fds += files.values()
        own = [f"scratch {number}={path}" for number, path in enumerate(scratch_folders(spec))]
        started = [*_interpreter(), *_program_arguments(fds[0], **numbers), *_root_arguments(spec), *own]
        return [bwrap, *options(spec, files), "--", *started]

    def _landlock_command(self, spec: SandboxSpec, fds: list[int], stack: contextlib.ExitStack) -> list[str]:
        import tempfile

        from adderclaw.sandbox import landlock
        from adderclaw.sandbox.seccomp import INSTALL, filter_program, supervised_calls

        if secret := next((path for path in hidden_paths(spec) if is_inside(path, spec.roots)), None):
            raise AdderClawError(UNHIDDEN.format(secret=secret))
        sweep(tempfile.gettempdir())
        self._folder = followed(tempfile.mkdtemp(prefix=f"adderclaw-{os.getpid()}-"))
        self.env = {"TMPDIR": self._folder, "HOME": self._folder}
        away = hidden_paths(spec)
        tops = (*seen.readable(spec.roots, spec.shown), "/proc", *(spec.roots if spec.read_only else ()))
        readable = [path for top in tops for path in landlock.visible(away, (), top)]
        writable = (self._folder, *(() if spec.read_only else (*spec.roots, *filter(None, [spec.cache]))))
        rules = landlock.ruleset(readable, writable, network=spec.network)
        stack.callback(os.close, rules)
        network = "namespace" if spec.network else "none"
        # Landlock before version 3 cannot restrict `truncate`.
        without = () if landlock.version() >= 3 else ("truncate",)
        numbers = {"ruleset": rules}
        texts = {
            "seccomp": filter_program(network, outside="asked", refused=without),
            "refused": filter_program(network, outside="refused", refused=without),
            "program": _compile_modules(*INSIDE),
            "roots": os.fsencode("\0".join(writable)),
        }
        for name, text in texts.items():
            numbers[name] = memory_file(text)
            stack.callback(os.close, numbers[name])
        fds += numbers.values()
        asked = ",".join(f"{name}:{number}" for name, number in supervised_calls().items())
        numbers["install"] = INSTALL[os.uname().machine]
        return [*_interpreter(), *_program_arguments(fds[0], **numbers), f"calls={asked}"]

    def wait_until_ready(self) -> None:
        """Wait until the program inside is ready, once. Raises AdderClawError if it does not start."""
        if self._complaints < 0:
            return
        complaints, self._complaints = self._complaints, -1
        try:
            self._receive_ready(complaints)
            if self._caching:
                self._cache = caches.lock_cache(self.spec.cache, self.spec.roots[0] if self.spec.roots else "")
        finally:
            os.close(complaints)

    def _receive_ready(self, complaints: int) -> None:
        """Read the greeting: it contains the process id and the listening socket of the proxy."""
        self._control.settimeout(START_WAIT)
        try:
            message, ancillary, _, _ = self._control.recvmsg(64, 256, socket.MSG_CMSG_CLOEXEC)
        except TimeoutError:
            message, ancillary = b"", []
        self.refuses_file_changes = message == REFUSING
        if message not in (b"ready", REFUSING):
            self._kill_launcher()
            self._process.wait()
            self.close()
            output = os.pread(complaints, 4096, 0).decode("utf-8", "replace").strip()
            raise AdderClawError(f"the sandbox did not start: {output[-300:] or NO_OUTPUT}")
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
                self._track_process(struct.unpack("=iii", data[:12])[0])
            elif self._proxy is not None:
                self._proxy.serve(socket.socket(fileno=struct.unpack("=i", data[:4])[0]))
        self._control.settimeout(KILL_WAIT)

    def _track_process(self, pid: int) -> None:
        with contextlib.suppress(AttributeError, OSError):
            self._pidfd = os.pidfd_open(pid)
        if os.geteuid() == 0:
            self._group = limits.Group(pid)

    def is_alive(self) -> bool:
        """False once it is closed, even while its processes are still ending."""
        return self._control.fileno() >= 0 and not self._has_ended()

    def _has_ended(self) -> bool:
        """Whether the process has ended; it is not reaped here, so that its id stays valid until `close`."""
        if self._process.returncode is not None:
            return True
        try:
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return self._process.poll() is not None

    def _kill_launcher(self) -> None:
        """Kill bwrap with its child: if bwrap dies before it releases the child, the child would wait forever."""
        if self._folder or self._process.returncode is not None:
            self._process.kill()
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def protect(self, everywhere: Mounts, for_git: Mounts) -> None:
        """Mount these paths read-only unless they are already; Landlock has no mounts."""
        if self._folder or (everywhere, for_git) == self._mounted:
            return
        self.send_order("protect git", "\0".join(for_git.pinned), "", "\0".join(for_git.kept))
        self.send_order("protect", "\0".join(everywhere.pinned), "", "\0".join(everywhere.kept))
        self._mounted = everywhere, for_git

    def forget_mounts(self) -> None:
        """Mount again next time: a file that git recreated has no mount, even if it looks the same."""
        self._mounted = NO_MOUNTS, NO_MOUNTS

    def send_order(self, *words: str) -> None:
        """Send an order that is not a command, and wait until it is carried out."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            with theirs:
                self.send(os.fsencode("\0".join(words)), [theirs.fileno()])
            ours.settimeout(START_WAIT)
            answer = ours.recv(4096)
        if answer != b"done ":
            reason = (
                answer.removeprefix(b"done ").decode("utf-8", "replace")
                or "the program inside the sandbox does not answer"
            )
            raise AdderClawError(f"the sandbox could not carry out {words[0]!r}: {reason}")

    def start(self, order: ProcessRequest, mark: str, roots: Sequence[str]) -> StartedInside:
        return StartedInside(self, order, mark, roots, START_WAIT)

    def send(self, payload: bytes, fds: list[int]) -> None:
        """Send a command to the program inside. Raises OSError if it has ended."""
        if len(payload) <= MESSAGE_BYTES:
            socket.send_fds(self._control, [payload], fds)
            return
        file = memory_file(payload)
        try:
            socket.send_fds(self._control, [IN_A_FILE], [file, *fds])
        finally:
            os.close(file)

    def close(self) -> None:
        """End the program inside, and everything in the sandbox with it."""
        from subprocess import TimeoutExpired

        self._control.close()
        if self._complaints >= 0 or self._has_ended():  # it was never ready, or has ended
            self._kill_launcher()
        if self._complaints >= 0:
            os.close(self._complaints)
            self._complaints = -1
        if self._pidfd >= 0:
            with contextlib.suppress(OSError):
                self._kill_program_inside()
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

    def _kill_program_inside(self) -> None:
        # In a namespace everything dies with it. With Landlock it has to end the other processes first.
        if self._folder == "":
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)


def _open_setting(path: str, stack: contextlib.ExitStack) -> int | None:
    """Open a system setting to be copied; None if it does not exist or cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    stack.callback(os.close, fd)
    return fd


def _interpreter() -> tuple[str, ...]:
    """Python that reads its program from standard input, so that AdderClaw's files need not be visible."""
    return (getattr(sys, "_base_executable", "") or sys.executable, "-I", "-S", "-c", LOAD)


def _compile_modules(*names: str) -> bytes:
    """The compiled modules of this folder, the program last. Python's cache is used: compiling takes as long as
    starting Python."""
    import marshal
    from importlib.machinery import SourceFileLoader

    folder = os.path.dirname(__file__)
    full = [f"{__package__}.{name}" for name in names]
    loaders = [SourceFileLoader(name, os.path.join(folder, f"{name.rpartition('.')[2]}.py")) for name in full]
    codes = [loader.get_code(name) for name, loader in zip(full, loaders, strict=True)]
    return marshal.dumps((*zip([*full[:-1], "__main__"], codes, strict=True),))


def _root_arguments(spec: SandboxSpec) -> list[str]:
    """Arguments for folders whose programs git must not start: see `inside_views.forbid_workspace_programs`."""
    return [f"root {number}={path}" for number, path in enumerate(spec.roots)]


def _start_without_server(begin: "Callable[[], Popen[bytes]]") -> "Popen[bytes]":
    from adderclaw.models.http import own_server

    if (running := own_server.found()) is None:
        return begin()
    from adderclaw.sandbox import blocked_port

    return blocked_port.call_without_port(running.port, begin)


def _program_arguments(control: int, **numbers: int) -> list[str]:
    own_users = os.geteuid() != 0 and "ruleset" not in numbers
    parameters: dict[str, Any] = {"control": control, **limits.process_limits(own_users=own_users), **numbers}
    return [f"{name}={value}" for name, value in parameters.items()]
