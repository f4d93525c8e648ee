"""What is known of programs: whether the built-in list takes a command, and if not, why."""

import re
from collections.abc import Callable

from adderclaw.policy.legacy import inline
from adderclaw.policy.legacy.programs import git, languages, managers, media, network, packages, runners, services, unix
from adderclaw.policy.legacy.programs.allowlist import PROGRAMS, known_as, names, runs_others, those
from adderclaw.policy.legacy.programs.handed import only_shows
from adderclaw.policy.legacy.programs.objections import Allowed, Ask, Objection, Words, unknown
from adderclaw.policy.legacy.programs.options import parse
from adderclaw.policy.legacy.programs.tabled import by_command, by_table, piped, strange
from adderclaw.policy.legacy.programs.wrappers import find_parts, inner, wrapped

__all__ = ["inner", "objection"]

_MAX_RUNNERS = 8


def objection(name: str, words: Words, ask: Ask | None = None, *, allowed: Allowed = None) -> Objection | None:
    """Why the built-in list does not take a command; None if it does.

    `ask` says what the operator's own list and the texts of shells come to, also for what a wrapper runs.
    """
    if ask is None:

        def within(words: Words) -> Objection | None:
            return objection(words[0], words, allowed=allowed)

        ask = Ask(within, allowed)
    found = _listed(name, words, ask)
    # The operator's list adds programs and commands; it takes nothing away from what a table says of them.
    if found is None or not found.entry or ask.allowed is None or found.entry.split()[0] not in (name, words[0]):
        return found
    if not ask.allowed(name, words, found.entry):
        return found
    code = inline.of(words, ask.stdin)
    return code.objection if code is not None else None


def _listed(name: str, words: Words, ask: Ask) -> Objection | None:
    runners = sum(word == "-m" or runs_others(word.rsplit("/", 1)[-1]) for word in words)
    if runners > _MAX_RUNNERS:
        return Objection("too many programs that run programs")
    if asks(words):
        return None
    options = PROGRAMS.get(name)
    if options is None:
        return Objection("it is not on the list of allowed commands", name)
    if options.response_files and any(word.startswith("@") for word in words[1:]):
        return Objection("options from a file cannot be looked at")
    if options.never and not (words[1:] and options.bare.issuperset(words[1:])):
        return Objection(f"it {options.never}", name, inline="words" if options.code else "")
    code = inline.of(words, ask.stdin)
    if code is not None:
        return code.objection
    special = SPECIAL.get(known_as(name))
    if special is not None:
        return special(words, ask)
    if options.wraps:
        return _wrapper(words, ask)
    return _shell(words, ask) if options.shell else by_table(name, words, options)


def asks(words: Words) -> bool:
    """Whether a program, whichever of those on the PATH it is, is asked for nothing but its version or its help."""
    if words[1:] not in (("--version",), ("--help",)) or (runs_others(words[0]) and bool(PROGRAMS[words[0]].never)):
        return False
    return re.fullmatch(r"[A-Za-z][\w.+-]*", words[0], re.ASCII) is not None


# ------------------------------------------------------------------ wrappers and shells


def _wrapper(words: Words, ask: Ask) -> Objection | None:
    found = wrapped(words)
    name = words[0].rsplit("/", 1)[-1]
    if found.strange:
        return Objection(found.strange)
    if not found.words:
        return None if name in ("env", "xargs") else Objection(f"{name} without a command")
    return ask.inner(found.words)


def _npx(words: Words, ask: Ask) -> Objection | None:
    """Of bunx it is known only that it fetches what the project does not have."""
    name, found = words[0].rsplit("/", 1)[-1], wrapped(words)
    if found.strange:
        return Objection(found.strange)
    fetched = bool(set(words[1 : len(words) - len(found.words)]) & {"-y", "--yes"})
    return packages.node(found.words, ask, fetched=fetched, how=name)


def _uvx(words: Words, ask: Ask) -> Objection | None:
    found = parse(words[1:], PROGRAMS["uvx"].options, until_operand=True)
    if found.strange:
        return strange(found, PROGRAMS["uvx"])
    return packages.python(found.operands, ask, how="uvx")


