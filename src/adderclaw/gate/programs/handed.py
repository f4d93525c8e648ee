"""Names that one command finds for another, through xargs or find's -exec: what they may be, and where they may lead.

A name that is found is not a word that was judged. It may begin with a dash, so that it is an option; it may hold a
blank or a newline, so that it becomes two; it may be a link, so that it leads elsewhere; or it may be no name at all,
where the command before prints what its words say. Each is dealt with here: what may not be names is refused, links
are looked up (`Walk`), and xargs is called in a way in which a name stays one word (`tools.shell`).
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from adderclaw.gate.programs.allowlist import PROGRAMS, names
from adderclaw.gate.programs.options import Words, parse
from adderclaw.gate.programs.wrappers import find_parts, inner
from adderclaw.gate.shell.plan import Simple

TAKES_PROGRAMS = names("make gmake ninja just task env npm yarn pnpm cargo patch rails sbt composer")
"""Programs whose first words are no files: what they are to do, or what they are to set."""
_FILTERS = names("sort uniq head tail tac")
_LISTS = r"-[A-Za-z]*[lL][A-Za-z0]*|--files-with-matches|--files-without-match|--files"
_SHAPES = {
    "ls": r"-[1aAtrcuSUBXvd]+|--all|--almost-all|--reverse|--sort=\w+|--directory|--zero",
    "git": (
        r"-[cdomuiz]+|--(?:cached|deleted|others|modified|unmerged|exclude-standard|name-only|staged|diff-filter=\w+)"
        r"|--format=|--pretty=(?:format:)?|--(?:merge-base|no-renames|relative)|--"
    ),
    "fd": r"-[HIusigFapL01]+|-[detES]\w*|--(?:hidden|no-ignore|glob|type|extension|exclude|max-depth|print0)(?:=\S*)?",
    "grep": r"(?!.*[oC])-[A-Za-z0]+|--(?:include|exclude|exclude-dir|files-with(?:out)?-match(?:es)?|null)(?:=.*)?|--",
    "rg": r"(?!.*[or])-[A-Za-z0]+|-g.*|-t.*|-e|--(?:files\S*|glob|type|type-not|hidden|no-ignore|null)(?:=.*)?|--",
}
"""The options with which a program that lists names prints nothing but those."""


def not_names(simple: Simple) -> bool:
    """Whether what a command prints may be anything but names that it found."""
    name = {"fdfind": "fd", "egrep": "grep", "fgrep": "grep"}.get(simple.name, simple.name)
    words = simple.words[1:]
    if name == "find":
        return any(word.startswith(("-printf", "-exec", "-fprint", "-ls", "-ok")) for word in words)
    if name in ("lsof", "pgrep", "docker"):
        return not any(re.match(r"-[a-z]*[tq]", word) for word in words)
    shape = _SHAPES.get(name)
    if shape is None or any(word.startswith("-") and not re.fullmatch(shape, word) for word in words):
        return True
    if name == "git":
        shows = words[:1] == ("show",) and any(re.fullmatch(r"--(?:format|pretty)=(?:format:)?", w) for w in words)
        return words[:1] != ("ls-files",) and not ("--name-only" in words and (words[:1] == ("diff",) or shows))
    return name in ("grep", "rg") and not any(re.fullmatch(_LISTS, word) for word in words)


def selects(simple: Simple) -> bool:
    """Whether a command only leaves out whole lines of what it is given: a part of a name is another name."""
    words, options = simple.words, PROGRAMS.get(simple.name)
    if simple.name == "tr":
        return words[1:] == ("\\n", "\\0")
    if options is None:
        return False
    found = parse(tuple(word for word in words[1:] if not re.fullmatch(r"-\d+", word)), options.options)
    if found.strange or "--files0-from" in found.given:
        return False
    if simple.name in ("grep", "egrep", "fgrep", "rg"):
        cuts = any(re.match(r"-[A-Za-z]*[or]|--only|--replace|--label", word) for word in words[1:])
        lists = any(re.fullmatch(_LISTS, word) for word in words[1:]) or found.given & _RECURSIVE
        return not cuts and not lists and len(found.operands) == (0 if found.given & _PATTERNS else 1)
    cuts = any(re.match(r"-[a-z]*[cos]|--bytes|--output", word) for word in words[1:])
    return simple.name in _FILTERS and not cuts and not found.operands


_PATTERNS = names("-e --regexp -f --file")
_RECURSIVE = names("-R -d --recursive --dereference-recursive --directories")


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
    ended = "--" in command or command[0].rsplit("/", 1)[-1] in _WITHOUT_END
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


_WITHOUT_END = names("basename dirname jq test [")
"""Programs to which `--` may be a word like others; none of their options does any harm."""


# ------------------------------------------------------------------ where names may lead


class Walk(NamedTuple):
    """Names that are handed to a program which opens them: the links among them lead where they lead."""

    root: str
    names: Words = ()
    """Patterns of which a name has one; none: any name."""
    without: Words = ()
    """Patterns of paths that are left out."""
    deep: bool = True
    tracked: bool = False
    """Whether only what git keeps is listed."""


def walks_of_find(words: Words) -> tuple[Walk, ...]:
    """The links that a find may come upon; none where it names only files or folders."""
    parts = find_parts(words)
    roots = parse(parts.words[1:], PROGRAMS["find"].options, single_dash=True).operands
    plain = tuple(word for word in roots if word not in ("(", ")", "!", ",", ";", "+", "{}")) or (".",)
    alternatives: list[list[str]] = [[]]
    for word in parts.words[1:]:
        if word in ("-o", "-or", ","):
            alternatives.append([])
        else:
            alternatives[-1].append(word)
    wanted: list[str] = []
    without: list[str] = []
    for alternative in alternatives:
        named = _tests(alternative)
        if not named.unlinked:
            wanted += named.names or ["*"]
        without += named.without if len(alternatives) == 1 else []
    patterns = () if "*" in wanted else tuple(wanted)
    return tuple(Walk(root, patterns, tuple(without)) for root in plain) if wanted else ()


class _Tests(NamedTuple):
    names: list[str]
    without: list[str]
    unlinked: bool
    """Whether no link passes: `-type f`."""


def _tests(words: list[str]) -> _Tests:
    found, without, unlinked = list[str](), list[str](), "-prune" in words
    for before, (test, value) in zip(["", *words], pairwise(words), strict=False):
        negated = before in ("!", "-not")
        if test in ("-name", "-iname") and not negated:
            found.append(value.casefold() if test == "-iname" else value)
        elif test == "-path" and negated:
            without.append(value)
        elif test == "-type" and not negated and "l" not in value:
            unlinked = True
    return _Tests(found, without, unlinked)


def walks_to_xargs(commands: "tuple[Simple, ...]") -> Iterator[tuple[Simple, Walk]]:
    """What the commands of a pipeline may find for the xargs in it, each with the command that finds it."""
    for index, simple in enumerate(commands):
        if simple.name == "xargs" and not only_shows(inner(simple.words) or ()):
            for source in commands[:index]:
                yield from ((source, walk) for walk in walks_of(source))


def walks_of(source: Simple) -> tuple[Walk, ...]:
    words = source.words
    places = tuple(word for word in words[1:] if not word.startswith("-"))
    if source.name == "find":
        return walks_of_find(words)
    if source.name == "ls":
        return tuple(Walk(place, deep=False) for place in places or (".",))
    if source.name in ("fd", "fdfind"):
        of_files = any(pair in (("-t", "f"), ("--type", "f")) for pair in pairwise(words)) or "-tf" in words
        return () if of_files else tuple(Walk(place) for place in (*places[1:], "."))
    return (Walk(".", tracked=True),) if source.name == "git" else ()
