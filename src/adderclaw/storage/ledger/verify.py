"""Checks a receipt log without changing it: its integrity (nothing altered) and completeness (nothing missing)."""

import os
import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from adderclaw.core.errors import LedgerError, UsageError
from adderclaw.core.types import Json
from adderclaw.storage import Store, damage
from adderclaw.storage.ledger.anchors import HEAD, Anchor, read_anchors
from adderclaw.storage.ledger.chain import LINE_LIMIT, ZERO, BrokenReceipt, Receipt, answered_question, parse_receipt
from adderclaw.storage.ledger.log_files import Lock, open_log, read_key


class Verification(NamedTuple):
    valid: bool
    receipts: int
    """The number of intact receipts before the first broken one."""
    first_broken: int | None
    reason: str
    notes: tuple[str, ...]
    """Traces of a crash, which are not faults; the next run repairs them."""
    completeness: Json
    head: str
    """"seq:receipt_hash" of the last intact receipt: stored elsewhere, it reveals a rollback."""


class Expected(NamedTuple):
    """What was recorded elsewhere about a chain."""

    heads: Mapping[int, str]
    """Number of a receipt → its hash."""
    logs: Mapping[str, Anchor]
    """The id of each anchored log, with one of its anchors."""


class _InvalidChain(Exception):
    def __init__(self, seq: int, reason: str) -> None:
        super().__init__(reason)
        self.seq = seq


def verify(
    log_path: str,
    store: Store | None,
    key_path: str,
    against: str | None = None,
    *,
    archive: str = "",
    results: bool = False,
) -> Verification:
    """Verifies the current chain, or an archived one by its name; with `results`, also compares the transcript.

    `against`: a head that was recorded elsewhere, or a file with the signed heads of `receipt anchor`. Without a
    `key_path`, the hashes are checked but not the seals.
    """
    log_path = os.path.abspath(log_path)
    with _appends_blocked(log_path):
        path = os.path.join(os.path.dirname(log_path), archive) if archive else log_path
        replay = _Replay(path, store, archive)
        broken: int | None = None
        reason = ""
        try:
            key = read_key(key_path) if key_path else None
            replay.expected = _expected_heads(against, key, store, archive, replay)
            replay.run(key, key_path)
            _check_approvals(store, replay.used)
            if results and store is not None:
                _check_results(store, archive, replay)
        except _InvalidChain as invalid:
            broken, reason = invalid.seq, str(invalid)
        completeness = _completeness(store, replay) if store is not None else {"store": False}
    return Verification(
        broken is None, replay.seq, broken, reason, tuple(replay.notes), completeness, f"{replay.seq}:{replay.hash}"
    )


def _check_approvals(store: Store | None, used: Mapping[str, int]) -> None:
    """Requires that every question named by a receipt was answered yes and used. A cleared session has no questions."""
    if store is None or not used:
        return
    sql = "SELECT id FROM approvals WHERE answer IS NOT 'yes' OR used_at IS NULL"
    for (question,) in store.read(sql):
        if question in used:
            wrong = f"its call ran on the answer to {question}, which is not approved and used in the database"
            raise _InvalidChain(used[question], f"{wrong}: the row was changed")


def _check_results(store: Store, archive: str, replay: "_Replay") -> None:
    from adderclaw.storage.ledger.results import ResultComparison

    compared = ResultComparison(store, archive, replay.mirrored)
    replay.notes += compared.lost
    if compared.changed:
        first, *more = compared.changed
        numbers = ", ".join(str(change.seq) for change in more[:10]) + (", …" if len(more) > 10 else "")
        others = f"; so are {len(more)} more (receipts {numbers})" if more else ""
        raise _InvalidChain(first.seq, first.reason + others)


def head(log_path: str, store: Store | None, key_path: str) -> str:
    """ "seq:receipt_hash", of a chain that verifies."""
    verification = verify(log_path, store, key_path)
    if not verification.valid:
        raise LedgerError(
            f"invalid chain at receipt {verification.first_broken}: {verification.reason}: its head proves nothing"
        )
    return verification.head


