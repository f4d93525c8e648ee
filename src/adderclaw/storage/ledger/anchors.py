"""Anchors: signed heads of the chain, stored in a separate file, which reveal a rollback or a complete rewrite."""

import hmac
import json
import os
import re
from typing import Any, NamedTuple, cast

from adderclaw.core.errors import AdderClawError, LedgerError
from adderclaw.core.json_text import canonical
from adderclaw.core.types import Json
from adderclaw.storage.text import iso

HEAD = r"([0-9]{1,18}):([0-9a-f]{64})"
_MOST = 4096
"""Longest line that is parsed."""
_MAX_FILE_BYTES = 64 * 1024 * 1024


class Anchor(NamedTuple):
    place: str
    """File and line."""
    log_id: str
    """Hash of the log's first receipt."""
    seq: int
    hash: str
    time: str


class Anchors(NamedTuple):
    anchors: tuple[Anchor, ...]
    wrong: str | None
    """What is wrong with the file itself. If anything is, its anchors prove nothing."""
    torn: bool


def signed_anchor(log_id: str, head: str, key: bytes, *, now: float) -> str:
    """One line: the head of a chain that verified, signed with the ledger's key."""
    seq, _, digest = head.partition(":")
    body: Json = {"log_id": log_id, "seq": int(seq), "hash": digest, "time": iso(now)}
    return canonical({**body, "mac": _mac(body, key)})


def _mac(body: Json, key: bytes) -> str:
    # The prefix distinguishes it from the MAC of a receipt, which uses the same key.
    return hmac.digest(key, b"anchor\n" + canonical(body).encode(), "sha256").hex()


def append(path: str, line: str) -> None:
    """Appends a line to the file, which is created if necessary, and syncs it to disk."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(fd).st_size
            whole = size == 0 or os.pread(fd, 1, size - 1) == b"\n"
            os.write(fd, (b"" if whole else b"\n") + line.encode() + b"\n")
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise AdderClawError(
            f"{path} cannot be written: {error.strerror}. Choose a file that you may append to"
        ) from error


def read_anchors(path: str, key: bytes | None) -> Anchors:
    try:
        with open(path, "rb") as file:
            lines = file.read(_MAX_FILE_BYTES).split(b"\n")
    except OSError as error:
        raise LedgerError(f"{path} cannot be read: {error.strerror}") from error
    last = lines.pop()
    anchors: list[Anchor] = []
    for number, line in enumerate(lines, start=1):
        anchor, wrong = _parse_line(f"{path} line {number}", line, key)
        if wrong == TORN and number < len(lines):
            continue  # torn by a crash; the next anchor started a new line
        if anchor is None:
            return Anchors((), f"{path} line {number} {wrong}", torn=bool(last))
        anchors.append(anchor)
    if not anchors:
        return Anchors((), f"{path} contains no anchor", torn=bool(last))
    return Anchors(tuple(anchors), None, torn=bool(last))


TORN = "is torn"


def _parse_line(position: str, line: bytes, key: bytes | None) -> tuple[Anchor | None, str]:
    if line and not line.endswith(b"}"):
        return None, TORN
    try:
        body: Any = json.loads(line.decode()) if len(line) <= _MOST else None
    except (ValueError, RecursionError):
        body = None
    match body:
        case {"log_id": str(log_id), "seq": int(seq), "hash": str(digest), "time": str(time), "mac": str(mac), **rest}:
            if rest or isinstance(seq, bool) or not re.fullmatch(HEAD, f"{seq}:{digest}"):
                return None, "is not an anchor"
        case _:
            return None, "is not an anchor"
    signed = {name: value for name, value in cast(Json, body).items() if name != "mac"}
    if key is not None and not hmac.compare_digest(_mac(signed, key).encode(), mac.encode()):
        return None, "was not signed with this key: the anchor was changed, or the key was replaced"
    return Anchor(position, log_id, seq, digest, time), ""
