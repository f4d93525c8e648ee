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
from adderclaw.storage.workflows import WorkflowStart


def resume_driver(options: Options, run_id: str, rounds: int | None = None) -> Driver:
    """Returns a driver that continues the run; `rounds` overrides how many rounds the LOOPs of a workflow may run."""
    begun, workspace, kind = _load_begun(options, run_id)
    if kind == "sop":
        from adderclaw.flows.sop import driver as sops

        return sops.resume(options, begun)
    if kind == "message":
        options = restored(options, begun.inputs, begun.run_id)
        return MessageDriver(options, begun.inputs["message"], again=begun.run_id)
    if not begun.file:
        options = restored(options, begun.inputs, begun.run_id)
        return TaskDriver(options, begun.inputs["task"], again=begun.run_id)
    options = restored(options, begun.said or {}, begun.run_id)
    changed = f"{begun.file} or a file that it names has changed since run {begun.run_id} began; start a new run"
    try:
        workflow = load(begun.file, (options.workspace or os.getcwd(), workspace))
    except InvalidAgentfile as error:  # it was valid when the run began
        raise UsageError(changed) from error
    if fingerprint(workflow) != begun.digest:
        raise UsageError(changed)
    return AgentfileDriver(options, workflow, begun.inputs, rounds, again=begun.run_id)


def _load_begun(options: Options, run_id: str) -> tuple[WorkflowStart, str, str]:
    """Returns what a run began with, its workspace, and its kind."""
    from adderclaw import config

    loaded = config.load(config_file=options.config_file, workspace=options.workspace)
    store = Store.open(loaded.config.memory.path)
    try:
        row = runs.get(store, run_id)
        begun = workflows.get(store, row.run_id) if row is not None else None
        workspace = transcript.workspace_of(store, row.conversation_id) if row is not None else ""
    finally:
        store.close()
    if row is not None and row.outcome == "completed":
        raise AlreadyCompleted(row.run_id, mask_secret_shapes(row.answer or ""))
    if row is not None and row.kind == "spec":
        why = f"its progress is in {workspace}/.adderclaw/status.json"
        raise UsageError(f"run {row.run_id} is of a specification: {why}; continue it with `adderclaw run --spec FILE`")
    if begun is None or row is None:
        raise UsageError(
            f"no run of a workflow, a task or a message has the id {run_id!r}; `adderclaw runs list` lists the runs"
        )
    return begun, workspace, row.kind
