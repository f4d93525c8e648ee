"""Answers of the Messages API, streamed or not, cut anywhere; and what is not an answer."""

import json
from pathlib import Path
from typing import Any

import pytest

from adderclaw.config.schema import ProviderEntry
from adderclaw.core.errors import ProviderError
from adderclaw.core.redaction import Secrets
from adderclaw.core.types import ChatResponse, Delta, Json, ToolCall, Usage
from adderclaw.models.providers.anthropic_reply import Answer
from adderclaw.models.providers.reading import Events
from adderclaw.models.providers.wire import Wire, endpoint
from tests.models.providers.making import Heard, House, Time, ask, request
from tests.rows import rows
from tests.scripted_anthropic import ScriptedMessages, Step

CORPUS = Path(__file__).parent / "corpus" / "anthropic"
STREAMS = sorted(path.name for path in CORPUS.glob("*.sse") if not path.name.startswith("error_"))


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary-9f8e7d6c5b4a3210")


def provider_at(base_url: str, *, max_response_bytes: int = 1_048_576, **more: Any) -> Any:
    entry = ProviderEntry(kind="anthropic", base_url=base_url, model="claude-haiku-4-5", **more)
    return House({"p": entry}, max_response_bytes=max_response_bytes).make("p")


def answer(step: Step, heard: list[Delta] | None = None, **more: Any) -> ChatResponse:
    with ScriptedMessages([step]) as model:
        return ask(provider_at(model.base_url, **more), request(), heard=heard)[0]


def failure(step: Step, **more: Any) -> ProviderError:
    with ScriptedMessages([step]) as model, pytest.raises(ProviderError) as caught:
        ask(provider_at(model.base_url, **more), request())
    assert "\n" not in str(caught.value)
    return caught.value


def recorded(name: str) -> bytes:
    return (CORPUS / name).read_bytes()


def events(*given: Json | str) -> str:
    return "".join(one if isinstance(one, str) else f"event: x\ndata: {json.dumps(one)}\n\n" for one in given)


START: Json = {"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": {"input_tokens": 3}}}


def end(reason: str = "end_turn", **usage: int) -> Json:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


def begin(index: Any, **block: Any) -> Json:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: Any, **fields: Any) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": fields}


def streamed(*given: Json | str) -> ChatResponse:
    return answer({"raw": events(START, *given, {"type": "message_stop"})})


# ------------------------------------------------------------------ what is not an answer


MALFORMED: list[Any] = [
    ({"raw": "", "stream": True}, ["before the answer was whole", "nothing"]),
    ({"raw": "", "stream": False}, ["did not answer with JSON", "nothing"]),
    ({"raw": "[]", "stream": False}, ["answered without `content`"]),
    ({"raw": '{"choices":[]}', "stream": False}, ["without `content`", "Messages API"]),
    ({"raw": '{"content":"text"}', "stream": False}, ["without `content`"]),
    ({"raw": '{"content": [{"typ', "stream": False}, ["did not answer with JSON", '{"content"']),
    ({"raw": "<html><h1>Sign in</h1>", "content_type": "text/html"}, ["text/html", "<html><h1>Sign in</h1>"]),
    ({"raw": "<html>", "content_type": "text/event-stream"}, ["before the answer was whole", "<html>"]),
    ({"raw": "data: [1]\n\n"}, ["not a JSON object"]),
    ({"raw": 'data: {"type": "message_st\n\n'}, ["not a JSON object", "text/event-stream"]),
    ({"raw": "data: " + "[" * 100_000 + "\n\n"}, ["not a JSON object"]),
    ({"raw": events(START, begin(0, type="text", text="half of a"))}, ["before the answer was whole", "ask again"]),
    ({"text": "a b c", "cut": 400}, ["cut the answer off", "ask again"]),
    ({"text": "a b c", "cut": 0}, ["cut the answer off", "ask again"]),
    ({"text": "a", "stream": False, "cut": 20}, ["cut the answer off", "ask again"]),
    ({"raw": "\x1b[31mred\u202e", "content_type": "text/plain"}, ["\\u{1b}[31mred\\u{202e}"]),
]


