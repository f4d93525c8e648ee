"""What is known of programs: whether the built-in list takes a command, and if not, why."""

import re
from collections.abc import Callable
from typing import NamedTuple

from adderclaw.gate import git
from adderclaw.gate.allowlist import (
    COVERAGE,
    COVERAGE_RUN,
    HARMLESS,
    NODE_PROGRAMS,
    PROGRAM_MODULES,
    PROGRAMS,
    PYTHON_MODULES,
    RESPONSE_FILES,
    UV,
    UV_RUN,
    Options,
    names,
)
from adderclaw.gate.options import Words, parse

__all__ = ["HARMLESS", "PROGRAMS", "SHELLS", "WRAPPERS", "Objection", "inner", "objection"]

SHELLS = names("sh bash dash zsh ksh mksh ash fish csh tcsh pwsh powershell")
INTERPRETERS = SHELLS | names(
    """python python2 python3 perl ruby node nodejs php lua deno bun osascript tclsh Rscript awk gawk mawk xargs"""
)
WRAPPERS = names(
    """env sudo doas su runuser xargs nice nohup timeout time stdbuf setsid ionice chrt taskset chroot command exec
    builtin eval watch busybox toybox parallel strace ltrace unshare nsenter flock script ssh npx uv proxychains
    systemd-run pkexec firejail bwrap setarch linux32 linux64 prlimit"""
)
"""Programs that run the program that their words name."""


class Objection(NamedTuple):
    """Why the built-in list does not take a command."""

    why: str
    entry: str = ""
    """What the operator could list to have it taken; nothing where it is an option that is wrong."""


type Allowed = Callable[[str, Words], bool] | None

_RUNNERS = names("timeout nice nohup stdbuf env uv coverage npx")
_MAX_RUNNERS = 8


def objection(name: str, words: Words, allowed: Allowed = None) -> Objection | None:
    """Why the built-in list does not take a command; None if it does.

    `allowed` is the operator's own list, which also counts for what a wrapper such as `timeout` runs.
    """
    if allowed is not None and allowed(name, words):
        return None
    if sum(word.rsplit("/", 1)[-1] in _RUNNERS for word in words) > _MAX_RUNNERS:
        return Objection("too many programs that run programs")
    options = PROGRAMS.get(name)
    if options is None:
        return Objection("it is not on the list of allowed commands", name)
    if name in RESPONSE_FILES and any(word.startswith("@") for word in words[1:]):
        return Objection("options from a file cannot be looked at")
    special = SPECIAL.get(name)
    return special(words, allowed) if special is not None else by_table(name, words, options)


def by_table(name: str, words: Words, options: Options) -> Objection | None:
    if options.commands is not None:
        return _by_command(name, words, options)
    if options.closed:
        return _strange(words[1:], options.known, single_dash=options.single_dash)
    for word in words[1:]:
        if word == "--":
            break
        bad = _refused(word, options)
        if bad:
            return _harmful(bad)
    return None


def _by_command(name: str, words: Words, options: Options) -> Objection | None:
    """The command must be the first word: an option before it could have the command for its value."""
    commands = options.commands or {}
    first = words[1] if len(words) > 1 else ""
    if words[1:] and options.bare.issuperset(words[1:]):
        return None
    table = commands.get(first)
    if table is not None:
        return _strange(words[2:], table, single_dash=options.single_dash)
    if "" in commands:
        return _strange(words[1:], commands[""], single_dash=options.single_dash)
    if not first:
        return Objection(f"{name} without a command")
    if first.startswith("-"):
        return Objection(f"{name} {first} before the command can change what it does")
    return Objection(f"{name} {first} is not on the list", f"{name} {first}")


def _strange(words: Words, table: str, *, single_dash: bool = False) -> Objection | None:
    strange = parse(words, table, single_dash=single_dash).strange
    return _unknown(strange[0]) if strange else None


def _unknown(option: str) -> Objection:
    return Objection(f"its option {option} is not one of those that are known to do no harm")


def _harmful(option: str) -> Objection:
    return Objection(f"its option {option} can run a program, write a file or change its configuration")


