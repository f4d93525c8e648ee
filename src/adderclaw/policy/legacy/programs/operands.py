"""Which words of a command are files: when in doubt each is one, and a program that does more than look writes it."""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from adderclaw.core.record import NamedTuple
from adderclaw.policy.legacy import inline
from adderclaw.policy.legacy.programs import git, patches
from adderclaw.policy.legacy.programs.allowlist import PROGRAMS, Options, known_as
from adderclaw.policy.legacy.programs.languages import project_files, python_parts, sed_parts, tar_words
from adderclaw.policy.legacy.programs.network import data
from adderclaw.policy.legacy.programs.options import Parsed, Words, endings, parse
from adderclaw.policy.legacy.programs.wrappers import find_parts, inner
from adderclaw.policy.legacy.shell.environment import CODE_FOLDERS, folders_of, places_of
from adderclaw.policy.legacy.shell.plan import Simple
from adderclaw.policy.paths import protected_name


class Operands(NamedTuple):
    reads: Words = ()
    writes: Words = ()
    read_if_there: Words = ()
    """Words that name a file only where one of that name is there: `-Clink`, `commit`, `build`."""
    written_if_there: Words = ()
    trees: Words = ()
    """Folders that are read with all that links in them lead to."""
    merged: tuple[tuple[str, str], ...] = ()
    """(folder, target): what is in the one lands in the other under its own name."""
    folders: Words = ()
    """Where the program goes first (`git -C`): the other words are seen from there, too."""

    def plus(self, other: "Operands") -> "Operands":
        if _NOTHING in (self, other):
            return other if self == _NOTHING else self
        return Operands(
            _once(self.reads, other.reads),
            _once(self.writes, other.writes),
            _once(self.read_if_there, other.read_if_there),
            _once(self.written_if_there, other.written_if_there),
            _once(self.trees, other.trees),
            _once(self.merged, other.merged),
            _once(self.folders, other.folders),
        )


_NOTHING = Operands()


def _once[T](first: tuple[T, ...], second: tuple[T, ...]) -> tuple[T, ...]:
    return tuple(dict.fromkeys((*first, *second)))


NONE = Options()
ARCHIVE = "/*"
"""After the name of an archive: what is in it lands in a folder, as what is in a folder does."""
PATCH = "/*patch"
"""After the name of a patch: what it changes."""


def operands(name: str, words: Words) -> Operands:
    """The words of a command that name files, relative ones as they are."""
    program = (words[0],) if "/" in name else ()
    base = name.rsplit("/", 1)[-1]
    while within := inner((base, *words[1:])):
        program += (within[0],) if "/" in within[0] else ()
        given = (word.partition("=") for word in words[1:] if base in ("env", "cross-env"))
        program += tuple(part for name, _, value in given if name in CODE_FOLDERS for part in value.split(":") if part)
        program += parse(words[1:], PROGRAMS["npx"].options, until_operand=True).values if base == "npx" else ()
        base, words = within[0].rsplit("/", 1)[-1], within
    is_module = base in ("python", "python3")
    base, words = _module(base, words)
    known = base in PROGRAMS or f"python -m {base}" in PROGRAMS
    return Operands(reads=program, read_if_there=project_files(base) if is_module and not known else ()).plus(
        _of(base, words)
    )


def given(simple: Simple) -> Operands:
    """What a command is given beside its words: folders with code, and a script in a here-document."""
    if not simple.env and not simple.redirects:
        return _NOTHING
    places = places_of(simple.env)
    found = Operands(reads=(*folders_of(simple.env), *places), writes=places)
    if any(word.rsplit("/", 1)[-1] == "patch" for word in simple.words):
        found = found.plus(_patched(simple))
    return found


def _patched(simple: Simple) -> Operands:
    """What the patch on its standard input changes."""
    texts = (redirect.target for redirect in simple.redirects if redirect.is_text)
    names = tuple(name for text in texts for name in patches.changed(text))
    files = tuple(redirect.target for redirect in simple.redirects if redirect.feeds)
    return Operands(writes=names, merged=tuple((f"{file}{PATCH}", ".") for file in files))


