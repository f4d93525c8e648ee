"""`adderclaw approvals`: lists pending questions and answers them from another terminal."""

import sys
import time
from typing import Annotated

import typer

from adderclaw.agent.conversation import questions
from adderclaw.agent.tool_call.approvals import displayed_request, questions_of, too_long_to_show
from adderclaw.config import home, load, project_grants
from adderclaw.config.paths import followed
from adderclaw.core.errors import UsageError
from adderclaw.core.questions import Replies
from adderclaw.core.redaction import visible
from adderclaw.storage import Store
from adderclaw.storage.approvals import Approval
from adderclaw.terminal.commands.common import ConfigFile, OutputFormat, WorkspaceDir, group, print_result
from adderclaw.terminal.operators import reply_values
from adderclaw.terminal.output import print_json

app = group("List and answer pending questions, and see what you always allow.")


@app.command("list")
def list_approvals(
    everything: Annotated[bool, typer.Option("--all", help="Include answered questions.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many of the last ones.")] = 20,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """List pending questions, with each tool call in full, as its own terminal shows it.

    Example: adderclaw approvals list
    """
    rows = questions.listed(questions.store_path(config), everything=everything, limit=limit)
    if output_format == "json":
        print_json([questions.as_json(approval) for approval in rows])
        return
    for approval in rows:
        _print(approval, time.time())
    if not rows:
        print("no questions are pending")


@app.command()
def granted(
    everywhere: Annotated[bool, typer.Option("--all", help="For all projects.")] = False,
    workspace: WorkspaceDir = None,
    output_format: OutputFormat = "text",
) -> None:
    """List what you always allow in a project: the rules added by answering `p`, "always in this project".

    Example: adderclaw approvals granted
    """
    table, folder = project_grants.known(home()), _folder(workspace)
    shown = table if everywhere else {folder: project_grants.of(table, folder)}
    if output_format == "json":
        print_json([{"project": name, "rule": rule} for name, rules in shown.items() for rule in rules])
        return
    for name, rules in shown.items():
        for rule in rules:
            print(visible(f"{name}  {rule}", keep_newlines=False))
    if not any(shown.values()):
        print("nothing is always allowed" if everywhere else visible(f"nothing is always allowed in {folder}"))


@app.command()
def revoke(
    rule: Annotated[str, typer.Argument(metavar="RULE", help="As `approvals granted` lists it.")],
    workspace: WorkspaceDir = None,
    output_format: OutputFormat = "text",
) -> None:
    """Stop always allowing something in a project. A session already running there keeps the rule until it ends.

    Example: adderclaw approvals revoke "Bash(make test)"
    """
    folder = _folder(workspace)
    if not project_grants.remove(home(), folder, rule):
        raise UsageError(f"{rule!r} is not always allowed in {folder}; `adderclaw approvals granted` lists the rules")
    print_result(
        {"project": folder, "rule": rule, "revoked": True},
        visible(f"no longer always allowed in {folder}: {rule}", keep_newlines=False),
        output_format,
    )


def _folder(workspace: str | None) -> str:
    return followed(load(workspace=workspace).workspace)


@app.command()
def answer(
    id: Annotated[str, typer.Argument(metavar="ID", help="An approval's id or a prefix of it.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="yes|no|REPLY…", help="The answer; for questions one reply each: a number, a label or text."
        ),
    ] = None,
    comment: Annotated[str, typer.Option("--comment", help="A comment; the model sees it with a no.")] = "",
    plan: Annotated[str, typer.Option("--plan", help="Answer only if this is the call's hash.")] = "",
    decline: Annotated[bool, typer.Option("--decline", help="Decline to answer the questions.")] = False,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Answer a question instead of the terminal that asked. Only the first answer counts; later ones are told so.

    If the asking process has ended, the answer counts when its conversation is resumed. Exit code 1 when the
    answer does not count: already answered, expired, or about another call than --plan says.

    Example: adderclaw approvals answer approval-3f2a yes --comment "go ahead"
    """
    path = questions.store_path(config)
    approved, replies, was = _replies(path, id, words or [], decline=decline)
    counts = questions.answered(
        path,
        id,
        "approvals",
        approved=approved,
        replies=replies,
        comment=comment,
        plan=plan,
        at_terminal=sys.stdin.isatty() and sys.stdout.isatty(),
    )
    if output_format == "json":
        print_json(questions.as_json(counts))
        return
    print(f"{counts.id}: {'answered' if replies else counts.answer}")
    if was == "left":
        print("the asking process has ended; the answer counts when its conversation is resumed")


def _replies(path: str, id: str, words: list[str], *, decline: bool) -> tuple[bool, Replies | None, str]:
    """Reads the answer from the command line; also returns the state of the question."""
    if not Store.exists(path):
        raise UsageError(f"no approval {id!r}: there is no database at {path}")
    store = Store.open(path, read_only=True)
    try:
        asked = questions.found(store, id)
    finally:
        store.close()
    was = asked.state(time.time())
    if decline:
        if words:
            raise UsageError("--decline answers no questions: omit the replies")
        return False, None, was
    questions_asked = questions_of(asked)
    if not questions_asked:
        if len(words) != 1 or words[0] not in ("yes", "no"):
            raise UsageError(f"{asked.id} takes yes or no")
        return words[0] == "yes", None, was
    if len(words) != len(questions_asked):
        raise UsageError(f"{asked.id} has {len(questions_asked)} questions: give one reply for each, in order")
    replies = {
        question.question: reply_values(question, word.strip())
        for question, word in zip(questions_asked, words, strict=True)
    }
    return True, replies, was


def _print(approval: Approval, now: float) -> None:
    answered = approval.answered_who or approval.answered_by
    seen, by = displayed_request(approval), f" by {answered}" if answered else ""
    until = f", until {approval.expires_at}" if approval.expires_at and approval.answer is None else ""
    print(f"{approval.id}  {approval.created_at}  {approval.state(now)}{visible(by, keep_newlines=False)}{until}")
    asking = f"{approval.agent} of " if approval.agent else ""
    where = f" ({approval.channel})" if approval.channel else ""
    print("  asked by: " + visible(f"{asking}{approval.session_id}{where}", keep_newlines=False))
    if seen.is_step:
        print(f"  step: {seen.tool}\n  question: {seen.reason}")
    else:
        print(f"  tool: {seen.tool}\n  risk: {approval.risk}\n  reason: {seen.reason}")
    if why := too_long_to_show(approval):
        print(f"  args: not shown: {why}")
    else:
        name = "questions" if approval.questions else "about" if seen.is_step else "args"
        print(f"  {name}: " + seen.text.replace("\n", "\n      | "))
        print("".join(f"  {mark}\n" for mark in seen.marks), end="")
    print(f"  plan: {approval.plan_hash}")
