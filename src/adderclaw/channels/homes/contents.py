"""What lies in a home, and what of it belongs in a backup: secrets only when asked for, caches and locks never."""

import os
import stat
from collections.abc import Iterator

from adderclaw.channels.homes.made import USERS
from adderclaw.record import NamedTuple

SECRET = {
    "receipt.key": "the key that seals receipts",
    "credentials.enc": "stored logins, encrypted",
    "credentials.key": "the key of the stored logins",
    "webhooks.json": "the secrets of webhooks",
    "service.env": "variables of the service",
    "fleet.key": "the key of the fleet",
    "fleet-worker.key": "the key of this fleet worker",
    "fleet-submitter.key": "the key with which you submit to the fleet",
    "fleet.toml": "the address of the fleet's database, which may hold a password",
}
"""Names at the top of a home that hold secrets."""
LEFT_OUT = frozenset({"cache", "caches", "fetched", "server", "service", "config.lock", "ESTOP"})
"""Names at the top that can be made again, or belong to processes that run now; and a stop, which is for now."""
ENDINGS = ("-wal", "-shm", "-journal", ".lock", ".locks", ".tmp", ".unfinished", ".sock", ".pid", ".last-backup")
"""Of files that only a process that runs needs."""
WHOLE = frozenset({"plugins", "plugin_data", *USERS})
"""Names at the top with what others wrote, which is kept as it is: a plugin without its `uv.lock` is another plugin."""


class Found(NamedTuple):
    way: str
    """From the home, with `/` between the names."""
    path: str
    size: int
    mode: int


def is_left_out(way: str) -> bool:
    top = way.partition("/")[0]
    if top in WHOLE:
        return False
    return top in LEFT_OUT or way.endswith(ENDINGS) or ".before-" in top or top.endswith(".locks")


def is_secret(way: str) -> bool:
    return way in SECRET or way.endswith((".key", ".pem"))


def files(home: str) -> Iterator[Found]:
    """Every regular file, through no link, in order; those that a backup never holds are left out."""
    for folder, folders, names in os.walk(home):
        beneath = os.path.relpath(folder, home)
        folders[:] = sorted(name for name in folders if not is_left_out(_way(beneath, name)))
        for name in sorted(names):
            way = _way(beneath, name)
            if is_left_out(way):
                continue
            try:
                status = os.lstat(os.path.join(folder, name))
            except FileNotFoundError:
                continue  # it has just gone
            if stat.S_ISREG(status.st_mode):
                yield Found(way, os.path.join(folder, name), status.st_size, stat.S_IMODE(status.st_mode) & 0o777)


def links(home: str) -> Iterator[str]:
    """The links in a home: a backup does not hold them, and says so."""
    for folder, folders, names in os.walk(home):
        beneath = os.path.relpath(folder, home)
        for name in sorted((*folders, *names)):
            if os.path.islink(os.path.join(folder, name)) and not is_left_out(_way(beneath, name)):
                yield _way(beneath, name)
        folders[:] = [name for name in folders if not is_left_out(_way(beneath, name))]


def _way(folder: str, name: str) -> str:
    return name if folder == "." else f"{folder}/{name}"
