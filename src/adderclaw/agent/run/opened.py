"""Opens, resumes and finishes a run."""

import os
import sys
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from adderclaw import config
from adderclaw.agent.legacy import later_report
from adderclaw.agent.loop import lifecycle, resume
from adderclaw.agent.replay.recorder import UNRECORDED, Recording
from adderclaw.agent.run import session_setup as sessions
from adderclaw.agent.run.start import Runtime, credentials, loaded_by, open_provider, warn
from adderclaw.agent.session.session import Session, TurnResult
from adderclaw.config.paths import followed
from adderclaw.core.errors import EXIT_CODES, AdderClawError, AlreadyCompleted, UsageError
from adderclaw.core.questions import Operator
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import mask_secret_shapes
from adderclaw.core.types import MISSING_KEY, EndedBy, Json
from adderclaw.models import providers
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import WorkspacePath
from adderclaw.storage import Store, locks, runs, settings, transcript
from adderclaw.storage import later_files as rows
from adderclaw.storage.telemetry import database, jsonl
from adderclaw.storage.telemetry.jsonl import NAME, OpenFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from sqlite3 import Cursor

    from adderclaw.agent.legacy.later_report import Later

RUN_FAILED: Mapping[EndedBy, str] = {"missing_key": MISSING_KEY, "turns": "max_turns_exceeded"}
"""Reasons of `run_failed` that have names of their own."""
NOT_ACKNOWLEDGED = (
    "unacknowledged changes of files that other programs run later: {names}; look at them, then use "
    "`adderclaw later accept` or `adderclaw later set-aside`"
)


class Resume(NamedTuple):
    """The conversation to resume: by its id or a prefix of it, or the last one of this workspace."""

    conversation: str | None
    go_on: bool
    """Finish an interrupted turn, without a new message."""
    fork: bool = False
    """Continue in a copy, so that the conversation itself does not change."""


class Run(NamedTuple):
    """One execution with its run id; `finish` writes its outcome before the process ends."""

    runtime: Runtime
    session: Session

    @property
    def run_id(self) -> str:
        return self.runtime.bus.run_id

    async def switch(self, requested: str) -> None:
        """Use another model from the next call on: an entry's name, `entry/model`, or a model of the current entry."""
        session = self.session
        chosen = providers.choice(requested, session.config, session.provider.name)
        change = lifecycle.model_switch_fields(session.model, chosen.model, requested)
        if (refused := await lifecycle.run_before_switch_hooks(session, change)) is not None:
            raise UsageError(f"a hook refused the model {chosen.model}: {refused}")
        if chosen.provider != session.provider.name:
            left, session.provider = session.provider, open_provider(self.runtime, chosen.provider)
            await left.close()
        session.model, session.state.cached_tokens = chosen.model, 0
        self.runtime.bus.publish({"event_type": "provider_selected", **chosen._asdict()})  # pyright: ignore[reportArgumentType]
        await lifecycle.run_after_switch_hooks(session, change)

    def rest(self) -> None:
        """Release the processes and descriptors of the sandbox if nothing in it would be lost."""
        if self.runtime.box is not None:
            self.runtime.box.stop_if_idle()

    async def settle(self) -> None:
        """End background hooks, then background tasks, so that the outcome is complete."""
        await lifecycle.stop_background_hooks(self.session)
        kit = self.session.environment.kit
        if kit.tasks is not None:
            await kit.tasks.close()
        if self.runtime.later is not None:
            later_report.tell(self.session, self.session.secrets.clean(self.runtime.later.take()))

    async def close(self) -> None:
        """Run the SessionEnd hooks, then close the servers and the provider, which the hooks may use."""
        await self.settle()
        await self.end()
        if self.runtime.servers is not None:
            await self.runtime.servers.close()
        await self.session.provider.close()

    async def end(self) -> None:
        """Run the SessionEnd hooks once, if the session began."""
        if self.session.hooks:
            await lifecycle.run_end_hooks(self.session)

    def finish(self, result: TurnResult, *, exit_code: int | None = None, mode: str = "agent") -> int:
        session, bus = self.session, self.runtime.bus
        code = EXIT_CODES[result.outcome] if exit_code is None else exit_code
        usage = session.budget.usage.as_json()
        if result.outcome in ("completed", "denied"):
            body = {"outcome": result.outcome, "mode": mode, "reason": result.reason, "usage": usage}
            counts = {
                "steps": session.budget.steps,
                "tool_calls": session.budget.tool_calls,
                "cost": session.budget.cost,
            }
            bus.publish({"event_type": "run_finished", **body, **counts})  # pyright: ignore[reportArgumentType]
        else:
            reason = RUN_FAILED.get(result.ended_by, result.ended_by) or result.outcome
            bus.publish(
                {"event_type": "run_failed", "outcome": result.outcome, "reason": reason, "message": result.reason}
            )
        with session.store.write() as cursor:
            session.store_spent(cursor)
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
            if self.runtime.recording is not None:
                self.runtime.recording.imprint(cursor)
        return code


