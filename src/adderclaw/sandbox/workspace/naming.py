"""What a path leads to that somebody wrote: its links are followed once, and where they led nothing is followed.

Nearly always one call of the system answers, since it is only asked what is there and nothing is opened. What that call
cannot say (`..` behind a link or a file, folders that may not be searched) is looked up name by name.
"""

import os
import stat

from adderclaw.config.paths import followed
from adderclaw.core.errors import PathRefused
from adderclaw.sandbox.workspace.place import resolved_path
from adderclaw.sandbox.workspace.reading import exists, status


def stat_target(path: str) -> os.stat_result | None:
    """What an absolute path leads to; None where nothing is, or a link is put in the way meanwhile."""
    try:
        if "/.." not in path:
            return os.stat(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        pass
    try:
        return status(resolved_path(followed(path)))
    except (OSError, PathRefused):
        return None


def is_directory(path: str) -> bool:
    target = stat_target(path)
    return target is not None and stat.S_ISDIR(target.st_mode)


def is_regular(path: str) -> bool:
    target = stat_target(path)
    return target is not None and stat.S_ISREG(target.st_mode)


def is_named(path: str) -> bool:
    """Whether something has that name, were it a link that leads nowhere."""
    normal = os.path.normpath(path)
    try:
        os.lstat(normal)
        return True
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        pass
    folder, name = os.path.split(normal)
    try:
        return exists(resolved_path(os.path.join(followed(folder), name)))
    except PathRefused:
        return False
