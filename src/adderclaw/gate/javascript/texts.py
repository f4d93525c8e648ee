"""Texts that a piece of JavaScript puts together: what they may be, where that is known."""

from adderclaw.gate.javascript.kinds import MAX_KNOWN, NUMBER, TEXT, Cells, Kind

_MAX_LENGTH = 20_000


def added(cells: Cells, one: Kind, two: Kind, *, known: bool = True) -> Kind:
    """What `+` and templates make of two values."""
    if one.sort == two.sort == "number":
        return NUMBER
    if two.sort == "here" and one.known == frozenset({""}):
        return two
    if one.sort == "here" and two.sort == "text":
        return _beneath(one, two) if known else TEXT
    one, two = _said(one), _said(two)
    if known and one.sort == two.sort == "text" and one.known and two.known:
        found = _together(one.known, two.known)
        if found and sum(map(len, found)) < _MAX_LENGTH:
            return Kind("text", found)
    for kind in (one, two):
        if kind.sort not in ("none", "promise", "instance"):
            cells.plain(kind)
    return TEXT


def _together(one: frozenset[str], two: frozenset[str]) -> frozenset[str]:
    if len(one) * len(two) > MAX_KNOWN:
        return frozenset()
    return frozenset(a + b for a in one for b in two)


def _said(kind: Kind) -> Kind:
    """What is put together with others: there it shows where a text is missing."""
    if kind.sort != "text" or not kind.missing:
        return kind
    return Kind("text", None if kind.known is None else kind.known | {"undefined"})


def _beneath(one: Kind, two: Kind) -> Kind:
    """What is beneath a folder whose whole name is not known: a name follows after a stroke, and none climbs."""
    known = two.known or frozenset()
    if two.missing or not all(text.startswith("/") and ".." not in text.split("/") for text in known):
        return TEXT
    found = _together(one.known or frozenset(), known)
    return Kind("here", found) if found else TEXT
