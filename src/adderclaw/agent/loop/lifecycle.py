"""The events of a session's life at which hooks may speak, beside its tool calls."""

import asyncio
from collections.abc import Sequence

from adderclaw.agent.session import file_watch
from adderclaw.agent.session.session import Session, told
from adderclaw.core.hook_outcome import HookOutcome
from adderclaw.core.types import Block, Json, TextBlock, ToolCall, ToolResultBlock
from adderclaw.sandbox import workspace
from adderclaw.storage import transcript

GOAL = "Goal"
"""The chain that judges a goal. Every session has it and asks it while there is one: no set of hooks changes."""
STOP_BLOCKS = 8
"""How often in a row a Stop hook may send the model back to work."""


def _apply_hook_output(session: Session, event: str, merged: HookOutcome) -> None:
    if merged.context:
        session.state.due.append(told(event, merged.context))


def due(session: Session) -> tuple[TextBlock, ...]:
    """What hooks have to say to the model when no message of the user comes to say it with."""
    texts, session.state.due = [session.secrets.scrub(text) for text in session.state.due], []
    if texts:
        with session.store.write() as cursor:
            for said in texts:
                transcript.append(
                    cursor, session.session_id, "attachment", {"attachment": {"type": "hook", "content": said}}
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
    """What the model is told when plan mode or the phase planning began or ended since it was last told.

    Within a turn only the tools of the model change the phase, and their results say so.
    """
    if session.depth:
        return ""
    if opens and session.scene.policy.mode != "plan":
        session.state.worked_in = session.scene.policy.mode
    stands = session.scene.planning()
    in_phase = stands.phase == "planning" and not stands.plan_approved
    now = "phase" if in_phase else "mode" if session.scene.policy.mode == "plan" else ""
    before, session.state.planning = session.state.planning, now
    silent = now == before or (not opens and "phase" in (now, before))
    return "" if silent else PLANNING_NOTICES[now]


async def begin(session: Session) -> None:
    """Setup and SessionStart, once: what their hooks say goes to the model with the user's first message."""
    source, session.began = session.began, ""
    if not source or session.depth:
        return
    trigger, session.setup = session.setup, ""
    if trigger:
        _apply_hook_output(session, "Setup", await session.fire("Setup", {"trigger": trigger}))
    merged = await session.fire("SessionStart", {"source": source, "model": session.model})
    _apply_hook_output(session, "SessionStart", merged)
    file_watch.heard(session, merged)
    if first := merged.specific.get("initialUserMessage"):
        session.state.due.insert(0, str(first))


async def stop_background_hooks(session: Session) -> None:
    """What hooks still do beside the turn ends, before anything that they use is closed."""
    beside = set(session.state.beside)
    for task in beside:
        task.cancel()
    if beside:
        await asyncio.wait(beside)


async def end(session: Session) -> None:
    """SessionEnd, once, of a session that began."""
    await stop_background_hooks(session)
    reason, session.ends_with = session.ends_with, ""
    if reason and not session.began:
        await session.fire("SessionEnd", {"reason": reason})


async def submitted(session: Session, message: str) -> str | None:
    """UserPromptSubmit: why the message is refused, if it is; then it leaves no trace in the conversation."""
    if session.depth or not session.hooks:
        return None
    await begin(session)
    await look_at_settings(session)
    merged = await session.fire("UserPromptSubmit", {"prompt": message})
    if merged.blocked:
        return merged.reason
    if merged.stop is not None:
        return merged.stop or "a UserPromptSubmit hook ended the turn"
    _apply_hook_output(session, "UserPromptSubmit", merged)
    return None


async def stopping(session: Session, text: str, blocks: int) -> str | None:
    """Stop: what sends the model back to work, if anything does."""
    if session.depth or not ("Stop" in session.hooks or session.state.goal) or session.scene.stopped():
        return None
    fields = {"stop_hook_active": blocks > 0, "last_assistant_message": text}
    merged = await session.fire("Stop", fields)
    if session.state.goal and not merged.blocked and merged.stop is None:
        from adderclaw.agent.loop import goals

        merged = await session.fire(GOAL, fields)
        if goals.REACHED in merged.specific:
            goals.over(session)
    if not merged.blocked or merged.stop is not None:
        return None
    if blocks >= STOP_BLOCKS:
        message = f"a Stop hook blocked {STOP_BLOCKS} times in a row: the turn ends all the same"
        session.bus.publish({"event_type": "warning", "message": message})
        return None
    return told("Stop", [merged.reason])


async def batch(session: Session, calls: tuple[ToolCall, ...], results: Sequence[Block]) -> str | None:
    """PostToolBatch: all calls of one reply have ended. Says why the turn ends, if it does."""
    if "PostToolBatch" not in session.hooks or session.scene.stopped():
        return None
    ended = {block.tool_use_id: block.content for block in results if isinstance(block, ToolResultBlock)}
    listed = [
        {"tool_name": call.name, "tool_input": call.input, "tool_use_id": call.id, "tool_response": ended[call.id]}
        for call in calls
    ]
    merged = await session.fire("PostToolBatch", {"tool_calls": listed})
    _apply_hook_output(session, "PostToolBatch", merged)
    return merged.reason if merged.blocked else merged.stop


async def failed(session: Session, error: str, details: str, text: str) -> None:
    """StopFailure: a model call failed, and with it the turn."""
    if session.depth or "StopFailure" not in session.hooks:
        return
    fields = {"error": error, "error_details": details}
    await session.fire("StopFailure", fields | ({"last_assistant_message": text} if text else {}))


# ------------------------------------------------------------------ what a person types


def switch(before: str, after: str, wanted: str) -> Json:
    """A change of the model, as hooks are told of it."""
    return {"from_model": before, "to_model": after, "requested_model": wanted, "source": "command"}


async def switching(session: Session, change: Json) -> str | None:
    """PreModelSwitch: why the model stays, if it does."""
    merged = await session.fire("PreModelSwitch", change)
    if merged.blocked:
        return merged.reason
    return merged.verdict_reason if merged.verdict == "deny" else None


async def switched(session: Session, change: Json) -> None:
    """PostModelSwitch: what its hooks say reaches the new model with the user's next message."""
    _apply_hook_output(session, "PostModelSwitch", await session.fire("PostModelSwitch", change))


async def expanded(session: Session, fields: Json) -> str | None:
    """UserPromptExpansion: a skill or a server's prompt stands for what was typed. Why it is not sent, if so."""
    merged = await session.fire("UserPromptExpansion", fields)
    if merged.blocked or merged.stop is not None:
        return merged.reason or merged.stop or "a UserPromptExpansion hook blocked it"
    _apply_hook_output(session, "UserPromptExpansion", merged)
    return None


async def skill_expanded(session: Session, name: str, arguments: str, source: str) -> str | None:
    """The same for a skill that a person calls by its name."""
    fields: Json = {
        "expansion_type": "slash_command",
        "command_name": name,
        "command_args": arguments,
        "command_source": source,
        "prompt": f"/{name} {arguments}".strip(),
    }
    return await expanded(session, fields)


async def added(session: Session, directory: str) -> None:
    """DirectoryAdded: the person let the session work in one more directory."""
    await session.fire("DirectoryAdded", {"directory": directory, "source": "slash_command"})


async def displayed(session: Session, text: str) -> str:
    """MessageDisplay: what a person is shown of an answer. It is asked once, of the whole; the answer itself stays.

    Nobody is shown what has the shape of a secret.
    """
    if "MessageDisplay" not in session.hooks or not text:
        return session.secrets.redact(text)
    from adderclaw.storage import turns

    turn = session.state.turn_id or turns.last(session.store, session.session_id)
    ids: Json = {"turn_id": turn, "message_id": session.ids("message")}
    merged = await session.fire("MessageDisplay", {**ids, "index": 0, "final": True, "delta": text})
    return session.secrets.redact(str(merged.specific.get("displayContent", text)))


# ------------------------------------------------------------------ settings that change while a session runs


async def look_at_settings(session: Session) -> None:
    """ConfigChange: the session keeps the settings that it began with; a changed file counts from the next one on."""
    if "ConfigChange" not in session.hooks:
        return
    for path, (source, before) in session.settings_files.items():
        now = stamp(path)
        if now == before:
            continue
        session.settings_files[path] = (source, now)
        merged = await session.fire("ConfigChange", {"source": source, "file_path": path})
        blocked = f"; a hook objects: {merged.reason}" if merged.blocked else ""
        counts = "a skill that came or went" if source == "skills" else "that"
        message = f"{path} has changed; {counts} counts from the next session on{blocked}"
        session.bus.publish({"event_type": "warning", "message": message})


def stamp(path: str) -> tuple[int, int] | None:
    """What a file looks like from outside; None where there is none."""
    status = workspace.reached(path)
    return None if status is None else (status.st_mtime_ns, status.st_size)
