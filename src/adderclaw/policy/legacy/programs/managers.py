"""Package managers and builders: what they fetch comes from the registry, and no word of theirs names other code."""

import re
from collections.abc import Callable
from itertools import pairwise

from adderclaw.policy.legacy.programs import packages
from adderclaw.policy.legacy.programs.allowlist import PROGRAMS, names, those
from adderclaw.policy.legacy.programs.objections import Ask, Objection, Words, harmful, unknown, unlisted
from adderclaw.policy.legacy.programs.options import parse, without_pairs
from adderclaw.policy.legacy.programs.tabled import by_command, by_table, foreign
from adderclaw.policy.legacy.programs.wrappers import FOLDER, wrapped
from adderclaw.policy.legacy.shell.environment import SERVED, is_pythons_own


def table(name: str, words: Words) -> Objection | None:
    options = PROGRAMS[name]
    return by_command(name, words, options) if options.commands is not None else by_table(name, words, options)


# ------------------------------------------------------------------ node


_RUNS_SCRIPTS = names("run run-script test t tst start stop restart build lint dev typecheck format check")


_PLAIN_FIELD = (
    r"(?:name|version|description|license|type|main|module|types|private|author|homepage|keywords|sideEffects)="
    r"[\w .,@<>:/+-]*"
    r"|engines\.[\w-]+=[\w .<>=^~|*-]+"
)


def _npm_set(fields: Words, ask: Ask) -> Objection | None:
    """What is told of a package; a script only where it could be run as it stands, and not by npm's own accord."""
    for field in fields:
        script = re.fullmatch(r"scripts\.(?!pre|post|prepare$|install$|dependencies$)([\w:-]+)=([\w./ =:@,-]+)", field)
        if script is None and not re.fullmatch(_PLAIN_FIELD, field):
            return Objection(f"{field} may change what npm runs", "npm pkg set")
        runs = tuple(script[2].split()) if script else ()
        if runs and runs[0] not in those("npx") | {"node"}:
            return Objection(f"{runs[0]} is not a program that projects install", "npm pkg set")
        refused = ask.inner(runs) if runs else None
        if refused is not None:
            return refused
    return None if fields else Objection("npm pkg set without a field")


def _npm(words: Words, ask: Ask) -> Objection | None:
    first = words[1] if len(words) > 1 else ""
    if words[1:3] == ("pkg", "set"):
        return _npm_set(words[3:], ask)
    if first in ("init", "create"):
        ends = words.index("--") if "--" in words else len(words)
        found = parse(words[2:ends], "-y --yes --template~")
        if found.strange or not found.operands:
            return unknown(found.strange[0]) if found.strange else None
        return packages.initializer((*found.operands, *words[ends:]))
    words = _from_folder(words)
    first = words[1] if len(words) > 1 else ""
    rest = words[2:]
    if first in _RUNS_SCRIPTS and "--" in rest:
        words = words[: words.index("--")]
    return table("npm", words) or (None if first in _RUNS_SCRIPTS else foreign(rest, shorthand=True))


def _from_folder(words: Words) -> Words:
    """`npm --prefix web run build`: without the folder of the workspace in which npm would work."""
    match words:
        case (npm, "--prefix" | "-C", folder, *rest) if re.fullmatch(_FOLDER, folder):
            return (npm, *rest)
        case (npm, command, *rest) if command in _RUNS_SCRIPTS | {"install", "i", "ci"} and "--prefix" in rest:
            ends = rest.index("--") if "--" in rest else len(rest)
            return (npm, command, *without_pairs(tuple(rest[:ends]), "--prefix", _FOLDER), *rest[ends:])
        case (npm, joined, *rest) if re.fullmatch(rf"--prefix={_FOLDER}", joined):
            return (npm, *rest)
        case _:
            return words


_FOLDER = r"(?!/|~|-|.*\.\.)[\w./@-]+"
_NODE_NEVER = names(
    """dlx exec x publish create config set global link unlink login logout plugin node npm env patch patch-commit
    deploy unpublish init self-update setup server tag team owner access token rebuild import fetch store"""
)


