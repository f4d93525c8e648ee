"""`adderclaw provider list` and `provider test`, as an operator runs them."""

import json
from typing import Any

from tests.program import Cli
from tests.scripted import ScriptedModel, Step

CANARY = "canary-9f8e7d6c5b4a3210"
PROBE: Step = {"tool_calls": [{"name": "report_ready", "arguments": {"word": "ready"}}]}


def configure(cli: Cli, base_url: str, more: str = "") -> None:
    cli.configure(
        'default_provider = "mine"\n'
        f'[providers.models.mine]\nkind = "openai-compatible"\nbase_url = "{base_url}"\nmodel = "m1"\n'
        f'api_key_env = "SOME_KEY"\ntimeout_seconds = 5\n{more}'
    )


def one(text: str) -> Any:
    return json.loads(text)


def test_a_failing_provider_ends_with_one_and_its_kind(cli: Cli) -> None:
    with ScriptedModel([{"error": {"status": 401, "body": f"no {CANARY}"}}] * 2) as model:
        configure(cli, model.base_url)
        text = cli("provider", "test", "mine", env={"SOME_KEY": CANARY})
        as_json = cli("provider", "test", "mine", "--output-format", "json", env={"SOME_KEY": CANARY})
    assert (text.code, text.out) == (1, "")
    assert "adderclaw: authentication_failed" in text.err
    assert as_json.code == 1
    assert one(as_json.out)["ok"] is False
    assert one(as_json.out)["error"] == "authentication_failed"
    assert CANARY not in text.out + text.err + as_json.out + as_json.err
    assert "Traceback" not in text.err + as_json.err


def test_an_unknown_name_is_a_configuration_error(cli: Cli) -> None:
    done = cli("provider", "test", "nobody")
    assert done.code == 2
    assert "nobody" in done.err
    assert "local" in done.err


def test_the_emergency_stop_holds_here_too(cli: Cli) -> None:
    assert cli("estop").code == 0
    assert cli("provider", "test", "local").code == 6


def test_a_working_provider(cli: Cli) -> None:
    with ScriptedModel([{"text": "ready"}, PROBE] * 2) as model:
        configure(cli, model.base_url)
        text = cli("provider", "test", "mine")
        as_json = cli("provider", "test", "mine", "--output-format", "json")
    assert text.code == as_json.code == 0, text.err + as_json.err
    assert text.out.startswith("mine: ok, ")
    report = one(as_json.out)
    assert (report["ok"], report["streaming"], report["tools"], report["answer"]) == (True, True, True, "ready")
    assert report["latency_ms"] > 0
    assert [request.json["model"] for request in model.requests] == ["m1"] * 4


def test_a_model_without_tools_still_works(cli: Cli) -> None:
    refused = {"error": {"status": 400, "body": {"error": {"message": "m1 does not support tools"}}}}
    with ScriptedModel([{"text": "ready"}, refused, {"text": "a"}, {"text": "b"}]) as model:
        configure(cli, model.base_url, "stream = false\n")
        first = one(cli("provider", "test", "mine", "--output-format", "json").out)
        second = one(cli("provider", "test", "mine", "--output-format", "json").out)
    assert (first["ok"], first["tools"], first["streaming"]) == (True, False, False)
    assert "does not support tools" in first["tools_note"]
    assert (second["ok"], second["tools"]) == (True, False)


def test_the_built_in_provider_needs_nothing(cli: Cli) -> None:
    assert one(cli("provider", "test", "local", "--output-format", "json").out)["ok"] is True


def test_list_tells_which_keys_are_set_and_never_their_values(cli: Cli) -> None:
    configure(
        cli, "https://models.example/v1", '[providers.models.both]\nkind = "reliable"\nproviders = ["mine", "local"]'
    )
    unset = cli("provider", "list", "--output-format", "json")
    set_to = cli("provider", "list", "--output-format", "json", env={"SOME_KEY": CANARY})
    text = cli("provider", "list", env={"SOME_KEY": CANARY})
    rows = {row["name"]: row for row in one(set_to.out)}
    assert {"local", "mine", "both"} <= rows.keys()
    mine = rows["mine"]
    assert (mine["kind"], mine["model"], mine["key_variable"]) == ("openai-compatible", "m1", "SOME_KEY")
    assert (mine["base_url"], mine["default"], mine["available"]) == ("https://models.example/v1", True, True)
    assert [row["key_set"] for row in one(unset.out) if row["name"] == "mine"] == [False]
    assert mine["key_set"] is True
    assert rows["both"]["providers"] == ["mine", "local"]
    assert "key: SOME_KEY (set)" in text.out
    assert "tries mine, then local" in text.out
    assert CANARY not in set_to.out + set_to.err + text.out + text.err


def test_list_tells_what_models_can_do_and_what_they_cost(cli: Cli) -> None:
    more = (
        '[providers.models.claude]\nkind = "anthropic"\nmodel = "claude-sonnet-4-5"\n'
        '[providers.models.auto]\nkind = "router"\ndefault = "claude"\nroutes = { cheap = "mine" }\n'
        '[providers.models.both]\nkind = "reliable"\nproviders = ["claude", "mine"]\n'
        '[providers.models.next]\nkind = "anthropic"\nmodel = "claude-sonnet-99"\n'
        "[models.m1]\ninput_per_mtok = 0.5\noutput_per_mtok = 2.0\ncontext_tokens = 32000\nvision = true\n"
    )
    configure(cli, "https://models.example/v1", more)
    env = {"ANTHROPIC_API_KEY": CANARY}
    rows = {row["name"]: row for row in one(cli("provider", "list", "--output-format", "json", env=env).out)}
    assert rows["mine"]["price"]["output_per_mtok"] == 2.0
    assert rows["mine"]["capabilities"]["context_tokens"] == 32000
    assert rows["mine"]["capabilities"]["images"] is True
    assert (rows["mine"]["key"], rows["local"]["key"]) == (None, "not needed")
    assert rows["claude"]["key"] == "environment variable ANTHROPIC_API_KEY"
    assert rows["auto"]["model"] == rows["both"]["model"] == "claude-sonnet-4-5"
    text = cli("provider", "list", env=env).out
    assert "price: $3 in, $15 out, $0.3 cached per million tokens; in requests of more than 200,000 tokens $6" in text
    assert "price: $0.5 in, $2 out per million tokens" in text
    assert "price: free" in text
    assert "can: streaming, tools, images, pdf, thinking, window 200,000" in text
    assert rows["next"]["assumed"] is True
    assert rows["next"]["price"] is None
    assert "window 1,000,000, assumed from its family" in text
    assert "cheap → mine, all else → claude" in text
    assert CANARY not in text


def test_the_first_piece_comes_before_the_whole(cli: Cli) -> None:
    slow = {"text": "ready when you are", "slow_ms": 60, "piece": 150}
    with ScriptedModel([slow, PROBE]) as model:
        configure(cli, model.base_url, "[models.m1]\ninput_per_mtok = 10.0\noutput_per_mtok = 10.0\n")
        report = one(cli("provider", "test", "mine", "--output-format", "json").out)
    assert 0 < report["first_ms"] < report["latency_ms"] - 30
    assert report["cost"] == 0.0012
