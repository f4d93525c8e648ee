"""Databases, containers and clusters: statements that stay in their database, and commands that only look."""

import re
from collections.abc import Callable

from adderclaw.policy.legacy.programs import languages, network
from adderclaw.policy.legacy.programs.allowlist import PROGRAMS, listed, names
from adderclaw.policy.legacy.programs.network import values
from adderclaw.policy.legacy.programs.objections import Ask, Objection, Words, unknown
from adderclaw.policy.legacy.programs.options import parse
from adderclaw.policy.legacy.programs.tabled import by_command, by_table, strange, without_harmless


def _sqlite(words: Words, ask: Ask) -> Objection | None:
    found = parse(words[1:], PROGRAMS["sqlite3"].options, single_dash=True)
    given = found.operands[1:] or ((ask.stdin,) if ask.stdin is not None else ())
    if not found.strange and not given and not ask.fed and not found.given & {"-version", "-help"}:
        return Objection("sqlite3 without a statement reads its standard input")
    if not all(map(languages.is_plain_sqlite, given)):
        return Objection("the statement may reach beyond its database")
    return by_table("sqlite3", words, PROGRAMS["sqlite3"])


def _sql(words: Words, ask: Ask) -> Objection | None:
    name = words[0].rsplit("/", 1)[-1]
    if not all(map(languages.is_plain_sql, (*words[1:], ask.stdin or ""))):
        return Objection("the statement may reach beyond its database")
    scripts = network.values(words[1:], "-f", "--file") if name == "psql" else []
    if any(languages.is_piped(script) or script == "-" for script in scripts):
        return Objection(f"{name} with a script from standard input")
    stated = any(re.match(r"-[ce]|--command|--execute|-l$|--list$|-V$|--version$", word) for word in words[1:])
    if not stated and not scripts and not ask.fed:
        return Objection(f"{name} without a statement reads its standard input")
    return by_table(name, words, PROGRAMS[name])


_OPENS = (
    r"(?i)\b(?!read_(?:csv|csv_auto|parquet|json|json_auto)\b)"
    r"(?:read_\w+|\w+_scan|parquet_\w+|glob|sniff_csv|query\w*|getenv)\s*\("
)
_PLAIN_FILE = r"(?i)\bread_\w+\s*\(\s*(?!'(?!/|~)(?!\w+:)(?![^']*\.\.)[\w./*-]+'\s*[,)])"
_ELSEWHERE = r"['\"]\s*(?:/|~|\w+:|[^'\"\s]*\.\.)"
_DUCK = (
    r"(?i)\b(?:attach|install|load|copy|export|import|pragma|set|call)\b"
    r"|\.(?:shell|system|sh|read|open|import|output|once|load)\b"
)


def _duckdb(words: Words, _ask: Ask) -> Objection | None:
    """Statements over files of the workspace: DuckDB opens whatever stands in quotes."""
    if any(re.search(pattern, word) for word in words[1:] for pattern in (_OPENS, _PLAIN_FILE, _ELSEWHERE, _DUCK)):
        return Objection("the statement may reach beyond its database")
    return by_table("duckdb", words, PROGRAMS["duckdb"])


def _docker(words: Words, _ask: Ask) -> Objection | None:
    name = words[0].rsplit("/", 1)[-1]
    options = PROGRAMS[name]
    if "inspect" in words[1:3] and any(
        re.search(r"Env\b|json(?! \.(?:State|NetworkSettings|Mounts)[ }.])", word) for word in words[2:]
    ):
        return Objection("it would show the environment of a container")
    if words[1:2] == ("compose",):
        words = (*words[:2], *without_harmless(words[2:], PROGRAMS["docker-compose"]))
    if words[1:2] != ("run",):
        return by_command(name, words, options)
    found = parse(words[2:], (options.commands or {})["run"], until_operand=True)
    if found.strange:
        return strange(found, options)
    if not found.operands or found.operands[0].split(":", 1)[0] not in listed("images"):
        return Objection("an image that is not one of the usual ones", f"{name} run")
    return None


_GH_READS = r"/?repos/[\w.-]+/[\w.-]+(?:/[\w.@-]+)*(?:\?[\w=&.%-]*)?"
_GH_WRITES = names("pr issue")
_GH_SAYS = """-t~ --title~ -b~ --body~ -B~ --base~ -H~ --head~ -d --draft -f --fill --fill-first -l~ --label~ -r~
    --reviewer~ -a~ --assignee~ -m~ --milestone~"""


def _gh(words: Words, _ask: Ask) -> Objection | None:
    """What is asked of a repository, and a request or a note to the repository at hand, in words that stand there."""
    if words[1:2] == ("api",):
        found = parse(words[2:], (PROGRAMS["gh"].commands or {})["api"])
        odd = [word for word in found.operands if not re.fullmatch(_GH_READS, word) or ".." in word.split("/")]
        if not found.strange and len(found.operands) == 1 and not odd and _is_get(words):
            return None
        return strange(found, PROGRAMS["gh"]) if found.strange else Objection("gh api of more than a reading")
    if words[1:2] and words[1] in _GH_WRITES and words[2:3] in (("create",), ("comment",)):
        found = parse(words[3:], _GH_SAYS)
        if found.strange or any(type(word) is not str for word in words):
            return unknown(found.strange[0]) if found.strange else Objection("what it would tell is not known before")
        plain = all(re.fullmatch(r"\d{1,8}", word) for word in found.operands)
        return None if plain else Objection("gh takes the number of one of this repository's")
    return by_command("gh", words, PROGRAMS["gh"])


def _is_get(words: Words) -> bool:
    """Whether no header but one that says what is accepted goes along, and no filter asks for the environment."""
    headers = [value for value in values(words, "-H", "--header") if not re.fullmatch(r"(?i)accept: ?[\w/.+-]+", value)]
    filters = (*values(words, "-q", "--jq"), *values(words, "-t", "--template"))
    return not headers and not any(re.search(r"\$ENV|\benv\b|\binput", text) for text in filters)


def _ansible(words: Words, _ask: Ask) -> Objection | None:
    found = parse(words[1:], PROGRAMS["ansible-playbook"].options)
    if not found.given & {"--syntax-check", "--list-tasks", "--list-tags", "--list-hosts", "--version"}:
        return Objection("a playbook changes machines", "ansible-playbook")
    return by_table("ansible-playbook", words, PROGRAMS["ansible-playbook"])


def _kubectl(words: Words, _ask: Ask) -> Objection | None:
    """What is only tried on this machine is looked at, not done."""
    tried = {"--dry-run=client", "--dry-run", "client"} & set(words) - {"--dry-run"}
    if words[1:2] in (("apply",), ("create",)) and tried:
        found = parse(words[2:], "-f= --filename= --dry-run~ -o~ --output~ -n~ --namespace~ -R --recursive --validate~")
        if not found.strange and "--dry-run" in found.given and not re.search(r"secret|://", " ".join(words)):
            return None
    odd = next((word for word in words[2:] if not re.fullmatch(r"\.|(?:\./)?[\w-]+(?:/[\w-]+)*/?", word)), None)
    if words[1:2] == ("kustomize",) and odd:
        return Objection(f"{odd} may be on another machine")
    return by_command("kubectl", words, PROGRAMS["kubectl"])


SPECIAL: dict[str, Callable[[Words, Ask], Objection | None]] = {
    "sqlite3": _sqlite,
    **dict.fromkeys(("psql", "mysql"), _sql),
    **dict.fromkeys(("docker", "podman"), _docker),
    "gh": _gh,
    "duckdb": _duckdb,
    "ansible-playbook": _ansible,
    "kubectl": _kubectl,
}
