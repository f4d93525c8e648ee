"""The frame in which a model is shown what came from outside."""

from adderclaw.record import NamedTuple


class Frame(NamedTuple):
    """Which part of a result came from outside, and the mark that the model knows its ends by."""

    mark: str
    """Random, so that nothing that is framed can hold it."""
    length: int
    """Characters, from the beginning; what follows are words of our own and of hooks."""


def framed(mark: str, text: str) -> str:
    """What came from outside, as a model is shown it: data, which cannot write its own end."""
    return f"<outside-{mark}>\n{text}\n</outside-{mark}>"


def framed_word(mark: str, text: str) -> str:
    """The same within a sentence."""
    return f"<outside-{mark}>{text}</outside-{mark}>"
