"""Functions that Node has built in, and what `new` makes: what each may be given, and what it gives."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from adderclaw.gate.javascript import files
from adderclaw.gate.javascript.kinds import CLEAN, DATA, HERE, NONE, NUMBER, TEXT, Kind, native, promise, text
from adderclaw.gate.javascript.lexer import Refused
from adderclaw.gate.javascript.natives import CLEANS, ERRORS, KNOWN, NUMBERS, SAYS, TEXTS, TYPES, Arg, module

if TYPE_CHECKING:
    from adderclaw.gate.javascript.values import Values


def call(interpreter: "Values", name: str, args: list[Arg], at: int, *, keys: Kind = TEXT) -> Kind:
    if name not in KNOWN and not name.startswith(("fs.promises.", "timers.")):
        raise Refused(f"{name} is called")
    special = _CALLS.get(name)
    if special is not None:
        return special(interpreter, args, at, keys)
    if name.startswith("fs."):
        return files.call(interpreter, name, args, at)
    for arg in args:
        kind = _given(interpreter, arg)
        # What is thrown is clean; and options are asked for functions.
        if kind.sort == "data" and re.match(r"assert|util\.inspect|console\.dir", name):
            raise Refused(f"{name} of a value that is not known")
    if name in NUMBERS:
        return NUMBER
    if name in TEXTS:
        return TEXT
    if name in CLEANS:
        return CLEAN
    if name in SAYS:
        return NUMBER
    raise Refused(f"{name} is called")


def _given(interpreter: "Values", arg: Arg) -> Kind:
    """A value that is given to what only looks at it: a function among them is shown, not called."""
    if arg.kind.sort == "function":
        interpreter.invoke(arg.kind, [])
    if arg.kind.sort in ("instance", "promise", "package", "function"):
        return DATA
    return interpreter.plain(arg.kind)


def values(interpreter: "Values", args: list[Arg]) -> list[Kind]:
    """What is given, one by one: none of it is spread, and each is a value."""
    if any(arg.spread for arg in args):
        raise Refused("what is not counted is given to what counts")
    return [interpreter.plain(arg.kind) for arg in args]


def callback(interpreter: "Values", args: list[Arg], index: int, given: list[Kind]) -> Kind:
    """What a function gives that stands there as an argument."""
    if len(args) <= index or any(arg.spread for arg in args[: index + 1]):
        raise Refused("a function is expected")
    return interpreter.invoke(args[index].kind, given)


def _parse(interpreter: "Values", args: list[Arg], _at: int, _keys: Kind) -> Kind:
    if len(args) > 1 and args[1].kind.sort == "function":
        made = callback(interpreter, args, 1, [TEXT, DATA, CLEAN])
        return interpreter.plain(made)
    for arg in args[:1]:
        _given(interpreter, arg)
    if any(arg.kind.sort not in ("number", "box", "none") for arg in args[1:]):
        raise Refused("JSON.parse with more than a text")
    return CLEAN


def _stringify(interpreter: "Values", args: list[Arg], _at: int, _keys: Kind) -> Kind:
    if any(arg.spread for arg in args):
        raise Refused("what is not counted is given to what counts")
    if len(args) > 1 and args[1].kind.sort == "function":
        callback(interpreter, args, 1, [TEXT, DATA])
    elif len(args) > 1 and not interpreter.cells.is_clean(args[1].kind):
        raise Refused("JSON.stringify with a replacer that is not known")
    for arg in (*args[:1], *args[2:]):
        _given(interpreter, arg)
    return TEXT


def _keys_of(interpreter: "Values", args: list[Arg], at: int, keys: Kind) -> Kind:
    if args and args[0].kind.sort in ("package", "project"):
        return interpreter.cells.box("call", at, TEXT)
    values(interpreter, args)
    return interpreter.cells.box("call", at, keys if len(args) == 1 else TEXT)


def _names_of(interpreter: "Values", args: list[Arg], at: int, _keys: Kind) -> Kind:
    return _keys_of(interpreter, args, at, TEXT)


def _gives(kind: Kind) -> "Handler":
    """A function that is given values, and always gives the same kind."""

    def handler(interpreter: "Values", args: list[Arg], _at: int, _keys: Kind) -> Kind:
        for arg in args:
            _given(interpreter, arg)
        return kind

    return handler


def _values_of(interpreter: "Values", args: list[Arg], at: int, _keys: Kind) -> Kind:
    values(interpreter, args)
    return interpreter.cells.box("call", at, interpreter.cells.inside(args[0].kind) if args else NONE)


def _entries(interpreter: "Values", args: list[Arg], at: int, _keys: Kind) -> Kind:
    values(interpreter, args)
    inside = interpreter.cells.inside(args[0].kind) if args else NONE
    pair = interpreter.cells.box("pair", at, interpreter.cells.join(TEXT, interpreter.plain(inside)))
    return interpreter.cells.box("call", at, pair)


def _from_entries(interpreter: "Values", args: list[Arg], _at: int, _keys: Kind) -> Kind:
    if len(args) != 1 or args[0].spread or not interpreter.cells.is_clean(args[0].kind):
        raise Refused("Object.fromEntries of what may hold functions")
    return CLEAN


def _is_own(kind: Kind) -> bool:
    """Whether a value was made here, and is no Map, Set or iterator, which have members that count by their type."""
    return kind.sort == "clean" or (kind.sort == "box" and kind.name not in ("map", "set", "other"))


def _assign(interpreter: "Values", args: list[Arg], _at: int, _keys: Kind) -> Kind:
    if not args or args[0].spread or not _is_own(args[0].kind):
        raise Refused("Object.assign to something that was not made here")
    if not all(interpreter.cells.is_clean(arg.kind) for arg in args[1:]):
        raise Refused("Object.assign of what may hold functions")
    if args[0].kind.sort == "box":
        interpreter.cells.put(args[0].kind.cell, CLEAN)
    return args[0].kind


def _freeze(_interpreter: "Values", args: list[Arg], _at: int, _keys: Kind) -> Kind:
    if len(args) != 1 or args[0].kind.sort not in ("box", "clean"):
        raise Refused("Object.freeze of something that was not made here")
    return args[0].kind


def _create(interpreter: "Values", args: list[Arg], at: int, _keys: Kind) -> Kind:
    if len(args) != 1 or args[0].node is None or args[0].node.parts != ("null",):
        raise Refused("Object.create of anything but null")
    return interpreter.cells.box("call", at, NONE, "bare")


def _group_by(interpreter: "Values", args: list[Arg], _at: int, _keys: Kind) -> Kind:
    if len(args) != 2 or not interpreter.cells.is_clean(args[0].kind):
        raise Refused("Object.groupBy of what is not known")
    inside = interpreter.cells.each(args[0].kind)
    interpreter.plain(callback(interpreter, args, 1, [inside, NUMBER]))
    interpreter.plain(args[0].kind)
    return CLEAN


def _from(interpreter: "Values", args: list[Arg], at: int, _keys: Kind) -> Kind:
    if not args or args[0].spread:
        raise Refused("Array.from without a value")
    inside = interpreter.cells.each(args[0].kind)
    if len(args) > 1:
        inside = callback(interpreter, args, 1, [inside, NUMBER])
    return interpreter.cells.box("call", at, inside)


def _array(interpreter: "Values", args: list[Arg], at: int, _keys: Kind) -> Kind:
    inside = NUMBER
    for arg in args:
        inside = interpreter.cells.join(inside, arg.kind)
    return interpreter.cells.box("call", at, inside)


def _later(interpreter: "Values", args: list[Arg], _at: int, _keys: Kind) -> Kind:
    callback(interpreter, args, 0, [])
    values(interpreter, args[1:2])
    if len(args) > 2:
        raise Refused("setTimeout with more than a function and a time")
    return Kind("instance", name="Timer")


def _clone(interpreter: "Values", args: list[Arg], _at: int, _keys: Kind) -> Kind:
    found = values(interpreter, args)
    if len(found) != 1:
        raise Refused("structuredClone of one value")
    return found[0]


def _fetch(interpreter: "Values", args: list[Arg], _at: int, _keys: Kind) -> Kind:
    known = args[0].kind.known if args and args[0].kind.sort == "text" else None
    options = args[1].node if len(args) == 2 else None
    keys = {key for key, _ in options.parts} if options is not None and options.type == "object" else {None}
    if not known or len(args) > 2 or (len(args) == 2 and not keys <= {"method", "headers", "body"}):
        raise Refused("fetch of an address that does not stand there")
    if any("\x00" in url or not re.match(r"https?://", url) for url in known):
        raise Refused("fetch of what is no plain address")
    interpreter.effects.urls.update(dict.fromkeys(sorted(known)))
    return promise(Kind("instance", name="Response"))


def _require(interpreter: "Values", args: list[Arg], _at: int, _keys: Kind) -> Kind:
    if len(args) != 1 or args[0].node is None or args[0].node.type != "text":
        raise Refused("require of what does not stand there")
    return module(interpreter, args[0].node.parts[0])


def _join(interpreter: "Values", args: list[Arg], _at: int, _keys: Kind) -> Kind:
    """`path.join` of texts that are known; one from which nothing climbs."""
    if args and args[0].kind.sort == "here":
        made = _join(interpreter, [Arg(text(*args[0].kind.known or ())), *args[1:]], _at, _keys)
        return made if made.known is None else Kind("here", frozenset(map(_tidy, made.known)))
    made = text("")
    for kind in (arg.kind for arg in args):
        interpreter.plain(kind)
        if kind.sort == "none" and not interpreter.strict:
            return NONE
        if kind.sort != "text" or kind.known is None or any(".." in k.split("/") or not k for k in kind.known):
            return TEXT
        made = interpreter.added(interpreter.added(made, text("/")), kind)
    if any(arg.spread for arg in args) or made.known is None:
        return TEXT
    joined = (re.sub(r"/+", "/", one[1:]) for one in made.known)
    return Kind("text", frozenset(_tidy(one) + "/" * (one.endswith("/") and _tidy(one) != "/") for one in joined))


def _tidy(path: str) -> str:
    """A path without what says nothing, as Node puts it."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return "/" * path.startswith("/") + "/".join(parts) or "."


