"""Verifies the fleet's records of its runs against the entries that its workers signed."""

import hashlib
import json
import zlib
from collections.abc import Iterator
from typing import Any

from adderclaw.core.errors import AdderClawError
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json
from adderclaw.fleet import trees
from adderclaw.fleet.anchors import export_anchors
from adderclaw.fleet.database import Database
from adderclaw.fleet.identities import signed_by
from adderclaw.fleet.keys import Key
from adderclaw.fleet.objects import Objects
from adderclaw.fleet.requests import signed_text
from adderclaw.storage.ledger.chain import ZERO, BrokenReceipt, parse_receipt


class Finding(NamedTuple):
    """A difference between the records and the signed entries."""

    what: str
    """The kind: chain, signature, worker, run, unit, outcome, texts, request, state or receipts."""
    where: str
    why: str


class Verified(NamedTuple):
    anchors: int
    runs: int
    receipts: int
    pruned: int
    """Number of runs whose states were removed since. Their signed entries are verified, but not their receipts."""
    wrong: list[Finding]


def verify(database: Database, objects: Objects, key: Key) -> Verified:
    """Verify the log of anchors, then the last state of each run against it."""
    export = export_anchors(database)
    wrong = list(check_export(export))
    pruned = {row.id for row in database.rows("SELECT id FROM fleet.runs WHERE pruned IS NOT NULL")}
    latest = _latest(export)
    receipts = 0
    for id, _, _, _, saved, *_ in export["runs"]:
        entry = latest.get(id)
        if entry is None or "state" not in entry or saved is None or id in pruned:
            continue
        try:
            receipts += _receipts(objects, key.receipts(id), saved, entry)
        except BrokenReceipt as error:
            wrong.append(Finding("receipts", id, str(error)))
        except (AdderClawError, zlib.error, ValueError) as error:
            wrong.append(Finding("state", id, str(error)))
    return Verified(len(export["anchors"]), len(export["runs"]), receipts, len(pruned), wrong)


def check_export(export: Json) -> Iterator[Finding]:
    """The findings in an export, without the stored states. `scripts/verify_fleet.py` runs the same checks."""
    previous, number = ZERO, 0
    entries: list[Json] = []
    for seq, text, digest, signature in export["anchors"]:
        number += 1
        entry = _entry(text)
        where = f"anchor {seq}"
        if seq != number or entry.get("seq") != number:
            yield Finding("chain", where, f"it should be number {number}: entries were removed, added or moved")
            number = seq
        if hashlib.sha256(text.encode()).hexdigest() != digest:
            yield Finding("chain", where, "it was changed: its hash does not match its content")
        if entry.get("previous") != previous:
            yield Finding("chain", where, "it does not continue the one before")
        previous = digest
        public = export["workers"].get(entry.get("worker"))
        if public is None:
            yield Finding("worker", where, f"worker {entry.get('worker')} was never enrolled")
        elif not signed_by(public, text.encode(), signature):
            yield Finding("signature", where, f"worker {entry['worker']} did not sign this")
        if entry:
            entries.append(entry)
        else:
            yield Finding("chain", where, "it is not an entry as workers write them")
    if (export["head"]["seq"], export["head"]["hash"]) != (number, previous):
        yield Finding(
            "chain", "head", "the head is not the last entry: entries were cut off, or the head was rewritten"
        )
    yield from _runs(export, entries)
    yield from _requests(export)


def _requests(export: Json) -> Iterator[Finding]:
    """Findings for runs whose request differs from what the submitter signed."""
    enrolled = {(name, key) for name, key in export["submitters"]}
    unsigned = ["", "", "", ""]
    for id, *_ in export["runs"]:
        submitter, digest, key, signature = export["requests"].get(id, unsigned)
        if not signature:
            yield Finding("request", id, "its request is not signed, so nothing proves who submitted it")
        elif (submitter, key) not in enrolled:
            yield Finding("request", id, f"its request is signed with a key that was never enrolled for {submitter}")
        elif not signed_by(key, signed_text(id, digest), signature):
            yield Finding("request", id, "its request is not what its submitter signed")


def _entry(text: str) -> Json:
    """A parsed log entry; empty if it is invalid, because every worker may add any text."""
    try:
        entry: Json = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(entry, dict) or not {"run", "kind"} <= entry.keys():  # pyright: ignore[reportUnnecessaryIsInstance]
        return {}
    return entry if entry["kind"] != "unit" or isinstance(entry.get("unit"), int) else {}


def _runs(export: Json, entries: list[Json]) -> Iterator[Finding]:
    known = {run[0] for run in export["runs"]}
    units: dict[str, int] = {}
    ends: dict[str, Json] = {}
    for entry in entries:
        run = str(entry["run"])
        if run not in known:
            yield Finding("run", run, "workers signed entries of this run, but its row is missing")
            known.add(run)
        if entry["kind"] == "unit":
            units[run] = max(units.get(run, 0), int(entry["unit"]))
        elif entry["kind"] == "end":
            ends[run] = entry
    for id, state, outcome, count, _, *texts in export["runs"]:
        if units.get(id, 0) < count:
            yield Finding("unit", id, f"{count} units are recorded as finished, but only {units.get(id, 0)} are signed")
        if state != "ended" or outcome == "stopped":  # no worker signs the cancellation of a run
            continue
        end = ends.get(id, {})
        signed = end.get("outcome")
        if signed != outcome:
            yield Finding(
                "outcome", id, f"its recorded outcome is {outcome}, but the signed one is {signed or 'missing'}"
            )
        elif [end.get("texts")] not in (texts, [None]):
            yield Finding("texts", id, "its request or its result is not what its worker signed")


def _latest(export: Json) -> dict[str, Json]:
    """Run → its last entry with a state."""
    latest: dict[str, Json] = {}
    for _, text, _, _ in export["anchors"]:
        entry = _entry(text)
        if "state" in entry:
            latest[str(entry["run"])] = entry
    return latest


def _receipts(objects: Objects, key: bytes, saved: str, entry: Json) -> int:
    """The number of receipts in the run's last state. Raises BrokenReceipt unless they form a chain that contains the
    signed head."""
    log = trees.content(objects, saved, "home/tool_receipts.log") or b""
    previous, seq, at_entry = ZERO, 0, ""
    for line in log.rstrip(b"\0").split(b"\n"):
        if not line:
            continue
        seq += 1
        receipt: Any = parse_receipt(line, seq=seq, previous_hash=previous, key=key)
        previous = receipt.receipt_hash
        if seq == entry["receipts"]:
            at_entry = previous
    if at_entry != entry["head"]:
        raise BrokenReceipt(f"receipt {entry['receipts']} is not the signed one: the log was cut or rewritten")
    return seq
