"""What types cannot say: secrets in files, names that must exist, settings that need one another."""

import re
from collections.abc import Iterator
from typing import Any, cast

from adderclaw.config.dialects import KINDS
from adderclaw.credentials.redaction import looks_secret, secret_name
from adderclaw.decode import nearest, shown
from adderclaw.errors import Problem
from adderclaw.types import Json

_REFERENCE = re.compile(r"\$(\w+|\{\w+\})")
_RULE = re.compile(r"[A-Za-z_][\w.\-]*\*?(?:\(.+\))?", re.DOTALL)
_DOMAIN = re.compile(r"(?:\*\.)?(?=.{1,253}$)[A-Za-z0-9](?:[A-Za-z0-9\-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9\-]+)*")
_NO_SECRETS = "secrets do not belong in a file: put it in an environment variable and name that with api_key_env"


def secrets(table: Json) -> dict[str, str]:
    """Key → message, for each value that is or looks like a secret. The value is never in the message."""
    return {key: _NO_SECRETS for key, name, text in _texts(table) if _is_secret(name, text)}


def _is_secret(name: str, text: str) -> bool:
    return bool(text) and ((secret_name(name) and not _REFERENCE.fullmatch(text)) or looks_secret(text))


def _texts(value: Any, key: str = "", name: str = "") -> Iterator[tuple[str, str, str]]:
    """Every text in a table: (its key, the last name in that, the text)."""
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
        # it may be the key itself: not shown
        raise ValueError("must be the name of an environment variable, such as OPENAI_API_KEY")
    return text


def url(text: str) -> str:
    if not re.match(r"https?://[^/\s]+", text, re.IGNORECASE) or re.search(r"\s", text):
        raise ValueError(f"{shown(text)} is not a URL; it must begin with http:// or https://")
    return text


def is_rule(text: str) -> bool:
    """Whether a permission rule is well formed: `Tool` or `Tool(pattern)`."""
    return bool(_RULE.fullmatch(text))


def origin_of(key: str, origins: dict[str, str]) -> str:
    """The file that a key is from, or else what is set nearest to it: there the fix belongs."""
    given = {name: origin for name, origin in origins.items() if origin != "default"}
    while key:
        if key in given:
            return given[key]
        inside = [origin for name, origin in given.items() if name.startswith(f"{key}.")]
        if inside:
            return inside[-1]
        key = key.rpartition(".")[0]
    return "default"


def whole(tree: Json, origins: dict[str, str]) -> list[Problem]:
    """What is wrong with the settings taken together."""
    found = [*_providers(tree), *_lists(tree["security"]), *_telemetry(tree["telemetry"])]
    return [Problem(origin_of(key, origins), key, message) for key, message in found]


def _providers(tree: Json) -> Iterator[tuple[str, str]]:
    models: dict[str, Json] = tree["providers"]["models"]
    names = list(models)
    chosen: str = tree["default_provider"]
    if chosen not in models:
        yield "default_provider", f"{shown(chosen)} is not in providers.models{nearest(chosen, names)}"
    for name, entry in models.items():
        key = f"providers.models.{name}"
        if not entry.get("kind"):
            yield f"{key}.kind", f"is required, and {shown(name)} is no kind itself{nearest(name, list(KINDS))}"
        elif entry.get("kind") in ("reliable", "router"):
            if not entry.get("providers"):
                yield f"{key}.providers", f"is required for kind {shown(entry['kind'])}"
            for other in entry.get("providers") or ():
                if other not in models:
                    yield f"{key}.providers", f"{shown(other)} is not in providers.models{nearest(other, names)}"
            if _reaches(models, name, name, set()):
                yield f"{key}.providers", "leads back to itself"
        elif entry.get("kind") == "openai-compatible" and not entry.get("base_url"):
            yield f"{key}.base_url", 'is required for kind "openai-compatible"'
    entry = models.get(chosen, {})
    needs_model = entry.get("kind") not in (None, "mock", "reliable", "router")
    if needs_model and not entry.get("model") and tree["default_model"] == "mock":
        yield f"providers.models.{chosen}.model", "is required, since default_model is the mock's"


def _reaches(models: dict[str, Json], start: str, goal: str, seen: set[str]) -> bool:
    for other in models.get(start, {}).get("providers") or ():
        if other == goal:
            return True
        if other not in seen:
            seen.add(other)
            if _reaches(models, other, goal, seen):
                return True
    return False


def _lists(security: Json) -> Iterator[tuple[str, str]]:
    for domain in security["allowed_domains"]:
        if domain != "*" and not _DOMAIN.fullmatch(domain):
            yield (
                "security.allowed_domains",
                f"{shown(domain)} is not a host name, such as example.org or *.example.org",
            )
    for name in ("allowed_commands", "forbidden_commands"):
        for command in security[name]:
            if not command or any(char.isspace() for char in command):
                yield f"security.{name}", f"{shown(command)} is not the name of one program, such as git"


def _telemetry(telemetry: Json) -> Iterator[tuple[str, str]]:
    if telemetry["enabled"]:
        protocol = telemetry["protocol"]
        if protocol in ("http", "otlp") and not telemetry["endpoint"]:
            yield "telemetry.endpoint", f"is required for protocol {shown(protocol)}"
        if protocol == "file" and not telemetry["path"]:
            yield "telemetry.path", 'is required for protocol "file"'
