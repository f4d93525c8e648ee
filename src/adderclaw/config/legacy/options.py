"""What whoever begins a run says over the configuration, and how a run that is resumed gets it again."""

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
"""Names a script for the built-in `local` provider."""

STORED = ("provider", "model", "profile", "config_file")
"""Options that hold for a run however often it is resumed, unless others are given then."""


type CallBack = Callable[[str, Json], Awaitable[Json]]
"""(a hook's id, the event) → what the hook answers; OSError where nobody is there any more."""


@record
class Options:
    """What the command line may say over the configuration."""

    config_file: str | None = None
    workspace: str | None = None
    provider: str | None = None
    model: str | None = None
    thinking: Thinking = DEFAULT_THINKING
    """How much its models think, over what their entries say."""
    profile: str | None = None
    log_level: str | None = None
    log_file: str | None = None
    """Where the log goes, if not to stderr."""
    free_reads: bool = False
    bare: bool = False
    """Keys only from the environment and the operator's own helper: no login, no keyring."""
    maintenance: bool = False
    """Setup hooks are told that the project is to be looked after."""
    beside: str | None = None
    """The folder of the Agentfile that is run: its policy.toml counts."""
    overrides: Json = field(default_factory=dict[str, Any])
    """Configuration that goes before every file."""
    amend: "Callable[[Loaded], Loaded] | None" = None
    """What the command line says that depends on the configuration: made of it whenever it is read."""
    own_servers: Mapping[str, object] = field(default_factory=dict[str, object])
    """MCP servers that live in the program that embeds us, by their names."""
    strict_servers: bool = False
    """No MCP servers of plugins."""
    plugin_dirs: tuple[str, ...] = ()
    """Folders of plugins that count in this session, by the operator's own word."""
    plugin_dirs_without_servers: tuple[str, ...] = ()
    """Those of them whose MCP servers are not used."""
    skills: Sequence[str] | None = None
    """The only skills that the model may call; None: all."""
    own_hooks: Sequence[Json] = ()
    """Hooks that live there: each `{hook_event_name, matcher, type: "callback", callback_id, timeout}`."""
    call_back: "CallBack | None" = None
    """Calls one of them."""
    agents: Json = field(default_factory=dict[str, Any])
    """Subagents that it defines: name → description, prompt, tools, model."""
    session_id: str | None = None
    """What the new session is called."""
    live: bool = False
    """A run at a terminal: its events are shown as they come, in place of the log."""
    headless: bool = False
    """`run`: the profile is `runtime.profile` unless one is named, and the run folders are in `logging.jsonl_dir`."""
    asks: Literal["no", "maybe", "must"] = "no"
    """Whether a model is asked: then, where none is chosen, a key in the environment chooses; `must` fails without."""
    choose: "Chooser | None" = None
    """How a person is asked which of those keys to use; None where nobody is there."""
    here: bool = False
    """Where no project is found, the workspace is the current directory, not `workspace_dir`."""
    walled: bool = False
    """It lives in a server that its commands must not reach: without a sandbox it does not begin."""
    supervisor: RunSupervisor = NO_SUPERVISOR
    """Who watches the run from outside of its process."""
    looks: bool = False
    """Nothing runs: in the home or `/`, where nothing may, it is explained for `workspace_dir`."""


A_WEEK = 7 * 86_400.0
"""The longest quotas begin anew every week."""


def overrides(
    skills_dir: str | None,
    max_turns: int | None,
    debug_llm: bool | None,
    limits: Mapping[str, float] | None = None,
    *,
    wait_for_quota: bool = False,
) -> Json:
    """The configuration that the options of `run` stand for."""
    made: Json = {}
    if skills_dir is not None:
        made["skills"] = {"dir": os.path.abspath(os.path.expanduser(skills_dir))}
    if max_turns is not None:
        made["runtime"] = {"max_turns": max_turns}
    if wait_for_quota:
        made.setdefault("runtime", {})["quota_wait_seconds"] = A_WEEK
    if debug_llm is not None:
        made["logging"] = {"debug_llm_bodies": debug_llm}
    if limits:
        made["limits"] = dict(limits)
    return made


def unattended(loaded: "Loaded") -> "Loaded":
    """Lift the default cap on tool rounds: nobody is there to continue the work, and the other limits still apply."""
    if loaded.origins.get("runtime.max_tool_rounds", "default") != "default":
        return loaded
    now = loaded.config
    runtime = replace(now.runtime, max_tool_rounds=now.limits.tool_calls)
    return loaded._replace(config=replace(now, runtime=runtime))


def stored(options: Options) -> dict[str, str]:
    """What a run was begun with, for whoever resumes it; its limits are given anew."""
    overrides = {name: value for name, value in options.overrides.items() if name != "limits"}
    given = {name: getattr(options, name) for name in STORED}
    if options.config_file:  # wherever it is resumed from
        given["config_file"] = os.path.abspath(os.path.expanduser(options.config_file))
    if not options.thinking.is_unset:
        given["thinking"] = canonical(list(options.thinking))
    return {**{name: value for name, value in given.items() if value}, "overrides": canonical(overrides)}


def restored(options: Options, before: Mapping[str, str], run_id: str) -> Options:
    """A run goes on with what it was begun with, unless other is given: never by laxer rules unasked."""
    kept: Json = {name: value for name in STORED if (value := before.get(name)) and getattr(options, name) is None}
    if options.thinking.is_unset and "thinking" in before:
        kept["thinking"] = Thinking(*json.loads(before["thinking"]))
    if options.provider is not None:
        kept.pop("model", None)  # it was one of another provider
    if (file := kept.get("config_file")) and not os.path.isfile(file):
        raise UsageError(f"{file}, the --config that run {run_id} began with, is gone; put it back, or name another")
    earlier, given = json.loads(before.get("overrides", "{}")), options.overrides
    if earlier.get("permissions", {}).get("defaultMode") == "bypassPermissions":
        del earlier["permissions"]["defaultMode"]  # it holds for the start that was given it
    overrides = {name: {**earlier.get(name, {}), **given.get(name, {})} for name in {*earlier, *given}}
    return replace(options, overrides=overrides, **kept)
