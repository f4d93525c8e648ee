"""What is known of programs: whether the built-in list takes a command, and which of its words are files."""

import re
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from adderclaw.gate.allowlist import HARMLESS, NODE_PROGRAMS, PROGRAMS, PYTHON_MODULES, UV_COMMANDS, Options, names

__all__ = ["HARMLESS", "PROGRAMS", "SHELLS", "Operands", "inner", "objection", "operands"]

type Words = tuple[str, ...]

SHELLS = names("sh bash dash zsh ksh mksh ash fish csh tcsh pwsh powershell")
WRAPPERS = names(
    """env sudo doas su runuser xargs nice nohup timeout time stdbuf setsid ionice chrt taskset chroot command exec
    builtin eval watch busybox toybox parallel strace ltrace unshare nsenter flock script ssh npx uv proxychains
    systemd-run pkexec firejail bwrap setarch linux32 linux64 prlimit"""
)
"""Programs that run the program that their words name."""


# ------------------------------------------------------------------ the built-in list


def objection(name: str, words: Words, allowed: Callable[[str, Words], bool] | None = None) -> str | None:
    """Why the built-in list does not take a command; None if it does.

    `allowed` is the operator's own list, which also counts for what a wrapper such as `timeout` runs.
    """
    if allowed is not None and allowed(name, words):
        return None
    if sum(word.rsplit("/", 1)[-1] in _RUNNERS for word in words) > _MAX_RUNNERS:
        return "too many programs that run programs"
    options = PROGRAMS.get(name)
    if options is None:
        return "it is not on the list of allowed commands"
    special = SPECIAL.get(name)
    if special is not None:
        return special(words, allowed)
    return _by_table(name, words, options)


type Allowed = Callable[[str, Words], bool] | None

_RUNNERS = names("timeout nice nohup stdbuf env uv coverage")
_MAX_RUNNERS = 8


def _by_table(name: str, words: Words, options: Options) -> str | None:
    for word in words[1:]:
        if word == "--":
            break
        bad = _refused(word, options)
        if bad:
            return f"its option {bad} can run a program, write a file or change its configuration"
    if options.commands:
        command = first_operand(words)
        if command is None:
            return None if set(words[1:]) & {"--version", "-v", "--help", "-h"} else f"{name} without a command"
        if command not in options.commands:
            return f"{name} {command} is not on the list"
    return None


def _refused(word: str, options: Options) -> str | None:
    """The refused option that a word is, GNU abbreviations and bundled letters included."""
    if not word.startswith("-") or word == "-":
        return None
    given = word.split("=", 1)[0]
    if options.single_dash:
        plain = "-" + given.lstrip("-")
        return plain if plain in options.refused else None
    if given.startswith("--"):
        return next((bad for bad in options.refused if bad.startswith(given) and bad.startswith("--")), None)
    letters = {bad[1] for bad in options.refused if len(bad) == 2}
    return next((f"-{letter}" for letter in given[1:] if letter in letters), None)


def first_operand(words: Words) -> str | None:
    return next((word for word in words[1:] if not word.startswith("-")), None)


# ------------------------------------------------------------------ programs that need a closer look


_GIT_GLOBAL = frozenset({"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"})
_GIT_READS_CONFIG = frozenset({"--get", "--get-all", "--list", "-l", "--get-regexp", "get", "list"})


def _git(words: Words, allowed: Allowed) -> str | None:
    index = 1
    while index < len(words) and words[index].startswith("-"):
        if words[index] == "-C" and index + 1 < len(words):
            index += 2
        elif words[index] in _GIT_GLOBAL:
            index += 1
        elif words[index] in ("--version", "--help"):
            return None
        else:
            return f"git {words[index]} before the command can change what git runs"
    command, rest = (words[index], words[index + 1 :]) if index < len(words) else ("", ())
    # The operator's "git push" counts with a global option in front of it, too.
    if allowed is not None and index > 1 and allowed("git", ("git", command, *rest)):
        return None
    return _by_table("git", ("git", command, *rest), PROGRAMS["git"]) or _git_command(command, rest)


def _git_command(command: str, rest: Words) -> str | None:
    if any("::" in word or word.startswith("ext:") for word in rest):
        return "a remote helper (…::…) can run a program"
    if command == "config" and not (rest and rest[0] in _GIT_READS_CONFIG):
        return "git config may change what git runs"
    if command == "remote" and rest and rest[0] not in ("-v", "show", "get-url"):
        return f"git remote {rest[0]} changes where code goes to"
    short = {"rebase": "xi", "grep": "O", "clone": "cu", "diff": "O", "pull": "sX", "merge": "sX"}.get(command, "")
    for word in rest:
        if word.startswith("-") and not word.startswith("--") and any(letter in short for letter in word[1:]):
            return f"git {command} {word} can run a program"
    if command == "rebase" and any(word.startswith(("--i", "--e")) for word in rest):
        return "git rebase with an editor or a program to run"
    return None