def log_id(log_path: str) -> str:
    """The id of a log: the hash of its first receipt."""
    for first in receipts(log_path):
        return first.get("receipt_hash", ZERO)
    return ZERO


def receipts(log_path: str) -> Iterator[Json]:
    """The receipts of the log, unverified. An entry for an invalid line says why it is invalid."""
    try:
        fd = open_log(os.path.abspath(log_path), os.O_RDONLY)
    except FileNotFoundError:
        return
    for seq, line in enumerate(_lines(fd), start=1):
        try:
            yield parse_receipt(line.rstrip(b"\n"), seq=seq, previous_hash=None, key=None)._asdict()
        except BrokenReceipt as broken:
            yield {"seq": seq, "broken": str(broken)}


class _Replay:
    """Reads the log and its mirror in parallel."""

    def __init__(self, path: str, store: Store | None, archive: str) -> None:
        self._path = path
        self.expected = Expected({}, {})
        self._mirror = _mirror(store, archive)
        self.seq = 0
        self.hash = ZERO
        self.mirrored = 0
        self.conversation = ""
        """The conversation of the last receipt."""
        self.used: dict[str, int] = {}
        """Question → the receipt of the call that ran on its answer."""
        self.notes: list[str] = []

    def run(self, key: bytes | None, key_path: str) -> None:
        try:
            fd = open_log(self._path, os.O_RDONLY)
        except FileNotFoundError:
            if next(self._mirror, None) is not None:
                raise _InvalidChain(1, f"{self._path} was deleted: the store's mirror has its receipts") from None
            self._check_last_head()
            return
        if key is None and key_path and os.fstat(fd).st_size:
            os.close(fd)
            raise _InvalidChain(
                1, f"the key {key_path} is missing, so a forged receipt cannot be recognized; restore it"
            )
        for line in _lines(fd):
            if not self._step(line, key):
                break
        self._check_end()

    def _step(self, line: bytes, key: bytes | None) -> bool:
        """Checks one line. Returns False for a last line that a crash has torn."""
        seq = self.seq + 1
        mirrored = next(self._mirror, None)
        if not line.endswith(b"\n") and mirrored is None and self._is_torn(line, seq):
            return False
        receipt = _parse_whole_line(line, seq, self.hash, key)
        if mirrored is not None:
            self._check_mirror(seq, mirrored, line)
            self.mirrored = seq
        if seq == 1:
            self._check_log_id(receipt.receipt_hash)
        if self.expected.heads.get(seq, receipt.receipt_hash) != receipt.receipt_hash:
            raise _InvalidChain(seq, "its hash differs from the recorded head: the log was rewritten")
        self._check_approval_used_once(seq, receipt)
        self.seq, self.hash, self.conversation = seq, receipt.receipt_hash, receipt.conversation_id
        return True

    def _check_approval_used_once(self, seq: int, receipt: Receipt) -> None:
        """An answer may allow only one call."""
        question = answered_question(receipt.status, receipt.decision)
        if question and self.used.setdefault(question, seq) != seq:
            raise _InvalidChain(
                seq, f"its call ran on the answer to {question}, which receipt {self.used[question]} used"
            )

    def _is_torn(self, line: bytes, seq: int) -> bool:
        # A torn line is the beginning of a receipt. A complete one with text after it is not the result of a crash.
        if len(line) > LINE_LIMIT or _begins_with_json(line):
            return False
        self.notes.append(f"a crash tore the line of receipt {seq}; the next run repairs it")
        return True

    def _check_mirror(self, seq: int, mirrored: tuple[int, str], line: bytes) -> None:
        number, text = mirrored
        if number != seq:
            raise _InvalidChain(
                seq, f"the store's mirror lacks it and continues with {number}: mirror rows were removed"
            )
        if text.encode() + b"\n" != line:
            raise _InvalidChain(seq, "it differs from the store's mirror: the log or the mirror was rewritten")

    def _check_end(self) -> None:
        if next(self._mirror, None) is not None:
            raise _InvalidChain(
                self.seq + 1,
                f"the log ends at receipt {self.seq}, but the store's mirror continues: the log was truncated",
            )
        self._check_last_head()

    def _check_log_id(self, log_id: str) -> None:
        """The first receipt identifies a log. Anchors of another log show that this one is not the anchored one."""
        others = [anchor for known, anchor in self.expected.logs.items() if known != log_id]
        if others:
            anchor_text = f"{others[0].place}: the anchor of receipt {others[0].seq}"
            raise _InvalidChain(1, f"{anchor_text} is of another log: the log was replaced from its first receipt on")

    def _check_last_head(self) -> None:
        last_head = max(self.expected.heads, default=0)
        if last_head > self.seq:
            raise _InvalidChain(
                self.seq + 1, f"the recorded head is receipt {last_head}, but the log ends earlier: it was rolled back"
            )


