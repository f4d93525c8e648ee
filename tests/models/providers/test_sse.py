"""Events come out the same wherever the bytes are cut."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from adderclaw.models.providers.reading import Events
from tests.rows import rows

STREAM = (
    '\ufeff: welcome\r\n\r\ndata: {"a":1}\n\ndata:no space\r\rid: 7\nevent: x\ndata: two\ndata: lines\n\n'
    "retry: 10\n\ndata\n\ndata: \u2028 ünï😀\r\n\r\n:keep-alive\n\ndata: [DONE]\n\n"
).encode()
EXPECTED = ['{"a":1}', "no space", "two\nlines", "", "\u2028 ünï😀", "[DONE]"]


def parsed(*pieces: bytes) -> list[str]:
    events = Events()
    return [data for piece in pieces for data in events.feed(piece)] + events.end()


@rows("at", range(len(STREAM) + 1))
def test_a_cut_at_any_byte_changes_nothing(at: int) -> None:
    assert parsed(STREAM[:at], STREAM[at:]) == EXPECTED


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_many_cuts_change_nothing(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    assert parsed(*(STREAM[a:b] for a, b in pairwise(edges))) == EXPECTED


@rows(
    ("stream", "events"),
    [
        (b"", []),
        (b"\n\n\n", []),
        (b": only comments\n\n", []),
        (b"event: ping\n\n", []),
        (b"data: unfinished", ["unfinished"]),
        (b"data: unfinished\n", ["unfinished"]),
        (b"data: a\r", ["a"]),
        (b"database: no\n\n", []),
        (b"data: \xff\n\n", ["\ufffd"]),
    ],
)
def test_edges(stream: bytes, events: list[str]) -> None:
    assert parsed(stream) == events
    assert parsed(*(stream[i : i + 1] for i in range(len(stream)))) == events
