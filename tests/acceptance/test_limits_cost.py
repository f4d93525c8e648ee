"""A bill that cannot run away: cost is known before it is spent, said in the result, and kept."""

import json
import os
import pty
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest

from adderclaw.core.types import Delta
from adderclaw.terminal.one_shot import AnswerPrinter
from tests.acceptance.world import World, call, text
from tests.program import PROGRAM, Done
from tests.scripted import ScriptedModel

PRICE = '[models."priced*"]\ninput_per_mtok = 10.0\noutput_per_mtok = 100.0\ncache_read_per_mtok = 1.0\n'
USAGE = {"prompt_tokens": 10_000, "completion_tokens": 1_000}
"""A dollar in ten: $0.10 of input and $0.10 of output at these prices."""


def here(model: ScriptedModel, name: str = "priced-1") -> str:
    return f'[providers.models.here]\nkind = "openai-compatible"\nbase_url = "{model.base_url}"\nmodel = "{name}"\n'


def elsewhere(model: ScriptedModel, name: str = "mystery") -> str:
    """The same server by an address that is not loopback, so that its calls are not known to be free."""
    return here(model, name).replace("127.0.0.1", "0.0.0.0")


def result(done: Done) -> dict[str, Any]:
    return json.loads(done.out.splitlines()[-1])


def agent(world: World, *more: str, env: Mapping[str, str] | None = None) -> Done:
    return world.cli("agent", "-m", "go", "--output-format", "json", *more, env=env)


def step(**more: Any) -> dict[str, Any]:
    return {**call("Time"), "usage": USAGE, **more}


# ------------------------------------------------------------------ refusals


def test_the_call_that_would_pass_the_limit_is_not_made(world: World) -> None:
    with ScriptedModel([step()] * 3) as model:
        world.configure(more=here(model) + PRICE + "[limits]\ncost_usd = 0.65\n")
        done = agent(world, "--provider", "here")
    said = result(done)
    assert (done.code, said["outcome"]) == (4, "limit")
    assert "limits.cost_usd" in said["reason"]
    assert "$0.6000 spent" in said["reason"]
    assert said["cost"] == 0.6
    assert len(model.requests) == 3
    assert world.rows("SELECT cost, outcome FROM runs") == [(0.6, "limit")]


@pytest.mark.parametrize("name", ["priced-1", "mystery"])
def test_zero_dollars_means_not_one_request(world: World, name: str) -> None:
    with ScriptedModel([]) as model:
        world.configure(more=elsewhere(model, name) + PRICE + "[limits]\ncost_usd = 0\n")
        done = agent(world, "--provider", "here")
    assert done.code == 4
    assert "limits.cost_usd" in result(done)["reason"]
    assert model.requests == []


BY_FLAG = "limits.cost_usd = 1e-07, set for this run, cannot be enforced"
BY_FILE = "limits.cost_usd = 5, set in "
FIX = 'give its price under [models."mystery"] (input_per_mtok, output_per_mtok), or remove the limit'


@pytest.mark.parametrize(
    ("words", "limits", "names"),
    [
        (("-p", "go", "--max-budget-usd", "0.0000001"), "", BY_FLAG),
        (("run", "--task", "go", "--limit", "cost_usd=0.0000001"), "", BY_FLAG),
        (("agent", "-m", "go"), "[limits]\ncost_usd = 5.0\n", BY_FILE),
    ],
)
def test_a_limit_that_somebody_set_refuses_a_model_without_a_price(
    world: World, words: tuple[str, ...], limits: str, names: str
) -> None:
    with ScriptedModel([]) as model:
        world.configure(more=elsewhere(model) + limits)
        done = world.cli(*words, "--provider", "here", "--output-format", "json")
    said = result(done)
    assert (done.code, said["outcome"], model.requests) == (4, "limit", [])
    assert "the price of the model 'mystery' is unknown" in said["reason"]
    assert names in said["reason"]
    assert FIX in said["reason"]
    assert "cost_usd=MORE" not in said["reason"], "more money is no way on"


@pytest.mark.parametrize("kind", ["reliable", "router"])
def test_a_fallback_without_a_price_is_refused_before_anything_is_spent(world: World, kind: str) -> None:
    with ScriptedModel([]) as model:
        entries = here(model).replace(".here]", ".first]") + elsewhere(model).replace(".here]", ".second]")
        members = {
            "reliable": 'providers = ["first", "second"]',
            "router": 'default = "first"\nroutes = {cheap = "second"}',
        }
        both = f'[providers.models.both]\nkind = "{kind}"\n{members[kind]}\n'
        world.configure(more=entries + both + PRICE)
        done = agent(world, "--provider", "both", "--limit", "cost_usd=1")
    assert (done.code, model.requests) == (4, [])
    assert FIX in result(done)["reason"]


