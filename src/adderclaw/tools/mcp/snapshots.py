"""The browser's elements are named by what a snapshot showed: before one, a call that names an element is refused."""

from adderclaw.core.types import Json

SERVER = "playwright"
SNAPSHOT_TOOL = "browser_snapshot"
PAGE_CHANGES = frozenset({"browser_navigate", "browser_navigate_back", "browser_navigate_forward", "browser_close"})
"""What comes to another page, of which no snapshot has been asked for."""
ELEMENT_ARGUMENTS = ("ref", "target", "fields", "startRef", "endRef", "startTarget", "endTarget")
"""Arguments that name elements, in the server's versions."""
REQUIRED = "snapshot required: call browser_snapshot, and name the element as it shows it"


class Snapshots:
    """Of one session: whether the page of each browser has been looked at."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def refusal(self, server: str, tool: str, arguments: Json) -> str | None:
        blind = server == SERVER and tool != SNAPSHOT_TOOL and server not in self._seen
        return REQUIRED if blind and any(arguments.get(name) for name in ELEMENT_ARGUMENTS) else None

    def record_call(self, server: str, tool: str) -> None:
        """A call came back without an error."""
        if tool == SNAPSHOT_TOOL:
            self._seen.add(server)
        elif tool in PAGE_CHANGES:
            self._seen.discard(server)
