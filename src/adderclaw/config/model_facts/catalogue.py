"""Facts about each model (context window, prices, accepted input), from the table of models and `[models]`."""

import os
import re
from contextlib import suppress
from dataclasses import fields
from operator import mul
from typing import Any

from adderclaw.config.model_facts import table as model_table
from adderclaw.config.schema import Config, ModelEntry, ProviderEntry
from adderclaw.core.provider_kinds import BY_NAME, RELIABLE, ROUTER
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json, Usage


class ModelFacts(NamedTuple):
    """The facts about a model; None if unknown. Prices are US dollars per million tokens."""

    context_tokens: int | None = None
    max_output_tokens: int | None = None
    input_per_mtok: float | None = None
    output_per_mtok: float | None = None
    cache_read_per_mtok: float | None = None
    cache_write_per_mtok: float | None = None
    vision: bool = False
    pdf: bool = False
    thinking: bool = False
    assumed: bool = False
    """The table does not list the model, so everything but the prices comes from its family."""
    long_tokens: int | None = None
    """A request with more input tokens than this is billed at the `long_` prices."""
    long_input_per_mtok: float | None = None
    long_output_per_mtok: float | None = None
    long_cache_read_per_mtok: float | None = None
    long_cache_write_per_mtok: float | None = None

    @property
    def priced(self) -> bool:
        return self.input_per_mtok is not None and self.output_per_mtok is not None


PRICES = tuple(prefix + name for prefix in ("", "long_") for name in model_table.PRICES)
ENTRY_FIELDS = tuple(field.name for field in fields(ModelEntry))
UNKNOWN = ModelFacts()
FREE = ModelFacts(input_per_mtok=0.0, output_per_mtok=0.0, cache_read_per_mtok=0.0, cache_write_per_mtok=0.0)


def facts(model: str, config: Config) -> ModelFacts:
    """The facts of a model from the current table, overridden by the configuration."""
    return _with(_known(model, model_table.in_effect()), _found(model, config.models))


def facts_of(provider: str, model: str, config: Config) -> ModelFacts:
    """The facts of a model at a provider entry. On this machine it is free, and the entry may set its window."""
    entry = config.providers.models.get(provider)
    known = facts(model, config)
    if entry is None:
        return _no_cheaper(known, model, config)
    if BY_NAME[entry.kind].is_free or _on_loopback(entry):
        known = _with(_unpriced(known)._replace(**_prices(FREE)), _found(model, config.models))
    if config.managed.prices is not None and not _is_here(entry):
        known = _no_cheaper(known, model, config)
    return known._replace(context_tokens=entry.context_tokens) if entry.context_tokens else known


def _no_cheaper(known: ModelFacts, model: str, config: Config) -> ModelFacts:
    """Raise the prices to at least those of the administrator and the packaged table, if the administrator sets any."""
    if config.managed.prices is None:
        return known
    least = _with(_known(model, model_table.packaged()), _found(model, config.managed.prices))
    return _dearer(known, least)


def _is_here(entry: ProviderEntry) -> bool:
    """Whether a free kind's server is on this machine. The address decides, because anyone can declare a free kind."""
    from adderclaw.config import managed

    host = managed.host_of(entry.kind, entry.base_url) if BY_NAME[entry.kind].is_free else "elsewhere"
    return not host or _is_loopback(host)


def _on_loopback(entry: ProviderEntry) -> bool:
    """Whether the entry's address is this machine. Such calls are free unless `[models]` sets a price."""
    if entry.base_url:
        from urllib.parse import urlsplit

        with suppress(ValueError):  # an invalid URL is reported where the entry is used
            return _is_loopback(urlsplit(entry.base_url).hostname or "")
    if not any(name.endswith("_BASE_URL") for name in os.environ):
        return False
    from adderclaw.config import managed

    return _is_loopback(managed.host_of(entry.kind, entry.base_url))


def _is_loopback(host: str) -> bool:
    numeric = re.fullmatch(r"127(\.\d{1,3}){3}", host) is not None  # not 127.example.org
    return numeric or host in ("localhost", "::1") or host.endswith(".localhost")


