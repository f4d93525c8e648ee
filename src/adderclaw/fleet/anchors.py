"""A transparency log of the results of runs, signed by their workers. Each entry includes the hash of the last."""

import hashlib
from typing import Any

from adderclaw.core.json_text import canonical
from adderclaw.core.types import Json
from adderclaw.fleet.database import Cursor, Database
from adderclaw.fleet.identities import Identity
from adderclaw.fleet.requests import Request


def append_anchor(cursor: Cursor, who: Identity, body: Json) -> None:
    """Appends an entry, in the transaction of the change that it records."""
    head = cursor.execute("SELECT seq, hash FROM fleet.anchor_head FOR UPDATE").fetchone()
    assert head is not None
    at = cursor.execute(
        "SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') AS at"
    ).fetchone()
    assert at is not None
    seq = int(head.seq) + 1
    text = canonical({**body, "seq": seq, "previous": head.hash, "worker": who.name, "at": at.at})
    digest = hashlib.sha256(text.encode()).hexdigest()
    cursor.execute(
        "INSERT INTO fleet.anchors (seq, entry, hash, signature) VALUES (%s, %s, %s, %s)",
        (seq, text, digest, who.sign(text.encode())),
    )
    cursor.execute("UPDATE fleet.anchor_head SET seq = %s, hash = %s", (seq, digest))


TEXTS = "submitter, project, wanted, place, outcome, reason, answer"
"""Columns with the request and the result of a run."""


def texts(row: Any) -> str:
    """One hash of these columns, which a worker signs at the end of a run. It reveals no text of the run."""
    return hashlib.sha256(canonical([getattr(row, name) for name in TEXTS.split(", ")]).encode()).hexdigest()


def _request(row: Any) -> list[str]:
    """The claimed submitter of a run, the hash of the request, and the signature."""
    try:
        digest = Request.of(row).digest
    except (RecursionError, ValueError):  # JSON that is nested too deeply to be encoded, and so was never signed
        digest = ""
    return [row.submitter, digest, row.signed_by, row.signature]


def export_anchors(database: Database) -> Json:
    """The data for a stand-alone verifier. It contains no text of runs and no names except those of submitters."""

    def work(cursor: Cursor) -> Json:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        anchors = cursor.execute("SELECT seq, entry, hash, signature FROM fleet.anchors ORDER BY seq").fetchall()
        head: Any = cursor.execute("SELECT seq, hash FROM fleet.anchor_head").fetchone()
        workers = cursor.execute("SELECT name, public_key FROM fleet.identities ORDER BY name").fetchall()
        submitters = cursor.execute("SELECT name, public_key FROM fleet.submitters ORDER BY name").fetchall()
        runs = cursor.execute(
            "SELECT * FROM fleet.runs WHERE began IS NOT NULL"
            " OR outcome NOT IN ('stopped', 'error') ORDER BY number"  # without a worker there is no other outcome
        ).fetchall()
        return {
            "format": "adderclaw-fleet-1",
            "head": {"seq": head.seq, "hash": head.hash},
            "workers": {row.name: row.public_key for row in workers},
            "submitters": [[row.name, row.public_key] for row in submitters],
            "requests": {row.id: _request(row) for row in runs},
            "anchors": [[row.seq, row.entry, row.hash, row.signature] for row in anchors],
            "runs": [[row.id, row.state, row.outcome, row.units, row.saved, texts(row)] for row in runs],
        }

    return database.do(work)
