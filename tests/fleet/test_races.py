"""What happens at the same time, or twice: stops and resumes, keys of runs, budgets, commits that nobody heard of."""

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg

from adderclaw.core.overseer import ModelCallEstimate, Reservation
from adderclaw.fleet import budgets, leases, queries, submit
from adderclaw.fleet.database import Cursor, Database
from adderclaw.fleet.submit import ANY_PLACE, Order
from tests.fleet.farm import Farm, text

ASKING = ModelCallEstimate("m", input_tokens=100, input_price=0.0, least=10, most=10, answer_price=0.0)
WAITS = "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


class Twice(Database):
    """A server whose first answer to each commit is lost: all that is done is done again, as `do` says it may be."""

    def do[T](self, work: Callable[[Cursor], T], *, patience: float | None = None) -> T:
        super().do(work, patience=patience)
        return super().do(work, patience=patience)


def claimed(farm: Farm) -> leases.Lease:
    """A run that somebody has."""
    (id,) = farm.submit("-m", "x", "--workspace", str(farm.workspace))
    worker = "INSERT INTO fleet.workers (id, name, host, pid, version, slots) VALUES ('w', 'w', 'h', 1, '', 1)"
    farm.rows(f"{worker} RETURNING 1")
    database = Database(farm.url)
    row = leases.claim(database, id, "w", 60)
    database.close()
    return leases.Lease(id, row.token, "w")