def test_a_switch_to_a_model_without_a_price_is_refused(world: World) -> None:
    with ScriptedModel([{"text": "one", "usage": USAGE}, {"text": "three", "usage": USAGE}]) as model:
        world.configure(more=elsewhere(model, "priced-1") + PRICE + "[limits]\ncost_usd = 9\n")
        lines = ["/model here", "hi", "/model mystery", "hi", "/model priced-1", "hi", "/exit"]
        done = world.cli.typed("agent", stdin="\n".join(lines) + "\n")
    assert [request.json["model"] for request in model.requests] == ["priced-1", "priced-1"]
    assert FIX in done.out + done.err


def test_a_subagent_without_a_price_is_refused_and_what_its_server_does_not_count_is_estimated(world: World) -> None:
    child = call("Agent", description="a helper", prompt="look", model="other/mystery")
    steps = [step(), {**child, "usage": USAGE}, {"text": "done", "usage": USAGE}]
    with ScriptedModel(steps) as model:
        other = elsewhere(model).replace(".here]", ".other]")
        world.configure(more=here(model) + other + PRICE + "[limits]\ncost_usd = 9\n")
        done = agent(world, "--provider", "here")
    assert [request.json["model"] for request in model.requests] == ["priced-1"] * 3
    assert FIX in json.dumps(model.requests[2].json).replace('\\\\\\"', '"').replace('\\"', '"')
    assert result(done)["outcome"] == "completed"
    uncounted = {"text": "x" * 400, "usage": None}
    with ScriptedModel([{**child, "usage": USAGE}, uncounted, {"text": "done", "usage": USAGE}]) as model:
        world.configure(more=here(model) + here(model).replace(".here]", ".other]") + PRICE)
        done = agent(world, "--provider", "here")
    assert (result(done)["answer"], result(done)["usage"]["estimated"]) == ("done", True)
    assert result(done)["usage"]["output_tokens"] == 2_100


def test_a_provider_on_loopback_costs_nothing_unless_it_has_a_price(world: World) -> None:
    with ScriptedModel([{"text": "free", "usage": USAGE}, {"text": "billed", "usage": USAGE}]) as model:
        world.configure(more=here(model, "mystery") + PRICE + "[limits]\ncost_usd = 0.5\n")
        free, billed = (agent(world, "--provider", "here", "--model", name) for name in ("mystery", "priced-1"))
    assert (result(free)["answer"], result(free)["cost"]) == ("free", 0.0)
    assert (result(billed)["answer"], result(billed)["cost"]) == ("billed", 0.2)


NOTHING = {"prompt_tokens": 0, "completion_tokens": 0}


@pytest.mark.parametrize("usage", [None, NOTHING])
def test_what_a_server_does_not_count_is_estimated_and_counts(world: World, usage: dict[str, int] | None) -> None:
    long = {"text": "x" * 8_000, **call("Time"), "usage": usage}
    with ScriptedModel([long] * 2) as model:
        world.configure(more=here(model) + PRICE + "[limits]\ntokens = 15000\n")
        done = agent(world, "--provider", "here")
    said = result(done)
    assert (done.code, said["outcome"]) == (4, "limit")
    assert "limits.tokens" in said["reason"]
    assert said["usage"]["estimated"] is True
    assert said["usage"]["output_tokens"] > 2_000 * len(model.requests)
    assert said["cost"] > 0.2 * len(model.requests), "by the price of the estimate"
    usages = [json.loads(row[0]) for row in world.rows("SELECT usage_json FROM model_calls")]
    assert {one["estimated"] for one in usages} == {True}
    assert f"{len(usages)} of {len(usages)} calls" in world.cli("usage").out
    assert "(estimated)" in world.cli("runs", "show", said["run_id"]).out
    assert world.cli("replay", said["run_id"], "--verify").code == 0


def test_only_what_is_missing_is_estimated(world: World) -> None:
    some = [{"text": "x" * 400, "usage": {"prompt_tokens": 7}}, {"text": "done", "usage": USAGE}]
    with ScriptedModel(some) as model:
        world.configure(more=here(model))
        first, second = (result(agent(world, "--provider", "here"))["usage"] for _ in range(2))
    assert (first["input_tokens"], first["output_tokens"], first["estimated"]) == (7, 100, True)
    assert "estimated" not in second


