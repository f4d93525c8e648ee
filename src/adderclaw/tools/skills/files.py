"""Files of a skill, opened beneath its folder. Nothing outside it can be reached through `..` or a link."""

import os
from collections.abc import Iterator
from typing import NamedTuple

from adderclaw.config.paths import beneath, followed
from adderclaw.core.errors import PathRefused
from adderclaw.core.redaction import visible
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import WorkspacePath

MOST_FILES = 500
"""At most this many files of one skill are listed."""
SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv", ".DS_Store"})


class FilePart(NamedTuple):
    """The beginning of a file."""

    data: bytes
    size: int
    """Bytes of the whole file."""


def path_inside(folder: str, path: str) -> str:
    """Normalizes a path to one relative to the skill's folder; raises PathRefused if it leads out of the folder."""
    shown = visible(path[:200], keep_newlines=False)
    if not path or "\0" in path or len(path) > 1000:
        raise PathRefused(f"{shown!r} is not a valid path in a skill")
    if path.startswith(("/", "~")) or "\\" in path or "://" in path:
        raise PathRefused(
            f"{shown!r} is not a path in the skill. Use a path relative to the skill's folder, such as references/x.md"
        )
    way = os.path.normpath(path)
    if way == ".." or way.startswith("../"):
        raise PathRefused(f"{shown!r} leads out of the skill's folder")
    real = followed(os.path.join(folder, way))
    if not beneath(real, folder):
        raise PathRefused(f"{shown!r} is a link that leads out of the skill's folder")
    return os.path.relpath(real, folder)


def _location(folder: str, way: str = ".") -> WorkspacePath:
    """A location in a skill's folder. The folder was resolved before; if it is a link now, the link is not followed."""
    return workspace.resolved_path(WorkspacePath(folder, way).text)


def open_file(folder: str, way: str) -> int:
    """Opens a regular file of the skill without following links; raises PathRefused, or OSError as open does."""
    try:
        return workspace.open_file(_location(folder, way))
    except IsADirectoryError:
        raise PathRefused(f"{visible(way, keep_newlines=False)!r} is not a regular file") from None


def read_file(folder: str, path: str, most: int) -> FilePart:
    """The first `most` bytes of a file of the skill; raises PathRefused, also for a missing file."""
    way = path_inside(folder, path)
    try:
        with os.fdopen(open_file(folder, way), "rb") as file:
            return FilePart(file.read(most), os.fstat(file.fileno()).st_size)
    except OSError as error:
        shown = visible(path[:200], keep_newlines=False)
        raise PathRefused(f"{shown!r} cannot be read: {error.strerror}") from None


def is_link(folder: str, way: str) -> bool:
    try:
        return workspace.Entry(location := _location(folder, way), workspace.status(location)).is_link
    except (OSError, PathRefused):
        return True


def list_files(folder: str, under: str = "") -> Iterator[str]:
    """The relative paths of the skill's files, folder by folder. Links to folders are not followed."""

    def links_to_file(way: str) -> bool:
        try:
            return workspace.is_file(_location(folder, path_inside(folder, way)))
        except PathRefused:
            return False

    waiting, count = [under], 0
    while waiting and count < MOST_FILES:
        here = waiting.pop()
        try:
            entries = workspace.entries(_location(folder, here or "."))
        except (OSError, PathRefused):
            continue
        files: list[str] = []
        for entry in reversed(entries):
            if (name := entry.path.name) in SKIPPED:
                continue
            way = os.path.join(here, name)
            if entry.is_folder:
                waiting.append(way)
            elif entry.is_file or (entry.is_link and links_to_file(way)):
                files.append(way)
        for way in reversed(files):
            count += 1
            if count <= MOST_FILES:
                yield way
