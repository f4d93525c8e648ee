"""Runs the hooks of one event in order: each is matched, run or skipped, and recorded; the answers are merged."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Any

from adderclaw.core.host import HookOutcome
from adderclaw.core.record import NamedTuple, record
from adderclaw.core.types import Json
from adderclaw.storage.hooks import Invocation
from adderclaw.storage.text import compact
from adderclaw.tools.hooks import catalogue
from adderclaw.tools.hooks.answers import Answer, HookRun, Merge, read_answer
from adderclaw.tools.hooks.catalogue import EVENTS
from adderclaw.tools.hooks.matching import matched_text, matches
from adderclaw.tools.hooks.settings import Hook

STOP_POLL = 0.25
"""Seconds between checks of the emergency stop while a hook runs."""
TOOL_EVENTS = frozenset(name for name, event in EVENTS.items() if event.query == "tool_name")

type SaidAsync = Callable[[], None]
type Run = Callable[[Hook, Json, float, SaidAsync], Awaitable[HookRun]]
"""(hook, its stdin, its seconds, what to call when it prints `{"async": true}` first) → how it ended."""


def _ignore(*_given: Any) -> None:
    """Does nothing."""


class Background(NamedTuple):
    """Keeps hooks that continue in the background."""

    hold: Callable[[asyncio.Task[None]], None]
    """Keeps the task and ends it with the session."""
    keep: Callable[[Invocation], None]
    """Records a row on its own, outside of a call."""


@record
class HookChain:
    """How a chain of hooks runs: the base fields of its events, and what runs and records the hooks."""

    base: Json
    kinds: Mapping[str, Run]
    """Kind of hook → the function that runs it."""
    time: Callable[[], str]
    """The current time in the format of the database."""
    keep: Callable[[Invocation], None] = _ignore
    told: Callable[[Hook, HookRun, str, float], None] = _ignore
    """Reports a finished hook: (hook, its result, the problem with its answer, seconds)."""
    warn: Callable[[str], None] = _ignore
    stopped: Callable[[], bool] = lambda: False
    seconds_left: float = float("inf")
    clean: Callable[[str], str] = lambda text: text
    """Removes secrets from output before it is stored."""
    scrub: Callable[[Any], Any] = lambda value: value
    applies: Callable[[str, Json], bool] = lambda _rule, _fields: True
    """Whether a permission rule matches the call of a tool event."""
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    beside: Background | None = None
    """Keeps background hooks; without it every hook is awaited."""
    ran: set[int] = field(default_factory=set[int])
    """Ordinals of the hooks that ran in this session, for hooks that run once."""


async def run_hooks(hooks: tuple[Hook, ...], event: str, fields: Json, chain: HookChain) -> HookOutcome:
    """Runs the hooks that match an event and merges their answers. `fields` are the event's own fields."""
    for problem in catalogue.field_problems(EVENTS[event].fields, fields):
        chain.warn(f"hook event {event}: {problem}")
    merge, text = Merge(event), matched_text(event, fields)
    for hook in hooks:
        if not matches(event, hook.matcher, text, chain.aliases):
            continue
        now = fields if merge.updated_input is None else {**fields, "tool_input": merge.updated_input}
        stdin: Json = {"hook_event_name": event, **chain.base, **now}
        if reason := _skip_reason(hook, now, merge, chain):
            chain.keep(_row(hook, stdin, chain)._replace(skipped_reason=reason))
        elif hook.in_background and chain.beside is not None:
            chain.beside.hold(asyncio.ensure_future(_start_async(hook, stdin, chain, chain.beside)))
        else:
            await _run_hook(hook, stdin, chain, merge)
    return merge.result()


def _skip_reason(hook: Hook, fields: Json, merge: Merge, chain: HookChain) -> str:
    if hook.skipped:
        return hook.skipped
    if merge.is_settled:
        return "prior_block_or_deny"
    if chain.stopped():
        return "emergency_stop"
    if hook.once and hook.ordinal in chain.ran:
        return "ran_once"
    if hook.condition and (hook.event not in TOOL_EVENTS or not chain.applies(hook.condition, fields)):
        return "if_condition"
    return ""


