"""What is known of each model: its window, its prices, what it takes; from a packaged file and `[models]`."""

import json
import os
import re
from typing import Any

from adderclaw.config.schema import Config, ModelEntry, ProviderEntry
from adderclaw.record import NamedTuple
from adderclaw.types import Json, Usage

OWN_HARDWARE = frozenset({"mock", "ollama", "lm-studio"})
"""Kinds whose calls nobody bills, whatever their models are called."""


class ModelFacts(NamedTuple):
    """None where it is not known. Prices are US dollars per million tokens."""

    context_tokens: int | None = None
    max_output_tokens: int | None = None
    input_per_mtok: float | None = None
    output_per_mtok: float | None = None
    cache_read_per_mtok: float | None = None
    cache_write_per_mtok: float | None = None
    vision: bool = False
    pdf: bool = False
    thinking: bool = False

    @property
    def priced(self) -> bool:
        return self.input_per_mtok is not None and self.output_per_mtok is not None


UNKNOWN = ModelFacts()
FREE = ModelFacts(input_per_mtok=0.0, output_per_mtok=0.0, cache_read_per_mtok=0.0, cache_write_per_mtok=0.0)


def facts(model: str, config: Config) -> ModelFacts:
    """The packaged facts of a model, and over them what the configuration says of it."""
    return _with(_found(model, _packaged()), _found(model, config.models))


def facts_of(provider: str, model: str, config: Config) -> ModelFacts:
    """The facts of a model as one entry serves it: on one's own hardware it is free, and the entry knows its window."""
    entry = config.providers.models.get(provider)
    known = facts(model, config)
    if entry is None:
        return _no_cheaper(known, model, config)
    if entry.kind in OWN_HARDWARE:
        known = _with(_unpriced(known)._replace(**_prices(FREE)), _found(model, config.models))
    if config.managed.prices is not None and not _is_here(entry):
        known = _no_cheaper(known, model, config)
    return known._replace(context_tokens=entry.context_tokens) if entry.context_tokens else known


def _no_cheaper(known: ModelFacts, model: str, config: Config) -> ModelFacts:
    """Where an administrator limits money, nobody makes a model cheaper than he or the packaged list says."""
    if config.managed.prices is None:
        return known
    return _dearer(known, _with(_found(model, _packaged()), _found(model, config.managed.prices)))


def _is_here(entry: ProviderEntry) -> bool:
    """Whether it is asked on this machine: what an entry calls itself is up to whoever wrote it."""
    from adderclaw.config import managed

    host = managed.host_of(entry.kind, entry.base_url) if entry.kind in OWN_HARDWARE else "elsewhere"
    return host in ("", "localhost", "::1") or re.fullmatch(r"127(\.\d{1,3}){3}", host) is not None


def _dearer(one: ModelFacts, other: ModelFacts) -> ModelFacts:
    """The first, each of its prices no lower than the other's."""
    if not one.priced or not other.priced:
        return one if one.priced or not other.priced else one._replace(**_prices(other))
    pairs = zip(_effective(one), _effective(other), strict=True)
    return one._replace(**dict(zip(_prices(one), map(max, pairs), strict=True)))


def _effective(known: ModelFacts) -> list[float]:
    """Its prices in their order; a cache without one costs as input does."""
    return [value if value is not None else known.input_per_mtok or 0.0 for value in _prices(known).values()]


def cost(usage: Usage, known: ModelFacts) -> float | None:
    """US dollars of a call, or None without a price. A cache without a price of its own costs as input does."""
    if known.input_per_mtok is None or known.output_per_mtok is None:
        return None
    read = known.input_per_mtok if known.cache_read_per_mtok is None else known.cache_read_per_mtok
    write = known.input_per_mtok if known.cache_write_per_mtok is None else known.cache_write_per_mtok
    return (
        usage.input_tokens * known.input_per_mtok
        + usage.output_tokens * known.output_per_mtok
        + usage.cache_read_tokens * read
        + usage.cache_write_tokens * write
    ) / 1_000_000


class Served(NamedTuple):
    """Who would answer, and with which model."""

    provider: str
    model: str


