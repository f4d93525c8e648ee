"""Signed requests, in both directions: Standard Webhooks, and GitHub's scheme for what comes from there.

A signature covers the id, the time and every byte of the body. Who may send is who knows the secret.
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
"""How a secret begins that is the base64 of random bytes."""
TOLERANCE = 300.0
"""Seconds by which the time of a request may differ from ours, in either direction."""
SHORTEST = 24
"""Bytes of a secret, or characters of one that is plain text."""
MOST_SIGNATURES = 16
"""In one request: more is no rotation."""
LONGEST_HEADER = 4_096
IDS = r"[!-\-/-~]{1,128}"
"""Printable ASCII without a full stop: with one, `id.time.body` could be read in two ways."""


class Unverified(Exception):
    """A request without a valid signature. The message is for our log, never for the sender."""


class Signed(NamedTuple):
    """What a signature vouches for."""

    id: str
    timestamp: int | None
    """None: the scheme has no time, so that a replay is known by its id alone, however late it comes."""


# ------------------------------------------------------------------ secrets


def new_secret() -> str:
    return PREFIX + b64encode(os.urandom(32)).decode()


def key_of(secret: str) -> bytes:
    """The bytes that sign; UsageError for a secret that is damaged or too short."""
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
    """The headers of a request that is signed with each of the secrets: one signature more while one is replaced."""
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
    """What was signed by the Standard Webhooks scheme with one of the secrets; raises Unverified.

    `given`: the headers as they came, doubles and all. With no secret nothing is verified, and it takes as long.
    """
    values = _single(received, ("webhook-id", "webhook-timestamp", "webhook-signature"))
    id, time, signatures = values
    if re.fullmatch(IDS, id) is None:
        raise Unverified("the id is empty, too long or has characters that no id has")
    if re.fullmatch("[0-9]{1,12}", time) is None:
        raise Unverified("the time is not a number of seconds")
    offered = [offer[3:] for offer in signatures.split(" ") if offer.startswith("v1,")]
    if not 1 <= len(offered) <= MOST_SIGNATURES:
        raise Unverified("there is no signature of a kind that is known, or too many")
    fits = False
    for secret in secrets or (_NOBODY,):
        expected = signature(secret, id, int(time), body)[3:].encode()
        for offer in offered:  # all of them, whatever fits: it takes as long
            fits |= hmac.compare_digest(expected, offer.encode("utf-8", "surrogatepass"))
    if not fits or not secrets:
        raise Unverified("the signature does not fit")
    if abs(now - int(time)) > TOLERANCE:
        raise Unverified(f"it was signed {now - int(time):.0f} s ago by its own clock; {TOLERANCE:g} s are tolerated")
    return Signed(id, int(time))


def verify_github(secrets: Sequence[str], received: Iterable[tuple[str, str]], body: bytes) -> Signed:
    """What GitHub signed (`X-Hub-Signature-256`); raises Unverified.

    GitHub signs neither its delivery id nor a time. So the id is of the body itself: who has seen one request can send
    it again under another delivery id, and it is the same all the same.
    """
    delivery, signed = _single(received, ("x-github-delivery", "x-hub-signature-256"))
    if re.fullmatch(IDS, delivery) is None:
        raise Unverified("the delivery id is empty, too long or has characters that no id has")
    fits = False
    for secret in secrets or (_NOBODY,):
        expected = "sha256=" + hmac.digest(_github_key(secret), body, hashlib.sha256).hex()
        fits |= hmac.compare_digest(expected.encode(), signed.encode("utf-8", "surrogatepass"))
    if not fits or not secrets:
        raise Unverified("the signature does not fit")
    return Signed(f"sha256:{hashlib.sha256(body).hexdigest()}", None)


def _github_key(secret: str) -> bytes:
    """GitHub takes the text that was pasted there as it is, with its prefix."""
    key_of(secret)  # for its refusals
    return secret.encode("utf-8", "surrogatepass")


def _single(received: Iterable[tuple[str, str]], names: Sequence[str]) -> list[str]:
    """The values of headers that must be there once: of two, one program reads the first and another the last."""
    values_by_name: dict[str, list[str]] = {name: [] for name in names}
    for name, value in received:
        if (values_of_name := values_by_name.get(name.lower())) is not None:
            values_of_name.append(value)
    for name, values in values_by_name.items():
        if len(values) != 1:
            raise Unverified(f"{name} is missing" if not values else f"{name} is there {len(values)} times")
        if len(values[0]) > LONGEST_HEADER:
            raise Unverified(f"{name} is too long")
    return [values[0] for values in values_by_name.values()]


_NOBODY = PREFIX + b64encode(b"\0" * 32).decode()
"""In place of a secret that there is none of."""
