"""Read for what is not lines of text: images, PDFs, notebooks; and NotebookEdit."""

import base64
import io
import json
import os
import stat
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from adderclaw.tools import images, long_outputs
from tests.tools.conftest import Bench


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int = 2, height: int = 3) -> bytes:
    rows = zlib.compress((b"\0" + b"\xff\0\0" * min(width, 16)) * min(height, 16))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08\x00\x07\x00\x05\x03" + b"\0" * 9 + b"\xff\xda\x00\x02xx\xff\xd9"
GIF = b"GIF89a\x04\x00\x06\x00\x00\x00\x00;"
WEBP = b"RIFF" + struct.pack("<I", 22) + b"WEBPVP8X" + struct.pack("<I", 10) + b"\0\0\0\0\x08\0\0\x09\0\0"


# ------------------------------------------------------------------ images


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (png()[:-4], "is cut off"),
        (png().replace(b"IDAT", b"IDAX"), "damaged"),
        (png()[:12], "is cut off"),
        (png(9000, 1), "9000 × 1 pixels"),
        (png(0, 1), "no width"),
        (JPEG[:-2], "is cut off"),
        (JPEG[:8] + b"zz" + JPEG[10:], "damaged"),
        (GIF[:-1], "is cut off"),
        (WEBP[:-4], "is cut off"),
        (WEBP.replace(b"VP8X", b"XXXX"), "unknown kind of WebP"),
        (png() + b"\0" * images.MAX_BYTES, "make a smaller copy"),
    ],
)
def test_an_image_that_a_provider_would_refuse(data: bytes, said: str, bench: Bench) -> None:
    (bench.root / "a.png").write_bytes(data)
    result = bench.call("Read", file_path="a.png")
    assert result.error_class == "tool_rejected"
    assert said in result.content
    assert not result.media


@pytest.mark.parametrize(
    ("data", "media_type", "size"),
    [
        (png(), "image/png", "PNG image, 2 × 3 pixels"),
        (JPEG, "image/jpeg", "JPEG image, 5 × 7 pixels"),
        (GIF, "image/gif", "GIF image, 4 × 6 pixels"),
        (WEBP, "image/webp", "WebP image, 9 × 10 pixels"),
    ],
)
def test_an_image_is_shown_by_its_bytes_not_its_name(data: bytes, media_type: str, size: str, bench: Bench) -> None:
    (bench.root / "picture.txt").write_bytes(data)
    result = bench.call("Read", file_path="picture.txt")
    assert not result.is_error, result.content
    assert result.content.startswith(f"picture.txt: {size}")
    ((kind, encoded, name),) = result.media
    assert (kind, base64.b64decode(encoded), name) == (media_type, data, "picture.txt")


def test_text_that_begins_like_an_image_stays_text(bench: Bench) -> None:
    (bench.root / "a.txt").write_text("RIFFs and raffs\n")
    assert "RIFFs" in bench.call("Read", file_path="a.txt").content


# ------------------------------------------------------------------ PDFs


def pdf(*texts: str, password: str = "") -> bytes:
    writer = PdfWriter()
    for text in texts:
        page = writer.add_blank_page(200, 200)
        if text:
            stream = DecodedStreamObject()
            stream.set_data(f"BT /F1 12 Tf 10 100 Td ({text}) Tj ET".encode())
            font = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
            fonts = DictionaryObject({NameObject(k): NameObject(v) for k, v in font.items()})
            page[NameObject("/Resources")] = DictionaryObject(
                {NameObject("/Font"): DictionaryObject({NameObject("/F1"): fonts})}
            )
            page[NameObject("/Contents")] = writer._add_object(stream)  # pyright: ignore[reportPrivateUsage]
    if password:
        writer.encrypt(password)
    made = io.BytesIO()
    writer.write(made)
    return made.getvalue()


@pytest.mark.parametrize(
    ("data", "pages", "said"),
    [
        (b"%PDF-1.7\nnothing of the kind", "", "cannot be read as a PDF"),
        (pdf("one")[:200], "", "cannot be read as a PDF"),
        (pdf("one", password="secret"), "", "encrypted"),
        (pdf(*["x"] * 11), "", "has 11 pages; name at most 20 of them"),
        (pdf(*["x"] * 25), "1-25", "at most 20"),
        (pdf("one"), "two", "selects none of them"),
        (pdf("one"), "2", "is not one of them"),
        (pdf("one"), "0", "is not one of them"),
        (pdf("one"), "-3", "selects none of them"),
        (pdf("one"), "1-99999999999", None),
    ],
)
def test_a_pdf_that_is_asked_for_what_it_has_not(data: bytes, pages: str, said: str | None, bench: Bench) -> None:
    (bench.root / "a.pdf").write_bytes(data)
    result = bench.call("Read", file_path="a.pdf", pages=pages)
    assert result.is_error == (said is not None)
    assert (said or "one") in result.content


