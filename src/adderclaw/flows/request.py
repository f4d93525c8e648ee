"""The parameters of a run that a program starts, and the driver that carries them out."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Literal

from adderclaw.agent.run.driver import Driver, MessageDriver
from adderclaw.config.legacy.options import Options, overrides
from adderclaw.config.schema import LimitName, Limits
from adderclaw.core.decode import Between
from adderclaw.core.errors import UsageError
from adderclaw.core.record import record
from adderclaw.flows.agentfile import driver as agentfiles
from adderclaw.flows.resume import resume_driver
from adderclaw.flows.task.driver import TaskDriver

SOURCES = ("agentfile", "task", "spec", "sop", "message", "resume")
"""The parameters of which exactly one must be set: they name what to run."""


@record
class RunRequest:
    """What a remote client may set. Exactly one of SOURCES must be set."""

    agentfile: str | None = None
    task: str | None = None
    spec: str | None = None
    sop: str | None = None
    """A name from `sop list`, or the path of a SOP.toml."""
    message: str | None = None
    resume: str | None = None
    """The id of the run to resume."""
    inputs: dict[str, str] | None = None
    workspace: str | None = None
    profile: Literal["supervised", "sandboxed", "readonly", "permissive"] | None = None
    provider: str | None = None
    model: str | None = None
    skills_dir: str | None = None
    max_turns: Annotated[int, Between(0)] | None = None
    max_iterations: Annotated[int, Between(1)] | None = None
    limits: dict[LimitName, Annotated[float, Between(0)]] | None = None
    rounds: Annotated[int, Between(0)] | None = None
    """How many rounds each LOOP may run, overriding its file."""


@record
class RunParams(RunRequest):
    """What a program on this machine may set in addition, since it acts as the operator."""

    config: str | None = None
    dry_run: bool = False
    debug_llm: bool | None = None


def chosen_source(params: RunParams) -> str:
    """Returns which one of SOURCES is set."""
    names = [name for name in SOURCES if getattr(params, name)]
    if len(names) != 1:
        raise UsageError(f"give exactly one of {', '.join(SOURCES[:-1])} and {SOURCES[-1]}")
    return names[0]


def prepare_driver(options: Options, params: RunParams) -> Driver:
    """Returns the driver, so that bad parameters are refused before a run begins. Raises Completed if none is left."""
    chosen_source(params)
    chosen = {name: value for name in ("workspace", "profile", "provider", "model") if (value := getattr(params, name))}
    driver = _choose_driver(
        replace(
            options,
            **chosen,
            config_file=params.config or options.config_file,
            overrides={
                **options.overrides,
                **overrides(params.skills_dir, params.max_turns, params.debug_llm, _whole_numbers(params.limits)),
            },
        ),
        params,
    )
    if params.rounds is not None and driver.opening.kind != "agentfile":
        raise UsageError("`rounds` needs an agentfile: it sets how many rounds its LOOPs may run")
    return driver


def limits_above_own(params: RunRequest, own: Limits) -> str:
    """Names the operator's limits that the request exceeds, with their values; empty if it exceeds none."""
    wider = [name for name, value in (params.limits or {}).items() if value > getattr(own, name)]
    return ", ".join(f"{name} {getattr(own, name):g}" for name in wider)


def _whole_numbers(limits: Mapping[str, float] | None) -> dict[str, float]:
    """Converts whole floats to integers, as the configuration requires for counts."""
    return {name: int(limit) if limit.is_integer() else limit for name, limit in (limits or {}).items()}


def _choose_driver(options: Options, params: RunParams) -> Driver:
    if params.inputs and not params.agentfile and not params.sop:
        raise UsageError("`inputs` needs an agentfile or a sop")
    if params.agentfile:
        return agentfiles.prepare(options, params.agentfile, params.inputs or {}, params.rounds)
    if params.max_iterations is not None and not params.spec:
        raise UsageError("`max_iterations` needs a spec")
    if params.task:
        return TaskDriver(options, params.task)
    if params.skills_dir or params.max_turns is not None:
        raise UsageError("`skills_dir` and `max_turns` need a task")
    if params.spec:
        from adderclaw.flows.spec import driver as specification

        return specification.prepare(options, params.spec, params.max_iterations)
    if params.sop:
        from adderclaw.flows.sop import driver as sops

        return sops.prepare(options, params.sop, params.inputs or {})
    if params.resume:
        return resume_driver(options, params.resume, params.rounds)
    return MessageDriver(options, params.message or "")
