"""The expressions of a piece of Python: what kind of value each has. A node that is not here refuses."""

import ast

from adderclaw.gate.python import attributes, calls, table
from adderclaw.gate.python.kinds import (
    DATA,
    MAYBE,
    MIXED,
    NOTHING,
    NUMBER,
    PROJECT,
    Kind,
    Refused,
    function,
    several,
    text,
)
from adderclaw.gate.python.scopes import Scope, of_body, of_comprehension, parameters
from adderclaw.gate.python.state import Call, Function, State, added, joined

_USES = frozenset({"mixed", "module", "call"})


def value(state: State, node: ast.expr, scope: Scope) -> Kind:
    """The kind of an expression; all that it calls on the way is judged."""
    match node:
        case ast.Constant():
            return _constant(node.value)
        case ast.Name():
            return _name(state, node.id, scope)
        case ast.Attribute():
            return _attribute(state, node, scope)
        case ast.Call():
            return _call(state, node, scope)
        case ast.JoinedStr():
            return _formatted(state, node, scope)
        case ast.BinOp():
            return _operation(state, node, value(state, node.left, scope), value(state, node.right, scope))
        case ast.UnaryOp():
            return _arithmetic(state, value(state, node.operand, scope), NOTHING)
        case ast.Compare():
            compared = [looked_at(state, one, scope) for one in (node.left, *node.comparators)]
            wide = [kind for kind in compared if kind.tag == "object" and kind.name == "frame"]
            if wide or any(kind in (PROJECT, MAYBE) for kind in compared):
                return wide[0] if wide else PROJECT
            # What is not known may be an array, and then a comparison is one.
            return NUMBER if all(kind.tag in ("number", "text", "nothing") for kind in compared) else DATA
        case ast.Subscript():
            return _subscript(state, node, scope)
        case ast.Starred():
            return value(state, node.value, scope)
        case _:
            return _structure(state, node, scope)


def _structure(state: State, node: ast.expr, scope: Scope) -> Kind:
    match node:
        case ast.BoolOp():
            return _either(state, [value(state, one, scope) for one in node.values])
        case ast.IfExp():
            looked_at(state, node.test, scope)
            return _either(state, [value(state, node.body, scope), value(state, node.orelse, scope)])
        case ast.NamedExpr():
            kind = value(state, node.value, scope)
            state.bind(scope.outer, node.target.id, kind)
            return kind
        case ast.Tuple() if not any(isinstance(one, ast.Starred) for one in node.elts):
            return several(*(_used(value(state, one, scope)) for one in node.elts))
        case ast.List() | ast.Set() | ast.Tuple():
            made = state.made(id(node), NOTHING)
            for one in node.elts:
                kind = _used(value(state, one, scope))
                state.put(id(node), attributes.elements(state, kind) if isinstance(one, ast.Starred) else kind)
            return made
        case ast.Dict():
            return _mapping(state, node, scope)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
            inside = _comprehended(state, node, node.generators, scope)
            return state.made(id(node), _used(value(state, node.elt, inside)))
        case ast.DictComp():
            inside = _comprehended(state, node, node.generators, scope)
            key, kind = data(state, node.key, inside), _used(value(state, node.value, inside))
            return state.mapping(id(node), key, kind)
        case ast.Lambda():
            return defined(state, node, scope)
        case ast.Yield():
            given = NOTHING if node.value is None else _used(value(state, node.value, scope))
            state.put((id(scope.outer.node), "yield"), given)
            return NOTHING
        case ast.YieldFrom():
            given = attributes.elements(state, value(state, node.value, scope))
            state.put((id(scope.outer.node), "yield"), given)
            return MIXED  # what the other one returned
        case _:
            raise Refused(f"{type(node).__name__}, which is not followed")


def _used(kind: Kind) -> Kind:
    if kind.tag in ("mixed", "module") or kind == _ENVIRON:
        raise Refused("a module, the environment, or what is sometimes this and sometimes that, as a value")
    return kind


_ENVIRON = Kind("object", name="environ")


def data(state: State, node: ast.expr, scope: Scope) -> Kind:
    """A value that is put somewhere, or may come back from somewhere, and is data or the project's."""
    kind = _used(value(state, node, scope))
    if any(state.holds(kind, tag) for tag in _USES):
        raise Refused("a function or a module where only data is taken")
    return kind


def looked_at(state: State, node: ast.expr, scope: Scope) -> Kind:
    """A value that is only compared, or asked whether it is anything."""
    kind = value(state, node, scope)
    if kind.tag in _USES and not (kind.tag == "call" and isinstance(node, ast.Name | ast.Attribute)):
        raise Refused("a function or a module where only data is taken")
    if kind.tag in ("mixed", "module"):
        raise Refused("what is sometimes this and sometimes that")
    return kind


def _constant(given: object) -> Kind:
    if isinstance(given, str):
        return text(given)
    if given is None:
        return NOTHING
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < 10:
        return Kind("number", frozenset({str(given)}))
    return DATA if isinstance(given, bytes) else NUMBER


