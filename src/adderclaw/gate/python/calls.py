"""What a call in a piece of Python does: by the tables, by the rules of files, or by the project's own code."""

import re

from adderclaw.gate.programs.allowlist import names
from adderclaw.gate.python import attributes, files, functions, objects, project, table
from adderclaw.gate.python.kinds import DATA, MAYBE, NOTHING, NUMBER, PROJECT, Kind, Refused, thing
from adderclaw.gate.python.state import Call, State

_STAYS = names(
    """join startswith endswith split rsplit splitlines count index find rfind rindex write writelines
    strip lstrip rstrip writerow writerows encode decode zfill ljust rjust center match search findall
    finditer fullmatch relative_to is_relative_to strftime"""
)
"""Methods that keep nothing of what they are given."""
_ASKS = names(
    """all filter exclude count first last get values values_list order_by exists aggregate annotate
    distinct items keys split strip join lower upper startswith endswith isoformat strftime reverse sort
    append explain iterator select_related prefetch_related only defer latest earliest in_bulk resolve
    reverse_lazy filter_by limit offset one one_or_none scalar get_or_404 first_or_404 paginate group_by"""
)
"""What is called of objects in Django's shell."""


def call(state: State, kind: Kind, given: Call) -> Kind:
    match kind.tag:
        case "nothing":
            state.missing()
            return NOTHING
        case "call":
            result = NOTHING
            for name in sorted(kind.values):
                result = state.join(result, _listed(state, name, given))
            for key in kind.sites:
                result = state.join(result, _own(state, key, given))
            return result
        case "project" | "maybe":
            return _of_project(state, given)
        case _:
            raise Refused("a call of what is no function")


def _own(state: State, key: object, given: Call) -> Kind:
    if "**" in given.keywords or any(one.tag in ("module", "mixed") for one in given.all):
        raise Refused("a module, or **, for a function of the piece")
    return state.enter(int(str(key)), given)


def _of_project(state: State, given: Call) -> Kind:
    """The project's code may do with what it gets whatever it does: it gets data, and functions of the piece."""
    for kind in given.all:
        if kind.tag in ("module", "mixed") or (kind.tag == "object" and not state.is_inert(kind)):
            raise Refused("a module, or an object that opens files, for the project's code")
        if kind.tag == "call":
            result = handed(state, kind, PROJECT, PROJECT)
            if not state.is_inert(result) and result.tag != "maybe":
                raise Refused("a function that gives the project's code more than data")
        elif state.holds(kind, "call"):
            raise Refused("functions in a container for the project's code")
    state.hand(given.all)
    # It may give back what it got.
    return MAYBE if any(state.holds(kind, "maybe") for kind in given.all) else PROJECT


def handed(state: State, kind: Kind, *params: Kind) -> Kind:
    """What a function gives that something else calls, with these."""
    if kind.tag == "nothing":
        state.missing()
        return NOTHING
    if kind.tag in ("project", "maybe"):
        return call(state, kind, Call(params, {}, "handed"))
    if kind.tag != "call":
        raise Refused("what is no function where one is called")
    result = NOTHING
    for name in sorted(kind.values):
        result = state.join(result, _listed(state, name, Call(params, {}, ("handed", name))))
    for key in kind.sites:
        plain = state.functions[int(str(key))].node.args
        count = max(len(plain.posonlyargs) + len(plain.args), len(params))
        wanted = [params[min(n, len(params) - 1)] for n in range(count)] if params else []
        result = state.join(result, state.enter(int(str(key)), Call(tuple(wanted), {}, ("handed", key))))
    return result


def _listed(state: State, name: str, given: Call) -> Kind:
    mark = table.functions()[name]
    if mark == "!":
        special = functions.SPECIAL.get(name) or files.SPECIAL.get(name)
        if special is None:
            raise Refused(f"{name} in this form")
        if "**" in given.keywords and name not in ("dict", "types.SimpleNamespace"):
            raise Refused(f"** for {name}")
        return special(state, given)
    if "**" in given.keywords:
        raise Refused(f"** for {name}")
    written = given.keywords.get("file") if name == "print" else None
    if written is not None and written != thing("file"):
        raise Refused("print into what is no file")
    _check_called(name, given)
    results = consumed(state, given.all, keeps=mark not in ("#", "$"))
    if mark == "#":
        return NUMBER
    if mark == "$":
        return DATA
    return thing(mark[1:]) if mark.startswith("@") else state.mark(*given.all, *results)


_WRITES = names("environ tree parser archive connection cursor image loop")
"""Objects that show what nobody may see, or write to where they are told."""


_CALLED = names(
    """key default object_hook object_pairs_hook parse_float parse_int parse_constant cls quote_via func linejunk
    charjunk isjunk readline timer"""
)
_CALLED_AT = {
    "itertools.accumulate": 1,
    "tokenize.generate_tokens": 0,
    "tokenize.tokenize": 0,
    "difflib.SequenceMatcher": 0,
    "difflib.ndiff": 2,
    "urllib.parse.urlencode": 5,
}


def _check_called(name: str, given: Call) -> None:
    """What is called by a function of the tables is known to be a function, and which: no data stands there."""
    called = [given.keywords[one] for one in sorted(_CALLED & given.keywords.keys())]
    if name in _CALLED_AT:
        if given.starred:
            raise Refused(f"* for {name}")
        called += given.args[_CALLED_AT[name] :] if name == "difflib.ndiff" else given.args[_CALLED_AT[name] :][:1]
    if any(kind.tag not in ("call", "nothing", "number", "project", "maybe") for kind in called):
        raise Refused(f"what {name} would call is no function that stands there")


