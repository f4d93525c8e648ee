"""Waiting for a model or a tool with an eye on what ends the wait: the emergency stop, the time."""

import asyncio
from collections.abc import Awaitable, Callable

POLL = 0.25
"""Seconds between looks while something runs."""


async def wait_unless[T, Why](work: Awaitable[T], look: Callable[[], Why | None]) -> T | Why:
    """What the work comes to, or why it was not waited for: then it is cancelled, whatever it says to that.

    It goes on in the task that waits: there is no other one to be started, and to be told of its end.
    """
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    why: Why | None = None

    def poll(again: Callable[..., None]) -> None:
        """`again` is itself: by its name it would be a cycle, with all that is waited for in it."""
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
        again = task.uncancel() > cancelled  # somebody else wants the whole task to end, too
        if again or not isinstance(error, Exception | asyncio.CancelledError):
            raise
        return why
    finally:
        timer.cancel()
    if why is None:
        return result
    task.uncancel()
    return why
