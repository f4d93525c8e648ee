"""Sends skills, custom commands and prompts of MCP servers as the person's message."""

from adderclaw.agent.conversation import by_name
from adderclaw.agent.run import Run
from adderclaw.terminal.repl.here import run_turn_here
from adderclaw.terminal.repl.slash.row import Done


async def skill(name: str, run: Run, rest: str) -> Done:
    """Send a skill as the person's own message."""
    await run_turn_here(run, await by_name.chained(run.session, name, rest))


async def prompt(name: str, run: Run, rest: str) -> Done:
    """Send a prompt of an MCP server as the person's own message."""
    await run_turn_here(run, await by_name.prompted(run, name, rest))
