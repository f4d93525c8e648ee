"""The flags of print mode as data, and how a command line is read by them."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

from adderclaw.core.errors import UsageError
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import EFFORTS, THINKING_MODES

type Kind = Literal["switch", "text", "each", "texts", "rules", "maybe"]
"""each: one word, as often as it is given. texts: one or more words. rules: the same, split at commas and blanks
outside of brackets. maybe: a word or none."""


PROFILES = ("supervised", "sandboxed", "readonly", "permissive")


class Flag(NamedTuple):
    name: str
    names: tuple[str, ...]
    kind: Kind
    help: str
    metavar: str = ""
    words: tuple[str, ...] = ()
    """The only values that there are."""
    no_effect: str = ""
    """Why the flag changes nothing here. It is accepted, and the client is told."""
    rejected: str = ""
    """Why a run with this flag does not start: without its effect the run would be a different one."""


UNUSED = (
    Flag(
        "thinking_display",
        ("--thinking-display",),
        "text",
        "How thinking is shown.",
        "HOW",
        no_effect="thinking is shown as the model sends it",
    ),
    Flag(
        "task_budget",
        ("--task-budget",),
        "text",
        "A budget of tokens that the model is told of.",
        "N",
        no_effect="the model is told of no budget; --max-turns, --max-budget-usd and [limits] end a turn",
    ),
    Flag(
        "no_persistence",
        ("--no-session-persistence",),
        "switch",
        "Do not store the conversation.",
        no_effect="what an agent did stays on record; `adderclaw memory clear` removes it",
    ),
    Flag(
        "session_mirror",
        ("--session-mirror",),
        "switch",
        "Copy the transcript to the client.",
        no_effect="the client's session store receives nothing; the transcript is in AdderClaw's own store",
    ),
    Flag(
        "project_config_root",
        ("--project-config-root",),
        "text",
        "The project whose settings count.",
        "DIR",
        no_effect="a project's settings are those of the workspace, and count once they are trusted",
    ),
    Flag(
        "resume_at",
        ("--resume-session-at",),
        "text",
        "Resume up to a message.",
        "UUID",
        rejected="a conversation is resumed as a whole; leave it out, or use --fork-session",
    ),
    Flag(
        "resume_drops",
        ("--resume-drops-turn",),
        "text",
        "Resume without this turn.",
        "UUID",
        rejected="a conversation is resumed as a whole; leave it out, or use --fork-session",
    ),
    Flag(
        "managed_settings",
        ("--managed-settings",),
        "text",
        "Settings of an administrator.",
        "JSON",
        rejected="an administrator's settings come from a file that only root can write; leave it out",
    ),
    Flag(
        "managed_in_initialize",
        ("--managed-settings-in-initialize",),
        "switch",
        "The same in initialize.",
        rejected="an administrator's settings come from a file that only root can write; leave it out",
    ),
)
"""Flags that SDKs send and that change nothing here."""

FLAGS = (
    Flag("print", ("-p", "--print"), "switch", "Answer one message on stdout and exit; what is piped is its context."),
    Flag(
        "output_format",
        ("--output-format",),
        "text",
        "The answer alone, one result object, or a line for each message.",
        "FORMAT",
        ("text", "json", "stream-json"),
    ),
    Flag(
        "input_format",
        ("--input-format",),
        "text",
        "stream-json: messages and control requests come on stdin, one a line.",
        "FORMAT",
        ("text", "stream-json"),
    ),
    Flag("partial", ("--include-partial-messages",), "switch", "With stream-json: parts of an answer as they arrive."),
    Flag("replay", ("--replay-user-messages",), "switch", "With stream-json on both sides: say each message again."),
    Flag(
        "json_schema", ("--json-schema",), "text", "The answer must be JSON that fits; it may be mended once.", "JSON"
    ),
    Flag("max_turns", ("--max-turns",), "text", "At most so many replies of the model.", "N"),
    Flag("max_budget", ("--max-budget-usd",), "text", "At most so many US dollars.", "X"),
    Flag("limit", ("--limit",), "each", "One of [limits], for this run; may be repeated.", "NAME=VALUE"),
    Flag("profile", ("--profile",), "text", "How much may happen without asking.", "PROFILE", PROFILES),
    Flag("allowed", ("--allowed-tools", "--allowedTools"), "rules", "Permission rules that allow.", "RULE…"),
    Flag("disallowed", ("--disallowed-tools", "--disallowedTools"), "rules", "Permission rules that deny.", "RULE…"),
    Flag("tools", ("--tools",), "rules", "Only these built-in tools: names, default, or an empty text.", "NAME…"),
    Flag(
        "permission_mode",
        ("--permission-mode",),
        "text",
        "What happens without asking.",
        "MODE",
        ("default", "manual", "acceptEdits", "plan", "dontAsk", "bypassPermissions", "auto"),
    ),
    Flag(
        "skip_permissions",
        ("--dangerously-skip-permissions",),
        "switch",
        "The same as --permission-mode bypassPermissions: what no rule and no guard denies runs, in the sandbox.",
    ),
    Flag(
        "allow_bypass",
        ("--allow-dangerously-skip-permissions",),
        "switch",
        "With stream-json: the client may change to bypassPermissions later.",
    ),
    Flag(
        "permission_prompt_tool",
        ("--permission-prompt-tool",),
        "text",
        "stdio: whoever speaks stream-json is asked.",
        "NAME",
    ),
    Flag(
        "permission_prompts",
        ("--permission-prompts",),
        "text",
        "none: nobody is asked, and what would be asked about is denied.",
        "WHO",
        ("host", "none"),
    ),
    Flag("system_prompt", ("--system-prompt",), "text", "In place of the usual system prompt.", "TEXT"),
    Flag("system_prompt_file", ("--system-prompt-file",), "text", "The same from a file.", "FILE"),
    Flag("append", ("--append-system-prompt",), "text", "After the system prompt.", "TEXT"),
    Flag("append_file", ("--append-system-prompt-file",), "text", "The same from a file.", "FILE"),
    Flag("mcp_config", ("--mcp-config",), "texts", "MCP servers: files, or JSON.", "FILE|JSON…"),
    Flag("strict_mcp", ("--strict-mcp-config",), "switch", "No other MCP servers than those."),
    Flag("plugin_dir", ("--plugin-dir",), "each", "A plugin by its folder, for this session; may be repeated.", "DIR"),
    Flag("plugin_dir_no_mcp", ("--plugin-dir-no-mcp",), "each", "The same without the plugin's MCP servers.", "DIR"),
    Flag("agent", ("--agent",), "text", "The subagent whose prompt, tools and model the conversation has.", "NAME"),
    Flag("agents", ("--agents",), "text", "Subagents by name: description, prompt, tools, model.", "JSON"),
    Flag("settings", ("--settings",), "text", "Settings over those of your files.", "FILE|JSON"),
    Flag("sources", ("--setting-sources",), "text", "user, project, local: all count here, if trusted.", "LIST"),
    Flag("hook_events", ("--include-hook-events",), "switch", "With stream-json: a line for each hook that ran."),
    Flag("session_id", ("--session-id",), "text", "The id of the new session: a UUID.", "UUID"),
    Flag("go_on", ("--continue", "-c"), "switch", "Go on with the last conversation here."),
    Flag("resume", ("--resume", "-r"), "maybe", "Go on with this conversation.", "ID"),
    Flag("fork", ("--fork-session",), "switch", "Go on in a copy; the conversation itself stays as it is."),
    Flag("model", ("--model",), "text", "Another model, or an entry of providers.models.", "MODEL"),
    Flag("effort", ("--effort",), "text", "How much the model thinks.", "LEVEL", EFFORTS),
    Flag("thinking", ("--thinking",), "text", "Whether the model thinks.", "MODE", THINKING_MODES),
    Flag("thinking_tokens", ("--max-thinking-tokens",), "text", "At most so many tokens of thought.", "N"),
    Flag("fallback_model", ("--fallback-model",), "text", "Models to ask when it fails, in order.", "MODEL,…"),
    Flag("add_dir", ("--add-dir",), "texts", "Directories beside the workspace.", "DIR…"),
    Flag("workspace", ("--workspace",), "text", "Where the agent may work.", "DIR"),
    Flag("config", ("--config",), "text", "This file alone, over the built-in defaults.", "FILE"),
    Flag("provider", ("--provider",), "text", "A name under providers.models.", "NAME"),
    Flag("bare", ("--bare",), "switch", "No login, no instruction files, no skills."),
    Flag("maintenance", ("--maintenance",), "switch", "Begin with the Setup hooks, in maintenance mode."),
    Flag("betas", ("--betas",), "rules", "Beta headers for Anthropic's API.", "NAME…"),
    Flag("await_initialize", ("--await-initialize",), "switch", "initialize is always read first; accepted."),
    Flag("initialize_fields", ("--initialize-fields",), "text", "Fields of initialize that count as flags.", "LIST"),
    Flag("quiet", ("--quiet", "-q"), "switch", "Nothing on stderr but why it failed."),
    Flag("verbose", ("--verbose",), "switch", "Accepted; stream-json always has every message. The log: --debug."),
    Flag("debug", ("--debug", "--debug-to-stderr"), "switch", "The log on stderr."),
    Flag("debug_file", ("--debug-file",), "text", "The log in this file.", "FILE"),
    *UNUSED,
    Flag("help", ("--help", "-h"), "switch", "These lines."),
)

MEANT = frozenset({"-p", "--print", "--output-format", "--input-format"})
"""One of these without a command says that print mode is meant: a program that speaks stream-json gives no -p."""

_BY_NAME = {name: flag for flag in FLAGS for name in flag.names}


def is_print(arguments: Sequence[str]) -> bool:
    """Whether a command line that begins with no command is one of print mode."""
    return any(argument.partition("=")[0] in MEANT for argument in arguments)


def is_stream(arguments: Sequence[str]) -> bool:
    """Whether a command line asks for stream-json, also one with another mistake in it."""
    return "--output-format=stream-json" in arguments or ("--output-format", "stream-json") in pairwise(arguments)


def parsed(arguments: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """What each flag was given, by its name, and the words that belong to none; UsageError says what is wrong."""
    given: dict[str, Any] = {}
    words: list[str] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            return given, words + rest
        if not argument.startswith("-") or argument == "-":
            words.append(argument)
            continue
        name, joined, value = argument.partition("=") if argument.startswith("--") else (argument, "", "")
        flag = _BY_NAME.get(name)
        if flag is None:
            raise UsageError(_unknown(name))
        _give(given, flag, name, value if joined else None, rest)
    return given, words


def _give(given: dict[str, Any], flag: Flag, name: str, joined: str | None, rest: list[str]) -> None:
    if flag.rejected:
        raise UsageError(f"{name} is not supported: {flag.rejected}")
    if flag.kind == "switch":
        if joined is not None:
            raise UsageError(f"{name} takes no value")
        given[flag.name] = True
        return
    if flag.kind in ("texts", "rules"):
        values = [joined] if joined is not None else _up_to_a_flag(rest)
        if not values:
            raise UsageError(f"{name}: {flag.metavar} is missing")
        if flag.kind == "rules":
            values = [rule for value in values for rule in split_rules(value)]
        given[flag.name] = [*given.get(flag.name, ()), *values]
        return
    if flag.name in given and flag.kind != "each":
        raise UsageError(f"{name}: given twice")
    if joined is None and (not rest or (flag.kind == "maybe" and rest[0].startswith("-"))):
        raise UsageError(f"{name}: {flag.metavar} is missing")
    value = rest.pop(0) if joined is None else joined
    if flag.words and value not in flag.words:
        raise UsageError(f"{name}: {value[:100]!r} is not one of {', '.join(flag.words)}")
    given[flag.name] = [*given.get(flag.name, ()), value] if flag.kind == "each" else value


def _up_to_a_flag(rest: list[str]) -> list[str]:
    """The next word whatever it is, then all up to the next flag."""
    values = [rest.pop(0)] if rest else []
    while rest and not rest[0].startswith("-"):
        values.append(rest.pop(0))
    return values


def split_rules(text: str) -> list[str]:
    """`Bash(git log:*),Read Edit` → its rules: what stands in brackets is not split."""
    rules, depth = [""], 0
    for char in text:
        depth = max(depth + (char == "(") - (char == ")"), 0)
        if not depth and (char == "," or char.isspace()):
            rules.append("")
        else:
            rules[-1] += char
    return [rule for rule in rules if rule]


def _unknown(name: str) -> str:
    from adderclaw.core.suggestions import closest

    found = closest(name, _BY_NAME)
    hint = f"did you mean {found}? " if found else ""
    return f"there is no flag {name[:60]}; {hint}`adderclaw -p --help` lists them"


def help_text() -> str:
    lines = ['Usage: adderclaw -p "MESSAGE" [flags]', ""]
    for flag in FLAGS:
        if flag in UNUSED:
            continue
        head = ", ".join(flag.names) + (f" {flag.metavar}" if flag.metavar else "")
        words = f" One of: {', '.join(flag.words)}." if len(flag.words) > 1 else ""
        lines.append(f"  {head:<48} {flag.help}{words}")
    unused = ", ".join(flag.names[0] for flag in UNUSED if not flag.rejected)
    lines += ["", f"Accepted, without effect: {unused}."]
    lines += ["", "Exit codes: 0 completed, 1 error, 2 usage, 3 denied, 4 limit, 5 needs input, 6 stopped."]
    return "\n".join(lines)
