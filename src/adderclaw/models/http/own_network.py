"""The certificate authorities and private registries of the operator's network, which every program needs.

They come from the environment and from the operator's npm, pip and uv settings; a project's files are never read. No
login is passed on: user names and passwords are removed from addresses, and lines with tokens are ignored.
"""

import os
import re
import ssl
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from adderclaw.core.record import NamedTuple

VARIABLES = (
    *("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO"),
    *("CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE", "DENO_CERT"),
)
"""Variables that name a file of authorities to programs: commands get the bundle in all of them."""
SYSTEMS = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Where systems store their trusted authorities."""
LOCAL = ("/usr/local/share/ca-certificates", "/etc/pki/ca-trust/source/anchors")
"""Where an administrator adds authorities, which the system then includes in its file."""
MOST_PEM_BYTES = 8 << 20
CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")


class Bundle(NamedTuple):
    text: bytes
    """Every authority as PEM; empty if there are only the system's, which programs find themselves."""
    problems: tuple[str, ...]
    """Why named files of authorities are not used."""


def system() -> str:
    """The file of the system's authorities; empty if there is none."""
    return next(filter(os.path.isfile, SYSTEMS), "")


def tls_context() -> ssl.SSLContext:
    """A TLS context with the system's and the operator's authorities. Slow, so call it in a thread."""
    tls = ssl.create_default_context()
    paths = ssl.get_default_verify_paths()
    if not paths.cafile and not (paths.capath and os.listdir(paths.capath)) and system():
        tls.load_verify_locations(system())
    return extended(tls)


def extended(tls: ssl.SSLContext) -> ssl.SSLContext:
    """Add the operator's own authorities to a TLS context."""
    for text in _own(()).values():
        if isinstance(text, bytes):
            tls.load_verify_locations(cadata=text.decode("ascii"))
    return tls


def bundle(outside: Sequence[str]) -> Bundle:
    """The authorities that commands trust. Files in the folders `outside` are ignored: commands can write to them."""
    files = _own(outside)
    own = [text for text in files.values() if isinstance(text, bytes)]
    problems = tuple(text for text in files.values() if isinstance(text, str))
    if not own and not _has_local():
        return Bundle(b"", problems)
    texts = [_bytes(system())] if system() else []
    every = dict.fromkeys(block for text in (*texts, *own) for block in CERTIFICATE.findall(text))
    return Bundle(b"\n".join(every) + b"\n", problems)


def environment(path: str) -> dict[str, str]:
    return dict.fromkeys(VARIABLES, path)


def _has_local() -> bool:
    for folder in LOCAL:
        try:
            if any(name.endswith((".crt", ".pem")) for name in os.listdir(folder)):
                return True
        except OSError:
            continue
    return False


def _own(outside: Sequence[str]) -> Mapping[str, bytes | str]:
    """File → its authorities, or why it is not used; without the system's own files."""
    files: dict[str, bytes | str] = {}
    for where, path in _named_files(outside):
        path = os.path.expanduser(path)
        real = os.path.realpath(path)
        if real in map(os.path.realpath, SYSTEMS) or real in files:
            continue
        why = refusal(path, outside)
        # only certificates: a private key in the same file is never copied
        text = b"" if why else b"".join(block + b"\n" for block in CERTIFICATE.findall(_bytes(path)))
        why = why or _fault(text)
        files[real] = (
            f"{where} names {path} as a file of certificate authorities; it is not used: {why}" if why else text
        )
    return files


def _fault(text: bytes) -> str:
    """Why certificates cannot be used; empty if they can."""
    if not text:
        return "there is no certificate in it, or it cannot be read"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        return f"its certificates cannot be read ({error})"
    return ""


