"""What deleting adds to writing: whole trees go, and not everything of them can be put back."""

from collections.abc import Iterator

from adderclaw.policy import paths
from adderclaw.policy.case import Case, Opinion

COMMANDS = frozenset({"rm", "rmdir", "unlink", "shred"})
"""Programs in whose stead the tool can be used."""


def protected(case: Case) -> str | None:
    """Never a root, nothing that holds what is ours, and no git directory."""
    policy = case.policy
    for path in _removed(case):
        if paths.contained_path(path, policy.roots):
            return f"{path} is protected: it is the root of the workspace, or holds it"
        ours = (policy.home, *policy.own_files, *policy.run_folders, *policy.started, *policy.settings)
        if held := paths.contained_path(path, ours):
            return f"{path} is protected: it holds {held}, which AdderClaw or this project's settings need"
    for path in case.touch.gits:
        return f"{path} is protected: it is a git directory"
    return None


def forbidden(case: Case) -> str | None:
    for path in _removed(case):
        if held := paths.contained_path(path, case.policy.forbidden_paths):
            return f"{path} is forbidden: it holds {held}, which is in [security] forbidden_paths"
    return None


def _removed(case: Case) -> Iterator[str]:
    return (path for fact in case.touch.removes for path in paths.forms(fact))


def cannot_be_undone(case: Case) -> Opinion | None:
    """A question of its own, in every mode and whatever a rule allows."""
    lost = case.touch.lost
    return Opinion("checkpoint", "ask", f"{case.touch.why}, which cannot be undone: {lost}") if lost else None
