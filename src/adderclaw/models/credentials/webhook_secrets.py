"""The secrets of doors at which signed requests come in: one file of the operator's own, for its owner only.

The server needs them unattended, so that they are not encrypted; they lie where the key of the receipts does.
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
"""Seconds for which the secret before still counts, so that the sender can be changed over."""


class Secret(NamedTuple):
    text: str
    made_at: float
    until: float | None = None
    """When it counts no more; None: the one that counts."""


def place(home: str) -> str:
    return os.path.join(home, home_names.WEBHOOKS)


def known(home: str, door: str, now: float) -> list[str]:
    """The secrets that count at a door now, the latest first; none where it has none."""
    return [secret.text for secret in listed(home, door) if secret.until is None or secret.until > now]


def listed(home: str, door: str) -> list[Secret]:
    return _read(home).get(door, [])


def make(home: str, door: str, now: float, *, grace: float = GRACE, text: str | None = None) -> str:
    """A new secret of a door, or the one that a sender gave us; the one before counts for `grace` seconds more."""
    new_text = text if text is not None else signing.new_secret()
    signing.key_of(new_text)  # UsageError for one that is weak or damaged
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
    """Take all secrets of a door away: nobody comes in there any more. Whether there were any."""
    if door not in _read(home):
        return False
    with _locked(home):
        table = _read(home)
        existed = table.pop(door, None) is not None
        _write(home, table)
    return existed


def _read(home: str) -> dict[str, list[Secret]]:
    """A file that cannot be understood lets nobody in; VaultError where others can read it."""
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
    """One process at a time changes it."""
    os.makedirs(home, mode=0o700, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(os.path.join(home, home_names.WEBHOOKS_LOCK), flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
