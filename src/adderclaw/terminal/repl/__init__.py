"""The REPL: a conversation in a terminal, with its slash commands."""

import asyncio
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from adderclaw.agent.loop import lifecycle
from adderclaw.agent.run import Options, Resume, Run
from adderclaw.agent.run.drive import drive
from adderclaw.agent.run.signals import until_signal
from adderclaw.agent.session.session import Attached, TurnResult
from adderclaw.agent.view.items import Notice
from adderclaw.clients.python.channel import Handle
from adderclaw.config.schema import Config
from adderclaw.core.errors import SessionInUse
from adderclaw.core.questions import Operator
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import visible
from adderclaw.storage import Store
from adderclaw.terminal.one_shot import at_terminal, start_conversation
from adderclaw.terminal.operators import STDIN, Terminal, ask_line
from adderclaw.terminal.repl import conversations, here
from adderclaw.terminal.repl.conversations import NextConversation
from adderclaw.terminal.repl.manual_commands import ManualCommands
from adderclaw.terminal.repl.slash import run_slash_command

if TYPE_CHECKING:
    from adderclaw.terminal.repl.conversation_screen import ScreenConversation


class ReplRequest(NamedTuple):
    """How the REPL is displayed."""

    plain: bool = False
    """Print each line once; redraw nothing."""
    motion: bool = True


class Repl:
    """The REPL channel: reads and answers until /exit or the end of input."""

    name = "repl"
    supports_draft_updates = True

    def __init__(
        self, first: str | None = None, began: str = "", request: ReplRequest | None = None, notice: str = ""
    ) -> None:
        self._first, self._began, self._request, self._notice = first, began, request or ReplRequest(), notice
        self.next: NextConversation | None = None
        """The conversation to open after this one."""
        self.talk: ScreenConversation | None = None
        self._on_screen = False
        self._operator: Operator = Terminal()

    def operator_for(self, config: Config) -> Operator:
        """The operator that asks: on the screen if lines can be redrawn, otherwise in lines."""
        self._on_screen = is_screen() and not (self._request.plain or config.repl.plain)
        if self._on_screen:
            from adderclaw.terminal.repl.panel import ScreenOperator

            self._operator = ScreenOperator()
        return self._operator

    def start(self, handle: Handle) -> int:
        run = handle.run
        here.REPLS[run.run_id] = self
        run.session.start_source = self._began or run.session.start_source
        run.session.state.due_texts += [self._notice] if self._notice else []
        work = self._on_a_screen(run) if self._on_screen else _converse_in_lines(run)
        return asyncio.run(drive(run, work, code=lambda _result: 0)).exit_code

    async def _on_a_screen(self, run: Run) -> TurnResult:
        from adderclaw.terminal.repl.conversation_screen import ScreenConversation
        from adderclaw.terminal.repl.panel import ScreenOperator
        from adderclaw.terminal.repl.terminal_mode import detect_mode

        assert isinstance(self._operator, ScreenOperator)
        settings = run.session.config.repl
        how = detect_mode(motion=self._request.motion and settings.motion, theme=settings.theme)
        talk = self.talk = ScreenConversation(run, self._operator, how)
        talk.screen.greet(talk.rows.conversation(run.session.conversation_id))
        await lifecycle.run_start_hooks(run.session)
        run.session.end_reason = "prompt_input_exit"
        loaded = run.runtime.loaded
        talk.screen.show(Notice("", "note", f"AdderClaw in {visible(loaded.workspace, keep_newlines=False)}"))
        why = visible(loaded.workspace_reason, keep_newlines=False)
        talk.screen.show(Notice("", "note", f"why here: {why}; /help lists the commands, Ctrl-D leaves"))
        if goal := _goal_text(run):
            talk.screen.show(Notice("", "note", goal))
        return await until_signal(run, talk.converse(run_slash_command, self._first), goes_on=True)

    def send(self, conversation_id: str, message: str) -> None:  # noqa: ARG002 - there is one conversation
        print(visible(message))


def run_repl(
    options: Options,
    again: Resume | None,
    request: ReplRequest | None = None,
    *,
    first: str | None = None,
    words: str | None = None,
) -> int:
    """Runs one conversation after the other until the person leaves. `words` select the conversation to continue."""
    if words is not None and at_terminal():
        if (again := _find_conversation(options, words)) is None:
            return 0
    elif again is not None:
        again = again._replace(go_on=False)
    began = notice = ""
    while True:
        channel = Repl(first, began, request, notice)
        try:
            code = start_conversation(channel, options, again)
        except SessionInUse:
            if again is None or (again := _offer_copy(again)) is None:
                raise
            continue
        if (after := channel.next) is None:
            return code
        again, began, notice, first = after.again, after.began, after.notice, None
        options = replace(options, workspace=after.workspace or options.workspace)
        if after.words is not None:
            again = _find_conversation(options, after.words) or again