_MEMBER = r"(?!.*\.\.(?:/|$)(?<!\.\.\.))(?:\.\.\.)?(?:\./|@[\w-]+/)?[\w@*.-]+(?:/[\w*.-]+)*(?:\.\.\.)?"


def _members(name: str, rest: Words) -> Words:
    """Without what says for which members of the workspace a command is."""
    while len(rest) > 1 and rest[0] in _EVERYWHERE:
        rest = rest[1:]
    pairs = enumerate(zip(("", *rest), rest, strict=False))
    first = next((n for n, (before, word) in pairs if word[:1] != "-" and before not in _FILTERS), 0)
    if name != "pnpm" or not first:
        return rest
    before = without_pairs(rest[:first], r"--filter|-F", _MEMBER)
    return (*(word for word in before if word not in _EVERYWHERE), *rest[first:])


_FILTERS = ("--filter", "-F")
_EVERYWHERE = ("-r", "--recursive", "-w", "--workspace-root", "--silent", "-s", "--parallel", "--stream")


def _elsewhere(rest: Words) -> Words:
    """Without the folder of the workspace in which bun would work."""
    match rest:
        case ("--cwd", folder, *others) if re.fullmatch(FOLDER, folder, re.ASCII):
            return tuple(others)
        case (joined, *others) if re.fullmatch(f"--cwd={FOLDER}", joined, re.ASCII):
            return tuple(others)
        case _:
            return rest


def _yarn(words: Words, ask: Ask) -> Objection | None:
    """Yarn, pnpm and bun take the name of a script of package.json in the place of a command."""
    name = words[0].rsplit("/", 1)[-1]
    words = (words[0], *_members(name, _elsewhere(words[1:]) if name == "bun" else words[1:]))
    first = words[1] if len(words) > 1 else ""
    if first == "dlx" or (name, first) == ("bun", "x"):
        return packages.node(words[2:], ask, fetched=True, how=f"{name} {first}")
    if first == "create" and len(words) > 2:
        return packages.initializer(words[2:])
    if name == "pnpm" and first == "exec":
        return _exec(words, ask)
    if name == "yarn" and words[1:3] == ("workspaces", "foreach"):
        rest = words[3 + len(words[3:]) - len(parse(words[3:], _FOREACH, until_operand=True).operands) :]
        strange = parse(words[3:], _FOREACH, until_operand=True).strange
        return (
            unknown(strange[0])
            if strange
            else _yarn((words[0], *rest), ask)
            if rest
            else unlisted("yarn workspaces foreach")
        )
    if name == "yarn" and first == "workspace" and len(words) > 3:
        return _yarn((words[0], *words[3:]), ask) if re.fullmatch(_MEMBER, words[2]) else unknown(words[2])
    commands = PROGRAMS[name].commands or {}
    if first and first not in commands and first not in _NODE_NEVER and re.fullmatch(r"[a-z][\w:.-]*", first):
        return _script_words(words[2:])
    if first in _RUNS_SCRIPTS - {"run", "run-script"}:
        return _script_words(words[2:])
    if first in _RUNS_SCRIPTS and first in commands:
        before = len(words) - len(parse(words[2:], commands[first], until_operand=True).operands)
        return table(name, words[:before]) or _refused_script(words[before:]) or _script_words(words[2:])
    return table(name, words) or foreign(words[2:], shorthand=True)


_FOREACH = (
    "-A --all -p --parallel -t --topological -v --verbose -i --interlaced -W --worktree -R --recursive --no-private"
)


def _exec(words: Words, ask: Ask) -> Objection | None:
    """A program that the project installed, of those that npx may run."""
    found = wrapped(words)
    if found.strange or not found.words or found.words[0] not in those("npx"):
        return Objection("pnpm exec runs any program", "pnpm exec")
    return ask.inner(found.words)


