"""Skills, custom commands and prompts of MCP servers, sent as the person's own message."""

import sys

from adderclaw.channels import by_name
from adderclaw.channels.repl.here import turn
from adderclaw.channels.repl.slash.row import Done
from adderclaw.credentials.redaction import visible
from adderclaw.kernel import lifecycle
from adderclaw.runtime import Run
from adderclaw.types import Json


async def skill(name: str, run: Run, rest: str) -> Done:
    """Send a skill as the person's own message."""
    await turn(run, await by_name.chained(run.session, name, rest))


async def prompt(name: str, run: Run, rest: str) -> Done:
    """Send a prompt of an MCP server as the person's own message."""
    servers = run.runtime.servers
    if servers is None:
        print(f"there is no command /{visible(name)}: no MCP server is configured.", file=sys.stderr)
        return None
    prompt = await servers.prompt(name, _words(rest))
    fields: Json = {"expansion_type": "mcp_prompt", "command_name": name, "command_args": rest, "prompt": prompt}
    if (refused := await lifecycle.expanded(run.session, fields)) is not None:
        print(f"/{visible(name)}: a hook refused it: {visible(refused)}", file=sys.stderr)
        return None
    await turn(run, prompt)


def _words(rest: str) -> list[str]:
    """Quotes hold words together; one that is left open is a character."""
    import shlex

    try:
        return shlex.split(rest)
    except ValueError:
        return rest.split()
