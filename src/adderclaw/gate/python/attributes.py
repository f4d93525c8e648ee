"""What a value of each kind has: its attributes, its elements, what can be put into it."""

import re
from pathlib import PurePosixPath

from adderclaw.gate.python import project, table
from adderclaw.gate.python.kinds import (
    DATA,
    MAYBE,
    NOTHING,
    PROJECT,
    Kind,
    Refused,
    function,
    module,
    several,
    text,
    thing,
)
from adderclaw.gate.python.state import State

_TYPES = frozenset({"str", "int", "float", "bytes", "bytearray", "dict", "list", "set", "tuple", "frozenset", "bool"})
_HELD = frozenset({"list", "map", "tuple"})


def attribute(state: State, kind: Kind, name: str) -> Kind:
    """An attribute that is asked for, and not called at once."""
    if name.startswith("_") and kind.tag not in ("project", "maybe"):
        raise Refused(f"the attribute {name}")
    match kind.tag:
        case "nothing":
            state.missing()
            return NOTHING
        case "project" | "maybe" if name == "query":
            return thing("query")  # a model's: called itself, it may be that of a table, which evaluates texts
        case "module" if f"{kind.name}.{name}" == "sys.argv":
            return DATA if state.given is None else several(text("-c"), *map(text, state.given))
        case "module":
            return of_module(kind.name, name)
        case "maybe":
            project.check_name(name, module=True)
            return MAYBE
        case "project":
            project.check_name(name, module=False)
            return PROJECT
        case "object":
            return _of_object(kind, name)
        case "call":
            return _of_functions(kind, name)
        case "text" if name == "parent":
            return _parent(kind)
        case "mixed":
            raise Refused("what is sometimes this and sometimes that")
        case _ if name in table.ATTRIBUTES:
            _loosen(state, kind)
            return DATA
        case _ if name in table.FREE and state.is_inert(kind):
            # A method as a value: it computes, like the functions of the tables.
            _loosen(state, kind)
            return function(table.PURE)
        case _:
            raise Refused(f"the attribute {name}")


def _loosen(state: State, kind: Kind) -> None:
    if not state.is_inert(kind):
        raise Refused("a container of more than data")
    state.weaken(kind)


def of_module(name: str, attribute: str) -> Kind:
    full = f"{name}.{attribute}"
    mark = table.functions().get(full)
    if mark is None:
        if full in table.modules() or full in table.folders():
            return module(full)
        raise Refused(f"{full}, which is not listed")
    if mark == "=":
        return DATA
    if full in ("os.environ", "sys.path"):
        return thing({"os.environ": "environ", "sys.path": "path"}[full])
    if full in ("sys.stdin", "sys.stdout", "sys.stderr"):
        return thing("file")
    return function(full)


def _of_object(kind: Kind, name: str) -> Kind:
    if kind.name in ("error", "said") and name in table.ERROR:
        return thing("said")  # it may be whatever was at hand when it was raised
    if kind.name == "record":
        return DATA
    if kind.name == "frame" and name in table.ATTRIBUTES:
        return kind
    if kind.name == "image" and name in table.IMAGE:
        return DATA
    if kind.name == "file" and name in table.ATTRIBUTES:
        return kind if name == "buffer" else DATA
    if kind.name == "file" and name in ("readline", "write", "read"):
        return function(table.PURE)
    if kind.name == "connection" and name in ("total_changes", "row_factory"):
        return DATA
    raise Refused(f"the attribute {name}")


def _of_functions(kind: Kind, name: str) -> Kind:
    """`str.lower`, `datetime.now`: what a class of the tables has."""
    if kind.sites:
        raise Refused(f"the attribute {name} of a function")
    found: set[str] = set()
    for one in kind.values:
        full = f"{one}.{name}"
        mark = table.functions().get(full)
        if mark == "=":
            return DATA
        if mark is not None:
            found.add(full)
        elif one in _TYPES and name in table.FREE:
            found.add(table.PURE)
        else:
            raise Refused(f"{full}, which is not listed")
    return Kind("call", frozenset(found))


