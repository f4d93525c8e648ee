"""The system clock and random ids; a replay uses its own clock and ids."""

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
    """A source of random ids. Run ids contain the date, by default first, so that run folders sort by time."""

    def made(kind: str) -> str:
        if kind != "run":
            return random_ids(kind)
        fresh = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.urandom(4).hex()}"
        return pattern.replace("YYYYMMDD-HHMMSS-<short-uuid>", fresh)

    return made
