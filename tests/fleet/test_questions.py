"""What any run asks is answered from anywhere: by a command, by the dashboard, by a signed request; slots are free."""

import json
import time
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from adderclaw.agent.run import Options
from adderclaw.core.json_text import canonical
from adderclaw.fleet.keys import Key
from adderclaw.models.http import signing
from adderclaw.server.state import ServerState
from tests.acceptance.world import add_skill
from tests.fleet.farm import Farm, call, reached, text
from tests.fleet.scripts import FINISH, command, decided, scripted
from tests.server.conftest import Server

ASKS = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [{"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"}],
    "multiSelect": False,
}


def signed_answer(server: Server, secret: str, body: dict[str, Any], id: str) -> int:
    content = json.dumps(body).encode()
    headers = {"content-type": "application/json", **signing.headers([secret], content, id=id, now=time.time())}
    return server.ask("POST", "/fleet/answers", content=content, headers=headers).status_code


def test_questions_of_any_run_are_answered_from_anywhere(farm: Farm) -> None:
    """One slot, and four runs of four kinds that all wait at once."""
    config = farm.cli.data / "config.toml"
    config.write_text(config.read_text() + '[permissions]\nask = ["Bash"]\n')
    here = ("--workspace", str(farm.workspace))
    farm.agentfile(1)
    bash = call("Bash", command="echo one >> log")
    add_skill(farm.workspace / "skills")
    task = decided(command("echo one >> log")), decided(FINISH)
    asks = call("AskUserQuestion", questions=[ASKS])
    submitted = {
        "message": farm.submit("-m", "do it", *here, *scripted(farm, "m", bash, text("ok"))),
        "agentfile": farm.submit("--agentfile", "Agentfile", *here, *scripted(farm, "a", bash, reached())),
        "task": farm.submit("--task", "do it", *here, *scripted(farm, "t", *task)),
        "asks": farm.submit("-m", "ask me", *here, *scripted(farm, "q", asks, text("{{last_result}}"))),
    }
    ids = {kind: made[0] for kind, made in submitted.items()}
    worker = farm.worker("w1", slots=1)
    farm.until(lambda: len(farm.json("approve")) == len(ids))
    asked = {one["run_id"]: one for one in farm.json("approve")}
    assert asked.keys() == set(ids.values())
    assert "red: warm" in asked[ids["asks"]]["shown"]
    house = ServerState(Options(workspace=str(farm.workspace), log_level="error"), [str(farm.workspace)])
    try:
        _refused(farm, Server(house), ids, asked)
        _answered(farm, Server(house), ids, asked)
    finally:
        house.store.close()
    farm.ended(*ids.values())
    for kind, id in ids.items():
        row = farm.run(id)
        assert (kind, row.outcome) == (kind, "completed"), row.reason
    assert "blue" in farm.run(ids["asks"]).answer
    logs = {"message": ["one"], "agentfile": [], "task": ["one"]}
    for kind, expected in logs.items():
        place = farm.fetched(ids[kind])
        log = place / "workspace" / "log"
        assert (kind, log.read_text().split() if log.exists() else []) == (kind, expected)
        words = ("replay", ids[kind], "--verify")
        done = farm.cli(*words, env={"ADDERCLAW_HOME": str(place / "home")}, cwd=place / "workspace")
        assert done.code == 0, (kind, done.out)
    assert worker.process.poll() is None


