"""Checkpoints: what tools changed on disk, call by call with its lines, and how to restore it."""

from collections.abc import Sequence
from typing import TypedDict

from adderclaw.agent.legacy import rewind
from adderclaw.agent.legacy.rewind import Group
from adderclaw.agent.queries import clean, loaded, reading, restoring
from adderclaw.agent.queries.restoring import Restored
from adderclaw.agent.session.session import Session
from adderclaw.config import home
from adderclaw.config.legacy.options import Options
from adderclaw.config.paths import beneath, followed
from adderclaw.core.errors import UsageError
from adderclaw.core.json_text import to_json
from adderclaw.core.questions import Ask
from adderclaw.core.redaction import Secrets
from adderclaw.sandbox.legacy.checkpoints import difference
from adderclaw.sandbox.legacy.checkpoints.restore import Fate
from adderclaw.storage import Store, transcript
from adderclaw.storage import checkpoints as rows
from adderclaw.storage.checkpoints import Change


class StateRow(TypedDict):
    """What is at a path. The content of a file without a digest is not stored."""

    kind: str
    mode: int
    size: int
    digest: str


class ChangeRow(TypedDict):
    path: str
    what: str
    """made, changed or deleted"""
    before: StateRow | None
    after: StateRow | None
    sure: bool
    """False: it changed while the call ran, by it or by others."""
    diff: list[str]
    """Removed (-) and added (+) lines of a text file, at most 400; for anything else, what changed."""


class CheckpointRow(TypedDict):
    """One call's changes."""

    id: int
    root: str
    conversation_id: str
    session_id: str
    turn_session: str
    turn: int
    kind: str
    tool: str
    tool_use_id: str
    note: str
    status: str
    created_at: str
    changes: list[ChangeRow]


class StepRow(TypedDict):
    root: str
    path: str
    fate: Fate
    now: StateRow | None
    then: StateRow | None
    why: str


class RestoredRow(TypedDict):
    dry_run: bool
    refused: bool
    """Something else changed the files since, so nothing was restored; `force` restores anyway."""
    steps: list[StepRow]
    failed: dict[str, str]
    """Path → why it was not restored."""
    undo: list[int]
    """The checkpoints that undo this restore."""
    finished: list[int]
    """Interrupted restores that were finished first."""


def listing(
    options: Options, conversation: str | None = None, limit: int = 20, places: Sequence[str] | None = None
) -> list[Group]:
    """The last `limit` groups of checkpoints, one for each message, oldest first. `places`: only these workspaces."""
    with reading(options) as store:
        conversation_id = None
        if conversation is not None:
            conversation_id = transcript.conversation_of(store, conversation)
            if conversation_id is None:
                raise UsageError(f"there is no conversation {conversation!r}: see `adderclaw memory list`")
        groups = rewind.groups(store, conversation_id)
        if places is not None:
            held = {id: transcript.workspace_of(store, id) for id in {each["conversation_id"] for each in groups}}
            groups = [each for each in groups if held[each["conversation_id"]] in places]
        return clean(groups[-limit:])


def shown(options: Options, checkpoint: str) -> list[CheckpointRow]:
    """The checkpoints of a message, starting with this one."""
    now = loaded(options).config
    with reading(options) as store:
        first = rows.get(store, rewind.target_of(store, checkpoint))
        if first is None:
            raise UsageError(f"there is no checkpoint {checkpoint}: see `adderclaw checkpoint list`")
        shop = rewind.workshop(store, home(), now)
        try:
            return [
                clean(
                    {**point._asdict(), "changes": [_change(shop, change) for change in rows.changes(store, point.id)]}
                )
                for point in rows.listing(store, conversation_id=first.conversation_id)
                if point.id >= first.id and (point.turn_session, point.turn) == (first.turn_session, first.turn)
            ]
        finally:
            shop.blobs.close()


def _change(shop: rewind.Workshop, change: Change) -> ChangeRow:
    return {
        "path": change.path,
        "what": verb(change),
        "before": to_json(change.before),
        "after": to_json(change.after),
        "sure": change.sure,
        "diff": difference.changed(shop.blobs, change.before, change.after)[:400],
    }


def verb(change: Change) -> str:
    if change.before is None:
        return "made"
    return "deleted" if change.after is None else "changed"


async def restored(
    options: Options,
    checkpoint: str,
    *,
    paths: frozenset[str] = frozenset(),
    force: bool = False,
    dry_run: bool = False,
    ask: Ask | None = None,
    session: Session | None = None,
) -> Restored:
    """Restore files to their state before a checkpoint. For files that a person may have changed, ask or leave them.

    `session`: the session of the checkpoint's conversation, if it is open in this process, which is told about it.
    """
    settings = loaded(options)
    Store.open(settings.config.memory.path, read_only=True).close()  # raises StoreError if there is no database
    store = Store.open(settings.config.memory.path)
    try:
        _require_own_workspace(store, checkpoint, settings.workspace)
        shop = rewind.workshop(store, home(), settings.config)
        try:
            if dry_run:
                return restoring.dry(shop, checkpoint, force=force, only=paths)
            return await restoring.restored(shop, checkpoint, Secrets(), ask, force=force, only=paths, session=session)
        finally:
            shop.blobs.close()
    finally:
        store.close()


def _require_own_workspace(store: Store, checkpoint: str, workspace: str) -> None:
    """Reject the number of another project's checkpoint: numbers count over all projects and are easily mistyped."""
    point = rows.get(store, int(checkpoint)) if checkpoint.isdecimal() else None
    if point is None or beneath(point.root, workspace):
        return
    if followed(transcript.workspace_of(store, point.conversation_id)) != followed(workspace):
        fix = f"restore it from there, or name its conversation: {point.conversation_id}"
        raise UsageError(clean(f"checkpoint {checkpoint} is of {point.root}, not of {workspace}; {fix}"))


def as_json(restored: Restored, *, dry_run: bool) -> RestoredRow:
    return clean(
        {
            "dry_run": dry_run,
            "refused": restored.refused,
            "steps": [{"root": plan.target.root, **to_json(step)} for plan in restored.plans for step in plan.steps],
            "failed": restored.failed,
            "undo": [outcome.undo for outcome in restored.done if outcome.undo],
            "finished": [outcome.undo for outcome in restored.cut_off],
        }
    )
