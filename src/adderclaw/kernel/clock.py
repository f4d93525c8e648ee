"""The real clock and the real source of ids; a replay brings its own."""

import asyncio
import os
import time


class SystemClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def random_ids(kind: str) -> str:
    """A fresh id of a kind; a run's begins with its date, so that folders of runs sort by time."""
    token = os.urandom(8).hex()
    if kind == "run":
        return time.strftime("%Y%m%d-%H%M%S", time.gmtime()) + "-" + token[:8]
    return f"{kind}-{token}"
