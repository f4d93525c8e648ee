"""What a verdict rests on, kept beside the run: named by its content, in bounds, never written twice."""

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
"""Of one file; a longer text is cut, a larger picture is left out."""
MOST_ALL = 64 << 20
"""Of all that one run keeps."""
ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/webp": "webp", "image/gif": "gif"}


class Keeper:
    """Keeps the evidence of one run; what cannot be kept is said, and the rows have it all the same."""

    def __init__(self, folder: WorkspacePath, secrets: Secrets) -> None:
        """`folder` is the run's own."""
        self._folder, self._secrets = folder, secrets
        self._used = 0
        self.left_out = 0

    def keep(self, cited: Cited) -> Json:
        """Where each part of a result is kept: digest, kind and size."""
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
    """What was kept, if it is still what it was."""
    try:
        data, _ = workspace.read_head(folder / str(part["file"]), MOST_BYTES + 1)
    except (OSError, PathRefused):
        return None
    return data if hashlib.sha256(data).hexdigest() == part["sha256"] else None