@rows(("step", "words"), MALFORMED)
def test_malformed_answers_say_what_came(step: Step, words: list[str]) -> None:
    error = failure(step)
    assert error.kind == "malformed"
    assert all(word in str(error) for word in words), str(error)
    assert ("base_url" in str(error)) == ("ask again" not in str(error)), (
        "an answer that began came from the right place"
    )
    assert len(str(error)) < 400


@rows(
    ("error", "kind", "status"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, "server_error", 529),
        ({"type": "api_error", "message": "Internal server error"}, "server_error", 500),
        ({"type": "timeout_error", "message": "x"}, "server_error", 504),
        ({"type": "rate_limit_error", "message": "x"}, "rate_limit", 429),
        ({"type": "authentication_error", "message": "x"}, "authentication_failed", 401),
        ({"type": "permission_error", "message": "x"}, "authentication_failed", 403),
        ({"type": "billing_error", "message": "x"}, "billing_error", 402),
        ({"type": "not_found_error", "message": "model: m"}, "invalid_request", 404),
        ({"type": "invalid_request_error", "message": "x"}, "invalid_request", 400),
        ({"type": "invalid_request_error", "message": "prompt is too long: 5 > 4"}, "context_overflow", 400),
        ({"type": "request_too_large", "message": "x"}, "context_overflow", 413),
        ({"type": "brand_new_error", "message": "x"}, "server_error", None),
        ("just words", "server_error", None),
        (["odd"], "server_error", None),
    ],
)
@rows("stream", [True, False])
def test_an_error_inside_a_200_is_classified(error: Any, kind: str, status: int | None, stream: bool) -> None:
    whole = {"type": "error", "error": error}
    raw = events(START, begin(0, type="text", text="par"), whole) if stream else json.dumps(whole)
    got = failure({"raw": raw, "stream": stream})
    assert (got.kind, got.status) == (kind, status)
    assert "broke off" in str(got)


def test_the_recorded_error_in_the_middle_of_a_stream() -> None:
    for size in (1, 7, 10_000):
        error = failure({"raw": recorded("error_overloaded.sse"), "piece": size})
        assert (error.kind, error.status, error.retryable) == ("server_error", 529, True)
        assert "Overloaded" in str(error)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "step",
    [
        {"text": "word " * 1000},
        {"tool_calls": [{"name": "Write", "input": {"content": "x" * 5000}}]},
        {"thinking": [{"thinking": "hm " * 2000, "signature": "s"}], "text": "a"},
    ],
)
def test_an_answer_beyond_the_limit_is_refused(step: Step, stream: bool) -> None:
    error = failure({**step, "stream": stream}, max_response_bytes=1000)
    assert error.kind == "invalid_request"
    assert "max_response_bytes = 1000" in str(error)


def test_the_limit_counts_what_is_said_not_what_wraps_it() -> None:
    assert answer({"text": "word " * 100}, max_response_bytes=2000).final_text == "word " * 100


# ------------------------------------------------------------------ the corpus


class Fed:
    """A stream that is fed by hand, so that it can be cut at every byte."""

    def __init__(self, *pieces: bytes) -> None:
        place = endpoint("http://127.0.0.1:1", "/v1/messages")
        wire = Wire("p", place, Secrets(), Time(), timeout=1, max_bytes=1_000_000)
        self.heard = Heard()
        self.answer = Answer(wire, self.heard.append)
        stream = Events()
        for piece in pieces:
            for data in stream.feed(piece):
                self.answer.take(json.loads(data))

    def whole(self) -> tuple[object, ...]:
        one = self.answer
        kept = [block.payload for block in one.opaque]
        return one.text, one.calls(set()), kept, one.usage, one.stop_reason, one.model, one.id


@rows("name", STREAMS)
def test_cut_in_two_at_every_byte_the_answer_is_the_same(name: str) -> None:
    body = recorded(name)
    whole = Fed(body)
    for cut in range(1, len(body)):
        fed = Fed(body[:cut], body[cut:])
        assert fed.whole() == whole.whole()
        assert fed.heard == whole.heard