def _named_files(outside: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield from ((name, value) for name in VARIABLES if (value := os.environ.get(name)))
    yield from _named_by_managers(outside)


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(MOST_PEM_BYTES)
    except (OSError, ValueError):
        return b""


# ------------------------------------------------------------------ registries

MOST_BYTES = 1 << 20


class Indexes(NamedTuple):
    """Package registries that replace the public ones or are used in addition."""

    npm: Mapping[str, str]
    """Key of an .npmrc (`registry`, `@scope:registry`) → address."""
    pip: str
    pip_more: tuple[str, ...]
    uv: str
    uv_more: tuple[str, ...]
    """Additional registries in the format of `UV_INDEX`: `NAME=ADDRESS`, or only the address."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts of all registries, with their ports."""
        from urllib.parse import urlsplit

        more = (re.sub(r"^[\w.-]+=", "", url) for url in self.uv_more)
        urls = (*self.npm.values(), self.pip, *self.pip_more, self.uv, *more)
        parts = (urlsplit(url) for url in urls if url)
        ports = {"https": 443, "http": 80}
        return tuple(dict.fromkeys(f"{part.hostname}:{part.port or ports[part.scheme]}" for part in parts))


def refusal(path: str, outside: Sequence[str]) -> str:
    """Why a file that the environment names is ignored; empty if it is used."""
    if not os.path.isabs(path):
        return "its path is not absolute"
    real = os.path.realpath(path)
    if any(real == folder or real.startswith(f"{folder.rstrip('/')}/") for folder in outside):
        return "it lies in the workspace, where commands may write"
    return ""


def _read(path: str, outside: Sequence[str]) -> str:
    path = os.path.expanduser(path)
    if not path or refusal(path, outside):
        return ""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(MOST_BYTES)
    except (OSError, ValueError):
        return ""


def _variable(*names: str) -> str:
    return next(
        (value for name in names for spelling in (name, name.lower()) if (value := os.environ.get(spelling))), ""
    )


def _npm(outside: Sequence[str]) -> dict[str, str]:
    """The settings of the operator's and the system's .npmrc, without logins and values that refer to variables."""
    own = _variable("NPM_CONFIG_USERCONFIG") or "~/.npmrc"
    settings: dict[str, str] = {}
    for path in ("/etc/npmrc", own):
        for line in _read(path, outside).splitlines():
            key, equals, value = line.partition("=")
            key, value = key.strip(), value.strip().strip("\"'")
            if equals and not key.startswith((";", "#", "//")) and "${" not in value:
                settings[key] = value
    return settings


def _pip(outside: Sequence[str]) -> dict[str, str]:
    config = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    settings: dict[str, str] = {}
    for path in ("/etc/pip.conf", "~/.pip/pip.conf", f"{config}/pip/pip.conf", _variable("PIP_CONFIG_FILE")):
        section = key = ""
        for line in _read(path, outside).splitlines():
            if line[:1] in (" ", "\t") and key:  # continuation of a value
                settings[key] += f" {line.strip()}"
            elif head := re.fullmatch(r"\[(.*)\]\s*", line):
                section, key = head[1], ""
            elif (entry := re.match(r"([\w-]+)\s*[=:]\s*(.*)", line)) and section in ("global", "install"):
                key = entry[1]
                settings[key] = entry[2].strip()
            else:
                key = ""
    return settings


def _uv(outside: Sequence[str]) -> dict[str, Any]:
    config = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    settings: dict[str, Any] = {}
    for path in ("/etc/uv/uv.toml", _variable("UV_CONFIG_FILE") or f"{config}/uv/uv.toml"):
        if text := _read(path, outside):
            import tomllib

            try:
                settings |= tomllib.loads(text)
            except tomllib.TOMLDecodeError:
                continue
    return settings


def _named_by_managers(outside: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The setting and path of each file of authorities that npm's and pip's settings name."""
    if path := _variable("NPM_CONFIG_CAFILE") or _npm(outside).get("cafile", ""):
        yield "npm's cafile", path
    if path := _pip(outside).get("cert", ""):
        yield "pip's cert", path


def indexes(outside: Sequence[str]) -> Indexes:
    """The registries of the operator's own settings. Files in the folders `outside` are ignored."""
    npm = {key: value for key, value in _npm(outside).items() if key == "registry" or key.endswith(":registry")}
    if registry := _variable("NPM_CONFIG_REGISTRY"):
        npm["registry"] = registry
    pip, uv = _pip(outside), _uv(outside)
    listed = [*_tables(uv.get("index")), *(_entry(text) for text in _variable("UV_INDEX").split())]
    default = next((index for index in listed if index.get("default") is True), dict[str, Any]())
    more = [index for index in listed if index.get("default") is not True]
    more += [{"url": url} for url in _texts(_variable("UV_EXTRA_INDEX_URL").split() or uv.get("extra-index-url"))]
    plain = _variable("UV_DEFAULT_INDEX", "UV_INDEX_URL") or default.get("url") or uv.get("index-url")
    extra = (_variable("PIP_EXTRA_INDEX_URL") or pip.get("extra-index-url", "")).split()
    return Indexes(
        {key: url for key, value in npm.items() if (url := address(value))},
        address(_variable("PIP_INDEX_URL") or pip.get("index-url", "")),
        tuple(url for text in extra if (url := address(text))),
        address(plain),
        tuple(dict.fromkeys(_named(index, url) for index in more if (url := address(index.get("url"))))),
    )


def _entry(text: str) -> dict[str, Any]:
    match = re.fullmatch(r"([\w.-]+)=(https?://.*)", text)
    return {"name": match[1], "url": match[2]} if match else {"url": text}


def _named(entry: Mapping[str, Any], url: str) -> str:
    name = entry.get("name")
    return f"{name}={url}" if isinstance(name, str) and re.fullmatch(r"[\w.-]+", name) else url


def _tables(value: object) -> Iterable[dict[str, Any]]:
    listed = cast(list[object], value) if isinstance(value, list) else []
    return [cast(dict[str, Any], item) for item in listed if isinstance(item, dict)]


def _texts(value: object) -> Iterable[str]:
    listed = cast(list[object], value) if isinstance(value, list) else [value]
    return [item for item in listed if isinstance(item, str)]


@lru_cache(maxsize=64)
def address(value: object) -> str:
    """The address of a registry without its login; empty if it is not a valid HTTP address."""
    from urllib.parse import urlsplit, urlunsplit

    if not isinstance(value, str) or not value.isprintable() or re.search(r"[\s\"'\\$]", value):
        return ""
    try:
        parts = urlsplit(value)
        host, port = parts.hostname, parts.port
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not host:
        return ""
    host = f"[{host}]" if ":" in host else host
    return urlunsplit((parts.scheme, host if port is None else f"{host}:{port}", parts.path, "", ""))
