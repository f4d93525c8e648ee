"""The files that a piece of JavaScript opens: by names that stand there, or that it found in such a folder."""

import re
from typing import TYPE_CHECKING

from adderclaw.gate.javascript.kinds import CLEAN, NUMBER, TEXT, Kind, promise, text
from adderclaw.gate.javascript.lexer import Refused
from adderclaw.gate.javascript.parser import Node
from adderclaw.gate.programs.allowlist import names

if TYPE_CHECKING:
    from adderclaw.gate.javascript.natives import Arg
    from adderclaw.gate.javascript.values import Values

FOUND = "\x00"
"""Stands in a text for a name that was found in a folder."""
_TOP = r"[./]*|(?:.*/)?\.[^/]*(?:/.*)?|/.*"
_CODES = names("utf8 utf-8 ascii latin1 base64 hex utf16le binary base64url")
_WRITES = names("writeFile appendFile")
_BUFFER, _STATS, _ENTRY = (Kind("instance", name=name) for name in ("Buffer", "Stats", "Entry"))


def call(interpreter: "Values", name: str, args: "list[Arg]", at: int) -> Kind:
    """What a function of `fs` gives; what it opens is noted."""
    last = name.rsplit(".", 1)[-1]
    what, at_once = last.removesuffix("Sync"), last.endswith("Sync")
    if any(arg.spread for arg in args) or not args:
        raise Refused(f"{name} of what does not stand there")
    waiting = args[-1].kind if not at_once and args[-1].kind.sort == "function" else None
    given = args[:-1] if waiting is not None else args
    made = _opened(interpreter, what, given, at)
    if at_once:
        return made
    if name.startswith("fs.promises."):
        return promise(made)
    if waiting is None:
        raise Refused(f"{name} without a function")
    interpreter.invoke(waiting, [CLEAN, made])
    return NUMBER


def _opened(interpreter: "Values", what: str, args: "list[Arg]", at: int) -> Kind:
    node = args[0].node
    if what == "readFile" and node is not None and node.type == "number" and node.parts == ("0",):
        return TEXT if _options(args[1:], ("encoding",)) else _BUFFER
    place(interpreter, args[0].kind, writes=what in _WRITES or what == "mkdir")
    match what:
        case "readFile":
            return TEXT if _options(args[1:], ("encoding",)) else _BUFFER
        case "readdir":
            typed = _options(args[1:], ("encoding", "withFileTypes", "recursive")) and _has(args[1], "withFileTypes")
            return interpreter.cells.box("call", at, _ENTRY if typed else text(FOUND))
        case "stat" | "lstat":
            _options(args[1:], ("throwIfNoEntry",))
            return _STATS
        case "exists" | "access":
            return NUMBER
        case "realpath":
            return TEXT
        case "mkdir":
            # It gives the first folder that it made.
            _options(args[1:], ("recursive",))
            return TEXT
        case "writeFile" | "appendFile":
            if len(args) < 2:
                raise Refused("a file is written with nothing")
            if args[1].kind.sort != "instance":
                interpreter.plain(args[1].kind)
            _options(args[2:], ("encoding",))
            return NUMBER
        case _:
            raise Refused(f"fs.{what}")


def _options(args: "list[Arg]", keys: tuple[str, ...]) -> bool:
    """Whether options are given; raises Refused for such as could change what is done."""
    node = args[0].node if args else None
    if not args or (node is not None and node.parts == ("null",)):
        return False
    if node is None or len(args) > 1:
        # What `map` hands on beside the name: its place, and all of the names.
        if all(arg.kind.sort in ("number", "box") for arg in args) and node is None:
            return False
        raise Refused("options that do not stand there")
    if node.type == "text" and node.parts[0] in _CODES:
        return True
    if node.type == "object" and all(key in keys and _is_constant(value) for key, value in node.parts):
        return bool(node.parts)
    raise Refused("options of which it is not known what they do")


def _is_constant(node: Node) -> bool:
    return node.type == "constant" or (node.type == "text" and node.parts[0] in _CODES)


def _has(arg: "Arg", key: str) -> bool:
    node = arg.node
    return node is not None and node.type == "object" and any(k == key for k, _ in node.parts)


def place(interpreter: "Values", kind: Kind, *, writes: bool) -> None:
    """Notes what a path may be; raises Refused if that is not known."""
    if kind.sort == "none" and not interpreter.strict:
        return
    if kind.sort not in ("text", "here") or not kind.known:
        raise Refused("a file by a name that does not stand there")
    effects = interpreter.effects
    for path in sorted(kind.known):
        if not path or path.startswith("~"):
            raise Refused("a file without a plain name")
        if re.search(r"(?:^|/)(?!\.{1,2}/)[^/]+/(?:.*/)?\.\.(?:/|$)", path):
            raise Refused("a path that climbs out of a folder that it names")
        head, found, tail = path.partition(FOUND)
        if not found:
            (effects.writes if writes else effects.reads)[path] = None
            continue
        folder = head.rpartition("/")[0] or ("/" if head.startswith("/") else ".")
        if ".." in tail.split("/") or (writes and re.fullmatch(_TOP, folder)):
            raise Refused("files by the names that they have in a folder, some of which decide what others run")
        effects.folders[folder] = None
        effects.reads[folder] = None
        if writes:
            effects.writes[folder] = None
