"""Commands: what is forbidden, what is destructive, and what the lists say of a plan."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from adderclaw.policy.case import Policy
from adderclaw.policy.legacy import inline
from adderclaw.policy.legacy.programs.allowlist import PROGRAMS, interprets, is_shell, runs_others, those
from adderclaw.policy.legacy.programs.handed import only_shows
from adderclaw.policy.legacy.programs.knowledge import asks, objection, shell_code
from adderclaw.policy.legacy.programs.languages import is_piped
from adderclaw.policy.legacy.programs.objections import Ask, Objection
from adderclaw.policy.legacy.programs.wrappers import inner, runs_in_project
from adderclaw.policy.legacy.shell.loose import MAX_TEXT, every_word, statements
from adderclaw.policy.legacy.shell.plan import Live, whole
from adderclaw.policy.legacy.shell.planner import Plan, Raw, Simple, simples, steps

type Words = tuple[str, ...]


@lru_cache(maxsize=4096)
def base(word: str) -> str:
    return word.rstrip("/").rsplit("/", 1)[-1].casefold()


# ------------------------------------------------------------------ forbidden


def forbidden(command: Plan | Raw, entries: Iterable[str], *, sandboxed: bool = False) -> str | None:
    """The forbidden entry that a command runs, through wrappers and shells as far as words are literal.

    Code for other interpreters is opaque; where no sandbox holds it, its words are looked at as those of raw bash are.
    """
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
    texts = () if sandboxed else code_words(command)
    return next((base(word) for word in texts if base(word) in single), None)


def reachable(command: Plan | Raw) -> Iterator[Words]:
    """Every command that could run: those of the plan or text, and those that they hand on."""
    if isinstance(command, Plan):
        for simple in (simple for plan in whole(command) for simple in simples(plan)):
            yield (simple.program or simple.words[0], *simple.words[1:])
            yield from handed_on(simple.words)
        return
    for pipeline in statements(command.text):
        for words in pipeline:
            if words:
                yield from handed_on(tuple(words))
    for name in command.programs:
        yield (name,)


MAX_DEPTH = 6
"""How deeply nested commands are followed."""
MAX_HANDED = 100_000
"""How many words are checked in all the commands that one command may run."""
UNFOLLOWED: Words = ("\0",)
"""What `handed_on` ends with when it reaches one of these limits. `destructive` refuses such a command."""


class _Full(Exception):
    """A limit of `handed_on` was reached."""


def handed_on(words: Words) -> Iterator[Words]:
    """A command, and those inside of it: what a wrapper, a shell's -c or find's -exec would run.

    Where a wrapper's options are not understood, each of its words may be the program.
    """
    left = MAX_HANDED
    try:
        for found in _handed_on(words, 0):
            left -= len(found)
            if left < 0:
                raise _Full
            yield found
    except _Full:
        yield UNFOLLOWED


def _handed_on(words: Words, depth: int, *, acts: bool = True) -> Iterator[Words]:
    """`acts`: whether to look for -exec; the caller has already found those behind another -exec."""
    first = next((n for n, word in enumerate(words) if not re.match(r"[A-Za-z_]\w*\+?=", word)), len(words))
    words = words[first:]
    if not words:
        return
    yield words
    if depth > MAX_DEPTH:
        yield from ((word,) for text in words for word in every_word(text))
        raise _Full
    name, rest = base(words[0]), words[1:]
    for code in dict.fromkeys(rest) if is_shell(name) else ():
        yield from _in_code(code, depth)
    if runs_others(name) or runs_in_project(words):
        yield from _wrapped(words, depth, acts=acts)
    for index, word in enumerate(rest) if acts else ():
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            yield from _handed_on(rest[index + 1 :], depth + 1, acts=False)


def _in_code(code: str, depth: int) -> Iterator[Words]:
    for pipeline in statements(code):
        for part in pipeline:
            yield from _handed_on(tuple(part), depth + 1)


def _wrapped(words: Words, depth: int, *, acts: bool) -> Iterator[Words]:
    within = inner(words)
    if within:
        yield from _handed_on(within, depth + 1, acts=acts)
        return
    rest = words[1:]
    yield from (rest[index:] for index in range(len(rest)))
    for index, word in enumerate(rest):
        if is_shell(base(word)):
            yield from _handed_on(rest[index:], depth + 1, acts=acts)
        elif re.search(r"\s", word):
            yield from _in_code(word, depth + 1)


def code_words(command: Plan) -> Iterator[str]:
    """The words of the code that a plan hands to interpreters, here-documents too."""
    for simple in (simple for plan in whole(command) for simple in simples(plan)):
        if any(interprets(base(words[0])) or runs_others(base(words[0])) for words in handed_on(simple.words)):
            texts = (*simple.words[1:], *(str(r.target) for r in simple.redirects if r.is_text))
            yield from (word for text in texts for word in every_word(text))


# ------------------------------------------------------------------ destructive


def destructive(command: Plan | Raw) -> str | None:
    """The destruction that a plan does, by its programs, their arguments and pipelines; raw bash by its text."""
    if len(command.text) > MAX_TEXT:
        return f"more than {MAX_TEXT:,} characters"
    if UNFOLLOWED in reachable(command):
        return f"more nested commands than are checked ({MAX_DEPTH} levels, {MAX_HANDED:,} words)"
    return next(_of_text(command.text) if isinstance(command, Raw) else _of_plan(command), None)


def _of_plan(command: Plan) -> Iterator[str]:
    for plan in whole(command):
        for step in steps(plan):
            yield from _by_pipeline([simple.words for simple in step.commands])


def _by_pipeline(pipeline: list[Words]) -> Iterator[str]:
    downloaded = False
    for words in pipeline:
        parts = [part for part in handed_on(words) if part]
        for part in parts:
            found = _by_words(base(part[0]), part[1:])
            if found:
                yield found
        if downloaded and any(_reads_code(part) for part in parts):
            yield DOWNLOAD
        downloaded = downloaded or any(base(part[0]) in those("downloads") for part in parts)


def _reads_code(words: Words) -> bool:
    """Whether a command takes its standard input for code: it is a shell or an interpreter without a script."""
    if is_shell(base(words[0])):
        return "-s" in words or (shell_code(words) in (0, None) and not any(w[:1] not in ("-", "") for w in words[1:]))
    code = inline.of(words)
    return code is not None and code.text is None


_DESTROY = frozenset({"rm", "dd", "chown", "chmod", "shutdown", "reboot", "systemctl", "init", "telinit"})


def _by_words(name: str, rest: Words) -> str | None:
    if name not in _DESTROY and not name.startswith("mkfs"):
        return None
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
        case "shutdown" | "reboot":
            return name
        case "systemctl" | "init" | "telinit" if {"reboot", "poweroff", "halt", "shutdown"} & set(targets):
            return "reboot"
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


DOWNLOAD = "a download that is run by a shell"
_SHELL_NAMES = r"(?:sh|bash|dash|zsh|ksh|fish|python[\d.]*|perl|ruby|node|php|eval|source|\.)"
# Kept as text: nothing is compiled before a command is judged. Each takes time linear in the text.
_TEXT_PATTERNS = (
    ("mkfs", r"(?<![\w.-])mkfs(?![a-z/-])"),
    ("shutdown", r"(?<![\w.-])shutdown(?![\w/-]|\.\w)"),
    ("reboot", r"(?<![\w.-])reboot(?![\w/-]|\.\w)"),
)


def _runs_download(text: str) -> bool:
    """`sh -c "$(curl …)"` and `curl … | sh`, also where the text is prose, cut up by quotes or broken."""
    for statement in re.split(r"[;|\n]", text):
        shell = re.search(rf"(?:^|[\s&(/]){_SHELL_NAMES}\s", statement)
        opened = re.split(r"<\(|\$\(|`", statement[shell.end() :])[1:] if shell else ()
        if any(re.match(r"\s*(?:\S*/)?(?:curl|wget)\s", part) for part in opened):
            return True
    for statement in re.split(r"[;\n]", text):
        download = re.search(r"(?<![\w.-])(?:curl|wget)\s", statement)
        piped = statement[download.end() :].split("|")[1:] if download else ()
        if any(re.match(rf"\s*(?:sudo\s+)?(?:\S*/)?{_SHELL_NAMES}(?=[\s&)]|$)", part) for part in piped):
            return True
    return False


def _is_fork_bomb(text: str) -> bool:
    """`name(){ … name|name& … }`, in a text without white space."""
    for body in text.split("}"):
        for match in re.finditer(r"(?<![\w:.])([\w:.]+)\|([\w:.]+)&", body):
            if match[1].endswith(match[2]) and body.find(f"{match[2]}(){{", 0, match.start(1)) >= 0:
                return True
    return False


def _of_text(text: str) -> Iterator[str]:
    """Patterns of destruction in raw bash, quoted or not, as data or as a command."""
    plain = re.sub(r"\\(.)", r"\1", re.sub(r"['\"]|\\\n", "", text), flags=re.DOTALL)
    yield from (name for name, pattern in _TEXT_PATTERNS if re.search(pattern, plain))
    if _runs_download(plain):
        yield DOWNLOAD
    if _is_fork_bomb(re.sub(r"\s", "", plain)):
        yield "a fork bomb"
    for one in (text, *(word for word in every_word(text) if re.search(r"[\s|;&(]", word)), " ".join(every_word(text))):
        for pipeline in statements(one):
            yield from _by_pipeline(list(map(tuple, pipeline)))
            for words in pipeline:
                # What follows the first of a name follows the others, too.
                first = {base(word): index for index, word in reversed(tuple(enumerate(words)))}
                found = (_by_words(name, tuple(words[at + 1 :])) for name, at in first.items() if name in _DESTROY)
                yield from filter(None, found)


# ------------------------------------------------------------------ lists


def unknowable(command: Plan | Raw) -> str | None:
    """What in a command stands for programs or paths that nobody can look at before it runs."""
    if isinstance(command, Raw):
        return command.unknown or None
    return next((why for plan in whole(command) for why in _unknown_names(plan)), None)


def unlisted(
    simple: Simple, policy: Policy, is_project_code: Callable[[str], bool], inside: "tuple[Plan, ...]" = ()
) -> Objection | None:
    """Why a simple command is more than the lists allow, with what would change that; None if they allow it.

    `is_project_code` tells whether a program that is named by a path lies in the workspace; `inside` are the texts
    that the plan hands to shells, as plans of their own.
    """

    def allowed(name: str, words: Words, entry: str) -> bool:
        return _is_allowed(name, words, simple.program, policy.allowed_commands, len(entry.split()))

    def code(text: str) -> Objection | None:
        return _of_code(text, inside, policy, is_project_code)

    def within(words: Words) -> Objection | None:
        name = base(words[0])
        if "/" in words[0] and is_project_code(words[0]):
            if name not in PROGRAMS:
                return None
            return objection(words[0] if interprets(name) or runs_others(name) else name, words, ask)
        return objection(words[0], words, ask)

    ask = Ask(within, allowed, policy.allowed_domains, code, is_project_code, _stdin(simple), _is_fed(simple))
    name, simple = simple.name, simple.opened
    if not simple.program and name not in PROGRAMS and not asks(simple.words):
        return Objection(f"{simple.words[0]!r} is not installed: there is no such program on the PATH", name)
    if "/" in name and not allowed(name, simple.words, name):
        name = base(name)
        if not is_project_code(simple.name):
            why = f"{simple.name!r} is a program named by its path: add {_quoted(simple.name)} to {SETTING}"
            return Objection(why, simple.name)
        if name not in PROGRAMS:
            return None
    found = objection(name, simple.words, ask)
    if found is None:
        return None
    how = f": add {_quoted(found.entry)} to {SETTING}" if found.entry else ""
    return found._replace(why=f"{simple.name!r}: {found.why}{how}")


def _stdin(simple: Simple) -> str | None:
    """The text that a here-document gives a command, where all of it is known."""
    texts = (r.target for r in simple.redirects if r.is_text)
    return next((text for text in texts if not isinstance(text, Live)), None)


def _is_fed(simple: Simple) -> bool:
    fed = (redirect.target for redirect in simple.redirects if redirect.feeds)
    return any(not isinstance(target, Live) and not is_piped(target) for target in fed)


def _of_code(
    text: str, inside: "tuple[Plan, ...]", policy: Policy, is_project_code: Callable[[str], bool]
) -> Objection | None:
    """What is said of the text that a shell is given: the strictest that is said of its commands."""
    plan = next((plan for plan in inside if plan.text == text), None)
    if plan is None:
        return Objection("what the shell is given is not looked through")
    found = [why for simple in simples(plan) if (why := unlisted(simple, policy, is_project_code, plan.inside))]
    return max(found, key=lambda why: (bool(why.entry), why.outside), default=None)


SETTING = "[security] allowed_commands"


def _quoted(entry: str) -> str:
    return '"' + entry.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _is_allowed(name: str, words: Words, program: str, entries: Iterable[str], least: int) -> bool:
    """Whether the operator lists a command; what names less than the list's own entry would weaken that."""
    for entry in entries:
        wanted = tuple(entry.split())
        if len(wanted) < least:
            continue
        if len(wanted) == 1 and wanted[0] in (name, words[0] if "/" in words[0] else name):
            return True
        if len(wanted) == 1 and wanted[0] == program and words[0].rsplit("/", 1)[-1] == program.rsplit("/", 1)[-1]:
            return True
        if len(wanted) > 1 and (name, *words[1:])[: len(wanted)] == wanted:
            return True
    return False


