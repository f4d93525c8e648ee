"""`reliable` beyond the order: what servers say of when to come back, windows, answers that broke off."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from adderclaw.config.schema import ProviderEntry
from adderclaw.core.errors import ProviderError
from adderclaw.core.types import Delta, Provider
from tests.models.providers.making import House, ask, chat_entry, request, user
from tests.rows import rows
from tests.scripted import ScriptedModel

LIMITED: dict[str, Any] = {"error": {"status": 429, "retry_after": 30}}


def two(first: ScriptedModel, second: ScriptedModel, **more: Any) -> House:
    entries = {"a": chat_entry(first.base_url, **more), "b": chat_entry(second.base_url)}
    return House({**entries, "r": ProviderEntry(kind="reliable", providers=["a", "b"])})


def fails(provider: Provider) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        ask(provider, request())
    return caught.value


# ------------------------------------------------------------------ refusals


def test_a_server_that_said_when_to_come_back_is_not_asked_before() -> None:
    with ScriptedModel([LIMITED, {"text": "a again"}]) as first, ScriptedModel([{"text": "b"}] * 2) as second:
        house = two(first, second)
        provider = house.make("r")
        assert ask(provider, request())[0].provider == "b"
        house.time.at += 29
        assert ask(provider, request())[0].provider == "b"
        assert len(first.requests) == 1
        house.time.at += 2
        assert ask(provider, request())[0].final_text == "a again"


def test_when_all_said_so_nobody_is_asked_and_the_soonest_time_is_given() -> None:
    later = {"error": {"status": 503, "retry_after": 90}}
    with ScriptedModel([LIMITED]) as first, ScriptedModel([later]) as second:
        house = two(first, second)
        provider = house.make("r")
        assert (error := fails(provider)).kind == "rate_limit"
        assert error.retry_after == 30
        house.time.at += 10
        error = fails(provider)
        assert (error.kind, error.retry_after) == ("rate_limit", 20)
        assert error.retryable
        assert "'a' is not asked for another 20 seconds" in str(error)
        assert "'b' is not asked for another 80 seconds" in str(error)


def test_the_times_are_kept_for_all_that_share_a_provider() -> None:
    """A second `reliable` in the same process knows what the first one heard."""
    with ScriptedModel([LIMITED]) as first, ScriptedModel([{"text": "b"}] * 2) as second:
        house = two(first, second)
        ask(house.make("r"), request())
        assert ask(house.make("r"), request())[0].provider == "b"
        assert len(first.requests) == 1


def overflow(tmp_path: Path, windows: dict[str, int | None]) -> House:
    entries: dict[str, ProviderEntry] = {}
    for name, window in windows.items():
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps({"steps": [{"error": "context_overflow"} if name == "a" else {"text": name}]}))
        entries[name] = ProviderEntry(kind="mock", fixture=str(file), context_tokens=window)
    return House({**entries, "r": ProviderEntry(kind="reliable", providers=list(windows))})


@pytest.mark.parametrize(
    "windows",
    [{"a": 1000}, {"a": 1000, "b": 1000}, {"a": 1000, "b": None}, {"a": None, "b": 1000}, {"a": 1000, "b": 500}],
)
def test_a_request_that_is_too_long_is_not_sent_to_a_window_no_larger(tmp_path: Path, windows: Any) -> None:
    house = overflow(tmp_path, windows)
    error = fails(house.make("r"))
    assert error.kind == "context_overflow"
    assert not error.retryable
    assert house.told == []


# ------------------------------------------------------------------ falling back


def test_a_request_that_is_too_long_goes_to_the_next_larger_window(tmp_path: Path) -> None:
    house = overflow(tmp_path, {"a": 1000, "b": 800, "c": 5000})
    assert ask(house.make("r"), request())[0].provider == "c"
    (told,) = house.told
    assert told["event_type"] == "provider_fallback"
    assert (told["provider"], told["next"], told["error"]) == ("a", "c", "context_overflow")


def test_a_window_may_be_known_from_the_model_alone(tmp_path: Path) -> None:
    house = overflow(tmp_path, {"a": 1000, "b": None})
    entry = house.config.providers.models["b"]
    house.config.providers.models["b"] = ProviderEntry(kind="mock", fixture=entry.fixture, model="gpt-4.1")
    assert ask(house.make("r"), request())[0].provider == "b"


@rows("status", [401, 403, 402, 429, 500, 502, 503, 529])
def test_these_statuses_fall_back(status: int) -> None:
    with ScriptedModel([{"error": {"status": status}}]) as first, ScriptedModel([{"text": "b"}]) as second:
        assert ask(two(first, second).make("r"), request())[0].final_text == "b"


def test_a_connection_that_is_refused_falls_back() -> None:
    with ScriptedModel([]) as gone:
        pass
    with ScriptedModel([{"text": "b"}]) as second:
        assert ask(two(gone, second).make("r"), request())[0].final_text == "b"


def test_pieces_of_an_answer_that_broke_off_are_taken_back() -> None:
    with (
        ScriptedModel([{"text": "one two three four five six", "cut": 900}]) as first,
        ScriptedModel([{"text": "whole"}]) as second,
    ):
        heard: list[Delta] = []
        assert ask(two(first, second).make("r"), request(), heard=heard)[0].final_text == "whole"
    kinds = [delta.kind for delta in heard]
    assert kinds.count("reset") == 1
    assert kinds[0] == "text"
    after = heard[kinds.index("reset") + 1 :]
    assert "".join(delta.text for delta in after) == "whole"


def test_nothing_is_taken_back_where_nothing_was_shown() -> None:
    with ScriptedModel([{"error": {"status": 500}}]) as first, ScriptedModel([{"text": "b"}]) as second:
        heard: list[Delta] = []
        ask(two(first, second).make("r"), request(), heard=heard)
    assert {delta.kind for delta in heard} == {"text"}


def test_a_provider_that_fails_twice_in_a_row_is_left_alone_for_a_minute() -> None:
    with ScriptedModel([{"reset": True}] * 2) as first, ScriptedModel([{"text": "b"}] * 3) as second:
        provider = two(first, second).make("r")
        for _ in range(3):
            assert ask(provider, request())[0].provider == "b"


def test_tokens_are_counted_as_the_first_one_counts() -> None:
    with ScriptedModel([]) as first, ScriptedModel([]) as second:
        assert asyncio.run(two(first, second).make("r").count(request(user("hello")))) is None
