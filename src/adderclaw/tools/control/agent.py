"""Agent: runs a task in a subagent, which has its own session and returns its last message."""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from adderclaw.config.places import foreign_homes
from adderclaw.core import home_names
from adderclaw.core.errors import AdderClawError
from adderclaw.core.host import ChildReport, ChildRequest, ToolContext
from adderclaw.core.record import record
from adderclaw.core.types import (
    EFFORTS,
    Alias,
    Json,
    Prepared,
    Thinking,
    Tool,
    ToolResult,
    Touch,
    own_words,
    parse_effort,
    rejected,
)
from adderclaw.sandbox import workspace
from adderclaw.tools import long_outputs
from adderclaw.tools.kit import AGENT_FOLDERS
from adderclaw.tools.specs import spec

if TYPE_CHECKING:
    from adderclaw.tools.control.definitions import Definition, KnownDefinitions
    from adderclaw.tools.kit import Kit

MAX_PROMPT = 200_000
DEFAULT_TYPE = "general-purpose"
IGNORED_KEYS = frozenset({"name", "team_name", "mode"})
"""Arguments that models trained on other products send, and that have no effect here."""


@record
class AgentArguments:
    description: str
    prompt: str
    subagent_type: str = DEFAULT_TYPE
    model: str = ""
    effort: str = ""
    run_in_background: bool = False
    isolation: Literal["", "worktree"] = ""
    """worktree: work in a separate git worktree, which is removed if nothing changed in it."""


def _decode(arguments: Json) -> AgentArguments:
    from adderclaw.core.decode import decode

    return decode(AgentArguments, {key: value for key, value in arguments.items() if key not in IGNORED_KEYS})


def _build_child(
    arguments: AgentArguments, definition: "Definition", ctx: ToolContext, *, overlaps: bool
) -> ChildRequest:
    return ChildRequest(
        prompt=arguments.prompt,
        agent_type=definition.name,
        description=arguments.description,
        system=definition.system,
        tools=definition.tools,
        excluded_tools=definition.without,
        mode=definition.mode,
        model=arguments.model or definition.model,
        thinking=Thinking(parse_effort(arguments.effort)).with_fallback(definition.thinking),
        max_rounds=definition.max_rounds,
        background=arguments.run_in_background or definition.background,
        tool_use_id=ctx.tool_use_id,
        waits_for_slot=overlaps,
    )


def _find_definition(kit: "Kit", arguments: AgentArguments) -> "Definition | ToolResult":
    """The requested definition, or what is wrong with the call."""
    from adderclaw.tools.control import definitions

    if not arguments.prompt.strip():
        return rejected("the prompt is empty. Say what the subagent should do.")
    if len(arguments.prompt) > MAX_PROMPT:
        fix = "put long material into a file and name it"
        return rejected(f"the prompt has {len(arguments.prompt)} characters, at most {MAX_PROMPT} are allowed: {fix}.")
    if arguments.effort and parse_effort(arguments.effort) is None:
        return rejected(f"effort: {arguments.effort[:40]!r} is not one of {', '.join(EFFORTS)}.")
    known = _known(kit)
    requested = arguments.subagent_type.strip() or DEFAULT_TYPE
    definition = definitions.find_definition(known, requested)
    return definition if definition is not None else rejected(_unknown_type_message(known, requested))


def _known(kit: "Kit") -> "KnownDefinitions":
    from adderclaw.tools.control import definitions

    foreign = kit.config.compat.claude
    return definitions.known_definitions(kit.home, kit.project, kit.agents, foreign=foreign, plugins=kit.plugins)


def _unknown_type_message(known: Any, requested: str) -> str:
    from adderclaw.core.suggestions import did_you_mean

    hint = did_you_mean(requested, known.by_name) or "."
    named = {requested.lower(), requested.lower().partition(":")[0]}  # also a plugin whose agent was left out
    left_out = [problem for problem in known.problems if any(name in problem.lower() for name in named)]
    why = f" ({'; '.join(left_out)[:1000]})" if left_out else ""
    return f"there is no subagent_type {requested[:100]!r}{hint} Available: {', '.join(known.by_name)}.{why}"


def report_text(report: ChildReport, most: int, keep: Callable[[str], str | None]) -> str:
    """A subagent's outcome as its parent sees it."""
    answer = long_outputs.shorten_text(report.answer, keep, most)
    if report.outcome == "completed":
        return answer or "(the subagent returned no text)"
    ended = f"The subagent ended: {report.outcome}: {report.reason}" if report.reason else f"ended: {report.outcome}"
    return f"{ended}\nIts last message:\n{answer}" if answer else ended


def _touch(arguments: AgentArguments, ctx: ToolContext) -> Touch:
    why = f"starts a subagent ({arguments.subagent_type[:40]})"
    if not arguments.isolation:
        return Touch(why=why)
    from adderclaw.tools import paths, worktree

    folder = paths.path_fact(os.path.join(ctx.workspace.root, worktree.FOLDER), ctx)
    return Touch(writes=(folder,), why=f"{why} in a git worktree")


def _is_read_only(arguments: AgentArguments, definition: "Definition | ToolResult") -> bool:
    """Whether all of its tools only read and it runs in the foreground."""
    if isinstance(definition, ToolResult) or arguments.isolation:
        return False
    from adderclaw.tools.control.definitions import READ_ONLY_TOOLS

    named = definition.tools is not None and set(definition.tools) <= set(READ_ONLY_TOOLS)
    return named and not (arguments.run_in_background or definition.background)


