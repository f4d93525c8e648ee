"""The driver of an Agentfile with its inputs."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from sqlite3 import Cursor

from adderclaw.agent.run.driver import Driver, Opening
from adderclaw.agent.session.session import Session, TurnResult
from adderclaw.config.legacy.options import Options, stored
from adderclaw.core.errors import UsageError
from adderclaw.core.types import Json
from adderclaw.flows.agentfile import dry
from adderclaw.flows.agentfile.execute import WorkflowExecution, begin_record
from adderclaw.flows.agentfile.load import bind_inputs, load
from adderclaw.flows.agentfile.workflow import Workflow
from adderclaw.storage import workflows

STRICT_PROFILES = ("supervised", "readonly")
"""Profiles that ask before or refuse everything that could do harm."""
SECURITY_WARNINGS = {
    "paranoid": "SECURITY paranoid: the run asks before anything that could do harm, as with --profile supervised",
    "research": "SECURITY research grants no permissions: --profile and policy.toml decide what a run may do",
}


def prepare(options: Options, path: str, inputs: Mapping[str, str], rounds: int | None = None) -> "AgentfileDriver":
    """`rounds` overrides how many rounds each LOOP may run."""
    workflow = load(path, (options.workspace or os.getcwd(),))
    return AgentfileDriver(options, workflow, bind_inputs(workflow, inputs), rounds)


@dataclass(frozen=True)
class AgentfileDriver:
    options: Options
    workflow: Workflow
    inputs: dict[str, str]
    rounds: int | None = None
    again: str | None = None

    @property
    def opening(self) -> Opening:
        folder = os.path.dirname(os.path.abspath(self.workflow.file))
        options = replace(self.options, beside=folder)
        return Opening(
            "agentfile", _apply_security_mode(options, self.workflow), again=self.again, rows=(self._save_begin,)
        )

    def _save_begin(self, cursor: Cursor, session: Session) -> None:
        begun = begin_record(session.bus.run_id, self.workflow, self.inputs, stored(self.options))
        workflows.begin(cursor, begun)

    def plan(self) -> Json:
        return dry.as_json(self.workflow, self.inputs)

    def plan_text(self) -> str:
        return dry.text(self.plan())

    def dry(self) -> Driver | None:
        return None

    async def run(self, session: Session) -> TurnResult:
        _require_capabilities(self.workflow, session.config.capabilities)
        if (warning := SECURITY_WARNINGS.get(self.workflow.security.mode)) is not None:
            session.bus.publish({"event_type": "warning", "message": warning})
        execution = WorkflowExecution(
            session,
            self.workflow,
            self.inputs,
            session.host.spawn,
            run_id=session.bus.run_id,
            rounds=self.rounds,
        )
        return await execution.run()


def _apply_security_mode(options: Options, workflow: Workflow) -> Options:
    """Applies `SECURITY paranoid`, which makes the profile stricter. A file can never make it less strict."""
    if workflow.security.mode != "paranoid":
        return options
    from adderclaw import config

    loaded = config.load(
        config_file=options.config_file, workspace=options.workspace, beside=options.beside, here=options.here
    )
    profile = options.profile or loaded.config.runtime.profile
    return options if profile in STRICT_PROFILES else replace(options, profile=STRICT_PROFILES[0])


def _require_capabilities(workflow: Workflow, known: Mapping[str, str]) -> None:
    required = {agent.requires for agent in workflow.agents if agent.requires}
    if missing := sorted(required - known.keys()):
        fix = f'name a provider for it: [capabilities] {missing[0]} = "ENTRY"'
        raise UsageError(f"{workflow.name} REQUIRES {', '.join(missing)}, but no provider is configured for it; {fix}")
