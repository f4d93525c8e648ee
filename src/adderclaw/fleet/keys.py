"""The fleet's key, which seals all stored data. Workers, operators and auditors have it; the database does not."""

import hmac
import os
from collections.abc import Mapping

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from adderclaw.core import home_names
from adderclaw.core.errors import UsageError
from adderclaw.fleet.boxes import Opener

VARIABLE = "ADDERCLAW_FLEET_KEY"
"""The key in hexadecimal; with the suffix _FILE, the path of a file that contains it."""
SECRET = (VARIABLE, f"{VARIABLE}_FILE", "ADDERCLAW_FLEET_DATABASE", "PGPASSWORD", "PGPASSFILE")
"""Variables that processes of runs never get."""
LENGTH = 32
_NONCE = 12


class Key:
    """A secret and the keys derived from it for each purpose."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != LENGTH:
            raise UsageError(f"the fleet's key has {len(secret)} bytes, not {LENGTH}; copy the complete key")
        self._secret = secret
        self._seal, self._name = AESGCM(self._made("objects")), self._made("names")
        self.id = self._made("id").hex()[:16]
        """Identifies the key without revealing it."""
        self.boxes = Opener(self._made("boxes"))
        self.own = self._made("own boxes")
        """The secret for boxes of a holder of the key: the same content gives the same box."""

    def receipts(self, run_id: str) -> bytes:
        """The key that seals the receipts of a run on every worker."""
        return self._made(f"receipts {run_id}")

    def digest(self, body: bytes) -> str:
        """The name of an object. Without the key, nobody can confirm a guess of its content."""
        return hmac.digest(self._name, body, "sha256").hex()

    def sealed(self, body: bytes, name: str) -> bytes:
        nonce = os.urandom(_NONCE)
        return nonce + self._seal.encrypt(nonce, body, name.encode())

    def opened(self, sealed: bytes, name: str) -> bytes:
        try:
            body = self._seal.decrypt(sealed[:_NONCE], sealed[_NONCE:], name.encode())
        except (InvalidTag, ValueError) as error:
            raise UsageError(f"object {name[:16]} does not open: it was changed, or sealed with another key") from error
        if not hmac.compare_digest(self.digest(body), name):
            raise UsageError(f"object {name[:16]} does not match its name: it was changed")
        return body

    def mac(self, purpose: str, text: str) -> str:
        """The MAC of a text that only holders of the key may write, such as questions and answers."""
        return hmac.digest(self._made(purpose), text.encode(), "sha256").hex()

    def _made(self, purpose: str) -> bytes:
        return HKDF(SHA256(), LENGTH, salt=None, info=f"adderclaw fleet {purpose}".encode()).derive(self._secret)


def environment_for_runs(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of the worker's environment that processes of runs and git get."""
    return {name: value for name, value in environment.items() if name not in SECRET}


def path(home: str) -> str:
    return os.path.join(home, home_names.FLEET_KEY)


def found(home: str) -> bool:
    """Whether this machine has a key. One that only submits needs none."""
    return bool(os.environ.get(VARIABLE)) or os.path.exists(os.environ.get(f"{VARIABLE}_FILE") or path(home))


def read(home: str) -> Key:
    """The key from the environment, a mounted file, or the file of this home."""
    if secret := os.environ.get(VARIABLE):
        return Key(_parse_key(secret, VARIABLE))
    file = os.environ.get(f"{VARIABLE}_FILE") or path(home)
    try:
        with open(file, encoding="ascii") as opened:
            return Key(_parse_key(opened.read(200), file))
    except (OSError, UnicodeDecodeError) as error:
        fix = f"copy fleet.key from where `fleet init` ran, or set {VARIABLE} or {VARIABLE}_FILE"
        raise UsageError(f"the fleet's key is not in {file}; {fix}") from error


def make(home: str) -> str:
    """Creates a key in this home unless there is one. Returns its path."""
    key_path = path(home)
    os.makedirs(home, mode=0o700, exist_ok=True)
    try:
        fd = os.open(key_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return key_path
    with os.fdopen(fd, "w", encoding="ascii") as file:
        file.write(f"{os.urandom(LENGTH).hex()}\n")
    return key_path


def _parse_key(text: str, source: str) -> bytes:
    try:
        return bytes.fromhex(text.strip())
    except ValueError as error:
        raise UsageError(f"{source} contains no valid key, which has {2 * LENGTH} hexadecimal digits") from error