@rows("name", STREAMS)
def test_ended_at_every_byte_it_is_whole_or_known_to_be_cut(name: str) -> None:
    body = recorded(name)
    whole = Fed(body).whole()
    stated = body.index(b"\n\n", body.index(b"event: message_delta"))
    for cut in range(len(body)):
        fed = Fed(body[:cut])
        assert fed.answer.ended == (cut > stated + 1)
        assert not fed.answer.ended or fed.whole() == whole


@rows("size", [1, 2, 3, 7, 64, 100_000])
@rows("name", STREAMS)
def test_over_http_in_pieces_of_any_size(name: str, size: int) -> None:
    body = recorded(name)
    got = answer({"raw": body, "piece": size})
    text, calls, kept, usage, stop_reason, model, _ = Fed(body).whole()
    assert (got.final_text, got.tool_calls, [block.payload for block in got.opaque]) == (text, calls, kept)
    assert (got.usage, got.stop_reason, got.model) == (usage, stop_reason, model)


EXPECTED: list[Any] = [
    ("text", "Grüße! The answer is 42 😀.\n", [], "end", Usage(25, 17, 11264, 2048)),
    ("tool_call", "Okay, let me look:", [{"file_path": "src/mäin.py", "limit": 20}], "tool_use", Usage(472, 89)),
    (
        "parallel_calls",
        "",
        [{"file_path": "a.txt"}, {"file_path": "b.txt"}, {"command": "printf '%s\\n' \"x\""}],
        "tool_use",
        Usage(600, 141),
    ),
    ("thinking", "I will list the folder.", [{"path": "."}], "tool_use", Usage(51, 212)),
    ("redacted_thinking", "Done.", [], "end", Usage(90, 64)),
    ("empty_input", "", [{}], "tool_use", Usage(40, 30)),
    ("max_tokens_in_input", "Writing the file.", [None], "max_tokens", Usage(77, 4096)),
    ("refusal", "I can't help with that.", [], "refusal", Usage(33, 9)),
    (
        "interleaved",
        "Looking at both files. Starting with a.",
        [{"file_path": "a"}, {"file_path": "b"}],
        "tool_use",
        Usage(300, 180),
    ),
    ("thinking_omitted", "Four.", [], "end", Usage(18, 61)),
    ("stop_sequence", "1, 2, 3", [], "end", Usage(20, 8)),
    ("window_exceeded", "The story goes on and on", [], "max_tokens", Usage(199000, 1000)),
    ("unknown_kinds", "It is sunny.", [], "end", Usage(15, 44)),
    ("pause_turn", "Searching…", [], "other", Usage(15, 12)),
]


@rows(("name", "text", "calls", "reason", "usage"), EXPECTED)
def test_the_recorded_streams(name: str, text: str, calls: list[Any], reason: str, usage: Usage) -> None:
    heard = Heard()
    got = answer({"raw": recorded(f"{name}.sse")}, heard)
    assert (got.final_text, got.stop_reason, got.usage) == (text, reason, usage)
    assert [call.arguments for call in got.tool_calls] == calls
    assert heard.text == text


def test_every_recorded_stream_has_an_expectation() -> None:
    assert {f"{case[0]}.sse" for case in EXPECTED} == set(STREAMS)


def test_thoughts_are_kept_with_their_signatures_and_shown() -> None:
    heard = Heard()
    got = answer({"raw": recorded("thinking.sse")}, heard)
    (kept,) = got.opaque
    thought = "The user wants the size. I should\ncall LS → then answer."
    assert kept.wire.startswith("anthropic/127.0.0.1")
    assert kept.payload.keys() == {"type", "thinking", "signature"}
    assert (kept.payload["type"], kept.payload["thinking"]) == ("thinking", thought)
    assert kept.payload["signature"].startswith("Eq")
    assert "".join(one.text for one in heard if one.kind == "thinking") == thought
    assert [one.text for one in heard if one.kind == "tool"] == ["LS"]


def test_redacted_omitted_and_interleaved_thoughts() -> None:
    redacted = answer({"raw": recorded("redacted_thinking.sse")}).opaque
    assert [block.payload["type"] for block in redacted] == ["redacted_thinking", "thinking"]
    assert redacted[0].payload.keys() == {"type", "data"}
    (omitted,) = answer({"raw": recorded("thinking_omitted.sse")}).opaque
    assert omitted.payload["thinking"] == ""
    assert omitted.payload["signature"]
    places = [block.payload.get("after") for block in answer({"raw": recorded("interleaved.sse")}).opaque]
    assert places == [None, [23, 0], [39, 1]]


