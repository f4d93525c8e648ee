"""Checks signed requests: every invalid one gets the same answer, and a valid one is processed once."""

import json
import unicodedata
from collections.abc import Sequence
from typing import Any, Literal

from adderclaw.core.errors import UsageError
from adderclaw.core.json_text import reject_constant
from adderclaw.core.redaction import visible
from adderclaw.models.http import signing
from adderclaw.models.http.signing import Signed, Unverified
from adderclaw.server import authentication
from adderclaw.server.body import text_of
from adderclaw.server.endpoint import ApiRequest
from adderclaw.server.refusal import Refusal, shutting_down
from adderclaw.storage import deliveries
from adderclaw.storage.deliveries import Claim, DailyLimitReached

BODY_LIMIT = 256 << 10
"""The largest signed request in bytes: it is read whole before its signature is verified."""
LONGEST_NAME = 200
"""Characters of a sender, a thread, an id."""
type Scheme = Literal["standard", "github"]


def verify_signature(request: ApiRequest, name: str, secrets: Sequence[str], scheme: Scheme = "standard") -> Signed:
    """Verify the signature. The refusal does not reveal whether the endpoint exists."""
    state, http = request.state, request.http
    try:
        if scheme == "github":
            delivery = signing.verify_github(secrets, http.headers.items(), request.body)
        else:
            delivery = signing.verify_signed(secrets, http.headers.items(), request.body, now=state.clock.now())
    except (Unverified, UsageError) as error:
        tell_refused(request, name, str(error))
        raise Refusal(401, "signature", "the endpoint does not exist, or the signature is not valid for it") from None
    if known := http.scope.get("extensions", {}).get("adderclaw.known"):
        known()  # its connection is no longer closed first when there are too many
    return delivery


def tell_refused(request: ApiRequest, name: str, reason: str, sender: str = "") -> None:
    """Record a refused delivery, rate-limited so that strangers cannot fill the disk."""
    state = request.state
    if state.rates.wait("failure", "signed"):
        return
    shown = {"door": visible(name)[:LONGEST_NAME], "sender": visible(sender)[:LONGEST_NAME]}
    more = {"peer": authentication.peer_of(request.http), "reason": reason}
    state.record_event({"event_type": "delivery_refused", **shown, **more})  # pyright: ignore[reportArgumentType]


def require_accepting(request: ApiRequest, name: str) -> None:
    """Refuse while the emergency stop is set, during a shutdown, or above the endpoint's rate."""
    state = request.state
    if state.stopped:
        raise Refusal(
            503,
            "stopped",
            "the emergency stop is set: nothing starts until it is released",
            headers={"Retry-After": "60"},
        )
    if not state.ready:
        raise shutting_down()
    authentication.require_rate(state, "delivery", name)


def claim_delivery(request: ApiRequest, claims: Sequence[Claim], *, sender: str = "", most: int | None = None) -> None:
    """Claim the delivery across all processes; refuse one that was received before."""
    state = request.state
    try:
        earlier = deliveries.claim(state.store, claims, state.clock.now(), most=most)
    except DailyLimitReached:
        tell_refused(request, claims[0].source, "the sender's messages of a day are used up", sender)
        fix = "try again later, or ask the operator to allow more"
        raise Refusal(429, "day", f"this sender has sent {most} messages within 24 hours: {fix}") from None
    if earlier is not None:
        tell_refused(request, claims[0].source, f"{visible(earlier.id)} came before", sender)
        if earlier.became:
            raise Refusal(
                409,
                "replayed",
                f"{earlier.id} was received before, at {earlier.received_at}: it is not processed again",
            )
        fix = "its outcome is unknown: if nothing happened, send it again with a new id"
        raise Refusal(409, "unsettled", f"{earlier.id} was received before, at {earlier.received_at}; {fix}")
    state.record_event(
        {
            "event_type": "delivery_received",
            "door": claims[0].source,
            "delivery_id": claims[0].id,
            "sender": sender,
            "peer": authentication.peer_of(request.http),
        }
    )


def parse_json(data: bytes) -> Any:
    """Parse strict JSON: no duplicate keys, no NaN or Infinity."""
    try:
        return json.loads(text_of(data), object_pairs_hook=_refuse_duplicate_keys, parse_constant=reject_constant)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "json", f"the body is not JSON: {error}") from error


def _refuse_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        raise ValueError("a key occurs twice")
    return unique


def require_name(what: str, text: str) -> None:
    """Refuses a name or an id with hidden characters, or one that looks like a different one."""
    plain = visible(text, keep_newlines=False, directions=False) == text == text.strip()
    if not (plain and 0 < len(text) <= LONGEST_NAME and unicodedata.is_normalized("NFC", text)):
        rule = f"1 to {LONGEST_NAME} printable characters, in Unicode's form NFC, with no space around them"
        raise Refusal(400, "invalid", "the request does not fit: see problems", [(what, f"must be {rule}")])


def require_visible_text(what: str, text: str) -> None:
    """Refuses control characters and characters that hide or reorder text, in any script."""
    text = text.replace("\r\n", "\n")
    shown = visible(text)
    if shown != text:
        at = next((at for at, (char, two) in enumerate(zip(text, shown, strict=False)) if char != two), 0)
        problem = f"has the character U+{ord(text[at]):04X} at {at}, which is not a visible character: leave it out"
        raise Refusal(400, "invalid", "the request does not fit: see problems", [(what, problem)])
