"""The commands of the fleet: what is refused, in which order runs begin, stop, budgets, questions, proof."""

import json
import os
import runpy
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from adderclaw.core.overseer import ModelCallEstimate, Reservation
from adderclaw.fleet import anchors, budgets, leases
from adderclaw.fleet.database import Database
from adderclaw.fleet.keys import Key
from adderclaw.fleet.objects import Objects, Table
from adderclaw.fleet.verify import verify
from tests.fleet.farm import Farm, call, reached, text
from tests.program import Cli

VERIFIER = Path(__file__).parents[2] / "scripts" / "verify_fleet.py"


def test_without_a_database_it_says_how_to_get_one(cli: Cli) -> None:
    done = cli("fleet", "list")
    assert done.code == 2
    assert "adderclaw fleet init --database" in done.err
    done = cli("fleet", "init", "--database", "mysql://x/y")
    assert (done.code, "is not a PostgreSQL address" in done.err) == (2, True)
    done = cli("fleet", "list", "--database", "postgresql://adder@127.0.0.1:9/none")
    assert done.code == 1
    assert "cannot be reached" in done.err
    assert "Traceback" not in done.err


def test_what_cannot_run_is_refused_before_anything_is_submitted(farm: Farm, tmp_path: Path) -> None:
    here = str(farm.workspace)
    refused = {
        ("-m", "x"): "use only one of --repo and --workspace",
        ("-m", "x", "--task", "y", "--workspace", here): "exactly one of",
        ("--workspace", here): "exactly one of",
        ("-m", "x", "--workspace", str(tmp_path / "none")): "none",
        ("--agentfile", "/etc/passwd", "--workspace", here): "relative to the workspace",
        ("--agentfile", "Agentfile", "--workspace", here): "Agentfile",
        ("-m", "x", "--workspace", here, "--label", "No Such"): "small letters",
        ("-m", "x", "--workspace", here, "--after", "2026"): "there is no run",
        ("-m", "x", "--repo", f"{tmp_path}/none@main"): "cannot be cloned by a worker",
        ("-m", "x", "--repo", "--upload-pack=touch x@main"): "expected URL@REF",
    }
    for words, why in refused.items():
        done = farm.fleet("submit", *words)
        assert (done.code, why in done.err, "Traceback" in done.err) == (2, True, False), (words, done.err)
    rows = ["message,workspace,priority", *(f"say {number},{here},5" for number in range(10_000)), f"bad,{here},twelve"]
    matrix = tmp_path / "matrix.csv"
    matrix.write_text("\n".join(rows))
    done = farm.fleet("submit", "--matrix", str(matrix))
    assert done.code == 2
    assert f"{matrix}:10002: priority 'twelve'" in done.err
    assert farm.rows("SELECT 1 FROM fleet.runs") == []


def test_a_matrix_a_repository_and_runs_that_wait_for_each_other(farm: Farm, tmp_path: Path) -> None:
    """One worker, started once: many small things that only need it to be there."""
    with (farm.cli.data / "fleet.toml").open("a") as file:
        file.write("local_repos = true\n")
    farm.script(call("Bash", command="cat name"), text("{{last_result}}"))
    (farm.workspace / "name").write_text("folder")
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "name").write_text("repository")
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "HOME": str(tmp_path)}
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q", "-b", "main"), ("add", "."), (*who, "commit", "-qm", "one")):
        subprocess.run(["git", *words], cwd=repo, env=env, check=True)
    matrix = tmp_path / "matrix.jsonl"
    matrix.write_text(
        "\n".join(
            json.dumps(row)
            for row in (
                {"message": "one", "workspace": str(farm.workspace)},
                {"message": "two", "repo": f"{repo}@main", "dedupe": "k"},
                {"message": "three", "repo": f"{repo}@main", "dedupe": "k"},
            )
        )
    )
    made = farm.json("submit", "--matrix", str(matrix))
    ids = [one["run_id"] for one in made["runs"]]
    assert [one["new"] for one in made["runs"]] == [True, True, False]
    assert ids[1] == ids[2]
    (after,) = farm.submit("-m", "after", "--workspace", str(farm.workspace), "--after", ids[0], "--after", ids[1])
    (gone,) = farm.submit("-m", "x", "--repo", f"{repo}@{'0' * 40}")
    (never,) = farm.submit("-m", "never", "--workspace", str(farm.workspace), "--after", gone)
    (late,) = farm.submit("-m", "late", "--workspace", str(farm.workspace), "--deadline", "0")
    assert farm.run(after).state == "held"
    farm.worker("w1")
    rows = farm.ended(ids[0], ids[1], after, gone, never, late)
    assert [row.outcome for row in rows] == ["completed", "completed", "completed", "error", "error", "limit"]
    assert [row.answer.strip() for row in rows[:3]] == ["folder", "repository", "folder"]
    assert "cannot be cloned" in rows[3].reason
    assert "which it waits for" in rows[4].reason
    assert rows[2].began > max(rows[0].finished, rows[1].finished)
    assert farm.json("usage", "--by", "model")[0]["calls"] == 6
    again = farm.fleet("retry", gone)
    assert again.code == 0
    farm.until(lambda: farm.run(gone).generation == 2 and farm.run(gone).state == "ended")
    report = farm.json("report", made["batch"])
    assert report["outcomes"] == {"completed": 2}
    page = tmp_path / "report.html"
    assert farm.fleet("report", made["batch"], "--html", str(page)).code == 0
    assert "repository" in page.read_text()


