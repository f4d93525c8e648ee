"""Checks data against a third party's JSON Schema with bounded work. Patterns are ignored and nothing is fetched."""

from collections.abc import Callable, Iterator
from typing import Any, cast

from adderclaw.core.decode import Invalid, dotted_path
from adderclaw.core.types import Json

MOST_CHECKS = 20_000
"""Maximum number of checks, because a schema that refers to itself can take unbounded time."""
MOST_PROBLEMS = 20
LEFT_OUT = ("pattern", "patternProperties", "format")
"""Keywords that are not checked, because a third party's regular expression could take unbounded time. The server
checks them anyway."""


class _TooMuch(Exception):
    pass


def without_patterns(schema: Json) -> Json:
    """A copy without regular expressions, and without the rules for other properties that depend on them."""
    has_patterns = False

    def copied(value: Any) -> Any:
        nonlocal has_patterns
        if isinstance(value, list):
            return [copied(item) for item in cast(list[Any], value)]
        if not isinstance(value, dict):
            return value
        table = cast(Json, value)
        by_pattern = isinstance(table.get("patternProperties"), dict)
        has_patterns |= by_pattern
        dropped = {"patternProperties", "additionalProperties"} if by_pattern else set[str]()
        dropped |= {"pattern"} if isinstance(table.get("pattern"), str) else set()
        return {key: copied(item) for key, item in table.items() if key not in dropped}

    def open_ended(value: Any) -> Any:
        if isinstance(value, list):
            return [open_ended(item) for item in cast(list[Any], value)]
        if not isinstance(value, dict):
            return value
        return {key: open_ended(item) for key, item in cast(Json, value).items() if key != "unevaluatedProperties"}

    copy = copied(schema)
    return open_ended(copy) if has_patterns else copy


def checked(schema: Json, data: Json) -> Json:
    """The data, if it matches the schema; raises Invalid with the problems. An unusable schema checks nothing."""
    try:
        errors = _found(schema, data)
    except Unusable:
        return data  # the server checks it
    if errors:
        raise Invalid(
            [(dotted_path(tuple(error.absolute_path)), error.message[:200]) for error in errors[:MOST_PROBLEMS]]
        )
    return data


def problems(schema: Json, data: object) -> list[str]:
    """Why the data does not match the operator's own schema. An unusable schema is a problem too."""
    try:
        errors = _found(schema, data)
    except Unusable as error:
        return [str(error)]
    located = ((dotted_path(tuple(error.absolute_path)), error.message[:200]) for error in errors[:MOST_PROBLEMS])
    return [f"{path}: {message}" if path else message for path, message in located]


def schema_problem(schema: Json) -> str:
    """Why a schema is invalid or unusable; empty if it is valid."""
    from jsonschema import Draft202012Validator, exceptions

    try:
        cast(Any, Draft202012Validator).check_schema(schema)
    except exceptions.SchemaError as error:
        path = dotted_path(tuple(cast(Any, error).absolute_path))
        return f"{path}: {error.message[:200]}" if path else error.message[:200]
    except RecursionError:
        return "it is nested too deeply"
    samples: tuple[object, ...] = ({}, [], "", 0, None)
    for sample in samples:
        try:
            _found(schema, sample)
        except Unusable as error:
            return str(error)
    return ""


class Unusable(Exception):
    """A schema that nothing can be checked against."""


def _found(schema: Json, data: object) -> list[Any]:
    from jsonschema import exceptions
    from referencing import exceptions as references

    try:
        return list(_errors(schema, data))
    except (_TooMuch, RecursionError):
        raise Unusable("it refers to itself endlessly") from None
    except (exceptions.SchemaError, exceptions.UnknownType) as error:
        raise Unusable(f"it is not a valid schema: {str(error)[:200]}") from None
    except (references.Unresolvable, references.Unretrievable) as error:
        raise Unusable(f"it refers to something that is not in it: {str(error)[:200]}") from None
    except (TypeError, ValueError, AttributeError, KeyError) as error:  # the library does not detect every mistake
        raise Unusable(f"it is not a valid schema: {str(error)[:200]}") from None


def _errors(schema: Json, data: object) -> Iterator[Any]:
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
    yield from kind(without_patterns(schema), registry=cast(Any, Registry)()).iter_errors(data)