def _refused(word: str, options: Options) -> str | None:
    """The refused option that a word is, GNU abbreviations and bundled letters included."""
    if not word.startswith("-") or word == "-":
        return None
    given = word.split("=", 1)[0]
    if given.startswith("--"):
        return next((bad for bad in sorted(options.refused) if bad.startswith(given)), None)
    letters = {bad[1] for bad in options.refused if len(bad) == 2}
    return next((f"-{letter}" for letter in given[1:] if letter in letters), None)


# ------------------------------------------------------------------ git


def git_command(words: Words) -> tuple[str, Words, str]:
    """The command that git is given, what follows it, and an option before it that is not taken."""
    before = parse(words[1:], git.GLOBAL, until_operand=True)
    command, *rest = before.operands or ("",)
    return command, tuple(rest), before.strange[0] if before.strange else ""


def _git(words: Words, allowed: Allowed) -> Objection | None:
    if PROGRAMS["git"].bare.issuperset(words[1:]) and words[1:]:
        return None
    command, rest, strange = git_command(words)
    if strange:
        return Objection(f"git {strange} before the command can change what git runs")
    # The operator's "git push" counts with a global option in front of it, too.
    if allowed is not None and allowed("git", ("git", command, *rest)):
        return None
    return _by_command("git", ("git", command, *rest), PROGRAMS["git"]) or _git_operands(command, rest)


def _git_operands(command: str, rest: Words) -> Objection | None:
    found = parse(rest, git.COMMANDS[command])
    if any("::" in word or word.startswith("ext:") for word in found.operands) and command not in (
        "log",
        "show",
        "grep",
    ):
        return Objection("a remote helper (…::…) can run a program")
    second = git.SECOND.get(command)
    if second is not None and found.operands and found.operands[0] not in second:
        entry = f"git {command} {found.operands[0]}"
        return Objection(f"{entry} is not on the list", entry if rest[0] == found.operands[0] else "")
    if command == "remote" and rest and rest[0] not in ("show", "get-url") and len(rest) > 1:
        return Objection("git remote with more than -v, show or get-url changes where code goes to")
    if command == "config":
        return _git_config(found.given, found.operands)
    return None


def _git_config(given: frozenset[str], operands: Words) -> Objection | None:
    """Reading is free, and a few settings that make git run nothing can be given a value."""
    if (
        given & git.CONFIG_READS
        or operands[:1] in (("get",), ("list",))
        or (len(operands) == 1 and operands[0] != "edit")
    ):
        return None
    if len(operands) == 2 and operands[0].casefold() in git.OWN_KEYS and given <= {"--local"}:
        return None
    return Objection("git config may change what git runs")


# ------------------------------------------------------------------ package managers and builders


def _npm(words: Words, _allowed: Allowed) -> Objection | None:
    if words[1:2] == ("init",) and parse(words[2:], "-y --yes").operands:
        return Objection("npm init with a name downloads and runs a package")
    return _by_command("npm", words, PROGRAMS["npm"]) or (
        _foreign_source(words[2:], shorthand=True)
        if words[1] not in ("run", "run-script", "test", "t", "start")
        else None
    )


def _pip(words: Words, _allowed: Allowed) -> Objection | None:
    return _by_command("pip", words, PROGRAMS["pip"]) or _foreign_source(words[2:])


_FOREIGN = r"://|(^|@)\s*(git\+|hg\+|svn\+|bzr\+|github:|gitlab:|bitbucket:|gist:|file:|git@)"


def _foreign_source(words: Words, *, shorthand: bool = False) -> Objection | None:
    for word in words:
        of_a_person = shorthand and re.match(r"(?:[^@/]+@)?[\w-][\w.-]*/[\w.-]+", word) and not word.startswith("-")
        if of_a_person or re.search(_FOREIGN, word):
            return Objection(f"{word} is code from outside of the package registry")
    return None


_GO_MOD = names("tidy download verify graph why init")
_PLAIN_LDFLAGS = r"(?:\s*(?:-[sw]|-X[= ][\w./-]+=[\w.+:/-]*))*\s*"


