"""Where a path leads, and what lies beneath what: the questions that the gate, the sandbox and the tools share."""

import errno
import os
import re
from collections.abc import Iterable

UNRESOLVED = "/dev/null/unresolved"
"""What stands for a path of which nobody can say where it leads: it lies in no folder, and the gate refuses it."""
_TRIES = 3
_PATH = getattr(os, "O_PATH", 0)
DELETED = " (deleted)"
"""What the kernel adds to the name of what is there no more."""
OWN_ENDINGS = ("-wal", "-shm", "-journal", ".lock", ".key", ".head", ".tmp", ".files")
"""What is kept beside our database and our log, by their names."""
_RUN = re.compile(r"run-|[^/]*\d{8}-\d{6}-")
"""How the folder of a run is called, with what `logging.run_id_pattern` puts before it."""


def is_run_name(name: str) -> bool:
    """Whether a name in the folder of runs, or a path that begins with it, is a run's."""
    return _RUN.match(name) is not None


def beneath(path: str, folder: str) -> bool:
    """Whether a path is that folder or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def followed(path: str) -> str:
    """A path with every link followed, or UNRESOLVED: `os.path.realpath`, which raises where a link is swapped."""
    if _has_no_link(path):
        return path
    for _ in range(_TRIES):
        try:
            return os.path.realpath(path)
        except OSError:
            continue  # it was a link when it was looked at, and none when it was read
        except ValueError:
            break  # no file can be called so: a NUL, or what is no Unicode
    return UNRESOLVED


def strays(path: str, roots: Iterable[str]) -> bool:
    """Whether a path that somebody names goes through a root or a git repository, by whichever name of it, and
    leads out of all of these: they may bring a link of that name."""
    above = [path]
    while (folder := os.path.dirname(above[-1])) != above[-1]:
        above.append(folder)
    led = [followed(root) for root in (*roots, *filter(_is_repository, above[1:]))]
    if any(beneath(followed(path), root) for root in led):
        return False
    return any(beneath(followed(folder), root) for folder in above[1:] for root in led)


def _is_repository(folder: str) -> bool:
    """The home is none, whatever is kept in git there."""
    return os.path.lexists(os.path.join(folder, ".git")) and folder != os.path.expanduser("~")


def _has_no_link(path: str) -> bool:
    """Whether the kernel itself calls what lies there by this very path, as it mostly does: three calls of the system,
    where `realpath` makes one for every folder on the way and goes through as many steps of Python."""
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
    """A path with every link followed; raises OSError where that cannot be told, for what must not be left out."""
    real = followed(path)
    if real == UNRESOLVED:
        raise OSError(errno.ELOOP, "it is not known where it leads: a link is changed at the same time", path)
    return real
