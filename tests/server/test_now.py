"""What the overview is sent while it is open, whatever happens at the moment at which it is looked."""

import asyncio
from pathlib import Path
from typing import Any

from adderclaw.storage import Store, transcript
from tests.server.conftest import Server

SOON = 10.0
"""Seconds: less than those after which is looked without a reason."""


def test_what_is_written_while_a_slow_page_is_sent_to_is_not_missed(server: Server, workspace: Path) -> None:
    path = server.state.store.path
    headers = [(b"authorization", f"Bearer {server.token()}".encode()), (b"host", b"127.0.0.1:8423")]
    scope = {"type": "http", "method": "GET", "path": "/ui/overview/events", "query_string": b"", "headers": headers}
    scope |= {"http_version": "1.1", "scheme": "http", "server": ("127.0.0.1", 8423), "client": ("127.0.0.1", 1)}
    shown, said = asyncio.Event(), list[str]()

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        text = message.get("body", b"").decode()
        if "event: put" in text and not any(said):  # it was looked, and the page has read one element of what was found
            another = Store.open(path)
            with another.write() as cursor:
                transcript.begin(cursor, conversation_id="c-1", session_id="s-1", project_dir=str(workspace))
                transcript.append(cursor, "s-1", "user", {"uuid": "u", "content": [{"type": "text", "text": "hi"}]})
                transcript.set_title(cursor, "c-1", "Meanwhile")
            another.close()
        said.append(text)
        if "Meanwhile" in text:
            shown.set()

    async def opened() -> None:
        page = asyncio.create_task(server.app(scope, receive, send))
        await asyncio.wait({page, asyncio.create_task(shown.wait())}, timeout=SOON, return_when="FIRST_COMPLETED")
        page.cancel()
        await asyncio.wait({page})

    asyncio.run(opened())
    assert shown.is_set(), said
