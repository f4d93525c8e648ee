"""The effective settings: one schema, three syntaxes, layers with the origin of every value."""

from adderclaw.config import cache, places
from adderclaw.config.places import home
from adderclaw.config.schema.settings import Config
from adderclaw.core.decode import freeze, thaw
from adderclaw.core.errors import ConfigError, Problem, UsageError
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json

__all__ = ["Config", "Loaded", "expand", "home", "load", "snapshot", "with_snapshot"]


class Loaded(NamedTuple):
    config: Config
    workspace: str
    workspace_reason: str
    files: tuple[str, ...]
    """The files that were read, lowest layer first."""
    origins: dict[str, str]
    """Key → the file, flag or variable that its value is from, or "default"."""
    warnings: tuple[str, ...]
    trusted: bool
    """Whether the project's own files count in full; a project without any has nothing to trust."""
    policies: tuple[Json, ...] = ()
    """Every policy.toml that was found, for `policy.policy_file` to compile."""
    held_hooks: tuple[Json, ...] = ()
    """Hooks of a project that is not trusted: they do not run. Each has its `source`."""
    started: tuple[str, ...] = ()
    """Files of a trusted project that its hooks, MCP servers and helpers start: only the operator changes them."""
    notes: tuple[str, ...] = ()
    """Those of the warnings that need to be read once only."""
    managed: Json = {}  # noqa: RUF012 - never changed
    """What the administrator of this machine says, which bounds all of it."""


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

    Where no project is found, the workspace is `workspace_dir`; with `here` it is the current directory; with `looks`,
    too, the home and `/` are not that.
    """
    request = places.request(config_file, workspace, cwd, overrides, beside, here=here, looks=looks)
    # What is kept lies where the user can write: where an administrator bounds the settings, they are read anew.
    bounded = places.is_managed()
    cached = None if bounded else _restored(cache.recall(request))
    if cached is not None:
        return cached
    from adderclaw.config import layers

    loaded, looked_at, variables, project, named = layers.compose(request)
    as_json = loaded._asdict() | {"config": freeze(loaded.config)}
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
        pass  # damaged: read everything anew
    return None


KEY_AS_MODEL = (
    "the name of the model looks like a key or token, and those are kept nowhere: give the model's name;"
    " the key comes from the variable that api_key_env names"
)


def expand(path: str) -> str:
    """A path with `~` and environment variables filled in, absolute."""
    import os

    try:
        return places.expand_path(path, os.getcwd())
    except places.Unexpandable as error:
        raise ConfigError([Problem(path, "", str(error))]) from None


def snapshot(loaded: Loaded) -> Json:
    """What is kept of the settings as a row: permissions, hooks and model, and no secret."""
    from adderclaw.core.redaction import looks_secret

    now = loaded.config
    model = now.providers.models[now.default_provider].model or now.default_model
    if looks_secret(model):
        raise UsageError(KEY_AS_MODEL)
    return {
        "permissions": freeze(now.permissions),
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
