"""The table of known models: what is packaged, what is inherited, what the aliases stand for."""

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from adderclaw.config.model_facts import table as model_table
from adderclaw.config.model_facts.catalogue import Prices, cost, facts, facts_of, first_answering
from adderclaw.config.model_facts.price_list import Unreadable, models_of_source
from adderclaw.config.schema import Config, Managed, ModelEntry, ProviderEntry, Providers
from adderclaw.core import home_names
from adderclaw.core.provider_kinds import KINDS
from adderclaw.core.types import Usage
from adderclaw.models import providers
from tests.rows import rows

NEWEST = {
    "claude-sonnet-5-5": 1_000_000,
    "claude-opus-5-5-20260901": 1_000_000,
    "anthropic/claude-haiku-5.5": 1_000_000,
    "gpt-6.1-sol": 1_050_000,
    "gpt-5.6-luna-2026-07-30": 1_050_000,
    "models/gemini-4-argon": 1_048_576,
    "grok-4.7": 500_000,
}


@rows("model", NEWEST)
def test_the_models_of_autumn_2026_are_known(model: str) -> None:
    known = facts(model, Config())
    assert (known.context_tokens, known.priced, known.assumed) == (NEWEST[model], True, False)
    assert (known.vision, known.thinking) == (True, True)
    assert "grok" in model or (known.max_output_tokens or 0) >= 64_000


@rows("model", ["claude-opus-9", "claude-nova-6-1", "gpt-7-sol", "gpt-6.1-sol-ultra", "gemini-5-pro"])
def test_an_unknown_model_inherits_from_its_family_but_has_no_price(model: str) -> None:
    known = facts(model, Config())
    assert (known.vision, known.thinking, known.assumed, known.priced) == (True, True, True, False)
    assert (known.context_tokens or 0) >= 400_000


@rows(
    "model", ["gemini-2.5-flash-image", "gemini-9-pro-tts", "gpt-audio-2", "gpt-5-chat-latest", "claude-3-opus-latest"]
)
def test_a_model_that_cannot_think_is_not_asked_to(model: str) -> None:
    assert facts(model, Config()).thinking is False


ENTRIES = Config(
    providers=Providers(
        models={
            "a": ProviderEntry(kind="anthropic", model="sonnet"),
            "o": ProviderEntry(kind="openai", model="gpt"),
            "g": ProviderEntry(kind="gemini", model="gemini"),
            "l": ProviderEntry(kind="openai-compatible", model="gpt"),
            "r": ProviderEntry(kind="reliable", providers=["a", "o"]),
        }
    )
)


def stored(home: Path, models: dict[str, Any], fetched: str = "2999-01-01") -> None:
    """A refreshed table in the home."""
    (home / ".adderclaw").mkdir(mode=0o700, exist_ok=True)
    path = str(home / ".adderclaw" / home_names.MODELS)
    model_table.write(model_table.Table(path, {"version": "9"}, fetched, models))


SOLD = """
    claude-opus-4-8* claude-opus-5 claude-opus-5-20* claude-opus-5-5 claude-opus-5-5-20* claude-opus-5.5*
    claude-5-6-opus*
    claude-sonnet-5 claude-sonnet-5-5 claude-haiku-5-5 claude-haiku-4-5* claude-fable-5-2
    gpt-6.1-sol gpt-6.1-terra gpt-6-astra gpt-6.2-cyber gpt-5-5 gpt-5.5 gpt-4-32k gpt-chat-latest
    gemini-3.1-pro-preview* gemini-3.8-flash* gemini-4-argon gemini-4-flash gemini-4.1-flash-lite gemini-4.2-image
"""


@pytest.mark.parametrize(
    ("typed", "current", "meant"),
    [
        ("a", "a", "claude-sonnet-5-5"),
        ("opus", "a", "claude-opus-5-5"),
        ("a/haiku", "o", "claude-haiku-5-5"),
        ("o", "a", "gpt-6.1-sol"),
        ("g", "a", "gemini-4-argon"),
        ("opus", "o", "opus"),
        ("l", "a", "gpt"),
    ],
)
def test_an_alias_is_the_newest_model_of_its_name_at_its_vendor(
    home: Path, typed: str, current: str, meant: str
) -> None:
    stored(home, {name: {} for name in SOLD.split()})
    assert providers.choice(typed, ENTRIES, current).model == meant


def test_an_alias_in_an_entry_is_what_answers_and_what_is_billed(home: Path) -> None:
    stored(home, {name: {} for name in SOLD.split()})
    assert first_answering("r", "mock", ENTRIES).model == "claude-sonnet-5-5"
    own = providers.Choice("a", "claude-opus-5-5")
    assert providers.wanted("haiku", ENTRIES, own).model == "claude-haiku-5-5"
    assert providers.wanted("haiku", ENTRIES, providers.Choice("o", "gpt-5")).model == "gpt-5"
    assert providers.wanted("inherit", ENTRIES, own) == own


