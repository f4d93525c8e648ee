"""`adderclaw sop`: runs procedures made of steps (SOP.toml), which stop at approvals and can be resumed."""

import sys
from typing import Annotated, NamedTuple

import typer

from adderclaw.agent import queries
from adderclaw.agent.conversation import questions
from adderclaw.agent.run.driver import Driver
from adderclaw.agent.tool_call.approvals import displayed_request as whole
from adderclaw.config import load
from adderclaw.config.legacy.options import Options, overrides
from adderclaw.core.errors import AlreadyCompleted, SessionInUse, UsageError
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json
from adderclaw.flows.queries import sops
from adderclaw.flows.queries.sops import SopState
from adderclaw.flows.resume import resume_driver
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
    hand_to_server,
    parse_inputs,
    print_completed,
    run_request,
)
from adderclaw.terminal.limit_options import limits
from adderclaw.terminal.output import StreamFormat, print_json

app = group("List, validate, run, show, resume and approve SOPs: procedures made of steps.")

SopName = Annotated[
    str, typer.Argument(metavar="SOP", help="Its name, as `sop list` shows it, or the path of its file.")
]
RunId = Annotated[str, typer.Argument(metavar="RUN_ID", help="The id of a run or a prefix of it.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the steps without running them.")]
Comment = Annotated[str, typer.Option("--comment", metavar="TEXT", help="A comment with the answer.")]


@app.command("list")
def list_sops(workspace: WorkspaceDir = None, config: ConfigFile = None, output_format: OutputFormat = "text") -> None:
    """List the SOPs of the workspace and your own, with their problems.

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
        folders = " or ".join(folder.text for _, folder in find.sop_folders(_read_options(config, workspace)).folders)
        print(visible(f"no SOPs. Write one as NAME/SOP.toml in {folders}"))


@app.command()
def validate(
    names: Annotated[list[str] | None, typer.Argument(metavar="[SOP]…", help="Names or paths; default: all.")] = None,
    workspace: WorkspaceDir = None,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Check SOPs and report every problem with its step and line. Exits with 2 if there is one.

    Example: adderclaw sop validate daily-check
    """
    options = _read_options(config, workspace)
    folders, known = find.sop_folders(options), tool_check.known_tools(options)
    sop_files = [find.find(name, folders) for name in names] if names else find.list_sops(folders)
    problems: dict[str, list[str]] = {}
    for sop_file in sop_files:
        problems[sop_file.file] = []
        try:
            find.load(sop_file, known)
        except InvalidSop as error:
            problems[sop_file.file] = [wrong.format(sop_file.file) for wrong in error.problems]
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
    """Run a SOP. At an approval it asks; without a terminal it exits with 5, and `sop approve` continues it.

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
        hand_to_server(run_request(task_driver, sop, None, {**settings, "skills_dir": None}), output_format)
        return
    raise typer.Exit(execute_driver(task_driver, output_format))


@app.command()
def show(
    what: Annotated[str, typer.Argument(metavar="SOP|RUN_ID", help="A SOP, or a run of a SOP.")],
    workspace: WorkspaceDir = None,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Show the steps of a SOP, or the progress of a run and what it waits for.

    Example: adderclaw sop show daily-check
    """
    options = _read_options(config, workspace)
    state = _run_state(options, what)
    if state is not None:
        print_result(state, _run_text(state), output_format)
        return
    sop_file = find.find(what, find.sop_folders(options))
    shown = sops.described(find.load(sop_file, tool_check.known_tools(options)), sop_file)
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
    """Resume an unfinished run: finished steps are not repeated, and you are asked about steps that may have run.

    Example: adderclaw sop resume 20260512-140000-1f2e3d4c
    """
    options = _options(config, None, provider, model, profile, overrides(None, None, None, _limits(limit)))
    _continue_run(options, run_id, output_format)


@app.command()
def approve(
    run_id: RunId,
    deny: Annotated[bool, typer.Option("--deny", help="Answer no: the run ends as denied.")] = False,
    comment: Comment = "",
    plan: Annotated[str, typer.Option("--plan", help="Answer only if the question has this hash.")] = "",
    no_resume: Annotated[bool, typer.Option("--no-resume", help="Only answer; do not continue the run.")] = False,
    config: ConfigFile = None,
    output_format: StreamOutput = "text",
) -> None:
    """Answer the question of a run and continue the run. The answer is signed, like that of `approvals answer`.

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
    except SessionInUse:
        print(f"adderclaw: run {run.run_id} continues in another process", file=sys.stderr)


def _continue_run(options: Options, run_id: str, output_format: StreamFormat) -> None:
    try:
        task_driver: Driver = resume_driver(options, run_id)
    except AlreadyCompleted as ended:
        print_completed(ended, output_format)
        return
    if task_driver.opening.kind != "sop":
        raise UsageError(f"run {task_driver.opening.again} is not a SOP run: resume it with `adderclaw run --resume`")
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
        asks="maybe",  # like `agent`: the built-in provider answers if no other is configured
        choose=key_chooser(config),
        overrides=over,
    )


def _limits(limit_options: list[str] | None) -> dict[str, float]:
    allowed = limits(limit_options)
    if "rounds" in allowed:
        raise UsageError("--limit rounds is only for the LOOPs of an Agentfile; a SOP has no LOOPs")
    return allowed


def _read_options(config: str | None, workspace: str | None) -> Options:
    return Options(config_file=config, workspace=workspace)


def _run_state(options: Options, run_id: str) -> SopState | None:
    """The progress of a run; None if there is no SOP run with that id."""
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
    """The whole question."""


def _waiting_run(options: Options, run_id: str) -> tuple[str, _Waiting]:
    """The database, and the question that a run waits for."""
    path = load(config_file=options.config_file).config.memory.path
    store = Store.open(path, read_only=True)
    try:
        run = runs.get(store, run_id)
        asked = waiting.open_question(store, run) if run is not None else None
    finally:
        store.close()
    if run is None or run.kind != "sop":
        raise UsageError(f"there is no run {run_id!r} of a SOP; `adderclaw runs list` lists them")
    if run.status not in waiting.WAITING or asked is None:
        raise UsageError(f"run {run.run_id} does not wait for an answer: it is {run.status}")
    if asked.answer is not None:
        raise UsageError(
            f"{asked.id} is answered already: {asked.answer}. Continue with `adderclaw sop resume {run.run_id}`"
        )
    seen = whole(asked)
    return path, _Waiting(run.run_id, asked.id, f"{seen.reason}\n{seen.text}")


def _run_text(state: SopState) -> str:
    """A run as text: a line for each step, and what it waits for."""
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
        approve = f"`adderclaw sop approve {state['run_id']}` answers yes and continues; --deny answers no"
        rows.append(f"continue with `adderclaw sop resume {state['run_id']}`" if asked["answer"] else approve)
    return "\n".join(rows)
