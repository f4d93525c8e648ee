"""The keys of the terminal, as /keys and docs/REPL.md list them."""

from adderclaw.channels.repl.slash.row import Done
from adderclaw.runtime import Run

KEYS: tuple[tuple[str, str], ...] = (
    ("Enter", "send the message; take the entry of the menu that is chosen"),
    ("Alt-Enter, Ctrl-J, \\ at the end", "a new line"),
    ("/", "at the start of a message: the menu of commands"),
    ("@", "the menu of files, folders and MCP resources"),
    ("!", "at the start of a message: a command of your own; its output becomes context"),
    ("#", "at the start of a message: something to remember"),
    ("Tab", "complete by the menu"),
    ("Up, Down", "history; Up in an empty input takes a queued message back"),
    ("Ctrl-R", "search the history"),
    ("Ctrl-G", "edit the message in $EDITOR"),
    ("Ctrl-O", "the whole output of the last call"),
    ("Shift+Tab", "the next permission mode"),
    ("Esc", "interrupt the turn; what it did stays"),
    ("Esc Esc", "go back: conversation, files, or both"),
    ("Ctrl-C", "clear the input, else interrupt; twice in an empty input leaves"),
    ("Ctrl-D", "leave, where the input is empty"),
    ("Ctrl-Z", "suspend; `fg` comes back"),
    ("1-9, letters, arrows", "answer a question"),
)


def show(_run: Run, _rest: str) -> Done:
    for keys, does in KEYS:
        print(f"{keys:<34} {does}")
