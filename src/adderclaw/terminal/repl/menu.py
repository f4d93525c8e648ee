"""The menu below the input: commands after /, files after @."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from adderclaw.agent.run import Run
from adderclaw.core.errors import AdderClawError
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json
from adderclaw.terminal.repl.files import Files
from adderclaw.terminal.repl.slash.table import ROWS, SLASH

SEPARATORS = re.compile(r"[:_-]")


class Offer(NamedTuple):
    name: str
    help: str
    alias: bool = False
    """Whether it is another name of a command that is offered too."""


class Offers:
    """The commands, skills and server prompts of one conversation. Each server is asked once, when it is connected."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._own: list[Offer] | None = None
        self._prompts: dict[str, list[Offer]] = {}
        self._asking: set[asyncio.Task[None]] = set()

    def matching(self, typed: str) -> list[Offer]:
        """Names that start with the text, then names with a word that does. Separators (`:`, `_`, `-`) are ignored."""
        letters = SEPARATORS.sub("", typed.lower())
        known = [offer for offer in self._all() if letters or not offer.alias]
        starts = [offer for offer in known if SEPARATORS.sub("", offer.name.lower()).startswith(letters)]
        return starts + [offer for offer in known if offer not in starts and _inside(offer.name.lower(), letters)]

    async def matching_later(self, typed: str) -> list[Offer]:
        """Further matches among the prompts of servers that have not answered yet; waits for them."""
        before = self.matching(typed)
        if not self._asking:
            return []
        await asyncio.wait(set(self._asking))
        return [offer for offer in self.matching(typed) if offer not in before]

    def _all(self) -> Iterator[Offer]:
        for row in ROWS:
            yield Offer(row.name, row.help)
        for row in ROWS:
            yield from (Offer(alias, row.help, alias=True) for alias in row.aliases)
        if self._own is None:
            self._own = list(_clean(self._skills()))
        yield from self._own
        self._load_all_prompts()
        for offers in self._prompts.values():
            yield from offers

    def _skills(self) -> list[tuple[str, str]]:
        skills = self._run.session.environment.kit.skills
        return skills.callable() if skills is not None else []

    def _load_all_prompts(self) -> None:
        """Asks the connected servers for their prompts. The menu starts no server."""
        servers = self._run.runtime.servers
        for row in servers.status() if servers is not None else ():
            if row.state == "ready" and row.entry.name not in self._prompts:
                self._prompts[row.entry.name] = []
                task = asyncio.ensure_future(self._load_prompts(row.entry.name))
                self._asking.add(task)
                task.add_done_callback(self._asking.discard)

    async def _load_prompts(self, server: str) -> None:
        from mcp import MCPError

        servers = self._run.runtime.servers
        assert servers is not None
        try:
            prompts = await servers.prompts(server)
        except (AdderClawError, MCPError):
            return
        self._prompts[server] = list(_clean((row["name"], _about(row)) for row in prompts))


def _about(prompt: Json) -> str:
    """The arguments of a prompt in order, and its description."""
    named = " ".join(f"[{name}]" if name not in prompt["required"] else name for name in prompt["arguments"]).upper()
    return f"{named}  {prompt['description']}".strip()


def _clean(pairs: Iterable[tuple[str, str]]) -> Iterator[Offer]:
    """Leaves out names that would not look like what they are."""
    for name, text in pairs:
        if name and name.isprintable() and " " not in name and visible(name) == name:
            yield Offer(name, visible(text, keep_newlines=False)[:200])


def _inside(name: str, letters: str) -> bool:
    words = SEPARATORS.split(name)
    return any("".join(words[start:]).startswith(letters) for start in range(1, len(words)))


NAME_AT_END = re.compile(r"""(?<![^\s(\[{])@(?:"([^"\n]*)|([^\s"]*))$""")
"""The part of a name typed so far, at the end of the text."""
SEARCHED_CHARS = 4_096
"""How many characters before the cursor are searched for the start of a name."""


class Menu(Completer):
    """Offers what is known. When more is known, `refresh` is called to rebuild the menu."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.files = Files(run, self._on_more)
        self._offers = Offers(run)
        self.is_current: Callable[[Document], bool] = lambda _document: True
        """Whether this is still the text of the input."""
        self.refresh: Callable[[], None] = lambda: None
        self._is_building = self._is_outdated = False
        self._resources: list[tuple[str, str]] = []
        """The resources of MCP servers: (name here, title)."""
        self._loading: asyncio.Task[None] | None = None

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        naming = NAME_AT_END.search(document.text_before_cursor[-SEARCHED_CHARS:])
        if naming is None:
            for command in self.get_completions(document, complete_event):
                yield command
            if typed := _command_typed(document):
                for offer in await self._offers.matching_later(typed[1:]):
                    yield _command_completion(offer, typed)
            return
        typed, before = naming[1] or naming[2] or "", -len(naming[0])
        self.files.poll()
        if self._loading is None and self._run.runtime.servers is not None:
            self._loading = asyncio.get_running_loop().create_task(self._load_resources())
        self._is_building, self._is_outdated = True, False
        try:
            async for name in self.files.search(typed, lambda: self.is_current(document)):
                yield _name_completion(name, before, "folder" if name.endswith("/") else "")
            for name, title in self._resources:
                if typed.lower() in name.lower():
                    yield _name_completion(name, before, title)
        finally:
            self._is_building = False
            if self._is_outdated:
                asyncio.get_running_loop().call_soon(self.refresh)

    def _on_more(self) -> None:
        """Rebuilds the menu because more is known; a menu that is being built is rebuilt afterwards."""
        if self._is_building:
            self._is_outdated = True
        else:
            self.refresh()

    async def _load_resources(self) -> None:
        """Loads the resources of MCP servers once, because a server may take long to start."""
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
            self._on_more()

    async def close(self) -> None:
        """Cancels what is still being loaded."""
        for task in (self._loading, self.files.listing):
            if task is not None:
                task.cancel()
                await asyncio.wait({task})

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002 - its interface
        if typed := _command_typed(document):
            for offer in self._offers.matching(typed[1:]):
                yield _command_completion(offer, typed)
        name, blank, word = document.text_before_cursor.partition(" ")
        row = SLASH.get(name[1:]) if blank and name.startswith("/") else None
        for known in row.words if row is not None else ():
            if known.startswith(word.lower()):
                yield Completion(known, -len(word))


def _command_typed(document: Document) -> str:
    """The part of a command typed so far, with its slash; empty if the text is not a command."""
    text = document.text_before_cursor
    return text if text.startswith("/") and " " not in text else ""


def _command_completion(offer: Offer, typed: str) -> Completion:
    return Completion(f"/{offer.name}", -len(typed), display_meta=offer.help)


def _name_completion(name: str, before: int, meta: str) -> Completion:
    """The completion of a name. After a folder, the name can be continued."""
    if name.endswith("/"):
        text = f'@"{name}' if re.search(r"\s", name) else f"@{name}"
    else:
        text = f'@"{name}" ' if re.search(r"\s", name) else f"@{name} "
    return Completion(text, before, display=name, display_meta=meta)
