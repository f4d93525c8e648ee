"""Checks notice targets: missing required keys, and keys that do not apply to the kind of target."""

import re
from collections.abc import Iterator

from adderclaw.core.decode import short_json
from adderclaw.core.types import Json

NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}"
ADDRESS = r"[^\s@<>,;:\\\"()\[\]]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?"
QUIET = r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)"
HOST = r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|[0-9a-fA-F:]+"
MOST = 32
"""Maximum number of targets. Each notice is sent to all of them."""

OF_KIND: dict[str, tuple[str, ...]] = {
    "webhook": ("url", "url_env", "format", "secret_env", "token_env", "private", "ca_file"),
    "email": ("ca_file", "host", "port", "security", "user", "password_env", "sender", "to"),
}
STORED: dict[str, tuple[str, ...]] = {
    "webhook": ("url", "secret", "token"),
    "email": ("password",),
}


def is_loopback(host: str) -> bool:
    """Whether a host, as it is written, is this machine."""
    from ipaddress import ip_address

    host = host.strip("[]").rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def problems(targets: dict[str, Json]) -> Iterator[tuple[str, str]]:
    """(key, message) for each problem."""
    if len(targets) > MOST:
        yield "notices.targets", f"has {len(targets)} targets; at most {MOST} are allowed"
    for name, target in targets.items():
        key = f"notices.targets.{name}"
        if not re.fullmatch(NAME, name):
            yield key, f"{short_json(name)} cannot be a name: letters, digits, - and _, at most 40"
        kind = target.get("kind")
        if kind is None:
            yield f"{key}.kind", f"is required: {', '.join(OF_KIND)}"
        elif kind in OF_KIND:
            yield from ((f"{key}.{field}", why) for field, why in _of(target, kind))


def _of(target: Json, kind: str) -> Iterator[tuple[str, str]]:
    own = OF_KIND[kind]
    for other, fields in OF_KIND.items():
        for field in fields:
            if field not in own and target.get(field) not in (None, "", [], False):
                yield field, f'is for kind "{other}", and this one is of kind "{kind}"'
    for part in target.get("stored") or ():
        if part not in STORED[kind]:
            storable = ", ".join(STORED[kind]) or "nothing"
            yield "stored", f'{short_json(part)} is not stored for kind "{kind}": {storable} is'
    if target.get("quiet") and not re.fullmatch(QUIET, target["quiet"]):
        yield "quiet", f"{short_json(target['quiet'])} must be two times of day, such as 22:00-07:00"
    match kind:
        case "webhook":
            yield from _webhook(target)
        case "email":
            yield from _email(target)
        case _:
            pass


def _webhook(target: Json) -> Iterator[tuple[str, str]]:
    sources = [name for name in ("url", "url_env") if target.get(name)]
    sources += ["stored"] if "url" in (target.get("stored") or ()) else []
    if len(sources) != 1:
        yield "url", 'give exactly one of url, url_env and stored = ["url"]'
    if target.get("url") and (why := address(target["url"])):
        yield "url", why
    for part in ("secret", "token"):
        if target.get(f"{part}_env") and part in (target.get("stored") or ()):
            yield f"{part}_env", f"the {part} is also stored; remove one of the two"


def address(url: str) -> str:
    """Why an address is rejected; empty if it is valid. The address is not repeated, because it may be a secret."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return "is not a URL"
    if parts.scheme == "https" and host:
        return ""
    if parts.scheme == "http" and is_loopback(host):
        return ""
    return "must begin with https://; http:// is only for this machine (127.0.0.1, localhost)"


def _email(target: Json) -> Iterator[tuple[str, str]]:
    host: str = target.get("host") or ""
    if not host:
        yield "host", 'is required for kind "email": the SMTP server'
    elif not re.fullmatch(HOST, host):
        yield "host", f"{short_json(host)} is not a host name"
    if target.get("security") == "none" and host and not is_loopback(host):
        yield (
            "security",
            f'"none" is only for a server on this machine, not for {short_json(host)}: use starttls or tls',
        )
    yield from _addresses("sender", [target.get("sender") or ""])
    if not target.get("to"):
        yield "to", 'is required for kind "email": the addresses that it is sent to'
    yield from _addresses("to", target.get("to") or [])
    has_password = bool(target.get("password_env")) or "password" in (target.get("stored") or ())
    if target.get("user") and not has_password:
        yield "password_env", "is required because user is set"
    if has_password and not target.get("user"):
        yield "user", "is required because a password is set"


def _addresses(field: str, texts: list[str]) -> Iterator[tuple[str, str]]:
    for text in texts:
        if not text.isascii() or not re.fullmatch(ADDRESS, text):
            yield field, f"{short_json(text)} is not an e-mail address such as me@example.org"
