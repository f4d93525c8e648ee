"""What a program may say of a run that it begins, and the driver that this stands for."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from adderclaw.agent.run.driver import Driver, MessageDriver
from adderclaw.config.legacy.options import Options, overrides
from adderclaw.core.decode import Between
from adderclaw.core.errors import UsageError
from adderclaw.core.record import record
from adderclaw.flows.agentfile import driver
from adderclaw.flows.resume import resumed
from adderclaw.flows.task.driver import TaskDriver

if TYPE_CHECKING:
    from adderclaw.config.schema.settings import Limits

WHAT = ("agentfile", "task", "spec", "sop", "message", "resume")
"""What says what is to be run."""


@record
class RunRequest:
    """Exactly one of WHAT."""

    agentfile: str | None = None
    task: str | None = None
    spec: str | None = None
    sop: str | None = None
    """A name, as `sop list` has it, or the path of a SOP.toml."""
    message: str | None = None
    resume: str | None = None
    """The id of a run that goes on."""
    inputs: dict[str, str] | None = None
    workspace: str | None = None
    profile: Literal["supervised", "sandboxed", "readonly", "permissive"] | None = None
    provider: str | None = None
    model: str | None = None
    skills_dir: str | None = None
    max_turns: Annotated[int, Between(0)] | None = None
    max_iterations: Annotated[int, Between(1)] | None = None
    limits: dict[Literal["cost_usd", "tokens", "tool_calls", "seconds"], Annotated[float, Between(0)]] | None = None
    rounds: Annotated[int, Between(0)] | None = None
    """Rounds that each LOOP may go, whatever its file says."""


@record
class RunParams(RunRequest):
    """What a program on this machine, which is the operator, may say besides."""

    config: str | None = None
    dry_run: bool = False
    debug_llm: bool | None = None


def wanted(params: RunParams) -> str:
    """Which of WHAT is given."""
    given = [name for name in WHAT if getattr(params, name)]
    if len(given) != 1:
        raise UsageError(f"give exactly one of {', '.join(WHAT[:-1])} and {WHAT[-1]}")
    return given[0]


def prepared(options: Options, params: RunParams) -> Driver:
    """The driver, made ready; what is wrong is refused before a run begins. Completed: nothing is left to do."""
    wanted(params)
    said = {name: value for name in ("workspace", "profile", "provider", "model") if (value := getattr(params, name))}
    made = _chosen(
        replace(
            options,
            **said,
            config_file=params.config or options.config_file,
            overrides={
                **options.overrides,
                **overrides(params.skills_dir, params.max_turns, params.debug_llm, _whole(params.limits)),
            },
        ),
        params,
    )
    if params.rounds is not None and made.opening.kind != "agentfile":
        raise UsageError("rounds are for the LOOPs of an agentfile")
    return made


def beyond(params: RunRequest, own: "Limits") -> str:
    """Which of the operator's own limits are less than what is wanted, with what they are; empty where none is."""
    wider = [name for name, value in (params.limits or {}).items() if value > getattr(own, name)]
    return ", ".join(f"{name} {getattr(own, name):g}" for name in wider)


def _whole(limits: Mapping[Any, float] | None) -> dict[str, float]:
    """Counts as whole numbers, as the configuration has them."""
    given = dict(limits or {})
    return {name: int(value) if value.is_integer() else value for name, value in given.items()}


def _chosen(options: Options, params: RunParams) -> Driver:
    if params.inputs and not params.agentfile and not params.sop:
        raise UsageError("inputs are for an agentfile or a sop")
    if params.agentfile:
        return driver.prepare(options, params.agentfile, params.inputs or {}, params.rounds)
    if params.max_iterations is not None and not params.spec:
        raise UsageError("max_iterations is for a spec")
    if params.task:
        return TaskDriver(options, params.task)
    if params.skills_dir or params.max_turns is not None:
        raise UsageError("skills_dir and max_turns are for a task")
    if params.spec:
        from adderclaw.flows.spec import driver as specification

        return specification.prepare(options, params.spec, params.max_iterations)
    if params.sop:
        from adderclaw.flows.sop import driver as sops

        return sops.prepare(options, params.sop, params.inputs or {})
    if params.resume:
        return resumed(options, params.resume, params.rounds)
    return MessageDriver(options, params.message or "")
