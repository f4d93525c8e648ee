"""Runs the hooks for the events of a session other than its tool calls."""

import asyncio
import os
from collections.abc import Iterable, Sequence
from typing import Any, cast

from adderclaw.agent.session.session import Session, hook_text
from adderclaw.core.host import HookOutcome
from adderclaw.core.types import Block, Json, TextBlock, ToolCall, ToolResultBlock
from adderclaw.sandbox import workspace
from adderclaw.storage import transcript

GOAL = "Goal"
"""The chain that judges a goal. Every session has it, so that setting a goal does not change the set of hooks."""
STOP_BLOCKS = 8
"""How often in a row a Stop hook may send the model back to work."""


def _apply_hook_output(session: Session, event: str, merged: HookOutcome) -> None:
    if merged.context:
        session.state.due_texts.append(hook_text(event, merged.context))


def take_hook_texts(session: Session) -> tuple[TextBlock, ...]:
    """Take and store the pending texts of hooks for the model, if no user message follows that contains them."""
    texts, session.state.due_texts = [session.secrets.scrub(text) for text in session.state.due_texts], []
    if texts:
        with session.store.write() as cursor:
            for hook_text in texts:
                transcript.append(
                    cursor, session.session_id, "attachment", {"attachment": {"type": "hook", "content": hook_text}}
                )
    return tuple(map(TextBlock, texts))


PLANNING_NOTICES = {
    "mode": (
        "Plan mode is on: nothing may be changed. Read files, and run commands that only read. When the plan is"
        ' complete, call ExitPlanMode: Call {"tool": "ExitPlanMode", "input": {"plan": "…"}}. The user is asked to'
        " approve it, and with that approval plan mode ends."
    ),
    "phase": (
        "The conversation is in the phase planning: until a plan is approved, Write, Edit, NotebookEdit, Delete and"
        " Bash are refused. Explore with Read, Grep and Glob, then give the plan, with its success criteria:"
        ' Call {"tool": "ExitPlanMode", "input": {"plan": "…"}}.'
    ),
    "": "Plan mode is off: files may be changed and commands run again, as far as the permissions allow.",
}


def planning_notice(session: Session, *, opens: bool = False) -> str:
    """The notice for the model if plan mode or the planning phase changed since the last notice; else empty.

    Within a turn only the model's own tools change the phase, and their results say so.
    """
    if session.depth:
        return ""
    if opens and session.environment.policy.mode != "plan":
        session.state.last_work_mode = session.environment.policy.mode
    workflow = session.environment.planning()
    in_phase = workflow.phase == "planning" and not workflow.plan_approved
    now = "phase" if in_phase else "mode" if session.environment.policy.mode == "plan" else ""
    before, session.state.planning = session.state.planning, now
    silent = now == before or (not opens and "phase" in (now, before))
    return "" if silent else PLANNING_NOTICES[now]


async def run_start_hooks(session: Session) -> None:
    """Run the Setup and SessionStart hooks once. Their output is sent with the user's first message."""
    source, session.start_source = session.start_source, ""
    if not source or session.depth:
        return
    trigger, session.setup_trigger = session.setup_trigger, ""
    if trigger:
        _apply_hook_output(session, "Setup", await session.fire("Setup", {"trigger": trigger}))
    merged = await session.fire("SessionStart", {"source": source, "model": session.model})
    _apply_hook_output(session, "SessionStart", merged)
    watch_from_hook(session, merged)
    if first := merged.specific.get("initialUserMessage"):
        session.state.due_texts.insert(0, str(first))


async def stop_background_hooks(session: Session) -> None:
    """Cancel the hooks that still run in the background, before anything that they use is closed."""
    hooks = set(session.state.background_hooks)
    for task in hooks:
        task.cancel()
    if hooks:
        await asyncio.wait(hooks)


async def run_end_hooks(session: Session) -> None:
    """Run the SessionEnd hooks once, if the session began."""
    await stop_background_hooks(session)
    reason, session.end_reason = session.end_reason, ""
    if reason and not session.start_source:
        await session.fire("SessionEnd", {"reason": reason})


