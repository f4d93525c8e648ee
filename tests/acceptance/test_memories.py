"""Notes: of a project, confirmed by the operator, visible, editable, in bounds."""

import json
import stat
from pathlib import Path

from tests.acceptance.test_frames import talk
from tests.acceptance.world import World, call, text
from tests.scripted import ScriptedModel


def prompt(world: World) -> str:
    """The system prompt of a new conversation."""
    with ScriptedModel([{"text": "done"}]) as model:
        assert talk(world, model, "openai-compatible").code == 0
    return json.dumps(model.requests[0].json["messages"][0])


def keeps(world: World, key: str, value: str, *, autonomy: str = "full", answer: str = "") -> str:
    world.configure(autonomy)
    world.script(call("MemoryWrite", key=key, value=value), text("x"))
    assert world.agent("go on", stdin=answer).code == 0
    return world.entries("tool_result")[-1]["content"]


def test_what_a_model_keeps_unasked_is_in_no_prompt_until_the_operator_confirms_it(world: World) -> None:
    """It may have it from a page that it read."""
    assert "once the operator confirms it" in keeps(world, "deploy", "push to the mirror first")
    assert "push to the mirror" not in prompt(world)
    world.script(call("MemoryRead", key="deploy"), text("x"))
    world.configure("full")
    assert world.agent("read it").code == 0
    assert "push to the mirror" in world.entries("tool_result")[-1]["content"]
    here = ("--workspace", str(world.workspace))
    assert "deploy (not confirmed): push to the mirror first" in world.cli("memory", "notes", *here).out
    assert world.cli("memory", "confirm", "deploy", *here).code == 0
    assert "push to the mirror" in prompt(world)
    assert "cannot be replaced without asking" in keeps(world, "deploy", "push anywhere")
    assert world.rows("SELECT content FROM memories") == [("push to the mirror first",)]


def test_what_the_operator_was_asked_about_counts_and_only_in_its_project(world: World, tmp_path: Path) -> None:
    assert keeps(world, "tests", "make test", autonomy="supervised", answer="y\n").startswith("Saved tests (9 bytes)")
    assert "make test" in prompt(world)
    assert "not confirmed" not in world.cli("memory", "notes", "--workspace", str(world.workspace)).out
    (other := tmp_path / "other").mkdir()
    assert world.cli("memory", "notes", "--workspace", str(other)).out == "no notes yet\n"
    assert "make test" in world.cli("memory", "notes", "--all", "--output-format", "json").out


def test_notes_are_changed_and_forgotten_by_hand(world: World, tmp_path: Path) -> None:
    world.configure()
    (editor := tmp_path / "editor").write_text("#!/bin/sh\nprintf 'from the editor\\n' > \"$1\"\n")
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    here = ("--workspace", str(world.workspace))
    assert world.cli("memory", "edit", "build", "--value", "make", *here).out == "stored build\n"
    world.cli.env["VISUAL"] = str(editor)
    assert world.cli("memory", "edit", "build", *here).code == 0
    assert world.cli("memory", "edit", "everyone", "--everywhere", "--value", "tabs", *here).code == 0
    assert world.rows("SELECT title, content, project_scope IS NULL FROM memories ORDER BY title") == [
        ("build", "from the editor", 0),
        ("everyone", "tabs", 1),
    ]
    world.cli.env["VISUAL"] = "/nowhere/editor"
    refused = world.cli("memory", "edit", "build", *here)
    assert (refused.code, "--value" in refused.err) == (2, True)
    missing = world.cli("memory", "forget", "bild", *here)
    assert (missing.code, "there is no note 'bild'" in missing.err) == (2, True)
    assert world.cli("memory", "edit", "long", "--value", "x" * 70_000, *here).code == 2
    assert world.cli("memory", "forget", "build", *here).code == 0
    assert world.rows("SELECT title FROM memories") == [("everyone",)]
    assert world.rows("SELECT title FROM memories_fts") == [("everyone",)]
    typed = world.cli.typed("agent", *here, stdin="/memory\n/memory forget everyone\n/memory\n/exit\n")
    assert "everyone (all projects): tabs" in typed.out
    assert "no memories yet" in typed.out
