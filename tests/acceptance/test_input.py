"""What a person types at the REPL in a real terminal: names of files, commands, notes, pastes, keys."""

import base64
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

from tests.acceptance.tmux import Tmux
from tests.acceptance.world import World, call, text
from tests.scripted_anthropic import ScriptedMessages

A_SERVER = Path(__file__).parents[1] / "tools" / "mcp" / "a_server.py"


def said(world: World) -> list[str]:
    """The parts of the last message, as the model has them."""
    return [block["text"] for block in world.entries("user")[-1]["content"]]


def test_a_file_is_found_after_at_and_goes_along_as_read_would_give_it(world: World) -> None:
    (world.workspace / "src").mkdir()
    (world.workspace / ".git").mkdir()
    (world.workspace / "src" / "screen drawing.py").write_text("the-file-itself\n", encoding="utf-8")
    (world.workspace / "ignored.py").write_text("x", encoding="utf-8")
    (world.workspace / ".gitignore").write_text("ignored.py\n", encoding="utf-8")
    for name in ("bad\nname.py", "bad\x1b[2Jname.py", "bad\u202ename.py"):
        (world.workspace / name).write_text("x", encoding="utf-8")
    os.mkfifo(world.workspace / "pipe.py")
    world.script(text("seen it"))
    with Tmux(world, "agent") as terminal:
        terminal.wait("supervised")
        terminal.write("look at @")
        menu = terminal.wait("src/", ".gitignore")
        assert "ignored.py" not in menu
        assert "bad" not in menu
        terminal.write("scdraw")
        terminal.wait("src/screen drawing.py", gone=".gitignore")
        terminal.press("Tab")
        terminal.wait('> look at @"src/screen drawing.py"')
        terminal.write("and @nobody, @pipe.py")
        terminal.press("Enter")
        terminal.wait("seen it", "supervised")
        terminal.press("C-d")
        terminal.wait("left with 0")
    words, attached, pipe = said(world)
    assert words == 'look at @"src/screen drawing.py" and @nobody, @pipe.py'
    assert attached.startswith("<attached")
    assert "the-file-itself" in attached
    assert "pipe.py" in pipe
    assert [(one["tool"], one["status"]) for one in world.receipts()] == [("Read", "allowed"), ("Read", "denied")]
    with Tmux(world, "agent", "-c") as terminal:
        shown = terminal.wait("look at", "seen it", "supervised")
        assert "attached" not in shown, "what was attached is no word of the person's"


def test_a_denied_file_stays_denied_when_a_person_names_it(world: World) -> None:
    world.configure(more='[permissions]\ndeny = ["Read(./secret.txt)"]')
    (world.workspace / "secret.txt").write_text("the-canary", encoding="utf-8")
    (world.workspace / "plain.txt").write_text("x", encoding="utf-8")
    world.script(text("no file"))
    with Tmux(world, "agent") as terminal:
        terminal.wait("supervised")
        terminal.write("@")
        assert "secret" not in terminal.wait("plain.txt")
        terminal.write("secret.txt ")
        terminal.press("Enter")
        terminal.wait("no file", "denied by")
        terminal.press("C-d")
        terminal.wait("left with 0")
    assert "the-canary" not in str(said(world))
    assert [one["status"] for one in world.receipts()] == ["denied"]


def test_a_command_and_a_note_by_hand(world: World) -> None:
    world.script(text("heard"))
    with Tmux(world, "agent") as terminal:
        terminal.wait("supervised")
        terminal.write("!echo by-$((40 + 2)) > made.txt; cat made.txt")
        terminal.press("Enter")
        terminal.wait("by-42", "ran")
        terminal.write("!sudo reboot")
        terminal.press("Enter")
        terminal.wait("denied by")
        terminal.write("# the build needs make")
        terminal.press("Enter")
        terminal.wait("remembered as 'the build needs make'", "supervised")
        terminal.write("what was it?")
        terminal.press("Enter")
        terminal.wait("heard", "supervised")
        terminal.press("C-d")
        terminal.wait("left with 0")
    words, made, denied = said(world)
    assert words == "what was it?"
    assert "by-42" in made
    assert "Denied" in denied
    assert world.rows("SELECT content FROM memories") == [("the build needs make",)]
    decided = [(one["tool"], one["status"]) for one in world.receipts()]
    assert decided == [("Bash", "allowed"), ("Bash", "denied"), ("MemoryWrite", "allowed")]
    run = world.rows("SELECT run_id FROM runs")[0][0]
    assert world.cli("replay", run).code == 0, "what was attached is part of the recording"


