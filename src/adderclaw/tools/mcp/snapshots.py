"""Refuses browser calls that name an element before a snapshot has shown the page's elements."""

from adderclaw.core.types import Json

SERVER = "playwright"
SNAPSHOT_TOOL = "browser_snapshot"
PAGE_CHANGES = frozenset({"browser_navigate", "browser_navigate_back", "browser_navigate_forward", "browser_close"})
"""Tools that lead to another page, for which there is no snapshot yet."""
ELEMENT_ARGUMENTS = ("ref", "target", "fields", "startRef", "endRef", "startTarget", "endTarget")
"""Arguments that name elements, in all versions of the server."""
REQUIRED = "snapshot required: call browser_snapshot, and name the element as it shows it"


class Snapshots:
    """Whether each browser of a session has a snapshot of its current page."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def refusal(self, server: str, tool: str, arguments: Json) -> str | None:
        blind = server == SERVER and tool != SNAPSHOT_TOOL and server not in self._seen
        return REQUIRED if blind and any(arguments.get(name) for name in ELEMENT_ARGUMENTS) else None

    def record_call(self, server: str, tool: str) -> None:
        """Records a call that succeeded."""
        if tool == SNAPSHOT_TOOL:
            self._seen.add(server)
        elif tool in PAGE_CHANGES:
            self._seen.discard(server)
