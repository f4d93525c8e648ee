"""What is learned of a piece of Python while it is followed: the files that it opens, and what it calls."""

import ast
import os
import re
from pathlib import PurePosixPath
from typing import NamedTuple

from adderclaw.gate.python.kinds import DATA, MAYBE, NOTHING, PROJECT, Heap, Kind, Refused
from adderclaw.gate.python.scopes import Scope

type Words = tuple[str, ...]


class Call(NamedTuple):
    """What a call is given, once its arguments were followed."""

    args: tuple[Kind, ...]
    keywords: dict[str, Kind]
    site: object
    """Where it stands."""
    starred: bool = False
    """Whether the last of the arguments stands for any number of such."""
    named: bool = False
    """Whether all of them are names that nothing but an import gives a meaning."""

    @property
    def all(self) -> tuple[Kind, ...]:
        return (*self.args, *self.keywords.values())

    @property
    def first(self) -> Kind:
        return self.args[0] if self.args else NOTHING

    def only(self, least: int, most: int, *keywords: str) -> None:
        """Refuses what is given beside that."""
        odd = next((name for name in self.keywords if name not in keywords), None)
        if odd is not None or self.starred or not least <= len(self.args) <= most:
            raise Refused(f"{odd}= is not taken" if odd else "not these arguments")


class Function:
    """A function of the piece: its parameters are whatever it is called with, anywhere."""

    def __init__(self, node: ast.FunctionDef | ast.Lambda, scope: Scope) -> None:
        self.node, self.scope = node, scope
        self.called = False
        self.yields = False


class State(Heap):
    def __init__(self, given: Words | None, *, managed: bool) -> None:
        super().__init__()
        self.given, self.managed = given, managed
        self.functions: dict[int, Function] = {}
        self.scopes: dict[int, Scope] = {}
        self.codes: dict[str, ast.Module] = {}
        """Texts that are code, as timeit takes them."""
        self.depth = 0
        self.loaded: frozenset[str] = frozenset()
        """Names that are imported, and never anything else."""
        self.words: dict[str, None] = {}
        """What the project's code got in any round: what it was given is the project's from then on."""
        self.confined = False
        self.sure = False
        """Whether nothing new is learned any more: what is nothing now will never be anything."""
        self.begin()

    def begin(self) -> None:
        """What was seen counts from the last round alone, in which nothing changed any more."""
        self.changed = False
        self.reads: dict[str, None] = {}
        self.writes: dict[str, None] = {}
        self.patterns: dict[str, None] = {}
        """Which of the files that it finds it writes."""
        self.walks: dict[tuple[str, str], None] = {}
        self.loose: set[str] = set()
        """Folders in which a search goes through links."""
        self.modules: dict[str, None] = {}

    def missing(self) -> None:
        """Something is used of which nothing is known yet."""
        if self.sure:
            raise Refused("what is used is nothing, as far as anybody knows")

    # -------------------------------------------------------------- functions of the piece

    def bind(self, scope: Scope, name: str, kind: Kind) -> None:
        owner = scope.owner(name) or scope
        self.put((id(owner.node), name), kind)

    def named(self, scope: Scope, name: str) -> Kind | None:
        owner = scope.owner(name)
        return None if owner is None else self.held.get((id(owner.node), name), NOTHING)

    def enter(self, key: int, call: Call) -> Kind:
        """Call a function of the piece."""
        made = self.functions[key]
        given, node = made.node.args, made.node
        if not made.called:
            made.called = self.changed = True
        plain = [*given.posonlyargs, *given.args]
        for index, kind in enumerate(call.args):
            rest = plain[index:] if call.starred and index == len(call.args) - 1 else plain[index : index + 1]
            for parameter in rest:
                self.put((id(node), parameter.arg), kind)
            if given.vararg is not None and (not rest or call.starred):
                self.put((id(node), given.vararg.arg), self.made((id(node), "*"), kind))
        known = {parameter.arg for parameter in (*given.args, *given.kwonlyargs)}
        for name, kind in call.keywords.items():
            if name in known:
                self.put((id(node), name), kind)
            elif given.kwarg is not None:
                self.put((id(node), given.kwarg.arg), self.mapping((id(node), "**"), DATA, kind))
        if made.yields:
            return self.made((id(node), "yield"), NOTHING)
        return self.held.get((id(node), "return"), NOTHING)

    # -------------------------------------------------------------- what it opens

    def open(self, kind: Kind, *, write: bool = False, read: bool = True) -> None:
        """A place is opened: its name stands there, or it was found beneath a folder whose name does."""
        if kind.tag == "nothing":
            self.missing()
            return
        if kind.tag != "text" or kind.bare:
            raise Refused("a path that does not stand there")
        for value in kind.values:
            self._literal(value)
            if read:
                self.reads[value] = None
            if write:
                self.writes[value] = None
        for folder, pattern in kind.found:
            self.confined = True
            self.reads[folder] = None
            self.walks[folder, "" if folder in self.loose or pattern.startswith("/") else pattern] = None
            if write:
                self._found(folder, pattern)

    def _literal(self, value: str) -> None:
        if not value or "\0" in value or "://" in value or len(value) > 1000 or value.startswith("|"):
            raise Refused(f"{value[:60]!r} as a path")

    def _found(self, folder: str, pattern: str) -> None:
        from adderclaw.gate.programs.knowledge import is_tame

        ended = re.fullmatch(r"[\w?-]*\*[\w*?-]*\.(?!\w*rc$|git|env|pth$)[A-Za-z0-9]+", pattern) is not None
        if not ended or not is_tame(("find", folder, "-name", pattern)) or folder.startswith("-"):
            raise Refused(f"writing whatever {pattern} matches in {folder}: name the files by their ending")
        self.writes[folder] = None
        self.patterns[pattern] = None

    def hand(self, kinds: tuple[Kind, ...]) -> None:
        """The project's code gets these: its texts may be files, and data that is not known may be any."""
        for kind in kinds:
            waiting, seen = [kind], set[Kind]()
            while waiting:
                one = waiting.pop()
                if one in seen:
                    continue
                seen.add(one)
                match one.tag:
                    case "text":
                        self.words |= dict.fromkeys(one.values)
                        elsewhere = any("://" in value for value in one.values)
                        self.confined = self.confined or bool(one.found) or one.bare or elsewhere
                    case "list" | "tuple":
                        waiting.append(self.inside(one))
                    case "map":
                        waiting += [self.side(one, "key"), self.side(one, "value")]
                    case "number" | "nothing" | "project" | "maybe" | "call":
                        pass
                    case _:
                        self.confined = True
            self.weaken(kind, PROJECT)

    def mark(self, *kinds: Kind) -> Kind:
        """What comes of data in which these are."""
        if any(self.holds(kind, "maybe") for kind in kinds):
            return MAYBE
        return PROJECT if any(self.holds(kind, "project") for kind in kinds) else DATA


