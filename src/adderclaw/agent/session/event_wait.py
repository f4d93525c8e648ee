"""Waits for a model or a tool while polling for a reason to stop, such as the emergency stop or a time limit."""

import asyncio
from collections.abc import Awaitable, Callable

POLL = 0.25
"""Seconds between polls."""


async def wait_unless[T, Why](work: Awaitable[T], look: Callable[[], Why | None]) -> T | Why:
    """The result of the work, or the reason that `look` returned first; then the work is cancelled.

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
        again = task.uncancel() > cancelled  # the whole task was cancelled, too
        if again or not isinstance(error, Exception | asyncio.CancelledError):
            raise
        return why
    finally:
        timer.cancel()
    if why is None:
        return result
    task.uncancel()
    return why