def test_the_cost_of_a_model_without_a_price_is_absent_in_print_mode(world: World) -> None:
    with ScriptedModel([{"text": "done", "usage": USAGE}]) as model:
        world.configure(more=elsewhere(model))
        said = result(world.cli("-p", "go", "--provider", "here", "--output-format", "json", cwd=world.workspace))
    assert "total_cost_usd" not in said
    assert ["costUSD" in one for one in said["modelUsage"].values()] == [False]


def test_thoughts_that_a_server_does_not_count_are_estimated_too(world: World) -> None:
    asks = {"id": "c", "type": "function", "function": {"name": "Time", "arguments": "{}"}}
    thinks = {"reasoning_content": "word " * 4_000, "tool_calls": [asks]}
    body = json.dumps({"choices": [{"message": thinks, "finish_reason": "tool_calls"}]})
    with ScriptedModel([{"raw": body, "content_type": "application/json"}, {"text": "done", "usage": None}]) as model:
        world.configure(more=here(model))
        said = result(agent(world, "--provider", "here"))
    assert said["usage"]["output_tokens"] > 5_000
    assert world.cli("replay", said["run_id"], "--verify").code == 0


def test_tries_that_broke_off_count(world: World) -> None:
    """Each was read and perhaps answered in part: whoever bills them is not told apart from whoever does not."""
    with ScriptedModel([{"text": "x" * 9_000, "cut": 500}] * 2) as model:
        world.configure(more=here(model) + PRICE + "[limits]\ncost_usd = 0.3\n")
        done = agent(world, "--provider", "here")
    assert done.code == 4
    assert "limits.cost_usd" in result(done)["reason"]
    assert result(done)["cost"] == 0.0


def test_an_untrusted_project_can_neither_lower_prices_nor_raise_limits(world: World) -> None:
    project = world.workspace
    (project / "agent.toml").write_text(
        '[models."priced*"]\ninput_per_mtok = 0.0\noutput_per_mtok = 0.0\n[limits]\ncost_usd = 900.0\n'
    )
    world.configure(more=PRICE + "[limits]\ncost_usd = 1.0\n")
    shown = world.cli("config", "show", cwd=project)
    assert "limits.cost_usd = 1.0" in shown.out
    assert 'models."priced*".input_per_mtok = 10.0' in shown.out


# ------------------------------------------------------------------ what it cost


def test_the_cost_is_in_the_result_the_rows_and_the_events(world: World) -> None:
    usage = {**USAGE, "prompt_tokens_details": {"cached_tokens": 4_000}}
    with ScriptedModel([step(), {"text": "done", "usage": usage}]) as model:
        world.configure(more=here(model) + PRICE)
        done = agent(world, "--provider", "here")
    price = 0.2 + (6_000 * 10 + 4_000 * 1 + 1_000 * 100) / 1e6
    assert result(done)["cost"] == pytest.approx(price)
    rows = world.rows("SELECT cost, run_id FROM model_calls ORDER BY id")
    assert [round(row[0], 6) for row in rows] == [0.2, 0.164]
    assert {row[1] for row in rows} == {result(done)["run_id"]}
    assert world.rows("SELECT cost FROM runs") == [(pytest.approx(price),)]
    events = world.rows("SELECT detail FROM events WHERE event_type = 'run_finished'")
    assert json.loads(events[0][0])["cost"] == pytest.approx(price)


def test_the_default_limit_falls_back_to_tokens_and_says_so_once_in_a_home(world: World) -> None:
    with ScriptedModel([step(), step(), {"text": "done", "usage": USAGE}, {"text": "again", "usage": USAGE}]) as model:
        world.configure(more=elsewhere(model))
        done = agent(world, "--provider", "here")
        again = agent(world, "--provider", "here")
    assert done.err.count("the price of the model 'mystery' is unknown, so limits.cost_usd does not bound it") == 1
    assert "limits.tokens (2,000,000) still does" in done.err
    assert (result(again)["answer"], "price" in again.err) == ("again", False)
    assert '[models."mystery"]' in done.err
    assert result(done)["cost"] is None
    assert result(done)["usage"]["input_tokens"] == 30_000
    assert world.rows("SELECT cost FROM model_calls") == [(None,)] * 4


def test_the_scripted_model_is_free_and_nothing_is_said(world: World) -> None:
    world.configure(more="[limits]\ncost_usd = 0\n")
    world.script(call("Time"), {**text("done"), "usage": {"input_tokens": 50, "output_tokens": 5}})
    done = agent(world)
    assert (done.code, result(done)["cost"]) == (0, 0.0)
    assert "price" not in done.err


