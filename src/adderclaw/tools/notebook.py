"""Jupyter notebooks: shown cell by cell with their outputs, and changed by cell, everything else left as it was."""

import io
import json
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from adderclaw.core.json_text import check_size
from adderclaw.core.record import record
from adderclaw.core.types import Json, MediaBlock, PathFact, Prepared, Tool, ToolContext, ToolResult
from adderclaw.tools import paths
from adderclaw.tools.paths import OldFile, answered
from adderclaw.tools.specs import spec

if TYPE_CHECKING:
    from adderclaw.tools.files import Change

OUTPUT_CHARS = 10_000
"""Of one cell's output."""
MOST_IMAGES = 8
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


@record
class NotebookEditArguments:
    notebook_path: str
    new_source: str = ""
    cell_id: str = ""
    """As Read shows it. With insert: the cell after which the new one goes; without it, at the start."""
    cell_type: Literal["code", "markdown"] | None = None
    """Needed for insert."""
    edit_mode: Literal["replace", "insert", "delete"] = "replace"


class NoNotebook(ValueError):
    """A file that is called a notebook and is none, with the reason."""


class Notebook(NamedTuple):
    whole: Json
    cells: list[Json]
    indent: int | None
    ascii: bool
    end: str

    def encoded(self) -> bytes:
        """Raises NoNotebook before the text grows larger than what can be written."""
        encoder = json.JSONEncoder(indent=self.indent, ensure_ascii=self.ascii, separators=(",", ": "))
        made = io.StringIO()
        for part in encoder.iterencode(self.whole):
            made.write(part)
            if made.tell() > paths.MAX_BYTES:
                raise NoNotebook(f"it would have more than {paths.MAX_BYTES} bytes")
        data = (made.getvalue() + self.end).encode("utf-8")
        if len(data) > paths.MAX_BYTES:
            raise NoNotebook(f"it would have more than {paths.MAX_BYTES} bytes")
        return data


def parsed(data: bytes) -> Notebook:
    """Raises NoNotebook. How it was written is remembered, so that it is written the same way again."""
    try:
        check_size(data)
        text = data.decode("utf-8")
        found: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NoNotebook(f"it is no JSON ({str(error)[:100]})") from None
    if not isinstance(found, dict):
        raise NoNotebook("it is no JSON object")
    whole = cast(Json, found)
    cells: Any = whole.get("cells")
    if not isinstance(whole.get("nbformat"), int) or not isinstance(cells, list):
        raise NoNotebook("it has no `nbformat` and no list of `cells`")
    if whole["nbformat"] < 4:
        raise NoNotebook(f"it is of format {whole['nbformat']}: `jupyter nbconvert --to notebook` makes it format 4")
    for number, cell in enumerate(cast(list[Any], cells)):
        if not _is_cell(cell):
            raise NoNotebook(f"its cell {number} has no type and source")
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


def id_of(cell: Json, number: int) -> str:
    """Its own, or its place where the format is too old for ids."""
    own = cell.get("id")
    return own if isinstance(own, str) and own else f"cell-{number}"


# ------------------------------------------------------------------ Read


def shown(data: bytes, place: PathFact, ctx: ToolContext) -> ToolResult:
    """All cells with their outputs. Raises NoNotebook."""
    book = parsed(data)
    parts: list[str] = []
    media: list[MediaBlock] = []
    for number, cell in enumerate(book.cells):
        parts.append(f'<cell id="{id_of(cell, number)}" type="{cell["cell_type"]}">\n{_text(cell["source"])}\n</cell>')
        printed = "\n".join(_outputs(cell, media)).strip()
        if printed:
            parts.append(f"<output>\n{printed}\n</output>")
    count = len(book.cells)
    parts.append(f"({paths.relative(place.path, ctx)}: notebook, {count} cell{'' if count == 1 else 's'})")
    about = {"file_path": place.path, "cells": count, "bytes": len(data)}
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
        said = _output(cast(Json, output), media)
        if len(said) > OUTPUT_CHARS:
            said = f"{said[:OUTPUT_CHARS]}\n[… {len(said) - OUTPUT_CHARS} characters of this output left out …]"
        if said:
            yield said


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
            return f"[{kind}, shown beside this text: number {len(media)}]"
    for kind in ("text/plain", "text/markdown", "text/html", "application/json"):
        if said := _text(data.get(kind)):
            return _ANSI.sub("", said)
    return f"[{', '.join(data)[:200]}]" if data else ""


