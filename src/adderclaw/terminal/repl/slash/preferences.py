"""Commands about how a person likes it: what they change counts at once, and stays in the operator's own file."""

import sys
from collections.abc import Callable
from typing import get_args

from adderclaw.agent.run import Run
from adderclaw.agent.tool_call import permission_updates
from adderclaw.config import operator_file
from adderclaw.config.permissions import PermissionUpdate
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.redaction import visible
from adderclaw.core.types import PermissionMode
from adderclaw.terminal.repl import here
from adderclaw.terminal.repl.slash import command_line, settings
from adderclaw.terminal.repl.slash.row import Done

THEMES = ("auto", "light", "dark")
EDITORS = ("emacs", "vi")


async def config(run: Run, rest: str) -> Done:
    """Alone the configuration with where it is from; NAME=VALUE changes something of it."""
    if not rest:
        await command_line.print_command(run, ["config", "show", "--origin"])
        return
    for word in rest.split():
        name, equals, value = word.partition("=")
        if not equals or name not in ("model", "mode", "theme", "editor"):
            raise UsageError(f"{word!r}: it takes model=NAME, mode=MODE, theme=auto|light|dark, editor=vi|emacs")
        if name == "model":
            await _model(run, value)
        elif name == "mode":
            _mode(run, value)
        elif name == "theme":
            theme(run, value)
        else:
            _editor(run, value)


async def _model(run: Run, value: str) -> None:
    """Unlike /model, this is kept: the next conversation begins with it, too."""
    await settings.model(run, value)
    provider, model = run.session.provider.name, run.session.model
    _store(lambda: operator_file.choose_provider(run.runtime.home, provider, {"model": model}))


def _mode(run: Run, value: str) -> None:
    known: dict[str, PermissionMode] = {mode: mode for mode in get_args(PermissionMode.__value__)}
    if (mode := known.get(value)) is None:
        raise UsageError(f"there is no mode {value!r}: it is one of {', '.join(known)}")
    permission_updates.apply_update(run.session, PermissionUpdate("setMode", "session", mode=mode))
    print(f"mode: {mode}, until this session ends; permissions.defaultMode of your own configuration keeps one")


def theme(run: Run, rest: str) -> Done:
    from adderclaw.terminal.repl.terminal_mode import detect_mode

    screen = here.screen_of(run)
    name = rest
    if not name:
        name = "dark" if screen is not None and screen.manner.light else "light"
    if name not in THEMES:
        raise UsageError(f"{rest!r}: it takes auto, light or dark")
    if screen is not None:
        screen.manner = screen.manner._replace(light=detect_mode(theme=name).light)
    print(f"theme: {name}")
    _store(lambda: operator_file.prefer(run.runtime.home, "theme", name))


def vim(run: Run, _rest: str) -> Done:
    talk = here.repl_of(run).talk
    now = talk.editing if talk is not None else run.session.config.repl.editing
    _editor(run, "emacs" if now == "vi" else "vi")


def _editor(run: Run, value: str) -> None:
    if value not in EDITORS:
        raise UsageError(f"{value!r}: it takes vi or emacs")
    talk = here.repl_of(run).talk
    if talk is not None:
        talk.set_editing("vi" if value == "vi" else "emacs")
    print(f"keys of the input: {value}")
    _store(lambda: operator_file.prefer(run.runtime.home, "editing", value))


def _store(write: Callable[[], str]) -> None:
    """Where it cannot be kept it counts all the same, until the session ends."""
    try:
        path = write()
    except AdderClawError as error:
        print(f"this counts in this session alone: {visible(str(error))}", file=sys.stderr)
    else:
        print(f"kept in {visible(path, keep_newlines=False)}")
