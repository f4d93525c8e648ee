"""The command line: finds the command in a table and imports that one."""

import gc
import sys
from typing import (
    TYPE_CHECKING,
    NamedTuple,
    Never,
)  # the one of adderclaw.core.record brings dataclasses, which --version does without

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
    "run": Command("run", "Work on a specification, a task or a workflow, with nobody watching."),
    "sop": Command("sop", "Procedures of steps: list, validate, run, show, resume and approve SOPs."),
    "spec": Command(
        "spec", "The scenarios of a specification: bring in feature files, show, verify, block, deprecate."
    ),
    "rpc": Command("rpc", "Serve JSON-RPC 2.0 on stdin and stdout, for a program."),
    "serve": Command("serve", "Serve HTTP on this machine: an API for programs, a dashboard for people."),
    "service": Command("service", "Run the server in the background: install, start, stop, look at it."),
    "fleet": Command("fleet", "Runs on many machines: submit, workers, stop, verify; on PostgreSQL."),
    "dashboard": Command("dashboard", "Open the pages of the server that runs, logged in."),
    "attach": Command("attach", "The REPL on a running server: open a conversation there, or go on with one."),
    "token": Command("token", "Make, list and revoke the tokens of the server's clients."),
    "channel": Command("channel", "Chat systems that send messages through the server: list, secret, test."),
    "acp": Command("acp", "Serve the Agent Client Protocol on stdin and stdout, for an editor."),
    "validate": Command("agentfile", "Check an Agentfile and every file that it names."),
    "inspect": Command("agentfile", "Show what a workflow would do: tree, JSON or graph."),
    "fmt": Command("agentfile", "Bring an Agentfile into the usual form."),
    "tool": Command("tool", "List, run and explain tools."),
    "config": Command("config", "Validate, show, change and create configuration."),
    "mcp": Command("mcp", "Configure, look at, approve and try MCP servers; and be one."),
    "provider": Command("provider", "List and test model providers."),
    "models": Command("models", "The table of known models: list it, bring it up to date."),
    "login": Command("auth", "Log in to a provider: in the browser, by device code or by a pasted code."),
    "logout": Command("auth", "Forget a login, and revoke it where the provider can."),
    "auth": Command("auth", "Which credentials can be used, and of which kind; never the credentials themselves."),
    "memory": Command("memory", "Conversations and notes: list, search, show, edit, clear."),
    "sdlc": Command("sdlc", "A conversation's way from plan to proof: its phase, its plan, its report."),
    "checkpoint": Command("checkpoint", "List, show and restore what tools changed on disk."),
    "later": Command("later", "List, accept or set aside what commands changed of what other programs run later."),
    "receipt": Command("receipt", "List and verify the tamper-evident receipts."),
    "runs": Command("runs", "List runs and how they ended."),
    "replay": Command("replay", "Show a run again, prove it, or judge its calls under another policy."),
    "usage": Command("usage", "What model calls took: tokens and cost by run, day, model or provider."),
    "policy": Command("policy", "Check a policy.toml and explain what it would decide."),
    "approvals": Command(
        "approvals", "List questions that wait for an answer, answer them, and see what you always allow."
    ),
    "notices": Command(
        "notices", "Where notices are sent when something needs you or is done; try them, see the last."
    ),
    "hooks": Command("hooks", "List hooks, and try an event's hooks by hand."),
    "skills": Command("skills", "List skills, look at one, check one against the specification."),
    "plugin": Command("plugin", "Install, look at, trust, enable, disable, verify, remove and begin plugins."),
    "trust": Command("trust", "Trust what a project's configuration says, as it is now."),
    "ci": Command("ci", "Hand over what a run of a CI job changed: a commit, a pull or merge request, a comment."),
    "cache": Command("cache", "Show or remove what package managers have kept in the sandbox."),
    "schedule": Command("schedule", "Work that begins by itself: at times, when files change, by a request."),
    "estop": Command("estop", "Stop every tool, now and until it is cleared."),
    "backup": Command("homes", "Keep the home in one file, while sessions run."),
    "restore": Command("homes", "Make a home of a backup, once every byte and receipt is checked."),
    "uninstall": Command("homes", "List and remove what this program made."),
    "update": Command("update", "Say how to bring the next version, for the way that this one was installed."),
    "doctor": Command("doctor", "Check this installation and say how to mend it."),
}


def main() -> None:
    """Run the program; the exit code is the outcome's, and an error is one message, never a traceback."""
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):
        try:
            print(f"adderclaw {__version__}", flush=True)
        except OSError as error:
            _exit_with_error(f"standard output: {error.strerror}", 1)
        return
    # A step leaves some dozens of objects in cycles, and the way to the first request 40,000 that all stay: looking for
    # cycles every 700 objects is wasted.
    gc.set_threshold(50_000, 10, 10)
    try:
        _open_streams()
        _run(arguments)
    except KeyboardInterrupt:  # however early it comes
        _exit_with_error("interrupted", 130)


def _run(arguments: list[str]) -> None:
    from adderclaw.core.errors import AdderClawError
    from adderclaw.terminal.commands.interrupts import restore_sigint

    try:
        restore_sigint()
        try:
            _dispatch(arguments)
        finally:
            sys.stdout.flush()
    except AdderClawError as error:
        _exit_with_error(str(error), error.exit_code)
    except OSError as error:
        # what no part had a better word for: a full disk under stdout, a reader that has gone, a home without rights
        _exit_with_error(f"{_error_subject(error)}: {error.strerror or error}", AdderClawError.exit_code)


def _error_subject(error: OSError) -> str:
    """What an error of the system is about, where it does not say so itself."""
    if error.filename:
        return str(error.filename)
    try:
        sys.stdout.flush()  # what could not be printed still waits
    except OSError:
        return "standard output"
    return "the operating system refused a call"


def _open_streams() -> None:
    """A stream that was closed before we began swallows what is written to it, and stderr also one that nobody reads.

    What we say beside the work is no reason for the work to fail, or for another exit code.
    """
    import io
    import os

    class Unread(io.FileIO):
        def write(self, data: "ReadableBuffer", /) -> int:
            try:
                return super().write(data)
            except OSError:  # its reader has gone, or its disk is full
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
    """Say what is wrong in one message and end; what could not be written must not fail again at exit."""
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
    """Whether a person types and sees the answer: then no command is the REPL, else it is help (X-93)."""
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
"""Options of `agent` without a value and with one: they may stand before what opens a conversation, or alone."""


def _leading_option_count(arguments: list[str]) -> int:
    """How many words at the beginning are such options; where nobody can be talked to only LOOKS are (X-93)."""
    alone, valued = (AGENT_FLAGS, AGENT_OPTIONS) if _at_a_terminal() else (DISPLAY_FLAGS, ())
    count = 0
    while count < len(arguments):
        name, equals, _ = arguments[count].partition("=")
        if name not in (*alone, *valued):
            break
        count += 2 if name in valued and not equals else 1
    return count


def _with_agent_command(arguments: list[str]) -> list[str]:
    """A conversation that is opened without its command: `-c`, `-r [ID or words]`, or a message, which has a space."""
    if not arguments:
        return ["agent"]
    if count := _leading_option_count(arguments):  # what they stand before says what is opened
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
    """`--quiet` belongs to every command; what stands behind `--` is another program's."""
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if "--quiet" not in ours:
        return arguments
    from adderclaw.storage.telemetry import log

    log.silence()
    return [*(word for word in ours if word != "--quiet"), *arguments[len(ours) :]]
