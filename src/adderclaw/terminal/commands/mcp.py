"""`adderclaw mcp`: adds, lists, approves and tests MCP servers; also serves as one."""

import asyncio
import time
from dataclasses import replace
from typing import Annotated, Any

import typer

from adderclaw import config
from adderclaw.agent.queries import parts
from adderclaw.agent.run import Options, Run, Runtime, open_run, start
from adderclaw.agent.run.configured_servers import configured
from adderclaw.agent.run.drive import Report, drive
from adderclaw.agent.run.signals import until_signal
from adderclaw.agent.session.session import TurnResult
from adderclaw.config import checks, operator_file, servers
from adderclaw.config.servers import Entry, slug
from adderclaw.core.decode import Invalid
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json
from adderclaw.storage import Store
from adderclaw.terminal import mcp_login
from adderclaw.terminal.commands.common import ConfigFile, OutputFormat, Profile, WorkspaceDir, group, print_result
from adderclaw.terminal.operators import OperatorAtWork
from adderclaw.terminal.output import print_json
from adderclaw.tools.mcp import pins
from adderclaw.tools.mcp.pins import Pin

app = group("Add, list, approve and test MCP servers; or serve as one.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The server's name under mcp_servers.")]


@app.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the server.")],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND [ARG…]]", help="The program to start.")
    ] = None,
    url: Annotated[str | None, typer.Option("--url", help="The address of a server that speaks HTTP.")] = None,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", "-e", metavar="NAME=VALUE", help="An environment variable; ${NAME} is expanded."),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", metavar="'NAME: VALUE'", help="An HTTP header; ${NAME} is expanded.")
    ] = None,
    reads: Annotated[
        list[str] | None, typer.Option("--reads", metavar="PATH", help="A path outside the workspace that it may read.")
    ] = None,
    timeout: Annotated[int | None, typer.Option("--timeout", metavar="MS", help="Timeout of a call.")] = None,
    sampling: Annotated[bool, typer.Option("--sampling", help="Let it use your model, at your cost.")] = False,
    output_format: OutputFormat = "text",
) -> None:
    """Add a server to your own configuration, or change it. Earlier approvals of its tools are dropped.

    Example: adderclaw mcp add notes --env NOTES_TOKEN='${NOTES_TOKEN}' -- python notes_server.py
    """
    entry = _entry(command or [], url, env or [], header or [], reads or [], timeout, sampling=sampling)
    try:
        servers.parse_server(entry)
    except Invalid as error:
        raise UsageError(f"mcp add {name}: {error}") from None
    if not slug(name):
        raise UsageError(f"mcp add: the name {name!r} needs a letter or a digit")
    secret = checks.secrets({name: entry})
    if secret:
        raise UsageError(
            f"mcp add {name}: {'; '.join(map(str, secret))}: write ${{NAME}} and set that variable instead"
        )
    path = operator_file.edit(config.home(), lambda document: _put_entry(document, name, entry))
    config.load()
    _forget(name)
    print_result(
        {"name": slug(name), "file": path, "entry": entry},
        f"{visible(name)} is in {path}; `adderclaw mcp test {slug(name)}` tries it",
        output_format,
    )


def _entry(
    command: list[str],
    url: str | None,
    env: list[str],
    headers: list[str],
    reads: list[str],
    timeout: int | None,
    *,
    sampling: bool,
) -> Json:
    entry: Json = {}
    if command:
        entry |= {"command": command[0]} | ({"args": command[1:]} if command[1:] else {})
    if url is not None:
        entry["url"] = url
    if env:
        entry["env"] = dict(_split_pair(text, "=", "--env", "NAME=VALUE") for text in env)
    if headers:
        entry["headers"] = dict(_split_pair(text, ":", "--header", "NAME: VALUE") for text in headers)
    if reads:
        entry["reads"] = reads
    if timeout is not None:
        entry["timeout"] = timeout
    return entry | ({"sampling": True} if sampling else {})


def _split_pair(text: str, mark: str, option: str, form: str) -> tuple[str, str]:
    name, separator, value = text.partition(mark)
    if not separator or not name.strip():
        raise UsageError(f"{option}: {text!r} is not of the form {form}")
    return name.strip(), value.strip()


