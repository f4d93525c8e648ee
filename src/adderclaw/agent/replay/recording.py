"""Gives a session its tape, and says what it begins with: all that a replay cannot read from the other rows."""

import os
from collections.abc import Callable
from contextlib import suppress
from sqlite3 import Cursor

from adderclaw import __version__
from adderclaw.agent.replay.recorder import Recorder, SeededIds, described
from adderclaw.agent.session.session import Session
from adderclaw.agent.tool_call.approvals import PersistentApprovals
from adderclaw.core.errors import StoreError
from adderclaw.core.events import Bus
from adderclaw.core.overseer import NO_SUPERVISOR
from adderclaw.core.tool_traits import NAMES
from adderclaw.core.types import Clock, Json
from adderclaw.storage import Store, runs, settings, tape

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


class Recording:
    """What of a run is written down for a replay: what reaches its sessions, and what it left when it ended."""

    def __init__(self, store: Store, bus: Bus, clock: Clock, stopped: Callable[[], bool], home: str) -> None:
        self._store, self._bus, self._clock = store, bus, clock
        self._stopped, self.home = stopped, home
        self.marks = _marks(store)
        """Where the tables stood when the run began."""
        self._imprinted: dict[str, int] | None = None

    def attach(self, session: Session, channel: str) -> None:
        """From here on the session notes what reaches it."""

        def head(of: Session) -> Callable[[Cursor], Json]:
            return _head(self, of, recorder.ids, channel)

        recorder = Recorder(session.store, self._bus.run_id, session.session_id, self._clock, head)
        session.tape, session.ids = recorder, recorder.ids
        session.environment.stopped = recorder.watching(self._stopped)

    def now(self) -> float:
        return self._clock.now()

    def imprint(self, cursor: Cursor) -> None:
        """The run ends: what it left is to stay as it is."""
        from adderclaw.storage.ledger import imprints

        run_id = self._bus.run_id
        imprints.store_imprint(cursor, run_id, tape.first_head(self._store, run_id).get("marks") or self.marks)
        self._imprinted = _marks(self._store)

    def imprint_late(self) -> None:
        """What was told and done since then (hooks of SessionEnd) is to stay, too."""
        if self._imprinted is None:
            return
        with suppress(StoreError), self._store.write() as cursor:  # the run has ended, and need not end badly for it
            if _marks(self._store) != self._imprinted:
                self.imprint(cursor)


def _head(run: Recording, session: Session, ids: SeededIds, channel: str) -> Callable[[Cursor], Json]:
    """Everything is taken now, and written down with the first reply: the first request does not wait for it."""
    environment, prompt, config = session.environment, session.prompt, session.config
    policy, workspace = environment.policy, environment.context.workspace
    body: Json = {
        "format": FORMAT,
        "version": __version__,
        "seed": ids.seed,
        "time": run.now(),
        "policy": [policy.autonomy, policy.autonomy_set, policy.mode],
        "tools": list(environment.tools),
        "late": [name for name, tool in environment.tools.items() if tool.deferred],
        "external": [described(tool) for name, tool in environment.tools.items() if name not in NAMES],
        "hooks": list(session.hooks),
        "announce": len(session.instructions.unannounced) if session.instructions is not None else None,
        "place": [workspace.root, list(workspace.extra), workspace.cwd],
        "free_reads": environment.context.free_reads,
        "confinement": environment.confinement,
        "at_terminal": environment.at_terminal,
        "stopped": environment.stopped(),
        "arrives": environment.wait_for_tool is not None,
        "channel": channel,
        "asks": isinstance(session.operator, PersistentApprovals),
        "receipts": session.ledger is not None,
        "agent": [session.agent_id, session.agent_type, session.depth],
        "began": session.start_source,
        "setup": session.setup_trigger,
        "due": list(session.state.due_texts),
        "cached": session.state.cached_tokens,
        "rounds": session.state.rounds,
        "plugins": [
            [plugin.name, plugin.plugin.version, plugin.plugin.sha256, plugin.root]
            for plugin in environment.kit.plugins
        ],
        "marks": run.marks,
        "home": run.home,
        "user_home": os.path.expanduser("~"),
        "history": session.state.history.digest(b""),
        "from": runs.table_positions(session.store.read, session.session_id),
    }
    if session.budget.cost_set_in:
        body["cost_set_in"] = session.budget.cost_set_in
    if session.supervisor is not NO_SUPERVISOR:
        body |= {"moves": True, "stays": session.state.stays}

    def write(cursor: Cursor) -> Json:
        from adderclaw.core.decode import freeze
        from adderclaw.storage.text import compact

        specs = [[tool.name, tool.description, tool.parameters] for tool in prompt.tools]
        texts: Json = {
            "config": session.secrets.scrub_all(freeze(config)),
            "judged_by": environment.policy_inputs,
            "prompt": [prompt.system, specs, prompt.tool_choice, prompt.response_schema],
        }
        stored = {name: tape.store_text(cursor, compact(value)) for name, value in texts.items()}
        return {**body, **stored, "settings": settings.digest_of(cursor, f"effective:{session.session_id}")}

    return write


def _marks(store: Store) -> dict[str, int]:
    """How far the tables go that only ever grow."""
    return tape.last_rows(store, GROWING)
