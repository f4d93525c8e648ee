"""What is known of programs: whether the built-in list takes a command, and if not, why."""

import itertools
import re
from collections.abc import Callable

from adderclaw.gate import perl, pieces
from adderclaw.gate.programs import git, languages, managers, media, network, packages, runners, services, unix
from adderclaw.gate.programs.allowlist import PROGRAMS, Options, names, those
from adderclaw.gate.programs.objections import Allowed, Ask, Objection, Words, unknown
from adderclaw.gate.programs.options import parse, without_pairs
from adderclaw.gate.programs.tabled import ASKING, by_command, by_table, strange
from adderclaw.gate.programs.wrappers import find_parts, inner, only_looks, wrapped

__all__ = ["INTERPRETERS", "PROGRAMS", "SHELLS", "WRAPPERS", "Objection", "inner", "objection"]

SHELLS = names("sh bash dash zsh ksh mksh ash fish csh tcsh pwsh powershell")
INTERPRETERS = SHELLS | names(
    """python python2 python3 perl ruby node nodejs php lua deno bun osascript tclsh Rscript awk gawk mawk xargs"""
)
WRAPPERS = names(
    """env sudo doas su runuser xargs nice nohup timeout time stdbuf setsid ionice chrt taskset chroot command exec
    builtin eval watch busybox toybox parallel strace ltrace unshare nsenter flock script ssh npx uv poetry uvx bunx
    proxychains systemd-run pkexec firejail bwrap setarch linux32 linux64 prlimit valgrind"""
)
"""Programs that run the program that their words name."""

_MAX_RUNNERS = 8


def objection(name: str, words: Words, ask: Ask | None = None, *, allowed: Allowed = None) -> Objection | None:
    """Why the built-in list does not take a command; None if it does.

    `ask` says what the operator's own list and the texts of shells come to, also for what a wrapper runs.
    """
    if ask is None:

        def within(words: Words) -> Objection | None:
            return objection(words[0], words, allowed=allowed)

        ask = Ask(within, allowed)
    if ask.allowed is not None and ask.allowed(name, words):
        return None
    runners = sum(word == "-m" or word.rsplit("/", 1)[-1] in WRAPPERS for word in words)
    if runners > _MAX_RUNNERS:
        return Objection("too many programs that run programs")
    if asks(words):
        return None
    options = PROGRAMS.get(name)
    if options is None:
        return Objection("it is not on the list of allowed commands", name)
    if options.response_files and any(word.startswith("@") for word in words[1:]):
        return Objection("options from a file cannot be looked at")
    found = _judged(name, words, ask, options)
    piece = pieces.of(words, ask.stdin) if found is not None and ask.confined and name in pieces.NAMES else None
    return found if piece is None else pieces.objection(piece, ask)


def _judged(name: str, words: Words, ask: Ask, options: Options) -> Objection | None:
    special = SPECIAL.get(name)
    if special is not None:
        return special(words, ask)
    if options.wraps:
        return _wrapper(words, ask)
    return _shell(words, ask) if options.shell else by_table(name, words, options)


def asks(words: Words) -> bool:
    """Whether a program, whichever of those on the PATH it is, is asked for nothing but its version or its help."""
    if words[1:] not in (("--version",), ("--help",)) or (words[0] in WRAPPERS and words[0] not in PROGRAMS):
        return False
    return re.fullmatch(r"[A-Za-z][\w.+-]*", words[0], re.ASCII) is not None


# ------------------------------------------------------------------ wrappers and shells


_NAME = ("./x",)
"""Stands for the names that a program is given: the first word that it takes may mean more than the others."""


