"""Ignore files that no program reads to their end: pipes, devices, what a link makes of them, and endless text."""

import os
import stat
from collections.abc import Callable

from adderclaw.config.paths import UNRESOLVED, followed
from adderclaw.errors import Refused
from adderclaw.workspace.place import Place, anywhere
from adderclaw.workspace.reading import status, walk

NAMES = frozenset({".gitignore", ".ignore", ".rgignore"})
"""What ripgrep reads in each folder that it goes into, and in those above."""
MOST_BYTES = 1 << 20
KERNEL = ("/dev/", "/proc/", "/sys/")
"""What lies there is another thing for each program."""


READ_BY_GIT = frozenset({".gitignore", ".gitattributes", ".gitmodules", ".mailmap", "exclude"})


def endless(place: Place, over: Callable[[], bool], names: frozenset[str] = NAMES) -> str:
    """The path of one that counts for a search of this place; empty where none does, or once it is `over`."""
    above = place
    while not above.is_root:
        above = above.parent
        if found := next((one for name in names if _is_endless(one := above / name)), None):
            return found.text
    for entry in walk(place):
        if over():
            break
        if entry.place.name in names and _is_endless(entry.place):
            return entry.place.text
    return ""


def _is_endless(place: Place) -> bool:
    try:
        found = status(place)
        if stat.S_ISLNK(found.st_mode):
            real = followed(place.text)
            if real == UNRESOLVED:
                return False
            if os.path.join(real, "").startswith(KERNEL):
                return True
            found = status(anywhere(real))
    except (OSError, Refused):
        return False
    return not stat.S_ISDIR(found.st_mode) and (not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BYTES)