def _go(words: Words, _allowed: Allowed) -> Objection | None:
    if words[1:2] == ("run",) and any("@" in word for word in words[2:]):
        return Objection("go run of a package from the network")
    if words[1:2] == ("mod",) and words[2:3] not in (
        ("tidy",),
        ("download",),
        ("verify",),
        ("graph",),
        ("why",),
        ("init",),
    ):
        return Objection("go mod may change the build")
    if words[1:2] == ("env",) and any("=" in word for word in words[2:]):
        return Objection("go env with a value changes the build")
    kept: list[str] = []
    for before, word in zip(("", *words), words, strict=False):
        flags = word if before in ("-ldflags", "--ldflags") else re.sub(r"^--?ldflags=", "", word)
        is_flags = before in ("-ldflags", "--ldflags") or flags != word
        if (is_flags and re.fullmatch(_PLAIN_LDFLAGS, flags)) or word in ("-ldflags", "--ldflags"):
            continue
        if is_flags:
            return _harmful("-ldflags")
        kept.append(word)
    return _by_command("go", _up_to_operands(tuple(kept)), PROGRAMS["go"])


def _up_to_operands(words: Words) -> Words:
    """What follows `go run`'s package, or -args, is for the project's own program."""
    if words[1:2] == ("run",):
        found = parse(words[2:], (PROGRAMS["go"].commands or {})["run"], single_dash=True, until_operand=True)
        return words[: len(words) - len(found.operands) + 1] if found.operands else words
    ends = next((index for index, word in enumerate(words) if word in ("-args", "--args")), len(words))
    return words[:ends]


_PLAIN_VARIABLE = r"(V|Q|VERBOSE|DEBUG|JOBS|VERSION|ENV|MODE)=[\w.-]*"


def _make(words: Words, _allowed: Allowed) -> Objection | None:
    for word in words[1:]:
        if "=" in word and not word.startswith("-") and not re.fullmatch(_PLAIN_VARIABLE, word):
            return Objection(f"{word} sets a variable that make may run")
    if any(word == "-" or re.search(r"^-\w*f-|=-$|/dev/|/proc/", word) for word in words[1:]):
        return Objection("a makefile from standard input")
    return by_table("make", words, PROGRAMS["make"])


def _cargo(words: Words, _allowed: Allowed) -> Objection | None:
    """After `cargo run`'s operands and after `--` everything is for the project's own program."""
    if words[1:2] == ("nextest",) and words[2:3] not in (("run",), ("list",)):
        return Objection("cargo nextest does more than run and list", "cargo nextest")
    return _by_command("cargo", words, PROGRAMS["cargo"]) or _foreign_source(words[2:])


def _tox(words: Words, _allowed: Allowed) -> Objection | None:
    found = parse(words[1:], PROGRAMS["tox"].known, until_operand=True)
    if found.strange:
        return _unknown(found.strange[0])
    after = words.index("--") if "--" in words else len(words)
    operand = next(iter(parse(words[1:after], PROGRAMS["tox"].known).operands), "run")
    if operand not in ("run", "r", "run-parallel", "p", "list", "l"):
        return Objection(f"tox {operand} can run any program", f"tox {operand}")
    return _strange(words[1:after], PROGRAMS["tox"].known)


# ------------------------------------------------------------------ interpreters


_NODE = """--test --watch --no-warnings --check -c --enable-source-maps --test-reporter~ --test-name-pattern~
    --test-only --max-old-space-size~ --trace-warnings --version -v"""


def _node(words: Words, _allowed: Allowed) -> Objection | None:
    found = parse(words[1:], _NODE, until_operand=True)
    if found.strange:
        return Objection(f"node {found.strange[0]}: only a script file or --test is taken")
    if found.operands:
        return _piped_script(found.operands[0])
    if found.given & {"--test", "--version", "-v"}:
        return None
    return Objection("node without a script reads its program from standard input")


def _npx(words: Words, allowed: Allowed) -> Objection | None:
    within = inner(words)
    if not within or within[0] not in NODE_PROGRAMS:
        return Objection("npx can download and run any package", "npx " + within[0] if within else "")
    return objection(within[0], within, allowed)


