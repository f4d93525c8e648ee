"""Plans that only look: what each of their programs is, by its table, and that nothing is written.

The sandbox has a room for them in which nothing can be written; here it is only chosen.
"""

from typing import Literal

from adderclaw.core.types import Touch
from adderclaw.policy.case import Case
from adderclaw.policy.legacy.commands import base, reachable, unnamed
from adderclaw.policy.legacy.programs.allowlist import PROGRAMS, Options, those
from adderclaw.policy.legacy.programs.knowledge import objection, shell_code
from adderclaw.policy.legacy.programs.languages import sed_parts
from adderclaw.policy.legacy.programs.objections import Ask, Objection
from adderclaw.policy.legacy.programs.options import parse
from adderclaw.policy.legacy.programs.wrappers import find_parts, inner
from adderclaw.policy.legacy.shell.plan import Live, Plan, Simple, redirects, simples, whole

type Words = tuple[str, ...]
type Reach = Literal["nothing", "named", "anything"]


def reach(touch: Touch) -> Reach:
    """How far a call may write: nowhere, only where it says, or anywhere in the workspace.

    Whether a command only looks was decided when it was prepared, once for the room that it gets, its risk, what is
    kept of files before it, and what may run beside it. In doubt it may write anything.
    """
    if touch.looks:
        return "nothing"
    if touch.opaque or touch.command is not None:
        return "anything"
    return "named" if touch.writes else "nothing"


def has_look_room(case: Case) -> bool:
    """Whether a command has a room to look in: nothing can be written there, and what may not be read is masked."""
    return case.touch.looks and case.policy.bubblewrap and not case.unmasked


def is_harmless(command: object) -> bool:
    """Whether a readonly session may run it whatever the sandbox: it writes nowhere, and opens no file."""
    if not isinstance(command, Plan) or command.inside:
        return False
    if any(redirect.writes and redirect.target != "/dev/null" for redirect in redirects(command)):
        return False
    return all(simple.name in those("harmless") and not simple.handed for simple in simples(command))


def named_harmless() -> list[str]:
    return sorted(name for name in those("harmless") if name.isalpha())


def only_looks(plan: Plan) -> bool:
    """Whether every program of a plan, in whatever shell or wrapper, writes nothing."""
    return all(_looks(one) and not any(unnamed(one)) for one in whole(plan))


def _looks(plan: Plan) -> bool:
    if any(redirect.writes and redirect.target != "/dev/null" for redirect in redirects(plan)):
        return False
    return not _not_looking(plan)


def _not_looking(plan: Plan) -> list[Simple]:
    texts = frozenset(one.text for one in plan.inside)
    return [simple for simple in simples(plan) if simple.env or simple.handed or not _is_known(simple, texts)]


def named_not_looking(command: object) -> list[str]:
    """The programs of a command that are not known to only look, as they stand in it, for a message."""
    names: list[str] = []
    for one in whole(command) if isinstance(command, Plan) else ():
        names += [simple.name for simple in _not_looking(one) if simple.name]
        names += ["xargs"] if any(unnamed(one)) else []
    return list(dict.fromkeys(names))


def _is_known(simple: Simple, texts: frozenset[str]) -> bool:
    if not simple.program or "/" in simple.name or simple.name not in PROGRAMS:
        return False
    live = [word for word in simple.words if isinstance(word, Live)]
    # What is only known when it runs is printed or compared, and no name of a file.
    plain = not live or (PROGRAMS[simple.name].harmless and not any(word.is_glob for word in live))
    return plain and looks(simple.opened.words, texts)


def prints_kept(plan: Plan) -> bool:
    """Whether a program prints what it keeps of files itself (`git log -p`): what is masked can be seen there."""
    for words in reachable(plan):
        table = PROGRAMS.get(base(words[0]))
        if table is not None and table.prints and _subcommand(words[1:], table)[0] in table.prints:
            return True
    return False


MAX_WRAPPERS = 8


def looks(words: Words, texts: frozenset[str] = frozenset()) -> bool:
    """Whether a command only looks: by the table of its program and of the one that it runs, and nothing is objected.

    A program that looks may write, or run another, by an option or by code that it is given. `texts` are those for
    shells that are plans of their own.
    """

    def inner_objection(words: Words) -> Objection | None:
        return objection(words[0], words, ask)

    def of_text(text: str) -> Objection | None:
        return None if text in texts else Objection("what the shell is given is not looked through")

    ask = Ask(inner_objection, code=of_text)
    return _by_table(words, texts) and objection(words[0], words, ask) is None


def _by_table(words: Words, texts: frozenset[str], depth: int = 0) -> bool:
    name = words[0]
    table = PROGRAMS.get(name)
    if table is None:
        return False
    if table.shell:
        place = shell_code(words)
        return bool(place) and words[place] in texts
    if table.wraps:
        within = inner(words)
        return bool(within) and depth < MAX_WRAPPERS and "/" not in within[0] and _by_table(within, texts, depth + 1)
    if table.commands is not None:
        return _command(words, table)
    if not table.looks:
        return False
    if name == "find":
        parts = find_parts(words)
        return not parts.commands and not parts.strange
    if name == "sed":
        return not sed_parts(words).in_place
    return not table.writes & parse(words[1:], table.options, single_dash=table.single_dash).given


def _command(words: Words, table: Options) -> bool:
    """Whether a command of a program only looks: always, or with these options and first operands alone."""
    command, rest = _subcommand(words[1:], table)
    if command in table.looking:
        return True
    if command not in table.listing:
        return False
    read = parse(rest, (table.commands or {}).get(command, ""))
    named = table.listing[command]
    # A dash in the table: the command may also stand without an operand.
    return read.given <= named and (read.operands[0] if read.operands else "-") in named


def _subcommand(given: Words, table: Options) -> tuple[str, Words]:
    if table.before:
        given = parse(given, table.before, until_operand=True).operands
    return (given[0], given[1:]) if given else ("", ())
