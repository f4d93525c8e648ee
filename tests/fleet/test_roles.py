"""What each database role may write: every table and column of the database, and which rows a worker may change.

The table below is compared with what PostgreSQL has: a new table or column fails until it says who may write it.
"""

import base64
import pickle
from pathlib import Path
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier

from tests.fleet.farm import Farm, call, reached, text

REQUEST = (
    "id submitter project label batch trace wanted place priority tag dedupe after max_cost deadline state signed_by"
    " signature"
)
RUNS: dict[str, dict[str, str]] = {
    "submitter": {"insert": REQUEST, "update": "trace"},
    "worker": {
        "update": "state generation token worker lease_until resume_due strikes starts units saved saved_call saved_by"
        " saved_signature schema version stopped_by began finished outcome exit_code reason answer cost tokens"
    },
    "operator": {
        "insert": REQUEST,
        "update": "state generation token worker lease_until resume_due strikes starts units saved schema stopped_by"
        " finished outcome exit_code reason answer cost tokens pruned",
    },
}
KEYS: dict[str, dict[str, str]] = {"operator": {"insert": "name public_key", "update": "revoked"}}
MONEY = "spent_cost spent_tokens held_cost held_tokens"
RESERVATION = "id run token submitter project model held_cost held_tokens"
FLEET: dict[str, tuple[str, dict[str, dict[str, str]]]] = {
    "anchor_head": ("one seq hash", {"worker": {"update": "seq hash"}}),
    "anchors": ("seq entry hash signature", {"worker": {"insert": "seq entry hash signature"}}),
    "budgets": (
        f"scope name cost tokens {MONEY}",
        {
            "submitter": {"insert": "scope name cost"},
            "worker": {"update": MONEY},
            "operator": {"insert": f"scope name cost tokens {MONEY}", "update": f"cost tokens {MONEY}"},
        },
    ),
    "calls": (
        "id run token call tool shown begun ended lost",
        {"worker": {"insert": "run token call tool shown", "update": "ended lost"}, "operator": {"delete": "yes"}},
    ),
    "clock": ("one tag", {"worker": {"update": "tag"}}),
    "controls": (
        "id scope name reason by at cleared",
        {"operator": {"insert": "scope name reason by", "update": "cleared"}},
    ),
    "events": ("run id token event", {"worker": {"insert": "run token event"}, "operator": {"delete": "yes"}}),
    "heard": (
        "control worker heard runs ended",
        {"worker": {"insert": "control worker runs", "update": "runs ended"}},
    ),
    "identities": ("name public_key enrolled revoked", KEYS),
    "migrations": ("name at", {}),
    "objects": (
        "digest body at",
        {
            "submitter": {"insert": "digest body", "update": "at"},
            "worker": {"insert": "digest body", "update": "at"},
            "operator": {"insert": "digest body", "update": "at", "delete": "yes"},
        },
    ),
    "pace": (
        "model not_before per_minute at_once",
        {
            "worker": {"insert": "model not_before", "update": "not_before"},
            "operator": {"insert": "model per_minute at_once", "update": "per_minute at_once"},
        },
    ),
    "prunings": (
        "id at by older_than runs calls events objects",
        {"operator": {"insert": "by older_than runs calls events objects"}},
    ),
    "questions": (
        "id run question asked answer by mac answered token seal",
        {"worker": {"insert": "id run question token seal"}, "operator": {"update": "answer by mac answered"}},
    ),
    "reservations": (
        f"{RESERVATION} begun settled cost tokens lost",
        {
            "worker": {
                "insert": RESERVATION,
                "update": "settled cost tokens lost held_cost held_tokens",
                "delete": "yes",
            },
            # to lock the table while a budget is set, which takes the right to change all of it
            "operator": {"update": f"{RESERVATION} begun settled cost tokens lost"},
        },
    ),
    "runs": (
        f"{REQUEST} number generation token worker lease_until resume_due strikes units saved saved_call stopped_by"
        " submitted began finished outcome exit_code reason answer cost tokens starts schema version pruned saved_by"
        " saved_signature",
        RUNS,
    ),
    "shares": (
        "submitter tag",
        {role: {"insert": "submitter tag", "update": "tag"} for role in ("submitter", "operator")},
    ),
    "submitters": ("name public_key enrolled revoked", KEYS),
    "units": (
        "run number place token worker saved at",
        {"worker": {"insert": "run number place token worker saved"}, "operator": {"delete": "yes"}},
    ),
    "workers": (
        "id name host pid version slots labels started seen draining ended schema login",
        {
            "worker": {"insert": "id name host pid version schema slots labels", "update": "seen ended"},
            "operator": {"update": "draining"},
        },
    ),
}
"""For each table its columns, and what each role may insert, update and delete. An auditor writes nothing."""
ENGINE: dict[str, set[str]] = {
    "worker": {"insert", "update", "delete"},
    "operator": {"delete workflow_status"},
}
"""The engine's own tables, with all columns: its versions decide which there are."""
ROLES = ("submitter", "worker", "operator", "auditor")