def _resolve(interpreter: "Values", args: list[Arg], at: int, keys: Kind) -> Kind:
    rooted = any(k.startswith("/") for arg in args[1:] for k in arg.kind.known or ("/",))
    made = _join(interpreter, args, at, keys) if args else HERE
    if rooted or made.known is None or any(arg.kind.sort == "here" for arg in args[1:]):
        return TEXT
    if all(one.startswith("/") for one in made.known):
        return Kind("text", frozenset(map(_tidy, made.known)))
    return TEXT if any(one.startswith("/") for one in made.known) else Kind("here", frozenset(map(_tidy, made.known)))


def _here(_i: "Values", _args: list[Arg], _at: int, _keys: Kind) -> Kind:
    return HERE


def _all(interpreter: "Values", args: list[Arg], at: int, _keys: Kind) -> Kind:
    """`Promise.all`: what comes of each."""
    if len(args) != 1:
        raise Refused("Promise.all of one value")
    inside = interpreter.cells.each(args[0].kind)
    inside = (inside.inner or NONE) if inside.sort == "promise" else inside
    return promise(interpreter.cells.box("call", at, inside))


def _settled(interpreter: "Values", args: list[Arg], at: int, keys: Kind) -> Kind:
    made = _all(interpreter, args, at, keys)
    inside = interpreter.plain(interpreter.cells.inside(made.inner or NONE))
    return promise(interpreter.cells.box("settled", at, inside if inside.sort == "project" else CLEAN))


