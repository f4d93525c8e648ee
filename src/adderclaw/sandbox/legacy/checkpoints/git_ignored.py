"""Which files of a tree git ignores, read from its own files: no git is started for it."""

import re
import struct
from collections.abc import Iterable, Mapping

from adderclaw.core.errors import PathRefused
from adderclaw.core.glob_patterns import InvalidPattern, gitignore
from adderclaw.core.record import NamedTuple
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import WorkspacePath
from adderclaw.storage.checkpoints import State

RULES = ".gitignore"
MOST_BYTES = 64 << 20
_FIXED = 62
"""Bytes of an entry of the index before its name."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    ignores: bool
    folders_only: bool


def ignored(root: str, entries: Mapping[str, State]) -> frozenset[str]:
    """What git ignores and does not track, folders included. An executable file is never part of it, because it may
    be the program, built from the sources. Where the index cannot be read, nothing is ignored."""
    tracked = _tracked(root)
    if tracked is None:
        return frozenset()
    rules = {"": [*_rules(root, ".git/info/exclude"), *(_rules(root, RULES) if RULES in entries else ())]}
    shut: set[str] = set()
    found: set[str] = set()
    for path, state in sorted(entries.items()):
        above, _, _ = path.rpartition("/")
        if above in shut or _matches(rules, path, is_folder=state.kind == "folder"):
            if state.kind == "folder":
                shut.add(path)
            elif path not in tracked and not (state.kind == "file" and state.mode & 0o111):
                found.add(path)
        elif state.kind == "folder" and f"{path}/{RULES}" in entries:
            rules[path] = _rules(root, f"{path}/{RULES}")
    return frozenset(found | shut)


def _matches(rules: Mapping[str, list[_Rule]], path: str, *, is_folder: bool) -> bool:
    """By the last rule that matches, those of the nearest folder first."""
    above = path
    while above:
        above, _, _ = above.rpartition("/")
        rest = path[len(above) + 1 :] if above else path
        for rule in reversed(rules.get(above, ())):
            if (is_folder or not rule.folders_only) and rule.pattern.fullmatch(rest):
                return rule.ignores
    return False


def _rules(root: str, way: str) -> list[_Rule]:
    return [rule for line in _read(root, way).decode("utf-8", "replace").splitlines() if (rule := _rule(line))]


def _rule(line: str) -> _Rule | None:
    text = re.sub(r"(?<!\\)\s+$", "", line)
    if not text.strip("!/") or text.startswith("#"):
        return None
    ignores = not text.startswith("!")
    text = text.removeprefix("!")
    try:
        pattern, folders_only = gitignore(text)
    except InvalidPattern:
        return None
    return _Rule(re.compile(pattern, re.DOTALL), ignores, folders_only)


def _read(root: str, way: str) -> bytes:
    try:
        return workspace.read(WorkspacePath(root, way), MOST_BYTES)
    except (OSError, PathRefused):
        return b""


def _tracked(root: str) -> set[str] | None:
    """The paths in the index of the repository whose top folder this is; None where they cannot be known."""
    if not workspace.is_folder(WorkspacePath(root, ".git")):
        return None
    if not workspace.is_file(WorkspacePath(root, ".git/index")):
        return set()
    try:
        return set(_names(_read(root, ".git/index")))
    except (ValueError, IndexError, struct.error):
        return None


def _names(data: bytes) -> Iterable[str]:
    """Raises ValueError for an index of a form that is not known here, such as a split one."""
    signature, version, count = struct.unpack_from(">4sII", data)
    if signature != b"DIRC" or version not in (2, 3, 4):
        raise ValueError(version)
    at, name, names = 12, b"", list[str]()
    for _ in range(count):
        (flags,) = struct.unpack_from(">H", data, at + _FIXED - 2)
        start = at + _FIXED + (2 if flags & 0x4000 else 0)
        kept = 0
        if version == 4:
            removed, start = _number(data, start)
            kept = len(name) - removed
        end = data.index(b"\0", start)
        name = name[:kept] + data[start:end]
        if flags & 0xFFF != min(len(name), 0xFFF):
            raise ValueError(name)
        names.append(name.decode("utf-8", "surrogateescape"))
        at = end + 1 if version == 4 else at + (end - at + 8) // 8 * 8
    if data[at : at + 4] == b"link":
        raise ValueError("split")
    return names


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and where the next byte is."""
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = ((value + 1) << 7) | (data[at] & 0x7F)
    return value, at + 1
