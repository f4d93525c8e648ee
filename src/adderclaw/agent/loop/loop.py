"""The one turn loop: ask the model, live its calls, until it answers."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import zip_longest
from sqlite3 import Cursor
from typing import TYPE_CHECKING

from adderclaw.agent.loop import compaction, lifecycle, model_call, resume
from adderclaw.agent.session import file_watch, instructions
from adderclaw.agent.session.prompt import Prompt
from adderclaw.agent.session.session import ALONE, Attached, Session, TurnResult
from adderclaw.agent.tool_call.batch import Batch
from adderclaw.agent.tool_call.call import limit_of, run_call
from adderclaw.agent.tool_call.hooks import CallRecord, Keep
from adderclaw.agent.tool_call.result import Done
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


def silent(_delta: Delta) -> None:
    """Nobody watches the answer arrive."""


class _Turn:
    """What one turn keeps in mind: last text, whether a denial still stands, whether a call ended it."""

    def __init__(self, *, single: bool) -> None:
        self.single = single
        self.text = ""
        self.cut: str | None = None
        """The text so far of an answer that was cut off, while it is."""
        self.denied = ""
        self.unanswered = ""
        self.ended = False
        self.halted: str | None = None
        self.sent_back = 0

    def heard(self, text: str, *, cut: bool, scrub: Callable[[str], str]) -> None:
        """The text of one reply; after one that was cut off it is the rest of the answer."""
        before, self.cut = self.cut, None
        if before is not None:  # a secret may lie across the cut
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
    on_delta: OnDelta = silent,
    *,
    single: bool = False,
    attached: Attached = ALONE,
) -> TurnResult:
    """From a user's message to the final answer. Without a message an interrupted turn goes on.

    A `single` turn is a driver's own: the message is not a person's, and it ends with the model's first reply.
    """
    session.tape.turn(session, message, single=single, attached=attached)
    session.bus.publish(_begins(session, message))
    outcome = ""
    try:
        result = await _turn(session, message, on_delta, attached, single=single)
        outcome = result.outcome
        return result
    finally:
        session.scene.in_force.take_back()
        session.bus.publish({"event_type": "turn_finished", "outcome": outcome})
        session.tape.ended(outcome)


def _begins(session: Session, message: str | None) -> "TurnStarted":
    """What is told of the message is what is told of an answer."""
    if message is None:
        return {"event_type": "turn_started"}
    told = session.config.telemetry.include_content and session.config.telemetry.enabled
    return {"event_type": "turn_started", "text": message if told else f"{len(message)} characters"}


async def _turn(
    session: Session, message: str | None, on_delta: OnDelta, attached: Attached, *, single: bool
) -> TurnResult:
    turn = _Turn(single=single)
    before = len(session.state.history.messages)
    prompt = session.prompt.without_tools(STOP_NOTE) if session.scene.stopped() else session.prompt
    notices = (session.overseer.interrupted_calls_notice(), lifecycle.planning_notice(session, opens=True))
    if told := session.tape.notice("\n".join(filter(None, notices))):
        session.state.due.append(notice(told))
    try:
        if message is not None:
            session.state.rounds = 0
            if not single and (refused := await lifecycle.submitted(session, message)) is not None:
                return TurnResult("denied", "", f"a hook refused the message: {refused}", ended_by="hook")
            append_user_message(session, message, attached, opens=True)
        elif session.hooks:
            await lifecycle.begin(session)
        if message is None and (finished := _already_answered(session)) is not None:
            return TurnResult("completed", finished)
        if message is None:
            turn.cut = _cut_before(session.state.history.messages)
        if message is None and (spent := _rounds_used(session)) is not None:
            raise spent
        if (
            message is None
            and not session.state.unfinished
            and (said := (*lifecycle.due(session), *finished_background_tasks(session)))
        ):
            session.state.history.append(Message("user", said))
        if message is None and not session.state.history.messages:
            raise UsageError("this conversation has no message yet: begin with one, such as -m TEXT")
        await file_watch.check_watched_files(session)
        await _announce(session)
        return await _go_on(session, turn, prompt, on_delta)
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
        _note_failure(session, error)
        await lifecycle.failed(session, error.stop_failure, str(error), turn.text)
        if error.kind == "max_output_tokens":
            session.bus.publish({"event_type": "limit_reached", "reason": str(error)})
            return TurnResult("limit", turn.text, str(error), ended_by="reply")
        return TurnResult("error", turn.text, error.summary, ended_by=error.kind)
    finally:
        kept = max(len(session.state.history.messages) - before, 0)
        session.bus.publish(
            {"event_type": "memory_persisted", "conversation_id": session.conversation_id, "entries": kept}
        )


async def _go_on(session: Session, turn: _Turn, prompt: Prompt, on_delta: OnDelta) -> TurnResult:
    pending = session.state.unfinished
    session.state.unfinished = ()
    while True:
        if not pending:
            pending = await _step(session, turn, prompt, on_delta)
            if turn.cut is not None:
                continue
        if not pending and not turn.single and (await _waited(session) or await _sent_back(session, turn)):
            continue
        if not pending:
            outcome = "denied" if turn.denied else "needs_input" if turn.unanswered else "completed"
            return TurnResult(outcome, turn.text, turn.denied or turn.unanswered)
        spent = await run_tool_calls(session, turn, pending, _rounds_used(session))
        pending = ()
        if spent is not None:
            raise spent
        if session.scene.stopped():
            raise Stopped("the emergency stop was set; `adderclaw estop --clear` removes it")
        if turn.halted is not None:
            why = f"a hook ended the turn: {turn.halted}".removesuffix(": ")
            return TurnResult("denied", turn.text, why, ended_by="hook")
        if turn.ended or turn.single:
            return TurnResult("completed", turn.text)
        session.state.loops.require_change()


async def _sent_back(session: Session, turn: _Turn) -> bool:
    """Whether a Stop hook sends the model back to work."""
    reason = await lifecycle.stopping(session, turn.text, turn.sent_back)
    if reason is None:
        return False
    turn.sent_back += 1
    append_user_message(session, reason)
    return True


def _rounds_used(session: Session) -> LimitError | None:
    allowed = session.config.runtime.max_tool_rounds
    if session.state.rounds <= allowed:
        return None
    used = f"{allowed} rounds of tool calls are used up"
    if session.depth:
        return LimitError(f"{used} (subagents.max_tool_rounds)", "child_rounds")
    return LimitError(f"{used} (runtime.max_tool_rounds)", "rounds")


# ------------------------------------------------------------------ one step


async def _step(session: Session, turn: _Turn, prompt: Prompt, on_delta: OnDelta) -> tuple[ToolCall, ...]:
    """One model call: its reply is committed before anything of it is done."""
    reply = await _ask(session, prompt, on_delta, goes_on=turn.cut is not None)
    response = _scrubbed(session, reply.response)
    text = response.final_text
    cut = response.stop_reason == "max_tokens" and not response.tool_calls
    blocks: list[Block] = [*response.opaque]
    if text:
        blocks.append(TextBlock(text))
    blocks += [ToolUseBlock(call) for call in response.tool_calls]
    message = Message("assistant", tuple(blocks))
    step = session.budget.steps

    def rows(cursor: Cursor) -> None:
        sequence = keep_message(session, cursor, message) if blocks else None  # nothing may be left to say after a cut
        kept = _response_json(text, response.tool_calls, response.stop_reason)
        model_call.keep(session, cursor, reply, step, kept, sequence)

    session.state.rounds += bool(response.tool_calls)
    # With the first call's intent, or at once where there is none: in any case before anything is done.
    session.store.soon(rows)
    if not response.tool_calls and not cut:
        try:
            session.store.flush()
        except StoreError:
            turn.heard(text, cut=False, scrub=session.secrets.scrub)  # it was paid for: show it all the same
            raise
    if blocks:
        session.state.history.append(message)
    if cut:
        _ask_for_the_rest(session)
    turn.heard(text, cut=cut, scrub=session.secrets.scrub)
    return response.tool_calls


def _ask_for_the_rest(session: Session) -> None:
    """In the transaction of the reply itself, so that nobody who resumes takes a part for the answer."""
    with session.store.write() as cursor:
        attachment: Json = {"type": "cut_off", "content": CUT_NOTE}
        transcript.append(cursor, session.session_id, "attachment", {"attachment": attachment})
    session.state.history.append(Message("user", (TextBlock(CUT_NOTE),)))


def _cut_before(messages: Sequence[Message]) -> str | None:
    """What came so far of an answer that was cut off; None where the last message asks for no rest."""
    parts: list[str] = []
    for note, reply in zip(messages[::-2], messages[-2::-2], strict=False):
        if reply.role != "assistant" or not any(getattr(block, "text", "") == CUT_NOTE for block in note.blocks):
            break
        parts.append(reply.text)
    return "".join(reversed(parts)) if parts else None


def _scrubbed(session: Session, response: ChatResponse) -> ChatResponse:
    """A model that repeats a key is not to bring it into the store: in no field of its answer."""
    scrub = session.secrets.scrub_all
    made = [ToolCall(*scrub([call.id, call.name, call.arguments, call.raw])) for call in response.tool_calls]
    if made and response.stop_reason == "max_tokens":
        made[-1] = replace(made[-1], cut=True)
    # what is signed cannot be changed, only left out
    opaque = [block for block in response.opaque if scrub(block.payload) == block.payload]
    return replace(response, final_text=scrub(response.final_text), tool_calls=tuple(made), opaque=tuple(opaque))


async def _ask(session: Session, prompt: Prompt, on_delta: OnDelta, *, goes_on: bool) -> model_call.Reply:
    """Ask, compacting before the window is full, and once when the provider says that it is."""
    if compaction.due(session, len(prompt.head)):
        await compaction.compact(session, "auto")
    try:
        return await model_call.ask(session, prompt, on_delta, goes_on=goes_on)
    except ProviderError as error:
        if error.kind != "context_overflow" or not await compaction.compact(session, "auto", overflowed=True):
            raise
    return await model_call.ask(session, prompt, on_delta, goes_on=goes_on)


def _response_json(text: str, tool_calls: tuple[ToolCall, ...], stop_reason: str) -> Json:
    made = [{"id": call.id, "name": call.name, "arguments": call.arguments, "raw": call.raw} for call in tool_calls]
    return {"text": text, "tool_calls": made, "stop_reason": stop_reason}


def keep_message(session: Session, cursor: Cursor, message: Message) -> int:
    """The message as rows: content blocks are the seed's closed set, the rest goes to our own table."""
    blocks: list[Json] = message_json(message)["blocks"]
    content = [block for block in blocks if block["type"] not in transcript.OPAQUE]
    payload: Json = {"uuid": session.ids("entry"), "content": content}
    sequence = transcript.append(cursor, session.session_id, message.role, payload)
    if len(content) < len(blocks):
        opaque = [block for block in blocks if block["type"] in transcript.OPAQUE]
        transcript.keep_opaque(cursor, session.session_id, sequence, opaque)
    return sequence


