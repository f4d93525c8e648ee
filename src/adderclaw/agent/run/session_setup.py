"""Assembles a session from its parts: provider, ledger, prompt, budget, operator."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from adderclaw.agent.loop import lifecycle
from adderclaw.agent.session import prompt
from adderclaw.agent.session.instructions import Instructions, scrubbed_text
from adderclaw.agent.session.limits import Budget, LoopDetector
from adderclaw.agent.session.session import Chain, Rows, Session, State
from adderclaw.agent.tool_call.hooks import AFTER_EDIT
from adderclaw.config.model_facts.catalogue import Prices
from adderclaw.config.places import FLAGS
from adderclaw.core.errors import PathRefused, ProviderError
from adderclaw.core.host import ChildReport, ChildRequest, HookOutcome
from adderclaw.core.json_text import canonical
from adderclaw.core.questions import Answer, ApprovalRequest, Operator, QuestionRequest
from adderclaw.core.tool_traits import BASH
from adderclaw.core.types import (
    ChatRequest,
    ChatResponse,
    Effort,
    Json,
    OnDelta,
    Provider,
    ProviderCapabilities,
    Tool,
    ToolResult,
)
from adderclaw.models import providers
from adderclaw.sandbox import programs, workspace
from adderclaw.sandbox.legacy.checkpoints import Checkpoints
from adderclaw.storage import Store, memory
from adderclaw.storage.ledger.ledger import Ledger
from adderclaw.tools import CHECKER_FILES

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from adderclaw.core.host import Resources
    from adderclaw.sandbox.legacy.checkpoints.tracker import Tracker
    from adderclaw.tools.background import Tasks
from adderclaw.agent.replay.recorder import recorded_hooks
from adderclaw.agent.run import configured_hooks
from adderclaw.agent.run.start import Runtime, chosen_model, open_provider, warn
from adderclaw.agent.run.tool_environment import tool_environment


class NoModelProvider:
    """The provider of a tool that a person runs: no model is asked, so none needs to be configured."""

    name = "none"

    def capabilities(self) -> ProviderCapabilities:
        return ProviderCapabilities(streaming=False, tools=False, tool_choice=False)

    async def chat(self, request: ChatRequest, on_delta: OnDelta) -> ChatResponse:  # noqa: ARG002
        raise ProviderError("invalid_request", "a tool that is run by hand has no model to ask", provider=self.name)

    async def count(self, request: ChatRequest) -> int | None:  # noqa: ARG002
        return None

    async def ready(self) -> None:
        return None

    async def close(self) -> None:
        return None


def make_session(
    runtime: Runtime,
    store: Store,
    operator: Operator,
    conversation_id: str,
    session_id: str,
    provider: Provider | None,
    closing: ExitStack,
) -> Session:
    """Assemble a session; `closing` closes what it opens."""
    now, options = runtime.config, runtime.options
    chosen = chosen_model(options, now)
    environment = tool_environment(runtime, store, conversation_id, session_id)
    programs.remember_workspaces((environment.context.workspace.root, *environment.context.workspace.extra))
    if environment.kit.tasks is not None:
        closing.callback(environment.kit.tasks.release)
    root = environment.context.workspace.root
    unapproved = runtime.later.unapproved if runtime.later is not None else frozenset[str]
    files = None if options.bare else Instructions(runtime.home, root, environment.context.is_hidden, unapproved)
    if files is not None and runtime.later is not None:
        runtime.later.imported = files.imported
        if runtime.looker is not None:
            runtime.looker.imported = files.imported
    session = Session(
        config=now,
        environment=environment,
        store=store,
        ledger=_ledger(runtime, store, closing),
        bus=runtime.bus,
        provider=provider or open_provider(runtime, chosen.provider),
        model=chosen.model,
        prompt=prompt.compose_prompt(
            root,
            memory.context(store, root),
            environment.offered_tools.values(),
            instructions=scrubbed_text(files, runtime.secrets),
        ),
        operator=operator,
        budget=Budget(now.limits, runtime.clock, Prices(now), options.supervisor, cost_set_in=cost_set_in(runtime)),
        state=State(LoopDetector(now.runtime.loop_warn_at, now.runtime.loop_stop_at)),
        thinking=options.thinking,
        clock=runtime.clock,
        ids=runtime.ids,
        secrets=runtime.secrets,
        home=runtime.home,
        managed=runtime.loaded.managed,
        supervisor=options.supervisor,
        warm=_warm_up_once(environment.kit.begin if BASH in environment.offered_tools else None),
        save_body=_body_writer(runtime) if now.logging.debug_llm_bodies else None,
    )
    session.set_host(SessionHost(runtime, session))
    environment.at_terminal = bool(getattr(operator, "at_terminal", False))
    session.instructions, session.call_back = files, options.call_back
    session.checkpoints = _checkpoints(runtime, store) if now.checkpoints.enabled else None
    if session.checkpoints is not None and environment.kit.tasks is not None:
        session.checkpoints.background = _busy_tasks(environment.kit.tasks)
    session.hooks = hooks_of(runtime, session)
    if runtime.servers is not None:
        from adderclaw.agent.run import servers

        servers.attach(runtime, session, runtime.servers)
    return session


def hooks_of(runtime: Runtime, session: Session) -> Mapping[str, Chain]:
    """The session's hooks, the checks after an edit, and the judge of its goal."""
    checks = _checks(runtime, session.environment.context.workspace.root)
    return recorded_hooks({**_configured(runtime, session), **checks, lifecycle.GOAL: _judge_goal})


