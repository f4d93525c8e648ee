"""The program without a command: help, completion, `--eval` and `--transition`."""

import importlib
import os
import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer
from typer.core import TyperGroup, TyperOption
from typer.main import get_command

from adderclaw import __version__
from adderclaw.core.errors import EXIT_CODES, EXIT_USAGE, UsageError
from adderclaw.terminal.commands.common import app_of, invoke
from adderclaw.terminal.commands.table import AGENT_FLAGS, AGENT_OPTIONS, COMMANDS, Command

SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")
COMPLETIONS = ("--show-completion", "--install-completion")
COMPLETE_VARIABLE = "_ADDERCLAW_COMPLETE"
"""The variable by which a shell asks for completions."""

HELP = """A local-first agent runtime: one policy judges every action, one ledger records it.

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
    """Loads a command. If its extra is not installed, it is listed too, and fails when it is called."""
    try:
        return app_of(importlib.import_module(f"adderclaw.terminal.commands.{entry.module}"))
    except UsageError as error:
        app, lacking = typer.Typer(add_completion=False, rich_markup_mode=None), error

        @app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
        def fail() -> None:
            raise lacking

        del fail  # typer has it
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


FILES = (
    ("~/.adderclaw/", "The home: configuration, database, keys, receipts. $ADDERCLAW_HOME names another."),
    ("~/.adderclaw/config.toml", "Your settings."),
    (".adderclaw/", "The settings of a project; they apply once you trust it."),
)


def page(program: Any) -> str:
    """The manual page in roff. `program` is the command line with all commands."""
    return "\n".join(_lines(program)) + "\n"


def _lines(program: Any) -> Iterator[str]:
    yield f'.TH ADDERCLAW 1 "" "adderclaw {__version__}" "User Commands"'
    yield from (".SH NAME", r"adderclaw \- a local-first agent runtime: one policy, one sandbox, one ledger")
    yield from (
        ".SH SYNOPSIS",
        r".B adderclaw",
        r"[\fICOMMAND\fR] [\fIOPTIONS\fR]",
        ".br",
        r'.B adderclaw \-p "MESSAGE"',
    )
    yield from (".SH DESCRIPTION", "Without a command, adderclaw opens a conversation at a terminal.")
    yield "Every action of a model passes one policy, runs in one sandbox and is appended to one ledger."
    yield from (".SH OPTIONS", *_options(program.params))
    yield from (rf".SS {_roff('adderclaw -p MESSAGE')}", "Answer one message on stdout and exit, for scripts.")
    yield from _options(print_options())
    yield ".SH COMMANDS"
    for name, command in program.commands.items():
        yield f".SS {_roff(_usage(f'adderclaw {name}', command))}"
        yield _roff(command.short_help or "")
        inner: dict[str, Any] = getattr(command, "commands", {})
        yield from _options(command.params)
        for word, leaf in inner.items():
            if not leaf.hidden:
                usage = _usage(f"adderclaw {name} {word}", leaf)
                yield from (".TP", rf"\fB{_roff(usage)}\fR", _roff(_first(leaf.help)))
                yield from (".RS", *_options(leaf.params), ".RE")
    yield ".SH EXIT STATUS"
    for code, outcome in sorted({(EXIT_USAGE, "usage"), *((code, outcome) for outcome, code in EXIT_CODES.items())}):
        yield from (".TP", rf"\fB{code}\fR", _roff(outcome.replace("_", " ")))
    yield ".SH FILES"
    for path, what in FILES:
        yield from (".TP", rf"\fI{_roff(path)}\fR", _roff(what))
    yield from (
        ".SH SEE ALSO",
        r"\fBadderclaw doctor\fR checks the installation;",
        r"\fBadderclaw COMMAND \-\-help\fR says more.",
    )


def _usage(words: str, command: Any) -> str:
    """A command with its arguments."""
    for param in command.params:
        if param.param_type_name == "argument":
            name = param.metavar or param.name.upper()
            words += f" {name}" if param.required or name.startswith("[") else f" [{name}]"
    return words


def _options(params: list[Any]) -> Iterator[str]:
    for param in params:
        if param.param_type_name != "option" or param.hidden or "--help" in param.opts:
            continue
        value = (
            ""
            if param.is_flag
            else f" {param.metavar or '|'.join(getattr(param.type, 'choices', ())) or param.type.name.upper()}"
        )
        names = ", ".join((*param.opts, *param.secondary_opts))
        yield from (".TP", rf"\fB{_roff(names)}\fR{_roff(value)}", _roff(" ".join((param.help or "").split())))


def _first(text: str | None) -> str:
    """The first paragraph, as one line."""
    return " ".join((text or "").partition("\n\n")[0].split())


def _roff(text: str) -> str:
    r"""Escapes text for roff: `-` is a hyphen and `\-` a minus, and a dot or apostrophe at the start is a request."""
    escaped = re.sub(r"[\\-]", lambda match: rf"\{match[0]}" if match[0] == "-" else r"\e", text)
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped
