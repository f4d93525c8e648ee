"""Delete: removes a file, link or folder of the workspace by descriptor; checkpoints can restore it."""

import os
from typing import Any

from adderclaw.config.paths import beneath, followed
from adderclaw.config.schema import Config
from adderclaw.core.errors import PathRefused
from adderclaw.core.host import ToolContext
from adderclaw.core.record import record
from adderclaw.core.types import Alias, PathFact, Prepared, Tool, ToolResult, Touch, own_words, rejected
from adderclaw.sandbox import workspace
from adderclaw.sandbox.legacy.checkpoints.removal import Look, look
from adderclaw.sandbox.legacy.checkpoints.tracker import limits_of
from adderclaw.sandbox.legacy.checkpoints.tree import Limits
from adderclaw.sandbox.workspace import WorkspacePath
from adderclaw.tools import paths
from adderclaw.tools.paths import catch_refusals
from adderclaw.tools.specs import builtin_tool


@record
class DeleteArguments:
    path: str


def _unresolved_fact(raw_path: str, ctx: ToolContext) -> PathFact:
    """The path itself: links above it are resolved once, a link at its end is not followed."""
    named = paths.path_fact(raw_path, ctx)
    folder, name = os.path.split(named.path)
    real = os.path.join(followed(folder), name) if name else named.path
    location = _location(real, ctx)
    try:
        status = workspace.status(location) if location is not None else None
    except (OSError, PathRefused):
        status = None
    return PathFact(raw_path, named.path, real, (status.st_dev, status.st_ino) if status is not None else None)


def _location(real: str, ctx: ToolContext) -> WorkspacePath | None:
    roots = (ctx.workspace.root, *ctx.workspace.extra)
    return workspace.within_roots(real, [followed(root) for root in roots])


def _describe(fact: PathFact, contents: Look, ctx: ToolContext) -> str:
    name = paths.relative(fact.path, ctx)
    if contents.total == 1:
        return f"{name} ({contents.size:,} bytes)"
    inner = contents.total - 1
    count_text = "1 file or folder" if inner == 1 else f"{inner:,} files and folders"
    return f"{name} with {count_text} in it ({contents.size:,} bytes)"


def _obstacle(fact: PathFact, ctx: ToolContext) -> str | None:
    """Why nothing can be deleted: the path does not exist or contains the working directory."""
    if fact.identity is None and _location(fact.real, ctx) is not None:
        return f"{paths.printable(fact.path)} does not exist."
    if beneath(followed(ctx.workspace.cwd), fact.real) and fact.real != followed(ctx.workspace.root):
        return f"{paths.printable(fact.path)} contains the working directory. Change to another directory first (`cd`)."
    return None


def _touch(fact: PathFact, ctx: ToolContext, limits: Limits | None) -> Touch:
    if _obstacle(fact, ctx) is not None:
        return Touch(reads=(fact,), why="finds nothing to delete")
    location = _location(fact.real, ctx)
    if location is None or location.is_root:
        return Touch(writes=(fact,), removes=(fact,), why=f"deletes {paths.printable(fact.path)}")
    contents = look(location, limits, ctx.is_write_protected)
    inner = [PathFact(fact.given, entry.text, entry.text) for entry in contents.named if entry != location]
    return Touch(
        writes=(fact, *inner),
        removes=(fact,),
        gits=tuple(entry.text for entry in contents.gits),
        lost=contents.reason,
        why=f"deletes {_describe(fact, contents, ctx)}",
    )


async def _run(judged: PathFact, ctx: ToolContext, limits: Limits | None) -> ToolResult:
    fact = _unresolved_fact(judged.given, ctx)
    if (obstacle := _obstacle(fact, ctx)) is not None:
        return rejected(obstacle)
    location = _location(judged.real, ctx)
    if location is None or location.is_root or (judged.real, judged.identity) != (fact.real, fact.identity):
        raise PathRefused(f"{paths.printable(fact.path)} was replaced by something else meanwhile. Nothing was deleted")
    contents = look(location, limits, ctx.is_write_protected)
    if contents.gits:
        raise PathRefused(f"{paths.printable(contents.gits[0].text)} is a git directory. Nothing was deleted")
    try:
        workspace.remove_tree(location)
    except OSError as error:
        return rejected(
            f"{paths.explain_os_error(error)} Some of its contents may already be deleted; LS shows what is left."
        )
    for path in [path for path in ctx.files_read if beneath(path, judged.real)]:
        del ctx.files_read[path]
    recovery = f"It cannot be restored: {contents.reason}." if contents.lost else "`checkpoint restore` restores it."
    return own_words(
        f"Deleted {_describe(fact, contents, ctx)}. {recovery}", {"path": fact.path, "total": contents.total}
    )


def tools(config: Config) -> tuple[Tool[Any], ...]:
    limits = limits_of(config.checkpoints) if config.checkpoints.enabled else None
    seconds = config.runtime.tool_timeout_seconds

    def prepare(arguments: DeleteArguments, ctx: ToolContext) -> Prepared:
        fact = _unresolved_fact(arguments.path, ctx)
        return Prepared(_touch(fact, ctx, limits), lambda: _run(fact, ctx, limits))

    return (
        builtin_tool(
            "Delete",
            DeleteArguments,
            catch_refusals(prepare),
            (Alias("file_delete"), Alias("delete")),
            timeout=lambda _: seconds,
            deferred=True,
        ),
    )
