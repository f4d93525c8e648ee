#!/usr/bin/env python3
"""Verify a receipt log without AdderClaw: Python 3 and its standard library are all that this file needs.

    verify_receipts.py LOG [--key FILE] [--against HEAD|FILE] [--manifest FILE] [--json]

Walks the log line by line: canonical JSON, the fields of a receipt, its hash, its number, that it continues the one
before and, with the key, its mac. `--manifest` is the one of `adderclaw receipt export`: the head of the chain, the
hashes of the files beside it and their names are compared, and the receipts that records.jsonl has of each chain, which
are those of the database. `--against` takes what was kept elsewhere: a head
`seq:hash`, or a file of anchors.
Exit code 0: valid, 1: invalid, 2: the command line makes no sense or a file cannot be read.

It is `adderclaw receipt verify` without the database: whether the end of the log was cut off, only a head or an anchor
that is younger than the cut can tell.
"""

import argparse
import hashlib
import hmac
import json
import re
import stat
import sys
from pathlib import Path

ZERO = "0" * 64
LOG, RECORDS = "tool_receipts.log", "records.jsonl"
LINE_LIMIT = 32 * 1024
ANCHORS_LIMIT = 64 * 1024 * 1024
TEXTS = ("id", "timestamp", "conversation_id", "tool", "args_hash", "result_hash", "status", "risk", "previous_hash")
FIELDS = {**dict.fromkeys(TEXTS, str), "mac": str, "receipt_hash": str, "seq": int, "decision": dict}
HEAD = r"([0-9]{1,18}):([0-9a-f]{64})"
ANCHOR = {"log_id", "seq", "hash", "time", "mac"}


class Broken(Exception):
    """What is wrong, and with which receipt."""

    def __init__(self, seq, reason):
        super().__init__(reason)
        self.seq = seq


