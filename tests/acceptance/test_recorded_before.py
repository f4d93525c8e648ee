"""Runs that an earlier version recorded (`tests/fixtures/recorded`) are proved by this one, after its migration."""

import json
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.test_replay import last_run, named, verified, verify
from tests.acceptance.world import World, call, text

ARCHIVE = Path(__file__).parents[1] / "fixtures" / "recorded" / "runs.tar.xz"
CALLS = {"read": 2, "denial": 1, "bash": 1, "agent": 8, "hooks": 2, "approval": 1, "refusal": 1}
"""What each of the runs did → its tool calls."""
OLDER = "made the hash of a question in another way"


@pytest.fixture
def recorded(world: World) -> dict[str, str]:
    """The home of the version before becomes this test's own; what was done → the run that did it."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(world.cli.home.parent / "before", filter="data")
    before = world.cli.home.parent / "before" / "home"
    world.cli.data.rename(world.cli.data.with_name("unused"))
    (before / ".adderclaw").rename(world.cli.data)
    world.configure()
    runs: dict[str, str] = json.loads((before / "runs.json").read_text())
    return runs


def test_the_archive_is_small_and_holds_all_kinds(recorded: dict[str, str]) -> None:
    assert ARCHIVE.stat().st_size < 300_000
    assert recorded.keys() == CALLS.keys()


def test_every_run_is_proved_after_the_migration(world: World, recorded: dict[str, str]) -> None:
    refused = world.cli("replay", recorded["read"], "--verify")
    assert "`adderclaw init` brings it up to date" in refused.err
    assert world.cli("init").code == 0
    assert [*world.cli.data.glob("memory.sqlite.before-*")]
    for name, run_id in recorded.items():
        proof = verified(world, run_id)
        assert proof["tool_calls"] == CALLS[name]
        assert any(OLDER in note for note in proof["notes"]) is (name in ("approval", "refusal")), proof["notes"]
    assert world.cli("receipt", "verify").code == 0


def _change(world: World, sql: str) -> None:
    with closing(sqlite3.connect(world.database)) as connection, connection:
        assert connection.execute(sql).rowcount > 0, sql


def test_what_was_changed_in_an_old_run_is_found(world: World, recorded: dict[str, str]) -> None:
    assert world.cli("init").code == 0
    run_id = recorded["approval"]
    (session,) = world.rows("SELECT session_id FROM runs WHERE run_id = ?", run_id)[0]
    where = f"WHERE session_id = '{session}' AND event_type = 'approval_requested'"
    _change(world, f"UPDATE events SET detail = replace(detail, 'Write', 'Wrote') {where}")
    assert named(verify(world, run_id), "approval_requested")
    log = world.cli.data / "runs" / recorded["hooks"] / "events.jsonl"
    log.write_text(log.read_text().replace('"Read"', '"Reed"', 1))
    assert not verify(world, recorded["hooks"])["verified"]


def test_a_hash_of_a_new_question_is_compared(world: World) -> None:
    world.script(call("Write", file_path="b.txt", content="b\n"), text("written"))
    assert world.agent("write", stdin="y\n").code == 0
    run_id = last_run(world)
    assert not any(OLDER in note for note in verified(world)["notes"])
    log = world.cli.data / "runs" / run_id / "events.jsonl"
    (hashed,) = world.rows("SELECT plan_hash FROM approvals")[0]
    assert hashed in log.read_text()
    log.write_text(log.read_text().replace(hashed, "0" * 64))
    assert named(verify(world, run_id), "approval_requested", "plan_hash")


def test_a_run_of_a_version_that_made_no_tapes_is_no_false_alarm(world: World, recorded: dict[str, str]) -> None:
    assert world.cli("init").code == 0
    _change(world, f"DELETE FROM tape WHERE run_id = '{recorded['read']}'")
    done = world.cli("replay", recorded["read"], "--verify")
    assert "has no tape to replay: it was made by an older version" in done.err
    assert "differs" not in done.out
