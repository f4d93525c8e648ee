"""The static check of a Python test: a closed list of imports, nothing replaced, and assertions that can fail."""

import ast
import builtins
import re
from collections.abc import Iterator, Sequence

from adderclaw.flows.sdlc.assertions import Assertions, name_of
from adderclaw.flows.sdlc.check import (
    INLINE,
    INLINE_CODE,
    LOOKING,
    SHADOWING,
    SHADOWS,
    SLEEPS,
    UNEXERCISED,
    Problem,
    is_interpreter,
    weak,
)

IMPORTS = frozenset(
    (
        *("base64", "collections", "csv", "datetime", "glob", "hashlib", "html", "http", "io", "itertools", "json"),
        *("math", "os", "pathlib", "re", "shutil", "socket", "sqlite3", "stat", "string", "subprocess", "sys"),
        *("tempfile", "textwrap", "threading", "time", "tomllib", "urllib", "uuid", "xml", "zipfile", "tarfile"),
    )
)
REFUSED_NAMES = frozenset(
    (
        *("eval", "exec", "compile", "__import__", "globals", "locals", "vars", "setattr", "delattr", "getattr"),
        *("breakpoint", "exit", "quit", "help", "input", "memoryview", "__builtins__", "__debug__"),
    )
)
REFUSED_ATTRIBUTES = {
    "os": re.compile(r"system|popen|_exit|abort|exec\w*|spawn\w*|fork\w*|posix_spawn\w*|kill\w*|putenv"),
    "sys": re.compile(r"(?!argv$|executable$|exit$|stdout$|stderr$|stdin$|platform$|version_info$).*"),
    "threading": re.compile(r"(?!Thread$).*"),
    "time": re.compile(r"sleep"),
    "builtins": re.compile(r".*"),
}
ALL = frozenset({"Exception", "BaseException", "AssertionError", "SystemExit"})
_SLEEP = re.compile(r"(?:^|[\s;&|(/])u?sleep(?:\s+[\d.$]|$)")
STARTS = frozenset({"run", "Popen", "check_output", "check_call", "call"})


def problems(text: str) -> list[Problem]:
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        return [Problem(error.lineno or 0, f"it is not valid Python: {error.msg}")]
    except (ValueError, RecursionError, MemoryError) as error:
        return [Problem(0, f"it cannot be parsed: {error}")]
    try:
        line_problems = sorted(set(_Check(tree).problems()))
    except RecursionError:
        return [Problem(0, "it is nested too deeply to be parsed")]
    if line_problems:
        return line_problems
    if not any(_exercises(node) for node in ast.walk(tree)):
        return [Problem(0, UNEXERCISED)]
    missing = weak(Assertions(tree).kinds())
    return [Problem(0, missing)] if missing else []


