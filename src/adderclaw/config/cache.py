"""Caches a validated configuration, so that a start with unchanged files needs no parser and no validator."""

import hashlib
import json
import os
from collections.abc import Iterator
from typing import Any

from adderclaw import __version__
from adderclaw.config.paths import beneath, followed
from adderclaw.config.places import Request, read, replace
from adderclaw.config.trust.folders import leads_out, stamps
from adderclaw.core import home_names
from adderclaw.core.errors import ConfigError
from adderclaw.core.json_text import digest
from adderclaw.core.types import Json

KEPT = 64
"""Maximum number of cached results, one per pair of directory and flags."""


def _folder(home: str) -> str:
    return os.path.join(home, home_names.CACHE)


def _stamps(folder: str) -> Iterator[tuple[str, int, int]]:
    """The source files below a folder, with their times and sizes."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry.path, entry.stat().st_mtime_ns, entry.stat().st_size
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _stamps(entry.path)


def _program() -> list[Any]:
    """Identifies the version of the code that produced a result."""
    here = os.path.dirname(os.path.abspath(__file__))
    try:
        stamps = sorted(_stamps(here))
    except OSError:
        stamps = []
    return [__version__, stamps]


def _place(request: Request) -> str:
    key = digest([_program(), request, os.path.expanduser("~")])
    return os.path.join(_folder(request.home), f"config-{key[:32]}.json")


def _hashed(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


def _now(path: str, project: str) -> str | None:
    """The current hash of a file; None for a path that leads out of the project, which is not read."""
    if beneath(path, project) and leads_out(project, os.path.relpath(path, project)):
        return None
    return _hashed(read(path))


def _folder_at(path: str) -> str:
    """The folder that a path resolves to; empty if it is not a folder."""
    return followed(path) if os.path.isdir(path) else ""


def _variable(name: str) -> str | None:
    value = os.environ.get(name)
    return None if value is None else _hashed(os.fsencode(value))


def load_cached(request: Request) -> Json | None:
    """The cached result for the same request, if everything that it depends on is unchanged."""
    try:
        with open(_place(request), "rb") as file:
            cached: Json = json.loads(file.read())
        fresh = (
            all(_variable(name) == value for name, value in cached["variables"].items())
            and all(_now(path, cached["project"][0]) == value for path, value in cached["files"].items())
            and all(_folder_at(path) == folder for path, folder in cached["directories"].items())
            and _trees(*cached["project"]) == cached["trees"]
        )
        return cached["loaded"] if fresh else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ConfigError):
        return None  # missing or unusable: read all files again


def _trees(project: str, named: list[str]) -> str:
    """A hash that changes with the project's trusted folders and with the scripts that the project names."""
    return digest(list(stamps(project, named)))


def keep(
    request: Request,
    loaded: Json,
    files: dict[str, bytes | None],
    variables: tuple[str, ...],
    directories: list[str],
    project: tuple[str, list[str]],
) -> None:
    """Store a result. If the home does not exist or is not writable, the next start is just slower."""
    if not os.path.isdir(request.home):
        return
    try:
        cached = {
            "files": {path: _hashed(data) for path, data in files.items()},
            "variables": {name: _variable(name) for name in variables},
            "directories": {path: _folder_at(path) for path in directories},
            "project": project,
            "trees": _trees(*project),
            "loaded": loaded,
        }
        os.makedirs(_folder(request.home), mode=0o700, exist_ok=True)
        _make_room(_folder(request.home))
        replace(_place(request), json.dumps(cached, separators=(",", ":")))
    except (OSError, ConfigError):
        return


def _make_room(folder: str) -> None:
    entries = sorted((entry for entry in os.scandir(folder)), key=lambda entry: entry.stat().st_mtime_ns)
    for entry in entries[: max(0, len(entries) - KEPT + 1)]:
        os.unlink(entry.path)
