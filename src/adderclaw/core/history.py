"""The messages of a session: their JSON, and the history that only grows at its end."""

import hashlib
from collections.abc import Callable, Sequence

from adderclaw.core.json_text import canonical
from adderclaw.core.types import Block, Json, MediaBlock, Message, OpaqueBlock, TextBlock, ToolResultBlock, ToolUseBlock


def message_json(message: Message) -> Json:
    return {"role": message.role, "blocks": [_block(block) for block in message.blocks]}


def media_json(media: Sequence[MediaBlock]) -> list[Json]:
    return [_block(one) for one in media]


def _block(block: Block) -> Json:
    match block:
        case TextBlock(text):
            return {"type": "text", "text": text}
        case ToolUseBlock(call):
            return {"type": "tool_use", "id": call.id, "name": call.name, "input": call.input}
        case ToolResultBlock(tool_use_id, content, is_error, media, frame):
            made: Json = {"type": "tool_result", "tool_use_id": tool_use_id, "content": content, "is_error": is_error}
            if frame is not None:
                made["frame"] = list(frame)
            return made | {"media": media_json(media)} if media else made
        case OpaqueBlock(wire, payload):
            return {"type": "opaque", "wire": wire, "payload": payload}
        case MediaBlock(media_type, data, name):
            return {"type": "media", "media_type": media_type, "data": data, "name": name}


class History:
    """The messages of one session, only ever appended to.

    An adapter's encoding of them is kept as bytes and grows at its end, so that the cost of a request does not
    grow with the number of messages before it; so is the hash that identifies the request.
    """

    def __init__(self, messages: Sequence[Message] = (), *, before: int = 0) -> None:
        self.messages: list[Message] = []
        self.before = before
        """Answers that were given before the first of these messages, by which a script finds its place."""
        self.size = 0
        """Bytes, from which tokens are estimated."""
        self.media = 0
        """Images and documents in it."""
        self._encoded: dict[str, tuple[int, int, bytearray]] = {}
        """Wire → messages done, where the last of them begins, and their bytes."""
        self._hash = hashlib.sha256()
        for message in messages:
            self.append(message)

    def append(self, message: Message) -> None:
        self.messages.append(message)
        encoded = canonical(message_json(message)).encode("utf-8", "surrogatepass")
        self._hash.update(encoded + b"\n")
        self.size += len(encoded)
        for block in message.blocks:
            if isinstance(block, (MediaBlock, ToolResultBlock)):
                self._weigh((block,) if isinstance(block, MediaBlock) else block.media)

    def _weigh(self, media: tuple[MediaBlock, ...]) -> None:
        self.media += len(media)
        self.size += sum(one.size - len(one.data) for one in media)

    def digest(self, head: bytes) -> str:
        """Identifies a request: what stands before the messages, then every message."""
        running = self._hash.copy()
        running.update(head)
        return running.hexdigest()

    def encoded(
        self, wire: str, encode: Callable[[Message], Sequence[bytes]], *, take_turns: bool = False
    ) -> bytearray:
        """All messages in one wire's form, comma-separated; only new ones are encoded. Do not change the result.

        With `take_turns` what a user said several times in a row, after a turn that failed, is one message: there
        are servers that refuse it otherwise.
        """
        done, start, buffer = self._encoded.get(wire, (0, 0, bytearray()))
        for place in range(done, len(self.messages)):
            first = self._first_of_run(place) if take_turns else place
            if first == place:
                start, message = len(buffer), self.messages[place]
            else:
                del buffer[start:]
                said = self.messages[first : place + 1]
                message = Message("user", tuple(block for one in said for block in one.blocks))
            for part in encode(message):
                if buffer:
                    buffer += b","
                buffer += part
        self._encoded[wire] = (len(self.messages), start, buffer)
        return buffer

    def _first_of_run(self, place: int) -> int:
        """Where the user began to speak without an answer between."""
        while place and self.messages[place].role == self.messages[place - 1].role == "user":
            place -= 1
        return place
