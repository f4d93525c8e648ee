"""Applies a change of permissions to the session that runs and, where it says so, to the operator's own file."""

from dataclasses import replace

from adderclaw.agent.session.session import Session
from adderclaw.config import managed
from adderclaw.config import permissions as kept
from adderclaw.config.paths import beneath, followed
from adderclaw.config.permissions import PermissionUpdate
from adderclaw.config.schema.settings import Permissions
from adderclaw.core.errors import UsageError
from adderclaw.core.types import PermissionMode
from adderclaw.sandbox import programs, workspace

NOT_OURS = frozenset({"projectSettings", "localSettings"})
"""A project's files are the project's: nothing that runs in it writes them."""


def apply(session: Session, update: PermissionUpdate, *, may_bypass: bool = False) -> str:
    """Make an update of a hook, an answer or a client count; returns where it is kept: a file, or the session.

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
    configured = _configured(session)
    now = _with_denials(configured, kept.changed(before, update), update)
    place = "this session"
    if update.destination == "userSettings":
        place = kept.save(session.home, update)
    elif update.destination in NOT_OURS:
        place = f"this session alone: {update.destination} is a project's file, which is changed by hand"
    _count(session, now)
    if update.type.endswith("Directories"):
        folders = (*session.config.security.additional_directories, *now.additionalDirectories)
        session.scene.context.workspace.extra = tuple(map(followed, folders))
        programs.remember(session.scene.context.workspace.extra)
    return place


def _configured(session: Session) -> Permissions:
    """The permissions that the session began with."""
    session.state.configured = session.state.configured or session.config.permissions
    return session.state.configured


def in_plan_mode(session: Session) -> bool:
    """Whether the session itself, and not its parent, is in the mode that an approved plan ends."""
    return not session.depth and session.scene.policy.mode == "plan"


def end_plan_mode(session: Session) -> bool:
    """A plan was approved: the mode in which the session worked before applies again. False where it stays read-only.

    Modes that a person only went through on the way to plan mode (Shift+Tab) do not count.
    """
    began = _configured(session).defaultMode
    mode = next((one for one in (session.state.worked_in, began) if one != "plan"), "default")
    if session.scene.in_force.begun.autonomy_now == "readonly" or managed.exceeds_managed_mode(session.managed, mode):
        return False
    _count(session, replace(session.config.permissions, defaultMode=mode))
    return True


def _count(session: Session, now: Permissions) -> None:
    session.config = replace(session.config, permissions=now)
    session.scene.in_force.update(now, followed)
    session.scene.hide()


def round_of_modes(session: Session) -> list[PermissionMode | None]:
    """The modes that a person goes through by a key; None is the autonomy that the session began with."""
    began, policy = _configured(session).defaultMode, session.scene.in_force.begun
    usual: tuple[PermissionMode, ...] = ("default", "acceptEdits", "plan")
    modes: list[PermissionMode | None] = [
        mode for mode in usual if not managed.exceeds_managed_mode(session.managed, mode)
    ]
    if policy.autonomy_now == "readonly":  # its prompt has no tool that writes
        return [began]
    if began is None and policy.autonomy != "supervised":
        return [None, *modes]
    return modes if began is None or began in modes else [*modes, began]


def next_mode(session: Session) -> None:
    """The next mode counts, by the hand of the person at the terminal."""
    modes = round_of_modes(session)
    now = session.scene.policy.mode
    at = modes.index(now) if now in modes else 0
    choose_mode(session, modes[(at + 1) % len(modes)])


def choose_mode(session: Session, mode: PermissionMode | None) -> None:
    """One of these modes counts, by the hand of a person."""
    modes = round_of_modes(session)
    if mode not in modes:
        there = ", ".join(one or session.scene.in_force.begun.autonomy_now for one in modes)
        raise UsageError(f"this session has no mode {mode!r}; it has: {there}")
    _count(session, replace(session.config.permissions, defaultMode=mode))


def _check_mode(session: Session, update: PermissionUpdate, *, may_bypass: bool) -> None:
    """A hook switches no question off that the operator began with, and lifts no `readonly`; nobody goes beyond the
    administrator's mode."""
    if managed.exceeds_managed_mode(session.managed, update.mode):
        raise UsageError(f"the mode {update.mode} is looser than {managed.FILE} allows, and no user can change that")
    if update.mode == "bypassPermissions" and not may_bypass and _configured(session).defaultMode != update.mode:
        fix = "start with `--permission-mode bypassPermissions`, or set it in your own settings.json"
        raise UsageError(f"bypassPermissions is only there in a session that began with it: {fix}")
    if session.scene.in_force.begun.autonomy_now == "readonly" and update.mode not in ("plan", None):
        raise UsageError(f"the mode {update.mode} would lift the autonomy readonly; the operator chooses another")


def _check_allows(session: Session) -> None:
    """Where an administrator lets only their own allow rules count, nobody adds one while a session runs."""
    if managed.only_managed_allows(session.managed):
        raise UsageError("no rule is added: on this machine only its administrator's allow rules count")


def _check_folder(session: Session, folder: str) -> None:
    """What a session may be widened by, whoever wants it: a directory that is there and holds nothing of ours."""
    place, home = followed(folder), followed(session.home)
    if not workspace.is_directory(place):
        raise UsageError(f"{folder!r} is no directory: only one that is there can be added")
    if beneath(home, place) or beneath(place, home):
        why = f"it holds AdderClaw's own files ({home}), which no tool may touch"
        raise UsageError(f"{folder!r} is not added: {why}; name a directory beside them")
    allowed = managed.directories(session.managed)
    if allowed is not None and not any(beneath(place, followed(one)) for one in allowed):
        there = ", ".join(allowed) or "none"
        raise UsageError(f"{folder!r} is not added: {managed.FILE} allows {there}, and no user can change that")


def _with_denials(configured: Permissions, now: Permissions, update: PermissionUpdate) -> Permissions:
    """What the configuration denies or asks about stays so in a session: an update takes back only what one added."""
    lifted = [rule for rule in configured.deny if rule not in now.deny]
    lifted += [rule for rule in configured.ask if rule not in now.ask]
    if lifted and update.type == "removeRules" and update.destination != "userSettings":
        why = "a session lifts no deny and no ask rule of the configuration; change the file in which it stands"
        raise UsageError(f"{', '.join(lifted)} is not removed: {why}")
    deny, ask = (list(dict.fromkeys(pair)) for pair in ((*configured.deny, *now.deny), (*configured.ask, *now.ask)))
    return replace(now, deny=deny, ask=ask)
