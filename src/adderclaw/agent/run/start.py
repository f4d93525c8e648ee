"""Starts a command: loads the configuration and creates the event bus."""

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from adderclaw import __version__, config, policy
from adderclaw.agent.session.clock import SystemClock, ids_with_runs
from adderclaw.config.legacy.options import Options
from adderclaw.config.paths import followed
from adderclaw.config.places import FLAGS, foreign_homes
from adderclaw.config.schema import Config
from adderclaw.core import home_names
from adderclaw.core.errors import NoModelChosen, StoreError, UsageError
from adderclaw.core.events import Bus
from adderclaw.core.provider_kinds import BY_NAME
from adderclaw.core.record import mutable_record
from adderclaw.core.redaction import Secrets, looks_secret
from adderclaw.core.types import Clock, Ids, Json, Provider
from adderclaw.models import providers
from adderclaw.models.credentials.sources import Sources
from adderclaw.sandbox.legacy.checkpoints import Checkpoints
from adderclaw.storage.telemetry import log

if TYPE_CHECKING:
    from asyncio import Event
    from typing import TextIO

    from adderclaw.agent.legacy.later_report import Later
    from adderclaw.agent.replay.recorder import Recording
    from adderclaw.agent.run.fetches import Fetches
    from adderclaw.agent.run.plugins import SessionPlugins
    from adderclaw.agent.run.surroundings import Surroundings
    from adderclaw.sandbox.box import Box
    from adderclaw.sandbox.legacy.survey import Surveyor
    from adderclaw.sandbox.workspace import WorkspacePath
    from adderclaw.tools.mcp.servers import Servers


