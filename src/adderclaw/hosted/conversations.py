"""All conversations that live in this process: opened, gone on with, found, put to sleep, closed."""

import asyncio
import os
from dataclasses import replace
from typing import Any

from adderclaw.errors import UsageError
from adderclaw.hosted import questions
from adderclaw.hosted.conversation import Conversation
from adderclaw.hosted.watched import BOUNDS, Bounds, Full, NotYours, Unknown
from adderclaw.runtime import Options, Resume
from adderclaw.store import Store, transcript
from adderclaw.types import Json

MOST_AWAKE = 200
"""Conversations whose runs are open at once; before one more is, the one that was idle longest goes to sleep."""
PATIENCE = 600.0
"""Seconds after which an idle one does."""


class Conversations:
    """`channel` is what rows, receipts and events call the way in: `http`, `acp`."""

    def __init__(
        self, options: Options, channel: str, *, patience: float | None = PATIENCE, bounds: Bounds = BOUNDS
    ) -> None:
        self.options, self.channel, self._patience, self._bounds = options, channel, patience, bounds
        self._kept: dict[str, Conversation] = {}
        """Those that are awake, or followed; the one that woke last is the last."""
        self._opening = asyncio.Lock()
        self._closed = False

    def get(self, id: str) -> Conversation | None:
        """The one with this id, if it is here; one that is not may be in the store: `open` goes on with it."""
        found = self._kept.get(id)
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
        said = {"workspace": workspace, "profile": profile, "provider": provider, "model": model}
        given = options or self.options
        wanted = replace(
            given,
            **{name: value for name, value in said.items() if value is not None},
            overrides={**given.overrides, **(overrides or {})},
            asks="must",
            **more,
        )

        if resume is None:
            return await self._begun(self._made(wanted, client, asks=asks, channel=channel), None)
        async with self._opening:  # two clients may want the same at once
            found = self.find(resume)
            if not granted and found.client != client:
                raise NotYours(f"{found.id} was opened by another client: its token must have the scope for those, too")
            if fork:
                return await self._begun(
                    self._made(wanted, client, asks=asks), Resume(found.id, go_on=go_on, fork=True)
                )
            if found.run is not None:
                return found
            found.options, found.client = wanted, found.client or client
            found.channel = channel or found.channel
            return await self._begun(found, Resume(found.id, go_on=go_on))

    def find(self, name: str) -> Conversation:
        """The one with this id, wherever it is: one of the store that nobody uses here is asleep."""
        if (here := self.get(name)) is not None:
            return here
        id, owner, folder = self._in_store(name)
        if (here := self.get(id)) is not None:
            return here
        options = replace(self.options, workspace=folder, asks="must")
        made = self._made(options, owner)
        made.id, made.before = id, self._kept.get(id)
        self._forget()
        self._keep(made)
        return made

    def _made(self, options: Options, client: str, *, asks: bool = True, channel: str | None = None) -> Conversation:
        return Conversation(
            options,
            client,
            channel or self.channel,
            asks=asks,
            patience=self._patience,
            woke=self._keep,
            room=self._make_room,
            bounds=self._bounds,
        )

    async def _begun(self, made: Conversation, again: Resume | None) -> Conversation:
        if self._closed:
            raise UsageError("the server ends: it opens no conversation any more")
        await self._make_room()
        await made.begin(again)
        return made

    async def _make_room(self) -> None:
        self._forget()
        while sum(one.run is not None for one in self._kept.values()) >= MOST_AWAKE:
            idle = [one for one in self._kept.values() if one.run is not None and one.is_idle]
            if not idle or not await idle[0].sleep():
                raise Full(f"{MOST_AWAKE} conversations are at work in this server; wait until one of them is done")

    def _forget(self) -> None:
        """Let go of those that nobody uses: they are in the store."""
        for id, one in list(self._kept.items()):
            if one.state == "ended" or (one.run is None and not one.updates.followers and not one.queued):
                del self._kept[id]

    def _keep(self, one: Conversation) -> None:
        self._kept.pop(one.id, None)
        self._kept[one.id] = one

    def _in_store(self, name: str) -> tuple[str, str, str]:
        """The conversation that is meant, the client that opened it, and the folder that it is held in."""
        path = questions.store_path(self.options.config_file, self.options.workspace, self.options.overrides)
        if not os.path.exists(path):
            raise Unknown(f"there is no conversation {name!r}")
        store = Store.open(path, read_only=True)
        try:
            id = transcript.by_id(store, name)
            if id is None:
                raise Unknown(f"there is no conversation {name!r}")
            return id, transcript.client_of(store, id), transcript.workspace_of(store, id)
        finally:
            store.close()

    async def close(self, why: str = "the server ends") -> None:
        """End all at a safe point: each can be gone on with."""
        self._closed = True
        await asyncio.gather(*(one.close(why) for one in list(self._kept.values())))
        self._kept.clear()
