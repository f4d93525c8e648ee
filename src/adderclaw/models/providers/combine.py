"""Providers composed of others: `reliable` tries them in order, `router` chooses one for each request."""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple
from weakref import WeakKeyDictionary

from adderclaw.config.model_facts.catalogue import ModelFacts, facts_of, first_answering, own_model
from adderclaw.core.deltas import DeltaRelay
from adderclaw.core.errors import ProviderError, ProviderErrorKind
from adderclaw.core.types import ChatRequest, ChatResponse, Clock, OnDelta, Provider, ProviderCapabilities
from adderclaw.models.providers import Parts, misconfigured, model_of

COOLDOWN_SECONDS = 60.0
COOLING_KINDS = frozenset({"rate_limit", "authentication_failed", "billing_error"})
"""Errors that an immediate retry does not solve."""
MISSING_KINDS = frozenset({"network", "timeout", "server_error"})
"""Errors that may be transient; two in a row start a cooldown."""
BYTES_PER_TOKEN = 4


class Member(NamedTuple):
    provider: Provider
    model: str | None
    """The member's own model; None uses the model of the request."""
    facts: ModelFacts

    @property
    def name(self) -> str:
        return self.provider.name

    @property
    def window(self) -> int | None:
        return self.provider.capabilities().context_tokens or self.facts.context_tokens

    @property
    def sees(self) -> bool:
        return self.provider.capabilities().images or self.facts.vision

    def of(self, request: ChatRequest) -> ChatRequest:
        return replace(request, model=self.model) if self.model else request


def _member(parts: Parts, name: str) -> Member:
    provider = parts.another(name)
    served = first_answering(name, model_of(name, parts.config), parts.config)
    return Member(provider, own_model(name, parts.config), facts_of(*served, parts.config))


async def _close(members: Iterable[Member]) -> None:
    for member in members:
        await member.provider.close()


def _complaint(members: Iterable[Member]) -> str | None:
    """The complaint of a scripted member with unused steps."""
    complaints = (getattr(member.provider, "finished", lambda: None)() for member in members)
    return next((complaint for complaint in complaints if complaint), None)


# ------------------------------------------------------------------ reliable


class Health:
    """The recent health of a provider, shared by all its users in this process."""

    def __init__(self) -> None:
        self.rests_until = 0.0
        self.stated = False
        """The server itself set the time, so it is not called before."""
        self.kind: ProviderErrorKind = "unknown"
        self.misses = 0

    def answered(self) -> None:
        self.rests_until, self.stated, self.misses = 0.0, False, 0

    def failed(self, error: ProviderError, now: float) -> None:
        self.kind = error.kind
        self.misses = self.misses + 1 if error.kind in MISSING_KINDS else 0
        self.stated = error.retry_after is not None
        if error.retry_after is not None:
            self.rests_until = now + error.retry_after
        elif error.kind in COOLING_KINDS or self.misses > 1:
            self.rests_until = now + COOLDOWN_SECONDS


_health: WeakKeyDictionary[Clock, dict[str, Health]] = WeakKeyDictionary()
"""The health of providers, by the clock of its times."""


def reliable(parts: Parts) -> "Reliable":
    names = parts.entry.providers
    if not names:
        misconfigured(parts.name, "providers", "is empty; name the providers to try, in order")
    for name in names:
        if names.count(name) > 1:
            misconfigured(parts.name, "providers", f"names {name!r} twice; remove one")
    return Reliable(parts, [_member(parts, name) for name in names])


class Reliable:
    def __init__(self, parts: Parts, members: list[Member]) -> None:
        self._parts, self._members = parts, members
        known = _health.setdefault(parts.clock, {})
        self._health = {member.name: known.setdefault(member.name, Health()) for member in members}

    @property
    def name(self) -> str:
        return self._parts.name

    def capabilities(self) -> ProviderCapabilities:
        """The common capabilities, because any member may answer, and the smallest window."""
        each = [member.provider.capabilities() for member in self._members]
        windows = [window for member in self._members if (window := member.window) is not None]
        return ProviderCapabilities(
            streaming=all(capabilities.streaming for capabilities in each),
            tools=all(capabilities.tools for capabilities in each),
            tool_choice=all(capabilities.tool_choice for capabilities in each),
            images=all(capabilities.images for capabilities in each),
            context_tokens=min(windows, default=None),
            structured="json" if all(capabilities.structured == "json" for capabilities in each) else "tool",
        )

    async def chat(self, request: ChatRequest, on_delta: OnDelta) -> ChatResponse:
        """The first successful answer. Pieces of an incomplete answer are retracted."""
        relay = DeltaRelay(on_delta)
        failures = self._resting()
        waiting = self._order()
        while waiting:
            member, *waiting = waiting
            try:
                response = await member.provider.chat(member.of(request), relay)
            except ProviderError as error:
                waiting = _next_members(error, member, waiting)
                failures.append(error)
                self._failed(member, error, waiting)
                if waiting:
                    relay.reset()
                continue
            self._health[member.name].answered()
            return response
        raise self._all_failed(failures)

    async def count(self, request: ChatRequest) -> int | None:
        """The count of the first member, from which others differ little."""
        first = self._members[0]
        return await first.provider.count(first.of(request))

    async def ready(self) -> None:
        """Succeeds if one member is ready."""
        for member in self._members[:-1]:
            try:
                return await member.provider.ready()
            except ProviderError:
                continue
        return await self._members[-1].provider.ready()

    async def close(self) -> None:
        await _close(self._members)

    def finished(self) -> str | None:
        return _complaint(self._members)

    def _rest(self, member: Member) -> float:
        """The remaining cooldown of a member in seconds."""
        return max(0.0, self._health[member.name].rests_until - self._parts.clock.monotonic())

    def _resting(self) -> list[ProviderError]:
        """The errors of members whose server set a time that has not come yet."""
        errors: list[ProviderError] = []
        for member in self._members:
            health, left = self._health[member.name], self._rest(member)
            if health.stated and left:
                message = f"provider {member.name!r} is not asked for another {left:.0f} seconds, as its server demands"
                errors.append(ProviderError(health.kind, message, provider=member.name, retry_after=left))
        return errors

    def _order(self) -> list[Member]:
        """The members to try. Those in a cooldown come last, the longest at the end."""
        asked = [member for member in self._members if not (self._health[member.name].stated and self._rest(member))]
        return sorted(asked, key=self._rest)

    def _failed(self, member: Member, error: ProviderError, rest: list[Member]) -> None:
        self._health[member.name].failed(error, self._parts.clock.monotonic())
        if rest:
            self._parts.tell(
                {
                    "event_type": "provider_fallback",
                    "provider": member.name,
                    "next": rest[0].name,
                    "error": error.kind,
                    "reason": str(error),
                }
            )

    def _all_failed(self, failures: list[ProviderError]) -> ProviderError:
        """The error that will pass soonest, so that it is retried then, or else the last. Its message lists all."""
        passing = [error for error in failures if error.retryable]
        chosen = min(reversed(passing), key=lambda error: error.retry_after or 0.0, default=failures[-1])
        listed = "; ".join(f"{error.provider} ({error.kind}): {error}" for error in failures)
        return ProviderError(
            chosen.kind,
            f"provider {self.name!r}: all {len(failures)} failed: {listed}",
            provider=self.name,
            status=chosen.status,
            retry_after=chosen.retry_after,
        )


