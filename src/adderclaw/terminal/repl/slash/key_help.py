"""The keys of the terminal, for /keys and docs/repl.md."""

from adderclaw.agent.run import Run
from adderclaw.terminal.repl.slash.row import Done

KEYS: tuple[tuple[str, str], ...] = (
    ("Enter", "send the message; take the entry of the menu that is chosen"),
    ("/", "at the start of a message: the menu of commands"),
    (
        "Alt-Enter, Ctrl-J, \\ at the end",
        "a new line; Enter makes one, too, while a ``` fence or a message's first quote is open",
    ),
    ("@", "name a file, a folder or an MCP resource; the message has what is in it"),
    ("! at the start", "run a command by hand; the next message has what it printed"),
    ("# at the start", "remember a line for later conversations"),
    ("Tab", "complete by the menu"),
    ("Up, Down", "history, by the beginning that is typed; Up in an empty input takes a queued message back"),
    ("Ctrl-R", "search the history; Enter takes what is found, Ctrl-G leaves it"),
    ("Ctrl-G", "edit the message in $EDITOR"),
    ("Ctrl-O", "the whole output of the last call"),
    ("Shift+Tab", "the next permission mode"),
    ("Esc", "interrupt the turn; what it did stays"),
    ("Esc Esc", "go back: conversation, files, or both"),
    ("Ctrl-C", "clear the input, else interrupt; twice in an empty input leaves"),
    ("Ctrl-D", "leave, where the input is empty; while a turn runs, twice"),
    ("Ctrl-Z", "suspend; `fg` comes back"),
    ("1-9, letters, arrows", "mark an answer of a question; Enter gives it"),
)


def show(_run: Run, _rest: str) -> Done:
    for keys, does in KEYS:
        print(f"{keys:<34} {does}")
