"""`adderclaw -p`: one message answered on stdout, or stream-json on both sides."""

import os
import re
import select
import stat
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from adderclaw.agent.run import Options, Resume
from adderclaw.config import Loaded
from adderclaw.config.legacy.options import unattended
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.types import Json, Thinking
from adderclaw.models.providers import ALIASES
from adderclaw.terminal.legacy.print_flags import UNUSED, help_text, is_stream, parsed
from adderclaw.terminal.print_mode import FALLBACK, PrintOptions, Reports, answer_message

if TYPE_CHECKING:
    from adderclaw.terminal.print_mode.structured import Shape

MOST_PIPED = 1 << 20
"""How many bytes can be piped in, which is more than most models can read."""
FIRST_BYTE_SECONDS = 3.0
"""How long to wait for piped input in addition to a message."""
PLAIN = frozenset(
    {
        *("print", "output_format", "input_format", "partial", "replay", "json_schema", "system_prompt", "append"),
        *("go_on", "resume", "fork", "model", "effort", "workspace", "config", "provider", "bare", "maintenance"),
        *("quiet", "verbose", "profile", "session_id", "hook_events", "sources", "plugin_dir", "plugin_dir_no_mcp"),
        *("debug", "debug_file", "await_initialize", "initialize_fields", "allow_bypass", "permission_prompts"),
        *("agent", "skills", "thinking", "thinking_tokens", *(flag.name for flag in UNUSED)),
    }
)
"""Flags that do not change the configuration."""
PIPED_TEMPLATE = "{message}\n\nThis was piped in with it:\n{framed}"


def run_print(arguments: list[str]) -> int:
    """Parses the command line and answers; returns the exit code."""
    try:
        flags, words = parsed(arguments)
        if flags.get("help"):
            print(help_text())
            return 0
        prepared = _prepare(flags, words)
    except AdderClawError as error:
        if is_stream(arguments):  # the client of a stream reads stdout
            from adderclaw.terminal.output import print_json
            from adderclaw.terminal.print_mode.lines import failure

            print_json(failure(str(error), error.exit_code))
        raise
    message, again, request = prepared
    if flags.get("output_format") == "stream-json":
        from adderclaw.terminal.print_mode import conversation

        streams = flags.get("input_format") == "stream-json"
        return conversation.converse(_run_options, again, request, flags, None if streams else message)
    options, request = _run_options(flags, request)
    return answer_message(options, again, message, request, as_json=flags.get("output_format") == "json")


def _prepare(flags: Json, words: list[str]) -> tuple[str, Resume | None, PrintOptions]:
    """The message, the conversation to resume, and the options of the session."""
    streams = flags.get("input_format") == "stream-json"
    _check_flags(flags, streams=streams)
    message = " ".join(words)
    if streams and message:
        raise UsageError("--input-format stream-json reads the messages from stdin: omit the text")
    reports = Reports(quiet=bool(flags.get("quiet")))
    _report_without_effect(flags, reports, streams=streams)
    request = PrintOptions(
        _text(flags, "system_prompt"),
        _text(flags, "append") or "",
        _shape(flags),
        by_name=streams or bool(message.strip()),
        aloud=not (flags.get("quiet") or flags.get("debug")),
        reports=reports,
    )
    again = _resume(flags)
    if not streams:
        message = _with_piped(message, flags)
    return message, again, request


def _report_without_effect(flags: Json, reports: Reports, *, streams: bool) -> None:
    """Reports the flags and the SDK variables that have no effect."""
    for flag in UNUSED:
        if flag.name in flags:
            reports.add(flag.names[0], flag.no_effect)
    _report_sources(flags, reports)
    if streams:
        from adderclaw.terminal.print_mode.no_effect import VARIABLES

        for name, reason in VARIABLES.items():
            if os.environ.get(name):
                reports.add(name, reason)
    if flags.get("permission_mode") == "auto":
        from adderclaw.terminal.print_mode.no_effect import AUTO

        flags["permission_mode"] = "default"
        reports.add("--permission-mode auto", AUTO)
    if flags.get("permission_prompt_tool", "stdio") != "stdio":
        tool = str(flags.pop("permission_prompt_tool"))
        reports.add(
            "--permission-prompt-tool",
            f"only stdio can be asked, not {tool[:60]!r}: calls that need approval are denied",
        )


def _thinking(flags: Json) -> Thinking:
    """Reads `--effort`, `--thinking` and `--max-thinking-tokens`."""
    tokens: str | None = flags.get("thinking_tokens")
    if tokens is not None and not (tokens.isascii() and tokens.isdigit() and len(tokens) < 8):
        raise UsageError(f"--max-thinking-tokens: {tokens[:40]!r} is not a whole number")
    mode = flags.get("thinking", "enabled" if tokens and int(tokens) else None)
    return Thinking(flags.get("effort"), mode, int(tokens) if tokens is not None else None)


def _run_options(flags: Json, request: PrintOptions) -> tuple[Options, PrintOptions]:
    """The options of a run and of its session, which `--agent` takes from a subagent."""
    if "agent" in flags:
        from adderclaw.terminal.legacy.print_options import as_agent

        request = replace(request, system=as_agent(flags, request.reports))
    reports = request.reports
    overrides, servers, agents = {}, {}, {}
    if not flags.keys() <= PLAIN:
        from adderclaw.terminal.legacy.print_options import detailed

        overrides, servers, agents = detailed(flags, reports)
    falls_back = "fallback_model" in flags
    alias = flags.get("model") in ALIASES
    options = Options(
        config_file=flags.get("config"),
        workspace=flags.get("workspace"),
        provider=FALLBACK if falls_back else None if alias else flags.get("provider"),
        model=None if falls_back else flags.get("model"),
        profile=flags.get("profile"),
        log_level="info" if flags.get("debug") or flags.get("debug_file") else "off",
        log_file=flags.get("debug_file"),
        thinking=_thinking(flags),
        bare=bool(flags.get("bare")),
        maintenance=bool(flags.get("maintenance")),
        asks="must",
        session_id=_uuid(flags["session_id"]) if "session_id" in flags else None,
        here=True,
        overrides=overrides,
        agents=agents,
        skills=flags.get("skills"),
        strict_servers=bool(flags.get("strict_mcp")),
        plugin_dirs=(*flags.get("plugin_dir", ()), *flags.get("plugin_dir_no_mcp", ())),
        plugin_dirs_without_servers=tuple(flags.get("plugin_dir_no_mcp", ())),
        amend=lambda loaded: _amend(loaded, flags, servers, reports),
    )
    return options, replace(request, max_turns=int(flags.get("max_turns", 0)))


