"""Prepares a skill that is called by name for the model: its body with the arguments filled in."""

import re
import shlex
from collections.abc import Callable, Mapping
from os.path import normpath
from secrets import token_hex
from typing import NamedTuple

from adderclaw.config.paths import beneath
from adderclaw.core.errors import PathRefused
from adderclaw.core.redaction import visible
from adderclaw.tools.skills.catalogue import Skill
from adderclaw.tools.skills.disclosure import Disclosure
from adderclaw.tools.skills.scripts import outside_scripts

MOST_BYTES, MOST_TOKENS = 100_000, 25_000
"""Limits for one skill's body; the rest can be requested by section."""
MAX_COMMANDS = 20
"""At most this many commands of one text are run."""
_INLINE = re.compile(r"^[ \t]*```!\s*\n(.*?)^[ \t]*```[ \t]*$|(?<![\w`\\])!`([^`\n]+)`", re.DOTALL | re.MULTILINE)
_NAMED = re.compile(r"""(?<![^\s(\[{])@(?:"([^"\n]{1,4096})"|([^\s"`]{1,4096}?)(?=[.,;:!?)\]}']*(?:\s|$)))""")
MAX_FILES = 20
"""At most this many files that a command's text names are read."""
_PLACEHOLDER = re.compile(r"\\\$|\$ARGUMENTS(?:\[(\d{1,3})\])?|\$(\d{1,2})(?![\w.])|\$\{(?:ADDERCLAW|CLAUDE)_(\w+)\}")


class CalledText(NamedTuple):
    """A skill's text, in which marks stand for the output of its commands and the content of the files it names."""

    text: str
    inline: dict[str, str]
    """Mark → command. A mark is random, so neither the skill nor its caller can write one."""
    with_arguments: frozenset[str]
    """Marks of the commands and names that contain part of the arguments."""
    named: dict[str, str]
    """Mark → file or folder that a command's text names with @."""


def skill_text(
    skill: Skill, arguments: str, variables: Mapping[str, str], is_there: Callable[[str], bool] = lambda _name: False
) -> CalledText:
    """A whole skill as text for the model; raises PathRefused if its file cannot be read."""
    inline: dict[str, str] = {}
    with_arguments: set[str] = set()
    secret = token_hex(8)

    def mark(match: re.Match[str]) -> str:
        if len(inline) == MAX_COMMANDS:
            return match[0]
        name = f"[command {len(inline) + 1} {secret}]"
        inline[name] = command = _command(match[1] or match[2], arguments, variables)
        if command != _command(match[1] or match[2], "", variables):
            with_arguments.add(name)
        return name

    named: dict[str, str] = {}

    def mark_name(match: re.Match[str]) -> str:
        written = match[1] or match[2]
        name, _ = _fill_placeholders(written, arguments, variables)
        if len(named) == MAX_FILES or not name.isprintable() or not is_there(name):
            return match[0]
        placeholder = f"[file {len(named) + 1} {secret}]"
        named[placeholder] = name
        if name != _fill_placeholders(written, "", variables)[0]:
            with_arguments.add(placeholder)
        return placeholder

    body = _INLINE.sub(mark, Disclosure(skill, max_bytes=0, max_tokens=0).body())
    if skill.is_command:  # in a skill, @ names its own files
        body = _NAMED.sub(mark_name, body)
    body = fill_arguments(body, arguments, variables).strip()
    whole = Disclosure(skill, max_bytes=MOST_BYTES, max_tokens=MOST_TOKENS)
    cut = whole.shown(skill.file, body)
    index = [way for way in skill.references_index if not way.startswith(".")][:60]
    notes = f"\nIts files: {', '.join(index)}. Skill {{skill, file}} shows one." if index else ""
    if not skill.is_command:
        own = (skill.folder, variables.get("PLUGIN_ROOT", skill.folder))
        outside = [path for path in outside_scripts(body) if not any(beneath(normpath(path), folder) for folder in own)]
        if outside:
            notes += f"\nBlocked because they are outside the skill's folder: {', '.join(outside)}. Do not run them."
    kind = "command" if skill.is_command else "skill"
    where = visible(skill.folder, keep_newlines=False)
    return CalledText(
        f"The {kind} {skill.name}, in {where}. Follow it.{notes}\n{cut}", inline, frozenset(with_arguments), named
    )


def skill_part(skill: Skill, file: str) -> str:
    """One file or section of a skill; raises PathRefused if it cannot be shown."""
    if skill.is_command and file.partition("#")[0] not in ("", skill.file):
        raise PathRefused(f"{skill.name} is a command and has no other files")
    disclosed = Disclosure(skill, max_bytes=MOST_BYTES, max_tokens=MOST_TOKENS).requested([file])
    if disclosed.blocked:
        raise PathRefused(disclosed.blocked[0].reason)
    return disclosed.text


def fill_arguments(body: str, arguments: str, variables: Mapping[str, str]) -> str:
    """Fills in `$ARGUMENTS`, `$ARGUMENTS[0]`, `$0` and variables; without a placeholder, appends the arguments."""
    text, placed = _fill_placeholders(body, arguments, variables)
    return text if placed or not arguments else f"{text.rstrip()}\n\nARGUMENTS: {arguments}"


def _fill_placeholders(body: str, arguments: str, variables: Mapping[str, str]) -> tuple[str, bool]:
    """Fills in all placeholders; also returns whether there was one for the arguments."""
    words = _words(arguments)
    placed = False

    def fill(match: re.Match[str]) -> str:
        nonlocal placed
        whole = match[0]
        if whole == "\\$":
            return "$"
        if match[3]:
            return variables.get(match[3], whole)
        number = match[1] or match[2]
        if number is None:
            placed = True
            return arguments
        if not arguments and match[2]:
            return whole  # `$1` in an example of a shell command is not a placeholder
        placed = True
        return words[int(number)] if int(number) < len(words) else ""

    return _PLACEHOLDER.sub(fill, body), placed


def _command(text: str, arguments: str, variables: Mapping[str, str]) -> str:
    """A command of the text with its placeholders filled in. Each word is quoted, because arguments are data."""
    words = _words(arguments)

    def fill(match: re.Match[str]) -> str:
        if match[3]:
            return shlex.quote(variables[match[3]]) if match[3] in variables else match[0]
        number = match[1] or match[2]
        if match[0] == "\\$" or (not arguments and match[2]):
            return match[0]
        if number is None:
            return shlex.join(words)
        return shlex.quote(words[int(number)]) if int(number) < len(words) else "''"

    return _PLACEHOLDER.sub(fill, text).strip()


def _words(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()
