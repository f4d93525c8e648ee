"""The words of a text by which skills are found: lower case, without endings, without those that say nothing."""

import re

MOST = 200
"""Words of a task that are looked at."""
EMPTY = frozenset(
    re.findall(
        r"\w+",
        """a about above after again all also an and any are as at be been before being below between both but by can
        could did do does doing down during each few for from further get give had has have having he her here him his
        how i if in into is it its just let like make me more most my need no nor not now of off on once only or other
        our out over own please same she should skill so some such task than that the their them then there these they
        this those through to too under until up use used user using very want was we were what when where which while
        who whom why will with would you your""",
    )
)
_WORD = re.compile(r"[^\W_]+")
_ENDINGS = (
    "ization",
    "isation",
    "izing",
    "ising",
    "izer",
    "iser",
    "ize",
    "ise",
    "ing",
    "ies",
    "ers",
    "er",
    "ed",
    "es",
    "s",
)


def words(text: str) -> dict[str, str]:
    """Stem → the word as it was written, in the order of the text."""
    stems: dict[str, str] = {}
    for word in _WORD.findall(text.lower()):
        if len(word) > 1 and word not in EMPTY:
            stems.setdefault(stem(word), word)
            if len(stems) >= MOST:
                break
    return stems


def stem(word: str) -> str:
    """The word without a common English ending, so that `reports` and `reporting` are the same."""
    for ending in _ENDINGS:
        if len(word) - len(ending) >= 4 and word.endswith(ending):
            word = word[: -len(ending)]
            break
    return word.rstrip("ey") if len(word) > 4 else word
