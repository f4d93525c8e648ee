"""EnterWorktree and ExitWorktree: a git worktree in the workspace to work in apart, and out of it with nothing lost."""

import asyncio
import os
import re
from typing import Any, Literal, NamedTuple

from adderclaw.config.paths import followed
from adderclaw.core.record import record
from adderclaw.core.types import PathFact, Prepared, Tool, ToolContext, ToolResult, Touch, own_words, rejected
from adderclaw.sandbox import process, workspace
from adderclaw.sandbox.workspace import Place
from adderclaw.tools import Kit, paths
from adderclaw.tools.specs import spec

FOLDER = ".worktrees"
"""In the workspace; it ignores itself, so that git does not show it."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
BRANCH = "worktree-"
SECONDS = 60.0


@record
class EnterWorktreeArguments:
    name: str = ""
    """Of a new worktree: letters, digits, dots, dashes."""
    path: str = ""
    """One that is there already."""


@record
class ExitWorktreeArguments:
    action: Literal["keep", "remove"]
    discard_changes: bool = False
    """Remove it though something in it would be lost."""


class Made(NamedTuple):
    """A worktree, or why there is none."""

    path: str = ""
    problem: str = ""


def _entering(place: PathFact, arguments: EnterWorktreeArguments, ctx: ToolContext) -> Touch:
    if arguments.path:
        return Touch(reads=(place,), why=paths.why("enters", "in", place, ctx))
    return Touch(writes=(place,), why=paths.why("makes a git worktree", "in", place, ctx))


def _leaving(inside: str, arguments: ExitWorktreeArguments, ctx: ToolContext) -> Touch:
    if arguments.action == "keep" or not inside:
        return Touch(why="leaves the worktree")
    place = paths.fact(inside, ctx)
    return Touch(writes=(place,), why=paths.why("removes a git worktree", "from", place, ctx))


def _wanted(arguments: EnterWorktreeArguments, ctx: ToolContext) -> str:
    return arguments.path or os.path.join(ctx.workspace.root, FOLDER, arguments.name or "unnamed")


def current(ctx: ToolContext) -> str:
    """The worktree that the session is in, if it is one of ours."""
    home = os.path.join(followed(ctx.workspace.root), FOLDER, "")
    here = followed(ctx.workspace.cwd)
    return home + here[len(home) :].split("/", 1)[0] if here.startswith(home) else ""


# ------------------------------------------------------------------ making and removing


async def create(kit: Kit, ctx: ToolContext, name: str) -> Made:
    """A new worktree with a branch of its own; the Agent tool isolates a subagent with it."""
    if wrong := misnamed(name):
        return Made(problem=wrong)
    place = Place(ctx.workspace.root, f"{FOLDER}/{name}")
    said = await ctx.host.run_hooks("WorktreeCreate", {"name": name})
    if said.blocked:
        return Made(problem=f"a WorktreeCreate hook refused: {said.reason}")
    if by_hook := said.specific.get("worktreePath"):
        return _by_hook(str(by_hook), ctx)
    if not is_own_folder(place.parent):
        return Made(problem=f"{FOLDER} is no folder of the workspace but a link or a file: remove it first")
    if workspace.exists(place):
        return Made(problem=f"{FOLDER}/{name} is there already: enter it by its path, or take another name")
    done = await git(kit, ctx, ctx.workspace.root, "rev-parse", "--verify", "-q", "HEAD^{commit}")
    if done.returncode:
        why = done.stderr.decode("utf-8", "replace").strip() or "the repository has no commit yet"
        return Made(problem=f"a worktree needs a git repository with a commit: {why}")
    workspace.make_folders(place.parent)
    workspace.write(place.parent / ".gitignore", b"*\n")
    done = await git(kit, ctx, ctx.workspace.root, "worktree", "add", "-b", BRANCH + name, place.text, "HEAD")
    if done.returncode:
        return Made(problem=f"git could not make it: {done.stderr.decode('utf-8', 'replace').strip()}")
    if not workspace.is_folder(place):
        return Made(problem=f"{FOLDER}/{name} was exchanged for something else while git made it")
    return Made(place.text)


def misnamed(name: str) -> str:
    """Why this cannot be the name of a worktree; empty where it can."""
    if NAME.fullmatch(name) and not name.endswith((".", ".lock")) and ".." not in name:
        return ""
    return f"{name!r} is no name of a worktree: letters, digits, dots and dashes, at most 64"


def is_own_folder(place: Place) -> bool:
    """Whether a folder is there that no link leads to, or nothing at all."""
    return workspace.is_folder(place) or not workspace.exists(place)


def _by_hook(path: str, ctx: ToolContext) -> Made:
    real = followed(os.path.join(ctx.workspace.root, path))
    try:
        place = paths.locate(real, ctx)
    except paths.PathRefused as refusal:
        return Made(problem=f"the WorktreeCreate hook's path cannot be used: {refusal}")
    return Made(real) if workspace.is_folder(place) else Made(problem=f"the WorktreeCreate hook made no folder {real}")


async def lost(kit: Kit, ctx: ToolContext, path: str) -> str:
    """What would be lost if a worktree were removed; empty when nothing would."""
    if waits := await asyncio.to_thread(workspace.endless, paths.locate(path, ctx), lambda: False):
        return f"{paths.relative(waits, ctx)} cannot be read to its end, so that git cannot say what is in it, which"
    status = await git(kit, ctx, path, "status", "--porcelain", "--ignored=no")
    if status.returncode:
        return f"git cannot say what is in it: {status.stderr.decode('utf-8', 'replace').strip()}"
    changed = status.stdout.decode("utf-8", "replace").splitlines()
    branch = BRANCH + os.path.basename(path)
    others = ("--not", f"--exclude={branch}", "--branches", "--remotes", "--tags")
    ahead = await git(kit, ctx, path, "rev-list", "--count", "HEAD", *others)
    commits = ahead.stdout.decode().strip() if ahead.returncode == 0 else "some"
    parts = [f"{len(changed)} uncommitted changes"] if changed else []
    parts += [f"{commits} commits that no other branch has"] if commits != "0" else []
    return " and ".join(parts)


async def remove(kit: Kit, ctx: ToolContext, path: str, *, discard: bool = False) -> str:
    """Remove a worktree of ours; says why not, or nothing."""
    if not discard and (what := await lost(kit, ctx, path)):
        return f"{what} would be lost: commit or merge them, keep the worktree, or say discard_changes"
    await ctx.host.run_hooks("WorktreeRemove", {"worktree_path": path})
    force = ("--force",) if discard else ()
    done = await git(kit, ctx, ctx.workspace.root, "worktree", "remove", *force, path)
    if done.returncode:
        return f"git could not remove it: {done.stderr.decode('utf-8', 'replace').strip()}"
    await git(kit, ctx, ctx.workspace.root, "branch", "-D", BRANCH + os.path.basename(path))
    return ""


async def git(kit: Kit, ctx: ToolContext, cwd: str, *words: str) -> process.Finished:
    """Hardened git, as Bash runs it: no filter, hook or program of the repository's settings runs."""
    from adderclaw.tools.legacy import hardened_git

    roots = (ctx.workspace.root, *ctx.workspace.extra)
    text = hardened_git.git(words, roots)
    if not text:
        return process.Finished(127, b"", b"git is not installed")
    env = process.environment(workspace_roots=roots)
    argv = ["/bin/bash", "--norc", "--noprofile", "-c", text]
    return await process.run(argv, cwd=cwd, env=env, timeout=SECONDS, start=process.in_view(kit.start, "git"))


