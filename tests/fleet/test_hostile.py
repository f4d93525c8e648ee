"""Who submits, and what is submitted, against a worker and against who looks at it: files, limits, rows, questions."""

from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.fleet.farm import Farm, call, text
from tests.fleet.scripts import scripted
from tests.rows import rows


def test_no_link_in_an_archive_has_a_file_of_the_worker_told(farm: Farm) -> None:
    """A folder that is named lies in the workspace, and the file in it is a link; so is a policy beside a workflow."""
    key = farm.root / "workers" / "w1" / ".adderclaw" / "fleet.key"
    secret = "ab" * 32
    for folder in ("sub", "sop", "flow"):
        (farm.workspace / folder).mkdir()
    (farm.workspace / "sub" / "Agentfile").symlink_to(key)
    (farm.workspace / "sop" / "SOP.toml").symlink_to(key)
    (farm.workspace / "flow" / "Agentfile").write_text('NAME x\nGOAL g "x"\nRUN all USING g\n')
    (farm.workspace / "flow" / "policy.toml").symlink_to(key)
    farm.script(text("done"))
    (fine,) = farm.submit("-m", "x", "--workspace", str(farm.workspace))
    wanted = {"folder": {"agentfile": "sub"}, "sop": {"sop": "./sop"}, "policy": {"agentfile": "flow/Agentfile"}}
    sql = "INSERT INTO fleet.runs (id, submitter, wanted, place, state) SELECT %s, submitter, %s, place, 'queued'"
    for id, one in wanted.items():
        farm.rows(f"{sql} FROM fleet.runs WHERE id = %s RETURNING id", id, Jsonb(one), fine)
        farm.sign(id)
        farm.rows("SELECT fleet.enqueue(%s, 200)", id)
    farm.worker("w1", slots=1)
    ended = {row.id: row for row in farm.ended(fine, *wanted)}
    assert key.read_text().strip() == secret
    for id in ("folder", "sop"):
        assert "leads out of the workspace" in ended[id].reason, ended[id]
    events = str(farm.rows("SELECT event FROM fleet.events"))
    assert "flow/policy.toml: this link leads out" in events
    assert secret not in events + str(ended)


def test_folders_without_end_cost_their_run_alone(farm: Farm) -> None:
    code = "import os\nfor _ in range(1500):\n    os.mkdir('d')\n    os.chdir('d')\n"
    (farm.workspace / "dig.py").write_text(code)
    here = ("--workspace", str(farm.workspace))
    (digs,) = farm.submit("-m", "x", *here, *scripted(farm, "digs", call("Bash", command="python3 dig.py"), text("ok")))
    (fine,) = farm.submit("-m", "x", *here)
    worker = farm.worker("w1", slots=1)
    row, other = farm.ended(digs, fine)
    assert (row.outcome, "too deep for an archive" in row.reason, other.outcome) == ("error", True, "completed"), row
    assert worker.end() == 0
    assert ("Traceback" in worker.said, list((worker.home / ".adderclaw" / "fleet-runs").iterdir())) == (False, [])


DEEP = "[" * 5000 + "]" * 5000
ODD: dict[str, tuple[str, str]] = {
    "deep": ("wanted", f'{{"inputs": {DEEP}}}'),
    "list": ("wanted", "[]"),
    "digits": ("wanted", f'{{"message": "x", "rounds": {"9" * 5000}}}'),
    "digits too": ("place", f'{{"archive": {"9" * 5000}}}'),
    "null": ("wanted", "null"),
    "large": ("wanted", f'{{"message": "{"x" * 17_000_000}"}}'),
    "place": ("place", f'{{"archive": {DEEP}}}'),
    "keys": ("place", '{"\\u001b[2Jk": {"\\u001b[3Ja": 1}}'),
    "never": ("deadline", "infinity"),
    "always": ("deadline", "-infinity"),
    "far": ("deadline", "20000-01-01"),
    "old": ("deadline", "4000-01-01 BC"),
    "tag": ("tag", "9223372036854775807"),
    "cost": ("max_cost", "NaN"),
    "label": ("label", "a b\x1b[0m"),
    "after": ("after", "{NULL}"),
    "project": ("project", "x" * 1000),
    "\x1b[31mid": ("project", "x"),
    "of/a/path": ("project", "x"),
}
"""What no command writes, by the column in which it is."""
ROW = {"wanted": '{"message": "x"}', "place": f'{{"archive": "box-{"0" * 64}"}}', "state": "queued"}


