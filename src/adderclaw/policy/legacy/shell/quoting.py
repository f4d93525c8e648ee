"""`$'…'` decoded as bash decodes it, and words quoted so that bash takes every character for itself."""

import re

from adderclaw.policy.legacy.shell.syntax import NotAPlan

_SIMPLE = {"r": "\r", "n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"', "?": "?"}


def ansi_c(text: str, at: int) -> tuple[str, int]:
    """The text after `$'`, and where it ends. What would be a control character or half of one is not decoded."""
    out: list[str] = []
    while True:
        char = text[at : at + 1]
        if not char:
            raise NotAPlan("cannot be parsed")
        if char == "'":
            return "".join(out), at + 1
        if char != "\\":
            out.append(char)
            at += 1
            continue
        following = text[at + 1 : at + 2]
        if following in _SIMPLE:
            out.append(_SIMPLE[following])
            at += 2
            continue
        number = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3}))").match(
            text, at
        )
        if number is None:
            raise NotAPlan("$'…' with an unusual escape")
        code = int(number[4], 8) if number[4] else int(number[1] or number[2] or number[3], 16)
        if not (code in (9, 10) or 32 <= code < 127 or (code >= 160 and (number[2] or number[3]))) or code > 0x10FFFF:
            raise NotAPlan("$'…' with a control character")
        out.append(chr(code))
        at = number.end()


def quote(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def quote_to_read(word: str) -> str:
    """For people: what has apostrophes, as inline code does, stands in double quotes where these change nothing."""
    if "'" in word and not any(char in word for char in '"$`\\!'):
        return f'"{word}"'
    return quote_if_needed(word)


def quote_if_needed(word: str) -> str:
    return word if re.fullmatch(r"[\w@%+=:,./-]+", word, re.ASCII) else quote(word)
