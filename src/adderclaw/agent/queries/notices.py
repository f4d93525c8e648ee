"""Notices: the configured targets, the history, test notices, and delivery by commands and servers."""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import TypedDict
from urllib.parse import urlsplit

from adderclaw.agent.notices import letter
from adderclaw.agent.notices.courier import LEASE, Courier, Place, attempt, flush, keep, reason, secrets_of
from adderclaw.agent.notices.letter import Undelivered
from adderclaw.agent.notices.notice import Notice
from adderclaw.agent.notices.subscriptions import send
from adderclaw.agent.queries import clean, read_only
from adderclaw.agent.queries import loaded as loaded_config
from adderclaw.config import Loaded, home
from adderclaw.config.legacy.options import Options
from adderclaw.config.schema import Config, NoticeTarget
from adderclaw.core.decode import unknown_key_hint
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.storage import Store
from adderclaw.storage import notices as rows
from adderclaw.storage.text import iso

NO_TARGETS = "no target for notices is configured; add one under [notices.targets] in your own configuration"
SHOWN = "docs/channels.md has recipes"


class TargetRow(TypedDict):
    name: str
    kind: str
    to: str
    """The host or the mail addresses; never the URL of a webhook, which may be a secret."""
    on: list[str]
    detail: str
    enabled: bool
    waiting: int
    problem: str
    """Why nothing would arrive; empty if no problem is known."""


class NoticeRow(TypedDict):
    id: str
    target: str
    kind: str
    title: str
    workspace: str
    run_id: str
    created_at: str
    state: str
    """waiting, sent, failed, or moot: its question was answered before the notice was sent."""
    attempts: int
    ended_at: str | None
    error: str
    """Why the last attempt failed."""


class TriedRow(TypedDict):
    target: str
    kind: str
    delivered: bool
    error: str
    seconds: float


def targets(options: Options) -> list[TargetRow]:
    settings = loaded_config(read_only(options))
    counted = _waiting(settings.config.memory.path)
    return [clean(_target(name, target, counted)) for name, target in settings.config.notices.targets.items()]


def _waiting(path: str) -> dict[str, int]:
    if not Store.exists(path):
        return {}
    store = Store.open(path, read_only=True)
    try:
        return rows.waiting_counts(store)
    finally:
        store.close()


def _target(name: str, target: NoticeTarget, counted: dict[str, int]) -> TargetRow:
    return {
        "name": name,
        "kind": target.kind,
        "to": _to(target),
        "on": [*target.on],
        "detail": target.detail,
        "enabled": target.enabled,
        "waiting": counted.get(name, 0),
        "problem": problem(target) if target.enabled else "",
    }


def _to(target: NoticeTarget) -> str:
    match target.kind:
        case "webhook":
            url = target.url or letter.in_environment(target).get("url", "")
            host = urlsplit(url).hostname or ""
            named = f"the address in {target.url_env}" if target.url_env else "its stored address"
            return f"{host or named} ({target.format})"
        case "email":
            return f"{', '.join(target.to)} by {target.host}"


def problem(target: NoticeTarget) -> str:
    """A problem of a target's configuration that is found without sending anything; empty if there is none."""
    if variable := letter.missing(target):
        return f"the variable {variable} is not set"
    if target.ca_file and not os.access(target.ca_file, os.R_OK):
        return f"{target.ca_file} cannot be read"
    try:
        if target.kind == "webhook" and (secret := letter.in_environment(target).get("secret")):
            from adderclaw.models.http.signing import key_of

            for part in secret.split():
                key_of(part)
    except UsageError as error:
        return str(error)
    return ""


def history(
    options: Options, *, limit: int = 50, target: str = "", state: str = "", folders: Sequence[str] = ()
) -> list[NoticeRow]:
    """The latest notices, newest first."""
    path = loaded_config(read_only(options)).config.memory.path
    if not Store.exists(path):
        return []
    store = Store.open(path, read_only=True)
    try:
        notices = rows.history(store, limit=limit, target=target, state=state, folders=folders)
    finally:
        store.close()
    return [clean(_row(row)) for row in notices]


def _row(row: rows.Row) -> NoticeRow:
    return {
        "id": row.id,
        "target": row.target,
        "kind": row.kind,
        "title": str(row.body.get("title", "")),
        "workspace": str(row.body.get("workspace", "")),
        "run_id": row.run_id,
        "created_at": iso(row.created_at),
        "state": row.state,
        "attempts": row.attempts,
        "ended_at": None if row.ended_at is None else iso(row.ended_at),
        "error": row.error,
    }


