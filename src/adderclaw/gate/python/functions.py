"""Functions of Python's that hand on what they are given: what comes out is known as well as what went in."""

from collections.abc import Callable

from adderclaw.gate.programs.allowlist import names
from adderclaw.gate.python import attributes, calls, project
from adderclaw.gate.python.kinds import (
    DATA,
    MAYBE,
    NOTHING,
    NUMBER,
    PROJECT,
    Kind,
    Refused,
    function,
    module,
    several,
    thing,
)
from adderclaw.gate.python.state import Call, State
from adderclaw.gate.python.table import PURE, RECORD


def _content(state: State, kinds: tuple[Kind, ...]) -> Kind:
    content = NOTHING
    for kind in kinds:
        content = state.join(content, attributes.elements(state, kind))
    return content


def _listed(state: State, given: Call) -> Kind:
    """`list`, `set`, `sorted` …: the same things, in another order."""
    given.only(0, 2, "key", "reverse", "maxlen", "desc", "total", "disable", "file", "start")
    content = _content(state, given.args[:1])
    if "key" in given.keywords:
        calls.handed(state, given.keywords["key"], content)
    return state.made(given.site, content)


def _enumerated(state: State, given: Call) -> Kind:
    given.only(1, 2, "start")
    return state.made(given.site, several(NUMBER, attributes.elements(state, given.args[0])))


def _zipped(state: State, given: Call) -> Kind:
    if given.starred or set(given.keywords) - {"strict"}:
        return _grouped(state, given._replace(keywords={}))
    return state.made(given.site, several(*(attributes.elements(state, kind) for kind in given.args)))


def _grouped(state: State, given: Call) -> Kind:
    """Lists of things out of those that it is given."""
    iterables = tuple(kind for kind in given.args if kind.tag != "number")
    content = _content(state, iterables)
    if given.starred:
        content = state.join(content, attributes.elements(state, content) if content.tag in _ITERABLE else content)
    content = state.join(content, given.keywords.get("fillvalue", NOTHING))
    return state.made(given.site, state.made((given.site, "in"), content))


_ITERABLE = frozenset({"list", "tuple", "map", "data", "project", "text"})


def _chained(state: State, given: Call) -> Kind:
    return state.made(given.site, _content(state, given.args) if not given.starred else _deep(state, given.args))


def _deep(state: State, kinds: tuple[Kind, ...]) -> Kind:
    content = _content(state, kinds)
    return state.join(content, attributes.elements(state, content)) if content.tag in _ITERABLE else content


def _flattened(state: State, given: Call) -> Kind:
    given.only(1, 1)
    return state.made(given.site, attributes.elements(state, attributes.elements(state, given.args[0])))


def _passed(state: State, given: Call) -> Kind:
    """`islice`, `takewhile` …: some of the things, in their order; a function may have a word in it."""
    called = [kind for kind in given.all if kind.tag == "call"]
    content = _content(state, tuple(kind for kind in given.args if kind.tag not in ("call", "number")))
    for kind in called:
        content = state.join(content, calls.handed(state, kind, content, content))
    return state.made(given.site, content)


def _repeated(state: State, given: Call) -> Kind:
    given.only(1, 2, "times")
    return state.made(given.site, given.args[0])


def _by_key(state: State, given: Call) -> Kind:
    given.only(1, 2, "key")
    content = attributes.elements(state, given.args[0])
    key = given.args[1] if len(given.args) > 1 else given.keywords.get("key", NOTHING)
    group = state.join(content, calls.handed(state, key, content)) if key != NOTHING else content
    return state.made(given.site, several(group, state.made((given.site, "in"), content)))


def _mapped(state: State, given: Call) -> Kind:
    given.only(2, 9)
    contents = [attributes.elements(state, kind) for kind in given.args[1:]]
    return state.made(given.site, calls.handed(state, given.args[0], *contents))


def _filtered(state: State, given: Call) -> Kind:
    given.only(2, 2)
    content = attributes.elements(state, given.args[1])
    calls.handed(state, given.args[0], content)
    return state.made(given.site, content)


