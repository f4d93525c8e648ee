"""Shared by the commands: typer options, output formats, and running one command with typer."""

import functools
import inspect
import json
import re
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Annotated, Any, NoReturn, cast, get_args

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException
from typer.main import get_command

from adderclaw.core.errors import NeedsInput, UsageError
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import visible
from adderclaw.core.suggestions import did_you_mean
from adderclaw.terminal.commands.plain import (
    CONFIG_FILE,
    EFFORT,
    LIMIT,
    MODEL_NAME,
    PROFILE,
    PROVIDER_NAME,
    STREAM_OUTPUT,
    WORKSPACE_DIR,
    EffortName,
    Option,
    Plain,
    ProfileName,
)
from adderclaw.terminal.output import Format, StreamFormat, print_json

EPILOG = "Every command takes --quiet: stderr then shows only errors and questions."
OPTIONS = {
    "help": "--help",
    "version": "--version",
    "man": "--man",
    "completion": "--show-completion SHELL`, or `adderclaw --install-completion SHELL",
}
"""Commands of other programs that are options here."""
UNKNOWN = re.compile(r"No such command '([^']+)'")


def _typer_option(option: Option) -> Any:
    return typer.Option(*option.names, metavar=option.metavar, help=option.help)


OutputFormat = Annotated[Format, typer.Option("--output-format", help="text for people, json for programs.")]
StreamOutput = Annotated[StreamFormat, _typer_option(STREAM_OUTPUT)]
ConfigFile = Annotated[str | None, _typer_option(CONFIG_FILE)]
WorkspaceDir = Annotated[str | None, _typer_option(WORKSPACE_DIR)]
Profile = Annotated[ProfileName | None, _typer_option(PROFILE)]
ProviderName = Annotated[str | None, _typer_option(PROVIDER_NAME)]
ModelName = Annotated[str | None, _typer_option(MODEL_NAME)]
EffortGiven = Annotated[EffortName | None, _typer_option(EFFORT)]
LimitsGiven = Annotated[list[str] | None, _typer_option(LIMIT)]


def group(help_text: str) -> typer.Typer:
    """A command with subcommands."""
    return typer.Typer(help=help_text, no_args_is_help=True, add_completion=False, rich_markup_mode=None)


def app_of(module: ModuleType) -> typer.Typer:
    """The typer application of a command's module: its `app`, or one built from its plain `command`."""
    return module.app if hasattr(module, "app") else typer_app(module.command)


def typer_app(command: Plain) -> typer.Typer:
    """The typer application of a plain command."""

    @functools.wraps(command)
    def run(**arguments: Any) -> None:
        raise typer.Exit(command(**arguments))

    signature = inspect.signature(command)
    parameters = [
        parameter.replace(annotation=Annotated[kind, _typer_option(option)])
        for parameter in signature.parameters.values()
        for kind, option in (get_args(parameter.annotation),)
    ]
    run.__dict__["__signature__"] = signature.replace(parameters=parameters)
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(run)
    return app


def run_typer(name: str, module: ModuleType, arguments: list[str]) -> None:
    """Lets typer parse the arguments and run the command; exits the process with its exit code."""
    command = get_command(app_of(module))
    if isinstance(command, TyperGroup) and name in command.commands:
        invoke(command, arguments, "adderclaw")
    else:
        invoke(command, arguments[1:], f"adderclaw {name}")


def invoke(command: Any, arguments: list[str], program: str) -> NoReturn:
    """Runs a typer command; an unknown word gets the same hint as everywhere."""
    guard_command(command, tuple(program.split()[1:]))
    command.epilog = command.epilog or EPILOG
    try:
        code = command.main(arguments, prog_name=program, standalone_mode=False)
    except TyperException as error:  # wrong arguments
        _add_hint(error)
        cast(Any, error).show()
        sys.exit(error.exit_code)
    except typer.Abort as ended:  # at a question
        if isinstance(ended.__context__, KeyboardInterrupt):
            raise ended.__context__ from None
        raise NeedsInput("the question was not answered: standard input has ended") from None
    sys.exit(code if isinstance(code, int) else 0)


def _add_hint(error: Any) -> None:
    """Replaces typer's own suggestion, which takes `exit` for `export`."""
    command = error.ctx.command if getattr(error, "ctx", None) is not None else None
    if command is not None and hasattr(error, "option_name") and hasattr(error, "possibilities"):
        name, known = error.option_name, _options(command)
        agent = command.commands.get("agent") if isinstance(command, TyperGroup) else None
        of_agent = [] if agent is None else _options(agent)  # at a terminal they work without a command
        hint = "; it is an option of `adderclaw agent`" if name in of_agent else did_you_mean(name, [*known, *of_agent])
        error.message = f"No such option: {visible(name)}{hint}"
        error.possibilities = None
    elif isinstance(command, TyperGroup) and (unknown := UNKNOWN.match(error.message)):
        option = OPTIONS.get(unknown[1])
        hint = f": that is `adderclaw {option}`" if option else did_you_mean(unknown[1], command.commands)
        error.message = f"No such command {unknown[1]!r}{hint}"


