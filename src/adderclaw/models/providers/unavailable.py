"""A provider of `model_config` whose environment is incomplete: it says so when asked, before any network I/O."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from adderclaw.core.errors import ProviderError
from adderclaw.core.types import ChatRequest, ChatResponse, OnDelta, Provider, ProviderCapabilities
from adderclaw.models.credentials.sources import LM_STUDIO_NAME, OPENAI_NAME, OPENAI_URL

if TYPE_CHECKING:
    from adderclaw.models.providers import Parts

LM_STUDIO_MODEL = "LM_STUDIO_MODEL"


def complete(parts: "Parts", maker: "Callable[[Parts], Provider]") -> Provider:
    """The provider; or, where its environment lacks something, one that fails in its place, which is recorded."""
    if parts.name == OPENAI_NAME and not parts.entry.base_url and not _set(OPENAI_URL):
        return Unavailable(parts, OPENAI_URL, None)
    if parts.name == LM_STUDIO_NAME and not parts.entry.model and not _set(LM_STUDIO_MODEL):
        return Unavailable(parts, LM_STUDIO_MODEL, maker(parts))
    return maker(parts)


def _set(variable: str) -> bool:
    return bool(os.environ.get(variable, "").strip())


class Unavailable:
    def __init__(self, parts: "Parts", variable: str, inner: Provider | None) -> None:
        self._parts, self._variable = parts, variable
        self._inner = inner
        """Answers whoever names a model."""

    @property
    def name(self) -> str:
        return self._parts.name

    def capabilities(self) -> ProviderCapabilities:
        return self._inner.capabilities() if self._inner else ProviderCapabilities()

    async def chat(self, request: ChatRequest, on_delta: OnDelta) -> ChatResponse:
        if self._inner and request.model not in ("", self._parts.config.default_model):
            return await self._inner.chat(request, on_delta)
        raise self._missing()

    def _missing(self) -> ProviderError:
        return ProviderError(
            "missing_key",
            f"provider {self.name!r}: needs the variable {self._variable}, which is not set; "
            f"set it with `export {self._variable}=…` before you start adderclaw",
            provider=self.name,
        )

    async def count(self, request: ChatRequest) -> int | None:
        return await self._inner.count(request) if self._inner else None

    async def ready(self) -> None:
        if self._inner is None:
            raise self._missing()
        await self._inner.ready()

    async def close(self) -> None:
        if self._inner:
            await self._inner.close()