def _dearer(known: ModelFacts, least: ModelFacts) -> ModelFacts:
    """`known` with each price raised to at least that of `least`."""
    if not known.priced or not least.priced:
        return known if known.priced or not least.priced else known._replace(**_prices(least))
    pairs = zip(_effective(known), _effective(least), strict=True)
    steps = [facts.long_tokens for facts in (known, least) if facts.long_tokens is not None]
    dearest = dict(zip(PRICES, map(max, pairs), strict=True))
    return known._replace(**dearest, long_tokens=min(steps, default=None))


def _effective(known: ModelFacts) -> list[float]:
    """The prices in order. A missing cache price is the input price, and a missing long price is the short one."""
    reads, answers = known.input_per_mtok or 0.0, known.output_per_mtok or 0.0
    read, write = known.cache_read_per_mtok, known.cache_write_per_mtok
    long_reads = _first(known.long_input_per_mtok, reads)
    return [
        *(reads, answers, _first(read, reads), _first(write, reads)),
        *(long_reads, _first(known.long_output_per_mtok, answers)),
        *(
            _first(known.long_cache_read_per_mtok, read, long_reads),
            _first(known.long_cache_write_per_mtok, write, long_reads),
        ),
    ]


def _first(*values: float | None) -> float:
    return next(value for value in values if value is not None)


def cost(usage: Usage, known: ModelFacts) -> float | None:
    """The cost of a call in US dollars; None if the price is unknown."""
    if not known.priced:
        return None
    read_in = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    first = 4 if known.long_tokens is not None and read_in > known.long_tokens else 0
    kinds = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    return sum(map(mul, kinds, _effective(known)[first : first + 4])) / 1_000_000


class Served(NamedTuple):
    """The provider entry and the model that answer a request."""

    provider: str
    model: str


def without_alias(model: str, kind: str) -> str:
    """The model that an alias such as `sonnet` means at a kind of provider; any other name is returned unchanged."""
    return (model_table.newest(kind, model) or model) if model in model_table.ALIAS_NAMES else model


def model_of(provider: str, config: Config) -> str:
    """The model that an entry uses unless a run names another."""
    entry = config.providers.models.get(provider)
    model = (entry.model if entry else None) or config.default_model
    return without_alias(model, entry.kind) if entry else model


def own_model(provider: str, config: Config) -> str | None:
    """The model that an entry sets; None if it uses the requested one."""
    entry = config.providers.models.get(provider)
    return model_of(provider, config) if entry is not None and entry.model else None


def first_answering(provider: str, model: str, config: Config) -> Served:
    """Who answers a request if nothing fails: the first member of `reliable`, the default member of `router`."""
    seen: set[str] = set()
    while (entry := config.providers.models.get(provider)) is not None and provider not in seen:
        seen.add(provider)
        inner = _inner(entry)
        if inner is None:
            break
        provider = inner
        model = own_model(inner, config) or model
    return Served(provider, model)


def all_of(provider: str, model: str, config: Config) -> list[Served]:
    """Everyone who may answer a request: all members of `reliable` and `router`, otherwise the entry itself."""
    answering: list[Served] = []
    seen: set[str] = set()
    waiting = [Served(provider, model)]
    while waiting:
        served = waiting.pop(0)
        entry = config.providers.models.get(served.provider)
        members = [] if entry is None else _members(entry)
        if not members:
            answering.append(served)
        elif served.provider not in seen:
            seen.add(served.provider)
            waiting += [Served(name, own_model(name, config) or served.model) for name in members]
    return answering


def _members(entry: ProviderEntry) -> list[str]:
    if entry.kind == RELIABLE:
        return list(entry.providers)
    if entry.kind == ROUTER:
        return list(dict.fromkeys(name for name in (_inner(entry), *entry.routes.values()) if name))
    return []


def _inner(entry: ProviderEntry) -> str | None:
    if entry.kind not in (RELIABLE, ROUTER):
        return None
    return entry.default or next(iter(entry.providers), None)


class Quote(NamedTuple):
    """The model and the prices that a call is expected to be billed at."""

    model: str
    facts: ModelFacts
    max_tokens: int | None
    """The entry's limit on the tokens of an answer."""
    unpriced_fallbacks: tuple[str, ...] = ()
    """Models without a price that may answer instead of the first, as a fallback or by routing."""

    @property
    def unpriced(self) -> str:
        """The first model without a price among all that may answer; empty if all have one."""
        return next(iter(self.unpriced_fallbacks), "") if self.facts.priced else self.model


