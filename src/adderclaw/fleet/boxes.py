"""Sealed boxes: submitters store files that only holders of the fleet's key can open.

Sealing needs only the fleet's public key: X25519 with a key of its own for each box, HKDF, AES-GCM. The box contains
the submitter's name, and a worker opens it only for runs of that submitter, so nobody can submit a run on the files of
another. The name of a box is the hash of its stored bytes, so a replaced box is detected.
"""

import hashlib
import os
import re

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from adderclaw.core.errors import UsageError

PREFIX = "box-"
BOX = re.compile(r"box-[0-9a-f]{64}")
"""The name of a box."""
LENGTH = 32
_NONCE = bytes(12)
"""The same for all boxes, because boxes with different contents never have the same key."""


def is_box(name: str) -> bool:
    return name.startswith(PREFIX)


class Sealer:
    """Seals the boxes of one submitter."""

    def __init__(self, public: bytes, submitter: str, own: bytes = b"") -> None:
        """`own`: a secret of the submitter, so that the same content always gives the same box."""
        self._public, self._submitter, self._own = public, submitter, own or os.urandom(LENGTH)

    def sealed(self, body: bytes) -> tuple[str, bytes]:
        """The name of the box, and the box."""
        whose = self._submitter.encode()
        inside = len(whose).to_bytes(2) + whose + body
        once = X25519PrivateKey.from_private_bytes(_derived(self._own, hashlib.sha256(inside).digest()))
        shared = once.exchange(X25519PublicKey.from_public_bytes(self._public))
        own_public = once.public_key().public_bytes_raw()
        box = own_public + AESGCM(_derived(shared, own_public + self._public)).encrypt(_NONCE, inside, None)
        return PREFIX + hashlib.sha256(box).hexdigest(), box


class Opener:
    """Opens boxes with the fleet's key."""

    def __init__(self, secret: bytes) -> None:
        self._private = X25519PrivateKey.from_private_bytes(secret)
        self.public = self._private.public_key().public_bytes_raw()

    def opened(self, box: bytes, name: str) -> tuple[str, bytes]:
        """The submitter of a box, and its content."""
        if PREFIX + hashlib.sha256(box).hexdigest() != name:
            raise UsageError(f"object {name[:16]} does not match its name: it was changed")
        own_public = box[:LENGTH]
        try:
            shared = self._private.exchange(X25519PublicKey.from_public_bytes(own_public))
            inside = AESGCM(_derived(shared, own_public + self.public)).decrypt(_NONCE, box[LENGTH:], None)
        except (InvalidTag, ValueError) as error:
            raise UsageError(f"object {name[:16]} does not open: it was sealed for another fleet's key") from error
        length = int.from_bytes(inside[:2])
        return inside[2 : 2 + length].decode("utf-8", "replace"), inside[2 + length :]


def public(text: str, path: str) -> bytes:
    """Parses a fleet's public key from fleet.toml."""
    if re.fullmatch(r"[0-9a-f]{64}", text) is None:
        raise UsageError(f"{path} contains no valid public key of a fleet, which has {2 * LENGTH} hexadecimal digits")
    return bytes.fromhex(text)


def _derived(secret: bytes, about: bytes) -> bytes:
    return HKDF(SHA256(), LENGTH, salt=None, info=b"adderclaw fleet box " + about).derive(secret)
