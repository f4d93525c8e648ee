"""Plans that are git and nothing else: they alone may change what other programs run later (CI, hook managers)."""

from collections.abc import Sequence

from adderclaw.gate.allowlist import names
from adderclaw.gate.git import command_of, helper
from adderclaw.gate.objections import Words
from adderclaw.gate.plan import Plan, redirects, simples
from adderclaw.gate.programs import objection

LOOKING = names(
    """blame cat-file check-ignore describe diff for-each-ref grep log ls-files ls-tree merge-base name-rev reflog
    rev-list rev-parse shortlog show show-ref status var whatchanged"""
)
"""Commands of git's that change no file of a project."""
QUIET = frozenset({"cd", "echo", "printf", "pwd", "true", "false", ":", "test", "["})
"""What bash does by itself, and changes no file by."""


def is_alone(plan: Plan, helpers: Sequence[str]) -> bool:
    """Whether a plan is git and nothing else, none of it runs another program, and something of it may change files."""
    if plan.inside or any(redirect.writes and redirect.target != "/dev/null" for redirect in redirects(plan)):
        return False
    changes = False
    for simple in simples(plan):
        if simple.env:
            return False
        if simple.name in QUIET and simple.program == simple.name:
            continue
        if simple.name != "git" or not simple.program.startswith("/") or not _runs_git_alone(simple.words, helpers):
            return False
        changes |= command_of(simple.words)[0] not in LOOKING
    return changes


def _runs_git_alone(words: Words, helpers: Sequence[str]) -> bool:
    # What throws work away is asked about, and runs nothing for all that.
    words = tuple(word for word in words if word != "--hard")
    return objection("git", words) is None and helper(words, tuple(helpers)) is None
