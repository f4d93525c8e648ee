"""A channel over a folder: a file in DIR/inbox is a message, a file of its name in DIR/outbox the answer.

python inbox.py DIR        # put `1.txt` into DIR/inbox; `stop.txt` ends it
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from adderclaw import Handle, QueryOptions, run_channel


class Inbox:
    name = "inbox"
    supports_draft_updates = False

    def __init__(self, folder: Path) -> None:
        self.inbox, self.outbox, self.at_hand = folder / "inbox", folder / "outbox", ""
        for one in (self.inbox, self.outbox):
            one.mkdir(parents=True, exist_ok=True)

    def start(self, handle: Handle) -> int:
        return handle.hold(self.messages())

    async def messages(self) -> AsyncIterator[str]:
        while not (self.inbox / "stop.txt").exists():
            for path in sorted(self.inbox.glob("*.txt")):
                self.at_hand, text = path.stem, path.read_text(encoding="utf-8")
                path.unlink()
                yield text
            await asyncio.sleep(0.1)

    def send(self, conversation_id: str, message: str) -> None:  # noqa: ARG002 - there is one
        unfinished = self.outbox / f".{self.at_hand}"
        unfinished.write_text(message, encoding="utf-8")
        unfinished.rename(self.outbox / f"{self.at_hand}.txt")

    async def approve(self, conversation_id: str, question: str) -> bool:  # noqa: ARG002
        """The question is DIR/outbox/NAME.question; DIR/inbox/NAME.yes or NAME.no answers it."""
        (self.outbox / f"{self.at_hand}.question").write_text(question, encoding="utf-8")
        yes, no = (self.inbox / f"{self.at_hand}.{word}" for word in ("yes", "no"))
        while not (yes.exists() or no.exists()):  # noqa: ASYNC110 - a folder tells nobody
            await asyncio.sleep(0.1)
        return yes.exists() and not no.exists()


if __name__ == "__main__":
    place = Path(sys.argv[1]).resolve()
    sys.exit(run_channel(Inbox(place), QueryOptions(cwd=sys.argv[2] if len(sys.argv) > 2 else None)))
