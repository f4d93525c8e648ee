"""`adderclaw doctor`: checks everything that this program needs, and says how to fix problems."""

from typing import Annotated

import typer

from adderclaw.config.legacy.options import Options
from adderclaw.flows.doctor import health
from adderclaw.terminal.commands.common import ConfigFile, OutputFormat, WorkspaceDir
from adderclaw.terminal.output import print_json

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def doctor(
    config: ConfigFile = None,
    workspace: WorkspaceDir = None,
    connect: Annotated[
        bool, typer.Option("--connect", help="Also ask the model for one word; this may cost a little.")
    ] = False,
    output_format: OutputFormat = "text",
) -> None:
    """Test everything a run needs, and say how to fix problems.

    Changes nothing. Exits with 1 if something needed is broken.

    Example: adderclaw doctor
    """
    report = health.doctor(Options(config_file=config, workspace=workspace), connect=connect)
    if output_format == "json":
        print_json(report)
    else:
        for check in report["checks"]:
            detail = check["detail"].replace("\n", " ")
            print(f"{check['state']:8} {check['name']:13} {detail}{f'  → {check["fix"]}' if check['fix'] else ''}")
    raise typer.Exit(0 if report["ok"] else 1)
