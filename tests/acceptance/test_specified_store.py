"""The database that the program writes has the specified tables, locks and transactions."""

import json
import sqlite3
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from adderclaw.storage import Store
from tests.acceptance.test_hooks import hook, rows, user
from tests.acceptance.world import World

DDL = Path(__file__).parents[1] / "storage" / "specified.sql"
LS = json.dumps({"tool": "LS", "input": {"path": "."}})
NO_RESULTS = """
CREATE TRIGGER no_results BEFORE INSERT ON transcript_entries WHEN NEW.entry_type = 'tool_result'
BEGIN SELECT RAISE(ABORT, 'a result cannot be written'); END
"""


class Shape(NamedTuple):
    columns: list[tuple[Any, ...]]
    keys: list[tuple[Any, ...]]
    increments: bool


def shape(database: sqlite3.Connection, table: str) -> Shape:
    columns = database.execute(f"SELECT * FROM pragma_table_xinfo('{table}')").fetchall()
    keys = database.execute(f"SELECT * FROM pragma_foreign_key_list('{table}')").fetchall()
    ((sql,),) = database.execute("SELECT sql FROM sqlite_master WHERE name = ?", [table])
    return Shape(columns, keys, "AUTOINCREMENT" in sql)


def indexes(database: sqlite3.Connection, table: str) -> set[tuple[Any, ...]]:
    """Each index with what makes it unique or partial, and its columns."""
    listed = database.execute(f"SELECT name, \"unique\", origin, partial FROM pragma_index_list('{table}')").fetchall()
    columns = "SELECT * FROM pragma_index_xinfo('{}')"
    return {(*index, *database.execute(columns.format(index[0])).fetchall()) for index in listed}


def test_every_table_is_as_the_specification_declares_it(world: World) -> None:
    assert world.cli("--eval", LS).code == 0
    specified = sqlite3.connect(":memory:")
    specified.executescript(DDL.read_text(encoding="utf-8"))
    names = [row[0] for row in specified.execute("SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE TABLE %'")]
    tables = [name for name in names if not name.startswith(("memories_fts_", "sqlite_"))]
    assert len(tables) == 13
    with sqlite3.connect(f"file:{world.database}?mode=ro", uri=True) as database:
        for table in tables:
            assert shape(database, table) == shape(specified, table), table
            assert indexes(database, table) >= indexes(specified, table), table
        search = "SELECT replace(sql, 'IF NOT EXISTS ', '') FROM sqlite_master WHERE name = 'memories_fts'"
        assert database.execute(search).fetchone() == specified.execute(search).fetchone()
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_transaction_holds_the_write_lock_from_its_first_moment(tmp_path: Path) -> None:
    store = Store.open(str(tmp_path / "memory.sqlite"))
    other = sqlite3.connect(store.path, timeout=0, isolation_level=None)
    with store.write(), pytest.raises(sqlite3.OperationalError, match="locked"):
        other.execute("BEGIN IMMEDIATE")
    other.execute("BEGIN IMMEDIATE")
    other.execute("ROLLBACK")
    store.close()


def test_the_rows_of_a_calls_hooks_are_written_with_its_result(world: World) -> None:
    """Where the result cannot be written, no row of a hook that belongs to the call is left either."""
    user(world, PreToolUse=[hook("true")], PostToolUse=[hook("true")])
    assert world.cli("--eval", LS).code == 0
    before = rows(world)
    assert [row[0] for row in before] == ["PreToolUse", "PostToolUse"]
    with sqlite3.connect(world.database) as database:
        database.execute(NO_RESULTS)
    done = world.cli("--eval", LS)
    assert "a result cannot be written" in done.err + done.out
    assert rows(world) == before
