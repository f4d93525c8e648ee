"""What the menu offers after /: commands of the table, then skills and own commands, then prompts of MCP servers."""

import asyncio
import re
from collections.abc import Iterable, Iterator

from adderclaw.agent.run import Run
from adderclaw.core.errors import AdderClawError
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json
from adderclaw.terminal.repl.slash.table import ROWS

JOINS = re.compile(r"[:_-]")


class Offer(NamedTuple):
    name: str
    help: str
    alias: bool = False
    """It is another name of something that is offered already."""


class Offers:
    """All of one conversation; what servers have is asked for once each, when they are connected."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._own: list[Offer] | None = None
        self._prompts: dict[str, list[Offer]] = {}
        self._asking: set[asyncio.Task[None]] = set()

    def matching(self, typed: str) -> list[Offer]:
        """Names that begin so go first, then those of which a word does; joints (`:`, `_`, `-`) count for nothing."""
        letters = JOINS.sub("", typed.lower())
        known = [offer for offer in self._all() if letters or not offer.alias]
        starts = [offer for offer in known if JOINS.sub("", offer.name.lower()).startswith(letters)]
        return starts + [offer for offer in known if offer not in starts and _inside(offer.name.lower(), letters)]

    async def matching_later(self, typed: str) -> list[Offer]:
        """What servers have that were asked just now, as soon as they have answered."""
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
        """No server is started for the menu: those that are there are asked, and offered when they have answered."""
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
    """Its arguments in their order, and what it is for."""
    named = " ".join(f"[{name}]" if name not in prompt["required"] else name for name in prompt["arguments"]).upper()
    return f"{named}  {prompt['description']}".strip()


def _clean(pairs: Iterable[tuple[str, str]]) -> Iterator[Offer]:
    """A name that would not be what it looks like is not offered."""
    for name, text in pairs:
        if name and name.isprintable() and " " not in name and visible(name) == name:
            yield Offer(name, visible(text, keep_newlines=False)[:200])


def _inside(name: str, letters: str) -> bool:
    words = JOINS.split(name)
    return any("".join(words[start:]).startswith(letters) for start in range(1, len(words)))
