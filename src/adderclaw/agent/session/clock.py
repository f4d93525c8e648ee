"""The real clock and the real source of ids; a replay brings its own."""

import asyncio
import os
import time
from collections.abc import Callable


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
    """Fresh ids of every kind; a run's has its date, by default first, so that folders of runs sort by time."""

    def made(kind: str) -> str:
        if kind != "run":
            return random_ids(kind)
        fresh = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.urandom(4).hex()}"
        return pattern.replace("YYYYMMDD-HHMMSS-<short-uuid>", fresh)

    return made
