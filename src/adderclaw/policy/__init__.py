"""The gate: guards may only refuse, judges give opinions, and the mode decides where none speaks. No I/O."""

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from adderclaw.config.paths import beneath, followed
from adderclaw.core.tool_traits import DELETE, EDIT, READ, TOOLS, WRITE, traits
from adderclaw.core.types import Autonomy, Json, PathFact, PermissionMode
from adderclaw.policy.case import Case, Decision, Opinion, Policy
from adderclaw.policy.hosts import covers
from adderclaw.policy.rules import Anchors, Rule, literal_path, matches_path, names_tool, parse_all

if TYPE_CHECKING:
    from adderclaw.config.denied_names import DeniedNames
    from adderclaw.config.schema.settings import Config, Permissions
    from adderclaw.policy.policy_file import PolicyFile

__all__ = [
    "Decision",
    "Opinion",
    "Policy",
    "hides",
    "judge",
    "policy_of",
    "tightened",
    "with_permissions",
    "withholds",
]


def judge(case: Case) -> Decision:
    """What becomes of a call; the guards and judges are imported with the first one, not before the first request."""
    from adderclaw.policy.verdict import judge as judged

    return judged(case)


def hides(policy: Policy) -> Callable[[str], bool]:
    """Whether a file that a search comes upon is one that may not be read: then what is in it is not shown."""
    return _any_of(_denied(policy, (READ, *(tool.name for tool in TOOLS if tool.searches_content))))


def keeps(policy: Policy) -> Callable[[str], bool]:
    """Whether a file that a deletion comes upon is one that a rule keeps from being read or changed."""
    rule = _one_of(_denied(policy, (READ, EDIT, WRITE, DELETE)))
    return lambda path: rule is not None and rule.fullmatch(path) is not None


def withholds(policy: Policy, tool: str) -> bool:
    """Whether every call of a tool is denied, whatever it says: then the model is not even told of it.

    The prompt is made once, so that what a session may still change (the mode, the phase) withholds nothing.
    """
    if any(rule.subject == "all" and names_tool(rule, tool) for rule in policy.rules.deny):
        return True
    if traits(tool).writes and policy.autonomy_now == "readonly":
        return True
    return any(file.withholds(tool) for file in policy.files)


def unreachable(policy: Policy, host: str, port: int) -> str | None:
    """Why no command may reach a host that is listed: what a rule denies to the web tools it denies to commands."""
    for rule in policy.rules.deny:
        if rule.subject == "domain" and covers(rule.pattern, host, port):
            return f"deny rule {rule.text}"
    return None


def shuts(policy: Policy) -> "DeniedNames":
    """What a sandbox keeps from what runs in it: no verdict on a command knows every file that it opens."""
    from adderclaw.config.denied_names import DeniedNames

    return DeniedNames(_one_of(_denied(policy, (READ,))), _one_of(_denied(policy, (EDIT, WRITE))))


def denies_reads(policy: Policy) -> bool:
    """Whether something in the workspace may not be read: by a rule, or by its place."""
    forbidden = (path for path in policy.forbidden_paths for root in policy.roots if beneath(path, root))
    return bool(_denied(policy, (READ,))) or any(forbidden)


def unseen_elsewhere(policy: Policy) -> list[str]:
    """Whole names, outside of the workspace too, that rules deny to Read: those that need no look at the disk."""
    listed = [rule.specifier for rule in _listed(policy, (READ,))]
    # policy.toml writes the root of the disk as one slash, a permission rule as two
    listed += [f"/{rule.text}" if rule.text.startswith("/") else rule.text for rule in _in_files(policy, (READ,))]
    return [path for text in listed if (path := literal_path(text, policy.user_home)) is not None]


def _denied(policy: Policy, tools: tuple[str, ...]) -> list[Rule]:
    return [*_listed(policy, tools), *_in_files(policy, tools)]


def _listed(policy: Policy, tools: tuple[str, ...]) -> list[Rule]:
    return [rule for rule in policy.rules.deny if rule.subject == "path" and rule.tool in tools]


def _in_files(policy: Policy, tools: tuple[str, ...]) -> list[Rule]:
    sections = (file.sections.get(name) for file in policy.files for name in tools)
    return [rule for section in sections if section is not None for rule in section.deny]


def _one_of(rules: list[Rule]) -> "re.Pattern[str] | None":
    """As `_any_of`, in one expression: it is asked of every name of a workspace."""
    return re.compile("|".join(f"(?:{rule.pattern})" for rule in rules), re.DOTALL | re.IGNORECASE) if rules else None


def _any_of(rules: list[Rule]) -> Callable[[str], bool]:
    return lambda path: any(matches_path(rule, PathFact(path, path, path)) for rule in rules)


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
    bubblewrap: bool = False,
    autonomy_set: bool = True,
    aliases: Mapping[str, str] | None = None,
    known: Collection[str] = (),
    own_files: Collection[str] = (),
    kept: str = "",
    shown: tuple[str, ...] = (),
    started: Collection[str] = (),
    hooked: Collection[str] = (),
    settings: Collection[str] = (),
    scratch: str = "",
    traces: Collection[str] = (),
    policies: Sequence[Json] = (),
    real: Callable[[str], str] = followed,
) -> Policy:
    """The operator's policy, made once at start: the only place here that may look at the disk, through `real`.

    `profile` None follows `security.autonomy`. `sandboxed` says whether an OS sandbox really carries the commands,
    `bubblewrap` whether it is that one,
    `autonomy_set` whether a layer of the configuration chose the autonomy (or it is the default), `aliases` maps
    other names of tools to canonical ones, `own_files` adds to the files that no tool touches, `policies` are the
    policy.toml files as `config` read them, `started` the files that hooks, servers and helpers run, `hooked` those
    that the operator's own hooks name, `settings` where a project's settings can stand, `scratch` is the folder that a
    sandbox has for the session alone, `traces` the folders with the traces of runs.
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
        hooked=_both(hooked, real),
        settings=_both(settings, real),
        run_folders=_both((os.path.join(workspace, config.logging.jsonl_dir),), real),
        traces=_both(traces, real),
        kept=kept,
        shown=shown,
        sandboxed=sandboxed,
        bubblewrap=sandboxed and bubblewrap,
        scratch=scratch,
        files=_files(policies, workspace, user_home, real, aliases, known) if policies else (),
    )


def with_permissions(policy: Policy, permissions: "Permissions", real: Callable[[str], str]) -> Policy:
    """The policy that a session began with, after its permissions changed: rules, mode and further directories.

    Another mode than it began with stands in place of the autonomy; `plan` only adds what it denies itself.
    """
    anchors = Anchors(policy.workspace, policy.workspace, policy.user_home)
    added = _both(permissions.additionalDirectories, real)
    mode = _mode(permissions)
    return replace(
        policy,
        rules=parse_all(permissions.deny, permissions.ask, permissions.allow, anchors, policy.aliases),
        mode=mode,
        autonomy_set=policy.autonomy_set and mode in (policy.mode, None, "plan"),
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
    return replace(policy, mode=mode, autonomy=policy.autonomy_now, autonomy_set=True)


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
    from adderclaw.policy import policy_file

    return policy_file.compiled(policies, policy_file.Place(workspace, user_home, real), aliases, known)


def _both(names: Collection[str], real: Callable[[str], str]) -> tuple[str, ...]:
    """Each path as it is named and as it is with links followed."""
    absolute = [os.path.normpath(os.path.expanduser(name)) for name in names]
    return tuple(dict.fromkeys((*absolute, *map(real, absolute))))
