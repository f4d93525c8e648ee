"""Seatbelt on macOS: turns a sandbox specification into a profile for `sandbox-exec`, one for each command.

This code has not been run on a Mac. It is therefore used only after `prove` has shown that it works there: a command
under such a profile must not have read, written or reached anything forbidden.
"""

import os
import signal
import socket
from collections.abc import Iterable, Sequence

from adderclaw.config.paths import followed
from adderclaw.core.errors import AdderClawError
from adderclaw.models.http import own_server
from adderclaw.sandbox import caches, clearing, seen
from adderclaw.sandbox.bubblewrap import SandboxSpec, hidden_paths
from adderclaw.sandbox.process import ProcessRequest, UnconfinedProcess, View
from adderclaw.sandbox.programs import resolve
from adderclaw.sandbox.protected_paths import NO_MOUNTS, Mounts

PROGRAM = "sandbox-exec"
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/dtracehelper")
ALWAYS = (
    "(version 1)",
    "(deny default)",
    "(allow process-fork)",
    "(allow process-exec)",
    "(allow process-info* (target same-sandbox))",
    "(allow signal (target same-sandbox))",
    "(allow sysctl-read)",
    "(allow ipc-posix-sem)",
    '(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))',
    "(allow file-map-executable)",
    '(allow file-read* (literal "/"))',
)
"""What every program needs to start."""
NETWORK_RULES = (
    "(allow system-socket)",
    '(allow network-outbound (remote ip "*:*"))',
    '(allow network-inbound network-bind (local ip "*:*"))',
    '(allow network-outbound (literal "/private/var/run/mDNSResponder"))',
)
"""What network access needs, including name resolution."""
TRIAL_SECONDS = 20
TRIAL = """
cat "$1" && exit 3
ln "$1" second && exit 3
cat hidden && exit 4
ln hidden third && cat third && exit 4
mv hidden moved && exit 4
mv over moved && cat moved/hidden && exit 4
: > "$2" && exit 5
: > kept && exit 6
ln kept fourth && : > fourth && exit 6
rm -f kept && exit 6
mv above moved && exit 7
(exec 3<> "/dev/tcp/127.0.0.1/$3") && exit 8
echo 1 > new && echo 1 > "$TMPDIR/new" && cat kept || exit 9
"""
FAILED = {
    3: "it let a command read a file outside the workspace",
    4: "it let a command read a hidden file",
    5: "it let a command write outside the workspace",
    6: "it let a command change a protected file",
    7: "it let a command move a folder above a protected file",
    8: "it let a command reach the network",
    9: "a command could not write in its own workspace",
}


def profile(
    spec: SandboxSpec, *, tmp: str = "", mounts: Mounts = NO_MOUNTS, view: View = "all", blocked_port: int | None = None
) -> str:
    """The rules of a profile. The last matching rule decides: first the allowed paths, then exceptions within them."""
    shown = (*seen.readable(spec.roots, spec.shown), *filter(None, (spec.cache, tmp)))
    writable = () if spec.read_only else (*spec.roots, *filter(None, (spec.cache,)))
    writable = () if view == "read_only" else (*writable, tmp)
    lines = [
        *ALWAYS,
        _rule("allow", "file-read-metadata", "literal", _parent_folders((*shown, *spec.roots))),
        _rule("allow", "file-read*", "subpath", (*shown, *spec.roots)),
        _rule("allow", "file-read* file-write*", "literal", DEVICES),
        _rule("allow", "file-read* file-write*", "subpath", writable),
        _rule("deny", "file-write*", "subpath", (*mounts.kept, *map(followed, (*spec.kept, *spec.traces)))),
        _rule("deny", "file-write*", "literal", (*mounts.pinned, *_parents_in_roots(_hidden(spec), spec.roots))),
        *_network(reached=spec.network and view not in ("read_only", "offline"), blocked_port=blocked_port),
        # git starts programs that a repository names; it must not start those in the workspace
        _rule("deny", "process-exec", "subpath", spec.roots if view == "git" else ()),
        "(deny file-write-setugid)",
        _rule("deny", "file-read* file-write* process-exec network-outbound", "subpath", _hidden(spec)),
    ]
    return "\n".join(filter(None, lines)) + "\n"