def _put_entry(document: Any, name: str, entry: Json) -> None:
    document.setdefault("mcp_servers" if "mcpServers" not in document else "mcpServers", {})[name] = entry


@app.command("list")
def list_servers(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One server, with its tools.")] = None,
    config_file: ConfigFile = None,
    workspace: WorkspaceDir = None,
    output_format: OutputFormat = "text",
) -> None:
    """List the configured servers and their approved tools; nothing is started.

    Example: adderclaw mcp list
    """
    runtime = _runtime(config_file, workspace)
    known = configured(runtime)
    chosen = known if name is None else [_require_server(known, name)]
    store = Store.open(runtime.config.memory.path)
    try:
        rows = [(entry, pins.read_pins(store, entry.scope, entry.name)) for entry in chosen]
    finally:
        store.close()
    if output_format == "json":
        print_json([parts.server(entry, tools) for entry, tools in rows])
        return
    for entry, tools in rows:
        print(_server_line(entry, tools))
        for tool, pin in tools.items() if name is not None else ():
            print(f"  {_one_line(tool):<28} {pin.state:<12} {_one_line(pin.shown.description)[:100]}")
            if pin.state == "changed" and pin.offered is not None:
                print(f"  {'':<28} {'now':<12} {_one_line(pin.offered.description)[:100]}")
    if not rows:
        print("no MCP server is configured; `adderclaw mcp add NAME -- COMMAND` adds one")


def _server_line(entry: Entry, tools: dict[str, Pin]) -> str:
    target = entry.server.url or " ".join((entry.server.command or "", *entry.server.args))
    off = sum(not pin.usable for pin in tools.values())
    tool_counts = f"{len(tools)} tools" if tools else "never started"
    tool_counts += f", {off} off until approved" if off else ""
    of_plugin = entry.scope.startswith("plugin:")
    whose = f"of the plugin {_one_line(entry.given.partition(':')[0])}" if of_plugin else "of this project"
    where = "" if entry.scope == "user" else f"  ({whose})"
    return f"{entry.name:<16} {_one_line(target)[:80]}  [{tool_counts}]{where}"


def _one_line(text: str) -> str:
    return visible(" ".join(text.split()), keep_newlines=False)


