"""The operator's commit name and address, read from their git settings."""

import os
from collections.abc import Sequence

from adderclaw.config import home
from adderclaw.core.record import NamedTuple
from adderclaw.sandbox import process, programs

SECONDS = 5.0


class Identity(NamedTuple):
    name: str = ""
    email: str = ""


NOBODY = Identity()
_known: dict[tuple[str, ...], Identity] = {}


async def operator_identity(roots: Sequence[str]) -> Identity:
    """The name and address from the operator's global git settings or the environment, read once per home.

    This git runs outside the sandbox, so a git program in the workspace is never used.
    """
    host = os.environ
    key = (host.get("HOME", ""), host.get("XDG_CONFIG_HOME", ""), host.get("GIT_AUTHOR_NAME", ""))
    if key not in _known:
        _known[key] = await _read_identity(roots)
    return _known[key]


async def _read_identity(roots: Sequence[str]) -> Identity:
    host = os.environ
    settings = await _git_settings(roots)
    return Identity(
        _printable(host.get("GIT_AUTHOR_NAME") or settings.get("user.name", "")),
        _printable(host.get("GIT_AUTHOR_EMAIL") or settings.get("user.email", "")),
    )


async def _git_settings(roots: Sequence[str]) -> dict[str, str]:
    git, folder = programs.resolve("git", roots), home()
    if git is None or not os.path.isdir(folder):
        return {}
    env = {name: os.environ[name] for name in ("HOME", "XDG_CONFIG_HOME") if name in os.environ}
    # Run in AdderClaw's home, without searching for a repository above it, so no project has any influence.
    env |= {
        "PATH": os.pathsep.join(programs.search_path(roots)),
        "GIT_CEILING_DIRECTORIES": os.path.dirname(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    argv = [git, "config", "--global", "--includes", "-z", "--get-regexp", r"^user\.(name|email)$"]
    try:
        done = await process.run(argv, cwd=folder, env=env, timeout=SECONDS)
    except OSError:
        return {}
    pairs = (entry.partition("\n") for entry in done.stdout.decode("utf-8", "replace").split("\0") if entry)
    return {key: value for key, _, value in pairs}


def _printable(text: str) -> str:
    """The printable characters of a name: git drops the others."""
    return "".join(sign for sign in text if sign.isprintable())[:200]
