"""The state of one server: its options, its store, and its open conversations and runs."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace
from weakref import WeakValueDictionary

from adderclaw import config
from adderclaw.agent.conversation import questions
from adderclaw.agent.conversation.conversations import Conversations
from adderclaw.agent.conversation.runs import Runs
from adderclaw.agent.run import Options
from adderclaw.agent.session.clock import SystemClock, random_ids
from adderclaw.config.paths import beneath, followed
from adderclaw.core import home_names
from adderclaw.core.events import Body, Bus
from adderclaw.core.redaction import Secrets
from adderclaw.flows.schedules.ticking import scheduler
from adderclaw.server.endpoint import Client
from adderclaw.server.known_channels import KnownChannels
from adderclaw.server.limits import Rates
from adderclaw.server.listening import LOOPBACK
from adderclaw.server.metrics import ServerMetrics
from adderclaw.server.refusal import Refusal
from adderclaw.storage import Store, clients
from adderclaw.storage.ledger.log_files import read_or_create_key
from adderclaw.storage.telemetry import database

POSTS_END = 3.0
"""Seconds to post the last replies to chats after their turns have ended."""


class ServerState:
    """The state of one server, passed to every endpoint."""

    def __init__(
        self,
        options: Options,
        workspaces: Sequence[str] = (),
        *,
        hosts: frozenset[str] = LOOPBACK,
        secure: bool = False,
        openai: bool = False,
        rates: Rates | None = None,
    ) -> None:
        """`hosts`: accepted Host headers; `secure`: TLS is on; `openai`: also serve the OpenAI-compatible endpoints."""
        options = replace(options, walled=True)
        self.options, self.hosts, self.secure, self.openai = options, hosts, secure, openai
        self.workspaces = tuple(followed(os.path.abspath(os.path.expanduser(folder))) for folder in workspaces)
        self.home = config.home()
        self.clock = SystemClock()
        self.key = read_or_create_key(os.path.join(self.home, home_names.RECEIPT_KEY))
        self.store = Store.open(self.store_path)
        self.bus = Bus(self.clock, random_ids, Secrets().clean)
        self.bus.add_sink("database", database.sink(self.store))
        self.bus.stop_buffering()
        self.rates = rates or Rates(self.clock.monotonic)
        self.ready = True
        """False once the server shuts down: nothing new starts."""
        self.address = ""
        """The address to show to people."""
        self.body_seconds = 30.0
        """Time limit for receiving a request body."""
        self.recheck_seconds = 5.0
        """How often a stream checks that its token is still valid."""
        self.started = self.clock.now()
        self.conversations = Conversations(options, "http")
        self.runs = Runs("http")
        self.scheduler = scheduler(self.store, self.clock, self.runs, options, "server")
        """Starts scheduled runs; `serving` runs its task."""
        self.meter = ServerMetrics(self)
        self.streams: set[asyncio.Future[None]] = set()
        """Open streaming responses."""
        self.threads: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """One lock per chat thread, so that its messages reach the conversation in order."""
        self.webhooks = KnownChannels(options, self.clock.monotonic)
        self.posting: dict[str, asyncio.Future[None]] = {}
        """Tasks that post the questions and answers of chat turns, by turn."""
        self._seen: dict[str, float] = {}

    @property
    def store_path(self) -> str:
        return questions.store_path(self.options.config_file, self.options.workspace, self.options.overrides)

    @property
    def stop_path(self) -> str:
        return os.path.join(self.home, home_names.ESTOP)

    @property
    def stopped(self) -> bool:
        return os.path.lexists(self.stop_path)

    def folder_for(self, client: Client, requested: str | None = None) -> str:
        """The folder for a new conversation or run: offered by this server and allowed for the client."""
        if requested is None:
            folder = next(
                (candidate for candidate in (*self.workspaces, *client.folders) if self._opens(client, candidate)), None
            )
            if folder is None:
                raise Refusal(403, "folder", "this server has no folder that the token may open")
            return folder
        folder = followed(os.path.abspath(requested)) if os.path.isabs(requested) else ""
        if not self._opens(client, folder) or not os.path.isdir(folder):
            offered = ", ".join(candidate for candidate in self.workspaces if client.sees(candidate)) or "none"
            raise Refusal(403, "folder", f"{requested!r} is not a folder that this token may open; allowed: {offered}")
        return folder

    def _opens(self, client: Client, folder: str) -> bool:
        """Rejects a folder that has become a link to another one since it was granted."""
        offered = any(beneath(folder, workspace) for workspace in self.workspaces)
        return offered and client.sees(folder) and followed(folder) == folder

    def record_event(self, body: Body, conversation_id: str = "") -> None:
        """Record an event of the server; it is on disk before this returns."""
        self.bus.conversation_id = conversation_id
        self.bus.publish(body)
        with self.store.write():
            pass

    def is_use_due(self, row_id: str) -> bool:
        """Whether the last use of this client should be stored now: at most once a minute."""
        now = self.clock.monotonic()
        if now - self._seen.get(row_id, -clients.USE_NOTE_SECONDS) < clients.USE_NOTE_SECONDS:
            return False
        self._seen[row_id] = now
        return True

    async def close(self) -> None:
        """Close all conversations and runs at a safe point."""
        self.ready = False
        await asyncio.gather(self.conversations.close(), self.runs.close(), self.scheduler.close())
        if self.posting:  # let them post the last replies
            await asyncio.wait({*self.posting.values()}, timeout=POSTS_END)