def _refused_script(words: Words) -> Objection | None:
    return Objection(f"{words[0]} is not the name of a script") if words and words[0] == "-" else None


def _script_words(words: Words) -> Objection | None:
    """What follows the name of a script is for the script."""
    bad = next((word for word in words if re.match(r"--?(script-shell|cwd|dir|prefix|C)\b", word)), None)
    return harmful(bad) if bad else None


# ------------------------------------------------------------------ python


def _runs(words: Words, ask: Ask) -> Objection | None:
    """A program that is run where the project's own are found is judged as if it stood alone."""
    name = words[0].rsplit("/", 1)[-1]
    if words[1:2] != (PROGRAMS[name].runs,):
        return table(name, words)
    found = wrapped(words)
    if name == "bundle" and found.words and found.words[0] not in PROGRAMS["bundle"].second["exec"]:
        return Objection("bundle exec runs any program", f"bundle exec {found.words[0]}")
    return ask.inner(found.words) if found.words else Objection(found.strange or f"{name} without a command")


_HATCH_SCRIPTS = r"(?:[\w-]+:)?(?:test|tests|lint|all|check|fmt|format|types|typing|style|cov|build|docs|serve)"


def _hatch(words: Words, ask: Ask) -> Objection | None:
    """Hatch runs a script of pyproject.toml, or else any program."""
    if words[1:2] != ("run",) or len(words) < 3:
        return table("hatch", words)
    env, _, first = words[2].rpartition(":")
    if re.fullmatch(_HATCH_SCRIPTS, words[2]) and len(words) == 3:
        return None
    if first not in those("module") | {"python"} or not re.fullmatch(r"[\w-]*", env):
        return unlisted(f"hatch run {words[2]}")
    return ask.inner((first, *words[3:]))


_APP = rf"(?!\.)(?:[A-Za-z_][\w.]*)(?::{SERVED})?(?<!\.)"


def _serves(words: Words, _ask: Ask) -> Objection | None:
    """What a server is given is called: an application of the project's, by its usual names."""
    name = words[0].rsplit("/", 1)[-1]
    for word in parse(words[1:], PROGRAMS[name].options).operands:
        if is_pythons_own(word) or not re.fullmatch(rf"[A-Za-z_][\w.]*(?::{SERVED})?", word, re.ASCII):
            return Objection(f"{word} is not the name of an application of the project")
    return table(name, words)


def _app(words: Words, _ask: Ask) -> Objection | None:
    """Which module of the project the application is may stand before the command."""
    name = words[0].rsplit("/", 1)[-1]
    first = next((n for n, word in enumerate(words[1:], 1) if word in (PROGRAMS[name].commands or {})), len(words))
    if any(is_pythons_own(re.sub(r"^(?:-A|--app)=?", "", word)) for word in words[1:first]):
        return Objection(f"{name} of a module of Python itself")
    before = without_pairs(words[1:first], r"-A|--app", _APP)
    plain = () if name == "flask" and before == ("--debug",) else before
    return table(name, (words[0], *plain, *words[first:]))


_DENO_MODULE = r"(?!-)(?!.*(?:://|^(?:npm|jsr|data|node):)).+\.[cm]?[jt]sx?"


def _deno(words: Words, _ask: Ask) -> Objection | None:
    """Without permissions a script reaches nothing; with the network alone it has nothing to tell."""
    if words[1:2] != ("run",):
        return table("deno", words)
    found = parse(words[2:], PROGRAMS["deno run"].options, until_operand=True)
    if found.strange:
        return harmful(found.strange[0].split("=", 1)[0])._replace(inline="stdin" if "-" in words else "")
    if found.operands[:1] == ("-",):
        return Objection("deno run of standard input", inline="stdin")
    if not found.operands or not re.fullmatch(_DENO_MODULE, found.operands[0]):
        return Objection("deno run takes a script of the project", "deno run")
    return None


