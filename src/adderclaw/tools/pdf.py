"""Read for PDFs: the text of their pages; pages that have none are shown as a document, where the model takes one."""

import json
import os
import sys
from typing import Any

from adderclaw.core.types import MediaBlock, PathFact, ToolContext, ToolResult, internal_failure, rejected
from adderclaw.tools import paths

WHOLE, MOST = 10, 20
"""Pages that are read unasked, and at once."""
FILE_BYTES = 256 << 20
OUTPUT_BYTES = 16 << 20
SECONDS = 60.0
PROGRAM = os.path.join(os.path.dirname(__file__), "pdf_pages.py")


async def read(fd: int, place: PathFact, pages: str, ctx: ToolContext) -> ToolResult:
    from adderclaw.sandbox import process

    name, size = paths.relative(place.path, ctx), os.fstat(fd).st_size
    if size > FILE_BYTES:
        return rejected(f"{name} has {size} bytes; PDFs of at most {FILE_BYTES >> 20} MiB can be read.")
    done = await process.run(
        [sys.executable, "-I", PROGRAM, str(fd), str(WHOLE), str(MOST), pages],
        cwd="/",
        env=process.environment(workspace_roots=(ctx.workspace.root, *ctx.workspace.extra)),
        timeout=SECONDS,
        max_bytes=OUTPUT_BYTES,
        pass_fds=(fd,),
    )
    if done.timed_out:
        return internal_failure(f"{name} could not be read within {SECONDS:g} s: ask for fewer pages.")
    try:
        said: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return rejected(f"{name} cannot be read as a PDF: its parser gave up (exit code {done.returncode}).")
    if error := said.get("error"):
        return rejected(f"{name} {error}.")
    return _shown(said, name, place, size)


def _shown(said: dict[str, Any], name: str, place: PathFact, size: int) -> ToolResult:
    parts = [f"--- page {number} ---\n{text}".rstrip() for number, text in said["texts"]]
    numbers = [number for number, _ in said["texts"]]
    media: tuple[MediaBlock, ...] = ()
    if said["document"]:
        media = (MediaBlock("application/pdf", said["document"], os.path.basename(place.path)),)
        parts.append(f"(pages without text, shown as a document: {', '.join(map(str, said['blank']))})")
    elif said["blank"]:
        parts.append(f"(no text on pages {', '.join(map(str, said['blank']))}, which are too large to be shown)")
    parts.append(f"({name}: PDF, {len(numbers)} of {said['total']} pages)")
    about = {"file_path": place.path, "pages": numbers, "total_pages": said["total"], "bytes": size}
    return ToolResult("\n".join(parts), metadata=about, media=media)
