"""Every run ends by `drive`: with one outcome, written before it is shown, and shown before it is closed."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from adderclaw.agent.run import Options, Run, open_run, start
from adderclaw.agent.run.drive import Report, drive, exit_code
from adderclaw.agent.session.session import TurnResult
from adderclaw.agent.tool_call.approvals import NoOperator
from adderclaw.core.errors import AdderClawError, StoreError, UsageError
from adderclaw.core.types import Outcome
from adderclaw.storage import runs


@contextmanager
def opened_in(folder: Path) -> Generator[Run]:
    runtime = start(Options(workspace=str(folder), log_level="error"))
    with open_run(runtime, NoOperator(waits=False), kind="message") as run:
        yield run


def row(run: Run) -> tuple[Outcome | None, int | None, str | None]:
    found = runs.get(run.session.store, run.run_id)
    assert found is not None
    return found.outcome, found.exit_code, found.reason


def ended(result: TurnResult) -> Callable[[], Awaitable[TurnResult]]:
    async def work() -> TurnResult:
        return result

    return work


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (TurnResult("completed", "a"), 0),
        (TurnResult("error", "", "b"), 1),
        (TurnResult("denied", "", "c"), 3),
        (TurnResult("limit", "", "d"), 4),
        (TurnResult("needs_input", "", "e"), 5),
        (TurnResult("stopped", "", "f"), 6),
        (TurnResult("stopped", "", "SIGINT received", signal=2), 130),
        (TurnResult("stopped", "", "SIGTERM received", signal=15), 143),
    ],
)
def test_the_outcome_is_written_with_its_exit_code(folder: Path, result: TurnResult, code: int) -> None:
    with opened_in(folder) as run:
        report = asyncio.run(drive(run, ended(result)()))
        assert (report.result, report.exit_code, exit_code(result)) == (result, code, code)
        assert row(run) == (result.outcome, code, result.reason)
        assert report.as_json()["outcome"] == result.outcome


def test_what_is_shown_is_written_before_and_not_closed_yet(folder: Path) -> None:
    seen: list[str] = []
    with opened_in(folder) as run:
        run.runtime.bus.add_sink("test", lambda record: seen.append(record.event_type))

        def show(report: Report) -> None:
            seen.append("shown")
            assert row(report.run)[0] == "completed"

        asyncio.run(drive(run, ended(TurnResult("completed", "yes"))(), show=show))
    assert seen.index("run_finished") < seen.index("shown")


@pytest.mark.parametrize(("error", "code"), [(UsageError("no such thing"), 2), (StoreError("not that"), 1)])
def test_a_refusal_of_a_run_that_began_is_its_outcome_and_goes_on_up(
    folder: Path, error: AdderClawError, code: int
) -> None:
    async def refused() -> TurnResult:
        raise error

    with opened_in(folder) as run:
        with pytest.raises(type(error), match=str(error)):
            asyncio.run(drive(run, refused(), mode="message"))
        assert row(run) == ("error", code, str(error))


def test_past_a_limit_the_reason_names_the_command_that_goes_on(folder: Path) -> None:
    hit = TurnResult("limit", "", "10 tokens are used up (limits.tokens)", ended_by="tokens")
    with opened_in(folder) as run:
        report = asyncio.run(drive(run, ended(hit)(), resume="run --resume 1"))
    assert report.result.reason == f"{hit.reason}; continue with `adderclaw run --resume 1 --limit tokens=MORE`"


def test_a_channel_may_have_an_exit_code_of_its_own(folder: Path) -> None:
    with opened_in(folder) as run:
        report = asyncio.run(drive(run, ended(TurnResult("stopped", "", "x", signal=15))(), code=lambda _result: 0))
        assert (report.exit_code, row(run)[:2]) == (0, ("stopped", 0))
