"""Reads a message of the client: its text, pictures and documents."""

import base64
import binascii
from collections.abc import Callable
from secrets import token_hex
from typing import Any, cast

from adderclaw.agent.session.session import NO_ATTACHMENTS, Attached
from adderclaw.core import framing
from adderclaw.core.errors import UsageError
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json, MediaBlock
from adderclaw.terminal.print_mode.lines import new_uuid
from adderclaw.terminal.print_mode.no_effect import MESSAGE_FIELDS

type Where = Callable[[str], str]
"""Adds the line number of the input to a problem."""


class UserMessage(NamedTuple):
    text: str
    content: object
    """As the client sent it."""
    uuid: str
    """The client's own name for the message, or a new one."""
    attached: Attached = NO_ATTACHMENTS
    verbatim: bool = False
    """Whether a leading `/` is plain text and calls no skill or command."""
    asks: bool = True
    """Whether it is answered; otherwise it is sent together with the next answered message."""
    ignored: tuple[str, ...] = ()
    """Fields of the message that have no effect."""
    problem: str = ""
    """Why the message cannot be used. It is answered with this error."""


class _Unusable(Exception):
    """A valid block that cannot be sent to a model here."""


def read_user_message(message: Json, where: Where) -> UserMessage:
    """Reads a user message. Raises UsageError if it is not a message of the protocol."""
    body: Any = message.get("message")
    content: Any = cast(Json, body).get("content") if isinstance(body, dict) else None
    message_id: Any = message.get("uuid")
    uuid = message_id if isinstance(message_id, str) and message_id else new_uuid()
    verbatim, asks = message.get("client_composed") is True, message.get("shouldQuery") is not False
    ignored = tuple(name for name in MESSAGE_FIELDS if message.get(name))
    if isinstance(content, str):
        return UserMessage(content, content, uuid, verbatim=verbatim, asks=asks, ignored=ignored)
    if not isinstance(content, list):
        raise UsageError(where('a user message must be {"role": "user", "content": "…"}'))
    words: list[str] = []
    texts: list[str] = []
    media: list[MediaBlock] = []
    try:
        for block in cast(list[Any], content):
            _add(cast(Json, block) if isinstance(block, dict) else {}, words, texts, media, where)
    except _Unusable as error:
        return UserMessage("", content, uuid, problem=where(str(error)))
    attached = Attached(tuple(texts), tuple(media))
    if any(isinstance(part, dict) and cast(Json, part).get("citations") for part in cast(list[Any], content)):
        ignored = (*ignored, "citations")
    text = "\n".join(words)
    return UserMessage(text, text if attached == NO_ATTACHMENTS else content, uuid, attached, verbatim, asks, ignored)


def merge_queued_messages(before: list[UserMessage], message: UserMessage) -> UserMessage:
    """Joins a message with earlier ones that were not to be answered."""
    if not before:
        return message
    every = (*before, message)
    return message._replace(
        text="\n\n".join(queued.text for queued in every if queued.text),
        attached=Attached(
            tuple(text for queued in every for text in queued.attached.texts),
            tuple(block for queued in every for block in queued.attached.media),
        ),
    )


def _add(block: Json, words: list[str], texts: list[str], media: list[MediaBlock], where: Where) -> None:
    kind, source = block.get("type"), block.get("source")
    if kind == "text" and isinstance(block.get("text"), str):
        words.append(str(block["text"]))
        return
    if kind in ("tool_result", "search_result", "container_upload"):
        raise _Unusable(f"a block of type {str(kind)!r} cannot be sent here; send its content as text")
    if kind not in ("image", "document") or not isinstance(source, dict):
        fix = "send text, an image or a document with its data"
        raise UsageError(where(f"a block of type {str(kind)[:40]!r} cannot be sent here; {fix}"))
    fields = cast(Json, source)
    if fields.get("type") not in ("base64", "text", "content"):
        fix = "send the data in base64: URLs are not fetched, and there are no uploaded files"
        raise _Unusable(f"{kind}: the source type {str(fields.get('type'))[:20]!r} cannot be used here; {fix}")
    name = str(block.get("title") or "")[:200]
    if block.get("context"):
        texts.append(_framed(f"about {name or 'the document'}", str(block["context"])))
    if fields["type"] == "base64":
        media.append(_media(str(kind), fields, name))
        return
    inner: Any = fields.get("data") if fields["type"] == "text" else fields.get("content")
    for part in cast(list[Any], inner) if isinstance(inner, list) else [{"type": "text", "text": inner}]:
        plain: list[str] = []
        _add(cast(Json, part) if isinstance(part, dict) else {}, plain, texts, media, where)
        texts += [_framed(name or "document", text) for text in plain]


def _framed(name: str, text: str) -> str:
    return framing.attachment(f"{name}:\n{framing.framed(token_hex(8), text)}")


def _media(kind: str, source: Json, name: str) -> MediaBlock:
    """Checks a picture or PDF, because one that a provider rejects would fail every later request."""
    from adderclaw.tools import images

    encoded = source.get("data")
    try:
        data = base64.b64decode(encoded if isinstance(encoded, str) else "", validate=True)
        if kind == "document":
            if source.get("media_type") != "application/pdf" or not data.startswith(b"%PDF-"):
                raise _Unusable("a document in base64 must be a PDF; send other content as a document of type 'text'")
            return MediaBlock("application/pdf", str(encoded), name)
        media_type = images.measure_image(data).media_type
    except (binascii.Error, ValueError) as error:
        raise _Unusable(f"the {kind} cannot be used: {error}") from None
    if len(data) > images.MAX_BYTES:
        raise _Unusable(f"the image has more than {images.MAX_BYTES:,} bytes: {images.FIX}")
    return MediaBlock(media_type, str(encoded), name)
