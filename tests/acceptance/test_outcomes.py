"""What a run reports of itself is true: an answer that was cut off, or a run without a model, is no success."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from adderclaw.config.model_facts.table import newest
from tests.acceptance.terminal import at_a_terminal
from tests.acceptance.test_hook_events import heard, listen
from tests.acceptance.test_rpc import Rpc
from tests.acceptance.world import World, call, text
from tests.scripted import ScriptedModel
from tests.scripted_anthropic import ScriptedMessages
from tests.scripted_gemini import ScriptedGemini
from tests.scripted_responses import ScriptedResponses

type Step = dict[str, Any]
type Server = ScriptedModel | ScriptedMessages
CUT: dict[str, tuple[str, Callable[..., Server], Step]] = {
    "chat": ("openai-compatible", ScriptedModel, {"finish_reason": "length"}),
    "responses": ("openai", ScriptedResponses, {"incomplete": "max_output_tokens"}),
    "anthropic": ("anthropic", ScriptedMessages, {"stop_reason": "max_tokens"}),
    "gemini": ("gemini", ScriptedGemini, {"finish_reason": "MAX_TOKENS"}),
}


def on(world: World, kind: str, server: Server) -> None:
    entry = f'kind = "{kind}"\nbase_url = "{server.base_url}"\nmodel = "m"\napi_key_env = "SOME_KEY"\n'
    world.configure(more=f"[providers.models.mine]\n{entry}")
    world.cli.env["SOME_KEY"] = "k-0123456789"


@pytest.mark.parametrize("wire", CUT)
def test_01_a_reply_that_was_cut_goes_on_once(world: World, wire: str) -> None:
    kind, server, cut = CUT[wire]
    with server([{"text": "one two ", **cut}, {"text": "three four"}]) as model:
        on(world, kind, model)
        done = world.agent("count", "--provider", "mine")
    assert done.code == 0, done.err
    assert "one two three four" in done.out
    assert "cut off" in json.dumps(model.requests[1].json)


@pytest.mark.parametrize("wire", CUT)
def test_01_a_reply_that_is_cut_twice_is_a_limit(world: World, wire: str) -> None:
    kind, server, cut = CUT[wire]
    with server([{"text": "one two ", **cut}, {"text": "three", **cut}]) as model:
        on(world, kind, model)
        listen(world, "StopFailure")
        done = world.agent("count", "--provider", "mine")
    assert done.code == 4, done.err
    assert "max_tokens" in done.err
    (told,) = heard(world)
    assert told["error"] == "max_output_tokens"
    assert told["last_assistant_message"] == "one two three"
    assert world.rows("SELECT outcome FROM runs") == [("limit",)]
    assert world.rows("SELECT count(*) FROM model_calls") == [(2,)]


def test_01_a_reply_of_which_nothing_was_left_is_a_limit(world: World) -> None:
    with ScriptedModel([{"text": "", "finish_reason": "length"}]) as model:
        on(world, "openai-compatible", model)
        done = world.agent("count", "--provider", "mine")
    assert done.code == 4, done.err
    assert "before a word" in done.err


def test_01_a_turn_that_was_cut_goes_on_when_it_is_resumed(world: World) -> None:
    cut = {"finish_reason": "length"}
    with ScriptedModel([{"text": "one", **cut}, {"text": " two", **cut}, text(" three")]) as model:
        on(world, "openai-compatible", model)
        assert world.agent("count", "--provider", "mine").code == 4
        done = world.cli("agent", "--continue", "--provider", "mine")
        assert (done.code, done.out.strip()) == (0, "one two three"), done.err
        again = world.cli("agent", "--continue", "--provider", "mine")
    assert (again.code, again.out.strip()) == (0, "one two three"), "both parts are the answer"
    assert world.cli("checkpoint", "list").out.count("cut off") == 0, "it is no message of a person"


def test_01_nothing_may_be_left_to_say_after_a_cut(world: World) -> None:
    with ScriptedModel([{"text": "one two", "finish_reason": "length"}, {"text": ""}]) as model:
        on(world, "openai-compatible", model)
        done = world.agent("count", "--provider", "mine")
    assert (done.code, done.out.strip()) == (0, "one two"), done.err


def test_01_a_refusal_to_go_on_is_no_end_of_the_answer(world: World) -> None:
    refused = {"text": "", "finish_reason": "content_filter"}
    with ScriptedModel([{"text": "one two", "finish_reason": "length"}, refused]) as model:
        on(world, "openai-compatible", model)
        done = world.agent("count", "--provider", "mine")
    assert done.code == 1, done.err
    assert "refused" in done.err


def test_01_a_secret_across_a_cut_is_not_shown(world: World) -> None:
    secret = "sk-live-abcdefghij0123456789"
    with ScriptedModel([{"text": f"It is {secret[:14]}", "finish_reason": "length"}, text(secret[14:])]) as model:
        on(world, "openai-compatible", model)
        world.cli.env["SOME_KEY"] = secret
        done = world.agent("what is it?", "--provider", "mine", "--output-format", "json")
    assert done.code == 0, done.err
    assert secret not in done.out
    assert secret.encode() not in world.database.read_bytes()


def test_01_a_cut_reply_with_a_whole_call_runs_it(world: World) -> None:
    (world.workspace / "a.txt").write_text("heliotrope\n")
    look = {**call("Read", file_path="a.txt"), "text": "Let me", "finish_reason": "length"}
    with ScriptedModel([look, text("It is heliotrope.")]) as model:
        on(world, "openai-compatible", model)
        done = world.agent("which word?", "--provider", "mine")
    assert done.code == 0, done.err
    assert "heliotrope" in done.out


def test_01_a_subagent_that_is_cut_off_is_no_success_for_its_parent(world: World) -> None:
    cut = {"finish_reason": "length"}
    steps = [call("Agent", description="count", prompt="count"), {"text": "one", **cut}, {"text": " two", **cut}]
    with ScriptedModel([*steps, text("The agent did not finish.")]) as model:
        on(world, "openai-compatible", model)
        done = world.agent("count", "--provider", "mine")
    assert done.code == 0, done.err
    (result,) = world.entries("tool_result")
    assert "limit" in json.dumps(result)


# ------------------------------------------------------------------ no model is configured

REACHED = {"achieved": True, "summary": "reached"}


@pytest.fixture
def unchosen(world: World) -> World:
    """A workspace with everything that can be run, and no script for the built-in provider."""
    world.cli.env.pop("ADDERCLAW_MOCK_FIXTURE", None)
    (world.workspace / "Agentfile").write_text('NAME flow\nGOAL g "x"\nRUN r USING g\n')
    (world.workspace / "SPEC.md").write_text("# A program\n\nIt prints hello.\n")
    return world


@pytest.mark.parametrize("target", [("Say hello.",), ("Agentfile",), ()], ids=["task", "agentfile", "spec"])
def test_03_a_run_without_a_model_ends_at_once(unchosen: World, target: tuple[str, ...]) -> None:
    done = unchosen.cli("run", *target, cwd=unchosen.workspace)
    assert done.code == 2, done.err
    assert "no model is configured" in done.err
    assert "adderclaw onboard" in done.err


def put_sop(world: World, step: str) -> None:
    folder = world.workspace / "sops" / "p"
    folder.mkdir(parents=True)
    (folder / "SOP.toml").write_text(f'name = "p"\n[[steps]]\nid = "one"\nkind = "agent"\nprompt = "hello"\n{step}')


def test_an_agent_step_of_a_sop_is_answered_where_agent_is(unchosen: World) -> None:
    put_sop(unchosen, "")
    agent = unchosen.agent("hello")
    done = unchosen.cli("sop", "run", "p", cwd=unchosen.workspace)
    assert (done.code, done.out) == (agent.code, agent.out) == (0, agent.out), done.err
    assert "built-in `local` provider" in done.out


def test_an_agent_step_that_names_its_model_needs_no_other(unchosen: World) -> None:
    put_sop(unchosen, 'model = "own"\n')
    with ScriptedModel([{"text": "by its own"}]) as model:
        entry = f'kind = "openai-compatible"\nbase_url = "{model.base_url}"\nmodel = "m"\n'
        unchosen.configure(more=f"[providers.models.own]\n{entry}")
        rpc = Rpc(unchosen)
        rpc.request(1, "run", sop="p")
        ended = rpc.until(id=1)
        assert rpc.close() == 0
    assert ended["result"]["answer"] == "by its own", ended


def test_03_the_only_key_is_used_and_named(unchosen: World) -> None:
    signal = {"name": "GoalResult", "input": REACHED}
    with ScriptedMessages([{"tool_calls": [signal]}]) as model:
        unchosen.cli.env |= {"ANTHROPIC_API_KEY": "sk-ant-0123456789", "ANTHROPIC_BASE_URL": model.base_url}
        done = unchosen.cli("run", "Agentfile", cwd=unchosen.workspace)
    assert (done.code, done.out.strip()) == (0, "reached"), done.err
    assert f"ANTHROPIC_API_KEY (anthropic, {newest('anthropic', 'sonnet')}) is used" in done.err
    assert "sk-ant-0123456789" not in done.err


@pytest.mark.parametrize("command", [("run", "Agentfile"), ("agent", "-m", "hello")], ids=" ".join)
def test_03_several_keys_are_named_and_none_is_used(unchosen: World, command: tuple[str, ...]) -> None:
    unchosen.cli.env |= {"ANTHROPIC_API_KEY": "sk-ant-0123456789", "OPENAI_API_KEY": "sk-0123456789"}
    done = unchosen.cli(*command, cwd=unchosen.workspace)
    assert done.code == 2, done.err
    assert "ANTHROPIC_API_KEY" in done.err
    assert "OPENAI_API_KEY" in done.err
    assert unchosen.cli("tool", "run", "Time").code == 0, "what asks no model needs none"


ASKED = "from now on?"


def test_03_at_a_terminal_the_keys_are_offered_once(unchosen: World) -> None:
    unchosen.cli.env |= {"OPENAI_API_KEY": "sk-0123456789", "ANTHROPIC_API_KEY": "sk-ant-0123456789"}
    code, shown = at_a_terminal(unchosen, "agent", "-m", "hello", typed=((ASKED, "\n"),))
    assert code == 0, shown
    assert "built-in `local` provider" in shown
    code, shown = at_a_terminal(unchosen, "agent", "-m", "hello", typed=((ASKED, "1\n"),))
    assert "from now on?" not in shown
    (unchosen.cli.data / "keys-declined").unlink()
    with ScriptedMessages([text("Hello."), text("Hello again.")]) as model:
        unchosen.cli.env["ANTHROPIC_BASE_URL"] = model.base_url
        code, shown = at_a_terminal(unchosen, "agent", "-m", "hello", typed=((ASKED, "9\n"), (ASKED, "1\n")))
        assert (code, "'9' is not one of the choices." in shown, "Hello." in shown) == (0, True, True), shown
        assert "no model is configured, so" not in shown
        assert unchosen.agent("hello").out.strip() == "Hello again."
