"""Runs hooks in a session: their input, the kinds of hooks that need the session, and their rows in the store."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from adderclaw.agent.session.session import Chain, Rows, Session, ToolEnvironment
from adderclaw.agent.tool_call.permission_check import prepare_and_judge
from adderclaw.core.errors import AdderClawError
from adderclaw.core.host import ASKED_BY_SERVERS, ChildRequest, HookOutcome
from adderclaw.core.redaction import Secrets, mask_secret_shapes
from adderclaw.core.tool_traits import BASH, READERS
from adderclaw.core.types import Autonomy, Json, PermissionMode, ToolCall
from adderclaw.policy import judges
from adderclaw.policy.legacy.shell.planner import Raw
from adderclaw.policy.rules import Anchors, InvalidRule, parse
from adderclaw.storage import hooks as rows_of
from adderclaw.storage.text import compact, iso
from adderclaw.tools.hooks import http, model_hooks, plane, process
from adderclaw.tools.hooks.answers import HookRun
from adderclaw.tools.hooks.input_template import fill_template
from adderclaw.tools.hooks.scripts import HookWorkspace
from adderclaw.tools.hooks.settings import Hook, hooks_by_event

if TYPE_CHECKING:
    from sqlite3 import Cursor

AGENT = "hook"
"""The agent type of a hook of type agent."""
MODES: dict[Autonomy, PermissionMode] = {
    "readonly": "plan",
    "supervised": "default",
    "full": "bypassPermissions",
}


def hook_table(hooks: tuple[Hook, ...]) -> Mapping[str, Chain]:
    """Event → the chain of hooks that `Session.fire` runs."""
    return {event: _chain(event, chain) for event, chain in hooks_by_event(hooks).items()}


def _chain(event: str, hooks: tuple[Hook, ...]) -> Chain:
    async def fire(session: Session, fields: Json, rows: Rows | None) -> HookOutcome:
        merged, _ = await run_hooks(event, hooks, session, fields, rows)
        return merged

    return fire


async def run_hooks(
    event: str, hooks: tuple[Hook, ...], session: Session, fields: Json, rows: Rows | None
) -> tuple[HookOutcome, list[rows_of.Invocation]]:
    """Run these hooks for an event; returns their merged output and their rows."""
    invocations: list[rows_of.Invocation] = []

    def write(cursor: "Cursor") -> None:
        rows_of.record(cursor, session.session_id, session.conversation_id, invocations)

    session.store.flush()  # hooks may read the store
    if event == "SubagentStop":
        fields = {"agent_transcript_path": "", **fields}  # the transcript is in the store
    try:
        merged = await plane.run_hooks(
            hooks, event, fields, _hook_chain(session, invocations, background=event != "SessionEnd")
        )
    finally:
        if invocations and rows is not None:
            rows.append(write)
        elif invocations:
            with session.store.write() as cursor:
                write(cursor)
    for message in merged.messages:
        session.bus.publish({"event_type": "hook_message", "hook_event": event, "message": message})
    return merged, invocations


def _hook_chain(session: Session, invocations: list[rows_of.Invocation], *, background: bool = True) -> plane.HookChain:
    """How hooks run in this session. `background`: hooks may run in the background; not at the end of the session."""
    policy = session.environment.policy

    def publish_end(hook: Hook, ran: HookRun, error: str, seconds: float) -> None:
        session.bus.publish(
            {
                "event_type": "hook_finished",
                "hook_event": hook.event,
                "ordinal": hook.ordinal,
                "command": hook.command[:200],
                "exit_code": ran.exit_code,
                "duration_ms": round(seconds * 1000, 2),
                "error": error[:500],
            }
        )

    def warn(message: str) -> None:
        session.bus.publish({"event_type": "warning", "message": message})

    return plane.HookChain(
        base=base_fields(session),
        kinds=_kinds(session),
        time=lambda: _timestamp(session),
        keep=invocations.append,
        told=publish_end,
        warn=warn,
        stopped=session.environment.stopped,
        seconds_left=max(session.budget.seconds_left, 0.0),
        # the row has the output without secrets; control characters are removed when it is shown
        clean=lambda text: mask_secret_shapes(session.secrets.scrub(text)),
        scrub=session.secrets.scrub_all,
        applies=lambda rule, fields: condition_applies(session.environment, warn, rule, fields),
        aliases=policy.aliases,
        beside=_background_hooks(session) if background else None,
        ran=session.hooks_ran,
    )


def _timestamp(session: Session) -> str:
    return iso(session.clock.now()).replace("T", " ").removesuffix("Z")


def base_fields(session: Session) -> Json:
    """The fields that every hook gets. Their names are fixed by the hook protocol."""
    policy = session.environment.policy
    fields: Json = {
        "session_id": session.session_id,
        "conversation_id": session.conversation_id,
        "runtime_db_path": session.store.path,
        **_folders(session.environment),
        "permission_mode": policy.mode or MODES[policy.autonomy],
    }
    if session.agent_id:
        fields |= {"agent_id": session.agent_id, "agent_type": session.agent_type}
    return fields


def _folders(environment: ToolEnvironment) -> Json:
    """The folder fields for hooks. They run in the project's root, so that relative paths do not depend on the model's
    directory."""
    workspace = environment.context.workspace
    return {"cwd": workspace.root, "session_cwd": workspace.cwd}


def ground(environment: ToolEnvironment) -> HookWorkspace:
    """Which hook scripts are protected by mounts. All others in the workspace run as a copy."""
    workspace, policy = environment.context.workspace, environment.policy
    fixed = frozenset(policy.started) if environment.confinement == "bubblewrap" else frozenset[str]()
    return HookWorkspace((workspace.root, *workspace.extra), fixed, os.path.join(policy.home, "hook-copies"))


def variables(database: str, project: str) -> dict[str, str]:
    """The variables that a hook's environment has in addition to the host's."""
    return {"AGENT_SDLC_DB": database, "CLAUDE_PROJECT_DIR": project, "ADDERCLAW_PROJECT_DIR": project}


# ------------------------------------------------------------------ the kinds


def _kinds(session: Session) -> Mapping[str, plane.Run]:
    async def prompt(hook: Hook, stdin: Json, seconds: float, _said_async: plane.SaidAsync) -> HookRun:
        return await _limit_seconds(_ask_model(session, hook, stdin), seconds)

    async def agent(hook: Hook, stdin: Json, seconds: float, _said_async: plane.SaidAsync) -> HookRun:
        return await _limit_seconds(_run_agent_hook(session, hook, stdin), seconds)

    async def tool(hook: Hook, stdin: Json, seconds: float, _said_async: plane.SaidAsync) -> HookRun:
        return await _limit_seconds(_call_tool(session, hook, stdin), seconds)

    async def callback(hook: Hook, stdin: Json, seconds: float, _said_async: plane.SaidAsync) -> HookRun:
        return await _limit_seconds(_run_callback(session, hook, stdin), seconds)

    more = variables(session.store.path, session.environment.context.workspace.root)
    own: dict[str, plane.Run] = {"prompt": prompt, "agent": agent, "mcp_tool": tool, "callback": callback}
    return {**kinds(more, ground(session.environment)), **own}


def kinds(more: Mapping[str, str], here: HookWorkspace) -> dict[str, plane.Run]:
    """The kinds of hooks that need no session."""

    async def command(hook: Hook, stdin: Json, seconds: float, said_async: plane.SaidAsync) -> HookRun:
        stdin_bytes = f"{compact(stdin)}\n".encode()
        return await process.run_hook_command(
            hook, stdin_bytes, ground=here, more=more, seconds=seconds, said_async=said_async
        )

    async def posted(hook: Hook, stdin: Json, seconds: float, _said_async: plane.SaidAsync) -> HookRun:
        return await _limit_seconds(http.post_hook(hook, compact(stdin), os.environ), seconds)

    return {"command": command, "http": posted}


async def _limit_seconds(work: Awaitable[HookRun], seconds: float) -> HookRun:
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        return HookRun(None, stderr=f"the hook did not end within {seconds:g} s", timed_out=True)


async def _ask_model(session: Session, hook: Hook, stdin: Json) -> HookRun:
    """Ask the model that the hook names, else the small one, within the session's budget."""
    if not session.host.has_model:
        return HookRun(None, stderr="the model could not be asked: there is none here")
    try:
        named = str(hook.more.get("model", ""))
        text = await session.host.ask_small_model(
            model_hooks.SYSTEM, model_hooks.build_question(hook, stdin), "hook", named
        )
    except AdderClawError as error:
        return HookRun(None, stderr=f"the model could not be asked: {error}")
    return model_hooks.read_reply(hook, text)


