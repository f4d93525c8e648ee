"""Options of the fleet on real workers: bounds on models, stops of labels and runs, cancel, drain, versions, specs."""

import json
from pathlib import Path

import psycopg
import yaml

from tests.fleet.farm import Farm, call, reached, text
from tests.fleet.scripts import scripted
from tests.program import Cli
from tests.scripted import Fault, ScriptedModel

ROOT = Path(__file__).parents[2]


def entry(farm: Farm, server: ScriptedModel, name: str, called: str = "") -> tuple[str, str]:
    """A provider entry for that server. Entries with the same model share its bounds."""
    config = farm.cli.data / "config.toml"
    model = called or name
    price = "" if called else f"[models.{name}]\ninput_per_mtok = 1.0\noutput_per_mtok = 1.0\n"
    config.write_text(
        f'{config.read_text()}[providers.models.{name}]\nkind = "openai-compatible"\nmodel = "{model}"\n'
        f'base_url = "{server.base_url}"\n{price}'
    )
    return "--provider", name


def test_bounds_on_a_model_hold_for_all_workers_together(farm: Farm) -> None:
    """All times are those of one process, the model server: two clocks cannot be compared."""
    here = ("--workspace", str(farm.workspace))
    slow_down: Fault = {"status": 429, "retry_after": 2}
    with (
        ScriptedModel([{"text": "ok", "slow_ms": 20, "piece": 20}] * 2) as once,
        ScriptedModel([{"text": "ok"}] * 3) as minute,
        ScriptedModel([{"error": slow_down}, {"text": "ok"}, {"text": "ok"}]) as busy,
    ):
        one_at_a_time, rationed = entry(farm, once, "once"), entry(farm, minute, "minute")
        refused, same_model = entry(farm, busy, "busy"), entry(farm, busy, "calm", called="busy")
        assert farm.fleet("pace", "once", "--at-once", "1").code == 0
        assert farm.fleet("pace", "minute", "--per-minute", "2").code == 0
        together = [farm.submit("-m", "x", *here, *one_at_a_time)[0] for _ in range(2)]
        limited = [farm.submit("-m", "x", *here, *rationed)[0] for _ in range(3)]
        (first,) = farm.submit("-m", "x", *here, *refused, "--priority", "0")
        for name in ("w1", "w2"):
            farm.worker(name, slots=4)
        farm.until(lambda: farm.rows("SELECT 1 FROM fleet.pace WHERE model = 'busy' AND not_before > now()"))
        (second,) = farm.submit("-m", "x", *here, *same_model, "--priority", "0")
        farm.until(lambda: len(minute.requests) == 2)
        rows = farm.ended(*together, first, second)
        assert {row.outcome for row in rows} == {"completed"}, [row.reason for row in rows]
        assert once.most_at_once == 1
        assert all(later.at - busy.requests[0].at > 1.5 for later in busy.requests[1:])
        assert len(minute.requests) == 2, "the third call waits for the next minute"
        assert farm.fleet("pace", "minute").code == 0  # without the bound, it need not wait
        assert {row.outcome for row in farm.ended(*limited)} == {"completed"}


def test_stops_of_a_label_and_of_a_run_cancel_and_drain(farm: Farm) -> None:
    here = ("--workspace", str(farm.workspace))
    slow = scripted(farm, "slow", call("Bash", command="echo one >> log; sleep 60"), text("ok"))
    quick = scripted(farm, "quick", text("ok"))
    (labelled,) = farm.submit("-m", "gpu", *here, *slow, "--label", "gpu")
    (cancelled,) = farm.submit("-m", "cancel me", *here, *slow)
    (drained,) = farm.submit("-m", "drain", *here, *scripted(farm, "d", {**text("ok"), "delay_ms": 2500}))
    worker = farm.worker("w1", "--labels", "gpu", slots=4)
    farm.until(lambda: len(farm.rows("SELECT 1 FROM fleet.calls")) == 2)
    assert farm.fleet("stop", "--label", "gpu", "--run", labelled).code == 2
    assert farm.fleet("stop", "--label", "gpu", "--reason", "too hot").code == 0
    (row,) = farm.ended(labelled)
    assert (row.outcome, row.reason) == ("stopped", "the fleet was stopped for the label gpu: too hot")
    assert farm.run(cancelled).state == "running"
    (held,) = farm.submit("-m", "gpu", *here, *quick, "--label", "gpu")
    farm.until(lambda: farm.run(held).state == "held")
    assert farm.fleet("cancel", cancelled[:20]).code == 0
    row = farm.run(cancelled)
    assert (row.outcome, row.reason.startswith("cancelled by ")) == ("stopped", True)
    assert "had ended" in farm.fleet("cancel", cancelled).out
    quickly = [call("Bash", command="echo one >> log"), text("ok")]
    farm.fixture.with_name("slow.json").write_text(json.dumps({"steps": quickly, "partial": True}))
    assert farm.json("resume", "--label", "gpu")["runs"] == 2
    assert {one.outcome for one in farm.ended(labelled, held)} == {"completed"}
    assert farm.ended(drained)[0].outcome == "completed"
    assert farm.json("drain", "w1")["workers"]
    assert worker.process.wait(timeout=30) == 0
    assert farm.fleet("drain", "w1").code == 2  # it is no longer there
    (alone,) = farm.submit("-m", "x", *here, *quick)
    assert farm.fleet("stop", "--run", alone).code == 0
    (never,) = farm.submit("-m", "x", *here, *quick)
    farm.worker("w2")
    assert farm.ended(never)[0].outcome == "completed"
    farm.until(lambda: farm.run(alone).state == "held")
    assert farm.fleet("resume", "--run", alone).code == 0
    assert farm.ended(alone)[0].outcome == "completed"
    assert farm.fleet("submit", "-m", "x", *here, "--after", cancelled).code == 2  # it will never be completed
    farm.until(lambda: not worker.children(), 10)


