"""A prompt of an editor: its words, what is embedded in it as data, and the files that it only names."""

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
"""Characters of the words of one prompt."""
MOST_EMBEDDED = 200_000
"""Characters of one embedded text; of a longer one the head and the tail are shown."""
MOST_PICTURES = 20
MOST_PICTURE = 8 << 20
"""Bytes of one picture."""
PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
DOCUMENTS = frozenset({"application/pdf"})
_LINES = re.compile(r"L(\d{1,9})(?:[-:]L?(\d{1,9}))?")


class Link(NamedTuple):
    """A file that a prompt names: it is opened by us, or not at all."""

    path: str
    given: Json
    """What Read is given."""


class Given(NamedTuple):
    """One prompt."""

    text: str
    texts: tuple[str, ...] = ()
    """What was embedded, framed as what came from outside."""
    media: tuple[MediaBlock, ...] = ()
    links: tuple[Link, ...] = ()


def read(blocks: Sequence[Block]) -> Given:
    """UsageError says what cannot be used."""
    if len(blocks) > MOST_BLOCKS:
        raise UsageError(f"a prompt has at most {MOST_BLOCKS} parts; this one has {len(blocks):,}")
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
                words.append(_mention(_name(block.resource.uri)))
                _embed(block.resource, texts, media)
            case schema.AudioContentBlock():
                raise UsageError("sound cannot be used: send text, files or pictures")
    text = "".join(words)
    if len(text) > MOST_TEXT:
        raise UsageError(f"the words of a prompt have at most {MOST_TEXT:,} characters; embed a file in place of them")
    if len(media) > MOST_PICTURES:
        raise UsageError(f"a prompt has at most {MOST_PICTURES} pictures; this one has {len(media)}")
    return Given(text, tuple(texts), tuple(media), tuple(links.values()))


def _embed(
    resource: schema.TextResourceContents | schema.BlobResourceContents, texts: list[str], media: list[MediaBlock]
) -> None:
    name = visible(resource.uri, keep_newlines=False)[:1_000]
    if isinstance(resource, schema.TextResourceContents):
        shown = framing.shorten(resource.text, MOST_EMBEDDED)
        texts.append(framing.attachment(f"{name}:\n{framing.framed(token_hex(8), shown)}"))
    else:
        media.append(_picture(resource.mime_type or "", resource.blob, _name(resource.uri)))


def _picture(media_type: str, data: str, name: str) -> MediaBlock:
    kind = media_type.lower().partition(";")[0].strip()
    if kind not in PICTURES | DOCUMENTS:
        raise UsageError(f"{kind[:60]!r} cannot be used: a prompt has {', '.join(sorted(PICTURES | DOCUMENTS))}")
    if len(data) > MOST_PICTURE * 4 // 3 + 4:
        raise UsageError(f"a picture has at most {MOST_PICTURE:,} bytes")
    try:
        b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise UsageError("a picture is not in base64") from None
    return MediaBlock(kind, data, name)


def linked(uri: str) -> Link | None:
    """The file that an address names; None for what is no file of this machine: that stays words."""
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
    """What a person calls it: a file by its name, anything else by its address."""
    link = linked(uri)
    return os.path.basename(link.path.rstrip("/")) if link is not None else uri


def _mention(name: str) -> str:
    return f"@{visible(name, keep_newlines=False)[:300]}"
