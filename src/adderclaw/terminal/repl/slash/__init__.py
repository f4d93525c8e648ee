"""Slash commands: a row of the table, a skill, or a prompt of an MCP server."""

import sys
from functools import partial

from adderclaw.agent.run import Run
from adderclaw.core.errors import AdderClawError
from adderclaw.core.redaction import visible
from adderclaw.core.suggestions import closest
from adderclaw.terminal.repl.slash.command import Action


async def run_slash_command(run: Run, text: str) -> bool:
    """Runs a line that begins with /. Returns False to end the conversation."""
    name, _, rest = text[1:].partition(" ")
    action = _find_action(run, name)
    if action is None:
        _print_unknown(run, name)
        return True
    try:
        done = action(run, rest.strip())
        return (done if done is None or isinstance(done, str) else await done) != "leave"
    except AdderClawError as error:
        print(f"/{name}: {run.runtime.secrets.clean(str(error))}", file=sys.stderr)
        return True


def runs_at_once(text: str) -> bool:
    """Whether a line is a command that runs without waiting for the end of the current turn."""
    from adderclaw.terminal.repl.slash.table import SLASH

    row = SLASH.get(text[1:].partition(" ")[0]) if text.startswith("/") else None
    return row is not None and row.at_once


def _find_action(run: Run, name: str) -> Action | None:
    from adderclaw.terminal.repl.slash import prompts
    from adderclaw.terminal.repl.slash.table import SLASH

    if name in SLASH:
        return SLASH[name].run
    if name.startswith("mcp__"):
        return partial(prompts.server_prompt, name)
    skills = run.session.environment.kit.skills
    return partial(prompts.skill, name) if skills is not None and skills.has(name) else None


def _print_unknown(run: Run, name: str) -> None:
    from adderclaw.terminal.repl.slash.table import SLASH

    skills = run.session.environment.kit.skills
    offered, _ = skills.offered() if skills is not None else ((), True)
    meant = closest(name, [*SLASH, *(known for known, _ in offered)])
    hint = f"did you mean /{meant}? " if meant else ""
    print(f"there is no command /{visible(name)}: {hint}/help lists them.", file=sys.stderr)
