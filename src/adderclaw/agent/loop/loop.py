"""The turn loop: calls the model and runs its tool calls until it returns a final answer."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import zip_longest
from sqlite3 import Cursor
from typing import TYPE_CHECKING

from adderclaw.agent.loop import compaction, lifecycle, model_call, resume
from adderclaw.agent.session import instructions
from adderclaw.agent.session.prompt import Prompt
from adderclaw.agent.session.session import NO_ATTACHMENTS, Attached, Session, TurnResult
from adderclaw.agent.tool_call.batch import Batch
from adderclaw.agent.tool_call.call import reached_limit, run_call
from adderclaw.agent.tool_call.result import CallRecord, FinishedCall, SaveOutcome
from adderclaw.core.errors import LimitError, ProviderError, Stopped, StoreError, UsageError
from adderclaw.core.framing import framed, notice
from adderclaw.core.history import message_json
from adderclaw.core.json_text import canonical
from adderclaw.core.types import (
    Block,
    ChatResponse,
    Delta,
    Json,
    Message,
    OnDelta,
    TaskEnd,
    TextBlock,
    ToolCall,
    ToolResult,
    ToolResultBlock,
    ToolUseBlock,
)
from adderclaw.storage import model_calls, tasks, transcript

if TYPE_CHECKING:
    from adderclaw.core.events.program import TurnStarted

STOP_NOTE = (
    "The emergency stop is set: no tool may run. Answer in text only, and say that `adderclaw estop --clear` lifts it."
)

CUT_NOTE = (
    "Your reply was cut off because it reached the limit on output tokens. "
    "Go on exactly where it stopped, without repeating anything."
)


def ignore_delta(_delta: Delta) -> None:
    """Ignore the parts of an answer, for a caller that shows only the whole."""


class _Turn:
    """The state of one turn: the last text, the last denial, and whether a call or a hook ended it."""

    def __init__(self, *, single: bool) -> None:
        self.single = single
        self.text = ""
        self.cut: str | None = None
        """The text so far of an answer that reached the token limit; None while no answer is incomplete."""
        self.denied = ""
        self.unanswered = ""
        self.ended = False
        self.halted: str | None = None
        self.sent_back = 0

    def add_reply_text(self, text: str, *, cut: bool, scrub: Callable[[str], str]) -> None:
        """Take the text of one reply. After a reply that was cut off, this is the rest of that answer."""
        before, self.cut = self.cut, None
        if before is not None:  # a secret may span the cut
            text = scrub(before + text)
        self.text = text or self.text
        if cut and before is not None:
            raise ProviderError(
                "max_output_tokens", f"the reply was cut off, and what followed it, too; {model_call.RAISE_LIMIT}"
            )
        self.cut = text if cut else None


async def run_turn(
    session: Session,
    message: str | None,
    on_delta: OnDelta = ignore_delta,
    *,
    single: bool = False,
    attached: Attached = NO_ATTACHMENTS,
) -> TurnResult:
    """Run one turn, from the user's message to the final answer. Without a message, continue an interrupted turn.

    A `single` turn belongs to a driver: a program wrote the message, and the turn ends with the first reply.
    """
    session.tape.begin_turn(session, message, single=single, attached=attached)
    session.bus.publish(_turn_started_event(session, message))
    outcome = ""
    try:
        result = await _turn(session, message, on_delta, attached, single=single)
        outcome = result.outcome
        return result
    finally:
        session.environment.active_policy.end_loans()
        session.bus.publish({"event_type": "turn_finished", "outcome": outcome})
        session.tape.end_turn(outcome)


def _turn_started_event(session: Session, message: str | None) -> "TurnStarted":
    """The event of a started turn. It contains the message only if the configuration allows content in events."""
    if message is None:
        return {"event_type": "turn_started"}
    with_content = session.config.telemetry.include_content and session.config.telemetry.enabled
    return {"event_type": "turn_started", "text": message if with_content else f"{len(message)} characters"}


async def _turn(
    session: Session, message: str | None, on_delta: OnDelta, attached: Attached, *, single: bool
) -> TurnResult:
    turn = _Turn(single=single)
    before = len(session.state.history.messages)
    prompt = session.prompt.without_tools(STOP_NOTE) if session.environment.stopped() else session.prompt
    notices = (session.supervisor.interrupted_calls_notice(), lifecycle.planning_notice(session, opens=True))
    if notice_text := session.tape.record_notice("\n".join(filter(None, notices))):
        session.state.due_texts.append(notice(notice_text))
    try:
        if message is not None:
            session.state.rounds = 0
            if not single and (refused := await lifecycle.run_submit_hooks(session, message)) is not None:
                return TurnResult("denied", "", f"a hook refused the message: {refused}", ended_by="hook")
            append_user_message(session, message, attached, opens=True)
        elif session.hooks:
            await lifecycle.run_start_hooks(session)
        if message is None and (finished := _finished_answer(session)) is not None:
            return TurnResult("completed", finished)
        if message is None:
            turn.cut = _text_before_cut(session.state.history.messages)
        if message is None and (spent := _round_limit(session)) is not None:
            raise spent
        if (
            message is None
            and not session.state.unfinished
            and (blocks := (*lifecycle.take_hook_texts(session), *finished_background_tasks(session)))
        ):
            session.state.history.append(Message("user", blocks))
        if message is None and not session.state.history.messages:
            raise UsageError("this conversation has no message yet: start with one, such as -m TEXT")
        await lifecycle.check_watched_files(session)
        await _announce_instructions(session)
        return await _run_steps(session, turn, prompt, on_delta)
    except LimitError as error:
        session.bus.publish({"event_type": "limit_reached", "reason": str(error)})
        return TurnResult("limit", turn.text, str(error), ended_by=error.by)
    except Stopped as error:
        session.bus.publish({"event_type": "estop_triggered", "reason": str(error)})
        return TurnResult("stopped", turn.text, str(error))
    except StoreError as error:
        if not turn.text:
            raise
        return TurnResult("error", turn.text, str(error))
    except ProviderError as error:
        _record_failure(session, error)
        await lifecycle.run_failure_hooks(session, error.stop_failure, str(error), turn.text)
        if error.kind == "max_output_tokens":
            session.bus.publish({"event_type": "limit_reached", "reason": str(error)})
            return TurnResult("limit", turn.text, str(error), ended_by="reply")
        return TurnResult("error", turn.text, error.summary, ended_by=error.kind)
    finally:
        added = max(len(session.state.history.messages) - before, 0)
        session.bus.publish(
            {"event_type": "memory_persisted", "conversation_id": session.conversation_id, "entries": added}
        )


async def _run_steps(session: Session, turn: _Turn, prompt: Prompt, on_delta: OnDelta) -> TurnResult:
    pending = session.state.unfinished
    session.state.unfinished = ()
    while True:
        if not pending:
            pending = await _call_model(session, turn, prompt, on_delta)
            if turn.cut is not None:
                continue
        if (
            not pending
            and not turn.single
            and (await _wait_for_background(session) or await _stop_hook_objects(session, turn))
        ):
            continue
        if not pending:
            outcome = "denied" if turn.denied else "needs_input" if turn.unanswered else "completed"
            return TurnResult(outcome, turn.text, turn.denied or turn.unanswered)
        spent = await run_tool_calls(session, turn, pending, _round_limit(session))
        pending = ()
        if spent is not None:
            raise spent
        if session.environment.stopped():
            raise Stopped("the emergency stop was set; `adderclaw estop --clear` removes it")
        if turn.halted is not None:
            why = f"a hook ended the turn: {turn.halted}".removesuffix(": ")
            return TurnResult("denied", turn.text, why, ended_by="hook")
        if turn.ended or turn.single:
            return TurnResult("completed", turn.text)
        session.state.loops.require_change()


async def _stop_hook_objects(session: Session, turn: _Turn) -> bool:
    """Run the Stop hooks; True if one of them makes the model continue."""
    reason = await lifecycle.run_stop_hooks(session, turn.text, turn.sent_back)
    if reason is None:
        return False
    turn.sent_back += 1
    append_user_message(session, reason)
    return True


def _round_limit(session: Session) -> LimitError | None:
    allowed = session.config.runtime.max_tool_rounds
    if session.state.rounds <= allowed:
        return None
    used = f"{allowed} rounds of tool calls are used up"
    if session.depth:
        return LimitError(f"{used} (subagents.max_tool_rounds)", "child_rounds")
    return LimitError(f"{used} (runtime.max_tool_rounds)", "rounds")


# ------------------------------------------------------------------ one step


async def _call_model(session: Session, turn: _Turn, prompt: Prompt, on_delta: OnDelta) -> tuple[ToolCall, ...]:
    """Call the model once. The reply is stored before any of its tool calls run."""
    reply = await _ask_model(session, prompt, on_delta, goes_on=turn.cut is not None)
    response = _scrub_response(session, reply.response)
    text = response.final_text
    cut = response.stop_reason == "max_tokens" and not response.tool_calls
    blocks: list[Block] = [*response.opaque]
    if text:
        blocks.append(TextBlock(text))
    blocks += [ToolUseBlock(call) for call in response.tool_calls]
    message = Message("assistant", tuple(blocks))
    step = session.budget.steps

    def rows(cursor: Cursor) -> None:
        sequence = store_message(session, cursor, message) if blocks else None  # the rest of a cut answer may be empty
        calls = [
            {"id": call.id, "name": call.name, "arguments": call.arguments, "raw": call.raw}
            for call in response.tool_calls
        ]
        response_json = {"text": text, "tool_calls": calls, "stop_reason": response.stop_reason}
        model_call.store_reply(session, cursor, reply, step, response_json, sequence)

    session.state.rounds += bool(response.tool_calls)
    # Committed with the first call's intent, or immediately if there is no call, and so always before anything runs.
    session.store.write_next(rows)
    if not response.tool_calls and not cut:
        try:
            session.store.flush()
        except StoreError:
            turn.add_reply_text(text, cut=False, scrub=session.secrets.scrub)  # shown anyway, because it was paid for
            raise
    if blocks:
        session.state.history.append(message)
    if cut:
        _ask_for_the_rest(session)
    turn.add_reply_text(text, cut=cut, scrub=session.secrets.scrub)
    return response.tool_calls


def _ask_for_the_rest(session: Session) -> None:
    """Store the request for the rest with the reply, so that a resumed run does not return the part as the answer."""
    with session.store.write() as cursor:
        attachment: Json = {"type": "cut_off", "content": CUT_NOTE}
        transcript.append(cursor, session.session_id, "attachment", {"attachment": attachment})
    session.state.history.append(Message("user", (TextBlock(CUT_NOTE),)))


def _text_before_cut(messages: Sequence[Message]) -> str | None:
    """The text so far of an answer that was cut off; None if the last message does not request the rest."""
    parts: list[str] = []
    for note, reply in zip(messages[::-2], messages[-2::-2], strict=False):
        if reply.role != "assistant" or not any(getattr(block, "text", "") == CUT_NOTE for block in note.blocks):
            break
        parts.append(reply.text)
    return "".join(reversed(parts)) if parts else None


def _scrub_response(session: Session, response: ChatResponse) -> ChatResponse:
    """Remove secrets from every field of the response, so that a key that the model repeats is not stored."""
    scrub = session.secrets.scrub_all
    calls = [ToolCall(*scrub([call.id, call.name, call.arguments, call.raw])) for call in response.tool_calls]
    if calls and response.stop_reason == "max_tokens":
        calls[-1] = replace(calls[-1], cut=True)
    # signed blocks cannot be changed, only dropped
    opaque = [block for block in response.opaque if scrub(block.payload) == block.payload]
    return replace(response, final_text=scrub(response.final_text), tool_calls=tuple(calls), opaque=tuple(opaque))


async def _ask_model(session: Session, prompt: Prompt, on_delta: OnDelta, *, goes_on: bool) -> model_call.Reply:
    """Ask the model. Compact the history before the window is full, and once if the provider says that it is full."""
    if compaction.is_due(session, len(prompt.head)):
        await compaction.compact(session, "auto")
    try:
        return await model_call.ask(session, prompt, on_delta, goes_on=goes_on)
    except ProviderError as error:
        if error.kind != "context_overflow" or not await compaction.compact(session, "auto", overflowed=True):
            raise
    return await model_call.ask(session, prompt, on_delta, goes_on=goes_on)


def store_message(session: Session, cursor: Cursor, message: Message) -> int:
    """Store the message: content blocks in the transcript entry, all others in the table for opaque blocks."""
    blocks: list[Json] = message_json(message)["blocks"]
    content = [block for block in blocks if block["type"] not in transcript.OPAQUE]
    payload: Json = {"uuid": session.ids("entry"), "content": content}
    sequence = transcript.append(cursor, session.session_id, message.role, payload)
    if len(content) < len(blocks):
        opaque = [block for block in blocks if block["type"] in transcript.OPAQUE]
        transcript.store_opaque(cursor, session.session_id, sequence, opaque)
    return sequence


async def run_tool_calls(
    session: Session, turn: _Turn, pending: tuple[ToolCall, ...], refusal: LimitError | None
) -> LimitError | None:
    """Run the tool calls of a reply and append all results as one message. Returns the limit that was hit, if any."""
    results: list[Block] = [*session.state.answered_blocks]
    session.state.answered_blocks = ()
    batch = Batch(session)
    try:
        for call in pending:
            refusal = refusal or reached_limit(session)
            await batch.add(call, None if refusal is None else str(refusal))
        await batch.run()
    except BaseException as error:
        interrupted = isinstance(error, asyncio.CancelledError)
        for call, record in zip_longest(pending, batch.records):
            results.append(_interrupted_result(session, call, record, interrupted=interrupted))
        session.state.history.append(Message("user", tuple(results)))
        raise
    for call, done in zip(pending, batch.finished, strict=True):
        if done.denied:
            turn.denied = done.result.content
        elif done.result.unanswered:
            turn.unanswered = done.result.content
        elif not done.result.is_error:
            turn.denied = turn.unanswered = ""
        turn.ended = turn.ended or done.result.ends
        turn.halted = done.stop if turn.halted is None else turn.halted
        results.append(_result_block(call, done.result))
    stop = await lifecycle.run_batch_hooks(session, pending, results)
    turn.halted = stop if turn.halted is None else turn.halted
    await lifecycle.check_watched_files(session)
    await lifecycle.check_settings_files(session)
    if notice_text := session.tape.record_notice(lifecycle.planning_notice(session)):
        session.state.due_texts.append(notice(notice_text))
    session.state.history.append(
        Message(
            "user",
            (
                *results,
                *await _load_nested_instructions(session),
                *lifecycle.take_hook_texts(session),
                *finished_background_tasks(session),
            ),
        )
    )
    return refusal


def _result_block(call: ToolCall, result: ToolResult) -> ToolResultBlock:
    return ToolResultBlock(call.id, result.content, result.is_error, result.media, result.frame)


async def run_planned_call(
    session: Session, call: ToolCall, keep: SaveOutcome, *, again: bool = False, seconds: float | None = None
) -> FinishedCall:
    """Run a call that a driver planned. It is stored like a call of the model.

    `again`: an earlier process stored the call, but never began it.
    """
    if not again:
        message = Message("assistant", (ToolUseBlock(call),))
        with session.store.write() as cursor:
            store_message(session, cursor, message)
        session.state.history.append(message)
    limit = reached_limit(session)
    refusal = str(limit) if limit else None
    done = await run_call(session, call, refusal=refusal, keep=None if limit else keep, seconds=seconds)
    session.state.history.append(Message("user", (_result_block(call, done.result),)))
    if limit is not None:
        raise limit
    session.state.loops.require_change()
    return done


def _interrupted_result(
    session: Session, call: ToolCall, record: CallRecord | None, *, interrupted: bool
) -> ToolResultBlock:
    """The result for a call of an interrupted turn, as it is recorded: providers require one result for each call."""
    if record is not None and record.finished is not None:
        return _result_block(call, record.finished.result)
    if record is not None and record.begun:
        return ToolResultBlock(call.id, resume.UNKNOWN, is_error=True)
    if interrupted:
        return resume.close_unbegun_call(session, call)
    return ToolResultBlock(call.id, resume.NOT_RUN, is_error=True)


# ------------------------------------------------------------------ messages to the model


def append_user_message(
    session: Session, text: str, attached: Attached = NO_ATTACHMENTS, *, opens: bool = False
) -> None:
    """Append the user's message and the pending texts of hooks. `opens`: the message begins a turn."""
    texts, session.state.due_texts = (text, *attached.texts, *session.state.due_texts), []
    blocks = (*attached.media, *(TextBlock(session.secrets.scrub(part)) for part in texts))
    news = finished_background_tasks(session)
    with session.store.write() as cursor:
        sequence = store_message(session, cursor, Message("user", blocks))
        if opens:
            session.state.turn_id = session.ids("turn")
            transcript.open_turn(cursor, session.session_id, sequence, session.state.turn_id)
    if session.checkpoints is not None and not session.agent_id:
        session.checkpoints.turn = (session.conversation_id, session.session_id, sequence)
    session.state.history.append(Message("user", (*news, *blocks)))


