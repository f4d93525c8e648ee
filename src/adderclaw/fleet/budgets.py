"""Limits on the spending of all runs and on the rate of model calls, enforced in PostgreSQL before each call."""

import uuid

from adderclaw.core.overseer import ModelCallEstimate, Reservation
from adderclaw.core.record import NamedTuple
from adderclaw.fleet.database import Cursor, Database
from adderclaw.fleet.leases import Lease, require

SLOW = 5.0
"""Seconds that all runs wait after a rate limit error without a time."""
NEAR = 1e-9
"""Tolerance when comparing sums of prices."""


class Refused(NamedTuple):
    """The limit that a call would exceed. Without a reason, it only does so because of calls in progress."""

    reason: str
    by: str


def reserve(database: Database, lease: Lease, call: ModelCallEstimate, ticket: str) -> Refused | Reservation:
    """Reserves the maximum that a model call can cost in every budget of the run.

    If the longest answer does not fit, the call is limited to an answer that does.
    """
    name = ticket or uuid.uuid4().hex

    def work(cursor: Cursor) -> Refused | Reservation:
        cursor.execute("LOCK TABLE fleet.reservations IN ROW EXCLUSIVE MODE")  # blocks setting a budget meanwhile
        run = require(cursor, lease)
        known = cursor.execute("SELECT held_tokens FROM fleet.reservations WHERE id = %s", (name,)).fetchone()
        if known is not None and known.held_tokens:
            answer = int(known.held_tokens) - call.input_tokens  # already committed, but the reply was lost
            return Reservation(name, answer)
        scopes = _scopes(run.id, run.project, run.submitter)
        rows = cursor.execute(
            "SELECT scope, name, cost, tokens, spent_cost, spent_tokens, held_cost, held_tokens FROM fleet.budgets"
            " WHERE (scope, name) IN (SELECT * FROM unnest(%s::text[], %s::text[])) ORDER BY scope, name FOR UPDATE",
            ([scope for scope, _ in scopes], [name for _, name in scopes]),
        ).fetchall()
        budgets = [_Budget(*row) for row in rows]
        answer = call.most
        for budget in budgets:
            if (refused := _limit_reached(budget, call)) is not None:
                if refused.reason:
                    cursor.execute("DELETE FROM fleet.reservations WHERE id = %s", (name,))
                return refused
            answer = min(answer, _answer_tokens_left(budget, call))
        price, tokens = call.input_price + answer * call.answer_price, call.input_tokens + answer
        for budget in budgets:
            cursor.execute(
                "UPDATE fleet.budgets SET held_cost = held_cost + %s, held_tokens = held_tokens + %s"
                " WHERE scope = %s AND name = %s",
                (price, tokens, budget.scope, budget.name),
            )
        cursor.execute(
            "INSERT INTO fleet.reservations (id, run, token, submitter, project, model, held_cost, held_tokens)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (id) DO UPDATE SET"
            " held_cost = excluded.held_cost, held_tokens = excluded.held_tokens",
            (name, lease.run, lease.token, run.submitter, run.project, call.model, price, tokens),
        )
        return Reservation(name, answer if answer < call.most or (budgets and not call.bounded) else None)

    return database.do(work)


def settle(database: Database, name: str, tokens: int, price: float) -> None:
    """Replaces a reservation by what the call used, even if another worker holds the run by now."""
    database.do(lambda cursor: _settled(cursor, name, tokens, price, lost=False))


def settle_lost(cursor: Cursor, run: str, token: int) -> None:
    """Counts the reservations of calls whose process is gone as spent."""
    rows = cursor.execute(
        "SELECT id, held_tokens, held_cost FROM fleet.reservations"
        " WHERE run = %s AND token < %s AND settled IS NULL ORDER BY id",
        (run, token),
    ).fetchall()
    for row in rows:
        _settled(cursor, row.id, row.held_tokens, row.held_cost, lost=True)


def _settled(cursor: Cursor, name: str, tokens: int, price: float, *, lost: bool) -> None:
    row = cursor.execute(
        "UPDATE fleet.reservations SET settled = now(), tokens = %s, cost = %s, lost = %s"
        " WHERE id = %s AND settled IS NULL RETURNING run, submitter, project, held_cost, held_tokens",
        (tokens, price, lost, name),
    ).fetchone()
    if row is None:
        return
    for scope, of in _scopes(row.run, row.project, row.submitter):
        cursor.execute(
            "UPDATE fleet.budgets SET held_cost = greatest(0, held_cost - %s), held_tokens = held_tokens - %s,"
            " spent_cost = spent_cost + %s, spent_tokens = spent_tokens + %s WHERE scope = %s AND name = %s",
            (row.held_cost, row.held_tokens, price, tokens, scope, of),
        )


def _scopes(run: str, project: str, submitter: str) -> tuple[tuple[str, str], ...]:
    """The scopes of a run, always in the same order, so that transactions cannot deadlock."""
    return ("fleet", ""), ("project", project), ("run", run), ("submitter", submitter)