def _module(base: str, words: Words) -> tuple[str, Words]:
    """`python -m pytest` is pytest."""
    parts = python_parts(words) if base in ("python", "python3") else None
    return (parts[1][0], parts[1]) if parts is not None and parts[0] == "-m" and parts[1] else (base, words)


def _of(base: str, words: Words) -> Operands:
    special = SPECIAL.get(known_as(base))
    if special is not None:
        return special(words)
    options = PROGRAMS.get(base, NONE)
    match options.operands:
        case "none":
            return _looked((), parse(words[1:], options.options, single_dash=options.single_dash).values)
        case "pattern":
            return _searched(base, words)
        case "in-out":
            found = parse(words[1:], options.options)
            return Operands(found.operands[:1], found.operands[1:])
        case "write":
            return _plain_operands(words)
        case "copy":
            return _copied(words)
        case _:
            return _by_table(base, words, options)


def _by_table(base: str, words: Words, options: Options) -> Operands:
    table = _table(base, words)
    if options.kind == "look":
        found = parse(words[1:], table, single_dash=options.single_dash)
        written = found.values if found.given & options.writes else ()
        return _looked(found.operands, found.values)._replace(trees=_followed(base, found), writes=written)
    if not table:
        return _any(words[1:])
    found = parse(words[1:], table, single_dash=options.single_dash)
    both = _both(_sorted((*found.operands, *found.values)))
    return both._replace(folders=found.values) if base in ("make", "gmake") else both


def _table(base: str, words: Words) -> str:
    """What is known of a program's options; of one with commands, of the command."""
    options = PROGRAMS.get(base) or PROGRAMS.get(f"python -m {base}", NONE)
    if options.commands is None:
        return options.options
    return options.commands.get(words[1] if len(words) > 1 else "", "")


# ------------------------------------------------------------------ words


class _Sorted(NamedTuple):
    paths: Words
    perhaps: Words


def is_pathlike(word: str) -> bool:
    """Whether a word is a path whatever is on the disk: it has a slash, begins with a dot, or has a guarded name."""
    if re.search(r"\s", word) and not word.startswith(("./", "../")):
        return False
    return "/" in word or word.startswith(".") or bool(protected_name(f"/{word}", ()))


def _sorted(words: Iterable[str]) -> _Sorted:
    """Words of which nothing is known, and their parts: those that are paths, and those that may be the name of one."""
    paths: dict[str, None] = {}
    perhaps: dict[str, None] = {}
    for word in words:
        for part in _parts(word):
            (paths if is_pathlike(part) else perhaps)[part] = None
    return _Sorted(tuple(paths), tuple(perhaps))


def _parts(word: str) -> Iterator[str]:
    if "file:" in word:
        yield re.sub(r".*?file:/*", "/", word, count=1)
    if not word or "://" in word:
        return
    yield word
    if re.search(r"[=:,@]", word):
        yield from (part for part in re.split(r"[=:,@]", word) if part)


def _any(words: Words) -> Operands:
    """For programs that nothing is known of: each word, and whatever may be an option's value."""
    found = _both(_sorted(part for word in words for part in _values(word)))
    return found._replace(folders=tuple(b for a, b in pairwise(words) if a in ("-C", "--directory")))


def of_word(word: str) -> tuple[Words, Words]:
    """What a word of which nothing is known names: paths, and what may be the name of one."""
    return _sorted(_values(word))


def _values(word: str) -> Iterator[str]:
    """A word, or what may be the value of the option that it is."""
    if not word.startswith("-"):
        yield word
        return
    if word.startswith("--") or "=" in word:
        yield from word.split("=", 1)[1:]
    if not word.startswith("--"):
        yield from endings(word)


def _both(found: _Sorted) -> Operands:
    return Operands(found.paths, found.paths, found.perhaps, found.perhaps)


def _looked(certain: Words, values: Words = ()) -> Operands:
    found = _sorted(values)
    return Operands(reads=(*(word for word in certain if word), *found.paths), read_if_there=found.perhaps)


