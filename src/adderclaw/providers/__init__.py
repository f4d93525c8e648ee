"""The providers by kind, and how one is made from its entry in the configuration."""

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any, Never, cast

from adderclaw.config.schema import Config, ProviderEntry
from adderclaw.credentials.redaction import Secrets
from adderclaw.credentials.sources import Sources
from adderclaw.errors import ConfigError, Problem
from adderclaw.events import Body
from adderclaw.json_text import no_constant
from adderclaw.record import NamedTuple
from adderclaw.types import Clock, Json, Provider

PROVIDERS: dict[str, str] = {
    "mock": "adderclaw.providers.mock:make",
    "anthropic": "adderclaw.providers.anthropic:make",
    "openai": "adderclaw.providers.responses:make",
    "openai-compatible": "adderclaw.providers.openai:make",
    "openrouter": "adderclaw.providers.openai:make",
    "ollama": "adderclaw.providers.openai:make",
    "lm-studio": "adderclaw.providers.openai:make",
    "gemini": "adderclaw.providers.gemini:make",
    "reliable": "adderclaw.providers.combine:reliable",
    "router": "adderclaw.providers.combine:router",
}
"""Kind → "module:function"; the module is imported when a provider of that kind is made."""

FROM_ENVIRONMENT = ("openai_compatible", "lm_studio_local")
"""Entries of seed 003 that need more of the environment than a key."""


class Parts(NamedTuple):
    """What a provider is made of."""

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
        add = f"; `adderclaw onboard --provider {name}` adds it" if PROVIDERS.get(name, "").endswith(":make") else ""
        misconfigured(name, "", f"no provider has the name {name!r}; known: {known}{add}")
    if name in seen:
        misconfigured(name, "providers", f"contains itself: {' → '.join((*seen, name))}; remove one of the names")
    place = PROVIDERS.get(entry.kind)
    if place is None:
        misconfigured(name, "kind", f"kind {entry.kind!r} is not available yet; available: {', '.join(PROVIDERS)}")
    module, _, function = place.partition(":")
    maker = cast(Callable[[Parts], Provider], getattr(import_module(module), function))
    sources = credentials or Sources(secrets, clock)
    parts = Parts(name, entry, config, secrets, tell, clock, sources, (*seen, name))
    if name in FROM_ENVIRONMENT:
        from adderclaw.providers.unavailable import complete

        return complete(parts, maker)
    return maker(parts)


def model_of(name: str, config: Config) -> str:
    """The model that a provider uses when nobody asks for another."""
    entry = config.providers.models.get(name)
    return (entry.model if entry else None) or config.default_model


class Choice(NamedTuple):
    provider: str
    model: str


def choice(text: str, config: Config, current: str) -> Choice:
    """What a person means by a model's name: an entry, `entry/model`, or another model of the current entry."""
    entry, _, model = text.partition("/")
    if text in config.providers.models:
        return Choice(text, model_of(text, config))
    if model and entry in config.providers.models:
        return Choice(entry, model)
    return Choice(current, text)


ALIASES = frozenset({"inherit", "sonnet", "opus", "haiku", "fable"})
"""Names of models in files of the reference product: no model of ours, unless an entry is called so."""


def wanted(name: str, config: Config, otherwise: Choice) -> Choice:
    """The model that a file of the operator names, if it names one of theirs."""
    if not name or (name in ALIASES and name not in config.providers.models):
        return otherwise
    return choice(name, config, otherwise.provider)


def misconfigured(name: str, key: str, message: str) -> Never:
    path = f"providers.models.{name}.{key}" if key else f"providers.models.{name}"
    raise ConfigError([Problem("configuration", path, message)])


def arguments_of(raw: str) -> Json | None:
    """A model's tool arguments, or None when they are no JSON object that could be stored and sent back."""
    if not raw.strip():
        return {}
    try:
        value: Any = json.loads(raw, parse_constant=no_constant)
        json.dumps(value, ensure_ascii=False).encode()  # half of a surrogate pair fails here
    except (ValueError, RecursionError):
        return None
    return cast(Json, value) if isinstance(value, dict) else None