# ------------------------------------------------------------------ whole answers


STEP: Step = {
    "thinking": [{"thinking": "hm", "signature": "s=="}, {"data": "xyz"}],
    "text": "let me  look\n",
    "tool_calls": [{"name": "Read", "input": {"file_path": "ä.txt"}}, {"name": "Time"}],
    "usage": {"input_tokens": 5, "output_tokens": 6, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 8},
}


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("sent", [True, False])
def test_everything_at_once_streaming_or_not_whatever_was_asked(asked: bool, sent: bool) -> None:
    heard = Heard()
    got = answer({**STEP, "stream": sent}, heard, stream=asked)
    assert got.final_text == heard.text == "let me  look\n"
    assert got.tool_calls == (
        ToolCall("toolu_0_0", "Read", {"file_path": "ä.txt"}),
        ToolCall("toolu_0_1", "Time", {}),
    )
    assert [block.payload for block in got.opaque] == [
        {"type": "thinking", "thinking": "hm", "signature": "s=="},
        {"type": "redacted_thinking", "data": "xyz"},
    ]
    assert (got.stop_reason, got.usage) == ("tool_use", Usage(5, 6, 7, 8))
    assert (got.provider, got.model) == ("p", "m")
    assert got.raw_provider_payload == {
        "id": "msg_0001",
        "request_id": "req_scripted",
        "stop_reason": "tool_use",
        "status": 200,
    }


def test_the_recorded_object() -> None:
    got = answer({"raw": recorded("message.json"), "stream": False}, stream=False)
    assert got.final_text == "Both at once."
    assert [(call.name, call.arguments) for call in got.tool_calls] == [("Read", {"file_path": "ä.txt"}), ("Time", {})]
    assert got.usage == Usage(30, 50, 6, 5)
    assert [block.payload["thinking"] for block in got.opaque] == ["Äh…"]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_line_ends_and_comments(newline: str) -> None:
    raw = ": hello\n\n" + recorded("tool_call.sse").decode()
    assert answer({"raw": raw.replace("\n", newline)}).final_text == "Okay, let me look:"


def test_a_stream_is_known_by_its_looks() -> None:
    got = answer({"raw": recorded("text.sse"), "content_type": "text/plain"})
    assert got.final_text.startswith("Grüße")


@rows(
    ("given", "text", "reason"),
    [
        ([begin(0, type="text", text="a"), delta(0, type="text_delta", text="b")], "ab", "end"),
        ([delta(0, type="text_delta", text="a")], "a", "end"),
        ([delta(None, type="text_delta", text="a")], "a", "end"),
        ([delta(7, type="input_json_delta", partial_json="{}")], "", "end"),
        ([begin("x", type="text", text="a")], "a", "end"),
        ([begin(1, type="text", text="b"), begin(0, type="text", text="a")], "ab", "end"),
        ([begin(0, type="text", text=7), delta(0, type="text_delta", text=None), delta(0)], "", "end"),
        ([begin(0), {"type": "content_block_delta"}, {"type": "content_block_start"}, {}, {"type": 3}], "", "end"),
        (
            [delta(0, type="text_delta", text="\ud83d"), delta(0, type="text_delta", text="\ude00 \ud83d")],
            "😀 �",
            "end",
        ),
        ([delta(0, type="text_delta", text="a"), end("made_up_reason")], "a", "other"),
        ([{"type": "message", "content": [{"type": "text", "text": "all"}], "stop_reason": "end_turn"}], "all", "end"),
    ],
)
def test_odd_events(given: list[Json], text: str, reason: str) -> None:
    got = streamed(*given)
    assert (got.final_text, got.stop_reason) == (text, reason)


def test_an_end_without_the_last_event_is_an_end() -> None:
    raw = events(START, begin(0, type="text", text="a"), end(output_tokens=2))
    got = answer({"raw": raw})
    assert (got.final_text, got.usage) == ("a", Usage(3, 2))


