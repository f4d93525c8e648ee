"""Programs that measure, watch or debug others, and interpreters' small texts: what they are given to run is judged."""

import re
from itertools import pairwise

from adderclaw.policy.legacy.programs.allowlist import PROGRAMS
from adderclaw.policy.legacy.programs.objections import Ask, Objection, Words, unknown
from adderclaw.policy.legacy.programs.options import parse

_PLAIN = r"[\w./+:@%,-]+(?: [\w./+:@%,=-]+)*"
"""A command that every shell reads alike, word for word."""


def hyperfine(words: Words, ask: Ask) -> Objection | None:
    """Each operand is a command."""
    found = parse(words[1:], PROGRAMS["hyperfine"].options)
    if found.strange:
        return unknown(found.strange[0])
    if not found.operands:
        return Objection("hyperfine without a command")
    for text in found.operands:
        if not re.fullmatch(_PLAIN, text):
            return Objection(f"{text!r} is not one plain command")
        refused = ask.inner(tuple(text.split(" ")))
        if refused is not None:
            return refused
    return None


_DEBUGS = (
    r"(?:run|r|start|bt|backtrace|where|continue|c|next|n|step|s|finish|quit|q|info \w+|frame \d+|f \d+|up|down|list|l"
    r"|thread apply all bt(?: full)?|bt full|(?:break|b) [\w:.]+|(?:print|p)(?:/\w)? [\w.>\[\] *-]+|catch throw"
    r"|set pagination off)"
)


def gdb(words: Words, ask: Ask) -> Objection | None:
    """A program of the project under the debugger, with commands that only look."""
    found = parse(words[1:], PROGRAMS["gdb"].options, single_dash=True, until_operand=True)
    if found.strange:
        return unknown(found.strange[0])
    orders = [after for word, after in pairwise(words) if word in ("-ex", "--ex")]
    odd = next((order for order in orders if not re.fullmatch(_DEBUGS, order)), None)
    if odd is not None or not found.given & {"-batch"} or not found.operands:
        return Objection(f"gdb: {odd or 'only -batch with a program'} is not taken", "gdb")
    return ask.inner(found.operands)


def perf(words: Words, ask: Ask) -> Objection | None:
    options = PROGRAMS["perf"].commands or {}
    first = words[1] if len(words) > 1 else ""
    if first not in options:
        return Objection(f"perf {first} is not on the list", f"perf {first}")
    found = parse(words[2:], options[first], until_operand=True)
    if found.strange:
        return unknown(found.strange[0])
    return None if first == "report" or not found.operands else ask.inner(found.operands)


def nyc(words: Words, ask: Ask) -> Objection | None:
    """What is measured is a program that follows, but for the commands of its own."""
    options = PROGRAMS["nyc"].options
    found = parse(words[1:], options, until_operand=True)
    if not found.strange and found.operands[:1] in (("report",), ("check-coverage",), ("merge",)):
        found = parse(found.operands[1:], options)
        return unknown(found.strange[0]) if found.strange else None
    if found.strange or not found.operands:
        return unknown(found.strange[0]) if found.strange else Objection("it measures a program, and none is named")
    return ask.inner(found.operands)
