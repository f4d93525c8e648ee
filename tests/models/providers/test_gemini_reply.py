"""What comes back from the Gemini API, in every shape that it has, cut anywhere."""

import json
from pathlib import Path
from typing import Any

import pytest

from adderclaw.core.errors import ProviderError
from adderclaw.core.history import History, message_json
from adderclaw.core.types import Block, ChatResponse, Message, StopReason, TextBlock, ToolCall, ToolUseBlock, Usage
from adderclaw.models.providers.gemini import Gemini
from adderclaw.models.providers.gemini_reply import Answer
from adderclaw.models.providers.reading import Events
from tests.models.providers.making import Heard, House, ask, called, result, run, user
from tests.models.providers.making_gemini import (
    ANSWERS,
    CANARY,
    CORPUS,
    STREAMS,
    asking,
    gemini,
    gemini_entry,
    played,
    type_of,
)
from tests.rows import rows
from tests.scripted_gemini import ScriptedGemini, stream_of


@pytest.fixture(autouse=True)
def key(home: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", CANARY)


def of(name: str, heard: list[Any] | None = None, **step: Any) -> ChatResponse:
    file = CORPUS / name
    return played(file.read_bytes(), type_of(file), heard, **step)


def streamed(*chunks: Any, **step: Any) -> ChatResponse:
    return played(stream_of(chunks).encode(), "text/event-stream", **step)


def chunk(*parts: Any, finish: str | None = "STOP", **more: Any) -> dict[str, Any]:
    ended = {"finishReason": finish} if finish else {}
    return {"candidates": [{"content": {"parts": list(parts), "role": "model"}, **ended}], **more}


def failure(step: dict[str, Any], **entry: Any) -> ProviderError:
    with ScriptedGemini([step]) as model, pytest.raises(ProviderError) as caught:
        ask(gemini(model.base_url, **entry), asking())
    assert "\n" not in str(caught.value)
    assert CANARY not in str(caught.value)
    return caught.value


# ------------------------------------------------------------------ what is not an answer


@rows(
    ("step", "words"),
    [
        ({"broken_json": True}, ["not a JSON object", "text/event-stream"]),
        ({"broken_json": True, "stream": False}, ["did not answer with JSON", "application/json"]),
        ({"html": "<html><h1>Sign in</h1>"}, ["text/html", "<html><h1>Sign in</h1>"]),
        ({"raw": ""}, ["ended before the answer was whole", "nothing"]),
        ({"raw": "", "stream": False}, ["did not answer with JSON", "nothing"]),
        ({"raw": "[7]", "stream": False}, ["without `candidates`"]),
        ({"raw": "[]", "stream": False}, ["ended before the answer was whole"]),
        ({"raw": "{}", "stream": False}, ["ended before the answer was whole"]),
        ({"raw": "data: [1]\r\n\r\n"}, ["not a JSON object"]),
        ({"raw": "data: " + "[" * 100_000 + "\n\n"}, ["not a JSON object"]),
        (
            {"raw": stream_of([chunk({"text": "half of a"}, finish=None)])},
            ["ended before the answer was whole", "ask again"],
        ),
        ({"text": "a b c", "cut": 40}, ["cut the answer off", "ask again"]),
        ({"text": "a", "stream": False, "cut": 20}, ["cut the answer off", "ask again"]),
        ({"finish_reason": "MALFORMED_FUNCTION_CALL"}, ["MALFORMED_FUNCTION_CALL", "retrying or another model"]),
        ({"finish_reason": "UNEXPECTED_TOOL_CALL", "stream": False}, ["UNEXPECTED_TOOL_CALL"]),
    ],
)
def test_malformed_answers_say_what_came(step: dict[str, Any], words: list[str]) -> None:
    error = failure(step)
    assert error.kind == "malformed"
    assert all(word in str(error) for word in words), str(error)
    assert "ask again" not in words or "base_url" not in str(error)
    assert len(str(error)) < 400


def test_what_the_server_says_of_a_broken_call_is_quoted() -> None:
    candidate = {"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": f"Malformed: print(\n{CANARY} \x1b[1m"}
    error = failure({"raw": stream_of([{"candidates": [candidate]}])})
    assert "Malformed: print( [redacted] \\u{1b}[1m" in str(error)


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_beyond_the_limit_is_refused(stream: bool) -> None:
    with ScriptedGemini([{"text": "word " * 1000, "stream": stream}]) as model:
        house = House({"g": gemini_entry(model.base_url)}, max_response_bytes=1000)
        with pytest.raises(ProviderError, match="max_response_bytes = 1000") as caught:
            ask(house.make("g"), asking())
    assert caught.value.kind == "invalid_request"


def test_a_server_that_stays_silent_is_given_up() -> None:
    assert failure({"hang": 30}, timeout_seconds=0.3).kind == "timeout"


# ------------------------------------------------------------------ the corpus

ENDS: dict[str, tuple[str, list[str], StopReason, Usage]] = {
    "text.sse": ("The capital of France is **Paris**, on the Seine.\n", [], "end", Usage(12, 55)),
    "unicode.sse": ('Grüße, 日本語 — 👩‍👩‍👧 🇫🇷 "quoted" \\ back', [], "end", Usage(9, 21)),
    "line_separator.sse": ("a\u2028b\u2029c\u0085d", [], "end", Usage(9, 4)),
    "thought_and_call.sse": ("", ["Read"], "tool_use", Usage(431, 69)),
    "parallel_calls.sse": ("", ["Read", "Grep", "Time"], "tool_use", Usage(169, 184, 2041)),
    "text_then_calls_without_ids.sse": ("I'll look at both.", ["Read", "Read"], "tool_use", Usage(310, 31)),
    "signed_text.sse": ("Both files are empty.", [], "end", Usage(900, 215)),
    "interleaved.sse": ("First the date, then the list.", ["Time", "LS"], "tool_use", Usage(50, 33)),
    "empty_chunks.sse": ("ok", [], "end", Usage(7, 1)),
    "max_tokens.sse": ("Once upon a time there was a snake that only", [], "max_tokens", Usage(11, 16)),
    "thought_until_the_limit.sse": ("", [], "max_tokens", Usage(15, 255)),
    "safety.sse": ("To begin with, ", [], "refusal", Usage(19, 4)),
    "recitation.sse": ("It was the best of times", [], "refusal", Usage(22, 6)),
    "prohibited_content.sse": ("", [], "refusal", Usage(22, 0)),
    "blocked_prompt.sse": ("", [], "refusal", Usage(31, 0)),
    "blocked_prompt_with_ratings.sse": ("", [], "refusal", Usage(31, 0)),
    "json_mode.sse": ('{\n  "answer": "yes",\n  "sure": true\n}', [], "end", Usage(64, 16)),
    "whole_text.json": ("Paris. On the Seine.", [], "end", Usage(12, 47)),
    "whole_call.json": ("", ["Time"], "tool_use", Usage(88, 39)),
    "whole_blocked.json": ("", [], "refusal", Usage(5, 0)),
    "list_of_chunks.json": ("Hello", [], "end", Usage(3, 2)),
}


def test_every_answer_of_the_corpus_is_expected() -> None:
    assert {file.name for file in ANSWERS} == set(ENDS)


@rows("name", ENDS)
def test_answers(name: str) -> None:
    heard = Heard()
    got = of(name, heard)
    text, calls, reason, usage = ENDS[name]
    assert (got.final_text, [call.name for call in got.tool_calls], got.stop_reason) == (text, calls, reason)
    assert got.usage == usage
    assert heard.text == text
    assert [delta.text for delta in heard if delta.kind == "tool"] == calls
    assert got.model.startswith("gemini-")
    assert got.provider == "g"


@rows("file", STREAMS, ids=lambda file: file.stem)
def test_cut_at_every_byte_the_answer_is_the_same(file: Path) -> None:
    """Over HTTP with every byte a piece of its own; then in two pieces, at each place where that can be."""
    whole = of(file.name)
    assert of(file.name, piece=1) == whole
    assert of(file.name, piece=7) == whole
    provider, body = gemini("http://127.0.0.1:1"), file.read_bytes()
    expected = parsed(provider, body)
    assert expected == (whole.final_text, whole.tool_calls, whole.usage, whole.stop_reason, whole.opaque)
    for place in range(len(body)):
        assert parsed(provider, body[:place], body[place:]) == expected


@rows("file", STREAMS, ids=lambda file: file.stem)
def test_a_stream_that_ends_too_early_is_no_answer(file: Path) -> None:
    provider, body = gemini("http://127.0.0.1:1"), file.read_bytes()
    for place in range(len(body.rstrip())):
        with pytest.raises((ProviderError, ValueError)):
            parsed(provider, body[:place])


def parsed(provider: Gemini, *pieces: bytes) -> tuple[Any, ...]:
    events, answer = Events(), Answer(provider.wire, lambda _: None)
    for piece in pieces:
        for data in events.feed(piece):
            answer.take(json.loads(data))
    for data in events.end():
        answer.take(json.loads(data))
    answer.end()
    calls = answer.calls(History([user("hello")]))
    return answer.text, calls, answer.usage, answer.stop_reason, answer.opaque(calls)


@pytest.mark.parametrize("newline", ["\n", "\r"])
def test_other_line_ends_and_comments(newline: str) -> None:
    raw = ": hello\r\n\r\n" + stream_of([chunk({"text": "hi"})]) + "data: [DONE]\r\n\r\n"
    got = played(raw.replace("\r\n", newline).encode(), "text/event-stream")
    assert got.final_text == "hi"


@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream"])
def test_a_stream_is_known_by_its_looks(kind: str) -> None:
    assert played(stream_of([chunk({"text": "hi"})]).encode(), kind).final_text == "hi"


ODD_PARTS: list[tuple[list[Any], str]] = [
    ([None, 7, "x", [], {}], ""),
    ([{"text": 7}, {"text": None}], ""),
    ([{"text": "\ud83d"}, {"text": "\ude00 \ud83d"}], "😀 \ufffd"),
    ([{"text": "a", "thought": False}], "a"),
    ([{"text": "a", "thought": "yes"}], "a"),
    ([{"functionCall": "Read"}], ""),
]


@pytest.mark.parametrize(("parts", "text"), ODD_PARTS)
def test_odd_parts(parts: list[Any], text: str) -> None:
    body = json.dumps(chunk(*parts)).encode()
    assert played(body, "application/json").final_text == text


@pytest.mark.parametrize("odd", [None, [], [None], {}, "x", [{}], [{"content": 7, "finishReason": 7}]])
def test_odd_candidates_are_passed_over(odd: Any) -> None:
    assert streamed({"candidates": odd, "usageMetadata": 7}, chunk({"text": "a"})).final_text == "a"


@pytest.mark.parametrize(
    ("function", "arguments", "raw"),
    [
        ({"name": "Read"}, {}, ""),
        ({"name": "Read", "args": None}, {}, ""),
        ({"name": "Read", "args": {"a": [1, None]}}, {"a": [1, None]}, ""),
        ({"name": "Read", "args": [1]}, None, "[1]"),
        ({"name": "Read", "args": {"a": "\ud83d"}}, None, '{"a": "\\ud83d"}'),
        ({"name": "Read", "args": {"a": float("nan")}}, None, '{"a": NaN}'),
    ],
)
def test_arguments(function: Any, arguments: Any, raw: str) -> None:
    body = stream_of([chunk({"functionCall": function})]).encode("utf-8", "surrogatepass")
    body = json.dumps(chunk({"functionCall": function})).encode() if b"\xed\xa0" in body else body
    kind = "text/event-stream" if body.startswith(b"data") else "application/json"
    (call,) = played(body, kind).tool_calls
    assert (call.arguments, call.raw) == (arguments, raw)


@pytest.mark.parametrize("finish", ["OTHER", "TOO_MANY_TOOL_CALLS", "CONTINUATION", "A_NEW_ONE"])
def test_other_ends_are_other(finish: str) -> None:
    got = streamed(chunk({"text": "a"}, finish=finish))
    assert got.stop_reason == "other"
    assert got.raw_provider_payload == {"finish_reason": finish, "block_reason": None, "status": 200}


@pytest.mark.parametrize("finish", ["BLOCKLIST", "SPII", "IMAGE_SAFETY", "LANGUAGE"])
def test_other_refusals(finish: str) -> None:
    assert streamed(chunk(finish=finish)).stop_reason == "refusal"


# ------------------------------------------------------------------ ids


def test_given_ids_are_kept() -> None:
    assert [call.id for call in of("parallel_calls.sse").tool_calls] == ["8f2jv1kq", "c0m3xw9p", "0d5gq7zz"]


def test_calls_without_ids_get_their_own() -> None:
    calls = of("text_then_calls_without_ids.sse").tool_calls
    assert calls == (
        ToolCall("gemini_mHcYadK5C8Op1PIPh5zF4Qo_0", "Read", {"file_path": "a"}),
        ToolCall("gemini_mHcYadK5C8Op1PIPh5zF4Qo_1", "Read", {"file_path": "b"}),
    )


@rows("given", ["taken", "", "a b", "x\n", 7, "x" * 200])
@rows("response", ["", "r1", "a b\n"])
def test_ids_that_cannot_be_or_are_taken(given: Any, response: str) -> None:
    call: dict[str, Any] = {"functionCall": {"id": given, "name": "Read", "args": dict[str, Any]()}}
    history = [user("a"), called("taken", "Read", {}), result("taken", "x")]
    with ScriptedGemini([{"parts": [call, call], "response_id": response}]) as model:
        got = ask(gemini(model.base_url), asking(*history))[0]
    unique = "r1" if response == "r1" else "3"
    assert [one.id for one in got.tool_calls] == [f"gemini_{unique}_0", f"gemini_{unique}_1"]


# ------------------------------------------------------------------ thoughts and signatures go back as they came


def message_of(got: ChatResponse) -> Message:
    """As the kernel builds it."""
    text: tuple[Block, ...] = (TextBlock(got.final_text),) if got.final_text else ()
    return Message("assistant", (*got.opaque, *text, *map(ToolUseBlock, got.tool_calls)))


def parts_in(file: Path) -> list[Any]:
    """The parts of a stream; pieces that nobody signed count as one."""
    parts: list[Any] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("data: "):
            for candidate in json.loads(line[6:]).get("candidates", []):
                parts += candidate.get("content", {}).get("parts", [])
    return whole(parts)


def whole(parts: list[Any]) -> list[Any]:
    merged: list[Any] = [{}]
    for part in parts:
        last = merged[-1]
        if "text" in part and part.keys() == last.keys() and "thoughtSignature" not in part:
            merged[-1] = {**last, "text": last["text"] + part["text"]}
        elif part != {"text": ""}:
            merged.append(part)
    return merged[1:]


@pytest.mark.parametrize("name", ["thought_and_call", "parallel_calls", "signed_text", "interleaved"])
def test_thoughts_and_signatures_go_back_on_the_parts_they_came_with(name: str) -> None:
    file = CORPUS / f"{name}.sse"
    raw = file.read_text(encoding="utf-8")
    with ScriptedGemini([{"raw": raw}, {"text": "ok"}, {"text": "ok"}]) as model:
        provider = gemini(model.base_url)

        async def twice() -> None:
            asked = asking(user("a"))
            got = await provider.chat(asked, lambda _: None)
            asked.messages.append(message_of(got))
            await provider.chat(asked, lambda _: None)
            # and once more from what a store would give back
            again = json.loads(json.dumps(message_json(asked.messages.messages[1])))
            assert again["blocks"][0]["wire"] == "gemini"
            await provider.chat(asking(*asked.messages.messages), lambda _: None)
            await provider.close()

        run(twice())
    sent = model.asked[1].json["contents"][1]
    assert sent == {"role": "model", "parts": parts_in(file)}
    assert model.asked[2].body == model.asked[1].body


def test_a_plain_answer_leaves_nothing_to_keep() -> None:
    assert of("text.sse").opaque == ()
    assert of("text_then_calls_without_ids.sse").opaque == ()


def test_an_unknown_part_is_sent_back_as_it_came() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "print(1)"}, "thoughtSignature": "c2ln"}
    got = streamed(chunk({"text": "so"}, code, {"text": "1"}))
    assert got.final_text == "so1"
    with ScriptedGemini([{"text": "ok"}]) as model:
        ask(gemini(model.base_url), asking(user("a"), message_of(got)))
    assert model.asked[0].json["contents"][1]["parts"] == [{"text": "so"}, code, {"text": "1"}]


@pytest.mark.parametrize("text", ["First", "", "First the date, then the list. And [redacted]"])
def test_an_account_that_no_longer_fits_loses_nothing_that_is_there(text: str) -> None:
    got = of("interleaved.sse")
    kept: tuple[Block, ...] = (TextBlock(text),) if text else ()
    message = Message("assistant", (*got.opaque, *kept, ToolUseBlock(got.tool_calls[0])))
    with ScriptedGemini([{"text": "ok"}]) as model:
        ask(gemini(model.base_url), asking(user("a"), message))
    parts = model.asked[0].json["contents"][1]["parts"]
    assert "".join(part.get("text", "") for part in parts if not part.get("thought")) == text
    assert [part["functionCall"]["id"] for part in parts if "functionCall" in part] == ["k1"]
    assert {"text": ""} not in parts


def test_thoughts_are_heard_but_not_said() -> None:
    heard = Heard()
    assert of("thought_and_call.sse", heard).final_text == ""
    assert [delta.kind for delta in heard] == ["thinking", "thinking", "tool"]
