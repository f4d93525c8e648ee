"""Limits that hold however often a run is interrupted: what was used up before counts after."""

import json
import re
import signal
import time
from typing import Any

import pytest

from adderclaw.agent.session.limits import Budget
from adderclaw.config.model_facts.catalogue import Prices
from adderclaw.config.schema import Config, Limits
from adderclaw.core.errors import LimitError
from tests.acceptance.world import World, call
from tests.program import Done
from tests.scripted import ScriptedModel

PRICE = '[models."priced*"]\ninput_per_mtok = 10.0\noutput_per_mtok = 100.0\n'
USAGE = {"prompt_tokens": 10_000, "completion_tokens": 1_000}
"""$0.10 of input and $0.10 of output at these prices."""
USED = {"input_tokens": 20_000, "output_tokens": 2_000, "cache_read_tokens": 0, "cache_write_tokens": 0}


def configure(world: World, model: ScriptedModel, limits: str = "", rounds: int = 40) -> None:
    entry = f'[providers.models.here]\nkind = "openai-compatible"\nbase_url = "{model.base_url}"\nmodel = "priced-1"\n'
    world.configure(autonomy="full", rounds=rounds, more=f"{entry}{PRICE}[limits]\n{limits}\n")


def killed(world: World, model: ScriptedModel, requests: int, *arguments: str) -> None:
    """Start a run, and kill it once the model was asked so often."""
    process = world.cli.start(*arguments, "--provider", "here")
    deadline = time.monotonic() + 30
    while len(model.requests) < requests and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    _out, err = process.communicate()
    assert process.returncode == -signal.SIGKILL, err


def resumed(world: World, *more: str) -> tuple[Done, dict[str, Any]]:
    ((conversation,),) = world.rows("SELECT DISTINCT conversation_id FROM runs")
    done = world.cli("agent", "--resume", conversation, "--provider", "here", "--output-format", "json", *more)
    return done, json.loads(done.out)


def step(name: str = "Time") -> dict[str, Any]:
    return {**call(name), "usage": USAGE}


@pytest.mark.parametrize(
    ("limit", "raised", "says"),
    [
        ("tool_calls = 3", "tool_calls=4", "tool call limit reached: 3"),
        ("cost_usd = 0.65", "cost_usd=2", r"\$0\.7\d+ spent"),  # three answers, and what the one in flight was to take
    ],
)
def test_what_a_killed_turn_used_up_counts(world: World, limit: str, raised: str, says: str) -> None:
    """Two steps, killed in the third; the resumed turn has what is left: one more."""
    with ScriptedModel([step(), step(), {"hang": 30}, step(), step("LS"), {"text": "done", "usage": USAGE}]) as model:
        configure(world, model, limit)
        killed(world, model, 3, "agent", "-m", "go")
        done, said = resumed(world)
        assert (done.code, said["outcome"]) == (4, "limit"), done.err
        assert re.search(says, said["reason"])
        assert f"--limit {raised.split('=')[0]}=MORE`" in said["reason"]
        if not limit.startswith("tool_calls"):
            asked = len(model.requests)
            done, said = resumed(world)
            assert (done.code, len(model.requests)) == (4, asked), "nothing was left, so nothing is asked"
            assert re.search(says, said["reason"])
        done, said = resumed(world, "--limit", raised)
        assert (done.code, said["answer"]) == (0, "done"), done.err
    own = [json.loads(row[0]) for row in world.rows("SELECT usage_json FROM runs WHERE outcome IS NOT NULL")]
    counted = json.loads(world.cli("usage", "--output-format", "json").out)["total"]["input_tokens"]
    assert sum(one["input_tokens"] for one in own) == counted - USED["input_tokens"], "each run reports its own"


def test_a_turn_whose_rounds_are_used_up_ends_at_once_unless_it_gets_more(world: World) -> None:
    with ScriptedModel([step(), step("LS"), step(), {"text": "done", "usage": USAGE}]) as model:
        configure(world, model, rounds=2)
        first = world.cli("agent", "-m", "go", "--provider", "here")
        assert first.code == 4
        assert "--limit rounds=MORE`" in first.err
        done, said = resumed(world)
        assert (done.code, said["outcome"], said["steps"]) == (4, "limit", 0)
        assert "2 rounds of tool calls are used up (runtime.max_tool_rounds)" in said["reason"]
        assert len(model.requests) == 3
        done, said = resumed(world, "--limit", "rounds=3")
        assert (done.code, said["answer"]) == (0, "done"), done.err


def goal_result(summary: str) -> dict[str, Any]:
    return call("GoalResult", achieved=True, summary=summary)


