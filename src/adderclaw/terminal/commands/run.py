"""`adderclaw run`: works on a SPEC.md, a task in words or an Agentfile, unattended."""

import asyncio
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated

import typer
from typer.core import TyperCommand

from adderclaw import config as configuration
from adderclaw.agent.run import Options, Run, Runtime, open_run, resume_of_run, start
from adderclaw.agent.run.drive import Report, drive
from adderclaw.agent.run.driver import Driver, Opening
from adderclaw.agent.run.signals import until_signal
from adderclaw.agent.tool_call.approvals import NoOperator
from adderclaw.config.legacy.options import overrides
from adderclaw.core.errors import AlreadyCompleted, UsageError
from adderclaw.core.questions import Operator
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json, Thinking
from adderclaw.flows.agentfile import driver
from adderclaw.flows.agentfile.load import MAX_VALUE, read_text
from adderclaw.flows.agentfile.parse import MAX_BYTES, STATEMENTS
from adderclaw.flows.resume import resume_driver
from adderclaw.flows.task.driver import TaskDriver
from adderclaw.terminal.commands.common import (
    ConfigFile,
    EffortGiven,
    LimitsGiven,
    ProviderName,
    StreamOutput,
    WorkspaceDir,
)
from adderclaw.terminal.commands.plain import ProfileName, key_chooser
from adderclaw.terminal.limit_options import limits
from adderclaw.terminal.one_shot import print_event, show_outcome
from adderclaw.terminal.operators import Terminal
from adderclaw.terminal.output import StreamFormat, print_json

app = typer.Typer(add_completion=False, rich_markup_mode=None)

Target = Annotated[
    str | None,
    typer.Argument(
        metavar="[TARGET]", help="A task in quotes, an Agentfile or a SPEC.md; default: the workspace's SPEC.md."
    ),
]
TaskText = Annotated[str | None, typer.Option("--task", metavar="TEXT", help="Run this task.")]
AgentfilePath = Annotated[str | None, typer.Option("--agentfile", metavar="FILE", help="Run this Agentfile.")]
SpecPath = Annotated[str | None, typer.Option("--spec", metavar="FILE", help="Run this specification.")]
MaxIterations = Annotated[
    int | None,
    typer.Option("--max-iterations", "-n", min=1, metavar="N", help="At most N coding sessions for a specification."),
]
SkillsDir = Annotated[
    str | None, typer.Option("--skills-dir", metavar="DIR", help="Folder of skills; default: skills.dir.")
]
MaxTurns = Annotated[
    int | None,
    typer.Option(
        "--max-turns", min=0, metavar="N", help="At most N decisions in a task run (without skills: replies)."
    ),
]
InputsGiven = Annotated[
    list[str] | None, typer.Option("--input", "-i", metavar="NAME=VALUE", help="An input of the workflow.")
]
InputFiles = Annotated[
    list[str] | None,
    typer.Option("--input-file", metavar="NAME=FILE", help="An input of the workflow, read from a file."),
]
ResumedRun = Annotated[
    str | None,
    typer.Option("--resume", metavar="RUN_ID", help="Resume a task, a workflow or a message that did not finish."),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run/--no-dry-run", help="[true|false] Show the plan and the prompts without calling a model."),
]
DebugLlm = Annotated[
    bool | None,
    typer.Option("--debug-llm/--no-debug-llm", help="[true|false] Store full prompts and answers in the run folder."),
]
RunProfile = Annotated[
    ProfileName | None, typer.Option("--profile", help="What may happen without asking; default: runtime.profile.")
]
RunModel = Annotated[str | None, typer.Option("--model", "-m", metavar="MODEL", help="Another model of that provider.")]

WaitForQuota = Annotated[
    bool, typer.Option("--wait-for-quota", help="Wait until an exhausted quota resets, if the provider says when.")
]

ReportFile = Annotated[
    str | None,
    typer.Option("--report", metavar="FILE", help="Write an HTML report of what was checked of a specification."),
]

BranchName = Annotated[
    str | None, typer.Option("--branch", metavar="NAME", help="Work on a new branch; uncommitted changes stay.")
]
WorktreeName = Annotated[
    str | None, typer.Option("--worktree", metavar="NAME", help="Work in a new git worktree of HEAD, .worktrees/NAME.")
]