@app.command("test")
def try_one(
    name: Name,
    config_file: ConfigFile = None,
    workspace: WorkspaceDir = None,
    profile: Profile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Start a server as the agent does, and list its tools.

    Example: adderclaw mcp test notes
    """

    async def work(run: Run, entry: Entry) -> str:
        return await _test_server(run, entry, output_format)

    raise typer.Exit(_with_server(config_file, workspace, profile, name, work))


async def _test_server(run: Run, entry: Entry, output_format: str) -> str:
    known = run.runtime.servers
    assert known is not None
    began = time.monotonic()
    failure = await known.reach(entry.name)
    connection = known.connection(entry.name)
    row = next(status for status in known.status() if status.entry.name == entry.name)
    took = round((time.monotonic() - began) * 1000)
    if output_format == "json":
        print_json(
            {**parts.server(entry, row.pins)}
            | {"ok": not failure, "error": failure, "protocol": connection.protocol, "duration_ms": took}
        )
    elif not failure:
        print(f"{entry.name}: ready in {took} ms, protocol {connection.protocol}, {len(row.pins)} tools")
        for tool, pin in row.pins.items():
            print(f"  {_one_line(tool):<28} {pin.state:<12} {_one_line(pin.shown.description)[:100]}")
    await known.close()
    return failure


@app.command()
def approve(
    name: Name,
    tools: Annotated[list[str] | None, typer.Argument(metavar="[TOOL…]", help="Only these of its tools.")] = None,
    config_file: ConfigFile = None,
    workspace: WorkspaceDir = None,
    output_format: OutputFormat = "text",
) -> None:
    """Approve the descriptions of a server's tools as last seen. Its claim that a tool is read-only then counts.

    Example: adderclaw mcp approve notes
    """
    runtime = _runtime(config_file, workspace)
    entry = _require_server(configured(runtime), name)
    store = Store.open(runtime.config.memory.path)
    try:
        known = pins.read_pins(store, entry.scope, entry.name)
        if not known:
            raise UsageError(f"the tools of {name!r} are not known yet; run `adderclaw mcp test {entry.name}`")
        unknown = [tool for tool in tools or () if tool not in known]
        if unknown:
            raise UsageError(f"{name!r} has no tool {unknown[0]!r}; it has: {', '.join(map(_one_line, known))}")
        approved = pins.approve_pins(store, entry.scope, entry.name, tools or None)
    finally:
        store.close()
    print_result(
        {"name": entry.name, "approved": approved},
        f"approved: {', '.join(map(_one_line, approved)) or 'nothing new; all tools were approved already'}",
        output_format,
    )


@app.command()
def remove(name: Name, output_format: OutputFormat = "text") -> None:
    """Remove a server and its approvals from your own configuration.

    Example: adderclaw mcp remove notes
    """
    removed: list[str] = []

    def drop(document: Any) -> None:
        for key in ("mcp_servers", "mcpServers"):
            table: Any = document.get(key, {})
            for known in [known for known in table if slug(known) == slug(name)]:
                del table[known]
                removed.append(known)

    path = operator_file.edit(config.home(), drop)
    if not removed:
        raise UsageError(f"there is no server {name!r} in {path}; list servers with `adderclaw mcp list`")
    _forget(name)
    print_result(
        {"name": slug(name), "removed": True, "file": path}, f"{visible(name)} is no longer in {path}", output_format
    )


def _forget(name: str) -> None:
    store = Store.open(config.load().config.memory.path)
    try:
        pins.forget_pins(store, "user", slug(name))
    finally:
        store.close()


# ------------------------------------------------------------------ logins


@app.command()
def login(name: Name, config_file: ConfigFile = None, workspace: WorkspaceDir = None) -> None:
    """Log in to a server that requires it, in the browser or with a pasted address.

    Example: adderclaw mcp login notes
    """
    raise typer.Exit(_with_server(config_file, workspace, None, name, _log_in))


async def _log_in(run: Run, entry: Entry) -> str:
    failure = await mcp_login.log_in(run.runtime, entry)
    if run.runtime.servers is not None:
        await run.runtime.servers.close()
    if not failure:
        print(f"logged in to {entry.name}")
    return failure


@app.command()
def logout(name: Name, config_file: ConfigFile = None, workspace: WorkspaceDir = None) -> None:
    """Forget the login to a server.

    Example: adderclaw mcp logout notes
    """
    runtime = _runtime(config_file, workspace)
    print(asyncio.run(mcp_login.log_out(runtime, _require_server(configured(runtime), name))))


@app.command()
def serve(
    http: Annotated[
        str | None, typer.Option("--http", metavar="HOST:PORT", help="Serve HTTP on this machine; default: stdio.")
    ] = None,
    config_file: ConfigFile = None,
    workspace: WorkspaceDir = None,
    profile: Profile = None,
) -> None:
    """Offer the tools to another program, behind the same gate: over stdio, or by HTTP with a bearer token.

    Example: adderclaw mcp serve --http 127.0.0.1:8765
    """
    from adderclaw.clients.mcp_server.serve import serve as serving

    options = Options(config_file=config_file, workspace=workspace, profile=profile, log_level="warning", here=True)
    raise typer.Exit(serving(options, http))


# ------------------------------------------------------------------ shared


def _runtime(config_file: str | None, workspace: str | None, profile: str | None = None) -> Runtime:
    options = Options(config_file=config_file, workspace=workspace, profile=profile, log_level="warning")
    return start(replace(options, here=True, looks=True))


def _require_server(known: list[Entry], name: str) -> Entry:
    for entry in known:
        if name in (entry.name, entry.given):
            return entry
    there = ", ".join(entry.name for entry in known) or "none"
    raise UsageError(f"there is no MCP server {name!r}. Configured: {there}")


def _with_server(config_file: str | None, workspace: str | None, profile: str | None, name: str, work: Any) -> int:
    """Runs `work` on one server in its own session; an error is one line."""
    runtime = _runtime(config_file, workspace, profile)
    entry = _require_server(configured(runtime), name)
    with open_run(runtime, OperatorAtWork(), kind="tool") as run:

        async def live() -> TurnResult:
            failure = await work(run, entry)
            return TurnResult("error" if failure else "completed", "", failure)

        async def driven() -> Report:
            return await drive(run, until_signal(run, live()))

        report = asyncio.run(driven())
    if report.result.reason:
        raise AdderClawError(report.result.reason)
    return report.exit_code