def resume_of_run(runtime: Runtime, run_id: str) -> Resume:
    """Resume a run under its own id, in its own conversation; raises if it cannot be resumed."""
    from adderclaw.storage import workflows

    store = Store.open(runtime.config.memory.path)
    try:
        row = runs.get(store, run_id)
        turn = row is not None and workflows.is_turn(store, row.run_id, row.kind)
        answered = turn and row is not None and transcript.is_answered(store, row.session_id)
    finally:
        store.close()
    if row is None:
        raise UsageError(f"there is no run {run_id!r}; `adderclaw runs list` lists them")
    if row.status == "running":
        raise UsageError(f"run {row.run_id} is still running (process {row.pid})")
    if row.outcome == "completed":
        raise AlreadyCompleted(row.run_id, mask_secret_shapes(row.answer or ""))
    if answered and row.outcome in ("denied", "needs_input"):
        fix = f"`adderclaw agent --resume {row.conversation_id} -m TEXT` continues the conversation"
        raise UsageError(f"run {row.run_id} ended as {row.outcome}, and its model has answered: {fix}")
    runtime.bus.continue_run(row.run_id)
    return Resume(row.conversation_id, go_on=turn or row.kind == "sop")  # these kinds run the calls that had not begun


def _prune(runtime: Runtime, store: Store) -> None:
    from dataclasses import astuple

    if any(astuple(runtime.config.retention)):
        from adderclaw.agent.run import retention

        retention.after_run(store, runtime.config.retention)


def _recording(runtime: Runtime, store: Store) -> Recording:
    return Recording(store, runtime.bus, runtime.clock, runtime.stopped, runtime.home)


