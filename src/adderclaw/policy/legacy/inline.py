"""Code that stands in a command (`python -c`, a here-document for node …): where it is, and its text.

Nobody interprets it. Which options of a program are followed by code, and whether it takes its standard input for code,
stands in the program's table.
"""

import os
import re
from collections.abc import Iterator

from adderclaw.core.record import NamedTuple
from adderclaw.policy.legacy.programs.allowlist import PROGRAMS, Options, is_shell
from adderclaw.policy.legacy.programs.languages import is_plain_awk
from adderclaw.policy.legacy.programs.objections import Objection
from adderclaw.policy.legacy.programs.options import kinds, parse
from adderclaw.policy.legacy.shell.plan import Plan, Simple, steps

type Words = tuple[str, ...]


class Code(NamedTuple):
    program: str
    text: str | None
    """None where it comes from elsewhere, and cannot be shown."""

    @property
    def why(self) -> str:
        if self.text is None:
            return f"{self.program} would run what its standard input says"
        lines = self.text.count("\n") + 1
        return f"inline code for {self.program} ({lines} line{'s' if lines > 1 else ''})"

    @property
    def objection(self) -> Objection:
        return Objection(self.why, inline="words")


def of(words: Words, stdin: str | None = None) -> Code | None:
    """The code that a command brings for the interpreter that it calls; None where it brings none."""
    name = words[0].rsplit("/", 1)[-1]
    table = _table(name)
    if not (table.code or table.stdin_code or table.operands == "code") or _asks(words[1:], table):
        return None
    if table.loads and (address := _address(words[1:], table)):
        return Code(name, address)
    rest = list(words[1:])
    while rest:
        word = rest.pop(0)
        if word in _STDIN and table.stdin_code:
            return Code(name, stdin)
        if word in table.ends:
            module = f"python {word} {rest[0]}" if rest else ""
            return of((module, *rest[1:]), stdin) if module in PROGRAMS else None
        if word in table.code:
            return Code(name, rest[0] if rest else "")
        if not word.startswith("-"):
            is_code = table.operands == "code" and not (table.looks and is_plain_awk(word))
            return Code(name, word) if is_code else None
        found = _attached(word, rest, table, Code(name, stdin))
        if found is not None:
            return found
    return Code(name, stdin) if table.stdin_code else None


def stands_in(simple: Simple) -> bool:
    """Whether a command, or one that it hands on, brings code, or may do so for all that is known of its options."""
    from adderclaw.policy.legacy.commands import handed_on

    return any(of(words) is not None or _objected(words) for words in handed_on(simple.words))


def _objected(words: Words) -> str:
    """Where the list of programs sees code of a command, if it does."""
    from adderclaw.policy.legacy.programs.knowledge import objection

    name = words[0].rsplit("/", 1)[-1]
    name = name if name in PROGRAMS else re.sub(r"\d[\d.]*$", "", name)
    found = objection(name, (name, *words[1:])) if name in PROGRAMS else None
    return found.inline if found is not None else ""


def _table(name: str) -> Options:
    """A program's table; `python3.12` has that of `python`."""
    return PROGRAMS.get(name) or PROGRAMS.get(re.sub(r"\d[\d.]*$", "", name)) or _NONE


def _address(words: Words, table: Options) -> str:
    """Code that is an address, among the words that are not certainly for a script."""
    found = parse(words, table.options, until_operand=True)
    own = words if found.strange or table.commands else words[: len(words) - len(found.operands) + 1]
    # As addresses are read: without tabs and line ends, in whatever case.
    plain = (re.sub(r"[\t\n\r]", "", word) for word in own)
    return next((word for word in plain if re.search(r"(?i)(?:^|=|^-\w)[\x00-\x20]*data:", word)), "")


def comes_by_stdin(words: Words) -> bool:
    """Whether a command runs what its standard input says, which its own words do not."""
    from adderclaw.policy.legacy.programs.knowledge import shell_code

    if is_shell(words[0].rsplit("/", 1)[-1]):
        return shell_code(words) == 0
    code = of(words)
    if code is None:
        return _objected(words) == "stdin" or _may_lack_a_script(words)
    return code.text is None


