"""The gate: guards may only refuse, judges give opinions, and the mode decides where none speaks. No I/O."""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from adderclaw.gate import guards, judges, modes
from adderclaw.gate.case import STRICTNESS, Case, Decision, Opinion, Policy
from adderclaw.gate.judges import hides
from adderclaw.gate.risk import risk_of
from adderclaw.gate.rules import Anchors, parse_all
from adderclaw.gate.shell import Raw
from adderclaw.types import Autonomy, Json, PermissionMode

if TYPE_CHECKING:
    from adderclaw.config.schema import Config, Permissions
    from adderclaw.gate.policy_file import PolicyFile

__all__ = [
    "GUARDS",
    "JUDGES",
    "Case",
    "Decision",
    "Opinion",
    "Policy",
    "hides",
    "judge",
    "policy_of",
    "risk_of",
    "tightened",
    "with_permissions",
]

type Guard = Callable[[Case], str | None]
type Judge = Callable[[Case], Opinion | None]

# Where several refuse, the first gives the reason: what no setting lifts stands before what one would.
GUARDS: tuple[tuple[str, Guard], ...] = (
    ("estop", guards.estop),
    ("trust", guards.trust),
    ("phase", guards.phase),
    ("readonly", guards.readonly),
    ("forbidden_commands", guards.forbidden_commands),
    ("destructive", guards.destructive),
    ("protected", guards.protected),
    ("forbidden_paths", guards.forbidden_paths),
    ("workspace", guards.workspace),
    ("hosts", guards.web_hosts),
)
JUDGES: tuple[tuple[str, Judge], ...] = (
    ("hook", judges.hook),
    ("permission rules", judges.permission_rules),
    ("policy.toml", judges.policy_files),
)


def judge(case: Case) -> Decision:
    """Ask every guard and judge: the first refusing guard decides, else the strictest judge, else the mode."""
    risk, why = risk_of(case)
    refusals = [(name, guard(case)) for name, guard in GUARDS]
    given = [(name, opinion(case)) for name, opinion in JUDGES]
    by_mode = modes.decide(case, risk, why)
    opinions = (
        *(Opinion(name, "deny" if reason else None, reason or "") for name, reason in refusals),
        *(opinion or Opinion(name, None, "") for name, opinion in given),
        by_mode,
    )
    refused = next(((name, reason) for name, reason in refusals if reason), None)
    if refused:
        return Decision("deny", risk, refused[1], refused[0], opinions, case.tool)
    spoken = [opinion for _, opinion in given if opinion is not None and opinion.verdict is not None]
    # A rule that asks about raw bash does not lift what the mode denies: only `raw_bash` does.
    heard = [*spoken, by_mode] if not spoken or isinstance(case.touch.command, Raw) else spoken
    last = _settled(case, max(heard, key=_strictness))
    return Decision(last.verdict or "deny", risk, last.reason, last.by, opinions, case.tool)


def _strictness(opinion: Opinion) -> int:
    return STRICTNESS[opinion.verdict] if opinion.verdict is not None else -1


def _settled(case: Case, opinion: Opinion) -> Opinion:
    """Where nobody may be asked, what would be asked is denied."""
    if opinion.verdict != "ask":
        return opinion
    if case.policy.mode == "dontAsk":
        return Opinion("mode", "deny", f"{opinion.reason}: dontAsk denies what would be asked")
    if not case.interactive:
        return Opinion("no_operator", "deny", f"no_operator: {opinion.reason}, and nobody is there to ask")
    return opinion


PROFILES: dict[str, Autonomy] = {
    "supervised": "supervised",
    "sandboxed": "full",
    "readonly": "readonly",
    "permissive": "full",
}