def _parse_whole_line(line: bytes, seq: int, previous_hash: str, key: bytes | None) -> Receipt:
    if not line.endswith(b"\n"):
        raise _InvalidChain(seq, "its line was cut or changed at the end")
    try:
        return parse_receipt(line[:-1], seq=seq, previous_hash=previous_hash, key=key)
    except BrokenReceipt as broken:
        raise _InvalidChain(seq, str(broken)) from broken


def _begins_with_json(line: bytes) -> bool:
    """Whether a line begins with a complete JSON value that is followed by more text."""
    import json

    text = line.decode("utf-8", "replace")
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return end < len(text)


def _lines(fd: int) -> Iterator[bytes]:
    with os.fdopen(fd, "rb") as file:
        while line := file.readline(2 * LINE_LIMIT):
            yield line


def _mirror(store: Store | None, archive: str) -> Iterator[tuple[int, str]]:
    """The mirror rows, read in pages because a long chain may not fit in memory."""
    seq = -1
    while store is not None:
        rows = store.read(
            "SELECT seq, line FROM receipts WHERE archive = ? AND seq > ? ORDER BY seq LIMIT 1000", (archive, seq)
        )
        if not rows:
            return
        for row in rows:
            yield row[0], row[1]
        seq = rows[-1][0]


@contextmanager
def _appends_blocked(log_path: str) -> Generator[None]:
    """Blocks appends. Where the log cannot be locked (a copy, a read-only disk), no process appends to it."""
    try:
        lock = Lock(log_path, shared=True)
    except (FileNotFoundError, LedgerError):
        yield
        return
    try:
        with lock:
            yield
    finally:
        lock.close()


def _expected_heads(
    against: str | None, key: bytes | None, store: Store | None, archive: str, replay: "_Replay"
) -> Expected:
    """The heads that the chain must contain."""
    if against is None:
        return Expected({}, {})
    head = re.fullmatch(HEAD, against.strip())
    if head:
        return Expected({int(head[1]): head[2]}, {})
    if not os.path.lexists(against):
        fix = "give the output of `adderclaw receipt head` (seq:hash), or the file that `receipt anchor` wrote"
        raise UsageError(f"{against!r} is neither a head nor an existing file; {fix}")
    anchor_file = read_anchors(against, key)
    if anchor_file.torn:
        replay.notes.append(f"{against}: a crash tore the last line")
    if anchor_file.wrong is not None:
        raise _InvalidChain(1, anchor_file.wrong)
    heads: dict[int, str] = {}
    logs: dict[str, Anchor] = {}
    for anchor in anchor_file.anchors:
        elsewhere = _archive_of(store, anchor, archive, key)
        if elsewhere is not None:
            replay.notes.append(f"{anchor.place}: belongs to {elsewhere or 'the current chain'}, not to this one")
            continue
        if heads.setdefault(anchor.seq, anchor.hash) != anchor.hash:
            raise _InvalidChain(
                anchor.seq, f"{anchor.place}: two anchors of this receipt have different hashes: a log was replaced"
            )
        logs.setdefault(anchor.log_id, anchor)
    return Expected(heads, logs)


