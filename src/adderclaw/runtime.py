"""The composition root: the only file that knows every concrete part."""

import os
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from adderclaw import __version__, config, gate, providers, tools
from adderclaw.config.catalog import Prices
from adderclaw.config.schema import Config
from adderclaw.credentials.redaction import Secrets
from adderclaw.credentials.sources import Sources
from adderclaw.errors import EXIT_CODES, AdderClawError, ProviderError, UsageError
from adderclaw.events import Bus
from adderclaw.kernel import prompt, resume
from adderclaw.kernel.clock import SystemClock, random_ids
from adderclaw.kernel.limits import Budget, LoopDetector, Pace
from adderclaw.kernel.session import Planning, Scene, Session, TurnResult
from adderclaw.record import record
from adderclaw.sinks import database, jsonl, log
from adderclaw.store import Store, memory, runs, settings, transcript
from adderclaw.store.ledger import Ledger
from adderclaw.types import (
    ChatRequest,
    ChatResponse,
    Clock,
    Ids,
    Json,
    OnDelta,
    Operator,
    Provider,
    ProviderCapabilities,
    Tool,
    ToolContext,
    Workspace,
    canonical,
)

if TYPE_CHECKING:
    from adderclaw.sandbox.holder import Box
    from adderclaw.sandbox.process import Order, Start, Started


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
    bare: bool = False
    """Keys only from the environment and the operator's own helper: no login, no keyring."""


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
    credentials: Sources
    bus: Bus
    box: "Box | None" = None
    """The sandbox of the session's commands."""

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
    sources = credentials(options, loaded, secrets, clock)
    runtime = Runtime(options, loaded, config.home(), clock, ids, secrets, sources, bus)
    profile = options.profile or loaded.config.security.autonomy
    bus.tell({"event_type": "startup", "version": __version__, "pid": os.getpid(), "profile": profile})
    bus.tell({"event_type": "config_path", "paths": list(loaded.files), "warnings": list(loaded.warnings)})
    bus.tell({"event_type": "workspace_path", "path": loaded.workspace, "reason": loaded.workspace_reason})
    return runtime


def credentials(options: Options, loaded: config.Loaded, secrets: Secrets, clock: Clock) -> Sources:
    """Where keys come from; those in the environment are known to the redaction from here on."""
    home = config.home()
    given = options.config_file and os.path.abspath(os.path.expanduser(options.config_file))
    own = (given, os.path.expanduser("~/.config/adderclaw/agent.yaml"), "default")

    def operators_own(key: str) -> bool:
        origin = loaded.origins.get(key, "default")
        return origin in own or os.path.dirname(origin) == home

    sources = Sources(
        secrets,
        clock,
        auth=loaded.config.auth,
        home=home,
        workspace=loaded.workspace,
        bare=options.bare,
        operators_own=operators_own,
    )
    sources.register(loaded.config.providers.models)
    return sources


# ------------------------------------------------------------------ judging


def scene(
    runtime: Runtime,
    store: Store | None,
    conversation_id: str = "",
    session_id: str = "",
    *,
    policies: tuple[Json, ...] | None = None,
) -> Scene:
    """All that a call is judged in. Without a store nothing can run, but everything can be explained.

    `policies` stand in place of the policy.toml files that were found.
    """
    settings_now, profile = runtime.config, runtime.options.profile
    confinement = _confinement(runtime)
    extra = (*settings_now.security.additional_directories, *settings_now.permissions.additionalDirectories)
    workspace = Workspace(os.path.realpath(runtime.loaded.workspace), tuple(map(os.path.realpath, extra)))
    start = None if confinement == "none" else _starter(runtime, confinement, workspace)
    everything = tools.builtin(settings_now, store, runtime.clock, start=start)
    policy = gate.policy_of(
        settings_now,
        workspace.root,
        runtime.home,
        profile,
        sandboxed=confinement != "none",
        autonomy_set=runtime.loaded.origins.get("security.autonomy", "default") != "default",
        aliases={alias.name: tool.name for tool in everything.values() for alias in tool.aliases},
        known=everything,
        own_files=(runtime.key_path, *(file["file"] for file in runtime.loaded.policies)),
        policies=runtime.loaded.policies if policies is None else policies,
    )
    return Scene(
        tools=_allowed(everything, settings_now.channels.cli.tools_allow),
        policy=policy,
        context=ToolContext(
            conversation_id, session_id, workspace, free_reads=runtime.options.free_reads, hidden=gate.hides(policy)
        ),
        stopped=runtime.stopped,
        planning=lambda: _planning(store, conversation_id),
        protected_ids=lambda: _identities(runtime),
        confinement=confinement,
        pace=Pace(runtime.clock),
    )


def _confinement(runtime: Runtime) -> str:
    """What commands run in. Only the operator's own word turns it off: the flag, or the file at home."""
    from adderclaw.sandbox import confinement

    off = runtime.config.runtime.profile == "permissive"
    profile = runtime.options.profile or ("permissive" if off else None)
    return confinement.chosen(profile, lambda message: _warn(runtime, message))


