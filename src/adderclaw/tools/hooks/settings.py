"""Reads the configured hooks in the order in which they run."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal

from adderclaw.config.managed import FILE as MANAGED
from adderclaw.core.errors import ConfigError, Problem
from adderclaw.core.record import record
from adderclaw.core.types import Json
from adderclaw.sandbox.programs import resolve
from adderclaw.sandbox.workspace import is_named
from adderclaw.storage.text import compact
from adderclaw.tools.hooks.catalogue import EVENTS

if TYPE_CHECKING:
    from adderclaw.config.plugins.loaded_plugin import LoadedPlugin

type Kind = Literal["command", "http", "prompt", "agent", "mcp_tool", "callback"]
"""A callback is a function of an embedding program; no file can name one."""
type Shell = Literal["bash", "sh", "powershell"]

BUILT_IN_VALIDATORS = frozenset({"bash-security", "bashsecurity", "adderclaw-protection", ".adderclaw-protection"})
"""Validators that are part of the policy: naming them changes nothing, and they cannot be removed."""
SECONDS: dict[str, float] = {"prompt": 30.0, "agent": 60.0}
KIND_FIELDS = ("headers", "allowedEnvVars", "model", "continueOnBlock", "server", "tool", "input")
SESSION_END_LONGEST = 60.0
HOOK_TIMEOUT, END_TIMEOUT = "SDLC_HOOK_TIMEOUT_MS", "SDLC_SESSIONEND_HOOK_TIMEOUT_MS"
DISABLE_VARIABLE = "SDLC_DISABLE_ALL_HOOKS"
PLAIN_PATH = re.compile(r"[\w./@+-]+")
"""A path that needs no quoting in any shell."""

type PluginHooks = tuple[LoadedPlugin, Sequence[Json]]
"""A plugin and its hooks."""
type MarkedEntries = list[tuple[Json, str, LoadedPlugin | None]]
"""Entries, each with the reason why it does not run and its plugin."""


@record
class Hook:
    """One configured hook. Its ordinal is its place among all hooks, whatever their event."""

    ordinal: int
    event: str
    matcher: str = ""
    kind: Kind = "command"
    command: str = ""
    """The shell command, or for other kinds the URL, the prompt, or the tool with its input."""
    argv: tuple[str, ...] = ()
    """If set, run directly, without a shell."""
    shell: Shell = "bash"
    powershell: str = "pwsh"
    """The program of that shell, as the operator's settings name it."""
    condition: str = ""
    """A permission rule: the hook runs only for calls that it matches."""
    seconds: float = 60.0
    source: str = ""
    in_background: bool = False
    """Whether it runs in the background and decides nothing."""
    once: bool = False
    failure_blocks: bool = False
    must_run: bool = False
    """Whether it is a named validator, which blocks if it cannot run."""
    trusted: Mapping[str, str] = field(default_factory=dict[str, str])
    """File of the workspace → its hash as the operator trusted it."""
    more: Json = field(default_factory=dict[str, Any])
    """Fields of its own kind: headers, allowedEnvVars, model, continueOnBlock, server, tool, input."""
    skipped: str = ""
    """Why it never runs; then only its row is written."""
    plugin: "LoadedPlugin | None" = None
    """The plugin that it belongs to."""
    is_managed: bool = False
    """Whether it is the administrator's: no file or variable of the user affects how it is started."""


def read_hooks(
    entries: Sequence[Json],
    untrusted: Sequence[Json] = (),
    *,
    brought: "Sequence[PluginHooks]" = (),
    of_session: Sequence[Json] = (),
    managed: Sequence[Json] = (),
    origins: Mapping[str, str],
    home: str,
    project: str,
    environ: Mapping[str, str],
    trusted: Mapping[str, str] | None = None,
    powershell: str = "pwsh",
    disabled: bool = False,
) -> tuple[Hook, ...]:
    """All hooks in order: those of the settings in their order, of plugins by name, of the session, the administrator's
    (which see the result of all others), and finally those of an untrusted project, which do not run."""
    off = disabled or environ.get(DISABLE_VARIABLE) == "1"
    own = [(index, entry) for index, entry in enumerate(entries) if entry not in managed]
    named = [{"source": origins.get(f"hooks[{index}]", ""), **entry} for index, entry in own]
    runs, waits = "disabled" if off else "", "disabled" if off else "untrusted_workspace"
    marked: MarkedEntries = [(entry, runs, None) for entry in named]
    marked += [(entry, runs, plugin) for plugin, managed_hooks in brought for entry in managed_hooks]
    marked += [(entry, runs, None) for entry in of_session]
    waiting: MarkedEntries = [(entry, waits, None) for entry in untrusted]
    places = tuple(os.path.join(folder, "hooks") for folder in (home, os.path.join(project, ".adderclaw")))

    def build(marked_entries: MarkedEntries) -> Iterator[Hook]:
        hooks = (
            _hook(entry, why, places, environ, plugin) for entry, why, plugin in marked_entries if not _is_gate(entry)
        )
        return _without_repeats(hooks)

    of_administrator = [
        replace(_hook({"source": MANAGED, **entry}, "disabled" if disabled else "", (), {}), is_managed=True)
        for entry in managed
        if not _is_gate(entry)
    ]
    return tuple(
        replace(hook, ordinal=ordinal, trusted=trusted or {}, powershell=powershell)
        for ordinal, hook in enumerate((*build(marked), *of_administrator, *build(waiting)))
    )


