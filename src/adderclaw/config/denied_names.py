"""What rules take from every command, as expressions that a look at the workspace holds against each name."""

import re

from adderclaw.core.record import NamedTuple

ANY = "any-name.at all"
"""Stands for a name that no rule was written for."""
GIT_NEEDS = frozenset(
    (
        *("HEAD", "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REBASE_HEAD", "MERGE_MSG"),
        *("MERGE_MODE", "COMMIT_EDITMSG", "config", "config.worktree", "index", "description", "packed-refs"),
        *("shallow", "commondir", "gitdir", "objects", "pack", "alternates", "refs", "heads", "tags", "remotes"),
        *("logs", "hooks", "info", "exclude", "attributes", "modules", "worktrees", "lfs", "branches"),
    )
)
"""What git calls its own files: without them it does not work, whatever a rule says of such a name."""


class Shut(NamedTuple):
    """What rules of the operator take from every command, whatever name it finds it by."""

    unseen: "re.Pattern[str] | None" = None
    """May not be read; None where no rule says so of anything."""
    unchanged: "re.Pattern[str] | None" = None

    @property
    def is_any(self) -> bool:
        return self.unseen is not None or self.unchanged is not None


NOTHING = Shut()


def covers(rule: "re.Pattern[str] | None", path: str, *, is_folder: bool) -> bool:
    """Whether a rule takes this, or whatever could ever lie in it: then the folder is held, and not each file."""
    if rule is None:
        return False
    if rule.fullmatch(path) is not None:
        return True
    return is_folder and bool(rule.fullmatch(f"{path}/{ANY}") and rule.fullmatch(f"{path}/{ANY}/{ANY}"))


def by_name(rule: "re.Pattern[str] | None", root: str, name: str) -> bool:
    """Whether a rule knows a file by its name alone, so that it is found again wherever its folder is moved."""
    return rule is not None and rule.fullmatch(f"{root}/{ANY}/{name}") is not None


def in_git(rule: "re.Pattern[str] | None", root: str, name: str) -> bool:
    """Whether a rule takes what lies in a git directory, too: a folder that is renamed to `.git` hides nothing."""
    return name not in GIT_NEEDS and by_name(rule, root, name) and not by_name(rule, root, ANY)
