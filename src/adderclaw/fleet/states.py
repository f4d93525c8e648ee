"""Signs the saved state of a run, and checks that signature on the next worker."""

from typing import Any

from adderclaw.core.json_text import canonical
from adderclaw.fleet.database import Cursor
from adderclaw.fleet.identities import Identity, signed_by
from adderclaw.fleet.requests import Refused


def signed(who: Identity, run: str, name: str) -> tuple[str, str]:
    """The worker's name and its signature."""
    return who.name, who.sign(_text(run, name))


def require_signed(cursor: Cursor, row: Any) -> None:
    """Refuse to continue from a state that no enrolled worker saved for this run."""
    if row.saved is None:
        if cursor.execute("SELECT 1 FROM fleet.units WHERE run = %s LIMIT 1", (row.id,)).fetchone() is not None:
            why = "some of its units are finished, but its saved state was removed, so it would repeat them"
            raise Refused(f"{why}; `adderclaw fleet retry {row.id} --fresh` does so")
        return
    known = cursor.execute(
        "SELECT public_key FROM fleet.identities WHERE name = %s AND revoked IS NULL", (row.saved_by,)
    ).fetchone()
    if known is None or not signed_by(known.public_key, _text(row.id, row.saved), row.saved_signature):
        why = "the state to continue from is not signed by an enrolled worker"
        raise Refused(f"{why}; `adderclaw fleet retry {row.id} --fresh` starts it again")


def _text(run: str, name: str) -> bytes:
    return canonical({"format": "adderclaw-fleet-state-1", "run": run, "state": name}).encode()
