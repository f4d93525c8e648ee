"""Small inputs that would become large: each is refused, or made small, before memory is taken for it."""

import asyncio
import base64
import gzip
import io
import json
import os
import resource
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from adderclaw.config.schema import Config
from adderclaw.core.errors import PathRefused
from adderclaw.core.host import ToolContext
from adderclaw.core.json_text import check_size
from adderclaw.core.types import Workspace
from adderclaw.policy.legacy.programs import patches
from adderclaw.policy.legacy.programs.operands import ARCHIVE, PATCH
from adderclaw.policy.legacy.shell import planner
from adderclaw.tools import images, notebook, pages, websearch
from adderclaw.tools.files import digest
from adderclaw.tools.legacy import archives
from tests.tools.conftest import Bench

MEMORY_MB = 150
"""What a bomb may take beyond what the process had before; each of them would take several times that."""
LIMIT = 3 << 30
MB = 1 << 20


class Ground:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.bench = Bench(root, root, ToolContext("c", "s", Workspace(str(root))), Config())

    def call(self, name: str, file: str, data: bytes, /, **given: Any) -> str:
        path = self.root / file
        path.write_bytes(data)
        self.bench.ctx.files_read[str(path)] = digest(data)
        return self.bench.call(name, **given).content


# ------------------------------------------------------------------ the table: what each bomb answers


def edit(ground: Ground) -> str:
    given: Any = {"file_path": "f", "old_string": "a", "new_string": "b" * 5_000, "replace_all": True}
    return ground.call("Edit", "f", b"a" * MB, **given)


def edit_of_wide_text(ground: Ground) -> str:
    given: Any = {"file_path": "f", "old_string": "a", "new_string": "\U0001f600" * 2_000, "replace_all": True}
    return ground.call("Edit", "f", b"\xff\xfe" + b"a\0" * MB, **given)


def write(ground: Ground) -> str:
    return ground.call("Write", "f", b"", file_path="f", content="\u00e9" * 40 * MB)


def cells(source: str, count: int) -> str:
    return json.dumps([{"cell_type": "code", "source": source}] * count)


def notebook_indent(ground: Ground) -> str:
    text = "{\n" + " " * 500_000 + '"nbformat": 4, "cells": ' + cells("x", 5_000) + "}"
    given: Any = {"notebook_path": "n.ipynb", "cell_id": "cell-0", "new_source": "y"}
    return ground.call("NotebookEdit", "n.ipynb", text.encode(), **given)


def notebook_depth(ground: Ground) -> str:
    deep = ",".join(["[" * 500 + "]" * 500] * 500)
    text = '{\n        "nbformat": 4, "metadata": [' + deep + '], "cells": ' + cells("x", 2) + "}"
    given: Any = {"notebook_path": "n.ipynb", "cell_id": "cell-0", "new_source": "y"}
    return ground.call("NotebookEdit", "n.ipynb", text.encode(), **given)


def notebook_lists(ground: Ground) -> str:
    text = '{"nbformat": 4, "cells": [], "x": [' + "[]," * (5 * MB) + "0]}"
    given: Any = {"notebook_path": "n.ipynb", "new_source": "y", "edit_mode": "insert", "cell_type": "code"}
    return ground.call("NotebookEdit", "n.ipynb", text.encode(), **given)


def read_notebook_lists(ground: Ground) -> str:
    text = '{"nbformat": 4, "cells": [], "x": [' + '{"a":0},' * (2 * MB - 100) + "0]}"
    return ground.call("Read", "n.ipynb", text.encode(), file_path="n.ipynb")


def grep(ground: Ground) -> str:
    given: Any = {"pattern": "^", "path": ".", "output_mode": "content", "-n": False}
    return ground.call("Grep", "f", b"\n" * (2 * MB), **given)


def page_of_scripts(ground: Ground) -> str:
    return str(len(pages.text_of(b"<script " * 200_000, "text/html")))


def page_in_punycode(ground: Ground) -> str:
    return str(len(pages.text_of(b"a-" + b"9" * MB, "text/plain; charset=punycode")))


