"""Methods of values: a closed list of names, each with what it may be given and what it gives.

They are looked up on values that may be anything that reading members leads to, so none of these names calls what it
is given, but for functions that stand there; and those that change what they are called on are for what was made here.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from adderclaw.gate.javascript.functions import callback, values
from adderclaw.gate.javascript.kinds import CLEAN, DATA, NUMBER, TEXT, Kind
from adderclaw.gate.javascript.lexer import Refused
from adderclaw.gate.javascript.natives import Arg
from adderclaw.gate.programs.allowlist import names

if TYPE_CHECKING:
    from adderclaw.gate.javascript.values import Values

_TEXTS = names(
    """toUpperCase toLowerCase trim trimStart trimEnd padStart padEnd repeat substring substr charAt normalize toFixed
    toPrecision toExponential toISOString toLocaleString toLocaleDateString toLocaleTimeString toDateString toTimeString
    toUTCString toString join toLocaleUpperCase toLocaleLowerCase"""
)
_NUMBERS = names(
    """indexOf lastIndexOf search localeCompare charCodeAt codePointAt getTime getFullYear getMonth getDate getDay
    getHours getMinutes getSeconds getMilliseconds getTimezoneOffset getUTCFullYear getUTCMonth getUTCDate getUTCDay
    getUTCHours getUTCMinutes getUTCSeconds includes startsWith endsWith has test hasOwnProperty setDate
    setMonth     setFullYear setHours setMinutes setSeconds setTime setUTCDate setUTCHours"""
)
_ASKED = names("some every findIndex findLastIndex")


def call(interpreter: "Values", owner: Kind, name: str, args: list[Arg], at: int) -> Kind:
    if owner.sort == "slot" and name in ("push", "unshift", "add", "set") and owner.inner is not None:
        # Of what an object has by its type nothing has these methods: what they change is what was put there.
        owner = owner.inner
        if owner.sort == "none":
            return NUMBER
    if name in _TEXTS or name in _NUMBERS:
        for kind in values(interpreter, args):
            if kind.sort == "data" and name not in ("includes", "indexOf", "lastIndexOf", "has"):
                raise Refused(f"{name} with a value that is not known")
        return TEXT if name in _TEXTS else NUMBER
    handler = _METHODS.get(name)
    if handler is None:
        raise Refused(f"the method {name}")
    return handler(interpreter, owner, args, at)


def _element(interpreter: "Values", owner: Kind) -> Kind:
    return interpreter.cells.inside(owner)


def _handed(interpreter: "Values", owner: Kind) -> Kind:
    """What a function is called with: of an array each that is in it."""
    is_array = owner.sort == "box" and owner.name == "array"
    return interpreter.cells.each(owner) if is_array else _element(interpreter, owner)


def _fresh(interpreter: "Values", owner: Kind, inside: Kind, at: int) -> Kind:
    """What a method makes of an array is one; of an iterator it is an iterator, whose length is what one gives it."""
    real = owner.sort == "box" and owner.name == "array"
    return interpreter.cells.box("call", at, inside, "array" if real else "other")


def _mapped(interpreter: "Values", owner: Kind, args: list[Arg], at: int) -> Kind:
    return _fresh(interpreter, owner, _asked(interpreter, owner, args), at)


def _flat_mapped(interpreter: "Values", owner: Kind, args: list[Arg], at: int) -> Kind:
    inside = _unpacked(interpreter, _asked(interpreter, owner, args))
    return _fresh(interpreter, owner, inside, at)


def _unpacked(interpreter: "Values", kind: Kind) -> Kind:
    """What becomes of a value where arrays are unpacked, and nothing else is."""
    return interpreter.cells.inside(kind) if kind.sort == "box" and kind.name == "array" else kind


def _asked(interpreter: "Values", owner: Kind, args: list[Arg]) -> Kind:
    """What a function gives that is called with each."""
    made = callback(interpreter, args, 0, [_handed(interpreter, owner), NUMBER, _whole(owner)])
    if len(args) > 1:
        raise Refused("a function is called on something")
    return made


def _whole(owner: Kind) -> Kind:
    return owner if owner.sort in ("box", "clean", "data", "text") else DATA


def _each(interpreter: "Values", owner: Kind, args: list[Arg], _at: int) -> Kind:
    # A Map hands on its keys, a Set its values once more; only of an array it is a number.
    is_array = owner.sort == "box" and owner.name == "array"
    key = NUMBER if is_array else interpreter.plain(interpreter.cells.join(TEXT, _element(interpreter, owner)))
    callback(interpreter, args, 0, [_handed(interpreter, owner), key, _whole(owner)])
    return NUMBER


def _tested(interpreter: "Values", owner: Kind, args: list[Arg], _at: int) -> Kind:
    _asked(interpreter, owner, args)
    return NUMBER


def _filtered(interpreter: "Values", owner: Kind, args: list[Arg], at: int) -> Kind:
    _asked(interpreter, owner, args)
    return _fresh(interpreter, owner, _element(interpreter, owner), at)


def _found(interpreter: "Values", owner: Kind, args: list[Arg], _at: int) -> Kind:
    _asked(interpreter, owner, args)
    return _element(interpreter, owner)


def _sliced(interpreter: "Values", owner: Kind, args: list[Arg], at: int) -> Kind:
    values(interpreter, args)
    if owner.sort in ("text", "number"):
        return TEXT
    return (
        _fresh(interpreter, owner, _element(interpreter, owner), at)
        if owner.sort == "box"
        else interpreter.plain(owner)
    )


def _one(interpreter: "Values", owner: Kind, args: list[Arg], _at: int) -> Kind:
    values(interpreter, args)
    return _element(interpreter, owner)


def _removed(interpreter: "Values", owner: Kind, args: list[Arg], at: int) -> Kind:
    _own(owner)
    return _one(interpreter, owner, args, at)


def _own(owner: Kind) -> None:
    """Raises Refused unless it was made here: what is built in is not changed."""
    if owner.sort not in ("box", "clean"):
        raise Refused("something is changed that was not made here")


def _put(interpreter: "Values", owner: Kind, kinds: list[Kind]) -> None:
    _own(owner)
    for kind in kinds:
        if owner.sort == "box":
            interpreter.cells.put(owner.cell, kind)
        elif not interpreter.cells.is_clean(kind):
            raise Refused("a value that is not known is put among such as are")


def _pushed(interpreter: "Values", owner: Kind, args: list[Arg], _at: int) -> Kind:
    _put(interpreter, owner, [arg.kind for arg in args])
    return NUMBER


def _added(interpreter: "Values", owner: Kind, args: list[Arg], _at: int) -> Kind:
    values(interpreter, args)
    _put(interpreter, owner, [arg.kind for arg in args])
    return owner


def _filled(interpreter: "Values", owner: Kind, args: list[Arg], _at: int) -> Kind:
    _put(interpreter, owner, [arg.kind for arg in args])
    return owner


def _spliced(interpreter: "Values", owner: Kind, args: list[Arg], at: int) -> Kind:
    _put(interpreter, owner, [arg.kind for arg in args[2:]])
    values(interpreter, args)
    return _fresh(interpreter, owner, _element(interpreter, owner), at)


def _sorted(interpreter: "Values", owner: Kind, args: list[Arg], _at: int) -> Kind:
    _own(owner)
    _compared(interpreter, owner, args)
    return owner


def _to_sorted(interpreter: "Values", owner: Kind, args: list[Arg], at: int) -> Kind:
    _compared(interpreter, owner, args)
    return _fresh(interpreter, owner, _element(interpreter, owner), at)


def _compared(interpreter: "Values", owner: Kind, args: list[Arg]) -> None:
    one = _element(interpreter, owner)
    if args:
        callback(interpreter, args, 0, [one, one])
    if len(args) > 1:
        raise Refused("sort with more than a function")


def _reversed(_interpreter: "Values", owner: Kind, args: list[Arg], _at: int) -> Kind:
    _own(owner)
    if args:
        raise Refused("reverse with something")
    return owner


def _reduced(interpreter: "Values", owner: Kind, args: list[Arg], at: int) -> Kind:
    if len(args) not in (1, 2) or any(arg.spread for arg in args):
        raise Refused("reduce of what does not stand there")
    one = _element(interpreter, owner)
    first = args[1].kind if len(args) == 2 else one
    cell = ("reduced", at)
    interpreter.cells.put(cell, first)
    made = callback(interpreter, args, 0, [interpreter.cells.get(cell), one, NUMBER, _whole(owner)])
    interpreter.cells.put(cell, made)
    return interpreter.cells.get(cell)


def _flattened(interpreter: "Values", owner: Kind, args: list[Arg], at: int) -> Kind:
    values(interpreter, args)
    one = _element(interpreter, owner)
    inside = _unpacked(interpreter, one)
    if args:
        inside = interpreter.plain(inside)
    return _fresh(interpreter, owner, inside, at)


def _concatenated(interpreter: "Values", owner: Kind, args: list[Arg], at: int) -> Kind:
    if owner.sort in ("text", "number"):
        _clean(interpreter, args)
        return TEXT
    inside = _element(interpreter, owner)
    for arg in args:
        inside = interpreter.cells.join(inside, _unpacked(interpreter, arg.kind))
    return _fresh(interpreter, owner, inside, at) if owner.sort == "box" else interpreter.plain(inside)


def _split(interpreter: "Values", _owner: Kind, args: list[Arg], at: int) -> Kind:
    _clean(interpreter, args)
    return interpreter.cells.box("call", at, TEXT)


def _clean(interpreter: "Values", args: list[Arg]) -> None:
    for kind in values(interpreter, args):
        if kind.sort in ("data", "project"):
            raise Refused("a value that is not known, where a function would be called")


def _matched(interpreter: "Values", _owner: Kind, args: list[Arg], _at: int) -> Kind:
    _clean(interpreter, args)
    return CLEAN


def _all_matched(interpreter: "Values", owner: Kind, args: list[Arg], at: int) -> Kind:
    return interpreter.cells.box("call", at, _matched(interpreter, owner, args, at), "other")


def _copied(interpreter: "Values", owner: Kind, args: list[Arg], at: int) -> Kind:
    values(interpreter, args)
    return _fresh(interpreter, owner, _element(interpreter, owner), at)


def _replaced(interpreter: "Values", _owner: Kind, args: list[Arg], _at: int) -> Kind:
    if len(args) != 2 or any(arg.spread for arg in args):
        raise Refused("replace of what does not stand there")
    _clean(interpreter, args[:1])
    if args[1].kind.sort in ("function", "native"):
        callback(interpreter, args, 1, [TEXT])
    else:
        _clean(interpreter, args[1:])
    return TEXT


def _keys(interpreter: "Values", owner: Kind, args: list[Arg], at: int) -> Kind:
    if args:
        raise Refused("keys with something")
    return interpreter.cells.box("call", at, interpreter.plain(_element(interpreter, owner)), "other")


def _pairs(interpreter: "Values", owner: Kind, args: list[Arg], at: int) -> Kind:
    if args:
        raise Refused("entries with something")
    pair = interpreter.cells.box("pair", at, interpreter.cells.join(NUMBER, _element(interpreter, owner)))
    return interpreter.cells.box("call", at, pair, "other")


def _dropped(interpreter: "Values", owner: Kind, args: list[Arg], _at: int) -> Kind:
    _own(owner)
    values(interpreter, args)
    return NUMBER


_METHODS: dict[str, Callable[["Values", Kind, list[Arg], int], Kind]] = {
    "map": _mapped,
    "flatMap": _flat_mapped,
    "forEach": _each,
    **dict.fromkeys(_ASKED, _tested),
    "filter": _filtered,
    **dict.fromkeys(("find", "findLast"), _found),
    "slice": _sliced,
    **dict.fromkeys(("at", "get"), _one),
    **dict.fromkeys(("pop", "shift"), _removed),
    **dict.fromkeys(("push", "unshift"), _pushed),
    **dict.fromkeys(("add", "set"), _added),
    "fill": _filled,
    "splice": _spliced,
    "sort": _sorted,
    "toSorted": _to_sorted,
    "toReversed": _copied,
    "reverse": _reversed,
    **dict.fromkeys(("reduce", "reduceRight"), _reduced),
    "flat": _flattened,
    "concat": _concatenated,
    "split": _split,
    **dict.fromkeys(("match", "exec"), _matched),
    "matchAll": _all_matched,
    **dict.fromkeys(("replace", "replaceAll"), _replaced),
    **dict.fromkeys(("keys", "values"), _keys),
    "entries": _pairs,
    **dict.fromkeys(("delete", "clear"), _dropped),
}
NAMES = frozenset(_METHODS) | _TEXTS | _NUMBERS
