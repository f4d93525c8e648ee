"""Raw bash: text that is no plan. It is opaque; its words are split loosely, to look for what is forbidden."""

import re
from functools import cache

from adderclaw.policy.legacy.programs.allowlist import PROGRAMS, names
from adderclaw.policy.legacy.shell.environment import is_special
from adderclaw.policy.legacy.shell.loose import MAX_TEXT, every_word, statements
from adderclaw.policy.legacy.shell.plan import Raw

_CHANGES = names(
    """. alias bind compgen complete coproc declare enable export fc getopts hash let local mapfile read readarray
    readonly
    set shopt source trap typeset unset"""
)
"""Builtins after which other words may stand for something else."""
_SETS = re.compile(r"\w+(?:\[[^]]*\])?\+?=", re.ASCII)
_KNOWN = r"\$(?:[?#$!]|HOME\b|PWD\b|\{HOME\}|\{PWD\})"


def read(text: str, reason: str) -> Raw:
    from adderclaw.core.redaction import visible

    parts = [words for pipeline in statements(text) for words in pipeline if words]
    programs = tuple(dict.fromkeys(_called(words)[0] for words in parts))
    unknown = "a text that is too long" if len(text) > MAX_TEXT else _unknown(text, parts)
    return Raw(text, visible(text.replace("\r", "\\u{d}")), reason, every_word(text), programs, unknown)


def _called(words: list[str]) -> list[str]:
    """The words from the program on; those that only set variables stay as they are."""
    at = next((i for i, word in enumerate(words) if not _SETS.match(word)), 0)
    return words[at:]


def _unknown(text: str, parts: list[list[str]]) -> str:
    """What stands for a program or a place that cannot be known before it runs; nothing where all words are literal."""
    if re.search(r"<<|[<>$]\(|`|\(\)|\$'|[\x00-\x08\x0b-\x1f]", text):
        return "a text that only bash itself reads"
    redirects = re.search(r"[<>]", text) is not None
    for part in parts:
        words = _called(part)
        set_before = part[: len(part) - len(words)]
        # Before the program may stand a redirect, and its target looks like one.
        runner = next((word for word in (words if redirects else words[:1]) if _runs_its_words(word)), None)
        if runner is not None:
            return f"what {runner} is given"
        table = PROGRAMS.get(words[0].rsplit("/", 1)[-1])
        if words == ["cd"] or words[:2] == ["printf", "-v"]:
            return f"what {' '.join(words)} changes"
        says = table is not None and table.says and ">" not in text
        odd = next((word for word in (*set_before, *(words[:1] if says else words)) if _expands(word)), None)
        if odd is not None:
            return f"what {odd[:60]} stands for"
    return ""


def _runs_its_words(word: str) -> bool:
    table = PROGRAMS.get(word.rsplit("/", 1)[-1])
    return word in _CHANGES or (table is not None and (table.shell or table.starts or table.wraps))


def _expands(word: str) -> bool:
    name, assigns, _ = word.partition("=")
    if assigns and is_special(name):
        return True
    return re.search(r"[$`*?\[{]|(?:^|[=:])~[^/]", re.sub(_KNOWN, "", word)) is not None


@cache
def looks() -> frozenset[str]:
    return frozenset(name for name in PROGRAMS if PROGRAMS[name].kind == "look")


def may_write(command: Raw) -> bool:
    """Whether raw bash may write a file: it redirects, or runs something that does more than look."""
    return re.search(r">(?!\s*/dev/null|&)", command.text) is not None or not looks().issuperset(command.programs)
