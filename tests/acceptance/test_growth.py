"""What grows with use costs no more for it: one note, the end of the receipts."""

import sqlite3
from pathlib import Path

from adderclaw.storage import Store, memory
from tests.acceptance.world import World, call, text


def changed_rows(store: Store, key: str) -> int:
    """How many rows of the database keeping one note changes."""
    with store.write() as cursor:
        before = cursor.connection.total_changes
        memory.put(cursor, key, f"the note of {key} about aardvarks")
        return cursor.connection.total_changes - before


def test_33_one_note_is_one_row_of_the_index_however_many_there_are(tmp_path: Path) -> None:
    store = Store.open(str(tmp_path / "memory.sqlite"))
    few = changed_rows(store, "first")
    with store.write() as cursor:
        for number in range(500):
            memory.put(cursor, f"key {number}", f"content {number}")
    assert changed_rows(store, "second") <= few + 8, "but for what the index merges now and then"
    assert sorted(note.key for note in memory.find(store, "aardvarks", 5)) == ["first", "second"]
    with store.write() as cursor:
        memory.put(cursor, "first", "now about beetles")
    assert [note.key for note in memory.find(store, "aardvarks", 5)] == ["second"]
    assert [note.key for note in memory.find(store, "beetles", 5)] == ["first"]
    plan = store.read("EXPLAIN QUERY PLAN SELECT title FROM memories ORDER BY updated_at DESC, rowid DESC LIMIT 32")
    assert not any("TEMP B-TREE" in row[3] for row in plan)
    store.close()


def test_33_the_model_finds_a_note_by_what_it_says(world: World) -> None:
    world.configure(autonomy="full")
    world.script(call("MemoryWrite", key="pets", value="The aardvark is called Zebulon."), text("done"))
    assert world.agent("keep it").code == 0
    world.script(call("MemorySearch", query="aardvark zebulon"), text("done"))
    assert world.agent("who is it?").code == 0
    found = world.entries("tool_result")[-1]["content"]
    assert "note pets: The aardvark is called Zebulon." in found


def test_33_the_end_of_the_receipts_is_read_and_no_more(world: World) -> None:
    """What stands in front of a long log is not looked at: with a hole in its place, the end is shown."""
    world.configure(autonomy="full")
    world.script(*(call("Glob", pattern=f"{number}") for number in range(20)), text("done"))
    assert world.agent("go").code == 0
    commands = (("receipt", "head"), ("receipt", "list", "-n", "3"))
    before = [world.cli(*command) for command in commands]
    lines = world.log.read_bytes().splitlines(keepends=True)
    rest = b"".join(lines[10:])
    with sqlite3.connect(world.database) as database:
        ahead = (8 << 30) - len(b"".join(lines[:10]))
        database.execute("UPDATE receipts SET end_offset = end_offset + ?", (ahead,))
    with world.log.open("r+b") as log:
        log.truncate(0)
        log.seek(8 << 30)
        log.write(rest)
    assert [world.cli(*command, timeout=60) for command in commands] == before
    assert world.cli("receipt", "head").out.startswith("20:")


def test_33_the_head_is_checked_against_the_end_of_the_log(world: World) -> None:
    world.configure(autonomy="full")
    world.script(*(call("Glob", pattern=f"{number}") for number in range(3)), text("done"))
    assert world.agent("go").code == 0
    lines = world.log.read_bytes().splitlines(keepends=True)
    head = world.cli("receipt", "head").out.strip()
    assert head.startswith("3:")
    for spoilt in (b"".join(lines[:2]), b"".join([*lines[:2], lines[2].replace(b"Glob", b"Grep")])):
        world.log.write_bytes(spoilt)
        assert world.cli("receipt", "head").code == 1
    world.log.write_bytes(b"".join(lines))
    with sqlite3.connect(world.database) as database:  # a crash between the log and its mirror
        database.execute("DELETE FROM receipts WHERE seq = 3")
    assert world.cli("receipt", "head").out.strip() == head