def test_whoever_submits_much_does_not_keep_others_waiting(farm: Farm) -> None:
    here = str(farm.workspace)
    for number in range(3):
        farm.submit("-m", f"a{number}", "--workspace", here, "--submitter", "much")
    farm.submit("-m", "b0", "--workspace", here, "--submitter", "little")
    farm.submit("-m", "first", "--workspace", here, "--submitter", "much", "--priority", "0")
    farm.submit("-m", "last", "--workspace", here, "--submitter", "other", "--priority", "9")
    queued = farm.rows(
        "SELECT r.wanted->>'message' AS message FROM dbos.workflow_status w JOIN fleet.runs r"
        " ON w.workflow_uuid = r.id || '.1' ORDER BY w.priority, w.created_at"
    )
    assert [row.message for row in queued] == ["first", "a0", "b0", "a1", "a2", "last"]


STUBBORN = call("Bash", command="trap '' TERM INT; echo one >> log; sleep 600; sleep 600")


def test_stop_reaches_every_worker_and_stays(farm: Farm) -> None:
    """Two seconds, by PostgreSQL's clock, until nothing of any run is there: also of one that does not want to end."""
    here = str(farm.workspace)
    farm.agentfile(2)
    farm.script(STUBBORN, reached())
    (run_id,) = farm.submit("--agentfile", "Agentfile", "--workspace", here)
    first = farm.worker("w1", lease=20, slots=1)
    farm.until(lambda: farm.rows("SELECT 1 FROM fleet.calls"))
    farm.script({"delay_ms": 600_000}, reached())
    (asking,) = farm.submit("-m", "x", "--workspace", here)
    second = farm.worker("w2", lease=20, slots=1)
    farm.until(lambda: len(farm.rows("SELECT 1 FROM fleet.reservations WHERE settled IS NULL")) == 1)
    busy = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    done = farm.fleet("stop", "--reason", "a test", "--output-format", "json")
    seen = json.loads(done.out)["workers"]
    assert [worker.children() for worker in (first, second)] == [[], []]
    assert [one["runs"] for one in seen] == [1, 1]
    print("load for each core:", busy, seen)
    assert max(one["heard"] for one in seen) < 1.0 * busy
    assert max(one["ended"] for one in seen) < 2.0 * busy  # a busy machine is that much slower, and is said to be
    rows = farm.ended(run_id, asking)
    assert {(row.outcome, row.reason) for row in rows} == {("stopped", "the fleet was stopped: a test")}
    (other,) = farm.submit("-m", "x", "--workspace", here)
    third = farm.worker("w3", lease=20)  # one that starts while it is stopped begins nothing, and reports the stop
    farm.until(lambda: farm.rows("SELECT 1 FROM fleet.heard WHERE worker LIKE 'w3-%%' AND ended IS NOT NULL"))
    farm.until(lambda: "slots" in third.said)
    time.sleep(1.5)
    assert farm.run(other).state == "queued"
    farm.script(text("fine"), reached())
    assert "2 runs are queued again" in farm.fleet("resume").out
    rows = farm.ended(run_id, asking, other)
    assert [(row.outcome, row.units) for row in rows] == [("completed", 2), ("completed", 0), ("completed", 0)], rows


