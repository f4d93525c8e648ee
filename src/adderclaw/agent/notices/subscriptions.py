"""Stores a notice for each target that subscribes to it: when it may be sent, and its content."""

import os
import re
import time
from collections.abc import Callable, Collection
from functools import partial
from sqlite3 import Cursor
from uuid import uuid4

from adderclaw.agent.notices.notice import Clean, Notice
from adderclaw.config.notice_targets import QUIET
from adderclaw.config.paths import beneath, followed
from adderclaw.config.schema import Notices, NoticeTarget
from adderclaw.core.json_text import digest
from adderclaw.core.redaction import Secrets, visible
from adderclaw.core.types import Json
from adderclaw.storage import Store
from adderclaw.storage import notices as rows
from adderclaw.storage.text import iso

TITLE = 160
TEXT = 1_200
FULL = 2_400
FACT = 400
"""Maximum characters of each part that are sent."""


def send(
    settings: Notices,
    store: Store,
    notice: Notice,
    *,
    now: float,
    due_in: float = 0.0,
    only: Collection[str] | None = None,
) -> int:
    """Store a notice for each target that subscribes to it, in its own transaction; returns their number.

    `only`: these targets instead.
    """
    writes = notice_rows(settings, notice, now=now, due_in=due_in, only=only)
    if not writes:
        return 0
    with store.write() as cursor:
        for write in writes:
            write(cursor)
    return len(writes)


def notice_rows(
    settings: Notices,
    notice: Notice,
    *,
    now: float,
    clean: Clean | None = None,
    due_in: float = 0.0,
    only: Collection[str] | None = None,
) -> list[Callable[[Cursor], None]]:
    """One row for each target that subscribes to the notice, or for each in `only`."""
    clean = clean or Secrets().clean
    id = _id(notice)
    writes: list[Callable[[Cursor], None]] = []
    for name, target in settings.targets.items():
        if not (is_subscribed(target, notice) if only is None else name in only):
            continue
        row = partial(
            rows.put,
            id=id,
            target=name,
            kind=notice.kind,
            about=notice.about,
            run_id=notice.run_id,
            workspace=notice.workspace,
            body=body(notice, target, id, now, clean),
            now=now,
            due_at=now + due_in if only is not None else awake(target.quiet, now + due_in),
        )
        writes.append(row)
    return writes


def _id(notice: Notice) -> str:
    """The id of a notice. Notices about the same subject share an id and are sent once; it is safe in a header."""
    if not notice.about or notice.again:
        return f"notice-{uuid4().hex}"
    about = notice.about if re.fullmatch(r"[A-Za-z0-9_-]{1,80}", notice.about) else digest(notice.about)[-32:]
    return f"{notice.kind}-{about}"


def is_subscribed(target: NoticeTarget, notice: Notice) -> bool:
    """Whether the operator configured the target to receive this notice."""
    if not target.enabled or notice.kind not in target.on:
        return False
    if target.workspaces:
        folder = followed(notice.workspace) if notice.workspace else ""
        if not any(folder and beneath(folder, followed(path)) for path in target.workspaces):
            return False
    if notice.kind != "done":
        return True
    outcome = notice.facts.get("outcome")
    if outcome == "interrupted":  # its duration is unknown
        return not target.outcomes or "error" in target.outcomes
    if target.outcomes and outcome not in target.outcomes:
        return False
    return float(notice.facts.get("seconds") or 0.0) >= target.min_seconds


def awake(quiet: str, at: float) -> float:
    """The time, or the end of the quiet hours if it is within them."""
    hours = re.fullmatch(QUIET, quiet) if quiet else None
    if hours is None:
        return at
    begins, ends = (int(hours[group]) * 60 + int(hours[group + 1]) for group in (1, 3))
    local = time.localtime(at)
    minute = local.tm_hour * 60 + local.tm_min
    inside = begins <= minute < ends if begins <= ends else minute >= begins or minute < ends
    if not inside:
        return at
    days = 1 if minute >= ends else 0
    # computed by the calendar, so that a change of the clocks at night does not shift the end
    over = (local.tm_year, local.tm_mon, local.tm_mday + days, ends // 60, ends % 60, 0, 0, 0, -1)
    return max(at, time.mktime(over))


def body(notice: Notice, target: NoticeTarget, id: str, now: float, clean: Clean) -> Json:
    """Everything that is sent, without secrets, escaped and with bounded lengths."""
    full = target.detail == "full"
    text = f"{notice.text}\n\n{notice.full}" if full and notice.full else notice.text
    facts = {name: _fact(value, clean) for name, value in notice.facts.items() if value is not None}
    return {
        "id": id,
        "kind": notice.kind,
        "time": iso(now),
        "title": line(notice.title, clean, TITLE),
        "text": cut(visible(str(clean(text))), TEXT + FULL if full else TEXT),
        "workspace": line(os.path.basename(notice.workspace.rstrip("/")), clean, FACT),
        "run_id": line(notice.run_id, clean, FACT),
        "conversation_id": line(notice.conversation_id, clean, FACT),
        "page": notice.page,
        **facts,
    }


def _fact(value: object, clean: Clean) -> object:
    if isinstance(value, bool | int | float):
        return value
    return line(str(value), clean, FACT)


def line(text: str, clean: Clean, most: int) -> str:
    """The text in one line, cleaned and cut."""
    return cut(visible(" ".join(str(clean(text)).split()), keep_newlines=False), most)


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
