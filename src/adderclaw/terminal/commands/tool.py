"""`adderclaw tool`: lists, runs and explains tools; also `--eval`, which runs one tool by hand."""

import asyncio
import json
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Annotated, Any

import typer

from adderclaw.agent.queries import judging
from adderclaw.agent.run import Options, Resume, Run, open_run, start, start_reading
from adderclaw.agent.run.drive import Report, drive
from adderclaw.agent.run.signals import until_signal
from adderclaw.agent.session.session import ToolEnvironment, TurnResult
from adderclaw.agent.tool_call.call import run_call
from adderclaw.agent.tool_call.permission_check import prepare_and_judge
from adderclaw.agent.tool_call.result import FinishedCall
from adderclaw.core.errors import SessionInUse, UsageError
from adderclaw.core.redaction import visible
from adderclaw.core.types import ToolCall
from adderclaw.policy.case import Decision
from adderclaw.storage import Store, runs, transcript
from adderclaw.terminal.commands.common import ConfigFile, OutputFormat, Profile, WorkspaceDir, group, json_object
from adderclaw.terminal.operators import OperatorAtWork, Terminal
from adderclaw.terminal.output import print_json
from adderclaw.tools import find_tool, resolve_arguments

app = group("List, run and explain tools.")

Arguments = Annotated[str, typer.Option("--json", metavar="ARGS", help="The tool's input, a JSON object.")]


@app.command("list")
def list_tools(
    config: ConfigFile = None,
    workspace: WorkspaceDir = None,
    schema: Annotated[bool, typer.Option("--schema", help="Include each tool's JSON Schema.")] = False,
    output_format: OutputFormat = "text",
) -> None:
    """List the tools that the model may call.

    Example: adderclaw tool list
    """
    here = _scene(config, workspace, None)
    if output_format == "json":
        print_json([judging.row(tool) for tool in here.offered_tools.values()])
        return
    for tool in here.offered_tools.values():
        names = ", ".join(alias.name for alias in tool.aliases)
        print(f"{tool.name:<14} {tool.description.splitlines()[0]}" + (f"  (also: {names})" if names else ""))
        if schema:
            print(json.dumps(tool.parameters, indent=2))


