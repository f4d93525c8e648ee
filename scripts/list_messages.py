"""Prints every message to a person or a model in src/adderclaw, so that all of them can be read in one file.

One line each, grouped by room: path:line, the kind and the text. The holes of f-strings are shown as {name} and
line breaks as \\n. Prompts and tool descriptions in Markdown files and the templates of pages are read where they are.
"""

import ast
import builtins
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

SOURCE = Path(__file__).resolve().parent.parent / "src" / "adderclaw"

type Kind = Literal["error", "denial", "warning", "hint", "help", "print", "return", "text"]
"""`text` is a sentence in a table, a constant or an argument whose name does not tell how it is used."""

CALLS: dict[str, Kind] = {
    "denial": "denial",
    "denied": "denial",
    "deny": "denial",
    "echo": "print",
    "hint": "hint",
    "note": "print",
    "print": "print",
    "refuse": "error",
    "refusal": "error",
    "usage": "error",
    "warn": "warning",
    "warning": "warning",
    "write": "print",
    "writelines": "print",
}
"""Last word of the called function, of a keyword argument, an assigned name or a function's own name → kind."""
KEYWORDS: dict[str, Kind] = {**CALLS, "description": "help", "epilog": "help", "help": "help", "summary": "help"}
SENTENCE = re.compile(r"[^\W\d_]{2,}[,;:.?!)\]}'\"]*\s+[(\[{'\"]*[^\W\d_]|\}[,;:.]? [^\W\d_]{2,}|[^\W\d_]{2,}[:,]? \{")
"""Two words with a blank between them, or a word and a hole: keys, codes and formats are not like that."""
NO_MESSAGE = re.compile(
    r"\s*(?:SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|ALTER|WITH|PRAGMA|BEGIN|FROM|WHERE|AND|OR|ORDER|GROUP|JOIN|LEFT|SET|ON|VALUES"
    r"|LIMIT|VACUUM|ATTACH|NOTIFY|LISTEN|LOCK|GRANT|EXISTS|NOT EXISTS|CASE|EXPLAIN)\b"
    r"|.*\(\?[:=!<P]|.*(?:\\[bdswBDSW]|\[\^)"
)
"""SQL and regular expressions."""


class Message(NamedTuple):
    path: str
    line: int
    kind: Kind
    text: str

    @property
    def room(self) -> str:
        """The folder of src/adderclaw; a room's `legacy` folder is a room of its own."""
        parts = self.path.split("/")
        return "" if len(parts) == 1 else "/".join(parts[:2]) if parts[1] == "legacy" else parts[0]


def exception_names(trees: dict[str, ast.Module]) -> set[str]:
    """Names of the exception classes: those of Python and all that derive from them."""
    python = (value for value in vars(builtins).values() if isinstance(value, type))
    names = {value.__name__ for value in python if issubclass(value, BaseException)}
    classes = (node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    bases = {node.name: set(map(name_of, node.bases)) for node in classes}
    while derived := {name for name, parents in bases.items() if parents & names} - names:
        names |= derived
    return names


def hole(node: ast.expr) -> str:
    """The short name of what fills a hole; a choice between wordings is shown with the wordings."""
    if any(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in ast.walk(node)):
        return ast.unparse(node)
    match node:
        case ast.Call(func=function, args=[argument, *_]) if not isinstance(argument, ast.Starred | ast.GeneratorExp):
            name = ast.unparse(function)
            return hole(argument) if name in ("len", "str", "repr", "sorted", "sum", "max", "min") else name
        case ast.Call(func=function):
            return hole(function)
        case ast.Name() | ast.Attribute() | ast.Subscript():
            return ast.unparse(node)
        case _:
            names = [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
            return names[0] if names else "…"


def shown(node: ast.Constant | ast.JoinedStr) -> str:
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else "{" + hole(part.value) + "}"
        for part in parts
        if isinstance(part, ast.Constant | ast.FormattedValue)
    )


def is_command(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether Typer shows the docstring of the function as the help of a command."""
    return any(
        isinstance(decorator, ast.Call)
        and isinstance(decorator.func, ast.Attribute)
        and decorator.func.attr in ("command", "callback")
        for decorator in node.decorator_list
    )


def name_of(node: ast.expr) -> str:
    """The last part of a dotted name."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


class Collector(ast.NodeVisitor):
    """Visits a module and remembers in which kind of statement it is."""

    def __init__(self, path: str, exceptions: set[str]) -> None:
        self.path, self.exceptions = path, exceptions
        self.messages: list[Message] = []
        self.kind: Kind = "text"

    def within(self, kind: Kind, *nodes: ast.AST | None) -> None:
        outer, self.kind = self.kind, kind
        for node in nodes:
            if node is not None:
                self.visit(node)
        self.kind = outer

    def kind_by_name(self, name: str, otherwise: Kind, names: dict[str, Kind] = KEYWORDS) -> Kind:
        words = name.lower().strip("_").split("_")
        plural = words[-1].removesuffix("s")
        return names.get(words[-1]) or names.get(plural) or otherwise

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self.within("error", node.exc)

    def visit_Return(self, node: ast.Return | ast.Yield) -> None:
        self.within("return" if self.kind == "text" else self.kind, node.value)

    visit_Yield = visit_Return

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.within("text", *node.decorator_list, node.args)
        match node.body[0]:
            case ast.Expr(value=ast.Constant(value=str()) as docstring) if is_command(node):
                self.within("help", docstring)
            case _:
                pass
        self.within(self.kind_by_name(node.name, "text", CALLS), *node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.within("text", *node.decorator_list, *node.keywords, *node.body)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.within(self.kind_by_name(name_of(node.targets[0]), self.kind), node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.within(self.kind_by_name(name_of(node.target), self.kind), node.value)

    def visit_Call(self, node: ast.Call) -> None:
        name = name_of(node.func)
        if name in ("compile", "execute", "executemany", "strftime"):
            return
        kind = "error" if name in self.exceptions else self.kind_by_name(name, self.kind, CALLS)
        self.within(kind, node.func, *node.args)
        for keyword in node.keywords:
            self.within(self.kind_by_name(keyword.arg or "", kind), keyword.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not (isinstance(node.value, ast.Name) and node.value.id == "Literal"):
            self.generic_visit(node)

    def visit_TypeAlias(self, node: ast.TypeAlias) -> None:
        pass

    def visit_Compare(self, node: ast.Compare) -> None:
        pass

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        if not self.add(node):
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.add(node)

    def add(self, node: ast.Constant | ast.JoinedStr) -> bool:
        text = shown(node)
        if SENTENCE.search(text) is None or NO_MESSAGE.match(text):
            return False
        self.messages.append(Message(self.path, node.lineno, self.kind, text))
        return True


def messages(source: Path = SOURCE) -> Iterator[Message]:
    """All messages, in the order of rooms, files and lines."""
    trees = {
        path.relative_to(source).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(source.rglob("*.py"))
    }
    exceptions = exception_names(trees)
    collected: list[Message] = []
    for path, tree in trees.items():
        collector = Collector(path, exceptions)
        collector.visit(tree)
        collected += collector.messages
    return iter(sorted(collected, key=lambda message: (message.room, message.path, message.line)))


def main() -> int:
    room: str | None = None
    for message in messages():
        if message.room != room:
            room = message.room
            print(f"\n# {room or 'adderclaw'}\n")
        text = re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda match: repr(match[0])[1:-1], message.text)
        print(f"{message.path}:{message.line}: {message.kind}: {text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
