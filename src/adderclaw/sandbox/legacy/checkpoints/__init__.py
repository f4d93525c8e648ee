"""File checkpoints of a run: the light part, which costs nothing until a call comes that may write."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adderclaw.sandbox.legacy.checkpoints.tracker import Tracker, Watch, Who
    from adderclaw.storage.checkpoints import Change

FOLDER = "checkpoints"
"""In AdderClaw's own folder."""


class Checkpoints:
    """Looks after the calls of a run and of its subagents; what it takes is made with the first that may write."""

    def __init__(self, make: "Callable[[], Tracker]") -> None:
        self._make = make
        self._tracker: Tracker | None = None
        self.turn: tuple[str, str, int] = ("", "", -1)
        """The message of the user that is being worked for: conversation, session, sequence of its entry."""
        self.background: Callable[[], str] = lambda: ""
        """What still runs in the background, if anything: what changes between calls is then its doing."""

    async def begin(
        self, who: "Who", paths: Iterable[str], roots: Sequence[str], *, anything: bool, trees: Sequence[str] = ()
    ) -> "Watch | None":
        """Before a call: `paths` are where it says that it writes; `anything`: it may write elsewhere, too.

        `trees` are those of the paths that go with all that lies in them.
        """
        if self._tracker is None:
            self._tracker = self._make()
        self._tracker.background = self.background
        return await self._tracker.begin(who, self.turn, paths, roots, anything=anything, trees=trees)

    async def end(self, watch: "Watch", wrote: "Mapping[str, str]") -> None:
        """After a call: what changed becomes rows of the transaction that comes next.

        `wrote` is what file tools know of contents: path → hash, as they left it.
        """
        if self._tracker is not None:
            await self._tracker.end(watch, wrote)

    def end_now(self, watch: "Watch") -> None:
        """The same for a call that was interrupted, when nothing can be awaited any more."""
        if self._tracker is not None:
            self._tracker.end_now(watch)

    def noted(self, root: str, changes: "Iterable[Change]") -> None:
        """What a restore of ours changed is known already."""
        if self._tracker is not None:
            self._tracker.noted(root, changes)

    def close(self) -> None:
        if self._tracker is not None:
            self._tracker.close()
