"""The functions by which a piece of Python opens or finds files: each by a name that stands there, or beneath one."""

import os
import re
from collections.abc import Callable
from pathlib import PurePosixPath

from adderclaw.gate.programs.allowlist import names
from adderclaw.gate.python import attributes, calls
from adderclaw.gate.python.kinds import DATA, NOTHING, NUMBER, Kind, Refused, places, several, text, thing
from adderclaw.gate.python.state import Call, State, joined

_MODES = re.compile(r"[rwax]\+?[bt]?|[rwax][bt]\+?|U|rU")
_READS = re.compile(r"r[bt]?|rU|U|r:\*|r:gz|r:bz2|r:xz|r\|\*")
_HOW = ("encoding", "errors", "newline", "buffering")


def _mode(given: Call, at: int) -> frozenset[str]:
    kind = given.args[at] if len(given.args) > at else given.keywords.get("mode", text("r"))
    if kind.tag != "text" or kind.found or kind.bare or not all(map(_MODES.fullmatch, kind.values)):
        raise Refused("a mode that does not stand there")
    return kind.values


def _opened(state: State, kind: Kind, modes: frozenset[str]) -> Kind:
    writes = any(set(mode) & set("wax+") for mode in modes)
    state.open(kind, write=writes, read=any(set(mode) & set("r+a") for mode in modes))
    return thing("file")


def _open(state: State, given: Call) -> Kind:
    given.only(0, 3, "mode", "file", *_HOW)
    place = given.args[0] if given.args else given.keywords.get("file", NOTHING)
    modes = _mode(given, 1)
    if place.tag == "number" and place.values == frozenset({"0"}) and modes <= {"r", "rb", "rt"}:
        return thing("file")
    return _opened(state, place, modes)


def _open_of(state: State, kind: Kind, given: Call) -> Kind:
    given.only(0, 1, "mode", *_HOW)
    return _opened(state, kind, _mode(given, 0))


def _reader(made: str, *keywords: str) -> "Callable[[State, Call], Kind]":
    """A function that reads the file that it is given first: by a place, or opened already."""

    def rule(state: State, given: Call) -> Kind:
        given.only(1, 3 if keywords else 1, *keywords)  # the third of numpy.load unpacks objects
        first, *rest = given.args
        if first.tag != "object" or first.name != "file":
            state.open(first)
        for kind in (*rest, *given.keywords.values()):
            if not state.is_inert(kind):
                raise Refused("more than data beside the file")
            state.weaken(kind)
        return thing(made) if made else DATA

    return rule


def _packed(state: State, given: Call) -> Kind:
    """An archive, or a compressed file, to be read."""
    given.only(1, 2, "mode", "encoding")
    kind = given.args[1] if len(given.args) > 1 else given.keywords.get("mode", text("r"))
    if kind.tag != "text" or kind.found or kind.bare or not all(map(_READS.fullmatch, kind.values)):
        raise Refused("an archive that is written")
    state.open(given.first)
    return thing("archive")


def _compressed(state: State, given: Call) -> Kind:
    _packed(state, given)
    return thing("file")


def _parser(_: State, given: Call) -> Kind:
    given.only(0, 0, "interpolation", "allow_no_value", "strict")
    return thing("parser")


def _tree(_: State, given: Call) -> Kind:
    given.only(1, 1)
    if given.args[0].tag not in ("data", "nothing"):
        raise Refused("a tree of what is no element")
    return thing("tree")


_URI = r"file:(?!/)([\w./-]+)(?:\?mode=(ro|rw|rwc|memory)(?:&immutable=1)?)?"


def _database(state: State, given: Call) -> Kind:
    given.only(1, 1, "uri", "timeout", "isolation_level", "check_same_thread", "detect_types")
    place = given.args[0]
    if place.tag != "text" or place.found or place.bare:
        raise Refused("a database whose name does not stand there")
    for value in place.values - {":memory:"}:
        uri = re.fullmatch(_URI, value) if "uri" in given.keywords else None
        if "uri" in given.keywords and value.startswith("file:") and uri is None:
            raise Refused(f"{value[:60]} as a database")
        state.open(text(uri[1] if uri else value), write=not (uri and uri[2] == "ro"))
    return thing("connection")


