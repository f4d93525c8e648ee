"""Ignore files that no program reads to their end: pipes, devices, what a link makes of them, and endless text."""

import os
import stat
from collections.abc import Callable

from adderclaw.config.paths import UNRESOLVED, followed
from adderclaw.core.errors import PathRefused
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


def waited_for(place: Place, over: Callable[[], bool]) -> str:
    """The path of a pipe or a device that git would read here; empty where there is none, or once it is `over`."""
    above = place
    while not above.is_root:
        above = above.parent
        lists = (*(above / name for name in READ_BY_GIT), above / ".git" / "info" / "exclude")
        if found := next((one for one in lists if _is_endless(one, most=None)), None):
            return found.text
    for entry in walk(place):
        if over():
            break
        if _is_of_git(entry.place) and _is_endless(entry.place, most=None):
            return entry.place.text
    return ""


def _is_of_git(place: Place) -> bool:
    if place.name in READ_BY_GIT:
        return True
    folder = place.parent
    return (folder.name, place.name) == EXCLUDE and exists(folder.parent / "HEAD")


def endless(place: Place, over: Callable[[], bool]) -> str:
    """The path of one that counts for a search of this place; empty where none does, or once it is `over`."""
    above = place
    while not above.is_root:
        above = above.parent
        if found := next((one for name in NAMES if _is_endless(one := above / name)), None):
            return found.text
    for entry in walk(place):
        if over():
            break
        if entry.place.name in NAMES and _is_endless(entry.place):
            return entry.place.text
    return ""


def _is_endless(place: Place, most: int | None = MOST_BYTES) -> bool:
    """`most`: how long a regular file may be; None where each of them has an end."""
    try:
        found = status(place)
        if stat.S_ISLNK(found.st_mode):
            real = followed(place.text)
            if real == UNRESOLVED:
                return False
            if os.path.join(real, "").startswith(KERNEL):
                return True
            found = status(anywhere(real))
    except (OSError, PathRefused):
        return False
    if stat.S_ISREG(found.st_mode):
        return most is not None and found.st_size > most
    return not stat.S_ISDIR(found.st_mode)
