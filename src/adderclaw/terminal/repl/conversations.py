"""Conversations of the REPL: find by id, name or words, pick from a list, name, export."""

import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from adderclaw.agent.run import Resume, Run
from adderclaw.core.errors import UsageError
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import Secrets, visible
from adderclaw.storage import Store, transcript
from adderclaw.storage.transcript import Conversation
from adderclaw.terminal import export

if TYPE_CHECKING:
    from prompt_toolkit.formatted_text import StyleAndTextTuples

    from adderclaw.terminal.repl.draw import Drawing

MOST = 500
"""How many conversations are searched."""
SHOWN = 10
LONGEST_NAME = 200


class NextConversation(NamedTuple):
    """The conversation that follows in the same terminal."""

    again: Resume | None
    """The conversation to resume; None starts a new one."""
    began: str = ""
    """The start reason passed to hooks, if it does not follow from the other fields."""
    words: str | None = None
    """Words that select the conversation; if none is chosen, `again` continues."""
    workspace: str | None = None
    """The folder, if it differs from the previous one."""
    notice: str = ""
    """A notice for the model, sent with the next message."""


def of_folder(store: Store, folder: str) -> list[Conversation]:
    """The conversations of a folder, the most recent first, without empty ones."""
    return [talk for talk in transcript.conversations(store, MOST, (folder,), begun=True) if talk.title]


def matching(store: Store, folder: str, words: str) -> list[Conversation]:
    """The conversations with this id prefix or name, or that contain the words."""
    if (exact := transcript.conversation_of(store, words)) is not None:
        return [talk for talk in transcript.conversations(store, MOST) if talk.id == exact]
    here = of_folder(store, folder)
    lowered = words.lower()
    if named := [talk for talk in here if talk.title.lower() == lowered]:
        return named
    hits = {hit.conversation_id for hit in transcript.search(store, words, 50, folder)}
    return [talk for talk in here if lowered in talk.title.lower() or talk.id in hits]


def choose_conversation(store: Store, folder: str, words: str) -> Resume | None:
    """The conversation that matches; asks at the terminal if several do. None if the person chose none."""
    talks = matching(store, folder, words) if words else of_folder(store, folder)
    if not talks:
        about = f" with {words!r}" if words else ""
        raise UsageError(f"there is no conversation{about} in {folder}: `adderclaw memory list` shows all")
    if len(talks) == 1 and words:
        return Resume(talks[0].id, go_on=False)
    return _pick(store, talks)


def conversation_line(talk: Conversation) -> str:
    return f"{_age(talk.last_active):>9}  {talk.title}"


def _age(stamp: str) -> str:
    from calendar import timegm

    seconds = max(time.time() - timegm(time.strptime(stamp, "%Y-%m-%d %H:%M:%S")), 0)
    for size, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {name} ago"
    return "just now"


def rename_conversation(run: Run, words: str) -> str:
    """Names the conversation; an empty name restores its first words."""
    named = " ".join(visible(words, keep_newlines=False).split())[:LONGEST_NAME]
    with run.session.store.write() as cursor:
        transcript.set_title(cursor, run.session.conversation_id, named)
    return named


def export_conversation(run: Run, path: str) -> str:
    """Writes the conversation to a file, by default in the workspace; returns the file's path."""
    conversation = run.session.conversation_id
    target = path or f"{conversation}.md"
    full = os.path.join(run.session.environment.context.workspace.root, os.path.expanduser(target))
    text = export.render_conversation(
        run.session.store, conversation, export.form_of(target), run.session.secrets.clean
    )
    export.write(full, text)
    return full


# ------------------------------------------------------------------ the picker


class Picker:
    """A list filtered while typing, with the last messages of the selected conversation."""

    def __init__(self, store: Store, talks: Sequence[Conversation]) -> None:
        self._store, self._talks = store, list(talks)
        self.typed, self.at = "", 0
        self._clean = Secrets().clean

    @property
    def shown(self) -> list[Conversation]:
        words = self.typed.lower().split()
        return [talk for talk in self._talks if all(word in talk.title.lower() for word in words)]

    def move(self, by: int) -> None:
        count = len(self.shown)
        self.at = (self.at + by) % count if count else 0

    def type(self, text: str) -> None:
        self.typed, self.at = self.typed + text, 0

    def erase(self) -> None:
        self.typed, self.at = self.typed[:-1], 0

    def lines(self, width: int) -> "StyleAndTextTuples":
        from adderclaw.terminal.repl.draw import Drawing

        talks, drawing = self.shown, Drawing(width)
        first = max(0, min(self.at - SHOWN // 2, len(talks) - SHOWN))
        rows: StyleAndTextTuples = [("class:accent", f"Which conversation? {self.typed}_\n")]
        for number, talk in enumerate(talks[first : first + SHOWN], first):
            style = "reverse" if number == self.at else ""
            rows.append((style, f"{drawing.cut(self._clean(conversation_line(talk)), width)}\n"))
        if talks:
            rows.append(("class:dim", f"\n{self._preview(talks[self.at], drawing)}\n"))
        rows.append(("class:dim", "\n".join(drawing.flowed("Enter opens it, Ctrl-B a copy of it, Esc leaves", width))))
        return rows

    def _preview(self, talk: Conversation, drawing: "Drawing") -> str:
        last = transcript.last_message_text(self._store, talk.id)
        return "\n".join(drawing.cut(row, drawing.width) for row in self._clean(last).strip().split("\n")[-4:])


def _pick(store: Store, talks: Sequence[Conversation]) -> Resume | None:
    from prompt_toolkit.application import Application
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    from prompt_toolkit.keys import Keys
    from prompt_toolkit.layout import FormattedTextControl, Layout, Window

    from adderclaw.terminal.repl.screen import STYLE

    picker, keys = Picker(store, talks), KeyBindings()

    def choose(event: KeyPressEvent, *, fork: bool) -> None:
        talks = picker.shown
        event.app.exit(result=Resume(talks[picker.at].id, go_on=False, fork=fork) if talks else None)

    rows: tuple[tuple[str, Callable[[KeyPressEvent], None]], ...] = (
        ("enter", lambda event: choose(event, fork=False)),
        ("c-b", lambda event: choose(event, fork=True)),
        ("up", lambda _event: picker.move(-1)),
        ("down", lambda _event: picker.move(1)),
        ("backspace", lambda _event: picker.erase()),
        ("escape", lambda event: event.app.exit(result=None)),
        ("c-c", lambda event: event.app.exit(result=None)),
        (Keys.Any, lambda event: picker.type(event.data)),
    )
    for key, do in rows:
        keys.add(key)(do)
    window = Window(
        FormattedTextControl(lambda: picker.lines(app.output.get_size().columns - 1)), dont_extend_height=True
    )
    app: Application[Resume | None] = Application(Layout(window), key_bindings=keys, style=STYLE, erase_when_done=True)
    app.ttimeoutlen = 0.05
    return app.run()
