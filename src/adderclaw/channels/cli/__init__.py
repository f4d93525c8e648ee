"""The command line: finds the command in a table and imports that one."""

import sys
from typing import NamedTuple

from adderclaw import __version__


class Command(NamedTuple):
    module: str
    help: str


COMMANDS: dict[str, Command] = {
    "init": Command("setup", "Create the home, the configuration, the database and the workspace."),
    "onboard": Command("setup", "Set up with questions: provider, key variable, autonomy."),
    "agent": Command("agent", "Talk to the agent: a REPL, or one turn with -m."),
    "tool": Command("tool", "List, run and explain tools."),
    "config": Command("config", "Validate, show and create configuration."),
    "provider": Command("provider", "List and test model providers."),
    "memory": Command("memory", "List, search, show and clear conversations."),
    "receipt": Command("receipt", "List and verify the tamper-evident receipts."),
    "runs": Command("runs", "List runs and how they ended."),
    "trust": Command("trust", "Trust what a project's configuration says, as it is now."),
    "estop": Command("estop", "Stop every tool, now and until it is cleared."),
    "doctor": Command("doctor", "Check this installation and say how to mend it."),
}


def main() -> None:
    """Run the program; the exit code is the outcome's, and an error is one message, never a traceback."""
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):
        print(f"adderclaw {__version__}")
        return
    from adderclaw.errors import EXIT_SIGINT, AdderClawError

    try:
        _dispatch(arguments)
    except AdderClawError as error:
        from adderclaw.credentials.redaction import Secrets

        print(f"adderclaw: {Secrets().clean(str(error))}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(EXIT_SIGINT)


def _dispatch(arguments: list[str]) -> None:
    name = arguments[0] if arguments else ""
    if name in COMMANDS:
        from adderclaw.channels.cli.common import run_command

        run_command(name, COMMANDS[name].module, arguments)
    else:
        from adderclaw.channels.cli.root import run_root

        run_root(arguments)
