"""What keeps the house as it is: rules of structure that every file of the source, and its map, is held against."""

import ast
import re
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from adderclaw.terminal.commands.common import app_of
from adderclaw.terminal.commands.table import COMMANDS
from scripts import sizes
from tests import hops
from tests.rows import rows

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "adderclaw"
PAGES = [ROOT / "README.md", ROOT / "AGENTS.md", *sorted((ROOT / "docs").rglob("*.md"))]
ENDS_A_RUN = {"settle", "finish"}


# ------------------------------------------------------------------ imports


def imports_of(path: Path, modules: set[str]) -> Iterator[str]:
    """The modules of the source that a module imports, inside functions too; imports for types alone do not count."""
    nodes: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while nodes:
        match nodes.pop():
            case ast.If(test=ast.Name("TYPE_CHECKING"), orelse=otherwise):
                nodes += otherwise
            case ast.ImportFrom(module=str(module), names=names):
                inner = {f"{module}.{name.name}" for name in names}
                yield from inner & modules or {module} & modules
            case node:
                nodes += ast.iter_child_nodes(node)


def import_graph(source: Path) -> dict[str, set[str]]:
    """Module → the modules that it imports. What a later step replaces (`legacy`) is left out."""
    paths = {
        ".".join(path.relative_to(source.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in source.rglob("*.py")
        if "legacy" not in path.parts
    }
    return {module: {*imports_of(path, {*paths})} - {module} for module, path in paths.items()}


def test_no_module_imports_one_that_imports_it() -> None:
    """An import inside a function is there for start-up time, never to hide a cycle."""
    try:
        TopologicalSorter(import_graph(SOURCE)).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


@pytest.mark.parametrize(
    ("text", "cycle"),
    [
        ("from adderclaw.b import x", True),
        ("def f():\n    from adderclaw import b", True),
        ("if TYPE_CHECKING:\n    from adderclaw import b", False),
        ("from adderclaw.c import x", False),
    ],
)
def test_a_cycle_is_found(tmp_path: Path, text: str, cycle: bool) -> None:
    (tmp_path / "adderclaw").mkdir()
    for name, content in {"__init__": "", "a": text, "b": "from adderclaw.a import y", "c": ""}.items():
        (tmp_path / "adderclaw" / f"{name}.py").write_text(content)
    sorter = TopologicalSorter(import_graph(tmp_path / "adderclaw"))
    if cycle:
        with pytest.raises(CycleError):
            sorter.prepare()
    else:
        sorter.prepare()


# ------------------------------------------------------------------ sizes


def test_sizes_counts_packages_and_their_growth() -> None:
    before = {"a/one.py": "X = 1\n", "gone/x.py": "def f():\n    pass\n"}
    now = {
        "a/one.py": "X = 1\n_Y = 2\n\n\ndef f():\n    def g():\n        pass\n\n    return g\n",
        "a/two.py": "class B:\n    z = 1\n",
        "loose.py": "type T = int\n",
    }
    found = sizes.packages(now)
    assert found["a"] == sizes.Size(2, 11, 3, (5, "a/one.py:f"), (9, "a/one.py"))
    assert found[sizes.LOOSE] == sizes.Size(1, 1, 1, (0, ""), (1, "loose.py"))
    rows = [re.split(r"  +", row) for row in sizes.table(found, sizes.packages(before))]
    assert [row[0] for row in rows] == ["package", "a", "(modules)", "gone", "all"]
    assert rows[1][2:4] == ["11 (+10)", "3 (+2)"]
    assert rows[3][2:4] == ["0 (-2)", "0 (-1)"]
    assert rows[4][2:4] == ["12 (+9)", "4 (+2)"]


# ------------------------------------------------------------------ one way to end a run


def called_on_a_run(tree: ast.AST) -> Iterator[str]:
    """Names of methods that are called on something called `run`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
            if name in ("run", "_run"):
                yield node.func.attr


CHANNELS = [path for room in ("terminal", "clients", "server") for path in sorted((SOURCE / room).rglob("*.py"))]


@rows("path", CHANNELS, ids=lambda path: path.name)
def test_a_channel_ends_a_run_by_drive_alone(path: Path) -> None:
    found = ENDS_A_RUN.intersection(called_on_a_run(ast.parse(path.read_text(encoding="utf-8"))))
    assert not found, f"{path} calls {sorted(found)}: `agent.run.drive.drive` settles, finishes and closes a run"


def test_the_rule_about_ending_a_run_finds_an_offender() -> None:
    offence = "async def f(run, self):\n    await run.settle()\n    self._run.finish(None)\n"
    assert ENDS_A_RUN.issubset(called_on_a_run(ast.parse(offence)))


# ------------------------------------------------------------------ the map


SQL = re.compile(r"\bSELECT\b|(?i:^\s*select\s+(?!from\b).+\bfrom\b)", re.DOTALL)
READERS = (SOURCE / "storage", SOURCE / "fleet")
"""Where rows are read; what commands and pages read is in `storage/queries` and `fleet/queries.py`."""


def reads_rows(text: str) -> list[int]:
    """The lines of string literals that select rows."""
    strings = (one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Constant) and isinstance(one.value, str))
    return [one.lineno for one in strings if SQL.search(str(one.value))]


def test_rows_are_read_in_store_and_fleet_alone() -> None:
    paths = (path for path in sorted(SOURCE.rglob("*.py")) if not any(path.is_relative_to(one) for one in READERS))
    texts = ((path.relative_to(SOURCE), path.read_text(encoding="utf-8")) for path in paths)
    assert [f"{path}:{line}" for path, text in texts for line in reads_rows(text)] == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("rows = store.read('SELECT 1 FROM runs')", [1]),
        ("x = 1\nrows = store.read(f'{COLUMNS} WHERE id IN (SELECT id FROM {table})')", [2]),
        ("sql = (\n    'select id'\n    ' from runs'\n)", [2]),
        ("sql = 'INSERT INTO a SELECT * FROM b'", [1]),
        ("print('you can select a model')\nselect(1)\n# SELECT 1 FROM runs", []),
    ],
)
def test_the_rule_about_reading_rows_finds_an_offender(text: str, lines: list[int]) -> None:
    assert reads_rows(text) == lines


def subcommands(name: str) -> set[str]:
    """What may follow a command's name; nothing where options do."""
    found = get_command(app_of(import_module(f"adderclaw.terminal.commands.{COMMANDS[name].module}")))
    if isinstance(found, TyperGroup) and name in found.commands:
        found = found.commands[name]
    return set(found.commands) if isinstance(found, TyperGroup) else set()


def test_the_readme_lists_every_command() -> None:
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## Commands\n")[2].partition("\n## ")[0]
    cells = [row.replace("\\|", "/").split("|")[1] for row in section.splitlines() if row.startswith("| `")]
    listed: dict[str, set[str]] = {}
    for name, rest in re.findall(r"`([a-z-]+)(?: ([^`]*))?`", " ".join(cells)):
        listed.setdefault(name, set()).update(word for word in rest.split("/") if re.fullmatch(r"[a-z-]+", word))
    assert listed == {name: subcommands(name) for name in COMMANDS}


def test_the_layers_that_are_drawn_are_those_that_are_checked() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    checked = " > ".join(contracts["contracts"][0]["layers"])
    assert checked in " ".join(hops.PAGE.read_text(encoding="utf-8").split())


ROOMS = sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file())


def test_the_map_names_every_room() -> None:
    text = (ROOT / "AGENTS.md").read_text(encoding="utf-8").partition("```")[2].partition("```")[0]
    assert sorted(re.findall(r"^([a-z_]+)/ ", text, re.MULTILINE)) == ROOMS
    assert {path.name for path in SOURCE.glob("*.py")} == {"__init__.py", "testing.py"}


@rows("room", ROOMS)
def test_each_room_says_what_it_is_for(room: str) -> None:
    text = (SOURCE / room / "README.md").read_text(encoding="utf-8")
    assert text.count("\n") <= 40, "a README of a room fits on a screen"
    parts = ("Read first:", "May import:", "Tests:", "Does not belong here:", "To add")
    assert [part for part in parts if f"\n{part}" not in text] == []
    named = re.findall(r"^- `([^`]+)`:", text, re.MULTILINE)
    assert len(named) == 3
    assert [name for name in named if not (SOURCE / room / name).is_file()] == []


def test_the_tests_mirror_the_rooms() -> None:
    assert [room for room in ROOMS if not any((ROOT / "tests" / room).rglob("test_*.py"))] == []


@rows("page", PAGES, ids=lambda page: page.name)
def test_a_line_of_a_page_has_at_most_120_characters(page: Path) -> None:
    """Tables and examples have the lines that they need."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    assert [line for line in text.splitlines() if len(line) > 120 and not line.startswith("|")] == []


def test_every_way_has_at_most_fifteen_hops_that_exist() -> None:
    ways = hops.ways()
    assert len(ways) == 3
    for title, names in ways.items():
        assert 0 < len(names) <= hops.MOST, title
        assert all(callable(hops.function(name)) for name in names), title