def _next_members(error: ProviderError, failed: Member, others: list[Member]) -> list[Member]:
    """The members to try next: after an overflow only those with a larger window. Raises errors without a fallback."""
    if error.kind == "context_overflow":
        window = failed.window
        others = [member for member in others if window is not None and (member.window or 0) > window]
        if not others:
            raise error
    elif error.kind not in ProviderError.FALLBACK:
        raise error
    return others


# ------------------------------------------------------------------ router

HINT = "hint"
"""The metadata key for the purpose of a request: words separated by commas, of which the first known one is used."""
VISION, LONG_CONTEXT = "vision", "long-context"


def router(parts: Parts) -> "Router":
    default = parts.entry.default or next(iter(parts.entry.providers), None)
    if default is None:
        misconfigured(parts.name, "default", "is missing; name the provider for requests that no route is for")
    names = dict.fromkeys((default, *parts.entry.routes.values()))
    return Router(parts, {name: _member(parts, name) for name in names}, default)


class Router:
    def __init__(self, parts: Parts, members: dict[str, Member], default: str) -> None:
        self._parts, self._members, self._default = parts, members, members[default]
        self._routes = {hint: members[name] for hint, name in parts.entry.routes.items()}
        self._announced = self._default

    @property
    def name(self) -> str:
        return self._parts.name

    def capabilities(self) -> ProviderCapabilities:
        """The common capabilities, extended by the routes for images and for long requests."""
        each = [member.provider.capabilities() for member in self._members.values()]
        default = self._default.provider.capabilities()
        vision = self._routes.get(VISION, self._default)
        long = self._routes.get(LONG_CONTEXT, self._default)
        windows = [window for member in (self._default, long) if (window := member.window) is not None]
        return ProviderCapabilities(
            streaming=all(capabilities.streaming for capabilities in each),
            tools=all(capabilities.tools for capabilities in each),
            tool_choice=all(capabilities.tool_choice for capabilities in each),
            images=default.images or vision.provider.capabilities().images,
            context_tokens=max(windows, default=None),
            structured="json" if all(capabilities.structured == "json" for capabilities in each) else "tool",
        )

    async def chat(self, request: ChatRequest, on_delta: OnDelta) -> ChatResponse:
        member = self.choose(request)
        if member is not self._announced:
            self._announced = member
            model = member.model or request.model
            self._parts.tell({"event_type": "provider_selected", "provider": member.name, "model": model})
        return await member.provider.chat(member.of(request), on_delta)

    async def count(self, request: ChatRequest) -> int | None:
        member = self.choose(request)
        return await member.provider.count(member.of(request))

    async def ready(self) -> None:
        await self._default.provider.ready()

    async def close(self) -> None:
        await _close(self._members.values())

    def finished(self) -> str | None:
        return _complaint(self._members.values())

    def choose(self, request: ChatRequest) -> Member:
        """Choose by the hints of a request, unless its media or its length requires another member."""
        hints = (word.strip() for word in request.metadata.get(HINT, "").split(","))
        hinted = next((self._routes[hint] for hint in hints if hint in self._routes), None)
        chosen, media = hinted or self._default, request.messages.media > 0
        if media and (hinted is None or not chosen.sees):
            chosen = self._routes.get(VISION, chosen)
        long = self._routes.get(LONG_CONTEXT)
        if long is not None and not _fits(request, chosen) and (long.sees or not media):
            return long
        return chosen


def _fits(request: ChatRequest, member: Member) -> bool:
    """Whether a request and its answer probably fit into the member's window, estimated without counting."""
    head = len(request.system_prompt) + sum(len(tool.description) + 400 for tool in request.tools)
    expected = (request.messages.size + head) // BYTES_PER_TOKEN + (request.max_tokens or 1_000)
    return member.window is None or expected <= member.window
