"""A signal ends the work that it finds: work that has ended already keeps its outcome."""

import asyncio
import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from adderclaw.agent.run.drive import drive
from adderclaw.agent.run.signals import ending, until_signal
from adderclaw.agent.session.session import TurnResult
from tests.agent.run.test_drive import opened_in, row


@pytest.fixture(autouse=True)
def _handlers() -> Generator[None]:
    """As they were: a run that ends keeps signals waiting for the rest of its process."""
    before = {number: signal.getsignal(number) for number in ending()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def ran(folder: Path, *, turns: int, number: int = signal.SIGTERM) -> tuple[TurnResult, list[str], object]:
    """What came of work that gets a signal and ends so many turns of the loop later; the events; the run's row."""
    seen: list[str] = []

    async def work() -> TurnResult:
        os.kill(os.getpid(), number)
        for _ in range(turns):
            await asyncio.sleep(0)
        return TurnResult("completed", "the answer")

    async def watched() -> TurnResult:
        report = await drive(run, until_signal(run, work()))
        for _ in range(5):  # in these the loop would call what it had in hand
            await asyncio.sleep(0)
        return report.result

    with opened_in(folder) as run:
        run.runtime.bus.add_sink("test", lambda record: seen.append(record.event_type))
        result = asyncio.run(watched())
        return result, seen, row(run)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_the_loop_has_in_hand_when_the_work_ends_ends_nothing(number: int, folder: Path) -> None:
    """The loop reads the signal in the turn in which the work ends, and calls its handler one turn later."""
    result, seen, kept = ran(folder, turns=1, number=number)
    assert (result.outcome, result.answer) == ("completed", "the answer")
    assert "run_finished" in seen
    assert "signal_received" not in seen
    assert "graceful_shutdown_started" not in seen
    assert kept == ("completed", 0, "")


def test_a_signal_before_the_last_turn_of_the_work_ends_it(folder: Path) -> None:
    result, seen, kept = ran(folder, turns=4)
    assert (result.outcome, result.signal) == ("stopped", signal.SIGTERM)
    assert seen.count("signal_received") == seen.count("graceful_shutdown_started") == 1
    assert kept == ("stopped", 143, "SIGTERM received")
