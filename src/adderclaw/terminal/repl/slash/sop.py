"""/sop: lists the SOPs of this workspace, shows runs of them and answers their questions."""

import shlex

from adderclaw.agent.run import Run
from adderclaw.core.errors import UsageError
from adderclaw.terminal.repl.slash.command_line import print_command
from adderclaw.terminal.repl.slash.row import Done

ELSEWHERE = ("run", "resume")


async def sop(run: Run, rest: str) -> Done:
    """Shows and answers. Running is refused, because a run asks its own questions and needs its own terminal."""
    try:
        words = shlex.split(rest) or ["list"]
    except ValueError as error:
        raise UsageError(f"{rest!r}: {error}") from None
    if words[0] in ELSEWHERE:
        raise UsageError(
            f"a SOP needs its own terminal: run `adderclaw sop {rest}`, or add --detach to run it in the server"
        )
    if words[0] == "approve":
        await print_command(run, ["sop", *words, "--no-resume"])
        named = next((word for word in words[1:] if not word.startswith("-")), "RUN_ID")
        print(f"a running server continues it; without one, run `adderclaw sop resume {named}`")
        return
    await print_command(run, ["sop", *words])
