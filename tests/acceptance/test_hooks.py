"""Hooks from the outside: configured, run, recorded; and hooks that misbehave."""

import json
import sqlite3

from tests.acceptance.world import World


def snapshot(world: World, *hooks: dict[str, object]) -> None:
    """The operator's own settings row, as seed 003 §8.8.3 writes it."""
    assert world.cli("init").code == 0
    with sqlite3.connect(world.database) as connection:
        connection.execute(
            "INSERT OR REPLACE INTO settings_snapshot(scope, json, updated_at)"
            " VALUES ('effective', ?, datetime('now'))",
            (json.dumps({"hooks": hooks}),),
        )


def test_d94_a_hook_that_exits_2_denies_the_call(world: World) -> None:
    snapshot(world, {"hook_event_name": "PreToolUse", "matcher": "Bash", "command": "exit 2"})
    done = world.cli("--eval", json.dumps({"tool": "Bash", "input": {"command": "echo hello"}}))
    assert done.code == 3, done.err
    sql = "SELECT exit_code FROM hook_invocations WHERE hook_event='PreToolUse' AND tool_name='Bash' ORDER BY id DESC"
    assert world.rows(sql) == [(2,)]
    sql = "SELECT payload_json FROM transcript_entries WHERE entry_type='tool_result' ORDER BY sequence DESC LIMIT 1"
    assert '"is_error":true' in world.rows(sql)[0][0]