def _starter(runtime: Runtime, kind: str, workspace: Workspace) -> "Start":
    """Starts commands in the session's sandbox, which is made with the first one."""

    def start(order: "Order") -> "Started":
        if runtime.box is None:
            runtime.box = _box(runtime, kind, workspace)
        return runtime.box.start(order)

    return start


def _box(runtime: Runtime, kind: str, workspace: Workspace) -> "Box":
    from adderclaw.gate import hosts
    from adderclaw.sandbox import confinement
    from adderclaw.sandbox.bubblewrap import Room
    from adderclaw.sandbox.proxy import Proxy

    now, autonomy = runtime.config, runtime.options.profile or runtime.config.security.autonomy
    domains = tuple(now.security.allowed_domains)
    own = (now.memory.path, now.receipts.path, runtime.key_path)
    room = Room(
        roots=(workspace.root, *workspace.extra),
        hidden=tuple(f"{path}{end}" for path in own for end in ("", "-wal", "-shm", ".lock", ".head")),
        read_only=autonomy == "readonly",
        network=now.security.network == "allow",
    )

    def judge(host: str, port: int, addresses: list[str] | None) -> str | None:
        return hosts.tunnel(host, port, addresses, domains)

    def tell(message: str) -> None:
        _warn(runtime, message)

    proxy = Proxy(judge, tell=tell) if domains else None
    return confinement.box(kind, room, proxy=proxy, tell=tell)


def _warn(runtime: Runtime, message: str) -> None:
    runtime.bus.tell({"event_type": "warning", "message": message})


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
    named = ("config.toml", "trust.json", "receipt.key", "credentials.enc", "credentials.key", "ESTOP")
    ours = [now.memory.path, now.receipts.path, *(os.path.join(runtime.home, name) for name in named)]
    ours += [file["file"] for file in runtime.loaded.policies]
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

    async def switch(self, wanted: str) -> None:
        """Another model from the next call on: an entry's name, `entry/model`, or a model of the entry in use."""
        session = self.session
        chosen = providers.choice(wanted, session.config, session.provider.name)
        if chosen.provider != session.provider.name:
            left, session.provider = session.provider, _provider(self.runtime, chosen.provider)
            await left.close()
        session.model, session.cached_tokens = chosen.model, 0
        self.runtime.bus.tell({"event_type": "provider_selected", **chosen._asdict()})  # pyright: ignore[reportArgumentType]

    def finish(self, result: TurnResult, *, exit_code: int | None = None) -> int:
        session, bus = self.session, self.runtime.bus
        code = EXIT_CODES[result.outcome] if exit_code is None else exit_code
        usage = session.budget.usage.as_json()
        if result.outcome in ("completed", "denied"):
            body = {"outcome": result.outcome, "mode": "agent", "reason": result.reason, "usage": usage}
            counts = {
                "steps": session.budget.steps,
                "tool_calls": session.budget.tool_calls,
                "cost": session.budget.cost,
            }
            bus.tell({"event_type": "run_finished", **body, **counts})  # pyright: ignore[reportArgumentType]
        else:
            reason = result.reason.replace(",", ":").split(":")[0]
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
                cost=session.budget.cost,
            )
        return code


@contextmanager
def opened(
    runtime: Runtime, operator: Operator, *, kind: str, channel: str = "cli", again: Resume | None = None
) -> Generator[Run]:
    """Open store, ledger, provider and session; whatever happens, everything is closed."""
    with ExitStack() as stack:
        _require_workspace(runtime)
        store = Store.open(runtime.config.memory.path)
        stack.callback(store.close)
        conversation_id, session_id = _which(runtime, store, again)
        runtime.loaded = _in_its_workspace(runtime, store, conversation_id)
        runtime.loaded = _with_operators_own(runtime, store)
        runtime.credentials = credentials(runtime.options, runtime.loaded, runtime.secrets, runtime.clock)
        _listen(runtime, store, stack, conversation_id, session_id)
        stack.enter_context(_locked(runtime, session_id))
        provider = _Unasked() if kind == "tool" else None
        session = _session(runtime, store, operator, conversation_id, session_id, provider)
        stack.callback(lambda: runtime.box and runtime.box.close())
        if kind != "tool":  # there the operator has answered already, by typing the call
            session.operator = _durable(runtime, session, channel)
        _begin(runtime, store, session, kind, channel, resumed=again is not None)
        if again is not None:
            resume.restore(session, go_on=again.go_on)
        yield Run(runtime, session)


def _require_workspace(runtime: Runtime) -> None:
    """The workspace of the defaults is made when it is first needed; one that somebody named must be there."""
    workspace = runtime.loaded.workspace
    if os.path.isdir(workspace):
        return
    if (
        runtime.loaded.origins.get("workspace_dir", "default") == "default"
        and workspace == runtime.config.workspace_dir
    ):
        try:
            os.makedirs(workspace, exist_ok=True)
            return
        except OSError as error:
            raise AdderClawError(f"the workspace {workspace} cannot be made: {error.strerror}") from error
    raise UsageError(f"the workspace {workspace} is not there; make it, run `adderclaw init`, or name another")


