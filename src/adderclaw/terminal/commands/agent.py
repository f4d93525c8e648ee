"""`adderclaw agent`: a REPL, or one turn with -m."""

import sys
from dataclasses import replace
from typing import Annotated

from adderclaw.agent.run import Options, Resume
from adderclaw.core.errors import UsageError
from adderclaw.core.types import Json, Thinking
from adderclaw.terminal.commands.plain import (
    CONFIG_FILE,
    EFFORT,
    LIMIT,
    MODEL_NAME,
    PERMISSION_MODE,
    PROFILE,
    PROVIDER_NAME,
    STREAM_OUTPUT,
    WORKSPACE_DIR,
    EffortName,
    ModeName,
    Option,
    ProfileName,
    key_chooser,
)
from adderclaw.terminal.one_shot import OneShot, at_terminal, is_stdin_terminal, start_conversation
from adderclaw.terminal.output import StreamFormat


def agent(
    message: Annotated[
        str | None, Option(("--message", "-m"), "Run one turn with this message and exit; - reads it from stdin.")
    ] = None,
    go_on: Annotated[bool, Option(("--continue", "-c"), "Continue the last conversation here.")] = False,
    resume: Annotated[str | None, Option(("--resume", "-r"), "Continue this conversation.", "ID")] = None,
    pick: Annotated[bool, Option(("--pick",), "Choose the conversation to continue from a list.")] = False,
    begin_with: Annotated[str | None, Option(("--begin-with",), "Open the REPL with this message.", "TEXT")] = None,
    plain: Annotated[
        bool, Option(("--plain",), "Print lines and redraw nothing: for screen readers and simple terminals.")
    ] = False,
    no_motion: Annotated[bool, Option(("--no-motion",), "Show no animations.")] = False,
    profile: Annotated[ProfileName | None, PROFILE] = None,
    permission_mode: Annotated[ModeName | None, PERMISSION_MODE] = None,
    provider: Annotated[str | None, PROVIDER_NAME] = None,
    model: Annotated[str | None, MODEL_NAME] = None,
    effort: Annotated[EffortName | None, EFFORT] = None,
    workspace: Annotated[str | None, WORKSPACE_DIR] = None,
    config: Annotated[str | None, CONFIG_FILE] = None,
    bare: Annotated[
        bool, Option(("--bare",), "Take keys only from the environment and your own apiKeyHelper, not from logins.")
    ] = False,
    maintenance: Annotated[bool, Option(("--maintenance",), "Run the Setup hooks first, in maintenance mode.")] = False,
    plugin_dir: Annotated[
        list[str] | None, Option(("--plugin-dir",), "Load this plugin folder for this session; repeatable.", "DIR")
    ] = None,
    limit: Annotated[list[str] | None, LIMIT] = None,
    output_format: Annotated[StreamFormat, STREAM_OUTPUT] = "text",
) -> int:
    """Talk to the agent: a REPL, or one turn with -m.

    The answer goes to stdout, everything else to stderr. Approvals are asked on stderr and read from stdin. Without
    -m, piped input is one message.

    Example: adderclaw agent -m "what is in this project?"
    """
    if (begin_with is not None or pick) and not at_terminal():
        raise UsageError('a conversation needs a terminal; without one, `adderclaw -p "…"` answers one message')
    again = Resume(resume, message is None) if go_on or resume is not None else None
    if message == "-" or (message is None and again is None and not is_stdin_terminal()):
        message = _read_piped_message()
    if message is not None and not message.strip():
        raise UsageError("-m: the message is empty. Say what the agent should do.")
    options = Options(
        config_file=config,
        workspace=workspace,
        provider=provider,
        model=model,
        thinking=Thinking(effort),
        profile=profile,
        bare=bare,
        maintenance=maintenance,
        plugin_dirs=tuple(plugin_dir or ()),
        asks="maybe",
        choose=key_chooser(config),
        overrides=_overrides(limit, permission_mode),
    )
    if message is None and (again is None or at_terminal()):
        from adderclaw.terminal.repl import ReplRequest, run_repl

        request = ReplRequest(plain, not no_motion)
        options = replace(options, log_level="warning")
        return run_repl(options, again, request, first=begin_with, words="" if pick else resume)
    return start_conversation(OneShot(message, output_format), options, again)


command = agent

MOST_PIPED = 1 << 20
"""The largest message on stdin, in bytes: larger than any argument can be, and readable by some models."""


def _read_piped_message() -> str:
    """Reads all of stdin as one message."""
    message = sys.stdin.buffer.read(MOST_PIPED + 1) if sys.stdin is not None else b""  # pyright: ignore[reportUnnecessaryComparison]
    if len(message) > MOST_PIPED:
        fix = "put it into a file in the workspace and name that file in the message"
        raise UsageError(f"standard input: the message has more than {MOST_PIPED:,} bytes; {fix}")
    if not message.strip():
        raise UsageError('standard input: the message is empty. Pipe one in, use -m "…", or start at a terminal.')
    return message.decode("utf-8", "replace")


def _overrides(limit_options: list[str] | None, mode: ModeName | None) -> Json:
    overrides: Json = {"permissions": {"defaultMode": mode}} if mode is not None else {}
    if limit_options:
        from adderclaw.terminal.limit_options import limits

        allowed = limits(limit_options)
        if (rounds := allowed.pop("rounds", None)) is not None:
            overrides["runtime"] = {"max_tool_rounds": rounds}
        if allowed:
            overrides["limits"] = allowed
    return overrides
