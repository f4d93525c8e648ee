"""The files of a home that belong in a backup: secrets only on request, caches and locks never."""

import os
import stat
from collections.abc import Iterator

from adderclaw.core import home_names
from adderclaw.core.record import NamedTuple

SECRET = {
    home_names.RECEIPT_KEY: "the key that seals receipts",
    home_names.CREDENTIALS: "stored logins, encrypted",
    home_names.CREDENTIALS_KEY: "the key of the stored logins",
    home_names.WEBHOOKS: "the secrets of webhooks",
    home_names.SERVICE_ENVIRONMENT: "variables of the service",
    home_names.FLEET_KEY: "the key of the fleet",
    home_names.FLEET_WORKER_KEY: "the key of this fleet worker",
    home_names.FLEET_SUBMITTER_KEY: "the key with which you submit to the fleet",
    home_names.FLEET: "the address of the fleet's database, which may hold a password",
}
"""Names at the top of a home that hold secrets."""
LEFT_OUT = frozenset(
    (
        *(home_names.CACHE, home_names.CACHES, home_names.FETCHED, home_names.SERVER, home_names.SERVICE),
        *(home_names.CONFIG_LOCK, home_names.ESTOP),
    )
)
"""Names at the top that can be regenerated or belong to running processes, and the temporary emergency stop."""
TEMPORARY_ENDINGS = (
    "-wal",
    "-shm",
    "-journal",
    ".lock",
    ".locks",
    ".tmp",
    ".unfinished",
    ".sock",
    ".pid",
    ".last-backup",
)
"""Endings of files that only a running process needs."""
STORED_WHOLE = frozenset({home_names.PLUGINS, home_names.PLUGIN_DATA, *home_names.USERS})
"""Names at the top with files by others, stored complete: a plugin without its `uv.lock` has another hash."""


class HomeFile(NamedTuple):
    relative: str
    """The path relative to the home, with `/` between the names."""
    path: str
    size: int
    mode: int


def is_left_out(relative: str) -> bool:
    top = relative.partition("/")[0]
    if top in STORED_WHOLE:
        return False
    return top in LEFT_OUT or relative.endswith(TEMPORARY_ENDINGS) or ".before-" in top or top.endswith(".locks")


def is_secret(relative: str) -> bool:
    return relative in SECRET or relative.endswith((".key", ".pem"))


def files(home: str) -> Iterator[HomeFile]:
    """Every regular file that a backup may contain, in order. Does not follow links."""
    for folder, folders, names in os.walk(home):
        beneath = os.path.relpath(folder, home)
        folders[:] = sorted(name for name in folders if not is_left_out(_relative_path(beneath, name)))
        for name in sorted(names):
            relative = _relative_path(beneath, name)
            if is_left_out(relative):
                continue
            try:
                status = os.lstat(os.path.join(folder, name))
            except FileNotFoundError:
                continue  # removed in the meantime
            if stat.S_ISREG(status.st_mode):
                yield HomeFile(
                    relative, os.path.join(folder, name), status.st_size, stat.S_IMODE(status.st_mode) & 0o777
                )


def links(home: str) -> Iterator[str]:
    """The links in a home, which a backup does not contain and lists as left out."""
    for folder, folders, names in os.walk(home):
        beneath = os.path.relpath(folder, home)
        for name in sorted((*folders, *names)):
            if os.path.islink(os.path.join(folder, name)) and not is_left_out(_relative_path(beneath, name)):
                yield _relative_path(beneath, name)
        folders[:] = [name for name in folders if not is_left_out(_relative_path(beneath, name))]


def _relative_path(folder: str, name: str) -> str:
    return name if folder == "." else f"{folder}/{name}"