def _picture(encoded: str) -> MediaBlock | None:
    import base64
    import binascii

    from adderclaw.tools import images

    try:
        if len(encoded) > 2 * images.MAX_BYTES:
            return None
        raw = base64.b64decode("".join(encoded.split()), validate=True)
        found = images.measured(raw)
    except (binascii.Error, images.Broken):
        return None
    if len(raw) > images.MAX_BYTES:
        return None
    return MediaBlock(found.media_type, base64.b64encode(raw).decode(), "output")


# ------------------------------------------------------------------ NotebookEdit


def _edited(place: PathFact, arguments: NotebookEditArguments, ctx: ToolContext) -> "Change | str":
    from adderclaw.tools.files import Change, missing, unseen

    name = paths.relative(place.path, ctx)
    if not place.path.endswith(".ipynb"):
        return f"{name} is no notebook (.ipynb): use Edit for other files."
    old = paths.current(place, ctx)
    if old is None:
        return f"{missing(place, ctx)} Write makes a new notebook."
    if reason := unseen(place, old, ctx, whole=False):
        return reason
    try:
        summary, data = changed(arguments, old)
    except NoNotebook as error:
        return f"{name} is no notebook that can be changed: {error}."
    except LookupError as error:
        return str(error.args[0])
    return Change(data, old, summary, is_told=True)


def changed(arguments: NotebookEditArguments, old: OldFile) -> tuple[str, bytes]:
    """What was done, and the notebook after it. Raises NoNotebook and LookupError."""
    book = parsed(old.data)
    cells, mode = book.cells, arguments.edit_mode
    if mode == "insert":
        if arguments.cell_type is None:
            raise LookupError("cell_type is needed to insert a cell: code or markdown.")
        place = _place(cells, arguments.cell_id) + 1 if arguments.cell_id else 0
        cells.insert(place, _new_cell(arguments.cell_type, arguments.new_source, book.whole))
        return f"Inserted the cell {id_of(cells[place], place)} into", book.encoded()
    place = _place(cells, arguments.cell_id)
    name = id_of(cells[place], place)
    if mode == "delete":
        del cells[place]
        return f"Deleted the cell {name} of", book.encoded()
    _replace(cells[place], arguments)
    return f"Replaced the cell {name} of", book.encoded()


def _place(cells: list[Json], cell_id: str) -> int:
    if not cell_id:
        raise LookupError("cell_id is needed: Read shows the ids of the cells.")
    found = [number for number, cell in enumerate(cells) if id_of(cell, number) == cell_id]
    if not found:
        known = ", ".join(id_of(cell, number) for number, cell in enumerate(cells[:20]))
        raise LookupError(f"there is no cell {cell_id!r}; there are: {known or 'none'}.")
    if len(found) > 1:
        raise LookupError(f"{len(found)} cells have the id {cell_id!r}: it cannot be told which is meant.")
    return found[0]


def _lines(source: str) -> list[str]:
    return source.splitlines(keepends=True)


def _new_cell(cell_type: str, source: str, whole: Json) -> Json:
    cell: Json = {"cell_type": cell_type}
    if cell_type == "code":
        cell["execution_count"] = None
    minor: Any = whole.get("nbformat_minor")
    if isinstance(minor, int) and (whole["nbformat"], minor) >= (4, 5):
        cell["id"] = os.urandom(4).hex()
    cell["metadata"] = {}
    if cell_type == "code":
        cell["outputs"] = []
    return cell | {"source": _lines(source)}


def _replace(cell: Json, arguments: NotebookEditArguments) -> None:
    """The cell's source, in the form that it had. What an old source printed is no longer what it prints."""
    source = arguments.new_source
    cell["source"] = source if isinstance(cell["source"], str) else _lines(source)
    cell["cell_type"] = arguments.cell_type or cell["cell_type"]
    if cell["cell_type"] == "code":
        cell["execution_count"], cell["outputs"] = None, []
    else:
        cell.pop("execution_count", None)
        cell.pop("outputs", None)


# ------------------------------------------------------------------ the tool


def _prepare(arguments: NotebookEditArguments, ctx: ToolContext) -> Prepared:
    from adderclaw.tools import files

    place = paths.fact(arguments.notebook_path, ctx)
    return files.changing(place, lambda: _edited(place, arguments, ctx), ctx)


def tools(seconds: float) -> tuple[Tool[Any], ...]:
    editing = spec("NotebookEdit")
    return (
        Tool(
            "NotebookEdit",
            NotebookEditArguments,
            answered(_prepare),
            editing.description,
            editing.parameters,
            (),
            lambda _arguments: seconds,
            deferred=True,
        ),
    )
