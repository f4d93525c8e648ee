"""`adderclaw doctor`: is everything here that this program needs, and if not, what mends it?"""

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
        bool, typer.Option("--connect", help="Ask the model one word, wherever it is; that may cost a little.")
    ] = False,
    output_format: OutputFormat = "text",
) -> None:
    """Check what a run would need, by trying it, and say how to mend it.

    Changes nothing. Exit code 1 when something that is needed is broken.

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