def test_budgets_hold_for_all_workers_together(farm: Farm) -> None:
    """Five runs at once, each of two calls that take nearly all that they may: what is spent and held never passes."""
    used = {"usage": {"input_tokens": 4_000, "output_tokens": 900}}
    farm.script({**call("Bash", command="true"), **used}, {**text("done"), **used})
    assert farm.fleet("budget", "project", "p", "--cost", "30").code == 0
    with psycopg.connect(farm.url, autocommit=True) as connection:
        connection.execute(
            "ALTER TABLE fleet.budgets ADD CHECK (cost IS NULL OR spent_cost + held_cost <= cost + 0.000001)"
        )
    here = str(farm.workspace)
    matrix = farm.root / "matrix.csv"
    matrix.write_text("\n".join(["message,workspace,project", *([f"x,{here},p"] * 5)]))
    ids = [one["run_id"] for one in farm.json("submit", "--matrix", str(matrix))["runs"]]
    farm.worker("w1", slots=5)
    rows = farm.ended(*ids)
    assert {row.outcome for row in rows} >= {"limit"}, [(row.outcome, row.reason) for row in rows]
    assert "the budget of project p" in next(row.reason for row in rows if row.outcome == "limit")
    (budget,) = farm.rows("SELECT * FROM fleet.budgets")
    assert 4 <= budget.spent_cost <= 30
    assert (budget.held_cost, budget.held_tokens) == (pytest.approx(0), 0)


def test_a_call_holds_what_it_can_take_and_its_answer_is_cut_to_what_is_left(farm: Farm) -> None:
    farm.submit("-m", "x", "--workspace", str(farm.workspace), "--max-cost", "10")
    with psycopg.connect(farm.url) as connection:
        connection.execute(
            "INSERT INTO fleet.workers (id, name, host, pid, version, slots) VALUES ('w', 'w', 'h', 1, '', 1)"
        )
    database = Database(farm.url)
    run = leases.claim(database, farm.rows("SELECT id FROM fleet.runs")[0].id, "w", 60)
    lease = leases.Lease(run.id, run.token, "w")
    asking = ModelCallEstimate("m", input_tokens=1_000, input_price=1.0, least=1_000, most=5_000, answer_price=0.001)
    first = budgets.reserve(database, lease, asking, "")
    assert isinstance(first, Reservation)
    assert first.answer is None  # 6 of 10 dollars are held
    second = budgets.reserve(database, lease, asking, "")
    assert isinstance(second, Reservation)
    assert second.answer == 3_000  # as much as fits into 4
    assert budgets.reserve(database, lease, asking, "") == budgets.Refused("", "")  # later, perhaps
    budgets.settle(database, first.held, 1_500, 1.5)
    third = budgets.reserve(database, lease, asking, "")
    assert isinstance(third, Reservation)
    assert third.answer == 3_500
    for one in (second, third):
        budgets.settle(database, one.held, 4_000, 4.0)
    refused = budgets.reserve(database, lease, asking, "")
    assert isinstance(refused, budgets.Refused)
    assert "$9.5000 spent, the next call can cost $2.0000, of $10" in refused.reason
    unpriced = asking._replace(input_price=0.0, answer_price=0.0, unpriced="mystery")
    refused = budgets.reserve(database, lease, unpriced, "")
    assert isinstance(refused, budgets.Refused)
    assert (refused.by, "the price of the model 'mystery' is unknown" in refused.reason) == ("price", True)


