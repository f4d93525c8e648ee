"""The REPL in a real terminal: what a person sees, and what their keys do."""

import json
import re

from tests.acceptance.test_subagents import helper, send
from tests.acceptance.tmux import Tmux
from tests.acceptance.world import World, call, text


def test_the_first_screen_says_where_it_is(world: World) -> None:
    with Tmux(world, "agent") as terminal:
        screen = terminal.wait("AdderClaw in", "supervised")
        assert str(world.workspace)[:40] in screen.replace("\n  ", "")
        terminal.press("C-d")
        terminal.wait("left with 0")


HEAD = re.compile(r"(?m)^( *)● (\w+) .*· (ran|failed|denied)(?:, exit (\d+))?")
STATES = {"allowed": "ran", "failed": "failed", "denied": "denied"}


def heads(shown: str, inset: str = "") -> list[tuple[str, str, str]]:
    return [(tool, state, code) for before, tool, state, code in HEAD.findall(shown) if before == inset]


def by_receipts(world: World, *, child: bool) -> list[tuple[str, str, str]]:
    of_children = "session_id IN (SELECT session_id FROM subagents)"
    ids = {id for (id,) in world.rows(f"SELECT json_extract(line, '$.id') FROM receipts WHERE {of_children}")}
    found = [one for one in world.receipts() if (one["id"] in ids) == child]
    return [(one["tool"], STATES[one["status"]], str(one["decision"].get("exit_code", ""))) for one in found]


def test_what_is_seen_of_every_call_is_what_its_receipt_has(world: World) -> None:
    (world.workspace / "calc.py").write_text("def add(a, b):\n    return a - b\n# end\n", encoding="utf-8")
    guard = {"type": "command", "command": "grep -q hooked && { echo not this file >&2; exit 2; }; exit 0"}
    hooks = {"PreToolUse": [{"matcher": "Read", "hooks": [guard]}]}
    (world.cli.data / "settings.json").write_text(json.dumps({"hooks": hooks}), encoding="utf-8")
    sudo = call("Bash", command="sudo reboot")
    helper(
        world, call("Read", file_path="calc.py"), call("Read", file_path="missing.txt"), sudo, text("child's answer")
    )
    world.script(
        call("Read", file_path="calc.py"),
        call("Edit", file_path="calc.py", old_string="a - b", new_string="a + b"),
        call("Write", file_path="calc.py", content="def add(a, b):\n    return b + a\n# end\n"),
        call("Write", file_path="no.txt", content="x"),
        call("Read", file_path="hooked.txt"),
        call("Read", file_path="missing.txt"),
        call("NoSuchTool", x=1),
        call("Bash", command="seq 1 30"),
        call("Bash", command="ls nowhere"),
        sudo,
        send(),
        text("# Done\n\nIt adds *now*.\n\n```python\nreturn b + a\n```\n"),
    )
    with Tmux(world, "agent") as terminal:
        terminal.wait("supervised")
        terminal.write("fix it")
        terminal.press("Enter")
        asked = terminal.wait("Edit", "1. yes")
        assert re.search(r"2 - +return a - b\n +2 \+ +return a \+ b", asked), "it is shown as a diff before it is done"
        assert "old_string" not in asked
        terminal.press("y", "Enter")
        terminal.wait("+     return b + a", "1. yes")
        terminal.press("y", "Enter")
        terminal.wait("no.txt", "1. yes")
        terminal.press("n", "Enter")
        terminal.wait("It adds now.", "return b + a", "supervised")
        shown = terminal.all()
        terminal.press("C-o")
        terminal.wait("  ● Bash sudo reboot · denied")
        unfolded = terminal.all()
        terminal.press("C-d")
        terminal.wait("left with 0")
    assert "> fix it" in shown
    changes = re.findall(r"1 line added, 1 line removed\n.*\n +2 - +(.*)\n +2 \+ +(.*)\n", shown)
    assert changes == [("return a - b", "return a + b"), ("return a + b", "return b + a")], "each once, as it was"
    assert heads(shown) == by_receipts(world, child=False)
    assert heads(unfolded, "  ") == by_receipts(world, child=True)
    assert {state for _, state, _ in heads(unfolded, "  ")} == {"ran", "failed", "denied"}
    assert "more lines (Ctrl-O shows all)" in shown
    assert "not this file" in shown
    with Tmux(world, "agent", "-c", rows=100) as terminal:
        terminal.wait("It adds now.", "supervised")
        assert heads(terminal.all()) == heads(shown), "what is seen later is what was seen then"
        terminal.press("C-d")
        terminal.wait("left with 0")
    first = world.rows("SELECT run_id FROM runs ORDER BY rowid LIMIT 1")[0][0]
    assert world.cli("replay", first, "--verify").code == 0


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


def test_at_the_limit_of_rounds_the_person_decides_on_the_screen_too(world: World) -> None:
    world.configure(rounds=1)
    world.script(call("time"), call("time"), text("done after all"))
    with Tmux(world, "agent") as terminal:
        terminal.wait("supervised")
        terminal.write("go")
        terminal.press("Enter")
        terminal.wait("1 rounds of tool calls", "Continue?", "1. yes")
        terminal.press("y", "Enter")
        terminal.wait("done after all", gone="1. yes")
        terminal.press("C-d")
        terminal.wait("left with 0")


def test_what_was_typed_before_the_question_answers_nothing(world: World) -> None:
    world.script(call("Write", file_path="x.txt", content="x"), text("end of it"))
    with Tmux(world, "agent") as terminal:
        terminal.wait("supervised")
        terminal.write("go")
        terminal.press("Enter", "y", "y", "Enter", "y")
        terminal.wait("1. yes", "queued: yy", gone="after a pause")
        assert not (world.workspace / "x.txt").exists()
        terminal.press("Escape")
        terminal.wait("denied by")
        assert not (world.workspace / "x.txt").exists()


def test_a_sentence_typed_at_a_question_is_the_next_message(world: World) -> None:
    """Its first letter is that of "yes, always in this session"."""
    write = call("Write", file_path="x.txt", content="x")
    world.script(write, text("as you like"), text("stopped that, too"))
    with Tmux(world, "agent") as terminal:
        terminal.wait("supervised")
        terminal.write("go")
        terminal.press("Enter")
        terminal.wait("1. yes")
        terminal.write("also stop that")
        terminal.wait("message: also stop that", "the question stays open", gone="> 1. yes")
        terminal.press("Enter")
        terminal.wait("queued: also stop that", "1. yes")
        assert not (world.workspace / "x.txt").exists()
        terminal.press("n")
        terminal.wait("no (n)")
        terminal.press("Enter")
        terminal.wait("denied by", "> also stop that", "stopped that, too")
    assert not (world.workspace / "x.txt").exists()


def test_a_no_may_say_what_to_do_instead(world: World) -> None:
    world.script(call("Write", file_path="x.txt", content="x"), text("as you like"))
    with Tmux(world, "agent") as terminal:
        terminal.wait("supervised")
        terminal.write("go")
        terminal.press("Enter")
        terminal.wait("1. yes")
        terminal.press("i", "Enter")
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
        terminal.wait("What should be restored?", "-after", "+before")
        assert (world.workspace / "a.txt").read_text(encoding="utf-8") == "after\n"
        terminal.press("b", "Enter")
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
            terminal.press("n", "Enter")
            screen = terminal.wait("denied by", "made.txt")
        screen = terminal.wait("touch made.txt", "writes: made.txt", "1. yes")
        terminal.press("n", "Enter")
        terminal.wait("end of it")
