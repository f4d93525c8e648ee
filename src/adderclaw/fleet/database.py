"""The fleet's PostgreSQL: a connection for each thread, short transactions, migrations by name.

A client that sleeps in a transaction holds its locks for at most `IDLE` seconds; then the server rolls it back. One
statement needs no explicit transaction. Statements are not sent in pipelines, because the server's timeout does not run
while it waits for the rest of a pipeline.
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
"""Files in `sql/`, each applied once, in this order. The first creates all tables and roles."""
OLDEST = 130000
"""The oldest supported version of the server."""
WAIT = 0.1
"""Seconds before the first retry of a transaction."""
IDLE = 2.0
"""Seconds that a transaction may wait for its client, such as a sleeping machine."""
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
"""Errors that may pass: the server is unavailable, restarting or read-only, or a lock was contended."""


class Unreachable(AdderClawError):
    """The server does not answer."""


class DuplicateKey(AdderClawError):
    """Another client has just written a row with the same key, which a retry will find."""


class _Times(TimestamptzLoader):
    """Loads times, clamped to what Python can represent, so that a strange row does not cause errors."""

    EARLIEST, LATEST = datetime(2, 1, 1, tzinfo=UTC), datetime(9998, 1, 1, tzinfo=UTC)

    def load(self, data: Any) -> datetime:
        try:
            return min(max(super().load(data), self.EARLIEST), self.LATEST)
        except psycopg.DataError:
            return self.EARLIEST if bytes(data).startswith(b"-") or bytes(data).endswith(b"BC") else self.LATEST


def _loads(data: str | bytes) -> Any:
    """Loads JSON; empty if it is nested too deeply or has a number with too many digits."""
    try:
        return json.loads(data)
    except (RecursionError, ValueError):
        return {}


class Database:
    """A database that threads share, each with its own connection."""

    def __init__(self, url: str, *, patience: float = 5.0) -> None:
        """`patience`: seconds for which transactions are retried while the server is unreachable."""
        if urlsplit(url).scheme not in ("postgresql", "postgres"):
            raise UsageError(f"{shown(url)!r} is not a PostgreSQL address such as postgresql://USER@HOST:PORT/DATABASE")
        self.url, self.patience = url, patience
        self._local = threading.local()

    def do[T](self, work: Callable[[Cursor], T], *, patience: float | None = None) -> T:
        """Runs `work` in one transaction, perhaps repeatedly, because it may be unknown whether a commit arrived."""

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
                raise Unreachable("PostgreSQL's disk is full. Nothing is lost. Free some space there") from error
            except RETRYABLE as error:
                self._drop()
                if time.monotonic() + wait > limit:
                    raise Unreachable(self.unreachable(error)) from error
                time.sleep(wait)
                wait = min(wait * 2, 1.0)
            except psycopg.errors.UniqueViolation as error:
                raise DuplicateKey(f"PostgreSQL refused: {str(error).splitlines()[0]}") from error
            except (psycopg.errors.InvalidSchemaName, psycopg.errors.UndefinedTable) as error:
                why = f"{shown(self.url)} has no fleet, or an older one"
                raise UsageError(
                    f"{why}; run `adderclaw fleet init` with the same address to create or update it"
                ) from error
            except psycopg.errors.UndefinedColumn as error:
                detail = f"the fleet's tables in {shown(self.url)} are older than this program"
                raise UsageError(f"{detail}; run `adderclaw fleet init` again with the same address") from error
            except psycopg.errors.InsufficientPrivilege as error:
                detail = str(error).splitlines()[0]
                raise UsageError(
                    f"this role may not do that: {detail}; docs/fleet.md lists what each role may do"
                ) from error
            except psycopg.Error as error:
                detail = str(error).splitlines()[0] if str(error) else type(error).__name__
                raise AdderClawError(f"PostgreSQL refused: {detail}") from error

    def rows(self, sql: str, *parameters: object, patience: float | None = None) -> list[Any]:
        """The rows of one statement, which is its own transaction."""
        return self._retry(lambda connection: connection.execute(sql, parameters).fetchall(), patience)  # pyright: ignore[reportArgumentType, reportCallIssue]

    def one(self, sql: str, *parameters: object) -> Any:
        """The first row; None if there is none."""
        rows = self.rows(sql, *parameters)
        return rows[0] if rows else None

    def run(self, sql: str, *parameters: object) -> None:
        self._retry(lambda connection: connection.execute(sql, parameters), None)  # pyright: ignore[reportArgumentType, reportCallIssue]

    def close(self) -> None:
        """Closes this thread's connection."""
        self._drop()

    def listening(self) -> psycopg.Connection[Any]:
        """A separate connection that receives notifications."""
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
        fix = "start it, or choose another with --database or ADDERCLAW_FLEET_DATABASE"
        return f"PostgreSQL at {shown(self.url)} cannot be reached: {detail}; {fix}"


