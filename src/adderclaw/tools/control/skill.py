"""The tool Skill: loads written instructions for a kind of task when they are needed."""

from typing import TYPE_CHECKING, Any

from adderclaw.core.errors import PathRefused
from adderclaw.core.framing import framed
from adderclaw.core.host import Host, ToolContext
from adderclaw.core.record import record
from adderclaw.core.tool_traits import BASH, LS, READ
from adderclaw.core.types import Prepared, Tool, ToolResult, Touch, own_words, rejected
from adderclaw.sandbox.workspace import is_directory
from adderclaw.tools import paths
from adderclaw.tools.kit import CalledSkill, PreparedSkill
from adderclaw.tools.specs import spec

if TYPE_CHECKING:
    from adderclaw.tools.kit import Kit

MAX_LISTED_CHARS = 8_000
"""The longest list of skills in the tool's description."""
MAX_DESCRIPTION_CHARS = 300
"""The longest description of one skill in the list."""
MAX_ARGUMENTS = 100_000


@record
class SkillArguments:
    skill: str
    args: str = ""
    file: str = ""


def _describe(kit: "Kit", text: str) -> str:
    """Appends the list of skills to the tool's description, as far as it fits."""
    if kit.skills is None:
        return text
    listed, whole = kit.skills.offered()
    room, lines, left = MAX_LISTED_CHARS, [text], 0 if whole else 1
    for name, description in listed:
        line = f"- {name}: {description[:MAX_DESCRIPTION_CHARS]}"
        line = line if len(line) <= room else f"- {name}"
        if len(line) > room:
            left += 1
            continue
        room -= len(line) + 1
        lines.append(line)
    if left:
        lines.append("There are more. An unknown name returns the most similar ones.")
    return "\n".join(lines)


async def fill_placeholders(called: CalledSkill, host: Host) -> str:
    """Fills in the output of the text's commands and the content of the files it names with @, framed as data.

    Each is judged and recorded as a call of Bash, Read or LS. Trusting the text approves them, except those that
    contain arguments from a model; what the policy denies stays denied.
    """
    from secrets import token_hex

    text = called.text
    for mark, command in called.inline.items():
        if mark in text:  # otherwise it was cut off
            asked = mark in called.asked
            result = await host.call_tool(BASH, {"command": command}, f"a command in {called.path}", asked=asked)
            text = text.replace(mark, f"`{command}`:\n{framed(token_hex(8), result.content)}")
    for mark, path in called.named.items():
        if mark in text:
            tool, arguments = (LS, {"path": path}) if is_directory(path) else (READ, {"file_path": path})
            result = await host.call_tool(tool, arguments, f"named with @ in {called.path}", asked=mark in called.asked)
            text = text.replace(mark, f"{path}:\n{framed(token_hex(8), result.content)}")
    return text


def tools(kit: "Kit") -> tuple[Tool[Any], ...]:
    def prepare(arguments: SkillArguments, ctx: ToolContext) -> Prepared:
        why = f"loads the skill {arguments.skill[:64]}"
        try:
            skill = chosen(arguments, ctx)
        except PathRefused as error:
            reason = error.reason
            return Prepared(Touch(why=why), lambda: refused(reason))
        touch = Touch(reads=(paths.path_fact(skill.path, ctx),), why=why)
        return Prepared(touch, lambda: run(arguments, skill, ctx))

    def chosen(arguments: SkillArguments, ctx: ToolContext) -> PreparedSkill:
        if kit.skills is None:
            raise PathRefused("there are no skills because no skills folder exists.")
        if len(arguments.args) > MAX_ARGUMENTS:
            raise PathRefused(f"args has {len(arguments.args)} characters; at most {MAX_ARGUMENTS} are allowed.")
        name = arguments.skill.strip().lstrip("/")
        return kit.skills.prepared(name, arguments.args, arguments.file, ctx.session_id)

    async def refused(reason: str) -> ToolResult:
        return rejected(reason)

    async def run(arguments: SkillArguments, skill: PreparedSkill, ctx: ToolContext) -> ToolResult:
        try:
            called = skill.read()
        except PathRefused as error:
            return rejected(error.reason)
        granted = ctx.host.grant_for_turn(called.rules, called.effort)
        text = await fill_placeholders(called, ctx.host)
        return own_words(text, {"skill": arguments.skill, "file": called.path, "granted": granted})

    known = spec("Skill")
    return (
        Tool(
            "Skill",
            SkillArguments,
            prepare,
            _describe(kit, known.description),
            known.parameters,
            usable=kit.skills is not None,
        ),
    )
