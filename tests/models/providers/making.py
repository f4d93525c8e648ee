"""How these tests make providers, requests and a history."""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from adderclaw.config.schema import Config, ModelEntry, ProviderEntry, Providers, Runtime
from adderclaw.core.events import Body
from adderclaw.core.history import History
from adderclaw.core.redaction import Secrets
from adderclaw.core.types import (
    ChatRequest,
    ChatResponse,
    Delta,
    Message,
    Provider,
    TextBlock,
    ToolCall,
    ToolResultBlock,
    ToolSpec,
    ToolUseBlock,
)
from adderclaw.models import providers

READ = ToolSpec("Read", "Reads a file.", {"type": "object", "properties": {"file_path": {"type": "string"}}})


class Time:
    """A clock that stands still, and moves when somebody sleeps."""

    def __init__(self) -> None:
        self.at = 1_000_000.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds


class House:
    """Providers made from entries, with everything that they tell."""

    def __init__(
        self, entries: Mapping[str, ProviderEntry], *, max_response_bytes: int = 1_048_576, thinks: bool = False
    ) -> None:
        self.config = Config(
            providers=Providers(models=dict(entries)),
            runtime=Runtime(max_response_bytes=max_response_bytes),
            default_model="fallback-model",
            models={} if thinks else {"*": ModelEntry(thinking=False)},  # then only who asks for it gets it
        )
        self.secrets = Secrets()
        self.time = Time()
        self.told: list[Body] = []

    def make(self, name: str) -> Provider:
        return providers.make(name, self.config, secrets=self.secrets, tell=self.told.append, clock=self.time)


def chat_entry(base_url: str, **more: Any) -> ProviderEntry:
    fields: dict[str, Any] = {"kind": "openai-compatible", "base_url": base_url, "model": "m", **more}
    return ProviderEntry(**fields)


def user(text: str) -> Message:
    return Message("user", (TextBlock(text),))


def called(call_id: str, name: str, arguments: dict[str, Any] | None, text: str = "") -> Message:
    said = (TextBlock(text),) if text else ()
    return Message("assistant", (*said, ToolUseBlock(ToolCall(call_id, name, arguments))))


def result(call_id: str, content: str, *, is_error: bool = False) -> Message:
    return Message("user", (ToolResultBlock(call_id, content, is_error),))


def request(*messages: Message, **more: Any) -> ChatRequest:
    history = History(messages or (user("hello"),))
    fields: dict[str, Any] = {"system_prompt": "be good", "messages": history, "tools": (), "model": "m", **more}
    return ChatRequest(**fields)


class Heard(list[Delta]):
    """Deltas as they came."""

    @property
    def text(self) -> str:
        return "".join(delta.text for delta in self if delta.kind == "text")


def ask(provider: Provider, *requests: ChatRequest, heard: list[Delta] | None = None) -> list[ChatResponse]:
    """Ask one after the other in one event loop, then close the provider."""

    async def each() -> list[ChatResponse]:
        try:
            return [await provider.chat(one, (heard if heard is not None else []).append) for one in requests]
        finally:
            await provider.close()

    return run(each())


def run[T](work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)
