"""Print mode from outside: `adderclaw -p`, its flags, what it prints in each format, and what it takes from stdin."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.world import World, call, text
from tests.program import Done
from tests.scripted import ScriptedModel
from tests.scripted_anthropic import ScriptedMessages

type Json = dict[str, Any]
WRITES = (call("Write", file_path="made.txt", content="hi\n"), text("Made."))


def lines(done: Done) -> list[Json]:
    return [json.loads(line) for line in done.out.splitlines()]


def on(world: World, model: ScriptedModel, **more: str) -> None:
    entry = f'kind = "openai-compatible"\nbase_url = "{model.base_url}"\nmodel = "m"\n'
    world.configure(more=f"[providers.models.mine]\n{entry}" + "\n".join(more.values()))


def system_of(model: ScriptedModel, number: int = 0) -> str:
    return str(model.requests[number].messages[0]["content"])


def until(seen: Callable[[], bool]) -> None:
    while not seen():
        time.sleep(0.01)


@pytest.fixture
def reading(world: World) -> World:
    """A model that reads one file and says what is in it."""
    (world.workspace / "a.txt").write_text("heliotrope\n", encoding="utf-8")
    world.script({"text": "Let me look.", **call("Read", file_path="a.txt")}, text("It is heliotrope."))
    return world


def test_10_print_gives_the_answer_alone_and_nothing_else(reading: World) -> None:
    done = reading.cli("-p", "which word?")
    assert (done.code, done.out, done.err) == (0, "It is heliotrope.\n", "")
    assert reading.rows("SELECT kind, outcome, exit_code FROM runs") == [("agent", "completed", 0)]
    assert reading.cli("--print", "--", "which word?", "--quiet").code == 0
    assert reading.cli("which word?", "-p", "--verbose").err == ""
    assert "tool_requested" in reading.cli("which word?", "-p", "--debug").err
    assert reading.cli("which word?", "-p", "--debug-file", "log.txt").err == ""
    assert "tool_requested" in (reading.workspace / "log.txt").read_text(encoding="utf-8")


def test_10_print_json_is_one_result_object(reading: World) -> None:
    done = reading.cli("-p", "which word?", "--output-format=json")
    (result,) = lines(done)
    wanted = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 2, "result": "It is heliotrope."}
    assert {key: result[key] for key in wanted} == wanted
    assert result["usage"].keys() >= {"input_tokens", "output_tokens", "cache_read_input_tokens"}
    assert result["total_cost_usd"] == 0.0
    assert (result["outcome"], result["permission_denials"]) == ("completed", [])
    assert reading.rows("SELECT run_id, session_id FROM runs") == [(result["run_id"], result["session_id"])]
    assert done.err == ""


def test_10_stream_json_has_every_message_with_its_content(reading: World) -> None:
    done = reading.cli("-p", "which word?", "--output-format", "stream-json", "--include-partial-messages", "--verbose")
    told = lines(done)
    assert [line["type"] for line in told if line["type"] != "stream_event"] == [
        *("system", "assistant", "user", "assistant", "result")
    ]
    init, first, result, last, end = (line for line in told if line["type"] != "stream_event")
    assert init["subtype"] == "init"
    assert (init["cwd"], init["model"], init["permissionMode"]) == (str(reading.workspace), "mock", "default")
    assert {"Read", "Bash", "Edit"} <= set(init["tools"])
    said, used = first["message"]["content"]
    assert said == {"type": "text", "text": "Let me look."}
    assert (used["type"], used["name"], used["input"]) == ("tool_use", "Read", {"file_path": "a.txt"})
    (block,) = result["message"]["content"]
    assert (block["tool_use_id"], block["is_error"]) == (used["id"], False)
    assert "heliotrope" in block["content"]
    assert last["message"]["content"] == [{"type": "text", "text": "It is heliotrope."}]
    assert (first["message"]["stop_reason"], last["message"]["stop_reason"]) == ("tool_use", "end_turn")
    assert (end["result"], end["session_id"]) == ("It is heliotrope.", init["session_id"])
    assert len({line["uuid"] for line in told}) == len(told)
    parts = [line["event"] for line in told if line["type"] == "stream_event"]
    spoken = "".join(part["delta"]["text"] for part in parts if part["type"] == "content_block_delta")
    assert spoken == "Let me look.It is heliotrope."
    assert [part["type"] for part in parts].count("message_start") == 2
    place = [line["type"] for line in told].index("assistant")
    assert told[place - 1]["event"]["type"] == "message_stop"
    assert all(line["event"]["type"] != "message_start" for line in told[2:place] if "event" in line)


def test_10_what_is_piped_is_context_and_never_an_answer(world: World) -> None:
    with ScriptedModel([*WRITES, text("an explanation")]) as model:
        on(world, model)
        denied = world.cli("-p", "make it", "--provider", "mine", stdin="y\nyes\nA\n")
        assert denied.code == 3, denied.err
        assert "--allowed-tools" in denied.err, "it says what to do"
        assert not (world.workspace / "made.txt").exists()
        said = str(model.requests[0].messages[-1]["content"])
        assert said.startswith("make it\n")
        assert "y\nyes\nA" in said
        assert b"<outside-" in model.requests[0].body, "it cannot pass for the message itself"
        alone = world.cli("-p", "--provider", "mine", stdin="explain life")
        assert (alone.code, alone.out) == (0, "an explanation\n"), alone.err
        assert model.requests[2].messages[-1]["content"] == "explain life"
    long = world.cli("-p", "x", stdin=b"z" * (1 << 20) + b"z")
    assert long.code == 2
    assert "1,048,576 bytes" in long.err
    assert world.cli("-p", stdin="  \n").code == 2


def test_10_a_pipe_into_which_nothing_comes_holds_no_message_up(world: World) -> None:
    world.script(text("hello"))
    ours, theirs = os.pipe()
    try:
        process = world.cli.start("-p", "hi", stdin=ours)
        out, err = process.communicate(timeout=60)
    finally:
        os.close(ours)
        os.close(theirs)
    assert (process.returncode, out) == (0, b"hello\n"), err
    assert b"nothing came on standard input" in err


RULES: dict[str, tuple[tuple[str, ...], int]] = {
    "nobody is there to say yes": ((), 3),
    "an allow rule": (("--allowed-tools", "Write"), 0),
    "the other spelling": (("--allowedTools", "Bash(git log:*),Write(made.txt)", "Read"), 0),
    "a rule for another file": (("--allowedTools=Write(other.txt)",), 3),
    "deny wins": (("--allowed-tools", "Write", "--disallowed-tools", "Write(made.txt)"), 3),
    "a mode": (("--permission-mode", "acceptEdits"), 0),
    "a mode that asks nobody": (("--permission-mode", "dontAsk"), 3),
    "no questions at all": (("--dangerously-skip-permissions",), 0),
    "settings": (("--settings", '{"permissions": {"allow": ["Write"]}}'), 0),
}


@pytest.mark.parametrize("name", RULES)
def test_10_flags_are_rules_in_the_one_rule_engine(world: World, name: str) -> None:
    flags, code = RULES[name]
    world.script(*WRITES)
    done = world.cli("-p", "make it", *flags, "--output-format", "json")
    (result,) = lines(done)
    assert done.code == code, done.err
    assert (world.workspace / "made.txt").exists() == (code == 0)
    denials = [one["tool_input"]["file_path"] for one in result["permission_denials"]]
    assert denials == ([] if code == 0 else ["made.txt"])
    assert result["is_error"] == (code != 0)


def test_10_denied_tools_are_not_offered_and_tools_names_those_that_are(world: World) -> None:
    with ScriptedModel([text("a"), text("b"), text("c")]) as model:
        on(world, model)
        for flags in (("--disallowedTools", "Bash"), ("--tools", "Read,Grep"), ("--tools", "")):
            assert world.cli("-p", "x", "--provider", "mine", *flags).code == 0
        offered = [{tool["function"]["name"] for tool in one.json.get("tools", [])} for one in model.requests]
    assert "Bash" not in offered[0]
    assert "Read" in offered[0]
    assert offered[1] == {"Read", "Grep"}
    assert offered[2] == set()


def test_10_limits_end_a_run_with_their_subtype(world: World) -> None:
    with ScriptedModel([call("LS", path="."), call("LS", path=".")]) as model:
        on(world, model)
        done = world.cli("-p", "look", "--provider", "mine", "--max-turns", "2", "--output-format", "json")
        (result,) = lines(done)
        assert (done.code, result["subtype"], result["num_turns"]) == (4, "error_max_turns", 2), result
        assert "2 replies" in result["errors"][0]
        assert "--max-turns" in done.err
        assert "max_tool_rounds" not in done.err
        on(world, model, prices="[models.m]\ninput_per_mtok = 1000000\noutput_per_mtok = 1000000\n")
        done = world.cli("-p", "look", "--provider", "mine", "--max-budget-usd", "0.5", "--output-format", "json")
        (result,) = lines(done)
        assert (done.code, result["subtype"]) == (4, "error_max_budget_usd"), result
        assert "0.5" in result["errors"][0]


def test_10_a_script_is_not_held_to_the_rounds_of_a_chat(world: World) -> None:
    world.cli.configure(f'workspace_dir = "{world.workspace}"\n[providers.models.local]\nkind = "mock"\nmodel = "m"\n')
    world.script(*(call("LS", path=f"./{'/.' * number}") for number in range(8)), text("Seen."))
    done = world.cli("-p", "look around", cwd=world.workspace)
    assert (done.code, done.out) == (0, "Seen.\n"), done.err


def test_10_prompts_of_flags_reach_the_model(world: World, tmp_path: Path) -> None:
    file = tmp_path / "more.md"
    file.write_text("Speak like a gardener.", encoding="utf-8")
    with ScriptedModel([text("a")] * 4) as model:
        on(world, model)
        for flags in (
            ("--append-system-prompt", "- be brief"),
            ("--append-system-prompt-file", str(file)),
            ("--system-prompt", "You are a lamp."),
            ("--system-prompt-file", str(file), "--append-system-prompt=Be brief."),
        ):
            assert world.cli("-p", "x", "--provider", "mine", *flags).code == 0
    usual = "You are AdderClaw"
    assert usual in system_of(model)
    assert system_of(model).endswith("\n\n- be brief")
    assert system_of(model, 1).endswith("Speak like a gardener.")
    assert system_of(model, 2).startswith("You are a lamp.")
    assert usual not in system_of(model, 2)
    assert "outside-MARK" in system_of(model, 2), "what frames mean is said whatever the prompt is"
    assert system_of(model, 3).startswith("Speak like a gardener.")
    assert system_of(model, 3).endswith("Be brief.")


def test_10_conversations_go_on_and_fork(world: World) -> None:
    (world.workspace / "a.txt").write_text("heliotrope\n", encoding="utf-8")
    with ScriptedModel([call("Read", file_path="a.txt"), *map(text, "abcd")]) as model:
        on(world, model)

        def said(*flags: str) -> Json:
            (result,) = lines(world.cli("-p", "go", "--provider", "mine", "--output-format", "json", *flags))
            assert result["outcome"] == "completed", result
            return result

        first = said()
        assert said("--resume", first["session_id"])["session_id"] == first["session_id"]
        forked = said("-r", first["session_id"], "--fork-session")
        assert forked["session_id"] != first["session_id"]
        assert said("-c")["session_id"] == forked["session_id"]
        heard = [json.dumps(request.messages) for request in model.requests]
        assert all("heliotrope" in one for one in heard[1:])
        assert len(model.requests[3].messages) == len(model.requests[2].messages) + 2
    assert world.cli("receipt", "verify").code == 0, "the copy has no calls of its own"
    own = world.rows("SELECT count(*) FROM transcript_entries WHERE session_id = ?", first["session_id"])
    assert own == [(7,)], "the first has nothing of what was said in its copy"
    named = "01234567-89ab-4cde-8f01-23456789abcd"
    world.script(text("named"))
    (result,) = lines(world.cli("-p", "x", "--session-id", named.upper(), "--output-format", "json"))
    assert result["session_id"] == named
    again = world.cli("-p", "x", "--session-id", named)
    assert (again.code, "already" in again.err) == (2, True)
    assert "still apply" in world.cli("-p", "x", "--setting-sources", "user", "-r", named).err
    assert world.cli("-p", "x", "--fork-session").code == 2
    assert world.cli("-p", "x", "--resume", "nothing-like-it").code == 2
    assert world.cli("-p", "x", "--resume", "").code == 2


def test_10_models_of_flags_and_their_fallback(world: World) -> None:
    broken = {
        "error": {"status": 400, "body": {"error": {"message": "no such model", "type": "invalid_request_error"}}}
    }
    down = {"error": {"status": 401, "body": {"error": {"message": "bad key"}}}}
    with ScriptedModel([text("a"), down, text("b"), broken]) as model:
        on(world, model)
        assert world.cli("-p", "x", "--provider", "mine", "--model", "large").out == "a\n"
        done = world.cli("-p", "x", "--model", "mine/large", "--fallback-model", "mine/small, mine")
        assert (done.code, done.out) == (0, "b\n"), done.err
        failed = world.cli("-p", "x", "--model", "mine/huge", "--output-format", "json")
        assert [request.json["model"] for request in model.requests] == ["large", "large", "small", "huge"]
        model.add({"text": "c"})
        assert world.cli("-p", "x", "--provider", "mine", "--model", "sonnet").out == "c\n"
        assert model.requests[-1].json["model"] == "m", "a name of elsewhere is the model that there is"
    with ScriptedMessages([{"text": "d"}]) as claude:
        entry = f'kind = "anthropic"\nbase_url = "{claude.base_url}"\nmodel = "claude-haiku-4-5"\napi_key_env = "K"\n'
        world.configure(more=f"[providers.models.theirs]\n{entry}")
        done = world.cli("-p", "x", "--provider", "theirs", "--model", "opus", env={"K": "sk-ant-0123456789"})
        assert done.out == "d\n", done.err
        assert claude.requests[0].json["model"].startswith("claude-opus-")
    (result,) = lines(failed)
    assert (failed.code, result["is_error"], result["subtype"]) == (1, True, "error_during_execution")
    assert "no such model" in result["result"]


def test_10_directories_servers_and_subagents_of_flags(world: World, tmp_path: Path) -> None:
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "b.txt").write_text("periwinkle\n", encoding="utf-8")
    server = Path(__file__).parents[1] / "tools" / "mcp" / "a_server.py"
    servers = {"mcpServers": {"demo": {"type": "stdio", "command": sys.executable, "args": [str(server)]}}}
    agents = {"gardener": {"description": "knows plants", "prompt": "You know plants.", "tools": ["Read"]}}
    with ScriptedModel(
        [
            call("Read", file_path=str(beside / "b.txt")),
            call("mcp__demo__add", a=2, b=3),
            call("Agent", description="ask", prompt="which?", subagent_type="gardener"),
            text("It is a plant."),
            text("All done."),
        ]
    ) as model:
        on(world, model)
        flags = ("--add-dir", str(beside), "--mcp-config", json.dumps(servers), "--strict-mcp-config")
        rules = ("--allowedTools", "mcp__demo__add", "--agents", json.dumps(agents))
        done = world.cli("-p", "do", "--provider", "mine", *flags, *rules, "--output-format", "stream-json")
        told = lines(done)
        results = [line["message"]["content"][0]["content"] for line in told if line["type"] == "user"]
        assert done.code == 0, done.err
        assert "periwinkle" in results[0]
        assert "5" in results[1]
        assert "It is a plant." in results[2]
        assert "You know plants." in system_of(model, 3)
        assert "gardener: knows plants" in json.dumps(model.requests[0].json["tools"])
    assert told[0]["mcp_servers"] == [{"name": "demo", "status": "pending"}]


WRONG: Mapping[str, tuple[tuple[str, ...], str]] = {
    "an unknown flag": (("--outptu-format", "json"), "did you mean --output-format?"),
    "an unknown format": (("--output-format", "xml"), "text, json, stream-json"),
    "no value": (("--model",), "MODEL is missing"),
    "no turns": (("--max-turns", "0"), "above 0"),
    "no money": (("--max-budget-usd", "nan"), "above 0"),
    "no rule": (("--allowed-tools", "Bash(("), "is no rule"),
    "no mode": (("--permission-mode", "yolo"), "acceptEdits"),
    "no directory": (("--add-dir", "/nowhere/at/all"), "is no directory"),
    "no servers": (("--mcp-config", "[]"), "cannot be read"),
    "servers of no shape": (("--mcp-config", '{"mcpServers": {"x": 1}}'), "mcpServers"),
    "agents of no shape": (("--agents", '{"x": {"prompt": "y"}}'), "description"),
    "partial messages in text": (("--include-partial-messages",), "needs --output-format stream-json"),
    "streams one way": (("--input-format", "stream-json"), "needs --output-format stream-json"),
    "two prompts": (("--system-prompt", "a", "--system-prompt-file", "b"), "give one of them"),
    "two modes": (("--dangerously-skip-permissions", "--permission-mode", "plan"), "use only one"),
    "an id that is none": (("--session-id", "../x"), "is not a UUID"),
    "an id for an old session": (("--session-id", f"{'1' * 8}-1111-1111-1111-{'1' * 12}", "-c"), "new session"),
    "sources that are none": (("--setting-sources=user,friends",), "is not one of user, project, local"),
    "our own folder": (("--add-dir", "~/.adderclaw"), "AdderClaw's own files"),
    "quiet and debug": (("--quiet", "--debug"), "use only one"),
    "no JSON for a schema": (("--json-schema", "{"), "invalid JSON"),
    "no schema": (("--json-schema", '{"type": "hexagon"}'), "cannot be used as a JSON Schema"),
    "a schema without end": (("--json-schema", '{"$ref": "#"}'), "cannot be used as a JSON Schema"),
    "a schema elsewhere": (
        ("--json-schema", '{"$ref": "https://example.com/s.json"}'),
        "cannot be used as a JSON Schema",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_10_a_wrong_flag_is_said_before_anything_runs(world: World, name: str) -> None:
    flags, said = WRONG[name]
    world.script(text("never"))
    done = world.cli("-p", "hi", *flags)
    assert (done.code, done.out) == (2, ""), done.err
    assert said in done.err
    assert done.err.count("\n") == 1
    assert not world.database.exists()


SCHEMA = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})


def test_10_an_answer_of_a_schema_is_checked_and_mended_once(world: World) -> None:
    with ScriptedModel(
        [text('{"n": 4}'), text("It is four."), text('```json\n{"n": 5}\n```'), text("no"), text('{"n": "x"}')]
    ) as model:
        on(world, model)

        def asked(shown: str) -> Done:
            return world.cli("-p", "how many?", "--provider", "mine", "--json-schema", SCHEMA, "--output-format", shown)

        assert asked("text").out == '{"n":4}\n'
        (mended,) = lines(asked("json"))
        failed = asked("json")
    assert '"required":["n"]' in system_of(model)
    assert (mended["structured_output"], mended["result"], mended["num_turns"]) == ({"n": 5}, '{"n":5}', 2)
    assert "does not match" in str(model.requests[2].messages[-1]["content"])
    (result,) = lines(failed)
    assert (failed.code, result["subtype"]) == (1, "error_max_structured_output_retries")
    assert "structured_output" not in result
    assert "integer" in result["errors"][0]


def test_10_a_signal_ends_a_stream_with_its_result(world: World) -> None:
    with ScriptedModel([{"hang": 60}]) as model:
        on(world, model)
        process = world.cli.start("-p", "hi", "--provider", "mine", "--output-format", "stream-json")
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        assert json.loads(process.stdout.readline())["subtype"] == "init"
        until(lambda: bool(model.requests))
        process.terminate()
        (end,) = map(json.loads, process.stdout.read().splitlines())
        assert process.wait(60) == 143
    assert (end["type"], end["outcome"], end["exit_code"]) == ("result", "stopped", 143)


def test_10_a_client_that_closes_early_ends_the_run(world: World) -> None:
    with ScriptedModel([call("LS", path="."), {"hang": 60}]) as model:
        on(world, model)
        process = world.cli.start("-p", "hi", "--provider", "mine", "--output-format", "stream-json")
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 6
        assert process.stderr is not None
        process.stderr.close()
    assert world.rows("SELECT outcome FROM runs") == [("stopped",)]


def test_10_print_without_a_model_is_no_success_and_a_key_that_is_used_is_named(world: World) -> None:
    world.cli.configure(f'workspace_dir = "{world.workspace}"\n')
    done = world.cli("-p", "hi")
    assert (done.code, done.out) == (2, "")
    assert "no model is configured" in done.err
    with ScriptedMessages([{"text": "a"}, {"text": "b"}]) as model:
        keys = {"ANTHROPIC_API_KEY": "sk-ant-0123456789", "ANTHROPIC_BASE_URL": model.base_url}
        done = world.cli("-p", "hi", env=keys)
        quiet = world.cli("-p", "hi", "--quiet", env=keys)
    assert "ANTHROPIC_API_KEY (anthropic, claude-sonnet-" in done.err
    assert (quiet.out, quiet.err) == ("b\n", "")


def test_10_help_lists_the_flags(world: World) -> None:
    done = world.cli("-p", "--help")
    assert done.code == 0
    for flag in ("--allowed-tools, --allowedTools", "--json-schema JSON", "--fork-session", "Exit codes: 0"):
        assert flag in done.out
    assert subprocess.run([*world.cli.argv("-p"), "-h"], env=world.cli.env, capture_output=True).returncode == 0


def test_11_print_calls_commands_and_skills_by_name(world: World) -> None:
    folder = world.workspace / ".claude" / "commands"
    folder.mkdir(parents=True)
    (folder / "state.md").write_text("---\nallowed-tools: Write\n---\nState of $ARGUMENTS: !`cat state.txt`\n")
    (world.workspace / "state.txt").write_text("42 apples\n")
    assert world.cli("trust", str(world.workspace)).code == 0
    world.script(call("Write", file_path="w.txt", content="x"), text("one"))
    done = world.cli("-p", "/state the $(touch pwned) garden", stdin="; touch pwned\nmore\n")
    assert (done.code, done.out) == (0, "one\n"), done.err
    sent = json.dumps(world.entries("user")[0]["content"])
    assert "State of the $(touch pwned) garden: `cat state.txt`" in sent
    assert "42 apples" in sent
    assert "This was piped in with it" in sent
    assert (world.workspace / "w.txt").read_text() == "x", "its allowed-tools hold for the turn"
    assert not (world.workspace / "pwned").exists()
    assert [one["tool"] for one in world.receipts()] == ["Bash", "Write"]
    (run,) = world.rows("SELECT run_id FROM runs")
    assert world.cli("replay", str(run[0]), "--verify").code == 0


def test_11_what_is_only_piped_in_or_names_nothing_is_a_message(world: World) -> None:
    folder = world.workspace / ".claude" / "commands"
    folder.mkdir(parents=True)
    (folder / "greet.md").write_text("Say hello to $ARGUMENTS.\n")
    for given, stdin in ((("/etc/hosts has what?",), ""), ((), "/greet you\n"), (("/greet you",), "")):
        world.script(text("one"))
        done = world.cli("-p", *given, stdin=stdin)
        assert done.code == 0, done.err
    first, second, third = (json.dumps(entry["content"]) for entry in world.entries("user"))
    assert "/etc/hosts has what?" in first
    assert "/greet you" in second
    assert "Say hello to you." in third


def test_10_help_names_print_mode_and_what_opens_a_conversation(world: World) -> None:
    shown = world.cli("--help").out
    for line in ("adderclaw    ", 'adderclaw "SOME WORDS"', "adderclaw -c ", "adderclaw -r ", 'adderclaw -p "MESSAGE"'):
        assert f"\n  {line}" in shown, shown
