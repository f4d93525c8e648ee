"""How this terminal is drawn on: what it can show, and what its person wants."""

import os
import sys
from contextlib import suppress

from prompt_toolkit.output.vt100 import Vt100_Output

from adderclaw.core.record import NamedTuple


class TerminalMode(NamedTuple):
    """How this terminal is drawn on: what it can show, and what its person wants."""

    colours: bool = True
    motion: bool = True
    unicode: bool = True
    links: bool = False
    light: bool = False


def detect_mode(*, motion: bool = True, theme: str = "auto") -> TerminalMode:
    """What this terminal can show, as far as its environment says."""
    env = os.environ
    language = env.get("LANG", "")
    # Python itself sets LC_CTYPE where LANG is C
    coerced = language in ("C", "POSIX") and env.get("LC_CTYPE") == "C.UTF-8"
    letters = env.get("LC_ALL") or ("" if coerced else env.get("LC_CTYPE")) or language
    known = env.get("TERM_PROGRAM") in ("iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper")
    vte = env.get("VTE_VERSION", "")
    links = known or "WT_SESSION" in env or "KITTY_WINDOW_ID" in env or (vte.isdecimal() and int(vte) >= 5000)
    ground = env.get("COLORFGBG", "").rpartition(";")[2]
    return TerminalMode(
        colours=not env.get("NO_COLOR"),
        motion=motion,
        unicode=not letters or "utf" in letters.lower(),
        links=links,
        light=theme == "light" or (theme == "auto" and ground.isdecimal() and int(ground) in (7, 15)),
    )


class Output(Vt100_Output):
    """Erases in two steps: some terminals take a screen that is erased at once from its top for a page to keep."""

    def erase_down(self) -> None:
        self.write_raw("\x1b7\x1b[K\x1b[B\x1b[J\x1b8")

    def flush(self) -> None:
        with suppress(OSError):  # the terminal was closed: the signal that says so ends the run
            super().flush()


def make_output() -> Vt100_Output:
    assert sys.__stdout__ is not None
    return Output.from_pty(sys.__stdout__, term=os.environ.get("TERM"))