async def run_submit_hooks(session: Session, message: str) -> str | None:
    """Run the UserPromptSubmit hooks; the reason if they refuse the message, which is then not stored."""
    if session.depth or not session.hooks:
        return None
    await run_start_hooks(session)
    await check_settings_files(session)
    merged = await session.fire("UserPromptSubmit", {"prompt": message})
    if merged.blocked:
        return merged.reason
    if merged.stop is not None:
        return merged.stop or "a UserPromptSubmit hook ended the turn"
    _apply_hook_output(session, "UserPromptSubmit", merged)
    return None


async def run_stop_hooks(session: Session, text: str, blocks: int) -> str | None:
    """Run the Stop hooks and judge the goal; the message for the model if it has to continue."""
    if session.depth or not ("Stop" in session.hooks or session.state.goal) or session.environment.stopped():
        return None
    fields = {"stop_hook_active": blocks > 0, "last_assistant_message": text}
    merged = await session.fire("Stop", fields)
    if session.state.goal and not merged.blocked and merged.stop is None:
        from adderclaw.agent.loop import goals

        merged = await session.fire(GOAL, fields)
        if goals.REACHED in merged.specific:
            goals.clear_reached_goal(session)
    if not merged.blocked or merged.stop is not None:
        return None
    if blocks >= STOP_BLOCKS:
        message = f"a Stop hook blocked {STOP_BLOCKS} times in a row; the turn ends anyway"
        session.bus.publish({"event_type": "warning", "message": message})
        return None
    return hook_text("Stop", [merged.reason])


async def run_batch_hooks(session: Session, calls: tuple[ToolCall, ...], results: Sequence[Block]) -> str | None:
    """Run the PostToolBatch hooks after all calls of a reply; the reason if they end the turn."""
    if "PostToolBatch" not in session.hooks or session.environment.stopped():
        return None
    ended = {block.tool_use_id: block.content for block in results if isinstance(block, ToolResultBlock)}
    listed = [
        {"tool_name": call.name, "tool_input": call.input, "tool_use_id": call.id, "tool_response": ended[call.id]}
        for call in calls
    ]
    merged = await session.fire("PostToolBatch", {"tool_calls": listed})
    _apply_hook_output(session, "PostToolBatch", merged)
    return merged.reason if merged.blocked else merged.stop


async def run_failure_hooks(session: Session, error: str, details: str, text: str) -> None:
    """Run the StopFailure hooks after a model call failed and ended the turn."""
    if session.depth or "StopFailure" not in session.hooks:
        return
    fields = {"error": error, "error_details": details}
    await session.fire("StopFailure", fields | ({"last_assistant_message": text} if text else {}))


# ------------------------------------------------------------------ commands of a person


def model_switch_fields(before: str, after: str, requested: str) -> Json:
    """The fields of a model switch, for hooks."""
    return {"from_model": before, "to_model": after, "requested_model": requested, "source": "command"}


async def run_before_switch_hooks(session: Session, change: Json) -> str | None:
    """Run the PreModelSwitch hooks; the reason if they refuse the switch."""
    merged = await session.fire("PreModelSwitch", change)
    if merged.blocked:
        return merged.reason
    return merged.verdict_reason if merged.verdict == "deny" else None


async def run_after_switch_hooks(session: Session, change: Json) -> None:
    """Run the PostModelSwitch hooks. Their output is sent with the user's next message."""
    _apply_hook_output(session, "PostModelSwitch", await session.fire("PostModelSwitch", change))


async def run_expansion_hooks(session: Session, fields: Json) -> str | None:
    """Run the UserPromptExpansion hooks before a skill or a server's prompt is sent; the reason if they refuse it."""
    merged = await session.fire("UserPromptExpansion", fields)
    if merged.blocked or merged.stop is not None:
        return merged.reason or merged.stop or "a UserPromptExpansion hook blocked it"
    _apply_hook_output(session, "UserPromptExpansion", merged)
    return None


