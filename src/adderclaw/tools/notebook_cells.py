"""Jupyter notebooks as data: parses them, shows cells with their outputs, and writes them in their own formatting."""

import io
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from adderclaw.core.host import ToolContext
from adderclaw.core.json_text import check_size
from adderclaw.core.types import Json, MediaBlock, PathFact, ToolResult
from adderclaw.tools import paths

OUTPUT_CHARS = 10_000
"""Most characters shown of one cell's output."""
MOST_IMAGES = 8
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


class NotANotebook(ValueError):
    """An .ipynb file is not a valid notebook; the message says why."""


class Notebook(NamedTuple):
    whole: Json
    cells: list[Json]
    indent: int | None
    ascii: bool
    end: str

    def encoded(self) -> bytes:
        """The notebook as bytes. Raises NotANotebook before the text exceeds what can be written."""
        encoder = json.JSONEncoder(indent=self.indent, ensure_ascii=self.ascii, separators=(",", ": "))
        buffer = io.StringIO()
        for part in encoder.iterencode(self.whole):
            buffer.write(part)
            if buffer.tell() > paths.MAX_BYTES:
                raise NotANotebook(f"it would have more than {paths.MAX_BYTES} bytes")
        data = (buffer.getvalue() + self.end).encode("utf-8")
        if len(data) > paths.MAX_BYTES:
            raise NotANotebook(f"it would have more than {paths.MAX_BYTES} bytes")
        return data


def parse_notebook(data: bytes) -> Notebook:
    """Parses a notebook and remembers its formatting, so that it is written the same way. Raises NotANotebook."""
    try:
        check_size(data)
        text = data.decode("utf-8")
        document: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotANotebook(f"it is not JSON ({str(error)[:100]})") from None
    if not isinstance(document, dict):
        raise NotANotebook("it is not a JSON object")
    whole = cast(Json, document)
    cells: Any = whole.get("cells")
    if not isinstance(whole.get("nbformat"), int) or not isinstance(cells, list):
        raise NotANotebook("it has no `nbformat` or no list of `cells`")
    if whole["nbformat"] < 4:
        raise NotANotebook(
            f"it has format {whole['nbformat']}; `jupyter nbconvert --to notebook` converts it to format 4"
        )
    for number, cell in enumerate(cast(list[Any], cells)):
        if not _is_cell(cell):
            raise NotANotebook(f"its cell {number} has no type or no source")
    second = re.match(r"\{\n( {0,8})(?! )", text)
    return Notebook(
        whole,
        cast(list[Json], cells),
        len(second[1]) if second else (None if "\n" not in text.strip() else 1),
        text.isascii() and "\\u" in text,
        text[len(text.rstrip()) :],
    )


def _is_cell(cell: Any) -> bool:
    if not isinstance(cell, dict):
        return False
    source: Any = cast(Json, cell).get("source")
    whole = isinstance(source, str) or (
        isinstance(source, list) and all(isinstance(line, str) for line in cast(list[Any], source))
    )
    return whole and isinstance(cast(Json, cell).get("cell_type"), str)


def id_of_cell(cell: Json, number: int) -> str:
    """The cell's id, or its number if the format is too old for ids."""
    own = cell.get("id")
    return own if isinstance(own, str) and own else f"cell-{number}"


# ------------------------------------------------------------------ rendering


def render_notebook(data: bytes, target: PathFact, ctx: ToolContext) -> ToolResult:
    """Shows all cells with their outputs. Raises NotANotebook."""
    book = parse_notebook(data)
    parts: list[str] = []
    media: list[MediaBlock] = []
    for number, cell in enumerate(book.cells):
        parts.append(
            f'<cell id="{id_of_cell(cell, number)}" type="{cell["cell_type"]}">\n{_text(cell["source"])}\n</cell>'
        )
        printed = "\n".join(_outputs(cell, media)).strip()
        if printed:
            parts.append(f"<output>\n{printed}\n</output>")
    count = len(book.cells)
    parts.append(f"({paths.relative(target.path, ctx)}: notebook, {count} cell{'' if count == 1 else 's'})")
    about = {"file_path": target.path, "cells": count, "bytes": len(data)}
    return ToolResult("\n".join(parts), metadata=about, media=tuple(media))


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "".join(map(str, cast(list[Any], value)))
    return value if isinstance(value, str) else ""


def _outputs(cell: Json, media: list[MediaBlock]) -> Iterator[str]:
    outputs: Any = cell.get("outputs")
    if not isinstance(outputs, list):
        return
    for output in cast(list[Any], outputs):
        if not isinstance(output, dict):
            continue
        text = _output(cast(Json, output), media)
        if len(text) > OUTPUT_CHARS:
            text = f"{text[:OUTPUT_CHARS]}\n[… {len(text) - OUTPUT_CHARS} characters of this output left out …]"
        if text:
            yield text


def _output(output: Json, media: list[MediaBlock]) -> str:
    match output.get("output_type"):
        case "stream":
            return _ANSI.sub("", _text(output.get("text")))
        case "error":
            trace: Any = output.get("traceback")
            lines = [_text(line) for line in cast(list[Any], trace)] if isinstance(trace, list) else []
            return _ANSI.sub("", "\n".join(lines) or f"{output.get('ename')}: {output.get('evalue')}")
        case _:
            data: Any = output.get("data")
            return _data(cast(Json, data), media) if isinstance(data, dict) else ""


def _data(data: Json, media: list[MediaBlock]) -> str:
    for kind in ("image/png", "image/jpeg"):
        if kind in data and len(media) < MOST_IMAGES and (picture := _picture(_text(data[kind]))) is not None:
            media.append(picture)
            return f"[{kind}, shown next to this text as number {len(media)}]"
    for kind in ("text/plain", "text/markdown", "text/html", "application/json"):
        if text := _text(data.get(kind)):
            return _ANSI.sub("", text)
    return f"[{', '.join(data)[:200]}]" if data else ""


def _picture(encoded: str) -> MediaBlock | None:
    import base64
    import binascii

    from adderclaw.tools import images

    try:
        if len(encoded) > 2 * images.MAX_BYTES:
            return None
        raw = base64.b64decode("".join(encoded.split()), validate=True)
        image = images.measure_image(raw)
    except (binascii.Error, images.BrokenImage):
        return None
    if len(raw) > images.MAX_BYTES:
        return None
    return MediaBlock(image.media_type, base64.b64encode(raw).decode(), "output")
