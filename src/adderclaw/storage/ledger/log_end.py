"""Reads the end of the receipt log, at a cost independent of its length: the last receipts and the chain's head."""

import os
from collections.abc import Iterator

from adderclaw.core.errors import LedgerError
from adderclaw.core.types import Json
from adderclaw.storage import Store
from adderclaw.storage.ledger.chain import LINE_LIMIT, ZERO, BrokenReceipt, parse_receipt
from adderclaw.storage.ledger.log_files import open_log, read_key

BLOCK = 65_536


def last_receipts(log_path: str, limit: int) -> list[Json]:
    """The last receipts of the log, unverified, oldest first. An entry for an invalid line says why it is invalid."""
    try:
        fd = open_log(os.path.abspath(log_path), os.O_RDONLY)
    except FileNotFoundError:
        return []
    try:
        lines, is_whole = _tail(fd, limit)
    finally:
        os.close(fd)
    first = 1 if is_whole else _first_number(lines)
    return [_receipt_or_reason(line, first + index) for index, line in enumerate(lines)]


def _tail(fd: int, limit: int) -> tuple[list[bytes], bool]:
    """At most `limit` lines from the end, and whether these are all lines of the log."""
    start = os.fstat(fd).st_size
    data = b""
    most = limit * 2 * LINE_LIMIT
    while start > 0 and data.count(b"\n") <= limit and len(data) < most:
        step = min(BLOCK, start)
        start -= step
        data = os.pread(fd, step, start) + data
    lines = data.splitlines(keepends=True) if start == 0 else data.splitlines(keepends=True)[1:]
    return lines[-limit:], start == 0 and len(lines) <= limit


def _first_number(lines: list[bytes]) -> int:
    """The number of the first of these lines, computed from the first intact receipt among them."""
    import json

    for index, line in enumerate(lines):
        try:
            seq = json.loads(line)["seq"]
            parse_receipt(line.rstrip(b"\n"), seq=seq, previous_hash=None, key=None)
        except (BrokenReceipt, ValueError, TypeError, KeyError, RecursionError):
            continue
        return seq - index
    return 1


def _receipt_or_reason(line: bytes, seq: int) -> Json:
    try:
        return parse_receipt(line.rstrip(b"\n"), seq=seq, previous_hash=None, key=None)._asdict()
    except BrokenReceipt as broken:
        return {"seq": seq, "broken": str(broken)}


def head(log_path: str, store: Store | None, key_path: str) -> str | None:
    """ "seq:receipt_hash" of the last receipt. Checks the mirror's last receipt and those after it in the log.

    None without a mirror, a key or a log. Earlier receipts are not checked (`receipt verify` does that): the head
    identifies the chain as it was written, even if the middle of the file was changed later.
    """
    rows = (
        store.read(
            "SELECT seq, receipt_hash, line, end_offset FROM receipts WHERE archive = '' ORDER BY seq DESC LIMIT 1"
        )
        if store is not None
        else []
    )
    if not rows:
        return None
    seq, hash_, text, end = rows[0]
    key, line = read_key(key_path), text.encode() + b"\n"
    if key is None:
        return None
    try:
        fd = open_log(os.path.abspath(log_path), os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        if end < len(line) or os.pread(fd, len(line), end - len(line)) != line:
            raise BrokenReceipt(
                "the end of the log differs from the store's mirror: the log or the mirror was rewritten"
            )
        if parse_receipt(line[:-1], seq=seq, previous_hash=None, key=key).receipt_hash != hash_:
            raise BrokenReceipt("the store's mirror was changed")
        for more in _lines_after(fd, end):
            if not more.endswith(b"\n"):
                break  # torn by a crash; the next run repairs it
            receipt = parse_receipt(more[:-1], seq=seq + 1, previous_hash=hash_, key=key)
            seq, hash_ = receipt.seq, receipt.receipt_hash
    except BrokenReceipt as broken:
        raise LedgerError(f"invalid chain at receipt {seq}: {broken}: its head proves nothing") from broken
    finally:
        os.close(fd)
    return f"{seq}:{hash_ or ZERO}"


def _lines_after(fd: int, end: int) -> Iterator[bytes]:
    with os.fdopen(os.dup(fd), "rb") as file:
        file.seek(end)
        while line := file.readline(2 * LINE_LIMIT):
            yield line
