"""The ledger: one receipt per tool call, appended to a hash chain in a file and mirrored in the store."""

import errno
import json
import os
import sqlite3
from collections.abc import Callable, Iterator

from adderclaw.core.errors import LedgerError
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Clock, Ids
from adderclaw.storage import Store
from adderclaw.storage.ledger.chain import (
    LINE_LIMIT,
    ZERO,
    BrokenReceipt,
    Receipt,
    ReceiptDraft,
    answered_question,
    line_of,
    parse_receipt,
    seal,
)
from adderclaw.storage.ledger.log_files import (
    RESERVE,
    Lock,
    create,
    create_key,
    open_log,
    read_key,
    require_space,
    reserve,
)
from adderclaw.storage.text import compact, iso

__all__ = ["Ledger", "Receipt", "ReceiptDraft", "archive"]

_STORE_SPACE = 1024 * 1024
_ADVICE = "run `adderclaw receipt verify`; `adderclaw receipt archive` archives this chain and starts a new one"


class _Head(NamedTuple):
    """Where the chain ends."""

    seq: int
    hash: str
    size: int


class _Mirrored(NamedTuple):
    seq: int
    receipt_hash: str
    line: str
    end_offset: int
    session_id: str | None = None
    tool_use_id: str | None = None
    run_id: str | None = None


