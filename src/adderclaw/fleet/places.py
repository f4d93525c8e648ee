"""What a run works on: a submitted archive or a remote repository, never a path of the worker's disk."""

import os
import re
import subprocess
from typing import TYPE_CHECKING

from adderclaw.core.errors import UsageError
from adderclaw.core.record import record
from adderclaw.sandbox import programs

if TYPE_CHECKING:
    from adderclaw.config import Config
    from adderclaw.flows.request import RunParams

_HOST = r"[a-zA-Z0-9][\w.-]*"
REMOTE = re.compile(rf"https://{_HOST}(:\d+)?/\S+|ssh://({_HOST}@)?{_HOST}(:\d+)?/\S+|{_HOST}@{_HOST}:\S+", re.ASCII)
"""Addresses of repositories. They may not contain a password, because they are stored in the database."""
LOCAL = re.compile(r"(file://)?/.*")
COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@record
class Place:
    """The place in a run's row, which is untrusted."""

    archive: str | None = None
    repo: str | None = None
    commit: str | None = None


LOCAL_ONLY = ("resume", "config", "dry_run", "debug_llm")
"""Parameters without meaning on another machine; a worker uses its own configuration."""
FILES = ("agentfile", "spec", "sop", "skills_dir")
"""Parameters that are paths in the workspace."""


def require_fit(params: "RunParams", workspace: str | None = None) -> None:
    """Refuses parameters that a run on another machine may not have. Submitter and worker both check this.

    `workspace`: also refuses links in it that lead out, because error messages would reveal files of the worker.
    """
    if unfit := [name for name in LOCAL_ONLY if getattr(params, name)]:
        raise UsageError(f"{', '.join(unfit)}: this cannot be used for a run on another machine")
    for name in FILES:
        path = str(getattr(params, name) or "")
        if path.startswith(("/", "~")) or ".." in path.split("/"):
            raise UsageError(f"{name} {path!r}: give a path relative to the workspace, without ..")
        if path and workspace is not None:
            within = os.path.realpath(workspace)
            if not os.path.realpath(os.path.join(within, path)).startswith(f"{within}/"):
                raise UsageError(f"{name} {path!r} leads out of the workspace")


def require_allowed(params: "RunParams", config: "Config") -> None:
    """Refuses a profile or limits beyond those of the worker's own configuration."""
    from adderclaw.config.managed import PROFILES, profile_for_others
    from adderclaw.flows.request import limits_above_own

    most = profile_for_others(config)
    if params.profile is not None and PROFILES.index(params.profile) > PROFILES.index(most):
        fix = f'its operator allows it: profile = "{params.profile}" under [runtime] in config.toml there'
        why = "this worker runs nothing without its sandbox" if params.profile == "permissive" else f"{most} at most"
        raise UsageError(f"profile {params.profile}: {why}; {fix}")
    if limits := limits_above_own(params, config.limits):
        fix = "its operator allows more under [limits] in config.toml there"
        raise UsageError(f"limits: a run on this worker may use up at most: {limits}; {fix}")


def require_reachable(url: str, *, local: bool) -> None:
    """Refuses addresses that workers do not clone. `local`: fleet.toml of this machine allows local paths."""
    if REMOTE.fullmatch(url) or (local and LOCAL.fullmatch(url)):
        return
    takes = "https://HOST/PATH without a password, ssh://USER@HOST/PATH or USER@HOST:PATH"
    more = "" if local else "; local paths only if fleet.toml has local_repos = true"
    raise UsageError(f"the repository {url[:200]!r} cannot be cloned by a worker: use {takes}{more}")


def require_commit(url: str, commit: str) -> None:
    """Refuses a text that git would not read as a commit, such as an option."""
    if COMMIT.fullmatch(commit) is None:
        raise UsageError(f"{url} at {commit[:100]!r} cannot be cloned: that is not a commit")


def protocol_options(*, local: bool) -> tuple[str, ...]:
    """Options of git that forbid every other protocol, also for redirects."""
    allowed = ("https", "ssh", *(("file",) if local else ()))
    return (
        "-c",
        "protocol.allow=never",
        *(word for protocol in allowed for word in ("-c", f"protocol.{protocol}.allow=always")),
    )


def find_git() -> tuple[str, str]:
    """Git, and a PATH on which it finds ssh, without folders that runs may write to."""
    git = programs.resolve_outside_sessions("git")
    if git is None:
        raise UsageError("git was not found on PATH outside of projects; install it")
    return git, os.pathsep.join(programs.search_path(programs.roots_outside_sessions()))


def split_ref(spec: str) -> tuple[str, str]:
    """Splits `URL@REF`, or a URL alone, in which an @ precedes the host."""
    url, at, ref = spec.rpartition("@")
    has_ref = at and ":" not in ref and (REMOTE.fullmatch(url) or LOCAL.fullmatch(url))
    url, ref = (url, ref) if has_ref else (spec, "HEAD")
    if url.startswith("-") or ref.startswith("-") or not url or not ref:
        raise UsageError(f"--repo {spec!r}: expected URL@REF")
    return url, ref


def resolve_ref_to_commit(spec: str, *, local: bool) -> dict[str, str]:
    """The repository and the current commit of `URL@REF`."""
    url, ref = split_ref(spec)
    require_reachable(url, local=local)
    if COMMIT.fullmatch(ref):
        return {"repo": url, "commit": ref}
    git, path = find_git()
    quiet = {**os.environ, "PATH": path, "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": ""}
    step = (git, *protocol_options(local=local), "ls-remote", "--", url, ref, f"{ref}^{{}}")
    try:
        done = subprocess.run(step, capture_output=True, env=quiet, timeout=60, check=False)
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"--repo {url}: it did not answer within 60 s") from error
    refs = (line.split("\t") for line in done.stdout.decode("utf-8", "replace").splitlines())
    commits = {fields[1]: fields[0] for fields in refs if len(fields) == 2}
    commit = next((commits[name] for name in _names(ref) if name in commits), None)
    if done.returncode or commit is None:
        errors = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise UsageError(f"--repo {spec}: {errors[-1] if errors else f'it has no {ref}'}")
    return {"repo": url, "commit": commit}


def _names(ref: str) -> tuple[str, ...]:
    """The full names of a ref in the order of git, which lists every ref with this ending. A tag means its commit."""
    whole = (ref, f"refs/{ref}", f"refs/tags/{ref}", f"refs/heads/{ref}")
    return tuple(name for candidate in whole for name in (f"{candidate}^{{}}", candidate))