async def _judge_goal(session: Session, fields: Json, rows: Rows | None) -> HookOutcome:
    from adderclaw.agent.loop import goals

    return await goals.judge_goal(session, fields, rows)


def _configured(runtime: Runtime, session: Session) -> Mapping[str, Chain]:
    """The configured hooks. Nothing is imported if there are none."""
    loaded = runtime.loaded
    if not configured_hooks.are_any(runtime) and not loaded.held_hooks and not runtime.options.own_hooks:
        return {}
    from adderclaw.agent.loop import lifecycle
    from adderclaw.agent.tool_call import session_hooks
    from adderclaw.tools.hooks import matching, settings

    hooks = configured_hooks.read(runtime)
    settings.require_shells(hooks, configured_hooks.roots(runtime))
    configured_hooks.warn_of_refused_hooks(runtime, hooks)
    for hook in hooks:
        if why := matching.never_matches_reason(hook.event, hook.matcher):
            warn(runtime, f"hook {hook.ordinal} of {hook.source} never runs: {why}")
    for path in loaded.files:
        session.settings_files[path] = (_settings_source(runtime, path), lifecycle.file_stamp(path))
    if any(hook.event == "ConfigChange" for hook in hooks):
        from adderclaw.agent.run import skills

        for path in skills.files(runtime):
            session.settings_files[path] = ("skills", lifecycle.file_stamp(path))
    names = [name for hook in hooks if hook.event == "FileChanged" for name in hook.matcher.split("|")]
    lifecycle.watch_paths(session, [name for name in names if name and name != "*"])
    return session_hooks.hook_table(hooks)


def _checks(runtime: Runtime, root: str) -> Mapping[str, Chain]:
    """The project's checkers that run after an edit. Nothing is imported if no file configures one."""
    if runtime.options.bare or not runtime.config.after_edit.check:
        return {}
    there = {name for name in CHECKER_FILES if workspace.is_named(os.path.join(root, name))}
    if not there:
        return {}
    from adderclaw.agent.run.after_edit import Checks

    return {AFTER_EDIT: Checks(runtime, root, there).fire}


def _settings_source(runtime: Runtime, path: str) -> str:
    if not path.startswith(os.path.join(runtime.loaded.workspace, "")):
        return "user_settings"
    name = os.path.basename(path)
    if name == "policy.toml":
        return "policy_settings"
    return "local_settings" if ".local." in name else "project_settings"


