"""The composition root: the only file that knows every concrete part."""

import os
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from adderclaw import __version__, config, gate, providers, tools
from adderclaw.config.schema import Config
from adderclaw.credentials.redaction import Secrets
from adderclaw.errors import EXIT_CODES, AdderClawError, UsageError
from adderclaw.events import Bus
from adderclaw.kernel import prompt, resume
from adderclaw.kernel.clock import SystemClock, random_ids
from adderclaw.kernel.limits import Budget, LoopDetector
from adderclaw.kernel.session import Planning, Scene, Session, TurnResult
from adderclaw.record import record
from adderclaw.sinks import database, jsonl, log
from adderclaw.store import Store, memory, runs, settings, transcript
from adderclaw.store.ledger import Ledger
from adderclaw.types import Clock, Ids, Json, Operator, Tool, ToolContext, Workspace


@record
class Options:
    """What the command line may say over the configuration."""

    config_file: str | None = None
    workspace: str | None = None
    provider: str | None = None
    model: str | None = None
    profile: str | None = None
    log_level: str | None = None
    free_reads: bool = False


class Resume(NamedTuple):
    """Which conversation goes on: one by its id (or the beginning of it), or the last of this workspace."""

    conversation: str | None
    go_on: bool
    """No new message comes: an interrupted turn is finished."""


@dataclass(eq=False, repr=False)
class Runtime:
    options: Options
    loaded: config.Loaded
    home: str
    clock: Clock
    ids: Ids
    secrets: Secrets
    bus: Bus

    @property
    def config(self) -> Config:
        return self.loaded.config

    @property
    def key_path(self) -> str:
        return os.path.join(self.home, "receipt.key")

    def stopped(self) -> bool:
        return os.path.lexists(os.path.join(self.home, "ESTOP"))


def start(options: Options) -> Runtime:
    """Configuration and events; nothing is opened for writing yet."""
    loaded = config.load(config_file=options.config_file, workspace=options.workspace)
    clock, ids, secrets = SystemClock(), random_ids, Secrets()
    bus = Bus(clock, ids, secrets.clean, full_bodies=loaded.config.logging.debug_llm_bodies)
    level = options.log_level or loaded.config.logging.level
    bus.listen("log", log.sink(level, os.environ.get("ADDERCLAW_LOG") == "json", sys.stderr))
    runtime = Runtime(options, loaded, config.home(), clock, ids, secrets, bus)
    profile = options.profile or loaded.config.security.autonomy
    bus.tell({"event_type": "startup", "version": __version__, "pid": os.getpid(), "profile": profile})
    bus.tell({"event_type": "config_path", "paths": list(loaded.files), "warnings": list(loaded.warnings)})
    bus.tell({"event_type": "workspace_path", "path": loaded.workspace, "reason": loaded.workspace_reason})
    return runtime


# ------------------------------------------------------------------ judging


def scene(runtime: Runtime, store: Store | None, conversation_id: str = "", session_id: str = "") -> Scene:
    """All that a call is judged in. Without a store nothing can run, but everything can be explained."""
    settings_now, profile = runtime.config, runtime.options.profile
    confinement = _confinement(profile)
    extra = (*settings_now.security.additional_directories, *settings_now.permissions.additionalDirectories)
    workspace = Workspace(os.path.realpath(runtime.loaded.workspace), tuple(map(os.path.realpath, extra)))
    everything = tools.builtin(settings_now, store, runtime.clock, confined=confinement != "none")
    policy = gate.policy_of(
        settings_now,
        workspace.root,
        runtime.home,
        profile,
        sandboxed=confinement != "none",
        autonomy_set=runtime.loaded.origins.get("security.autonomy", "default") != "default",
        aliases={alias.name: tool.name for tool in everything.values() for alias in tool.aliases},
        known=everything,
        own_files=(runtime.key_path,),
    )
    return Scene(
        tools=_allowed(everything, settings_now.channels.cli.tools_allow),
        policy=policy,
        context=ToolContext(conversation_id, session_id, workspace, free_reads=runtime.options.free_reads),
        stopped=runtime.stopped,
        planning=lambda: _planning(store, conversation_id),
        protected_ids=lambda: _identities(runtime),
        confinement=confinement,
    )


def _confinement(profile: str | None) -> str:
    if profile != "sandboxed":
        return "none"
    from adderclaw.sandbox import confinement

    return confinement.required()


def _allowed(everything: Mapping[str, Tool[Any]], names: list[str]) -> dict[str, Tool[Any]]:
    if "*" in names:
        return dict(everything)
    wanted = {found[0].name for name in names if (found := tools.find(everything, name)) is not None}
    return {name: tool for name, tool in everything.items() if name in wanted}


