"""SIGINT, SIGTERM and SIGHUP end a run cleanly: children killed, everything written; a second one ends it at once."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Sequence

from adderclaw.agent.run.opened import Run
from adderclaw.agent.session.session import TurnResult
from adderclaw.core.errors import AdderClawError


def ending() -> tuple[signal.Signals, ...]:
    """The signals that end a run: Ctrl-C, a request to end, and the end of the terminal.

    A program that was started to outlive the terminal (nohup) has SIGHUP ignored: then it stays ignored.
    """
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return signal.SIGINT, signal.SIGTERM
    return signal.SIGINT, signal.SIGTERM, signal.SIGHUP


async def until_signal(
    run: Run, work: Awaitable[TurnResult], *, mode: str = "agent", goes_on: bool = False
) -> TurnResult:
    """The work's result, or `stopped` by the signal that came first. `goes_on`: other work may follow on it."""
    loop = asyncio.get_running_loop()
    task: asyncio.Future[TurnResult] = asyncio.ensure_future(work)
    got: list[int] = []
    timers: list[asyncio.TimerHandle] = []
    over = False

    def stop(number: int) -> None:
        if over:  # the loop had it in hand when the work ended: the outcome is being written, and once
            return
        if got:
            _leave(run, number, mode)
        got.append(number)
        name, grace = signal.Signals(number).name, run.runtime.config.runtime.signal_grace_seconds
        tell = run.runtime.bus.publish
        tell({"event_type": "signal_received", "signal": name})
        tell({"event_type": "graceful_shutdown_started", "reason": name, "grace_seconds": grace})
        timers.append(loop.call_later(grace, _leave, run, number, mode))
        task.cancel()

    signals = ending()
    for number in signals:
        loop.add_signal_handler(number, stop, number)
    try:
        result = await task
        if not got or result.outcome != "stopped":
            return result
        return _stopped(got[0])._replace(answer=result.answer, details=result.details)
    except asyncio.CancelledError:
        if not got:
            raise
        return _stopped(got[0])
    except AdderClawError as error:
        if error.exit_code != 1:
            raise
        return TurnResult("error", "", str(error))
    finally:
        over = True
        for timer in timers:
            timer.cancel()
        _listen_no_more(loop, signals, goes_on=goes_on)


def _stopped(number: int) -> TurnResult:
    return TurnResult("stopped", "", f"{signal.Signals(number).name} received", signal=number)


def _leave(run: Run, number: int, mode: str) -> None:
    """Now, whatever is still under way: the watchdog ends that. The outcome is written first."""
    try:
        run.finish(_stopped(number), exit_code=128 + number, mode=mode)
    finally:
        os._exit(128 + number)


def _listen_no_more(loop: asyncio.AbstractEventLoop, signals: Sequence[signal.Signals], *, goes_on: bool) -> None:
    """The work is over, and what came of it is being written down: a signal waits for that, a second one does not."""
    heard: list[int] = []

    def wait(number: int, _frame: object) -> None:
        if heard:
            os._exit(128 + number)
        heard.append(number)

    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    for number in signals:
        loop.remove_signal_handler(number)
        if not goes_on:
            signal.signal(number, wait)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
