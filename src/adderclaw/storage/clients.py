"""Clients of the server as rows: a token is shown once, and its row is useless without the operator's key.

The row has an HMAC over the token and everything that it allows, so that a program that can only write to the database
can neither create nor extend a token. The HMAC of a login also covers its client's row: a login ends with its client.
"""

import hashlib
import hmac
import json
import os
from base64 import urlsafe_b64encode
from collections.abc import Sequence

from adderclaw.core.errors import UsageError
from adderclaw.core.json_text import canonical
from adderclaw.core.record import NamedTuple
from adderclaw.storage import Store
from adderclaw.storage.text import iso, plain

PREFIX = "adk_"
"""The prefix of every token, so that a leaked token can be recognized."""
MAX_TOKEN_CHARACTERS = 200
"""Longest token that is checked."""
FORGET_SECONDS = 30 * 86_400.0
"""Seconds after which an expired or revoked client is deleted."""
USE_NOTE_SECONDS = 60.0
"""Seconds between two updates of `used_at`."""


class ClientRow(NamedTuple):
    id: str
    name: str
    scopes: tuple[str, ...]
    folders: tuple[str, ...]
    """Folders in which the client may open conversations and control those of others; if empty, it may open the
    server's folders and control only its own conversations."""
    created_at: str
    expires_at: str | None
    parent: str
    """The client that logged in; empty if this row is not a login."""
    mac: str
    used_at: str | None
    revoked_at: str | None

    def state(self, now: float) -> str:
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= iso(now) else "valid"


class NewClient(NamedTuple):
    """A new client with its token, which is not stored anywhere."""

    row: ClientRow
    token: str


_SELECT = (
    "SELECT id, name, scopes_json, folders_json, created_at, expires_at, parent, mac, used_at, revoked_at FROM clients"
)


def create(
    store: Store,
    key: bytes,
    *,
    name: str,
    scopes: Sequence[str],
    now: float,
    folders: Sequence[str] = (),
    seconds: float | None = None,
    parent: str = "",
) -> NewClient:
    """Create a client and its token, which expires after `seconds`; None: never."""
    id = f"client-{os.urandom(6).hex()}"
    token = f"{PREFIX}{id[7:]}_{urlsafe_b64encode(os.urandom(32)).decode().rstrip('=')}"
    row = ClientRow(
        id,
        plain(name),
        tuple(sorted({*scopes})),
        tuple(plain(folder) for folder in folders),
        iso(now),
        None if seconds is None else iso(now + seconds),
        parent,
        "",
        None,
        None,
    )
    row = row._replace(mac=_mac(key, row, token, _parent(store, row)))
    with store.write() as cursor:
        cursor.execute(
            "INSERT INTO clients(id, name, scopes_json, folders_json, created_at, expires_at, parent, mac)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (row.id, row.name, canonical(row.scopes), canonical(row.folders), *row[4:8]),
        )
    return NewClient(row, token)


def authenticate(store: Store, key: bytes, token: str, now: float) -> ClientRow | None:
    """The client of a token that is valid now. A login is valid only while the client that logged in is."""
    id = _id_of(token)
    rows = _rows(store, f"{_SELECT} WHERE id = ?", (id,))
    row = rows[0] if rows else _NOBODY
    parent = _parent(store, row)
    genuine = hmac.compare_digest(_mac(key, row, token, parent), row.mac)  # same timing for unknown ids
    if not genuine or row.state(now) != "valid":
        return None
    return row if parent is None or parent.state(now) == "valid" else None


def _parent(store: Store, row: ClientRow) -> ClientRow | None:
    """The client that logged in; None if the row is not a login."""
    if not row.parent:
        return None
    return next(iter(_rows(store, f"{_SELECT} WHERE id = ?", (row.parent,))), _NOBODY)


def current_state(store: Store, row: ClientRow, now: float) -> str:
    """The current state of a client that was authenticated earlier."""
    rows = _rows(store, f"{_SELECT} WHERE id IN (?, ?)", (row.id, row.parent))
    states = [client.state(now) for client in rows]
    whole = len(rows) == (2 if row.parent else 1)
    return next((client for client in states if client != "valid"), "valid") if whole else "revoked"


def note_use(store: Store, row: ClientRow, now: float) -> None:
    """Queue an update of when the client was last used."""
    store.write_later("UPDATE clients SET used_at = ? WHERE id IN (?, ?)", (iso(now), row.id, row.parent))


def listing(store: Store, *, logins: bool = False) -> list[ClientRow]:
    where = "" if logins else " WHERE parent = ''"
    return _rows(store, f"{_SELECT}{where} ORDER BY created_at, rowid")


def is_any_valid(store: Store, now: float) -> bool:
    return any(row.state(now) == "valid" for row in listing(store))


def revoke(store: Store, id: str, now: float) -> ClientRow:
    """Revoke a client and its logins from the next request on. Clearing the HMACs makes this irreversible."""
    rows = _rows(store, f"{_SELECT} WHERE id = ? OR (name = ? AND parent = '')", (id, id)) or (
        _rows(store, f"{_SELECT} WHERE instr(id, ?) = 1 AND parent = ''", (id,)) if id else []
    )
    if not rows:
        raise UsageError(f"there is no client {id!r}; `adderclaw token list` lists them")
    open_rows = [row for row in rows if row.revoked_at is None] or rows[:1]
    if len(open_rows) > 1:
        names = ", ".join(row.id for row in open_rows)
        raise UsageError(f"{id!r} is the name or the beginning of several clients ({names}): give the id of the one")
    with store.write() as cursor:
        cursor.execute(
            "UPDATE clients SET revoked_at = coalesce(revoked_at, ?), mac = '' WHERE id = ? OR parent = ?",
            (iso(now), open_rows[0].id, open_rows[0].id),
        )
    return open_rows[0]._replace(revoked_at=open_rows[0].revoked_at or iso(now))


def delete_ended(store: Store, now: float) -> None:
    """Delete ended logins, and clients that ended a month ago."""
    with store.write() as cursor:
        cursor.execute(
            "DELETE FROM clients WHERE parent != '' AND (revoked_at IS NOT NULL OR expires_at <= ?)", (iso(now),)
        )
        month = {"month": iso(now - FORGET_SECONDS)}
        cursor.execute("DELETE FROM clients WHERE expires_at <= :month OR revoked_at <= :month", month)


def _rows(store: Store, sql: str, params: Sequence[object] = ()) -> list[ClientRow]:
    clients: list[ClientRow] = []
    for row in store.read(sql, params):
        try:
            scopes, folders = json.loads(row[2]), json.loads(row[3])
        except ValueError:  # another program wrote it: its HMAC would not match either
            continue
        clients.append(ClientRow(row[0], row[1], tuple(map(str, scopes)), tuple(map(str, folders)), *row[4:]))
    return clients


def _id_of(token: str) -> str:
    if len(token) > MAX_TOKEN_CHARACTERS or not token.startswith(PREFIX):
        return ""
    return f"client-{token[len(PREFIX) :].partition('_')[0]}"


def _mac(key: bytes, row: ClientRow, token: str, parent: ClientRow | None) -> str:
    signed = canonical(
        ["client", *_signed_fields(row), token[:MAX_TOKEN_CHARACTERS], *([_signed_fields(parent)] if parent else [])]
    )
    return hmac.new(key, signed.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _signed_fields(row: ClientRow) -> list[object]:
    return [row.id, row.name, row.scopes, row.folders, row.created_at, row.expires_at or "", row.parent]


_NOBODY = ClientRow("", "", (), (), "", None, "", "0" * 64, None, None)