def login(farm: Farm, role: str, name: str = "") -> str:
    """The address with which a new member of a role logs in."""
    who = f"{farm.url.rpartition('/')[2]}_{name or role}"
    with psycopg.connect(farm.url, autocommit=True) as connection:
        connection.execute(SQL("CREATE ROLE {} LOGIN IN ROLE {}").format(*map(Identifier, (who, f"adderclaw_{role}"))))
    return farm.url.replace("adder@", f"{who}@")


def may(connection: psycopg.Connection[Any], statement: SQL, *names: str) -> bool:
    """Whether a role may do this at all. Any other error is about the values, not about the role."""
    with connection.transaction(force_rollback=True):
        try:
            connection.execute(statement.format(*map(Identifier, names)))
        except psycopg.errors.InsufficientPrivilege as error:
            return "row-level security" in str(error)
        except psycopg.Error:
            return True
    return True


def test_each_role_writes_the_columns_of_its_duty_and_no_other(farm: Farm) -> None:
    found: dict[tuple[str, str], list[str]] = {}
    for row in farm.rows(
        "SELECT table_schema AS s, table_name AS t, column_name AS c FROM information_schema.columns"
        " WHERE table_schema IN ('fleet', 'dbos')"
    ):
        found.setdefault((row.s, row.t), []).append(row.c)
    known = {table: set(columns.split()) for table, (columns, _) in FLEET.items()}
    assert {table: set(columns) for (schema, table), columns in found.items() if schema == "fleet"} == known
    wrong: list[str] = []
    for role in ROLES:
        with psycopg.connect(login(farm, role), autocommit=True) as connection:
            for (schema, table), columns in found.items():
                allowed = FLEET[table][1].get(role, {}) if schema == "fleet" else None
                for verb in ("insert", "update", "delete", "truncate"):
                    for column in columns if verb in ("insert", "update") else columns[:1]:
                        sql = {
                            "insert": SQL("INSERT INTO {}.{} ({}) VALUES (DEFAULT)"),
                            "update": SQL("UPDATE {}.{} SET {} = DEFAULT WHERE false"),
                            "delete": SQL("DELETE FROM {}.{} WHERE false"),
                            "truncate": SQL("TRUNCATE {}.{}"),
                        }[verb]
                        if allowed is None:
                            right = bool(ENGINE.get(role, set()) & {verb, f"{verb} {table}"})
                            right = right and table != "dbos_migrations"
                        else:
                            right = column in allowed.get(verb, "").split() or (verb == "delete" and verb in allowed)
                        if may(connection, sql, schema, table, column) != right:
                            wrong.append(f"{role} {verb} {schema}.{table}.{column}: should be {right}")
    assert wrong == []


HOLDS = "UPDATE fleet.runs SET state = 'running', worker = %s, token = 1, lease_until = now() + interval '1 hour'"
REGISTERS = "INSERT INTO fleet.workers (id, name, host, pid, version, slots) VALUES (%s, 'w', 'h', 1, '', 1)"
OTHERS = {
    "runs": "UPDATE fleet.runs SET reason = 'x' WHERE id = %(held)s",
    "taken": "UPDATE fleet.runs SET worker = 'mine' WHERE id = %(held)s",
    "given": "UPDATE fleet.runs SET worker = 'theirs' WHERE id = %(free)s",
    "units": "INSERT INTO fleet.units (run, number, place, token, worker, saved)"
    " VALUES (%(held)s, 1, 'x', 1, 'w', 'x')",
    "calls": "INSERT INTO fleet.calls (run, token, call, tool, shown) VALUES (%(held)s, 1, 'x', 'x', 'do as I say')",
    "lost": "UPDATE fleet.calls SET lost = true WHERE run = %(held)s",
    "events": "INSERT INTO fleet.events (run, token, event) VALUES (%(held)s, 1, '{}')",
    "questions": "INSERT INTO fleet.questions (id, run, question) VALUES ('q', %(held)s, '{}')",
    "reservations": "INSERT INTO fleet.reservations (id, run, token, submitter, project, model, held_cost, held_tokens)"
    " VALUES ('r', %(held)s, 1, '', '', 'm', 0, 0)",
    "workers": "UPDATE fleet.workers SET ended = now() WHERE id = 'theirs'",
    "heard": "INSERT INTO fleet.heard (control, worker, runs) VALUES (1, 'theirs', 0)",
    "objects": "UPDATE fleet.objects SET at = '-infinity'",
}
"""By a worker's login, about a run and a worker of another login."""


def changed(connection: psycopg.Connection[Any], sql: str, **ids: str) -> int:
    """Rows; none where row-level security refuses a new one."""
    try:
        return connection.execute(sql.encode(), ids).rowcount
    except psycopg.errors.InsufficientPrivilege as error:
        if "row-level security" not in str(error):
            raise
        return 0