@mutable_record
class Runtime:
    options: Options
    loaded: config.Loaded
    home: str
    clock: Clock
    ids: Ids
    secrets: Secrets
    credentials: Sources
    bus: Bus
    box: "Box | None" = None
    """The sandbox of the session's commands."""
    server_box: "Box | None" = None
    """The sandbox of fetched MCP servers."""
    looker: "Surveyor | None" = None
    """The shared surveyor of the workspace, created on first use; it caches what it has read."""
    later: "Later | None" = None
    """The record of files that programs run later, for this session and its children."""
    servers: "Servers | None" = None
    """The MCP servers of the session; None if none is configured."""
    fetches: "Fetches | None" = None
    """Fetches packages of MCP servers; None if no server is configured."""
    children: int = 0
    """The number of child sessions that run or are being started."""
    child_ended: "Event | None" = None
    """Set whenever a child session ends; created when a caller waits for that."""
    checkpoints: Checkpoints | None = None
    """The checkpoints of this session and its children."""
    started: tuple[str, ...] | None = None
    """Cached: files of the workspace that hooks and trusted settings start."""
    recording: "Recording | None" = None
    """The recording of the run; None if it is not recorded."""
    surroundings_cache: "Surroundings | None" = None
    """Cached: what the operator's network needs in a sandbox."""
    plugins_cache: "tuple[SessionPlugins | None] | None" = None
    """Cached: the session's plugins, in a tuple."""

    @property
    def config(self) -> Config:
        return self.loaded.config

    def close_boxes(self) -> None:
        """End everything that runs in the sandboxes."""
        for box in (self.server_box, self.box):
            if box is not None:
                box.close()

    @property
    def plugins(self) -> "SessionPlugins | None":
        """The plugins of the session. Nothing is imported if none was ever installed."""
        if self.plugins_cache is None:
            plugins = None
            if self.options.plugin_dirs or (not self.options.bare and os.path.lexists(f"{self.home}/plugins.json")):
                from adderclaw.agent.run.plugins import SessionPlugins

                plugins = SessionPlugins(
                    self.home,
                    self.options.plugin_dirs,
                    without_servers=self.options.plugin_dirs_without_servers,
                    installed=not self.options.bare,
                    allowed=self.config.managed.plugins,
                )
                for message in plugins.refused:
                    self.bus.publish({"event_type": "warning", "message": message})
            self.plugins_cache = (plugins if plugins is not None and (plugins.loaded or plugins.held) else None,)
        return self.plugins_cache[0]

    @property
    def key_path(self) -> str:
        return os.path.join(self.home, home_names.RECEIPT_KEY)

    @property
    def surveyor(self) -> "Surveyor":
        if self.looker is None:
            from adderclaw.sandbox.legacy.survey import Surveyor

            self.looker = Surveyor()
            if self.later is not None:
                self.looker.imported = self.later.imported
        return self.looker

    @property
    def surroundings(self) -> "Surroundings":
        """What the operator's network needs in the session's sandbox."""
        if self.surroundings_cache is None:
            from adderclaw.agent.run.surroundings import surroundings

            self.surroundings_cache = surroundings(self.home, workspace_folders(self.loaded.workspace, self.config))
            for message in self.surroundings_cache.problems:
                warn(self, message)
        return self.surroundings_cache

    @property
    def runs_folder(self) -> "WorkspacePath":
        from adderclaw.sandbox import workspace

        if not self.options.headless:
            return workspace.resolved_path(followed(os.path.join(self.home, home_names.RUNS)))
        return workspace.configured_path(self.config.logging.jsonl_dir, self.loaded.workspace)

    def traces(self, root: str, *extra: str) -> tuple[str, ...]:
        """AdderClaw's folders with traces of runs in the workspace and further directories."""
        from adderclaw.sandbox.workspace import is_directory

        name, own = os.path.relpath(self.config.logging.jsonl_dir, self.loaded.workspace), self.options.headless
        if name.startswith(".."):
            return ()
        roots = [
            folder for folder in (root, *extra) if (own and folder == root) or is_directory(os.path.join(folder, name))
        ]
        if not roots:
            return ()
        from adderclaw.sandbox.workspace.traces import traces

        return tuple(path for folder in roots for path in traces(name, folder, headless=own and folder == root))

    @property
    def foreign_homes(self) -> tuple[str, ...]:
        """Folders of other programs whose skills, commands and agents also apply here."""
        return foreign_homes(self.config.compat.claude)

    def stopped(self) -> bool:
        return os.path.lexists(os.path.join(self.home, home_names.ESTOP)) or self.options.supervisor.has_lost_run()


def _require_allowed(profile: str, loaded: config.Loaded) -> None:
    from adderclaw.config import managed

    most = managed.loosest_profile(loaded.managed)
    if managed.PROFILES.index(profile) > managed.PROFILES.index(most):
        raise UsageError(f"--profile {profile}: {managed.FILE} allows {most} at most, and no user can change that")


def start(options: Options) -> Runtime:
    """Load the configuration and create the bus. Nothing is opened for writing yet."""
    if options.profile is not None and options.profile not in policy.PROFILES:
        raise UsageError(f"there is no profile {options.profile!r}; use one of: {', '.join(policy.PROFILES)}")
    loaded, chosen = load_config_and_choose_model(options)
    if options.profile is not None and loaded.managed:
        _require_allowed(options.profile, loaded)
    by_flag = loaded.origins.get("permissions.defaultMode") == FLAGS  # a flag sets the autonomy of this start
    if options.headless and options.profile is None and not by_flag:
        options = replace(options, profile=loaded.config.runtime.profile)
    clock, secrets, ids = SystemClock(), Secrets(), ids_with_runs(loaded.config.logging.run_id_pattern)
    bus = Bus(clock, ids, secrets.clean, full_bodies=loaded.config.logging.debug_llm_bodies)
    level = options.log_level or loaded.config.logging.level
    if options.live and not log.is_silenced():
        from adderclaw.storage.telemetry import console

        bus.add_sink("console", console.sink(sys.stderr))
    else:
        stream = sys.stderr if options.log_file is None else _log_file(options.log_file)
        bus.add_sink("log", log.sink(level, os.environ.get("ADDERCLAW_LOG") == "json", stream))
    sources = credentials(options, loaded, secrets, clock)
    runtime = Runtime(options, loaded, config.home(), clock, ids, secrets, sources, bus)
    profile = options.profile or loaded.config.security.autonomy
    bus.publish({"event_type": "workspace_path", "path": loaded.workspace, "reason": loaded.workspace_reason})
    bus.publish({"event_type": "startup", "version": __version__, "pid": os.getpid(), "profile": profile})
    bus.publish({"event_type": "config_path", "paths": list(loaded.files)})
    for message in (*_new_warnings(loaded), *chosen):
        bus.publish({"event_type": "warning", "message": message})
    return runtime


