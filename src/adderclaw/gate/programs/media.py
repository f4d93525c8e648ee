"""Programs of whose words a table cannot say enough: ffmpeg's inputs, outputs and filters, and tasks of projects."""

import re
from collections.abc import Callable
from itertools import pairwise

from adderclaw.gate.programs.allowlist import PROGRAMS, names
from adderclaw.gate.programs.objections import Ask, Objection, Words, unknown
from adderclaw.gate.programs.options import parse
from adderclaw.gate.programs.tabled import by_command, strange

_FORMATS = names(
    """apng avi concat ffmetadata flac gif hls image2 image2pipe lavfi matroska mjpeg mov mp3 mp4 mpegts null ogg
    png_pipe rawvideo s16le wav webm webp"""
)
_FILTERS = (
    r"(?:scale|fps|crop|pad|trim|atrim|setpts|asetpts|volume|transpose|hflip|vflip|format|palettegen|paletteuse|split|asplit"
    r"|overlay|concat|select|thumbnail|tile|eq|fade|afade|loudnorm|aresample|amix|amerge|setsar|setdar|yadif|hstack|vstack"
    r"|color|testsrc2?|smptebars|sine|anullsrc|nullsrc|silencedetect|blackdetect|showinfo|null|anull|copy|reverse|areverse"
    r"|atempo|rotate|hue|negate|boxblur|unsharp|loop|minterpolate|idet|cropdetect|psnr|ssim|signalstats)"
)
"""Filters that open no file and load nothing."""
_FILTER = rf"(?:\[[\w:]+\])*\s?{_FILTERS}(?:=[\w.:=*/+()| #-]*)?(?:\[[\w:]+\])*"
_GRAPH = rf"{_FILTER}(?:[,;]\s?{_FILTER})*;?"
_FILE = r"(?!-)[\w./%@+ -]+"
_NEAR = r"https?://(?:localhost|127\.0\.0\.1)(?::\d+)?(?:/[\w./?=&-]*)?"


def _ffmpeg(words: Words, _ask: Ask) -> Objection | None:
    """Files of the workspace and streams of this machine; no filter or format that reaches for anything else."""
    plain = tuple(re.sub(r"^(-[a-z_]+):[\w:]+$", r"\1", word) for word in words)
    options = PROGRAMS["ffmpeg"]
    found = parse(plain[1:], options.options, single_dash=True)
    if found.strange:
        return strange(found, options)
    formats = _values(plain, "-f")
    inputs = rf"{_FILE}|{_NEAR}" + (rf"|{_GRAPH}" if "lavfi" in formats else "")
    checks = (
        (formats, "|".join(_FORMATS)),
        (_values(plain, "-i"), inputs),
        (_values(plain, "-vf", "-af", "-filter", "-filter_complex", "-lavfi"), _GRAPH),
        (found.operands, rf"{_FILE}|-|pipe:1"),
    )
    for given, form in checks:
        odd = next((word for word in given if not re.fullmatch(form, word, re.ASCII)), None)
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
