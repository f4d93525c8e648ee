"""Finds the credential of a provider in a fixed order: a variable, the operator's helper, a stored key or a login."""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, Protocol

from adderclaw.core.errors import AdderClawError, ProviderError, ProviderErrorKind
from adderclaw.core.provider_kinds import ANTHROPIC, BY_NAME, KEY_VARIABLES, SOCKET_VARIABLE
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import Secrets
from adderclaw.core.types import Clock

if TYPE_CHECKING:
    from adderclaw.models.credentials.stored_logins import Logins

API_KEY, AUTH_TOKEN = "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"
OAUTH_TOKEN, OAUTH_DESCRIPTOR = "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR"
LM_STUDIO_NAME, LM_STUDIO_KEY = "lm_studio_local", "lm-studio"
"""LM Studio accepts any key; this is its default and not a secret."""
OPENAI_NAME, OPENAI_URL = "openai_compatible", "OPENAI_BASE_URL"

DESCRIPTOR_BYTES = 65_536


class Credential(NamedTuple):
    value: str
    scheme: Literal["api_key", "bearer"]
    source: str
    """For people: `environment ANTHROPIC_API_KEY`, `apiKeyHelper`, `login`. Never the value."""

    def __repr__(self) -> str:
        return f"Credential([redacted], {self.scheme!r}, {self.source!r})"


type SourceKind = Literal[
    "socket", "environment variable", "helper", "stored key", "file descriptor", "login", "not needed", "none"
]


class Place(NamedTuple):
    """A possible source of a credential."""

    kind: SourceKind
    name: str = ""
    """The variable's name, or the helper's command."""
    scheme: Literal["api_key", "bearer"] = "api_key"


class Status(NamedTuple):
    """The state of a provider's credential, determined without using it."""

    usable: bool
    kind: SourceKind
    name: str = ""
    expires_at: float | None = None
    note: str = ""


class Entry(Protocol):
    """The part of a provider's configuration entry that is used here."""

    @property
    def kind(self) -> str: ...
    @property
    def base_url(self) -> str | None: ...
    @property
    def api_key_env(self) -> str | None: ...
    @property
    def api_key_helper(self) -> str | None: ...
    @property
    def api_key_stored(self) -> bool: ...


class OAuthSettings(Protocol):
    """The authorization server of one provider, from the configuration."""

    @property
    def client_id(self) -> str: ...
    @property
    def client_secret_env(self) -> str | None: ...
    @property
    def authorize_url(self) -> str | None: ...
    @property
    def token_url(self) -> str: ...
    @property
    def device_url(self) -> str | None: ...
    @property
    def revoke_url(self) -> str | None: ...
    @property
    def redirect_url(self) -> str | None: ...
    @property
    def issuer(self) -> str | None: ...
    @property
    def scopes(self) -> list[str]: ...
    @property
    def parameters(self) -> dict[str, str]: ...


class AuthSettings(Protocol):
    """The `[auth]` table of the configuration."""

    @property
    def api_key_helper(self) -> str | None: ...
    @property
    def api_key_helper_ttl_seconds(self) -> float: ...
    @property
    def api_key_helper_timeout_seconds(self) -> float: ...
    @property
    def storage(self) -> Literal["auto", "keyring", "file"]: ...
    @property
    def passphrase_env(self) -> str: ...
    @property
    def oauth(self) -> Mapping[str, OAuthSettings]: ...


