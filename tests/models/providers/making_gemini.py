"""How these tests make a provider of kind gemini, and where its corpus of answers is."""

import json
from pathlib import Path
from typing import Any, cast

from adderclaw.config.schema import ProviderEntry
from adderclaw.core.types import ChatRequest, ChatResponse, Delta, Json
from adderclaw.models.providers.gemini import Gemini
from tests.models.providers.making import House, ask, request
from tests.scripted_gemini import ScriptedGemini

CANARY = "AIzaCanary-0123456789abcdefghijklmnopqr"
CORPUS = Path(__file__).parent / "corpus" / "gemini"
STREAMS = sorted(CORPUS.glob("*.sse"))
ANSWERS = [*STREAMS, *sorted(CORPUS.glob("*.json"))]
ERRORS = sorted((CORPUS / "errors").glob("*.json"))


def gemini_entry(base_url: str | None, **more: Any) -> ProviderEntry:
    fields: dict[str, Any] = {"kind": "gemini", "base_url": base_url, "model": "gemini-2.5-flash", **more}
    return ProviderEntry(**fields)


def gemini(base_url: str | None, **more: Any) -> Gemini:
    provider = House({"g": gemini_entry(base_url, **more)}).make("g")
    assert isinstance(provider, Gemini)
    return provider


def asking(*messages: Any, **more: Any) -> ChatRequest:
    return request(*messages, **{"model": "", **more})


def played(body: bytes, content_type: str, heard: list[Delta] | None = None, **step: Any) -> ChatResponse:
    """What a provider makes of these bytes, sent by a real server."""
    with ScriptedGemini([{"raw": body.decode(), "content_type": content_type, **step}]) as model:
        return ask(gemini(model.base_url), asking(), heard=heard)[0]


def error_in(file: Path) -> tuple[Any, Json]:
    """The body of an error of the corpus, and the object in it that tells of the error."""
    body = json.loads(file.read_text(encoding="utf-8"))
    return body, cast(list[Json], body if isinstance(body, list) else [body])[0]


def type_of(file: Path) -> str:
    return "text/event-stream" if file.suffix == ".sse" else "application/json"
