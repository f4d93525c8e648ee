"""Anchors: signed heads of the chain in a file elsewhere, by which a rollback or a rewrite of everything is found."""

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
"""Longest line that is looked at."""
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
    """What is wrong with the file itself; then nothing in it proves anything."""
    torn: bool


def signed_anchor(log_id: str, head: str, key: bytes, *, now: float) -> str:
    """One line: the head of a chain that verified, signed with the ledger's key."""
    seq, _, digest = head.partition(":")
    body: Json = {"log_id": log_id, "seq": int(seq), "hash": digest, "time": iso(now)}
    return canonical({**body, "mac": _mac(body, key)})


def _mac(body: Json, key: bytes) -> str:
    # The prefix keeps it apart from the mac of a receipt, which the same key makes.
    return hmac.digest(key, b"anchor\n" + canonical(body).encode(), "sha256").hex()


def append(path: str, line: str) -> None:
    """Add a line to the file and see it on disk; the file is made when there is none."""
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
            f"{path} cannot be written: {error.strerror}: name a file that you may append to"
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
            continue  # a crash tore it, and the next anchor began a line of its own
        if anchor is None:
            return Anchors((), f"{path} line {number} {wrong}", torn=bool(last))
        anchors.append(anchor)
    if not anchors:
        return Anchors((), f"{path} holds no anchor", torn=bool(last))
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
                return None, "is no anchor"
        case _:
            return None, "is no anchor"
    signed = {name: value for name, value in cast(Json, body).items() if name != "mac"}
    if key is not None and not hmac.compare_digest(_mac(signed, key).encode(), mac.encode()):
        return None, "was not signed with this key: the anchor was changed, or the key was replaced"
    return Anchor(position, log_id, seq, digest, time), ""