def _summed(state: State, given: Call) -> Kind:
    given.only(1, 2, "start")
    content = attributes.elements(state, given.args[0])
    for kind in (*given.args[1:], *given.keywords.values()):
        content = state.join(content, kind)
    if content.tag in ("number", "nothing"):
        return NUMBER
    if not state.is_inert(content) and content != MAYBE:
        raise Refused("a sum of more than data")
    return content if content.tag in ("list", "object") else state.mark(content)


def _extreme(state: State, given: Call) -> Kind:
    if set(given.keywords) - {"key", "default"}:
        raise Refused("min and max with more than key and default")
    several_given = len(given.args) > 1 or given.starred
    content = NOTHING
    for kind in given.args if several_given else ():
        content = state.join(content, kind)
    if not several_given or given.starred:
        # What a star stands for may be one thing, and then it is that one's parts.
        content = state.join(content, _content(state, given.args))
    if "key" in given.keywords:
        calls.handed(state, given.keywords["key"], content)
    return state.join(content, given.keywords.get("default", NOTHING))


def _next(state: State, given: Call) -> Kind:
    given.only(1, 2)
    content = attributes.elements(state, given.args[0])
    return state.join(content, given.args[1]) if len(given.args) > 1 else content


def _dict(state: State, given: Call) -> Kind:
    made = state.mapping(given.site, NOTHING, NOTHING)
    for kind in given.args:
        if kind.tag == "map":
            state.mapping(given.site, state.side(kind, "key"), state.side(kind, "value"))
            continue
        content = attributes.elements(state, kind)
        pair = content.items if content.tag == "tuple" and len(content.items) == 2 else None
        inner = attributes.elements(state, content) if pair is None and content != NOTHING else NOTHING
        state.mapping(given.site, *(pair if pair is not None else (inner, inner)))
    for kind in given.keywords.values():
        if kind.tag in ("module", "mixed"):
            raise Refused("a module as a value")
        state.mapping(given.site, DATA, kind)
    return made


def _counter(state: State, given: Call) -> Kind:
    given.only(0, 1)
    count = state.side(given.first, "value") if given.first.tag == "map" else NUMBER
    if given.first.tag in ("data", "project", "maybe", "object"):
        count = state.mark(given.first)
    return state.mapping(given.site, _content(state, given.args), count)


def _defaultdict(state: State, given: Call) -> Kind:
    """Whatever is asked for becomes a key."""
    given.only(0, 2)
    value = calls.handed(state, given.args[0]) if given.args else NOTHING
    made = state.mapping(given.site, DATA, value)
    if len(given.args) > 1:
        _dict(state, given._replace(args=given.args[1:]))
    return made


def _reduced(state: State, given: Call) -> Kind:
    given.only(2, 3)
    content = attributes.elements(state, given.args[1])
    site = (given.site, "so far")
    state.put(site, given.args[2] if len(given.args) > 2 else content)
    state.put(site, calls.handed(state, given.first, state.held.get(site, NOTHING), content))
    return state.held.get(site, NOTHING)


def _text(state: State, given: Call) -> Kind:
    given.only(0, 3, "encoding", "errors")
    calls.consumed(state, given.all, keeps=False)
    return given.args[0] if len(given.args) == 1 and given.args[0].tag == "text" else DATA


def _one_of(state: State, given: Call) -> Kind:
    given.only(1, 1)
    return attributes.elements(state, given.args[0])


def _some_of(state: State, given: Call) -> Kind:
    given.only(1, 3, "k", "weights", "cum_weights", "counts")
    return state.made(given.site, attributes.elements(state, given.args[0]))


def _largest(state: State, given: Call) -> Kind:
    given.only(2, 3, "key")
    content = attributes.elements(state, given.args[1])
    for key in (*given.args[2:], *given.keywords.values()):
        calls.handed(state, key, content)
    return state.made(given.site, content)


def _pushed(state: State, given: Call) -> Kind:
    given.only(2, 2)
    attributes.store(state, given.args[0], NUMBER, given.args[1])
    return NOTHING


def _copied(_: State, given: Call) -> Kind:
    given.only(1, 1)
    if given.args[0].tag in ("module", "mixed", "call"):
        raise Refused("a copy of what is no data")
    return given.args[0]