SOP = """
name = "deploy"
[[steps]]
id = "look"
kind = "tool"
tool = "Bash"
args = { command = "echo looked >> log" }
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


@pytest.mark.parametrize("word", ["yes", "no"])
def test_a_run_that_asks_frees_its_slot_and_goes_on_elsewhere(farm: Farm, word: str) -> None:
    folder = farm.workspace / "sops" / "deploy"
    folder.mkdir(parents=True)
    (folder / "SOP.toml").write_text(SOP)
    (run_id,) = farm.submit("--sop", "deploy", "--workspace", str(farm.workspace))
    first = farm.worker("w1", slots=1)
    farm.until(lambda: farm.run(run_id).state == "waiting")
    (other,) = farm.submit("-m", "x", "--workspace", str(farm.workspace))
    assert farm.ended(other)[0].outcome == "completed"  # the only slot is free
    first.end()
    (asked,) = farm.json("approve")
    assert asked["run_id"] == run_id
    assert farm.fleet("approve", run_id, *(("--no",) if word == "no" else ())).code == 0
    assert farm.fleet("approve", run_id).code == 1
    farm.worker("w2")
    (row,) = farm.ended(run_id)
    assert row.outcome == ("completed" if word == "yes" else "denied"), row.reason
    log = (farm.fetched(run_id) / "workspace" / "log").read_text().split()
    assert log == (["looked", "done"] if word == "yes" else ["looked"])


def test_an_answer_without_the_key_counts_for_nothing(farm: Farm) -> None:
    folder = farm.workspace / "sops" / "deploy"
    folder.mkdir(parents=True)
    (folder / "SOP.toml").write_text(SOP)
    (run_id,) = farm.submit("--sop", "deploy", "--workspace", str(farm.workspace))
    farm.worker("w1", slots=1)
    farm.until(lambda: farm.run(run_id).state == "waiting")
    farm.cli.env["ADDERCLAW_FLEET_KEY"] = "cd" * 32
    assert farm.fleet("approve", run_id).code == 1
    del farm.cli.env["ADDERCLAW_FLEET_KEY"]
    yes = """'{"approved": true, "comment": ""}'"""
    farm.rows(f"UPDATE fleet.questions SET answer = {yes}, by = 'me', mac = repeat('0', 64) RETURNING 1")
    farm.rows("UPDATE fleet.runs SET state = 'queued', generation = 2 RETURNING 1")
    farm.rows("SELECT fleet.enqueue(%s, 200)", run_id)
    (row,) = farm.ended(run_id)
    assert row.outcome == "error"
    assert "not made with the fleet's key" in row.reason


FORGERIES = {
    "a changed outcome": ("UPDATE fleet.runs SET outcome = 'error' WHERE number = 1", "outcome"),
    "a changed answer": ("UPDATE fleet.runs SET answer = 'all is well'", "texts"),
    "another task": ("""UPDATE fleet.runs SET wanted = wanted || '{"profile": "strict"}'""", "texts"),
    "a run that nobody worked on": (
        "INSERT INTO fleet.runs (id, submitter, wanted, place, state, outcome)"
        " VALUES ('x', 'me', '{}', '{}', 'ended', 'completed')",
        "outcome",
    ),
    "a missing run": (
        "DELETE FROM fleet.reservations; DELETE FROM fleet.events; DELETE FROM fleet.calls; DELETE FROM fleet.units;"
        " DELETE FROM fleet.runs",
        "run",
    ),
    "a dearer request": ("UPDATE fleet.runs SET max_cost = 1e9", "request"),
    "a request that nobody signed": ("UPDATE fleet.runs SET signature = ''", "request"),
    "a submitter that never enrolled": ("DELETE FROM fleet.submitters", "request"),
    "units that nobody finished": ("UPDATE fleet.runs SET units = 7 WHERE number = 1", "unit"),
    "a changed entry": ("UPDATE fleet.anchors SET entry = replace(entry, 'completed', 'error')", "chain"),
    "an entry that is none": (
        "INSERT INTO fleet.anchors VALUES (9, '[]', 'x', 'x'), (10, '{\"kind\": \"unit\", \"run\": \"x\"}', 'y', '')",
        "chain",
    ),
    "a cut log": ("DELETE FROM fleet.anchors WHERE seq = (SELECT max(seq) FROM fleet.anchors)", "chain"),
    "a rewritten head": ("UPDATE fleet.anchor_head SET hash = repeat('1', 64)", "chain"),
    "a worker that never enrolled": ("DELETE FROM fleet.identities", "worker"),
    "another worker's key": ("UPDATE fleet.identities SET public_key = repeat('ab', 32)", "signature"),
    "another state": ("UPDATE fleet.runs SET saved = (SELECT place->>'archive' FROM fleet.runs LIMIT 1)", "receipts"),
    "a changed object": (
        "UPDATE fleet.objects SET body = body || '\\x00' WHERE digest IN (SELECT saved FROM fleet.runs)",
        "state",
    ),
}


def test_verify_finds_every_forgery(farm: Farm, tmp_path: Path) -> None:
    farm.agentfile(2)
    farm.script(call("Bash", command="echo one >> log"), reached())
    (run_id,) = farm.submit("--agentfile", "Agentfile", "--workspace", str(farm.workspace))
    farm.worker("w1").farm.ended(run_id)
    assert farm.workers[0].end() == 0
    done = farm.fleet("verify")
    assert (done.code, done.out.startswith("valid: 3 anchors, 1 runs, 4 receipts")) == (0, True), done.out
    with pytest.raises(psycopg.errors.RaiseException, match="only added to"):
        farm.rows("DELETE FROM fleet.anchors RETURNING 1")
    farm.leave()
    alone = runpy.run_path(str(VERIFIER))
    name = farm.url.rpartition("/")[2]
    for number, (what, (sql, found)) in enumerate(FORGERIES.items()):
        copy = f"{name}_{number}"
        with psycopg.connect(farm.url.replace(f"/{name}", "/postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {copy} TEMPLATE {name}".encode())
        url = farm.url.replace(f"/{name}", f"/{copy}")
        with psycopg.connect(url) as connection:
            connection.execute("ALTER TABLE fleet.anchors DISABLE TRIGGER ALL")
            connection.execute(sql.encode())
        key, database = Key(bytes.fromhex("ab" * 32)), Database(url)
        seen = verify(database, Objects(Table(database), key), key)
        assert found in {one.what for one in seen.wrong}, (what, seen.wrong)
        made = anchors.export_anchors(database)
        database.close()
        wrong, entries = alone["chain"](made, made["workers"], None)
        in_states = found in ("receipts", "state")  # which an export has not
        wrong += alone["runs"](made, entries) + alone["requests"](made)
        assert bool(wrong) != in_states, what
        if number == 0:  # the commands, once
            assert farm.cli("fleet", "verify", "--database", url).code == 1
            export = tmp_path / "export.json"
            assert farm.cli("fleet", "export", str(export), "--database", url).code == 0
            done = subprocess.run([sys.executable, str(VERIFIER), str(export)], capture_output=True, check=False)
            assert done.returncode == 1, done.stdout


CANARY = "sk-canary-0123456789abcdef0123456789abcdef"


def test_nothing_secret_is_in_the_database(farm: Farm) -> None:
    """A key of a provider, the fleet's key and what a file says: none of it can be read in any table."""
    (farm.workspace / "private.txt").write_text("canary-in-a-file")
    config = farm.cli.data / "config.toml"
    config.write_text(config.read_text().replace('model = "mock"', 'model = "mock"\napi_key_env = "CANARY_KEY"'))
    farm.script(call("Bash", command=f"echo {CANARY}; cat private.txt"), text(f"the key is {CANARY}"))
    (run_id,) = farm.submit("-m", "say it", "--workspace", str(farm.workspace))
    worker = farm.worker("w1", env={"CANARY_KEY": CANARY})
    (row,) = farm.ended(run_id)
    assert worker.process.poll() is None
    assert row.outcome == "completed", row.reason
    assert CANARY not in row.answer
    tables = farm.rows("SELECT schemaname AS s, tablename AS t FROM pg_tables WHERE schemaname IN ('fleet', 'dbos')")
    for table in tables:
        dump = str(farm.rows(f'SELECT x::text FROM {table.s}."{table.t}" AS x'))
        for secret in (CANARY, "ab" * 32, CANARY.encode().hex(), b"canary-in-a-file".hex(), "canary-in-a-file"):
            assert secret not in dump, (table, secret)