async def _load_nested_instructions(session: Session) -> tuple[TextBlock, ...]:
    """Load instruction files next to files that were just read. They are appended to preserve the prompt cache."""
    if session.instructions is None:
        return ()
    files = session.instructions.load_nested(session.environment.context.files_read)
    if not files:
        return ()
    session.tape.record_instructions(files)
    text = session.secrets.scrub(instructions.instructions_text(files))
    with session.store.write() as cursor:
        attachment: Json = {"type": "instructions", "files": [file.path for file in files], "content": text}
        transcript.append(cursor, session.session_id, "attachment", {"attachment": attachment})
    await _announce_instructions(session)
    return (TextBlock(text),)


async def _announce_instructions(session: Session) -> None:
    """Run the InstructionsLoaded hooks for the files that were loaded since the last call."""
    if session.instructions is None:
        return
    waiting, session.instructions.unannounced = session.instructions.unannounced, []
    for file in waiting:
        await session.fire("InstructionsLoaded", file.fields())


def finished_background_tasks(session: Session) -> tuple[TextBlock, ...]:
    """Store and return a text for each background task that ended since the last call."""
    background = session.environment.background
    ended = [*session.state.lost_tasks, *(background.finished() if background is not None else ())]
    if not ended:
        return ()
    session.state.lost_tasks = ()
    ends = [_task_end_for_model(session, end) for end in ended]
    session.tape.record_task_ends(ends)
    with session.store.write() as cursor:
        for end in ends:
            attachment: Json = {"type": "background_task", "task_id": end.task_id, "status": end.status}
            attachment["content"] = end.text
            transcript.append(cursor, session.session_id, "attachment", {"attachment": attachment})
            tasks.mark_reported(cursor, end.task_id)
    return tuple(TextBlock(end.text) for end in ends)


