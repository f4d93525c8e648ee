"""A skill that is called by name: its body with the arguments filled in, ready for the model."""

import re
import shlex
from collections.abc import Mapping

from adderclaw.credentials.redaction import visible
from adderclaw.errors import Refused
from adderclaw.skills.catalogue import Skill
from adderclaw.skills.disclosure import Disclosure

MOST_BYTES, MOST_TOKENS = 100_000, 25_000
"""Of one skill's body; the rest can be asked for by section."""
VARIABLES = ("SKILL_DIR", "PROJECT_DIR", "SESSION_ID")
"""Each can be written as ${ADDERCLAW_X} and as ${CLAUDE_X}."""
_PLACE = re.compile(r"\\\$|\$ARGUMENTS(?:\[(\d{1,3})\])?|\$(\d{1,2})(?![\w.])|\$\{(?:ADDERCLAW|CLAUDE)_(\w+)\}")


def told(skill: Skill, arguments: str, variables: Mapping[str, str]) -> str:
    """The whole of a skill for the model; raises Refused where its file cannot be read."""
    body = filled(Disclosure(skill, max_bytes=0, max_tokens=0).body(), arguments, variables).strip()
    whole = Disclosure(skill, max_bytes=MOST_BYTES, max_tokens=MOST_TOKENS)
    cut = whole.shown(skill.file, body)
    index = [way for way in skill.references_index if not way.startswith(".")][:60]
    listed = f"\nIts files: {', '.join(index)}. Skill {{skill, file}} shows one." if index else ""
    return f"The skill {skill.name}, in {visible(skill.folder, keep_newlines=False)}. Follow it.{listed}\n{cut}"


def part(skill: Skill, file: str) -> str:
    """One file or section of a skill; raises Refused where it is not to be had."""
    found = Disclosure(skill, max_bytes=MOST_BYTES, max_tokens=MOST_TOKENS).requested([file])
    if found.blocked:
        raise Refused(found.blocked[0].reason)
    return found.text


def filled(body: str, arguments: str, variables: Mapping[str, str]) -> str:
    """`$ARGUMENTS`, `$ARGUMENTS[0]`, `$0` and variables filled in; arguments that have no place stand at the end."""
    words = _words(arguments)
    placed = False

    def fill(found: re.Match[str]) -> str:
        nonlocal placed
        whole = found[0]
        if whole == "\\$":
            return "$"
        if found[3]:
            return variables.get(found[3], whole)
        number = found[1] or found[2]
        if number is None:
            placed = True
            return arguments
        if not arguments and found[2]:
            return whole  # `$1` in the example of a command is no place of ours
        placed = True
        return words[int(number)] if int(number) < len(words) else ""

    text = _PLACE.sub(fill, body)
    return text if placed or not arguments else f"{text.rstrip()}\n\nARGUMENTS: {arguments}"


def _words(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()