async def ask_small_model(
    runtime: Runtime,
    session: Session,
    instructions: str,
    text: str,
    purpose: str,
    model: str,
    *,
    max_tokens: int | None = None,
) -> str:
    """Ask this model, else the small one. If needed, a provider is opened for it and closed again."""
    from adderclaw.agent.loop import model_call

    small, now = runtime.config.providers.small, runtime.config
    otherwise = providers.Choice(session.provider.name, session.model)
    if small is not None and small != session.provider.name:
        otherwise = providers.Choice(small, providers.model_of(small, now))
    chosen = providers.wanted(model, now, otherwise)
    own = chosen.provider == session.provider.name
    provider = session.provider if own else open_provider(runtime, chosen.provider)
    try:
        return await model_call.ask_aside(
            session,
            instructions,
            text,
            purpose=purpose,
            provider=provider,
            named=chosen.model,
            max_tokens=max_tokens,
        )
    finally:
        if not own:
            await provider.close()


class SessionHost:
    """A session as its tools see it."""

    def __init__(self, runtime: Runtime, session: Session) -> None:
        self._runtime, self._session = runtime, session
        self._everything = session.environment.tools  # a driver may offer the model fewer for a while

    @property
    def resources(self) -> "Resources | None":
        return self._runtime.servers

    @property
    def has_model(self) -> bool:
        return not isinstance(self._session.provider, NoModelProvider)

    async def ask(self, request: QuestionRequest) -> Answer:
        return await self._session.operator.ask(request)

    async def approve(self, request: ApprovalRequest) -> Answer:
        return await self._session.operator.approve(request)

    async def run_hooks(self, event: str, fields: Json) -> HookOutcome:
        return await self._session.fire(event, fields)

    async def spawn(self, order: ChildRequest) -> ChildReport:
        from adderclaw.agent.subagents import children

        return await children.run_child(self._runtime, self._session, order, SessionHost)

    async def call_tool(self, name: str, arguments: Json, why: str, *, asked: bool = False) -> ToolResult:
        from adderclaw.agent.run import hook_calls

        return await hook_calls.call_for_hook(
            self._runtime, self._session, self._everything, name, arguments, why, asked=asked
        )

    async def ask_small_model(self, instructions: str, text: str, purpose: str, model: str) -> str:
        return await ask_small_model(self._runtime, self._session, instructions, text, purpose, model)

    async def wait_for_servers(self) -> str:
        waiting = self._session.environment.wait_for_servers
        return "" if waiting is None else await waiting()

    def show_message(self, message: str, attachments: list[str], status: str) -> None:
        self._session.bus.publish(
            {"event_type": "brief", "message": message, "attachments": attachments, "status": status}
        )

    def tools(self) -> Mapping[str, Tool[Any]]:
        return self._session.environment.offered_tools

    @property
    def in_plan_mode(self) -> bool:
        from adderclaw.agent.tool_call import permission_updates

        return permission_updates.in_plan_mode(self._session)

    def end_plan_mode(self) -> bool:
        from adderclaw.agent.tool_call import permission_updates

        ended = permission_updates.end_plan_mode(self._session)
        if ended:
            self._session.state.planning = ""  # the tool's result tells the model
        return ended

    def grant_for_turn(self, rules: Sequence[str], effort: Effort | None = None) -> list[str]:
        return self._session.environment.active_policy.lend(rules, effort)


def _busy_tasks(tasks: "Tasks") -> Callable[[], str]:
    """Returns the ids of background tasks that run, or have ended since the last call."""
    over: set[str] = set()

    def busy() -> str:
        busy_tasks = [task for task in tasks.listed() if task.running or task.id not in over]
        over.update(task.id for task in busy_tasks if not task.running)
        return ", ".join(task.id for task in busy_tasks)

    return busy


def _checkpoints(runtime: Runtime, store: Store) -> Checkpoints:
    """The checkpoints of the whole run; a child session has its parent's."""
    if runtime.checkpoints is None:

        def tracker() -> "Tracker":
            from adderclaw.agent.legacy.rewind import own_of
            from adderclaw.config.paths import followed
            from adderclaw.sandbox.legacy.checkpoints.tracker import Tracker, limits_of

            now, root = runtime.config, followed(runtime.loaded.workspace)
            own = own_of(now, runtime.home, root, headless=runtime.options.headless)
            settings = now.checkpoints
            new_tracker = Tracker(store, own, root, limits_of(settings), lambda text: warn(runtime, text))
            new_tracker.keep_days = settings.keep_days
            return new_tracker

        runtime.checkpoints = Checkpoints(tracker)
    return runtime.checkpoints


