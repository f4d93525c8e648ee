"""`@rows(…)` is `@pytest.mark.parametrize(…)` in one test: it goes through every row and names each that fails.

For rows that need no fixture of their own: a test per row costs more than what most rows of a table show. Several of
them on one function are every combination, as with pytest.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from itertools import product
from typing import Any

import pytest

type Axis = tuple[tuple[str, ...], list[tuple[str, tuple[Any, ...]]]]
"""The names of the arguments, and each row: how it is called, and its values."""

PARAM: Any = type(pytest.param())

LONGEST = 300
"""How many characters of a row, and of what was wrong with it, a report shows."""


def rows(
    names: str | tuple[str, ...], values: Iterable[Any], ids: Callable[[Any], object] | Iterable[object] | None = None
) -> Callable[..., Any]:
    """What `parametrize` takes; a test in which nothing would be run is an error at once."""
    words = tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else names
    alone = isinstance(names, str) and len(words) == 1
    axis: Axis = (words, [_row(words, value, alone) for value in values])
    if callable(ids):
        axis = (words, [(" ".join(str(ids(one)) for one in row), row) for _, row in axis[1]])
    elif ids is not None:
        axis = (words, [(str(name), row) for name, (_, row) in zip(ids, axis[1], strict=True)])
    if not axis[1]:
        raise ValueError(f"there is no row for {', '.join(words)}")

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        inner: Callable[..., None] = getattr(test, "of_a_row", test)
        axes: list[Axis] = [axis, *getattr(test, "axes", ())]
        taken = {name for names, _ in axes for name in names}
        signature = inspect.signature(inner)
        assert taken <= set(signature.parameters), f"{inner.__name__} takes no {taken - set(signature.parameters)}"

        @wraps(inner)
        def through(**fixtures: Any) -> None:
            failed: list[tuple[str, BaseException]] = []
            count = 0
            for name, arguments in _combined(axes):
                count += 1
                try:  # whatever ends a row is reported
                    inner(**fixtures, **arguments)
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001
                    failed.append((name, error))
            if failed:
                lines = (f"  {_short(name)}: {type(error).__name__}: {_short(str(error))}" for name, error in failed)
                raise AssertionError("\n".join((f"{len(failed)} of {count} rows:", *lines))) from failed[0][1]

        kept = [one for one in signature.parameters.values() if one.name not in taken]
        marked: Any = through
        marked.__signature__ = signature.replace(parameters=kept)
        marked.of_a_row, marked.axes = inner, axes
        return through

    return decorate


def _row(names: tuple[str, ...], value: Any, alone: bool) -> tuple[str, tuple[Any, ...]]:
    called: Any = None
    row: tuple[Any, ...]
    if type(value) is PARAM:
        assert not value.marks, "a row takes no marks"
        called, row = value.id, tuple(value.values)
    else:
        row = (value,) if alone else tuple(value)
    assert len(row) == len(names), f"{row!r} is no row for {names}"
    shown = " ".join(f"{name}={one!r}" for name, one in zip(names, row, strict=True))
    return called or shown, row


def _combined(axes: list[Axis]) -> Iterator[tuple[str, dict[str, Any]]]:
    for picked in product(*(found for _, found in axes)):
        arguments: dict[str, Any] = {}
        for (names, _), (_, row) in zip(axes, picked, strict=True):
            arguments |= dict(zip(names, row, strict=True))
        yield " ".join(name for name, _ in picked), arguments


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters)"
