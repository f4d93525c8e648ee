"""What comes back from a chat completions server, in every shape that servers give it."""

import json
from typing import Any

import pytest

from adderclaw.core.errors import ProviderError
from adderclaw.core.types import ChatResponse, ToolCall, Usage
from tests.models.providers.making import READ, Heard, House, ask, called, chat_entry, request, result, user
from tests.rows import rows
from tests.scripted import ScriptedModel, Step

CALL = {"name": "Read", "arguments": {"file_path": "ä.txt"}}


def answer(*steps: Step, **more: Any) -> ChatResponse:
    with ScriptedModel(steps) as model:
        return ask(House({"p": chat_entry(model.base_url)}).make("p"), request(**more))[0]


def events(*chunks: Any, done: bool = True) -> str:
    lines = [chunk if isinstance(chunk, str) else f"data: {json.dumps(chunk)}" for chunk in chunks]
    return "".join(f"{line}\n\n" for line in lines) + ("data: [DONE]\n\n" if done else "")


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def piece(**fields: Any) -> dict[str, Any]:
    return delta(tool_calls=[fields])


def streamed(*chunks: Any, done: bool = True) -> ChatResponse:
    return answer({"raw": events(*chunks, done=done)})


def failure(step: Step, **entry: Any) -> ProviderError:
    limit = entry.pop("max_response_bytes", 1_048_576)
    with ScriptedModel([step]) as model, pytest.raises(ProviderError) as caught:
        ask(House({"p": chat_entry(model.base_url, **entry)}, max_response_bytes=limit).make("p"), request())
    assert "\n" not in str(caught.value)
    return caught.value


# ------------------------------------------------------------------ what is not an answer


@rows(
    ("step", "words"),
    [
        ({"broken_json": True}, ["not a JSON object", "text/event-stream"]),
        ({"broken_json": True, "stream": False}, ["did not answer with JSON", "application/json", '{"choices"']),
        ({"html": "<html><h1>Sign in</h1>"}, ["text/html", "<html><h1>Sign in</h1>"]),
        ({"html": "<html>", "content_type": "text/event-stream"}, ["before the answer was whole", "<html>"]),
        ({"raw": ""}, ["before the answer was whole", "nothing"]),
        ({"raw": "", "stream": False}, ["did not answer with JSON", "nothing"]),
        ({"raw": "[]", "stream": False}, ["without `choices`"]),
        ({"raw": '{"object":"list"}', "stream": False}, ["without `choices`"]),
        ({"raw": "data: [1]\n\n"}, ["not a JSON object"]),
        ({"raw": "data: " + "[" * 100_000 + "\n\n"}, ["not a JSON object"]),
        ({"raw": events(delta(content="half of a"), done=False)}, ["before the answer was whole", "ask again"]),
        ({"raw": events({"model": "m", "choices": []}, done=False)}, ["before the answer was whole", "ask again"]),
        ({"raw": events(delta(content="half"), done=False) + 'data: {"choi'}, ["not a JSON object", "ask again"]),
        ({"text": "a b c", "cut": 40}, ["cut the answer off", "ask again"]),
        ({"text": "a b c", "cut": 0}, ["cut the answer off", "ask again"]),
        ({"text": "a", "stream": False, "cut": 20}, ["cut the answer off", "ask again"]),
        ({"raw": "\x1b[31mred\u202e", "content_type": "text/plain"}, ["\\u{1b}[31mred\\u{202e}"]),
    ],
)
def test_malformed_answers_say_what_came(step: Step, words: list[str]) -> None:
    error = failure(step)
    assert error.kind == "malformed"
    assert all(word in str(error) for word in words), str(error)
    assert ("base_url" in str(error)) == ("ask again" not in str(error)), (
        "an answer that began came from the right place"
    )
    assert len(str(error)) < 400


