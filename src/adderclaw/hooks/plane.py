"""One event's hooks, one at a time, in their order: matched, run or skipped, recorded, and merged."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Any

from adderclaw.hook_outcome import Merged
from adderclaw.hooks import catalogue
from adderclaw.hooks.answers import Merge, Ran, read
from adderclaw.hooks.catalogue import EVENTS
from adderclaw.hooks.matching import matches, query
from adderclaw.hooks.settings import Hook
from adderclaw.record import record
from adderclaw.store.hooks import Invocation
from adderclaw.store.text import compact
from adderclaw.types import Json

STOP_POLL = 0.25
"""Seconds between looks at the emergency stop while a hook runs."""
TOOL_EVENTS = frozenset(name for name, event in EVENTS.items() if event.query == "tool_name")

type Run = Callable[[Hook, Json, float], Awaitable[Ran]]
"""(hook, its stdin, its seconds) → how it ended."""


def _nothing(*_given: Any) -> None:
    """Nobody listens."""


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
    aside: Callable[[Hook, Json], None] | None = None
    """Runs a hook beside the turn; without it such a hook is waited for."""
    ran: set[int] = field(default_factory=set[int])
    """Hooks of this session that ran already, for those that run once."""


async def run(hooks: tuple[Hook, ...], event: str, fields: Json, place: Place) -> Merged:
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
        elif hook.aside and place.aside is not None:
            place.aside(hook, stdin)
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
    ran = await _recorded(hook, stdin, place)
    answer = read(hook.event, ran)
    for note in answer.notes:
        place.warn(f"hook {hook.ordinal} ({hook.event}): {note}")
    merge.add(hook.ordinal, answer, failure_blocks=hook.failure_blocks)
    place.told(hook, ran, answer.failure, time.monotonic() - began)


async def unheard(hook: Hook, stdin: Json, place: Place) -> None:
    """A hook beside the turn: recorded, and that is all."""
    began = time.monotonic()
    ran = await _recorded(hook, stdin, place, aside=True)
    place.told(hook, ran, read(hook.event, ran).failure, time.monotonic() - began)


async def _recorded(hook: Hook, stdin: Json, place: Place, *, aside: bool = False) -> Ran:
    """Run one hook; it leaves its row however it ends. One beside the turn belongs to no call's chain."""
    place.ran.add(hook.ordinal)
    row, ran = _row(hook, stdin, place), Ran(None, stderr="interrupted before it ended")
    if aside:
        row = row._replace(tool_use_id=None)
    try:
        if hook.plugin is not None and (changed := hook.plugin.changed()):
            ran = Ran(None, stderr=f"not started: {changed}", refused=True)
        else:
            ran = await _watched(place.kinds[hook.kind](hook, stdin, min(hook.seconds, place.seconds_left)), place)
    finally:
        place.keep(
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
