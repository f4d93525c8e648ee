"""One event's hooks, one at a time, in their order: matched, run or skipped, recorded, and merged."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Any

from adderclaw.core.hook_outcome import HookOutcome
from adderclaw.core.record import NamedTuple, record
from adderclaw.core.types import Json
from adderclaw.storage.hooks import Invocation
from adderclaw.storage.text import compact
from adderclaw.tools.hooks import catalogue
from adderclaw.tools.hooks.answers import Answer, Merge, Ran, read
from adderclaw.tools.hooks.catalogue import EVENTS
from adderclaw.tools.hooks.matching import matches, query
from adderclaw.tools.hooks.settings import Hook

STOP_POLL = 0.25
"""Seconds between looks at the emergency stop while a hook runs."""
TOOL_EVENTS = frozenset(name for name, event in EVENTS.items() if event.query == "tool_name")

type SaidAsync = Callable[[], None]
type Run = Callable[[Hook, Json, float, SaidAsync], Awaitable[Ran]]
"""(hook, its stdin, its seconds, what to call when it prints `{"async": true}` first) → how it ended."""


def _nothing(*_given: Any) -> None:
    """Nobody listens."""


class Beside(NamedTuple):
    """Where a hook continues beside the turn."""

    hold: Callable[[asyncio.Task[None]], None]
    """Keeps the task, and ends it with the session."""
    keep: Callable[[Invocation], None]
    """Records a row when nothing else is recorded with it."""


@record
class Place:
    """Where a chain runs: what hooks are told of it, and who runs and records them."""

    base: Json
    kinds: Mapping[str, Run]
    """Kind of hook → how it is run."""
    time: Callable[[], str]
    """Now, as rows have it."""
    keep: Callable[[Invocation], None] = _nothing
    told: Callable[[Hook, Ran, str, float], None] = _nothing
    """(hook, how it ended, what is wrong with its answer, the seconds that it took): for whoever listens."""
    warn: Callable[[str], None] = _nothing
    stopped: Callable[[], bool] = lambda: False
    seconds_left: float = float("inf")
    clean: Callable[[str], str] = lambda text: text
    """Output without secrets, before it is kept."""
    scrub: Callable[[Any], Any] = lambda value: value
    applies: Callable[[str, Json], bool] = lambda _rule, _fields: True
    """Whether a permission rule matches the call of a tool event."""
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    beside: Beside | None = None
    """Where a hook continues in the background; without it every hook is waited for."""
    ran: set[int] = field(default_factory=set[int])
    """Hooks of this session that ran already, for those that run once."""


async def run(hooks: tuple[Hook, ...], event: str, fields: Json, place: Place) -> HookOutcome:
    """Run what matches. `fields` are the event's own."""
    for problem in catalogue.problems(EVENTS[event].fields, fields):
        place.warn(f"hook event {event}: {problem}")
    merge, text = Merge(event), query(event, fields)
    for hook in hooks:
        if not matches(event, hook.matcher, text, place.aliases):
            continue
        now = fields if merge.updated_input is None else {**fields, "tool_input": merge.updated_input}
        stdin: Json = {"hook_event_name": event, **place.base, **now}
        if reason := _skipped(hook, now, merge, place):
            place.keep(_row(hook, stdin, place)._replace(skipped_reason=reason))
        elif hook.aside and place.beside is not None:
            place.beside.hold(asyncio.ensure_future(_unheard(hook, stdin, place, place.beside)))
        else:
            await _one(hook, stdin, place, merge)
    return merge.result()


def _skipped(hook: Hook, fields: Json, merge: Merge, place: Place) -> str:
    if hook.skipped:
        return hook.skipped
    if merge.settled:
        return "prior_block_or_deny"
    if place.stopped():
        return "emergency_stop"
    if hook.once and hook.ordinal in place.ran:
        return "ran_once"
    if hook.condition and (hook.event not in TOOL_EVENTS or not place.applies(hook.condition, fields)):
        return "if_condition"
    return ""


