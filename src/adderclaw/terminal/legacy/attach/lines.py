"""A conversation of the server in lines: for pipes, files, screen readers and plain terminals."""

import asyncio
import sys
from collections.abc import Iterable

from adderclaw.agent.view.items import Call, Item, Words
from adderclaw.core.redaction import visible
from adderclaw.terminal.legacy.attach.commands import command
from adderclaw.terminal.legacy.attach.remote import Remote, State
from adderclaw.terminal.operators import STDIN, Terminal
from adderclaw.terminal.repl.draw import ASCII, Drawing, ansi

LINE = 2_000
"""Columns of a line where nobody knows how wide the terminal is."""


class InLines:
    """Answers go to stdout, all else to stderr."""

    def __init__(self) -> None:
        self.operator = Terminal()
        self._heard = False
        self.failed = False
        """Whether the last turn ended otherwise than completed."""

    async def converse(self, remote: Remote, first: str | None) -> str | None:
        """A line is a message; the next one is read when its turn has ended. Until the input ends."""
        following = asyncio.ensure_future(remote.follow())
        ready = asyncio.ensure_future(remote.ready.wait())
        await asyncio.wait({following, ready}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        print(f"{remote.id} on {remote.link.address}", file=sys.stderr)
        try:
            line = first if first is not None else await STDIN.read()
            while line is not None and not remote.over.is_set():
                text, other = line.strip(), None
                if text.startswith("/"):
                    other = await command(remote, text, lambda said: print(visible(said)))
                elif text:
                    await remote.send(text)
                if other is not None:
                    return None if other == "leave" else other
                await self._through(remote, following)
                line = await STDIN.read()
        finally:
            remote.leave()
            following.cancel()
            await asyncio.wait({following})
        return None

    async def _through(self, remote: Remote, following: "asyncio.Future[None]") -> None:
        """The turn, or the end of all."""
        quiet = asyncio.ensure_future(remote.quiet())
        await asyncio.wait({quiet, following}, return_when=asyncio.FIRST_COMPLETED)
        quiet.cancel()

    def greet(self, items: Iterable[Item]) -> None:
        for item in items:
            self.show(item)

    def show(self, item: Item) -> None:
        if isinstance(item, Words) and item.role == "assistant":
            print(visible(item.text).rstrip("\n"), flush=True)
        elif not isinstance(item, Call) or item.ended:
            print(ansi(Drawing(LINE, ASCII).item(item), colours=False), end="", file=sys.stderr, flush=True)

    def hear(self, kind: str, text: str) -> None:
        if kind == "text":
            print(visible(text), end="", flush=True)
            self._heard = True
        elif kind == "reset" and self._heard:
            print("\n(the answer begins anew)", flush=True)

    def whole(self) -> None:
        if self._heard:
            print(flush=True)
        self._heard = False

    def changed(self, state: State) -> None:
        if state in ("idle", "ended"):
            self.whole()

    def ended(self, outcome: str, reason: str) -> None:
        self.failed = outcome != "completed"
        if self.failed:
            print(f"[{outcome}] {visible(reason)}", file=sys.stderr, flush=True)
