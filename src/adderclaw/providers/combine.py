"""Providers made of providers: `reliable` tries them in order and falls back when one cannot answer."""

from dataclasses import replace
from typing import NamedTuple

from adderclaw.errors import ProviderError
from adderclaw.providers import Parts, make, misconfigured
from adderclaw.types import ChatRequest, ChatResponse, OnDelta, Provider, ProviderCapabilities

COOLDOWN_SECONDS = 60.0
COOLING_KINDS = frozenset({"rate_limit", "authentication_failed", "billing_error"})
"""What does not pass by asking again at once."""


class Member(NamedTuple):
    provider: Provider
    model: str | None
    """Its own model; None leaves the one of the request."""


def reliable(parts: Parts) -> "Reliable":
    if not parts.entry.providers:
        misconfigured(parts.name, "providers", "is empty; name the providers to try, in order")
    for name in parts.entry.providers:
        if parts.entry.providers.count(name) > 1:
            misconfigured(parts.name, "providers", f"names {name!r} twice; remove one")
    members: list[Member] = []
    for name in parts.entry.providers:
        provider = make(name, parts.config, secrets=parts.secrets, tell=parts.tell, clock=parts.clock, seen=parts.seen)
        members.append(Member(provider, parts.config.providers.models[name].model))
    return Reliable(parts, members)


class Reliable:
    def __init__(self, parts: Parts, members: list[Member]) -> None:
        self._parts, self._members = parts, members
        self._cool_until: dict[str, float] = {}

    @property
    def name(self) -> str:
        return self._parts.name

    def capabilities(self) -> ProviderCapabilities:
        """What all of them can do: the answer may come from any."""
        each = [member.provider.capabilities() for member in self._members]
        windows = [one.context_tokens for one in each if one.context_tokens is not None]
        return ProviderCapabilities(
            streaming=all(one.streaming for one in each),
            tools=all(one.tools for one in each),
            tool_choice=all(one.tool_choice for one in each),
            images=all(one.images for one in each),
            context_tokens=min(windows, default=None),
        )

    async def chat(self, request: ChatRequest, on_delta: OnDelta) -> ChatResponse:
        """The answer of the first that gives one. Every attempt tells its deltas, the failed ones too."""
        failures: list[ProviderError] = []
        order = self._order()
        for place, member in enumerate(order):
            theirs = replace(request, model=member.model) if member.model else request
            try:
                response = await member.provider.chat(theirs, on_delta)
            except ProviderError as error:
                if error.kind not in ProviderError.FALLBACK:
                    raise
                failures.append(error)
                self._failed(member, error, order[place + 1 :])
                continue
            self._cool_until.pop(member.provider.name, None)
            return response
        raise self._all_failed(failures)

    async def count(self, request: ChatRequest) -> int | None:  # noqa: ARG002 - it has no such service
        return None

    async def close(self) -> None:
        for member in self._members:
            await member.provider.close()

    def finished(self) -> str | None:
        """The complaint of a scripted member that has steps left over."""
        complaints = (getattr(member.provider, "finished", lambda: None)() for member in self._members)
        return next((complaint for complaint in complaints if complaint), None)

    def _order(self) -> list[Member]:
        """Those that failed lately with no hope come last, the one that cools longest at the very end."""
        now = self._parts.clock.monotonic()
        return sorted(self._members, key=lambda member: max(0.0, self._cool_until.get(member.provider.name, 0.0) - now))

    def _failed(self, member: Member, error: ProviderError, rest: list[Member]) -> None:
        if error.kind in COOLING_KINDS:
            pause = max(COOLDOWN_SECONDS, error.retry_after or 0.0)
            self._cool_until[member.provider.name] = self._parts.clock.monotonic() + pause
        if rest:
            self._parts.tell(
                {
                    "event_type": "provider_fallback",
                    "provider": member.provider.name,
                    "next": rest[0].provider.name,
                    "error": error.kind,
                    "reason": str(error),
                }
            )

    def _all_failed(self, failures: list[ProviderError]) -> ProviderError:
        """The last error that may pass by itself, so that the kernel asks again; else the last. It lists them all."""
        last = next((error for error in reversed(failures) if error.retryable), failures[-1])
        listed = "; ".join(f"{error.provider} ({error.kind}): {error}" for error in failures)
        return ProviderError(
            last.kind,
            f"provider {self.name!r}: all {len(failures)} failed: {listed}",
            provider=self.name,
            status=last.status,
            retry_after=last.retry_after,
        )
