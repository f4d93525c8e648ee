"""`adderclaw token`: the clients of the server and what each may do."""

import os
import re
import time
from typing import Annotated

import typer

from adderclaw.agent.conversation import questions
from adderclaw.config import home
from adderclaw.config.paths import beneath, followed
from adderclaw.core import home_names
from adderclaw.core.errors import UsageError
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json
from adderclaw.server.endpoint import SCOPES
from adderclaw.storage import Store, clients
from adderclaw.storage.clients import ClientRow
from adderclaw.storage.ledger.log_files import read_or_create_key
from adderclaw.storage.text import plain
from adderclaw.terminal.commands.common import ConfigFile, OutputFormat, group, print_result
from adderclaw.terminal.output import print_json

app = group("Create, list and revoke access tokens for clients of the server.")

UNITS = {"m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
NAME = re.compile(r"[\w .@+-]{1,64}")


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The client's name, as shown in rows and receipts.")],
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", help=f"What it may do, repeatable: {', '.join(SCOPES)}; default: read."),
    ] = None,
    folder: Annotated[
        list[str] | None,
        typer.Option(
            "--folder", metavar="DIR", help="Restrict it to this folder, with full access to that folder; repeatable."
        ),
    ] = None,
    expires: Annotated[
        str, typer.Option("--expires", metavar="TIME", help="When it expires: 30m, 8h, 90d, 2w, or never.")
    ] = "90d",
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Create a token for a client of `adderclaw serve`. It is shown once and not stored.

    Example: adderclaw token create laptop --scope read --scope operate
    """
    if not NAME.fullmatch(name) or name != name.strip():
        raise UsageError(f"{name!r} is not a valid client name: use up to 64 letters, digits, spaces and .@+-_")
    store, key = _open_store(config)
    try:
        if any(row.name == name and row.state(time.time()) == "valid" for row in clients.listing(store)):
            raise UsageError(f"a client {name!r} already exists: choose another name, or revoke that one first")
        client = clients.create(
            store,
            key,
            name=name,
            scopes=_scopes(scope or ["read"]),
            folders=[_folder(path) for path in folder or ()],
            now=time.time(),
            seconds=_seconds(expires),
        )
    finally:
        store.close()
    if output_format == "json":
        print_json({**_as_json(client.row), "token": client.token})
        return
    print(_line(client.row))
    print(f"token: {client.token}")
    print("It is shown only once. Send it as `Authorization: Bearer TOKEN`, or log in with it in the browser.")


@app.command("list")
def list_tokens(
    everything: Annotated[bool, typer.Option("--all", help="Include expired and revoked tokens.")] = False,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """List the clients and what each may do; tokens are never shown.

    Example: adderclaw token list
    """
    path = questions.store_path(config)
    rows: list[ClientRow] = []
    if Store.exists(path):
        store = Store.open(path)
        try:
            rows = [row for row in clients.listing(store) if everything or row.state(time.time()) == "valid"]
        finally:
            store.close()
    if output_format == "json":
        print_json([_as_json(row) for row in rows])
        return
    for row in rows:
        print(_line(row))
    if not rows:
        print("no client has a token")


@app.command()
def revoke(
    id: Annotated[str, typer.Argument(metavar="ID", help="A client's id, a prefix of it, or its name.")],
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Revoke a token. From the next request on, neither it nor logins made with it are accepted.

    Example: adderclaw token revoke laptop
    """
    store, _ = _open_store(config)
    try:
        row = clients.revoke(store, id, time.time())
    finally:
        store.close()
    print_result(_as_json(row), visible(f"{row.id} {row.name}: revoked", keep_newlines=False), output_format)


def _open_store(config: str | None) -> tuple[Store, bytes]:
    return Store.open(questions.store_path(config)), read_or_create_key(os.path.join(home(), home_names.RECEIPT_KEY))


def _scopes(options: list[str]) -> list[str]:
    words = [word for option in options for word in option.split(",")]
    if unknown := [word for word in words if word not in SCOPES]:
        raise UsageError(f"--scope {unknown[0]!r}: must be one of {', '.join(SCOPES)}")
    return words


def _folder(path: str) -> str:
    """Refuses a folder that a token cannot be restricted to."""
    folder = followed(os.path.abspath(os.path.expanduser(path)))
    if not os.path.isdir(folder):
        raise UsageError(f"--folder {path!r} is not a folder")
    if plain(folder) != folder:
        raise UsageError(f"--folder {path!r}: its name is not UTF-8, so no token can be restricted to it: rename it")
    if beneath(folder, followed(home())):
        raise UsageError(f"--folder {path!r}: the AdderClaw home has records of every folder: choose another folder")
    return folder


def _seconds(text: str) -> float | None:
    if text == "never":
        return None
    number, unit = text[:-1], text[-1:]
    if unit not in UNITS or not number.isascii() or not number.isdigit() or not 0 < int(number) <= 100_000:
        raise UsageError(f"--expires {text!r}: give a number with m, h, d or w, such as 90d, or never")
    return float(int(number) * UNITS[unit])


def _as_json(row: ClientRow) -> Json:
    fields: Json = {name: value for name, value in row._asdict().items() if name not in ("mac", "parent")}
    return fields | {"scopes": list(row.scopes), "folders": list(row.folders), "state": row.state(time.time())}


def _line(row: ClientRow) -> str:
    until = f"until {row.expires_at}" if row.expires_at else "never expires"
    where = f"  in {', '.join(row.folders)}" if row.folders else ""
    used = f"  last used {row.used_at}" if row.used_at else ""
    text = f"{row.id}  {row.name}  {row.state(time.time())}  {','.join(row.scopes)}  {until}{where}{used}"
    return visible(text, keep_newlines=False)
