"""`adderclaw approvals`: questions that wait for an answer, and the answer from another terminal."""

import os
import time
from typing import Annotated, Any, Literal

import typer

from adderclaw.channels.cli.common import ConfigFile, OutputFormat, group
from adderclaw.channels.cli.plain import print_json
from adderclaw.config import home, load
from adderclaw.credentials.redaction import visible
from adderclaw.errors import UsageError
from adderclaw.kernel.approvals import BY_ROW, answer_row, person, shown, too_long
from adderclaw.store import Store, approvals
from adderclaw.store.approvals import Approval
from adderclaw.store.logfile import operators_key
from adderclaw.types import Answer

app = group("List questions that wait for an answer, and answer them.")

Word = Literal["yes", "no"]


@app.command("list")
def list_approvals(
    everything: Annotated[bool, typer.Option("--all", help="Those that were answered, too.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="The last so many.")] = 20,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """List what is waiting for an answer: each tool call whole, as its own terminal shows it.

    Example: adderclaw approvals list
    """
    path = load(config_file=config).config.memory.path
    if not os.path.exists(path):
        found: list[Approval] = []
    else:
        store = Store.open(path, read_only=True)
        found = approvals.listing(store, everything=everything, limit=limit)
        store.close()
    now = time.time()
    if output_format == "json":
        print_json([_as_json(approval, now) for approval in found])
        return
    for approval in found:
        _print(approval, now)
    if not found:
        print("nothing is waiting for an answer")


@app.command()
def answer(
    id: Annotated[str, typer.Argument(metavar="ID", help="An approval's id, or the beginning of it.")],
    word: Annotated[Word, typer.Argument(metavar="yes|no", help="The answer.")],
    comment: Annotated[str, typer.Option("--comment", help="A word to go with it: the model sees it with a no.")] = "",
    plan: Annotated[str, typer.Option("--plan", help="Only if it is about the call with this hash.")] = "",
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Answer a question in place of the terminal that asked. The first answer counts, once; the others are told so.

    Where the process that asked has ended, the answer counts when its conversation is resumed. Exit code 1 when the
    answer does not count: it was answered before, it has expired, or it is about another call than --plan says.

    Example: adderclaw approvals answer approval-3f2a yes --comment "go ahead"
    """
    path = load(config_file=config).config.memory.path
    if not os.path.exists(path):
        raise UsageError(f"no approval {id!r}: there is no database at {path}")
    store = Store.open(path)
    try:
        found = approvals.get(store, id)
        if found is None:
            raise UsageError(f"no approval {id!r}; `adderclaw approvals list` shows what is waiting")
        was = found.state(time.time())
        given = Answer(word == "yes", BY_ROW, comment, who=person("approvals"))
        counts = answer_row(store, lambda: operators_key(os.path.join(home(), "receipt.key")), found, given, plan)
    finally:
        store.close()
    if output_format == "json":
        print_json(_as_json(counts, time.time()))
        return
    print(f"{counts.id}: {word}")
    if was == "left":
        print("the process that asked has ended: the answer counts when its conversation is resumed")


def _as_json(approval: Approval, now: float) -> dict[str, Any]:
    told = {key: value for key, value in approval._asdict().items() if key != "mac"}
    return {**told, "state": approval.state(now), "lookalikes": shown(approval).lookalikes}


def _print(approval: Approval, now: float) -> None:
    answered = approval.answered_who or approval.answered_by
    seen, by = shown(approval), f" by {answered}" if answered else ""
    until = f", until {approval.expires_at}" if approval.expires_at and approval.answer is None else ""
    print(f"{approval.id}  {approval.created_at}  {approval.state(now)}{visible(by, keep_newlines=False)}{until}")
    asking = f"{approval.agent} of " if approval.agent else ""
    where = f" ({approval.channel})" if approval.channel else ""
    print("  asked by: " + visible(f"{asking}{approval.session_id}{where}", keep_newlines=False))
    print(f"  tool: {seen.tool}\n  risk: {approval.risk}\n  reason: {seen.reason}")
    if why := too_long(approval):
        print(f"  args: not asked about: {why}")
    else:
        print("  args: " + seen.text.replace("\n", "\n      | "))
        print("".join(f"  {mark}\n" for mark in seen.marks), end="")
    print(f"  plan: {approval.plan_hash}")
