"""What goes over the wire to the Gemini API."""

from itertools import pairwise
from typing import Any

import pytest

from adderclaw.core.errors import ConfigError, ProviderError
from adderclaw.core.types import (
    Block,
    MediaBlock,
    Message,
    OpaqueBlock,
    TextBlock,
    Thinking,
    ToolCall,
    ToolResultBlock,
    ToolUseBlock,
)
from adderclaw.models.providers.gemini import FOREIGN_SIGNATURE
from tests.models.providers.making import READ, House, ask, called, result, run, user
from tests.models.providers.making_gemini import CANARY, asking, gemini, gemini_entry
from tests.rows import rows
from tests.scripted import Request
from tests.scripted_gemini import ScriptedGemini


@pytest.fixture(autouse=True)
def key(home: object, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GEMINI_API_KEY", CANARY)


def sent(*messages: Message, entry: dict[str, Any] | None = None, **more: Any) -> Request:
    with ScriptedGemini([{"text": "ok"}]) as model:
        ask(gemini(model.base_url, **(entry or {})), asking(*messages, **more))
    return model.asked[0]


def contents(*messages: Message, **more: Any) -> list[Any]:
    return sent(*messages, **more).json["contents"]


# ------------------------------------------------------------------ refusals: nothing is sent


@pytest.mark.parametrize(
    ("base_url", "words"),
    [
        ("ftp://example.com", ["base_url", "http://"]),
        ("https://me:hunter22@example.com", ["base_url", "password", "api_key_env"]),
        ("https://example.com/?key=hunter22hunter22", ["base_url", "key in its query", "api_key_env"]),
        ("https://example.com/v1beta?alt=json&api_key=hunter22hunter22", ["base_url", "api_key_env"]),
        ("https://exämple.com", ["base_url", "ASCII"]),
    ],
)
def test_wrong_addresses_are_configuration_errors(base_url: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        gemini(base_url)
    assert all(word in str(caught.value) for word in words), caught.value
    assert "hunter22" not in str(caught.value)


@rows(
    "model", ["../../v1/files", "a/b", "models/", "x y", "x?key=1", "x:delete", "modèle", "models/../x", "x\r\nhost: y"]
)
def test_a_model_that_would_be_another_path_is_not_sent(model: str) -> None:
    with ScriptedGemini() as server:
        for call in ("chat", "count"):
            provider = gemini(server.base_url)
            with pytest.raises(ProviderError, match="is not a valid model name") as caught:
                run(provider.chat(asking(model=model), lambda _: None) if call == "chat" else _count(provider, model))
            assert caught.value.kind == "invalid_request"
        assert not server.asked
        assert not server.others


async def _count(provider: Any, model: str) -> None:
    await provider.count(asking(model=model))


def test_a_missing_key_is_said_before_any_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GEMINI_API_KEY")
    with pytest.raises(ProviderError, match="GEMINI_API_KEY") as caught:
        ask(gemini("https://model.invalid"), asking())
    assert caught.value.kind == "missing_key"


def test_a_key_over_plain_http_to_another_machine_warns() -> None:
    house = House({"g": gemini_entry("http://192.0.2.1")})
    house.make("g")
    assert [body["event_type"] for body in house.told] == ["warning"]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed_and_the_key_stays(status: int) -> None:
    with ScriptedGemini() as elsewhere:
        moved = {"status": status, "headers": {"location": elsewhere.base_url}, "body": "moved"}
        with ScriptedGemini([{"error": moved}]) as model, pytest.raises(ProviderError, match="redirects"):
            ask(gemini(model.base_url), asking())
        assert not elsewhere.asked
        assert not elsewhere.others


# ------------------------------------------------------------------ where to, and with which key


@pytest.mark.parametrize(
    ("tail", "entry", "model", "target"),
    [
        ("", {}, "", "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"),
        ("/", {"stream": False}, "", "/v1beta/models/gemini-2.5-flash:generateContent"),
        ("/v1beta", {}, "models/gemini-3-pro", "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse"),
        ("/v1", {"stream": False}, "tunedModels/my-1", "/v1/tunedModels/my-1:generateContent"),
        ("/proxy/g", {}, "x", "/proxy/g/v1beta/models/x:streamGenerateContent?alt=sse"),
        ("/v1alpha/?team=9", {}, "x", "/v1alpha/models/x:streamGenerateContent?alt=sse&team=9"),
        ("?team=9", {"stream": False}, "x", "/v1beta/models/x:generateContent?team=9"),
    ],
)
def test_the_model_is_in_the_path_and_the_key_is_not(tail: str, entry: Any, model: str, target: str) -> None:
    with ScriptedGemini([{"text": "ok"}]) as server:
        ask(gemini(server.base_url + tail, **entry), asking(model=model))
    got = server.asked[0]
    assert got.path == target
    assert got.headers["x-goog-api-key"] == CANARY
    assert "authorization" not in got.headers
    assert CANARY.encode() not in got.body


@pytest.mark.parametrize(
    ("variables", "entry", "used"),
    [
        ({"GEMINI_API_KEY": "first-key-1", "GOOGLE_API_KEY": "second-key-2"}, {}, "first-key-1"),
        ({"GEMINI_API_KEY": " ", "GOOGLE_API_KEY": "second-key-2"}, {}, "second-key-2"),
        ({"GEMINI_API_KEY": "first-key-1", "MINE": "third-key-3"}, {"api_key_env": "MINE"}, "third-key-3"),
    ],
)
def test_keys(variables: dict[str, str], entry: Any, used: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert sent(entry=entry).headers["x-goog-api-key"] == used


def test_the_address_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedGemini([{"text": "ok"}]) as model:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", model.base_url)
        ask(gemini(None), asking())


def test_the_default_address_is_googles() -> None:
    assert gemini(None).wire.place.origin == "https://generativelanguage.googleapis.com"


# ------------------------------------------------------------------ the body

SCHEMA = {"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"]}


def test_the_body_is_as_the_api_has_it_with_contents_last() -> None:
    got = sent(
        tools=(READ,),
        temperature=0.5,
        max_tokens=7,
        tool_choice="Read",
        response_schema=SCHEMA,
        thinking=Thinking(tokens=512),
    ).json
    assert list(got) == ["systemInstruction", "tools", "toolConfig", "generationConfig", "contents"]
    assert got == {
        "systemInstruction": {"parts": [{"text": "be good"}]},
        "tools": [
            {
                "functionDeclarations": [
                    {"name": "Read", "description": "Reads a file.", "parametersJsonSchema": READ.parameters}
                ]
            }
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["Read"]}},
        "generationConfig": {
            "temperature": 0.5,
            "maxOutputTokens": 7,
            "responseMimeType": "application/json",
            "responseJsonSchema": SCHEMA,
            "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 512},
        },
        "contents": [{"role": "user", "parts": [{"text": "hello"}]}],
    }


def test_what_is_not_asked_for_is_not_sent() -> None:
    assert list(sent(system_prompt="").json) == ["contents"]


def test_no_thinking_at_all() -> None:
    config = sent(thinking=Thinking(tokens=0)).json["generationConfig"]
    assert config == {"thinkingConfig": {"includeThoughts": False, "thinkingBudget": 0}}


def test_the_entry_fills_in_what_the_request_leaves_open() -> None:
    config = sent(entry={"temperature": 0.0, "max_tokens": 9}).json["generationConfig"]
    assert config == {"temperature": 0.0, "maxOutputTokens": 9}


USER_MESSAGES: list[tuple[tuple[Block, ...], list[Any]]] = [
    ((TextBlock("ünï \u2028 😀"),), [{"text": "ünï \u2028 😀"}]),
    ((TextBlock("half \ud83d"),), [{"text": "half ?"}]),
    ((TextBlock("a"), TextBlock(""), TextBlock("b")), [{"text": "a"}, {"text": "b"}]),
    ((), [{"text": " "}]),
    ((TextBlock(""),), [{"text": " "}]),
    (
        (TextBlock("see"), MediaBlock("image/png", "aGk=", "a.png")),
        [{"text": "see"}, {"inlineData": {"mimeType": "image/png", "data": "aGk="}}],
    ),
    ((MediaBlock("application/pdf", "aGk="),), [{"inlineData": {"mimeType": "application/pdf", "data": "aGk="}}]),
    ((MediaBlock("image/x-raw", "aGk=", "a.raw"),), [{"text": "[image: a.raw]"}]),
    ((MediaBlock("application/zip", "aGk=", "a.zip"),), [{"text": "[file: a.zip]"}]),
    ((ToolResultBlock("gone", "fine", False),), [{"text": "Result of an earlier call: fine"}]),
]


@rows(("blocks", "parts"), USER_MESSAGES)
def test_user_messages(blocks: tuple[Block, ...], parts: list[Any]) -> None:
    assert contents(Message("user", blocks)) == [{"role": "user", "parts": parts}]


IMAGE, RAW = MediaBlock("image/png", "aGk=", "a.png"), MediaBlock("image/x-raw", "aGk=", "a.raw")
INLINE = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}