async def _run_agent_hook(session: Session, hook: Hook, stdin: Json) -> HookRun:
    """Run a child session that can only read, and answers yes or no."""
    if session.agent_type == AGENT:
        return HookRun(None, stderr="an agent hook does not run inside an agent hook")
    model = str(hook.more.get("model", "")) or None
    order = ChildRequest(
        model_hooks.build_question(hook, stdin),
        agent_type=AGENT,
        description=f"{hook.event} hook",
        system=model_hooks.SYSTEM,
        tools=READERS,
        model=model,
        background=True,
        without_hooks=True,
    )
    try:
        report = await session.host.spawn(order)
    except AdderClawError as error:
        return HookRun(None, stderr=f"no agent could be started: {error}")
    if report.outcome != "completed":
        return HookRun(None, report.answer, f"the agent ended {report.outcome}: {report.reason}")
    return model_hooks.read_reply(hook, report.answer)


async def _run_callback(session: Session, hook: Hook, stdin: Json) -> HookRun:
    """Call a function of the embedding program. If it is gone, the hook blocks."""
    if session.call_back is None:
        return HookRun(None, stderr="the program that provides this hook is no longer connected", refused=True)
    try:
        return HookRun(0, compact(await session.call_back(hook.command, stdin)))
    except OSError as error:
        return HookRun(None, stderr=str(error), refused=True)
    except AdderClawError as error:
        return HookRun(None, stderr=f"the hook failed: {error}")


