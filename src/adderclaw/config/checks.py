"""Checks that types cannot express: secrets in files, references to names, settings that depend on each other."""

import re
from collections.abc import Iterator
from typing import Any, cast

from adderclaw.config.foreign.dialects import MODEL_CONFIG
from adderclaw.core.decode import short_json, unknown_key_hint
from adderclaw.core.errors import Problem
from adderclaw.core.provider_kinds import BY_NAME, RELIABLE, ROUTER
from adderclaw.core.redaction import is_secret_name, looks_secret
from adderclaw.core.types import Json

_REFERENCE = re.compile(r"((Bearer|Basic|Token) +)?\$(\w+|\{\w+(:-)?\})")
_RULE = re.compile(r"[A-Za-z_*?][\w*?.\-]*(?:\(.+\))?", re.DOTALL)
_DOMAIN = re.compile(r"(?:\*\.)?(?=.{1,253}$)[A-Za-z0-9](?:[A-Za-z0-9\-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9\-]+)*")
_SAFE_ADDRESS = re.compile(r"(?i)https://|http://(localhost|127\.0\.0\.1|\[::1\])[:/]")
RUN_ID = "YYYYMMDD-HHMMSS-<short-uuid>"
MAX_RUN_ID = 100
_NO_SECRETS = "keys and secrets do not belong in a file: put it in a variable and name that variable in api_key_env"


def secrets(table: Json) -> dict[str, str]:
    """Key → message, for each value that is or looks like a secret. The value is never in the message."""
    return {key: _NO_SECRETS for key, name, text in _texts(table) if is_secret(name, text)}


def is_secret(name: str, text: str) -> bool:
    """Whether a text under that name is, or looks like, a secret."""
    return bool(text) and ((is_secret_name(name) and not _REFERENCE.fullmatch(text)) or looks_secret(text))


def _texts(value: Any, key: str = "", name: str = "") -> Iterator[tuple[str, str, str]]:
    """Every text in a table: (full key, last part of the key, text)."""
    if isinstance(value, dict):
        for inner, item in cast(Json, value).items():
            yield from _texts(item, f"{key}.{inner}" if key else inner, inner)
    elif isinstance(value, list):
        for index, item in enumerate(cast(list[Any], value)):
            yield from _texts(item, f"{key}[{index}]", name)
    elif isinstance(value, str):
        yield key, name, value


def variable_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        # not shown, because it may be the secret itself
        raise ValueError("must be the name of an environment variable, such as OPENAI_API_KEY")
    return text


def is_rule(text: str) -> bool:
    """Whether a permission rule is well formed: `Tool` or `Tool(pattern)`."""
    return bool(_RULE.fullmatch(text))


def origin_of(key: str, origins: dict[str, str]) -> str:
    """The file that sets a key, or else the origin of the nearest related key, where the fix belongs."""
    explicit = {name: origin for name, origin in origins.items() if origin != "default"}
    while key:
        if key in explicit:
            return explicit[key]
        inside = [origin for name, origin in explicit.items() if name.startswith(f"{key}.")]
        if inside:
            return inside[-1]
        key = key.rpartition(".")[0]
    return "default"


def whole(tree: Json, origins: dict[str, str]) -> list[Problem]:
    """Problems with the merged settings."""
    problems = [
        *_providers(tree),
        *_logins(tree),
        *_lists(tree["security"]),
        *_shell(tree["runtime"]),
        *_run_ids(tree["logging"]),
        *_telemetry(tree["telemetry"]),
        *_servers(tree["mcp_servers"]),
        *_notices(tree["notices"]["targets"]),
        *_variables(tree["env"]),
    ]
    return [Problem(origin_of(key, origins), key, message) for key, message in problems]


def _variables(env: dict[str, str]) -> Iterator[tuple[str, str]]:
    if not env:
        return
    from adderclaw.config.variables import split_allowed

    yield from ((f"env.{name}", why) for name, why in split_allowed(env)[1].items())


