"""Receipts: lists and filters them, verifies the chain, and reports its head."""

import os
import re
import threading
import time
from collections.abc import Sequence
from typing import Any, TypedDict

from adderclaw.agent.queries import clean, loaded
from adderclaw.config import home
from adderclaw.config.legacy.options import Options
from adderclaw.core import home_names
from adderclaw.core.errors import AdderClawError, StoreError
from adderclaw.core.json_text import to_json
from adderclaw.core.types import Json, Risk
from adderclaw.storage import Store
from adderclaw.storage.ledger import log_end, log_files, mirror, verify
from adderclaw.storage.ledger.anchors import HEAD
from adderclaw.storage.ledger.chain import Status
from adderclaw.storage.ledger.verify import Verification

PAUSE = 50
"""A full verification blocks new receipts, so at most one fiftieth of the time is spent on it."""


class ReceiptRow(TypedDict):
    """A receipt, and whether its hash and MAC are valid: `intact` and `problem`."""

    seq: int
    id: str
    timestamp: str
    conversation_id: str
    session_id: str | None
    run_id: str | None
    tool_use_id: str | None
    tool: str
    status: str
    risk: str
    decision: dict[str, Any]
    args_hash: str
    result_hash: str
    receipt_hash: str
    intact: bool
    problem: str


class Receipts(TypedDict):
    receipts: list[ReceiptRow]
    """The newest first."""
    next_before: int | None
    """The `before` of the next page; null if this is the last page."""


class OneReceipt(TypedDict):
    receipt: ReceiptRow
    previous: ReceiptRow | None
    next: ReceiptRow | None


class ChainState(TypedDict):
    valid: bool
    receipts: int
    """How many receipts are intact, counted from the first."""
    first_broken: int | None
    reason: str
    notes: list[str]
    """What a crash left behind, which the next run repairs; not an error."""
    completeness: dict[str, Any]
    head: str
    """`seq:receipt_hash` of the last intact receipt. Stored elsewhere, it reveals a rollback."""
    complete: bool
    """Whether each call of the transcript has a receipt; false if the database cannot be read."""


class Head(TypedDict):
    head: str


def receipts(
    options: Options,
    *,
    limit: int = 50,
    tool: str | None = None,
    status: Status | None = None,
    risk: Risk | None = None,
    conversation: str | None = None,
    session: str | None = None,
    run: str | None = None,
    answered_by: str | None = None,
    before: int | None = None,
    places: Sequence[str] = (),
) -> Receipts:
    """Receipts from the mirror in the database, each checked with the key. `state` verifies the log as a whole."""
    filters = mirror.ReceiptFilter(tool, status, risk, conversation, session, run, answered_by, before)
    now = loaded(options).config
    store = opened(now.memory.path)
    if store is None:
        return {"receipts": [], "next_before": None}
    try:
        mirrored = mirror.listing(store, filters, limit + 1, places)
        key = log_files.read_key(_key_path())
        rows: list[ReceiptRow] = [_row(row, key) for row in mirrored[:limit]]
    finally:
        store.close()
    return {"receipts": rows, "next_before": rows[-1]["seq"] if len(mirrored) > limit else None}


def one(options: Options, seq: int, places: Sequence[str] = ()) -> OneReceipt | None:
    """A receipt and its neighbors; None if it does not exist, or not in `places` (if given)."""
    store = opened(loaded(options).config.memory.path)
    if store is None:
        return None
    try:
        key = log_files.read_key(_key_path())
        rows = {each.seq: _row(each, key) for each in mirror.neighbors(store, seq, places)}
    finally:
        store.close()
    if seq not in rows:
        return None
    return {"receipt": rows[seq], "previous": rows.get(seq - 1), "next": rows.get(seq + 1)}


def _row(mirrored: "mirror.Mirrored", key: bytes | None) -> ReceiptRow:
    receipt, problem = mirror.parse_row(mirrored, key)
    texts = ("id", "timestamp", "conversation_id", "tool", "status", "risk", "args_hash", "result_hash", "receipt_hash")
    row: Json = {name: str(receipt.get(name, "")) for name in texts}
    row |= {"session_id": mirrored.session_id, "run_id": mirrored.run_id, "tool_use_id": mirrored.tool_use_id}
    row |= {"decision": receipt.get("decision", {}), "intact": not problem, "problem": problem}
    return clean(row | {"seq": mirrored.seq})


def state(options: Options, against: str | None = None, *, archive: str = "") -> ChainState:
    """Verify the whole log against the database, or the log alone if the database cannot be read."""
    verification = verified(options, against, archive=archive)
    complete = "unread" not in verification.completeness and bool(verification.completeness.get("complete", True))
    return clean(to_json(verification) | {"complete": complete})


def verified(options: Options, against: str | None = None, *, archive: str = "") -> Verification:
    log, path, key = _places(options)
    try:
        store = opened(path)
    except StoreError as error:
        verification = verify.verify(log, None, key, against, archive=archive)
        return verification._replace(completeness={"store": False, "unread": str(error)})
    try:
        return verify.verify(log, store, key, against, archive=archive, results=True)
    finally:
        if store is not None:
            store.close()


def is_head(text: str) -> bool:
    return re.fullmatch(HEAD, text) is not None


def head(options: Options) -> str:
    """ "seq:receipt_hash" from the end of the log and of its mirror; raises LedgerError if they disagree."""
    log, path, key = _places(options)
    store = opened(path)
    try:
        return log_end.head(log, store, key) or verify.head(log, store, key)
    finally:
        if store is not None:
            store.close()


class Watch:
    """Whether the chain is valid, at a bounded cost however often it is asked.

    The end of the log is checked each time, the whole log only if it changed and the last full check is long ago.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._seen: object = None
        self._valid = False
        self._next = 0.0
        self.checked_at = 0.0
        """When the whole log was last verified, in seconds since 1970."""

    def valid(self) -> bool:
        with self._lock:
            log, path, key = _places(self._options)
            seen = [_stamp(file) for file in (log, path, f"{path}-wal", key)]
            try:
                if seen != self._seen and time.monotonic() >= self._next:
                    self._verify(seen)
                head(self._options)
            except AdderClawError:
                return False
            return self._valid

    def _verify(self, seen: object) -> None:
        began = time.monotonic()
        try:
            self._valid = verified(self._options).valid
        except AdderClawError:
            self._valid = False
        self._seen, self.checked_at = seen, time.time()
        self._next = time.monotonic() + PAUSE * (time.monotonic() - began)


def _stamp(path: str) -> tuple[int, int, int] | None:
    """What changes with a file; only the kernel sets the last value."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_ctime_ns


def _places(options: Options) -> tuple[str, str, str]:
    now = loaded(options).config
    return now.receipts.path, now.memory.path, _key_path()


def _key_path() -> str:
    return os.path.join(home(), home_names.RECEIPT_KEY)


def opened(path: str) -> Store | None:
    return Store.open(path, read_only=True) if Store.exists(path) else None
