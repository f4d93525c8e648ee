"""Chooses a model if the configuration names none. The provider `local` without a script does not count as one."""

import os
from collections.abc import Callable
from typing import Any

from adderclaw.config import places
from adderclaw.config.legacy.options import FIXTURE_VARIABLE
from adderclaw.config.schema import Config
from adderclaw.core import home_names
from adderclaw.core.errors import NoModelChosen
from adderclaw.core.provider_kinds import BY_NAME, KEY_VARIABLES, MOCK
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json

NO_MODEL = (
    "no model is configured: the built-in `local` provider only plays scripts. Run `adderclaw onboard`, or export"
    f" the key of one ({', '.join(KEY_VARIABLES.values())}), or name an entry of [providers.models] with --provider"
)


class Found(NamedTuple):
    """A key in the environment and the provider that it belongs to."""

    variable: str
    kind: str
    chosen: str | None = None
    """The model of the entry that already uses this key."""

    @property
    def model(self) -> str:
        return self.chosen or BY_NAME[self.kind].suggested_model

    def __str__(self) -> str:
        from adderclaw.config.model_facts.catalogue import without_alias

        return f"{self.variable} ({self.kind}, {without_alias(self.model, self.kind)})"


type Chooser = Callable[[list[Found]], Found | None]
"""Asks a person which of several keys to use, and stores the choice in their configuration."""


def in_environment() -> list[Found]:
    """The keys in the environment, under the variables that the providers document."""
    return [Found(name, kind) for kind, name in KEY_VARIABLES.items() if os.environ.get(name, "").strip()]


def undeclined_keys(home: str) -> list[Found]:
    """The keys in the environment that the operator has not declined."""
    try:
        declined = (places.read(os.path.join(home, home_names.KEYS_DECLINED)) or b"").decode(errors="replace").split()
    except OSError:
        declined = []
    return [key for key in in_environment() if key.variable not in declined]


def store_declined(home: str, keys: list[Found]) -> None:
    """Record that the operator declined these keys."""
    places.replace(os.path.join(home, home_names.KEYS_DECLINED), "".join(f"{declined.variable}\n" for declined in keys))


def is_unscripted(now: Config, name: str) -> bool:
    """Whether an entry, or every member of a combined entry, is the built-in provider without a script."""
    entry = now.providers.models.get(name)
    if entry is None:
        return False
    if BY_NAME[entry.kind].combines:
        members = {*entry.providers, *entry.routes.values(), *([entry.default] if entry.default else [])} - {name}
        return bool(members) and all(is_unscripted(now, member) for member in members)
    return entry.kind == MOCK and not entry.fixture and not os.environ.get(FIXTURE_VARIABLE)


def with_key(tree: Json, key: Found, now: Config) -> tuple[Json, str]:
    """Overrides that make the key's provider the default, and a description of the key for the operator.

    An existing entry is used if it uses this key. Otherwise a new entry is added, and the operator's stay unchanged.
    """
    entry = now.providers.models.get(key.kind)
    uses = None if entry is None else entry.api_key_env or KEY_VARIABLES.get(entry.kind)
    if entry is not None and entry.kind == key.kind and uses == key.variable:
        used = str(key._replace(chosen=entry.model))
        return {**tree, "default_provider": key.kind}, used
    name = key.kind if entry is None else f"{key.kind}_key"
    providers: dict[str, Any] = tree.get("providers", {})
    new_entry = {"kind": key.kind, "model": key.model, "api_key_env": key.variable}
    models = {**providers.get("models", {}), name: new_entry}
    return {**tree, "default_provider": name, "providers": {**providers, "models": models}}, str(key)


def only_key(keys: list[Found]) -> Found | None:
    """The only key; None if there is none. Raises NoModelChosen if there are several."""
    if len(keys) > 1:
        several = ", ".join(map(str, keys))
        kinds = " or ".join(f"`--provider {key.kind}`" for key in keys)
        raise NoModelChosen(
            f"no model is configured, and the environment holds several keys: {several}. "
            f"`adderclaw onboard` chooses one for good, {kinds} for this run"
        )
    return keys[0] if keys else None
