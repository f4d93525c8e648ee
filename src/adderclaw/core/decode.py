"""Validates all untrusted data, reporting every problem at once, and derives JSON Schema from the same types."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAliasType, Union, cast, get_args, get_origin

from adderclaw.core.errors import EXIT_USAGE, AdderClawError
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json

if TYPE_CHECKING:
    from pydantic import TypeAdapter


class Invalid(AdderClawError):
    """Data that does not match its type. `problems` lists every (key path, message)."""

    exit_code = EXIT_USAGE

    def __init__(
        self,
        problems: list[tuple[str, str]],
        missing: frozenset[str] = frozenset(),
        unknown: frozenset[str] = frozenset(),
    ) -> None:
        """Among the keys in `problems`, `missing` are merely absent and `unknown` do not exist in the type."""
        self.problems, self.missing, self.unknown = problems, missing, unknown
        super().__init__("\n".join(f"{key}: {message}" if key else message for key, message in problems))


# ------------------------------------------------------------------ types


class Between(NamedTuple):
    """`Annotated[int, Between(1, 10)]`: a number with inclusive bounds."""

    low: float
    high: float | None = None

    @property
    def words(self) -> str:
        return f"at least {self.low:g}" if self.high is None else f"from {self.low:g} to {self.high:g}"

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        from pydantic_core import PydanticCustomError, core_schema

        def check(value: Any) -> Any:
            # written so that NaN fails, and infinity too
            if value is None or (self.low <= value < float("inf") and (self.high is None or value <= self.high)):
                return value
            raise PydanticCustomError("between", "must be {words}", {"words": self.words})

        return core_schema.no_info_after_validator_function(check, handler(source))

    def __get_pydantic_json_schema__(self, core: Any, handler: Callable[[Any], Json]) -> Json:
        bounds = {"minimum": self.low} | ({} if self.high is None else {"maximum": self.high})
        return handler(core) | bounds


# ------------------------------------------------------------------ validation


@cache
def _adapter(kind: Any) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


MOST_PROBLEMS = 1_000
"""Problems that are listed individually. Hostile data may have millions, and listing them takes time."""


def decode[T](kind: type[T], data: object) -> T:
    """Converts JSON values to a `kind` by strict rules; raises Invalid with every problem (up to MOST_PROBLEMS)."""
    try:
        return _fitter(kind)(data)
    except _Unsure:
        return _validated(kind, data)


def _validated[T](kind: type[T], data: object) -> T:
    import json

    from pydantic import ValidationError

    try:
        # through JSON text, because strict validation of Python objects accepts only instances of a dataclass
        text = json.dumps(data)
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid([("", f"is not JSON: {error}")]) from None
    try:
        return _adapter(kind).validate_json(text, strict=True, extra="forbid")
    except ValidationError as error:
        if (count := error.error_count()) > MOST_PROBLEMS:
            raise Invalid([("", f"has {count:,} problems; it is probably not the right kind of data")]) from None
        problems = [_problem(kind, data, cast(Json, detail)) for detail in error.errors(include_url=False)]
        unknown, missing = _keys_of(problems, _UNKNOWN_KEY), _keys_of(problems, _MISSING)
        others = {detail.key for detail in problems if detail.type not in _MISSING}
        raise Invalid(_joined(problems), missing - others, unknown) from None


# ------------------------------------------------------------------ fast path
#
# Importing pydantic is the most expensive part of start-up, and nearly all data is valid. So a checker for simple types
# runs first and leaves every doubtful case to pydantic. A test compares the two.


class _Unsure(Exception):
    """The fast path cannot decide; pydantic validates the data."""


type _Fit = Callable[[Any], Any]


def _plain(kind: type) -> _Fit:
    def fit(data: Any) -> Any:
        if type(data) is not kind:
            raise _Unsure
        return data

    return fit


def _text(data: Any) -> Any:
    if type(data) is not str or not (data.isascii() or _encodable(data)):
        raise _Unsure
    return data


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _number(data: Any) -> Any:
    if (type(data) is not float and type(data) is not int) or not abs(data) < 1e15:
        raise _Unsure
    return float(data)


def _whole(data: Any) -> Any:
    if type(data) is not int or not abs(data) < 2**53:
        raise _Unsure
    return data


def _anything(data: Any) -> Any:
    return data


def _unsure(_data: Any) -> Any:
    raise _Unsure


_PLAIN: dict[Any, _Fit] = {
    str: _text,
    int: _whole,
    float: _number,
    bool: _plain(bool),
    NoneType: _plain(NoneType),
    Any: _anything,
}


@cache
def _fitter(kind: Any) -> _Fit:
    """The fast converter for a type."""
    if isinstance(kind, TypeAliasType):
        return _fitter(kind.__value__)
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _record_fitter(cast(type, kind))
    if origin is Annotated:
        return _bounded(_fitter(arguments[0]), [part for part in arguments[1:] if not isinstance(part, str)])
    if origin is Literal:
        return _one_of(arguments)
    if origin in (Union, UnionType) and len(arguments) == 2 and NoneType in arguments:
        inner = _fitter(next(arm for arm in arguments if arm is not NoneType))
        return lambda data: None if data is None else inner(data)
    if origin is list:
        return _list_fitter(_fitter(arguments[0]))
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        items = _list_fitter(_fitter(arguments[0]))
        return lambda data: tuple(items(data))
    if origin is dict and arguments[0] is str:
        return _dict_fitter(_fitter(arguments[1]))
    return _unsure


def _bounded(inner: _Fit, marks: list[Any]) -> _Fit:
    bounds = [mark for mark in marks if isinstance(mark, Between)]
    if any(hasattr(mark, "__get_pydantic_core_schema__") for mark in marks if not isinstance(mark, Between)):
        return _unsure

    def fit(data: Any) -> Any:
        value = inner(data)
        for low, high in bounds:
            if value is not None and not (low <= value and (high is None or value <= high)):
                raise _Unsure
        return value

    return fit


def _one_of(allowed: tuple[Any, ...]) -> _Fit:
    def fit(data: Any) -> Any:
        if type(data) is not str or data not in allowed:
            raise _Unsure
        return data

    return fit


def _list_fitter(inner: _Fit) -> _Fit:
    def fit(data: Any) -> Any:
        if type(data) is not list:
            raise _Unsure
        return [inner(item) for item in cast(list[Any], data)]

    return fit


def _dict_fitter(inner: _Fit) -> _Fit:
    def fit(data: Any) -> Any:
        if type(data) is not dict:
            raise _Unsure
        return {_text(key): inner(value) for key, value in cast(Json, data).items()}

    return fit


def _record_fitter(kind: type) -> _Fit:
    config: Json = dict(getattr(kind, "__pydantic_config__", {}))
    called: Callable[[str], str] = config.pop("alias_generator", str)
    if config:
        return _unsure
    inner = {called(spec.name): (spec.name, _fitter(spec.type)) for spec in fields(kind)}
    needed = {called(spec.name) for spec in fields(kind) if spec.default is MISSING is spec.default_factory}

    def fit(data: Any) -> Any:
        if type(data) is not dict:
            raise _Unsure
        values = cast(Json, data)
        if not inner.keys() >= values.keys() >= needed:
            raise _Unsure
        return kind(**{inner[name][0]: inner[name][1](value) for name, value in values.items()})

    return fit


# ------------------------------------------------------------------ problems


class _Problem(NamedTuple):
    key: str
    message: str
    type: str
    """Pydantic's error type."""


