"""The command line: finds the command in a table and imports that one."""

import gc
import sys
from typing import (
    TYPE_CHECKING,
    NamedTuple,
    Never,
)  # adderclaw.core.record imports dataclasses, which --version does not need

from adderclaw import __version__

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Command(NamedTuple):
    module: str
    help: str


COMMANDS: dict[str, Command] = {
    "init": Command("setup", "Create the home, the configuration, the database and the workspace."),
    "onboard": Command("setup", "Set up with questions: provider, key variable, autonomy."),
    "agent": Command("agent", "Talk to the agent: a REPL, or one turn with -m."),
    "run": Command("run", "Run a specification, a task or a workflow unattended."),
    "sop": Command("sop", "List, validate, run, show, resume and approve SOPs: procedures made of steps."),
    "spec": Command(
        "spec", "Manage the scenarios of a specification: sync feature files, show, verify, block, deprecate."
    ),
    "rpc": Command("rpc", "Serve JSON-RPC 2.0 on stdin and stdout for another program."),
    "serve": Command("serve", "Serve HTTP on this machine: an API for programs and a dashboard for people."),
    "service": Command("service", "Run the server in the background: install, start, stop, inspect."),
    "fleet": Command("fleet", "Run work on many machines, coordinated by PostgreSQL: submit, work, stop, verify."),
    "dashboard": Command("dashboard", "Open the dashboard of the running server in the browser, logged in."),
    "attach": Command("attach", "Open the REPL on a running server: start a conversation there, or continue one."),
    "token": Command("token", "Create, list and revoke access tokens for clients of the server."),
    "channel": Command("channel", "Manage chat systems that send messages through the server: list, secret, test."),
    "acp": Command("acp", "Serve the Agent Client Protocol on stdin and stdout for an editor."),
    "validate": Command("agentfile", "Check an Agentfile and every file it names."),
    "inspect": Command("agentfile", "Show what a workflow would do, as a tree, JSON or a graph."),
    "fmt": Command("agentfile", "Format an Agentfile."),
    "tool": Command("tool", "List, run and explain tools."),
    "config": Command("config", "Validate, show, change and create configuration."),
    "mcp": Command("mcp", "Add, list, approve and test MCP servers; or serve as one."),
    "provider": Command("provider", "List and test model providers."),
    "models": Command("models", "List the table of known models, or update it."),
    "login": Command("auth", "Log in to a provider: in the browser, by device code or by a pasted code."),
    "logout": Command("auth", "Forget a login, and revoke it where the provider can."),
    "auth": Command("auth", "Show which credentials are usable, and of which kind; never the credentials themselves."),
    "memory": Command("memory", "List, search, show, edit and clear conversations and notes."),
    "sdlc": Command("sdlc", "Take a conversation from plan to proof: its phase, its plan, its report."),
    "checkpoint": Command("checkpoint", "List, show and restore what tools changed on disk."),
    "later": Command("later", "List, accept or set aside changes by commands to files that other programs run."),
    "receipt": Command("receipt", "List and verify the tamper-evident receipts."),
    "runs": Command("runs", "List runs and how they ended."),
    "replay": Command("replay", "Show a run again, prove it, or judge its calls under another policy."),
    "usage": Command("usage", "Show the tokens and cost of model calls by run, day, model or provider."),
    "policy": Command("policy", "Check a policy.toml and explain what it would decide."),
    "approvals": Command("approvals", "List and answer pending questions, and see what you always allow."),
    "notices": Command(
        "notices", "List where notices are sent when something needs you or is done, test them, see the last ones."
    ),
    "hooks": Command("hooks", "List hooks, and run the hooks of an event by hand."),
    "skills": Command("skills", "List skills, show one, check one against the specification."),
    "plugin": Command("plugin", "Install, show, trust, enable, disable, verify, remove and create plugins."),
    "trust": Command("trust", "Trust a project's configuration as it is now."),
    "ci": Command("ci", "Deliver the changes of a CI run: as a commit, a pull or merge request, or a comment."),
    "cache": Command("cache", "Show or remove the sandbox caches of package managers."),
    "schedule": Command("schedule", "Schedule work: at set times, when files change, or on a request."),
    "estop": Command("estop", "Stop every tool now, until the stop is cleared."),
    "backup": Command("homes", "Back up the home to one file, even while sessions run."),
    "restore": Command("homes", "Restore a home from a backup, after every byte and receipt is checked."),
    "uninstall": Command("homes", "List and remove everything this program created."),
    "update": Command("update", "Show how to update, for the way AdderClaw was installed."),
    "doctor": Command("doctor", "Check this installation and say how to fix it."),
}


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
        from adderclaw.terminal.commands.plain import run_command

        run_command(name, COMMANDS[name].module, arguments)
    else:
        from adderclaw.terminal.commands.root import run_root

        run_root(arguments)


DISPLAY_FLAGS = ("--plain", "--no-motion")
AGENT_FLAGS = (*DISPLAY_FLAGS, "--bare", "--maintenance")
AGENT_OPTIONS = (
    "--profile",
    "--permission-mode",
    "--provider",
    "--model",
    "--effort",
    "--workspace",
    "--config",
    "--plugin-dir",
    "--limit",
)
"""Options of `agent` with a value. They may come first on a command line that opens a conversation, or alone."""


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