def beside(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """It begins, and may wait for somebody."""
    came: list[Any] = []
    thread = threading.Thread(target=lambda: came.append(work()), daemon=True)
    thread.start()
    return thread, came


def test_a_commit_that_nobody_heard_of_counts_once(farm: Farm) -> None:
    lease, database = claimed(farm), Twice(farm.url)
    farm.rows("INSERT INTO fleet.pace (model, at_once) VALUES ('m', 1) RETURNING 1")
    assert farm.fleet("budget", "fleet", "--tokens", "1000").code == 0
    turn = budgets.turn(database, lease, "m")
    assert (turn.seconds, bool(turn.ticket)) == (0.0, True)
    held = budgets.reserve(database, lease, ASKING, turn.ticket)
    assert isinstance(held, Reservation)
    assert farm.rows("SELECT held_tokens FROM fleet.reservations") == [(110,)]
    budgets.settle(database, held.held, 50, 0.0)
    assert farm.rows("SELECT spent_tokens, held_tokens FROM fleet.budgets") == [(50, 0)]
    orders = [Order(wanted={"message": "x"}, submitter="me", dedupe=key) for key in ("a", "b")]
    signer = farm.signer("me")
    (first,) = submit.submit(Database(farm.url), orders[:1], [ANY_PLACE], signer)
    again = submit.submit(database, orders, [ANY_PLACE] * 2, signer)
    assert (again[0], again[1].new) == (submit.Submitted(first.id, new=False), True)
    database.close()


def test_a_budget_that_is_set_while_a_call_begins_holds_it(farm: Farm) -> None:
    """Else what the call gives back later would be more than it took, and others could spend that."""
    lease, database = claimed(farm), Database(farm.url)
    with psycopg.connect(farm.url) as between:
        between.execute("LOCK TABLE fleet.reservations IN SHARE MODE")
        setting, _ = beside(lambda: queries.set_budget(Database(farm.url), "fleet", "", None, 1000))
        farm.until(lambda: farm.rows(WAITS)[0].n == 1)
        calling, came = beside(lambda: budgets.reserve(Database(farm.url), lease, ASKING, ""))
        farm.until(lambda: farm.rows(WAITS)[0].n == 2)
    setting.join()
    calling.join()
    assert farm.rows("SELECT held_tokens FROM fleet.budgets") == [(110,)]
    budgets.settle(database, came[0].held, 50, 0.0)
    assert farm.rows("SELECT spent_tokens, held_tokens FROM fleet.budgets") == [(50, 0)]
    database.close()


def test_two_who_submit_with_one_key_get_one_run(farm: Farm) -> None:
    order, signer = Order(wanted={"message": "x"}, submitter="me", dedupe="k"), farm.signer("me")
    with psycopg.connect(farm.url) as first:
        first.execute(
            "INSERT INTO fleet.runs (id, submitter, wanted, place, state, dedupe)"
            " VALUES ('x', 'me', '{}', '{}', 'held', 'k')"
        )
        second, came = beside(lambda: submit.submit(Database(farm.url), [order], [ANY_PLACE], signer))
        farm.until(lambda: farm.rows(WAITS)[0].n == 1)
    second.join()
    assert came == [[submit.Submitted("x", new=False)]]


def stopped(farm: Farm, *words: str) -> str:
    """A run as a stop of the fleet leaves it."""
    (id,) = farm.submit("-m", "x", "--workspace", str(farm.workspace), *words)
    stop = "(SELECT max(id) FROM fleet.controls)"
    farm.rows(
        f"UPDATE fleet.runs SET state = 'ended', outcome = 'stopped', stopped_by = {stop} WHERE id = %s RETURNING 1", id
    )
    return id


def test_what_was_cancelled_or_submitted_anew_is_not_resumed(farm: Farm) -> None:
    assert farm.fleet("stop").code == 0
    kept, cancelled, replaced = stopped(farm), stopped(farm), stopped(farm, "--dedupe", "k")
    pruned = stopped(farm)
    farm.rows("UPDATE fleet.runs SET pruned = now() WHERE id = %s RETURNING 1", pruned)
    assert farm.fleet("cancel", cancelled).code == 0
    (anew,) = farm.submit("-m", "x", "--workspace", str(farm.workspace), "--dedupe", "k")
    done = farm.fleet("resume")
    assert (done.code, "1 runs are queued again" in done.out) == (0, True), done.err
    states = {row.id: (row.state, row.stopped_by) for row in farm.rows("SELECT id, state, stopped_by FROM fleet.runs")}
    ended = ("ended", None)
    gone = {cancelled: ended, replaced: ended, pruned: ended}
    assert states == {kept: ("queued", None), **gone, anew: ("queued", None)}
    assert "cancelled by" in farm.run(cancelled).reason
    done = farm.fleet("retry", replaced)
    assert (done.code, "has the dedupe key 'k'" in done.err) == (1, True), done.err


def test_runs_that_a_late_worker_stops_go_on(farm: Farm) -> None:
    """A worker had not heard yet that the stop was over when it held one run, and ended another."""
    held, ended = (farm.submit("-m", "x", "--workspace", str(farm.workspace))[0] for _ in range(2))
    farm.rows("INSERT INTO fleet.controls (scope, by, cleared) VALUES ('fleet', 'me', now()) RETURNING 1")
    late = "UPDATE fleet.runs SET state = %s, outcome = %s, stopped_by = (SELECT max(id) FROM fleet.controls)"
    farm.rows(f"{late} WHERE id = %s RETURNING 1", "held", None, held)
    farm.rows(f"{late} WHERE id = %s RETURNING 1", "ended", "stopped", ended)
    farm.worker("w1", lease=1)
    farm.until(lambda: {farm.run(id).outcome for id in (held, ended)} == {"completed"}, 30)


def test_a_stop_waits_for_no_run_that_cannot_start(farm: Farm) -> None:
    """What starts processes sleeps: the run that waits for it keeps the stop from no other."""
    farm.script({"delay_ms": 600_000}, text("never"))
    here = ("--workspace", str(farm.workspace))
    farm.submit("-m", "x", *here)
    worker = farm.worker("w1", lease=60, slots=2)
    farm.until(lambda: farm.rows("SELECT 1 FROM fleet.reservations") and worker.runs())
    (starter,) = worker.started()
    os.kill(starter, signal.SIGSTOP)
    (late,) = farm.submit("-m", "x", *here)
    farm.until(lambda: farm.run(late).state == "running")
    time.sleep(0.5)
    stop = "INSERT INTO fleet.controls (scope, name, by) VALUES (%s, %s, 'me') RETURNING pg_notify('fleet', 'stop')"
    farm.rows(stop, "run", late)
    time.sleep(0.5)
    farm.rows(stop, "fleet", "")
    farm.until(lambda: not worker.runs(), 10)
    os.kill(starter, signal.SIGCONT)
