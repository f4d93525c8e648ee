"""What the compiler knows of a few commands themselves: builtins that it refuses, and outputs that it works out."""

import re
from collections.abc import Callable

from adderclaw.policy.legacy.shell.arithmetic import is_number
from adderclaw.policy.legacy.shell.plan import Live, Output, Redirect, Script, Simple, Variable
from adderclaw.policy.legacy.shell.syntax import NotAPlan


def is_plain_path(path: str) -> bool:
    return (
        bool(path)
        and not path.startswith("-")
        and not path.endswith("/")
        and "//" not in path
        and path.count("/") < 100
        and not (path.startswith("/") and path.count("/") == 1)
    )


def test_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """`[[ … ]]` as `test`: what compares numbers would evaluate them, so they have to be numbers."""
    rest = words[1:]
    if len(rest) == 3 and rest[1].startswith("-") and rest[1] not in ("-nt", "-ot", "-ef"):
        for word in (rest[0], rest[2]):
            if not (word.is_number if isinstance(word, Live) else is_number(word)):
                raise NotAPlan("[[ ]] with numbers that are not known")
    return ("test", *rest)


def is_job(word: str, jobs: frozenset[str]) -> bool:
    """Whether a word is the number of a process that the shell itself started: `$!`, or a variable that holds it."""
    only = word.pieces[0] if isinstance(word, Live) and len(word.pieces) == 1 else None
    return isinstance(only, Variable) and (only.name == "!" or only.name in jobs)


_LISTENS = r"-t|-ti|-i|-n|-P|-nP|-t?i ?(?:tcp|TCP)?:\d{1,5}|(?:tcp|TCP)?:\d{1,5}|-sTCP:LISTEN"


def is_process(word: str) -> bool:
    """Whether a word is what says which processes listen at a port, or wrote their number down."""
    only = word.pieces[0] if isinstance(word, Live) and len(word.pieces) == 1 else None
    if not isinstance(only, Output) or only.file or len(only.body.steps) != 1 or only.body.tail:
        return False
    made = only.body.steps[0].commands
    simple = made[0]
    if len(made) != 1 or not isinstance(simple, Simple) or simple.env:
        return False
    if any(isinstance(w, Live) for w in simple.words) or any(r != _QUIET for r in simple.redirects):
        return False
    match simple.words:
        case ("lsof", *rest):
            return all(re.fullmatch(_LISTENS, w) for w in rest) and any(w.startswith("-t") for w in rest)
        case ("cat", file):
            return bool(re.fullmatch(r"(?:/tmp/|\./)?[\w][\w.-]*\.pid", file))
        case _:
            return False


_QUIET = Redirect("2", ">", "/dev/null")


def _is_place(words: tuple[str, ...]) -> bool:
    return len(words) == 1 and bool(words[0]) and not words[0].startswith("-") and not isinstance(words[0], Live)


def check_builtin(
    argv: tuple[str, ...],
    jobs: frozenset[str] = frozenset(),
    *,
    can_go_back: bool = False,
    stack: bool = False,
    confined: bool = False,
) -> None:
    """Bash evaluates a subscript in a variable's name: `printf -v 'a[$(x)]'` and `test -v` run what is in it."""
    name, arguments = argv[0], argv[1:]
    if name == "printf" and arguments and arguments[0].startswith("-") and arguments[0] != "--":
        raise NotAPlan("printf with an option")
    if name in ("test", "[") and any(word in ("-v", "-R") and not isinstance(word, Live) for word in arguments):
        raise NotAPlan(f"{name} of a variable")
    back = name == "cd" and arguments == ("-",)
    if (back and not can_go_back) or (name == "cd" and not back and not _is_place(arguments)):
        raise NotAPlan("cd to a place that is not named")
    if name == "pushd" and (not _is_place(arguments) or arguments[0].startswith("+")):
        raise NotAPlan("pushd to a place that is not named")
    if name == "popd" and (arguments or not stack):
        raise NotAPlan("popd to a place that is not known")
    others = [word for word in arguments if isinstance(word, Live) and not is_job(word, jobs)]
    if name == "kill" and not all(confined and is_process(word) for word in others):
        raise NotAPlan("kill of a process that is not known to be one's own")
    if name == "command" and (len(arguments) < 2 or arguments[0] not in ("-v", "-V")):
        raise NotAPlan("shell builtin command")
    if name == "type" and any(word.startswith("-") and word not in ("-t", "-p", "-P", "-a") for word in arguments):
        raise NotAPlan("shell builtin type")


MAX_NUMBERS = 20
"""How many numbers of a sequence are worked out: of more, a loop is bash's own."""


def _sequence(words: list[str]) -> list[str]:
    """What `seq` prints; nothing where that is not certain."""
    equal = words[:1] == ["-w"]
    words = words[1:] if equal else words
    if not 1 <= len(words) <= 3 or not all(is_number(word) and len(word) < 8 for word in words):
        return []
    first = int(words[0]) if len(words) > 1 else 1
    step = int(words[1]) if len(words) == 3 else 1
    if first < 0 or step < 1:
        return []
    found = [str(number) for number in range(first, int(words[-1]) + 1, step)][: MAX_NUMBERS + 1]
    width = max(len(word) for word in (str(first), words[-1])) if equal else 0
    return [text.zfill(width) for text in found]


def printed(body: Script, here: Callable[[], str | None], top: Callable[[], str | None]) -> str | None:
    """What the commonest commands print, worked out here.

    `here` tells the working directory, and `top` where the repository begins, as far as that is certain.
    """
    step = body.steps[0]
    if len(body.steps) != 1 or len(step.commands) != 1 or step.negated or step.timed or body.tail:
        return None
    simple = step.commands[0]
    if not isinstance(simple, Simple) or simple.env or any(isinstance(word, Live) for word in simple.words):
        return None
    if simple.name == "cat" and len(simple.words) == 1 and len(simple.redirects) == 1:
        only = simple.redirects[0]
        return only.target if only.is_text and not isinstance(only.target, Live) else None
    quiet = all(redirect == Redirect("2", ">", "/dev/null") for redirect in simple.redirects)
    if simple.words == ("git", "rev-parse", "--show-toplevel") and simple.program and quiet:
        return top()
    if simple.redirects:
        return None
    match simple.words:
        case ("pwd",):
            return here()
        case ("echo", *rest) if not any(word.startswith("-") or "\\" in word for word in rest):
            return " ".join(rest)
        case ("basename", path, *suffix) if len(suffix) < 2 and is_plain_path(path):
            base = path.rsplit("/", 1)[-1]
            end = suffix[0] if suffix else ""
            return base.removesuffix(end) if end and base != end and not end.startswith("-") else base
        case ("dirname", path) if is_plain_path(path):
            return path.rsplit("/", 1)[0] if "/" in path else "."
        case ("seq", *rest) if simple.program and len(numbers := _sequence(rest)) <= MAX_NUMBERS:
            return "\n".join(numbers) or None
        case _:
            return None
