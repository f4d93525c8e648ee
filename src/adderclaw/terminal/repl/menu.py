"""The menu below the input: commands after /, files after @."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from adderclaw.agent.run import Run
from adderclaw.core.errors import AdderClawError
from adderclaw.core.redaction import visible
from adderclaw.terminal.repl.files import Files
from adderclaw.terminal.repl.slash.offered import Offer, Offers
from adderclaw.terminal.repl.slash.table import SLASH

NAMING = re.compile(r"""(?<![^\s(\[{])@(?:"([^"\n]*)|([^\s"]*))$""")
"""What is typed of a name so far, at the end of the text."""
LOOKED_AT = 4_096
"""Characters before the cursor in which a name may begin."""


class Menu(Completer):
    """Never waits for what is not known yet: once it is, `again` is called, and the menu is made anew."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.files = Files(run, self._more)
        self._offers = Offers(run)
        self.wanted: Callable[[Document], bool] = lambda _document: True
        """Whether the completions of a text are still wanted."""
        self.again: Callable[[], None] = lambda: None
        self._making = self._is_old = False
        self._resources: list[tuple[str, str]] = []
        """What MCP servers let be read, as it is named here, and what they call it."""
        self._asking: asyncio.Task[None] | None = None

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        naming = NAMING.search(document.text_before_cursor[-LOOKED_AT:])
        if naming is None:
            for command in self.get_completions(document, complete_event):
                yield command
            if typed := _command_typed(document):
                for offer in await self._offers.matching_later(typed[1:]):
                    yield _offered(offer, typed)
            return
        typed, before = naming[1] or naming[2] or "", -len(naming[0])
        self.files.poll()
        if self._asking is None and self._run.runtime.servers is not None:
            self._asking = asyncio.get_running_loop().create_task(self._ask())
        self._making, self._is_old = True, False
        try:
            async for name in self.files.search(typed, lambda: self.wanted(document)):
                yield _named(name, before, "folder" if name.endswith("/") else "")
            for name, title in self._resources:
                if typed.lower() in name.lower():
                    yield _named(name, before, title)
        finally:
            self._making = False
            if self._is_old:
                asyncio.get_running_loop().call_soon(self.again)

    def _more(self) -> None:
        """More is known than before. A menu that is just being made is made anew after that."""
        if self._making:
            self._is_old = True
        else:
            self.again()

    async def _ask(self) -> None:
        """The resources of MCP servers, asked for once: a server may take long to start."""
        servers = self._run.runtime.servers
        try:
            rows = (await servers.resources(None))[0] if servers is not None else []
        except AdderClawError:
            return
        for row in rows:
            name = f"{row.get('server', '')}:{row.get('uri', '')}"
            if name.isprintable() and '"' not in name and visible(name) == name:
                self._resources.append((name, visible(str(row.get("name", "")), keep_newlines=False)))
        if self._resources:
            self._more()

    async def close(self) -> None:
        """End what is still being looked for."""
        for task in (self._asking, self.files.making):
            if task is not None:
                task.cancel()
                await asyncio.wait({task})

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002 - its interface
        if typed := _command_typed(document):
            for offer in self._offers.matching(typed[1:]):
                yield _offered(offer, typed)
        name, blank, word = document.text_before_cursor.partition(" ")
        row = SLASH.get(name[1:]) if blank and name.startswith("/") else None
        for known in row.words if row is not None else ():
            if known.startswith(word.lower()):
                yield Completion(known, -len(word))


def _command_typed(document: Document) -> str:
    """The command as far as it is typed, with its slash; empty where none is."""
    text = document.text_before_cursor
    return text if text.startswith("/") and " " not in text else ""


def _offered(offer: Offer, typed: str) -> Completion:
    return Completion(f"/{offer.name}", -len(typed), display_meta=offer.help)


def _named(name: str, before: int, meta: str) -> Completion:
    """A folder is not closed: what is in it may be named next."""
    if name.endswith("/"):
        text = f'@"{name}' if re.search(r"\s", name) else f"@{name}"
    else:
        text = f'@"{name}" ' if re.search(r"\s", name) else f"@{name} "
    return Completion(text, before, display=name, display_meta=meta)