def test_a_row_that_shows_another_call_gets_no_yes(farm: Farm) -> None:
    """Who can write rows lets an operator see what is harmless: what the process asked is compared with that."""
    config = farm.cli.data / "config.toml"
    config.write_text(config.read_text() + '[permissions]\nask = ["Bash"]\n')
    add_skill(farm.workspace / "skills")
    steps = decided(command("echo one >> log")), decided(FINISH)
    here = ("--workspace", str(farm.workspace))
    [id] = farm.submit("--task", "do it", *here, *scripted(farm, "t", *steps))
    farm.worker("w1", slots=1)
    farm.until(lambda: farm.json("approve"))
    harmless = """UPDATE fleet.questions SET question = question || '{"shown": "echo hello"}' RETURNING 1"""
    (row,) = farm.rows("SELECT id, question FROM fleet.questions")
    assert farm.rows(harmless)
    assert farm.rows("UPDATE fleet.questions SET seal = 'é' RETURNING 1")
    (shown,) = farm.json("approve")
    assert ("does not match its worker's seal" in shown["reason"], shown["shown"]) == (True, "")
    done = farm.fleet("approve", id)
    assert (done.code, "does not match its worker's seal" in done.err) == (1, True), done.err
    said = {"approved": True, "comment": ""}  # and by somebody with the key, who saw something else
    sealed = Key(bytes.fromhex("ab" * 32)).mac("answers", canonical([id, {**row.question, "shown": "x"}, said, "me"]))
    sql = "UPDATE fleet.questions SET question = %s, answer = %s, by = 'me', mac = %s RETURNING 1"
    farm.rows(sql, Jsonb({**row.question, "shown": "x"}), Jsonb(said), sealed)
    farm.ended(id)
    assert not (farm.fetched(id) / "workspace" / "log").exists()


def test_a_row_names_nothing_of_the_worker_and_nothing_of_others(farm: Farm) -> None:
    """Ids that are paths, repositories that are, files of somebody else, and what is no place at all."""
    victim = farm.root / "victim"
    (victim / "1").mkdir(parents=True)
    key = farm.cli.data / "fleet.key"
    secret = key.read_text()
    public = Key(bytes.fromhex(secret)).boxes.public.hex()
    key.unlink()
    with (farm.cli.data / "fleet.toml").open("a") as file:
        file.write(f'public = "{public}"\n')
    [fine] = farm.submit("-m", "do it", "--workspace", str(farm.workspace))  # who submits needs no key
    assert "fleet's key is not in" in farm.fleet("verify").err
    key.write_text(secret)
    places = {str(victim): None, "stolen": None, "local": {"repo": str(victim), "commit": "0" * 40}, "odd": {"repo": 5}}
    sql = "INSERT INTO fleet.runs (id, submitter, wanted, place, state) SELECT %s, 'eve', wanted,"
    for id, place in places.items():
        other = None if place is None else json.dumps(place)
        farm.rows(
            f"{sql} coalesce(%s::jsonb, place), 'queued' FROM fleet.runs WHERE id = %s RETURNING id", id, other, fine
        )
        farm.sign(id)
        farm.rows("SELECT fleet.enqueue(%s, 200)", id)
    worker = farm.worker("w1", slots=1)
    ended = {row.id: row for row in farm.ended(fine, *places)}
    assert ended.pop(fine).outcome == "completed"
    assert {row.outcome for row in ended.values()} == {"error"}
    reasons = "its id is not valid", "was not submitted by eve", "cannot be cloned by a worker", "repo"
    assert [why in ended[id].reason for id, why in zip(places, reasons, strict=True)] == [True] * 4, ended
    assert (victim / "1").is_dir()
    assert "Traceback" not in worker.said


