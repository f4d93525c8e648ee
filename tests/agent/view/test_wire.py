"""Items go out as JSON and come back the same; what no JSON can hold is made so that it can."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adderclaw.agent.view.items import Call, Change, Child, Line, Notice, Todo, Words
from adderclaw.agent.view.wire import ItemJson, item_from_json, item_to_json
from adderclaw.core.decode import Invalid, json_schema
from adderclaw.core.record import record

text = st.text(max_size=8)
number = st.integers(0, 2**50)
floats = st.floats(allow_nan=False, allow_infinity=False)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | number | floats | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
lines = st.builds(Line, st.sampled_from([" ", "+", "-", "@"]), number, text)
calls = st.builds(
    Call,
    key=text,
    session_id=text,
    tool=text,
    argument=text,
    input=st.dictionaries(text, values, max_size=3),
    state=st.sampled_from(["waiting", "asked", "running", "ran", "failed", "denied", "unknown"]),
    by=text,
    why=text,
    asked=st.booleans(),
    comment=text,
    seconds=st.none() | st.floats(0, 1e9),
    exit_code=st.none() | st.integers(-64, 255),
    output=text,
    change=st.none() | st.builds(Change, text, st.lists(lines, max_size=3).map(tuple)),
    todos=st.lists(st.builds(Todo, text, st.sampled_from(["pending", "in_progress", "completed"])), max_size=2).map(
        tuple
    ),
    child=st.none() | st.builds(Child, text, text, number, text, text),
    progress=text,
    receipt=st.none() | number,
    at=text,
    sequence=number,
)
items = (
    st.builds(Words, text, st.sampled_from(["user", "assistant"]), text, text, number)
    | st.builds(Notice, text, st.sampled_from(["note", "warning", "error"]), text, text, number)
    | calls
)


@record
class Page:
    items: list[ItemJson]


PAGES = jsonschema.Draft202012Validator(json_schema(Page))


@settings(max_examples=150, deadline=None)
@given(items)
def test_an_item_comes_back_as_it_went_out(item: Words | Call | Notice) -> None:
    sent = json.loads(json.dumps(item_to_json(item), allow_nan=False, ensure_ascii=False).encode())
    assert item_from_json(sent) == item
    assert item_to_json(item_from_json(sent)) == sent
    assert PAGES.is_valid({"items": [sent]})  # pyright: ignore[reportUnknownMemberType]


def test_what_no_json_holds_goes_out_in_words() -> None:
    deep: Any = "bottom"
    for _ in range(900):
        deep = [deep]
    hostile = {"half \ud800": "\udfff", "nan": float("nan"), "inf": float("-inf"), "deep": deep}
    call = Call("c1", "s1", "Bash", "a \ud83d", hostile, output="é\udc80")
    sent = json.dumps(item_to_json(call), allow_nan=False, ensure_ascii=False).encode()
    back = item_from_json(json.loads(sent))
    assert isinstance(back, Call)
    assert back.input["nan"] == "nan"
    assert back.input["inf"] == "-inf"
    assert "bottom" not in sent.decode()
    assert back.output.startswith("é")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ([], "type: is one of words, call, notice"),
        ({"type": "page"}, "type: is one of"),
        ({"type": "notice", "key": "n", "kind": "loud", "text": 3}, 'kind: "loud" is not allowed'),
        ({"type": "notice", "key": "n", "kind": "loud", "text": 3}, "text: expected text, not 3"),
        ({"type": "words", "key": "w", "role": "user", "text": "", "verdict": "ran"}, "verdict: unknown key"),
    ],
)
def test_what_is_no_item_is_refused_with_every_problem(data: object, problem: str) -> None:
    with pytest.raises(Invalid) as refused:
        item_from_json(data)
    assert problem in str(refused.value)
