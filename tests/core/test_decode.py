"""decode: refusals with every problem at once, the schema of the same types, and JSON there and back."""

import dataclasses
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest

from adderclaw.core.decode import Between, Invalid, decode, field_docs, json_schema, thaw
from adderclaw.core.json_text import to_json
from adderclaw.core.record import record
from adderclaw.core.types import Json
from tests.rows import rows


@dataclass(frozen=True, slots=True)
class Inner:
    size: Annotated[int, Between(1, 10)]
    """How large."""
    colour: Literal["red", "green"] = "red"


@record
class Outer:
    name: str
    """What it is called,
    in words."""
    inner: Inner | None = None
    inners: list[Inner] = field(default_factory=list[Inner])
    by_name: dict[str, Inner] = field(default_factory=dict[str, Inner])
    pairs: tuple[str, ...] = ()
    ratio: Annotated[float, Between(0)] = 1.0
    noted: Annotated[bool, "Whether somebody wrote it down."] = False
    either: str | int = 0


GOOD: Json = {"name": "a", "inner": {"size": 3}, "inners": [{"size": 1, "colour": "green"}], "pairs": ["x", "y"]}

REFUSED: list[tuple[Json, str, str]] = [
    ({}, "name", "is required"),
    ({"name": 1}, "name", "expected text, not 1"),
    ({"name": None}, "name", "expected text, not null"),
    ({"name": "a", "nmae": "b"}, "nmae", 'unknown key; did you mean "name"?'),
    ({"name": "a", "zzz": "b"}, "zzz", "unknown key; known: name, inner"),
    ({"name": "a", "inner": 3}, "inner", "expected a table"),
    ({"name": "a", "inner": {}}, "inner.size", "is required"),
    ({"name": "a", "inner": {"size": 11}}, "inner.size", "11 is not allowed; it must be from 1 to 10"),
    ({"name": "a", "inner": {"size": "3"}}, "inner.size", 'expected a whole number, not "3"'),
    ({"name": "a", "inner": {"size": 1.5}}, "inner.size", "expected a whole number"),
    ({"name": "a", "inner": {"size": True}}, "inner.size", "expected a whole number"),
    ({"name": "a", "inner": {"size": 3, "colour": "blue"}}, "inner.colour", 'allowed: "red", "green"'),
    ({"name": "a", "inner": {"size": 3, "color": "red"}}, "inner.color", 'did you mean "colour"?'),
    ({"name": "a", "inners": [{"size": 3}, {"sise": 3}]}, "inners[1].sise", 'did you mean "size"?'),
    ({"name": "a", "by_name": {"k": {"size": 0}}}, "by_name.k.size", "it must be from 1 to 10"),
    ({"name": "a", "pairs": "xy"}, "pairs", "expected a list"),
    ({"name": "a", "ratio": float("nan")}, "ratio", "must be at least 0"),
    ({"name": "a", "ratio": float("inf")}, "ratio", "must be at least 0"),
    ({"name": "a", "noted": 1}, "noted", "expected true or false, not 1"),
    ({"name": "a", "either": []}, "either", "expected text, not [], or expected a whole number, not []"),
    ({"name": "a", "pairs": {1, 2}}, "", "is not JSON"),
]


@rows(("data", "key", "message"), REFUSED)
def test_refuses(data: Json, key: str, message: str) -> None:
    with pytest.raises(Invalid) as caught:
        decode(Outer, data)
    assert caught.value.exit_code == 2
    found = dict(caught.value.problems)
    assert message in found[key]


def test_reports_every_problem_at_once() -> None:
    with pytest.raises(Invalid) as caught:
        decode(Outer, {"nam": 1, "inner": {"size": 99}, "noted": "yes"})
    assert {key for key, _ in caught.value.problems} == {"name", "nam", "inner.size", "noted"}
    assert "inner.size: 99 is not allowed" in str(caught.value)


def test_a_flood_of_problems_is_counted_and_not_listed() -> None:
    with pytest.raises(Invalid) as caught:
        decode(Outer, {f"k{at}": at for at in range(50_000)})
    assert caught.value.problems == [("", "has 50,001 problems; it is probably not the right kind of data")]


def test_a_long_value_is_shortened() -> None:
    with pytest.raises(Invalid) as caught:
        decode(Outer, {"name": ["x" * 5000]})
    assert len(str(caught.value)) < 200


def test_decodes_with_defaults() -> None:
    made = decode(Outer, GOOD)
    assert made == Outer(name="a", inner=Inner(3), inners=[Inner(1, "green")], pairs=("x", "y"))


def test_thaw_and_freeze_are_inverse() -> None:
    made = decode(Outer, GOOD | {"by_name": {"k": {"size": 2}}})
    assert thaw(Outer, to_json(made)) == made
    assert to_json(made)["by_name"] == {"k": {"size": 2, "colour": "red"}}


def test_schema_is_compact_and_closed() -> None:
    made = json_schema(Outer)
    assert made["additionalProperties"] is False
    assert made["required"] == ["name"]
    assert made["properties"]["name"] == {"type": "string", "description": "What it is called, in words."}
    assert made["properties"]["noted"]["description"] == "Whether somebody wrote it down."
    assert made["properties"]["inner"]["additionalProperties"] is False
    assert made["properties"]["inner"]["properties"]["size"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 10,
        "description": "How large.",
    }
    text = str(made)
    assert not any(word in text for word in ("title", "$ref", "$defs", "null", "None"))


def test_field_docs_of_a_class_without_source() -> None:
    made: Any = dataclasses.make_dataclass("Made", [("x", int)])
    assert field_docs(made) == {}


def test_a_record_is_a_frozen_dataclass() -> None:
    made = Outer(name="a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(made, "name", "b")  # noqa: B010
    with pytest.raises(TypeError, match="needs 'name'"):
        Outer(**dict[str, Any]())
    wrong: dict[str, Any] = {"name": "a", "nmae": "b"}
    with pytest.raises(TypeError, match="has no 'nmae'"):
        Outer(**wrong)
    assert dataclasses.replace(made, name="b").name == "b"
    assert made.inners is not Outer(name="a").inners
    assert repr(made).startswith("Outer(name='a'")


def test_importing_it_brings_no_validator() -> None:
    code = (
        "import sys, adderclaw.core.decode; print([m for m in ('pydantic', 'difflib', 'textwrap') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