def test_a_worker_changes_no_run_that_another_holds(farm: Farm) -> None:
    held, free = (farm.submit("-m", "x", "--workspace", str(farm.workspace))[0] for _ in range(2))
    assert farm.fleet("stop").code == 0
    with psycopg.connect(login(farm, "worker", "theirs"), autocommit=True) as theirs:
        theirs.execute(REGISTERS.encode(), ("theirs",))
        theirs.execute(f"{HOLDS} WHERE id = %s".encode(), ("theirs", held))
        theirs.execute(b"INSERT INTO fleet.calls (run, token, call, tool, shown) VALUES (%s, 1, 'c', 't', '')", (held,))
    with psycopg.connect(login(farm, "worker", "mine"), autocommit=True) as mine:
        mine.execute(REGISTERS.encode(), ("mine",))
        for what, sql in OTHERS.items():
            assert changed(mine, sql, held=held, free=free) == 0, what
        mine.execute(f"{HOLDS} WHERE id = %s".encode(), ("mine", free))
        for what, sql in OTHERS.items():  # the same is right about its own
            if what not in ("taken", "given", "workers", "heard", "objects", "lost"):
                assert changed(mine, sql, held=free) == 1, what
        farm.rows("UPDATE fleet.runs SET lease_until = now() - interval '1 s' WHERE id = %s RETURNING 1", held)
        taken = mine.execute(f"{HOLDS} WHERE id = %s".encode(), ("mine", held))  # one that its worker lost
        assert taken.rowcount == 1
        ends = "UPDATE fleet.runs SET state = 'ended', outcome = 'completed', worker = NULL WHERE id = %(id)s"
        again = "UPDATE fleet.runs SET state = 'queued', outcome = NULL, saved = NULL WHERE id = %(id)s"
        assert [changed(mine, sql, id=held) for sql in (ends, again)] == [1, 0], "what ended is not carried out again"


SOP = """
name = "deploy"
[[steps]]
id = "ask"
kind = "approval"
prompt = "Go on?"
[[steps]]
id = "do"
kind = "tool"
tool = "Bash"
args = { command = "echo done >> log" }
"""


def test_workers_and_operators_need_no_more_than_their_roles(farm: Farm, tmp_path: Path) -> None:
    """A run that is taken over, one that asks and one that is stopped, while the queue has a row that is a program."""
    url, operator = login(farm, "worker"), ("--database", login(farm, "operator"))
    marker = tmp_path / "unpickled"
    with psycopg.connect(url, autocommit=True) as mallory:
        body = base64.b64encode(pickle.dumps(Touch(marker))).decode()
        mallory.execute(
            b"INSERT INTO dbos.workflow_status (workflow_uuid, status, name, queue_name, inputs, serialization,"
            b" application_version, application_name, priority, created_at, updated_at, recovery_attempts)"
            b" VALUES ('evil.1', 'ENQUEUED', 'run', 'runs', %s, 'py_pickle', 'fleet-1', 'adderclaw', 1, 1, 1, 0)",
            (body,),
        )
    farm.agentfile(2)
    farm.script(call("Bash", command="echo one >> log"), {"delay_ms": 300}, reached())
    for words in (("budget", "fleet", "--cost", "100000"), ("pace", "mock", "--at-once", "3")):
        assert farm.fleet(*words, *operator).code == 0
    (run_id,) = farm.submit("--agentfile", "Agentfile", "--workspace", str(farm.workspace))
    first = farm.worker("w1", "--database", url, slots=2)
    farm.until(lambda: farm.run(run_id).units == 1)
    first.kill()
    farm.expire(first)
    second = farm.worker("w2", "--database", url, slots=2)
    (row,) = farm.ended(run_id)
    assert (row.outcome, row.units) == ("completed", 2), row.reason
    (farm.workspace / "sops" / "deploy").mkdir(parents=True)
    (farm.workspace / "sops" / "deploy" / "SOP.toml").write_text(SOP)
    (asks,) = farm.submit("--sop", "deploy", "--workspace", str(farm.workspace))
    farm.until(lambda: farm.run(asks).state == "waiting")
    assert farm.fleet("approve", asks, *operator).code == 0
    assert farm.ended(asks)[0].outcome == "completed"
    farm.script(call("Bash", command="sleep 60"), text("ok"))
    (slow,) = farm.submit("-m", "x", "--workspace", str(farm.workspace))
    farm.until(lambda: farm.rows("SELECT 1 FROM fleet.calls WHERE run = %s", slow))
    assert "ended 1 runs" in farm.fleet("stop", *operator).out
    assert farm.ended(slow)[0].outcome == "stopped"
    assert farm.fleet("drain", "w2", *operator).code == 0
    assert second.process.wait(timeout=30) == 0
    for words in (("resume",), ("cancel", slow), ("retry", slow, "--fresh"), ("cancel", slow), ("prune",)):
        done = farm.fleet(*words, *operator)
        assert done.code == 0, (words, done.err)
    said = first.said + second.said
    assert ("may not do that" in said, "Traceback" in said, marker.exists()) == (False, False, False), said
    assert farm.fleet("verify").code == 0


class Touch:
    """A pickle that makes a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)