def first_of(provider: str, model: str, config: Config) -> Served:
    """Who answers a request to an entry when all is well: of `reliable` its first, of `router` its default."""
    seen: set[str] = set()
    while (entry := config.providers.models.get(provider)) is not None and provider not in seen:
        seen.add(provider)
        inner = _inner(entry)
        if inner is None:
            break
        provider = inner
        own = config.providers.models.get(inner)
        model = (own.model if own else None) or model
    return Served(provider, model)


def _inner(entry: ProviderEntry) -> str | None:
    if entry.kind not in ("reliable", "router"):
        return None
    return entry.default or next(iter(entry.providers), None)


class Quote(NamedTuple):
    """What a call is expected to be billed by."""

    model: str
    facts: ModelFacts
    max_tokens: int | None
    """Longest answer that the entry asks for."""


class Prices:
    """What calls cost by this configuration, looked up once for each entry and model."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._quotes: dict[Served, Quote] = {}

    def before(self, provider: str, model: str) -> Quote:
        """Of a call that is about to be made."""
        asked = Served(provider, model)
        if asked not in self._quotes:
            self._quotes[asked] = self._quote(first_of(provider, model, self._config))
        return self._quotes[asked]

    def after(self, asked: Served, answered: Served) -> Quote:
        """Of a call that was answered, by whom and by which model the provider says."""
        provider = answered.provider or asked.provider
        own = self._config.providers.models.get(provider)
        model = asked.model if provider == asked.provider or own is None else own.model or asked.model
        quote = self.before(provider, model)
        if self._config.managed.prices is not None and answered.model:
            return quote._replace(facts=_dearer(quote.facts, self.before(provider, answered.model).facts))
        return quote if quote.facts.priced or not answered.model else self._better(quote, provider, answered.model)

    def _better(self, quote: Quote, provider: str, model: str) -> Quote:
        """The server's own name of the model may be one with a price."""
        other = self.before(provider, model)
        return other if other.facts.priced else quote

    def _quote(self, served: Served) -> Quote:
        entry = self._config.providers.models.get(served.provider)
        known = facts_of(served.provider, served.model, self._config)
        return Quote(served.model, known, entry.max_tokens if entry else None)


# ------------------------------------------------------------------ finding


_files: dict[str, dict[str, Json]] = {}


def _packaged() -> dict[str, Json]:
    if not _files:
        with open(os.path.join(os.path.dirname(__file__), "models.json"), encoding="utf-8") as file:
            _files["models"] = json.load(file)["models"]
    return _files["models"]


def newest(beginning: str) -> str | None:
    """The model of the packaged list with the highest version behind this beginning (`claude-opus-` → its last)."""
    found: list[tuple[tuple[int, ...], str]] = []
    for pattern in _packaged():
        name = pattern.removesuffix("*")
        parts = name.removeprefix(beginning).split("-")
        if name.startswith(beginning) and len(parts) == 2 and all(part.isdigit() and len(part) < 3 for part in parts):
            found.append((tuple(map(int, parts)), name))
    return max(found)[1] if found else None


def _found[T](model: str, table: "dict[str, T]") -> T | None:
    """The entry of the longest pattern; `vendor/model`, as routers of models spell it, counts as the model too."""
    for name in dict.fromkeys((model, model.lower(), model.lower().rpartition("/")[2])):
        if name in table:
            return table[name]
        fitting = [key for key in table if key.endswith("*") and name.startswith(key[:-1])]
        if fitting:
            return table[max(fitting, key=len)]
    return None


def _with(known: "ModelFacts | Json | None", over: "ModelEntry | None") -> ModelFacts:
    base = known if isinstance(known, ModelFacts) else ModelFacts(**(known or {}))
    if over is None:
        return base
    said: dict[str, Any] = {name: value for name in ModelFacts._fields if (value := getattr(over, name)) is not None}
    if "input_per_mtok" in said:
        # a cache price of another price list would not fit
        base = base._replace(cache_read_per_mtok=None, cache_write_per_mtok=None)
    return base._replace(**said)


def _unpriced(known: ModelFacts) -> ModelFacts:
    return known._replace(**_prices(UNKNOWN))


def _prices(of: ModelFacts) -> dict[str, Any]:
    return {name: getattr(of, name) for name in ModelFacts._fields if name.endswith("_per_mtok")}
