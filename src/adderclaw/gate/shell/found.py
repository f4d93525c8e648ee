"""Names that a command found, as words of those after it: `for f in $(git ls-files)`, `find … | while read -r f`.

Such a name was not judged: it may hold blanks, begin with a dash or be a link. So it is taken only where a sandbox is
around the command, only from commands that print nothing but names, and only where a program opens it as a file.
"""

import re
from collections.abc import Sequence

from adderclaw.gate.programs.allowlist import PROGRAMS, names
from adderclaw.gate.programs.handed import TAKES_PROGRAMS, not_names, selects
from adderclaw.gate.programs.knowledge import INTERPRETERS, SPECIAL, WRAPPERS
from adderclaw.gate.programs.options import parse
from adderclaw.gate.shell.plan import Command, Glob, Internal, Live, Output, Redirect, Script, Simple, Step, Variable

_LISTERS = names("find git fd fdfind ls grep egrep fgrep rg")
_TESTS = names("-e -f -d -s -r -w -x -L -h")
_CODE_FIRST = names("sed jq yq awk gawk mawk nawk")
"""Programs whose first operand is code, as that of a program that searches is a pattern."""
_GIT = names("add blame check-ignore diff log shortlog stat show cat-file rev-parse name-rev ls-tree describe")
_PROCESSES = names(
    """gofmt goimports gofumpt black ruff isort flake8 mypy pylint eslint prettier rustfmt clang-format shellcheck shfmt
    pytest autopep8 yapf pyright stylelint markdownlint yamllint codespell hadolint actionlint pyflakes pycodestyle
    vulture
    bandit tsc biome oxlint cpplint clang-tidy gcc g++ cc c++ clang clang++ javac size nm objdump luac"""
)
"""Programs that check or format the files that they are given, which are the project's."""
_OTHERS = (INTERPRETERS | WRAPPERS | TAKES_PROGRAMS | frozenset(SPECIAL)) - _CODE_FIRST
"""Programs whose words are more than files, or go elsewhere."""


def prints_names(script: Script) -> bool:
    """Whether what `$(…)` stands for are names that a command found, and nothing else."""
    step = script.steps[0]
    if len(script.steps) == 2 and _is_nothing(script.steps[1]):
        script = script._replace(steps=script.steps[:1])
    if len(script.steps) != 1 or script.tail or step.negated or step.timed:
        return False
    return finds(step.commands, step.joints)


def _is_nothing(step: Step) -> bool:
    """`|| true`"""
    only = step.commands[0]
    words = only.words if isinstance(only, Simple | Internal) and not only.redirects else ()
    return step.after == "||" and len(step.commands) == 1 and words in (("true",), (":",)) and not step.negated


def finds(commands: Sequence[Command], joints: Sequence[str] = ()) -> bool:
    """Whether a pipeline begins with a command that finds names, and goes on with such as leave some of them out."""
    if not commands or any(joint != "|" for joint in joints):
        return False
    simple = [one for one in commands if isinstance(one, Simple) and _is_plain(one)]
    if len(simple) != len(commands):
        return False
    source, *filters = simple
    if _labels(source):
        return all(map(_passes, filters))
    return source.name in _LISTERS and not not_names(source) and not selects(source) and all(map(_passes, filters))


def _labels(simple: Simple) -> bool:
    """Whether it prints commits, packages or services of the project, or its files after a mark."""
    words = simple.words[1:]
    match simple.name:
        case "git":
            hashes = words[:1] == ("log",) and any(
                re.fullmatch(r"--(?:format|pretty)=(?:format:)?%[hH]", w) for w in words
            )
            named = (
                words[:1] == ("log",) and "--name-only" in words and any(w in ("--format=", "--pretty=") for w in words)
            )
            marked = words[:1] == ("status",) and bool({"--porcelain", "-s", "--short"} & set(words))
            plain = words[:1] in (("rev-list",), ("tag",), ("describe",), ("rev-parse",), ("merge-base",)) and not any(
                w.startswith("--format") for w in words
            )
            return hashes or named or marked or plain
        case "go":
            return words[:1] == ("list",) and not any(word.startswith("-") for word in words)
        case "docker":
            return words[:2] == ("compose", "ps") and "--services" in words
        case _:
            return False