def test_what_a_tool_showed_stands_in_its_result_where_the_model_takes_it_so() -> None:
    asked = (
        user("a"),
        called("8f2", "Read", {}),
        Message("user", (ToolResultBlock("8f2", "saw", False, (IMAGE, RAW)),)),
    )
    response = {"id": "8f2", "name": "Read", "response": {"output": "saw"}}
    assert contents(*asked)[2:] == [
        {"role": "user", "parts": [{"functionResponse": response}]},
        {"role": "user", "parts": [INLINE, {"text": "[image: a.raw]"}]},
    ]
    assert contents(*asked, model="gemini-3-pro")[2:] == [
        {"role": "user", "parts": [{"functionResponse": response | {"parts": [INLINE]}}]},
        {"role": "user", "parts": [{"text": "[image: a.raw]"}]},
    ]


@pytest.mark.parametrize(
    ("call_id", "on_the_wire"), [("8f2jv1kq", {"id": "8f2jv1kq"}), ("toolu_1", {"id": "toolu_1"}), ("gemini_r_0", {})]
)
def test_a_call_and_its_result_have_the_same_id_or_none(call_id: str, on_the_wire: Any) -> None:
    _, model, answer = contents(user("a"), called(call_id, "Read", {"file_path": "ä"}, "so"), result(call_id, "text"))
    call = {**on_the_wire, "name": "Read", "args": {"file_path": "ä"}}
    assert model == {"role": "model", "parts": [{"text": "so"}, {"functionCall": call}]}
    response = {**on_the_wire, "name": "Read", "response": {"output": "text"}}
    assert answer == {"role": "user", "parts": [{"functionResponse": response}]}


