"""Which skills fit a task: nothing where nothing does, all where all do, ties always in the same order."""

from typing import Any

import pytest

from adderclaw.tools.skills.catalogue import Catalogue, Skill
from adderclaw.tools.skills.router import Route
from adderclaw.tools.skills.router import route as route_task
from tests.rows import rows

PDF = Skill("pdf-forms", "Fills forms and extracts tables from PDF documents.", "/s/pdf", tags=("pdf",))
NOTES = Skill("tidy-notes", "Puts loose notes in order.", "/s/notes", keywords=("meeting minutes", "notes"))
MAIL = Skill("mail-drafter", "Drafts polite e-mail to customers.", "/s/mail", tags=("mail", "writing"))
ALL = Catalogue((MAIL, PDF, NOTES))


def names(routed: Route) -> list[str]:
    return [one.skill_name for one in routed.candidates]


def route(task: str, catalogue: Catalogue = ALL, **how: Any) -> Route:
    return route_task(catalogue, task, **how)


@rows(
    "task",
    [
        "bake sourdough bread",
        "",
        "   ",
        "!!! ???",
        "the of and to",
        "x" * 200_000,
        "\u202e\0\x1b[2J",
        "日本語のテキスト",
    ],
)
def test_no_match_fails_fast_or_offers_all(task: str) -> None:
    assert route(task, strategy="fail_fast") == Route((), "fail_fast")
    everything = route(task)
    assert everything.strategy == "fallback_all_skills"
    assert names(everything) == ["mail-drafter", "pdf-forms", "tidy-notes"]
    assert {one.score for one in everything.candidates} == {0.0}


def test_an_empty_catalogue() -> None:
    assert route("anything", Catalogue()) == Route((), "fallback_all_skills")
    assert route("anything", Catalogue(), strategy="fail_fast") == Route((), "fail_fast")


@pytest.mark.parametrize(
    ("task", "first", "word"),
    [
        ("extract the tables of report.pdf", "pdf-forms", "tables"),
        ("please EXTRACT all TABLES", "pdf-forms", "extract"),
        ("put my notes in order", "tidy-notes", "order"),
        ("tidy notes", "tidy-notes", "tidy"),
        ("drafting an email for a customer", "mail-drafter", "drafting"),
        ("fil the froms of this documnet", "pdf-forms", "documnet"),
        ("write up the meeting minutes of yesterday's long session with everybody", "tidy-notes", "meeting minutes"),
    ],
)
def test_words_endings_typos_and_labels(task: str, first: str, word: str) -> None:
    found = route(task)
    assert found.strategy == "matched"
    assert names(found)[0] == first
    assert word in found.candidates[0].reason
    assert all(55 <= one.score <= 100 for one in found.candidates)


def test_all_match_and_only_the_best_are_offered() -> None:
    many = Catalogue(tuple(Skill(f"report-{n:02}", "Writes a report.", f"/s/{n}") for n in range(20)))
    found = route("write a report", many, top_k=8)
    assert found.strategy == "matched"
    assert names(found) == [f"report-{n:02}" for n in range(8)]


def test_ties_are_in_the_order_of_the_names_whatever_order_they_came_in() -> None:
    twins = [Skill(name, "Writes a report.", f"/s/{name}") for name in ("c", "a", "b")]
    assert names(route("write a report", Catalogue(tuple(twins)))) == ["a", "b", "c"]
    assert names(route("write a report", Catalogue(tuple(reversed(twins))))) == ["a", "b", "c"]


def test_the_least_score_is_kept() -> None:
    low = route("order a pizza for the whole team tomorrow", min_score=1)
    assert names(low) == ["tidy-notes"]
    assert low.candidates[0].score < 55
    assert route("order a pizza for the whole team tomorrow", strategy="fail_fast").candidates == ()
    assert route("tidy notes", min_score=100).candidates[0].score == 100


def test_more_labels_weigh_more() -> None:
    one, two = route("pdf").candidates[0], route("mail and writing things for many different people here").candidates[0]
    assert one.skill_name == "pdf-forms"
    assert two.skill_name == "mail-drafter"
    assert two.score > 70


def test_where_nothing_is_similar_enough_the_nearest_come_first() -> None:
    found = route("order a pizza for the whole team tomorrow")
    assert found.strategy == "fallback_all_skills"
    assert names(found) == ["tidy-notes", "mail-drafter", "pdf-forms"]
