"""What the plain check takes, pydantic takes too, and makes the same of it."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adderclaw.config.schema import Config, Limits, ProviderEntry, Security
from adderclaw.core import decode
from adderclaw.tools.control.catalogue import CallArguments
from adderclaw.tools.files import EditArguments, ReadArguments, WriteArguments
from adderclaw.tools.generate import arguments
from adderclaw.tools.grep import GrepArguments
from adderclaw.tools.shell import BashArguments
from tests.rows import rows

KINDS: tuple[type[Any], ...] = (
    BashArguments,
    ReadArguments,
    WriteArguments,
    EditArguments,
    GrepArguments,
    CallArguments,
    Security,
    Limits,
    ProviderEntry,
    Config,
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(st.characters(), max_size=8),
    st.sampled_from(["full", "supervised", "mock", "deny", "allow", "\ud800", "a.txt", ""]),
)
values: st.SearchStrategy[Any] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[type[Any], Any]:
    """A kind, and data that has mostly its keys."""
    kind = draw(st.sampled_from(KINDS))
    names = [*decode.json_schema(kind)["properties"], "unknown"]
    return kind, draw(st.dictionaries(st.sampled_from(names), values, max_size=5) | values)


@settings(max_examples=400, deadline=None)
@given(cases())
def test_the_plain_check_takes_nothing_that_pydantic_would_not(case: tuple[type[Any], Any]) -> None:
    kind, data = case
    try:
        plainly: Any = decode._fitter(kind)(data)  # pyright: ignore[reportPrivateUsage]
    except decode._Unsure:  # pyright: ignore[reportPrivateUsage]
        return
    judged: Any = decode._validated(kind, data)  # pyright: ignore[reportPrivateUsage]
    assert repr(plainly) == repr(judged)


@pytest.mark.parametrize("data", [{"command": "ls"}, {"command": "ls", "timeout": 5}])
def test_ordinary_calls_need_no_pydantic(data: dict[str, Any]) -> None:
    assert decode._fitter(BashArguments)(data) == decode._validated(BashArguments, data)  # pyright: ignore[reportPrivateUsage]


CALLS: dict[str, dict[str, Any]] = {
    "Grep": {"pattern": "x", "-n": True, "-A": 2, "output_mode": "content"},
    "Glob": {"pattern": "*.py"},
    "LS": {},
    "Read": {"file_path": "a.txt", "limit": 10},
    "TaskOutput": {"task_id": "t", "block": False},
    "WebFetch": {"url": "https://example.org", "prompt": ""},
    "TodoWrite": {"todos": [{"content": "a", "status": "pending", "activeForm": "b"}]},
    "Agent": {"description": "a", "prompt": "b"},
    "AskUserQuestion": {"questions": [{"question": "a?", "options": [{"label": "b"}]}]},
    "Call": {"tool": "Time", "input": {"x": [1, {}]}},
}


@rows("tool", CALLS)
def test_an_ordinary_call_of_every_everyday_tool_needs_no_pydantic(tool: str) -> None:
    kind, data = arguments(tool), CALLS[tool]
    assert decode._fitter(kind)(data) == decode._validated(kind, data)  # pyright: ignore[reportPrivateUsage]
