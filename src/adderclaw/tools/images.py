"""Images for the model: recognized by their first bytes, measured, and rejected if they are broken.

A provider that cannot read an image refuses the request and every later one of the conversation, so a damaged image
must never be sent.
"""

import zlib
from typing import NamedTuple

MAX_BYTES = 3_750_000
"""Five million characters of Base64: the largest image that every provider accepts."""
MAX_SIDE = 8000
FIX = "make a smaller copy and read that"


class Image(NamedTuple):
    media_type: str
    width: int
    height: int


class BrokenImage(ValueError):
    """Not an image that can be shown, with the reason."""


def media_type_of(head: bytes) -> str | None:
    """The media type of an image that starts with `head`; None for anything else."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else None


def measure_image(data: bytes) -> Image:
    """The type and size of an image; raises BrokenImage if it is truncated, damaged or too large for a provider."""
    media_type = media_type_of(data[:16])
    measure = {"image/png": _png, "image/jpeg": _jpeg, "image/gif": _gif, "image/webp": _webp}
    if media_type is None:
        raise BrokenImage("it is not a PNG, JPEG, GIF or WebP image")
    try:
        width, height = measure[media_type](data)
    except IndexError:
        raise BrokenImage("it is cut off") from None
    if not width or not height:
        raise BrokenImage("it has no width or no height")
    if max(width, height) > MAX_SIDE:
        raise BrokenImage(f"it has {width} × {height} pixels, but at most {MAX_SIDE} per side can be shown: {FIX}")
    return Image(media_type, width, height)


def _png(data: bytes) -> tuple[int, int]:
    position, size = 8, (0, 0)
    while True:
        length = int.from_bytes(data[position : position + 4], "big")
        chunk = data[position + 4 : position + 8 + length]
        check = data[position + 8 + length : position + 12 + length]
        if len(check) < 4:
            raise BrokenImage("it is cut off")
        if zlib.crc32(chunk) != int.from_bytes(check, "big"):
            raise BrokenImage("it is damaged: a checksum does not match")
        if chunk[:4] == b"IHDR":
            size = int.from_bytes(chunk[4:8], "big"), int.from_bytes(chunk[8:12], "big")
        if chunk[:4] == b"IEND":
            return size
        position += 12 + length


def _jpeg(data: bytes) -> tuple[int, int]:
    if b"\xff\xd9" not in data[-65536:]:
        raise BrokenImage("it is cut off")
    position = 2
    while True:
        if data[position] != 0xFF:
            raise BrokenImage("it is damaged: a segment does not start where the previous one ends")
        marker = data[position + 1]
        if marker == 0xFF:
            position += 1
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(data[position + 7 : position + 9], "big"), int.from_bytes(
                data[position + 5 : position + 7], "big"
            )
        else:
            position += 2 + int.from_bytes(data[position + 2 : position + 4], "big")


def _gif(data: bytes) -> tuple[int, int]:
    if not data.rstrip(b"\0").endswith(b";"):
        raise BrokenImage("it is cut off")
    return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")


def _webp(data: bytes) -> tuple[int, int]:
    if len(data) < 8 + int.from_bytes(data[4:8], "little") or len(data) < 30:
        raise BrokenImage("it is cut off")
    match data[12:16]:
        case b"VP8X":
            return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
        case b"VP8L":
            bits = int.from_bytes(data[21:25], "little")
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 ":
            return int.from_bytes(data[26:28], "little") & 0x3FFF, int.from_bytes(data[28:30], "little") & 0x3FFF
        case _:
            raise BrokenImage("it is an unknown kind of WebP")