def _archive_of(store: Store | None, anchor: Anchor, archive: str, key: bytes | None) -> str | None:
    """The name of the other chain that an anchor belongs to, if the store has its receipt; '' is the current chain."""
    if store is None:
        return None
    sql = (
        "SELECT r.archive, r.line FROM receipts f JOIN receipts r ON r.archive = f.archive AND r.seq = ?"
        " WHERE f.seq = 1 AND f.receipt_hash = ? AND f.archive <> ?"
    )
    for name, line in store.read(sql, (anchor.seq, anchor.log_id, archive)):
        try:
            receipt = parse_receipt(line.encode(), seq=anchor.seq, previous_hash=None, key=key)
        except BrokenReceipt:
            continue
        if receipt.receipt_hash == anchor.hash:
            return name
    return None


# ------------------------------------------------------------------ completeness

_CALLS = """
    WITH receipt AS (
        SELECT session_id, tool_use_id, count(*) AS n FROM receipts
        WHERE session_id IS NOT NULL GROUP BY session_id, tool_use_id),
    call AS (
        SELECT session_id, tool_use_id,
               sum(entry_type = 'tool_use') AS asked, sum(entry_type = 'tool_result') AS answered
        FROM transcript_entries
        WHERE entry_type IN ('tool_use', 'tool_result') AND tool_use_id IS NOT NULL GROUP BY session_id, tool_use_id)
    SELECT session_id, sum(max(asked, answered)),
           sum(max(answered - coalesce(n, 0), 0)),
           sum(max(asked - max(answered, coalesce(n, 0)), 0))
    FROM call LEFT JOIN receipt USING (session_id, tool_use_id) GROUP BY session_id"""

_ALONE = """
    WITH call AS MATERIALIZED (
        SELECT DISTINCT session_id, tool_use_id FROM transcript_entries
        WHERE entry_type = 'tool_use' AND tool_use_id IS NOT NULL)
    SELECT count(*), coalesce(sum(r.session_id IS NULL), 0)
    FROM receipts r LEFT JOIN call c ON c.tool_use_id = r.tool_use_id AND c.session_id = r.session_id
    WHERE r.archive = '' AND c.tool_use_id IS NULL"""


def _receipts_were_off(store: Store, session_id: str) -> bool:
    """Whether receipts were switched off in every run of the session, according to its tape."""
    from adderclaw.storage import tape

    heads = tape.heads(store, session_id)
    return bool(heads) and all(head.get("receipts") is False for head in heads)


def _completeness(store: Store, replay: _Replay) -> Json:
    calls = without_receipt = interrupted = switched_off = 0
    for session_id, call_count, missing, open_ones in store.read(_CALLS):
        calls, interrupted = calls + call_count, interrupted + open_ones
        if missing and _receipts_were_off(store, session_id):
            switched_off += missing
        else:
            without_receipt += missing
    alone, nobodys = store.read(_ALONE)[0]
    # A receipt whose transaction was lost in a crash belongs to one of these calls; which one is unknown.
    without_receipt = max(0, without_receipt - nobodys)
    archives = store.read("SELECT DISTINCT archive FROM receipts WHERE archive <> ''")
    unmirrored = replay.seq - replay.mirrored
    behind = not damage.is_explained_by_crash(store, unmirrored, replay.conversation)
    return {
        "store": True,
        "complete": without_receipt == 0 and not behind,
        "tool_calls": calls,
        "without_receipt": without_receipt,
        "switched_off": switched_off,
        "interrupted": interrupted,
        "without_call": alone,
        "unmirrored": unmirrored,
        "behind": behind,
        "archives": [row[0] for row in archives],
    }