def _passes(simple: Simple) -> bool:
    """Whether a filter leaves lines out, or a part of each line: it puts nothing in."""
    if selects(simple):
        return True
    words = simple.words
    match simple.name:
        case "awk" | "gawk" | "mawk":
            return len(words) == 2 and bool(re.fullmatch(_PRINTS, words[1]))
        case "cut":
            return all(re.fullmatch(r"-[df].*|[\d,-]+|.", word) for word in words[1:])
        case "uniq":
            return words[1:] in (("-c",), ("-d",), ("-u",))
        case "sed":
            return len(words) == 2 and bool(re.fullmatch(r"s([/|#,])[^/|#,&\\]*(?:\\[./][^/|#,&\\]*)*\1\1g?", words[1]))
        case _:
            return False


_PRINTS = r"(?:\$\d+ ?[=!]= ?\"[^\"\\]*\" ?|/[\w^$. -]+/ ?)?\{ ?print \$(?:\d+|NF);? ?\}"


def _is_plain(simple: Simple) -> bool:
    """Whether all of its words are known, and nothing but what goes wrong is sent elsewhere."""
    quiet = all(redirect == Redirect("2", ">", "/dev/null") for redirect in simple.redirects)
    return quiet and not simple.env and not any(isinstance(word, Live) for word in simple.words)


def is_found(word: str, variables: frozenset[str]) -> bool:
    """Whether a word is nothing but names that were found; `variables` hold such."""
    if not isinstance(word, Live):
        return False
    only, *rest = word.pieces
    if isinstance(only, Variable) and len(rest) == 1 and isinstance(rest[0], str):
        # `"$commit:src/x"`: a file as it was.
        plain = re.fullmatch(r"[:^~][\w:^~./@{}-]*|\.\.\.?(?:HEAD|main|master|origin/\w+)", rest[0])
        return only.name in variables and plain is not None and ".." not in rest[0].split("/")
    if rest:
        return False
    if isinstance(only, Glob):
        return True
    if isinstance(only, Variable):
        # An element of an array, or some of them, are found if all of them are.
        return re.sub(r"\[(?:-?\w+|\*)\]$|\[@\]:[ :\d-]+$", "[@]", only.name) in variables
    return isinstance(only, Output) and not only.file and prints_names(only.body)


def is_listed(word: str) -> bool:
    """Whether a word is `<(…)` with names in it that a command finds."""
    only = word.pieces[0] if isinstance(word, Live) else None
    return isinstance(only, Output) and only.file and prints_names(only.body)


_NOTHING_ELSE = Redirect("2", ">", "/dev/null")


def counts(word: str) -> bool:
    """Whether a word is what a program prints that is meant to print a number.

    Nothing rests on that it does: where such a variable is counted with, bash gets its digits or an error.
    """
    only = word.pieces[0] if isinstance(word, Live) and len(word.pieces) == 1 else None
    return isinstance(only, Output) and only.number and not only.file


def prints_numbers(word: str) -> bool:
    """Whether a word is what `seq` prints, between numbers that stand there."""
    only = word.pieces[0] if isinstance(word, Live) and len(word.pieces) == 1 else None
    if not isinstance(only, Output) or only.file or len(only.body.steps) != 1 or only.body.tail:
        return False
    made = only.body.steps[0].commands
    if len(made) != 1 or not isinstance(made[0], Simple) or made[0].redirects or made[0].env:
        return False
    words = made[0].words
    return words[0] == "seq" and bool(made[0].program) and all(re.fullmatch(r"-?\d{1,9}", word) for word in words[1:])


def prints_count(body: Script) -> bool:
    if len(body.steps) != 1 or body.tail:
        return False
    step = body.steps[0]
    commands = [one for one in step.commands if isinstance(one, Simple)]
    if len(commands) != len(step.commands) or step.timed or any(joint != "|" for joint in step.joints):
        return False
    last = commands[-1]
    if any(r != _NOTHING_ELSE and not r.operator.startswith("<") for r in last.redirects):
        return False
    return _counts(last) or _numbers_lines(commands)


