"""Where a word may stand that is only known when the command runs: as data, and nowhere else.

Data is what echo and printf print, what `test` compares as text, and the value of an option that a program's table
marks as text (`git commit -m`). It is never a program, an option, a path or code.
"""

import re

from adderclaw.policy.legacy import inline
from adderclaw.policy.legacy.programs import git, operands
from adderclaw.policy.legacy.programs.allowlist import (
    PROGRAMS,
    Options,
    interprets,
    is_shell,
    known_as,
    runs_others,
    those,
)
from adderclaw.policy.legacy.programs.handed import only_shows
from adderclaw.policy.legacy.programs.knowledge import SPECIAL
from adderclaw.policy.legacy.programs.options import parse
from adderclaw.policy.legacy.programs.wrappers import inner, runs_in_project
from adderclaw.policy.legacy.shell.plan import Live, Simple
from adderclaw.policy.legacy.shell.syntax import NotAPlan

_COMPARES = frozenset({"=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_MARK = "\x03"
_NONE = Options()


def check(simple: Simple, *, confined: bool) -> Simple:
    """Raises NotAPlan where a word that is not known stands for anything but data.

    In a sandbox it may be an operand, too, of a program that is known: the sandbox holds what it leads to, and such a
    command is asked about each time.
    """
    for index, word in enumerate(simple.words):
        if not isinstance(word, Live):
            continue
        if _is_data(simple, index, word, confined=confined):
            if word.is_numeric and simple.name not in those("counts") and not confined:
                _check_place(simple, index, word)
        elif not (_may_stand(simple, index) if confined else _is_piped(simple, word)):
            raise NotAPlan(f"{str(word)[:60]}, which is not known before it runs, where it may be more than data")
        else:
            simple = simple._replace(handed=not word.is_file)
    return simple


def _is_piped(simple: Simple, word: Live) -> bool:
    """Whether it is `<(…)` for a program that only looks at it."""
    table = PROGRAMS.get(simple.name)
    return word.is_file and table is not None and table.kind == "look" and not interprets(simple.name)


MAX_WRAPPERS = 8


def _is_for_inner(simple: Simple, index: int) -> bool:
    """Whether a word is for the program that a wrapper runs, and may stand there."""
    if sum(map(runs_others, simple.words)) > MAX_WRAPPERS:
        return False
    within = inner(simple.words) or ()
    start = len(simple.words) - len(within)
    if simple.name == "xargs" or not within or index <= start or isinstance(within[0], Live):
        return False
    return _may_stand(simple._replace(words=within, name=within[0].rsplit("/", 1)[-1]), index - start)


_ACTS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})


def _may_stand(simple: Simple, index: int) -> bool:
    """Whether a word can be no program, no command of one and no code: what those are stands before it."""
    name, words = simple.name, simple.words
    if not index or name in those("builtin"):
        return False
    if is_shell(name):
        return words[1:2] == ("-n",)  # it only reads the script
    if runs_others(name) or runs_in_project(words):
        return _is_for_inner(simple, index)
    if not _ACTS.isdisjoint(words):
        return False
    table = PROGRAMS.get(name)
    if not interprets(name) and (table is None or table.commands is None):
        return True
    named = any(not word.startswith("-") and not isinstance(word, Live) for word in words[1:index])
    return named and inline.of(words) is None


_PROBE = "7302958146"


def _check_place(simple: Simple, index: int, word: Live) -> None:
    """Raises NotAPlan where a number that is not known is part of a file's name: rules could not be asked about it."""
    probed = tuple(word.with_number(_PROBE) if n == index else w for n, w in enumerate(simple.words))
    named = operands.operands(simple.name, simple._replace(words=probed).opened.words)
    if _PROBE in repr(tuple(named)) or _PROBE in repr(operands.given(simple._replace(words=probed))):
        raise NotAPlan(f"{str(word)[:60]}, a file whose name has a number in it that is not known before it runs")


def _is_data(simple: Simple, index: int, word: Live, *, confined: bool) -> bool:
    name, words = simple.name, simple.words
    if index == 0 or "/" in name:
        return False
    if word.is_glob:
        return name in ("echo", "printf") and index > (name == "printf")
    if name in ("echo", "kill"):
        return True
    if name == "printf":
        return index > 1 and not isinstance(words[1], Live)
    if word.splits and not word.is_numeric:
        return False
    if _is_pattern(simple, index, confined=confined) or (known_as(name) == "awk" and _is_value(simple, index)):
        return True
    if name == "jq" and _is_argument(words, index):
        return True
    if name in ("test", "["):
        return _is_compared(words, confined=confined)
    if name == "exit":
        return len(words) == 2
    if word.is_number and only_shows(words) and not any(isinstance(w, Live) for w in words[:index]):
        return True
    if word.is_numeric and name in those("numbered"):
        return True
    if word.is_numeric and name in PROGRAMS and not interprets(name) and not runs_others(name):
        lead = word.pieces[0]
        return isinstance(lead, str) and lead not in ("", "-", "--")
    return _is_text_value(simple, index)