def test_a_member_with_an_alias_has_the_price_of_its_model() -> None:
    assert Prices(ENTRIES).before("r", "mock").unpriced == ""


def test_no_default_names_the_version_of_a_model() -> None:
    from adderclaw.config import example

    models = {entry.model for entry in Config().providers.models.values()} | {kind.suggested_model for kind in KINDS}
    assert not [model for model in models if model and any(map(str.isdigit, model))]
    assert not [word for word in ("claude-", "gpt-", "gemini-") if word in example.own() + example.of_project("a.yaml")]


HAIKU = {
    "context_tokens": 1_000_000,
    "input_per_mtok": 0.1,
    "output_per_mtok": 0.5,
    "cache_read_per_mtok": 0.01,
    "above": {"tokens": 100_000, "input_per_mtok": 0.5, "output_per_mtok": 2.5, "cache_read_per_mtok": 0.05},
}


def test_a_long_request_costs_what_the_vendor_says(home: Path) -> None:
    stored(home, {"claude-haiku-5-5": HAIKU})
    haiku = facts("claude-haiku-5-5", Config())
    assert cost(Usage(100_000, 1_000_000), haiku) == pytest.approx(0.01 + 0.5)
    assert cost(Usage(60_000, 1_000_000, 40_001), haiku) == pytest.approx(0.03 + 2.5 + 0.05 * 0.040001)
    assert cost(Usage(60_000, 0, 0, 40_001), haiku) == pytest.approx(0.03 + 0.5 * 0.040001), "a write costs as input"
    own = Config(models={"claude-haiku-5-5": ModelEntry(input_per_mtok=1.0, output_per_mtok=1.0)})
    assert cost(Usage(1_000_000), facts("claude-haiku-5-5", own)) == pytest.approx(1.0)


def test_an_announced_price_applies_from_its_day() -> None:
    row = {"input_per_mtok": 2.0, "output_per_mtok": 9.0, "from": {"2020-01-01": {"input_per_mtok": 4.0}}}
    assert model_table.facts_of_today(row) == {"input_per_mtok": 4.0}
    assert model_table.facts_of_today(row | {"from": {"2999-01-01": {"input_per_mtok": 4.0}}})["input_per_mtok"] == 2.0


# ------------------------------------------------------------------ the refreshed table


NEW = {"claude-opus-6-2": {"context_tokens": 2_000_000, "input_per_mtok": 7.0, "output_per_mtok": 8.0}}


def test_a_refreshed_table_applies_and_moves_the_aliases(home: Path) -> None:
    stored(home, NEW)
    known = facts("claude-opus-6-2", Config())
    assert (known.input_per_mtok, known.context_tokens, known.thinking) == (7.0, 2_000_000, True)
    assert providers.choice("opus", ENTRIES, "a").model == "claude-opus-6-2"


DAMAGED: dict[str, str] = {
    "not JSON": "{",
    "another form": "[]",
    "nested too deeply": "[" * 200_000,
    "no rows": '{"source": {}, "fetched": "2999-01-01", "models": {}}',
    "a row that is no object": '{"source": {}, "fetched": "2999-01-01", "models": {"gpt-9": 1}}',
    "a price of nothing": '{"source": {}, "fetched": "2999-01-01", "models": {"gpt-9": {"input_per_mtok": 0}}}',
    "a price that is text": '{"source": {}, "fetched": "2999-01-01", "models": {"gpt-9": {"input_per_mtok": "1"}}}',
    "a flag that it may not set": '{"source": {}, "fetched": "2999-01-01", "models": {"gpt-9": {"vision": true}}}',
    "a name for all": '{"source": {}, "fetched": "2999-01-01", "models": {"*": {}}}',
    "rows that are pairs": '{"source": {}, "fetched": "2999-01-01", "models": [[1, {}]]}',
    "a day that is none": '{"source": {}, "fetched": "2999-02-31", "models": {"gpt-9": {}}}',
    "a number of many digits": '{"source": {}, "fetched": "2999-01-01", "models": {"gpt-9": {"context_tokens": 1%s}}}'
    % ("0" * 5_000),
    "no date": '{"source": {}, "fetched": "soon", "models": {"gpt-9": {}}}',
    "older than the program": '{"source": {}, "fetched": "2020-01-01", "models": {"gpt-9": {}}}',
    "a window of nothing": '{"source": {}, "fetched": "2999-01-01", "models": {"gpt-9": {"context_tokens": 0}}}',
    "a bad announced price": '{"source": {}, "fetched": "2999-01-01", "models": {"gpt-9": {"from": {"x": {}}}}}',
}


def test_a_damaged_or_old_table_is_not_used_and_stops_nothing(home: Path) -> None:
    file = home / ".adderclaw" / home_names.MODELS
    stored(home, NEW)
    for name, text in DAMAGED.items():
        file.write_text(text)
        found = model_table.refreshed()
        assert found is not None, name
        assert found.problem, name
    file.unlink()
    file.mkdir()
    assert (table := model_table.refreshed()) is not None
    assert table.problem