def _kept(state: State, given: Call) -> Kind:
    """An object that has what it is given under names of its own."""
    for kind in given.all:
        attributes.keep(state, kind)
    return thing("record")


def _record(state: State, given: Call) -> Kind:
    given.only(2, 2, "defaults", "rename")
    for kind in given.all:
        attributes.keep(state, kind)
    return function(RECORD)


def _getter(state: State, given: Call) -> Kind:
    given.only(1, 9)
    calls.consumed(state, given.all, keeps=True)
    return function(PURE)


# ------------------------------------------------------------------ what is asked about values

_LOOKED_AT = frozenset({"module", "mixed"})


def _asked(_: State, given: Call) -> Kind:
    given.only(1, 2)
    if any(kind.tag in _LOOKED_AT for kind in given.args):
        raise Refused("a question about a module")
    return NUMBER


def _type(state: State, given: Call) -> Kind:
    given.only(1, 1)
    if not state.is_inert(given.args[0]) and given.args[0] not in (MAYBE, thing("error"), thing("said")):
        raise Refused("the type of what is no data")
    return thing("type")


def _dir(_: State, given: Call) -> Kind:
    given.only(0, 1)
    return DATA


def _getattr(state: State, given: Call) -> Kind:
    given.only(2, 3)
    name = given.args[1]
    if name.tag != "text" or name.found or name.bare:
        raise Refused("an attribute whose name does not stand there")
    result = given.args[2] if len(given.args) > 2 else NOTHING
    for one in sorted(name.values):
        result = state.join(result, attributes.attribute(state, given.first, one))
    return result


def _inspected(_: State, given: Call) -> Kind:
    given.only(1, 1)
    if given.args[0].tag in ("mixed", "text", "data") or given.args[0].sites:
        raise Refused("what is looked into is no function of the project's")
    return DATA


def _members(state: State, given: Call) -> Kind:
    given.only(1, 2)
    if given.args[0] not in (MAYBE, PROJECT):
        raise Refused("the members of what is not the project's")
    if len(given.args) > 1:
        calls.handed(state, given.args[1], MAYBE)
    return state.made(given.site, several(DATA, thing("said")))


def imported(state: State, name: str) -> Kind:
    """The module of this name: one of the tables, or the project's."""
    if project.check_module(name):
        state.modules[name] = None
        return MAYBE
    return module(name)


def _import(state: State, given: Call) -> Kind:
    given.only(1, 1)
    name, result = given.args[0], NOTHING
    if name.tag != "text" or name.found or name.bare:
        raise Refused("a module whose name does not stand there")
    for one in sorted(name.values):
        result = state.join(result, imported(state, one))
    return result


def _spec(state: State, given: Call) -> Kind:
    given.only(1, 1)
    name = given.args[0]
    if name.tag != "text" or name.found or name.bare:
        raise Refused("a module whose name does not stand there")
    for one in name.values:
        if "." in one:
            imported(state, one.rsplit(".", 1)[0])
    return DATA


def _timed(state: State, given: Call) -> Kind:
    """What timeit is given is code: it is followed like the piece itself."""
    from adderclaw.gate.python import follow

    given.only(0, 2, "stmt", "setup", "number", "repeat")
    statement = given.args[0] if given.args else given.keywords.get("stmt", NOTHING)
    setup = given.args[1] if len(given.args) > 1 else given.keywords.get("setup", NOTHING)
    for kind in (statement, setup):
        if kind.tag == "call":
            calls.handed(state, kind)
        elif kind != NOTHING and (kind.tag != "text" or kind.found or kind.bare):
            raise Refused("code that does not stand there")
    before = setup.values if setup.tag == "text" else {""}
    for one in sorted(statement.values if statement.tag == "text" else {""}):
        for first in sorted(before):
            follow.inner(state, f"{first}\n{one}")
    return NUMBER if given.site else DATA


def _installed(_: State, given: Call) -> Kind:
    given.only(0, 0)
    return DATA


def _raises(_: State, given: Call) -> Kind:
    given.only(1, 1, "match")
    return thing("error")


