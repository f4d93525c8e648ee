"""The encrypted file (AES-256-GCM) that stores logins if the system has no keyring.

The key is derived from a passphrase by scrypt. Without a passphrase it is stored in a second file, readable only by its
owner. That is obfuscation: it protects the tokens from searches and careless copies, not from readers of both files.
"""

import json
import os
import secrets as randomness
import stat
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

from adderclaw.core import home_names
from adderclaw.core.errors import AdderClawError
from adderclaw.core.json_text import canonical
from adderclaw.core.types import Json

FILE_LIMIT = 1 << 20
SCRYPT_COST, SCRYPT_BLOCK = 1 << 17, 8
SCRYPT_COSTS = (1 << 15, 1 << 20)
"""Lowest and highest accepted scrypt cost of a file: less is too weak, more would exhaust memory."""
SALT_BYTES, NONCE_BYTES, KEY_BYTES = 16, 12, 32


class VaultError(AdderClawError):
    """Stored logins cannot be used; the message contains the reason and the fix."""


class Header(NamedTuple):
    """How the key of a file is derived; authenticated together with the data."""

    derivation: str
    """`scrypt` or `key-file`."""
    cost: int = 0
    salt: str = ""

    def bytes(self) -> bytes:
        return canonical({"version": 1, **self._asdict()}).encode()


type Passphrase = Callable[[bool], str]
"""Called with True for a new file, when "" means no passphrase; otherwise "" means that it is unknown."""


class SealedFile:
    """Named texts in one encrypted file. One process at a time writes it."""

    def __init__(self, home: str, passphrase: Passphrase) -> None:
        self._home, self._passphrase = home, passphrase
        self.path = os.path.join(home, home_names.CREDENTIALS)
        self.key_path = os.path.join(home, home_names.CREDENTIALS_KEY)
        self._derived: dict[Header, bytes] = {}

    @property
    def place(self) -> str:
        return f"the encrypted file {self.path}"

    @property
    def exists(self) -> bool:
        return os.path.lexists(self.path)

    def get(self, name: str) -> str | None:
        return self._read()[1].get(name)

    def put(self, name: str, text: str) -> None:
        with self._locked():
            header, values = self._read()
            self._write(header or self._new_header(), values | {name: text})

    def delete(self, name: str) -> bool:
        """Delete an entry; returns whether it existed. Deleting the last one removes the file and its key."""
        if not self.exists:
            return False
        with self._locked():
            header, values = self._read()
            deleted = values.pop(name, None) is not None
            if header is not None and values:
                self._write(header, values)
            else:
                self.destroy()
        return deleted

    def destroy(self) -> None:
        """Remove the file and its key without opening it."""
        self._derived.clear()
        for path in (self.path, self.key_path):
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass

    # ------------------------------------------------------------------ reading and writing

    def _read(self) -> tuple[Header | None, dict[str, str]]:
        data = private_bytes(self.path)
        if data is None:
            return None, {}
        header, nonce, sealed = self._parsed(data)
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            plain = AESGCM(self._key(header)).decrypt(nonce, sealed, header.bytes())
        except InvalidTag:
            self._derived.clear()
            why = "the passphrase is wrong" if header.derivation == "scrypt" else f"{self.key_path} is not its key file"
            raise VaultError(
                f"{self.path} cannot be opened: {why}, or somebody changed the file; {self._fix}"
            ) from None
        return header, cast(dict[str, str], json.loads(plain))

    def _parsed(self, data: bytes) -> tuple[Header, bytes, bytes]:
        try:
            value: Any = json.loads(data)
            table = cast(Json, value)
            header = Header(table["derivation"], table["cost"], table["salt"])
            nonce, sealed = b64decode(table["nonce"], validate=True), b64decode(table["data"], validate=True)
            known = header.derivation == "key-file" or (
                header.derivation == "scrypt"
                and type(header.cost) is int
                and header.cost & (header.cost - 1) == 0
                and SCRYPT_COSTS[0] <= header.cost <= SCRYPT_COSTS[1]
                and len(b64decode(header.salt, validate=True)) == SALT_BYTES
            )
            if table["version"] != 1 or not known or len(nonce) != NONCE_BYTES:
                raise ValueError
        except (ValueError, KeyError, TypeError):
            raise VaultError(f"{self.path} is damaged or was not written by AdderClaw; {self._fix}") from None
        return header, nonce, sealed

    @property
    def _fix(self) -> str:
        return "`adderclaw logout --all` removes it, then log in again"

    def _write(self, header: Header, values: dict[str, str]) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = os.urandom(NONCE_BYTES)
        sealed = AESGCM(self._key(header)).encrypt(nonce, json.dumps(values).encode(), header.bytes())
        table = {"version": 1, **header._asdict(), "nonce": _text(nonce), "data": _text(sealed)}
        replace_private(self.path, canonical(table).encode() + b"\n")

    # ------------------------------------------------------------------ the key

    def _new_header(self) -> Header:
        if not self._passphrase(True):
            return Header("key-file")
        return Header("scrypt", SCRYPT_COST, _text(os.urandom(SALT_BYTES)))

    def _key(self, header: Header) -> bytes:
        if header not in self._derived:
            self._derived[header] = self._from_file() if header.derivation == "key-file" else self._from_words(header)
        return self._derived[header]

    def _from_words(self, header: Header) -> bytes:
        from hashlib import scrypt

        words = self._passphrase(False)
        if not words:
            raise VaultError(
                f"{self.path} is locked with a passphrase; set the variable that auth.passphrase_env names"
            )
        memory = 256 * header.cost * SCRYPT_BLOCK
        salt = b64decode(header.salt)
        return scrypt(words.encode(), salt=salt, n=header.cost, r=SCRYPT_BLOCK, p=1, maxmem=memory, dklen=KEY_BYTES)

    def _from_file(self) -> bytes:
        key = private_bytes(self.key_path, private=True)
        if key is None and not self.exists:
            key = os.urandom(KEY_BYTES)
            replace_private(self.key_path, key)
        if key is None or len(key) != KEY_BYTES:
            raise VaultError(f"{self.key_path}, the key of {self.path}, is missing or damaged; {self._fix}")
        return key

    @contextmanager
    def _locked(self) -> Generator[None]:
        import fcntl

        os.makedirs(self._home, mode=0o700, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(os.path.join(self._home, home_names.CREDENTIALS_LOCK), flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def private_bytes(path: str, *, private: bool = False) -> bytes | None:
    """The bytes of a regular file owned by the user, without following links; None if it does not exist."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise VaultError(f"{path} cannot be read: {error.strerror}; it must be a file of your own") from None
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise VaultError(f"{path} is not a file of your own; remove it and log in again")
        if private and status.st_mode & 0o077:
            raise VaultError(f"{path} can be read by others; `chmod 600 {path}`, and log in again if they may have")
        data = file.read(FILE_LIMIT + 1)
    if len(data) > FILE_LIMIT:
        raise VaultError(f"{path} is larger than {FILE_LIMIT} bytes, so AdderClaw did not write it")
    return data


def replace_private(path: str, data: bytes) -> None:
    """Write a file atomically, readable only by its owner from the start."""
    temporary = f"{path}.{randomness.token_hex(8)}.tmp"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(temporary, flags, 0o600), "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        raise VaultError(f"{path} cannot be written: {error.strerror}") from None
