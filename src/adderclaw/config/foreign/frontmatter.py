"""Parses the YAML frontmatter of Markdown files such as skills. Repairs common mistakes; every scalar is a text."""

import re
from typing import Any, NamedTuple, cast

from adderclaw.core.types import Json

LIMIT = 65_536
"""Maximum size of the frontmatter in bytes."""
DEEPEST = 16
"""Maximum nesting depth of values."""
PART = 4_096
BOM = b"\xef\xbb\xbf"
END = re.compile(rb"\n---[ \t]*\r?(?:\n|\Z)")
_PLAIN = r"[^\s\[\]{}&*!|>%@`\"'#,?:-](?:[^#:\n]|:(?=\S)|(?<=\S)#)*"
_QUOTED = r"\"[^\"\\\n]*\"|'[^'\n]*'"
LINE = re.compile(rf"( *)([A-Za-z][\w.-]*):(?:[ \t]+({_QUOTED}|{_PLAIN}))?[ \t]*")
"""A simple `key: text` line. Frontmatter with only such lines is parsed without importing a YAML parser."""
BARE = re.compile(r"(description|compatibility|license):[ \t]+([^\s\[\]{}&*!|>%@`\"'#].*)")
"""An unquoted text that often contains a colon followed by a space, which is invalid YAML."""


NOTHING = frozenset({"", "~", "null", "Null", "NULL"})
"""Unquoted values that mean null. A quoted empty text is not null."""
TRUE = frozenset({"true", "yes", "on"})


class Malformed(ValueError):
    """The frontmatter is missing or invalid; the message says why."""


class Head(NamedTuple):
    fields: Json
    """Values are texts, lists, mappings or None; numbers, dates and booleans are read as texts."""
    repairs: tuple[str, ...]


def is_true(value: object) -> bool:
    return isinstance(value, str) and value.lower() in TRUE


def complete(data: bytes) -> bool:
    """Whether enough was read: the frontmatter has ended, or more data cannot make it valid."""
    start = data.removeprefix(BOM)
    return not start.startswith(b"---"[: len(start)]) or END.search(start, 2) is not None or len(data) >= LIMIT


def parse(data: bytes) -> Head:
    """Parse the frontmatter of a file that begins with `data`; raises Malformed."""
    repairs: list[str] = []
    if data.startswith(BOM):
        data = data[len(BOM) :]
        repairs.append("a byte order mark before the frontmatter was passed over")
    if not re.match(rb"---[ \t]*\r?\n", data):
        raise Malformed(_no_head(data))
    end = END.search(data, 2)
    if end is None:
        cut = f" within {LIMIT:,} bytes" if len(data) >= LIMIT else ""
        raise Malformed(f"its frontmatter does not end{cut}: a line `---` has to follow it")
    block = _text(data[: end.start() + 1]).split("\n", 1)[1]
    if "---" in block:
        repairs.append("a `---` inside the frontmatter was not taken as its end")
    return Head(_fields(block, repairs), tuple(repairs))


def body(text: str) -> str:
    """The text after the frontmatter; the whole text if there is no frontmatter."""
    match = re.match(r"\ufeff?---[ \t]*\r?\n(?:.*?\n)??---[ \t]*\r?(?:\n|\Z)", text, re.DOTALL)
    return text[match.end() :] if match else text


def whole(data: bytes) -> tuple[Json, str]:
    """The fields and the body of a complete file; raises Malformed."""
    fields = parse(data).fields
    return fields, body(_text(data)).strip()


def _no_head(data: bytes) -> str:
    if b"\0" in data:
        return "it is not a text file: it contains NUL bytes"
    return "it does not begin with a line `---` and the frontmatter (name, description)"


def _text(data: bytes) -> str:
    try:
        text = data.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise Malformed(f"it is not UTF-8 text ({error.reason} at byte {error.start})") from None
    if "\0" in text:
        raise Malformed("it is not a text file: it contains NUL bytes")
    return text


def _fields(block: str, repairs: list[str]) -> Json:
    simple = _simple(block)
    if simple is not None:
        return simple
    try:
        return _yaml(block, repairs)
    except Malformed:
        repaired = "\n".join(map(_quoted, block.split("\n")))
        if repaired == block:
            raise
    fields = _yaml(repaired, repairs)
    repairs.append("an unquoted text with a colon was read as quoted")
    return fields


def _quoted(line: str) -> str:
    match = BARE.fullmatch(line.rstrip())
    if match is None or not re.search(r":(?:\s|$)", match[2]):
        return line
    return f"{match[1]}: '{match[2].replace("'", "''")}'"


def _plain(value: str) -> str | None:
    return None if value in NOTHING else value


# ------------------------------------------------------------------ without a YAML parser


def _simple(block: str) -> Json | None:
    """The fields if all lines are `key: text`, with one nested level allowed below `metadata:`; otherwise None."""
    fields: Json = {}
    inner: Json | None = None
    width = ""
    for line in block.split("\n"):
        if not line.strip():
            continue
        match = LINE.fullmatch(line)
        if match is None:
            return None
        indent, key, value = match.groups()
        if not indent and value is None:
            if key != "metadata" or key in fields:
                return None
            fields[key] = inner = {}
            width = ""
            continue
        table = inner if indent else fields
        if table is None or value is None or key in table or (indent and width and indent != width):
            return None
        inner, width = (inner, indent) if indent else (None, "")
        table[key] = value[1:-1] if value[0] in "\"'" else _plain(value.rstrip())
    return None if fields.get("metadata") == {} else fields


# ------------------------------------------------------------------ with a YAML parser


def _yaml(block: str, repairs: list[str]) -> Json:
    import yaml

    try:
        flow = _inspected(yaml, block)
        value = _value(cast(Any, yaml).compose(block, Loader=yaml.BaseLoader))
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 2}" if mark is not None else ""
        problem = getattr(error, "problem", None) or type(error).__name__
        raise Malformed(f"its frontmatter is not YAML{where}: {problem}") from None
    if not isinstance(value, dict):
        raise Malformed("its frontmatter is not a mapping of names to values")
    if flow:
        repairs.append("a list or mapping in brackets was read as one of lines")
    return cast(Json, value)


def _inspected(yaml: Any, block: str) -> bool:
    """Whether brackets are used; raises Malformed for anchors, aliases, tags and deep nesting."""
    flow, depth = False, 0
    for event in yaml.parse(block, Loader=yaml.BaseLoader):
        line = event.start_mark.line + 2
        if getattr(event, "anchor", None) is not None or getattr(event, "tag", None) is not None:
            raise Malformed(f"line {line}: anchors, aliases and tags are not allowed in it")
        flow = flow or getattr(event, "flow_style", None) is True
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise Malformed(f"line {line}: it is nested deeper than {DEEPEST}")
    return flow


def _value(node: Any) -> Any:
    """The value of a node as texts, lists and mappings; raises Malformed for a duplicate key."""
    if node is None:
        return None
    if node.id == "scalar":
        return node.value if node.style else _plain(node.value)
    if node.id == "sequence":
        return [_value(item) for item in node.value]
    mapping: Json = {}
    for key, item in node.value:
        if key.id != "scalar" or key.value in mapping:
            why = "stands there twice" if key.id == "scalar" else "is no name"
            raise Malformed(f"line {key.start_mark.line + 2}: {str(key.value)[:40]!r} {why}")
        mapping[key.value] = _value(item)
    return mapping
