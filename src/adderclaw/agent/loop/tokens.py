"""How many tokens a request takes: as its provider counts them, else by its size."""

from typing import TYPE_CHECKING

from adderclaw.core.errors import ProviderError
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import ChatRequest, Provider

if TYPE_CHECKING:
    from adderclaw.agent.session.session import Session

BYTES_PER_TOKEN = 4
SAFETY = 1.2
"""An estimate may be that much too low, so it is raised by this before something is cut to fit."""


class Count(NamedTuple):
    tokens: int
    exact: bool
    """The provider counted them; else this is an estimate on the safe side."""


def estimate_tokens(size: int) -> int:
    """Tokens of so many bytes, rounded up."""
    return -(-size // BYTES_PER_TOKEN)


async def count_tokens(provider: Provider, request: ChatRequest, head: int = 0) -> Count:
    """Tokens of a request; `head` is the size of what stands before its messages, for the estimate."""
    try:
        tokens = await provider.count(request)
    except ProviderError:
        tokens = None  # what cannot be counted can still be estimated
    if tokens is not None:
        return Count(tokens, exact=True)
    return Count(int(estimate_tokens(request.messages.size + head) * SAFETY), exact=False)


def context_parts(session: "Session") -> dict[str, int]:
    """What the next request is made of → estimated tokens."""
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
