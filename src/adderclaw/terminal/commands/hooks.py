"""`adderclaw hooks`: lists the configured hooks, and runs those of an event by hand."""

import asyncio
import sys
from typing import Annotated

import typer

from adderclaw.agent.queries import parts
from adderclaw.agent.run import Options, Runtime, configured_hooks, start_reading, tool_environment
from adderclaw.agent.tool_call import session_hooks
from adderclaw.config.foreign.hooks import EVENTS, NEWER
from adderclaw.core.decode import unknown_key_hint
from adderclaw.core.errors import EXIT_CODES, UsageError
from adderclaw.core.host import HookOutcome
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json
from adderclaw.storage.hooks import Invocation
from adderclaw.terminal.commands.common import ConfigFile, OutputFormat, WorkspaceDir, group, json_object
from adderclaw.terminal.output import print_json
from adderclaw.tools.hooks import catalogue, matching, plane, settings

app = group("List hooks, and try them.")


@app.command("list")
def list_hooks(
    event: Annotated[str | None, typer.Option("--event", help="Only the hooks of this event.")] = None,
    config: ConfigFile = None,
    workspace: WorkspaceDir = None,
    output_format: OutputFormat = "text",
) -> None:
    """List the configured hooks in the order in which they run, with where each comes from and whether it runs.

    Example: adderclaw hooks list
    """
    if event is not None:
        _require_event(event)
    hooks = parts.found_hooks(Options(config_file=config, workspace=workspace), event)
    if output_format == "json":
        print_json([parts.hook(hook) for hook in hooks])
        return
    for hook in hooks:
        words = (
            f"{hook.ordinal:>3}  {hook.event:<18} {hook.matcher or '*':<16} {parts.state_of(hook):<11}",
            hook.command,
        )
        whose = f"plugin {hook.plugin.name}, {hook.source}" if hook.plugin is not None else hook.source
        print(visible(f"{' '.join(words)}  ({whose})", keep_newlines=False))
        if why := matching.never_matches_reason(hook.event, hook.matcher):
            print(f"adderclaw: hook {hook.ordinal} never runs: {visible(why, keep_newlines=False)}", file=sys.stderr)
    if not hooks:
        print("no hooks are configured")


@app.command("test")
def try_hooks(
    event: Annotated[str, typer.Argument(help="A hook event, such as PreToolUse.")],
    arguments: Annotated[str, typer.Option("--json", metavar="ARGS", help="The event's own fields.")] = "{}",
    config: ConfigFile = None,
    workspace: WorkspaceDir = None,
    output_format: OutputFormat = "text",
) -> None:
    """Run an event's hooks by hand and show their merged result. The hooks really run; nothing else does.

    Exits with 3 if they block or deny.

    Example: adderclaw hooks test Stop --json '{"stop_hook_active": false}'
    """
    _require_event(event)
    fields = json_object(arguments, "--json")
    spec = catalogue.EVENTS[event].fields
    wrong = catalogue.field_problems(spec, fields)
    wrong += [f"{name} is not a field of {event}" for name in catalogue.unknown_fields(spec, fields)]
    if wrong:
        raise UsageError(f"--json: {'; '.join(wrong)}; {event} takes: {', '.join(spec) or 'nothing'} (? = optional)")
    runtime = _start_reading(config, workspace)
    merged, rows = asyncio.run(call_hooks(runtime, event, fields))
    if output_format == "json":
        invocations = [{**row._asdict(), "input_json": None} for row in rows]
        print_json({"event": event, "invocations": invocations, "merged": dict(vars(merged))})
    else:
        _show(merged, rows)
    if merged.blocked or merged.verdict == "deny":
        raise typer.Exit(EXIT_CODES["denied"])


async def call_hooks(runtime: Runtime, event: str, fields: Json) -> tuple[HookOutcome, list[Invocation]]:
    """Runs the configured hooks for an event that the operator describes."""
    rows: list[Invocation] = []

    def warn(message: str) -> None:
        print(f"adderclaw: {visible(message, keep_newlines=False)}", file=sys.stderr)

    hooks = configured_hooks.read(runtime)
    settings.require_shells(hooks, configured_hooks.roots(runtime))
    chain = settings.hooks_by_event(hooks).get(event, ())
    environment = session_hooks.manual_place(
        tool_environment(runtime, None), runtime.config.memory.path, rows.append, warn
    )
    return await plane.run_hooks(chain, event, fields, environment), rows


def _start_reading(config: str | None, workspace: str | None) -> Runtime:
    return start_reading(Options(config_file=config, workspace=workspace, log_level="warning", here=True, looks=True))


def _require_event(event: str) -> None:
    if event not in catalogue.EVENTS:
        raise UsageError(f"there is no hook event {event!r}{unknown_key_hint(event, [*EVENTS, *NEWER])}")


def _show(merged: HookOutcome, rows: list[Invocation]) -> None:
    for row in rows:
        end = f"skipped: {row.skipped_reason}" if row.skipped_reason else f"exit {row.exit_code}"
        print(visible(f"[{row.hook_ordinal}] {row.command}  {end}", keep_newlines=False))
        for name, text in (("stdout", row.stdout_text), ("stderr", row.stderr_text)):
            if text:
                print(f"    {name}: {visible(text.strip(), keep_newlines=False)[:500]}")
    if not rows:
        print("no hook matches")
    effects = {name: value for name, value in vars(merged).items() if value not in (None, False, "", (), {}, 0)}
    print(
        "merged: "
        + (", ".join(f"{name} = {visible(str(value), keep_newlines=False)}" for name, value in effects.items()))
    )
