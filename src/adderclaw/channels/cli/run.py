"""`adderclaw run`: an Agentfile or a task, worked on with nobody watching."""

import os
from typing import Annotated

import typer

from adderclaw.channels import headless
from adderclaw.channels.cli.common import (
    ConfigFile,
    ProfileName,
    ProviderName,
    StreamFormat,
    StreamOutput,
    WorkspaceDir,
    print_json,
)
from adderclaw.credentials.redaction import visible
from adderclaw.drivers.agentfile import dry
from adderclaw.drivers.agentfile.execute import Execution, fingerprint
from adderclaw.drivers.agentfile.load import bound, load
from adderclaw.drivers.agentfile.workflow import Workflow
from adderclaw.errors import UsageError
from adderclaw.kernel.session import TurnResult
from adderclaw.runtime import Options, Run
from adderclaw.store import Store, workflows
from adderclaw.store.workflows import Begun

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def run(
    target: Annotated[str | None, typer.Argument(metavar="[TARGET]", help="An Agentfile, or a task in quotes.")] = None,
    agentfile: Annotated[str | None, typer.Option("--agentfile", metavar="FILE", help="TARGET is this file.")] = None,
    given: Annotated[
        list[str] | None, typer.Option("--input", "-i", metavar="NAME=VALUE", help="An input of the workflow.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="RUN_ID", help="Go on with a run that did not end.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and the prompts; ask no model.")] = False,
    profile: Annotated[
        ProfileName | None,
        typer.Option("--profile", help="How much may happen without asking; default: runtime.profile."),
    ] = None,
    provider: ProviderName = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", metavar="MODEL", help="Another model of that provider.")
    ] = None,
    workspace: WorkspaceDir = None,
    config: ConfigFile = None,
    output_format: StreamOutput = "text",
) -> None:
    """Run a workflow with nobody watching; the answer is on stdout, everything else on stderr.

    Example: adderclaw run Agentfile --input who=world
    """
    options = Options(
        config_file=config, workspace=workspace, provider=provider, model=model, profile=profile, headless=True
    )
    inputs = _inputs(given or [])
    if resume is not None:
        raise typer.Exit(_go_on(options, resume, inputs, output_format))
    path = agentfile or _file(target)
    workflow = load(path, (os.getcwd(),))
    values = bound(workflow, inputs)
    if dry_run:
        _show(workflow, values, output_format)
        return
    raise typer.Exit(_workflow(options, workflow, values, None, output_format))


def _file(target: str | None) -> str:
    if target is None:
        raise UsageError("nothing to run: name an Agentfile, such as `adderclaw run Agentfile`")
    if not os.path.exists(target):
        raise UsageError(f"there is no file {target!r}")
    return target


def _inputs(given: list[str]) -> dict[str, str]:
    """`--input name=value`, each once; `@file` is the text of a file."""
    inputs: dict[str, str] = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise UsageError(f"--input {item!r}: it takes NAME=VALUE")
        if name in inputs:
            raise UsageError(f"--input {name}: given twice")
        inputs[name] = value
    return inputs


def _show(workflow: Workflow, values: dict[str, str], output_format: str) -> None:
    if output_format == "text":
        print(visible(dry.text(workflow, values)))
    else:
        print_json(dry.as_json(workflow, values))


def _workflow(
    options: Options,
    workflow: Workflow,
    values: dict[str, str],
    again: str | None,
    output_format: StreamFormat,
) -> int:
    from dataclasses import replace

    async def drive(run: Run) -> TurnResult:
        kit = run.session.scene.kit
        assert kit is not None
        assert kit.spawn is not None
        missing = sorted(
            {
                agent.requires
                for agent in workflow.agents
                if agent.requires and agent.requires not in run.session.config.capabilities
            }
        )
        if missing:
            fix = f'name a provider for it: capabilities.{missing[0]} = "ENTRY"'
            raise UsageError(f"{workflow.name} REQUIRES {', '.join(missing)}, and no provider is known for it; {fix}")
        return await Execution(run.session, workflow, values, kit.spawn, run_id=run.run_id).run()

    options = replace(options, beside=os.path.dirname(os.path.abspath(workflow.file)))
    return headless.execute(options, drive, kind="agentfile", again=again, output_format=output_format)


def _go_on(options: Options, run_id: str, inputs: dict[str, str], output_format: StreamFormat) -> int:
    """A run goes on with the workflow and the inputs that it began with."""
    if inputs:
        raise UsageError("--resume goes on with the inputs of the run: leave --input out")
    begun = _begun(options, run_id)
    workflow = load(begun.file, (os.getcwd(),))
    if fingerprint(workflow) != begun.digest:
        raise UsageError(
            f"{begun.file} or a file that it names has changed since run {begun.run_id} began; run it anew"
        )
    return _workflow(options, workflow, begun.inputs, begun.run_id, output_format)


def _begun(options: Options, run_id: str) -> Begun:
    from adderclaw import config
    from adderclaw.store import runs

    loaded = config.load(config_file=options.config_file, workspace=options.workspace)
    store = Store.open(loaded.config.memory.path)
    try:
        row = runs.get(store, run_id)
        begun = workflows.get(store, row.run_id) if row is not None else None
    finally:
        store.close()
    if begun is None:
        raise UsageError(f"there is no run {run_id!r} of a workflow; `adderclaw runs` lists them")
    return begun
