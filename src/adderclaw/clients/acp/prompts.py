"""Reads an editor's prompt: its text, embedded resources, and links to files."""

import binascii
import os
import re
from base64 import b64decode
from collections.abc import Sequence
from secrets import token_hex
from urllib.parse import unquote, urlsplit

from acp import schema

from adderclaw.core import framing
from adderclaw.core.errors import UsageError
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json, MediaBlock

type Block = (
    schema.TextContentBlock
    | schema.ImageContentBlock
    | schema.AudioContentBlock
    | schema.ResourceContentBlock
    | schema.EmbeddedResourceContentBlock
)

MOST_BLOCKS = 200
MOST_TEXT = 1 << 20
"""Maximum characters of a prompt's text."""
MOST_EMBEDDED = 200_000
"""Maximum characters of an embedded text; a longer one is cut in the middle."""
MOST_PICTURES = 20
MOST_PICTURE = 8 << 20
"""Maximum bytes of an image."""
PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
DOCUMENTS = frozenset({"application/pdf"})
_LINES = re.compile(r"L(\d{1,9})(?:[-:]L?(\d{1,9}))?")


class Link(NamedTuple):
    """A file that a prompt names. Only AdderClaw opens it, never the editor."""

    path: str
    arguments: Json
    """The arguments of the Read call."""


class ParsedPrompt(NamedTuple):
    """One prompt."""

    text: str
    texts: tuple[str, ...] = ()
    """Embedded texts, framed as external data."""
    media: tuple[MediaBlock, ...] = ()
    links: tuple[Link, ...] = ()


def read(blocks: Sequence[Block]) -> ParsedPrompt:
    """Read a prompt; raises UsageError for what is not supported."""
    if len(blocks) > MOST_BLOCKS:
        raise UsageError(f"a prompt may have at most {MOST_BLOCKS} parts; this one has {len(blocks):,}")
    words: list[str] = []
    texts: list[str] = []
    media: list[MediaBlock] = []
    links: dict[str, Link] = {}
    for block in blocks:
        match block:
            case schema.TextContentBlock():
                words.append(block.text)
            case schema.ImageContentBlock():
                media.append(_picture(block.mime_type, block.data, _name(block.uri or "")))
            case schema.ResourceContentBlock():
                words.append(_mention(_name(block.uri) or block.name))
                if (link := linked(block.uri)) is not None:
                    links[block.uri] = link
            case schema.EmbeddedResourceContentBlock():
                resource = block.resource
                words.append(_mention(_name(resource.uri)))
                if isinstance(resource, schema.TextResourceContents):
                    name = visible(resource.uri, keep_newlines=False)[:1_000]
                    shown = framing.shorten(resource.text, MOST_EMBEDDED)
                    texts.append(framing.attachment(f"{name}:\n{framing.framed(token_hex(8), shown)}"))
                else:
                    media.append(_picture(resource.mime_type or "", resource.blob, _name(resource.uri)))
            case schema.AudioContentBlock():
                raise UsageError("audio is not supported; send text, files or images")
    text = "".join(words)
    if len(text) > MOST_TEXT:
        raise UsageError(f"the text of a prompt may have at most {MOST_TEXT:,} characters; embed a file instead")
    if len(media) > MOST_PICTURES:
        raise UsageError(f"a prompt may have at most {MOST_PICTURES} images; this one has {len(media)}")
    return ParsedPrompt(text, tuple(texts), tuple(media), tuple(links.values()))


def _picture(media_type: str, data: str, name: str) -> MediaBlock:
    kind = media_type.lower().partition(";")[0].strip()
    if kind not in PICTURES | DOCUMENTS:
        raise UsageError(f"{kind[:60]!r} is not supported; use one of {', '.join(sorted(PICTURES | DOCUMENTS))}")
    if len(data) > MOST_PICTURE * 4 // 3 + 4:
        raise UsageError(f"an image may have at most {MOST_PICTURE:,} bytes")
    try:
        b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise UsageError("an image is not valid base64") from None
    return MediaBlock(kind, data, name)


def linked(uri: str) -> Link | None:
    """The local file that a URI names; None for any other URI, which stays text."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    path = unquote(parts.path)
    if not os.path.isabs(path) or "\0" in path or not path.isprintable():
        return None
    arguments: Json = {"file_path": path}
    if (lines := _LINES.fullmatch(parts.fragment)) is not None and int(lines[1]) > 0:
        first, last = int(lines[1]), int(lines[2] or lines[1])
        arguments |= {"offset": first, "limit": max(last - first + 1, 1)}
    return Link(path, arguments)


def _name(uri: str) -> str:
    """A file's name, or the URI of anything else."""
    link = linked(uri)
    return os.path.basename(link.path.rstrip("/")) if link is not None else uri


def _mention(name: str) -> str:
    return f"@{visible(name, keep_newlines=False)[:300]}"
