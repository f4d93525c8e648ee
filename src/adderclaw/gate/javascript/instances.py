"""Objects that Node's own functions give: each with the members that are known to do no harm."""

from typing import TYPE_CHECKING

from adderclaw.gate.javascript.files import FOUND
from adderclaw.gate.javascript.kinds import CLEAN, NONE, NUMBER, TEXT, Kind, promise, text
from adderclaw.gate.javascript.lexer import Refused
from adderclaw.gate.programs.allowlist import names

if TYPE_CHECKING:
    from adderclaw.gate.javascript.natives import Arg
    from adderclaw.gate.javascript.values import Values


def instance(name: str) -> Kind:
    return Kind("instance", name=name)


_MEMBERS: dict[str, dict[str, Kind]] = {
    "Buffer": dict.fromkeys(("length", "byteLength"), NUMBER),
    "Stats": {
        **dict.fromkeys(
            names("size mode uid gid ino dev nlink mtimeMs ctimeMs atimeMs birthtimeMs blocks blksize"), NUMBER
        ),
        **dict.fromkeys(names("mtime ctime atime birthtime"), CLEAN),
    },
    "Entry": {"name": text(FOUND), "parentPath": TEXT, "path": TEXT},
    "Response": {"status": NUMBER, "ok": NUMBER, "statusText": TEXT, "url": TEXT, "headers": instance("Headers")},
    "URL": {
        **dict.fromkeys(names("href host hostname port pathname search hash protocol origin username"), TEXT),
        "searchParams": instance("Parameters"),
    },
    "Input": {"isTTY": NUMBER},
}
_CALLS: dict[str, dict[str, Kind]] = {
    "Buffer": {
        **dict.fromkeys(names("toString toJSON"), TEXT),
        **dict.fromkeys(names("equals indexOf includes compare"), NUMBER),
        **dict.fromkeys(names("slice subarray"), instance("Buffer")),
        **{
            f"read{kind}": NUMBER
            for kind in names("UInt8 Int8 UInt16LE UInt16BE UInt32LE UInt32BE Int32LE Int32BE DoubleLE")
        },
    },
    "Stats": dict.fromkeys(names("isFile isDirectory isSymbolicLink"), NUMBER),
    "Entry": dict.fromkeys(names("isFile isDirectory isSymbolicLink"), NUMBER),
    "Response": {"text": promise(TEXT), "json": promise(CLEAN)},
    "Headers": {"get": TEXT, "has": NUMBER},
    "URL": {"toString": TEXT},
    "Parameters": {"get": TEXT, "has": NUMBER, "toString": TEXT},
    "Hash": {"update": instance("Hash"), "digest": TEXT},
    "Input": {"setEncoding": instance("Input"), "resume": instance("Input")},
    "Lines": {"close": NUMBER},
    "Timer": {"ref": instance("Timer"), "unref": instance("Timer"), "hasRef": NUMBER},
}
_EVENTS = names("data end close error line")


def member(owner: Kind, name: str) -> Kind:
    found = _MEMBERS.get(owner.name, {}).get(name)
    if found is None:
        raise Refused(f"{name} of a {owner.name}")
    return found


def call(interpreter: "Values", owner: Kind, name: str, args: "list[Arg]") -> Kind:
    if owner.name in ("Input", "Lines") and name in ("on", "once"):
        node = args[0].node if len(args) == 2 else None
        if node is None or node.type != "text" or node.parts[0] not in _EVENTS:
            raise Refused("an event that is not known")
        interpreter.invoke(args[1].kind, [TEXT if node.parts[0] in ("data", "line") else CLEAN])
        return owner
    if owner.name == "Arguments" and name == "slice":
        return _words(interpreter, args)
    found = _CALLS.get(owner.name, {}).get(name)
    if found is None:
        raise Refused(f"{name} of a {owner.name}")
    for arg in args:
        if arg.kind.sort != "instance":
            interpreter.plain(arg.kind)
    return found


def each(owner: Kind, *, awaits: bool) -> Kind:
    """What comes of it one by one."""
    if owner.name == "Arguments" or (awaits and owner.name in ("Input", "Lines")):
        return TEXT
    raise Refused(f"each of a {owner.name}")


def word(interpreter: "Values", index: int) -> Kind:
    """A word of the command after the code; the first is the program."""
    words = interpreter.words
    return text(words[index - 1]) if 0 < index <= len(words) else NUMBER if index else TEXT


def _words(interpreter: "Values", args: "list[Arg]") -> Kind:
    node = args[0].node if len(args) == 1 else None
    first = int(node.parts[0]) if node is not None and node.type == "number" and node.parts[0] in ("1", "2") else 0
    if not first:
        raise Refused("words of the command that are not known")
    words = interpreter.words[first - 1 :]
    return interpreter.cells.box("words", first, text(*words) if words else NONE)
