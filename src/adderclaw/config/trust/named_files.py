"""Finds the files of a workspace that a command names, such as scripts that a hook or an MCP server would start.

The command is not parsed like its shell would. Every word that leads to a file of the workspace counts, except for
files that the command only writes or tests (`> log.txt`, `test -e x`). More words are checked than a shell would see:
words in quotes, words of a `bash -c '…'`, paths after `cd folder`, and the module after `-m`.
"""

import glob
import os
import re
import shlex
import stat
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from adderclaw.config.paths import UNRESOLVED, beneath, followed
from adderclaw.core.errors import ConfigError, Problem
from adderclaw.core.record import NamedTuple

_PROJECT = r"(?:CLAUDE_PROJECT_DIR|ADDERCLAW_PROJECT_DIR|WORKSPACE|PWD)"
_VARIABLE = rf"(?:\"\$\{{?{_PROJECT}\}}?\"|\$\{{?{_PROJECT}\}}?)"
WORD = re.compile(rf"{_VARIABLE}?[^\s'\"`;|&<>()\[\]{{}},=$]+")
_PREFIX = re.compile(rf"^(?:{_VARIABLE}/*)")
_WRITTEN = re.compile(r"(?:>>?|>\|)\s*[\"']?$")
_SIMPLE = re.compile(r"[;|&(){}\n]\s*(?:(?:if|then|else|elif|while|until|do|!)\s+)*")
UNREAD = ("test", "[", "[[", "touch", "rm", "mkdir", "tee")
"""Programs that pass on neither the content nor the names of their file arguments."""
SCRIPT = (".sh", ".bash", ".zsh", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".ps1")
LONGEST = 4096
MOST_WORDS = 2_000
"""Maximum number of words of a command, and of files that a pattern matches. A command with more is refused."""


class Word(NamedTuple):
    """A word and its position in the text; -1 if a shell would not see it as a word of its own."""

    text: str
    start: int
    end: int


class FileReference(NamedTuple):
    """A word of a command that names a file."""

    path: str
    """The absolute path that the word leads to, with links not followed."""
    real: str
    """The same path with links followed."""
    word: Word
    whole: bool
    """Whether the word is the whole path, so that another path can replace it."""


class Names(NamedTuple):
    """The files that a text names in a workspace, at one moment."""

    found: tuple[FileReference, ...]
    absent: tuple[Word, ...]
    """Words that look like a script or program of the workspace, by their form or position, but are not a file."""
    looked: tuple[str, ...]
    """Every path that the words may lead to."""


def names(
    text: str, roots: Sequence[str], argument: int | None = None, without: Sequence[tuple[int, int]] = ()
) -> Names:
    """The files that a command, or one argument of it, names. The command runs in the first root.

    `argument` is the number of the argument, where 0 is the program; the text may still contain several words. Words
    inside the spans `without` are ignored.
    """
    every = _words(text, argument=argument is not None)
    words = tuple(word for word in every if not any(a <= word.start and word.end <= b for a, b in without))
    folders = tuple(dict.fromkeys([roots[0], *(path for word in words for path in _folders(word.text, roots))]))
    files: list[FileReference] = []
    looked: list[str] = []
    for word in words:
        modules = " -m " in text or word.text == text
        for path, whole in _paths(word.text, folders, modules=modules):
            looked.append(path)
            real = followed(path)
            if _is_file(real) and (_among(path, roots) or _among(real, roots)):
                files.append(FileReference(path, real, word, whole and word.start >= 0))
    known = {file.word.start for file in files}
    missing = (word for word in words if word.start >= 0 and word.start not in known)
    absent = tuple(word for word in missing if _would_run(text, word, argument) and _is_inside(word.text, roots))
    return Names(tuple(files), absent, tuple(dict.fromkeys(looked)))