def _network(*, reached: bool, blocked_port: int | None) -> list[str]:
    """Allows hosts but no Unix sockets of the machine, where an agent for keys or containers may listen."""
    if not reached:
        return ["(deny network*)"]
    return [*NETWORK_RULES, *_deny_port(blocked_port)]


def _deny_port(port: int | None) -> list[str]:
    return [f'(deny network-outbound (remote ip "*:{port}"))'] if port is not None else []


def _hidden(spec: SandboxSpec) -> tuple[str, ...]:
    """Includes paths that do not exist yet, because a rule needs no file."""
    return (*hidden_paths(spec), *spec.hidden, *map(followed, spec.hidden))


def command_without(away: Iterable[str], port: int, roots: Sequence[str]) -> tuple[str, ...]:
    """The command prefix that denies a program these paths and this port of the machine, and nothing else."""
    paths = _rule("deny", "file-read* file-write* network-outbound", "subpath", map(followed, away))
    rules = "\n".join(("(version 1)", "(allow default)", paths, *_deny_port(port)))
    return _sandbox_exec(roots), "-p", rules


def quoted(path: str) -> str:
    """A path as a string in a profile. Raises AdderClawError for a path that a profile cannot express."""
    if not os.path.isabs(path) or not path.isprintable():
        raise AdderClawError(f"{path!r} cannot be in a Seatbelt profile: it is relative or has control characters")
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _rule(verdict: str, what: str, how: str, paths: Iterable[str]) -> str:
    filters = [f"({how} {quoted(path)})" for path in dict.fromkeys(paths) if path]
    return f"({verdict} {what} {' '.join(filters)})" if filters else ""


def _parent_folders(paths: Iterable[str]) -> list[str]:
    """All folders above the paths: a program that goes there needs access to each of them."""
    folders: dict[str, None] = {}
    for path in paths:
        folder = os.path.dirname(path)
        while folder not in folders:
            folders[folder] = None
            folder = os.path.dirname(folder)
    return [*folders]


def _parents_in_roots(paths: Iterable[str], roots: Sequence[str]) -> list[str]:
    """The folders of the workspace above the paths. Rules name paths, so moving such a folder would evade them."""
    tops = tuple(f"{root.rstrip('/')}/" for root in roots)
    return [folder for folder in _parent_folders(paths) if folder.startswith(tops)]


