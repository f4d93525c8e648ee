"""Agent: a task for a subagent, which works in a session of its own and gives back its last message."""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from adderclaw.config.places import foreign_homes
from adderclaw.core import home_names
from adderclaw.core.child import ChildReport, ChildRequest
from adderclaw.core.errors import AdderClawError
from adderclaw.core.record import record
from adderclaw.core.types import (
    EFFORTS,
    Alias,
    Json,
    Prepared,
    Thinking,
    Tool,
    ToolContext,
    ToolResult,
    Touch,
    own_words,
    parse_effort,
    rejected,
)
from adderclaw.sandbox import workspace
from adderclaw.tools import long_outputs
from adderclaw.tools.specs import spec

if TYPE_CHECKING:
    from adderclaw.tools import Kit
    from adderclaw.tools.control.definitions import Definition, Known

MAX_PROMPT = 200_000
DEFAULT = "general-purpose"
UNUSED = frozenset({"name", "team_name", "mode"})
"""What the reference product accepts and we have no use for."""


@record
class AgentArguments:
    description: str
    prompt: str
    subagent_type: str = DEFAULT
    model: str = ""
    effort: str = ""
    run_in_background: bool = False
    isolation: Literal["", "worktree"] = ""
    """worktree: a git worktree of its own, removed if nothing changed in it."""


def _decode(given: Json) -> AgentArguments:
    from adderclaw.core.decode import decode

    return decode(AgentArguments, {key: value for key, value in given.items() if key not in UNUSED})


def _order(given: AgentArguments, definition: "Definition", ctx: ToolContext, *, overlaps: bool) -> ChildRequest:
    return ChildRequest(
        prompt=given.prompt,
        agent_type=definition.name,
        description=given.description,
        system=definition.system,
        tools=definition.tools,
        excluded_tools=definition.without,
        mode=definition.mode,
        model=given.model or definition.model,
        thinking=Thinking(parse_effort(given.effort)).with_fallback(definition.thinking),
        max_rounds=definition.max_rounds,
        background=given.run_in_background or definition.background,
        tool_use_id=ctx.tool_use_id,
        waits_for_slot=overlaps,
    )


def _found(kit: "Kit", given: AgentArguments) -> "Definition | ToolResult":
    """The definition that is meant, or what is wrong with the call."""
    from adderclaw.tools.control import definitions

    if not given.prompt.strip():
        return rejected("the prompt is empty: say what the subagent is to do.")
    if len(given.prompt) > MAX_PROMPT:
        fix = "put long material into a file and name it"
        return rejected(f"the prompt has {len(given.prompt)} characters, at most {MAX_PROMPT} are given: {fix}.")
    if given.effort and parse_effort(given.effort) is None:
        return rejected(f"effort: {given.effort[:40]!r} is not one of {', '.join(EFFORTS)}.")
    known = _known(kit)
    wanted = given.subagent_type.strip() or DEFAULT
    found = definitions.found(known, wanted)
    return found if found is not None else rejected(_unknown(known, wanted))


def _known(kit: "Kit") -> "Known":
    from adderclaw.tools.control import definitions

    foreign = kit.config.compat.claude
    return definitions.known(kit.home, kit.project, kit.agents, foreign=foreign, plugins=kit.plugins)


def _unknown(known: Any, wanted: str) -> str:
    from adderclaw.core.suggestions import did_you_mean

    hint = did_you_mean(wanted, known.by_name) or "."
    named = {wanted.lower(), wanted.lower().partition(":")[0]}  # also by the plugin that would bring it
    left_out = [problem for problem in known.problems if any(name in problem.lower() for name in named)]
    why = f" ({'; '.join(left_out)[:1000]})" if left_out else ""
    return f"there is no subagent_type {wanted[:100]!r}{hint} There are: {', '.join(known.by_name)}.{why}"


def told(report: ChildReport, most: int, keep: Callable[[str], str | None]) -> str:
    """What the parent hears of a child's end."""
    answer = long_outputs.shown(report.answer, keep, most)
    if report.outcome == "completed":
        return answer or "(the subagent said nothing)"
    ended = f"The subagent ended: {report.outcome}: {report.reason}" if report.reason else f"ended: {report.outcome}"
    return f"{ended}\nIts last words:\n{answer}" if answer else ended


def _touch(given: AgentArguments, ctx: ToolContext) -> Touch:
    why = f"begins a subagent ({given.subagent_type[:40]})"
    if not given.isolation:
        return Touch(why=why)
    from adderclaw.tools import paths, worktree

    place = paths.fact(os.path.join(ctx.workspace.root, worktree.FOLDER), ctx)
    return Touch(writes=(place,), why=f"{why} in a git worktree")


def _only_reads(given: AgentArguments, definition: "Definition | ToolResult") -> bool:
    """Whether none of its tools can write, and somebody waits for it."""
    if isinstance(definition, ToolResult) or given.isolation:
        return False
    from adderclaw.tools.control.definitions import LOOKING

    named = definition.tools is not None and set(definition.tools) <= set(LOOKING)
    return named and not (given.run_in_background or definition.background)


