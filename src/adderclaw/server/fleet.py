"""Questions of the fleet's runs, answered here: by a client with its token, or by a signed request from elsewhere."""

import asyncio
from typing import TYPE_CHECKING, Any

from adderclaw.agent.tool_call.approvals import person_answering
from adderclaw.config import home
from adderclaw.core.decode import decode
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.record import record
from adderclaw.models.credentials import webhook_secrets
from adderclaw.server import signed
from adderclaw.server.answers import channel
from adderclaw.server.endpoint import Called, Endpoint
from adderclaw.server.refusal import Refusal, missing
from adderclaw.storage import deliveries
from adderclaw.storage.deliveries import Claim

if TYPE_CHECKING:
    from adderclaw.fleet.where import Fleet

DOOR = "fleet"
"""The same as `fleet.asking.DOOR`, which needs the extra."""


@record
class FleetAnswer:
    """A yes or a no; or replies, where it asks questions."""

    approved: bool
    comment: str = ""
    plan: str = ""
    """Only if it is about the call with this hash."""
    replies: dict[str, str] | None = None
    """Question → the label that was chosen, or own words."""


@record
class SignedAnswer(FleetAnswer):
    run_id: str = ""
    question_id: str = ""
    """Which of the run's questions: a yes is never to one that came meanwhile."""


@record
class FleetAnswered:
    run_id: str
    question_id: str
    approved: bool
    by: str


@record
class FleetQuestions:
    questions: list[dict[str, Any]]


def opened() -> "Fleet":
    """The fleet of this home."""
    try:
        from adderclaw.fleet import where
    except ModuleNotFoundError as error:
        from adderclaw.config.installation import missing_extra

        raise AdderClawError(missing_extra("fleet", error.name)) from error
    return where.read(home(), patience=1.0)


async def listing(_: Called) -> FleetQuestions:
    def look() -> list[dict[str, Any]]:
        from adderclaw.core.redaction import Secrets
        from adderclaw.fleet import asking

        fleet = opened()
        found: list[dict[str, Any]] = Secrets().clean(asking.waiting(fleet.database, fleet.key_here()))
        return found

    return FleetQuestions(await asyncio.to_thread(look))


async def answered(called: Called) -> FleetAnswered:
    who = person_answering(channel(called))
    return await asyncio.to_thread(_settled, called.path["run_id"], called.path["id"], called.given, who)


async def by_request(called: Called) -> FleetAnswered:
    """As at every signed door: nothing is looked into before the signature fits, and each request counts once."""
    house = called.house
    delivery = signed.verified(called, DOOR, webhook_secrets.known(house.home, DOOR, house.clock.now()))
    given = decode(SignedAnswer, signed.parsed(called.given))
    for text in (given.comment, *(given.replies or {}).values()):
        signed.require_words("answer", text)
    signed.require_name("run_id", given.run_id)
    signed.require_name("question_id", given.question_id)
    signed.require_open(called, DOOR)
    claims = [Claim(DOOR, delivery.id)]
    signed.claim(called, claims)
    try:
        made = await asyncio.to_thread(_settled, given.run_id, given.question_id, given, f"webhook {delivery.id}")
    except AdderClawError:
        deliveries.release(house.store, claims)  # nothing was answered: the same request may come again
        raise
    deliveries.record_start(house.store, claims, made.run_id)
    return made


def _settled(run_id: str, id: str, given: FleetAnswer, by: str) -> FleetAnswered:
    from adderclaw.fleet import asking

    fleet = opened()
    found = [
        one for one in asking.waiting(fleet.database, fleet.key_here()) if (one["run_id"], one["id"]) == (run_id, id)
    ]
    if not found:
        raise missing("question of the fleet", id)
    if given.plan and given.plan != found[-1]["plan"]:
        raise Refusal(409, "plan", "it is about another call than the one that you were shown")
    try:
        asking.answer(
            fleet.database,
            fleet.key(),
            run_id,
            approved=given.approved,
            by=by,
            comment=given.comment,
            replies=given.replies,
            id=found[-1]["id"],
        )
    except UsageError as error:
        raise Refusal(400, "refused", str(error)) from error
    finally:
        fleet.database.close()
    return FleetAnswered(run_id, found[-1]["id"], given.approved, by)


ENDPOINTS = (
    Endpoint(
        "GET",
        "/fleet/questions",
        "read",
        listing,
        "Questions of the fleet's runs that wait for an answer.",
        gives=FleetQuestions,
    ),
    Endpoint(
        "POST",
        "/fleet/questions/{run_id}/{id}/answer",
        "approve",
        answered,
        "Answer a question of a run of the fleet; the first answer counts.",
        takes=FleetAnswer,
        gives=FleetAnswered,
    ),
    Endpoint(
        "POST",
        "/fleet/answers",
        "open",
        by_request,
        "Answer a question of a run of the fleet by a signed request (docs/fleet.md).",
        takes=SignedAnswer,
        gives=FleetAnswered,
        is_signed=True,
        body_limit=signed.BODY_LIMIT,
    ),
)
