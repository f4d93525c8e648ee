"""`adderclaw fleet verify`, `export`, `usage`, `budget`: proof and cost of the fleet's runs."""

import os
import re
import time
from typing import Annotated

import typer

from adderclaw.agent.tool_call.approvals import displayed_request, questions_of
from adderclaw.config import home
from adderclaw.core.errors import UsageError
from adderclaw.core.json_text import canonical
from adderclaw.core.questions import Replies
from adderclaw.core.redaction import Secrets, visible
from adderclaw.core.types import Json
from adderclaw.fleet import anchors, asking, queries
from adderclaw.fleet.prune import last, prune
from adderclaw.fleet.verify import verify as verified
from adderclaw.fleet.where import Fleet
from adderclaw.terminal.commands.common import OutputFormat, print_result
from adderclaw.terminal.commands.fleet_common import DatabaseUrl, app, full_run_id, open_fleet, submitter_name
from adderclaw.terminal.operators import reply_values
from adderclaw.terminal.output import print_json

clean = Secrets().clean


@app.command()
def verify(database: DatabaseUrl = None, output_format: OutputFormat = "text") -> None:
    """Check every run against its workers' signatures. Exits with 1 if a run was changed, removed or invented.

    Example: adderclaw fleet verify
    """
    fleet = open_fleet(database)
    proof = verified(fleet.database, fleet.objects(), fleet.key())
    if output_format == "json":
        wrong = [difference._asdict() for difference in proof.wrong]
        print_json({"valid": not wrong, **proof._asdict(), "wrong": wrong})
    else:
        for difference in proof.wrong:
            print(visible(f"{difference.what}: {difference.where}: {difference.why}"))
        verdict = "valid" if not proof.wrong else f"{len(proof.wrong)} wrong"
        print(f"{verdict}: {proof.anchors} anchors, {proof.runs} runs, {proof.receipts} receipts")
        if proof.pruned and (when := last(fleet.database)) is not None:
            print(visible(f"of {proof.pruned} runs the states were pruned, last by {when['by']} at {when['at']}"))
    raise typer.Exit(1 if proof.wrong else 0)


@app.command("prune")
def prune_old(
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="TIME", help="Runs that ended longer ago than this: 12h, 30d, 8w.")
    ] = "30d",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed; remove nothing.")] = False,
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """Remove events, calls and states of runs that ended long ago, and unreferenced objects.

    Rows of runs, usage and everything signed stay, so `fleet verify` still works. Workers may continue meanwhile.

    Example: adderclaw fleet prune --older-than 30d --dry-run
    """
    units = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
    if (age := re.fullmatch(r"([0-9]{1,5})([mhdw])", older_than)) is None:
        raise UsageError(f"--older-than {older_than!r} is not a duration: write 12h, 30d or 8w")
    fleet = open_fleet(database)
    seconds = float(int(age[1]) * units[age[2]])
    removed = prune(fleet.database, fleet.objects(), seconds, submitter_name(), dry=dry_run)
    word = "would be removed" if dry_run else "removed"
    text = (
        f"{word}: {removed.events} events and {removed.calls} calls of {removed.runs} runs, {removed.objects} objects"
    )
    for run in removed.unreadable:
        text += f"\nrun {run}: its last state or its archive cannot be read, so the states of its units stay"
    print_result({**removed._asdict(), "dry_run": dry_run}, text, output_format)


@app.command()
def export(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A new file; scripts/verify_fleet.py reads it.")],
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """Write the signed log of anchors for a standalone verifier. It contains no text of any run.

    Example: adderclaw fleet export fleet-anchors.json
    """
    chain = anchors.export_anchors(open_fleet(database).database)
    try:
        with open(os.path.expanduser(file), "x", encoding="utf-8") as opened_file:
            opened_file.write(canonical(chain) + "\n")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}; name a new file") from error
    print_result(
        {"file": file, "anchors": len(chain["anchors"])},
        f"{len(chain['anchors'])} anchors are in {file}",
        output_format,
    )


