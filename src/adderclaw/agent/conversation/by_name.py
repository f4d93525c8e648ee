"""Expands messages that call a skill, a command or a server's prompt by its name: `/review src/`."""

import os
from typing import TYPE_CHECKING

from adderclaw.agent.loop import lifecycle
from adderclaw.agent.run import Run
from adderclaw.agent.session.session import Session
from adderclaw.core.errors import PathRefused
from adderclaw.core.types import Json

if TYPE_CHECKING:
    from adderclaw.tools import CalledSkill

MOST_CHAINED = 6
PROMPTS = os.path.join(os.path.dirname(__file__), "prompts")
OWN = {
    "init": "write an AGENTS.md for this project",
    "review": "review a change, by default the uncommitted one",
    "security-review": "review a change for security alone",
    "simplify": "make changed code simpler",
}
"""Built-in commands that only send a message: `prompts/NAME.md`."""


async def expanded(session: Session, text: str) -> str:
    """The text for the model; a text that names no skill stays unchanged.

    Only the first line has arguments. The lines below it, such as piped input, are not passed to the skill's commands.
    """
    line, _, below = text.partition("\n")
    name, _, rest = line.strip().partition(" ")
    skills = session.environment.kit.skills
    if not name.startswith("/") or skills is None or not skills.has(name[1:]):
        return text
    message = await chained(session, name[1:], rest.strip())
    return f"{message}\n{below}" if below.strip() else message


async def chained(session: Session, name: str, rest: str) -> str:
    """Expand one skill, or several in a row (`/a /b words`), each with the words that follow."""
    skills, names = session.environment.kit.skills, [name]
    assert skills is not None
    while len(names) < MOST_CHAINED:
        word, _, behind = rest.partition(" ")
        if not word.startswith("/") or not skills.has(word[1:]):
            break
        names.append(word[1:])
        rest = behind.strip()
    return "\n\n".join([await called(session, skill_name, rest) for skill_name in dict.fromkeys(names)])


async def called(session: Session, name: str, arguments: str) -> str:
    """A skill's text with its commands' output. A trusted skill's allow rules count in this turn."""
    message, skill = await text_of(session, name, arguments)
    session.environment.active_policy.lend(skill.rules, skill.effort)
    return message


async def text_of(session: Session, name: str, arguments: str) -> "tuple[str, CalledSkill]":
    """A skill's text and its requests, without applying the requests."""
    from adderclaw.tools.control.skill import fill_placeholders

    if (skills := session.environment.kit.skills) is None:
        raise PathRefused(f"there is no skill {name[:100]!r}")
    await lifecycle.run_start_hooks(session)  # the SessionStart hooks run first
    skill = skills.called(name, arguments, session.session_id)
    if (refused := await lifecycle.run_skill_expansion_hooks(session, name, arguments, skill.path)) is not None:
        raise PathRefused(f"a hook refused it: {refused}")
    return await fill_placeholders(skill, session.host), skill


async def prompted(run: Run, name: str, rest: str) -> str:
    """The text of an MCP server's prompt (`mcp__SERVER__PROMPT`) with these arguments."""
    servers = run.runtime.servers
    if servers is None:
        raise PathRefused(f"there is no command /{name[:100]}: no MCP server is configured")
    prompt = await servers.prompt(name, _words(rest))
    fields: Json = {"expansion_type": "mcp_prompt", "command_name": name, "command_args": rest, "prompt": prompt}
    if (refused := await lifecycle.run_expansion_hooks(run.session, fields)) is not None:
        raise PathRefused(f"a hook refused it: {refused}")
    return prompt


def _words(rest: str) -> list[str]:
    """Split like a shell; if a quote is not closed, split at spaces."""
    import shlex

    try:
        return shlex.split(rest)
    except ValueError:
        return rest.split()


def own(name: str, rest: str) -> str:
    """The message of a built-in command, with the person's additional text."""
    with open(os.path.join(PROMPTS, f"{name}.md"), encoding="utf-8") as file:
        text = file.read().strip()
    return f"{text}\n\nThe person adds: {rest}" if rest else text
