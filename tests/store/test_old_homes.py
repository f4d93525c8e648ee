"""A home of every schema that ever stood on main opens, keeps its conversations, and its receipts still verify.

The fixtures were made by the programs of those commits themselves: scripts/make_old_homes.py.
"""

import json
import re
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from adderclaw import __version__
from adderclaw.errors import StoreError
from adderclaw.store import Store, migrations
from adderclaw.store.verify import verify
from tests.program import Cli
from tests.rows import rows

HOMES = sorted((Path(__file__).parent.parent / "fixtures" / "homes").glob("*.tar.xz"))


def opened(archive: Path, home: Path) -> Path:
    home.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as kept:
        kept.extractall(home, filter="data")
    return home / "memory.sqlite"


def test_there_is_a_home_of_every_step() -> None:
    """Whoever adds a migration adds a home of it, once it is committed: scripts/make_old_homes.py."""
    steps: set[str] = set()
    for archive in HOMES[-1:]:
        with tarfile.open(archive) as kept:
            member = kept.extractfile("memory.sqlite")
            assert member is not None
            memory = sqlite3.connect(":memory:")
            memory.deserialize(member.read())
            steps |= {row[0] for row in memory.execute("SELECT name FROM schema_migrations")}
            memory.close()
    newest = list(migrations.MIGRATIONS)[: len(steps)]
    assert steps == set(newest)
    assert len(HOMES) >= 34


@rows("archive", HOMES, ids=lambda archive: archive.name.partition(".")[0])
def test_it_opens_and_keeps_all(archive: Path, tmp_path: Path) -> None:
    path = opened(archive, tmp_path / archive.name)
    with closing(sqlite3.connect(path)) as before:
        sessions = before.execute("SELECT session_id FROM sessions ORDER BY 1").fetchall()
        entries = before.execute("SELECT session_id, sequence, payload_json FROM transcript_entries").fetchall()
        steps = before.execute("SELECT count(*) FROM schema_migrations").fetchone()[0]
        known = {row[0] for row in before.execute("SELECT name FROM schema_migrations")}
    assert sessions
    assert entries
    store = Store.open(str(path))
    try:
        assert [tuple(row) for row in store.read("SELECT session_id FROM sessions ORDER BY 1")] == sessions
        kept = store.read("SELECT session_id, sequence, payload_json FROM transcript_entries")
        assert {tuple(row) for row in kept} == set(entries)
        found = verify(str(path.parent / "tool_receipts.log"), store, str(path.parent / "receipt.key"), results=True)
        assert found.valid, found.reason
        assert found.receipts == 4
        assert found.completeness["complete"]
    finally:
        store.close()
    copies = [*path.parent.glob("memory.sqlite.before-*")]
    if known != set(migrations.MIGRATIONS):
        [copy] = copies
        with closing(sqlite3.connect(copy)) as copied:
            assert copied.execute("SELECT count(*) FROM schema_migrations").fetchone()[0] == steps
    else:
        assert not copies


def test_the_oldest_is_used_and_listed_by_the_program(cli: Cli) -> None:
    opened(HOMES[0], cli.data)
    assert cli("init").code == 0
    assert "valid: 4 receipts" in cli("receipt", "verify").out
    runs = json.loads(cli("runs", "list", "--output-format", "json").out)
    assert json.dumps(runs).count('"run_id"') == 2
    assert "what is in a.txt?" in cli("memory", "list").out


def test_a_newer_one_is_refused_names_both_versions_and_loses_nothing(tmp_path: Path) -> None:
    path = opened(HOMES[-1], tmp_path)
    with closing(sqlite3.connect(path)) as newer, newer:
        newer.execute("INSERT INTO schema_migrations(name) VALUES ('m999_from_the_future')")
        newer.execute("INSERT OR REPLACE INTO schema_meta(key, value) VALUES ('written_by', '9.8.7')")
        newer.execute("CREATE TABLE future (x)")
    (tmp_path / "memory.sqlite.before-m999_from_the_future").write_bytes(b"copy")
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(StoreError) as refused:
            Store.open(str(path), read_only=read_only)
        said = str(refused.value)
        assert re.search(rf"newer adderclaw 9\.8\.7 .*m999_from_the_future.*this is adderclaw {__version__}", said)
        assert "adderclaw update" in said
        assert "memory.sqlite.before-m999_from_the_future" in said
    assert path.read_bytes() == before
