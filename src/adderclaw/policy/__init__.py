"""The policy: guards can only deny, judges give opinions, and the mode decides if no judge has one. No I/O."""

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
    from adderclaw.config.schema import Config, Permissions
    from adderclaw.policy.policy_file import PolicyFile

__all__ = [
    "Decision",
    "Opinion",
    "Policy",
    "hidden_from_search",
    "judge",
    "policy_of",
    "with_permissions",
    "with_stricter_mode",
    "withholds_tool",
]


def judge(case: Case) -> Decision:
    """Judge a call. Guards and judges are imported with the first call, to keep the start fast."""
    from adderclaw.policy.verdict import judge as judged

    return judged(case)


def hidden_from_search(policy: Policy) -> Callable[[str], bool]:
    """Returns a test for files whose content a search must not show, because reading them is denied."""
    return _matches_any(_denied(policy, (READ, *(tool.name for tool in TOOLS if tool.searches_content))))


def kept_from_deletion(policy: Policy) -> Callable[[str], bool]:
    """Returns a test for files that a deletion must not remove, because a rule denies reading or changing them."""
    rule = _combined_pattern(_denied(policy, (READ, EDIT, WRITE, DELETE)))
    return lambda path: rule is not None and rule.fullmatch(path) is not None


def withholds_tool(policy: Policy, tool: str) -> bool:
    """Whether every call of a tool is denied, so that the model is not offered it.

    The prompt is written once, so conditions that a session can change (mode, phase) are not considered.
    """
    if any(rule.subject == "all" and names_tool(rule, tool) for rule in policy.rules.deny):
        return True
    if traits(tool).writes and policy.autonomy_now == "readonly":
        return True
    return any(file.withholds(tool) for file in policy.files)


def denied_host_reason(policy: Policy, host: str, port: int) -> str | None:
    """Why commands may not reach a listed host: rules that deny it to the web tools apply to commands, too."""
    for rule in policy.rules.deny:
        if rule.subject == "domain" and covers(rule.pattern, host, port):
            return f"deny rule {rule.text}"
    return None


def denied_patterns(policy: Policy) -> "DeniedNames":
    """The files that a sandbox must hide or protect: the verdict on a command cannot know all files that it opens."""
    from adderclaw.config.denied_names import DeniedNames

    return DeniedNames(_combined_pattern(_denied(policy, (READ,))), _combined_pattern(_denied(policy, (EDIT, WRITE))))


def denies_reads(policy: Policy) -> bool:
    """Whether a rule or `forbidden_paths` denies reading something in the workspace."""
    forbidden = (path for path in policy.forbidden_paths for root in policy.roots if beneath(path, root))
    return bool(_denied(policy, (READ,))) or any(forbidden)


def denied_literal_paths(policy: Policy) -> list[str]:
    """Literal paths, inside and outside the workspace, that rules deny to Read."""
    listed = [rule.specifier for rule in _listed_denials(policy, (READ,))]
    # policy.toml writes the root of the disk as one slash, a permission rule as two
    listed += [f"/{rule.text}" if rule.text.startswith("/") else rule.text for rule in _file_denials(policy, (READ,))]
    return [path for text in listed if (path := literal_path(text, policy.user_home)) is not None]


def _denied(policy: Policy, tools: tuple[str, ...]) -> list[Rule]:
    return [*_listed_denials(policy, tools), *_file_denials(policy, tools)]


def _listed_denials(policy: Policy, tools: tuple[str, ...]) -> list[Rule]:
    return [rule for rule in policy.rules.deny if rule.subject == "path" and rule.tool in tools]


def _file_denials(policy: Policy, tools: tuple[str, ...]) -> list[Rule]:
    sections = (file.sections.get(name) for file in policy.files for name in tools)
    return [rule for section in sections if section is not None for rule in section.deny]


def _combined_pattern(rules: list[Rule]) -> "re.Pattern[str] | None":
    """The rules as one expression: it is matched against every name of a workspace."""
    return re.compile("|".join(f"(?:{rule.pattern})" for rule in rules), re.DOTALL | re.IGNORECASE) if rules else None