class Prices:
    """The prices of calls under a configuration, looked up once per entry and model."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._quotes: dict[Served, Quote] = {}

    def before(self, provider: str, model: str) -> Quote:
        """The quote for a call that is about to be made."""
        asked = Served(provider, model)
        if asked not in self._quotes:
            self._quotes[asked] = self._quote_asked(asked)
        return self._quotes[asked]

    def after(self, asked: Served, answered: Served) -> Quote:
        """The quote for a call by the provider and the model that answered it, as the response states them."""
        provider = answered.provider or asked.provider
        model = asked.model if provider == asked.provider else own_model(provider, self._config) or asked.model
        quote = self.before(provider, model)
        if self._config.managed.prices is not None and answered.model:
            return quote._replace(facts=_dearer(quote.facts, self.before(provider, answered.model).facts))
        return quote if quote.facts.priced or not answered.model else self._better(quote, provider, answered.model)

    def _better(self, quote: Quote, provider: str, model: str) -> Quote:
        """The quote for the model that the server names, if that one has a price."""
        other = self.before(provider, model)
        return other if other.facts.priced else quote

    def _quote(self, served: Served) -> Quote:
        entry = self._config.providers.models.get(served.provider)
        known = facts_of(served.provider, served.model, self._config)
        return Quote(served.model, known, entry.max_tokens if entry else None)

    def _quote_asked(self, asked: Served) -> Quote:
        quote = self._quote(first_answering(*asked, self._config))
        others = all_of(*asked, self._config)
        unpriced = [served.model for served in others if not facts_of(*served, self._config).priced]
        return quote._replace(unpriced_fallbacks=tuple(dict.fromkeys(unpriced)))


# ------------------------------------------------------------------ lookup


def row_of(model: str, table: dict[str, Json]) -> Json | None:
    """The row of a table that matches a model; None if there is none."""
    return _found(model, table)


def _known(model: str, table: model_table.Table) -> ModelFacts:
    """The facts of a model from a table, completed with those of its family."""
    family = _found(model, model_table.families()) or {}
    if model_table.NO_TEXT.search(model):
        family = {**family, "thinking": False}
    row = _found(model, table.models)
    if row is None:
        return ModelFacts(**family, assumed="context_tokens" in family)
    return ModelFacts(**family | model_table.facts_of_today(row) | (_found(model, model_table.corrections()) or {}))


def _found[T](model: str, table: "dict[str, T]") -> T | None:
    """The entry with the longest matching pattern. `vendor/model`, the form that routers use, also matches `model`."""
    for name in dict.fromkeys((model, model.lower(), model.lower().rpartition("/")[2])):
        if name in table:
            return table[name]
        fitting = [key for key in table if key.endswith("*") and name.startswith(key[:-1])]
        if fitting:
            return table[max(fitting, key=len)]
    return None


def _with(known: ModelFacts, over: "ModelEntry | None") -> ModelFacts:
    if over is None:
        return known
    own: dict[str, Any] = {name: value for name in ENTRY_FIELDS if (value := getattr(over, name)) is not None}
    if "input_per_mtok" in own:
        # cache prices from another price list would not fit
        known = _unpriced(known)._replace(output_per_mtok=known.output_per_mtok)
    return known._replace(**own)


def _unpriced(known: ModelFacts) -> ModelFacts:
    return known._replace(**_prices(UNKNOWN))


def _prices(of: ModelFacts) -> dict[str, Any]:
    return {name: getattr(of, name) for name in (*PRICES, "long_tokens")}


# ------------------------------------------------------------------ guesses from the name

_PLAIN = re.compile(r"(?:gpt-[34]|chatgpt|gpt-5-chat|davinci|babbage)")
_THINKING = re.compile(r"o\d|gpt-[5-9]|gpt-\d\d|codex|computer-use")


def thinks(model: str) -> bool:
    """Whether an OpenAI model certainly reasons, by its name. The API rejects reasoning settings for other models."""
    return bool(_THINKING.match(bare(model))) and not never_thinks(model)


def never_thinks(model: str) -> bool:
    """Whether an OpenAI model certainly does not reason. The API then rejects reasoning of another model as input."""
    return bool(_PLAIN.match(bare(model)))


def bare(model: str) -> str:
    return model.rpartition("/")[2].removeprefix("ft:")
