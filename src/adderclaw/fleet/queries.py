"""Queries about the fleet and its runs, for commands, pages and programs."""

from typing import Any, cast

from adderclaw.core.errors import UsageError
from adderclaw.core.types import Json
from adderclaw.fleet import asking
from adderclaw.fleet.database import Cursor, Database
from adderclaw.fleet.keys import Key

WHAT = ("task", "message", "agentfile", "spec", "sop")


def runs(
    database: Database, *, state: str | None = None, outcome: str | None = None, batch: str | None = None, limit: int
) -> list[Json]:
    """The matching runs, most recent first."""
    rows = database.rows(
        "SELECT id, state, outcome, reason, submitter, project, label, batch, units, worker, cost, wanted, submitted,"
        " began, finished, schema, version, pruned, state = 'running' AND EXISTS (SELECT 1 FROM fleet.questions AS q"
        " WHERE q.run = runs.id AND q.token = runs.token AND q.answer IS NULL) AS asks"
        " FROM fleet.runs WHERE (%s::text IS NULL OR state = %s)"
        " AND (%s::text IS NULL OR outcome = %s) AND (%s::text IS NULL OR batch = %s) ORDER BY number DESC LIMIT %s",
        *(state, state, outcome, outcome, batch, batch, limit),
    )
    return [_listed(row) for row in rows]


def _listed(row: Any) -> Json:
    return {
        "run_id": row.id,
        "state": row.state,
        "outcome": row.outcome,
        "reason": row.reason,
        "submitter": row.submitter,
        "project": row.project,
        "label": row.label,
        "batch": row.batch,
        "units": row.units,
        "worker": row.worker,
        "cost": row.cost,
        "what": what(row.wanted),
        "asks": row.asks,
        "version": row.version,
        "pruned": _time(row.pruned),
        "submitted": _time(row.submitted),
        "began": _time(row.began),
        "finished": _time(row.finished),
    }


def what(fields: Any) -> str:
    """The request in one line. Rows are untrusted and may contain anything."""
    if not isinstance(fields, dict):
        return ""
    fields = cast(Json, fields)
    name = next((name for name in WHAT if fields.get(name)), "")
    return " ".join(f"{name} {fields.get(name, '')}".split())


def _time(at: Any) -> str | None:
    return at.astimezone().isoformat(timespec="milliseconds") if at is not None else None


def run(database: Database, id: str, key: Key | None) -> Json:
    """Everything about one run. `key`: to check that its questions are from workers."""
    row = database.one(
        "SELECT *, state = 'running' AND EXISTS (SELECT 1 FROM fleet.questions AS q WHERE q.run = runs.id"
        " AND q.token = runs.token AND q.answer IS NULL) AS asks FROM fleet.runs WHERE id = %s",
        id,
    )
    units = database.rows("SELECT number, place, worker, at FROM fleet.units WHERE run = %s ORDER BY number", id)
    unknown = database.rows("SELECT tool, shown, token, begun FROM fleet.calls WHERE run = %s AND lost ORDER BY id", id)
    return {
        **_listed(row),
        "answer": row.answer,
        "exit_code": row.exit_code,
        "priority": row.priority,
        "place": row.place,
        "after": list(row.after),
        "token": row.token,
        "strikes": row.strikes,
        "tokens": row.tokens,
        "max_cost": row.max_cost,
        "deadline": _time(row.deadline),
        "finished_units": [
            {"number": call.number, "place": call.place, "worker": call.worker, "at": _time(call.at)} for call in units
        ],
        "outcome_unknown": [
            {"tool": call.tool, "input": call.shown, "token": call.token, "begun": _time(call.begun)}
            for call in unknown
        ],
        "questions": asking.questions_of_run(database, key, id),
    }


def overview(database: Database) -> Json:
    """Queue, workers, stops, failures by reason, and cost."""
    states = database.rows("SELECT state, count(*) AS n FROM fleet.runs GROUP BY state ORDER BY state")
    workers = database.rows(
        "SELECT w.id, w.host, w.version, w.slots, w.labels, w.draining,"
        " CASE WHEN isfinite(w.seen) THEN extract(epoch FROM now() - w.seen)::float8 ELSE 1e9 END AS silent,"
        " (SELECT count(*) FROM fleet.runs r WHERE r.worker = w.id AND r.state = 'running') AS running,"
        " (SELECT count(DISTINCT r.id) FROM fleet.runs r JOIN fleet.questions q ON q.run = r.id AND q.token = r.token"
        " WHERE r.worker = w.id AND r.state = 'running' AND q.answer IS NULL) AS asking"
        " FROM fleet.workers w WHERE w.ended IS NULL ORDER BY w.id"
    )
    stops = database.rows("SELECT scope, name, reason, by, at FROM fleet.controls WHERE cleared IS NULL ORDER BY id")
    failures = database.rows(
        "SELECT outcome, left(split_part(reason, ':', 1), 80) AS reason, count(*) AS n FROM fleet.runs"
        " WHERE outcome <> 'completed' GROUP BY 1, 2 ORDER BY n DESC LIMIT 20"
    )
    hour = database.one(
        "SELECT count(*) AS n FROM fleet.runs WHERE state = 'ended' AND finished > now() - interval '1 hour'"
    )
    spent = database.one("SELECT coalesce(sum(cost), 0)::float8 AS cost FROM fleet.reservations")
    return {
        "runs": {row.state: row.n for row in states},
        "ended_last_hour": hour.n,
        "cost": round(spent.cost, 6),
        "workers": [
            {
                "id": row.id,
                "host": row.host,
                "version": row.version,
                "running": row.running,
                "asking": row.asking,
                "slots": row.slots,
                "labels": list(row.labels),
                "draining": row.draining,
                "silent_seconds": round(row.silent, 1),
            }
            for row in workers
        ],
        "stops": [
            {"scope": row.scope, "name": row.name, "reason": row.reason, "by": row.by, "at": _time(row.at)}
            for row in stops
        ],
        "failures": [{"outcome": row.outcome, "reason": row.reason, "runs": row.n} for row in failures],
    }


