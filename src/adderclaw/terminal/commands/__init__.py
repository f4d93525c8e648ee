"""The command line: finds the command in a table and imports that one."""

import gc
import sys
from typing import TYPE_CHECKING, Never

from adderclaw import __version__
from adderclaw.terminal.commands.table import AGENT_FLAGS, AGENT_OPTIONS, COMMANDS, DISPLAY_FLAGS

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


def main() -> None:
    """Runs the program. The exit code tells the outcome; an error is one message, never a traceback."""
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):
        try:
            print(f"adderclaw {__version__}", flush=True)
        except OSError as error:
            _exit_with_error(f"standard output: {error.strerror}", 1)
        return
    # A step leaves a few dozen objects in cycles, and start-up 40,000 that all stay: looking for
    # cycles every 700 objects is wasted.
    gc.set_threshold(50_000, 10, 10)
    try:
        _open_streams()
        _run(arguments)
    except KeyboardInterrupt:  # however early it comes
        _exit_with_error("interrupted", 130)


def _run(arguments: list[str]) -> None:
    import signal

    from adderclaw.core.errors import AdderClawError

    try:
        # A shell without job control starts `adderclaw … &` with SIGINT ignored, and Python leaves it ignored.
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            _dispatch(arguments)
        finally:
            sys.stdout.flush()
    except AdderClawError as error:
        _exit_with_error(str(error), error.exit_code)
    except OSError as error:
        # errors that no part explains better: a full disk under stdout, a closed pipe, a home without permissions
        _exit_with_error(f"{_error_subject(error)}: {error.strerror or error}", AdderClawError.exit_code)


def _error_subject(error: OSError) -> str:
    """What an operating system error is about, for the message."""
    if error.filename:
        return str(error.filename)
    try:
        sys.stdout.flush()  # fails again if stdout is the problem
    except OSError:
        return "standard output"
    return "the operating system refused a call"


def _open_streams() -> None:
    """Makes writing to a closed stream, or to a stderr that nobody reads, succeed silently.

    A message that cannot be written must not fail the work or change its exit code.
    """
    import io
    import os

    class Unread(io.FileIO):
        def write(self, data: "ReadableBuffer", /) -> int:
            try:
                return super().write(data)
            except OSError:  # the reader is gone, or the disk is full
                return memoryview(data).nbytes

    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - it lives as long as we do
    buffer = sys.stderr.buffer
    if type(sys.stderr) is io.TextIOWrapper and sys.stderr.fileno() == 2:
        buffer = io.BufferedWriter(Unread(2, "wb", closefd=False))
    if os.environ.get("ADDERCLAW_LOG") == "json" and not sys.stderr.isatty():
        from adderclaw.storage.telemetry.log import JsonLines

        sys.stderr = JsonLines(buffer, encoding="utf-8", errors="backslashreplace")
    elif buffer is not sys.stderr.buffer:
        sys.stderr = io.TextIOWrapper(buffer, sys.stderr.encoding, "backslashreplace", line_buffering=True)


def _exit_with_error(message: str, code: int) -> Never:
    """Prints one error message and exits. A message that could not be written must not fail again at exit."""
    import os

    from adderclaw.core.redaction import Secrets

    try:
        sys.stderr.write(f"adderclaw: {Secrets().clean(message)}\n")
        sys.stderr.flush()
        sys.stdout.flush()
    except OSError:
        os._exit(code)
    sys.exit(code)


def _at_a_terminal() -> bool:
    """Whether stdin and stdout are a terminal: then no command opens the REPL, otherwise it prints help."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()  # pyright: ignore[reportUnnecessaryComparison] - None where it is closed


def _dispatch(arguments: list[str]) -> None:
    if next((word for word in arguments if word != "--quiet"), "") not in COMMANDS:
        from adderclaw.terminal.legacy.print_flags import is_print

        if is_print(arguments):
            from adderclaw.terminal.commands.print_mode import run_print

            sys.exit(run_print(arguments))
    arguments = _without_quiet(arguments)
    if arguments or _at_a_terminal():
        arguments = _with_agent_command(arguments)
    name = arguments[0] if arguments else ""
    if name in COMMANDS:
        run_command(name, arguments)
    else:
        from adderclaw.terminal.commands.root import run_root

        run_root(arguments)


def run_command(name: str, arguments: list[str]) -> None:
    """Imports the module of a command and runs it; exits the process with its exit code."""
    from importlib import import_module

    from adderclaw.terminal.commands.plain import parse_plain, refuse_empty

    refuse_empty(arguments)
    module = import_module(f"adderclaw.terminal.commands.{COMMANDS[name].module}")
    command = getattr(module, "command", None)
    if command is not None and (values := parse_plain(command, arguments[1:])) is not None:
        sys.exit(command(**values))
    from adderclaw.terminal.commands.common import run_typer

    run_typer(name, module, arguments)


def _leading_option_count(arguments: list[str]) -> int:
    """How many leading words are options of `agent`. Without a terminal only the display flags count."""
    alone, valued = (AGENT_FLAGS, AGENT_OPTIONS) if _at_a_terminal() else (DISPLAY_FLAGS, ())
    count = 0
    while count < len(arguments):
        name, equals, _ = arguments[count].partition("=")
        if name not in (*alone, *valued):
            break
        count += 2 if name in valued and not equals else 1
    return count


def _with_agent_command(arguments: list[str]) -> list[str]:
    """Adds the command `agent` where it was left out: for `-c`, `-r [ID|WORDS]`, or a message (it has a space)."""
    if not arguments:
        return ["agent"]
    if count := _leading_option_count(arguments):  # the words after the options decide what is opened
        opened = _with_agent_command(arguments[count:])
        if opened[0].startswith("-"):
            return ["agent", *arguments]
        if opened[0] == "agent":
            return [*opened, *arguments[:count]]
        return arguments if opened[0] in COMMANDS else opened
    name, *rest = arguments
    if name in ("-c", "--continue"):
        return ["agent", *arguments]
    if name in ("-r", "--resume"):
        return ["agent", *arguments] if rest and not rest[0].startswith("-") else ["agent", "--pick", *rest]
    return ["agent", "--begin-with", name, *rest] if " " in name.strip() and not name.startswith("-") else arguments


def _without_quiet(arguments: list[str]) -> list[str]:
    """Removes `--quiet`, which every command takes, and applies it. Words after `--` belong to another program."""
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if "--quiet" not in ours:
        return arguments
    from adderclaw.storage.telemetry import log

    log.silence()
    return [*(word for word in ours if word != "--quiet"), *arguments[len(ours) :]]
