"""All conversations that live in this process: opened, gone on with, found, put to sleep, closed."""

import asyncio
from dataclasses import replace
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from adderclaw.agent.conversation import questions
from adderclaw.agent.conversation.conversation import Conversation
from adderclaw.agent.conversation.watched import BOUNDS, Bounds, Full, NotYours, Unknown
from adderclaw.agent.run import Options, Resume, Run
from adderclaw.core.errors import SessionInUse, UsageError
from adderclaw.core.types import Json
from adderclaw.storage import Store, transcript

REST = 60.0
"""Seconds after which an idle one releases the processes and descriptors of its sandbox."""
PATIENCE = 540.0
"""Further seconds after which it sleeps."""


class Conversations:
    """`channel` is what rows, receipts and events call the way in: `http`, `acp`."""

    def __init__(
        self,
        options: Options,
        channel: str,
        *,
        rest: float | None = REST,
        patience: float | None = PATIENCE,
        bounds: Bounds = BOUNDS,
    ) -> None:
        self.options, self.channel, self._bounds = options, channel, bounds
        self._rest, self._patience = rest, patience
        self._all: WeakValueDictionary[str, Conversation] = WeakValueDictionary()
        """Also those that were let go of and that somebody still has in hand: there are never two of one id."""
        self._kept: dict[str, Conversation] = {}
        """Those that are awake, or followed; the one that woke last is the last."""
        self._each: WeakSet[Conversation] = WeakSet()
        """Also those that begin, and have no id yet."""
        self._opening = asyncio.Lock()
        self._closed = False

    def get(self, id: str) -> Conversation | None:
        """The one with this id, if it is here; one that is not may be in the store: `open` goes on with it."""
        found = self._all.get(id)
        return found if found is not None and found.state != "ended" else None

    def all(self) -> list[Conversation]:
        return [one for one in self._kept.values() if one.state != "ended"]

    async def open(
        self,
        client: str,
        *,
        workspace: str | None = None,
        resume: str | None = None,
        fork: bool = False,
        go_on: bool = False,
        profile: str | None = None,
        provider: str | None = None,
        model: str | None = None,
        overrides: Json | None = None,
        asks: bool = True,
        granted: bool = False,
        options: Options | None = None,
        channel: str | None = None,
        **more: Any,
    ) -> Conversation:
        """A new conversation of this client's, or one that goes on, or a copy of one (`fork`).

        `granted`: the client may go on with what others opened. `options` stand in place of the server's own; what is
        named beside them, and `more` of their fields, goes before. `channel`: what this one's way in is called.
        """
        said = {"profile": profile, "provider": provider, "model": model}
        said = {name: value for name, value in said.items() if value is not None}
        given = options or self.options
        wanted = replace(
            given,
            workspace=workspace or given.workspace,
            overrides={**given.overrides, **(overrides or {})},
            asks="must",
            **said,
            **more,
        )

        if resume is None:
            made = self._made(wanted, client, asks=asks, channel=channel)
            made.chosen = said
            return await self._begun(made, None)
        async with self._opening:  # two clients may want the same at once
            found = self.find(resume)
            if not granted and found.client != client:
                raise NotYours(f"{found.id} was opened by another client: its token must have the scope for those, too")
            if fork:
                made = self._made(wanted, client, asks=asks)
                _as_chosen(made, found, said, is_given=options is not None)
                return await self._begun(made, Resume(found.id, go_on=go_on, fork=True))
            if found.run is not None:
                _require_same(found, found.run, said)
                return found
            found.options, found.asks, found.client = wanted, asks, found.client or client
            found.channel = channel or found.channel
            _as_chosen(found, found, said, is_given=options is not None)
            await found.awake(Resume(found.id, go_on=go_on))
            return found

    def find(self, name: str) -> Conversation:
        """The one with this id, wherever it is: one of the store that nobody uses here is asleep."""
        if (here := self.get(name)) is not None:
            return here
        id, owner, folder, chosen = self._in_store(name)
        if (here := self.get(id)) is not None:
            return here
        plain = replace(self.options, workspace=folder, asks="must")
        made = self._made(replace(plain, **chosen), owner)
        made.chosen, made.otherwise = chosen, replace(plain, **{**chosen, "profile": plain.profile})
        made.id, made.before = id, self._all.get(id)
        self._forget()
        self._keep(made)
        return made

    def _made(self, options: Options, client: str, *, asks: bool = True, channel: str | None = None) -> Conversation:
        made = Conversation(
            options,
            client,
            channel or self.channel,
            asks=asks,
            patience=self._patience,
            rest=self._rest,
            woke=self._keep,
            room=self._make_room,
            bounds=self._bounds,
        )
        self._each.add(made)
        return made

    async def _begun(self, made: Conversation, again: Resume | None) -> Conversation:
        await self._make_room()
        await made.begin(again)
        return made

    async def _make_room(self) -> None:
        """Before one more is open, the one that was idle longest goes to sleep."""
        if self._closed:
            raise UsageError("the server ends: it opens no conversation any more")
        self._forget()
        while sum(one.is_open for one in self._each) >= self._bounds.awake:
            idle = [one for one in self._kept.values() if one.run is not None and one.is_idle]
            if not idle or not await idle[0].sleep():
                most = self._bounds.awake
                raise Full(f"{most} conversations are at work in this server; wait until one of them is done")

    def _forget(self) -> None:
        """Let go of those that nobody uses: they are in the store."""
        for id, one in list(self._kept.items()):
            if one.state == "ended" or (one.run is None and not one.updates.followers and not one.queued):
                del self._kept[id]

    def _keep(self, one: Conversation) -> None:
        self._kept.pop(one.id, None)
        self._kept[one.id] = self._all[one.id] = one

    def _in_store(self, name: str) -> tuple[str, str, str, dict[str, str]]:
        """The conversation that is meant, the client that opened it, its folder, and what was chosen for it."""
        path = questions.store_path(self.options.config_file, self.options.workspace, self.options.overrides)
        if not Store.exists(path):
            raise Unknown(f"there is no conversation {name!r}")
        store = Store.open(path, read_only=True)
        try:
            id = transcript.by_id(store, name)
            if id is None:
                raise Unknown(f"there is no conversation {name!r}")
            owner, folder = transcript.client_of(store, id), transcript.workspace_of(store, id)
            return id, owner, folder, transcript.chosen(store, id)
        finally:
            store.close()

    async def close(self, why: str = "the server ends") -> None:
        """End all at a safe point: each can be gone on with."""
        self._closed = True
        await asyncio.gather(*(one.close(why) for one in list(self._kept.values())))
        self._kept.clear()


def _as_chosen(made: Conversation, found: Conversation, said: dict[str, str], *, is_given: bool) -> None:
    """It goes on as clients chose before, but for what is chosen now; `is_given`: no client chooses its options."""
    if is_given:
        made.otherwise = None
        return
    own = made.options.profile
    before = dict(found.chosen)
    if "provider" in said:
        before.pop("model", None)  # it was one of another provider
    made.chosen = before | said
    made.options = replace(made.options, **made.chosen)
    made.otherwise = replace(made.options, profile=own) if "profile" not in said else None


def _require_same(one: Conversation, run: Run, said: dict[str, str]) -> None:
    """A choice that comes while it is awake would not count."""
    session = run.session
    profile = one.options.profile or session.config.security.autonomy
    now = {"profile": profile, "provider": session.provider.name, "model": session.model}
    for name, wanted in said.items():
        if wanted not in (now[name], getattr(one.options, name)):
            fix = "close it, then go on with it"
            raise SessionInUse(f"{one.id} is awake with the {name} {now[name]!r}, not {wanted!r}: {fix}")
