"""Parses tool calls that a model wrote into its text, for models and servers without native tool calls.

Two forms are accepted: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, and the same object alone in a fenced
block marked `json` or `tool_call`. Calls in other fences, quotations, thoughts, or repeated tool results are ignored,
so that a file that the model has read cannot make calls.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, cast

from adderclaw.core.deltas import GrowingText
from adderclaw.core.json_text import reject_constant
from adderclaw.core.types import Json
from adderclaw.models.providers import arguments_of

_OPENING = re.compile(
    r"<(?P<quiet>think|thinking|tool_response|tool_result)>"
    r"|(?P<call><tool_call>)"
    r"|^[ \t]*(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>[\w-]*)[^\n]*(?:\n|\Z)",
    re.MULTILINE,
)
_CALL_FENCES = ("json", "tool_call")
_MARKS = ("<tool_call>", "```", "~~~")
_MARK = re.compile("|".join(_MARKS))
_LINE_HEADS = (r"^[ \t]*\d+\t", r"^[^\n:]*[:-]\d+[:-]")
"""The prefixes that AdderClaw's tools add to each line."""
_ESCAPES = re.compile(r"\\+(?:u([0-9a-fA-F]{4})|[nrtbf])")


class TextCall(NamedTuple):
    name: str
    arguments: str
    """A JSON object, as text."""


class _Found(NamedTuple):
    call: TextCall
    written: str
    """The JSON as the model wrote it."""
    end: int


class TextCallFilter:
    """Streams text as it arrives, and holds it back from the first mark that may begin a call."""

    def __init__(self) -> None:
        self._shown = GrowingText()
        self._held = ""
        self._closed = False

    def show(self, piece: str) -> str:
        """Add a piece; returns the text that can be shown now."""
        if self._closed:
            return ""
        self._held += piece
        mark = _MARK.search(self._held)
        self._closed = mark is not None
        until = mark.start() if mark else len(self._held) - _begun(self._held)
        now, self._held = self._held[:until], self._held[until:]
        self._shown.add(now)
        return now

    def rest(self, final: str) -> str:
        """The rest of the final text that was not shown yet."""
        shown = str(self._shown)
        seen = shown if final.startswith(shown) else shown.strip()
        return final[len(seen) :] if final.startswith(seen) else ""


def _begun(text: str) -> int:
    """How many characters at the end may be the beginning of a mark."""
    return max(
        (size for mark in _MARKS for size in range(1, len(mark)) if text.endswith(mark[:size])),
        default=0,
    )


def split(text: str, tools: frozenset[str], results: Iterable[str]) -> tuple[str, list[TextCall]]:
    """Split text into the remaining text and the calls of these tools. `results`: the tool results so far."""
    remaining: list[str] = []
    calls: list[TextCall] = []
    known: list[str] | None = None
    kept_to = at = 0
    while opening := _OPENING.search(text, at):
        candidate = _found(text, opening, tools)
        if candidate is not None and known is None:
            known = [form for result in results for form in _forms(result)]
        if candidate is None or any(_squeezed(candidate.written) in form for form in known or ()):
            at = candidate.end if candidate else _past(text, opening)
            continue
        calls.append(candidate.call)
        remaining.append(text[kept_to : opening.start()])
        kept_to = at = candidate.end
    if not calls:
        return text, []
    return "".join((*remaining, text[kept_to:])).strip(), calls


def _forms(result: str) -> Iterator[str]:
    """A tool's result in the forms in which a model may repeat it."""
    from html import unescape

    for text in dict.fromkeys((result, unescape(result))):
        yield _squeezed(text)
        for head in _LINE_HEADS:
            yield _squeezed(re.sub(head, "", text, flags=re.MULTILINE))


def _squeezed(text: str) -> str:
    """Only letters and digits, because quoting changes white space, quotes and escapes."""
    plain = _ESCAPES.sub(lambda match: chr(int(match[1], 16)) if match[1] else "", text)
    return "".join(filter(str.isalnum, plain))


def _found(text: str, opening: re.Match[str], tools: frozenset[str]) -> _Found | None:
    if opening["call"]:
        line = text[text.rfind("\n", 0, opening.start()) + 1 : opening.start()]
        if line.endswith("`") or line.lstrip().startswith(">"):
            return None
        return _call_at(text, opening.end(), tools, re.compile(r"\s*</tool_call>|\s*(?=<tool_call>)|\s*\Z"))
    if opening["fence"] and opening["language"].lower() in _CALL_FENCES:
        return _call_at(text, opening.end(), tools, re.compile(rf"\s*{opening['fence']}[ \t]*(?=\n|\Z)|\s*\Z"))
    return None


def _call_at(text: str, start: int, tools: frozenset[str], closing: re.Pattern[str]) -> _Found | None:
    while text[start : start + 1].isspace():
        start += 1
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    closed, call = closing.match(text, end), _call_of(value)
    if closed is None or call is None or call.name not in tools:
        return None
    return _Found(call, text[start:end], closed.end())


def _call_of(value: Any) -> TextCall | None:
    if not isinstance(value, dict):
        return None
    fields = cast(Json, value)
    if isinstance(fields.get("function"), dict) and fields.keys() <= {"id", "type", "function"}:
        fields = cast(Json, fields["function"])
    if not fields.keys() <= {"id", "type", "name", "arguments", "parameters"}:
        return None
    name, arguments = fields.get("name"), fields.get("arguments", fields.get("parameters"))
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    if not isinstance(name, str) or arguments_of(raw) is None:
        return None
    return TextCall(name, raw)


def _past(text: str, opening: re.Match[str]) -> int:
    """The position at which to continue after an opening that is not a call."""
    if opening["quiet"]:
        end = f"</{opening['quiet']}>"
        position = text.find(end, opening.end())
        return len(text) if position < 0 else position + len(end)
    if opening["fence"]:
        closing = re.compile(rf"^[ \t]*{opening['fence']}[ \t]*$", re.MULTILINE).search(text, opening.end())
        return closing.end() if closing else len(text)
    return opening.end()


_DECODER = json.JSONDecoder(parse_constant=reject_constant)
