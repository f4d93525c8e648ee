"""Workflows run by the installed program on a scripted model: outcomes, sessions, resumption, limits."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.acceptance.test_stop_and_limits import running
from tests.acceptance.world import World, call, text
from tests.program import Done, Soak
from tests.scripted import ScriptedModel, Step
from tests.trial import accepting

SERVER = Path(__file__).parents[1] / "tools" / "mcp" / "a_server.py"


class Flow:
    """A workflow's folder, and the model that it runs on."""

    def __init__(self, world: World, model: ScriptedModel) -> None:
        self.world, self.model = world, model
        self.folder = world.workspace
        self.configure()

    def configure(self, more: str = "", security: str = "", autonomy: str = "full") -> None:
        entry = f'kind = "openai-compatible"\nbase_url = "{self.model.base_url}"\nmodel = "m"\n'
        own = "[runtime]\nretry_base_delay_seconds = 0.01\n[providers.models.scripted]\n" + entry
        head = f'workspace_dir = "{self.folder}"\ndefault_provider = "scripted"\n'
        self.world.cli.configure(f'{head}[security]\nautonomy = "{autonomy}"\n{security}\n{own}\n{more}')

    def write(self, body: str, **files: str) -> None:
        (self.folder / "Agentfile").write_text(f"NAME flow\n{body}")
        for name, content in files.items():
            (self.folder / name.replace("__", ".")).write_text(content)

    def add(self, *steps: dict[str, Any]) -> None:
        self.model.add(*(cast(Step, step) for step in steps))

    def run(self, *more: str) -> Done:
        return self.world.cli("run", str(self.folder / "Agentfile"), *more)

    def events(self, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for file in sorted(self.folder.glob("runs/*/events.jsonl")):
            found += [json.loads(line) for line in file.read_text().splitlines()]
        return [one["payload"] for one in found if one["event_type"] == kind]

    def events_of(self, run_id: str) -> list[dict[str, Any]]:
        lines = (self.folder / "runs" / run_id / "events.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def killed_when(self, requests: int, kept: int) -> "subprocess.Popen[bytes]":
        """Start the run and kill it once the model was asked so often, and so many results are kept."""
        process = self.world.cli.start("run", str(self.folder / "Agentfile"))
        self.wait_for(requests, kept, process)
        process.kill()
        process.communicate()
        return process

    def wait_for(self, requests: int, kept: int, process: "subprocess.Popen[bytes]") -> None:
        limit = time.monotonic() + 90
        while process.poll() is None and time.monotonic() < limit:
            if len(self.model.requests) >= requests and self.kept() >= kept:
                return
            time.sleep(0.01)

    def kept(self) -> int:
        return int(self.world.rows("SELECT count(*) FROM workflow_results")[0][0])

    @property
    def run_id(self) -> str:
        return str(self.world.rows("SELECT run_id FROM runs ORDER BY rowid DESC LIMIT 1")[0][0])


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as made:
        yield made


@pytest.fixture
def flow(world: World, model: ScriptedModel) -> Flow:
    return Flow(world, model)


def result(summary: str, achieved: bool = True, **more: Any) -> dict[str, Any]:
    return call("GoalResult", achieved=achieved, summary=summary, **more)


def of_several(summary: str, outcome: str = "reached", **more: Any) -> dict[str, Any]:
    """The result of one goal among others of a loop."""
    return call("GoalResult", outcome=outcome, summary=summary, **more)


def asked(model: ScriptedModel, number: int) -> str:
    return str(model.requests[number].messages[-1]["content"])


# ------------------------------------------------------------------ refusals

REFUSED = [
    ('GOAL g "x $who"\nRUN r USING g\nINPUT who\n', (), "the input 'who' is missing: give it with --input who=VALUE"),
    ('GOAL g "x"\nRUN r USING g\n', ("--input", "a=b"), "there is no input 'a' (inputs: none)"),
    ('GOAL g "x"\nRUN r USING g\n', ("--input", "a"), "--input 'a': expected NAME=VALUE"),
    ('INPUT a\nGOAL g "x"\nRUN r USING g\n', ("-i", "a=1", "-i", "a=2"), "--input a: given twice"),
    ('INPUT a\nGOAL g "x"\nRUN r USING g\n', ("--input-file", "a=none"), "--input-file a: none: No such file"),
    ('INPUT a\nGOAL g "x"\nRUN r USING g\n', ("--input-file", "a=/dev/zero"), "is not an ordinary file"),
    ('INPUT a\nGOAL g "x"\nRUN r USING g\n', ("-i", "a=1", "--input-file", "a=x"), "--input-file a: given twice"),
    ('GOAL g "x $nothing"\nRUN r USING g\n', (), "goal g uses $nothing, which is not defined"),
    (
        'AGENT a "x" REQUIRES wings\nGOAL g "x" USING a\nRUN r USING g\n',
        (),
        "REQUIRES wings, but no provider is configured",
    ),
]


@pytest.mark.parametrize(("body", "more", "message"), REFUSED, ids=[message[:30] for _, _, message in REFUSED])
def test_what_cannot_run_is_refused_before_a_model_is_asked(
    flow: Flow, body: str, more: tuple[str, ...], message: str
) -> None:
    flow.write(body)
    done = flow.run(*more)
    assert done.code == 2
    assert message in done.err
    assert not flow.model.requests


@pytest.mark.parametrize("target", [[], ["none"], ["--resume", "none"], ["--resume", "none", "-i", "a=b"]])
def test_a_target_that_is_not_there_is_a_usage_error(flow: Flow, target: list[str]) -> None:
    done = flow.world.cli("run", *target, cwd=flow.folder.parent)
    assert done.code == 2, done.err
    assert done.out == ""


# ------------------------------------------------------------------ goals


def test_goals_run_in_order_and_hand_on_their_outputs(flow: Flow) -> None:
    flow.write(
        'INPUT who DEFAULT "you"\nGOAL plan "Plan for $who" -> steps\n'
        'GOAL do "Do $steps after $plan"\nRUN r USING plan, do\n'
    )
    nasty = 'she said "$steps"\nand left'
    flow.add(result("planned", outputs={"steps": "one, two"}), result("did it"))
    done = flow.run("--input", f"who={nasty}")
    assert (done.code, done.out) == (0, "did it\n")
    assert f"Plan for {nasty}" in asked(flow.model, 0)
    assert "Do one, two after planned" in asked(flow.model, 1)
    assert "- plan:\nplanned" in asked(flow.model, 1)
    assert [one["goal"] for one in flow.events("goal_complete")] == ["plan", "do"]
    assert flow.world.rows("SELECT outcome, exit_code FROM runs") == [("completed", 0)]
    children = flow.world.rows("SELECT DISTINCT session_id FROM model_calls")
    assert len(children) == 2
    assert flow.world.cli("receipt", "verify").code == 0


def test_an_input_from_a_file_and_a_value_that_looks_like_one(flow: Flow) -> None:
    flow.write('INPUT a\nINPUT b\nGOAL g "[$a] [$b]"\nRUN r USING g\n')
    (flow.folder / "long.txt").write_text("one\n'two'\n" * 1_000)
    flow.add(result("done"))
    assert flow.run("--input-file", f"a={flow.folder}/long.txt", "--input", "b=@/etc/hostname").code == 0
    assert "[" + "one\n'two'\n" * 1_000 + "] [@/etc/hostname]" in asked(flow.model, 0)


def test_a_workflow_runs_with_a_configuration_of_its_own_in_json(flow: Flow, tmp_path: Path) -> None:
    flow.write('GOAL g "x"\nRUN r USING g\n')
    flow.world.cli.configure("")
    entry = {"kind": "openai-compatible", "base_url": flow.model.base_url, "model": "m"}
    own = {
        **tomllib.loads(accepting("")),
        "agent": {"id": "a7", "workspace": str(flow.folder)},
        "default_provider": "scripted",
        "providers": {"models": {"scripted": entry}},
    }
    (tmp_path / "agent.json").write_text(json.dumps(own))
    flow.add(result("done"))
    done = flow.run("--config", str(tmp_path / "agent.json"))
    assert (done.code, done.out) == (0, "done\n"), done.err


def test_a_goal_that_cannot_be_reached_ends_the_run(flow: Flow) -> None:
    flow.write('GOAL a "x"\nGOAL b "y"\nRUN r USING a, b\n')
    flow.add(result("there is no compiler", achieved=False))
    done = flow.run("--output-format", "json")
    assert done.code == 1
    said = json.loads(done.out)
    assert said["outcome"] == "error"
    assert said["reason"] == "goal a was not reached: there is no compiler"


def test_values_that_are_owed_are_asked_for_once(flow: Flow) -> None:
    flow.write('GOAL a "x" -> v\nRUN r USING a\n')
    flow.add(text("done"), text("really"))
    done = flow.run()
    assert done.code == 1
    assert "Call GoalResult now" in asked(flow.model, 1)
    assert "no value was reported for v" in done.err


def test_a_result_that_does_not_fit_is_told_to_the_model(flow: Flow) -> None:
    flow.write('GOAL a "x" -> v\nRUN r USING a\n')
    flow.add(
        result("s"), call("GoalResult", achieved="yes", summary=3, other=1, outputs=[]), result("s", outputs={"v": [1]})
    )
    done = flow.run()
    assert (done.code, done.out) == (0, "s\n")
    assert "outputs.v: missing" in asked(flow.model, 1)
    for problem in ("achieved: expected true or false", "summary: expected a text", "other: no such field"):
        assert problem in asked(flow.model, 2)


def test_a_run_whose_folder_cannot_be_made_says_so_once_and_goes_on(flow: Flow) -> None:
    flow.write('GOAL a "x"\nRUN r USING a\n')
    (flow.folder / "runs").write_text("no folder")
    flow.add(result("done"))
    done = flow.run()
    assert (done.code, done.out) == (0, "done\n"), done.err[-2000:]
    assert done.err.count("the jsonl sink failed and was removed") == 1


def test_tools_work_in_a_goal_and_every_call_has_its_receipt(flow: Flow) -> None:
    flow.write('GOAL a "x"\nRUN r USING a\n')
    flow.add(call("Write", file_path="out.txt", content="hi\n"), result("written"))
    assert flow.run().code == 0
    assert (flow.folder / "out.txt").read_text() == "hi\n"
    assert [one["tool"] for one in flow.world.receipts()] == ["Write", "GoalResult"]


@pytest.mark.parametrize("inside", [True, False], ids=["in the project", "in a folder of its own"])
def test_what_a_policy_beside_the_agentfile_allows_counts_once_it_is_trusted(flow: Flow, inside: bool) -> None:
    folder = flow.folder if inside else flow.folder / "flows"
    folder.mkdir(exist_ok=True)
    (folder / "policy.toml").write_text('[write]\nallow = ["$WORKSPACE/**"]\n')
    (folder / "Agentfile").write_text('NAME w\nGOAL a "x"\nRUN r USING a\n')
    flow.configure(autonomy="supervised")
    for trusted in (False, True):
        flow.add(call("Write", file_path="out.txt", content="hi\n"), result("done") if trusted else text("I may not"))
        done = flow.world.cli("run", str(folder), "--profile", "supervised", "--workspace", str(flow.folder))
        assert (done.code, (flow.folder / "out.txt").exists()) == ((0, True) if trusted else (3, False)), done.err
        assert flow.world.cli("trust", str(folder)).code == 0
    (folder / "policy.toml").write_text('[write]\nallow = ["$WORKSPACE/**", "/tmp/**"]\n')
    flow.add(call("Write", file_path="out2.txt", content="hi\n"), text("I may not"))
    done = flow.world.cli("run", str(folder), "--profile", "supervised", "--workspace", str(flow.folder))
    assert done.code == 3, done.err


def test_a_denial_that_ends_a_goal_is_the_runs_outcome(flow: Flow) -> None:
    flow.write('GOAL a "x"\nRUN r USING a\n', policy__toml="[write]\nenabled = false\n")
    flow.add(call("Write", file_path="out.txt", content="hi\n"), text("I may not"))
    done = flow.run()
    assert done.code == 3, done.err
    assert not (flow.folder / "out.txt").exists()


@pytest.mark.parametrize("registry", [True, False])
def test_a_run_reaches_its_package_registries_from_the_sandbox_and_nothing_else(
    flow: Flow, registry: bool, needs: Callable[[str], str]
) -> None:
    needs("bwrap")  # Landlock lets no hosts be chosen
    needs("curl")
    with ScriptedModel() as server:  # anything that answers HTTP
        place = f"127.0.0.1:{server.port}"
        flow.configure(security=f'registries = ["{place if registry else "registry.example"}"]')
        flow.write('GOAL a "x"\nRUN r USING a\n')
        flow.add(call("Bash", command=f"curl -sS -m 5 --noproxy '' http://{place}/v1/models"), result("tried"))
        flow.run()
        assert bool(server.others) is registry


# ------------------------------------------------------------------ personas


def test_personas_work_in_parallel_each_in_its_own_session_then_one_reconciles(world: World, tmp_path: Path) -> None:
    aside = {
        "You are bold.": {"text": "go fast"},
        "You are careful.": {"text": "go slow"},
        "Reconcile this": result("go steadily"),
    }
    with ScriptedModel(aside=aside) as model:
        flow = Flow(world, model)
        flow.write('AGENT a FROM a.md\nAGENT b "You are careful."\nGOAL g "How?" USING a, b\nRUN r USING g\n')
        (flow.folder / "a.md").write_text("You are bold.\n")
        done = flow.run()
    assert (done.code, done.out) == (0, "go steadily\n")
    assert len(model.requests) == 3
    assert "a:\ngo fast\n\nb:\ngo slow\n" in asked(model, 2)
    assert len(world.rows("SELECT DISTINCT session_id FROM model_calls")) == 3


def test_what_a_persona_owes_is_part_of_what_it_found(world: World) -> None:
    """Whoever reconciles is told the values of several; of one alone they stand in the goal's result."""
    aside: dict[str, Any] = {
        "persona-a.": result("facts", outputs={"sources": "three"}),
        "persona-b.": result("doubts", outputs={"open": "two"}),
        "Reconcile this": result("both", outputs={"verdict": "fine"}),
        "persona-c.": result("looked", outputs={"level": "low", "found": "none"}),
        "Report": result("done"),
    }
    with ScriptedModel(aside=aside) as model:
        flow = Flow(world, model)
        flow.write(
            'AGENT a "persona-a." -> sources\nAGENT b "persona-b." -> open\nAGENT c "persona-c." -> level\n'
            'GOAL g "x" -> verdict USING a, b\nGOAL h "y" UNSUPERVISED USING c -> found\n'
            'GOAL say "Report $verdict, $found, $h"\nRUN r USING g, h, say\n'
        )
        done = flow.run()
    assert (done.code, done.out) == (0, "done\n"), done.err
    asked = [str(one.messages[-1]["content"]) for one in model.requests]
    reconciled = next(one for one in asked if "Reconcile" in one)
    assert "a:\nfacts\nsources: three\n" in reconciled
    assert "b:\ndoubts\nopen: two\n" in reconciled
    assert "Report fine, none, looked\nlevel: low\n" in asked[-1]


def test_fifty_personas_on_one_goal_lose_no_row(world: World) -> None:
    names = [f"p{number}" for number in range(50)]
    aside: dict[str, Any] = {f"persona-{name}.": {"text": f"view of {name}"} for name in names}
    aside["Reconcile this"] = result("one view")
    with ScriptedModel(aside=aside) as model:
        flow = Flow(world, model)
        agents = "".join(f'AGENT {name} "persona-{name}."\n' for name in names)
        flow.write(f'{agents}GOAL g "Say" USING {", ".join(names)}\nRUN r USING g\n')
        done = flow.run()
    assert (done.code, done.out) == (0, "one view\n"), done.err
    assert len(model.requests) == 51
    last = asked(model, 50)
    assert all(f"view of {name}\n" in last for name in names)
    assert world.rows("SELECT count(*) FROM model_calls WHERE status = 'ok'") == [(51,)]
    assert world.rows("SELECT count(*) FROM workflow_results WHERE agent != ''") == [(50,)]
    assert world.rows("SELECT count(*) FROM subagents WHERE outcome = 'completed'") == [(51,)]


def test_limits_hold_over_parallel_personas(world: World) -> None:
    aside: dict[str, Any] = {f"persona-{n}.": call("Time") for n in range(5)}
    with ScriptedModel(aside=aside) as model:
        flow = Flow(world, model)
        flow.configure(more="[limits]\ntool_calls = 7\n")
        agents = "".join(f'AGENT p{n} "persona-{n}."\n' for n in range(5))
        flow.write(f'{agents}GOAL g "Say" USING p0, p1, p2, p3, p4\nRUN r USING g\n')
        done = flow.run()
    assert done.code == 4, done.err
    begun = [one for one in world.receipts() if one["status"] != "denied"]
    assert 5 <= len(begun) <= 7


def test_a_capability_chooses_the_provider(flow: Flow) -> None:
    with ScriptedModel([result("thought hard")]) as heavy:
        entry = f'kind = "openai-compatible"\nbase_url = "{heavy.base_url}"\nmodel = "big"\n'
        flow.configure(more=f'[providers.models.thinker]\n{entry}[capabilities]\nreasoning-heavy = "thinker"\n')
        flow.write('AGENT a "x" REQUIRES "reasoning-heavy"\nGOAL g "y" USING a\nRUN r USING g\n')
        assert flow.run().out == "thought hard\n"
    assert heavy.requests[0].json["model"] == "big"


# ------------------------------------------------------------------ loops

LOOPS = [
    ([result("r1", achieved=False), result("r2")], "explicit", 2),
    ([text("nothing to do")], "implicit", 1),
    ([call("Time"), text("same"), call("Time"), text("same")], "unchanged", 2),
]


@pytest.mark.parametrize(("steps", "how", "rounds"), LOOPS, ids=[how for _, how, _ in LOOPS])
def test_a_loop_ends_by_each_of_the_three_rules(flow: Flow, steps: list[Any], how: str, rounds: int) -> None:
    if how == "explicit":
        steps = [call("Time"), steps[0], call("Time"), steps[1]]
    flow.write('GOAL g "x"\nLOOP l USING g WITHIN 5\n')
    flow.add(*steps)
    done = flow.run()
    assert done.code == 0, done.err
    told = flow.events("loop_finished")
    assert [(one["rounds"], one["converged"]) for one in told] == [(rounds, how)]


NOT_REACHED = [
    [result("tests cannot run", achieved=False)],
    [call("Time"), result("same", achieved=False), call("Time"), result("same", achieved=False)],
]


@pytest.mark.parametrize("steps", NOT_REACHED, ids=["implicit", "unchanged"])
def test_a_loop_that_ends_with_a_goal_not_reached_is_an_error_however_it_ended(flow: Flow, steps: list[Any]) -> None:
    flow.write('GOAL g "x"\nGOAL h "y"\nLOOP l USING g WITHIN 5\nRUN r USING h\n')
    flow.add(*steps)
    done = flow.run()
    assert done.code == 1
    assert "goal g was not reached" in done.err


def test_a_loop_that_does_not_converge_is_a_limit_and_the_rest_still_runs(flow: Flow) -> None:
    flow.write('INPUT n DEFAULT 2\nGOAL g "x"\nGOAL h "y"\nLOOP l USING g WITHIN $n\nRUN r USING h\n')
    for number in range(2):
        flow.add(call("Time"), result(f"round {number}", achieved=False))
    flow.add(result("reported"))
    done = flow.run()
    assert (done.code, done.out) == (4, "reported\n")
    assert "LOOP l did not converge within 2 rounds" in done.err


def test_a_converge_ends_when_its_goal_is_achieved_by_the_one_field_that_asks_for_it(flow: Flow) -> None:
    flow.write('CONVERGE c "count to $n" WITHIN 4\nINPUT n DEFAULT 3\n')
    flow.add(call("Time"), result("at 2", achieved=False), call("Time"), result("at 3"))
    done = flow.run()
    assert (done.code, done.out) == (0, "at 3\n"), done.err
    assert [(one["rounds"], one["converged"]) for one in flow.events("loop_finished")] == [(2, "explicit")]
    offered = next(one for one in flow.model.requests[0].json["tools"] if one["function"]["name"] == "GoalResult")
    fields = offered["function"]["parameters"]["properties"]
    assert fields.keys() == {"achieved", "summary"}
    assert fields["achieved"]["description"].startswith("True when the goal is reached: that ends the loop.")
    assert "This is round 2 of at most 4 of the loop `c`." in asked(flow.model, 2)


def test_convergence_in_the_middle_of_a_round_leaves_the_rest_of_it_out(flow: Flow) -> None:
    flow.write('GOAL test "run tests"\nGOAL fix "fix $test"\nCONVERGE c "all tests pass" USING test, fix WITHIN 4\n')
    flow.add(call("Time"), of_several("1 fails"), of_several("fixed"), of_several("0 fail", "converged"))
    done = flow.run()
    assert (done.code, done.out) == (0, "0 fail\n")
    offered = flow.model.requests[0].json["tools"]
    schema = next(one["function"] for one in offered if one["function"]["name"] == "GoalResult")
    assert schema["parameters"]["properties"].keys() == {"outcome", "summary"}
    assert "all tests pass" in schema["parameters"]["properties"]["outcome"]["description"]


def test_one_goal_of_a_loop_that_cannot_be_reached_is_an_error(flow: Flow) -> None:
    flow.write('GOAL test "run tests"\nGOAL fix "fix $test"\nLOOP c USING test, fix WITHIN 4\n')
    flow.add(of_several("no test runs", "not_reached"), of_several("nothing to fix"))
    done = flow.run()
    assert (done.code, "goal test was not reached: no test runs" in done.err) == (1, True)


# ------------------------------------------------------------------ the record of the run


@pytest.mark.parametrize("own", [False, True], ids=["no folder of that name", "a folder of the user"])
def test_searches_leave_out_the_record_of_the_run_and_nothing_of_the_users(
    flow: Flow, own: bool, needs: Callable[[str], str]
) -> None:
    needs("rg")
    mine = {"runs/mine/notes.txt": "needle\n", "runs/2024/events.jsonl": '{"run_id":"2023","text":"needle"}\n'}
    earlier = "20250101-000000-aaaaaaaa"
    of_earlier = {"events.jsonl": f'{{"run_id":"{earlier}"}}\n', f"evidence/{'a' * 64}.txt": "needle\n"}
    recorded = {f"runs/{earlier}/{name}": content for name, content in of_earlier.items()}
    for name, content in (recorded | (mine if own else {})).items():
        path = flow.world.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    flow.write('GOAL g "look for needle"\nRUN r USING g\n')
    searches = [
        call("Grep", pattern="needle", output_mode="files_with_matches"),
        call("Glob", pattern="**/*"),
        call("LS", path="."),
        call("Grep", pattern="needle", path="runs", output_mode="files_with_matches"),
    ]
    flow.add(*searches, result("looked"))
    assert flow.run().code == 0
    grep, glob, ls, inside = (asked(flow.model, number) for number in range(1, 5))
    record = f"runs/{flow.run_id}/events.jsonl"
    assert (flow.world.workspace / record).is_file()
    for told in (grep, glob, ls):
        assert flow.run_id not in told
        assert earlier not in told, "what a check of a specification keeps is part of the record"
    assert record in inside, "a search of the folder itself finds it"
    assert ("runs/" in ls) == own
    for name in mine:
        assert (name in grep) == (name in glob) == own


# ------------------------------------------------------------------ reviews


def test_a_reviewer_sends_a_goal_back_with_its_reasons(flow: Flow) -> None:
    flow.write('GOAL g "x" SUPERVISED\nRUN r USING g\n')
    flow.add(
        result("first"),
        call("ReviewVerdict", approved=False, comment="no tests"),
        result("second"),
        call("ReviewVerdict", approved=True, comment=""),
    )
    done = flow.run()
    assert (done.code, done.out) == (0, "second\n")
    assert "sent back:\nno tests" in asked(flow.model, 2)
    offered = {one["function"]["name"] for one in flow.model.requests[1].json["tools"]}
    assert "Write" not in offered
    assert "ReviewVerdict" in offered


def test_a_goal_that_is_sent_back_too_often_ends_the_run(flow: Flow) -> None:
    flow.write('SUPERVISED\nGOAL g "x"\nRUN r USING g\n')
    for _ in range(3):
        flow.add(result("again"), call("ReviewVerdict", approved=False, comment="no"))
    done = flow.run()
    assert done.code == 1
    assert "its review sent it back 3 times: no" in done.err


def test_the_operators_word_is_waited_for_by_resuming(flow: Flow) -> None:
    flow.write('GOAL g "x" SUPERVISED HUMAN\nGOAL h "y"\nRUN r USING g, h\n')
    flow.add(result("deployed"), result("after"))
    done = flow.run()
    assert done.code == 5, done.err
    assert f"adderclaw run --resume {flow.run_id}" in done.err
    flow.configure(security="approval_timeout_seconds = 20")
    going = flow.world.cli.start("run", "--resume", flow.run_id)
    limit = time.monotonic() + 90
    waiting: list[Any] = []
    while not waiting and time.monotonic() < limit:
        waiting = json.loads(flow.world.cli("approvals", "list", "--output-format", "json").out)
    answered = flow.world.cli("approvals", "answer", waiting[0]["id"], "yes")
    assert answered.code == 0, answered.err
    out, err = going.communicate(timeout=90)
    assert (going.returncode, out) == (0, b"after\n"), err
    assert len(flow.model.requests) == 2, "the finished goal was not done again"


# ------------------------------------------------------------------ killed and resumed


def test_a_run_goes_on_after_a_kill_without_repeating_a_finished_goal(flow: Flow) -> None:
    flow.write('GOAL a "x" -> v\nGOAL b "of $v"\nRUN r USING a, b\n')
    flow.add(result("A", outputs={"v": "kept"}), {"hang": 30}, result("B"))
    flow.killed_when(2, 1)
    before = flow.run_id
    done = flow.world.cli("run", "--resume", before)
    assert (done.code, done.out) == (0, "B\n"), done.err
    assert flow.run_id == before
    assert "of kept" in asked(flow.model, 2)
    assert flow.world.rows("SELECT outcome FROM runs") == [("completed",)]


def test_a_loop_goes_on_in_the_round_that_was_interrupted(flow: Flow) -> None:
    flow.write('GOAL a "x"\nGOAL b "y"\nLOOP l USING a, b WITHIN 3\n')
    one = [call("Time"), of_several("a1"), of_several("b1")]
    flow.add(*one, call("Time"), of_several("a2"), {"hang": 30}, of_several("b2", "converged"))
    flow.killed_when(6, 3)
    done = flow.world.cli("run", "--resume", flow.run_id)
    assert (done.code, done.out) == (0, "b2\n"), done.err
    assert [one["rounds"] for one in flow.events("loop_finished")] == [2]
    assert not flow.model.left


def test_personas_that_are_finished_do_not_work_again(world: World) -> None:
    aside: dict[str, Any] = {"persona-a.": {"text": "view a"}, "persona-b.": {"hang": 30}}
    with ScriptedModel(aside=aside) as model:
        flow = Flow(world, model)
        flow.write('AGENT a "persona-a."\nAGENT b "persona-b."\nGOAL g "Say" USING a, b\nRUN r USING g\n')
        flow.killed_when(2, 1)
    again: dict[str, Any] = {"Reconcile this": result("both"), "persona-b.": {"text": "view b"}}
    with ScriptedModel(aside=again) as model:
        flow.model = model
        flow.configure()
        done = world.cli("run", "--resume", flow.run_id)
        assert (done.code, done.out) == (0, "both\n"), done.err
    assert len(model.requests) == 2
    assert "view a" in asked(model, 1)


def test_a_run_is_resumed_from_anywhere_in_its_workspace_and_with_its_policy(flow: Flow, tmp_path: Path) -> None:
    flow.write('GOAL a "x"\nGOAL b FROM b.md\nRUN r USING a, b\n', policy__toml="[write]\nenabled = false\n", b__md="y")
    flow.add(result("A"), {"hang": 30}, call("Write", file_path="out.txt", content="hi\n"), text("I may not"))
    process = flow.world.cli.start("run", "Agentfile", cwd=flow.folder)
    flow.wait_for(2, 1, process)
    process.kill()
    process.communicate()
    own, flow.folder = flow.folder, tmp_path / "elsewhere"
    flow.folder.mkdir()
    flow.configure()
    done = flow.world.cli("run", "--resume", flow.run_id, cwd=flow.folder)
    assert done.code == 3, done.err
    assert flow.model.requests[2].messages == flow.model.requests[1].messages, "the goal goes on in its own session"
    assert not [*own.glob("out.txt"), *flow.folder.glob("out.txt")]


def test_a_workflow_goes_on_with_what_it_was_begun_with(flow: Flow) -> None:
    flow.write('GOAL a "x"\nRUN r USING a\n')
    flow.add({"hang": 30}, call("Write", file_path="out.txt", content="hi\n"), text("I may not"), result("done"))
    strict = flow.folder.parent / "strict.toml"
    strict.write_text((flow.world.cli.data / "config.toml").read_text() + '\n[permissions]\ndeny = ["Write"]\n')
    said = ("--profile", "readonly", "--provider", "scripted", "--model", "m2")
    process = flow.world.cli.start("run", str(flow.folder / "Agentfile"), "--config", str(strict), *said)
    flow.wait_for(1, 0, process)
    process.kill()
    process.communicate()
    away = strict.rename(strict.with_suffix(".away"))
    gone = flow.world.cli("run", "--resume", flow.run_id)
    assert (gone.code, f"{strict}, the --config that run" in gone.err) == (2, True), gone.err
    away.rename(strict)
    done = flow.world.cli("run", "--resume", flow.run_id)
    assert done.code == 3, done.err
    assert not (flow.folder / "out.txt").exists()
    other = flow.world.cli("run", "--resume", flow.run_id, "--provider", "scripted", "--profile", "sandboxed")
    assert other.code == 0, other.err
    assert [one.json["model"] for one in flow.model.requests] == ["m2", "m2", "m2", "m"], "a model is its provider's"
    profiles = [one["profile"] for one in flow.events("startup")]
    assert profiles == ["readonly", "readonly", "sandboxed"]


def test_a_process_id_that_is_used_again_does_not_keep_a_run_from_going_on(flow: Flow) -> None:
    flow.write('GOAL a "x"\nGOAL b "y"\nRUN r USING a, b\n')
    flow.add(result("A"), {"hang": 30}, result("B"))
    flow.killed_when(2, 1)
    with sqlite3.connect(flow.world.database) as connection:
        connection.execute("UPDATE runs SET pid = ?", (os.getpid(),))
    done = flow.world.cli("run", "--resume", flow.run_id)
    assert (done.code, done.out) == (0, "B\n"), done.err


def test_only_one_process_goes_on_with_a_run(flow: Flow) -> None:
    flow.write('GOAL a "x"\nGOAL b "y"\nRUN r USING a, b\n')
    flow.add(result("A"), {"hang": 30}, {"hang": 30})
    flow.killed_when(2, 1)
    going = flow.world.cli.start("run", "--resume", flow.run_id)
    flow.wait_for(3, 1, going)
    second = flow.world.cli("run", "--resume", flow.run_id)
    going.kill()
    going.communicate()
    assert second.code == 2
    assert "is still running" in second.err
    assert len(flow.model.requests) == 3


def test_a_goal_that_was_not_reached_is_tried_again_by_resuming(flow: Flow) -> None:
    flow.write('GOAL a "x"\nGOAL b "y"\nRUN r USING a, b\n')
    flow.add(result("A"), result("no disk", achieved=False), result("B"))
    assert flow.run().code == 1
    done = flow.world.cli("run", "--resume", flow.run_id)
    assert (done.code, done.out) == (0, "B\n"), done.err


def test_a_review_that_was_given_before_a_crash_is_not_asked_for_again(flow: Flow) -> None:
    flow.write('GOAL g "x" SUPERVISED\nRUN r USING g\n')
    flow.add(result("first"), call("ReviewVerdict", approved=False, comment="no tests"), {"hang": 30})
    flow.killed_when(3, 2)
    flow.add(result("second"), call("ReviewVerdict", approved=True, comment=""))
    done = flow.world.cli("run", "--resume", flow.run_id)
    assert (done.code, done.out) == (0, "second\n"), done.err
    assert "sent back:\nno tests" in asked(flow.model, 3)


def test_a_changed_workflow_and_a_finished_run_are_not_resumed(flow: Flow) -> None:
    flow.write('GOAL a "x"\nGOAL b "y"\nRUN r USING a, b\n')
    flow.add(result("A"), {"hang": 30}, result("B"))
    flow.killed_when(2, 1)
    flow.write('GOAL a "x"\nGOAL b "z"\nRUN r USING a, b\n')
    changed = flow.world.cli("run", "--resume", flow.run_id)
    assert changed.code == 2
    assert "has changed since run" in changed.err
    flow.write('GOAL a "x"\nGOAL b "y"\nRUN r USING a, b\n')
    assert flow.world.cli("run", "--resume", flow.run_id).code == 0
    over = flow.world.cli("run", "--resume", flow.run_id)
    assert (over.code, over.out) == (0, "B\n"), over.err
    assert "is already completed" in over.err


@pytest.mark.parametrize("supervised", [False, True], ids=["goal", "review"])
def test_a_run_killed_while_a_session_is_asked_again_is_proved(flow: Flow, *, supervised: bool) -> None:
    """The second turn of a session has begun, and its reply has not come."""
    flow.write(f'GOAL g "x" {"SUPERVISED" if supervised else ""}\nRUN r USING g\n')
    flow.add(*([result("done")] if supervised else []), text("I think so"), {"hang": 30})
    flow.killed_when(2 + supervised, int(supervised))
    assert "Call " in asked(flow.model, 1 + supervised), "it was asked again"
    killed = flow.run_id
    proof = flow.world.cli("replay", killed, "--verify", "--output-format", "json")
    assert proof.code == 0, proof.out
    assert "was interrupted" in proof.out
    flow.add(
        *([] if supervised else [result("done")]), *[call("ReviewVerdict", approved=True, comment="")] * supervised
    )
    done = flow.world.cli("run", "--resume", killed)
    assert (done.code, done.out) == (0, "done\n"), done.err
    again = flow.world.cli("replay", killed, "--verify", "--output-format", "json")
    assert again.code == 0, again.out


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_a_run_cleanly(flow: Flow, number: signal.Signals, code: int) -> None:
    flow.write('GOAL a "x"\nRUN r USING a\n')
    flow.add({"hang": 30})
    process = flow.world.cli.start("run", str(flow.folder / "Agentfile"))
    limit = time.monotonic() + 90
    while not flow.model.requests and time.monotonic() < limit:
        time.sleep(0.02)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert flow.world.rows("SELECT outcome FROM runs") == [("stopped",)]


def test_the_emergency_stop_ends_a_run(flow: Flow) -> None:
    flow.write('GOAL a "x"\nRUN r USING a\n')
    flow.add({"hang": 30})
    process = flow.world.cli.start("run", str(flow.folder / "Agentfile"))
    limit = time.monotonic() + 90
    while not flow.model.requests and time.monotonic() < limit:
        time.sleep(0.02)
    flow.world.cli("estop")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 6, err


# ------------------------------------------------------------------ without a model


def test_a_dry_run_shows_the_prompts_and_asks_nobody(flow: Flow) -> None:
    flow.write(
        'INPUT who\nAGENT a "You help $who." -> note\nAGENT b "No."\nGOAL g "Greet $who" USING a\n'
        'GOAL h "Go" -> out USING a, b SUPERVISED\nGOAL i "End" SUPERVISED HUMAN\nRUN r USING g, h, i\n'
    )
    done = flow.run("--input", "who=me", "--dry-run", "--output-format", "json")
    plan = json.loads(done.out)
    assert plan["mode"] == "dry_run"
    one, two, three = plan["steps"][0]["goals"]
    assert "Greet me" in one["prompt"]
    assert one["agents"][0]["persona"] == "You help me."
    assert (one["synthesis"], one["review_prompt"], three["review"]) == (None, None, "operator")
    assert "a value for each of: note." in two["agents"][0]["prompt"], "the goal's own value is owed by who reconciles"
    assert "a value for each of" not in two["agents"][1]["prompt"]
    assert "It needs a value for each of: out." in two["synthesis"]
    assert "Review the result of goal `h`" in two["review_prompt"]
    shown = flow.run("--input", "who=me", "--dry-run").out
    assert re.findall(r"^    (?!\|)(.*)", shown, re.MULTILINE) == [
        *("as a:", "asked:", "as a:", "asked:", "as b:", "asked:"),
        *("then reconciled:", "then reviewed:", "then the operator is asked"),
    ]
    assert not flow.model.requests
    assert not (flow.folder / "runs").exists()


# ------------------------------------------------------------------ odd models, and what fails beside others

ODD = [
    ([{"tool_calls": [*result("one")["tool_calls"], *result("two")["tool_calls"]]}], (0, "one")),
    ([{"tool_calls": [*call("Time")["tool_calls"], *result("with others")["tool_calls"]]}], (0, "with others")),
    ([{"text": "aside", **result("told")}], (0, "told")),
    ([text("only words"), text("more words")], (1, "GoalResult was never called: more words")),
    ([{"text": "", "finish_reason": "content_filter"}], (1, "")),
    ([{"error": {"status": 400, "body": "no"}}], (1, "")),
]


@pytest.mark.parametrize(("steps", "expected"), ODD, ids=["twice", "others", "both", "words", "refusal", "error"])
def test_an_odd_model_has_one_result(flow: Flow, steps: list[Any], expected: tuple[int, str]) -> None:
    flow.write('GOAL g "x"\nRUN r USING g\n')
    flow.add(*steps)
    done = flow.run()
    assert (done.code, done.out.strip()) == expected, done.err
    assert flow.world.rows("SELECT count(*) FROM runs WHERE outcome IS NULL") == [(0,)]
    assert flow.world.cli("receipt", "verify").code == 0


def test_02_a_goal_without_its_signal_is_asked_for_it_once_and_then_fails(flow: Flow) -> None:
    flow.write('GOAL g "x"\nGOAL h "y"\nRUN r USING g, h\n')
    flow.add(text("The goal was not achieved."), text("As I wrote."))
    done = flow.run()
    assert done.code == 1, done.err
    assert "You have not said whether the goal is reached. Call GoalResult now." in asked(flow.model, 1)
    assert len(flow.model.requests) == 2, "the goal after it does not run"
    flow.add(text("Let me think."), result("done"), result("done, too"))
    done = flow.world.cli("run", "--resume", flow.run_id)
    assert (done.code, done.out.strip()) == (0, "done, too"), done.err


def test_a_persona_that_fails_ends_the_others_and_nothing_of_theirs_runs_on(world: World) -> None:
    nap = f"sleep 77.{time.time_ns()}"  # nobody else's on this machine
    aside: dict[str, Any] = {
        "persona-a.": call("Bash", command=nap),
        "persona-b.": {"slow_ms": 300, "piece": 40, "error": {"status": 400, "body": "bad"}},
    }
    with ScriptedModel(aside=aside) as model:
        flow = Flow(world, model)
        flow.write('AGENT a "persona-a."\nAGENT b "persona-b."\nGOAL g "Say" USING a, b\nRUN r USING g\n')
        began = time.monotonic()
        done = flow.run()
    assert done.code == 1, done.err
    assert time.monotonic() - began < 40
    assert world.rows("SELECT count(*) FROM subagents WHERE outcome IS NULL") == [(0,)]
    assert world.rows("SELECT outcome FROM runs") == [("error",)]
    assert not running("\0".join(nap.split()))


@pytest.mark.soak
def test_killed_anywhere_a_run_comes_to_its_end_and_finishes_each_goal_once(world: World, soak: Soak) -> None:
    aside: dict[str, Any] = {
        "persona-a.": {"text": "view a"},
        "persona-b.": {"text": "view b"},
        "Reconcile this": result("reconciled"),
        "Review the result": call("ReviewVerdict", approved=True, comment=""),
        "Goal `look`": result("looked"),
        "Goal `again`": result("again"),
    }
    body = 'AGENT a "persona-a."\nAGENT b "persona-b."\nGOAL views "Say" USING a, b\nGOAL look "Look" SUPERVISED\n'
    body += 'RUN one USING views, look\nGOAL again "Again"\nLOOP two USING again WITHIN 3\n'
    with ScriptedModel(aside=aside) as model:
        flow = Flow(world, model)
        flow.write(body)
        for number in soak.of(12):
            killed_and_resumed(flow, number)
    for (run_id,) in world.rows("SELECT run_id FROM runs WHERE outcome = 'completed'"):
        kept = world.rows("SELECT goal, agent FROM workflow_results WHERE run_id = ? AND place GLOB '*.*.*'", run_id)
        assert {("views", "a"), ("views", "b"), ("look", "(review)"), ("again", "")} <= set(kept)
        told = [one for one in flow.events_of(run_id) if one["event_type"] == "goal_complete"]
        assert len(told) <= 3, "no goal was finished twice"
    assert world.cli("receipt", "verify").code == 0


def unfinished(world: World) -> list[tuple[str]]:
    """The runs that have begun: none, where the kill came before there was a table of them."""
    there = world.database.exists() and world.rows("SELECT 1 FROM sqlite_master WHERE name = 'runs'")
    return world.rows("SELECT run_id FROM runs WHERE outcome IS NULL") if there else []


def killed_and_resumed(flow: Flow, number: int) -> None:
    """Kill a run at moments that the number picks, go on with it each time, and let it end."""
    process = flow.world.cli.start("run", str(flow.folder))
    for kills in range(4):
        try:
            process.wait(0.6 + (number * 7 + kills * 5) % 12 * 0.1)
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        begun = unfinished(flow.world)
        process = flow.world.cli.start("run", *(["--resume", begun[-1][0]] if begun else [str(flow.folder)]))
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0 or b"of a workflow" in err or b"is already completed" in err, err


def test_a_servers_tool_as_a_hook_is_called_for_each_of_two_personas(world: World, needs: Callable[[str], str]) -> None:
    needs("bwrap")
    table = f'[mcp_servers.demo]\ncommand = "{sys.executable}"\nargs = ["{SERVER}"]\n'
    hook = {"type": "mcp_tool", "server": "demo", "tool": "slow", "input": {"seconds": 1}}
    made = {"PreToolUse": [{"matcher": "Time", "hooks": [hook]}]}
    (world.cli.data / "settings.json").write_text(json.dumps({"hooks": made}))
    aside: dict[str, Any] = {"persona-a.": call("Time"), "persona-b.": call("Time"), "Reconcile this": result("both")}
    with ScriptedModel(aside=aside) as model:
        flow = Flow(world, model)
        flow.configure(table + "[limits]\ntool_calls = 12\n")
        flow.write('AGENT a "persona-a."\nAGENT b "persona-b."\nGOAL g "Say" USING a, b\nRUN r USING g\n')
        flow.run()
    ran = "hook_event = 'PreToolUse' AND exit_code = 0 AND stderr_text = ''"
    rows = world.rows(f"SELECT DISTINCT session_id FROM hook_invocations WHERE {ran}")
    assert len(rows) == 2, world.rows("SELECT session_id, exit_code, stderr_text FROM hook_invocations ORDER BY id")


# ------------------------------------------------------------------ files as their authors write them

PACKAGED = """# As packages of workflows have it
SECURITY default
NAME reviewer-of-code
VERSION 1.0.0

INPUT topic
INPUT level DEFAULT "plain"
GOAL topic
  Look into $topic.

  # not a comment: part of the text
  Say it in "$level" words.

GOAL style "Check the style
  of $topic" USING strict
AGENT strict
\tYou are strict.
GOAL merge "Merge"
RUN main USING topic, style THEN merge
"""


def test_26_files_of_the_origin_run(flow: Flow) -> None:
    """VERSION, THEN, a goal called like an input, texts that go on in the next lines with quotes and without."""
    (flow.folder / "Agentfile").write_text(PACKAGED)
    flow.add(result("looked"), result("styled"), result("merged"))
    done = flow.run("--input", "topic=bees")
    assert (done.code, done.out.strip()) == (0, "merged"), done.err
    first, second = asked(flow.model, 0), asked(flow.model, 1)
    assert 'Look into bees.\n\n# not a comment: part of the text\nSay it in "plain" words.' in first
    assert "Check the style\nof bees" in second, "the input, not the result of the goal of its name"
    assert "- topic:\n" in second
    assert "You are strict." in str(flow.model.requests[1].messages[0]["content"])
    shown = json.loads(flow.world.cli("inspect", str(flow.folder), "--output-format", "json").out)
    assert (shown["version"], shown["security"]) == ("1.0.0", "default")
    assert flow.world.cli("validate", str(flow.folder)).code == 0


def test_26_a_step_says_who_looks_at_its_goals(flow: Flow) -> None:
    flow.write(
        'GOAL a "x" UNSUPERVISED\nGOAL b "y"\nGOAL c "z" SUPERVISED\n'
        "RUN one USING a, b\nRUN two USING a, b, c SUPERVISED HUMAN\n"
    )
    plan = json.loads(flow.run("--dry-run", "--output-format", "json").out)
    assert [[goal["review"] for goal in step["goals"]] for step in plan["steps"]] == [
        ["nobody", "nobody"],
        ["operator", "operator", "operator"],
    ]
    flow.add(result("a"), result("b"), result("again"))
    done = flow.run()
    assert done.code == 5, done.err
    assert "goal a waits for the operator" in done.err


@pytest.mark.parametrize(
    ("mode", "ran", "said"),
    [
        ("default", True, ""),
        ("paranoid", False, "SECURITY paranoid: the run asks before anything that could do harm"),
        ('research "the lab is mine"', True, "SECURITY research grants no permissions"),
    ],
)
def test_26_security_makes_a_run_stricter_and_never_freer(flow: Flow, mode: str, ran: bool, said: str) -> None:
    flow.write(f'SECURITY {mode}\nGOAL g "x"\nRUN r USING g\n')
    flow.add(call("Bash", command="touch made"), result("done") if ran else text("it was not allowed"))
    flow.add(*([] if ran else [text("still not")]))
    done = flow.run()
    assert (flow.folder / "made").exists() == ran, done.err
    assert said in done.err
    flow.add(call("Bash", command="touch other"), text("no"))
    done = flow.run("--profile", "readonly")
    assert not (flow.folder / "other").exists(), done.err


SEED = """NAME everything
INPUT feature_request
INPUT rounds DEFAULT 3
INPUT mood DEFAULT calm
AGENT creative FROM agents/creative.md
AGENT devils_advocate FROM agents/devils_advocate.md

GOAL analyze FROM goals/analyze.md USING creative, devils_advocate
GOAL understand "Understand $feature_request" USING creative, devils_advocate
GOAL run_tests "Run all tests and capture failures"
RUN setup USING analyze, understand
# interleaved
GOAL fix FROM goals/fix.md
LOOP impl USING run_tests, fix WITHIN $rounds
LOOP more USING fix WITHIN 2
"""


def test_26_every_form_of_the_language_is_read(flow: Flow) -> None:
    for name in ("agents/creative.md", "agents/devils_advocate.md", "goals/analyze.md", "goals/fix.md"):
        (flow.folder / name).parent.mkdir(exist_ok=True)
        (flow.folder / name).write_text(f"the text of {name}, $feature_request\n")
    (flow.folder / "Agentfile").write_text(SEED)
    for command in ("validate", "inspect"):
        done = flow.world.cli(command, str(flow.folder / "Agentfile"))
        assert done.code == 0, done.err
    shown = flow.run("--input", "feature_request=login", "--dry-run")
    assert shown.code == 0, shown.err
    assert "the text of agents/creative.md, login" in shown.out
