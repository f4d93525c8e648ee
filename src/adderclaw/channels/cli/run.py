"""`adderclaw run`: an Agentfile or a task, worked on with nobody watching."""

import os
from typing import Annotated

import typer

from adderclaw.channels import headless, prepared
from adderclaw.channels.cli.common import (
    ConfigFile,
    ProfileName,
    ProviderName,
    StreamOutput,
    WorkspaceDir,
    print_json,
)
from adderclaw.credentials.redaction import visible
from adderclaw.drivers.agentfile import dry
from adderclaw.errors import UsageError
from adderclaw.runtime import Options

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
        if inputs or target or agentfile:
            raise UsageError("--resume goes on with the workflow and the inputs of the run: leave the others out")
        made = prepared.resumed(options, resume)
    else:
        made = prepared.agentfile(options, agentfile or _file(target), inputs)
    if not dry_run:
        raise typer.Exit(headless.execute(made, output_format))
    plan = made.plan()
    if output_format == "text":
        print(visible(dry.text(plan)))
    else:
        print_json(plan)


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
