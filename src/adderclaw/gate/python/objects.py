"""Methods of containers and of the objects that the tables make."""

import re
from collections.abc import Callable

from adderclaw.gate.programs.allowlist import names
from adderclaw.gate.python import attributes, calls, table
from adderclaw.gate.python.kinds import DATA, NOTHING, NUMBER, Kind, Refused, several, thing
from adderclaw.gate.python.state import Call, State

type Rule = Callable[[State, Kind, Call], Kind]

# ------------------------------------------------------------------ containers


def _put(state: State, kind: Kind, given: Call) -> Kind:
    given.only(1, 2)
    attributes.store(state, kind, DATA, given.args[-1])
    return NOTHING


def _put_all(state: State, kind: Kind, given: Call) -> Kind:
    for one in given.args:
        if kind.tag == "map" and one.tag == "map":
            attributes.store(state, kind, state.side(one, "key"), state.side(one, "value"))
        elif kind.tag == "map":
            content = attributes.elements(state, one)
            pair = content.items if content.tag == "tuple" and len(content.items) == 2 else (content, content)
            whole = content.tag in ("list", "text", "data")
            inner = [attributes.elements(state, part) if whole else part for part in pair]
            attributes.store(state, kind, inner[0], inner[1])
        else:
            attributes.store(state, kind, DATA, attributes.elements(state, one))
    for one in given.keywords.values():
        attributes.store(state, kind, DATA, one)
    return NOTHING


def _default(state: State, kind: Kind, given: Call) -> Kind:
    given.only(1, 2)
    if kind.tag != "map":
        raise Refused("setdefault of no mapping")
    attributes.store(state, kind, given.args[0], given.args[1] if len(given.args) > 1 else NOTHING)
    return state.side(kind, "value")


def _taken(state: State, kind: Kind, given: Call) -> Kind:
    given.only(0, 2, "default")
    content = state.side(kind, "value") if kind.tag == "map" else state.inside(kind)
    default = given.args[1] if len(given.args) > 1 else given.keywords.get("default", NOTHING)
    return state.join(content, default)


def _keys(state: State, kind: Kind, given: Call) -> Kind:
    given.only(0, 0)
    return state.made(given.site, attributes.elements(state, kind))


def _values(state: State, kind: Kind, given: Call) -> Kind:
    given.only(0, 0)
    return state.made(given.site, state.side(kind, "value") if kind.tag == "map" else state.inside(kind))


def _items(state: State, kind: Kind, given: Call) -> Kind:
    given.only(0, 0)
    return attributes.pairs(state, kind, given.site)


def _pair(state: State, kind: Kind, given: Call) -> Kind:
    given.only(0, 0, "last")
    return several(state.side(kind, "key"), state.side(kind, "value")) if kind.tag == "map" else state.inside(kind)


def _counted(state: State, kind: Kind, given: Call) -> Kind:
    given.only(0, 1)
    count = state.side(kind, "value") if kind.tag == "map" else NUMBER
    return state.made(given.site, several(attributes.elements(state, kind), count))


def _same(_: State, kind: Kind, given: Call) -> Kind:
    given.only(0, 0)
    return kind


def _with(state: State, kind: Kind, given: Call) -> Kind:
    result = kind
    for one in given.args:
        content = state.made((given.site, "with"), attributes.elements(state, one))
        result = state.join(result, content) if kind.tag == "list" else DATA
    if result.tag != "list":
        raise Refused("this of what is no set")
    return result


def _sorted(state: State, kind: Kind, given: Call) -> Kind:
    given.only(0, 0, "key", "reverse")
    if "key" in given.keywords:
        calls.handed(state, given.keywords["key"], state.inside(kind))
    return NOTHING


def _looked(state: State, _: Kind, given: Call) -> Kind:
    calls.consumed(state, given.all, keeps=False)
    return NUMBER


HELD: dict[str, Rule] = {
    **dict.fromkeys(("append", "add", "appendleft", "insert"), _put),
    **dict.fromkeys(("extend", "update", "extendleft"), _put_all),
    "setdefault": _default,
    **dict.fromkeys(("pop", "popleft", "get"), _taken),
    **dict.fromkeys(("keys", "elements"), _keys),
    "values": _values,
    "items": _items,
    "popitem": _pair,
    "most_common": _counted,
    "copy": _same,
    **dict.fromkeys(("union", "intersection", "difference", "symmetric_difference"), _with),
    "sort": _sorted,
    **dict.fromkeys(
        names("""reverse clear remove discard index count rotate difference_update intersection_update issubset
    issuperset isdisjoint total move_to_end"""),
        _looked,
    ),
}

# ------------------------------------------------------------------ objects of the tables


def method(state: State, kind: Kind, name: str, given: Call) -> Kind:
    if "**" in given.keywords:
        raise Refused(f"** for {name}")
    rule = _OBJECTS.get(kind.name)
    if rule is None:
        raise Refused(f"the method {name}")
    return rule(state, kind, name, given)


_FILE = names("""read readline readlines write writelines close flush seek tell readable writable getvalue isatty""")


def _file(state: State, _: Kind, name: str, given: Call) -> Kind:
    if name not in _FILE:
        raise Refused(f"the method {name} of a file")
    calls.consumed(state, given.all, keeps=False)
    return DATA


def _frame(state: State, kind: Kind, name: str, given: Call) -> Kind:
    if name in ("agg", "aggregate"):
        if len(given.args) != 1 or given.keywords or not _aggregates(state, given.args[0]):
            raise Refused(f"{name} of more than the usual")
        return kind
    if name in table.SHOWS and (given.args or not table.SHOWN.issuperset(given.keywords)):
        raise Refused(f"{name} that may write a file")
    if name not in table.FRAME and name not in table.SHOWS:
        raise Refused(f"the method {name} of a table")
    for one in given.all:
        if one.tag == "call":
            result = calls.handed(state, one, kind)
            attributes.keep(state, result)
        else:
            attributes.keep(state, one)
    return kind


