"""`adderclaw spec`: the scenarios of a specification."""

import os
from typing import Annotated

import typer

from adderclaw.config import Loaded, load
from adderclaw.core.errors import UsageError
from adderclaw.core.json_text import to_json
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json
from adderclaw.flows.spec import features, status
from adderclaw.flows.spec.status import Scenario, Status
from adderclaw.terminal.commands.common import (
    ConfigFile,
    LimitsGiven,
    ModelName,
    OutputFormat,
    ProviderName,
    WorkspaceDir,
    group,
)
from adderclaw.terminal.commands.plain import key_chooser
from adderclaw.terminal.limit_options import limits
from adderclaw.terminal.output import print_json

app = group("Manage the scenarios of a specification: sync feature files, show, verify, block, deprecate.")

ScenarioId = Annotated[str, typer.Argument(metavar="SCENARIO_ID", help="As `spec status` shows it.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; shown in the status.")]


@app.command()
def sync(workspace: WorkspaceDir = None, config: ConfigFile = None, output_format: OutputFormat = "text") -> None:
    """Add the scenarios of features/*.feature to the status; none is ever removed.

    Example: adderclaw spec sync
    """
    result = features.sync(_project(workspace, config))
    if output_format == "json":
        print_json(result.as_json())
        return
    names = {scenario.id: scenario.name for scenario in result.status.scenarios}
    for word, ids in (
        ("added", result.added),
        ("changed, must pass again", result.changed),
        ("deprecated", result.deprecated),
        ("in no feature file", result.undescribed),
    ):
        for id in ids:
            print(visible(f"{word}: {id} {names[id]}", keep_newlines=False))
    print(f"{result.status.passed} of {result.status.total} scenarios have passed")


@app.command("status")
def show(workspace: WorkspaceDir = None, config: ConfigFile = None, output_format: OutputFormat = "text") -> None:
    """Show each scenario and its state.

    Example: adderclaw spec status
    """
    loaded, project, now = _load_status(workspace, config)
    outdated = {scenario.id for scenario in _outdated(loaded, project, now)}
    if output_format == "json":
        rows: list[Json] = [
            {
                **to_json(scenario),
                **to_json(now.mark(scenario), omit=("",)),
                "state": _state(now, scenario),
                **({"verified": scenario.id not in outdated} if scenario.passed else {}),
            }
            for scenario in now.scenarios
        ]
        print_json({"scenarios": rows, "scenarios_passed": now.passed, "scenarios_total": now.total})
        return
    for scenario in now.scenarios:
        mark = now.mark(scenario)
        why = mark.deprecated or (mark.blocked if not scenario.passed else "")
        if scenario.id in outdated:
            why = "the project has changed since it was verified" if mark.tree else "it has not been verified"
        reason = f": {why}" if why else ""
        print(visible(f"{_state(now, scenario):<10}  {scenario.id}  {scenario.name} ({scenario.feature}){reason}"))
    print(f"{now.passed} of {now.total} scenarios have passed")


@app.command()
def verify(
    everything: Annotated[
        bool, typer.Option("--all", help="Verify every passed scenario, even if the project has not changed.")
    ] = False,
    provider: ProviderName = None,
    model: ModelName = None,
    workspace: WorkspaceDir = None,
    config: ConfigFile = None,
    limit: LimitsGiven = None,
    output_format: OutputFormat = "text",
) -> None:
    """Verify again, in a separate session, the scenarios that passed before the project last changed. If nothing
    changed, no model is called.

    A scenario that no longer passes is open again, and the exit code is 1. `adderclaw run` then works on it.

    Example: adderclaw spec verify
    """
    from adderclaw.config.legacy.options import Options, overrides
    from adderclaw.flows.spec.driver import prepare
    from adderclaw.terminal.commands.run import execute_driver

    loaded, project, now = _load_status(workspace, config)
    passed = [scenario for scenario in now.wanted if scenario.passed]
    if not passed or (not everything and not _outdated(loaded, project, now)):
        count = len(passed)
        line = f"{count} of {count} passed scenarios are already verified on the current project: nothing to do"
        line = line if passed else "no scenario has passed yet: nothing to verify"
        counts: Json = {"verified": 0, "scenarios_passed": now.passed, "scenarios_total": now.total, "checks": []}
        if output_format == "json":
            print_json({"outcome": "completed", "answer": line, **counts})
        else:
            print(line)
        return
    options = Options(
        config_file=config,
        workspace=workspace,
        provider=provider,
        model=model,
        headless=True,
        asks="must",
        choose=key_chooser(config),
        here=True,
        overrides=overrides(None, None, None, limits(limit)),
    )
    raise typer.Exit(execute_driver(prepare(options, None, None, "all" if everything else "changed"), output_format))


@app.command()
def block(scenario: ScenarioId, reason: Reason, workspace: WorkspaceDir = None, config: ConfigFile = None) -> None:
    """Mark a scenario as blocked: runs skip it, and do not report the work as completed.

    Example: adderclaw spec block SC-F001 --reason "waits for the key of the mail server"
    """
    _set_mark(status.block(_project(workspace, config), scenario, _require_scenario(reason)), scenario)


@app.command()
def unblock(scenario: ScenarioId, workspace: WorkspaceDir = None, config: ConfigFile = None) -> None:
    """Unblock a scenario, so that runs work on it again.

    Example: adderclaw spec unblock SC-F001
    """
    _set_mark(status.block(_project(workspace, config), scenario, ""), scenario)


@app.command()
def deprecate(
    scenario: ScenarioId,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why it is no longer needed.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="The scenario is needed again.")] = False,
    workspace: WorkspaceDir = None,
    config: ConfigFile = None,
) -> None:
    """Mark a scenario as no longer needed; it stays in the status.

    Example: adderclaw spec deprecate SC-F001 --reason "logins come from the company's own server"
    """
    _set_mark(
        status.deprecate(_project(workspace, config), scenario, "" if undo else _require_scenario(reason)), scenario
    )


def _project(workspace: str | None, config: str | None) -> str:
    return os.path.realpath(load(config_file=config, workspace=workspace, here=True).workspace)


def _load_status(workspace: str | None, config: str | None) -> tuple[Loaded, str, Status]:
    """The project with its scenarios. Raises UsageError if it has none."""
    loaded = load(config_file=config, workspace=workspace, here=True)
    project = os.path.realpath(loaded.workspace)
    if (now := status.read(project)) is None:
        raise UsageError(f"{project} has no {status.FILE}: `adderclaw spec sync` or `adderclaw run` makes one")
    return loaded, project, now


def _outdated(loaded: Loaded, project: str, now: Status) -> tuple[Scenario, ...]:
    from adderclaw.flows.spec import tree

    return (
        now.outdated(tree.digest_of(project, loaded.config)) if any(scenario.passed for scenario in now.wanted) else ()
    )


def _require_scenario(reason: str) -> str:
    if not reason.strip():
        raise UsageError('give a reason with --reason "…"')
    return reason


def _set_mark(now: Status, scenario: str) -> None:
    chosen = next(chosen for chosen in now.scenarios if chosen.id == scenario)
    print(visible(f"{_state(now, chosen)}: {chosen.id} {chosen.name}", keep_newlines=False))


def _state(now: Status, scenario: Scenario) -> str:
    mark = now.mark(scenario)
    return "deprecated" if mark.deprecated else "passed" if scenario.passed else "blocked" if mark.blocked else "left"
