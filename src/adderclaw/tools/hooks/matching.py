"""Decides whether a hook's matcher matches an event."""

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any

from adderclaw.core.types import Json
from adderclaw.tools.hooks.catalogue import EVENTS

EVERYTHING = ("", "*")
_SERVER = re.compile(r"mcp__\w+?(?=__|\b)", re.ASCII)
"""A server's name in a matcher, which is lowered because tool names have it in lower case."""
_EXACT = r"[\w |,-]+"
_PLAIN = r"[\w|]+"
_EXPRESSION_EVENTS = ("FileChanged", "StopFailure")
"""Events whose matcher is an expression if it has a space, comma or hyphen, because file names have these."""


def matched_text(event: str, fields: Json) -> str:
    """The text that a matcher of this event is compared with."""
    name = EVENTS[event].query
    value = str(fields.get(name, "")) if name else ""
    return os.path.basename(value) if event == "FileChanged" else value


def matches(event: str, matcher: str, text: str, aliases: Mapping[str, str] | None = None) -> bool:
    """`""` and `*` mean everything; words, alone or in a list, are exact names; the rest is an ECMAScript search.

    An invalid expression matches nothing. If the search takes too long or the text is too long, the hook runs, because
    it may be one that denies.
    """
    if matcher in EVERYTHING:
        return True
    if not EVENTS[event].query:
        return False
    if text.startswith("mcp__") and EVENTS[event].query == "tool_name":
        matcher = _SERVER.sub(lambda server: server[0].lower(), matcher)
    if _is_exact(event, matcher):
        words = {word.strip() for word in re.split(r"[|,]", matcher)}
        others: Mapping[str, str] = aliases if aliases and EVENTS[event].query == "tool_name" else {}
        return text in words or text in {others.get(word) for word in words}
    try:
        return search_pattern(matcher, text) is not False
    except InvalidPattern:
        return False


def _is_exact(event: str, matcher: str) -> bool:
    return re.fullmatch(_PLAIN if event in _EXPRESSION_EVENTS else _EXACT, matcher, re.ASCII) is not None


def never_matches_reason(event: str, matcher: str) -> str:
    """Why a matcher can never match; empty if it can."""
    if matcher in EVERYTHING:
        return ""
    if not EVENTS[event].query:
        return f"{event} does not use matchers. Leave out the matcher {matcher!r}"
    if _is_exact(event, matcher):
        return ""
    try:
        search_pattern(matcher, "")
    except InvalidPattern as error:
        return f"the matcher {matcher!r} is not a valid ECMAScript regular expression: {error}"
    return ""


# ------------------------------------------------------------------ ECMAScript expressions
#
# Python's `re` has another syntax and no time limit, so a pathological matcher could hang the session.

SECONDS = 0.2
"""More than any sensible matcher takes on a tool's or a file's name."""
MEMORY = 16 << 20
MAX_CHARS = 4_096
"""The longest pattern or text that is searched."""
_SEARCH = "(pattern, text) => new RegExp(pattern).test(text)"


class InvalidPattern(ValueError):
    """The pattern is not a valid regular expression."""


@lru_cache(maxsize=512)
def search_pattern(pattern: str, text: str) -> bool | None:
    """Whether the pattern matches anywhere; None if the search takes too long. Raises InvalidPattern."""
    if len(pattern) > MAX_CHARS or len(text) > MAX_CHARS:
        return None
    quickjs: Any = import_module("quickjs")  # imported late, because most matchers are plain names
    context = quickjs.Context()  # one per search, because a context belongs to the thread that created it
    context.set_time_limit(SECONDS)
    context.set_memory_limit(MEMORY)
    try:
        return bool(context.eval(_SEARCH)(_replace_surrogates(pattern), _replace_surrogates(text)))
    except quickjs.JSException as error:
        message = str(error).partition("\n")[0]
        if message.startswith("SyntaxError: "):
            raise InvalidPattern(message.removeprefix("SyntaxError: ")) from None
        return None  # the time limit, or the memory limit


def _replace_surrogates(text: str) -> str:
    """Replaces lone surrogates (bytes of a name that are not UTF-8), which JavaScript engines do not accept."""
    return text.encode("utf-8", "replace").decode()
