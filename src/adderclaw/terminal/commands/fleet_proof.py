"""`adderclaw fleet verify`, `export`, `usage`, `budget`: what can be proved, and what it cost."""

import os
import re
import time
from typing import Annotated

import typer

from adderclaw.agent.tool_call.approvals import questions_of, shown
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
from adderclaw.terminal.commands.common import OutputFormat, said
from adderclaw.terminal.commands.fleet_common import DatabaseUrl, app, opened, who, whole_id
from adderclaw.terminal.commands.plain import print_json
from adderclaw.terminal.operators import meant

clean = Secrets().clean


@app.command()
def verify(database: DatabaseUrl = None, output_format: OutputFormat = "text") -> None:
    """Check every run against what its workers signed: a changed, missing or invented one is named. Exit code 1 then.

    Example: adderclaw fleet verify
    """
    fleet = opened(database)
    found = verified(fleet.database, fleet.objects(), fleet.key())
    if output_format == "json":
        wrong = [one._asdict() for one in found.wrong]
        print_json({"valid": not wrong, **found._asdict(), "wrong": wrong})
    else:
        for one in found.wrong:
            print(visible(f"{one.what}: {one.where}: {one.why}"))
        said = "valid" if not found.wrong else f"{len(found.wrong)} wrong"
        print(f"{said}: {found.anchors} anchors, {found.runs} runs, {found.receipts} receipts")
        if found.pruned and (when := last(fleet.database)) is not None:
            print(visible(f"of {found.pruned} runs the states were pruned, last by {when['by']} at {when['at']}"))
    raise typer.Exit(1 if found.wrong else 0)


@app.command("prune")
def prune_old(
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="TIME", help="Runs that ended so long ago: 12h, 30d, 8w.")
    ] = "30d",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be removed, and remove nothing.")] = False,
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """Remove events, calls and states of runs that ended long ago, and objects that nothing refers to.

    Rows of runs, usage and all that was signed stay: `fleet verify` goes on. Workers may work meanwhile.

    Example: adderclaw fleet prune --older-than 30d --dry-run
    """
    units = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
    if (given := re.fullmatch(r"([0-9]{1,5})([mhdw])", older_than)) is None:
        raise UsageError(f"--older-than {older_than!r} is no time: write 12h, 30d or 8w")
    fleet = opened(database)
    seconds = float(int(given[1]) * units[given[2]])
    made = prune(fleet.database, fleet.objects(), seconds, who(), dry=dry_run)
    word = "would be removed" if dry_run else "removed"
    text = f"{word}: {made.events} events and {made.calls} calls of {made.runs} runs, {made.objects} objects"
    for one in made.unreadable:
        text += f"\nrun {one}: its last state or its archive cannot be read; what its units put away stays"
    said({**made._asdict(), "dry_run": dry_run}, text, output_format)


@app.command()
def export(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A new file; scripts/verify_fleet.py reads it.")],
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """Write the signed log of anchors, for a verifier that needs nothing else. No text of any run is in it.

    Example: adderclaw fleet export fleet-anchors.json
    """
    made = anchors.export_anchors(opened(database).database)
    try:
        with open(os.path.expanduser(file), "x", encoding="utf-8") as opened_file:
            opened_file.write(canonical(made) + "\n")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}; name a new file") from error
    said(
        {"file": file, "anchors": len(made["anchors"])}, f"{len(made['anchors'])} anchors are in {file}", output_format
    )


@app.command()
def usage(
    by: Annotated[str, typer.Option("--by", help="submitter, project, model, run or day.")] = "submitter",
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """What model calls of the fleet took: tokens and cost.

    Example: adderclaw fleet usage --by project
    """
    rows = queries.usage(opened(database).database, by)
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
    cost: Annotated[float | None, typer.Option("--cost", min=0, help="US dollars that may be spent in all.")] = None,
    tokens: Annotated[int | None, typer.Option("--tokens", min=0, help="Tokens in all.")] = None,
    none: Annotated[bool, typer.Option("--none", help="Set no limit any more.")] = False,
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """Set what the fleet, a project or a submitter may spend; without a limit: show what was spent.

    Example: adderclaw fleet budget project website --cost 20
    """
    if scope not in ("fleet", "project", "submitter") or (scope == "fleet") == bool(name):
        raise UsageError(f"{scope} {name}".strip() + ": give `fleet`, `project NAME` or `submitter NAME`")
    fleet = opened(database)
    if cost is not None or tokens is not None or none:
        queries.set_budget(fleet.database, scope, name, cost, tokens)
    row = queries.budget(fleet.database, scope, name)
    limits = ", ".join(f"{row[key]} {key}" for key in ("cost", "tokens") if row.get(key) is not None) or "no limit"
    said(row, f"{scope} {name}".strip() + f": {limits}; spent ${row['spent_cost']:.6f}", output_format)


@app.command()
def pace(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="As the workers' configuration names it.")],
    per_minute: Annotated[int | None, typer.Option("--per-minute", min=1, help="Requests of all workers.")] = None,
    at_once: Annotated[int | None, typer.Option("--at-once", min=1, help="Requests of all workers.")] = None,
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """Bound how often all workers together ask a model; without a bound: none any more.

    Example: adderclaw fleet pace claude-sonnet-4-5 --per-minute 50 --at-once 10
    """
    queries.set_pace(opened(database).database, model, per_minute, at_once)
    bounds = {"per_minute": per_minute, "at_once": at_once}
    shown = ", ".join(f"{value} {key.replace('_', ' ')}" for key, value in bounds.items() if value is not None)
    said({"model": model, **bounds}, f"{model}: {shown or 'no bound'}", output_format)