def _npm(words: Words, _allowed: Allowed) -> str | None:
    return _by_table("npm", words, PROGRAMS["npm"]) or _foreign_source(words)


def _pip(words: Words, _allowed: Allowed) -> str | None:
    return _by_table("pip", words, PROGRAMS["pip"]) or _foreign_source(words)


def _foreign_source(words: Words) -> str | None:
    for word in words[1:]:
        if "://" in word or word.startswith(("git+", "github:", "file:", "git@")):
            return f"{word} is code from outside of the package registry"
    return None


def _go(words: Words, _allowed: Allowed) -> str | None:
    if first_operand(words) == "run" and any("@" in word for word in words[2:]):
        return "go run of a package from the network"
    if words[1:2] == ("mod",) and not set(words[2:3]) <= {"tidy", "download", "verify", "graph", "why"}:
        return "go mod may change the build"
    return _by_table("go", words, PROGRAMS["go"])


def _make(words: Words, _allowed: Allowed) -> str | None:
    for word in words[1:]:
        if "=" in word and not word.startswith("-"):
            return f"{word} sets a variable that make may run"
    if any(word == "-" or re.search(r"^-f-|=-$|/dev/|/proc/", word) for word in words[1:]):
        return "a makefile from standard input"
    return _by_table("make", words, PROGRAMS["make"])


_NODE_OPTIONS = frozenset({"--test", "--watch", "--no-warnings", "--check", "-c", "--enable-source-maps"})


def _node(words: Words, _allowed: Allowed) -> str | None:
    for word in words[1:]:
        if word in ("--version", "-v"):
            return None
        if not word.startswith("-"):
            return _piped_script(word)
        if word not in _NODE_OPTIONS:
            return f"node {word}: only a script file or --test is taken"
    return None if "--test" in words else "node without a script reads its program from standard input"


def _npx(words: Words, allowed: Allowed) -> str | None:
    rest = words[1:]
    while rest and rest[0] in ("--no-install", "--no"):
        rest = rest[1:]
    if not rest or rest[0] not in NODE_PROGRAMS:
        return "npx can download and run any package"
    return objection(rest[0], rest, allowed)


_PYTHON_OPTIONS = names("-V --version -VV -u -B -s -E -I -O -OO -b -q -v -P")


def _python(words: Words, allowed: Allowed) -> str | None:
    rest = words[1:]
    while rest and rest[0].startswith("-"):
        if rest[0] in ("-V", "--version", "-VV"):
            return None
        if rest[0] == "-m":
            return _python_module(rest[1:], allowed)
        if rest[0] in ("-W", "-X"):
            rest = rest[2:]
        elif rest[0] in _PYTHON_OPTIONS or re.fullmatch(r"-[WX]\w[\w:.=]*", rest[0]):
            rest = rest[1:]
        else:
            return f"python {rest[0]}: only a script file or -m with a known module is taken"
    return _piped_script(rest[0]) if rest else "python without a script reads its program from standard input"


def _piped_script(path: str) -> str | None:
    """`python /dev/stdin` is `python -`."""
    piped = path.startswith(("/dev/", "/proc/")) or "://" in path
    return f"a script from {path} is not a file that can be looked at" if piped else None


def _python_module(rest: Words, allowed: Allowed) -> str | None:
    if not rest or rest[0] not in PYTHON_MODULES:
        return f"python -m {rest[0] if rest else ''} is not a known module"
    return objection(rest[0], rest, allowed) if rest[0] in PROGRAMS else None


def _uv(words: Words, allowed: Allowed) -> str | None:
    rest = words[1:]
    if rest[:1] == ("--version",):
        return None
    if not rest or rest[0] not in UV_COMMANDS:
        return f"uv {rest[0] if rest else ''} is not on the list"
    if rest[0] == "pip":
        return _pip(rest, allowed)
    if rest[0] != "run":
        return _foreign_source(rest)
    rest = rest[1:]
    while rest and rest[0] in ("--frozen", "--no-sync", "--locked", "-q", "--quiet"):
        rest = rest[1:]
    return objection(rest[0], rest, allowed) if rest else "uv run without a command"


def _coverage(words: Words, allowed: Allowed) -> str | None:
    if words[1:2] == ("run",):
        return _python(("python", *words[2:]), allowed)
    return None if words[1:2] and words[1] in ("report", "html", "xml", "json", "erase", "combine") else "unknown form"