# ------------------------------------------------------------------ the tools

NOT_INSIDE = "the session is in no worktree of its own"


def _not_entered(arguments: EnterWorktreeArguments, ctx: ToolContext) -> str:
    if bool(arguments.name) == bool(arguments.path):
        return "give either the name of a new worktree or the path of one that is there"
    inside = current(ctx)
    return f"the session is in the worktree {inside} already: leave it first with ExitWorktree" if inside else ""


def tools(kit: Kit) -> tuple[Tool[Any], ...]:
    def prepare_enter(arguments: EnterWorktreeArguments, ctx: ToolContext) -> Prepared:
        fact = paths.fact(_wanted(arguments, ctx), ctx)
        touch = _entering(fact, arguments, ctx)
        return Prepared(touch, lambda: enter(fact, arguments, ctx), fails=lambda: _not_entered(arguments, ctx))

    async def enter(fact: PathFact, arguments: EnterWorktreeArguments, ctx: ToolContext) -> ToolResult:
        if why := _not_entered(arguments, ctx):
            return rejected(why)
        if arguments.path:
            place = paths.locate(fact.real, ctx)
            found = workspace.is_file(place / ".git")
            made = Made(place.text) if found else Made(problem=f"{place.text} is no worktree")
        else:
            made = await create(kit, ctx, arguments.name)
        if made.problem:
            return rejected(made.problem)
        ctx.workspace.cwd = made.path
        return own_words(f"Working in {made.path} now: relative paths and commands start there.")

    def prepare_leave(arguments: ExitWorktreeArguments, ctx: ToolContext) -> Prepared:
        inside = current(ctx)
        fails = "" if inside else NOT_INSIDE
        return Prepared(_leaving(inside, arguments, ctx), lambda: leave(inside, arguments, ctx), fails=lambda: fails)

    async def leave(inside: str, arguments: ExitWorktreeArguments, ctx: ToolContext) -> ToolResult:
        if not inside:
            return rejected(NOT_INSIDE)
        if arguments.action == "remove" and (why := await remove(kit, ctx, inside, discard=arguments.discard_changes)):
            return rejected(f"The worktree stays: {why}.")
        ctx.workspace.cwd = ctx.workspace.root
        kept = (
            "removed" if arguments.action == "remove" else f"kept, with its branch {BRANCH}{os.path.basename(inside)}"
        )
        return own_words(f"Back in {ctx.workspace.root}; the worktree {inside} is {kept}.")

    entering, leaving = spec("EnterWorktree"), spec("ExitWorktree")
    return (
        Tool(
            "EnterWorktree",
            EnterWorktreeArguments,
            paths.answered(prepare_enter),
            entering.description,
            entering.parameters,
            timeout=lambda _arguments: SECONDS * 3,
            deferred=True,
        ),
        Tool(
            "ExitWorktree",
            ExitWorktreeArguments,
            paths.answered(prepare_leave),
            leaving.description,
            leaving.parameters,
            timeout=lambda _arguments: SECONDS * 4,
            deferred=True,
        ),
    )
