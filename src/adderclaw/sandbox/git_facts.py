"""Passes what the survey before a command knows to git's shell function (`tools/git.sh`), to save processes."""

import os
from collections.abc import Iterator, Sequence

from adderclaw.config.paths import followed
from adderclaw.sandbox.legacy.survey import INSTALLED_TREES, Survey
from adderclaw.sandbox.process import GIT_FIXED

PLAIN_VARIABLE = "ADDERCLAW_PLAIN"
"""A command that calls git by the function, in its own directory, has this variable, empty."""
MAX_FOLDERS = 2_000
"""A larger workspace is not surveyed only to save those processes."""
OVERRIDDEN = frozenset(
    {key.casefold() for key in GIT_FIXED} | {f"filter.lfs.{key}" for key in ("clean", "smudge", "process", "required")}
)
"""Settings that the environment or the function always overrides."""
IDENTITY_KEYS = frozenset({"user.name", "user.email"})


def git_environment(survey: Survey | None, cwd: str, roots: Sequence[str]) -> dict[str, str]:
    """Variables for git's function: `yes` if no setting of a repository needs a check, `named` if one names the author.

    Empty if anything is unknown. Also the names of existing hooks.
    """
    if survey is None or survey.settings is None or not _is_surveyed(survey, followed(cwd), roots):
        return {PLAIN_VARIABLE: ""}
    if survey.settings - OVERRIDDEN - IDENTITY_KEYS:
        return {PLAIN_VARIABLE: ""}
    return {
        PLAIN_VARIABLE: "named" if survey.settings & IDENTITY_KEYS else "yes",
        "ADDERCLAW_HOOKS": " ".join(sorted({*_hook_names(survey)})),
    }


def _is_surveyed(survey: Survey, cwd: str, roots: Sequence[str]) -> bool:
    """Whether the repository that git finds from this folder was surveyed."""
    root = next((root for root in roots if _lies_in(cwd, root)), None)
    if root is None or not INSTALLED_TREES.isdisjoint(os.path.relpath(cwd, root).split("/")):
        return False
    if any(_lies_in(cwd, git) for git in survey.gits):
        return False
    here = cwd
    while _lies_in(here, root):
        if os.path.lexists(f"{here}/.git"):
            return f"{here}/.git" in survey.inodes
        here = os.path.dirname(here)
    return False


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _hook_names(survey: Survey) -> Iterator[str]:
    """The files in hook folders; `*` (any hook) if such a folder is a link or cannot be read."""
    for path in survey.items:
        folder, _, name = path.rpartition("/")
        if folder in survey.hooks:
            yield name if name.isascii() and name.replace("-", "").isalnum() else "*"
        elif name == "hooks" or path in survey.hooks:
            yield "*"
