"""Which model is used where the configuration chooses none; `local` without a script is no choice."""

import os
from collections.abc import Callable
from typing import Any

from adderclaw.config.schema import Config
from adderclaw.credentials.sources import KEY_VARIABLES
from adderclaw.errors import UsageError
from adderclaw.record import NamedTuple
from adderclaw.types import Json

MODELS = {
    "mock": "mock",
    "anthropic": "claude-sonnet-4-5",
    "openai": "gpt-4o",
    "gemini": "gemini-2.5-flash",
    "openrouter": "openrouter/auto",
    "openai-compatible": "local-model",
    "lm-studio": "local-model",
}
"""Kind → the model that is suggested."""
NO_MODEL = (
    "no model is chosen: the built-in `local` provider only plays scripts. `adderclaw onboard` sets one up; or export"
    f" the key of one ({', '.join(KEY_VARIABLES.values())}), or name an entry of [providers.models] with --provider"
)


class Found(NamedTuple):
    """A key in the environment, and what it would be used for."""

    variable: str
    kind: str

    @property
    def model(self) -> str:
        return MODELS[self.kind]

    def __str__(self) -> str:
        return f"{self.variable} ({self.kind}, {self.model})"


type Chooser = Callable[[list[Found]], Found | None]
"""How a person is asked which of several keys to use."""


def in_environment() -> list[Found]:
    """The keys that are there, by the variables that their providers publish."""
    return [Found(name, kind) for kind, name in KEY_VARIABLES.items() if os.environ.get(name, "").strip()]


def with_key(tree: Json, found: Found, now: Config) -> Json:
    """Overrides in which the found key's provider is the default; an entry of the operator's stays as it is."""
    named = next((name for name, entry in now.providers.models.items() if entry.kind == found.kind), None)
    if named is not None:
        return {**tree, "default_provider": named}
    providers: dict[str, Any] = tree.get("providers", {})
    entry = {"kind": found.kind, "model": found.model}
    models = {**providers.get("models", {}), found.kind: entry}
    return {**tree, "default_provider": found.kind, "providers": {**providers, "models": models}}


def the_only(found: list[Found]) -> Found | None:
    """The one key that is there; with several somebody must choose."""
    if len(found) > 1:
        several = ", ".join(map(str, found))
        raise UsageError(
            f"no model is chosen, and the environment holds several keys: {several}. "
            "`adderclaw onboard` chooses one; `--provider` names an entry of [providers.models]"
        )
    return found[0] if found else None
