"""`adderclaw usage`: what was spent, by run, day, model and provider, and that it stays known."""

import json
import sqlite3
import time
from typing import Any

import pytest

from tests.acceptance.world import World
from tests.scripted import ScriptedModel

USAGE = {"prompt_tokens": 1_000, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": 400}}


def usage(world: World, *more: str) -> dict[str, Any]:
    done = world.cli("usage", "--output-format", "json", *more)
    assert done.code == 0, done.err
    return json.loads(done.out)


@pytest.fixture
def spent(world: World) -> World:
    """Two calls of a model with a price, one of a model without, and one that failed."""
    steps = [{"text": "ok", "usage": USAGE}] * 3 + [{"error": {"status": 401}}]
    with ScriptedModel(steps) as model:
        url = model.base_url.replace("127.0.0.1", "0.0.0.0")
        place = f'kind = "openai-compatible"\nbase_url = "{url}"\n'
        world.configure(
            more=f'[providers.models.paid]\n{place}model = "gpt-4o"\n[providers.models.odd]\n{place}model = "odd-1"\n'
        )
        for name in ("paid", "paid", "odd", "odd"):
            world.agent("hi", "--provider", name)
    return world


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize("when", ["yesterday", "7", "d", "2026-13-01", "-3d", "2026-01-01; DROP TABLE runs"])
def test_a_time_that_is_none(world: World, when: str) -> None:
    world.cli("init")
    done = world.cli("usage", "--since", when)
    assert done.code == 2
    assert done.out == ""
    assert "2026-05-01" in done.err


def test_an_unknown_key_and_a_missing_database(world: World) -> None:
    assert world.cli("usage", "--by", "mood").code == 2
    done = world.cli("usage")
    assert done.code == 1
    assert "Traceback" not in done.err


# ------------------------------------------------------------------ sums


def test_by_model_and_by_provider(spent: World) -> None:
    rows = {row["model"]: row for row in usage(spent, "--by", "model")["rows"]}
    paid, odd = rows["gpt-4o"], rows["odd-1"]
    assert (paid["calls"], paid["input_tokens"], paid["cache_read_tokens"], paid["output_tokens"]) == (
        2,
        1200,
        800,
        200,
    )
    assert paid["cost"] == pytest.approx((1200 * 2.5 + 800 * 1.25 + 200 * 10) / 1e6)
    assert (odd["calls"], odd["failed"], odd["cost"], odd["unpriced"]) == (2, 1, None, 1)
    assert {row["provider"] for row in usage(spent, "--by", "provider")["rows"]} == {"paid", "odd"}


def test_by_run_and_by_day(spent: World) -> None:
    said = usage(spent, "--by", "run")
    runs = [row[0] for row in spent.rows("SELECT run_id FROM runs ORDER BY rowid DESC")]
    assert [row["run"] for row in said["rows"]] == runs
    assert [row["calls"] for row in said["rows"]] == [1, 1, 1, 1]
    (day,) = usage(spent)["rows"]
    assert day["day"] == time.strftime("%Y-%m-%d", time.gmtime())
    assert usage(spent)["total"] == {name: value for name, value in day.items() if name != "day"}


def test_since(spent: World) -> None:
    with sqlite3.connect(spent.database) as connection:
        connection.execute("UPDATE model_calls SET created_at = '2020-01-02 03:04:05' WHERE model = 'gpt-4o'")
    assert usage(spent)["total"]["calls"] == 4
    assert usage(spent, "--since", "1d")["total"]["calls"] == 2
    assert usage(spent, "--since", "2020-01-02")["total"]["calls"] == 4
    assert usage(spent, "--since", "2020-01-02T03:05")["total"]["calls"] == 2
    empty = usage(spent, "--since", "2999-01-01")
    assert empty["rows"] == []
    assert (empty["total"]["calls"], empty["total"]["cost"]) == (0, 0.0)
    assert [row["day"] for row in usage(spent)["rows"]][1] == "2020-01-02"


def test_for_people(spent: World) -> None:
    out = spent.cli("usage", "--by", "model").out.splitlines()
    assert out[0].split() == ["model", "calls", "in", "cached", "out", "cost"]
    assert out[1].split() == ["odd-1", "2", "600", "400", "100", "unknown"]
    assert out[2].split() == ["gpt-4o", "2", "1,200", "800", "200", "$0.0060"]
    assert out[3].split()[0] == "total"
    assert "1 of 4 calls have no known price" in out[4]


# ------------------------------------------------------------------ what stays


def test_clearing_the_memory_leaves_the_bill_and_nothing_of_what_was_said(spent: World) -> None:
    before = usage(spent)["total"]
    assert spent.cli("memory", "clear", "--yes").code == 0
    assert usage(spent)["total"] == before
    assert spent.rows("SELECT count(*) FROM model_calls WHERE response_json IS NOT NULL OR error IS NOT NULL") == [(0,)]
