"""Names of tools: checks those in the configuration, and finds the tools that a list names."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from adderclaw.config import Loaded, checks, home
from adderclaw.config.legacy.options import Options
from adderclaw.config.plugins import installed
from adderclaw.config.schema import Config
from adderclaw.core.errors import ConfigError, Problem
from adderclaw.core.suggestions import did_you_mean
from adderclaw.core.types import Tool
from adderclaw.tools import find_tool, lookup

ALL = "*"


def require_known(options: Options, loaded: Loaded) -> None:
    """Raises ConfigError for each name in a `tools_allow` that is not the name of a tool."""
    if problems := unknown_in_lists(options, loaded):
        raise ConfigError(problems)


def unknown_in_lists(options: Options, loaded: Loaded) -> list[Problem]:
    return [
        Problem(checks.origin_of(key, loaded.origins), f"{key}[{index}]", message)
        for key, listed in _lists(loaded.config)
        for index, message in wrong(listed, options)
    ]


def _lists(now: Config) -> Iterator[tuple[str, list[str]]]:
    yield "channels.cli.tools_allow", now.channels.cli.tools_allow
    for name, channel in now.channels.webhook.items():
        for sender, rights in channel.senders.items():
            yield f"channels.webhook.{name}.senders.{sender}.tools_allow", rights.tools_allow


def wrong(listed: list[str], options: Options) -> Iterator[tuple[int, str]]:
    """Index and message of each name that is not a tool."""
    builtin = lookup.builtin_names()
    for index, name in enumerate(listed):
        if "*" in name and name != ALL:
            yield index, f'{name!r} is not the name of a tool; a list of tools has names, or "*"'
        elif name not in builtin and name != ALL and not name.startswith(lookup.SERVER_PREFIX):
            brought = _of_plugins(options)
            if name not in brought:
                yield index, f"there is no tool {name!r}{did_you_mean(name, (*builtin, *brought))}"


def _of_plugins(options: Options) -> list[str]:
    """The tools of every plugin that is installed, enabled or not, and of those that the command line names."""
    names = (*installed.known(home()), *map(installed.at, options.plugin_dirs))
    return [tool.name for plugin in names for tool in plugin.manifest.tools]


def unknown_in_rules(loaded: Loaded) -> list[str]:
    """A warning for each permission rule whose tool does not exist. Settings of other programs may name theirs."""
    builtin = lookup.builtin_names()
    permissions = loaded.config.permissions
    problems: list[str] = []
    for behaviour, rules in (("deny", permissions.deny), ("ask", permissions.ask), ("allow", permissions.allow)):
        for rule in rules:
            tool = rule.partition("(")[0].strip()
            if tool not in builtin and not re.search(r"[_*?]", tool):
                hint = did_you_mean(tool, builtin)
                problems.append(f"permissions.{behaviour}: {rule!r} names a tool that does not exist: {tool}{hint}")
    return problems


def tools_by_name(above: Mapping[str, Tool[Any]], names: tuple[str, ...]) -> set[str]:
    """The names of tools, by name or alias; `mcp__SERVER` and `mcp__SERVER__*` stand for all tools of a server."""
    if "*" in names:
        return set(above)
    servers = tuple(f"{name.removesuffix('__*')}__" for name in names if name.startswith("mcp__"))
    matched = {matched[0].name for name in names if (matched := find_tool(above, name)) is not None}
    return matched | ({name for name in above if name.startswith(servers)} if servers else set())