_MISSING = frozenset({"missing", "missing_keyword_only_argument", "missing_argument"})
_UNKNOWN_KEY = frozenset({"unexpected_keyword_argument", "extra_forbidden"})


def _keys_of(problems: list[_Problem], types: frozenset[str]) -> frozenset[str]:
    return frozenset(problem.key for problem in problems if problem.type in types)


def _joined(problems: list[_Problem]) -> list[tuple[str, str]]:
    """Joins the messages for each key, because every arm of a union reports its own problem."""
    by_key: dict[str, list[str]] = {}
    for key, message, _ in problems:
        messages = by_key.setdefault(key, [])
        if message not in messages:
            messages.append(message)
    return [(key, ", or ".join(messages)) for key, messages in by_key.items()]


_EXPECTED = {
    "string_type": "expected text",
    "int_type": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_type": "expected a number",
    "bool_type": "expected true or false",
    "list_type": "expected a list",
    "tuple_type": "expected a list",
    "dict_type": "expected a table of keys and values",
    "dataclass_type": "expected a table of keys and values",
    "dataclass_exact_type": "expected a table of keys and values",
    "none_required": "expected null",
}


def _problem(kind: Any, data: object, error: Json) -> _Problem:
    path, what = _real_path(data, error["loc"]), str(error["type"])
    if what in _MISSING and error["loc"][-1:] != path[-1:]:
        path = (*path, *error["loc"][-1:])
    return _Problem(dotted_path(path), _message(kind, path, what, error), what)


