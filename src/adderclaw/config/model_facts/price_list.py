"""Reads the price list of the `genai-prices` package as data. The code is parsed, never imported or run."""

import ast
import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from datetime import date
from typing import Any, cast

from adderclaw.config.model_facts.table import DATED as BY_DAY
from adderclaw.config.model_facts.table import NO_TEXT, PRICES, problem_of
from adderclaw.core.types import Json

PACKAGE = "genai-prices"
PRICES_IN_WHEEL = "genai_prices/data.py"
MOST_BYTES = 16_000_000
"""Maximum size of the source. In autumn 2026 it has 1.6 million bytes."""
DEEPEST = 40

VENDORS = {
    "anthropic": re.compile(r"claude-"),
    "openai": re.compile(r"(gpt|chatgpt|codex)-(?!oss)|o\d"),
    "google": re.compile(r"gemini-"),
    "x-ai": re.compile(r"grok-"),
}
"""Vendor → the names of the models that only the vendor sells. Models with open weights are skipped, because their
price depends on who serves them."""
NAME = re.compile(r"[a-z0-9][a-z0-9._:@-]{1,80}")
DATED = re.compile(r"\^(?P<name>[a-z0-9.\\-]+?)(?P<mark>-|\[-@\])(\\d\{8\}|\\d\{4\}-\\d\{2\}-\\d\{2\})\$")
"""Matches a regular expression for the dated versions of a model, such as `^gpt-6\\.1-sol-\\d{4}-\\d{2}-\\d{2}$`."""
FIELDS = {
    "input_mtok": "input_per_mtok",
    "output_mtok": "output_per_mtok",
    "cache_read_mtok": "cache_read_per_mtok",
    "cache_write_mtok": "cache_write_per_mtok",
}


class Unreadable(ValueError):
    """The price list has an unknown form; the message says what is wrong."""


def models_of_wheel(wheel: bytes, today: date) -> dict[str, Json]:
    """The rows of `models.json` in a wheel of genai-prices; raises Unreadable."""
    try:
        with zipfile.ZipFile(io.BytesIO(wheel)) as archive, archive.open(PRICES_IN_WHEEL) as member:
            source = member.read(MOST_BYTES + 1)  # bounds what is unpacked, regardless of the size in the archive
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, OSError, RuntimeError, NotImplementedError) as error:
        raise Unreadable(f"the wheel has no readable {PRICES_IN_WHEEL} ({error})") from None
    if len(source) > MOST_BYTES:
        raise Unreadable(f"{PRICES_IN_WHEEL} is larger than {MOST_BYTES} bytes")
    return models_of_source(source, today)


def models_of_source(source: bytes, today: date) -> dict[str, Json]:
    """The rows of `models.json` in the source of genai_prices/data.py; raises Unreadable."""
    try:
        rows = dict(_rows(_providers(source), today))
    except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        if isinstance(error, Unreadable):
            raise
        raise Unreadable(
            f"{PRICES_IN_WHEEL} has another form than expected ({type(error).__name__}: {error})"
        ) from None
    if problem := problem_of(rows):
        raise Unreadable(problem)
    if not all(any(vendor.match(name) for name in rows) for vendor in VENDORS.values()):
        raise Unreadable(f"{PRICES_IN_WHEEL} lists no model of one of {', '.join(VENDORS)}")
    return rows


# ------------------------------------------------------------------ the source as values


def _providers(source: bytes) -> list[Json]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise Unreadable(f"{PRICES_IN_WHEEL} cannot be parsed ({type(error).__name__})") from None
    for statement in tree.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id="providers"), value=ast.List() as value):
                return [_value(provider, 0) for provider in value.elts if _id_of(provider) in VENDORS]
            case _:
                pass
    raise Unreadable(f"{PRICES_IN_WHEEL} has no list of providers")


def _id_of(provider: ast.expr) -> object:
    match provider:
        case ast.Call(keywords=[ast.keyword(arg="id", value=ast.Constant(value=name)), *_]):
            return name
        case _:
            return None


