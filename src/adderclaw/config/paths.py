"""Resolves links and compares paths, for the policy, the sandbox and the tools."""

import errno
import os
import re
from collections.abc import Iterable

UNRESOLVED = "/dev/null/unresolved"
"""Stands for a path that cannot be resolved. It is in no folder, and the policy refuses it."""
_TRIES = 3
_PATH = getattr(os, "O_PATH", 0)
DELETED = " (deleted)"
"""The suffix that the kernel adds to the name of a deleted file."""
OWN_ENDINGS = ("-wal", "-shm", "-journal", ".lock", ".key", ".head", ".tmp", ".files")
"""Suffixes of the companion files of the database and the receipt log."""
_RUN = re.compile(r"run-|[^/]*\d{8}-\d{6}-")
"""The name of a run folder, including any prefix from `logging.run_id_pattern`."""


def is_run_name(name: str) -> bool:
    """Whether a name, or the start of a path, in the folder of runs belongs to a run."""
    return _RUN.match(name) is not None


def beneath(path: str, folder: str) -> bool:
    """Whether a path is the folder or is inside it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def followed(path: str) -> str:
    """A path with all links resolved, or UNRESOLVED. Retries `os.path.realpath`, which fails if a link changes
    meanwhile."""
    if _has_no_link(path):
        return path
    for _ in range(_TRIES):
        try:
            return os.path.realpath(path)
        except OSError:
            continue  # the link was replaced between two system calls
        except ValueError:
            break  # an impossible name: it contains a NUL or cannot be encoded
    return UNRESOLVED


def strays(path: str, roots: Iterable[str]) -> bool:
    """Whether a path goes through a root or a git repository and leads out of all of them, as it would through a link
    that one of them contains."""
    above = [path]
    while (folder := os.path.dirname(above[-1])) != above[-1]:
        above.append(folder)
    led = [followed(root) for root in (*roots, *filter(_is_repository, above[1:]))]
    if any(beneath(followed(path), root) for root in led):
        return False
    return any(beneath(followed(folder), root) for folder in above[1:] for root in led)


def _is_repository(folder: str) -> bool:
    """Whether a folder is a git repository. The home directory never counts."""
    return os.path.lexists(os.path.join(folder, ".git")) and folder != os.path.expanduser("~")


def _has_no_link(path: str) -> bool:
    """Whether the kernel resolves the path to itself, which is the usual case. This takes three system calls, while
    `realpath` needs one per folder."""
    if not _PATH or not path.startswith("/") or path.endswith(DELETED):
        return False
    try:
        fd = os.open(path, _PATH | os.O_CLOEXEC)
    except (OSError, ValueError):
        return False
    try:
        return os.readlink(f"/proc/self/fd/{fd}") == path
    except OSError:
        return False
    finally:
        os.close(fd)


def settled(path: str) -> str:
    """A path with all links resolved; raises OSError if that is impossible, for paths that must not be skipped."""
    real = followed(path)
    if real == UNRESOLVED:
        raise OSError(errno.ELOOP, "the path cannot be resolved: it is invalid, or a link in it keeps changing", path)
    return real