_PYTHON = "-V --version -u -B -s -E -I -O -b -q -v -P -W~ -X~ -m~"
_PYTHON_X = names("dev utf8 utf8=1 importtime faulthandler tracemalloc frozen_modules=off")


def python_parts(words: Words) -> tuple[str, Words] | None:
    """("-m", module and the rest), ("", script and the rest) or ("--version", ()); None for any other form."""
    rest = words[1:]
    while rest and rest[0].startswith("-") and rest[0] != "-":
        option, rest = rest[0], rest[1:]
        if option in ("-V", "--version", "-VV"):
            return "--version", ()
        if option == "-m":
            return "-m", rest
        if option in ("-W", "-X") and rest:
            option, rest = option + rest[0], rest[1:]
        if re.match("-X", option) and option[2:] not in _PYTHON_X:
            return None
        if not re.fullmatch(r"-[uBsEIObqvP]+|-W[\w:.=]+|-X[\w=]+", option):
            return None
    return ("", rest) if rest and rest[0] != "-" else None


def _python(words: Words, allowed: Allowed) -> Objection | None:
    parts = python_parts(words)
    if parts is None:
        return Objection("python: only a script file or -m with a known module is taken")
    kind, rest = parts
    if kind == "":
        return _piped_script(rest[0])
    return _python_module(rest, allowed) if kind == "-m" else None


def _piped_script(path: str) -> Objection | None:
    """`python /dev/stdin` is `python -`."""
    piped = path == "-" or path.startswith(("/dev/", "/proc/")) or "://" in path
    return Objection(f"a script from {path} is not a file that can be looked at") if piped else None


def _python_module(rest: Words, allowed: Allowed) -> Objection | None:
    module = rest[0] if rest else ""
    if module in PROGRAM_MODULES:
        return objection(module, rest, allowed)
    table = PYTHON_MODULES.get(module)
    if table is None:
        return Objection(f"python -m {module} is not a known module")
    return _strange(rest[1:], table)


_VERSION_PINS = r"(?:cpython@)?\d+(\.\d+)*"


def _uv(words: Words, allowed: Allowed) -> Objection | None:
    rest = words[1:]
    if rest[:1] in (("--version",), ("-V",)):
        return None
    if rest[:1] == ("pip",):
        return _by_command("pip", rest, PROGRAMS["pip"]) or _foreign_source(rest[2:])
    if rest[:1] == ("run",):
        within = inner(words)
        if within is None:
            return _unknown(next((word for word in rest[1:] if word.startswith("-")), "uv run"))
        return objection(within[0], within, allowed) if within else Objection("uv run without a command")
    plain = _without_pairs(rest, r"--python|-p", _VERSION_PINS)
    return _by_command("uv", ("uv", *plain), Options(commands=UV)) or _foreign_source(rest[1:])


def _without_pairs(words: Words, option: str, value: str) -> Words:
    """Words without an option that is harmless with such a value, and with no other."""
    kept: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if re.fullmatch(option, word) and rest and re.fullmatch(value, rest[0]):
            rest.pop(0)
        elif not re.fullmatch(f"(?:{option})=?(?:{value})", word):
            kept.append(word)
    return tuple(kept)


def _pytest(words: Words, _allowed: Allowed) -> Objection | None:
    return by_table("pytest", _without_pairs(words, "-p", r"no:[\w.-]+"), PROGRAMS["pytest"])


def _coverage(words: Words, allowed: Allowed) -> Objection | None:
    if words[1:2] == ("run",):
        found = parse(words[2:], f"{COVERAGE_RUN} -m", until_operand=True)
        if found.strange or not found.operands:
            return _unknown(found.strange[0] if found.strange else "run")
        if "-m" in found.given:
            return _python_module(found.operands, allowed)
        return _piped_script(found.operands[0])
    return _by_command("coverage", words, Options(commands=COVERAGE, bare=names("--version")))


# ------------------------------------------------------------------ small languages