def _task_end_for_model(session: Session, end: TaskEnd) -> TaskEnd:
    """The end of a task as the model sees it: the task's own output is framed like any tool result."""
    text, result = session.secrets.scrub(end.text), session.secrets.scrub(end.result)
    if result:
        text += f"\n{framed(session.ids('news').rpartition('-')[2], result)}"
    return end._replace(text=text, result="")


async def _wait_for_background(session: Session) -> bool:
    """Wait for background tasks that the answer depends on; True if one ended, so that the model continues."""
    background = session.environment.background
    if background is None:
        return False
    how = "ended"
    try:
        async with asyncio.timeout(session.budget.seconds_left):
            if not await background.wait_for_needed():
                return False
    except TimeoutError:
        how = "timeout"
    session.tape.record_wait(how)
    if how == "timeout":
        raise LimitError("the run reached its time limit while a background task was still running", "seconds")
    if session.environment.stopped():
        raise Stopped("the emergency stop was set; `adderclaw estop --clear` removes it")
    if news := finished_background_tasks(session):
        session.state.history.append(Message("user", news))
    return bool(news)


def _finished_answer(session: Session) -> str | None:
    """The answer of an interrupted turn that was already complete; None otherwise."""
    last = session.state.history.messages[-1] if session.state.history.messages else None
    if last is None or session.state.unfinished or last.role != "assistant":
        return None
    return session.secrets.scrub((_text_before_cut(session.state.history.messages[:-1]) or "") + last.text)


def _record_failure(session: Session, error: ProviderError) -> None:
    """Store a StopFailure event and, if a request was sent, a row for the failed model call."""
    detail = canonical({"error": error.stop_failure, "error_details": str(error)})
    with session.store.write() as cursor:
        cursor.execute(
            "INSERT INTO events(conversation_id, session_id, event_type, detail) VALUES (?, ?, 'StopFailure', ?)",
            (session.conversation_id, session.session_id, session.secrets.clean(detail)),
        )
        if not error.attempts:
            return
        model_calls.record(
            cursor,
            session_id=session.session_id,
            step=session.budget.steps + 1,
            provider=error.provider or session.provider.name,
            model=session.model,
            request_hash=error.request_hash,
            response=None,
            usage={},
            attempts=error.attempts,
            latency_ms=0.0,
            status="failed",
            error=f"{error.kind}: {error}",
            run_id=session.bus.run_id,
        )
        session.store_spent(cursor)
