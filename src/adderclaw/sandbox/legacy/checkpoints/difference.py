"""What a restore would change in files, as lines that a person can read before saying yes."""

from collections.abc import Iterator

from adderclaw.sandbox.legacy.checkpoints.blobs import Blobs
from adderclaw.sandbox.legacy.checkpoints.restore import Step
from adderclaw.storage.checkpoints import State

LINES = 20
"""Of one path."""
PATHS = 20
"""So many are shown with their lines; of the rest it is said how many there are."""
MOST = 1 << 20
"""Bytes of a file that is compared line by line."""


def lines(blobs: Blobs, steps: list[Step]) -> Iterator[str]:
    """Each path with what it would lose (-) and get back (+)."""
    for step in steps[:PATHS]:
        yield f"  {step.path}" + (f"  ({step.why})" if step.why else "")
        found = changed(blobs, step.now, step.then)
        yield from (f"    {line}" for line in found[:LINES])
        if len(found) > LINES:
            yield f"    … and {len(found) - LINES:,} more lines"
    if len(steps) > PATHS:
        yield f"  … and {len(steps) - PATHS:,} more paths"


def changed(blobs: Blobs, before: State | None, after: State | None) -> list[str]:
    """The lines that went (-) and came (+); of what has no lines, what became of what."""
    old, new = _text(blobs, before), _text(blobs, after)
    if old is None or new is None:
        return [f"{_named(before)} → {_named(after)}"]
    from difflib import unified_diff

    found = unified_diff(old.splitlines(), new.splitlines(), n=1, lineterm="")
    return [line for line in found if not line.startswith(("---", "+++"))] or ["(only its mode)"]


def _text(blobs: Blobs, state: State | None) -> str | None:
    """Its text; nothing where nothing is there; None where it has no lines to compare."""
    if state is None:
        return ""
    data = blobs.read(state.digest) if state.kind == "file" and state.digest and state.size <= MOST else None
    if data is None or b"\0" in data:
        return None
    return data.decode("utf-8", "replace")


def _named(state: State | None) -> str:
    if state is None:
        return "nothing"
    match state.kind:
        case "file":
            return f"a file of {state.size:,} bytes"
        case "link":
            return f"a link to {state.digest}"
        case "folder":
            return "a folder"
        case _:
            return "no file, link or folder"
