"""Checks arguments against a schema that somebody else wrote: bounded work, no pattern, nothing fetched."""

from collections.abc import Callable, Iterator
from typing import Any, cast

from adderclaw.decode import Invalid, dotted
from adderclaw.types import Json

MOST_CHECKS = 20_000
"""A schema can refer to itself in ways that take for ever: whoever wrote it does not decide how long we work."""
MOST_PROBLEMS = 20
LEFT_OUT = ("pattern", "patternProperties", "format")
"""A regular expression of theirs could take for ever too; the server checks it anyway."""


class _TooMuch(Exception):
    pass


def checked(schema: Json, data: Json) -> Json:
    """The data, if it fits; raises Invalid with the problems. What of a schema cannot be used is not checked."""
    from jsonschema import exceptions
    from referencing import exceptions as references

    try:
        found = list(_errors(schema, data))
    except (
        _TooMuch,
        RecursionError,
        exceptions.SchemaError,
        exceptions.UnknownType,
        references.Unresolvable,
        references.Unretrievable,
    ):
        return data  # the schema is no use: the server judges
    except (TypeError, ValueError, AttributeError, KeyError):
        return data  # not a schema at all, in a way of its own
    if found:
        raise Invalid([(dotted(tuple(error.absolute_path)), error.message[:200]) for error in found[:MOST_PROBLEMS]])
    return data


def _errors(schema: Json, data: Json) -> Iterator[Any]:
    from jsonschema import Draft202012Validator, validators
    from referencing import Registry

    left = [MOST_CHECKS]

    def counted(check: Callable[..., Any]) -> Callable[..., Any]:
        def count(*arguments: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise _TooMuch
            return check(*arguments)

        return count

    make = cast(Any, validators)
    known = cast(dict[str, Any], Draft202012Validator.VALIDATORS)
    kind = make.create(
        meta_schema=Draft202012Validator.META_SCHEMA,
        validators={name: counted(check) for name, check in known.items() if name not in LEFT_OUT},
        type_checker=Draft202012Validator.TYPE_CHECKER,
    )
    yield from kind(schema, registry=cast(Any, Registry)()).iter_errors(data)