async def run_tool_calls(
    session: Session, turn: _Turn, pending: tuple[ToolCall, ...], refusal: LimitError | None
) -> LimitError | None:
    """Run the calls of one reply; then the model hears all results at once, in order. Says which limit was hit."""
    results: list[Block] = [*session.state.answered]
    session.state.answered = ()
    batch = Batch(session)
    try:
        for call in pending:
            refusal = refusal or limit_of(session)
            await batch.add(call, None if refusal is None else str(refusal))
        await batch.run()
    except BaseException as error:
        interrupted = isinstance(error, asyncio.CancelledError)
        for call, life in zip_longest(pending, batch.lives):
            results.append(_cut_short(session, call, life, interrupted=interrupted))
        session.state.history.append(Message("user", tuple(results)))
        raise
    for call, done in zip(pending, batch.done, strict=True):
        if done.denied:
            turn.denied = done.result.content
        elif done.result.unanswered:
            turn.unanswered = done.result.content
        elif not done.result.is_error:
            turn.denied = turn.unanswered = ""
        turn.ended = turn.ended or done.result.ends
        turn.halted = done.stop if turn.halted is None else turn.halted
        results.append(_block(call, done.result))
    stop = await lifecycle.batch(session, pending, results)
    turn.halted = stop if turn.halted is None else turn.halted
    await file_watch.check_watched_files(session)
    await lifecycle.look_at_settings(session)
    if told := session.tape.notice(lifecycle.planning_notice(session)):
        session.state.due.append(notice(told))
    session.state.history.append(
        Message(
            "user", (*results, *await _nested(session), *lifecycle.due(session), *finished_background_tasks(session))
        )
    )
    return refusal


