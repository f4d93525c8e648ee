"""The statements of a piece of Python, followed until nothing new is learned; a statement that is not here refuses."""

import ast
import re
from collections.abc import Sequence

from adderclaw.gate.programs.allowlist import names
from adderclaw.gate.python import Piece, attributes, functions, project, table
from adderclaw.gate.python.kinds import DATA, MAYBE, MIXED, NOTHING, NUMBER, PROJECT, Kind, Refused, thing
from adderclaw.gate.python.scopes import Scope, bound_names, of_body, only_imported
from adderclaw.gate.python.state import State, Words
from adderclaw.gate.python.values import assign, data, defined, looked_at, value
from adderclaw.gate.python.waits import plain

MAX_NODES = 6_000
MAX_DEPTH = 60
MAX_ROUNDS = 24
MAX_INNER = 40


def piece(code: str, given: Words | None, *, managed: bool) -> Piece:
    """What a piece does, or why it is not taken."""
    try:
        tree = _parsed(code)
        state = State(given, managed=managed)
        state.loaded = only_imported(tree)
        _follow(state, tree)
        _check_loaded(state)
    except Refused as refusal:
        return Piece(str(refusal))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Piece("it is no code that Python reads")
    texts, hides = _written(tree) if state.writes else ((), False)
    return Piece(
        "",
        tuple(state.reads),
        tuple(state.writes),
        tuple(state.words),
        tuple(state.walks),
        tuple(state.modules),
        state.confined,
        texts,
        hides,
    )


def _parsed(code: str) -> ast.Module:
    tree = ast.parse(code)
    level: list[ast.AST] = [tree]
    count = depth = 0
    while level:
        depth, count = depth + 1, count + len(level)
        if depth > MAX_DEPTH or count > MAX_NODES:
            raise Refused("too long, or too deep")
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return plain(tree)


def _follow(state: State, tree: ast.Module) -> None:
    scope = of_body(tree, None, tree.body)
    for _ in range(MAX_ROUNDS):
        state.begin()
        refusals = _body(state, tree.body, scope)
        for made in list(state.functions.values()):
            # In the end also where nobody is seen to call it: something else may.
            if made.called or state.sure:
                refusals += _function(state, made.node, made.scope)
        if not state.changed and not state.sure:
            state.sure = True
        elif not state.changed:
            if MIXED in state.held.values():
                refusals.append("a name, or what is in a container, is sometimes this and sometimes that")
            if refusals:
                raise Refused(refusals[0])
            return
    raise Refused("it does not come to an end")


def _function(state: State, node: ast.FunctionDef | ast.Lambda, scope: Scope) -> list[str]:
    if isinstance(node, ast.FunctionDef):
        return _body(state, node.body, scope)
    try:
        state.put((id(node), "return"), value(state, node.body, scope))
    except Refused as refusal:
        return [str(refusal)]
    return []


def _body(state: State, body: Sequence[ast.stmt], scope: Scope) -> list[str]:
    """Every statement, and why some are not taken: what is refused now may still be known better in the next round."""
    refusals: list[str] = []
    for node in body:
        try:
            refusals += _statement(state, node, scope)
        except Refused as refusal:
            refusals.append(str(refusal))
    return refusals