@app.command()
def approve(
    run_id: Annotated[
        str | None, typer.Argument(metavar="[RUN_ID]", help="Its id, or the beginning of it; without: what waits.")
    ] = None,
    no: Annotated[bool, typer.Option("--no", help="Answer no.")] = False,
    comment: Annotated[str, typer.Option("--comment", help="What the run is told with it.")] = "",
    reply: Annotated[
        list[str] | None,
        typer.Option("--reply", help="To a question: a number, a label, or words; again for each question."),
    ] = None,
    question: Annotated[str, typer.Option("--question", metavar="ID", help="Which, where it asks several.")] = "",
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """Answer what a run of the fleet asks; it goes on at once. Without an id: list what waits for an answer.

    Example: adderclaw fleet approve
    """
    fleet = opened(database)
    if run_id is None:
        found = clean(asking.waiting(fleet.database, fleet.key_here()))
        if output_format == "json":
            print_json(found)
            return
        for one in found:
            _show(one)
        if not found:
            print("nothing waits for an answer")
        return
    run = whole_id(fleet.database, run_id)
    asked = _asked(fleet, run, question)
    replies = None if no or asked is None else _replies(asked, reply or [])
    id = str(asked["id"]) if asked is not None else question
    made = asking.answer(
        fleet.database, fleet.key(), run, approved=not no, by=who(), comment=comment, replies=replies, id=id
    )
    word = "no" if no else "answered" if replies else "yes"
    said(clean(made), f"run {run}: {word}; it goes on", output_format)


def _show(one: Json) -> None:
    """A question with all that an answer is given to."""
    seen = shown(asking.row_of(one))
    print(visible(f"{one['run_id']}  {one['id']}  {one['risk']}  {seen.tool}  {seen.reason}", keep_newlines=False))
    print("  " + seen.text.replace("\n", "\n  | "))
    marks = (*seen.marks, *([one["unchecked"]] if "unchecked" in one else []))
    print("".join(f"  {mark}\n" for mark in marks), end="")


def _asked(fleet: Fleet, run: str, question: str) -> Json | None:
    found = [one for one in asking.waiting(fleet.database, fleet.key_here()) if one["run_id"] == run]
    if len(found) > 1 and not question:
        names = ", ".join(one["id"] for one in found)
        raise UsageError(f"run {run} asks {len(found)} questions: say which with --question: {names}")
    return next((one for one in reversed(found) if one["id"].startswith(question)), None)


def _replies(asked: Json, words: list[str]) -> Replies | None:
    wanted = questions_of(asking.row_of(asked))
    if len(words) != len(wanted):
        many = f"{len(wanted)} questions" if wanted else "yes or no, and takes no --reply"
        fix = ": give a --reply to each, in their order, or --no" if wanted else ""
        raise UsageError(f"{asked['id']} asks {many}{fix}")
    return {one.question: meant(one, word.strip()) for one, word in zip(wanted, words, strict=True)} or None


@app.command()
def webhook(
    remove: Annotated[bool, typer.Option("--remove", help="Let nobody answer by a signed request any more.")] = False,
    output_format: OutputFormat = "text",
) -> None:
    """Make or replace the secret with which a program signs answers to questions of runs. It is shown once.

    The server of this home takes them at POST /fleet/answers. The secret before counts for a day more.

    Example: adderclaw fleet webhook
    """
    from adderclaw.models.credentials import webhook_secrets

    if remove:
        was = webhook_secrets.forget(home(), asking.DOOR)
        said(
            {"removed": was}, "nobody answers by a signed request any more" if was else "there was none", output_format
        )
        return
    made = webhook_secrets.make(home(), asking.DOOR, time.time())
    text = (
        f"secret: {made}\nIt is shown this once. Who answers signs with it and posts to /fleet/answers (docs/fleet.md)."
    )
    said({"secret": made}, text, output_format)