def _name(state: State, name: str, scope: Scope) -> Kind:
    bound = state.named(scope, name)
    if bound is not None:
        if bound == MIXED:
            raise Refused(f"{name} is sometimes this and sometimes that")
        return bound
    if name in table.CONSTANTS:
        return DATA
    if name in table.functions() and "." not in name:
        return function(name)
    raise Refused(f"the name {name}")


_SAID = frozenset({"__name__", "__version__", "__file__", "__doc__", "__qualname__"})


def _attribute(state: State, node: ast.Attribute, scope: Scope) -> Kind:
    if not isinstance(node.ctx, ast.Load):
        raise Refused(f"setting {node.attr} of something")
    if node.attr in _SAID:
        inner = node.value
        if isinstance(inner, ast.Attribute) and inner.attr == "__class__":
            inner = inner.value
        kind = value(state, inner, scope)
        if kind == MIXED:
            raise Refused(f"{node.attr} of what is sometimes this and sometimes that")
        return DATA
    return attributes.attribute(state, value(state, node.value, scope), node.attr)


def _call(state: State, node: ast.Call, scope: Scope) -> Kind:
    args: list[Kind] = []
    starred = False
    for one in node.args:
        kind = value(state, one, scope)
        if starred:
            raise Refused("arguments after *")
        starred = isinstance(one, ast.Starred)
        args.append(attributes.elements(state, kind) if starred else kind)
    keywords: dict[str, Kind] = {}
    for keyword in node.keywords:
        kind = value(state, keyword.value, scope)
        if keyword.arg is None:
            keywords["**"] = state.mark(kind) if state.is_inert(kind) or kind == MAYBE else MIXED
        elif keyword.arg.startswith("_"):
            raise Refused(f"{keyword.arg}=")
        else:
            keywords[keyword.arg] = kind
    if any(kind == MIXED for kind in (*args, *keywords.values())):
        raise Refused("what is sometimes this and sometimes that")
    call = Call(tuple(args), keywords, id(node), starred, all(_is_loaded(state, one) for one in node.args))
    if isinstance(node.func, ast.Attribute) and node.func.attr not in _SAID:
        receiver = value(state, node.func.value, scope)
        return calls.method(state, receiver, node.func.attr, call)
    return calls.call(state, value(state, node.func, scope), call)


