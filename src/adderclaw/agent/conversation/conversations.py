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
        conversation = self._all.get(id)
        return conversation if conversation is not None and conversation.state != "ended" else None

    def all(self) -> list[Conversation]:
        return [conversation for conversation in self._kept.values() if conversation.state != "ended"]

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
        choices = {"profile": profile, "provider": provider, "model": model}
        choices = {name: value for name, value in choices.items() if value is not None}
        defaults = options or self.options
        chosen_options = replace(
            defaults,
            workspace=workspace or defaults.workspace,
            overrides={**defaults.overrides, **(overrides or {})},
            asks="must",
            **choices,
            **more,
        )

        if resume is None:
            conversation = self._made(chosen_options, client, asks=asks, channel=channel)
            conversation.chosen = choices
            return await self._begun(conversation, None)
        async with self._opening:  # two clients may want the same at once
            existing = self.find(resume)
            if not granted and existing.client != client:
                raise NotYours(
                    f"{existing.id} was opened by another client: its token must have the scope for those, too"
                )
            if fork:
                conversation = self._made(chosen_options, client, asks=asks)
                _as_chosen(conversation, existing, choices, is_given=options is not None)
                return await self._begun(conversation, Resume(existing.id, go_on=go_on, fork=True))
            if existing.run is not None:
                _require_same(existing, existing.run, choices)
                return existing
            existing.options, existing.asks, existing.client = chosen_options, asks, existing.client or client
            existing.channel = channel or existing.channel
            _as_chosen(existing, existing, choices, is_given=options is not None)
            await existing.awake(Resume(existing.id, go_on=go_on))
            return existing

    def find(self, name: str) -> Conversation:
        """The one with this id, wherever it is: one of the store that nobody uses here is asleep."""
        if (here := self.get(name)) is not None:
            return here
        id, owner, folder, chosen = self._in_store(name)
        if (here := self.get(id)) is not None:
            return here
        plain = replace(self.options, workspace=folder, asks="must")
        conversation = self._made(replace(plain, **chosen), owner)
        conversation.chosen, conversation.otherwise = chosen, replace(plain, **{**chosen, "profile": plain.profile})
        conversation.id, conversation.before = id, self._all.get(id)
        self._forget()
        self._keep(conversation)
        return conversation

    def _made(self, options: Options, client: str, *, asks: bool = True, channel: str | None = None) -> Conversation:
        conversation = Conversation(
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
        self._each.add(conversation)
        return conversation

    async def _begun(self, conversation: Conversation, again: Resume | None) -> Conversation:
        await self._make_room()
        await conversation.begin(again)
        return conversation

    async def _make_room(self) -> None:
        """Before one more is open, the one that was idle longest goes to sleep."""
        if self._closed:
            raise UsageError("the server ends: it opens no conversation any more")
        self._forget()
        while sum(conversation.is_open for conversation in self._each) >= self._bounds.awake:
            idle = [
                conversation
                for conversation in self._kept.values()
                if conversation.run is not None and conversation.is_idle
            ]
            if not idle or not await idle[0].sleep():
                most = self._bounds.awake
                raise Full(f"{most} conversations are at work in this server; wait until one of them is done")

    def _forget(self) -> None:
        """Let go of those that nobody uses: they are in the store."""
        for id, conversation in list(self._kept.items()):
            if conversation.state == "ended" or (
                conversation.run is None and not conversation.updates.followers and not conversation.queued
            ):
                del self._kept[id]

    def _keep(self, conversation: Conversation) -> None:
        self._kept.pop(conversation.id, None)
        self._kept[conversation.id] = self._all[conversation.id] = conversation

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
            return id, owner, folder, transcript.choices(store, id)
        finally:
            store.close()

    async def close(self, why: str = "the server ends") -> None:
        """End all at a safe point: each can be gone on with."""
        self._closed = True
        await asyncio.gather(*(conversation.close(why) for conversation in list(self._kept.values())))
        self._kept.clear()


def _as_chosen(conversation: Conversation, existing: Conversation, choices: dict[str, str], *, is_given: bool) -> None:
    """It goes on as clients chose before, but for what is chosen now; `is_given`: no client chooses its options."""
    if is_given:
        conversation.otherwise = None
        return
    own = conversation.options.profile
    before = dict(existing.chosen)
    if "provider" in choices:
        before.pop("model", None)  # it was one of another provider
    conversation.chosen = before | choices
    conversation.options = replace(conversation.options, **conversation.chosen)
    conversation.otherwise = replace(conversation.options, profile=own) if "profile" not in choices else None


def _require_same(conversation: Conversation, run: Run, choices: dict[str, str]) -> None:
    """A choice that comes while it is awake would not count."""
    session = run.session
    profile = conversation.options.profile or session.config.security.autonomy
    now = {"profile": profile, "provider": session.provider.name, "model": session.model}
    for name, choice in choices.items():
        if choice not in (now[name], getattr(conversation.options, name)):
            fix = "close it, then go on with it"
            raise SessionInUse(f"{conversation.id} is awake with the {name} {now[name]!r}, not {choice!r}: {fix}")