class Sources:
    """The credentials of all providers of one process."""

    def __init__(
        self,
        secrets: Secrets,
        clock: Clock,
        *,
        auth: AuthSettings | None = None,
        home: str = "",
        workspace: str = "",
        bare: bool = False,
        operators_own: Callable[[str], bool] = lambda _key: True,
        path: Callable[[], str] = lambda: os.defpath,
    ) -> None:
        """Without `auth`, only variables are used. `operators_own` returns whether a configuration key comes from the
        operator's own files: in bare mode no other helper runs. `path` returns the PATH of helpers."""
        self._secrets, self._clock, self._auth = secrets, clock, auth
        self._home, self._workspace, self.path = home, workspace, path
        self._bare, self._operators_own = bare, operators_own
        self._helped: dict[str, tuple[str, float]] = {}
        self._turn = asyncio.Lock()
        self._handed: str | None = None
        self._known: set[str] = set()
        self._kept_logins: Logins | None = None

    async def get(self, name: str, entry: Entry, default_env: tuple[str, ...] = ()) -> Credential | None:
        """The credential for the next request; None if the server needs no key. Raises ProviderError with the fix."""
        if self.socket(entry):
            return None  # the proxy behind the socket adds it
        for source in self._order(name, entry, default_env):
            value = await self._value(name, source)
            if value:
                return self._registered(name, value, source)
        if name == LM_STUDIO_NAME:
            return Credential(LM_STUDIO_KEY, "bearer", "default")
        if self._optional(name, entry, default_env):
            return None
        raise self._fault("missing_key", name, self._missing(name, entry, default_env))

    def socket(self, entry: Entry) -> str:
        """The Unix socket through which this provider is reached, or "": the proxy behind it adds the credential."""
        return os.environ.get(SOCKET_VARIABLE, "").strip() if _is_anthropic(entry) and not self._bare else ""

    def refused(self, name: str) -> None:
        """Forget cached credentials after the server refused one."""
        self._helped.clear()
        if self._kept_logins is not None:
            self._kept_logins.distrust(name)

    def register(self, entries: Mapping[str, Entry]) -> None:
        """Register every key in the environment for redaction, before the first text is stored."""
        named = {entry.api_key_env or KEY_VARIABLES.get(entry.kind, "") for entry in entries.values()}
        if self._auth is not None:
            named |= {
                self._auth.passphrase_env,
                *(server.client_secret_env or "" for server in self._auth.oauth.values()),
            }
        for variable in named | {API_KEY, AUTH_TOKEN, OAUTH_TOKEN, "GOOGLE_API_KEY"}:
            value = os.environ.get(variable, "").strip()
            if value:
                self._register(value)

    async def status(self, name: str, entry: Entry, default_env: tuple[str, ...] = ()) -> Status:
        """Which source would be used. Does not run the helper or refresh a token."""
        if path := self.socket(entry):
            exists = os.path.exists(path)
            return Status(exists, "socket", SOCKET_VARIABLE, note="" if exists else f"there is no socket {path}")
        problem = ""
        for source in self._order(name, entry, default_env):
            match source.kind:
                case "environment variable" | "file descriptor" if os.environ.get(source.name, "").strip():
                    return Status(True, source.kind, source.name)
                case "helper":
                    return Status(True, "helper", note="it runs before the first model call")
                case "stored key":
                    try:
                        if await self.logins().text(source.name):
                            return Status(True, "stored key")
                        problem = "no key is stored for it; `adderclaw onboard` stores one"
                    except AdderClawError as error:
                        problem = str(error)
                case "login":
                    login = await self._login_status(name)
                    if login.usable:
                        return login
                    problem = login.note
                case _:
                    pass
        if name == LM_STUDIO_NAME or self._optional(name, entry, default_env):
            return Status(True, "not needed")
        return Status(False, "none", note=problem or self._missing(name, entry, default_env))

    # ------------------------------------------------------------------ the order

    def _order(self, name: str, entry: Entry, default_env: tuple[str, ...]) -> Iterator[Place]:
        """The sources in order. Anthropic's variables have the order that its own tools use."""
        helper = self._helper(name, entry)
        if _is_anthropic(entry):
            if not self._bare:
                yield Place("environment variable", AUTH_TOKEN, "bearer")
            yield Place("environment variable", API_KEY)
        else:
            for variable in _variables(entry, default_env):
                yield Place("environment variable", variable)
        if helper:
            yield Place("helper", helper)
        if self._bare:
            return
        if entry.api_key_stored and self._is_operators(name):
            yield Place("stored key", stored_name(name))
        if _is_anthropic(entry):
            yield Place("environment variable", OAUTH_TOKEN, "bearer")
            yield Place("file descriptor", OAUTH_DESCRIPTOR, "bearer")
        if self._auth is not None and name in self._auth.oauth:
            yield Place("login", name, "bearer")

    def _is_operators(self, name: str) -> bool:
        """Whether the operator configured where a stored key is sent. It is never sent to an address from a project."""
        keys = ("api_key_stored", "base_url", "kind")
        return self._auth is not None and all(self._operators_own(f"providers.models.{name}.{key}") for key in keys)

    def _helper(self, name: str, entry: Entry) -> str:
        """The entry's own helper. The global helper is only for Anthropic, so its key is sent to no other server."""
        if self._auth is None:
            return ""
        if entry.api_key_helper:
            key, command = f"providers.models.{name}.api_key_helper", entry.api_key_helper
        else:
            key = "auth.api_key_helper"
            command = self._auth.api_key_helper if entry.kind == ANTHROPIC else None
        return command if command and (not self._bare or self._operators_own(key)) else ""

    async def _value(self, name: str, source: Place) -> str:
        match source.kind:
            case "environment variable":
                return os.environ.get(source.name, "").strip()
            case "helper":
                return await self._from_helper(name, source.name)
            case "stored key":
                return await self._from_store(name, source.name)
            case "file descriptor":
                return self._from_descriptor(name)
            case "login":
                return await self._from_login(name)
            case _:
                return ""

    # ------------------------------------------------------------------ one source each

    async def _from_helper(self, name: str, command: str) -> str:
        """Run the helper once for concurrent requests and cache its key in memory for a while."""
        assert self._auth is not None
        async with self._turn:
            value, until = self._helped.get(command, ("", 0.0))
            if value and self._clock.monotonic() < until:
                return value
            from adderclaw.models.credentials import key_helper

            try:
                value = await key_helper.run(
                    command,
                    timeout=self._auth.api_key_helper_timeout_seconds,
                    workspace=self._workspace,
                    path=self.path(),
                    secrets=self._secrets,
                )
            except key_helper.HelperFailed as error:
                raise self._fault("authentication_failed", name, str(error)) from None
            self._register(value)
            self._helped[command] = (value, self._clock.monotonic() + self._auth.api_key_helper_ttl_seconds)
            return value

    async def _from_store(self, name: str, stored: str) -> str:
        try:
            return (await self.logins().text(stored) or "").strip()
        except AdderClawError as error:
            raise self._fault("authentication_failed", name, str(error)) from None

    def _from_descriptor(self, name: str) -> str:
        """The token that the parent process passed in an open descriptor, which is read once and closed."""
        if self._handed is None:
            text = os.environ.get(OAUTH_DESCRIPTOR, "").strip()
            if not text:
                return ""
            try:
                self._handed = _read_descriptor(int(text))
            except (ValueError, OSError):
                message = f"{OAUTH_DESCRIPTOR} is not an open descriptor from which a token can be read; unset it"
                raise self._fault("authentication_failed", name, message) from None
        return self._handed

    async def _from_login(self, name: str) -> str:
        logins = self.logins()
        async with self._turn:
            try:
                tokens = await logins.fresh(name)
            except ProviderError:
                raise
            except AdderClawError as error:
                raise self._fault("authentication_failed", name, str(error)) from None
        return tokens.access if tokens is not None else ""

    async def _login_status(self, name: str) -> Status:
        try:
            tokens = await self.logins().stored(name)
        except AdderClawError as error:
            return Status(False, "none", note=str(error))
        if tokens is None:
            return Status(False, "none", note=f"`adderclaw login {name}` logs in")
        expired = tokens.expires_at is not None and tokens.expires_at <= self._clock.now()
        if expired and not tokens.refresh:
            return Status(False, "none", note=f"the login has expired; `adderclaw login {name}` renews it")
        return Status(True, "login", name, tokens.expires_at, "it is renewed automatically" if tokens.refresh else "")

    def logins(self) -> "Logins":
        """The stored logins, opened on first use."""
        if self._kept_logins is None:
            from adderclaw.models.credentials.stored_logins import Logins

            assert self._auth is not None
            self._kept_logins = Logins(self._auth, self._home, self._secrets, self._clock)
        return self._kept_logins

    # ------------------------------------------------------------------ messages and redaction

    def _optional(self, name: str, entry: Entry, default_env: tuple[str, ...]) -> bool:
        if BY_NAME[entry.kind].always_keyed:
            return False
        if name == OPENAI_NAME and os.environ.get(OPENAI_URL, "").strip():
            return False  # an address from the environment also needs a key from there
        return not _variables(entry, default_env) or _local(entry)

    def _missing(self, name: str, entry: Entry, default_env: tuple[str, ...]) -> str:
        variables = [
            source.name for source in self._order(name, entry, default_env) if source.kind == "environment variable"
        ]
        if _is_anthropic(entry):
            variables = [API_KEY] if self._bare else [API_KEY, AUTH_TOKEN]
        first = variables[0] if variables else KEY_VARIABLES.get(entry.kind, "")
        is_not = "which is not set" if len(variables) < 2 else "neither of which is set"
        named = f" in the variable {' or '.join(variables)}, {is_not}" if variables else ""
        fixes = [f"set it with `export {first}=…` before you start adderclaw"] if first else []
        if not self._bare and self._auth is not None and name in self._auth.oauth:
            fixes.append(f"log in with `adderclaw login {name}`")
        return f"needs its key{named}; {' or '.join(fixes) or 'name its variable in api_key_env'}"

    def _registered(self, name: str, value: str, source: Place) -> Credential:
        sources = {"helper": "apiKeyHelper", "login": "login", "stored key": "stored key"}
        described = sources.get(source.kind) or f"environment {source.name}"
        if not value.isascii() or not value.isprintable() or " " in value:
            message = (
                f"the value of {described} cannot be a key: it contains a space, a line break or non-ASCII characters"
            )
            raise self._fault("authentication_failed", name, message)
        self._register(value)
        return Credential(value, source.scheme, described)

    def _register(self, value: str) -> None:
        if value not in self._known and value != LM_STUDIO_KEY:
            self._known.add(value)
            self._secrets.add(value)

    def _fault(self, kind: ProviderErrorKind, name: str, message: str) -> ProviderError:
        line = " ".join(f"provider {name!r}: {message}".split())
        return ProviderError(kind, str(self._secrets.clean(line)), provider=name)


