"""`adderclaw provider`: list the model providers, and try one."""

import asyncio
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adderclaw import config as configuration
from adderclaw import providers
from adderclaw.channels.cli.common import ConfigFile, Format, OutputFormat, group, print_json
from adderclaw.config.schema import Config, ProviderEntry
from adderclaw.credentials.redaction import Secrets
from adderclaw.errors import ProviderError, Stopped
from adderclaw.types import ChatRequest, ChatResponse, Delta, History, Json, Message, Provider, TextBlock, ToolSpec

if TYPE_CHECKING:
    from adderclaw.runtime import Runtime

app = group("List and test model providers.")

PROBE = ToolSpec(
    "report_ready",
    "Tell the operator that you are ready.",
    {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
)


@app.command("list")
def list_providers(config: ConfigFile = None, output_format: OutputFormat = "text") -> None:
    """List the configured providers, and whether the key of each is set.

    Example: adderclaw provider list
    """
    now = configuration.load(config_file=config).config
    rows = [Secrets().clean(_described(name, entry, now)) for name, entry in now.providers.models.items()]
    if output_format == "json":
        print_json(rows)
        return
    for row in rows:
        mark = "*" if row["default"] else " "
        print(f"{mark} {row['name']:<20} {row['kind']:<18} {row['model']}")
        for line in _details(row):
            print(f"    {line}")
    print("(* is the default; `adderclaw provider test NAME` tries one)")


def _described(name: str, entry: ProviderEntry, now: Config) -> Json:
    from adderclaw.providers.openai import base_url_of, key_variable

    variable = key_variable(entry.kind, entry.api_key_env)
    return {
        "name": name,
        "kind": entry.kind,
        "model": providers.model_of(name, now),
        "base_url": base_url_of(entry.kind, entry.base_url),
        "key_variable": variable,
        "key_set": bool(variable and os.environ.get(variable, "").strip()),
        "providers": entry.providers,
        "default": name == now.default_provider,
        "available": entry.kind in providers.PROVIDERS,
    }


def _details(row: Json) -> list[str]:
    lines = [row["base_url"]] if row["base_url"] else []
    if row["key_variable"]:
        lines.append(f"key: {row['key_variable']} ({'set' if row['key_set'] else 'not set'})")
    if row["providers"]:
        lines.append("tries " + ", then ".join(row["providers"]))
    if not row["available"]:
        lines.append("this kind is not available yet")
    return lines


# ------------------------------------------------------------------ testing one


@app.command("test")
def try_provider(
    name: Annotated[str, typer.Argument(help="A name under providers.models.")],
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Ask a provider's model for one word and for one tool call: shows latency, streaming and tools.

    Example: adderclaw provider test local
    """
    from adderclaw.runtime import Options, start

    runtime = start(Options(config_file=config, log_level="warning"))
    if runtime.stopped():
        raise Stopped("the emergency stop is set; `adderclaw estop --clear` removes it")
    try:
        report = runtime.secrets.clean(asyncio.run(_tried(runtime, name)))
    except ProviderError as error:
        if output_format == "text":
            raise ProviderError(error.kind, f"{error.kind}: {error}") from error
        print_json({"provider": name, "ok": False, "error": error.kind, "message": runtime.secrets.clean(str(error))})
        raise typer.Exit(error.exit_code) from error
    _print_report(report, output_format)


async def _tried(runtime: "Runtime", name: str) -> Json:
    now, clock = runtime.config, runtime.clock
    provider = providers.make(name, now, secrets=runtime.secrets, tell=runtime.bus.tell, clock=clock)
    pieces: list[Delta] = []
    request = _request("Reply with the one word: ready", providers.model_of(name, now))
    try:
        began = clock.monotonic()
        response = await provider.chat(request, pieces.append)
        latency = (clock.monotonic() - began) * 1000
        tools, why = await _calls_tools(provider, request)
    finally:
        await provider.close()
    return {
        "provider": name,
        "ok": True,
        "answered_by": response.provider or name,
        "model": response.model,
        "latency_ms": round(latency, 1),
        "streaming": provider.capabilities().streaming and bool(pieces),
        "tools": tools,
        "tools_note": why,
        "answer": response.final_text[:200],
        "usage": response.usage.as_json(),
    }


async def _calls_tools(provider: Provider, plain: ChatRequest) -> tuple[bool, str]:
    """Whether the model calls a tool when it is asked to. A server that refuses tools still answers without."""
    asked = _request("Call the tool report_ready with the word ready.", plain.model)
    try:
        response: ChatResponse = await provider.chat(replace(asked, tools=(PROBE,)), lambda _delta: None)
    except ProviderError as error:
        if error.kind not in ("invalid_request", "script"):
            raise
        return False, str(error)
    called = any(call.name == PROBE.name and call.arguments is not None for call in response.tool_calls)
    return called, "" if called else "the model was asked to call a tool and did not"


def _request(text: str, model: str) -> ChatRequest:
    history = History([Message("user", (TextBlock(text),))])
    return ChatRequest("You are being tested by your operator. Be brief.", history, (), model)


def _print_report(report: Any, output_format: Format) -> None:
    if output_format == "json":
        print_json(report)
        return
    print(f"{report['provider']}: ok, {report['latency_ms']:g} ms, model {report['model']}")
    if report["answered_by"] != report["provider"]:
        print(f"  answered by  {report['answered_by']}")
    print(f"  streaming    {'yes' if report['streaming'] else 'no'}")
    print(
        f"  tools        {'yes' if report['tools'] else 'no'}{': ' * bool(report['tools_note'])}{report['tools_note']}"
    )
    print(f"  answer       {report['answer']}")
