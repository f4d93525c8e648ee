"""Merges the operator's own row of settings over the configuration from the files."""

from typing import Any

from adderclaw.config import checks, managed, places
from adderclaw.config.foreign import dialects
from adderclaw.config.layers import Composition
from adderclaw.config.loaded import Loaded
from adderclaw.config.permission_mode import AUTONOMY, BY_MODE, MODE, without_bypass
from adderclaw.config.schema import MODE_AUTONOMY, Config
from adderclaw.core.decode import decode
from adderclaw.core.json_text import to_json
from adderclaw.core.types import Json

ROW = "settings_snapshot 'effective'"


IN_FORCE = "the operator's own settings_snapshot row 'effective' is used; `adderclaw config reload` drops it"


def with_row(loaded: Loaded, row: Json) -> tuple[Config, dict[str, str]]:
    """The configuration with the permissions, hooks and model of the row, and the origin of each value.

    A mode that was set by a flag overrides that of the row.
    """
    config = loaded.config
    tree: Json = to_json(config)
    tree["permissions"], tree["hooks"] = to_json(Config().permissions), []
    whole, row = row, dict(row)
    chosen = _own_model(config, row.get("model_config"))
    if chosen:
        del row["model_config"]
        provider, model = chosen
        tree["default_provider"] = provider
        tree["providers"]["models"][provider]["model"] = model
    composition = Composition(places.request(None, None, "/", None))
    composition.tree = tree
    if chosen:
        composition.origins |= dict.fromkeys(("default_provider", f"providers.models.{chosen[0]}.model"), ROW)
    mapped = dialects.map_file(ROW, row, settings_only=True)
    composition.lay(composition.checked(mapped, whole, "user", places.home()))
    if loaded.origins.get(MODE) == places.FLAGS:
        tree["permissions"]["defaultMode"] = config.permissions.defaultMode
        composition.origins[MODE] = places.FLAGS
    if loaded.origins.get(AUTONOMY, "").startswith(BY_MODE):  # derived from the mode that the row replaces
        tree["security"]["autonomy"] = MODE_AUTONOMY[tree["permissions"]["defaultMode"] or "default"]
        composition.origins[AUTONOMY] = f"{BY_MODE}{ROW}"
    without_bypass(tree, composition.origins)
    composition.endpoints()
    managed.bind(tree, composition.origins, loaded.managed)
    composition.problems += managed.remove_disallowed_providers(tree, composition.origins)
    composition.problems += checks.whole(tree, {})
    composition.raise_problems()
    replaced = {key for key, origin in composition.origins.items() if origin != "default"}
    replaced |= {key for key in composition.origins if key.startswith("permissions.")}
    origins = {key: origin for key, origin in loaded.origins.items() if not key.startswith("hooks[")}
    return decode(Config, tree), {**origins, **{key: composition.origins[key] for key in replaced}}


def _own_model(config: Config, chosen: Any) -> tuple[str, str] | None:
    """The entry and model of a row that names a configured entry instead of a provider of the closed set."""
    match chosen:
        case {"provider": str(provider), "model_id": str(model), **rest} if not rest:
            entry = config.providers.models.get(provider)
            closed = dialects.MODEL_CONFIG.get(provider)
            if entry and (closed is None or (model not in closed.models and model == entry.model)):
                return provider, model
        case _:
            pass
    return None
