"""Google's own SDK as the oracle: it would send what we send, and reads the answers as we read them."""

import base64
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from google import genai
from google.genai import types

from adderclaw.core.types import (
    ChatResponse,
    Json,
    MediaBlock,
    Message,
    TextBlock,
    Thinking,
    ToolCall,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
)
from tests.models.providers.making import READ, ask, called, result, run, user
from tests.models.providers.making_gemini import ANSWERS, CANARY, CORPUS, ERRORS, asking, error_in, gemini, type_of
from tests.rows import rows
from tests.scripted_gemini import ScriptedGemini

SCHEMA = {"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"]}
IMAGE = base64.b64encode(b"\x89PNG not really").decode()


@pytest.fixture(autouse=True)
def key(home: object, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GEMINI_API_KEY", CANARY)


def sdk(base_url: str) -> Any:
    """It closes itself when nobody holds it."""
    where = types.HttpOptions(base_url=base_url, api_version="v1beta", timeout=60_000)
    return genai.Client(api_key=CANARY, http_options=where)


def whole(client: Any, contents: Any, config: Any = None) -> Iterator[Any]:
    yield client.models.generate_content(model="gemini-2.5-flash", contents=contents, config=config)


def stream(client: Any, contents: Any, config: Any = None) -> Iterator[Any]:
    yield from client.models.generate_content_stream(model="gemini-2.5-flash", contents=contents, config=config)


def no_loop() -> types.AutomaticFunctionCallingConfig:
    return types.AutomaticFunctionCallingConfig(disable=True)


# ------------------------------------------------------------------ what is sent


def function(name: str, arguments: Any, **more: Any) -> types.Part:
    return types.Part(function_call=types.FunctionCall(name=name, args=arguments, id=more.pop("id", None)), **more)


def response(name: str, value: Any, call_id: str | None = None) -> types.Part:
    return types.Part(function_response=types.FunctionResponse(name=name, response=value, id=call_id))


def content(role: str, *parts: types.Part) -> types.Content:
    return types.Content(role=role, parts=list(parts))


def text(said: str) -> types.Part:
    return types.Part(text=said)


READ_TOOL = types.Tool(
    function_declarations=[
        types.FunctionDeclaration(name="Read", description="Reads a file.", parameters_json_schema=READ.parameters)
    ]
)
HELLO = [content("user", text("hello"))]
TWO_CALLS = Message("assistant", tuple(ToolUseBlock(ToolCall(f"gemini_r_{n}", "Read", {"n": n})) for n in range(2)))
TWO_RESULTS = Message("user", tuple(ToolResultBlock(f"gemini_r_{n}", str(n), False) for n in range(2)))

REQUESTS: dict[str, tuple[tuple[Message, ...], dict[str, Any], list[types.Content], dict[str, Any]]] = {
    "plain": ((user("hello"),), {}, HELLO, {}),
    "settings": (
        (user("hello"),),
        {"temperature": 0.25, "max_tokens": 99, "thinking": Thinking(tokens=1024)},
        HELLO,
        {
            "temperature": 0.25,
            "max_output_tokens": 99,
            "thinking_config": types.ThinkingConfig(include_thoughts=True, thinking_budget=1024),
        },
    ),
    "tools": ((user("hello"),), {"tools": (READ,)}, HELLO, {"tools": [READ_TOOL]}),
    "forced tool": (
        (user("hello"),),
        {"tools": (READ,), "tool_choice": "Read"},
        HELLO,
        {
            "tools": [READ_TOOL],
            "tool_config": types.ToolConfig(
                function_calling_config=types.FunctionCallingConfig(
                    mode=types.FunctionCallingConfigMode.ANY, allowed_function_names=["Read"]
                )
            ),
        },
    ),
    "JSON mode": (
        (user("hello"),),
        {"response_schema": SCHEMA},
        HELLO,
        {"response_mime_type": "application/json", "response_json_schema": SCHEMA},
    ),
    "image and PDF": (
        (
            Message(
                "user",
                (TextBlock("see"), MediaBlock("image/png", IMAGE), MediaBlock("application/pdf", IMAGE)),
            ),
        ),
        {},
        [
            content(
                "user",
                text("see"),
                types.Part(inline_data=types.Blob(mime_type="image/png", data=base64.b64decode(IMAGE))),
                types.Part(inline_data=types.Blob(mime_type="application/pdf", data=base64.b64decode(IMAGE))),
            )
        ],
        {},
    ),
    "call with an id": (
        (user("a"), called("k1", "Read", {"file_path": "ä"}, "so"), result("k1", "fine")),
        {"tools": (READ,)},
        [
            content("user", text("a")),
            content("model", text("so"), function("Read", {"file_path": "ä"}, id="k1")),
            content("user", response("Read", {"output": "fine"}, "k1")),
        ],
        {"tools": [READ_TOOL]},
    ),
    "calls without ids, then a message": (
        (user("a"), TWO_CALLS, TWO_RESULTS, user("b")),
        {},
        [
            content("user", text("a")),
            content("model", function("Read", {"n": 0}), function("Read", {"n": 1})),
            content("user", response("Read", {"output": "0"}), response("Read", {"output": "1"})),
            content("user", text("b")),
        ],
        {},
    ),
    "an error": (
        (user("a"), called("k1", "Read", {}), result("k1", "no", is_error=True)),
        {},
        [
            content("user", text("a")),
            content("model", function("Read", {}, id="k1")),
            content("user", response("Read", {"error": "no"}, "k1")),
        ],
        {},
    ),
}


@rows("name", REQUESTS)
@rows("streaming", [True, False])
def test_the_sdk_sends_the_same_request(name: str, streaming: bool) -> None:
    messages, ours, contents, theirs = REQUESTS[name]
    with ScriptedGemini([{"text": "ok"}] * 2) as model:
        ask(gemini(model.base_url, stream=streaming), asking(*messages, **ours))
        config = types.GenerateContentConfig(
            system_instruction=types.Content(parts=[text("be good")]), automatic_function_calling=no_loop(), **theirs
        )
        send: Callable[..., Iterator[Any]] = stream if streaming else whole
        assert "".join(chunk.text or "" for chunk in send(sdk(model.base_url), contents, config)) == "ok"
    mine, google = model.asked
    assert mine.path == google.path
    assert mine.headers["x-goog-api-key"] == google.headers["x-goog-api-key"] == CANARY
    assert mine.headers["content-type"] == google.headers["content-type"]
    assert meaning(mine.json) == meaning(google.json)


def meaning(body: Any) -> Any:
    """Protocol buffers take a name in either spelling, base64 in either alphabet, and what is empty as absent."""
    if isinstance(body, list):
        return [meaning(one) for one in cast(list[Any], body)]
    if not isinstance(body, dict):
        return body
    named = {re.sub(r"_(\w)", lambda found: found[1].upper(), key): one for key, one in cast(Json, body).items()}
    if "thoughtSignature" in named:
        named["thoughtSignature"] = named["thoughtSignature"].replace("-", "+").replace("_", "/")
    return {key: meaning(one) for key, one in named.items() if key != "generationConfig" or one}


@pytest.mark.parametrize("name", ["thought_and_call", "parallel_calls", "signed_text", "interleaved"])
def test_the_sdks_chat_sends_the_same_thoughts_and_signatures_back(name: str) -> None:
    """Its chat keeps every chunk as a message of its own; the parts, unsigned pieces joined, are the same."""
    from tests.models.providers.test_gemini_reply import message_of
    from tests.models.providers.test_gemini_reply import whole as joined

    raw = (CORPUS / f"{name}.sse").read_text(encoding="utf-8")
    with ScriptedGemini([{"raw": raw}, {"text": "ok"}] * 2) as model:
        client = sdk(model.base_url)
        chat = client.chats.create(
            model="gemini-2.5-flash", config=types.GenerateContentConfig(automatic_function_calling=no_loop())
        )
        for message in ("hello", "and?"):
            for _ in chat.send_message_stream(message):
                pass
        provider = gemini(model.base_url)

        async def twice() -> None:
            asked = asking(user("hello"), system_prompt="")
            asked.messages.append(message_of(await provider.chat(asked, lambda _: None)))
            asked.messages.append(user("and?"))
            await provider.chat(asked, lambda _: None)
            await provider.close()

        run(twice())
    google, mine = (model.asked[place].json["contents"] for place in (1, 3))
    assert model_parts(mine) == joined(model_parts(google))


def model_parts(contents: list[Any]) -> list[Any]:
    return [meaning(part) for one in contents if one["role"] == "model" for part in one.get("parts", [])]


def test_counting_gives_the_same_number() -> None:
    with ScriptedGemini(counts=4711) as model:
        provider = gemini(model.base_url)
        assert run(provider.count(asking(system_prompt=""))) == 4711
        client = sdk(model.base_url)
        counted = client.models.count_tokens(model="gemini-2.5-flash", contents=HELLO)
        assert counted.total_tokens == 4711
    mine, google = model.counted
    assert mine.path == google.path
    assert mine.json["generateContentRequest"]["contents"] == google.json["contents"]


# ------------------------------------------------------------------ what comes back


def theirs(chunks: list[Any]) -> dict[str, Any]:
    """An answer as the SDK tells it."""
    candidates: list[Any] = [one for chunk in chunks for one in chunk.candidates or ()]
    contents: list[Any] = [one.content for one in candidates if one.content]
    parts: list[Any] = [part for one in contents for part in one.parts or ()]
    finishes = [one.finish_reason for one in candidates if one.finish_reason]
    blocks = [chunk.prompt_feedback.block_reason for chunk in chunks if chunk.prompt_feedback]
    signatures = [base64.b64encode(part.thought_signature).decode() for part in parts if part.thought_signature]
    return {
        "text": "".join(part.text or "" for part in parts if not part.thought),
        "thoughts": "".join(part.text or "" for part in parts if part.thought),
        "calls": [
            (part.function_call.id, part.function_call.name, part.function_call.args)
            for part in parts
            if part.function_call
        ],
        "finish": finishes[-1].value if finishes else None,
        "block": blocks[-1].value if blocks else None,
        "usage": usage_of([chunk.usage_metadata for chunk in chunks if chunk.usage_metadata][-1]),
        "model": chunks[-1].model_version,
        "signatures": signatures,
    }


def usage_of(used: Any) -> Usage:
    cached = used.cached_content_token_count or 0
    answer = (used.candidates_token_count or 0) + (used.thoughts_token_count or 0)
    assert used.total_token_count == used.prompt_token_count + answer
    return Usage(used.prompt_token_count - cached, answer, cached)


def ours(got: ChatResponse, heard: list[Any]) -> dict[str, Any]:
    payload = got.raw_provider_payload or {}
    parts = [part for block in got.opaque for part in block.payload["parts"]]
    signatures = [part.get("signature") or part.get("part", {}).get("thoughtSignature") for part in parts]
    return {
        "text": got.final_text,
        "thoughts": "".join(delta.text for delta in heard if delta.kind == "thinking"),
        "calls": [
            (None if call.id.startswith("gemini_") else call.id, call.name, call.arguments) for call in got.tool_calls
        ],
        "finish": payload["finish_reason"],
        "block": payload["block_reason"],
        "usage": got.usage,
        "model": got.model,
        "signatures": [signature for signature in signatures if signature],
    }


NOT_THE_SDKS = {
    "list_of_chunks.json",  # the API streams so without alt=sse, which the SDK always asks for
    "line_separator.sse",  # the SDK takes U+2028 inside a JSON text for the end of its line, and fails
}


@rows("file", [one for one in ANSWERS if one.name not in NOT_THE_SDKS], ids=lambda file: file.name)
def test_both_read_the_same(file: Path) -> None:
    streaming = file.suffix == ".sse"
    step = {"raw": file.read_text(encoding="utf-8"), "content_type": type_of(file)}
    heard: list[Any] = []
    with ScriptedGemini([step, step]) as model:
        got = ask(gemini(model.base_url, stream=streaming), asking(), heard=heard)[0]
        chunks = list((stream if streaming else whole)(sdk(model.base_url), HELLO))
    assert ours(got, heard) == theirs(chunks)


@rows("file", ERRORS, ids=lambda file: file.stem)
def test_the_errors_of_the_corpus_are_errors_to_the_sdk_too(file: Path) -> None:
    from google.genai import errors

    body, told = error_in(file)
    error = told["error"]
    step: Json = {"error": {"status": error["code"], "body": body}}
    with ScriptedGemini([step]) as model, pytest.raises(errors.APIError) as caught:
        list(whole(sdk(model.base_url), HELLO))
    assert caught.value.code == error["code"]
    if not isinstance(body, list):
        assert (caught.value.status, caught.value.message) == (error["status"], error["message"])


def test_every_request_of_ours_is_of_the_sdks_types() -> None:
    """Its types forbid what they do not know."""
    messages, more, _, _ = REQUESTS["call with an id"]
    with ScriptedGemini([{"text": "ok"}]) as model:
        ask(gemini(model.base_url), asking(*messages, **more, thinking=Thinking(tokens=5), response_schema=SCHEMA))
    body = model.asked[0].json
    for one in [*body["contents"], body["systemInstruction"]]:
        types.Content.model_validate(one)
    for tool in body["tools"]:
        types.Tool.model_validate(tool)
    types.GenerationConfig.model_validate(body["generationConfig"])
