"""`adderclaw validate`, `inspect` and `fmt`: check, show and format an Agentfile without running it."""

import os
import sys
from typing import Annotated

import typer

from adderclaw.core.errors import EXIT_USAGE
from adderclaw.core.redaction import visible
from adderclaw.flows.agentfile import show
from adderclaw.flows.agentfile.load import load, read_agentfile
from adderclaw.flows.agentfile.parse import MAX_BYTES, parse
from adderclaw.flows.agentfile.workflow import InvalidAgentfile
from adderclaw.terminal.commands.common import OutputFormat
from adderclaw.terminal.output import print_json

app = typer.Typer(add_completion=False, rich_markup_mode=None)

File = Annotated[str, typer.Argument(metavar="AGENTFILE", help="The file, or the folder it is in.")]


@app.command()
def validate(file: File = "Agentfile", output_format: OutputFormat = "text") -> None:
    """Check an Agentfile and every file it names; all problems are reported at once.

    Example: adderclaw validate Agentfile
    """
    try:
        workflow = load(file, (os.getcwd(),))
    except InvalidAgentfile as error:
        if output_format == "text":
            raise
        wrong = [
            {"line": problem.line, "column": problem.column, "message": problem.message} for problem in error.problems
        ]
        print_json({"valid": False, "file": error.file, "problems": wrong})
        raise typer.Exit(EXIT_USAGE) from error
    if output_format == "json":
        print_json({"valid": True, "file": workflow.file, "problems": []})
    else:
        counts = f"{len(workflow.goals)} goals, {len(workflow.agents)} agents, {len(workflow.steps)} steps"
        print(f"{visible(workflow.file)} is valid: {workflow.name}, {counts}")


@app.command()
def inspect(
    file: File = "Agentfile",
    graph: Annotated[bool, typer.Option("--graph", help="Print a Mermaid flowchart.")] = False,
    output_format: OutputFormat = "text",
) -> None:
    """Show what a workflow would do, as a tree, JSON or a graph.

    Example: adderclaw inspect Agentfile --graph
    """
    workflow = load(file, (os.getcwd(),))
    if output_format == "json":
        print_json(show.as_json(workflow))
    else:
        print(visible(show.graph(workflow) if graph else show.tree(workflow)))


@app.command()
def fmt(
    file: File = "Agentfile",
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with 1 if the file would change.")
    ] = False,
) -> None:
    """Format an Agentfile; `-` reads stdin and writes stdout.

    Example: adderclaw fmt Agentfile
    """
    if file == "-":
        text = sys.stdin.buffer.read(MAX_BYTES + 1).decode("utf-8", "surrogateescape")
        parse(text, "<stdin>")
        print(show.format_text(text), end="")
        return
    path = os.path.join(file, "Agentfile") if os.path.isdir(file) else file
    text = read_agentfile(path, (os.getcwd(),))
    parse(text, path)
    tidy = show.format_text(text)
    if tidy == text:
        print(f"{visible(path)} is already formatted", file=sys.stderr)
        return
    if check:
        print(f"{visible(path)} would be changed by `adderclaw fmt`", file=sys.stderr)
        raise typer.Exit(1)
    _replace(path, tidy)
    print(f"{visible(path)} was formatted", file=sys.stderr)


def _replace(path: str, text: str) -> None:
    """Replaces the file atomically."""
    import tempfile

    folder = os.path.dirname(os.path.realpath(path))
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8", newline="") as file:
        file.write(text)
    os.chmod(file.name, os.stat(path).st_mode & 0o7777)
    os.replace(file.name, os.path.realpath(path))
