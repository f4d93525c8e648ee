"""Words that are numbers, whatever numbers they are: what `seq` prints, and what programs count."""

import re
from collections.abc import Sequence

from adderclaw.policy.legacy.programs.allowlist import known_as
from adderclaw.policy.legacy.shell.plan import Live, Output, Redirect, Script, Simple

_NOTHING_ELSE = Redirect("2", ">", "/dev/null")


def counts(word: str) -> bool:
    """Whether a word is what a program prints that is meant to print a number.

    Nothing rests on that it does: where such a variable is counted with, bash gets its digits or an error.
    """
    only = word.pieces[0] if isinstance(word, Live) and len(word.pieces) == 1 else None
    return isinstance(only, Output) and only.number and not only.file


def prints_numbers(word: str) -> bool:
    """Whether a word is what `seq` prints, between numbers that stand there."""
    only = word.pieces[0] if isinstance(word, Live) and len(word.pieces) == 1 else None
    if not isinstance(only, Output) or only.file or len(only.body.steps) != 1 or only.body.tail:
        return False
    made = only.body.steps[0].commands
    if len(made) != 1 or not isinstance(made[0], Simple) or made[0].redirects or made[0].env:
        return False
    words = made[0].words
    return words[0] == "seq" and bool(made[0].program) and all(re.fullmatch(r"-?\d{1,9}", word) for word in words[1:])


def prints_count(body: Script) -> bool:
    if len(body.steps) != 1 or body.tail:
        return False
    step = body.steps[0]
    commands = [one for one in step.commands if isinstance(one, Simple)]
    if len(commands) != len(step.commands) or step.timed or any(joint != "|" for joint in step.joints):
        return False
    last = commands[-1]
    if any(r != _NOTHING_ELSE and not r.operator.startswith("<") for r in last.redirects):
        return False
    return _counts(last) or _numbers_lines(commands)


def _counts(simple: Simple) -> bool:
    given = tuple(word for word in simple.words[1:] if word.startswith("-") and not isinstance(word, Live))
    only = simple.words[1] if len(simple.words) == 2 and not isinstance(simple.words[1], Live) else ""
    match simple.name:
        case "wc":
            return only in ("-l", "-c", "-w", "-m")
        case "nproc":
            return len(simple.words) == 1
        case "date":
            return only in ("+%s", "+%s%N", "+%Y")
        case "grep" | "egrep" | "fgrep":
            plain = all(re.fullmatch(r"-[cEFPivwx]+", word) for word in given)
            return plain and "c" in "".join(given) and len(simple.words) - 1 - len(given) in (1, 2)
        case "git":
            plain = all(re.fullmatch(r"--(?:count|all|(?:no-)?merges|first-parent)", word) for word in given)
            return plain and simple.words[1:2] == ("rev-list",) and "--count" in given
        case _:
            return False


def _numbers_lines(commands: Sequence[Simple]) -> bool:
    """`grep -n x file | head -1 | cut -d: -f1`: the numbers of lines."""
    if len(commands) < 2:
        return False
    first, *between, last = commands
    given = [word for word in first.words[1:] if word.startswith("-") and not isinstance(word, Live)]
    numbered = known_as(first.name) == "grep" and "n" in "".join(given)
    numbered = numbered and all(re.fullmatch(r"-[nEFPiwx]+(?:m\d+)?", word) for word in given)
    cut = last.name == "cut" and last.words[1:] in (("-d:", "-f1"), ("-d", ":", "-f1"), ("-d", ":", "-f", "1"))
    return numbered and len(first.words) - 1 - len(given) == 2 and cut and all(map(_takes_lines, between))


def _takes_lines(simple: Simple) -> bool:
    """`head -1`, `tail -n 1`: it names no file of its own."""
    match simple.words:
        case ("head" | "tail", how):
            return bool(re.fullmatch(r"-n?\d+", how)) and not isinstance(how, Live)
        case ("head" | "tail", "-n", how):
            return how.isdecimal() and not isinstance(how, Live)
        case _:
            return False
