"""How a model is told to think on each wire, at each level; what comes back of it; and what a server refuses."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from adderclaw.config.schema import ProviderEntry
from adderclaw.core.events import Body
from adderclaw.core.history import History
from adderclaw.core.types import EFFORTS, Json, Message, OpaqueBlock, TextBlock, Thinking, ToolCall, ToolUseBlock
from adderclaw.models.providers.anthropic import Anthropic
from tests.models.providers.making import READ, House, ask, called, request, result, user
from tests.models.providers.thinking_wires import KEYS, asked, said, server
from tests.rows import rows


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS.values():
        monkeypatch.setenv(name, "canary-key-0123456789")


def adaptive(*efforts: str, shown: bool = True, off: Json | None = None) -> list[Json]:
    """What an adaptive Claude is told: when nothing is chosen, at `none`, and at the other levels."""
    thinks: Json = {"thinking": {"type": "adaptive", **({"display": "summarized"} if shown else {})}}
    least: Json = ({"thinking": off} if off else {}) | {"output_config": {"effort": "low"}}
    return [thinks, least, *({**thinks, "output_config": {"effort": effort}} for effort in efforts)]


def budget(*numbers: int, efforts: tuple[str, ...] = ()) -> list[Json]:
    """What an older Claude is told; no word of thinking at `none`."""
    made: list[Json] = [{"thinking": {"type": "enabled", "budget_tokens": number}} for number in numbers]
    for place, effort in enumerate(efforts, 1):
        made[place]["output_config"] = {"effort": effort}
    return [made[0], {"output_config": {"effort": efforts[0]}} if efforts else {}, *made[1:]]


def responses(*efforts: str) -> list[Json]:
    return [{"reasoning": {"effort": one} | ({} if one == "none" else {"summary": "auto"})} for one in efforts]


def chat(*efforts: str | None) -> list[Json]:
    return [{} if one is None else {"reasoning_effort": one} for one in efforts]


def levels(*names: str) -> list[Json]:
    """What a Gemini with levels is told; the first is for `none`."""
    told = [
        {"thinkingConfig": {"includeThoughts": place > 0, "thinkingLevel": name}} for place, name in enumerate(names)
    ]
    return [{"thinkingConfig": {"includeThoughts": True}}, *told]


def tokens(*numbers: int) -> list[Json]:
    return [
        {"thinkingConfig": {"includeThoughts": place != 1, "thinkingBudget": number}}
        for place, number in enumerate(numbers)
    ]


FIVE = ("low", "low", "medium", "high", "xhigh", "max")
WITHOUT_XHIGH = ("low", "low", "medium", "high", "high", "max")
LEVELS: list[tuple[str, str, list[Json]]] = [
    ("anthropic", "claude-opus-5-5", adaptive(*FIVE)),
    ("anthropic", "claude-fable-5-2", adaptive(*FIVE)),
    ("anthropic", "claude-sonnet-5-5", adaptive(*FIVE, off={"type": "between_tools"})),
    ("anthropic", "claude-haiku-5-5", adaptive(*FIVE, off={"type": "disabled"})),
    ("anthropic", "claude-opus-4-7", adaptive(*FIVE)),
    ("anthropic", "claude-sonnet-4-6", adaptive(*WITHOUT_XHIGH, shown=False)),
    (
        "anthropic",
        "claude-opus-4-5",
        budget(
            *(16_000, 1024, 4096, 10_000, 16_000, 24_000, 31_999),
            efforts=("low", "low", "medium", "high", "high", "high"),
        ),
    ),
    ("anthropic", "claude-haiku-4-5", budget(16_000, 1024, 4096, 10_000, 16_000, 24_000, 31_999)),
    ("anthropic", "claude-3-5-haiku-20241022", [{}] * 8),
    ("openai", "gpt-6.1-sol", responses("medium", "low", "low", "low", "medium", "high", "xhigh", "max")),
    ("openai", "gpt-6-luna", responses("medium", "none", "none", "low", "medium", "high", "xhigh", "max")),
    ("openai", "gpt-5.2", responses("medium", "none", "none", "low", "medium", "high", "xhigh", "xhigh")),
    ("openai", "gpt-5.1", responses("medium", "none", "none", "low", "medium", "high", "high", "high")),
    ("openai", "gpt-5-mini", responses("medium", "minimal", "minimal", "low", "medium", "high", "high", "high")),
    ("openai", "gpt-5.2-codex", responses("medium", "low", "low", "low", "medium", "high", "xhigh", "xhigh")),
    ("openai", "gpt-5-pro", [{}, *responses(*["high"] * 7)]),
    ("openai", "o3", responses("medium", "low", "low", "low", "medium", "high", "high", "high")),
    ("openai", "gpt-4.1", [{}] * 8),
    ("openai-compatible", "gpt-5.2", chat("medium", "none", "none", "low", "medium", "high", "xhigh", "xhigh")),
    ("openai-compatible", "gpt-4o", chat(*[None] * 8)),
    ("openai-compatible", "qwen3-32b", chat(None, *EFFORTS)),
    ("ollama", "gpt-oss:20b", chat(None, *EFFORTS)),
    (
        "openrouter",
        "anthropic/claude-opus-4.6",
        [{"reasoning": {"enabled": True}}, {"reasoning": {"enabled": False}}]
        + [{"reasoning": {"effort": effort}} for effort in EFFORTS[1:]],
    ),
    ("gemini", "gemini-3.1-pro-preview", levels("LOW", "LOW", "LOW", "MEDIUM", "HIGH", "HIGH", "HIGH")),
    ("gemini", "gemini-3-pro-preview", levels("LOW", "LOW", "LOW", "LOW", "HIGH", "HIGH", "HIGH")),
    ("gemini", "gemini-3.8-flash", levels("MINIMAL", "MINIMAL", "LOW", "MEDIUM", "HIGH", "HIGH", "HIGH")),
    ("gemini", "gemini-2.5-pro", tokens(-1, 128, 1024, 4096, 10_000, 16_000, 24_000, 31_999)),
    ("gemini", "gemini-2.5-flash", tokens(-1, 0, 1024, 4096, 10_000, 16_000, 24_000, 24_576)),
]


@rows(("kind", "model", "told"), LEVELS)
def test_each_level_on_each_wire(kind: str, model: str, told: list[Json]) -> None:
    """The first is sent where nothing is chosen; the others at `none` to `max`."""
    requests = [request(model=model), *(request(model=model, thinking=Thinking(effort)) for effort in EFFORTS)]
    assert [said(body) for body in asked(kind, *requests)] == told


def test_every_value_is_one_that_the_vendors_own_sdk_has() -> None:
    from anthropic.types import OutputConfigParam, ThinkingConfigParam
    from google.genai.types import ThinkingConfig, ThinkingLevel
    from openai.types.shared_params import Reasoning
    from openai.types.shared_params.reasoning_effort import ReasoningEffort
    from pydantic import TypeAdapter

    known: dict[str, Any] = {
        "thinking": TypeAdapter(ThinkingConfigParam),
        "output_config": TypeAdapter(OutputConfigParam),
        "reasoning_effort": TypeAdapter(ReasoningEffort),
    }
    for kind, _, told in LEVELS:
        for body in told if kind != "openrouter" else ():
            for name, value in body.items():
                if name == "reasoning":
                    TypeAdapter(Reasoning).validate_python(value, strict=True)
                elif name == "thinkingConfig":
                    read = ThinkingConfig.model_validate(value)
                    assert read.model_dump(exclude_none=True, by_alias=True, mode="json") == value
                    assert read.thinking_level is None or read.thinking_level in ThinkingLevel
                elif value != {"type": "between_tools"}:  # newer than the oldest SDK that these tests may meet
                    known[name].validate_python(value, strict=True)


# ---------------------------------------------------------------------- an entry, a mode, a number


@rows(
    ("entry", "chosen", "told"),
    [
        ({"effort": "low"}, Thinking(), {"type": "adaptive", "display": "summarized", "effort": "low"}),
        ({"effort": "low"}, Thinking("max"), {"type": "adaptive", "display": "summarized", "effort": "max"}),
        ({"thinking": "disabled"}, Thinking(), {"type": "disabled"}),
        ({"thinking": "disabled", "effort": "max"}, Thinking(), {"type": "disabled", "effort": "high"}),
        ({"thinking": "disabled"}, Thinking("low"), {"type": "adaptive", "display": "summarized", "effort": "low"}),
        ({"effort": "none"}, Thinking(mode="adaptive"), {"type": "adaptive", "display": "summarized"}),
        ({"effort": "high"}, Thinking(mode="disabled"), {"type": "disabled"}),
        ({"thinking_tokens": 0}, Thinking(), {"type": "disabled"}),
        ({"thinking_tokens": 0}, Thinking(mode="enabled"), {"type": "adaptive", "display": "summarized"}),
        ({"thinking_tokens": 0}, Thinking("high"), {"type": "adaptive", "display": "summarized", "effort": "high"}),
        ({}, Thinking(tokens=5000), {"type": "adaptive", "display": "summarized"}),
        ({"effort": "none"}, Thinking(tokens=5000), {"type": "adaptive", "display": "summarized"}),
    ],
)
def test_what_is_chosen_goes_before_the_entry(entry: Json, chosen: Thinking, told: Json) -> None:
    body = asked("anthropic", request(model="claude-sonnet-5", thinking=chosen), **entry)[0]
    assert body["thinking"] | body.get("output_config", {}) == told


def test_a_number_of_tokens_stays_unless_something_else_is_chosen() -> None:
    chosen = (Thinking(), Thinking(mode="enabled"), Thinking("low"), Thinking(tokens=3000))
    requests = [request(model="claude-haiku-4-5", thinking=one) for one in chosen]
    sent = asked("anthropic", *requests, thinking_tokens=2048)
    assert [body["thinking"]["budget_tokens"] for body in sent] == [2048, 2048, 4096, 3000]


def test_the_longest_answer_grows_with_the_thoughts_and_a_short_one_leaves_no_room_for_them() -> None:
    plain, high, short, tiny = asked(
        "anthropic",
        *(
            request(model="claude-haiku-4-5", **more)
            for more in (
                {"thinking": Thinking(mode="disabled")},
                {"thinking": Thinking("high")},
                {"thinking": Thinking("high"), "max_tokens": 3000},
                {"thinking": Thinking("high"), "max_tokens": 2000},
            )
        ),
    )
    assert (plain["max_tokens"], high["max_tokens"]) == (32_000, 48_000)
    assert (short["thinking"]["budget_tokens"], short["max_tokens"]) == (1976, 3000)
    assert "thinking" not in tiny


@rows(
    ("kind", "model", "told"),
    [
        ("anthropic", "claude-haiku-4-5", {"temperature": 0.5}),
        ("anthropic", "claude-opus-4-7", {"thinking": {"type": "adaptive", "display": "summarized"}}),
        ("openai", "gpt-5.1", {"reasoning": {"effort": "medium", "summary": "auto"}}),
        ("openai-compatible", "qwen3-32b", {"temperature": 0.5}),
    ],
)
def test_a_temperature_goes_out_only_to_a_model_that_does_not_think(kind: str, model: str, told: Json) -> None:
    assert said(asked(kind, request(model=model), temperature=0.5)[0]) == told


@rows(
    ("model", "told"),
    [
        ("claude-haiku-4-5", {"tool_choice": {"type": "tool", "name": "Read"}}),
        ("claude-opus-4-6", {"tool_choice": {"type": "tool", "name": "Read"}}),
        ("claude-haiku-5-5", {"tool_choice": {"type": "tool", "name": "Read"}, "thinking": {"type": "disabled"}}),
        ("claude-sonnet-5-5", {"thinking": {"type": "adaptive", "display": "summarized"}}),
        ("claude-opus-5-5", {"thinking": {"type": "adaptive", "display": "summarized"}}),
    ],
)
def test_no_claude_thinks_while_a_tool_is_forced_and_some_can_be_forced_to_none(model: str, told: Json) -> None:
    assert said(asked("anthropic", request(model=model, tools=(READ,), tool_choice="Read"))[0]) == told


# ---------------------------------------------------------------------- what a server refuses

REFUSALS = [
    (
        "anthropic",
        "claude-opus-4-7",
        "thinking.display: Extra inputs are not permitted",
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
    ),
    (
        "openai",
        "gpt-5.1",
        "Your organization must be verified to generate reasoning summaries.",
        {"reasoning": {"effort": "high"}},
    ),
    (
        "openai-compatible",
        "qwen3-32b",
        "Unsupported value: 'reasoning_effort' does not support 'max'",
        {"reasoning_effort": "high"},
    ),
    ("openrouter", "z-ai/glm-5", "reasoning.effort: invalid option", {"reasoning": {"effort": "high"}}),
    (
        "gemini",
        "gemini-3.8-flash",
        "Unknown name \"includeThoughts\" at 'generation_config.thinking_config'",
        {"thinkingConfig": {"thinkingLevel": "HIGH"}},
    ),
]


def refused(words: str, status: int = 400) -> Mapping[str, object]:
    return {"error": {"status": status, "body": {"error": {"type": "invalid_request_error", "message": words}}}}


@rows(("kind", "model", "words", "plain"), REFUSALS)
def test_what_a_server_refuses_is_left_out_of_the_next_try_and_of_those_after_it(
    kind: str, model: str, words: str, plain: Json
) -> None:
    again, told = request(model=model, thinking=Thinking("max")), list[Body]()
    steps = [refused(words), {"text": "ok"}, {"text": "ok"}]
    assert [said(body) for body in asked(kind, again, again, steps=steps, told=told)[1:]] == [plain, plain]
    assert words.split()[0] in str(told)
    assert "from now on" in str(told)


@rows(("kind", "model", "words", "plain"), REFUSALS)
def test_where_that_is_refused_too_nothing_is_said_of_thinking(kind: str, model: str, words: str, plain: Json) -> None:
    steps = [refused(words), refused(words, 422), {"text": "ok"}]
    sent = asked(kind, request(model=model, thinking=Thinking("max")), steps=steps)
    assert [said(body) for body in sent[1:]] == [plain, {}]


def test_another_error_is_not_taken_for_a_refusal() -> None:
    from adderclaw.core.errors import ProviderError

    for words, status in (("messages: too many images", 400), ("thinking is overloaded", 529)):
        with pytest.raises(ProviderError, match=words):
            asked("anthropic", request(model="claude-opus-4-7"), steps=[refused(words, status)])


# ---------------------------------------------------------------------- thoughts that come back

SIGNED = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}


def thought(wire: str, payload: Json, call: str = "c1") -> Message:
    return Message("assistant", (OpaqueBlock(wire, payload), ToolUseBlock(ToolCall(call, "Read", {}))))


@rows(
    ("kind", "model", "wire", "payload", "mark"),
    [
        ("anthropic", "claude-opus-5-5", "anthropic", SIGNED, "c2ln"),
        ("anthropic", "claude-haiku-4-5", "anthropic", {"type": "redacted_thinking", "data": "c2ln"}, "c2ln"),
        ("gemini", "gemini-3.8-flash", "gemini", {"parts": [{"call_id": "c1", "signature": "c2ln"}]}, "c2ln"),
    ],
)
def test_thoughts_that_a_server_refuses_are_not_sent_again_but_newer_ones_are(
    kind: str, model: str, wire: str, payload: Json, mark: str
) -> None:
    history = History([user("a"), thought(wire, payload), result("c1", "x")])
    asking = request(model=model)
    asking = replace(asking, messages=history)
    words = "messages.1.content.0: Invalid `signature` in `thinking` block. It is bound to a different conversation."
    told = list[Body]()
    sent = asked(kind, asking, asking, steps=[refused(words), {"text": "ok"}, {"text": "ok"}], told=told)
    assert [mark in json.dumps(body) for body in sent] == [True, False, False]
    assert "none of its earlier thoughts" in str(told)


def test_an_older_claude_does_not_begin_to_think_in_the_middle_of_a_turn() -> None:
    begun = [user("a"), called("c1", "Read", {}), result("c1", "x")]
    own = [user("a"), thought("anthropic", SIGNED), result("c1", "x"), called("c2", "Read", {}), result("c2", "y")]
    sent = asked("anthropic", request(*begun, model="claude-haiku-4-5"), request(*own, model="claude-haiku-4-5"))
    assert ["thinking" in body for body in sent] == [False, True]
    newer = asked("anthropic", request(*begun, model="claude-opus-4-6"))
    assert newer[0]["thinking"] == {"type": "adaptive"}


DETAILS = {"reasoning_details": [{"type": "reasoning.encrypted", "data": "c2ln", "index": 0}], "content": "b"}
DETAILED = {"model": "m", "choices": [{"index": 0, "message": DETAILS, "finish_reason": "stop"}]}
RAW = {"raw": json.dumps(DETAILED), "content_type": "application/json"}
THOUGHT = {"thinking": [{"thinking": "hm", "signature": "c2ln"}], "text": "b"}


@rows(
    ("kind", "first", "second", "step"),
    [
        ("openrouter", "anthropic/claude-opus-4.6", "google/gemini-3-pro-preview", RAW),
        ("openrouter", "z-ai/glm-5", "vendor/model", RAW),
        ("openai-compatible", "deepseek-r2", "qwen3-32b", RAW),
        ("anthropic", "claude-opus-5-5", "glm-5", THOUGHT),
        ("anthropic", "glm-5", "claude-opus-5-5", THOUGHT),
    ],
)
def test_no_vendors_thoughts_are_sent_to_another_vendors_model(
    kind: str, first: str, second: str, step: Mapping[str, object]
) -> None:
    with server(kind, [step, {"text": "ok"}, {"text": "ok"}]) as model:
        house = House({"p": ProviderEntry(kind=cast(Any, kind), base_url=model.base_url, model=first)}, thinks=True)
        answer = ask(house.make("p"), request(model=first))[0]
        assert answer.opaque
        history = History([user("a"), Message("assistant", (*answer.opaque, TextBlock("b"))), user("c")])
        ask(house.make("p"), *(replace(request(model=name), messages=history) for name in (first, second)))
    assert [b"c2ln" in one.body for one in model.requests[1:]] == [True, False]


# ---------------------------------------------------------------------- what is not known here


@pytest.mark.parametrize("kind", ["anthropic", "openai", "openai-compatible", "gemini"])
def test_an_entry_adds_what_is_not_known_here(kind: str) -> None:
    extra: Json = {"top_k": 3, "metadata": {"user_id": "u"}, "generationConfig": {"seed": 1}}
    body = asked(kind, request(model="gemini-3.8-flash" if kind == "gemini" else "m"), extra_body=extra)[0]
    assert (body["top_k"], body["metadata"], body["generationConfig"]["seed"]) == (3, {"user_id": "u"}, 1)
    assert kind != "gemini" or body["generationConfig"]["thinkingConfig"] == {"includeThoughts": True}


def test_thoughts_that_a_server_counts_beside_the_answer_are_paid_too() -> None:
    with server(
        "openai-compatible", [{"raw": json.dumps(body), "content_type": "application/json"} for body in COUNTED]
    ) as model:
        house = House({"p": ProviderEntry(kind="openai-compatible", base_url=model.base_url, model="m")})
        answers = ask(house.make("p"), *(request(model="m") for _ in COUNTED))
    assert [one.usage.output_tokens for one in answers] == [30, 110]


def _counted(total: int) -> Json:
    usage = {"prompt_tokens": 7, "completion_tokens": 30, "total_tokens": total}
    usage |= {"completion_tokens_details": {"reasoning_tokens": 80 if total > 100 else 20}}
    return {"choices": [{"index": 0, "message": {"content": "b"}, "finish_reason": "stop"}], "usage": usage}


COUNTED = (_counted(37), _counted(117))
"""The reasoning is part of what OpenAI counts as the answer, and beside it where the total says so."""


# ---------------------------------------------------------------------- how long it is waited for


@rows(
    ("entry", "chosen", "seconds"),
    [
        ({"model": "claude-opus-4-6"}, Thinking(), (600, 300)),
        ({"model": "claude-opus-4-6"}, Thinking("none"), (120, 60)),
        ({"model": "claude-opus-4-6", "timeout_seconds": 30.0}, Thinking(), (30, 60)),
        ({"model": "claude-opus-4-6", "idle_timeout_seconds": 20.0}, Thinking(), (600, 20)),
        ({"model": "m"}, Thinking(), (120, 60)),
        ({"model": "m"}, Thinking("high"), (600, 300)),
    ],
)
def test_a_model_that_thinks_is_waited_for_longer(entry: Json, chosen: Thinking, seconds: tuple[float, float]) -> None:
    with server("anthropic", [{"text": "ok"}]) as model:
        made = House({"p": ProviderEntry(kind="anthropic", base_url=model.base_url, **entry)}, thinks=True).make("p")
        assert isinstance(made, Anthropic)
        ask(made, request(model=entry["model"], thinking=chosen))
    assert (made.wire.first_seconds, made.wire.between_seconds) == seconds


@rows(
    ("model", "tokens", "sent"),
    [("gemini-2.5-pro", 5, 128), ("gemini-2.5-flash-lite", 5, 512), ("gemini-2.5-flash", 99_999, 24_576)],
)
def test_a_number_of_tokens_stays_within_what_a_gemini_takes(model: str, tokens: int, sent: int) -> None:
    body = asked("gemini", request(model=model, thinking=Thinking(tokens=tokens)))[0]
    assert body["generationConfig"]["thinkingConfig"]["thinkingBudget"] == sent
