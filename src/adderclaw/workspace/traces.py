"""The folder in the workspace with the traces of runs: ours alone once one has written there, and ignored by git."""

from adderclaw.errors import Refused
from adderclaw.workspace.place import Place
from adderclaw.workspace.reading import start
from adderclaw.workspace.writing import write

IGNORE = ".gitignore"
OURS = b"# AdderClaw's traces of runs. They belong to this machine: git ignores them, and no command may change them.\n"
IGNORED = OURS + b"/.gitignore\n/*/events.jsonl\n/*/step-*.json\n"


def traces(name: str, root: str, *, headless: bool = False) -> tuple[str, ...]:
    """Many projects have a `runs` of their own: this is ours where the run writes there (`headless`), or one did."""
    folder = Place(root, name)
    if folder.is_root:
        return ()
    return (folder.text,) if headless or is_ours(folder) else ()


def is_ours(folder: Place) -> bool:
    try:
        return start(folder / IGNORE, len(OURS))[0] == OURS
    except (OSError, Refused):
        return False


def claim(folder: Place, run: Place) -> None:
    """Have git ignore the traces in a folder, or in this run's alone where the folder has a `.gitignore` already."""
    if is_ours(folder):
        return
    try:
        start(folder / IGNORE, 0)
        write(run / IGNORE, b"*\n")
    except FileNotFoundError:
        write(folder / IGNORE, IGNORED)
