"""Names that a command found, as words of those after it: `for f in $(git ls-files)`, `find … | while read -r f`.

Such a name was not judged: it may hold blanks, begin with a dash or be a link. So it is taken only where a sandbox is
around the command, only from commands that print nothing but names, and only where a program opens it as a file.
"""

from collections.abc import Sequence

from adderclaw.gate.allowlist import PROGRAMS, names
from adderclaw.gate.handed import TAKES_PROGRAMS, not_names, selects
from adderclaw.gate.options import parse
from adderclaw.gate.plan import Command, Live, Output, Redirect, Script, Simple, Variable
from adderclaw.gate.programs import INTERPRETERS, SPECIAL, WRAPPERS

_LISTERS = names("find git fd fdfind ls grep egrep fgrep rg")
_TESTS = names("-e -f -d -s -r -w -x -L -h")
_CODE_FIRST = names("sed jq awk gawk mawk nawk")
"""Programs whose first operand is code, as that of a program that searches is a pattern."""
_GIT = names("add blame check-ignore diff log shortlog stat")
_OTHERS = (INTERPRETERS | WRAPPERS | TAKES_PROGRAMS | frozenset(SPECIAL)) - _CODE_FIRST
"""Programs whose words are more than files, or go elsewhere."""


def prints_names(script: Script) -> bool:
    """Whether what `$(…)` stands for are names that a command found, and nothing else."""
    step = script.steps[0]
    if len(script.steps) != 1 or script.tail or step.negated or step.timed:
        return False
    return finds(step.commands, step.joints)


def finds(commands: Sequence[Command], joints: Sequence[str] = ()) -> bool:
    """Whether a pipeline begins with a command that finds names, and goes on with such as leave some of them out."""
    if not commands or any(joint != "|" for joint in joints):
        return False
    simple = [one for one in commands if isinstance(one, Simple) and _is_plain(one)]
    if len(simple) != len(commands):
        return False
    source, *filters = simple
    return source.name in _LISTERS and not not_names(source) and not selects(source) and all(map(selects, filters))


def _is_plain(simple: Simple) -> bool:
    """Whether all of its words are known, and nothing but what goes wrong is sent elsewhere."""
    quiet = all(redirect == Redirect("2", ">", "/dev/null") for redirect in simple.redirects)
    return quiet and not simple.env and not any(isinstance(word, Live) for word in simple.words)


def is_found(word: str, variables: frozenset[str]) -> bool:
    """Whether a word is nothing but names that were found; `variables` hold such."""
    only = word.pieces[0] if isinstance(word, Live) and len(word.pieces) == 1 else None
    if isinstance(only, Variable):
        return only.name in variables
    return isinstance(only, Output) and prints_names(only.body)


def opens(simple: Simple, index: int) -> bool:
    """Whether a program opens the word at this place as a file, whatever name it is: no code, no option's value."""
    name, words = simple.name, simple.words
    if name in ("test", "["):
        inside = words[1:-1] if name == "[" else words[1:]
        negated = inside[:1] == ("!",)
        return len(inside) == 2 + negated and inside[-2] in _TESTS and index == 2 + negated
    options = PROGRAMS.get(name)
    if options is None or name in _OTHERS:
        return name == "git" and len(words) > 2 and words[1] in _GIT and _are_names(words[2:], index - 2)
    if options.commands is not None or options.never or options.shell or options.single_dash or options.script:
        return False
    if options.operands == "none":
        return options.kind == "look"
    known = parse(words[1:index], options.options)
    first = options.operands == "pattern" or name in _CODE_FIRST
    if first and not known.operands and not known.given & {"-e", "--regexp", "--expression"}:
        return False
    probe = "\x03name"
    seen = parse((*words[1:index], probe, *words[index + 1 :]), options.options)
    looks = options.kind == "look" or name == "sed"
    return looks and probe in seen.operands and not seen.strange and _are_names(words, index)


def _are_names(words: Sequence[str], index: int) -> bool:
    """Whether no option follows the word: all that do are words like it."""
    return not any(word.startswith("-") and not isinstance(word, Live) for word in words[index + 1 :])