def test_an_error_is_told_as_one_and_broken_arguments_go_back_as_none() -> None:
    _, model, answer = contents(user("a"), called("c", "Read", None), result("c", "no", is_error=True))
    assert model["parts"][0]["functionCall"]["args"] == {}
    assert answer["parts"][0]["functionResponse"]["response"] == {"error": "no"}


@pytest.mark.parametrize(("name", "wire"), [("a b/ä", "a_b__"), ("1st", "_1st"), ("", "_"), ("x" * 200, "x" * 128)])
def test_a_name_that_no_tool_has_does_not_spoil_the_conversation(name: str, wire: str) -> None:
    _, model, answer = contents(user("a"), called("c", name, {}), result("c", "no such tool", is_error=True))
    assert model["parts"][0]["functionCall"]["name"] == answer["parts"][0]["functionResponse"]["name"] == wire


def test_results_stand_alone_and_in_the_order_of_their_calls() -> None:
    calls = tuple(ToolUseBlock(ToolCall(f"gemini_r_{n}", f"T{n}", {})) for n in range(3))
    answers = tuple(ToolResultBlock(f"gemini_r_{n}", str(n), False) for n in (2, 0, 1))
    got = contents(user("a"), Message("assistant", calls), Message("user", (TextBlock("and"), *answers)))
    assert [part["functionResponse"]["name"] for part in got[2]["parts"]] == ["T0", "T1", "T2"]
    assert got[3] == {"role": "user", "parts": [{"text": "and"}]}


