"""The program without a command: help, completion, `--eval` and `--transition`."""

import importlib
import os
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup, TyperOption
from typer.main import get_command

from adderclaw import __version__
from adderclaw.core.errors import UsageError
from adderclaw.terminal.commands import AGENT_FLAGS, AGENT_OPTIONS, COMMANDS, Command
from adderclaw.terminal.commands.common import app_of, invoke

SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")
COMPLETIONS = ("--show-completion", "--install-completion")
COMPLETE_VARIABLE = "_ADDERCLAW_COMPLETE"
"""The variable by which a shell asks for completions."""

HELP = """A local-first agent runtime: every action passes one gate and is recorded in one ledger.

\b
adderclaw                 Open a conversation at the terminal.
adderclaw "SOME WORDS"    Open one that starts with this message.
adderclaw -c              Continue the last conversation here.
adderclaw -r [ID|WORDS]   Continue this one; without ID, choose from a list.
adderclaw -p "MESSAGE"    Answer one message on stdout and exit, for scripts;
                          `adderclaw -p --help` lists its flags.

The first four also take the options of `adderclaw agent`, as in `adderclaw --profile readonly`.

Begin with `adderclaw init`, then `adderclaw agent -m "what is in this project?"`.
"""


def run_root(arguments: list[str]) -> None:
    """Help lists every command, so only here are all of them imported; `--eval` and `--transition` need none."""
    if len(arguments) == 2 and arguments[0] in COMPLETIONS:
        _completion(*arguments)
        return
    command = get_command(_app())
    assert isinstance(command, TyperGroup)
    alone = bool(arguments) and arguments[0] in ("--eval", "--transition", "--conversation")
    for name, entry in () if alone else COMMANDS.items():
        subcommand = get_command(_load_command(entry))
        if isinstance(subcommand, TyperGroup) and name in subcommand.commands:
            subcommand = subcommand.commands[name]
        subcommand.name, subcommand.short_help = name, entry.help
        command.commands[name] = subcommand
    if COMPLETE_VARIABLE in os.environ:
        opening = (
            parameter
            for parameter in command.commands["agent"].params
            if {*AGENT_FLAGS, *AGENT_OPTIONS}.intersection(parameter.opts)
        )
        command.params = list(
            {parameter.opts[0]: parameter for parameter in (*command.params, *opening, *print_options())}.values()
        )
    invoke(command, arguments, "adderclaw")


def print_options() -> list[Any]:
    """The flags of print mode as typer options, for help and completion; print mode parses them itself."""
    from adderclaw.terminal.legacy.print_flags import FLAGS, UNUSED

    return [
        TyperOption(
            param_decls=[*flag.names, flag.name],
            is_flag=flag.kind == "switch",
            metavar="|".join(flag.words) or flag.metavar or None,
            help=flag.help,
            shell_complete=_completes_one_of(flag.words),
        )
        for flag in FLAGS
        if flag.name != "help" and flag not in UNUSED
    ]


def _completes_one_of(words: tuple[str, ...]) -> Callable[..., list[str]]:
    def begun(_context: object, _option: object, beginning: str) -> list[str]:
        return [word for word in words if word.startswith(beginning)]

    return begun


def _load_command(entry: Command) -> typer.Typer:
    """Loads a command. One whose extra is not installed is listed too, and says so when it is called."""
    try:
        return app_of(importlib.import_module(f"adderclaw.terminal.commands.{entry.module}"))
    except UsageError as error:
        app, lacking = typer.Typer(add_completion=False, rich_markup_mode=None), error

        @app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
        def say() -> None:
            raise lacking

        del say  # typer has it
        return app


def _completion(option: str, shell: str) -> None:
    """Prints or installs the completion of a shell."""
    from typer import completion

    if shell not in SHELLS:
        raise UsageError(f"{option} {shell!r}: completion supports {', '.join(SHELLS)}")
    if option == "--install-completion":
        _, where = completion.install(shell, prog_name="adderclaw", complete_var=COMPLETE_VARIABLE)  # pyright: ignore[reportPrivateImportUsage] - typer has no other door
        print(f"installed in {where}; start a new {shell} to use it")
        return
    print(completion.get_completion_script(prog_name="adderclaw", complete_var=COMPLETE_VARIABLE, shell=shell))  # pyright: ignore[reportPrivateImportUsage]


def _app() -> typer.Typer:
    app = typer.Typer(help=HELP, rich_markup_mode=None, invoke_without_command=True, no_args_is_help=True)
    app.callback(invoke_without_command=True)(_root)
    return app


def _root(
    context: typer.Context,
    evaluate: Annotated[
        str | None,
        typer.Option("--eval", metavar="JSON", help='Run one tool: {"tool": "Read", "input": {"file_path": "a.txt"}}.'),
    ] = None,
    transition: Annotated[
        str | None,
        typer.Option("--transition", metavar="PHASE", help="Move a conversation to a phase, like `sdlc transition`."),
    ] = None,
    conversation: Annotated[
        str | None, typer.Option("--conversation", metavar="ID", help="The conversation for --transition or --eval.")
    ] = None,
    man: Annotated[
        bool, typer.Option("--man", help="Print the manual page; view it with `adderclaw --man | man -l -`.")
    ] = False,
    version: Annotated[bool, typer.Option("--version", "-V", help="Print the version.")] = False,
) -> None:
    if man:
        from adderclaw.terminal.commands.manual import page

        print(page(context.command), end="")
        raise typer.Exit
    if version:
        print(f"adderclaw {__version__}")
        raise typer.Exit
    if evaluate is not None and transition is not None:
        raise UsageError("--eval and --transition cannot be combined: use only one")
    if evaluate is not None:
        from adderclaw.terminal.commands.tool import evaluate_one

        raise typer.Exit(evaluate_one(evaluate, conversation))
    if transition is not None and conversation is not None:
        from adderclaw.terminal.commands.sdlc import change_phase

        change_phase(transition, conversation, None, None, as_json=False)
        raise typer.Exit
    if transition is not None or conversation is not None:
        raise UsageError("--transition PHASE needs --conversation ID, and --conversation needs --transition or --eval")
    if context.invoked_subcommand is None:
        print(context.get_help())
