"""What the flags of print mode mean: options of a run, in the one configuration and the one rule engine."""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from adderclaw.config import home
from adderclaw.config.paths import beneath, followed
from adderclaw.core.errors import UsageError
from adderclaw.core.provider_kinds import ANTHROPIC, RELIABLE
from adderclaw.core.types import Json
from adderclaw.terminal.limit_options import limits
from adderclaw.terminal.print_mode import FALLBACK, Reports

if TYPE_CHECKING:
    from adderclaw.config import Loaded
    from adderclaw.config.schema import Config, ProviderEntry

MOST_FILE = 4 << 20
"""Bytes of a file that a flag names."""


def detailed(given: Json, reports: Reports) -> tuple[Json, dict[str, Json], Json]:
    """Configuration, MCP servers and subagents that the flags stand for; UsageError says which flag is wrong."""
    overrides = _settings(given["settings"], reports) if "settings" in given else {}
    _permitted(overrides, given, reports)
    if "max_turns" in given:
        overrides.setdefault("runtime", {})["max_tool_rounds"] = _whole(given["max_turns"]) - 1
    if "limit" in given:
        overrides.setdefault("limits", {}).update(_limits(given["limit"]))
    if "max_budget" in given:
        overrides.setdefault("limits", {})["cost_usd"] = _amount(given["max_budget"])
    servers = mcp_servers(given.get("mcp_config", ()))
    if ours := {name: entry for name, entry in servers.items() if entry.get("type") != "sdk"}:
        overrides["mcp_servers"] = {**overrides.get("mcp_servers", {}), **ours}
    return overrides, servers, agents_of(given, reports)


def _limits(given: list[str]) -> Json:
    found = limits(given)
    if "rounds" in found:
        raise UsageError("--limit rounds is for an Agentfile: use --max-turns")
    return dict(found)


def text_of(given: Json, name: str) -> str | None:
    """The value of a flag that can also be given as a file."""
    file = given.get(f"{name}_file")
    if file is None:
        return given.get(name)
    if name in given:
        flag = {"append": "--append-system-prompt", "system_prompt": "--system-prompt"}[name]
        raise UsageError(f"{flag} and {flag}-file: give one of them")
    return _file(file)


def mcp_servers(given: Sequence[str]) -> dict[str, Json]:
    """The servers of `--mcp-config`, each a file or JSON; one of type sdk lives in the client."""
    found: dict[str, Json] = {}
    for text in given:
        table = _json_or_file(text, "--mcp-config")
        servers: Any = table.get("mcpServers", table)
        if not isinstance(servers, dict) or not all(isinstance(one, dict) for one in cast(Json, servers).values()):
            raise UsageError('--mcp-config: it is {"mcpServers": {"NAME": {"command": …} or {"url": …}}}')
        found |= cast("dict[str, Json]", servers)
    return found


# ------------------------------------------------------------------ single flags


def _permitted(overrides: Json, given: Json, reports: Reports) -> None:
    table: Json = overrides.setdefault("permissions", {})
    rules = {
        "allow": given.get("allowed", ()),
        "ask": given.get("ask", ()),
        "deny": (*given.get("disallowed", ()), *_other_tools(given, reports)),
    }
    for name, texts in rules.items():
        bad = [text for text in texts if not _is_rule(text)]
        if bad:
            flag = "--allowed-tools" if name == "allow" else "--disallowed-tools"
            raise UsageError(f"{flag}: {bad[0][:100]!r} is no rule: it is Tool or Tool(specifier)")
        if texts:
            table[name] = [*table.get(name, ()), *texts]
    mode = "bypassPermissions" if given.get("skip_permissions") else given.get("permission_mode")
    if mode:
        table["defaultMode"] = "default" if mode == "manual" else mode
    if not table:
        del overrides["permissions"]


def _is_rule(text: str) -> bool:
    from adderclaw.config.checks import is_rule

    return is_rule(text)