class SeatbeltBackend:
    """Starts a session's commands (`box.Place`). There is no program inside: each command has its own profile."""

    def __init__(self, spec: SandboxSpec) -> None:
        import tempfile

        if spec.stand_in:
            raise AdderClawError("Seatbelt cannot show a copy of the workspace in its place; bubblewrap can")
        self.spec = spec
        self.running = self.gits = 0
        self.is_used = self.refuses_file_changes = False
        self._program = _sandbox_exec((*spec.roots, *spec.unsearched))
        clearing.sweep(tempfile.gettempdir())
        self._folder = followed(tempfile.mkdtemp(prefix=f"adderclaw-{os.getpid()}-"))
        self.env = {"TMPDIR": self._folder, "HOME": self._folder}
        self.defaults = dict(spec.variables)
        self._cache = -1
        if spec.cache and not spec.read_only:
            os.makedirs(spec.cache, mode=0o700, exist_ok=True)
            self.defaults |= caches.environment(spec.cache)
            self._cache = caches.lock_cache(spec.cache, spec.roots[0])
        self._everywhere, self._for_git = NO_MOUNTS, NO_MOUNTS
        self._commands: set[UnconfinedProcess] = set()

    def wait_until_ready(self) -> None:
        """It is always ready."""

    def is_alive(self) -> bool:
        return bool(self._folder)

    def start(self, order: ProcessRequest, mark: str, roots: Sequence[str]) -> UnconfinedProcess:  # noqa: ARG002 - `Bare` marks its own
        server = own_server.found() if self.spec.network else None
        rules = profile(
            self.spec,
            tmp=self._folder,
            mounts=self._for_git if order.view == "git" else self._everywhere,
            view=order.view,
            blocked_port=server.port if server is not None else None,
        )
        program = order.argv[0]
        if not os.path.isabs(program):
            path = resolve(program, roots)
            if path is None:
                raise FileNotFoundError(2, os.strerror(2), program)
            program = path
        return _ConfinedProcess(
            order._replace(argv=(self._program, "-p", rules, program, *order.argv[1:])), self._commands
        )

    def protect(self, everywhere: Mounts, for_git: Mounts) -> None:
        """Adds the mounts to the profile of every command that starts from now on."""
        self._everywhere, self._for_git = everywhere, for_git

    def forget_mounts(self) -> None:
        """Does nothing: rules name paths, so a new file of the same name is protected too."""

    def send_order(self, *words: str) -> None:
        number = signal.SIGSTOP if words == ("pause",) else signal.SIGCONT
        for command in tuple(self._commands):
            command.signal(number)

    def close(self) -> None:
        for command in tuple(self._commands):
            command.kill()
        if self._folder:
            clearing.clear(self._folder)
            self._folder = ""
        if self._cache >= 0:
            os.close(self._cache)
            self._cache = -1


class _ConfinedProcess(UnconfinedProcess):
    """One command under its profile."""

    def __init__(self, order: ProcessRequest, among: set[UnconfinedProcess]) -> None:
        super().__init__(order)
        self._among = among
        among.add(self)

    def close(self) -> int:
        self._among.discard(self)
        return super().close()


def _sandbox_exec(roots: Sequence[str]) -> str:
    path = resolve(PROGRAM, roots)
    if path is None:
        raise AdderClawError(f"`{PROGRAM}` is not on PATH")
    return path


def prove(roots: Sequence[str]) -> str | None:
    """Tests every promise of a profile with one command; returns the failure. Raises AdderClawError or OSError."""
    import subprocess
    import tempfile

    program = _sandbox_exec(roots)
    with tempfile.TemporaryDirectory(prefix="adderclaw-trial-") as folder, _open_listener() as listener:
        top = followed(folder)
        work, tmp, secret, other = (os.path.join(top, name) for name in ("work", "tmp", "secret", "other"))
        for directory in (os.path.join(work, "above"), os.path.join(work, "over"), tmp):
            os.makedirs(directory)
        for name in ("work/hidden", "work/over/hidden", "work/kept", "work/above/kept", "secret"):
            with open(os.path.join(top, name), "w", encoding="ascii") as file:
                file.write("text\n")
        above = os.path.join(work, "above")
        rules = profile(
            SandboxSpec(
                roots=(work,),
                hidden=(os.path.join(work, "hidden"), os.path.join(work, "over", "hidden")),
                kept=(os.path.join(work, "kept"),),
            ),
            tmp=tmp,
            mounts=Mounts(kept=(os.path.join(above, "kept"),), pinned=(above,)),
        )
        port = str(listener.getsockname()[1])
        argv = (program, "-p", rules, "/bin/bash", "--norc", "--noprofile", "-c", TRIAL, "trial", secret, other, port)
        env = {"PATH": "/usr/bin:/bin", "TMPDIR": tmp}
        try:
            done = subprocess.run(
                argv,
                cwd=work,
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=TRIAL_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return f"{PROGRAM} did not finish within {TRIAL_SECONDS} seconds"
        if done.returncode == 0 and os.path.exists(os.path.join(work, "new")):
            return None
        output = done.stderr.decode("utf-8", "replace").strip()[-300:]
        return FAILED.get(done.returncode) or f"{PROGRAM} ended with {done.returncode}: {output}"


def _open_listener() -> socket.socket:
    """A server on this machine that a command must not reach."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(1)
    return listener
