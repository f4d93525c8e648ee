"""Webhook triggers: a signed request begins a schedule that waits for one, with its body as data from outside."""

from adderclaw.agent.conversation.watched import Full
from adderclaw.core.errors import AdderClawError, Stopped
from adderclaw.core.framing import content_mark, framed
from adderclaw.core.record import record
from adderclaw.flows.schedules.tick import NotBegun
from adderclaw.models.credentials import webhook_secrets
from adderclaw.server import signed
from adderclaw.server.body import text_of
from adderclaw.server.endpoint import ApiRequest, Endpoint
from adderclaw.server.refusal import Refusal
from adderclaw.storage import deliveries, schedules
from adderclaw.storage.deliveries import KEEP_SECONDS, Claim
from adderclaw.storage.schedules import Schedule

PAYLOAD = "payload"
"""The input with the framed body of a request."""


@record
class TriggerResult:
    delivery_id: str
    """What it was claimed under: it begins nothing a second time."""
    run_id: str
    """Empty: it waits for the run before."""


async def begin_schedule(request: ApiRequest) -> TriggerResult:
    """Start the schedule with the body as one framed text; the body is not interpreted."""
    state = request.state
    schedule = _find_schedule(request, request.path["name"])
    door = f"trigger:{schedule.id}" if schedule is not None else "trigger:"
    secrets = webhook_secrets.known(state.home, door, state.clock.now())
    scheme: signed.Scheme = "github" if schedule is not None and schedule.when.get("scheme") == "github" else "standard"
    delivery = signed.verify_signature(request, f"trigger:{request.path['name']}", secrets, scheme)
    assert schedule is not None  # without one there is no secret
    text = text_of(request.body)
    signed.require_accepting(request, door)
    # GitHub signs no timestamp, so the request could be replayed at any time
    claims = [Claim(door, delivery.id, KEEP_SECONDS if delivery.timestamp is not None else None)]
    signed.claim_delivery(request, claims)
    try:
        run = await state.scheduler.request(schedule.id, delivery.id, {PAYLOAD: framed(content_mark(text), text)})
    except AdderClawError as error:
        deliveries.release(state.store, claims)  # nothing began: the same request may come again
        match error:
            case NotBegun():
                why = "`adderclaw schedule history` shows the reason"  # which may name files: it is for the operator
                raise Refusal(409, "held", f"the schedule did not start; {why}") from error
            case Stopped() | Full():
                raise Refusal(
                    503, "stopped", "nothing starts now: try again later", headers={"Retry-After": "60"}
                ) from error
            case _:
                state.record_event({"event_type": "warning", "message": f"trigger {schedule.name}: {error}"})
                raise Refusal(
                    503, "unavailable", "the message could not be processed; the server's log has the reason"
                ) from error
    deliveries.record_start(state.store, claims, run or "queued")
    return TriggerResult(delivery.id, run)


def _find_schedule(request: ApiRequest, name: str) -> Schedule | None:
    """Checks all schedules, so that the time does not reveal whether the name exists."""
    match: Schedule | None = None
    for schedule in schedules.listing(request.state.store):
        is_genuine = schedule.is_genuine(request.state.key)
        if is_genuine and schedule.name == name and schedule.when.get("kind") == "webhook":
            match = schedule
    return match


ENDPOINTS = (
    Endpoint(
        "POST",
        "/triggers/{name}",
        "open",
        begin_schedule,
        "Begin the schedule that waits for this signed request (docs/channels.md).",
        gives=TriggerResult,
        status=202,
        is_signed=True,
        body_limit=signed.BODY_LIMIT,
    ),
)