def _result(report: ChildReport, most: int, ctx: ToolContext) -> ToolResult:
    failed = report.outcome != "completed"
    facts: Json = {
        "agentId": report.session_id,
        "status": report.outcome,
        "totalTokens": report.tokens,
        "totalToolUseCount": report.tool_calls,
        "resolvedModel": report.model,
    }
    return ToolResult(told(report, most, ctx.store_output), "rejected" if failed else "ok", facts)


def _name(order: ChildRequest, ctx: ToolContext) -> str:
    """Of a worktree that is not there yet: some models give the same id to calls of different replies."""
    from adderclaw.tools import worktree

    base = name = f"agent-{order.tool_use_id[-24:]}".replace("_", "-")
    count = 1
    while workspace.exists(workspace.Place(ctx.workspace.root, f"{worktree.FOLDER}/{name}")):
        count += 1
        name = f"{base}-{count}"
    return name


async def _apart(kit: "Kit", order: ChildRequest, ctx: ToolContext) -> ToolResult:
    """Run a subagent in a worktree of its own; one in which nothing would be lost is removed afterwards."""
    from adderclaw.tools import worktree

    made = await worktree.create(kit, ctx, _name(order, ctx))
    if made.problem:
        return rejected(made.problem)
    try:
        result = _result(await ctx.host.spawn(replace(order, cwd=made.path)), kit.config.subagents.result_chars, ctx)
    except AdderClawError as error:
        result = rejected(f"the subagent could not begin: {error}")
    kept = await worktree.remove(kit, ctx, made.path)
    if not kept:
        return result
    branch = worktree.BRANCH + os.path.basename(made.path)
    facts = result.metadata | {"worktreePath": made.path, "worktreeBranch": branch}
    return replace(result, content=f"{result.content}\n(its work is in {made.path}, branch {branch})", metadata=facts)


async def _worked(kit: "Kit", order: ChildRequest, ctx: ToolContext, *, apart: bool) -> ToolResult:
    """A subagent's whole life, in a worktree of its own or in the workspace."""
    if apart:
        return await _apart(kit, order, ctx)
    try:
        return _result(await ctx.host.spawn(order), kit.config.subagents.result_chars, ctx)
    except AdderClawError as error:
        return rejected(f"the subagent could not begin: {error}")


def _in_background(kit: "Kit", order: ChildRequest, ctx: ToolContext, *, apart: bool) -> ToolResult:
    """The turn goes on; when the subagent ends, the model is told its answer, once."""
    from adderclaw.tools.background import End, Output, TooMany

    assert kit.tasks is not None
    allowed = kit.config.subagents

    async def work(output: Output) -> End:
        result = await _worked(kit, order, ctx, apart=apart)
        output.write(result.content.encode("utf-8", "replace") + b"\n")
        outcome = str(result.metadata.get("status", "it could not begin"))
        return End("failed" if result.is_error else "completed", outcome, result.content)

    try:
        task = kit.tasks.begin("agent", order.description, work, ctx, awaited=True, most=allowed.max_concurrent)
    except TooMany as error:
        return rejected(str(error))
    note = "Its answer is told to you when it ends; go on with other work, or end your turn to wait."
    return own_words(f"The subagent runs in the background as {task.id}. {note}", {"agentId": task.id})


BUILT_IN = "built in"
"""The source of a type of subagent that the program brings."""
FOLDERS = (".claude/agents", ".adderclaw/agents")
"""Where a project keeps definitions; of two with the same name, the later folder's counts."""
LISTED = 4_000
"""Characters of the prompt that definitions of the operator and the project may take."""


def _described(kit: "Kit", text: str) -> str:
    """With the types that are not built in; no file is looked for where there is no folder for it."""
    homes = (kit.home, *foreign_homes(kit.config.compat.claude))
    folders = [
        *(os.path.join(home, home_names.AGENTS) for home in homes),
        *(os.path.join(kit.project, one) for one in FOLDERS),
    ]
    given = kit.agents or any(plugin.manifest.agents for plugin in kit.plugins)
    if not given and (not kit.home or not any(map(workspace.is_directory, folders))):
        return text
    found = _known(kit).by_name.values()
    lines = [f"\n- {one.name}: {one.description[:300]}" for one in found if one.source != BUILT_IN]
    return (text + "".join(lines))[: len(text) + LISTED]


def tools(kit: "Kit") -> tuple[Tool[Any], ...]:
    def prepare(given: AgentArguments, ctx: ToolContext) -> Prepared:
        found = _found(kit, given)
        overlaps = _only_reads(given, found)
        fails = found.content if isinstance(found, ToolResult) else ""
        return Prepared(_touch(given, ctx), lambda: run(given, found, ctx, overlaps=overlaps), overlaps, lambda: fails)

    async def run(
        given: AgentArguments, found: "Definition | ToolResult", ctx: ToolContext, *, overlaps: bool
    ) -> ToolResult:
        if isinstance(found, ToolResult):
            return found
        order = _order(given, found, ctx, overlaps=overlaps)
        apart = bool(given.isolation)
        if order.background and kit.tasks is not None:
            return _in_background(kit, order, ctx, apart=apart)
        return await _worked(kit, order, ctx, apart=apart)

    known = spec("Agent")
    return (
        Tool(
            "Agent",
            AgentArguments,
            prepare,
            _described(kit, known.description),
            known.parameters,
            (Alias("Task"),),
            timeout=lambda _given: kit.config.limits.seconds,
            decode=_decode,
        ),
    )