def events(database: Database, run: str, after: int) -> list[tuple[int, Json]]:
    rows = database.rows("SELECT id, event FROM fleet.events WHERE run = %s AND id > %s ORDER BY id", run, after)
    return [(row.id, _event(row.event)) for row in rows]


def _event(detail: Any) -> Json:
    return cast(Json, detail) if isinstance(detail, dict) else {}


def starting_with(database: Database, beginning: str) -> list[str]:
    """The ids of at most two runs that begin with this text."""
    pattern = beginning.replace("\\", "\\\\").replace("%", r"\%").replace("_", r"\_")
    rows = database.rows("SELECT id FROM fleet.runs WHERE id LIKE %s || '%%' ORDER BY number LIMIT 2", pattern)
    return [str(row.id) for row in rows]


def saved_state(database: Database, run: str) -> Any:
    """The columns of a run that `fetch` needs."""
    return database.one("SELECT id, submitter, saved, place, pruned FROM fleet.runs WHERE id = %s", run)


def has_ended(database: Database, run: str) -> bool:
    row = database.one("SELECT state FROM fleet.runs WHERE id = %s", run)
    return row is None or row.state == "ended"


BY = {
    "submitter": "submitter",
    "project": "project",
    "model": "model",
    "run": "run",
    "day": "to_char(begun AT TIME ZONE 'UTC', 'YYYY-MM-DD')",
}


def usage(database: Database, by: str) -> list[Json]:
    if by not in BY:
        raise UsageError(f"--by {by}: one of {', '.join(BY)}")
    rows = database.rows(
        f"SELECT {BY[by]} AS one, count(*) AS calls, coalesce(sum(tokens), 0)::bigint AS tokens,"  # noqa: S608 - constant
        " coalesce(sum(cost), 0)::float8 AS cost FROM fleet.reservations WHERE settled IS NOT NULL"
        " GROUP BY 1 ORDER BY 1"
    )
    return [{by: row.one, "calls": row.calls, "tokens": row.tokens, "cost": round(row.cost, 6)} for row in rows]


def set_budget(database: Database, scope: str, name: str, cost: float | None, tokens: int | None) -> None:
    """Sets a budget. Earlier spending counts; for a new budget it is computed."""

    def work(cursor: Cursor) -> None:
        cursor.execute("LOCK TABLE fleet.reservations IN SHARE ROW EXCLUSIVE MODE")
        cursor.execute(
            "INSERT INTO fleet.budgets (scope, name, cost, tokens, spent_cost, spent_tokens, held_cost, held_tokens)"
            " SELECT %s, %s, %s, %s, coalesce(sum(cost), 0), coalesce(sum(tokens), 0),"
            " coalesce(sum(held_cost) FILTER (WHERE settled IS NULL), 0),"
            " coalesce(sum(held_tokens) FILTER (WHERE settled IS NULL), 0) FROM fleet.reservations"
            " WHERE CASE %s WHEN 'project' THEN project = %s WHEN 'submitter' THEN submitter = %s ELSE true END"
            " ON CONFLICT (scope, name) DO UPDATE SET cost = excluded.cost, tokens = excluded.tokens",
            (scope, name, cost, tokens, scope, name, name),
        )

    database.do(work)


def budget(database: Database, scope: str, name: str) -> Json:
    row = database.one("SELECT * FROM fleet.budgets WHERE scope = %s AND name = %s", scope, name)
    if row is None:
        by = scope if scope in BY else "model"
        spent = [budget_row for budget_row in usage(database, by) if scope == "fleet" or budget_row[by] == name]
        return {"scope": scope, "name": name, "spent_cost": sum(budget_row["cost"] for budget_row in spent)}
    return {**row._asdict(), "spent_cost": round(row.spent_cost, 6), "held_cost": round(row.held_cost, 6)}


def set_pace(database: Database, model: str, per_minute: int | None, at_once: int | None) -> None:
    database.run(
        "INSERT INTO fleet.pace (model, per_minute, at_once) VALUES (%s, %s, %s) ON CONFLICT (model) DO UPDATE SET"
        " per_minute = excluded.per_minute, at_once = excluded.at_once",
        model,
        per_minute,
        at_once,
    )


def report(database: Database, batch: str) -> Json:
    """A summary of a matrix of runs."""
    rows = runs(database, batch=batch, limit=1_000_000)
    if not rows:
        raise UsageError(f"there is no batch {batch!r}; `fleet submit --matrix` prints its id")
    answers = {row.id: row.answer for row in database.rows("SELECT id, answer FROM fleet.runs WHERE batch = %s", batch)}
    outcomes: dict[str, int] = {}
    for row in rows:
        how = row["outcome"] or row["state"]
        outcomes[how] = outcomes.get(how, 0) + 1
        row["answer"] = answers[row["run_id"]]
    return {
        "batch": batch,
        "runs": len(rows),
        "outcomes": dict(sorted(outcomes.items())),
        "cost": round(sum(row["cost"] or 0 for row in rows), 6),
        "rows": rows[::-1],
    }