@contextmanager
def open_run(
    runtime: Runtime,
    operator: Operator,
    *,
    kind: str,
    channel: str = "cli",
    again: Resume | None = None,
    task: str = "",
    more: "Iterable[Callable[[Cursor, Session], None]]" = (),
) -> Generator[Run]:
    """Open store, ledger, provider and session; everything is closed in any case.

    `more` writes rows in the same transaction as the run's own row.
    """
    with ExitStack() as stack:
        _require_workspace(runtime)
        store = Store.open(runtime.config.memory.path, in_files=runtime.config.memory.backend == "file")
        stack.callback(store.close)
        if kind not in UNRECORDED:
            stack.callback(lambda: _prune(runtime, store))
        if store.notice:
            warn(runtime, store.notice)
        recording = _recording(runtime, store) if kind not in UNRECORDED else None
        runtime.recording = recording
        conversation_id, session_id, copied = _choose_session(runtime, store, again)
        if again is not None:
            _check_trace(runtime, store, copied.session if copied else session_id)
        runtime.loaded = _load_in_its_workspace(runtime, store, copied.conversation if copied else conversation_id)
        runtime.loaded, runtime.started = _with_operators_own(runtime, store), None
        runtime.credentials = credentials(runtime.options, runtime.loaded, runtime.secrets, runtime.clock)
        _add_sinks(runtime, store, stack, conversation_id, session_id)
        _send_notices(runtime, store, stack, kind, channel)
        runtime.bus.stop_buffering()
        stack.enter_context(locks.session_lock(store.path, session_id, runtime.bus.run_id))
        if recording is not None:
            stack.callback(recording.imprint_late)
        provider = sessions.NoModelProvider() if kind == "tool" else None
        runtime.later = _later_record(runtime, store, session_id)
        stack.callback(runtime.later.close)
        _survey_after_kill(runtime, runtime.later)
        session = sessions.make_session(runtime, store, operator, conversation_id, session_id, provider, stack)
        stack.callback(lambda: runtime.checkpoints and runtime.checkpoints.close())
        stack.callback(runtime.close_boxes)
        run = Run(runtime, session)
        stack.callback(lambda: _run_session_end(run))
        if kind != "tool":  # there the operator has approved the call by typing it
            session.operator = sessions.persistent_approvals(runtime, session, channel)
        if recording is not None:
            recording.attach(session, channel)
        if again is not None:
            _restore_limits(session, again)
            session.start_source = "resume"
        _begin_run(runtime, store, session, kind, channel, again=again, task=task, copied=copied, more=more)
        if again is not None and kind != "tool":  # no model is asked, so no history is needed
            resume.restore_session(session, go_on=again.go_on)
        _report_later_changes(runtime, runtime.later, session)
        yield run


def _later_record(runtime: Runtime, store: Store, session_id: str) -> "Later":
    from adderclaw.agent.legacy.later_report import Later

    allow = runtime.config.security.later == "allow"
    return Later(store, followed(runtime.loaded.workspace), session_id, runtime.home, allow=allow)


def _survey_after_kill(runtime: Runtime, later: "Later") -> None:
    """Survey the workspace after a killed session, so that instructions and skills that it changed are framed."""
    if not later.killed():
        return
    from adderclaw.agent.run.tool_environment import workspace_of
    from adderclaw.sandbox.protected_paths import without_own_folder

    workspace = workspace_of(runtime)
    roots = (workspace.root, *workspace.extra)
    runtime.surveyor.imported = later.looked_at()
    survey = runtime.surveyor.survey((*roots, *later.left_by_killed()))
    later.record_first(without_own_folder(survey, followed(runtime.home)).items, roots)


def _report_later_changes(runtime: Runtime, later: "Later", session: Session) -> None:
    """Report changes of a killed session, or else changes that nobody has acknowledged yet."""
    root = followed(runtime.loaded.workspace)
    if changes := later.take():
        later_report.tell(session, changes)
    elif waiting := rows.unanswered(session.store, root):
        changes = [{"path": row.path.removeprefix(f"{root}/"), "change": row.change} for row in waiting]
        warn(runtime, NOT_ACKNOWLEDGED.format(names=later_report.named(runtime.secrets.clean(changes))))


def _check_trace(runtime: Runtime, store: Store, session_id: str) -> None:
    """Warn if the resumed session's events file was changed. The session itself is restored from the store."""
    from adderclaw.agent.replay.trace_file import checked

    before = runs.last_of(store, session_id)
    for message in checked(store, before).warnings if before is not None else ():
        warn(runtime, message)


def _restore_limits(session: Session, again: Resume) -> None:
    """Count what the run used before it was interrupted against its limits. A new message begins a new run."""
    if (own := runs.usage_of_run(session.store, session.bus.run_id)) is not None:
        session.budget.restore(own.used)
        session.state.rounds = own.rounds if again.go_on else 0
    elif again.go_on and (earlier := runs.usage_in_session(session.store, session.session_id)) is not None:
        session.budget.take_over(earlier.used)
        session.state.rounds = earlier.rounds


