"""Programs of whose words a table cannot say enough: ffmpeg's inputs, outputs and filters, and tasks of projects."""

import re
from collections.abc import Callable
from itertools import pairwise

from adderclaw.policy.legacy.programs.allowlist import PROGRAMS, form
from adderclaw.policy.legacy.programs.objections import Ask, Objection, Words, unknown
from adderclaw.policy.legacy.programs.options import parse
from adderclaw.policy.legacy.programs.tabled import by_command, strange

_FILE = r"(?!-)[\w./%@+ -]+"
_NEAR = r"https?://(?:localhost|127\.0\.0\.1)(?::\d+)?(?:/[\w./?=&-]*)?"


def _ffmpeg(words: Words, _ask: Ask) -> Objection | None:
    """Files of the workspace and streams of this machine; no filter or format that reaches for anything else."""
    plain = tuple(re.sub(r"^(-[a-z_]+):[\w:]+$", r"\1", word) for word in words)
    options = PROGRAMS["ffmpeg"]
    found = parse(plain[1:], options.options, single_dash=True)
    if found.strange:
        return strange(found, options)
    formats, filters = _values(plain, "-f"), form("media_filter")
    graph = rf"{filters}(?:[,;]\s?{filters})*;?"
    inputs = rf"{_FILE}|{_NEAR}" + (f"|{graph}" if "lavfi" in formats else "")
    checks = (
        (formats, form("media_format")),
        (_values(plain, "-i"), inputs),
        (_values(plain, "-vf", "-af", "-filter", "-filter_complex", "-lavfi"), graph),
        (found.operands, rf"{_FILE}|-|pipe:1"),
    )
    for given, plainly in checks:
        odd = next((word for word in given if not re.fullmatch(plainly, word, re.ASCII)), None)
        if odd is not None:
            return Objection(f"{odd!r} may be more than a file of the workspace")
    return None


def _values(words: Words, *options: str) -> Words:
    return tuple(after for word, after in pairwise(words) if word in options)


_TASK = (
    r"(?:test|tests|lint|format|fmt|build|docs|check|start|dev|serve|clean|typecheck|types|coverage|cov|all|ci|install"
    r"|setup|run|bench|precommit|pre-commit|postinstall|configure|example|examples|app|main|train)(?:[-_:][\w-]+)?"
)


def _pixi(words: Words, ask: Ask) -> Objection | None:
    """Pixi runs a task of the project, or else any program."""
    if words[1:2] != ("run",):
        return by_command("pixi", words, PROGRAMS["pixi"])
    found = parse(words[2:], (PROGRAMS["pixi"].commands or {})["run"], until_operand=True)
    if found.strange or not found.operands:
        return unknown(found.strange[0]) if found.strange else Objection("pixi run without a task")
    return None if re.fullmatch(_TASK, found.operands[0]) else ask.inner(found.operands)


def _swift(words: Words, _ask: Ask) -> Objection | None:
    """A script of the project, with its own words after it."""
    script = len(words) > 1 and re.fullmatch(r"(?!-)[\w./+-]+\.swift", words[1], re.ASCII)
    return None if script else by_command("swift", words, PROGRAMS["swift"])


SPECIAL: dict[str, Callable[[Words, Ask], Objection | None]] = {
    "ffmpeg": _ffmpeg,
    "pixi": _pixi,
    "swift": _swift,
}