def _race(interpreter: "Values", args: list[Arg], at: int, keys: Kind) -> Kind:
    made = _all(interpreter, args, at, keys)
    return promise(interpreter.cells.inside(made.inner or NONE))


def _resolved(_i: "Values", args: list[Arg], _at: int, _keys: Kind) -> Kind:
    return promise(args[0].kind if args and not args[0].spread else NUMBER)


def _done(interpreter: "Values", args: list[Arg], _at: int, _keys: Kind) -> Kind:
    """What an executor of a promise is given, to be called with what comes of it."""
    for kind in values(interpreter, args):
        interpreter.cells.put(("resolved", 0), kind)
    return NUMBER


def _rejected(interpreter: "Values", args: list[Arg], _at: int, _keys: Kind) -> Kind:
    """What is thrown is clean, or the project's."""
    if any(kind.sort == "data" for kind in values(interpreter, args)):
        raise Refused("throw of a value that is not known")
    return promise(NONE)


def _rejects(interpreter: "Values", args: list[Arg], _at: int, _keys: Kind) -> Kind:
    if len(args) != 1:
        raise Refused("assert.rejects of one value")
    if args[0].kind.sort not in ("promise", "project"):
        interpreter.invoke(args[0].kind, [])
    return promise(NUMBER)


def _bytes(interpreter: "Values", args: list[Arg], _at: int, _keys: Kind) -> Kind:
    for arg in args:
        _given(interpreter, arg)
    return Kind("instance", name="Buffer")


def _hash(interpreter: "Values", args: list[Arg], _at: int, _keys: Kind) -> Kind:
    values(interpreter, args)
    return Kind("instance", name="Hash")


def _throws(interpreter: "Values", args: list[Arg], _at: int, _keys: Kind) -> Kind:
    callback(interpreter, args, 0, [])
    for arg in args[1:]:
        if arg.kind.sort == "function":
            interpreter.invoke(arg.kind, [interpreter.caught()])
        elif arg.kind.sort != "native" or arg.kind.name not in TYPES:
            interpreter.plain(arg.kind)
    return NUMBER