def _log_file(path: str) -> "TextIO":
    try:
        return open(os.path.expanduser(path), "a", encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"the log cannot be written to {path[:200]!r}: {error}") from None


def start_reading(options: Options) -> Runtime:
    """Start a command that only shows things, with the same settings as a run."""
    runtime = start(options)
    before, runtime.loaded = runtime.loaded, with_operators_own(runtime.loaded)
    if runtime.loaded is not before:
        warn(runtime, runtime.loaded.warnings[-1])
    return runtime


def with_operators_own(loaded: config.Loaded) -> config.Loaded:
    """The settings with the operator's own `effective` row applied, as in each run."""
    own = _operators_row(loaded.config.memory.path)
    return loaded if own is None else config.with_snapshot(loaded, own)


def start_agent(options: Options) -> Runtime:
    """Start a conversation on the command line; raises if that channel is switched off."""
    runtime = start(options)
    if not runtime.config.channels.cli.enabled:
        raise UsageError("the command line is switched off as a channel (channels.cli.enabled = false)")
    return runtime


def _new_warnings(loaded: config.Loaded) -> tuple[str, ...]:
    """The warnings, without notes that were already shown once."""
    if not loaded.notes:
        return loaded.warnings
    from adderclaw.config import shown_once

    new = shown_once.not_shown_before(config.home(), loaded.notes)
    return tuple(text for text in loaded.warnings if text not in loaded.notes or text in new)


def _load(options: Options, overrides: Json) -> config.Loaded:
    return loaded_by(options, options.workspace, overrides, here=options.here)


def loaded_by(options: Options, workspace: str | None, overrides: Json, *, here: bool = False) -> config.Loaded:
    """Load the configuration for a workspace with the options applied."""
    loaded = config.load(
        config_file=options.config_file,
        workspace=workspace,
        overrides=overrides,
        beside=options.beside,
        here=here,
        looks=options.looks,
    )
    if options.amend is not None:
        loaded = options.amend(loaded)
        if loaded.managed:
            from adderclaw.config import managed

            loaded = managed.held(loaded)
    channels = loaded.config.channels
    if channels.webhook or channels.cli.tools_allow != ["*"]:
        from adderclaw.agent.tool_lists import require_known

        require_known(options, loaded)
    return loaded


def load_config_and_choose_model(options: Options) -> tuple[config.Loaded, tuple[str, ...]]:
    """The configuration of a run, and notes about its model.

    If no model is configured, a key in the environment chooses one; raises NoModel if one is needed and none is found.
    """
    loaded = _load(options, options.overrides)
    now = loaded.config
    name = (
        options.provider or providers.choice(options.model or now.default_provider, now, now.default_provider).provider
    )
    if options.asks == "no" or not _asks_nobody(now, name):
        return loaded, ()
    from adderclaw.config.model_facts import found_keys

    if name in now.providers.models and not found_keys.is_unscripted(now, name):
        return loaded, ()
    if options.provider is None and "model_config" in (_operators_row(now.memory.path) or {}):
        return loaded, ()
    keys = found_keys.undeclined_keys(config.home())
    if options.provider is not None:  # the option names an entry with a real model, or a provider with a key
        keys = [key for key in keys if key.kind == options.provider]
    elif keys and options.choose is not None:
        if options.choose(keys) is not None:  # which was stored in the operator's configuration
            return _load(options, options.overrides), ()
        keys = []
    key = found_keys.only_key(keys)
    if key is None and options.asks == "must" and name in now.providers.models:
        raise NoModelChosen(found_keys.NO_MODEL)
    if key is None:
        return loaded, ()
    overrides, used = found_keys.with_key(options.overrides, key, now)
    why = f"no model is configured, so {used} is used; `adderclaw onboard` chooses one for good"
    return _load(options, overrides), (why,) if options.provider is None else ()