@rows(
    ("error", "kind"),
    [
        ({"message": "overloaded", "type": "overloaded_error"}, "server_error"),
        ({"message": "x", "code": 502}, "server_error"),
        ({"message": "x", "code": 429}, "rate_limit"),
        ({"message": "x", "code": 402}, "billing_error"),
        ({"message": "Rate limit reached", "type": "requests"}, "rate_limit"),
        ({"message": "x", "code": "insufficient_quota"}, "billing_error"),
        ({"message": "x", "code": "invalid_api_key"}, "authentication_failed"),
        ({"message": "This model's maximum context length is 5", "code": None}, "context_overflow"),
        ({"message": "x", "type": "invalid_request_error"}, "invalid_request"),
        ("just words", "server_error"),
        (["odd"], "server_error"),
    ],
)
@rows("stream", [True, False])
def test_an_error_inside_a_200_is_classified(error: Any, kind: str, stream: bool) -> None:
    raw = events(delta(content="par"), {"error": error}) if stream else json.dumps({"error": error})
    assert failure({"raw": raw, "stream": stream}).kind == kind


def test_a_compressed_answer_was_not_asked_for() -> None:
    step: Step = {"error": {"status": 200, "body": "x", "headers": {"content-encoding": "gzip"}}}
    assert "compressed" in str(failure(step))


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_beyond_the_limit_is_refused(stream: bool) -> None:
    error = failure({"text": "word " * 1000, "stream": stream}, max_response_bytes=1000)
    assert error.kind == "invalid_request"
    assert "max_response_bytes = 1000" in str(error)


def test_the_limit_counts_what_is_said_not_what_wraps_it() -> None:
    with ScriptedModel([{"text": "word " * 100}]) as model:
        provider = House({"p": chat_entry(model.base_url)}, max_response_bytes=2000).make("p")
        assert ask(provider, request())[0].final_text == "word " * 100


# ------------------------------------------------------------------ whole answers


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("sent", [True, False])
def test_text_and_calls_streaming_or_not_whatever_was_asked(asked: bool, sent: bool) -> None:
    heard = Heard()
    with ScriptedModel([{"text": "let me  look\n", "tool_calls": [CALL, CALL], "stream": sent}]) as model:
        provider = House({"p": chat_entry(model.base_url, stream=asked)}).make("p")
        response = ask(provider, request(tools=(READ,)), heard=heard)[0]
    assert response.final_text == heard.text == "let me  look\n"
    assert response.tool_calls == (
        ToolCall("call-0-0", "Read", {"file_path": "ä.txt"}),
        ToolCall("call-0-1", "Read", {"file_path": "ä.txt"}),
    )
    assert response.stop_reason == "tool_use"
    assert (response.provider, response.model) == ("p", "m")
    assert [one.text for one in heard if one.kind == "tool"] == ["Read", "Read"]
    # a server that streams reports usage only if it was asked to
    assert response.usage == (Usage(100, 20) if asked or not sent else Usage())


def test_cut_at_every_byte_the_answer_is_the_same() -> None:
    step: Step = {"text": "ünï 😀 text", "tool_calls": [CALL]}
    whole = answer(step)
    for size in (1, 2, 3, 7, 64):
        assert answer({**step, "piece": size}) == whole


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_line_ends_comments_and_keepalives(newline: str) -> None:
    raw = ": OPENROUTER PROCESSING\n\n" + events(delta(content="hi"), ": ping", "event: x\nid: 3", delta("stop"))
    assert answer({"raw": raw.replace("\n", newline)}).final_text == "hi"


def test_a_whole_completion_as_an_event_and_a_summary_after_the_pieces() -> None:
    whole = {"choices": [{"message": {"content": "all"}, "finish_reason": "stop"}]}
    assert streamed(whole).final_text == "all"
    summary = {"choices": [{"delta": {}, "message": {"content": "all"}, "finish_reason": "stop"}]}
    assert streamed(delta(content="al"), delta(content="l"), summary).final_text == "all"


def test_data_over_several_lines() -> None:
    raw = 'data: {"choices": [{"delta":\ndata: {"content": "hi"},\ndata: "finish_reason": "stop"}]}\n\n'
    assert answer({"raw": raw}).final_text == "hi"


@pytest.mark.parametrize("kind", ["text/event-stream; charset=utf-8", "text/plain", "application/octet-stream"])
def test_a_stream_is_known_by_its_looks(kind: str) -> None:
    assert answer({"raw": events(delta("stop", content="hi")), "content_type": kind}).final_text == "hi"


def test_json_under_another_content_type() -> None:
    raw = json.dumps({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]})
    assert answer({"raw": raw, "content_type": "text/plain"}).final_text == "hi"


