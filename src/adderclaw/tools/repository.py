"""What the configuration of a git repository names: read as git reads it, and without running git."""

import os
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from adderclaw.gate.programs import git

_MAX_BYTES = 1 << 20
_MAX_FOLDERS = 64


def helpers(places: Iterable[str]) -> tuple[str, ...]:
    """The settings that name a program, or send git elsewhere, in every repository that one of the places lies in."""
    found: dict[str, None] = {}
    folders = dict.fromkeys(folder for place in places for folder in _repositories(place))
    for folder in list(folders)[:_MAX_FOLDERS]:
        for name in ("config", "config.worktree"):
            found.update(dict.fromkeys(_named(os.path.join(folder, name))))
    return tuple(found)


def _repositories(place: str) -> Iterator[str]:
    """The folders with the configuration of the repository that a place lies in: its own, and the common one."""
    here = os.path.abspath(place)
    while True:
        entry = os.path.join(here, ".git")
        if os.path.isdir(entry):
            yield from _with_common(entry)
            return
        if os.path.isfile(entry):
            # A worktree or a submodule: the file says where.
            pointed = _first_line(entry).removeprefix("gitdir:").strip()
            if pointed:
                yield from _with_common(os.path.join(here, pointed))
            return
        if os.path.isfile(os.path.join(here, "HEAD")) and os.path.isdir(os.path.join(here, "objects")):
            yield here
            return
        above = os.path.dirname(here)
        if above == here:
            return
        here = above


def _with_common(folder: str) -> Iterator[str]:
    yield folder
    common = _first_line(os.path.join(folder, "commondir"))
    if common:
        yield os.path.join(folder, common)


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readline(4096).strip()
    except OSError:
        return ""


def _named(path: str) -> tuple[str, ...]:
    try:
        state = os.stat(path)
    except OSError:
        return ()
    if state.st_size > _MAX_BYTES:
        return ("include.path",)
    return _read(path, state.st_mtime_ns, state.st_size, state.st_ino)


@lru_cache(maxsize=64)
def _read(path: str, _changed: int, _size: int, _number: int) -> tuple[str, ...]:
    try:
        with open(path, encoding="utf-8-sig", errors="replace") as file:
            text = file.read(_MAX_BYTES)
    except OSError:
        return ()
    return tuple(dict.fromkeys(key for key, value in settings(text) if git.is_helper(key, value)))


_SECTION = r'\s*\[\s*([\w.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\](.*)'
_SETTING = r"\s*([A-Za-z][\w-]*)\s*(?:=\s*(.*))?"


def settings(text: str) -> Iterator[tuple[str, str]]:
    """(section.subsection.key, value) of each line. Where one cannot be read, git gives up, too."""
    section = ""
    for written in re.sub(r"\\\r?\n", " ", text).splitlines():
        line = written
        match = re.fullmatch(_SECTION, line, re.DOTALL)
        if match is not None:
            section = match[1] if match[2] is None else f"{match[1]}.{match[2]}"
            line = match[3]
        if not line.strip() or line.lstrip().startswith(("#", ";")):
            continue
        setting = re.fullmatch(_SETTING, line, re.DOTALL)
        if setting is not None and section:
            yield f"{section}.{setting[1]}", _value(setting[2] or "")


def _value(text: str) -> str:
    plain = re.sub(r'(?<!\\)"', "", text.split(" #", 1)[0].split(" ;", 1)[0])
    return plain.replace('\\"', '"').strip()
