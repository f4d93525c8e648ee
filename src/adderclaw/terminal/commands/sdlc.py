"""`adderclaw sdlc`: takes a conversation from plan to proof."""

import asyncio
import sys
from typing import Annotated

import typer

from adderclaw.config.legacy.options import Options
from adderclaw.core.errors import NeedsInput, UsageError
from adderclaw.core.redaction import Secrets, visible
from adderclaw.core.types import PHASES, Json
from adderclaw.flows.sdlc import conversation_phase, coverage
from adderclaw.flows.sdlc.conversation_phase import Ask, Desk, Seen
from adderclaw.storage.sdlc import phases
from adderclaw.terminal.commands import sdlc_proof
from adderclaw.terminal.commands.common import ConfigFile, OutputFormat, WorkspaceDir, group
from adderclaw.terminal.operators import terminal_question
from adderclaw.terminal.output import print_json
from adderclaw.terminal.sdlc_status import status_lines

app = group("Take a conversation from plan to proof: its phase, its plan, its report.")

clean = Secrets().clean


def _phases(incomplete: str) -> list[str]:
    return [phase for phase in PHASES if phase.startswith(incomplete)]


Conversation = Annotated[
    str | None,
    typer.Option("--conversation", metavar="ID", help="Its id or a prefix of it; default: the last one here."),
]
PhaseName = Annotated[str, typer.Argument(metavar="PHASE", help=", ".join(PHASES), autocompletion=_phases)]


