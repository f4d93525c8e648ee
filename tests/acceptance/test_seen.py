"""What happens is seen: lists that tick, subagents that unfold, ends in the background."""

import time
from typing import Any

from adderclaw.terminal.repl.screen import SPINNER
from tests.acceptance.tmux import PATIENCE, Tmux
from tests.acceptance.world import World, call, text


def todos(*states: str) -> dict[str, Any]:
    listed = [{"content": f"step {at}", "status": state, "activeForm": "doing"} for at, state in enumerate(states)]
    return call("TodoWrite", todos=listed)


def test_a_list_ticks_and_stays_once(world: World) -> None:
    world.script(
        todos("in_progress", "pending"),
        todos("completed", "in_progress"),
        call("Write", file_path="x.txt", content="x"),
        todos("completed", "completed"),
        text("end of it"),
    )
    with Tmux(world, "agent") as terminal:
        terminal.wait("supervised")
        terminal.write("go")
        terminal.press("Enter")
        terminal.wait("1. yes")
        terminal.press("y", "Enter")
        terminal.wait("end of it", "☑ step 1")
        shown = terminal.all()
    assert shown.count("step 0") == shown.count("step 1") == 1
    heads = [line for line in shown.split("\n") if line.startswith("● TodoWrite")]
    assert [head.split(" · ")[0] for head in heads] == [f"● TodoWrite {done} of 2 done" for done in (0, 1, 2)]


def test_a_subagent_is_a_line_that_unfolds(world: World) -> None:
    (world.workspace / "deep.txt").write_text("found it\n", encoding="utf-8")
    world.script(
        call("Agent", description="look around", prompt="look", subagent_type="Explore"),
        call("Read", file_path="deep.txt"),
        text("the answer"),
    )
    with Tmux(world, "agent", rows=40) as terminal:
        terminal.wait("supervised")
        terminal.write("go")
        terminal.press("Enter")
        screen = terminal.wait("● Agent look around · ran", "Ctrl-O shows them", "supervised")
        assert "  ● Read deep.txt · ran" not in screen
        terminal.press("C-o")
        terminal.wait("  ● Read deep.txt · ran", "found it")


def test_an_end_in_the_background_is_a_notice(world: World) -> None:
    world.configure(autonomy="full")
    hostile = "until test -e go; do sleep 0.05; done; exit 3 # \x1b]0;owned\x07\nx"
    world.script(call("Bash", command=hostile, run_in_background=True), text("it runs"))
    with Tmux(world, "agent") as terminal:
        terminal.wait("full")
        terminal.write("start it")
        terminal.press("Enter")
        terminal.wait("it runs", "full · mock")
        assert "in the background:" not in terminal.all()
        (world.workspace / "go").touch()
        terminal.wait("· in the background: until test", "failed: exit code 3")
        terminal.press("C-d")
        terminal.wait("left with 0")


def test_the_status_names_the_branch_and_what_runs(world: World) -> None:
    world.configure(autonomy="full")
    (world.workspace / ".git").mkdir()
    (world.workspace / ".git/HEAD").write_text("ref: refs/heads/fix/\x1b[31mred\n", encoding="utf-8")
    world.script(call("Bash", command="sleep 100", run_in_background=True), text("it runs"))
    with Tmux(world, "agent") as terminal:
        assert "\x1b" not in terminal.wait("workspace (fix/", "31mred)")
        terminal.write("start it")
        terminal.press("Enter")
        terminal.wait("it runs", "1 task")
        terminal.press("C-d")
        terminal.wait("left with 0")


def test_plain_prints_lines_only_where_the_terminal_could_do_more(world: World) -> None:
    once = "test -e ../once || { touch ../once; echo 'and then?' >&2; exit 2; }"
    deny = "echo 'not this file' >&2; exit 2"
    world.configure(
        more=f"""
[repl]
plain = true
[hooks]
Stop = [{{hooks = [{{type = "command", command = "{once}"}}]}}]
PreToolUse = [{{matcher = "Read", hooks = [{{type = "command", command = "{deny}"}}]}}]
"""
    )
    world.script(
        {"text": "I write it.", **call("Write", file_path="x.txt", content="x")},
        call("Read", file_path="x.txt"),
        text("It is written."),
        text("And that was all."),
    )
    with Tmux(world) as terminal:
        terminal.wait("/exit leaves.", "\n>")
        terminal.write("go")
        terminal.press("Enter")
        terminal.wait("Approve? [y/N]")
        terminal.write("y")
        terminal.press("Enter")
        terminal.wait("And that was all.\n", "[denied]", "\n>")
        lines = terminal.all().split("\n")
    assert {"I write it.", "It is written.", "And that was all.", "  not this file"} <= set(lines), lines
    assert "* Write x.txt - ran - asked" in " ".join(lines)
    assert not any("1. yes" in line or "supervised" in line for line in lines)
    assert (world.workspace / "x.txt").exists()


def test_nothing_moves_with_no_motion(world: World) -> None:
    world.configure(autonomy="full")
    world.script(call("Bash", command="touch began; until test -e go; do sleep 0.05; done"), text("end of it"))
    with Tmux(world, "--no-motion") as terminal:
        terminal.wait("full")
        terminal.write("go")
        terminal.press("Enter")
        assert SPINNER[0] in terminal.wait("working")
        while not (world.workspace / "began").exists():
            assert not any(sign in terminal.screen() for sign in SPINNER[1:])
        (world.workspace / "go").touch()
        terminal.wait("end of it")


def test_a_terminal_that_closes_while_a_question_is_open_says_no(world: World) -> None:
    world.script(call("Write", file_path="x.txt", content="x"), text("end of it"))
    with Tmux(world, "agent") as terminal:
        terminal.wait("supervised")
        terminal.write("go")
        terminal.press("Enter")
        terminal.wait("1. yes")
    until = time.monotonic() + PATIENCE
    while (ended := world.rows("SELECT outcome FROM runs")) == [(None,)]:
        assert time.monotonic() < until, world.rows("SELECT event_type, detail FROM events")
        time.sleep(0.05)
    assert ended == [("stopped",)]
    assert not (world.workspace / "x.txt").exists()
    assert "allowed" not in [receipt["status"] for receipt in world.receipts()]
