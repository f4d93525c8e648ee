"""Old work is removed by days and by size, never what somebody may still need, and the receipts stay valid."""

import json
import sqlite3
from contextlib import closing

import pytest

from tests.acceptance.world import World, call, text

MORE = "[logging]\ndebug_llm_bodies = true\n"


def aged(world: World, days: int = 60) -> None:
    """Everything so far was done so long ago."""
    with closing(sqlite3.connect(world.database)) as database, database:
        database.execute(f"UPDATE runs SET finished_at = datetime(finished_at, '-{days} days')")
        database.execute(f"UPDATE conversations SET last_active = datetime(last_active, '-{days} days')")


def talked(world: World, words: str) -> str:
    """A completed run of its own conversation; its id."""
    world.script(call("file_list", path="."), text(f"about {words}"))
    done = world.agent(words)
    assert done.code == 0, done.err
    return str(world.rows("SELECT id FROM conversations ORDER BY rowid DESC LIMIT 1")[0][0])


def count(world: World, table: str) -> int:
    return int(world.rows(f"SELECT count(*) FROM {table}")[0][0])


def pruned(world: World, *more: str) -> dict[str, dict[str, int]]:
    done = world.cli("runs", "prune", *more, "--output-format", "json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def is_verified(world: World) -> bool:
    done = world.cli("receipt", "verify")
    return done.code == 0 and "valid:" in done.out


def test_old_runs_go_by_command_and_their_receipts_stay(world: World) -> None:
    world.configure(more=MORE)
    talked(world, "heliotrope")
    aged(world)
    talked(world, "new")
    (world.cli.data / "runs").mkdir(exist_ok=True)
    names = [str(row[0]) for row in world.rows("SELECT run_id FROM runs ORDER BY rowid")]
    found = [*world.workspace.rglob("events.jsonl"), *world.cli.data.rglob("events.jsonl")]
    files = sorted(found, key=lambda file: names.index(file.parent.name))
    assert len(files) == 2
    (files[0].parent / "mine.txt").write_text("not the program's", encoding="utf-8")
    tables = ("events", "tape", "traces", "transcript_entries", "model_calls WHERE response_json IS NOT NULL")
    before = [count(world, table) for table in tables]
    would = pruned(world, "--older-than", "30d", "--dry-run")
    assert [would[kind]["count"] for kind in ("runs", "logs", "model_bodies", "conversations")] == [1, 1, 1, 0]
    assert [count(world, table) for table in tables] == before
    gone = pruned(world, "--older-than", "30d")
    assert gone == would | {"dry_run": False}
    assert pruned(world, "--older-than", "30d")["runs"]["count"] == 0
    assert [file.exists() for file in files] == [False, True]
    assert [name.name for name in files[0].parent.iterdir()] == ["mine.txt"]
    assert is_verified(world)
    assert count(world, "runs") == 2
    assert "heliotrope" in world.cli("memory", "search", "heliotrope").out, "conversations have a limit of their own"
    assert world.cli("runs", "list").err == ""
    replayed = world.cli("replay", world.rows("SELECT run_id FROM runs ORDER BY rowid LIMIT 1")[0][0])
    assert "Traceback" not in replayed.err
    assert world.cli("backup", str(world.cli.home.parent / "kept.zip")).code == 0


def test_what_somebody_may_still_need_is_never_removed(world: World) -> None:
    gone = talked(world, "nothing needs this")
    needed = {
        "interrupted": "UPDATE runs SET outcome = NULL, finished_at = NULL WHERE conversation_id = ?",
        "limit": "UPDATE runs SET outcome = 'limit' WHERE conversation_id = ?",
        "undo": "INSERT INTO checkpoints(root, conversation_id, session_id, turn_session, turn, kind, tool,"
        " tool_use_id, note, status) VALUES (x'2f', ?, 's', 's', 0, 'call', 'Write', 'c', '', 'done')",
        "question": "INSERT INTO approvals(id, session_id, tool_use_id, tool, risk, reason, shown, plan_hash, pid,"
        " created_at) SELECT 'q', session_id, 't', 'Bash', 'high', '', '', '', 1, '2026' FROM sessions"
        " WHERE conversation_id = ?",
        "planning": "UPDATE conversations SET phase = 'planning' WHERE id = ?",
    }
    kept = {why: talked(world, why) for why in needed}
    kept["forked"] = talked(world, "forked")
    world.script(call("file_list", path="."), text("about forked"), text("a fork"))
    forked = world.cli("-p", "on", "--resume", kept["forked"], "--fork-session")
    assert forked.code == 0, forked.err
    with closing(sqlite3.connect(world.database)) as database, database:
        for why, sql in needed.items():
            database.execute(sql, (kept[why],))
    aged(world)
    world.configure(
        more="[retention]\nconversations_days = 30\nruns_days = 30\nlogs_days = 30\nmodel_bodies_days = 30\n"
    )
    pruned(world)
    left = {row[0] for row in world.rows("SELECT id FROM conversations")}
    assert gone not in left
    assert set(kept.values()) <= left
    for why in ("interrupted", "limit"):
        (run,) = world.rows("SELECT run_id FROM runs WHERE conversation_id = ?", kept[why])
        assert world.rows("SELECT count(*) FROM tape WHERE run_id = ?", *run) != [(0,)]
    assert is_verified(world)
    assert world.rows("PRAGMA foreign_key_check") == []
    assert "about nothing" not in world.cli("memory", "search", "needs").out


def test_the_limits_hold_by_themselves_once_a_day(world: World) -> None:
    first = talked(world, "old")
    aged(world)
    world.configure(more="[retention]\nconversations_days = 30\n")
    second = talked(world, "newer")
    assert world.rows("SELECT id FROM conversations") == [(second,)]
    assert world.rows("SELECT conversation_id FROM runs") == [(first,), (second,)], (
        "that it was, and what it cost, stays"
    )
    aged(world)
    talked(world, "newest")
    assert count(world, "conversations") == 2, "not again today"
    assert is_verified(world)
    assert world.rows("SELECT rowid FROM transcript_fts WHERE transcript_fts MATCH 'old'") == []


def test_by_size_the_oldest_go_first(world: World) -> None:
    for number in range(4):
        world.script(text(f"{number} " * 200_000))
        assert world.agent(f"number {number}").code == 0
        aged(world, 2)
    world.configure(more="[retention]\nconversations_mb = 1\n")
    assert pruned(world)["conversations"]["count"] == 2
    said = "SELECT content FROM memory_log WHERE role = 'user'"
    assert [row[0] for row in world.rows(said)] == ["number 2", "number 3"]
    world.script(text("new " * 500_000))
    assert world.agent("number 4").code == 0
    pruned(world)
    assert [row[0] for row in world.rows(said)] == ["number 4"], "nothing of the last day, however large it is"


def test_one_conversation_is_forgotten_bytes_included(world: World) -> None:
    forgotten, kept = talked(world, "heliotrope"), talked(world, "aardvark")
    assert "would forget" in world.cli("memory", "forget", forgotten, "--dry-run").out
    assert "heliotrope" in world.cli("memory", "search", "heliotrope").out
    done = world.cli("memory", "forget", forgotten, "--output-format", "json")
    assert json.loads(done.out) == {"dry_run": False, "conversation": forgotten}, done.err
    with closing(sqlite3.connect(world.database)) as database:
        found = [line for line in database.iterdump() if "heliotrope" in line]
    assert found == []
    assert b"heliotrope" not in world.database.read_bytes()
    assert world.rows("SELECT id FROM conversations") == [(kept,)]
    assert "aardvark" in world.cli("memory", "search", "aardvark").out
    assert is_verified(world)
    assert world.cli("memory", "forget", forgotten).code == 2
    with closing(sqlite3.connect(world.database)) as database, database:
        database.execute(
            "INSERT INTO approvals(id, session_id, tool_use_id, tool, risk, reason, shown, plan_hash, pid, created_at)"
            " SELECT 'q', session_id, 't', 'Bash', 'high', '', '', '', 1, '2026' FROM sessions"
        )
    waiting = world.cli("memory", "forget", kept)
    assert waiting.code == 2
    assert "has a waiting question" in waiting.err


def test_nothing_goes_without_a_limit_and_no_project_sets_one(world: World) -> None:
    talked(world, "old")
    aged(world, 4000)
    (world.workspace / ".adderclaw").mkdir(exist_ok=True)
    (world.workspace / ".adderclaw" / "config.toml").write_text(
        "[retention]\nconversations_days = 1\n", encoding="utf-8"
    )
    talked(world, "new")
    assert count(world, "conversations") == 2
    done = world.cli("runs", "prune")
    assert (done.code, "sets no limit" in done.err) == (2, True)


@pytest.mark.parametrize("given", ["", "30", "0d", "-1d", "30d30d", "1e3d"])
def test_a_time_that_is_none_removes_nothing(world: World, given: str) -> None:
    talked(world, "old")
    assert world.cli("runs", "prune", f"--older-than={given}").code == 2


def test_doctor_says_what_takes_space(world: World) -> None:
    world.script(text("x" * 3_000_000))
    assert world.agent("much").code == 0
    (line,) = [line for line in world.cli("doctor").out.splitlines() if line.split()[1] == "space"]
    assert "MB messages and results of conversations" in line
    assert float(line.split()[2]) >= 3, "the largest first"
