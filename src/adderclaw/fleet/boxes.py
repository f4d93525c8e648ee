"""Sealed boxes: who submits puts files away that only holders of the fleet's key can open, and reads nobody's.

A box needs the fleet's public key alone: X25519 with a key that no other box has, HKDF, AES-GCM. The name of the
submitter is inside: a worker opens a box for runs of that submitter, so that nobody submits a run on the files of
another. A box is called by the hash of what is stored: whoever replaces it is found out.
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
"""What a box is called."""
LENGTH = 32
_NONCE = bytes(12)
"""One for all: no two boxes with another content have the same key."""


def is_box(name: str) -> bool:
    return name.startswith(PREFIX)


class Sealer:
    """The side of a submitter."""

    def __init__(self, public: bytes, submitter: str, own: bytes = b"") -> None:
        """`own`: a secret of whoever submits, with which the same content makes the same box."""
        self._public, self._submitter, self._own = public, submitter, own or os.urandom(LENGTH)

    def sealed(self, body: bytes) -> tuple[str, bytes]:
        """What the box is called, and the box."""
        whose = self._submitter.encode()
        inside = len(whose).to_bytes(2) + whose + body
        once = X25519PrivateKey.from_private_bytes(_derived(self._own, hashlib.sha256(inside).digest()))
        shared = once.exchange(X25519PublicKey.from_public_bytes(self._public))
        beside = once.public_key().public_bytes_raw()
        box = beside + AESGCM(_derived(shared, beside + self._public)).encrypt(_NONCE, inside, None)
        return PREFIX + hashlib.sha256(box).hexdigest(), box


class Opener:
    """The side of whoever has the fleet's key."""

    def __init__(self, secret: bytes) -> None:
        self._private = X25519PrivateKey.from_private_bytes(secret)
        self.public = self._private.public_key().public_bytes_raw()

    def opened(self, box: bytes, name: str) -> tuple[str, bytes]:
        """Whose it is, and what is inside."""
        if PREFIX + hashlib.sha256(box).hexdigest() != name:
            raise UsageError(f"object {name[:16]} does not match its name: it was changed")
        beside = box[:LENGTH]
        try:
            shared = self._private.exchange(X25519PublicKey.from_public_bytes(beside))
            inside = AESGCM(_derived(shared, beside + self.public)).decrypt(_NONCE, box[LENGTH:], None)
        except (InvalidTag, ValueError) as error:
            raise UsageError(f"object {name[:16]} does not open: it was sealed for another fleet's key") from error
        length = int.from_bytes(inside[:2])
        return inside[2 : 2 + length].decode("utf-8", "replace"), inside[2 + length :]


def public(text: str, path: str) -> bytes:
    """A fleet's public key as fleet.toml has it."""
    if re.fullmatch(r"[0-9a-f]{64}", text) is None:
        raise UsageError(f"{path} has no public key of a fleet: {2 * LENGTH} hexadecimal digits are expected")
    return bytes.fromhex(text)


def _derived(secret: bytes, about: bytes) -> bytes:
    return HKDF(SHA256(), LENGTH, salt=None, info=b"adderclaw fleet box " + about).derive(secret)