@app.command()
def usage(
    by: Annotated[str, typer.Option("--by", help="submitter, project, model, run or day.")] = "submitter",
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """Show the tokens and cost of the fleet's model calls.

    Example: adderclaw fleet usage --by project
    """
    rows = queries.usage(open_fleet(database).database, by)
    if output_format == "json":
        print_json(rows)
        return
    for row in rows:
        print(visible(f"{row[by] or '-':<30}  {row['calls']:>8} calls  {row['tokens']:>12} tokens  ${row['cost']:.6f}"))
    if not rows:
        print("no model calls yet")


@app.command()
def budget(
    scope: Annotated[str, typer.Argument(metavar="SCOPE", help="fleet, project or submitter.")] = "fleet",
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Which project or submitter.")] = "",
    cost: Annotated[float | None, typer.Option("--cost", min=0, help="The limit in US dollars.")] = None,
    tokens: Annotated[int | None, typer.Option("--tokens", min=0, help="The limit in tokens.")] = None,
    none: Annotated[bool, typer.Option("--none", help="Remove the limit.")] = False,
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """Limit what the fleet, a project or a submitter may spend; without a limit, show what was spent.

    Example: adderclaw fleet budget project website --cost 20
    """
    if scope not in ("fleet", "project", "submitter") or (scope == "fleet") == bool(name):
        raise UsageError(f"{scope} {name}".strip() + ": give `fleet`, `project NAME` or `submitter NAME`")
    fleet = open_fleet(database)
    if cost is not None or tokens is not None or none:
        queries.set_budget(fleet.database, scope, name, cost, tokens)
    row = queries.budget(fleet.database, scope, name)
    limits = ", ".join(f"{row[key]} {key}" for key in ("cost", "tokens") if row.get(key) is not None) or "no limit"
    print_result(row, f"{scope} {name}".strip() + f": {limits}; spent ${row['spent_cost']:.6f}", output_format)


@app.command()
def pace(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The model's name in the workers' configuration.")],
    per_minute: Annotated[int | None, typer.Option("--per-minute", min=1, help="Requests of all workers.")] = None,
    at_once: Annotated[int | None, typer.Option("--at-once", min=1, help="Requests of all workers.")] = None,
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """Limit how often all workers together call a model; without an option, remove the limit.

    Example: adderclaw fleet pace claude-sonnet-4-5 --per-minute 50 --at-once 10
    """
    queries.set_pace(open_fleet(database).database, model, per_minute, at_once)
    bounds = {"per_minute": per_minute, "at_once": at_once}
    shown = ", ".join(f"{value} {key.replace('_', ' ')}" for key, value in bounds.items() if value is not None)
    print_result({"model": model, **bounds}, f"{model}: {shown or 'no limit'}", output_format)


@app.command()
def approve(
    run_id: Annotated[
        str | None, typer.Argument(metavar="[RUN_ID]", help="Its id or a prefix of it; default: list all questions.")
    ] = None,
    no: Annotated[bool, typer.Option("--no", help="Answer no.")] = False,
    comment: Annotated[str, typer.Option("--comment", help="A comment for the run.")] = "",
    reply: Annotated[
        list[str] | None,
        typer.Option("--reply", help="The reply to a question: a number, a label or text; repeat for each question."),
    ] = None,
    question: Annotated[
        str, typer.Option("--question", metavar="ID", help="The question, if the run asks several.")
    ] = "",
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """Answer a question of a run; the run continues at once. Without an id, list pending questions.

    Example: adderclaw fleet approve
    """
    fleet = open_fleet(database)
    if run_id is None:
        rows = clean(asking.waiting(fleet.database, fleet.key_here()))
        if output_format == "json":
            print_json(rows)
            return
        for row in rows:
            _print_question(row)
        if not rows:
            print("no questions are pending")
        return
    run = full_run_id(fleet.database, run_id)
    asked = _waiting_question(fleet, run, question)
    replies = None if no or asked is None else _replies(asked, reply or [])
    id = str(asked["id"]) if asked is not None else question
    answer = asking.answer(
        fleet.database, fleet.key(), run, approved=not no, by=submitter_name(), comment=comment, replies=replies, id=id
    )
    word = "no" if no else "answered" if replies else "yes"
    print_result(clean(answer), f"run {run}: {word}; it continues", output_format)


def _print_question(row: Json) -> None:
    """Prints a question with everything the answer refers to."""
    seen = displayed_request(asking.row_of(row))
    print(visible(f"{row['run_id']}  {row['id']}  {row['risk']}  {seen.tool}  {seen.reason}", keep_newlines=False))
    print("  " + seen.text.replace("\n", "\n  | "))
    marks = (*seen.marks, *([row["unchecked"]] if "unchecked" in row else []))
    print("".join(f"  {mark}\n" for mark in marks), end="")


def _waiting_question(fleet: Fleet, run: str, question: str) -> Json | None:
    questions = [row for row in asking.waiting(fleet.database, fleet.key_here()) if row["run_id"] == run]
    if len(questions) > 1 and not question:
        names = ", ".join(row["id"] for row in questions)
        raise UsageError(f"run {run} asks {len(questions)} questions: choose one with --question: {names}")
    return next((row for row in reversed(questions) if row["id"].startswith(question)), None)


def _replies(asked: Json, words: list[str]) -> Replies | None:
    questions = questions_of(asking.row_of(asked))
    if len(words) != len(questions):
        many = f"{len(questions)} questions" if questions else "yes or no, and takes no --reply"
        fix = ": give a --reply for each, in order, or --no" if questions else ""
        raise UsageError(f"{asked['id']} asks {many}{fix}")
    return {
        question.question: reply_values(question, word.strip()) for question, word in zip(questions, words, strict=True)
    } or None


@app.command()
def webhook(
    remove: Annotated[bool, typer.Option("--remove", help="Stop accepting answers by signed request.")] = False,
    output_format: OutputFormat = "text",
) -> None:
    """Create or replace the secret with which a program signs answers to runs' questions. It is shown once.

    The server of this home takes them at POST /fleet/answers. The old secret stays valid for one more day.

    Example: adderclaw fleet webhook
    """
    from adderclaw.models.credentials import webhook_secrets

    if remove:
        was = webhook_secrets.forget(home(), asking.DOOR)
        print_result(
            {"removed": was},
            "answers by signed request are no longer accepted" if was else "there was none",
            output_format,
        )
        return
    secret = webhook_secrets.make(home(), asking.DOOR, time.time())
    note = "It is shown only once. Sign answers with it and post them to /fleet/answers (docs/fleet.md)."
    text = f"secret: {secret}\n{note}"
    print_result({"secret": secret}, text, output_format)
