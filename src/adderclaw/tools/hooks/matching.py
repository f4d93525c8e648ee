"""Decides whether a hook's matcher matches an event."""

import os
import re
from collections.abc import Mapping

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
    it may be one that refuses.
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
    from adderclaw.tools.hooks import ecmascript

    try:
        return ecmascript.search_pattern(matcher, text) is not False
    except ecmascript.InvalidPattern:
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
    from adderclaw.tools.hooks import ecmascript

    try:
        ecmascript.search_pattern(matcher, "")
    except ecmascript.InvalidPattern as error:
        return f"the matcher {matcher!r} is not a valid ECMAScript regular expression: {error}"
    return ""
