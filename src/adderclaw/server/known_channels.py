"""The webhook channels of the operator's configuration as it is now, read at most once a second unless it changed."""

import asyncio
import os
import re
from collections.abc import Callable

from adderclaw.agent import queries
from adderclaw.agent.queries.webhook_channels import NAMES
from adderclaw.config.legacy.options import Options
from adderclaw.config.schema import WebhookChannel

SECONDS = 1.0


class KnownChannels:
    """Cached, because unauthenticated requests reach this before their signature is checked."""

    def __init__(self, options: Options, monotonic: Callable[[], float]) -> None:
        self._options, self._monotonic = options, monotonic
        self._reading = asyncio.Lock()
        """Serves waiting requests in order."""
        self._held: tuple[float, list[tuple[str, object]], dict[str, WebhookChannel]] | None = None

    async def get(self, name: str) -> WebhookChannel | None:
        """The enabled channel with this name."""
        async with self._reading:
            if self._held is None or not self._is_fresh(*self._held[:2]):
                self._held = await asyncio.to_thread(self._read)
            channel = self._held[2].get(name)
        return channel if channel is not None and channel.enabled and re.fullmatch(NAMES, name) else None

    def _is_fresh(self, since: float, files: list[tuple[str, object]]) -> bool:
        return self._monotonic() - since < SECONDS and all(_state(path) == state for path, state in files)

    def _read(self) -> tuple[float, list[tuple[str, object]], dict[str, WebhookChannel]]:
        now = self._monotonic()
        loaded = queries.loaded(queries.read_only(self._options))
        return now, [(path, _state(path)) for path in loaded.files], loaded.config.channels.webhook


def _state(path: str) -> object:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
