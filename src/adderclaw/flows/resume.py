"""Resumes a run with the message, the task, or the workflow and inputs that it began with."""

import os

from adderclaw.agent.run.driver import Driver, MessageDriver
from adderclaw.config.legacy.options import Options, restored
from adderclaw.core.errors import AlreadyCompleted, UsageError
from adderclaw.core.redaction import mask_secret_shapes
from adderclaw.flows.agentfile.driver import AgentfileDriver
from adderclaw.flows.agentfile.execute import fingerprint
from adderclaw.flows.agentfile.load import load
from adderclaw.flows.agentfile.workflow import InvalidAgentfile
from adderclaw.flows.task.driver import TaskDriver
from adderclaw.storage import Store, runs, transcript, workflows
from adderclaw.storage.workflows import Begun


def resumed(options: Options, run_id: str, rounds: int | None = None) -> Driver:
    """`rounds` are for the LOOPs of a workflow."""
    begun, held_in, kind = _begun(options, run_id)
    if kind == "sop":
        from adderclaw.flows.sop import driver as sops

        return sops.resumed(options, begun)
    if kind == "message":
        given = restored(options, begun.inputs, begun.run_id)
        return MessageDriver(given, begun.inputs["message"], again=begun.run_id)
    if not begun.file:
        given = restored(options, begun.inputs, begun.run_id)
        return TaskDriver(given, begun.inputs["task"], again=begun.run_id)
    options = restored(options, begun.said or {}, begun.run_id)
    changed = f"{begun.file} or a file that it names has changed since run {begun.run_id} began; run it anew"
    try:
        workflow = load(begun.file, (options.workspace or os.getcwd(), held_in))
    except InvalidAgentfile as error:  # it was valid then
        raise UsageError(changed) from error
    if fingerprint(workflow) != begun.digest:
        raise UsageError(changed)
    return AgentfileDriver(options, workflow, begun.inputs, rounds, again=begun.run_id)


def _begun(options: Options, run_id: str) -> tuple[Begun, str, str]:
    """What a run began with, the workspace that it was held in, and its kind."""
    from adderclaw import config

    loaded = config.load(config_file=options.config_file, workspace=options.workspace)
    store = Store.open(loaded.config.memory.path)
    try:
        row = runs.get(store, run_id)
        begun = workflows.get(store, row.run_id) if row is not None else None
        held_in = transcript.workspace_of(store, row.conversation_id) if row is not None else ""
    finally:
        store.close()
    if row is not None and row.outcome == "completed":
        raise AlreadyCompleted(row.run_id, mask_secret_shapes(row.answer or ""))
    if row is not None and row.kind == "spec":
        where = f"what has passed stands in {held_in}/.adderclaw/status.json"
        raise UsageError(f"run {row.run_id} worked on a specification: {where}, and `adderclaw run` goes on with it")
    if begun is None or row is None:
        raise UsageError(
            f"there is no run {run_id!r} of a workflow, a task or a message; `adderclaw runs list` lists them"
        )
    return begun, held_in, row.kind
