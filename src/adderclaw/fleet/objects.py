"""Stores states and workspaces, sealed and named by content: in a folder, S3, GCS, Azure or a table."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.fleet.boxes import Sealer, is_box
from adderclaw.fleet.database import Cursor, Database
from adderclaw.fleet.keys import Key

IN_DATABASE = "postgresql"
KEPT = 24 * 3600.0
"""Seconds for which an unreferenced object is retained, because its reference may not be written yet."""
NEW_SECONDS = KEPT / 2
"""Seconds after which an object is written again when it is reused, so that it counts as new."""


class Gone(AdderClawError):
    """An object is no longer in its store."""


class Place(Protocol):
    """A store of immutable objects by name."""

    def put(self, name: str, body: bytes) -> None:
        """Stores an object. An existing one counts as new from now on."""
        ...

    def get(self, name: str) -> bytes | None: ...
    def has(self, name: str) -> bool:
        """Whether the object exists and is new enough not to be removed before a reference to it is written."""
        ...


class Objects:
    """Seals objects before storing them and checks them when reading, so the store need not be trusted."""

    def __init__(self, backend: Place, key: Key, of: str | None = None, *, submitted: bool = False) -> None:
        """`of`: only boxes of this submitter can be read; `submitted`: only boxes can be read."""
        self._place, self._key = backend, key
        self._of, self._submitted = of, submitted

    def of(self, submitter: str, *, submitted: bool = False) -> "Objects":
        """The same store for runs of one submitter."""
        return Objects(self._place, self._key, submitter, submitted=submitted)

    def put(self, body: bytes) -> str:
        """Stores an object and returns its name. The same content is stored once."""
        name = self._key.digest(body)
        if not self._place.has(name):
            self._place.put(name, self._key.sealed(body, name))
        return name

    def unused(self, used: Callable[[str], bool]) -> Iterator[str]:
        """Names of objects that are `KEPT` old and not used."""
        return self._kept.unused(used)

    def remove(self, names: Sequence[str]) -> int:
        """Removes those objects that are still that old. Returns their number."""
        return self._kept.remove(names)

    @property
    def _kept(self) -> "Table | Bucket":
        assert isinstance(self._place, (Table, Bucket))
        return self._place

    def get(self, name: str) -> bytes:
        if _NAME.fullmatch(name) is None:  # from a row, so untrusted
            raise UsageError(f"object {name[:16]!r} is not a valid object name")
        sealed = self._place.get(name)
        if sealed is None:
            raise Gone(f"object {name[:16]} is not in the object store: it was removed")
        if not is_box(name):
            if self._submitted:
                raise AdderClawError(f"object {name[:16]} was not submitted as files of a run; submit them again")
            return self._key.opened(sealed, name)
        whose, body = self._key.boxes.opened(sealed, name)
        if self._of not in (None, whose):
            raise AdderClawError(f"object {name[:16]} was not submitted by {self._of}")
        return body


class Boxes:
    """A write-only store for submitters."""

    def __init__(self, backend: Place, sealer: Sealer) -> None:
        self._place, self._sealer = backend, sealer

    def put(self, body: bytes) -> str:
        name, sealed = self._sealer.sealed(body)
        if not self._place.has(name):
            self._place.put(name, sealed)
        return name


class Table:
    """A table of the fleet's database, which is enough for small states."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, name: str, body: bytes) -> None:
        self._database.run(
            "INSERT INTO fleet.objects (digest, body) VALUES (%s, %s) ON CONFLICT (digest) DO UPDATE SET at = now()",
            name,
            body,
        )

    def get(self, name: str) -> bytes | None:
        def work(cursor: Cursor) -> bytes | None:
            row = cursor.execute("SELECT body FROM fleet.objects WHERE digest = %s", (name,)).fetchone()
            return bytes(row.body) if row is not None else None

        return self._database.do(work)

    def has(self, name: str) -> bool:
        return (
            self._database.one(
                "SELECT 1 FROM fleet.objects WHERE digest = %s AND at > now() - make_interval(secs => %s)",
                name,
                NEW_SECONDS,
            )
            is not None
        )

    def unused(self, used: Callable[[str], bool]) -> Iterator[str]:
        last = ""
        while True:
            rows = self._database.rows(
                "SELECT digest FROM fleet.objects WHERE digest > %s AND at < now() - make_interval(secs => %s)"
                " ORDER BY digest LIMIT 1000",
                last,
                KEPT,
            )
            yield from (row.digest for row in rows if not used(row.digest))
            if len(rows) < 1000:
                return
            last = rows[-1].digest

    def remove(self, names: Sequence[str]) -> int:
        gone = self._database.rows(
            "DELETE FROM fleet.objects WHERE digest = ANY(%s) AND at < now() - make_interval(secs => %s)"
            " RETURNING digest",
            list(names),
            KEPT,
        )
        return len(gone)