def policy_of(
    config: "Config",
    workspace: str,
    home: str,
    profile: str | None = None,
    *,
    sandboxed: bool = False,
    autonomy_set: bool = True,
    aliases: Mapping[str, str] | None = None,
    known: Collection[str] = (),
    own_files: Collection[str] = (),
    kept: str = "",
    shown: tuple[str, ...] = (),
    started: Collection[str] = (),
    policies: Sequence[Json] = (),
    real: Callable[[str], str] = os.path.realpath,
) -> Policy:
    """The operator's policy, made once at start: the only place here that may look at the disk, through `real`.

    `profile` None follows `security.autonomy`. `sandboxed` says whether an OS sandbox really carries the commands,
    `autonomy_set` whether a layer of the configuration chose the autonomy (or it is the default), `aliases` maps
    other names of tools to canonical ones, `own_files` adds to the files that no tool touches, `policies` are the
    policy.toml files as `config` read them, `started` the scripts that a trusted project's settings name.
    """
    security, permissions = config.security, config.permissions

    def rooted(*folders: str) -> tuple[str, ...]:
        absolute = [os.path.normpath(os.path.join(workspace, os.path.expanduser(folder))) for folder in folders]
        return tuple(dict.fromkeys((*absolute, *map(real, absolute))))

    fixed = (workspace, *security.additional_directories)
    own = (config.memory.path, config.receipts.path, *own_files)
    user_home = os.path.expanduser("~")
    anchors = Anchors(workspace, workspace, user_home)
    return Policy(
        workspace=workspace,
        roots=rooted(*fixed, *permissions.additionalDirectories),
        fixed_roots=rooted(*fixed),
        aliases=aliases or {},
        autonomy=PROFILES[profile] if profile is not None else security.autonomy,
        autonomy_set=autonomy_set or profile is not None,
        mode=_mode(permissions),
        workspace_only=security.workspace_only and profile != "permissive",
        forbidden_paths=_both(security.forbidden_paths, real),
        forbidden_commands=tuple(security.forbidden_commands),
        allowed_commands=tuple(security.allowed_commands),
        allowed_domains=tuple(security.allowed_domains),
        raw_bash=security.raw_bash,
        rules=parse_all(permissions.deny, permissions.ask, permissions.allow, anchors, aliases, known),
        home=real(home),
        user_home=user_home,
        own_files=_both(own, real),
        started=_both(started, real),
        run_folders=_both((os.path.join(workspace, config.logging.jsonl_dir),), real),
        kept=kept,
        shown=shown,
        sandboxed=sandboxed,
        files=_files(policies, workspace, user_home, real, aliases, known) if policies else (),
    )


def with_permissions(policy: Policy, permissions: "Permissions", real: Callable[[str], str]) -> Policy:
    """The policy after permissions changed in a session: its rules, its mode and the further directories."""
    anchors = Anchors(policy.workspace, policy.workspace, policy.user_home)
    added = _both(permissions.additionalDirectories, real)
    return replace(
        policy,
        rules=parse_all(permissions.deny, permissions.ask, permissions.allow, anchors, policy.aliases),
        mode=_mode(permissions),
        roots=tuple(dict.fromkeys((*policy.fixed_roots, *added))),
    )


def with_allowed(policy: Policy, texts: Iterable[str]) -> Policy:
    """The policy with further allow rules; one that is invalid is left out, and one that is there stands once."""
    anchors = Anchors(policy.workspace, policy.workspace, policy.user_home)
    added = parse_all((), (), texts, anchors, policy.aliases).allow
    rules = policy.rules._replace(allow=tuple(dict.fromkeys((*policy.rules.allow, *added))))
    return replace(policy, rules=rules)


MODES: tuple[PermissionMode | None, ...] = ("bypassPermissions", "acceptEdits", None, "default", "dontAsk", "plan")
"""From the loosest to the strictest."""


def tightened(policy: Policy, mode: PermissionMode | None) -> Policy:
    """The policy of a child that wants this mode: it counts where it is stricter, and loosens nothing."""
    if mode is None or MODES.index(mode) <= MODES.index(policy.mode):
        return policy
    return replace(policy, mode=mode, autonomy=modes.autonomy_of(policy), autonomy_set=True)


def _mode(permissions: "Permissions") -> PermissionMode | None:
    disabled = permissions.defaultMode == "bypassPermissions" and permissions.disableBypassPermissionsMode
    return "default" if disabled else permissions.defaultMode


def _files(
    policies: Sequence[Json],
    workspace: str,
    user_home: str,
    real: Callable[[str], str],
    aliases: Mapping[str, str] | None,
    known: Collection[str],
) -> "tuple[PolicyFile, ...]":
    from adderclaw.gate import policy_file

    return policy_file.compiled(policies, policy_file.Place(workspace, user_home, real), aliases, known)


def _both(names: Collection[str], real: Callable[[str], str]) -> tuple[str, ...]:
    """Each path as it is named and as it is with links followed."""
    absolute = [os.path.normpath(os.path.expanduser(name)) for name in names]
    return tuple(dict.fromkeys((*absolute, *map(real, absolute))))