def _report_sources(flags: Json, reports: Reports) -> None:
    """Reports settings that a client did not name in `--setting-sources`: they apply nevertheless."""
    if "sources" not in flags:
        return
    named = {name.strip() for name in flags["sources"].split(",")} - {""}
    if unknown := named - {"user", "project", "local"}:
        raise UsageError(f"--setting-sources: {min(unknown)[:40]!r} is not one of user, project, local")
    if missing := {"user", "project"} - named:
        left = " and ".join(sorted(missing))
        reports.add("--setting-sources", f"settings of {left} still apply, a project's once you have trusted it")


def _uuid(text: str) -> str:
    if re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", text) is None:
        raise UsageError(f"--session-id: {text[:60]!r} is not a UUID")
    return text.lower()


def _amend(loaded: Loaded, flags: Json, servers: dict[str, Json], reports: Reports) -> Loaded:
    loaded = unattended(loaded)
    if flags.keys() <= PLAIN and flags.get("model") not in ALIASES:
        return loaded
    from adderclaw.terminal.legacy.print_options import amended

    return amended(loaded, flags, servers, reports)


def _text(flags: Json, name: str) -> str | None:
    """The value of a flag that can also be given as a file."""
    if f"{name}_file" not in flags:
        return flags.get(name)
    from adderclaw.terminal.legacy.print_options import text_of

    return text_of(flags, name)


def _check_flags(flags: Json, *, streams: bool) -> None:
    """Refuses combinations of flags that do not work together."""
    if streams and flags.get("output_format") != "stream-json":
        raise UsageError("--input-format stream-json needs --output-format stream-json")
    if flags.get("skip_permissions") and flags.get("permission_mode", "bypassPermissions") != "bypassPermissions":
        raise UsageError("--dangerously-skip-permissions and --permission-mode: use only one")
    if "session_id" in flags and (flags.get("go_on") or "resume" in flags) and not flags.get("fork"):
        raise UsageError("--session-id is for a new session: add --fork-session, or omit it")
    names = {"partial": "--include-partial-messages", "replay": "--replay-user-messages"}
    for name, flag in {**names, "hook_events": "--include-hook-events"}.items():
        if flags.get(name) and flags.get("output_format") != "stream-json":
            raise UsageError(f"{flag} needs --output-format stream-json")
    if flags.get("permission_prompt_tool") and not streams:
        raise UsageError("--permission-prompt-tool stdio needs --input-format stream-json")
    if flags.get("quiet") and flags.get("debug"):
        raise UsageError("--quiet and --debug: use only one")
    if flags.get("fork") and not (flags.get("go_on") or "resume" in flags):
        raise UsageError("--fork-session needs --resume ID or --continue: it copies a conversation")
    if flags.get("go_on") and "resume" in flags:
        raise UsageError("--continue and --resume: use only one")


def _resume(flags: Json) -> Resume | None:
    if "resume" in flags and not flags["resume"].strip():
        raise UsageError("--resume: the id is empty; `adderclaw memory list` shows them")
    if not (flags.get("go_on") or "resume" in flags):
        return None
    return Resume(flags.get("resume"), go_on=False, fork=bool(flags.get("fork")))


def _shape(flags: Json) -> "Shape | None":
    if "json_schema" not in flags:
        return None
    from adderclaw.terminal.print_mode.structured import Shape

    return Shape(flags["json_schema"])


def _with_piped(message: str, flags: Json) -> str:
    """The message with piped input as its context; piped input alone is the message."""
    piped = _read_piped(flags, waits=bool(message.strip()))
    if piped.strip() and message.strip():
        from adderclaw.core.framing import framed

        return PIPED_TEMPLATE.format(message=message, framed=framed(os.urandom(8).hex(), piped))
    message = message if message.strip() else piped
    if not message.strip():
        raise UsageError('-p: the message is empty; give one (`adderclaw -p "…"`) or pipe it in')
    return message


def _read_piped(flags: Json, *, waits: bool) -> str:
    """Reads stdin, unless it is a terminal. `waits`: there is a message too, so an idle pipe is not waited for long."""
    if sys.stdin is None or sys.stdin.isatty():  # pyright: ignore[reportUnnecessaryComparison] - None where it is closed
        return ""
    mode = os.fstat(0).st_mode
    if waits and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)) and not select.select([0], [], [], FIRST_BYTE_SECONDS)[0]:
        if not flags.get("quiet"):
            problem = f"nothing came on standard input within {FIRST_BYTE_SECONDS:g} s: continuing without it"
            print(f"adderclaw: {problem}", file=sys.stderr)
        return ""
    data = sys.stdin.buffer.read(MOST_PIPED + 1)
    if len(data) > MOST_PIPED:
        fix = "put it into a file in the workspace and name that file in the message"
        raise UsageError(f"standard input: more than {MOST_PIPED:,} bytes are piped in; {fix}")
    return data.decode("utf-8", "replace")
