"""How a model is shown what came from outside: in a frame, and of a long text the head and the tail."""

from adderclaw.core.record import NamedTuple

SHOWN = 30_000
"""Characters of one result that the model sees, whatever tool it is from."""
TRUNCATED = "[SDLC_TRUNCATED]"


class Frame(NamedTuple):
    """Which part of a result came from outside, and the mark that the model knows its ends by."""

    mark: str
    """Random, so that nothing that is framed can hold it."""
    length: int
    """Characters, from the beginning; what follows are words of our own and of hooks."""


STDERR = "--- stderr ---\n"
"""Stands between the two streams of a command in its result."""


def exit_line(code: int | str) -> str:
    """What the result of a command that failed begins with."""
    return f"Exit code {code}\n"


def framed(mark: str, text: str) -> str:
    """What came from outside, as a model is shown it: data, which cannot write its own end."""
    return f"<outside-{mark}>\n{text}\n</outside-{mark}>"


def framed_word(mark: str, text: str) -> str:
    """The same within a sentence."""
    return f"<outside-{mark}>{text}</outside-{mark}>"


def cut(text: str, most: int = SHOWN, where: str = "") -> str:
    """The head and the tail of a long text. `where` says, behind the number that is left out, what became of it."""
    if len(text) <= most:
        return text
    # What is said between the two counts as well: a text that was cut is not cut once more.
    half = max(most - 96 - len(where), 0) // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[… {left_out} characters left out{where} …]\n{text[len(text) - half :]}\n{TRUNCATED}"


def sealed(text: str) -> str:
    """A mark that the text cannot hold, for it is made of the text: the same text has it again, in every process."""
    from hashlib import sha256

    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def attached(text: str) -> str:
    """What a person put to a message beside their words: a file, what a command printed."""
    return tagged("attached", text)


def notice(text: str) -> str:
    """What the program itself tells the model beside a person's words."""
    return tagged("notice", text)


def is_attached(text: str) -> bool:
    """Whether a part of a message is not a person's own words."""
    return text.startswith(("<attached>\n", "<attached-", "<notice>\n", "<notice-"))


def tagged(name: str, text: str, attributes: str = "") -> str:
    """A part of a prompt under its name. Where something in it could be taken for a tag, ours have a mark."""
    name = f"{name}-{sealed(text)}" if "<" in text else name
    return f"<{name}{attributes}>\n{text}\n</{name}>"
