"""A message that calls a skill, a command or a server's prompt by its name: `/review src/`."""

import os
from typing import TYPE_CHECKING

from adderclaw.agent.loop import lifecycle
from adderclaw.agent.run import Run
from adderclaw.agent.session.session import Session
from adderclaw.core.errors import PathRefused
from adderclaw.core.types import Json

if TYPE_CHECKING:
    from adderclaw.tools import Called

MOST_CHAINED = 6
PROMPTS = os.path.join(os.path.dirname(__file__), "prompts")
OWN = {
    "init": "write an AGENTS.md for this project",
    "review": "review a change, by default the uncommitted one",
    "security-review": "review a change for security alone",
    "simplify": "make changed code simpler",
}
"""Commands of ours that are a message and nothing more: `prompts/NAME.md`."""


async def expanded(session: Session, text: str) -> str:
    """What is sent to the model; a text that names none stays as it is.

    The first line has the arguments: what is below it, such as what was piped in, goes into no command of the skill.
    """
    line, _, below = text.partition("\n")
    name, _, rest = line.strip().partition(" ")
    skills = session.scene.kit.skills
    if not name.startswith("/") or skills is None or not skills.has(name[1:]):
        return text
    made = await chained(session, name[1:], rest.strip())
    return f"{made}\n{below}" if below.strip() else made


async def chained(session: Session, name: str, rest: str) -> str:
    """One skill, or several that are named one after the other (`/a /b words`): each gets the words behind them."""
    skills, names = session.scene.kit.skills, [name]
    assert skills is not None
    while len(names) < MOST_CHAINED:
        word, _, behind = rest.partition(" ")
        if not word.startswith("/") or not skills.has(word[1:]):
            break
        names.append(word[1:])
        rest = behind.strip()
    return "\n\n".join([await called(session, one, rest) for one in dict.fromkeys(names)])


async def called(session: Session, name: str, arguments: str) -> str:
    """A skill's text with what its commands print; what it asks to be allowed counts in this turn, if it is trusted."""
    message, found = await text_of(session, name, arguments)
    session.scene.in_force.lend(found.rules, found.effort)
    return message


async def text_of(session: Session, name: str, arguments: str) -> "tuple[str, Called]":
    """The same for whoever begins no turn with it, and what it asks for."""
    from adderclaw.tools.control.skill import with_outputs

    if (skills := session.scene.kit.skills) is None:
        raise PathRefused(f"there is no skill {name[:100]!r}")
    await lifecycle.begin(session)  # its hooks come first
    found = skills.called(name, arguments, session.session_id)
    if (refused := await lifecycle.skill_expanded(session, name, arguments, found.path)) is not None:
        raise PathRefused(f"a hook refused it: {refused}")
    return await with_outputs(found, session.host), found


async def prompted(run: Run, name: str, rest: str) -> str:
    """What a prompt of an MCP server (`mcp__SERVER__PROMPT`) says with these words."""
    servers = run.runtime.servers
    if servers is None:
        raise PathRefused(f"there is no command /{name[:100]}: no MCP server is configured")
    prompt = await servers.prompt(name, _words(rest))
    fields: Json = {"expansion_type": "mcp_prompt", "command_name": name, "command_args": rest, "prompt": prompt}
    if (refused := await lifecycle.expanded(run.session, fields)) is not None:
        raise PathRefused(f"a hook refused it: {refused}")
    return prompt


def _words(rest: str) -> list[str]:
    """Quotes hold words together; one that is left open is a character."""
    import shlex

    try:
        return shlex.split(rest)
    except ValueError:
        return rest.split()


def own(name: str, rest: str) -> str:
    """The message that one of our own commands stands for, with what follows it."""
    with open(os.path.join(PROMPTS, f"{name}.md"), encoding="utf-8") as file:
        text = file.read().strip()
    return f"{text}\n\nThe person adds: {rest}" if rest else text