Detached = Annotated[
    bool, typer.Option("--detach", help="Let the server of this home (`adderclaw serve`) run it, and print its id.")
]

SWITCHES = ("--dry-run", "--debug-llm")
"""Flags that take an optional `true` or `false`."""


SPEC_NAME = re.compile(r"(^|[._-])spec\.md$", re.IGNORECASE)
STATEMENT = re.compile(rf"(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]*(?:{'|'.join(STATEMENTS)})\b[ \t]*(?:[A-Za-z][\w-]*|\n|$)")
"""Matches the first line of a workflow, after blank lines and comments."""


class Switched(TyperCommand):
    """A command some of whose flags take an optional `true` or `false`."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().parse_args(ctx, normalize_switches(args))


def normalize_switches(args: list[str]) -> list[str]:
    """Turns `--dry-run false` and `--dry-run=false` into `--no-dry-run`; words after `--` stay as they are."""
    words: list[str] = []
    waiting = list(args)
    while waiting:
        word = waiting.pop(0)
        if word == "--":
            return [*words, word, *waiting]
        name, equals, value = word.partition("=")
        if name not in SWITCHES:
            words.append(word)
            continue
        if not equals:
            value = waiting.pop(0) if waiting and waiting[0] in ("true", "false") else "true"
        if value not in ("true", "false"):
            raise UsageError(f"{word}: expected true or false")
        words.append(name if value == "true" else name.replace("--", "--no-", 1))
    return words


@app.command(cls=Switched)
def run(
    target: Target = None,
    task: TaskText = None,
    agentfile: AgentfilePath = None,
    spec: SpecPath = None,
    max_iterations: MaxIterations = None,
    skills_dir: SkillsDir = None,
    max_turns: MaxTurns = None,
    input_values: InputsGiven = None,
    files: InputFiles = None,
    resume: ResumedRun = None,
    dry_run: DryRun = False,
    debug_llm: DebugLlm = None,
    profile: RunProfile = None,
    provider: ProviderName = None,
    model: RunModel = None,
    effort: EffortGiven = None,
    workspace: WorkspaceDir = None,
    config: ConfigFile = None,
    limit: LimitsGiven = None,
    wait_for_quota: WaitForQuota = False,
    report: ReportFile = None,
    branch: BranchName = None,
    worktree: WorktreeName = None,
    detach: Detached = False,
    output_format: StreamOutput = "text",
) -> None:
    """Run a specification, a task or a workflow unattended. The answer goes to stdout, everything else to stderr.

    Example: adderclaw run "Summarise the notes in docs/" --skills-dir ./skills
    """
    allowed = limits(limit)
    most = int(allowed.pop("rounds")) if "rounds" in allowed else None
    options = Options(
        config_file=config,
        workspace=workspace,
        provider=provider,
        model=model,
        thinking=Thinking(effort),
        profile=profile,
        headless=True,
        asks="no" if dry_run else "must",
        choose=key_chooser(config),
        here=True,
        overrides=overrides(skills_dir, max_turns, debug_llm, allowed, wait_for_quota=wait_for_quota),
    )
    if sum(target_option is not None for target_option in (target, task, agentfile, spec, resume)) > 1:
        raise UsageError("TARGET, --task, --agentfile, --spec and --resume each say what to run: use only one")
    spec, target = (target, None) if target is not None and _is_specification(target) else (spec, target)
    if branch is not None or worktree is not None:
        _check_own_tree(branch, worktree, begins=resume is None and not dry_run)
    inputs = parse_inputs(input_values or [], files or [])

    def make(options: Options, spec: str | None) -> Driver:
        if resume is None and target is None and task is None and agentfile is None:
            return _specification_driver(options, spec, max_iterations)
        return _task_driver(options, target, task, agentfile, resume, inputs, most)

    try:
        task_driver = make(options, spec)
    except AlreadyCompleted as ended:
        print_completed(ended, output_format)
        return
    kind = task_driver.opening.kind
    _check_specification_options(kind, max_iterations, report)
    _check_kind_options(
        kind, inputs, of_task=skills_dir is not None or max_turns is not None, has_rounds=most is not None
    )
    if detach:
        unfit = {"config": config, "dry-run": dry_run, "debug-llm": debug_llm, "wait-for-quota": wait_for_quota}
        _require_none({**unfit, "effort": effort, "report": report, "branch": branch, "worktree": worktree})
        settings = {
            "profile": profile,
            "provider": provider,
            "model": model,
            "skills_dir": skills_dir,
            "inputs": inputs,
        }
        settings |= {"max_turns": max_turns, "max_iterations": max_iterations, "limits": allowed, "rounds": most}
        hand_to_server(run_request(task_driver, agentfile or target, resume, settings), output_format)
        return
    if dry_run:
        if (planned := _plan_only(task_driver, output_format)) is None:
            return
        task_driver = planned
    _execute_and_exit(*_in_own_tree(task_driver, make, branch, worktree), output_format, report)


def _execute_and_exit(task_driver: Driver, where: str, output_format: StreamOutput, report: str | None) -> None:
    """Executes the driver, says where the work is if not in this folder, and exits with the outcome's code."""
    code = execute_driver(task_driver, output_format, report)
    if where:
        print(f"adderclaw: {visible(where)}", file=sys.stderr)
    raise typer.Exit(code)


