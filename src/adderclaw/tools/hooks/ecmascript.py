"""ECMAScript regular expressions, searched for in a text by QuickJS within a time limit.

Python's `re` reads other syntax, and no time limit holds it: a matcher that explodes would hang the session.
"""

from functools import lru_cache
from importlib import import_module
from typing import Any

SECONDS = 0.2
"""More than any sensible matcher takes on a tool's or a file's name."""
MEMORY = 16 << 20
MAX_CHARS = 4_096
"""Characters of a pattern or a text that is searched."""
_SEARCH = "(pattern, text) => new RegExp(pattern).test(text)"


class InvalidPattern(ValueError):
    """The pattern is no regular expression."""


@lru_cache(maxsize=512)
def search_pattern(pattern: str, text: str) -> bool | None:
    """Whether the pattern matches anywhere; None where that takes too long. Raises Invalid."""
    if len(pattern) > MAX_CHARS or len(text) > MAX_CHARS:
        return None
    quickjs: Any = import_module("quickjs")  # with the first such matcher: most are plain names
    context = quickjs.Context()  # one for each search: a context belongs to the thread that made it
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
    """Without lone surrogates (bytes of a name that are no UTF-8), which no JavaScript engine is handed."""
    return text.encode("utf-8", "replace").decode()