def _offer_copy(again: Resume) -> Resume | None:
    """Offers to continue in a copy of a conversation that is open in another terminal."""
    if again.fork or not at_terminal():
        return None
    asked = "This conversation is open in another terminal. Continue in a copy? [y/N] "
    answer = asyncio.run(ask_line(asked)) or ""
    return again._replace(fork=True) if answer.strip().lower() in here.YES else None


def _find_conversation(options: Options, words: str) -> Resume | None:
    from adderclaw.config import load

    loaded = load(config_file=options.config_file, workspace=options.workspace)
    store = Store.open(loaded.config.memory.path, read_only=True)
    try:
        return conversations.choose_conversation(store, loaded.workspace, words)
    finally:
        store.close()


async def _converse_in_lines(run: Run) -> TurnResult:
    """Runs turn after turn; returns the last result."""
    print(f"AdderClaw in {_workspace_text(run)}", file=sys.stderr)
    print("/help lists the commands, /exit leaves.", file=sys.stderr)
    if goal := _goal_text(run):
        print(goal, file=sys.stderr)
    manual = _follow_in_lines(run)
    last = TurnResult("completed", "")
    await lifecycle.run_start_hooks(run.session)
    run.session.end_reason = "prompt_input_exit"
    while (line := await _read_line()) is not None:
        text = line.strip()
        if text.startswith("/"):
            if not await run_slash_command(run, text):
                break
        elif text and here.bypass_ended(run):
            break
        elif text:
            last = await _answer_line(run, manual, text) or last
    return last


async def _answer_line(run: Run, manual: ManualCommands, text: str) -> TurnResult | None:
    """Runs a message with its attachments as a turn; or runs a command or note by hand, which is not a turn."""
    attached: list[Attached] = []

    async def by_hand() -> TurnResult:
        if not await manual.run_by_hand(text):
            attached.append(await manual.attachments(text))
        return TurnResult("completed", "")

    done = await until_signal(run, by_hand(), goes_on=True)
    if done.outcome != "completed":
        print(f"[{done.outcome}] {visible(done.reason)}", file=sys.stderr)
    return await here.run_turn_here(run, text, attached[0]) if attached else None


def _follow_in_lines(run: Run) -> ManualCommands:
    """Prints calls and notices as lines, each once: for screen readers, plain terminals and files."""
    from adderclaw.agent.view.items import Call, Item
    from adderclaw.agent.view.live import Live
    from adderclaw.agent.view.rows import Rows
    from adderclaw.terminal.repl.draw import ASCII, Drawing, ansi

    root = run.session.environment.context.workspace.root

    def show(item: Item) -> None:
        if not isinstance(item, Call) or item.ended:
            print(ansi(Drawing(PLAIN_COLUMNS, ASCII).item(item), colours=False), end="", file=sys.stderr, flush=True)

    rows = Rows(run.session.store, run.session.secrets.clean, root)
    if os.environ.get("ADDERCLAW_LOG") == "json":
        return ManualCommands(run, rows, lambda _item: None)
    live = Live(rows, run.session.session_id, show, root)
    run.runtime.bus.remove_sink("log")
    run.runtime.bus.add_sink("lines", live.hear)
    return ManualCommands(run, rows, show)


PLAIN_COLUMNS = 2_000
"""The line width without a screen: wide enough that the terminal breaks lines, not this program."""


def is_screen() -> bool:
    """Whether lines can be redrawn: stdin and stdout are a terminal that is not a plain one."""
    plain = os.environ.get("TERM", "dumb") in ("dumb", "unknown", "")
    return sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty() and not plain


def _workspace_text(run: Run) -> str:
    """The workspace and the reason why it was chosen."""
    loaded = run.runtime.loaded
    return f"{visible(loaded.workspace, keep_newlines=False)} ({visible(loaded.workspace_reason, keep_newlines=False)})"


def _goal_text(run: Run) -> str:
    """The goal of a resumed conversation."""
    goal = run.session.state.goal
    return f"the goal: {visible(goal, keep_newlines=False)}; /goal clear drops it" if goal else ""


async def _read_line() -> str | None:
    print("> ", end="", file=sys.stderr, flush=True)
    return await STDIN.read()
