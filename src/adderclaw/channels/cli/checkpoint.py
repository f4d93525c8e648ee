"""`adderclaw checkpoint`: what tools changed on disk, and the way back."""

from typing import Annotated

import typer

from adderclaw.channels.cli.common import ConfigFile, OutputFormat, group
from adderclaw.channels.cli.plain import print_json
from adderclaw.checkpoints.restore import Outcome, Plan, Step
from adderclaw.config import home, load
from adderclaw.credentials.redaction import Secrets
from adderclaw.errors import EXIT_CODES, UsageError
from adderclaw.runtime import rewind
from adderclaw.store import Store, transcript
from adderclaw.store import checkpoints as rows
from adderclaw.store.checkpoints import Change, State
from adderclaw.types import Json

app = group("List, show and restore what tools changed on disk.")

clean = Secrets().clean
Target = Annotated[
    str, typer.Argument(metavar="CHECKPOINT", help="Its number; or a conversation's or session's id: its first one.")
]


@app.command("list")
def list_checkpoints(
    conversation: Annotated[
        str | None, typer.Option("--conversation", metavar="ID", help="Only of this one (or of one of its sessions).")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="At most so many, the newest.")] = 20,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """List what tools changed, by the message that they worked for, oldest first.

    Example: adderclaw checkpoint list
    """
    store = Store.open(load(config_file=config).config.memory.path, read_only=True)
    wanted = None
    if conversation is not None:
        wanted = transcript.conversation_of(store, conversation)
        if wanted is None:
            raise UsageError(f"there is no conversation {conversation!r}: see `adderclaw memory list`")
    found = rewind.groups(store, wanted)[-limit:]
    if output_format == "json":
        print_json([clean(each._asdict()) for each in found])
        return
    for each in found:
        state = "  UNFINISHED: restore again finishes it" if each.status == "pending" else ""
        files = f"{each.paths} path{'' if each.paths == 1 else 's'}"
        what = each.text or ("a call by hand" if each.kind == "call" else "")
        print(clean(f"{each.id:>6}  {each.created_at}Z  {each.kind:<7}  {files:<10}  {what}{state}"))
    if not found:
        print("no checkpoints yet")


@app.command()
def show(checkpoint: Target, config: ConfigFile = None, output_format: OutputFormat = "text") -> None:
    """Show what was changed from a checkpoint on, call by call.

    Example: adderclaw checkpoint show 1
    """
    store = Store.open(load(config_file=config).config.memory.path, read_only=True)
    first = rows.get(store, rewind.target_of(store, checkpoint))
    if first is None:
        raise UsageError(f"there is no checkpoint {checkpoint}: see `adderclaw checkpoint list`")
    same = [
        point
        for point in rows.listing(store, conversation_id=first.conversation_id)
        if point.id >= first.id and (point.turn_session, point.turn) == (first.turn_session, first.turn)
    ]
    if output_format == "json":
        print_json([clean({**point._asdict(), "changes": _changes(store, point.id)}) for point in same])
        return
    for point in same:
        note = f" ({point.note})" if point.note else ""
        print(clean(f"{point.id:>6}  {point.created_at}Z  {point.tool} {point.tool_use_id}{note}"))
        for change in rows.changes(store, point.id):
            print(clean(f"        {_verb(change):<8}  {change.path}"))


def _changes(store: Store, checkpoint: int) -> list[Json]:
    return [
        {"path": c.path, "what": _verb(c), "before": _state(c.before), "after": _state(c.after)}
        for c in rows.changes(store, checkpoint)
    ]


def _state(state: State | None) -> Json | None:
    return None if state is None else state._asdict()


def _verb(change: Change) -> str:
    if change.before is None:
        return "made"
    return "deleted" if change.after is None else "changed"


@app.command()
def restore(
    checkpoint: Target,
    path: Annotated[list[str] | None, typer.Option("--path", help="Only this path; may be given again.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would happen, and do nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also over what others changed since.")] = False,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Put files back as they were before a checkpoint. Your git is not touched; what others made stays.

    Example: adderclaw checkpoint restore 1 --dry-run
    """
    now = load(config_file=config).config
    Store.open(now.memory.path, read_only=True).close()  # nothing is created only to be restored
    store = Store.open(now.memory.path)
    shop = rewind.workshop(store, home(), now)
    try:
        cut_off = [] if dry_run else rewind.finished(shop)
        plans = rewind.planned(shop, checkpoint, force=force, only=frozenset(path or ()))
        stuck = [step for each in plans for step in each.steps if step.fate == "conflict"]
        done = [] if dry_run or stuck else rewind.restored(shop, plans)
        _report(plans, done, cut_off, stuck, dry_run=dry_run, as_json=output_format == "json")
    finally:
        shop.blobs.close()
        store.close()


def _report(
    plans: list[Plan], done: list[Outcome], cut_off: list[Outcome], stuck: list[Step], *, dry_run: bool, as_json: bool
) -> None:
    failed = {path: why for outcome in done for path, why in outcome.failed.items()}
    if as_json:
        steps = [{"root": each.target.root, **_step_json(step)} for each in plans for step in each.steps]
        undo = [outcome.undo for outcome in done if outcome.undo]
        print_json(
            clean(
                {
                    "dry_run": dry_run,
                    "refused": bool(stuck) and not dry_run,
                    "steps": steps,
                    "failed": failed,
                    "undo": undo,
                    "finished": [outcome.undo for outcome in cut_off],
                }
            )
        )
    else:
        _print(plans, done, cut_off, failed)
    if stuck and not dry_run:
        if not as_json:
            print("nothing was restored: others changed these since; `--force` restores over them", flush=True)
        raise typer.Exit(EXIT_CODES["denied"])
    if any(why != KEPT for why in failed.values()):
        raise typer.Exit(EXIT_CODES["error"])


KEPT = "kept: it holds what no tool made"


def _print(plans: list[Plan], done: list[Outcome], cut_off: list[Outcome], failed: dict[str, str]) -> None:
    for outcome in cut_off:
        print(f"finished restore {outcome.undo}, which had been cut off")
    nothing = True
    for step in (step for each in plans for step in each.steps if step.fate != "same"):
        nothing = False
        why = failed.get(step.path) or step.why
        print(clean(f"{step.fate:<10}  {step.path}{f'  ({why})' if why else ''}"))
    for outcome in done:
        if outcome.undo:
            print(f"done; `adderclaw checkpoint restore {outcome.undo}` undoes it")
    if nothing:
        print("everything is as it was: nothing to restore")


def _step_json(step: Step) -> Json:
    return {
        "path": step.path,
        "fate": step.fate,
        "why": step.why,
        "now": _state(step.now),
        "then": _state(step.then),
    }


@app.command()
def prune(
    days: Annotated[
        int | None, typer.Option("--days", min=0, help="Keep so many days; default: checkpoints.keep_days.")
    ] = None,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Forget old checkpoints, and free what only they needed.

    Example: adderclaw checkpoint prune --days 7
    """
    now = load(config_file=config).config
    Store.open(now.memory.path, read_only=True).close()
    store = Store.open(now.memory.path)
    shop = rewind.workshop(store, home(), now)
    dropped, freed = rewind.pruned(shop, now.checkpoints.keep_days if days is None else days)
    store.close()
    if output_format == "json":
        print_json({"checkpoints": dropped, "bytes": freed})
    else:
        print(f"forgot {dropped} checkpoint{'' if dropped == 1 else 's'}, freed {freed:,} bytes")
