"""Suggests the intended name for an unknown one. Used for commands, settings, tools and so on."""

from collections.abc import Iterable

LONGEST = 100
"""Maximum number of characters of a name that are compared."""


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant: a few letters differ, or only its beginning was typed; otherwise None.

    A wrong hint is worse than none, so at most a third of the letters of the shorter name may differ.
    """
    typed = _folded(name)
    best: tuple[int, int, str] | None = None
    for index, candidate in enumerate(known):
        distance = _distance(typed, _folded(candidate))
        if distance is not None and (best is None or (distance, index) < best[:2]):
            best = (distance, index, candidate)
    return best[2] if best is not None else None


def did_you_mean(name: str, known: Iterable[str], quote: str = "") -> str:
    """The closest name as the end of a message; empty if no name is close."""
    suggestion = closest(name, known)
    return f"; did you mean {quote}{suggestion}{quote}?" if suggestion else ""


def _folded(name: str) -> str:
    return name[:LONGEST].lower().replace("-", "").replace("_", "").replace(" ", "")


def _distance(typed: str, known: str) -> int | None:
    if not typed or not known:
        return None
    if len(typed) >= 3 and known.startswith(typed):
        return 1
    if len(known) >= 4 and typed.startswith(known):
        return len(typed) - len(known)
    from rapidfuzz.distance import OSA

    most = max(1, min(len(typed), len(known)) // 3)
    distance = OSA.distance(typed, known, score_cutoff=most)
    return distance if distance <= most and distance < len(typed) else None
