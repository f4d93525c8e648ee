"""EnterWorktree and ExitWorktree: work in a separate git worktree, and leave it without losing changes."""

import asyncio
import os
import re
from typing import Any, Literal, NamedTuple

from adderclaw.config.paths import followed
from adderclaw.core.host import ToolContext
from adderclaw.core.record import record
from adderclaw.core.types import PathFact, Prepared, Tool, ToolResult, Touch, own_words, rejected
from adderclaw.sandbox import process, workspace
from adderclaw.sandbox.workspace import WorkspacePath
from adderclaw.tools import paths
from adderclaw.tools.kit import Kit
from adderclaw.tools.specs import builtin_tool

FOLDER = ".worktrees"
"""The folder in the workspace; its .gitignore hides it from git."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
BRANCH = "worktree-"
SECONDS = 60.0


@record
class EnterWorktreeArguments:
    name: str = ""
    """Name of a new worktree: letters, digits, dots, dashes."""
    path: str = ""
    """Path of an existing worktree."""


@record
class ExitWorktreeArguments:
    action: Literal["keep", "remove"]
    discard_changes: bool = False
    """Remove it even if changes or commits would be lost."""


class WorktreeResult(NamedTuple):
    """The path of a worktree, or the problem."""

    path: str = ""
    problem: str = ""


def _enter_touch(target: PathFact, arguments: EnterWorktreeArguments, ctx: ToolContext) -> Touch:
    if arguments.path:
        return Touch(reads=(target,), why=paths.access_reason("enters", "in", target, ctx))
    return Touch(writes=(target,), why=paths.access_reason("makes a git worktree", "in", target, ctx))


def _exit_touch(inside: str, arguments: ExitWorktreeArguments, ctx: ToolContext) -> Touch:
    if arguments.action == "keep" or not inside:
        return Touch(why="leaves the worktree")
    target = paths.path_fact(inside, ctx)
    return Touch(writes=(target,), why=paths.access_reason("removes a git worktree", "from", target, ctx))


def _worktree_path(arguments: EnterWorktreeArguments, ctx: ToolContext) -> str:
    return arguments.path or os.path.join(ctx.workspace.root, FOLDER, arguments.name or "unnamed")


def current_worktree(ctx: ToolContext) -> str:
    """The worktree that the session is in; empty if it is in none made here."""
    home = os.path.join(followed(ctx.workspace.root), FOLDER, "")
    here = followed(ctx.workspace.cwd)
    return home + here[len(home) :].split("/", 1)[0] if here.startswith(home) else ""


# ------------------------------------------------------------------ making and removing


async def create_worktree(kit: Kit, ctx: ToolContext, name: str) -> WorktreeResult:
    """Makes a worktree with its own branch. The Agent tool also uses it to isolate a subagent."""
    if wrong := name_problem(name):
        return WorktreeResult(problem=wrong)
    location = WorkspacePath(ctx.workspace.root, f"{FOLDER}/{name}")
    outcome = await ctx.host.run_hooks("WorktreeCreate", {"name": name})
    if outcome.blocked:
        return WorktreeResult(problem=f"a WorktreeCreate hook refused: {outcome.reason}")
    if by_hook := outcome.specific.get("worktreePath"):
        return _hook_worktree(str(by_hook), ctx)
    if not is_own_folder(location.parent):
        return WorktreeResult(problem=f"{FOLDER} is a link or a file instead of a folder. Remove it first")
    if workspace.exists(location):
        return WorktreeResult(problem=f"{FOLDER}/{name} already exists. Enter it by its path, or use another name")
    done = await run_git(kit, ctx, ctx.workspace.root, "rev-parse", "--verify", "-q", "HEAD^{commit}")
    if done.returncode:
        why = done.stderr.decode("utf-8", "replace").strip() or "the repository has no commit yet"
        return WorktreeResult(problem=f"a worktree needs a git repository with a commit: {why}")
    workspace.make_folders(location.parent)
    workspace.write(location.parent / ".gitignore", b"*\n")
    done = await run_git(kit, ctx, ctx.workspace.root, "worktree", "add", "-b", BRANCH + name, location.text, "HEAD")
    if done.returncode:
        return WorktreeResult(
            problem=f"git could not make the worktree: {done.stderr.decode('utf-8', 'replace').strip()}"
        )
    if not workspace.is_folder(location):
        return WorktreeResult(problem=f"{FOLDER}/{name} was replaced by something else while git made it")
    return WorktreeResult(location.text)


def name_problem(name: str) -> str:
    """Why a name is not valid for a worktree; empty if it is."""
    if NAME.fullmatch(name) and not name.endswith((".", ".lock")) and ".." not in name:
        return ""
    return f"{name!r} is not a valid worktree name: use at most 64 letters, digits, dots and dashes"


def is_own_folder(folder: WorkspacePath) -> bool:
    """Whether the path is a real folder, not a link, or does not exist."""
    return workspace.is_folder(folder) or not workspace.exists(folder)


def _hook_worktree(path: str, ctx: ToolContext) -> WorktreeResult:
    real = followed(os.path.join(ctx.workspace.root, path))
    try:
        location = paths.locate(real, ctx)
    except paths.PathRefused as refusal:
        return WorktreeResult(problem=f"the WorktreeCreate hook's path cannot be used: {refusal}")
    return (
        WorktreeResult(real)
        if workspace.is_folder(location)
        else WorktreeResult(problem=f"the WorktreeCreate hook made no folder {real}")
    )


async def unsaved_work(kit: Kit, ctx: ToolContext, path: str) -> str:
    """What would be lost if a worktree were removed; empty if nothing would."""
    if waits := await asyncio.to_thread(workspace.endless_ignore_file, paths.locate(path, ctx), lambda: False):
        return f"{paths.relative(waits, ctx)} never ends, so git cannot list the changes, which"
    status = await run_git(kit, ctx, path, "status", "--porcelain", "--ignored=no")
    if status.returncode:
        return f"git cannot list the changes: {status.stderr.decode('utf-8', 'replace').strip()}"
    changed = status.stdout.decode("utf-8", "replace").splitlines()
    branch = BRANCH + os.path.basename(path)
    others = ("--not", f"--exclude={branch}", "--branches", "--remotes", "--tags")
    ahead = await run_git(kit, ctx, path, "rev-list", "--count", "HEAD", *others)
    commits = ahead.stdout.decode().strip() if ahead.returncode == 0 else "some"
    parts = [f"{len(changed)} uncommitted changes"] if changed else []
    parts += [f"{commits} commits that no other branch has"] if commits != "0" else []
    return " and ".join(parts)


async def remove_worktree(kit: Kit, ctx: ToolContext, path: str, *, discard: bool = False) -> str:
    """Removes a worktree; returns why it could not, or an empty text."""
    if not discard and (what := await unsaved_work(kit, ctx, path)):
        return f"{what} would be lost. Commit or merge them, keep the worktree, or set discard_changes"
    await ctx.host.run_hooks("WorktreeRemove", {"worktree_path": path})
    force = ("--force",) if discard else ()
    done = await run_git(kit, ctx, ctx.workspace.root, "worktree", "remove", *force, path)
    if done.returncode:
        return f"git could not remove the worktree: {done.stderr.decode('utf-8', 'replace').strip()}"
    await run_git(kit, ctx, ctx.workspace.root, "branch", "-D", BRANCH + os.path.basename(path))
    return ""


async def run_git(kit: Kit, ctx: ToolContext, cwd: str, *words: str) -> process.Finished:
    """Runs hardened git as Bash does: no filter, hook or program from the repository's settings runs."""
    from adderclaw.tools.legacy import hardened_git

    roots = (ctx.workspace.root, *ctx.workspace.extra)
    text = hardened_git.git(words, roots)
    if not text:
        return process.Finished(127, b"", b"git is not installed")
    env = process.environment(workspace_roots=roots)
    argv = ["/bin/bash", "--norc", "--noprofile", "-c", text]
    return await process.run(argv, cwd=cwd, env=env, timeout=SECONDS, start=process.in_view(kit.start, "git"))