def _run_session_end(run: Run) -> None:
    """Run the SessionEnd hooks in a new event loop, if none is running any more."""
    if "SessionEnd" not in run.session.hooks:
        return
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(run.end())


def _require_workspace(runtime: Runtime) -> None:
    """Create the default workspace if it is missing; a workspace that was named must exist."""
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
            raise AdderClawError(f"the workspace {workspace} cannot be created: {error.strerror}") from error
    raise UsageError(f"the workspace {workspace} does not exist; create it, run `adderclaw init`, or name another")


def _load_in_its_workspace(runtime: Runtime, store: Store, conversation_id: str) -> config.Loaded:
    """Load the configuration of the conversation's own workspace, unless another one was named."""
    folder = transcript.workspace_of(store, conversation_id)
    if folder in ("", runtime.loaded.workspace) or runtime.options.workspace is not None:
        return runtime.loaded
    if not os.path.isdir(folder):
        raise UsageError(f"the conversation's workspace {folder} is gone; name another with --workspace")
    loaded = loaded_by(runtime.options, folder, runtime.options.overrides)
    runtime.bus.publish({"event_type": "workspace_path", "path": folder, "reason": "where the conversation was held"})
    return loaded


def _with_operators_own(runtime: Runtime, store: Store) -> config.Loaded:
    """Apply an `effective` row that the operator wrote; it counts until `config reload`."""
    own = settings.operator_settings(store)
    if own is None:
        return runtime.loaded
    loaded = config.with_snapshot(runtime.loaded, own)
    warn(runtime, loaded.warnings[-1])
    return loaded


class _Copied(NamedTuple):
    """The conversation and session that a new one is copied from."""

    conversation: str
    session: str


def _choose_session(runtime: Runtime, store: Store, again: Resume | None) -> tuple[str, str, _Copied | None]:
    named = runtime.options.session_id
    if named is not None and transcript.conversation_of(store, named) is not None:
        raise UsageError(f"the session {named!r} already exists; use another id, or continue it with --resume")
    if again is None:
        return runtime.ids("conversation"), named or runtime.ids("session"), None
    if again.conversation is None:
        conversation_id = transcript.last_conversation(store, runtime.loaded.workspace)
        if conversation_id is None:
            raise UsageError(f"no conversation to continue in {runtime.loaded.workspace}; start one with `agent -m`")
    elif not again.conversation.strip():
        raise UsageError("the name of the conversation to continue is empty; `adderclaw memory list` shows them")
    else:
        conversation_id = transcript.conversation_of(store, again.conversation)
        if conversation_id is None:
            raise UsageError(f"no conversation {again.conversation!r}; `adderclaw memory list` shows them")
    # Raise if the conversation is in a phase that does not exist.
    if transcript.phase_and_approval(store, conversation_id)[0] != "idle":
        from adderclaw.storage.sdlc import phases

        phases.phase_of(store, conversation_id)
    held = transcript.sessions_of(store, conversation_id)
    if not held:  # it began with a plan and has no message yet
        return conversation_id, named or runtime.ids("session"), None
    last = held[-1]
    if again.fork:
        return runtime.ids("conversation"), named or runtime.ids("session"), _Copied(conversation_id, last)
    return conversation_id, last, None


def _add_sinks(runtime: Runtime, store: Store, stack: ExitStack, conversation_id: str, session_id: str) -> None:
    bus = runtime.bus
    bus.conversation_id, bus.session_id = conversation_id, session_id
    bus.add_sink("database", database.sink(store))
    write, close = jsonl.sink(partial(open_events_file, runtime.runs_folder), store)
    stack.callback(close)
    bus.add_sink("jsonl", write)
    if runtime.config.telemetry.enabled:
        from adderclaw.sandbox.workspace import configured_path, open_append
        from adderclaw.storage.telemetry import exporters

        exporter = exporters.sink(
            runtime.config,
            session_id,
            lambda message: print(message, file=sys.stderr),
            lambda path: open_append(configured_path(path, runtime.loaded.workspace)),
            managed="telemetry" in runtime.loaded.managed,
        )
        if exporter is not None:
            bus.add_sink("telemetry", exporter[0])
            stack.callback(exporter[1])


