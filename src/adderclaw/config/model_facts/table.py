"""The tables of known models: the packaged one, the one that `models refresh` stored, and hand-written families."""

import json
import os
import re
import time
from collections.abc import Mapping
from datetime import date
from typing import cast

from adderclaw.config import places
from adderclaw.core import home_names
from adderclaw.core.errors import AdderClawError
from adderclaw.core.provider_kinds import KINDS, ModelAlias
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json

PRICES = ("input_per_mtok", "output_per_mtok", "cache_read_per_mtok", "cache_write_per_mtok")
HIGHEST_PRICE = 10_000
WINDOWS = (1_000, 100_000_000)
MOST_ROWS = 5_000
PATTERN = re.compile(r"[a-z0-9][a-z0-9._:@-]{1,80}\*?")
DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
DATED = "20*"
"""The end of a pattern for the dated versions of a model, such as `claude-opus-5-20260724`."""

NO_TEXT = re.compile(r"audio|realtime|image|tts|live|transcribe|search|embedding|voice|omni|banana|streaming")
"""Models for media other than text. Their price per text token is not the price of a call, and they do not think."""

ALIASES: dict[str, Mapping[str, ModelAlias]] = {kind.name: kind.aliases for kind in KINDS if kind.aliases}
"""Kind of provider → alias → how to find the newest model that it refers to."""
ALIAS_NAMES = frozenset(name for names in ALIASES.values() for name in names)


class Table(NamedTuple):
    """Models with their context windows and prices, and the source of the data."""

    path: str
    source: Json
    """The package, version and hash that it was generated from."""
    fetched: str
    """The day on which the source was the newest version."""
    models: dict[str, Json]
    problem: str = ""
    """Why the table is not used; empty if it is used."""


_packaged: list[Table] = []
_in_effect: dict[str, Table] = {}
_families: list[Json] = []


def packaged() -> Table:
    """The table of this version of the program."""
    if not _packaged:
        path = os.path.join(os.path.dirname(__file__), "models.json")
        _packaged.append(_read(path, _whole(path)))
    return _packaged[0]