def _followed(base: str, found: Parsed, places: Words | None = None) -> Words:
    follows = found.given & PROGRAMS.get(base, NONE).follows
    if base == "diff" and "--no-dereference" in found.given:
        return ()
    return (found.operands if places is None else places) or (".",) if follows else ()


# ------------------------------------------------------------------ programs that are known better


def _searched(base: str, words: Words) -> Operands:
    """The first operand is a pattern, unless an option gave one, or an option is there that we cannot read."""
    found = parse(words[1:], PROGRAMS[base].options)
    gives_pattern = found.given & {"-e", "--regexp", "-f", "--file", "--files", "--type-list", "--from-file"}
    places = found.operands if found.strange or gives_pattern else found.operands[1:]
    return _looked(places, found.values)._replace(trees=_followed(base, found, places))


def _jq(words: Words) -> Operands:
    """Jq has options of two values: a name and a text, or a name and a file."""
    kept, files, rest = ["jq"], [""], list(words[1:])
    while rest:
        word = rest.pop(0)
        if word in ("--arg", "--argjson", "--slurpfile", "--rawfile") and len(rest) > 1:
            files += rest[1:2] if word.endswith("file") else []
            del rest[:2]
        else:
            kept.append(word)
    return _searched("jq", tuple(kept)).plus(_looked(tuple(files)))


def _sed(words: Words) -> Operands:
    sed = sed_parts(words)
    if sed.strange:
        return _any(words[1:])
    return Operands(sed.files, sed.files if sed.in_place else ())


def _find(words: Words) -> Operands:
    parts = find_parts(words)
    found = parse(parts.words[1:], PROGRAMS["find"].options, single_dash=True)
    roots = tuple(word for word in found.operands if word not in ("(", ")", "!", ",", ";", "+", "{}")) or (".",)
    trees = roots if found.given & {"-L", "-H", "-follow"} else ()
    named = _looked(roots, found.values)._replace(trees=trees)
    for command in parts.commands:
        for place in roots:
            filled = tuple(word.replace("{}", place) for word in command)
            named = named.plus(operands(filled[0], filled))
    return named.plus(_any(words[1:])) if found.strange or parts.strange else named


def _awk(words: Words) -> Operands:
    """The first operand is the program; `name=value` among the others sets a variable."""
    found = parse(words[1:], PROGRAMS["awk"].options, until_operand=True)
    if found.strange:
        return _any(words[1:])
    return _looked(tuple(word for word in found.operands[1:] if not re.match(r"[A-Za-z_]\w*=", word)))


def _curl(words: Words) -> Operands:
    """What is sent from a file is read; `name@file` and `@file` name one."""
    sent = tuple(text.rsplit("@", 1)[1] for text in data(words[1:]) if "@" in text)
    base = words[0].rsplit("/", 1)[-1]
    return _by_table(base, words, PROGRAMS[base]).plus(_looked(sent))


def _git(words: Words) -> Operands:
    command, rest, strange = git.command_of(words)
    options = PROGRAMS["git"]
    table = (options.commands or {}).get(command)
    folders = parse(words[1 : len(words) - len(rest)], options.before).values
    if table is None or strange:
        return _any(words[1:])
    found = parse(rest, table)
    named = found.operands
    if command == "grep" and "-e" not in found.given and not found.strange:
        named = named[1:]
    both = _both(_sorted((*named, *found.values)))
    if command == "apply" and found.given & {"--check", "--stat", "--numstat", "--summary"}:
        return _looked((*folders, *found.operands), found.values)._replace(folders=folders)
    if command == "apply":
        changed = tuple((f"{file}{PATCH}", ".") for file in found.operands)
        return _looked(folders).plus(Operands(found.operands, merged=changed, folders=folders))
    if command in options.reads or (command == "config" and found.given & git.READS_CONFIG):
        both = both._replace(writes=(), written_if_there=())
    return _looked(folders).plus(both._replace(folders=folders))


