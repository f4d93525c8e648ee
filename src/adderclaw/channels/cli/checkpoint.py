"""`adderclaw checkpoint`: what tools changed on disk, and the way back."""

import asyncio
from typing import Annotated

import typer

from adderclaw.channels import restoring
from adderclaw.channels.cli.common import ConfigFile, OutputFormat, group
from adderclaw.channels.cli.plain import print_json
from adderclaw.channels.restoring import Restored
from adderclaw.checkpoints.restore import Step
from adderclaw.config import home, load
from adderclaw.config.paths import beneath, followed
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
    loaded = load(config_file=config, here=True, looks=True)
    store = Store.open(loaded.config.memory.path, read_only=True)
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
        place = "" if each.root == loaded.workspace else f"  (in {each.root})"
        print(clean(f"{each.id:>6}  {each.created_at}Z  {each.kind:<7}  {files:<10}  {what}{place}{state}"))
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
            sure = "" if change.sure else "  (changed while it ran, may be yours)"
            print(clean(f"        {_verb(change):<8}  {change.path}{sure}"))


def _changes(store: Store, checkpoint: int) -> list[Json]:
    return [
        {"path": c.path, "what": _verb(c), "before": _state(c.before), "after": _state(c.after), "sure": c.sure}
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
    path: Annotated[
        list[str] | None, typer.Option("--path", help="Only this path, or what is in this folder; may be given again.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would happen, and do nothing.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also over what others changed since; with --path, also what may be yours.")
    ] = False,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Put files back as they were before a checkpoint. Your git is not touched; what others made stays.

    What changed while a command ran may be yours: at a terminal you are asked, else it stays (exit code 3).

    Example: adderclaw checkpoint restore 1 --dry-run
    """
    loaded = load(config_file=config, here=True, looks=True)
    now = loaded.config
    Store.open(now.memory.path, read_only=True).close()  # nothing is created only to be restored
    store = Store.open(now.memory.path)
    _is_here(store, checkpoint, loaded.workspace)
    shop = rewind.workshop(store, home(), now)
    only, as_json = frozenset(path or ()), output_format == "json"
    try:
        if dry_run:
            found = restoring.dry(shop, checkpoint, force=force, only=only)
        else:
            ask = None if as_json else restoring.asker()
            found = asyncio.run(restoring.restored(shop, checkpoint, Secrets(), ask, force=force, only=only))
    finally:
        shop.blobs.close()
        store.close()
    if as_json:
        print_json(clean(_as_json(found, dry_run=dry_run)))
    else:
        for root in {each.target.root for each in found.plans} - {loaded.workspace}:
            print(clean(f"in {root}, which is not the workspace here:"))
        for line in found.lines():
            print(clean(line), flush=True)
    if not dry_run:
        _end(found, quiet=as_json)


def _is_here(store: Store, wanted: str, workspace: str) -> None:
    """A number alone restores in this project: numbers go on over all of them, and one is soon mistyped."""
    point = rows.get(store, int(wanted)) if wanted.isdecimal() else None
    if point is None or beneath(point.root, workspace):
        return
    if followed(transcript.workspace_of(store, point.conversation_id)) != followed(workspace):
        fix = f"restore it from there, or name its conversation: {point.conversation_id}"
        raise UsageError(clean(f"checkpoint {wanted} is of {point.root}, not of {workspace}: {fix}"))


def _end(found: Restored, *, quiet: bool) -> None:
    if found.refused and not quiet:
        print("nothing was restored: others changed these since; `--force` restores over them", flush=True)
    if found.refused or found.left:
        raise typer.Exit(EXIT_CODES["denied"])
    if any(why != KEPT for why in found.failed.values()):
        raise typer.Exit(EXIT_CODES["error"])


KEPT = "kept: it holds what no tool made"


def _as_json(found: Restored, *, dry_run: bool) -> Json:
    return {
        "dry_run": dry_run,
        "refused": found.refused,
        "steps": [{"root": each.target.root, **_step_json(step)} for each in found.plans for step in each.steps],
        "failed": found.failed,
        "undo": [outcome.undo for outcome in found.done if outcome.undo],
        "finished": [outcome.undo for outcome in found.cut_off],
    }


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
