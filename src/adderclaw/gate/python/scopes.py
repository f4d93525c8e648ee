"""Which names a piece binds, and where: Python's own rules, without classes, `global` and `nonlocal`, which refuse."""

import ast
import builtins
from collections.abc import Iterable, Iterator

from adderclaw.gate.programs.allowlist import names
from adderclaw.gate.python.kinds import Refused

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FREE = names("id input hash format ascii bin hex oct")
"""These only compute, should nothing else be bound to them when they are called."""
_BUILTINS = frozenset(dir(builtins)) | names("reload unicode xrange raw_input execfile apply file cmp basestring")
"""No other name of Python's own is bound to anything else: it means what it says."""


class Scope:
    def __init__(self, node: ast.AST, parent: "Scope | None", bound: frozenset[str], *, inner: bool = False) -> None:
        self.node, self.parent, self.bound = node, parent, bound
        self.inner = inner
        """Whether it is a comprehension's: `:=` binds outside of it."""

    @property
    def outer(self) -> "Scope":
        return self.parent.outer if self.inner and self.parent is not None else self

    def owner(self, name: str) -> "Scope | None":
        scope: Scope | None = self
        while scope is not None and name not in scope.bound:
            scope = scope.parent
        return scope


def of_body(node: ast.AST, parent: Scope | None, body: Iterable[ast.AST], given: Iterable[str] = ()) -> Scope:
    return Scope(node, parent, _checked((*given, *_bound(body))))


def of_comprehension(node: ast.AST, parent: Scope, generators: list[ast.comprehension]) -> Scope:
    targets = [one for generator in generators for one in ast.walk(generator.target)]
    return Scope(
        node,
        parent,
        _checked(one.id for one in targets if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)),
        inner=True,
    )


def parameters(arguments: ast.arguments) -> list[str]:
    plain = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    starred = [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    return [one.arg for one in (*plain, *starred)]


def _checked(found: Iterable[str]) -> frozenset[str]:
    bound = frozenset(found)
    for name in bound:
        if name.startswith("__") or not name.isascii():
            raise Refused(f"{name} is no name to give to anything")
        if name in _BUILTINS and name not in _FREE:
            raise Refused(f"{name}, which is Python's own, would mean something else")
    return bound


def _bound(body: Iterable[ast.AST]) -> Iterator[str]:
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        match node:
            case ast.FunctionDef():
                yield node.name
                waiting += [*node.decorator_list, *node.args.defaults]
                waiting += [one for one in node.args.kw_defaults if one is not None]
            case ast.Lambda():
                waiting += [*node.args.defaults, *(one for one in node.args.kw_defaults if one is not None)]
            case _ if isinstance(node, _COMPREHENSIONS):
                yield from _walrus(node)
            case ast.Name() if not isinstance(node.ctx, ast.Load):
                yield node.id
            case ast.alias():
                yield (node.asname or node.name).split(".", 1)[0]
            case ast.ExceptHandler():
                yield from (node.name,) if node.name else ()
                waiting += ast.iter_child_nodes(node)
            case _:
                waiting += ast.iter_child_nodes(node)


def _walrus(node: ast.AST) -> Iterator[str]:
    """The names that `:=` binds in a comprehension: they belong to what is around it."""
    waiting = list(ast.iter_child_nodes(node))
    while waiting:
        one = waiting.pop()
        if isinstance(one, ast.NamedExpr):
            yield one.target.id
        if not isinstance(one, ast.Lambda):
            waiting += ast.iter_child_nodes(one)


def bound_names(tree: ast.Module) -> frozenset[str]:
    return frozenset(_bound(tree.body))


def only_imported(tree: ast.AST) -> frozenset[str]:
    """The names that imports bind, and nothing else does anywhere in the tree."""
    imported, others = set[str](), set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.alias():
                imported.add((node.asname or node.name).split(".", 1)[0])
            case ast.Name() if not isinstance(node.ctx, ast.Load):
                others.add(node.id)
            case ast.arg():
                others.add(node.arg)
            case ast.FunctionDef() | ast.ExceptHandler() if node.name:
                others.add(node.name)
            case _:
                pass
    return frozenset(imported - others)
