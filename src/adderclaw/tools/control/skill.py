"""Skill: instructions that somebody wrote down for a kind of task, loaded when they are needed."""

from typing import TYPE_CHECKING, Any

from adderclaw.core.errors import PathRefused
from adderclaw.core.framing import framed
from adderclaw.core.host import Host
from adderclaw.core.record import record
from adderclaw.core.tool_traits import BASH, LS, READ
from adderclaw.core.types import Prepared, Tool, ToolContext, ToolResult, Touch, own_words, rejected
from adderclaw.sandbox.workspace import is_directory
from adderclaw.tools import Called, PreparedSkill, paths
from adderclaw.tools.specs import spec

if TYPE_CHECKING:
    from adderclaw.tools import Kit

LISTED = 8_000
"""Characters of the prompt that the list of skills may take."""
DESCRIBED = 300
"""Of which one description at most."""
MAX_ARGUMENTS = 100_000


@record
class SkillArguments:
    skill: str
    args: str = ""
    file: str = ""


def _described(kit: "Kit", text: str) -> str:
    """With the skills that there are, as many as there is room for."""
    if kit.skills is None:
        return text
    listed, whole = kit.skills.offered()
    room, lines, left = LISTED, [text], 0 if whole else 1
    for name, description in listed:
        line = f"- {name}: {description[:DESCRIBED]}"
        line = line if len(line) <= room else f"- {name}"
        if len(line) > room:
            left += 1
            continue
        room -= len(line) + 1
        lines.append(line)
    if left:
        lines.append("There are more: a name that does not exist is answered with the nearest ones.")
    return "\n".join(lines)


async def with_outputs(called: Called, host: Host) -> str:
    """The text with what its commands print and what it names with @, each judged and recorded as a call of Bash, Read
    or LS, and shown as what it is: data.

    Who trusts the text has said yes to them, but not to what a model adds; what the gate denies stays denied.
    """
    from secrets import token_hex

    text = called.text
    for mark, command in called.inline.items():
        if mark in text:  # else it stood in a part that there was no room for
            asked = mark in called.asked
            result = await host.call_tool(BASH, {"command": command}, f"a command in {called.path}", asked=asked)
            text = text.replace(mark, f"`{command}`:\n{framed(token_hex(8), result.content)}")
    for mark, path in called.named.items():
        if mark in text:
            tool, given = (LS, {"path": path}) if is_directory(path) else (READ, {"file_path": path})
            result = await host.call_tool(tool, given, f"named with @ in {called.path}", asked=mark in called.asked)
            text = text.replace(mark, f"{path}:\n{framed(token_hex(8), result.content)}")
    return text


def _name(given: SkillArguments) -> str:
    return given.skill.strip().lstrip("/")


def tools(kit: "Kit") -> tuple[Tool[Any], ...]:
    def prepare(given: SkillArguments, ctx: ToolContext) -> Prepared:
        why = f"loads the skill {given.skill[:64]}"
        try:
            found = chosen(given, ctx)
        except PathRefused as error:
            reason = error.reason
            return Prepared(Touch(why=why), lambda: refused(reason))
        touch = Touch(reads=(paths.fact(found.place, ctx),), why=why)
        return Prepared(touch, lambda: run(given, found, ctx))

    def chosen(given: SkillArguments, ctx: ToolContext) -> PreparedSkill:
        if kit.skills is None:
            raise PathRefused("there are no skills: none of the folders of skills is there.")
        if len(given.args) > MAX_ARGUMENTS:
            raise PathRefused(f"args has {len(given.args)} characters; at most {MAX_ARGUMENTS} are passed on.")
        return kit.skills.prepared(_name(given), given.args, given.file, ctx.session_id)

    async def refused(reason: str) -> ToolResult:
        return rejected(reason)

    async def run(given: SkillArguments, found: PreparedSkill, ctx: ToolContext) -> ToolResult:
        try:
            called = found.read()
        except PathRefused as error:
            return rejected(error.reason)
        granted = ctx.host.grant_for_turn(called.rules, called.effort)
        text = await with_outputs(called, ctx.host)
        return own_words(text, {"skill": given.skill, "file": called.path, "granted": granted})

    known = spec("Skill")
    return (
        Tool(
            "Skill",
            SkillArguments,
            prepare,
            _described(kit, known.description),
            known.parameters,
            usable=kit.skills is not None,
        ),
    )