def _is_value(simple: Simple, index: int) -> bool:
    """Whether it is the value of a variable of awk's: no program of the kind that is taken makes code of it."""
    word = simple.words[index]
    lead = word.pieces[0] if isinstance(word, Live) else ""
    return simple.words[index - 1] == "-v" and isinstance(lead, str) and bool(re.match(r"[A-Za-z_]\w*=", lead))


def _is_pattern(simple: Simple, index: int, *, confined: bool) -> bool:
    """Whether grep looks for it: no option of grep's runs or writes anything, should it be taken for one."""
    is_grep = known_as(simple.name) == "grep"
    if not is_grep and simple.name != "rg":
        return False
    words, word = simple.words, simple.words[index]
    lead = word.pieces[0] if isinstance(word, Live) else ""
    text = isinstance(lead, str) and not lead.startswith("-")
    before = parse(words[1:index], PROGRAMS[simple.name].options)
    asked = words[index - 1] in ("-e", "--") or text or (is_grep and confined)
    first = not before.operands and not before.given & {"-e", "-f", "--regexp", "--file"}
    return asked and not before.strange and (first or words[index - 1] == "-e")


def _is_argument(words: tuple[str, ...], index: int) -> bool:
    """Whether it is what jq's `--arg NAME` gives a value, read as jq reads its words: from the left."""
    at = 1
    while at < index:
        word = words[at]
        if re.match(r"-[A-Za-z]*L", word):
            return False
        if word in ("--arg", "--argjson"):
            if at + 2 == index:
                return True
            at += 3
        else:
            at += 3 if word in ("--slurpfile", "--rawfile") else 2 if word == "--indent" else 1
    return False


_ASKS = frozenset({"-e", "-f", "-d", "-s", "-r", "-w", "-x", "-L", "-h"})
"""What is asked of a file: nothing of it is read."""


def _is_compared(words: tuple[str, ...], *, confined: bool) -> bool:
    inside = words[1:-1] if words[0] == "[" else words[1:]
    if inside[:1] == ("!",) and not isinstance(inside[0], Live):
        inside = inside[1:]
    if len(inside) == 2:
        asked = inside[0] in ("-n", "-z") or (confined and inside[0] in _ASKS)
        return asked and not isinstance(inside[0], Live)
    return len(inside) == 1 or (len(inside) == 3 and inside[1] in _COMPARES and not isinstance(inside[1], Live))


def _is_text_value(simple: Simple, index: int) -> bool:
    """Whether the table of the program's options takes the word for the text of an option."""
    known = PROGRAMS.get(simple.name, _NONE)
    # Of some programs' words more is known than which option they follow: they are code, or name a file after an `@`.
    if (known_as(simple.name) in SPECIAL and simple.name != "git") or known.odd or known.outside or known.registry:
        return simple.name == "curl" and _is_sent(simple.words, index)
    marked = tuple(_marked(w) if n == index else str(w) for n, w in enumerate(simple.words))
    if any(isinstance(w, Live) for w in simple.words[:index]) and simple.name != "git":
        return False
    if simple.name == "git":
        command, rest, strange = git.command_of(marked)
        table = (PROGRAMS["git"].commands or {}).get(command) if not strange else None
    else:
        table, rest = _table(simple.name, marked)
    if table is None or _MARK in "".join(marked[: len(marked) - len(rest)]):
        return False
    read = parse(rest, table)
    seen = (*read.operands, *read.values, *read.strange, *read.given)
    return not read.strange and not any(_MARK in text for text in seen)


def _is_sent(words: tuple[str, ...], index: int) -> bool:
    """Whether curl sends a word as it is: it begins with a text that names no file."""
    word = words[index]
    first = word.pieces[0] if isinstance(word, Live) else word
    return words[index - 1] in _SENDS and isinstance(first, str) and first[:1] not in ("", "@")


_SENDS = frozenset({"-H", "--header", "-d", "--data", "--data-raw", "--json"})


def _table(name: str, words: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """What is known of a program's options, and the words that they are among."""
    options = PROGRAMS.get(name)
    if options is None or options.single_dash or options.wraps or options.shell or options.never:
        return None, ()
    if options.commands is None:
        return options.options or None, words[1:]
    return options.commands.get(words[1] if len(words) > 1 else ""), words[2:]


def _marked(word: str) -> str:
    """The word with a mark for whatever is not known of it."""
    if not isinstance(word, Live):
        return word
    return "".join(piece if isinstance(piece, str) else _MARK for piece in word.pieces)