def stored_name(name: str) -> str:
    """The name of a provider's stored key in the vault, which no login can have."""
    return f"key:{name}"


def _is_anthropic(entry: Entry) -> bool:
    """Whether Anthropic's own variables apply: an entry with another variable is another account."""
    return entry.kind == ANTHROPIC and entry.api_key_env in (None, API_KEY)


def _variables(entry: Entry, default_env: tuple[str, ...]) -> tuple[str, ...]:
    if not entry.api_key_env or entry.api_key_env in default_env[:1]:
        return default_env  # the configuration fills in the first default if none is named
    return (entry.api_key_env,)


def _local(entry: Entry) -> bool:
    """Whether the server is on this machine."""
    if not entry.base_url:
        return BY_NAME[entry.kind].is_free and not BY_NAME[entry.kind].has_no_server
    from urllib.parse import urlsplit

    host = urlsplit(entry.base_url).hostname or ""
    numeric = host.startswith("127.") and host.replace(".", "").isdigit()  # not 127.example.org
    return numeric or host in ("localhost", "::1") or host.endswith(".localhost")


def _read_descriptor(number: int) -> str:
    if number < 3:
        raise ValueError("one of the three standard streams")
    with open(number, "rb", buffering=0) as file:
        pieces = b""
        while len(pieces) < DESCRIPTOR_BYTES and (piece := file.read(DESCRIPTOR_BYTES)):
            pieces += piece
    return pieces.decode("utf-8", "replace").strip()
