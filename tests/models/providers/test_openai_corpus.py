"""Recorded answers of five wires, read whole, cut at every byte, and cut off."""

from collections.abc import Mapping
from typing import Any

import pytest

from adderclaw.config.schema import ProviderEntry
from adderclaw.core.errors import ProviderError
from adderclaw.core.types import Provider
from adderclaw.models.providers.reading import Events
from tests.models.providers.corpus_files import Recorded, recorded, summary
from tests.models.providers.making import READ, Heard, House, ask, request
from tests.rows import rows
from tests.scripted import ScriptedModel
from tests.scripted_responses import ScriptedResponses

KINDS: dict[str, Any] = {
    "openai-responses": "openai",
    "openai-chat": "openai-compatible",
    "openrouter": "openrouter",
    "ollama": "ollama",
    "lm-studio": "lm-studio",
}
FILES = recorded(*KINDS)
ANSWERS = [one for one in FILES if "error" not in one.expected]
STREAMS = [one for one in ANSWERS if one.streamed]
CANARY = "canary-9f8e7d6c5b4a3210"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", CANARY)


def server(one: Recorded, *steps: Mapping[str, object]) -> ScriptedModel:
    return ScriptedResponses(steps) if one.path.parent.name == "openai-responses" else ScriptedModel(steps)


def provider(one: Recorded, base_url: str) -> Provider:
    kind = KINDS[one.path.parent.name]
    entry = ProviderEntry(kind=kind, base_url=base_url, model="m", api_key_env="SOME_KEY", stream=one.streamed)
    return House({"p": entry}).make("p")


@rows("one", [one for one in FILES if "error" in one.expected], ids=str)
def test_each_error_is_classified_in_one_line(one: Recorded) -> None:
    with server(one, one.step) as model, pytest.raises(ProviderError) as caught:
        ask(provider(one, model.base_url), request(tools=(READ,)))
    said = str(caught.value)
    assert caught.value.kind == one.expected["error"], said
    assert one.expected.get("words", "") in said
    assert "; " in said, "no fix is named"
    assert "\n" not in said
    assert CANARY not in said


@rows("one", STREAMS, ids=str)
def test_a_stream_that_is_cut_off_is_no_answer(one: Recorded) -> None:
    whole = one.text.encode()
    # a chat completion is whole with its finish_reason; what a response says is whole with its last event only
    last = whole.rindex(b'"finish_reason":"') if b'"finish_reason":"' in whole else whole.rindex(b"data: ")
    last = whole.rindex(b"data: ", 0, last + 1)
    cuts = sorted({*range(0, last, max(1, last // 15)), last})
    broken: list[Mapping[str, object]] = [{**one.step, "cut": at} for at in cuts]
    ended = [{**one.step, "raw": whole[:at].decode(errors="ignore")} for at in cuts]
    with server(one, *broken, *ended) as model:
        for _ in broken + ended:
            with pytest.raises(ProviderError) as caught:
                ask(provider(one, model.base_url), request(tools=(READ,)))
            assert caught.value.kind == "malformed"


@rows("one", ANSWERS, ids=str)
def test_each_answer_says_what_it_says(one: Recorded) -> None:
    heard = Heard()
    with server(one, one.step) as model:
        response = ask(provider(one, model.base_url), request(tools=(READ,)), heard=heard)[0]
    thinking = "".join(delta.text for delta in heard if delta.kind == "thinking")
    expected = dict(one.expected)
    assert thinking == expected.pop("thinking", "")
    assert summary(response) == expected
    assert heard.text == response.final_text
    assert [delta.text for delta in heard if delta.kind == "tool"] == [call.name for call in response.tool_calls]


@rows("one", ANSWERS, ids=str)
def test_in_pieces_of_any_size_it_says_the_same(one: Recorded) -> None:
    sizes = (1, 2, 3, 7, 64, 1000)
    with server(one, *({**one.step, "piece": size} for size in sizes)) as model:
        answers = ask(provider(one, model.base_url), *(request(tools=(READ,)) for _ in sizes))
    expected = {key: value for key, value in one.expected.items() if key != "thinking"}
    assert [summary(answer) for answer in answers] == [expected] * len(sizes)


@rows("one", STREAMS, ids=str)
@rows("newline", [b"\n", b"\r\n", b"\r"])
def test_cut_in_two_at_every_byte_the_events_are_the_same(one: Recorded, newline: bytes) -> None:
    whole = one.text.encode().replace(b"\n", newline)
    events = Events()
    expected = events.feed(whole) + events.end()
    assert len(expected) == one.text.count("\ndata: ") + one.text.startswith("data: ")
    for at in range(len(whole) + 1):
        events = Events()
        assert events.feed(whole[:at]) + events.feed(whole[at:]) + events.end() == expected