def _result(report: ChildReport, most: int, ctx: ToolContext) -> ToolResult:
    failed = report.outcome != "completed"
    facts: Json = {
        "agentId": report.session_id,
        "status": report.outcome,
        "totalTokens": report.tokens,
        "totalToolUseCount": report.tool_calls,
        "resolvedModel": report.model,
    }
    return ToolResult(report_text(report, most, ctx.store_output), "rejected" if failed else "ok", facts)


def _worktree_name(order: ChildRequest, ctx: ToolContext) -> str:
    """An unused worktree name: some models reuse the id of a call in a later reply."""
    from adderclaw.tools import worktree

    base = name = f"agent-{order.tool_use_id[-24:]}".replace("_", "-")
    count = 1
    while workspace.exists(workspace.WorkspacePath(ctx.workspace.root, f"{worktree.FOLDER}/{name}")):
        count += 1
        name = f"{base}-{count}"
    return name


async def _run_in_worktree(kit: "Kit", order: ChildRequest, ctx: ToolContext) -> ToolResult:
    """Runs a subagent in its own worktree, which is removed afterwards if nothing would be lost."""
    from adderclaw.tools import worktree

    tree = await worktree.create_worktree(kit, ctx, _worktree_name(order, ctx))
    if tree.problem:
        return rejected(tree.problem)
    try:
        result = _result(await ctx.host.spawn(replace(order, cwd=tree.path)), kit.config.subagents.result_chars, ctx)
    except AdderClawError as error:
        result = rejected(f"the subagent could not begin: {error}")
    problem = await worktree.remove_worktree(kit, ctx, tree.path)
    if not problem:
        return result
    branch = worktree.BRANCH + os.path.basename(tree.path)
    facts = result.metadata | {"worktreePath": tree.path, "worktreeBranch": branch}
    return replace(result, content=f"{result.content}\n(its work is in {tree.path}, branch {branch})", metadata=facts)


async def _run_subagent(kit: "Kit", order: ChildRequest, ctx: ToolContext, *, apart: bool) -> ToolResult:
    """Runs a subagent to its end, in its own worktree or in the workspace."""
    if apart:
        return await _run_in_worktree(kit, order, ctx)
    try:
        return _result(await ctx.host.spawn(order), kit.config.subagents.result_chars, ctx)
    except AdderClawError as error:
        return rejected(f"the subagent could not begin: {error}")


def _start_in_background(kit: "Kit", order: ChildRequest, ctx: ToolContext, *, apart: bool) -> ToolResult:
    """Starts a subagent as a background task. The model receives its answer once, when it ends."""
    from adderclaw.tools.background import Output, TaskOutcome, TooManyTasks

    assert kit.tasks is not None
    allowed = kit.config.subagents

    async def work(output: Output) -> TaskOutcome:
        result = await _run_subagent(kit, order, ctx, apart=apart)
        output.write(result.content.encode("utf-8", "replace") + b"\n")
        outcome = str(result.metadata.get("status", "it could not begin"))
        return TaskOutcome("failed" if result.is_error else "completed", outcome, result.content)

    try:
        task = kit.tasks.begin("agent", order.description, work, ctx, awaited=True, most=allowed.max_concurrent)
    except TooManyTasks as error:
        return rejected(str(error))
    note = "You will receive its answer when it ends. Continue with other work, or end your turn to wait."
    return own_words(f"The subagent runs in the background as {task.id}. {note}", {"agentId": task.id})


MAX_LISTED_CHARS = 4_000
"""Characters of the tool description that are left for custom definitions."""


def _describe(kit: "Kit", text: str) -> str:
    """Appends the custom subagent types. Reads no file unless a folder for definitions exists."""
    homes = (kit.home, *foreign_homes(kit.config.compat.claude))
    folders = [
        *(os.path.join(home, home_names.AGENTS) for home in homes),
        *(os.path.join(kit.project, entry) for entry in AGENT_FOLDERS),
    ]
    has_own = kit.agents or any(plugin.manifest.agents for plugin in kit.plugins)
    if not has_own and (not kit.home or not any(map(workspace.is_directory, folders))):
        return text
    definitions = _known(kit).by_name.values()
    lines = [f"\n- {entry.name}: {entry.description[:300]}" for entry in definitions if not entry.is_built_in]
    return (text + "".join(lines))[: len(text) + MAX_LISTED_CHARS]


def tools(kit: "Kit") -> tuple[Tool[Any], ...]:
    def prepare(arguments: AgentArguments, ctx: ToolContext) -> Prepared:
        definition = _find_definition(kit, arguments)
        overlaps = _is_read_only(arguments, definition)
        fails = definition.content if isinstance(definition, ToolResult) else ""
        return Prepared(
            _touch(arguments, ctx), lambda: run(arguments, definition, ctx, overlaps=overlaps), overlaps, lambda: fails
        )

    async def run(
        arguments: AgentArguments, definition: "Definition | ToolResult", ctx: ToolContext, *, overlaps: bool
    ) -> ToolResult:
        if isinstance(definition, ToolResult):
            return definition
        order = _build_child(arguments, definition, ctx, overlaps=overlaps)
        apart = bool(arguments.isolation)
        if order.background and kit.tasks is not None:
            return _start_in_background(kit, order, ctx, apart=apart)
        return await _run_subagent(kit, order, ctx, apart=apart)

    known = spec("Agent")
    return (
        Tool(
            "Agent",
            AgentArguments,
            prepare,
            _describe(kit, known.description),
            known.parameters,
            (Alias("Task"),),
            timeout=lambda _given: kit.config.limits.seconds,
            decode=_decode,
        ),
    )
