"""Which projects the operator trusts, by a hash over everything in them that executes or loosens restrictions.

That is their configuration and everything that it starts: hooks, MCP servers, plugins, skills and the scripts that
these name. If any of it changes by a byte, none of it applies until the operator has reviewed it.
"""

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator
from typing import Any, cast

from adderclaw.config.paths import beneath as within
from adderclaw.config.paths import followed
from adderclaw.config.places import SETTINGS, read, replace
from adderclaw.config.safe_open import ANCHOR, open_real
from adderclaw.config.trust import named_files
from adderclaw.config.trust.folders import MOST_FILES, TREES, beneath, leads_out, untrustable
from adderclaw.core import home_names
from adderclaw.core.errors import ConfigError
from adderclaw.core.json_text import digest
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json

FILES = (*SETTINGS, ".mcp.json")
"""The configuration files of a project, in order."""
STARTING = frozenset(
    (
        *("hooks", "mcpservers", "plugins", "plugin", "command", "args", "shell"),
        *("apikeyhelper", "statusline", "awsauthrefresh", "awscredentialexport", "otelheadershelper"),
    )
)
"""Keys whose values name things to start, in lower case without underscores."""
MOST_BYTES = 256 << 20


class Fingerprint(NamedTuple):
    sha256: str
    files: dict[str, str]
    """Path inside the project → hash of its bytes."""
    started: tuple[str, ...] = ()
    """Those of `files` that are scripts named by the configuration. Only the operator may change them."""


type Look = Callable[[str], bytes | None]
"""Reads a configuration file; None if it does not exist."""


def survey(project: str, look: Look | None = None) -> Fingerprint:
    """A fingerprint of everything in a project that trust covers; raises ConfigError for what cannot be hashed."""
    look = look or (lambda path: read(path, project))
    settings = {name: look(os.path.join(project, name)) for name in FILES if not leads_out(project, name)}
    contents = {name: data for name, data in settings.items() if data is not None}
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}
    started = tuple(dict.fromkeys(_named(project, contents)))
    size = 0
    for name in (*(path for tree in TREES for path in beneath(project, tree)), *started):
        if name in hashes:
            continue
        hashes[name], more = _hashed(project, name)
        size += more
        if len(hashes) > MOST_FILES or size > MOST_BYTES:
            raise untrustable(
                os.path.join(project, name), f"contains more than {MOST_FILES} files or {MOST_BYTES} bytes"
            )
    files = dict(sorted(hashes.items()))
    return Fingerprint(digest(files), files, started)


def _hashed(project: str, name: str) -> tuple[str, int]:
    """The hash and size of a file. For a link the target is hashed too, and only the target if it leads out of the
    project."""
    path = os.path.join(project, name)
    running, size = hashlib.sha256(), 0
    try:
        real = followed(path)
        if target := _target(path):
            running.update(b"link to " + os.fsencode(target) + b"\0")
        if not within(real, followed(project)):
            return running.hexdigest(), 0
        descriptor = open_real(real)
    except FileNotFoundError:
        return running.hexdigest(), 0  # a link to nothing
    except OSError as error:
        raise untrustable(path, f"cannot be read: {error.strerror}") from None
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise untrustable(path, "is not a regular file")
        try:
            while size <= MOST_BYTES and (part := file.read(1 << 20)):
                running.update(part)
                size += len(part)
        except OSError as error:
            raise untrustable(path, f"cannot be read: {error.strerror}") from None
    return running.hexdigest(), size


def _target(path: str) -> str:
    """The target of a link; empty for anything else."""
    folder, name = os.path.split(path)
    fd = open_real(followed(folder), ANCHOR)
    try:
        return os.readlink(name, dir_fd=fd)
    except OSError:
        return ""
    finally:
        os.close(fd)


# ------------------------------------------------------------------ what the files start


def _named(project: str, contents: dict[str, bytes]) -> Iterator[str]:
    """Files of the project that its configuration names as something to start."""
    for name, data in contents.items():
        yield from named_files.inside(_texts(_parsed(name, data)), project)


def _parsed(name: str, data: bytes) -> Any:
    """The parsed content of a file that may start something. Invalid files are reported elsewhere."""
    plain = data.lower().replace(b"_", b"")
    if not any(key.encode() in plain for key in STARTING):
        return {}
    from adderclaw.config import syntax

    try:
        return syntax.parse(name, data)
    except ConfigError:
        return {}


def _texts(value: Any, *, starting: bool = False) -> Iterator[str]:
    if isinstance(value, str):
        if starting:
            yield value
    elif isinstance(value, dict):
        for key, item in cast(dict[Any, Any], value).items():
            yield from _texts(item, starting=starting or str(key).lower().replace("_", "") in STARTING)
    elif isinstance(value, list):
        for item in cast(list[Any], value):
            yield from _texts(item, starting=starting)


# ------------------------------------------------------------------ what was trusted


def place(home: str) -> str:
    return os.path.join(home, home_names.TRUST)


def known(home: str, data: bytes | None = None) -> dict[str, Json]:
    """Project → {sha256, files, trusted_at}. An invalid file trusts nothing."""
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


def trusts_file(table: dict[str, Json], folder: str, name: str, data: bytes | None) -> bool:
    """Whether one file of a folder that is not the project is unchanged since the operator trusted it."""
    files = table.get(os.path.realpath(folder), {}).get("files")
    if data is None or not isinstance(files, dict):
        return False
    return cast(dict[str, Any], files).get(name) == hashlib.sha256(data).hexdigest()


def changes(table: dict[str, Json], project: str, of: Fingerprint) -> list[str]:
    """Differences from the trusted state: `+` new, `-` removed, `~` changed; empty if the project was never trusted."""
    before = table.get(os.path.realpath(project), {}).get("files")
    if not isinstance(before, dict):
        return []
    old = cast(dict[str, Any], before)
    marks = [(name, "-" if name not in of.files else "+" if name not in old else "~") for name in {**old, **of.files}]
    return [f"{mark} {name}" for name, mark in sorted(marks) if mark != "~" or old[name] != of.files[name]]


def scripts(table: dict[str, Json], project: str) -> dict[str, str]:
    """File of the project → its trusted hash, including files that the user's hooks name."""
    entry = table.get(os.path.realpath(project), {})
    known: dict[str, Any] = {}
    for part in ("files", "hooks"):
        value = entry.get(part)
        known |= cast(dict[str, Any], value) if isinstance(value, dict) else {}
    return {name: value for name, value in known.items() if isinstance(value, str)}


def record(home: str, project: str, of: Fingerprint, now: str, hooks: dict[str, str] | None = None) -> None:
    """Trust a project. `hooks` are the files of the workspace that hooks of any configuration file name."""
    entry: Json = {"sha256": of.sha256, "files": of.files, "hooks": hooks or {}, "trusted_at": now}
    _write(home, known(home) | {os.path.realpath(project): entry})


def revoke(home: str, project: str) -> bool:
    table = known(home)
    entry = table.pop(os.path.realpath(project), None)
    if entry is not None:
        _write(home, table)
    return entry is not None


def _write(home: str, table: dict[str, Json]) -> None:
    os.makedirs(home, mode=0o700, exist_ok=True)
    replace(place(home), json.dumps(table, indent=2, sort_keys=True) + "\n")