def _block(call: ToolCall, result: ToolResult) -> ToolResultBlock:
    return ToolResultBlock(call.id, result.content, result.is_error, result.media, result.frame)


async def run_planned_call(
    session: Session, call: ToolCall, keep: Keep, *, again: bool = False, seconds: float | None = None
) -> Done:
    """Run a call that a driver planned, from what the model decided or from a file; it is stored like a model's own.

    `again`: an earlier process stored it, and it never began.
    """
    if not again:
        message = Message("assistant", (ToolUseBlock(call),))
        with session.store.write() as cursor:
            keep_message(session, cursor, message)
        session.state.history.append(message)
    limit = limit_of(session)
    refusal = str(limit) if limit else None
    done = await run_call(session, call, refusal=refusal, keep=None if limit else keep, seconds=seconds)
    session.state.history.append(Message("user", (_block(call, done.result),)))
    if limit is not None:
        raise limit
    session.state.loops.require_change()
    return done


def _cut_short(session: Session, call: ToolCall, life: CallRecord | None, *, interrupted: bool) -> ToolResultBlock:
    """The answer to a call of a turn that did not go on: the model is owed one for each, the same as is recorded."""
    if life is not None and life.done is not None:
        return _block(call, life.done.result)
    if life is not None and life.begun:
        return ToolResultBlock(call.id, resume.UNKNOWN, is_error=True)
    if interrupted:
        return resume.close_unbegun(session, call)
    return ToolResultBlock(call.id, resume.NOT_RUN, is_error=True)


