"""The fleet's PostgreSQL: a connection for each thread, short transactions, migrations by name.

Whoever falls asleep in a transaction holds its locks for `IDLE` at most: then the server ends it, and what it had begun
is undone. A single statement is no transaction of ours at all. Statements are not sent in pipelines: a server counts no
time while it waits for the rest of one, and who falls asleep there would hold its locks until somebody ends it.
"""

import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import namedtuple_row
from psycopg.sql import SQL, Identifier
from psycopg.types.datetime import TimestamptzLoader
from psycopg.types.json import set_json_loads

from adderclaw.core.errors import AdderClawError, UsageError

MIGRATIONS = ("m001_fleet",)
"""Each is a file below `sql/`, applied once, in this order. The first has all tables and roles."""
OLDEST = 130000
"""The oldest server that is known to carry it."""
WAIT = 0.1
"""Seconds after which a transaction that failed for no fault of its own is tried again, at first."""
IDLE = 2.0
"""Seconds that a transaction may wait for its client: a machine that sleeps keeps nobody waiting for longer."""
LOCK = 10.0
"""Seconds that a statement waits for a lock."""
STATEMENT = 30.0

type Cursor = psycopg.Cursor[Any]

RETRYABLE = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.errors.SerializationFailure,
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.IdleInTransactionSessionTimeout,
)
"""A server that is gone, starts anew or takes no writes for now, a lock that two wanted: the same again may succeed."""


class Unreachable(AdderClawError):
    """The server does not answer, or not any more."""


class DuplicateKey(AdderClawError):
    """Somebody else has just written a row with the same key: the same again finds it."""


class _Times(TimestamptzLoader):
    """A row may have a time that Python knows none for: nobody fails at the row of another for that."""

    EARLIEST, LATEST = datetime(2, 1, 1, tzinfo=UTC), datetime(9998, 1, 1, tzinfo=UTC)

    def load(self, data: Any) -> datetime:
        try:
            return min(max(super().load(data), self.EARLIEST), self.LATEST)
        except psycopg.DataError:
            return self.EARLIEST if bytes(data).startswith(b"-") or bytes(data).endswith(b"BC") else self.LATEST


def _loads(data: str | bytes) -> Any:
    """The same for JSON that is nested too deeply, or has a number of too many digits: it says nothing."""
    try:
        return json.loads(data)
    except (RecursionError, ValueError):
        return {}


class Database:
    """Threads share it; each has a connection of its own."""

    def __init__(self, url: str, *, patience: float = 5.0) -> None:
        """`patience`: how long a transaction is tried again while the server cannot be reached."""
        if urlsplit(url).scheme not in ("postgresql", "postgres"):
            raise UsageError(f"{shown(url)!r} is no PostgreSQL address: postgresql://USER@HOST:PORT/DATABASE")
        self.url, self.patience = url, patience
        self._local = threading.local()

    def do[T](self, work: Callable[[Cursor], T], *, patience: float | None = None) -> T:
        """`work` in one transaction. It may run more than once: whether a commit arrived is not always known."""

        def within(connection: psycopg.Connection[Any]) -> T:
            with connection.transaction(), connection.cursor() as cursor:
                return work(cursor)

        return self._retry(within, patience)

    def _retry[T](self, work: Callable[[psycopg.Connection[Any]], T], patience: float | None) -> T:
        limit = time.monotonic() + (self.patience if patience is None else patience)
        wait = WAIT
        while True:
            try:
                return work(self._connection())
            except psycopg.errors.DiskFull as error:
                raise Unreachable("PostgreSQL's disk is full: free some space there; nothing is lost") from error
            except RETRYABLE as error:
                self._drop()
                if time.monotonic() + wait > limit:
                    raise Unreachable(self.unreachable(error)) from error
                time.sleep(wait)
                wait = min(wait * 2, 1.0)
            except psycopg.errors.UniqueViolation as error:
                raise DuplicateKey(f"PostgreSQL refused: {str(error).splitlines()[0]}") from error
            except (psycopg.errors.InvalidSchemaName, psycopg.errors.UndefinedTable) as error:
                why = f"{shown(self.url)} has no fleet, or one that is older than this program"
                raise UsageError(f"{why}; `adderclaw fleet init` with the same address makes or updates it") from error
            except psycopg.errors.UndefinedColumn as error:
                detail = f"the fleet's tables in {shown(self.url)} are older than this program"
                raise UsageError(f"{detail}: run `adderclaw fleet init` again with the same address") from error
            except psycopg.errors.InsufficientPrivilege as error:
                detail = str(error).splitlines()[0]
                raise UsageError(
                    f"this role may not do that: {detail}; docs/fleet.md says what each role may"
                ) from error
            except psycopg.Error as error:
                detail = str(error).splitlines()[0] if str(error) else type(error).__name__
                raise AdderClawError(f"PostgreSQL refused: {detail}") from error

    def rows(self, sql: str, *parameters: object, patience: float | None = None) -> list[Any]:
        """Of one statement, which is a transaction of its own."""
        return self._retry(lambda connection: connection.execute(sql, parameters).fetchall(), patience)  # pyright: ignore[reportArgumentType, reportCallIssue]

    def one(self, sql: str, *parameters: object) -> Any:
        """The first row; None where there is none."""
        rows = self.rows(sql, *parameters)
        return rows[0] if rows else None

    def run(self, sql: str, *parameters: object) -> None:
        self._retry(lambda connection: connection.execute(sql, parameters), None)  # pyright: ignore[reportArgumentType, reportCallIssue]

    def close(self) -> None:
        """This thread's connection."""
        self._drop()

    def listening(self) -> psycopg.Connection[Any]:
        """A connection of its own, which hears what `notify` says."""
        connection = psycopg.connect(self.url, autocommit=True, row_factory=namedtuple_row, **careful(self.url))
        connection.execute("LISTEN fleet")
        return connection

    def _connection(self) -> psycopg.Connection[Any]:
        held: psycopg.Connection[Any] | None = getattr(self._local, "connection", None)
        if held is None or held.closed:
            held = psycopg.connect(self.url, autocommit=True, row_factory=namedtuple_row, **careful(self.url))
            held.adapters.register_loader("timestamptz", _Times)
            set_json_loads(_loads, held)
            self._local.connection = held
        return held

    def _drop(self) -> None:
        held: psycopg.Connection[Any] | None = getattr(self._local, "connection", None)
        self._local.connection = None
        if held is not None:
            held.close()

    def unreachable(self, error: psycopg.Error) -> str:
        detail = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled)):
            return f"PostgreSQL at {shown(self.url)} is busy: {detail}; try again"
        fix = "start it, or name another with --database or ADDERCLAW_FLEET_DATABASE"
        return f"PostgreSQL at {shown(self.url)} cannot be reached: {detail}; {fix}"


