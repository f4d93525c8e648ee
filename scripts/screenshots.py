"""Draw the pictures of the terminal in docs/pictures: the REPL under tmux with a scripted model, then Chromium.

`make screenshots`; needs tmux and Chromium.
"""

import html
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE))

from tests.acceptance.tmux import Tmux  # noqa: E402 - found from here on
from tests.acceptance.world import World, call, text  # noqa: E402
from tests.program import Cli  # noqa: E402

PICTURES = HERE / "docs" / "pictures"
COLUMNS, ROWS = 80, 24
SGR = re.compile(r"\x1b\[([0-9;]*)m")
OTHER = re.compile(r"\x1b(\[[0-9;?]*[A-Za-ln-z]|\][^\x1b\x07]*(\x1b\\|\x07)|[()][A-Z0-9]|[=>])|[\x0e\x0f]")
DARK = ("#1e1e2a", "#d8d8e0", ("#1e1e2a", "#e06c75", "#8cc570", "#d9b25f", "#6aa5e8", "#c586c0", "#56b6c2", "#d8d8e0"))
LIGHT = ("#fbfbf8", "#24242c", ("#24242c", "#b3261e", "#1f7a36", "#8a6100", "#1558b0", "#7b3aa0", "#0b7285", "#5c5c66"))
BEGINS = {1: ("font-weight", "bold"), 2: ("opacity", ".65"), 3: ("font-style", "italic")}
ENDS = {
    22: ("font-weight", "opacity"),
    23: ("font-style",),
    27: ("background", "color"),
    39: ("color",),
    49: ("background",),
}
PAGE = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; background: {back}; }}
pre {{ margin: 14px 16px; color: {fore}; font: 14px/19px "DejaVu Sans Mono", monospace; }}
</style><pre>{body}</pre>"""

ANSWER = """`add` subtracted. It **adds** now:

```python
def add(a, b):
    return a + b
```

The test passes.
"""

type Colours = tuple[str, str, tuple[str, ...]]


class Look:
    """What the codes so far ask for."""

    def __init__(self, colours: Colours) -> None:
        self.back, self.fore, self.names = colours
        self.set: dict[str, str] = {}

    def take(self, codes: str) -> None:
        numbers = [int(code) for code in codes.split(";") if code] or [0]
        while numbers:
            code = numbers.pop(0)
            if code == 0:
                self.set.clear()
            elif code in (38, 48) and numbers[:1] == [5]:
                self.set["color" if code == 38 else "background"] = self.names[numbers[1] % 8]
                del numbers[:2]
            elif 30 <= code <= 37 or 90 <= code <= 97:
                self.set["color"] = self.names[code % 10] if code != 90 else "#8a8a94"
            elif code in ENDS:
                for name in ENDS[code]:
                    self.set.pop(name, None)
            elif code == 7:
                self.set |= {"background": self.fore, "color": self.back}
            elif code in BEGINS:
                name, value = BEGINS[code]
                self.set[name] = value

    def span(self, shown: str) -> str:
        style = ";".join(f"{name}:{value}" for name, value in self.set.items())
        return f'<span style="{style}">{html.escape(shown)}</span>' if shown and style else html.escape(shown)


def page(screen: str, colours: Colours) -> str:
    """A captured screen, with its colours, as a page."""
    look, parts = Look(colours), list[str]()
    for number, part in enumerate(SGR.split(OTHER.sub("", screen))):
        if number % 2:
            look.take(part)
        else:
            parts.append(look.span(part))
    return PAGE.format(back=colours[0], fore=colours[1], body="".join(parts))


def draw(terminal: Tmux, name: str, colours: Colours = DARK) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("screenshots: Chromium is not installed; apt install chromium, or your system's package of it")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "page.html")
        screen = terminal.coloured().replace("⎿", "└")  # few fonts of browsers have the first one
        source.write_text(page(screen, colours), encoding="utf-8")
        size = f"--window-size={COLUMNS * 9},{ROWS * 19 + 28}"
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}/user"]
        made = PICTURES / f"{name}.png"
        subprocess.run(
            [chromium, *flags, size, f"--screenshot={made}", source.as_uri()],
            check=True,
            timeout=120,
            stderr=subprocess.DEVNULL,
        )
        print(f"{made.relative_to(HERE)}: {made.stat().st_size:,} bytes")


def todos(*states: str) -> dict[str, Any]:
    steps = ("Find the fault", "Mend it", "Run the tests")
    listed = [{"content": step, "status": state, "activeForm": step} for step, state in zip(steps, states, strict=True)]
    return call("TodoWrite", todos=listed)


def question(world: World) -> None:
    world.script(
        todos("in_progress", "pending", "pending"),
        call("Read", file_path="calc.py"),
        call("Edit", file_path="calc.py", old_string="return a - b", new_string="return a + b"),
        todos("completed", "completed", "in_progress"),
        call("Bash", command="python3 test_calc.py"),
        todos("completed", "completed", "completed"),
        text(ANSWER),
    )
    with Tmux(world, "agent", columns=COLUMNS, rows=ROWS) as terminal:
        terminal.wait("supervised")
        terminal.write("add() is wrong: mend it and run the test")
        terminal.press("Enter")
        terminal.wait("Edit: writes")
        draw(terminal, "approval")
        terminal.press("y", "Enter")
        terminal.wait("Bash: runs")
        terminal.press("y", "Enter")
        terminal.wait("The test passes.", gone="Esc interrupts")
        draw(terminal, "answer")


def menu(world: World) -> None:
    world.script(text("unused"))
    with Tmux(world, "agent", columns=COLUMNS, rows=ROWS, env={"COLORFGBG": "0;15"}) as terminal:
        terminal.wait("supervised")
        terminal.write("/re")
        terminal.wait("/re", "/resume")
        time.sleep(0.5)  # the menu is drawn in several steps
        draw(terminal, "menu", LIGHT)


@contextmanager
def plain_folder() -> Iterator[Path]:
    """A folder whose name reads well in a picture; it is an error where it is there already."""
    root = Path(tempfile.gettempdir()) / "ada"
    root.mkdir()
    try:
        yield root
    finally:
        shutil.rmtree(root)


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    scenes: tuple[Callable[[World], None], ...] = (question, menu)
    for scene in scenes:
        with plain_folder() as root:
            (root / "home").mkdir()
            (root / "cwd").mkdir()
            world = World(Cli(root / "home", root / "cwd"), root)
            world.workspace = world.cli.cwd = world.workspace.rename(root / "shop")
            world.configure()
            (world.workspace / "calc.py").write_text("def add(a, b):\n    return a - b\n", encoding="utf-8")
            (world.workspace / "test_calc.py").write_text(
                "from calc import add\n\nassert add(2, 2) == 4\nprint('1 passed')\n", encoding="utf-8"
            )
            scene(world)


main()
