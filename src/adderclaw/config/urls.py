"""Checks the addresses in settings: http or https, and without a secret in them."""

import re

from adderclaw.core.decode import short_json
from adderclaw.core.redaction import is_secret_name, looks_secret


def check_url(text: str) -> str:
    """The URL, if it is valid and contains no secret. A possible secret is not repeated in the error."""
    if _has_secret(text):
        raise ValueError("contains a user name, password or key; put the key in the variable that api_key_env names")
    if not re.match(r"https?://[^/\s]+", text, re.IGNORECASE) or re.search(r"\s", text):
        raise ValueError(f"{short_json(text)} is not a URL; it must begin with http:// or https://")
    return text


def _has_secret(text: str) -> bool:
    from urllib.parse import parse_qsl, urlsplit

    try:
        parts = urlsplit(text)
        named = {name.lower() for name, value in parse_qsl(parts.query) if value}
        return "@" in parts.netloc or looks_secret(text) or any(is_secret_name(name) or name == "key" for name in named)
    except ValueError:
        return True  # not a valid URL: not shown either