# ------------------------------------------------------------------ what is heard and noted


def append_user_message(session: Session, text: str, attached: Attached = ALONE, *, opens: bool = False) -> None:
    """The user's message, and with it what hooks have to say. It opens a turn, unless a hook sends the model back."""
    texts, session.state.due = (text, *attached.texts, *session.state.due), []
    said = (*attached.media, *(TextBlock(session.secrets.scrub(part)) for part in texts))
    news = finished_background_tasks(session)
    with session.store.write() as cursor:
        sequence = keep_message(session, cursor, Message("user", said))
        if opens:
            session.state.turn_id = session.ids("turn")
            transcript.open_turn(cursor, session.session_id, sequence, session.state.turn_id)
    if session.checkpoints is not None and not session.agent_id:
        session.checkpoints.turn = (session.conversation_id, session.session_id, sequence)
    session.state.history.append(Message("user", (*news, *said)))


async def _nested(session: Session) -> tuple[TextBlock, ...]:
    """Instruction files beside what was just read: told at the end, so that what stands before them stays the same."""
    if session.instructions is None:
        return ()
    found = session.instructions.nested(session.scene.context.files_read)
    if not found:
        return ()
    session.tape.nested(found)
    text = session.secrets.scrub(instructions.told(found))
    with session.store.write() as cursor:
        attachment: Json = {"type": "instructions", "files": [file.path for file in found], "content": text}
        transcript.append(cursor, session.session_id, "attachment", {"attachment": attachment})
    await _announce(session)
    return (TextBlock(text),)


async def _announce(session: Session) -> None:
    """Tell the hooks of instruction files that were loaded since the last time."""
    if session.instructions is None:
        return
    waiting, session.instructions.unannounced = session.instructions.unannounced, []
    for file in waiting:
        await session.fire("InstructionsLoaded", file.fields())


def finished_background_tasks(session: Session) -> tuple[TextBlock, ...]:
    """What ended in the background since the model last heard: an entry each, and the text for it."""
    background = session.scene.background
    ended = [*session.state.lost, *(background.finished() if background is not None else ())]
    if not ended:
        return ()
    session.state.lost = ()
    told = [_of_end(session, end) for end in ended]
    session.tape.news(told)
    with session.store.write() as cursor:
        for end in told:
            attachment: Json = {"type": "background_task", "task_id": end.task_id, "status": end.status}
            attachment["content"] = end.text
            transcript.append(cursor, session.session_id, "attachment", {"attachment": attachment})
            tasks.tell(cursor, end.task_id)
    return tuple(TextBlock(end.text) for end in told)


def _of_end(session: Session, end: TaskEnd) -> TaskEnd:
    """As the model is told of it; what the task itself says is framed like any result."""
    text, result = session.secrets.scrub(end.text), session.secrets.scrub(end.result)
    if result:
        text += f"\n{framed(session.ids('news').rpartition('-')[2], result)}"
    return end._replace(text=text, result="")


async def _waited(session: Session) -> bool:
    """The answer waits for a background task that it depends on; then the model hears of it and goes on."""
    background = session.scene.background
    if background is None:
        return False
    how = "ended"
    try:
        async with asyncio.timeout(session.budget.seconds_left):
            if not await background.wait_for_needed():
                return False
    except TimeoutError:
        how = "timeout"
    session.tape.waited(how)
    if how == "timeout":
        raise LimitError("the time of this run is used up while a background task goes on", "seconds")
    if session.scene.stopped():
        raise Stopped("the emergency stop was set; `adderclaw estop --clear` removes it")
    if news := finished_background_tasks(session):
        session.state.history.append(Message("user", news))
    return bool(news)


def _already_answered(session: Session) -> str | None:
    """The answer of a turn that had ended before it was interrupted."""
    last = session.state.history.messages[-1] if session.state.history.messages else None
    if last is None or session.state.unfinished or last.role != "assistant":
        return None
    return session.secrets.scrub((_cut_before(session.state.history.messages[:-1]) or "") + last.text)


def _note_failure(session: Session, error: ProviderError) -> None:
    """A failed call is a row, and a record of the StopFailure class; a reply that was cut off has its row."""
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
        session.keep_spent(cursor)
