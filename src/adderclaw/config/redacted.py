"""The configuration for display, without secrets wherever they are."""

import os
import re
from typing import Any, cast

from adderclaw.config.schema import Config
from adderclaw.core.json_text import to_json
from adderclaw.core.redaction import MARK, Secrets
from adderclaw.core.types import Json

_USER_INFO = re.compile(r"(?i)\b([a-z][a-z0-9+.\-]*://)[^\s/@?#]*@")
_PATH = re.compile(r"^([a-z]+://[^/?#]*)[/?#].+")
_HIDDEN_TABLES = ("headers", "env")


def public(config: Config) -> Json:
    """The configuration with header and environment values, user names in URLs and secrets masked."""
    secrets = Secrets()
    for variable in (*(entry.api_key_env for entry in config.providers.models.values()), config.web.gateway_token_env):
        secrets.add(os.environ.get(variable or "", ""))
    shown = _masked(to_json(config))
    for target in cast(dict[str, Json], shown["notices"]["targets"]).values():
        if target.get("url"):  # the path of a chat's webhook is a secret that allows posting there
            target["url"] = _PATH.sub(rf"\1/{MARK}", str(target["url"]))
    return secrets.clean(shown)


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: dict.fromkeys(cast(Json, item), MARK)
            if key in _HIDDEN_TABLES and isinstance(item, dict)
            else _masked(item)
            for key, item in cast(Json, value).items()
        }
    if isinstance(value, list):
        return [_masked(item) for item in cast(list[Any], value)]
    return _USER_INFO.sub(rf"\1{MARK}@", value) if isinstance(value, str) else value
