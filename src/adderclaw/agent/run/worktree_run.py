"""Where a run works that is not to work in place: on a new branch, or in a copy of HEAD with a repository of its own.

Nothing that is not committed is reset, cleaned, stashed or switched away. The copy shares nothing with the person's
repository: neither its index, its branches nor its objects can be changed from there.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace

from adderclaw.agent.run.start import start
from adderclaw.agent.run.tool_environment import tool_environment
from adderclaw.agent.session.session import ToolEnvironment
from adderclaw.config.legacy.options import Options
from adderclaw.core.errors import UsageError
from adderclaw.sandbox import process, workspace
from adderclaw.sandbox.workspace import WorkspacePath
from adderclaw.tools import worktree

type Work[T] = Callable[[ToolEnvironment], Awaitable[T]]


def on_branch(options: Options, name: str) -> None:
    """Begin a branch at HEAD; one that is the current one already is gone on with."""
    asyncio.run(_used(options, lambda here: _branch(here, name)))


def in_worktree(options: Options, name: str, spec: str | None) -> str:
    """A new copy of HEAD; returns its folder. `spec` is the path of a specification that must be in it."""
    if wrong := worktree.name_problem(name):
        raise UsageError(f"--worktree: {wrong}")
    return asyncio.run(_used(options, lambda here: _copy(here, name, spec)))


async def _used[T](options: Options, work: Work[T]) -> T:
    """Do something with git in the sandbox that a run in this workspace would have."""
    runtime = start(replace(options, log_level="error"))
    try:
        here = tool_environment(runtime, None)
        here.kit.begin()
        return await work(here)
    finally:
        await asyncio.to_thread(runtime.close_boxes)


async def _branch(here: ToolEnvironment, name: str) -> None:
    await _require_commit(here)
    if name.startswith("-") or (await _git(here, "check-ref-format", f"refs/heads/{name}")).returncode:
        raise UsageError(f"--branch: {name!r} is no name of a branch")
    current = await _git(here, "symbolic-ref", "-q", "HEAD")
    if current.stdout.decode("utf-8", "replace").rstrip("\n") == f"refs/heads/{name}":
        return
    if not (await _git(here, "show-ref", "--verify", "-q", f"refs/heads/{name}")).returncode:
        raise UsageError(
            f"--branch: there is a branch {name!r} already, and it is not the current one: take another name"
        )
    done = await _git(here, "switch", "--no-track", "-c", name)
    if done.returncode:
        raise UsageError(f"--branch: git could not begin {name!r}: {_said(done)}")


async def _copy(here: ToolEnvironment, name: str, spec: str | None) -> str:
    root = here.context.workspace.root
    place = WorkspacePath(root, f"{worktree.FOLDER}/{name}")
    if not worktree.is_own_folder(place.parent):
        raise UsageError(f"--worktree: {worktree.FOLDER} is no folder of the workspace but a link or a file: remove it")
    if workspace.exists(place):
        fix = f"`adderclaw run --workspace {place.relative}` goes on in it, or take another name"
        raise UsageError(f"--worktree: {place.relative} is there already: {fix}")
    await _require_commit(here)
    top = (await _git(here, "rev-parse", "--show-cdup")).stdout.strip()
    if top:
        raise UsageError(f"--worktree: {root} is only a part of its repository: begin in the folder that holds it all")
    if spec is not None and (await _git(here, "cat-file", "-e", f"HEAD:{spec}")).returncode:
        raise UsageError(f"--worktree: {spec} is not in the last commit, of which the copy is made: commit it first")
    workspace.make_folders(place.parent)
    workspace.write(place.parent / ".gitignore", b"*\n")
    alone = ("--no-hardlinks", "--no-tags", "--template=", "--quiet")
    done = await _git(here, "clone", *alone, "--no-checkout", root, place.text)
    commit = (await _git(here, "rev-parse", "HEAD")).stdout.decode().strip()
    if not done.returncode:
        done = await _git(here, "switch", "--no-track", "-c", f"{worktree.BRANCH}{name}", commit, cwd=place.text)
    if done.returncode or not workspace.is_folder(place):
        raise UsageError(f"--worktree: git could not make {place.relative}: {_said(done)}")
    return place.text


async def _require_commit(here: ToolEnvironment) -> None:
    done = await _git(here, "rev-parse", "--verify", "-q", "HEAD^{commit}")
    if done.returncode:
        why = _said(done) or "the repository has no commit yet"
        raise UsageError(f"--branch and --worktree need a git repository with a commit: {why}")


async def _git(here: ToolEnvironment, *words: str, cwd: str = "") -> process.Finished:
    return await worktree.run_git(here.kit, here.context, cwd or here.context.workspace.root, *words)


def _said(done: process.Finished) -> str:
    return done.stderr.decode("utf-8", "replace").strip()


def take_over(path: str) -> str:
    """How the person gets what was done in a copy."""
    name = os.path.basename(path)
    way = f"{worktree.FOLDER}/{name}"
    return f"the work is in {path}; `git fetch {way} HEAD:{worktree.BRANCH}{name}` brings what was committed there"
