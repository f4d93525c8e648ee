"""Delete: a file, a link or a folder of the workspace goes, seen and removed by descriptor, and can be put back."""

import os
from typing import Any

from adderclaw.config.paths import beneath, followed
from adderclaw.config.schema.settings import Config
from adderclaw.core.errors import PathRefused
from adderclaw.core.record import record
from adderclaw.core.types import Alias, PathFact, Prepared, Tool, ToolContext, ToolResult, Touch, own_words, rejected
from adderclaw.sandbox import workspace
from adderclaw.sandbox.legacy.checkpoints.removal import Look, look
from adderclaw.sandbox.legacy.checkpoints.tracker import limits_of
from adderclaw.sandbox.legacy.checkpoints.tree import Limits
from adderclaw.sandbox.workspace import Place
from adderclaw.tools import paths
from adderclaw.tools.paths import answered
from adderclaw.tools.specs import spec


@record
class DeleteArguments:
    path: str


def _fact(given: str, ctx: ToolContext) -> PathFact:
    """The place itself: folders above it are followed once, a link at its end never is."""
    named = paths.fact(given, ctx)
    folder, name = os.path.split(named.path)
    real = os.path.join(followed(folder), name) if name else named.path
    place = _place(real, ctx)
    try:
        found = workspace.status(place) if place is not None else None
    except (OSError, PathRefused):
        found = None
    return PathFact(given, named.path, real, (found.st_dev, found.st_ino) if found is not None else None)


def _place(real: str, ctx: ToolContext) -> Place | None:
    roots = (ctx.workspace.root, *ctx.workspace.extra)
    return workspace.inside(real, [followed(root) for root in roots])


def _shown(fact: PathFact, found: Look, ctx: ToolContext) -> str:
    name = paths.relative(fact.path, ctx)
    if found.total == 1:
        return f"{name} ({found.size:,} bytes)"
    inner = found.total - 1
    held = "1 file or folder" if inner == 1 else f"{inner:,} files and folders"
    return f"{name} with {held} in it ({found.size:,} bytes)"


def _obstacle(fact: PathFact, ctx: ToolContext) -> str | None:
    """Why there is nothing to judge: it is not there, or we stand in it."""
    if fact.identity is None and _place(fact.real, ctx) is not None:
        return f"{paths.shown(fact.path)} does not exist."
    if beneath(followed(ctx.workspace.cwd), fact.real) and fact.real != followed(ctx.workspace.root):
        return f"{paths.shown(fact.path)} holds the working directory: go elsewhere first (`cd`)."
    return None


def _touch(fact: PathFact, ctx: ToolContext, limits: Limits | None) -> Touch:
    if _obstacle(fact, ctx) is not None:
        return Touch(reads=(fact,), why="finds nothing to delete")
    place = _place(fact.real, ctx)
    if place is None or place.is_root:
        return Touch(writes=(fact,), removes=(fact,), why=f"deletes {paths.shown(fact.path)}")
    found = look(place, limits, ctx.is_write_protected)
    inner = [PathFact(fact.given, one.text, one.text) for one in found.named if one != place]
    return Touch(
        writes=(fact, *inner),
        removes=(fact,),
        gits=tuple(one.text for one in found.gits),
        lost=found.reason,
        why=f"deletes {_shown(fact, found, ctx)}",
    )


async def _run(judged: PathFact, ctx: ToolContext, limits: Limits | None) -> ToolResult:
    fact = _fact(judged.given, ctx)
    if (obstacle := _obstacle(fact, ctx)) is not None:
        return rejected(obstacle)
    place = _place(judged.real, ctx)
    if place is None or place.is_root or (judged.real, judged.identity) != (fact.real, fact.identity):
        raise PathRefused(
            f"{paths.shown(fact.path)} was exchanged for something else at this moment: nothing is deleted"
        )
    found = look(place, limits, ctx.is_write_protected)
    if found.gits:
        raise PathRefused(f"{paths.shown(found.gits[0].text)} is a git directory: nothing is deleted")
    try:
        workspace.remove_tree(place)
    except OSError as error:
        return rejected(f"{paths.explain(error)} What was deleted before that is gone; LS shows what is left.")
    for path in [path for path in ctx.files_read if beneath(path, judged.real)]:
        del ctx.files_read[path]
    kept = f"It cannot be put back: {found.reason}." if found.lost else "`checkpoint restore` puts it back."
    return own_words(f"Deleted {_shown(fact, found, ctx)}. {kept}", {"path": fact.path, "total": found.total})


def tools(config: Config) -> tuple[Tool[Any], ...]:
    limits = limits_of(config.checkpoints) if config.checkpoints.enabled else None
    known, seconds = spec("Delete"), config.runtime.tool_timeout_seconds

    def prepare(arguments: DeleteArguments, ctx: ToolContext) -> Prepared:
        fact = _fact(arguments.path, ctx)
        return Prepared(_touch(fact, ctx, limits), lambda: _run(fact, ctx, limits))

    return (
        Tool(
            "Delete",
            DeleteArguments,
            answered(prepare),
            known.description,
            known.parameters,
            (Alias("file_delete"), Alias("delete")),
            lambda _: seconds,
            deferred=True,
        ),
    )