def _cached(_: State, given: Call) -> Kind:
    """A decorator that keeps what a function gave."""
    given.only(0, 1, "maxsize", "typed")
    return given.args[0] if given.args and given.args[0].tag == "call" else function("functools.cache")


def _awaited(_: State, given: Call) -> Kind:
    """`asyncio.run(main())`: what it gives is what the function gave."""
    given.only(1, 2, "debug", "timeout")
    return given.args[0]


def _all_awaited(state: State, given: Call) -> Kind:
    if set(given.keywords) - {"return_exceptions"}:
        raise Refused("gather with more than return_exceptions")
    content = NOTHING
    for kind in given.args:
        content = state.join(content, kind)
    return state.made(given.site, content)


def _threaded(state: State, given: Call) -> Kind:
    if not given.args or given.starred:
        raise Refused("to_thread without a function")
    return calls.call(state, given.args[0], given._replace(args=given.args[1:], named=False))


def _slept(state: State, given: Call) -> Kind:
    given.only(1, 1)
    calls.consumed(state, given.args, keeps=False)
    return NOTHING


type Rule = Callable[[State, Call], Kind]

SPECIAL: dict[str, Rule] = {
    **dict.fromkeys(
        names("""list set tuple frozenset sorted reversed iter collections.deque tqdm.tqdm tqdm.tqdm.tqdm"""),
        _listed,
    ),
    "enumerate": _enumerated,
    "zip": _zipped,
    "map": _mapped,
    "filter": _filtered,
    "sum": _summed,
    **dict.fromkeys(("min", "max"), _extreme),
    "next": _next,
    **dict.fromkeys(("dict", "collections.OrderedDict"), _dict),
    "str": _text,
    "collections.Counter": _counter,
    "collections.defaultdict": _defaultdict,
    "collections.namedtuple": _record,
    **dict.fromkeys(("types.SimpleNamespace", RECORD), _kept),
    "itertools.chain": _chained,
    "itertools.chain.from_iterable": _flattened,
    **dict.fromkeys(
        names("""itertools.product itertools.combinations itertools.permutations itertools.zip_longest itertools.tee
    itertools.pairwise itertools.combinations_with_replacement itertools.batched"""),
        _grouped,
    ),
    **dict.fromkeys(
        names("""itertools.islice itertools.cycle itertools.takewhile itertools.dropwhile
    itertools.compress heapq.merge"""),
        _passed,
    ),
    "itertools.repeat": _repeated,
    "itertools.groupby": _by_key,
    "functools.reduce": _reduced,
    **dict.fromkeys(("functools.lru_cache", "functools.cache"), _cached),
    "operator.itemgetter": _getter,
    **dict.fromkeys(("random.choice", "secrets.choice", "heapq.heappop"), _one_of),
    **dict.fromkeys(("random.choices", "random.sample"), _some_of),
    **dict.fromkeys(("heapq.nlargest", "heapq.nsmallest"), _largest),
    "heapq.heappush": _pushed,
    **dict.fromkeys(("copy.copy", "copy.deepcopy"), _copied),
    **dict.fromkeys(("isinstance", "issubclass", "hasattr", "callable"), _asked),
    "type": _type,
    "dir": _dir,
    "getattr": _getattr,
    **dict.fromkeys(
        (f"inspect.{name}" for name in ["signature", "getsource", "getdoc", "isfunction", "isclass", "ismodule"]),
        _inspected,
    ),
    **dict.fromkeys((f"inspect.{name}" for name in ["getfile", "getsourcefile", "getmro"]), _inspected),
    "inspect.getmembers": _members,
    "importlib.import_module": _import,
    "importlib.util.find_spec": _spec,
    "timeit.timeit": _timed,
    "timeit.repeat": lambda state, given: state.made(given.site, _timed(state, given)),
    "pytest.raises": _raises,
    "importlib.metadata.distributions": _installed,
    **dict.fromkeys(("asyncio.run", "asyncio.wait_for"), _awaited),
    "asyncio.gather": _all_awaited,
    "asyncio.to_thread": _threaded,
    "asyncio.sleep": _slept,
}
