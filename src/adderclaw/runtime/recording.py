"""Gives a session its tape, and says what it begins with: all that a replay cannot read from the other rows."""

import os
from collections.abc import Callable
from contextlib import suppress
from sqlite3 import Cursor

from adderclaw import __version__
from adderclaw.errors import StoreError
from adderclaw.kernel.approvals import Durable
from adderclaw.kernel.session import Session
from adderclaw.kernel.tape import SeededIds, Tape, described
from adderclaw.runtime.start import Runtime
from adderclaw.store import Store, settings, tape
from adderclaw.tools import NAMES
from adderclaw.types import Json

FORMAT = 1
"""Of what a tape holds; one of another format cannot be replayed by this version."""
UNRECORDED = frozenset({"tool", "mcp"})
"""Kinds of runs that call tools without any turn."""
GROWING = (
    "events",
    "transcript_entries",
    "opaque_blocks",
    "model_calls",
    "tool_permission_log",
    "hook_invocations",
)
_MARKS = "SELECT " + ", ".join(f"(SELECT coalesce(max(rowid), 0) FROM {name})" for name in GROWING)  # noqa: S608


def attach(runtime: Runtime, session: Session, channel: str) -> None:
    """From here on the session notes what reaches it."""

    def head(of: Session) -> Callable[[Cursor], Json]:
        return _head(runtime, of, made.ids, channel)

    made = Tape(session.store, runtime.bus.run_id, session.session_id, runtime.clock, head)
    session.tape, session.ids = made, made.ids
    session.scene.stopped = made.watching(runtime.stopped)


def _head(runtime: Runtime, session: Session, ids: SeededIds, channel: str) -> Callable[[Cursor], Json]:
    """Everything is taken now, and written down with the first reply: the first request does not wait for it."""
    here, prompt, config = session.scene, session.prompt, session.config
    policy, place = here.policy, here.context.workspace
    body: Json = {
        "format": FORMAT,
        "version": __version__,
        "seed": ids.seed,
        "time": runtime.clock.now(),
        "policy": [policy.autonomy, policy.autonomy_set, policy.mode],
        "tools": list(here.tools),
        "late": [name for name, tool in here.tools.items() if tool.deferred],
        "external": [described(tool) for name, tool in here.tools.items() if name not in NAMES],
        "hooks": list(session.hooks),
        "announce": len(session.instructions.unannounced) if session.instructions is not None else None,
        "place": [place.root, list(place.extra), place.cwd],
        "free_reads": here.context.free_reads,
        "confinement": here.confinement,
        "at_terminal": here.at_terminal,
        "stopped": here.stopped(),
        "arrives": here.arrive is not None,
        "channel": channel,
        "asks": isinstance(session.operator, Durable),
        "receipts": session.ledger is not None,
        "agent": [session.agent_id, session.agent_type, session.depth],
        "began": session.began,
        "setup": session.setup,
        "due": list(session.state.due),
        "cached": session.state.cached_tokens,
        "rounds": session.state.rounds,
        "marks": runtime.marks,
        "home": runtime.home,
        "user_home": os.path.expanduser("~"),
        "history": session.state.history.digest(b""),
        "from": places(session.store, session.session_id),
    }

    def write(cursor: Cursor) -> Json:
        from adderclaw.decode import freeze
        from adderclaw.store.text import compact

        specs = [[tool.name, tool.description, tool.parameters] for tool in prompt.tools]
        texts: Json = {
            "config": session.secrets.scrub_all(freeze(config)),
            "judged_by": here.made_of,
            "prompt": [prompt.system, specs, prompt.tool_choice, prompt.response_schema],
        }
        kept = {name: tape.keep_text(cursor, compact(value)) for name, value in texts.items()}
        return {**body, **kept, "settings": settings.digest_of(cursor, f"effective:{session.session_id}")}

    return write


def marks(store: Store) -> dict[str, int]:
    """How far the tables go that only ever grow."""
    return dict(zip(GROWING, store.read(_MARKS)[0], strict=True))


def imprint(runtime: Runtime, store: Store, cursor: Cursor) -> None:
    """The run ends: what it left is to stay as it is."""
    if runtime.marks is not None:
        from adderclaw.store import imprints

        run_id = runtime.bus.run_id
        imprints.take(cursor, run_id, tape.first(store, run_id).get("marks") or runtime.marks)
        runtime.imprinted = marks(store)


def imprint_late(runtime: Runtime, store: Store) -> None:
    """What was told and done since then (hooks of SessionEnd) is to stay, too."""
    if runtime.imprinted is None:
        return
    with suppress(StoreError), store.write() as cursor:  # the run has ended, and need not end badly for it
        if marks(store) != runtime.imprinted:
            imprint(runtime, store, cursor)


def places(store: Store, session_id: str) -> Json:
    """Where each table of a session goes on."""
    (row,) = store.read(
        "SELECT (SELECT coalesce(max(sequence) + 1, 0) FROM transcript_entries WHERE session_id = ?),"
        " (SELECT coalesce(max(id), 0) FROM model_calls),"
        " (SELECT coalesce(max(seq), 0) FROM receipts WHERE archive = ''),"
        " (SELECT coalesce(max(rowid), 0) FROM tool_permission_log),"
        " (SELECT coalesce(max(id), 0) FROM events)",
        (session_id,),
    )
    return dict(zip(("entries", "calls", "receipts", "permissions", "events"), row, strict=True))