def _in_its_workspace(runtime: Runtime, store: Store, conversation_id: str) -> config.Loaded:
    """A conversation goes on where it was held, wherever we stand, unless another workspace is named."""
    rows = store.read("SELECT project_dir FROM conversations WHERE id = ?", (conversation_id,))
    if not rows or rows[0][0] == runtime.loaded.workspace or runtime.options.workspace is not None:
        return runtime.loaded
    place = rows[0][0]
    if not os.path.isdir(place):
        raise UsageError(f"the conversation's workspace {place} is gone; name another with --workspace")
    loaded = config.load(config_file=runtime.options.config_file, workspace=place)
    runtime.bus.tell({"event_type": "workspace_path", "path": place, "reason": "where the conversation was held"})
    return loaded


class _Unasked:
    """Stands where a tool is run by hand: no model is asked, so none needs to be set up."""

    name = "none"

    def capabilities(self) -> ProviderCapabilities:
        return ProviderCapabilities(streaming=False, tools=False, tool_choice=False)

    async def chat(self, request: ChatRequest, on_delta: OnDelta) -> ChatResponse:  # noqa: ARG002
        raise ProviderError("invalid_request", "a tool that is run by hand has no model to ask", provider=self.name)

    async def count(self, request: ChatRequest) -> int | None:  # noqa: ARG002
        return None

    async def close(self) -> None:
        return None


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
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            fix = "wait for it, or end it"
            raise AdderClawError(f"session {session_id} is in use by another process; {fix}") from error
        try:
            if os.path.samestat(os.stat(path), os.fstat(descriptor)):
                break
        except FileNotFoundError:
            pass
        os.close(descriptor)  # whoever held it has just removed it: what we locked is no longer the lock
    try:
        yield
    finally:
        os.unlink(path)
        os.close(descriptor)


def _session(
    runtime: Runtime,
    store: Store,
    operator: Operator,
    conversation_id: str,
    session_id: str,
    provider: Provider | None,
) -> Session:
    now, options = runtime.config, runtime.options
    chosen = _chosen(options, now)
    here = scene(runtime, store, conversation_id, session_id)
    return Session(
        config=now,
        scene=here,
        store=store,
        ledger=_ledger(runtime, store),
        bus=runtime.bus,
        provider=provider or _provider(runtime, chosen.provider),
        model=chosen.model,
        prompt=prompt.compose(here.context.workspace.root, memory.context(store), here.tools.values()),
        operator=operator,
        budget=Budget(now.limits, runtime.clock, Prices(now)),
        loops=LoopDetector(now.runtime.loop_warn_at, now.runtime.loop_stop_at),
        clock=runtime.clock,
        ids=runtime.ids,
        secrets=runtime.secrets,
        home=runtime.home,
        warm=_warm_once(),
        keep_body=_body_keeper(runtime) if now.logging.debug_llm_bodies else None,
    )


TERMINALS = frozenset({"cli", "repl"})
"""Channels at which a person sits: there a question waits as long as it takes."""
ELSEWHERE = 300.0
"""Seconds that a question waits on any other channel, unless the operator says otherwise."""


def _durable(runtime: Runtime, session: Session, channel: str) -> Operator:
    """The channel's operator, whose questions another process may answer, too."""
    from adderclaw.kernel.approvals import Durable

    seconds = runtime.config.security.approval_timeout_seconds or (None if channel in TERMINALS else ELSEWHERE)
    return Durable(
        session.operator,
        session.store,
        session.session_id,
        clock=runtime.clock,
        ids=runtime.ids,
        scrub=runtime.secrets.scrub,
        stopped=runtime.stopped,
        seconds=seconds,
    )


def _chosen(options: Options, now: Config) -> providers.Choice:
    if options.provider:
        return providers.Choice(options.provider, options.model or providers.model_of(options.provider, now))
    return providers.choice(options.model or now.default_provider, now, now.default_provider)


def _provider(runtime: Runtime, name: str) -> Provider:
    return providers.make(
        name,
        runtime.config,
        secrets=runtime.secrets,
        tell=runtime.bus.tell,
        clock=runtime.clock,
        credentials=runtime.credentials,
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


def _begin(runtime: Runtime, store: Store, session: Session, kind: str, channel: str, *, resumed: bool) -> None:
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
    for warning in session.scene.policy.rules.warnings:
        bus.tell({"event_type": "warning", "message": warning})
    bus.tell({"event_type": "provider_selected", "provider": session.provider.name, "model": session.model})
    bus.tell({"event_type": "channel_started", "channel": channel})
    ids: Json = {"conversation_id": session.conversation_id, "session_id": session.session_id}
    bus.tell({"event_type": "conversation_started", "resumed": resumed, **ids})  # pyright: ignore[reportArgumentType]
    bus.tell({"event_type": "run_started", "mode": kind, "task": ""})


def _body_keeper(runtime: Runtime) -> Callable[[str, Json], None]:
    """Whole requests and answers beside the events of the run, without secrets: for whoever asked to see them."""
    folder = os.path.join(runtime.home, "runs", runtime.bus.run_id)

    def keep(name: str, body: Json) -> None:
        descriptor = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(canonical(runtime.secrets.clean(body)))

    return keep


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