class _Check:
    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._modules = dict(_imported(tree))

    def problems(self) -> Iterator[Problem]:
        for node in ast.walk(self._tree):
            line = getattr(node, "lineno", 0)
            for reason in self._reasons(node):
                yield Problem(line, reason)

    def _reasons(self, node: ast.AST) -> Iterator[str]:
        match node:
            case ast.Import() | ast.ImportFrom():
                yield from self._importing(node)
            case ast.Name():
                yield from self._name(node)
            case ast.Attribute():
                yield from self._attribute(node)
            case ast.FunctionDef() | ast.ClassDef() | ast.arg():
                yield from self._defined(node.arg if isinstance(node, ast.arg) else node.name)
            case ast.AsyncFunctionDef() | ast.Await() | ast.AsyncFor() | ast.AsyncWith():
                yield "it is asynchronous: start the program and wait for it to end"
            case ast.ExceptHandler():
                yield from _caught(node)
            case ast.Try():
                yield from _left_finally(node)
            case ast.TryStar() | ast.Match() | ast.Global() | ast.Nonlocal():
                yield f"`{type(node).__name__.lower()}` is not supported by the check: write it more simply"
            case ast.Call():
                yield from _call(node)
            case ast.Raise():
                if node.exc is not None and name_of(_called(node.exc)) == "SystemExit":
                    yield "it raises SystemExit: let the test run to its end, or assert"
            case ast.Assert():
                if never_fails(node.test):
                    yield "this assertion cannot fail"
            case ast.Constant() if isinstance(node.value, str):
                yield from _text(node.value)
            case ast.List() | ast.Tuple():
                yield from _words(node.elts)
            case _:
                pass

    def _importing(self, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or "."]
        if isinstance(node, ast.ImportFrom) and node.level:
            names = ["." * node.level + (node.module or "")]
        for name in names:
            top = name.partition(".")[0]
            if top in ("unittest", "mock", "pytest", "pytest_mock") or "mock" in name:
                yield f"it imports {name}: do not mock or patch anything, and do not use a test runner"
            elif top not in IMPORTS:
                yield f"it imports {name}, which tests may not import: do not use internals of the project"
        if isinstance(node, ast.ImportFrom):
            yield from _from(node.module or "", [alias.name for alias in node.names])

    def _name(self, node: ast.Name) -> Iterator[str]:
        if node.id in REFUSED_NAMES:
            yield f"it uses {node.id}, which could replace code or end the test early"
        elif isinstance(node.ctx, ast.Store | ast.Del):
            yield from self._defined(node.id)

    def _defined(self, name: str) -> Iterator[str]:
        if name in self._modules:
            yield f"it replaces the module {name}"
        elif name.startswith("__"):
            if name != "__init__":
                yield f"it defines {name}, which could make a comparison succeed"
        elif hasattr(builtins, name):
            yield f"it replaces {name}, which is a builtin of Python"

    def _attribute(self, node: ast.Attribute) -> Iterator[str]:
        module = self._modules.get(name_of(node.value))
        if node.attr.startswith("__"):
            yield f"it uses {node.attr}, which is not part of a public interface"
        elif module is not None and (refused := REFUSED_ATTRIBUTES.get(module)) and refused.fullmatch(node.attr):
            yield _refused(module, node.attr)
        if isinstance(node.ctx, ast.Store | ast.Del) and (module is not None or _is_of_module(node, self._modules)):
            yield f"it replaces {ast.unparse(node)}: do not patch anything"


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Name in the test → the module that it refers to."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (
                    alias.asname or alias.name.partition(".")[0],
                    alias.name if alias.asname else alias.name.partition(".")[0],
                )


def _from(module: str, names: list[str]) -> Iterator[str]:
    refused = REFUSED_ATTRIBUTES.get(module)
    for name in names:
        if name == "*":
            yield "it imports `*`, which cannot be checked"
        elif refused is not None and refused.fullmatch(name):
            yield _refused(module, name)


def _refused(module: str, name: str) -> str:
    return SLEEPS if (module, name) == ("time", "sleep") else f"it uses {module}.{name}, which tests may not use"


def _is_of_module(node: ast.Attribute, modules: dict[str, str]) -> bool:
    below = node.value
    while isinstance(below, ast.Attribute):
        below = below.value
    return name_of(below) in modules


def _caught(node: ast.ExceptHandler) -> Iterator[str]:
    kinds = [None] if node.type is None else node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    for kind in kinds:
        name = "" if kind is None else kind.attr if isinstance(kind, ast.Attribute) else name_of(kind)
        if not name or name in ALL:
            yield "it catches every error, including its own assertions: name the error that is expected"


def _left_finally(node: ast.Try) -> Iterator[str]:
    for statement in (inner for last in node.finalbody for inner in ast.walk(last)):
        if isinstance(statement, ast.Return | ast.Break | ast.Continue):
            yield "it leaves a `finally` block early, which hides a failed assertion"


