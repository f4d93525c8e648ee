"""The system clock, random ids, and waits that poll for a reason to stop; a replay has its own clock and ids."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable


class SystemClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def random_ids(kind: str) -> str:
    return f"{kind}-{os.urandom(8).hex()}"


def ids_with_runs(pattern: str) -> Callable[[str], str]:
    """A source of random ids. Run ids contain the date, by default first, so that run folders sort by time."""

    def new_id(kind: str) -> str:
        if kind != "run":
            return random_ids(kind)
        id = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.urandom(4).hex()}"
        return pattern.replace("YYYYMMDD-HHMMSS-<short-uuid>", id)

    return new_id


POLL = 0.25
"""Seconds between polls."""


async def wait_unless[T, Why](work: Awaitable[T], look: Callable[[], Why | None]) -> T | Why:
    """The result of the work; or, if `look` returns a reason first, cancels the work and returns the reason.

    The work runs in the waiting task itself, so that no second task is needed.
    """
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    why: Why | None = None

    def poll(again: Callable[..., None]) -> None:
        """`again` is this function; passing it avoids a reference cycle that would keep the work alive."""
        nonlocal why, timer
        why = look()
        if why is None:
            timer = loop.call_later(POLL, again, again)
        else:
            task.cancel()

    cancelled = task.cancelling()
    timer = loop.call_later(POLL, poll, poll)
    try:
        result = await work
    except BaseException as error:
        if why is None:
            raise
        also_cancelled = task.uncancel() > cancelled  # somebody else cancelled the task too
        if also_cancelled or not isinstance(error, Exception | asyncio.CancelledError):
            raise
        return why
    finally:
        timer.cancel()
    if why is None:
        return result
    task.uncancel()
    return why