def _counts(simple: Simple) -> bool:
    given = tuple(word for word in simple.words[1:] if word.startswith("-") and not isinstance(word, Live))
    only = simple.words[1] if len(simple.words) == 2 and not isinstance(simple.words[1], Live) else ""
    match simple.name:
        case "wc":
            return only in ("-l", "-c", "-w", "-m")
        case "nproc":
            return len(simple.words) == 1
        case "date":
            return only in ("+%s", "+%s%N", "+%Y")
        case "grep" | "egrep" | "fgrep":
            plain = all(re.fullmatch(r"-[cEFPivwx]+", word) for word in given)
            return plain and "c" in "".join(given) and len(simple.words) - 1 - len(given) in (1, 2)
        case "git":
            plain = all(re.fullmatch(r"--(?:count|all|(?:no-)?merges|first-parent)", word) for word in given)
            return plain and simple.words[1:2] == ("rev-list",) and "--count" in given
        case _:
            return False


def _numbers_lines(commands: Sequence[Simple]) -> bool:
    """`grep -n x file | head -1 | cut -d: -f1`: the numbers of lines."""
    if len(commands) < 2:
        return False
    first, *between, last = commands
    given = [word for word in first.words[1:] if word.startswith("-") and not isinstance(word, Live)]
    numbered = first.name in ("grep", "egrep", "fgrep") and "n" in "".join(given)
    numbered = numbered and all(re.fullmatch(r"-[nEFPiwx]+(?:m\d+)?", word) for word in given)
    cut = last.name == "cut" and last.words[1:] in (("-d:", "-f1"), ("-d", ":", "-f1"), ("-d", ":", "-f", "1"))
    return numbered and len(first.words) - 1 - len(given) == 2 and cut and all(map(_takes_lines, between))


def _takes_lines(simple: Simple) -> bool:
    """`head -1`, `tail -n 1`: it names no file of its own."""
    match simple.words:
        case ("head" | "tail", how):
            return bool(re.fullmatch(r"-n?\d+", how)) and not isinstance(how, Live)
        case ("head" | "tail", "-n", how):
            return how.isdecimal() and not isinstance(how, Live)
        case _:
            return False


def is_temporary(word: str) -> bool:
    """Whether a word is the name of a new file or folder that mktemp makes where temporary files are."""
    only = word.pieces[0] if isinstance(word, Live) and len(word.pieces) == 1 else None
    if not isinstance(only, Output) or only.file or len(only.body.steps) != 1 or only.body.tail:
        return False
    step = only.body.steps[0]
    made = step.commands[0]
    if len(step.commands) != 1 or not isinstance(made, Simple) or made.name != "mktemp" or made.redirects or made.env:
        return False
    given = [word for word in made.words[1:] if word.startswith("-")]
    named = [word for word in made.words[1:] if not word.startswith("-")]
    if any(isinstance(word, Live) for word in made.words):
        return False
    plain = all(re.fullmatch(r"-d|-t|-dt|--directory|--suffix=[\w.-]+", word) for word in given)
    place = "" if {"-t", "-dt"} & set(given) else "/tmp/"
    return plain and (not named or (len(named) == 1 and bool(re.fullmatch(rf"{place}[\w.-]*X{{3,}}[\w.-]*", named[0]))))


def in_temporary(word: str, variables: frozenset[str]) -> bool:
    """Whether a word names a place in what mktemp made: `"$tmp/x"`."""
    if not isinstance(word, Live):
        return False
    first, *rest = word.pieces
    text = "".join(piece for piece in rest if isinstance(piece, str))
    holds = (
        isinstance(first, Variable)
        and first.needed
        and first.name in variables
        and all(isinstance(p, str) for p in rest)
    )
    return holds and ".." not in text.split("/") and (not text or text[0] in "/._-")


_MAKES = names("mkdir touch cp mv tee rmdir")


