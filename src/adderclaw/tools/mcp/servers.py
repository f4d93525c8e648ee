"""The MCP servers of a session: their tools, resources and prompts. Each server starts when it is needed."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple, cast

from adderclaw.config.foreign import json_schema
from adderclaw.config.servers import Entry
from adderclaw.core.host import ToolContext
from adderclaw.core.redaction import visible
from adderclaw.core.types import Disabled, Json, Prepared, Tool, ToolResult, Touch, internal_failure, refused, rejected
from adderclaw.storage import Store
from adderclaw.tools.mcp import pins, results
from adderclaw.tools.mcp.connection import Connection
from adderclaw.tools.mcp.definitions import Definition, Listing, description_for_model, server_of, tool_name
from adderclaw.tools.mcp.pins import Pin
from adderclaw.tools.mcp.setup import ConnectionSetup, Elicit, Sample, Unavailable
from adderclaw.tools.mcp.snapshots import Snapshots
from adderclaw.tools.specs import visible_schema

type Offer = Callable[[Tool[Any]], None]
type Login = Callable[[Entry, str], Awaitable[Any]]
MOST_RESOURCES = 500
START_SECONDS = 5.0
"""How many seconds after a server's start a search or a listing stops waiting for it."""


class Status(NamedTuple):
    """The state of a server, without asking it."""

    entry: Entry
    state: str
    reason: str
    pins: dict[str, Pin]