def _require_none(unfit: Mapping[str, object]) -> None:
    """Refuses options that do not apply to a server: it has its own configuration, and nobody waits for the end."""
    if names := [f"--{name}" for name, value in unfit.items() if value]:
        raise UsageError(f"--detach lets the server of this home run it: omit {', '.join(names)}")


def _check_specification_options(kind: str, max_iterations: int | None, report: str | None) -> None:
    """Refuses options that only a specification has."""
    if kind != "spec" and max_iterations is not None:
        raise UsageError("--max-iterations is only for a specification; a task has --max-turns, a LOOP has WITHIN")
    if kind != "spec" and report is not None:
        raise UsageError("--report is only for a specification: it lists the checked scenarios")


def _check_kind_options(kind: str, inputs: dict[str, str], *, of_task: bool, has_rounds: bool) -> None:
    """Refuses options that another kind of run has."""
    if kind not in ("agentfile", "sop") and inputs:
        raise UsageError(f"--input is only for an Agentfile or a SOP: write the value into the {kind}")
    if kind != "task" and of_task:
        raise UsageError("--skills-dir and --max-turns are only for a task")
    if kind != "agentfile" and has_rounds:
        fix = "a task has --max-turns, a specification --max-iterations"
        raise UsageError(f"--limit rounds is only for the LOOPs of an Agentfile; {fix}")


def print_completed(ended: AlreadyCompleted, output_format: StreamFormat) -> None:
    """Prints what a run answered that was to be resumed but has completed."""
    if output_format == "text":
        print(visible(ended.answer))
        print(f"adderclaw: {ended}; this is its answer", file=sys.stderr)
    else:
        print_json({**({"type": "result"} if output_format == "stream-json" else {}), **ended.as_json()})


def _plan_only(task_driver: Driver, output_format: StreamFormat) -> Driver | None:
    """Returns the driver of a planning run; if planning needs no run, prints the plan and returns None."""
    planned = task_driver.dry()
    if planned is None:
        if output_format == "text":
            print(visible(task_driver.plan_text()))
        else:
            print_json(task_driver.plan())
    elif task_driver.opening.again is not None:
        raise UsageError("--dry-run plans a new run: omit --resume")
    return planned


def _task_driver(
    options: Options,
    target: str | None,
    task: str | None,
    agentfile: str | None,
    resume: str | None,
    inputs: dict[str, str],
    rounds: int | None,
) -> Driver:
    if resume is not None:
        if inputs:
            raise UsageError("--resume continues with the inputs of the run: omit --input and --input-file")
        return resume_driver(options, resume, rounds)
    if target is not None:
        if _is_sop(target):
            raise UsageError(f"{target} is a SOP: run it with `adderclaw sop run {target}`")
        if os.path.exists(target):
            agentfile = target
        elif any(letter.isspace() for letter in target.strip()):
            task = target
        else:
            fix = f"name an existing file, or use `--task {target}` if that is the task"
            raise UsageError(f"there is no file {target!r}; {fix}")
    if agentfile is not None:
        return driver.prepare(options, agentfile, inputs, rounds)
    assert task is not None
    return TaskDriver(options, task)


