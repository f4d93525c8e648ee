"""One server, connected when it is first needed: started, listed, watched, and started again when it was lost."""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from adderclaw import __version__
from adderclaw.config.servers import Entry, Missing, filled
from adderclaw.core.errors import AdderClawError
from adderclaw.core.events import Body
from adderclaw.core.redaction import Secrets, is_secret_name, visible
from adderclaw.core.types import Clock, Json
from adderclaw.tools.mcp.definitions import MOST_TOOLS, Listing, listing
from adderclaw.tools.mcp.fetches import NO_SETTINGS, OFFLINE, apart

if TYPE_CHECKING:
    from mcp import Client

    from adderclaw.sandbox.piped import Piped
    from adderclaw.sandbox.process import Start
    from adderclaw.tools.mcp.fetches import Fetch

LONGEST_PAUSE = 60.0
MOST_PAGES = 50
CLOSE_SECONDS = 3.0
FETCH_SECONDS = 600.0
"""How long a server that is fetched first may take to its first word."""
PROGRESS_SECONDS = 5
SHOWN = 300


class LoginNeeded(AdderClawError):
    """A server wants a person to log in."""

    def __init__(self, server: str) -> None:
        super().__init__(f"it wants a login: `adderclaw mcp login {server}`")


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


class Unavailable(AdderClawError):
    """The server cannot be used now; the message says why, and what to do."""


class Elicit(Protocol):
    """Asks the person something for a server: (server, the event's fields) → `{action, content}`."""

    async def __call__(self, server: str, question: Json, /) -> Json: ...


class Sample(Protocol):
    """Asks our model for a server: (server, system prompt, (role, text)…, most tokens) → (text, model, is it cut)."""

    async def __call__(
        self, server: str, system: str, said: list[tuple[str, str]], tokens: int, /
    ) -> tuple[str, str, bool]: ...


@dataclass(eq=False, repr=False)
class Wires:
    """What connections are made of; the composition root binds it."""

    clock: Clock
    secrets: Secrets
    tell: Callable[[Body], None]
    roots: tuple[str, ...]
    """The workspace and the directories beside it."""
    start: "Start | None" = None
    """Starts a child in the session's sandbox."""
    allowed: tuple[str, ...] = ()
    """Hosts that may be private or on an unusual port, beside a server's own address (security.allowed_domains)."""
    login: Callable[[Entry, str], Awaitable[Any]] | None = None
    """(server, its address) → an httpx2 `Auth` with the stored login; None where there is none."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables of the settings, for servers that are started in the sandbox."""
    elicit: Elicit | None = None
    sample: Sample | None = None
    start_fetched: "Start | None" = None
    """Starts those that are fetched first, where no command writes what was."""
    fetch: "Callable[[Entry], Fetch | None]" = lambda _entry: None
    """The package that has to be fetched before a server can start, if so."""