@app.command("run")
def run_tool(
    name: Annotated[str, typer.Argument(help="A tool's name or alias.")],
    arguments: Arguments = "{}",
    config: ConfigFile = None,
    workspace: WorkspaceDir = None,
    profile: Profile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Run one tool by hand: calls the policy would ask about count as approved, calls it denies stay denied.

    Example: adderclaw tool run file_list --json '{"path": "."}'
    """
    options = Options(config_file=config, workspace=workspace, profile=profile, log_level="warning", here=True)
    raise typer.Exit(_call_by_hand(options, name, json_object(arguments, "--json"), output_format))


@app.command()
def explain(
    name: Annotated[str | None, typer.Argument(help="A tool's name or alias.")] = None,
    arguments: Arguments = "{}",
    batch: Annotated[
        bool, typer.Option("--batch", help='Read {"tool", "input"} lines from stdin; write one object per line.')
    ] = False,
    hooks: Annotated[
        bool, typer.Option("--hooks", help="Also run the PreToolUse hooks and apply their decisions.")
    ] = False,
    config: ConfigFile = None,
    workspace: WorkspaceDir = None,
    profile: Profile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Explain what the policy would decide on a call. Nothing runs, except hooks with --hooks.

    Example: adderclaw tool explain Bash --json '{"command": "rm -rf /"}'
    """
    here = _scene(config, workspace, profile)
    if batch:
        _explain_batch(here)
        return
    if name is None:
        raise UsageError("tool explain: name a tool, or use --batch with lines on stdin")
    tool_input = json_object(arguments, "--json")
    verdict: Mapping[str, Any] = judging.explain_call(here, name, tool_input)
    if hooks:
        verdict = asyncio.run(_explained_with_hooks(config, workspace, profile, name, tool_input))
    if output_format == "json":
        print_json(verdict)
    else:
        denial = f": {verdict['denial']}" if verdict["denial"] else ""
        print(f"{verdict['verdict']}{denial}  (risk {verdict['risk']}, by {verdict['by']})")
        print(f"  {visible(verdict['reason'])}")
        for opinion in verdict["opinions"]:
            opinion_verdict = opinion["verdict"] or "no opinion"
            print(f"  {opinion['by']:<20} {opinion_verdict:<10} {visible(opinion['reason'])}")


def evaluate_one(text: str, conversation: str | None = None) -> int:
    """Runs `--eval`: one tool, called by the operator, who may also read outside the workspace.

    The call belongs to the named conversation, whose phase applies; otherwise to the last `--eval` conversation here.
    """
    name, arguments = _tool_and_input(json_object(text, "--eval"), "--eval")
    options = Options(log_level="warning", free_reads=True, here=True)
    with ExitStack() as stack:
        if conversation is not None:
            again = Resume(conversation, go_on=False)
            run = stack.enter_context(open_run(start(options), OperatorAtWork(), kind="tool", again=again))
        else:
            run = _continued_run(stack, options)
        return asyncio.run(_one_call(run, name, arguments, "text"))


def _continued_run(stack: ExitStack, options: Options) -> Run:
    """Calls evaluated in one workspace share a session; two at the same time use two."""
    runtime = start(options)
    path, last = runtime.config.memory.path, None
    if Store.exists(path):
        store = Store.open(path, in_files=runtime.config.memory.backend == "file")
        last = runs.last_manual_conversation(store, runtime.loaded.workspace)
        store.close()
    if last is not None:
        with suppress(SessionInUse):
            again = Resume(last, go_on=False)
            return stack.enter_context(open_run(runtime, OperatorAtWork(), kind="tool", again=again))
        runtime = start(options)
    return stack.enter_context(open_run(runtime, OperatorAtWork(), kind="tool"))


# ------------------------------------------------------------------ by hand


def _call_by_hand(options: Options, name: str, arguments: dict[str, Any], output_format: str) -> int:
    with open_run(start(options), OperatorAtWork(), kind="tool") as run:
        return asyncio.run(_one_call(run, name, arguments, output_format))


async def _one_call(run: Run, name: str, arguments: dict[str, Any], output_format: str) -> int:
    session = run.session
    call = ToolCall(session.ids("call"), name, arguments)
    done: list[FinishedCall] = []

    async def live() -> TurnResult:
        with session.store.write() as cursor:
            content = [{"type": "text", "text": f"by hand: {name}"}]
            entry = {"uuid": session.ids("entry"), "content": content}
            sequence = transcript.append(cursor, session.session_id, "user", entry)
            transcript.open_turn(cursor, session.session_id, sequence, session.ids("turn"))
        done.append(await run_call(session, call))
        outcome = "denied" if done[0].denied else "error" if done[0].result.is_error else "completed"
        return TurnResult(outcome, done[0].result.content, done[0].result.content if outcome != "completed" else "")

    def show(report: Report) -> None:
        _print_done(done, report.result, output_format)

    return (await drive(run, until_signal(run, live()), show=show)).exit_code


def _print_done(done: list[FinishedCall], result: TurnResult, output_format: str) -> None:
    if output_format == "json":
        receipt = done[0].result.receipt_id if done else None
        body = {"outcome": result.outcome, "content": result.answer, "is_error": result.outcome != "completed"}
        print_json({**body, "receipt_id": receipt})
    elif result.outcome == "completed":
        print(visible(result.answer))
    else:
        print(f"adderclaw: {result.outcome}: {visible(result.reason)}", file=sys.stderr)


# ------------------------------------------------------------------ explain


def _scene(config: str | None, workspace: str | None, profile: str | None) -> ToolEnvironment:
    here = judging.judging_environment(_read_options(config, workspace, profile), at_terminal=Terminal().at_terminal)
    for warning in here.policy.rules.warnings:
        print(f"warning: {visible(warning)}", file=sys.stderr)
    return here


def _read_options(config: str | None, workspace: str | None, profile: str | None) -> Options:
    return Options(config_file=config, workspace=workspace, profile=profile, log_level="warning", here=True, looks=True)


async def _explained_with_hooks(
    config: str | None, workspace: str | None, profile: str | None, name: str, arguments: dict[str, Any]
) -> dict[str, Any]:
    """The verdict after the PreToolUse hooks, which really run; a call that they rewrite is judged as rewritten."""
    from adderclaw.policy.case import Opinion
    from adderclaw.terminal.commands.hooks import call_hooks

    options = _read_options(config, workspace, profile)
    here = judging.judging_environment(options, at_terminal=Terminal().at_terminal)
    match = find_tool(here.tools, name)
    if match is None:
        return dict(judging.explain_call(here, name, arguments))
    tool_input = resolve_arguments(match[1], arguments)
    fields = {"tool_name": match[0].name, "tool_input": tool_input, "tool_use_id": "explain"}
    merged, _ = await call_hooks(start_reading(options), "PreToolUse", fields)
    opinion = Opinion("hook", "deny" if merged.blocked else merged.verdict, merged.reason or merged.verdict_reason)
    call = ToolCall("explain", name, arguments if merged.updated_input is None else merged.updated_input)
    return {**prepare_and_judge(here, call, opinion).decision.as_json(), "tool": name}


def _explain_batch(here: ToolEnvironment) -> None:
    """Prints one verdict per line. An invalid line gets one too, so that the numbers of lines match."""
    for number, line in enumerate(sys.stdin.buffer, 1):
        if not line.strip():
            continue
        try:
            request = json_object(_require_utf8(line, f"line {number}"), f"line {number}")
            name, arguments = _tool_and_input(request, f"line {number}")
            verdict = judging.explain_call(here, name, arguments)
        except UsageError as error:
            verdict = {**Decision("deny", "high", str(error), "input", ()).as_json()}
        print_json(verdict)
        sys.stdout.flush()


def _require_utf8(line: bytes, where: str) -> str:
    """Decodes a line as UTF-8 whatever the locale is, with or without a byte order mark."""
    try:
        return line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{where}: byte {error.start} is not UTF-8") from error


def _tool_and_input(request: dict[str, Any], where: str) -> tuple[str, dict[str, Any]]:
    name, arguments = request.get("tool"), request.get("input", {})
    if not isinstance(name, str) or not isinstance(arguments, dict) or request.keys() - {"tool", "input"}:
        raise UsageError(f'{where}: expected {{"tool": NAME, "input": {{…}}}} and nothing else')
    return name, arguments  # pyright: ignore[reportUnknownVariableType]
