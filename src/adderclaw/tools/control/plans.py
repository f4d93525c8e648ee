"""EnterPlanMode and ExitPlanMode: nothing is changed until the operator has approved a plan."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adderclaw.core.host import ToolContext
from adderclaw.core.json_text import digest
from adderclaw.core.questions import Answer, ApprovalRequest
from adderclaw.core.record import record
from adderclaw.core.types import Json, Tool, ToolResult, Touch, fixed_prepare, own_words, refused, rejected
from adderclaw.tools.specs import builtin_tool

if TYPE_CHECKING:
    from adderclaw.storage import Store
    from adderclaw.storage.sdlc.phases import Mover
    from adderclaw.tools.kit import Kit

MAX_PLAN = 256 * 1024
NO_STORE = "Plans are not available: this run was started without a database."
PLANNING_STARTED = (
    "Planning: until a plan is approved, Write, Edit, NotebookEdit, Delete and Bash are refused; nothing is changed."
    " Explore with Read, Grep and Glob, ask what is unclear, then submit the plan with its success criteria:"
    ' Call {"tool": "ExitPlanMode", "input": {"plan": "…"}}.'
)


@record
class EnterPlanModeArguments:
    pass


@record
class ExitPlanModeArguments:
    plan: str = ""


def enter_plan_mode(store: "Store", ctx: ToolContext) -> ToolResult:
    from adderclaw.storage.sdlc import phases, plans

    phase = phases.phase_of(store, ctx.conversation_id)
    if phase == "planning" and not plans.last(store, ctx.conversation_id, "approved"):
        return own_words(f"Already {PLANNING_STARTED[0].lower()}{PLANNING_STARTED[1:]}")
    try:
        with store.write() as cursor:
            phases.transition(cursor, ctx.conversation_id, "planning", by=phases.MODEL, seen=phase, why="EnterPlanMode")
    except phases.TransitionRefused as error:
        return rejected(str(error))
    return own_words(PLANNING_STARTED, {"phase": "planning"})


async def exit_plan_mode(kit: "Kit", store: "Store", arguments: ExitPlanModeArguments, ctx: ToolContext) -> ToolResult:
    """Submits the plan to the operator. In plan mode outside the planning phase, approval starts that phase."""
    from adderclaw.storage.sdlc import phases, plans
    from adderclaw.storage.sdlc.criteria import BadPlan

    phase = phases.phase_of(store, ctx.conversation_id)
    if phase != "planning" and not ctx.host.in_plan_mode:
        return rejected(f"nothing is being planned: the conversation is {phase}. Call EnterPlanMode first.")
    approved = plans.last(store, ctx.conversation_id, "approved")
    if phase == "planning" and approved is not None:
        with store.write() as cursor:
            moved = phases.transition(cursor, ctx.conversation_id, "implement", by=phases.MODEL)
        return _approved_result(ctx, approved.content, moved.notice)
    drafted = plans.last(store, ctx.conversation_id, "draft")
    text = arguments.plan if arguments.plan.strip() else drafted.content if drafted is not None else ""
    if not text.strip():
        return rejected('there is no plan to approve: give its text, {"plan": "…"}.')
    if len(text) > MAX_PLAN:
        return rejected(f"the plan has {len(text)} characters; at most {MAX_PLAN} can be approved.")
    try:
        with store.write() as cursor:
            number = plans.draft(cursor, ctx.conversation_id, text)
    except BadPlan as error:
        return rejected(f"the plan cannot be approved as it is written:\n{error}")
    answer = await _ask_for_approval(
        text, ctx, "" if approved is None else f"; it replaces plan {approved.id}, which you approved"
    )
    if answer.by != "operator" and not answer.approved and phase != "planning" and approved is None:
        _begin_planning(store, ctx, number, phases.MODEL)  # so that the operator can approve it later
    if not answer.approved:
        return _refusal_result(answer, number)
    who = phases.Mover("operator", answer.who or answer.by)
    if phase != "planning":
        _begin_planning(store, ctx, number, who)
    return await _implement(kit, store, ctx, text, number, who)


def _begin_planning(store: "Store", ctx: ToolContext, number: int, by: "Mover") -> None:
    from adderclaw.storage.sdlc import phases

    with store.write() as cursor:
        phases.begin_planning(cursor, ctx.conversation_id, number, by=by)


async def _ask_for_approval(text: str, ctx: ToolContext, replaces: str) -> Answer:
    reason = f"the plan needs your approval; then files can be written and commands run{replaces}"
    notice = {"message": f"ExitPlanMode: {reason}", "title": "Approval needed"}
    await ctx.host.run_hooks("Notification", {**notice, "notification_type": "permission_prompt"})
    return await ctx.host.approve(
        ApprovalRequest("ExitPlanMode", "medium", reason, text, ctx.tool_use_id, plan_hash=digest(text))
    )


async def _implement(kit: "Kit", store: "Store", ctx: ToolContext, text: str, number: int, who: "Mover") -> ToolResult:
    from asyncio import to_thread

    from adderclaw.sandbox.legacy.checkpoints.baseline import approve
    from adderclaw.storage.sdlc.phases import TransitionRefused

    root, take = ctx.workspace.root, kit.baseline
    taking = None if take is None else lambda: take(root)
    try:
        moved = await to_thread(approve, store, ctx.conversation_id, number, who, taking)
    except TransitionRefused as error:  # another process changed the phase while the operator was asked
        return rejected(f"the conversation is no longer planning, or its plan was withdrawn meanwhile: {error}")
    return _approved_result(ctx, text, moved.notice)


def _approved_result(ctx: ToolContext, text: str, notice: str) -> ToolResult:
    more = f"\n\n({notice})" if notice and not ctx.host.in_plan_mode else ""
    if ctx.host.in_plan_mode and not ctx.host.end_plan_mode():
        return own_words(
            f"The plan is approved, but this session stays read-only. Another session must implement it.{more}"
        )
    return own_words(f"The plan is approved: carry it out.{more}\n\n{text}", {"phase": "implement"})


def _refusal_result(answer: Answer, number: int) -> ToolResult:
    comment = f": {answer.comment}" if answer.comment else ""
    if answer.by != "operator":
        outcome = f"It is stored as draft {number}, and planning continues."
        return replace(rejected(f"The plan was not approved ({answer.by}{comment}). {outcome}"), unanswered=True)
    denied = f"the operator did not approve the plan{comment}"
    by = {"by": answer.by, **({"answered_by": answer.who} if answer.who else {})}
    message = f"Denied: {denied}. Planning continues: change the plan, or ask."
    return replace(refused(message, "operator", denied), metadata={"answered": by})


# ------------------------------------------------------------------ the tools


def tools(kit: "Kit") -> tuple[Tool[Any], ...]:
    async def begin(_given: EnterPlanModeArguments, ctx: ToolContext) -> ToolResult:
        return rejected(NO_STORE) if kit.store is None else enter_plan_mode(kit.store, ctx)

    async def end(arguments: ExitPlanModeArguments, ctx: ToolContext) -> ToolResult:
        return rejected(NO_STORE) if kit.store is None else await exit_plan_mode(kit, kit.store, arguments, ctx)

    return (
        _tool("EnterPlanMode", EnterPlanModeArguments, "begins to plan", begin, 30.0),
        _tool("ExitPlanMode", ExitPlanModeArguments, "offers the plan to the operator", end, kit.config.limits.seconds),
    )


def _tool(name: str, arguments: type[Any], why: str, run: Any, seconds: float) -> Tool[Any]:

    def decoded(data: Json) -> Any:
        from adderclaw.core.decode import decode

        # what the reference's host adds, or no longer uses
        known_fields = {key: value for key, value in data.items() if key not in ("allowedPrompts", "planFilePath")}
        return decode(arguments, known_fields)

    return builtin_tool(
        name,
        arguments,
        fixed_prepare(Touch(why=why), run),
        timeout=lambda _given: seconds,
        decode=decoded,
        deferred=True,
    )
