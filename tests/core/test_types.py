"""A history as bytes: only ever appended to, and with roles that take turns where a server wants that."""

import json

from adderclaw.core.history import History
from adderclaw.core.types import Message, TextBlock
from tests.rows import rows


def encode(message: Message) -> list[bytes]:
    return [
        json.dumps([message.role, *(block.text for block in message.blocks if isinstance(block, TextBlock))]).encode()
    ]


def said(role: str, text: str) -> Message:
    return Message("user" if role == "u" else "assistant", (TextBlock(text),))


TURNS = [
    (["u1"], [["user", "1"]]),
    (["u1", "a2", "u3"], [["user", "1"], ["assistant", "2"], ["user", "3"]]),
    (["u1", "u2"], [["user", "1", "2"]]),
    (["a1", "u2", "u3", "u4", "a5"], [["assistant", "1"], ["user", "2", "3", "4"], ["assistant", "5"]]),
    (["a1", "a2"], [["assistant", "1"], ["assistant", "2"]]),
]  # fmt: skip


@rows(("words", "wanted"), TURNS)
@rows("each", [True, False])
def test_what_a_user_said_in_a_row_is_one_message(words: list[str], wanted: list[list[str]], each: bool) -> None:
    history = History()
    for word in words:
        history.append(said(word[0], word[1:]))
        if each:  # a request after each message: what stands already is grown, not made anew
            history.encoded("w", encode, take_turns=True)
    assert json.loads(b"[" + history.encoded("w", encode, take_turns=True) + b"]") == wanted
    plain = [["user" if word[0] == "u" else "assistant", word[1:]] for word in words]
    assert json.loads(b"[" + history.encoded("plain", encode) + b"]") == plain
