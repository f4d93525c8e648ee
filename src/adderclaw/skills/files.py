"""Files of a skill, opened beneath its folder: nothing outside of it is reached, by `..` or by any link."""

import errno
import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from adderclaw.config.opening import ANCHOR, READ, opener
from adderclaw.config.paths import beneath, followed
from adderclaw.credentials.redaction import visible
from adderclaw.errors import Refused

MOST_FILES = 500
"""Files of one skill that are listed."""
SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv", ".DS_Store"})


class Piece(NamedTuple):
    """What was read of a file."""

    data: bytes
    size: int
    """Bytes of the whole file."""


def way_in(folder: str, given: str) -> str:
    """A path that somebody wrote, as the way from the skill's folder; raises Refused where it leads out."""
    shown = visible(given[:200], keep_newlines=False)
    if not given or "\0" in given or len(given) > 1000:
        raise Refused(f"{shown!r} is no path inside of a skill")
    if given.startswith(("/", "~")) or "\\" in given or "://" in given:
        raise Refused(f"{shown!r} is no path inside of the skill: name it from the skill's folder, as references/x.md")
    way = os.path.normpath(given)
    if way == ".." or way.startswith("../"):
        raise Refused(f"{shown!r} leads out of the skill's folder")
    real, root = followed(os.path.join(folder, way)), followed(folder)
    if not beneath(real, root):
        raise Refused(f"{shown!r} is a link that leads out of the skill's folder")
    return os.path.relpath(real, root)


def opened(folder: str, way: str) -> int:
    """A descriptor of a regular file of the skill, reached through no link; raises Refused, or OSError as open does."""
    anchor = os.open(folder, ANCHOR)
    try:
        descriptor = opener()(anchor, way, READ)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EXDEV):
            raise Refused(f"{visible(way, keep_newlines=False)!r} is reached through a link") from None
        raise
    finally:
        os.close(anchor)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Refused(f"{visible(way, keep_newlines=False)!r} is not a regular file")
    return descriptor


def read(folder: str, given: str, most: int) -> Piece:
    """At most so many bytes of a file of the skill; raises Refused, also for one that is not there."""
    way = way_in(folder, given)
    try:
        with open(opened(folder, way), "rb") as file:
            return Piece(file.read(most), os.fstat(file.fileno()).st_size)
    except OSError as error:
        shown = visible(given[:200], keep_newlines=False)
        raise Refused(f"{shown!r} cannot be read: {error.strerror}") from None


def listed(folder: str, under: str = "") -> Iterator[str]:
    """The skill's files by their way from its folder, folder after folder; links to folders are not followed."""
    waiting, count = [under], 0
    while waiting and count < MOST_FILES:
        here = waiting.pop()
        try:
            entries = sorted(os.scandir(os.path.join(folder, here)), key=lambda entry: entry.name, reverse=True)
        except OSError:
            continue
        files: list[str] = []
        for entry in entries:
            if entry.name in SKIPPED:
                continue
            way = f"{here}/{entry.name}" if here else entry.name
            if entry.is_dir(follow_symlinks=False):
                waiting.append(way)
            elif entry.is_file():
                files.append(way)
        for way in reversed(files):
            count += 1
            if count <= MOST_FILES:
                yield way