def tried(options: Options, name: str | None = None) -> list[TriedRow]:
    """Send a test notice to this target, or once to each enabled target; the history contains it."""
    settings = loaded_config(read_only(options))
    known = settings.config.notices.targets
    if not known:
        raise UsageError(f"{NO_TARGETS}; {SHOWN}")
    if name is not None and name not in known:
        raise UsageError(f"[notices.targets] has no target {name!r}{unknown_key_hint(name, list(known))}")
    names = [name] if name is not None else [target_name for target_name, target in known.items() if target.enabled]
    store = Store.open(settings.config.memory.path, in_files=settings.config.memory.backend == "file")
    try:
        return asyncio.run(_tested(settings, store, names))
    finally:
        store.close()


async def _tested(settings: Loaded, store: Store, names: list[str]) -> list[TriedRow]:
    now = time.time()
    about = f"{os.getpid()}-{round(now * 1000)}"
    text = "This is a test: if you can read it, notices of AdderClaw arrive here."
    notice = Notice("test", "A test of your notices", text, about=about, workspace=settings.workspace)
    # due later than this takes, so that no other process sends it meanwhile
    send(settings.config.notices, store, notice, now=now, only=names, due_in=LEASE)
    context = Place(store.path, home(), lambda: settings.config, _ignore)
    return list(await asyncio.gather(*(_one(settings, store, context, name, f"test-{about}") for name in names)))


def _ignore(_message: str) -> None:
    """Ignore complaints: the caller gets each result."""


async def _one(settings: Loaded, store: Store, context: Place, name: str, id: str) -> TriedRow:
    target, began, error = settings.config.notices.targets[name], time.monotonic(), ""
    row = rows.get(store, id, name)
    assert row is not None
    try:
        await attempt(context, store, row, target, settings.config.auth)
        rows.mark_sent(store, row, time.time())
    except Undelivered as failure:
        error = reason(failure)
        rows.mark_failed(store, row, time.time(), error)
    seconds = round(time.monotonic() - began, 2)
    return {"target": name, "kind": target.kind, "delivered": not error, "error": error, "seconds": seconds}


def stored(settings: Loaded, name: str, target: NoticeTarget) -> str:
    """A problem of the secrets stored for a target; empty if there is none. It may open the keyring."""
    try:
        secrets_of(name, target, settings.config.auth, home())
    except Undelivered as error:
        return str(error)
    return ""


def stopped(options: Options | None = None, *, by: str = "", flushed: bool = True) -> None:
    """Report that the emergency stop was set. Errors are ignored, so that they cannot prevent the stop."""
    options = options or Options()
    try:
        settings = loaded_config(read_only(options))
        if not any("estop" in target.on for target in settings.config.notices.targets.values()):
            return
        who = f"{by} set it.\n" if by else ""
        text = f"{who}No tool runs until it is removed with: adderclaw estop --clear"
        store = Store.open(settings.config.memory.path, in_files=settings.config.memory.backend == "file")
        try:
            send(settings.config.notices, store, Notice("estop", "The emergency stop is set", text), now=time.time())
        finally:
            store.close()
    except AdderClawError:
        return
    if flushed:
        deliver(options)


def deliver(options: Options) -> None:
    """Deliver waiting notices within a few seconds, for a command that then ends."""
    try:
        settings = loaded_config(read_only(options))
    except AdderClawError:
        return
    if settings.config.notices.targets and Store.exists(settings.config.memory.path):
        flush(Place(settings.config.memory.path, home(), lambda: settings.config, _on_stderr))


def _on_stderr(message: str) -> None:
    print(clean(message), file=sys.stderr)


def courier_of(options: Options, complain: Callable[[str], None]) -> Courier | None:
    """The courier of a long-running process; None if no target is configured. It follows configuration changes."""
    last = loaded_config(read_only(options)).config

    def settings() -> Config:
        nonlocal last
        try:
            last = loaded_config(read_only(options)).config
        except AdderClawError:  # the file may be half written; use the last valid settings
            pass
        return last

    if not last.notices.targets:
        return None
    courier = Courier(Place(last.memory.path, home(), settings, complain))
    keep(last.memory.path, courier)
    return courier
