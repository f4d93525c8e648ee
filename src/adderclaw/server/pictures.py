"""Pictures that come with a message: of a kind and a size that models take."""

import base64
import binascii
from collections.abc import Sequence

from adderclaw.core.record import record
from adderclaw.core.types import MediaBlock
from adderclaw.server.refusal import Refusal
from adderclaw.tools import images

MOST_PICTURES = 10


@record
class Picture:
    data: str
    """Base64 of a PNG, JPEG, GIF or WebP file."""
    name: str = ""


def decode_pictures(pictures: Sequence[Picture]) -> tuple[MediaBlock, ...]:
    """Each looked at by what it is, not by what it is called."""
    if len(pictures) > MOST_PICTURES:
        raise Refusal(400, "pictures", f"{len(pictures)} pictures: a message has at most {MOST_PICTURES}")
    return tuple(_decode_picture(number, picture) for number, picture in enumerate(pictures, 1))


def _decode_picture(number: int, picture: Picture) -> MediaBlock:
    try:
        data = base64.b64decode(picture.data, validate=True)
        size = images.measure_image(data)
    except (binascii.Error, ValueError) as error:
        raise Refusal(400, "pictures", f"picture {number}: {error}") from error
    if len(data) > images.MAX_BYTES:
        raise Refusal(400, "pictures", f"picture {number} has more than {images.MAX_BYTES:,} bytes")
    return MediaBlock(size.media_type, base64.b64encode(data).decode(), picture.name[:200])
