"""Text that would steer a terminal, from everywhere it may come: it is shown, and nothing obeys it."""

import time

from tests.acceptance.tmux import PATIENCE, Tmux
from tests.acceptance.world import World, call, text

STEERS = "\x1b]0;owned\x07\x1b[2J\x1b[3J\x1b[?1049h\x1b[31m\x1bc\x9b2J\x1b]52;c;b3duZWQ=\x07\u202e\x08\x08\r"
PRINTED = r"printf '\033]0;owned\007\033[2J\033[3J\033[?1049h\033c\r\b seen-%s\n' 1"
LONG = "head -c 1000000 /dev/zero | tr '\\0' x"


def unsteered(terminal: Tmux) -> str:
    shown = terminal.all()
    assert "owned" not in terminal.title()
    assert not terminal.is_alternate()
    assert "\u202e" not in shown
    return shown


def test_nothing_that_is_shown_steers_the_terminal(world: World) -> None:
    world.configure(autonomy="full")
    name = f"file{STEERS}.txt"
    (world.workspace / name).write_text("x\n", encoding="utf-8")
    (world.workspace / ".git").mkdir()
    (world.workspace / ".git/HEAD").write_text(f"ref: refs/heads/b{STEERS}\n", encoding="utf-8")
    world.script(
        call("LS", path="."),
        call("Read", file_path=name),
        call("Bash", command=f"{PRINTED}; {LONG}"),
        text(f"from the model {STEERS} and on\n\n```\n{STEERS}\n```\n\nend-one"),
        text(f"{STEERS}\n\n" + "y" * 1_000_000 + f"\n\nend-two {STEERS}"),
        call("Bash", command="touch began; sleep 100"),
    )
    with Tmux(world, "agent", shell=True) as terminal:
        terminal.wait("full · mock")
        terminal.write("go")
        terminal.press("Enter")
        terminal.wait("end-one", "full")
        shown = unsteered(terminal)
        assert "AdderClaw in" in shown, "nothing was cleared"
        assert "seen-1" in shown
        assert "from the model" in shown
        terminal.resize(20, 12)
        terminal.press("C-z")
        terminal.wait("Stopped")
        terminal.write("fg")
        terminal.press("Enter")
        terminal.wait(">", "full")
        terminal.write("more")
        terminal.press("Enter")
        for columns, rows in ((20, 8), (133, 50), (20, 24), (80, 24)):  # while it is drawn, whatever has come by then
            terminal.resize(columns, rows)
        terminal.wait("end-two", "full · mock")
        unsteered(terminal)
        terminal.write("on")
        terminal.press("Enter")
        terminal.until(lambda: (world.workspace / "began").exists())
    until = time.monotonic() + PATIENCE  # the terminal was closed in the middle of a call
    while world.rows("SELECT outcome FROM runs") == [(None,)]:
        assert time.monotonic() < until, world.rows("SELECT event_type, detail FROM events")
        time.sleep(0.05)
    assert world.rows("SELECT outcome FROM runs") == [("stopped",)]
