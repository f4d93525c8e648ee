"""Seatbelt on macOS: a room as a profile for `sandbox-exec`, a new one for each command.

Nothing of this has run on a Mac. So it is used only where `proof` has just shown that it holds: a command under a
profile of the real form read, wrote and reached nothing that it must not.
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
"""What a program needs to start at all."""
NETWORK_RULES = (
    "(allow system-socket)",
    '(allow network-outbound (remote ip "*:*"))',
    '(allow network-inbound network-bind (local ip "*:*"))',
    '(allow network-outbound (literal "/private/var/run/mDNSResponder"))',
)
"""What the machine's network takes, names of hosts among it."""
TRIAL_SECONDS = 20
"""How long the trial may take."""
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
    3: "it let a command read a file outside of the workspace",
    4: "it let a command read a hidden file",
    5: "it let a command write outside of the workspace",
    6: "it let a command change a protected file",
    7: "it let a command move a folder above a protected file",
    8: "it let a command reach the network",
    9: "a command could not write in its own workspace",
}


def profile(
    room: SandboxSpec, *, tmp: str = "", mounts: Mounts = NO_MOUNTS, view: View = "all", shut_port: int | None = None
) -> str:
    """The rules. The last one that fits decides: nothing but what is listed, then what stays closed in that."""
    shown = (*seen.readable(room.roots, room.shown), *filter(None, (room.cache, tmp)))
    writable = () if room.read_only else (*room.roots, *filter(None, (room.cache,)))
    writable = () if view == "read_only" else (*writable, tmp)
    lines = [
        *ALWAYS,
        _rule("allow", "file-read-metadata", "literal", _parent_folders((*shown, *room.roots))),
        _rule("allow", "file-read*", "subpath", (*shown, *room.roots)),
        _rule("allow", "file-read* file-write*", "literal", DEVICES),
        _rule("allow", "file-read* file-write*", "subpath", writable),
        _rule("deny", "file-write*", "subpath", (*mounts.kept, *map(followed, (*room.kept, *room.traces)))),
        _rule("deny", "file-write*", "literal", (*mounts.pinned, *_parents_in_roots(_hidden(room), room.roots))),
        *_network(reached=room.network and view not in ("read_only", "offline"), shut_port=shut_port),
        # git starts programs that a repository names: those of the workspace it cannot
        _rule("deny", "process-exec", "subpath", room.roots if view == "git" else ()),
        "(deny file-write-setugid)",
        _rule("deny", "file-read* file-write* process-exec network-outbound", "subpath", _hidden(room)),
    ]
    return "\n".join(filter(None, lines)) + "\n"


def _network(*, reached: bool, shut_port: int | None) -> list[str]:
    """Hosts, and no socket of the machine that has a path: an agent for keys or containers may listen there."""
    if not reached:
        return ["(deny network*)"]
    return [*NETWORK_RULES, *_deny_port(shut_port)]


def _deny_port(port: int | None) -> list[str]:
    return [f'(deny network-outbound (remote ip "*:{port}"))'] if port is not None else []


def _hidden(room: SandboxSpec) -> tuple[str, ...]:
    """Also what is not there yet: a rule needs no file."""
    return (*hidden_paths(room), *room.hidden, *map(followed, room.hidden))


def command_without(away: Iterable[str], port: int, roots: Sequence[str]) -> tuple[str, ...]:
    """What stands before a program that keeps all that it has, but for these paths and this port of the machine."""
    paths = _rule("deny", "file-read* file-write* network-outbound", "subpath", map(followed, away))
    rules = "\n".join(("(version 1)", "(allow default)", paths, *_deny_port(port)))
    return _sandbox_exec(roots), "-p", rules


def quoted(path: str) -> str:
    """A path as a string of a profile. One that cannot be written plainly is refused: it would not be confined."""
    if not os.path.isabs(path) or not path.isprintable():
        raise AdderClawError(f"{path!r} cannot stand in a Seatbelt profile: it is relative, or has control characters")
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _rule(verdict: str, what: str, how: str, paths: Iterable[str]) -> str:
    filters = [f"({how} {quoted(path)})" for path in dict.fromkeys(paths) if path]
    return f"({verdict} {what} {' '.join(filters)})" if filters else ""


def _parent_folders(paths: Iterable[str]) -> list[str]:
    """The folders on the way to paths: whoever goes there asks for each of them."""
    folders: dict[str, None] = {}
    for path in paths:
        folder = os.path.dirname(path)
        while folder not in folders:
            folders[folder] = None
            folder = os.path.dirname(folder)
    return [*folders]


def _parents_in_roots(paths: Iterable[str], roots: Sequence[str]) -> list[str]:
    """The folders of the workspace above paths: a rule is by path, and whoever moves one of them would be rid of it."""
    tops = tuple(f"{root.rstrip('/')}/" for root in roots)
    return [folder for folder in _parent_folders(paths) if folder.startswith(tops)]


class SeatbeltBackend:
    """A session's place to start commands (`box.Place`). No program waits in it: each command has its own profile."""

    def __init__(self, room: SandboxSpec) -> None:
        import tempfile

        if room.stand_in:
            raise AdderClawError("Seatbelt cannot show a copy of the workspace in its place: that takes bubblewrap")
        self.spec = room
        self.running = self.gits = 0
        self.is_used = self.refuses_file_changes = False
        self._program = _sandbox_exec((*room.roots, *room.unsearched))
        clearing.sweep(tempfile.gettempdir())
        self._folder = followed(tempfile.mkdtemp(prefix=f"adderclaw-{os.getpid()}-"))
        self.env = {"TMPDIR": self._folder, "HOME": self._folder}
        self.defaults = dict(room.variables)
        self._cache = -1
        if room.cache and not room.read_only:
            os.makedirs(room.cache, mode=0o700, exist_ok=True)
            self.defaults |= caches.environment(room.cache)
            self._cache = caches.lock_cache(room.cache, room.roots[0])
        self._everywhere, self._for_git = NO_MOUNTS, NO_MOUNTS
        self._commands: set[UnconfinedProcess] = set()

    def wait_until_ready(self) -> None:
        """It is ready as soon as it is there."""

    def is_alive(self) -> bool:
        return bool(self._folder)

    def start(self, order: ProcessRequest, mark: str, roots: Sequence[str]) -> UnconfinedProcess:  # noqa: ARG002 - `Bare` marks its own
        server = own_server.found() if self.spec.network else None
        rules = profile(
            self.spec,
            tmp=self._folder,
            mounts=self._for_git if order.view == "git" else self._everywhere,
            view=order.view,
            shut_port=server.port if server is not None else None,
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
        """It is in the profile of every command that starts from now on."""
        self._everywhere, self._for_git = everywhere, for_git

    def forget_mounts(self) -> None:
        """A rule is by path: a new file of the same name is kept as well."""

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
        raise AdderClawError(f"no `{PROGRAM}` on the PATH")
    return path


def prove(roots: Sequence[str]) -> str | None:
    """Try every promise of a profile with one command; what does not hold, or None. Raises AdderClawError, OSError."""
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
            return f"{PROGRAM} did not end within {TRIAL_SECONDS} seconds"
        if done.returncode == 0 and os.path.exists(os.path.join(work, "new")):
            return None
        output = done.stderr.decode("utf-8", "replace").strip()[-300:]
        return FAILED.get(done.returncode) or f"{PROGRAM} ended with {done.returncode}: {output}"


def _open_listener() -> socket.socket:
    """A door on this machine that a command must not reach."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(1)
    return listener