async def _one(hook: Hook, stdin: Json, place: Place, merge: Merge) -> None:
    began = time.monotonic()
    ran = await _until_async(hook, stdin, place, began)
    if ran is None:
        merge.add(hook.ordinal, Answer())
        return
    answer = read(hook.event, ran)
    for note in answer.notes:
        place.warn(f"hook {hook.ordinal} ({hook.event}): {note}")
    merge.add(hook.ordinal, answer, failure_blocks=hook.failure_blocks)
    place.told(hook, ran, answer.failure, time.monotonic() - began)


def _may_decide(hook: Hook) -> bool:
    """Whether its exit code can block: then the turn waits for it, whatever it prints."""
    return EVENTS[hook.event].on_two == "block" or hook.failure_blocks or hook.must_run


async def _until_async(hook: Hook, stdin: Json, place: Place, began: float) -> Ran | None:
    """Run a hook to its end; None where it printed `{"async": true}` first and continues beside the turn."""
    beside = place.beside
    if beside is None or hook.kind != "command" or _may_decide(hook):
        return await _recorded(hook, stdin, place, place.keep)
    said_async, continues = asyncio.Event(), False

    def keep(row: Invocation) -> None:
        (_keep_beside(beside) if continues else place.keep)(row)

    running = asyncio.ensure_future(_recorded(hook, stdin, place, keep, said_async.set))
    saying = asyncio.ensure_future(said_async.wait())
    try:
        await asyncio.wait({running, saying}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            return running.result()
        continues = True
        beside.hold(asyncio.ensure_future(_told_later(hook, running, place, began)))
        return None
    finally:
        saying.cancel()
        if not continues and not running.done():
            running.cancel()
            await asyncio.wait({running})


async def _told_later(hook: Hook, running: Awaitable[Ran], place: Place, began: float) -> None:
    """Record the end of a background hook, which decides nothing."""
    ran = await running
    place.told(hook, ran, read(hook.event, ran).failure, time.monotonic() - began)


async def _unheard(hook: Hook, stdin: Json, place: Place, beside: Beside) -> None:
    """Start a hook with `async` in its settings."""
    began = time.monotonic()
    await _told_later(hook, _recorded(hook, stdin, place, _keep_beside(beside)), place, began)


def _keep_beside(beside: Beside) -> Callable[[Invocation], None]:
    """A hook beside the turn belongs to no call's chain."""
    return lambda row: beside.keep(row._replace(tool_use_id=None))


async def _recorded(
    hook: Hook,
    stdin: Json,
    place: Place,
    keep: Callable[[Invocation], None],
    said_async: SaidAsync = _nothing,
) -> Ran:
    """Run one hook and record it, however it ends."""
    place.ran.add(hook.ordinal)
    row, ran = _row(hook, stdin, place), Ran(None, stderr="interrupted before it ended")
    try:
        if hook.plugin is not None and (changed := hook.plugin.changed()):
            ran = Ran(None, stderr=f"not started: {changed}", refused=True)
        else:
            seconds = min(hook.seconds, place.seconds_left)
            ran = await _watched(place.kinds[hook.kind](hook, stdin, seconds, said_async), place)
    finally:
        keep(
            row._replace(
                exit_code=ran.exit_code,
                stdout_text=place.clean(ran.stdout),
                stderr_text=place.clean(ran.stderr),
                completed_at=place.time(),
            )
        )
    return ran


async def _watched(work: Awaitable[Ran], place: Place) -> Ran:
    """The emergency stop ends a hook at once, as it ends a tool."""
    running = asyncio.ensure_future(work)
    try:
        while not running.done():
            await asyncio.wait({running}, timeout=STOP_POLL)
            if not running.done() and place.stopped():
                return Ran(None, stderr="killed by the emergency stop")
        return running.result()
    finally:
        if not running.done():
            running.cancel()
            await asyncio.wait({running})


def _row(hook: Hook, stdin: Json, place: Place) -> Invocation:
    return Invocation(
        hook_event=hook.event,
        hook_ordinal=hook.ordinal,
        matcher=hook.matcher,
        command=place.scrub(hook.command),
        input_json=compact(place.scrub(stdin)),
        started_at=place.time(),
        tool_use_id=stdin.get("tool_use_id"),
        tool_name=stdin.get("tool_name"),
    )