def _aggregates(state: State, kind: Kind) -> bool:
    """Functions are named by texts, and every method of a table is one of these: only those that count are taken."""
    if kind.tag == "map":
        return _aggregates(state, state.side(kind, "value"))
    if kind.tag in ("list", "tuple"):
        return _aggregates(state, state.inside(kind))
    return kind.tag == "text" and not kind.found and not kind.bare and kind.values <= table.AGGREGATES


def _random(state: State, _: Kind, name: str, given: Call) -> Kind:
    if name not in table.RANDOM:
        raise Refused(f"the method {name}")
    calls.consumed(state, given.all, keeps=True)
    return state.mark(*given.all)


def _tree(state: State, _: Kind, name: str, given: Call) -> Kind:
    if name == "write":
        given.only(1, 3, "encoding", "xml_declaration", "short_empty_elements")
        return _written(state, given)
    if name not in ("getroot", "find", "findall", "findtext", "iter", "iterfind"):
        raise Refused(f"the method {name}")
    calls.consumed(state, given.all, keeps=True)
    return DATA


def _written(state: State, given: Call) -> Kind:
    if given.args[0].tag != "object" or given.args[0].name != "file":
        state.open(given.args[0], write=True)
    return NOTHING


_PARSER = names(
    """sections options get getint getfloat getboolean has_section has_option items read_string read_dict
    defaults set add_section"""
)


def _parser(state: State, _: Kind, name: str, given: Call) -> Kind:
    if name == "read":
        given.only(1, 1, "encoding")
        one = given.args[0]
        state.open(state.inside(one) if one.tag in ("list", "tuple") else one)
        return DATA
    if name in ("write", "read_file"):
        given.only(1, 1)
        if given.args[0].tag != "object" or given.args[0].name != "file":
            raise Refused(f"{name} of what is no file")
        return NOTHING
    if name not in _PARSER:
        raise Refused(f"the method {name}")
    calls.consumed(state, given.all, keeps=True)
    return DATA


_ARCHIVE = names("""namelist infolist getnames getmembers getinfo getmember testzip close read list printdir""")


def _archive(state: State, _: Kind, name: str, given: Call) -> Kind:
    if name not in _ARCHIVE:
        raise Refused(f"the method {name} of an archive")
    calls.consumed(state, given.all, keeps=False)
    return DATA


def _database(state: State, kind: Kind, name: str, given: Call) -> Kind:
    if name in ("execute", "executemany"):
        given.only(1, 2)
        if not calls.is_plain_statement(given.args[0]):
            raise Refused("a statement that may leave its database")
        calls.consumed(state, given.args[1:], keeps=False)
        return Kind("object", name="cursor")
    if name == "cursor" and kind.name == "connection":
        given.only(0, 0)
        return Kind("object", name="cursor")
    if name not in ("fetchone", "fetchall", "fetchmany", "commit", "close", "rollback"):
        raise Refused(f"the method {name} of a database")
    calls.consumed(state, given.all, keeps=False)
    return DATA


_IMAGES = frozenset(["convert", "resize", "crop", "rotate", "transpose"])


def _image(state: State, kind: Kind, name: str, given: Call) -> Kind:
    if name == "save":
        given.only(1, 1, "quality", "optimize", "dpi")
        return _written(state, given)
    if name not in table.IMAGE:
        raise Refused(f"the method {name} of an image")
    calls.consumed(state, given.all, keeps=False)
    return kind if name in _IMAGES else DATA


def _environ(state: State, _: Kind, name: str, given: Call) -> Kind:
    given.only(1, 2)
    if name != "get":
        raise Refused(f"os.environ.{name}")
    attributes.variable(given.args[0])
    calls.consumed(state, given.all, keeps=True)
    return DATA


def _path(state: State, _: Kind, name: str, given: Call) -> Kind:
    """`sys.path`: folders of the project only."""
    given.only(1, 2)
    folder = given.args[-1]
    plain = folder.tag == "text" and not folder.found and not folder.bare
    if name not in ("insert", "append") or not plain:
        raise Refused(f"sys.path.{name}")
    for value in folder.values:
        if value and (not re.fullmatch(r"[\w./-]+", value) or value.startswith(("/", "-")) or ".." in value.split("/")):
            raise Refused(f"code from {value}")
        state.reads[value or "."] = None
    return NOTHING


def _logger(state: State, _: Kind, name: str, given: Call) -> Kind:
    if name not in ("setLevel", "debug", "info", "warning", "error", "exception", "critical"):
        raise Refused(f"the method {name} of a logger")
    calls.consumed(state, given.all, keeps=False)
    return NOTHING


def _loop(_state: State, _: Kind, name: str, given: Call) -> Kind:
    """`run_until_complete(main())`: what the function gives."""
    if name not in ("run_until_complete", "close"):
        raise Refused(f"the method {name} of a loop")
    given.only(0, 1)
    return given.first


def _error(_state: State, _: Kind, name: str, given: Call) -> Kind:
    if name not in ("errors", "json"):
        raise Refused(f"the method {name} of an error")
    given.only(0, 0)
    return thing("said")


_OBJECTS: dict[str, Callable[[State, Kind, str, Call], Kind]] = {
    "file": _file,
    "frame": _frame,
    "random": _random,
    "tree": _tree,
    "parser": _parser,
    "archive": _archive,
    "connection": _database,
    "cursor": _database,
    "image": _image,
    "environ": _environ,
    "path": _path,
    "error": _error,
    "logger": _logger,
    "loop": _loop,
}
