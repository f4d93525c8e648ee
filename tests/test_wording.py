"""Control flow reads types and never the program's own sentences: any message can be changed without breaking it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.rows import rows

SOURCE = Path(__file__).parents[1] / "src" / "adderclaw"
METHODS = {"startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "split", "replace"}
MESSAGES = re.compile(r"(?:.*_)?(?:reason|message|content|error|detail|note|notes|why|warning|warnings)")
"""Names of values that hold a sentence for a person or a model."""
SENTENCE = re.compile(r"[A-Za-z]{2,}[^A-Za-z\n]* [^A-Za-z\n]*[A-Za-z]{2,}")
"""Two words with a blank between them: no key, code or prefix is like that."""
ALLOWED = {
    (
        "terminal/commands/config.py",
        ": ",
    ): "a warning begins with the path of its file, which decides whether it is shown",
    ("terminal/legacy/print_options.py", "--settings: "): "the name of the flag, which stands before each note",
    ("flows/doctor/checks_run.py", "; "): "only lays out a note of the credentials in two columns",
    ("terminal/repl/slash/git.py", "origin/"): "git wrote it",
    ("flows/sdlc/proving.py", "syntax error"): "bash wrote it",
    ("flows/sdlc/proving.py", "unbound variable"): "bash wrote it",
    ("flows/spec/features.py", ": "): "the parser of Gherkin wrote it",
    ("fleet/database.py", '" does not exist'): "PostgreSQL wrote it",
    ("fleet/database.py", 'database "'): "PostgreSQL wrote it",
    ("fleet/work.py", "I/O"): "SQLite wrote it",
    ("fleet/work.py", "full"): "SQLite wrote it",
    ("tools/hooks/matching.py", "SyntaxError: "): "the JavaScript engine wrote it",
    ("tools/mcp/servers.py", "session terminated"): "a server of MCP wrote it",
    ("models/providers/faults.py", "credit balance"): "a model provider wrote it",
    ("models/providers/openai_server.py", "Error: "): "what a tool of somebody else wrote is not marked twice",
    ("models/providers/wire.py", "[Errno "): "the system wrote it",
    ("agent/replay/proving.py", "model call"): "a key of a table",
    ("storage/damage.py", "Could not decode to UTF-8"): "SQLite wrote it",
    ("tools/legacy/remotes.py", "ref: refs/heads/"): "git wrote it",
}
"""(file, literal) → why it is no reading of a sentence of ours."""


class Read(NamedTuple):
    """A literal that control flow looks for in a text."""

    path: str
    line: int
    literal: str
    in_message: bool
    """The text looked at is called a message, an error, a reason …; codes are compared as a whole, keys in a table."""


def literals(node: ast.expr) -> Iterator[ast.Constant]:
    match node:
        case ast.Constant() if isinstance(node.value, str):
            yield node
        case ast.JoinedStr(values=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            for part in parts:
                yield from literals(part)
        case _:
            pass


def is_message(node: ast.expr) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return MESSAGES.fullmatch(name.strip("_")) is not None
        case ast.Subscript(value=value, slice=ast.Constant(value=str(key))):
            return MESSAGES.fullmatch(key) is not None or is_message(value)
        case ast.Subscript(value=value):
            return is_message(value)
        case ast.Call(func=ast.Name(id="str"), args=[inner]):
            return is_message(inner)
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(key)), *_]):
            return MESSAGES.fullmatch(key) is not None
        case ast.Call(func=ast.Attribute(value=inner)):
            return is_message(inner)
        case ast.BoolOp(values=[first, *_]):
            return is_message(first)
        case _:
            return False


def reads(path: str, tree: ast.AST) -> Iterator[tuple[ast.Constant, Read]]:
    """All literals that are compared with a text, wherever that is."""
    for node in ast.walk(tree):
        found: list[tuple[ast.expr, ast.expr]] = []
        match node:
            case ast.Call(func=ast.Attribute(attr=name, value=text), args=[literal, *_]) if name in METHODS:
                found.append((literal, text))
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
                found += [(left, right), (right, left)]
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[right]):
                found.append((left, right))
            case _:
                pass
        for literal, text in found:
            for one in literals(literal):
                bare = isinstance(node, ast.Compare) and (
                    isinstance(text, ast.Name) or not isinstance(node.ops[0], ast.In)
                )
                yield one, Read(path, one.lineno, str(one.value), is_message(text) and not bare)


def offenders(sources: dict[str, str]) -> list[str]:
    """Literals that control flow looks for, and that are words of our own messages."""
    trees = {path: ast.parse(text) for path, text in sources.items()}
    asked: dict[ast.Constant, Read] = {node: one for path, tree in trees.items() for node, one in reads(path, tree)}
    kinds: set[str] = set()
    messages: set[str] = set()
    for tree in trees.values():
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Literal":
                kinds |= {str(one.value) for one in literals(node.slice)}
        messages |= {
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docs
            and node not in asked
            and " " in node.value.strip()
        }
    found: list[str] = []
    for one in asked.values():
        if (one.path, one.literal) in ALLOWED or one.literal in kinds:
            continue
        words = SENTENCE.search(one.literal) is not None and any(one.literal.strip() in text for text in messages)
        if words or (one.in_message and re.search(r"[A-Za-z]{3,}|[:;,]", one.literal)):
            found.append(f"{one.path}:{one.line}: {one.literal!r}")
    return found


SOURCES = {str(path.relative_to(SOURCE)): path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}


def test_control_flow_reads_no_wording() -> None:
    found = offenders(SOURCES)
    assert found == [], "give the value a typed field instead: " + "\n".join(found)


def test_every_exception_is_needed() -> None:
    found = {(one.path, one.literal) for path, text in SOURCES.items() for _, one in reads(path, ast.parse(text))}
    assert ALLOWED.keys() <= found


@rows(
    "offence",
    [
        'if result.content.startswith("Denied by "): pass',
        'if "timed out" in result.content[:200]: pass',
        'if "budget" in row.reason: pass',
        'reason = result.reason.replace(",", ":").split(":")[0]',
        'if text.startswith("Denied by "): pass',
        'if str(error).startswith("unknown"): pass',
        'if text == "Denied by ": pass',
        'note.removeprefix(f"{path}: ")',
    ],
)
def test_the_rule_about_wording_finds_an_offender(offence: str) -> None:
    assert offenders({"kernel/x.py": f'TOLD = f"Denied by {{by}}: it timed out"\n{offence}\n'})


@rows("fine", ['if kind == "mcp__": pass', 'if name.startswith("mcp__"): pass', 'if "tool" in names: pass'])
def test_the_rule_about_wording_lets_codes_be(fine: str) -> None:
    assert offenders({"kernel/x.py": f'TOLD = "Denied: the tool of mcp__ is gone"\n{fine}\n'}) == []