# ------------------------------------------------------------------ paths


def _path(_: State, given: Call) -> Kind:
    given.only(0, 9)
    made = text(".") if not given.args else given.args[0]
    for kind in given.args:
        if kind.tag not in ("text", "data", "nothing", "project", "maybe"):
            raise Refused("a path of what is no text")
    if made.tag == "text":
        made = made._replace(values=frozenset(str(PurePosixPath(value)) for value in made.values))
    for part in given.args[1:]:
        made = joined(made, part, path=True)
    return made if made.tag in ("text", "nothing") else DATA


def _join(state: State, given: Call) -> Kind:
    if given.starred or given.keywords or not given.args:
        return _loose(state, given)
    made = given.args[0]
    for part in given.args[1:]:
        made = joined(made, part)
    for kind in given.args:
        if not state.is_inert(kind) and kind.tag != "maybe":
            raise Refused("a path of what is no text")
    return made if made.tag in ("text", "nothing") else DATA


def _loose(state: State, given: Call) -> Kind:
    calls.consumed(state, given.all, keeps=True)
    return DATA


def _joinpath(state: State, kind: Kind, given: Call) -> Kind:
    return _path(state, given._replace(args=(kind, *given.args)))


def _here(_: State, given: Call) -> Kind:
    """Where it is: a text that is not known here."""
    given.only(0, 0)
    return DATA


def _same(_: State, given: Call) -> Kind:
    given.only(1, 1)
    if given.args[0].tag not in ("text", "data", "nothing", "project", "maybe"):
        raise Refused("a path of what is no text")
    return given.args[0]


def _same_of(_: State, kind: Kind, given: Call) -> Kind:
    given.only(0, 0)
    return kind


def _whole(_: State, given: Call) -> Kind:
    """`os.path.abspath`: another text for the same place."""
    given.only(1, 1)
    if given.first.tag not in ("text", "data", "nothing", "project", "maybe"):
        raise Refused("a path of what is no text")
    return DATA


def _whole_of(_: State, _kind: Kind, given: Call) -> Kind:
    given.only(0, 0, "strict")
    return DATA


def _by_text(change: "Callable[[str], str]") -> "Callable[[State, Call], Kind]":
    """A function that only changes the text of a path."""

    def rule(_: State, given: Call) -> Kind:
        given.only(1, 1)
        plain = given.first.tag == "text" and not given.first.found and not given.first.bare
        return Kind("text", frozenset(map(change, given.first.values))) if plain else DATA

    return rule


def _parted(_: State, given: Call) -> Kind:
    given.only(1, 1)
    return several(DATA, DATA)


def _asked(state: State, given: Call) -> Kind:
    """Whether there is such a file, how large it is: nothing of it is read."""
    given.only(1, 1, "follow_symlinks")
    if given.args[0].tag in ("text", "nothing") and not given.args[0].bare:
        state.open(given.args[0])
    elif given.args[0].tag in ("data", "text", "project"):
        state.confined = True
    else:
        raise Refused("a path of what is no text")
    return NUMBER


def _asked_of(state: State, kind: Kind, given: Call) -> Kind:
    given.only(0, 0, "follow_symlinks")
    return _asked(state, Call((kind,), {}, given.site))


def _stat(state: State, given: Call) -> Kind:
    _asked(state, given)
    return DATA


def _stat_of(state: State, kind: Kind, given: Call) -> Kind:
    _asked_of(state, kind, given)
    return DATA


def _variable(state: State, given: Call) -> Kind:
    given.only(1, 2)
    attributes.variable(given.first)
    calls.consumed(state, given.all, keeps=True)
    return DATA


def _logging(_: State, given: Call) -> Kind:
    """Without a file: what is logged is printed."""
    given.only(0, 0, "level", "format", "datefmt", "force")
    if any(kind.tag not in ("text", "number", "data") for kind in given.keywords.values()):
        raise Refused("logging with more than data")
    return NOTHING


