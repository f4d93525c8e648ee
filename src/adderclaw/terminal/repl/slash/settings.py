"""Commands that change how the session works: model, effort, mode, logins, directories, preferences."""

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import get_args

from adderclaw.agent.loop import lifecycle
from adderclaw.agent.run import Run
from adderclaw.agent.tool_call import permission_updates
from adderclaw.config import operator_file
from adderclaw.config.model_facts.catalogue import first_answering
from adderclaw.config.permissions import PermissionUpdate
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.redaction import visible
from adderclaw.core.types import DEFAULT_THINKING, EFFORTS, PermissionMode, Thinking, parse_effort
from adderclaw.terminal.repl import here
from adderclaw.terminal.repl.slash import command_line
from adderclaw.terminal.repl.slash.command import Done


async def model(run: Run, rest: str) -> Done:
    if rest:
        await run.switch(rest)
    session = run.session
    served = first_answering(session.provider.name, session.model, session.config)
    through = "" if served.provider == session.provider.name else f", through {visible(session.provider.name)}"
    print(f"model {visible(served.model)} of the provider {visible(served.provider)}{through}")
    if not rest:
        others = ", ".join(visible(name) for name in session.config.providers.models)
        print(f"/model NAME changes the model; /model ENTRY or ENTRY/NAME changes the provider: {others}")


EFFORT_WORDS = ("auto", *EFFORTS)


def effort(run: Run, rest: str) -> Done:
    """Shows or sets the level; `auto` uses the entry's level, else the vendor's."""
    session = run.session
    if rest and rest not in EFFORT_WORDS:
        raise UsageError(f"{rest!r} is not an effort level: use auto or one of {', '.join(EFFORTS)}")
    if rest:
        session.thinking = Thinking(parse_effort(rest))
    entry = session.config.providers.models.get(session.provider.name)
    configured = (
        Thinking(entry.effort, entry.thinking, entry.thinking_tokens) if entry is not None else DEFAULT_THINKING
    )
    chosen = session.thinking.with_fallback(configured)
    parts = [f"effort {chosen.effort}"] if chosen.effort else []
    parts += [f"thinking {chosen.mode}"] if chosen.mode else []
    parts += [f"at most {chosen.tokens:,} tokens of thought"] if chosen.tokens is not None else []
    whose = "" if not session.thinking.is_unset else f" (from the entry {visible(session.provider.name)})"
    print(f"{', '.join(parts)}{whose}" if parts else "effort auto: what the model's vendor recommends")
    if not rest:
        print(f"/effort LEVEL changes it: {', '.join(EFFORT_WORDS)}; a model gets the nearest level it supports")


async def login(run: Run, rest: str) -> Done:
    from adderclaw.terminal import provider_login

    name = provider_login.chosen_provider(rest or None, run.session.config)
    async with here.line_by_line(run):  # prints a URL to open, and reads a code
        storage = await provider_login.log_in_to(run.runtime.credentials, name, "auto")
    print(f"logged in to {visible(name)}; stored in {storage}")


async def logout(run: Run, rest: str) -> Done:
    from adderclaw.terminal import provider_login

    name = provider_login.chosen_provider(rest or None, run.session.config)
    for complaint in (await provider_login.log_out_of(run.runtime.credentials, [name])).values():
        print(complaint, file=sys.stderr)
    if name != run.session.provider.name:
        return None
    print("you logged out of this conversation's provider, so it ends here")
    run.session.end_reason = "logout"
    return "leave"


async def add_dir(run: Run, rest: str) -> Done:
    """Lets the session work in one more directory until it ends."""
    from adderclaw.config.paths import followed

    path = followed(os.path.expanduser(rest)) if rest else ""
    if not os.path.isdir(path):
        raise UsageError(f"{rest!r} is not a directory: /add-dir needs an existing one")
    session = run.session
    # a link is judged by both its names; `..` after a link is resolved by the real path
    named = os.path.abspath(os.path.expanduser(rest))
    named = named if followed(named) == path else path
    permission_updates.apply_update(session, PermissionUpdate("addDirectories", "session", directories=[named]))
    print(f"{visible(path, keep_newlines=False)} is now part of this session")
    await lifecycle.run_directory_added_hooks(session, path)


# ------------------------------------------------------------------ preferences, stored in the operator's own file

THEMES = ("auto", "light", "dark")
EDITORS = ("emacs", "vi")


async def config(run: Run, rest: str) -> Done:
    """Shows the configuration and the origin of each value; NAME=VALUE changes some of it."""
    if not rest:
        await command_line.print_command(run, ["config", "show", "--origin"])
        return
    for word in rest.split():
        name, _, value = word.partition("=")
        match name if "=" in word else "":
            case "model":  # unlike /model, it is stored for later conversations
                await model(run, value)
                provider, fields = run.session.provider.name, {"model": run.session.model}
                _store(partial(operator_file.choose_provider, run.runtime.home, provider, fields))
            case "mode":
                _set_mode(run, value)
            case "theme":
                theme(run, value)
            case "editor":
                _set_editor(run, value)
            case _:
                raise UsageError(f"{word!r}: expected model=NAME, mode=MODE, theme=auto|light|dark or editor=vi|emacs")


def _set_mode(run: Run, value: str) -> None:
    known: dict[str, PermissionMode] = {mode: mode for mode in get_args(PermissionMode.__value__)}
    if (mode := known.get(value)) is None:
        raise UsageError(f"{value!r} is not a mode: use one of {', '.join(known)}")
    permission_updates.apply_update(run.session, PermissionUpdate("setMode", "session", mode=mode))
    print(f"mode: {mode}, until this session ends; permissions.defaultMode in your configuration sets it for all")


def theme(run: Run, rest: str) -> Done:
    from adderclaw.terminal.repl.terminal_mode import detect_mode

    screen = here.screen_of(run)
    name = rest
    if not name:
        name = "dark" if screen is not None and screen.manner.light else "light"
    if name not in THEMES:
        raise UsageError(f"{rest!r}: expected auto, light or dark")
    if screen is not None:
        screen.manner = screen.manner._replace(light=detect_mode(theme=name).light)
    print(f"theme: {name}")
    _store(lambda: operator_file.prefer(run.runtime.home, "theme", name))


def vim(run: Run, _rest: str) -> Done:
    talk = here.repl_of(run).talk
    now = talk.editing if talk is not None else run.session.config.repl.editing
    _set_editor(run, "emacs" if now == "vi" else "vi")


def _set_editor(run: Run, value: str) -> None:
    if value not in EDITORS:
        raise UsageError(f"{value!r}: expected vi or emacs")
    talk = here.repl_of(run).talk
    if talk is not None:
        talk.set_editing("vi" if value == "vi" else "emacs")
    print(f"keys of the input: {value}")
    _store(lambda: operator_file.prefer(run.runtime.home, "editing", value))


def _store(write: Callable[[], str]) -> None:
    """Stores a preference. If that fails, the change still applies until the session ends."""
    try:
        path = write()
    except AdderClawError as error:
        print(f"this applies only to this session: {visible(str(error))}", file=sys.stderr)
    else:
        print(f"stored in {visible(path, keep_newlines=False)}")
