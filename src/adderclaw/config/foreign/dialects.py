"""Maps alternative spellings of the configuration to the schema."""

import os
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, Literal, cast

from adderclaw.config.foreign import hooks, settings_keys
from adderclaw.config.schema import Config, ProviderEntry
from adderclaw.core.decode import plain_type, short_json, unknown_key_hint
from adderclaw.core.errors import Problem
from adderclaw.core.provider_kinds import ANTHROPIC, BY_NAME, LM_STUDIO, OPENAI_COMPATIBLE
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json

__all__ = ["KINDS", "MODEL_CONFIG", "RENAMED", "VARIABLES", "Mapped", "map_file"]

type Path = tuple[str, ...]

SETTINGS_KEYS = (
    *("permissions", "hooks", "mcpServers", "model_config", "apiKeyHelper", "env", "statusLine"),
    *("disableAllHooks", "allowManagedHooksOnly"),
)
"""The keys of `.adderclaw/agent.json` and `settings.json` that have an effect; `settings_keys.ELSEWHERE` is ignored."""

KINDS = tuple(BY_NAME)

RENAMED: dict[Path, Path] = {
    ("agent", "id"): ("agent_id",),
    ("agent", "workspace"): ("workspace_dir",),
    ("session", "store"): ("memory", "backend"),
    ("session", "path"): ("memory", "path"),
    ("mcpServers",): ("mcp_servers",),
    ("apiKeyHelper",): ("auth", "api_key_helper"),
    ("model", "max_context_tokens"): ("runtime", "max_context_tokens"),
    ("model", "response_headroom_tokens"): ("runtime", "response_headroom_tokens"),
    ("model", "structured_output_mode"): ("runtime", "structured_output_mode"),
}


class ModelIds(NamedTuple):
    """A provider of `model_config`, its closed set of model ids, and the corresponding provider entry."""

    kind: str
    api_key_env: str
    base_url: str | None
    models: dict[str, str]


MODEL_CONFIG: dict[str, ModelIds] = {
    "claude_code_subscription": ModelIds(
        ANTHROPIC,
        "ANTHROPIC_API_KEY",
        None,
        {
            "claude_opus_4": "claude-opus-4-20250514",
            "claude_sonnet_4": "claude-sonnet-4-20250514",
            "claude_3_5_haiku": "claude-3-5-haiku-20241022",
        },
    ),
    "openai_compatible": ModelIds(
        OPENAI_COMPATIBLE,
        "OPENAI_API_KEY",
        None,
        {"gpt_4o": "gpt-4o", "gpt_4o_mini": "gpt-4o-mini", "o3": "o3", "o3_mini": "o3-mini"},
    ),
    "lm_studio_local": ModelIds(
        LM_STUDIO, "LM_STUDIO_API_KEY", "http://127.0.0.1:1234/v1", {"lm_studio_server_routed": ""}
    ),
}
BASE_URLS = {
    "claude_code_subscription": "ANTHROPIC_BASE_URL",
    "openai_compatible": "OPENAI_BASE_URL",
    "lm_studio_local": "LM_STUDIO_BASE_URL",
}
"""Provider of `model_config` → the environment variable with its endpoint."""


type Scope = Literal["user", "project", "flags", "managed"]


class Layer(NamedTuple):
    """The settings of one file or of the flags, under the keys of the schema."""

    origin: str
    scope: Scope
    data: Json
    written: dict[str, str]


