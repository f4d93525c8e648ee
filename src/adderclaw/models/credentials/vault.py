"""Stores logins in the system's keyring if there is a real one, otherwise in the encrypted file."""

import hashlib
import json
import os
from importlib import import_module
from typing import Any, Literal, Protocol

from adderclaw.core import home_names
from adderclaw.models.credentials.encrypted_file import Passphrase, SealedFile, VaultError

SERVICE = "adderclaw"

BACK_ENDS: tuple[tuple[str, str], ...] = (
    ("keyring.backends.macOS", "Keyring"),
    ("keyring.backends.SecretService", "Keyring"),
    ("keyring.backends.libsecret", "Keyring"),
    ("keyring.backends.kwallet", "DBusKeyring"),
)
"""The real keyrings. The `keyring` package's own choice might be a plug-in, a plain file or a dummy."""


class Vault(Protocol):
    """Named texts, stored where others cannot read them."""

    @property
    def place(self) -> str:
        """Where the texts are stored, for display."""
        ...

    def get(self, name: str) -> str | None: ...
    def put(self, name: str, text: str) -> None: ...
    def delete(self, name: str) -> bool: ...


def open_vault(storage: Literal["auto", "keyring", "file"], home: str, passphrase: Passphrase) -> Vault:
    """Open the vault that `auth.storage` selects."""
    sealed = SealedFile(home, passphrase)
    if storage == "file":
        return sealed
    ring = system_ring(home)
    if storage == "keyring":
        if ring is None:
            raise VaultError('auth.storage is "keyring", but no keyring answers here; unlock it, or set it to "file"')
        return ring
    return KeyringAndFile(ring, sealed) if ring is not None else sealed


def names_in(home: str) -> list[str]:
    """All names under which this home ever stored a text in the keyring."""
    try:
        with open(os.path.join(home, home_names.KEYRING_NAMES), encoding="utf-8") as file:
            names = [json.loads(line) for line in file if line.strip()]
    except (OSError, ValueError):
        return []
    return [name for name in dict.fromkeys(names) if isinstance(name, str)]


class Ring:
    """The system's keyring."""

    def __init__(self, back_end: Any, home: str) -> None:
        self._back_end = back_end
        self._home = home
        self._owner = hashlib.sha256(os.fsencode(home)).hexdigest()[:12]

    @property
    def place(self) -> str:
        return f"the system's keyring ({type(self._back_end).__module__.rpartition('.')[2]})"

    def _user(self, name: str) -> str:
        """The account of a name in the keyring; it includes the home, so that two homes share no entries."""
        return f"{name}@{self._owner}"

    def get(self, name: str) -> str | None:
        return self._asked("get_password", name)

    def put(self, name: str, text: str) -> None:
        self._note(name)  # first, because an entry without a recorded name could not be found again
        self._asked("set_password", name, text)

    def _note(self, name: str) -> None:
        """Record a name in the home folder, because a keyring cannot be listed."""
        if name not in names_in(self._home):
            os.makedirs(self._home, mode=0o700, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(
                os.open(os.path.join(self._home, home_names.KEYRING_NAMES), flags, 0o600), "a", encoding="utf-8"
            ) as file:
                file.write(f"{json.dumps(name)}\n")

    def delete(self, name: str) -> bool:
        if self.get(name) is None:
            return False
        self._asked("delete_password", name)
        return True

    def _asked(self, method: str, name: str, *more: str) -> Any:
        try:
            return getattr(self._back_end, method)(SERVICE, self._user(name), *more)
        except Exception as error:  # noqa: BLE001 - each back end has its own exceptions
            why = type(error).__name__  # its text may contain the secret
            raise VaultError(f"{self.place} refused ({why}); unlock it, or set auth.storage to file") from None


class KeyringAndFile:
    """Writes to the keyring, and also reads entries that were written to the file before a keyring was available."""

    def __init__(self, ring: Ring, sealed: SealedFile) -> None:
        self._ring, self._sealed = ring, sealed

    @property
    def place(self) -> str:
        return self._ring.place

    def get(self, name: str) -> str | None:
        text = self._ring.get(name)
        return text if text is not None or not self._sealed.exists else self._sealed.get(name)

    def put(self, name: str, text: str) -> None:
        self._ring.put(name, text)
        self._sealed.delete(name)

    def delete(self, name: str) -> bool:
        return any([self._ring.delete(name), self._sealed.delete(name)])


def system_ring(home: str) -> Ring | None:
    """The first real keyring that answers."""
    for module, name in BACK_ENDS:
        try:
            back_end = getattr(import_module(module), name)
            if back_end.priority > 0:
                return Ring(back_end(), home)
        except Exception:  # noqa: BLE001, S112 - unusable back ends raise various exceptions
            continue
    return None
