"""An Agentfile with its inputs: a driver."""

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
from adderclaw.flows.agentfile.execute import WorkflowExecution, begun_with
from adderclaw.flows.agentfile.load import bound, load
from adderclaw.flows.agentfile.workflow import Workflow
from adderclaw.storage import workflows

STRICT = ("supervised", "readonly")
"""Profiles in which nothing that could do harm happens unasked."""
SECURITY = {
    "paranoid": "SECURITY paranoid: what could do harm is asked about, as in --profile supervised",
    "research": "SECURITY research grants nothing: what a run may do is said by --profile and policy.toml",
}


def prepare(options: Options, path: str, inputs: Mapping[str, str], rounds: int | None = None) -> "AgentfileDriver":
    """`rounds`: how many each LOOP may go, whatever the file says."""
    workflow = load(path, (options.workspace or os.getcwd(),))
    return AgentfileDriver(options, workflow, bound(workflow, inputs), rounds)


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
        return Opening("agentfile", _careful(options, self.workflow), again=self.again, rows=(self._begun,))

    def _begun(self, cursor: Cursor, session: Session) -> None:
        begun = begun_with(session.bus.run_id, self.workflow, self.inputs, stored(self.options))
        workflows.begin(cursor, begun)

    def plan(self) -> Json:
        return dry.as_json(self.workflow, self.inputs)

    def plan_text(self) -> str:
        return dry.text(self.plan())

    def dry(self) -> Driver | None:
        return None

    async def run(self, session: Session) -> TurnResult:
        _need_capabilities(self.workflow, session.config.capabilities)
        if (said := SECURITY.get(self.workflow.security.mode)) is not None:
            session.bus.publish({"event_type": "warning", "message": said})
        execution = WorkflowExecution(
            session,
            self.workflow,
            self.inputs,
            session.host.spawn,
            run_id=session.bus.run_id,
            rounds=self.rounds,
        )
        return await execution.run()


def _careful(options: Options, workflow: Workflow) -> Options:
    """`SECURITY paranoid` has asked what a profile would let pass. Nothing that a file says lets more pass."""
    if workflow.security.mode != "paranoid":
        return options
    from adderclaw import config

    loaded = config.load(
        config_file=options.config_file, workspace=options.workspace, beside=options.beside, here=options.here
    )
    profile = options.profile or loaded.config.runtime.profile
    return options if profile in STRICT else replace(options, profile=STRICT[0])


def _need_capabilities(workflow: Workflow, known: Mapping[str, str]) -> None:
    required = {agent.requires for agent in workflow.agents if agent.requires}
    if missing := sorted(required - known.keys()):
        fix = f'name a provider for it: [capabilities] {missing[0]} = "ENTRY"'
        raise UsageError(f"{workflow.name} REQUIRES {', '.join(missing)}, and no provider is known for it; {fix}")