def test_the_text_of_the_pages_that_were_asked_for(bench: Bench) -> None:
    (bench.root / "a.pdf").write_bytes(pdf(*(f"page no {number}" for number in range(1, 13))))
    result = bench.call("pdf_extract", path="a.pdf", pages="2, 11-")
    pages = "".join(f"--- page {number} ---\npage no {number}\n" for number in (2, 11, 12))
    assert result.content == f"{pages}(a.pdf: PDF, 3 of 12 pages)"
    assert not result.media


def test_pages_without_text_come_as_a_document(bench: Bench) -> None:
    (bench.root / "scan.pdf").write_bytes(pdf("words", ""))
    result = bench.call("Read", file_path="scan.pdf")
    assert "pages without text, shown as a document: 2" in result.content
    (media,) = result.media
    assert media.media_type == "application/pdf"
    assert base64.b64decode(media.data).startswith(b"%PDF-")


# ------------------------------------------------------------------ notebooks


def cell(source: Any, kind: str = "code", **more: Any) -> dict[str, Any]:
    extra: dict[str, Any] = {"execution_count": 1, "outputs": []} if kind == "code" else {}
    return {"cell_type": kind, **extra, "metadata": {}, "source": source, **more}


def book(*cells: dict[str, Any], minor: int = 5, **more: Any) -> dict[str, Any]:
    return {"cells": list(cells), "metadata": {"kept": [1, 2]}, "nbformat": 4, "nbformat_minor": minor, **more}


def write(bench: Bench, content: Any, name: str = "n.ipynb") -> Path:
    file = bench.root / name
    file.write_text(content if isinstance(content, str) else json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return file


NO_NOTEBOOKS = [
    "", "{", "[]", "{}", '{"nbformat": 4}', '{"nbformat": 4, "cells": {}}', '{"nbformat": 3, "cells": []}',
    '{"nbformat": 4, "cells": [3]}', '{"nbformat": 4, "cells": [{"cell_type": "code", "source": [1]}]}', "[" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("content", NO_NOTEBOOKS)
def test_a_notebook_that_is_none(content: str, bench: Bench) -> None:
    file = write(bench, content)
    shown = bench.call("Read", file_path="n.ipynb")
    assert not shown.is_error, "it is shown as the text that it is"
    result = bench.call("NotebookEdit", notebook_path="n.ipynb", cell_id="a", new_source="x")
    assert result.error_class == "tool_rejected"
    assert "cannot be changed as a notebook" in result.content
    assert file.read_text() == content


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cell_id": "zzz"}, "There is no cell 'zzz'. Existing cells: a, b, b"),
        ({"cell_id": "b"}, "2 cells have the id 'b'"),
        ({}, "cell_id is missing"),
        ({"edit_mode": "delete"}, "cell_id is missing"),
        ({"edit_mode": "insert", "cell_id": "a"}, "cell_type is needed"),
        ({"edit_mode": "insert", "cell_id": "zz", "cell_type": "code"}, "There is no cell 'zz'"),
        ({"notebook_path": "a.txt", "cell_id": "a"}, "Use Edit"),
        ({"notebook_path": "none.ipynb", "cell_id": "a"}, "does not exist"),
    ],
)
def test_an_edit_that_cannot_be_made(given: dict[str, Any], said: str, bench: Bench) -> None:
    file = write(bench, book(cell("x", id="a"), cell("y", id="b"), cell("z", id="b")))
    before = file.read_bytes()
    bench.call("Read", file_path="n.ipynb")
    result = bench.call("NotebookEdit", **{"notebook_path": "n.ipynb", "new_source": "new", **given})
    assert result.error_class == "tool_rejected"
    assert said in result.content
    assert file.read_bytes() == before


def test_a_notebook_must_have_been_read_and_not_changed_since(bench: Bench) -> None:
    file = write(bench, book(cell("x", id="a")))
    edit = {"notebook_path": "n.ipynb", "cell_id": "a", "new_source": "y"}
    assert "has not been read" in bench.call("NotebookEdit", **edit).content
    bench.call("Read", file_path="n.ipynb")
    file.write_text(json.dumps(book(cell("other", id="a"))))
    assert "modified since" in bench.call("NotebookEdit", **edit).content
    file.unlink()
    assert "does not exist" in bench.call("NotebookEdit", **edit).content
    assert "Use NotebookEdit" in bench.call("Edit", file_path="n.ipynb", old_string="x", new_string="y").content


