"""Which projects the operator trusts: by the hash of everything that their configuration says."""

import hashlib
import json
import os
from typing import Any, NamedTuple, cast

from adderclaw.config.places import PROJECT_FILES, SETTINGS_FILES, read, replace
from adderclaw.types import Json, digest

FILES = (*PROJECT_FILES, *SETTINGS_FILES, ".adderclaw/policy.toml", "policy.toml", ".mcp.json")
"""The files of a project that could loosen something, and so are hashed together."""


class Fingerprint(NamedTuple):
    sha256: str
    files: dict[str, str]
    """Path inside the project → hash of its bytes."""


def fingerprint(contents: dict[str, bytes]) -> Fingerprint:
    """Of the given files; one byte more or less, or one file, is another fingerprint."""
    files = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(contents.items())}
    return Fingerprint(digest(files), files)


def contents(project: str) -> dict[str, bytes]:
    found = {name: read(os.path.join(project, name)) for name in FILES}
    return {name: data for name, data in found.items() if data is not None}


def place(home: str) -> str:
    return os.path.join(home, "trust.json")


def known(home: str, data: bytes | None = None) -> dict[str, Json]:
    """Project → {sha256, files, trusted_at}. A file that cannot be understood trusts nothing."""
    data = read(place(home)) if data is None else data
    try:
        value: Any = json.loads(data or b"{}")
    except ValueError:
        return {}
    if not isinstance(value, dict):
        return {}
    return {key: cast(Json, item) for key, item in cast(dict[str, Any], value).items() if isinstance(item, dict)}


def trusts(table: dict[str, Json], project: str, of: Fingerprint) -> bool:
    return table.get(os.path.realpath(project), {}).get("sha256") == of.sha256


def record(home: str, project: str, of: Fingerprint, now: str) -> None:
    entry = {"sha256": of.sha256, "files": list(of.files), "trusted_at": now}
    _write(home, known(home) | {os.path.realpath(project): entry})


def revoke(home: str, project: str) -> bool:
    table = known(home)
    found = table.pop(os.path.realpath(project), None)
    if found is not None:
        _write(home, table)
    return found is not None


def _write(home: str, table: dict[str, Json]) -> None:
    os.makedirs(home, mode=0o700, exist_ok=True)
    replace(place(home), json.dumps(table, indent=2, sort_keys=True) + "\n")
