"""What is to be run, made ready: files read, inputs bound, and all refused that can be before a run begins."""

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import cast

from adderclaw.drivers.agentfile.dry import as_json as plan_of
from adderclaw.drivers.agentfile.dry import text as plan_text
from adderclaw.drivers.agentfile.execute import Execution, fingerprint
from adderclaw.drivers.agentfile.load import bound, load
from adderclaw.drivers.agentfile.workflow import Workflow
from adderclaw.drivers.task.execute import Execution as Task
from adderclaw.errors import UsageError
from adderclaw.json_text import canonical
from adderclaw.kernel.loop import run_turn
from adderclaw.kernel.session import TurnResult
from adderclaw.record import record
from adderclaw.runtime import Options, Run
from adderclaw.runtime.skills import Skills
from adderclaw.skills.catalogue import Catalogue
from adderclaw.store import Store, runs, transcript, workflows
from adderclaw.store.workflows import Begun
from adderclaw.types import Json

type Drive = Callable[[Run], Awaitable[TurnResult]]
"""What is to be done: a driver, ready to run on an opened session."""


@record
class Prepared:
    options: Options
    kind: str
    drive: Drive
    plan: Callable[[], Json]
    """What would be asked, without asking."""
    again: str | None = None
    """The run that goes on."""
    task: str = ""
    """What the run is told to do, as its first event says."""
    dry: Drive | None = None
    """Where a dry run is a run, too: it tells its events, and asks no model."""
    with_rounds: Callable[[int], "Prepared"] | None = None
    """The same, whose LOOPs may go so many rounds, whatever the file says."""
    shown: Callable[[Json], str] = plan_text
    """The plan for a person."""

    @property
    def mode(self) -> str:
        return "dry_run" if self.drive is self.dry else self.kind


def overrides(
    skills_dir: str | None, max_turns: int | None, debug_llm: bool | None, limits: Mapping[str, float] | None = None
) -> Json:
    """What whoever begins a run says over the configuration."""
    said: Json = {}
    if skills_dir is not None:
        said["skills"] = {"dir": os.path.abspath(os.path.expanduser(skills_dir))}
    if max_turns is not None:
        said["runtime"] = {"max_turns": max_turns}
    if debug_llm is not None:
        said["logging"] = {"debug_llm_bodies": debug_llm}
    if limits:
        said["limits"] = dict(limits)
    return said


def agentfile(options: Options, path: str, inputs: Mapping[str, str]) -> Prepared:
    workflow = load(path, (options.workspace or os.getcwd(),))
    return _workflow(options, workflow, bound(workflow, inputs))


def message(options: Options, text: str) -> Prepared:
    """One turn, headless."""
    if not text.strip():
        raise UsageError("the message is empty")

    async def drive(run: Run) -> TurnResult:
        return await run_turn(run.session, text)

    return Prepared(options, "message", drive, lambda: {"mode": "dry_run", "message": text})


def task(options: Options, text: str) -> Prepared:
    """A task in words, worked on with skills."""
    if not text.strip():
        raise UsageError("the task is empty: say what is to be done")
    inputs = _said(options)

    async def drive(run: Run) -> TurnResult:
        return await Task(run.session, text, lambda: _catalogue(run), inputs=inputs).run()

    async def dry(run: Run) -> TurnResult:
        return await Task(run.session, text, lambda: _catalogue(run), planned_only=True).run()

    return Prepared(options, "task", drive, lambda: {"mode": "dry_run", "task": text}, task=text, dry=dry)


def _catalogue(run: Run) -> Catalogue:
    """The one that the session's Skill tool has, too."""
    skills = run.session.scene.kit.skills if run.session.scene.kit is not None else None
    return skills.catalogue if isinstance(skills, Skills) else Catalogue()


SAID = ("provider", "model", "profile", "config_file")
"""Options that hold for a run however often it is resumed, unless others are given then."""