def _lines(interpreter: "Values", args: list[Arg], _at: int, _keys: Kind) -> Kind:
    """`readline.createInterface({ input: process.stdin })`."""
    kind = args[0].kind if len(args) == 1 and not args[0].spread else NONE
    node = args[0].node if len(args) == 1 else None
    fed = kind.sort == "box" and interpreter.cells.get(kind.cell) == Kind("instance", name="Input")
    plain = node is not None and node.type == "object" and {key for key, _ in node.parts} <= {"input", "crlfDelay"}
    if not fed or not plain:
        raise Refused("readline of anything but standard input")
    return Kind("instance", name="Lines")


type Handler = Callable[["Values", list[Arg], int, Kind], Kind]

_CALLS: dict[str, Handler] = {
    "JSON.parse": _parse,
    "JSON.stringify": _stringify,
    "Object.keys": _keys_of,
    "Object.getOwnPropertyNames": _names_of,
    "Object.values": _values_of,
    "Object.entries": _entries,
    "Object.fromEntries": _from_entries,
    "Object.assign": _assign,
    "Object.freeze": _freeze,
    "Object.create": _create,
    "Object.groupBy": _group_by,
    "Array.from": _from,
    "Array.of": _array,
    "Array": _array,
    **dict.fromkeys(("setTimeout", "setInterval", "setImmediate", "queueMicrotask", "process.nextTick"), _later),
    "timers.setTimeout": _gives(promise(NUMBER)),
    "structuredClone": _clone,
    "fetch": _fetch,
    "require": _require,
    "path.join": _join,
    "path.resolve": _resolve,
    "process.cwd": _here,
    "os.tmpdir": _gives(TEXT),
    "os.homedir": _gives(TEXT),
    "os.hostname": _gives(TEXT),
    "Promise.all": _all,
    "Promise.allSettled": _settled,
    "Promise.race": _race,
    "Promise.any": _race,
    "Promise.resolve": _resolved,
    "Promise.reject": _rejected,
    "reject": _rejected,
    **dict.fromkeys(("Buffer.from", "Buffer.alloc", "Buffer.concat", "crypto.randomBytes"), _bytes),
    "crypto.createHash": _hash,
    "crypto.randomInt": _gives(NUMBER),
    **dict.fromkeys(("assert.throws", "assert.doesNotThrow"), _throws),
    "assert.rejects": _rejects,
    "resolve": _done,
    "readline.createInterface": _lines,
}


def chained(interpreter: "Values", owner: Kind, name: str, args: list[Arg]) -> Kind:
    """`then`, `catch` and `finally` of a promise."""
    inner = owner.inner or NONE
    if name not in ("then", "catch", "finally") or not args:
        raise Refused(f"{name} of a promise")
    if name == "finally":
        callback(interpreter, args, 0, [])
        return owner
    made = callback(interpreter, args, 0, [inner if name == "then" else interpreter.caught()])
    if len(args) > 1:
        made = interpreter.cells.join(made, callback(interpreter, args, 1, [interpreter.caught()]))
    made = (made.inner or NONE) if made.sort == "promise" else made
    return promise(made if name == "then" else interpreter.cells.join(inner, made))


def create(interpreter: "Values", name: str, args: list[Arg], at: int) -> Kind:
    """What `new` makes."""
    cells = interpreter.cells
    if name == "Promise":
        callback(interpreter, args, 0, [native("resolve"), native("reject")])
        return promise(cells.join(NUMBER, cells.get(("resolved", 0))))
    if name == "Array":
        return _array(interpreter, args, at, TEXT)
    given = values(interpreter, args)
    if name in ("Map", "Set"):
        inside = cells.each(args[0].kind) if args else NONE
        inside = cells.inside(inside) if name == "Map" and args and inside.sort != "none" else inside
        return cells.box("new", at, inside, name.lower())
    if any(kind.sort in ("data", "project") for kind in given) and name not in ERRORS | {"Date"}:
        raise Refused(f"new {name} of a value that is not known")
    if name in ERRORS or name in ("Date", "RegExp"):
        if any(kind.sort == "project" for kind in given):
            raise Refused(f"new {name} of what is the project's")
        return CLEAN if all(kind.sort != "data" for kind in given) or name == "Date" else DATA
    if name in ("URL", "URLSearchParams"):
        return Kind("instance", name="URL" if name == "URL" else "Parameters")
    if name in ("Uint8Array", "Float64Array", "Int32Array", "Uint32Array"):
        return cells.box("new", at, NUMBER, "other")
    raise Refused(f"new {name}")
