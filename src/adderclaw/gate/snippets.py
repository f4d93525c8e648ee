"""Texts that name places outside of the project."""

import re

_ROOTS = r"/(?:etc|usr|home|root|var|tmp|proc|sys|dev|opt|boot|bin|sbin|lib\w*|mnt|media|srv|run|Users|private)(?:/|$)"


def leads_out(text: str) -> bool:
    """Whether a text that is handed to code names a place outside of the project, or above it."""
    if len(text) > 300 or re.search(r"[\s\\^$|(){}]", text):
        return False
    return bool(re.match(_ROOTS, text)) or text.startswith("~") or ".." in text.split("/")