def _pipx(words: Words, ask: Ask) -> Objection | None:
    if words[1:2] != ("run",):
        return by_table("pipx", words, PROGRAMS["pipx"])
    found = parse(words[2:], (PROGRAMS["pipx"].commands or {})["run"], until_operand=True)
    return unknown(found.strange[0]) if found.strange else packages.python(found.operands, ask, how="pipx run")


def _watch(words: Words, ask: Ask) -> Objection | None:
    """Without -x, watch hands its words to a shell as one text."""
    found = wrapped(words)
    if found.strange or not found.words:
        return Objection(found.strange or "watch without a command")
    given = parse(words[1:], PROGRAMS["watch"].options, until_operand=True).given
    return ask.inner(found.words) if given & {"-x", "--exec"} else _code(" ".join(found.words), ask)


def _command(words: Words, ask: Ask) -> Objection | None:
    """With -v it only tells; without it, it runs what follows."""
    found = parse(words[1:], PROGRAMS["command"].options, until_operand=True)
    if found.strange:
        return unknown(found.strange[0])
    return None if found.given & {"-v", "-V"} or not found.operands else ask.inner(found.operands)


def _code(text: str, ask: Ask) -> Objection | None:
    if re.fullmatch(r"[\w./+:@%,-]+(?: [\w./+:@%,=-]+)*", text):
        return ask.inner(tuple(text.split(" ")))
    return ask.code(text) if ask.code is not None else Objection("what the shell is given is not looked through")


def shell_code(words: Words) -> int | None:
    """Where a shell's code stands: the place of the word after -c, 0 for standard input, None for a script's file."""
    listed = PROGRAMS.get(words[0].rsplit("/", 1)[-1])
    if listed is None:
        return None
    found = parse(words[1:], listed.options, until_operand=True)
    if "-c" in found.given:
        return len(words) - len(found.operands) if found.operands else None
    return None if found.operands else 0


def _shell(words: Words, ask: Ask) -> Objection | None:
    """A shell with a literal text, which is judged as if it stood there, or with a script of the project."""
    found = parse(words[1:], PROGRAMS[words[0].rsplit("/", 1)[-1]].options, until_operand=True)
    if found.strange:
        return strange(found, PROGRAMS["bash"])
    if found.given & {"--version", "--help"}:
        return None
    if "-c" in found.given:
        return _code(found.operands[0], ask) if found.operands else Objection("-c without a text")
    if not found.operands:
        return _code(ask.stdin, ask) if ask.stdin is not None else _FED
    return piped(found.operands[0])


_FED = Objection("a shell that reads its standard input", inline="stdin")


def _find(words: Words, ask: Ask) -> Objection | None:
    found = find_parts(words)
    if found.strange:
        return Objection(found.strange)
    for command in found.commands:
        refused = ask.inner(command)
        if refused is not None or not only_shows(command):
            return refused or Objection(f"find would run {' '.join(command)[:60]} on what it finds")
    return by_table("find", found.words, PROGRAMS["find"])


# ------------------------------------------------------------------ interpreters


def _python(words: Words, ask: Ask) -> Objection | None:
    parts = languages.python_parts(words)
    if parts is None:
        return Objection("python with an option that is not known to do no harm", inline="words")
    kind, rest = parts
    if kind == "":
        return piped(rest[0]) or _managed(rest)
    return python_module(rest, ask) if kind == "-m" else None


_EMPTIES = names("flush reset_db sqlflush dbshell shell shell_plus drop_test_database reset_schema")


def _managed(rest: Words) -> Objection | None:
    """Django's own commands that empty a database, or take any code."""
    if rest[0].rsplit("/", 1)[-1] != "manage.py" or not rest[1:2] or rest[1] not in _EMPTIES:
        return None
    takes_code = rest[1].startswith("shell")
    why = f"inline code for manage.py {rest[1]}" if takes_code else f"manage.py {rest[1]} empties a database"
    return Objection(why, inline="words") if takes_code else Objection(why, f"python manage.py {rest[1]}")