def inner(state: State, code: str) -> None:
    """A text that is run as code, with names of its own."""
    if code not in state.codes:
        if len(state.codes) >= MAX_INNER:
            raise Refused("too many texts that are code")
        try:
            state.codes[code] = _parsed(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise Refused("a text that is no code") from error
    tree = state.codes[code]
    if any(re.match("_|inner$", name) for name in bound_names(tree)):
        raise Refused("a name that timeit has itself")
    scope = state.scopes.get(id(tree)) or of_body(tree, None, tree.body)
    state.scopes[id(tree)] = scope
    if state.depth > 1:
        raise Refused("code in code")
    state.depth += 1
    try:
        refusals = _body(state, tree.body, scope)
    finally:
        state.depth -= 1
    if refusals:
        raise Refused(refusals[0])


def _statement(state: State, node: ast.stmt, scope: Scope) -> list[str]:
    match node:
        case ast.Expr():
            value(state, node.value, scope)
        case ast.Assign():
            kind = value(state, node.value, scope)
            for target in node.targets:
                assign(state, target, kind, scope)
        case ast.AnnAssign():
            _annotation(node.annotation, scope)
            if node.value is not None:
                assign(state, node.target, value(state, node.value, scope), scope)
        case ast.AugAssign():
            _augmented(state, node, scope)
        case ast.Return():
            kind = NOTHING if node.value is None else value(state, node.value, scope)
            if node.value is not None and state.functions[id(scope.node)].yields:
                raise Refused("a generator that returns something")
            state.put((id(scope.node), "return"), kind)
        case ast.Assert():
            looked_at(state, node.test, scope)
            if node.msg is not None:
                data(state, node.msg, scope)
        case ast.Raise():
            _raised(state, node, scope)
        case ast.Delete():
            for target in node.targets:
                _deleted(state, target, scope)
        case ast.Import() | ast.ImportFrom():
            _imported(state, node, scope)
        case ast.Pass() | ast.Break() | ast.Continue():
            pass
        case _:
            return _compound(state, node, scope)
    return []


def _compound(state: State, node: ast.stmt, scope: Scope) -> list[str]:
    match node:
        case ast.If() | ast.While():
            looked_at(state, node.test, scope)
            return [*_body(state, node.body, scope), *_body(state, node.orelse, scope)]
        case ast.For():
            over = value(state, node.iter, scope)
            assign(state, node.target, attributes.elements(state, over), scope)
            return [*_body(state, node.body, scope), *_body(state, node.orelse, scope)]
        case ast.With():
            for item in node.items:
                kind = _entered(value(state, item.context_expr, scope))
                if item.optional_vars is not None:
                    assign(state, item.optional_vars, kind, scope)
            return _body(state, node.body, scope)
        case ast.Try():
            refusals = _body(state, node.body, scope)
            for handler in node.handlers:
                refusals += _handled(state, handler, scope)
            return [*refusals, *_body(state, node.orelse, scope), *_body(state, node.finalbody, scope)]
        case ast.FunctionDef():
            _defined(state, node, scope)
            return []
        case _:
            raise Refused(f"{type(node).__name__}, which is not followed")


def _entered(kind: Kind) -> Kind:
    if kind.tag in ("mixed", "module", "call"):
        raise Refused("with a function or a module")
    return kind


def _handled(state: State, handler: ast.ExceptHandler, scope: Scope) -> list[str]:
    if handler.type is not None:
        kind = value(state, handler.type, scope)
        if kind.tag in ("module", "mixed"):
            raise Refused("except with a module")
    if handler.name:
        state.bind(scope, handler.name, thing("error"))
    return _body(state, handler.body, scope)


def _raised(state: State, node: ast.Raise, scope: Scope) -> None:
    for one in (node.exc, node.cause):
        if one is not None and value(state, one, scope).tag in ("module", "mixed"):
            raise Refused("raise of a module")


def _deleted(state: State, target: ast.expr, scope: Scope) -> None:
    if isinstance(target, ast.Subscript):
        kind = value(state, target.value, scope)
        if kind.tag not in ("list", "map", "data", "project", "nothing"):
            raise Refused("del of a part of what is no container")
        if isinstance(target.slice, ast.Slice):
            return
        data(state, target.slice, scope)
    elif not isinstance(target, ast.Name):
        raise Refused("del of an attribute")


def _augmented(state: State, node: ast.AugAssign, scope: Scope) -> None:
    left = ast.copy_location(_loaded(node.target), node)
    before, after = value(state, left, scope), value(state, node.value, scope)
    if before.tag == "tuple" or any(kind.tag in ("module", "mixed", "call") for kind in (before, after)):
        raise Refused("a function or a module where only data is taken")
    if before.tag == "list":
        # The list itself takes it in, under all of its names.
        attributes.store(state, before, NUMBER, attributes.elements(state, after))
        return
    if before.tag == "map" or (before.tag == "data" and after.tag in ("list", "map", "tuple")):
        attributes.keep(state, after)
        if before.tag == "map":
            attributes.keep(state, before)
        return
    made = _result(state, before, after)
    assign(state, node.target, made, scope)


def _result(state: State, before: Kind, after: Kind) -> Kind:
    for kind in (before, after):
        if not state.is_inert(kind) and kind != MAYBE:
            raise Refused("an object to count with")
        state.weaken(kind, PROJECT if kind == PROJECT else DATA)
    if before.tag in ("number", "nothing") and after.tag in ("number", "nothing"):
        return NUMBER
    wide = next((kind for kind in (before, after) if kind.tag == "object" and kind.name == "frame"), None)
    return wide or state.mark(before, after)


def _loaded(target: ast.expr) -> ast.expr:
    match target:
        case ast.Name():
            return ast.Name(target.id, ast.Load())
        case ast.Subscript():
            return ast.Subscript(target.value, target.slice, ast.Load())
        case _:
            raise Refused("setting an attribute of something")


_ANNOTATED = names("""int str float bool bytes list dict set tuple frozenset object None type""")


def _annotation(node: ast.expr, scope: Scope) -> None:
    """An annotation is run like any expression: only names of types, and what stands in brackets after them."""
    for one in ast.walk(node):
        match one:
            case ast.Name() if one.id in _ANNOTATED and scope.owner(one.id) is None:
                pass
            case ast.Constant() if one.value is None or one.value is ... or isinstance(one.value, str):
                pass
            case ast.Subscript() | ast.Tuple() | ast.List() | ast.BitOr() | ast.Load() | ast.BinOp():
                pass
            case _:
                raise Refused("an annotation that is more than a type")


_DECORATORS = frozenset({"functools.cache", "functools.lru_cache"})


def _defined(state: State, node: ast.FunctionDef, scope: Scope) -> None:
    given = node.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    for annotation in (*(one.annotation for one in every if one is not None), node.returns):
        if annotation is not None:
            _annotation(annotation, scope)
    if getattr(node, "type_params", None):
        raise Refused("type parameters")
    for decorator in node.decorator_list:
        kind = value(state, decorator, scope)
        if kind.tag != "call" or kind.sites or not kind.values <= _DECORATORS:
            raise Refused("a decorator")
    state.bind(scope, node.name, defined(state, node, scope))


def _imported(state: State, node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
    if isinstance(node, ast.Import):
        for alias in node.names:
            kind = functions.imported(state, alias.name)
            root = alias.name.split(".", 1)[0]
            if alias.asname is None and root != alias.name and kind.tag == "module":
                kind = Kind("module", name=root)
            state.bind(scope, alias.asname or root, kind)
        return
    if node.level or not node.module:
        raise Refused("a relative import")
    kind = functions.imported(state, node.module)
    for alias in node.names:
        if alias.name == "*":
            raise Refused("import *")
        full = f"{node.module}.{alias.name}"
        if kind == MAYBE:
            project.check_imported(alias.name)
            state.modules[full] = None
            made = MAYBE
        elif table.functions().get(full) is None and full in table.modules():
            made = Kind("module", name=full)
        else:
            made = attributes.attribute(state, kind, alias.name)
        state.bind(scope, alias.asname or alias.name, made)


# ------------------------------------------------------------------ what it writes

_LOADS = (".py", ".pth", ".so", ".pyc", ".pyd", ".zip", ".egg", ".cfg")


def _check_loaded(state: State) -> None:
    """What it writes is not what it loads."""
    written = [name.rsplit("/", 1)[-1] for name in (*state.writes, *state.patterns)]
    loads = [name for name in written if name.endswith(_LOADS) or "." not in name]
    if loads and state.modules:
        raise Refused("it writes code, and loads code of the project's: do it in two calls")
    import sys

    odd = next(
        (name for name in written if name.split(".", 1)[0] in sys.stdlib_module_names and name.endswith(".py")), None
    )
    if odd is not None:
        raise Refused(f"it writes {odd}, which Python would load for its own module")


def _written(tree: ast.Module) -> tuple[Words, bool]:
    texts: list[str] = []
    hides = False
    for node in ast.walk(tree):
        match node:
            case ast.Constant() if isinstance(node.value, str):
                texts.append(node.value)
            case ast.Constant() if isinstance(node.value, bytes):
                texts.append(node.value.decode("latin-1"))
            case ast.Name():
                hides = hides or node.id in table.HIDING
            case ast.Attribute():
                hides = hides or node.attr in table.HIDING
            case ast.alias():
                hides = hides or bool(table.HIDING & set(node.name.split(".")))
            case ast.Slice() if node.step is not None:
                hides = True
            case _:
                pass
    return tuple(texts), hides