TERMINALS = frozenset({"cli", "repl"})
"""Channels with a person at a terminal, where a question has no time limit by default."""
ELSEWHERE = 300.0
"""Seconds that a question waits on any other channel by default."""


def persistent_approvals(runtime: Runtime, session: Session, channel: str) -> Operator:
    """The channel's operator, with questions that another process can answer, too."""
    from adderclaw.agent.tool_call.approvals import PersistentApprovals
    from adderclaw.storage.ledger.log_files import read_or_create_key

    seconds = runtime.config.security.approval_timeout_seconds or (None if channel in TERMINALS else ELSEWHERE)
    return PersistentApprovals(
        session.operator,
        session.store,
        session.session_id,
        clock=runtime.clock,
        ids=runtime.ids,
        scrub=runtime.secrets.scrub,
        stopped=runtime.stopped,
        seconds=seconds,
        key=lambda: read_or_create_key(runtime.key_path),
        tell=runtime.bus.publish,
        channel=channel,
        spent=lambda id: session.ledger is not None and session.ledger.names_approval(id),
    )


def cost_set_in(runtime: Runtime) -> str:
    """Where `limits.cost_usd` was set, for messages; empty for the default."""
    origin = runtime.loaded.origins.get("limits.cost_usd", "default")
    if origin == "default":
        return ""
    return "set for this run" if origin == FLAGS else f"set in {origin}"


def _ledger(runtime: Runtime, store: Store, closing: ExitStack) -> Ledger | None:
    receipts = runtime.config.receipts
    if not receipts.enabled:
        message = "receipts are off (receipts.enabled = false): what tools did cannot be verified"
        runtime.bus.publish({"event_type": "warning", "message": message})
        return None
    ledger = Ledger.open(receipts.path, store, runtime.key_path, clock=runtime.clock, ids=runtime.ids)
    closing.callback(ledger.close)
    for repair in ledger.repairs:
        runtime.bus.publish({"event_type": "warning", "message": repair})
    return ledger


def _body_writer(runtime: Runtime) -> Callable[[str, Json], None]:
    """A function that saves whole requests and answers in the run folder, without secrets."""
    from adderclaw.sandbox import workspace

    folder = runtime.runs_folder / runtime.bus.run_id

    def keep(name: str, body: Json) -> None:
        text = canonical(runtime.secrets.clean(body))
        try:
            workspace.write(folder / name, text.encode("utf-8", "replace"), mode=0o600)
        except (OSError, PathRefused) as error:  # a command may have put something else there; the run continues
            runtime.bus.publish({"event_type": "warning", "message": f"{name} could not be saved: {error}"})

    return keep


NEXT_NEEDED = (
    "adderclaw.policy.verdict",
    "adderclaw.policy.legacy.shell.reader",
    "adderclaw.policy.legacy.shell.compiler",
    "adderclaw.tools.files",
    "adderclaw.tools.shell",
    "adderclaw.sandbox.legacy.checkpoints.tracker",
    "adderclaw.sandbox.box",
    "adderclaw.sandbox.legacy.survey",
)
"""Not pydantic: an ordinary call is decoded without it, and it takes more memory than all of these."""


def _warm_up_once(begin: Callable[[], None] | None) -> Callable[[], None]:
    """A function that imports, once and in a thread, what the first tool call needs, and then begins the sandbox.

    `begin` is called in the event loop's thread, since the kernel ends a sandbox with the thread that started it.
    """
    waiting = list(NEXT_NEEDED)

    def imports(loop: "AbstractEventLoop") -> None:
        from importlib import import_module

        while waiting:
            import_module(waiting.pop(0))
        if begin is not None:
            with suppress(RuntimeError):  # the loop is closed by now
                loop.call_soon_threadsafe(begin)

    def warm() -> None:
        if waiting:
            import asyncio
            import threading

            threading.Thread(target=imports, args=(asyncio.get_running_loop(),), daemon=True).start()

    return warm
