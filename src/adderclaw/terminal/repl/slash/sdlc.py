"""/plan and /phase: the plan of the conversation, its phase, and their approval."""

from asyncio import to_thread

from adderclaw.agent.run import Run
from adderclaw.agent.tool_call import permission_updates
from adderclaw.agent.tool_call.approvals import person_answering
from adderclaw.config.permissions import PermissionUpdate
from adderclaw.core.errors import AdderClawError
from adderclaw.core.redaction import visible
from adderclaw.flows.sdlc import conversation_phase, coverage
from adderclaw.flows.sdlc.conversation_phase import Desk, Seen
from adderclaw.storage.sdlc import phases, plans
from adderclaw.storage.sdlc.phases import Mover, TransitionRefused
from adderclaw.terminal.operators import terminal_question
from adderclaw.terminal.repl import here
from adderclaw.terminal.repl.slash.command import Done
from adderclaw.terminal.sdlc_status import status_lines


def _desk(run: Run) -> Desk:
    session = run.session
    by = Mover("operator", person_answering("repl"))
    return Desk(session.store, session.config, session.environment.context.workspace.root, by)


async def plan(run: Run, rest: str) -> Done:
    """Shows the plan and the phase, approves the plan, or plans a task in plan mode."""
    store, conversation = run.session.store, run.session.conversation_id
    if rest not in ("", "approve"):
        permission_updates.apply_update(run.session, PermissionUpdate("setMode", "session", mode="plan"))
        print("mode: plan, until you approve a plan; Shift+Tab or /config mode=default also ends it")
        await here.run_turn_here(run, rest)
        return
    draft = plans.last(store, conversation)
    if rest and draft is not None and draft.status == "draft":
        if phases.phase_text(store, conversation) != "planning":  # drafted in plan mode
            with store.write() as cursor:
                phases.begin_planning(cursor, conversation, draft.id, by=_desk(run).by)
        _show(await to_thread(conversation_phase.approve, _desk(run), conversation, Seen("plan", draft.id)))
        if permission_updates.in_plan_mode(run.session) and permission_updates.end_plan_mode(run.session):
            print(f"mode: {here.mode_name(run.session.environment.policy)}")
        draft = plans.last(store, conversation)
    print(f"phase: {phases.phase_text(store, conversation)}")
    if draft is None:
        print("there is no plan yet")
    else:
        print(f"plan {draft.id}, {draft.status}, of {draft.created_at}:\n{visible(draft.content)}")


async def phase(run: Run, rest: str) -> Done:
    """Shows the phase, or moves to another one; `done` shows the report and asks first."""
    desk, conversation = _desk(run), run.session.conversation_id
    if not rest:
        for line in status_lines(await to_thread(conversation_phase.phase_overview, desk, conversation)):
            print(line)
        return
    to = phases.phase_named(rest)
    if to == "done" and phases.phase_of(desk.store, conversation) == "verify":
        _show(await _approve(run, desk, conversation))
    else:
        _show(await to_thread(conversation_phase.transition, desk, conversation, to))
    if to == "test":
        await _prove(run, desk, conversation)


async def _prove(run: Run, desk: Desk, conversation: str) -> None:
    """Runs the tests of the plan in a separate run; the conversation stays in `test` whatever the outcome."""
    if not coverage.has_criteria(desk, conversation):
        return
    print("generating and running tests from the plan; this takes a while")
    options = run.runtime.options
    try:
        proof = await to_thread(coverage.run, options.config_file, desk.workspace, conversation, "repl")
    except AdderClawError as error:
        print(f"note: no test was run: {visible(str(error))}; run them with `adderclaw sdlc test`")
        return
    reason = f": {proof['reason']}" if proof["reason"] else ""
    print(visible(f"tests {proof['outcome']}: {proof['answer']}{reason}"))


async def _approve(run: Run, desk: Desk, conversation: str) -> dict[str, object]:
    seen = conversation_phase.waits(desk, conversation)
    if here.screen_of(run) is None and terminal_question() is None:
        raise AdderClawError("the operator must approve the report, and there is no terminal to ask at")
    for line in coverage.shown(desk, conversation, seen):
        print(visible(line))
    if (await here.ask_person(run, "Approve this report? [y/N] ") or "").strip().lower() not in here.YES:
        raise TransitionRefused("the report is not approved; nothing was changed")
    return await to_thread(conversation_phase.approve, desk, conversation, seen)


def _show(moved: dict[str, object]) -> None:
    print(f"{visible(str(moved['from']))} → {moved['phase']}")
    if moved["notice"]:
        print(f"note: {moved['notice']}")
