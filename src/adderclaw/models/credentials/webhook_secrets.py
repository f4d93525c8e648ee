"""The secrets of webhooks that receive signed requests: one file in the operator's home, readable only by its owner.

The server needs them unattended, so they are not encrypted. They are in the same folder as the key of the receipts.
"""

import fcntl
import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

from adderclaw.core import home_names
from adderclaw.core.record import NamedTuple
from adderclaw.models.credentials.encrypted_file import private_bytes, replace_private
from adderclaw.models.http import signing

GRACE = 86_400.0
"""Seconds that a replaced secret stays valid, so that the sender can switch to the new one."""


class Secret(NamedTuple):
    text: str
    made_at: float
    until: float | None = None
    """When a replaced secret becomes invalid; None for the current secret."""


def place(home: str) -> str:
    return os.path.join(home, home_names.WEBHOOKS)


def known(home: str, door: str, now: float) -> list[str]:
    """The secrets of a webhook that are valid now, latest first."""
    return [secret.text for secret in listed(home, door) if secret.until is None or secret.until > now]


def listed(home: str, door: str) -> list[Secret]:
    return _read(home).get(door, [])


def make(home: str, door: str, now: float, *, grace: float = GRACE, text: str | None = None) -> str:
    """Store a new secret of a webhook, or the sender's `text`; the previous one stays valid for `grace` seconds."""
    new_text = text if text is not None else signing.new_secret()
    signing.key_of(new_text)  # raises UsageError for a weak or damaged secret
    with _locked(home):
        table = _read(home)
        before = [
            secret
            for secret in table.get(door, [])
            if secret.text != new_text and (secret.until is None or secret.until > now)
        ]
        late = [secret._replace(until=min(secret.until or now + grace, now + grace)) for secret in before]
        table[door] = [
            Secret(new_text, now),
            *(secret for secret in late if secret.until is not None and secret.until > now),
        ]
        _write(home, table)
    return new_text


def forget(home: str, door: str) -> bool:
    """Delete all secrets of a webhook, so that it accepts no request; returns whether there were any."""
    if door not in _read(home):
        return False
    with _locked(home):
        table = _read(home)
        existed = table.pop(door, None) is not None
        _write(home, table)
    return existed


def _read(home: str) -> dict[str, list[Secret]]:
    """Read the file. Invalid content yields no secrets; raises VaultError if other users can read the file."""
    data = private_bytes(place(home), private=True)
    if data is None:
        return {}
    try:
        table: Any = json.loads(data)
    except ValueError:
        return {}
    doors = cast(dict[str, Any], table).items() if isinstance(table, dict) else ()
    return {
        door: [*filter(None, map(_secret, cast(list[Any], rows)))] for door, rows in doors if isinstance(rows, list)
    }


def _secret(row: Any) -> Secret | None:
    match row:
        case {"secret": str(text), "made_at": float() | int() as made_at, "until": None | float() | int() as until}:
            return Secret(text, made_at, until)
        case _:
            return None


def _write(home: str, table: dict[str, list[Secret]]) -> None:
    rows = {
        door: [{"secret": secret.text, "made_at": secret.made_at, "until": secret.until} for secret in secrets]
        for door, secrets in table.items()
    }
    replace_private(place(home), json.dumps(rows, indent=2, sort_keys=True).encode() + b"\n")


@contextmanager
def _locked(home: str) -> Generator[None]:
    """Lock the file, so that one process at a time changes it."""
    os.makedirs(home, mode=0o700, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(os.path.join(home, home_names.WEBHOOKS_LOCK), flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
