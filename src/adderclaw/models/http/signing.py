"""Signs and verifies requests: Standard Webhooks in both directions, and GitHub's scheme for incoming ones.

A Standard Webhooks signature covers the id, the time and every byte of the body.
"""

import hashlib
import hmac
import os
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence

from adderclaw.core.errors import UsageError
from adderclaw.core.record import NamedTuple

PREFIX = "whsec_"
"""The prefix of secrets that are base64-encoded random bytes."""
TOLERANCE = 300.0
"""Seconds by which the time of a request may differ from the local clock, in either direction."""
SHORTEST = 24
"""Least bytes of a secret, or characters of a plain-text secret."""
MOST_SIGNATURES = 16
"""Most signatures of one request; the rotation of secrets needs only a few."""
LONGEST_HEADER = 4_096
IDS = r"[!-\-/-~]{1,128}"
"""Printable ASCII without a full stop: with one, `id.time.body` could be read in two ways."""


class Unverified(Exception):
    """A request without a valid signature. The message is for the log, never for the sender."""


class Signed(NamedTuple):
    """The signed data of a verified request."""

    id: str
    timestamp: int | None
    """None if the scheme has no time: then only the id can reveal a replay, at any later time."""


# ------------------------------------------------------------------ secrets


def new_secret() -> str:
    return PREFIX + b64encode(os.urandom(32)).decode()


def key_of(secret: str) -> bytes:
    """The key bytes of a secret; raises UsageError if it is damaged or too short."""
    if secret.startswith(PREFIX):
        try:
            key = b64decode(secret[len(PREFIX) :], validate=True)
        except ValueError:
            raise UsageError(
                f"a secret that begins with {PREFIX} must continue in base64; this one is damaged"
            ) from None
        if len(key) < SHORTEST:
            raise UsageError(f"the secret has {len(key)} bytes; at least {SHORTEST} are needed")
        return key
    if len(secret) < SHORTEST:
        raise UsageError(f"the secret has {len(secret)} characters; at least {SHORTEST} are needed")
    return secret.encode("utf-8", "surrogatepass")


# ------------------------------------------------------------------ outgoing


def headers(secrets: Sequence[str], body: bytes, *, id: str, now: float) -> dict[str, str]:
    """The headers of a request, with one signature per secret: during a rotation there are two."""
    if not secrets:
        raise UsageError("there is no secret to sign with")
    if re.fullmatch(IDS, id) is None:
        raise UsageError(
            f"{id[:140]!r} is not a valid request id: use 1 to 128 printable ASCII characters without a full stop"
        )
    timestamp = int(now)
    return {
        "webhook-id": id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(signature(secret, id, timestamp, body) for secret in secrets),
    }


def signature(secret: str, id: str, timestamp: int, body: bytes) -> str:
    digest = hmac.digest(key_of(secret), f"{id}.{timestamp}.".encode() + body, hashlib.sha256)
    return f"v1,{b64encode(digest).decode()}"


# ------------------------------------------------------------------ incoming


def verify_signed(secrets: Sequence[str], received: Iterable[tuple[str, str]], body: bytes, *, now: float) -> Signed:
    """Verify a request signed by the Standard Webhooks scheme with one of the secrets; raises Unverified.

    `received`: the headers, including duplicates. Without secrets it always fails, but takes as long.
    """
    values = _single(received, ("webhook-id", "webhook-timestamp", "webhook-signature"))
    id, time, signatures = values
    if re.fullmatch(IDS, id) is None:
        raise Unverified("the id is empty, too long or has characters that no id has")
    if re.fullmatch("[0-9]{1,12}", time) is None:
        raise Unverified("the time is not a number of seconds")
    offered = [offer[3:] for offer in signatures.split(" ") if offer.startswith("v1,")]
    if not 1 <= len(offered) <= MOST_SIGNATURES:
        raise Unverified("no supported signature, or too many")
    fits = False
    for secret in secrets or (_NOBODY,):
        expected = signature(secret, id, int(time), body)[3:].encode()
        for offer in offered:  # always all of them, for constant time
            fits |= hmac.compare_digest(expected, offer.encode("utf-8", "surrogatepass"))
    if not fits or not secrets:
        raise Unverified("the signature does not match")
    if abs(now - int(time)) > TOLERANCE:
        raise Unverified(f"it was signed {now - int(time):.0f} s ago by its own clock; {TOLERANCE:g} s are tolerated")
    return Signed(id, int(time))


def verify_github(secrets: Sequence[str], received: Iterable[tuple[str, str]], body: bytes) -> Signed:
    """Verify a request that GitHub signed (`X-Hub-Signature-256`); raises Unverified.

    GitHub signs neither its delivery id nor a time, so the id is a hash of the body: a replay with another delivery id
    still has the same id.
    """
    delivery, signed = _single(received, ("x-github-delivery", "x-hub-signature-256"))
    if re.fullmatch(IDS, delivery) is None:
        raise Unverified("the delivery id is empty, too long or has characters that no id has")
    fits = False
    for secret in secrets or (_NOBODY,):
        expected = "sha256=" + hmac.digest(_github_key(secret), body, hashlib.sha256).hex()
        fits |= hmac.compare_digest(expected.encode(), signed.encode("utf-8", "surrogatepass"))
    if not fits or not secrets:
        raise Unverified("the signature does not match")
    return Signed(f"sha256:{hashlib.sha256(body).hexdigest()}", None)


def _github_key(secret: str) -> bytes:
    """The key that GitHub uses: the pasted text as it is, including its prefix."""
    key_of(secret)  # raises UsageError for a weak secret
    return secret.encode("utf-8", "surrogatepass")


def _single(received: Iterable[tuple[str, str]], names: Sequence[str]) -> list[str]:
    """The values of headers that must occur once: of duplicates, programs may read different ones."""
    values_by_name: dict[str, list[str]] = {name: [] for name in names}
    for name, value in received:
        if (values_of_name := values_by_name.get(name.lower())) is not None:
            values_of_name.append(value)
    for name, values in values_by_name.items():
        if len(values) != 1:
            raise Unverified(f"{name} is missing" if not values else f"{name} occurs {len(values)} times")
        if len(values[0]) > LONGEST_HEADER:
            raise Unverified(f"{name} is too long")
    return [values[0] for values in values_by_name.values()]


_NOBODY = PREFIX + b64encode(b"\0" * 32).decode()
"""A dummy secret, so that verification without secrets takes as long."""