class Bucket:
    """A folder or a bucket, by its address."""

    def __init__(self, address: str, database: Database | None = None) -> None:
        """`database`: for locks that exclude writing and removing the same object."""
        import obstore
        from obstore.exceptions import BaseError
        from obstore.store import LocalStore, from_url

        self._obstore: Any = obstore
        self._database, self._error = database, BaseError
        try:
            if address.startswith("/"):
                self._store: Any = LocalStore(address, mkdir=True)
            else:
                self._store = from_url(address)
        except (BaseError, ValueError, OSError) as error:
            raise UsageError(f"the object store {address!r} cannot be opened: {error}") from error

    def put(self, name: str, body: bytes) -> None:
        try:
            self._with_lock(name, lambda: self._obstore.put(self._store, _key(name), body))
        except self._error as error:
            raise AdderClawError(f"the object store refused {name[:16]}: {error}") from error

    def _with_lock[T](self, name: str, work: Callable[[], T]) -> T:
        """Holds a lock against writing or removing the same object."""

        def locked(cursor: Cursor) -> T:
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '1min'")  # it only blocks this object
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (name,)).fetchone()
            return work()

        return work() if self._database is None else self._database.do(locked)

    def get(self, name: str) -> bytes | None:
        try:
            return bytes(self._obstore.get(self._store, _key(name)).bytes())
        except FileNotFoundError:
            return None
        except self._error as error:
            raise AdderClawError(f"the object store could not read {name[:16]}: {error}") from error

    def has(self, name: str) -> bool:
        return (age := self._age(name)) is not None and age < NEW_SECONDS

    def _age(self, name: str) -> float | None:
        try:
            head = self._obstore.head(self._store, _key(name))
        except FileNotFoundError:
            return None
        except self._error as error:
            raise AdderClawError(f"the object store could not check {name[:16]}: {error}") from error
        return float(time.time() - head["last_modified"].timestamp())

    def unused(self, used: Callable[[str], bool]) -> Iterator[str]:
        try:
            for some in self._obstore.list(self._store, chunk_size=1000):
                for entry in some:
                    name = str(entry["path"]).rpartition("/")[2]
                    is_ours = entry["path"] == _key(name) and _NAME.fullmatch(name) is not None
                    if is_ours and time.time() - entry["last_modified"].timestamp() > KEPT and not used(name):
                        yield name
        except self._error as error:
            raise AdderClawError(f"the object store could not list its objects: {error}") from error

    def remove(self, names: Sequence[str]) -> int:
        def work(name: str) -> bool:
            if (age := self._age(name)) is None or age < KEPT:
                return False
            self._obstore.delete(self._store, _key(name))
            return True

        try:
            return sum(self._with_lock(name, lambda name=name: work(name)) for name in names)
        except self._error as error:
            raise AdderClawError(f"the object store could not remove objects: {error}") from error


_NAME = re.compile(r"(box-)?[0-9a-f]{64}")


def _key(name: str) -> str:
    return f"{name[-64:][:2]}/{name}"


def opened(address: str, database: Database) -> Place:
    """The store at an address: `postgresql` (the fleet's database), a folder, s3://, gs:// or az://."""
    return Table(database) if address == IN_DATABASE else Bucket(address, database)