def _folder(state: State, given: Call) -> Kind:
    given.only(1, 2, "exist_ok", "mode")
    state.open(given.args[0], write=True)
    return NOTHING


def _folder_of(state: State, kind: Kind, given: Call) -> Kind:
    given.only(0, 0, "parents", "exist_ok")
    state.open(kind, write=True)
    return NOTHING


def _read_of(state: State, kind: Kind, given: Call) -> Kind:
    given.only(0, 2, "encoding", "errors")
    state.open(kind)
    return DATA


def _write_of(state: State, kind: Kind, given: Call) -> Kind:
    given.only(1, 3, "encoding", "errors", "newline")
    calls.consumed(state, given.all, keeps=False)
    state.open(kind, write=True, read=False)
    return NUMBER


def _renamed(kind: Kind, given: Call, how: str) -> Kind:
    """`with_suffix` and `with_name`: another file of the same folder."""
    given.only(1, 1)
    part = given.args[0]
    plain = part.tag == "text" and not part.found and not part.bare and not kind.bare
    if not plain or not all(re.fullmatch(r"[\w.@+ -]*", value) and value not in (".", "..") for value in part.values):
        return DATA
    made: set[str] = set()
    for root in (*kind.values, *(root for root, _ in kind.found)):
        folder, name = os.path.split(root)
        if name in ("", ".", ".."):
            return DATA
        for value in part.values:
            last = value if how == "name" else os.path.splitext(name)[0] + value
            made.add(os.path.join(folder, last))
    found = {(root, value if how == "name" else f"*{value}") for root, _ in kind.found for value in part.values}
    return Kind("text", frozenset(made), frozenset(found)) if len(made) + len(found) <= 100 else DATA


# ------------------------------------------------------------------ names that are found


def _parts(pattern: str) -> tuple[str, str] | None:
    """The folder at which a pattern begins, and what the names are like; None for one without a wildcard."""
    parts = pattern.split("/")
    at = next((n for n, part in enumerate(parts) if re.search(r"[*?\[]", part)), None)
    if at is None:
        return None
    if ".." in parts[at:]:
        raise Refused(f"a pattern that climbs: {pattern[:60]}")
    return "/".join(parts[:at]) or ("/" if pattern.startswith("/") else "."), parts[-1] or "*"


def _searched(state: State, pattern: Kind, folders: Kind, site: object, *, deep: bool = False) -> Kind:
    """What a search finds; `deep`: in all folders below, through no link."""
    if pattern.tag != "text" or pattern.found or pattern.bare or folders.tag != "text" or folders.bare:
        raise Refused("a search for what does not stand there")
    values: set[str] = set()
    found: set[tuple[str, str]] = set()
    for value in pattern.values:
        if value.startswith("~") or "\0" in value or (value.startswith("/") and folders != text(".")):
            raise Refused(f"the pattern {value[:60]}")
        parts = _parts(value)
        lead, last = parts if parts is not None else (value, value.rsplit("/", 1)[-1])
        if folders.found and ".." in value.split("/"):
            raise Refused(f"a pattern that climbs: {value[:60]}")
        found |= {(root, f"/{last}") for root, _ in folders.found}
        through = not deep if "**" in value else "/" in value and parts is not None and lead != os.path.dirname(value)
        for folder in folders.values:
            whole = lead if folder == "." else os.path.join(folder, lead) if lead != "." else folder
            if parts is None:
                values.add(whole)
            found.add((os.path.dirname(whole) or "." if parts is None else whole, last))
            if through:
                state.loose.add(whole)
    for root, _ in found:
        state.reads[root] = None
    return state.made(site, Kind("text", frozenset(values), frozenset(found)))


def _glob(state: State, given: Call) -> Kind:
    given.only(1, 1, "recursive", "include_hidden")
    return _searched(state, given.args[0], text("."), given.site)


def _glob_of(state: State, kind: Kind, given: Call) -> Kind:
    given.only(1, 1)
    return _searched(state, given.args[0], kind, given.site)


