"""Whole screens as text, in a usual terminal and in a small one; `python -m tests.acceptance.test_screens` takes them
anew into tests/acceptance/screens/, where a person looks at them before they count."""

import re
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.acceptance.tmux import Tmux
from tests.acceptance.world import World, call, text
from tests.program import Cli

SIZES = [(80, 24), (40, 12)]
FOLDER = Path(__file__).parent / "screens"
ANSWER = "It adds **now**:\n\n- one\n- two\n\n```python\nadd(1, 2)\n```"


@contextmanager
def short() -> Generator[World]:
    """A world whose paths are as long on every machine: lines break at the same place."""
    with tempfile.TemporaryDirectory(prefix="seen-", dir="/tmp") as folder:
        root = Path(folder)
        (root / "home").mkdir()
        (root / "cwd").mkdir()
        yield World(Cli(root / "home", root / "cwd"), root)


class Walk:
    """Screens one after the other, with their names."""

    def __init__(self, world: World, size: tuple[int, int]) -> None:
        self._world, self._size = world, size
        self._masks = [
            (world.workspace.parent.name, "seen-00000000"),
            (r" · [\d.]+ s$", ""),
            (r"yes by .*$", "yes by X"),
            (r"\((?:\d+ s|\d+ s, [\d,]+ tokens);", "(0 s;"),
            (r"[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", "⠋"),
            (r"^ *(?:just now|\d+ (?:min|h) ago)", " just now"),
        ]
        self.seen = ""

    def take(self, name: str, terminal: Tmux, *texts: str, gone: str = "") -> None:
        """What is on the screen as soon as it shows these."""
        terminal.wait(*texts, gone=gone)
        shown = "\n".join(terminal.all().split("\n")[-self._size[1] :])
        for pattern, mask in self._masks:
            shown = re.sub(pattern, mask, shown, flags=re.MULTILINE)
        self.seen += f"=== {name}\n{shown}\n"

    def before(self) -> None:
        world = self._world
        world.script(text("Apples are fruit."))
        assert world.agent("tell me of apples, of pears and of all the other fruit that there is").code == 0
        (world.workspace / "calc.py").write_text("def add(a, b):\n    return a - b\n", encoding="utf-8")
        edit = call("Edit", file_path="calc.py", old_string="a - b", new_string="a + b")
        sleep = call("Bash", command="sleep 99")
        world.script(call("Read", file_path="calc.py"), edit, text(ANSWER), sleep, text("Heard the next one."))

    def conversation(self, terminal: Tmux) -> None:
        self.take("first", terminal, "supervised")
        terminal.write("/re")
        self.take("slash menu", terminal, "/rewind", "/reset")
        terminal.press("Down")
        self.take("slash menu, the first one chosen", terminal, "> /resume")
        terminal.press("C-c")
        terminal.wait("supervised", gone="/resume")
        for mode in ("acceptEdits", "plan", "default"):
            terminal.press("BTab")
            self.take(f"mode {mode}", terminal, f"mode: {mode}")
        terminal.write("fix it")
        terminal.press("Enter")
        self.take("approval with a diff", terminal, "6. no, and")
        terminal.press("y", "Enter")
        self.take("an edit and an answer", terminal, "add(1, 2)", "default · mock", gone="Esc interrupts")
        terminal.write("sleep well")
        terminal.press("Enter")
        terminal.wait("sleep 99 · runs")
        terminal.write("and now this, which is longer than a narrow terminal")
        terminal.press("Enter")
        self.take("queued input", terminal, "queued: ", "runs", "Esc interrupts", gone="> and now")
        terminal.press("Escape")
        self.take("interrupted", terminal, "Heard the next one.", "default · mock", gone="Esc interrupts")
        terminal.press("Escape", "Escape")
        self.take("rewind", terminal, "Go back to before", "fix it")
        terminal.press("Down", "Down", "Enter")
        self.take("rewind, what it changes", terminal, "What should be", "4. never mind")
        terminal.press("b", "Enter")
        self.take("rewound", terminal, "as it was before", "default · mock", gone="never mind")
        terminal.write("/export talk.html")
        terminal.press("Enter")
        self.take("export", terminal, "written to", "default · mock")
        shown = terminal.all()
        assert "working" not in shown, "what was drawn for a moment stays nowhere"
        assert shown.count("2 +     return a + b") == 1, "a change is read once: where it was asked about, or done"
        terminal.press("C-d")
        terminal.wait("left with 0")

    def picker(self, terminal: Tmux) -> None:
        self.take("resume picker", terminal, "Which conversation?", "leaves")
        terminal.write("appl")
        self.take("resume picker, filtered", terminal, "Which conversation? appl", gone="fix it")


def walked(world: World, size: tuple[int, int]) -> str:
    walk = Walk(world, size)
    walk.before()
    with Tmux(world, "agent", columns=size[0], rows=size[1]) as terminal:
        walk.conversation(terminal)
    with Tmux(world, "-r", columns=size[0], rows=size[1]) as terminal:
        walk.picker(terminal)
    return walk.seen


def _file(size: tuple[int, int]) -> Path:
    return FOLDER / f"{size[0]}x{size[1]}.txt"


@pytest.mark.parametrize("size", SIZES)
def test_screens_are_as_they_were_looked_at(size: tuple[int, int]) -> None:
    with short() as world:
        seen = walked(world, size)
    assert seen == _file(size).read_text(encoding="utf-8")
    assert all(len(line) <= size[0] for line in seen.split("\n") if not line.startswith("==="))


if __name__ == "__main__":
    for one in SIZES[::-1]:
        with short() as made:
            _file(one).write_text(walked(made, one), encoding="utf-8")
