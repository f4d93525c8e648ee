"""Webhook triggers: a signed request begins a schedule that waits for one, with its body as data from outside."""

from adderclaw.agent.conversation.watched import Full
from adderclaw.core.errors import AdderClawError, Stopped
from adderclaw.core.framing import content_mark, framed
from adderclaw.core.record import record
from adderclaw.flows.schedules.tick import NotBegun
from adderclaw.models.credentials import webhook_secrets
from adderclaw.server import signed
from adderclaw.server.body import text_of
from adderclaw.server.endpoint import Called, Endpoint
from adderclaw.server.refusal import Refusal
from adderclaw.storage import deliveries, schedules
from adderclaw.storage.deliveries import KEEP_SECONDS, Claim
from adderclaw.storage.schedules import Schedule

PAYLOAD = "payload"
"""The one input that a request gives: its body, framed."""


@record
class Begun:
    delivery_id: str
    """What it was claimed under: it begins nothing a second time."""
    run_id: str
    """Empty: it waits for the run before."""


async def begin(called: Called) -> Begun:
    """Nothing of the body is looked into: it is one text, which a model is shown in a frame."""
    house = called.house
    found = _named(called, called.path["name"])
    door = f"trigger:{found.id}" if found is not None else "trigger:"
    secrets = webhook_secrets.known(house.home, door, house.clock.now())
    scheme: signed.Scheme = "github" if found is not None and found.when.get("scheme") == "github" else "standard"
    delivery = signed.verified(called, f"trigger:{called.path['name']}", secrets, scheme)
    assert found is not None  # without one there is no secret
    text = text_of(called.given)
    signed.require_open(called, door)
    # what GitHub signs has no time in it, so that it could come again at any time
    claims = [Claim(door, delivery.id, KEEP_SECONDS if delivery.timestamp is not None else None)]
    signed.claim(called, claims)
    try:
        run = await house.scheduler.request(found.id, delivery.id, {PAYLOAD: framed(content_mark(text), text)})
    except AdderClawError as error:
        deliveries.release(house.store, claims)  # nothing began: the same request may come again
        match error:
            case NotBegun():
                why = "`adderclaw schedule history` has why"  # which may name files: it is for the operator
                raise Refusal(409, "held", f"nothing began; {why}") from error
            case Stopped() | Full():
                raise Refusal(503, "stopped", "nothing begins now", headers={"Retry-After": "60"}) from error
            case _:
                house.tell({"event_type": "warning", "message": f"trigger {found.name}: {error}"})
                raise Refusal(503, "unavailable", "nothing could begin; the operator can see why") from error
    deliveries.record_start(house.store, claims, run or "queued")
    return Begun(delivery.id, run)


def _named(called: Called, name: str) -> Schedule | None:
    """All are looked at, whichever it is: it takes as long for a name that there is none of."""
    made: Schedule | None = None
    for one in schedules.listing(called.house.store):
        is_genuine = one.is_genuine(called.house.key)
        if is_genuine and one.name == name and one.when.get("kind") == "webhook":
            made = one
    return made


ENDPOINTS = (
    Endpoint(
        "POST",
        "/triggers/{name}",
        "open",
        begin,
        "Begin the schedule that waits for this signed request (docs/channels.md).",
        gives=Begun,
        status=202,
        is_signed=True,
        body_limit=signed.BODY_LIMIT,
    ),
)