# ------------------------------------------------------------------ what xargs is given, and what never ends


def unnamed(command: Plan) -> Iterator[str]:
    """Why what xargs hands to a program is not known before it runs."""
    for simple in simples(command):
        words = _unwrapped(simple.words)
        if words and base(words[0]) == "xargs" and words[1:] not in (("--version",), ("--help",)):
            within = inner(words)
            if within is None or not only_shows(within or ("echo",)) or within[:1] == ("kill",):
                yield "'xargs': the words that it hands on are not known before it runs"


def _unknown_names(command: Plan) -> Iterator[str]:
    """Why what xargs is given may be more than names that a command before it lists, or be run as code."""
    for step in steps(command):
        for index, simple in enumerate(step.commands):
            words = _unwrapped(simple.words)
            runs = words and base(words[0]) == "xargs" and not asks(("xargs", *words[1:]))
            within = inner(words) if runs else ()
            before = [one.name for one in step.commands[:index]]
            listed = bool(before) and before[0] in those("lists") and all(only_looks_at(name) for name in before)
            if within is None or (within and (interprets(base(within[0])) or runs_others(base(within[0])))):
                yield "'xargs': what it would run is not known before"
            elif within and not listed and not only_shows(within):
                yield f"'xargs': what {within[0]} is given are not names that a command before it lists"


def only_looks_at(name: str) -> bool:
    return name in PROGRAMS and (PROGRAMS[name].kind == "look" or PROGRAMS[name].lists)


def _unwrapped(words: Words) -> Words:
    """What the wrappers before it run in the end: `timeout 5 xargs …` is a matter of xargs."""
    while words and base(words[0]) != "xargs" and (runs_others(base(words[0])) or runs_in_project(words)):
        words = inner(words) or ()
    return words


_ENDLESS = frozenset({"/dev/zero", "/dev/urandom", "/dev/random", "/dev/full"})


def endless(plan: Plan) -> Iterator[str]:
    """Why a command would read without an end: what fills memory or a disk."""
    for step in steps(plan):
        for index, simple in enumerate(step.commands):
            given = [word for word in simple.words[1:] if word in _ENDLESS and not only_shows(simple.words)]
            given += [r.target for r in simple.redirects if r.operator == "<" and r.target in _ENDLESS]
            given += ["yes"] if simple.name == "yes" else []
            bounds, after = those("bounds"), step.commands[index:]
            bounded = any(base(one.name) in bounds for one in after) or "timeout" in simple.words
            if given and not bounded and simple.name not in those("names_only"):
                yield f"{given[0]} has no end: take a part of it with head -c"
