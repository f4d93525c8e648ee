"""Guards: each can only deny, with a reason, and nothing overrules it."""

from collections.abc import Iterator

from adderclaw.config.paths import OWN_ENDINGS, UNRESOLVED, beneath
from adderclaw.core import home_names
from adderclaw.core.tool_traits import DELETE, traits
from adderclaw.core.types import PHASES, PathFact
from adderclaw.policy import hosts, paths
from adderclaw.policy.case import Case, Opinion
from adderclaw.policy.legacy import commands, looking, removal
from adderclaw.policy.legacy.shell.planner import Plan, Raw
from adderclaw.policy.legacy.shell.raw import may_write
from adderclaw.policy.modes import is_readonly, waits_for_plan
from adderclaw.policy.risk import is_inside, is_kept, is_scratch


def estop(case: Case) -> str | None:
    return "the emergency stop is set; `adderclaw estop --clear` removes it" if case.estop else None


def trust(case: Case) -> str | None:
    if case.trusted:
        return None
    return f"{case.tool} comes from project content that is not trusted; look at it, then `adderclaw trust`"


def phase(case: Case) -> str | None:
    if case.phase not in PHASES:
        fix = "`adderclaw sdlc transition planning` begins a new plan"
        return f"the conversation is in the phase {str(case.phase)[:40]!r}, which does not exist; {fix}"
    if case.phase == "planning" and not case.plan_approved and waits_for_plan(case.tool):
        return f"{case.tool} is not used while planning: the plan has to be approved first"
    if case.phase == "planning" and not case.plan_approved and (case.touch.writes or case.touch.command is not None):
        return f"{case.tool} would change something, and the plan has to be approved first"
    return None


def readonly(case: Case) -> str | None:
    if not is_readonly(case.policy):
        return None
    touch = case.touch
    mode = "read-only" if case.policy.autonomy_now == "readonly" else "plan"
    if traits(case.tool).writes or any(not paths.is_device(fact) for fact in touch.writes):
        return f"files cannot be changed in {mode} mode"
    if touch.command is not None and not looking.has_look_room(case) and not looking.is_harmless(touch.command):
        few = "" if case.policy.bubblewrap else f"; without bubblewrap these are: {', '.join(looking.named_harmless())}"
        unknown = looking.named_not_looking(touch.command)
        which = f" (not known: {', '.join(unknown)})" if unknown else ""
        return f"only commands that are known to read and change nothing run in {mode} mode{which}{few}"
    if touch.opaque and mode == "read-only":
        return f"{case.tool} does not say what it would change, so it does not run in read-only mode"
    for host in touch.hosts:
        if host.method.upper() not in hosts.PLAIN_METHODS:
            return f"{host.method.upper()} would send data to {host.host}, which {mode} mode does not allow"
    return None


# ------------------------------------------------------------------ paths


def protected(case: Case) -> str | None:
    """Protects AdderClaw's own files, interfaces of the kernel, and files that make other programs run."""
    for fact in _facts(case):
        reason = _malformed(fact) or _protected_always(case, fact)
        if reason:
            return reason
    for fact in case.touch.writes:
        for path in () if paths.is_device(fact) else paths.forms(fact):
            reason = _protected_write(case, path)
            if reason:
                return reason
    writing = isinstance(case.touch.command, Raw) and may_write(case.touch.command)
    for path in _mentioned_paths(case):
        if _is_own_file(case, path) or paths.is_kernel_path(path) or (writing and _protected_write(case, path)):
            return f"the command names {path}, which is protected"
    return removal.protected(case)


def _malformed(fact: PathFact) -> str | None:
    if fact.path == UNRESOLVED:
        return "the command changes directory in too many ways to check its paths: use paths from the workspace"
    if paths.is_normal_absolute(fact.path) and paths.is_normal_absolute(fact.real):
        return None
    return f"{fact.given!r} did not come to an absolute path"


def _protected_always(case: Case, fact: PathFact) -> str | None:
    if fact.identity is not None and fact.identity in case.protected_ids:
        return f"{fact.path} is one of AdderClaw's own files under another name"
    for path in paths.forms(fact):
        if _is_own_file(case, path):
            return f"{path} belongs to AdderClaw itself"
        if paths.is_kernel_path(path):
            return f"{path} is not a file but an interface of the system"
        if traits(case.tool).searches_content and paths.contained_path(path, (case.policy.home,)):
            return f"{path} holds AdderClaw's own folder: search a folder that does not"
    return None


def _is_own_file(case: Case, path: str) -> bool:
    """Whether a path is the database, the log, a key, or a file of AdderClaw's home that the model may not read."""
    policy = case.policy
    loose = paths.fold_path(path)
    for file in policy.own_files:
        own = paths.fold_path(file)
        if any(paths.beneath(loose, own + ending) for ending in ("", *OWN_ENDINGS)):
            return True
    if not policy.home or not paths.containing_folder(path, (policy.home,)):
        return False
    if _is_in_root_at_home(case, path) or (policy.kept and beneath(path, policy.kept)):
        return False
    home = paths.fold_path(policy.home)
    first = loose[len(home) + 1 :].split("/", 1)[0]
    if first == home_names.PLUGINS:  # only trusted plugins are readable
        return not any(beneath(path, folder) for folder in policy.shown)
    return first not in paths.READABLE_AT_HOME


