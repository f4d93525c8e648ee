"""The proof of a conversation's plan, for every client: running its tests, and its report."""

import hashlib
import os
from typing import TYPE_CHECKING, Literal

from adderclaw.agent.view import proof as view
from adderclaw.agent.view.proof import Coverage
from adderclaw.config import home
from adderclaw.config.paths import beneath, followed
from adderclaw.core.errors import UsageError
from adderclaw.core.types import Json
from adderclaw.flows.sdlc import baseline as trees
from adderclaw.flows.sdlc import conversation_phase
from adderclaw.flows.sdlc.conversation_phase import Desk, Seen
from adderclaw.sandbox.operator_only import require_operator
from adderclaw.storage import transcript
from adderclaw.storage.sdlc import criteria, generated_tests, phases, plans
from adderclaw.storage.sdlc.proof import REPORT, open_reasons

if TYPE_CHECKING:
    from adderclaw.config.legacy.options import Options
    from adderclaw.flows.sdlc.driver import ProofDriver

Form = Literal["text", "markdown", "json", "html"]


def coverage(desk: Desk, conversation_id: str) -> Coverage:
    """Which test proves which criterion of the approved plan, or of the plan that was completed last."""
    row = plans.last(desk.store, conversation_id, "approved") or plans.last(desk.store, conversation_id, "completed")
    if row is None:
        raise UsageError(f"no plan of {conversation_id} was approved, so there is nothing to report")
    tree = trees.tree(desk.store, desk.config, home(), row.id)
    with desk.store.snapshot() as cursor:
        required = criteria.of_plan(cursor, row.id)
        reasons = plans.alteration_reasons(cursor, row) or open_reasons(cursor, row, tree)
    phase = phases.phase_text(desk.store, conversation_id)
    if row.status == "completed":
        reasons = []
    return view.coverage(desk.store, row, required, conversation_id, phase, reasons)


def drawn(coverage_: Coverage, form: Form) -> str:
    """The report in one of its forms; all have the same blocks."""
    from adderclaw.agent.view import page

    title = f"Plan {coverage_.plan.id}: from plan to proof"
    if form == "html":
        return page.page(title, view.blocks(coverage_))
    if form == "markdown":
        return page.markdown(title, view.blocks(coverage_))
    return page.lines(title, view.blocks(coverage_))


def lines(desk: Desk, conversation_id: str) -> list[str]:
    return drawn(coverage(desk, conversation_id), "text").splitlines()


def has_criteria(desk: Desk, conversation_id: str) -> bool:
    """Whether the approved plan has criteria to prove."""
    with desk.store.snapshot() as cursor:
        counted = plans.approved_plan(cursor, conversation_id)
        return counted is not None and bool(criteria.of_plan(cursor, counted.id))


def ready(desk: Desk, options: "Options", conversation_id: str) -> "ProofDriver":
    """Prepares a run that generates the plan's missing tests and runs all of them.

    Allowed in the phase `test`, and in `verify`, where the workspace may have changed since they ran.
    """
    from adderclaw.config import load
    from adderclaw.flows.sdlc import begin_proof

    phase = phases.phase_of(desk.store, conversation_id)
    if phase not in ("test", "verify"):
        fix = "run `adderclaw sdlc transition test` first" if phase == "implement" else "see `adderclaw sdlc status`"
        raise UsageError(
            f"tests are generated and run in the phases test and verify, and the conversation is in {phase}: {fix}"
        )
    loaded = load(config_file=options.config_file, workspace=options.workspace, here=True, looks=True)
    return begin_proof.ready(options, loaded, home(), desk.store, conversation_id)


def written(desk: Desk, conversation_id: str, path: str, text: str) -> None:
    """Records a report that was written into the workspace, because the tests did not run with that file."""
    root = followed(transcript.workspace_of(desk.store, conversation_id))
    if not beneath(target := followed(path), root):
        return
    detail = {"path": os.path.relpath(target, root), "sha256": hashlib.sha256(text.encode()).hexdigest()}
    with desk.store.write() as cursor:
        plans.event(cursor, conversation_id, REPORT, detail)


def run(config_file: str | None, workspace: str | None, conversation_id: str, channel: str) -> Json:
    """Generates the missing tests and runs all of them; returns the report of that run as JSON.

    Shows nothing. Must be called in a separate thread by a client that continues meanwhile.
    """
    import asyncio

    from adderclaw.config.legacy.options import Options
    from adderclaw.flows.sdlc.begin_proof import prove

    options = Options(config_file=config_file, workspace=workspace, here=True, log_level="off")
    with conversation_phase.opened(config_file, workspace, channel) as desk:
        driver = ready(desk, options, conversation_id)
    ended: Json = {}
    asyncio.run(prove(driver, channel=channel, show=lambda report: ended.update(report.as_json())))
    return ended


def withdraw(desk: Desk, conversation_id: str, number: int, reason: str) -> None:
    """Withdraws an accepted test. The generator writes another one and receives the reason."""
    require_operator("Withdrawing a test", desk.store.path)
    if not reason.strip():
        raise UsageError("a reason is required: the generator of the next test receives it")
    counted = plans.last(desk.store, conversation_id, "approved")
    tests = [] if counted is None else generated_tests.tests(desk.store, counted.id)
    if not any(test.id == number and test.status == "accepted" for test in tests):
        raise UsageError(f"{conversation_id} has no accepted test {number}; see `adderclaw sdlc report`")
    with desk.store.write() as cursor:
        generated_tests.settle(cursor, number, "withdrawn", f"the operator withdrew it: {reason}")
        detail = {"test": number, "by": desk.by.name, "reason": reason}
        plans.event(cursor, conversation_id, "test_withdrawn", detail)


def shown(desk: Desk, conversation_id: str, seen: Seen) -> list[str]:
    """The text that the operator approves: the plan, or its report with the criteria, the tests and their output."""
    if seen.what == "report":
        return lines(desk, conversation_id)
    drafted = plans.last(desk.store, conversation_id, "draft")
    return [] if drafted is None else drafted.content.split("\n")
