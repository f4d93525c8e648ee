"""`reliable` tries its providers in order, says so, and leaves alone what another provider would not mend."""

import json
from pathlib import Path
from typing import Any

import pytest

from adderclaw.config.schema import ProviderEntry
from adderclaw.core.errors import ConfigError, ProviderError
from adderclaw.core.types import Provider
from tests.models.providers.making import House, ask, chat_entry, request
from tests.scripted import ScriptedModel


def scripted(tmp_path: Path, name: str, *steps: Any) -> ProviderEntry:
    file = tmp_path / f"{name}.json"
    file.write_text(json.dumps({"steps": steps}))
    return ProviderEntry(kind="mock", fixture=str(file))


def house_of(tmp_path: Path, **scripts: list[Any]) -> House:
    entries = {name: scripted(tmp_path, name, *steps) for name, steps in scripts.items()}
    return House({**entries, "r": ProviderEntry(kind="reliable", providers=list(scripts))})


def answer(provider: Provider) -> tuple[str, str]:
    response = ask(provider, request())[0]
    return response.provider, response.final_text


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize("kind", ["invalid_request", "context_overflow", "script", "max_output_tokens", "unknown"])
def test_what_another_provider_would_not_mend_is_not_tried_there(tmp_path: Path, kind: str) -> None:
    house = house_of(tmp_path, a=[{"error": kind}], b=[{"text": "never"}])
    with pytest.raises(ProviderError) as caught:
        answer(house.make("r"))
    assert caught.value.kind == kind
    assert house.told == []


def test_cycles_and_doubles_are_configuration_errors() -> None:
    def ring(providers: list[str]) -> ProviderEntry:
        return ProviderEntry(kind="reliable", providers=providers)

    house = House({"a": ring(["b"]), "b": ring(["c"]), "c": ring(["a"]), "d": ring(["m", "m"])})
    with pytest.raises(ConfigError, match="a → b → c → a"):
        house.make("a")
    with pytest.raises(ConfigError, match="'m' twice"):
        house.make("d")


def test_all_failed_lists_each_and_can_be_retried_if_one_can(tmp_path: Path) -> None:
    house = house_of(tmp_path, a=[{"error": "timeout"}], b=[{"error": "missing_key"}])
    with pytest.raises(ProviderError) as caught:
        answer(house.make("r"))
    assert caught.value.kind == "timeout"
    assert caught.value.provider == "r"
    assert all(word in str(caught.value) for word in ("all 2 failed", "a (timeout)", "b (missing_key)"))


def test_all_failed_for_good_is_not_retried(tmp_path: Path) -> None:
    house = house_of(tmp_path, a=[{"error": "authentication_failed"}], b=[{"error": "missing_key"}])
    with pytest.raises(ProviderError) as caught:
        answer(house.make("r"))
    assert caught.value.kind == "missing_key"
    assert not caught.value.retryable


# ------------------------------------------------------------------ falling back


@pytest.mark.parametrize("kind", sorted(ProviderError.FALLBACK))
def test_the_next_one_answers_and_the_fallback_is_told(tmp_path: Path, kind: str) -> None:
    house = house_of(tmp_path, bad=[{"error": kind}], good=[{"text": "here"}])
    provider = house.make("r")
    assert provider.name == "r"
    assert answer(provider) == ("good", "here")
    (told,) = house.told
    assert told["event_type"] == "provider_fallback"
    assert (told["provider"], told["next"], told["error"]) == ("bad", "good", kind)
    assert "scripted error" in told["reason"]


def test_a_server_that_hangs_falls_back_to_the_mock(tmp_path: Path) -> None:
    with ScriptedModel([{"hang": 30}]) as model:
        entries = {
            "bad": chat_entry(model.base_url, timeout_seconds=0.2),
            "good": scripted(tmp_path, "good", {"text": "here"}),
            "r": ProviderEntry(kind="reliable", providers=["bad", "good"]),
        }
        house = House(entries)
        assert answer(house.make("r")) == ("good", "here")
    assert [one["event_type"] for one in house.told] == ["provider_fallback"]


def test_each_member_gets_its_own_model() -> None:
    with ScriptedModel([{"error": {"status": 500}}, {"text": "ok"}, {"text": "ok"}]) as model:
        entries = {
            "a": chat_entry(model.base_url, model="model-a"),
            "b": chat_entry(model.base_url, model="model-b"),
            "c": ProviderEntry(kind="openai-compatible", base_url=model.base_url),
            "r": ProviderEntry(kind="reliable", providers=["a", "b"]),
            "s": ProviderEntry(kind="reliable", providers=["c"]),
        }
        house = House(entries)
        ask(house.make("r"), request(model="asked"))
        ask(house.make("s"), request(model="asked"))
    assert [one.json["model"] for one in model.requests] == ["model-a", "model-b", "asked"]


@pytest.mark.parametrize(("kind", "cools"), [("rate_limit", True), ("authentication_failed", True), ("timeout", False)])
def test_some_failures_cool_a_provider_down_for_a_minute(tmp_path: Path, kind: str, cools: bool) -> None:
    house = house_of(tmp_path, a=[{"error": kind}, {"text": "a"}], b=[{"text": "b"}])
    provider, asked = house.make("r"), request()
    assert ask(provider, asked)[0].provider == "b"
    house.time.at += 59
    # one conversation per member: each script is played from its own place
    assert ask(provider, request() if cools else asked)[0].provider == ("b" if cools else "a")
    if cools:
        house.time.at += 2
        assert ask(provider, asked)[0].provider == "a"


def test_when_all_cool_down_they_are_tried_all_the_same(tmp_path: Path) -> None:
    house = house_of(tmp_path, a=[{"error": "rate_limit"}, {"text": "a"}], b=[{"error": "rate_limit"}, {"text": "b"}])
    provider, asked = house.make("r"), request()
    with pytest.raises(ProviderError):
        ask(provider, asked)
    assert ask(provider, asked)[0].final_text == "a"


def test_steps_left_over_in_a_member_are_complained_of(tmp_path: Path) -> None:
    provider: Any = house_of(tmp_path, a=[{"text": "a"}, {"text": "left"}]).make("r")
    ask(provider, request())
    assert "1 of 2 steps" in provider.finished()
