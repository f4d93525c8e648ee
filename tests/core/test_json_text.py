"""Records become JSON values, and `decode` reads them back."""

import json

import pytest

from adderclaw.core.decode import Invalid, decode
from adderclaw.core.json_text import to_json
from adderclaw.core.record import NamedTuple, record


class Point(NamedTuple):
    x: int
    label: str = ""


@record
class Leaf:
    name: str
    size: float | None = None


@record
class Tree:
    leaves: tuple[Leaf, ...]
    by_name: dict[str, Leaf]
    count: int = 0


TREE = Tree((Leaf("a"), Leaf("b", 2.5)), {"a": Leaf("a", 0.0)})


def test_every_level_becomes_json() -> None:
    assert to_json({"at": (Point(1, "p"), Point(2)), 3: None}) == {
        "at": [{"x": 1, "label": "p"}, {"x": 2, "label": ""}],
        "3": None,
    }
    assert to_json(TREE)["leaves"][1] == {"name": "b", "size": 2.5}


def test_only_values_of_the_same_type_are_omitted() -> None:
    values = to_json(TREE, omit=(None, "", 0))
    assert values["leaves"][0] == {"name": "a"}
    assert values["by_name"]["a"]["size"] == 0.0, "0.0 is not 0"
    assert "count" not in values
    assert to_json({"flag": False, "text": ""}, omit=(0, "")) == {"flag": False, "text": ""}, "keys of a mapping stay"


def test_what_was_written_is_read_back() -> None:
    assert decode(Tree, json.loads(json.dumps(to_json(TREE, omit=(None,))))) == TREE


@pytest.mark.parametrize("leaves", [{"name": "a"}, [{"name": 1}], [{"nme": "a"}], "ab", [["a"]]])
def test_a_tuple_of_records_that_does_not_match_is_refused(leaves: object) -> None:
    with pytest.raises(Invalid):
        decode(Tree, {"leaves": leaves, "by_name": {}})