def zip_with_many_files(ground: Ground) -> str:
    central = b"PK\x01\x02" + bytes(42)
    count = 500_000
    end = b"PK\x05\x06" + bytes(8) + (len(central) * count).to_bytes(4, "little") + bytes(6)
    (ground.root / "z.zip").write_bytes(central * count + end)
    return str(list(archives.names(f"{ground.root}/z.zip{ARCHIVE}")))


def zip_with_a_long_list(ground: Ground) -> str:
    with zipfile.ZipFile(ground.root / "z.zip", "w") as made:
        for number in range(1_500):
            info = zipfile.ZipInfo(f"{number:06}" + "n" * 60_000)
            made.writestr(info, b"")
    return str(list(archives.names(f"{ground.root}/z.zip{ARCHIVE}")))


def tar_with_a_long_header(ground: Ground) -> str:
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, 500 * MB
    with gzip.open(ground.root / "t.tar.gz", "wb", compresslevel=1) as made:
        made.write(header.tobuf(tarfile.GNU_FORMAT))
        for _ in range(500):
            made.write(bytes(MB))
    return str(list(archives.names(f"{ground.root}/t.tar.gz{ARCHIVE}")))


def tar_that_unpacks_to_much(ground: Ground) -> str:
    header = tarfile.TarInfo("zeros")
    header.size = 6 << 30
    with gzip.open(ground.root / "t.tar.gz", "wb") as made:
        made.write(header.tobuf(tarfile.GNU_FORMAT))
        made.write(bytes(MB))
    return str(list(archives.names(f"{ground.root}/t.tar.gz{ARCHIVE}")))


def patch_of_one_line(ground: Ground) -> str:
    (ground.root / "p.diff").write_bytes(b"+++ " + b"a " * (5 * MB))
    return str(list(archives.names(f"{ground.root}/p.diff{PATCH}")))


def patch_of_deep_names(ground: Ground) -> str:
    return str(len(list(patches.changed(f"+++ {'a/' * 30_000}x\n" * 50))))


def image_of_many_pixels(ground: Ground) -> str:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    size = (60_000).to_bytes(4, "big")
    picture = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size + size + b"\x08\x02\0\0\0") + chunk(b"IEND", b"")
    try:
        images.measure_image(picture)
    except images.BrokenImage as error:
        return f"{error} / {ground.call('Read', 'i.png', picture, file_path='i.png')}"
    return "shown"


def image_in_a_notebook(ground: Ground) -> str:
    data = {"image/png": base64.b64encode(bytes(12 * MB)).decode()[: 15 * MB]}
    cell: Any = {"cell_type": "code", "source": "", "outputs": [{"output_type": "display_data", "data": data}]}
    text = json.dumps({"nbformat": 4, "cells": [cell]})
    return ground.call("Read", "n.ipynb", text.encode(), file_path="n.ipynb")


def search_results(ground: Ground) -> str:
    body = b'{"results": [' + b"{}," * (3 * MB) + b"{}]}"
    return str(websearch._parse_results("tavily", body))  # pyright: ignore[reportPrivateUsage]


def mcp_line(ground: Ground) -> str:
    """Of a server that is a program: each line is one message, and this one is none that is read."""
    import anyio
    from mcp.shared.message import SessionMessage

    from adderclaw.tools.mcp import pipes

    async def messages() -> int:
        lines = asyncio.StreamReader(limit=16 * MB)
        lines.feed_data(b'{"jsonrpc": "2.0", "id": 1, "result": {"x": [' + b"[]," * (4 * MB) + b"0]}}\n")
        lines.feed_eof()
        child: Any = SimpleNamespace(stdout=lines, report_first_output=lambda: None)
        inward, read = anyio.create_memory_object_stream[SessionMessage | Exception](9)
        await pipes._read(child, inward)  # pyright: ignore[reportPrivateUsage]
        return read.statistics().current_buffer_used

    return f"{asyncio.run(messages())} messages"


