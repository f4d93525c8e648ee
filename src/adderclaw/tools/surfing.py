"""Rate limits and page cache that the web tools of a session share with its child sessions."""

from collections import deque
from typing import TYPE_CHECKING

from adderclaw.core.types import Clock

if TYPE_CHECKING:
    from adderclaw.config.schema.settings import Web

KEPT_SECONDS = 900.0
MOST_PAGES = 50
MOST_CHARACTERS = 20_000_000
MINUTE = 60.0
MOST_SEARCHES = 200
"""Per session, including its children."""


def search_service(web: "Web") -> str | None:
    """The service that WebSearch uses: the configured one, otherwise the gateway if there is one."""
    return web.search or ("gateway" if web.gateway_url else None)


class Surfing:
    def __init__(self) -> None:
        self._asked: dict[str, deque[float]] = {}
        self._pages: dict[str, tuple[float, str]] = {}
        self.searches = 0

    def seconds_to_wait(self, kind: str, most: int, clock: Clock) -> float:
        """Seconds until another request of this kind is allowed; 0 means now, and counts the request."""
        times, now = self._asked.setdefault(kind, deque()), clock.monotonic()
        while times and times[0] <= now - MINUTE:
            times.popleft()
        if len(times) >= most:
            return times[0] + MINUTE - now
        times.append(now)
        return 0.0

    def cached_page(self, url: str, clock: Clock) -> str | None:
        """The text of a page that was fetched within the last 15 minutes."""
        entry = self._pages.get(url)
        if entry is None or entry[0] <= clock.monotonic() - KEPT_SECONDS:
            self._pages.pop(url, None)
            return None
        return entry[1]

    def cache_page(self, url: str, text: str, clock: Clock) -> None:
        self._pages.pop(url, None)
        self._pages[url] = (clock.monotonic(), text)
        while len(self._pages) > MOST_PAGES or sum(len(text) for _, text in self._pages.values()) > MOST_CHARACTERS:
            del self._pages[next(iter(self._pages))]
