"""The tables of the programs: what is generated of them, that each is whole, and each table's own examples."""

import json
import re
import shlex
from typing import Any

import pytest

from adderclaw.policy.legacy.commands import unlisted
from adderclaw.policy.legacy.programs import allowlist, generate
from adderclaw.policy.legacy.programs.allowlist import FILE, PROGRAMS, Options
from adderclaw.policy.legacy.programs.knowledge import objection
from adderclaw.policy.legacy.programs.options import kinds
from adderclaw.policy.legacy.shell.planner import Plan, plan, simples
from tests.policy.conftest import build
from tests.rows import rows

TABLES = generate.tables()
EXAMPLES = [
    pytest.param(kind, text, id=f"{kind}: {text}")
    for table in TABLES.values()
    for kind in generate.EXAMPLES
    for text in table.get(kind, ())
]


def test_without_the_generated_file_the_tables_are_read_from_toml(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(FILE, encoding="utf-8") as file:
        stored = json.load(file)
    monkeypatch.setattr(allowlist, "FILE", f"{FILE}.missing")
    from_toml = allowlist._file.__wrapped__()  # pyright: ignore[reportPrivateUsage]
    assert from_toml == stored, "run: make setup"


@rows("name", sorted(TABLES))
def test_a_table_is_whole(name: str) -> None:
    table = TABLES[name]
    assert set(table) <= {*Options._fields, *generate.EXAMPLES, "also"}
    assert table.get("kind", "work") in ("look", "work")
    assert table.get("operands", "") in ("", "none", "pattern", "code", "in-out", "copy", "write")
    found = PROGRAMS[name]
    for text in (found.options, found.before, *(found.commands or {}).values()):
        assert all(option.startswith("-") for option in kinds(text)), text
    taken = kinds(found.options).keys()
    assert not taken & found.harmful, "an option is both harmful and not"


@rows("name", sorted(name for name in TABLES if " " not in name))
def test_a_table_has_examples_of_its_own(name: str) -> None:
    table = TABLES[name]
    assert table.get("safe") or table.get("never")
    assert table.get("refused") or table.get("free")
    for text in (*table.get("safe", ()), *table.get("refused", ())):
        assert name in shlex.split(text) or set(table.get("also", "").split()) & set(shlex.split(text)), text


@rows(("kind", "text"), EXAMPLES)
def test_an_example_is_judged_as_its_table_says(kind: str, text: str) -> None:
    command = plan(text, lambda name: f"/usr/bin/{name}" if "/" not in name else None)
    case: Any = build("Bash", policy={"workspace_only": False})
    if not isinstance(command, Plan):
        # A builtin that plans do not use by name yet, or a word of the grammar: the words are judged all the same.
        words = tuple(shlex.split(text))
        assert (objection(words[0], words) is None) == (kind == "safe"), command.reason
        return
    whys = [unlisted(simple, case.policy, lambda _name: False, command.inside) for simple in simples(command)]
    assert (not any(whys)) == (kind == "safe"), whys


def test_the_other_tables_hold_names_and_forms() -> None:
    """Variables, packages, modules, images: a form that named a list which is not there would be refused here."""
    others = generate.others()
    assert all(text.split() for text in others["lists"].values())
    for form in (*others["forms"].values(), *others["values"].values()):
        assert "$" not in form
        re.compile(form)
