"""What a person can go back to: the prompts of a conversation with what was changed for each, and the way back."""

import os
from typing import NamedTuple, TypedDict

from adderclaw.agent.session.session import Session
from adderclaw.config.own_paths import OwnPaths, own_paths
from adderclaw.config.paths import beneath
from adderclaw.config.schema import Config
from adderclaw.core import home_names
from adderclaw.core.errors import UsageError
from adderclaw.sandbox.legacy.checkpoints.blobs import Blobs, moment, prune
from adderclaw.sandbox.legacy.checkpoints.restore import Outcome, Plan, Workshop, carry_out, finish_pending, plan
from adderclaw.sandbox.legacy.checkpoints.saved_index import alone
from adderclaw.sandbox.legacy.checkpoints.tracker import limits_of
from adderclaw.sandbox.workspace.traces import traces
from adderclaw.storage import Store, locks, transcript
from adderclaw.storage import checkpoints as rows
from adderclaw.storage.checkpoints import Change, Checkpoint


class Prompt(NamedTuple):
    """A message of the user, and the first checkpoint of what was done for it; None where nothing was changed."""

    session_id: str
    sequence: int
    text: str
    checkpoint: int | None
    paths: int


class Group(TypedDict):
    """What was changed for one message, or by one restore: `id` is what one goes back to."""

    id: int
    conversation_id: str
    session_id: str
    root: str
    kind: str
    text: str
    created_at: str
    calls: int
    paths: int
    status: str
    """`pending`: a restore that was cut off; restoring again finishes it."""


def own_of(config: Config, home: str, root: str, *, headless: bool = False) -> OwnPaths:
    """What is ours in a workspace. A project's own folder of runs is the project's, whatever is in it is called."""
    made = own_paths(config, home, root, locks.locks_folder(config.memory.path))
    if not beneath(made.runs, root) or traces(os.path.relpath(made.runs, root), root, headless=headless):
        return made
    return made._replace(runs="")


def workshop(store: Store, home: str, config: Config) -> Workshop:
    def own(root: str) -> OwnPaths:
        return own_of(config, home, root)

    return Workshop(store, Blobs(os.path.join(home, home_names.CHECKPOINTS), store), limits_of(config.checkpoints), own)


def groups(store: Store, conversation_id: str | None) -> list[Group]:
    """Oldest first. What others changed is none."""
    texts: dict[tuple[str, int], str] = {}
    counts = rows.counts(store)
    made: dict[tuple[object, ...], list[Checkpoint]] = {}
    for point in rows.listing(store, conversation_id=conversation_id):
        if point.kind == "other":
            continue
        own = point.id if point.kind == "restore" else 0
        made.setdefault((_whose(point), point.turn, point.root, own), []).append(point)
    for session in {_whose(first) for first, *_ in made.values()}:
        texts |= _said(store, session)
    return [
        Group(
            id=first.id,
            conversation_id=first.conversation_id,
            session_id=_whose(first),
            root=first.root,
            kind=first.kind,
            text=first.note if first.kind == "restore" else texts.get((_whose(first), first.turn), ""),
            created_at=first.created_at,
            calls=len(points),
            paths=sum(counts.get(point.id, 0) for point in points),
            status=first.status,
        )
        for points in made.values()
        for first in points[:1]
    ]


def _whose(point: Checkpoint) -> str:
    """The session whose message it was for: that of a goal or a task, which nobody talks to, is its own."""
    return point.turn_session or point.session_id


def _said(store: Store, session_id: str) -> dict[tuple[str, int], str]:
    """The messages of a session by their place; where no turn is known (-1), it is the first."""
    said = {
        (session_id, entry.sequence): " ".join(transcript.text_of(entry.payload).split())[:200]
        for entry in transcript.entries(store, session_id)
        if entry.entry_type == "user"
    }
    return {(session_id, -1): next(iter(said.values())), **said} if said else said


def prompts(session: Session) -> list[Prompt]:
    """What one can go back to in a conversation, oldest first."""
    found: list[Prompt] = []
    by_turn: dict[int, list[Group]] = {}
    for group in groups(session.store, session.conversation_id):
        point = rows.get(session.store, group["id"])
        if point is not None and point.turn_session == session.session_id and point.kind == "call":
            by_turn.setdefault(point.turn, []).append(group)
    for entry in transcript.without_rewound(transcript.entries(session.store, session.session_id)):
        if entry.entry_type == "user":
            here = by_turn.get(entry.sequence, [])
            text = " ".join(transcript.text_of(entry.payload).split())
            first = min((group["id"] for group in here), default=None)
            paths = sum(group["paths"] for group in here)
            found.append(Prompt(session.session_id, entry.sequence, text, first, paths))
    return found


def target_of(store: Store, wanted: str) -> int:
    """A checkpoint by its number, or the first of a conversation or session by its id."""
    if wanted.isdecimal():
        return int(wanted)
    conversation = transcript.conversation_of(store, wanted)
    exact = [point for point in rows.listing(store, conversation_id=conversation) if point.kind != "other"]
    exact = [point for point in exact if point.turn_session.startswith(wanted)] or exact
    if conversation is None or not exact:
        raise UsageError(f"{wanted!r} is no checkpoint, and no conversation with one: see `adderclaw checkpoint list`")
    return exact[0].id


def targets(store: Store, wanted: str) -> list[int]:
    """The first checkpoint of each root from there on: going back means all roots of the workspace."""
    first = rows.get(store, target_of(store, wanted))
    if first is None or first.kind == "other":
        raise UsageError(f"there is no checkpoint {wanted}: see `adderclaw checkpoint list`")
    later = [point for point in rows.listing(store, conversation_id=first.conversation_id) if point.id >= first.id]
    roots: dict[str, int] = {}
    for point in later:
        roots.setdefault(point.root, point.id)
    return list(roots.values())


def planned(shop: Workshop, wanted: str, *, force: bool, only: frozenset[str] = frozenset()) -> list[Plan]:
    return [plan(shop, target, force=force, only=only) for target in targets(shop.store, wanted)]


def restored(shop: Workshop, plans: list[Plan], session: Session | None = None) -> list[Outcome]:
    """Carry plans out, after whatever was cut off earlier; a session that runs is told."""
    outcomes: list[Outcome] = []
    with alone(shop.blobs.folder):
        for each in plans:
            outcomes.append(carry_out(shop, each, session.session_id if session else ""))
            if session is not None and session.checkpoints is not None:
                done = set(outcomes[-1].done)
                changes = [Change(step.path, step.now, step.then) for step in each.steps if step.path in done]
                session.checkpoints.noted(each.target.root, changes)
    if session is not None:
        session.environment.context.files_read.clear()
    return outcomes


def finished(shop: Workshop) -> list[Outcome]:
    """Finish what an earlier restore left when it was cut off."""
    if not rows.unfinished_restores(shop.store):
        return []
    with alone(shop.blobs.folder):
        return finish_pending(shop)


def pruned(shop: Workshop, days: int) -> tuple[int, int]:
    """Drop what is older than so many days; checkpoints and bytes that went."""
    from adderclaw.sandbox.legacy.checkpoints import saved_index

    before = moment(days)
    folder = shop.blobs.folder
    return prune(shop.store, folder, older_than=before, needed=saved_index.digests(folder))
