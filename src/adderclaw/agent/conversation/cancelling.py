"""Runs work that can be cancelled for a reason; waiting for it always returns a result."""

import asyncio
from collections.abc import Awaitable

from adderclaw.agent.session.session import TurnResult
from adderclaw.core.errors import AdderClawError, outcome_of


class Cancelling:
    def __init__(self) -> None:
        self._task: asyncio.Future[TurnResult] | None = None
        self.why = ""
        """Why it was cancelled; empty if it was not."""

    def cancel(self, why: str) -> None:
        """Cancel the work, for this reason; also before it begins."""
        self.why = self.why or why
        if self._task is not None:
            self._task.cancel()

    async def done(self, work: Awaitable[TurnResult]) -> TurnResult:
        task = self._task = asyncio.ensure_future(work)
        if self.why:
            task.cancel()
        try:
            result = await task
            return result._replace(reason=self.why) if self.why and result.outcome == "stopped" else result
        except asyncio.CancelledError:
            if not self.why:  # the waiting task was cancelled, so end the work too
                task.cancel()
                await asyncio.wait({task})
                self.why = "the client is gone"
            return TurnResult("stopped", "", self.why)
        except AdderClawError as error:
            return TurnResult(outcome_of(error), "", str(error))