_SED_PIECE = r"(?:[^\[\\\n{mark}]|\\[^\n]|\[\^?\]?(?:\[:\w+:\]|\\[\w.+* -]|[^\]\[\\\n{mark}])*\])*"
"""A pattern in which no bracket holds the mark or ends in doubt: everybody finds the same end of it."""
_SED_MARKS = "/|#,@:!%"
_SED_SINGLE = r"[pdq=nNhHgGxPDlFz]|q\s*\d+|[btT]\s*\w*|:\s*[A-Za-z]\w*|[aic]\\?[ \t]*[^\n\\]+(?=\n|$)"
_SED_OPTIONS = (
    r"-[nErsuz]+|-[nErsuz]*i(?:\.\w+)?|--quiet|--silent|--regexp-extended|--in-place(?:=\.\w+)?|--null-data|--version"
    r"|--debug|--posix|--separate|--unbuffered"
)


class Sed(NamedTuple):
    scripts: Words
    files: Words
    in_place: bool
    strange: str
    """An option that is not taken."""


def sed_parts(words: Words) -> Sed:
    scripts: list[str] = []
    operands: list[str] = []
    in_place, strange, rest = False, "", list(words[1:])
    while rest:
        word = rest.pop(0)
        long = word.partition("=")
        if re.fullmatch(r"-[nErsuz]*e|--expression", word) and rest:
            scripts.append(rest.pop(0))
        elif long[0] == "--expression" and long[1]:
            scripts.append(long[2])
        elif word == "--":
            operands += rest
            break
        elif not word.startswith("-") or word == "-":
            operands.append(word)
        elif not re.fullmatch(_SED_OPTIONS, word):
            strange = strange or word
        in_place = in_place or bool(re.match(r"-[A-Za-z]*i|--in?", word))
    if not scripts:
        scripts, operands = operands[:1], operands[1:]
    return Sed(tuple(scripts), tuple(operands), in_place, strange)


def _sed(words: Words, _allowed: Allowed) -> Objection | None:
    """Sed's `e`, `w` and `s///e` run and write: only scripts of the plain commands are taken."""
    sed = sed_parts(words)
    if sed.strange:
        return Objection(f"sed {sed.strange} is not an option that is taken")
    if not all(map(_is_plain_sed, sed.scripts)):
        return Objection("the sed script may run or write something")
    return None


def _is_plain_sed(script: str) -> bool:
    rest = script.strip()
    while rest:
        match = re.match(_sed_command(), rest)
        if match is None or not match.group():
            return False
        block = match.group().endswith(("{", "}")) and match["plain"] in ("{", "}")
        rest = rest[match.end() :].lstrip(" \t")
        if rest and rest[0] not in ";\n}" and not block:
            return False
        rest = rest.lstrip(" \t;\n") if not rest.startswith("}") else rest
    return True


def _sed_command() -> str:
    address = rf"(?:\d+(?:~\d+)?|\$|/{_SED_PIECE.replace('{mark}', '/')}/I?)"
    marks = [re.escape(mark) for mark in _SED_MARKS]
    replacement = r"(?:[^\\\n{mark}]|\\[^\n])*"
    substitutes = "|".join(
        f"s{mark}{_SED_PIECE}{mark}{replacement}{mark}[gpiIm0-9]*".replace("{mark}", mark) for mark in marks
    )
    return (
        rf"(?:{address}(?:,(?:{address}|[+~]\d+))?)?[ \t]*!?[ \t]*"
        rf"(?:(?P<plain>[{{}}])|{substitutes}|{_SED_SINGLE})"
    )


def _jq(words: Words, _allowed: Allowed) -> Objection | None:
    if any(re.search(r"(?<![\w.$\"])(?:import|include)(?:\s|#[^\n]*\n)*\"", word) for word in words[1:]):
        return Objection("a jq filter that imports reads files that it does not name")
    return by_table("jq", words, PROGRAMS["jq"])


def _date(words: Words, _allowed: Allowed) -> Objection | None:
    found = parse(words[1:], PROGRAMS["date"].known)
    if found.strange:
        return _unknown(found.strange[0])
    wrong = next((word for word in found.operands if not word.startswith("+")), None)
    return Objection(f"date {wrong} would set the clock") if wrong else None