def chosen_model(options: Options, now: Config) -> providers.Choice:
    """The model that the options or the configuration choose."""
    if options.model and looks_secret(options.model):
        raise UsageError(config.KEY_AS_MODEL)
    if options.provider:
        return providers.choice_at(options.provider, options.model or providers.model_of(options.provider, now), now)
    return providers.choice(options.model or now.default_provider, now, now.default_provider)


def open_provider(runtime: Runtime, name: str) -> Provider:
    return providers.make(
        name,
        runtime.config,
        secrets=runtime.secrets,
        tell=runtime.bus.publish,
        clock=runtime.clock,
        credentials=runtime.credentials,
    )


def _operators_row(path: str) -> Json | None:
    """The operator's own row of settings, which overrides the files once a run has begun."""
    from adderclaw.storage import Store, settings

    if not Store.exists(path):
        return None
    try:
        store = Store.open(path, read_only=True)
    except StoreError:  # reported when it is opened for writing
        return None
    try:
        return settings.operator_settings(store)
    finally:
        store.close()


def _asks_nobody(now: Config, name: str) -> bool:
    entry = now.providers.models.get(name)
    return entry is None or BY_NAME[entry.kind].has_no_server


def credentials(options: Options, loaded: config.Loaded, secrets: Secrets, clock: Clock) -> Sources:
    """The sources of keys. Keys in the environment are registered for redaction."""
    home = config.home()
    sources = Sources(
        secrets,
        clock,
        auth=loaded.config.auth,
        home=home,
        workspace=loaded.workspace,
        bare=options.bare,
        operators_own=lambda key: operators_own(options, loaded, key),
        path=lambda: helpers_path(loaded),
    )
    sources.register(loaded.config.providers.models)
    for variable in (loaded.config.web.gateway_token_env, loaded.config.web.search_key_env):
        secrets.add(os.environ.get(variable or "", ""))
    if any("@" in value for name, value in os.environ.items() if name.lower().endswith("_proxy")):
        from adderclaw.models.http import upstream

        for login in upstream.logins():
            secrets.add(login)
    return sources


def helpers_path(loaded: config.Loaded) -> str:
    """The PATH for the operator's programs that run outside of the sandbox."""
    from adderclaw.sandbox.programs import search_path

    return os.pathsep.join(search_path(workspace_folders(loaded.workspace, loaded.config)))


def workspace_folders(workspace: str, now: Config) -> tuple[str, ...]:
    """The folders of the workspace, with links resolved. Commands can write them, so no file there configures anything
    for the operator.
    """
    extra = (*now.security.additional_directories, *now.permissions.additionalDirectories)
    return (followed(workspace), *map(followed, extra))


def operators_own(options: Options, loaded: config.Loaded, key: str) -> bool:
    """Whether a setting is a default, or set by the operator: on the command line or in a file of theirs."""
    config_file = options.config_file and os.path.abspath(os.path.expanduser(options.config_file))
    own = (config_file, os.path.expanduser("~/.config/adderclaw/agent.yaml"), "default", FLAGS)
    origin = loaded.origins.get(key, "default")
    return origin in own or os.path.dirname(origin) == config.home()


def warn(runtime: Runtime, message: str) -> None:
    runtime.bus.publish({"event_type": "warning", "message": message})
