"""What somebody probably meant by a name that does not exist: one rule for commands, settings, tools and the rest."""

from collections.abc import Iterable

LONGEST = 100
"""Characters of a name that are looked at: nobody mistypes more."""


def near(name: str, known: Iterable[str]) -> str | None:
    """The known name that is one slip away: a few letters wrong, or only its beginning; else none.

    A wrong hint is worse than none: as many letters may be wrong as a third of the shorter of the two has.
    """
    wanted = _folded(name)
    best: tuple[int, int, str] | None = None
    for place, one in enumerate(known):
        distance = _distance(wanted, _folded(one))
        if distance is not None and (best is None or (distance, place) < best[:2]):
            best = (distance, place, one)
    return best[2] if best is not None else None


def meant(name: str, known: Iterable[str], quote: str = "") -> str:
    """The same as the end of a message, which is empty where nothing is near."""
    found = near(name, known)
    return f"; did you mean {quote}{found}{quote}?" if found else ""


def _folded(name: str) -> str:
    return name[:LONGEST].lower().replace("-", "").replace("_", "").replace(" ", "")


def _distance(wanted: str, known: str) -> int | None:
    if not wanted or not known:
        return None
    if len(wanted) >= 3 and known.startswith(wanted):
        return 1
    if len(known) >= 4 and wanted.startswith(known):
        return len(wanted) - len(known)
    from rapidfuzz.distance import OSA

    most = max(1, min(len(wanted), len(known)) // 3)
    distance = OSA.distance(wanted, known, score_cutoff=most)
    return distance if distance <= most and distance < len(wanted) else None
