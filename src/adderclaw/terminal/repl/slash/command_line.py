"""Slash commands that run a command of the command line. No other module of the REPL imports `terminal.commands`."""

import asyncio
import contextlib
import io
import json
import shlex
from importlib import import_module
from typing import Any

from adderclaw.agent.run import Run
from adderclaw.config.plugins.preview import NOT_INSTALLED, question
from adderclaw.core.errors import UsageError
from adderclaw.core.redaction import visible
from adderclaw.terminal.repl import here
from adderclaw.terminal.repl.slash.command import Action, Done


def command_action(*words: str, alone: tuple[str, ...] = ()) -> Action:
    """Runs the command of these words with the arguments of the slash command; `alone` are the default arguments."""

    async def run_it(run: Run, rest: str) -> Done:
        await print_command(run, [*words, *(_split(rest) or alone)])

    return run_it


async def command_output(run: Run, arguments: list[str]) -> str:
    """The output of a command. It runs in a thread, because it may start its own event loop."""
    return await asyncio.to_thread(_output, run, arguments)


async def print_command(run: Run, arguments: list[str]) -> None:
    """Runs a command and prints its output."""
    print(await command_output(run, arguments), end="")


def _output(run: Run, arguments: list[str]) -> str:
    from adderclaw.storage.telemetry import log
    from adderclaw.terminal.commands.common import run_typer
    from adderclaw.terminal.commands.table import COMMANDS

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
    values = (("--config", runtime.options.config_file), ("--workspace", runtime.loaded.workspace))
    return [
        word for name, value in values if value and name in known and name not in arguments for word in (name, value)
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


def _split(rest: str) -> list[str]:
    try:
        return shlex.split(rest)
    except ValueError as error:
        raise UsageError(f"{rest!r}: {error}") from None


# ------------------------------------------------------------------ commands with a question or a hint of their own


async def plugin(run: Run, rest: str) -> Done:
    """Runs `adderclaw plugin`. What it changes takes effect in the next conversation."""
    words = _split(rest) or ["list"]
    if words[0] in ("install", "enable") and len(words) > 1 and not {"--trust", "--dry-run"} & {*words}:
        confirmed = await _confirm_trust(run, words)
        if confirmed is None:
            print("not trusted, so nothing has changed")
            return
        words = confirmed
    text = await command_output(run, ["plugin", *words])
    print(text.splitlines()[-1] if "--trust" in words and text else text.rstrip("\n"))
    changes = words[0] in ("install", "enable", "disable", "remove")
    if changes and "--dry-run" not in words and not text.startswith("Usage:"):
        print("It takes effect in the next conversation; /clear starts one.")


async def _confirm_trust(run: Run, words: list[str]) -> list[str] | None:
    """Shows the content of a plugin and asks; returns the command with the hash of that content, None if refused."""
    preview = ["plugin", *(("show", words[1]) if words[0] == "enable" else (*words, "--dry-run"))]
    try:
        shown = json.loads(await command_output(run, [*preview, "--output-format", "json"]))
    except ValueError:
        return words  # the command itself reports what is wrong
    if words[0] == "enable" and shown["state"] in ("enabled", "disabled"):  # unchanged since it was trusted
        return words
    text = await command_output(run, preview)
    if f"  sha256 {shown['sha256']}" not in text.splitlines():  # text of a plugin is indented further
        raise UsageError(f"{visible(words[1])} changed while it was shown. Nothing was trusted; run the command again.")
    print("\n".join(line for line in text.splitlines() if not line.startswith(NOT_INSTALLED)))
    asked = question(visible(shown["name"], keep_newlines=False), shown.get("brings", []))
    if (await here.ask_person(run, asked) or "").strip().lower() not in here.YES:
        return None
    return [*words, "--trust", shown["sha256"]]


async def sop(run: Run, rest: str) -> Done:
    """Shows and answers. Running is refused, because a run asks its own questions and needs its own terminal."""
    words = _split(rest) or ["list"]
    if words[0] in ("run", "resume"):
        raise UsageError(
            f"a SOP needs its own terminal: run `adderclaw sop {rest}`, or add --detach to run it in the server"
        )
    if words[0] == "approve":
        await print_command(run, ["sop", *words, "--no-resume"])
        run_id = next((word for word in words[1:] if not word.startswith("-")), "RUN_ID")
        print(f"a running server continues it; without one, run `adderclaw sop resume {run_id}`")
        return
    await print_command(run, ["sop", *words])