def test_an_answer_of_nothing_is_left_out() -> None:
    assert [one["role"] for one in contents(user("a"), Message("assistant", ()), user("b"))] == ["user", "user"]


def test_what_another_provider_keeps_is_not_sent() -> None:
    foreign = Message("assistant", (OpaqueBlock("anthropic", {"signature": "z"}), TextBlock("x")))
    assert contents(user("a"), foreign)[1] == {"role": "model", "parts": [{"text": "x"}]}


@pytest.mark.parametrize(
    ("model", "signature"),
    [("gemini-2.5-pro", None), ("gemini-3-pro", FOREIGN_SIGNATURE), ("models/gemini-10", FOREIGN_SIGNATURE)],
)
def test_a_call_of_another_model_gets_the_signature_that_stands_for_none(model: str, signature: str | None) -> None:
    two = Message("assistant", tuple(ToolUseBlock(ToolCall(name, "Read", {})) for name in "ab"))
    parts = contents(user("a"), two, model=model)[1]["parts"]
    assert [part.get("thoughtSignature") for part in parts] == [signature, None]


def test_each_body_begins_with_the_one_before_it() -> None:
    with ScriptedGemini([{"text": "ok"}] * 4) as model:
        provider = gemini(model.base_url)
        asked = asking(user("a"), tools=(READ,))

        async def grow() -> None:
            for step in range(4):
                await provider.chat(asked, lambda _: None)
                asked.messages.append(called(f"c{step}", "Read", {"file_path": "x"}))
                asked.messages.append(result(f"c{step}", "y"))
            await provider.close()

        run(grow())
    for shorter, longer in pairwise(one.body for one in model.asked):
        assert longer.startswith(shorter.removesuffix(b"]}"))
    assert {one.connection for one in model.asked} == {1}


def test_a_result_that_comes_a_request_later_still_names_its_call() -> None:
    with ScriptedGemini([{"text": "ok"}] * 2) as model:
        provider = gemini(model.base_url)
        asked = asking(user("a"), called("c", "Read", {}))

        async def later() -> None:
            await provider.chat(asked, lambda _: None)
            asked.messages.append(result("c", "y"))
            await provider.chat(asked, lambda _: None)
            await provider.close()

        run(later())
    assert model.asked[1].json["contents"][2]["parts"][0]["functionResponse"]["name"] == "Read"


# ------------------------------------------------------------------ counting


def test_counting_sends_all_that_a_chat_would() -> None:
    asked = asking(user("how long?"), tools=(READ,), max_tokens=5)
    with ScriptedGemini([{"text": "ok"}], counts=4711) as model:
        provider = gemini(model.base_url)

        async def both() -> int | None:
            await provider.chat(asked, lambda _: None)
            try:
                return await provider.count(asked)
            finally:
                await provider.close()

        assert run(both()) == 4711
    got = model.counted[0]
    assert got.path == "/v1beta/models/gemini-2.5-flash:countTokens"
    assert got.headers["x-goog-api-key"] == CANARY
    whole = model.asked[0].json
    assert got.json == {"generateContentRequest": {"model": "models/gemini-2.5-flash", **whole}}


@pytest.mark.parametrize("body", [b"", b"[]", b'{"totalTokens":"7"}', b'{"totalTokens":'])
def test_a_count_that_is_none(body: bytes) -> None:
    with ScriptedGemini(counts=body) as model, pytest.raises(ProviderError) as caught:
        run(_count(gemini(model.base_url), "m"))
    assert caught.value.kind == "malformed"
