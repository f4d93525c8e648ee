"""The scripted provider: its fixture, its place in the script, what it says without one."""

import json
from pathlib import Path
from typing import Any

import pytest

from adderclaw.config.schema import ProviderEntry
from adderclaw.core.errors import ConfigError, ProviderError
from adderclaw.core.types import ChatResponse, Message, Provider, TextBlock, ToolCall, ToolUseBlock, Usage
from adderclaw.models.providers.mock import Mock
from tests.models.providers.making import Heard, House, ask, request, result, run, user


def house_of(tmp_path: Path, whole: Any) -> House:
    file = tmp_path / "fixture.json"
    file.write_text(whole if isinstance(whole, str) else json.dumps(whole), encoding="utf-8")
    return House({"p": ProviderEntry(kind="mock", fixture=str(file))})


def mock(tmp_path: Path, *steps: Any, **more: Any) -> Mock:
    made = house_of(tmp_path, {"steps": list(steps), **more}).make("p")
    assert isinstance(made, Mock)
    return made


def assistant(response: ChatResponse) -> Message:
    text = (TextBlock(response.final_text),) if response.final_text else ()
    return Message("assistant", (*text, *(ToolUseBlock(call) for call in response.tool_calls)))


# ------------------------------------------------------------------ wrong fixtures


WRONG: list[Any] = [
    ("{", "", "is not JSON"),
    ("[]", "", "steps"),
    ({"stepps": []}, "", "unknown key 'stepps'"),
    ({}, "steps", "list"),
    ({"steps": {}}, "steps", "list"),
    ({"steps": [], "partial": 1}, "partial", "true or false"),
    ({"steps": ["hi"]}, "steps[0]", "object"),
    ({"steps": [{"text": "a"}, {}]}, "steps[1]", "empty"),
    ({"steps": [{"txt": "a"}]}, "steps[0]", "unknown key 'txt'; known: delay_ms, error, text, tool_calls, usage"),
    ({"steps": [{"text": 5}]}, "steps[0].text", "5"),
    ({"steps": [{"delay_ms": -1}]}, "steps[0].delay_ms", "-1"),
    ({"steps": [{"delay_ms": "1"}]}, "steps[0].delay_ms", "'1'"),
    ({"steps": [{"delay_ms": True}]}, "steps[0].delay_ms", "True"),
    ({"steps": [{"tool_calls": {}}]}, "steps[0].tool_calls", "list"),
    ({"steps": [{"tool_calls": [{}]}]}, "steps[0].tool_calls[0].name", "name of a tool"),
    ({"steps": [{"tool_calls": [{"name": "a", "args": {}}]}]}, "steps[0].tool_calls[0]", "unknown key 'args'"),
    ({"steps": [{"tool_calls": [{"name": "a", "arguments": [1]}]}]}, "steps[0].tool_calls[0].arguments", "object"),
    ({"steps": [{"error": "boom"}]}, "steps[0].error", "unknown error kind 'boom'; known: authentication_failed"),
    ({"steps": [{"error": {"kind": "timeout", "why": 1}}]}, "steps[0].error", "unknown key 'why'"),
    ({"steps": [{"error": "timeout", "text": "a"}]}, "steps[0]", "two steps"),
    ({"steps": [{"text": "a", "usage": {"input_tokens": "x"}}]}, "steps[0].usage.input_tokens", "tokens"),
    ({"steps": [{"text": "a", "usage": {"tokens": 1}}]}, "steps[0].usage", "unknown key"),
]


