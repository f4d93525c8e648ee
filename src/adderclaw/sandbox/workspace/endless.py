"""Ignore files that no program reads to their end: pipes, devices, what a link makes of them, and endless text."""

import os
import stat
from collections.abc import Callable

from adderclaw.config.paths import UNRESOLVED, followed
from adderclaw.core.errors import Refused
from adderclaw.sandbox.workspace.place import Place, anywhere
from adderclaw.sandbox.workspace.reading import exists, status, walk

NAMES = frozenset({".gitignore", ".ignore", ".rgignore"})
"""What ripgrep reads in each folder that it goes into, and in those above."""
MOST_BYTES = 1 << 20
KERNEL = ("/dev/", "/proc/", "/sys/")
"""What lies there is another thing for each program."""


READ_BY_GIT = frozenset({".gitignore", ".gitattributes", ".gitmodules", ".mailmap"})
EXCLUDE = ("info", "exclude")
"""In a git directory."""


def waited_for(path: Place, over: Callable[[], bool]) -> str:
    """The path of a pipe or a device that git would read here; empty where there is none, or once it is `over`."""
    above = path
    while not above.is_root:
        above = above.parent
        lists = (*(above / name for name in READ_BY_GIT), above / ".git" / "info" / "exclude")
        if special_file := next((candidate for candidate in lists if _is_endless(candidate, most=None)), None):
            return special_file.text
    for entry in walk(path):
        if over():
            break
        if _is_of_git(entry.place) and _is_endless(entry.place, most=None):
            return entry.place.text
    return ""


def _is_of_git(path: Place) -> bool:
    if path.name in READ_BY_GIT:
        return True
    folder = path.parent
    return (folder.name, path.name) == EXCLUDE and exists(folder.parent / "HEAD")


def endless(path: Place, over: Callable[[], bool]) -> str:
    """The path of one that counts for a search of this place; empty where none does, or once it is `over`."""
    above = path
    while not above.is_root:
        above = above.parent
        if ignore_file := next((candidate for name in NAMES if _is_endless(candidate := above / name)), None):
            return ignore_file.text
    for entry in walk(path):
        if over():
            break
        if entry.place.name in NAMES and _is_endless(entry.place):
            return entry.place.text
    return ""


def _is_endless(path: Place, most: int | None = MOST_BYTES) -> bool:
    """`most`: how long a regular file may be; None where each of them has an end."""
    try:
        stat_result = status(path)
        if stat.S_ISLNK(stat_result.st_mode):
            real = followed(path.text)
            if real == UNRESOLVED:
                return False
            if os.path.join(real, "").startswith(KERNEL):
                return True
            stat_result = status(anywhere(real))
    except (OSError, Refused):
        return False
    if stat.S_ISREG(stat_result.st_mode):
        return most is not None and stat_result.st_size > most
    return not stat.S_ISDIR(stat_result.st_mode)