def _uv(words: Words, ask: Ask) -> Objection | None:
    rest = words[1:]
    if rest[:1] == ("pip",):
        return table("pip", rest)
    if rest[:1] == ("run",):
        found = wrapped(words)
        why = found.strange or "uv run without a command"
        return ask.inner(found.words) if found.words else Objection(why, inline="stdin" if "-" in rest else "")
    return table("uv", ("uv", *rest))


def _tox(words: Words, _ask: Ask) -> Objection | None:
    options = PROGRAMS["tox"]
    found = parse(words[1:], options.options, until_operand=True)
    if found.strange:
        return unknown(found.strange[0])
    after = words.index("--") if "--" in words else len(words)
    operand = next(iter(parse(words[1:after], options.options).operands), "run")
    if operand not in ("run", "r", "run-parallel", "p", "list", "l"):
        return Objection(f"tox {operand} can run any program", f"tox {operand}")
    return table("tox", words[:after])


# ------------------------------------------------------------------ go, rust, make and the rest


_PLAIN_LDFLAGS = r"(?:\s*(?:-[sw]|-X[= ][\w./-]+=[\w.+:/-]*))*\s*"


_GO_HOSTS = (
    r"(?:github\.com|gitlab\.com|bitbucket\.org|(?:\w+\.)?golang\.org|gopkg\.in|go\.uber\.org|k8s\.io)/"
    r"|\.|all$|toolchain"
)


def _go(words: Words, _ask: Ask) -> Objection | None:
    first = words[1] if len(words) > 1 else ""
    if first == "run" and any("@" in word or "://" in word for word in words[2:]):
        return Objection("go run of a package from the network")
    if first == "get" and not all(re.match(_GO_HOSTS, word) for word in parse(words[2:], "-t -u? -v -x").operands):
        return Objection("go get of a package from a host that is not one of the usual ones", "go get")
    if words[1:3] == ("tool", "pprof"):
        prints = {"-top", "-text", "--top", "--text"} & set(words)
        plain = prints and all(re.fullmatch(r"-[a-z=\d-]+|[\w./-]+", word, re.ASCII) for word in words[3:])
        return table("go", words) if plain else Objection("go tool pprof prints a profile that is a file with -top")
    if first == "env" and any("=" in word for word in words[2:]):
        return Objection("go env with a value changes the build")
    words = without_pairs(words, "--?gcflags", r"(?:all=)?-(?:[mNlSL]|m=\d)(?: -(?:[mNlSL]|m=\d))*")
    kept: list[str] = []
    for before, word in zip(("", *words), words, strict=False):
        flags = word if before in ("-ldflags", "--ldflags") else re.sub(r"^--?ldflags=", "", word)
        is_flags = before in ("-ldflags", "--ldflags") or flags != word
        if (is_flags and re.fullmatch(_PLAIN_LDFLAGS, flags)) or word in ("-ldflags", "--ldflags"):
            continue
        if is_flags:
            return harmful("-ldflags")
        kept.append(word)
    return table("go", _up_to_operands(tuple(kept)))


def _up_to_operands(words: Words) -> Words:
    """What follows `go run`'s package, or -args, is for the project's own program."""
    if words[1:2] == ("run",):
        found = parse(words[2:], (PROGRAMS["go"].commands or {})["run"], single_dash=True, until_operand=True)
        return words[: len(words) - len(found.operands) + 1] if found.operands else words
    ends = next((index for index, word in enumerate(words) if word in ("-args", "--args")), len(words))
    return words[:ends]


_PLAIN_VARIABLE = (
    r"(?!(?:SHELL|CC|CXX|CPP|LD|AR|AS|RM|MAKE|MAKEFLAGS|MAKEFILES|\w*FLAGS|\w*CMD|\w*COMMAND|PYTHON\w*|\w*PATH)=)"
    r"[A-Z][A-Z0-9_]*=[\w.:,@/-]*"
)


