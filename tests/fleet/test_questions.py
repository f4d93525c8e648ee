"""What any run asks is answered from anywhere: by a command, by the dashboard, by a signed request; slots are free."""

import json
import time
from typing import Any

from adderclaw.channels.server.house import House
from adderclaw.net import signing
from adderclaw.runtime import Options
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
    house = House(Options(workspace=str(farm.workspace), log_level="error"), [str(farm.workspace)])
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
    steps = decided(command("echo one >> log")), decided(FINISH)
    here = ("--workspace", str(farm.workspace))
    [id] = farm.submit("--task", "do it", *here, *scripted(farm, "t", *steps))
    farm.worker("w1", slots=1)
    farm.until(lambda: farm.json("approve"))
    harmless = """UPDATE fleet.questions SET question = question || '{"shown": "echo hello"}' RETURNING 1"""
    assert farm.rows(harmless)
    assert farm.fleet("approve", id).code == 0
    farm.ended(id)
    assert not (farm.fetched(id) / "workspace" / "log").exists()


def test_a_run_is_not_called_like_a_place_on_the_worker(farm: Farm) -> None:
    victim = farm.root / "victim"
    (victim / "1").mkdir(parents=True)
    [fine] = farm.submit("-m", "do it", "--workspace", str(farm.workspace))
    sql = "INSERT INTO fleet.runs (id, submitter, wanted, place, state) SELECT %s, 'eve', wanted, place, 'queued'"
    farm.rows(f"{sql} FROM fleet.runs WHERE id = %s RETURNING id", str(victim), fine)
    farm.rows("SELECT fleet.enqueue(%s, 200)", str(victim))
    farm.worker("w1", slots=1)
    refused, done = sorted(farm.ended(fine, str(victim)), key=lambda row: row.outcome, reverse=True)
    assert (refused.id, refused.outcome, done.outcome) == (str(victim), "error", "completed")
    assert "nobody begins it" in refused.reason
    assert (victim / "1").is_dir()


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