def test_a_run_opens_nothing_of_the_worker_for_who_submits(farm: Farm) -> None:
    """By no profile, by no configuration that it brings, and by no link of its own."""
    worker = farm.worker("w1", slots=1)
    key = worker.home / ".adderclaw" / "fleet.key"
    secret = key.read_text().strip()
    farm.script(call("Read", file_path=str(key)), text("{{last_result}}"))
    (farm.workspace / "evil.toml").write_text((farm.cli.data / "config.toml").read_text())
    (farm.workspace / "link").symlink_to(key)
    here = ("--workspace", str(farm.workspace))
    [bare], [fine] = farm.submit("-m", "x", *here, "--profile", "permissive"), farm.submit("-m", "x", *here)
    rows: dict[str, dict[str, Any]] = {
        "config": {"message": "x", "config": "evil.toml"},
        "outside": {"agentfile": str(key)},
        "above": {"agentfile": "../../../../fleet.key"},
        "link": {"agentfile": "link"},
        "sop": {"sop": "link"},
    }
    sql = "INSERT INTO fleet.runs (id, submitter, wanted, place, state) SELECT %s, submitter, %s, place, 'queued'"
    for id, wanted in rows.items():
        farm.rows(f"{sql} FROM fleet.runs WHERE id = %s RETURNING id", id, Jsonb(wanted), fine)
        farm.sign(id)
        farm.rows("SELECT fleet.enqueue(%s, 200)", id)
    ended = {row.id: row for row in farm.ended(bare, *rows)}
    reasons = [
        "runs nothing without its sandbox",
        "cannot be used for a run",
        *["give a path relative to the workspace"] * 2,
        *["leads out of"] * 2,
    ]
    for row, why in zip((ended[bare], *(ended[id] for id in rows)), reasons, strict=True):
        assert (row.outcome, why in row.reason, secret in row.reason + row.answer) == ("error", True, False), row
    for words in (("--agentfile", "../x"), ("--sop", "/x")):
        assert "give a path relative to the workspace" in farm.fleet("submit", *words, *here).err


def test_a_question_that_no_worker_sealed_is_not_shown(farm: Farm) -> None:
    with psycopg.connect(farm.url) as connection:
        connection.execute(
            "INSERT INTO fleet.runs (id, submitter, wanted, place, state) VALUES ('one', 'me', '{}', '{}', 'waiting')"
        )
        connection.execute("INSERT INTO fleet.questions (run, id, question) VALUES ('one', 'q', '{}')")
    done = farm.fleet("approve", "one")
    assert (done.code, "cancel the run and submit it again" in done.err) == (1, True), done.err


def _refused(farm: Farm, server: Server, ids: dict[str, str], asked: dict[str, Any]) -> None:
    """What is no answer changes nothing."""
    assert farm.fleet("approve", ids["asks"]).code == 2  # a yes is no colour
    assert farm.fleet("approve", ids["task"], "--reply", "x").code == 2
    body = {"run_id": ids["task"], "approved": True}
    assert signed_answer(server, "whsec_" + "A" * 44, body, "no-such-door") == 401
    secret = farm.json("webhook")["secret"]
    assert signed_answer(server, secret, body, "to-which") == 400  # a yes to whatever it asks by then
    place = f"/fleet/questions/{ids['agentfile']}/{asked[ids['agentfile']]['id']}/answer"
    assert server.ask("POST", place, server.token("read", "operate"), json={"approved": True}).status_code == 403
    bound = server.token("approve", name="bound", folders=[str(farm.root)])
    assert server.ask("POST", place, bound, json={"approved": True}).status_code == 403
    other = {"approved": True, "plan": "of another call"}
    assert server.ask("POST", place, server.token("approve", name="b"), json=other).status_code == 409
    assert len(farm.json("approve")) == len(ids)


def _answered(farm: Farm, server: Server, ids: dict[str, str], asked: dict[str, Any]) -> None:
    """Each in another way."""
    secret = farm.json("webhook")["secret"]
    body = {"run_id": ids["task"], "question_id": asked[ids["task"]]["id"], "approved": True}
    assert signed_answer(server, secret, body, "one") == 200
    assert signed_answer(server, secret, body, "one") == 409  # it counts once
    page = server.ask("GET", "/ui/fleet", server.token("read", "approve", name="c")).text
    place = f"/fleet/questions/{ids['agentfile']}/{asked[ids['agentfile']]['id']}/answer"
    assert place in page
    assert "Which colour?" in page
    no = {"approved": False, "comment": "not now"}
    assert server.ask("POST", place, server.token("approve", name="d"), json=no).status_code == 200
    assert farm.fleet("approve", ids["message"]).code == 0
    assert farm.fleet("approve", ids["asks"], "--reply", "2").code == 0
    assert farm.fleet("approve", ids["asks"], "--reply", "1").code == 1  # the first answer counts
