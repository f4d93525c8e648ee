"""Conversations at a terminal: gone on with, picked, branched, named, left for a new one."""

import json

from tests.acceptance.tmux import Tmux
from tests.acceptance.world import World, text


def two_talks(world: World) -> None:
    world.script(text("the answer about apples"))
    assert world.agent("tell me of apples").code == 0
    world.script(text("the answer about pears"))
    assert world.agent("tell me of pears").code == 0


def test_continue_opens_the_last_one_where_it_was_left(world: World) -> None:
    two_talks(world)
    world.script(text("the answer about pears"), text("more of it"))
    with Tmux(world, "-c", cwd=world.workspace) as terminal:
        terminal.wait("> tell me of pears", "the answer about pears", "supervised")
        terminal.write("more")
        terminal.press("Enter")
        terminal.wait("more of it")
        terminal.press("C-d")
        terminal.wait("left with 0")
    assert len(world.rows("SELECT 1 FROM conversations")) == 2


def test_resume_by_words_or_from_the_list(world: World) -> None:
    two_talks(world)
    with Tmux(world, "-r", "apples") as terminal:
        terminal.wait("> tell me of apples", "supervised")
    with Tmux(world, "-r") as terminal:
        terminal.wait("Which conversation?", "tell me of pears", "tell me of apples")
        terminal.write("appl")
        terminal.wait("Which conversation? appl", gone="tell me of pears")
        terminal.press("Enter")
        terminal.wait("the answer about apples", "supervised")
        terminal.press("C-d")
        terminal.wait("left with 0")
    with Tmux(world, "-r", "bananas") as terminal:
        terminal.wait("there is no conversation", "left with 2")


def test_a_message_with_a_space_opens_a_conversation_and_one_word_is_a_command(world: World) -> None:
    world.script(text("hello yourself"))
    with Tmux(world, "say hello") as terminal:
        terminal.wait("> say hello", "hello yourself", "supervised")
        terminal.press("C-d")
        terminal.wait("left with 0")
    done = world.cli("agnet")
    assert done.code == 2
    assert "agent" in done.err


def test_clear_begins_a_new_one_and_hooks_hear_of_it(world: World) -> None:
    note = world.cli.home / "heard"
    hook = f"cat >> {note}; echo >> {note}"
    world.configure(
        more=f"""
[hooks]
SessionStart = [{{hooks = [{{type = "command", command = "{hook}"}}]}}]
SessionEnd = [{{hooks = [{{type = "command", command = "{hook}"}}]}}]
"""
    )
    world.script(text("first answer"), text("second answer"))
    with Tmux(world, "agent") as terminal:
        terminal.wait("supervised")
        terminal.write("one")
        terminal.press("Enter")
        terminal.wait("first answer")
        terminal.write("/clear the old one")
        terminal.press("Enter")
        terminal.wait_for_number("AdderClaw in", 2)
        terminal.write("/rename fresh")
        terminal.press("Enter")
        terminal.wait("is called 'fresh'")
        terminal.press("C-d")
        terminal.wait("left with 0")
    heard = note.read_text(encoding="utf-8")
    assert '"source": "clear"' in heard or '"source":"clear"' in heard
    assert '"reason": "clear"' in heard or '"reason":"clear"' in heard
    assert {row[0] for row in world.rows("SELECT value FROM state WHERE key = 'title'")} == {"the old one", "fresh"}


def test_a_branch_is_a_copy_and_what_is_open_elsewhere_is_not_opened_twice(world: World) -> None:
    two_talks(world)
    with Tmux(world, "-c") as first:
        first.wait("the answer about pears", "supervised")
        done = world.cli("agent", "-c", "-m", "x")
        assert done.code == 1
        assert "in use by another process" in done.err
        first.write("/branch")
        first.press("Enter")
        first.wait_for_number("AdderClaw in", 2)
        first.write("/session")
        first.press("Enter")
        first.wait("conversation-")
        first.press("C-d")
        first.wait("left with 0")
    assert len(world.rows("SELECT 1 FROM conversations")) == 3


HOSTILE = "\x1b]2;evil\x07 # Pears\u202e and all " + "that " * 30 + "\nsecond line"


def test_the_small_model_names_it_once_and_a_name_by_hand_stays(world: World) -> None:
    fixture = world.cli.home / "small.json"
    fixture.write_text(json.dumps({"steps": [text(HOSTILE)]}), encoding="utf-8")
    entry = f'[providers.models.other]\nkind = "mock"\nmodel = "mock"\nfixture = "{fixture}"\n'
    world.configure(more=f'{entry}[providers]\nsmall = "other"\n')
    world.script(text("the answer about pears"), text("more of it"))
    named = "\\u{1b}]2;evil\\u{7} # Pears\\u{202e} and all that that that t…"
    with Tmux(world, "tell me of pears") as terminal:
        terminal.wait("the answer about pears", "supervised")
        terminal.until(lambda: terminal.title() == f"{named} - workspace")
        terminal.write("more")
        terminal.press("Enter")
        terminal.wait("more of it", "supervised")
        terminal.write("/clear")
        terminal.press("Enter")
        terminal.wait_for_number("AdderClaw in", 2)
        assert terminal.title() == "AdderClaw - workspace"
        terminal.write("/rename my own name")
        terminal.press("Enter")
        terminal.wait("is called")
        terminal.until(lambda: terminal.title() == "my own name - workspace")
        terminal.write("other")
        terminal.press("Enter")
        terminal.wait_for_number("the answer about pears", 2)
        terminal.press("C-d")
        terminal.wait("left with 0")
    rows = world.rows("SELECT json_extract(response_json, '$.purpose'), status FROM model_calls WHERE provider='other'")
    assert rows == [("title", "ok")], "it is a request like any other, made once"
    for (run,) in world.rows("SELECT run_id FROM runs"):
        assert world.cli("replay", run, "--verify").code == 0
    listed = world.cli("memory", "list").out
    assert "my own name" in listed
    assert named[:20] in listed
    with Tmux(world, "-r") as terminal:
        terminal.wait("Which conversation?", "my own name", named[:20])
        with Tmux(world, "-r", "my own name") as first:
            first.wait("> other", "the answer", "supervised")
            terminal.write("own")
            terminal.wait("conversation? own", gone="Pears")
            terminal.press("Enter")
            terminal.wait("open in another terminal", "in a copy? [y/N]")
            terminal.write("y")
            terminal.press("Enter")
            terminal.wait("> other", "the answer", "supervised")
    assert len(world.rows("SELECT 1 FROM conversations")) == 3, "the second goes on in a copy"


def test_export_writes_what_was_said(world: World) -> None:
    two_talks(world)
    with Tmux(world, "-c") as terminal:
        terminal.wait("the answer about pears", "supervised")
        terminal.write("/export talk.html")
        terminal.press("Enter")
        terminal.wait("written to")
        terminal.write("/export talk.html")
        terminal.press("Enter")
        terminal.wait("already exists")
    assert "the answer about pears" in (world.workspace / "talk.html").read_text(encoding="utf-8")