class _Budget(NamedTuple):
    scope: str
    name: str
    cost: float | None
    tokens: int | None
    spent_cost: float
    spent_tokens: int
    held_cost: float
    held_tokens: int


def _limit_reached(budget: _Budget, call: ModelCallEstimate) -> Refused | None:
    """The limit that even a short answer would exceed, if any."""
    of = f"the {budget.scope}'s budget" if not budget.name else f"the budget of {budget.scope} {budget.name}"
    price, tokens = call.input_price + call.least * call.answer_price, call.input_tokens + call.least
    if budget.cost is not None and call.unpriced:
        fix = f'give its price under [models."{call.unpriced}"] in the configuration of the workers'
        return Refused(f"the price of the model {call.unpriced!r} is unknown, and {of} is limited; {fix}", "price")
    if budget.cost is not None and budget.spent_cost + budget.held_cost + price > budget.cost + NEAR:
        if budget.held_cost > NEAR and budget.spent_cost + price <= budget.cost + NEAR:
            return Refused("", "")
        figures = f"${budget.spent_cost:.4f} spent, the next call can cost ${price:.4f}, of ${budget.cost:g}"
        return Refused(f"cost limit reached: {figures} ({of})", "cost_usd")
    if budget.tokens is not None and budget.spent_tokens + budget.held_tokens + tokens > budget.tokens:
        if budget.held_tokens and budget.spent_tokens + tokens <= budget.tokens:
            return Refused("", "")
        figures = f"{budget.spent_tokens:,} used, the next call can take {tokens:,}, of {budget.tokens:,}"
        return Refused(f"token limit reached: {figures} ({of})", "tokens")
    return None


def _answer_tokens_left(budget: _Budget, call: ModelCallEstimate) -> int:
    """The tokens of the longest answer that fits into a budget."""
    answer = call.most
    if budget.cost is not None and call.answer_price > 0:
        left = budget.cost + NEAR - budget.spent_cost - budget.held_cost - call.input_price
        answer = min(answer, int(left / call.answer_price))
    if budget.tokens is not None:
        answer = min(answer, budget.tokens - budget.spent_tokens - budget.held_tokens - call.input_tokens)
    return max(answer, call.least)


# ------------------------------------------------------------------ rate limits


class Turn(NamedTuple):
    """Seconds to wait before a model call; 0: it may be made now, with this ticket (empty if there is no limit)."""

    seconds: float
    ticket: str = ""


def turn(database: Database, lease: Lease, model: str) -> Turn:
    ticket = uuid.uuid4().hex

    def work(cursor: Cursor) -> Turn:
        pace = cursor.execute(
            "SELECT per_minute, at_once, extract(epoch FROM not_before - now())::float8 AS wait"
            " FROM fleet.pace WHERE model = %s",
            (model,),
        ).fetchone()
        if pace is None or (pace.wait or 0) > 0:
            return Turn(max(0.0, pace.wait) if pace is not None else 0.0)
        if pace.per_minute is None and pace.at_once is None:
            return Turn(0.0)
        run = require(cursor, lease)
        cursor.execute("SELECT 1 FROM fleet.pace WHERE model = %s FOR UPDATE", (model,))
        if cursor.execute("SELECT 1 FROM fleet.reservations WHERE id = %s", (ticket,)).fetchone() is not None:
            return Turn(0.0, ticket)  # already committed, but the reply was lost
        now = cursor.execute(
            "SELECT count(*) FILTER (WHERE settled IS NULL) AS open,"
            " count(*) FILTER (WHERE begun > now() - interval '1 minute') AS recent,"
            " extract(epoch FROM min(begun) FILTER (WHERE begun > now() - interval '1 minute')"
            "  + interval '1 minute' - now())::float8 AS wait"
            " FROM fleet.reservations WHERE model = %s AND (settled IS NULL OR begun > now() - interval '1 minute')",
            (model,),
        ).fetchone()
        assert now is not None
        if pace.per_minute is not None and now.recent >= pace.per_minute:
            return Turn(max(0.05, now.wait))
        if pace.at_once is not None and now.open >= pace.at_once:
            return Turn(0.1)
        cursor.execute(
            "INSERT INTO fleet.reservations (id, run, token, submitter, project, model, held_cost, held_tokens)"
            " VALUES (%s, %s, %s, %s, %s, %s, 0, 0)",
            (ticket, lease.run, lease.token, run.submitter, run.project, model),
        )
        return Turn(0.0, ticket)

    return database.do(work)


def slow(database: Database, model: str, seconds: float | None) -> None:
    """Makes all runs wait before they call this model, after a rate limit error."""
    database.run(
        "INSERT INTO fleet.pace (model, not_before) VALUES (%s, now() + make_interval(secs => %s))"
        " ON CONFLICT (model) DO UPDATE SET not_before = greatest(fleet.pace.not_before, excluded.not_before)",
        model,
        SLOW if seconds is None else seconds,
    )
