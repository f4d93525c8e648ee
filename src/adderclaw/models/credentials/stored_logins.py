"""The stored logins: reads them, renews them before they expire (one process at a time) and deletes them."""

import asyncio
import hashlib
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from adderclaw.core import home_names
from adderclaw.core.errors import ProviderError
from adderclaw.core.redaction import Secrets
from adderclaw.core.types import Clock
from adderclaw.models.credentials.encrypted_file import SealedFile, VaultError
from adderclaw.models.credentials.oauth import Client, OAuthError, Tokens
from adderclaw.models.credentials.vault import Vault, open_vault

if TYPE_CHECKING:
    from adderclaw.models.credentials.sources import AuthSettings

EARLY_SECONDS = 60.0
"""A token that expires sooner than this is renewed first, because the request takes time too."""
LOCK_SECONDS = 90.0


class Logins:
    def __init__(self, auth: "AuthSettings", home: str, secrets: Secrets, clock: Clock) -> None:
        self._auth, self._home, self._secrets, self._clock = auth, home, secrets, clock
        self._kept: dict[str, Tokens] = {}
        self._distrusted: set[str] = set()
        self._opened: Vault | None = None
        self._words: str | None = None

    def client(self, name: str) -> Client:
        settings = self._auth.oauth.get(name)
        if settings is None:
            known = ", ".join(sorted(self._auth.oauth)) or "none"
            message = f"there is no [auth.oauth.{name}] in the configuration. Configured: {known}"
            raise OAuthError("refused", message)
        variable = settings.client_secret_env
        return Client(name, settings, self._secrets, self._clock, os.environ.get(variable or "", "").strip())

    async def stored(self, name: str) -> Tokens | None:
        """The stored login; None if there is none, or if it is for another client or server than the configured one."""
        text = await asyncio.to_thread(lambda: self._vault().get(name))
        tokens = Tokens.load(text) if text else None
        if tokens is None:
            return None
        self._secrets.add(tokens.access)
        self._secrets.add(tokens.refresh)
        settings = self._auth.oauth.get(name)
        if settings is None or (settings.client_id, settings.token_url) != (tokens.client_id, tokens.token_url):
            return None
        return tokens

    async def fresh(self, name: str) -> Tokens | None:
        """A valid login, renewed if necessary; None if there is none."""
        tokens = self._kept.get(name)
        if tokens is None or not self._good(tokens):
            tokens = await self.stored(name)
        if tokens is None:
            return None
        if name in self._distrusted or not self._good(tokens):
            tokens = await self._renewed(name, tokens)
        self._kept[name] = tokens
        return tokens

    def distrust(self, name: str) -> None:
        """Renew the access token before its next use, because the server refused it."""
        if name in self._kept:
            del self._kept[name]
            self._distrusted.add(name)

    async def keep(self, name: str, tokens: Tokens) -> str:
        """Store a login; returns a description of where."""
        await asyncio.to_thread(lambda: self._vault(new=True).put(name, tokens.dump()))
        self._kept.pop(name, None)
        self._distrusted.discard(name)
        return self._vault().place

    async def text(self, name: str) -> str | None:
        """The text that `keep_text` stored under a name, which must not be the name of a provider."""
        return await asyncio.to_thread(lambda: self._vault().get(name))

    async def keep_text(self, name: str, text: str) -> str:
        """Store a text under a name; returns a description of where."""
        await asyncio.to_thread(lambda: self._vault(new=True).put(name, text))
        return self._vault().place

    async def forget(self, name: str) -> bool:
        """Delete a login from storage and memory; returns whether it existed."""
        self._kept.pop(name, None)
        self._distrusted.discard(name)
        async with self.alone(name):  # a concurrent renewal must not store it again
            return await asyncio.to_thread(lambda: self._vault().delete(name))

    def destroy_file(self) -> None:
        """Remove the encrypted file without opening it."""
        SealedFile(self._home, self._passphrase).destroy()

    # ------------------------------------------------------------------ renewing

    def _good(self, tokens: Tokens) -> bool:
        return tokens.expires_at is None or tokens.expires_at - EARLY_SECONDS > self._clock.now()

    async def _renewed(self, name: str, tokens: Tokens) -> Tokens:
        """Renew a login. A refresh token may be valid only once, so waiting processes use the first one's tokens."""
        async with self.alone(name):
            now = await self.stored(name)
            if now is None:
                raise OAuthError("invalid_grant", f"the login was removed; `adderclaw login {name}` logs in again")
            if now.access != tokens.access and self._good(now):
                self._distrusted.discard(name)
                return now
            if not now.refresh:
                raise OAuthError("invalid_grant", f"the login has expired; `adderclaw login {name}` logs in again")
            try:
                renewed = await self.client(name).refresh(now)
            except OAuthError as error:
                if error.code == "network":
                    raise ProviderError("network", f"provider {name!r}: {error}", provider=name) from None
                raise
            await self.keep(name, renewed)
            return renewed

    @asynccontextmanager
    async def alone(self, name: str) -> AsyncGenerator[None]:
        """Lock a login, so that one process at a time renews it. The system releases the lock if the process dies."""
        import fcntl

        os.makedirs(self._home, mode=0o700, exist_ok=True)
        folder = os.path.join(self._home, home_names.LOCKS)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        path = os.path.join(folder, f"login-{hashlib.sha256(name.encode()).hexdigest()[:16]}.lock")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            waited = 0.0
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if waited > LOCK_SECONDS:
                        raise VaultError(f"another process has been renewing the login {name!r} for too long") from None
                    await asyncio.sleep(0.05)
                    waited += 0.05
            yield
        finally:
            os.close(descriptor)

    # ------------------------------------------------------------------ the vault and its passphrase

    def _vault(self, *, new: bool = False) -> Vault:
        if self._opened is None:
            if not new and self._auth.storage != "keyring" and not os.path.isdir(self._home):
                return SealedFile(self._home, self._passphrase)  # nothing was ever stored
            self._opened = open_vault(self._auth.storage, self._home, self._passphrase)
        return self._opened

    def _passphrase(self, new: bool) -> str:
        """The passphrase from the variable or, at a terminal, from a prompt; cached."""
        if self._words is None:
            words = os.environ.get(self._auth.passphrase_env, "")
            if not words and sys.stdin.isatty() and sys.stderr.isatty():
                words = _asked(new)
            self._secrets.add(words)
            self._words = words
        return self._words


def _asked(new: bool) -> str:
    from getpass import getpass

    if not new:
        return getpass("Passphrase of the stored logins: ", sys.stderr)
    while True:
        words = getpass("Passphrase for the stored logins (empty: a key file beside them, which only hides them): ")
        if not words or words == getpass("Once more: "):
            return words
        print("They differ.", file=sys.stderr)
