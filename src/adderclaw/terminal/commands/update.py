"""`adderclaw update`: how the next version comes, for the way that this one was installed."""

import typer

from adderclaw.config import installation
from adderclaw.terminal.commands.common import OutputFormat
from adderclaw.terminal.output import print_json

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def update(output_format: OutputFormat = "text") -> None:
    """Show how to update, for the way AdderClaw was installed. Changes nothing and uses no network.

    Example: adderclaw update
    """
    report = installation.found()
    if output_format == "json":
        print_json(report)
        return
    source = f", from {report['source']}" if report["source"] else ""
    print(f"adderclaw {report['version']}, installed by {report['way']} in {report['where']}{source}")
    print(f"to update it: {report['update']}")
