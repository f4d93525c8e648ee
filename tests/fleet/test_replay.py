"""A run that was taken over from a dead worker is proved like any other: what the model was told of lost calls, too."""

import json
import sqlite3
from pathlib import Path
from typing import Any

from tests.acceptance.world import add_skill
from tests.fleet.farm import Farm, call, reached, text
from tests.fleet.scripts import FINISH, command, decided, scripted

SOP = """
name = "deploy"
[[steps]]
id = "look"
kind = "tool"
tool = "Bash"
args = { command = "echo one >> log; sleep 4" }
[[steps]]
id = "do"
kind = "tool"
tool = "Bash"
args = { command = "echo two >> log" }
"""


def proof(farm: Farm, run_id: str, place: Path) -> tuple[int, Any]:
    words = ("replay", run_id, "--verify", "--output-format", "json")
    done = farm.cli(*words, env={"ADDERCLAW_HOME": str(place / "home")}, cwd=place / "workspace")
    return done.code, json.loads(done.out)


def test_runs_that_were_taken_over_are_proved(farm: Farm) -> None:
    """A worker with four runs is killed in the middle of a call of each; the other finishes them."""
    here = ("--workspace", str(farm.workspace))
    farm.agentfile(2)
    folder = farm.workspace / "sops" / "deploy"
    folder.mkdir(parents=True)
    (folder / "SOP.toml").write_text(SOP)
    add_skill(farm.workspace / "skills")
    slow = call("Bash", command="echo two >> log; sleep 60")
    one = call("Bash", command="echo one >> log")
    task = decided(command("echo one >> log"), command("echo two >> log; sleep 4")), decided(FINISH)
    submitted = {
        "message": farm.submit("-m", "do it", *here, *scripted(farm, "m", one, slow, text("ok"))),
        "agentfile": farm.submit("--agentfile", "Agentfile", *here, *scripted(farm, "a", slow, reached())),
        "sop": farm.submit("--sop", "deploy", *here),
        "task": farm.submit("--task", "do it", *here, *scripted(farm, "t", *task)),
    }
    ids = {kind: made[0] for kind, made in submitted.items()}
    first = farm.worker("w1", "--save-every", "1", slots=4)
    started = "SELECT 1 FROM fleet.calls WHERE ended IS NULL AND shown LIKE '%%sleep%%'"
    farm.until(lambda: len(farm.rows(started)) == len(ids))
    first.kill()
    farm.expire(first)
    for name in ("m", "a"):  # the next worker need not wait
        fixture = farm.root / f"{name}.json"
        fixture.write_text(fixture.read_text().replace("; sleep 60", ""))
    farm.worker("w2", "--save-every", "1", slots=4)
    farm.ended(*ids.values())
    place = Path()
    for kind, id in ids.items():
        row = farm.run(id)
        assert (kind, row.outcome, row.reason) == (kind, "completed", "")
        place = farm.fetched(id)
        code, made = proof(farm, id, place)
        assert (kind, code, made["differences"]) == (kind, 0, [])
    with sqlite3.connect(place / "home" / "memory.sqlite") as store:
        store.execute("UPDATE tape SET items_json = replace(items_json, 'outcome is unknown', 'outcome is certain')")
    code, made = proof(farm, ids["task"], place)
    assert code == 1, made