# ------------------------------------------------------------------ the tools

NOT_INSIDE = "The session is not in a worktree that EnterWorktree made."


def _enter_problem(arguments: EnterWorktreeArguments, ctx: ToolContext) -> str:
    if bool(arguments.name) == bool(arguments.path):
        return "Give either the name of a new worktree or the path of an existing one."
    inside = current_worktree(ctx)
    return f"The session is already in the worktree {inside}. Leave it first with ExitWorktree." if inside else ""


def tools(kit: Kit) -> tuple[Tool[Any], ...]:
    def prepare_enter(arguments: EnterWorktreeArguments, ctx: ToolContext) -> Prepared:
        fact = paths.path_fact(_worktree_path(arguments, ctx), ctx)
        touch = _enter_touch(fact, arguments, ctx)
        return Prepared(touch, lambda: enter(fact, arguments, ctx), fails=lambda: _enter_problem(arguments, ctx))

    async def enter(fact: PathFact, arguments: EnterWorktreeArguments, ctx: ToolContext) -> ToolResult:
        if why := _enter_problem(arguments, ctx):
            return rejected(why)
        if arguments.path:
            location = paths.locate(fact.real, ctx)
            is_worktree = workspace.is_file(location / ".git")
            worktree = (
                WorktreeResult(location.text)
                if is_worktree
                else WorktreeResult(problem=f"{location.text} is not a worktree")
            )
        else:
            worktree = await create_worktree(kit, ctx, arguments.name)
        if worktree.problem:
            return rejected(worktree.problem)
        ctx.workspace.cwd = worktree.path
        return own_words(f"Now working in {worktree.path}: relative paths and commands start there.")

    def prepare_leave(arguments: ExitWorktreeArguments, ctx: ToolContext) -> Prepared:
        inside = current_worktree(ctx)
        fails = "" if inside else NOT_INSIDE
        return Prepared(_exit_touch(inside, arguments, ctx), lambda: leave(inside, arguments, ctx), fails=lambda: fails)

    async def leave(inside: str, arguments: ExitWorktreeArguments, ctx: ToolContext) -> ToolResult:
        if not inside:
            return rejected(NOT_INSIDE)
        if arguments.action == "remove" and (
            why := await remove_worktree(kit, ctx, inside, discard=arguments.discard_changes)
        ):
            return rejected(f"The worktree was not removed: {why}.")
        ctx.workspace.cwd = ctx.workspace.root
        outcome = (
            "removed" if arguments.action == "remove" else f"kept, with its branch {BRANCH}{os.path.basename(inside)}"
        )
        return own_words(f"Back in {ctx.workspace.root}; the worktree {inside} is {outcome}.")

    return (
        builtin_tool(
            "EnterWorktree",
            EnterWorktreeArguments,
            paths.catch_refusals(prepare_enter),
            timeout=lambda _arguments: SECONDS * 3,
            deferred=True,
        ),
        builtin_tool(
            "ExitWorktree",
            ExitWorktreeArguments,
            paths.catch_refusals(prepare_leave),
            timeout=lambda _arguments: SECONDS * 4,
            deferred=True,
        ),
    )