ENDS: list[Any] = [
    ((delta("stop", content="a"),), False, "a", "end"),
    ((delta(content="a"), delta(None)), True, "a", "end"),
    ((delta("length", content="a"),), True, "a", "max_tokens"),
    ((delta("content_filter", content="a"),), True, "a", "refusal"),
    ((delta(refusal="I will not"), delta("stop")), True, "I will not", "refusal"),
    ((delta("eos_token", content="a"),), True, "a", "other"),
    ((delta(content=[{"type": "text", "text": "a"}, {"type": "thinking"}]),), True, "a", "end"),
    ((delta(content=7), delta("stop", content=None)), True, "", "end"),
    (({"choices": []}, {"choices": None}, {}, {"choices": [{}]}, {"choices": [None]}), True, "", "end"),
    ((), True, "", "end"),
    ((delta(content="\ud83d"), delta(content="\ude00 \ud83d")), True, "😀 \ufffd", "end"),
]


@rows(("chunks", "done", "text", "reason"), ENDS)
def test_ends_and_odd_chunks(chunks: tuple[Any, ...], done: bool, text: str, reason: str) -> None:
    response = streamed(*chunks, done=done)
    assert (response.final_text, response.stop_reason) == (text, reason)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 2}, Usage(10, 2)),
        ({"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 8}}, Usage(2, 2, 8)),
        (
            {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 80}},
            Usage(0, 2, 10),
        ),
        ({"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": None}, Usage(10, 2)),
        ({"prompt_tokens": -1, "completion_tokens": "many"}, Usage()),
        (None, Usage()),
    ],
)
def test_usage(usage: Any, expected: Usage) -> None:
    assert streamed(delta("stop", content="a"), {"choices": [], "usage": usage}).usage == expected


def test_thinking_is_shown_and_kept_with_calls_alone() -> None:
    heard = Heard()
    raw = events(
        delta(reasoning_content="hm "), delta(reasoning_content="yes"), piece(index=0, id="c", **fn("Read", "{}"))
    )
    with ScriptedModel(
        [{"raw": raw}, {"raw": events(delta(reasoning_content="hm"), delta("stop", content="a"))}]
    ) as model:
        provider = House({"p": chat_entry(model.base_url)}).make("p")
        first, second = ask(provider, request(), request(), heard=heard)
    assert [one.text for one in heard if one.kind == "thinking"] == ["hm ", "yes", "hm"]
    assert [block.payload for block in first.opaque] == [{"reasoning_content": "hm yes"}]
    assert second.opaque == ()


# ------------------------------------------------------------------ tool calls


def fn(name: str | None, arguments: Any) -> dict[str, Any]:
    function = {} if name is None else {"name": name}
    return {"function": function if arguments is None else {**function, "arguments": arguments}}


