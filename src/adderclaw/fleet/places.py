"""What a run works on: an archive that was submitted, or a repository elsewhere; never a path of the worker's disk."""

import os
import re
import subprocess

from adderclaw.errors import UsageError
from adderclaw.record import record

_HOST = r"[a-zA-Z0-9][\w.-]*"
REMOTE = re.compile(rf"https://{_HOST}(:\d+)?/\S+|ssh://({_HOST}@)?{_HOST}(:\d+)?/\S+|{_HOST}@{_HOST}:\S+", re.ASCII)
"""Addresses of repositories; with no password, which would be a row of the database."""
LOCAL = re.compile(r"(file://)?/.*")
COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@record
class Place:
    """As the row of a run has it; who may write rows may write anything."""

    archive: str | None = None
    repo: str | None = None
    commit: str | None = None


def require_reachable(url: str, *, local: bool) -> None:
    """Refuse what a worker does not clone. `local`: fleet.toml of this machine allows paths of its disk."""
    if REMOTE.fullmatch(url) or (local and LOCAL.fullmatch(url)):
        return
    takes = "https://HOST/PATH without a password, ssh://USER@HOST/PATH or USER@HOST:PATH"
    more = "" if local else "; paths of a disk only where fleet.toml has local_repos = true"
    raise UsageError(f"the repository {url[:200]!r} is none that a worker clones: {takes}{more}")


def protocols(*, local: bool) -> tuple[str, ...]:
    """Options of git: it is led to no other protocol, whatever it is told on the way."""
    allowed = ("https", "ssh", *(("file",) if local else ()))
    return ("-c", "protocol.allow=never", *(word for one in allowed for word in ("-c", f"protocol.{one}.allow=always")))


def split(given: str) -> tuple[str, str]:
    """`URL@REF`, or a URL alone: then what is behind its @ is a host."""
    url, at, ref = given.rpartition("@")
    has_ref = at and ":" not in ref and (REMOTE.fullmatch(url) or LOCAL.fullmatch(url))
    url, ref = (url, ref) if has_ref else (given, "HEAD")
    if url.startswith("-") or ref.startswith("-") or not url or not ref:
        raise UsageError(f"--repo {given!r}: it takes URL@REF")
    return url, ref


def repository(given: str, *, local: bool) -> dict[str, str]:
    """`URL@REF` at the commit that it is now."""
    url, ref = split(given)
    require_reachable(url, local=local)
    if COMMIT.fullmatch(ref):
        return {"repo": url, "commit": ref}
    quiet = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": ""}
    step = ("git", *protocols(local=local), "ls-remote", "--", url, ref, f"{ref}^{{}}")
    try:
        done = subprocess.run(step, capture_output=True, env=quiet, timeout=60, check=False)
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"--repo {url}: it did not answer within 60 s") from error
    found = [line.split() for line in done.stdout.decode("utf-8", "replace").splitlines()]
    if done.returncode or not found:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise UsageError(f"--repo {given}: {said[-1] if said else f'it has no {ref}'}")
    return {"repo": url, "commit": found[-1][0]}