def test_a_refresh_does_not_lower_what_an_administrator_enforces(home: Path) -> None:
    cheap = {"claude-sonnet-5-5": {"input_per_mtok": 0.001, "output_per_mtok": 0.001}}
    stored(home, cheap)
    bound = replace(ENTRIES, managed=Managed(prices={}))
    assert facts_of("a", "claude-sonnet-5-5", ENTRIES).input_per_mtok == 0.001
    enforced, listed = facts_of("a", "claude-sonnet-5-5", bound), model_table.packaged().models["claude-sonnet-5-5"]
    assert all(getattr(enforced, name) == listed[name] for name in model_table.PRICES)
    stored(home, {"gpt-6.1-sol": {"input_per_mtok": 2.0, "output_per_mtok": 10.0}})  # a long request costs no more
    million = Usage(1_000_000)
    assert cost(million, facts_of("o", "gpt-6.1-sol", ENTRIES)) == pytest.approx(2.0)
    assert (cost(million, facts_of("o", "gpt-6.1-sol", bound)) or 0) > 2.0


# ------------------------------------------------------------------ the packaged files


def test_the_families_name_only_what_models_have() -> None:
    for patterns in (model_table.families(), model_table.corrections()):
        for name, entry in patterns.items():
            assert name.count("*") == name.endswith("*"), name
            assert entry.keys() <= {*model_table.PRICES, "context_tokens", "max_output_tokens", *FLAGS}, name
    for name in model_table.packaged().models:
        assert facts(name.removesuffix("*"), Config()).assumed is False, name


FLAGS = ("vision", "pdf", "thinking")


def test_the_packaged_table_is_what_the_generator_writes() -> None:
    table = model_table.packaged()
    assert not model_table.problem_of(table.models)
    assert Path(table.path).read_text() == model_table.text_of(table)
    assert json.loads(Path(table.path).read_text())["source"]["package"] == "genai-prices"


# ------------------------------------------------------------------ the source as data


SOURCE = Path(__file__).parent.parent / "fixtures" / "genai_prices_data.py.txt"


def test_the_price_list_is_read_without_running_it() -> None:
    models = models_of_source(SOURCE.read_bytes(), date(2026, 11, 19))
    assert models["claude-opus-5-5"] == {
        "context_tokens": 1_000_000,
        "input_per_mtok": 4.0,
        "output_per_mtok": 20.0,
        "cache_read_per_mtok": 0.2,
        "cache_write_per_mtok": 5.0,
    }
    assert models["claude-opus-5-5-20*"] == models["claude-opus-5.5*"] == models["claude-opus-5-5"]
    assert models["gpt-6.1-sol"]["above"] == {
        "tokens": 272_000,
        "input_per_mtok": 4.0,
        "output_per_mtok": 15.0,
        "cache_read_per_mtok": 0.2,
    }
    assert models["gemini-4-argon"]["input_per_mtok"] == 2.0
    assert models["gemini-4-argon"]["from"] == {"2026-12-01": {"input_per_mtok": 4.0, "output_per_mtok": 20.0}}
    later = models_of_source(SOURCE.read_bytes(), date(2026, 12, 1))
    assert later["gemini-4-argon"] == {"context_tokens": 1_048_576, "input_per_mtok": 4.0, "output_per_mtok": 20.0}
    assert models["gpt-realtime-2"] == {"context_tokens": 128_000}, "its text is the least of what it costs"
    assert not [name for name in models if name.startswith(("gpt-oss", "mistral", "claude*"))]


HOSTILE = {
    "a call of another function": b"providers: list = [Provider(id='openai', models=system('touch /tmp/x'))]",
    "an expression": b"providers: list = [Provider(id='openai', models=[1 + 1])]",
    "nested deeply": b"providers: list = [Provider(id='openai', models=" + b"[" * 90 + b"]" * 90 + b")]",
    "nested too deeply to parse": b"providers: list = " + b"(" * 100_000,
    "not Python": b"providers: list = [",
    "a null byte": b"providers: list = []\0",
    "no providers": b"x = 1",
    "a vendor is missing": b"providers: list = [Provider(id='openai', models=[])]",
    "another form": b"providers: list = [Provider(id='openai', models=[ModelInfo(id='gpt-9')])]",
    "a price that is not a number": SOURCE.read_bytes().replace(b"Decimal('20')", b"Decimal('inf')"),
    "a price out of all bounds": SOURCE.read_bytes().replace(b"Decimal('20')", b"Decimal('1e9')"),
}


@rows("name", HOSTILE)
def test_what_is_not_plain_data_is_not_read(name: str) -> None:
    with pytest.raises(Unreadable):
        models_of_source(HOSTILE[name], date(2026, 11, 19))