class Servers:
    """All servers of a session. None starts before it is needed, because its tools are known from its pins."""

    def __init__(self, entries: Iterable[Entry], wires: ConnectionSetup, store: Store | None, offer: Offer) -> None:
        self.entries = {entry.name: entry for entry in entries}
        self._wires, self._store, self._offer = wires, store, offer
        self._pins = {name: self._stored_pins(entry) for name, entry in self.entries.items()}
        self._listed: dict[str, set[str]] = {}
        self._connections: dict[str, Connection] = {}
        self._snapshots = Snapshots()
        self._off: set[str] = set()
        """Servers that the operator disabled in this session."""
        for name, entry in self.entries.items():
            self._offer_all(entry, self._pins[name])

    def _stored_pins(self, entry: Entry) -> dict[str, Pin]:
        if self._store is None or entry.live is not None:
            return {}
        return pins.read_pins(self._store, entry.scope, entry.name)

    def detach(self) -> None:
        """Stops writing pins to the store."""
        self._store = None

    # ------------------------------------------------------------------ starting

    def connection(self, name: str) -> Connection:
        """The connection to a server; raises Unavailable if none of that name is configured."""
        entry = self.entries.get(name)
        if entry is None:
            known = ", ".join(self.entries) or "none"
            raise Unavailable(f"there is no MCP server {name!r}. Configured: {known}")
        if name in self._off:
            raise Unavailable(_disabled_message(entry))
        if name not in self._connections:
            self._connections[name] = Connection(entry, self._wires, lambda listing: self._update_tools(entry, listing))
        return self._connections[name]

    def begin(self) -> None:
        """Starts the servers without pins in the background."""
        for name, known in self._pins.items():
            if not known and name not in self._off and self.connection(name).state == "idle":
                asyncio.ensure_future(self.reach(name))  # noqa: RUF006 - the connection holds its own task

    async def reach(self, name: str) -> str:
        """Connects to a server; returns why it failed, or an empty text."""
        try:
            await self.connection(name).client()
        except Unavailable as error:
            return str(error)
        return ""

    async def wait_for_starting(self) -> list[str]:
        """Wait briefly for servers that are starting; returns which are missing, and why."""
        known_by = {*self._listed, *self._off}
        waiting = [name for name, known in self._pins.items() if not known and name not in known_by]
        return [why for why in (await self._reach_soon(waiting)).values() if why]

    async def _reach_soon(self, names: Iterable[str]) -> dict[str, str]:
        """Connects to several servers; returns the error of each or an empty text. A hanging server delays once."""
        tasks = {name: asyncio.ensure_future(self.reach(name)) for name in names}
        if not tasks:
            return {}
        left = START_SECONDS - min(self.connection(name).starting_for for name in tasks)
        await asyncio.wait(tasks.values(), timeout=max(left, 0.0))
        errors: dict[str, str] = {}
        for name, task in tasks.items():
            if task.done():
                errors[name] = task.result()
            else:
                task.cancel()  # this cancels only the waiting: the server continues to start
                waited = self.connection(name).starting_for
                why = f"has not answered yet ({waited:.0f} s since its start), so its tools and resources are missing"
                errors[name] = f"the MCP server {name!r} {why}. Try again later"
        return errors

    async def start_server_of(self, tool: str) -> str:
        """Starts the server of an unknown tool; returns why it failed, or an empty text."""
        name = server_of(tool)
        return await self.reach(name) if name is not None and name in self.entries else ""

    def answer_with(self, sample: Sample, elicit: Elicit) -> None:
        """Lets servers ask the session's model and its operator."""
        self._wires.sample, self._wires.elicit = sample, elicit

    async def log_in(self, name: str, login: Login) -> str:
        """Connects with a person who can log in; returns why it failed, or an empty text."""
        usual, self._wires.login = self._wires.login, login
        try:
            return await self.reconnect(name)
        finally:
            self._wires.login = usual

    async def reconnect(self, name: str) -> str:
        """Reconnects at once; returns why it failed, or an empty text."""
        try:
            await self.connection(name).restart()
        except Unavailable as error:
            return str(error)
        return await self.reach(name)

    async def disable(self, name: str) -> None:
        """Disables a server in this session: ends it and refuses its tools."""
        connection = self.connection(name) if name not in self._off else None
        self._off.add(name)
        if connection is not None:
            await connection.restart()

    def enable(self, name: str) -> None:
        """Allows a disabled server to start again when it is needed."""
        self._off.discard(name)
        self.connection(name)

    async def close(self) -> None:
        await asyncio.gather(*(connection.close() for connection in self._connections.values()))

    def status(self) -> list[Status]:
        rows: list[Status] = []
        for name, entry in self.entries.items():
            connection = self._connections.get(name)
            state, reason = (connection.state, connection.reason) if connection is not None else ("idle", "")
            if name in self._off:
                state, reason = "disabled", ""
            rows.append(Status(entry, state, reason, self._pins[name]))
        return rows

    # ------------------------------------------------------------------ tools

    def _update_tools(self, entry: Entry, listing: Listing) -> None:
        """Compares a server's current tools with the approved ones."""
        before = self._pins[entry.name]
        self._listed[entry.name] = {definition.name for definition in listing.definitions}
        for reason in listing.left_out:
            self._warn(f"MCP server {entry.given!r}: {reason}")
        if self._store is not None and entry.live is None:
            self._pins[entry.name] = pins.check_pins(self._store, entry.scope, entry.name, listing.definitions)
        else:
            by = "first_sight" if entry.live is None else "operator"
            self._pins[entry.name] = {tool.name: Pin(tool, by, None) for tool in listing.definitions}
        if not before and listing.definitions and entry.live is None:
            detail = f"{len(listing.definitions)} tools, as they are now"
            self._wires.tell({"event_type": "mcp_server", "server": entry.name, "state": "pinned", "detail": detail})
        self._warn_changed(entry, before)
        self._offer_all(entry, self._pins[entry.name])

    def _warn_changed(self, entry: Entry, before: dict[str, Pin]) -> None:
        now = self._pins[entry.name]
        off = [name for name, pin in now.items() if not pin.usable and before.get(name) != pin]
        if not off:
            return
        names = visible(", ".join(off), keep_newlines=False)[:300]
        self._wires.tell({"event_type": "mcp_server", "server": entry.name, "state": "changed", "detail": names})
        self._warn(
            f"tools of the MCP server {entry.given!r} are off because they changed after approval: {names}; "
            f"{_approval_hint(entry)}"
        )

    def _warn(self, message: str) -> None:
        self._wires.tell({"event_type": "warning", "message": message})

    def _offer_all(self, entry: Entry, known: dict[str, Pin]) -> None:
        for pin in known.values():
            self._offer(self._tool(entry, pin.shown))

    def _tool(self, entry: Entry, definition: Definition) -> Tool[Json]:
        server, tool = entry.name, definition.name
        name = tool_name(server, tool)

        def prepare(arguments: Json, _context: ToolContext) -> Prepared:
            if server in self._off:
                raise Disabled("operator", _disabled_message(entry))
            pin = self._pins[server].get(tool)
            if pin is None or not pin.usable:
                raise Disabled("mcp pins", self._unapproved(entry, tool, pin))
            touch = Touch(opaque=True, why=f"calls {tool} of the MCP server {server}")
            if pin.read_only:
                touch = Touch(why=f"{tool} of the MCP server {server} only reads, according to the server")
            return Prepared(touch, lambda: self._call(entry, tool, arguments), overlaps=pin.read_only)

        def timeout(_arguments: Json) -> float:
            connection = self._connections.get(server)
            starts = connection is None or connection.state != "ready"
            return (entry.server.timeout + (entry.server.startupTimeout if starts else 0)) / 1000

        return Tool(
            name=name,
            arguments=cast(type[Json], dict),
            prepare=prepare,
            description=f"[MCP server {server}] {description_for_model(definition)}",
            parameters=visible_schema(definition.schema),
            timeout=timeout,
            decode=lambda arguments: json_schema.checked(definition.schema, arguments),
            deferred=True,
        )

    def _unapproved(self, entry: Entry, tool: str, pin: Pin | None) -> str:
        what = (
            "came after its server was approved"
            if pin is None or pin.state == "new"
            else "changed since it was approved"
        )
        return f"{tool_name(entry.name, tool)} is off: it {what}; {_approval_hint(entry)}"

    async def _call(self, entry: Entry, tool: str, arguments: Json, *, again: bool = True) -> ToolResult:
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED

        connection = self.connection(entry.name)
        try:
            client = await connection.client()
        except Unavailable as error:
            return internal_failure(str(error))
        pin = self._pins[entry.name].get(tool)
        if pin is None or not pin.usable:
            reason = self._unapproved(entry, tool, pin)
            return refused(reason, "policy")
        if tool not in self._listed.get(entry.name, ()):
            return rejected(f"the MCP server {entry.given!r} no longer has a tool {tool!r}")
        if (blind := self._snapshots.refusal(entry.name, tool, arguments)) is not None:
            return rejected(blind)
        try:
            result = await client.call_tool(tool, arguments, progress_callback=self._progress(entry, tool))
        except MCPError as error:
            if again and "session terminated" in str(error).lower():
                connection.mark_lost(client, str(error))
                return await self._call(entry, tool, arguments, again=False)
            if error.code == CONNECTION_CLOSED:
                connection.mark_lost(client, "it closed the connection")
                return internal_failure(
                    f"the MCP server {entry.given!r} ended while {tool} ran; the outcome is unknown"
                )
            return rejected(results.visible_text(f"error {error.code}: {error}"), own=False)
        except (RuntimeError, ValueError) as error:  # its answer does not match its own schema
            detail = visible(str(error))[:500]
            server = f"the MCP server {entry.given!r}"
            wrong = f"{tool} of {server} returned an answer that does not match its own schema: {detail}"
            return rejected(wrong, own=False)
        if not (outcome := results.call_result(result)).is_error:
            self._snapshots.record_call(entry.name, tool)
        return outcome

    def _progress(self, entry: Entry, tool: str) -> Any:
        async def tell(progress: float, total: float | None, message: str | None) -> None:
            self._wires.tell(
                {
                    "event_type": "tool_progress",
                    "tool": tool_name(entry.name, tool),
                    "progress": progress,
                    "total": total,
                    "message": (message or "")[:200],
                }
            )

        return tell

    # ------------------------------------------------------------------ resources and prompts

    async def resources(self, server: str | None, *, soon: bool = False) -> tuple[list[Json], list[str]]:
        """The resources of one server, or of all, and which servers could not be asked.

        `soon`: of all servers, those that start too slowly are left out.
        """
        names = (
            [self.connection(server).entry.name] if server else [name for name in self.entries if name not in self._off]
        )
        late = await self._reach_soon(names) if soon and not server else {}
        answers = await asyncio.gather(*(self._resources(name) for name in names if not late.get(name)))
        rows = [row for rows, _ in answers for row in rows]
        failures = [*late.values(), *(failure for _, failure in answers)]
        return rows[:MOST_RESOURCES], [failure for failure in failures if failure]

    async def _resources(self, name: str) -> tuple[list[Json], str]:
        from mcp import MCPError

        try:
            client = await self.connection(name).client()
            if client.server_capabilities.resources is None:
                return [], ""
            listed: list[Any] = []
            cursor: str | None = None
            while len(listed) < MOST_RESOURCES:
                page = await client.list_resources(cursor=cursor)
                listed += page.resources
                cursor = page.next_cursor
                if cursor is None or not page.resources:
                    break
            return [results.resource_row(resource, name) for resource in listed], ""
        except Unavailable as error:
            return [], str(error)
        except MCPError as error:
            return [], f"the MCP server {name!r} did not list its resources: {visible(str(error))[:200]}"

    async def read(self, server: str, uri: str) -> ToolResult:
        from mcp import MCPError

        try:
            client = await self.connection(server).client()
            return results.resource_result(await client.read_resource(uri))
        except Unavailable as error:
            return rejected(str(error))
        except (MCPError, ValueError) as error:
            why = f"the MCP server {server!r} did not give {uri!r}: {visible(str(error))[:500]}"
            return rejected(why, own=False)

    async def prompts(self, server: str) -> list[Json]:
        client = await self.connection(server).client()
        if client.server_capabilities.prompts is None:
            return []
        page = await client.list_prompts()
        return [
            {
                "name": f"mcp__{server}__{prompt.name}",
                "prompt": prompt.name,
                "description": visible(prompt.description or "", keep_newlines=False)[:200],
                "arguments": [argument.name for argument in prompt.arguments or ()],
                "required": [argument.name for argument in prompt.arguments or () if argument.required],
            }
            for prompt in page.prompts
        ]

    async def prompt(self, command: str, words: list[str]) -> str:
        """The text that `/mcp__SERVER__PROMPT words…` sends: the prompt with its arguments in order."""
        from mcp import MCPError

        server = server_of(command)
        if server is None:
            raise Unavailable(f"{command!r} is not a prompt. Write mcp__SERVER__PROMPT")
        try:
            known = {row["name"]: row for row in await self.prompts(server)}
            if command not in known:
                raise Unavailable(f"the MCP server {server!r} has no such prompt; it has: {', '.join(known) or 'none'}")
            row = known[command]
            arguments = _prompt_arguments(row, words)
            client = await self.connection(server).client()
            return results.prompt_text(await client.get_prompt(row["prompt"], arguments))
        except MCPError as error:
            raise Unavailable(f"the MCP server {server!r}: {visible(str(error))[:300]}") from None


def _prompt_arguments(prompt: Json, words: list[str]) -> dict[str, str]:
    """The arguments of a prompt in order; the last one takes all remaining words."""
    names: list[str] = prompt["arguments"]
    if words and not names:
        raise Unavailable(f"{prompt['name']} takes no arguments")
    if len(words) > len(names):
        words = [*words[: len(names) - 1], " ".join(words[len(names) - 1 :])]
    arguments = dict(zip(names, words, strict=False))
    if lacks := [name for name in prompt["required"] if name not in arguments]:
        raise Unavailable(f"{prompt['name']} needs {', '.join(lacks)}: /{prompt['name']} {' '.join(names).upper()}")
    return arguments


def _disabled_message(entry: Entry) -> str:
    return f"the MCP server {entry.given!r} is disabled in this session; /mcp enable {entry.name} enables it"


def _approval_hint(entry: Entry) -> str:
    return f"`adderclaw mcp list {entry.name}` shows them, `adderclaw mcp approve {entry.name}` approves them"
