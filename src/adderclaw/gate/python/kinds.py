"""What is known of a value in a piece of Python before it runs, and what two of them have in common.

The kinds are a closed set. What is *inert* (texts, numbers, containers of such, objects of the tables) can be handed to
anything that is taken; nothing that it does by itself runs a program or opens a file. A text whose values are known, or
that a search for files gave, is a place that may be opened. Everything else may do only what stands in the tables.
"""

from collections.abc import Hashable
from typing import NamedTuple

from adderclaw.gate.programs.allowlist import names

type Site = Hashable
"""Where a container was made: what is put into it there is in all that are made there."""
MAX_VALUES = 200


class Refused(Exception):
    """Why a piece of Python is not taken."""


class Kind(NamedTuple):
    tag: str
    values: frozenset[str] = frozenset()
    """The texts that it may be; of functions: the names in the tables that it may be."""
    found: frozenset[tuple[str, str]] = frozenset()
    """(folder, pattern): a path beneath the folder, as a search for files gave it."""
    bare: bool = False
    """Whether it may be a name without its folder, as `os.listdir` gives them."""
    sites: frozenset[Site] = frozenset()
    """The containers that it may be; of functions: the definitions in the piece."""
    items: "tuple[Kind, ...]" = ()
    name: str = ""


NOTHING = Kind("nothing")
"""None, or what never comes to be."""
NUMBER = Kind("number")
DATA = Kind("data")
PROJECT = Kind("project")
"""What the project's own code made, or data."""
MAYBE = Kind("maybe")
"""A name of a module of the project: perhaps a module itself."""
MIXED = Kind("mixed")
"""Sometimes this, sometimes that: of no use."""
_PLAIN = names("nothing number data text project")
_HELD = names("list map")
_KEPT = names("environ path tree parser archive connection cursor image type logger loop query said error")
"""Objects whose methods take paths, or change more than themselves: they are never taken for data."""


def text(*values: str) -> Kind:
    return Kind("text", frozenset(values))


def places(found: frozenset[tuple[str, str]], *, bare: bool = False) -> Kind:
    return Kind("text", found=found, bare=bare)


def function(name: str) -> Kind:
    return Kind("call", frozenset({name}))


def module(name: str) -> Kind:
    return Kind("module", name=name)


def thing(name: str) -> Kind:
    return Kind("object", name=name)


MAX_LEAVES = 200


def several(*items: Kind) -> Kind:
    made = Kind("tuple", items=items)
    if _leaves(made) > MAX_LEAVES:
        raise Refused("a tuple of too much")
    return made


def _leaves(kind: Kind) -> int:
    """How much is in a tuple: none is larger than the limit, so that this ends soon."""
    return sum(map(_leaves, kind.items)) if kind.items else 1


class Heap:
    """What is in the containers and under the names of a piece; it only grows, until nothing changes any more."""

    def __init__(self) -> None:
        self.held: dict[Site, Kind] = {}
        self.changed = False

    def put(self, site: Site, kind: Kind) -> None:
        before = self.held.get(site, NOTHING)
        after = self.join(before, kind)
        if after != before:
            self.held[site] = after
            self.changed = True

    def made(self, site: Site, content: Kind) -> Kind:
        """A list, a set or an iterator that is made at a place, with this in it."""
        self.put(site, content)
        return Kind("list", sites=frozenset({site}))

    def mapping(self, site: Site, key: Kind, value: Kind) -> Kind:
        self.put((site, "key"), key)
        self.put((site, "value"), value)
        return Kind("map", sites=frozenset({site}))

    def inside(self, kind: Kind) -> Kind:
        """What is in a list, or in a tuple."""
        content = NOTHING
        for site in kind.sites:
            content = self.join(content, self.held.get(site, NOTHING))
        for item in kind.items:
            content = self.join(content, item)
        return content

    def side(self, kind: Kind, which: str) -> Kind:
        """The keys or the values of a mapping."""
        content = NOTHING
        for site in kind.sites:
            content = self.join(content, self.held.get((site, which), NOTHING))
        return content

    def join(self, a: Kind, b: Kind) -> Kind:
        if a == b or b == NOTHING:
            return a
        if a == NOTHING:
            return b
        same = a.tag == b.tag
        if same and a.tag == "text":
            both = Kind("text", a.values | b.values, a.found | b.found, a.bare or b.bare)
            return both if len(both.values) + len(both.found) <= MAX_VALUES else DATA
        if same and a.tag in ("list", "map", "call"):
            return a._replace(values=a.values | b.values, sites=a.sites | b.sites)
        if same and a.tag == "number":
            return NUMBER
        if {a.tag, b.tag} <= {"tuple", "list"}:
            return self._joined(a, b)
        return self._weakest(a, b)

    def _joined(self, a: Kind, b: Kind) -> Kind:
        if a.tag == b.tag and len(a.items) == len(b.items):
            return several(*(self.join(one, other) for one, other in zip(a.items, b.items, strict=True)))
        sites = a.sites | b.sites
        for kind in (a, b):
            if kind.tag == "tuple":
                self.put(("tuple", kind), self.inside(kind))
                sites |= {("tuple", kind)}
        return Kind("list", sites=sites)

    def _weakest(self, a: Kind, b: Kind) -> Kind:
        tags = {a.tag, b.tag}
        rest = [kind for kind in (a, b) if kind.tag not in ("project", "maybe")]
        if not all(map(self.is_inert, rest)):
            return MIXED
        into = PROJECT if tags & {"project", "maybe"} else DATA
        for kind in rest:
            self.weaken(kind, into)
        return MAYBE if "maybe" in tags else into

    def is_inert(self, kind: Kind, seen: frozenset[Site] = frozenset()) -> bool:
        if kind.tag in _PLAIN:
            return True
        if kind.tag == "object":
            return kind.name not in _KEPT
        if kind.tag not in ("list", "map", "tuple"):
            return False
        sites = kind.sites - seen
        keys = {(site, side) for site in sites for side in ("key", "value")} if kind.tag == "map" else sites
        content = (*(self.held.get(site, NOTHING) for site in keys), *kind.items)
        return all(self.is_inert(one, seen | sites) for one in content)

    def weaken(self, kind: Kind, into: Kind = DATA) -> None:
        """From here on nobody keeps account of what is put into it: whoever has it may put data there."""
        waiting, seen = [kind], set[Site]()
        while waiting:
            one = waiting.pop()
            waiting += one.items
            for site in one.sites if one.tag in _HELD else ():
                for key in ((site, "key"), (site, "value")) if one.tag == "map" else (site,):
                    if key not in seen:
                        seen.add(key)
                        waiting.append(self.held.get(key, NOTHING))
                        self.put(key, into)

    def holds(self, kind: Kind, tag: str) -> bool:
        """Whether a kind is this, or has it in it."""
        waiting, seen = [kind], set[Site]()
        while waiting:
            one = waiting.pop()
            if one.tag == tag:
                return True
            waiting += one.items
            for site in one.sites if one.tag in _HELD else ():
                for key in ((site, "key"), (site, "value")) if one.tag == "map" else (site,):
                    if key not in seen:
                        seen.add(key)
                        waiting.append(self.held.get(key, NOTHING))
        return False
