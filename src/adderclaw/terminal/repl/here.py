"""Access for slash commands to this terminal's conversation: its REPL, its screen, running a turn."""

import sys
from collections.abc import AsyncGenerator, Awaitable, Coroutine
from contextlib import asynccontextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any

from adderclaw.agent.loop.loop import run_turn
from adderclaw.agent.run import Run
from adderclaw.agent.run.drive import one_turn
from adderclaw.agent.run.signals import until_signal
from adderclaw.agent.session.session import NO_ATTACHMENTS, Attached, TurnResult
from adderclaw.agent.tool_call import permission_updates
from adderclaw.core.redaction import visible
from adderclaw.core.types import OnDelta
from adderclaw.policy import Policy
from adderclaw.terminal.one_shot import AnswerPrinter
from adderclaw.terminal.operators import ask_line

if TYPE_CHECKING:
    from adderclaw.terminal.repl import Repl
    from adderclaw.terminal.repl.screen import Screen

YES = ("y", "yes")
REPLS: "dict[str, Repl]" = {}
"""The REPL by run id."""


def repl_of(run: Run) -> "Repl":
    return REPLS[run.run_id]


def screen_of(run: Run) -> "Screen | None":
    """The screen; None in line mode."""
    talk = repl_of(run).talk
    return talk.screen if talk is not None else None


@asynccontextmanager
async def line_by_line(run: Run) -> AsyncGenerator[None]:
    """Suspends the screen for code that prints and reads by itself."""
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


async def run_turn_here(run: Run, message: str | None, attached: Attached = NO_ATTACHMENTS) -> TurnResult:
    """Runs one turn; at the limit of tool rounds the person decides whether to continue."""
    run.session.budget.restart_limits()
    talk = repl_of(run).talk
    while True:
        result = await (_in_lines(run, message, attached) if talk is None else talk.turn(message, attached))
        if result.ended_by != "rounds" or (await ask_person(run, "Continue? [y/N] ") or "").strip().lower() not in YES:
            return result
        message, attached = "Continue.", NO_ATTACHMENTS


async def ask_person(run: Run, question: str) -> str | None:
    """Asks a yes/no question and returns the person's answer."""
    if (screen := screen_of(run)) is None:
        return await ask_line(question)
    from adderclaw.terminal.repl.rewinding import ask_on_screen

    return await ask_on_screen(screen, question)


async def interruptible[T](run: Run, work: Coroutine[Any, Any, T]) -> T | None:
    """Runs work that is not a turn. On a screen Esc interrupts it; the result is then None."""
    talk = repl_of(run).talk
    return await (work if talk is None else talk.beside(work))


async def _in_lines(run: Run, message: str | None, attached: Attached) -> TurnResult:
    def work(hear: OnDelta) -> Awaitable[TurnResult]:
        return until_signal(run, run_turn(run.session, message, hear, attached=attached), goes_on=True)

    shown = AnswerPrinter(run.runtime.bus)
    result, rest = await one_turn(run.session, work, shown)
    shown.end_line()
    if rest:
        print(visible(rest))
    if result.outcome != "completed":
        print(f"[{result.outcome}] {visible(result.reason)}", file=sys.stderr)
    return result


def next_mode(run: Run) -> str:
    """Switches to the next permission mode and returns a message that names it."""
    permission_updates.next_mode(run.session)
    return f"mode: {mode_name(run.session.environment.policy)}"


def mode_name(policy: Policy) -> str:
    """The permission mode as people read it, or the autonomy if no mode is set."""
    return policy.mode or policy.autonomy_now


def bypass_ended(run: Run) -> bool:
    """Whether the session must end because its mode was disabled in the settings since it started."""
    session, runtime = run.session, run.runtime
    if session.environment.policy.mode != "bypassPermissions":
        return False
    from adderclaw.agent.run.start import loaded_by

    now = loaded_by(runtime.options, runtime.loaded.workspace, runtime.options.overrides).config.permissions
    if not now.disableBypassPermissionsMode:
        return False
    session.end_reason = "bypass_permissions_disabled"
    print("permissions.disableBypassPermissionsMode now disables bypassPermissions: this session ends. Start again.")
    return True