@app.command()
def status(
    conversation: Conversation = None,
    workspace: WorkspaceDir = None,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Show the phase, the plan with its success criteria, and what blocks the next phase.

    Example: adderclaw sdlc status
    """
    with conversation_phase.opened(config, workspace, "cli", looks=True) as desk:
        report = conversation_phase.phase_overview(desk, conversation_phase.conversation(desk, conversation))
    if output_format == "json":
        print_json(clean(report))
        return
    for line in status_lines(report):
        print(clean(line))


@app.command("plan")
def plan_command(
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="A plan in Markdown, `-` for stdin; default: show the plans.")
    ] = None,
    new: Annotated[bool, typer.Option("--new", help="Use a new conversation instead of the last one here.")] = False,
    conversation: Conversation = None,
    workspace: WorkspaceDir = None,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Draft a new version of the plan, or show its versions. Without a conversation here, a new one is started.

    Its success criteria are the list items of its section "Success criteria". Earlier approvals no longer count,
    nor do tests based on them; the conversation is then in the planning phase.

    Example: adderclaw sdlc plan plan.md --new
    """
    if new and (conversation is not None or file is None):
        raise UsageError("--new starts a conversation with a plan: give FILE, and omit --conversation")
    if file is None:
        with conversation_phase.opened(config, workspace, "cli", looks=True) as desk:
            plans = conversation_phase.listed(desk, conversation_phase.conversation(desk, conversation))
        _show_plans(plans, as_json=output_format == "json")
        return
    text = _read(file)
    with conversation_phase.opened(config, workspace, "cli") as desk:
        chosen = (
            conversation_phase.conversation(desk, conversation)
            if conversation is not None
            else conversation_phase.last(desk)
        )
        report = conversation_phase.plan(desk, None if new else chosen, text)
    if output_format == "json":
        print_json(clean(report))
        return
    drafted = report["plan"]
    count = len(drafted["criteria"])
    print(f"plan {drafted['id']} (version {drafted['version']}) is a draft with {count} success criteria")
    print(f"conversation {report['conversation']}: approve it with `adderclaw sdlc approve` to start the work")
    if report["notice"]:
        print(f"note: {report['notice']}", file=sys.stderr)


def _show_plans(plans: list[Json], *, as_json: bool) -> None:
    if as_json:
        print_json([clean(plan) for plan in plans])
        return
    for plan in plans:
        print(clean(f"plan {plan['id']} (version {plan['version']}), {plan['status']}, of {plan['created_at']}Z:"))
        print(clean(visible(plan["content"])))
    if not plans:
        print("no plan yet")


def _read(file: str) -> str:
    try:
        if file == "-":
            return sys.stdin.buffer.read(4 * conversation_phase.MAX_PLAN + 1).decode()
        with open(file, "rb") as opened:
            return opened.read(4 * conversation_phase.MAX_PLAN + 1).decode()
    except OSError as error:
        raise UsageError(f"the plan {file!r} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the plan {file!r} is not UTF-8 (byte {error.start}): save it as such") from error


@app.command()
def approve(
    yes: Annotated[bool, typer.Option("--yes", help="Approve without being asked, because you have read it.")] = False,
    new_baseline: Annotated[
        bool, typer.Option("--new-baseline", help="Prove a new version of the plan against the current workspace.")
    ] = False,
    conversation: Conversation = None,
    workspace: WorkspaceDir = None,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Approve the drafted plan; in verify, approve the report, which completes the plan.

    It is shown, and you are asked. Without a terminal, it is refused (exit code 5) unless --yes is given.

    Example: adderclaw sdlc approve
    """
    how = "cli, --yes" if yes else "cli"
    with conversation_phase.opened(config, workspace, "cli", how=how) as desk:
        chosen = conversation_phase.conversation(desk, conversation)
        seen = conversation_phase.waits(desk, chosen)
        if not yes:
            _ask(desk, chosen, seen)
        moved = conversation_phase.approve(desk, chosen, seen, new_baseline=new_baseline)
    _print_move(moved, as_json=output_format == "json")


def _ask(desk: Desk, chosen: str, seen: Seen) -> None:
    ask = terminal_question()
    if ask is None:
        fix = "run this at a terminal, or give --yes if you have read it"
        raise NeedsInput(f"the {seen.what} of {chosen} has to be approved by the operator: {fix}")
    for line in coverage.shown(desk, chosen, seen):
        print(clean(visible(line)), file=sys.stderr)
    answer = asyncio.run(_answer(ask, f"Approve this {seen.what}? [y/N] "))
    if answer not in ("y", "yes"):
        raise phases.TransitionRefused(f"the {seen.what} is not approved; nothing was changed")


async def _answer(ask: Ask, question: str) -> str:
    return (await ask(question) or "").strip().lower()


@app.command()
def transition(
    phase: PhaseName,
    conversation: Conversation = None,
    workspace: WorkspaceDir = None,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Move the conversation to a phase. Refused with a reason (exit code 3) if that is not its next phase.

    Example: adderclaw sdlc transition planning
    """
    change_phase(phase, conversation, workspace, config, as_json=output_format == "json")


def change_phase(
    phase: str, conversation: str | None, workspace: str | None, config: str | None, *, as_json: bool
) -> None:
    to = phases.phase_named(phase)
    with conversation_phase.opened(config, workspace, "cli") as desk:
        moved = conversation_phase.transition(desk, conversation_phase.conversation(desk, conversation), to)
    _print_move(moved, as_json=as_json)
    if to == "test":
        sdlc_proof.run_tests_on_entry(
            Options(config_file=config, workspace=workspace, here=True), moved["conversation"]
        )


def _print_move(moved: Json, *, as_json: bool) -> None:
    if as_json:
        print_json(clean(moved))
        return
    print(clean(f"conversation {moved['conversation']}: {visible(moved['from'])} → {moved['phase']}"))
    if moved["notice"]:
        print(clean(f"note: {moved['notice']}"), file=sys.stderr)


@app.command()
def history(
    conversation: Conversation = None,
    workspace: WorkspaceDir = None,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """List every phase change and every approval, with who made it.

    Example: adderclaw sdlc history
    """
    with conversation_phase.opened(config, workspace, "cli", looks=True) as desk:
        entries = conversation_phase.history(desk, conversation_phase.conversation(desk, conversation))
    if output_format == "json":
        print_json([clean(entry) for entry in entries])
        return
    for entry in entries:
        print(clean(visible(f"{entry['timestamp']}Z  {history_line(entry)}", keep_newlines=False)))
    if not entries:
        print("no phase changes yet")


def history_line(entry: Json) -> str:
    if entry["event"] == "phase_changed":
        return f"{entry['from']} → {entry['to']}  by {entry.get('by', 'unknown')}: {entry['why']}"
    what = str(entry["event"]).replace("_", " ")
    return f"{what}: plan {entry.get('plan')}  by {entry.get('by', 'unknown')}"


app.command("test")(sdlc_proof.run_tests)
app.command("report")(sdlc_proof.report)
