"""Scripts of a skill: what each does and how it is started. Scripts outside the skill's folder are blocked."""

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from adderclaw.config.paths import followed
from adderclaw.core.errors import PathRefused
from adderclaw.core.redaction import visible
from adderclaw.tools.skills import files

INTERPRETERS = {
    ".py": "python3",
    ".sh": "bash",
    ".bash": "bash",
    ".js": "node",
    ".mjs": "node",
    ".rb": "ruby",
    ".pl": "perl",
    ".ps1": "pwsh",
}
KNOWN = frozenset({*INTERPRETERS.values(), "sh", "python", "zsh", "deno", "bun", "php", "Rscript"})
"""Programs that a `#!` line may name."""
HEAD = 2_048
"""Bytes of a script that are read to describe it."""
_CODE = re.compile(r"`+([^`]+)`+|\]\(\s*<?([^)\s>]+)")
_FENCED = re.compile(r"^ {0,3}(```|~~~)[^\n]*\n(.*?)^ {0,3}\1", re.DOTALL | re.MULTILINE)
_WORD = re.compile(r"[^\s'\"`;|&<>()\[\]{},=]+")
_PLACEHOLDER = re.compile(r"(?i)^/?(?:path/to|your|example|absolute/path)/|[<>{}$*]|\.\.\.")
_DOC = re.compile(r'^(?:#[^\n]*\n|\s*\n)*(?:r|R)?"""(.*?)(?:\n|""")', re.DOTALL)
_COMMENT = re.compile(r"^\s*(?:#(?!!)|//|--)[ \t]*(\S.*)$", re.MULTILINE)


class Script(NamedTuple):
    """A script in its skill's folder."""

    way: str
    """Its path relative to the skill's folder."""
    path: str
    """Absolute, links followed."""
    interpreter: str
    """The program that runs it."""
    size: int
    summary: str
    """The first line of its docstring or first comment."""

    @property
    def argv(self) -> tuple[str, ...]:
        return (self.interpreter, self.path)


def find_script(folder: str, name: str) -> Script:
    """The script called `name`; raises PathRefused if it is outside the folder, missing or of an unknown kind."""
    way = files.path_inside(folder, name)
    part = files.read_file(folder, way, HEAD)
    text = part.data.decode("utf-8", "replace")
    interpreter = _interpreter(way, text)
    if not interpreter:
        shown = visible(name[:200], keep_newlines=False)
        raise PathRefused(f"{shown!r} is not a script: it has no known extension and no `#!` line")
    summary = _DOC.search(text) or _COMMENT.search(text)
    summary_line = visible(" ".join(summary[1].split()), keep_newlines=False)[:200] if summary else ""
    return Script(way, os.path.join(followed(folder), way), interpreter, part.size, summary_line)


def list_scripts(folder: str, text: str = "") -> list[Script]:
    """The scripts under scripts/, and others of the folder that `text` mentions, ordered by path."""
    inside = [way for way in files.list_files(folder, "scripts") if not files.is_link(folder, way)]
    named = [os.path.normpath(word) for word in mentioned_paths(text) if not _outside(word)]
    by_path: dict[str, Script] = {}
    for way in sorted({*inside, *named}):
        try:
            entry = find_script(folder, way)
        except PathRefused:
            continue  # a library, a data file, or a name that is only an example
        by_path.setdefault(entry.way, entry)
    return list(by_path.values())


def outside_scripts(text: str) -> tuple[str, ...]:
    """Scripts outside the skill's folder that its text mentions. Each is blocked and reported."""
    paths = (word for word in mentioned_paths(text) if _outside(word) and not _PLACEHOLDER.search(word))
    return tuple(visible(word[:200], keep_newlines=False) for word in dict.fromkeys(paths))


def mentioned_paths(text: str) -> Iterator[str]:
    """Words in code and links that look like a script's path."""
    pieces = [match[2] for match in _FENCED.finditer(text)]
    pieces += [match[1] or match[2] for match in _CODE.finditer(_FENCED.sub("", text))]
    for piece in pieces:
        for word in _WORD.findall(piece):
            if os.path.splitext(word)[1].lower() in INTERPRETERS and "://" not in word:
                yield word


def _outside(word: str) -> bool:
    return word.startswith(("/", "~")) or os.path.normpath(word).startswith("../")


def _interpreter(way: str, text: str) -> str:
    if text.startswith("#!"):
        words = text[2:].split("\n", 1)[0].split()
        if words and os.path.basename(words[0]) == "env":
            words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        name = os.path.basename(words[0]) if words else ""
        if re.sub(r"[\d.]+$", "", name) in KNOWN or name in KNOWN:
            return name
    return INTERPRETERS.get(os.path.splitext(way)[1].lower(), "")
