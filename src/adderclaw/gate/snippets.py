"""The places outside of the project that texts in a piece of Python name."""

import ast
import re

_ROOTS = r"/(?:etc|usr|home|root|var|tmp|proc|sys|dev|opt|boot|bin|sbin|lib\w*|mnt|media|srv|run|Users|private)(?:/|$)"


def places(code: str) -> tuple[str, ...]:
    """The places outside of the project, and above it, that texts in the code name."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return tuple(dict.fromkeys(text for text in texts if _leads_out(text)))


def _leads_out(text: str) -> bool:
    if len(text) > 300 or re.search(r"[\s\\^$|(){}]", text):
        return False
    return bool(re.match(_ROOTS, text)) or text.startswith("~") or ".." in text.split("/")
