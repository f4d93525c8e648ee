"""The messages of a session as JSON, and the append-only message history."""

import hashlib
from collections.abc import Callable, Sequence

from adderclaw.core.json_text import canonical
from adderclaw.core.types import Block, Json, MediaBlock, Message, OpaqueBlock, TextBlock, ToolResultBlock, ToolUseBlock


def message_json(message: Message) -> Json:
    return {"role": message.role, "blocks": [_block(block) for block in message.blocks]}


def media_json(media: Sequence[MediaBlock]) -> list[Json]:
    return [_block(block) for block in media]


def _block(block: Block) -> Json:
    match block:
        case TextBlock(text):
            return {"type": "text", "text": text}
        case ToolUseBlock(call):
            return {"type": "tool_use", "id": call.id, "name": call.name, "input": call.input}
        case ToolResultBlock(tool_use_id, content, is_error, media, frame):
            result: Json = {"type": "tool_result", "tool_use_id": tool_use_id, "content": content, "is_error": is_error}
            if frame is not None:
                result["frame"] = list(frame)
            return result | {"media": media_json(media)} if media else result
        case OpaqueBlock(wire, payload):
            return {"type": "opaque", "wire": wire, "payload": payload}
        case MediaBlock(media_type, data, name):
            return {"type": "media", "media_type": media_type, "data": data, "name": name}


class History:
    """The append-only messages of a session.

    Each adapter's encoding is cached as bytes and extended incrementally, as is the hash that identifies a request, so
    that the cost of a request does not grow with the number of earlier messages.
    """

    def __init__(self, messages: Sequence[Message] = (), *, before: int = 0) -> None:
        self.messages: list[Message] = []
        self.before = before
        """Number of answers before the first of these messages, from which a script computes its position."""
        self.size = 0
        """Size in bytes, from which tokens are estimated."""
        self.media = 0
        """Number of images and documents."""
        self._encoded: dict[str, tuple[int, int, bytearray]] = {}
        """Wire format → number of encoded messages, offset of the last one, and their bytes."""
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
        self.size += sum(block.size - len(block.data) for block in media)

    def digest(self, head: bytes) -> str:
        """Identifies a request by its head (everything before the messages) and all messages."""
        running = self._hash.copy()
        running.update(head)
        return running.hexdigest()

    def encoded(
        self, wire: str, encode: Callable[[Message], Sequence[bytes]], *, take_turns: bool = False
    ) -> bytearray:
        """All messages in a wire format, comma-separated. Only new ones are encoded. Do not modify the result.

        With `take_turns`, consecutive user messages (which follow a failed turn) are merged, because some servers
        reject them otherwise.
        """
        done, start, buffer = self._encoded.get(wire, (0, 0, bytearray()))
        for index in range(done, len(self.messages)):
            first = self._first_of_run(index) if take_turns else index
            if first == index:
                start, message = len(buffer), self.messages[index]
            else:
                del buffer[start:]
                user_messages = self.messages[first : index + 1]
                message = Message("user", tuple(block for part in user_messages for block in part.blocks))
            for part in encode(message):
                if buffer:
                    buffer += b","
                buffer += part
        self._encoded[wire] = (len(self.messages), start, buffer)
        return buffer

    def _first_of_run(self, index: int) -> int:
        """The index of the first of several consecutive user messages."""
        while index and self.messages[index].role == self.messages[index - 1].role == "user":
            index -= 1
        return index
