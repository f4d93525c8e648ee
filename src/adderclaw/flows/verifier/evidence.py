"""Stores the evidence of a verdict in the run's folder, named by its content and within size limits."""

import base64
import binascii
import hashlib

from adderclaw.agent.view.markup import PICTURES
from adderclaw.core.errors import PathRefused
from adderclaw.core.redaction import Secrets
from adderclaw.core.types import Json
from adderclaw.flows.verifier.results import Cited
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import WorkspacePath
from adderclaw.sandbox.workspace.traces import EVIDENCE as FOLDER

MOST_BYTES = 4 << 20
"""The limit for a file; a longer text is cut, a larger picture is left out."""
MOST_ALL = 64 << 20
"""The limit for a run."""
ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/webp": "webp", "image/gif": "gif"}


class Keeper:
    """Stores the evidence of a run, and counts what could not be stored. The transcript has it in any case."""

    def __init__(self, folder: WorkspacePath, secrets: Secrets) -> None:
        """`folder` is the run's folder."""
        self._folder, self._secrets = folder, secrets
        self._used = 0
        self.left_out = 0

    def keep(self, cited: Cited) -> Json:
        """Stores the parts of a result and returns the file, digest, kind and size of each."""
        text = self._secrets.scrub(cited.text).encode("utf-8", "replace")[:MOST_BYTES]
        seen = [picture for picture in cited.media if picture.media_type in PICTURES]
        parts = [
            self._part(text, "text/plain", "txt"),
            *(self._part(_decoded(picture.data), picture.media_type, ENDINGS[picture.media_type]) for picture in seen),
        ]
        about = {"id": cited.id, "tool_use_id": cited.tool_use_id, "tool": cited.tool, "is_error": cited.is_error}
        return {**about, "input": self._secrets.clean(cited.input), "kept": [part for part in parts if part]}

    def _part(self, data: bytes, kind: str, ending: str) -> Json | None:
        if not data or len(data) > MOST_BYTES or self._used + len(data) > MOST_ALL:
            self.left_out += 1
            return None
        digest = hashlib.sha256(data).hexdigest()
        file = self._folder / f"{FOLDER}/{digest}.{ending}"
        try:
            workspace.write(file, data, mode=0o600)
        except (OSError, PathRefused):
            self.left_out += 1
            return None
        self._used += len(data)
        return {"file": f"{FOLDER}/{digest}.{ending}", "sha256": digest, "media_type": kind, "bytes": len(data)}


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return b""


def kept(folder: WorkspacePath, part: Json) -> bytes | None:
    """The content of a stored part, if it is unchanged."""
    try:
        data, _ = workspace.read_head(folder / str(part["file"]), MOST_BYTES + 1)
    except (OSError, PathRefused):
        return None
    return data if hashlib.sha256(data).hexdigest() == part["sha256"] else None
