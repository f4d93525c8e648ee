"""Plans that are git and nothing else: they alone may change what other programs run later (CI, hook managers)."""

from adderclaw.core.record import NamedTuple
from adderclaw.policy.legacy.looking import looks
from adderclaw.policy.legacy.programs.allowlist import PROGRAMS, names, those
from adderclaw.policy.legacy.programs.git import command_of
from adderclaw.policy.legacy.programs.knowledge import objection
from adderclaw.policy.legacy.programs.objections import Words
from adderclaw.policy.legacy.programs.options import parse
from adderclaw.policy.legacy.programs.wrappers import bisects
from adderclaw.policy.legacy.shell.plan import (
    Assign,
    Count,
    Internal,
    Live,
    Plan,
    Script,
    Simple,
    Step,
    Variable,
    commands,
    live_words,
    redirects,
    simples,
)
from adderclaw.policy.legacy.shell.plan import steps as pipelines

LOOKING = names(
    """blame cat-file check-ignore describe diff for-each-ref grep log ls-files ls-tree merge-base name-rev
    reflog rev-list rev-parse shortlog show show-ref status var whatchanged"""
)
"""Commands of git's that change no file of a project."""


def is_alone(plan: Plan) -> bool:
    """Whether a plan is git and nothing else, none of it runs another program, and something of it may change files."""
    if plan.inside or any(redirect.writes and redirect.target != "/dev/null" for redirect in redirects(plan)):
        return False
    changes = False
    for simple in simples(plan):
        if simple.env:
            return False
        if simple.name in those("quiet") and simple.program == simple.name:
            continue
        if simple.program.startswith("/") and _only_passes_on(simple) and _beside_git(simple, plan):
            continue
        if simple.name != "git" or not simple.program.startswith("/") or not _runs_git_alone(simple.words):
            return False
        changes |= _changes_files(simple.words)
    return changes


def _beside_git(simple: Simple, plan: Plan) -> bool:
    return any(
        any(one is simple for one in step.commands) and any(one.name == "git" for one in step.commands)
        for step in pipelines(plan)
    )


def _only_passes_on(simple: Simple) -> bool:
    """Whether it prints what it is given and opens nothing: `| tail -3`, `| grep -v x`."""
    table = PROGRAMS.get(simple.name)
    if table is None or table.kind != "look" or not table.looks or table.operands not in _FILES_LEFT:
        return False
    if any(isinstance(word, Live) for word in simple.words) or objection(simple.name, simple.words) is not None:
        return False
    read = parse(simple.words[1:], table.options, single_dash=table.single_dash)
    return looks(simple.words) and len(read.operands) <= _FILES_LEFT[table.operands]


_FILES_LEFT = {"": 0, "pattern": 1, "none": 9}
"""How its operands are read → how many of them are no names of files."""


def _changes_files(words: Words) -> bool:
    return command_of(words)[0] not in LOOKING


class Part(NamedTuple):
    plan: Plan
    git: bool
    """Whether it is git alone."""
    after: str = ""
    """What stands before it: `&&`, `||` or `;`."""


def parts(plan: Plan) -> tuple[Part, ...]:
    """A plan in parts that are run one after the other, those that are git alone by themselves.

    Only lists, where no part leaves anything behind for the next but files and its directory; else it stays whole.
    """
    whole = (Part(plan, is_alone(plan)),)
    steps, joints = plan.body.steps, {step.after for step in plan.body.steps[1:]}
    if whole[0].git or plan.inside or plan.body.tail or not joints <= {"&&", "||", ";"} or not _leaves_nothing(plan):
        return whole
    alone = [is_alone(plan._replace(body=Script((step._replace(after=""),)))) for step in steps]
    if not any(alone):
        return whole
    found: list[tuple[list[Step], bool]] = []
    for step, git in zip(steps, alone, strict=True):
        # Where the joints differ, what is skipped is said by each of them: every step is a part of its own.
        if found and found[-1][1] == git and len(joints) == 1 and "||" not in joints:
            found[-1][0].append(step)
        else:
            found.append(([step], git))
    return tuple(
        Part(plan._replace(body=Script((own[0]._replace(after=""), *own[1:]))), git, own[0].after) for own, git in found
    )


def _leaves_nothing(plan: Plan) -> bool:
    """Whether nothing in it changes the shell itself but its directory: variables, options, whether it goes on."""
    for command in commands(plan.body):
        if isinstance(command, Assign | Internal) or any(_asks_the_shell(word) for word in live_words(command)):
            return False
        if not isinstance(command, Simple) or command.program.startswith("/"):
            continue
        if command.name not in those("quiet"):
            return False
    return True


def _asks_the_shell(word: Live) -> bool:
    """Whether it holds a variable, `$?` for one: that would be another shell's."""
    return any(isinstance(piece, Variable | Count) for piece in word.pieces)


def _runs_git_alone(words: Words) -> bool:
    # What throws work away is asked about, and runs nothing for all that.
    words = tuple(word for word in words if word != "--hard")
    return not bisects(words) and objection("git", words) is None
