"""Work that can be cancelled for a reason, which its result then has; whoever waits gets a result in any case."""

import asyncio
from collections.abc import Awaitable

from adderclaw.agent.session.session import TurnResult
from adderclaw.core.errors import AdderClawError, outcome_of


class Cancelling:
    def __init__(self) -> None:
        self._task: asyncio.Future[TurnResult] | None = None
        self.why = ""
        """Why it was cancelled; empty where it was not."""

    def cancel(self, why: str) -> None:
        """It ends as soon as what it does can be left; cancelled before it begins, it ends at once."""
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
            if not self.why:  # who waits is cancelled: nothing goes on without it
                task.cancel()
                await asyncio.wait({task})
                self.why = "the client is gone"
            return TurnResult("stopped", "", self.why)
        except AdderClawError as error:
            return TurnResult(outcome_of(error), "", str(error))
