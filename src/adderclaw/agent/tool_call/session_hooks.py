"""A session's hooks: what they are told of it, what runs the kinds that need it, and where their rows go."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from adderclaw.agent.session.session import Chain, Rows, Session, ToolEnvironment
from adderclaw.agent.tool_call.permission_check import prepare_and_judge
from adderclaw.core.child import ChildRequest
from adderclaw.core.errors import AdderClawError
from adderclaw.core.hook_outcome import ASKED_BY_SERVERS, HookOutcome
from adderclaw.core.redaction import Secrets, mask_secret_shapes
from adderclaw.core.tool_traits import BASH, READERS
from adderclaw.core.types import Autonomy, Json, PermissionMode, ToolCall
from adderclaw.policy import judges
from adderclaw.policy.legacy.shell.planner import Raw
from adderclaw.policy.rules import Anchors, Invalid, parse
from adderclaw.storage import hooks as rows_of
from adderclaw.storage.text import compact, iso
from adderclaw.tools.hooks import http, model_hooks, plane, process
from adderclaw.tools.hooks.answers import Ran
from adderclaw.tools.hooks.input_template import filled
from adderclaw.tools.hooks.scripts import Ground
from adderclaw.tools.hooks.settings import Hook, chains

if TYPE_CHECKING:
    from sqlite3 import Cursor

AGENT = "hook"
"""The kind of agent that a hook of type agent is."""
MODES: dict[Autonomy, PermissionMode] = {
    "readonly": "plan",
    "supervised": "default",
    "full": "bypassPermissions",
}


def table(hooks: tuple[Hook, ...]) -> Mapping[str, Chain]:
    """Event → what `Session.fire` runs."""
    return {event: _chain(event, chain) for event, chain in chains(hooks).items()}


def _chain(event: str, hooks: tuple[Hook, ...]) -> Chain:
    async def fire(session: Session, fields: Json, rows: Rows | None) -> HookOutcome:
        merged, _ = await run(event, hooks, session, fields, rows)
        return merged

    return fire


async def run(
    event: str, hooks: tuple[Hook, ...], session: Session, fields: Json, rows: Rows | None
) -> tuple[HookOutcome, list[rows_of.Invocation]]:
    """What these hooks say of an event, and the rows that they leave."""
    kept: list[rows_of.Invocation] = []

    def write(cursor: "Cursor") -> None:
        rows_of.record(cursor, session.session_id, session.conversation_id, kept)

    session.store.flush()  # hooks may read the store
    if event == "SubagentStop":
        fields = {"agent_transcript_path": "", **fields}  # the transcript is in the store
    try:
        merged = await plane.run(hooks, event, fields, _place(session, kept, beside=event != "SessionEnd"))
    finally:
        if kept and rows is not None:
            rows.append(write)
        elif kept:
            with session.store.write() as cursor:
                write(cursor)
    for message in merged.messages:
        session.bus.publish({"event_type": "hook_message", "hook_event": event, "message": message})
    return merged, kept


def _place(session: Session, kept: list[rows_of.Invocation], *, beside: bool = True) -> plane.Place:
    """Where nothing comes after it there is nothing to run beside: such a hook is waited for."""
    policy = session.scene.policy

    def told(hook: Hook, ran: Ran, wrong: str, seconds: float) -> None:
        session.bus.publish(
            {
                "event_type": "hook_finished",
                "hook_event": hook.event,
                "ordinal": hook.ordinal,
                "command": hook.command[:200],
                "exit_code": ran.exit_code,
                "duration_ms": round(seconds * 1000, 2),
                "error": wrong[:500],
            }
        )

    def warn(message: str) -> None:
        session.bus.publish({"event_type": "warning", "message": message})

    return plane.Place(
        base=base(session),
        kinds=_kinds(session),
        time=lambda: _time(session),
        keep=kept.append,
        told=told,
        warn=warn,
        stopped=session.scene.stopped,
        seconds_left=max(session.budget.seconds_left, 0.0),
        # a row has what was printed, without secrets; who shows it makes it fit to be shown
        clean=lambda text: mask_secret_shapes(session.secrets.scrub(text)),
        scrub=session.secrets.scrub_all,
        applies=lambda rule, fields: applies(session.scene, warn, rule, fields),
        aliases=policy.aliases,
        beside=_beside(session) if beside else None,
        ran=session.hooks_ran,
    )


def _time(session: Session) -> str:
    return iso(session.clock.now()).replace("T", " ").removesuffix("Z")


def base(session: Session) -> Json:
    """What every hook is told (seed 003 §6)."""
    policy = session.scene.policy
    told: Json = {
        "session_id": session.session_id,
        "conversation_id": session.conversation_id,
        "runtime_db_path": session.store.path,
        **_places(session.scene),
        "permission_mode": policy.mode or MODES[policy.autonomy],
    }
    if session.agent_id:
        told |= {"agent_id": session.agent_id, "agent_type": session.agent_type}
    return told


def _places(scene: ToolEnvironment) -> Json:
    """Hooks run in the project's root, wherever the model has gone: a path of theirs never leads into its folders."""
    workspace = scene.context.workspace
    return {"cwd": workspace.root, "session_cwd": workspace.cwd}


