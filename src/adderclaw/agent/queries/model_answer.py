"""Asks a configured model for one word, to see whether it answers."""

from adderclaw.agent.run import Runtime
from adderclaw.core.history import History
from adderclaw.core.types import ChatRequest, Message, TextBlock
from adderclaw.models import providers


async def one_word(runtime: Runtime, name: str) -> tuple[float, str]:
    """Ask a model for one word: the milliseconds until it had answered, and what it said. Raises ProviderError."""
    clock = runtime.clock
    provider = providers.make(
        name,
        runtime.config,
        secrets=runtime.secrets,
        tell=runtime.bus.publish,
        clock=clock,
        credentials=runtime.credentials,
    )
    began = clock.monotonic()
    try:
        request = probe_request("Reply with the one word: ready", providers.model_of(name, runtime.config))
        response = await provider.chat(request, lambda _delta: None)
    finally:
        await provider.close()
    return round((clock.monotonic() - began) * 1000, 1), response.final_text.strip()


def probe_request(text: str, model: str) -> ChatRequest:
    history = History([Message("user", (TextBlock(text),))])
    return ChatRequest("You are being tested by your operator. Be brief.", history, (), model)
