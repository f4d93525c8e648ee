"""The individual values of a configuration: enumerated by the schema, read and set by path."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, TypeAliasType, Union, cast, get_args, get_origin

from adderclaw.config.schema import Config, Meaning
from adderclaw.core.decode import plain_type
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json

type Path = tuple[str, ...]


class Leaf(NamedTuple):
    path: Path
    kind: Any
    value: Any

    @property
    def key(self) -> str:
        return ".".join(self.path)


def leaves(table: Json, kind: Any = Config, path: Path = ()) -> Iterator[Leaf]:
    """Every value of a table that the schema does not divide further."""
    kinds = {spec.name: spec.type for spec in fields(kind)}
    for key, value in table.items():
        if key not in kinds:
            continue  # an unknown key is reported by validation
        here, inner = (*path, key), plain_type(kinds[key])
        if is_dataclass(inner) and isinstance(value, dict):
            yield from leaves(cast(Json, value), inner, here)
        elif get_origin(inner) is dict and key != "headers" and isinstance(value, dict):
            entry = plain_type(get_args(inner)[1])
            for name, item in cast(Json, value).items():
                if is_dataclass(entry) and isinstance(item, dict):
                    yield from leaves(cast(Json, item), entry, (*here, name))
                else:
                    yield Leaf((*here, name), entry, item)
        else:
            yield Leaf(here, kinds[key], value)


def meaning(kind: Any) -> str | None:
    """The meaning of a text, or of each text in a list, of this type."""
    if isinstance(kind, TypeAliasType):
        return meaning(kind.__value__)
    for note in getattr(kind, "__metadata__", ()):
        if isinstance(note, Meaning):
            return note.of
    arms = [arm for arm in get_args(kind) if arm is not NoneType]
    return meaning(arms[0]) if get_origin(kind) in (list, Union, UnionType) and len(arms) == 1 else None


def drop(data: Json, key: str) -> None:
    """Remove the value that a problem is about, so that the rest can still be checked."""
    for leaf in list(leaves(data)):
        if key == leaf.key or key.startswith((f"{leaf.key}.", f"{leaf.key}[")):
            del get(data, leaf.path[:-1])[leaf.path[-1]]


def get(tree: Json, path: Path) -> Any:
    here: Any = tree
    for part in path:
        here = cast(Json, here).get(part) if isinstance(here, dict) else None
    return here


def put(tree: Json, path: Path, value: Any) -> None:
    here = tree
    for part in path[:-1]:
        here = here.setdefault(part, {})
    here[path[-1]] = value