def refreshed() -> Table | None:
    """The table in the home folder; None if there is none. It has a `problem` if it cannot be used."""
    path = os.path.join(places.home(), home_names.MODELS)
    if not os.path.lexists(path):
        return None
    try:
        data = places.read(path)
        if data is None:
            return None
        table = _read(path, data)
        problem = problem_of(table.models)
        table = table._replace(fetched=date.fromisoformat(table.fetched).isoformat())
    except (AdderClawError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return Table(path, {}, "", {}, f"it cannot be read ({str(error)[:200]})")
    if not problem and table.fetched < packaged().fetched:
        problem = "it is older than the table of this version of the program"
    return table._replace(problem=problem)


def in_effect() -> Table:
    """The table that applies: the refreshed one, unless it is older than the program or damaged."""
    home = places.home()
    if home not in _in_effect:
        own = refreshed()
        _in_effect[home] = packaged() if own is None or own.problem else own
    return _in_effect[home]


def write(table: Table) -> None:
    """Store a table atomically. It applies to every process that starts afterwards."""
    places.replace(table.path, text_of(table))
    _in_effect.clear()


def text_of(table: Table) -> str:
    """A table as the text of its file, with one model per line."""
    rows = ",\n".join(f"    {json.dumps(name)}: {json.dumps(table.models[name])}" for name in sorted(table.models))
    head = f'  "source": {json.dumps(table.source)},\n  "fetched": {json.dumps(table.fetched)},\n'
    return f'{{\n{head}  "models": {{\n{rows}\n  }}\n}}\n'


def families() -> dict[str, Json]:
    """Prefix of model names → the facts that all models of the family share."""
    return _by_hand()["families"]


def corrections() -> dict[str, Json]:
    """Model → facts that replace those of a table."""
    return _by_hand()["corrections"]


def newest(kind: str, alias: str) -> str | None:
    """The model that an alias means at a kind of provider: the one of its family with the highest version."""
    if alias not in ALIASES.get(kind, {}):
        return None
    beginning, separator, *ends = ALIASES[kind][alias]
    shape = re.compile(rf"{beginning}(\d{{1,2}}(?:{re.escape(separator)}\d{{1,2}})?)({'|'.join(ends)})\*?")
    versions: list[tuple[list[int], int, str]] = []
    for pattern in in_effect().models:
        if not pattern.endswith(DATED) and (fits := shape.fullmatch(pattern)) is not None:
            version = [int(number) for number in fits[1].split(separator)]
            versions.append((version, -ends.index(fits[2]), pattern.removesuffix("*")))
    return max(versions)[2] if versions else None


# ------------------------------------------------------------------ reading and checking


def _whole(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _read(path: str, data: bytes) -> Table:
    raw = json.loads(data)
    return Table(path, dict(raw["source"]), str(raw["fetched"]), dict(raw["models"]))


def _by_hand() -> Json:
    if not _families:
        _families.append(json.loads(_whole(os.path.join(os.path.dirname(__file__), "model_families.json"))))
    return _families[0]


def facts_of_today(row: Json) -> Json:
    """The facts of a row with today's prices, under the field names of `ModelFacts`."""
    priced = row
    if "from" in row:
        today = time.strftime("%Y-%m-%d")
        priced = next((row["from"][day] for day in sorted(row["from"], reverse=True) if day <= today), row)
    known = {name: priced[name] for name in PRICES if name in priced}
    if above := priced.get("above"):
        known["long_tokens"] = above["tokens"]
        known |= {f"long_{name}": above[name] for name in PRICES if name in above}
    if "context_tokens" in row:
        known["context_tokens"] = row["context_tokens"]
    return known


def problem_of(models: Json) -> str:
    """What is wrong with the rows of a downloaded table; empty if they are valid."""
    if not 0 < len(models) <= MOST_ROWS:
        return f"it has {len(models)} models, not 1 to {MOST_ROWS}"
    for name, row in models.items():
        if PATTERN.fullmatch(name) is None:
            return f"{name[:100]!r} cannot be the name of a model"
        if problem := _problem_of_row(row):
            return f"{name}: {problem}"
    return ""


def _problem_of_row(row: object) -> str:
    if not isinstance(row, dict):
        return "it is not an object"
    prices = dict(cast(Json, row))
    window, later = prices.pop("context_tokens", WINDOWS[0]), prices.pop("from", {})
    if type(window) is not int or not WINDOWS[0] <= window <= WINDOWS[1]:
        return f"a window of {str(window)[:20]} tokens cannot be"
    if not isinstance(later, dict):
        return "`from` is not an object"
    days = cast(Json, later)
    if not all(DAY.fullmatch(day) for day in days):
        return "`from` has a key that is not a date"
    problems = (_problem_of_prices(listing, ("above",)) for listing in (prices, *days.values()))
    return next(filter(None, problems), "")


def _problem_of_prices(prices: object, further: tuple[str, ...]) -> str:
    if not isinstance(prices, dict):
        return "it is not an object"
    for key, value in cast(Json, prices).items():
        if key == "above" and key in further:
            if problem := _problem_of_prices(value, ("tokens",)):
                return problem
        elif key == "tokens" and key in further:
            if type(value) is not int or not 0 < value <= WINDOWS[1]:
                return f"`tokens` is {str(value)[:20]}"
        elif key not in PRICES:
            return f"{key[:40]!r} is not a known key"
        elif type(value) not in (int, float) or not 0 < value <= HIGHEST_PRICE:
            return f"{key} is {str(value)[:20]}; a price is more than 0 and at most {HIGHEST_PRICE}"
    missing = "tokens" in further and "tokens" not in prices
    return "`above` has no `tokens`" if missing else ""
