"""Checks that the transcript still has the calls and results that the receipts were written for."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from adderclaw.core.json_text import digest
from adderclaw.core.types import Json
from adderclaw.storage import Store

PAGE = 32
"""Rows in memory at a time: a result may have a megabyte, plus images."""


class ChangedResult(NamedTuple):
    """A call whose arguments or result are not those that its receipt was written for."""

    seq: int
    reason: str


class _StoredResult(NamedTuple):
    """A result in the transcript."""

    hash: str
    resumed: bool
    """A session that was resumed after a crash wrote it in place of a result that may have been lost."""


class _Session:
    """The results of one session, read as its receipts need them, since both were written in the same order."""

    def __init__(self, store: Store, session_id: str) -> None:
        self._store, self._id = store, session_id
        self._entries = _results(store, session_id)
        self._ahead: dict[str, list[_StoredResult]] = {}
        self._calls: dict[str, list[Json]] = {}

    def find_result(self, use: str, result_hash: str) -> _StoredResult | None:
        """The call's result with this hash, or else another result of the call, because providers may reuse an id."""
        while True:
            results = self._ahead.get(use, [])
            if (same := next((result for result in results if result.hash == result_hash), None)) is not None:
                results.remove(same)
                if not results:
                    del self._ahead[use]
                return same
            entry = next(self._entries, None)
            if entry is None:
                return results[0] if results else None
            use_id, kind, payload, blocks = entry
            if kind == "tool_use":
                self._calls.setdefault(use_id, []).append(_body(payload))
            else:
                self._ahead.setdefault(use_id, []).append(_stored_result(payload, blocks))

    def has_same_call(self, use: str, tool: str, args_hash: str) -> bool:
        """Whether the transcript has the unchanged call. Requires that its result, which follows it, was read."""
        calls = self._calls.get(use, [])
        same = next((call for call in calls if _is_call(call, tool, args_hash)), None)
        if same is not None:
            calls.remove(same)
        return same is not None

    def has_call(self, use: str) -> bool:
        """Whether the transcript has the call at all; a cleared transcript has neither the call nor its result."""
        sql = "SELECT 1 FROM transcript_entries WHERE session_id = ? AND tool_use_id = ? LIMIT 1"
        return bool(self._store.read(sql, (self._id, use)))


class ResultComparison:
    """Compares the results in the transcript with the receipts of a chain."""

    def __init__(self, store: Store, archive: str, until: int) -> None:
        """`until`: the number of the last intact receipt."""
        self.changed: list[ChangedResult] = []
        self.lost: list[str] = []
        """Notes on results that were lost with a process, so that a resumed session wrote others."""
        sessions: dict[str, _Session] = {}
        for seq, session_id, use, line in _receipts(store, archive, until):
            if session_id not in sessions:
                sessions[session_id] = _Session(store, session_id)
            session, receipt = sessions[session_id], json.loads(line)
            result = session.find_result(use, receipt["result_hash"])
            call = f"the result of its call {use} ({receipt['tool']}, session {session_id})"
            if result is None:
                if session.has_call(use):
                    self.changed.append(
                        ChangedResult(seq, f"{call} is missing from the transcript: the transcript was changed")
                    )
            elif result.hash != receipt["result_hash"] and result.resumed:
                self.lost.append(f"receipt {seq}: {call} was lost in a crash, as the transcript notes")
            elif result.hash != receipt["result_hash"]:
                self.changed.append(
                    ChangedResult(seq, f"{call} differs from the transcript: the transcript was changed")
                )
            elif not result.resumed and not session.has_same_call(use, receipt["tool"], receipt["args_hash"]):
                arguments = f"the arguments of its call {use} ({receipt['tool']}, session {session_id})"
                self.changed.append(
                    ChangedResult(seq, f"{arguments} differ from the transcript: the transcript was changed")
                )


def _body(payload: str) -> Json:
    try:
        body: Any = json.loads(payload)
    except (ValueError, RecursionError):
        return {}
    return cast(Json, body) if isinstance(body, dict) else {}


def _is_call(body: Json, tool: str, args_hash: str) -> bool:
    """Whether a stored call is the one of a receipt.

    The receipt of a call with broken JSON has the hash of its text. Text that UTF-8 cannot encode is U+FFFD in the
    transcript, so its hash cannot be compared.
    """
    arguments = cast(object, body.get("input"))
    raw: object = cast(Json, body["input"]).get("_raw") if isinstance(body.get("input"), dict) else None
    lossy = "\ufffd" in json.dumps(body, ensure_ascii=False)
    return str(body.get("name"))[:256] == tool and (lossy or args_hash in (digest(arguments), digest(raw)))


def _stored_result(payload: str, blocks: str | None) -> _StoredResult:
    """An unreadable row gets no hash, because it was changed."""
    try:
        body: Any = json.loads(payload)
        media: Any = json.loads(blocks) if blocks else []
    except (ValueError, RecursionError):
        return _StoredResult("", resumed=False)
    if not isinstance(body, dict):
        return _StoredResult("", resumed=False)
    content = cast(Json, body).get("content")
    resumed = bool(cast(Json, body).get("resumed"))
    return _StoredResult(digest([content, *media] if media else content), resumed)


def _results(store: Store, session_id: str) -> Iterator[tuple[str, str, str, str | None]]:
    """Calls and their results, in the order of writing."""
    sequence = -1
    while rows := store.read(
        "SELECT e.sequence, e.tool_use_id, e.entry_type, e.payload_json, o.blocks_json"
        " FROM transcript_entries e LEFT JOIN opaque_blocks o ON o.entry_id = e.id"
        " WHERE e.session_id = ? AND e.sequence > ? AND e.tool_use_id IS NOT NULL"
        " AND e.entry_type IN ('tool_use', 'tool_result')"
        " ORDER BY e.sequence LIMIT ?",
        (session_id, sequence, PAGE),
    ):
        for row in rows:
            yield row[1], row[2], row[3], row[4]
        sequence = rows[-1][0]


def _receipts(store: Store, archive: str, until: int) -> Iterator[tuple[int, str, str, str]]:
    """Receipts of the mirror that name their call. That the mirror matches the log has been checked before."""
    seq = 0
    while rows := store.read(
        "SELECT seq, session_id, tool_use_id, line FROM receipts WHERE archive = ? AND seq > ? AND seq <= ?"
        " AND session_id IS NOT NULL AND tool_use_id IS NOT NULL ORDER BY seq LIMIT 1000",
        (archive, seq, until),
    ):
        for row in rows:
            yield row[0], row[1], row[2], row[3]
        seq = rows[-1][0]