def _is_specification(target: str) -> bool:
    """Whether it is a specification, by its name and its text. Raises UsageError if name and text disagree.

    Folders and files that are not Markdown are left to the workflow loader.
    """
    if not target.lower().endswith(".md") or not os.path.isfile(target):
        return False
    named = SPEC_NAME.search(os.path.basename(target)) is not None
    workflow = STATEMENT.match(read_text(target, MAX_BYTES)) is not None
    if named != workflow:
        return named
    fix = f"`--spec {target}` runs it as a specification, `--agentfile {target}` as a workflow"
    if named:
        raise UsageError(f"{target} is named like a specification but begins like a workflow: {fix}")
    why = "it is not named SPEC.md (or …-spec.md), and it does not begin with a statement such as NAME or GOAL"
    raise UsageError(f"{target} is neither a specification nor a workflow: {why}; {fix}")


def _is_sop(target: str) -> bool:
    """Whether it is a SOP.toml, or a folder with a SOP.toml and no Agentfile."""
    if os.path.basename(target) == "SOP.toml":
        return os.path.isfile(target)
    own = os.path.isfile(os.path.join(target, "SOP.toml"))
    return own and not os.path.exists(os.path.join(target, "Agentfile"))


def _check_own_tree(branch: str | None, worktree: str | None, *, begins: bool) -> None:
    """Refuses --branch and --worktree where they cannot apply."""
    if branch is not None and worktree is not None:
        raise UsageError("--branch and --worktree each say where to work: use only one")
    if not begins:
        raise UsageError("--branch and --worktree are only for a new run; a resumed run continues where it was")


def _in_own_tree(
    task_driver: Driver, make: Callable[[Options, str | None], Driver], branch: str | None, worktree: str | None
) -> tuple[Driver, str]:
    """The driver on its own branch or worktree, and a sentence saying where the work is; unchanged without either."""
    if branch is None and worktree is None:
        return task_driver, ""
    from adderclaw.agent.run import worktree_run

    opening = task_driver.opening
    if branch is not None:
        worktree_run.on_branch(opening.options, branch)
        return task_driver, f"the work is on the branch {branch}"
    assert worktree is not None
    spec = opening.task if opening.kind == "spec" else None
    path = worktree_run.in_worktree(opening.options, worktree, spec)
    there = make(replace(opening.options, workspace=path), os.path.join(path, spec) if spec is not None else None)
    return there, worktree_run.fetch_hint(path)


def _specification_driver(options: Options, spec: str | None, most: int | None) -> Driver:
    from adderclaw.flows.spec import driver as specification

    path = spec if spec is not None else specification.find(options)
    if path is None:
        what = 'a task in quotes (`adderclaw run "Say what is in a.txt"`) or an Agentfile (`adderclaw run Agentfile`)'
        raise UsageError(f"nothing to run: there is no {specification.NAME} here. Write one, or name {what}")
    return specification.prepare(options, path, most)


def parse_inputs(values: list[str], files: list[str]) -> dict[str, str]:
    """Parses `--input name=value` and `--input-file name=path`, each name once. A value is never read as
    a path: it may be untrusted text."""
    inputs: dict[str, str] = {}
    items = [("--input", "VALUE", item) for item in values] + [("--input-file", "FILE", item) for item in files]
    for option, kind, item in items:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise UsageError(f"{option} {item[:100]!r}: expected NAME={kind}")
        if name in inputs:
            raise UsageError(f"{option} {name}: given twice")
        inputs[name] = read_text(value, MAX_VALUE, f"{option} {name}: ") if option == "--input-file" else value
    return inputs


# ------------------------------------------------------------------ on the server


