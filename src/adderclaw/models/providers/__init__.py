"""Creates providers by kind from their entries in the configuration."""

import json
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any, Never, cast

from adderclaw.config.model_facts.catalogue import model_of, without_alias
from adderclaw.config.schema import Config, ProviderEntry
from adderclaw.core.errors import ConfigError, Problem
from adderclaw.core.events import Body
from adderclaw.core.json_text import reject_constant
from adderclaw.core.provider_kinds import BY_NAME
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import Secrets
from adderclaw.core.types import Clock, Json, Provider
from adderclaw.models.credentials.sources import Sources

FROM_ENVIRONMENT = ("openai_compatible", "lm_studio_local")
"""Entries of `model_config` that need more than a key from the environment."""


class Parts(NamedTuple):
    """The arguments for creating a provider."""

    name: str
    entry: ProviderEntry
    config: Config
    secrets: Secrets
    tell: Callable[[Body], None]
    clock: Clock
    credentials: Sources
    """Asked at each call: `await parts.credentials.get(parts.name, parts.entry, variables)`."""
    seen: tuple[str, ...]
    """Names of the providers around this one: a provider made of providers may not contain itself."""

    def another(self, name: str) -> Provider:
        """A provider inside this one."""
        return make(
            name,
            self.config,
            secrets=self.secrets,
            tell=self.tell,
            clock=self.clock,
            credentials=self.credentials,
            seen=self.seen,
        )


def make(
    name: str,
    config: Config,
    *,
    secrets: Secrets,
    tell: Callable[[Body], None],
    clock: Clock,
    credentials: Sources | None = None,
    seen: tuple[str, ...] = (),
) -> Provider:
    """The provider that the configuration calls `name`. No network I/O happens before its first chat.

    Without `credentials` only environment variables give keys.
    """
    entry = config.providers.models.get(name)
    if entry is None:
        known = ", ".join(sorted(config.providers.models)) or "none"
        can_add = name in BY_NAME and not BY_NAME[name].combines
        add = f"; `adderclaw onboard --provider {name}` adds it" if can_add else ""
        misconfigured(name, "", f"no provider has the name {name!r}; known: {known}{add}")
    if name in seen:
        misconfigured(name, "providers", f"contains itself: {' → '.join((*seen, name))}; remove one of the names")
    module, _, function = BY_NAME[entry.kind].adapter.partition(":")
    maker = cast(Callable[[Parts], Provider], getattr(import_module(f"adderclaw.models.providers.{module}"), function))
    if (model := model_of(name, config)) != (entry.model or config.default_model):
        entry = replace(entry, model=model)
    sources = credentials or Sources(secrets, clock)
    parts = Parts(name, entry, config, secrets, tell, clock, sources, (*seen, name))
    if name in FROM_ENVIRONMENT:
        from adderclaw.models.providers.unavailable import complete

        return complete(parts, maker)
    return maker(parts)


class Choice(NamedTuple):
    provider: str
    model: str


def choice(text: str, config: Config, current: str) -> Choice:
    """Parse a person's choice of model: an entry, `entry/model`, or another model of the current entry."""
    entry, _, model = text.partition("/")
    if text in config.providers.models:
        return Choice(text, model_of(text, config))
    if model and entry in config.providers.models:
        return choice_at(entry, model, config)
    return choice_at(current, text, config)


def choice_at(name: str, model: str, config: Config) -> Choice:
    """A model of one entry; an alias is the newest model that it stands for there."""
    entry = config.providers.models.get(name)
    return Choice(name, without_alias(model, entry.kind) if entry is not None else model)


ALIASES = frozenset({"inherit", "sonnet", "opus", "haiku", "fable"})
"""Model names in files of other programs. If one is neither an entry nor known to the provider, the run's model is
used."""


def wanted(name: str, config: Config, otherwise: Choice) -> Choice:
    """The model that a file of the operator names, if it names one of theirs."""
    if not name:
        return otherwise
    chosen = choice(name, config, otherwise.provider)
    return otherwise if name in ALIASES and chosen == Choice(otherwise.provider, name) else chosen


def misconfigured(name: str, key: str, message: str) -> Never:
    path = f"providers.models.{name}.{key}" if key else f"providers.models.{name}"
    raise ConfigError([Problem("configuration", path, message)])


def arguments_of(raw: str) -> Json | None:
    """A model's tool arguments, or None if they are not a JSON object that can be stored and sent back."""
    if not raw.strip():
        return {}
    try:
        value: Any = json.loads(raw, parse_constant=reject_constant)
        json.dumps(value, ensure_ascii=False).encode()  # rejects half of a surrogate pair
    except (ValueError, RecursionError):
        return None
    return cast(Json, value) if isinstance(value, dict) else None
