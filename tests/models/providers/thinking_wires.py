"""The wires on which a model can be told how much to think, each against a server that notes what was sent."""

from collections.abc import Iterable, Mapping
from typing import Any

from adderclaw.config.schema import ProviderEntry
from adderclaw.core.events import Body
from adderclaw.core.types import ChatRequest, Delta, Json
from tests.models.providers.making import House, ask
from tests.scripted import ScriptedModel
from tests.scripted_anthropic import ScriptedMessages
from tests.scripted_gemini import ScriptedGemini
from tests.scripted_responses import ScriptedResponses

KEYS = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
    "gemini": "GEMINI_API_KEY",
}
"""Kind → the variable of its key."""
SERVERS: dict[str, Any] = {"anthropic": ScriptedMessages, "openai": ScriptedResponses, "gemini": ScriptedGemini}


def server(kind: str, steps: Iterable[Mapping[str, object]]) -> Any:
    return SERVERS.get(kind, ScriptedModel)(list(steps))


def asked(
    kind: str,
    *requests: ChatRequest,
    steps: Iterable[Mapping[str, object]] = (),
    told: list[Body] | None = None,
    heard: list[Delta] | None = None,
    **entry: Any,
) -> list[Json]:
    """What a server of this kind was sent, for each of the steps that it played."""
    with server(kind, steps or [{"text": "ok"} for _ in requests]) as model:
        fields: dict[str, Any] = {"kind": kind, "base_url": model.base_url, "model": "m", **entry}
        house = House({"p": ProviderEntry(**fields)}, thinks=True)
        ask(house.make("p"), *requests, heard=heard)
    assert not model.complaints
    if told is not None:
        told += house.told
    return [one.json for one in (model.asked if isinstance(model, ScriptedGemini) else model.requests)]


def said(body: Json) -> Json:
    """What a request says of thinking, and nothing else of it."""
    found = {
        name: body[name]
        for name in ("thinking", "output_config", "reasoning", "reasoning_effort", "temperature", "tool_choice")
        if name in body
    }
    config: Json = body.get("generationConfig", {})
    return found | ({"thinkingConfig": config["thinkingConfig"]} if "thinkingConfig" in config else {})
