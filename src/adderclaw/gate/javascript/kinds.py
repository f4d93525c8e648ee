"""What is known of a value in a piece of JavaScript: its kind.

Four kinds are values, each holding all that those before it hold: `number` is no text that could name a member;
`text` is a primitive; `clean` has no function in it, however deep; `data` may be any value that reading members of
such values leads to, built-in functions included. None of them is ever called. What may be called has kinds of its own.
"""

from typing import NamedTuple

from adderclaw.gate.javascript.lexer import Refused

RANK = {"none": 0, "number": 1, "text": 2, "clean": 3, "data": 4}
MAX_KNOWN = 64


class Kind(NamedTuple):
    sort: str
    known: frozenset[str] | None = None
    """Of a text: all that it may be; NUL stands for a name that was found in a folder."""
    name: str = ""
    """Of what is built in: its name. Of a text: the variable of whose members it is a key. Of a box: what it is."""
    cell: tuple[str, int] = ("", 0)
    """Of a box, which is an array, an object, a Map or a Set that was made here: where what is in it is noted."""
    ids: frozenset[int] = frozenset()
    """Of a function: which it may be."""
    inner: "Kind | None" = None
    """Of a promise: what comes of it. Of a slot, which is read from a box by any key: what was put there."""
    missing: bool = False
    """Of a text: whether there may be none, which is `undefined` where it is put together with others."""


NONE, NUMBER, TEXT, CLEAN, DATA = (Kind(sort) for sort in RANK)
HERE = Kind("here", frozenset({"."}))
"""The folder that a piece runs in, or what is beneath it, as an absolute path: `known` is what comes after it."""
PROJECT = Kind("project")
"""What the project's own code gives."""


def text(*known: str) -> Kind:
    return Kind("text", frozenset(known))


def native(name: str) -> Kind:
    return Kind("native", name=name)


def promise(inner: Kind) -> Kind:
    return inner if inner.sort == "promise" else Kind("promise", inner=inner)


class Cells:
    """What is noted of boxes, variables, parameters and results; it only ever grows, until nothing more is new."""

    def __init__(self) -> None:
        self.noted: dict[tuple[str, int], Kind] = {}
        self.changed = False
        self.widens = False
        """Whether texts that differ are no longer told apart."""
        self.holes = False
        """Whether an array may have places in which nothing is."""
        self._open: set[tuple[str, int]] = set()

    def get(self, cell: tuple[str, int]) -> Kind:
        return self.noted.get(cell, NONE)

    def put(self, cell: tuple[str, int], kind: Kind) -> None:
        before = self.get(cell)
        after = self.join(before, kind)
        if after != before:
            self.noted[cell] = after
            self.changed = True

    def box(self, where: str, at: int, inside: Kind, name: str = "array") -> Kind:
        made = Kind("box", cell=(where, at), name=name)
        self.put(made.cell, inside)
        return made

    def inside(self, kind: Kind) -> Kind:
        """What stands in a value, under a number or in its turn; there may be nothing."""
        match kind.sort:
            case "box":
                found = self.get(kind.cell)
                return found._replace(missing=True) if found.sort == "text" else self.join(found, NUMBER)
            case "text" | "here":
                return Kind("text")
            case "slot":
                return DATA
            case "none" | "number" | "clean" | "data" | "project":
                return kind
            case _:
                raise Refused(f"a {kind.sort} has no members that are taken")

    def each(self, kind: Kind) -> Kind:
        """What comes of a value one by one: of a Map these are pairs."""
        if kind.sort == "box" and kind.name == "map":
            where, at = kind.cell
            return self.box(f"pair of {where}", at, self.get(kind.cell))
        full = kind.sort == "box" and kind.name in ("array", "set") and not self.holes
        found = self.get(kind.cell) if full else NONE
        return found if found.sort == "text" else self.inside(kind)

    def plain(self, kind: Kind) -> Kind:
        """The kind among the four, or `project`, that a value has for those who do not look closer.

        A box that is known under such a name is one into which others may put more: what was known of its texts is
        forgotten.
        """
        match kind.sort:
            case "none" | "number" | "clean" | "data" | "project":
                return kind
            case "text" | "here":
                return TEXT
            case "slot":
                return DATA
            case "box":
                found = self.get(kind.cell)
                if kind.cell in self._open:
                    return CLEAN
                self._open.add(kind.cell)
                try:
                    inner = self.plain(found)
                finally:
                    self._open.discard(kind.cell)
                made = CLEAN if RANK.get(inner.sort, 9) <= RANK["clean"] else inner
                self.put(kind.cell, made)
                return made
            case _:
                raise Refused(f"a {kind.sort} as a value")

    def join(self, one: Kind, two: Kind) -> Kind:
        """The kind of what may be of either."""
        if one == two or two.sort == "none":
            return one
        if one.sort == "none":
            return two
        sorts = {one.sort, two.sort}
        if sorts == {"text"}:
            known = one.known | two.known if one.known is not None and two.known is not None else None
            known = None if self.widens else known
            return Kind(
                "text",
                known if known and len(known) <= MAX_KNOWN else None,
                one.name if one.name == two.name else "",
                missing=one.missing or two.missing,
            )
        if sorts == {"here"} and not self.widens:
            return Kind("here", (one.known or frozenset()) | (two.known or frozenset()))
        if sorts == {"function"}:
            return Kind("function", ids=one.ids | two.ids)
        if "promise" in sorts or "slot" in sorts:
            return self._joined_inner(one, two)
        for given, other in ((one, two), (two, one)):
            # `null` and `undefined` are numbers here: what is missing is not called, and has no members.
            if other.sort == "number" and given.sort in ("function", "native", "box", "instance"):
                return given
        return self._joined_plain(self.plain(one), self.plain(two))

    def _joined_inner(self, one: Kind, two: Kind) -> Kind:
        sort = "promise" if "promise" in (one.sort, two.sort) else "slot"
        inners = [kind.inner or NONE if kind.sort == sort else kind for kind in (one, two)]
        return Kind(sort, inner=self.join(*inners))

    def _joined_plain(self, one: Kind, two: Kind) -> Kind:
        if "project" in (one.sort, two.sort):
            other = two if one.sort == "project" else one
            if other.sort == "data":
                raise Refused("a value of the project's among others")
            return PROJECT
        if one.sort not in RANK or two.sort not in RANK:
            raise Refused(f"either a {one.sort} or a {two.sort}")
        return one if RANK[one.sort] >= RANK[two.sort] else two

    def is_clean(self, kind: Kind) -> bool:
        return RANK.get(self.plain(kind).sort, 9) <= RANK["clean"]
