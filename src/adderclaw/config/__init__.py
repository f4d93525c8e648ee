"""The effective settings: one schema, three syntaxes, layers with the origin of every value."""

from adderclaw.config import cache, places
from adderclaw.config.loaded import Loaded
from adderclaw.config.places import home
from adderclaw.config.schema import Config
from adderclaw.core.decode import thaw
from adderclaw.core.errors import ConfigError, Problem, UsageError
from adderclaw.core.json_text import to_json
from adderclaw.core.types import Json

__all__ = ["Config", "Loaded", "expand", "home", "load", "snapshot", "with_snapshot"]


def load(
    *,
    config_file: str | None = None,
    workspace: str | None = None,
    cwd: str | None = None,
    overrides: Json | None = None,
    beside: str | None = None,
    here: bool = False,
    looks: bool = False,
) -> Loaded:
    """The effective configuration; raises ConfigError with every problem. `beside` is the folder of an Agentfile.

    Without a project, the workspace is `workspace_dir`, or with `here` the current directory. With `looks` the home
    directory and `/` are never used as the workspace.
    """
    request = places.request(config_file, workspace, cwd, overrides, beside, here=here, looks=looks)
    # Users can write the cache, so it is not used if an administrator bounds the settings.
    bounded = places.is_managed()
    cached = None if bounded else _restored(cache.load_cached(request))
    if cached is not None:
        return cached
    from adderclaw.config import layers

    loaded, looked_at, variables, project, named = layers.compose(request)
    as_json = loaded._asdict() | {"config": to_json(loaded.config)}
    if not bounded:
        cache.keep(request, as_json, looked_at, variables, [loaded.workspace], (project, list(named)))
    return loaded


def _restored(cached: Json | None) -> Loaded | None:
    try:
        if cached is not None:
            listed = ("files", "warnings", "policies", "held_hooks", "started", "notes")
            values: Json = cached | {name: tuple(cached[name]) for name in listed}
            values["config"] = thaw(Config, cached["config"])
            return Loaded(**values)
    except (KeyError, TypeError, AttributeError):
        pass  # damaged: read all files again
    return None


KEY_AS_MODEL = (
    "the name of the model looks like a key or token. Give the model's name;"
    " the key is read from the variable that api_key_env names"
)


def expand(path: str) -> str:
    """The absolute path with `~` and environment variables expanded."""
    import os

    try:
        return places.expand_path(path, os.getcwd())
    except places.Unexpandable as error:
        raise ConfigError([Problem(path, "", str(error))]) from None


def snapshot(loaded: Loaded) -> Json:
    """The settings that are stored as a row: permissions, hooks and model, without secrets."""
    from adderclaw.core.redaction import looks_secret

    now = loaded.config
    model = now.providers.models[now.default_provider].model or now.default_model
    if looks_secret(model):
        raise UsageError(KEY_AS_MODEL)
    return {
        "permissions": to_json(now.permissions),
        "hooks": now.hooks,
        "model_config": {"provider": now.default_provider, "model_id": model},
    }


def with_snapshot(loaded: Loaded, row: Json) -> Loaded:
    """The settings with the operator's own row in place of permissions, hooks and model; raises ConfigError."""
    from adderclaw.config import settings_row

    now, origins = settings_row.with_row(loaded, row)
    origins |= {f"hooks[{index}]": settings_row.ROW for index in range(len(now.hooks))}
    warnings = (*loaded.warnings, settings_row.IN_FORCE)
    return loaded._replace(config=now, origins=origins, held_hooks=(), warnings=warnings)
