"""Who commits: the operator's name and address, from their own settings of git, as data."""

import os

from adderclaw.config import home
from adderclaw.record import NamedTuple
from adderclaw.sandbox import process, programs

SECONDS = 5.0


class Identity(NamedTuple):
    name: str = ""
    email: str = ""


NOBODY = Identity()
_known: dict[tuple[str, ...], Identity] = {}


async def of_operator() -> Identity:
    """Asked once per program and home: what the operator set for all of their repositories, or in the environment."""
    host = os.environ
    key = (host.get("HOME", ""), host.get("XDG_CONFIG_HOME", ""), host.get("GIT_AUTHOR_NAME", ""))
    if key not in _known:
        _known[key] = await _asked()
    return _known[key]


async def _asked() -> Identity:
    host = os.environ
    found = await _settings()
    return Identity(
        _line(host.get("GIT_AUTHOR_NAME") or found.get("user.name", "")),
        _line(host.get("GIT_AUTHOR_EMAIL") or found.get("user.email", "")),
    )


async def _settings() -> dict[str, str]:
    git, place = programs.resolve("git"), home()
    if git is None or not os.path.isdir(place):
        return {}
    env = {name: os.environ[name] for name in ("HOME", "XDG_CONFIG_HOME", "PATH") if name in os.environ}
    # In our own folder, and never looking for a repository above it: no project has a say in it.
    env |= {"GIT_CEILING_DIRECTORIES": os.path.dirname(place), "GIT_CONFIG_NOSYSTEM": "1"}
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
