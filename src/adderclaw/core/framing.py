"""Frames untrusted text for the model and shortens long texts to their head and tail."""

from adderclaw.core.record import NamedTuple

MOST_SHOWN = 30_000
"""Maximum number of characters of a tool result that the model sees."""
TRUNCATED = "[SDLC_TRUNCATED]"


class Frame(NamedTuple):
    """The untrusted part of a result and the mark that delimits it for the model."""

    mark: str
    """Random, so that the framed text cannot contain it."""
    length: int
    """Number of untrusted characters at the start; the rest comes from AdderClaw and hooks."""


STDERR = "--- stderr ---\n"
"""Separates stdout and stderr in the result of a command."""


def exit_line(code: int | str) -> str:
    """The first line in the result of a failed command."""
    return f"Exit code {code}\n"


def framed(mark: str, text: str) -> str:
    """Untrusted text in a frame. The text cannot forge the closing tag because it does not know the mark."""
    return f"<outside-{mark}>\n{text}\n</outside-{mark}>"


def framed_inline(mark: str, text: str) -> str:
    """Like `framed`, but inline."""
    return f"<outside-{mark}>{text}</outside-{mark}>"


def shorten(text: str, most: int = MOST_SHOWN, where: str = "") -> str:
    """Shortens a long text to its head and tail. `where`, after the number of omitted characters, says where the rest
    is."""
    if len(text) <= most:
        return text
    # Reserve space for the marker, so that a shortened text is not shortened again.
    half = max(most - 96 - len(where), 0) // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[… {left_out} characters left out{where} …]\n{text[len(text) - half :]}\n{TRUNCATED}"


def content_mark(text: str) -> str:
    """A mark that the text cannot contain because it is a hash of the text. It is the same in every process."""
    from hashlib import sha256

    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def attachment(text: str) -> str:
    """Something that a person attached to a message, such as a file or the output of a command."""
    return tagged("attached", text)


def notice(text: str) -> str:
    """A message from the program itself to the model, sent with a person's message."""
    return tagged("notice", text)


def is_attached(text: str) -> bool:
    """Whether a part of a message is an attachment or notice rather than a person's own words."""
    return text.startswith(("<attached>\n", "<attached-", "<notice>\n", "<notice-"))


def tagged(name: str, text: str, attributes: str = "") -> str:
    """A section of a prompt in a named tag. If the text could contain tags, the tag name includes a hash of the
    text."""
    name = f"{name}-{content_mark(text)}" if "<" in text else name
    return f"<{name}{attributes}>\n{text}\n</{name}>"