def test_line_by_line_too(world: World) -> None:
    (world.workspace / "a.txt").write_text("the-file-itself", encoding="utf-8")
    (world.workspace / "p.png").write_bytes(base64.b64decode(PIXEL))
    world.script(text("heard"))
    done = world.cli.typed("agent", stdin="!echo by-hand\n#a note\nsee @a.txt and @p.png\n/exit\n")
    assert done.code == 0, done.err
    words, made, file, picture = said(world)
    assert words == "see @a.txt and @p.png"
    assert "by-hand" in made
    assert "the-file-itself" in file
    assert "p.png" in picture
    assert "mock cannot read pictures, so they are left out" in done.err
    assert world.rows("SELECT content FROM memories") == [("a note",)]


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def test_a_picture_and_a_resource_go_along_over_a_wire_that_has_them(world: World, needs: Callable[[str], str]) -> None:
    """The menu has the servers' resources among the files; the request has the picture itself, and the words framed."""
    needs("bwrap")
    (world.workspace / "a shot.png").write_bytes(base64.b64decode(PIXEL))
    with ScriptedMessages([{"text": "seen both"}]) as model:
        wire = f'kind = "anthropic"\nbase_url = "{model.base_url}"\nmodel = "claude-haiku-4-5"\n'
        server = f'[mcp_servers.demo]\ncommand = "{sys.executable}"\nargs = ["{A_SERVER}"]\n'
        world.configure(more=f"[providers.models.claude]\n{wire}{server}")
        world.cli.env["ANTHROPIC_API_KEY"] = "sk-ant-api03-canary-0123456789abcdefghij"
        with Tmux(world, "agent", "--provider", "claude") as terminal:
            terminal.wait("supervised")
            terminal.write("compare @shot")
            terminal.wait("a shot.png")
            terminal.press("Tab")
            terminal.wait('> compare @"a shot.png"')
            terminal.write("with @note")
            terminal.wait("demo:note://one")
            terminal.press("Tab")
            terminal.wait("with @demo:note://one")
            terminal.press("Enter")
            terminal.wait("seen both", "supervised")
            terminal.press("C-d")
            terminal.wait("left with 0")
    (request,) = model.requests
    content = request.messages[-1]["content"]
    pictures = [block["source"] for block in content if block["type"] == "image"]
    assert pictures == [{"type": "base64", "media_type": "image/png", "data": PIXEL}]
    words, shot, note = [block["text"] for block in content if block["type"] == "text"]
    assert words == 'compare @"a shot.png" with @demo:note://one '
    assert "a shot.png" in shot
    kept = [block["text"] for block in world.entries("user")[-1]["content"] if "text" in block][-1]
    framed = kept[kept.index("<outside-") : kept.rindex("</outside-")]
    assert "the first note" in note
    assert "the first note" in framed
    assert [(one["tool"], one["status"]) for one in world.receipts()] == [
        ("Read", "allowed"),
        ("ReadMcpResource", "allowed"),
    ]


def test_a_dropped_picture_is_named_and_a_shorter_name_is_looked_for_again(world: World) -> None:
    picture = world.workspace / "a shot.png"
    picture.write_bytes(base64.b64decode(PIXEL))
    with Tmux(world, "agent") as terminal:
        terminal.wait("supervised")
        terminal.paste(str(picture).replace(" ", "\\ "))
        terminal.wait('> @"')
        terminal.press("C-c")
        terminal.wait("supervised", gone='@"')
        terminal.write("@shotx")
        terminal.wait("> @shotx", "supervised")
        terminal.press("BSpace")
        terminal.wait("a shot.png")
        terminal.press("C-c", "C-d")
        terminal.wait("left with 0")


