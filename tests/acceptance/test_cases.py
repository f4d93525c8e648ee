"""`run save`, `run check`: a finished run is a case of its project, and what would come out differently is named."""

import hashlib
import json
import os
from typing import Any

import pytest

from adderclaw.errors import UsageError
from adderclaw.replay import cases, comparing
from tests.acceptance.test_replay import ALLOW, last_run, mixed
from tests.acceptance.world import World, call, text

KEY = "sk-ant-api03-" + "Zx9" * 30


def checked(world: World, *more: str, code: int = 0) -> dict[str, Any]:
    done = world.cli("run", "check", *(more or ("first",)), "--output-format", "json")
    assert done.code == code, done.out + done.err
    return json.loads(done.out)


def sealed(lines: list[str]) -> str:
    """A file whose last line fits, as a forger would write it."""
    body = "".join(f"{line}\n" for line in lines)
    return body + json.dumps({"sha256": hashlib.sha256(body.encode()).hexdigest()}) + "\n"


def test_a_saved_run_is_the_same_until_the_policy_changes(world: World) -> None:
    run_id = mixed(world)
    done = world.cli("run", "save", "first")
    assert (done.code, run_id in done.out) == (0, True), done.err
    assert "there is a case 'first' already" in world.cli("run", "save", "first").err
    assert world.cli("run", "save", "first", "--force", "--run", run_id[:-2]).code == 0
    world.database.unlink()  # the file is all that a check needs
    (world.workspace / "a.txt").unlink()
    (world.workspace / "b.txt").unlink()
    world.fixture.unlink()
    found = checked(world)
    assert (found["same"], found["tool_calls"]) == (True, 5), found

    # another configuration: each call that it changes is named, those behind the first, too
    denied = '[permissions]\nallow = ["Bash(echo *)"]\ndeny = ["Bash(cat *)", "Write(b.txt)"]\n'
    world.configure(autonomy="full", security='allowed_commands = ["echo", "cat"]', more=denied)
    found = checked(world, code=1)
    verdicts = [one for one in found["differences"] if one["where"].startswith("verdict on call ")]
    assert [(one["before"], one["after"], one["where"].rpartition(" ")[2]) for one in verdicts] == [
        ("allow", "deny", "(Bash)"),
        ("allow", "deny", "(Write)"),
    ], found
    said = [f"{one['tool_use_id']} {one['by']} {one['reason']}" for one in verdicts]
    assert said[0].startswith("call_1_1 "), said
    assert "Bash(cat *)" in said[0], said
    assert "Write(b.txt)" in said[1], said
    shown = world.cli("run", "check", "first")
    assert (shown.code, "allow → deny by " in shown.out) == (1, True), shown.out
    assert not (world.workspace / "b.txt").exists()
    assert not world.database.exists()

    # so are the loop's own settings, and the autonomy
    world.configure(autonomy="full", security='allowed_commands = ["echo", "cat"]', more=ALLOW, rounds=2)
    found = checked(world, code=1)
    assert any(one["where"] in ("course of the run", "outcome of turn 1") for one in found["differences"]), found
    world.configure(autonomy="readonly", security='allowed_commands = ["echo", "cat"]', more=ALLOW)
    assert any(one["after"] == "deny" for one in checked(world, code=1)["differences"])


def test_what_is_said_of_a_key_is_left_out_and_a_task_of_one_word_is_a_task(world: World) -> None:
    world.configure(autonomy="full")
    world.script(call("Write", file_path="k.txt", content=f"key {KEY}"), text(f"wrote {KEY}"))
    assert world.agent(f"keep {KEY}").code == 0
    assert world.cli("run", "save", "key", "--output-format", "json").code == 0
    kept = (world.workspace / cases.FOLDER / "key.jsonl").read_text()
    assert KEY[13:40] not in kept
    assert checked(world, "--all")["same"]
    assert world.cli("run", "cases").out == "key\n"
    done = world.cli("run", "--task", "save", "--dry-run")
    assert done.out.startswith("dry run, no model is asked"), done.err


def test_a_case_of_somebody_else_is_only_read(world: World) -> None:
    world.configure(autonomy="full", security='allowed_commands = ["touch"]')
    world.script(call("Bash", command="touch ran"), text("done"))
    assert world.agent("go").code == 0
    assert world.cli("run", "save", "first", "--run", last_run(world)).code == 0
    (world.workspace / "ran").unlink()
    place = world.workspace / cases.FOLDER / "first.jsonl"
    root, whole = str(world.workspace), place.read_text()
    lines = whole.splitlines()[:-1]
    deep = "[" * 200_000
    tapes = [number for number, line in enumerate(lines) if line.startswith('{"tape"')]
    forged = {
        "cut": whole[: len(whole) // 2],
        "no text": "\udcff".encode("utf-8", "surrogateescape").decode("latin-1"),
        "changed": whole.replace("touch ran", "touch own"),
        "other kind": sealed([*lines, '{"run":{"run_id":"x"}}']),
        "other format": sealed([lines[0].replace('"adderclaw_case":1', '"adderclaw_case":2'), *lines[1:]]),
        "wrong type": sealed([*lines, '{"event":{"id":"x","session_id":"","event_type":"","detail":""}}']),
        "deep": sealed([*lines, deep]),
        "seal": sealed([line.replace("touch", "totch") if n in tapes else line for n, line in enumerate(lines)]),
        "twice": sealed([*lines, *(line for line in lines if line.startswith('{"entry"'))]),
        "no tape": sealed([line for n, line in enumerate(lines) if n not in tapes]),
        "big number": sealed([*lines, json.dumps({"text": {"digest": "x", "text": "y"}}).replace('"y"', "1e999")]),
    }
    for name, content in forged.items():
        place.write_text(content)
        with pytest.raises(UsageError):
            pytest.fail(f"{name}: {comparing.check(cases.read(cases.place_of(root, 'first')), None)}")
    done = world.cli("run", "check", "first")
    assert (done.code, "was damaged" in done.err) == (2, True), done.err
    place.unlink()
    for made in (lambda: os.mkfifo(place), lambda: place.symlink_to("/dev/zero")):
        made()
        with pytest.raises(UsageError, match="cannot be read"):
            cases.read(cases.place_of(root, "first"))
        place.unlink()
    assert "is no name of a case" in world.cli("run", "check", "../../first").err
    assert not (world.workspace / "ran").exists()