@pytest.mark.parametrize(
    ("first", "then", "expected"),
    [
        ({"input_tokens": 10, "output_tokens": 1}, {"output_tokens": 9}, Usage(10, 9)),
        ({"input_tokens": 10, "output_tokens": 1}, {"input_tokens": 12, "output_tokens": 9}, Usage(12, 9)),
        (
            {"input_tokens": 1, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 6},
            {"output_tokens": 2, "cache_read_input_tokens": None},
            Usage(1, 2, 5, 6),
        ),
        ({"input_tokens": -1}, {"output_tokens": "many"}, Usage()),
        (None, None, Usage()),
    ],
)
def test_usage_is_the_last_total_of_each(first: Any, then: Any, expected: Usage) -> None:
    opening = {"type": "message_start", "message": {"usage": first}}
    closing = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": then}
    assert answer({"raw": events(opening, begin(0, type="text", text="a"), closing)}).usage == expected


# ------------------------------------------------------------------ tool calls


@rows(
    ("written", "parsed", "raw"),
    [
        ('{"a": 1}', {"a": 1}, ""),
        ("", {}, ""),
        ('{"a": ', None, '{"a": '),
        ("[1]", None, "[1]"),
        ("null", None, "null"),
        ('{"a": NaN}', None, '{"a": NaN}'),
        ('{"a": "\\ud800"}', None, '{"a": "\\ud800"}'),
        ("[" * 100_000, None, "[" * 100_000),
    ],
)
def test_arguments(written: str, parsed: Any, raw: str) -> None:
    got = streamed(
        begin(0, type="tool_use", id="c", name="Read", input={}),
        *(delta(0, type="input_json_delta", partial_json=piece) for piece in ("", written[:3], written[3:])),
        end("tool_use"),
    )
    assert got.tool_calls == (ToolCall("c", "Read", parsed, raw),)


def test_an_input_that_came_with_the_opening() -> None:
    got = streamed(begin(0, type="tool_use", id="c", name="Read", input={"a": 1}), end("end_turn"))
    assert got.tool_calls == (ToolCall("c", "Read", {"a": 1}),)
    assert got.stop_reason == "tool_use"


def test_a_call_without_an_id_gets_one() -> None:
    (call,) = streamed(begin(0, type="tool_use", name="Read", input={}), end("tool_use")).tool_calls
    assert call == ToolCall("call_msg_1_0", "Read", {})


def test_no_two_calls_have_one_id() -> None:
    opened = [begin(0, type="tool_use", id="same", name="Read", input={}) | {"index": at} for at in range(3)]
    assert [call.id for call in streamed(*opened, end("tool_use")).tool_calls] == [
        "same",
        "call_msg_1_1",
        "call_msg_1_2",
    ]


def test_a_call_cut_before_its_input_began_is_not_a_call_with_no_input() -> None:
    opened = [begin(0, type="tool_use", id=name, name="Bash", input={}) | {"index": at} for at, name in enumerate("ab")]
    for reason in ("max_tokens", "model_context_window_exceeded"):
        got = streamed(*opened, end(reason))
        assert [call.arguments for call in got.tool_calls] == [{}, None]
        assert got.stop_reason == "max_tokens"


def test_the_calls_of_a_refused_answer_are_not_made() -> None:
    got = streamed(begin(0, type="tool_use", id="c", name="Bash", input={"command": "x"}), end("refusal"))
    assert got.tool_calls == ()
    assert got.stop_reason == "refusal"


def test_a_refusal_without_words_is_explained() -> None:
    why = {"type": "refusal", "category": "bio", "explanation": "Declined by policy."}
    closing = {"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": why}, "usage": {}}
    assert streamed(closing).final_text == "Declined by policy."
    assert "refused" in streamed(end("refusal")).final_text


def test_a_thought_that_nobody_signed_is_shown_but_not_kept() -> None:
    heard = Heard()
    raw = events(START, begin(0, type="thinking", thinking="hm"), begin(1, type="text", text="a"), end())
    got = answer({"raw": raw}, heard)
    assert got.opaque == ()
    assert [one.text for one in heard if one.kind == "thinking"] == ["hm"]
