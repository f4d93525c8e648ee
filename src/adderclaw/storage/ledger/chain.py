"""The hash chain of receipts as pure functions: sealing, and detecting broken receipts."""

import hashlib
import hmac
import json
from typing import Any, Literal, cast

from adderclaw.core.json_text import canonical
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json, Risk
from adderclaw.storage.text import compact

ZERO = "0" * 64
"""The `previous_hash` of the first receipt of a chain."""
LINE_LIMIT = 32 * 1024
"""Maximum length of a line in bytes; a decision that does not fit is replaced by its hash."""

type Status = Literal["allowed", "denied", "failed"]


class ReceiptDraft(NamedTuple):
    """The fields of a receipt that the caller supplies; the chain adds the rest."""

    conversation_id: str
    session_id: str
    tool_use_id: str
    tool: str
    args_hash: str
    result_hash: str
    status: Status
    risk: Risk
    decision: Json
    run_id: str | None = None
    """Stored only in the mirror, because the fields of the log are fixed."""

    @property
    def of_call(self) -> tuple[str, str, str]:
        """The fields that identify the call that a receipt is for."""
        return self.conversation_id, self.tool[:256], self.args_hash


class Receipt(NamedTuple):
    """One line of the log, with exactly these fields."""

    id: str
    timestamp: str
    conversation_id: str
    tool: str
    args_hash: str
    result_hash: str
    status: Status
    risk: Risk
    decision: Json
    seq: int
    previous_hash: str
    mac: str
    receipt_hash: str


class BrokenReceipt(Exception):
    """What is wrong with a line of the log."""


def seal(draft: ReceiptDraft, *, id: str, timestamp: str, seq: int, previous_hash: str, key: bytes) -> Receipt:
    body = _body(draft, id, timestamp, seq, previous_hash)
    text = canonical(body).encode()
    if len(text) > LINE_LIMIT - 512:
        used = body["decision"].get("approval_id")
        body["decision"] = {"omitted_sha256": _sha256(body["decision"])} | ({"approval_id": used} if used else {})
        text = canonical(body).encode()
    body["mac"] = _mac(text, key)
    return Receipt(**body, receipt_hash=_sha256(body))


def answered_question(status: str, decision: Json) -> str:
    """The question whose answer allowed the call; empty if nobody was asked or the call did not run."""
    return str(decision.get("approval_id", "")) if status != "denied" else ""


def _body(draft: ReceiptDraft, id: str, timestamp: str, seq: int, previous_hash: str) -> Json:
    body = {
        "id": id,
        "timestamp": timestamp,
        "conversation_id": draft.conversation_id,
        "tool": draft.tool[:256],
        "args_hash": draft.args_hash,
        "result_hash": draft.result_hash,
        "status": draft.status,
        "risk": draft.risk,
        "decision": draft.decision,
        "seq": seq,
        "previous_hash": previous_hash,
    }
    # Serialized and parsed, so that exactly what a reader of the line will parse is hashed.
    return json.loads(compact(body))


def line_of(receipt: Receipt) -> str:
    return canonical(receipt._asdict())


def _mac(text: bytes, key: bytes) -> str:
    """The MAC of the canonical receipt without `mac` and `receipt_hash`."""
    return hmac.digest(key, text, "sha256").hex()


def _sha256(body: Json) -> str:
    return hashlib.sha256(canonical(body).encode()).hexdigest()


def parse_receipt(line: bytes, *, seq: int, previous_hash: str | None, key: bytes | None) -> Receipt:
    """Parses a line without its newline; raises BrokenReceipt. Without a key, the MAC is not checked."""
    body = _parse(line)
    receipt = Receipt(**body)
    del body["receipt_hash"]
    if _sha256(body) != receipt.receipt_hash:
        raise BrokenReceipt("it was changed: its hash does not match its content")
    if receipt.seq != seq:
        raise BrokenReceipt(f"it says that it is receipt {receipt.seq}: lines were removed, added or moved")
    if previous_hash is not None and receipt.previous_hash != previous_hash:
        raise BrokenReceipt(f"it does not continue receipt {seq - 1}: previous_hash differs")
    del body["mac"]
    if key is not None and not hmac.compare_digest(_mac(canonical(body).encode(), key).encode(), receipt.mac.encode()):
        raise BrokenReceipt("its mac was not made with this key: another program wrote it, or the key was replaced")
    return receipt


def _parse(line: bytes) -> Json:
    """Requires the canonical text, because a changed byte may still parse to the same value."""
    try:
        body: Json = json.loads(line.decode())
        same = canonical(body).encode() == line
    except (ValueError, RecursionError) as error:
        raise BrokenReceipt("it is not a receipt: the line is not JSON") from error
    if not same:
        raise BrokenReceipt("it was changed: the line is not in canonical form")
    if not isinstance(cast(Any, body), dict) or body.keys() != set(Receipt._fields):
        raise BrokenReceipt("it was changed: it does not have the fields of a receipt")
    for name in Receipt._fields:
        kind = int if name == "seq" else dict if name == "decision" else str
        if not isinstance(body[name], kind):
            raise BrokenReceipt(f"it was changed: {name} is not of type {kind.__name__}")
    return body
