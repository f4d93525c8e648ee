"""Endpoints that list and answer questions of the fleet's runs, for clients with a token and for signed requests."""

import asyncio
from typing import Any

from adderclaw.agent.tool_call.approvals import person_answering
from adderclaw.core.decode import decode
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.record import record
from adderclaw.models.credentials import webhook_secrets
from adderclaw.server import signed
from adderclaw.server.answers import channel_name
from adderclaw.server.endpoint import ApiRequest, Endpoint
from adderclaw.server.home_fleet import open_fleet
from adderclaw.server.refusal import Refusal, not_found
from adderclaw.storage import deliveries
from adderclaw.storage.deliveries import Claim

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


async def list_questions(_: ApiRequest) -> FleetQuestions:
    def read() -> list[dict[str, Any]]:
        from adderclaw.core.redaction import Secrets
        from adderclaw.fleet import asking

        fleet = open_fleet()
        questions: list[dict[str, Any]] = Secrets().clean(asking.waiting(fleet.database, fleet.key_here()))
        return questions

    return FleetQuestions(await asyncio.to_thread(read))


async def answer_question(request: ApiRequest) -> FleetAnswered:
    who = person_answering(channel_name(request))
    return await asyncio.to_thread(_record_answer, request.path["run_id"], request.path["id"], request.body, who)


async def answer_by_signed_request(request: ApiRequest) -> FleetAnswered:
    """Like every signed endpoint, verifies the signature before parsing the body, and processes each request once."""
    state = request.state
    delivery = signed.verify_signature(request, DOOR, webhook_secrets.known(state.home, DOOR, state.clock.now()))
    answer = decode(SignedAnswer, signed.parse_json(request.body))
    for text in (answer.comment, *(answer.replies or {}).values()):
        signed.require_visible_text("answer", text)
    signed.require_name("run_id", answer.run_id)
    signed.require_name("question_id", answer.question_id)
    signed.require_accepting(request, DOOR)
    claims = [Claim(DOOR, delivery.id)]
    signed.claim_delivery(request, claims)
    try:
        result = await asyncio.to_thread(
            _record_answer, answer.run_id, answer.question_id, answer, f"webhook {delivery.id}"
        )
    except AdderClawError:
        deliveries.release(state.store, claims)  # nothing was answered: the same request may come again
        raise
    deliveries.record_start(state.store, claims, result.run_id)
    return result


def _record_answer(run_id: str, id: str, answer: FleetAnswer, by: str) -> FleetAnswered:
    from adderclaw.fleet import asking

    fleet = open_fleet()
    questions = [
        question
        for question in asking.waiting(fleet.database, fleet.key_here())
        if (question["run_id"], question["id"]) == (run_id, id)
    ]
    if not questions:
        raise not_found("question of the fleet", id)
    if answer.plan and answer.plan != questions[-1]["plan"]:
        raise Refusal(409, "plan", "the question is about another call than the one you were shown: read it again")
    try:
        asking.answer(
            fleet.database,
            fleet.key(),
            run_id,
            approved=answer.approved,
            by=by,
            comment=answer.comment,
            replies=answer.replies,
            id=questions[-1]["id"],
        )
    except UsageError as error:
        raise Refusal(400, "refused", str(error)) from error
    finally:
        fleet.database.close()
    return FleetAnswered(run_id, questions[-1]["id"], answer.approved, by)


ENDPOINTS = (
    Endpoint(
        "GET",
        "/fleet/questions",
        "read",
        list_questions,
        "Questions of the fleet's runs that wait for an answer.",
        gives=FleetQuestions,
    ),
    Endpoint(
        "POST",
        "/fleet/questions/{run_id}/{id}/answer",
        "approve",
        answer_question,
        "Answer a question of a run of the fleet; the first answer counts.",
        takes=FleetAnswer,
        gives=FleetAnswered,
    ),
    Endpoint(
        "POST",
        "/fleet/answers",
        "open",
        answer_by_signed_request,
        "Answer a question of a run of the fleet by a signed request (docs/fleet.md).",
        takes=SignedAnswer,
        gives=FleetAnswered,
        is_signed=True,
        body_limit=signed.BODY_LIMIT,
    ),
)