ROLES = {
    "submitter": {"list": 0, "stop": 2, "budget": 2, "enroll": 2, "submit": 0},
    "auditor": {"list": 0, "stop": 2, "submit": 2, "enroll": 2},
    "operator": {"list": 0, "stop": 0, "resume": 0, "enroll": 0},
    "worker": {"list": 0, "stop": 2, "enroll": 2},
}
WORDS = {
    "list": ("list",),
    "stop": ("stop",),
    "resume": ("resume",),
    "budget": ("budget", "fleet", "--cost", "1"),
    "enroll": ("enroll", "other", "cd" * 32),
}
NOT_THEIRS = {
    "submitter": (
        "INSERT INTO fleet.runs (id, submitter, wanted, place, state, saved)"
        " VALUES ('x', session_user, '{}', '{}', 'queued', 'the state of another')",
        "INSERT INTO fleet.runs (id, submitter, wanted, place, state)"
        " VALUES ('x', session_user, '{}', '{}', 'running')",
        "INSERT INTO fleet.runs (id, submitter, wanted, place, state, priority)"
        " VALUES ('x', session_user, '{}', '{}', 'queued', -1000)",
        "UPDATE fleet.runs SET wanted = '{}'",
        "UPDATE fleet.objects SET body = ''",
        "DELETE FROM fleet.objects",
        "UPDATE fleet.objects SET at = '-infinity'",
        "INSERT INTO fleet.objects (digest, body, at) VALUES ('x', '', 'infinity')",
        "INSERT INTO fleet.budgets (scope, cost) VALUES ('fleet', 0)",
        "INSERT INTO fleet.budgets (scope, name, cost) SELECT 'submitter', 'bob', 0",
        "INSERT INTO fleet.shares (submitter, tag) VALUES ('carol', 2000000000)",
    ),
    "worker": (
        "INSERT INTO fleet.questions (id, run, question, answer) SELECT 'q', id, '{}', '{}' FROM fleet.runs",
        "UPDATE fleet.questions SET answer = '{}'",
        "UPDATE fleet.objects SET body = ''",
    ),
    "operator": ("UPDATE fleet.objects SET body = ''",),
}
"""What no command of theirs does: rows that they write themselves."""


