"""Run options that override the configuration, and how a resumed run restores them."""

import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal

from adderclaw.core.errors import UsageError
from adderclaw.core.json_text import canonical
from adderclaw.core.overseer import NO_SUPERVISOR, RunSupervisor
from adderclaw.core.record import record
from adderclaw.core.types import DEFAULT_THINKING, Json, Thinking

if TYPE_CHECKING:
    from adderclaw.config import Loaded
    from adderclaw.config.model_facts.found_keys import Chooser

FIXTURE_VARIABLE = "ADDERCLAW_MOCK_FIXTURE"
"""Environment variable with the script of the built-in `local` provider."""

STORED = ("provider", "model", "profile", "config_file")
"""Options that a resumed run restores, unless they are set again."""


type CallBack = Callable[[str, Json], Awaitable[Json]]
"""(hook id, event) → the hook's answer; raises OSError if the embedding program is gone."""


@record
class Options:
    """Options of a run that override the configuration."""

    config_file: str | None = None
    workspace: str | None = None
    provider: str | None = None
    model: str | None = None
    thinking: Thinking = DEFAULT_THINKING
    """How much the models think; overrides their entries."""
    profile: str | None = None
    log_level: str | None = None
    log_file: str | None = None
    """The log file; None for stderr."""
    free_reads: bool = False
    bare: bool = False
    """Take keys only from the environment and the operator's own helper, not from logins or the keyring."""
    maintenance: bool = False
    """The Setup hooks get the trigger `maintenance`."""
    beside: str | None = None
    """The folder of the Agentfile to run, whose policy.toml also applies."""
    overrides: Json = field(default_factory=dict[str, Any])
    """Configuration that overrides every file."""
    amend: "Callable[[Loaded], Loaded] | None" = None
    """Applies options that depend on the configuration, each time it is loaded."""
    own_servers: Mapping[str, object] = field(default_factory=dict[str, object])
    """Name → MCP server in the embedding program."""
    strict_servers: bool = False
    """Do not use the MCP servers of plugins."""
    plugin_dirs: tuple[str, ...] = ()
    """Folders of plugins that the operator activated for this session."""
    plugin_dirs_without_servers: tuple[str, ...] = ()
    """Those of `plugin_dirs` whose MCP servers are not used."""
    skills: Sequence[str] | None = None
    """The skills that the model may call; None for all."""
    own_hooks: Sequence[Json] = ()
    """Hooks in the embedding program: each `{hook_event_name, matcher, type: "callback", callback_id, timeout}`."""
    call_back: "CallBack | None" = None
    """Calls one of `own_hooks`."""
    agents: Json = field(default_factory=dict[str, Any])
    """Subagents that the embedding program defines: name → description, prompt, tools, model."""
    session_id: str | None = None
    """The id of the new session."""
    live: bool = False
    """Show events at the terminal as they happen, instead of the log."""
    headless: bool = False
    """A `run`: the default profile is `runtime.profile`, and run folders are in `logging.jsonl_dir`."""
    asks: Literal["no", "maybe", "must"] = "no"
    """Whether a model is called. If none is configured, a key in the environment selects one; `must` fails without."""
    choose: "Chooser | None" = None
    """Asks a person which of those keys to use; None if nobody is there."""
    here: bool = False
    """Without a project, use the current directory as the workspace instead of `workspace_dir`."""
    walled: bool = False
    """The session runs inside a server that its commands must not reach, so it needs a sandbox to start."""
    supervisor: RunSupervisor = NO_SUPERVISOR
    """Supervises the run from outside its process."""
    looks: bool = False
    """Nothing will run, so in the home directory or `/` use `workspace_dir` instead of refusing."""


A_WEEK = 7 * 86_400.0
"""Seconds. The longest quotas are reset every week."""


def overrides(
    skills_dir: str | None,
    max_turns: int | None,
    debug_llm: bool | None,
    limits: Mapping[str, float] | None = None,
    *,
    wait_for_quota: bool = False,
) -> Json:
    """The options of `run` as configuration."""
    configuration: Json = {}
    if skills_dir is not None:
        configuration["skills"] = {"dir": os.path.abspath(os.path.expanduser(skills_dir))}
    if max_turns is not None:
        configuration["runtime"] = {"max_turns": max_turns}
    if wait_for_quota:
        configuration.setdefault("runtime", {})["quota_wait_seconds"] = A_WEEK
    if debug_llm is not None:
        configuration["logging"] = {"debug_llm_bodies": debug_llm}
    if limits:
        configuration["limits"] = dict(limits)
    return configuration


def unattended(loaded: "Loaded") -> "Loaded":
    """Lift the default cap on tool rounds: nobody is there to continue the work, and the other limits still apply."""
    if loaded.origins.get("runtime.max_tool_rounds", "default") != "default":
        return loaded
    now = loaded.config
    runtime = replace(now.runtime, max_tool_rounds=now.limits.tool_calls)
    return loaded._replace(config=replace(now, runtime=runtime))


def stored(options: Options) -> dict[str, str]:
    """The options to store for resuming the run. Limits are not stored, because a resumed run gets new ones."""
    overrides = {name: value for name, value in options.overrides.items() if name != "limits"}
    values = {name: getattr(options, name) for name in STORED}
    if options.config_file:  # absolute, because the run may be resumed from another directory
        values["config_file"] = os.path.abspath(os.path.expanduser(options.config_file))
    if not options.thinking.is_unset:
        values["thinking"] = canonical(list(options.thinking))
    return {**{name: value for name, value in values.items() if value}, "overrides": canonical(overrides)}


def restored(options: Options, before: Mapping[str, str], run_id: str) -> Options:
    """The options of a resumed run: those stored at its start, except where new ones are set. A stored
    bypassPermissions is not restored, because it must be requested at each start."""
    stored_values: Json = {
        name: value for name in STORED if (value := before.get(name)) and getattr(options, name) is None
    }
    if options.thinking.is_unset and "thinking" in before:
        stored_values["thinking"] = Thinking(*json.loads(before["thinking"]))
    if options.provider is not None:
        stored_values.pop("model", None)  # it belongs to the earlier provider
    if (file := stored_values.get("config_file")) and not os.path.isfile(file):
        raise UsageError(f"{file}, the --config that run {run_id} began with, is gone; put it back, or name another")
    earlier, current = json.loads(before.get("overrides", "{}")), options.overrides
    if earlier.get("permissions", {}).get("defaultMode") == "bypassPermissions":
        del earlier["permissions"]["defaultMode"]
    overrides = {name: {**earlier.get(name, {}), **current.get(name, {})} for name in {*earlier, *current}}
    return replace(options, overrides=overrides, **stored_values)