def _planning(store: Store | None, conversation_id: str) -> Planning:
    if store is None or not conversation_id:
        return Planning("idle", plan_approved=False)
    rows = store.read(
        "SELECT c.phase, EXISTS(SELECT 1 FROM plans p WHERE p.conversation_id = c.id AND p.status = 'approved')"
        " FROM conversations c WHERE c.id = ?",
        (conversation_id,),
    )
    return Planning(rows[0][0], bool(rows[0][1])) if rows else Planning("idle", plan_approved=False)


def _identities(runtime: Runtime) -> frozenset[tuple[int, int]]:
    """What our own files are on disk, so that another name of one of them is still refused."""
    now = runtime.config
    named = ("config.toml", "trust.json", "receipt.key", "ESTOP")
    ours = [now.memory.path, now.receipts.path, *(os.path.join(runtime.home, name) for name in named)]
    found: set[tuple[int, int]] = set()
    for path in ours:
        try:
            status = os.stat(path)
        except OSError:
            continue
        found.add((status.st_dev, status.st_ino))
    return frozenset(found)


# ------------------------------------------------------------------ running


class Run(NamedTuple):
    """One execution with its run id; `finish` writes its outcome before the process ends."""

    runtime: Runtime
    session: Session

    @property
    def run_id(self) -> str:
        return self.runtime.bus.run_id

    def finish(self, result: TurnResult, *, exit_code: int | None = None) -> int:
        session, bus = self.session, self.runtime.bus
        code = EXIT_CODES[result.outcome] if exit_code is None else exit_code
        usage = session.budget.usage.as_json()
        if result.outcome in ("completed", "denied"):
            body = {"outcome": result.outcome, "mode": "agent", "reason": result.reason, "usage": usage}
            counts = {"steps": session.budget.steps, "tool_calls": session.budget.tool_calls}
            bus.tell({"event_type": "run_finished", **body, **counts})  # pyright: ignore[reportArgumentType]
        else:
            reason = result.reason.split(":")[0]
            bus.tell(
                {"event_type": "run_failed", "outcome": result.outcome, "reason": reason, "message": result.reason}
            )
        with session.store.write() as cursor:
            runs.finish(
                cursor,
                run_id=self.run_id,
                outcome=result.outcome,
                exit_code=code,
                answer=result.answer,
                usage=usage,
                reason=result.reason,
            )
        return code


@contextmanager
def opened(runtime: Runtime, operator: Operator, *, kind: str, again: Resume | None = None) -> Generator[Run]:
    """Open store, ledger, provider and session; whatever happens, everything is closed."""
    with ExitStack() as stack:
        _require_workspace(runtime)
        store = Store.open(runtime.config.memory.path)
        stack.callback(store.close)
        runtime.loaded = _with_operators_own(runtime, store)
        conversation_id, session_id = _which(runtime, store, again)
        _listen(runtime, store, stack, conversation_id, session_id)
        stack.enter_context(_locked(runtime, session_id))
        session = _session(runtime, store, operator, conversation_id, session_id)
        _begin(runtime, store, session, kind, resumed=again is not None)
        if again is not None:
            resume.restore(session, go_on=again.go_on)
        yield Run(runtime, session)


def _require_workspace(runtime: Runtime) -> None:
    """The workspace of the defaults is made when it is first needed; one that somebody named must be there."""
    workspace = runtime.loaded.workspace
    if os.path.isdir(workspace):
        return
    if runtime.loaded.origins.get("workspace_dir", "default") == "default" and workspace == runtime.config.workspace_dir:
        try:
            os.makedirs(workspace, exist_ok=True)
            return
        except OSError as error:
            raise AdderClawError(f"the workspace {workspace} cannot be made: {error.strerror}") from error
    raise UsageError(f"the workspace {workspace} is not there; make it, run `adderclaw init`, or name another")


def _with_operators_own(runtime: Runtime, store: Store) -> config.Loaded:
    """An `effective` row that somebody else wrote is the operator's: it stands until `config reload`."""
    own = settings.operators_own(store)
    if own is None:
        return runtime.loaded
    message = "the operator's own settings_snapshot row 'effective' is used; `adderclaw config reload` drops it"
    runtime.bus.tell({"event_type": "warning", "message": message})
    return config.with_snapshot(runtime.loaded, own)