def _called(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _call(node: ast.Call) -> Iterator[str]:
    func = node.func
    if isinstance(func, ast.Attribute) and func.attr == "exit" and name_of(func.value) == "sys":
        status = node.args[0] if node.args else ast.Constant(0)
        if not isinstance(status, ast.Constant) or not status.value:
            yield "it exits without a literal failing status: let a passing test run to its end"
    elif name_of(func) == "exit":
        yield "it calls exit: let a passing test run to its end"
    for word in node.keywords:
        if word.arg == "shell" and not (isinstance(word.value, ast.Constant) and word.value.value is False):
            yield "it passes text to a shell: pass the command as a list of words"
        elif word.arg in ("preexec_fn", "executable"):
            yield f"it starts a program with {word.arg}: use only the command itself"
        elif word.arg in SHADOWING:
            yield SHADOWS.format(name=word.arg)
        elif word.arg is None and isinstance(func, ast.Attribute) and func.attr in STARTS:
            yield "it starts a program with options that cannot be checked (`**`)"


def _text(value: str) -> Iterator[str]:
    if value in SHADOWING:
        yield SHADOWS.format(name=value)
    if _SLEEP.search(value):
        yield SLEEPS


def _words(elements: Sequence[ast.expr]) -> Iterator[str]:
    """Checks a list that may be a command for an interpreter with inline code."""
    if not elements:
        return
    first = elements[0]
    by_path = isinstance(first, ast.Attribute) and first.attr == "executable"
    named = isinstance(first, ast.Constant) and isinstance(first.value, str) and is_interpreter(first.value)
    flags = {
        element.value for element in elements if isinstance(element, ast.Constant) and isinstance(element.value, str)
    }
    if (by_path or named) and flags & INLINE:
        yield INLINE_CODE


def _exercises(node: ast.AST) -> bool:
    """Whether it starts a program that does more than prepare or inspect, or connects to a server."""
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else name_of(node.func)
    if name in ("urlopen", "create_connection", "HTTPConnection", "connect_ex"):
        return True
    if name not in STARTS or not node.args:
        return False
    argument = node.args[0]
    if isinstance(argument, ast.List | ast.Tuple) and argument.elts:
        argument = argument.elts[0]
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        return argument.value.split(" ")[0].rsplit("/", 1)[-1] not in LOOKING
    return True


def never_fails(test: ast.expr) -> bool:
    match test:
        case ast.Constant():
            return bool(test.value)
        case ast.Tuple() | ast.List() | ast.Set() | ast.Dict():
            return bool(test.keys if isinstance(test, ast.Dict) else test.elts)
        case ast.Lambda() | ast.JoinedStr() | ast.GeneratorExp():
            return True
        case ast.BoolOp():
            return (any if isinstance(test.op, ast.Or) else all)(map(never_fails, test.values))
        case ast.UnaryOp(op=ast.Not(), operand=ast.Constant() as operand):
            return not operand.value
        case ast.NamedExpr():
            return never_fails(test.value)
        case ast.Compare():
            return _compares_itself(test)
        case _:
            return not any(isinstance(node, ast.Name | ast.Call) for node in ast.walk(test))


def _compares_itself(test: ast.Compare) -> bool:
    sides = [test.left, *test.comparators]
    if not any(isinstance(node, ast.Name | ast.Call) for side in sides for node in ast.walk(side)):
        return True
    if len(sides) != 2:
        return False
    left, right, operator = ast.dump(sides[0]), sides[1], test.ops[0]
    if left == ast.dump(right):
        return isinstance(operator, ast.Eq | ast.Is | ast.In | ast.LtE | ast.GtE)
    if isinstance(operator, ast.In) and isinstance(sides[0], ast.Constant) and sides[0].value in ("", b""):
        return True
    counted = isinstance(sides[0], ast.Call) and name_of(sides[0].func) == "len"
    return counted and isinstance(operator, ast.GtE) and isinstance(right, ast.Constant) and right.value == 0