def _parent(kind: Kind) -> Kind:
    if kind.found or kind.bare:
        return DATA
    return Kind("text", frozenset(str(PurePosixPath(value).parent) for value in kind.values))


# ------------------------------------------------------------------ containers


def elements(state: State, kind: Kind) -> Kind:
    """What a loop over it gives."""
    match kind.tag:
        case "list" | "tuple":
            return state.inside(kind)
        case "map":
            return state.side(kind, "key")
        case "text" | "data":
            return DATA
        case "nothing" | "number":
            state.missing()
            return NOTHING
        case "project" | "maybe":
            return kind
        case "object" if kind.name in ("error", "said"):
            return thing("said")
        case "object" if kind.name in ("file", "path", "record"):
            return DATA
        case "object" if kind.name in ("frame", "cursor"):
            return kind if kind.name == "frame" else DATA
        case _:
            raise Refused("a loop over what is no data")


def item(state: State, kind: Kind, index: object = None) -> Kind:
    match kind.tag:
        case "tuple" if isinstance(index, int) and -len(kind.items) <= index < len(kind.items):
            return kind.items[index]
        case "list" | "tuple":
            return state.inside(kind)
        case "map":
            return state.side(kind, "value")
        case "nothing":
            state.missing()
            return NOTHING
        case "text" | "data":
            return DATA
        case "project" | "maybe":
            return kind
        case "object" if kind.name in ("frame", "said"):
            return kind
        case "object" if kind.name in ("path", "parser", "record"):
            return DATA
        case _:
            raise Refused("a subscript of what is no data")


def variable(name: Kind) -> None:
    """A variable of the environment, by its name, and none that holds a secret."""
    plain = name.tag == "text" and not name.found and not name.bare
    if not plain or any(re.search(r"(?i)key|token|secret|passw|cred|auth", value) for value in name.values):
        raise Refused("a variable that may hold a secret, or whose name does not stand there")


def sliced(state: State, kind: Kind, site: object, bounds: slice | None = None) -> Kind:
    match kind.tag:
        case "tuple" if bounds is not None:
            return several(*kind.items[bounds])
        case "list":
            return kind
        case "tuple":
            return state.made(site, state.inside(kind))
        case "nothing" | "number" | "text" | "data" | "project" | "maybe" | "object":
            return item(state, kind)
        case _:
            raise Refused("a part of what is no data")


def store(state: State, into: Kind, key: Kind, kind: Kind) -> None:
    """`x[key] = kind`, `x.append(kind)`: from now on it is in there."""
    if kind.tag in ("mixed", "module"):
        raise Refused("a module, or what is sometimes this and sometimes that, as a value")
    match into.tag:
        case "list":
            for site in into.sites:
                state.put(site, kind)
        case "map":
            for site in into.sites:
                state.put((site, "key"), key)
                state.put((site, "value"), kind)
        case "nothing":
            pass
        case "data":
            keep(state, kind)
            keep(state, key)
        case "project":
            state.hand((kind, key))
            if not state.is_inert(kind) or not state.is_inert(key):
                raise Refused("a function that is put into an object of the project's")
        case "object" if into.name == "frame":
            keep(state, kind)
            keep(state, key)
        case _:
            raise Refused("putting something into what is no container")


def keep(state: State, kind: Kind) -> None:
    """Data takes it in: nobody keeps account of it from here on."""
    if not state.is_inert(kind):
        raise Refused("a function, or a name of a module of the project's, among data")
    state.weaken(kind)


def pairs(state: State, kind: Kind, site: object) -> Kind:
    if kind.tag == "map":
        return state.made(site, several(state.side(kind, "key"), state.side(kind, "value")))
    content = state.inside(kind) if kind.tag in _HELD else elements(state, kind)
    return state.made(site, several(content, content))
