"""Which assertions a Python test always reaches, and what each of them examines."""

import ast
from collections.abc import Iterable, Iterator

OBSERVES = frozenset(
    (
        *("run", "Popen", "check_output", "check_call", "call", "communicate", "wait", "poll"),
        *("read", "readline", "readlines", "read_text", "read_bytes", "open", "execute", "fetchone", "fetchall"),
        *("stat", "lstat", "listdir", "iterdir", "glob", "rglob", "walk", "scandir", "readlink", "access"),
        *("urlopen", "getresponse", "recv", "create_connection", "connect_ex", "load", "namelist", "getnames"),
        *("exists", "is_file", "is_dir", "isfile", "isdir", "lexists", "is_symlink", "islink", "which"),
    )
)
EXISTS = frozenset({"exists", "is_file", "is_dir", "isfile", "isdir", "lexists", "is_symlink", "islink", "which"})


def name_of(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


class Assertions:
    """The assertions that a test reaches whenever it runs to its end."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        self._observed = self._tainted()

    def kinds(self) -> set[str]:
        """`strong`: examines contents; `exit`: only an exit status; `exists`: only whether a file exists."""
        return {kind for test in self._reached(self._tree.body, set()) if (kind := self._kind(test))}

    def _reached(self, body: Iterable[ast.stmt], called: set[str]) -> Iterator[ast.expr]:
        for node in body:
            match node:
                case ast.Assert():
                    yield node.test
                case ast.If() if _fails(node.body) or _fails(node.orelse):
                    yield node.test
                case ast.If() if _is_main(node.test):
                    yield from self._reached(node.body, called)
                case ast.With() | ast.Try():
                    yield from self._reached(node.body, called)
                case ast.Expr() | ast.Assign() | ast.AnnAssign() | ast.Return():
                    yield from self._in_called(node, called)
                case _:
                    pass

    def _in_called(self, node: ast.stmt, called: set[str]) -> Iterator[ast.expr]:
        for inner in ast.walk(node):
            if not isinstance(inner, ast.Call):
                continue
            name = name_of(inner.func)
            if name in self._functions and name not in called:
                yield from self._reached(self._functions[name].body, called | {name})

    def _tainted(self) -> set[str]:
        """Names that hold observed values, including functions that return them and parameters that receive them."""
        tainted: set[str] = set()
        size = -1
        while size != len(tainted):
            size = len(tainted)
            for node in ast.walk(self._tree):
                match node:
                    case ast.Assign() if self._observes(node.value, tainted):
                        tainted |= {name for target in node.targets for name in _names(target)}
                    case ast.AnnAssign() | ast.NamedExpr() if node.value and self._observes(node.value, tainted):
                        tainted |= set(_names(node.target))
                    case ast.For() | ast.comprehension() if self._observes(node.iter, tainted):
                        tainted |= set(_names(node.target))
                    case ast.withitem() if node.optional_vars and self._observes(node.context_expr, tainted):
                        tainted |= set(_names(node.optional_vars))
                    case ast.FunctionDef() if any(self._observes(returned, tainted) for returned in _returned(node)):
                        tainted.add(node.name)
                    case ast.Call() if name_of(node.func) in self._functions:
                        tainted |= self._arguments(node, tainted)
                    case _:
                        pass
        return tainted

    def _arguments(self, node: ast.Call, tainted: set[str]) -> set[str]:
        names = [parameter.arg for parameter in self._functions[name_of(node.func)].args.args]
        by_place = {name for name, argument in zip(names, node.args, strict=False) if self._observes(argument, tainted)}
        return by_place | {word.arg for word in node.keywords if word.arg and self._observes(word.value, tainted)}

    @staticmethod
    def _observes(node: ast.expr, tainted: set[str]) -> bool:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and inner.id in tainted:
                return True
            if isinstance(inner, ast.Call):
                name = inner.func.attr if isinstance(inner.func, ast.Attribute) else name_of(inner.func)
                if name in OBSERVES or name in tainted:
                    return True
        return False

    def _kind(self, test: ast.expr) -> str:
        if isinstance(test, ast.BoolOp):
            kinds = [self._kind(operand) for operand in test.values]
            return next((kind for kind in ("strong", "exit", "exists") if kind in kinds), "")
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self._kind(test.operand)
        if not self._observes(test, self._observed):
            return ""
        if isinstance(test, ast.Call):
            name = test.func.attr if isinstance(test.func, ast.Attribute) else name_of(test.func)
            if name in EXISTS:
                return "exists"
        return "exit" if _is_status(test) else "strong"


def _is_status(test: ast.expr) -> bool:
    """Whether only `x.returncode` is tested for success or failure. A missing program also has a failing status."""
    if isinstance(test, ast.Compare) and len(test.comparators) == 1:
        sides = (test.left, test.comparators[0])
        status = any(isinstance(side, ast.Attribute) and side.attr == "returncode" for side in sides)
        zero = any(isinstance(side, ast.Constant) and side.value == 0 for side in sides)
        return status and (zero or not isinstance(test.ops[0], ast.Eq))
    return isinstance(test, ast.Attribute) and test.attr == "returncode"


def _fails(body: list[ast.stmt]) -> bool:
    """Whether a branch makes the test fail."""
    for node in body:
        if isinstance(node, ast.Raise):
            return True
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "exit":
            return True
    return False


def _is_main(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and name_of(test.left) == "__name__"


def _names(target: ast.expr) -> Iterator[str]:
    return (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


def _returned(node: ast.FunctionDef) -> Iterator[ast.expr]:
    return (inner.value for inner in ast.walk(node) if isinstance(inner, ast.Return) and inner.value is not None)
