"""Applies a change of permissions to the running session and, if requested, to the operator's own file."""

from dataclasses import replace

from adderclaw.agent.session.session import Session
from adderclaw.config import managed
from adderclaw.config import permissions as kept
from adderclaw.config.paths import beneath, followed
from adderclaw.config.permissions import PermissionUpdate
from adderclaw.config.schema import Permissions
from adderclaw.core.errors import UsageError
from adderclaw.core.types import PermissionMode
from adderclaw.sandbox import programs, workspace

PROJECT_DESTINATIONS = frozenset({"projectSettings", "localSettings"})
"""Destinations in a project's files. A session does not write these; the change applies only to the session."""


def apply_update(session: Session, update: PermissionUpdate, *, may_bypass: bool = False) -> str:
    """Apply an update from a hook, an answer or a client; returns where it is stored: a file, or the session.

    `may_bypass`: the operator allowed the client at the start to change to bypassPermissions.
    """
    if update.type == "addDirectories":
        for folder in update.directories:
            _check_folder(session, folder)
    if update.type == "setMode":
        _check_mode(session, update, may_bypass=may_bypass)
    if update.type in ("addRules", "replaceRules") and update.behavior == "allow":
        _check_allows(session)
    before = session.config.permissions
    configured = _initial_permissions(session)
    now = _with_denials(configured, kept.changed(before, update), update)
    stored_in = "this session"
    if update.destination == "userSettings":
        stored_in = kept.save(session.home, update)
    elif update.destination in PROJECT_DESTINATIONS:
        stored_in = f"this session alone: {update.destination} is a project's file, which is changed by hand"
    _apply_permissions(session, now)
    if update.type.endswith("Directories"):
        folders = (*session.config.security.additional_directories, *now.additionalDirectories)
        session.environment.context.workspace.extra = tuple(map(followed, folders))
        programs.remember_workspaces(session.environment.context.workspace.extra)
    return stored_in


def _initial_permissions(session: Session) -> Permissions:
    """The permissions that the session began with, remembered before the first change."""
    session.state.configured = session.state.configured or session.config.permissions
    return session.state.configured


def in_plan_mode(session: Session) -> bool:
    """Whether the session itself, not its parent, is in plan mode."""
    return not session.depth and session.environment.policy.mode == "plan"


def end_plan_mode(session: Session) -> bool:
    """Return to the mode before plan mode, after a plan was approved. False if the session stays read-only.

    Modes that a person only passed on the way to plan mode (Shift+Tab) are ignored.
    """
    began = _initial_permissions(session).defaultMode
    mode = next((candidate for candidate in (session.state.last_work_mode, began) if candidate != "plan"), "default")
    if session.environment.active_policy.initial.autonomy_now == "readonly" or managed.exceeds_managed_mode(
        session.managed, mode
    ):
        return False
    _apply_permissions(session, replace(session.config.permissions, defaultMode=mode))
    return True


def _apply_permissions(session: Session, now: Permissions) -> None:
    session.config = replace(session.config, permissions=now)
    session.environment.active_policy.update(now, followed)
    session.environment.update_hidden()


def mode_cycle(session: Session) -> list[PermissionMode | None]:
    """The modes that Shift+Tab cycles through. None stands for the autonomy that the session began with."""
    began, policy = _initial_permissions(session).defaultMode, session.environment.active_policy.initial
    usual: tuple[PermissionMode, ...] = ("default", "acceptEdits", "plan")
    modes: list[PermissionMode | None] = [
        mode for mode in usual if not managed.exceeds_managed_mode(session.managed, mode)
    ]
    if policy.autonomy_now == "readonly":  # its prompt lists no tool that writes
        return [began]
    if began is None and policy.autonomy != "supervised":
        return [None, *modes]
    return modes if began is None or began in modes else [*modes, began]


def next_mode(session: Session) -> None:
    """Switch to the next mode, for the person at the terminal."""
    modes = mode_cycle(session)
    now = session.environment.policy.mode
    at = modes.index(now) if now in modes else 0
    choose_mode(session, modes[(at + 1) % len(modes)])


def choose_mode(session: Session, mode: PermissionMode | None) -> None:
    """Switch to a mode that a person chose."""
    modes = mode_cycle(session)
    if mode not in modes:
        there = ", ".join(known_mode or session.environment.active_policy.initial.autonomy_now for known_mode in modes)
        raise UsageError(f"this session has no mode {mode!r}; it has: {there}")
    _apply_permissions(session, replace(session.config.permissions, defaultMode=mode))


def _check_mode(session: Session, update: PermissionUpdate, *, may_bypass: bool) -> None:
    """Reject a mode that is looser than the administrator allows, than the session's start, or than `readonly`."""
    if managed.exceeds_managed_mode(session.managed, update.mode):
        raise UsageError(f"the mode {update.mode} is looser than {managed.FILE} allows, and no user can change that")
    if (
        update.mode == "bypassPermissions"
        and not may_bypass
        and _initial_permissions(session).defaultMode != update.mode
    ):
        fix = "start with `--permission-mode bypassPermissions`, or set it in your own settings.json"
        raise UsageError(f"bypassPermissions is only there in a session that began with it: {fix}")
    if session.environment.active_policy.initial.autonomy_now == "readonly" and update.mode not in ("plan", None):
        raise UsageError(f"the mode {update.mode} would lift the autonomy readonly; the operator chooses another")


def _check_allows(session: Session) -> None:
    """Reject new allow rules if the administrator lets only their own count."""
    if managed.only_managed_allows(session.managed):
        raise UsageError("no rule is added: on this machine only its administrator's allow rules count")


def _check_folder(session: Session, folder: str) -> None:
    """Reject a directory that does not exist, holds AdderClaw's own files, or is not allowed by the administrator."""
    path, home = followed(folder), followed(session.home)
    if not workspace.is_directory(path):
        raise UsageError(f"{folder!r} is not an existing directory, so it cannot be added")
    if beneath(home, path) or beneath(path, home):
        why = f"it holds AdderClaw's own files ({home}), which no tool may touch"
        raise UsageError(f"{folder!r} is not added: {why}; use a directory without them")
    allowed = managed.directories(session.managed)
    if allowed is not None and not any(beneath(path, followed(allowed_folder)) for allowed_folder in allowed):
        there = ", ".join(allowed) or "none"
        raise UsageError(f"{folder!r} is not added: {managed.FILE} allows {there}, and no user can change that")


def _with_denials(configured: Permissions, now: Permissions, update: PermissionUpdate) -> Permissions:
    """The permissions with all deny and ask rules of the configuration, because an update can only remove rules that
    an earlier update added."""
    lifted = [rule for rule in configured.deny if rule not in now.deny]
    lifted += [rule for rule in configured.ask if rule not in now.ask]
    if lifted and update.type == "removeRules" and update.destination != "userSettings":
        why = "a session cannot remove deny and ask rules of the configuration; edit the file that sets the rule"
        raise UsageError(f"{', '.join(lifted)} is not removed: {why}")
    deny, ask = (list(dict.fromkeys(pair)) for pair in ((*configured.deny, *now.deny), (*configured.ask, *now.ask)))
    return replace(now, deny=deny, ask=ask)
