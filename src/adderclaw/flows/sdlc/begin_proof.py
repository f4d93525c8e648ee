"""Begins the proof of a plan: a separate run in a separate folder, which sees only what it may of the project."""

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from adderclaw.agent.legacy.rewind import own_of
from adderclaw.agent.run.drive import Report, drive, show_nothing
from adderclaw.agent.run.opened import open_run
from adderclaw.agent.run.signals import until_signal
from adderclaw.agent.run.start import Options, start
from adderclaw.agent.tool_call.approvals import NoOperator
from adderclaw.config.paths import followed
from adderclaw.core.errors import UsageError
from adderclaw.flows.sdlc.driver import ProofDriver
from adderclaw.flows.sdlc.trees import COPIES, Where
from adderclaw.sandbox import workspace
from adderclaw.sandbox.legacy.checkpoints.tracker import limits_of
from adderclaw.sandbox.workspace import WorkspacePath
from adderclaw.storage import Store, transcript
from adderclaw.storage.sdlc import baselines, plans

if TYPE_CHECKING:
    from collections.abc import Callable

    from adderclaw.config import Loaded
    from adderclaw.core.events import Sink


def ready(options: Options, loaded: "Loaded", home: str, store: Store, conversation_id: str) -> ProofDriver:
    """Returns the proof of a conversation's approved plan; `loaded` is the configuration of its project."""
    with store.snapshot() as cursor:
        plan = plans.approved_plan(cursor, conversation_id)
        altered = plans.alteration_reasons(cursor, plan) if plan is not None else []
        baseline = baselines.get(cursor, plan.id) if plan is not None else None
    if plan is None:
        raise UsageError(f"conversation {conversation_id} has no approved plan, so there is nothing to prove")
    if altered:
        raise UsageError("; ".join(altered))
    root = baseline.root if baseline is not None else followed(transcript.workspace_of(store, conversation_id))
    limits, own_files = limits_of(loaded.config.checkpoints), own_of(loaded.config, home, root)
    where = Where(root, followed(home), limits, own_files, tuple(loaded.config.sandbox.read_paths))
    folder = WorkspacePath(where.home, f"{COPIES}/generator-{plan.id}")
    workspace.make_folders(folder, 0o700)
    own = replace(
        options,
        workspace=os.path.join(folder.root, folder.relative),
        headless=False,
        asks="must",
        session_id=None,
        overrides={**options.overrides, "memory": {"path": store.path}},
    )
    return ProofDriver(own, conversation_id, plan, where)


async def prove(
    driver: ProofDriver,
    *,
    channel: str = "run",
    hear: "tuple[str, Sink] | None" = None,
    show: "Callable[[Report], None]" = show_nothing,
) -> Report:
    """Runs a proof to its end. It never asks: its tests run in the sandbox, and its only tool needs no approval.

    On the channel `run` it owns the process, and signals end it.
    """
    opening = driver.opening
    runtime = start(opening.options)
    if hear is not None:
        runtime.bus.add_sink(*hear)
    with open_run(runtime, NoOperator(waits=False), kind=opening.kind, channel=channel, task=opening.task) as run:
        work = driver.run(run.session)
        if channel == "run":
            work = until_signal(run, work, mode=opening.mode)
        return await drive(run, work, mode=opening.mode, show=show)
