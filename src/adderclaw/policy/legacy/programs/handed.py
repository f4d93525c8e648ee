"""Names that one command finds for another, through xargs or find's -exec."""

import re
from itertools import pairwise

from adderclaw.policy.legacy.programs.allowlist import PROGRAMS, those
from adderclaw.policy.legacy.programs.options import Words
from adderclaw.policy.legacy.programs.wrappers import inner


def only_shows(command: Words) -> bool:
    """Whether a program takes the words that it is given for no file, and only prints or signals."""
    name = command[0].rsplit("/", 1)[-1] if command else "echo"
    options = PROGRAMS.get(name)
    return options is not None and options.operands == "none" and (options.kind == "look" or name == "kill")


def one_name_each(words: Words, *, gnu: bool) -> Words:
    """The words of an xargs that hands on names, so that each name stays one word, and none is an option."""
    command = inner(words)
    if not command or only_shows(command):
        return words
    own = words[1 : len(words) - len(command)]
    splits = any(re.match(r"-[a-zA-Z]*[0d]|--null|--delimiter", word) for word in own)
    mark = _replaced(own)
    place = next((n for n, word in enumerate(command) if mark and word.startswith(mark)), len(command))
    ended = "--" in command or command[0].rsplit("/", 1)[-1] in those("without_end")
    return (
        words[0],
        *(("-d", "\\n") if gnu and not splits else ()),
        *own,
        *(command if ended else (*command[:place], "--", *command[place:])),
    )


def _replaced(own: Words) -> str:
    """What stands for a name in the command, if anything does."""
    for word, after in pairwise((*own, "")):
        if word == "-I":
            return after
        found = re.match(r"(?:-[Ii]|--replace=?)(.*)", word)
        if found:
            return found[1] or "{}"
    return ""
