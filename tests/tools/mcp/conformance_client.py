"""What the conformance suite runs as a client: our own connection against its server, as the scenario wants it."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from adderclaw.agent.session.clock import SystemClock
from adderclaw.config.servers import Entry, parse_server
from adderclaw.core.redaction import Secrets
from adderclaw.core.types import Json
from adderclaw.tools.mcp.connection import Connection
from adderclaw.tools.mcp.oauth import Person, StoredLogin, auth_for
from adderclaw.tools.mcp.setup import ConnectionSetup

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT: Json = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")


class Memory:
    """Keeps logins for as long as the scenario lasts."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    async def text(self, name: str) -> str | None:
        return self.texts.get(name)

    async def keep_text(self, name: str, text: str) -> str:
        self.texts[name] = text
        return "memory"

    @asynccontextmanager
    async def alone(self, name: str) -> AsyncGenerator[None]:
        yield


class Browser:
    """Stands for the person with a browser: the server's page answers with where it would send them."""

    def __init__(self) -> None:
        self.landed = ""

    async def show(self, address: str) -> None:
        async with httpx2.AsyncClient(follow_redirects=False, trust_env=False) as client:
            self.landed = (await client.get(address)).headers["location"]

    async def answer(self) -> str:
        return self.landed


async def accept_defaults(_server: str, question: Json) -> Json:
    fields: Json = question["requested_schema"]["properties"]
    defaults = {name: field["default"] for name, field in fields.items() if "default" in field}
    return {"action": "accept", "content": defaults}


async def issuer_of(url: str) -> str:
    """What an operator knows who registered a client: whose client it is."""
    place = url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
    async with httpx2.AsyncClient(trust_env=False) as client:
        return str((await client.get(place)).json()["authorization_servers"][0])


async def entry_of(url: str) -> Entry:
    made: Json = {"url": url}
    os.environ["THE_SECRET"] = str(CONTEXT.get("client_secret", ""))
    os.environ["THE_KEY"] = str(CONTEXT.get("private_key_pem", ""))
    if SCENARIO == "auth/pre-registration":
        made["oauth"] = {"clientId": CONTEXT["client_id"], "clientSecretEnv": "THE_SECRET"}
    elif SCENARIO.startswith("auth/client-credentials-"):
        secret = {"clientKeyEnv": "THE_KEY"} if SCENARIO.endswith("-jwt") else {"clientSecretEnv": "THE_SECRET"}
        given = {"clientId": CONTEXT["client_id"], "issuer": await issuer_of(url), **secret}
        made["oauth"] = {"grant": "client_credentials", **given}
    elif SCENARIO == "auth/basic-cimd":
        made["oauth"] = {"clientMetadataUrl": "https://conformance-test.local/client-metadata.json"}
    return Entry("suite", "suite", parse_server(made), "user")


async def main(url: str) -> None:
    entry, memory, secrets, clock, browser = await entry_of(url), Memory(), Secrets(), SystemClock(), Browser()

    async def login(wanted: Entry, address: str) -> Any:
        kept = StoredLogin(wanted, address, memory, secrets, clock)
        return auth_for(wanted, address, kept, Person("http://127.0.0.1:3000/callback", browser.show, browser.answer))

    wires = ConnectionSetup(
        clock,
        secrets,
        lambda body: print(body, file=sys.stderr),
        ("/",),
        allowed=("localhost", "127.0.0.1"),
        login=login if SCENARIO.startswith("auth/") else None,
        elicit=accept_defaults,
    )
    connection = Connection(entry, wires, lambda listing: None)
    try:
        client = await connection.client()
        if client.server_capabilities.tools is not None:
            for tool in (await client.list_tools()).tools:
                arguments = {"a": 5, "b": 3} if tool.name == "add_numbers" else {}
                print(await client.call_tool(tool.name, arguments), file=sys.stderr)
    finally:
        await connection.close()


asyncio.run(main(sys.argv[1]))
