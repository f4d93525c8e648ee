"""/mcp: shows the MCP servers of this session and their problems, and reconnects, disables or logs in."""

from typing import TYPE_CHECKING

from adderclaw.agent.run import Run
from adderclaw.core.errors import UsageError
from adderclaw.core.redaction import visible
from adderclaw.terminal.repl import here
from adderclaw.terminal.repl.slash.command import Done

if TYPE_CHECKING:
    from adderclaw.tools.mcp.servers import Servers, Status

VERBS = ("reconnect", "enable", "disable", "login", "logout")


async def mcp(run: Run, rest: str) -> Done:
    """Lists the servers; with a name shows one with its tools and prompts; with a verb acts on it."""
    servers = run.runtime.servers
    if servers is None:
        print("no MCP server is configured; `adderclaw mcp add` adds one")
        return
    first, _, second = rest.partition(" ")
    if first in VERBS:
        await _apply_verb(run, servers, first, second.strip())
    elif rest:
        await _show(servers, _require_server(servers, rest))
    else:
        for row in servers.status():
            _print(row)
        print("/mcp NAME shows its tools and prompts; reconnect, enable, disable, login and logout take a NAME")


async def _apply_verb(run: Run, servers: "Servers", verb: str, name: str) -> None:
    every = verb in ("reconnect", "enable", "disable") and name in ("", "all")
    for row in servers.status() if every else [_require_server(servers, name)]:
        server = row.entry.name
        if verb == "disable":
            await servers.disable(server)
        elif verb == "enable":
            servers.enable(server)
        elif verb == "reconnect":
            await servers.reconnect(server)
        elif verb == "login":
            from adderclaw.terminal import mcp_login

            async with here.line_by_line(run):  # prints a URL to open, and may read a pasted one
                failure = await mcp_login.log_in(run.runtime, row.entry)
            if failure:
                raise UsageError(failure)
            print(f"logged in to {visible(server)}")
        else:
            from adderclaw.terminal import mcp_login

            print(visible(await mcp_login.log_out(run.runtime, row.entry)))
            if row.state == "ready":  # its login is gone
                await servers.connection(server).restart()
        _print(_require_server(servers, server))


async def _show(servers: "Servers", row: "Status") -> None:
    why = await servers.reach(row.entry.name) if row.state != "disabled" else ""
    row = _require_server(servers, row.entry.name)
    _print(row)
    for name, pin in row.pins.items():
        print(f"  {visible(name, keep_newlines=False)}" + ("" if pin.usable else "  (off until approved)"))
    for prompt in await servers.prompts(row.entry.name) if not why and row.state == "ready" else ():
        named = " ".join(visible(name, keep_newlines=False) for name in prompt["arguments"]).upper()
        print(f"  /{visible(prompt['name'], keep_newlines=False)} {named}  {prompt['description']}".rstrip())


def _require_server(servers: "Servers", name: str) -> "Status":
    rows = {row.entry.name: row for row in servers.status()}
    if name not in rows:
        raise UsageError(f"there is no MCP server {name!r}. Configured: {', '.join(rows) or 'none'}")
    return rows[name]


def _print(row: "Status") -> None:
    off = sum(not pin.usable for pin in row.pins.values())
    count = f"{len(row.pins)} tools" + (f", {off} off until approved" if off else "")
    line = f"{row.entry.name:<16} {row.state:<9} {count}  {visible(row.reason, keep_newlines=False)}"
    print(line.rstrip())
