"""The conversations of this process: opens, resumes and finds them, puts idle ones to sleep, and closes them."""

import asyncio
from dataclasses import replace
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from adderclaw.agent.conversation import questions
from adderclaw.agent.conversation.conversation import Conversation
from adderclaw.agent.conversation.watched import BOUNDS, Bounds, Full, Unknown
from adderclaw.agent.run import Options, Resume, Run
from adderclaw.core.errors import SessionInUse, UsageError
from adderclaw.core.types import Json
from adderclaw.storage import Store, transcript

REST = 60.0
"""Seconds after which an idle conversation releases the processes and descriptors of its sandbox."""
PATIENCE = 540.0
"""Further seconds after which it sleeps."""


class Conversations:
    """The conversations of one channel, such as `http` or `acp`, by which rows, receipts and events name it."""

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
        """All that still exist, also forgotten ones that a caller uses, so that no id has two objects."""
        self._active: dict[str, Conversation] = {}
        """Conversations that are awake or followed, in the order in which they woke."""
        self._each: WeakSet[Conversation] = WeakSet()
        """All that still exist, also those that are beginning and have no id yet."""
        self._opening = asyncio.Lock()
        self._closed = False

    def get(self, id: str) -> Conversation | None:
        """The conversation with this id if it is in this process. `open` and `find` also search the store."""
        conversation = self._all.get(id)
        return conversation if conversation is not None and conversation.state != "ended" else None

    def all(self) -> list[Conversation]:
        return [conversation for conversation in self._active.values() if conversation.state != "ended"]

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
        """Open a new conversation, resume one, or copy one (`fork`).

        `granted`: the client may resume what others opened. `options` replace the server's own; the other parameters,
        and `more` of the options' fields, override them. `channel`: the name of this conversation's channel.
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
            conversation = self._new(chosen_options, client, asks=asks, channel=channel)
            conversation.chosen = choices
            return await self._begin(conversation, None)
        async with self._opening:  # two clients may resume the same conversation at once
            existing = self.find(resume)
            existing.require(client, granted=granted)
            if fork:
                conversation = self._new(chosen_options, client, asks=asks)
                _apply_choices(conversation, existing, choices, has_options=options is not None)
                return await self._begin(conversation, Resume(existing.id, go_on=go_on, fork=True))
            if existing.run is not None:
                _require_same(existing, existing.run, choices)
                return existing
            existing.options, existing.asks, existing.client = chosen_options, asks, existing.client or client
            existing.channel = channel or existing.channel
            _apply_choices(existing, existing, choices, has_options=options is not None)
            await existing.awake(Resume(existing.id, go_on=go_on))
            return existing

    def find(self, name: str) -> Conversation:
        """The conversation with this id, or this prefix of one; one that is only in the store is returned asleep."""
        if (here := self.get(name)) is not None:
            return here
        id, owner, folder, chosen = self._in_store(name)
        if (here := self.get(id)) is not None:
            return here
        plain = replace(self.options, workspace=folder, asks="must")
        conversation = self._new(replace(plain, **chosen), owner)
        conversation.chosen, conversation.otherwise = chosen, replace(plain, **{**chosen, "profile": plain.profile})
        conversation.id, conversation.before = id, self._all.get(id)
        self._forget()
        self._add(conversation)
        return conversation

    def _new(self, options: Options, client: str, *, asks: bool = True, channel: str | None = None) -> Conversation:
        conversation = Conversation(
            options,
            client,
            channel or self.channel,
            asks=asks,
            patience=self._patience,
            rest=self._rest,
            woke=self._add,
            room=self._make_room,
            bounds=self._bounds,
        )
        self._each.add(conversation)
        return conversation

    async def _begin(self, conversation: Conversation, again: Resume | None) -> Conversation:
        await self._make_room()
        await conversation.begin(again)
        return conversation

    async def _make_room(self) -> None:
        """Before another conversation is opened, put the one that was idle longest to sleep if needed."""
        if self._closed:
            raise UsageError("the server is shutting down and opens no conversations")
        self._forget()
        while sum(conversation.is_open for conversation in self._each) >= self._bounds.awake:
            idle = [
                conversation
                for conversation in self._active.values()
                if conversation.run is not None and conversation.is_idle
            ]
            if not idle or not await idle[0].sleep():
                most = self._bounds.awake
                raise Full(f"{most} conversations are working in this server; wait until one of them is idle")

    def _forget(self) -> None:
        """Remove conversations that nobody uses; they are in the store."""
        for id, conversation in list(self._active.items()):
            if conversation.state == "ended" or (
                conversation.run is None and not conversation.updates.followers and not conversation.queued
            ):
                del self._active[id]

    def _add(self, conversation: Conversation) -> None:
        self._active.pop(conversation.id, None)
        self._active[conversation.id] = self._all[conversation.id] = conversation

    def _in_store(self, name: str) -> tuple[str, str, str, dict[str, str]]:
        """A stored conversation's id, the client that opened it, its folder, and the choices stored for it."""
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
        """End all conversations at a safe point; each can be resumed."""
        self._closed = True
        await asyncio.gather(*(conversation.close(why) for conversation in list(self._active.values())))
        self._active.clear()


def _apply_choices(
    conversation: Conversation, existing: Conversation, choices: dict[str, str], *, has_options: bool
) -> None:
    """Apply the choices of clients, earlier ones and these. `has_options`: no client chooses the options."""
    if has_options:
        conversation.otherwise = None
        return
    own = conversation.options.profile
    before = dict(existing.chosen)
    if "provider" in choices:
        before.pop("model", None)  # the model of another provider
    conversation.chosen = before | choices
    conversation.options = replace(conversation.options, **conversation.chosen)
    conversation.otherwise = replace(conversation.options, profile=own) if "profile" not in choices else None


def _require_same(conversation: Conversation, run: Run, choices: dict[str, str]) -> None:
    """Raise if a choice differs from an open conversation, where it would have no effect."""
    session = run.session
    profile = conversation.options.profile or session.config.security.autonomy
    now = {"profile": profile, "provider": session.provider.name, "model": session.model}
    for name, choice in choices.items():
        if choice not in (now[name], getattr(conversation.options, name)):
            fix = "close it, then resume it"
            raise SessionInUse(f"{conversation.id} is open with the {name} {now[name]!r}, not {choice!r}; {fix}")
