"""/sop: the SOPs of this workspace, runs of them, and the answer that one waits for."""

import shlex

from adderclaw.agent.run import Run
from adderclaw.core.errors import UsageError
from adderclaw.terminal.repl.slash.command_line import print_command
from adderclaw.terminal.repl.slash.row import Done

ELSEWHERE = ("run", "resume")


async def sop(run: Run, rest: str) -> Done:
    """What only looks and what answers is done here; a run asks by itself, so that it has a terminal of its own."""
    try:
        words = shlex.split(rest) or ["list"]
    except ValueError as error:
        raise UsageError(f"{rest!r}: {error}") from None
    if words[0] in ELSEWHERE:
        raise UsageError(f"a SOP runs in a terminal of its own: `adderclaw sop {rest}`, or with --detach in the server")
    if words[0] == "approve":
        await print_command(run, ["sop", *words, "--no-resume"])
        named = next((word for word in words[1:] if not word.startswith("-")), "RUN_ID")
        print(f"the server goes on with it; where none runs, `adderclaw sop resume {named}` does")
        return
    await print_command(run, ["sop", *words])
