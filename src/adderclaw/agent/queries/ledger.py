"""The receipts of the chain in use, by what they are about; whether the chain holds; and its head."""

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
"""A whole verification keeps receipts from being written: it is done for a fiftieth of the time at most."""


class ReceiptRow(TypedDict):
    """What a receipt says. `intact` and `problem` are what we say of it: whether its hash and its mac are right."""

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
    """What to give as `before` for those that come next; null where these are the last."""


class OneReceipt(TypedDict):
    receipt: ReceiptRow
    previous: ReceiptRow | None
    next: ReceiptRow | None


class ChainState(TypedDict):
    valid: bool
    receipts: int
    """How many are intact, counted from the first."""
    first_broken: int | None
    reason: str
    notes: list[str]
    """What a crash left behind: no fault, and the next run repairs it."""
    completeness: dict[str, Any]
    head: str
    """`seq:receipt_hash` of the last intact receipt: kept elsewhere, it finds a rollback."""
    complete: bool
    """Whether a receipt is there for each call of the transcript; false where the database cannot be read."""


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
    """Of the mirror in the database, each checked with the key; the log as a whole is `state`'s to verify."""
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
    """None where there is none, or it is of no call in `places` (if any are given)."""
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
    """Replay the whole log; where the database cannot be read, the log alone."""
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
    """ "seq:receipt_hash" by the end of the log and of its mirror alone; LedgerError where they disagree."""
    log, path, key = _places(options)
    store = opened(path)
    try:
        return log_end.head(log, store, key) or verify.head(log, store, key)
    finally:
        if store is not None:
            store.close()


class Watch:
    """Whether the chain holds, at a cost that is bounded however often it is asked.

    The end of the log is looked at each time, the whole of it when it changed and the last look is long enough ago.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._seen: object = None
        self._valid = False
        self._next = 0.0
        self.checked_at = 0.0
        """When the whole was verified last, in seconds since 1970."""

    def valid(self) -> bool:
        with self._lock:
            seen = self._now()
            if seen != self._seen and time.monotonic() >= self._next:
                began = time.monotonic()
                self._valid, self._seen, self.checked_at = self._whole(), seen, time.time()
                self._next = time.monotonic() + PAUSE * (time.monotonic() - began)
            return self._valid and self._ends_well()

    def _whole(self) -> bool:
        try:
            return verified(self._options).valid
        except AdderClawError:
            return False

    def _ends_well(self) -> bool:
        try:
            head(self._options)
        except AdderClawError:
            return False
        return True

    def _now(self) -> object:
        """What changes with the log and the database, and nobody but the kernel sets."""
        log, path, key = _places(self._options)
        return [_stamp(file) for file in (log, path, f"{path}-wal", key)]


def _stamp(path: str) -> tuple[int, int, int] | None:
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
