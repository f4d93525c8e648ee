"""The fleet of this home: an address in the environment or in fleet.toml, and a key."""

import os
import tomllib
from dataclasses import asdict
from typing import Any

from adderclaw.core import home_names
from adderclaw.core.decode import decode
from adderclaw.core.errors import UsageError
from adderclaw.core.record import record
from adderclaw.fleet import boxes, keys, objects
from adderclaw.fleet.database import Database
from adderclaw.fleet.objects import IN_DATABASE, Boxes, Objects

DATABASE = "ADDERCLAW_FLEET_DATABASE"
NO_FLEET = """\
this home belongs to no fleet. One machine does not need one (`adderclaw run`). For several machines:
  adderclaw fleet init --database postgresql://USER@HOST:5432/adderclaw
  adderclaw fleet enroll && adderclaw fleet worker
`docker compose -f compose.fleet.yaml up` starts PostgreSQL and two workers; docs/fleet.md has the rest"""


@record
class FleetSettings:
    """fleet.toml, which `fleet init` writes. Only the operator sets it, never a project."""

    database: str
    objects: str = IN_DATABASE
    """`postgresql`, a folder, or s3://, gs://, az://."""
    public: str = ""
    """The fleet's public key, which is enough for a machine that only submits."""
    local_repos: bool = False
    """Whether this machine submits and clones repositories that are local paths."""


class Fleet:
    """A fleet, as commands use it."""

    def __init__(self, home: str, where: FleetSettings, *, patience: float = 5.0) -> None:
        self.home, self.where = home, where
        self.database = Database(where.database, patience=patience)

    def key(self) -> keys.Key:
        return keys.read(self.home)

    def key_here(self) -> keys.Key | None:
        """The key; None on a machine that only submits or reads."""
        return self.key() if keys.found(self.home) else None

    def objects(self) -> Objects:
        return Objects(objects.opened(self.where.objects, self.database), self.key())

    def boxes(self, submitter: str) -> Boxes:
        """Storage for submitted files, which needs only the fleet's public key."""
        key = self.key() if not self.where.public else self.key_here()
        if key is None:
            sealer = boxes.Sealer(boxes.public(self.where.public, path(self.home)), submitter)
        else:
            sealer = boxes.Sealer(key.boxes.public, submitter, key.own)
        return Boxes(objects.opened(self.where.objects, self.database), sealer)


def path(home: str) -> str:
    return os.path.join(home, home_names.FLEET)


def anew(home: str, database: str, objects: str | None) -> FleetSettings:
    """fleet.toml as `fleet init` writes it. Other settings are preserved; so is the object store of the same database,
    because its objects are there."""
    try:
        with open(path(home), "rb") as file:
            before: Any = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError):
        before = {}
    same = before.get("objects") if before.get("database") == database else None
    stored = same if isinstance(same, str) else IN_DATABASE
    return FleetSettings(database=database, objects=objects or stored, local_repos=before.get("local_repos") is True)


def read(home: str, database: str | None = None, *, patience: float = 5.0) -> Fleet:
    """The fleet of this home, or that of another address, given or in the environment."""
    try:
        with open(path(home), "rb") as file:
            settings: Any = tomllib.load(file)
    except FileNotFoundError:
        settings = {}
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path(home)} cannot be read: {error}; `adderclaw fleet init` writes a new one") from error
    address = database or os.environ.get(DATABASE)
    if address:
        settings["database"] = address
    if "database" not in settings:
        raise UsageError(NO_FLEET)
    return Fleet(home, decode(FleetSettings, settings), patience=patience)


def write_settings(home: str, where: FleetSettings) -> None:
    import tomlkit

    os.makedirs(home, mode=0o700, exist_ok=True)
    text = tomlkit.dumps(asdict(where))  # pyright: ignore[reportUnknownMemberType]
    fd = os.open(path(home), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)