def ground(scene: ToolEnvironment) -> Ground:
    """Only mounts keep a file from everything that runs meanwhile; of the rest a copy is run."""
    workspace, policy = scene.context.workspace, scene.policy
    fixed = frozenset(policy.started) if scene.confinement == "bubblewrap" else frozenset[str]()
    return Ground((workspace.root, *workspace.extra), fixed, os.path.join(policy.home, "hook-copies"))


def variables(database: str, project: str) -> dict[str, str]:
    """What a hook's environment has beside the host's."""
    return {"AGENT_SDLC_DB": database, "CLAUDE_PROJECT_DIR": project, "ADDERCLAW_PROJECT_DIR": project}


# ------------------------------------------------------------------ the kinds


def _kinds(session: Session) -> Mapping[str, plane.Run]:
    async def prompt(hook: Hook, stdin: Json, seconds: float, _said_async: plane.SaidAsync) -> Ran:
        return await _within(_ask(session, hook, stdin), seconds)

    async def agent(hook: Hook, stdin: Json, seconds: float, _said_async: plane.SaidAsync) -> Ran:
        return await _within(_spawn(session, hook, stdin), seconds)

    async def tool(hook: Hook, stdin: Json, seconds: float, _said_async: plane.SaidAsync) -> Ran:
        return await _within(_call(session, hook, stdin), seconds)

    async def callback(hook: Hook, stdin: Json, seconds: float, _said_async: plane.SaidAsync) -> Ran:
        return await _within(_call_back(session, hook, stdin), seconds)

    more = variables(session.store.path, session.scene.context.workspace.root)
    own: dict[str, plane.Run] = {"prompt": prompt, "agent": agent, "mcp_tool": tool, "callback": callback}
    return {**kinds(more, ground(session.scene)), **own}


def kinds(more: Mapping[str, str], here: Ground) -> dict[str, plane.Run]:
    """The kinds that need no session."""

    async def command(hook: Hook, stdin: Json, seconds: float, said_async: plane.SaidAsync) -> Ran:
        given = f"{compact(stdin)}\n".encode()
        return await process.run(hook, given, ground=here, more=more, seconds=seconds, said_async=said_async)

    async def posted(hook: Hook, stdin: Json, seconds: float, _said_async: plane.SaidAsync) -> Ran:
        return await _within(http.post(hook, compact(stdin), os.environ), seconds)

    return {"command": command, "http": posted}


async def _within(work: Awaitable[Ran], seconds: float) -> Ran:
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        return Ran(None, stderr=f"the hook did not end within {seconds:g} s", timed_out=True)


async def _ask(session: Session, hook: Hook, stdin: Json) -> Ran:
    """One question to the model that the hook names, else to the small one, within the session's budget."""
    if not session.host.has_model:
        return Ran(None, stderr="the model could not be asked: there is none here")
    try:
        named = str(hook.more.get("model", ""))
        text = await session.host.ask_small_model(model_hooks.SYSTEM, model_hooks.question(hook, stdin), "hook", named)
    except AdderClawError as error:
        return Ran(None, stderr=f"the model could not be asked: {error}")
    return model_hooks.answered(hook, text)


async def _spawn(session: Session, hook: Hook, stdin: Json) -> Ran:
    """A child session that may look around, but changes nothing, and then says yes or no."""
    if session.agent_type == AGENT:
        return Ran(None, stderr="an agent hook does not run inside an agent hook")
    wanted = str(hook.more.get("model", "")) or None
    order = ChildRequest(
        model_hooks.question(hook, stdin),
        agent_type=AGENT,
        description=f"{hook.event} hook",
        system=model_hooks.SYSTEM,
        tools=READERS,
        model=wanted,
        background=True,
        without_hooks=True,
    )
    try:
        report = await session.host.spawn(order)
    except AdderClawError as error:
        return Ran(None, stderr=f"no agent could be started: {error}")
    if report.outcome != "completed":
        return Ran(None, report.answer, f"the agent ended {report.outcome}: {report.reason}")
    return model_hooks.answered(hook, report.answer)


