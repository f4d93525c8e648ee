"""Prepares a run on a new branch, or in a copy of HEAD with a separate repository.

Uncommitted changes are never reset, cleaned, stashed or switched away. The copy shares nothing with the original
repository, whose index, branches and objects cannot be changed from there.
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
    """Create a branch at HEAD and switch to it, unless it is the current branch."""
    asyncio.run(_with_git(options, lambda environment: _branch(environment, name)))


def in_worktree(options: Options, name: str, spec: str | None) -> str:
    """Create a copy of HEAD; returns its folder. `spec`: the path of a specification that must be in it."""
    if wrong := worktree.name_problem(name):
        raise UsageError(f"--worktree: {wrong}")
    return asyncio.run(_with_git(options, lambda environment: _copy(environment, name, spec)))


async def _with_git[T](options: Options, work: Work[T]) -> T:
    """Run work with git in the sandbox that a run in this workspace would have."""
    runtime = start(replace(options, log_level="error"))
    try:
        environment = tool_environment(runtime, None)
        environment.kit.begin()
        return await work(environment)
    finally:
        await asyncio.to_thread(runtime.close_boxes)


async def _branch(environment: ToolEnvironment, name: str) -> None:
    await _require_commit(environment)
    if name.startswith("-") or (await _git(environment, "check-ref-format", f"refs/heads/{name}")).returncode:
        raise UsageError(f"--branch: {name!r} is not a valid branch name")
    current = await _git(environment, "symbolic-ref", "-q", "HEAD")
    if current.stdout.decode("utf-8", "replace").rstrip("\n") == f"refs/heads/{name}":
        return
    if not (await _git(environment, "show-ref", "--verify", "-q", f"refs/heads/{name}")).returncode:
        raise UsageError(f"--branch: the branch {name!r} already exists and is not the current one; use another name")
    done = await _git(environment, "switch", "--no-track", "-c", name)
    if done.returncode:
        raise UsageError(f"--branch: git could not create {name!r}: {_error_text(done)}")


async def _copy(environment: ToolEnvironment, name: str, spec: str | None) -> str:
    root = environment.context.workspace.root
    path = WorkspacePath(root, f"{worktree.FOLDER}/{name}")
    if not worktree.is_own_folder(path.parent):
        raise UsageError(f"--worktree: {worktree.FOLDER} is a link or a file, not a folder; remove it")
    if workspace.exists(path):
        fix = f"continue in it with `adderclaw run --workspace {path.relative}`, or use another name"
        raise UsageError(f"--worktree: {path.relative} already exists; {fix}")
    await _require_commit(environment)
    top = (await _git(environment, "rev-parse", "--show-cdup")).stdout.strip()
    if top:
        raise UsageError(f"--worktree: {root} is only part of its repository; start in the repository's top folder")
    if spec is not None and (await _git(environment, "cat-file", "-e", f"HEAD:{spec}")).returncode:
        raise UsageError(f"--worktree: {spec} is not in the last commit, which is copied; commit it first")
    workspace.make_folders(path.parent)
    workspace.write(path.parent / ".gitignore", b"*\n")
    alone = ("--no-hardlinks", "--no-tags", "--template=", "--quiet")
    done = await _git(environment, "clone", *alone, "--no-checkout", root, path.text)
    commit = (await _git(environment, "rev-parse", "HEAD")).stdout.decode().strip()
    if not done.returncode:
        done = await _git(environment, "switch", "--no-track", "-c", f"{worktree.BRANCH}{name}", commit, cwd=path.text)
    if done.returncode or not workspace.is_folder(path):
        raise UsageError(f"--worktree: git could not create {path.relative}: {_error_text(done)}")
    return path.text


async def _require_commit(environment: ToolEnvironment) -> None:
    done = await _git(environment, "rev-parse", "--verify", "-q", "HEAD^{commit}")
    if done.returncode:
        why = _error_text(done) or "the repository has no commit yet"
        raise UsageError(f"--branch and --worktree need a git repository with a commit: {why}")


async def _git(environment: ToolEnvironment, *words: str, cwd: str = "") -> process.Finished:
    return await worktree.run_git(
        environment.kit, environment.context, cwd or environment.context.workspace.root, *words
    )


def _error_text(done: process.Finished) -> str:
    return done.stderr.decode("utf-8", "replace").strip()


def fetch_hint(path: str) -> str:
    """How to get the work from a copy."""
    name = os.path.basename(path)
    way = f"{worktree.FOLDER}/{name}"
    return f"the work is in {path}; `git fetch {way} HEAD:{worktree.BRANCH}{name}` fetches its commits"
