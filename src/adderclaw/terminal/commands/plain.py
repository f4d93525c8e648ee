"""Options as plain data, so that a plainly written command line runs without importing typer.

Importing typer takes a tenth of the time to the first request. Typer still handles help, completion,
every error, and every spelling that this parser does not read.
"""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from adderclaw.config.schema import LIMIT_NAMES
from adderclaw.core.errors import UsageError
from adderclaw.core.record import record

if TYPE_CHECKING:
    from adderclaw.config.model_facts.found_keys import Chooser, Found

type Plain = Callable[..., int]
"""A command that returns its exit code; each parameter is `Annotated[type, Option(…)]` and has a default."""


@record
class Option:
    """One option of a command: its names, its help, and the name of its value."""

    names: tuple[str, ...]
    help: str
    metavar: str | None = None


ProfileName = Literal["supervised", "sandboxed", "readonly", "permissive"]
ModeName = Literal["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"]
EffortName = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]

CONFIG_FILE = Option(("--config",), "Use only this file, on top of the built-in defaults.", "FILE")
WORKSPACE_DIR = Option(("--workspace",), "The folder the agent may work in.", "DIR")
PROFILE = Option(("--profile",), "What may happen without asking; default: security.autonomy.")
PERMISSION_MODE = Option(("--permission-mode",), "Instead of an autonomy: what happens when no rule matches.")
PROVIDER_NAME = Option(("--provider",), "A name under providers.models.", "NAME")
MODEL_NAME = Option(("--model",), "Another model of that provider.", "MODEL")
EFFORT = Option(("--effort",), "How much the model thinks; default: the vendor's recommendation.")
STREAM_OUTPUT = Option(("--output-format",), "text for people; json or stream-json for programs.")
LIMIT = Option(("--limit",), f"Limit this run: {', '.join(LIMIT_NAMES)} or rounds.", "NAME=VALUE")


MAY_BE_EMPTY = frozenset({"--comment", "--message", "-m", "--json"})
"""Options whose command accepts an empty value, or has its own message for it."""


def refuse_empty(arguments: Sequence[str]) -> None:
    """Refuses an option with an empty value: usually an unset shell variable, which must not count as "left out"."""
    before = ""
    for argument in arguments:
        if argument == "--":
            return
        joined = argument.startswith("--") and argument.find("=") == len(argument) - 1
        name = argument[:-1] if joined else before if not argument and before.startswith("-") else ""
        if name and name not in MAY_BE_EMPTY:
            raise UsageError(f"{name}: the value is empty. Give a value, or omit the option.")
        before = argument


def parse_plain(command: Plain, arguments: Sequence[str]) -> dict[str, Any] | None:
    """Parses what typer would pass to the command; None if the command line is not plain, so that typer decides.

    Plain is: each option by one of its names, once, its value as the next argument (or after `--name=`), the value of
    the option's type and not itself like an option.
    """
    options = {name: option for option in _options(command) for name in option[1]}
    values: dict[str, Any] = {}
    rest = iter(arguments)
    for argument in rest:
        name, joined, value = argument.partition("=") if argument.startswith("--") else (argument, "", "")
        if name not in options:
            return None
        parameter, _, kinds = options[name]
        several = list[str] in kinds
        if parameter in values and not several:
            return None
        if bool in kinds:
            if joined:
                return None
            values[parameter] = True
            continue
        value = value if joined else next(rest, "-")
        if value.startswith("-") or not (str in kinds or several or value in kinds):
            return None
        values[parameter] = [*values.get(parameter, ()), value] if several else value
    return values


def _options(command: Plain) -> list[tuple[str, tuple[str, ...], tuple[object, ...]]]:
    """For each option: its parameter, its names, and the types or words its value may have."""
    rows: list[tuple[str, tuple[str, ...], tuple[object, ...]]] = []
    for parameter, hint in command.__annotations__.items():
        if parameter == "return":
            continue
        kind, option = get_args(hint)
        kinds = (kind,) if isinstance(kind, type) else get_args(kind)
        words = [word for inner in kinds for word in (get_args(inner) if not isinstance(inner, type) else ())]
        rows.append((parameter, option.names, (*kinds, *words)))
    return rows


def key_chooser(config_file: str | None) -> "Chooser | None":
    """Asks a person which key to use; None without a terminal, or when --config replaces their own configuration."""
    return _offer_keys if config_file is None and sys.stdin.isatty() and sys.stderr.isatty() else None


def _offer_keys(keys: "list[Found]") -> "Found | None":
    from adderclaw.terminal.commands.offer_keys import offer  # few need it, and only once

    return offer(keys)