def _message(kind: Any, path: tuple[Any, ...], what: str, error: Json) -> str:
    value = error["input"]
    match what:
        case _ if what in _MISSING:
            return "is required"
        case _ if what in _UNKNOWN_KEY:
            return f"unknown key{unknown_key_hint(str(error['loc'][-1]), _known(kind, path[:-1]))}"
        case "literal_error" | "enum":
            return f"{short_json(value)} is not allowed; allowed: {_alternatives(error['ctx']['expected'])}"
        case "between":
            return f"{short_json(value)} is not allowed; it {error['msg']}"
        case _ if what in _EXPECTED:
            return f"{_EXPECTED[what]}, not {short_json(value)}"
        case _:
            message = str(error["msg"])
            return f"{message[:1].lower()}{message[1:]}, not {short_json(value)}"


def _alternatives(expected: str) -> str:
    return expected.replace(" or ", ", ").replace("'", '"')


def dotted_path(path: tuple[Any, ...]) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def short_json(value: object) -> str:
    """A value as shortened JSON, for error messages."""
    import json

    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:77]}..."


def unknown_key_hint(name: str, known: list[str]) -> str:
    """The end of an "unknown key" message: the most similar key, or else all known keys."""
    if not known:
        return ""
    from adderclaw.core.suggestions import did_you_mean

    return did_you_mean(name, known, '"') or f"; known: {', '.join(known)}"


def _real_path(data: object, loc: tuple[Any, ...]) -> tuple[Any, ...]:
    """The parts of an error's location that are keys of the data. Pydantic also names the arms of unions."""
    path: list[Any] = []
    here: Any = data
    for part in loc:
        if isinstance(here, dict) and part in here:
            here = cast(Json, here)[part]
        elif isinstance(here, list | tuple) and isinstance(part, int) and part < len(cast(list[Any], here)):
            here = cast(list[Any], here)[part]
        else:
            continue
        path.append(part)
    return tuple(path)


# ------------------------------------------------------------------ type inspection


def plain_type(kind: Any) -> Any:
    """The type without aliases, Annotated and `| None`."""
    while True:
        if isinstance(kind, TypeAliasType):
            kind = kind.__value__
        elif get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        elif get_origin(kind) in (Union, UnionType):
            arms = [arm for arm in get_args(kind) if arm is not NoneType]
            if len(arms) != 1:
                return kind
            kind = arms[0]
        else:
            return kind


def _known(kind: Any, path: tuple[Any, ...]) -> list[str]:
    """The keys that the table at `path` may contain."""
    here = plain_type(kind)
    for part in path:
        if is_dataclass(here):
            here = plain_type(next((f.type for f in fields(here) if f.name == part), Any))
        elif get_origin(here) in (list, tuple, dict, Mapping):
            here = plain_type(get_args(here)[1 if get_origin(here) in (dict, Mapping) else 0])
        else:
            return []
    if is_dataclass(here):
        return [f.name for f in fields(here)]
    return list(getattr(here, "__annotations__", {})) if isinstance(here, type) else []


@cache
def field_docs(kind: type) -> dict[str, str]:
    """Field → the docstring below it, or the text in its Annotated."""
    import ast
    import inspect
    import textwrap
    from itertools import pairwise

    docs: dict[str, str] = {}
    try:
        body = cast(ast.ClassDef, ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]).body
    except (OSError, TypeError, SyntaxError):
        body = []
    for before, after in pairwise(body):
        if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name) and isinstance(after, ast.Expr):
            value = after.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                docs[before.target.id] = " ".join(value.value.split())
    for spec in fields(kind):
        texts = [part for part in getattr(spec.type, "__metadata__", ()) if isinstance(part, str)]
        if texts:
            docs[spec.name] = texts[0]
    return docs


# ------------------------------------------------------------------ JSON Schema