def _is_gate(entry: Json) -> bool:
    return str(entry.get("name", "")).strip().lower().replace(" ", "-") in BUILT_IN_VALIDATORS


def _hook(
    entry: Json,
    skipped: str,
    places: Sequence[str],
    environ: Mapping[str, str],
    plugin: "LoadedPlugin | None" = None,
) -> Hook:
    kind: Kind = entry.get("type", "command")
    event = str(entry["hook_event_name"])
    argv: tuple[str, ...] = ()
    command = str(entry.get({"http": "url", "command": "command"}.get(kind, "prompt"), ""))
    if kind == "mcp_tool":
        command = f"{entry['server']}/{entry['tool']} {compact(entry.get('input', {}))}"
    if kind == "callback":
        command = str(entry["callback_id"])
    if "name" in entry and not command:
        command = _validator(str(entry["name"]), places)
        argv = (command,)
    elif "args" in entry:
        argv = (command, *entry["args"])
    if plugin is not None:
        argv = tuple(map(plugin.filled, argv))
        if argv or PLAIN_PATH.fullmatch(plugin.root + plugin.data):  # else the shell fills it in
            command = plugin.filled(command)
    return Hook(
        ordinal=0,
        event=event,
        matcher=str(entry.get("matcher", "")),
        kind=kind,
        command=command,
        argv=argv,
        shell=entry.get("shell", "bash"),
        condition=str(entry.get("if", entry.get("if_condition", ""))),
        seconds=_seconds(entry, event, kind, environ),
        source=str(entry.get("source", "")),
        in_background=bool(entry.get("async") or entry.get("asyncRewake")),
        once=bool(entry.get("once")),
        failure_blocks=entry.get("onFailure") == "block",
        must_run="name" in entry and not entry.get("command"),
        more={name: entry[name] for name in KIND_FIELDS if name in entry},
        skipped=skipped,
        plugin=plugin,
    )


def _validator(name: str, places: Sequence[str]) -> str:
    """The program of a named validator: the operator's, else the project's; if neither exists, the operator's path."""
    candidates = [os.path.join(folder, name) for folder in places]
    return next((path for path in candidates if is_named(path)), candidates[0])


def _seconds(entry: Json, event: str, kind: str, environ: Mapping[str, str]) -> float:
    """The time limit: the hook's own, else the operator's variable, else the event's default."""
    ends = event == "SessionEnd"
    if "timeout" in entry:
        return min(float(entry["timeout"]), SESSION_END_LONGEST) if ends else float(entry["timeout"])
    milliseconds = environ.get(END_TIMEOUT if ends else HOOK_TIMEOUT, "")
    if milliseconds.isascii() and milliseconds.isdigit() and int(milliseconds) > 0:
        return int(milliseconds) / 1000
    return SECONDS.get(kind, EVENTS[event].seconds)


def _without_repeats(hooks: Iterable[Hook]) -> Iterator[Hook]:
    """Leaves out hooks that repeat the previous one."""
    before = None
    for hook in hooks:
        whose = hook.plugin.name if hook.plugin is not None and "_PLUGIN_" in hook.command else ""
        now = (hook.event, hook.matcher, hook.kind, hook.command, hook.argv, hook.shell, hook.condition, whose)
        if now != before:
            yield hook
        before = now


def hooks_by_event(hooks: Iterable[Hook]) -> dict[str, tuple[Hook, ...]]:
    """Event → its hooks, in order."""
    by_event: dict[str, list[Hook]] = {}
    for hook in hooks:
        by_event.setdefault(hook.event, []).append(hook)
    return {event: tuple(chain) for event, chain in by_event.items()}


def require_shells(hooks: Iterable[Hook], roots: Sequence[str]) -> None:
    """Raises ConfigError at the start for a hook whose shell is missing."""
    for hook in hooks:
        plain = hook.kind == "command" and not hook.argv and not hook.skipped
        if plain and hook.shell != "powershell" and find_shell(hook.shell, roots) is None:
            fix = f"install {hook.shell}, or give the hook another shell (bash, sh, powershell) or args"
            raise ConfigError([Problem(hook.source, f"hooks[{hook.ordinal}]", f"{hook.shell} is not installed; {fix}")])


def find_shell(shell: Shell, roots: Sequence[str], powershell: str = "pwsh") -> str | None:
    """The path of a shell: the usual one, else the first on PATH outside the workspace."""
    if shell == "powershell":
        return resolve(powershell, roots) or (resolve("powershell", roots) if powershell == "pwsh" else None)
    for path in (f"/bin/{shell}", f"/usr/bin/{shell}"):
        if os.path.exists(path):
            return path
    return resolve(shell, roots)
