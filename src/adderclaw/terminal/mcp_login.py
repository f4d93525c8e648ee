"""Logs in to MCP servers and out of them: for the command line and the REPL."""

import asyncio
import sys
from typing import Any

from adderclaw.agent.run import Runtime
from adderclaw.config.servers import Entry
from adderclaw.terminal.operators import STDIN


async def log_in(runtime: Runtime, entry: Entry) -> str:
    """Logs in to a server and connects to it; returns why that failed, or nothing."""
    from adderclaw.agent.run.start import helpers_path
    from adderclaw.models.credentials.login_flows import has_browser, open_page
    from adderclaw.models.credentials.loopback import listening
    from adderclaw.tools.mcp.oauth import Person, StoredLogin, auth_for

    known = runtime.servers
    assert known is not None
    if entry.server.url is None:
        return f"{entry.given!r} is a program: it takes its keys from its env, not from a login"
    if entry.server.oauth is not None and entry.server.oauth.grant == "client_credentials":
        return f"{entry.given!r} needs no login: this program logs in with its own secret; try `mcp test {entry.name}`"
    browser = has_browser()
    async with listening(entry.server.oauth.callbackPort or 0 if entry.server.oauth else 0) as listener:

        async def show(address: str) -> None:
            next_step = "" if browser else ", then paste the whole address that the browser ends at"
            print(f"Open this address and allow the access{next_step}:\n\n  {address}\n", file=sys.stderr)
            if browser:
                await open_page(address, helpers_path(runtime.loaded))

        async def answer() -> str:
            waiting: list[asyncio.Future[Any]] = [asyncio.ensure_future(listener.answer)]
            waiting += [] if browser else [asyncio.ensure_future(STDIN.read())]
            done, _ = await asyncio.wait(waiting, timeout=300, return_when=asyncio.FIRST_COMPLETED)
            return str(next(iter(done)).result() or "") if done else ""

        async def auth(server_entry: Entry, url: str) -> Any:
            stored_login = StoredLogin(server_entry, url, runtime.credentials.logins(), runtime.secrets, runtime.clock)
            stored_login.start_over()
            return auth_for(server_entry, url, stored_login, Person(listener.redirect_uri, show, answer))

        return await known.log_in(entry.name, auth)


async def log_out(runtime: Runtime, entry: Entry) -> str:
    """Forgets a login and returns a message about it."""
    from adderclaw.tools.mcp.oauth import login_name

    forgotten = await runtime.credentials.logins().forget(login_name(entry))
    return f"logged out of {entry.name}" if forgotten else f"there was no login to {entry.name}"