async def _run_hook(hook: Hook, stdin: Json, chain: HookChain, merge: Merge) -> None:
    began = time.monotonic()
    ran = await _run_until_async(hook, stdin, chain, began)
    if ran is None:
        merge.add(hook.ordinal, Answer())
        return
    answer = read_answer(hook.event, ran)
    for note in answer.notes:
        chain.warn(f"hook {hook.ordinal} ({hook.event}): {note}")
    merge.add(hook.ordinal, answer, failure_blocks=hook.failure_blocks)
    chain.told(hook, ran, answer.failure, time.monotonic() - began)


def _may_decide(hook: Hook) -> bool:
    """Whether its exit code can block. The turn then waits for it, whatever it prints."""
    return EVENTS[hook.event].on_exit_two == "block" or hook.failure_blocks or hook.must_run


async def _run_until_async(hook: Hook, stdin: Json, chain: HookChain, began: float) -> HookRun | None:
    """Runs a hook to its end; None if it printed `{"async": true}` first and continues in the background."""
    beside = chain.beside
    if beside is None or hook.kind != "command" or _may_decide(hook):
        return await _run_recorded(hook, stdin, chain, chain.keep)
    said_async, continues = asyncio.Event(), False

    def keep(row: Invocation) -> None:
        (_record_in_background(beside) if continues else chain.keep)(row)

    running = asyncio.ensure_future(_run_recorded(hook, stdin, chain, keep, said_async.set))
    saying = asyncio.ensure_future(said_async.wait())
    try:
        await asyncio.wait({running, saying}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            return running.result()
        continues = True
        beside.hold(asyncio.ensure_future(_report_later(hook, running, chain, began)))
        return None
    finally:
        saying.cancel()
        if not continues and not running.done():
            running.cancel()
            await asyncio.wait({running})


async def _report_later(hook: Hook, running: Awaitable[HookRun], chain: HookChain, began: float) -> None:
    """Reports the end of a background hook, which decides nothing."""
    ran = await running
    chain.told(hook, ran, read_answer(hook.event, ran).failure, time.monotonic() - began)


async def _start_async(hook: Hook, stdin: Json, chain: HookChain, beside: Background) -> None:
    """Runs a hook that has `async` in its settings."""
    began = time.monotonic()
    await _report_later(hook, _run_recorded(hook, stdin, chain, _record_in_background(beside)), chain, began)


def _record_in_background(beside: Background) -> Callable[[Invocation], None]:
    """Records a background hook without a call: it does not belong to the call's chain."""
    return lambda row: beside.keep(row._replace(tool_use_id=None))


async def _run_recorded(
    hook: Hook,
    stdin: Json,
    chain: HookChain,
    keep: Callable[[Invocation], None],
    said_async: SaidAsync = _ignore,
) -> HookRun:
    """Runs one hook and records it, however it ends."""
    chain.ran.add(hook.ordinal)
    row, ran = _row(hook, stdin, chain), HookRun(None, stderr="interrupted before it ended")
    try:
        if hook.plugin is not None and (changed := hook.plugin.changed()):
            ran = HookRun(None, stderr=f"not started: {changed}", refused=True)
        else:
            seconds = min(hook.seconds, chain.seconds_left)
            ran = await _stop_on_emergency(chain.kinds[hook.kind](hook, stdin, seconds, said_async), chain)
    finally:
        keep(
            row._replace(
                exit_code=ran.exit_code,
                stdout_text=chain.clean(ran.stdout),
                stderr_text=chain.clean(ran.stderr),
                completed_at=chain.time(),
            )
        )
    return ran


async def _stop_on_emergency(work: Awaitable[HookRun], chain: HookChain) -> HookRun:
    """Ends a hook at once when the emergency stop is set."""
    running = asyncio.ensure_future(work)
    try:
        while not running.done():
            await asyncio.wait({running}, timeout=STOP_POLL)
            if not running.done() and chain.stopped():
                return HookRun(None, stderr="killed by the emergency stop")
        return running.result()
    finally:
        if not running.done():
            running.cancel()
            await asyncio.wait({running})


def _row(hook: Hook, stdin: Json, chain: HookChain) -> Invocation:
    return Invocation(
        hook_event=hook.event,
        hook_ordinal=hook.ordinal,
        matcher=hook.matcher,
        command=chain.scrub(hook.command),
        input_json=compact(chain.scrub(stdin)),
        started_at=chain.time(),
        tool_use_id=stdin.get("tool_use_id"),
        tool_name=stdin.get("tool_name"),
    )