def joined(folder: Kind, name: Kind, *, path: bool = False) -> Kind:
    """`os.path.join` and `Path / …`: a place, if both are known. Its text is exactly the one that Python has then."""
    if folder.tag != "text" or name.tag != "text" or folder.bare:
        return DATA if folder != NOTHING and name != NOTHING else NOTHING
    if len(folder.values) * len(name.values) > 1000:
        return DATA
    values = {os.path.join(a, b) for a in folder.values for b in name.values}
    found: set[tuple[str, str]] = set()
    for value in name.values:
        if value.startswith("/"):
            values.add(value)
        elif folder.found and ".." in value.split("/"):
            return DATA
        found |= {(root, "/" + value.rsplit("/", 1)[-1]) for root, _ in folder.found}
    if name.found and not name.bare:
        # A path that was found is one from where we are: behind a folder it is another.
        return DATA
    if name.bare:
        found |= {(value or ".", "*") for value in folder.values} | {(root, "*") for root, _ in folder.found}
    exact = frozenset(str(PurePosixPath(value)) if path else value for value in values)
    made = Kind("text", exact, frozenset(found))
    return made if len(values) + len(found) <= 100 else DATA


def added(a: Kind, b: Kind) -> Kind:
    """`a + b` of texts: known where both are, and a place where a name follows its folder, or an ending a name."""
    if a.tag != "text" or b.tag != "text":
        return DATA
    if not (a.found or a.bare or b.found or b.bare):
        if len(a.values) * len(b.values) > 1000:
            return DATA
        values = frozenset(one + other for one in a.values for other in b.values)
        plain = len(values) <= 100 and all(len(value) <= 1000 for value in values)
        return Kind("text", values) if plain else DATA
    if not (a.found or a.bare) and b.bare and not b.values and all(value.endswith("/") for value in a.values):
        return Kind("text", found=frozenset((value.rstrip("/") or "/", "*") for value in a.values))
    plain = not (b.found or b.bare) and all(re.fullmatch(r"[\w.-]+", value) for value in b.values)
    if a.found and not a.bare and not a.values and plain:
        # What was found may be the folder itself.
        beside = frozenset(
            root.rstrip("/") + between + value for root, _ in a.found for between in ("", "/") for value in b.values
        )
        return Kind("text", beside, frozenset((root, f"*{value}") for root, _ in a.found for value in b.values))
    return DATA
