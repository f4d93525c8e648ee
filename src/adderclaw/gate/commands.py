"""Commands: what is forbidden, what is destructive, what readonly may run, and what the lists say of a plan."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import pairwise

from adderclaw.gate.case import Policy
from adderclaw.gate.programs.allowlist import names, those
from adderclaw.gate.programs.handed import TAKES_PROGRAMS, not_names, only_shows, selects
from adderclaw.gate.programs.knowledge import INTERPRETERS, PROGRAMS, SHELLS, WRAPPERS, asks, is_tame, objection
from adderclaw.gate.programs.languages import is_piped
from adderclaw.gate.programs.objections import Ask, Objection
from adderclaw.gate.programs.unix import is_ones_own
from adderclaw.gate.programs.wrappers import inner, only_looks, runs_in_project
from adderclaw.gate.shell.loose import MAX_TEXT, every_word, statements
from adderclaw.gate.shell.plan import Command, Live, Step
from adderclaw.gate.shell.planner import Plan, Raw, Simple, canonical_text, redirects, simples, steps

type Words = tuple[str, ...]

DOWNLOADERS = names("curl wget fetch aria2c http https httpie xh lynx w3m nc ncat")


@lru_cache(maxsize=4096)
def base(word: str) -> str:
    return word.rstrip("/").rsplit("/", 1)[-1].casefold()


# ------------------------------------------------------------------ forbidden


def forbidden(command: Plan | Raw, entries: Iterable[str]) -> str | None:
    """The forbidden entry that a command runs, through wrappers and shells as far as words are literal."""
    single = {entry.casefold() for entry in entries if " " not in entry.strip()}
    phrases = [tuple(entry.split()) for entry in entries if " " in entry.strip()]
    for words in reachable(command):
        if words and base(words[0]) in single:
            return base(words[0])
        for phrase in phrases:
            plain = tuple(word for word in phrase if word != "*")
            if plain and (base(words[0]), *words[1:])[: len(plain)] == plain:
                return " ".join(phrase)
    if isinstance(command, Raw):
        return next((base(word) for word in command.words if base(word) in single), None)
    return None


def reachable(command: Plan | Raw) -> Iterator[Words]:
    """Every command that could run: those of the plan or text, and those that they hand on."""
    if isinstance(command, Plan):
        for simple in simples(command):
            yield (simple.program or simple.words[0], *simple.words[1:])
            yield from handed_on(simple.words)
        return
    for pipeline in statements(command.text):
        for words in pipeline:
            if words:
                yield from handed_on(tuple(words))
    for name in command.programs:
        yield (name,)


_MAX_STARTS = 64
_MAX_DEPTH = 6
"""Beyond it every word may be a program."""


def handed_on(words: Words, depth: int = 0) -> Iterator[Words]:
    """A command, and those inside of it: what a wrapper, a shell's -c or find's -exec would run.

    Where a wrapper's options are not understood, each of its words may be the program.
    """
    first = next((n for n, word in enumerate(words) if not re.match(r"[A-Za-z_]\w*\+?=", word)), len(words))
    words = words[first:]
    if not words:
        return
    yield words
    if depth > _MAX_DEPTH:
        yield from ((word,) for text in words for word in every_word(text))
        return
    name, rest = base(words[0]), words[1:]
    for code in dict.fromkeys(rest) if name in INTERPRETERS else ():
        # A shell's words may all be code; another interpreter's only where they look like it.
        if name in SHELLS or re.search(r"[\s;&|()'\"]", code):
            yield from _in_code(code, depth)
    if name in WRAPPERS or runs_in_project(words):
        yield from _wrapped(words, depth)
    for index, word in enumerate(rest[:_MAX_STARTS]):
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            yield from handed_on(rest[index + 1 :], depth + 1)


def _in_code(code: str, depth: int) -> Iterator[Words]:
    yield from ((word,) for word in every_word(code))
    for pipeline in statements(code):
        for part in pipeline:
            yield from handed_on(tuple(part), depth + 1)


def _wrapped(words: Words, depth: int) -> Iterator[Words]:
    within = inner(words)
    if within:
        yield from handed_on(within, depth + 1)
        return
    rest = words[1:]
    yield from (rest[index:] for index in range(min(len(rest), _MAX_STARTS)))
    yield from ((word,) for word in dict.fromkeys(rest[_MAX_STARTS:]))
    for index, word in enumerate(rest[:_MAX_STARTS]):
        if base(word) in SHELLS:
            yield from handed_on(rest[index:], depth + 1)
        elif re.search(r"\s", word):
            yield from _in_code(word, depth + 1)


def code_words(words: Words) -> Words:
    """The words of code that a command hands to a shell or another interpreter."""
    if base(words[0]) not in INTERPRETERS | WRAPPERS:
        return ()
    return tuple(inside for word in words[1:] for inside in every_word(word))


# ------------------------------------------------------------------ destructive


def destructive(command: Plan | Raw) -> str | None:
    """The pattern of destruction that a command contains, quoted or not, as data or as a command."""
    if len(command.text) > MAX_TEXT:
        return f"more than {MAX_TEXT:,} characters"
    found = dict.fromkeys(_destructions(command))
    if isinstance(command, Plan) and list(found) == [DOWNLOAD]:
        found = dict.fromkeys(_destructions(_without_readers(command)))
    return next(iter(found), None)


def _destructions(command: Plan | Raw) -> Iterator[str]:
    for text in dict.fromkeys(_texts(command)):  # of a plain command they are all the same
        yield from _by_text(text)
        for pipeline in statements(text):
            yield from _by_pipeline(pipeline)
    for step in steps(command) if isinstance(command, Plan) else ():
        yield from _by_pipeline([list(simple.words) for simple in step.commands])


def _without_readers(plan: Plan) -> Plan:
    """A plan with `cat` in the place of what only reads, as data, what this machine itself answered."""
    text, shown, made = plan.text, plan.shown, list[Step]()
    for step in plan.body.steps if not plan.inside else ():
        kept: list[Command] = []
        for one in step.commands:
            if isinstance(one, Simple) and _reads_answer(step.commands[0], one):
                text, shown = text.replace(one.text, "cat"), shown.replace(canonical_text(one), "cat")
                one = Simple(("cat",), "cat", (), "cat", "cat")
            kept.append(one)
        made.append(step._replace(commands=tuple(kept)))
    if not made:
        return plan
    return plan._replace(text=text, shown=shown, body=plan.body._replace(steps=tuple(made)))


def _reads_answer(first: Command, simple: Simple) -> bool:
    """Whether a command has a program that stands in its words, and is taken, and gets what curl asked of this machine.

    What it reads is no code: `curl localhost:3000/x | python -m json.tool`.
    """
    words = simple.words
    if not isinstance(first, Simple) or first is simple or first.name != "curl" or first.env or simple.env:
        return False
    if simple.redirects or simple.name not in _READERS or any(isinstance(w, Live) for w in (*words, *first.words)):
        return False
    program = simple.name == "awk" or words[1:2] == ("-c",) or words[1:3] == ("-m", "json.tool")
    return program and objection("curl", first.words) is None and objection(simple.name, words) is None


_READERS = frozenset({"awk", "python", "python3"})


def _texts(command: Plan | Raw) -> Iterator[str]:
    """The text, and each word in it that is a text of its own."""
    yield command.text
    yield command.shown
    words = command.words if isinstance(command, Raw) else every_word(command.text)
    yield from (word for word in words if re.search(r"[\s|;&(]", word))
    yield " ".join(words)


DOWNLOAD = "a download that is run by a shell"
_WORD = r"(?<![\w.-]){}(?![\w/-]|\.\w)"
_SHELL_NAMES = r"(?:\S{0,99}/)?(?:sh|bash|dash|zsh|ksh|fish|python[\d.]*|perl|ruby|node|php|eval|source|\.)"
# Kept as text: nothing is compiled before a command is judged. Repeats are bounded, so that no text takes long.
_TEXT_PATTERNS = (
    ("mkfs", r"(?<![\w.-])mkfs(?![a-z/-])"),
    ("shutdown", _WORD.format("shutdown")),
    ("reboot", _WORD.format("reboot")),
    (DOWNLOAD, rf"(?:^|[\s;&|(]){_SHELL_NAMES}\s[^;|\n]{{0,500}}?(?:<\(|\$\(|`)\s*(?:\S{{0,99}}/)?(?:curl|wget)\s"),
    # `curl … | sh` also where the text is prose, cut up by quotes or broken.
    (DOWNLOAD, rf"(?<![\w.-])(?:curl|wget)\s[^;\n]{{0,500}}\|\s*(?:sudo\s+)?{_SHELL_NAMES}(?=[\s;&|)]|$)"),
)
_FORK_BOMB = r"([\w:.]{1,64})\(\)\{[^}]{0,500}\1\|\1&"


def _by_text(text: str) -> Iterator[str]:
    plain = re.sub(r"\\(.)", r"\1", re.sub(r"['\"]|\\\n", "", text), flags=re.DOTALL)
    yield from (name for name, pattern in _TEXT_PATTERNS if re.search(pattern, plain))
    if re.search(_FORK_BOMB, re.sub(r"\s", "", plain)):
        yield "a fork bomb"


def _by_pipeline(pipeline: list[list[str]]) -> Iterator[str]:
    named = {base(word) for words in pipeline for word in words}
    if named.isdisjoint(DOWNLOADERS) and not any(map(_may_destroy, named)):
        return
    for words in pipeline:
        first: dict[str, int] = {}
        for index, word in enumerate(words):
            first.setdefault(base(word), index)
        # What follows the first of a name follows the others, too.
        for name, index in first.items():
            found = _by_words(name, words[index + 1 :]) if _may_destroy(name) else None
            if found:
                yield found
    downloaded = False
    for words in pipeline:
        if downloaded and any(part and _interprets(part[0]) for part in _starts(tuple(words))):
            yield DOWNLOAD
            return
        downloaded = downloaded or any(base(word) in DOWNLOADERS for word in words)


def _interprets(word: str) -> bool:
    return base(word) in INTERPRETERS or bool(re.fullmatch(r"python[\d.]+", base(word)))


def _starts(words: Words) -> Iterator[Words]:
    """A command and what its wrappers may run."""
    yield words
    if words and base(words[0]) in WRAPPERS:
        yield from (words[index:] for index in range(1, len(words)))


def _may_destroy(name: str) -> bool:
    return name in ("rm", "dd", "chown", "chmod") or name.startswith("mkfs")


def _by_words(name: str, rest: list[str]) -> str | None:
    flags = {letter for word in rest if re.fullmatch(r"-[A-Za-z]+", word) for letter in word[1:]}
    longs = [word for word in rest if word.startswith("--")]
    recursive = bool(flags & {"r", "R"}) or any("--recursive".startswith(word) and len(word) > 3 for word in longs)
    force = "f" in flags or any("--force".startswith(word) and len(word) > 3 for word in longs)
    targets = [word for word in rest if not word.startswith("-")]
    match name:
        case "rm" if recursive and (any(map(_is_everything, targets)) or "--no-preserve-root" in longs):
            return "rm -rf of everything"
        case "rm" if recursive and force and any(target.startswith(("/", "*")) for target in targets):
            return "rm -rf /"
        case "dd" if any(word.startswith("if=") for word in rest):
            return "dd if="
        case "chown" if recursive:
            return "chown -R"
        case "chmod" if recursive and _opens_all(targets):
            return "chmod -R 777 /"
        case _ if name.startswith("mkfs"):
            return "mkfs"
        case _:
            return None


def _is_everything(target: str) -> bool:
    """`/`, `~`, `.`, `..`, `*` and whatever is one of them with more slashes, dots or stars."""
    return bool(re.fullmatch(r"(\$\{?HOME\}?|\$\{?PWD\}?|~\w*)?[/.*]*", target)) and target != ""


def _opens_all(targets: list[str]) -> bool:
    mode = next((t for t in targets if re.fullmatch(r"0*777|(a|ugo)?[+=]rwx\w*", t)), None)
    return mode is not None and any(target.startswith("/") for target in targets)


# ------------------------------------------------------------------ lists


def unknowable(command: Plan | Raw) -> str | None:
    """What in a command stands for programs or paths that nobody can look at before it runs."""
    if isinstance(command, Plan):
        return next((what for code in command.inside if (what := unknowable(code))), next(unnamed(command), None))
    if not command.literal:
        return f"a program that is not a literal word ({command.reason})"
    return command.unknown or None


def harmless() -> frozenset[str]:
    """What a readonly session may still run."""
    return those("harmless") | {"ls"}


def is_harmless(command: Plan | Raw) -> bool:
    """Whether a readonly session may run it: it only looks, and writes nowhere."""
    if isinstance(command, Raw):
        return False
    if any(redirect.writes and redirect.target != "/dev/null" for redirect in redirects(command)):
        return False
    return all(simple.name in harmless() and not simple.handed for simple in simples(command))


def unlisted(
    simple: Simple, policy: Policy, is_project_code: Callable[[str], bool], inside: "tuple[Plan | Raw, ...]" = ()
) -> str | None:
    """Why a simple command is high risk, with what would change that; None if the lists take it.

    `is_project_code` tells whether a program that is named by a path lies in the workspace; `inside` are the texts
    that the plan hands to shells, as plans of their own.
    """

    def allowed(name: str, words: Words) -> bool:
        known = name != simple.name and not _is_known(base(name)) and is_project_code(name)
        return known or _is_allowed(name, words, simple.program, policy.allowed_commands)

    def code(text: str) -> Objection | None:
        return _of_code(text, inside, policy, is_project_code)

    def within(words: Words) -> Objection | None:
        name = base(words[0])
        own = "/" in words[0] and is_project_code(words[0]) and name in PROGRAMS
        own = own and name not in INTERPRETERS and name not in WRAPPERS
        return objection(name if own else words[0], words, ask)

    ask = Ask(
        within,
        allowed,
        policy.allowed_domains,
        code,
        is_project_code,
        _stdin(simple),
        _is_fed(simple),
        policy.sandboxed,
    )
    name, simple = simple.name, simple.opened
    if not simple.program and name not in PROGRAMS and not asks(simple.words):
        return f"{simple.words[0]!r} is not installed: there is no such program on the PATH"
    if "/" in name and not allowed(name, simple.words):
        name = base(name)
        if not is_project_code(simple.name):
            return f"{simple.name!r} is a program named by its path: add {_quoted(simple.name)} to {SETTING}"
        if name not in PROGRAMS:
            return f"{simple.name!r} may run any code" if _is_known(name) else None
    found = objection(name, simple.words, ask)
    if found is None:
        return None
    if found.entry:
        return f"{simple.name!r}: {found.why}: add {_quoted(found.entry)} to {SETTING}"
    return f"{simple.name!r}: {found.why}: {WITHOUT}"


# ------------------------------------------------------------------ what xargs is given


def unnamed(command: Plan) -> Iterator[str]:
    """Why what xargs hands to a program may be more than names that the commands before it lead to."""
    for step in steps(command):
        for index, simple in enumerate(step.commands):
            words = _unwrapped(simple.words)
            if words and base(words[0]) == "xargs":
                simple = simple._replace(words=words, name="xargs")
                within = inner(words)
                asked = simple.words[1:] in (("--version",), ("--help",))
                why = "it is not looked through" if within is None else _handed(simple, within, step.commands[:index])
                if why and not asked:
                    yield f"'xargs': {why}"


def _unwrapped(words: Words) -> Words:
    """What the wrappers before it run in the end: `timeout 5 xargs …` is a matter of xargs."""
    while words and base(words[0]) != "xargs" and (base(words[0]) in WRAPPERS or runs_in_project(words)):
        words = inner(words) or ()
    return words


def _handed(simple: Simple, command: Words, before: "tuple[Simple, ...]") -> str | None:
    name = base(command[0]) if command else "echo"
    options = PROGRAMS.get(name)
    if name in INTERPRETERS or name in TAKES_PROGRAMS:
        return f"what {name} would run is not known before"
    if name == "kill" and any(not is_ones_own(one.words) for one in before if one.name in _SEEKS):
        return "what is found may be processes that are not of this work"
    if only_shows(command or ("echo",)):
        return None
    sources = [one for one in before if not selects(one)]
    if len(sources) != 1 or not_names(sources[0]):
        return f"what {name} is given are not names that a command before it found"
    if any(re.fullmatch(r"-d(?!\\n$|\\0$).*|--delimiter.*", word) for word in splitting(simple.words)):
        return "a part of a name is another name: leave its delimiter as it is, or take -0"
    writes = options is None or not only_looks(command)
    lists_all = sources[0].words[:2] == ("git", "ls-files") and not any(map(_is_tame_name, sources[0].words[2:]))
    if writes and name != "kill" and lists_all and len(before) == 1:
        return f"{name} would change every file of the project: name them by their ending"
    if writes and sources[0].name == "find" and not is_tame(sources[0].words):
        return f"{name} may change files that decide what other programs run: name the files by their ending"
    return None


_SEEKS = names("pgrep grep egrep")


def _is_tame_name(word: str) -> bool:
    return not word.startswith("-") and word not in (".", "*", ":/")


def splitting(words: Words) -> Words:
    """The words by which xargs is told how to take its input apart, -d with its value."""
    own = words[1 : len(words) - len(inner(words) or ())]
    return tuple(f"-d{after}" if word == "-d" else word for word, after in pairwise((*own, "")))


def _stdin(simple: Simple) -> str | None:
    """The text that a here-document gives a command, where all of it is known."""
    texts = (r.target for r in simple.redirects if r.is_text)
    return next((text for text in texts if not isinstance(text, Live)), None)


def _is_fed(simple: Simple) -> bool:
    fed = (redirect.target for redirect in simple.redirects if redirect.feeds)
    return any(not isinstance(target, Live) and not is_piped(target) for target in fed)


def _of_code(
    text: str, inside: "tuple[Plan | Raw, ...]", policy: Policy, is_project_code: Callable[[str], bool]
) -> Objection | None:
    """What is said of the text that a shell is given: the strictest that is said of its commands."""
    plan = next((plan for plan in inside if plan.text == text), None)
    if not isinstance(plan, Plan):
        return Objection(f"what the shell is given is raw bash ({plan.reason if plan else 'not looked through'})")
    for simple in simples(plan):
        why = unlisted(simple, policy, is_project_code, plan.inside)
        if why:
            return Objection(why)
    return None


def _is_known(name: str) -> bool:
    return name in INTERPRETERS or name in WRAPPERS or name in PROGRAMS


SETTING = "[security] allowed_commands"
WITHOUT = "write it without that, or add a rule for exactly this command to [permissions] allow"


def _quoted(entry: str) -> str:
    return '"' + entry.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _is_allowed(name: str, words: Words, program: str, entries: Iterable[str]) -> bool:
    for entry in entries:
        wanted = tuple(entry.split())
        if len(wanted) == 1 and wanted[0] in (name, words[0] if "/" in words[0] else name):
            return True
        if len(wanted) == 1 and wanted[0] == program and words[0].rsplit("/", 1)[-1] == program.rsplit("/", 1)[-1]:
            return True
        if len(wanted) > 1 and (name, *words[1:])[: len(wanted)] == wanted:
            return True
    return False