def places(simple: Simple, index: int) -> bool:
    """Whether a program that makes files takes the word for one of their names."""
    options = PROGRAMS.get(simple.name)
    if options is None or simple.name not in _MAKES:
        return False
    probe = "/name"
    words = tuple(probe if n == index else str(word) for n, word in enumerate(simple.words))
    seen = parse(words[1:], options.options)
    return probe in (*seen.operands, *seen.values) and not seen.strange


def opens(simple: Simple, index: int) -> bool:
    """Whether a program opens the word at this place as a file, whatever name it is: no code, no option's value."""
    name, words = simple.name, simple.words
    if name in ("test", "["):
        inside = words[1:-1] if name == "[" else words[1:]
        negated = inside[:1] == ("!",)
        return len(inside) == 2 + negated and inside[-2] in _TESTS and index == 2 + negated
    options = PROGRAMS.get(name)
    word = words[index]
    if name in ("tar", "unzip", "pip", "pip3", "twine") and isinstance(word, Live):
        return word.is_glob and _peeks(words, index)
    if name in _PROCESSES and options is not None:
        return _processes(simple, index)
    if name == "go" or words[:2] == ("docker", "compose"):
        asks = (
            words[1] in ("test", "vet", "build", "list")
            if name == "go"
            else words[2:3] in (("ps",), ("logs",), ("top",))
        )
        return asks and index > 1 and _are_names(words, index)
    if options is None or name in _OTHERS:
        return name == "git" and len(words) > 2 and words[1] in _GIT and _are_names(words[2:], index - 2)
    if options.commands is not None or options.never or options.shell or options.single_dash or options.script:
        return False
    if options.operands == "none":
        return options.kind == "look"
    known = parse(words[1:index], options.options)
    first = options.operands == "pattern" or name in _CODE_FIRST
    asked = known.given & {"-e", "--regexp", "--expression", "-f", "--file"}
    if first and not known.operands and not asked:
        return False
    probe = "\x03name"
    seen = parse((*words[1:index], probe, *words[index + 1 :]), options.options)
    looks = options.kind == "look" or name == "sed" or (name == "yq" and not {"-i", "--inplace"} & set(words))
    lists = simple.name in ("grep", "egrep", "fgrep") and probe in seen.values
    return looks and (probe in seen.operands or lists) and not seen.strange and _are_names(words, index)


def _peeks(words: Sequence[str], index: int) -> bool:
    """Whether an archive is only looked into, or is one of the project's own packages."""
    plain = tuple(str(word) for word in words)
    match plain:
        case ("tar", how, *rest):
            lists = bool(re.fullmatch(r"-?[vzjJ]*t[vzjJ]*f", how))
            return lists and index == 2 and not any(word.startswith("-") for word in rest)
        case ("unzip", "-l" | "-t" | "-Z" | "-Z1" | "-v" | "-p", *rest):
            return index == 2 and not any(word.startswith("-") for word in rest)
        case ("twine", "check", *rest) | ("pip" | "pip3", "install", *rest):
            known = all(
                re.fullmatch(r"--(?:force-reinstall|no-deps|upgrade|quiet|strict)|-[qU]|[\w./*-]+", w) for w in rest
            )
            return known and bool(re.match(r"(?:\./)?(?:dist|build|wheelhouse|/tmp/[\w.-]+)/", plain[index]))
        case _:
            return False


def _processes(simple: Simple, index: int) -> bool:
    options, words = PROGRAMS[simple.name], simple.words
    table, rest = options.options, words[1:]
    if options.commands is not None:
        table, rest = options.commands.get(words[1] if len(words) > 1 else "", ""), words[2:]
    probe = "\x03name"
    at = index - (len(words) - len(rest))
    seen = parse((*rest[:at], probe, *rest[at + 1 :]) if at >= 0 else (), table, single_dash=options.single_dash)
    return probe in seen.operands and not seen.strange and _are_names(words, index)


def _are_names(words: Sequence[str], index: int) -> bool:
    """Whether no option follows the word: all that do are words like it."""
    return not any(word.startswith("-") and not isinstance(word, Live) for word in words[index + 1 :])
