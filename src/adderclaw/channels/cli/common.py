"""What the commands share: options, formats, and how one command's module is run."""

import importlib
import json
from typing import Annotated, Any, Literal, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command

from adderclaw.errors import UsageError

LIMITS: dict[str, type[int] | type[float]] = {
    "cost_usd": float,
    "tokens": int,
    "tool_calls": int,
    "seconds": float,
    "rounds": int,
}
"""What `--limit` takes: the keys of [limits], and the rounds of a turn or of a LOOP."""
Format = Literal["text", "json"]
StreamFormat = Literal["text", "json", "stream-json"]
ProfileName = Literal["supervised", "sandboxed", "readonly", "permissive"]

OutputFormat = Annotated[Format, typer.Option("--output-format", help="text for people, json for programs.")]
StreamOutput = Annotated[
    StreamFormat, typer.Option("--output-format", help="text for people; json or stream-json for programs.")
]
ConfigFile = Annotated[
    str | None, typer.Option("--config", metavar="FILE", help="This file alone, over the built-in defaults.")
]
WorkspaceDir = Annotated[str | None, typer.Option("--workspace", metavar="DIR", help="Where the agent may work.")]
Profile = Annotated[
    ProfileName | None,
    typer.Option("--profile", help="How much may happen without asking; default: security.autonomy."),
]
ProviderName = Annotated[str | None, typer.Option("--provider", metavar="NAME", help="A name under providers.models.")]
ModelName = Annotated[str | None, typer.Option("--model", metavar="MODEL", help="Another model of that provider.")]


LimitsGiven = Annotated[
    list[str] | None,
    typer.Option(
        "--limit", metavar="NAME=VALUE", help="For this run: cost_usd, tokens, tool_calls, seconds or rounds."
    ),
]


def limits(given: list[str] | None) -> dict[str, float]:
    """`--limit tokens=1000`, each name once, as numbers."""
    found: dict[str, float] = {}
    for item in given or []:
        name, _, value = item.partition("=")
        if name not in LIMITS:
            raise UsageError(f"--limit {item[:100]!r}: it takes NAME=VALUE, and NAME is one of {', '.join(LIMITS)}")
        if name in found:
            raise UsageError(f"--limit {name}: given twice")
        try:
            found[name] = LIMITS[name](value)
        except ValueError:
            kind = "a number" if LIMITS[name] is float else "a whole number"
            raise UsageError(f"--limit {item[:100]!r}: {name} is {kind}") from None
        if not 0 <= found[name] < float("inf"):
            raise UsageError(f"--limit {item[:100]!r}: it is 0 or more")
    return found


def group(help_text: str) -> typer.Typer:
    """A command with subcommands."""
    return typer.Typer(help=help_text, no_args_is_help=True, add_completion=False, rich_markup_mode=None)


def run_command(name: str, module: str, arguments: list[str]) -> None:
    """Import one command's module and run it; ends the process with its exit code."""
    app: typer.Typer = importlib.import_module(f"adderclaw.channels.cli.{module}").app
    command = get_command(app)
    if isinstance(command, TyperGroup) and name in command.commands:
        command.main(arguments, prog_name="adderclaw")
    else:
        command.main(arguments[1:], prog_name=f"adderclaw {name}")


def print_json(value: object) -> None:
    """One object on one line: what a program reads. Where it is a terminal after all, nothing in it steers that."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if not text.isprintable():  # the escapes are JSON's own: whoever reads them gets what was there
        text = "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)
    print(text, flush=True)  # a stream is read while it goes on


def json_object(text: str, option: str) -> dict[str, Any]:
    """A JSON object that was given on the command line."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f'{option}: not JSON ({error}); it takes an object such as \'{{"path": "."}}\'') from error
    if not isinstance(value, dict):
        raise UsageError(f'{option}: {text!r} is not a JSON object such as \'{{"path": "."}}\'')
    return cast(dict[str, Any], value)
