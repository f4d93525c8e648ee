"""The program in a real terminal: tmux shows what a person would see, and presses keys."""

import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.acceptance.world import World
from tests.program import PROGRAM

PATIENCE = 60.0
"""Seconds that a loaded machine may need to show something."""


_NUMBERS = count()


class Tmux:
    """`with Tmux(world, "agent") as terminal: terminal.wait("> ")`; the screen is text, line by line."""

    def __init__(
        self,
        world: World,
        *arguments: str,
        columns: int = 80,
        rows: int = 24,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        shell: bool = False,
    ) -> None:
        program = shutil.which("tmux")
        if program is None:
            pytest.skip("tmux is not installed")
        self._socket = str(world.cli.home / f"tmux-{next(_NUMBERS)}")
        self._tmux = [program, "-S", self._socket, "-f", "/dev/null"]
        given = {**world.cli.env, "TERM": "tmux-256color", "COLORTERM": "", **(env or {})}
        words = ["env", "-i", *(f"{name}={value}" for name, value in given.items()), str(PROGRAM), *arguments]
        line = f'{shlex.join(words)}; echo "left with $?"; sleep 600'
        if shell:  # one that has jobs, as a person's has; `$ ` is its prompt
            given["PS1"] = "$ "
            variables = [f"{name}={value}" for name, value in given.items()]
            line = shlex.join(["env", "-i", *variables, "bash", "--norc", "--noprofile", "-i"])
        size = ["-x", str(columns), "-y", str(rows)]
        self._run("new-session", "-d", *size, "-c", str(cwd or world.workspace), line)
        self._run("set-option", "-g", "history-limit", "100000")
        if shell:
            self.wait("$")
            self.write(shlex.join([str(PROGRAM), *arguments]))
            self.press("Enter")
        self._run("set-option", "-s", "set-clipboard", "on")

    def _run(self, *arguments: str) -> str:
        done = subprocess.run([*self._tmux, *arguments], capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def press(self, *keys: str) -> None:
        """Keys by the names that tmux has for them: Enter, Escape, C-c, BTab, Up …"""
        self._run("send-keys", *keys)

    def write(self, text: str) -> None:
        self._run("send-keys", "-l", text)

    def paste(self, text: str) -> None:
        subprocess.run([*self._tmux, "load-buffer", "-"], input=text.encode(), check=True, timeout=30)
        self._run("paste-buffer", "-p", "-r")

    def type_raw(self, text: str) -> None:
        """As if it was typed very quickly: nothing marks it as pasted."""
        subprocess.run([*self._tmux, "load-buffer", "-"], input=text.encode(), check=True, timeout=30)
        self._run("paste-buffer", "-r")

    def clipboard(self) -> str:
        """What the program gave to the terminal's clipboard."""
        return self._run("show-buffer")

    def resize(self, columns: int, rows: int) -> None:
        self._run("resize-window", "-x", str(columns), "-y", str(rows))

    def screen(self) -> str:
        """What is on the screen now."""
        return "\n".join(line.rstrip() for line in self._run("capture-pane", "-p").split("\n")).rstrip()

    def title(self) -> str:
        return self._run("display-message", "-p", "#{pane_title}").rstrip("\n")

    def is_alternate(self) -> bool:
        """Whether the program shows another page than the one with the scrollback."""
        return self._run("display-message", "-p", "#{alternate_on}").strip() == "1"

    def coloured(self) -> str:
        """What is on the screen now, with the codes of its colours."""
        return self._run("capture-pane", "-p", "-e").rstrip()

    def all(self) -> str:
        """The scrollback and the screen."""
        lines = self._run("capture-pane", "-p", "-J", "-S", "-").split("\n")
        return "\n".join(line.rstrip() for line in lines).rstrip()

    def wait(self, *texts: str, gone: str = "") -> str:
        """The screen, as soon as it shows all of these, and no longer what must be gone."""
        until = time.monotonic() + PATIENCE
        while True:
            screen = self.screen()
            if all(text in screen for text in texts) and not (gone and gone in screen):
                return screen
            assert time.monotonic() < until, f"{texts} (without {gone!r}) never came:\n{self.all()}"
            time.sleep(0.05)

    def until(self, holds: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < until, f"it never was so ({self.title()}):\n{self.all()}"
            time.sleep(0.05)

    def wait_for_number(self, text: str, times: int) -> None:
        """Until something has been shown so often, in the scrollback or on the screen, and the input is there."""
        until = time.monotonic() + PATIENCE
        while self.all().count(text) < times or not self.screen().split("\n")[-2].startswith(">"):
            assert time.monotonic() < until, f"{text} was not shown {times} times:\n{self.all()}"
            time.sleep(0.05)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False, timeout=30)
