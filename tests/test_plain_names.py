"""Local variables are named after what they contain: words that fit anything are counted, and there are few of them."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "adderclaw"
VAGUE = frozenset({"found", "one", "given", "made", "said", "told", "wanted", "kept", "place"})
MOST = 10
"""Over the whole source. Folders that a later step replaces are not counted."""

type Function = ast.FunctionDef | ast.AsyncFunctionDef


def vague_names(text: str) -> Iterator[str]:
    """The vague names that each function of a module binds, each once, as `function: name`."""
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from sorted(f"{function.name}: {name}" for name in bound_names(function) & VAGUE)


def bound_names(function: Function) -> set[str]:
    names: set[str] = set()
    nodes: list[ast.AST] = list(ast.iter_child_nodes(function))
    while nodes:
        match node := nodes.pop():
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                continue
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
            case _:
                pass
        nodes += ast.iter_child_nodes(node)
    return names


def test_few_local_variables_have_a_vague_name() -> None:
    paths = (path for path in sorted(SOURCE.rglob("*.py")) if "legacy" not in path.relative_to(SOURCE).parts)
    counts = Counter({str(path.relative_to(SOURCE)): len([*vague_names(path.read_text("utf-8"))]) for path in paths})
    assert counts.total() <= MOST, counts.most_common(10)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def f():\n    found = 1", ["f: found"]),
        ("def f(given):\n    pass", ["f: given"]),
        ("def f():\n    return [one for one in rows]", ["f: one"]),
        ("class A:\n    async def f(self):\n        for made in rows:\n            pass", ["f: made"]),
        ("def f(x):\n    match x:\n        case [told, *said]:\n            pass", ["f: said", "f: told"]),
        ("def f():\n    def g():\n        kept = 1", ["g: kept"]),
        ("found = 1\ndef f():\n    return found.place", []),
    ],
)
def test_a_vague_name_is_seen(text: str, names: list[str]) -> None:
    assert [*vague_names(text)] == names
