#!/usr/bin/env python3
"""Verify the export of a fleet without AdderClaw and without its database: Python 3 and `cryptography` are enough.

    verify_fleet.py EXPORT [--workers FILE] [--head SEQ:HASH] [--json]

EXPORT is what `adderclaw fleet export` wrote: the log of anchors, in which each entry commits to the one before and is
signed by the worker that made it, and what the fleet says of its runs. `--workers` takes the public keys from a file of
the operator's own (NAME KEY in each line) and not from the export; `--head` takes a head that was kept elsewhere, so
that a log that was cut or written anew as a whole is found, too.
Exit code 0: valid, 1: invalid, 2: the command line makes no sense or a file cannot be read.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

ZERO = "0" * 64


def signed_by(public, text, signature):
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(bytes.fromhex(signature), text)
    except (InvalidSignature, ValueError):
        return False
    return True


def entry_of(text):
    """An entry of the log; empty where it is none. Every worker may add any text."""
    try:
        made = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(made, dict) or not {"run", "kind"} <= made.keys():
        return {}
    return made if made["kind"] != "unit" or isinstance(made.get("unit"), int) else {}


def chain(made, workers, kept):
    """What is wrong with the log, and its entries."""
    wrong, entries, previous, number = [], [], ZERO, 0
    found = kept is None
    for seq, text, digest, signature in made["anchors"]:
        number += 1
        entry = entry_of(text)
        if seq != number or entry.get("seq") != number:
            wrong.append(f"anchor {seq}: it should be number {number}")
            number = seq
        if hashlib.sha256(text.encode()).hexdigest() != digest:
            wrong.append(f"anchor {seq}: its hash does not match its content")
        if entry.get("previous") != previous:
            wrong.append(f"anchor {seq}: it does not continue the one before")
        previous = digest
        public = workers.get(entry.get("worker"))
        if public is None:
            wrong.append(f"anchor {seq}: worker {entry.get('worker')} was never enrolled")
        elif not signed_by(public, text.encode(), signature):
            wrong.append(f"anchor {seq}: worker {entry['worker']} did not sign this")
        found = found or (seq, digest) == kept
        if entry:
            entries.append(entry)
        else:
            wrong.append(f"anchor {seq}: it is not an entry as workers write them")
    if (made["head"]["seq"], made["head"]["hash"]) != (number, previous):
        wrong.append("head: it is not the last entry")
    if not found:
        wrong.append("head: the one that was kept elsewhere is not in this log")
    return wrong, entries


def runs(made, entries):
    """What the fleet says of its runs, against what was signed."""
    wrong, units, ends = [], {}, {}
    known = {run[0] for run in made["runs"]}
    for entry in entries:
        if entry["run"] not in known:
            wrong.append(f"run {entry['run']}: workers signed entries of this run, but its row is missing")
            known.add(entry["run"])
        if entry["kind"] == "unit":
            units[entry["run"]] = max(units.get(entry["run"], 0), entry["unit"])
        elif entry["kind"] == "end":
            ends[entry["run"]] = entry
    for id, state, outcome, count, _, *texts in made["runs"]:
        if units.get(id, 0) < count:
            wrong.append(f"run {id}: {count} units are recorded as finished, but only {units.get(id, 0)} are signed")
        if state != "ended" or outcome == "stopped":
            continue
        end = ends.get(id, {})
        if end.get("outcome") != outcome:
            wrong.append(f"run {id}: it is said to have ended {outcome}, and {end.get('outcome', 'nothing')} is signed")
        elif [end.get("texts")] not in (texts, [None]):
            wrong.append(f"run {id}: its request or its result is not what its worker signed")
    return wrong


def requests(made):
    """Whether each run is what its submitter signed."""
    wrong, enrolled = [], {(name, key) for name, key in made["submitters"]}
    for id, *_ in made["runs"]:
        submitter, digest, key, signature = made["requests"].get(id, ("", "", "", ""))
        signed = {"format": "adderclaw-fleet-request-1", "request": digest, "run": id}
        text = json.dumps(signed, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        if not signature:
            wrong.append(f"run {id}: its request is not signed")
        elif (submitter, key) not in enrolled:
            wrong.append(f"run {id}: its request is signed with a key that was never enrolled for {submitter}")
        elif not signed_by(key, text, signature):
            wrong.append(f"run {id}: its request is not what its submitter signed")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("export")
    parser.add_argument("--workers")
    parser.add_argument("--head")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    try:
        made = json.loads(Path(given.export).read_text(encoding="utf-8"))
        workers = made["workers"]
        if given.workers:
            lines = Path(given.workers).read_text(encoding="utf-8").split("\n")
            workers = dict(line.split() for line in lines if line.strip())
        kept = None
        if given.head:
            seq, _, digest = given.head.partition(":")
            kept = (int(seq), digest)
        wrong, entries = chain(made, workers, kept)
        wrong += runs(made, entries) + requests(made)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"verify_fleet: {given.export} cannot be read: {error}", file=sys.stderr)
        return 2
    if given.json:
        print(json.dumps({"valid": not wrong, "anchors": len(entries), "runs": len(made["runs"]), "wrong": wrong}))
    else:
        print("\n".join(wrong) or f"valid: {len(entries)} anchors, {len(made['runs'])} runs")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