async def run_skill_expansion_hooks(session: Session, name: str, arguments: str, source: str) -> str | None:
    """Run the UserPromptExpansion hooks for a skill that a person calls by its name."""
    fields: Json = {
        "expansion_type": "slash_command",
        "command_name": name,
        "command_args": arguments,
        "command_source": source,
        "prompt": f"/{name} {arguments}".strip(),
    }
    return await run_expansion_hooks(session, fields)


async def run_directory_added_hooks(session: Session, directory: str) -> None:
    """Run the DirectoryAdded hooks after a person added a directory to the session."""
    await session.fire("DirectoryAdded", {"directory": directory, "source": "slash_command"})


async def text_to_display(session: Session, text: str) -> str:
    """The text that a person is shown for an answer: MessageDisplay hooks may replace it. The stored answer stays.

    Anything with the shape of a secret is removed.
    """
    if "MessageDisplay" not in session.hooks or not text:
        return session.secrets.redact(text)
    from adderclaw.storage import turns

    turn = session.state.turn_id or turns.last_turn(session.store, session.session_id)
    ids: Json = {"turn_id": turn, "message_id": session.ids("message")}
    merged = await session.fire("MessageDisplay", {**ids, "index": 0, "final": True, "delta": text})
    return session.secrets.redact(str(merged.specific.get("displayContent", text)))


# ------------------------------------------------------------------ settings that change while a session runs


async def check_settings_files(session: Session) -> None:
    """Run the ConfigChange hooks for changed settings files. The changes apply from the next session on."""
    if "ConfigChange" not in session.hooks:
        return
    for path, (source, before) in session.settings_files.items():
        now = file_stamp(path)
        if now == before:
            continue
        session.settings_files[path] = (source, now)
        merged = await session.fire("ConfigChange", {"source": source, "file_path": path})
        blocked = f"; a hook objects: {merged.reason}" if merged.blocked else ""
        counts = "an added or removed skill" if source == "skills" else "that"
        message = f"{path} has changed; {counts} applies from the next session on{blocked}"
        session.bus.publish({"event_type": "warning", "message": message})


def file_stamp(path: str) -> tuple[int, int] | None:
    """A file's modification time and size; None if it does not exist."""
    status = workspace.stat_target(path)
    return None if status is None else (status.st_mtime_ns, status.st_size)


# ------------------------------------------------------------------ watched files

MAX_PATHS = 1000
"""The maximum number of watched paths."""


def watch_paths(session: Session, paths: Iterable[str]) -> None:
    """Watch these paths from now on; relative ones start at the shell's directory."""
    cwd = session.environment.context.workspace.cwd
    for relative in paths:
        path = os.path.normpath(os.path.join(cwd, os.path.expanduser(relative)))
        if len(session.state.watched_paths) < MAX_PATHS and "\0" not in path:
            session.state.watched_paths.setdefault(path, path_stamp(path))


def watch_from_hook(session: Session, merged: HookOutcome) -> None:
    """Watch the paths that a hook's answer names."""
    hook_paths = merged.specific.get("watchPaths")
    if isinstance(hook_paths, list):
        watch_paths(session, [path for path in cast(list[Any], hook_paths) if isinstance(path, str)])


async def check_watched_files(session: Session) -> None:
    """Run the hooks for files and directories that changed since the last check."""
    if not session.hooks:
        return
    cwd = session.environment.context.workspace.cwd
    old, session.state.watched_from = session.state.watched_from or session.environment.context.workspace.root, cwd
    if old != cwd:
        watch_from_hook(session, await session.fire("CwdChanged", {"old_cwd": old, "new_cwd": cwd}))
    for path, before in list(session.state.watched_paths.items()):
        now = path_stamp(path)
        if now == before:
            continue
        session.state.watched_paths[path] = now
        event = "add" if before is None else "unlink" if now is None else "change"
        watch_from_hook(session, await session.fire("FileChanged", {"file_path": path, "event": event}))


def path_stamp(path: str) -> tuple[int, int, int] | None:
    """A file's inode, modification time and size; None if it does not exist."""
    status = workspace.stat_target(path)
    return None if status is None else (status.st_ino, status.st_mtime_ns, status.st_size)
