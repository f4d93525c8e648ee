"""How the Messages API fails: each way has its kind, one line with the fix, and no key in it."""

import os
from typing import Any

import pytest

from adderclaw.config.schema import ProviderEntry
from adderclaw.core.errors import ProviderError
from adderclaw.models.providers.anthropic import Anthropic
from tests.models.providers.making import House, ask, request, run
from tests.rows import rows
from tests.scripted_anthropic import Fault, ScriptedMessages, Step

CANARY = "sk-ant-api03-canary-9f8e7d6c5b4a3210"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "CLAUDE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ANTHROPIC_API_KEY", CANARY)


def failure(step: Step, between: float | None = None, **more: Any) -> ProviderError:
    with ScriptedMessages([step]) as model:
        house = House({"p": ProviderEntry(kind="anthropic", base_url=model.base_url, model="claude-x", **more)})
        provider = house.make("p")
        assert isinstance(provider, Anthropic)
        if between is not None:
            provider.wire.between_seconds = between
        with pytest.raises(ProviderError) as caught:
            ask(provider, request(model="claude-x"))
    shown = f"{caught.value} {caught.value!r} {caught.value.__cause__!r} {house.told}"
    assert CANARY not in shown
    assert "canary" not in shown
    assert "\n" not in str(caught.value)
    assert caught.value.provider == "p"
    assert len(str(caught.value)) < 700
    return caught.value


STATUSES: list[Any] = [
    ({"status": 400, "type": "invalid_request_error", "message": "max_tokens: 5 > 4"}, "invalid_request", "max_tokens"),
    (
        {"status": 400, "type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000"},
        "context_overflow",
        "start a new one",
    ),
    (
        {"status": 400, "message": "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"},
        "context_overflow",
        "context limit",
    ),
    (
        {"status": 400, "message": "Your credit balance is too low to access the Anthropic API."},
        "billing_error",
        "top it up",
    ),
    (
        {"status": 401, "type": "authentication_error", "message": "invalid x-api-key"},
        "authentication_failed",
        "environment ANTHROPIC_API_KEY",
    ),
    ({"status": 401, "body": f"bad key {CANARY}"}, "authentication_failed", "ANTHROPIC_API_KEY"),
    ({"status": 402, "type": "billing_error", "message": "x"}, "billing_error", "credit"),
    ({"status": 403, "type": "permission_error", "message": "not yours"}, "authentication_failed", "not yours"),
    ({"status": 404, "type": "not_found_error", "message": "model: claude-x"}, "invalid_request", "'claude-x'"),
    ({"status": 404, "body": "<html>nginx</html>"}, "invalid_request", "base_url"),
    ({"status": 413, "type": "request_too_large", "message": "Request too large"}, "context_overflow", "413"),
    ({"status": 413, "body": "<html>413 Request Entity Too Large</html>"}, "context_overflow", "413"),
    ({"status": 429, "type": "rate_limit_error", "message": "tokens per minute"}, "rate_limit", "tokens per minute"),
    ({"status": 500, "type": "api_error", "message": f"oh {CANARY}"}, "server_error", "try again later"),
    ({"status": 502, "body": "<html>bad gateway</html>"}, "server_error", "502"),
    ({"status": 504, "type": "timeout_error", "message": "x"}, "server_error", "504"),
    ({"status": 529, "type": "overloaded_error", "message": "Overloaded"}, "server_error", "Overloaded"),
    ({"status": 529, "body": '{"type": "error", "err'}, "server_error", "529"),
    ({"status": 500, "body": "x" * 290 + CANARY}, "server_error", "500"),
]


@rows(("fault", "kind", "words"), STATUSES)
def test_statuses(fault: Fault, kind: str, words: str) -> None:
    error = failure({"error": fault})
    assert (error.kind, error.status) == (kind, fault.get("status"))
    assert words in str(error)


def test_an_unknown_model_is_named_with_the_way_to_another() -> None:
    error = failure({"error": {"status": 404, "type": "not_found_error", "message": "not here"}})
    assert "the requested model was 'claude-x'" in str(error)
    assert "--model" in str(error)
    assert not error.retryable


def test_the_key_of_another_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWN_KEY", "another-canary-0123456789")
    error = failure({"error": {"status": 401, "body": "another-canary-0123456789"}}, api_key_env="OWN_KEY")
    assert "OWN_KEY" in str(error)


def limits(**values: str) -> dict[str, str]:
    return {f"anthropic-ratelimit-{name.replace('_', '-')}": value for name, value in values.items()}


SOON = "1970-01-12T13:47:10Z"  # the clock of these tests stands at 1,000,000 seconds: 30 before this
LATER = "1970-01-12T13:48:10+00:00"
PAST = "1970-01-01T00:00:00Z"


@rows(
    ("status", "headers", "seconds"),
    [
        (429, {"retry-after": "7"}, 7.0),
        (529, {"retry-after": "3"}, 3.0),
        (429, {"retry-after": "7", **limits(tokens_remaining="0", tokens_reset=LATER)}, 7.0),
        (429, limits(tokens_remaining="0", tokens_reset=SOON), 30.0),
        (429, limits(requests_remaining="0", requests_reset=SOON, tokens_remaining="9", tokens_reset=LATER), 30.0),
        (
            429,
            limits(
                input_tokens_remaining="0",
                input_tokens_reset=SOON,
                output_tokens_remaining="0",
                output_tokens_reset=LATER,
            ),
            90.0,
        ),
        (429, limits(tokens_remaining="0", tokens_reset=PAST), 0.0),
        (429, limits(tokens_remaining="0", tokens_reset="soon"), None),
        (429, limits(tokens_remaining="0", tokens_reset="1970-01-12T13:47:10"), None),
        (429, limits(tokens_remaining="5", tokens_reset=SOON), None),
        (429, {}, None),
        (400, {"retry-after": "7"}, None),
    ],
)
def test_how_long_to_wait(status: int, headers: dict[str, str], seconds: float | None) -> None:
    assert failure({"error": {"status": status, "headers": headers}}).retry_after == seconds


@pytest.mark.parametrize("stall", [0, 500])
def test_a_stream_that_stalls(stall: int) -> None:
    error = failure({"text": "a b c", "stall": stall}, between=0.2, timeout_seconds=0.5)
    assert error.kind == "timeout"
    assert "fell silent" in str(error)


def test_nothing_listens() -> None:
    with ScriptedMessages() as model:
        gone = model.base_url
    house = House({"p": ProviderEntry(kind="anthropic", base_url=gone, model="m")})
    with pytest.raises(ProviderError, match="nothing listens at") as caught:
        ask(house.make("p"), request())
    assert caught.value.kind == "network"


def test_counting_fails_as_asking_does() -> None:
    with ScriptedMessages() as model:
        gone = model.base_url
    provider = House({"p": ProviderEntry(kind="anthropic", base_url=gone, model="m")}).make("p")
    with pytest.raises(ProviderError, match="nothing listens at"):
        run(provider.count(request()))


def test_after_an_error_the_next_answer_is_right() -> None:
    with ScriptedMessages([{"error": {"status": 529}}, {"text": "fine"}]) as model:
        provider = House({"p": ProviderEntry(kind="anthropic", base_url=model.base_url, model="m")}).make("p")

        async def twice() -> str:
            with pytest.raises(ProviderError):
                await provider.chat(request(), lambda _: None)
            answer = await provider.chat(request(), lambda _: None)
            await provider.close()
            return answer.final_text

        assert run(twice()) == "fine"
