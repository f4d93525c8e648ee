"""The conversation of this terminal, as its commands see it: the REPL of a run, its screen, one more turn."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING

from adderclaw.channels.cli.agent import Shown
from adderclaw.channels.terminal import typed
from adderclaw.credentials.redaction import visible
from adderclaw.kernel import lifecycle
from adderclaw.kernel.loop import run_turn, silent
from adderclaw.kernel.session import TurnResult
from adderclaw.runtime import Run
from adderclaw.runtime.signals import until_signal

if TYPE_CHECKING:
    from adderclaw.channels.repl import Repl
    from adderclaw.channels.repl.screen import Screen

REPLS: "dict[str, Repl]" = {}
"""Run → the REPL that it is."""


def of(run: Run) -> "Repl":
    return REPLS[run.run_id]


def screen_of(run: Run) -> "Screen | None":
    """The screen, where there is one; None where lines are printed one after the other."""
    talk = of(run).talk
    return talk.screen if talk is not None else None


@asynccontextmanager
async def line_by_line(run: Run) -> AsyncGenerator[None]:
    """The terminal as it is without the screen, for what prints and reads by itself."""
    screen = screen_of(run)
    if screen is None:
        yield
        return
    from prompt_toolkit.application import in_terminal
    from prompt_toolkit.application.current import set_app

    screen.draw()
    with set_app(screen.app):
        async with in_terminal():
            with redirect_stdout(sys.__stdout__), redirect_stderr(sys.__stderr__):
                yield


async def turn(run: Run, message: str | None) -> TurnResult:
    """One turn; at the limit of tool rounds the person decides whether it goes on."""
    if (talk := of(run).talk) is not None:
        return await talk.turn(message)
    run.session.budget.begin()
    while True:
        shown = Shown()
        whole = "MessageDisplay" in run.session.hooks  # what is shown is known when all of it is there
        asked = run_turn(run.session, message, silent if whole else shown)
        result = await until_signal(run, asked, goes_on=True)
        if not (result.answer and shown.text.endswith(run.session.secrets.shown(result.answer))):
            print(visible(await lifecycle.displayed(run.session, result.answer)), end="")
        print()
        if result.outcome == "completed":
            return result
        print(f"[{result.outcome}] {visible(result.reason)}", file=sys.stderr)
        if result.ended_by != "rounds":
            return result
        if (await typed("Go on? [y/N] ") or "").strip().lower() not in ("y", "yes"):
            return result
        message = "Go on."
