"""`adderclaw checkpoint`: shows and restores what tools changed on disk."""

import asyncio
from typing import Annotated

import typer

from adderclaw.agent.legacy import rewind
from adderclaw.agent.queries import checkpoints as facts
from adderclaw.agent.queries import clean, loaded
from adderclaw.config import home, load
from adderclaw.config.legacy.options import Options
from adderclaw.core.errors import EXIT_CODES
from adderclaw.storage import Store
from adderclaw.terminal.commands.common import ConfigFile, OutputFormat, group, print_result
from adderclaw.terminal.operators import terminal_question
from adderclaw.terminal.output import print_json

app = group("List, show and restore what tools changed on disk.")

Target = Annotated[
    str,
    typer.Argument(
        metavar="CHECKPOINT", help="A checkpoint's number; or the id of a conversation or session, for its first one."
    ),
]


@app.command("list")
def list_checkpoints(
    conversation: Annotated[
        str | None,
        typer.Option("--conversation", metavar="ID", help="Only of this conversation (or of one of its sessions)."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="At most N, the newest.")] = 20,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """List what tools changed, by the message they worked on, oldest first.

    Example: adderclaw checkpoint list
    """
    options = _options(config)
    rows = facts.listing(options, conversation, limit)
    if output_format == "json":
        print_json(rows)
        return
    workspace = loaded(options).workspace
    for each in rows:
        state = "  UNFINISHED: restore it again to finish" if each["status"] == "pending" else ""
        files = f"{each['paths']} path{'' if each['paths'] == 1 else 's'}"
        what = each["text"] or ("a call by hand" if each["kind"] == "call" else "")
        folder = "" if each["root"] == workspace else f"  (in {each['root']})"
        print(f"{each['id']:>6}  {each['created_at']}Z  {each['kind']:<7}  {files:<10}  {what}{folder}{state}")
    if not rows:
        print("no checkpoints yet")


@app.command()
def show(checkpoint: Target, config: ConfigFile = None, output_format: OutputFormat = "text") -> None:
    """Show the changes since a checkpoint, call by call.

    Example: adderclaw checkpoint show 1
    """
    points = facts.shown(Options(config_file=config), checkpoint)
    if output_format == "json":
        print_json(points)
        return
    for point in points:
        note = f" ({point['note']})" if point["note"] else ""
        print(f"{point['id']:>6}  {point['created_at']}Z  {point['tool']} {point['tool_use_id']}{note}")
        for change in point["changes"]:
            sure = "" if change["sure"] else "  (changed during the call, may be yours)"
            print(f"        {change['what']:<8}  {change['path']}{sure}")


@app.command()
def restore(
    checkpoint: Target,
    path: Annotated[
        list[str] | None, typer.Option("--path", help="Only this path, or this folder's contents; repeatable.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would happen, and change nothing.")] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Overwrite later changes by others; with --path, also changes that may be yours."),
    ] = False,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Restore files to their state before a checkpoint. Your git is not touched; changes by others stay.

    What changed while a command ran may be yours: at a terminal you are asked, else it stays (exit code 3).

    Example: adderclaw checkpoint restore 1 --dry-run
    """
    options, as_json = _options(config), output_format == "json"
    ask = None if as_json else terminal_question()
    only = frozenset(path or ())
    restored = asyncio.run(facts.restored(options, checkpoint, paths=only, force=force, dry_run=dry_run, ask=ask))
    if as_json:
        print_json(facts.as_json(restored, dry_run=dry_run))
    else:
        for root in {each.target.root for each in restored.plans} - {loaded(options).workspace}:
            print(clean(f"in {root}, which is not the workspace here:"))
        for line in restored.lines():
            print(clean(line), flush=True)
    if not dry_run:
        if restored.refused and not as_json:
            print("nothing was restored: others changed these since; `--force` restores over them", flush=True)
        if restored.refused or restored.left:
            raise typer.Exit(EXIT_CODES["denied"])
        if any(why != KEPT for why in restored.failed.values()):
            raise typer.Exit(EXIT_CODES["error"])


def _options(config: str | None) -> Options:
    return Options(config_file=config, here=True, looks=True)


KEPT = "kept: it holds what no tool made"


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
    print_result(
        {"checkpoints": dropped, "bytes": freed},
        f"forgot {dropped} checkpoint{'' if dropped == 1 else 's'}, freed {freed:,} bytes",
        output_format,
    )