class Ledger:
    """The receipt log, opened with `Ledger.open`. `repairs` describes what a crash had left and how it was repaired."""

    def __init__(self, path: str, fd: int, lock: Lock, store: Store, key: bytes, clock: Clock, ids: Ids) -> None:
        self.path = path
        self.repairs: list[str] = []
        self._fd, self._lock, self._store, self._key = fd, lock, store, key
        self._clock, self._ids = clock, ids
        self._identity = _identity(os.fstat(fd))
        self._head = _Head(0, ZERO, 0)
        self._unmirrored: list[_Mirrored] = []
        self._reserved = 0

    @staticmethod
    def open(log_path: str, store: Store, key_path: str, *, clock: Clock, ids: Ids) -> "Ledger":
        """Opens the log and repairs what a crash left. Creates log and key if there are no receipts yet."""
        log_path = os.path.abspath(log_path)
        try:
            os.makedirs(os.path.dirname(log_path), mode=0o700, exist_ok=True)
        except OSError as error:
            raise LedgerError(f"{log_path} cannot be created: {error.strerror}. Make its folder writable") from error
        lock = Lock(log_path, alone=store.image is not None)
        try:
            with lock:
                fd, key = _open_files(log_path, store, key_path)
                ledger = Ledger(log_path, fd, lock, store, key, clock, ids)
                try:
                    ledger._read_head()
                except BaseException:
                    os.close(fd)
                    raise
        except BaseException:
            lock.close()
            raise
        return ledger

    def require_ready(self, receipts: int = 1) -> None:
        """Raises LedgerError if that many receipts could not be written now, because then no tool may run."""
        if self._size() != self._head.size or self._unmirrored:
            with self._lock:
                self._catch_up()
                self._mirror()
        if self._reserved - self._head.size < min(LINE_LIMIT * receipts, RESERVE):
            reserve(self._fd, self._head.size, self.path)
            self._reserved = self._head.size + RESERVE
        else:
            require_space(self.path, 0)
        require_space(self._store.path, _STORE_SPACE)

    def append(self, receipt: ReceiptDraft, rows: Callable[[sqlite3.Cursor], None]) -> Receipt:
        """Appends a receipt. Its line is on disk before the transaction with its mirror row and `rows` begins."""
        with self._lock:
            self._catch_up()
            sealed = seal(
                receipt,
                id=self._ids("receipt"),
                timestamp=iso(self._clock.now()),
                seq=self._head.seq + 1,
                previous_hash=self._head.hash,
                key=self._key,
            )
            self._append_receipt(sealed, receipt)
            self._mirror(rows)
        return sealed

    def adopt_receipt(self, draft: ReceiptDraft, rows: Callable[[sqlite3.Cursor], None]) -> Receipt | None:
        """The receipt of this call if a crash came between its line and its mirror row, so that none is added."""
        with self._lock:
            self._catch_up()
            self._mirror()
        unclaimed = self._store.read(
            "SELECT seq, line FROM receipts WHERE archive = '' AND tool_use_id IS NULL ORDER BY seq DESC LIMIT 16"
        )
        for seq, line in unclaimed:
            receipt = Receipt(**json.loads(line))
            if (receipt.conversation_id, receipt.tool, receipt.args_hash) != draft.of_call:
                continue
            with self._store.write() as cursor:
                cursor.execute(
                    "UPDATE receipts SET session_id = ?, tool_use_id = ?, run_id = ? WHERE archive = '' AND seq = ?",
                    (draft.session_id, draft.tool_use_id, draft.run_id, seq),
                )
                rows(cursor)
            return receipt
        return None

    def names_approval(self, approval_id: str) -> bool:
        """Whether the log has a receipt of a call that ran on the answer to this question.

        Reads the log and not its mirror: a process that can only write the database cannot remove its lines.
        """
        name = f'"approval_id":{json.dumps(approval_id, ensure_ascii=False)}'.encode("utf-8", "surrogatepass")
        with self._lock:
            self._catch_up()
        return any(name in line and _used_approval(line, approval_id) for line in _lines(self._fd, self._head.size))

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._lock.close()

    # -------------------------------------------------------------- the log

    def _read_head(self) -> None:
        row, size = _last_mirrored(self._store), os.fstat(self._fd).st_size
        image = self._store.image
        known = self._lock.knows_database(self._store.path if image is None else image.folder)
        if row is not None:
            self._continue_from(row, size)
        elif known and size and not self._store.read("SELECT 1 FROM sessions LIMIT 1"):
            from adderclaw.storage import damage

            raise LedgerError(damage.lost_message(self._store.path, self.path))
        self._catch_up()
        self._mirror()

    def _continue_from(self, row: _Mirrored, size: int) -> None:
        """Continues from the last mirrored receipt, so that the cost does not depend on the number of receipts."""
        line = row.line.encode()
        if size < row.end_offset:
            raise self._cut_error(row.seq)
        start = row.end_offset - len(line) - 1
        if start < 0 or os.pread(self._fd, len(line) + 1, start) != line + b"\n":
            raise LedgerError(f"{self.path}: receipt {row.seq} differs from the store's mirror: {_ADVICE}")
        self._parse_line(line, row.seq, None)
        self._head = _Head(row.seq, row.receipt_hash, row.end_offset)

    def _size(self) -> int:
        """The size of the log. Raises LedgerError if its path now names another file."""
        try:
            named = os.lstat(self.path)
        except OSError as error:
            raise LedgerError(f"{self.path} is missing ({error.strerror}): {_ADVICE}") from error
        if _identity(named) != self._identity:
            raise LedgerError(f"{self.path} was replaced while it was in use: {_ADVICE}")
        return named.st_size

    def _catch_up(self) -> None:
        """Reads and verifies only the lines that other processes have added and not mirrored."""
        size = self._size()
        if size == self._head.size:
            return
        if size < self._head.size:
            raise self._cut_error(self._head.seq)
        mirrored = _last_mirrored(self._store)
        if mirrored is not None and mirrored.seq > self._head.seq:
            self._continue_from(mirrored, size)
        tail = _read_range(self._fd, self._head.size, size)
        *lines, torn = tail.split(b"\n")
        for line in lines:
            self._advance_head(line, self._parse_line(line, self._head.seq + 1, self._head.hash))
        if torn:
            self._repair_torn_line(torn)
        if mirrored is not None:  # lines written by this process stay, because their calls are known
            self._unmirrored = [row for row in self._unmirrored if row.session_id or row.seq > mirrored.seq]
        if missing := [row for row in self._unmirrored if row.session_id is None]:
            self.repairs.append(f"{self.path}: {_describe_unmirrored(missing, self._store)}")

    def _advance_head(self, line: bytes, receipt: Receipt) -> None:
        end = self._head.size + len(line) + 1
        self._head = _Head(receipt.seq, receipt.receipt_hash, end)
        self._unmirrored.append(_Mirrored(receipt.seq, receipt.receipt_hash, line.decode(), end))

    def _repair_torn_line(self, torn: bytes) -> None:
        """Completes or removes a last line without a newline, which was never acknowledged."""
        try:
            receipt = parse_receipt(torn, seq=self._head.seq + 1, previous_hash=self._head.hash, key=self._key)
        except BrokenReceipt:
            self._truncate(self._head.size)
            self.repairs.append(f"{self.path}: a crash tore the line after receipt {self._head.seq}; it was removed")
        else:
            self._write(b"\n")
            self._advance_head(torn, receipt)
            self.repairs.append(f"{self.path}: a crash left receipt {receipt.seq} without its newline; it was added")

    def _parse_line(self, line: bytes, seq: int, previous_hash: str | None) -> Receipt:
        try:
            return parse_receipt(line, seq=seq, previous_hash=previous_hash, key=self._key)
        except BrokenReceipt as broken:
            raise LedgerError(f"{self.path}: receipt {seq} is broken: {broken}: {_ADVICE}") from broken

    def _append_receipt(self, receipt: Receipt, draft: ReceiptDraft) -> None:
        line = line_of(receipt)
        data = line.encode() + b"\n"
        self._write(data)
        self._head = _Head(receipt.seq, receipt.receipt_hash, self._head.size + len(data))
        of = (draft.session_id, draft.tool_use_id, draft.run_id)
        self._unmirrored.append(_Mirrored(receipt.seq, receipt.receipt_hash, line, self._head.size, *of))

    def _write(self, data: bytes) -> None:
        before = os.fstat(self._fd).st_size
        try:
            written = os.write(self._fd, data)
            if written != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            getattr(os, "fdatasync", os.fsync)(self._fd)  # macOS has only fsync
        except OSError as error:
            self._truncate(before)
            raise LedgerError(
                f"{self.path}: the receipt could not be written: {error.strerror}. Free some space"
            ) from error

    def _truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        self._reserved = 0  # truncating gives the reserved blocks back

    def _cut_error(self, seq: int) -> LedgerError:
        return LedgerError(
            f"{self.path} was truncated: the store has {seq} receipts, but the log ends earlier: {_ADVICE}"
        )

    # -------------------------------------------------------------- the mirror

    def _mirror(self, rows: Callable[[sqlite3.Cursor], None] | None = None) -> None:
        """Inserts the missing mirror rows in the transaction of `rows`."""
        if not self._unmirrored and rows is None:
            return
        with self._store.write() as cursor:
            for row in self._unmirrored:
                cursor.execute(
                    "INSERT INTO receipts(seq, receipt_hash, line, end_offset, session_id, tool_use_id, run_id)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT(archive, seq) DO UPDATE SET"
                    " session_id = coalesce(session_id, excluded.session_id),"
                    " tool_use_id = coalesce(tool_use_id, excluded.tool_use_id),"
                    " run_id = coalesce(run_id, excluded.run_id)"
                    " WHERE receipt_hash = excluded.receipt_hash",
                    row,
                )
            if rows is not None:
                rows(cursor)
        self._unmirrored.clear()


