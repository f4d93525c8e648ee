"""Reads policy.toml, which restricts tools in addition to the permission rules. The gate evaluates it."""

import os
from collections.abc import Iterator
from dataclasses import field, fields
from typing import Annotated, Any, cast

from adderclaw.config import syntax
from adderclaw.core.decode import Between, Invalid, decode, short_json, unknown_key_hint
from adderclaw.core.errors import ConfigError, Problem
from adderclaw.core.json_text import to_json
from adderclaw.core.record import record
from adderclaw.core.tool_traits import TOOLS, Scope
from adderclaw.core.types import Json

NAME = "policy.toml"
IN_PROJECT = ".adderclaw/policy.toml"

SECTIONS: dict[str, tuple[str, Scope]] = {
    **{tool.section: (tool.name, tool.scope) for tool in TOOLS if tool.section},
    **{alias: (tool.name, tool.scope) for tool in TOOLS for alias in tool.section_aliases},
}
"""Section → the tool and what its patterns match. Any other section is named after its tool and has no scope."""
SUGGESTED = [tool.section for tool in TOOLS if tool.section]

_KEYS: dict[Scope, tuple[str, ...]] = {
    "path": ("allow", "deny"),
    "command": ("allowlist", "denylist"),
    "domain": ("allow_domains",),
    "none": (),
}


@record
class Pattern:
    """A pattern with its own examples, which are checked whenever the file is loaded."""

    pattern: str
    match: list[str] = field(default_factory=list[str])
    """What it must match."""
    not_match: list[str] = field(default_factory=list[str])
    """What it must not match."""


type Patterns = list[str | Pattern]


@record
class Section:
    """The settings for a tool. Which of the lists apply depends on the tool."""

    enabled: bool | None = None
    """false: the tool never runs. true is an explicit allow for a tool that has no path, command or domain scope."""
    allow: Patterns | None = None
    deny: Patterns | None = None
    allowlist: Patterns | None = None
    denylist: Patterns | None = None
    allow_domains: Patterns | None = None
    rate_limit: Annotated[int, Between(0)] | None = None
    """Calls per minute."""


def foreign_keys(path: str, data: bytes) -> list[str]:
    """The keys of a policy.toml that belongs to another program; empty if any key or section is ours."""
    try:
        table = syntax.parse(path, data)
    except ConfigError:
        return []  # `parse` reports it
    known = {each.name for each in fields(Section)}
    for key, value in table.items():
        if key == "default_deny" or key.lower() in SECTIONS or (isinstance(value, dict) and known & {*value}):
            return []
    return [*table]


def of(section: str) -> tuple[str, Scope]:
    """The tool of a section and its scope."""
    return SECTIONS.get(section.lower(), (section, "none"))


def parse(path: str, data: bytes, *, trusted: bool) -> Json:
    """A policy file as JSON that `policy.policy_file` compiles; raises ConfigError with every problem."""
    table = syntax.parse(path, data)
    problems: list[Problem] = []
    default_deny = table.pop("default_deny", False)
    if not isinstance(default_deny, bool):
        problems.append(Problem(path, "default_deny", f"expected true or false, not {short_json(default_deny)}"))
    sections: Json = {}
    tools: dict[str, str] = {}
    for name, section in table.items():
        tool = of(name)[0]
        if tool in tools:
            problems.append(Problem(path, name, f"[{tools[tool]}] is about the same tool; merge the two sections"))
        tools[tool] = name
        try:
            sections[name] = _section(name, section)
        except Invalid as error:
            problems += [Problem(path, f"{name}.{key}" if key else name, message) for key, message in error.problems]
    if problems:
        raise ConfigError(problems)
    return {"file": path, "trusted": trusted, "default_deny": default_deny, "sections": sections}


def _section(name: str, raw: Any) -> Json:
    if not isinstance(raw, dict):
        raise Invalid([("", f"is neither a section such as [read] nor a known key{unknown_key_hint(name, SUGGESTED)}")])
    table = cast(Json, raw)
    scope = of(name)[1]
    allowed = ("enabled", "rate_limit", *_KEYS[scope])
    strange = [
        (key, f"[{name}] has no such key{unknown_key_hint(key, list(allowed))}") for key in table if key not in allowed
    ]
    problems = strange + _unfit({key: value for key, value in table.items() if key in allowed})
    if problems:
        raise Invalid(problems)
    section = decode(Section, table)
    lists = {"allow": section.allow, "deny": section.deny}
    if scope == "command":
        lists = {"allow": section.allowlist, "deny": section.denylist}
    elif scope == "domain":
        lists = {"allow": section.allow_domains, "deny": None}
    patterns = {key: None if value is None else [*map(_whole, value)] for key, value in lists.items()}
    return {"enabled": section.enabled, "rate_limit": section.rate_limit, **patterns}


def _unfit(table: Json) -> list[tuple[str, str]]:
    try:
        section = decode(Section, table)
    except Invalid as error:
        return error.problems
    lists = {key: getattr(section, key) for key in ("allow", "deny", "allowlist", "denylist", "allow_domains")}
    return [*_bad_patterns(lists)]


def _bad_patterns(lists: dict[str, Patterns | None]) -> Iterator[tuple[str, str]]:
    for key, patterns in lists.items():
        for index, pattern in enumerate(patterns or ()):
            text = pattern if isinstance(pattern, str) else pattern.pattern
            if not text.strip() or "\0" in text:
                yield f"{key}[{index}]", f"{short_json(text)} is not a pattern"


def _whole(pattern: str | Pattern) -> Json:
    return to_json(Pattern(pattern=pattern) if isinstance(pattern, str) else pattern)


def read(path: str) -> Json:
    """Read a policy file that the operator named."""
    from adderclaw.config.places import read as read_file

    path = os.path.abspath(path)
    data = read_file(path)
    if data is None:
        raise ConfigError([Problem(path, "", "there is no such file")])
    return parse(path, data, trusted=True)