def _copied(words: Words) -> Operands:
    base = words[0].rsplit("/", 1)[-1]
    found = parse(words[1:], PROGRAMS.get(base, NONE).options)
    if found.strange or PROGRAMS.get(base, NONE).operands != "copy":
        landing = tuple(_landing(found.operands, found.operands[-1:], found.given))
        return _any(words[1:]).plus(Operands(writes=landing))
    folders, plain = found.values[-1:], found.operands
    sources, target = (plain, folders) if folders else (plain[:-1], plain[-1:])
    if not sources:
        return Operands(plain, (*plain, *folders))
    # What a link leads to can be written through it.
    moved = sources if base in ("mv", "ln") else ()
    whole = "-T" in found.given or "--no-target-directory" in found.given
    whole = whole or (base == "rsync" and any(source.endswith("/") for source in sources))
    inside = [source for source in sources if whole or source.rstrip("/").rsplit("/", 1)[-1] in (".", "..", "")]
    # A copy of a link leads where the link does, and what comes after in the same command may read through it.
    follows = found.given & {"-r", "-R", "-a", "--recursive", "--archive"} and base != "mv"
    return Operands(
        sources,
        (*target, *_landing(sources, target, found.given), *moved),
        trees=sources if follows else (),
        merged=tuple((source, folder) for source in inside for folder in target),
    )


def _landing(sources: Words, target: Words, given: frozenset[str]) -> Iterator[str]:
    for folder in target:
        for source in sources:
            name = source if "--parents" in given else source.rstrip("/").rsplit("/", 1)[-1]
            yield f"{folder.rstrip('/') or '/'}/{name.lstrip('/')}"


def _script(words: Words) -> Operands:
    """An interpreter reads its script; what it does with the words after it, nobody knows."""
    base = words[0].rsplit("/", 1)[-1]
    parts = python_parts(words) if "python" in base else None
    if inline.of(words) is not None:
        return _any(tuple(word for word in words[1:] if not re.search(r"[\s;()]", word)))
    if "python" in base and parts is None:
        return _any(words[1:])
    options = PROGRAMS.get(base, NONE).options
    rest = parts[1] if parts is not None else parse(words[1:], options, until_operand=True).operands
    if PROGRAMS.get(base, NONE).shell and _has_code(words):
        return Operands()
    if not rest or rest[0].startswith("-"):
        return _any(words[1:])
    return Operands(reads=rest[:1]).plus(_any(rest[1:]))


def _has_code(words: Words) -> bool:
    """Whether a shell is given a text: what that names is looked at as a command of its own."""
    return "-c" in parse(words[1:], PROGRAMS["bash"].options, until_operand=True).given


def _run_script(words: Words) -> Operands:
    """An interpreter whose options may name folders and scripts, too."""
    found = parse(words[1:], PROGRAMS[words[0].rsplit("/", 1)[-1]].options, until_operand=True)
    if found.strange or inline.of(words) is not None:
        return _any(tuple(word for word in words[1:] if not re.search(r"[\s;()]", word)))
    return _looked(found.operands[:1], found.values).plus(_any(found.operands[1:]))


def _patch(words: Words) -> Operands:
    """The first operand is the file that is changed, the second the patch."""
    found = parse(words[1:], PROGRAMS["patch"].options)
    if found.strange:
        return _any(words[1:])
    files = (*found.values, *found.operands[1:])
    return Operands(files, found.operands[:1], merged=tuple((f"{file}{PATCH}", ".") for file in files))


def _chmod(words: Words) -> Operands:
    named = tuple(word for word in words[1:] if not word.startswith("-"))
    return Operands(named[1:], named[1:])


def _tar(words: Words) -> Operands:
    plain = tar_words(words)
    found = parse(plain[1:], PROGRAMS["tar"].options) if plain else None
    if plain is None or found is None or found.strange:
        return _any(words[1:])
    files = tuple(value for value in found.values if value != "-")
    if found.given & {"-t", "--list", "-d", "--diff", "--compare"}:
        return _looked(files)
    if not found.given & {"-x", "--extract", "--get"}:
        return Operands(files, files, folders=files).plus(_looked(found.operands))
    return _unpacked(values_of(plain, "-f", "--file"), values_of(plain, "-C", "--directory"), found.given)


