"""Login by browser, by device code or by a pasted code."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from adderclaw.models.credentials import loopback
from adderclaw.models.credentials.oauth import Attempt, Client, OAuthError, Tokens
from adderclaw.models.credentials.sources import OAuthSettings
from adderclaw.models.credentials.unconfined import Unconfined

Method = Literal["auto", "browser", "device", "paste"]

BROWSER_SECONDS = 300.0


class Person(NamedTuple):
    """The person who logs in: shows messages to them and asks for a line of input."""

    tell: Callable[[str], None]
    ask: Callable[[], Awaitable[str | None]]
    path: str
    """PATH for finding a browser, without folders that the agent can write."""


def chosen(method: Method, settings: OAuthSettings) -> Literal["browser", "device", "paste"]:
    """The login method to use; a machine without a display cannot use the browser."""
    if method != "auto":
        return method
    if settings.authorize_url and has_browser():
        return "browser"
    return "device" if settings.device_url else "paste"


def has_browser() -> bool:
    if os.environ.get("BROWSER"):
        return True
    if os.environ.get("SSH_CONNECTION"):
        return False
    screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return sys.platform == "darwin" or bool(screen)


async def log_in(client: Client, method: Method, person: Person) -> Tokens:
    match chosen(method, client.settings):
        case "browser":
            async with loopback.listening() as listener:
                attempt = client.attempt(listener.redirect_uri)
                person.tell(
                    f"Opening the browser. If nothing happens, open this address on this machine:\n\n  {attempt.url}\n"
                )
                await open_page(attempt.url, person.path)
                try:
                    query = await asyncio.wait_for(listener.answer, BROWSER_SECONDS)
                except TimeoutError:
                    message = f"no answer came from the browser within {BROWSER_SECONDS:g} seconds; try --method paste"
                    raise OAuthError("refused", message) from None
            return await client.exchange(attempt, client.code_of(attempt, query))
        case "device":
            device = await client.device()
            person.tell(f"Open {device.verification_uri}\nand enter the code {device.user_code}\n\nWaiting …")
            return await client.poll(device)
        case "paste":
            return await _by_paste(client, person)


async def open_page(url: str, path: str) -> None:
    """Open the browser, found on this PATH. If that fails, the address is still shown on the screen."""
    code = "import sys, webbrowser; webbrowser.open(sys.argv[1])"
    argv, env = (sys.executable, "-I", "-c", code, url), {**os.environ, "PATH": path}
    # a text browser has to stay in the terminal's process group
    with Unconfined(argv, cwd="/", env=env, stdin=None, stdout=None, leads=False) as opening:
        await opening.wait()


async def _by_paste(client: Client, person: Person) -> Tokens:
    page = client.settings.redirect_url
    attempt = client.attempt(page or _nowhere())
    instruction = "paste the code that it shows" if page else "paste the whole address that the browser ends at"
    person.tell(f"Open this address in any browser, allow the access, then {instruction}:\n\n  {attempt.url}\n")
    return await client.exchange(attempt, pasted(client, attempt, (await person.ask() or "").strip()))


def _nowhere() -> str:
    """A local address without a listener. The browser's error page still shows the answer in its address."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}{loopback.PATH}"


def pasted(client: Client, attempt: Attempt, text: str) -> str:
    """The code in pasted text: an address, `code#state`, or a plain code if the server's page shows one."""
    if not text:
        raise OAuthError("refused", f"nothing was pasted; run `adderclaw login {client.name}` again")
    if "://" in text:
        return client.code_of(attempt, urlsplit(text).query)
    code, mark, state = text.partition("#")
    if mark:
        from urllib.parse import urlencode

        return client.code_of(attempt, urlencode({"code": code, "state": state}))
    if not client.settings.redirect_url:
        raise OAuthError("refused", "that is not the whole address; it begins with http://127.0.0.1 and holds state=")
    return code  # PKCE: the server refuses a code from another login