def _wrapper(words: Words, ask: Ask) -> Objection | None:
    found = wrapped(words)
    name = words[0].rsplit("/", 1)[-1]
    if found.strange:
        return Objection(found.strange)
    if not found.words:
        return None if name in ("env", "xargs") else Objection(f"{name} without a command")
    # What xargs hands on are names, which are words of the command, too; `commands.unnamed` sees that they are names.
    given = () if name != "xargs" else ("2",) if found.words[0] == "kill" else _NAME
    return ask.inner((*found.words, *given))


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
        return strange(found.strange[0], PROGRAMS["uvx"])
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
        return strange(found.strange[0], PROGRAMS["bash"])
    if found.given & {"--version", "--help"}:
        return None
    if "-c" in found.given:
        return _code(found.operands[0], ask) if found.operands else Objection("-c without a text")
    if not found.operands:
        return _code(ask.stdin, ask) if ask.stdin is not None else Objection("a shell that reads its standard input")
    if languages.is_piped(found.operands[0]):
        return Objection(f"a script from {found.operands[0]} is not a file that can be looked at")
    return None


def _find(words: Words, ask: Ask) -> Objection | None:
    found = find_parts(words)
    if found.strange:
        return Objection(found.strange)
    for command in found.commands:
        refused = _handed_names(command, ask) or (None if is_tame(found.words) else _writes(command))
        if refused is not None:
            return refused
    return by_table("find", found.words, PROGRAMS["find"])


_EACH = ("-x", "--exec", "-X", "--exec-batch")


def _fd(words: Words, ask: Ask) -> Objection | None:
    """What fd runs on the files that it finds may only look at them."""
    at = next((n for n, word in enumerate(words) if word in _EACH), len(words))
    command = words[at + 1 :]
    if at == len(words):
        return by_table("fd", words, PROGRAMS["fd"])
    if not command or not ask.confined or not only_looks(command) or any(w in (";", *_EACH) for w in command):
        return Objection("fd runs only what looks at the files that it finds, and in a sandbox")
    given = command if any("{" in word for word in command) else (*command, "{}")
    return _handed_names(given, ask) or by_table("fd", words[:at], PROGRAMS["fd"])


def _handed_names(command: Words, ask: Ask) -> Objection | None:
    """What is said of a command whose last words are names that another program finds."""
    if "{}" in command[0]:
        return Objection("it would run the files that it finds")
    if any(word.rsplit("/", 1)[-1] == "perl" for word in command):
        return Objection("perl may take a name that it finds for a program")
    if command[0].rsplit("/", 1)[-1] in INTERPRETERS and any("{}" in word and word != "{}" for word in command):
        return Objection("a name that it finds would become part of a program")
    return ask.inner(tuple(word.replace("{}", "./x") for word in command))


def _writes(command: Words) -> Objection | None:
    name = command[0].rsplit("/", 1)[-1]
    if only_looks(command) or (name == "sed" and not languages.sed_parts(command).in_place):
        return None
    return Objection(
        f"{name} on whatever it finds may change files that decide what other programs run: name the"
        " files by their ending (-name '*.py'), or begin at a folder"
    )


_STEERING = names("json yml yaml toml cfg ini cjs mjs properties lock conf config sample")


def is_tame(words: Words) -> bool:
    """Whether what a find comes upon can be none of the files that are protected: by where it begins, or its names."""
    roots = parse(words[1:], PROGRAMS["find"].options, single_dash=True).operands
    if roots and not any(re.fullmatch(r"[./]*|.*/\.|\.\..*", root) for root in roots):
        return True
    patterns = [b for a, b in itertools.pairwise(words) if a in ("-name", "-iname")]
    endings = [re.fullmatch(r"\*\.([A-Za-z0-9]+)|[\w-]+\.([A-Za-z0-9]+)", pattern) for pattern in patterns]
    return bool(endings) and all(end and (end[1] or end[2]).casefold() not in _STEERING for end in endings)


# ------------------------------------------------------------------ interpreters


def _python(words: Words, ask: Ask) -> Objection | None:
    parts = languages.python_parts(words)
    if parts is None:
        return _python_code(words, ask)
    kind, rest = parts
    if kind == "":
        return _piped(rest[0]) or _managed(rest, words, ask)
    return python_module(rest, ask) if kind == "-m" else None


