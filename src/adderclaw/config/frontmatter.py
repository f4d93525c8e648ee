"""Markdown files that begin with YAML between `---` lines: agent definitions, skills."""

import re
from typing import Any, NamedTuple, cast

from adderclaw.types import Json

LIMIT = 256 * 1024
"""Bytes of such a file."""
PLAIN = re.compile(r"([A-Za-z][\w-]*):[ \t]+([^\s\[\]{}&*!|>%@`\"'#,?:-](?:[^#:\n]|:(?=\S)|(?<=\S)#)*)")
"""A line that is plainly `key: text`, for which no YAML parser has to be imported."""
NOT_TEXT = re.compile(r"(?i)[-+.\d].*|true|false|yes|no|on|off|null|~")


class Malformed(ValueError):
    """A file that cannot be taken for what it should be."""


class Document(NamedTuple):
    head: Json
    body: str


def parse(data: bytes) -> Document:
    """The mapping between the `---` lines, and the text after them; raises Malformed."""
    if len(data) > LIMIT:
        raise Malformed(f"it has {len(data)} bytes; at most {LIMIT} are read")
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise Malformed(f"it is not UTF-8 text ({error.reason} at byte {error.start})") from None
    if "\0" in text:
        raise Malformed("it holds NUL bytes: it is no text")
    found = re.match(r"---[ \t]*\n(.*?)(?:^|\n)---[ \t]*(?:\n|$)(.*)", text, re.DOTALL)
    if found is None:
        raise Malformed("it does not begin with a block of `key: value` lines between two lines `---`")
    return Document(_mapping(found[1]), found[2].strip())


def _mapping(block: str) -> Json:
    lines = [line for line in block.split("\n") if line.strip()]
    plain = [PLAIN.fullmatch(line.rstrip()) for line in lines]
    if all(line is not None and not NOT_TEXT.fullmatch(line[2]) for line in plain):
        return {line[1]: line[2].strip() for line in plain if line is not None}
    return _yaml(block)


def _yaml(block: str) -> Json:
    import yaml

    try:
        value: Any = yaml.safe_load(block)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 2}" if mark is not None else ""
        problem = getattr(error, "problem", None) or type(error).__name__
        raise Malformed(f"its frontmatter is not YAML{where}: {problem}") from None
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in cast(dict[Any, Any], value)):
        raise Malformed("its frontmatter is not a mapping of names to values")
    return cast(Json, value)