class Connection:
    """One server. Whoever needs it asks for `client()`."""

    def __init__(self, entry: Entry, wires: Wires, heard: Callable[[Listing], None]) -> None:
        self.entry, self.state, self.reason = entry, "idle", ""
        self.instructions = ""
        self.protocol = ""
        self._wires, self._heard = wires, heard
        self._begun = 0.0
        self._task: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[Client] | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._over, self._changed = asyncio.Event(), asyncio.Event()
        self._failures, self._not_before = 0, 0.0
        self._child: Piped | None = None
        self._start: Start | None = None
        """What starts it, where that is not what starts commands."""
        self._more: Mapping[str, str] = {}
        """What it is started with beside its own environment."""
        self._argv: list[str] = []
        """What it is started by, where that is not its command line."""

    async def client(self) -> "Client":
        """The connected client; starts the server if need be. Raises Unavailable."""
        if self._task is None or self._task.done():
            self._begin()
        assert self._ready is not None
        return await asyncio.shield(self._ready)

    def _begin(self) -> None:
        wait = self._not_before - self._wires.clock.monotonic()
        if wait > 0:
            again = f"it is tried again in {wait:.0f} s" if wait >= 1 else "it is tried again in a moment"
            raise Unavailable(f"the MCP server {self.entry.given!r} is not there ({self.reason}); {again}")
        if changed := self.entry.changed():
            raise Unavailable(f"the MCP server {self.entry.given!r} is not started: {changed}")
        self.state, self._over = "starting", asyncio.Event()
        self._begun = self._wires.clock.monotonic()
        self._tell("starting", self.entry.server.command or self.entry.server.url or "")
        self._ready = asyncio.get_running_loop().create_future()
        self._ready.add_done_callback(lambda future: future.cancelled() or future.exception())
        self._task = asyncio.create_task(self._live(self._ready), name=f"mcp {self.entry.name}")

    @property
    def starting_for(self) -> float:
        """Seconds since its start began, while it has not ended."""
        return self._wires.clock.monotonic() - self._begun if self.state == "starting" else 0.0

    async def close(self) -> None:
        """End it, in order; a server that does not want to is ended anyway."""
        self._over.set()
        tasks = {task for task in (self._task, *self._leaving) if task is not None and not task.done()}
        if not tasks:
            return
        _, left = await asyncio.wait(tasks, timeout=CLOSE_SECONDS)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=CLOSE_SECONDS)

    async def anew(self) -> None:
        """End it, and wait for nothing before the next start: somebody asks for one."""
        await self.close()
        self._failures, self._not_before = 0, 0.0

    def lost(self, client: "Client", reason: str) -> None:
        """A call found that nobody is there any more: the next connects anew, unless another has done so already."""
        ready = self._ready
        if ready is None or not ready.done() or ready.cancelled() or ready.exception() or ready.result() is not client:
            return
        self.reason = reason
        self._over.set()
        if self._task is not None:  # it takes its leave beside the next one, and has no more say
            self._leaving.add(self._task)
            self._task.add_done_callback(self._leaving.discard)
        self._task = None

    # ------------------------------------------------------------------ its life

    async def _live(self, ready: "asyncio.Future[Client]") -> None:
        over = self._over
        try:
            async with AsyncExitStack() as stack:
                await self._started(stack, ready)
                await self._until(over, stack)
            self._ended("closed", "")
        except asyncio.CancelledError:
            if not ready.done():
                ready.set_exception(Unavailable(f"the MCP server {self.entry.given!r} was stopped while it started"))
            raise
        except Exception as error:  # noqa: BLE001 - the SDK's transports raise groups of anything
            self._failed(error, ready)
        finally:
            if self._is_current():
                self._child = None

    def _is_current(self) -> bool:
        """Whether no later one has begun: what an earlier one leaves behind says nothing about the server now."""
        return self._task is None or self._task is asyncio.current_task()

    async def _started(self, stack: AsyncExitStack, ready: "asyncio.Future[Client]") -> None:
        client = await self._reached(stack)
        self.state, self.reason, self._failures = "ready", "", 0
        self._tell("ready", f"protocol {self.protocol}")
        ready.set_result(client)
        watching = asyncio.create_task(self._watch(client))
        stack.callback(watching.cancel)

    async def _reached(self, stack: AsyncExitStack) -> "Client":
        """Start it and list its tools. What has to be fetched first is asked about, once; after that it is there."""
        fetch = self._wires.fetch(self.entry) if self.entry.server.command else None
        if fetch is None:
            return await self._connected(stack)
        if fetch.is_apart:
            return await self._brought(stack, fetch)
        self._start = self._wires.start_fetched
        if fetch.is_there:
            async with AsyncExitStack() as own:
                try:
                    client = await self._connected(own, OFFLINE)
                except Exception as error:  # noqa: BLE001 - as below; the cache may have been cleared
                    self._tell("starting", f"it did not start from the cache ({self._why(error)[:200]})")
                else:
                    stack.push_async_exit(own.pop_all())
                    return client
        if why := await fetch.begin():
            raise Unavailable(why)
        came, progress = False, asyncio.create_task(self._progress(fetch.package))
        try:
            client = await self._connected(stack, first=FETCH_SECONDS)
            came = True
            return client
        finally:
            progress.cancel()
            fetch.end(came=came)

    async def _brought(self, stack: AsyncExitStack, fetch: "Fetch") -> "Client":
        """Start it from the cache of this user, in the session's own sandbox; where it is not there yet, fetch it."""
        stack.callback(fetch.release)
        if fetch.is_there:
            async with AsyncExitStack() as own:
                try:
                    self._argv = fetch.argv()
                    client = await self._connected(own)
                except Exception as error:  # noqa: BLE001 - as below; what was fetched may be out of date
                    self._tell("starting", f"it did not start from the cache ({self._why(error)[:200]})")
                else:
                    stack.push_async_exit(own.pop_all())
                    return client
        if why := await fetch.begin():
            raise Unavailable(why)
        progress = asyncio.create_task(self._progress(fetch.package))
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                if why := await fetch.bring():
                    raise Unavailable(why)
        except TimeoutError:
            raise Unavailable(f"{fetch.package} was not fetched within {FETCH_SECONDS:g} s") from None
        finally:
            progress.cancel()
        self._argv = fetch.argv()
        return await self._connected(stack)

    async def _progress(self, package: str) -> None:
        seconds = 0
        while True:
            so_far = f", {seconds} s so far" if seconds else ""
            self._tell("starting", f"fetching {visible(package, keep_newlines=False)[:200]}{so_far}")
            await asyncio.sleep(PROGRESS_SECONDS)
            seconds += PROGRESS_SECONDS

    async def _connected(
        self, stack: AsyncExitStack, more: Mapping[str, str] = MappingProxyType({}), first: float | None = None
    ) -> "Client":
        """`first` is how long its first word may take: from then on its own limit counts."""
        seconds, loop = self.entry.server.startupTimeout / 1000, asyncio.get_running_loop()
        self._more = more
        try:
            async with asyncio.timeout(first or seconds) as limit:
                made = await self._client()
                if first and self._child is not None:
                    self._child.first = lambda: None if limit.expired() else limit.reschedule(loop.time() + seconds)
                client = await stack.enter_async_context(made)
                self.protocol, self.instructions = client.protocol_version, visible(client.instructions or "")[:2048]
                await self._list(client)
                return client
        except TimeoutError:
            raise Unavailable(f"it did not answer within {seconds:g} s") from None

    async def _until(self, over: asyncio.Event, stack: AsyncExitStack) -> None:
        """Wait until nobody needs it, or its process has ended."""
        waiting: list[asyncio.Task[Any]] = [asyncio.create_task(over.wait())]
        if self._child is not None:
            waiting.append(asyncio.create_task(self._child.ended()))
        for task in waiting:
            stack.callback(task.cancel)
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # The program ends: leave in order, so that the server hears of it.
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
        if self._child is not None and self._child.returncode is not None and not over.is_set():
            raise Unavailable(f"it ended with exit code {self._child.returncode}")

    def _failed(self, error: Exception, ready: "asyncio.Future[Client]") -> None:
        self._failures += 1
        pause = min(LONGEST_PAUSE, 0.5 * 2 ** (self._failures - 1))
        self._not_before = self._wires.clock.monotonic() + pause
        self._ended("failed", self._why(error), login=self._wants_login(error))
        if not ready.done():
            ready.set_exception(Unavailable(f"the MCP server {self.entry.given!r} is not there: {self.reason}"))

    def _ended(self, state: Literal["closed", "failed"], reason: str, *, login: bool = False) -> None:
        if self._is_current():
            self.state, self.reason = "failed" if state == "failed" else "idle", reason
        self._tell(state, reason, login=login)

    def _is_unauthorized(self, error: BaseException) -> bool:
        # the status, not a part of an address
        return self.entry.server.command is None and re.search(r"(?<![\d.:])401(?!\d)", str(error)) is not None

    @property
    def _has_key(self) -> bool:
        return any(name.lower() == "authorization" for name in self.entry.server.headers)

    def _wants_login(self, error: BaseException) -> bool:
        inner = _innermost(error)
        return isinstance(inner, LoginNeeded) or (self._is_unauthorized(inner) and not self._has_key)

    def _why(self, error: BaseException) -> str:
        """The first sentence of the innermost error, and the last words of the process."""
        inner = _innermost(error)
        said = str(inner) or type(inner).__name__
        if self._is_unauthorized(inner):
            said = "it refuses the key in its headers (401)" if self._has_key else str(LoginNeeded(self.entry.name))
        if self._child is not None:
            code = self._child.returncode
            last = " ".join(self._child.errors.split())[-SHOWN:]
            ended = code is not None and not isinstance(inner, Unavailable)
            said = f"it ended with exit code {code}" if ended and code != -9 else "it ended" if ended else said
            said += f"; its last words: {last}" if last else ""
        return visible(self._wires.secrets.scrub(said), keep_newlines=False)[: 2 * SHOWN]

    def _tell(
        self, state: Literal["starting", "ready", "failed", "closed"], detail: str, *, login: bool = False
    ) -> None:
        more: dict[Literal["login"], bool] = {"login": True} if login else {}
        name = self.entry.name
        self._wires.tell({"event_type": "mcp_server", "server": name, "state": state, "detail": detail, **more})

    # ------------------------------------------------------------------ what it is made of

    async def _client(self) -> "Client":
        from mcp import Client
        from mcp_types import Implementation

        from adderclaw.tools.mcp import answers

        answers.quiet()
        wires, server = self._wires, self.entry.server
        return Client(
            await self._transport(),
            client_info=Implementation(name="adderclaw", version=__version__),
            read_timeout_seconds=server.timeout / 1000 + 5,  # the kernel's own limit comes first
            elicitation_callback=answers.elicitation(self.entry, wires.elicit) if wires.elicit else None,
            sampling_callback=answers.sampling(self.entry, wires.sample) if wires.sample and server.sampling else None,
            list_roots_callback=answers.roots(wires.roots),
            message_handler=answers.changes(self._changed),
            cache=None,
            mode="legacy" if server.protocol == "handshake" else "auto",
        )

    async def _transport(self) -> Any:
        server = self.entry.server
        if self.entry.live is not None:
            return self.entry.live
        try:
            if server.command is not None:
                return await self._program(server.command)
            return await self._address(filled(server.url or ""))
        except Missing as error:
            raise Unavailable(f"{error}, which mcp_servers.{self.entry.given} names") from None

    async def _program(self, command: str) -> Any:
        from adderclaw.sandbox.piped import converse
        from adderclaw.sandbox.process import environment
        from adderclaw.sandbox.programs import search_path
        from adderclaw.tools.mcp.pipes import spoken

        server, root = self.entry.server, self._wires.roots[0]
        cwd = os.path.join(root, os.path.expanduser(filled(server.cwd or "")))
        argv = self._argv or [os.path.expanduser(filled(command)), *(filled(argument) for argument in server.args)]
        known = {**self._wires.env, **self._filled(server.env), **self._more}
        if self._start is not None:
            argv, known = apart(argv), {**known, **NO_SETTINGS}
        if self._argv:  # what a package brings beside its program is found, too
            known = {"PATH": os.pathsep.join((os.path.dirname(argv[0]), *search_path(self._wires.roots))), **known}
        env = environment(known, workspace_roots=self._wires.roots)
        try:
            self._child = await converse(argv, cwd=cwd, env=env, start=self._start or self._wires.start)
        except (OSError, ValueError) as error:
            raise Unavailable(f"{argv[0]!r} cannot be started: {error}") from None
        return spoken(self._child)

    async def _address(self, url: str) -> Any:
        from adderclaw.tools.mcp.streams import connected, network

        headers = self._filled(self.entry.server.headers)
        keyed = any(name.lower() == "authorization" for name in headers)
        login = None if keyed or self._wires.login is None else await self._wires.login(self.entry, url)
        return connected(url, headers, await network(url, self._wires.allowed), login)

    def _filled(self, table: Mapping[str, str]) -> dict[str, str]:
        """With variables filled in; what stands under a secret's name is kept out of everything that is shown."""
        made = {name: filled(text) for name, text in table.items()}
        for name, value in made.items():
            if is_secret_name(name):
                self._wires.secrets.add(value.rpartition(" ")[2])
        return made

    # ------------------------------------------------------------------ its tools

    async def _list(self, client: "Client") -> None:
        if client.server_capabilities.tools is None:
            self._heard(Listing([], []))
            return
        found: list[Any] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = await client.list_tools(cursor=cursor)
            found += page.tools
            cursor = page.next_cursor
            if cursor is None or len(found) > MOST_TOOLS:
                break
        self._heard(listing(self.entry.name, found))

    async def _watch(self, client: "Client") -> None:
        """List its tools again when it says that they changed, at most once a second."""
        from adderclaw.tools.mcp import answers

        if answers.must_listen(client):
            await answers.listen(client, self._changed, self._list)
            return
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._list(client)
            except Exception as error:  # noqa: BLE001 - a server that cannot list is not worth the connection
                self._tell("failed", f"its tools changed, and it could not list them: {self._why(error)}")
            await asyncio.sleep(1.0)
