"""Permission rules: `Tool` and `Tool(specifier)`, read once and matched against calls."""

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Literal

from adderclaw.core import glob_patterns
from adderclaw.core.record import NamedTuple
from adderclaw.core.tool_traits import Scope, traits
from adderclaw.core.types import HostFact, Json, PathFact, Verdict
from adderclaw.policy.hosts import PLAIN_METHODS, covers

type Subject = Literal["all", "command", "path", "domain", "name"]

PRIMARY_FIELDS = frozenset({"command", "file_path", "path", "notebook_path", "url"})
"""Fields that a specifier of their own kind matches, never `field:value`."""

_IMPLIED_FIELDS: dict[Scope, frozenset[str]] = {
    "path": PRIMARY_FIELDS - {"command", "url"},
    "command": frozenset({"command"}),
}
"""Fields that patterns of a scope match anyway: a rule that names one would match nothing, and deny nothing."""

_RULE = r"(?s)([A-Za-z*?][\w*?.-]*)(?:\((.*)\))?"


class Anchors(NamedTuple):
    """Where the prefixes of path rules lead: `/p`, `p` and `~/p`."""

    project: str
    cwd: str
    home: str


class Rule(NamedTuple):
    text: str
    behaviour: Verdict
    tool: str
    """Canonical name, or a glob."""
    subject: Subject
    specifier: str
    pattern: str = ""
    """The compiled specifier: a regular expression over command text or absolute paths, or a domain pattern."""


class Rules(NamedTuple):
    deny: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    allow: tuple[Rule, ...] = ()
    warnings: tuple[str, ...] = ()


NO_RULES = Rules()


class InvalidRule(ValueError):
    """Why a rule string is dropped."""


# ------------------------------------------------------------------ reading


def parse_all(
    deny: Iterable[str],
    ask: Iterable[str],
    allow: Iterable[str],
    anchors: Anchors,
    aliases: Mapping[str, str] | None = None,
    known: Collection[str] = (),
) -> Rules:
    """All rules of a policy; an invalid one is dropped and leaves a warning."""
    warnings: list[str] = []

    def read(texts: Iterable[str], behaviour: Verdict) -> tuple[Rule, ...]:
        rules: list[Rule] = []
        for text in texts:
            try:
                rule = parse(text, behaviour, anchors, aliases)
            except InvalidRule as error:
                warnings.append(f"permissions.{behaviour}: {text!r} is dropped: {error}")
                continue
            rules.append(rule)
            if known and rule.tool not in known and not re.search(r"[_*?]", rule.tool):
                from adderclaw.core.suggestions import did_you_mean

                hint = did_you_mean(rule.tool, known)
                warnings.append(
                    f"permissions.{behaviour}: {text!r} names a tool that does not exist: {rule.tool}{hint}"
                )
        return tuple(rules)

    return Rules(read(deny, "deny"), read(ask, "ask"), read(allow, "allow"), tuple(warnings))


def parse(text: str, behaviour: Verdict, anchors: Anchors, aliases: Mapping[str, str] | None = None) -> Rule:
    """One rule; raises InvalidRule with the reason."""
    if len(text) > glob_patterns.LONGEST:
        raise InvalidRule(f"it is longer than {glob_patterns.LONGEST:,} characters")
    match = re.fullmatch(_RULE, text.strip())
    if match is None:
        raise InvalidRule("a rule is Tool or Tool(specifier)")
    tool = with_server_name((aliases or {}).get(match[1], match[1]))
    if re.search(r"[*?]", tool) and behaviour == "allow" and not re.fullmatch(r"mcp__[^*?]+?__[^?]*", tool):
        raise InvalidRule("an allow rule may use * only after mcp__<server>__")
    specifier = match[2]
    if specifier is None or specifier.strip() == "*":
        return Rule(text, behaviour, tool, "all", "")
    specifier = specifier.strip()
    if not specifier:
        raise InvalidRule("the parentheses are empty")
    if "\0" in specifier:
        raise InvalidRule("it holds a NUL character")
    return _with_specifier(text, behaviour, tool, specifier, anchors)


@lru_cache(maxsize=1024)
def with_server_name(tool: str) -> str:
    """`mcp__My_Server__add` → `mcp__my_server__add`: a rule may write a server's name as its configuration does."""
    match = re.fullmatch(r"mcp__(.+?)(__.*)?", tool, re.DOTALL)
    if match is None:
        return tool
    server = re.sub(r"_+", "_", re.sub(r"[^a-z0-9*?-]", "_", match[1].lower())).strip("_")
    return f"mcp__{server}{match[2] or ''}"