def _python_code(words: Words, ask: Ask) -> Objection | None:
    from adderclaw.gate.python import command

    piece = command.read(words, ask.stdin)
    if piece is None:
        return Objection("python: only a script file, -m with a known module or code that stands there is taken")
    if piece.why:
        return Objection(f"a piece of Python: {piece.why}")
    if piece.confined and not ask.confined:
        return Objection("a piece of Python that opens what it finds, or hands on data, is taken in a sandbox only")
    return None


_EMPTIES = names("flush reset_db sqlflush dbshell shell shell_plus drop_test_database reset_schema")


def _managed(rest: Words, words: Words, ask: Ask) -> Objection | None:
    """Django's own commands that empty a database, or take any code; that of its shell is looked at."""
    if rest[0].rsplit("/", 1)[-1] == "manage.py" and rest[1:2] == ("shell",):
        return _python_code(words, ask)
    if rest[0].rsplit("/", 1)[-1] == "manage.py" and rest[1:2] and rest[1] in _EMPTIES:
        return Objection(f"manage.py {rest[1]} empties a database or takes any code", f"python manage.py {rest[1]}")
    return None


def _piped(path: str) -> Objection | None:
    """`python /dev/stdin` is `python -`."""
    piped = languages.is_piped(path)
    return Objection(f"a script from {path} is not a file that can be looked at") if piped else None


_SERVERS = frozenset({"uvicorn", "gunicorn", "hypercorn", "flask", "celery"})


def python_module(rest: Words, ask: Ask) -> Objection | None:
    module = rest[0] if rest else ""
    if module in those("module") or module in _SERVERS:
        return ask.inner(rest)
    options = PROGRAMS.get(f"python -m {module}")
    if options is None:
        if ask.project is not None and any(map(ask.project, languages.project_files(module))):
            return None
        if languages.project_files(module) and not languages.is_known_module(module):
            return None  # the project's own, or one that was installed for it: as good as a script of it
        return Objection(f"python -m {module} is not a known module")
    return _http_server(rest, ask) if module == "http.server" else by_table(module, rest, options)


def _coverage(words: Words, ask: Ask) -> Objection | None:
    if words[1:2] != ("run",):
        return by_command("coverage", words, PROGRAMS["coverage"])
    found = parse(words[2:], f"{PROGRAMS['coverage run'].options} -m", until_operand=True)
    if found.strange or not found.operands:
        return unknown(found.strange[0] if found.strange else "run")
    return python_module(found.operands, ask) if "-m" in found.given else _piped(found.operands[0])


_REGISTERS = (
    r"tsx(?:/esm|/cjs)?|ts-node/(?:register|esm)|dotenv/config|source-map-support/register|@swc-node/register"
    r"|tsconfig-paths/register|@babel/register"
)
"""Packages of the project that let node read other languages."""


def _node(words: Words, ask: Ask) -> Objection | None:
    options = PROGRAMS["node"]
    words = without_pairs(words, "--input-type", "module|commonjs")
    words = without_pairs(words, "--import|-r|--require|--loader", _REGISTERS)
    found = parse(words[1:], options.options, until_operand=True)
    if found.strange:
        return strange(found.strange[0], options)
    if found.given & {"-e", "-p", "--eval", "--print"}:
        code = words[2] if len(words) > 2 and words[1] in ("-e", "-p", "--eval", "--print") else ""
        return _javascript(code)
    if found.operands in ((), ("-",)) and ask.stdin is not None:
        return _javascript(ask.stdin)
    if found.operands:
        return _piped(found.operands[0])
    return None if found.given & ASKING else Objection("node without a script reads it from standard input")


def _javascript(code: str) -> Objection | None:
    return None if code and languages.is_plain_javascript(code) else Objection("node: code as a word")


# ------------------------------------------------------------------ small languages and plain rules


def _without_code(words: Words, _ask: Ask) -> Objection | None:
    """Rscript and julia: a text that only calls what tests and checks the project is as good as a script of it."""
    name = words[0].rsplit("/", 1)[-1]
    plain = runners.is_plain_r if name == "Rscript" else runners.is_plain_julia
    kept: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "-e" and rest and plain(rest[0]):
            rest.pop(0)
            kept += ["./script"] if not rest else []
        else:
            kept.append(word)
    return by_table(name, tuple(kept), PROGRAMS[name])


