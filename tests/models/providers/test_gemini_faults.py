"""Google's errors: each has its kind, one line with the fix, its pause, and no key in it."""

import json
from pathlib import Path
from typing import Any

import pytest

from adderclaw.core.errors import ProviderError
from tests.models.providers.making import House, ask, run
from tests.models.providers.making_gemini import CANARY, ERRORS, asking, error_in, gemini_entry
from tests.rows import rows
from tests.scripted_gemini import ScriptedGemini, stream_of

EXPECTED: dict[str, tuple[str, float | None, str]] = {
    "per_minute": ("rate_limit", 36.837906927, "wait"),
    "per_day": ("billing_error", None, "another provider"),
    "exhausted": ("rate_limit", None, "Resource has been exhausted"),
    "bad_key": ("authentication_failed", None, "check the key"),
    "expired_key": ("authentication_failed", None, "renew"),
    "no_key": ("authentication_failed", None, "check the key"),
    "leaked_key": ("authentication_failed", None, "reported as leaked"),
    "no_such_model": ("invalid_request", None, "check the model's name"),
    "too_long": ("context_overflow", None, "exceeds the model's context window"),
    "bad_schema": ("invalid_request", None, "Invalid function name"),
    "no_signature": ("invalid_request", None, "thought_signature"),
    "wrong_country": ("invalid_request", None, "User location"),
    "internal": ("server_error", None, "internal error"),
    "overloaded": ("server_error", None, "overloaded"),
    "deadline": ("server_error", None, "Deadline"),
}


@pytest.fixture(autouse=True)
def key(home: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", CANARY)


def failure(step: dict[str, Any], **entry: Any) -> ProviderError:
    with ScriptedGemini([step]) as model:
        house = House({"g": gemini_entry(model.base_url, **entry)})
        with pytest.raises(ProviderError) as caught:
            ask(house.make("g"), asking())
    error = caught.value
    shown = f"{error} {error!r} {error.__cause__!r} {house.told}"
    assert CANARY not in shown
    assert "\n" not in str(error)
    assert len(str(error)) < 600
    assert error.provider == "g"
    return error


def test_every_error_of_the_corpus_is_expected() -> None:
    assert {file.stem for file in ERRORS} == set(EXPECTED)


@rows("file", ERRORS, ids=lambda file: file.stem)
@rows("stream", [True, False])
def test_errors_by_status(file: Path, stream: bool) -> None:
    body, told = error_in(file)
    status = told["error"]["code"]
    error = failure({"error": {"status": status, "body": body}}, stream=stream)
    kind, wait, words = EXPECTED[file.stem]
    assert (error.kind, error.retry_after, error.status) == (kind, wait, status)
    assert words in str(error)


@rows("file", ERRORS, ids=lambda file: file.stem)
@rows("stream", [True, False])
def test_the_same_errors_inside_an_answer_that_had_begun(file: Path, stream: bool) -> None:
    _, body = error_in(file)
    begun = {"candidates": [{"content": {"parts": [{"text": "par"}]}}]}
    error = failure({"raw": stream_of([begun, body]) if stream else json.dumps([begun, body]), "stream": stream})
    kind, wait, _ = EXPECTED[file.stem]
    assert (error.kind, error.retry_after, error.status) == (kind, wait, body["error"]["code"])


@rows(
    ("delay", "seconds"),
    [("36s", 36.0), ("0.5s", 0.5), ("0s", 0.0), ("-3s", 0.0), ("soon", None), (None, None), (7, 7.0), ("infs", None)],
)
def test_the_pause_that_the_body_names(delay: Any, seconds: float | None) -> None:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}
    body = {"error": {"code": 429, "message": "x", "status": "RESOURCE_EXHAUSTED", "details": [None, 7, {}, info]}}
    assert failure({"error": {"status": 429, "body": body}}).retry_after == seconds


def test_a_header_goes_before_the_body() -> None:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "36s"}
    body = {"error": {"code": 503, "message": "x", "details": [info]}}
    assert failure({"error": {"status": 503, "body": body, "retry_after": 2}}).retry_after == 2.0


def test_a_key_that_the_server_repeats_is_not_shown() -> None:
    body = {"error": {"code": 400, "message": f"API key not valid: {CANARY}", "status": "INVALID_ARGUMENT"}}
    error = failure({"error": {"status": 400, "body": body}})
    assert error.kind == "authentication_failed"
    assert "[redacted]" in str(error)


@pytest.mark.parametrize(
    "body", ["<html>bad gateway</html>", "", "[]", "[[]]", '{"error":"x"}', '{"error":{"details":7}}']
)
def test_bodies_that_no_google_server_sends(body: str) -> None:
    assert failure({"error": {"status": 502, "body": body}}).kind == "server_error"


def test_counting_fails_as_chatting_does() -> None:
    with ScriptedGemini() as model:
        provider = House({"g": gemini_entry(model.base_url)}).make("g")
        with pytest.raises(ProviderError, match="check the model's name") as caught:
            run(provider.count(asking()))
    assert (caught.value.kind, caught.value.status) == ("invalid_request", 404)
