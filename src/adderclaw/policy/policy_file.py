"""policy.toml as a judge: sections that allow and deny tools what they touch.

Deny wins whatever the order. Each file gives its own opinion and the strictest one counts; of an untrusted file only
the denials count. Patterns become rules of `policy.rules`, so that both sources match in the same way.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from adderclaw.config.policy import SECTIONS, SUGGESTED, of
from adderclaw.core import glob_patterns
from adderclaw.core.errors import ConfigError, Problem
from adderclaw.core.tool_traits import BASH, CALL, EDIT, READ, WRITE, Scope, traits
from adderclaw.core.types import Json, PathFact, Verdict
from adderclaw.policy import judges, rules
from adderclaw.policy.case import STRICTNESS, Case, Opinion
from adderclaw.policy.legacy.commands import handed_on
from adderclaw.policy.legacy.shell.loose import statements
from adderclaw.policy.legacy.shell.planner import Plan, Raw, plan, simples
from adderclaw.policy.paths import normalize
from adderclaw.policy.rules import Rule

_OPERATORS = r"[|;&\n]"
_WORKSPACE = r"^\$(?:WORKSPACE|\{WORKSPACE\})(?=/|$)"


class Section(NamedTuple):
    name: str
    """As it is written in the file."""
    tool: str
    scope: Scope
    enabled: bool | None
    rate_limit: int | None
    allow: tuple[Rule, ...] | None
    """None where the file has no such list. A list, even an empty one, denies what it does not cover."""
    deny: tuple[Rule, ...]

    @property
    def restricts(self) -> bool:
        return self.allow is not None


class PolicyFile(NamedTuple):
    file: str
    trusted: bool
    default_deny: bool
    sections: dict[str, Section]
    """Canonical name of a tool → what the file says of it."""

    def section(self, tool: str) -> Section | None:
        return self.sections.get(tool) or self.sections.get(traits(tool).section_of)

    def withholds(self, tool: str) -> bool:
        """Whether the file denies every call of a tool; `Call` is judged as the tool that it calls."""
        section = self.section(tool)
        if section is not None and (section.enabled is False or section.rate_limit == 0):
            return True
        if tool == CALL or not (self.default_deny or (section is not None and section.restricts)):
            return False
        return section is None or not (section.enabled if section.scope == "none" else section.allow)


# ------------------------------------------------------------------ compiling


class PatternBase(NamedTuple):
    """Where `$WORKSPACE` and `~` lead, and how links are followed."""

    workspace: str
    home: str
    real: Callable[[str], str]


def compile_files(
    files: Sequence[Json], base: PatternBase, aliases: Mapping[str, str] | None = None, known: Collection[str] = ()
) -> tuple[PolicyFile, ...]:
    """Compile the files that `config` has read. Raises ConfigError with all problems, failed examples included."""
    problems: list[Problem] = []
    policy_files = tuple(_compile_file(file, base, aliases or {}, known, problems) for file in files)
    if problems:
        raise ConfigError(problems)
    return policy_files


def _compile_file(
    document: Json, base: PatternBase, aliases: Mapping[str, str], known: Collection[str], problems: list[Problem]
) -> PolicyFile:
    sections: dict[str, Section] = {}
    for name, table in document["sections"].items():
        tool, scope = of(name)
        tool = aliases.get(tool, tool)
        if known and tool not in known and name.lower() not in SECTIONS and not tool.startswith("mcp__"):
            problems.append(
                Problem(document["file"], name, f"there is no tool named {name!r}{_suggestion(name, known)}")
            )
        lists: dict[str, tuple[Rule, ...]] = {}
        for behaviour in ("allow", "deny"):
            key = _list_key(scope, behaviour)
            reading = _PatternReader(base, scope, tool)
            lists[behaviour] = tuple(reading.rules(table[behaviour] or (), behaviour))
            problems += [Problem(document["file"], f"{name}.{key}{at}", why) for at, why in reading.problems]
        sections[tool] = Section(
            name,
            tool,
            scope,
            table["enabled"],
            table["rate_limit"],
            None if table["allow"] is None else lists["allow"],
            lists["deny"],
        )
    return PolicyFile(document["file"], document["trusted"], document["default_deny"], sections)


def _suggestion(name: str, known: Collection[str]) -> str:
    from adderclaw.core.decode import unknown_key_hint

    return unknown_key_hint(name.lower(), [*SUGGESTED, *known])


def _list_key(scope: Scope, behaviour: str) -> str:
    if scope == "command":
        return f"{behaviour}list"
    return "allow_domains" if scope == "domain" else behaviour


class _PatternReader:
    """Reads one list of patterns and collects its problems."""

    def __init__(self, base: PatternBase, scope: Scope, tool: str) -> None:
        self._place, self._tool = base, tool
        self._scope: Scope = scope
        self.problems: list[tuple[str, str]] = []

    def rules(self, patterns: Sequence[Json], behaviour: Verdict) -> Iterator[Rule]:
        for index, entry in enumerate(patterns):
            try:
                rule = self._rule(entry["pattern"], behaviour)
            except rules.InvalidRule as error:
                self.problems.append((f"[{index}]", f"{entry['pattern']!r}: {error}"))
                continue
            for should_match, examples in ((True, entry["match"]), (False, entry["not_match"])):
                for example in examples:
                    if self._matches(rule, example) != should_match:
                        verb = "does not match" if should_match else "matches"
                        self.problems.append((f"[{index}]", f"{rule.text!r} {verb} its example {example!r}"))
            yield rule

    def _rule(self, text: str, behaviour: Verdict) -> Rule:
        match self._scope:
            case "path":
                return Rule(text, behaviour, self._tool, "path", text, path_pattern(text, self._place))
            case "command":
                return Rule(text, behaviour, BASH, "command", text, rules.command_pattern(text.strip()))
            case "domain":
                return Rule(text, behaviour, self._tool, "domain", text, text.strip())
            case "none":
                raise rules.InvalidRule("this tool takes no patterns")

    def _matches(self, rule: Rule, example: str) -> bool:
        match self._scope:
            case "path":
                path = normalize(_make_absolute(example, self._place.workspace, self._place.home))
                return rules.matches_path(rule, PathFact(example, path, self._place.real(path)))
            case "command":
                command = plan(example, lambda name: name if name.startswith("/") else f"/usr/bin/{name}")
                if rule.behaviour == "deny":
                    return denied_command(rule, command, tuple(judges.spellings(command)))
                return isinstance(command, Plan) and all(
                    judges.allows_simple(rule, simple) for simple in simples(command)
                )
            case "domain":
                return rules.covers(rule.pattern, example)
            case "none":
                return False


def _make_absolute(text: str, workspace: str, home: str) -> str:
    """Make a path or pattern absolute: `~`, `$WORKSPACE`, a floating leading `**`, else relative to the workspace."""
    for prefix, folder in (("$WORKSPACE", workspace), ("${WORKSPACE}", workspace), ("~", home)):
        if text == prefix or text.startswith(f"{prefix}/"):
            return folder.rstrip("/") + text[len(prefix) :]
    if text.startswith("/"):
        return text
    return f"/{text}" if text.split("/")[0] == "**" else f"{workspace.rstrip('/')}/{text}"


def path_pattern(text: str, pattern_base: PatternBase) -> str:
    """A regular expression over absolute paths: `*` is one segment or a part of it, `**` any depth."""
    text = text.strip()
    if re.match(r"~[^/]", text) or "$" in re.sub(_WORKSPACE, "", text):
        raise rules.InvalidRule("only ~ and $WORKSPACE are expanded, and only at the beginning")
    whole = _make_absolute(text, pattern_base.workspace, pattern_base.home)
    segments = [segment for segment in whole.split("/") if segment]
    if {".", ".."} & set(segments):
        raise rules.InvalidRule("a path pattern cannot contain . or ..")
    if len(text) > glob_patterns.LONGEST:
        raise rules.InvalidRule(f"it is longer than {glob_patterns.LONGEST:,} characters")
    literal = next((i for i, segment in enumerate(segments) if re.search(r"[*?]", segment)), len(segments))
    literal_prefix = "/" + "/".join(segments[:literal])
    # A folder has the names of its links, too.
    bases = dict.fromkeys((literal_prefix, pattern_base.real(literal_prefix)))
    return "(?:" + "|".join(_regex(base, segments[literal:]) for base in bases) + ")"


def _regex(base: str, segments: list[str]) -> str:
    names = [None if segment == "**" else glob_patterns.rule_name(segment) for segment in segments]
    within = bool(names) and names[-1] is None
    while names and names[-1] is None:
        names.pop()
    out = re.escape(base.rstrip("/")) + ("/" + glob_patterns.path_pattern(names, whole=not within) if names else "")
    return (out + ("(?:/.*)?" if within else "")) or "/"


# ------------------------------------------------------------------ judging


def policy_files(case: Case) -> Opinion | None:
    """The strictest opinion of all files."""
    opinions = [opinion for file in case.policy.files if (opinion := opinion_of(file, case)) is not None]
    return max(opinions, key=lambda opinion: STRICTNESS[opinion.verdict or "allow"], default=None)


def opinion_of(file: PolicyFile, case: Case) -> Opinion | None:
    section = file.section(case.tool)
    refusal = _refusal(file, section, case)
    if refusal:
        return Opinion("policy.toml", "deny", f"{file.file}: {refusal}")
    if section is not None and (why := _grant_reason(file, section, case)):
        return Opinion("policy.toml", "allow", f"{file.file}: {why}") if file.trusted else None
    if case.touch.inward:
        return None
    restricted = file.default_deny or (section is not None and section.restricts)
    why = _not_allowed(section, case) if restricted else _outside_lists(file, section, case)
    return Opinion("policy.toml", "deny", f"{file.file}: {why}") if why else None


def _not_allowed(section: Section | None, case: Case) -> str:
    if section is None:
        return f"default_deny = true, and there is no section for {case.tool}"
    if section.scope == "none":
        return f"default_deny = true, and [{section.name}] does not say enabled = true"
    key = _list_key(section.scope, "allow")
    if isinstance(case.touch.command, Raw):
        return f"no {key} covers raw bash ({case.touch.command.reason})"
    return f"{key} under [{section.name}] does not cover {_subject(section, case)}"


def _outside_lists(file: PolicyFile, section: Section | None, case: Case) -> str | None:
    """Names a file outside the allow lists for reading and writing, for tools without a list of their own.

    So a command, Grep or Delete cannot reach what Read, Write and Edit may not.
    """
    own = section is not None and section.scope == "path"
    checks: list[tuple[tuple[str, ...], tuple[PathFact, ...]]] = []
    if not own or traits(case.tool).searches_content:
        checks.append(((READ,), case.touch.reads))
    if not own:
        checks.append(((WRITE, EDIT), case.touch.writes))
    for tools, facts in checks:
        lists = [
            tool_section
            for tool in tools
            if (tool_section := file.sections.get(tool)) is not None and tool_section.restricts
        ]
        rules_of = [
            rule for tool_section in lists if tool_section.enabled is not False for rule in tool_section.allow or ()
        ]
        for fact in facts if lists else ():
            if not any(rules.matches_path(rule, fact) for rule in rules_of):
                names = "] and [".join(tool_section.name for tool_section in lists)
                return f"allow under [{names}] does not cover {fact.path}"
    return None


def _subject(section: Section, case: Case) -> str:
    """The part of the call that the list does not cover, as the operator would write it."""
    touch, allow = case.touch, section.allow or ()
    if isinstance(touch.command, Plan):
        uncovered = (
            simple.text for simple in simples(touch.command) if not any(judges.allows_simple(r, simple) for r in allow)
        )
        return repr(next(uncovered, "a file that the command writes"))
    for fact in (*touch.reads, *touch.writes):
        if not any(rules.matches_path(rule, fact) for rule in allow):
            return fact.path
    return ", ".join(f"{host.method.upper()} {host.host}" for host in touch.hosts) or "this call"


# ---- refusals: anything that matches


def _refusal(file: PolicyFile, section: Section | None, case: Case) -> str | None:
    if section is not None and section.enabled is False:
        return f"[{section.name}] enabled = false"
    for name, rule, fact in _denied_paths(file, section, case):
        return f"[{name}] deny {rule.text!r} covers {fact.path}"
    command = case.touch.command
    if section is not None and isinstance(command, Plan | Raw):
        texts = tuple(judges.spellings(command)) if section.deny else ()
        for rule in section.deny:
            if denied_command(rule, command, texts):
                return f"[{section.name}] denylist {rule.text!r}"
    if section is not None and section.rate_limit is not None and case.recent >= section.rate_limit:
        return f"[{section.name}] rate_limit = {section.rate_limit} calls a minute is used up: wait"
    return None


def _denied_paths(file: PolicyFile, section: Section | None, case: Case) -> Iterator[tuple[str, Rule, PathFact]]:
    """File tools follow their own section; other tools that read or write files follow those for reading and writing.

    `policy.hidden_from_search` filters what a search finds beneath its folder.
    """
    reads, writes = case.touch.reads, case.touch.writes
    own = section if section is not None and section.scope == "path" else None
    checks: list[tuple[Section | None, tuple[PathFact, ...]]] = [(own, (*reads, *writes))]
    if own is None or traits(case.tool).searches_content:
        checks.append((file.sections.get(READ), reads))
    if own is None:
        checks += [(file.sections.get(name), writes) for name in (WRITE, EDIT)]
    for listed, facts in checks:
        for rule in listed.deny if listed is not None else ():
            for fact in facts:
                if rules.matches_path(rule, fact):
                    yield listed.name if listed else "", rule, fact


def denied_command(rule: Rule, command: Plan | Raw, texts: Sequence[str]) -> bool:
    """Whether a denylist rule matches a command, a command that it starts, or one of its pipelines."""
    pattern = " ".join(rule.text.split())
    parts = [part.strip() for part in pattern.split("|")]
    if len(parts) > 1 and all(parts):
        if any(
            _matches_pipeline(parts, pipeline)
            for text in (command.text, command.shown)
            for pipeline in statements(text)
        ):
            return True
    elif any(rules.matches_text(rule, text) for text in texts):
        return True
    if not isinstance(command, Raw) and not re.search(_OPERATORS, pattern):
        return False
    return _occurs_in(pattern, " ".join(command.text.split()))


def _matches_pipeline(parts: list[str], pipeline: list[list[str]]) -> bool:
    """Whether commands of a pipeline match the parts of a pattern in order."""
    remaining = [rules.command_pattern(part) for part in parts]
    for words in pipeline:
        if remaining and any(re.fullmatch(remaining[0], text, re.DOTALL) for text in _texts(tuple(words))):
            del remaining[0]
    return not remaining


def _texts(words: tuple[str, ...]) -> Iterator[str]:
    for reached in handed_on(words):
        yield " ".join(reached)
        yield " ".join((reached[0].rsplit("/", 1)[-1], *reached[1:]))


_MAX_STAR_CHARACTERS = 2_000
"""Most characters that one star matches, so that no text makes a match slow."""


def _occurs_in(pattern: str, text: str) -> bool:
    """Whether the pattern matches anywhere a command could begin in a text that could not be parsed.

    If a star could match more than is searched, finding the parts of the pattern in order is enough.
    """
    at = 0
    for part in re.split(r"[*|\s]+", pattern):
        index = text.find(part, at)
        if index < 0:
            return False
        at = index + len(part)
    is_long = any(len(piece) >= _MAX_STAR_CHARACTERS for piece in re.split(r"[|;&]", text))
    return is_long or re.search(_occurrence_regex(pattern), text) is not None


def _occurrence_regex(pattern: str) -> str:
    text = re.sub(r" ?\| ?", "|", pattern.removesuffix(" *").lstrip("*"))
    first, *rest = (re.escape(part).replace(r"\|", r"\s?\|\s?") for part in re.split(r"\*+", text))
    some = rf"[^|;&]{{0,{_MAX_STAR_CHARACTERS}}}?"
    body = first + "".join(f"(?>{some}{part})" for part in rest[:-1]) + "".join(some + part for part in rest[-1:])
    return rf"(?:^|[\s;&|(`'\"/]){body}(?=$|[\s;&|)`'\"])"


# ---- grants: everything must match


def _grant_reason(file: PolicyFile, section: Section, case: Case) -> str | None:
    """Why the file allows the call, if it does."""
    touch = case.touch
    if section.scope == "none":
        return f"[{section.name}] enabled = true" if section.enabled else None
    if not section.allow:
        return None
    grant = f"{_list_key(section.scope, 'allow')} under [{section.name}]"
    match section.scope:
        case "path":
            facts = (*touch.reads, *touch.writes)
            covered = bool(facts) and all(any(rules.matches_path(r, fact) for r in section.allow) for fact in facts)
        case "command":
            covered = isinstance(touch.command, Plan) and _plan_covered(file, section.allow, case, touch.command)
        case "domain":
            covered = bool(touch.hosts) and all(
                any(rules.matches_host(rule, case.tool, host) for rule in section.allow) for host in touch.hosts
            )
    return grant if covered else None


def _plan_covered(file: PolicyFile, allow: tuple[Rule, ...], case: Case, command: Plan) -> bool:
    """Each simple command needs a pattern, and each file that a redirect writes one under [write] or [edit]."""
    writers = (file.sections.get(name) for name in (WRITE, EDIT))
    allowed = [rule for section in writers if section and section.enabled is not False for rule in section.allow or ()]
    edits = (rule._replace(tool=EDIT) for rule in allowed)
    return judges.plan_granted((*allow, *edits), case, command) is not None
