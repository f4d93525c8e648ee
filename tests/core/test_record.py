"""Our NamedTuple and our dataclasses are the library's in all that our code does with one; only cheaper to declare."""

import copy
import pickle
import typing
from dataclasses import dataclass, field, fields, replace

import pytest

from adderclaw.core.record import NamedTuple, mutable_record


class Ours(NamedTuple):
    """A place."""

    name: str
    size: int = 3
    marks: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.name}:{self.size}"

    def larger(self) -> "Ours":
        return self._replace(size=self.size + 1)


class Typings(typing.NamedTuple):
    """A place."""

    name: str
    size: int = 3
    marks: tuple[str, ...] = ()


def test_it_is_not_typings_own() -> None:
    """Or the rest of this file would compare typing's class with itself."""
    assert Ours.__mro__[1].__module__ == "adderclaw.core.record"


@pytest.mark.parametrize("kind", [Ours, Typings])
def test_what_a_named_tuple_does(kind: type[Ours] | type[Typings]) -> None:
    one, two = kind("a"), kind("a", size=3, marks=())
    assert one == two == ("a", 3, ())
    assert hash(one) == hash(two)
    assert one._replace(size=4) == kind("a", 4) == kind(size=4, name="a")
    assert kind._make(["b", 1, ()]) == kind("b", 1)
    assert one._asdict() == {"name": "a", "size": 3, "marks": ()}
    assert repr(one) == f"{kind.__name__}(name='a', size=3, marks=())"
    assert kind._fields == kind.__match_args__ == ("name", "size", "marks")
    assert kind._field_defaults == {"size": 3, "marks": ()}
    assert kind.__doc__ == "A place."
    name, *rest = one
    assert (name, rest, one[0], one.name, len(one)) == ("a", [3, ()], "a", "a", 3)
    assert copy.copy(one) == copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one
    assert type(pickle.loads(pickle.dumps(one))) is kind
    assert typing.get_type_hints(kind) == {"name": str, "size": int, "marks": tuple[str, ...]}


@pytest.mark.parametrize("kind", [Ours, Typings])
def test_what_a_named_tuple_refuses(kind: type[Ours] | type[Typings]) -> None:
    made: typing.Any = kind
    for given, named in (((), {}), (("a", 1, (), 2), {}), (("a",), {"colour": "red"}), (("a",), {"name": "b"})):
        with pytest.raises(TypeError):
            made(*given, **named)
    with pytest.raises(TypeError):
        kind._make(["b"])
    with pytest.raises(ValueError, match="colour"):
        made("a")._replace(colour="red")
    with pytest.raises(AttributeError):
        made("a").name = "b"
    with pytest.raises(AttributeError):
        made("a").colour = "red"


def test_a_pattern_matches_by_place_and_by_name() -> None:
    match Ours("a"):
        case Ours(found, size=3):
            assert found == "a"
        case _:
            pytest.fail("the pattern does not match")


def test_methods_and_properties_are_the_classs() -> None:
    assert Ours("a").larger().label == "a:4"


def test_a_declaration_that_typing_refuses_is_refused() -> None:
    base: typing.Any = Ours.__mro__[1]
    body: dict[str, typing.Any] = {"__annotations__": {"a": int, "b": int}, "a": 1, "__module__": __name__}
    with pytest.raises(TypeError, match="follows one with a default"):
        type(base)("Wrong", (base,), body)
    with pytest.raises(TypeError, match="cannot be subclassed"):
        type(base)("Sub", (Ours,), {})


@mutable_record
class Work:
    name: str
    steps: list[int] = field(default_factory=list[int])
    doubled: str = ""

    def __post_init__(self) -> None:
        self.doubled = self.name * 2


@dataclass(eq=False, repr=False)
class Usual:
    name: str
    steps: list[int] = field(default_factory=list[int])
    doubled: str = ""

    def __post_init__(self) -> None:
        self.doubled = self.name * 2


@pytest.mark.parametrize("kind", [Work, Usual])
def test_what_changes_is_a_dataclass_of_its_own(kind: type[Work] | type[Usual]) -> None:
    one, two = kind("a"), kind(name="a", steps=[1])
    one.steps.append(5)
    one.name = "b"
    assert (one.name, one.steps, one.doubled, two.steps) == ("b", [5], "aa", [1])
    assert one != kind("b", [5]) and one in {one}  # noqa: PT018
    other = replace(one, name="c")
    assert (other.name, other.steps is one.steps, other.doubled, one.name) == ("c", True, "cc", "b")
    assert [spec.name for spec in fields(kind)] == ["name", "steps", "doubled"]
    made: typing.Any = kind
    for given, named in (((), {}), (("a", [0], "", 4), {}), (("a",), {"colour": "red"}), (("a",), {"name": "b"})):
        with pytest.raises(TypeError):
            made(*given, **named)


def test_a_declaration_that_would_lose_something_is_refused() -> None:
    with pytest.raises(TypeError, match="needs fields and must not define __new__"):
        exec("class Bare(NamedTuple): pass", {"NamedTuple": NamedTuple})
    with pytest.raises(TypeError, match="needs fields and must not define __new__"):
        exec("class Own(NamedTuple):\n a: int\n def __new__(cls): pass", {"NamedTuple": NamedTuple})