def test_a_specification_and_a_run_of_a_newer_version(farm: Farm) -> None:
    here = ("--workspace", str(farm.workspace))
    farm.agentfile(2)
    config = farm.cli.data / "config.toml"
    config.write_text(config.read_text() + '[spec]\nverify = "off"\n')
    (farm.workspace / "SPEC.md").write_text("# A program that greets\n")
    status = farm.workspace / ".adderclaw" / "status.json"
    status.parent.mkdir()
    names = [{"id": f"S{number}", "feature": "f", "name": f"n{number}", "passed": False} for number in (1, 2)]
    status.write_text(json.dumps({"scenarios": names}))
    passes = [call("UpdateStatus", scenario_id=f"S{number}", passed=True) for number in (1, 2)]
    spec = farm.submit("--spec", "SPEC.md", *here, *scripted(farm, "s", *passes, text("done")))[0]
    slow = scripted(farm, "a", {"delay_ms": 600}, call("Bash", command="echo one >> log"), {"delay_ms": 600}, reached())
    (run_id,) = farm.submit("--agentfile", "Agentfile", *here, *slow)
    first = farm.worker("w1", slots=1)
    (row,) = farm.ended(spec)
    assert row.outcome == "completed", row.reason
    done = json.loads((farm.fetched(spec) / "workspace" / ".adderclaw" / "status.json").read_text())
    assert [one["passed"] for one in done["scenarios"]] == [True, True]
    farm.until(lambda: farm.run(run_id).units == 1)
    first.kill()
    farm.expire(first)
    known = farm.run(run_id).schema
    with psycopg.connect(farm.url) as connection:  # as a worker of a later version would have written it
        connection.execute("UPDATE fleet.runs SET schema = 999, version = '9.1.0' WHERE id = %s", (run_id,))
    farm.worker("w2", slots=1)
    farm.until(lambda: farm.run(run_id).state == "held")
    assert "waits for a worker of AdderClaw 9.1.0 (store 999) or newer" in farm.fleet("list").out
    assert farm.json("show", run_id)["reason"].startswith("it waits for a worker")
    (other,) = farm.submit("-m", "x", *here)  # which goes on beside it
    assert farm.ended(other)[0].outcome == "completed"
    with psycopg.connect(farm.url) as connection:
        connection.execute("UPDATE fleet.runs SET schema = %s WHERE id = %s", (known, run_id))
    (row,) = farm.ended(run_id)
    assert (row.outcome, row.units, row.reason) == ("completed", 2, "")


def test_the_compose_file_asks_for_what_there_is(cli: Cli) -> None:
    made = yaml.safe_load((ROOT / "compose.fleet.yaml").read_text())
    services = {name: one for name, one in made["services"].items() if name != "database"}
    assert len([one for one in services.values() if one["command"][1] == "worker"]) == 2
    for name, one in services.items():
        program, command, *words = one["command"]
        help = cli(program, command, "--help").out
        options = [word for word in words if word.startswith("--")]
        assert options, name
        assert [word for word in options if word not in help] == [], (name, help)
        assert set(one["secrets"]) <= made["secrets"].keys()
        assert one["read_only"]
        assert one["networks"] == ["inside"]
    assert made["networks"]["inside"]["internal"]