def _may_lack_a_script(words: Words) -> bool:
    """Whether what looks like the script may be the value of an option that the table does not know (`-r ./x.js`)."""
    table = _table(words[0].rsplit("/", 1)[-1])
    found = parse(words[1:], table.options, until_operand=True)
    return table.stdin_code and 0 < len(found.strange) >= len(found.operands)


_STDIN = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})


def _asks(words: Words, table: Options) -> bool:
    return bool(words) and table.bare.issuperset(words)


def _attached(word: str, rest: list[str], table: Options, fed: Code) -> Code | None:
    """The code of an option that is bundled with others, or has it attached; a value is taken from the rest."""
    known = kinds(table.options)
    if word.startswith("--"):
        name, attached, value = word.partition("=")
        if attached and name in table.code:
            return fed._replace(text=value)
        if not attached and known.get(name) in ("=", "~") and rest:
            rest.pop(0)
        return None
    for at, letter in enumerate(word[1:], 1):
        after = word[at + 1 :]
        if f"-{letter}" in table.code:
            return fed._replace(text=after or (rest[0] if rest else ""))
        if f"-{letter}" in table.interactive:
            return fed
        if f"-{letter}" in table.ends:
            rest[:0] = [f"-{letter}", *filter(None, [after])]
            return None
        if known.get(f"-{letter}") in ("=", "~", "?"):
            if not after and known[f"-{letter}"] != "?" and rest:
                rest.pop(0)
            return None
    return None


# ------------------------------------------------------------------ code that a command writes, and runs at once


def brought(plan: Plan) -> Iterator[str]:
    """Why a plan runs code that was not there before: it writes a file, or fetches a repository, and may run that."""
    written: dict[str, bool] = {}
    fetched = ""
    for step in steps(plan):
        for simple in step.commands:
            written |= {file: stands or written.get(file, False) for file, stands in _written(simple)}
        for simple in step.commands if written or fetched else ():
            named = {os.path.normpath(part) for word in _given(simple) for part in re.split(r"[\s=]", word) if part}
            file = next((file for file, stands in written.items() if stands or file in named), "")
            if file and _runs_code(simple) and file not in dict(_written(simple)):
                yield f"{file}, which the command writes, may be run by {simple.name}"
                return
            if fetched and _runs_code(simple):
                yield f"{simple.words[0]!r} would run what the same command fetched: make it a call of its own"
                return
        fetched = fetched or next(filter(None, (_fetches(simple.words) for simple in step.commands)), "")


def _given(simple: Simple) -> Words:
    return (*simple.words, *(str(r.target) for r in simple.redirects if r.feeds))


def _written(simple: Simple) -> Iterator[tuple[str, bool]]:
    """The files that a command writes, each with whether its text stands in the command."""
    table = PROGRAMS.get(simple.name, _NONE)
    stands = table.says or any(r.is_text for r in simple.redirects)
    files = [str(r.target) for r in simple.redirects if r.writes and r.target != "/dev/null"]
    files += [word for word in simple.words[1:] if table.moves and not table.commands and not word.startswith("-")]
    yield from ((os.path.normpath(file), stands) for file in files if file)


_NONE = Options()


def _runs_code(simple: Simple) -> bool:
    """Whether a command, or one that it hands on, may run what lies in a file."""
    from adderclaw.policy.legacy.commands import handed_on

    return any(map(_may_run, ((simple.name, *simple.words[1:]), *handed_on(simple.words))))


def _may_run(words: Words) -> bool:
    options = PROGRAMS.get(words[0].rsplit("/", 1)[-1])
    if "/" in words[0] or (options is not None and (options.shell or options.script)):
        return True
    return options is not None and options.kind == "work" and not options.moves and not options.wraps


def _fetches(words: Words) -> str:
    fetches = words[:2] in (("git", "clone"), ("gh", "repo")) or words[:3] == ("git", "submodule", "add")
    return next((w for w in words[2:] if "://" in w or re.match(r"[\w.-]+@", w)), "") if fetches else ""