def run_request(driver: Driver, agentfile: str | None, resume: str | None, more: Json) -> Json:
    """The request to the server: the same run, with absolute paths."""
    opening = driver.opening
    folder = configuration.load(workspace=opening.options.workspace, here=True).workspace
    body: Json = {"workspace": folder, **more}
    if body["skills_dir"] is not None:
        body["skills_dir"] = os.path.abspath(os.path.expanduser(body["skills_dir"]))
    if resume is not None:
        body["resume"] = resume
    elif opening.kind == "agentfile":
        body["agentfile"] = os.path.abspath(str(agentfile))
    elif opening.kind == "sop":
        body["sop"] = os.path.abspath(str(agentfile)) if "/" in str(agentfile) else agentfile
    else:
        body[opening.kind] = opening.task
    return {name: value for name, value in body.items() if value not in (None, {})}


def hand_to_server(body: Json, output_format: str) -> None:
    """Hands the run to the server and prints its id."""
    from adderclaw.terminal.legacy.attach.link import Link

    async def handed_over() -> tuple[Json, str]:
        link = Link(None, "run --detach")
        await link.connect()
        try:
            return await link.post("/runs", body), link.address
        finally:
            await link.close()

    row, address = asyncio.run(handed_over())
    if output_format != "text":
        print_json({"run_id": row["run_id"], "conversation_id": row["conversation_id"], "address": address})
        return
    print(visible(str(row["run_id"])))
    print(f"adderclaw: it runs in the server at {visible(address)}; `adderclaw runs show` shows it", file=sys.stderr)


# ------------------------------------------------------------------ execution


def execute_driver(task_driver: Driver, output_format: StreamFormat, page: str | None = None) -> int:
    """Runs a driver, prints the outcome and returns its exit code. `page`: the file for an HTML report."""
    opening = task_driver.opening
    watched = opening.kind == "task" and sys.stderr.isatty() and not os.environ.get("ADDERCLAW_LOG")
    runtime = start(replace(opening.options, live=watched))
    again = resume_of_run(runtime, opening.again) if opening.again is not None else None
    if output_format == "stream-json":
        runtime.bus.add_sink("stream", print_event)
    who = _operator(runtime)
    with open_run(
        runtime, who, kind=opening.kind, channel="run", again=again, task=opening.task, more=opening.rows
    ) as run:
        return asyncio.run(_drive(run, task_driver, output_format, page))


def _operator(runtime: Runtime) -> Operator:
    """The person at the terminal, if there is one."""
    if sys.stdin is not None and sys.stdin.isatty():
        return Terminal()
    return NoOperator(waits=runtime.config.security.approval_timeout_seconds > 0)


async def _drive(run: Run, task_driver: Driver, output_format: StreamFormat, page: str | None) -> int:
    opening = task_driver.opening

    def show(report: Report) -> None:
        _show(report, opening, output_format)
        if page is not None:
            _write_page(report, page)

    work = until_signal(run, task_driver.run(run.session), mode=opening.mode)
    return (await drive(run, work, mode=opening.mode, resume=opening.resume(run.run_id), show=show)).exit_code


def _write_page(report: Report, path: str) -> None:
    from adderclaw.agent.view.rows import Rows
    from adderclaw.flows.spec import report as pages

    run, result = report.run, report.result
    session, root = run.session, run.session.environment.context.workspace.root
    summary = f"{result.outcome}: {result.answer} {result.reason}".strip()
    rows = Rows(session.store, session.secrets.redact_all, root)
    html = pages.report(session.store, rows, run.run_id, run.runtime.runs_folder / run.run_id, summary)
    print(f"adderclaw: the report is in {visible(pages.write(html, path, root))}", file=sys.stderr)


def _show(report: Report, opening: Opening, output_format: StreamFormat) -> None:
    result, resume = report.result, opening.resume(report.run.run_id)
    if output_format == "text" and result.answer:
        print(visible(result.answer))
    show_outcome(report, output_format)
    if result.outcome == "stopped" and resume:
        print(f"adderclaw: continue with `adderclaw {resume}`", file=sys.stderr)
    elif result.outcome in ("stopped", "limit") and opening.kind == "spec":
        print("adderclaw: `adderclaw run` continues with the rest", file=sys.stderr)
