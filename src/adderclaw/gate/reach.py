"""How far a call may write: nowhere, only where it says, or anywhere in the workspace."""

import re
from typing import Literal

from adderclaw.gate.commands import harmless, is_harmless
from adderclaw.gate.programs.allowlist import names
from adderclaw.gate.shell.planner import Plan, Simple, redirects, simples
from adderclaw.types import Touch

type Reach = Literal["nothing", "named", "anything"]

LOOKING = names(
    """basename cat cmp cut date df diff dirname du echo egrep false fgrep file grep head hexdump id jq ls md5sum nl
    nproc od paste pwd readlink realpath rev seq sha1sum sha256sum sleep stat strings tac tail test tr true uname wc
    which whoami"""
)
"""Programs that write nothing, whatever their options; a redirect counts on its own."""
GIT_LOOKING = frozenset({"blame", "diff", "log", "ls-files", "rev-parse", "shortlog", "show", "status"})
FIND_ACTS = frozenset({"-delete", "-exec", "-execdir", "-fls", "-fprint", "-fprint0", "-fprintf", "-ok", "-okdir"})
SED_PRINTS = re.compile(r"(\d+|\$)(,(\d+|\$))?p")


def reach(touch: Touch) -> Reach:
    """Errs towards `anything`: a call that is taken for one that only looks would not be put back."""
    if touch.opaque:
        return "anything"
    if touch.command is not None:
        looks = isinstance(touch.command, Plan) and not touch.writes and _only_looks(touch.command)
        return "nothing" if looks else "anything"
    return "named" if touch.writes else "nothing"


def _only_looks(plan: Plan) -> bool:
    if any(redirect.writes and redirect.target != "/dev/null" for redirect in redirects(plan)):
        return False
    return is_harmless(plan) or (not plan.inside and all(map(_looks, simples(plan))))


def _looks(simple: Simple) -> bool:
    words = simple.words
    match simple.name:
        case "git":
            return len(words) > 1 and words[1] in GIT_LOOKING and not any(map(_names_an_output, words))
        case "rg":
            return not any(word.startswith("--pre") for word in words)
        case "sort":
            return not any(map(_names_an_output, words))
        case "find":
            return FIND_ACTS.isdisjoint(words)
        case "sed":
            return len(words) > 2 and words[1] == "-n" and SED_PRINTS.fullmatch(words[2]) is not None and _plain(words)
        case name:
            return name in LOOKING or name in harmless()


def _plain(words: tuple[str, ...]) -> bool:
    return not any(word.startswith("-") for word in words[3:])


def _names_an_output(word: str) -> bool:
    return word.startswith("--o") or re.match(r"-[a-zA-Z]*o", word) is not None
