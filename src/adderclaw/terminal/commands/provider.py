"""`adderclaw provider`: lists the model providers, and tests one."""

import asyncio
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adderclaw import config as configuration
from adderclaw.agent.loop.model_call import count_tokens
from adderclaw.agent.queries.judging import probe_request
from adderclaw.agent.run.start import helpers_path
from adderclaw.agent.session.clock import SystemClock
from adderclaw.config.model_facts.catalogue import ModelFacts, cost, facts_of, first_answering
from adderclaw.config.schema import Config, ProviderEntry
from adderclaw.core.errors import ConfigError, ProviderError, Stopped
from adderclaw.core.provider_kinds import BY_NAME, ROUTER
from adderclaw.core.redaction import Secrets
from adderclaw.core.types import ChatRequest, ChatResponse, Clock, Delta, Json, Provider, ToolSpec
from adderclaw.models import providers
from adderclaw.models.credentials.sources import Sources
from adderclaw.terminal.commands.common import ConfigFile, OutputFormat, group
from adderclaw.terminal.output import Format, print_json

if TYPE_CHECKING:
    from adderclaw.agent.run import Runtime

app = group("List and test model providers.")

PROBE = ToolSpec(
    "report_ready",
    "Tell the operator that you are ready.",
    {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
)


@app.command("list")
def list_providers(config: ConfigFile = None, output_format: OutputFormat = "text") -> None:
    """List the configured providers: kind, model, key, what the model can do, and its price.

    Example: adderclaw provider list
    """
    from adderclaw.agent.run.start import with_operators_own

    loaded = with_operators_own(configuration.load(config_file=config))
    rows: list[Json] = Secrets().clean(asyncio.run(_rows(loaded)))
    if output_format == "json":
        print_json(rows)
        return
    for row in rows:
        mark = "*" if row["default"] else " "
        print(f"{mark} {row['name']:<20} {row['kind']:<18} {row['model']}")
        for line in _details(row):
            print(f"    {line}")
    print("(* is the default; test one with `adderclaw provider test NAME`)")


async def _rows(loaded: configuration.Loaded) -> list[Json]:
    now = loaded.config
    secrets = Secrets()
    sources = Sources(
        secrets,
        SystemClock(),
        auth=now.auth,
        home=configuration.home(),
        workspace=loaded.workspace,
        path=lambda: helpers_path(loaded),
    )
    return [await _provider_row(name, entry, now, sources) for name, entry in now.providers.models.items()]


async def _provider_row(name: str, entry: ProviderEntry, now: Config, sources: Sources) -> Json:
    from adderclaw.models.providers.openai import base_url_of, key_variable

    variable = key_variable(entry.kind, entry.api_key_env)
    served = first_answering(name, providers.model_of(name, now), now)
    known = facts_of(*served, now)
    return {
        "name": name,
        "kind": entry.kind,
        "model": served.model,
        "base_url": base_url_of(entry.kind, entry.base_url),
        "key_variable": variable,
        "key_set": bool(variable and os.environ.get(variable, "").strip()),
        "key": await _key(name, entry, sources),
        "providers": entry.providers,
        "routes": entry.routes,
        "otherwise": entry.default,
        "default": name == now.default_provider,
        "available": entry.kind in BY_NAME,
        "capabilities": _capabilities(name, now, known),
        "price": _price(known),
        "long_tokens": known.long_tokens,
        "assumed": known.assumed,
    }


async def _key(name: str, entry: ProviderEntry, sources: Sources) -> str | None:
    """Where its key comes from; None if there is no key."""
    if BY_NAME[entry.kind].has_no_server:
        return "not needed"
    status = await sources.status(name, entry)
    return " ".join(filter(None, (status.kind, status.name))) if status.usable else None


def _capabilities(name: str, now: Config, known: ModelFacts) -> Json:
    """What the adapter and the model can do; for an unusable entry the problem."""
    try:
        provider = providers.make(name, now, secrets=Secrets(), tell=lambda _body: None, clock=SystemClock())
    except ConfigError as error:
        return {"problem": str(error)}
    can = provider.capabilities()
    return {
        "streaming": can.streaming,
        "tools": can.tools,
        "images": can.images or known.vision,
        "pdf": known.pdf,
        "thinking": known.thinking,
        "context_tokens": can.context_tokens or known.context_tokens,
        "max_output_tokens": known.max_output_tokens,
    }


def _price(known: ModelFacts) -> Json | None:
    if not known.priced:
        return None
    return {name: value for name, value in known._asdict().items() if name.endswith("_per_mtok")}


def _details(row: Json) -> list[str]:
    lines = [row["base_url"]] if row["base_url"] else []
    if row["key_variable"]:
        lines.append(f"key: {row['key_variable']} ({'set' if row['key_set'] else 'not set'})")
    if row["key"] not in (None, "not needed") and not row["key_set"]:
        lines.append(f"key from: {row['key']}")
    if row["kind"] == ROUTER:
        chosen = [f"{hint} → {name}" for hint, name in row["routes"].items()]
        lines.append(", ".join([*chosen, f"all else → {row['otherwise'] or row['providers'][0]}"]))
    elif row["providers"]:
        lines.append("tries " + ", then ".join(row["providers"]))
    if not row["available"]:
        lines.append("this kind of provider is not available")
    return [
        *lines,
        *_abilities(row["capabilities"], assumed=row["assumed"]),
        _price_line(row["price"], row["long_tokens"]),
    ]


def _abilities(can: Json, *, assumed: bool) -> list[str]:
    if "problem" in can:
        return [f"cannot be used: {can['problem']}"]
    words = [word for word in ("streaming", "tools", "images", "pdf", "thinking") if can[word]]
    if can["context_tokens"]:
        words.append(f"window {can['context_tokens']:,}")
    if assumed and words:
        words.append("assumed from its family: it is not in the model table")
    return [f"can: {', '.join(words)}"] if words else []


def _price_line(price: Json | None, long_tokens: int | None) -> str:
    if price is None:
        return "price: unknown (tokens are counted, cost is not)"
    if not any(price.values()):
        return "price: free"
    cached = price["cache_read_per_mtok"]
    more = f", ${cached:g} cached" if cached is not None else ""
    line = f"price: ${price['input_per_mtok']:g} in, ${price['output_per_mtok']:g} out{more} per million tokens"
    if long_tokens is None or price["long_input_per_mtok"] is None:
        return line
    return f"{line}; in requests of more than {long_tokens:,} tokens ${price['long_input_per_mtok']:g} in"


# ------------------------------------------------------------------ test


@app.command("test")
def try_provider(
    name: Annotated[str, typer.Argument(help="A name under providers.models.")],
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Ask a provider's model for one word and one tool call; shows latency, streaming and tools.

    Example: adderclaw provider test local
    """
    from adderclaw.agent.run import Options, start

    runtime = start(Options(config_file=config, log_level="warning"))
    if runtime.stopped():
        raise Stopped("the emergency stop is set; clear it with `adderclaw estop --clear`")
    try:
        report = runtime.secrets.clean(asyncio.run(_test_provider(runtime, name)))
    except ProviderError as error:
        if output_format == "text":
            raise ProviderError(error.kind, f"{error.kind}: {error}") from error
        print_json({"provider": name, "ok": False, "error": error.kind, "message": runtime.secrets.clean(str(error))})
        raise typer.Exit(error.exit_code) from error
    _print_report(report, output_format)


async def _test_provider(runtime: "Runtime", name: str) -> Json:
    now, clock = runtime.config, runtime.clock
    provider = providers.make(
        name,
        now,
        secrets=runtime.secrets,
        tell=runtime.bus.publish,
        clock=clock,
        credentials=runtime.credentials,
    )
    request = probe_request("Reply with the one word: ready", providers.model_of(name, now))
    heard = _DeltaTimer(clock)
    try:
        response = await provider.chat(request, heard)
        total, first = heard.since_began(clock.monotonic()), heard.since_began(heard.first or clock.monotonic())
        tools, why = await _calls_tools(provider, request)
        count = await count_tokens(provider, request)
    finally:
        await provider.close()
    answered = response.provider or name
    known = facts_of(answered, response.model or request.model, now)
    return {
        "provider": name,
        "ok": True,
        "answered_by": answered,
        "model": response.model,
        "first_ms": first,
        "latency_ms": total,
        "streaming": provider.capabilities().streaming and heard.pieces > 0,
        "tools": tools,
        "tools_note": why,
        "counts_tokens": count.exact,
        "answer": response.final_text[:200],
        "usage": response.usage.as_json(),
        "cost": cost(response.usage, known),
    }


class _DeltaTimer:
    """Counts the pieces of an answer and times the first one."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._began = clock, clock.monotonic()
        self.first: float | None = None
        self.pieces = 0

    def __call__(self, _delta: Delta) -> None:
        self.first = self.first or self._clock.monotonic()
        self.pieces += 1

    def since_began(self, moment: float) -> float:
        return round((moment - self._began) * 1000, 1)


async def _calls_tools(provider: Provider, plain: ChatRequest) -> tuple[bool, str]:
    """Whether the model calls a tool when asked to. A server that refuses tools can still answer without them."""
    asked = probe_request("Call the tool report_ready with the word ready.", plain.model)
    try:
        response: ChatResponse = await provider.chat(replace(asked, tools=(PROBE,)), lambda _delta: None)
    except ProviderError as error:
        if error.kind not in ("invalid_request", "script"):
            raise
        return False, str(error)
    called = any(call.name == PROBE.name and call.arguments is not None for call in response.tool_calls)
    return called, "" if called else "the model was asked to call a tool and did not"


def _print_report(report: Any, output_format: Format) -> None:
    if output_format == "json":
        print_json(report)
        return
    print(f"{report['provider']}: ok, {report['latency_ms']:g} ms, model {report['model']}")
    print(f"  first piece  after {report['first_ms']:g} ms")
    if report["answered_by"] != report["provider"]:
        print(f"  answered by  {report['answered_by']}")
    print(f"  streaming    {'yes' if report['streaming'] else 'no'}")
    print(
        f"  tools        {'yes' if report['tools'] else 'no'}{': ' * bool(report['tools_note'])}{report['tools_note']}"
    )
    print(f"  counting     {'by the provider' if report['counts_tokens'] else 'by size'}")
    print(f"  answer       {report['answer']}")