def test_the_one_that_answered_is_billed(world: World) -> None:
    """C-63: reliable = [bad, good], bad times out: the fallback is logged, and good's price counts."""
    with ScriptedModel([{"hang": 30}]) as bad, ScriptedModel([{"text": "from good", "usage": USAGE}]) as good:
        entries = here(good).replace(".here]", ".good]") + here(bad, "free").replace(".here]", ".bad]")
        entries = entries.replace('model = "free"', 'model = "free"\ntimeout_seconds = 0.3')
        both = '[providers.models.both]\nkind = "reliable"\nproviders = ["bad", "good"]\n'
        free = "[models.free]\ninput_per_mtok = 0.0\noutput_per_mtok = 0.0\n"
        world.configure(more=entries + both + PRICE + free)
        done = agent(world, "--provider", "both")
    assert result(done)["answer"] == "from good"
    assert "provider_fallback bad good timeout" in done.err
    assert result(done)["cost"] == 0.2
    assert world.rows("SELECT provider, model FROM model_calls") == [("good", "priced-1")]


def test_a_resumed_conversation_has_a_budget_of_its_own(world: World) -> None:
    with ScriptedModel([{"text": "one", "usage": USAGE}, {"text": "two", "usage": USAGE}]) as model:
        world.configure(more=here(model) + PRICE + "[limits]\ncost_usd = 0.39\n")
        first = agent(world, "--provider", "here")
        second = agent(world, "--provider", "here", "--continue")
    assert (result(first)["cost"], result(second)["cost"]) == (0.2, 0.2)


# ------------------------------------------------------------------ choosing the model


@pytest.mark.parametrize(
    ("flags", "entry", "model"),
    [
        ((), "here", "m-1"),
        (("--model", "m-9"), "here", "m-9"),
        (("--model", "there"), "there", "m-2"),
        (("--model", "there/m-3"), "there", "m-3"),
        (("--model", "vendor/m-4"), "here", "vendor/m-4"),
        (("--provider", "there"), "there", "m-2"),
        (("--provider", "there", "--model", "here/m-5"), "there", "here/m-5"),
    ],
)
def test_by_flag(world: World, flags: tuple[str, ...], entry: str, model: str) -> None:
    with ScriptedModel([{"text": "ok"}]) as server:
        entries = here(server, "m-1") + here(server, "m-2").replace(".here]", ".there]")
        world.configure(more=entries)
        config = world.cli.data / "config.toml"
        config.write_text(config.read_text().replace('default_provider = "local"', 'default_provider = "here"'))
        said = result(agent(world, *flags))
    assert (said["provider"], said["model"]) == (entry, model)
    assert server.requests[0].json["model"] == model


def test_in_session(world: World) -> None:
    with ScriptedModel([{"text": "one"}, {"text": "two"}, {"text": "three"}]) as server:
        world.configure(more=here(server, "m-1") + here(server, "m-2").replace(".here]", ".there]"))
        lines = ["/model here", "hi", "/model m-7", "hi", "/model there", "/model", "hi", "/model there/", "/exit"]
        done = world.cli.typed("agent", stdin="\n".join(lines) + "\n")
    assert done.code == 0, done.err
    assert [request.json["model"] for request in server.requests] == ["m-1", "m-7", "m-2"]
    assert "model m-7 of the provider here" in done.out
    assert "model m-2 of the provider there" in done.out
    assert [len(request.messages) for request in server.requests] == [2, 4, 6]  # the conversation goes on


# ------------------------------------------------------------------ what was shown and is void


def test_pieces_that_were_shown_are_followed_by_a_new_line(capsys: pytest.CaptureFixture[str]) -> None:
    shown = AnswerPrinter()
    for delta in (Delta("reset", ""), Delta("text", "half an ans"), Delta("reset", ""), Delta("text", "whole")):
        shown(delta)
    assert capsys.readouterr().out == "half an ans\nwhole"
    assert shown.text == "whole"


def test_in_a_terminal_the_answer_of_the_second_try_stands_alone_on_its_line(world: World) -> None:
    said = "one two three four five six seven eight"
    with ScriptedModel([{"text": said, "cut": 1_200}, {"text": "the whole answer"}]) as model:
        world.configure(more=here(model))
        master, slave = pty.openpty()
        command = [str(PROGRAM), "agent", "-m", "hi", "--provider", "here"]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=slave,
            stderr=subprocess.PIPE,
            env=world.cli.env,
            cwd=world.cli.cwd,
        )
        os.close(slave)
        out = b""
        try:
            while piece := os.read(master, 4096):
                out += piece
        except OSError:
            pass  # a terminal ends so
        process.communicate(timeout=90)
        os.close(master)
    lines = out.decode().splitlines()
    assert lines[-1] == "the whole answer"
    assert lines[0].startswith("one two")
    assert process.returncode == 0