def values_of(words: Words, *options: str) -> Words:
    """The values of one option, wherever it stands in a bundle."""
    letters = tuple(option[1] for option in options if len(option) == 2)
    found: list[str] = []
    for word, after in pairwise((*words, "")):
        name, attached, value = word.partition("=")
        if name in options and attached:
            found.append(value)
        elif word in options or (re.fullmatch(r"-\w+", word) and word.endswith(letters)):
            found.append(after)
        elif word.startswith(tuple(f"-{letter}" for letter in letters)) and not word.startswith("--"):
            found.append(word[2:])
    return tuple(found)


def _unpacked(archives: Words, folders: Words, given: frozenset[str]) -> Operands:
    """What comes out of an archive lands in the last folder that is named; `tools.shell` looks at what that is."""
    target = folders[-1] if folders else "."
    if given & {"-O", "--to-stdout"}:
        return _looked(archives)
    named = archives or ("-",)
    return Operands(archives, (target,), merged=tuple((f"{archive}{ARCHIVE}", target) for archive in named))


def _unzip(words: Words) -> Operands:
    found = parse(words[1:], PROGRAMS["unzip"].options)
    if found.strange:
        return _any(words[1:])
    if found.given & {"-l", "-t", "-p", "-c", "-v", "-Z", "-z"}:
        return _looked(found.operands[:1])
    return _unpacked(found.operands[:1], found.values, frozenset())


def _zip(words: Words) -> Operands:
    """Zip packs what links lead to, unless it is told to pack the links."""
    found = parse(words[1:], PROGRAMS["zip"].options, single_dash=True)
    both = _both(_sorted((*found.operands, *found.values)))
    return both if "-y" in found.given else both._replace(trees=found.operands[1:])


def _yq(words: Words) -> Operands:
    """Without -i it only looks."""
    found = parse(words[1:], PROGRAMS["yq"].options)
    if found.strange or found.given & {"-i", "--inplace", "--in-place"}:
        return _by_table("yq", words, PROGRAMS["yq"])
    return _looked(found.operands[1:], found.values)


def _hyperfine(words: Words) -> Operands:
    """Each operand is a command."""
    found = parse(words[1:], PROGRAMS["hyperfine"].options)
    named = _both(_sorted(found.values))
    for command in (tuple(text.split()) for text in found.operands if text.strip()):
        named = named.plus(operands(command[0], command))
    return named


def _json_tool(words: Words) -> Operands:
    found = parse(words[1:], PROGRAMS["python -m json.tool"].options)
    return Operands(found.operands[:1], found.operands[1:]).plus(_looked((), found.values))


def _test(words: Words) -> Operands:
    return _looked(
        tuple(word for word in words[1:] if not word.startswith("-") and word not in ("]", "=", "!=", "!", "=="))
    )


def _plain_operands(words: Words) -> Operands:
    """Programs whose operands are all written."""
    base = words[0].rsplit("/", 1)[-1]
    found = parse(words[1:], PROGRAMS.get(base, NONE).options)
    named = tuple(word for word in found.operands if word)
    return Operands(writes=named).plus(_both(_sorted(found.values)))


SPECIAL = {
    "sed": _sed,
    "jq": _jq,
    "find": _find,
    "git": _git,
    "scp": _copied,
    "awk": _awk,
    "unzip": _unzip,
    "zip": _zip,
    "curl": _curl,
    "python": _script,
    "node": _script,
    "ts-node": _script,
    "tsx": _script,
    "bash": _script,
    "source": _script,
    "perl": _run_script,
    "php": _run_script,
    "ruby": _run_script,
    "lua": _run_script,
    "Rscript": _run_script,
    "julia": _run_script,
    "elixir": _run_script,
    "patch": _patch,
    "chmod": _chmod,
    "tar": _tar,
    "json.tool": _json_tool,
    "hyperfine": _hyperfine,
    "yq": _yq,
    "test": _test,
    "[": _test,
    "rm": _plain_operands,
    "unlink": _plain_operands,
    "shred": _plain_operands,
}