async def _call_back(session: Session, hook: Hook, stdin: Json) -> Ran:
    """A function of the program that embeds us. One that is no longer there blocks, as a guard that cannot speak."""
    if session.call_back is None:
        return Ran(None, stderr="nobody is there to be called back", refused=True)
    try:
        return Ran(0, compact(await session.call_back(hook.command, stdin)))
    except OSError as error:
        return Ran(None, stderr=str(error), refused=True)
    except AdderClawError as error:
        return Ran(None, stderr=f"the hook failed: {error}")


async def _call(session: Session, hook: Hook, stdin: Json) -> Ran:
    """A tool of a server; what it answers is read as what a command prints. A failure is only logged."""
    from adderclaw.config.servers import slug
    from adderclaw.tools.mcp.definitions import tool_name

    # its call is heard by no hook, but for a question that the server asks meanwhile, in a task of its own
    if hook.event in ASKED_BY_SERVERS and hook.ordinal in session.state.hooks_calling:
        return Ran(None, stderr="the event comes from the tool that this hook calls: it is not called again")
    name = tool_name(slug(str(hook.more["server"])), str(hook.more["tool"]))
    session.state.hooks_calling.add(hook.ordinal)
    try:
        result = await session.host.call_tool(name, filled(hook.more.get("input", {}), stdin), f"{hook.event} hook")
    finally:
        session.state.hooks_calling.discard(hook.ordinal)
    return Ran(None, "", result.content) if result.is_error else Ran(0, result.content)


# ------------------------------------------------------------------ conditions, and hooks beside the turn


def applies(scene: ToolEnvironment, warn: Callable[[str], None], rule: str, fields: Json) -> bool:
    """Whether a call is one that a permission rule names. Where that cannot be told, the hook runs."""
    policy, context = scene.policy, scene.context
    try:
        parsed = parse(rule, "ask", Anchors(policy.workspace, context.workspace.cwd, policy.user_home), policy.aliases)
    except Invalid as error:
        warn(f"a hook's condition {rule!r} is no permission rule, so that the hook always runs: {error}")
        return True
    call = ToolCall(str(fields.get("tool_use_id", "")), str(fields["tool_name"]), fields["tool_input"])
    case = prepare_and_judge(scene, call).case
    if case is None:
        return True
    return judges.forbids(parsed, case) or (parsed.tool == BASH and isinstance(case.touch.command, Raw))


def by_hand(
    scene: ToolEnvironment, database: str, keep: Callable[[rows_of.Invocation], None], warn: Callable[[str], None]
) -> plane.Place:
    """A place where an operator tries hooks: nothing is written, and no model is asked."""
    context, policy = scene.context, scene.policy
    clean = Secrets().clean

    async def unasked(hook: Hook, _stdin: Json, _seconds: float, _said_async: plane.SaidAsync) -> Ran:
        return Ran(None, stderr=f"a hook of type {hook.kind} is not run by hand: it needs a session")

    base: Json = {
        "session_id": context.session_id or "by-hand",
        "conversation_id": context.conversation_id or "by-hand",
        "runtime_db_path": database,
        **_places(scene),
        "permission_mode": policy.mode or MODES[policy.autonomy],
    }
    return plane.Place(
        base=base,
        kinds={
            **kinds(variables(database, context.workspace.root), ground(scene)),
            **dict.fromkeys(("prompt", "agent", "mcp_tool", "callback"), unasked),
        },
        time=lambda: iso(time.time()).replace("T", " ").removesuffix("Z"),
        keep=keep,
        warn=warn,
        stopped=scene.stopped,
        clean=clean,
        applies=lambda rule, fields: applies(scene, warn, rule, fields),
        aliases=policy.aliases,
    )


def _beside(session: Session) -> plane.Beside:
    def hold(task: "asyncio.Task[None]") -> None:
        session.state.beside.add(task)
        task.add_done_callback(session.state.beside.discard)

    def keep(row: rows_of.Invocation) -> None:
        with session.store.write() as cursor:
            rows_of.record(cursor, session.session_id, session.conversation_id, [row])

    return plane.Beside(hold, keep)