@rows(
    ("arguments", "parsed", "raw"),
    [
        ('{"a": 1}', {"a": 1}, ""),
        ({"a": 1}, {"a": 1}, ""),
        ("", {}, ""),
        (None, {}, ""),
        ("  ", {}, ""),
        ('{"a": ', None, '{"a": '),
        ("[1]", None, "[1]"),
        ([1], None, "[1]"),
        ("null", None, "null"),
        ('"text"', None, '"text"'),
        ('{"a": NaN}', None, '{"a": NaN}'),
        ('{"a": "\\ud800"}', None, '{"a": "\\ud800"}'),
        ("[" * 100_000, None, "[" * 100_000),
        ('{"a": 1} trailing', None, '{"a": 1} trailing'),
    ],
)
@rows("stream", [True, False])
def test_arguments(arguments: Any, parsed: Any, raw: str, stream: bool) -> None:
    call = {"index": 0, "id": "c", **fn("Read", arguments)}
    whole = {"choices": [{"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    body = events(delta(tool_calls=[call]), delta("tool_calls")) if stream else json.dumps(whole)
    assert answer({"raw": body, "stream": stream}).tool_calls == (ToolCall("c", "Read", parsed, raw),)


PIECES: list[Any] = [
    # as the API has it: id and name first, then arguments by index
    (
        [
            {"index": 0, "id": "a", **fn("Read", "")},
            {"index": 1, "id": "b", **fn("LS", "")},
            {"index": 0, **fn(None, '{"x"')},
            {"index": 1, **fn(None, "{}")},
            {"index": 0, **fn(None, ":1}")},
        ],
        [("a", "Read", {"x": 1}), ("b", "LS", {})],
    ),
    # no index: an id or a name begins a call
    (
        [{"id": "a", **fn("Read", '{"x"')}, fn(None, ":1}"), {"id": "b", **fn("LS", "{}")}],
        [("a", "Read", {"x": 1}), ("b", "LS", {})],
    ),
    ([fn("Read", "{}"), fn("LS", "{}")], [("call_1_0", "Read", {}), ("call_1_1", "LS", {})]),
    # no index, but id and name in every piece
    (
        [{"id": "a", **fn("Read", '{"x"')}, {"id": "a", **fn("Read", ":1}")}, {"id": "b", **fn("Read", "{}")}],
        [("a", "Read", {"x": 1}), ("b", "Read", {})],
    ),
    # every call at index 0, the second in pieces
    (
        [
            {"index": 0, "id": "a", **fn("Read", "{}")},
            {"index": 0, "id": "b", **fn("LS", "")},
            {"index": 0, **fn(None, '{"x":1}')},
        ],
        [("a", "Read", {}), ("b", "LS", {"x": 1})],
    ),
    # every call at index 0
    (
        [{"index": 0, "id": "a", **fn("Read", "{}")}, {"index": 0, "id": "b", **fn("LS", "{}")}],
        [("a", "Read", {}), ("b", "LS", {})],
    ),
    # id and name again in every piece
    (
        [{"index": 0, "id": "a", **fn("Read", '{"x"')}, {"index": 0, "id": "a", **fn("Read", ":1}")}],
        [("a", "Read", {"x": 1})],
    ),
    # no ids, empty ids, the same id twice
    (
        [{"index": 0, **fn("Read", "{}")}, {"index": 1, "id": "", **fn("LS", "{}")}],
        [("call_1_0", "Read", {}), ("call_1_1", "LS", {})],
    ),
    (
        [{"index": 0, "id": "a", **fn("Read", "{}")}, {"index": 1, "id": "a", **fn("LS", "{}")}],
        [("a", "Read", {}), ("call_1_1", "LS", {})],
    ),
    # out of order, and nonsense
    (
        [{"index": 3, "id": "b", **fn("LS", "{}")}, {"index": 1, "id": "a", **fn("Read", "{}")}],
        [("a", "Read", {}), ("b", "LS", {})],
    ),
    ([{"index": "x", "id": 5, "function": None}], [("call_1_0", "", {})]),
    ([{"index": 0, "id": "a", "function": {"name": 7, "arguments": 7}}], [("a", "", {})]),
]


@rows(("pieces", "calls"), PIECES)
def test_calls_are_put_together(pieces: list[dict[str, Any]], calls: list[tuple[str, str, Any]]) -> None:
    response = streamed(*(delta(tool_calls=[one]) for one in pieces), delta("tool_calls"))
    assert [(call.id, call.name, call.arguments) for call in response.tool_calls] == calls
    assert response.stop_reason == "tool_use"


def test_a_stop_with_calls_is_a_tool_use_and_a_cut_one_is_not() -> None:
    call = piece(index=0, id="a", **fn("Read", '{"x'))
    assert streamed(call, delta("stop")).stop_reason == "tool_use"
    assert streamed(call, delta("length")).stop_reason == "max_tokens"


def test_an_id_used_before_in_the_conversation_is_replaced() -> None:
    said = (user("a"), called("call_0", "Read", {}), result("call_0", "x"))
    response = answer({"tool_calls": [{**CALL, "id": "call_0"}]}, messages=request(*said).messages)
    assert response.tool_calls[0].id == "call_2_0"


def test_calls_of_a_whole_message_that_share_an_id_are_still_two() -> None:
    first, second = ({"id": "x", "function": {"name": name, "arguments": "{}"}} for name in ("Time", "LS"))
    whole = {"choices": [{"message": {"tool_calls": [first, second]}, "finish_reason": "tool_calls"}]}
    assert [call.name for call in streamed(whole).tool_calls] == ["Time", "LS"]
