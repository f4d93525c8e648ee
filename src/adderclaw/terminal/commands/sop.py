"""`adderclaw sop`: procedures of steps in a SOP.toml, run, stopped at their approvals, answered and gone on with."""

import sys
from typing import Annotated, NamedTuple

import typer

from adderclaw.agent import queries
from adderclaw.agent.conversation import questions
from adderclaw.agent.run.driver import Driver
from adderclaw.agent.tool_call.approvals import shown as whole
from adderclaw.config import load
from adderclaw.config.legacy.options import Options, overrides
from adderclaw.core.errors import Completed, InUse, UsageError
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json
from adderclaw.flows.queries import sops
from adderclaw.flows.queries.sops import SopState
from adderclaw.flows.resume import resumed
from adderclaw.flows.sop import driver, find, tool_check, waiting
from adderclaw.flows.sop.sop import InvalidSop
from adderclaw.storage import Store, runs
from adderclaw.terminal.commands.common import (
    ConfigFile,
    LimitsGiven,
    OutputFormat,
    ProviderName,
    StreamOutput,
    WorkspaceDir,
    group,
    print_result,
)
from adderclaw.terminal.commands.plain import key_chooser
from adderclaw.terminal.commands.run import (
    DebugLlm,
    Detached,
    InputFiles,
    InputsGiven,
    RunModel,
    RunProfile,
    WaitForQuota,
    execute_driver,
    hand_over,
    parse_inputs,
    print_completed,
)
from adderclaw.terminal.limit_options import limits
from adderclaw.terminal.output import StreamFormat, print_json

app = group("Procedures of steps: list, validate, run, show, resume and approve SOPs.")

SopName = Annotated[str, typer.Argument(metavar="SOP", help="Its name, as `sop list` has it, or the path of its file.")]
RunId = Annotated[str, typer.Argument(metavar="RUN_ID", help="The id of a run, or the beginning of it.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the steps; run nothing.")]
Comment = Annotated[str, typer.Option("--comment", metavar="TEXT", help="A word to go with the answer.")]


@app.command("list")
def list_sops(workspace: WorkspaceDir = None, config: ConfigFile = None, output_format: OutputFormat = "text") -> None:
    """List the SOPs of the workspace and your own, with what is wrong with them.

    Example: adderclaw sop list
    """
    rows = sops.listed(_read_options(config, workspace))
    if output_format == "json":
        print_json(rows)
        return
    for row in rows:
        what = f"{len(row['problems'])} problems" if row["problems"] else f"{len(row['steps'])} steps"
        hidden = ", hidden by the workspace's" if row["hidden"] else ""
        about = f"  {row['description']}" if row["description"] else ""
        print(visible(f"{row['name']:<20}  {row['scope']:<9}  {what}{hidden}{about}", keep_newlines=False))
    if not rows:
        folders = " or ".join(folder.text for _, folder in find.where(_read_options(config, workspace)).folders)
        print(visible(f"no SOPs: write one as NAME/SOP.toml in {folders}"))


