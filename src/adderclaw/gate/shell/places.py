"""Every path that a command names, from every directory that it may run in."""

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from adderclaw.gate.programs import operands
from adderclaw.gate.programs.handed import Walk, walks_of, walks_to_xargs
from adderclaw.gate.shell import raw
from adderclaw.gate.shell.plan import Assign, Live, Loop, Plan, Raw, Redirect, Simple, commands, simples, steps
from adderclaw.gate.shell.raw import Named
from adderclaw.gate.shell.states import bounded


class Paths(NamedTuple):
    """Every path that a command names, absolute, in the order of the text."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    read_if_there: tuple[tuple[str, str], ...] = ()
    """(folder, word): a path only where something of that name is in the folder."""
    written_if_there: tuple[tuple[str, str], ...] = ()
    read_globs: tuple[str, ...] = ()
    written_globs: tuple[str, ...] = ()
    trees: tuple[str, ...] = ()
    """Folders that are read with all that links in them lead to."""
    merged: tuple[tuple[str, str], ...] = ()
    """(folder, target): what is in the one lands in the other under its own name."""
    walks: tuple[Walk, ...] = ()
    """Where names come from that are handed to a program: the links among them are read, too."""
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
            self.add("read_if_there", ((place, word) for word in named.read_if_there))
            self.add("written_if_there", ((place, word) for word in named.written_if_there))
            self.add("trees", _all_places(place, named.trees))
            self.add("merged", ((os.path.join(place, a), os.path.join(place, b)) for a, b in named.merged))
            self.walked(named.walks, place)
            self.walked(_late(simple), place)

    def opened(self, place: str, merged: Iterable[tuple[str, str]]) -> None:
        marks = (operands.PATCH, operands.ARCHIVE)
        sources = [os.path.join(place, source) for source, _ in merged if source.endswith(marks)]
        before = {os.path.normpath(name) for name in self.found["writes"]} if sources else ()
        paths = (os.path.normpath(source.removesuffix(marks[0]).removesuffix(marks[1])) for source in sources)
        self.add("rewritten", (path for path in paths if path in before))

    def walked(self, walks: Iterable[Walk], folder: str) -> None:
        self.add("walks", (walk._replace(root=os.path.join(folder, walk.root)) for walk in walks))


def _late(simple: Simple) -> Iterator[Walk]:
    """The links that a glob may come upon which bash looks up itself."""
    for word in simple.words:
        if isinstance(word, Live) and word.is_glob:
            lead, _, last = str(word).rpartition("/")
            plain = not re.search(r"[*?]", lead)
            yield (
                Walk(lead or ".", (last,), deep=False)
                if plain
                else Walk(re.split(r"[*?]", lead)[0].rpartition("/")[0] or ".")
            )


def _further(folder: str, further: Iterable[str]) -> tuple[str, ...]:
    """A folder, and those that options lead to from there, one after the other."""
    places = (folder,)
    for name in further:
        places = bounded((*places, *(os.path.join(place, name) for place in places)))
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
    for step in steps(command):
        for source, walk in walks_to_xargs(step.commands):
            for folder in source.folders:
                gathered.walked((walk,), os.path.join(cwd, folder) if folder else cwd)
    for source in simples(command) if any(one.handed for one in simples(command)) else ():
        for folder in source.folders:
            gathered.walked(walks_of(source), os.path.join(cwd, folder) if folder else cwd)
    for code in command.inside:
        for folder in bounded(tuple(ever)):
            _gather(code, folder, home, gathered)


def _entered(simple: Simple, folder: str) -> tuple[str, ...]:
    return (os.path.normpath(os.path.join(folder, simple.words[1])),) if simple.name in ("cd", "pushd") else ()


def _gather_raw(command: Raw, cwd: str, home: str, gathered: Gathered) -> None:
    """Every word from every directory that a `cd` could reach: each is read, and written if anything may be."""
    folders = (cwd,)
    for named in command.named:
        if named.moves:
            folders = bounded(
                (*folders, *(os.path.normpath(os.path.join(f, _filled(named, f, home))) for f in folders))
            )
    reads_and = ("read", "written") if command.writes else ("read",)
    for folder in folders:
        for named in command.named:
            for kind, items in _known(named, _filled(named, folder, home), folder).items():
                for how in reads_and:
                    gathered.add(_FIELD[how, kind], items)


_FIELD = {
    ("read", "path"): "reads",
    ("written", "path"): "writes",
    ("read", "perhaps"): "read_if_there",
    ("written", "perhaps"): "written_if_there",
    ("read", "glob"): "read_globs",
    ("written", "glob"): "written_globs",
}


def _known(named: Named, text: str, folder: str) -> dict[str, list[Any]]:
    """What a word of raw bash may name. An absolute one that is no redirect's may be a pattern, or a piece of text."""
    paths, perhaps = operands.of_word(text)
    marked = raw.HOME in named.text or raw.PWD in named.text
    certain = [text] if named.target else [path for path in paths if marked or not path.startswith("/")]
    return {
        "path": [place for word in certain for place in _places(folder, word)],
        "perhaps": [(folder, word) for word in (*paths, *perhaps)],
        "glob": [os.path.join(folder, word) for word in (*paths, *perhaps)] if named.glob else [],
    }


def _filled(named: Named, folder: str, home: str) -> str:
    return named.text.replace(raw.HOME, home).replace(raw.PWD, folder)


def _all_places(folder: str, words: Iterable[str]) -> Iterator[str]:
    return (path for word in words for path in _places(folder, word))


def _places(folder: str, given: str) -> Iterator[str]:
    parts = given.split("/")
    for index, part in enumerate(parts):
        if part == ".." and index:
            yield os.path.join(folder, "/".join(parts[:index]) or "/")
    yield os.path.join(folder, given)
