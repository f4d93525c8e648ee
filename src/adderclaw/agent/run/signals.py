"""Ends a run cleanly on SIGINT, SIGTERM and SIGHUP; a second signal ends the process at once."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Sequence

from adderclaw.agent.run.opened import Run
from adderclaw.agent.session.session import TurnResult
from adderclaw.core.errors import AdderClawError


def ending() -> tuple[signal.Signals, ...]:
    """The signals that end a run. SIGHUP is not one of them if the parent ignored it, as nohup does."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return signal.SIGINT, signal.SIGTERM
    return signal.SIGINT, signal.SIGTERM, signal.SIGHUP


async def until_signal(
    run: Run, work: Awaitable[TurnResult], *, mode: str = "agent", goes_on: bool = False
) -> TurnResult:
    """The work's result, or `stopped` if a signal arrived first. `goes_on`: more work may follow in this process."""
    loop = asyncio.get_running_loop()
    task: asyncio.Future[TurnResult] = asyncio.ensure_future(work)
    got: list[int] = []
    timers: list[asyncio.TimerHandle] = []
    over = False

    def stop(number: int) -> None:
        if over:  # the work had ended when the loop handled the signal, and its outcome is being stored
            return
        if got:
            _exit_now(run, number, mode)
        got.append(number)
        name, grace = signal.Signals(number).name, run.runtime.config.runtime.signal_grace_seconds
        tell = run.runtime.bus.publish
        tell({"event_type": "signal_received", "signal": name})
        tell({"event_type": "graceful_shutdown_started", "reason": name, "grace_seconds": grace})
        timers.append(loop.call_later(grace, _exit_now, run, number, mode))
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
        _remove_handlers(loop, signals, goes_on=goes_on)


def _stopped(number: int) -> TurnResult:
    return TurnResult("stopped", "", f"{signal.Signals(number).name} received", signal=number)


def _exit_now(run: Run, number: int, mode: str) -> None:
    """Store the outcome and exit; the watchdog ends whatever is still running."""
    try:
        run.finish(_stopped(number), exit_code=128 + number, mode=mode)
    finally:
        os._exit(128 + number)


def _remove_handlers(loop: asyncio.AbstractEventLoop, signals: Sequence[signal.Signals], *, goes_on: bool) -> None:
    """Ignore a first signal while the outcome is being stored; a second one exits at once."""
    received: list[int] = []

    def wait(number: int, _frame: object) -> None:
        if received:
            os._exit(128 + number)
        received.append(number)

    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    for number in signals:
        loop.remove_signal_handler(number)
        if not goes_on:
            signal.signal(number, wait)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
