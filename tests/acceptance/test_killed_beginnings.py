"""Runs that are killed before they have asked a model anything: the store knows what they were begun with."""

import json
import sqlite3
from pathlib import Path

import pytest

from tests.acceptance.test_tasks import decision, finish
from tests.acceptance.world import World, text
from tests.program import Cli

SOP = """
name = "check"
description = "look"
[[steps]]
id = "only"
kind = "tool"
tool = "file_list"
args = {path = "."}
"""
BEGUN = {
    "task": ("run", "--task", "say done"),
    "sop": ("sop", "run", "./sops/check/SOP.toml"),
    "message": ("schedule", "run", "one"),
    "agentfile": ("run", "--agentfile", "Agentfile"),
}
TOGETHER = """
CREATE TABLE together (run_id TEXT REFERENCES workflows(run_id) DEFERRABLE INITIALLY DEFERRED);
CREATE TRIGGER begun AFTER INSERT ON runs BEGIN INSERT INTO together VALUES (new.run_id); END;
"""
"""No transaction that adds a run is committed without the row that whoever resumes it needs."""


@pytest.fixture
def world(cli: Cli, tmp_path: Path) -> World:

    made = World(cli, tmp_path)
    made.script(text(json.dumps(decision(None, finish("done")))), text("again"))
    return made


@pytest.fixture
def filled(world: World) -> World:
    folder = world.workspace / "sops" / "check"
    folder.mkdir(parents=True)
    (folder / "SOP.toml").write_text(SOP, encoding="utf-8")
    (world.workspace / "Agentfile").write_text('NAME n\nGOAL g "Work"\nRUN r USING g\n', encoding="utf-8")
    assert world.cli("schedule", "add", "one", "--every", "1h", "--message", "say done").code == 0
    return world


@pytest.mark.parametrize("kind", BEGUN)
def test_no_run_is_written_without_what_it_was_begun_with(filled: World, kind: str) -> None:
    with sqlite3.connect(filled.database) as connection:
        connection.executescript(TOGETHER)
    done = filled.cli(*BEGUN[kind])
    assert filled.rows("SELECT kind FROM runs") == [(kind,)], done.err


@pytest.mark.parametrize("kind", ["task", "sop", "message"])
def test_a_run_that_a_hook_kills_at_its_start_is_known_to_resume(filled: World, kind: str) -> None:
    """The hook hears of what was submitted before anything is done with it."""
    world = filled
    hook = {"type": "command", "command": "kill -9 $PPID; sleep 60"}
    settings = world.cli.data / "settings.json"
    settings.write_text(json.dumps({"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}}), encoding="utf-8")
    assert world.cli(*BEGUN[kind]).code == -9
    settings.unlink()
    [(run_id,)] = world.rows("SELECT run_id FROM runs")
    done = world.cli("run", "--resume", run_id)
    assert done.code == 0, done.err
    assert world.rows("SELECT outcome FROM runs") == [("completed",)]
    assert len(world.rows("SELECT 1 FROM transcript_entries WHERE entry_type = 'user'")) <= 1


def test_a_conversation_in_which_nothing_was_said_asks_no_model(filled: World) -> None:
    hook = {"type": "command", "command": "kill -9 $PPID; sleep 60"}
    settings = filled.cli.data / "settings.json"
    settings.write_text(json.dumps({"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}}), encoding="utf-8")
    assert filled.agent("hello").code == -9
    settings.unlink()
    [(run_id,)] = filled.rows("SELECT run_id FROM runs")
    done = filled.cli("agent", "--continue", "--resume", run_id)
    assert (done.code, "this conversation has no message yet" in done.err) == (2, True), done.err
    assert filled.rows("SELECT 1 FROM model_calls") == []


def test_a_conversation_goes_on_by_the_id_of_a_run_in_it(world: World) -> None:
    world.agent("hello")
    [(run_id,)] = world.rows("SELECT run_id FROM runs")
    done = world.agent("again", "--resume", run_id)
    assert done.code == 0, done.err
    assert world.rows("SELECT count(*) FROM conversations") == [(1,)]