SEARCH = "-c search_path=pg_catalog,pg_temp"
"""Excludes functions and operators from schemas in which other roles may create them."""


def careful(url: str) -> Any:
    """Parameters of every connection, including those of DBOS: both sides notice a lost connection within seconds, and
    locks of sleeping clients expire."""
    bounds = {
        "idle_in_transaction_session_timeout": IDLE,
        "lock_timeout": LOCK,
        "statement_timeout": STATEMENT,
        "tcp_user_timeout": 10.0,
    }
    timeouts = " ".join(f"-c {name}={int(seconds * 1000)}" for name, seconds in bounds.items())
    alive = "-c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=3"
    options = conninfo_to_dict(url).get("options") or ""
    return {
        "connect_timeout": 5,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": 10_000,
        "options": " ".join(part for part in (timeouts, alive, SEARCH, str(options)) if part),
    }


def shown(url: str) -> str:
    """An address without its password."""
    parts = urlsplit(url)
    if parts.password is None:
        return url.partition("?")[0]
    return f"{parts.scheme}://{parts.username}@{parts.hostname}:{parts.port or 5432}{parts.path}"


def notify(cursor: Cursor, what: str) -> None:
    """Notifies every worker when the transaction commits."""
    cursor.execute("SELECT pg_notify('fleet', %s)", (what,))


def create(url: str) -> None:
    """Creates the database if the server does not have it."""
    reason = Database(url).unreachable
    name = urlsplit(url).path.lstrip("/")
    if not name:
        raise UsageError(f"{shown(url)} names no database, as in postgresql://USER@HOST:PORT/DATABASE")
    try:
        psycopg.connect(url, connect_timeout=5).close()
        return
    except psycopg.OperationalError as error:
        if f'database "{name}" does not exist' not in str(error):
            raise Unreachable(reason(error)) from error
    maintenance = urlsplit(url)._replace(path="/postgres").geturl()
    with psycopg.connect(maintenance, autocommit=True, connect_timeout=5) as connection:
        connection.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))


def migrate(database: Database) -> list[str]:
    """Applies pending migrations and returns their names. Concurrent callers wait for each other."""

    def work(cursor: Cursor) -> list[str]:
        version = cursor.connection.info.server_version
        if version < OLDEST:
            raise UsageError(f"PostgreSQL {version // 10000} is too old; {OLDEST // 10000} or newer is required")
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('adderclaw fleet migrations'))")
        cursor.execute("CREATE SCHEMA IF NOT EXISTS fleet")
        cursor.execute("CREATE TABLE IF NOT EXISTS fleet.migrations (name text PRIMARY KEY, at timestamptz)")
        known = {row.name for row in cursor.execute("SELECT name FROM fleet.migrations").fetchall()}
        if unknown := known - set(MIGRATIONS):
            raise UsageError(
                f"this database belongs to another version of AdderClaw (it has the migration {max(unknown)}). Use "
                "that version, or export its anchors with it (`adderclaw fleet export`) and choose a new database"
            )
        pending = [name for name in MIGRATIONS if name not in known]
        for name in pending:
            text = files("adderclaw.fleet").joinpath("sql", f"{name}.sql").read_text("utf-8")
            cursor.execute(text.encode())
            cursor.execute("INSERT INTO fleet.migrations VALUES (%s, now())", (name,))
        return pending

    return database.do(work)