def python_module(rest: Words, ask: Ask) -> Objection | None:
    module = rest[0] if rest else ""
    if module in those("module") | those("served"):
        return ask.inner(rest)
    options = PROGRAMS.get(f"python -m {module}")
    if options is None:
        if ask.project is not None and any(map(ask.project, languages.project_files(module))):
            return None
        if languages.project_files(module) and not languages.is_known_module(module):
            return None  # the project's own, or one that was installed for it: as good as a script of it
        return Objection(f"python -m {module} is not a known module", inline="words")
    if (code := inline.of((f"python -m {module}", *rest[1:]), ask.stdin)) is not None:
        return code.objection
    return _http_server(rest, ask) if module == "http.server" else by_table(module, rest, options)


def _coverage(words: Words, ask: Ask) -> Objection | None:
    if words[1:2] != ("run",):
        return by_command("coverage", words, PROGRAMS["coverage"])
    found = parse(words[2:], f"{PROGRAMS['coverage run'].options} -m", until_operand=True)
    if found.strange or not found.operands:
        return unknown(found.strange[0] if found.strange else "run")._replace(inline="words")
    return python_module(found.operands, ask) if "-m" in found.given else piped(found.operands[0])


# ------------------------------------------------------------------ small languages and plain rules


def _sed(words: Words, _ask: Ask) -> Objection | None:
    sed = languages.sed_parts(words)
    if sed.strange:
        return Objection(f"sed {sed.strange} is not an option that is taken", inline="words")
    plain = all(map(languages.is_plain_sed, sed.scripts))
    if sed.in_place and any(re.fullmatch(_EMPTY, script.strip()) for script in sed.scripts):
        return Objection("it would empty the files")
    return None if plain else Objection("the sed script may run, read or write something", inline="words")


_EMPTY = r"(?:1,\$)?d|s(.)\^?\.\*\$?\1\1g?|/\^?\.\*?\$?/d"


def _awk(words: Words, _ask: Ask) -> Objection | None:
    options = PROGRAMS["awk"]
    found = parse(words[1:], options.options, until_operand=True)
    if found.strange:
        return strange(found, options)
    asks = found.operands or "--version" in found.given or "-W" in found.given
    return None if asks else Objection("awk without a program")


def _http_server(words: Words, _ask: Ask) -> Objection | None:
    """A server of the project's files: without a place it listens where the session's network does, which is asked."""
    places = network.values(words, "-b", "--bind")
    if any(place == "0.0.0.0" or not re.fullmatch(network.LOOPBACK, place) for place in places):
        return Objection("it would serve the files to every machine: give it --bind 127.0.0.1")
    return by_table("http.server", words, PROGRAMS["python -m http.server"])


def _php(words: Words, _ask: Ask) -> Objection | None:
    options = PROGRAMS["php"]
    found = parse(words[1:], options.options, until_operand=True)
    for place in network.values(words[1:], "-S"):
        if place.startswith("0.0.0.0") or not re.fullmatch(network.LOOPBACK, place.rpartition(":")[0]):
            return Objection(f"{place} is not this machine alone")
    if found.operands[:1] == ("artisan",) and found.operands[1:2] in (
        ("tinker",),
        ("db",),
        ("down",),
        ("env:decrypt",),
    ):
        return Objection(f"artisan {found.operands[1]} takes any code or shuts the application down")
    if "-S" in found.given and not found.strange and not found.operands:
        return None
    return by_table("php", words, options)


type Special = Callable[[Words, Ask], Objection | None]

SPECIAL: dict[str, Special] = {
    "git": git.judged,
    **managers.SPECIAL,
    **unix.SPECIAL,
    **services.SPECIAL,
    **media.SPECIAL,
    **dict.fromkeys(("curl", "wget"), network.judged),
    "nc": network.knocks,
    "npx": _npx,
    "uvx": _uvx,
    "pipx": _pipx,
    "watch": _watch,
    "command": _command,
    "find": _find,
    "python": _python,
    "coverage": _coverage,
    "sed": _sed,
    "awk": _awk,
    "php": _php,
    "hyperfine": runners.hyperfine,
    "gdb": runners.gdb,
    "perf": runners.perf,
    "nyc": runners.nyc,
}
