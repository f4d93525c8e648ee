"""Frozen dataclasses whose declaration costs next to nothing: no method is compiled for them.

Declaring an ordinary frozen dataclass takes about a millisecond, and start-up is part of the product.
"""

from collections.abc import Iterable
from dataclasses import MISSING, FrozenInstanceError, dataclass, field
from typing import Any, dataclass_transform


def _fields(self: object) -> dict[str, Any]:
    return getattr(type(self), "__dataclass_fields__", {})


def _init(self: object, *ordered: Any, **given: Any) -> None:
    specs = _fields(self)
    values = self.__dict__
    if ordered:
        given = _named(self, specs, ordered, given)
    for name, spec in specs.items():
        if name in given:
            values[name] = given.pop(name)
        elif spec.default is not MISSING:
            values[name] = spec.default
        elif spec.default_factory is not MISSING:
            values[name] = spec.default_factory()
        else:
            raise TypeError(f"{type(self).__name__} needs {name!r}")
    if given:
        raise TypeError(f"{type(self).__name__} has no {', '.join(map(repr, given))}")


def _named(self: object, specs: Iterable[str], ordered: tuple[Any, ...], given: dict[str, Any]) -> dict[str, Any]:
    named = dict(zip(specs, ordered, strict=False))
    if len(named) < len(ordered) or named.keys() & given.keys():
        raise TypeError(f"{type(self).__name__} was given a value too many")
    return named | given


def _repr(self: object) -> str:
    return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"


def _eq(self: object, other: object) -> bool:
    return type(self) is type(other) and self.__dict__ == other.__dict__


def _hash(self: object) -> int:
    return hash(tuple(self.__dict__.values()))


def _frozen(self: object, name: str, *_value: object) -> None:
    raise FrozenInstanceError(f"{type(self).__name__}.{name} cannot be changed")


_METHODS = {
    "__init__": _init,
    "__repr__": _repr,
    "__eq__": _eq,
    "__hash__": _hash,
    "__setattr__": _frozen,
    "__delattr__": _frozen,
}


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record[T](kind: type[T]) -> type[T]:
    """A frozen dataclass: fields, defaults, `fields()`, `replace()`, equality and hash as usual."""
    dataclass(init=False, repr=False, eq=False, match_args=False)(kind)
    for name, method in _METHODS.items():
        setattr(kind, name, method)
    return kind
