"""What keeps the house as it is: rules of structure that every file of the source is held against."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "adderclaw"
ENDS_A_RUN = {"settle", "finish"}


def modules(folder: Path = SOURCE) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def called_on_a_run(tree: ast.AST) -> Iterator[str]:
    """Names of methods that are called on something called `run`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
            if name in ("run", "_run"):
                yield node.func.attr


@pytest.mark.parametrize("path", modules(SOURCE / "channels"), ids=lambda path: path.name)
def test_a_channel_ends_a_run_by_drive_alone(path: Path) -> None:
    found = ENDS_A_RUN.intersection(called_on_a_run(ast.parse(path.read_text(encoding="utf-8"))))
    assert not found, f"{path} calls {sorted(found)}: `runtime.drive.drive` settles, finishes and closes a run"


def test_the_rule_about_ending_a_run_finds_an_offender() -> None:
    offence = "async def f(run, self):\n    await run.settle()\n    self._run.finish(None)\n"
    assert ENDS_A_RUN.issubset(called_on_a_run(ast.parse(offence)))
