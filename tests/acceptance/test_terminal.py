"""The REPL in a real terminal: what a person sees, and what their keys do."""

import re

from tests.acceptance.tmux import Tmux
from tests.acceptance.world import World, call, text


def test_the_first_screen_says_where_it_is(world: World) -> None:
    with Tmux(world, "agent") as terminal:
        screen = terminal.wait("AdderClaw in", "supervised")
        assert str(world.workspace)[:40] in screen.replace("\n  ", "")
        terminal.press("C-d")
        terminal.wait("left with 0")


def test_a_turn_with_a_question_is_seen_as_its_receipts_have_it(world: World) -> None:
    (world.workspace / "calc.py").write_text("def add(a, b):\n    return a - b\n", encoding="utf-8")
    world.script(
        call("Read", file_path="calc.py"),
        call("Edit", file_path="calc.py", old_string="a - b", new_string="a + b"),
        call("Bash", command="seq 1 30"),
        call("Bash", command="sudo reboot"),
        text("# Done\n\nIt adds *now*.\n\n```python\nreturn a + b\n```\n"),
    )
    with Tmux(world, "agent") as terminal:
        terminal.wait("supervised")
        terminal.write("fix it")
        terminal.press("Enter")
        asked = terminal.wait("Edit", "1. yes")
        assert re.search(r"2 - +return a - b\n +2 \+ +return a \+ b", asked), "it is shown as a diff before it is done"
        assert "old_string" not in asked
        terminal.write("y")
        terminal.wait("It adds now.", "return a + b")
        terminal.press("C-d")
        terminal.wait("left with 0")
        shown = terminal.all()
    assert "> fix it" in shown
    assert re.search(r"2 - +return a - b\n +2 \+ +return a \+ b", shown)
    heads = re.findall(r"(?m)^● (\w+) .*· (ran|denied)", shown)
    states = {"allowed": "ran", "denied": "denied"}
    assert heads == [(receipt["tool"], states[receipt["status"]]) for receipt in world.receipts()]
    assert "more lines (Ctrl-O shows all)" in shown


def test_escape_interrupts_and_what_was_queued_comes_next(world: World) -> None:
    world.script(call("Bash", command="sleep 100"), text("after the interruption"))
    with Tmux(world, "agent") as terminal:
        terminal.wait("supervised")
        terminal.write("sleep")
        terminal.press("Enter")
        terminal.wait("runs")
        terminal.write("and now this")
        terminal.press("Enter")
        terminal.wait("queued: and now this")
        terminal.press("Escape")
        screen = terminal.wait("after the interruption")
        assert "interrupted" in terminal.all()
        assert "queued" not in screen
        terminal.press("C-d")
        terminal.wait("left with 0")


def test_what_was_typed_before_the_question_answers_nothing(world: World) -> None:
    world.script(call("Write", file_path="x.txt", content="x"), text("end of it"))
    with Tmux(world, "agent") as terminal:
        terminal.wait("supervised")
        terminal.write("go")
        terminal.press("Enter", "y", "y", "Enter")
        terminal.wait("1. yes")
        assert not (world.workspace / "x.txt").exists()
        terminal.press("Escape")
        terminal.wait("denied by")
        assert not (world.workspace / "x.txt").exists()


def test_a_no_may_say_what_to_do_instead(world: World) -> None:
    world.script(call("Write", file_path="x.txt", content="x"), text("as you like"))
    with Tmux(world, "agent") as terminal:
        terminal.wait("supervised")
        terminal.write("go")
        terminal.press("Enter")
        terminal.wait("1. yes")
        terminal.write("i")
        terminal.wait("say:")
        terminal.write("use y.txt")
        terminal.press("Enter")
        terminal.wait("as you like")
    assert "use y.txt" in str(world.entries("tool_result"))


def test_a_narrow_terminal_and_no_colour(world: World) -> None:
    world.script(call("LS", path="."), text("a | b and some more words than fit into one line of it"))
    with Tmux(world, "agent", columns=20, rows=12, env={"NO_COLOR": "1", "LANG": "C"}) as terminal:
        terminal.wait(">")
        terminal.write("look")
        terminal.press("Enter")
        terminal.wait("line of it")
        assert all(len(line) <= 20 for line in terminal.screen().split("\n"))
        assert terminal.all().isascii()


def test_a_running_command_shows_its_last_lines(world: World) -> None:
    world.configure(autonomy="full")
    world.script(call("Bash", command="seq 1 40; sleep 100"), text("end"))
    with Tmux(world, "agent") as terminal:
        terminal.wait("full")
        terminal.write("go")
        terminal.press("Enter")
        screen = terminal.wait("38", "39", "40", "runs")
        assert "37" not in screen.partition("runs")[2]
        terminal.press("Escape")
        terminal.wait("interrupted")


def test_escape_twice_goes_back_after_the_diff_was_shown(world: World) -> None:
    (world.workspace / "a.txt").write_text("before\n", encoding="utf-8")
    world.configure(autonomy="full")
    world.script(
        call("Read", file_path="a.txt"),
        call("Edit", file_path="a.txt", old_string="before", new_string="after"),
        text("changed it"),
    )
    with Tmux(world, "agent") as terminal:
        terminal.wait("full")
        terminal.write("change it")
        terminal.press("Enter")
        terminal.wait("changed it", "full · mock")
        terminal.press("Escape")
        terminal.press("Escape")
        terminal.wait("Go back to before which message?", "change it")
        terminal.press("Enter")
        terminal.wait("What is to be as it was?", "-after", "+before")
        assert (world.workspace / "a.txt").read_text(encoding="utf-8") == "after\n"
        terminal.write("b")
        terminal.wait("undoes it", "the conversation is as it was")
        assert (world.workspace / "a.txt").read_text(encoding="utf-8") == "before\n"


def test_a_call_is_asked_about_by_its_arguments_and_what_it_touches(world: World) -> None:
    world.script(
        call("Http", url="http://example.org/x", method="POST", body="line one\nline two \u202etxt"),
        call("Bash", command="touch made.txt && mkdir -p sub"),
        text("end of it"),
    )
    with Tmux(world, "agent", rows=40) as terminal:
        terminal.wait("supervised")
        terminal.write("go")
        terminal.press("Enter")
        screen = terminal.wait("1. yes")
        while "Http" in screen and "end of it" not in screen and "made.txt" not in screen:
            assert "url: http://example.org/x" in screen
            assert "body: line one" in screen
            assert "\u202e" not in screen
            terminal.press("n")
            screen = terminal.wait("denied by", "made.txt")
        screen = terminal.wait("touch made.txt", "writes: made.txt", "1. yes")
        terminal.press("n")
        terminal.wait("end of it")