def _which(runtime: Runtime, store: Store, again: Resume | None) -> tuple[str, str]:
    if again is None:
        return runtime.ids("conversation"), runtime.ids("session")
    if again.conversation is None:
        found = transcript.last_conversation(store, runtime.loaded.workspace)
        if found is None:
            raise UsageError(f"no conversation to continue in {runtime.loaded.workspace}; begin one with `agent -m`")
    else:
        found = transcript.conversation_of(store, again.conversation)
        if found is None:
            raise UsageError(f"no conversation {again.conversation!r}; `adderclaw memory list` shows them")
    return found, transcript.sessions_of(store, found)[-1]


def _listen(runtime: Runtime, store: Store, stack: ExitStack, conversation_id: str, session_id: str) -> None:
    bus = runtime.bus
    bus.conversation_id, bus.session_id = conversation_id, session_id
    bus.listen("database", database.sink(store))
    folder = os.path.join(runtime.home, "runs")
    write, close = jsonl.sink(folder)
    stack.callback(close)
    bus.listen("jsonl", write)
    bus.settled()


@contextmanager
def _locked(runtime: Runtime, session_id: str) -> Generator[None]:
    """One process at a time works in a session; the lock goes with the process, however it ends."""
    import fcntl

    folder = os.path.join(runtime.home, "locks")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, f"{session_id}.lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
        os.unlink(path)
    except BlockingIOError as error:
        raise AdderClawError(f"session {session_id} is in use by another process; wait for it or end it") from error
    finally:
        os.close(descriptor)


def _session(runtime: Runtime, store: Store, operator: Operator, conversation_id: str, session_id: str) -> Session:
    now, options = runtime.config, runtime.options
    name = options.provider or now.default_provider
    provider = providers.make(name, now, secrets=runtime.secrets, tell=runtime.bus.tell, clock=runtime.clock)
    model = options.model or now.providers.models[name].model or now.default_model
    here = scene(runtime, store, conversation_id, session_id)
    return Session(
        config=now,
        scene=here,
        store=store,
        ledger=_ledger(runtime, store),
        bus=runtime.bus,
        provider=provider,
        model=model,
        prompt=prompt.compose(here.context.workspace.root, memory.context(store), here.tools.values()),
        operator=operator,
        budget=Budget(now.limits, runtime.clock),
        loops=LoopDetector(now.runtime.loop_warn_at, now.runtime.loop_stop_at),
        clock=runtime.clock,
        ids=runtime.ids,
        secrets=runtime.secrets,
        warm=_warm_once(),
    )


def _ledger(runtime: Runtime, store: Store) -> Ledger | None:
    receipts = runtime.config.receipts
    if not receipts.enabled:
        message = "receipts are off (receipts.enabled = false): what tools did cannot be verified"
        runtime.bus.tell({"event_type": "warning", "message": message})
        return None
    ledger = Ledger.open(receipts.path, store, runtime.key_path, clock=runtime.clock, ids=runtime.ids)
    for repair in ledger.repairs:
        runtime.bus.tell({"event_type": "warning", "message": repair})
    return ledger


def _begin(runtime: Runtime, store: Store, session: Session, kind: str, *, resumed: bool) -> None:
    """The rows that a run stands on, in one transaction."""
    effective = config.snapshot(runtime.loaded)
    with store.write() as cursor:
        transcript.begin(
            cursor,
            conversation_id=session.conversation_id,
            session_id=session.session_id,
            project_dir=runtime.loaded.workspace,
        )
        settings.snapshot(cursor, f"effective:{session.session_id}", effective)
        settings.import_effective(cursor, effective)
        runs.begin(
            cursor,
            run_id=runtime.bus.run_id,
            kind=kind,
            conversation_id=session.conversation_id,
            session_id=session.session_id,
            pid=os.getpid(),
        )
    bus = runtime.bus
    bus.tell({"event_type": "provider_selected", "provider": session.provider.name, "model": session.model})
    bus.tell({"event_type": "channel_started", "channel": "cli"})
    ids: Json = {"conversation_id": session.conversation_id, "session_id": session.session_id}
    bus.tell({"event_type": "conversation_started", "resumed": resumed, **ids})  # pyright: ignore[reportArgumentType]
    bus.tell({"event_type": "run_started", "mode": kind, "task": ""})


NEXT_NEEDED = ("subprocess", "pydantic", "tree_sitter", "tree_sitter_bash", "adderclaw.decode")


def _warm_once() -> Callable[[], None]:
    """Import what the first tool call needs, once, in a thread, while the model thinks."""
    waiting = list(NEXT_NEEDED)

    def imports() -> None:
        from importlib import import_module

        while waiting:
            import_module(waiting.pop(0))

    def warm() -> None:
        if waiting:
            import threading

            threading.Thread(target=imports, daemon=True).start()

    return warm