def _value(node: ast.expr, depth: int) -> Any:
    """A literal, or a call with its class's name under `class` and its arguments; anything else is not data."""
    if depth > DEEPEST:
        raise Unreadable(f"{PRICES_IN_WHEEL}: line {node.lineno} is nested too deeply")
    match node:
        case ast.Constant(value=value):
            return value
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item, depth + 1) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {
                _value(key, depth + 1): _value(value, depth + 1) for key, value in zip(keys, values, strict=True) if key
            }
        case ast.Call(func=ast.Name(id="Decimal"), args=[ast.Constant(value=str(text))], keywords=[]):
            return float(text)
        case ast.Call(func=ast.Attribute(attr="date"), args=parts, keywords=[]):
            return date(*(_value(part, depth + 1) for part in parts))
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[], keywords=keywords):
            return {"class": name} | {
                keyword.arg: _value(keyword.value, depth + 1) for keyword in keywords if keyword.arg
            }
        case _:
            raise Unreadable(f"{PRICES_IN_WHEEL}: line {node.lineno} is not a plain value")


# ------------------------------------------------------------------ rows of models.json


def _rows(providers: list[Json], today: date) -> Iterator[tuple[str, Json]]:
    for provider in providers:
        vendor = VENDORS[provider["id"]]
        for model in provider["models"]:
            row = _row(model, today)
            for pattern in _patterns(model["match"]):
                if vendor.match(pattern) and _is_narrow(pattern):
                    yield pattern, row if not NO_TEXT.search(pattern) else _without_prices(row)


def _is_narrow(pattern: str) -> bool:
    """Whether a pattern matches only one version of a model, so that its price never applies to unknown models."""
    name = pattern.removesuffix("*")
    return NAME.fullmatch(name) is not None and (name == pattern or any(sign.isdigit() for sign in name))


def _without_prices(row: Json) -> Json:
    return {key: row[key] for key in ("context_tokens",) if key in row}


def _patterns(match: Json) -> Iterator[str]:
    match match:
        case {"equals": str(name)} | {"ends_with": str(name)}:
            yield name
        case {"starts_with": str(name)} | {"contains": str(name)}:
            yield f"{name}*"
        case {"regex": str(text)} if dated := DATED.fullmatch(text):
            for mark in dated["mark"].strip("[]"):
                yield f"{dated['name'].replace('\\', '')}{mark}{BY_DAY}"
        case _:
            for part in cast(list[Json], match.get("or_") or match.get("and_") or []):
                yield from _patterns(part)


def _row(model: Json, today: date) -> Json:
    row: Json = {}
    if (window := model.get("context_window")) is not None:
        row["context_tokens"] = window
    listed = model["prices"]
    if not isinstance(listed, list):
        return row | _prices(listed)
    # start date → prices; prices that depend on the time of day are skipped
    days = {
        (listing["constraint"]["start_date"] if listing.get("constraint") else date.min): listing["prices"]
        for listing in cast(list[Json], listed)
        if not listing.get("constraint") or "start_date" in listing["constraint"]
    }
    begun = max((day for day in days if day <= today), default=None)
    later = {day.isoformat(): prices for day in sorted(days) if day > today and (prices := _prices(days[day]))}
    now = _prices(days[begun]) if begun is not None else {}
    return row | now | ({"from": later} if now and later else {})


def _prices(listed: Json) -> Json:
    """The prices of text, and under `above` those of a long request; empty if input or output has no price."""
    prices: Json = {}
    above: Json = {}
    for theirs, ours in FIELDS.items():
        match listed.get(theirs):
            case {"base": float(base), "tiers": [{"start": int(start), "price": float(price)}]}:
                prices[ours] = base
                above |= {"tokens": max(start, above.get("tokens", 0)), ours: price}
            case {"base": float(), "tiers": _}:
                return {}  # several tiers cannot be represented
            case float(price):
                prices[ours] = price
            case _:
                pass
    if not all(prices.get(name, 0) > 0 for name in ("input_per_mtok", "output_per_mtok")):
        return {}
    return {name: prices[name] for name in PRICES if name in prices} | ({"above": above} if above else {})
