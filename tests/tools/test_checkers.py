"""The table of checkers: each is recognised, its command is one that the gate knows, and what it prints is read."""

import shlex

import pytest

from adderclaw.policy.legacy.programs.knowledge import objection
from adderclaw.tools import CHECKER_FILES
from adderclaw.tools.checkers import CHECKERS, Finding, checker_commands, configured_checkers, findings_on
from tests.rows import rows

BY_NAME = {one.name: one for one in CHECKERS}
PRINTED = {
    "ruff": "src/a.py:3:5: F401 [*] `os` imported but unused\nb.py:1:1: E501 Line too long\nFound 2 errors.\n",
    "pyright": "/w/src/a.py\n  /w/src/a.py:3:5 - error: F401 [*] `os` imported but unused\n1 error, 0 warnings\n",
    "mypy": "src/a.py:3: F401 [*] `os` imported but unused\nsrc/a.py: note: see above\n",
    "tsc": "src/a.py(3,5): F401 [*] `os` imported but unused\n",
    "eslint": "\n/w/src/a.py\n  3:5  F401 [*] `os` imported but unused\n\n/w/b.js\n  1:1  error  x\n2 problems\n",
    "cargo": "Exit code 101\n\n--- stderr ---\nsrc/a.py:3:5: F401 [*] `os` imported but unused\nerror: failed\n",
    "go": "Exit code 1\n\n--- stderr ---\n# example\nvet: ./src/a.py:3:5: F401 [*] `os` imported but unused\n",
}


def test_the_files_that_are_looked_for_are_those_of_the_table() -> None:
    shared = [name for one in CHECKERS for name, _section in one.sections]
    assert sorted(CHECKER_FILES) == sorted({*shared, *(name for one in CHECKERS for name in one.files)})


@pytest.mark.parametrize("name", BY_NAME)
def test_the_gate_knows_its_options(name: str) -> None:
    (command,) = checker_commands(BY_NAME[name], ["a b.x"], lambda _program: False)
    assert objection(name, tuple(shlex.split(command))) is None


@pytest.mark.parametrize("name", BY_NAME)
def test_findings_on_changed_files_are_read(name: str) -> None:
    ((path, line, message),) = findings_on(BY_NAME[name].read(PRINTED[name]), "/w", {"src/a.py"})
    assert (path, line) == ("src/a.py", "3")
    assert message.removeprefix("error: ") == "F401 [*] `os` imported but unused"


@rows("printed", ["", "no finding", ":3:5: x", "a.py:x:y: z", "\x1b[2J", "a.py(3): x", "a" * 100_000, ":" * 50_000])
def test_other_output_is_no_finding(printed: str) -> None:
    for one in CHECKERS:
        assert findings_on(one.read(printed), "/w", {"a.py"}) == []


def test_a_finding_elsewhere_is_not_one_of_the_changed_file() -> None:
    found = [Finding("../a.py", "1", "x"), Finding("/a.py", "1", "x"), Finding("./d/../a.py", "1", "x" * 1000)]
    assert findings_on(found, "/w", {"a.py"}) == [Finding("a.py", "1", "x" * 300)]


@rows(
    ("there", "names"),
    [
        ({"ruff.toml": ""}, ["ruff"]),
        ({"pyproject.toml": "[tool.ruff]\n[tool.pyright]\n[tool.mypy]\n"}, ["ruff", "pyright", "mypy"]),
        ({"pyproject.toml": "[[tool.mypy.overrides]]\n[tool.ruffle]\n# [tool.ruff]\n"}, []),
        ({"setup.cfg": "[mypy-x.*]\n"}, ["mypy"]),
        ({"tsconfig.json": "", "eslint.config.mjs": ""}, ["tsc", "eslint"]),
        ({".eslintrc": ""}, ["eslint"]),
        ({"Cargo.toml": "", "go.mod": ""}, ["cargo", "go"]),
        ({}, []),
    ],
)
def test_a_project_has_those_that_its_files_configure(there: dict[str, str], names: list[str]) -> None:
    assert [one.name for one in configured_checkers(there, there.__getitem__)] == names


def test_the_projects_own_program_comes_first_and_no_name_is_an_option() -> None:
    first, second = checker_commands(BY_NAME["ruff"], ["-x.py", "a b.py"], lambda program: program == "venv/bin/ruff")
    assert first.startswith("venv/bin/ruff check ")
    assert second.startswith("ruff check ")
    assert second.endswith(" ./-x.py './a b.py'")
    (go,) = checker_commands(BY_NAME["go"], ["p/a.go", "p/b.go", "c.go"], lambda _program: False)
    assert go == "go vet ./p ./."