_SED_ADDRESS = r"(?:\d+|\$|/(?:[^/\\]|\\.)*/)"
_SED_COMMAND = (
    rf"(?:{_SED_ADDRESS}(?:,(?:{_SED_ADDRESS}|\+\d+))?)?\s*!?\s*"
    r"(?:[pdq=]|s(?P<mark>[/|#,@])(?:(?!(?P=mark))[^\\\n]|\\.)*(?P=mark)(?:(?!(?P=mark))[^\\\n]|\\.)*(?P=mark)[gpiI0-9]*)"
)
_SED_OPTIONS = r"-[nErsuz]+|-n?[Er]?i|--quiet|--silent|--regexp-extended|--in-place|--null-data|--version"


def _sed(words: Words, _allowed: Allowed) -> str | None:
    """Sed's `e`, `w` and `s///e` run and write: only scripts of the plain commands are taken."""
    scripts: list[str] = []
    rest = list(words[1:])
    while rest:
        word = rest.pop(0)
        if word == "-e" and rest:
            scripts.append(rest.pop(0))
        elif word.startswith("-") and not re.fullmatch(_SED_OPTIONS, word):
            return f"sed {word} is not an option that is taken"
        elif not word.startswith("-") and not scripts:
            scripts.append(word)
    for script in scripts:
        if not _is_plain_sed(script):
            return "the sed script may run or write something"
    return None


def _is_plain_sed(script: str) -> bool:
    rest = script.strip()
    while rest:
        match = re.match(_SED_COMMAND, rest)
        if match is None:
            return False
        rest = rest[match.end() :].lstrip()
        if rest and rest[0] not in ";\n":
            return False
        rest = rest[1:].lstrip()
    return True


def _wrapper(words: Words, allowed: Allowed) -> str | None:
    within = inner(words)
    if within is None:
        return f"{words[0]} with these options is not looked through"
    if not within:
        return None if words[0] == "env" else f"{words[0]} without a command"
    return objection(within[0], within, allowed)


def inner(words: Words) -> Words | None:
    """What a plain wrapper runs; None if its options are not of the few that are understood."""
    kind, rest = words[0].rsplit("/", 1)[-1], list(words[1:])
    pattern = _WRAPPER_OPTIONS.get(kind)
    if pattern is None:
        return None
    takes_value, plain = pattern
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in takes_value and rest:
            rest.pop(0)
        elif not re.fullmatch(plain, option):
            return None
    if kind == "timeout":
        return tuple(rest[1:]) if rest and re.fullmatch(r"\d+(\.\d+)?[smhd]?", rest[0]) else None
    return None if rest and "=" in rest[0] else tuple(rest)


_WRAPPER_OPTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "timeout": (("-k", "-s"), r"--kill-after=\w+|--signal=\w+|--preserve-status|--foreground|-v|--verbose"),
    "nice": (("-n",), r"-\d+|--adjustment=-?\d+|-n-?\d+"),
    "nohup": ((), r"--"),
    "stdbuf": ((), r"-[ioe][L0]"),
    "env": ((), r"--"),
}


SPECIAL: dict[str, Callable[[Words, Allowed], str | None]] = {
    "git": _git,
    "npm": _npm,
    "pip": _pip,
    "go": _go,
    "make": _make,
    "node": _node,
    "npx": _npx,
    "python": _python,
    "python3": _python,
    "uv": _uv,
    "coverage": _coverage,
    "sed": _sed,
    **dict.fromkeys(_WRAPPER_OPTIONS, _wrapper),
}


# ------------------------------------------------------------------ which words are files


class Operands(NamedTuple):
    reads: Words = ()
    writes: Words = ()


NO_FILES = names("""echo printf true false : exit pwd sleep seq date uname whoami id which basename dirname tr expr""")
PATTERN_FIRST = names("grep egrep fgrep rg sed jq awk gawk mawk")
READERS = names(
    """cat head tail wc nl tac cut comm paste fold column rev realpath readlink stat file du df diff cmp md5sum
    sha1sum sha256sum sort ls tree less more od xxd hexdump strings test [ cd source python python3 node"""
)
WRITERS = names("mkdir touch rmdir rm tee truncate unlink shred")
WRITERS_AFTER_ONE = frozenset({"chmod", "chown", "chgrp", "uniq"})
COPIERS = frozenset({"cp", "mv", "ln", "install", "rsync", "scp"})


GREP_VALUED = names("-A -B -C -m -d -D -e --regexp")
VALUED: dict[str, frozenset[str]] = {
    "grep": GREP_VALUED,
    "egrep": GREP_VALUED,
    "fgrep": GREP_VALUED,
    "rg": names("-A -B -C -m -g -t -T -j -M -r -E -e --regexp --glob --type"),
    "sed": names("-e --expression"),
    "head": names("-n -c"),
    "tail": names("-n -c"),
    "cut": names("-d -f -b -c"),
    "sort": names("-k -t"),
    "tree": names("-L -I -P"),
}
"""Options whose next word is a value and not a file."""