def _options(command: Any) -> list[str]:
    return [name for parameter in command.params for name in parameter.opts]


def print_line(line: str) -> None:
    """Prints a line that may contain a path or text of a file, without control characters."""
    print(visible(line, keep_newlines=False))


def print_result(value: object, text: str, output_format: str) -> None:
    """Prints the result of a command: as text, or as JSON for a program."""
    if output_format == "json":
        print_json(value)
    else:
        print(visible(text))


def json_object(text: str, option: str) -> dict[str, Any]:
    """Parses a JSON object from the command line."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f'{option}: not JSON ({error}). Expected an object such as \'{{"path": "."}}\'') from error
    if not isinstance(value, dict):
        raise UsageError(f'{option}: {text!r} is not a JSON object. Expected one such as \'{{"path": "."}}\'')
    return cast(dict[str, Any], value)


class Consent(NamedTuple):
    what: str
    """What the operator consents to."""
    only_with: frozenset[str] = frozenset()
    """The command is a consent only with one of these options; empty: always."""
    unless: frozenset[str] = frozenset()
    """With one of these options the command only shows something."""


_LOOKS = frozenset({"--dry-run"})
CONSENTS: Mapping[tuple[str, ...], Consent] = {
    ("trust",): Consent("Trusting a project", unless=frozenset({"--list", "--show", "--revoke"})),
    ("plugin", "install"): Consent("Installing a plugin", unless=_LOOKS),
    ("plugin", "enable"): Consent("Trusting a plugin"),
    ("mcp", "approve"): Consent("Approving the tools of a server"),
    ("mcp", "add"): Consent("Adding a server"),
    ("later", "accept"): Consent("Accepting what other programs run later"),
    ("estop",): Consent("Lifting the emergency stop", only_with=frozenset({"--clear"})),
    ("approvals", "answer"): Consent("Answering a question"),
    ("sop", "approve"): Consent("Approving a step"),
    ("schedule", "add"): Consent("Adding a schedule", unless=_LOOKS),
    ("schedule", "approve"): Consent("Approving what a schedule begins"),
    ("schedule", "resume"): Consent("Letting a schedule begin work"),
    ("spec", "sync"): Consent("Accepting other steps of a scenario"),
    ("spec", "deprecate"): Consent("Deprecating a scenario"),
    ("sdlc", "approve"): Consent("Approving a plan or a report"),
    ("sdlc", "transition"): Consent("Moving a conversation to another phase"),
    ("sdlc", "test"): Consent("Withdrawing a test", only_with=frozenset({"--withdraw"})),
    ("onboard",): Consent("Changing the settings"),
    ("config", "set"): Consent("Changing a setting"),
    ("config", "unset"): Consent("Changing a setting"),
    ("models", "refresh"): Consent("Accepting lower prices", only_with=frozenset({"--accept-lower-prices"})),
    ("memory", "confirm"): Consent("Confirming a note"),
    ("restore",): Consent("Restoring a home"),
    ("dashboard",): Consent("Logging in to the server"),
    ("attach",): Consent("Working at the server"),
    ("token", "create"): Consent("Creating a token of the server"),
    ("channel", "secret"): Consent("Setting the secret of a channel"),
    ("fleet", "approve"): Consent("Answering a run of the fleet"),
    ("fleet", "enroll"): Consent("Enrolling a key of the fleet"),
    ("fleet", "worker"): Consent("Enrolling a key of the fleet", only_with=frozenset({"--enroll"})),
    ("fleet", "webhook"): Consent("Choosing who answers runs of the fleet", unless=frozenset({"--remove"})),
    ("fleet", "init"): Consent("Setting up the roles of the fleet"),
    ("fleet", "resume"): Consent("Lifting the stop of the fleet"),
    ("fleet", "budget"): Consent("Setting a budget of the fleet"),
    ("fleet", "pace"): Consent("Setting the pace of the fleet"),
}
"""Other channels refuse these where they are carried out (`flows/sdlc/conversation_phase`,
`flows/sdlc/coverage`, `agent/conversation/questions`)."""


def guard_command(command: Any, path: tuple[str, ...] = ()) -> None:
    """Makes a typer command and its subcommands raise DeniedError when they would give an operator's consent in
    a process started by an agent's tool. It checks what typer parsed, so that no spelling gets around it."""
    for name, subcommand in getattr(command, "commands", {}).items():
        guard_command(subcommand, (*path, name))
    if (consent := CONSENTS.get(path)) is not None:
        command.invoke = functools.partial(_guarded_invoke, consent, command.invoke)


def _guarded_invoke(consent: Consent, invoke: Callable[[Any], Any], context: Any) -> Any:
    options = {
        option
        for parameter in context.command.params
        if context.params.get(parameter.name) not in (None, False)
        for option in parameter.opts
    }
    if not options & consent.unless and (not consent.only_with or options & consent.only_with):
        from adderclaw.sandbox.operator_only import require_operator

        require_operator(consent.what)
    return invoke(context)
