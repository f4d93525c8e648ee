"""The recorded answers in `corpus/`: what each says is in the `expected.json` beside it."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from adderclaw.core.types import ChatResponse
from tests.scripted import Step

CORPUS = Path(__file__).with_name("corpus")


class Recorded(NamedTuple):
    """A body as a server sent it. `error_NAME.STATUS.json` came with that status."""

    path: Path
    expected: dict[str, Any]

    @property
    def text(self) -> str:
        return self.path.read_bytes().decode()

    @property
    def streamed(self) -> bool:
        return self.path.suffix == ".sse"

    @property
    def status(self) -> int:
        status = self.path.stem.rpartition(".")[2]
        return int(status) if status.isdigit() else 200

    @property
    def quirk(self) -> bool:
        """The vendors' SDK cannot read it."""
        return self.path.name.startswith("quirk_")

    @property
    def step(self) -> Step:
        if self.status != 200:
            return {"error": {"status": self.status, "body": json.loads(self.text)}}
        kind = "text/event-stream" if self.streamed else "application/json"
        return {"raw": self.text, "content_type": kind}

    def __str__(self) -> str:
        return f"{self.path.parent.name}/{self.path.name}"


def recorded(*wires: str) -> list[Recorded]:
    """Every file of these wires; one without an expectation, and an expectation without its file, is an error."""
    found: list[Recorded] = []
    for wire in wires:
        expected = json.loads((CORPUS / wire / "expected.json").read_text(encoding="utf-8"))
        files = {path.name for path in (CORPUS / wire).iterdir()} - {"expected.json"}
        assert files == expected.keys(), files ^ expected.keys()
        found += [Recorded(CORPUS / wire / name, expected[name]) for name in sorted(files)]
    return found


def summary(response: ChatResponse) -> dict[str, Any]:
    """What must be the same, however the bytes came and whoever reads them."""
    usage = response.usage
    return {
        "text": response.final_text,
        "calls": [[call.id, call.name, call.arguments] for call in response.tool_calls],
        "usage": [usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens],
        "stop_reason": response.stop_reason,
    }