def json_schema(kind: type, *, nulls: bool = False) -> Json:
    """Compact JSON Schema of a dataclass: no titles, no references, no unknown keys allowed.

    `nulls`: also show a null that only means that the key is omitted.
    """
    from pydantic.json_schema import GenerateJsonSchema

    class Generate(GenerateJsonSchema):
        def dataclass_schema(self, schema: Any) -> Any:
            table: Json = super().dataclass_schema(schema)
            docs = field_docs(schema["cls"])
            for name, entry in table.get("properties", {}).items():
                if name in docs:
                    entry["description"] = docs[name]
            return table | {"additionalProperties": False}

        def named_tuple_schema(self, schema: Any) -> Any:
            """As an object with the field names, which is how named tuples are sent."""
            positional: Json = super().named_tuple_schema(schema)
            names = [field["name"] for field in schema["fields"]]
            entries = dict(zip(names, positional["prefixItems"], strict=True))
            needed = names[: positional["minItems"]]
            return {"type": "object", "properties": entries, "required": needed, "additionalProperties": False}

    whole = _adapter(kind).json_schema(schema_generator=Generate)
    compacted = _compact(whole, whole.get("$defs", {}), nulls=nulls)
    compacted.pop("description", None)
    return compacted


_DROPPED = ("title", "$defs")


def _compact(node: Any, definitions: Json, *, nulls: bool) -> Any:
    if isinstance(node, list):
        return [_compact(item, definitions, nulls=nulls) for item in cast(list[Any], node)]
    if not isinstance(node, dict):
        return node
    table = cast(Json, node)
    if "$ref" in table:
        rest = {key: value for key, value in table.items() if key != "$ref"}
        return _compact(definitions[table["$ref"].rsplit("/", 1)[1]] | rest, definitions, nulls=nulls)
    compacted: Json = {}
    for key, value in table.items():
        if key == "properties":
            compacted[key] = {name: _compact(entry, definitions, nulls=nulls) for name, entry in value.items()}
        elif key in ("default", "enum", "const"):
            compacted[key] = value
        elif key not in _DROPPED:
            compacted[key] = _compact(value, definitions, nulls=nulls)
    return compacted if nulls else _without_null(compacted)


def _without_null(node: Json) -> Json:
    """Shows `X | None = None` as an optional X."""
    if node.get("default", MISSING) is not None:
        return node
    del node["default"]
    arms = [arm for arm in node.get("anyOf", ()) if arm != {"type": "null"}]
    if "anyOf" not in node:
        return node
    rest = {key: value for key, value in node.items() if key != "anyOf"}
    return (arms[0] | rest) if len(arms) == 1 else rest | {"anyOf": arms}


# ------------------------------------------------------------------ trusted data


type _Build = Callable[[Any], Any]


@cache
def _json_builder(kind: Any) -> _Build | None:
    """A function that converts JSON to a `kind`; None if the JSON value needs no conversion."""
    kind = plain_type(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _dataclass_builder(cast(type, kind))
    if make := getattr(kind, "_make", None):  # a NamedTuple
        return cast(_Build, make)
    if origin in (dict, Mapping):
        inner = _json_builder(arguments[1])
        return inner and (lambda data: {key: inner(value) for key, value in data.items()})
    if origin is list:
        inner = _json_builder(arguments[0])
        return inner and (lambda data: [inner(value) for value in data])
    if origin in (tuple, frozenset):
        inner = _json_builder(arguments[0]) if origin is frozenset or arguments[1:] == (...,) else None
        collect = cast(_Build, origin)
        return lambda data: collect(map(inner, data) if inner else data)
    return None


def _dataclass_builder(kind: type) -> _Build:
    inner = {spec.name: make for spec in fields(kind) if (make := _json_builder(spec.type))}

    def build(data: Json) -> Any:
        values = dict(data)
        for name, make in inner.items():
            if values.get(name) is not None:
                values[name] = make(values[name])
        return kind(**values)

    return build


def thaw[T](kind: type[T], data: Json) -> T:
    """Restores a `kind` from the output of `to_json`, without validation."""
    build = _json_builder(kind)
    return cast(T, build(data) if build else data)


def literals(kind: Any) -> tuple[Any, ...]:
    """The values of a Literal; empty for any other type."""
    kind = plain_type(kind)
    return get_args(kind) if get_origin(kind) is Literal else ()