def _run_ids(logging: Json) -> Iterator[tuple[str, str]]:
    """A run id must be a unique folder name of a form that the policy recognizes."""
    pattern: str = logging["run_id_pattern"]
    if pattern.count(RUN_ID) != 1:
        yield "logging.run_id_pattern", f"{short_json(pattern)} must contain {RUN_ID} exactly once"
    elif len(pattern) > MAX_RUN_ID or not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]*", pattern.replace(RUN_ID, "Y")):
        fix = f"only letters, digits, -, _ and . may surround {RUN_ID}, at most {MAX_RUN_ID} characters in total"
        yield "logging.run_id_pattern", f"{short_json(pattern)} is not a valid folder name: {fix}"


def _shell(runtime: Json) -> Iterator[tuple[str, str]]:
    shell: str = runtime["shell_linux"]
    if shell.rpartition("/")[2] != "bash":
        yield (
            "runtime.shell_linux",
            f"{short_json(shell)} is not bash, which commands are written for; set it to the path of a bash",
        )


def _servers(table: dict[str, Json]) -> Iterator[tuple[str, str]]:
    if not table:
        return
    from adderclaw.config import servers

    yield from servers.problems(table)


def _notices(targets: dict[str, Json]) -> Iterator[tuple[str, str]]:
    if not targets:
        return
    from adderclaw.config import notice_targets

    yield from notice_targets.problems(targets)


def _providers(tree: Json) -> Iterator[tuple[str, str]]:
    models: dict[str, Json] = tree["providers"]["models"]
    names = list(models)
    chosen: str = tree["default_provider"]
    if chosen not in models:
        yield "default_provider", f"{short_json(chosen)} is not in providers.models{unknown_key_hint(chosen, names)}"
    small: str | None = tree["providers"].get("small")
    if small is not None and small not in names:
        yield "providers.small", f"{short_json(small)} is not in providers.models{unknown_key_hint(small, names)}"
    for name, entry in models.items():
        key = f"providers.models.{name}"
        if entry.get("extra_body"):
            yield from _extra_body(f"{key}.extra_body", entry["extra_body"])
        if not entry.get("kind"):
            yield (
                f"{key}.kind",
                f"is required, because {short_json(name)} is not the name of a kind"
                f"{unknown_key_hint(name, list(BY_NAME))}",
            )
        elif (kind := BY_NAME.get(entry["kind"])) is None:
            continue  # the schema says which kinds there are
        elif kind.combines:
            yield from _combined_entry(key, name, entry, models)
        elif kind.suggested_url and not entry.get("base_url") and name not in MODEL_CONFIG:
            yield f"{key}.base_url", f'is required for kind "{kind.name}"'
    entry = models.get(chosen, {})
    chosen_kind = BY_NAME.get(entry.get("kind") or "")
    needs_model = chosen_kind is not None and not chosen_kind.has_no_server
    needs_model = needs_model and chosen not in MODEL_CONFIG  # the environment sets theirs
    if needs_model and not entry.get("model") and tree["default_model"] == "mock":
        yield f"providers.models.{chosen}.model", "is required, since default_model is the mock's"