def operands(name: str, words: Words) -> Operands:
    """The words of a command that name files, relative ones as they are. When in doubt a word is a file."""
    base = name.rsplit("/", 1)[-1]
    if base in NO_FILES:
        return Operands()
    for _ in range(_MAX_RUNNERS):
        within = inner(words) if "/" not in name else None
        if not within:
            break
        name, words = within[0], within
    base = name.rsplit("/", 1)[-1]
    taken = _taken(base, words)
    program = (words[0],) if "/" in name else ()
    return Operands((*program, *_in_options(words), *taken.reads), taken.writes)


def _taken(base: str, words: Words) -> Operands:
    plain = _operands(words, VALUED.get(base, frozenset()))
    if base in PATTERN_FIRST and not {"-e", "--regexp", "-f", "--expression"} & set(words):
        plain = plain[1:]
    if base in COPIERS:
        return _copied(base, words, plain)
    if base in WRITERS or (base == "sed" and any(re.match(r"-[nErsuz]*i|--in", word) for word in words[1:])):
        return Operands((), plain)
    if base in WRITERS_AFTER_ONE:
        return Operands(plain[:1] if base == "uniq" else (), plain[1:])
    if base in READERS or base in PATTERN_FIRST:
        return Operands(plain)
    if base == "find":
        return Operands(_find_roots(words))
    if base == "dd":
        return Operands(_after(words, "if="), _after(words, "of="))
    return Operands(_pathlike(_without_message(words) if base == "git" else words))


def _operands(words: Words, valued: frozenset[str]) -> Words:
    """Everything but options and their values; after `--` everything."""
    taken: list[str] = []
    skip = False
    for index, word in enumerate(words[1:], 1):
        if word == "--" and not skip:
            taken += words[index + 1 :]
            break
        if not skip and not word.startswith("-"):
            taken.append(word)
        skip = not skip and word in valued
    return tuple(word for word in taken if word)


def _in_options(words: Words) -> Words:
    """Paths inside of options: `--file=/x`, `-C/x`, `-f../x`."""
    found: list[str] = []
    for word in words[1:]:
        match = re.match(r"(?s)--?[\w-]+=(.+)", word) or re.match(r"(?s)-[A-Za-z]((?:\.\.)?/.*|\.\.$)", word)
        if match and ("/" in match[1] or match[1] == ".."):
            found.append(match[1])
    return tuple(found)


def _without_message(words: Words) -> Words:
    """A commit message is no path, whatever it begins with."""
    if not {"commit", "tag", "merge", "stash"} & set(words[1:4]):
        return words
    return tuple(word for before, word in zip(("", *words), words, strict=False) if before not in ("-m", "--message"))


def _pathlike(words: Words) -> Words:
    """For programs that nothing is known of: absolute paths, whatever climbs, and what looks like a path."""
    folders = (b for a, b in pairwise(words) if a in ("-C", "--directory"))
    named = (word for word in words[1:] if word.startswith("/") or ".." in word.split("/") or _looks_like_path(word))
    return (*folders, *named)


def _looks_like_path(word: str) -> bool:
    return "/" in word and not word.startswith("-") and len(word) < 256 and not re.search(r"\s|://", word)


def _copied(name: str, words: Words, plain: Words) -> Operands:
    folder = next((b for a, b in pairwise(words) if a in ("-t", "--target-directory")), None)
    folder = folder or next((w.split("=", 1)[1] for w in words if w.startswith("--target-directory=")), None)
    sources = tuple(word for word in plain if word != folder) if folder else plain[:-1]
    target = folder if folder is not None else (plain[-1] if len(plain) > 1 else None)
    if target is None:
        return Operands((), plain)
    into = tuple(f"{target.rstrip('/')}/{source.rstrip('/').rsplit('/', 1)[-1]}" for source in sources)
    moved = sources if name == "mv" else ()
    return Operands(sources, (target, *into, *moved))


def _find_roots(words: Words) -> Words:
    roots: list[str] = []
    for index, word in enumerate(words[1:], 1):
        if word in ("-H", "-L", "-P"):
            continue
        if word.startswith(("-", "(", "!", ")")):
            more = [b for a, b in zip(words[index:], words[index + 1 :], strict=False) if a in _FIND_FILES]
            return (*(roots or ["."]), *more)
        roots.append(word)
    return tuple(roots or ["."])


_FIND_FILES = frozenset({"-newer", "-anewer", "-cnewer", "-samefile", "-fprint", "-fprint0", "-fprintf", "-fls"})


def _after(words: Words, prefix: str) -> Words:
    return tuple(word.removeprefix(prefix) for word in words if word.startswith(prefix) and word != prefix)