def visible(text):
    """What an export says, as it may be printed."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def signed(body, key, prefix=b""):
    return hmac.new(key, prefix + canonical(body), hashlib.sha256).hexdigest()


# ------------------------------------------------------------------ one receipt


def parsed(line, seq):
    try:
        body = json.loads(line.decode())
        same = canonical(body) == line
    except (ValueError, RecursionError):
        raise Broken(seq, "it is not a receipt: the line is not JSON") from None
    if not same:
        raise Broken(seq, "it was changed: the line is not in canonical form")
    if not isinstance(body, dict) or body.keys() != FIELDS.keys():
        raise Broken(seq, "it was changed: it does not have the fields of a receipt")
    for name, kind in FIELDS.items():
        if not isinstance(body[name], kind):
            raise Broken(seq, f"it was changed: {name} is not of type {kind.__name__}")
    return body


def checked(line, seq, previous, key):
    """The hash of an intact receipt, and the receipt."""
    body = parsed(line, seq)
    known = body.pop("receipt_hash")
    if hashlib.sha256(canonical(body)).hexdigest() != known:
        raise Broken(seq, "it was changed: its hash does not match its content")
    if body["seq"] != seq:
        raise Broken(seq, f"it says that it is receipt {body['seq']}: lines were removed, added or moved")
    if body["previous_hash"] != previous:
        raise Broken(seq, f"it does not continue receipt {seq - 1}: previous_hash differs")
    mac = body.pop("mac")
    if key is not None and not hmac.compare_digest(signed(body, key).encode(), mac.encode()):
        raise Broken(seq, "its mac was not made with this key: another program wrote it, or the key was replaced")
    return known, body


# ------------------------------------------------------------------ the log


class Replay:
    def __init__(self):
        self.seq, self.hash, self.notes, self.used = 0, ZERO, [], {}

    def run(self, log, key, heads, logs):
        for line in lines(log):
            if not line.endswith(b"\n") and is_torn(line):
                self.notes.append(f"a crash tore the line of receipt {self.seq + 1}; the next run repairs it")
                break
            self.step(line, key, heads, logs)
        if max(heads, default=0) > self.seq:
            raise Broken(
                self.seq + 1, f"the recorded head is receipt {max(heads)}, but the log ends earlier: it was rolled back"
            )

    def step(self, line, key, heads, logs):
        seq = self.seq + 1
        if not line.endswith(b"\n"):
            raise Broken(seq, "its line was cut or changed at the end")
        found, body = checked(line[:-1], seq, self.hash, key)
        question = str(body["decision"].get("approval_id") or "") if body["status"] != "denied" else ""
        if question and self.used.setdefault(question, seq) != seq:
            raise Broken(seq, f"its call ran on the answer to {question}, which receipt {self.used[question]} used")
        others = [place for log_id, place in logs.items() if log_id != found] if seq == 1 else []
        if others:
            raise Broken(1, f"{others[0]} is of another log: the log was replaced from its first receipt on")
        if heads.get(seq, found) != found:
            raise Broken(seq, "its hash differs from the recorded head: the log was rewritten")
        self.seq, self.hash = seq, found


def lines(log):
    if log.is_symlink():
        raise OSError(f"{log} is a symbolic link, which is not allowed for a ledger")
    if not log.exists():
        return
    if not stat.S_ISREG(log.stat().st_mode):
        raise OSError(f"{log} is not a regular file")
    with open(log, "rb") as file:
        while line := file.readline(2 * LINE_LIMIT):
            yield line


def is_torn(line):
    """A torn line is the beginning of a receipt. A whole one with something behind it is no crash."""
    if len(line) > LINE_LIMIT:
        return False
    text = line.decode("utf-8", "replace")
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return True
    return end == len(text)


# ------------------------------------------------------------------ what was kept elsewhere


def kept(against, key, notes):
    """({number: hash}, {log id: where an anchor of it stands})"""
    if against is None:
        return {}, {}
    head = re.fullmatch(HEAD, against.strip())
    if head:
        return {int(head[1]): head[2]}, {}
    rows = beginning(Path(against), ANCHORS_LIMIT).split(b"\n")
    if rows.pop():
        notes.append(f"{against}: a crash tore the last line")
    heads, logs = {}, {}
    for number, row in enumerate(rows, start=1):
        if row and not row.endswith(b"}") and number < len(rows):
            continue
        anchor = read_anchor(f"{against} line {number}", row, key)
        seq = anchor["seq"]
        if heads.setdefault(seq, anchor["hash"]) != anchor["hash"]:
            said = "two anchors of this receipt have different hashes: a log was replaced"
            raise Broken(seq, f"{against} line {number}: {said}")
        logs.setdefault(anchor["log_id"], f"{against} line {number}: the anchor of receipt {seq}")
    if not heads:
        raise Broken(1, f"{against} contains no anchor")
    return heads, logs


def beginning(path, size):
    with open(path, "rb") as file:
        return file.read(size)


def read_anchor(place, row, key):
    if row and not row.endswith(b"}"):
        raise Broken(1, f"{place} is torn")
    try:
        anchor = json.loads(row.decode())
    except (ValueError, RecursionError):
        anchor = None
    texts = ("log_id", "hash", "time", "mac")
    fits = isinstance(anchor, dict) and anchor.keys() == ANCHOR and all(isinstance(anchor[name], str) for name in texts)
    if not fits or type(anchor["seq"]) is not int or not re.fullmatch(HEAD, f"{anchor['seq']}:{anchor['hash']}"):
        raise Broken(1, f"{place} is not an anchor")
    mac = anchor.pop("mac")
    if key is not None and not hmac.compare_digest(signed(anchor, key, b"anchor\n").encode(), mac.encode()):
        raise Broken(1, f"{place} was not signed with this key: the anchor was changed, or the key was replaced")
    return anchor


def of_manifest(name, log):
    """{number: hash} of a log, as a manifest and the records beside it have them; each file that it names is what it
    says, and no other lies there."""
    path = Path(name)
    try:
        manifest = json.loads(beginning(path, ANCHORS_LIMIT))
        heads = {LOG: manifest["head"], **manifest.get("archives", {})}
        head, files = re.fullmatch(HEAD, heads.get(log.name, manifest["head"])), dict(manifest["files"])
        seq, known = int(head[1]), head[2]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Broken(1, f"{name} is not a manifest") from None
    if missing := [one for one in (*heads, RECORDS) if one not in files]:
        raise Broken(1, f"{name} has no hash of {missing[0]}: it was changed")
    if strange := {one.name for one in path.absolute().parent.iterdir()} - files.keys() - {path.name}:
        raise Broken(1, f"{min(strange)} is not listed in {name}: it was added")
    for other, digest in files.items():
        if "/" in other or "\0" in other or other in ("", ".", ".."):
            raise Broken(1, f"{name} names {other!r}, which is not a file next to it")
        if hashed(path.parent / other) != digest:
            raise Broken(1, f"{other} does not match its hash in {name}: it was changed")
    mirrored = of_records(path.parent / RECORDS, log.name, files)
    if seq and mirrored.setdefault(seq, known) != known:
        raise Broken(seq, f"{name} and {RECORDS} have two hashes of it: the log was rewritten")
    return mirrored


def hashed(path):
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise Broken(1, f"{path.name} is not a regular file")
    except FileNotFoundError:
        raise Broken(1, f"{path.name} is gone") from None
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def of_records(path, log, files):
    """{number: hash} of the receipts that the database had of a log; each chain that it had is in the export."""
    found = {}
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                row = json.loads(line)
                if row["record"] != "receipt":
                    continue
                seq, known, stamp = (
                    int(row["seq"]),
                    str(row["receipt_hash"]),
                    re.search(r"(\.[^.]*)?$", row["archive"])[0],
                )
            except (ValueError, KeyError, TypeError, RecursionError):
                raise Broken(1, f"{path.name} line {number} is no record") from None
            if LOG + stamp not in files:
                raise Broken(1, f"the chain that was put away as {row['archive']} is gone")
            if LOG + stamp == log:
                found[seq] = known
    return found


# ------------------------------------------------------------------ the program


def read_key(name, log):
    if name is None:
        return None
    path = Path(name)
    data = beginning(path, 33) if path.exists() else b""
    if data and len(data) != 32:
        raise OSError(f"{name} is not the key of a ledger: 32 bytes were expected")
    if not data and log.exists() and log.stat().st_size:
        raise Broken(1, f"the key {name} is missing, so a forged receipt cannot be recognized; restore it")
    return data or None


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Verify a receipt log without AdderClaw.")
    parser.add_argument("log", type=Path, help="the receipt log")
    parser.add_argument("--key", metavar="FILE", help="the ledger's key; without it the macs are not looked at")
    parser.add_argument("--against", metavar="HEAD|FILE", help="a head that was kept elsewhere, or a file of anchors")
    parser.add_argument("--manifest", metavar="FILE", help="the manifest.json of an export")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    options = parser.parse_args(arguments)
    replay, broken, reason = Replay(), None, ""
    if options.key is None:
        replay.notes.append("no key was given: a chain that somebody made anew cannot be told from the true one")
    try:
        key = read_key(options.key, options.log)
        heads, logs = kept(options.against, key, replay.notes)
        if options.manifest is not None:
            heads = {**of_manifest(options.manifest, options.log), **heads}
        replay.run(options.log, key, heads, logs)
    except Broken as error:
        broken, reason = error.seq, str(error)
    except OSError as error:
        print(visible(f"{parser.prog}: {error}"), file=sys.stderr)
        return 2
    say(options, replay, broken, reason)
    return 0 if broken is None else 1


def say(options, replay, broken, reason):
    if options.json:
        found = {"valid": broken is None, "receipts": replay.seq, "first_broken": broken, "reason": reason}
        print(json.dumps({**found, "notes": replay.notes, "head": f"{replay.seq}:{replay.hash}"}))
        return
    counted = f"valid: {replay.seq} receipt{'' if replay.seq == 1 else 's'}"
    print(counted if broken is None else visible(f"invalid chain at receipt {broken}: {reason}"))
    for note in replay.notes:
        print(visible(f"note: {note}"))


if __name__ == "__main__":
    sys.exit(main())