def _rglob(state: State, kind: Kind, given: Call) -> Kind:
    given.only(1, 1)
    return _searched(state, given.args[0], kind, given.site, deep=True)


def _iterdir(state: State, kind: Kind, given: Call) -> Kind:
    given.only(0, 0)
    return _searched(state, text("*"), kind, given.site)


def _listdir(state: State, given: Call) -> Kind:
    given.only(0, 1)
    _searched(state, text("*"), given.args[0] if given.args else text("."), (given.site, "in"))
    return state.made(given.site, places(frozenset(), bare=True))


def _walk(state: State, given: Call) -> Kind:
    given.only(1, 1, "topdown")
    folder = given.args[0]
    _searched(state, text("*"), folder, (given.site, "in"))
    names = state.made((given.site, "names"), places(frozenset(), bare=True))
    roots = {(value, "*") for value in folder.values} | folder.found
    return state.made(given.site, several(places(frozenset(roots)), names, names))


METHODS: dict[str, Callable[[State, Kind, Call], Kind]] = {
    "open": _open_of,
    **dict.fromkeys(("read_text", "read_bytes"), _read_of),
    **dict.fromkeys(("write_text", "write_bytes"), _write_of),
    "glob": _glob_of,
    "rglob": _rglob,
    "iterdir": _iterdir,
    **dict.fromkeys(("exists", "is_file", "is_dir", "is_symlink"), _asked_of),
    "stat": _stat_of,
    "mkdir": _folder_of,
    "as_posix": _same_of,
    **dict.fromkeys(("resolve", "absolute"), _whole_of),
    "joinpath": _joinpath,
    "with_suffix": lambda _, kind, given: _renamed(kind, given, "suffix"),
    "with_name": lambda _, kind, given: _renamed(kind, given, "name"),
}
_TABLES = names("""sep header names usecols nrows skiprows index_col dtype parse_dates encoding na_values delimiter
    skip_header columns lines orient comment quotechar sheet_name low_memory thousands decimal""")
SPECIAL: dict[str, Callable[[State, Call], Kind]] = {
    "open": _open,
    **dict.fromkeys(("pathlib.Path", "pathlib.PurePath", "pathlib.PurePosixPath"), _path),
    **dict.fromkeys(("pathlib.Path.cwd", "os.getcwd"), _here),
    **dict.fromkeys(("glob.glob", "glob.iglob"), _glob),
    "os.listdir": _listdir,
    "os.walk": _walk,
    "os.path.join": _join,
    **dict.fromkeys(
        (f"os.path.{name}" for name in ("exists", "isfile", "isdir", "islink", "getsize", "getmtime")), _asked
    ),
    "os.getenv": _variable,
    "logging.basicConfig": _logging,
    "os.stat": _stat,
    "zipfile.is_zipfile": _asked,
    "os.fspath": _same,
    "os.path.dirname": _by_text(os.path.dirname),
    "os.path.normpath": _by_text(os.path.normpath),
    "os.path.abspath": _whole,
    "os.path.splitext": _parted,
    **dict.fromkeys(("os.makedirs", "os.mkdir"), _folder),
    "xml.etree.ElementTree.parse": _reader("tree"),
    "xml.etree.ElementTree.iterparse": _reader("", "events"),
    "xml.etree.ElementTree.ElementTree": _tree,
    **dict.fromkeys(("zipfile.ZipFile", "tarfile.open"), _packed),
    **dict.fromkeys(("gzip.open", "bz2.open", "lzma.open"), _compressed),
    **dict.fromkeys(("configparser.ConfigParser", "configparser.RawConfigParser"), _parser),
    "sqlite3.connect": _database,
    **dict.fromkeys(
        (f"pandas.read_{name}" for name in ("csv", "parquet", "json", "excel", "table", "feather")),
        _reader("frame", *_TABLES),
    ),
    "numpy.load": _reader("frame"),
    **dict.fromkeys(("numpy.loadtxt", "numpy.genfromtxt"), _reader("frame", *_TABLES)),
    "PIL.Image.open": _reader("image"),
}