@app.command()
def validate(
    names: Annotated[list[str] | None, typer.Argument(metavar="[SOP]…", help="Names or paths; none: all.")] = None,
    workspace: WorkspaceDir = None,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Check SOPs: every problem at once, with its step and line. Exit code 2 where there is one.

    Example: adderclaw sop validate daily-check
    """
    options = _read_options(config, workspace)
    folders, known = find.where(options), tool_check.known(options)
    sop_files = [find.find(name, folders) for name in names] if names else find.listed(folders)
    problems: dict[str, list[str]] = {}
    for sop_file in sop_files:
        problems[sop_file.file] = []
        try:
            find.load(sop_file, known)
        except InvalidSop as error:
            problems[sop_file.file] = [wrong.shown(sop_file.file) for wrong in error.problems]
    if output_format == "json":
        rows = [{"file": file, "valid": not wrong, "problems": wrong} for file, wrong in problems.items()]
        print_json(queries.clean(rows))
    else:
        for file, wrong in problems.items():
            for text in wrong:
                print(visible(text), file=sys.stderr)
            if not wrong:
                print(visible(f"{file}: valid", keep_newlines=False))
        if not problems:
            print("no SOPs")
    if any(problems.values()):
        raise typer.Exit(2)


@app.command()
def run(
    sop: SopName,
    input_values: InputsGiven = None,
    files: InputFiles = None,
    dry_run: DryRun = False,
    debug_llm: DebugLlm = None,
    profile: RunProfile = None,
    provider: ProviderName = None,
    model: RunModel = None,
    workspace: WorkspaceDir = None,
    config: ConfigFile = None,
    limit: LimitsGiven = None,
    wait_for_quota: WaitForQuota = False,
    detach: Detached = False,
    output_format: StreamOutput = "text",
) -> None:
    """Run a SOP. At an approval it asks, or where nobody is there ends with exit code 5: `sop approve` goes on.

    Example: adderclaw sop run daily-check
    """
    allowed = _limits(limit)
    over = overrides(None, None, debug_llm, allowed, wait_for_quota=wait_for_quota)
    options = _options(config, workspace, provider, model, profile, over)
    inputs = parse_inputs(input_values or [], files or [])
    task_driver = driver.prepare(options, sop, inputs)
    if dry_run:
        if output_format == "text":
            print(visible(task_driver.plan_text()))
        else:
            print_json(task_driver.plan())
        return
    if detach:
        settings = {"profile": profile, "provider": provider, "model": model, "inputs": inputs, "limits": allowed}
        hand_over(task_driver, sop, None, {**settings, "skills_dir": None}, output_format)
        return
    raise typer.Exit(execute_driver(task_driver, output_format))


@app.command()
def show(
    what: Annotated[str, typer.Argument(metavar="SOP|RUN_ID", help="A SOP, or a run of one.")],
    workspace: WorkspaceDir = None,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Show the steps of a SOP, or how far a run of it has come and what it waits for.

    Example: adderclaw sop show daily-check
    """
    options = _read_options(config, workspace)
    state = _run_state(options, what)
    if state is not None:
        print_result(state, _run_text(state), output_format)
        return
    sop_file = find.find(what, find.where(options))
    shown = sops.described(find.load(sop_file, tool_check.known(options)), sop_file)
    if output_format == "json":
        print_json(shown)
        return
    inputs = {
        declared["name"]: declared["default"] if not declared["required"] else "(required)"
        for declared in shown["inputs"]
    }
    print(visible(driver.plan_text({**shown, "sop": shown["name"], "inputs": inputs})))


@app.command()
def resume(
    run_id: RunId,
    profile: RunProfile = None,
    provider: ProviderName = None,
    model: RunModel = None,
    config: ConfigFile = None,
    limit: LimitsGiven = None,
    output_format: StreamOutput = "text",
) -> None:
    """Go on with a run that did not end: finished steps are not repeated, and what may have run is asked about.

    Example: adderclaw sop resume 20260512-140000-1f2e3d4c
    """
    options = _options(config, None, provider, model, profile, overrides(None, None, None, _limits(limit)))
    _continue_run(options, run_id, output_format)


@app.command()
def approve(
    run_id: RunId,
    deny: Annotated[bool, typer.Option("--deny", help="Say no: the run ends denied.")] = False,
    comment: Comment = "",
    plan: Annotated[str, typer.Option("--plan", help="Only if it is the question with this hash.")] = "",
    no_resume: Annotated[bool, typer.Option("--no-resume", help="Only answer; somebody else goes on.")] = False,
    config: ConfigFile = None,
    output_format: StreamOutput = "text",
) -> None:
    """Answer what a run waits for, and go on with it. The answer is signed, as that of `approvals answer` is.

    Example: adderclaw sop approve 20260512-140000-1f2e3d4c
    """
    options = _options(config, None, None, None, None, {})
    path, run = _waiting_run(options, run_id)
    for line in run.shown.split("\n"):
        print(f"  | {line}", file=sys.stderr)
    at_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    answered = questions.answered(
        path, run.question, "sop", approved=not deny, comment=comment, plan=plan, at_terminal=at_terminal
    )
    if no_resume and output_format == "text":
        print(f"{answered.id}: {answered.answer}")
    elif no_resume:
        print_json(questions.as_json(answered))
    if no_resume:
        return
    print(f"adderclaw: {answered.id}: {answered.answer}", file=sys.stderr)
    try:
        _continue_run(options, run.run_id, output_format)
    except InUse:
        print(f"adderclaw: run {run.run_id} goes on in another process", file=sys.stderr)


def _continue_run(options: Options, run_id: str, output_format: StreamFormat) -> None:
    try:
        task_driver: Driver = resumed(options, run_id)
    except Completed as ended:
        print_completed(ended, output_format)
        return
    if task_driver.opening.kind != "sop":
        raise UsageError(f"run {task_driver.opening.again} is none of a SOP: `adderclaw run --resume` goes on with it")
    raise typer.Exit(execute_driver(task_driver, output_format))


def _options(
    config: str | None,
    workspace: str | None,
    provider: str | None,
    model: str | None,
    profile: str | None,
    over: Json,
) -> Options:
    return Options(
        config_file=config,
        workspace=workspace,
        provider=provider,
        model=model,
        profile=profile,
        headless=True,
        asks="maybe",  # as for `agent`: the built-in provider answers where no other is chosen
        choose=key_chooser(config),
        overrides=over,
    )


def _limits(limit_options: list[str] | None) -> dict[str, float]:
    allowed = limits(limit_options)
    if "rounds" in allowed:
        raise UsageError("--limit rounds is for the LOOPs of an Agentfile; a SOP has none")
    return allowed


def _read_options(config: str | None, workspace: str | None) -> Options:
    return Options(config_file=config, workspace=workspace)


def _run_state(options: Options, run_id: str) -> SopState | None:
    """How far a run has come; None where there is no run of that id."""
    if find.is_path(run_id):
        return None
    path = load(config_file=options.config_file).config.memory.path
    if not Store.exists(path):
        return None
    store = Store.open(path, read_only=True)
    try:
        run = runs.get(store, run_id)
        return sops.of_run(store, run) if run is not None and run.kind == "sop" else None
    finally:
        store.close()


class _Waiting(NamedTuple):
    run_id: str
    question: str
    shown: str
    """What is answered, whole."""


def _waiting_run(options: Options, run_id: str) -> tuple[str, _Waiting]:
    """The database, and the question that a run waits with."""
    path = load(config_file=options.config_file).config.memory.path
    store = Store.open(path, read_only=True)
    try:
        run = runs.get(store, run_id)
        asked = waiting.question(store, run) if run is not None else None
    finally:
        store.close()
    if run is None or run.kind != "sop":
        raise UsageError(f"there is no run {run_id!r} of a SOP; `adderclaw runs list` lists them")
    if run.status not in waiting.WAITING or asked is None:
        raise UsageError(f"run {run.run_id} waits for no answer: it is {run.status}")
    if asked.answer is not None:
        raise UsageError(f"{asked.id} is answered already: {asked.answer}; `adderclaw sop resume {run.run_id}` goes on")
    seen = whole(asked)
    return path, _Waiting(run.run_id, asked.id, f"{seen.reason}\n{seen.text}")


def _run_text(state: SopState) -> str:
    """A run for a person: a line for each step, and what it waits for."""
    rows = [f"run {state['run_id']} of the SOP {state['sop']}: {state['status']}"]
    if state["reason"]:
        rows.append(f"  {state['reason']}")
    rows += [f"  input {name} = {value}" for name, value in state["inputs"].items()]
    for number, step in enumerate(state["steps"], 1):
        what = f"{step['kind']} {step['tool']}" if step.get("tool") else step["kind"]
        output = (step.get("error") or step.get("output") or "").strip().splitlines()
        more = f": {output[0][:200]}" + (" …" if len(output) > 1 else "") if output else ""
        rows.append(f"  {number}. {step['id']:<16} {what:<20} {step['status']}{more}")
    if (asked := state["question"]) is not None:
        answered = f" (answered: {asked['answer']})" if asked["answer"] else ""
        rows += ["", f"{asked['id']}{answered}: {asked['reason']}"]
        rows += [f"  | {line}" for line in asked["shown"].split("\n")]
        approve = f"`adderclaw sop approve {state['run_id']}` says yes and goes on; with --deny it says no"
        rows.append(f"`adderclaw sop resume {state['run_id']}` goes on with it" if asked["answer"] else approve)
    return "\n".join(rows)
