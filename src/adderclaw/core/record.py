"""Frozen dataclasses and named tuples that are cheap to declare, because no method is compiled for them.

Declaring an ordinary frozen dataclass takes about a millisecond and a named tuple a seventh of that, which would slow
down every start of the program.
"""

import collections
from collections.abc import Callable, Iterable
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self, dataclass_transform

type _Shape = tuple[dict[str, Any], frozenset[str], tuple[tuple[str, Callable[[], Any]], ...]]
"""What creating an instance needs, computed once per class: all fields in order with their defaults, the names of
required fields, and the default factories."""

_SHAPES: dict[type, _Shape] = {}


def _shape(kind: type) -> _Shape:
    specs = fields(kind)
    blank = {spec.name: spec.default for spec in specs}
    factories = tuple((spec.name, spec.default_factory) for spec in specs if spec.default_factory is not MISSING)
    needed = frozenset(name for name, value in blank.items() if value is MISSING and name not in dict(factories))
    shape = _SHAPES[kind] = (blank, needed, factories)
    return shape


def _init(self: object, *ordered: Any, **named: Any) -> None:
    kind = type(self)
    blank, needed, factories = _SHAPES.get(kind) or _shape(kind)
    if ordered:
        named = _named(self, blank, ordered, named)
    if not named.keys() >= needed:
        missing = ", ".join(repr(name) for name in blank if name in needed and name not in named)
        raise TypeError(f"{kind.__name__} needs {missing}")
    values = self.__dict__
    values.update(blank)
    values.update(named)
    if len(values) != len(blank):
        raise TypeError(f"{kind.__name__} has no {', '.join(repr(name) for name in named if name not in blank)}")
    for name, make in factories:
        if name not in named:
            values[name] = make()


def _named(self: object, specs: Iterable[str], ordered: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
    named = dict(zip(specs, ordered, strict=False))
    if len(named) < len(ordered) or not named.keys().isdisjoint(keywords):
        raise TypeError(f"{type(self).__name__} got too many values")
    return named | keywords if keywords else named


def _repr(self: object) -> str:
    return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"


def _eq(self: object, other: object) -> bool:
    return type(self) is type(other) and self.__dict__ == other.__dict__


def _hash(self: object) -> int:
    return hash(tuple(self.__dict__.values()))


def _frozen(self: object, name: str, *_value: object) -> None:
    raise FrozenInstanceError(f"{type(self).__name__}.{name} cannot be changed")


def _init_and_after(self: Any, *ordered: Any, **named: Any) -> None:
    _init(self, *ordered, **named)
    self.__post_init__()


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
    _with_fields(kind)
    for name, method in _METHODS.items():
        setattr(kind, name, method)
    return kind


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def mutable_record[T](kind: type[T]) -> type[T]:
    """A dataclass whose fields may change. An instance equals only itself."""
    _with_fields(kind)
    setattr(kind, "__init__", _init_and_after if hasattr(kind, "__post_init__") else _init)  # noqa: B010 - pyright refuses the assignment
    return kind


def _with_fields(kind: type) -> None:
    described = kind.__doc__
    kind.__doc__ = (
        described or kind.__name__
    )  # without a docstring, dataclass() would compute a signature, its slowest step
    dataclass(init=False, repr=False, eq=False, match_args=False)(kind)
    kind.__doc__ = described


_getter: Callable[[int, str], Any] = vars(collections)["_tuplegetter"]
"""The descriptor that `collections.namedtuple` gives its fields; a property would take twice as long to read."""


class _Declaring(type):
    """Creates a `NamedTuple` class from its annotations."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> "_Declaring":
        if any("_fields" in base.__dict__ for base in bases):  # a subclass that only adds methods
            raise TypeError(f"{name}: a NamedTuple cannot be subclassed")
        if bases != (tuple,):
            names = tuple(body.get("__annotations__", ()))
            if not names or "__new__" in body:
                raise TypeError(f"{name}: a NamedTuple needs fields and must not define __new__")
            defaults = {field_name: body.pop(field_name) for field_name in names if field_name in body}
            if names[len(names) - len(defaults) :] != tuple(defaults):
                raise TypeError(f"{name}: a field without a default follows one with a default")
            getters = {field_name: _getter(index, "") for index, field_name in enumerate(names)}
            own = {"_fields": names, "_field_defaults": defaults, "__match_args__": names, "__new__": _first}
            body = {**body, **getters, **own}
        return super().__new__(cls, name, bases, {**body, "__slots__": ()})


def _first(cls: Any, *ordered: Any, **named: Any) -> Any:
    """Creates the first instance of a class and gives the class its own compiled `__new__` for the following ones."""
    names = ", ".join(cls._fields)
    new = tuple[Any].__new__
    make = eval(f"lambda _cls, {names}: _new(_cls, ({names},))", {"_new": new})  # noqa: S307 - names of our own fields
    make.__defaults__ = tuple(cls._field_defaults.values())
    make.__name__, make.__qualname__ = "__new__", f"{cls.__qualname__}.__new__"
    cls.__new__ = staticmethod(make)
    return make(cls, *ordered, **named)


if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:

    class NamedTuple(tuple, metaclass=_Declaring):
        """Replaces `typing.NamedTuple`, which the type checker sees instead."""

        @classmethod
        def _make(cls, values: Iterable[Any]) -> Self:
            instance = tuple.__new__(cls, values)
            if len(instance) != len(cls._fields):
                raise TypeError(f"{cls.__name__} has {len(cls._fields)} fields, not {len(instance)}")
            return instance

        def _replace(self, **given: Any) -> Self:
            instance = tuple.__new__(type(self), map(given.pop, self._fields, self))
            if given:
                raise ValueError(f"{type(self).__name__} has no {', '.join(map(repr, given))}")
            return instance

        def _asdict(self) -> dict[str, Any]:
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self) -> str:
            return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._asdict().items())})"

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)