def mcp_body(ground: Ground) -> str:
    import httpx2

    from adderclaw.tools.mcp.streams import Capped

    class Network(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            return httpx2.Response(200, content=b"[]," * (4 * MB))

    async def body() -> str:
        async with httpx2.AsyncClient(transport=Capped(Network(), open_door=False)) as client:
            try:
                return str(len((await client.get("http://server.example/")).content))
            except httpx2.ReadError as error:
                return str(error)

    return asyncio.run(body())


def a_large_number(ground: Ground) -> str:
    try:
        notebook.parse_notebook(b'{"nbformat": 4, "cells": [], "x": ' + b"9" * (10 * MB) + b"}")
    except notebook.NotANotebook as error:
        return str(error)
    return "parsed"


def planned(text: str) -> str:
    made = planner.plan(text, lambda name: f"/usr/bin/{name}")
    return made.reason if isinstance(made, planner.Raw) else "a plan"


def variables(ground: Ground) -> str:
    names = "abcdefgh"
    doubled = "".join(f"{to}={f'${of}' * 10}; " for of, to in pairwise(names))
    return planned(f"a={'x' * 10}; {doubled} echo $h")


def replaced_variables(ground: Ground) -> str:
    return planned(f"a={'x' * 300}; c=${{a//x/{'y' * 5_000}}}; echo {'$c ' * 60}")


def many_braces(ground: Ground) -> str:
    return planned(f"a={'x' * 9_000}; echo {{1..999}}${{a}}")


BOMBS: list[tuple[Callable[[Ground], str], str]] = [
    (edit, "would grow to"),
    (edit_of_wide_text, "would grow to"),
    (write, "can be written at once"),
    (notebook_indent, "Replaced the cell"),
    (notebook_depth, "it would have more than"),
    (notebook_lists, "lists and objects"),
    (read_notebook_lists, ""),
    (grep, "f:"),
    (page_of_scripts, ""),
    (page_in_punycode, ""),
    (zip_with_many_files, "more than 100,000 files"),
    (zip_with_a_long_list, "list of files"),
    (tar_with_a_long_header, "too long to read"),
    (tar_that_unpacks_to_much, "would unpack to"),
    (patch_of_one_line, "is not checked"),
    (patch_of_deep_names, "is not checked"),
    (image_of_many_pixels, "pixels"),
    (image_in_a_notebook, "image/png"),
    (search_results, "None"),
    (mcp_line, "0 messages"),
    (mcp_body, "lists and objects"),
    (a_large_number, "it is not JSON"),
    (variables, "after expansion"),
    (replaced_variables, "after expansion"),
    (many_braces, "after expansion"),
]


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def explode(bomb: Callable[[Ground], str]) -> tuple[int, str]:
    """In a process of its own: how many megabytes it took at most, and what came of it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
        resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
        before = peak()
        with tempfile.TemporaryDirectory() as folder:
            try:
                said = bomb(Ground(Path(folder)))
            except PathRefused as error:
                said = f"refused: {error}"
            except BaseException as error:  # noqa: BLE001 - it is told to the parent
                said = f"broken by {error!r:.200}"
        os.write(writer, json.dumps([peak() - before, said[:2_000]]).encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        told = file.read()
    status = os.waitpid(child, 0)[1]
    return tuple(json.loads(told)) if told else (0, f"ended by {status}")


def main() -> None:
    made = io.StringIO()
    json.dump({bomb.__name__: explode(bomb) for bomb, _ in BOMBS}, made)
    print(made.getvalue())


def test_no_bomb_takes_memory(needs: Callable[[str], str]) -> None:
    needs("rg")
    done = subprocess.run(
        [sys.executable, "-c", "from tests.tools import test_bombs; test_bombs.main()"],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, tuple[int, str]] = json.loads(done.stdout)
    wrong = [
        f"{bomb.__name__}: {found[bomb.__name__][0]} MB, {found[bomb.__name__][1][:150]!r}, not {wanted!r}"
        for bomb, wanted in BOMBS
        if found[bomb.__name__][0] > MEMORY_MB or wanted not in found[bomb.__name__][1]
    ]
    assert not wrong, "\n".join(wrong)


def test_what_is_ordinary_is_read() -> None:
    check_size(json.dumps([{"cell": [number]} for number in range(50_000)]).encode())
