"""Search over transcripts: nothing is syntax, case does not matter, and the best and newest come first."""

import pytest

from adderclaw.storage import Store, transcript
from tests.storage.test_transcript import begin, say

INJECTIONS = [
    '"',
    "'",
    '" OR "',
    "NEAR(a b)",
    "NOT adapter",
    "body:adapter",
    "adapter*",
    "^adapter",
    "a AND",
    "AND",
    "OR OR OR",
    "(",
    "-",
    "+ +",
    "{body}:x",
    "%",
    "_",
    "!",
    "\\",
    "\x00",
    "\ud800",
    "'; DROP TABLE transcript_entries; --",
    "x " * 5000,
    "🦔",
]


@pytest.mark.parametrize("query", INJECTIONS, ids=range(len(INJECTIONS)))
def test_no_query_is_syntax(store: Store, query: str) -> None:
    say(store, "session", "an ordinary sentence")
    transcript.search(store, query, 5)
    assert len(transcript.search(store, "ordinary", 5)) == 1


@pytest.mark.parametrize("query", ["", "   ", "\n\t", "nowhere", "content", "text", "user", "uuid"])
def test_nothing_is_found_for(store: Store, query: str) -> None:
    say(store, "session", "The Aardvark adapter")
    assert transcript.search(store, query, 5) == []


@pytest.mark.parametrize(
    "query",
    [
        "aardvark",
        "AARDVARK",
        "Aardvark adapter",
        "adapter aardvark",
        "aard",
        "ardvark",  # not the beginning of a word
        "vark ada",
        "aardvark unmentioned",  # any word, when there is no better
        "100%",
        "snake_case",
        'say "hi"',
        "back\\slash",
        "ÄRGER",
        "ärger",
        "größe",
        "GRÖ",
        "日本",
        "two lines",
    ],
)
def test_is_found(store: Store, query: str) -> None:
    text = 'The Aardvark adapter: 100% of snake_case, say "hi", back\\slash, Ärger, Größe, 日本語, two\nlines'
    say(store, "session", text)
    begin(store, "elsewhere", "s2")
    say(store, "s2", "quite another matter")
    hits = transcript.search(store, query, 5)
    assert [hit.conversation_id for hit in hits] == ["conversation"]
    assert (hits[0].session_id, hits[0].role) == ("session", "user")


def test_what_stands_far_back_is_still_found(store: Store) -> None:
    say(store, "session", "filler " * 5000 + "needle-in-the-hay")
    (hit,) = transcript.search(store, "needle-in-the-hay", 5)
    assert "needle" in hit.snippet
    assert len(hit.snippet) < 200


def test_results_of_tools_are_searched_too(store: Store) -> None:
    with store.write() as cursor:
        result = {"tool_use_id": "t", "content": "port 8443 is taken", "is_error": False}
        transcript.append(cursor, "session", "tool_result", result, "t")
    assert transcript.search(store, "8443", 5)[0].role == "tool_result"


def test_the_one_that_says_it_more_often_comes_first(store: Store) -> None:
    say(store, "session", "zebra " * 5 + "grass and water and trees")
    say(store, "session", "one zebra and grass and water and trees and hills and more")
    for _ in range(20):
        say(store, "session", "something else altogether")
    first, second = transcript.search(store, "zebra", 5)
    assert "zebra zebra" in first.snippet
    assert first.score > second.score


def test_of_equals_the_recent_conversation_comes_first(store: Store) -> None:
    for name in ("old", "new"):
        begin(store, name, f"s-{name}")
        say(store, f"s-{name}", "the yak protocol")
    for _ in range(20):
        say(store, "session", "something else altogether")
    with store.write() as cursor:
        cursor.execute("UPDATE conversations SET last_active = datetime('now', '-90 days') WHERE id = 'new'")
    assert [hit.conversation_id for hit in transcript.search(store, "yak", 5)] == ["old", "new"]


def test_the_limit_holds(store: Store) -> None:
    for _ in range(10):
        say(store, "session", "again and again")
    assert len(transcript.search(store, "again", 3)) == 3
    assert len(transcript.search(store, "gain an", 3)) == 3