def inside(texts: Iterable[str], root: str) -> Iterator[str]:
    """The files below a folder that texts name, as paths relative to it."""
    for text in texts:
        for named in names(text, (root,)).found:
            if beneath(named.path, root):
                yield os.path.relpath(named.path, root)


def _would_run(text: str, word: Word, argument: int | None) -> bool:
    before = text[: word.start].rstrip(" \t\"'")
    first = not argument and (not before or before.endswith((";", "|", "&", "(", "{", "\n")))
    return word.text.endswith(SCRIPT) or (first and "/" in word.text)


def _is_inside(word: str, roots: Sequence[str]) -> bool:
    if not re.fullmatch(r"[\w./@+ -]+", _PREFIX.sub("", word)):
        return False
    paths = [path for path, whole in _paths(word, (roots[0],)) if whole]
    return bool(paths) and all(_among(path, roots) for path in paths)


def _words(text: str, *, argument: bool) -> Iterator[Word]:
    plain: set[str] = set()
    if argument:
        plain.add(text)
        yield Word(text, 0, len(text))
    for match in _bounded(WORD.finditer(text), text):
        before = text[: match.start()]
        if (match[0] in plain and argument) or _WRITTEN.search(before) or _is_unread(before):
            continue
        plain.add(match[0])
        if before.endswith("$"):  # in $NAME/rest only the rest is known
            yield Word(match[0][len(match[0].split("/", 1)[0]) :], -1, -1)
        else:
            yield Word(match[0], -1, -1) if argument else Word(match[0], match.start(), match.end())
    try:
        split = shlex.split(text)
    except ValueError:
        split = []
    for word in split:  # quoted names with spaces
        if word not in plain and any(map(str.isspace, word)):
            yield Word(word, -1, -1)


def _is_unread(before: str) -> bool:
    simple = _SIMPLE.split(f";{before}")[-1].split(None, 1)
    return bool(simple) and simple[0] in UNREAD and len(simple) + before[-1:].isspace() > 1


def _folders(word: str, roots: Sequence[str]) -> Iterator[str]:
    """Folders of the workspace that a word names, because the command may change to them first."""
    for path, _ in _paths(word, (roots[0],)):
        if path != roots[0] and _among(path, roots) and os.path.isdir(path):
            yield path


def _paths(word: str, folders: Sequence[str], *, modules: bool = False) -> Iterator[tuple[str, bool]]:
    """The paths that a word may lead to, and whether the word is the whole path, possibly after a variable."""
    if not word or len(word) > LONGEST or "\0" in word or word.startswith("-"):
        return
    bare = _PREFIX.sub("", word)
    if bare != word:
        yield os.path.normpath(os.path.join(folders[0], bare.lstrip("/"))), True
        return
    if word.startswith(("~/", "/")):
        yield os.path.normpath(os.path.expanduser(word)), True
    for folder in folders:
        yield os.path.normpath(os.path.join(folder, word.lstrip("/"))), folder == folders[0] and word[0] != "/"
        if modules and re.fullmatch(r"\w+(\.\w+)*", word):  # python -m package.module
            module = os.path.join(folder, *word.split("."))
            yield f"{module}.py", False
            yield os.path.join(module, "__main__.py"), False
        elif "*" in word or "?" in word:
            pattern = os.path.join(glob.escape(folder), word.lstrip("/"))
            yield from ((path, False) for path in _bounded(glob.iglob(pattern), word))


def _bounded[T](matches: Iterable[T], text: str) -> list[T]:
    bounded = list(islice(matches, MOST_WORDS + 1))
    if len(bounded) > MOST_WORDS:
        why = f"names more than {MOST_WORDS:,} words or files, too many to check: put it into a script"
        raise ConfigError([Problem(text[:60], "", why)])
    return bounded


def _is_file(path: str) -> bool:
    try:
        return path != UNRESOLVED and stat.S_ISREG(os.stat(path, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _among(path: str, roots: Sequence[str]) -> bool:
    return any(beneath(path, root) for root in roots)