def archive(log_path: str, store: Store, *, now: float) -> str:
    """Archives the log and its mirror rows under a dated name, which is returned. The key stays."""
    log_path = os.path.abspath(log_path)
    lock = Lock(log_path, alone=store.image is not None)
    try:
        with lock:
            name = _free_name(log_path, iso(now)[:19].replace("-", "").replace(":", "") + "Z")
            log_exists = os.path.lexists(log_path)
            last = _last_mirrored(store)
            if not log_exists and last is None:
                raise LedgerError(f"{log_path}: there is no receipt to archive")
            # The file is renamed first: after a crash here, the mirror rows still reveal that the log is missing.
            if log_exists:
                os.rename(log_path, os.path.join(os.path.dirname(log_path), name))
            detail = {"archive": name, "log": log_exists, "mirrored": last.seq if last else 0}
            with store.write() as cursor:
                cursor.execute("UPDATE receipts SET archive = ? WHERE archive = ''", (name,))
                cursor.execute(
                    "INSERT INTO events(conversation_id, event_type, detail) VALUES ('', 'receipts_archived', ?)",
                    (compact(detail),),
                )
    finally:
        lock.close()
    return name


def _free_name(log_path: str, stamp: str) -> str:
    name, number = f"{os.path.basename(log_path)}.{stamp}", 2
    while os.path.lexists(os.path.join(os.path.dirname(log_path), name)):
        name, number = f"{os.path.basename(log_path)}.{stamp}-{number}", number + 1
    return name


def _open_files(log_path: str, store: Store, key_path: str) -> tuple[int, bytes]:
    """The log's descriptor and the key. They are created only for a ledger that never had a receipt."""
    mirrored = _last_mirrored(store) is not None
    key = read_key(key_path)
    try:
        fd = open_log(log_path, os.O_RDWR | os.O_APPEND)
    except FileNotFoundError as error:
        if mirrored:
            raise LedgerError(f"{log_path} was deleted, but the store has its receipts: {_ADVICE}") from error
        fd = create(log_path)
    if key is None:
        if mirrored or os.fstat(fd).st_size:
            os.close(fd)
            raise LedgerError(f"{key_path}, the key of {log_path}, is missing; restore it, or {_ADVICE}")
        key = create_key(key_path)
    return fd, key


def _describe_unmirrored(missing: list[_Mirrored], store: Store) -> str:
    from adderclaw.storage import damage

    first, last = missing[0].seq, missing[-1].seq
    if damage.is_explained_by_crash(store, len(missing), json.loads(missing[-1].line)["conversation_id"]):
        return f"a crash left receipt {last} without its mirror row"
    return (
        f"the database lacks the mirror of receipts {first} to {last}, more than a crash can cause: it was "
        "restored to an older state, its -wal file was lost, or another database was in use. Run `adderclaw doctor`; "
        f"{damage.last_backup(store.path)}"
    )


def _last_mirrored(store: Store) -> _Mirrored | None:
    rows = store.read(
        "SELECT seq, receipt_hash, line, end_offset, session_id, tool_use_id, run_id FROM receipts"
        " WHERE archive = '' ORDER BY seq DESC LIMIT 1"
    )
    return _Mirrored(*rows[0]) if rows else None


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _lines(fd: int, size: int) -> Iterator[bytes]:
    rest, start = b"", 0
    while start < size:
        part = _read_range(fd, start, min(size, start + (1 << 20)))
        if not part:
            return
        start += len(part)
        *lines, rest = (rest + part).split(b"\n")
        yield from lines


def _used_approval(line: bytes, approval_id: str) -> bool:
    body = json.loads(line)
    return answered_question(body["status"], body["decision"]) == approval_id


def _read_range(fd: int, start: int, end: int) -> bytes:
    parts: list[bytes] = []
    while start < end and (part := os.pread(fd, min(end - start, 1 << 20), start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts)
