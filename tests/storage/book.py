"""A store and a ledger in one folder, with a clock and ids that a test can read, and children that really die."""

import itertools
import os
import sqlite3
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from adderclaw.core.json_text import digest
from adderclaw.storage import Store, transcript
from adderclaw.storage.ledger.ledger import Ledger, Receipt, ReceiptDraft
from adderclaw.storage.ledger.verify import Verification, verify


class Ticking:
    """A clock that goes one second further each time it is read."""

    def __init__(self, now: float = 1_778_594_400.0) -> None:
        self._now = now

    def now(self) -> float:
        self._now += 1
        return self._now

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        self._now += seconds


def numbered(prefix: str = "") -> Callable[[str], str]:
    count = itertools.count(1)
    return lambda kind: f"{kind}-{prefix}{next(count)}"


def draft(tool_use_id: str = "t", **changes: Any) -> ReceiptDraft:
    made = ReceiptDraft(
        "conversation", "session", tool_use_id, "Read", digest({}), digest("x"), "allowed", "low", {"by": "mode"}
    )
    return made._replace(**changes)


def nothing(_: sqlite3.Cursor) -> None:
    """No rows beside the receipt's own."""


class Book:
    def __init__(self, folder: Path) -> None:
        self.database = folder / "memory.sqlite"
        self.log = folder / "receipts.log"
        self.key = folder / "receipt.key"
        self.store = Store.open(str(self.database))
        self._ledgers: list[Ledger] = []
        with self.store.write() as cursor:
            transcript.begin(cursor, conversation_id="conversation", session_id="session", project_dir="/p")

    def ledger(self) -> Ledger:
        made = Ledger.open(str(self.log), self.store, str(self.key), clock=Ticking(), ids=numbered())
        self._ledgers.append(made)
        return made

    def close(self) -> None:
        for ledger in self._ledgers:
            ledger.close()
        self.store.close()

    def write(self, count: int) -> list[Receipt]:
        ledger = self.ledger()
        receipts = [call(ledger, f"t{number}") for number in range(count)]
        ledger.close()
        return receipts

    def verify(self, against: str | None = None) -> Verification:
        return verify(str(self.log), self.store, str(self.key), against)

    def log_only(self, against: str | None = None) -> Verification:
        return verify(str(self.log), None, str(self.key), against)

    def lines(self) -> list[bytes]:
        return self.log.read_bytes().splitlines(keepends=True)

    def mirrored(self) -> int:
        return self.store.read("SELECT count(*) FROM receipts WHERE archive = ''")[0][0]

    def sql(self, statement: str, *params: Any) -> None:
        with self.store.write() as cursor:
            cursor.execute(statement, params)


def call(ledger: Ledger, tool_use_id: str, **changes: Any) -> Receipt:
    """One whole tool call: intent, result, receipt."""

    def rows(cursor: sqlite3.Cursor) -> None:
        transcript.append(cursor, "session", "tool_use", {"id": tool_use_id, "name": "Read", "input": {}}, tool_use_id)
        result = {"tool_use_id": tool_use_id, "content": "x", "is_error": False}
        transcript.append(cursor, "session", "tool_result", result, tool_use_id)

    ledger.require_ready()
    return ledger.append(draft(tool_use_id, **changes), rows)


class Abandoned(Exception):
    pass


def abandoned(store: Store, work: Callable[[sqlite3.Cursor], object]) -> None:
    """A transaction that fails after `work`."""
    with suppress(Abandoned), store.write() as cursor:
        work(cursor)
        raise Abandoned


def child(work: Callable[[], None]) -> int:
    """Runs `work` in a forked process and returns its pid; its exit code is 1 when `work` raises."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it is, the parent must see it as an exit code
        traceback.print_exc()
    finally:
        os._exit(code)


def codes(pids: list[int]) -> list[int]:
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def integrity(path: Path) -> str:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("PRAGMA integrity_check").fetchone()[0]
    finally:
        connection.close()