def _chmod(words: Words, _allowed: Allowed) -> Objection | None:
    mode = next((word for word in words[1:] if not re.fullmatch(r"-[Rvcf]+|--\w+", word)), "")
    if not re.fullmatch(r"0?[0-7]{3}|[ugoa]*[+=-][rwxX]*(,[ugoa]*[+=-][rwxX]*)*", mode):
        return Objection(f"the mode {mode} is not a plain one")
    return by_table("chmod", tuple(word for word in words if word != mode), PROGRAMS["chmod"])


def tar_words(words: Words) -> Words | None:
    """The words of tar with its first one as an option; None for an order of letters that takes more than one value."""
    if len(words) < 2 or words[1].startswith("-"):
        return words
    letters = words[1]
    return (words[0], f"-{letters}", *words[2:]) if re.fullmatch(r"[ctvzjJapk]*f?", letters) else None


def _tar(words: Words, _allowed: Allowed) -> Objection | None:
    """Packing and listing; what an archive unpacks, nobody has seen."""
    plain = tar_words(words)
    if plain is None:
        return Objection("tar with these letters is not looked through")
    found = parse(plain[1:], PROGRAMS["tar"].known)
    if not found.given & {"-c", "--create", "-t", "--list"}:
        return Objection("tar without c or t writes files that nobody has seen")
    if any(":" in value for value in found.values):
        return Objection("an archive on another host")
    return by_table("tar", plain, PROGRAMS["tar"])


# ------------------------------------------------------------------ wrappers


def _wrapper(words: Words, allowed: Allowed) -> Objection | None:
    within = inner(words)
    if within is None:
        return Objection(f"{words[0]} with these options is not looked through")
    if not within:
        return None if words[0] == "env" else Objection(f"{words[0]} without a command")
    return objection(within[0], within, allowed)


def inner(words: Words) -> Words | None:
    """What a plain wrapper runs; None if its options are not of the few that are understood."""
    kind = words[0].rsplit("/", 1)[-1]
    if kind == "uv":
        return _uv_inner(words) if words[1:2] == ("run",) else None
    table = _WRAPPER_OPTIONS.get(kind)
    if table is None:
        return None
    found = parse(words[1:], table, until_operand=True)
    rest = found.operands
    if found.strange or ("--" in words[1 : len(words) - len(rest)] and kind != "nohup"):
        return None
    if kind == "timeout":
        return rest[1:] if rest and re.fullmatch(r"\d+(\.\d+)?[smhd]?", rest[0]) else None
    return None if rest and "=" in rest[0] else rest


def _uv_inner(words: Words) -> Words | None:
    found = parse(words[2:], f"{UV_RUN} -m --module", until_operand=True)
    rest = found.operands
    if found.strange:
        return None
    if rest and found.given & {"-m", "--module"}:
        return ("python", "-m", *rest)
    return ("python", *rest) if rest and rest[0].endswith(".py") else rest


_WRAPPER_OPTIONS: dict[str, str] = {
    "timeout": "-k~ -s~ --kill-after~ --signal~ --preserve-status --foreground -v --verbose",
    "nice": "-n~ --adjustment~",
    "nohup": "",
    "stdbuf": "-i~ -o~ -e~ --input~ --output~ --error~",
    "env": "",
    "npx": "--no-install --no",
}


SPECIAL: dict[str, Callable[[Words, Allowed], Objection | None]] = {
    "git": _git,
    "npm": _npm,
    "pip": _pip,
    "pip3": _pip,
    "go": _go,
    "make": _make,
    "cargo": _cargo,
    "tox": _tox,
    "node": _node,
    "npx": _npx,
    "python": _python,
    "python3": _python,
    "uv": _uv,
    "pytest": _pytest,
    "coverage": _coverage,
    "sed": _sed,
    "jq": _jq,
    "date": _date,
    "chmod": _chmod,
    "tar": _tar,
    **dict.fromkeys(("timeout", "nice", "nohup", "stdbuf", "env"), _wrapper),
}