def _make(words: Words, _ask: Ask) -> Objection | None:
    if any(word == "-" or re.search(r"^-\w*f-|=-$|/dev/|/proc/", word) for word in words[1:]):
        return Objection("a makefile from standard input", inline="stdin")
    rules = next((word for word in words[1:] if re.match(r"--ev|-[A-Za-z]*E", word)), "")
    if rules:
        return harmful(rules.split("=", 1)[0])._replace(inline="words")
    kept = [word for word in words if "=" not in word or word.startswith("-")]
    values = [word for word in words if word not in kept]
    for word in values:
        if not re.fullmatch(_PLAIN_VARIABLE, word) or word.split("=", 1)[1].startswith(("/", "~", "..")):
            code = any(re.search(r"[\s$`;|&<>]|:=|!=", value) for value in values)
            return Objection(f"{word} sets a variable that make may run", inline="words" if code else "")
    return table("make", tuple(kept))


_CMAKE_RUNS = (
    r"(?i)-?D?[^=]*(?:COMPILER|LAUNCHER|LINKER|TOOLCHAIN|PROGRAM|COMMAND|_RULE|INCLUDE|MODULE_PATH|_FLAGS|EXECUTABLE"
    r"|PREFIX_PATH|FETCHCONTENT|WRAPPER|CLANG_TIDY|CPPCHECK|EMULATOR)[^=]*="
)


_CMAKE_PLAIN = (
    r"\w+(?::BOOL)?=(?i:on|off|true|false|yes|no|0|1)"
    r"|CMAKE_(?:C|CXX)_COMPILER=(?:gcc|g\+\+|clang|clang\+\+|cc|c\+\+)(?:-\d+)?"
    r"|CMAKE_(?:C|CXX|CUDA)_COMPILER_LAUNCHER=s?ccache"
    r"|CMAKE_(?:C|CXX|EXE_LINKER)_FLAGS=(?:-O[0-3sg]|-g\d?|-W[\w=-]+|-fsanitize=[\w,]+|--coverage|-std=[\w+]+| )*"
)
"""Settings that name nothing, or a program of the system that every build may take."""


def _cmake(words: Words, _ask: Ask) -> Objection | None:
    rest = without_pairs(words[1:], "-D", _CMAKE_PLAIN)
    bad = next((word for word in rest if re.match(_CMAKE_RUNS, word)), None)
    if bad is not None:
        return Objection(f"{bad} can name a program that cmake runs")
    return table("cmake", words[: words.index("--")] if "--" in words else words)


_TAKES_IN = r"#\s*(?:include|embed)\w*\s*[\"<]\s*(?:/|~|[^\">]*\.\.)|\.incbin"


def _gcc(words: Words, ask: Ask) -> Objection | None:
    name = words[0].rsplit("/", 1)[-1]
    given = any(after == "-" and word != "-o" for word, after in pairwise(words)) and "-dM" not in words
    if given and (ask.stdin is None or re.search(_TAKES_IN, ask.stdin)):
        return Objection("code on standard input that may take in any file")
    for word in words[1:]:
        bad = next((bad for bad in PROGRAMS[name].harmful if len(bad) > 2 and word.startswith(bad)), None)
        if bad or re.match(r"-B|-T", word):
            return harmful(bad or word)
    return table(name, words)


def _just(words: Words, _ask: Ask) -> Objection | None:
    bad = next((word for word in words[1:] if re.match(r"[A-Za-z_]\w*=", word)), None)
    return unlisted(f"just {bad}") if bad else table("just", words)


SPECIAL: dict[str, Callable[[Words, Ask], Objection | None]] = {
    "npm": _npm,
    "yarn": _yarn,
    "pnpm": _yarn,
    "bun": _yarn,
    "uv": _uv,
    "poetry": _runs,
    "pdm": _runs,
    "pipenv": _runs,
    "bundle": _runs,
    "hatch": _hatch,
    "uvicorn": _serves,
    "gunicorn": _serves,
    "hypercorn": _serves,
    "flask": _app,
    "celery": _app,
    "deno": _deno,
    "tox": _tox,
    "go": _go,
    "make": _make,
    "cmake": _cmake,
    "gcc": _gcc,
    "just": _just,
}
