"""Finds ignore files that would block or exhaust a program that reads them: pipes, devices and very long files."""

import os
import stat
from collections.abc import Callable

from adderclaw.config.paths import UNRESOLVED, followed
from adderclaw.core.errors import PathRefused
from adderclaw.sandbox.workspace.path import WorkspacePath, resolved_path
from adderclaw.sandbox.workspace.reading import exists, status, walk

NAMES = frozenset({".gitignore", ".ignore", ".rgignore"})
"""The files that ripgrep reads in each folder that it searches, and in the folders above."""
MAX_BYTES = 1 << 20
KERNEL = ("/dev/", "/proc/", "/sys/")
"""Links to these folders lead each program to something else."""


GIT_FILES = frozenset({".gitignore", ".gitattributes", ".gitmodules", ".mailmap"})
EXCLUDE = ("info", "exclude")
"""In a git directory."""


def blocking_git_file(path: WorkspacePath, over: Callable[[], bool]) -> str:
    """The path of a pipe or device that git would read here; empty if there is none, or once `over` returns True."""
    above = path
    while not above.is_root:
        above = above.parent
        lists = (*(above / name for name in GIT_FILES), above / ".git" / "info" / "exclude")
        if special_file := next((candidate for candidate in lists if _is_endless(candidate, most=None)), None):
            return special_file.text
    for entry in walk(path):
        if over():
            break
        if _is_of_git(entry.path) and _is_endless(entry.path, most=None):
            return entry.path.text
    return ""


def _is_of_git(path: WorkspacePath) -> bool:
    if path.name in GIT_FILES:
        return True
    folder = path.parent
    return (folder.name, path.name) == EXCLUDE and exists(folder.parent / "HEAD")


def endless_ignore_file(path: WorkspacePath, over: Callable[[], bool]) -> str:
    """The path of an endless ignore file that applies to a search here; empty if there is none, or once `over`."""
    above = path
    while not above.is_root:
        above = above.parent
        if ignore_file := next((candidate for name in NAMES if _is_endless(candidate := above / name)), None):
            return ignore_file.text
    for entry in walk(path):
        if over():
            break
        if entry.path.name in NAMES and _is_endless(entry.path):
            return entry.path.text
    return ""


def _is_endless(path: WorkspacePath, most: int | None = MAX_BYTES) -> bool:
    """`most`: how long a regular file may be; None allows any length."""
    try:
        stat_result = status(path)
        if stat.S_ISLNK(stat_result.st_mode):
            real = followed(path.text)
            if real == UNRESOLVED:
                return False
            if os.path.join(real, "").startswith(KERNEL):
                return True
            stat_result = status(resolved_path(real))
    except (OSError, PathRefused):
        return False
    if stat.S_ISREG(stat_result.st_mode):
        return most is not None and stat_result.st_size > most
    return not stat.S_ISDIR(stat_result.st_mode)