def _matches_any(rules: list[Rule]) -> Callable[[str], bool]:
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
    outputs_folder: str = "",
    shown: tuple[str, ...] = (),
    started: Collection[str] = (),
    hooked: Collection[str] = (),
    settings: Collection[str] = (),
    scratch: str = "",
    traces: Collection[str] = (),
    policies: Sequence[Json] = (),
    real: Callable[[str], str] = followed,
) -> Policy:
    """The operator's policy, created once at start. Only this function may read the disk, through `real`.

    `profile` None follows `security.autonomy`. `sandboxed` says whether an OS sandbox runs the commands, `bubblewrap`
    whether it is that one, `autonomy_set` whether a layer of the configuration chose the autonomy (or it is the
    default). `aliases` maps other names of tools to canonical ones. `own_files` are added to the files that no tool may
    touch, `policies` are the policy.toml files as `config` read them. `started` are the files that hooks, servers and
    helpers run, `hooked` those that the operator's own hooks name, `settings` the possible paths of a project's
    settings. `scratch` is the sandbox's folder for this session only, `traces` are the folders with traces of runs.
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
        mode=_effective_mode(permissions),
        workspace_only=security.workspace_only and profile != "permissive",
        forbidden_paths=_with_real_paths(security.forbidden_paths, real),
        forbidden_commands=tuple(security.forbidden_commands),
        allowed_commands=tuple(security.allowed_commands),
        allowed_domains=tuple(security.allowed_domains),
        raw_bash=security.raw_bash,
        rules=parse_all(permissions.deny, permissions.ask, permissions.allow, anchors, aliases, known),
        home=real(home),
        user_home=user_home,
        own_files=_with_real_paths(own, real),
        started=_with_real_paths(started, real),
        hooked=_with_real_paths(hooked, real),
        settings=_with_real_paths(settings, real),
        run_folders=_with_real_paths((os.path.join(workspace, config.logging.jsonl_dir),), real),
        traces=_with_real_paths(traces, real),
        kept=outputs_folder,
        shown=shown,
        sandboxed=sandboxed,
        bubblewrap=sandboxed and bubblewrap,
        scratch=scratch,
        files=_compile_files(policies, workspace, user_home, real, aliases, known) if policies else (),
    )


def with_permissions(policy: Policy, permissions: "Permissions", real: Callable[[str], str]) -> Policy:
    """The policy of a session after its permissions changed: rules, mode and additional directories.

    A mode other than the first one replaces the autonomy; `plan` only adds its own denials.
    """
    anchors = Anchors(policy.workspace, policy.workspace, policy.user_home)
    added = _with_real_paths(permissions.additionalDirectories, real)
    mode = _effective_mode(permissions)
    return replace(
        policy,
        rules=parse_all(permissions.deny, permissions.ask, permissions.allow, anchors, policy.aliases),
        mode=mode,
        autonomy_set=policy.autonomy_set and mode in (policy.mode, None, "plan"),
        roots=tuple(dict.fromkeys((*policy.fixed_roots, *added))),
    )


def with_allowed(policy: Policy, texts: Iterable[str]) -> Policy:
    """The policy with more allow rules, without invalid ones and duplicates."""
    anchors = Anchors(policy.workspace, policy.workspace, policy.user_home)
    added = parse_all((), (), texts, anchors, policy.aliases).allow
    rules = policy.rules._replace(allow=tuple(dict.fromkeys((*policy.rules.allow, *added))))
    return replace(policy, rules=rules)


MODES: tuple[PermissionMode | None, ...] = ("bypassPermissions", "acceptEdits", None, "default", "dontAsk", "plan")
"""From the loosest to the strictest."""


def with_stricter_mode(policy: Policy, mode: PermissionMode | None) -> Policy:
    """The policy of a child with this mode, which applies only if it is stricter."""
    if mode is None or MODES.index(mode) <= MODES.index(policy.mode):
        return policy
    return replace(policy, mode=mode, autonomy=policy.autonomy_now, autonomy_set=True)


def _effective_mode(permissions: "Permissions") -> PermissionMode | None:
    disabled = permissions.defaultMode == "bypassPermissions" and permissions.disableBypassPermissionsMode
    return "default" if disabled else permissions.defaultMode


def _compile_files(
    policies: Sequence[Json],
    workspace: str,
    user_home: str,
    real: Callable[[str], str],
    aliases: Mapping[str, str] | None,
    known: Collection[str],
) -> "tuple[PolicyFile, ...]":
    from adderclaw.policy import policy_file

    return policy_file.compile_files(policies, policy_file.PatternBase(workspace, user_home, real), aliases, known)


def _with_real_paths(names: Collection[str], real: Callable[[str], str]) -> tuple[str, ...]:
    """Each path as it is named and with links followed."""
    absolute = [os.path.normpath(os.path.expanduser(name)) for name in names]
    return tuple(dict.fromkeys((*absolute, *map(real, absolute))))