def test_cells_are_shown_with_their_outputs(bench: Bench) -> None:
    outputs: list[Any] = [
        {"output_type": "stream", "name": "stdout", "text": ["a\n", "b\n"]},
        {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\x1b[31mred\x1b[0m", "line"]},
        {"output_type": "display_data", "data": {"image/png": base64.b64encode(png()).decode(), "text/plain": "<fig>"}},
        {"output_type": "execute_result", "data": {"text/plain": ["42"]}},
        {"output_type": "display_data", "data": {"image/png": "no base64!", "text/plain": "broken picture"}},
        {"output_type": "stream", "text": "x" * 20_000},
        "nonsense",
    ]
    write(bench, book(cell("# Title", "markdown", id="m"), cell(["1\n", "+1"], outputs=outputs, id="c")))
    result = bench.call("Read", file_path="n.ipynb")
    text = result.content
    assert (
        '<cell id="m" type="markdown">\n# Title\n</cell>\n<cell id="c" type="code">\n1\n+1\n</cell>\n<output>' in text
    )
    for said in (
        "a\nb\n",
        "red\nline",
        "shown next to this text as number 1",
        "42",
        "broken picture",
        "10000 characters of",
    ):
        assert said in text
    assert text.endswith("(n.ipynb: notebook, 2 cells)")
    assert [one.media_type for one in result.media] == ["image/png"]


def test_each_way_to_change_a_notebook_leaves_the_rest_as_it_was(bench: Bench) -> None:
    first, second = cell(["x = 1\n", "y"], id="a"), cell("text", "markdown", id="b")
    file = write(bench, book(first, second, own={"key": "ä"}))
    os.chmod(file, 0o640)
    bench.call("Read", file_path="n.ipynb")
    done = bench.call("NotebookEdit", notebook_path="n.ipynb", cell_id="a", new_source="x = 2\ny")
    assert done.content.startswith("Replaced the cell a of n.ipynb ("), done.content
    assert not bench.call("NotebookEdit", notebook_path="n.ipynb", cell_id="b", edit_mode="delete").is_error
    insert: dict[str, Any] = {"notebook_path": "n.ipynb", "edit_mode": "insert"}
    assert not bench.call("NotebookEdit", **insert, cell_type="markdown", new_source="# Top").is_error
    assert not bench.call("NotebookEdit", **insert, cell_type="code", cell_id="a", new_source="z").is_error
    made = json.loads(file.read_text())
    assert [one["source"] for one in made["cells"]] == [["# Top"], ["x = 2\n", "y"], ["z"]]
    assert made["cells"][1]["outputs"] == []
    assert made["cells"][1]["execution_count"] is None
    assert all(one["id"] for one in made["cells"])
    assert (made["own"], made["metadata"], made["nbformat_minor"]) == ({"key": "ä"}, {"kept": [1, 2]}, 5)
    assert file.read_text().startswith('{\n "cells"')
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_an_old_notebook_has_its_cells_numbered_and_gets_no_ids(bench: Bench) -> None:
    file = write(bench, book(cell("x"), cell("y"), minor=2))
    assert '<cell id="cell-1"' in bench.call("Read", file_path="n.ipynb").content
    edit = {"notebook_path": "n.ipynb", "cell_id": "cell-1", "new_source": "s", "cell_type": "markdown"}
    assert not bench.call("NotebookEdit", **edit).is_error
    assert not bench.call("NotebookEdit", **edit | {"edit_mode": "insert"}).is_error
    cells = json.loads(file.read_text())["cells"]
    assert [sorted(one) for one in cells[1:]] == [["cell_type", "metadata", "source"]] * 2
    assert cells[1]["source"] == "s", "the form of the source stays"


# ------------------------------------------------------------------ what is kept


def test_what_is_too_long_is_kept_once_and_cleaned(bench: Bench, tmp_path: Path) -> None:
    keep = long_outputs.LongOutputs(str(tmp_path / "out" / "s"), lambda text: text.replace("hunter2", "[redacted]"))
    bench.ctx.outputs_folder, bench.ctx.store_output = keep.folder, keep
    text = "hunter2 " + "x" * 50_000
    one, two = long_outputs.shorten_text(text, keep), long_outputs.shorten_text(text, keep)
    assert one == two, "a call that is repeated has the same result"
    (file,) = Path(keep.folder).iterdir()
    assert f"Read {file} has all of it" in one
    assert file.read_text() == "[redacted] " + "x" * 50_000
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert bench.call("Read", file_path=str(file)).content.startswith("     1\t[redacted]")
    assert bench.call("Write", file_path=str(file), content="x").denial, "it is there to be read"
    old = tmp_path / "out" / "old"
    old.mkdir()
    os.utime(old, (0, 0))
    assert long_outputs.LongOutputs(str(tmp_path / "out" / "t"), str)("y") is not None
    assert not old.exists(), "outputs of long ago are removed"


def test_where_nothing_can_be_kept_the_middle_is_only_left_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = long_outputs.shorten_text("x" * 50_000, long_outputs.LongOutputs(str(tmp_path / "file" / "s"), str))
    assert "characters left out …]" in said