def put(connection: psycopg.Connection[Any], who: str, id: str, key: str = "") -> None:
    column, value = ODD.get(id, ("project", "x"))
    row = {**ROW, "id": id, "submitter": who, "signed_by": key, "signature": "0" * 128, column: value}
    names, marks = ", ".join(row), ", ".join(["%s"] * len(row))
    connection.execute(f"INSERT INTO fleet.runs ({names}) VALUES ({marks})".encode(), list(row.values()))
    connection.execute("SELECT fleet.enqueue(%s, 200)", (id,))


def test_a_submitter_writes_no_row_that_nobody_can_read(farm: Farm) -> None:
    who = f"{farm.url.rpartition('/')[2]}_eve"
    with psycopg.connect(farm.url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {who} LOGIN IN ROLE adderclaw_submitter".encode())
    url = farm.url.replace("adder@", f"{who}@")
    key = farm.signer(who).public
    with psycopg.connect(url, autocommit=True) as connection:
        put(connection, who, "fine", key)
        for id in ODD:
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
                put(connection, who, id, key)
    (farm.workspace / "Agentfile").write_text('NAME x\nINPUT a\nGOAL g "x"\nRUN all USING g\n')
    words = ("--agentfile", "Agentfile", "--input", f"a={'x' * 100_000}", "--deadline", "1e9", "--max-cost", "1")
    words += ("--label", "a-b_c", "--project", "p q", "--dedupe", "k", "--priority", "9", "--profile", "readonly")
    assert farm.submit(*words, "--workspace", str(farm.workspace), "--submitter", who, "--database", url)


def test_a_row_that_nobody_can_read_is_no_trouble_of_others(farm: Farm) -> None:
    """By who may write any row, or before there was a check: one slot, and all of these come first."""
    with psycopg.connect(farm.url, autocommit=True) as connection:
        for id in ODD:
            if id not in ("label", "large"):  # which no worker takes, and which takes long to write
                put(connection, "eve", id)
                farm.sign(id)
    (fine,) = farm.submit("-m", "x", "--workspace", str(farm.workspace), "--priority", "9")
    farm.worker("w1", slots=1)
    assert farm.ended(fine)[0].outcome == "completed"
    for words in (("list", "-n", "100"), ("show",), *(("show", id) for id in ODD if id not in ("label", "large"))):
        for more in ((), ("--output-format", "json")):
            done = farm.fleet(*words, *more)
            assert (done.code, "\x1b" in done.out + done.err) == (0, False), (words, done.err)
    (clock,) = farm.rows("SELECT tag FROM fleet.clock")
    assert clock.tag < 200_000
    assert farm.submit("-m", "x", "--workspace", str(farm.workspace))


def test_who_shows_a_run_shows_its_questions_as_they_were_sealed(farm: Farm) -> None:
    config = farm.cli.data / "config.toml"
    config.write_text(config.read_text() + '[permissions]\nask = ["Bash"]\n')
    farm.script(call("Bash", command="echo one"), text("ok"))
    (id,) = farm.submit("-m", "x", "--workspace", str(farm.workspace))
    farm.worker("w1", slots=1)
    farm.until(lambda: farm.json("approve"))
    (asked,) = farm.json("show", id)["questions"]
    assert ("echo one" in str(asked["question"]["shown"]), "unchecked" in asked["question"]) == (True, False)
    farm.rows("UPDATE fleet.questions SET answer = '{\"approved\": true}', by = 'boss', mac = 'x' RETURNING 1")
    (said,) = farm.json("show", id)["questions"]
    assert (said["by"], "was not made with" in said["answer"]) == (None, True), said
    farm.rows('UPDATE fleet.questions SET answer = NULL, question = question || \'{"shown": "echo two"}\' RETURNING 1')
    out = farm.fleet("show", id).out
    assert ("echo two" in out, "does not match its worker's seal" in out) == (False, True), out
    (farm.cli.data / "fleet.key").unlink()
    for words in (("show", id), ("approve",)):
        out = farm.fleet(*words).out
        assert ("echo two" in out, "no fleet key" in out) == (True, True), out


def test_who_submits_wants_no_more_than_the_worker_allows_itself(farm: Farm) -> None:
    """Its own profile and limits are the loosest: nobody is asked in `sandboxed`, and a row may name any limit."""
    farm.script(call("Bash", command="echo one > log"), text("ok"))
    here = ("--workspace", str(farm.workspace))
    (loose,), (strict,) = farm.submit("-m", "x", *here, "--profile", "sandboxed"), farm.submit("-m", "x", *here)
    wanted: dict[str, dict[str, Any]] = {
        "cost": {"limits": {"cost_usd": 1e9}},
        "seconds": {"limits": {"seconds": 7200, "tool_calls": 1}},
        "endless": {"limits": {"tokens": 1e300}},
        "tighter": {"limits": {"tool_calls": 0, "cost_usd": 1000.0}, "profile": "readonly"},
    }
    sql = "INSERT INTO fleet.runs (id, submitter, wanted, place, state) SELECT %s, submitter, %s, place, 'queued'"
    for id, one in wanted.items():
        farm.rows(f"{sql} FROM fleet.runs WHERE id = %s RETURNING id", id, Jsonb({"message": "x", **one}), strict)
        farm.sign(id)
        farm.rows("SELECT fleet.enqueue(%s, 200)", id)
    config = farm.cli.data / "config.toml"
    config.write_text(config.read_text().replace("[runtime]\n", '[runtime]\nprofile = "supervised"\n'))
    farm.worker("w1", slots=1)
    ended = {row.id: row for row in farm.ended(loose, *wanted)}
    assert (ended[loose].outcome, "supervised at most" in ended[loose].reason) == ("error", True), ended[loose]
    for id, most in (("cost", "cost_usd 1000"), ("seconds", "seconds 3600"), ("endless", "tokens ")):
        assert (ended[id].outcome, f"at most: {most}" in ended[id].reason) == ("error", True), ended[id]
    assert ended["tighter"].outcome == "limit", ended["tighter"]
    farm.until(lambda: farm.json("approve"))  # the worker's own profile asks
    assert farm.run(strict).outcome is None


def test_a_row_of_a_worker_that_nobody_can_read_is_no_trouble_of_who_looks(farm: Farm) -> None:
    (id,) = farm.submit("-m", "x", "--workspace", str(farm.workspace))
    farm.worker("w1", slots=1)
    farm.ended(id)
    farm.rows("INSERT INTO fleet.events (run, token, event) VALUES (%s, 1, '[]') RETURNING 1", id)
    for at in ("infinity", "-infinity"):
        sql = (
            "INSERT INTO fleet.workers (id, name, host, pid, version, slots, seen) VALUES (%s, 'w', 'h', 1, '', 1, %s)"
        )
        farm.rows(f"{sql} RETURNING 1", f"w{at}", at)
    for words in (("show",), ("show", id), ("list",), ("logs", id), ("watch", "--once")):
        done = farm.fleet(*words)
        assert (done.code, "Traceback" in done.err) == (0, False), (words, done.err)


@rows("question", ["[]", '"x"', "null", "{}", '{"id": 5, "shown": [], "risk": {}, "reason": 1}', DEEP])
def test_a_question_that_is_none_is_no_trouble_of_who_looks(farm: Farm, question: str) -> None:
    """By who may write any row: with the fleet's key nobody sealed it, and without it is none."""
    key = farm.cli.data / "fleet.key"
    secret = key.read_text() if key.exists() else "ab" * 32 + "\n"
    key.write_text(secret)
    (id,) = farm.submit("-m", "x", "--workspace", str(farm.workspace))
    sql = "INSERT INTO fleet.questions (run, id, question) VALUES (%s, 'q', %s::jsonb) RETURNING id"
    farm.rows(sql, id, question)
    farm.rows("UPDATE fleet.runs SET state = 'waiting' WHERE id = %s RETURNING id", id)
    for there in (True, False):
        if not there:
            key.unlink()
        for words in (("show", id), ("approve",), ("approve", id, "--no")):
            for more in ((), ("--output-format", "json")):
                done = farm.fleet(*words, *more)
                assert "Traceback" not in done.err, (words, done.err)
                assert (done.code == 0) == ("--no" not in words), (words, done.out + done.err)
    farm.rows("UPDATE fleet.runs SET state = 'held' WHERE id = %s RETURNING id", id)
