"""Who commits: the operator's name and address, from their own settings of git, as data."""

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


async def of_operator(roots: Sequence[str]) -> Identity:
    """Asked once per program and home: what the operator set for all of their repositories, or in the environment.

    The git that is asked runs outside of the sandbox: never one of the workspace.
    """
    host = os.environ
    key = (host.get("HOME", ""), host.get("XDG_CONFIG_HOME", ""), host.get("GIT_AUTHOR_NAME", ""))
    if key not in _known:
        _known[key] = await _asked(roots)
    return _known[key]


async def _asked(roots: Sequence[str]) -> Identity:
    host = os.environ
    found = await _settings(roots)
    return Identity(
        _line(host.get("GIT_AUTHOR_NAME") or found.get("user.name", "")),
        _line(host.get("GIT_AUTHOR_EMAIL") or found.get("user.email", "")),
    )


async def _settings(roots: Sequence[str]) -> dict[str, str]:
    git, place = programs.resolve("git", roots), home()
    if git is None or not os.path.isdir(place):
        return {}
    env = {name: os.environ[name] for name in ("HOME", "XDG_CONFIG_HOME") if name in os.environ}
    # In our own folder, and never looking for a repository above it: no project has a say in it.
    env |= {
        "PATH": os.pathsep.join(programs.search_path(roots)),
        "GIT_CEILING_DIRECTORIES": os.path.dirname(place),
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    argv = [git, "config", "--global", "--includes", "-z", "--get-regexp", r"^user\.(name|email)$"]
    try:
        done = await process.run(argv, cwd=place, env=env, timeout=SECONDS)
    except OSError:
        return {}
    pairs = (entry.partition("\n") for entry in done.stdout.decode("utf-8", "replace").split("\0") if entry)
    return {key: value for key, _, value in pairs}


def _line(text: str) -> str:
    """A name is one line without what git itself leaves out."""
    return "".join(sign for sign in text if sign.isprintable())[:200]
