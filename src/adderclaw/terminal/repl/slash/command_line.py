"""Slash commands that run a command of the command line. No other module of the REPL imports `terminal.commands`."""

import asyncio
import contextlib
import io
import shlex
from importlib import import_module
from typing import Any

from adderclaw.agent.run import Run
from adderclaw.core.errors import UsageError
from adderclaw.terminal.repl.slash.row import Does, Done


def command_action(*words: str, alone: tuple[str, ...] = ()) -> Does:
    """Runs the command of these words with the arguments of the slash command; `alone` are the default arguments."""

    async def run_it(run: Run, rest: str) -> Done:
        try:
            arguments = shlex.split(rest)
        except ValueError as error:
            raise UsageError(f"{rest!r}: {error}") from None
        await print_command(run, [*words, *(arguments or alone)])

    return run_it


async def command_output(run: Run, arguments: list[str]) -> str:
    """The output of a command. It runs in a thread, because it may start its own event loop."""
    return await asyncio.to_thread(_output, run, arguments)


async def print_command(run: Run, arguments: list[str]) -> None:
    """Runs a command and prints its output."""
    print(await command_output(run, arguments), end="")


def has_command(words: list[str]) -> bool:
    """Whether the command line has this command or subcommand."""
    from typer.core import TyperGroup

    from adderclaw.terminal.commands import COMMANDS

    if not words or words[0] not in COMMANDS:
        return False
    command = _command(import_module(f"adderclaw.terminal.commands.{COMMANDS[words[0]].module}"), words[:1])
    return len(words) == 1 or not isinstance(command, TyperGroup) or words[1] in command.commands


def _output(run: Run, arguments: list[str]) -> str:
    from adderclaw.storage.telemetry import log
    from adderclaw.terminal.commands import COMMANDS
    from adderclaw.terminal.commands.common import run_typer

    module = import_module(f"adderclaw.terminal.commands.{COMMANDS[arguments[0]].module}")
    text = io.StringIO()
    printing = contextlib.redirect_stdout(text), contextlib.redirect_stderr(text)
    with log.silenced(), printing[0], printing[1], contextlib.suppress(SystemExit):
        run_typer(arguments[0], module, [*arguments, *_session_options(run, module, arguments)])
    return text.getvalue()


def _session_options(run: Run, module: Any, arguments: list[str]) -> list[str]:
    """The options that pass this session's configuration and workspace to a command that takes them."""
    command = _command(module, arguments[:2])
    known = {name for parameter in command.params for name in parameter.opts}
    runtime = run.runtime
    places = (("--config", runtime.options.config_file), ("--workspace", runtime.loaded.workspace))
    return [
        word for name, value in places if value and name in known and name not in arguments for word in (name, value)
    ]


def _command(module: Any, words: list[str]) -> Any:
    """The command or subcommand of these words in a module."""
    from typer.core import TyperGroup
    from typer.main import get_command

    from adderclaw.terminal.commands.common import app_of

    command: Any = get_command(app_of(module))
    for word in words:
        if isinstance(command, TyperGroup):
            command = command.commands.get(word, command)
    return command
