"""Whether the criteria of a plan are proved: what the transition from `test` to `verify` rests on."""

import sqlite3

from adderclaw.store import criteria
from adderclaw.store.plans import Plan


def open_reasons(cursor: sqlite3.Cursor, plan: Plan, tree: str) -> list[str]:
    """Why the coverage gate is closed; empty where it is open. `tree` is the digest of the workspace as it is now."""
    if not tree:
        return ["it is not known what the workspace holds now, so that no result can count for it"]
    return [f"no test proves the criterion {one.id}" for one in criteria.of(cursor, plan.id)]
