"""`adderclaw sdlc test` and `sdlc report`: runs the tests of a plan and reports the results."""

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from adderclaw.config.legacy.options import Options, overrides
from adderclaw.core.errors import UsageError
from adderclaw.core.redaction import Secrets, visible
from adderclaw.flows.sdlc import conversation_phase, coverage
from adderclaw.flows.sdlc.coverage import Form
from adderclaw.terminal.commands.common import (
    ConfigFile,
    LimitsGiven,
    ModelName,
    ProviderName,
    StreamOutput,
    WorkspaceDir,
)
from adderclaw.terminal.commands.plain import key_chooser
from adderclaw.terminal.limit_options import limits
from adderclaw.terminal.one_shot import print_event, show_outcome
from adderclaw.terminal.output import StreamFormat, json_line

if TYPE_CHECKING:
    from adderclaw.agent.run.drive import Report
    from adderclaw.agent.session.session import TurnResult

Conversation = Annotated[
    str | None,
    typer.Option("--conversation", metavar="ID", help="Its id or a prefix of it; default: the last one here."),
]
Withdrawn = Annotated[
    int | None, typer.Option("--withdraw", metavar="N", help="First withdraw this test; another is generated.")
]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for the author of the next test.")]
ReportFormat = Annotated[
    Form, typer.Option("--output-format", help="text for a terminal, markdown, html: one page, json for programs.")
]

clean = Secrets().clean


def run_tests(
    conversation: Conversation = None,
    withdraw: Withdrawn = None,
    reason: Reason = "",
    provider: ProviderName = None,
    model: ModelName = None,
    workspace: WorkspaceDir = None,
    config: ConfigFile = None,
    limit: LimitsGiven = None,
    output_format: StreamOutput = "text",
) -> None:
    """Generate tests for criteria that have none, prove each, and run all of them on the current workspace.

    Exit code 0 only if every criterion is proved and every test passes. It can be repeated after a change, a
    failure or a kill.

    Example: adderclaw sdlc test
    """
    if reason and withdraw is None:
        raise UsageError("--reason needs --withdraw N: it says why the test is withdrawn")
    options = Options(
        config_file=config,
        workspace=workspace,
        provider=provider,
        model=model,
        choose=key_chooser(config),
        here=True,
        overrides=overrides(None, None, None, limits(limit)),
    )
    with conversation_phase.opened(config, workspace, "cli") as desk:
        chosen = conversation_phase.conversation(desk, conversation)
        if withdraw is not None:
            coverage.withdraw(desk, chosen, withdraw, reason)
    raise typer.Exit(prove_plan(options, chosen, output_format))


def prove_plan(options: Options, conversation_id: str, output_format: StreamFormat) -> int:
    """Runs the proof of a conversation's plan and prints the outcome."""
    from adderclaw.flows.sdlc.begin_proof import prove

    with conversation_phase.opened(options.config_file, options.workspace, "cli") as desk:
        proof = coverage.ready(desk, options, conversation_id)
    hear = ("stream", print_event) if output_format == "stream-json" else None
    return asyncio.run(prove(proof, hear=hear, show=lambda report: _show(report, output_format))).exit_code


def run_tests_on_entry(options: Options, conversation_id: str) -> None:
    """Generates and runs the tests of a conversation that entered `test`. It stays there whatever their outcome."""
    from adderclaw.flows.sdlc.begin_proof import prove

    with conversation_phase.opened(options.config_file, options.workspace, "cli") as desk:
        if not coverage.has_criteria(desk, conversation_id):
            return
        proof = coverage.ready(desk, options, conversation_id)
    try:
        asyncio.run(prove(proof, show=lambda report: _print_note(report.result)))
    except UsageError as error:  # for example, no model is configured: the phase is entered nevertheless
        print(f"note: no test was generated: {visible(str(error))}; then run `adderclaw sdlc test`", file=sys.stderr)


def _print_note(result: "TurnResult") -> None:
    reason = f": {result.reason}" if result.reason else ""
    print(visible(f"note: tests {result.outcome}: {result.answer}{reason}"), file=sys.stderr)


def _show(report: "Report", output_format: StreamFormat) -> None:
    if output_format == "text" and report.result.answer:
        print(visible(report.result.answer))
    show_outcome(report, output_format)


def report(
    conversation: Conversation = None,
    file: Annotated[str | None, typer.Option("--file", metavar="FILE", help="Write it there.")] = None,
    workspace: WorkspaceDir = None,
    config: ConfigFile = None,
    output_format: ReportFormat = "text",
) -> None:
    """Show which test proves which criterion, what each printed, what is uncovered, and the totals.

    Example: adderclaw sdlc report --output-format html --file report.html
    """
    with conversation_phase.opened(config, workspace, "cli", looks=True) as desk:
        chosen = conversation_phase.conversation(desk, conversation)
        coverage_report = coverage.coverage(desk, chosen)
    if output_format == "json":
        text = f"{json_line(clean(coverage_report.as_json()))}\n"
    else:
        text = clean(coverage.drawn(coverage_report, output_format))
    if file is None:
        sys.stdout.write(text)
        return
    try:
        with open(file, "w", encoding="utf-8") as opened:
            opened.write(text)
    except OSError as error:
        raise UsageError(f"the report cannot be written to {file!r}: {error.strerror}") from error
    with conversation_phase.opened(config, workspace, "cli") as desk:
        coverage.written(desk, chosen, file, text)
    print(f"report: {visible(file)}")