def _is_in_root_at_home(case: Case, path: str) -> bool:
    """Whether a path is in a workspace inside AdderClaw's own folder."""
    home, loose = paths.fold_path(case.policy.home), paths.fold_path(path)
    roots = (root for root in map(paths.fold_path, case.policy.roots) if root != home and paths.beneath(root, home))
    return any(paths.beneath(loose, root) for root in roots)


def _protected_write(case: Case, path: str) -> str | None:
    policy = case.policy
    if paths.containing_folder(path, policy.traces):
        return f"{path} is where the traces of runs are kept ([logging] jsonl_dir): AdderClaw alone writes there"
    if paths.is_run(path, policy.run_folders, policy.roots):
        return f"{path} is the record of a run"
    if policy.home and paths.containing_folder(path, (policy.home,)) and not _is_in_root_at_home(case, path):
        return f"{path} belongs to AdderClaw itself"
    if paths.containing_folder(path, policy.started):
        own = paths.containing_folder(path, policy.hooked)
        by = "a hook of your own settings" if own else "this project's trusted settings (hooks, MCP servers)"
        return f"{path} is run by {by}: change it yourself"
    if paths.containing_folder(path, policy.settings):
        return f"{path} is protected: as this project's settings it can say what is denied; change it yourself"
    name = None if is_shown_before_write(case, path) else paths.protected_name(path, policy.roots)
    return f"{path} is protected: {name} decides what other programs run" if name else None


def is_shown_before_write(case: Case, path: str) -> bool:
    """Whether the operator sees a write first: of a tool that writes one file in the workspace, not git's or
    AdderClaw's."""
    roots = case.policy.roots
    inside = traits(case.tool).writes and paths.root_of(path, roots) is not None
    return inside and paths.denied_name(path, roots) is None


def run_later(case: Case) -> Opinion | None:
    """Writing files that other programs run later needs approval in every mode, whatever a rule allows."""
    for fact in case.touch.writes if traits(case.tool).writes else ():
        for path in paths.forms(fact):
            if name := paths.protected_name(path, case.policy.roots):
                return Opinion("run later", "ask", f"{path}: {name} decides what other programs run")
    return None


def forbidden_paths(case: Case) -> str | None:
    """Denies reading and writing in `forbidden_paths`."""
    listed = case.policy.forbidden_paths
    for fact in _facts(case):
        for path in paths.forms(fact):
            folder = paths.containing_folder(path, listed)
            if folder is None and traits(case.tool).searches_content:
                folder = paths.contained_path(path, listed)
            if folder:
                return f"{path} is forbidden: {folder} is in [security] forbidden_paths"
    for path in _mentioned_paths(case):
        folder = paths.containing_folder(path, listed)
        if folder:
            return f"the command names {path}, and {folder} is in [security] forbidden_paths"
    return removal.forbidden(case)


def workspace(case: Case) -> str | None:
    policy = case.policy
    # A sandbox confines raw bash anyway, and not every word that looks like a path is one.
    if policy.sandboxed and isinstance(case.touch.command, Raw):
        return None
    reads = () if case.free_reads else [fact for fact in case.touch.reads if not is_kept(fact, case)]
    # The file tools can only write beneath a root, whatever else is allowed.
    writes = case.touch.writes if policy.workspace_only or case.touch.command is None else ()
    for fact in (*(reads if policy.workspace_only else ()), *writes):
        if not paths.is_device(fact) and not is_inside(fact, policy.roots) and not is_scratch(fact, case):
            leads = f" (it leads to {fact.real})" if fact.real != fact.path else ""
            also = " or workspace_only = false" if fact not in case.touch.writes else ""
            return (
                f"{fact.path}{leads} is outside the workspace {policy.workspace}:"
                f" [security] additional_directories{also} would allow it"
            )
    return None


def _facts(case: Case) -> Iterator[PathFact]:
    return (fact for fact in (*case.touch.reads, *case.touch.writes) if not paths.is_device(fact))


def _mentioned_paths(case: Case) -> Iterator[str]:
    """Paths among the words of raw bash, and of interpreter code without a sandbox."""
    command, policy = case.touch.command, case.policy
    words: list[str] = []
    if isinstance(command, Raw):
        words += command.words
    elif isinstance(command, Plan) and not policy.sandboxed:
        words += commands.code_words(command)
    for path in paths.mentioned_paths(words, policy.user_home, policy.workspace):
        if path not in paths.DEVICES:
            yield path


# ------------------------------------------------------------------ commands and hosts


def forbidden_commands(case: Case) -> str | None:
    command = case.touch.command
    if not isinstance(command, Plan | Raw):
        return None
    name = commands.forbidden(command, case.policy.forbidden_commands, sandboxed=case.policy.sandboxed)
    if name is None:
        return None
    instead = f"; the tool {DELETE} takes a path of the workspace" if name in removal.COMMANDS else ""
    return f"{name!r} is in [security] forbidden_commands{instead}"


def destructive(case: Case) -> str | None:
    command = case.touch.command
    if not isinstance(command, Plan | Raw):
        return None
    pattern = commands.destructive(command)
    return f"the command contains {pattern}, which is never run" if pattern else None


def web_hosts(case: Case) -> str | None:
    for fact in case.touch.hosts:
        reason = hosts.refusal(fact, case.policy.allowed_domains)
        if reason:
            return reason
    return None