def test_a_workflow_goes_on_counting(world: World) -> None:
    (world.workspace / "Agentfile").write_text('NAME flow\nGOAL a "x"\nGOAL b "y"\nRUN r USING a, b\n')
    answers: list[Any] = [{**goal_result(summary), "usage": USAGE} for summary in ("A", "B")]
    with ScriptedModel([answers[0], {"hang": 30}, answers[1]]) as model:
        configure(world, model, "cost_usd = 1")
        killed(world, model, 2, "run", str(world.workspace / "Agentfile"))
        ((run_id,),) = world.rows("SELECT run_id FROM runs")
        resume = ("run", "--resume", run_id, "--provider", "here", "--output-format", "json")
        refused = world.cli(*resume, "--limit", "cost_usd=0.3")
        said = json.loads(refused.out)
        assert (refused.code, said["outcome"], said["cost"]) == (4, "limit", 0.2), refused.err
        assert f"continue with `adderclaw run --resume {run_id} --limit cost_usd=MORE`" in said["reason"]
        done = world.cli(*resume)
        assert done.code == 0, done.err
    assert json.loads(done.out)["usage"] == USED
    assert json.loads(world.rows("SELECT usage_json FROM runs")[0][0]) == USED, "the earlier usage is not overwritten"
    assert world.rows("SELECT step, cost FROM model_calls ORDER BY id") == [(1, 0.2), (2, 0.2)]


def test_a_loop_that_used_up_its_rounds_goes_on_with_more_and_what_followed_it_is_made_again(world: World) -> None:
    file = world.workspace / "Agentfile"
    file.write_text('NAME flow\nGOAL g "x"\nGOAL h "say $g"\nLOOP l USING g WITHIN 1\nRUN r USING h\n')

    def result(summary: str, converged: bool) -> dict[str, Any]:
        return call("GoalResult", achieved=converged, summary=summary)

    steps: list[Any] = [call("Time"), result("one", False), goal_result("h of one")]
    with ScriptedModel([*steps, call("Time"), result("two", True), goal_result("h of two")]) as model:
        configure(world, model)
        first = world.cli("run", str(file), "--provider", "here")
        ((run_id,),) = world.rows("SELECT run_id FROM runs")
        again = world.cli("run", "--resume", run_id, "--provider", "here")
        for done in (first, again):
            assert (done.code, done.out) == (4, "h of one\n"), done.err
            assert f"within 1 rounds; continue with `adderclaw run --resume {run_id} --limit rounds=MORE`" in done.err
        assert len(model.requests) == 3
        done = world.cli("run", "--resume", run_id, "--provider", "here", "--limit", "rounds=3")
        assert (done.code, done.out) == (0, "h of two\n"), done.err
        assert "say two" in str(model.requests[-1].messages)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["tokens"], "tokens must be a whole number"),
        (["depth=3"], "NAME is one of cost_usd, tokens, tool_calls, seconds, rounds"),
        (["tokens=-1"], "must be 0 or more"),
        (["cost_usd=inf"], "must be 0 or more"),
        (["cost_usd=nan"], "must be 0 or more"),
        (["tokens=1.5"], "tokens must be a whole number"),
        (["tokens=1", "--limit", "tokens=2"], "--limit tokens: given twice"),
    ],
)
def test_a_limit_that_is_none_is_refused(given: list[str], says: str) -> None:
    from typer.testing import CliRunner

    from adderclaw.core.errors import UsageError
    from adderclaw.terminal.commands.agent import agent
    from adderclaw.terminal.commands.common import typer_app

    said = CliRunner().invoke(typer_app(agent), ["-m", "hi", "--limit", *given]).exception
    assert isinstance(said, UsageError)
    assert says in str(said)


class Clock:
    """Stands still until it is told otherwise."""

    time = 1_000.0

    def monotonic(self) -> float:
        return self.time

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds


def test_time_goes_on_counting_and_the_pause_between_does_not() -> None:
    clock = Clock()
    first = Budget(Limits(seconds=100, tool_calls=5), clock, Prices(Config()))
    first.tool_calls, first.children = 2, 7
    clock.time += 60
    state = first.state
    clock.time += 5_000
    for method in ("restore", "take_over"):
        second = Budget(Limits(seconds=100, tool_calls=5), clock, Prices(Config()))
        getattr(second, method)(state)
        assert (second.seconds_left, second.children) == (40, 7)
        assert second.tool_calls == (2 if method == "restore" else 0)
        second.tool_calls += 3
        with pytest.raises(LimitError, match="tool call limit"):
            second.before_tool_call()
        third = Budget(Limits(seconds=100, tool_calls=5), clock, Prices(Config()))
        third.take_over(second.state)
        with pytest.raises(LimitError, match="tool call limit"):
            third.before_tool_call()
    old = state[:9]
    second.restore(old)  # as tapes had it before
    assert second.children == 0