def _is_loaded(state: State, node: ast.expr) -> bool:
    """`User`, `models.User.name`: what the project's modules have, and no text of the piece."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in state.loaded


def _formatted(state: State, node: ast.JoinedStr, scope: Scope) -> Kind:
    made: Kind | None = text("")
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            kind = _used(looked_at(state, part.value, scope))
            if part.format_spec is not None:
                data(state, part.format_spec, scope)
            plain = part.conversion == -1 and part.format_spec is None and kind.tag == "text"
            made = added(made, kind) if made is not None and plain else None
        else:
            made = added(made, value(state, part, scope)) if made is not None else None
    if made is not None and made.tag == "text":
        return made
    lead = node.values[0] if node.values else None
    # Of what begins with a text that stands there, that much is known: of a statement of SQL, for one.
    known = isinstance(lead, ast.Constant) and isinstance(lead.value, str)
    return Kind("data", frozenset({str(lead.value)})) if known and isinstance(lead, ast.Constant) else DATA


def _either(state: State, kinds: list[Kind]) -> Kind:
    made = NOTHING
    for kind in kinds:
        made = state.join(made, kind)
    return made


_OF_CONTAINERS = (ast.Add, ast.Mult, ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)


def _operation(state: State, node: ast.BinOp, left: Kind, right: Kind) -> Kind:
    if left.tag in _USES or right.tag in _USES:
        raise Refused("a function or a module where only data is taken")
    if isinstance(node.op, ast.Add) and left.tag == right.tag == "text":
        return added(left, right)
    if isinstance(node.op, ast.Div) and left.tag == "text":
        return joined(left, right, path=True)
    if isinstance(node.op, _OF_CONTAINERS):
        if left.tag == right.tag == "tuple" and isinstance(node.op, ast.Add):
            return several(*left.items, *right.items) if len(left.items) + len(right.items) < 100 else DATA
        if {left.tag, right.tag} <= {"list", "tuple"}:
            return state.made(id(node), state.join(state.inside(left), state.inside(right)))
        if left.tag in ("list", "tuple", "map") and right.tag in ("list", "tuple", "map"):
            return state.join(left, right)
        if left.tag in ("list", "tuple") and isinstance(node.op, ast.Mult):
            return left if left.tag == "list" else state.made(id(node), state.inside(left))
    return _arithmetic(state, left, right)


def _arithmetic(state: State, left: Kind, right: Kind) -> Kind:
    both = (left, right)
    if any(kind.tag in _USES for kind in both):
        raise Refused("a function or a module where only data is taken")
    for kind in both:
        if not state.is_inert(kind) and kind not in (PROJECT, MAYBE):
            raise Refused("an object to count with")
        state.weaken(kind, state.mark(*both) if state.mark(*both) != MAYBE else PROJECT)
    if all(kind.tag in ("number", "nothing") for kind in both):
        return NUMBER
    wide = next((kind for kind in both if kind.tag == "object" and kind.name == "frame"), None)
    return wide or state.mark(*both)


def _subscript(state: State, node: ast.Subscript, scope: Scope) -> Kind:
    if not isinstance(node.ctx, ast.Load):
        raise Refused("this subscript")
    kind = value(state, node.value, scope)
    if isinstance(node.slice, ast.Slice):
        for one in (node.slice.lower, node.slice.upper, node.slice.step):
            if one is not None:
                data(state, one, scope)
        return attributes.sliced(state, kind, id(node), _bounds(node.slice))
    key = data(state, node.slice, scope)
    if kind.tag == "object" and kind.name == "environ":
        attributes.variable(key)
        return DATA
    index = node.slice.value if isinstance(node.slice, ast.Constant) else None
    return attributes.item(state, kind, index)


def _bounds(node: ast.Slice) -> slice | None:
    """The part that is taken, where its ends stand there."""
    ends = (node.lower, node.upper)
    if node.step is not None or not all(
        one is None or (isinstance(one, ast.Constant) and type(one.value) is int) for one in ends
    ):
        return None
    first, last = (one.value if isinstance(one, ast.Constant) and isinstance(one.value, int) else None for one in ends)
    return slice(first, last)


def _mapping(state: State, node: ast.Dict, scope: Scope) -> Kind:
    made = state.mapping(id(node), NOTHING, NOTHING)
    for key, one in zip(node.keys, node.values, strict=True):
        kind = _used(value(state, one, scope))
        if key is not None:
            state.mapping(id(node), data(state, key, scope), kind)
        elif kind.tag == "map":
            state.mapping(id(node), state.side(kind, "key"), state.side(kind, "value"))
        else:
            into = attributes.elements(state, kind)
            state.mapping(id(node), into, into)
    return made


def _comprehended(state: State, node: ast.expr, generators: list[ast.comprehension], scope: Scope) -> Scope:
    inside = state.scopes.get(id(node))
    if inside is None:
        inside = state.scopes[id(node)] = of_comprehension(node, scope, generators)
    for index, generator in enumerate(generators):
        if generator.is_async:
            raise Refused("async")
        over = value(state, generator.iter, inside if index else scope)
        assign(state, generator.target, attributes.elements(state, over), inside)
        for test in generator.ifs:
            looked_at(state, test, inside)
    return inside


def assign(state: State, target: ast.expr, kind: Kind, scope: Scope) -> None:
    match target:
        case ast.Name():
            state.bind(scope, target.id, kind)
        case ast.Tuple() | ast.List():
            _unpack(state, target.elts, kind, scope)
        case ast.Starred():
            content = kind if kind.tag == "list" else state.made(id(target), attributes.elements(state, kind))
            assign(state, target.value, content, scope)
        case ast.Subscript():
            into = value(state, target.value, scope)
            key = NUMBER if isinstance(target.slice, ast.Slice) else data(state, target.slice, scope)
            if isinstance(target.slice, ast.Slice):
                kind = attributes.elements(state, kind)
                for one in (target.slice.lower, target.slice.upper, target.slice.step):
                    if one is not None:
                        data(state, one, scope)
            attributes.store(state, into, key, kind)
        case _:
            raise Refused("setting an attribute of something")


def _unpack(state: State, targets: list[ast.expr], kind: Kind, scope: Scope) -> None:
    plain = not any(isinstance(one, ast.Starred) for one in targets)
    exact = kind.tag == "tuple" and plain and len(kind.items) == len(targets)
    for index, target in enumerate(targets):
        one = kind.items[index] if exact else attributes.elements(state, kind)
        if isinstance(target, ast.Starred):
            one = state.made(id(target), one)
        assign(state, target, one, scope)


def defined(state: State, node: ast.FunctionDef | ast.Lambda, scope: Scope) -> Kind:
    """A function of the piece: what it does is followed once something calls it."""
    if id(node) not in state.functions:
        body = node.body if isinstance(node, ast.FunctionDef) else [node.body]
        state.functions[id(node)] = Function(node, of_body(node, scope, body, parameters(node.args)))
        state.functions[id(node)].yields = _yields(body)
    given = node.args
    plain = [*given.posonlyargs, *given.args]
    for parameter, default in zip(reversed(plain), reversed(given.defaults), strict=False):
        state.put((id(node), parameter.arg), _used(value(state, default, scope)))
    for parameter, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        if default is not None:
            state.put((id(node), parameter.arg), _used(value(state, default, scope)))
    return Kind("call", sites=frozenset({id(node)}))


def _yields(body: list[ast.stmt] | list[ast.expr]) -> bool:
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            # What stands for a parameter is run outside.
            waiting += [*node.args.defaults, *(one for one in node.args.kw_defaults if one is not None)]
            waiting += node.decorator_list if isinstance(node, ast.FunctionDef) else []
        else:
            waiting += ast.iter_child_nodes(node)
    return False