async def _call_tool(session: Session, hook: Hook, stdin: Json) -> HookRun:
    """Call a tool of an MCP server; its result is read like a command's output. A failure is only logged."""
    from adderclaw.config.servers import slug
    from adderclaw.tools.mcp.definitions import tool_name

    # the call itself fires no hooks, but a question from the server during the call does
    if hook.event in ASKED_BY_SERVERS and hook.ordinal in session.state.hooks_calling:
        return HookRun(None, stderr="the event comes from the tool that this hook calls: it is not called again")
    name = tool_name(slug(str(hook.more["server"])), str(hook.more["tool"]))
    session.state.hooks_calling.add(hook.ordinal)
    try:
        result = await session.host.call_tool(
            name, fill_template(hook.more.get("input", {}), stdin), f"{hook.event} hook"
        )
    finally:
        session.state.hooks_calling.discard(hook.ordinal)
    return HookRun(None, "", result.content) if result.is_error else HookRun(0, result.content)


# ------------------------------------------------------------------ conditions, and background hooks


def condition_applies(environment: ToolEnvironment, warn: Callable[[str], None], rule: str, fields: Json) -> bool:
    """Whether a permission rule matches the call. If that is unknown, the hook runs."""
    policy, context = environment.policy, environment.context
    try:
        parsed = parse(rule, "ask", Anchors(policy.workspace, context.workspace.cwd, policy.user_home), policy.aliases)
    except InvalidRule as error:
        warn(f"a hook's condition {rule!r} is not a valid permission rule, so the hook always runs: {error}")
        return True
    call = ToolCall(str(fields.get("tool_use_id", "")), str(fields["tool_name"]), fields["tool_input"])
    case = prepare_and_judge(environment, call).case
    if case is None:
        return True
    return judges.forbids(parsed, case) or (parsed.tool == BASH and isinstance(case.touch.command, Raw))


def manual_place(
    environment: ToolEnvironment, database: str, keep: Callable[[rows_of.Invocation], None], warn: Callable[[str], None]
) -> plane.HookChain:
    """How hooks run when an operator tests them manually: nothing is stored, and no model is called."""
    context, policy = environment.context, environment.policy
    clean = Secrets().clean

    async def needs_session(hook: Hook, _stdin: Json, _seconds: float, _said_async: plane.SaidAsync) -> HookRun:
        return HookRun(None, stderr=f"a hook of type {hook.kind} is not run by hand: it needs a session")

    base: Json = {
        "session_id": context.session_id or "by-hand",
        "conversation_id": context.conversation_id or "by-hand",
        "runtime_db_path": database,
        **_folders(environment),
        "permission_mode": policy.mode or MODES[policy.autonomy],
    }
    return plane.HookChain(
        base=base,
        kinds={
            **kinds(variables(database, context.workspace.root), ground(environment)),
            **dict.fromkeys(("prompt", "agent", "mcp_tool", "callback"), needs_session),
        },
        time=lambda: iso(time.time()).replace("T", " ").removesuffix("Z"),
        keep=keep,
        warn=warn,
        stopped=environment.stopped,
        clean=clean,
        applies=lambda rule, fields: condition_applies(environment, warn, rule, fields),
        aliases=policy.aliases,
    )


def _background_hooks(session: Session) -> plane.Background:
    def hold(task: "asyncio.Task[None]") -> None:
        session.state.background_hooks.add(task)
        task.add_done_callback(session.state.background_hooks.discard)

    def keep(row: rows_of.Invocation) -> None:
        with session.store.write() as cursor:
            rows_of.record(cursor, session.session_id, session.conversation_id, [row])

    return plane.Background(hold, keep)
