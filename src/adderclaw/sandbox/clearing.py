"""Removing a folder that a command has filled: however deep it is, nothing recurses and no path grows."""

import os
from contextlib import suppress
from itertools import count


def clear(top: str) -> None:
    """Remove a folder that no process uses any more, as far as possible; deeper folders are moved up first."""
    names = count()
    with suppress(OSError):
        while inner := [entry for entry in os.scandir(top) if not _unlinked(entry)]:
            for folder in inner:
                os.chmod(folder.path, 0o700)
                for entry in os.scandir(folder.path):
                    if not _unlinked(entry):
                        os.chmod(entry.path, 0o700)
                        os.rename(entry.path, _free(top, names))
                os.rmdir(folder.path)
        os.rmdir(top)


def _unlinked(entry: "os.DirEntry[str]") -> bool:
    """Remove an entry unless it is a folder; returns whether it was removed."""
    if entry.is_dir(follow_symlinks=False):
        return False
    os.unlink(entry.path)
    return True


def _free(top: str, names: "count[int]") -> str:
    return next(path for number in names if not os.path.lexists(path := os.path.join(top, f"lifted-{number}")))


def sweep(top: str) -> None:
    """Remove the folders of processes that were killed before they could remove them."""
    for entry in os.scandir(top):
        owner = entry.name.removeprefix("adderclaw-").partition("-")[0]
        # isdigit() accepts `²`, and any user may create a folder with that name here
        if not entry.name.startswith("adderclaw-") or not owner.isdecimal() or _is_there(int(owner)):
            continue
        with suppress(FileNotFoundError):  # another process may be sweeping, too
            if entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                clear(entry.path)


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # another user's process, or not a valid process id
        return True
    return True