@pytest.mark.parametrize(("whole", "place", "words"), WRONG)
def test_wrong_fixtures_name_file_place_and_fix(tmp_path: Path, whole: Any, place: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        house_of(tmp_path, whole).make("p")
    problem = caught.value.problems[0]
    assert problem.file == str(tmp_path / "fixture.json")
    assert problem.key == place
    assert words in problem.message


def test_a_fixture_that_is_not_there(tmp_path: Path) -> None:
    house = House({"p": ProviderEntry(kind="mock", fixture=str(tmp_path / "none.json"))})
    with pytest.raises(ConfigError, match=r"none.json: cannot be read .*ADDERCLAW_MOCK_FIXTURE"):
        house.make("p")


def test_beyond_the_script_is_an_error(tmp_path: Path) -> None:
    provider = mock(tmp_path, {"text": "one"})
    first = ask(provider, request())[0]
    with pytest.raises(ProviderError, match="all 1 steps were played") as caught:
        ask(provider, request(user("hello"), assistant(first), user("more")))
    assert caught.value.kind == "script"
    assert not caught.value.retryable


def test_an_empty_script_is_exhausted_at_once(tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match="all 0 steps"):
        ask(mock(tmp_path), request())


# ------------------------------------------------------------------ playing


def play(provider: Provider) -> list[ChatResponse]:
    """A conversation as the kernel leads it, until an answer has no calls."""

    async def turns() -> list[ChatResponse]:
        asked, answers = request(user("do it")), list[ChatResponse]()
        while not answers or answers[-1].tool_calls:
            answers.append(await provider.chat(asked, heard.append))
            asked.messages.append(assistant(answers[-1]))
            for call in answers[-1].tool_calls:
                asked.messages.append(result(call.id, f"result of {call.id}"))
        return answers

    heard = Heard()
    return run(turns())


def test_text_calls_both_and_the_last_result(tmp_path: Path) -> None:
    provider = mock(
        tmp_path,
        {"text": "I look.", "tool_calls": [{"name": "LS", "arguments": {"path": "."}}, {"name": "Time"}]},
        {"tool_calls": [{"name": "Read", "arguments": '{"file_path": '}]},
        {"text": "{{last_user}}: {{last_result}}!", "usage": {"input_tokens": 3, "output_tokens": 4}},
    )
    assert provider.finished() is not None
    first, second, third = play(provider)
    assert first.final_text == "I look."
    assert first.tool_calls == (ToolCall("call_1_0", "LS", {"path": "."}), ToolCall("call_1_1", "Time", {}))
    assert second.tool_calls == (ToolCall("call_2_0", "Read", None, '{"file_path": '),)
    assert third.final_text == "do it: result of call_2_0!"
    assert (third.usage, third.stop_reason, third.provider) == (Usage(3, 4), "end", "p")
    assert provider.finished() is None


def test_what_a_result_says_is_not_filled_in_again(tmp_path: Path) -> None:
    provider = mock(tmp_path, {"text": "{{last_result}}"})
    asked = request(user("me"), result("c", "{{last_user}}"))
    assert ask(provider, asked)[0].final_text == "{{last_user}}"


def test_another_process_goes_on_where_the_conversation_is(tmp_path: Path) -> None:
    steps = [{"tool_calls": [{"name": "LS"}]}, {"error": "timeout"}, {"text": "two"}]
    first = ask(mock(tmp_path, *steps), request())[0]
    again = mock(tmp_path, *steps)
    resumed = request(user("hello"), assistant(first), result("call_1_0", "x"))
    with pytest.raises(ProviderError):
        ask(again, resumed)
    assert ask(again, resumed)[0].final_text == "two"
    assert again.finished() is None


def test_errors_come_once_and_the_next_attempt_goes_on(tmp_path: Path) -> None:
    provider = mock(
        tmp_path, {"error": "timeout"}, {"error": {"kind": "rate_limit", "message": "slow down"}}, {"text": "fine"}
    )
    asked = request()
    with pytest.raises(ProviderError, match="scripted error") as caught:
        ask(provider, asked)
    assert caught.value.kind == "timeout"
    with pytest.raises(ProviderError, match="slow down"):
        ask(provider, asked)
    assert ask(provider, asked)[0].final_text == "fine"


def test_an_answer_that_left_no_message_is_not_given_twice(tmp_path: Path) -> None:
    provider, asked = mock(tmp_path, {"text": ""}, {"text": "now"}), request()
    assert [one.final_text for one in ask(provider, asked, asked)] == ["", "now"]


def test_two_conversations_each_play_the_script(tmp_path: Path) -> None:
    provider = mock(tmp_path, {"text": "one"})
    assert [one.final_text for one in ask(provider, request(), request())] == ["one", "one"]


def test_delays_use_the_clock(tmp_path: Path) -> None:
    house = house_of(tmp_path, {"steps": [{"delay_ms": 1500}, {"delay_ms": 500, "text": "a"}]})
    assert ask(house.make("p"), request())[0].final_text == "a"
    assert house.time.slept == [1.5, 0.5]


@pytest.mark.parametrize(("more", "complains"), [({}, True), ({"partial": False}, True), ({"partial": True}, False)])
def test_steps_left_over_are_complained_of(tmp_path: Path, more: dict[str, Any], complains: bool) -> None:
    provider = mock(tmp_path, {"text": "a"}, {"text": "b"}, {"text": "c"}, **more)
    ask(provider, request())
    complaint = provider.finished()
    assert (complaint is not None) == complains
    if complaint:
        assert "fixture.json: 2 of 3 steps were not played, from step 2 on" in complaint


def test_the_variable_names_a_fixture_and_the_entry_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("variable", "entry"):
        (tmp_path / name).write_text(json.dumps({"steps": [{"text": name}]}))
    monkeypatch.setenv("ADDERCLAW_MOCK_FIXTURE", str(tmp_path / "variable"))
    house = House({"a": ProviderEntry(kind="mock"), "b": ProviderEntry(kind="mock", fixture=str(tmp_path / "entry"))})
    assert [ask(house.make(name), request())[0].final_text for name in "ab"] == ["variable", "entry"]


def test_without_a_fixture_it_tells_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ADDERCLAW_MOCK_FIXTURE", raising=False)
    heard = Heard()
    provider = House({"p": ProviderEntry(kind="mock")}).make("p")
    answers = ask(provider, request(user("my key is hunter2-hunter2")), request(), heard=heard)
    assert "adderclaw onboard" in answers[0].final_text
    assert "hunter2" not in answers[0].final_text
    assert answers[0].final_text == answers[1].final_text
    assert heard.text == answers[0].final_text * 2
    assert isinstance(provider, Mock)
    assert provider.finished() is None