def test_roles_write_no_more_than_their_commands(farm: Farm) -> None:
    here = str(farm.workspace)
    farm.submit("-m", "somebody else's", "--workspace", here, "--submitter", "bob")
    name = farm.url.rpartition("/")[2]
    for role, statements in NOT_THEIRS.items():
        with psycopg.connect(farm.url, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE {name}_n_{role} LOGIN IN ROLE adderclaw_{role}".encode())
        with psycopg.connect(farm.url.replace("adder@", f"{name}_n_{role}@"), autocommit=True) as connection:
            for sql in statements:
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(sql.encode())
    who = f"{name}_n_submitter"
    farm.signer(who)
    mine = ("--workspace", here, "--submitter", who, "--database", farm.url.replace("adder@", f"{who}@"))
    (first,) = farm.submit("-m", "x", "--max-cost", "1", *mine)
    (second,) = farm.submit("-m", "x", "--after", first, *mine)
    assert farm.run(second).state == "held"


def test_roles_may_what_they_may_and_no_more(farm: Farm) -> None:
    here = str(farm.workspace)
    farm.submit("-m", "somebody else's", "--workspace", here, "--submitter", "bob")
    name = farm.url.rpartition("/")[2]
    with psycopg.connect(farm.url, autocommit=True) as connection:
        for role in ROLES:
            connection.execute(f"CREATE ROLE {name}_{role} LOGIN IN ROLE adderclaw_{role}".encode())
    for role, allowed in ROLES.items():
        url = farm.url.replace("adder@", f"{name}_{role}@")
        if role == "submitter":
            words = ("submit", "-m", "x", "--workspace", here, "--submitter", f"{name}_{role}", "--database", url)
            done = farm.cli("fleet", *words)
            fix = f"adderclaw fleet enroll --submitter {name}_{role} "
            assert (done.code, fix in done.err) == (2, True), done.err
            enroll = done.err[done.err.index("adderclaw fleet enroll") :].split()[1:]
            assert farm.cli(*enroll).code == 0
        for what, code in allowed.items():
            words = WORDS.get(what, ("submit", "-m", "x", "--workspace", here, "--submitter", f"{name}_{role}"))
            done = farm.cli("fleet", *words, "--database", url)
            assert done.code == code, (role, what, done.out, done.err)
            if what == "list":
                assert ("bob" in done.out) == (role != "submitter"), (role, done.out)
            if code:
                assert "this role may not do that" in done.err, (role, what, done.err)
        if role == "submitter":
            done = farm.cli("fleet", "submit", "-m", "x", "--workspace", here, "--submitter", "bob", "--database", url)
            assert done.code == 2, done.out