SEARCH = "-c search_path=pg_catalog,pg_temp"
"""No function or operator comes from a schema in which another role may create one."""


def careful(url: str) -> Any:
    """How every connection is made, DBOS's too: each side notices within seconds that the other is gone without a word,
    and nobody waits for a lock of one who sleeps."""
    bounds = {
        "idle_in_transaction_session_timeout": IDLE,
        "lock_timeout": LOCK,
        "statement_timeout": STATEMENT,
        "tcp_user_timeout": 10.0,
    }
    ours = " ".join(f"-c {name}={int(seconds * 1000)}" for name, seconds in bounds.items())
    alive = "-c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=3"
    options = conninfo_to_dict(url).get("options") or ""
    return {
        "connect_timeout": 5,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": 10_000,
        "options": " ".join(part for part in (ours, alive, SEARCH, str(options)) if part),
    }


def shown(url: str) -> str:
    """An address without its password."""
    parts = urlsplit(url)
    if parts.password is None:
        return url.partition("?")[0]
    return f"{parts.scheme}://{parts.username}@{parts.hostname}:{parts.port or 5432}{parts.path}"


def notify(cursor: Cursor, what: str) -> None:
    """Said to every worker when the transaction is committed."""
    cursor.execute("SELECT pg_notify('fleet', %s)", (what,))


def create(url: str) -> None:
    """The database itself, where the server has none of that name."""
    reason = Database(url).unreachable
    name = urlsplit(url).path.lstrip("/")
    if not name:
        raise UsageError(f"{shown(url)} names no database: postgresql://USER@HOST:PORT/DATABASE")
    try:
        psycopg.connect(url, connect_timeout=5).close()
        return
    except psycopg.OperationalError as error:
        if f'database "{name}" does not exist' not in str(error):
            raise Unreachable(reason(error)) from error
    beside = urlsplit(url)._replace(path="/postgres").geturl()
    with psycopg.connect(beside, autocommit=True, connect_timeout=5) as connection:
        connection.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))


def migrate(database: Database) -> list[str]:
    """Bring the schema up to date; the names of what was applied. Two who do this at once wait for each other."""

    def work(cursor: Cursor) -> list[str]:
        version = cursor.connection.info.server_version
        if version < OLDEST:
            raise UsageError(f"PostgreSQL {version // 10000} is too old: {OLDEST // 10000} or newer is needed")
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('adderclaw fleet migrations'))")
        cursor.execute("CREATE SCHEMA IF NOT EXISTS fleet")
        cursor.execute("CREATE TABLE IF NOT EXISTS fleet.migrations (name text PRIMARY KEY, at timestamptz)")
        known = {row.name for row in cursor.execute("SELECT name FROM fleet.migrations").fetchall()}
        if unknown := known - set(MIGRATIONS):
            raise UsageError(
                f"this database is of another version of AdderClaw (it has the migration {max(unknown)}): use that "
                "version, or export its anchors with it (`adderclaw fleet export`) and name a new database"
            )
        pending = [name for name in MIGRATIONS if name not in known]
        for name in pending:
            text = files("adderclaw.fleet").joinpath("sql", f"{name}.sql").read_text("utf-8")
            cursor.execute(text.encode())
            cursor.execute("INSERT INTO fleet.migrations VALUES (%s, now())", (name,))
        return pending

    return database.do(work)
