"""Plots and the timeline of a run: their shapes are the figures, hostile words stay words, their size is bounded."""

import re
import time
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adderclaw.agent.view import plots
from adderclaw.agent.view.plots import Plot, Series, Share
from adderclaw.agent.view.timeline import WIDTH, Lane, Span, merged, timeline
from adderclaw.flows.queries import runs as run_facts
from adderclaw.storage import Store, runs
from tests.server.seeded import seed

HOSTILE = '</title><script>alert(1)</script>" onload="x\u202e'


def parsed(drawn: object) -> tuple[set[str], set[str]]:
    """The names of all elements and attributes."""
    tags, names = set[str](), set[str]()

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.add(tag)
            names.update(name for name, _ in attrs)

    Reader().feed(str(drawn))
    return tags, names


def rects(drawn: object, name: str) -> list[dict[str, float]]:
    found = re.findall(rf'<rect class="{name}"([^>]*)>', str(drawn))
    return [{key: float(value) for key, value in re.findall(r'(\w+)="([\d.]+)"', one)} for one in found]


def test_the_columns_are_as_high_as_the_figures() -> None:
    plot = Plot("tokens", "tokens", ["a", "b", HOSTILE], [Series("in", [10, 20, None]), Series(HOSTILE, [30, 0, 40])])
    drawn = plots.columns(plot)
    first, second = rects(drawn, "s1")
    assert second["height"] == pytest.approx(2 * first["height"], abs=0.2)
    assert [one["height"] for one in rects(drawn, "s2")] == pytest.approx(
        [3 * first["height"], 4 * first["height"]], abs=0.3
    )
    stacked = rects(drawn, "s2")[0]
    assert stacked["y"] + stacked["height"] == pytest.approx(first["y"], abs=0.2)
    tags, names = parsed(drawn)
    assert not tags & {"script", "style"}
    assert not names & {"onload", "style"}
    cells = re.findall(r"<td>([^<]+)</td>", str(drawn))
    assert cells == ["10", "30", "20", "0", "–", "40"]


def test_a_line_has_a_gap_where_nothing_is_known() -> None:
    drawn = str(plots.lines(Plot("t", "seconds", list("abcde"), [Series("p95", [1, 2, None, 3, 4])])))
    assert drawn.count("<polyline") == 2
    assert drawn.count("<circle") == 4


@given(st.floats(0, 1e12, allow_nan=False))
def test_an_axis_ends_above_the_figures_in_few_steps(top: float) -> None:
    found = plots.ticks(top)
    assert found[0] == 0
    assert found[-1] >= top * 0.999999
    assert 2 <= len(found) <= 7


def test_nothing_at_all_is_drawn_too() -> None:
    assert "<svg" in str(plots.columns(Plot("t", "usd", [], [Series("x", [])])))
    assert "nothing yet" in str(plots.shares("scenarios", [Share("done", 0, "c-done")]))
    assert "<svg" in str(timeline("t", []))
    assert "<svg" in str(plots.spark([], "t"))


def test_a_long_run_is_no_larger_a_picture() -> None:
    spans = [Span(at * 0.1, at * 0.1 + 0.05, "tool" if at % 2 else "model", HOSTILE) for at in range(40_000)]
    assert len(merged(spans, spans[-1].end / WIDTH)) <= 40_000
    same = [Span(at * 0.1, at * 0.1 + 0.05, "tool", "Read") for at in range(40_000)]
    assert len(merged(same, same[-1].end / WIDTH)) < 2 * WIDTH
    assert len(str(timeline("t", [Lane(HOSTILE, same)] * 40))) < 2_000_000
    assert "<script" not in str(timeline("t", [Lane(HOSTILE, spans[:50])]))


def test_the_time_of_a_run_is_drawn_from_its_rows(tmp_path: Path) -> None:
    now = time.time()
    (tmp_path / "shop").mkdir()
    made = seed(tmp_path / "m.sqlite", tmp_path / "log", tmp_path / "key", tmp_path / "shop", now)
    store = Store.open(str(tmp_path / "m.sqlite"), read_only=True)
    run = runs.get(store, made.message)
    assert run is not None
    told = run_facts.summarize(store, run)
    assert told.spent("model") == pytest.approx(sum(one.seconds for one in told.models))
    assert told.spent("tool", "failed") == pytest.approx(3 * 2.2 + 2 * 0.05, abs=0.01)
    assert told.spent("asked") == pytest.approx(4 * 6, abs=4)  # its rows count whole seconds
    (lane,) = told.lanes
    drawn = [span for span in lane.spans if span.kind in ("model", "tool")]
    assert all(before.end <= after.start + 1e-6 for before, after in pairwise(drawn))
    assert told.board.counts["done"] == 2
    assert told.board.counts["working"] == 1
    flow = runs.get(store, made.workflow)
    assert flow is not None
    board = run_facts.summarize(store, flow).board
    assert [(card.title, card.state) for card in board.cards] == [
        ("changelog", "done"),
        ("build", "done"),
        ("smoke", "failed"),
        ("publish", "waiting"),
    ]
    spec = runs.get(store, made.spec)
    assert spec is not None
    counts = run_facts.summarize(store, spec).board.counts
    assert counts == {"waiting": 2, "working": 0, "checked": 1, "done": 3, "failed": 1, "blocked": 1}
    latest, more = run_facts.page(store, kind="agent", status="completed", limit=3)
    assert more
    assert [one.run.status for one in latest] == ["completed"] * 3
    older, _ = run_facts.page(store, kind="agent", status="completed", limit=3, before=latest[-1].run.run_id)
    assert not {one.run.run_id for one in older} & {one.run.run_id for one in latest}
    store.close()
