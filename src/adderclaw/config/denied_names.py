"""Names that rules hide or protect from every command, as expressions matched against each name in the workspace."""

import re

from adderclaw.core.record import NamedTuple

ANY = "any-name.at all"
"""A placeholder name that no specific rule matches."""
GIT_NEEDS = frozenset(
    (
        *("HEAD", "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REBASE_HEAD", "MERGE_MSG"),
        *("MERGE_MODE", "COMMIT_EDITMSG", "config", "config.worktree", "index", "description", "packed-refs"),
        *("shallow", "commondir", "gitdir", "objects", "pack", "alternates", "refs", "heads", "tags", "remotes"),
        *("logs", "hooks", "info", "exclude", "attributes", "modules", "worktrees", "lfs", "branches"),
    )
)
"""Names of git's own files, which stay accessible despite rules because git does not work without them."""


class DeniedNames(NamedTuple):
    """What the operator's rules hide or protect from every command, under any name."""

    unseen: "re.Pattern[str] | None" = None
    """Matches files that may not be read; None if no rule denies reading."""
    unchanged: "re.Pattern[str] | None" = None

    @property
    def is_any(self) -> bool:
        return self.unseen is not None or self.unchanged is not None


NOTHING = DeniedNames()


def covers(rule: "re.Pattern[str] | None", path: str, *, is_folder: bool) -> bool:
    """Whether a rule covers a path, or everything that could be in a folder, so that the whole folder can be
    protected."""
    if rule is None:
        return False
    if rule.fullmatch(path) is not None:
        return True
    return is_folder and bool(rule.fullmatch(f"{path}/{ANY}") and rule.fullmatch(f"{path}/{ANY}/{ANY}"))


def by_name(rule: "re.Pattern[str] | None", root: str, name: str) -> bool:
    """Whether a rule matches a file by its name alone, regardless of the folder that it is in."""
    return rule is not None and rule.fullmatch(f"{root}/{ANY}/{name}") is not None


def in_git(rule: "re.Pattern[str] | None", root: str, name: str) -> bool:
    """Whether a rule also covers a file in a git directory, so that renaming a folder to `.git` does not evade the
    rule."""
    return name not in GIT_NEEDS and by_name(rule, root, name) and not by_name(rule, root, ANY)
