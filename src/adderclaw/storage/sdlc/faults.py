"""The fault that a plan names for a criterion of the kind *keeps*: replacements in files, as written in the plan."""

import re

from adderclaw.core.errors import UsageError
from adderclaw.core.record import NamedTuple

_REPLACE = re.compile(
    r"(?:[-*+]\s+)?in\s+(`+)(.+?)\1:?\s+replace\s+(`+)(.+?)\3\s+(?:with|by)\s+(?:(`+)(.*?)\5|nothing)\.?",
    re.IGNORECASE,
)
_DELETE = re.compile(r"(?:[-*+]\s+)?(?:delete|remove)\s+(`+)(.+?)\1\.?", re.IGNORECASE)
GRAMMAR = "in `FILE` replace `TEXT` with `OTHER TEXT` (or: with nothing), or delete `FILE`; one in a line"


class Fault(NamedTuple):
    path: str
    old: str = ""
    """Empty: the file is deleted."""
    new: str = ""


def parse(text: str) -> tuple[Fault, ...]:
    """The changes in order. Raises UsageError with the part that is not understood."""
    parsed = [_parse_line(line.strip()) for line in text.splitlines() if line.strip()]
    if not parsed:
        raise UsageError(f"the fault is empty; write {GRAMMAR}")
    return tuple(parsed)


def _parse_line(line: str) -> Fault:
    if replaced := _REPLACE.fullmatch(line):
        path, old, new = replaced[2].strip(), replaced[4], replaced[6] or ""
        if old == new:
            raise UsageError(f"the fault {line!r} changes nothing")
        fault = Fault(path, old, new)
    elif deleted := _DELETE.fullmatch(line):
        fault = Fault(deleted[2].strip())
    else:
        raise UsageError(f"the fault {line!r} is not understood; write {GRAMMAR}")
    parts = fault.path.split("/")
    if fault.path.startswith("/") or ".." in parts or not fault.path.strip("./"):
        raise UsageError(f"the fault names {fault.path!r}; give a path in the workspace, relative to its root")
    return fault
