"""Applies a change of permissions to the session that runs and, where it says so, to the operator's own file."""

from dataclasses import replace

from adderclaw import gate
from adderclaw.config import permissions as kept
from adderclaw.config.paths import followed
from adderclaw.config.permissions import PermissionUpdate
from adderclaw.errors import UsageError
from adderclaw.kernel.session import Session

NOT_OURS = frozenset({"projectSettings", "localSettings"})
"""A project's files are the project's: nothing that runs in it writes them."""


def apply(session: Session, update: PermissionUpdate) -> str:
    """Make an update count; returns where it is kept: a file, or the session."""
    if update.destination in NOT_OURS:
        raise UsageError(f"{update.destination}: a project's settings are changed by hand, not by a session")
    now = kept.changed(session.config.permissions, update)
    place = "this session"
    if update.destination == "userSettings":
        place = kept.save(session.home, update)
    session.config = replace(session.config, permissions=now)
    scene = session.scene
    scene.policy = gate.with_permissions(scene.policy, now, followed)
    scene.context.hidden = gate.hides(scene.policy)
    if update.type.endswith("Directories"):
        folders = (*session.config.security.additional_directories, *now.additionalDirectories)
        scene.context.workspace.extra = tuple(map(followed, folders))
    return place
