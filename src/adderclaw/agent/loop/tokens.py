"""Counts the tokens of a request: by its provider, or estimated from its size."""

from typing import TYPE_CHECKING

from adderclaw.core.errors import ProviderError
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import ChatRequest, Provider

if TYPE_CHECKING:
    from adderclaw.agent.session.session import Session

BYTES_PER_TOKEN = 4
SAFETY = 1.2
"""Factor by which an estimate is raised before anything is cut to fit, since it may be too low."""


class Count(NamedTuple):
    tokens: int
    exact: bool
    """Whether the provider counted them; else `tokens` is a high estimate."""


def estimate_tokens(size: int) -> int:
    """The estimated number of tokens of so many bytes, rounded up."""
    return -(-size // BYTES_PER_TOKEN)


async def count_tokens(provider: Provider, request: ChatRequest, head: int = 0) -> Count:
    """Count the tokens of a request. `head`: the size of the prompt before the messages, for the estimate."""
    try:
        tokens = await provider.count(request)
    except ProviderError:
        tokens = None  # estimate instead
    if tokens is not None:
        return Count(tokens, exact=True)
    return Count(int(estimate_tokens(request.messages.size + head) * SAFETY), exact=False)


def context_parts(session: "Session") -> dict[str, int]:
    """Part of the next request → its estimated tokens."""
    import json

    tools = sum(len(json.dumps(tool.parameters)) + len(tool.description) for tool in session.prompt.tools)
    files = len(session.instructions.text) if session.instructions is not None else 0
    sizes = {
        "system prompt": len(session.prompt.system.encode()) - files,
        "instruction files": files,
        f"{len(session.prompt.tools)} tools": tools,
        "conversation": session.state.history.size,
    }
    return {name: estimate_tokens(size) for name, size in sizes.items()}