def test_long_pastes_are_one_chip_and_name_no_files(world: World) -> None:
    (world.workspace / "a.txt").write_text("the-file-itself", encoding="utf-8")
    world.script(text("answer-one"), text("answer-two"))
    with Tmux(world, "agent") as terminal:
        terminal.wait("supervised")
        terminal.write("this: ")
        terminal.paste("/help @a.txt\x00\n" + "line of many\n" * 9_999)
        terminal.wait("[pasted text 1, 10,001 lines]")
        terminal.press("Enter")
        terminal.wait("answer-one", "supervised")
        assert "line of many" not in terminal.all()
        assert said(world) == ["this: /help @a.txt\n" + "line of many\n" * 9_999]
        terminal.paste("x" * 1_000_000)
        terminal.wait("[pasted text 2, 1,000,000 characters]")
        terminal.press("Enter")
        terminal.wait("answer-two", "supervised")
        assert said(world) == ["x" * 1_000_000]
        terminal.press("C-d")
        terminal.wait("left with 0")


def test_the_history_is_searched_across_conversations_and_has_no_secrets(world: World) -> None:
    world.cli.env["OPENAI_API_KEY"] = "sk-proj-canary0123456789abcdef"
    world.script(text("one"), text("two"))
    history = world.cli.data / "repl_history"
    with Tmux(world, "agent") as terminal:
        terminal.wait("supervised")
        for line in ("first words", "second words", "the key sk-proj-canary0123456789abcdef"):
            terminal.write(f"#{line}")
            terminal.press("Enter")
            terminal.wait(f"remembered as '{line[:7]}", "supervised")
        terminal.press("C-d")
        terminal.wait("left with 0")
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert "canary" not in history.read_text(encoding="utf-8")
    assert len(history.read_text(encoding="utf-8").splitlines()) == 3
    with Tmux(world, "agent") as terminal:
        terminal.wait("supervised")
        terminal.press("C-r")
        terminal.write("first")
        terminal.wait("> #first words", "first")
        terminal.press("C-g")
        terminal.wait("supervised", gone="#first words")
        terminal.write("#se")
        terminal.press("Up")
        terminal.wait("> #second words")
        terminal.press("C-c")
        terminal.wait("supervised", gone="second")
        terminal.press("C-c")
        terminal.wait("press Ctrl-C again to leave")
        terminal.press("C-c")
        terminal.wait("left with 0")


def test_the_input_is_written_in_an_editor(world: World, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "edited\\nin two lines" >> "$1"\n', encoding="utf-8")
    editor.chmod(0o755)
    world.script(text("heard"))
    with Tmux(world, "agent", env={"EDITOR": str(editor)}) as terminal:
        terminal.wait("supervised")
        terminal.write("begun and ")
        terminal.press("C-g")
        terminal.wait("begun and edited", "in two lines")
        terminal.press("Enter")
        terminal.wait("heard")
    assert said(world) == ["begun and edited\nin two lines"]


def test_vi_keys_by_a_setting(world: World) -> None:
    world.configure(more='[repl]\nediting = "vi"')
    world.script(text("heard"))
    with Tmux(world, "agent") as terminal:
        terminal.wait("supervised")
        terminal.write("one two three")
        terminal.press("Escape")
        terminal.wait("one two three")
        terminal.write("bdw0x")
        terminal.wait("> ne two", gone="three")
        terminal.press("Enter")
        terminal.wait("heard")
    assert said(world) == ["ne two "]


def test_a_line_of_a_megabyte_that_is_typed_is_a_chip_and_all_of_it_arrives(world: World) -> None:
    world.script(text("heard"))
    with Tmux(world, "agent") as terminal:
        terminal.wait("supervised")
        terminal.type_raw("y" * 1_000_000)
        terminal.write("z")
        terminal.wait("yz\n")
        terminal.press("Enter")
        terminal.wait("heard")
    (words,) = said(world)
    assert words == "y" * 1_000_000 + "z"


def test_ctrl_d_while_a_turn_runs_or_a_question_is_open(world: World) -> None:
    world.script(call("Write", file_path="x.txt", content="x"), call("Bash", command="sleep 100"), text("never"))
    with Tmux(world, "agent") as terminal:
        terminal.wait("supervised")
        terminal.write("go")
        terminal.press("Enter")
        terminal.wait("1. yes")
        terminal.press("C-d")
        terminal.paste("y")
        terminal.press("C-c")
        terminal.wait("denied by", "runs", "> y")  # what was not sent is in the input
        assert not (world.workspace / "x.txt").exists()
        terminal.press("BSpace", "C-d")
        terminal.wait("press Ctrl-D again")
        terminal.press("C-d")
        terminal.wait("left with")