def _other_tools(given: Json, reports: Reports) -> list[str]:
    """`--tools` as rules: the other built-in tools are denied, so that the model is not told of them."""
    wanted: list[str] | None = given.get("tools")
    if wanted is None or wanted == ["default"]:
        return []
    from adderclaw import tools
    from adderclaw.core.suggestions import did_you_mean
    from adderclaw.core.tool_traits import NAMES, TOOLS

    other = {name.lower(): tools.aliases().get(name, name) for name in (*NAMES, *tools.aliases())}
    for name in wanted:
        if name.lower() in other or name.startswith("mcp__"):
            continue
        why = f"there is no tool of that name{did_you_mean(name, other.values())}; `adderclaw tool list` names them"
        if given.get("input_format") != "stream-json":
            raise UsageError(f"--tools: {name[:60]!r}: {why}")
        reports.add(f"tools: {name}"[:80], why)
    kept = {other.get(name.lower()) for name in wanted}
    return [tool.name for tool in TOOLS if tool.name not in kept and not tool.finds_tools]


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1_000_000):
        raise UsageError(f"--max-turns: {text[:40]!r} is no whole number above 0")
    return int(text)


def _amount(text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    if not 0 < amount < float("inf"):
        raise UsageError(f"--max-budget-usd: {text[:40]!r} is no amount above 0")
    return amount


def _settings(text: str, reports: Reports) -> Json:
    from adderclaw.config.foreign import dialects
    from adderclaw.core.errors import ConfigError

    mapped = dialects.map_file("--settings", _json_or_file(text, "--settings"), settings_only=True)
    if mapped.problems:
        raise ConfigError(mapped.problems)
    if notes := [note.removeprefix("--settings: ") for note in (*mapped.warnings, *mapped.notes)]:
        reports.add("--settings (in part)", "; ".join(notes))
    return mapped.data


def _json_or_file(text: str, flag: str) -> Json:
    text = text if text.lstrip().startswith("{") else _file(text)
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{flag}: not JSON ({error})") from None
    if not isinstance(value, dict):
        raise UsageError(f"{flag}: it must be a JSON object")
    return cast(Json, value)


def _file(path: str) -> str:
    try:
        with open(os.path.expanduser(path), "rb") as file:
            data = file.read(MOST_FILE + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path[:200]!r} cannot be read: {error}") from None
    if len(data) > MOST_FILE:
        raise UsageError(f"{path[:200]!r} has more than {MOST_FILE:,} bytes")
    return data.decode("utf-8-sig", "replace")


# ------------------------------------------------------------------ what depends on the configuration


def amended(loaded: "Loaded", given: Json, servers: dict[str, Json], reports: Reports) -> "Loaded":
    """The configuration with what depends on it."""
    now = loaded.config
    if folders := [_folder(path) for path in given.get("add_dir", ())]:
        there = now.permissions.additionalDirectories
        now = replace(
            now, permissions=replace(now.permissions, additionalDirectories=[*dict.fromkeys((*there, *folders))])
        )
    if given.get("strict_mcp"):
        kept = {name: entry for name, entry in now.mcp_servers.items() if name in servers}
        now = replace(now, mcp_servers=kept)
    now = _with_aliases(now, given)
    if "betas" in given:
        now = _with_betas(now, given, reports)
    if "fallback_model" in given:
        now = _with_fallback(now, given)
    return loaded._replace(config=now)


def _folder(path: str) -> str:
    place = os.path.abspath(os.path.expanduser(path))
    if not os.path.isdir(place):
        raise UsageError(f"--add-dir: {path[:200]!r} is no directory")
    real, own = followed(place), followed(home())
    if beneath(own, real) or beneath(real, own):
        raise UsageError(f"--add-dir: {path[:200]!r} holds AdderClaw's own files; name a directory beside them")
    return place


def _with_aliases(now: "Config", given: Json) -> "Config":
    """`sonnet` and the like as entries of the provider: its newest model of that name, or the one that it has."""
    from adderclaw.config.model_facts.catalogue import without_alias
    from adderclaw.models.providers import ALIASES

    wanted = {text.strip() for text in (given.get("model", ""), *given.get("fallback_model", "").split(","))}
    entry = now.providers.models.get(given.get("provider") or now.default_provider)
    made = {
        name: entry if (model := without_alias(name, entry.kind)) == name else replace(entry, model=model)
        for name in wanted & ALIASES
        if entry is not None and name not in now.providers.models
    }
    return replace(now, providers=replace(now.providers, models={**now.providers.models, **made})) if made else now


def _with_betas(now: "Config", given: Json, reports: Reports) -> "Config":
    """The header of Anthropic's API, in its entries."""
    models = now.providers.models
    model = str(given.get("model", ""))
    name = next(filter(models.__contains__, (given.get("provider"), model, model.partition("/")[0])), None)
    entry = models.get(name or now.default_provider)
    if entry is None or entry.kind != ANTHROPIC:
        reports.add("--betas", "the provider is not Anthropic's API")
        return now

    def with_header(entry: "ProviderEntry") -> "ProviderEntry":
        before = [value for name, value in entry.headers.items() if name.lower() == "anthropic-beta"]
        others = {name: value for name, value in entry.headers.items() if name.lower() != "anthropic-beta"}
        return replace(entry, headers={**others, "anthropic-beta": ",".join((*before, *given["betas"]))})

    made = {name: with_header(one) if one.kind == ANTHROPIC else one for name, one in models.items()}
    return replace(now, providers=replace(now.providers, models=made))


def _with_fallback(now: "Config", given: Json) -> "Config":
    """An entry that asks the wanted model first, then each of the others."""
    from adderclaw.config.schema import ProviderEntry
    from adderclaw.models import providers

    models = dict(now.providers.models)
    current = given.get("provider") or now.default_provider
    first = given.get("model") or current
    members: list[str] = []
    for text in (first, *given["fallback_model"].split(",")):
        if not (text := text.strip()):
            continue
        chosen = providers.choice(text, now, current)
        if chosen.provider not in models:
            raise UsageError(f"--fallback-model: there is no provider {chosen.provider!r}")
        entry = models[chosen.provider]
        name = chosen.provider
        if chosen.model != providers.model_of(chosen.provider, now):
            name = f"{chosen.provider}/{chosen.model}"
            models[name] = replace(entry, model=chosen.model)
        members.append(name)
    models[FALLBACK] = ProviderEntry(kind=RELIABLE, providers=[*dict.fromkeys(members)])
    return replace(now, providers=replace(now.providers, models=models))


def agents_of(given: Json, reports: Reports) -> Json:
    """The subagents of `--agents` and of `initialize`, each checked."""
    from adderclaw.terminal.print_mode.no_effect import usable_agents

    by_flag = _json_or_file(given["agents"], "--agents") if "agents" in given else {}
    return {
        **_checked_agents(usable_agents(by_flag, reports), "--agents"),
        **_checked_agents(usable_agents(given.get("own_agents") or {}, reports), "initialize: agents"),
    }


def _checked_agents(agents: Json, where: str) -> Json:
    if not all(isinstance(one, dict) for one in agents.values()):
        raise UsageError(f'{where}: it is {{"NAME": {{"description": "…", "prompt": "…"}}}}')
    if not agents:
        return {}
    from adderclaw.tools.control.definitions import definition_from_json

    for name, one in cast("dict[str, Json]", agents).items():
        try:
            definition_from_json(name, one)
        except ValueError as error:
            raise UsageError(f"{where}: {name[:60]}: {error}") from None
    return agents


def as_agent(given: Json, reports: Reports) -> str:
    """The prompt of the subagent that `--agent` names; its tools, model, mode and turns become flags."""
    from adderclaw.config import load
    from adderclaw.tools.control import definitions

    loaded = load(config_file=given.get("config"), workspace=given.get("workspace"), here=True)
    foreign = loaded.config.compat.claude
    known = definitions.known_definitions(
        home(), followed(loaded.workspace), agents_of(given, reports), foreign=foreign
    )
    name = str(given["agent"])
    agent = definitions.find_definition(known, name)
    if agent is None:
        raise UsageError(f"--agent: there is no subagent {name[:60]!r}; there is: {', '.join(known.by_name)}")
    if agent.tools is not None:
        given["tools"] = list(agent.tools)
    given["disallowed"] = [*given.get("disallowed", ()), *agent.without]
    if agent.model not in (None, "inherit"):
        given.setdefault("model", agent.model)
    if agent.mode is not None:
        given.setdefault("permission_mode", agent.mode)
    if not given.keys() & {"effort", "thinking", "thinking_tokens"}:
        if agent.thinking.effort is not None:
            given["effort"] = agent.thinking.effort
        elif agent.thinking.tokens is not None:
            given["thinking_tokens"] = str(agent.thinking.tokens)
    if agent.max_rounds is not None:
        given.setdefault("max_turns", str(agent.max_rounds))
    return agent.system.removesuffix(definitions.COMMON).strip()