def _said(options: Options) -> dict[str, str]:
    """What was said when a run began, for whoever resumes it; its limits are said anew."""
    overrides = {name: value for name, value in options.overrides.items() if name != "limits"}
    given = {name: getattr(options, name) for name in SAID}
    if options.config_file:  # wherever it is resumed from
        given["config_file"] = os.path.abspath(os.path.expanduser(options.config_file))
    return {**{name: value for name, value in given.items() if value}, "overrides": canonical(overrides)}


def _as_begun(options: Options, said: Mapping[str, str], run_id: str) -> Options:
    """A run goes on with what it was begun with, unless other is said: never by laxer rules unsaid."""
    kept = {name: value for name in SAID if (value := said.get(name)) and getattr(options, name) is None}
    if options.provider is not None:
        kept.pop("model", None)  # it was one of another provider
    if (file := kept.get("config_file")) and not os.path.isfile(file):
        raise UsageError(f"{file}, the --config that run {run_id} began with, is gone; put it back, or name another")
    before, given = json.loads(said.get("overrides", "{}")), options.overrides
    overrides = {name: {**before.get(name, {}), **given.get(name, {})} for name in {*before, *given}}
    return replace(options, overrides=overrides, **cast("Json", kept))


def _task_again(options: Options, begun: Begun) -> Prepared:
    made = task(_as_begun(options, begun.inputs, begun.run_id), begun.inputs["task"])
    return replace(made, again=begun.run_id)


def resumed(options: Options, run_id: str) -> Prepared:
    """A run goes on with the task, or with the workflow and the inputs, that it began with."""
    begun, held_in = _begun(options, run_id)
    if not begun.file:
        return _task_again(options, begun)
    options = _as_begun(options, begun.said or {}, begun.run_id)
    workflow = load(begun.file, (options.workspace or os.getcwd(), held_in))
    if fingerprint(workflow) != begun.digest:
        changed = f"{begun.file} or a file that it names has changed since run {begun.run_id} began"
        raise UsageError(f"{changed}; run it anew")
    return _workflow(options, workflow, begun.inputs, again=begun.run_id)


def _workflow(
    options: Options,
    workflow: Workflow,
    values: dict[str, str],
    *,
    again: str | None = None,
    rounds: int | None = None,
) -> Prepared:
    async def drive(run: Run) -> TurnResult:
        kit = run.session.scene.kit
        assert kit is not None
        assert kit.spawn is not None
        _need_capabilities(workflow, run.session.config.capabilities)
        made = Execution(run.session, workflow, values, kit.spawn, run_id=run.run_id, said=_said(options))
        made.rounds = rounds
        return await made.run()

    def with_rounds(most: int) -> Prepared:
        return _workflow(options, workflow, values, again=again, rounds=most)

    options = replace(options, beside=os.path.dirname(os.path.abspath(workflow.file)))
    plan = partial(plan_of, workflow, values)
    return Prepared(options, "agentfile", drive, plan, again=again, with_rounds=with_rounds)


def _need_capabilities(workflow: Workflow, known: Mapping[str, str]) -> None:
    required = {agent.requires for agent in workflow.agents if agent.requires}
    if missing := sorted(required - known.keys()):
        fix = f'name a provider for it: [capabilities] {missing[0]} = "ENTRY"'
        raise UsageError(f"{workflow.name} REQUIRES {', '.join(missing)}, and no provider is known for it; {fix}")


def _begun(options: Options, run_id: str) -> tuple[Begun, str]:
    """What a run began with, and the workspace that it was held in."""
    from adderclaw import config

    loaded = config.load(config_file=options.config_file, workspace=options.workspace)
    store = Store.open(loaded.config.memory.path)
    try:
        row = runs.get(store, run_id)
        begun = workflows.get(store, row.run_id) if row is not None else None
        held_in = transcript.workspace_of(store, row.conversation_id) if row is not None else ""
    finally:
        store.close()
    if row is not None and row.kind == "spec":
        where = f"what has passed stands in {held_in}/.adderclaw/status.json"
        raise UsageError(f"run {row.run_id} worked on a specification: {where}, and `adderclaw run` goes on with it")
    if begun is None:
        raise UsageError(f"there is no run {run_id!r} of a workflow or a task; `adderclaw runs list` lists them")
    return begun, held_in