class Mapped:
    """A file's table while it is mapped to the schema."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.data: Json = {}
        self.written: dict[str, str] = {}
        """Key of the schema → the key as written in the file."""
        self.problems: list[Problem] = []
        self.warnings: list[str] = []
        self.notes: list[str] = []
        """Warnings that are shown only once, about settings that only another program uses."""

    def put(self, path: Path, value: Any, written: str) -> None:
        """Set a key. If it is already set under another spelling, the values must be equal."""
        here = self.data
        for part in path[:-1]:
            inner = here.setdefault(part, {})
            if not isinstance(inner, dict):
                return  # the wrong type is reported by validation
            here = cast(Json, inner)
        key = ".".join(path)
        if path[-1] in here and here[path[-1]] != value:
            other = self.written.get(key, key)
            self.refuse(
                written,
                f"{short_json(value)}, but {other!r} says {short_json(here[path[-1]])}; they mean the same, "
                "so remove one of them",
            )
            return
        here[path[-1]] = value
        self.written.setdefault(key, written)

    def get(self, path: Path) -> Any:
        return _at(self.data, path)

    def refuse(self, key: str, message: str) -> None:
        self.problems.append(Problem(self.file, key, message))


def _at(table: Json, path: Path) -> Any:
    here: Any = table
    for part in path:
        if not isinstance(here, dict):
            return None
        here = cast(Json, here).get(part)
    return here


def map_file(file: str, raw: Json, *, settings_only: bool = False) -> Mapped:
    """Map a parsed file to the schema."""
    mapped = Mapped(file)
    rest = dict(raw)
    if settings_only:
        _settings_only(rest, mapped)
    whole = dict(rest)
    sections = {name: rest.pop(name) for name in _SECTIONS if name in rest}
    for name in ("mcpServers", "apiKeyHelper"):
        rest.pop(name, None)
    mapped.data = _without_empty(rest, Config)
    for source, target in RENAMED.items():
        _rename(source, target, whole, mapped)
    for name, value in sections.items():
        if value is not None:
            _SECTIONS[name](value, mapped)
    if "hooks" in mapped.data:
        normal = hooks.normal(mapped.data["hooks"])
        mapped.data["hooks"] = normal.entries
        mapped.problems += [Problem(file, key, message) for key, message in normal.problems]
        mapped.warnings += [f"{file}: {warning}" for warning in normal.warnings]
    return mapped


def _settings_only(rest: Json, mapped: Mapped) -> None:
    elsewhere: list[str] = []
    for key in [key for key in rest if key not in SETTINGS_KEYS]:
        value = rest.pop(key)
        if key == "sandbox":
            _sandbox(value, rest, mapped)
        elif key in settings_keys.ELSEWHERE:
            elsewhere.append(key)
        else:
            mapped.refuse(key, f"unknown key{unknown_key_hint(key, list(SETTINGS_KEYS))}")
    elsewhere += _permission_keys(rest)
    if elsewhere:
        mapped.notes.append(f"{mapped.file}: settings of another program have no effect here: {', '.join(elsewhere)}")
    if "env" in rest:
        from adderclaw.config.variables import split_allowed

        rest["env"], refused = split_allowed(rest["env"])
        if refused:
            reasons = "; ".join(f"{', '.join(names)}: {why}" for why, names in _by_reason(refused).items())
            mapped.notes.append(f"{mapped.file}: of env, these reach no command: {reasons}")


def _by_reason(refused: dict[str, str]) -> dict[str, list[str]]:
    names_by_reason: dict[str, list[str]] = {}
    for name, why in refused.items():
        names_by_reason.setdefault(why, []).append(name[:100] or "env")
    return names_by_reason


def _sandbox(value: Any, rest: Json, mapped: Mapped) -> None:
    """Convert a `sandbox` table to permissions and security settings of the schema."""
    from adderclaw.config.foreign.sandbox_keys import Sandbox

    sandbox = Sandbox(value)
    mapped.problems += [Problem(mapped.file, key, message) for key, message in sandbox.problems]
    mapped.warnings += [f"{mapped.file}: sandbox: {warning}" for warning in sandbox.warnings]
    permissions = rest.get("permissions")
    if sandbox.deny and isinstance(permissions, dict | None):
        table = dict(cast(Json, permissions or {}))
        listed: Any = table.get("deny") or []
        if isinstance(listed, list):  # validation reports any other type
            rest["permissions"] = {**table, "deny": [*cast(list[Any], listed), *sandbox.deny]}
    security: Json = {"allowed_domains": sandbox.domains} if sandbox.domains is not None else {}
    security |= {"sandbox_required": True} if sandbox.required else {}
    if security:
        rest["security"] = security


def _permission_keys(rest: Json) -> list[str]:
    """Remove and return the keys of the permissions that only another program uses."""
    permissions = rest.get("permissions")
    if not isinstance(permissions, dict):
        return []
    table = dict(cast(Json, permissions))
    if table.get("defaultMode") == "manual":
        table["defaultMode"] = "default"
    for key in settings_keys.OUTSIDE:
        if table.get(key) is True:  # workspace_only restricts reads and writes together
            del table[key]
            rest["security"] = {**cast(Json, rest.get("security", {})), "workspace_only": True}
    left_out = [key for key in table if key in settings_keys.PERMISSIONS]
    rest["permissions"] = {key: value for key, value in table.items() if key not in left_out}
    return [f"permissions.{key}" for key in left_out]


def _without_empty(table: Json, kind: Any) -> Json:
    """A copy of the table without empty sections, such as `security:` without a value."""
    sections = {spec.name: plain_type(spec.type) for spec in fields(kind)}
    cleaned: Json = {}
    for key, value in table.items():
        section = sections.get(key)
        if is_dataclass(section):
            if value is None:
                continue
            cleaned[key] = _without_empty(cast(Json, value), section) if isinstance(value, dict) else value
        else:
            cleaned[key] = _copied(value)
    return cleaned


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in cast(Json, value).items()}
    return value


def _rename(source: Path, target: Path, raw: Json, mapped: Mapped) -> None:
    here = _at(raw, source)
    if here is None:
        return
    mapped.put(target, here, ".".join(source))


# ------------------------------------------------------------------ alternative sections


def _checked(name: str, value: Any, known: tuple[str, ...], mapped: Mapped) -> Json:
    """The section as a table; reports unknown keys, and returns an empty table for any other type."""
    if not isinstance(value, dict):
        mapped.refuse(name, f"expected a table of keys and values, not {short_json(value)}")
        return {}
    table = cast(Json, value)
    for key in table:
        if key not in known:
            mapped.refuse(f"{name}.{key}", f"unknown key{unknown_key_hint(key, list(known))}")
    return table


def _renamed_keys(section: str) -> tuple[str, ...]:
    return tuple(source[1] for source in RENAMED if source[0] == section and len(source) == 2)


def _agent(value: Any, mapped: Mapped) -> None:
    _checked("agent", value, _renamed_keys("agent"), mapped)


def _session(value: Any, mapped: Mapped) -> None:
    _checked("session", value, _renamed_keys("session"), mapped)


def _model(value: Any, mapped: Mapped) -> None:
    own = ("provider", "name", "max_tokens", "providers")
    table = _checked("model", value, (*own, *_renamed_keys("model")), mapped)
    entries = cast(Any, table.get("providers") or {})
    names = tuple(cast(Json, entries)) if isinstance(entries, dict) else ()
    for name, entry in _checked("model.providers", entries, names, mapped).items():
        known = tuple(spec.name for spec in fields(ProviderEntry))
        for key, item in _checked(f"model.providers.{name}", entry or {}, known, mapped).items():
            mapped.put(("providers", "models", name, key), item, f"model.providers.{name}.{key}")
        _kind_of(name, mapped)
    if any(key in table for key in ("provider", "name", "max_tokens")):
        chosen = {"provider": ANTHROPIC, **table}
        _choose("model", chosen, {"name": "model", "max_tokens": "max_tokens"}, mapped)


def _llm(value: Any, mapped: Mapped) -> None:
    names = {"model": "model", "api_key_env": "api_key_env", "max_tokens": "max_tokens", "base_url": "base_url"}
    table = _checked("llm", value, ("provider", *names), mapped)
    if table and "provider" not in table:
        mapped.refuse("llm.provider", f"is required; allowed: a name in providers.models, or one of {', '.join(KINDS)}")
    elif table:
        _choose("llm", table, names, mapped)


def _choose(section: str, table: Json, names: dict[str, str], mapped: Mapped) -> None:
    """Make the section's provider the default one, with the section's settings in its entry."""
    provider = table["provider"]
    if not isinstance(provider, str) or not provider:
        mapped.refuse(f"{section}.provider", f"expected text, not {short_json(provider)}")
        return
    mapped.put(("default_provider",), provider, f"{section}.provider")
    _kind_of(provider, mapped)
    for key, ours in names.items():
        if key in table:
            mapped.put(("providers", "models", provider, ours), table[key], f"{section}.{key}")


def _kind_of(name: str, mapped: Mapped) -> None:
    """Set the kind of an entry that has the name of a kind and does not set one."""
    path = ("providers", "models", name, "kind")
    if name in KINDS and mapped.get(path) is None:
        mapped.put(path, name, ".".join(path))


def _model_config(value: Any, mapped: Mapped) -> None:
    table = _checked("model_config", value, ("provider", "model_id"), mapped)
    if not table:
        return
    provider, model_id = table.get("provider"), table.get("model_id")
    known = MODEL_CONFIG.get(provider) if isinstance(provider, str) else None
    if known is None:
        mapped.refuse(
            "model_config.provider", f"{short_json(provider)} is not allowed; allowed: {', '.join(MODEL_CONFIG)}"
        )
        return
    if model_id not in known.models:
        allowed = ", ".join(known.models)
        mapped.refuse(
            "model_config.model_id", f"{short_json(model_id)} is not allowed for {provider}; allowed: {allowed}"
        )
        return
    model = known.models[model_id] or os.environ.get("LM_STUDIO_MODEL", "").strip()
    _put_model_config(cast(str, provider), known, model or None, mapped)


def _put_model_config(provider: str, known: ModelIds, model: str | None, mapped: Mapped) -> None:
    """Set the provider entry, with the endpoint from the environment. A missing value is reported by the model call."""
    base_url = os.environ.get(BASE_URLS[provider], "").strip() or known.base_url
    entry = {"kind": known.kind, "model": model, "api_key_env": known.api_key_env, "base_url": base_url}
    mapped.put(("default_provider",), provider, "model_config.provider")
    for key, item in entry.items():
        path = ("providers", "models", provider, key)
        if item is not None or mapped.get(path) is None:
            mapped.put(path, item, "model_config.model_id")


_SECTIONS: dict[str, Callable[[Any, Mapped], None]] = {
    "agent": _agent,
    "session": _session,
    "model": _model,
    "llm": _llm,
    "model_config": _model_config,
}
VARIABLES = ("LM_STUDIO_MODEL", *BASE_URLS.values())
"""The environment variables that this module reads."""