def _with_specifier(text: str, behaviour: Verdict, tool: str, specifier: str, anchors: Anchors) -> Rule:
    field, _, value = (part.strip() for part in specifier.partition(":"))
    scope = traits(tool).scope
    if field in _IMPLIED_FIELDS.get(scope, ()) and value not in ("", "*"):  # `command:*` is the program `command`
        raise InvalidRule(f"{field} is not named: write {tool}({value})")
    if scope == "command":
        return Rule(text, behaviour, tool, "command", specifier, command_pattern(specifier))
    if scope == "path":
        pattern = path_pattern(specifier, anchors, narrow=behaviour == "allow")
        return Rule(text, behaviour, tool, "path", specifier, pattern)
    if scope == "domain":
        field = specifier.split(":", 1)[0].strip()
        if behaviour != "allow" and ":" in specifier and field not in {"domain"} | PRIMARY_FIELDS:
            return Rule(text, behaviour, tool, "name", specifier)
        if not specifier.startswith("domain:") or not specifier[7:].strip():
            raise InvalidRule(f"{tool} takes domain:<host>")
        return Rule(text, behaviour, tool, "domain", specifier, specifier[7:].strip())
    if traits(tool).rule_field:
        return Rule(text, behaviour, tool, "name", specifier, command_pattern(specifier))
    if behaviour == "allow" or ":" not in specifier:
        raise InvalidRule(f"{tool} takes no specifier" + (" in an allow rule" if behaviour == "allow" else ""))
    if specifier.split(":", 1)[0].strip() in PRIMARY_FIELDS:
        raise InvalidRule(f"{specifier.split(':', 1)[0].strip()} cannot be matched by name")
    return Rule(text, behaviour, tool, "name", specifier)


def command_pattern(specifier: str) -> str:
    """`*` is any text; a closing ` *` or `:*` also matches the bare command, and only at the end of a word."""
    text = re.sub(r"\s+", " ", specifier)
    if text.endswith(":*"):
        text = text[:-2] + " *"
    open_end = text.endswith(" *") and text != " *"
    return glob_patterns.text_pattern(text[:-2] if open_end else text) + (r"(?: .*)?" if open_end else "")


# ------------------------------------------------------------------ paths


def path_pattern(specifier: str, anchors: Anchors, *, narrow: bool) -> str:
    """A regular expression over absolute paths for a gitignore pattern with our anchors."""
    if specifier.startswith("!"):
        raise InvalidRule("a path pattern cannot be negated")
    if specifier.startswith("//"):
        base, rest = "", specifier[1:]
    elif specifier == "~" or specifier.startswith("~/"):
        base, rest = anchors.home, "/" + specifier[2:]
    elif specifier.startswith("/"):
        base, rest = anchors.project, specifier
    else:
        base, rest = anchors.cwd, specifier.removeprefix("./") if specifier != "./" else "**"
        if specifier.startswith("./"):
            rest = "/" + rest
    if ".." in rest.split("/"):
        raise InvalidRule("a path pattern cannot climb with ..")
    # `src/**` in a deny or ask rule means every src, in an allow rule only the one in the base folder.
    if not narrow and re.fullmatch(r"[^/*]+/\*\*", rest):
        rest = "**/" + rest
    try:
        return f"{re.escape(base.rstrip('/'))}/{glob_patterns.gitignore_tree(rest)}"
    except glob_patterns.InvalidPattern as error:
        raise InvalidRule(str(error)) from None


def literal_path(specifier: str, home: str) -> str | None:
    """The literal path that a pattern names, with everything beneath it; None if it has wildcards."""
    if specifier.startswith("//"):
        path = specifier[1:]
    elif specifier.startswith("~/"):
        path = f"{home.rstrip('/')}/{specifier[2:]}"
    else:
        return None
    path = path.removesuffix("/**").rstrip("/")
    return None if not path or re.search(r"[*?\[\]\\]", path) or ".." in path.split("/") else path


# ------------------------------------------------------------------ matching


@lru_cache(maxsize=512)
def _compiled(pattern: str, loose: bool) -> re.Pattern[str]:
    return re.compile(pattern, re.DOTALL | (re.IGNORECASE if loose else 0))


def matches_text(rule: Rule, text: str) -> bool:
    return _compiled(rule.pattern, False).fullmatch(text) is not None


def matches_path(rule: Rule, fact: PathFact) -> bool:
    """Allow must match the path and its target; deny and ask match either, and ignore case."""
    pattern = _compiled(rule.pattern, rule.behaviour != "allow")
    matches = [pattern.fullmatch(path) is not None for path in (fact.path, fact.real)]
    return all(matches) if rule.behaviour == "allow" else any(matches)


def matches_host(rule: Rule, tool: str, fact: HostFact) -> bool:
    # A rule for WebFetch, which only reads, does not allow Http to send data.
    if rule.behaviour == "allow" and rule.tool != tool and fact.method.upper() not in PLAIN_METHODS:
        return False
    return covers(rule.pattern, fact.host, fact.port)


def names_tool(rule: Rule, tool: str) -> bool:
    """Whether a rule's tool name, or its family, or its glob, is that tool."""
    if rule.tool == tool:
        return True
    tool_traits = traits(tool)
    if rule.tool == tool_traits.family or (rule.tool == tool_traits.refused_with and rule.behaviour != "allow"):
        return True
    if rule.tool.startswith("mcp__") and rule.tool.count("__") == 1 and not re.search(r"[*?]", rule.tool):
        return tool.startswith(rule.tool + "__")
    if re.search(r"[*?]", rule.tool):
        return re.fullmatch(glob_patterns.text_pattern(rule.tool, any_one=True), tool, re.DOTALL) is not None
    return False


def matches_field(rule: Rule, arguments: Json) -> bool:
    """`field:value` of a deny or ask rule; a field that is left out never matches."""
    if rule.behaviour == "allow" or ":" not in rule.specifier:
        return False
    field, pattern = (part.strip() for part in rule.specifier.split(":", 1))
    if field in PRIMARY_FIELDS or field not in arguments:
        return False
    value = arguments[field]
    if not isinstance(value, str | int | float | bool):
        return False
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return re.fullmatch(glob_patterns.text_pattern(pattern), text, re.DOTALL) is not None
