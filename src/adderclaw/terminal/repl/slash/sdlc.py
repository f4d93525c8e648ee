"""Commands about the way from plan to proof: the plan, the phase, what is approved."""

from asyncio import to_thread

from adderclaw.agent.run import Run
from adderclaw.agent.tool_call import permission_updates
from adderclaw.agent.tool_call.approvals import person
from adderclaw.config.permissions import PermissionUpdate
from adderclaw.core.errors import AdderClawError
from adderclaw.core.redaction import visible
from adderclaw.flows.sdlc import conversation_phase, coverage
from adderclaw.flows.sdlc.conversation_phase import Desk, Seen
from adderclaw.storage.sdlc import phases, plans
from adderclaw.storage.sdlc.phases import By, NotMoved
from adderclaw.terminal.operators import terminal_question
from adderclaw.terminal.repl import here, modes
from adderclaw.terminal.repl.slash.row import Done
from adderclaw.terminal.sdlc_status import status_lines


def _desk(run: Run) -> Desk:
    session = run.session
    by = By("operator", person("repl"))
    return Desk(session.store, session.config, session.scene.context.workspace.root, by)


async def plan(run: Run, rest: str) -> Done:
    """The plan and the phase; what is not `approve` is a task, which is planned in the mode plan."""
    store, conversation = run.session.store, run.session.conversation_id
    if rest not in ("", "approve"):
        permission_updates.apply(run.session, PermissionUpdate("setMode", "session", mode="plan"))
        print("mode: plan; it ends when you approve a plan; Shift+Tab or /config mode=default leaves it")
        await here.run_turn_here(run, rest)
        return
    draft = plans.last(store, conversation)
    if rest and draft is not None and draft.status == "draft":
        if phases.shown(store, conversation) != "planning":  # it was drafted in plan mode
            with store.write() as cursor:
                phases.begin_planning(cursor, conversation, draft.id, by=_desk(run).by)
        _show(await to_thread(conversation_phase.approve, _desk(run), conversation, Seen("plan", draft.id)))
        if permission_updates.in_plan_mode(run.session) and permission_updates.end_plan_mode(run.session):
            print(f"mode: {modes.mode_name(run.session.scene.policy)}")
        draft = plans.last(store, conversation)
    print(f"phase: {phases.shown(store, conversation)}")
    if draft is None:
        print("there is no plan yet")
    else:
        print(f"plan {draft.id}, {draft.status}, of {draft.created_at}:\n{visible(draft.content)}")


async def phase(run: Run, rest: str) -> Done:
    """Where the conversation stands, or its way into another phase; `done` is asked about, with the report."""
    desk, conversation = _desk(run), run.session.conversation_id
    if not rest:
        for line in status_lines(await to_thread(conversation_phase.status, desk, conversation)):
            print(line)
        return
    to = phases.named(rest)
    if to == "done" and phases.phase_of(desk.store, conversation) == "verify":
        _show(await _approve(run, desk, conversation))
    else:
        _show(await to_thread(conversation_phase.transition, desk, conversation, to))
    if to == "test":
        await _prove(run, desk, conversation)


async def _prove(run: Run, desk: Desk, conversation: str) -> None:
    """The tests of the plan, in a run of their own; the conversation stays in `test`, whatever comes of them."""
    if not coverage.has_criteria(desk, conversation):
        return
    print("tests are generated from the plan, and run: this takes a while")
    options = run.runtime.options
    try:
        proof = await to_thread(coverage.run, options.config_file, desk.workspace, conversation, "repl")
    except AdderClawError as error:
        print(f"note: no test was run: {visible(str(error))}; `adderclaw sdlc test` does it")
        return
    reason = f": {proof['reason']}" if proof["reason"] else ""
    print(visible(f"tests {proof['outcome']}: {proof['answer']}{reason}"))


async def _approve(run: Run, desk: Desk, conversation: str) -> dict[str, object]:
    seen = conversation_phase.waits(desk, conversation)
    if here.screen_of(run) is None and terminal_question() is None:
        raise AdderClawError("the report has to be approved by the operator, and nobody is at a terminal here")
    for line in conversation_phase.shown(desk, conversation, seen):
        print(visible(line))
    if (await here.ask_person(run, "Approve this report? [y/N] ") or "").strip().lower() not in ("y", "yes"):
        raise NotMoved("the report is not approved; nothing was changed")
    return await to_thread(conversation_phase.approve, desk, conversation, seen)


def _show(moved: dict[str, object]) -> None:
    print(f"{visible(str(moved['from']))} → {moved['phase']}")
    if moved["notice"]:
        print(f"note: {moved['notice']}")
