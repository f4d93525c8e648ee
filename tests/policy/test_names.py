"""What a program is stands in its table and nowhere else: no module of gate and tools keeps a list of programs."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from adderclaw import policy
from adderclaw.policy.legacy.programs.allowlist import PROGRAMS
from tests.rows import rows

HERE = Path(policy.__file__).parents[1]
MOST = 2
"""Names of programs that a literal may hold: a special case, and not a kind of program."""


def lists(text: str) -> Iterator[tuple[int, list[str]]]:
    """The literals of a module that hold words alone, with their lines; which function reads a program is no such."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Set(elts=found) | ast.Tuple(elts=found) | ast.List(elts=found):
                words = [one.value if isinstance(one, ast.Constant) else None for one in found]
            case ast.Dict(keys=keys, values=values) if not all(isinstance(v, ast.Name | ast.Attribute) for v in values):
                words = [key.value if isinstance(key, ast.Constant) else None for key in keys]
            case ast.Call(func=ast.Name(id="names"), args=[ast.Constant(value=str() as given)]):
                words = list[object](given.split())
            case _:
                continue
        plain = [word for word in words if isinstance(word, str)]
        if len(plain) == len(words):
            yield node.lineno, plain


def programs(words: list[str]) -> list[str]:
    """Those of a list that are programs, where most are: options, commands and packages share some of their names."""
    found = [word for word in words if word in PROGRAMS]
    return found if len(found) * 2 >= len(words) else []


PLACES = ("policy/**/*.py", "tools/*.py", "tools/control/*.py", "tools/legacy/*.py", "tools/plugins/*.py")
MODULES = [str(path.relative_to(HERE)) for place in PLACES for path in sorted(HERE.glob(place))]


@rows("module", MODULES)
def test_no_module_has_a_list_of_programs(module: str) -> None:
    found = {line: programs(words) for line, words in lists((HERE / module).read_text())}
    assert not {line: names for line, names in found.items() if len(names) > MOST}


@pytest.mark.parametrize(
    "text",
    [
        'X = {"ls", "cat", "rg"}',
        'X = names("ls cat rg")',
        'if n in ("ls", "cat", "rg"): x',
        'X = {"ls": 1, "cat": 1, "rg": 2}',
    ],
)
def test_such_a_list_is_found(text: str) -> None:
    assert [programs(words) for _, words in lists(text)] == [["ls", "cat", "rg"]]


def test_no_table_is_read_before_a_command_is_judged() -> None:
    """They are on nobody's way to the first request."""
    code = "import adderclaw.tools.shell, adderclaw.policy.verdict\n"
    code += "from adderclaw.policy.legacy.programs import allowlist as a"
    told = subprocess.run(
        [sys.executable, "-c", f"{code}; print(a._file.cache_info().currsize)"], capture_output=True, check=True
    )
    assert told.stdout == b"0\n"
