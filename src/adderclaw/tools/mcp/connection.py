"""A connection to one MCP server: started when first needed, listed, watched, and restarted after a loss."""

import asyncio
import os
import re
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, cast

from adderclaw import __version__
from adderclaw.config.servers import Entry, Missing, filled
from adderclaw.core.redaction import is_secret_name, visible
from adderclaw.tools.mcp.definitions import MAX_TOOLS, Listing, list_definitions
from adderclaw.tools.mcp.fetches import NO_SETTINGS, OFFLINE, outside_workspace
from adderclaw.tools.mcp.setup import ConnectionSetup, LoginNeeded, Unavailable

if TYPE_CHECKING:
    from mcp import Client

    from adderclaw.sandbox.piped import PipedProcess
    from adderclaw.sandbox.process import Starter
    from adderclaw.tools.mcp.fetches import Fetch

LONGEST_PAUSE = 60.0
MOST_PAGES = 50
CLOSE_SECONDS = 3.0
FETCH_SECONDS = 600.0
"""Time limit for the first output of a server that is downloaded first."""
PROGRESS_SECONDS = 5
MAX_REASON_CHARS = 300


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


class Connection:
    """One server. Callers get it with `client()`."""

    def __init__(self, entry: Entry, wires: ConnectionSetup, heard: Callable[[Listing], None]) -> None:
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
        self._child: PipedProcess | None = None
        self._start: Starter | None = None
        """Starts the server if it is not started like commands."""
        self._more: Mapping[str, str] = {}
        """Extra environment variables for its start."""
        self._argv: list[str] = []
        """Its command line, if different from the configured one."""

    async def client(self) -> "Client":
        """The connected client; starts the server if needed. Raises Unavailable."""
        if self._task is None or self._task.done():
            self._start_task()
        assert self._ready is not None
        return await asyncio.shield(self._ready)

    def _start_task(self) -> None:
        wait = self._not_before - self._wires.clock.monotonic()
        if wait > 0:
            again = f"the next attempt is in {wait:.0f} s" if wait >= 1 else "the next attempt is in a moment"
            raise Unavailable(f"the MCP server {self.entry.given!r} is not available ({self.reason}); {again}")
        if changed := self.entry.changed():
            raise Unavailable(f"the MCP server {self.entry.given!r} is not started: {changed}")
        self.state, self._over = "starting", asyncio.Event()
        self._begun = self._wires.clock.monotonic()
        self._tell("starting", self.entry.server.command or self.entry.server.url or "")
        self._ready = asyncio.get_running_loop().create_future()
        self._ready.add_done_callback(lambda future: future.cancelled() or future.exception())
        self._task = asyncio.create_task(self._run(self._ready), name=f"mcp {self.entry.name}")

    @property
    def starting_for(self) -> float:
        """Seconds since its start began, while it is starting."""
        return self._wires.clock.monotonic() - self._begun if self.state == "starting" else 0.0

    async def close(self) -> None:
        """Ends the server cleanly, or by force after CLOSE_SECONDS."""
        self._over.set()
        tasks = {task for task in (self._task, *self._leaving) if task is not None and not task.done()}
        if not tasks:
            return
        _, left = await asyncio.wait(tasks, timeout=CLOSE_SECONDS)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=CLOSE_SECONDS)

    async def restart(self) -> None:
        """Ends the server and allows an immediate new start."""
        await self.close()
        self._failures, self._not_before = 0, 0.0

    def mark_lost(self, client: "Client", reason: str) -> None:
        """Marks a client as lost, so that the next call reconnects, unless another call already has."""
        ready = self._ready
        if ready is None or not ready.done() or ready.cancelled() or ready.exception() or ready.result() is not client:
            return
        self.reason = reason
        self._over.set()
        if self._task is not None:  # it ends while the next one starts, and no longer sets the state
            self._leaving.add(self._task)
            self._task.add_done_callback(self._leaving.discard)
        self._task = None

    # ------------------------------------------------------------------ its life

    async def _run(self, ready: "asyncio.Future[Client]") -> None:
        over = self._over
        try:
            async with AsyncExitStack() as stack:
                await self._start_up(stack, ready)
                await self._wait_until_over(over, stack)
            self._set_ended("closed", "")
        except asyncio.CancelledError:
            if not ready.done():
                ready.set_exception(Unavailable(f"the MCP server {self.entry.given!r} was stopped while it started"))
            raise
        except Exception as error:  # noqa: BLE001 - the SDK's transports raise groups of anything
            self._set_failed(error, ready)
        finally:
            if self._is_current():
                self._child = None

    def _is_current(self) -> bool:
        """Whether this is the latest connection; only that one may change the state."""
        return self._task is None or self._task is asyncio.current_task()

    async def _start_up(self, stack: AsyncExitStack, ready: "asyncio.Future[Client]") -> None:
        client = await self._connect_fetched(stack)
        self.state, self.reason, self._failures = "ready", "", 0
        self._tell("ready", f"protocol {self.protocol}")
        ready.set_result(client)
        watching = asyncio.create_task(self._watch(client))
        stack.callback(watching.cancel)

    async def _connect_fetched(self, stack: AsyncExitStack) -> "Client":
        """Starts the server and lists its tools. A download is approved once; later starts use the cache."""
        fetch = self._wires.fetch(self.entry) if self.entry.server.command else None
        if fetch is None:
            return await self._connect(stack)
        if fetch.is_apart:
            return await self._connect_from_cache(stack, fetch)
        self._start = self._wires.start_fetched
        if fetch.is_there:
            async with AsyncExitStack() as own:
                try:
                    client = await self._connect(own, OFFLINE)
                except Exception as error:  # noqa: BLE001 - as below; the cache may have been cleared
                    self._tell("starting", f"it did not start from the cache ({self._failure_reason(error)[:200]})")
                else:
                    stack.push_async_exit(own.pop_all())
                    return client
        if why := await fetch.begin():
            raise Unavailable(why)
        came, progress = False, asyncio.create_task(self._progress(fetch.package))
        try:
            client = await self._connect(stack, first=FETCH_SECONDS)
            came = True
            return client
        finally:
            progress.cancel()
            fetch.end(came=came)

    async def _connect_from_cache(self, stack: AsyncExitStack, fetch: "Fetch") -> "Client":
        """Starts the server from this user's cache in the session's sandbox, and downloads it first if needed."""
        stack.callback(fetch.release)
        if fetch.is_there:
            async with AsyncExitStack() as own:
                try:
                    self._argv = fetch.argv()
                    client = await self._connect(own)
                except Exception as error:  # noqa: BLE001 - as below; what was fetched may be out of date
                    self._tell("starting", f"it did not start from the cache ({self._failure_reason(error)[:200]})")
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
        return await self._connect(stack)

    async def _progress(self, package: str) -> None:
        seconds = 0
        while True:
            so_far = f", {seconds} s so far" if seconds else ""
            self._tell("starting", f"fetching {visible(package, keep_newlines=False)[:200]}{so_far}")
            await asyncio.sleep(PROGRESS_SECONDS)
            seconds += PROGRESS_SECONDS

    async def _connect(
        self, stack: AsyncExitStack, more: Mapping[str, str] = MappingProxyType({}), first: float | None = None
    ) -> "Client":
        """Connects. `first` limits the time to the first output; after that the server's own limit applies."""
        seconds, loop = self.entry.server.startupTimeout / 1000, asyncio.get_running_loop()
        self._more = more
        try:
            async with asyncio.timeout(first or seconds) as limit:
                sdk_client = await self._client()
                if first and self._child is not None:
                    self._child.on_first_output = lambda: (
                        None if limit.expired() else limit.reschedule(loop.time() + seconds)
                    )
                client = await stack.enter_async_context(sdk_client)
                self.protocol, self.instructions = client.protocol_version, visible(client.instructions or "")[:2048]
                await self._list_tools(client)
                return client
        except TimeoutError:
            raise Unavailable(f"it did not answer within {seconds:g} s") from None

    async def _wait_until_over(self, over: asyncio.Event, stack: AsyncExitStack) -> None:
        """Waits until the connection is closed or the process has ended."""
        waiting: list[asyncio.Task[Any]] = [asyncio.create_task(over.wait())]
        if self._child is not None:
            waiting.append(asyncio.create_task(self._child.wait_ended()))
        for task in waiting:
            stack.callback(task.cancel)
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # The program ends: close cleanly, so that the server is told.
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
        if self._child is not None and self._child.returncode is not None and not over.is_set():
            raise Unavailable(f"it ended with exit code {self._child.returncode}")

    def _set_failed(self, error: Exception, ready: "asyncio.Future[Client]") -> None:
        self._failures += 1
        pause = min(LONGEST_PAUSE, 0.5 * 2 ** (self._failures - 1))
        self._not_before = self._wires.clock.monotonic() + pause
        self._set_ended("failed", self._failure_reason(error), login=self._wants_login(error))
        if not ready.done():
            ready.set_exception(Unavailable(f"the MCP server {self.entry.given!r} is not available: {self.reason}"))

    def _set_ended(self, state: Literal["closed", "failed"], reason: str, *, login: bool = False) -> None:
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

    def _failure_reason(self, error: BaseException) -> str:
        """The message of the innermost error, and the last output of the process."""
        inner = _innermost(error)
        reason = str(inner) or type(inner).__name__
        if self._is_unauthorized(inner):
            reason = "it rejected the key in its headers (401)" if self._has_key else str(LoginNeeded(self.entry.name))
        if self._child is not None:
            code = self._child.returncode
            last = " ".join(self._child.errors.split())[-MAX_REASON_CHARS:]
            ended = code is not None and not isinstance(inner, Unavailable)
            reason = f"it ended with exit code {code}" if ended and code != -9 else "it ended" if ended else reason
            reason += f"; its last output: {last}" if last else ""
        return visible(self._wires.secrets.scrub(reason), keep_newlines=False)[: 2 * MAX_REASON_CHARS]

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

        answers.silence_sdk_logging()
        wires, server = self._wires, self.entry.server
        return Client(
            await self._transport(),
            client_info=Implementation(name="adderclaw", version=__version__),
            read_timeout_seconds=server.timeout / 1000 + 5,  # the kernel's own limit comes first
            elicitation_callback=answers.elicitation_handler(self.entry, wires.elicit) if wires.elicit else None,
            sampling_callback=answers.sampling_handler(self.entry, wires.sample)
            if wires.sample and server.sampling
            else None,
            list_roots_callback=answers.roots_handler(wires.roots),
            message_handler=answers.changes_handler(self._changed),
            cache=None,
            mode="legacy" if server.protocol == "handshake" else "auto",
        )

    async def _transport(self) -> Any:
        server = self.entry.server
        if self.entry.live is not None:
            return self.entry.live
        try:
            if server.command is not None:
                return await self._start_program(server.command)
            return await self._connect_address(filled(server.url or ""))
        except Missing as error:
            raise Unavailable(f"{error}, which mcp_servers.{self.entry.given} names") from None

    async def _start_program(self, command: str) -> Any:
        from adderclaw.sandbox.piped import start_piped
        from adderclaw.sandbox.process import environment
        from adderclaw.sandbox.programs import search_path
        from adderclaw.tools.mcp.pipes import child_streams

        server, root = self.entry.server, self._wires.roots[0]
        cwd = os.path.join(root, os.path.expanduser(filled(server.cwd or "")))
        argv = self._argv or [os.path.expanduser(filled(command)), *(filled(argument) for argument in server.args)]
        known = {**self._wires.env, **self._fill_variables(server.env), **self._more}
        if self._start is not None:
            argv, known = outside_workspace(argv), {**known, **NO_SETTINGS}
        if self._argv:  # programs that a package installs next to its own are found, too
            known = {"PATH": os.pathsep.join((os.path.dirname(argv[0]), *search_path(self._wires.roots))), **known}
        env = environment(known, workspace_roots=self._wires.roots)
        try:
            self._child = await start_piped(argv, cwd=cwd, env=env, start=self._start or self._wires.start)
        except (OSError, ValueError) as error:
            raise Unavailable(f"{argv[0]!r} cannot be started: {error}") from None
        return child_streams(self._child)

    async def _connect_address(self, url: str) -> Any:
        from adderclaw.tools.mcp.streams import http_streams, network_transport

        headers = self._fill_variables(self.entry.server.headers)
        keyed = any(name.lower() == "authorization" for name in headers)
        login = None if keyed or self._wires.login is None else await self._wires.login(self.entry, url)
        return http_streams(url, headers, await network_transport(url, self._wires.allowed), login)

    def _fill_variables(self, table: Mapping[str, str]) -> dict[str, str]:
        """Fills in variables, and registers values with secret names so that they are redacted everywhere."""
        values = {name: filled(text) for name, text in table.items()}
        for name, value in values.items():
            if is_secret_name(name):
                self._wires.secrets.add(value.rpartition(" ")[2])
        return values

    # ------------------------------------------------------------------ its tools

    async def _list_tools(self, client: "Client") -> None:
        if client.server_capabilities.tools is None:
            self._heard(Listing([], []))
            return
        listed_tools: list[Any] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = await client.list_tools(cursor=cursor)
            listed_tools += page.tools
            cursor = page.next_cursor
            if cursor is None or len(listed_tools) > MAX_TOOLS:
                break
        self._heard(list_definitions(self.entry.name, listed_tools))

    async def _watch(self, client: "Client") -> None:
        """Lists the tools again when the server reports a change, at most once a second."""
        from adderclaw.tools.mcp import answers

        if answers.must_listen(client):
            await answers.listen_for_changes(client, self._changed, self._list_tools)
            return
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._list_tools(client)
            except Exception as error:  # noqa: BLE001 - a server that cannot list is not worth the connection
                self._tell("failed", f"its tools changed, and it could not list them: {self._failure_reason(error)}")
            await asyncio.sleep(1.0)