MOST_EXTRA = 16_384
"""Maximum bytes of JSON that an entry may add to each request."""
RESERVED_REQUEST_FIELDS = frozenset(
    (
        *("model", "models", "messages", "input", "contents", "stream", "n", "candidateCount", "prompt"),
        *("system", "systemInstruction", "system_instruction", "instructions", "previous_response_id", "conversation"),
        *(
            "tools",
            "tool_choice",
            "toolConfig",
            "tool_config",
            "functions",
            "function_call",
            "mcp_servers",
            "container",
        ),
        *("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "candidate_count"),
    )
)
"""Request fields that AdderClaw controls, because the policy and the limits depend on them."""


def _extra_body(key: str, extra: Json) -> Iterator[tuple[str, str]]:
    import json

    try:
        size = len(json.dumps(extra, allow_nan=False).encode("utf-8", "replace"))
    except (TypeError, ValueError) as error:
        yield key, f"cannot be expressed as JSON ({error}); write dates as text"
        return
    if size > MOST_EXTRA:
        yield key, f"has {size:,} bytes as JSON; at most {MOST_EXTRA:,} are allowed"
    inner = ((name, extra.get(name)) for name in ("generationConfig", "generation_config"))
    tables = (("", extra), *((f"{name}.", cast(Json, value)) for name, value in inner if isinstance(value, dict)))
    for path, table in tables:
        for name in sorted(table.keys() & RESERVED_REQUEST_FIELDS):
            yield f"{key}.{path}{name}", "this field of a request is controlled by AdderClaw; remove it"


def _combined_entry(key: str, name: str, entry: Json, models: dict[str, Json]) -> Iterator[tuple[str, str]]:
    if entry["kind"] == RELIABLE and not entry.get("providers"):
        yield f"{key}.providers", 'is required for kind "reliable"'
    if entry["kind"] == ROUTER and not (entry.get("default") or entry.get("providers")):
        yield f"{key}.default", 'is required for kind "router": the entry for requests without a route'
    for where, other in _others(entry):
        if other not in models:
            yield (
                f"{key}.{where}",
                f"{short_json(other)} is not in providers.models{unknown_key_hint(other, list(models))}",
            )
    if _reaches(models, name, name, set()):
        yield f"{key}.{next(_others(entry))[0].partition('.')[0]}", "leads back to itself"


def _others(entry: Json) -> Iterator[tuple[str, str]]:
    """(key, name) of every entry that an entry of kind `reliable` or `router` names."""
    if entry.get("kind") == ROUTER:
        for hint, other in cast(dict[str, str], entry.get("routes") or {}).items():
            yield f"routes.{hint}", other
        if entry.get("default"):
            yield "default", entry["default"]
    if entry.get("kind") in (RELIABLE, ROUTER):
        for other in entry.get("providers") or ():
            yield "providers", other


def _reaches(models: dict[str, Json], start: str, goal: str, seen: set[str]) -> bool:
    for _, other in _others(models.get(start, {})):
        if other == goal:
            return True
        if other not in seen:
            seen.add(other)
            if _reaches(models, other, goal, seen):
                return True
    return False


def _logins(tree: Json) -> Iterator[tuple[str, str]]:
    """Requires https for login servers, except on this machine."""
    for name, server in cast(dict[str, Json], tree["auth"]["oauth"]).items():
        for key in ("authorize_url", "token_url", "device_url", "revoke_url", "redirect_url"):
            address = server.get(key)
            if address and not _SAFE_ADDRESS.match(address):
                yield f"auth.oauth.{name}.{key}", "must begin with https://; http:// is only for this machine"


def _is_place(text: str) -> bool:
    """Whether a text is a host name, pattern or address, optionally with a port."""
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::([0-9]{1,5}))?", text)
    if match is None or not 0 < int(match[2] or 1) < 65536:
        return False
    return match[1].startswith("[") or _DOMAIN.fullmatch(match[1]) is not None


def _lists(security: Json) -> Iterator[tuple[str, str]]:
    for name in ("allowed_domains", "registries"):
        for domain in security[name]:
            if domain != "*" and not _is_place(domain):
                example = "such as example.org, *.example.org or localhost:8080"
                yield f"security.{name}", f"{short_json(domain)} is not a host name, {example}"
    for name in ("allowed_commands", "forbidden_commands"):
        for command in security[name]:
            if not command or any(char.isspace() for char in command):
                yield f"security.{name}", f"{short_json(command)} is not the name of a program, such as git"


def _telemetry(telemetry: Json) -> Iterator[tuple[str, str]]:
    if telemetry["enabled"]:
        protocol = telemetry["protocol"]
        if protocol in ("http", "otlp") and not telemetry["endpoint"]:
            yield "telemetry.endpoint", f"is required for protocol {short_json(protocol)}"
        if protocol == "file" and not telemetry["path"]:
            yield "telemetry.path", 'is required for protocol "file"'