def _sed(words: Words, _ask: Ask) -> Objection | None:
    sed = languages.sed_parts(words)
    if sed.strange:
        return Objection(f"sed {sed.strange} is not an option that is taken")
    plain = all(map(languages.is_plain_sed, sed.scripts))
    if sed.in_place and any(re.fullmatch(_EMPTY, script.strip()) for script in sed.scripts):
        return Objection("it would empty the files")
    return None if plain else Objection("the sed script may run, read or write something")


_EMPTY = r"(?:1,\$)?d|s(.)\^?\.\*\$?\1\1g?|/\^?\.\*?\$?/d"


def _awk(words: Words, _ask: Ask) -> Objection | None:
    options = PROGRAMS["awk"]
    found = parse(words[1:], options.options, until_operand=True)
    if found.strange:
        return strange(found.strange[0], options)
    if not found.operands:
        return None if "--version" in found.given or "-W" in found.given else Objection("awk without a program")
    if languages.is_plain_awk(found.operands[0]):
        return None
    return Objection("the awk program may run, read or write something")


def _jq(words: Words, _ask: Ask) -> Objection | None:
    if not all(map(languages.is_plain_jq, words[1:])):
        return Objection("a jq filter that imports reads files that it does not name")
    return by_table("jq", words, PROGRAMS["jq"])


def _yq(words: Words, _ask: Ask) -> Objection | None:
    if any(re.search(r"\b(?:load\w*|env\w*|strenv|system)\b", word) for word in words[1:]):
        return Objection("the yq expression may read something that it does not name")
    return by_table("yq", words, PROGRAMS["yq"])


def _http_server(words: Words, _ask: Ask) -> Objection | None:
    """A server of the project's files: without a place it listens where the session's network does, which is asked."""
    places = network.values(words, "-b", "--bind")
    if any(place == "0.0.0.0" or not re.fullmatch(network.LOOPBACK, place) for place in places):
        return Objection("it would serve the files to every machine: give it --bind 127.0.0.1")
    return by_table("http.server", words, PROGRAMS["python -m http.server"])


def _perl(words: Words, _ask: Ask) -> Objection | None:
    if words[1:] and PROGRAMS["perl"].bare.issuperset(words[1:]):
        return None
    script = [
        word for word in words[1:] if not re.fullmatch(r"-[wcTWt]+|-I(?:lib|blib|t/lib)|-Mstrict|-Mwarnings", word)
    ]
    if script and re.fullmatch(r"(?!-)[\w./-]+\.(?:pl|pm|t)", script[0]):
        return None
    found = perl.parts(words)
    if found.strange or not all(map(perl.is_plain, found.scripts)):
        return Objection("perl: only a line that replaces or selects text is taken", "perl")
    odd = next((name for name in found.files if not perl.is_plain_name(name)), None)
    return Objection(f"perl may take {odd} for a program") if odd else None


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
        return Objection(f"artisan {found.operands[1]} takes any code", f"php artisan {found.operands[1]}")
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
    **dict.fromkeys(("fd", "fdfind"), _fd),
    **dict.fromkeys(("npx", "bunx"), _npx),
    "uvx": _uvx,
    "pipx": _pipx,
    "watch": _watch,
    "command": _command,
    "find": _find,
    **dict.fromkeys(("python", "python3"), _python),
    "coverage": _coverage,
    "node": _node,
    "sed": _sed,
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _awk),
    "jq": _jq,
    "yq": _yq,
    "php": _php,
    "perl": _perl,
    "hyperfine": runners.hyperfine,
    "gdb": runners.gdb,
    "perf": runners.perf,
    **dict.fromkeys(("nyc", "c8"), runners.nyc),
    **dict.fromkeys(("Rscript", "julia"), _without_code),
}
