"""Waiting with an eye on what ends the wait: whoever waits hears the work's end, or why it was not waited for."""

import asyncio
from collections.abc import Callable

import pytest

from adderclaw.agent.session.clock import wait_unless
from tests.rows import rows


async def stubborn(how: str) -> str:
    """Goes on until it is cancelled, and then does what it likes."""
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        if how == "answers":
            return "done all the same"
        if how == "fails":
            raise ValueError("cannot be ended so") from None
        if how == "takes its time":
            await asyncio.sleep(0.01)
        raise
    return "never"


def after(looks: int) -> Callable[[], str | None]:
    """A reason to stop at that look."""
    seen = 0

    def look() -> str | None:
        nonlocal seen
        seen += 1
        return "stopped" if seen >= looks else None

    return look


@rows("how", ["ends", "answers", "fails", "takes its time"])
@rows("looks", [1, 2])
def test_the_reason_stands_whatever_the_work_says_to_it(how: str, looks: int) -> None:
    async def main() -> tuple[str, int]:
        told = await wait_unless(stubborn(how), after(looks))
        await asyncio.sleep(0)  # a cancellation that was left over would come here
        task = asyncio.current_task()
        assert task is not None
        return told, task.cancelling()

    assert asyncio.run(main()) == ("stopped", 0)


def test_work_that_ends_is_not_looked_at() -> None:
    looks: list[str] = []

    async def quick() -> str:
        return "done"

    async def main() -> str | None:
        told = await wait_unless(quick(), lambda: looks.append("looked"))
        await asyncio.sleep(0.3)
        return told

    assert asyncio.run(main()) == "done"
    assert looks == []


def test_a_failure_is_the_works_own() -> None:
    async def broken() -> str:
        await asyncio.sleep(0)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(wait_unless(broken(), after(1)))


@pytest.mark.parametrize("how", ["ends", "takes its time"])
def test_whoever_cancels_the_whole_task_ends_it(how: str) -> None:
    async def main() -> bool:
        waiting = asyncio.ensure_future(wait_unless(stubborn(how), after(10_000)))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        return waiting.cancelled()

    assert asyncio.run(main())


def test_a_cancellation_from_outside_is_not_lost_in_a_reason() -> None:
    async def main() -> bool:
        def look() -> str:
            waiting.cancel()  # in the same moment
            return "stopped"

        waiting = asyncio.ensure_future(wait_unless(stubborn("ends"), look))
        await asyncio.wait({waiting})
        return waiting.cancelled()

    assert asyncio.run(main())


def test_what_waits_inside_of_another_wait_ends_with_the_outer_one() -> None:
    async def main() -> str | None:
        return await wait_unless(wait_unless(stubborn("ends"), after(10_000)), after(1))

    assert asyncio.run(main()) == "stopped"