def _send_notices(runtime: Runtime, store: Store, stack: ExitStack, kind: str, channel: str) -> None:
    """Send notices if the operator has configured targets."""
    if not runtime.config.notices.targets:
        return
    from adderclaw.agent.notices import letter, listener

    for target in runtime.config.notices.targets.values():
        for value in (*letter.in_environment(target).values(), letter.secret_address(target)):
            runtime.secrets.add(value)
    terminal = channel in ("cli", "repl", "run") and sys.stdin.isatty() and sys.stderr.isatty()
    workspace, clean = runtime.loaded.workspace, runtime.secrets.clean
    context = listener.NoticeContext(runtime.config, store, runtime.home, clean, workspace, kind, channel, terminal)
    hear, close = listener.sink(context, runtime.bus)
    stack.callback(close)
    runtime.bus.add_sink("notices", hear)


def _setup(runtime: Runtime, store: Store) -> str:
    """The trigger of the Setup hooks: maintenance, or a new project; empty if they do not run."""
    if runtime.options.maintenance:
        return "maintenance"
    return "" if transcript.is_known_project(store, runtime.loaded.workspace) else "init"


def _begin_run(
    runtime: Runtime,
    store: Store,
    session: Session,
    kind: str,
    channel: str,
    *,
    again: Resume | None,
    task: str,
    copied: _Copied | None,
    more: "Iterable[Callable[[Cursor, Session], None]]",
) -> None:
    """Store the rows of the run and its session in one transaction, then publish the start."""
    effective = config.snapshot(runtime.loaded)
    if "Setup" in session.hooks:
        session.setup_trigger = _setup(runtime, store)
    with store.write() as cursor:
        transcript.begin(
            cursor,
            conversation_id=session.conversation_id,
            session_id=session.session_id,
            project_dir=runtime.loaded.workspace,
        )
        if copied is not None:
            transcript.copy(cursor, copied.session, session.session_id)
        brought: Json = {"plugins": runtime.plugins.as_json()} if runtime.plugins is not None else {}
        settings.snapshot(cursor, f"effective:{session.session_id}", {**effective, **brought})
        settings.import_effective(cursor, effective)
        runs.begin(
            cursor,
            run_id=runtime.bus.run_id,
            kind=kind,
            conversation_id=session.conversation_id,
            session_id=session.session_id,
            pid=os.getpid(),
        )
        for write in more:
            write(cursor, session)
    bus = runtime.bus
    for warning in session.environment.policy.rules.warnings:
        bus.publish({"event_type": "warning", "message": warning})
    bus.publish({"event_type": "provider_selected", "provider": session.provider.name, "model": session.model})
    bus.publish({"event_type": "channel_started", "channel": channel})
    ids: Json = {"conversation_id": session.conversation_id, "session_id": session.session_id}
    bus.publish({"event_type": "conversation_started", "resumed": again is not None, **ids})  # pyright: ignore[reportArgumentType]
    bus.publish({"event_type": "run_started", "mode": kind, "task": task})
    if runtime.plugins is not None:
        runtime.plugins.tell(bus)


def open_events_file(folder: WorkspacePath, run_id: str) -> OpenFile:
    """Open the events file of a run, to append to it. A folder in a workspace is marked so that git ignores it."""
    if run_id in ("", ".", "..") or "/" in run_id or "\0" in run_id:
        raise AdderClawError(f"{run_id!r} cannot name a run folder")
    path = folder / run_id / NAME
    descriptor = workspace.open_append(path)
    if folder.root != "/" and not folder.is_root:  # in a workspace
        from adderclaw.sandbox.workspace.traces import ignore_in_git

        ignore_in_git(folder, folder / run_id)
    return OpenFile(descriptor, path.root, path.relative)