def consumed(state: State, kinds: tuple[Kind, ...], *, keeps: bool) -> list[Kind]:
    """A function of the tables gets these: data, and functions that it calls with data; what those give."""
    results: list[Kind] = []
    mark = state.mark(*kinds)
    for kind in kinds:
        if kind.tag == "call":
            results.append(handed(state, kind, mark, mark))
        elif kind.tag in ("module", "mixed") or (kind.tag == "object" and kind.name in _WRITES):
            raise Refused("a module, or the whole environment, where only data is taken")
        elif keeps and kind.tag != "maybe":
            if not state.is_inert(kind) and not _only_projects(state, kind):
                raise Refused("more than data where only data is taken")
            state.weaken(kind, PROJECT if mark != DATA else DATA)
    if any(not state.is_inert(kind) and kind.tag != "maybe" for kind in results):
        raise Refused("a function that gives more than data")
    return results


def _only_projects(state: State, kind: Kind) -> bool:
    """Whether names of the project's modules are all that keeps it from being data: what comes of it is no more."""
    return not any(state.holds(kind, tag) for tag in ("call", "module", "mixed", "object"))


# ------------------------------------------------------------------ methods


def method(state: State, kind: Kind, name: str, given: Call) -> Kind:
    if name.startswith("_") and kind.tag not in ("project", "maybe"):
        raise Refused(f"the attribute {name}")
    match kind.tag:
        case "nothing":
            state.missing()
            return NOTHING
        case "module" | "call":
            return call(state, attributes.attribute(state, kind, name), given)
        case "maybe" | "project":
            if name == "copy" and (given.args or given.keywords):
                raise Refused("copy to somewhere")
            if not _is_asking(name, given):
                project.check_name(name, module=kind.tag == "maybe")
            if name in ("run", "call") and any(state.holds(one, "text") and _is_command(one) for one in given.all):
                raise Refused(f"{name} of what may be a command")
            if state.managed and name not in _ASKS:
                raise Refused(f"{name} in Django's shell")
            return _of_project(state, given)
        case "object" if kind.name == "query":
            return _of_models(state, name, given)
        case "object":
            return objects.method(state, kind, name, given)
        case "text" if name in files.METHODS:
            if given.starred:
                raise Refused(f"* for {name}")
            return files.METHODS[name](state, kind, given)
        case "tuple" if name not in ("count", "index"):
            raise Refused(f"the method {name} of a tuple, or of the words of the command")
        case "list" | "map" if name in objects.HELD:
            return objects.HELD[name](state, kind, given)
        case "text" | "data" | "number" | "list" | "map" | "tuple" if name in table.METHODS:
            return _of_data(state, kind, name, given)
        case _:
            raise Refused(f"the method {name}")


def _is_command(kind: Kind) -> bool:
    if kind.tag in ("list", "tuple"):
        return True
    return any(re.search(r"[\s/]", value) for value in kind.values)


def _is_asking(name: str, given: Call) -> bool:
    """`model.eval()`, `session.query(User)`, `cache.get("key")`: what asks, and is not what Python calls so."""
    if name == "eval":
        return not given.args and not given.keywords
    if name == "query":
        return given.named and not given.keywords
    known = (one.tag == "number" or (one.tag == "text" and _is_key(one)) for one in given.all)
    return name == "get" and all(known)


def _is_key(kind: Kind) -> bool:
    odd = r"(?i)[:%]|^//|_key|api|token|secret|passw|cred|auth"
    return not kind.found and not kind.bare and not any(re.search(odd, value) for value in kind.values)


def _of_models(state: State, name: str, given: Call) -> Kind:
    """`User.query.filter_by(…)`: what is asked of a model's query."""
    if name not in _ASKS:
        raise Refused(f"{name} of a query")
    return _of_project(state, given)


def _of_data(state: State, kind: Kind, name: str, given: Call) -> Kind:
    if "**" in given.keywords:
        raise Refused(f"** for {name}")
    if name == "replace" and (given.starred or (len(given.args) < 2 and (given.args or "target" in given.keywords))):
        # With one argument it is not a text's but a path's: that one moves the file.
        raise Refused("replace with one argument")
    if name == "copy" and (given.args or given.keywords):
        raise Refused("copy to somewhere")
    if kind.tag in ("list", "map", "tuple"):
        if not state.is_inert(kind):
            raise Refused(f"{name} of a container of more than data")
        state.weaken(kind)
    if name in table.MUTATES:
        for one in given.all:
            attributes.keep(state, one)
        return DATA
    _check_called(name, given)
    results = consumed(state, given.all, keeps=name not in _STAYS)
    if name in ("count", "index", "find", "startswith", "endswith") and kind.tag != "data":
        return NUMBER
    return state.mark(*given.all, *results)


def is_plain_statement(kind: Kind) -> bool:
    """Whether a statement of SQL stays in its database."""
    from adderclaw.gate.programs.languages import is_plain_sqlite

    return bool(kind.values) and all(re.match(_STATEMENTS, one) and is_plain_sqlite(one) for one in kind.values)


_STATEMENTS = (
    r"(?i)\s*(?:select|with|explain|insert|update|create\s+(?:temp\w*\s+)?(?:table|index|view)"
    r"|pragma\s+(?:table_info|index_list|index_info|foreign_key_list|user_version|integrity_check|table_list"
    r"|database_list|quick_check))\b"
)
