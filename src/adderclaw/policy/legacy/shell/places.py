"""Every path that a command names, from every directory that it may run in."""

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from adderclaw.config.paths import UNRESOLVED
from adderclaw.core.record import NamedTuple
from adderclaw.policy.legacy.programs import operands
from adderclaw.policy.legacy.programs.allowlist import those
from adderclaw.policy.legacy.programs.patches import MAX_PATH
from adderclaw.policy.legacy.shell import raw
from adderclaw.policy.legacy.shell.loose import statements
from adderclaw.policy.legacy.shell.plan import (
    Array,
    Assign,
    Command,
    Live,
    Loop,
    Plan,
    Raw,
    Redirect,
    Simple,
    Variable,
    commands,
    live_words,
)
from adderclaw.policy.legacy.shell.states import bounded, joined


class Paths(NamedTuple):
    """Every path that a command names, absolute, in the order of the text."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    read_if_there: tuple[tuple[str, str], ...] = ()
    """(folder, word): a path only where something of that name is in the folder."""
    written_if_there: tuple[tuple[str, str], ...] = ()
    trees: tuple[str, ...] = ()
    """Folders that are read with all that links in them lead to."""
    merged: tuple[tuple[str, str], ...] = ()
    """(folder, target): what is in the one lands in the other under its own name."""
    rewritten: tuple[str, ...] = ()
    """Archives and patches that the command writes itself before it opens them: what is there now says nothing."""


def paths_of(command: Plan | Raw, cwd: str, home: str = "") -> Paths:
    """Every path that a command names: redirects, and whatever of its words may be a file.

    Relative paths are given for every directory in which the command may run: a `cd` that may fail leaves two. What a
    link followed by `..` could reach is covered by naming the link too. `home` is what `~` stands for in raw bash.
    """
    gathered = Gathered()
    _gather(command, cwd, home, gathered)
    return gathered.paths()


class Gathered:
    """Paths as they are found, each once."""

    def __init__(self) -> None:
        self.found: dict[str, dict[Any, None]] = {name: {} for name in Paths._fields}

    def add(self, name: str, items: Iterable[Any]) -> None:
        self.found[name].update(dict.fromkeys(items))

    def perhaps(self, name: str, folder: str, words: Iterable[str]) -> None:
        """Words that count where a file of that name is there; in a folder that is not known, all of them count."""
        if folder != UNRESOLVED:
            self.add(name, ((folder, word) for word in words))
        elif any(not word.startswith("/") for word in words):
            self.add("reads", (UNRESOLVED,))

    def paths(self) -> Paths:
        return Paths(*(tuple(self.found[name]) for name in Paths._fields))

    def redirected(self, redirects: Iterable[Redirect], folder: str) -> None:
        self.add("reads", _all_places(folder, (r.target for r in redirects if r.operator == "<" and not r.is_piped)))
        self.add("writes", _all_places(folder, (r.target for r in redirects if r.writes)))

    def take(self, simple: Simple, folder: str) -> None:
        """What one simple command names, seen from a folder."""
        named = operands.operands(simple.name, simple.opened.words).plus(operands.given(simple))
        for place in _further(folder, named.folders):
            self.opened(place, named.merged)
            self.add("reads", _all_places(place, named.reads))
            self.add("writes", _all_places(place, named.writes))
            self.perhaps("read_if_there", place, named.read_if_there)
            self.perhaps("written_if_there", place, named.written_if_there)
            self.add("trees", _all_places(place, named.trees))
            self.add("merged", ((joined(place, a), joined(place, b)) for a, b in named.merged))

    def opened(self, place: str, merged: Iterable[tuple[str, str]]) -> None:
        marks = (operands.PATCH, operands.ARCHIVE)
        sources = [os.path.join(place, source) for source, _ in merged if source.endswith(marks)]
        before = {os.path.normpath(name) for name in self.found["writes"]} if sources else ()
        paths = (os.path.normpath(source.removesuffix(marks[0]).removesuffix(marks[1])) for source in sources)
        self.add("rewritten", (path for path in paths if path in before))


def _further(folder: str, further: Iterable[str]) -> tuple[str, ...]:
    """A folder, and those that options lead to from there, one after the other."""
    places = (folder,)
    for name in further:
        places = bounded((*places, *(joined(place, name) for place in places)))
    return places


def _gather(command: Plan | Raw, cwd: str, home: str, gathered: Gathered) -> None:
    if isinstance(command, Raw):
        _gather_raw(command, cwd, home, gathered)
        return
    ever: dict[str, None] = {cwd: None}
    found = tuple(commands(command.body))
    # In a loop, what comes later in the text is written before what comes first is opened again.
    for one in found * (2 if any(isinstance(one, Loop) for one in found) else 1):
        if isinstance(one, Assign):
            continue
        places = [os.path.join(cwd, folder) if folder else cwd for folder in one.folders]
        ever.update(dict.fromkeys(places))
        for place in places:
            gathered.redirected(one.redirects, place)
            if isinstance(one, Simple):
                gathered.take(one, place)
                ever.update(dict.fromkeys(_entered(one, place)))
    for word in _kept_for_later(found):
        paths, perhaps = operands.of_word(word)
        for place in ever:
            gathered.perhaps("read_if_there", place, (*paths, *perhaps))
    for code in command.inside:
        for folder in bounded(tuple(ever)):
            _gather(code, folder, home, gathered)


def _kept_for_later(found: tuple[Command, ...]) -> Iterator[str]:
    """Literal words that a command may be given through a variable or an array of which more is not known."""
    used = {
        piece.name.partition("[")[0]
        for one in found
        if not (isinstance(one, Simple) and one.name in those("says"))
        for word in live_words(one)
        for piece in word.pieces
        if isinstance(piece, Variable)
    }
    if not used:
        return
    for one in found:
        if isinstance(one, Assign | Array | Loop) and one.name in used:
            words = (one.value,) if isinstance(one, Assign) else one.words
            yield from (word for word in words if not isinstance(word, Live))


def _entered(simple: Simple, folder: str) -> tuple[str, ...]:
    return (os.path.normpath(joined(folder, simple.words[1])),) if simple.name in ("cd", "pushd") else ()


def _gather_raw(command: Raw, cwd: str, home: str, gathered: Gathered) -> None:
    """Every word that may be a path, from every directory that a `cd` could reach."""
    parts = [part for pipeline in statements(command.text) for part in pipeline if part]
    quiet = {part[0] for part in parts if part[0] in those("says") and ">" not in command.text}
    shown = [word for part in parts if part[0] not in quiet for word in part]
    home_or_here = {"~": home, "$HOME": home, "${HOME}": home, "$PWD": cwd, "${PWD}": cwd}
    words = [re.sub(_AT_HOME, lambda found: home_or_here[found[0]], word) for word in shown]
    folders = bounded((cwd, *(os.path.normpath(os.path.join(cwd, word)) for word in _moves(parts, words))))
    kinds = ("read", "written") if raw.may_write(command) else ("read",)
    for folder in folders:
        for word in words:
            paths, perhaps = operands.of_word(word)
            certain = [path for path in paths if not path.startswith("/") or path.startswith((home, cwd))]
            for kind in kinds:
                gathered.add(f"{'reads' if kind == 'read' else 'writes'}", _all_places(folder, certain))
                gathered.perhaps(f"{kind}_if_there", folder, (*paths, *perhaps))


def _moves(parts: list[list[str]], words: list[str]) -> Iterable[str]:
    """The words of raw bash that may be where a `cd` leads: those after it, or all where these are not literal."""
    if {"cd", "pushd"}.isdisjoint(words):
        return ()
    after = [word for part in parts for place, before in enumerate(part) if before in _MOVE for word in part[place:]]
    literal = len(after) > 1 and not any(re.search(r"[$`*?\[{~]", word) for word in after)
    return (word for word in (after if literal else words) if word not in ("-", *_MOVE))


_MOVE = ("cd", "pushd")
_AT_HOME = r"^(?:~|\$HOME|\$\{HOME\}|\$PWD|\$\{PWD\})(?=/|$)"


def _all_places(folder: str, words: Iterable[str]) -> Iterator[str]:
    return (path for word in words for path in _places(folder, word))


def _places(folder: str, given: str) -> Iterator[str]:
    if len(given) >= MAX_PATH:  # the kernel opens nothing by such a name
        return
    if folder == UNRESOLVED:
        yield joined(folder, given)
        return
    parts = given.split("/")
    for index, part in enumerate(parts):
        if part == ".." and index:
            yield os.path.join(folder, "/".join(parts[:index]) or "/")
    yield os.path.join(folder, given)
