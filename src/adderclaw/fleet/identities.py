"""The keys that workers and submitters sign with, and the list of workers whose keys an operator enrolled."""

import os
import re

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from adderclaw.core import home_names
from adderclaw.core.errors import UsageError
from adderclaw.fleet.database import Cursor, Database

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


class Identity:
    """A worker's or a submitter's own key, which never leaves the machine."""

    def __init__(self, name: str, key: Ed25519PrivateKey) -> None:
        self.name, self._key = name, key

    @property
    def public(self) -> str:
        return self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()

    def sign(self, text: bytes) -> str:
        return self._key.sign(text).hex()


def identity(home: str, name: str) -> Identity:
    """The worker's identity in this home, created on first use."""
    if NAME.fullmatch(name) is None:
        raise UsageError(
            f"{name!r} is not a valid worker name: use letters, digits, dots and dashes, at most 63 characters"
        )
    return Identity(name, load_or_create_key(os.path.join(home, home_names.FLEET_WORKER_KEY)))


def load_or_create_key(path: str) -> Ed25519PrivateKey:
    """The private key in this file, created on first use."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        with open(path, "rb") as file:
            body = file.read(100)
        try:
            return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(body.decode("ascii").strip()))
        except ValueError as error:
            fix = "restore it, or remove it and enroll again"
            raise UsageError(f"{path} does not contain a private key of 64 hexadecimal digits; {fix}") from error
    key = Ed25519PrivateKey.generate()
    with os.fdopen(fd, "w", encoding="ascii") as file:
        file.write(f"{key.private_bytes_raw().hex()}\n")
    return key


def enrol(database: Database, name: str, public: str) -> None:
    """Records that this key belongs to this worker."""
    if re.fullmatch(r"[0-9a-f]{64}", public) is None:
        raise UsageError(f"{public!r} is not a public key, which has 64 hexadecimal digits")

    def work(cursor: Cursor) -> None:
        row = cursor.execute("SELECT public_key, revoked FROM fleet.identities WHERE name = %s", (name,)).fetchone()
        if row is not None and row.public_key != public:
            raise UsageError(f"worker {name} is enrolled with another key; choose another name for this one")
        cursor.execute(
            "INSERT INTO fleet.identities (name, public_key) VALUES (%s, %s)"
            " ON CONFLICT (name) DO UPDATE SET revoked = NULL",
            (name, public),
        )

    database.do(work)


def require_enrolled(database: Database, who: Identity) -> None:
    row = database.one("SELECT public_key, revoked FROM fleet.identities WHERE name = %s", who.name)
    if row is None or row.public_key != who.public or row.revoked is not None:
        why = "is not enrolled" if row is None else "was revoked" if row.revoked else "is enrolled with another key"
        fix = f"the operator enrolls it: adderclaw fleet enroll {who.name} {who.public}"
        raise UsageError(f"worker {who.name} {why}; {fix}")


def signed_by(public: str, text: bytes, signature: str) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(bytes.fromhex(signature), text)
    except (InvalidSignature, ValueError):
        return False
    return True
