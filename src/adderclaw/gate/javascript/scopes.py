"""Which names a piece of JavaScript declares, and where each of them holds."""

from collections.abc import Iterable, Iterator
from typing import Any, cast

from adderclaw.gate.javascript.lexer import Refused
from adderclaw.gate.javascript.names import GLOBALS
from adderclaw.gate.javascript.parser import Node
from adderclaw.gate.programs.allowlist import names

_FIXED = names("undefined NaN Infinity require module exports globalThis global __filename __dirname")


class Scope:
    def __init__(self, outer: "Scope | None" = None) -> None:
        self.outer = outer
        self.names: dict[str, int] = {}

    def find(self, name: str) -> int | None:
        """Which variable a name stands for: the place where it is declared."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return None


def every(program: Iterable[Any]) -> Iterator[Node]:
    """Each node of a piece."""
    waiting: list[Any] = list(program)
    while waiting:
        one = waiting.pop()
        if isinstance(one, Node):
            yield one
            waiting += one.parts
        elif isinstance(one, tuple | list):
            waiting += cast(Iterable[Any], one)


def names_of(target: Node) -> Iterator[Node]:
    """The names in a pattern."""
    match target.type:
        case "name":
            yield target
        case "array_pattern":
            for one, _, _ in target.parts:
                if one is not None:
                    yield from names_of(one)
        case _:
            for _, one, _ in target.parts:
                yield from names_of(one)


def declared(node: Node) -> Iterator[Node]:
    """What a statement declares in the block that it stands in."""
    parts = node.parts
    if node.type == "declare" and parts[0] != "var":
        yield from (target for target, _ in parts[1])
    elif node.type == "function_statement":
        yield Node("name", node.at, cast(Node, parts[0]).parts[:1])
    elif node.type == "import":
        yield from (own for _, own in parts[1])


def constants(program: Iterable[Node]) -> frozenset[int]:
    """The variables that are given one value, once: elsewhere one name has a value for each round and each call."""
    found: set[int] = set()
    for node in program:
        if node.type == "declare" and node.parts[0] == "const":
            found.update(target.at for target, _ in node.parts[1] if target.type == "name")
    return frozenset(found)


def hoisted(node: Node) -> Iterator[Node]:
    """What `var` declares in a statement, however deep, for the function that it stands in."""
    waiting: list[Any] = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Node):
            if one.type == "function":
                continue
            if one.type == "declare" and one.parts[0] == "var":
                yield from (target for target, _ in one.parts[1])
            elif one.type == "each" and one.parts[0] == "var":
                yield one.parts[1]
            waiting += one.parts
        elif isinstance(one, tuple | list):
            waiting += cast(Iterable[Any], one)


def check_names(program: Iterable[Any]) -> None:
    """Raises Refused for a name that stands for more than one thing where it is not plain which."""
    loose: list[str] = []
    found: list[str] = []
    for node in every(program):
        given: list[Node] = []
        match node.type:
            case "declare":
                given = [name for target, _ in node.parts[1] for name in names_of(target)]
                loose += [name.parts[0] for name in given] if node.parts[0] == "var" else []
            case "each":
                given = list(names_of(node.parts[1]))
                loose += [name.parts[0] for name in given] if node.parts[0] == "var" else []
            case "function":
                given = [name for target, _, _ in node.parts[1] for name in names_of(target)]
                own = [node.parts[0]] if node.parts[0] else []
                loose, found = loose + own, found + own
            case "try":
                given = [name for caught in node.parts[1:2] if caught is not None for name in names_of(caught)]
            case "import":
                given = [own for _, own in node.parts[1]]
            case _:
                continue
        found += [name.parts[0] for name in given]
    wrong = next((name for name in found if name in _FIXED), None)
    wrong = wrong or next((name for name in loose if found.count(name) > 1 or name in GLOBALS), None)
    if wrong is not None:
        raise Refused(f"{wrong}, which may stand for more than one thing")


def same_place(one: Node, two: Node) -> bool:
    """Whether two nodes are `a[b]` or `a[b.c]` with the same names: both read the same, as long as nothing changes."""
    return one.type == two.type == "index" and one.parts[0].type == "name" and _same(one, two)


def _same(one: Node, two: Node) -> bool:
    if one.type != two.type or len(one.parts) != len(two.parts):
        return False
    if one.type == "name":
        return one.parts == two.parts
    if one.type == "member":
        return one.parts[1:] == two.parts[1:] and _same(one.parts[0], two.parts[0])
    return one.type == "index" and _same(one.parts[0], two.parts[0]) and _same(one.parts[1], two.parts[1])
